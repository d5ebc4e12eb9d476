//! The finished trials of a study with reports during training, in the form that the study's model
//! uses.

use fedbo_space::{Direction, Space};
use fedbo_storage::{Told, Trial};
use fedbo_strategies::Source;
use fedbo_strategies::early_stopping::{
    BosSettings, LearningCurve, TrainedObservation, ValueBounds, expected_end,
};

use super::EarlyStoppingSpec;
use crate::{Definition, StudyError};

/// The finished trials, in completion order.
pub(crate) struct ToldTrials {
    space: Space,
    direction: Direction,
    told: Vec<Trial>,
    /// The settings of BO-BOS, if the study uses this rule. They determine whether a trial that
    /// BO-BOS stopped enters the model with its expected final value.
    bos: Option<BosSettings>,
}

impl ToldTrials {
    /// Creates an empty list.
    pub(crate) fn new(definition: &Definition) -> Result<Self, StudyError> {
        let spec = definition.early_stopping.as_ref();
        Ok(Self {
            space: definition.space()?,
            direction: definition.direction,
            told: Vec::new(),
            bos: spec.and_then(EarlyStoppingSpec::solved),
        })
    }

    /// Adds the next finished trials, in completion order.
    pub(crate) fn absorb(&mut self, told: &[Trial]) {
        self.told.extend(told.iter().filter(|trial| !trial.is_discarded()).cloned());
    }

    pub(crate) fn len(&self) -> usize {
        self.told.len()
    }

    /// Returns the number of trials that finished before a trial started, by the storage's clock.
    pub(super) fn n_before(&self, trial: &Trial) -> usize {
        let began = trial.started_at_ms.unwrap_or(i64::MAX);
        let before = |told: &&Trial| told.told_at_ms.is_some_and(|at| at <= began);
        self.told.iter().take_while(before).count()
    }

    /// Returns the model's observations of the finished trials with these indices.
    pub(crate) fn observations(
        &self,
        places: std::ops::Range<usize>,
    ) -> Result<Vec<TrainedObservation>, StudyError> {
        places.map(|place| self.observation(place)).collect()
    }

    fn observation(&self, place: usize) -> Result<TrainedObservation, StudyError> {
        let trial = &self.told[place];
        let told = trial.told();
        let curve = match told {
            Some(Told::Failed { .. }) => None,
            _ => curve(trial, self.direction),
        };
        let expected_end = match (told, &curve) {
            (Some(Told::Stopped { .. }), Some(curve)) => match &self.bos {
                Some(bos) => self.predicted_end(trial, curve, bos)?,
                None => Some(self.end_by_gains(place, curve)),
            },
            _ => None,
        };
        Ok(TrainedObservation {
            unit: self.space.encode(&trial.point)?,
            curve,
            complete: trial.value().map(|value| self.direction.to_maximize(value)),
            expected_end,
            source: match trial.origin() {
                "initial" => Source::Initial,
                _ => Source::Own,
            },
        })
    }

    /// Returns the expected final value of a trial that a curve-based rule stopped after epoch e:
    /// its last value plus the median gain of complete trials from e to the end,
    ///
    /// ŷ(N) = y(e) + median_j (y_j(N) − y_j(e))
    ///
    /// over the trials j that finished before this trial, have a final value and reached e. Returns
    /// y(e) while there are none. Adding a median preserves the order of trials at e and limits the
    /// influence of diverged values. Without an expected final value, the model would remain
    /// uncertain about the final value. The strategy would propose the same region repeatedly, and
    /// the rule would stop each of these trials after the first epoch:
    /// docs/decisions/0015-early-stopping.md.
    fn end_by_gains(&self, place: usize, curve: &LearningCurve) -> f64 {
        let epoch = curve.n_epochs();
        let gain = |trial: &Trial| Some(trial.value()? - value_at(trial, epoch)?);
        let mut gains: Vec<f64> = self.told[..place].iter().filter_map(gain).collect();
        if gains.is_empty() {
            return curve.last();
        }
        gains.sort_by(f64::total_cmp);
        let n = gains.len();
        let median = 0.5 * gains[(n - 1) / 2] + 0.5 * gains[n / 2];
        let end = curve.last() + self.direction.to_maximize(median);
        if end.is_finite() { end } else { curve.last() }
    }

    /// Returns the final value that BO-BOS predicts for a stopped trial from the trial's own
    /// reports; `None` if the options disable the prediction or no bounds are known.
    fn predicted_end(
        &self,
        trial: &Trial,
        curve: &LearningCurve,
        bos: &BosSettings,
    ) -> Result<Option<f64>, StudyError> {
        if !bos.options.expected_end {
            return Ok(None);
        }
        let first = curve.until(bos.first_epochs().min(curve.n_epochs()));
        let Some(bounds) = self.bounds_for(&first, self.n_before(trial)) else {
            return Ok(None);
        };
        Ok(expected_end(curve, bounds, bos.n_epochs)?)
    }

    /// Returns the bounds of a trial's values from the definition.
    ///
    /// If the definition has no bounds, they are derived from the range of the values reported by
    /// the first `n_told` trials and by this trial in its first epochs. The range is extended by
    /// half its width on the better side and by a tenth on the worse side. Returns `None` while all
    /// values are equal or their range is not finite.
    pub(super) fn bounds_for(&self, first: &LearningCurve, n_told: usize) -> Option<ValueBounds> {
        let direction = self.direction;
        if let Some(given) = self.bos.and_then(|settings| settings.options.bounds) {
            let [a, b] = <[f64; 2]>::from(given).map(|value| direction.to_maximize(value));
            return Some(ValueBounds { low: a.min(b), high: a.max(b) });
        }
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut see = |value: f64| {
            low = low.min(value);
            high = high.max(value);
        };
        first.values().iter().copied().for_each(&mut see);
        for trial in &self.told[..n_told] {
            if !matches!(trial.told(), Some(Told::Failed { .. })) {
                trial.value().map(|v| direction.to_maximize(v)).map(&mut see);
                let reports = trial.reports.iter();
                reports.for_each(|report| see(direction.to_maximize(report.value)));
            }
        }
        let range = high - low;
        (range.is_finite() && range > 0.0)
            .then_some(ValueBounds { low: low - 0.1 * range, high: high + 0.5 * range })
    }
}

/// Returns the value of a trial's curve after an epoch: linearly interpolated between reports, and
/// constant before the first report. Returns `None` if the trial did not reach the epoch.
fn value_at(trial: &Trial, epoch: usize) -> Option<f64> {
    let reports = &trial.reports;
    let next = reports.partition_point(|report| (report.epoch as usize) < epoch);
    let after = reports.get(next)?;
    let Some(before) = next.checked_sub(1).map(|index| &reports[index]) else {
        return Some(after.value);
    };
    #[expect(clippy::cast_precision_loss, reason = "numbers of epochs are far below 2^53")]
    let passed = epoch as f64 - f64::from(before.epoch);
    let share = passed / f64::from(after.epoch - before.epoch);
    Some((1.0 - share) * before.value + share * after.value)
}

/// Returns a trial's reports as a curve to be maximized.
pub(super) fn curve(trial: &Trial, direction: Direction) -> Option<LearningCurve> {
    let reports: Vec<(u32, f64)> = trial
        .reports
        .iter()
        .map(|report| (report.epoch, direction.to_maximize(report.value)))
        .collect();
    LearningCurve::from_reports(&reports)
}

#[cfg(test)]
mod tests {
    use fedbo_space::ParameterSpec;
    use fedbo_storage::TellAuthority;
    use fedbo_strategies::StoppingRuleSpec;
    use fedbo_strategies::early_stopping::{BoBosOptions, MedianOptions};

    use super::*;
    use crate::{EarlyStoppingSpec, Study};

    /// Accuracies rise to 0.8, and the trial is stopped after 12 of 30 epochs. A trial has an
    /// expected final value only if BO-BOS stopped it and the option is set. The value is between
    /// the last value and the best possible one.
    #[test]
    fn what_bo_bos_stopped_may_have_an_expected_end() {
        let ends = |early_stopping: EarlyStoppingSpec| {
            let definition = Definition::new("training")
                .parameter("x", ParameterSpec::float(0.0, 1.0))
                .early_stopping(early_stopping);
            let study = Study::in_memory(&definition).unwrap();
            let value = |epoch: u32| 0.8 - 0.6 * (-f64::from(epoch) / 6.0).exp();
            for (number, last) in [(0, 30), (1, 12)] {
                assert_eq!(study.ask().unwrap().number, number);
                for epoch in 1..=last {
                    study.report(number, epoch, value(epoch)).unwrap();
                }
                let told = match last {
                    30 => Told::Value(value(30)),
                    _ => Told::Stopped {
                        epoch: last,
                        value: value(last),
                        because: "a test".to_owned(),
                    },
                };
                study.tell_as(TellAuthority::Hand, number, &told).unwrap();
            }
            let mut told_trials = ToldTrials::new(&definition).unwrap();
            told_trials.absorb(&study.trials().unwrap());
            let observations = told_trials.observations(0..told_trials.len()).unwrap();
            let [whole, stopped] = observations.as_slice() else {
                panic!("two trials were told");
            };
            assert_eq!((whole.complete, whole.expected_end), (Some(value(30)), None));
            assert_eq!(stopped.complete, None);
            (value(12), stopped.expected_end)
        };
        let told = BoBosOptions { expected_end: true, ..BoBosOptions::for_epochs(30) };
        let (last, end) = ends(EarlyStoppingSpec::new(StoppingRuleSpec::BoBos(told), 30));
        let end = end.unwrap();
        assert!(last < end && end < 1.2, "{end}");
        assert_eq!(ends(EarlyStoppingSpec::bo_bos(30)).1, None);
    }

    /// Three complete trials gain 0.25, 2 and 0.5 from epoch 3 to the end. In one of them, epoch 3
    /// is between two reports.
    ///
    /// A trial stopped at epoch 3 with 0.375 is expected to gain 0.5 by the end, regardless of
    /// later trials. The first stopped trial has only its own last value. When minimizing, a
    /// decrease is a gain.
    #[test]
    fn what_curves_stopped_ends_as_the_median_of_complete_trials_would() {
        let nobody = MedianOptions { warmup_epochs: 0, trials_min: 1_000 };
        let spec = EarlyStoppingSpec::new(StoppingRuleSpec::Median(nobody), 9);
        for sign in [1.0, -1.0] {
            let mut definition = Definition::new("training")
                .parameter("x", ParameterSpec::float(0.0, 1.0))
                .early_stopping(spec);
            if sign < 0.0 {
                definition = definition.minimize();
            }
            let study = Study::in_memory(&definition).unwrap();
            let complete = |reports: &[(u32, f64)]| {
                let number = study.ask().unwrap().number;
                for (epoch, value) in reports {
                    study.report(number, *epoch, sign * value).unwrap();
                }
                let end = Told::Value(sign * reports[reports.len() - 1].1);
                study.tell_as(TellAuthority::Hand, number, &end).unwrap();
            };
            let stopped = || {
                let number = study.ask().unwrap().number;
                study.report(number, 3, sign * 0.375).unwrap();
                let (epoch, value, because) = (3, sign * 0.375, "a test".to_owned());
                let told = Told::Stopped { epoch, value, because };
                study.tell_as(TellAuthority::Hand, number, &told).unwrap();
            };
            stopped();
            complete(&[(3, 0.5), (9, 0.75)]);
            complete(&[(1, 0.0), (5, 2.0), (9, 3.0)]); // 1 after epoch 3
            complete(&[(3, 0.25), (9, 0.75)]);
            complete(&[(2, 7.0)]); // did not reach epoch 3
            stopped();
            complete(&[(3, 0.0), (9, 90.0)]);
            let mut told_trials = ToldTrials::new(&definition).unwrap();
            told_trials.absorb(&study.trials().unwrap());
            let observations = told_trials.observations(0..told_trials.len()).unwrap();
            let ends: Vec<Option<f64>> = observations.iter().map(|o| o.expected_end).collect();
            let expected = [Some(0.375), None, None, None, None, Some(0.875), None];
            assert_eq!(ends, expected, "{sign}");
        }
    }
}
