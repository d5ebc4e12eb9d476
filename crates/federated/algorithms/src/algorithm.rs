//! The interface between a federated algorithm and its callers: files, sessions in one process, and
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

/// The kind of information exchange between agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// A coordinator passes every message on to all agents.
    Relayed,
    /// A coordinator releases sums, with or without noise.
    Released,
    /// Neighbours on a graph send observations to each other.
    Neighbours,
}

/// The registry entry of an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// The value of `federation.algorithm`.
    pub name: &'static str,
    /// A short summary, shown to help users choose an algorithm.
    pub summary: &'static str,
    /// The kind of information exchange between its agents.
    pub exchange: Exchange,
    /// [`Role::Alone`] if the algorithm's arm exchanges nothing, otherwise [`Role::Own`].
    pub role: Role,
    /// The name of the algorithm's arm when releases have no noise, if it differs from `name`.
    pub name_without_noise: Option<&'static str>,
    /// The tables that the algorithm reads in addition to the common ones. When neighbours share
    /// observations, `features` is not a common table, so an algorithm that reads it must list it
    /// here.
    pub tables: &'static [&'static str],
    /// The name of the arm to compare with, if the algorithm's agents work alone.
    pub compared_with: Option<&'static str>,
    /// The control arms, in addition to standalone Thompson sampling and the placebo.
    pub controls: &'static [Arm],
    /// Reads the algorithm's tables.
    pub read: fn(&Reading<'_>) -> Result<Read, FileError>,
}

impl Algorithm {
    /// Returns true if the algorithm's agents share features.
    #[must_use]
    pub fn has_features(&self) -> bool {
        self.exchange != Exchange::Neighbours || self.tables.contains(&"features")
    }

    /// Returns the arm that a file with this algorithm runs.
    #[must_use]
    pub fn own_arm(&self, has_noise: bool) -> Arm {
        match (self.role, self.name_without_noise) {
            (Role::Alone, _) => Arm::ALONE,
            (_, Some(name)) if !has_noise => Arm::own(name),
            _ => Arm::own(self.name),
        }
    }
}

/// Information about the federation that is available when an algorithm reads its tables.
pub struct Reading<'a> {
    /// The file, with functions that check its values.
    pub check: Check<'a>,
    /// The algorithm's name, for error messages.
    pub algorithm: &'static str,
    /// The search space.
    pub space: &'a Space,
    /// N, the number of agents.
    pub n_agents: usize,
    /// M, the number of features.
    pub n_features: usize,
    /// Settings for the agents' own Thompson sampling, with β = 1.
    pub own: ThompsonSettings,
    /// Settings for log expected improvement, which a party would use without the federation.
    /// Algorithms that allow a choice also use it for an agent's own queries.
    pub log_ei: LogEiSettings,
    /// True if the paper's choices are the defaults, which is the case in release modes `paper` and
    /// `off`.
    pub papers: bool,
    /// True if all agents run in one process and share its memory.
    pub in_one_process: bool,
}

impl Reading<'_> {
    /// Returns the settings for the agents' own model and queries, according to the key `own_query`
    /// in an algorithm's table.
    ///
    /// With `ts` (default), queries are made by Thompson sampling. With `log-ei`, the model and
    /// queries are those of the arm `log-ei`.
    ///
    /// # Errors
    /// If the key has any other value.
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
    /// `key`, the key that determines the message length.
    ///
    /// # Errors
    /// If the messages would need too much memory.
    pub fn memory_suffices(&self, message_len: usize, key: &str) -> Result<(), FileError> {
        const BYTES_MAX: f64 = 4.0e9;
        let n_agents = self.n_agents;
        // Measured: while a broadcast is processed, it needs about half as much memory as the
        // inboxes.
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

/// The result of reading an algorithm's tables.
pub struct Read {
    /// The settings.
    pub settings: Settings,
    /// β_t, also used for standalone agents unless the file sets a different value for them.
    pub ucb_multiplier: UcbMultiplier,
}

/// An algorithm's settings, by the kind of exchange.
#[derive(Clone)]
pub enum Settings {
    /// See [`Exchange::Relayed`].
    Relayed(Arc<dyn Relayed>),
    /// See [`Exchange::Released`].
    Released(Arc<dyn Released>),
    /// See [`Exchange::Neighbours`].
    Neighbours(Arc<dyn Neighbours>),
}

/// Inputs for creating an agent, in addition to the algorithm's settings.
pub struct AgentSetup<'a> {
    /// The role in the comparison.
    pub role: Role,
    /// β_t for standalone agents.
    pub alone_ucb_multiplier: UcbMultiplier,
    /// The search space.
    pub space: &'a Space,
    /// The features that all agents share.
    pub map: &'a Arc<FeatureMap>,
    /// The seed of the agent's random draws.
    pub seed: Seed,
}

/// Settings of an algorithm in which every agent sends messages to all others.
pub trait Relayed: Send + Sync {
    /// Returns the length of a message, given M shared features in `dim` dimensions. By default,
    /// this is M, one weight per feature.
    fn message_len(&self, n_features: usize, dim: usize) -> usize {
        let _ = dim;
        n_features
    }

    /// Describes the content of the messages, for the note at the start of a run that everybody can
    /// read them.
    fn messages_are(&self) -> &'static str {
        "weight samples"
    }

    /// Describes in plain language what an agent's messages contain and what can be inferred from
    /// them. The description continues a sentence after the word "get".
    fn messages_reveal(&self) -> &'static str {
        "random draws of its model, which reveal some of its results"
    }

    /// Creates an agent without observations. A standalone agent uses no messages. A placebo's
    /// messages contain no information.
    ///
    /// # Errors
    /// If the strategy rejects its settings.
    fn agent(
        &self,
        setup: &AgentSetup<'_>,
    ) -> Result<Box<dyn UsesHandouts<Handout = Broadcast>>, StrategyError>;
}

/// The shape of releases, which determines the mechanism.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReleaseShape {
    /// P, the number of sums in a release.
    pub n_regions: u32,
    /// The first release in which all agents have equal weight in all regions, so that one sum is
    /// enough. `None` if there is no such release.
    pub uniform_from: Option<u64>,
    /// The content of the vectors, which determines the default for their maximum norm.
    pub content: MessageContent,
}

/// Settings of an algorithm that uses released sums of the agents' vectors.
pub trait Released: Send + Sync {
    /// Returns the shape of releases.
    fn shape(&self) -> ReleaseShape;

    /// Creates an agent without observations. Sums are divided by `sampling_rate` (q).
    ///
    /// A standalone agent uses no releases and sends zero vectors, so that no party's information
    /// is released. A placebo's vectors contain no information. They are zero if releases have
    /// noise, and draws from the prior otherwise.
    ///
    /// # Errors
    /// If the strategy rejects its settings.
    fn agent(
        &self,
        setup: &AgentSetup<'_>,
        sampling_rate: f64,
        has_noise: bool,
    ) -> Result<Box<dyn UsesHandouts<Handout = AggregateHandout>>, StrategyError>;

    /// Draws a random initial point for the agent with this index, in unit-cube coordinates. By
    /// default, it can be anywhere in the space. Returns `None` if no point was found.
    fn start(&self, agent: usize, space: &Space, stream: &mut Stream) -> Option<Vec<f64>> {
        let _ = agent;
        Some(Domain::Space(space.clone()).random(stream))
    }

    /// Returns the agents' weights in a round: P rows of N weights, each of which sums to 1. The
    /// paper's mechanism applies the weights before summing.
    fn agent_weights(&self, round: u64) -> Vec<Vec<f64>>;

    /// Adds the settings to the public configuration. The wording must never change, because
    /// ledgers store it.
    ///
    /// The first line is the algorithm's name, so that two algorithms never have the same
    /// configuration. Only `dp-fts-de` omits this line.
    fn describe(&self, config: &mut PublicConfig);

    /// Estimates one function from all releases, for parties that join after the last round, and
    /// the alignment of the agents' vectors.
    ///
    /// Returns `None` before the first release. `setup` can be any agent's setup. `rate_and_norm`
    /// is (q, S): sums are divided by q, and vectors are clipped to norm S/√P.
    ///
    /// # Errors
    /// If the strategy rejects its settings.
    fn released_function(
        &self,
        releases: &[Aggregate],
        setup: &AgentSetup<'_>,
        rate_and_norm: (f64, f64),
        features: FeatureDescription,
        seed: u64,
    ) -> Result<Option<(ReleasedFunction, Alignment)>, StrategyError>;
}

/// Virtual durations of trials and reports in one process, in units of the nominal trial duration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VirtualNetwork {
    /// The duration of a trial ranges from 1 − spread to 1 + spread.
    pub spread: f64,
    /// The mean delay of a report. Delays range from 0 to twice this value.
    pub delay: f64,
    /// Probability that a report is lost. A lost report is sent again after the nominal duration of
    /// a trial.
    pub loss: f64,
}

/// Rules for exchanging observations between neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NeighbourSettings {
    /// The condition under which rounds begin.
    pub pace: Pace,
    /// The initial points that are shared.
    pub initial_sharing: InitialSharing,
    /// Durations of trials and reports in one process.
    pub network: VirtualNetwork,
}

/// Settings of an algorithm in which neighbours share observations.
pub trait Neighbours: Send + Sync {
    /// Returns the rules for exchanging observations.
    fn exchange(&self) -> NeighbourSettings;

    /// Creates an agent without observations.
    ///
    /// The driver handles the roles: a standalone agent has no neighbours, and a placebo's reports
    /// are replaced. `setup.seed` is the federation's seed, so that equal data lead to equal fits.
    ///
    /// # Errors
    /// If the strategy rejects its settings.
    fn agent(&self, setup: &AgentSetup<'_>) -> Result<Box<dyn Neighbour>, StrategyError>;
}
