//! Student's t-test for a mean, and Holm's correction for multiple comparisons.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::beta::beta_reg;

use super::summary::{Estimate, VALUES_MIN};

/// The family-wise error rate of comparisons that are corrected together.
pub const LEVEL: f64 = 0.05;

/// A confidence interval for a mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Estimate {
    /// Returns the uncorrected 95 % confidence interval for the mean of n independent values:
    ///
    /// mean ± t · standard error,   t the 0.975 quantile of Student's distribution with n − 1 degrees of freedom
    ///
    /// `None` for a single value, for equal values other than 0 (their spread is unknown), and for
    /// values so large that the interval is infinite.
    #[must_use]
    pub fn interval(&self) -> Option<Interval> {
        let error = self.spread()?;
        let reach = if error > 0.0 {
            quantile(1.0 - LEVEL / 2.0, degrees_of_freedom(self.n)) * error
        } else {
            0.0
        };
        let (low, high) = (self.mean - reach, self.mean + reach);
        (low.is_finite() && high.is_finite()).then_some(Interval { low, high })
    }

    /// Returns the probability that a mean is at least this far from 0 if the true mean is 0, by
    /// Student's t with ν = n − 1 degrees of freedom:
    ///
    /// p = P(|T| ≥ |t|) = I(ν / (ν + t²); ν/2, 1/2),   t = mean / standard error,   I the regularized incomplete beta function
    ///
    /// `None` if the spread is unknown.
    #[must_use]
    pub fn p_value(&self) -> Option<f64> {
        let error = self.spread()?;
        if error <= 0.0 {
            return Some(1.0);
        }
        let (t, freedom) = (self.mean / error, degrees_of_freedom(self.n));
        let share = freedom / (freedom + t * t);
        // The share is not finite if the values overflow. This is not evidence of a difference.
        let p = if share.is_finite() { beta_reg(freedom / 2.0, 0.5, share) } else { 1.0 };
        Some(p.clamp(0.0, 1.0))
    }

    /// Returns the standard error, unless all values are equal and not 0.
    ///
    /// A few equal values, such as counts or accuracies, are no evidence of a precise mean.
    fn spread(&self) -> Option<f64> {
        // The mean of equal values differs from them by rounding errors.
        let is_known = |error: &f64| *error > 1e-12 * self.mean.abs() || self.mean.abs() <= 0.0;
        self.standard_error.filter(is_known)
    }

    /// Returns true if there are at least three values and the p-value is below 5 %, the criterion
    /// for every mark of significance.
    ///
    /// `p_adjusted` is the p-value after [`holm`] if there are several comparisons.
    #[must_use]
    pub fn differs_from_zero(&self, p_adjusted: Option<f64>) -> bool {
        self.n >= VALUES_MIN && p_adjusted.is_some_and(|p| p < LEVEL)
    }
}

fn degrees_of_freedom(n: usize) -> f64 {
    n.saturating_sub(1).max(1) as f64
}

/// Returns a quantile of Student's distribution.
fn quantile(probability: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom)
        .unwrap_or_else(|_| unreachable!("there is at least one degree of freedom"))
        .inverse_cdf(probability)
}

/// Applies Holm's step-down correction to the p-values of m comparisons.
///
/// For any level α, the probability that an adjusted p-value below α is a false rejection of any
/// comparison is at most α, under any dependence.
///
/// p̃_(i) = max_{j ≤ i} min(1, (m − j + 1) p_(j)),   p_(1) ≤ … ≤ p_(m)   (Holm 1979)
///
/// A comparison without a p-value stays without one and does not count towards m. Equal p-values
/// stay equal.
#[must_use]
pub fn holm(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let known = p_values.iter().enumerate().filter_map(|(index, p)| Some((index, (*p)?)));
    let mut order: Vec<(usize, f64)> = known.collect();
    order.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let m = order.len();
    let mut adjusted = vec![None; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, (index, p)) in order.into_iter().enumerate() {
        largest = largest.max(((m - rank) as f64 * p).min(1.0));
        adjusted[index] = Some(largest);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!(
            (found - expected).abs() <= tolerance * expected.abs(),
            "{found} is not {expected}"
        );
    }

    /// Compares with published tables of the 0.975 quantile, to their full precision.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, expected) in [
            (1.0, 12.706_204_736),
            (2.0, 4.302_652_730),
            (3.0, 3.182_446_305),
            (4.0, 2.776_445_105),
            (5.0, 2.570_581_836),
            (9.0, 2.262_157_163),
            (19.0, 2.093_024_054),
            (29.0, 2.045_229_642),
            (59.0, 2.000_995_378),
            (100.0, 1.983_971_519),
            (120.0, 1.979_930_405),
            (1_000.0, 1.962_339_081),
        ] {
            close(quantile(0.975, freedom), expected, 1e-8);
        }
    }

    /// Compares with closed forms: ν = 1 is Cauchy's distribution, and for ν = 2 P(|T| ≥ t) = 1 −
    /// t/√(2 + t²).
    #[test]
    fn p_values_are_those_of_closed_forms() {
        let p = |t: f64, n| {
            let estimate = Estimate { mean: -t, standard_error: Some(1.0), n };
            estimate.p_value().expect("several values")
        };
        for t in [0.1, 1.0, 3.0, 12.706_204_736, 100.0] {
            let cauchy = 1.0 - 2.0 * f64::atan(t) / std::f64::consts::PI;
            close(p(t, 2), cauchy, 1e-9);
            close(p(t, 3), 1.0 - t / (2.0 + t * t).sqrt(), 1e-9);
        }
        close(p(0.0, 7), 1.0, 1e-12);
        // From the table: with 19 degrees of freedom, 2.093 leaves 5 % and 2.861 leaves 1 %.
        close(p(2.093_024_054, 20), 0.05, 1e-8);
        close(p(2.860_934_606, 20), 0.01, 1e-8);
        assert!(p(50.0, 60) > 0.0 && p(50.0, 60) < 1e-40);
    }

    /// According to tables of Student's distribution, a mean of two standard errors is not
    /// significant at 5 % with 3, 5, 10 or 20 values.
    #[test]
    fn two_standard_errors_are_not_five_percent() {
        for (n, expected) in [(3, 0.184), (5, 0.116), (10, 0.0766), (20, 0.0600)] {
            let estimate = Estimate { mean: 2.0, standard_error: Some(1.0), n };
            let p = estimate.p_value();
            close(p.expect("several values"), expected, 3e-3);
            assert!(!estimate.differs_from_zero(p), "{n} values");
        }
    }

    #[test]
    fn an_interval_and_its_p_value_agree() {
        let estimate = |mean| Estimate { mean, standard_error: Some(0.5), n: 5 };
        let edge = 0.5 * quantile(0.975, 4.0);
        for (mean, is_shown) in [(edge + 1e-6, true), (edge - 1e-6, false)] {
            let interval = estimate(mean).interval().expect("several values");
            close(interval.high - mean, edge, 1e-12);
            assert_eq!(interval.low > 0.0, is_shown);
            assert_eq!(estimate(mean).differs_from_zero(estimate(mean).p_value()), is_shown);
        }
    }

    #[test]
    fn equal_values_show_nothing_unless_they_are_zero() {
        let equal = |mean| Estimate { mean, standard_error: Some(0.0), n: 3 };
        assert_eq!((equal(2.0).interval(), equal(2.0).p_value()), (None, None));
        let rounded = Estimate { standard_error: Some(1e-17), ..equal(0.1) };
        assert_eq!(rounded.p_value(), None);
        let none = Interval { low: 0.0, high: 0.0 };
        assert_eq!(equal(0.0).interval(), Some(none));
        assert_eq!(equal(0.0).p_value(), Some(1.0));
        let single = Estimate { mean: 2.0, standard_error: None, n: 1 };
        assert_eq!((single.interval(), single.p_value()), (None, None));
        let beyond = Estimate { mean: f64::MAX, standard_error: Some(f64::INFINITY), n: 4 };
        assert_eq!(beyond.p_value(), Some(1.0));
    }

    /// Checked by hand: the p-values 0.01, 0.02, 0.03, 0.6 of 4 comparisons give 4·0.01, 3·0.02,
    /// 2·0.03 and 0.6.
    #[test]
    fn holm_steps_down_and_never_back() {
        let check = |p_values: &[Option<f64>], expected: &[Option<f64>]| {
            let adjusted = holm(p_values);
            assert_eq!(adjusted.len(), expected.len());
            for (found, expected) in adjusted.into_iter().zip(expected) {
                assert_eq!(found.is_some(), expected.is_some());
                if let (Some(found), Some(expected)) = (found, expected) {
                    close(found, *expected, 1e-12);
                }
            }
        };
        let some = |values: [f64; 4]| values.map(Some);
        check(&some([0.03, 0.01, 0.6, 0.02]), &some([0.06, 0.04, 0.6, 0.06]));
        // The second would be 2 · 0.011 = 0.022, less than the first one's 0.03. A missing p-value
        // does not count.
        let gap = [Some(0.010), None, Some(0.011), Some(0.9)];
        check(&gap, &[Some(0.03), None, Some(0.03), Some(0.9)]);
        // For equal p-values, the first step is the largest: 4 · 0.02 for all three, in any order.
        check(&some([0.02, 0.5, 0.02, 0.02]), &some([0.08, 0.5, 0.08, 0.08]));
        check(&[Some(0.7), Some(0.8)], &[Some(1.0), Some(1.0)]);
        check(&[], &[]);
    }
}
