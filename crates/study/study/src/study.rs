//! A study: ask for trials, tell their outcomes, and inspect the results.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fedbo_space::{Direction, Point, Space};
use fedbo_storage::{
    AddOutcome, MemoryStorage, NewTrial, Report, ReportOutcome, Snapshot, Stop, Storage,
    StorageError, StudyKey, StudyRecord, TellAuthority, TellOutcome, Told, Trial, Worker,
};
use fedbo_strategies::{Strategy, StrategyError};

use crate::early_stopping::RuleEvaluator;
use crate::meta::Units;
use crate::model::{Model, OwnStrategy, n_uncounted, retried};
use crate::pace::Pace;
use crate::{Definition, Insight, MetaSpec, StrategySpec, StudyError, Surface, TransferStep};

/// Maximum number of attempts to find a proposal that is not a duplicate, or to change several
/// trials without being overtaken by another process.
pub(crate) const ATTEMPTS_MAX: u32 = 100;

/// One party's study in a storage. Cheap to share between threads. Any number of processes can work
/// on the same study.
///
/// Asks within a process are serialized, so that each ask takes the open trials of the others into
/// account.
pub struct Study {
    storage: Arc<dyn Storage>,
    key: StudyKey,
    definition: Definition,
    space: Space,
    /// Created by the first proposal, so that inspecting a study does not fit models of old
    /// studies.
    model: Mutex<Option<Model>>,
    /// The user-defined strategy, if the definition specifies one.
    own: Option<Arc<OwnStrategy>>,
    /// The evaluator of the stopping rule, which caches reports. Created by the first verdict.
    judge: Mutex<Option<RuleEvaluator>>,
}

impl fmt::Debug for Study {
    /// Formats only the name and the storage: observations must not appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Study")
            .field("name", &self.definition.name)
            .field("storage", &self.storage)
            .finish_non_exhaustive()
    }
}

/// The result of an ask.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "made once a trial, and mostly of the large kind")]
pub enum AskOutcome {
    /// A trial to evaluate.
    Trial(Trial),
    /// The study has reached its limit, and none of its trials is available.
    Full {
        /// Trials that other workers evaluate or that are leased manually.
        open: Vec<Trial>,
    },
}

impl Study {
    /// Creates a study in this process's memory.
    ///
    /// # Errors
    /// Fails if the definition is not valid.
    pub fn in_memory(definition: &Definition) -> Result<Self, StudyError> {
        Self::open(Arc::new(MemoryStorage::new()), definition)
    }

    /// Creates a study, or resumes the study stored under its name.
    ///
    /// # Errors
    /// Fails if the definition is not valid, a different study is stored under this name, or the
    /// storage fails.
    pub fn open(storage: Arc<dyn Storage>, definition: &Definition) -> Result<Self, StudyError> {
        prepared(definition)?; // an invalid definition must not be stored
        let record = storage.create(&definition.name, &definition.to_text())?;
        let study = Self::from_record(storage, &record)?;
        match study.definition.difference(definition) {
            Some(differs) => Err(differs),
            None => Ok(study),
        }
    }

    /// Loads a stored study. `None` selects the only study in the storage.
    ///
    /// # Errors
    /// Fails if there is no such study, or if the storage fails.
    pub fn load(storage: Arc<dyn Storage>, name: Option<&str>) -> Result<Self, StudyError> {
        let records = storage.studies()?;
        let known = || match records.as_slice() {
            [] => "no study".to_owned(),
            some => {
                let names: Vec<String> = some.iter().map(|r| format!("{:?}", r.name)).collect();
                names.join(", ")
            }
        };
        let record = match (name, records.as_slice()) {
            (Some(name), _) => records
                .iter()
                .find(|record| record.name == name)
                .ok_or_else(|| StudyError::NoStudy { name: name.to_owned(), known: known() })?,
            (None, [only]) => only,
            (None, _) => return Err(StudyError::AmbiguousStudy { known: known() }),
        };
        Self::from_record(storage, record)
    }

    fn from_record(storage: Arc<dyn Storage>, record: &StudyRecord) -> Result<Self, StudyError> {
        let definition = Definition::from_text(&record.name, &record.definition)?;
        let (space, model) = prepared(&definition)?;
        Ok(Self {
            key: record.key,
            space,
            model: Mutex::new(model),
            own: None,
            judge: Mutex::new(None),
            storage,
            definition,
        })
    }

    /// Lets a user-defined strategy choose the queries, for a definition with
    /// [`StrategySpec::Own`].
    ///
    /// `strategy` must not have been told any trials. Copies of it are told the stored trials in
    /// completion order, and are asked for the queries after the initial design
    /// ([`Definition::initial`]). If its queries are a function of the told trials and the given
    /// stream, the study resumes after an interruption like any other.
    ///
    /// ```
    /// use fedbo_strategies::{Observation, Points, Proposal, Source, Strategy, StrategyError};
    /// use fedbo_space::ParameterSpec;
    /// use fedbo_streams::Stream;
    /// use fedbo_study::{Definition, StrategySpec, Study};
    ///
    /// /// Queries a point near the best one so far.
    /// #[derive(Clone, Default)]
    /// struct HillClimber {
    ///     best: Option<(Vec<f64>, f64)>,
    /// }
    ///
    /// impl Strategy for HillClimber {
    ///     fn ask(&self, _pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
    ///         let centre = self.best.as_ref().map_or([0.5, 0.5].as_slice(), |(unit, _)| unit);
    ///         let mut near = |c: &f64| (c + 0.1 * stream.normal()).clamp(0.0, 1.0);
    ///         let unit = centre.iter().map(&mut near).collect();
    ///         Ok(Proposal { unit, source: Source::Own })
    ///     }
    ///
    ///     fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
    ///         for trial in observed {
    ///             let Some(value) = trial.value else { continue };
    ///             if self.best.as_ref().is_none_or(|(_, best)| value > *best) {
    ///                 self.best = Some((trial.unit.clone(), value));
    ///             }
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let definition = Definition::new("hill")
    ///     .parameter("x", ParameterSpec::float(-2.0, 2.0))
    ///     .parameter("y", ParameterSpec::float(-2.0, 2.0))
    ///     .strategy(StrategySpec::own())
    ///     .minimize();
    /// let study = Study::in_memory(&definition)?.with_strategy(HillClimber::default())?;
    /// study.optimize(60, |point| Ok(point.number("x").powi(2) + point.number("y").powi(2)))?;
    /// let best = study.best()?.expect("a trial with a value");
    /// assert!(best.value().is_some_and(|value| value < 0.05));
    /// # Ok::<(), fedbo_study::StudyError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the study's definition specifies a different strategy.
    pub fn with_strategy(
        mut self,
        strategy: impl Strategy + Clone + Sync + 'static,
    ) -> Result<Self, StudyError> {
        let named = self.definition.strategy;
        if named != StrategySpec::own() {
            return Err(StudyError::NotOwnStrategy {
                name: self.definition.name.clone(),
                strategy: named.name(),
            });
        }
        self.own = Some(Arc::new(move || Box::new(strategy.clone())));
        self.model = Mutex::new(None);
        Ok(self)
    }

    /// Returns the study's definition.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Returns the search space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the direction of optimization.
    pub fn direction(&self) -> Direction {
        self.definition.direction
    }

    /// Asks for the next trial: a waiting trial or a new proposal. The trial is leased manually,
    /// and the lease lasts until the trial is told.
    ///
    /// # Errors
    /// Fails if no query can be proposed, or if the storage fails.
    pub fn ask(&self) -> Result<Trial, StudyError> {
        match self.ask_as(&Worker::by_hand(), None, None)? {
            AskOutcome::Trial(trial) => Ok(trial),
            AskOutcome::Full { .. } => unreachable!("a study without a limit is never full"),
        }
    }

    /// Asks for `n` trials. Each proposal takes the other open trials into account.
    ///
    /// # Errors
    /// Same as [`Study::ask`]. Trials asked for before the error remain open.
    pub fn ask_many(&self, n: usize) -> Result<Vec<Trial>, StudyError> {
        (0..n).map(|_| self.ask()).collect()
    }

    /// Asks for the next trial for `worker`, with a lease of duration `lease` (`None`: until the
    /// trial is told).
    ///
    /// Returns a waiting trial, or a trial with an expired lease or a dead worker. Otherwise
    /// returns a new proposal if the study has fewer than `limit` trials.
    ///
    /// # Errors
    /// Fails if no query can be proposed, or if the storage fails.
    pub fn ask_as(
        &self,
        worker: &Worker,
        lease: Option<Duration>,
        limit: Option<u64>,
    ) -> Result<AskOutcome, StudyError> {
        match self.ask_unless_stopped(worker, lease, limit, None, &|| true)? {
            ControlFlow::Continue(asked) => Ok(asked),
            ControlFlow::Break(_) => {
                unreachable!("a stop does not apply to a caller outside a run")
            }
        }
    }

    /// Same as [`Study::ask_as`], but returns `Break` if the study has been stopped again since the
    /// first `known_stops` stops.
    ///
    /// `None` ignores stops. If other processes add their trials first, backs off and retries as
    /// long as `continues` returns true.
    ///
    /// # Errors
    /// Same as [`Study::ask_as`].
    pub fn ask_unless_stopped(
        &self,
        worker: &Worker,
        lease: Option<Duration>,
        limit: Option<u64>,
        known_stops: Option<u64>,
        continues: &dyn Fn() -> bool,
    ) -> Result<ControlFlow<Stop, AskOutcome>, StudyError> {
        self.ask_in(None, worker, lease, limit, known_stops, continues)
    }

    /// Same as [`Study::ask_unless_stopped`], but with the given values of a part of the space. No
    /// waiting trial is claimed then.
    pub(crate) fn ask_in(
        &self,
        part: Option<&Space>,
        worker: &Worker,
        lease: Option<Duration>,
        limit: Option<u64>,
        known_stops: Option<u64>,
        continues: &dyn Fn() -> bool,
    ) -> Result<ControlFlow<Stop, AskOutcome>, StudyError> {
        let mut duplicates = 0;
        let mut pace = Pace::new();
        while duplicates < ATTEMPTS_MAX {
            let mut slot = self.model();
            pace.begin();
            let claimed = match part {
                Some(_) => ControlFlow::Continue(None),
                None => self.storage.claim_unless_stopped(self.key, worker, lease, known_stops)?,
            };
            match claimed {
                ControlFlow::Continue(None) => {}
                ControlFlow::Continue(Some(trial)) => {
                    return Ok(ControlFlow::Continue(AskOutcome::Trial(trial)));
                }
                ControlFlow::Break(stop) => return Ok(ControlFlow::Break(stop)),
            }
            let began = Instant::now();
            let model = self.built(&mut slot)?;
            let snapshot = self.news(model)?;
            let n_uncounted =
                model.n_uncounted() + n_uncounted(&snapshot.told) + n_uncounted(&snapshot.open);
            let limit = limit.map(|limit| limit.saturating_add(n_uncounted));
            if limit.is_some_and(|limit| snapshot.n_trials >= limit) {
                let open = snapshot.open;
                return Ok(ControlFlow::Continue(AskOutcome::Full { open }));
            }
            self.absorb(model, &snapshot.told)?;
            let (n_trials, open) = (snapshot.n_trials, &snapshot.open);
            let proposal = model.propose_in(part, n_trials, open, duplicates)?;
            let point = part.unwrap_or(&self.space).decode(&proposal.unit);
            let new = NewTrial {
                ask_seconds: began.elapsed().as_secs_f64(),
                holder: Some((worker.clone(), lease)),
                unique: !self.definition.noisy,
                number: Some(snapshot.n_trials),
                limit,
                ..NewTrial::new(encoding(&self.space, &point)?, point, proposal.source.to_string())
            };
            let added = match self.storage.add_unless_stopped(self.key, &new, known_stops)? {
                ControlFlow::Continue(added) => added,
                ControlFlow::Break(stop) => return Ok(ControlFlow::Break(stop)),
            };
            match added {
                AddOutcome::Trial(trial) => {
                    return Ok(ControlFlow::Continue(AskOutcome::Trial(trial)));
                }
                // The range has so few floats that distinct coordinates decode to the same point.
                // Further proposals are random.
                AddOutcome::Duplicate { .. } => duplicates += 1,
                // Another worker added a trial first. Retry with that trial among the open trials.
                AddOutcome::Overtaken | AddOutcome::Full => {
                    drop(slot);
                    pace.overtaken(continues)?;
                }
            }
        }
        let n_points = self.model().as_ref().map_or(0, Model::n_known);
        Err(StrategyError::Exhausted { n_points }.into())
    }

    /// Tells the value of a trial that is leased manually or not leased.
    ///
    /// # Errors
    /// Fails if the value is not finite, another worker holds the trial, the trial has ended
    /// differently, or the storage fails.
    pub fn tell(&self, number: u64, value: f64) -> Result<TellOutcome, StudyError> {
        self.tell_as(TellAuthority::Hand, number, &Told::Value(value))
    }

    /// Tells the numbers of a trial that is leased manually or not leased, in the order of
    /// [`Definition::number_names`].
    ///
    /// # Errors
    /// Same as [`Study::tell`]. Also fails if the number of values differs from the study's.
    pub fn tell_numbers(&self, number: u64, numbers: Vec<f64>) -> Result<TellOutcome, StudyError> {
        self.tell_as(TellAuthority::Hand, number, &Told::with_numbers(numbers))
    }

    /// Records that a trial failed, with the reason. The trial must be leased manually or not
    /// leased.
    ///
    /// # Errors
    /// Same as [`Study::tell`].
    pub fn tell_failed(&self, number: u64, message: &str) -> Result<TellOutcome, StudyError> {
        let told = Told::Failed { kind: "reported".to_owned(), message: message.to_owned() };
        self.tell_as(TellAuthority::Hand, number, &told)
    }

    /// Tells the outcome of a trial. When this returns, the outcome is stored as durably as the
    /// storage allows.
    ///
    /// # Errors
    /// Same as [`Study::tell`].
    pub fn tell_as(
        &self,
        teller: TellAuthority<'_>,
        number: u64,
        told: &Told,
    ) -> Result<TellOutcome, StudyError> {
        match told {
            Told::Value(_) | Told::Numbers(_) => self.definition.check_numbers(told.numbers())?,
            Told::Stopped { value, .. } if !value.is_finite() => {
                return Err(StudyError::NotFinite { value: *value });
            }
            Told::Stopped { .. } | Told::Failed { .. } | Told::Discarded => {}
        }
        Ok(self.storage.finish(self.key, number, teller, told)?)
    }

    /// Returns the storage and the study's key in it.
    pub(crate) fn stored(&self) -> (&dyn Storage, StudyKey) {
        (&*self.storage, self.key)
    }

    /// Adds a user-supplied point as a trial that waits for the next worker.
    ///
    /// # Errors
    /// Fails if the point is not in the space, the point is already a trial (unless the study is
    /// noisy), or the storage fails.
    pub fn enqueue(&self, point: &Point) -> Result<Trial, StudyError> {
        let point = self.space.normalize(point)?;
        let new = NewTrial {
            unique: !self.definition.noisy,
            ..NewTrial::new(encoding(&self.space, &point)?, point, "enqueued")
        };
        match self.storage.add(self.key, &new)? {
            AddOutcome::Trial(trial) => Ok(trial),
            AddOutcome::Duplicate { number } => Err(StudyError::Duplicate { number }),
            AddOutcome::Overtaken | AddOutcome::Full => {
                unreachable!("neither a number nor a limit was given")
            }
        }
    }

    /// Adds trials that were evaluated elsewhere, with their numbers, atomically. Duplicate points
    /// are allowed.
    pub(crate) fn add_imported(&self, trials: &[(Point, Vec<f64>)]) -> Result<(), StudyError> {
        let told = |(point, numbers): &(Point, Vec<f64>)| {
            let new = NewTrial {
                holder: Some((Worker::by_hand(), None)),
                ..NewTrial::new(encoding(&self.space, point)?, point.clone(), "imported")
            };
            Ok((new, Told::with_numbers(numbers.clone())))
        };
        let told = trials.iter().map(told).collect::<Result<Vec<_>, StudyError>>()?;
        Ok(self.storage.add_told(self.key, &told)?)
    }

    /// Enqueues the point of a failed trial as a new trial that waits for the next worker.
    ///
    /// The failure remains stored. Once the new trial finishes, the failure no longer counts for
    /// the model or for the number of trials.
    ///
    /// # Errors
    /// Fails if the trial did not fail or has already been retried, or if the storage fails.
    pub fn retry(&self, number: u64) -> Result<Trial, StudyError> {
        let trials = self.trials()?;
        let n_trials = trials.len() as u64;
        let trial = trials.iter().find(|trial| trial.number == number);
        let trial = trial.ok_or(StorageError::NoTrial { number, n_trials })?;
        if !matches!(trial.told(), Some(Told::Failed { .. })) {
            let state = trial.state.word();
            return Err(StudyError::NotFailed { number, state });
        }
        let mut later = trials.iter();
        if let Some(by) = later.find(|later| is_retry(later, number)) {
            let by = by.number;
            return Err(StudyError::AlreadyRetried { number, by });
        }
        let mut waiting = self.enqueue_retries(|trial| trial.number == number)?;
        match waiting.pop() {
            Some(trial) => Ok(trial),
            // Another process enqueued the point at the same time. The next attempt finds that
            // trial.
            None => self.retry(number),
        }
    }

    /// Retries all failed trials that have not been retried yet. Returns the new trials, in the
    /// order of the failed trials.
    ///
    /// # Errors
    /// Fails if the storage fails.
    pub fn retry_failed(&self) -> Result<Vec<Trial>, StudyError> {
        self.enqueue_retries(|_| true)
    }

    /// Retries the given trials that failed and have not been retried yet.
    ///
    /// # Errors
    /// Fails if the storage fails.
    pub fn retry_those(&self, numbers: &BTreeSet<u64>) -> Result<Vec<Trial>, StudyError> {
        self.enqueue_retries(|trial| numbers.contains(&trial.number))
    }

    /// Stops the study. All running [`Study::run`] calls on it, in any process, start no further
    /// trials and return once their running trials have finished.
    ///
    /// Later runs, and asks outside of a run, are not affected. `by` names the program that
    /// requested the stop.
    ///
    /// # Errors
    /// Fails if the storage fails.
    pub fn stop(&self, by: &str) -> Result<Stop, StudyError> {
        Ok(self.storage.stop(self.key, by)?)
    }

    /// Returns the last stop; `None` if the study was never stopped.
    ///
    /// # Errors
    /// Fails if the storage fails.
    pub fn last_stop(&self) -> Result<Option<Stop>, StudyError> {
        Ok(self.storage.last_stop(self.key)?)
    }

    fn enqueue_retries(&self, is_meant: impl Fn(&Trial) -> bool) -> Result<Vec<Trial>, StudyError> {
        let mut added: Vec<Trial> = Vec::new();
        for _ in 0..ATTEMPTS_MAX {
            let trials = self.trials()?;
            let retried = retried(&trials);
            let mut number = trials.len() as u64;
            let mut overtaken = false;
            for trial in &trials {
                let is_failed = matches!(trial.told(), Some(Told::Failed { .. }));
                if !is_failed || retried.contains(&trial.number) || !is_meant(trial) {
                    continue;
                }
                let new = NewTrial {
                    encoding: encoding(&self.space, &trial.point)?,
                    point: trial.point.clone(),
                    source: trial.source_of_retry(),
                    ask_seconds: 0.0,
                    holder: None,
                    unique: false,
                    // The number must still be free. Of concurrent retries, one gets it and the
                    // others are overtaken, so no trial is retried twice.
                    number: Some(number),
                    limit: None,
                };
                match self.storage.add(self.key, &new)? {
                    AddOutcome::Trial(trial) => added.push(trial),
                    AddOutcome::Overtaken | AddOutcome::Full | AddOutcome::Duplicate { .. } => {
                        overtaken = true;
                        break;
                    }
                }
                number += 1;
            }
            if !overtaken {
                return Ok(added);
            }
        }
        Err(StudyError::Overtaken { attempts: ATTEMPTS_MAX })
    }

    /// Releases a manually leased trial to other workers.
    ///
    /// # Errors
    /// Fails if another worker holds the trial, the trial has ended, or the storage fails.
    pub fn release_trial(&self, number: u64) -> Result<(), StudyError> {
        self.release_trial_as(TellAuthority::Hand, number)
    }

    /// Releases a trial to other workers, on the authority of its holder or a person.
    ///
    /// # Errors
    /// Same as [`Study::release_trial`].
    pub fn release_trial_as(
        &self,
        teller: TellAuthority<'_>,
        number: u64,
    ) -> Result<(), StudyError> {
        Ok(self.storage.release_trial(self.key, number, teller)?)
    }

    pub(crate) fn keep_report(
        &self,
        number: u64,
        teller: TellAuthority<'_>,
        report: Report,
    ) -> Result<ReportOutcome, StorageError> {
        self.storage.report(self.key, number, teller, report)
    }

    /// Returns the open trials, and the trials that finished after the given position in completion
    /// order.
    pub(crate) fn snapshot(&self, after: u64) -> Result<Snapshot, StorageError> {
        self.storage.snapshot(self.key, after)
    }

    /// Same as [`Study::snapshot`], but for each open trial in `from_epochs` (by number), reads
    /// only reports from this epoch on.
    pub(crate) fn snapshot_from(
        &self,
        after: u64,
        from_epochs: &BTreeMap<u64, u32>,
    ) -> Result<Snapshot, StorageError> {
        self.storage.snapshot_from(self.key, after, from_epochs)
    }

    pub(crate) fn judges(&self) -> MutexGuard<'_, Option<RuleEvaluator>> {
        // A panic cannot leave the evaluator inconsistent: trials are added completely or not at
        // all.
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Extends the leases of the worker's trials to `lease` from now. Trials that other workers
    /// hold now are not affected.
    ///
    /// # Errors
    /// Fails if the storage fails.
    pub fn renew(&self, worker: &Worker, lease: Duration) -> Result<(), StudyError> {
        Ok(self.storage.renew(self.key, &worker.id, lease)?)
    }

    /// Returns the inconsistencies between the stored trials and the study's definition, trial by
    /// trial: points outside the space, and wrong counts of numbers.
    ///
    /// # Errors
    /// Fails if the storage fails.
    pub fn check(&self) -> Result<Vec<String>, StudyError> {
        let n_numbers = self.definition.number_names().len();
        let problem = |trial: &Trial| match self.space.normalize(&trial.point) {
            _ if !trial.numbers().is_empty() && trial.numbers().len() != n_numbers => {
                let found = trial.numbers().len();
                Some(format!("it has {found} numbers, and the study has {n_numbers}"))
            }
            Ok(point) if point == trial.point => None,
            Ok(_) => {
                Some("its parameters do not match the order and types of the space".to_owned())
            }
            Err(error) => Some(error.to_string()),
        };
        let trials = self.trials()?;
        let problems = trials.iter().filter_map(|trial| problem(trial).map(|what| (trial, what)));
        Ok(problems.map(|(trial, what)| format!("trial {}: {what}", trial.number)).collect())
    }

    /// Returns the trials that have not ended, in ask order.
    ///
    /// # Errors
    /// Fails if the storage fails.
    pub fn open_trials(&self) -> Result<Vec<Trial>, StudyError> {
        Ok(self.storage.snapshot(self.key, u64::MAX >> 1)?.open)
    }

    /// Returns all trials, in ask order.
    ///
    /// # Errors
    /// Fails if the storage fails.
    pub fn trials(&self) -> Result<Vec<Trial>, StudyError> {
        Ok(self.storage.trials(self.key)?)
    }

    /// Returns the feasible trial with the best value, the earliest of equals; `None` while there
    /// is no such trial.
    ///
    /// # Errors
    /// Fails if the study has multiple objectives, or if the storage fails.
    pub fn best(&self) -> Result<Option<Trial>, StudyError> {
        if self.definition.outcomes().n_objectives > 1 {
            return Err(StudyError::SeveralObjectives { name: self.definition.name.clone() });
        }
        Ok(self.best_trials()?.pop())
    }

    /// Returns the feasible trials that no other trial dominates, in ask order.
    ///
    /// Of equal trials, only the earliest is returned. With one objective, returns only the best
    /// trial. Empty while no trial is feasible.
    ///
    /// # Errors
    /// Fails if the storage fails.
    pub fn best_trials(&self) -> Result<Vec<Trial>, StudyError> {
        let trials = self.trials()?;
        Ok(self.definition.best_trials(&trials).into_iter().cloned().collect())
    }

    /// Fits a surrogate to all finished trials and returns its estimates; `None` while there are
    /// fewer than two values.
    ///
    /// The surrogate is fitted on each call, so this also works for strategies without a surrogate.
    ///
    /// # Errors
    /// Fails if the storage or the surrogate fails.
    pub fn insight(&self) -> Result<Option<Insight>, StudyError> {
        Insight::of(&self.definition, &self.space, self.trials()?)
    }

    /// Same as [`Study::insight`], for one of multiple objectives, by index. Ignores constraints.
    ///
    /// # Errors
    /// Same as [`Study::insight`].
    ///
    /// # Panics
    /// Panics if the study has no such objective.
    pub fn insight_of(&self, objective: usize) -> Result<Option<Insight>, StudyError> {
        if self.definition.objectives.is_empty() {
            return self.insight();
        }
        let trials = self.trials()?;
        let (definition, alone) = self.definition.of_objective(objective, trials.clone());
        let mut insight = Insight::of(&definition, &self.space, alone)?;
        if let Some(insight) = &mut insight
            && let Some(whole) =
                trials.into_iter().find(|trial| trial.number == insight.best_by_mean.number)
        {
            insight.best_by_mean = whole; // restores all its numbers
        }
        Ok(insight)
    }

    /// Returns the surrogate over the parameters `x` and `y`, with all other parameters as in
    /// [`Insight::best_by_mean`]; `None` while there are fewer than two values.
    ///
    /// The surrogate is fitted on each call. The cost is O(n³ + m n²) for n values and m ≤ 625
    /// points.
    ///
    /// # Errors
    /// Fails if the space has no such parameters, or if the storage or the surrogate fails.
    pub fn surface(&self, x: &str, y: &str) -> Result<Option<Surface>, StudyError> {
        Surface::of(&self.definition, &self.space, self.trials()?, [x, y])
    }

    /// Returns the influence of old studies on the next query; `None` if the study does not learn
    /// from any.
    ///
    /// The first call fits their models.
    ///
    /// # Errors
    /// Fails if the storage or a model fails.
    pub fn transfer(&self) -> Result<Option<TransferStep>, StudyError> {
        let Some(meta) = self.learned_from() else {
            return Ok(None);
        };
        let mut slot = self.model();
        let model = self.built(&mut slot)?;
        let snapshot = self.news(model)?;
        self.absorb(model, &snapshot.told)?;
        let units = Units::of(meta);
        let n_told = model.n_told();
        Ok(model.transfer().map(|transfer| units.step(n_told, transfer)))
    }

    /// Same as [`Study::transfer`], but before the first trial and after each finished trial, in
    /// completion order. Recomputed from the stored trials.
    ///
    /// # Errors
    /// Fails if the storage or a model fails.
    pub fn transfer_history(&self) -> Result<Option<Vec<TransferStep>>, StudyError> {
        let Some(meta) = self.learned_from() else {
            return Ok(None);
        };
        let units = Units::of(meta);
        let mut model = self.new_model()?;
        let told = self.storage.snapshot(self.key, 0)?.told;
        let mut steps = Vec::with_capacity(told.len() + 1);
        steps.extend(model.transfer().map(|transfer| units.step(0, transfer)));
        for (index, trial) in told.iter().enumerate() {
            if trial.retry_of().is_some() {
                model = self.new_model()?;
                model.absorb(&told[..=index])?;
            } else {
                model.absorb(std::slice::from_ref(trial))?;
            }
            let n_told = model.n_told();
            steps.extend(model.transfer().map(|transfer| units.step(n_told, transfer)));
        }
        Ok(Some(steps))
    }

    /// Returns the open trials, and the finished trials that the model does not have.
    ///
    /// A correction changes a trial that the model may have. The model is then rebuilt from all
    /// finished trials, so that it remains a function of these trials.
    fn news(&self, model: &mut Model) -> Result<Snapshot, StudyError> {
        let mut snapshot = self.storage.snapshot(self.key, model.n_told())?;
        if snapshot.last_correction != model.last_correction() {
            if model.n_told() > 0 {
                snapshot = self.storage.snapshot(self.key, 0)?;
                *model = self.new_model()?;
            }
            model.set_last_correction(snapshot.last_correction);
        }
        Ok(snapshot)
    }

    /// Updates a model with newly finished trials.
    ///
    /// A failure counts until a retry of its point finishes. The model is then rebuilt without the
    /// failure, so that it remains a function of the finished trials, independent of their batches.
    fn absorb(&self, model: &mut Model, told: &[Trial]) -> Result<(), StudyError> {
        if told.iter().all(|trial| trial.retry_of().is_none()) {
            return model.absorb(told);
        }
        let mut all = self.storage.snapshot(self.key, 0)?.told;
        all.truncate(model.n_known().saturating_add(told.len()));
        let last_correction = model.last_correction();
        *model = self.new_model()?;
        model.set_last_correction(last_correction);
        model.absorb(&all)
    }

    /// Returns the old studies, if the strategy learns from them. Their best points can be
    /// evaluated first even if it does not.
    fn learned_from(&self) -> Option<&MetaSpec> {
        let meta = self.definition.meta.as_ref()?;
        self.definition.strategy.requires_old_studies().then_some(meta)
    }

    fn built<'a>(&self, slot: &'a mut Option<Model>) -> Result<&'a mut Model, StudyError> {
        Ok(match slot {
            Some(model) => model,
            empty => empty.insert(self.new_model()?),
        })
    }

    /// Creates a model without trials.
    fn new_model(&self) -> Result<Model, StudyError> {
        Model::new(&self.definition, self.own.as_deref())
    }

    fn model(&self) -> MutexGuard<'_, Option<Model>> {
        // A panic during a proposal does not change the model, and trials are added completely or
        // not at all.
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if a trial retries the trial with this number and is not discarded.
pub(crate) fn is_retry(trial: &Trial, number: u64) -> bool {
    trial.retry_of() == Some(number) && !trial.is_discarded()
}

/// Encodes a point as bytes, which are equal for equal trials: its coordinates, with -0 normalized
/// to 0.
pub(crate) fn encoding(space: &Space, point: &Point) -> Result<Vec<u8>, StudyError> {
    let unit = space.encode(point)?;
    Ok(unit.iter().flat_map(|v| (v + 0.0).to_le_bytes()).collect())
}

/// Validates a definition. Returns its space, and its model if the model needs no fit.
fn prepared(definition: &Definition) -> Result<(Space, Option<Model>), StudyError> {
    let space = definition.check()?;
    let model = match (&definition.meta, definition.strategy) {
        (Some(_), _) | (_, StrategySpec::Own(_)) => None,
        (None, _) => Some(Model::new(definition, None)?),
    };
    Ok((space, model))
}
