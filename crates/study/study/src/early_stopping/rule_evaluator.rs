//! The curves of a study's trials, and what a rule makes of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fedbo_space::Direction;
use fedbo_storage::{Report, ReportOutcome, StorageError, TellAuthority, Told, Trial, TrialState};
use fedbo_strategies::early_stopping::{
    BosRule, StoppingMethod, StoppingRule, TrainedTrial, Training, Verdict,
};

use super::bo_bos::BosEvaluator;
use super::told_trials::curve;
use super::{EarlyStoppingError, EarlyStoppingSpec};
use crate::{Definition, Study, StudyError};

/// The judge of a study's trials, up to a place in the order of telling. Trials that have ended do not change, so they
/// are read once; of those that train, only what they have reported since is read.
pub(crate) struct RuleEvaluator {
    kind: Kind,
    n_told: u64,
    /// Trials that had not ended when it looked last, by number.
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
        Ok(Self { kind, n_told: 0, open: BTreeMap::new() })
    }

    /// Takes in what was told and reported since it looked last.
    fn look(&mut self, study: &Study) -> Result<(), StudyError> {
        let seen = self.open.iter();
        let from_epochs = seen
            .filter_map(|(number, trial)| Some((*number, trial.last_report()?.epoch)))
            .collect();
        let mut snapshot = study.snapshot_from(self.n_told, &from_epochs)?;
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

    /// Takes in the trials that were told next, in the order of telling.
    fn absorb(&mut self, told: &[Trial], direction: Direction) {
        self.n_told += told.len() as u64;
        match &mut self.kind {
            Kind::Curves(curves) => curves.absorb(told, direction),
            Kind::BoBos(judge) => judge.absorb(told),
        }
    }

    /// The other trials as a rule sees them that looks at their curves.
    fn others(&self, number: u64, direction: Direction) -> Vec<TrainedTrial> {
        match &self.kind {
            Kind::Curves(curves) => curves.others(number, self.open.values(), direction),
            Kind::BoBos(_) => Vec::new(),
        }
    }

    /// Judges whether an open trial goes on after its last report.
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

/// A rule that looks at curves alone, and the curves of the trials that have ended.
struct Curves {
    rule: Box<dyn StoppingRule>,
    ended: Vec<TrainedTrial>,
}

impl Curves {
    /// A trial that failed says nothing of others.
    fn absorb(&mut self, told: &[Trial], direction: Direction) {
        self.ended.extend(told.iter().filter_map(|trial| trained(trial, direction)));
    }

    /// All trials but this one, in the order of asking.
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

    /// Judges whether an open trial goes on after its last report. The rule is asked at this epoch alone: at epochs
    /// between this report and the one before it nothing was measured.
    fn judge(&self, trial: &Trial, others: &[TrainedTrial], direction: Direction) -> Verdict {
        let Some(judged) = trained(trial, direction) else {
            return Verdict::Continue;
        };
        let before = trial.reports.iter().rev().nth(1);
        let before = before.map_or(0, |report| report.epoch as usize);
        self.rule.judge_since(before, &judged, others)
    }
}

/// The state that the worker of a trial keeps of it and of the others, so that not every report reads all earlier ones
/// again.
#[derive(Default)]
pub(crate) struct JudgeState {
    /// The trial with all its reports.
    trial: Option<Trial>,
    /// The other trials when they were looked at last.
    others: Vec<TrainedTrial>,
    looked_at: Option<Instant>,
    /// Reports since then.
    n_since: usize,
}

impl JudgeState {
    /// A trial of n reports looks at the others after every n/64 of them: so all looks of N reports together copy about 64 N.
    const SHARE: usize = 64;
    /// But it looks again at least after so long.
    const OUTDATED: Duration = Duration::from_secs(1);

    fn is_outdated(&self) -> bool {
        let n_reports = self.trial.as_ref().map_or(0, |trial| trial.reports.len());
        let age = self.looked_at.map(|at| at.elapsed());
        self.n_since >= n_reports / Self::SHARE || age.is_none_or(|age| age >= Self::OUTDATED)
    }

    /// Takes in a report that was stored.
    fn extend(&mut self, report: Report, reporting: ReportOutcome) {
        if let (Some(trial), ReportOutcome::New) = (&mut self.trial, reporting) {
            trial.reports.push(report);
        }
        self.n_since += 1;
    }

    /// Takes over what the judge has seen of the trial and of the others.
    fn look(&mut self, judge: &RuleEvaluator, number: u64, direction: Direction) {
        self.others = judge.others(number, direction);
        self.trial = judge.open.get(&number).cloned();
        self.looked_at = Some(Instant::now());
        self.n_since = 0;
    }
}

/// Puts the reports that were seen of a trial before those that were read from the last seen one on. `false` if the trial was begun
/// again since, so that they are not those of one attempt.
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

/// A trial as a rule sees it: its curve is to be maximized. `None` if it has reported nothing, waits, or failed.
fn trained(trial: &Trial, direction: Direction) -> Option<TrainedTrial> {
    let training = match &trial.state {
        TrialState::Running(_) => Training::Running,
        TrialState::Told(Told::Value(_) | Told::Numbers(_)) => Training::Complete,
        TrialState::Told(Told::Stopped { .. }) => Training::Stopped,
        TrialState::Told(Told::Failed { .. }) | TrialState::Waiting => return None,
    };
    Some(TrainedTrial { number: trial.number, curve: curve(trial, direction)?, training })
}

impl Study {
    /// The rule by which BO-BOS judges a trial, or judged it when it trained; `None` if the study has another rule, or the trial
    /// has none: it is an initial one, has not reported its first epochs, or can not be judged.
    ///
    /// # Errors
    /// If there is no such trial, or the storage or the model fails.
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

    /// Keeps what a trial that is held by hand reports after an epoch of its training, and says whether it goes on. If not, it
    /// has been told as stopped.
    ///
    /// # Errors
    /// As for [`Study::report_as`].
    pub fn report(
        &self,
        number: u64,
        epoch: u32,
        value: f64,
    ) -> Result<Verdict<String>, StudyError> {
        self.report_as(TellAuthority::Hand, number, epoch, value)
    }

    /// Keeps what a trial reports after an epoch of its training, and says whether it goes on. If not, it has been told as
    /// stopped, as durably as the storage makes it; further reports get the same answer. After the last epoch every trial goes
    /// on: its training is complete. Reporting the same again is no mistake.
    ///
    /// # Errors
    /// If the value is not finite, the study has no rule, the epoch is none of a training or not above the last one, the trial is
    /// somebody else's or has ended in another way, or the storage fails.
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

    /// [`Study::report_as`] by a worker that has followed the trial since it was begun.
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

    /// Returns the verdict by which a trial that has ended was stopped; `error` if it was not stopped.
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
                judge.look(self)?;
                course.look(judge, number, direction);
            }
            let trial = course.trial.as_ref();
            let Some((trial, last)) = trial.and_then(|trial| Some((trial, trial.last_report()?)))
            else {
                // It was taken over or told since: who reports next hears of it.
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
