//! One parameter of a search space: its declaration, and its map into `[0,1]` coordinates.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::stepped::{MAX_INT, Refused};
use crate::{SpaceError, Stepped, Value};

/// Declaration of a parameter as written in a file: plain data, not yet checked.
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
    /// True if the scale is logarithmic (float and int); default false.
    pub log: Option<bool>,
    /// Distance between neighbouring values; the values are then low + k·step up to high (float and
    /// int, on a linear scale).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// The choices: texts, numbers and booleans (categorical).
    pub choices: Option<Vec<Value>>,
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

    /// An integer in low..=high (within ±2^53).
    pub fn int(low: i64, high: i64) -> Self {
        Self::range("int", whole(low), whole(high), None)
    }

    /// An integer in low..=high (low ≥ 1) on a logarithmic scale.
    pub fn log_int(low: i64, high: i64) -> Self {
        Self::range("int", whole(low), whole(high), Some(true))
    }

    /// One of several texts, numbers or booleans.
    pub fn categorical<V: Into<Value>>(choices: impl IntoIterator<Item = V>) -> Self {
        Self {
            kind: "categorical".to_owned(),
            low: None,
            high: None,
            log: None,
            step: None,
            choices: Some(choices.into_iter().map(Into::into).collect()),
        }
    }

    /// The same range with values a step apart, from low to high, both included.
    ///
    /// ```
    /// use fedbo_space::{ParameterSpec, Space};
    ///
    /// let dropout = ParameterSpec::float(0.0, 0.5).with_step(0.05);
    /// let width = ParameterSpec::int(16, 128).with_step(16.0);
    /// let space = Space::from_specs([("dropout", &dropout), ("width", &width)])?;
    /// assert_eq!(space.n_points(), Some(11 * 8));
    /// # Ok::<(), fedbo_space::SpaceError>(())
    /// ```
    #[must_use]
    pub fn with_step(mut self, step: f64) -> Self {
        self.step = Some(step);
        self
    }

    fn range(kind: &str, low: f64, high: f64, log: Option<bool>) -> Self {
        Self {
            kind: kind.to_owned(),
            low: Some(low),
            high: Some(high),
            log,
            step: None,
            choices: None,
        }
    }
}

/// A bound as stored in the declaration. The check of the declaration refuses bounds beyond ±2^53.
#[expect(clippy::cast_precision_loss, reason = "values within ±2^53 are exact, others are refused")]
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
    /// An integer in low..=high. Each has an equal share of `[0,1]`, on the log scale if `log`
    /// (low ≥ 1).
    Int {
        /// Smallest value.
        low: i64,
        /// Largest value, above `low`.
        high: i64,
        /// Logarithmic scale.
        log: bool,
    },
    /// One of finitely many numbers a step apart. Each has an equal share of `[0,1]`.
    Stepped(Stepped),
    /// One of at least two unordered values: one coordinate per choice (one-hot), or a single one
    /// for a pair.
    Categorical {
        /// Texts, numbers and booleans, which also differ as texts.
        choices: Vec<Value>,
    },
}

impl Kind {
    /// Number of different values; `None` for a continuous range.
    pub fn n_values(&self) -> Option<u64> {
        match self {
            Self::Float { .. } => None,
            Self::Int { low, high, .. } => Some(low.abs_diff(*high).saturating_add(1)),
            Self::Stepped(stepped) => Some(stepped.n_values()),
            Self::Categorical { choices } => Some(choices.len() as u64),
        }
    }

    /// The value with this index among finitely many, from 0: numbers in ascending order, choices
    /// as declared.
    pub fn value(&self, index: u64) -> Option<Value> {
        match self {
            Self::Float { .. } => None,
            Self::Int { low, high, .. } => {
                let value = low.checked_add_unsigned(index);
                value.filter(|value| value <= high).map(Value::Int)
            }
            Self::Stepped(stepped) => stepped.value(index),
            Self::Categorical { choices } => choices.get(usize::try_from(index).ok()?).cloned(),
        }
    }

    /// The values in the order of [`Self::value`], if there are finitely many.
    pub fn values(&self) -> Option<impl Iterator<Item = Value> + '_> {
        let indices = 0..self.n_values()?;
        Some(indices.filter_map(|index| self.value(index)))
    }

    /// The index of one of finitely many values: the inverse of [`Self::value`]. `3` and `3.0` are
    /// the same number.
    pub fn index_of(&self, value: &Value) -> Option<u64> {
        match (self, value) {
            (Self::Float { .. }, _) => None,
            (Self::Int { low, high, .. }, Value::Int(value)) => {
                (low <= value && value <= high).then(|| low.abs_diff(*value))
            }
            (Self::Int { low, high, .. }, value) => {
                let value = whole_number(value.as_f64()?)?;
                (*low <= value && value <= *high).then(|| low.abs_diff(value))
            }
            (Self::Stepped(stepped), value) => stepped.index_of(value.as_f64()?),
            (Self::Categorical { choices }, value) => {
                let index = choices.iter().position(|choice| choice.means(value))?;
                Some(index as u64)
            }
        }
    }

    /// The choice that a text denotes: the one written exactly like it, otherwise an equal number
    /// or a boolean in another case (`32.0` for 32, `True` for true). `None` for a range of
    /// numbers.
    pub fn choice(&self, text: &str) -> Option<Value> {
        let Self::Categorical { choices } = self else {
            return None;
        };
        let written = |choice: &&Value| choice.to_string() == text;
        let reads = |choice: &&Value| choice.reads(text);
        let found = choices.iter().find(written);
        found.or_else(|| choices.iter().find(reads)).cloned()
    }
}

/// A number as an integer, if it is one within ±(2^53 - 1): a larger one may be rounded.
fn whole_number(value: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "whole and within ±2^53, as checked")]
    (value.fract() == 0.0 && value.abs() <= MAX_INT).then_some(value as i64)
}

impl fmt::Display for Kind {
    /// The range in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float { low, high, .. } => write!(f, "a number from {low:?} to {high:?}"),
            Self::Int { low, high, .. } => write!(f, "a whole number from {low} to {high}"),
            Self::Stepped(stepped) => stepped.fmt(f),
            Self::Categorical { choices } => {
                let texts: Vec<String> = choices.iter().map(Value::to_string).collect();
                write!(f, "one of {}", texts.join(", "))
            }
        }
    }
}

/// A named parameter with a checked range.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    name: String,
    kind: Kind,
}

impl Parameter {
    /// A declaration of this parameter; a linear scale is omitted.
    pub fn to_spec(&self) -> ParameterSpec {
        match &self.kind {
            Kind::Float { low, high, log } => {
                ParameterSpec::range("float", *low, *high, log.then_some(true))
            }
            Kind::Int { low, high, log } => {
                ParameterSpec::range("int", whole(*low), whole(*high), log.then_some(true))
            }
            Kind::Stepped(stepped) => {
                let name = if stepped.is_whole() { "int" } else { "float" };
                ParameterSpec::range(name, stepped.low(), stepped.high(), None)
                    .with_step(stepped.step())
            }
            Kind::Categorical { choices } => ParameterSpec::categorical(choices.iter().cloned()),
        }
    }

    /// Checks a declaration.
    ///
    /// # Errors
    /// [`SpaceError`] names the parameter, the key, the value and the expected values.
    pub fn from_spec(name: &str, spec: &ParameterSpec) -> Result<Self, SpaceError> {
        let kind = match checked_name(name) {
            Ok(()) => checked_kind(spec),
            Err(refused) => Err(refused),
        };
        match kind {
            Ok(kind) => Ok(Self { name: name.to_owned(), kind }),
            Err((key, found, expected)) => Err(SpaceError::Parameter {
                name: name.to_owned(),
                key: key.to_owned(),
                found,
                expected,
            }),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its range.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Number of unit-cube coordinates: 1, or the number of choices if there are more than two.
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
            Kind::Stepped(stepped) => {
                let (from, to) = index_cells(stepped);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "the cast saturates at both ends, and values beyond become the end"
                )]
                let index = (from + u * (to - from)).round() as u64;
                let value = stepped.value(index.min(stepped.n_values() - 1));
                value.unwrap_or_else(|| unreachable!("below the number of values"))
            }
            Kind::Categorical { choices } if choices.len() == 2 => {
                choices[usize::from(u >= 0.5)].clone()
            }
            Kind::Categorical { choices } => {
                let mut best = 0;
                for (index, coordinate) in unit.iter().enumerate() {
                    if clamp(*coordinate) > clamp(unit[best]) {
                        best = index;
                    }
                }
                choices[best].clone()
            }
        }
    }

    /// Parses a value of this parameter.
    ///
    /// # Errors
    /// If the text is not a value of this parameter.
    pub fn parse(&self, text: &str) -> Result<Value, SpaceError> {
        let text = text.trim();
        let value = match &self.kind {
            Kind::Categorical { .. } => self.kind.choice(text),
            Kind::Float { .. } => text.parse().map(Value::Float).ok(),
            Kind::Int { .. } | Kind::Stepped(_) => {
                text.parse().map(Value::Int).or_else(|_| text.parse().map(Value::Float)).ok()
            }
        };
        let value = value.ok_or_else(|| self.outside(text))?;
        self.normalize(&value)
    }

    /// Converts a value to this parameter's type: integers for an integer range, floats for a float
    /// range, choices as declared. On a grid, a value that differs from a grid value only by
    /// rounding errors becomes that grid value.
    pub(crate) fn normalize(&self, value: &Value) -> Result<Value, SpaceError> {
        match (&self.kind, value) {
            (Kind::Float { .. }, Value::Int(v)) => {
                let value = Value::Float(whole(*v));
                self.encode(&value, &mut Vec::new())?;
                Ok(value)
            }
            (Kind::Float { .. }, _) => {
                self.encode(value, &mut Vec::new())?;
                Ok(value.clone())
            }
            (kind, _) => {
                let meant = kind.index_of(value).and_then(|index| kind.value(index));
                meant.ok_or_else(|| self.not_one_of_these(value))
            }
        }
    }

    /// The error for a value of the wrong type or size. If choices have the same text but another
    /// type, the error names the types.
    fn not_one_of_these(&self, value: &Value) -> SpaceError {
        let found = value.to_string();
        match &self.kind {
            Kind::Categorical { choices } if choices.iter().any(|c| c.to_string() == found) => {
                let typed = |value: &Value| match value {
                    Value::Choice(text) => format!("the text {text:?}"),
                    Value::Bool(_) => format!("the boolean {value}"),
                    Value::Int(_) | Value::Float(_) => format!("the number {value}"),
                };
                let choices: Vec<String> = choices.iter().map(typed).collect();
                SpaceError::Value {
                    name: self.name.clone(),
                    found: typed(value),
                    range: format!("one of {}", choices.join(", ")),
                }
            }
            _ => self.outside(&found),
        }
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
        let outside = || self.not_one_of_these(value);
        match (&self.kind, value) {
            (Kind::Float { low, high, log }, Value::Float(_) | Value::Int(_)) => {
                let v = value.as_f64().filter(|v| *v >= *low && *v <= *high).ok_or_else(outside)?;
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
            (Kind::Stepped(stepped), _) => {
                let index = self.kind.index_of(value).ok_or_else(outside)?;
                let (from, to) = index_cells(stepped);
                #[expect(clippy::cast_precision_loss, reason = "at most 2^53 + 1 values")]
                unit.push(clamp((index as f64 - from) / (to - from)));
            }
            (Kind::Categorical { choices }, _) => {
                let index = choices.iter().position(|choice| choice.means(value));
                let index = index.ok_or_else(outside)?;
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

/// The error for a key: the found value and the expected one.
fn refused<T>(key: &'static str, found: impl ToString, expected: &str) -> Result<T, Refused> {
    Err((key, found.to_string(), expected.to_owned()))
}

fn checked_name(name: &str) -> Result<(), Refused> {
    let is_bad =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '{' | '}' | ',' | '"');
    if name.is_empty() || name.chars().any(is_bad) {
        let expected = "a name without blanks, braces, commas or quotes";
        return refused("name", format!("{name:?}"), expected);
    }
    Ok(())
}

fn checked_kind(spec: &ParameterSpec) -> Result<Kind, Refused> {
    match spec.kind.as_str() {
        "float" | "int" => {
            if spec.choices.is_some() {
                let expected = "no such key, since the type is not categorical";
                return refused("choices", "a list", expected);
            }
            checked_range(spec, spec.kind == "int")
        }
        "categorical" => {
            let keys = [
                ("low", spec.low.is_some()),
                ("high", spec.high.is_some()),
                ("log", spec.log.is_some()),
                ("step", spec.step.is_some()),
            ];
            if let Some((key, _)) = keys.into_iter().find(|(_, used)| *used) {
                let expected = "no such key, since the type is categorical";
                return refused(key, "a value", expected);
            }
            checked_choices(spec.choices.clone().unwrap_or_default())
        }
        other => {
            let expected = "\"float\", \"int\" or \"categorical\"";
            refused("type", format!("{other:?}"), expected)
        }
    }
}

fn checked_range(spec: &ParameterSpec, is_int: bool) -> Result<Kind, Refused> {
    let bound = |key: &'static str, value: Option<f64>| match value {
        Some(v) if v.is_finite() => Ok(v),
        Some(v) => refused(key, v, "a finite number"),
        None => {
            let expected = "a number, since the type is not categorical";
            refused(key, "nothing", expected)
        }
    };
    let log = spec.log.unwrap_or(false);
    let (low, high) = (bound("low", spec.low)?, bound("high", spec.high)?);
    if low > high {
        let expected = format!("a number below high = {high} (are the bounds reversed?)");
        return refused("low", low, &expected);
    }
    if low >= high {
        let expected = format!("a number below high = {high} (a fixed value needs no parameter)");
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
        let expected = "no such key, since log = true (equal steps belong to a linear scale; to try only certain values, \
                        list them as choices of a categorical parameter)";
        return refused("step", step, expected);
    }
    let stepped = Stepped::new(low, high, step, is_int)?;
    match is_int && step <= 1.0 {
        true => Ok(kind), // every integer
        false => Ok(Kind::Stepped(stepped)),
    }
}

/// One text for all texts that parse to the same number or boolean.
fn as_read(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(number) => (number + 0.0).to_string(), // −0 is 0
        Err(_) => text.to_ascii_lowercase(),
    }
}

fn checked_choices(choices: Vec<Value>) -> Result<Kind, Refused> {
    let named = |choice: &Value| match choice {
        Value::Choice(text) => format!("{text:?}"),
        other => other.to_string(),
    };
    if choices.len() < 2 {
        let found: Vec<String> = choices.iter().map(named).collect();
        let found = format!("[{}]", found.join(", "));
        return refused("choices", found, "a list of at least two names");
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
    // Texts that differ are distinct, including "1" and "1.0". A number or a boolean must differ
    // from every other choice after parsing it from a text, because commands and tables contain
    // only texts.
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
    Ok(Kind::Categorical { choices })
}

/// Clamps into `[0,1]`; NaN becomes 0.5, the middle.
fn clamp(u: f64) -> f64 {
    if u.is_nan() { 0.5 } else { u.clamp(0.0, 1.0) }
}

/// Ends of the image of `[0,1]`, half a cell beyond the first and the last integer.
#[expect(clippy::cast_precision_loss, reason = "bounds are checked to lie within ±2^53")]
fn int_cells(low: i64, high: i64, log: bool) -> (f64, f64) {
    let (from, to) = (low as f64 - 0.5, high as f64 + 0.5);
    if log { (from.ln(), to.ln()) } else { (from, to) }
}

/// The same for the indices of the values of a grid, from 0.
#[expect(clippy::cast_precision_loss, reason = "at most 2^53 + 1 values")]
fn index_cells(stepped: &Stepped) -> (f64, f64) {
    (-0.5, stepped.n_values() as f64 - 0.5)
}
