//! The contract between a federated algorithm and those that run it: files, sessions in one process, networks.

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

/// The way in which agents exchange what they know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// Messages that a coordinator passes on to everybody.
    Relayed,
    /// Releases of sums that a coordinator makes, with or without noise.
    Released,
    /// Observations that neighbours on a graph send each other.
    Neighbours,
}

/// An entry of the registry: a name, and how settings are read from a file.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// The word of `federation.algorithm`.
    pub name: &'static str,
    /// Its use in a few words, for those who have to choose.
    pub summary: &'static str,
    /// The way in which its agents exchange what they know.
    pub exchange: Exchange,
    /// [`Role::Alone`] where its own arm exchanges nothing, else [`Role::Own`].
    pub role: Role,
    /// The name of its own arm where releases have no noise, if that is another than its name.
    pub name_without_noise: Option<&'static str>,
    /// The tables of a file that it reads beside those that all do, `features` among them where neighbours share observations.
    pub tables: &'static [&'static str],
    /// The name of the arm that an algorithm whose agents work alone is compared with.
    pub compared_with: Option<&'static str>,
    /// The controls that it has beside agents alone by Thompson sampling and the placebo.
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

    /// The arm that a file with this algorithm asks for.
    #[must_use]
    pub fn own_arm(&self, has_noise: bool) -> Arm {
        match (self.role, self.name_without_noise) {
            (Role::Alone, _) => Arm::ALONE,
            (_, Some(name)) if !has_noise => Arm::own(name),
            _ => Arm::own(self.name),
        }
    }
}

/// The facts about a federation that are known when an algorithm reads its tables.
pub struct Reading<'a> {
    /// The file, and checks of its values.
    pub check: Check<'a>,
    /// The algorithm's name, by which errors call it.
    pub algorithm: &'static str,
    /// The parameters.
    pub space: &'a Space,
    /// N.
    pub n_agents: usize,
    /// M.
    pub n_features: usize,
    /// The agents' own Thompson sampling, with β = 1.
    pub own: ThompsonSettings,
    /// Log expected improvement of one agent: what a party would use alone, and the own query of an algorithm that leaves it open.
    pub log_ei: LogEiSettings,
    /// True if the paper's choices hold where the file makes none: in the modes `paper` and `off` of releases.
    pub papers: bool,
    /// True if all agents run in one process, whose memory they share.
    pub in_one_process: bool,
}

impl Reading<'_> {
    /// The agents' own model and queries, as a key `own_query` of an algorithm's table says: `ts` (default), or `log-ei`, by which they are
    /// those of the arm `log-ei`.
    ///
    /// # Errors
    /// If the word is another.
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

    /// Every agent of a process keeps the latest message of every other, of `message_len` numbers, on which `key` decides: refuses
    /// what cannot fit.
    ///
    /// # Errors
    /// If so.
    pub fn memory_suffices(&self, message_len: usize, key: &str) -> Result<(), FileError> {
        const BYTES_MAX: f64 = 4.0e9;
        let n_agents = self.n_agents;
        // Measured: the broadcast being taken in adds about half of what the inboxes hold.
        let bytes = 1.5 * (n_agents as f64).powi(2) * (8.0 * message_len as f64 + 80.0);
        if !self.in_one_process || bytes <= BYTES_MAX {
            return Ok(());
        }
        let message = format!(
            "{n_agents} agents that keep {message_len} numbers of each other would need about {:.0} GB of memory in one \
             process, which stops at {:.0}; name fewer agents, or lower {key}",
            bytes / 1e9,
            BYTES_MAX / 1e9
        );
        Err(self.check.file.error(&["agents", "0"], message))
    }
}

/// The settings that a file gives an algorithm.
pub struct Read {
    /// The settings.
    pub settings: Settings,
    /// β_t, which also holds for agents alone unless the file says otherwise.
    pub ucb_multiplier: UcbMultiplier,
}

/// Settings of an algorithm, by the way in which its agents exchange what they know.
#[derive(Clone)]
pub enum Settings {
    /// See [`Exchange::Relayed`].
    Relayed(Arc<dyn Relayed>),
    /// See [`Exchange::Released`].
    Released(Arc<dyn Released>),
    /// See [`Exchange::Neighbours`].
    Neighbours(Arc<dyn Neighbours>),
}

/// The facts that an agent is made from, beside its algorithm's settings.
pub struct AgentSetup<'a> {
    /// Its part in the comparison.
    pub role: Role,
    /// β_t of agents alone.
    pub alone_ucb_multiplier: UcbMultiplier,
    /// The parameters.
    pub space: &'a Space,
    /// The features that all agents share.
    pub map: &'a Arc<FeatureMap>,
    /// Root of its draws.
    pub seed: Seed,
}

/// Settings of an algorithm whose agents send messages that everybody gets.
pub trait Relayed: Send + Sync {
    /// The number of numbers in a message, where M features of `dim` coordinates are shared: M, unless the algorithm sends something
    /// else than weights of features.
    fn message_len(&self, n_features: usize, dim: usize) -> usize {
        let _ = dim;
        n_features
    }

    /// The content of a message in words, for a note to those who begin a run: everybody can read it.
    fn messages_are(&self) -> &'static str {
        "weight samples"
    }

    /// An agent without observations. Alone, it uses no message; as a placebo, its own hold no information.
    ///
    /// # Errors
    /// If the strategy refuses its settings.
    fn agent(
        &self,
        setup: &AgentSetup<'_>,
    ) -> Result<Box<dyn UsesHandouts<Handout = Broadcast>>, StrategyError>;
}

/// The shape of releases, which the mechanism follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReleaseShape {
    /// P: sums in a release.
    pub n_regions: u32,
    /// The first release in which all agents count the same everywhere, so that one sum is enough; `None` if there is none.
    pub uniform_from: Option<u64>,
    /// The content of the vectors, on which the default of their largest norm depends.
    pub content: MessageContent,
}

/// Settings of an algorithm whose agents learn from released sums of their vectors.
pub trait Released: Send + Sync {
    /// The shape of releases.
    fn shape(&self) -> ReleaseShape;

    /// An agent without observations; sums are divided by `sampling_rate` (q). Alone, it uses no release and its vectors are zero,
    /// so that nothing of anybody is released. As a placebo its vectors hold no information: zeros where releases have noise,
    /// else draws of the prior.
    ///
    /// # Errors
    /// If the strategy refuses its settings.
    fn agent(
        &self,
        setup: &AgentSetup<'_>,
        sampling_rate: f64,
        has_noise: bool,
    ) -> Result<Box<dyn UsesHandouts<Handout = AggregateHandout>>, StrategyError>;

    /// A random point of the space, in unit-cube coordinates, for the agent of this index to begin with: anywhere, unless the algorithm
    /// says otherwise; `None` if none was found.
    fn start(&self, agent: usize, space: &Space, stream: &mut Stream) -> Option<Vec<f64>> {
        let _ = agent;
        Some(Domain::Space(space.clone()).random(stream))
    }

    /// Weights of agents in a round, P rows of N with sum 1, for the paper's mechanism, which weighs before it sums.
    fn agent_weights(&self, round: u64) -> Vec<Vec<f64>>;

    /// Adds the settings to the public configuration, in words that never change: ledgers keep them. A line with the algorithm's
    /// name comes first, so that no other has the same configuration; `dp-fts-de` alone has none.
    fn describe(&self, config: &mut PublicConfig);

    /// One function of all releases, for parties that come after the last round, and the alignment of the agents' vectors; `None`
    /// before the first release. `setup` is that of any agent. Sums are divided by q, and vectors are clipped at S/√P: (q, S) is given.
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

/// The times that trials and reports take in one process, in units of a usual trial's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VirtualNetwork {
    /// A trial takes from 1 − spread to 1 + spread.
    pub spread: f64,
    /// A report takes up to twice this.
    pub delay: f64,
    /// Probability that a report is lost, and sent again after the time of a trial.
    pub loss: f64,
}

/// The rules by which neighbours exchange observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NeighbourSettings {
    /// The condition on which rounds begin.
    pub pace: Pace,
    /// The initial points that are shared.
    pub initial_sharing: InitialSharing,
    /// The times that trials and reports take in one process.
    pub network: VirtualNetwork,
}

/// Settings of an algorithm whose agents share observations with neighbours.
pub trait Neighbours: Send + Sync {
    /// The rules of the exchange.
    fn exchange(&self) -> NeighbourSettings;

    /// An agent without observations. That it has no neighbours where it works alone, and what a placebo reports, is its driver's
    /// concern. `setup.seed` is the federation's: fits of equal data are equal.
    ///
    /// # Errors
    /// If the strategy refuses its settings.
    fn agent(&self, setup: &AgentSetup<'_>) -> Result<Box<dyn Neighbour>, StrategyError>;
}
