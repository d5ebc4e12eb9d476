//! The range of a parameter: its values, their order, and their coordinates in `[0,1]`.

use std::fmt;

use crate::checked::{checked_choices, checked_range, refused};
use crate::stepped::{MAX_INT, Refused};
use crate::{NumberSet, ParameterSpec, Stepped, Value};

/// The checked range of a parameter. A range with a single value has no coordinate.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A real number in [low, high]. If `log` (low > 0), its logarithm is mapped linearly.
    Float {
        /// Lower bound.
        low: f64,
        /// Upper bound, at least `low`.
        high: f64,
        /// Logarithmic scale.
        log: bool,
    },
    /// An integer in low..=high. Each integer has an equal share of `[0,1]`, or of its logarithmic
    /// scale if `log` (low ≥ 1).
    Int {
        /// Smallest value.
        low: i64,
        /// Largest value, at least `low`.
        high: i64,
        /// Logarithmic scale.
        log: bool,
    },
    /// One of finitely many numbers spaced a step apart. Each has an equal share of `[0,1]`.
    Stepped(Stepped),
    /// One of finitely many given numbers, with a coordinate that keeps their distances.
    Set(NumberSet),
    /// One of several unordered values, with one coordinate per choice (one-hot), or a single
    /// coordinate for a pair.
    Categorical {
        /// Strings, numbers and booleans, all distinct even when written as strings.
        choices: Vec<Value>,
    },
    /// One of several values in a given order. Each has an equal share of `[0,1]`.
    Ordered {
        /// The values in their order, otherwise as those of a categorical range.
        choices: Vec<Value>,
    },
}

/// A range of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    /// Smallest number.
    pub low: f64,
    /// Largest number, at least `low`.
    pub high: f64,
    /// True if the scale is logarithmic.
    pub log: bool,
    /// True if the range contains only integers.
    pub is_whole: bool,
    /// Distance between neighbours; `None` for a continuous range and for a set of given numbers.
    pub step: Option<f64>,
}

impl Kind {
    /// Returns the number of distinct values; `None` for a continuous range.
    pub fn n_values(&self) -> Option<u64> {
        match self {
            Self::Float { low, high, .. } => (low >= high).then_some(1),
            Self::Int { low, high, .. } => Some(low.abs_diff(*high).saturating_add(1)),
            Self::Stepped(stepped) => Some(stepped.n_values()),
            Self::Set(set) => Some(set.numbers().len() as u64),
            Self::Categorical { choices } | Self::Ordered { choices } => Some(choices.len() as u64),
        }
    }

    /// Returns the value of a range with a single one.
    pub fn only_value(&self) -> Option<Value> {
        self.n_values().filter(|n| *n == 1).and_then(|_| self.value(0))
    }

    /// Returns the value at this index, counted from 0. Numbers are in ascending order, choices as
    /// declared. `None` for a continuous range.
    pub fn value(&self, index: u64) -> Option<Value> {
        match self {
            Self::Float { low, high, .. } => {
                (low >= high && index == 0).then_some(Value::Float(*low))
            }
            Self::Int { low, high, .. } => {
                let value = low.checked_add_unsigned(index);
                value.filter(|value| value <= high).map(Value::Int)
            }
            Self::Stepped(stepped) => stepped.value(index),
            Self::Set(set) => set.value(index),
            Self::Categorical { choices } | Self::Ordered { choices } => {
                choices.get(usize::try_from(index).ok()?).cloned()
            }
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
            #[expect(clippy::float_cmp, reason = "a bound that was written down, not computed")]
            (Self::Float { low, high, .. }, value) => {
                (low >= high && value.as_f64()? == *low).then_some(0)
            }
            (Self::Int { low, high, .. }, Value::Int(value)) => {
                (low <= value && value <= high).then(|| low.abs_diff(*value))
            }
            (Self::Int { low, high, .. }, value) => {
                let value = whole_number(value.as_f64()?)?;
                (*low <= value && value <= *high).then(|| low.abs_diff(value))
            }
            (Self::Stepped(stepped), value) => stepped.index_of(value.as_f64()?),
            (Self::Set(set), value) => set.index_of(value.as_f64()?),
            (Self::Categorical { choices } | Self::Ordered { choices }, value) => {
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
            Self::Categorical { choices } | Self::Ordered { choices } => choices,
            Self::Float { .. } | Self::Int { .. } | Self::Stepped(_) | Self::Set(_) => &[],
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
            Self::Set(set) => (set.low(), set.high(), set.is_log(), set.is_whole(), None),
            Self::Categorical { .. } | Self::Ordered { .. } => return None,
        };
        Some(Numbers { low, high, log, is_whole, step })
    }

    /// Returns true if a single coordinate orders the values, so that neighbouring coordinates
    /// decode to neighbouring values.
    pub fn is_ordered(&self) -> bool {
        match self {
            Self::Float { .. }
            | Self::Int { .. }
            | Self::Stepped(_)
            | Self::Set(_)
            | Self::Ordered { .. } => true,
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
            Self::Set(set) => match other {
                Self::Set(theirs) => theirs.numbers() == set.numbers(),
                _ => {
                    let theirs = other.choices();
                    let is_own = |each: &Value| self.index_of(each).is_some();
                    theirs.len() == set.numbers().len() && theirs.iter().all(is_own)
                }
            },
            Self::Categorical { .. } | Self::Ordered { .. } if matches!(other, Self::Set(_)) => {
                other.has_same_values(self)
            }
            Self::Categorical { choices } | Self::Ordered { choices } => {
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

    /// Returns the number of unit-cube coordinates: 0 for a single value, otherwise 1, or the number
    /// of choices if there are more than two without an order.
    pub fn n_coordinates(&self) -> usize {
        match self {
            _ if self.n_values() == Some(1) => 0,
            Self::Categorical { choices } if choices.len() > 2 => choices.len(),
            Self::Categorical { .. }
            | Self::Ordered { .. }
            | Self::Float { .. }
            | Self::Int { .. }
            | Self::Stepped(_)
            | Self::Set(_) => 1,
        }
    }

    /// Returns the value at unit-cube coordinates (length [`Self::n_coordinates`]), which are first
    /// clamped to `[0,1]`.
    ///
    /// # Panics
    /// If `unit` is empty and there is more than one value.
    pub fn decode(&self, unit: &[f64]) -> Value {
        if let Some(only) = self.only_value() {
            return only;
        }
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
                let value = stepped.value(index_at_share(u, stepped.n_values()));
                value.unwrap_or_else(|| unreachable!("below the number of values"))
            }
            Self::Set(set) => {
                let value = set.value(set.index_at(u));
                value.unwrap_or_else(|| unreachable!("below the number of values"))
            }
            Self::Ordered { choices } => {
                let value = self.value(index_at_share(u, choices.len() as u64));
                value.unwrap_or_else(|| unreachable!("below the number of choices"))
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

    /// Returns a value for uniformly distributed coordinates (length [`Self::n_coordinates`]), as
    /// for an initial design. Like [`Self::decode`], except that each number of a set has an equal
    /// share of `[0,1]`, in ascending order.
    ///
    /// # Panics
    /// If `unit` is empty and there is more than one value.
    pub fn draw(&self, unit: &[f64]) -> Value {
        match self {
            Self::Set(set) if self.n_coordinates() > 0 => {
                let n_values = set.numbers().len() as u64;
                let value = set.value(index_at_share(clamp(unit[0]), n_values));
                value.unwrap_or_else(|| unreachable!("below the number of values"))
            }
            _ => self.decode(unit),
        }
    }

    /// Appends the coordinates of a value to `unit`. Returns `None` if it is not one of the values.
    pub fn encode(&self, value: &Value, unit: &mut Vec<f64>) -> Option<()> {
        if self.n_values() == Some(1) {
            return self.index_of(value).map(|_| ());
        }
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
                unit.push(share_of_index(self.index_of(value)?, stepped.n_values()));
            }
            Self::Set(set) => {
                let index = usize::try_from(self.index_of(value)?).ok()?;
                unit.push(set.coordinate(*set.numbers().get(index)?));
            }
            Self::Ordered { choices } => {
                unit.push(share_of_index(self.index_of(value)?, choices.len() as u64));
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
            Self::Set(set) => {
                let name = if set.is_whole() { "int" } else { "float" };
                let spec = ParameterSpec::of_values(name, set.numbers().to_vec());
                if set.is_log() { spec.with_log() } else { spec }
            }
            Self::Categorical { choices } => ParameterSpec::categorical(choices.iter().cloned()),
            Self::Ordered { choices } => ParameterSpec::ordered(choices.iter().cloned()),
        }
    }

    /// Checks a declaration.
    pub(crate) fn from_spec(spec: &ParameterSpec) -> Result<Self, Refused> {
        match spec.kind.as_str() {
            "float" | "int" => {
                let expected = "no such key, since the type is not categorical";
                if spec.choices.is_some() {
                    return refused("choices", "a list", expected);
                }
                if let Some(ordered) = spec.ordered {
                    return refused("ordered", ordered, expected);
                }
                checked_range(spec, spec.kind == "int")
            }
            "categorical" => {
                let keys = [
                    ("low", spec.low.is_some()),
                    ("high", spec.high.is_some()),
                    ("log", spec.log.is_some()),
                    ("step", spec.step.is_some()),
                    ("values", spec.values.is_some()),
                ];
                if let Some((key, _)) = keys.into_iter().find(|(_, used)| *used) {
                    let expected = "no such key, since the type is categorical";
                    return refused(key, "a value", expected);
                }
                let choices = checked_choices(spec.choices.clone().unwrap_or_default())?;
                Ok(match spec.ordered {
                    Some(true) => Self::Ordered { choices },
                    Some(false) | None => Self::Categorical { choices },
                })
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
        if let Some(only) = self.only_value() {
            return write!(f, "the fixed value {only}");
        }
        match self {
            Self::Float { low, high, .. } => write!(f, "a number from {low:?} to {high:?}"),
            Self::Int { low, high, .. } => write!(f, "a whole number from {low} to {high}"),
            Self::Stepped(stepped) => stepped.fmt(f),
            Self::Set(set) => set.fmt(f),
            Self::Categorical { choices } | Self::Ordered { choices } => {
                let texts: Vec<String> = choices.iter().map(Value::to_string).collect();
                write!(f, "one of {}", texts.join(", "))
            }
        }
    }
}

/// Returns a bound as stored in the declaration. Declarations with bounds beyond ±2^53 are rejected
/// when they are checked.
#[expect(clippy::cast_precision_loss, reason = "values within ±2^53 are exact, others are refused")]
pub(crate) fn whole(bound: i64) -> f64 {
    bound as f64
}

/// Returns a number as an `i64` if it is an integer within ±(2^53 - 1). A larger number may have
/// been rounded.
pub(crate) fn whole_number(value: f64) -> Option<i64> {
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

/// Like [`int_cells`], for indices of values, counted from 0.
#[expect(clippy::cast_precision_loss, reason = "at most 2^53 + 1 values")]
fn index_cells(n_values: u64) -> (f64, f64) {
    (-0.5, n_values as f64 - 0.5)
}

/// Returns the index of one of `n_values` values with equal shares of `[0,1]`.
fn index_at_share(u: f64, n_values: u64) -> u64 {
    let (from, to) = index_cells(n_values);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates at both ends, and values beyond become the end"
    )]
    let index = (from + u * (to - from)).round() as u64;
    index.min(n_values - 1)
}

/// Returns the middle of the share of a value, the inverse of [`index_at_share`].
fn share_of_index(index: u64, n_values: u64) -> f64 {
    let (from, to) = index_cells(n_values);
    #[expect(clippy::cast_precision_loss, reason = "at most 2^53 + 1 values")]
    clamp((index as f64 - from) / (to - from))
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
        let set = ParameterSpec::int_values([16, 32, 128]);
        assert!(same(&set, &ParameterSpec::float_values([128.0, 16.0, 32.0]).with_log()));
        assert!(same(&set, &ParameterSpec::categorical([32, 128, 16])));
        assert!(!same(&set, &ParameterSpec::categorical([32, 128, 17])));
        assert!(!same(&set, &ParameterSpec::categorical(["16", "32", "128"])));
        assert!(!same(&set, &ParameterSpec::int(16, 128)));
    }
}
