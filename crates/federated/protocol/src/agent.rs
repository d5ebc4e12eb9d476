//! An agent of a federation: evaluates its initial points, then alternates queries and messages.

use std::collections::VecDeque;

use fedbo_strategies::{Observation, Points, Source, StrategyError, Surrogate};
use fedbo_streams::{Purpose, Seed};

use crate::{AgentUpdate, Handout, UpdateRejected, UsesHandouts};

/// An agent's observations from before the session, and its plan for it.
#[derive(Clone, Debug)]
pub struct AgentPlan {
    /// Its index in the federation.
    pub id: u32,
    /// Observations from before the session.
    pub history: Vec<Observation>,
    /// Initial points in unit-cube coordinates, evaluated before the first message.
    pub initial: Vec<Vec<f64>>,
    /// Rounds, each with one query by Thompson sampling; 0 for a contributor, who only sends one message. A round that
    /// the agent missed is not made up for.
    pub n_rounds: u64,
}

/// A query to be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Counts the agent's trials from 0, initial points included.
    pub index: u64,
    /// Round of the query; 0 for initial points.
    pub round: u64,
    /// Coordinates in `[0,1]^d`.
    pub unit: Vec<f64>,
    /// The source of the query.
    pub source: Source,
}

/// An event that happens to an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent<H> {
    /// A round begins.
    Broadcast(H),
    /// A trial has ended; `None` is a failure.
    Evaluated {
        /// Index of the trial.
        trial: u64,
        /// The value, to be maximized.
        value: Option<f64>,
    },
}

/// An instruction to the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEffect {
    /// Evaluate a trial and report with [`AgentEvent::Evaluated`].
    Evaluate(Trial),
    /// Send this to the coordinator.
    Upload(AgentUpdate),
    /// Something in a handout was defective and is not used.
    Refused(UpdateRejected),
    /// The plan is done; nothing more will be asked for.
    Finished,
}

/// The reason why an agent could not go on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AgentError {
    /// Its strategy failed.
    #[error("agent {agent}: {source}")]
    Strategy {
        /// The agent.
        agent: u32,
        /// The reason.
        source: StrategyError,
    },
    /// An event came that the state does not allow.
    #[error("agent {agent}: {event} while {state}")]
    Unexpected {
        /// The agent.
        agent: u32,
        /// The event that came.
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
        /// True if the round of the trial collects vectors.
        uploads: bool,
    },
    Waiting {
        for_round: u64,
    },
    Done,
}

/// The agent's state machine. Equal seeds and events give equal effects.
///
/// In a round without collection it uploads nothing and has no effect when its trial has ended: a coordinator ends such a
/// round at its set instant, or when its driver sees that nobody is at work.
#[derive(Clone, Debug)]
pub struct Agent<S: UsesHandouts> {
    id: u32,
    strategy: S,
    initial: VecDeque<Vec<f64>>,
    n_rounds: u64,
    n_trials: u64,
    seed: Seed,
    state: State,
    /// The handout that came during a trial that outlived its round.
    pending: Option<S::Handout>,
}

impl<S: UsesHandouts> Agent<S> {
    /// An agent that has not begun. Its draws come from `seed`, labelled by its index and the round.
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
        })
    }

    /// Its index.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its strategy.
    pub fn strategy(&self) -> &S {
        &self.strategy
    }

    /// Its surrogate.
    pub fn surrogate(&self) -> &Surrogate {
        self.strategy.own()
    }

    /// Begins: the first initial point, or the first message if there is none. Round 0 always collects.
    ///
    /// # Errors
    /// If it has begun already or its message cannot be drawn.
    pub fn start(&mut self) -> Result<Vec<AgentEffect>, AgentError> {
        match self.state {
            State::Idle => self.after_trial(0, true),
            _ => Err(self.unexpected("a second start")),
        }
    }

    /// Takes one event.
    ///
    /// # Errors
    /// If the event does not fit the state, or the strategy fails.
    pub fn handle(
        &mut self,
        event: AgentEvent<S::Handout>,
    ) -> Result<Vec<AgentEffect>, AgentError> {
        match (event, &self.state) {
            (AgentEvent::Broadcast(handout), State::Waiting { for_round })
                if handout.round() >= *for_round =>
            {
                self.begin_round(handout)
            }
            // A broadcast that was already acted on, delivered again.
            (AgentEvent::Broadcast(handout), _) if handout.round() < self.next_round() => {
                Ok(Vec::new())
            }
            // The round closed without this agent, which acts on it when its trial has ended.
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
                let observation = Observation { unit: running.unit, value, source: running.source };
                self.strategy.tell(&[observation]).map_err(|source| self.failed(source))?;
                self.after_trial(running.round, uploads)
            }
            (AgentEvent::Broadcast(_), _) => Err(self.unexpected("a broadcast")),
            (AgentEvent::Evaluated { .. }, _) => Err(self.unexpected("a result of another trial")),
        }
    }

    fn begin_round(&mut self, handout: S::Handout) -> Result<Vec<AgentEffect>, AgentError> {
        let (round, uploads) = (handout.round(), handout.wants_upload());
        if round > self.n_rounds {
            self.state = State::Done;
            return Ok(vec![AgentEffect::Finished]);
        }
        let refused = self.strategy.take(handout, self.id);
        let mut effects: Vec<AgentEffect> = refused.into_iter().map(AgentEffect::Refused).collect();
        let mut stream = self.seed.stream(Purpose::Proposal, u64::from(self.id), round);
        let proposal = self
            .strategy
            .ask(&Points::new(self.strategy.domain().dim()), &mut stream)
            .map_err(|source| self.failed(source))?;
        effects.push(self.evaluate(round, proposal.unit, proposal.source, uploads));
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

    /// The next initial point, or this round's message if there is one, then the next round if it is known.
    fn after_trial(&mut self, round: u64, uploads: bool) -> Result<Vec<AgentEffect>, AgentError> {
        if let Some(unit) = self.initial.pop_front() {
            return Ok(vec![self.evaluate(0, unit, Source::Initial, uploads)]);
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

    /// The message for a round.
    fn update(&self, round: u64) -> Result<AgentUpdate, AgentError> {
        let mut stream = self.seed.stream(Purpose::WeightSample, u64::from(self.id), round);
        let weights =
            self.strategy.weight_sample(&mut stream).map_err(|source| self.failed(source))?;
        Ok(AgentUpdate { sender: self.id, round, map: self.strategy.map().hash(), weights })
    }

    fn next_round(&self) -> u64 {
        match &self.state {
            State::Idle => 0,
            State::Evaluating { trial, .. } => trial.round.saturating_add(1),
            State::Waiting { for_round } => *for_round,
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
            State::Done => "finished",
        };
        AgentError::Unexpected { agent: self.id, event, state }
    }
}
