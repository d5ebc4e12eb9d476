//! The tellings of a study whose trials report as they train, as its model sees them.

use fedbo_space::{Direction, Space};
use fedbo_storage::{Told, Trial};
use fedbo_strategies::Source;
use fedbo_strategies::early_stopping::{
    BosSettings, LearningCurve, TrainedObservation, ValueBounds, expected_end,
};

use super::EarlyStoppingSpec;
use crate::{Definition, StudyError};

/// The trials that were told, in that order.
pub(crate) struct ToldTrials {
    space: Space,
    direction: Direction,
    told: Vec<Trial>,
    /// The settings of BO-BOS, where it is the rule: a trial that it stopped may stand in the model with its expected end as well.
    bos: Option<BosSettings>,
}

impl ToldTrials {
    /// Nothing was told yet.
    pub(crate) fn new(definition: &Definition) -> Result<Self, StudyError> {
        let spec = definition.early_stopping.as_ref();
        Ok(Self {
            space: definition.space()?,
            direction: definition.direction,
            told: Vec::new(),
            bos: spec.and_then(EarlyStoppingSpec::solved),
        })
    }

    /// Takes in the trials that were told next, in the order of telling.
    pub(crate) fn absorb(&mut self, told: &[Trial]) {
        self.told.extend_from_slice(told);
    }

    pub(crate) fn len(&self) -> usize {
        self.told.len()
    }

    /// Returns the number of tellings before a trial began, by the storage's clock.
    pub(super) fn n_before(&self, trial: &Trial) -> usize {
        let began = trial.started_at_ms.unwrap_or(i64::MAX);
        let before = |told: &&Trial| told.told_at_ms.is_some_and(|at| at <= began);
        self.told.iter().take_while(before).count()
    }

    /// Returns the observations that the model learns from the tellings with these places.
    pub(crate) fn observations(
        &self,
        places: std::ops::Range<usize>,
    ) -> Result<Vec<TrainedObservation>, StudyError> {
        let trials = self.told[places].iter();
        trials.map(|trial| self.observation(trial)).collect()
    }

    fn observation(&self, trial: &Trial) -> Result<TrainedObservation, StudyError> {
        let told = trial.told();
        let curve = match told {
            Some(Told::Failed { .. }) => None,
            _ => curve(trial, self.direction),
        };
        let expected_end = match (told, &curve) {
            (Some(Told::Stopped { .. }), Some(curve)) => self.expected_end(trial, curve)?,
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

    /// Returns the final value that is expected of a stopped trial, seen from its own reports; `None` unless BO-BOS is to tell it.
    fn expected_end(
        &self,
        trial: &Trial,
        curve: &LearningCurve,
    ) -> Result<Option<f64>, StudyError> {
        let Some(bos) = self.bos.as_ref().filter(|bos| bos.options.expected_end) else {
            return Ok(None);
        };
        let first = curve.until(bos.first_epochs().min(curve.n_epochs()));
        let Some(bounds) = self.bounds_for(&first, self.n_before(trial)) else {
            return Ok(None);
        };
        Ok(expected_end(curve, bounds, bos.n_epochs)?)
    }

    /// Returns the bounds of a trial's values, as the definition gives them. Without them: the range of what the first
    /// `n_told` trials reported, and this one in its first epochs, with half as much again on the better side and a
    /// tenth on the worse. `None` while all values are equal.
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

/// Returns the reports of a trial as a curve, to be maximized.
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
    use fedbo_strategies::early_stopping::BoBosOptions;

    use super::*;
    use crate::{EarlyStoppingSpec, Study};

    /// Accuracies that rise to 0.8 and were stopped after 12 of 30 epochs: only what BO-BOS stopped has an expected end, between the
    /// last value and the best possible one, and only if it is asked for.
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
            let mut tellings = ToldTrials::new(&definition).unwrap();
            tellings.absorb(&study.trials().unwrap());
            let observations = tellings.observations(0..tellings.len()).unwrap();
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
        assert_eq!(ends(EarlyStoppingSpec::median(30)).1, None);
    }
}
