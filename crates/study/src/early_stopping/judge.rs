//! The curves of a study's trials, and what a rule makes of them.

use fedbo_algorithms::early_stopping::{BosRule, StoppingRule, TrainedTrial, Training, Verdict};
use fedbo_space::Direction;
use fedbo_storage::{Report, StorageError, Teller, Told, Trial, TrialState};

use super::bo_bos::{BosJudge, curve, settings};
use super::{EarlyStoppingError, EarlyStoppingSpec};
use crate::{Definition, Study, StudyError};

/// What judges a study's trials, up to a place in the order of telling. Trials that have ended do not change, so they are read once.
pub(crate) struct Judge {
    kind: Kind,
    n_told: u64,
}

enum Kind {
    Curves(Curves),
    BoBos(Box<BosJudge>),
}

impl Judge {
    fn new(definition: &Definition, spec: &EarlyStoppingSpec) -> Result<Self, StudyError> {
        let kind = match (spec.curve_rule()?, settings(spec)) {
            (None, Some(settings)) => Kind::BoBos(Box::new(BosJudge::new(definition, settings)?)),
            (Some(rule), _) => Kind::Curves(Curves {
                rule,
                ended: Vec::new(),
            }),
            (None, None) => unreachable!("a rule is BO-BOS or looks at curves alone"),
        };
        Ok(Self { kind, n_told: 0 })
    }

    /// Takes in the trials that were told next, in the order of telling.
    fn absorb(&mut self, told: &[Trial], direction: Direction) {
        self.n_told += told.len() as u64;
        match &mut self.kind {
            Kind::Curves(curves) => curves.absorb(told, direction),
            Kind::BoBos(judge) => judge.absorb(told),
        }
    }

    /// Whether an open trial goes on after its last report.
    fn judge(
        &mut self,
        trial: &Trial,
        open: &[Trial],
        direction: Direction,
    ) -> Result<Verdict, StudyError> {
        match &mut self.kind {
            Kind::Curves(curves) => Ok(curves.judge(trial, open, direction)),
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
        self.ended
            .extend(told.iter().filter_map(|trial| trained(trial, direction)));
    }

    /// Whether an open trial goes on after its last report: the rule is asked at every epoch since the one before, as epochs
    /// between two reports lie on a line.
    fn judge(&self, trial: &Trial, open: &[Trial], direction: Direction) -> Verdict {
        let Some(mut judged) = trained(trial, direction) else {
            return Verdict::Continue;
        };
        let beside = open.iter().filter(|other| other.number != trial.number);
        let mut others: Vec<TrainedTrial> = self.ended.clone();
        others.extend(beside.filter_map(|other| trained(other, direction)));
        others.sort_by_key(|other| other.number);
        let before = trial.reports.iter().rev().nth(1);
        let first = before.map_or(1, |report| report.epoch as usize + 1);
        let curve = judged.curve.clone();
        for epoch in first..=curve.n_epochs() {
            judged.curve = curve.until(epoch);
            let verdict = self.rule.judge(&judged, &others);
            if let Verdict::Stop { because } = verdict {
                return Verdict::Stop {
                    because: in_user_sign(because, direction),
                };
            }
        }
        Verdict::Continue
    }
}

/// What a rule says of values that it maximizes.
fn in_user_sign(because: String, direction: Direction) -> String {
    match direction {
        Direction::Maximize => because,
        Direction::Minimize => because + " (values are negated, as the study minimizes)",
    }
}

/// A trial as a rule sees it: its curve is to be maximized. `None` if it has reported nothing, waits, or failed.
fn trained(trial: &Trial, direction: Direction) -> Option<TrainedTrial> {
    let training = match &trial.state {
        TrialState::Running(_) => Training::Running,
        TrialState::Told(Told::Value(_)) => Training::Complete,
        TrialState::Told(Told::Stopped { .. }) => Training::Stopped,
        TrialState::Told(Told::Failed { .. }) | TrialState::Waiting => return None,
    };
    Some(TrainedTrial {
        number: trial.number,
        curve: curve(trial, direction)?,
        training,
    })
}

impl Study {
    /// The rule by which BO-BOS judges a trial, or judged it when it trained; `None` if the study has another rule, or the trial
    /// has none: it is an initial one, has not reported its first epochs, or can not be judged.
    ///
    /// # Errors
    /// If there is no such trial, or the storage or the model fails.
    pub fn bos_rule(&self, number: u64) -> Result<Option<BosRule>, StudyError> {
        let definition = self.definition();
        let Some(settings) = definition.early_stopping.as_ref().and_then(settings) else {
            return Ok(None);
        };
        let trials = self.trials()?;
        let n_trials = trials.len() as u64;
        let trial = trials.into_iter().find(|trial| trial.number == number);
        let trial = trial.ok_or(StorageError::NoTrial { number, n_trials })?;
        if trial.source == "initial" {
            return Ok(None);
        }
        let mut judge = BosJudge::new(definition, settings)?;
        judge.absorb(&self.snapshot(0)?.told);
        Ok(judge.rule(&trial)?.cloned())
    }

    /// Keeps what a trial that is held by hand reports after an epoch of its training, and says whether it goes on. If not, it
    /// has been told as stopped.
    ///
    /// # Errors
    /// As for [`Study::report_as`].
    pub fn report(&self, number: u64, epoch: u32, value: f64) -> Result<Verdict, StudyError> {
        self.report_as(Teller::Hand, number, epoch, value)
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
        teller: Teller<'_>,
        number: u64,
        epoch: u32,
        value: f64,
    ) -> Result<Verdict, StudyError> {
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
            let error = EarlyStoppingError::Epoch {
                number,
                epoch,
                epochs,
            };
            return Err(error.into());
        }
        match self.keep_report(number, teller, Report { epoch, value }) {
            Err(error @ StorageError::ToldOtherwise { .. }) => self.stopped_before(number, error),
            Err(error) => Err(error.into()),
            Ok(_) => self.judge(teller, number, spec),
        }
    }

    /// Why a trial that has ended was stopped; `error` if it was not.
    fn stopped_before(&self, number: u64, error: StorageError) -> Result<Verdict, StudyError> {
        let trials = self.trials()?;
        let trial = trials.into_iter().find(|trial| trial.number == number);
        match trial.map(|trial| trial.state) {
            Some(TrialState::Told(Told::Stopped { because, .. })) => Ok(Verdict::Stop { because }),
            _ => Err(error.into()),
        }
    }

    fn judge(
        &self,
        teller: Teller<'_>,
        number: u64,
        spec: &EarlyStoppingSpec,
    ) -> Result<Verdict, StudyError> {
        let direction = self.direction();
        let (verdict, last) = {
            let mut slot = self.judges();
            let judge = match &mut *slot {
                Some(judge) => judge,
                slot => slot.insert(Judge::new(self.definition(), spec)?),
            };
            let snapshot = self.snapshot(judge.n_told)?;
            judge.absorb(&snapshot.told, direction);
            let trial = snapshot.open.iter().find(|trial| trial.number == number);
            let Some((trial, last)) = trial.and_then(|trial| Some((trial, trial.last_report()?)))
            else {
                // It was taken over or told since: who reports next hears of it.
                return Ok(Verdict::Continue);
            };
            if last.epoch >= spec.epochs {
                return Ok(Verdict::Continue);
            }
            (judge.judge(trial, &snapshot.open, direction)?, last)
        };
        if let Verdict::Stop { because } = &verdict {
            let told = Told::Stopped {
                epoch: last.epoch,
                value: last.value,
                because: because.clone(),
            };
            self.tell_as(teller, number, &told)?;
        }
        Ok(verdict)
    }
}
