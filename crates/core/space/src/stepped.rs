//! Numbers spaced a fixed step apart.

use std::fmt;

use crate::Value;

/// Maximum magnitude of integer bounds. A larger f64 may have been rounded.
pub(crate) const MAX_INT: f64 = 9_007_199_254_740_991.0;

/// Maximum number of decimal digits of grid values, so that an f64 can represent them distinctly.
const MAX_DIGITS: u32 = 15;

/// Tolerance around a grid value, as a fraction of a step, for rounding errors in sums of decimals.
const TOLERANCE: f64 = 1e-9;

/// The values low + k·step for k = 0, 1, …, n − 1. The last one is high.
///
/// The values are stored as multiples of a power of ten that divides low and step. For example, the
/// third value after 0 with step 0.05 is the f64 nearest to 0.15, which prints as 0.15, and not 3 ·
/// 0.05 = 0.15000000000000002.
#[derive(Clone, Debug, PartialEq)]
pub struct Stepped {
    /// low, in units of 10^exponent.
    first: i64,
    /// step > 0, in the same units.
    stride: i64,
    exponent: i32,
    /// n ≥ 1.
    n_values: u64,
    is_whole: bool,
}

/// The reason for rejecting a declaration: the key, the value found, and the expected values.
pub(crate) type Refused = (&'static str, String, String);

impl Stepped {
    /// Creates the grid from `low` to `high`, which are finite with `low` ≤ `high`. For integers,
    /// the bounds must already be whole.
    pub(crate) fn new(low: f64, high: f64, step: f64, is_whole: bool) -> Result<Self, Refused> {
        let refuse = |expected: String| Err(("step", step.to_string(), expected));
        if is_whole && !(step >= 1.0 && step.fract() == 0.0 && step <= MAX_INT) {
            return refuse("a whole number of at least 1, since the type is int".to_owned());
        }
        if !(step.is_finite() && step > 0.0) {
            return refuse("a finite number above 0".to_owned());
        }
        let numbers = [low, high, step].map(decimal);
        let exponent = numbers.map(|(_, exponent)| exponent).into_iter().min();
        let exponent = exponent.unwrap_or(0); // step is not 0
        let limit = match is_whole {
            true => 1 << 53,
            false => 10_i64.pow(MAX_DIGITS),
        };
        let [Some(first), Some(last), Some(stride)] =
            numbers.map(|number| in_units(number, exponent, limit))
        else {
            return refuse(format!(
                "a number that takes at most {MAX_DIGITS} digits together with low and high"
            ));
        };
        if stride > last - first && first < last {
            let most = nearest(last - first, exponent);
            return refuse(format!("a number of at most high - low = {most}"));
        }
        let n_steps = (last - first) / stride;
        let grid = Self { first, stride, exponent, n_values: n_steps.unsigned_abs() + 1, is_whole };
        if first + n_steps * stride != last {
            let (below, above) = (grid.number(n_steps), grid.number(n_steps + 1));
            let expected = format!(
                "low + k * step for a whole number k; the nearest such values are {below} and {above}"
            );
            return Err(("high", high.to_string(), expected));
        }
        Ok(grid)
    }

    /// The smallest value.
    pub fn low(&self) -> f64 {
        self.number(0)
    }

    /// The largest value.
    pub fn high(&self) -> f64 {
        let last = self.n_values - 1;
        self.number(i64::try_from(last).unwrap_or(i64::MAX)) // at most 2 · 2^53
    }

    /// The distance between neighbouring values.
    pub fn step(&self) -> f64 {
        nearest(self.stride, self.exponent)
    }

    /// Returns the number of values n, at least 1.
    pub fn n_values(&self) -> u64 {
        self.n_values
    }

    /// Returns true if the values are the integers of an `int` parameter.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the value with this index, counted from 0.
    pub(crate) fn value(&self, index: u64) -> Option<Value> {
        let index = i64::try_from(index).ok();
        let index = index.filter(|_| index.is_some_and(|k| k.unsigned_abs() < self.n_values))?;
        Some(match self.is_whole {
            // For integers, the unit may be a power of ten above 1.
            #[expect(
                clippy::cast_possible_truncation,
                reason = "between two bounds within ±2^53, and whole"
            )]
            true => Value::Int(self.number(index) as i64),
            false => Value::Float(self.number(index)),
        })
    }

    /// Returns the index of the grid value equal to `value`, with a tolerance of a billionth of a
    /// step.
    pub(crate) fn index_of(&self, value: f64) -> Option<u64> {
        let steps = ((value - self.low()) / self.step()).round();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the cast saturates, and values outside are refused below"
        )]
        let index = steps as i64;
        let known = u64::try_from(index).ok().filter(|k| *k < self.n_values)?;
        let tolerance = match self.is_whole {
            true => 0.0,
            false => TOLERANCE * self.step(),
        };
        ((value - self.number(index)).abs() <= tolerance).then_some(known)
    }

    /// Returns the number nearest to low + k·step.
    fn number(&self, k: i64) -> f64 {
        nearest(self.first + k * self.stride, self.exponent)
    }
}

impl fmt::Display for Stepped {
    /// Describes the range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high, step) = (self.low(), self.high(), self.step());
        match self.is_whole {
            true => write!(f, "a whole number from {low} to {high} in steps of {step}"),
            false => write!(f, "a number from {low:?} to {high:?} in steps of {step:?}"),
        }
    }
}

/// Returns the f64 nearest to units · 10^exponent, by parsing the decimal string.
fn nearest(units: i64, exponent: i32) -> f64 {
    let text = format!("{units}e{exponent}");
    text.parse().unwrap_or_else(|error| unreachable!("{text} is a number: {error}"))
}

/// Returns the shortest decimal m · 10^e that parses back to a finite number, as m and e. m does
/// not end in 0.
fn decimal(number: f64) -> (i64, i32) {
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let units = format!("{whole}{fraction}").parse().unwrap_or(0); // at most 17 digits
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let n_decimals = i32::try_from(fraction.len()).unwrap_or(0);
    match units {
        0 => (0, i32::MAX), // an integer in any unit
        _ => (units, exponent - n_decimals),
    }
}

/// Converts a decimal to units of a smaller power of ten. Returns `None` if there are more than
/// `limit` units.
fn in_units((units, from): (i64, i32), exponent: i32, limit: i64) -> Option<i64> {
    let factor = match units {
        0 => 1,
        _ => 10_i64.checked_pow(u32::try_from(from - exponent).ok()?)?,
    };
    units.checked_mul(factor).filter(|units| units.abs() <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(grid: &Stepped) -> Vec<String> {
        (0..grid.n_values()).map(|k| grid.value(k).unwrap().to_string()).collect()
    }

    #[test]
    fn values_are_the_decimals_that_one_would_write() {
        let grid = Stepped::new(0.0, 1.0, 0.05, false).unwrap();
        let expected: Vec<String> =
            (0..=20).map(|k| format!("{:?}", f64::from(k) / 20.0)).collect();
        assert_eq!(texts(&grid), expected);
        assert_eq!(texts(&grid)[3], "0.15");
        let grid = Stepped::new(-0.3, 0.3, 0.1, false).unwrap();
        assert_eq!(texts(&grid), ["-0.3", "-0.2", "-0.1", "0.0", "0.1", "0.2", "0.3"]);
        let grid = Stepped::new(1e-7, 5e-7, 2e-7, false).unwrap();
        assert_eq!(texts(&grid), ["1e-7", "3e-7", "5e-7"]);
        let grid = Stepped::new(0.0, 9e300, 3e300, false).unwrap();
        assert_eq!(texts(&grid), ["0.0", "3e300", "6e300", "9e300"]);
        let grid = Stepped::new(100.0, 300.0, 100.0, true).unwrap();
        assert_eq!(texts(&grid), ["100", "200", "300"]);
        assert_eq!((grid.low(), grid.high(), grid.step()), (100.0, 300.0, 100.0));
        // As floats, 0.3 − 0.1 is below 0.2.
        assert_eq!(texts(&Stepped::new(0.1, 0.3, 0.2, false).unwrap()), ["0.1", "0.3"]);
        let widest = Stepped::new(-MAX_INT, MAX_INT, 1.0, true).unwrap();
        assert_eq!(widest.n_values(), (1 << 54) - 1);
        assert_eq!(widest.value(0), Some(Value::Int(1 - (1 << 53))));
        assert_eq!(widest.value((1 << 54) - 2), Some(Value::Int((1 << 53) - 1)));
        assert_eq!(widest.value((1 << 54) - 1), None);
    }

    #[test]
    fn a_sum_of_decimals_means_the_value_next_to_it_and_no_other_does() {
        let grid = Stepped::new(0.0, 1.0, 0.05, false).unwrap();
        assert_eq!(grid.index_of(0.05 + 0.1), Some(3));
        for off in [0.151, 0.149, -0.05, 1.05, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(grid.index_of(off), None, "{off}");
        }
        let whole = Stepped::new(8.0, 64.0, 8.0, true).unwrap();
        assert_eq!(whole.index_of(24.0), Some(2));
        assert_eq!(whole.index_of(24.000_000_001), None);
    }

    #[test]
    fn a_grid_that_does_not_reach_high_says_which_values_do() {
        let cases = [
            ((0.0, 1.0, 0.3, false), "high", "0.9 and 1.2"),
            ((0.0, 1.0, 0.0, false), "step", "above 0"),
            ((0.0, 1.0, -0.1, false), "step", "above 0"),
            ((0.0, 1.0, f64::NAN, false), "step", "above 0"),
            ((0.0, 1.0, 2.0, false), "step", "at most high - low = 1"),
            ((0.0, 1.0, 1.0 / 3.0, false), "step", "at most 15 digits"),
            ((1e300, 2e300, 1.0, false), "step", "at most 15 digits"),
            ((0.0, 9.0, 0.5, true), "step", "whole number"),
            ((0.0, 9.0, 2.0, true), "high", "8 and 10"),
        ];
        for ((low, high, step, is_whole), key, expected) in cases {
            let (at, _, says) = Stepped::new(low, high, step, is_whole).unwrap_err();
            assert_eq!(at, key, "{says}");
            assert!(says.contains(expected), "{says}");
        }
    }
}
