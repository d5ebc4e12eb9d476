//! The schedules of a federation according to its recorded settings: p_t, the probability that a
//! query uses the agent's own model, and P_N, the distribution over agents from which a message is
//! chosen.

use std::path::Path as FilePath;

use anyhow::Context as _;
use axum::response::Response;
use fedbo_config::{Check, TomlFile};
use fedbo_federated::dp_fts_de::DpFtsDeTable;
use fedbo_federated::fts::{AgentSampling, FtsTable};
use fedbo_strategies::LocalProb;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::folder::settings;
use super::request::{Asked, Problem, json};
use fedbo_console::BadInput;
use fedbo_documents::trial_record::SCHEMA_VERSION;

/// Maximum number of steps for which p_t is computed.
const STEPS: u64 = 10_000;
const FTS: &str = "fts";
const DP_FTS_DE: &str = "dp-fts-de";

/// The schedules of a run.
#[derive(Serialize)]
struct Document {
    schema_version: u32,
    algorithm: &'static str,
    /// The agents, in file order.
    agents: Vec<String>,
    /// p_t for t from 1.
    local_prob: Vec<f64>,
    /// True if noisier releases are used less often than p_t specifies. The actual frequency is not
    /// recorded.
    is_by_signal: bool,
    agent_sampling: Option<Sampling>,
}

/// The distribution P_N.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Sampling {
    /// Uniform over the agents with available messages.
    Uniform,
    /// Given weights over the agents with available messages.
    Given(Vec<f64>),
    /// Learned by each agent from its own observations. The distribution does not leave the agent
    /// and is not recorded.
    Learned,
}

/// Number of steps that a page requests.
#[derive(Deserialize)]
pub(crate) struct Steps {
    steps: Option<u64>,
}

/// Returns true if the settings of a run contain a schedule.
pub(super) fn has_schedule(folder: &FilePath) -> bool {
    let tables = settings(folder);
    tables.is_some_and(|tables| algorithm(&tables).is_some())
}

fn algorithm(tables: &Json) -> Option<&'static str> {
    let name = tables["federation"]["algorithm"].as_str()?;
    [FTS, DP_FTS_DE].into_iter().find(|known| *known == name)
}

/// Parses a table of the settings. Returns its default if it is absent.
fn table<T: DeserializeOwned + Default>(tables: &Json, name: &'static str) -> anyhow::Result<T> {
    match tables.get(name) {
        Some(table) => T::deserialize(table).with_context(|| format!("settings.json, {name}")),
        None => Ok(T::default()),
    }
}

impl Document {
    fn of(folder: &FilePath, steps: u64) -> anyhow::Result<Self> {
        let none = || Problem::absent("the folder does not record the schedules of its run");
        let tables = settings(folder).with_context(none)?;
        let algorithm = algorithm(&tables).with_context(none)?;
        let file = TomlFile::from_text(&folder.join("settings.json"), "");
        let check = Check::new(&file);
        let names = tables["agents"].as_array().into_iter().flatten();
        let agents: Vec<String> =
            names.map(|agent| agent["name"].as_str().unwrap_or_default().to_owned()).collect();
        let refused = |error: fedbo_config::FileError| BadInput(error.to_string());
        let (local_prob, is_by_signal, agent_sampling) = if algorithm == FTS {
            let table: FtsTable = table(&tables, FTS)?;
            let sampling = table.agent_sampling(check, agents.len()).map_err(refused)?;
            let sampling = match sampling {
                AgentSampling::Uniform => Sampling::Uniform,
                AgentSampling::Given(weights) => Sampling::Given(weights),
                AgentSampling::Learned { .. } => Sampling::Learned,
            };
            (table.local_prob(check).map_err(refused)?, false, Some(sampling))
        } else {
            let table: DpFtsDeTable = table(&tables, DP_FTS_DE)?;
            let mode = tables["privacy"]["mode"].as_str();
            let is_papers = matches!(mode, Some("paper" | "off"));
            let is_by_signal = table.trust.as_deref() == Some("signal");
            (table.local_prob(check, is_papers).map_err(refused)?, is_by_signal, None)
        };
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            algorithm,
            agents,
            local_prob: (1..=steps).map(|step| LocalProb::at(&local_prob, step)).collect(),
            is_by_signal,
            agent_sampling,
        })
    }
}

/// `GET /api/runs/{id}/schedule?steps=N`.
pub(super) fn schedule(asked: &Asked) -> anyhow::Result<Response> {
    let steps = asked.query::<Steps>()?.steps.unwrap_or(100).min(STEPS);
    json(&Document::of(&asked.shared.catalog.run(asked.id())?, steps)?)
}
