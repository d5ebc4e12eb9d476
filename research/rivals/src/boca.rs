//! BOCA, which chooses a query and its number of training epochs.

use fedbo_gp::{Family, Kernel};
use fedbo_optim::Points;
use fedbo_space::Space;
use fedbo_streams::{Seed, Stream};

use fedbo_strategies::early_stopping::{
    EpochGpUcb, EpochGpUcbSettings, EpochScale, TrainedObservation,
};
use fedbo_strategies::{
    Domain, HyperparameterPolicy, Proposal, StrategyError, Surrogate, SurrogateSettings,
};

/// Bayesian optimization with continuous approximations (Kandasamy et al. 2017, Algorithm 1). The
/// fidelity is the share z = n/N of a complete training run in `[0, 1]`, with the cost λ(z) = z:
///
/// x_t = argmax_x μ_{t−1}([x, 1]) + β_t σ_{t−1}([x, 1]),
/// z_t = the cheapest z with σ_{t−1}([x_t, z]) > γ(z) and ξ(z) > max ξ / β_t; 1 if there is none
/// below 1,
///
/// γ(z) = a ξ(z) (λ(z)/λ(1))^q,   ξ(z) = √(1 − φ(z, 1)²),   q = 1/(p + d + 2),   p = 1,
///
/// with a² the signal variance (the paper's κ_0), φ the part of the kernel over z, and β_t the
/// factor of the standard deviation (the paper's β_t^{1/2}). ξ is the *information gap*: the
/// information about z = 1 that z does not provide. A number of epochs is chosen if the value of
/// x_t at that epoch is still uncertain, relative to how little that epoch reveals about the end,
/// and if that epoch is not so close to the end that nothing is saved. The number of epochs is
/// chosen before training starts, and only the last value of the curve enters the model.
///
/// x_t, γ and the first condition on z_t follow the paper and the code that its authors published
/// later (which has a power of 1/2 instead of q, and further factors in γ). The second condition is
/// in the paper but not in that code, where z_t has an upper bound instead. Deviations: the paper's
/// experiments adapt γ when one fidelity is chosen too often, which this implementation omits; β_t
/// and the schedule of hyperparameter fits are as in [`fedbo_strategies::GpUcb`]; z takes the
/// values of the epochs 1, …, N. A power transform of the outputs, if the surrogate has one, is the
/// same at all z, so "uncertain" refers to its units.
#[derive(Clone, Debug)]
pub struct Boca {
    model: EpochGpUcb,
}

impl Boca {
    /// Returns the defaults for one party's study with training runs of N epochs.
    ///
    /// The defaults are those of [`EpochGpUcbSettings::for_study`], with two differences: the
    /// kernel is squared exponential, for which the paper derives q, and the model uses only the
    /// last value of each training run.
    ///
    /// # Panics
    /// If N is 0.
    pub fn for_study(space: &Space, noisy: bool, n_epochs: usize) -> EpochGpUcbSettings {
        let mut settings = EpochGpUcbSettings::for_study(space, noisy, n_epochs);
        settings.extra_epochs.clear();
        settings.epoch_scale = EpochScale::Linear;
        settings.surrogate = Self::squared_exponential(settings.surrogate);
        settings
    }

    /// Returns the same surrogate with a squared-exponential kernel. Length scales and signal
    /// variance are kept.
    pub fn squared_exponential(mut surrogate: SurrogateSettings) -> SurrogateSettings {
        match &mut surrogate.hyperparameters {
            HyperparameterPolicy::Fixed(given)
            | HyperparameterPolicy::Fitted { initial: given, .. }
            | HyperparameterPolicy::Scheduled { initial: given, .. } => {
                let old = &given.kernel;
                let lengthscales = old.lengthscales().to_vec();
                let kernel =
                    Kernel::new(Family::SquaredExponential, lengthscales, old.outputscale());
                given.kernel =
                    kernel.unwrap_or_else(|error| unreachable!("of a valid kernel: {error}"));
            }
        }
        surrogate
    }

    /// Creates a strategy without observations. `seed` is used for hyperparameter fits.
    ///
    /// The model's coordinate of an epoch is always n/N, regardless of `settings`. If `settings`
    /// have extra epochs, their values enter the model as well, in contrast to the paper.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(
        domain: Domain,
        settings: EpochGpUcbSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        Ok(Self {
            model: EpochGpUcb::new(
                domain,
                EpochGpUcbSettings { epoch_scale: EpochScale::Linear, ..settings },
                seed,
            )?,
        })
    }

    /// Returns the model over [x, n/N].
    pub fn surrogate(&self) -> &Surrogate {
        self.model.surrogate()
    }

    /// Returns the number N of epochs of a complete training run.
    pub fn n_epochs(&self) -> usize {
        self.model.n_epochs()
    }

    /// Proposes a query and its number of training epochs. Does not change the state.
    ///
    /// `pending` (p×d) contains the coordinates of running trials. They affect the choice of the
    /// query as in [`EpochGpUcb`], but not the number of epochs.
    ///
    /// # Errors
    /// As for [`fedbo_strategies::Strategy::ask`].
    pub fn ask(
        &self,
        pending: &Points,
        stream: &mut Stream,
    ) -> Result<(Proposal, usize), StrategyError> {
        let proposal = self.model.ask(pending, stream)?;
        let beta = self.model.beta(pending.len());
        let n_epochs = self.epochs_at(&proposal.unit, beta);
        Ok((proposal, n_epochs))
    }

    /// Adds completed trials, in any order.
    ///
    /// # Errors
    /// If the surrogate cannot be conditioned; no trial is added in that case.
    pub fn tell(&mut self, observed: &[TrainedObservation]) -> Result<(), StrategyError> {
        self.model.tell(observed)
    }

    /// Returns N z_t for a query x_t.
    fn epochs_at(&self, unit: &[f64], beta: f64) -> usize {
        let kernel = self.surrogate().posterior().kernel();
        let stds = self.model.stds(unit, false);
        let shares = shares(self.n_epochs());
        let gaps: Vec<f64> = shares.iter().map(|z| information_gap(kernel, *z)).collect();
        let scale = kernel.outputscale().sqrt();
        #[expect(clippy::cast_precision_loss, reason = "dimensions are far below 2^53")]
        let exponent = 1.0 / (1.0 + unit.len() as f64 + 2.0);
        let gap_min = gaps.iter().copied().fold(0.0, f64::max) / beta;
        let index = shares.iter().zip(stds).zip(&gaps).position(|((z, std), gap)| {
            *z < 1.0 && std > scale * gap * z.powf(exponent) && *gap > gap_min
        });
        index.map_or(self.n_epochs(), |index| index + 1)
    }
}

/// Returns n/N for n = 1, …, N.
fn shares(n_epochs: usize) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "epochs are far below 2^53")]
    let share = |n: usize| n as f64 / n_epochs as f64;
    (1..=n_epochs).map(share).collect()
}

/// Returns ξ(z), where z is the kernel's last coordinate.
fn information_gap(kernel: &Kernel, share: f64) -> f64 {
    let mut end = vec![0.0; kernel.dim()];
    let mut here = end.clone();
    end[kernel.dim() - 1] = 1.0;
    here[kernel.dim() - 1] = share;
    let correlation = kernel.value(&here, &end) / kernel.outputscale();
    (1.0 - correlation * correlation).max(0.0).sqrt()
}

#[cfg(test)]
mod tests {
    use fedbo_gp::Hyperparameters;
    use fedbo_space::ParameterSpec;
    use fedbo_testkit::test_stream;

    use super::*;
    use fedbo_strategies::early_stopping::LearningCurve;
    use fedbo_strategies::{Source, UcbMultiplier};

    const N: usize = 20;

    /// Creates a model with given hyperparameters on one parameter, with raw outputs.
    fn fixed(lengthscale: f64, lengthscale_z: f64, beta: f64) -> Boca {
        let spec = ParameterSpec::float(0.0, 1.0);
        let space = Space::from_specs([("x", &spec)]).unwrap();
        let mut settings = Boca::for_study(&space, true, N);
        settings.surrogate.hyperparameters = HyperparameterPolicy::Fixed(Hyperparameters {
            kernel: Kernel::new(Family::SquaredExponential, vec![lengthscale, lengthscale_z], 4.0)
                .unwrap(),
            noise_variance: 0.01,
        });
        settings.surrogate.standardize = false;
        settings.ucb_multiplier = UcbMultiplier::Constant(beta);
        Boca::new(Domain::Space(space), settings, Seed::new(1)).unwrap()
    }

    fn trained(x: f64, n: usize, value: f64) -> TrainedObservation {
        TrainedObservation {
            unit: vec![x],
            curve: Some(LearningCurve::new(vec![value; n])),
            complete: (n == N).then_some(value),
            expected_end: None,
            source: Source::Own,
        }
    }

    /// Returns the number of epochs by the formulas. The posterior variance is computed by solving
    /// k = K α over all observations with Gaussian elimination.
    fn by_hand(seen: &[(f64, usize)], x: f64, lengthscales: [f64; 2], beta: f64) -> usize {
        let z = |n: usize| f64::from(u32::try_from(n).unwrap()) / 20.0;
        let kernel = |a: (f64, f64), b: (f64, f64)| {
            let (u, v) = ((a.0 - b.0) / lengthscales[0], (a.1 - b.1) / lengthscales[1]);
            4.0 * (-0.5 * (u * u + v * v)).exp()
        };
        let points: Vec<(f64, f64)> = seen.iter().map(|(x, n)| (*x, z(*n))).collect();
        let rows: Vec<Vec<f64>> = points
            .iter()
            .enumerate()
            .map(|(i, a)| {
                let entry =
                    |(j, b): (usize, &(f64, f64))| kernel(*a, *b) + if i == j { 0.01 } else { 0.0 };
                points.iter().enumerate().map(entry).collect()
            })
            .collect();
        let inverse = fedbo_testkit::dense::Matrix::from_rows(&rows).inverse();
        let gap = |n: usize| (1.0 - (-((1.0 - z(n)) / lengthscales[1]).powi(2)).exp()).sqrt();
        for n in 1..N {
            let k: Vec<f64> = points.iter().map(|p| kernel(*p, (x, z(n)))).collect();
            let solved = inverse.times_vector(&k);
            let variance = 4.0 - k.iter().zip(solved).map(|(a, b)| a * b).sum::<f64>();
            let gamma = 2.0 * gap(n) * z(n).powf(0.25);
            if variance.sqrt() > gamma && gap(n) > gap(1) / beta {
                return n;
            }
        }
        N
    }

    /// Checks random observations and many x, with several numbers of epochs among the results.
    #[test]
    fn epochs_are_those_of_the_formulas() {
        let mut stream = test_stream(60);
        let mut found = std::collections::BTreeSet::new();
        let cases = [
            ([0.3, 0.5], 2.0),
            ([0.5, 1.5], 3.0),
            ([0.1, 0.2], 1.1),
            ([0.3, 0.15], 4.0),
            ([1.0, 0.3], 5.0),
        ];
        for (lengthscales, beta) in cases {
            let mut boca = fixed(lengthscales[0], lengthscales[1], beta);
            let mut seen = Vec::new();
            for _ in 0..25 {
                let (x, n) = (stream.uniform(), 1 + stream.below(N));
                boca.tell(&[trained(x, n, stream.normal())]).unwrap();
                seen.push((x, n));
                for _ in 0..10 {
                    let x = stream.uniform();
                    let expected = by_hand(&seen, x, lengthscales, beta);
                    assert_eq!(boca.epochs_at(&[x], beta), expected, "{x} {seen:?}");
                    found.insert(expected);
                }
            }
        }
        assert!(found.len() >= 6 && found.contains(&N), "{found:?}");
    }

    /// Without observations, the first epoch is chosen, because it is the cheapest and uncertain.
    /// If everything but the end is known at x, the end is chosen, because early epochs give no
    /// further information.
    #[test]
    fn cheap_epochs_come_first_and_the_end_last() {
        let mut boca = fixed(0.3, 0.6, 2.0);
        assert_eq!(boca.epochs_at(&[0.5], 2.0), 1);
        for n in (1..N).flat_map(|n| [n; 6]) {
            boca.tell(&[trained(0.5, n, 0.0)]).unwrap();
        }
        assert_eq!(boca.epochs_at(&[0.5], 2.0), N);
    }

    /// The curves rise to 1 − (x − 0.7)². The first training runs have only a few epochs.
    #[test]
    fn a_known_optimum_is_found_with_fewer_epochs() {
        let spec = ParameterSpec::float(0.0, 1.0);
        let space = Space::from_specs([("x", &spec)]).unwrap();
        let settings = Boca::for_study(&space, false, N);
        let mut boca = Boca::new(Domain::Space(space), settings, Seed::new(3)).unwrap();
        let mut stream = test_stream(61);
        let (mut n_short, mut best) = (0, f64::NEG_INFINITY);
        let mut train = |boca: &mut Boca, x: f64, n: usize| {
            let end = 1.0 - (x - 0.7).powi(2);
            let at = |n: u32| end - 0.3 * 0.75_f64.powf(f64::from(n));
            let curve: Vec<f64> = (1..=u32::try_from(n).unwrap()).map(at).collect();
            if n == N {
                best = f64::max(best, end);
            }
            boca.tell(&[TrainedObservation {
                complete: (n == N).then(|| curve[n - 1]),
                curve: Some(LearningCurve::new(curve)),
                ..trained(x, n, 0.0)
            }])
            .unwrap();
        };
        for (x, n) in [(0.1, N), (0.5, 5), (0.9, 10)] {
            train(&mut boca, x, n);
        }
        for _ in 0..25 {
            let (proposal, n) = boca.ask(&Points::new(1), &mut stream).unwrap();
            n_short += u32::from(n < N / 2);
            train(&mut boca, proposal.unit[0], n);
        }
        assert!(best > 0.99, "{best}");
        assert!((2..20).contains(&n_short), "{n_short}");
    }
}
