//! `federation.toml` as it stands: plain data, not yet checked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fedbo_config::{LengthscaleEntry, SurrogateTable, UcbEntry, WordOrNumbers};
use fedbo_space::ParameterSpec;
use serde::Deserialize;

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
    /// `fts` or `ts`.
    pub algorithm: Option<String>,
    /// Queries of each agent after its initial points.
    pub rounds: Option<u64>,
    /// Root of all randomness; default 0.
    pub seed: Option<u64>,
    /// Initial points of each agent; default 3.
    pub initial: Option<usize>,
    /// Whether equal points may give different values, so that repeating one is worth a trial; default false.
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
    /// Whether each agent standardizes the outputs that its messages are made of; default true.
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

/// One `[[agents]]` table: a name, and a command or a built-in problem.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentTable {
    /// Its name, unlike all others'.
    pub name: Option<String>,
    /// The program and its arguments; `{x}` stands for the value of parameter x.
    pub command: Option<Vec<String>>,
    /// Where the command runs; default the file's folder, to which it is relative.
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
