//! Numbers that were not measured. In memory they are NaN. A database stores 0 in their place, and a
//! mark for each of them after the further numbers. Programs without support for marks see more
//! numbers than the study has, and refuse to use the trial.

/// Place of the mark of a trial's first number among its further numbers.
pub(crate) const MARKS: i64 = 1 << 32;

/// Value of the mark of a missing number. A mark with another value has no effect.
const MISSING: f64 = 1.0;

/// Returns a number as a database stores it.
pub(crate) fn stored(number: f64) -> f64 {
    if number.is_nan() { 0.0 } else { number }
}

/// Returns the further numbers of a trial as a database stores them, with their places and followed
/// by the marks.
pub(crate) fn placed(numbers: &[f64]) -> Vec<(i64, f64)> {
    let further = (1..).zip(numbers.iter().skip(1).map(|number| stored(*number)));
    let marks = (MARKS..).zip(numbers).filter(|(_, number)| number.is_nan());
    further.chain(marks.map(|(place, _)| (place, MISSING))).collect()
}

/// Returns all numbers of a trial, given its first number and the rows of [`placed`], in the order
/// of their places.
pub(crate) fn restored(value: f64, further: impl IntoIterator<Item = (i64, f64)>) -> Vec<f64> {
    let mut numbers = vec![value];
    for (place, number) in further {
        let marked = place.checked_sub(MARKS).and_then(|index| usize::try_from(index).ok());
        match marked {
            None => numbers.push(number),
            Some(index) if number.to_bits() == MISSING.to_bits() => {
                if let Some(missing) = numbers.get_mut(index) {
                    *missing = f64::NAN;
                }
            }
            Some(_) => {}
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_numbers_are_restored_and_take_no_row_if_there_are_none() {
        assert_eq!(placed(&[3.0, -1.0]), [(1, -1.0)]);
        assert_eq!(placed(&[3.0]), []);
        let rows = placed(&[f64::NAN, 2.0, f64::NAN]);
        assert_eq!(rows, [(1, 2.0), (2, 0.0), (MARKS, 1.0), (MARKS + 2, 1.0)]);
        let numbers = restored(stored(f64::NAN), rows);
        assert!(numbers[0].is_nan() && numbers[2].is_nan(), "{numbers:?}");
        assert_eq!((numbers.len(), numbers[1]), (3, 2.0));
        assert_eq!(restored(4.0, [(1, 5.0), (MARKS, 0.0), (MARKS + 7, 1.0)]), [4.0, 5.0]);
    }
}
