//! EXP3 for linear adversarial bandits on random features of the player's own actions (Lattimore &
//! Szepesvári 2020, chapter 27).

use fedbo_gp::linalg::{PackedLower, SpdFactor};
use fedbo_gp::{Family, FeatureMap, Kernel};
use fedbo_optim::Points;
use fedbo_streams::{Purpose, Seed, Stream};

use super::{check_bounds, softmax, unit_payoff};
use crate::GameError;
use crate::error::{count, setting};

/// Number of steps towards the optimal design, after which its largest φᵀ Q⁻¹ φ is a few per cent
/// above the minimum.
const DESIGN_STEPS: usize = 300;

/// Settings of [`Exp3`](super::Level0Strategy::Exp3).
#[derive(Clone, Debug, PartialEq)]
pub struct Exp3Settings {
    /// Kernel family of the random features.
    pub family: Family,
    /// Length scales of the player's own coordinates.
    pub lengthscales: Vec<f64>,
    /// d', the number of features; 5 in the experiments of thesis appendix E.6.1.1c.
    pub n_features: usize,
    /// Distribution from which the features are drawn.
    pub law: FeatureLaw,
    /// Seed of the features. Anyone who has the seed can compute the features.
    pub seed: u64,
    /// The rates η and γ.
    pub rate: Exp3Rate,
    /// The distribution π, which is mixed in with weight γ.
    pub exploration: Exploration,
    /// Lower and upper bound of the payoffs. A loss is 1 minus the payoff scaled to [0, 1] with
    /// these bounds. With `None`, a loss is −payoff, as in the authors' code.
    pub payoff_bounds: Option<(f64, f64)>,
    /// If true, payoffs are weighted by the previous round's distribution, as in the authors' code,
    /// instead of the same round's.
    pub stale_law: bool,
}

/// Distribution of the random features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureLaw {
    /// Normalized cosine features of the kernel ([`FeatureMap`]).
    Kernel,
    /// √(2/d') cos(ω x + b), with ω smaller by a factor of 2π, as in the authors' code. The
    /// effective length scale is therefore 2π ℓ.
    AsInAuthorsCode,
}

/// The rates η and γ, for K actions and d' features.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Exp3Rate {
    /// η = √(ln K/(3 d' T)), γ = η d' for a game of T rounds (Lattimore & Szepesvári 2020, Theorem 27.1).
    Horizon(usize),
    /// Like [`Self::Horizon`] with t in place of T, for games of unknown length.
    Anytime,
    /// Fixed rates; 0.1 and 0.1 in the authors' code.
    Given {
        /// η.
        rate: f64,
        /// γ.
        exploration: f64,
    },
}

/// The exploration distribution π.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exploration {
    /// The design that minimizes max φᵀ Q(π)⁻¹ φ, approximated by multiplicative steps. The minimum
    /// is d' (Kiefer & Wolfowitz).
    OptimalDesign,
    /// The uniform distribution.
    Uniform,
}

impl Exp3Settings {
    /// Returns the settings of the authors' code for the synthetic games (appendix E.6.1.1c),
    /// including its differences from the theory.
    pub fn as_in_authors_code(lengthscale: f64, dim: usize, seed: u64) -> Self {
        Self {
            family: Family::SquaredExponential,
            lengthscales: vec![lengthscale; dim],
            n_features: 5,
            law: FeatureLaw::AsInAuthorsCode,
            seed,
            rate: Exp3Rate::Given { rate: 0.1, exploration: 0.1 },
            exploration: Exploration::Uniform,
            payoff_bounds: None,
            stale_law: true,
        }
    }
}

/// Cumulative loss estimates.
///
/// P_t(a) = γ π(a) + (1 − γ) exp(−η φ(a)·Θ)/Σ,   Θ = Σ_s Q_s⁻¹ φ(a_s) ℓ_s,   Q_s = Σ_a P_s(a) φ(a) φ(a)ᵀ
///
/// A jitter ladder makes Q_s positive definite if the features are linearly dependent. Every round
/// counts, whatever the level of reasoning that chose its action, and is weighted as if the action
/// had been drawn from P_s. Initial rounds are drawn uniformly and weighted accordingly.
#[derive(Clone, Debug)]
pub(crate) struct Exp3 {
    settings: Exp3Settings,
    /// φ(a), K rows of d'.
    features: Vec<Vec<f64>>,
    /// π.
    design: Vec<f64>,
    /// Θ.
    estimate: Vec<f64>,
    /// P of the previous round.
    last_law: Vec<f64>,
    n_rounds: usize,
}

impl Exp3 {
    pub(crate) fn new(settings: Exp3Settings, actions: &Points) -> Result<Self, GameError> {
        check_bounds(settings.payoff_bounds)?;
        match settings.rate {
            Exp3Rate::Given { rate, exploration } => {
                setting("exp3_rate", rate, "above 0", |v| v > 0.0)?;
                setting("exploration", exploration, "from 0 to 1", |v| (0.0..=1.0).contains(&v))?;
            }
            Exp3Rate::Horizon(0) => setting("horizon", 0.0, "at least 1 round", |v| v > 0.0)?,
            Exp3Rate::Horizon(_) | Exp3Rate::Anytime => {}
        }
        if settings.lengthscales.len() != actions.dim() {
            return Err(GameError::Count {
                what: "length scales of EXP3's features",
                found: settings.lengthscales.len(),
                expected: actions.dim(),
            });
        }
        let mut stream = Seed::new(settings.seed).stream(Purpose::SHARED_FEATURES, 0, 0);
        let features = features(&settings, actions, &mut stream)?;
        let uniform = vec![1.0 / count(actions.len()); actions.len()];
        let design = match settings.exploration {
            Exploration::Uniform => uniform.clone(),
            Exploration::OptimalDesign => optimal_design(&features)?,
        };
        Ok(Self {
            estimate: vec![0.0; settings.n_features],
            settings,
            features,
            design,
            last_law: uniform,
            n_rounds: 0,
        })
    }

    pub(crate) fn observe(
        &mut self,
        action: usize,
        payoff: f64,
        was_random: bool,
    ) -> Result<(), GameError> {
        let uniform = || vec![1.0 / count(self.features.len()); self.features.len()];
        let law = if was_random { uniform() } else { self.probabilities() };
        let loss = match self.settings.payoff_bounds {
            Some(bounds) => 1.0 - unit_payoff(payoff, bounds),
            None => -payoff,
        };
        let weighting = if self.settings.stale_law { &self.last_law } else { &law };
        let mut step = self.features[action].clone();
        second_moment(&self.features, weighting)?.solve(&mut step);
        for (sum, v) in self.estimate.iter_mut().zip(step) {
            *sum += loss * v;
        }
        self.last_law = law;
        self.n_rounds += 1;
        Ok(())
    }

    pub(crate) fn probabilities(&self) -> Vec<f64> {
        let d = count(self.settings.n_features);
        let of_length = |length: usize| {
            let ln_k = count(self.features.len()).ln();
            let rate = (ln_k / (3.0 * d * count(length))).sqrt();
            (rate, (rate * d).min(1.0))
        };
        let (rate, gamma) = match self.settings.rate {
            Exp3Rate::Given { rate, exploration } => (rate, exploration),
            Exp3Rate::Horizon(horizon) => of_length(horizon),
            Exp3Rate::Anytime => of_length(self.n_rounds + 1),
        };
        let scores: Vec<f64> =
            self.features.iter().map(|phi| -rate * dot(phi, &self.estimate)).collect();
        let weights = softmax(&scores);
        let mixed = weights.iter().zip(&self.design).map(|(w, pi)| gamma * pi + (1.0 - gamma) * w);
        mixed.collect()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn features(
    settings: &Exp3Settings,
    actions: &Points,
    stream: &mut Stream,
) -> Result<Vec<Vec<f64>>, GameError> {
    let (m, lengthscales) = (settings.n_features, settings.lengthscales.clone());
    let kernel = Kernel::new(settings.family, lengthscales, 1.0)?;
    let map = match settings.law {
        FeatureLaw::Kernel => FeatureMap::for_kernel(&kernel, m, stream)?,
        FeatureLaw::AsInAuthorsCode => {
            setting("n_features", count(m), "at least 1", |v| v > 0.0)?;
            let mut draw = || {
                let frequencies = kernel
                    .lengthscales()
                    .iter()
                    .map(|l| stream.normal() / l / std::f64::consts::TAU);
                let frequencies: Vec<f64> = frequencies.collect();
                (frequencies, std::f64::consts::TAU * stream.uniform())
            };
            let drawn: Vec<(Vec<f64>, f64)> = (0..m).map(|_| draw()).collect();
            let size = (2.0 / count(m)).sqrt();
            let phi = |x: &[f64]| {
                let cosines = drawn.iter().map(|(omega, b)| size * libm::cos(dot(omega, x) + b));
                cosines.collect()
            };
            return Ok(actions.rows().map(phi).collect());
        }
    };
    Ok(actions.rows().map(|x| map.features(x)).collect())
}

/// Returns Σ_a p(a) φ(a) φ(a)ᵀ.
fn second_moment(features: &[Vec<f64>], law: &[f64]) -> Result<SpdFactor, GameError> {
    let mut q = PackedLower::zeros(features[0].len());
    for (phi, p) in features.iter().zip(law) {
        for i in 0..phi.len() {
            for (entry, v) in q.row_mut(i).iter_mut().zip(phi) {
                *entry += p * phi[i] * v;
            }
        }
    }
    Ok(SpdFactor::new(&q).map_err(fedbo_gp::GpError::from)?)
}

/// Iterates π ← π(a) φ(a)ᵀ Q(π)⁻¹ φ(a)/d'. Each step increases the determinant of Q (Titterington
/// 1976).
fn optimal_design(features: &[Vec<f64>]) -> Result<Vec<f64>, GameError> {
    let mut design = vec![1.0 / count(features.len()); features.len()];
    for _ in 0..DESIGN_STEPS {
        let leverages = leverages(features, &design)?;
        for (p, leverage) in design.iter_mut().zip(leverages) {
            *p *= leverage;
        }
        let sum: f64 = design.iter().sum();
        design.iter_mut().for_each(|p| *p /= sum);
    }
    Ok(design)
}

/// Returns φ(a)ᵀ Q⁻¹ φ(a).
fn leverages(features: &[Vec<f64>], law: &[f64]) -> Result<Vec<f64>, GameError> {
    let factor = second_moment(features, law)?;
    let leverage = |phi: &Vec<f64>| {
        let mut solved = phi.clone();
        factor.solve_lower(&mut solved);
        dot(&solved, &solved)
    };
    Ok(features.iter().map(leverage).collect())
}

#[cfg(test)]
mod tests {
    use fedbo_testkit::{test_stream, uniform_points};

    use super::*;

    fn settings(n_features: usize) -> Exp3Settings {
        Exp3Settings {
            family: Family::SquaredExponential,
            lengthscales: vec![0.3, 0.3],
            n_features,
            law: FeatureLaw::Kernel,
            seed: 3,
            rate: Exp3Rate::Horizon(200),
            exploration: Exploration::OptimalDesign,
            payoff_bounds: Some((-1.0, 3.0)),
            stale_law: false,
        }
    }

    /// Kiefer & Wolfowitz: the minimum of max φᵀ Q⁻¹ φ over all designs is d'. The uniform design's
    /// maximum is clearly larger.
    #[test]
    fn the_design_is_nearly_optimal() {
        let actions = uniform_points(40, 2, &mut test_stream(1));
        let exp3 = Exp3::new(settings(5), &actions).unwrap();
        let largest = |law: &[f64]| {
            let all = leverages(&exp3.features, law).unwrap();
            all.into_iter().fold(0.0, f64::max)
        };
        let (optimal, uniform) = (largest(&exp3.design), largest(&exp3.last_law));
        assert!(optimal > 5.0 - 1e-9 && optimal < 5.0 * 1.05, "{optimal}");
        assert!(uniform > 1.3 * optimal, "{uniform}");
        assert!((exp3.design.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    /// If payoffs are linear in the features, the estimate of one round is unbiased under P_t:
    /// E[Q⁻¹ φ(a) ℓ(a)] = θ.
    #[test]
    fn estimates_are_unbiased_for_linear_losses() {
        let actions = uniform_points(12, 2, &mut test_stream(2));
        let mut exp3 = Exp3::new(settings(4), &actions).unwrap();
        for (action, payoff) in [(3, 1.0), (7, -0.5), (3, 2.0)] {
            exp3.observe(action, payoff, false).unwrap();
        }
        let theta = [0.1, -0.2, 0.3, 0.15];
        let (before, law) = (exp3.estimate.clone(), exp3.probabilities());
        let mut mean = [0.0; 4];
        for (action, p) in law.iter().enumerate() {
            let loss = dot(&theta, &exp3.features[action]);
            let mut after = exp3.clone();
            after.settings.payoff_bounds = None;
            after.observe(action, -loss, false).unwrap();
            for (m, (a, b)) in mean.iter_mut().zip(after.estimate.iter().zip(&before)) {
                *m += p * (a - b);
            }
        }
        for (m, t) in mean.iter().zip(theta) {
            assert!((m - t).abs() < 1e-8, "{mean:?}");
        }
    }

    /// The expected probabilities after one round are γ/K + (1 − γ) softmax(−η φ(a)·Q⁻¹ φ(a₁) ℓ),
    /// where Q comes from the distribution of the previous round or of the same round.
    #[test]
    fn the_authors_law_is_one_round_late() {
        let actions = uniform_points(9, 1, &mut test_stream(3));
        let run = |stale_law| {
            let settings =
                Exp3Settings { stale_law, ..Exp3Settings::as_in_authors_code(0.1, 1, 5) };
            let mut exp3 = Exp3::new(settings, &actions).unwrap();
            exp3.observe(2, 0.9, true).unwrap();
            let first = exp3.probabilities();
            exp3.observe(4, 0.1, false).unwrap();
            (exp3, first)
        };
        let ((late, first), (own, _)) = (run(true), run(false));
        let step = |law: &[f64], action: usize, payoff: f64| {
            let mut v = late.features[action].clone();
            second_moment(&late.features, law).unwrap().solve(&mut v);
            v.iter().map(|v| -payoff * v).collect::<Vec<f64>>()
        };
        let uniform = vec![1.0 / 9.0; 9];
        for (exp3, second) in [(&late, &uniform), (&own, &first)] {
            let (a, b) = (step(&uniform, 2, 0.9), step(second, 4, 0.1));
            let estimate: Vec<f64> = a.iter().zip(b).map(|(a, b)| a + b).collect();
            let weight = |phi: &Vec<f64>| (-0.1 * dot(phi, &estimate)).exp();
            let sum: f64 = exp3.features.iter().map(weight).sum();
            for (phi, p) in exp3.features.iter().zip(exp3.probabilities()) {
                assert!((p - (0.1 / 9.0 + 0.9 * weight(phi) / sum)).abs() < 1e-12);
            }
        }
        assert!((late.estimate[0] - own.estimate[0]).abs() > 1e-6);
    }

    /// An initial round is weighted as a uniform draw, whatever the distribution at that time.
    #[test]
    fn initial_rounds_are_weighted_uniformly() {
        let actions = uniform_points(9, 2, &mut test_stream(6));
        let after = |was_random| {
            let mut exp3 = Exp3::new(settings(4), &actions).unwrap();
            exp3.observe(2, -0.5, false).unwrap();
            let before = exp3.estimate.clone();
            exp3.observe(5, 0.2, was_random).unwrap();
            let step = exp3.estimate.iter().zip(before).map(|(a, b)| a - b);
            (step.collect::<Vec<f64>>(), exp3)
        };
        let (step, exp3) = after(true);
        let mut expected = exp3.features[5].clone();
        let uniform = second_moment(&exp3.features, &[1.0 / 9.0; 9]).unwrap();
        uniform.solve(&mut expected);
        for (v, phi) in step.iter().zip(expected) {
            assert!((v - 0.7 * phi).abs() < 1e-9, "{step:?}"); // a payoff of 0.2 in [-1, 3]
        }
        assert!((after(false).0[0] - step[0]).abs() > 1e-6);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let actions = uniform_points(5, 2, &mut test_stream(4));
        let refused = |change: fn(&mut Exp3Settings)| {
            let mut settings = settings(4);
            change(&mut settings);
            Exp3::new(settings, &actions).is_err()
        };
        assert!(refused(|s| s.payoff_bounds = Some((1.0, 1.0))));
        assert!(refused(|s| s.rate = Exp3Rate::Horizon(0)));
        assert!(refused(|s| s.rate = Exp3Rate::Given { rate: 0.0, exploration: 0.1 }));
        assert!(refused(|s| s.rate = Exp3Rate::Given { rate: 0.1, exploration: 1.1 }));
        assert!(refused(|s| s.lengthscales = vec![0.1]));
        assert!(refused(|s| s.n_features = 0));
        assert!(!refused(|_| {}));
    }
}
