//! Detection and compression of penalties: outputs that users report for crashes, and diverged
//! losses.

/// A map that compresses the bad tail of outputs (larger is better) and leaves all other outputs
/// unchanged:
///
/// ```text
/// y ↦ y for y ≥ t,   t − r u/(1 + u) below, with u = (t − y)/r
/// ```
///
/// t is the worst ordinary output, and r is its distance from the best output. The map is
/// non-decreasing, has slope 1 at t, and never goes below t − r. A penalty of any size therefore
/// has at most the leverage of an output twice as far from the best output as the worst ordinary
/// one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BadTail {
    knee: f64,
    reach: f64,
}

/// An output is a penalty if it is more than this many times as far from the best output as the
/// next better output.
const JUMP: f64 = 12.0;
/// Like [`JUMP`], for a cluster of several nearly equal outputs, such as a number that is reported
/// for every crash.
const JUMP_OF_CLUSTER: f64 = 5.0;
/// Minimum distance of a cluster's first output from the best output, as a fraction of the worst
/// output's distance.
const CLUSTER: f64 = 0.9;
/// Minimum number of different outputs for detecting penalties. With fewer, too little is known
/// about ordinary outputs.
const N_MIN: usize = 4;
/// Fraction of the different outputs, starting with the best, that is always ordinary.
const ORDINARY: f64 = 0.4;

impl BadTail {
    /// The identity.
    pub(crate) const NONE: Self = Self { knee: f64::NEG_INFINITY, reach: 0.0 };

    /// Returns the map for these finite outputs.
    ///
    /// The best 40 % of the different outputs are ordinary. From there downwards, outputs are
    /// ordinary until one is more than twelve times as far from the best output as the previous
    /// one. The factor is five if this output and all worse ones form a cluster: several outputs
    /// within a tenth of each other. Equal outputs count once, so one penalty for many crashes is a
    /// single output.
    pub(crate) fn of(y: &[f64]) -> Self {
        let mut sorted = y.to_vec();
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        let all = sorted.clone();
        sorted.dedup();
        let n = sorted.len();
        if n < N_MIN {
            return Self::NONE;
        }
        // Use half of the gap, because the whole gap can overflow.
        let gap = |index: usize| 0.5 * sorted[0] - 0.5 * sorted[index];
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index of an observation"
        )]
        let first = ((ORDINARY * n as f64).ceil() as usize).max(2);
        let is_cluster = |next: usize| {
            let n_better = all.partition_point(|y| *y > sorted[next]);
            all.len() - n_better > 1 && gap(next) >= CLUSTER * gap(n - 1)
        };
        let jump = |next: usize| if is_cluster(next) { JUMP_OF_CLUSTER } else { JUMP };
        let worst = (first..n - 1).find(|index| gap(index + 1) > jump(index + 1) * gap(*index));
        worst.map_or(Self::NONE, |worst| Self {
            knee: sorted[worst],
            reach: (2.0 * gap(worst)).min(f64::MAX),
        })
    }

    pub(crate) fn apply(self, y: f64) -> f64 {
        if y >= self.knee {
            return y;
        }
        let u = (0.5 * self.knee - 0.5 * y) / self.reach * 2.0;
        if u.is_finite() {
            self.knee - self.reach * (u / (1.0 + u))
        } else {
            self.knee - self.reach
        }
    }

    /// Returns the output that maps to this value, or the most negative number if the value is
    /// below the range of the map.
    pub(crate) fn invert(self, value: f64) -> f64 {
        if value >= self.knee {
            return value;
        }
        let share = (self.knee - value) / self.reach;
        if share < 1.0 {
            (self.knee - self.reach * (share / (1.0 - share))).max(f64::MIN)
        } else {
            f64::MIN
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn penalties_are_drawn_in_and_nothing_else_is() {
        let ordinary = [-0.3, -0.1, 0.0, -1.0, -0.05];
        assert_eq!(BadTail::of(&ordinary), BadTail::NONE);
        for (penalty, n_least) in
            [(5.5, 2), (12.5, 1), (1e3, 1), (1e12, 1), (1e300, 1), (f64::MAX, 1)]
        {
            for n in [n_least, 4, 40] {
                let outputs = [&ordinary[..], &vec![-penalty; n]].concat();
                let tail = BadTail::of(&outputs);
                assert_eq!(tail, BadTail { knee: -1.0, reach: 1.0 });
                assert!(ordinary.iter().all(|y| tail.apply(*y).to_bits() == y.to_bits()));
                // u = p − 1, so the value is −1 − (p − 1)/p.
                let expected = -2.0 + 1.0 / penalty;
                assert!((tail.apply(-penalty) - expected).abs() < 1e-12, "{penalty}");
                let back = tail.invert(tail.apply(-penalty));
                assert!(penalty > 1e6 || (back / -penalty - 1.0).abs() < 1e-6, "{penalty}: {back}");
            }
        }
    }

    /// Nearly equal penalties, such as predicted values for stopped training runs, count as one
    /// number.
    #[test]
    fn nearly_equal_penalties_are_a_cluster() {
        let ordinary = [-0.3, -0.1, 0.0, -1.0, -0.05];
        let tail = BadTail::of(&[&ordinary[..], &[-5.5, -5.6, -6.0]].concat());
        assert_eq!(tail, BadTail { knee: -1.0, reach: 1.0 });
    }

    /// Outputs within the jump factors are not compressed, and values that differ by more than a
    /// tenth do not form a cluster.
    #[test]
    fn what_is_little_worse_is_ordinary() {
        let ordinary = [-0.3, -0.1, 0.0, -1.0, -0.05];
        for bad in [&[-11.5][..], &[-4.5, -4.5], &[-6.0, -6.0, -7.0]] {
            assert_eq!(BadTail::of(&[&ordinary[..], bad].concat()), BadTail::NONE, "{bad:?}");
        }
    }

    /// Outputs that approach the best output by decades, as in a converging search, are all
    /// ordinary.
    #[test]
    fn decades_are_no_penalties() {
        let outputs: Vec<f64> = (0..12).map(|i| -(10_f64.powi(-i))).chain([0.0]).collect();
        assert_eq!(BadTail::of(&outputs), BadTail::NONE);
        assert_eq!(BadTail::of(&[0.0, -1.0, -1e9]), BadTail::NONE);
        assert_eq!(BadTail::of(&[5.0; 9]), BadTail::NONE);
        assert_eq!(BadTail::of(&[]), BadTail::NONE);
    }

    #[test]
    fn the_map_does_not_decrease_and_has_slope_1_at_its_knee() {
        let tail = BadTail { knee: -3.0, reach: 2.0 };
        let values: Vec<f64> = (0..400).map(|i| -2.0 - 0.05 * f64::from(i)).collect();
        assert!(values.windows(2).all(|w| tail.apply(w[0]) > tail.apply(w[1])));
        assert!(((tail.apply(-3.0) - tail.apply(-3.0 - 1e-7)) / 1e-7 - 1.0).abs() < 1e-6);
        assert!(tail.apply(f64::MIN) >= -5.0 && tail.invert(-6.0) <= f64::MIN);
        for y in [-2.0, -3.5, -40.0] {
            assert!((tail.invert(tail.apply(y)) - y).abs() < 1e-9);
        }
    }
}
