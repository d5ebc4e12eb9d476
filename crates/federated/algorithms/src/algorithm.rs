//! The contract between a federated algorithm and its callers: files, sessions in one process,
//! networks.

use std::sync::Arc;

use fedbo_config::{Check, FileError};
use fedbo_gp::{FeatureDescription, FeatureMap};
use fedbo_protocol::{
    Aggregate, AggregateHandout, Broadcast, InitialSharing, Neighbour, Pace, UsesHandouts,
};
use fedbo_space::Space;
use fedbo_strategies::{
    Domain, LogEiSettings, MessageContent, OwnQuery, ReleasedFunction, StrategyError,
    ThompsonSettings, UcbMultiplier,
};
use fedbo_streams::{Seed, Stream};

use crate::{Alignment, Arm, PublicConfig, Role};

/// The way agents exchange information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// A coordinator passes each message on to all agents.
    Relayed,
    /// A coordinator releases sums, with or without noise.
    Released,
    /// Neighbours on a graph send each other observations.
    Neighbours,
}

/// Registry entry of an algorithm: its name, and the function that reads its settings from a file.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// The value of `federation.algorithm`.
    pub name: &'static str,
    /// Its purpose in a few words, shown to help users choose an algorithm.
    pub summary: &'static str,
    /// The way its agents exchange information.
    pub exchange: Exchange,
    /// [`Role::Alone`] if its own arm exchanges nothing, otherwise [`Role::Own`].
    pub role: Role,
    /// The name of its own arm when releases have no noise, if it differs from `name`.
    pub name_without_noise: Option<&'static str>,
    /// Tables that it reads besides the common ones. `features` is not common if neighbours share
    /// observations, so an algorithm lists it here to read it.
    pub tables: &'static [&'static str],
    /// The name of the arm to compare with, if its agents work alone.
    pub compared_with: Option<&'static str>,
    /// Its controls, besides agents alone by Thompson sampling and the placebo.
    pub controls: &'static [Arm],
    /// Reads its tables.
    pub read: fn(&Reading<'_>) -> Result<Read, FileError>,
}

impl Algorithm {
    /// Returns true if its agents share features.
    #[must_use]
    pub fn has_features(&self) -> bool {
        self.exchange != Exchange::Neighbours || self.tables.contains(&"features")
    }

    /// The arm that a file with this algorithm runs.
    #[must_use]
    pub fn own_arm(&self, has_noise: bool) -> Arm {
        match (self.role, self.name_without_noise) {
            (Role::Alone, _) => Arm::ALONE,
            (_, Some(name)) if !has_noise => Arm::own(name),
            _ => Arm::own(self.name),
        }
    }
}

/// Facts about the federation that are known when an algorithm reads its tables.
pub struct Reading<'a> {
    /// The file, and checks of its values.
    pub check: Check<'a>,
    /// The algorithm's name, used in errors.
    pub algorithm: &'static str,
    /// The search space.
    pub space: &'a Space,
    /// N, the number of agents.
    pub n_agents: usize,
    /// M, the number of features.
    pub n_features: usize,
    /// The agents' own Thompson sampling, with β = 1.
    pub own: ThompsonSettings,
    /// Log expected improvement of one agent: the strategy that a party would use alone, and the
    /// own query of algorithms that leave it open.
    pub log_ei: LogEiSettings,
    /// True if the paper's choices are the defaults: in the modes `paper` and `off` of releases.
    pub papers: bool,
    /// True if all agents run in one process and share its memory.
    pub in_one_process: bool,
}

impl Reading<'_> {
    /// The agents' own model and queries, by the key `own_query` of an algorithm's table.
    ///
    /// With `ts` (default), queries are posterior samples. With `log-ei`, model and queries are
    /// those of the arm `log-ei`.
    ///
    /// # Errors
    /// If the key has another value.
    pub fn own_by(
        &self,
        path: &[&str],
        own_query: Option<&str>,
    ) -> Result<ThompsonSettings, FileError> {
        let words = [("ts", OwnQuery::Sample), ("log-ei", OwnQuery::LogEi(self.log_ei.query()))];
        Ok(match self.check.word(path, own_query, &words)?.unwrap_or_default() {
            OwnQuery::Sample => self.own.clone(),
            OwnQuery::LogEi(_) => ThompsonSettings::of_log_ei(&self.log_ei),
        })
    }

    /// Checks that memory suffices for messages of `message_len` numbers.
    ///
    /// In one process, every agent keeps the latest message of every other agent. The error names
    /// `key`, the key that determines the length.
    ///
    /// # Errors
    /// If the messages would need too much memory.
    pub fn memory_suffices(&self, message_len: usize, key: &str) -> Result<(), FileError> {
        const BYTES_MAX: f64 = 4.0e9;
        let n_agents = self.n_agents;
        // Measured: while a broadcast is taken in, it adds about half of the memory of the inboxes.
        let bytes = 1.5 * (n_agents as f64).powi(2) * (8.0 * message_len as f64 + 80.0);
        if !self.in_one_process || bytes <= BYTES_MAX {
            return Ok(());
        }
        let message = format!(
            "{n_agents} agents that keep {message_len} numbers of each other would need about {:.0} GB of memory in one \
             process, and the limit is {:.0}; use fewer agents, or lower {key}",
            bytes / 1e9,
            BYTES_MAX / 1e9
        );
        Err(self.check.file.error(&["agents", "0"], message))
    }
}

/// Settings of an algorithm, as read from a file.
pub struct Read {
    /// The settings.
    pub settings: Settings,
    /// β_t. It also applies to agents alone unless the file says otherwise.
    pub ucb_multiplier: UcbMultiplier,
}

/// Settings of an algorithm, by the exchange of its agents.
#[derive(Clone)]
pub enum Settings {
    /// See [`Exchange::Relayed`].
    Relayed(Arc<dyn Relayed>),
    /// See [`Exchange::Released`].
    Released(Arc<dyn Released>),
    /// See [`Exchange::Neighbours`].
    Neighbours(Arc<dyn Neighbours>),
}

/// Inputs of an agent, besides its algorithm's settings.
pub struct AgentSetup<'a> {
    /// The role in the comparison.
    pub role: Role,
    /// β_t of agents alone.
    pub alone_ucb_multiplier: UcbMultiplier,
    /// The search space.
    pub space: &'a Space,
    /// The features that all agents share.
    pub map: &'a Arc<FeatureMap>,
    /// Root of the agent's random draws.
    pub seed: Seed,
}

/// Settings of an algorithm with messages from every agent to all other agents.
pub trait Relayed: Send + Sync {
    /// The length of a message, given M shared features of `dim` coordinates. By default M, the
    /// number of weights.
    fn message_len(&self, n_features: usize, dim: usize) -> usize {
        let _ = dim;
        n_features
    }

    /// The content of a message in words, for a note at the start of a run: everybody can read
    /// messages.
    fn messages_are(&self) -> &'static str {
        "weight samples"
    }

    /// The content of an agent's messages in plain words, and the conclusions that it allows.
    /// Follows the word "get".
    fn messages_reveal(&self) -> &'static str {
        "random draws of its model, which reveal some of its results"
    }

    /// Creates an agent without observations. An agent alone uses no messages; the messages of a
    /// placebo hold no information.
    ///
    /// # Errors
    /// If the strategy refuses its settings.
    fn agent(
        &self,
        setup: &AgentSetup<'_>,
    ) -> Result<Box<dyn UsesHandouts<Handout = Broadcast>>, StrategyError>;
}

/// The shape of releases, on which the mechanism depends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReleaseShape {
    /// P, the number of sums in a release.
    pub n_regions: u32,
    /// The first release where all agents have equal weight in all regions, so that one sum is
    /// enough. `None` if there is none.
    pub uniform_from: Option<u64>,
    /// The content of the vectors. The default of their maximum norm depends on it.
    pub content: MessageContent,
}

/// Settings of an algorithm with released sums of the agents' vectors.
pub trait Released: Send + Sync {
    /// The shape of releases.
    fn shape(&self) -> ReleaseShape;

    /// Creates an agent without observations. Sums are divided by `sampling_rate` (q).
    ///
    /// An agent alone uses no release and sends zero vectors, so that no information of any party
    /// is released. The vectors of a placebo hold no information: they are zeros if releases have
    /// noise, otherwise draws of the prior.
    ///
    /// # Errors
    /// If the strategy refuses its settings.
    fn agent(
        &self,
        setup: &AgentSetup<'_>,
        sampling_rate: f64,
        has_noise: bool,
    ) -> Result<Box<dyn UsesHandouts<Handout = AggregateHandout>>, StrategyError>;

    /// A random first point for the agent with this index, in unit-cube coordinates. By default
    /// anywhere in the space; `None` if no point was found.
    fn start(&self, agent: usize, space: &Space, stream: &mut Stream) -> Option<Vec<f64>> {
        let _ = agent;
        Some(Domain::Space(space.clone()).random(stream))
    }

    /// Weights of agents in a round, P rows of N with sum 1. The paper's mechanism applies them
    /// before it sums.
    fn agent_weights(&self, round: u64) -> Vec<Vec<f64>>;

    /// Adds the settings to the public configuration. The words never change, because ledgers keep
    /// them.
    ///
    /// The first line is the algorithm's name, so that two algorithms never have the same
    /// configuration. Only `dp-fts-de` has no such line.
    fn describe(&self, config: &mut PublicConfig);

    /// One function estimated from all releases, for parties that join after the last round, and
    /// the alignment of the agents' vectors.
    ///
    /// Returns `None` before the first release. `setup` is the setup of any agent. `rate_and_norm`
    /// is (q, S): sums are divided by q, and vectors are clipped at S/√P.
    ///
    /// # Errors
    /// If the strategy refuses its settings.
    fn released_function(
        &self,
        releases: &[Aggregate],
        setup: &AgentSetup<'_>,
        rate_and_norm: (f64, f64),
        features: FeatureDescription,
        seed: u64,
    ) -> Result<Option<(ReleasedFunction, Alignment)>, StrategyError>;
}

/// Durations of trials and reports in one process, in units of a usual trial's duration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VirtualNetwork {
    /// A trial takes from 1 − spread to 1 + spread.
    pub spread: f64,
    /// A report takes up to twice this value.
    pub delay: f64,
    /// Probability that a report is lost. A lost report is sent again after the duration of a
    /// trial.
    pub loss: f64,
}

/// Rules for the exchange of observations between neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NeighbourSettings {
    /// The condition on which rounds begin.
    pub pace: Pace,
    /// The initial points that are shared.
    pub initial_sharing: InitialSharing,
    /// Durations of trials and reports in one process.
    pub network: VirtualNetwork,
}

/// Settings of an algorithm with observations shared between neighbours.
pub trait Neighbours: Send + Sync {
    /// The rules of the exchange.
    fn exchange(&self) -> NeighbourSettings;

    /// Creates an agent without observations.
    ///
    /// The driver takes care of the roles: an agent alone has no neighbours, and a placebo's
    /// reports are replaced. `setup.seed` is the federation's seed, so that fits of equal data are
    /// equal.
    ///
    /// # Errors
    /// If the strategy refuses its settings.
    fn agent(&self, setup: &AgentSetup<'_>) -> Result<Box<dyn Neighbour>, StrategyError>;
}
