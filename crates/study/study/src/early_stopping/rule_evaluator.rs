//! Learning curves of a study's trials, and their evaluation by a stopping rule.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fedbo_space::Direction;
use fedbo_storage::{
    LastCorrection, Report, ReportOutcome, StorageError, TellAuthority, Told, Trial, TrialState,
};
use fedbo_strategies::early_stopping::{
    BosRule, StoppingMethod, StoppingRule, TrainedTrial, Training, Verdict,
};

use super::bo_bos::BosEvaluator;
use super::told_trials::curve;
use super::{EarlyStoppingError, EarlyStoppingSpec};
use crate::{Definition, Study, StudyError};

/// Evaluates the stopping rule for a study's trials, up to a position in completion order.
///
/// Finished trials are read once, and again after a correction. For open trials, only new reports are
/// read.
pub(crate) struct RuleEvaluator {
    kind: Kind,
    n_told: u64,
    /// The last correction of the finished trials.
    last_correction: Option<LastCorrection>,
    /// Trials that were open at the last update, by number.
    open: BTreeMap<u64, Trial>,
}

enum Kind {
    Curves(Curves),
    BoBos(Box<BosEvaluator>),
}

impl RuleEvaluator {
    fn new(definition: &Definition, spec: &EarlyStoppingSpec) -> Result<Self, StudyError> {
        let kind = match spec.method()? {
            StoppingMethod::Solved(settings) => {
                Kind::BoBos(Box::new(BosEvaluator::new(definition, settings)?))
            }
            StoppingMethod::Curves(rule) => Kind::Curves(Curves { rule, ended: Vec::new() }),
        };
        Ok(Self { kind, n_told: 0, last_correction: None, open: BTreeMap::new() })
    }

    /// Reads the trials and reports that are new since the last update.
    fn look(&mut self, study: &Study, spec: &EarlyStoppingSpec) -> Result<(), StudyError> {
        let seen = self.open.iter();
        let from_epochs = seen
            .filter_map(|(number, trial)| Some((*number, trial.last_report()?.epoch)))
            .collect();
        let mut snapshot = study.snapshot_from(self.n_told, &from_epochs)?;
        if snapshot.last_correction != self.last_correction {
            *self = Self {
                open: std::mem::take(&mut self.open),
                ..Self::new(study.definition(), spec)?
            };
            snapshot = study.snapshot_from(0, &from_epochs)?;
            self.last_correction = snapshot.last_correction;
        }
        let mut seen = std::mem::take(&mut self.open);
        let are_joined = snapshot
            .open
            .iter_mut()
            .all(|trial| seen.remove(&trial.number).is_none_or(|seen| join(seen, trial)));
        if !are_joined {
            snapshot = study.snapshot(self.n_told)?;
        }
        self.absorb(&snapshot.told, study.direction());
        let open = snapshot.open.into_iter();
        self.open = open.map(|trial| (trial.number, trial)).collect();
        Ok(())
    }

    /// Adds the next finished trials, in completion order.
    fn absorb(&mut self, told: &[Trial], direction: Direction) {
        self.n_told += told.len() as u64;
        match &mut self.kind {
            Kind::Curves(curves) => curves.absorb(told, direction),
            Kind::BoBos(judge) => judge.absorb(told),
        }
    }

    /// Returns the other trials, for rules that use their curves.
    fn others(&self, number: u64, direction: Direction) -> Vec<TrainedTrial> {
        match &self.kind {
            Kind::Curves(curves) => curves.others(number, self.open.values(), direction),
            Kind::BoBos(_) => Vec::new(),
        }
    }

    /// Decides whether an open trial continues after its last report.
    fn judge(
        &mut self,
        trial: &Trial,
        others: &[TrainedTrial],
        direction: Direction,
    ) -> Result<Verdict, StudyError> {
        match &mut self.kind {
            Kind::Curves(curves) => Ok(curves.judge(trial, others, direction)),
            Kind::BoBos(judge) => judge.judge(trial),
        }
    }
}

/// A rule that uses only curves, and the curves of the finished trials.
struct Curves {
    rule: Box<dyn StoppingRule>,
    ended: Vec<TrainedTrial>,
}

impl Curves {
    /// Adds finished trials. Failed trials carry no information about others.
    fn absorb(&mut self, told: &[Trial], direction: Direction) {
        self.ended.extend(told.iter().filter_map(|trial| trained(trial, direction)));
    }

    /// Returns all trials except this one, in ask order.
    fn others<'a>(
        &self,
        number: u64,
        open: impl Iterator<Item = &'a Trial>,
        direction: Direction,
    ) -> Vec<TrainedTrial> {
        let beside = open.filter(|other| other.number != number);
        let mut others = self.ended.clone();
        others.extend(beside.filter_map(|other| trained(other, direction)));
        others.sort_by_key(|other| other.number);
        others
    }

    /// Decides whether an open trial continues after its last report.
    ///
    /// The rule is evaluated only at the epoch of this report, since nothing was measured between
    /// this report and the previous one.
    fn judge(&self, trial: &Trial, others: &[TrainedTrial], direction: Direction) -> Verdict {
        let Some(judged) = trained(trial, direction) else {
            return Verdict::Continue;
        };
        let before = trial.reports.iter().rev().nth(1);
        let before = before.map_or(0, |report| report.epoch as usize);
        self.rule.judge_since(before, &judged, others)
    }
}

/// A worker's cache of its own trial and the other trials, so that a new report does not require
/// reading all earlier reports.
#[derive(Default)]
pub(crate) struct JudgeState {
    /// The trial with all its reports.
    trial: Option<Trial>,
    /// The other trials, as of the last update.
    others: Vec<TrainedTrial>,
    looked_at: Option<Instant>,
    /// Number of reports since the last update.
    n_since: usize,
}

impl JudgeState {
    /// A trial with n reports refreshes the other trials every n/64 reports. All refreshes over N
    /// reports then copy about 64 N entries.
    const SHARE: usize = 64;
    /// Maximum age of the cache.
    const OUTDATED: Duration = Duration::from_secs(1);

    fn is_outdated(&self) -> bool {
        let n_reports = self.trial.as_ref().map_or(0, |trial| trial.reports.len());
        let age = self.looked_at.map(|at| at.elapsed());
        self.n_since >= n_reports / Self::SHARE || age.is_none_or(|age| age >= Self::OUTDATED)
    }

    /// Adds a stored report.
    fn extend(&mut self, report: Report, reporting: ReportOutcome) {
        if let (Some(trial), ReportOutcome::New) = (&mut self.trial, reporting) {
            trial.reports.push(report);
        }
        self.n_since += 1;
    }

    /// Updates the cache from the evaluator.
    fn look(&mut self, judge: &RuleEvaluator, number: u64, direction: Direction) {
        self.others = judge.others(number, direction);
        self.trial = judge.open.get(&number).cloned();
        self.looked_at = Some(Instant::now());
        self.n_since = 0;
    }
}

/// Prepends the reports already seen to the newly read ones, which start at the last report seen.
///
/// Returns `false` if the trial was restarted in between, since the reports then belong to
/// different attempts.
fn join(seen: Trial, trial: &mut Trial) -> bool {
    let Some(last) = seen.last_report() else {
        return true;
    };
    let is_same =
        |first: &Report| (first.epoch, first.value.to_bits()) == (last.epoch, last.value.to_bits());
    let attempt = |trial: &Trial| (trial.attempts, trial.started_at_ms);
    if attempt(&seen) != attempt(trial) || !trial.reports.first().is_some_and(is_same) {
        return false;
    }
    let new = std::mem::replace(&mut trial.reports, seen.reports);
    trial.reports.extend(new.into_iter().skip(1));
    true
}

/// Converts a trial to the form that rules use, with a curve to be maximized. Returns `None` if the
/// trial has no reports, is waiting, or failed.
fn trained(trial: &Trial, direction: Direction) -> Option<TrainedTrial> {
    let training = match &trial.state {
        TrialState::Running(_) => Training::Running,
        TrialState::Told(Told::Value(_) | Told::Numbers(_)) => Training::Complete,
        TrialState::Told(Told::Stopped { .. }) => Training::Stopped,
        TrialState::Told(Told::Failed { .. } | Told::Discarded) | TrialState::Waiting => {
            return None;
        }
    };
    Some(TrainedTrial { number: trial.number, curve: curve(trial, direction)?, training })
}

impl Study {
    /// Returns BO-BOS's rule for a trial, even after the trial has ended.
    ///
    /// Returns `None` if the study uses a different rule or if the trial has no rule. A trial has
    /// no rule if it is an initial trial, has not reported all of its first epochs, or cannot be
    /// evaluated.
    ///
    /// # Errors
    /// Fails if the trial does not exist, or if the storage or the model fails.
    pub fn bos_rule(&self, number: u64) -> Result<Option<BosRule>, StudyError> {
        let definition = self.definition();
        let spec = definition.early_stopping.as_ref();
        let Some(settings) = spec.and_then(EarlyStoppingSpec::solved) else {
            return Ok(None);
        };
        let trials = self.trials()?;
        let n_trials = trials.len() as u64;
        let trial = trials.into_iter().find(|trial| trial.number == number);
        let trial = trial.ok_or(StorageError::NoTrial { number, n_trials })?;
        if trial.origin() == "initial" {
            return Ok(None);
        }
        let mut judge = BosEvaluator::new(definition, settings)?;
        judge.absorb(&self.snapshot(0)?.told);
        Ok(judge.rule(&trial)?.cloned())
    }

    /// Stores a report for an epoch of a manually leased trial, and returns whether the trial
    /// continues. If it does not, it has already been recorded as stopped.
    ///
    /// # Errors
    /// Same as [`Study::report_as`].
    pub fn report(
        &self,
        number: u64,
        epoch: u32,
        value: f64,
    ) -> Result<Verdict<String>, StudyError> {
        self.report_as(TellAuthority::Hand, number, epoch, value)
    }

    /// Stores a report for an epoch of a trial's training, and returns whether the trial continues.
    ///
    /// If the trial is stopped, the stop is already stored as durably as the storage allows, and
    /// further reports return the same verdict. After the last epoch, a trial always continues,
    /// since its training is complete. Repeating a report with the same value is a no-op.
    ///
    /// # Errors
    /// Fails if the value is not finite, the study has no rule, the epoch is out of range or not
    /// above the last one, another worker holds the trial, the trial has ended differently, or the
    /// storage fails.
    pub fn report_as(
        &self,
        teller: TellAuthority<'_>,
        number: u64,
        epoch: u32,
        value: f64,
    ) -> Result<Verdict<String>, StudyError> {
        let report = Report { epoch, value };
        self.report_on(&mut JudgeState::default(), teller, number, report)
    }

    /// Same as [`Study::report_as`], for a worker that has followed the trial from its start.
    pub(crate) fn report_on(
        &self,
        course: &mut JudgeState,
        teller: TellAuthority<'_>,
        number: u64,
        report: Report,
    ) -> Result<Verdict<String>, StudyError> {
        let Report { epoch, value } = report;
        let definition = self.definition();
        let Some(spec) = &definition.early_stopping else {
            let name = definition.name.clone();
            return Err(EarlyStoppingError::NoRule { name }.into());
        };
        if !value.is_finite() {
            return Err(StudyError::NotFinite { value });
        }
        let epochs = spec.epochs;
        if !(1..=epochs).contains(&epoch) {
            let error = EarlyStoppingError::Epoch { number, epoch, epochs };
            return Err(error.into());
        }
        match self.keep_report(number, teller, report) {
            Err(error @ StorageError::ToldOtherwise { .. }) => self.stopped_before(number, error),
            Err(error) => Err(error.into()),
            Ok(reporting) => {
                course.extend(report, reporting);
                self.judge(course, teller, number, spec)
            }
        }
    }

    /// Returns the verdict that stopped a trial, or `error` if the trial was not stopped.
    fn stopped_before(
        &self,
        number: u64,
        error: StorageError,
    ) -> Result<Verdict<String>, StudyError> {
        let trials = self.trials()?;
        let trial = trials.into_iter().find(|trial| trial.number == number);
        match trial.map(|trial| trial.state) {
            Some(TrialState::Told(Told::Stopped { because, .. })) => Ok(Verdict::Stop { because }),
            _ => Err(error.into()),
        }
    }

    fn judge(
        &self,
        course: &mut JudgeState,
        teller: TellAuthority<'_>,
        number: u64,
        spec: &EarlyStoppingSpec,
    ) -> Result<Verdict<String>, StudyError> {
        let direction = self.direction();
        let (verdict, last) = {
            let mut slot = self.judges();
            let judge = match &mut *slot {
                Some(judge) => judge,
                slot => slot.insert(RuleEvaluator::new(self.definition(), spec)?),
            };
            if course.is_outdated() {
                judge.look(self, spec)?;
                course.look(judge, number, direction);
            }
            let trial = course.trial.as_ref();
            let Some((trial, last)) = trial.and_then(|trial| Some((trial, trial.last_report()?)))
            else {
                // The trial was taken over or finished in the meantime. The next report will detect
                // this.
                return Ok(Verdict::Continue);
            };
            if last.epoch >= spec.epochs {
                return Ok(Verdict::Continue);
            }
            (judge.judge(trial, &course.others, direction)?, last)
        };
        let verdict = verdict.map(|because| because.tell(direction));
        if let Verdict::Stop { because } = &verdict {
            let told =
                Told::Stopped { epoch: last.epoch, value: last.value, because: because.clone() };
            self.tell_as(teller, number, &told)?;
        }
        Ok(verdict)
    }
}
