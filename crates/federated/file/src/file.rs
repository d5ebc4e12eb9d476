//! The parsed contents of a `federation.toml`: plain data that is not validated yet.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fedbo_config::{LengthscaleEntry, SurrogateTable};
use fedbo_space::{MixtureSpec, ParameterSpec, RuleSpec};
use fedbo_strategies::UcbMultiplier;
use serde::Deserialize;

use crate::network::NetworkTable;
use crate::secure_sum::SecureSumTable;
use crate::topology::TopologyTable;

/// A complete file. Algorithms parse their own tables.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FederationFile {
    /// Version of the file format; 1 (default).
    pub version: Option<u64>,
    /// `[federation]`
    pub federation: Option<FederationTable>,
    /// `[features]`: the random features shared by all agents.
    #[serde(default)]
    pub features: FeaturesTable,
    /// `[surrogate]`: the model of each agent's own objective.
    #[serde(default)]
    pub surrogate: SurrogateTable,
    /// `[ts]`: options of plain Thompson sampling.
    #[serde(default)]
    pub ts: TsTable,
    /// `[topology]`: the graph of neighbours, for algorithms in which neighbours share
    /// observations.
    #[serde(default)]
    pub topology: Option<TopologyTable>,
    /// `[privacy]`: the guarantee and the budget of releases, for algorithms that release sums.
    #[serde(default)]
    pub privacy: Option<PrivacyTable>,
    /// `[secure_sum]`: sums computed by two servers of different parties, for algorithms that
    /// release sums.
    #[serde(default)]
    pub secure_sum: Option<SecureSumTable>,
    /// `[network]`: the timing of rounds when agents run in other processes.
    #[serde(default)]
    pub network: NetworkTable,
    /// `[space.NAME]`, one table per parameter. This map does not keep the file's order, but the
    /// validated space does.
    #[serde(default)]
    pub space: BTreeMap<String, ParameterSpec>,
    /// `[[rules]]`: linear rules between parameters.
    #[serde(default)]
    pub rules: Vec<RuleSpec>,
    /// `[[mixtures]]`: shares of a total.
    #[serde(default)]
    pub mixtures: Vec<MixtureSpec>,
    /// `[[agents]]`, one table per agent.
    #[serde(default)]
    pub agents: Vec<AgentTable>,
    /// Tables that belong to algorithms, by name. Each algorithm parses its own tables.
    #[serde(flatten)]
    pub of_algorithms: BTreeMap<String, toml::Value>,
}

impl FederationFile {
    /// The keys that do not belong to an algorithm.
    pub(crate) const KEYS: [&'static str; 13] = [
        "version",
        "federation",
        "features",
        "surrogate",
        "ts",
        "topology",
        "privacy",
        "secure_sum",
        "network",
        "space",
        "rules",
        "mixtures",
        "agents",
    ];
}

/// `[federation]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FederationTable {
    /// Name of the federation and of its results folder.
    pub name: Option<String>,
    /// A plain name for the objective value, such as "digits read correctly". It labels the
    /// vertical axis of figures.
    pub value_name: Option<String>,
    /// `maximize` (default) or `minimize`.
    pub direction: Option<String>,
    /// The name of an algorithm; see [`fedbo_federated::ALGORITHMS`].
    pub algorithm: Option<String>,
    /// Number of queries of each agent after its initial points.
    pub rounds: Option<u64>,
    /// Seed of all random draws; default 0.
    pub seed: Option<u64>,
    /// Number of initial points of each agent; default 3.
    pub initial: Option<usize>,
    /// `rounds` (default): each query waits for the round's exchange. `free`: windows close at
    /// fixed times, and agents continue with the information that they have.
    pub pace: Option<String>,
    /// Number of windows, with `pace = "free"`; default `initial + rounds`.
    pub windows: Option<u64>,
    /// True if repeated evaluations of a point can give different values, so that repeating a point
    /// is worth a trial; default false.
    pub noisy: Option<bool>,
}

/// `[features]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FeaturesTable {
    /// Number of random features M, the length of a message; default 100.
    pub count: Option<usize>,
    /// Length scale in the unit cube, or its distribution.
    pub lengthscale: Option<LengthscaleEntry>,
    /// `squared-exponential` (default), `matern-5/2` or `matern-3/2`.
    pub kernel: Option<String>,
    /// Sampling of frequencies: `random` (default), or `quasi-random`, which needs fewer features
    /// in low dimensions.
    pub sampling: Option<String>,
}

/// `[ts]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TsTable {
    /// β_t; defaults to the value for `[fts]`, so that the two algorithms can be compared.
    pub ucb_multiplier: Option<UcbMultiplier>,
}

/// `[privacy]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrivacyTable {
    /// `default`; `paper`: the paper's mechanism and accountant, for reproducing its results;
    /// `off`: no noise and no guarantee.
    pub mode: Option<String>,
    /// ε, the total budget of all releases; required.
    pub epsilon: Option<f64>,
    /// δ; default min(1e-5, 1/N²), which is also the maximum. In mode `paper`, 1/N^1.1.
    pub delta: Option<f64>,
    /// q, the probability that an agent's vector enters a release, in `(0, 1]`; default 1.
    pub sampling_rate: Option<f64>,
    /// z, the standard deviation of the noise divided by the sensitivity. The default is the
    /// smallest value for which all releases fit the budget.
    pub noise_multiplier: Option<f64>,
    /// S: vectors are clipped to norm S/√P. The default is 1 for `message = "mean"`, and 1.1 √(P M)
    /// for `"sample"`.
    pub max_norm: Option<f64>,
    /// Number of releases. The default is the number of rounds, but at most 5 in mode `default`.
    pub releases: Option<u64>,
    /// Maximum number of releases in which each agent takes part, with `pace = "free"`, where every
    /// window has a release; default 5, or all windows if there are fewer.
    pub participations: Option<u64>,
    /// Number of rounds between releases; default 1. With `pace = "free"`, the number of an agent's
    /// own queries between uploads.
    pub every: Option<u64>,
    /// `pld` (default), `renyi` or `moments` (default in mode `paper`).
    pub accountant: Option<String>,
    /// Number of coordinates that are zero in all vectors, so that agents can verify the noise;
    /// default 64. These coordinates have no privacy cost. Not available in mode `paper`.
    pub witnesses: Option<u32>,
    /// True to draw the noise from the file's seed, for experiments, with no guarantee and no
    /// charge; default false.
    pub simulate: Option<bool>,
}

/// An `[[agents]]` table: a name, and a command, a built-in problem or earlier observations.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentTable {
    /// Unique name of the agent.
    pub name: Option<String>,
    /// The program and its arguments; `{x}` is replaced by the value of parameter x.
    pub command: Option<Vec<String>>,
    /// Working directory of the command, relative to the file's folder; defaults to that folder.
    pub directory: Option<PathBuf>,
    /// Time limit of a trial in seconds; no limit by default.
    pub timeout_s: Option<f64>,
    /// Duration of a trial in seconds of virtual time, with `pace = "free"` and all agents in one
    /// process; default `network.round_s`.
    pub trial_s: Option<f64>,
    /// Name of a built-in problem.
    pub problem: Option<String>,
    /// Site of `wine-svm` or `wine-trees`, or form of `digits-perceptron`, counted from 0.
    pub silo: Option<usize>,
    /// Number of sites of `wine-svm` (default 8) or `wine-trees` (default 12).
    pub n_silos: Option<usize>,
    /// Field of `landmine-svm`, counted from 0.
    pub field: Option<usize>,
    /// Number of dimensions of a test function.
    pub dim: Option<usize>,
    /// Standard deviation of the noise on a test function.
    pub noise_std: Option<f64>,
    /// Data folder of `landmine-svm`, relative to the file's folder.
    pub data: Option<PathBuf>,
    /// Earlier trials of the agent, in the syntax of a study's `[meta] studies`:
    /// `sqlite:FILE#STUDY` or `FILE.csv`. The agent sends one message based on them before the
    /// first round, and makes no queries.
    pub observations: Option<String>,
}
