//! Checks of a parameter's declaration.

use std::collections::BTreeMap;

use crate::kind::whole_number;
use crate::stepped::Refused;
use crate::{Kind, NumberSet, ParameterSpec, Stepped, Value};

/// Maximum length of `values`.
const MAX_VALUES: usize = 10_000;

/// Returns the error for a key, with the value found and the expected values.
pub(crate) fn refused<T>(
    key: &'static str,
    found: impl ToString,
    expected: &str,
) -> Result<T, Refused> {
    Err((key, found.to_string(), expected.to_owned()))
}

/// Checks the range of a `float` or an `int`.
pub(crate) fn checked_range(spec: &ParameterSpec, is_int: bool) -> Result<Kind, Refused> {
    if let Some(values) = &spec.values {
        return checked_values(spec, values, is_int);
    }
    let bound = |key: &'static str, value: Option<f64>| match value {
        Some(v) if v.is_finite() => Ok(v),
        Some(v) => refused(key, v, "a finite number"),
        None => {
            let expected =
                "a number, since the type is not categorical (or values, a list of numbers)";
            refused(key, "nothing", expected)
        }
    };
    let log = spec.log.unwrap_or(false);
    let (low, high) = (bound("low", spec.low)?, bound("high", spec.high)?);
    if low > high {
        let expected = format!("a number below high = {high} (are the bounds reversed?)");
        return refused("low", low, &expected);
    }
    if !is_int && log && low <= 0.0 {
        return refused("low", low, "a number above 0, since log = true");
    }
    if !is_int && !log && !(high - low).is_finite() {
        let expected = "a range high - low that a 64-bit float can hold";
        return refused("high", high, expected);
    }
    let whole_bound = |key: &'static str, value: f64| match whole_number(value) {
        Some(whole) => Ok(whole),
        None => refused(key, value, "a whole number within ±(2^53 - 1)"),
    };
    let kind = match is_int {
        false => Kind::Float { low, high, log },
        true => Kind::Int { low: whole_bound("low", low)?, high: whole_bound("high", high)?, log },
    };
    if is_int && log && low < 1.0 {
        let expected = "a whole number of at least 1, since log = true";
        return refused("low", low, expected);
    }
    let Some(step) = spec.step else {
        return Ok(kind);
    };
    if log {
        let expected = "no such key, since log = true (equal steps belong to a linear scale; to try only certain numbers, \
                        list them as values)";
        return refused("step", step, expected);
    }
    let stepped = Stepped::new(low, high, step, is_int)?;
    match is_int && step <= 1.0 {
        true => Ok(kind), // every integer
        false => Ok(Kind::Stepped(stepped)),
    }
}

/// Checks the numbers of a set.
fn checked_values(spec: &ParameterSpec, values: &[f64], is_int: bool) -> Result<Kind, Refused> {
    let keys =
        [("low", spec.low.is_some()), ("high", spec.high.is_some()), ("step", spec.step.is_some())];
    if let Some((key, _)) = keys.into_iter().find(|(_, used)| *used) {
        return refused(key, "a value", "no such key beside values");
    }
    let log = spec.log.unwrap_or(false);
    let is_usable = |value: f64| match is_int {
        true => whole_number(value).is_some() && (!log || value >= 1.0),
        false => value.is_finite() && (!log || value > 0.0),
    };
    let expected = match (is_int, log) {
        (true, true) => "whole numbers of at least 1 and below 2^53, since log = true",
        (true, false) => "whole numbers within ±(2^53 - 1)",
        (false, true) => "finite numbers above 0, since log = true",
        (false, false) => "finite numbers",
    };
    if values.is_empty() {
        return refused("values", "[]", "a list of at least one number");
    }
    if values.len() > MAX_VALUES {
        let found = format!("{} numbers", values.len());
        let expected = format!(
            "at most {MAX_VALUES} numbers; for numbers at equal distances use low, high and step"
        );
        return refused("values", found, &expected);
    }
    match values.iter().find(|value| !is_usable(**value)) {
        Some(value) => refused("values", value, expected),
        None => Ok(Kind::Set(NumberSet::new(values.to_vec(), log, is_int)?)),
    }
}

/// Normalizes a string, so that all strings that parse to the same number or boolean are equal.
fn as_read(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(number) => (number + 0.0).to_string(), // −0 is 0
        Err(_) => text.to_ascii_lowercase(),
    }
}

/// Checks the choices of a `categorical`.
pub(crate) fn checked_choices(choices: Vec<Value>) -> Result<Vec<Value>, Refused> {
    let named = |choice: &Value| match choice {
        Value::Choice(text) => format!("{text:?}"),
        other => other.to_string(),
    };
    if choices.is_empty() {
        return refused("choices", "[]", "a list of at least one name");
    }
    for choice in &choices {
        let (found, expected) = match choice {
            Value::Choice(text) if text.chars().any(char::is_control) => {
                (named(choice), "names without control characters")
            }
            Value::Float(number) if !number.is_finite() => (named(choice), "finite numbers"),
            Value::Int(number) if number.unsigned_abs() > 1 << 53 => {
                (named(choice), "whole numbers within ±(2^53 - 1)")
            }
            _ => continue,
        };
        return refused("choices", found, expected);
    }
    // Strings that differ are distinct, including "1" and "1.0". A number or a boolean must differ
    // from every other choice after it is parsed from a string, because commands and tables contain
    // only strings.
    let mut texts = BTreeMap::new();
    for choice in &choices {
        if let Some(other) = texts.insert(choice.to_string(), choice) {
            let found = match other == choice {
                true => format!("{} twice", named(choice)),
                false => format!("{} beside {}", named(other), named(choice)),
            };
            return refused("choices", found, "names that are all different");
        }
    }
    let mut read: BTreeMap<String, &Value> = BTreeMap::new();
    let is_text = |choice: &&Value| matches!(choice, Value::Choice(_));
    let (texts, others): (Vec<&Value>, Vec<&Value>) = choices.iter().partition(is_text);
    for other in others {
        if let Some(same) = read.insert(as_read(&other.to_string()), other) {
            let found = format!("{} beside {}", named(same), named(other));
            return refused("choices", found, "numbers that are all different");
        }
    }
    for text in texts {
        if let Some(same) = read.get(&as_read(&text.to_string())) {
            let found = format!("{} beside {}", named(same), named(text));
            return refused("choices", found, "texts that cannot be read as another choice");
        }
    }
    Ok(choices)
}
