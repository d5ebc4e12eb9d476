//! Detects malformed reports and describes their faults.

use serde_json::{Map, Value};

/// Maximum number of characters quoted from a line.
const QUOTED_CHARS: usize = 120;

/// A line that resembles a report but is not a valid one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NearReport {
    /// Degree of resemblance to a report. Higher is more similar.
    pub(super) likeness: u8,
    /// The quoted line and its fault.
    pub(super) what: String,
}

impl NearReport {
    /// Checks a line that is not a report. Returns `None` if the line does not resemble one.
    pub(super) fn of(line: &str) -> Option<Self> {
        let (likeness, why) = fault(line)?;
        Some(Self::new(likeness, line, &why))
    }

    /// Creates an entry for a valid report that was printed to standard error.
    pub(super) fn on_standard_error(line: &str) -> Self {
        let why = "it is on standard error, but reports are read from standard output";
        Self::new(u8::MAX, line, why)
    }

    fn new(likeness: u8, line: &str, why: &str) -> Self {
        let shown = line.chars().filter(|c| !c.is_control());
        let mut quoted: String = shown.take(QUOTED_CHARS).collect();
        if line.chars().count() > QUOTED_CHARS {
            quoted.push('…');
        }
        Self { likeness, what: format!("`{quoted}` is not a report: {why}") }
    }
}

/// Returns a line's likeness to a report, and its fault.
///
/// Returns `None` if the line does not resemble a report or is a valid one.
fn fault(line: &str) -> Option<(u8, String)> {
    let brace = line.find('{');
    let object = brace.and_then(|at| serde_json::from_str::<Map<String, Value>>(&line[at..]).ok());
    let Some(object) = object else {
        if brace.is_some() && line.contains("'epoch'") && line.contains("'value'") {
            let why = "JSON needs double quotes; in Python print(json.dumps(..), flush=True)";
            return Some((3, why.to_owned()));
        }
        let has_word = line.to_ascii_lowercase().contains("epoch");
        return has_word.then(|| (1, "it is not a JSON object".to_owned()));
    };
    match (object.get("epoch"), object.get("value")) {
        (Some(Value::Number(_)), Some(Value::Number(_) | Value::Null)) => {
            let why = "a report must begin with its brace, but other text precedes it";
            (brace != Some(0)).then(|| (5, why.to_owned()))
        }
        (Some(epoch), Some(value)) => Some((
            4,
            match epoch {
                Value::Number(_) => format!("its value is {value}, expected a number"),
                _ => format!("its epoch is {epoch}, expected a whole number from 1"),
            },
        )),
        (None, Some(_)) if object.len() > 1 => Some((3, "it has no \"epoch\"".to_owned())),
        (Some(_), None) => Some((3, "it has no \"value\"".to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        for (line, expected) in [
            ("{\"step\": 3, \"value\": 0.5}", "it has no \"epoch\""),
            ("{\"epoch\": 3, \"loss\": 0.5}", "it has no \"value\""),
            ("{\"epoch\": \"3\", \"value\": 1}", "its epoch is \"3\", expected a whole number"),
            ("{\"epoch\": 3, \"value\": \"low\"}", "its value is \"low\", expected a number"),
            ("INFO {\"epoch\": 3, \"value\": 1}", "other text precedes it"),
            ("{'epoch': 3, 'value': 1}", "JSON needs double quotes"),
            ("Epoch 3/10 loss 0.5", "it is not a JSON object"),
        ] {
            let found = NearReport::of(line).expect("it looks like one");
            assert!(found.what.contains(expected), "{found:?}");
            assert!(found.what.starts_with(&format!("`{line}`")), "{found:?}");
        }
        for line in ["", "0.5", "{\"value\": 0.5}", "[1, 2]", "loading {data}"] {
            assert_eq!(NearReport::of(line), None, "{line}");
        }
        let long = format!("epoch {}", "x".repeat(1000));
        assert!(NearReport::of(&long).is_some_and(|found| found.what.len() < 200));
    }
}
