//! Values that lie so far beyond all others that an axis does without them.

/// The worst tenth (at least one) is left off the axis if that makes it shorter by this factor.
const FAR: f64 = 8.0;
/// So is up to a third of the values, a penalty perhaps, if it makes the axis shorter by this.
const VERY_FAR: f64 = 50.0;
/// Fewer values than this are all on the axis.
const N_FOR_LIMIT: usize = 5;

/// Returns the number of values, from the best on, that are on the axis; `positions` are where it would show them, from
/// the best to the worst.
pub(crate) fn n_shown(positions: &[f64]) -> usize {
    let n = positions.len();
    if n < N_FOR_LIMIT {
        return n;
    }
    // Halves, as the distance of two finite values need not be finite.
    let from_best = |index: usize| (positions[index] / 2.0 - positions[0] / 2.0).abs();
    let is_far = |n_left_off: usize| {
        let last = from_best(n - n_left_off - 1);
        let factor = if n_left_off <= (n / 10).max(1) {
            FAR
        } else {
            VERY_FAR
        };
        last > 0.0 && from_best(n - n_left_off) > factor * last
    };
    let n_left_off = (1..=n / 3).rev().find(|n_left_off| is_far(*n_left_off));
    n - n_left_off.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_left_off_sooner_than_many() {
        assert_eq!(n_shown(&[0.0, 1.0, 2.0, 100.0]), 4, "too few to judge");
        assert_eq!(n_shown(&[0.0, 1.0, 1.5, 2.0, 17.0]), 4);
        assert_eq!(n_shown(&[0.0, 1.0, 1.5, 2.0, 15.0]), 5);
        assert_eq!(n_shown(&[0.0, 1.0, 1.5, 2.0, 99.0, 99.0]), 6);
        assert_eq!(n_shown(&[0.0, 1.0, 1.5, 2.0, 101.0, 101.0]), 4);
        assert_eq!(
            n_shown(&[0.0, 0.0, 0.0, 0.0, 0.0, 9.0]),
            6,
            "a range of its own"
        );
        assert_eq!(n_shown(&[-1e308, -5e307, 0.0, 5e307, 1e308]), 5);
    }
}
