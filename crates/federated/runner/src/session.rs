//! Sessions of a federation in one process, which drive the coordinator's state machine and, in
//! parallel, those of the agents.
//!
//! Results do not depend on the number of threads, because agents share nothing within a wave, and
//! the coordinator receives their messages in the order of their indices.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fedbo_gp::MapHash;
use fedbo_objective::{Objective, Outcome, Problem, TrialId, evaluate_guarded};
use fedbo_protocol::{
    Agent, AgentEffect, AgentError, AgentEvent, AgentUpdate, Broadcast, Coordinator, Effect,
    Handout, Relay, ReportRejected, RoundError, Tick, Trial, UpdateRejected, UsesHandouts,
};
use fedbo_space::{Direction, Point, Space};
use rayon::prelude::*;

use crate::release_store::{ReleaseStore, UnchargedReleases};

/// The time in sessions with rounds, where events have no scheduled times.
const NOW: Tick = 0;

/// The durations of trials and windows of a session at a free pace, in virtual time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeTimes {
    /// Duration of each member's trials, at least 1.
    pub trials: Vec<Tick>,
    /// The last window. After it, agents continue with the information that they have.
    pub last_window: u64,
}

/// Maps unit-cube coordinates to a point in the objective's parameter space.
pub type Decoder = Arc<dyn Fn(&[f64]) -> Point + Send + Sync>;

/// Evaluates a member's points: its objective, and the mapping from unit-cube coordinates.
#[derive(Clone)]
pub struct Evaluation {
    /// The objective.
    pub objective: Arc<dyn Objective>,
    /// The mapping from coordinates to points.
    pub decoder: Decoder,
    /// The direction of optimization.
    pub direction: Direction,
}

impl Evaluation {
    /// Evaluates an objective in a space.
    #[must_use]
    pub fn new(space: Space, objective: Arc<dyn Objective>, direction: Direction) -> Self {
        Self { objective, decoder: Arc::new(move |unit| space.decode(unit)), direction }
    }

    /// Evaluates a problem in its own space.
    #[must_use]
    pub fn of(problem: Arc<dyn Problem>) -> Self {
        let (space, direction) = (problem.space().clone(), problem.direction());
        Self::new(space, problem, direction)
    }
}

/// An agent that optimizes, with its objective.
pub struct Member<S: UsesHandouts> {
    /// The state machine.
    pub agent: Agent<S>,
    /// The objective that the agent tunes.
    pub evaluation: Evaluation,
}

/// One finished trial.
#[derive(Clone, Debug)]
pub struct TrialRecord {
    /// Index of the agent.
    pub agent: u32,
    /// The query.
    pub trial: Trial,
    /// The point in the objective's parameter space.
    pub point: Point,
    /// The outcome; never [`Outcome::Interrupted`].
    pub outcome: Outcome,
    /// Seconds that the agent took to decide on the query; 0 for initial points.
    pub ask_seconds: f64,
}

impl TrialRecord {
    /// Returns the value to pass to the state machine, to be maximized; `None` if the trial failed.
    pub(crate) fn told(&self, direction: Direction) -> Option<f64> {
        match &self.outcome {
            Outcome::Value(value) => Some(direction.to_maximize(*value)),
            // Trials in a federation have a single value. Outcomes with several numbers count as
            // failed.
            Outcome::Failed(_)
            | Outcome::Interrupted
            | Outcome::Numbers(_)
            | Outcome::Measured(_) => None,
        }
    }
}

/// Receives the events of a session.
pub trait Observer: Sync {
    /// Called when a trial has ended. The order of calls is not deterministic, so use it for
    /// progress only.
    fn trial_ended(&self, record: &TrialRecord) {
        let _ = record;
    }

    /// Called when a wave of at most one trial per agent has ended. Records are ordered by agent,
    /// so that their order is deterministic.
    ///
    /// # Errors
    /// An error ends the session.
    fn wave_ended(&mut self, records: &[TrialRecord]) -> anyhow::Result<()> {
        let _ = records;
        Ok(())
    }

    /// Called after each wave. Return true to end the session, as if it had been interrupted.
    fn halts(&self) -> bool {
        false
    }

    /// Called when a message or a release was refused. The session continues.
    fn refused(&self, rejected: &UpdateRejected) {
        let _ = rejected;
    }
}

/// An observer that ignores all events.
pub struct NullObserver;

impl Observer for NullObserver {}

/// The reason that a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every agent has completed its plan.
    Complete,
    /// The stop flag was set.
    Interrupted,
}

/// The reason that a session failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// An agent failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// No member can proceed although a plan is incomplete, because members have different rounds
    /// or neighbours.
    #[error("the federation is blocked: its members have different rounds or neighbours")]
    Stalled,
    /// The coordinator failed.
    #[error(transparent)]
    Round(#[from] RoundError),
    /// A peer refused another peer's report. In one process, this is a bug.
    #[error(transparent)]
    Report(ReportRejected),
    /// A release could not be looked up or made durable. No part of the release has left the
    /// process.
    #[error("round {round} cannot be released")]
    Store {
        /// The round.
        round: u64,
        /// The reason.
        source: anyhow::Error,
    },
    /// The observer failed, for example because the disk is full.
    #[error(transparent)]
    Observer(#[from] anyhow::Error),
}

/// A running trial.
pub(crate) struct Running {
    trial: Trial,
    ask_seconds: f64,
    /// The time at which it ends.
    ends: Tick,
    /// Present after the evaluation, which can happen before the trial ends in virtual time.
    pub(crate) record: Option<TrialRecord>,
}

impl Running {
    pub(crate) fn new(trial: Trial, ask_seconds: f64, ends: Tick) -> Self {
        Self { trial, ask_seconds, ends, record: None }
    }

    /// Evaluates the trial, unless it is already evaluated. Returns false if it was interrupted.
    pub(crate) fn evaluate(
        &mut self,
        agent: u32,
        evaluation: &Evaluation,
        observer: &dyn Observer,
    ) -> bool {
        if self.record.is_some() {
            return true;
        }
        let point = (evaluation.decoder)(&self.trial.unit);
        let id = TrialId { agent: u64::from(agent), trial: self.trial.index };
        let outcome = evaluate_guarded(evaluation.objective.as_ref(), &point, id);
        if matches!(outcome, Outcome::Interrupted) {
            return false;
        }
        let (trial, ask_seconds) = (self.trial.clone(), self.ask_seconds);
        let record = TrialRecord { agent, trial, point, outcome, ask_seconds };
        observer.trial_ended(&record);
        self.record = Some(record);
        true
    }
}

/// A member, with its pending work.
struct MemberState<'a, S: UsesHandouts> {
    member: &'a mut Member<S>,
    running: Option<Running>,
    upload: Option<AgentUpdate>,
    finished: bool,
    now: Tick,
    /// The duration of the member's trials.
    trial_time: Tick,
}

impl<'a, S: UsesHandouts> MemberState<'a, S> {
    fn new(member: &'a mut Member<S>, trial_time: Tick) -> Self {
        Self { member, running: None, upload: None, finished: false, now: NOW, trial_time }
    }

    fn is_evaluating(&self) -> bool {
        self.running.is_some() || self.upload.is_some()
    }

    /// Returns true if the member is between two trials, at a free pace.
    fn is_ready(&self) -> bool {
        !self.finished && self.running.is_none()
    }

    fn ends(&self) -> Option<Tick> {
        self.running.as_ref().map(|running| running.ends)
    }

    /// Stores effects in this state. Refused messages are added to `refused`.
    fn take(
        &mut self,
        effects: Vec<AgentEffect>,
        ask_seconds: f64,
        refused: &mut Vec<UpdateRejected>,
    ) {
        for effect in effects {
            match effect {
                AgentEffect::Evaluate(trial) => {
                    let ends = self.now.saturating_add(self.trial_time);
                    self.running = Some(Running::new(trial, ask_seconds, ends));
                }
                AgentEffect::Upload(update) => self.upload = Some(update),
                AgentEffect::Refused(rejected) => refused.push(rejected),
                AgentEffect::Finished => self.finished = true,
            }
        }
    }

    /// Evaluates the running trial, unless it is already evaluated. Returns false if it was
    /// interrupted.
    fn evaluate(&mut self, observer: &dyn Observer) -> bool {
        let Member { agent, evaluation } = &*self.member;
        self.running
            .as_mut()
            .is_none_or(|running| running.evaluate(agent.id(), evaluation, observer))
    }

    /// Passes the result of a trial that has ended by `now` to the agent, if there is one.
    fn end_trial(&mut self, now: Tick) -> Result<Option<TrialRecord>, AgentError> {
        self.now = now;
        let has_ended = |running: &mut Running| running.ends <= now && running.record.is_some();
        let Some(record) = self.running.take_if(has_ended).and_then(|running| running.record)
        else {
            return Ok(None);
        };
        let (trial, value) = (record.trial.index, record.told(self.member.evaluation.direction));
        let effects = self.member.agent.handle(AgentEvent::Evaluated { trial, value })?;
        self.take(effects, 0.0, &mut Vec::new());
        Ok(Some(record))
    }
}

/// Runs members that receive all messages, to the end of their plans. `contributions` are available
/// before the first round.
///
/// # Errors
/// Same as [`run_session`].
pub fn run_relayed<S: UsesHandouts<Handout = Broadcast>>(
    members: &mut [Member<S>],
    contributions: Vec<AgentUpdate>,
    message_len: usize,
    map: MapHash,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Ended, SessionError> {
    let participants = members.iter().map(|member| member.agent.id()).collect();
    let contributors = contributions.iter().map(|update| update.sender).collect();
    // There is no deadline, because trials have their own time limits and waiting for all members
    // keeps a run reproducible.
    let mut relay = Relay::new(participants, contributors, message_len, map, None, NOW);
    let store = &mut UnchargedReleases;
    run_session(members, contributions, &mut relay, store, observer, stop)
}

/// Runs members to the end of their plans. `contributions` are delivered to the coordinator before
/// the first trial.
///
/// Runs on the current rayon pool. If `stop` is set, running trials are abandoned, all finished
/// trials have been passed to the observer on return, and an open round leaves nothing behind.
///
/// # Errors
/// If an agent, the coordinator, the store or the observer fails. All trials that finished before
/// the failure have been passed to the observer.
pub fn run_session<S: UsesHandouts, C: Coordinator<Handout = S::Handout>>(
    members: &mut [Member<S>],
    contributions: Vec<AgentUpdate>,
    coordinator: &mut C,
    store: &mut dyn ReleaseStore,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Ended, SessionError> {
    let mut driver = CoordinatorDriver { coordinator, store, handout: None };
    driver.start(observer)?;
    driver.deliver(contributions, NOW, observer)?;
    let mut states: Vec<_> = members.iter_mut().map(|member| MemberState::new(member, 0)).collect();
    start(&mut states)?;
    loop {
        if !end_trials(&mut states, NOW, observer)? || stop.load(Ordering::Relaxed) {
            return Ok(Ended::Interrupted);
        }
        let uploads = states.iter_mut().filter_map(|state| state.upload.take());
        driver.deliver(uploads, NOW, observer)?;
        loop {
            if states.iter().all(|state| state.finished) {
                return Ok(Ended::Complete);
            }
            if let Some(handout) = driver.handout.take() {
                let event = AgentEvent::Broadcast(handout);
                tell(&mut states, |state| !state.finished, &event, observer)?;
            }
            if states.iter().any(MemberState::is_evaluating) {
                break;
            }
            driver.idle(observer)?;
            if driver.handout.is_none() {
                return Err(SessionError::Stalled);
            }
        }
    }
}

/// Runs members at a free pace to the end of their plans, in virtual time. Windows close at
/// scheduled times, trials take the durations in `times`, and no member waits.
///
/// Events at the same time are ordered: results come first, then messages and handouts, then the
/// next queries. If all trials take as long as a window, agents therefore behave as in rounds.
///
/// # Errors
/// Same as [`run_session`].
pub fn run_free_session<S: UsesHandouts, C: Coordinator<Handout = S::Handout>>(
    members: &mut [Member<S>],
    times: &FreeTimes,
    coordinator: &mut C,
    store: &mut dyn ReleaseStore,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Ended, SessionError> {
    let mut driver = CoordinatorDriver { coordinator, store, handout: None };
    driver.start(observer)?;
    let timed = members.iter_mut().zip(&times.trials);
    let mut states: Vec<_> =
        timed.map(|(member, time)| MemberState::new(member, (*time).max(1))).collect();
    start(&mut states)?;
    tell(&mut states, |state| state.is_ready(), &AgentEvent::Proceed, observer)?;
    let mut now = NOW;
    while !states.iter().all(|state| state.finished) {
        let is_open = driver.coordinator.round() <= times.last_window;
        let closes = driver.coordinator.deadline().filter(|_| is_open);
        let ends = states.iter().filter_map(MemberState::ends);
        now = ends.chain(closes).min().ok_or(SessionError::Stalled)?.max(now);
        if !end_trials(&mut states, now, observer)? || stop.load(Ordering::Relaxed) {
            let early = early_records(&mut states);
            if !early.is_empty() {
                observer.wave_ended(&early)?;
            }
            return Ok(Ended::Interrupted);
        }
        if closes.is_some_and(|instant| instant <= now) {
            let window = driver.coordinator.round();
            let uploads: Vec<Option<AgentUpdate>> = states
                .par_iter_mut()
                .map(|state| state.member.agent.upload(window))
                .collect::<Result<_, _>>()?;
            // Messages are sent while the window is still open.
            let before = now.saturating_sub(1);
            driver.deliver(uploads.into_iter().flatten(), before, observer)?;
            driver.tick(now, observer)?;
            if let Some(handout) = driver.handout.take() {
                let event = AgentEvent::Broadcast(handout);
                tell(&mut states, |state| !state.finished, &event, observer)?;
            }
        }
        tell(&mut states, |state| state.is_ready(), &AgentEvent::Proceed, observer)?;
    }
    Ok(Ended::Complete)
}

fn start<S: UsesHandouts>(states: &mut [MemberState<'_, S>]) -> Result<(), SessionError> {
    for state in states {
        let effects = state.member.agent.start()?;
        state.take(effects, 0.0, &mut Vec::new());
    }
    Ok(())
}

/// Evaluates the running trials in parallel and ends those that are due. Returns false if a trial
/// was interrupted or the observer ended the session. In this case, the observer has received all
/// finished evaluations.
fn end_trials<S: UsesHandouts>(
    states: &mut [MemberState<'_, S>],
    now: Tick,
    observer: &mut dyn Observer,
) -> Result<bool, SessionError> {
    let shared: &dyn Observer = observer;
    let is_due = |state: &MemberState<'_, S>| {
        let running = state.running.as_ref();
        running.is_some_and(|running| running.ends <= now && running.record.is_none())
    };
    // Evaluates all running trials in parallel, including those that end later, because their
    // points are already fixed.
    let is_whole = match states.iter().any(is_due) {
        false => true,
        true => {
            states.par_iter_mut().map(|state| state.evaluate(shared)).reduce(|| true, |a, b| a && b)
        }
    };
    let ended: Vec<Result<Option<TrialRecord>, AgentError>> =
        states.par_iter_mut().map(|state| state.end_trial(now)).collect();
    let mut failure = None;
    let mut records = Vec::new();
    for result in ended {
        match result {
            Ok(record) => records.extend(record),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    let continues = is_whole && failure.is_none();
    if !continues {
        records.extend(early_records(states));
    }
    observer.wave_ended(&records)?;
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(continues && !observer.halts()),
    }
}

/// Takes the trials that were evaluated but are not due yet, when the session ends early.
fn early_records<S: UsesHandouts>(states: &mut [MemberState<'_, S>]) -> Vec<TrialRecord> {
    states.iter_mut().filter_map(|state| state.running.take()?.record).collect()
}

/// Passes an event to the members selected by `hears`, in parallel.
fn tell<S: UsesHandouts>(
    states: &mut [MemberState<'_, S>],
    hears: impl Fn(&MemberState<'_, S>) -> bool + Sync + Send,
    event: &AgentEvent<S::Handout>,
    observer: &dyn Observer,
) -> Result<(), SessionError> {
    let refused: Vec<Result<Vec<UpdateRejected>, AgentError>> = states
        .par_iter_mut()
        .filter(|state| hears(state))
        .map(|state| {
            let started = Instant::now();
            let effects = state.member.agent.handle(event.clone())?;
            let mut refused = Vec::new();
            state.take(effects, started.elapsed().as_secs_f64(), &mut refused);
            Ok(refused)
        })
        .collect();
    for rejected in refused.into_iter().collect::<Result<Vec<_>, _>>()?.iter().flatten() {
        observer.refused(rejected);
    }
    Ok(())
}

/// The coordinator, with the store for its effects.
struct CoordinatorDriver<'a, C: Coordinator> {
    coordinator: &'a mut C,
    store: &'a mut dyn ReleaseStore,
    /// The next handout for the agents.
    handout: Option<C::Handout>,
}

impl<C: Coordinator> CoordinatorDriver<'_, C> {
    fn start(&mut self, observer: &dyn Observer) -> Result<(), SessionError> {
        let effects = self.coordinator.start(NOW);
        self.apply_effects(effects, NOW, observer)
    }

    /// Delivers updates in order.
    fn deliver(
        &mut self,
        updates: impl IntoIterator<Item = AgentUpdate>,
        now: Tick,
        observer: &dyn Observer,
    ) -> Result<(), SessionError> {
        for update in updates {
            let effects = self.coordinator.receive(update, now);
            self.apply_effects(effects, now, observer)?;
        }
        Ok(())
    }

    /// Advances the coordinator's time.
    fn tick(&mut self, now: Tick, observer: &dyn Observer) -> Result<(), SessionError> {
        let effects = self.coordinator.tick(now);
        self.apply_effects(effects, now, observer)
    }

    /// Informs the coordinator that no member has work.
    fn idle(&mut self, observer: &dyn Observer) -> Result<(), SessionError> {
        let effects = self.coordinator.idle(NOW);
        self.apply_effects(effects, NOW, observer)
    }

    /// Applies effects, including the effects that follow from them.
    fn apply_effects(
        &mut self,
        effects: Vec<Effect<C::Handout>>,
        now: Tick,
        observer: &dyn Observer,
    ) -> Result<(), SessionError> {
        let mut queue = VecDeque::from(effects);
        while let Some(effect) = queue.pop_front() {
            match effect {
                Effect::Broadcast(handout) => match &mut self.handout {
                    Some(kept) => kept.join(handout),
                    none => *none = Some(handout),
                },
                Effect::Refuse(rejected) => observer.refused(&rejected),
                Effect::Fail(error) => return Err(error.into()),
                Effect::Recall { round } => {
                    let stored = self.store.stored(round);
                    let stored = stored.map_err(|source| SessionError::Store { round, source })?;
                    queue.extend(self.coordinator.recalled(round, stored.as_deref(), now)?);
                }
                Effect::Commit { round, bytes, event, .. } => {
                    // INV-1: the charge and the bytes are durable before the coordinator hands
                    // anything out.
                    self.store
                        .commit(round, event.as_ref(), &bytes)
                        .map_err(|source| SessionError::Store { round, source })?;
                    queue.extend(self.coordinator.committed(round, now)?);
                }
            }
        }
        Ok(())
    }
}
