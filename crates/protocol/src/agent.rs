//! An agent of federated Thompson sampling: evaluates its initial points, then alternates queries and messages.

use std::collections::{BTreeSet, VecDeque};

use fedbo_algorithms::{
    Fts, MessageRejected, Observation, Points, Source, Strategy, StrategyError, Surrogate,
};
use fedbo_streams::{Purpose, Seed};

use crate::{AgentUpdate, Broadcast};

/// What an agent brings along and is going to do.
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
    /// Where the query came from.
    pub source: Source,
}

/// What happens to an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// A round begins.
    Broadcast(Broadcast),
    /// A trial has ended; `None` is a failure.
    Evaluated {
        /// Index of the trial.
        trial: u64,
        /// The value, to be maximized.
        value: Option<f64>,
    },
}

/// What the driver must do next.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEffect {
    /// Evaluate a trial and report with [`AgentEvent::Evaluated`].
    Evaluate(Trial),
    /// Send this to the relay.
    Upload(AgentUpdate),
    /// Another agent's message was defective and is not used.
    Refused(MessageRejected),
    /// The plan is done; nothing more will be asked for.
    Finished,
}

/// Why an agent could not go on.
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
        /// What came.
        event: &'static str,
        /// What the agent was doing.
        state: &'static str,
    },
}

#[derive(Clone, Debug)]
enum State {
    Idle,
    Evaluating(Trial),
    Waiting { for_round: u64 },
    Done,
}

/// The agent's state machine. Equal seeds and events give equal effects.
#[derive(Clone, Debug)]
pub struct Agent {
    id: u32,
    strategy: Fts,
    initial: VecDeque<Vec<f64>>,
    n_rounds: u64,
    n_trials: u64,
    seed: Seed,
    state: State,
    /// What was broadcast during a trial that outlived its round.
    pending: Option<Broadcast>,
}

impl Agent {
    /// An agent that has not begun. Its draws come from `seed`, labelled by its index and the round.
    ///
    /// # Errors
    /// If the history cannot be modelled.
    pub fn new(mut strategy: Fts, plan: AgentPlan, seed: Seed) -> Result<Self, AgentError> {
        let told = strategy.tell(&plan.history);
        told.map_err(|source| AgentError::Strategy {
            agent: plan.id,
            source,
        })?;
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

    /// Its surrogate.
    pub fn surrogate(&self) -> &Surrogate {
        self.strategy.surrogate()
    }

    /// Begins: the first initial point, or the first message if there is none.
    ///
    /// # Errors
    /// If it has begun already or its message cannot be drawn.
    pub fn start(&mut self) -> Result<Vec<AgentEffect>, AgentError> {
        match self.state {
            State::Idle => self.after_trial(0),
            _ => Err(self.unexpected("a second start")),
        }
    }

    /// Takes one event.
    ///
    /// # Errors
    /// If the event does not fit the state, or the strategy fails.
    pub fn handle(&mut self, event: AgentEvent) -> Result<Vec<AgentEffect>, AgentError> {
        match (event, &self.state) {
            (AgentEvent::Broadcast(broadcast), State::Waiting { for_round })
                if broadcast.round >= *for_round =>
            {
                self.begin_round(broadcast)
            }
            // A broadcast that was already acted on, delivered again.
            (AgentEvent::Broadcast(broadcast), _) if broadcast.round < self.next_round() => {
                Ok(Vec::new())
            }
            // The round closed without this agent, which acts on it when its trial has ended.
            (AgentEvent::Broadcast(broadcast), State::Evaluating(_)) => {
                self.keep(broadcast);
                Ok(Vec::new())
            }
            (AgentEvent::Evaluated { trial, value }, State::Evaluating(running))
                if running.index == trial =>
            {
                let running = running.clone();
                let observation = Observation {
                    unit: running.unit,
                    value,
                    source: running.source,
                };
                self.strategy
                    .tell(&[observation])
                    .map_err(|source| self.failed(source))?;
                self.after_trial(running.round)
            }
            (AgentEvent::Broadcast(_), _) => Err(self.unexpected("a broadcast")),
            (AgentEvent::Evaluated { .. }, _) => Err(self.unexpected("a result of another trial")),
        }
    }

    /// Keeps a broadcast for later, joined with those kept before: the newest message of each sender counts, unless
    /// the sender has become a straggler since.
    fn keep(&mut self, newer: Broadcast) {
        let Some(kept) = &mut self.pending else {
            self.pending = Some(newer);
            return;
        };
        if newer.round <= kept.round {
            return; // delivered again, or overtaken
        }
        kept.round = newer.round;
        let replaced: BTreeSet<u32> = newer
            .stragglers
            .iter()
            .copied()
            .chain(newer.messages.iter().map(|message| message.sender))
            .collect();
        kept.messages
            .retain(|message| !replaced.contains(&message.sender));
        kept.messages.extend(newer.messages);
        let stragglers: BTreeSet<u32> = std::mem::take(&mut kept.stragglers)
            .into_iter()
            .chain(newer.stragglers)
            .collect();
        kept.stragglers = stragglers.into_iter().collect();
    }

    fn begin_round(&mut self, broadcast: Broadcast) -> Result<Vec<AgentEffect>, AgentError> {
        if broadcast.round > self.n_rounds {
            self.state = State::Done;
            return Ok(vec![AgentEffect::Finished]);
        }
        let mut effects = Vec::new();
        for straggler in broadcast.stragglers {
            self.strategy.forget(straggler);
        }
        for message in broadcast
            .messages
            .iter()
            .filter(|message| message.sender != self.id)
        {
            if let Err(rejected) =
                self.strategy
                    .receive(message.sender, message.map, &message.weights)
            {
                effects.push(AgentEffect::Refused(rejected));
            }
        }
        let mut stream = self
            .seed
            .stream(Purpose::Proposal, u64::from(self.id), broadcast.round);
        let proposal = self
            .strategy
            .ask(&Points::new(self.strategy.domain().dim()), &mut stream)
            .map_err(|source| self.failed(source))?;
        effects.push(self.evaluate(broadcast.round, proposal.unit, proposal.source));
        Ok(effects)
    }

    fn evaluate(&mut self, round: u64, unit: Vec<f64>, source: Source) -> AgentEffect {
        let trial = Trial {
            index: self.n_trials,
            round,
            unit,
            source,
        };
        self.n_trials += 1;
        self.state = State::Evaluating(trial.clone());
        AgentEffect::Evaluate(trial)
    }

    /// The next initial point, or this round's message.
    fn after_trial(&mut self, round: u64) -> Result<Vec<AgentEffect>, AgentError> {
        if let Some(unit) = self.initial.pop_front() {
            return Ok(vec![self.evaluate(0, unit, Source::Initial)]);
        }
        let mut stream = self
            .seed
            .stream(Purpose::WeightSample, u64::from(self.id), round);
        let weights = self
            .strategy
            .weight_sample(&mut stream)
            .map_err(|source| self.failed(source))?;
        let map = self.strategy.map().hash();
        let mut effects = vec![AgentEffect::Upload(AgentUpdate {
            sender: self.id,
            round,
            map,
            weights,
        })];
        if round >= self.n_rounds {
            self.state = State::Done;
            effects.push(AgentEffect::Finished);
        } else {
            self.state = State::Waiting {
                for_round: round + 1,
            };
            if let Some(broadcast) = self.pending.take() {
                effects.extend(self.begin_round(broadcast)?);
            }
        }
        Ok(effects)
    }

    fn next_round(&self) -> u64 {
        match &self.state {
            State::Idle => 0,
            State::Evaluating(trial) => trial.round.saturating_add(1),
            State::Waiting { for_round } => *for_round,
            State::Done => u64::MAX,
        }
    }

    fn failed(&self, source: StrategyError) -> AgentError {
        AgentError::Strategy {
            agent: self.id,
            source,
        }
    }

    fn unexpected(&self, event: &'static str) -> AgentError {
        let state = match self.state {
            State::Idle => "not started",
            State::Evaluating(_) => "evaluating",
            State::Waiting { .. } => "waiting for a round",
            State::Done => "finished",
        };
        AgentError::Unexpected {
            agent: self.id,
            event,
            state,
        }
    }
}
