//! Log expected improvement: queries the point that maximizes the logarithm of the expected
//! improvement over the incumbent.

mod outcomes;

use fedbo_gp::{Posterior, Predictor};
use fedbo_optim::{Function, Points};
use fedbo_space::Space;
use fedbo_streams::{Seed, Stream};
use serde::{Deserialize, Serialize};

use self::outcomes::OutcomesLogEi;
use crate::proposer::Proposer;
use crate::{
    Domain, Maximizer, Observation, Outcomes, OutputOption, Proposal, Repeats, Score, Setup,
    Strategy, StrategyError, StrategyOptions, Surrogate, SurrogateSettings,
    log_expected_improvement,
};

/// Options of `log-ei`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogEiOptions {
    /// Transform applied to outputs before they are modelled.
    #[serde(default = "OutputOption::of_stored_without")]
    pub output_transform: OutputOption,
    /// True to use the augmented expected improvement for a single objective that is noisy or has
    /// conditional parameters: see [`LogEi`]. The plain expected improvement takes the numerical
    /// noise of a model that has converged in one branch for possible improvements. False in definitions that were stored before this option existed.
    #[serde(default)]
    pub augmented: bool,
}

impl Default for LogEiOptions {
    fn default() -> Self {
        Self { output_transform: OutputOption::default(), augmented: true }
    }
}

impl LogEiOptions {
    /// Returns the output transform. With several objectives, `Automatic` does not choose
    /// logarithms of gaps, because these would favour the ends of a front, where one objective is
    /// at its best, over all points in between. On DTLZ2 with three objectives, logarithms lose
    /// 0.13 in log10 of the missing hypervolume. With conditional parameters, `Automatic` chooses no
    /// transform: a search that has converged in one branch observes many nearly equal outputs
    /// there, and a transform fitted to them makes the outputs of other branches equal.
    fn transform_of(self, setup: &Setup<'_>) -> OutputOption {
        match self.output_transform {
            OutputOption::Automatic if setup.space.has_conditions() => OutputOption::None,
            OutputOption::Automatic if setup.outcomes.n_objectives > 1 => OutputOption::YeoJohnson,
            given => given,
        }
    }
}

impl StrategyOptions for LogEiOptions {
    fn make(&self, setup: &Setup<'_>) -> Result<Box<dyn Strategy>, StrategyError> {
        let settings = LogEiSettings {
            surrogate: setup.surrogate().with_outputs(self.transform_of(setup)),
            augmented: self.augmented && (setup.noisy || setup.space.has_conditions()),
            ..LogEiSettings::for_study(setup.dim(), setup.noisy)
        };
        if setup.outcomes == Outcomes::default() {
            let strategy = LogEi::new(setup.domain(), settings, setup.seed)?;
            return Ok(Box::new(strategy));
        }
        let slacks = setup.surrogate().for_slack();
        let (domain, outcomes) = (setup.domain(), setup.outcomes);
        let strategy = OutcomesLogEi::new(domain, settings, &slacks, outcomes, setup.seed)?;
        Ok(Box::new(strategy))
    }

    fn takes_outcomes(&self) -> bool {
        true
    }
}

/// The value that a query should improve on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incumbent {
    /// The best observed output, for a deterministic objective.
    BestObservation,
    /// The largest posterior mean at an observed input, for a noisy objective, where the best
    /// output is largely luck.
    BestMean,
}

/// Settings of a query that maximizes the log expected improvement of a Gaussian process: see
/// [`LogEi`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEiQuery {
    /// The value to improve on.
    pub incumbent: Incumbent,
    /// Number of fantasies, which are draws of the running trials' outputs. The improvement is
    /// averaged over them.
    pub n_fantasies: usize,
    /// True to use the augmented expected improvement.
    pub augmented: bool,
}

/// Settings of a [`LogEi`] strategy.
#[derive(Clone, Debug)]
pub struct LogEiSettings {
    /// The surrogate; its sampler is not used.
    pub surrogate: SurrogateSettings,
    /// Search for the maximum of the expected improvement.
    pub maximizer: Maximizer,
    /// The value to improve on.
    pub incumbent: Incumbent,
    /// Number of fantasies, which are draws of the running trials' outputs. The improvement is
    /// averaged over them.
    pub n_fantasies: usize,
    /// True to use the augmented expected improvement, for a noisy objective or a space with
    /// conditions: see [`LogEi`].
    pub augmented: bool,
    /// Rule for proposing points again.
    pub repeats: Repeats,
}

impl LogEiSettings {
    /// Returns the defaults for a single-party study, with 16 fantasies and the plain expected
    /// improvement.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn for_study(dim: usize, noisy: bool) -> Self {
        Self {
            surrogate: SurrogateSettings::for_study(dim, noisy),
            maximizer: Maximizer::of_acquisition(dim),
            incumbent: if noisy { Incumbent::BestMean } else { Incumbent::BestObservation },
            n_fantasies: 16,
            augmented: false,
            repeats: Repeats::for_study(noisy),
        }
    }

    /// Returns the settings of the queries, without the model and the search.
    pub fn query(&self) -> LogEiQuery {
        let Self { incumbent, n_fantasies, augmented, .. } = *self;
        LogEiQuery { incumbent, n_fantasies, augmented }
    }

    /// Returns the settings for an agent of a federation. Since an agent must make a query in each
    /// round, it repeats a point when a discrete space is exhausted. It does not learn from
    /// failures. With conditional parameters, it has no output transform and is augmented, as in a
    /// study.
    pub fn for_agent(space: &Space, noisy: bool) -> Self {
        let Maximizer::Snapped(search) = Maximizer::of_acquisition(space.dim()) else {
            unreachable!("the search of a study")
        };
        let surrogate = SurrogateSettings::for_space(space, noisy);
        let is_tree = space.has_conditions();
        Self {
            surrogate: if is_tree { surrogate.with_outputs(OutputOption::None) } else { surrogate },
            maximizer: Maximizer::MultiStart(search),
            augmented: is_tree,
            ..Self::for_study(space.dim(), noisy)
        }
    }
}

/// Log expected improvement (Ament et al. 2023): x_t = argmax ln E[max(f(x) − f*, 0)].
///
/// If there are p running trials, their outputs y_s are drawn jointly from the posterior. The
/// improvement is averaged over these fantasies (Snoek et al. 2012), each of which has its own
/// incumbent:
///
/// ln (1/S) Σ_s EI(μ_s(x), σ_p(x), f*_s),   μ_s(x) = μ(x) + u(x)·z_s,   z_s ~ N(0, I_p),   f*_s = max(f*, max_j μ_s(x_j))
///
/// The vector u(x) contains the last p entries of L⁻¹ k(x), where L is the Cholesky factor for the
/// observed and running inputs together, so that σ_p is the same for all s. The x_j are the running
/// inputs. A query costs O((n + p)² + S p) per point that the search evaluates.
///
/// The augmented expected improvement for a noisy objective (Huang, Allen, Notz & Zeng 2006,
/// "Global optimization of stochastic black-box systems via sequential kriging meta-models") is
///
/// EI · (1 − σ/√(σ_p² + σ²)),
///
/// where σ is the standard deviation of the noise. The factor is small where the function is known
/// up to noise and another observation is worth little. The authors choose the observed input that
/// maximizes mean − standard deviation and use its mean as the incumbent. We use the largest
/// posterior mean at an observed input.
#[derive(Clone, Debug)]
pub struct LogEi {
    proposer: Proposer,
    query: LogEiQuery,
}

impl LogEi {
    /// Creates a strategy without observations. `seed` is used for hyperparameter fits.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(domain: Domain, settings: LogEiSettings, seed: Seed) -> Result<Self, StrategyError> {
        let query = settings.query().validate()?;
        Ok(Self {
            proposer: Proposer::new(
                domain,
                settings.surrogate,
                settings.maximizer,
                settings.repeats,
                false,
                seed,
            )?,
            query,
        })
    }
}

impl LogEiQuery {
    /// Checks the settings.
    ///
    /// # Errors
    /// If there are no fantasies.
    pub(crate) fn validate(self) -> Result<Self, StrategyError> {
        match self.n_fantasies {
            0 => Err(StrategyError::setting("n_fantasies", "0", "at least 1")),
            _ => Ok(self),
        }
    }

    /// Returns f* in the surrogate's units, or the prior mean if there are no observations.
    fn incumbent(&self, posterior: &Posterior) -> f64 {
        let best = match self.incumbent {
            Incumbent::BestObservation => {
                posterior.outputs().iter().copied().fold(f64::NEG_INFINITY, f64::max)
            }
            Incumbent::BestMean => posterior.largest_mean(),
        };
        if posterior.is_empty() { 0.0 } else { best }
    }

    /// Returns the best output or mean in the branch with these free coordinates, in the surrogate's
    /// units. Queries of a neglected branch improve on it. If they improved on the best output of all
    /// branches, they would explore the corners of the branch and never tune it.
    fn branch_incumbent(&self, proposer: &Proposer, is_free: &[bool]) -> Option<f64> {
        let Domain::Space(space) = proposer.domain() else {
            return None;
        };
        let posterior = proposer.surrogate().posterior();
        let pairs = posterior.inputs().rows().zip(posterior.outputs());
        let own = pairs.filter(|(unit, _)| space.branch_at(unit).is_free == is_free);
        let value = |(unit, output): (&[f64], &f64)| match self.incumbent {
            Incumbent::BestObservation => *output,
            Incumbent::BestMean => posterior.mean(unit),
        };
        own.map(value).reduce(f64::max)
    }

    /// Proposes the point with the largest log expected improvement of the proposer's surrogate.
    ///
    /// # Errors
    /// If no finite query exists.
    pub(crate) fn propose(
        &self,
        proposer: &Proposer,
        pending: &Points,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        proposer.open(pending)?;
        let posterior = proposer.surrogate().posterior();
        let incumbent = match (proposer.restriction(), proposer.neglected(pending)) {
            (Some(part), _) => part_incumbent(posterior, part),
            (None, Some(branch)) => self.branch_incumbent(proposer, &branch),
            (None, None) => None,
        };
        let incumbent = incumbent.unwrap_or_else(|| self.incumbent(posterior));
        let fantasized;
        let mut improvement = if pending.is_empty() {
            Improvement::new(posterior, incumbent)
        } else {
            let modelled = Proposer::modelled(pending);
            let means = posterior.mean_variances(&modelled).0;
            fantasized = posterior.clone().extended(&modelled, &means)?;
            let draws = (0..self.n_fantasies).map(|_| stream.normals(modelled.len())).collect();
            Improvement::with_fantasies(&fantasized, incumbent, &modelled, draws)
        };
        improvement.augmented = self.augmented;
        proposer.propose_acquisition(&improvement, pending, stream)
    }
}

/// Returns the largest posterior mean at the trials moved to a part of the space, in the surrogate's
/// units. Queries of the part improve on it: the best output can be out of reach there.
fn part_incumbent(posterior: &Posterior, part: &Space) -> Option<f64> {
    let moved = posterior.inputs().rows().map(|unit| part.snap(unit)).collect::<Vec<_>>();
    let moved = Points::from_rows(part.dim(), moved.iter());
    posterior.mean_variances(&moved).0.into_iter().reduce(f64::max)
}

impl Strategy for LogEi {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        self.query.propose(&self.proposer, pending, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.proposer.tell(observed)
    }

    fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError> {
        self.proposer.restrict(part)
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        Some(self.proposer.surrogate())
    }
}

/// The fraction of the signal variance below which the variance of the latent function is rounding
/// error.
const LEAST_VARIANCE: f64 = 1e-14;

/// Logarithm of the expected improvement, averaged over fantasies.
struct Improvement<'a> {
    /// Also conditioned on the running trials, with placeholder outputs that do not change the
    /// mean.
    predictor: Predictor<'a>,
    /// z_s and f*_s of every fantasy. Contains a single fantasy with an empty z if no trial is
    /// running.
    fantasies: Vec<Fantasy>,
    least_variance: f64,
    /// True to use the augmented expected improvement.
    augmented: bool,
}

struct Fantasy {
    draw: Vec<f64>,
    incumbent: f64,
}

impl<'a> Improvement<'a> {
    fn new(posterior: &'a Posterior, incumbent: f64) -> Self {
        Self {
            predictor: posterior.predictor(),
            fantasies: vec![Fantasy { draw: Vec::new(), incumbent }],
            least_variance: LEAST_VARIANCE * posterior.kernel().outputscale(),
            augmented: false,
        }
    }

    /// Creates the function for a `posterior` with p running inputs at its end. Every element of
    /// `draws` contains p numbers.
    fn with_fantasies(
        posterior: &'a Posterior,
        incumbent: f64,
        running: &Points,
        draws: Vec<Vec<f64>>,
    ) -> Self {
        let first = posterior.len() - running.len();
        let mut fantasies: Vec<Fantasy> =
            draws.into_iter().map(|draw| Fantasy { draw, incumbent }).collect();
        posterior.predict_each(running, |mean, _, whitened| {
            for fantasy in &mut fantasies {
                let shifted = mean + dot(&whitened[first..], &fantasy.draw);
                fantasy.incumbent = fantasy.incumbent.max(shifted);
            }
        });
        Self { fantasies, ..Self::new(posterior, incumbent) }
    }

    /// Returns the index of the first running trial.
    fn first_running(&self) -> usize {
        self.predictor.posterior().len() - self.fantasies[0].draw.len()
    }

    /// Returns the logarithm of the mean EI, and each fantasy's share of the mean with its
    /// derivatives.
    fn average(&self, mean: f64, variance: f64, whitened: &[f64]) -> (f64, Vec<(f64, Score)>) {
        let std = variance.max(self.least_variance).sqrt();
        let running = &whitened[self.first_running()..];
        let (penalty, slope) = match self.augmented {
            true => ln_share_beyond_noise(std, self.predictor.posterior().noise_variance()),
            false => (0.0, 0.0),
        };
        let terms = self.fantasies.iter().map(|fantasy| {
            let mean = mean + dot(running, &fantasy.draw);
            let Score { value, d_mean, d_std } =
                log_expected_improvement(mean, std, fantasy.incumbent);
            (1.0, Score { value: value + penalty, d_mean, d_std: d_std + slope })
        });
        let mut terms: Vec<(f64, Score)> = terms.collect();
        let top = terms.iter().map(|(_, term)| term.value).fold(f64::NEG_INFINITY, f64::max);
        let mut total = 0.0;
        for (share, term) in &mut terms {
            *share = (term.value - top).exp();
            total += *share;
        }
        for (share, _) in &mut terms {
            *share /= total;
        }
        #[expect(clippy::cast_precision_loss, reason = "numbers of fantasies are far below 2^53")]
        let n = terms.len() as f64;
        (top + (total / n).ln(), terms)
    }
}

impl Function for Improvement<'_> {
    fn dim(&self) -> usize {
        self.predictor.posterior().kernel().dim()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let mut values = Vec::with_capacity(points.len());
        self.predictor.posterior().predict_each(points, |mean, variance, whitened| {
            values.push(self.average(mean, variance, whitened).0);
        });
        values
    }

    /// The gradient is Σ_s share_s (∂/∂mean (∇μ + ∇u·z_s) + ∂/∂std ∇σ), with σ ∇σ = −v·∇v.
    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let prediction = self.predictor.predict(point);
        let variance = prediction.variance();
        let (value, terms) = self.average(prediction.mean(), variance, prediction.whitened());
        let mean_weight: f64 = terms.iter().map(|(share, term)| share * term.d_mean).sum();
        let std_weight: f64 = terms.iter().map(|(share, term)| share * term.d_std).sum();
        let slope =
            if variance > self.least_variance { -std_weight / variance.sqrt() } else { 0.0 };
        let mut weights: Vec<f64> = prediction.whitened().iter().map(|v| slope * v).collect();
        for ((share, term), fantasy) in terms.iter().zip(&self.fantasies) {
            for (w, z) in weights[self.first_running()..].iter_mut().zip(&fantasy.draw) {
                *w += share * term.d_mean * z;
            }
        }
        prediction.gradient(mean_weight, weights, gradient);
        value
    }
}

/// Returns ln (1 − σ/t) with t = √(s² + σ²) for s > 0, and its derivative with respect to s. Avoids
/// cancellation if s is far below σ:
///
/// 1 − σ/t = s²/(t (t + σ))
fn ln_share_beyond_noise(std: f64, noise_variance: f64) -> (f64, f64) {
    let noise = noise_variance.sqrt();
    let total = std.hypot(noise);
    let value = 2.0 * std.ln() - total.ln() - (total + noise).ln();
    let slope = 2.0 / std - std / (total * total) - std / (total * (total + noise));
    (value, slope)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use fedbo_gp::{Family, Kernel};
    use fedbo_testkit::{test_stream, uniform_points};

    use super::*;
    use crate::expected_improvement;

    const NOISE: f64 = 1e-3;

    fn posterior(inputs: &Points, y: &[f64]) -> Posterior {
        let kernel = Kernel::new(Family::Matern52, vec![0.3, 0.7], 1.3).unwrap();
        Posterior::new(kernel, NOISE, inputs.clone(), y.to_vec()).unwrap()
    }

    fn data() -> (Points, Vec<f64>) {
        let inputs = uniform_points(12, 2, &mut test_stream(1));
        let y = inputs.rows().map(|x| (5.0 * x[0]).sin() + x[1]).collect();
        (inputs, y)
    }

    /// Compares with brute force. The outputs of the running trials are drawn from their joint
    /// distribution with its dense Cholesky factor and the same normal numbers. A posterior is
    /// computed for each draw, and the improvements are averaged.
    #[test]
    fn fantasies_are_what_conditioning_on_them_gives() {
        let (inputs, y) = data();
        let plain = posterior(&inputs, &y);
        let running = uniform_points(3, 2, &mut test_stream(5));
        let draws: Vec<Vec<f64>> = (0..4).map(|s| test_stream(20 + s).normals(3)).collect();
        let incumbent = 0.9;
        let (means, mut covariance) = plain.joint(&running);
        for i in 0..3 {
            covariance.row_mut(i)[i] += NOISE;
        }
        let factor = fedbo_gp::linalg::SpdFactor::new(&covariance).unwrap();
        let fantasized: Vec<Posterior> = draws
            .iter()
            .map(|z| {
                let deviation = factor.multiply_lower(z);
                let (mut inputs, mut y) = (inputs.clone(), y.clone());
                for ((x, mean), d) in running.rows().zip(&means).zip(deviation) {
                    inputs.push(x);
                    y.push(mean + d);
                }
                posterior(&inputs, &y)
            })
            .collect();
        let extended = plain.clone().extended(&running, &means).unwrap();
        let improvement = Improvement::with_fantasies(&extended, incumbent, &running, draws);
        let points = uniform_points(20, 2, &mut test_stream(6));
        for (x, value) in points.rows().zip(improvement.values(&points)) {
            let average = fantasized.iter().map(|posterior| {
                let best = running.rows().map(|x| posterior.mean_variance(x).0);
                let best = best.fold(incumbent, f64::max);
                let (mean, variance) = posterior.mean_variance(x);
                expected_improvement(mean, variance.sqrt(), best) / 4.0
            });
            let expected: f64 = average.sum();
            assert!((value - expected.ln()).abs() < 1e-8, "{value} {}", expected.ln());
        }
    }

    /// Compares with the published formula. Precision must not be lost without noise, or if the
    /// standard deviation is far below the noise.
    #[test]
    fn the_share_beyond_noise_is_the_published_factor() {
        for (std, noise) in [(0.5_f64, 0.2_f64), (0.02, 0.1), (3.0, 1e-3)] {
            let expected = 1.0 - noise / (std.powi(2) + noise.powi(2)).sqrt();
            let (value, slope) = ln_share_beyond_noise(std, noise.powi(2));
            assert!((value.exp() / expected - 1.0).abs() < 1e-12, "{std} {noise}");
            let step = 1e-6 * std;
            let [above, below] =
                [step, -step].map(|by| ln_share_beyond_noise(std + by, noise.powi(2)).0);
            assert!((slope * 2.0 * step / (above - below) - 1.0).abs() < 1e-6, "{std} {noise}");
        }
        // s²/(2σ²) for s far below σ
        let (value, _) = ln_share_beyond_noise(1e-9, 1.0);
        assert!((value - (0.5e-18_f64).ln()).abs() < 1e-12, "{value}");
        assert_eq!(ln_share_beyond_noise(0.5, 0.0), (0.0, 0.0));
    }

    /// Central differences with a step of 1e-5, with and without running trials, and with an
    /// improvement that underflows in double precision. Batch values must agree with values at
    /// single points.
    #[test]
    fn values_and_gradients_of_the_improvement_agree() {
        let (inputs, y) = data();
        let plain = posterior(&inputs, &y);
        let running = uniform_points(3, 2, &mut test_stream(5));
        let extended = {
            let means = plain.mean_variances(&running).0;
            plain.clone().extended(&running, &means).unwrap()
        };
        for incumbent in [0.9, 40.0] {
            let draws = (0..4).map(|s| test_stream(20 + s).normals(3)).collect();
            let augmented = Improvement { augmented: true, ..Improvement::new(&plain, incumbent) };
            for improvement in [
                Improvement::new(&plain, incumbent),
                augmented,
                Improvement::with_fantasies(&extended, incumbent, &running, draws),
            ] {
                let points = uniform_points(20, 2, &mut test_stream(2));
                for (x, value) in points.rows().zip(improvement.values(&points)) {
                    let mut gradient = [0.0; 2];
                    let single = improvement.value_gradient(x, &mut gradient);
                    assert!(value.is_finite());
                    assert!((single / value - 1.0).abs() < 1e-8, "{single} {value}");
                    for j in 0..2 {
                        let at = |step: f64| {
                            let mut near = x.to_vec();
                            near[j] += step;
                            improvement.value_gradient(&near, &mut [0.0; 2])
                        };
                        let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                        let scale = slope.abs().max(value.abs()).max(1.0);
                        assert!((gradient[j] - slope).abs() < 1e-4 * scale, "{gradient:?} {slope}");
                    }
                }
            }
        }
    }
}
