//! The study behind the routes. Every call waits for the storage, so it must run on a thread that
//! can block.

use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fedbo_objective::{FailureCounter, FailuresMax, NumberNames};
use fedbo_space::{Direction, Point};
use fedbo_storage::{StorageError, TellAuthority, TellOutcome, Told, Trial, TrialState, Worker};
use fedbo_strategies::StrategyError;
use fedbo_strategies::early_stopping::Verdict;
use fedbo_study::{AskOutcome, Constraint, NamedObjective, Study, StudyError};
use serde::Serialize;
use serde_json::Map;

use super::holders::{Holders, holder};
use super::problem::{Code, Problem};
use fedbo_console as console;
use fedbo_console::text::{self, counted};
use fedbo_documents::space_display::{ShownParameter, parameters};
use fedbo_documents::study_ref::OpenStudy;
use fedbo_documents::trial_record::name_of;
use fedbo_documents::trial_record::{SCHEMA_VERSION, TrialRecord, outcomes};

/// Maximum number of trials per response.
const PAGE: usize = 1000;

/// The study that is served.
pub(super) struct Service {
    study: Study,
    n_trials: u64,
    /// Sequence number of the latest stop at server start. Stops up to this one are ignored.
    known_stops: u64,
    holders: Mutex<Holders>,
    failures: Mutex<FailureCounter>,
}

/// Response to a request for a trial.
pub(super) enum Asked {
    /// A trial to evaluate.
    Trial(Box<Trial>),
    /// The study has all its trials.
    Full { reason: String },
    /// No more trials are started.
    Stopped { reason: String },
    /// Other workers are evaluating the last trials, which may become available again.
    Wait { reason: String },
}

/// The study without its trials.
#[derive(Serialize)]
pub(super) struct StudyDocument {
    schema_version: u32,
    name: String,
    direction: Direction,
    strategy: &'static str,
    parameters: Vec<ShownParameter>,
    /// Number of epochs in a complete training run, if trials are stopped early.
    epochs: Option<u32>,
    trials_wanted: u64,
    trials: Counts,
    best: Option<Best>,
    /// Nondominated feasible trials. Replaces `best` if there are multiple objectives.
    #[serde(skip_serializing_if = "Option::is_none")]
    front: Option<Vec<Best>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    objectives: Vec<NamedObjective>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    constraints: Vec<Constraint>,
}

/// Numbers of trials by state.
#[derive(Default, Serialize)]
struct Counts {
    complete: u64,
    failed: u64,
    stopped: u64,
    running: u64,
    waiting: u64,
}

#[derive(Serialize)]
struct Best {
    number: u64,
    value: Option<f64>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    outcomes: Map<String, serde_json::Value>,
    parameters: Point,
}

impl Service {
    /// Creates the service for an open study, including the thin workers in its storage.
    pub(super) fn new(opened: OpenStudy) -> Result<Self, StudyError> {
        let (n_trials, failures_max) = match &opened.file {
            Some(file) => (file.n_trials, file.failures_max),
            None => (u64::MAX, FailuresMax::default()),
        };
        let study = opened.study;
        let trials = study.trials()?;
        let has_value =
            trials.iter().any(|trial| matches!(trial.told(), Some(told) if !is_failure(told)));
        Ok(Self {
            n_trials,
            known_stops: study.last_stop()?.map_or(0, |stop| stop.seq),
            holders: Mutex::new(Holders::of(&study.open_trials()?)),
            failures: Mutex::new(FailureCounter::new(failures_max, has_value)),
            study,
        })
    }

    /// Returns the number of epochs in a complete training run, if trials are stopped early.
    pub(super) fn epochs(&self) -> Option<u32> {
        self.study.definition().early_stopping.as_ref().map(|spec| spec.epochs)
    }

    /// Returns a worker's next trial. Requests with the same nonce return the same trial.
    ///
    /// If other processes add their trials first, the call retries as long as `continues` returns
    /// true.
    pub(super) fn ask(
        &self,
        name: &str,
        nonce: &str,
        lease: Duration,
        continues: &dyn Fn() -> bool,
    ) -> Result<Asked, Problem> {
        let worker = holder(name, nonce);
        let given = self.holders().given_to(&worker.id);
        if let Some(number) = given {
            return self.given_before(&worker, number, lease);
        }
        if let Some(reason) = self.failing() {
            return Ok(Asked::Stopped { reason });
        }
        let (limit, known) = (Some(self.n_trials), Some(self.known_stops));
        let asked = self.study.ask_unless_stopped(&worker, Some(lease), limit, known, continues);
        match asked {
            Ok(ControlFlow::Continue(AskOutcome::Trial(trial))) => {
                self.holders().give(&worker.id, trial.number);
                tracing::debug!("worker {name} has trial {}", trial.number);
                Ok(Asked::Trial(Box::new(trial)))
            }
            Ok(ControlFlow::Continue(AskOutcome::Full { open })) => {
                let all = counted(self.n_trials, "trial");
                Ok(without_trial(&open, &format!("the study has all its {all}")))
            }
            Ok(ControlFlow::Break(stop)) => Ok(Asked::Stopped {
                reason: format!("stopped by {} at {}", stop.by, text::timestamp(stop.at_ms)),
            }),
            Err(StudyError::Strategy(error @ StrategyError::Exhausted { .. })) => {
                Ok(without_trial(&self.study.open_trials()?, &error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the trial that was leased with this nonce earlier, with a new lease, if the worker
    /// still holds it.
    fn given_before(
        &self,
        worker: &Worker,
        number: u64,
        lease: Duration,
    ) -> Result<Asked, Problem> {
        let held = |open: Vec<Trial>| open.into_iter().find(|trial| trial.number == number);
        let is_ours = |trial: &Trial| matches!(&trial.state, TrialState::Running(held) if held.worker.id == worker.id);
        let before = held(self.study.open_trials()?);
        if before.as_ref().is_some_and(is_ours) {
            self.study.renew(worker, lease)?;
            return match held(self.study.open_trials()?).filter(is_ours) {
                Some(trial) => Ok(Asked::Trial(Box::new(trial))),
                None => self.given_before(worker, number, lease), // finished in the meantime
            };
        }
        let fate = match before.map(|trial| trial.state) {
            None => "has ended",
            Some(TrialState::Waiting) => "was released",
            Some(_) => "another worker has held since its lease expired",
        };
        let message = format!("this nonce got trial {number}, which {fate}; ask with a new nonce");
        Err(Problem::new(Code::NonceUsed, message))
    }

    /// Stores a report. Returns the reason to stop the training, or `None` to continue. A study
    /// without early stopping stores no reports.
    pub(super) fn report(
        &self,
        name: &str,
        number: u64,
        epoch: u32,
        value: f64,
    ) -> Result<Option<String>, Problem> {
        if self.epochs().is_none() {
            return Ok(None);
        }
        let verdict = self
            .as_holder(name, number, |teller| self.study.report_as(teller, number, epoch, value))?;
        Ok(match verdict {
            Verdict::Continue => None,
            Verdict::Stop { because } => {
                self.count(false);
                Some(because)
            }
        })
    }

    /// Tells the outcome of a trial. Repeating the same outcome is a no-op.
    pub(super) fn tell(
        &self,
        name: &str,
        number: u64,
        told: &Told,
    ) -> Result<TellOutcome, Problem> {
        let outcome =
            self.as_holder(name, number, |teller| self.study.tell_as(teller, number, told))?;
        if matches!(outcome, TellOutcome::New { .. }) {
            tracing::debug!("worker {name} told trial {number}: {told}");
            self.count(is_failure(told));
        }
        Ok(outcome)
    }

    /// Releases a trial to other workers.
    pub(super) fn release(&self, name: &str, number: u64) -> Result<(), Problem> {
        self.as_holder(name, number, |teller| self.study.release_trial_as(teller, number))
    }

    /// Extends the lease of a trial.
    pub(super) fn renew(&self, name: &str, number: u64, lease: Duration) -> Result<(), Problem> {
        self.as_holder(name, number, |teller| {
            let TellAuthority::Worker(id) = teller else { unreachable!("workers have tokens") };
            self.study.renew(&Worker { id: id.to_owned(), process: None }, lease)?;
            let open = self.study.open_trials()?;
            let trial = open.into_iter().find(|trial| trial.number == number);
            match trial.map(|trial| trial.state) {
                Some(TrialState::Running(held)) if held.worker.id == id => Ok(()),
                Some(_) => {
                    let holder = "somebody else, or by nobody".to_owned();
                    Err(StorageError::NotHeld { number, holder }.into())
                }
                None => self.ended(number),
            }
        })
    }

    /// Returns the error for a trial that is not open: it has ended or does not exist.
    fn ended(&self, number: u64) -> Result<(), StudyError> {
        let trials = self.study.trials()?;
        let n_trials = trials.len() as u64;
        let told = trials.iter().find(|trial| trial.number == number).and_then(Trial::told);
        Err(match told {
            Some(told) => StorageError::ToldOtherwise { number, told: told.to_string() },
            None => StorageError::NoTrial { number, n_trials },
        }
        .into())
    }

    /// Acts on a trial on behalf of a worker. The storage rejects the operation unless the worker
    /// holds the trial.
    fn as_holder<T>(
        &self,
        name: &str,
        number: u64,
        act: impl Fn(TellAuthority<'_>) -> Result<T, StudyError>,
    ) -> Result<T, Problem> {
        // A token that has no trials. It permits only the operations on a finished trial that every
        // worker is allowed to perform.
        let nobody = holder(name, "").id;
        let token = || self.holders().token(name, number).map(str::to_owned);
        let first = token().unwrap_or(nobody);
        match act(TellAuthority::Worker(&first)) {
            Err(StudyError::Storage(StorageError::NotHeld { .. })) => {}
            Err(StudyError::Storage(error @ StorageError::ToldOtherwise { .. })) => {
                let told = self.outcome(number)?;
                return Err(Problem::new(Code::ToldOtherwise, format!("{error}, which stays"))
                    .with_stored(told, &self.names()));
            }
            done => return Ok(done?),
        }
        // Another server of the same storage may have leased the trial to this worker.
        let open = self.study.open_trials()?;
        self.holders().learn(&open);
        let trial = open.iter().find(|trial| trial.number == number);
        match token() {
            Some(token) if token != first => Ok(act(TellAuthority::Worker(&token))?),
            _ => Err(not_held(name, number, trial)),
        }
    }

    /// Returns the names of a trial's numbers.
    pub(super) fn names(&self) -> NumberNames {
        NumberNames::new(self.study.definition().number_names())
    }

    fn outcome(&self, number: u64) -> Result<Option<Told>, Problem> {
        let trials = self.study.trials()?;
        let trial = trials.into_iter().find(|trial| trial.number == number);
        Ok(trial.and_then(|trial| trial.told().cloned()))
    }

    /// Returns true if no trial is open.
    pub(super) fn has_no_open_trial(&self) -> Result<bool, Problem> {
        Ok(self.study.open_trials()?.is_empty())
    }

    /// Counts consecutive failures.
    fn count(&self, has_failed: bool) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let held = failures.holds();
        match has_failed {
            true => failures.failed(),
            false => failures.succeeded(),
        }
        drop(failures);
        if let Some(reason) = self.failing().filter(|_| !held) {
            console::note(&format!("error: {reason}"));
        }
    }

    /// Returns the reason to start no further trials, if too many trials have failed in a row.
    fn failing(&self) -> Option<String> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.holds().then(|| {
            format!(
                "the last {} failed; fix the workers' program, start fedbo serve again, and retry the trials with fedbo retry",
                counted(failures.n_consecutive(), "trial")
            )
        })
    }

    /// Returns the study, its counts and its best trial.
    pub(super) fn document(&self) -> Result<StudyDocument, Problem> {
        let definition = self.study.definition();
        let mut counts = Counts::default();
        let trials = self.study.trials()?;
        for trial in &trials {
            *match trial.state {
                TrialState::Told(Told::Value(_) | Told::Numbers(_)) => &mut counts.complete,
                TrialState::Told(Told::Failed { .. }) => &mut counts.failed,
                TrialState::Told(Told::Stopped { .. }) => &mut counts.stopped,
                TrialState::Told(Told::Discarded) => continue,
                TrialState::Running(_) => &mut counts.running,
                TrialState::Waiting => &mut counts.waiting,
            } += 1;
        }
        let described = |best: &Trial| Best {
            number: best.number,
            value: best.value(),
            outcomes: outcomes(definition, best.numbers()),
            parameters: best.point.clone(),
        };
        let mut best: Vec<Best> =
            definition.best_trials(&trials).into_iter().map(described).collect();
        let (best, front) = match definition.objectives.is_empty() {
            true => (best.pop(), None),
            false => (None, Some(best)),
        };
        Ok(StudyDocument {
            schema_version: SCHEMA_VERSION,
            name: definition.name.clone(),
            direction: self.study.direction(),
            strategy: definition.strategy.name(),
            parameters: parameters(self.study.space()),
            epochs: self.epochs(),
            trials_wanted: self.n_trials,
            trials: counts,
            best,
            front,
            objectives: definition.objectives.clone(),
            constraints: definition.constraints.clone(),
        })
    }

    /// Returns a page of the trials that finished after the given position in completion order, as
    /// JSON.
    pub(super) fn told_after(&self, after: u64) -> Result<serde_json::Value, Problem> {
        let mut trials = self.study.trials()?;
        trials.retain(|trial| trial.told_seq.is_some_and(|seq| seq > after));
        trials.sort_by_key(|trial| trial.told_seq);
        let more = trials.len() > PAGE;
        trials.truncate(PAGE);
        let last = trials.last().and_then(|trial| trial.told_seq).unwrap_or(after);
        let records: Vec<TrialRecord<'_>> =
            trials.iter().map(|trial| TrialRecord::new(self.study.definition(), trial)).collect();
        Ok(serde_json::json!({ "trials": records, "after": last, "more": more }))
    }

    fn holders(&self) -> MutexGuard<'_, Holders> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_failure(told: &Told) -> bool {
    matches!(told, Told::Failed { .. })
}

/// Returns the response for a study in which no trial can be started. Open trials can become
/// available unless they are leased manually.
fn without_trial(open: &[Trial], why: &str) -> Asked {
    let of = |by_hand: bool| -> Vec<u64> {
        let those = open.iter().filter(|trial| match &trial.state {
            TrialState::Running(held) => held.until_ms.is_none() == by_hand,
            _ => !by_hand,
        });
        those.map(|trial| trial.number).collect()
    };
    let (by_hand, may_come_free) = (of(true), of(false));
    if !may_come_free.is_empty() {
        let reason = format!("{why}; {} not ended", text::numbers(&may_come_free));
        return Asked::Wait { reason };
    }
    match by_hand.is_empty() {
        true => Asked::Full { reason: why.to_owned() },
        false => {
            let numbers = text::numbers(&by_hand);
            Asked::Full { reason: format!("{why}; asked for manually and not told yet: {numbers}") }
        }
    }
}

/// Rejects a worker that does not hold a trial. The message omits the holder's name, since anyone
/// with the server's token could use it to act on the trial.
fn not_held(name: &str, number: u64, trial: Option<&Trial>) -> Problem {
    let by = match trial.map(|trial| &trial.state) {
        Some(TrialState::Running(held)) if name_of(&held.worker.id).is_some() => {
            "is held by another worker"
        }
        Some(TrialState::Running(_)) => "is held outside this server",
        Some(TrialState::Waiting) => "waits to be asked for",
        _ => "has ended",
    };
    let message = format!(
        "trial {number} {by}, not by worker {name:?}; another worker may take a trial after its lease expires, so renew in time"
    );
    Problem::new(Code::NotHeld, message)
}
