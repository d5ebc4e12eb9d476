//! Workers: threads that ask for trials, evaluate them and tell the outcomes until the study is
//! complete.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fedbo_objective::{
    Closure, Failure, FailureCounter, FailuresMax, Objective, Outcome, TrialId, numbers_guarded,
    train_guarded,
};
use fedbo_space::Point;
use fedbo_storage::{Stop, StorageError, TellAuthority, Told, Trial, TrialState, Worker};
use fedbo_strategies::StrategyError;

use crate::early_stopping::{RunWarnings, TrainingOutcome, TrialMonitor};
use crate::model::n_uncounted;
use crate::patience::Progress;
use crate::{AskOutcome, Patience, Study, StudyError, numeric_choices};

/// Options of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOptions {
    /// Total number of trials of the study, including those of earlier runs.
    pub n_trials: u64,
    /// Number of trials that this process evaluates in parallel.
    pub jobs: usize,
    /// Duration of a worker's lease on a trial. The lease is renewed while the worker is alive. If
    /// a worker dies, other machines wait this long before they take over the trial.
    pub lease: Duration,
    /// Number of consecutive failed trials, counted from the start of the run, after which the run
    /// ends.
    ///
    /// Running trials still finish.
    pub failures_max: FailuresMax,
    /// Time after which the run starts no further trials. Running trials still finish.
    pub timeout: Option<Duration>,
    /// Number of trials without progress after which the study ends, including trials of earlier
    /// runs.
    pub patience: Option<Patience>,
}

impl RunOptions {
    /// Runs one trial at a time, with leases of one minute and no limit on failures or time.
    pub fn sequential(n_trials: u64) -> Self {
        Self {
            n_trials,
            jobs: 1,
            lease: Duration::from_secs(60),
            failures_max: FailuresMax::Never,
            timeout: None,
            patience: None,
        }
    }
}

/// The results of one run in this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Number of trials that this run finished.
    pub n_told: usize,
    /// Number of these trials that failed.
    pub n_failed: usize,
    /// Number of these trials that were stopped early.
    pub n_stopped: usize,
    /// The reason why the run ended; [`Ended::Complete`] if the study has all its trials.
    pub ended: Ended,
    /// Number of trials that were still open elsewhere when the run ended.
    pub n_open: usize,
    /// Number of consecutive failures that ended the run; 0 if it ended for another reason.
    pub n_failed_in_a_row: u64,
    /// The stop that ended the run, for [`Ended::StudyStopped`].
    pub stop: Option<Stop>,
}

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ended {
    /// The study has all its trials.
    #[default]
    Complete,
    /// Every point of the space has been tried.
    Exhausted,
    /// The run was stopped externally or by its observer.
    Stopped,
    /// The study was stopped after the run had started ([`Study::stop`]).
    StudyStopped,
    /// Too many consecutive trials failed ([`RunOptions::failures_max`]).
    Failing,
    /// The time limit was reached ([`RunOptions::timeout`]).
    TimedOut,
    /// Too many trials made no progress ([`RunOptions::patience`]).
    OutOfPatience,
}

/// Observes a run. Called from the worker threads.
pub trait Observer: Sync {
    /// Called before a trial is evaluated.
    fn started(&self, _trial: &Trial) {}

    /// Called when a trial of this run has finished or was stopped early. The outcome is already
    /// stored, as durably as the storage allows. `Break` ends the run after the running trials.
    fn told(&self, _trial: &Trial) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Called when a report of a trial in training has been stored.
    fn reported(&self, _number: u64, _epoch: u32) {}

    /// Called while the worker waits for trials that other processes evaluate.
    fn waiting(&self, _open: &[Trial]) {}

    /// Called if a trial ended but its outcome could not be stored. The run ends, and the outcome
    /// is lost when this call returns.
    fn unstored(&self, _number: u64, _told: &Told) {}

    /// Called for a problem that does not end the run.
    fn warning(&self, _message: &str) {}
}

/// Ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullObserver;

impl Observer for NullObserver {}

/// Returns numbers as a trial has them: a number that was not measured is NaN.
fn with_missing(numbers: &[Option<f64>]) -> Vec<f64> {
    numbers.iter().map(|number| number.unwrap_or(f64::NAN)).collect()
}

/// Adapts a closure to an objective with several numbers.
struct SeveralNumbers<F>(F);

impl<const N: usize, F: Fn(&Point) -> Result<[f64; N], String> + Send + Sync> Objective
    for SeveralNumbers<F>
{
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        match (self.0)(point) {
            Ok(numbers) => Outcome::Numbers(numbers.to_vec()),
            Err(message) => Outcome::Failed(Failure::Reported { message }),
        }
    }
}

/// Polling interval of an idle worker.
const POLL: Duration = Duration::from_millis(100);

impl Study {
    /// Evaluates a function, one trial at a time, until the study has `n_trials` trials. An `Err`
    /// fails the trial.
    ///
    /// # Errors
    /// Fails if no query can be proposed, or if the storage fails.
    pub fn optimize(
        &self,
        n_trials: u64,
        function: impl Fn(&Point) -> Result<f64, String> + Send + Sync,
    ) -> Result<RunReport, StudyError> {
        let options = RunOptions::sequential(n_trials);
        self.run(&Closure(function), &options, &NullObserver, &AtomicBool::new(false))
    }

    /// Same as [`Study::optimize`], for a study with constraints or multiple objectives. The
    /// function returns the numbers in the order of
    /// [`Definition::number_names`](crate::Definition::number_names).
    ///
    /// ```
    /// use fedbo_space::{Direction, ParameterSpec};
    /// use fedbo_study::{Definition, StrategySpec, Study};
    ///
    /// let definition = Definition::new("front")
    ///     .parameter("x", ParameterSpec::float(-2.0, 2.0))
    ///     .objective("near_0", Direction::Minimize)
    ///     .objective("near_1", Direction::Minimize)
    ///     .at_most("distance", 0.75)
    ///     .strategy(StrategySpec::random());
    /// let study = Study::in_memory(&definition)?;
    /// study.optimize_numbers(40, |point| {
    ///     let x = point.number("x");
    ///     Ok([x * x, (x - 1.0).powi(2), x.abs()])
    /// })?;
    /// let front = study.best_trials()?;
    /// assert!(front.iter().all(|trial| trial.numbers()[2] <= 0.75));
    /// # Ok::<(), fedbo_study::StudyError>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`Study::optimize`].
    pub fn optimize_numbers<const N: usize>(
        &self,
        n_trials: u64,
        function: impl Fn(&Point) -> Result<[f64; N], String> + Send + Sync,
    ) -> Result<RunReport, StudyError> {
        let options = RunOptions::sequential(n_trials);
        self.run(&SeveralNumbers(function), &options, &NullObserver, &AtomicBool::new(false))
    }

    /// Evaluates an objective with `options.jobs` workers until the study has all its trials, is
    /// stopped ([`Study::stop`]), or `stop` is set.
    ///
    /// Other processes can run the same study concurrently. At the end, this process waits for
    /// their running trials and takes over trials with expired leases or dead workers.
    ///
    /// # Errors
    /// Fails if no query can be proposed, or if the storage fails. Finished trials remain stored. A
    /// value that could not be stored is returned in [`StudyError::Unstored`].
    pub fn run(
        &self,
        objective: &dyn Objective,
        options: &RunOptions,
        observer: &dyn Observer,
        stop: &AtomicBool,
    ) -> Result<RunReport, StudyError> {
        let began = Instant::now();
        let known_stops = self.last_stop()?.map_or(0, |stop| stop.seq);
        let has_outcome = self.has_outcome(options)?;
        let progress = |patience| Mutex::new(Progress::new(patience, self.definition()));
        let shared = Shared {
            brake: Mutex::new(FailureCounter::new(options.failures_max, has_outcome)),
            deadline: options.timeout.and_then(|time| began.checked_add(time)),
            progress: options.patience.map(progress),
            study: self,
            objective,
            options,
            observer,
            stop,
            halt: AtomicBool::new(false),
            n_told: AtomicUsize::new(0),
            n_failed: AtomicUsize::new(0),
            n_stopped: AtomicUsize::new(0),
            n_failed_in_a_row: AtomicU64::new(0),
            warnings: RunWarnings::default(),
            known_stops,
            study_stop: Mutex::new(None),
            first_error: Mutex::new(None),
            ended: Mutex::new(Ended::Complete),
            workers: (0..options.jobs.max(1)).map(|_| Worker::of_this_process()).collect(),
            at_work: Mutex::new(options.jobs.max(1)),
            changed: Condvar::new(),
        };
        let hints = numeric_choices::hints(self.space());
        // A study that has results cannot change its parameters any more.
        if !hints.is_empty() && self.trials()?.iter().all(|trial| trial.told().is_none()) {
            hints.iter().for_each(|hint| observer.warning(hint));
        }
        std::thread::scope(|scope| {
            for worker in &shared.workers {
                scope.spawn(|| shared.work(worker));
            }
            shared.keep_leases();
        });
        let Shared {
            first_error,
            n_told,
            n_failed,
            n_stopped,
            ended,
            n_failed_in_a_row,
            study_stop,
            ..
        } = shared;
        if let Some(error) = first_error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let trials = self.trials()?;
        let open = trials.iter().filter(|t| t.told().is_none()).count();
        let n_counted = (trials.len() as u64).saturating_sub(n_uncounted(&trials));
        let is_complete = open == 0 && n_counted >= options.n_trials;
        let ended = match stop.load(Ordering::Relaxed) {
            true => Ended::Stopped,
            false => match ended.into_inner().unwrap_or_else(PoisonError::into_inner) {
                // The run would have ended with the last trial anyway.
                Ended::TimedOut | Ended::OutOfPatience | Ended::StudyStopped if is_complete => {
                    Ended::Complete
                }
                ended => ended,
            },
        };
        let study_stop = study_stop.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(RunReport {
            n_told: n_told.into_inner(),
            n_failed: n_failed.into_inner(),
            n_stopped: n_stopped.into_inner(),
            n_open: open,
            n_failed_in_a_row: n_failed_in_a_row.into_inner(),
            stop: study_stop.filter(|_| ended == Ended::StudyStopped),
            ended,
        })
    }

    /// Returns true if any trial did not fail.
    ///
    /// Returns false without reading trials unless the failure limit applies only before the first
    /// value.
    fn has_outcome(&self, options: &RunOptions) -> Result<bool, StudyError> {
        if !matches!(options.failures_max, FailuresMax::BeforeFirstValue(_)) {
            return Ok(false);
        }
        let trials = self.trials()?;
        let mut told = trials.iter().filter_map(Trial::told);
        Ok(told.any(|told| !matches!(told, Told::Failed { .. } | Told::Discarded)))
    }
}

/// State shared by the workers of one run.
struct Shared<'a> {
    study: &'a Study,
    objective: &'a dyn Objective,
    options: &'a RunOptions,
    observer: &'a dyn Observer,
    /// Set externally: stop immediately.
    stop: &'a AtomicBool,
    /// Set internally: ask for no further trials.
    halt: AtomicBool,
    n_told: AtomicUsize,
    n_failed: AtomicUsize,
    n_stopped: AtomicUsize,
    /// Number of consecutive failures that ended the run. Trials that finish afterwards do not
    /// change it.
    n_failed_in_a_row: AtomicU64,
    /// Number of times that the study was stopped before the run.
    known_stops: u64,
    /// The stop request that ended the run.
    study_stop: Mutex<Option<Stop>>,
    /// Warnings about reports that have already been given.
    warnings: RunWarnings,
    first_error: Mutex<Option<StudyError>>,
    ended: Mutex<Ended>,
    /// Tokens of this run's workers.
    workers: Vec<Worker>,
    /// Number of workers that are still running.
    at_work: Mutex<usize>,
    changed: Condvar,
    brake: Mutex<FailureCounter>,
    /// Time after which no further trials start; `None` for no limit.
    deadline: Option<Instant>,
    progress: Option<Mutex<Progress>>,
}

impl Shared<'_> {
    /// Runs trials until the run ends.
    fn work(&self, worker: &Worker) {
        // Also runs after a panic, so that threads waiting for this worker are notified of its end.
        let _leaving = Leaving(self);
        while !self.is_over() {
            match self.step(worker) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return,
                Err(error) => return self.fail(error),
            }
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.halt.load(Ordering::Relaxed)
    }

    /// Processes one trial, or polls once for one.
    fn step(&self, worker: &Worker) -> Result<ControlFlow<()>, StudyError> {
        let (study, options) = (self.study, self.options);
        if self.deadline.is_some_and(|end| Instant::now() >= end) {
            self.end(Ended::TimedOut);
            return Ok(ControlFlow::Break(()));
        }
        let is_over = self.exceeds_patience()?;
        // Waiting trials are still evaluated, as in a study that has all its trials.
        let limit = if is_over { 0 } else { options.n_trials };
        let lease = Some(options.lease);
        let continues =
            || !self.is_over() && self.deadline.is_none_or(|deadline| Instant::now() < deadline);
        let known_stops = Some(self.known_stops);
        let asked =
            match study.ask_unless_stopped(worker, lease, Some(limit), known_stops, &continues) {
                // The next step determines the reason.
                Err(StudyError::Overtaken { .. }) if !continues() => {
                    return Ok(ControlFlow::Continue(()));
                }
                Err(StudyError::Strategy(StrategyError::Exhausted { .. })) => {
                    let waits = self.wait_for(&study.open_trials()?);
                    if waits.is_break() {
                        self.end(Ended::Exhausted);
                    }
                    return Ok(waits);
                }
                asked => asked?,
            };
        let mut trial = match asked {
            ControlFlow::Break(stop) => {
                *self.study_stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(stop);
                self.end(Ended::StudyStopped);
                return Ok(ControlFlow::Break(()));
            }
            ControlFlow::Continue(AskOutcome::Trial(trial)) => trial,
            ControlFlow::Continue(AskOutcome::Full { open }) => {
                let waits = self.wait_for(&open);
                if waits.is_break() && is_over {
                    if open.iter().any(|trial| self.is_ours(trial)) {
                        // A trial of another worker could still become the new best.
                        std::thread::sleep(POLL);
                        return Ok(ControlFlow::Continue(()));
                    }
                    self.end(Ended::OutOfPatience);
                }
                return Ok(waits);
            }
        };
        self.observer.started(&trial);
        let id = TrialId { agent: 0, trial: trial.number };
        let outcome = if study.definition().early_stopping.is_some() {
            match self.train(worker, &mut trial, id)? {
                ControlFlow::Continue(outcome) => outcome,
                ControlFlow::Break(()) => return Ok(ControlFlow::Continue(())),
            }
        } else {
            let n_numbers = study.definition().number_names().len();
            numbers_guarded(self.objective, &trial.point, id, n_numbers)
        };
        let told = match outcome {
            Outcome::Value(value) => Told::Value(value),
            Outcome::Numbers(numbers) => Told::Numbers(numbers),
            Outcome::Measured(numbers) => Told::Numbers(with_missing(&numbers)),
            // Not specific to the point: every other point would fail the same way.
            Outcome::Failed(failure @ Failure::Spawn { .. }) => {
                self.release_trial(worker, &trial)?;
                let message = failure.to_string();
                return Err(StudyError::Objective { message });
            }
            Outcome::Failed(failure) => {
                Told::Failed { kind: failure.kind().to_owned(), message: failure.to_string() }
            }
            Outcome::Interrupted => {
                self.release_trial(worker, &trial)?;
                self.end(Ended::Stopped);
                return Ok(ControlFlow::Break(()));
            }
        };
        self.tell(worker, trial, told)?;
        Ok(ControlFlow::Continue(()))
    }

    /// Evaluates a trial that reports during training. Returns `Break` if the trial needs no
    /// further handling.
    fn train(
        &self,
        worker: &Worker,
        trial: &mut Trial,
        id: TrialId,
    ) -> Result<ControlFlow<(), Outcome>, StudyError> {
        let warnings = &self.warnings;
        let monitor = TrialMonitor::new(self.study, self.observer, worker, warnings, trial.number);
        let trained = train_guarded(self.objective, &trial.point, id, &monitor);
        let (conclusion, reports) = monitor.conclude(trained);
        trial.reports = reports;
        match conclusion {
            TrainingOutcome::Ended(outcome) => return Ok(ControlFlow::Continue(outcome)),
            TrainingOutcome::Stopped(told) => self.was_told(trial.clone(), told)?,
            TrainingOutcome::Failed(told) => self.tell(worker, trial.clone(), told)?,
            TrainingOutcome::Lost(cause) => {
                // This worker lost its lease, and another worker evaluates the trial.
                self.observer.warning(&format!(
                    "the reports of trial {} are not used: {cause}",
                    trial.number
                ));
            }
            TrainingOutcome::Error(error) => {
                if let Err(second) = self.release_trial(worker, trial) {
                    self.observer.warning(&second.to_string());
                }
                return Err(error);
            }
        }
        Ok(ControlFlow::Break(()))
    }

    /// Releases a trial, unless another worker holds it now.
    fn release_trial(&self, worker: &Worker, trial: &Trial) -> Result<(), StudyError> {
        let teller = TellAuthority::Worker(&worker.id);
        match self.study.release_trial_as(teller, trial.number) {
            Err(StudyError::Storage(
                StorageError::NotHeld { .. } | StorageError::ToldOtherwise { .. },
            )) => Ok(()),
            other => other,
        }
    }

    fn tell(&self, worker: &Worker, trial: Trial, told: Told) -> Result<(), StudyError> {
        let number = trial.number;
        match self.study.tell_as(TellAuthority::Worker(&worker.id), number, &told) {
            Ok(_) => {}
            Err(StudyError::Storage(
                cause @ (StorageError::NotHeld { .. } | StorageError::ToldOtherwise { .. }),
            )) => {
                // This worker lost its lease, and another worker evaluates the trial. The other
                // result counts.
                let message = format!("the result of trial {number}, {told}, is not used: {cause}");
                self.observer.warning(&message);
                return Ok(());
            }
            Err(StudyError::Storage(cause)) => {
                self.observer.unstored(number, &told);
                return Err(StudyError::Unstored { number, told, cause });
            }
            Err(other) => return Err(other),
        }
        self.was_told(trial, told)
    }

    /// Returns true if the study has exceeded its limit of trials without progress.
    fn exceeds_patience(&self) -> Result<bool, StudyError> {
        let Some(progress) = &self.progress else {
            return Ok(false);
        };
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.look(self.study)?;
        Ok(progress.is_over())
    }

    /// Counts consecutive failures. Too many of them end the run.
    fn watch(&self, told: &Told) -> Result<(), StudyError> {
        let mut brake = self.brake.lock().unwrap_or_else(PoisonError::into_inner);
        match told {
            Told::Failed { .. } => brake.failed(),
            Told::Value(_) | Told::Numbers(_) | Told::Stopped { .. } => brake.succeeded(),
            Told::Discarded => {}
        }
        // Another process may have stored a value in the meantime.
        if brake.holds() && self.study.has_outcome(self.options)? {
            brake.succeeded();
        }
        if brake.holds() {
            let n = brake.n_consecutive();
            self.n_failed_in_a_row.fetch_max(n, Ordering::Relaxed);
            self.end(Ended::Failing);
        }
        Ok(())
    }

    /// Counts a finished trial and notifies the observer.
    fn was_told(&self, mut trial: Trial, told: Told) -> Result<(), StudyError> {
        let watched = self.watch(&told);
        self.n_told.fetch_add(1, Ordering::Relaxed);
        match told {
            Told::Value(_) | Told::Numbers(_) | Told::Discarded => {}
            Told::Failed { .. } => {
                self.n_failed.fetch_add(1, Ordering::Relaxed);
            }
            Told::Stopped { .. } => {
                self.n_stopped.fetch_add(1, Ordering::Relaxed);
            }
        }
        trial.state = TrialState::Told(told);
        let warned = self.warnings.warn_penalties(self.observer, self.study, &trial);
        if self.observer.told(&trial).is_break() {
            self.end(Ended::Stopped);
        }
        watched.and(warned)
    }

    /// Returns true if a worker of this run evaluates the trial.
    fn is_ours(&self, trial: &Trial) -> bool {
        matches!(&trial.state, TrialState::Running(holding) if self.workers.contains(&holding.worker))
    }

    /// Waits for trials of other processes, which may be released. Returns `Break` if there are no
    /// such trials.
    fn wait_for(&self, open: &[Trial]) -> ControlFlow<()> {
        let is_others = |trial: &&Trial| match &trial.state {
            TrialState::Running(holding) => holding.until_ms.is_some() && !self.is_ours(trial),
            _ => false,
        };
        let others: Vec<Trial> = open.iter().filter(is_others).cloned().collect();
        // A waiting trial was released after this worker's last ask. The next ask leases it.
        let waits = open.iter().any(|trial| trial.state == TrialState::Waiting);
        if others.is_empty() && !waits {
            return ControlFlow::Break(());
        }
        if !others.is_empty() {
            self.observer.waiting(&others);
        }
        std::thread::sleep(POLL);
        ControlFlow::Continue(())
    }

    /// Ends the run. Only the first reason is recorded.
    fn end(&self, why: Ended) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if *ended == Ended::Complete {
            *ended = why;
        }
        self.halt.store(true, Ordering::Relaxed);
    }

    fn fail(&self, error: StudyError) {
        let mut first = self.first_error.lock().unwrap_or_else(PoisonError::into_inner);
        match &*first {
            None => *first = Some(error),
            // Only the first error is returned. A value that could not be stored must still be
            // reported.
            Some(_) => self.observer.warning(&error.to_string()),
        }
        self.halt.store(true, Ordering::Relaxed);
    }

    /// Renews the workers' leases until all workers have exited.
    fn keep_leases(&self) {
        let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        while *at_work > 0 {
            let (guard, waited) = self
                .changed
                .wait_timeout(at_work, self.options.lease / 3)
                .unwrap_or_else(PoisonError::into_inner);
            at_work = guard;
            if waited.timed_out() && *at_work > 0 {
                drop(at_work);
                for worker in &self.workers {
                    if let Err(error) = self.study.renew(worker, self.options.lease) {
                        self.observer.warning(&format!("a lease could not be renewed: {error}"));
                    }
                }
                at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Decrements the number of workers when dropped.
struct Leaving<'a>(&'a Shared<'a>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut at_work = self.0.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        *at_work -= 1;
        self.0.changed.notify_all();
    }
}
