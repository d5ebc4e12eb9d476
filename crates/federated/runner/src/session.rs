//! A federation in one process: drives the agents' and the coordinator's state machines, in parallel over agents.
//!
//! Results do not depend on the number of threads: agents share nothing within a wave, and the coordinator hears them in
//! the order of their indices.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fedbo_gp::MapHash;
use fedbo_objective::{Objective, Outcome, TrialId, evaluate_guarded};
use fedbo_protocol::{
    Agent, AgentEffect, AgentError, AgentEvent, AgentUpdate, Broadcast, Coordinator, Effect,
    Handout, Relay, ReportRejected, RoundError, Tick, Trial, UpdateRejected, UsesHandouts,
};
use fedbo_space::{Direction, Point};
use rayon::prelude::*;

use crate::release_store::{NullReleaseStore, ReleaseStore};

/// In process nothing has a set instant: time stands still.
const NOW: Tick = 0;

/// The map from unit-cube coordinates to a point of the agent's objective.
pub type Decoder = Arc<dyn Fn(&[f64]) -> Point + Send + Sync>;

/// An agent that optimizes, with its objective.
pub struct Member<S: UsesHandouts> {
    /// The state machine.
    pub agent: Agent<S>,
    /// The objective that it tunes.
    pub objective: Arc<dyn Objective>,
    /// From coordinates to points.
    pub decoder: Decoder,
    /// The direction in which values are better.
    pub direction: Direction,
}

/// One finished trial.
#[derive(Clone, Debug)]
pub struct TrialRecord {
    /// Index of the agent.
    pub agent: u32,
    /// The query.
    pub trial: Trial,
    /// The point in the objective's own parameters.
    pub point: Point,
    /// The outcome; never [`Outcome::Interrupted`].
    pub outcome: Outcome,
    /// Seconds that the agent took to decide on the query; 0 for initial points.
    pub ask_seconds: f64,
}

/// The events that the owner of a driver can observe.
pub trait Observer: Sync {
    /// A trial has ended, in whatever order trials end: for progress only.
    fn trial_ended(&self, record: &TrialRecord) {
        let _ = record;
    }

    /// A wave of at most one trial an agent has ended; records come in the order of agents, the same in every run.
    ///
    /// # Errors
    /// An error ends the session.
    fn wave_ended(&mut self, records: &[TrialRecord]) -> anyhow::Result<()> {
        let _ = records;
        Ok(())
    }

    /// Returns true if the session is to end after the wave that has ended, as if it were interrupted.
    fn halts(&self) -> bool {
        false
    }

    /// A message or a release was refused; the session goes on.
    fn refused(&self, rejected: &UpdateRejected) {
        let _ = rejected;
    }
}

/// An observer that wants nothing.
pub struct NullObserver;

impl Observer for NullObserver {}

/// The way in which a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every agent's plan is done.
    Complete,
    /// The stop flag was set.
    Interrupted,
}

/// The reason why a session could not go on.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// An agent failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// Nobody has anything to do although a plan is not done: members plan different rounds or neighbours.
    #[error("the federation stands still: members plan different rounds or neighbours")]
    Stalled,
    /// The coordinator failed.
    #[error(transparent)]
    Round(#[from] RoundError),
    /// A peer refused another's report, which in one process is a defect of the program.
    #[error(transparent)]
    Report(ReportRejected),
    /// A release could not be looked up or made durable; nothing of it has left.
    #[error("round {round} cannot be released")]
    Store {
        /// The round.
        round: u64,
        /// The reason.
        source: anyhow::Error,
    },
    /// The observer failed, for instance because the disk is full.
    #[error(transparent)]
    Observer(#[from] anyhow::Error),
}

/// A member with what it has to do next.
struct MemberState<'a, S: UsesHandouts> {
    member: &'a mut Member<S>,
    next: Option<(Trial, f64)>,
    upload: Option<AgentUpdate>,
    finished: bool,
}

impl<S: UsesHandouts> MemberState<'_, S> {
    fn is_evaluating(&self) -> bool {
        self.next.is_some() || self.upload.is_some()
    }

    /// Sorts effects into this state; refused messages go to `refused`.
    fn take(
        &mut self,
        effects: Vec<AgentEffect>,
        ask_seconds: f64,
        refused: &mut Vec<UpdateRejected>,
    ) {
        for effect in effects {
            match effect {
                AgentEffect::Evaluate(trial) => self.next = Some((trial, ask_seconds)),
                AgentEffect::Upload(update) => self.upload = Some(update),
                AgentEffect::Refused(rejected) => refused.push(rejected),
                AgentEffect::Finished => self.finished = true,
            }
        }
    }

    /// Evaluates the pending trial, if there is one, and tells the agent. `None` if it was interrupted.
    fn evaluate(&mut self, observer: &dyn Observer) -> Result<Option<TrialRecord>, AgentError> {
        let Some((trial, ask_seconds)) = self.next.take() else {
            return Ok(None);
        };
        let agent = self.member.agent.id();
        let point = (self.member.decoder)(&trial.unit);
        let id = TrialId { agent: u64::from(agent), trial: trial.index };
        let outcome = evaluate_guarded(self.member.objective.as_ref(), &point, id);
        let value = match &outcome {
            Outcome::Value(value) => Some(self.member.direction.to_maximize(*value)),
            Outcome::Failed(_) => None,
            Outcome::Interrupted => return Ok(None),
        };
        let record = TrialRecord { agent, trial, point, outcome, ask_seconds };
        observer.trial_ended(&record);
        let effects =
            self.member.agent.handle(AgentEvent::Evaluated { trial: record.trial.index, value })?;
        self.take(effects, 0.0, &mut Vec::new());
        Ok(Some(record))
    }
}

/// Runs members that get everybody's messages to the end of their plans, with `contributions` at hand before the first round.
///
/// # Errors
/// As [`run_session`].
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
    // No deadline: trials carry their own time limits, and waiting for all keeps a run reproducible.
    let mut relay = Relay::new(participants, contributors, message_len, map, None, NOW);
    let store = &mut NullReleaseStore;
    run_session(members, contributions, &mut relay, store, observer, stop)
}

/// Runs members to the end of their plans, with `contributions` delivered to the coordinator before the first trial.
///
/// Runs on the current rayon pool. When `stop` is set, running trials are abandoned and everything finished has been
/// handed to the observer; a round that was not closed then leaves nothing behind.
///
/// # Errors
/// If an agent, the coordinator, the store or the observer fails; everything finished before has been handed to the
/// observer.
pub fn run_session<S, C>(
    members: &mut [Member<S>],
    contributions: Vec<AgentUpdate>,
    coordinator: &mut C,
    store: &mut dyn ReleaseStore,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Ended, SessionError>
where
    S: UsesHandouts,
    S::Handout: Send + Sync,
    C: Coordinator<Handout = S::Handout>,
{
    let mut driver = CoordinatorDriver { coordinator, store, handout: None };
    driver.start(observer)?;
    driver.deliver(contributions, observer)?;
    let mut states: Vec<MemberState<'_, S>> = members
        .iter_mut()
        .map(|member| MemberState { member, next: None, upload: None, finished: false })
        .collect();
    for state in &mut states {
        let effects = state.member.agent.start()?;
        state.take(effects, 0.0, &mut Vec::new());
    }
    loop {
        let shared: &dyn Observer = observer;
        let results: Vec<Result<Option<TrialRecord>, AgentError>> =
            states.par_iter_mut().map(|state| state.evaluate(shared)).collect();
        let mut failure = None;
        let mut records = Vec::new();
        for result in results {
            match result {
                Ok(record) => records.extend(record),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        observer.wave_ended(&records)?;
        if let Some(error) = failure {
            return Err(error.into());
        }
        if stop.load(Ordering::Relaxed) || observer.halts() {
            return Ok(Ended::Interrupted);
        }
        let uploads = states.iter_mut().filter_map(|state| state.upload.take());
        driver.deliver(uploads, observer)?;
        loop {
            if states.iter().all(|state| state.finished) {
                return Ok(Ended::Complete);
            }
            if let Some(handout) = driver.handout.take() {
                begin_round(&mut states, &handout, observer)?;
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

/// The coordinator, with what it asks for.
struct CoordinatorDriver<'a, C: Coordinator> {
    coordinator: &'a mut C,
    store: &'a mut dyn ReleaseStore,
    /// To be given to the agents.
    handout: Option<C::Handout>,
}

impl<C: Coordinator> CoordinatorDriver<'_, C> {
    fn start(&mut self, observer: &dyn Observer) -> Result<(), SessionError> {
        let effects = self.coordinator.start(NOW);
        self.apply_effects(effects, observer)
    }

    /// Delivers updates in order.
    fn deliver(
        &mut self,
        updates: impl IntoIterator<Item = AgentUpdate>,
        observer: &dyn Observer,
    ) -> Result<(), SessionError> {
        for update in updates {
            let effects = self.coordinator.receive(update, NOW);
            self.apply_effects(effects, observer)?;
        }
        Ok(())
    }

    /// Says that nobody is at work.
    fn idle(&mut self, observer: &dyn Observer) -> Result<(), SessionError> {
        let effects = self.coordinator.idle(NOW);
        self.apply_effects(effects, observer)
    }

    /// Carries out effects, and those that follow from the answers to them.
    fn apply_effects(
        &mut self,
        effects: Vec<Effect<C::Handout>>,
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
                    queue.extend(self.coordinator.recalled(round, stored.as_deref(), NOW)?);
                }
                Effect::Commit { round, bytes, event } => {
                    // INV-1: charge and bytes are durable before the coordinator hands anything out.
                    self.store
                        .commit(round, event.as_ref(), &bytes)
                        .map_err(|source| SessionError::Store { round, source })?;
                    queue.extend(self.coordinator.committed(round, NOW)?);
                }
            }
        }
        Ok(())
    }
}

fn begin_round<S>(
    states: &mut [MemberState<'_, S>],
    handout: &S::Handout,
    observer: &dyn Observer,
) -> Result<(), SessionError>
where
    S: UsesHandouts,
    S::Handout: Send + Sync,
{
    let refused: Vec<Result<Vec<UpdateRejected>, AgentError>> = states
        .par_iter_mut()
        .filter(|state| !state.finished)
        .map(|state| {
            let started = Instant::now();
            let effects = state.member.agent.handle(AgentEvent::Broadcast(handout.clone()))?;
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
