//! BO-BOS in a study: the rule of each trial, solved from what was told before the trial began.

use std::collections::HashMap;

use fedbo_algorithms::early_stopping::{
    BoBos, BosAnswer, BosRule, BosSettings, EpochGpUcbSettings, LearningCurve, TrainedObservation,
    ValueBounds, Verdict, WrongStopLoss,
};
use fedbo_algorithms::{Domain, Source};
use fedbo_space::{Direction, Space};
use fedbo_storage::{Report, Told, Trial};
use fedbo_streams::{Purpose, Seed};

use super::{EarlyStoppingSpec, StoppingRuleSpec};
use crate::{Definition, StudyError};

/// How BO-BOS is set in a study; `None` if another rule is.
pub(crate) fn settings(spec: &EarlyStoppingSpec) -> Option<BosSettings> {
    let StoppingRuleSpec::BoBos {
        bounds,
        first_epochs,
        stop_std_ratio,
        wrong_stop_loss,
        wrong_stop_growth,
        wrong_continue_loss,
        epoch_cost,
    } = spec.rule
    else {
        return None;
    };
    let base = BosSettings::for_epochs(spec.epochs as usize);
    Some(BosSettings {
        // As they stand there, so that they are checked; the rule of a trial is solved with those of values to be maximized.
        bounds: bounds.map_or(base.bounds, |[low, high]| ValueBounds { low, high }),
        first_epochs: first_epochs as usize,
        stop_std_ratio,
        wrong_stop_loss: WrongStopLoss {
            initial: wrong_stop_loss,
            growth: wrong_stop_growth,
        },
        wrong_continue_loss,
        epoch_cost,
        ..base
    })
}

/// A trial as [`EpochGpUcb`](fedbo_algorithms::early_stopping::EpochGpUcb) sees it.
pub(crate) fn observation(
    trial: &Trial,
    space: &Space,
    direction: Direction,
) -> Result<TrainedObservation, StudyError> {
    Ok(TrainedObservation {
        unit: space.encode(&trial.point)?,
        curve: match trial.told() {
            Some(Told::Failed { .. }) => None,
            _ => curve(trial, direction),
        },
        complete: trial.value().map(|value| direction.to_maximize(value)),
        source: match trial.source.as_str() {
            "initial" => Source::Initial,
            _ => Source::Own,
        },
    })
}

/// What it has reported, to be maximized.
pub(super) fn curve(trial: &Trial, direction: Direction) -> Option<LearningCurve> {
    let reports: Vec<(u32, f64)> = trial
        .reports
        .iter()
        .map(|report| (report.epoch, direction.to_maximize(report.value)))
        .collect();
    LearningCurve::from_reports(&reports)
}

/// The rules of a study's trials.
///
/// The rule of a trial is a function of the definition, of the trial's first reports and of what was told before the trial began, by
/// the storage's clock: so it is the same for all processes, and after an interruption.
pub(crate) struct BosJudge {
    definition: Definition,
    space: Space,
    settings: BosSettings,
    bounds: Option<[f64; 2]>,
    /// Trials that were told, in that order.
    told: Vec<Trial>,
    /// A model of the first `n_modelled` of them.
    model: Option<(usize, BoBos)>,
    /// Rules by trial and attempt.
    rules: HashMap<(u64, u32), Option<BosRule>>,
}

impl BosJudge {
    pub(super) fn new(definition: &Definition, settings: BosSettings) -> Result<Self, StudyError> {
        let bounds = match definition.early_stopping.map(|spec| spec.rule) {
            Some(StoppingRuleSpec::BoBos { bounds, .. }) => bounds,
            _ => None,
        };
        Ok(Self {
            space: definition.space()?,
            definition: definition.clone(),
            settings,
            bounds,
            told: Vec::new(),
            model: None,
            rules: HashMap::new(),
        })
    }

    /// Takes in the trials that were told next, in the order of telling.
    pub(super) fn absorb(&mut self, told: &[Trial]) {
        for trial in told {
            self.rules.retain(|(number, _), _| *number != trial.number);
        }
        self.told.extend_from_slice(told);
    }

    /// Whether an open trial goes on after its last report.
    pub(super) fn judge(&mut self, trial: &Trial) -> Result<Verdict, StudyError> {
        let direction = self.definition.direction;
        let Some(curve) = curve(trial, direction) else {
            return Ok(Verdict::Continue);
        };
        // An initial trial is trained to the end, as in the thesis: it is what others are measured by.
        if trial.source == "initial" || curve.n_epochs() <= self.settings.first_epochs {
            return Ok(Verdict::Continue);
        }
        let before = trial.reports.iter().rev().nth(1);
        let before = before.map_or(0, |report| report.epoch as usize);
        let Some(rule) = self.rule(trial)? else {
            return Ok(Verdict::Continue);
        };
        // Epochs between two reports lie on a line, and are looked at too.
        for epoch in before + 1..=curve.n_epochs() {
            let answer = rule.answer(&curve.until(epoch));
            if let Some(answer) = answer.filter(|answer| answer.stops) {
                return Ok(Verdict::Stop {
                    because: because(&answer, direction.to_maximize(rule.incumbent())),
                });
            }
        }
        Ok(Verdict::Continue)
    }

    /// The rule of a trial that has reported each of its first epochs; `None` if it has none, and is trained to the end.
    pub(super) fn rule(&mut self, trial: &Trial) -> Result<Option<&BosRule>, StudyError> {
        let key = (trial.number, trial.attempts);
        if !self.rules.contains_key(&key) {
            let rule = self.solve(trial)?;
            self.rules.insert(key, rule);
        }
        Ok(self.rules.get(&key).and_then(Option::as_ref))
    }

    fn solve(&mut self, trial: &Trial) -> Result<Option<BosRule>, StudyError> {
        let direction = self.definition.direction;
        if !reports_first_epochs(&trial.reports, self.settings.first_epochs) {
            return Ok(None);
        }
        let Some(curve) = curve(trial, direction) else {
            return Ok(None);
        };
        let first = curve.until(self.settings.first_epochs);
        let began = trial.started_at_ms.unwrap_or(i64::MAX);
        let n_told = self
            .told
            .iter()
            .take_while(|told| told.told_at_ms.is_some_and(|at| at <= began))
            .count();
        let Some(bounds) = self.bounds_for(&first, n_told) else {
            return Ok(None);
        };
        let unit = self.space.encode(&trial.point)?;
        let n_initial = self.definition.n_initial as u64;
        let t = trial.number.saturating_sub(n_initial) + 1;
        let mut stream =
            Seed::new(self.definition.seed).stream(Purpose::EarlyStopping, trial.number, 0);
        let model = self.modelled(n_told)?;
        Ok(model.rule_within(bounds, &unit, &first, t, &mut stream)?)
    }

    /// What values can be, as the definition says. If it does not: what trials before this one reported, and this one in its first
    /// epochs, with half as much again on the better side and a tenth on the worse. `None` while all are equal.
    fn bounds_for(&self, first: &LearningCurve, n_told: usize) -> Option<ValueBounds> {
        let direction = self.definition.direction;
        if let Some(given) = self.bounds {
            let [a, b] = given.map(|value| direction.to_maximize(value));
            return Some(ValueBounds {
                low: a.min(b),
                high: a.max(b),
            });
        }
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut see = |value: f64| {
            low = low.min(value);
            high = high.max(value);
        };
        first.values().iter().copied().for_each(&mut see);
        for trial in &self.told[..n_told] {
            if !matches!(trial.told(), Some(Told::Failed { .. })) {
                trial
                    .value()
                    .map(|v| direction.to_maximize(v))
                    .map(&mut see);
                let reports = trial.reports.iter();
                reports.for_each(|report| see(direction.to_maximize(report.value)));
            }
        }
        let range = high - low;
        (range.is_finite() && range > 0.0).then_some(ValueBounds {
            low: low - 0.1 * range,
            high: high + 0.5 * range,
        })
    }

    /// The model after the first `n_told` tellings.
    fn modelled(&mut self, n_told: usize) -> Result<&BoBos, StudyError> {
        let direction = self.definition.direction;
        let (mut n_known, mut model) = match self.model.take() {
            Some((n_known, model)) if n_known <= n_told => (n_known, model),
            _ => (0, self.empty()?),
        };
        let observed = self.told[n_known..n_told]
            .iter()
            .map(|trial| observation(trial, &self.space, direction))
            .collect::<Result<Vec<_>, _>>()?;
        if !observed.is_empty() {
            model.tell(&observed)?;
            n_known = n_told;
        }
        Ok(&self.model.insert((n_known, model)).1)
    }

    fn empty(&self) -> Result<BoBos, StudyError> {
        let strategy = EpochGpUcbSettings::for_study(
            &self.space,
            self.definition.noisy,
            self.settings.n_epochs,
        );
        let seed = Seed::new(self.definition.seed);
        let domain = Domain::Space(self.space.clone());
        Ok(BoBos::new(domain, strategy, self.settings, seed)?)
    }
}

/// Whether a trial has reported each of its first N₀ epochs: the process of its curve is fitted to what was seen there, and lines
/// between fewer reports, or a level before the first one, would pass for a curve that has come to its end.
pub(super) fn reports_first_epochs(reports: &[Report], first_epochs: usize) -> bool {
    let epochs = reports.iter().map(|report| report.epoch as usize);
    epochs.take(first_epochs).eq(1..=first_epochs)
}

/// Why a trial is stopped, in the user's sign.
fn because(answer: &BosAnswer, incumbent: f64) -> String {
    format!(
        "it would end better than {incumbent:.6} with a probability of {:.1} %, too little for what its epochs cost",
        100.0 * answer.p_better
    )
}
