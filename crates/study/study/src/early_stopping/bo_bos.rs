//! BO-BOS in a study: solves a stopping rule for each trial from the trials that finished before it
//! started.

use std::collections::HashMap;

use fedbo_space::Space;
use fedbo_storage::{Report, Trial};
use fedbo_strategies::Domain;
use fedbo_strategies::early_stopping::{
    BoBos, BosRule, BosSettings, EpochGpUcbSettings, StopReason, Verdict,
};
use fedbo_streams::Seed;

use super::told_trials::{ToldTrials, curve};
use crate::{Definition, StudyError};

/// The stopping rules of a study's trials.
///
/// A trial's rule is a function of the definition, the trial's first reports, and the trials that
/// finished before it started, by the storage's clock. The rule is therefore the same in all
/// processes and after an interruption.
pub(crate) struct BosEvaluator {
    definition: Definition,
    space: Space,
    settings: BosSettings,
    told_trials: ToldTrials,
    /// The model, and the number of finished trials that it is conditioned on.
    model: Option<(usize, BoBos)>,
    /// Rules by trial number and attempt.
    rules: HashMap<(u64, u32), Option<BosRule>>,
}

impl BosEvaluator {
    pub(super) fn new(definition: &Definition, settings: BosSettings) -> Result<Self, StudyError> {
        Ok(Self {
            space: definition.space()?,
            definition: definition.clone(),
            settings,
            told_trials: ToldTrials::new(definition)?,
            model: None,
            rules: HashMap::new(),
        })
    }

    /// Adds the next finished trials, in completion order.
    pub(super) fn absorb(&mut self, told: &[Trial]) {
        for trial in told {
            self.rules.retain(|(number, _), _| *number != trial.number);
        }
        self.told_trials.absorb(told);
    }

    /// Decides whether an open trial continues after its last report.
    pub(super) fn judge(&mut self, trial: &Trial) -> Result<Verdict, StudyError> {
        let direction = self.definition.direction;
        let Some(curve) = curve(trial, direction) else {
            return Ok(Verdict::Continue);
        };
        // Initial trials are always trained to the end, as in the thesis, because other trials are
        // compared with them.
        if trial.origin() == "initial" || curve.n_epochs() <= self.settings.first_epochs() {
            return Ok(Verdict::Continue);
        }
        let Some(rule) = self.rule(trial)? else {
            return Ok(Verdict::Continue);
        };
        let answer = rule.answer(&curve).filter(|answer| answer.stops);
        Ok(answer.map_or(Verdict::Continue, |answer| Verdict::Stop {
            because: StopReason::UnlikelyToImprove {
                probability: answer.p_better,
                incumbent: rule.incumbent(),
            },
        }))
    }

    /// Returns the rule of a trial that has reported each of its first epochs; `None` if the trial
    /// has no rule and is trained to the end.
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
        if !reports_first_epochs(&trial.reports, self.settings.first_epochs()) {
            return Ok(None);
        }
        let Some(curve) = curve(trial, direction) else {
            return Ok(None);
        };
        let first = curve.until(self.settings.first_epochs());
        let n_told = self.told_trials.n_before(trial);
        let Some(bounds) = self.told_trials.bounds_for(&first, n_told) else {
            return Ok(None);
        };
        let unit = self.space.encode(&trial.point)?;
        let n_initial = self.definition.n_initial as u64;
        let t = trial.number.saturating_sub(n_initial) + 1;
        let mut stream = Seed::new(self.definition.seed).stream(
            fedbo_strategies::EARLY_STOPPING,
            trial.number,
            0,
        );
        let model = self.modelled(n_told)?;
        Ok(model.rule_within(bounds, &unit, &first, t, &mut stream)?)
    }

    /// Returns the model after the first `n_told` finished trials.
    fn modelled(&mut self, n_told: usize) -> Result<&BoBos, StudyError> {
        let (mut n_known, mut model) = match self.model.take() {
            Some((n_known, model)) if n_known <= n_told => (n_known, model),
            _ => (0, self.empty()?),
        };
        let observed = self.told_trials.observations(n_known..n_told)?;
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

/// Returns true if a trial has reported each of its first N₀ epochs.
///
/// The curve's process is fitted to these epochs. If some were missing, the interpolation
/// between reports, or the constant before the first one, would look like a converged curve.
pub(super) fn reports_first_epochs(reports: &[Report], first_epochs: usize) -> bool {
    let epochs = reports.iter().map(|report| report.epoch as usize);
    epochs.take(first_epochs).eq(1..=first_epochs)
}
