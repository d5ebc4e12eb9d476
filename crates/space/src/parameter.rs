//! One parameter of a search space: its declaration, and its map into `[0,1]` coordinates.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{SpaceError, Value};

/// Declaration of a parameter as it stands in a file: plain data, not yet checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterSpec {
    /// `float`, `int` or `categorical`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Lower bound, inclusive (float and int).
    pub low: Option<f64>,
    /// Upper bound, inclusive (float and int).
    pub high: Option<f64>,
    /// Whether the scale is logarithmic (float and int); default false.
    pub log: Option<bool>,
    /// The choices' names (categorical).
    pub choices: Option<Vec<String>>,
}

impl ParameterSpec {
    /// A real number in [low, high].
    pub fn float(low: f64, high: f64) -> Self {
        Self::range("float", low, high, None)
    }

    /// A real number in [low, high] on a logarithmic scale.
    pub fn log_float(low: f64, high: f64) -> Self {
        Self::range("float", low, high, Some(true))
    }

    /// A whole number in low..=high (within ±2^53).
    pub fn int(low: i64, high: i64) -> Self {
        Self::range("int", whole(low), whole(high), None)
    }

    /// A whole number in low..=high (low ≥ 1) on a logarithmic scale.
    pub fn log_int(low: i64, high: i64) -> Self {
        Self::range("int", whole(low), whole(high), Some(true))
    }

    /// One of some names.
    pub fn categorical<S: Into<String>>(choices: impl IntoIterator<Item = S>) -> Self {
        Self {
            kind: "categorical".to_owned(),
            low: None,
            high: None,
            log: None,
            choices: Some(choices.into_iter().map(Into::into).collect()),
        }
    }

    fn range(kind: &str, low: f64, high: f64, log: Option<bool>) -> Self {
        Self {
            kind: kind.to_owned(),
            low: Some(low),
            high: Some(high),
            log,
            choices: None,
        }
    }
}

/// A bound as the declaration holds it; one beyond ±2^53 is refused when the declaration is checked.
#[expect(
    clippy::cast_precision_loss,
    reason = "what lies within ±2^53 is exact, the rest is refused"
)]
fn whole(bound: i64) -> f64 {
    bound as f64
}

/// The checked range of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A real number in [low, high]; `log` maps its logarithm linearly (low > 0).
    Float {
        /// Lower bound.
        low: f64,
        /// Upper bound, above `low`.
        high: f64,
        /// Logarithmic scale.
        log: bool,
    },
    /// A whole number in low..=high; each has an equal share of `[0,1]`, on the log scale if `log` (low ≥ 1).
    Int {
        /// Smallest value.
        low: i64,
        /// Largest value, above `low`.
        high: i64,
        /// Logarithmic scale.
        log: bool,
    },
    /// One of at least two names, without order: one coordinate a choice (one-hot), or one for a pair.
    Categorical {
        /// The names, all different.
        choices: Vec<String>,
    },
}

impl fmt::Display for Kind {
    /// The range in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float { low, high, .. } => write!(f, "a number from {low:?} to {high:?}"),
            Self::Int { low, high, .. } => write!(f, "a whole number from {low} to {high}"),
            Self::Categorical { choices } => write!(f, "one of {}", choices.join(", ")),
        }
    }
}

/// A named parameter with a checked range.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    name: String,
    kind: Kind,
}

/// Largest magnitude of an integer bound: every integer up to 2^53 is exact in an f64.
const MAX_INT: f64 = 9_007_199_254_740_992.0;

impl Parameter {
    /// A declaration of it; a linear scale is left unsaid.
    pub fn to_spec(&self) -> ParameterSpec {
        match &self.kind {
            Kind::Float { low, high, log } => {
                ParameterSpec::range("float", *low, *high, log.then_some(true))
            }
            Kind::Int { low, high, log } => {
                ParameterSpec::range("int", whole(*low), whole(*high), log.then_some(true))
            }
            Kind::Categorical { choices } => ParameterSpec::categorical(choices.iter().cloned()),
        }
    }

    /// Checks a declaration.
    ///
    /// # Errors
    /// [`SpaceError`] names the parameter, the key, the value and what is expected instead.
    pub fn from_spec(name: &str, spec: &ParameterSpec) -> Result<Self, SpaceError> {
        let fail = |key: &str, found: String, expected: &str| SpaceError::Parameter {
            name: name.to_owned(),
            key: key.to_owned(),
            found,
            expected: expected.to_owned(),
        };
        if name.is_empty()
            || name
                .chars()
                .any(|c| c.is_whitespace() || c.is_control() || matches!(c, '{' | '}' | ',' | '"'))
        {
            return Err(fail(
                "name",
                format!("{name:?}"),
                "a name without blanks, braces, commas or quotes",
            ));
        }
        let bound = |key: &str, value: Option<f64>| match value {
            Some(v) if v.is_finite() => Ok(v),
            Some(v) => Err(fail(key, v.to_string(), "a finite number")),
            None => Err(fail(
                key,
                "nothing".into(),
                "a number, since the type is not categorical",
            )),
        };
        let no_range = |used: bool, key: &str| {
            if used {
                Err(fail(
                    key,
                    "a value".into(),
                    "no such key, since the type is categorical",
                ))
            } else {
                Ok(())
            }
        };
        let log = spec.log.unwrap_or(false);
        let kind = match spec.kind.as_str() {
            "float" | "int" => {
                if spec.choices.is_some() {
                    return Err(fail(
                        "choices",
                        "a list".into(),
                        "no such key, since the type is not categorical",
                    ));
                }
                let (low, high) = (bound("low", spec.low)?, bound("high", spec.high)?);
                if low > high {
                    return Err(fail(
                        "low",
                        low.to_string(),
                        &format!("a number below high = {high} (are the bounds reversed?)"),
                    ));
                }
                if low >= high {
                    return Err(fail(
                        "low",
                        low.to_string(),
                        &format!("a number below high = {high} (a fixed value needs no parameter)"),
                    ));
                }
                if spec.kind == "float" {
                    if log && low <= 0.0 {
                        return Err(fail(
                            "low",
                            low.to_string(),
                            "a number above 0, since log = true",
                        ));
                    }
                    if !log && !(high - low).is_finite() {
                        return Err(fail(
                            "high",
                            high.to_string(),
                            "a range high - low that a 64-bit float can hold",
                        ));
                    }
                    Kind::Float { low, high, log }
                } else {
                    for (key, value) in [("low", low), ("high", high)] {
                        if value.fract().abs() > 0.0 || value.abs() > MAX_INT {
                            return Err(fail(
                                key,
                                value.to_string(),
                                "a whole number within ±2^53",
                            ));
                        }
                    }
                    if log && low < 1.0 {
                        return Err(fail(
                            "low",
                            low.to_string(),
                            "a whole number of at least 1, since log = true",
                        ));
                    }
                    #[expect(
                        clippy::cast_possible_truncation,
                        reason = "checked above to be whole and within ±2^53"
                    )]
                    let (low, high) = (low as i64, high as i64);
                    Kind::Int { low, high, log }
                }
            }
            "categorical" => {
                no_range(spec.low.is_some(), "low")?;
                no_range(spec.high.is_some(), "high")?;
                no_range(spec.log.is_some(), "log")?;
                let choices = spec.choices.clone().unwrap_or_default();
                if choices.len() < 2 {
                    return Err(fail(
                        "choices",
                        format!("{choices:?}"),
                        "a list of at least two names",
                    ));
                }
                let mut seen = BTreeSet::new();
                for choice in &choices {
                    if choice.chars().any(char::is_control) {
                        return Err(fail(
                            "choices",
                            format!("{choice:?}"),
                            "names without control characters",
                        ));
                    }
                    if !seen.insert(choice) {
                        return Err(fail(
                            "choices",
                            format!("{choice:?} twice"),
                            "names that are all different",
                        ));
                    }
                }
                Kind::Categorical { choices }
            }
            other => {
                return Err(fail(
                    "type",
                    format!("{other:?}"),
                    "\"float\", \"int\" or \"categorical\"",
                ));
            }
        };
        Ok(Self {
            name: name.to_owned(),
            kind,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its range.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Number of unit-cube coordinates it takes: 1, or the number of choices when there are more than two.
    pub fn n_coordinates(&self) -> usize {
        match &self.kind {
            Kind::Categorical { choices } if choices.len() > 2 => choices.len(),
            _ => 1,
        }
    }

    /// Value at the given coordinates; any real number is accepted and clamped into `[0,1]` first.
    pub(crate) fn decode(&self, unit: &[f64]) -> Value {
        let u = clamp(unit[0]);
        match &self.kind {
            Kind::Float { low, high, log } => {
                let value = if *log {
                    (low.ln() + u * (high.ln() - low.ln())).exp()
                } else {
                    low + u * (high - low)
                };
                Value::Float(value.clamp(*low, *high))
            }
            Kind::Int { low, high, log } => {
                let (from, to) = int_cells(*low, *high, *log);
                let position = from + u * (to - from);
                let value = if *log { position.exp() } else { position };
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "the range lies within ±2^53; the cast saturates at its ends"
                )]
                let rounded = value.round() as i64;
                Value::Int(rounded.clamp(*low, *high))
            }
            Kind::Categorical { choices } if choices.len() == 2 => {
                Value::Choice(choices[usize::from(u >= 0.5)].clone())
            }
            Kind::Categorical { choices } => {
                let mut best = 0;
                for (index, coordinate) in unit.iter().enumerate() {
                    if clamp(*coordinate) > clamp(unit[best]) {
                        best = index;
                    }
                }
                Value::Choice(choices[best].clone())
            }
        }
    }

    /// The value that a text stands for.
    ///
    /// # Errors
    /// If it is none of this parameter's values.
    pub fn parse(&self, text: &str) -> Result<Value, SpaceError> {
        let text = text.trim();
        let value = match &self.kind {
            Kind::Categorical { .. } => Some(Value::Choice(text.to_owned())),
            Kind::Int { .. } => text
                .parse()
                .map(Value::Int)
                .or_else(|_| text.parse().map(Value::Float))
                .ok(),
            Kind::Float { .. } => text.parse().map(Value::Float).ok(),
        };
        let value = value.ok_or_else(|| self.outside(text))?;
        self.normalize(&value)
    }

    /// A value as this parameter has it: integers as integers, floats as floats.
    pub(crate) fn normalize(&self, value: &Value) -> Result<Value, SpaceError> {
        let value = match (&self.kind, value) {
            (Kind::Float { .. }, Value::Int(v)) => Value::Float(whole(*v)),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "whole and within ±2^53, as checked"
            )]
            (Kind::Int { .. }, Value::Float(v)) if v.fract() == 0.0 && v.abs() <= MAX_INT => {
                Value::Int(*v as i64)
            }
            (_, other) => other.clone(),
        };
        self.encode(&value, &mut Vec::new())?;
        Ok(value)
    }

    fn outside(&self, found: &str) -> SpaceError {
        SpaceError::Value {
            name: self.name.clone(),
            found: found.to_owned(),
            range: self.kind.to_string(),
        }
    }

    /// Coordinates of a value, appended to `unit`.
    pub(crate) fn encode(&self, value: &Value, unit: &mut Vec<f64>) -> Result<(), SpaceError> {
        let outside = || self.outside(&value.to_string());
        match (&self.kind, value) {
            (Kind::Float { low, high, log }, Value::Float(_) | Value::Int(_)) => {
                let v = value
                    .as_f64()
                    .filter(|v| *v >= *low && *v <= *high)
                    .ok_or_else(outside)?;
                let u = if *log {
                    (v.ln() - low.ln()) / (high.ln() - low.ln())
                } else {
                    (v - low) / (high - low)
                };
                unit.push(clamp(u));
            }
            (Kind::Int { low, high, log }, Value::Int(v)) if v >= low && v <= high => {
                let (from, to) = int_cells(*low, *high, *log);
                let v = value.as_f64().ok_or_else(outside)?;
                let position = if *log { v.ln() } else { v };
                unit.push(clamp((position - from) / (to - from)));
            }
            (Kind::Categorical { choices }, Value::Choice(name)) => {
                let index = choices
                    .iter()
                    .position(|choice| choice == name)
                    .ok_or_else(outside)?;
                if choices.len() == 2 {
                    unit.push(if index == 0 { 0.0 } else { 1.0 });
                } else {
                    unit.extend((0..choices.len()).map(|i| if i == index { 1.0 } else { 0.0 }));
                }
            }
            _ => return Err(outside()),
        }
        Ok(())
    }
}

/// Clamps into `[0,1]`; NaN becomes 0.5, the middle.
fn clamp(u: f64) -> f64 {
    if u.is_nan() { 0.5 } else { u.clamp(0.0, 1.0) }
}

/// Ends of the interval that `[0,1]` maps to, half a cell beyond the first and the last integer.
#[expect(
    clippy::cast_precision_loss,
    reason = "bounds are checked to lie within ±2^53"
)]
fn int_cells(low: i64, high: i64, log: bool) -> (f64, f64) {
    let (from, to) = (low as f64 - 0.5, high as f64 + 0.5);
    if log {
        (from.ln(), to.ln())
    } else {
        (from, to)
    }
}
