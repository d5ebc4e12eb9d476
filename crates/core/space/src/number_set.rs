//! A finite set of given numbers.

use std::fmt;

use crate::Value;
use crate::stepped::Refused;

/// Tolerance for a member of a set of floats, relative to the member.
const TOLERANCE: f64 = 1e-12;

/// Finitely many numbers in ascending order, with one coordinate: 0 for the smallest, 1 for the
/// largest, and in between proportional to the number, or to its logarithm.
///
/// A coordinate decodes to the number nearest to it, so that a surrogate sees the distances between
/// the numbers. Isolated numbers therefore have larger cells of the coordinate than others. Designs
/// and random points are drawn by [`crate::Space::draw`] instead, which gives each number an equal
/// share.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberSet {
    /// At least one.
    numbers: Vec<f64>,
    log: bool,
    is_whole: bool,
}

impl NumberSet {
    /// Creates a set from finite numbers, which must be whole and within ±2^53 for integers, and
    /// positive if `log`.
    pub(crate) fn new(mut numbers: Vec<f64>, log: bool, is_whole: bool) -> Result<Self, Refused> {
        for number in &mut numbers {
            *number += 0.0; // −0 is 0
        }
        numbers.sort_by(f64::total_cmp);
        let set = Self { numbers, log, is_whole };
        let refuse = |found: String, expected: &str| Err(("values", found, expected.to_owned()));
        let pairs = || set.numbers.windows(2);
        #[expect(clippy::float_cmp, reason = "numbers that were written down, not computed")]
        if let Some(pair) = pairs().find(|pair| pair[0] == pair[1]) {
            return refuse(
                format!("{} twice", set.shown(pair[0])),
                "numbers that are all different",
            );
        }
        if !log && !(set.high() - set.low()).is_finite() {
            let found = format!("{} and {}", set.shown(set.low()), set.shown(set.high()));
            return refuse(found, "numbers whose differences a 64-bit float can hold");
        }
        // Two numbers with the same coordinate could not be told apart.
        if let Some(pair) = pairs().find(|pair| set.coordinate(pair[0]) >= set.coordinate(pair[1]))
        {
            let found = format!("{} and {}", set.shown(pair[0]), set.shown(pair[1]));
            let expected = "numbers that are not too close together in comparison with their range";
            return refuse(found, expected);
        }
        Ok(set)
    }

    /// The numbers in ascending order.
    pub fn numbers(&self) -> &[f64] {
        &self.numbers
    }

    /// The smallest number.
    pub fn low(&self) -> f64 {
        self.numbers[0]
    }

    /// The largest number.
    pub fn high(&self) -> f64 {
        self.numbers[self.numbers.len() - 1]
    }

    /// Returns true if distances are those between logarithms.
    pub fn is_log(&self) -> bool {
        self.log
    }

    /// Returns true if the numbers are those of an `int` parameter.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the number with this index, counted from 0.
    pub(crate) fn value(&self, index: u64) -> Option<Value> {
        let number = *self.numbers.get(usize::try_from(index).ok()?)?;
        Some(match self.is_whole {
            #[expect(clippy::cast_possible_truncation, reason = "whole and within ±2^53")]
            true => Value::Int(number as i64),
            false => Value::Float(number),
        })
    }

    /// Returns the index of a number. A float may differ from it by rounding errors.
    pub(crate) fn index_of(&self, value: f64) -> Option<u64> {
        if !value.is_finite() {
            return None;
        }
        let index = nearest(&self.numbers, value, |number| number);
        let tolerance = match self.is_whole {
            true => 0.0,
            false => TOLERANCE * self.numbers[index].abs(),
        };
        ((value - self.numbers[index]).abs() <= tolerance).then_some(index as u64)
    }

    /// Returns the index of the number whose coordinate is nearest to `u`.
    pub(crate) fn index_at(&self, u: f64) -> u64 {
        nearest(&self.numbers, u, |number| self.coordinate(number)) as u64
    }

    /// Returns the coordinate of one of several numbers.
    pub(crate) fn coordinate(&self, number: f64) -> f64 {
        let place = |number: f64| if self.log { number.ln() } else { number };
        let (low, high) = (place(self.low()), place(self.high()));
        ((place(number) - low) / (high - low)).clamp(0.0, 1.0)
    }

    fn shown(&self, number: f64) -> String {
        match self.is_whole {
            true => format!("{number}"),
            false => format!("{number:?}"),
        }
    }
}

impl fmt::Display for NumberSet {
    /// Describes the set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.numbers.iter().map(|number| self.shown(*number)).collect();
        write!(f, "one of the numbers {}", texts.join(", "))
    }
}

/// Returns the index of the ascending number whose place is nearest to `to`, of two equally near ones
/// the smaller. `place` is increasing.
fn nearest(ascending: &[f64], to: f64, place: impl Fn(f64) -> f64) -> usize {
    let above = ascending.partition_point(|each| place(*each) < to);
    let Some(below) = above.checked_sub(1) else { return 0 };
    match ascending.get(above) {
        Some(next) if place(*next) - to < to - place(ascending[below]) => above,
        _ => below,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parameter, ParameterSpec};

    fn set(numbers: &[f64], log: bool) -> NumberSet {
        NumberSet::new(numbers.to_vec(), log, false).unwrap()
    }

    #[test]
    fn coordinates_keep_the_distances_on_the_scale() {
        let linear = set(&[30.0, 10.0, 20.0, 110.0], false);
        let places: Vec<f64> = linear.numbers().iter().map(|n| linear.coordinate(*n)).collect();
        assert_eq!(places, [0.0, 0.1, 0.2, 1.0]);
        assert_eq!([0.04, 0.06, 0.59, 0.61].map(|u| linear.index_at(u)), [0, 1, 2, 3]);
        let log = set(&[1.0, 10.0, 1000.0], true);
        assert!((log.coordinate(10.0) - 1.0 / 3.0).abs() < 1e-15);
        assert_eq!([0.0, 0.34, 0.66, 0.67, 1.0].map(|u| log.index_at(u)), [0, 1, 1, 2, 2]);
    }

    #[test]
    fn members_are_found_despite_rounding_errors_and_others_are_not() {
        let fractions = set(&[0.1, 0.3, 0.7], false);
        assert_eq!(fractions.index_of(0.1 + 0.2), Some(1));
        for other in [0.2, 0.300_001, -0.1, 0.8, f64::NAN, f64::INFINITY] {
            assert_eq!(fractions.index_of(other), None, "{other}");
        }
        let whole = NumberSet::new(vec![16.0, 128.0], true, true).unwrap();
        assert_eq!((whole.index_of(128.0), whole.index_of(127.0)), (Some(1), None));
    }

    #[test]
    fn a_set_has_at_most_ten_thousand_numbers() {
        let spec = |n: i64| ParameterSpec::int_values(0..n);
        let most = Parameter::from_spec("n", &spec(10_000)).unwrap();
        assert_eq!(most.kind().n_values(), Some(10_000));
        let says = Parameter::from_spec("n", &spec(10_001)).unwrap_err().to_string();
        let expected =
            "expected at most 10000 numbers; for numbers at equal distances use low, high and step";
        assert!(says.contains("values = 10001 numbers") && says.contains(expected), "{says}");
    }

    #[test]
    fn sets_that_cannot_be_told_apart_are_refused() {
        for (numbers, words) in [
            (vec![1.0, 2.0, 1.0], "1.0 twice"),
            (vec![0.0, -0.0], "0.0 twice"),
            (vec![-1e308, 1e308], "-1e308 and 1e308"),
            (vec![-1e16, 0.1, 0.2, 1e16], "0.1 and 0.2"),
        ] {
            let (key, found, _) = NumberSet::new(numbers, false, false).unwrap_err();
            assert_eq!((key, &found[..]), ("values", words));
        }
    }
}
