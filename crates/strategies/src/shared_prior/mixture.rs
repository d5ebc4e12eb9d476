//! A mixture of models, and the functions that a query can maximize: expected improvement, a draw,
//! or an upper confidence bound.

use std::sync::Arc;

use fedbo_gp::{FunctionBasis, GpError, Prior, SharedDraw, SharedPosterior, SharedPrediction};
use fedbo_optim::{Function, Points};
use fedbo_streams::Stream;

use crate::{Proposal, Score, Source, StrategyError, log_expected_improvement};

/// Fraction of the total weight below which a model is omitted.
const LEAST_WEIGHT: f64 = 1e-4;
/// Accuracy of the variance of a latent function, as a fraction of the squared scale.
const LEAST_VARIANCE: f64 = 1e-14;

/// The role of other parties' functions in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The model does not use the other parties' functions.
    Nothing,
    /// Functions are similar to those of the other parties.
    Same,
    /// Functions are similar to the negated functions of the other parties: points that are good
    /// for those parties are bad for this one.
    Negated,
}

/// A model of the outputs at several scales, with the logarithm of the weight of each.
pub(super) struct Component {
    posterior: SharedPosterior,
    /// Scales s, each with the logarithm of its weight. The scales are negative if the other
    /// parties' functions are negated.
    sizes: Vec<(f64, f64)>,
    others: Part,
    /// The level that was subtracted from the outputs, minus the incumbent. Added to the means.
    level: f64,
}

impl Component {
    /// Creates a model without the functions of other parties. `weight` is its weight before any
    /// output. `sizes` contains the scales with the logarithms of their shares of this weight. Each
    /// scale is then weighted by its evidence.
    pub(super) fn new(posterior: SharedPosterior, weight: f64, sizes: &[(f64, f64)]) -> Self {
        let weigh = |(size, share): &(f64, f64)| {
            (*size, weight.ln() + share + posterior.log_evidence(*size))
        };
        let sizes = sizes.iter().map(weigh).collect();
        Self { posterior, sizes, others: Part::Nothing, level: 0.0 }
    }

    /// Returns the component with `others` as the role of the other parties' functions.
    pub(super) fn with(self, others: Part) -> Self {
        Self { others, ..self }
    }

    /// Returns the component with `level` added to its means.
    pub(super) fn at_level(self, level: f64) -> Self {
        Self { level, ..self }
    }

    fn mean(&self, found: &SharedPrediction, size: f64) -> f64 {
        self.level + found.mean(size)
    }
}

/// The function ln Σ_k π_k EI_k(x), where the models k are models of the outputs minus the
/// incumbent, so that improvements far below the incumbent keep their precision.
pub(super) struct Mixture {
    basis: Arc<FunctionBasis>,
    components: Vec<Component>,
    /// Total weight of the models with [`Part::Same`]. `negated` is the same for [`Part::Negated`].
    trust: f64,
    negated: f64,
}

impl Mixture {
    /// Creates a mixture of components; the weights need not sum to 1. Components with the other
    /// parties' functions are omitted if their weight is below `least_weights`. The first entry
    /// applies to the unchanged functions, the second to the negated ones.
    ///
    /// # Errors
    /// If no weight is positive.
    pub(super) fn new(
        basis: Arc<FunctionBasis>,
        mut components: Vec<Component>,
        least_weights: [f64; 2],
    ) -> Result<Self, StrategyError> {
        let mut total = LogSum::EMPTY;
        for (_, weight) in components.iter().flat_map(|component| &component.sizes) {
            total.add(*weight);
        }
        let total = total.value();
        if !total.is_finite() {
            return Err(StrategyError::Implausible(
                "no model explains the outputs, which are too large: standardize them".to_owned(),
            ));
        }
        for component in &mut components {
            component.sizes.iter_mut().for_each(|(_, weight)| *weight -= total);
        }
        let of = |part: Part| {
            let models = components.iter().filter(|component| component.others == part);
            let weights = models.flat_map(|component| &component.sizes).map(|(_, w)| w.exp());
            weights
                .filter(|weight| weight.is_finite())
                .fold(0.0, |sum, weight| sum + weight)
                .min(1.0)
        };
        let (trust, negated) = (of(Part::Same), of(Part::Negated));
        for component in &mut components {
            component.sizes.retain(|(_, weight)| *weight >= LEAST_WEIGHT.ln());
        }
        components.retain(|component| {
            let is_used = match component.others {
                Part::Nothing => true,
                Part::Same => trust >= least_weights[0],
                Part::Negated => negated >= least_weights[1],
            };
            is_used && !component.sizes.is_empty()
        });
        Ok(Self { basis, components, trust, negated })
    }

    /// Returns the total weight of the models with functions similar to those of the other parties.
    pub(super) fn trust(&self) -> f64 {
        self.trust
    }

    /// Returns the total weight of the models with functions similar to the negated functions of
    /// the other parties.
    pub(super) fn negated(&self) -> f64 {
        self.negated
    }

    /// Returns true if the mixture contains functions similar to those of the other parties.
    pub(super) fn has_shared(&self) -> bool {
        self.components.iter().any(|component| component.others == Part::Same)
    }

    /// Returns true if the negated functions of the other parties weigh more than the unchanged
    /// ones, and at least `least_weight`.
    pub(super) fn is_opposed(&self, least_weight: f64) -> bool {
        self.negated > self.trust && self.negated >= least_weight
    }

    /// Records the signed trust as the source of the proposal if the other parties have any weight.
    pub(super) fn named(&self, proposal: Proposal, least_weight: f64) -> Proposal {
        if proposal.source != Source::Own || !(self.trust > 0.0 || self.negated > 0.0) {
            return proposal;
        }
        Proposal { source: Source::shared(self.signed_trust(least_weight)), ..proposal }
    }

    /// Returns the trust, or minus the weight of the negated functions if [`Mixture::is_opposed`]
    /// is true.
    pub(super) fn signed_trust(&self, least_weight: f64) -> f64 {
        if self.is_opposed(least_weight) { -self.negated } else { self.trust }
    }

    /// Returns the number of models with different kernels or priors, which an evaluation queries
    /// one by one.
    pub(super) fn n_components(&self) -> usize {
        self.components.len()
    }

    /// Returns the mixture's mean at every point.
    pub(super) fn means(&self, points: &Points) -> Vec<f64> {
        self.sums_of_means(points, |_| true)
    }

    /// Returns the contribution to the means from the models with functions similar to those of the
    /// other parties: the mean of these models times the trust.
    pub(super) fn shared_means(&self, points: &Points) -> Vec<f64> {
        self.sums_of_means(points, |component| component.others == Part::Same)
    }

    fn sums_of_means(&self, points: &Points, counts: fn(&Component) -> bool) -> Vec<f64> {
        let mean = |x: &[f64]| {
            let found = self.predict(x);
            let found = found.iter().filter(|(component, _)| counts(component));
            let terms = found.flat_map(|(component, found)| {
                let means = component.sizes.iter();
                means.map(|(size, weight)| weight.exp() * component.mean(found, *size))
            });
            terms.sum()
        };
        points.rows().map(mean).collect()
    }

    fn predict(&self, x: &[f64]) -> Vec<(&Component, SharedPrediction)> {
        let psi = self.basis.values(x);
        let each = self.components.iter();
        each.map(|component| (component, component.posterior.predict(x, &psi))).collect()
    }

    /// Returns ln EI at one scale.
    fn score(&self, component: &Component, found: &SharedPrediction, size: f64) -> Score {
        let std = size.abs() * found.variance.max(LEAST_VARIANCE).sqrt();
        log_expected_improvement(component.mean(found, size), std, 0.0)
    }

    fn value(&self, found: &[(&Component, SharedPrediction)]) -> f64 {
        let mut sum = LogSum::EMPTY;
        for (component, found) in found {
            for (size, weight) in &component.sizes {
                sum.add(weight + self.score(component, found, *size).value);
            }
        }
        sum.value()
    }
}

impl Mixture {
    /// Draws a function from one model and scale, chosen with probability proportional to their
    /// weight. Omits the level, which does not move the maximum. Cost: O(n² + n r + n M) for M
    /// features of `prior`.
    ///
    /// # Errors
    /// If the prior has no features.
    pub(super) fn draw(&self, prior: Prior, stream: &mut Stream) -> Result<SharedDraw, GpError> {
        let each =
            || self.components.iter().flat_map(|model| model.sizes.iter().map(move |s| (model, s)));
        let weights: Vec<f64> = each().map(|(_, (_, weight))| weight.exp()).collect();
        let chosen = stream.choose(&weights).and_then(|index| each().nth(index));
        let (model, (size, _)) =
            chosen.unwrap_or_else(|| unreachable!("a mixture has a model with a weight above 0"));
        model.posterior.draw(*size, prior, stream)
    }
}

/// The function μ(x) + κ σ(x), with the mean and the standard deviation of a mixture.
pub(super) struct UpperBound<'a> {
    pub(super) mixture: &'a Mixture,
    /// κ.
    pub(super) multiplier: f64,
}

impl UpperBound<'_> {
    /// Returns the mean and the variance of the mixture.
    fn moments(found: &[(&Component, SharedPrediction)]) -> (f64, f64) {
        let (mut total, mut mean, mut square) = (0.0, 0.0, 0.0);
        for (component, found) in found {
            for (size, weight) in &component.sizes {
                let (weight, here) = (weight.exp(), component.mean(found, *size));
                total += weight;
                mean += weight * here;
                square += weight * (here * here + size * size * found.variance);
            }
        }
        (mean / total, (square / total - (mean / total).powi(2)).max(LEAST_VARIANCE))
    }
}

impl Function for UpperBound<'_> {
    fn dim(&self) -> usize {
        self.mixture.dim()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let value = |x: &[f64]| {
            let (mean, variance) = Self::moments(&self.mixture.predict(x));
            mean + self.multiplier * variance.sqrt()
        };
        points.rows().map(value).collect()
    }

    /// The gradient is Σ_k π_k (1 + κ (μ_k − μ)/σ) ∇μ_k + π_k κ/(2σ) ∇σ_k².
    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        let found = self.mixture.predict(point);
        let (mean, variance) = Self::moments(&found);
        let std = variance.sqrt();
        let total: f64 = found.iter().flat_map(|(model, _)| &model.sizes).map(|s| s.1.exp()).sum();
        for (component, found) in &found {
            let mut slopes = [0.0; 3];
            for (size, weight) in &component.sizes {
                let share = weight.exp() / total;
                let of_mean = 1.0 + self.multiplier * (component.mean(found, *size) - mean) / std;
                slopes[0] += share * of_mean;
                slopes[1] += share * of_mean * size;
                slopes[2] += share * self.multiplier / (2.0 * std) * size * size;
            }
            component.posterior.add_gradient(point, found, slopes, gradient);
        }
        mean + self.multiplier * std
    }
}

/// ln Σ exp, stored as the largest term and the sum relative to it.
struct LogSum {
    top: f64,
    sum: f64,
}

impl LogSum {
    const EMPTY: Self = Self { top: f64::NEG_INFINITY, sum: 0.0 };

    fn add(&mut self, term: f64) {
        if term > self.top {
            self.sum = self.sum * (self.top - term).exp() + 1.0;
            self.top = term;
        } else if term > f64::NEG_INFINITY {
            self.sum += (term - self.top).exp();
        }
    }

    fn value(&self) -> f64 {
        self.top + self.sum.ln()
    }
}

impl Function for Mixture {
    fn dim(&self) -> usize {
        self.basis.map().dim()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        points.rows().map(|x| self.value(&self.predict(x))).collect()
    }

    /// The gradient is Σ_k share_k (∂/∂mean ∇μ_k + ∂/∂std ∇σ_k), where share_k is the part of model
    /// k in the sum.
    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        let found = self.predict(point);
        let total = self.value(&found);
        if !total.is_finite() {
            return total;
        }
        for (component, found) in &found {
            let mut slopes = [0.0; 3];
            let std = found.variance.sqrt();
            for (size, weight) in &component.sizes {
                let score = self.score(component, found, *size);
                let share = (weight + score.value - total).exp();
                slopes[0] += share * score.d_mean;
                slopes[1] += share * score.d_mean * size;
                if found.variance > LEAST_VARIANCE {
                    slopes[2] += share * score.d_std * size.abs() / (2.0 * std);
                }
            }
            component.posterior.add_gradient(point, found, slopes, gradient);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use fedbo_gp::{Family, Kernel, Remainder, WeightPrior};
    use fedbo_testkit::{test_stream, uniform_points};

    use super::super::tests::map;
    use super::*;

    /// Returns a mixture of models with levels of 0.7, −0.4 and 0.
    fn mixture(incumbent: f64) -> Mixture {
        let basis = Arc::new(FunctionBasis::new(map(), 8).unwrap());
        let prior = WeightPrior::with_mean(test_stream(2).normals(8), 0.5).unwrap();
        let kernel = Kernel::new(Family::Matern52, vec![0.3, 0.5], 1.7).unwrap();
        let inputs = uniform_points(6, 2, &mut test_stream(3));
        let y: Vec<f64> = inputs.rows().map(|x| (4.0 * x[0]).sin() - x[1]).collect();
        let remainder = |own_variance: f64| Remainder {
            own_variance,
            level_variance: 1.0,
            noise_variance: 1e-2,
        };
        let components = [Part::Same, Part::Negated, Part::Nothing].map(|others| {
            let (level, sign) = match others {
                Part::Same => (0.7, 1.0),
                Part::Negated => (-0.4, -1.0),
                Part::Nothing => (0.0, 1.0),
            };
            let kernel = kernel.clone();
            let posterior = if others == Part::Nothing {
                SharedPosterior::alone(kernel, remainder(1.0), &inputs, &y)
            } else {
                let basis = Arc::clone(&basis);
                SharedPosterior::new(basis, &prior, kernel, remainder(0.2), &inputs, &y)
            };
            let posterior = posterior.unwrap();
            let weigh = |size: f64| {
                let size = sign * size;
                (size, 0.2 * level + 0.1 * posterior.log_evidence(size))
            };
            let sizes = [0.5, 1.0, 2.0].map(weigh).to_vec();
            Component { sizes, posterior, others, level: level - incumbent }
        });
        Mixture::new(basis, components.into(), [0.0; 2]).unwrap()
    }

    /// A negligible weight never makes the trust negative, however small the trust is.
    #[test]
    fn small_weights_have_no_sign() {
        let of =
            |trust: f64, negated: f64| Mixture { trust, negated, ..mixture(0.4) }.signed_trust(0.1);
        let found = [of(1e-9, 1e-8), of(0.05, 0.09), of(0.05, 0.2), of(0.5, 0.2)];
        assert_eq!(found.map(f64::to_bits), [1e-9, 0.05, -0.2, 0.5].map(f64::to_bits));
    }

    /// Compares with the trapezoidal rule over the density of the mixture of normal distributions,
    /// weighted by the evidence.
    #[test]
    fn the_expected_improvement_is_that_of_the_mixture() {
        let mixture = mixture(0.4);
        let both = mixture.trust.min(mixture.negated);
        assert!(both > 0.05 && mixture.trust + mixture.negated < 0.95, "{both}");
        assert_eq!(mixture.n_components(), 3);
        for x in uniform_points(6, 2, &mut test_stream(9)).rows() {
            let psi = mixture.basis.values(x);
            let mut laws = Vec::new();
            for component in &mixture.components {
                let found = component.posterior.predict(x, &psi);
                for (size, weight) in &component.sizes {
                    let std = size.abs() * found.variance.sqrt();
                    laws.push((weight.exp(), 0.4 + component.level + found.mean(*size), std));
                }
            }
            let top = laws.iter().map(|(_, mean, std)| mean + 12.0 * std).fold(0.5, f64::max);
            let n = 40_000;
            let step = (top - 0.4) / f64::from(n);
            let integral: f64 = (0..=n)
                .map(|i| {
                    let f = 0.4 + step * f64::from(i);
                    let density: f64 = laws
                        .iter()
                        .map(|(weight, mean, std)| {
                            let z = (f - mean) / std;
                            weight * (-0.5 * z * z).exp() / (std * std::f64::consts::TAU.sqrt())
                        })
                        .sum();
                    let edge = if i == 0 || i == n { 0.5 } else { 1.0 };
                    edge * step * (f - 0.4) * density
                })
                .sum();
            let found = mixture.values(&Points::from_rows(2, [x]))[0].exp();
            assert!((found / integral - 1.0).abs() < 1e-4, "{found} {integral}");
        }
    }

    /// Compares the mean and standard deviation of 4,000 draws with the moments implied by the
    /// bounds at ±κ.
    #[test]
    fn bounds_and_draws_have_the_moments_of_the_mixture() {
        let mixture = mixture(0.4);
        let points = uniform_points(4, 2, &mut test_stream(9));
        let bound = |multiplier: f64| UpperBound { mixture: &mixture, multiplier }.values(&points);
        let (low, mean, high) = (bound(-1.5), bound(0.0), bound(1.5));
        for (i, expected) in mixture.means(&points).into_iter().enumerate() {
            assert!((mean[i] - expected).abs() < 1e-12);
            assert!((low[i] + high[i] - 2.0 * mean[i]).abs() < 1e-12);
        }
        // Draws omit the levels, which do not move the maximum. Without levels, the moments must
        // equal those of the draws.
        let mut level = mixture;
        level.components.iter_mut().for_each(|component| component.level = 0.0);
        let (n, mut stream) = (4000, test_stream(10));
        let prior = Prior { n_features: 64 };
        let draws: Vec<Vec<f64>> =
            (0..n).map(|_| level.draw(prior, &mut stream).unwrap().values(&points)).collect();
        for (i, x) in points.rows().enumerate() {
            let (expected, variance) = UpperBound::moments(&level.predict(x));
            let mean = draws.iter().map(|draw| draw[i]).sum::<f64>() / f64::from(n);
            let square = draws.iter().map(|draw| (draw[i] - mean).powi(2)).sum::<f64>();
            assert!((mean - expected).abs() < 5.0 * (variance / f64::from(n)).sqrt());
            assert!(((square / f64::from(n) / variance).sqrt() - 1.0).abs() < 0.08);
        }
    }

    /// Central differences with a step of 1e-5, including improvements that underflow in double
    /// precision.
    #[test]
    fn gradients_are_those_of_the_values() {
        let (near, far) = (mixture(0.4), mixture(60.0));
        let bound = UpperBound { mixture: &near, multiplier: 2.0 };
        let functions: [&dyn Function; 3] = [&near, &far, &bound];
        for mixture in functions {
            for x in uniform_points(10, 2, &mut test_stream(7)).rows() {
                let mut gradient = [0.0; 2];
                let value = mixture.value_gradient(x, &mut gradient);
                assert!(value.is_finite());
                for j in 0..2 {
                    let at = |step: f64| {
                        let mut near = x.to_vec();
                        near[j] += step;
                        mixture.values(&Points::from_rows(2, [&near[..]]))[0]
                    };
                    let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                    let scale = slope.abs().max(value.abs()).max(1.0);
                    assert!((gradient[j] - slope).abs() < 1e-4 * scale, "{gradient:?} {slope}");
                }
            }
        }
    }
}
