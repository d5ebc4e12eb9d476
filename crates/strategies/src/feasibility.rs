//! Feasibility: a point's probability of success, which a search can weigh against its value.

use fedbo_optim::{Function, Points};

/// Weight of the prior relative to one trial at the same point.
const PRIOR_WEIGHT: f64 = 0.01;
/// Candidate bandwidths, as fractions of √d.
const BANDWIDTHS: [f64; 6] = [0.025, 0.05, 0.1, 0.2, 0.4, 0.8];
/// Number of latest trials used to compare bandwidths.
const N_COMPARED: usize = 200;

/// A kernel estimate, over all finished trials, of the probability that a trial at x succeeds:
///
/// p(x) = (w p₀ + Σ_{i succeeded} ρ_i(x)) / (w + Σ_i ρ_i(x)),   ρ_i(x) = exp(−‖x − x_i‖²/(2ℓ²))
///
/// with w = 0.01 and p₀ = (successes + 1)/(trials + 2), the limit of p far from all trials. The
/// bandwidth ℓ is the one of six candidates that maximizes the likelihood of the latest 200
/// outcomes, each predicted from all others.
#[derive(Clone, Debug)]
pub(crate) struct Feasibility {
    trials: Points,
    succeeded: Vec<bool>,
    prior: f64,
    bandwidth: f64,
}

impl Feasibility {
    /// Estimates the probability from the inputs that succeeded and the inputs that failed, each in
    /// the order of observation. Returns `None` if no input failed. Cost: O(n) per compared trial.
    pub(crate) fn of(succeeded: &Points, failed: &Points) -> Option<Self> {
        if failed.is_empty() {
            return None;
        }
        // Order both kinds by age, so that the latest trials come last.
        let longest = succeeded.len().max(failed.len());
        let (mut trials, mut outcomes) = (Points::new(failed.dim()), Vec::new());
        for index in 0..longest {
            for (list, outcome) in [(succeeded, true), (failed, false)] {
                if let Some(place) = (index + list.len()).checked_sub(longest) {
                    trials.push(list.row(place));
                    outcomes.push(outcome);
                }
            }
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "numbers of trials and of dimensions are far below 2^53"
        )]
        let (prior, root_dim) = (
            (succeeded.len() as f64 + 1.0) / (outcomes.len() as f64 + 2.0),
            (failed.dim() as f64).sqrt(),
        );
        let mut found =
            Self { trials, succeeded: outcomes, prior, bandwidth: BANDWIDTHS[0] * root_dim };
        let mut best = (f64::NEG_INFINITY, found.bandwidth);
        for share in BANDWIDTHS {
            found.bandwidth = share * root_dim;
            let likelihood = found.left_out_likelihood();
            if likelihood > best.0 {
                best = (likelihood, found.bandwidth);
            }
        }
        found.bandwidth = best.1;
        Some(found)
    }

    /// Returns the log-likelihood of the latest outcomes, each predicted from all other trials.
    fn left_out_likelihood(&self) -> f64 {
        let n = self.succeeded.len();
        (n.saturating_sub(N_COMPARED)..n)
            .map(|i| {
                let (mut good, mut all) = (PRIOR_WEIGHT * self.prior, PRIOR_WEIGHT);
                for (j, z) in self.trials.rows().enumerate() {
                    if j != i {
                        let weight = self.weight(self.trials.row(i), z);
                        all += weight;
                        good += if self.succeeded[j] { weight } else { 0.0 };
                    }
                }
                let p = good / all;
                if self.succeeded[i] { p.ln() } else { (1.0 - p).ln() }
            })
            .sum()
    }

    fn weight(&self, x: &[f64], z: &[f64]) -> f64 {
        let squares: f64 = x.iter().zip(z).map(|(a, b)| (a - b).powi(2)).sum();
        (-0.5 * squares / (self.bandwidth * self.bandwidth)).exp()
    }

    /// Returns ln p(x), which is always finite.
    fn log_probability(&self, x: &[f64]) -> f64 {
        let (mut good, mut all) = (PRIOR_WEIGHT * self.prior, PRIOR_WEIGHT);
        for (z, succeeded) in self.trials.rows().zip(&self.succeeded) {
            let weight = self.weight(x, z);
            all += weight;
            good += if *succeeded { weight } else { 0.0 };
        }
        (good / all).ln()
    }

    /// Returns ln p(x), and adds `scale` times its gradient to `gradient`.
    fn add_gradient(&self, x: &[f64], scale: f64, gradient: &mut [f64]) -> f64 {
        let (mut good, mut all) = (PRIOR_WEIGHT * self.prior, PRIOR_WEIGHT);
        let (mut d_good, mut d_all) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        for (z, succeeded) in self.trials.rows().zip(&self.succeeded) {
            let weight = self.weight(x, z);
            let slope = -weight / (self.bandwidth * self.bandwidth);
            all += weight;
            for (d, (a, b)) in d_all.iter_mut().zip(x.iter().zip(z)) {
                *d += slope * (a - b);
            }
            if *succeeded {
                good += weight;
                for (d, (a, b)) in d_good.iter_mut().zip(x.iter().zip(z)) {
                    *d += slope * (a - b);
                }
            }
        }
        for (g, (d_good, d_all)) in gradient.iter_mut().zip(d_good.iter().zip(&d_all)) {
            *g += scale * (d_good / good - d_all / all);
        }
        (good / all).ln()
    }
}

/// k, the weight of ln p(x).
const FEASIBILITY_WEIGHT: f64 = 4.0;

/// A function of the surrogate plus k ln p(x), with k = 4.
///
/// For a log expected improvement, k = 1 would give the expected improvement of a trial that can
/// fail (Gardner et al. 2014). For samples and bounds, in standardized units, the term is a
/// penalty. A larger k is more cautious, which helps because the surrogate extrapolates into
/// failing regions, where the improvement can be larger by orders of magnitude. On Branin's
/// function with a failing half, k = 4 wastes about two thirds as many of 30 trials as k = 1 does
/// (see the example `failures` of `fedbo-study`).
pub(crate) struct FeasibilityWeighted<'a> {
    pub(crate) function: &'a dyn Function,
    pub(crate) feasibility: &'a Feasibility,
}

impl Function for FeasibilityWeighted<'_> {
    fn dim(&self) -> usize {
        self.function.dim()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let mut values = self.function.values(points);
        for (value, x) in values.iter_mut().zip(points.rows()) {
            *value += FEASIBILITY_WEIGHT * self.feasibility.log_probability(x);
        }
        values
    }

    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let value = self.function.value_gradient(point, gradient);
        value
            + FEASIBILITY_WEIGHT
                * self.feasibility.add_gradient(point, FEASIBILITY_WEIGHT, gradient)
    }
}

#[cfg(test)]
mod tests {
    use fedbo_testkit::{test_stream, uniform_points};

    use super::*;

    /// Returns the feasibility for `n` trials that succeed where x₀ > ½.
    fn half(n: usize) -> Feasibility {
        let (mut good, mut bad) = (Points::new(2), Points::new(2));
        for x in uniform_points(n, 2, &mut test_stream(1)).rows() {
            if x[0] > 0.5 { good.push(x) } else { bad.push(x) }
        }
        Feasibility::of(&good, &bad).expect("some failed")
    }

    #[test]
    fn probabilities_follow_the_outcomes_and_return_to_the_prior() {
        let found = half(60);
        let p = |x: &[f64]| found.log_probability(x).exp();
        assert!(p(&[0.9, 0.5]) > 0.95 && p(&[0.1, 0.5]) < 0.05);
        assert!((p(&[40.0, 40.0]) - found.prior).abs() < 1e-12);
        let none = Feasibility::of(&uniform_points(5, 2, &mut test_stream(1)), &Points::new(2));
        assert!(none.is_none());
        let all = Feasibility::of(&Points::new(2), &uniform_points(5, 2, &mut test_stream(1)));
        assert!(all.is_some_and(|all| all.log_probability(&[0.5, 0.5]).is_finite()));
    }

    /// A clear boundary leads to a narrower bandwidth than outcomes without a pattern.
    #[test]
    fn the_bandwidth_is_narrow_where_it_predicts() {
        let clear = half(120);
        let (mut good, mut bad) = (Points::new(2), Points::new(2));
        for (i, x) in uniform_points(120, 2, &mut test_stream(1)).rows().enumerate() {
            if i % 2 == 0 { good.push(x) } else { bad.push(x) }
        }
        let chance = Feasibility::of(&good, &bad).expect("some failed");
        assert!(clear.bandwidth < chance.bandwidth);
    }

    /// Central differences with a step of 1e-6.
    #[test]
    fn the_gradient_is_that_of_the_values() {
        let found = half(30);
        for x in uniform_points(8, 2, &mut test_stream(2)).rows() {
            let mut gradient = [1.0, 0.0];
            found.add_gradient(x, 1.0, &mut gradient);
            for j in 0..2 {
                let at = |step: f64| {
                    let mut near = x.to_vec();
                    near[j] += step;
                    found.log_probability(&near)
                };
                let slope = (at(1e-6) - at(-1e-6)) / 2e-6 + if j == 0 { 1.0 } else { 0.0 };
                assert!((gradient[j] - slope).abs() < 1e-5 * slope.abs().max(1.0));
            }
        }
    }
}
