//! The range of a parameter: its values, their order, and their coordinates in `[0,1]`.

use std::collections::BTreeMap;
use std::fmt;

use crate::stepped::{MAX_INT, Refused};
use crate::{ParameterSpec, Stepped, Value};

/// The checked range of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A real number in [low, high]. If `log` (low > 0), its logarithm is mapped linearly.
    Float {
        /// Lower bound.
        low: f64,
        /// Upper bound, above `low`.
        high: f64,
        /// Logarithmic scale.
        log: bool,
    },
    /// An integer in low..=high. Each integer has an equal share of `[0,1]`, or of its logarithmic
    /// scale if `log` (low ≥ 1).
    Int {
        /// Smallest value.
        low: i64,
        /// Largest value, above `low`.
        high: i64,
        /// Logarithmic scale.
        log: bool,
    },
    /// One of finitely many numbers spaced a step apart. Each has an equal share of `[0,1]`.
    Stepped(Stepped),
    /// One of at least two unordered values, with one coordinate per choice (one-hot), or a single
    /// coordinate for a pair.
    Categorical {
        /// Strings, numbers and booleans, all distinct even when written as strings.
        choices: Vec<Value>,
    },
}

/// A range of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    /// Smallest number.
    pub low: f64,
    /// Largest number, above `low`.
    pub high: f64,
    /// True if the scale is logarithmic.
    pub log: bool,
    /// True if the range contains only integers.
    pub is_whole: bool,
    /// Distance between neighbours; `None` for a continuous range.
    pub step: Option<f64>,
}

impl Kind {
    /// Returns the number of distinct values; `None` for a continuous range.
    pub fn n_values(&self) -> Option<u64> {
        match self {
            Self::Float { .. } => None,
            Self::Int { low, high, .. } => Some(low.abs_diff(*high).saturating_add(1)),
            Self::Stepped(stepped) => Some(stepped.n_values()),
            Self::Categorical { choices } => Some(choices.len() as u64),
        }
    }

    /// Returns the value at this index, counted from 0. Numbers are in ascending order, choices as
    /// declared. `None` for a continuous range.
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

    /// Returns the values in the order of [`Self::value`]; `None` for a continuous range.
    pub fn values(&self) -> Option<impl Iterator<Item = Value> + '_> {
        let indices = 0..self.n_values()?;
        Some(indices.filter_map(|index| self.value(index)))
    }

    /// Returns the index of a value, the inverse of [`Self::value`]. `3` and `3.0` are the same
    /// number.
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

    /// Returns the choice that a string denotes: the choice written exactly like it, otherwise an
    /// equal number or a boolean in a different case (`32.0` for 32, `True` for true). `None` for a
    /// range of numbers.
    pub fn choice(&self, text: &str) -> Option<Value> {
        let choices = self.choices();
        let written = |choice: &&Value| choice.to_string() == text;
        let reads = |choice: &&Value| choice.reads(text);
        let found = choices.iter().find(written);
        found.or_else(|| choices.iter().find(reads)).cloned()
    }

    /// The choices in declaration order; empty for a range of numbers.
    pub fn choices(&self) -> &[Value] {
        match self {
            Self::Categorical { choices } => choices,
            Self::Float { .. } | Self::Int { .. } | Self::Stepped(_) => &[],
        }
    }

    /// Returns the bounds and the scale of a range of numbers; `None` for choices.
    #[expect(clippy::cast_precision_loss, reason = "bounds are checked to lie within ±2^53")]
    pub fn numbers(&self) -> Option<Numbers> {
        let (low, high, log, is_whole, step) = match self {
            Self::Float { low, high, log } => (*low, *high, *log, false, None),
            Self::Int { low, high, log } => (*low as f64, *high as f64, *log, true, Some(1.0)),
            Self::Stepped(grid) => {
                (grid.low(), grid.high(), false, grid.is_whole(), Some(grid.step()))
            }
            Self::Categorical { .. } => return None,
        };
        Some(Numbers { low, high, log, is_whole, step })
    }

    /// Returns true if a single coordinate orders the values, so that neighbouring coordinates
    /// decode to neighbouring values.
    pub fn is_ordered(&self) -> bool {
        match self {
            Self::Float { .. } | Self::Int { .. } | Self::Stepped(_) => true,
            Self::Categorical { .. } => false,
        }
    }

    /// Returns true if both ranges have the same values, in any order and on any scale.
    pub fn has_same_values(&self, other: &Self) -> bool {
        #[expect(clippy::float_cmp, reason = "bounds that were written down, not computed")]
        match self {
            Self::Float { low, high, .. } => {
                matches!(other, Self::Float { low: a, high: b, .. } if a == low && b == high)
            }
            Self::Int { low, high, .. } => {
                matches!(other, Self::Int { low: a, high: b, .. } if a == low && b == high)
            }
            Self::Stepped(grid) => matches!(other, Self::Stepped(theirs) if theirs == grid),
            Self::Categorical { choices } => {
                let theirs = other.choices();
                theirs.len() == choices.len() && theirs.iter().all(|each| choices.contains(each))
            }
        }
    }

    /// Returns the neighbours of a value: one step below and above if the values are ordered,
    /// otherwise all other values. Empty for a continuous range.
    pub fn neighbours(&self, value: &Value) -> Vec<Value> {
        let (Some(here), Some(n_values)) = (self.index_of(value), self.n_values()) else {
            return Vec::new();
        };
        let others: Vec<u64> = match self.is_ordered() {
            true => [here.checked_sub(1), here.checked_add(1)].into_iter().flatten().collect(),
            false => (0..n_values).filter(|other| *other != here).collect(),
        };
        others.into_iter().filter_map(|other| self.value(other)).collect()
    }

    /// Returns the number of unit-cube coordinates: 1, or the number of choices if there are more
    /// than two.
    pub fn n_coordinates(&self) -> usize {
        match self {
            Self::Categorical { choices } if choices.len() > 2 => choices.len(),
            Self::Categorical { .. } | Self::Float { .. } | Self::Int { .. } | Self::Stepped(_) => {
                1
            }
        }
    }

    /// Returns the value at unit-cube coordinates (length [`Self::n_coordinates`]), which are first
    /// clamped to `[0,1]`.
    ///
    /// # Panics
    /// If `unit` is empty.
    pub fn decode(&self, unit: &[f64]) -> Value {
        let u = clamp(unit[0]);
        match self {
            Self::Float { low, high, log } => {
                let value = if *log {
                    (low.ln() + u * (high.ln() - low.ln())).exp()
                } else {
                    low + u * (high - low)
                };
                Value::Float(value.clamp(*low, *high))
            }
            Self::Int { low, high, log } => {
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
            Self::Stepped(stepped) => {
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
            Self::Categorical { choices } if choices.len() == 2 => {
                choices[usize::from(u >= 0.5)].clone()
            }
            Self::Categorical { choices } => {
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

    /// Appends the coordinates of a value to `unit`. Returns `None` if it is not one of the values.
    pub fn encode(&self, value: &Value, unit: &mut Vec<f64>) -> Option<()> {
        match self {
            Self::Float { low, high, log } => {
                let v = value.as_f64().filter(|v| *v >= *low && *v <= *high)?;
                let u = if *log {
                    (v.ln() - low.ln()) / (high.ln() - low.ln())
                } else {
                    (v - low) / (high - low)
                };
                unit.push(clamp(u));
            }
            Self::Int { low, high, log } => {
                let Value::Int(whole) = value else { return None };
                let v = value.as_f64().filter(|_| low <= whole && whole <= high)?;
                let (from, to) = int_cells(*low, *high, *log);
                let position = if *log { v.ln() } else { v };
                unit.push(clamp((position - from) / (to - from)));
            }
            Self::Stepped(stepped) => {
                let index = self.index_of(value)?;
                let (from, to) = index_cells(stepped);
                #[expect(clippy::cast_precision_loss, reason = "at most 2^53 + 1 values")]
                unit.push(clamp((index as f64 - from) / (to - from)));
            }
            Self::Categorical { choices } => {
                let index = choices.iter().position(|choice| choice.means(value))?;
                if choices.len() == 2 {
                    unit.push(if index == 0 { 0.0 } else { 1.0 });
                } else {
                    unit.extend((0..choices.len()).map(|i| if i == index { 1.0 } else { 0.0 }));
                }
            }
        }
        Some(())
    }

    /// Appends the coordinates of a parameter that does not exist: the middle of a single
    /// coordinate, or no choice. All choices are equally far from the latter.
    pub(crate) fn encode_absent(&self, unit: &mut Vec<f64>) {
        match self.n_coordinates() {
            1 => unit.push(0.5),
            n => unit.extend(std::iter::repeat_n(0.0, n)),
        }
    }

    /// Returns the declaration of this range. A linear scale is omitted.
    pub(crate) fn to_spec(&self) -> ParameterSpec {
        match self {
            Self::Float { low, high, log } => {
                ParameterSpec::range("float", *low, *high, log.then_some(true))
            }
            Self::Int { low, high, log } => {
                ParameterSpec::range("int", whole(*low), whole(*high), log.then_some(true))
            }
            Self::Stepped(stepped) => {
                let name = if stepped.is_whole() { "int" } else { "float" };
                ParameterSpec::range(name, stepped.low(), stepped.high(), None)
                    .with_step(stepped.step())
            }
            Self::Categorical { choices } => ParameterSpec::categorical(choices.iter().cloned()),
        }
    }

    /// Checks a declaration.
    pub(crate) fn from_spec(spec: &ParameterSpec) -> Result<Self, Refused> {
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
}

impl fmt::Display for Kind {
    /// Describes the range.
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

/// Returns the error for a key, with the value found and the expected values.
pub(crate) fn refused<T>(
    key: &'static str,
    found: impl ToString,
    expected: &str,
) -> Result<T, Refused> {
    Err((key, found.to_string(), expected.to_owned()))
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

/// Normalizes a string, so that all strings that parse to the same number or boolean are equal.
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
    Ok(Kind::Categorical { choices })
}

/// Returns a bound as stored in the declaration. Declarations with bounds beyond ±2^53 are rejected
/// when they are checked.
#[expect(clippy::cast_precision_loss, reason = "values within ±2^53 are exact, others are refused")]
pub(crate) fn whole(bound: i64) -> f64 {
    bound as f64
}

/// Returns a number as an `i64` if it is an integer within ±(2^53 - 1). A larger number may have
/// been rounded.
fn whole_number(value: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "whole and within ±2^53, as checked")]
    (value.fract() == 0.0 && value.abs() <= MAX_INT).then_some(value as i64)
}

/// Clamps to `[0,1]`. NaN becomes 0.5, the middle.
fn clamp(u: f64) -> f64 {
    if u.is_nan() { 0.5 } else { u.clamp(0.0, 1.0) }
}

/// Returns the ends of the range that `[0,1]` maps to, half a cell beyond the first and the last
/// integer.
#[expect(clippy::cast_precision_loss, reason = "bounds are checked to lie within ±2^53")]
fn int_cells(low: i64, high: i64, log: bool) -> (f64, f64) {
    let (from, to) = (low as f64 - 0.5, high as f64 + 0.5);
    if log { (from.ln(), to.ln()) } else { (from, to) }
}

/// Like [`int_cells`], for the grid's indices, counted from 0.
#[expect(clippy::cast_precision_loss, reason = "at most 2^53 + 1 values")]
fn index_cells(stepped: &Stepped) -> (f64, f64) {
    (-0.5, stepped.n_values() as f64 - 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(spec: &ParameterSpec) -> Kind {
        Kind::from_spec(spec).unwrap()
    }

    #[test]
    fn neighbours_are_one_step_away_or_all_other_choices() {
        let int = kind(&ParameterSpec::int(1, 3));
        assert_eq!(int.neighbours(&Value::Int(1)), [Value::Int(2)]);
        assert_eq!(int.neighbours(&Value::Int(2)), [Value::Int(1), Value::Int(3)]);
        let grid = kind(&ParameterSpec::float(0.0, 1.0).with_step(0.5));
        assert_eq!(grid.neighbours(&Value::Float(1.0)), [Value::Float(0.5)]);
        let choices = kind(&ParameterSpec::categorical(["a", "b", "c"]));
        assert_eq!(choices.neighbours(&"b".into()), ["a".into(), "c".into()]);
        let float = kind(&ParameterSpec::float(0.0, 1.0));
        assert!(float.neighbours(&Value::Float(0.5)).is_empty());
        assert!(int.neighbours(&Value::Int(9)).is_empty());
    }

    #[test]
    fn numbers_describe_ranges_and_choices_have_none() {
        let log = kind(&ParameterSpec::log_int(1, 8)).numbers().unwrap();
        let expected = Numbers { low: 1.0, high: 8.0, log: true, is_whole: true, step: Some(1.0) };
        assert_eq!(log, expected);
        let grid = kind(&ParameterSpec::float(0.0, 1.0).with_step(0.25)).numbers().unwrap();
        assert_eq!((grid.step, grid.is_whole), (Some(0.25), false));
        let choices = kind(&ParameterSpec::categorical([1, 2]));
        assert!(choices.numbers().is_none() && !choices.is_ordered());
        assert_eq!(choices.choices(), [Value::Int(1), Value::Int(2)]);
    }

    #[test]
    fn equal_values_are_equal_on_any_scale_and_in_any_order() {
        let same = |a: &ParameterSpec, b: &ParameterSpec| {
            let (a, b) = (kind(a), kind(b));
            assert_eq!(a.has_same_values(&b), b.has_same_values(&a));
            a.has_same_values(&b)
        };
        assert!(same(&ParameterSpec::float(0.1, 1.0), &ParameterSpec::log_float(0.1, 1.0)));
        assert!(!same(&ParameterSpec::float(1.0, 2.0), &ParameterSpec::int(1, 2)));
        let (ab, ba) = (["a", "b"].map(Value::from), ["b", "a"].map(Value::from));
        assert!(same(&ParameterSpec::categorical(ab.clone()), &ParameterSpec::categorical(ba)));
        assert!(!same(&ParameterSpec::categorical(ab), &ParameterSpec::categorical(["a", "c"])));
    }
}
