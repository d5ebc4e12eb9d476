//! Peers: agents that share observations with their neighbours on a graph, without a coordinator.

mod mailbox;
mod neighbourhood;
mod report;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fedbo_strategies::{Domain, Observation, Points, Source, Strategy, StrategyError, Surrogate};
use fedbo_streams::{Purpose, Seed};

use crate::{AgentError, Tick, Trial};
use mailbox::Mailbox;
pub use neighbourhood::Neighbourhood;
pub use report::{Report, ReportRejected, Shared};

/// A strategy that learns from neighbours' observations.
pub trait Neighbour: Strategy {
    /// Returns the domain of the agent's queries.
    fn domain(&self) -> &Domain;

    /// Returns the model of the agent's own objective.
    fn own(&self) -> &Surrogate;

    /// Adds observations. Each observation must be passed only once. Returns a rejection for each
    /// neighbour that sent unusable observations.
    ///
    /// `all` contains the new observations, and `own` the subset that the agent made itself. A
    /// neighbour's observation has [`Source::Message`] as its source, which names the neighbour.
    ///
    /// # Errors
    /// If the surrogate cannot be conditioned. In this case, nothing is added.
    fn tell_all(
        &mut self,
        own: &[Observation],
        all: &[Observation],
    ) -> Result<Vec<ReportRejected>, StrategyError>;
}

/// The condition under which a peer begins its next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// All neighbours have reported the previous round, as in the paper. Queries do not depend on
    /// when reports arrive.
    Synchronous {
        /// Maximum wait after the peer's own trial, in milliseconds; `None` for no limit. After a
        /// timeout, the peer does not wait for a late neighbour again until that neighbour has
        /// caught up.
        patience: Option<Tick>,
    },
    /// The peer's own trial has ended. The peer continues with the reports that have arrived (an
    /// extension of the paper).
    Asynchronous,
}

/// The initial points that a peer shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialSharing {
    /// All initial points, so that they belong to the neighbours' D_{t,i}.
    #[default]
    All,
    /// Only the best initial point, as in the authors' code.
    Best,
    /// None.
    Nothing,
}

/// The content of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReportContent {
    /// The observations themselves.
    #[default]
    Observed,
    /// The observed values, at points drawn uniformly from the domain. This control keeps the
    /// distribution of the values but removes the information about their points.
    Placebo,
}

/// The plan of a peer.
#[derive(Clone, Debug)]
pub struct PeerPlan {
    /// The peer's index in the graph.
    pub id: u32,
    /// Initial points in unit-cube coordinates, evaluated before the peer's first query.
    pub initial: Vec<Vec<f64>>,
    /// T, the number of queries after the initial points.
    pub n_rounds: u64,
    /// The peer's neighbours in each round.
    pub neighbourhood: Neighbourhood,
    /// The condition under which the peer begins its next round.
    pub pace: Pace,
    /// The initial points that the peer shares.
    pub initial_sharing: InitialSharing,
    /// The content of the peer's reports.
    pub content: ReportContent,
}

/// An event for a peer.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerEvent {
    /// A trial has ended.
    Evaluated {
        /// Index of the trial.
        trial: u64,
        /// The value, to be maximized; `None` if the trial failed.
        value: Option<f64>,
    },
    /// A report has arrived. Late, repeated and reordered reports are allowed.
    Received(Report),
    /// The time has advanced.
    Tick,
}

/// An instruction to the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerEffect {
    /// Evaluate this trial and report its result with [`PeerEvent::Evaluated`].
    Evaluate(Trial),
    /// The peer's log has a new report. Send it to each of the [`Peer::recipients`] until that
    /// neighbour has acknowledged it.
    Shared(Report),
    /// A report, or a part of it, is not used.
    Rejected(ReportRejected),
    /// A round begins without the reports of neighbours that are late.
    ContinuedWithout {
        /// The round that begins.
        round: u64,
        /// The late neighbours.
        neighbours: Vec<u32>,
    },
    /// The plan is complete; the peer requests nothing more. Some reports might still have to be
    /// sent.
    Finished,
}

#[derive(Clone, Debug)]
enum State {
    Idle,
    Evaluating(Trial),
    Waiting { for_round: u64, since: Tick },
    Done,
}

/// The state machine of a peer (one agent of Algorithm 1). Equal seeds and events give equal
/// effects.
///
/// At a synchronous pace without a time limit, equal seeds and values give equal queries and
/// reports, regardless of how reports are delivered.
pub struct Peer {
    plan: PeerPlan,
    strategy: Box<dyn Neighbour>,
    initial: VecDeque<Vec<f64>>,
    n_trials: u64,
    seed: Seed,
    state: State,
    mailbox: Mailbox,
    /// The peer's own observations that the strategy does not have yet, by round.
    untold: BTreeMap<u64, Vec<Observation>>,
    /// The reports that the peer has shared, by round.
    log: Vec<Report>,
    /// Neighbours that were late for a round and have not caught up.
    late: BTreeSet<u32>,
}

/// Maximum number of observations in a report of round 0.
const N_INITIAL_MAX: usize = 10_000;

impl Peer {
    /// Creates a peer that has not started. Random draws come from `seed`, labelled with the peer's
    /// index and the round.
    #[must_use]
    pub fn new(strategy: Box<dyn Neighbour>, plan: PeerPlan, seed: Seed) -> Self {
        let dim = strategy.domain().dim();
        let mut mailbox = Mailbox::new(plan.id, dim, plan.n_rounds, N_INITIAL_MAX);
        for neighbour in plan.neighbourhood.ever() {
            mailbox.admit(neighbour);
        }
        Self {
            initial: plan.initial.clone().into(),
            plan,
            strategy,
            n_trials: 0,
            seed,
            state: State::Idle,
            mailbox,
            untold: BTreeMap::new(),
            log: Vec::new(),
            late: BTreeSet::new(),
        }
    }

    /// Returns the peer's index.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.plan.id
    }

    /// Returns the peer's surrogate.
    #[must_use]
    pub fn surrogate(&self) -> &Surrogate {
        self.strategy.own()
    }

    /// Returns all reports that the peer has shared, indexed by round.
    #[must_use]
    pub fn log(&self) -> &[Report] {
        &self.log
    }

    /// Returns the neighbours to which the current log must be sent. These are the neighbours in
    /// the round that the peer is about to begin.
    #[must_use]
    pub fn recipients(&self) -> &BTreeSet<u32> {
        self.plan.neighbourhood.at(self.log.len() as u64)
    }

    /// Returns the number of reports from a neighbour that have arrived without a gap. The driver
    /// sends this number to the neighbour, which continues from there.
    #[must_use]
    pub fn received_from(&self, neighbour: u32) -> u64 {
        self.mailbox.next_of(neighbour)
    }

    /// Returns true if the plan is complete.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Returns the time at which the peer stops waiting and [`PeerEvent::Tick`] has an effect.
    #[must_use]
    pub fn deadline(&self) -> Option<Tick> {
        match (self.plan.pace, &self.state) {
            (Pace::Synchronous { patience: Some(patience) }, State::Waiting { since, .. }) => {
                Some(since.saturating_add(patience))
            }
            _ => None,
        }
    }

    /// Starts the peer with its first initial point, or with its first round if it has no initial
    /// points.
    ///
    /// # Errors
    /// If the peer has already started, or its query cannot be computed.
    pub fn start(&mut self, now: Tick) -> Result<Vec<PeerEffect>, AgentError> {
        match self.state {
            State::Idle => self.after_trial(0, now),
            _ => Err(self.unexpected("a second start")),
        }
    }

    /// Handles one event.
    ///
    /// # Errors
    /// If a result does not belong to the running trial, or the strategy fails.
    pub fn handle(&mut self, event: PeerEvent, now: Tick) -> Result<Vec<PeerEffect>, AgentError> {
        match (event, &self.state) {
            (PeerEvent::Received(report), _) => {
                let rejected = self.mailbox.take(report).into_iter();
                let mut effects: Vec<PeerEffect> = rejected.map(PeerEffect::Rejected).collect();
                effects.extend(self.proceed(now)?);
                Ok(effects)
            }
            (PeerEvent::Tick, _) => self.proceed(now),
            (PeerEvent::Evaluated { trial, value }, State::Evaluating(running))
                if running.index == trial =>
            {
                let (round, running) = (running.round, running.clone());
                let observation = Observation::new(
                    running.unit,
                    value.filter(|value| value.is_finite()),
                    running.source,
                );
                self.untold.entry(round).or_default().push(observation);
                self.after_trial(round, now)
            }
            (PeerEvent::Evaluated { .. }, _) => Err(self.unexpected("a result of another trial")),
        }
    }

    /// Begins the next initial point. If none is left, shares the round's report, and begins the
    /// next round if its condition holds.
    fn after_trial(&mut self, round: u64, now: Tick) -> Result<Vec<PeerEffect>, AgentError> {
        if let Some(unit) = self.initial.pop_front() {
            return Ok(vec![self.evaluate(0, unit, Source::Initial)]);
        }
        let report = self.report(round);
        self.log.push(report.clone());
        let mut effects = vec![PeerEffect::Shared(report)];
        if round >= self.plan.n_rounds {
            self.state = State::Done;
            effects.push(PeerEffect::Finished);
            return Ok(effects);
        }
        self.state = State::Waiting { for_round: round + 1, since: now };
        effects.extend(self.proceed(now)?);
        Ok(effects)
    }

    /// Creates a round's report, with the observations to share.
    fn report(&self, round: u64) -> Report {
        let observed = self.untold.get(&round).map_or(&[][..], Vec::as_slice);
        let value = |observation: &&Observation| observation.value;
        let chosen: Vec<&Observation> = match (round, self.plan.initial_sharing) {
            (0, InitialSharing::Nothing) => Vec::new(),
            (0, InitialSharing::Best) => {
                let succeeded = observed.iter().filter(|o| o.value.is_some());
                let best = succeeded.max_by(|a, b| {
                    let order = value(a).partial_cmp(&value(b));
                    order.unwrap_or(std::cmp::Ordering::Equal)
                });
                best.into_iter().collect()
            }
            _ => observed.iter().collect(),
        };
        let mut placebo = self.seed.stream(crate::PLACEBO, u64::from(self.plan.id), round);
        let shared = chosen.into_iter().map(|observation| Shared {
            unit: match self.plan.content {
                ReportContent::Observed => observation.unit.clone(),
                ReportContent::Placebo => self.strategy.domain().random(&mut placebo),
            },
            value: observation.value,
        });
        Report {
            sender: self.plan.id,
            round,
            observations: shared.collect(),
            is_last: round >= self.plan.n_rounds,
        }
    }

    /// Begins the next round if its condition holds.
    fn proceed(&mut self, now: Tick) -> Result<Vec<PeerEffect>, AgentError> {
        let State::Waiting { for_round, since } = self.state else {
            return Ok(Vec::new());
        };
        let mut effects = Vec::new();
        if let Pace::Synchronous { patience } = self.plan.pace {
            let is_missing =
                |neighbour: &&u32| !self.mailbox.has_all_before(for_round, **neighbour);
            let neighbours = self.plan.neighbourhood.at(for_round).iter();
            let missing: BTreeSet<u32> = neighbours.filter(is_missing).copied().collect();
            let is_waited_for = missing.difference(&self.late).next().is_some();
            let is_over = patience.is_some_and(|patience| now >= since.saturating_add(patience));
            if is_waited_for && !is_over {
                return Ok(effects);
            }
            if is_waited_for {
                effects.push(PeerEffect::ContinuedWithout {
                    round: for_round,
                    neighbours: missing.iter().copied().collect(),
                });
            }
            self.late = missing;
        }
        effects.extend(self.begin_round(for_round)?);
        Ok(effects)
    }

    /// Conditions the posterior on D_{t,i}, draws a function from it, and queries the function's
    /// maximizer (lines 8–11).
    fn begin_round(&mut self, round: u64) -> Result<Vec<PeerEffect>, AgentError> {
        let rejected = self.learn(round)?.into_iter();
        let mut effects: Vec<PeerEffect> = rejected.map(PeerEffect::Rejected).collect();
        let id = u64::from(self.plan.id);
        let mut stream = self.seed.stream(Purpose::PROPOSAL, id, round);
        let none_pending = Points::new(self.strategy.domain().dim());
        let proposal = self.strategy.ask(&none_pending, &mut stream);
        let proposal = proposal.map_err(|source| self.failed(source))?;
        effects.push(self.evaluate(round, proposal.unit, proposal.source));
        Ok(effects)
    }

    /// Passes the new observations to the strategy, ordered by round and agent (line 15).
    fn learn(&mut self, round: u64) -> Result<Vec<ReportRejected>, AgentError> {
        let mut new = match self.plan.pace {
            Pace::Synchronous { .. } => {
                let senders = self.plan.neighbourhood.up_to(round);
                self.mailbox.use_before(round, &senders)
            }
            Pace::Asynchronous => self.mailbox.use_all(),
        };
        let untold = std::mem::take(&mut self.untold);
        let own: Vec<Observation> = untold.values().flatten().cloned().collect();
        for (of_round, observations) in untold {
            new.insert((of_round, self.plan.id), observations);
        }
        let all: Vec<Observation> = new.into_values().flatten().collect();
        let told = self.strategy.tell_all(&own, &all);
        told.map_err(|source| self.failed(source))
    }

    fn evaluate(&mut self, round: u64, unit: Vec<f64>, source: Source) -> PeerEffect {
        let trial = Trial { index: self.n_trials, round, unit, source };
        self.n_trials += 1;
        self.state = State::Evaluating(trial.clone());
        PeerEffect::Evaluate(trial)
    }

    fn failed(&self, source: StrategyError) -> AgentError {
        AgentError::Strategy { agent: self.plan.id, source }
    }

    fn unexpected(&self, event: &'static str) -> AgentError {
        let state = match self.state {
            State::Idle => "not started",
            State::Evaluating(_) => "evaluating",
            State::Waiting { .. } => "waiting for neighbours",
            State::Done => "finished",
        };
        AgentError::Unexpected { agent: self.plan.id, event, state }
    }
}
