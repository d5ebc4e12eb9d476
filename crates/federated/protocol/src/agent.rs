//! The state machine of an agent, which evaluates its initial points and then alternates queries
//! and messages.

use std::collections::VecDeque;

use fedbo_strategies::{Observation, Points, Source, StrategyError, Surrogate};
use fedbo_streams::{Purpose, Seed};

use crate::{AgentUpdate, Handout, KnownMessages, UpdateRejected, UsesHandouts};

/// An agent's plan for a session, including earlier observations.
#[derive(Clone, Debug)]
pub struct AgentPlan {
    /// The agent's index in the federation.
    pub id: u32,
    /// Observations from before the session.
    pub history: Vec<Observation>,
    /// Initial points in unit-cube coordinates, evaluated before the first message.
    pub initial: Vec<Vec<f64>>,
    /// Number of rounds, each with one query by Thompson sampling; 0 for a contributor, which only
    /// sends one message. Missed rounds are not made up for.
    pub n_rounds: u64,
}

/// The upload settings of an agent at a free pace. The agent never waits; the driver requests
/// messages with [`Agent::upload`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreePace {
    /// Number of the agent's own queries between uploads, at least 1. There is no upload without a
    /// new observation.
    pub every: u64,
    /// Maximum number of uploads, or `None` for one per window.
    pub uploads_max: Option<u64>,
    /// Number of windows for which a message remains usable after its own window. Only applies to
    /// handouts that contain messages.
    pub max_age: u64,
}

/// The progress of an agent at a free pace, and the messages that it has received.
#[derive(Clone, Debug)]
struct FreeState {
    pace: FreePace,
    /// Number of completed queries; `None` while initial points remain.
    n_steps: Option<u64>,
    n_uploads: u64,
    /// Number of completed queries at the last upload.
    uploaded_at: Option<u64>,
    /// The newest window for which a handout was received.
    window: u64,
    known: KnownMessages,
}

/// A query to evaluate.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Index among the agent's trials, counted from 0 and including initial points.
    pub index: u64,
    /// Round of the query; 0 for initial points. At a free pace, the index of the agent's own
    /// query.
    pub round: u64,
    /// Coordinates in `[0,1]^d`.
    pub unit: Vec<f64>,
    /// The source of the query.
    pub source: Source,
}

/// An event for an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent<H> {
    /// A round begins (at a free pace, a window).
    Broadcast(H),
    /// At a free pace: the agent is between two trials and continues with the information that it
    /// has.
    Proceed,
    /// A trial has ended.
    Evaluated {
        /// Index of the trial.
        trial: u64,
        /// The value, to be maximized; `None` if the trial failed.
        value: Option<f64>,
    },
}

/// An instruction to the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEffect {
    /// Evaluate this trial and report its result with [`AgentEvent::Evaluated`].
    Evaluate(Trial),
    /// Send this message to the coordinator.
    Upload(AgentUpdate),
    /// Part of a handout was invalid and is not used.
    Refused(UpdateRejected),
    /// The plan is complete; the agent requests nothing more.
    Finished,
}

/// The reason that an agent cannot continue.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AgentError {
    /// The agent's strategy failed.
    #[error("agent {agent}: {source}")]
    Strategy {
        /// The agent.
        agent: u32,
        /// The reason.
        source: StrategyError,
    },
    /// The event is not valid in the current state.
    #[error("agent {agent}: {event} while {state}")]
    Unexpected {
        /// The agent.
        agent: u32,
        /// The event.
        event: &'static str,
        /// The state of the agent.
        state: &'static str,
    },
}

#[derive(Clone, Debug)]
enum State {
    Idle,
    Evaluating {
        trial: Trial,
        /// True if the trial's round collects vectors.
        uploads: bool,
    },
    Waiting {
        for_round: u64,
    },
    /// Between two trials, at a free pace.
    Ready {
        next: u64,
    },
    Done,
}

/// The agent's state machine. Equal seeds and events give equal effects.
///
/// In a round that collects nothing, the agent does not upload after its trial. The coordinator
/// ends such a round at its scheduled time, or when its driver determines that no agent is working.
///
/// At a free pace ([`Agent::at_free_pace`]), the agent never waits. Between two trials, the driver
/// passes handouts on, and [`AgentEvent::Proceed`] begins the next trial. A handout that arrives
/// during a trial is used after the trial. While a window is open, the driver can request the
/// agent's message at any time with [`Agent::upload`]. The message covers all observations so far.
#[derive(Clone, Debug)]
pub struct Agent<S: UsesHandouts> {
    id: u32,
    strategy: S,
    initial: VecDeque<Vec<f64>>,
    n_rounds: u64,
    n_trials: u64,
    seed: Seed,
    state: State,
    /// A handout that arrived during a trial.
    pending: Option<S::Handout>,
    /// Present only at a free pace.
    free: Option<FreeState>,
}

impl<S: UsesHandouts> Agent<S> {
    /// Creates an agent that has not started. Random draws come from `seed`, labelled with the
    /// agent's index and the round.
    ///
    /// # Errors
    /// If the history cannot be modelled.
    pub fn new(mut strategy: S, plan: AgentPlan, seed: Seed) -> Result<Self, AgentError> {
        let told = strategy.tell(&plan.history);
        told.map_err(|source| AgentError::Strategy { agent: plan.id, source })?;
        Ok(Self {
            id: plan.id,
            strategy,
            initial: plan.initial.into(),
            n_rounds: plan.n_rounds,
            n_trials: 0,
            seed,
            state: State::Idle,
            pending: None,
            free: None,
        })
    }

    /// Switches the agent to a free pace. Must be called before [`Agent::start`].
    #[must_use]
    pub fn at_free_pace(mut self, pace: FreePace) -> Self {
        self.free = Some(FreeState {
            pace,
            n_steps: None,
            n_uploads: 0,
            uploaded_at: None,
            window: 0,
            known: KnownMessages::new(pace.max_age),
        });
        self
    }

    /// Restores the upload counts of an earlier process, for an agent at a free pace. `n_uploads`
    /// is the number of uploads, and `n_told` the number of trials that had ended at the last
    /// upload. Must be called before [`Agent::start`].
    #[must_use]
    pub fn with_uploads(mut self, n_uploads: u64, n_told: Option<u64>) -> Self {
        let n_initial = self.initial.len() as u64;
        if let Some(free) = &mut self.free {
            free.n_uploads = n_uploads;
            free.uploaded_at = n_told.map(|n_told| n_told.saturating_sub(n_initial));
        }
        self
    }

    /// Returns the agent's index.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the agent's strategy.
    pub fn strategy(&self) -> &S {
        &self.strategy
    }

    /// Returns the agent's surrogate.
    pub fn surrogate(&self) -> &Surrogate {
        self.strategy.own()
    }

    /// Starts the agent with its first initial point, or with its first message if it has no
    /// initial points. Round 0 always collects.
    ///
    /// # Errors
    /// If the agent has already started, or its message cannot be drawn.
    pub fn start(&mut self) -> Result<Vec<AgentEffect>, AgentError> {
        match self.state {
            State::Idle => self.after_trial(0, true),
            _ => Err(self.unexpected("a second start")),
        }
    }

    /// Handles one event.
    ///
    /// # Errors
    /// If the event is not valid in the current state, or the strategy fails.
    pub fn handle(
        &mut self,
        event: AgentEvent<S::Handout>,
    ) -> Result<Vec<AgentEffect>, AgentError> {
        match (event, &self.state) {
            (AgentEvent::Broadcast(handout), _) if self.free.is_some() => self.receive(handout),
            (AgentEvent::Proceed, State::Ready { next }) => self.begin_query(*next),
            (AgentEvent::Broadcast(handout), State::Waiting { for_round })
                if handout.round() >= *for_round =>
            {
                self.begin_round(handout)
            }
            // A broadcast that was already handled is delivered again.
            (AgentEvent::Broadcast(handout), _) if handout.round() < self.next_round() => {
                Ok(Vec::new())
            }
            // The round closed during the agent's trial. The agent acts on the handout after the
            // trial.
            (AgentEvent::Broadcast(handout), State::Evaluating { .. }) => {
                match &mut self.pending {
                    Some(kept) => kept.join(handout),
                    none => *none = Some(handout),
                }
                Ok(Vec::new())
            }
            (
                AgentEvent::Evaluated { trial, value },
                State::Evaluating { trial: running, uploads },
            ) if running.index == trial => {
                let (running, uploads) = (running.clone(), *uploads);
                let observation = Observation::new(running.unit, value, running.source);
                self.strategy.tell(&[observation]).map_err(|source| self.failed(source))?;
                self.after_trial(running.round, uploads)
            }
            (AgentEvent::Broadcast(_), _) => Err(self.unexpected("a broadcast")),
            (AgentEvent::Proceed, _) => Err(self.unexpected("a request to continue")),
            (AgentEvent::Evaluated { .. }, _) => Err(self.unexpected("a result of another trial")),
        }
    }

    /// Takes a handout at a free pace: immediately between two trials, otherwise after the current
    /// trial.
    fn receive(&mut self, handout: S::Handout) -> Result<Vec<AgentEffect>, AgentError> {
        let Some(free) = &mut self.free else {
            return Err(self.unexpected("a broadcast"));
        };
        if handout.round() <= free.window {
            return Ok(Vec::new()); // already received
        }
        free.window = handout.round();
        match (&self.state, &mut self.pending) {
            (State::Done, _) => Ok(Vec::new()),
            (State::Ready { .. }, None) => Ok(self.take(handout)),
            (_, Some(kept)) => {
                kept.join(handout);
                Ok(Vec::new())
            }
            (_, none) => {
                *none = Some(handout);
                Ok(Vec::new())
            }
        }
    }

    /// Passes a handout to the strategy, without the messages that the strategy already has.
    fn take(&mut self, mut handout: S::Handout) -> Vec<AgentEffect> {
        if let Some(free) = &mut self.free {
            handout.settle(&mut free.known);
        }
        let refused = self.strategy.take(handout, self.id);
        refused.into_iter().map(AgentEffect::Refused).collect()
    }

    /// Makes the query of a step at a free pace, with the information received so far.
    fn begin_query(&mut self, step: u64) -> Result<Vec<AgentEffect>, AgentError> {
        let pending = self.pending.take();
        let mut effects = pending.map_or_else(Vec::new, |handout| self.take(handout));
        effects.push(self.query(step, false)?);
        Ok(effects)
    }

    /// Makes the query of a round, or of a step at a free pace.
    fn query(&mut self, round: u64, uploads: bool) -> Result<AgentEffect, AgentError> {
        let mut stream = self.seed.stream(Purpose::PROPOSAL, u64::from(self.id), round);
        let proposal = self
            .strategy
            .ask(&Points::new(self.strategy.domain().dim()), &mut stream)
            .map_err(|source| self.failed(source))?;
        Ok(self.evaluate(round, proposal.unit, proposal.source, uploads))
    }

    /// Returns true if an agent at a free pace has a message to send. This requires that all
    /// initial points are evaluated, that the agent has made enough new queries since the last
    /// upload, and that it has uploads left.
    pub fn has_upload(&self) -> bool {
        let Some(FreeState { pace, n_steps: Some(n_steps), n_uploads, uploaded_at, .. }) =
            &self.free
        else {
            return false;
        };
        let is_due = uploaded_at.is_none_or(|at| *n_steps >= at.saturating_add(pace.every.max(1)));
        is_due && pace.uploads_max.is_none_or(|most| *n_uploads < most)
    }

    /// Returns the message for an open window, which covers all observations so far, or `None` if
    /// there is nothing to send ([`Agent::has_upload`]). The message counts as sent from now on.
    ///
    /// # Errors
    /// If the message cannot be drawn.
    pub fn upload(&mut self, window: u64) -> Result<Option<AgentUpdate>, AgentError> {
        if !self.has_upload() {
            return Ok(None);
        }
        // The draw is labelled by the number of completed queries, so at equal speeds the draws are
        // the same as in rounds.
        let n_steps = self.free.as_ref().and_then(|free| free.n_steps).unwrap_or(0);
        let mut update = self.update(n_steps)?;
        update.round = window;
        if let Some(free) = &mut self.free {
            free.uploaded_at = Some(n_steps);
            free.n_uploads += 1;
        }
        Ok(Some(update))
    }

    fn begin_round(&mut self, handout: S::Handout) -> Result<Vec<AgentEffect>, AgentError> {
        let (round, uploads) = (handout.round(), handout.wants_upload());
        if round > self.n_rounds {
            self.state = State::Done;
            return Ok(vec![AgentEffect::Finished]);
        }
        let mut effects = self.take(handout);
        effects.push(self.query(round, uploads)?);
        Ok(effects)
    }

    fn evaluate(
        &mut self,
        round: u64,
        unit: Vec<f64>,
        source: Source,
        uploads: bool,
    ) -> AgentEffect {
        let trial = Trial { index: self.n_trials, round, unit, source };
        self.n_trials += 1;
        self.state = State::Evaluating { trial: trial.clone(), uploads };
        AgentEffect::Evaluate(trial)
    }

    /// Begins the next initial point. If none is left, returns this round's message if the round
    /// collects, and begins the next round if its handout has arrived.
    fn after_trial(&mut self, round: u64, uploads: bool) -> Result<Vec<AgentEffect>, AgentError> {
        if let Some(unit) = self.initial.pop_front() {
            return Ok(vec![self.evaluate(0, unit, Source::Initial, uploads)]);
        }
        if let Some(free) = &mut self.free {
            free.n_steps = Some(round);
            if round >= self.n_rounds {
                self.state = State::Done;
                return Ok(vec![AgentEffect::Finished]);
            }
            self.state = State::Ready { next: round + 1 };
            return Ok(Vec::new());
        }
        let mut effects = Vec::new();
        if uploads {
            effects.push(AgentEffect::Upload(self.update(round)?));
        }
        if round >= self.n_rounds {
            self.state = State::Done;
            effects.push(AgentEffect::Finished);
        } else {
            self.state = State::Waiting { for_round: round + 1 };
            if let Some(handout) = self.pending.take() {
                effects.extend(self.begin_round(handout)?);
            }
        }
        Ok(effects)
    }

    /// Creates the message for a round.
    fn update(&self, round: u64) -> Result<AgentUpdate, AgentError> {
        let mut stream = self.seed.stream(crate::WEIGHT_SAMPLE, u64::from(self.id), round);
        let weights =
            self.strategy.weight_sample(&mut stream).map_err(|source| self.failed(source))?;
        let map = self.strategy.map().hash();
        Ok(AgentUpdate { sender: self.id, round, map, weights: weights.into() })
    }

    fn next_round(&self) -> u64 {
        match &self.state {
            State::Idle => 0,
            State::Evaluating { trial, .. } => trial.round.saturating_add(1),
            State::Waiting { for_round } | State::Ready { next: for_round } => *for_round,
            State::Done => u64::MAX,
        }
    }

    fn failed(&self, source: StrategyError) -> AgentError {
        AgentError::Strategy { agent: self.id, source }
    }

    fn unexpected(&self, event: &'static str) -> AgentError {
        let state = match self.state {
            State::Idle => "not started",
            State::Evaluating { .. } => "evaluating",
            State::Waiting { .. } => "waiting for a round",
            State::Ready { .. } => "between two trials",
            State::Done => "finished",
        };
        AgentError::Unexpected { agent: self.id, event, state }
    }
}
