//! The output of programs: the payoffs of a round, or a player's action.

use fedbo_objective::{Program, ProgramOutput};
use fedbo_space::Point;
use serde_json::{Map, Value};

use crate::{GameHistory, MissingActionReason};

/// Maximum number of characters of an output line in a message.
const SHOWN_CHARS: usize = 200;

/// Largest absolute payoff. Squares of larger payoffs could overflow.
pub(crate) const PAYOFF_MAX: f64 = 1e100;

/// The payoffs of a round in which some are missing.
pub(crate) struct Lost {
    /// One payoff per player; `None` if it is missing.
    pub(crate) paid: Vec<Option<f64>>,
    pub(crate) cause: MissingActionReason,
}

/// Computes the payoffs of a round. Returns `None` if the game was asked to stop. The error
/// contains the available payoffs and the reason for the missing ones.
pub(crate) fn pay(
    course: &GameHistory,
    program: &Program,
    actions: &[Point],
) -> Result<Option<Vec<Option<f64>>>, Lost> {
    let players = &course.definition().players;
    let names: Vec<&str> = players.iter().map(|player| player.name.as_str()).collect();
    let joint: Map<String, Value> = players
        .iter()
        .zip(actions)
        .map(|(player, point)| (player.name.clone(), serde_json::json!(point)))
        .collect();
    let value = |placeholder: &str| {
        let (name, parameter) = placeholder.split_once('.')?;
        let player = names.iter().position(|known| *known == name)?;
        Some(actions[player].get(parameter)?.to_string())
    };
    let environment = [
        ("FEDBO_ACTIONS", Value::Object(joint).to_string()),
        ("FEDBO_ROUND", (course.rounds().len() + 1).to_string()),
    ];
    let nothing = vec![None; names.len()];
    let printed = match program.print(value, &environment, None) {
        Ok(Some(printed)) => printed,
        Ok(None) => return Ok(None),
        Err(failure) => {
            let (paid, cause) = (nothing, failure.into());
            return Err(Lost { paid, cause });
        }
    };
    match payoffs(&printed, &names) {
        Ok(paid) => match paid.iter().position(Option::is_none) {
            None => Ok(Some(paid)),
            Some(player) => {
                let player = names[player].to_owned();
                let cause = MissingActionReason::LostPayoff { player };
                Err(Lost { paid, cause })
            }
        },
        Err(cause) => Err(Lost { paid: nothing, cause }),
    }
}

/// Parses a line of payoffs, one per player: a JSON object by name, or numbers in the order of the
/// players. A payoff is `None` if the program reports it as lost (null, NaN, infinity, or an
/// absolute value that is too large).
///
/// # Errors
/// If the line has a different format.
fn payoffs(
    printed: &ProgramOutput,
    names: &[&str],
) -> Result<Vec<Option<f64>>, MissingActionReason> {
    let expected = || {
        let named: Vec<String> = names.iter().map(|name| format!("{name:?}: ..")).collect();
        format!("{{{}}}, or {} numbers in this order", named.join(", "), names.len())
    };
    let found = printed
        .last_line
        .as_deref()
        .and_then(|line| by_name(line, names).or_else(|| in_order(line, names.len())));
    found.ok_or_else(|| invalid_output(printed, expected()))
}

/// Parses a line with an action: a JSON object with one value per parameter.
///
/// # Errors
/// If the line has a different format.
pub(crate) fn action(
    printed: &ProgramOutput,
    names: &[&str],
) -> Result<Point, MissingActionReason> {
    let line = printed.last_line.as_deref();
    let point: Option<Point> = line.and_then(|line| serde_json::from_str(line).ok());
    point.ok_or_else(|| invalid_output(printed, expected_action(names)))
}

/// Describes the expected format of an action.
pub(crate) fn expected_action(names: &[&str]) -> String {
    let named: Vec<String> = names.iter().map(|name| format!("{name:?}: ..")).collect();
    format!("{{{}}}", named.join(", "))
}

/// Returns the last line of the program's output, quoted and shortened.
pub(crate) fn shown(printed: &ProgramOutput) -> String {
    match &printed.last_line {
        None => "nothing".to_owned(),
        Some(line) => format!("{:?}", line.chars().take(SHOWN_CHARS).collect::<String>()),
    }
}

/// Returns the error for invalid output of a program.
fn invalid_output(printed: &ProgramOutput, expected: String) -> MissingActionReason {
    let stderr = match printed.stderr.as_str() {
        "" => String::new(),
        text => format!("; its standard error ends: {text}"),
    };
    MissingActionReason::Nonsense { found: shown(printed), expected, stderr }
}

fn by_name(line: &str, names: &[&str]) -> Option<Vec<Option<f64>>> {
    // Python's json module writes NaN and Infinity, which are not JSON.
    let object: Map<String, Value> =
        [line, &with_nulls(line)].iter().find_map(|text| serde_json::from_str(text).ok())?;
    if object.len() != names.len() {
        return None;
    }
    let payoff = |name: &&str| match object.get(*name)? {
        Value::Null => Some(None),
        value => value.as_f64().map(usable),
    };
    names.iter().map(payoff).collect()
}

/// Replaces NaN and infinities with null, except in strings.
fn with_nulls(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for (index, part) in line.split('"').enumerate() {
        if index > 0 {
            text.push('"');
        }
        // A string between two quotes is a name. A name that contains a quote is not found, and the
        // line is refused.
        if index % 2 == 1 {
            text.push_str(part);
            continue;
        }
        let part = part.replace("-Infinity", "null");
        text += &part.replace("Infinity", "null").replace("NaN", "null");
    }
    text
}

fn in_order(line: &str, n: usize) -> Option<Vec<Option<f64>>> {
    let words: Vec<&str> = line.split([',', ' ', '\t']).filter(|word| !word.is_empty()).collect();
    if words.len() != n {
        return None;
    }
    let payoff = |word: &str| {
        let number: f64 = word.parse().ok()?;
        Some(usable(number))
    };
    words.into_iter().map(payoff).collect()
}

fn usable(payoff: f64) -> Option<f64> {
    (payoff.abs() <= PAYOFF_MAX).then_some(payoff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(line: &str) -> ProgramOutput {
        ProgramOutput {
            last_line: (!line.is_empty()).then(|| line.to_owned()),
            stderr: "Traceback".to_owned(),
        }
    }

    #[test]
    fn payoffs_are_named_or_in_order() {
        let names = ["shop", "rival"];
        for line in [r#"{"rival": 2, "shop": 1.5}"#, "1.5 2", "1.5,2.0", "1.5, 2", "1.5\t2"] {
            let found = payoffs(&printed(line), &names).unwrap();
            assert_eq!(found, [Some(1.5), Some(2.0)], "{line}");
        }
        for line in [
            r#"{"rival": null, "shop": 1.5}"#,
            r#"{"shop": 1.5, "rival": NaN}"#,
            r#"{"shop": 1.5, "rival": -Infinity}"#,
            "1.5 nan",
            "1.5 inf",
            "1.5 -1e308",
            r#"{"shop": 1.5, "rival": 2e100}"#,
        ] {
            let found = payoffs(&printed(line), &names).unwrap();
            assert_eq!(found, [Some(1.5), None], "{line}");
        }
    }

    #[test]
    fn a_name_may_look_like_no_number() {
        let names = ["NaNcy", "Infinity"];
        for (line, expected) in [
            (r#"{"NaNcy": NaN, "Infinity": 2}"#, [None, Some(2.0)]),
            (r#"{"NaNcy": 1, "Infinity": -Infinity}"#, [Some(1.0), None]),
        ] {
            assert_eq!(payoffs(&printed(line), &names).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn anything_else_is_shown_with_what_was_asked_for() {
        let names = ["shop", "rival"];
        for line in [
            "",
            "1.5",
            "1 2 3",
            "one two",
            r#"{"shop": 1.5}"#,
            r#"{"shop": 1.5, "rivla": 2}"#,
            r#"{"shop": 1.5, "rival": "2"}"#,
            "[1.5, 2]",
        ] {
            let message = payoffs(&printed(line), &names).unwrap_err().to_string();
            for part in [r#""shop": .., "rival": .."#, "2 numbers", "Traceback"] {
                assert!(message.contains(part), "{line}: {message}");
            }
        }
        let message = action(&printed("0.3"), &["price"]).unwrap_err().to_string();
        assert!(message.contains(r#"expected {"price": ..}"#), "{message}");
    }
}
