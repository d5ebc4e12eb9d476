//! `federation.toml` as it stands: plain data, not yet checked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fedbo_config::{LengthscaleEntry, SurrogateTable};
use fedbo_space::ParameterSpec;
use fedbo_strategies::UcbMultiplier;
use serde::Deserialize;

use crate::network::NetworkTable;
use crate::secure_sum::SecureSumTable;
use crate::topology::TopologyTable;

/// A whole file, but for the tables that an algorithm reads.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FederationFile {
    /// Version of the file's layout; 1, also by default.
    pub version: Option<u64>,
    /// `[federation]`
    pub federation: Option<FederationTable>,
    /// `[features]`: what all agents share.
    #[serde(default)]
    pub features: FeaturesTable,
    /// `[surrogate]`: how each agent models its own objective.
    #[serde(default)]
    pub surrogate: SurrogateTable,
    /// `[ts]`: options of Thompson sampling alone.
    #[serde(default)]
    pub ts: TsTable,
    /// `[topology]`: who is whose neighbour, of algorithms whose agents share with neighbours.
    #[serde(default)]
    pub topology: Option<TopologyTable>,
    /// `[privacy]`: what is promised of releases and what they may cost, of algorithms that release sums.
    #[serde(default)]
    pub privacy: Option<PrivacyTable>,
    /// `[secure_sum]`: sums by two servers of two parties, of algorithms that release sums.
    #[serde(default)]
    pub secure_sum: Option<SecureSumTable>,
    /// `[network]`: the pace of rounds when agents are other processes.
    #[serde(default)]
    pub network: NetworkTable,
    /// `[space.NAME]`, one table a parameter. A map has no order: the checked space follows the file's.
    #[serde(default)]
    pub space: BTreeMap<String, ParameterSpec>,
    /// `[[agents]]`, one table an agent.
    #[serde(default)]
    pub agents: Vec<AgentTable>,
    /// Tables that only algorithms know, by name: each reads its own.
    #[serde(flatten)]
    pub of_algorithms: BTreeMap<String, toml::Value>,
}

impl FederationFile {
    /// The keys that are not an algorithm's.
    pub(crate) const KEYS: [&'static str; 11] = [
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
        "agents",
    ];
}

/// `[federation]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FederationTable {
    /// Its name, also that of its results folder.
    pub name: Option<String>,
    /// `maximize` (default) or `minimize`.
    pub direction: Option<String>,
    /// The name of an algorithm: see [`fedbo_federated::ALGORITHMS`].
    pub algorithm: Option<String>,
    /// Queries of each agent after its initial points.
    pub rounds: Option<u64>,
    /// Root of all randomness; default 0.
    pub seed: Option<u64>,
    /// Initial points of each agent; default 3.
    pub initial: Option<usize>,
    /// `rounds` (default): the next query waits for what all know. `free`: windows close by the clock, and agents go on with what they
    /// know.
    pub pace: Option<String>,
    /// Windows of `pace = "free"`; default `initial + rounds`.
    pub windows: Option<u64>,
    /// True if equal points may give different values, so that repeating one is worth a trial; default false.
    pub noisy: Option<bool>,
}

/// `[features]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FeaturesTable {
    /// Number of random features M, the length of a message; default 100.
    pub count: Option<usize>,
    /// Length scale in the unit cube, or the law of it.
    pub lengthscale: Option<LengthscaleEntry>,
    /// `squared-exponential` (default), `matern-5/2` or `matern-3/2`.
    pub kernel: Option<String>,
    /// The method that draws frequencies: `random` (default), or `quasi-random`, with which fewer features are enough
    /// in few dimensions.
    pub sampling: Option<String>,
}

/// `[ts]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TsTable {
    /// β_t; by default that of `[fts]`, so that the two can be compared.
    pub ucb_multiplier: Option<UcbMultiplier>,
}

/// `[privacy]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrivacyTable {
    /// `default`; `paper`, the paper's mechanism and accountant, for reproduction; `off`, no noise and no promise.
    pub mode: Option<String>,
    /// ε that all releases together may spend; needed.
    pub epsilon: Option<f64>,
    /// δ; default min(1e-5, 1/N²), which is also the largest; in mode `paper` 1/N^1.1.
    pub delta: Option<f64>,
    /// q: probability that an agent's vector enters a release, in `(0, 1]`; default 1.
    pub sampling_rate: Option<f64>,
    /// z: standard deviation of the noise over the sensitivity; default the least with which all releases fit the budget.
    pub noise_multiplier: Option<f64>,
    /// S: vectors are clipped at norm S/√P; default 1 for `message = "mean"`, 1.1 √(P M) for `"sample"`.
    pub max_norm: Option<f64>,
    /// Number of releases; default the number of rounds, in mode `default` at most 5.
    pub releases: Option<u64>,
    /// Releases that each agent is in at most, with `pace = "free"`, where every window releases; default 5, or all where there are fewer.
    pub participations: Option<u64>,
    /// Rounds from release to release; default 1. With `pace = "free"`, an agent's own queries from upload to upload.
    pub every: Option<u64>,
    /// `pld` (default), `renyi` or `moments` (default in mode `paper`).
    pub accountant: Option<String>,
    /// Coordinates of a release in which all vectors are zero, so that agents see in them that there is noise; default 64. They
    /// cost no privacy. Not in mode `paper`.
    pub witnesses: Option<u32>,
    /// Noise from the file's seed, to try things out: nothing is promised then, and nothing charged; default false.
    pub simulate: Option<bool>,
}

/// One `[[agents]]` table: a name, and a command or a built-in problem.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentTable {
    /// Its name, unlike all others'.
    pub name: Option<String>,
    /// The program and its arguments; `{x}` stands for the value of parameter x.
    pub command: Option<Vec<String>>,
    /// The folder in which the command runs; default the file's folder, to which it is relative.
    pub directory: Option<PathBuf>,
    /// Seconds that a trial may take; default no limit.
    pub timeout_s: Option<f64>,
    /// Seconds that a trial takes in virtual time, with `pace = "free"` when all agents run in one process; default `network.round_s`.
    pub trial_s: Option<f64>,
    /// Name of a built-in problem.
    pub problem: Option<String>,
    /// Site of `wine-svm` or `wine-trees`, or form of `digits-perceptron`, from 0.
    pub silo: Option<usize>,
    /// Number of sites of `wine-svm` (default 8) or `wine-trees` (default 12).
    pub n_silos: Option<usize>,
    /// Field of `landmine-svm`, from 0.
    pub field: Option<usize>,
    /// Number of dimensions of a test function.
    pub dim: Option<usize>,
    /// Standard deviation of the noise on a test function.
    pub noise_std: Option<f64>,
    /// Data folder of `landmine-svm`, relative to the file's folder.
    pub data: Option<PathBuf>,
}
