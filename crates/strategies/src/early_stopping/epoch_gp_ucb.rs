//! GP-UCB over points and epochs, in which a stopped trial's values count as observations at their
//! epochs.

use fedbo_optim::{Function, Points};
use fedbo_space::Space;
use fedbo_streams::{Seed, Stream};

use super::LearningCurve;
use crate::acquisition::upper_bound;
use crate::proposer::Proposer;
use crate::{
    Domain, Maximizer, Observation, Proposal, Repeats, Source, StrategyError, Surrogate,
    SurrogateSettings, UcbMultiplier,
};

/// The coordinate of epoch n in the model, which is 1 at epoch N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochScale {
    /// n/N (the thesis).
    Linear,
    /// ln n/ln N. On this scale, epochs 1 to 5 are as far apart as epochs 10 to 50, which lets a
    /// stationary kernel follow curves that change about as much over both ranges.
    ///
    /// With n/N, the steep start leads to short length scales. A trial that was stopped early then
    /// reveals little about the value at epoch N, and the same region is proposed again.
    Logarithmic,
}

/// Settings of an [`EpochGpUcb`] strategy: its model and its search.
#[derive(Clone, Debug)]
pub struct EpochGpUcbSettings {
    /// Model over the d coordinates of a point and the epoch.
    pub surrogate: SurrogateSettings,
    /// The search for the maximum of the bound.
    pub maximizer: Maximizer,
    /// β_t, the multiplier of the standard deviation.
    pub ucb_multiplier: UcbMultiplier,
    /// Rule for proposing points again.
    pub repeats: Repeats,
    /// Number of epochs N of a complete trial.
    pub n_epochs: usize,
    /// The coordinate of the epoch.
    pub epoch_scale: EpochScale,
    /// Epochs, in ascending order, whose values enter the model in addition to the value at the end
    /// of training.
    pub extra_epochs: Vec<usize>,
}

impl EpochGpUcbSettings {
    /// Returns the defaults for a single-party study with training runs of N epochs: β = 2 as in
    /// [`crate::GpUcb`], and values after the first epoch and after each fifth of N. For N = 50
    /// these are epochs 1, 10, 20, 30 and 40, as in the thesis. The model has noise even if the
    /// objective has none, because a curve is not smooth.
    ///
    /// # Panics
    /// If N is 0.
    pub fn for_study(space: &Space, noisy: bool, n_epochs: usize) -> Self {
        Self {
            surrogate: SurrogateSettings::for_trainings(space),
            maximizer: Maximizer::of_acquisition(space.dim()),
            ucb_multiplier: UcbMultiplier::Constant(2.0),
            repeats: Repeats::for_study(noisy),
            n_epochs,
            epoch_scale: EpochScale::Logarithmic,
            extra_epochs: Self::fifths(n_epochs),
        }
    }

    /// Returns 1 and the multiples of N/5 below N.
    ///
    /// # Panics
    /// If N is 0.
    pub fn fifths(n_epochs: usize) -> Vec<usize> {
        assert!(n_epochs > 0, "a training without epochs");
        let mut epochs: Vec<usize> = (1..5).map(|fifth| fifth * n_epochs / 5).collect();
        epochs.insert(0, 1);
        epochs.retain(|epoch| (1..n_epochs).contains(epoch));
        epochs.dedup();
        epochs
    }
}

/// A finished trial with its training curve.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainedObservation {
    /// Coordinates in `[0,1]^d`.
    pub unit: Vec<f64>,
    /// Values until the end of training (larger is better); `None` if the trial reported nothing.
    pub curve: Option<LearningCurve>,
    /// Value of the complete run (larger is better); `None` if the run was stopped or failed.
    pub complete: Option<f64>,
    /// Expected final value of a stopped run (larger is better), if known: see
    /// [`EpochGpUcb::tell`].
    pub expected_end: Option<f64>,
    /// The source of the proposal.
    pub source: Source,
}

/// GP-UCB with a Gaussian process over z = [x, n] (thesis Algorithm 4.1, lines 2 and 11):
///
/// x_t = argmax_x μ_{t−1}([x, N]) + β_t σ_{t−1}([x, N])
///
/// A trial is observed at its last epoch and at the preceding [`EpochGpUcbSettings::extra_epochs`]
/// (thesis A.4). Running trials are treated as in [`crate::GpUcb`], as if they were trained to the
/// end. A query costs O(n²) per point that the search evaluates, where n counts all observations
/// (by default up to six per trial).
#[derive(Clone, Debug)]
pub struct EpochGpUcb {
    proposer: Proposer,
    ucb_multiplier: UcbMultiplier,
    n_epochs: usize,
    epoch_scale: EpochScale,
    extra_epochs: Vec<usize>,
    /// Points that cover the domain at epoch N, for γ_t.
    cover: Points,
}

impl EpochGpUcb {
    /// Creates a strategy without observations. `seed` is used for hyperparameter fits.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(
        domain: Domain,
        settings: EpochGpUcbSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let n_epochs = settings.n_epochs;
        let fits = |epoch: &usize| (1..n_epochs).contains(epoch);
        StrategyError::ensure(
            n_epochs > 0 && settings.extra_epochs.iter().all(fits),
            "extra_epochs",
            format!("{:?}", settings.extra_epochs),
            "epochs before the last one",
        )?;
        let proposer = Proposer::with_context(
            domain,
            1,
            settings.surrogate,
            settings.maximizer,
            settings.repeats,
            seed,
        )?;
        Ok(Self {
            ucb_multiplier: settings.ucb_multiplier.validate()?,
            cover: with_last(&proposer.domain().cover(), 1.0),
            proposer,
            n_epochs,
            epoch_scale: settings.epoch_scale,
            extra_epochs: settings.extra_epochs,
        })
    }

    /// Returns the model over z.
    pub fn surrogate(&self) -> &Surrogate {
        self.proposer.surrogate()
    }

    /// Returns N, the number of epochs of a complete trial.
    pub fn n_epochs(&self) -> usize {
        self.n_epochs
    }

    /// Proposes a query. Does not change the state. `pending` (p×d) contains the coordinates of
    /// running trials.
    ///
    /// # Errors
    /// Same as [`crate::Strategy::ask`].
    pub fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        self.proposer.open(pending)?;
        let posterior = self.proposer.surrogate().posterior();
        let beta = self.beta(pending.len());
        let hallucinated;
        let posterior = if pending.is_empty() {
            posterior
        } else {
            let pending = with_last(&Proposer::modelled(pending), 1.0);
            let means = posterior.mean_variances(&pending).0;
            hallucinated = posterior.clone().extended(&pending, &means)?;
            &hallucinated
        };
        let predictor = posterior.predictor();
        let bound = upper_bound(&predictor, beta);
        let at_end = AtEnd { bound: &bound, dim: self.proposer.domain().dim() };
        self.proposer.propose_acquisition(&at_end, pending, stream)
    }

    /// Restricts the next queries to a part of the space, as [`crate::Strategy::restrict`] does.
    ///
    /// # Errors
    /// If the domain is not a space.
    pub fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError> {
        self.proposer.restrict(part)
    }

    /// Returns β_t for the next trial while `n_pending` trials are running. t counts trials,
    /// however many of their values the model contains.
    pub fn beta(&self, n_pending: usize) -> f64 {
        let posterior = self.proposer.surrogate().posterior();
        self.ucb_multiplier.at(
            (self.proposer.n_told() + n_pending) as u64 + 1,
            posterior.kernel(),
            posterior.noise_variance(),
            &self.cover,
        )
    }

    /// Adds finished trials, in any order.
    ///
    /// The expected end of a stopped trial counts as an observation at epoch N. Since the trial was
    /// stopped, its expected end is poor. Without this observation, the model would remain as
    /// uncertain about the end as before and propose the same region again.
    ///
    /// # Errors
    /// If the surrogate cannot be conditioned; in that case nothing is added.
    pub fn tell(&mut self, observed: &[TrainedObservation]) -> Result<(), StrategyError> {
        let trials: Vec<Observation> = observed
            .iter()
            .map(|trial| {
                Observation::new(
                    trial.unit.clone(),
                    match (trial.complete, &trial.curve) {
                        (Some(value), _) => Some(value),
                        (None, Some(curve)) => Some(curve.last()),
                        (None, None) => None,
                    },
                    trial.source.clone(),
                )
            })
            .collect();
        let modelled: Vec<Observation> = observed
            .iter()
            .zip(&trials)
            .flat_map(|(trial, end)| self.observations(trial, end))
            .collect();
        self.proposer.tell_in_context(&trials, &modelled)
    }

    /// Returns a trial's observations for the model.
    fn observations(&self, trial: &TrainedObservation, end: &Observation) -> Vec<Observation> {
        let last = match (trial.complete, &trial.curve) {
            (None, Some(curve)) => curve.n_epochs().min(self.n_epochs),
            _ => self.n_epochs,
        };
        let at = |epoch: usize, value: Option<f64>| {
            Observation::new(self.at_epoch(&trial.unit, epoch), value, trial.source.clone())
        };
        let before = self.extra_epochs.iter().filter(|epoch| **epoch < last);
        let mut seen: Vec<Observation> = before
            .filter_map(|epoch| {
                let value = trial.curve.as_ref()?.at(*epoch)?;
                Some(at(*epoch, Some(value)))
            })
            .collect();
        seen.push(at(last, end.value));
        if last < self.n_epochs && trial.expected_end.is_some() {
            seen.push(at(self.n_epochs, trial.expected_end));
        }
        seen
    }

    /// Returns [x, n] in the model's coordinates.
    fn at_epoch(&self, unit: &[f64], epoch: usize) -> Vec<f64> {
        let share = epoch_coordinate(self.epoch_scale, epoch, self.n_epochs);
        [unit, &[share]].concat()
    }

    /// Returns σ_{t−1}([x, n]) of the latent function at n = 1, …, N, in the model's units. With
    /// `noise`, returns the standard deviations of observations instead.
    pub fn stds(&self, unit: &[f64], noise: bool) -> Vec<f64> {
        let rows = (1..=self.n_epochs).map(|epoch| self.at_epoch(unit, epoch));
        let points = Points::from_rows(unit.len() + 1, rows);
        let posterior = self.proposer.surrogate().posterior();
        let extra = if noise { posterior.noise_variance() } else { 0.0 };
        let (_, variances) = posterior.mean_variances(&points);
        variances.iter().map(|variance| (variance + extra).sqrt()).collect()
    }
}

/// Returns the coordinate of an epoch from 1 to N.
pub(super) fn epoch_coordinate(scale: EpochScale, epoch: usize, n_epochs: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "numbers of epochs are far below 2^53")]
    let (n, n_epochs) = (epoch as f64, n_epochs as f64);
    match scale {
        EpochScale::Logarithmic if n_epochs > 1.0 => n.ln() / n_epochs.ln(),
        _ => n / n_epochs,
    }
}

/// Returns the points with `last` as an additional last coordinate.
fn with_last(points: &Points, last: f64) -> Points {
    let rows = points.rows().map(|row| [row, &[last]].concat());
    Points::from_rows(points.dim() + 1, rows)
}

/// A function of [x, n], evaluated at n = N.
struct AtEnd<'a> {
    bound: &'a dyn Function,
    dim: usize,
}

impl Function for AtEnd<'_> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        self.bound.values(&with_last(points, 1.0))
    }

    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let mut slopes = vec![0.0; self.dim + 1];
        let value = self.bound.value_gradient(&[point, &[1.0]].concat(), &mut slopes);
        gradient.copy_from_slice(&slopes[..self.dim]);
        value
    }
}

#[cfg(test)]
mod tests {
    use fedbo_space::ParameterSpec;
    use fedbo_streams::Purpose;

    use super::*;

    fn space() -> Space {
        let spec = ParameterSpec::float(0.0, 1.0);
        Space::from_specs([("x", &spec)]).unwrap()
    }

    fn strategy() -> EpochGpUcb {
        let space = space();
        let settings = EpochGpUcbSettings::for_study(&space, false, 50);
        EpochGpUcb::new(Domain::Space(space), settings, Seed::new(1)).unwrap()
    }

    /// Returns a curve that rises from 0 to 1 − (x − 0.7)² as 1 − 0.9^n.
    fn curve(x: f64, n_epochs: i32) -> LearningCurve {
        let end = 1.0 - (x - 0.7).powi(2);
        LearningCurve::new((1..=n_epochs).map(|n| end * (1.0 - 0.9_f64.powi(n))).collect())
    }

    fn trial(x: f64, n_epochs: i32) -> TrainedObservation {
        let curve = curve(x, n_epochs);
        TrainedObservation {
            unit: vec![x],
            complete: (n_epochs == 50).then(|| curve.last()),
            expected_end: None,
            curve: Some(curve),
            source: Source::Own,
        }
    }

    #[test]
    fn fifths_are_the_epochs_of_the_thesis() {
        assert_eq!(EpochGpUcbSettings::fifths(50), [1, 10, 20, 30, 40]);
        assert_eq!(EpochGpUcbSettings::fifths(100), [1, 20, 40, 60, 80]);
        assert_eq!(EpochGpUcbSettings::fifths(3), [1, 2]);
        assert!(EpochGpUcbSettings::fifths(1).is_empty());
    }

    #[test]
    fn a_trial_is_seen_where_it_ended_and_at_fifths_before() {
        let mut strategy = strategy();
        strategy.tell(&[trial(0.2, 17), trial(0.5, 50), trial(0.9, 10)]).unwrap();
        let epochs: Vec<f64> =
            strategy.surrogate().inputs().rows().map(|row| 50_f64.powf(row[1])).collect();
        let expected = [1, 10, 17, 1, 10, 20, 30, 40, 50, 1, 10];
        assert!(epochs.len() == expected.len());
        for (found, expected) in epochs.iter().zip(expected) {
            assert!((found - f64::from(expected)).abs() < 1e-9, "{epochs:?}");
        }
        let last = curve(0.2, 17).last();
        assert!((strategy.surrogate().outputs()[2] - last).abs() < 1e-15);
        // A failed trial adds no observation.
        let failed = TrainedObservation { curve: None, complete: None, ..trial(0.4, 1) };
        strategy.tell(&[failed]).unwrap();
        assert_eq!(strategy.surrogate().len(), expected.len());
    }

    /// Trials that were stopped early still lead to the best x. The standard deviation at the end
    /// is larger than at observed epochs.
    #[test]
    fn what_was_stopped_leads_on() {
        let mut strategy = strategy();
        for (index, x) in [0.05, 0.3, 0.5, 0.95].into_iter().enumerate() {
            let n_epochs = if index == 1 { 50 } else { 12 };
            strategy.tell(&[trial(x, n_epochs)]).unwrap();
        }
        let mut stream = Seed::new(2).stream(Purpose::TEST, 0, 0);
        for step in 0..8 {
            let asked = strategy.ask(&Points::new(1), &mut stream).unwrap();
            let n_epochs = if step % 2 == 0 { 50 } else { 20 };
            strategy.tell(&[trial(asked.unit[0], n_epochs)]).unwrap();
        }
        let asked = strategy.ask(&Points::new(1), &mut stream).unwrap();
        assert!((asked.unit[0] - 0.7).abs() < 0.15, "{asked:?}");
        let stds = strategy.stds(&[0.05], false);
        assert!(stds.len() == 50 && stds[49] > stds[11] && stds[49] > stds[0]);
        let noisy = strategy.stds(&[0.05], true);
        assert!(noisy.iter().zip(&stds).all(|(a, b)| a > b));
    }
}
