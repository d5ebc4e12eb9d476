//! `federation.toml` as it stands: plain data, not yet checked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fedbo_config::{LengthscaleEntry, SurrogateTable, UcbEntry, WordOrNumbers};
use fedbo_space::ParameterSpec;
use serde::Deserialize;

use crate::distributed_ts::DistributedTsTable;
use crate::network::NetworkTable;
use crate::topology::TopologyTable;

/// A whole file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// `[fts]`: options of federated Thompson sampling.
    #[serde(default)]
    pub fts: FtsTable,
    /// `[ts]`: options of Thompson sampling alone.
    #[serde(default)]
    pub ts: TsTable,
    /// `[dp-fts-de]`: options of federated Thompson sampling with distributed exploration.
    #[serde(default, rename = "dp-fts-de")]
    pub dp_fts_de: Option<DpFtsDeTable>,
    /// `[exploration]`: who explores where, of `dp-fts-de`.
    #[serde(default)]
    pub exploration: Option<ExplorationTable>,
    /// `[distributed-ts]`: options of distributed Thompson sampling.
    #[serde(default, rename = "distributed-ts")]
    pub distributed_ts: Option<DistributedTsTable>,
    /// `[topology]`: who is whose neighbour, of `distributed-ts`.
    #[serde(default)]
    pub topology: Option<TopologyTable>,
    /// `[privacy]`: what is promised of releases and what they may cost, of `dp-fts-de`.
    #[serde(default)]
    pub privacy: Option<PrivacyTable>,
    /// `[network]`: the pace of rounds when agents are other processes.
    #[serde(default)]
    pub network: NetworkTable,
    /// `[space.NAME]`, one table a parameter. A map has no order: the checked space follows the file's.
    #[serde(default)]
    pub space: BTreeMap<String, ParameterSpec>,
    /// `[[agents]]`, one table an agent.
    #[serde(default)]
    pub agents: Vec<AgentTable>,
}

/// `[federation]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FederationTable {
    /// Its name, also that of its results folder.
    pub name: Option<String>,
    /// `maximize` (default) or `minimize`.
    pub direction: Option<String>,
    /// `fts`, `ts`, `dp-fts-de` or `distributed-ts`.
    pub algorithm: Option<String>,
    /// Queries of each agent after its initial points.
    pub rounds: Option<u64>,
    /// Root of all randomness; default 0.
    pub seed: Option<u64>,
    /// Initial points of each agent; default 3.
    pub initial: Option<usize>,
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

/// `[fts]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FtsTable {
    /// p_t: `1-1/sqrt(t)` (default), `1-1/t^2`, a number, or a list.
    pub local_prob: Option<WordOrNumbers>,
    /// P_N: `learned` (default), `uniform`, or a list with a weight for each agent.
    pub agent_sampling: Option<WordOrNumbers>,
    /// c of `learned`: 0 is uniform; default 2.
    pub sharpness: Option<f64>,
    /// β_t: a number (default 1), or the bound of the paper's theorem 1.
    pub ucb_multiplier: Option<UcbEntry>,
    /// True if each agent standardizes the outputs that its messages are made of; default true.
    pub standardize: Option<bool>,
    /// σ² in messages; by default the noise variance that the agent's own surrogate has found, at least 1e-4.
    pub message_noise: Option<f64>,
}

/// `[ts]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TsTable {
    /// β_t; by default that of `[fts]`, so that the two can be compared.
    pub ucb_multiplier: Option<UcbEntry>,
}

/// `[dp-fts-de]`: how an agent uses releases and what it sends.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DpFtsDeTable {
    /// p_t: `1-1/t` (default), `1-1/sqrt(t)` (default in modes `paper` and `off`), a number, or a list.
    pub local_prob: Option<WordOrNumbers>,
    /// `schedule` (default): the releases are used with probability 1 − p_t; `signal`: less often the more of them is noise.
    pub trust: Option<String>,
    /// `mean` (default): the posterior's mean is sent; `sample` (default in modes `paper` and `off`): a draw from it.
    pub message: Option<String>,
    /// `mean` (default): all releases count; `latest` (default in modes `paper` and `off`): the latest alone.
    pub memory: Option<String>,
    /// The factor on the weight of a release for each round of its age under `memory = "mean"`, in `(0, 1]`; default 1.
    pub discount: Option<f64>,
    /// β_t: a number (default 1), or the bound of FTS's theorem 1.
    pub ucb_multiplier: Option<UcbEntry>,
    /// True if each agent standardizes the outputs that its vectors are made of; default true.
    pub standardize: Option<bool>,
    /// σ² in vectors; by default the noise variance that the agent's own surrogate has found, at least 1e-4.
    pub message_noise: Option<f64>,
}

/// `[exploration]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExplorationTable {
    /// P: regions of the space; agent n, counted from 0 in the file's order, is assigned to region n mod P. Default 1 for
    /// fewer than 8 agents, else 4, or fewer where the space cannot be cut so often.
    pub regions: Option<u32>,
    /// The place of initial points: `region` (default), the agent's own, or `anywhere`.
    pub start: Option<String>,
    /// φ: how much more an agent counts in its own region: `softmax` (default), `linear`, `square` or `uniform`.
    pub weights: Option<String>,
    /// a_1 of the weights, at least 1; default 16.
    pub weight_start: Option<f64>,
    /// Rounds at that value, or `forever`; default 10.
    pub weight_hold: Option<WordOrNumbers>,
    /// Rounds over which it falls to 1, where all agents count the same; default 30.
    pub weight_decay: Option<u64>,
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
    /// Rounds from release to release; default 1.
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
    /// Name of a built-in problem.
    pub problem: Option<String>,
    /// Site of `wine-svm`, from 0.
    pub silo: Option<usize>,
    /// Number of sites of `wine-svm`; default 8.
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
