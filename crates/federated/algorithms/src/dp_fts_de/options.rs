//! The options in `[dp-fts-de]`.

use std::sync::Arc;

use fedbo_config::{Check, FileError, WordOrNumbers};
use fedbo_strategies::{LocalProb, MessageContent, MessageNoise, MessageSettings, UcbMultiplier};
use serde::Deserialize;

use super::exploration::{Exploration, ExplorationTable};
use super::{AggregateUse, Federated, Memory};
use crate::{Read, Reading, Settings};

/// `[dp-fts-de]`: how an agent uses releases, and what its vectors contain.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DpFtsDeTable {
    /// p_t: `1-1/t` (default), `1-1/sqrt(t)` (default in modes `paper` and `off`), `1-1/t^2`, a
    /// number or a list.
    pub local_prob: Option<WordOrNumbers>,
    /// The rule for queries by the agent's own model, which are made with probability p_t: `ts`
    /// (default), as in the paper, or `log-ei`, with the model of the arm `log-ei`.
    pub own_query: Option<String>,
    /// `schedule` (default): releases are used with probability 1 − p_t. `signal`: they are used
    /// less often if they contain more noise.
    pub trust: Option<String>,
    /// The vector that an agent sends. `mean` (default): the posterior mean. `sample` (default in
    /// modes `paper` and `off`): a draw from the posterior.
    pub message: Option<String>,
    /// `mean` (default): all releases count. `latest` (default in modes `paper` and `off`): only
    /// the latest release counts.
    pub memory: Option<String>,
    /// With `memory = "mean"`, the factor applied to a release's weight per round of age, in
    /// `(0, 1]`; default 1.
    pub discount: Option<f64>,
    /// β_t: a number (default 1), or the bound of FTS's Theorem 1.
    pub ucb_multiplier: Option<UcbMultiplier>,
    /// True if each agent standardizes its outputs before it computes its vectors; default
    /// true.
    pub standardize: Option<bool>,
    /// σ² used for vectors. The default is the noise variance of the agent's own surrogate, but at
    /// least 1e-4.
    pub message_noise: Option<f64>,
}

/// The tables that this algorithm reads.
#[derive(Deserialize)]
struct Tables {
    #[serde(default, rename = "dp-fts-de")]
    dp_fts_de: DpFtsDeTable,
    #[serde(default)]
    exploration: ExplorationTable,
}

/// Reads `[dp-fts-de]` and `[exploration]`.
pub(super) fn read(reading: &Reading<'_>) -> Result<Read, FileError> {
    let Reading { check, papers, n_agents, space, .. } = *reading;
    if space.has_conditions() || space.has_rules() {
        let message = "federation.algorithm: dp-fts-de divides the ranges of parameters into regions, and its regions cannot follow conditions \
                       (when), rules or mixtures; use dp-shared-prior, which has the same guarantee, or remove them";
        return Err(check.file.error(&["federation", "algorithm"], message));
    }
    let Tables { dp_fts_de: table, exploration } = check.file.parse()?;
    let path = ["dp-fts-de", "ucb_multiplier"];
    let ucb_multiplier = check.ucb_multiplier(&path, table.ucb_multiplier)?;
    let exploration = Exploration::of(&exploration, check, space, n_agents)?;
    memory_suffices(&exploration, reading)?;
    let local_prob = table.local_prob(check, papers)?;
    let message = message(&table, check, papers)?;
    let memory = memory(&table, check, papers)?;
    let words = [("schedule", AggregateUse::Schedule), ("signal", AggregateUse::Signal)];
    let trust = check.word(&["dp-fts-de", "trust"], table.trust.as_deref(), &words)?;
    let mut own = reading.own_by(&["dp-fts-de", "own_query"], table.own_query.as_deref())?;
    own.ucb_multiplier = ucb_multiplier;
    let settings = Federated {
        own,
        local_prob,
        trust: trust.unwrap_or(AggregateUse::Schedule),
        message,
        memory,
        exploration,
        alone: reading.own.clone(),
        log_ei: reading.log_ei.clone(),
    };
    Ok(Read { settings: Settings::Released(Arc::new(settings)), ucb_multiplier })
}

/// Checks that memory suffices if every agent in one process keeps one sum per region.
fn memory_suffices(exploration: &Exploration, reading: &Reading<'_>) -> Result<(), FileError> {
    const BYTES_MAX: f64 = 4.0e9;
    let (n_agents, n_regions) = (reading.n_agents, exploration.n_regions());
    // The sums, and the same amount again while a release is processed.
    let bytes = 2.0 * 8.0 * n_agents as f64 * n_regions as f64 * reading.n_features as f64;
    if !reading.in_one_process || bytes <= BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "{n_agents} agents that keep {} numbers for each of {n_regions} regions would need about {:.0} GB of memory in one process, \
         and the limit is {:.0}; lower exploration.regions or features.count",
        reading.n_features,
        bytes / 1e9,
        BYTES_MAX / 1e9
    );
    Err(reading.check.file.error(&["exploration", "regions"], message))
}

impl DpFtsDeTable {
    /// Returns the schedule of p_t. `papers` is true in modes `paper` and `off`.
    ///
    /// # Errors
    /// If the value is not a schedule.
    pub fn local_prob(&self, check: Check<'_>, papers: bool) -> Result<LocalProb, FileError> {
        let path = ["dp-fts-de", "local_prob"];
        let schedule = match &self.local_prob {
            None if papers => LocalProb::Power(0.5),
            None => LocalProb::Power(1.0),
            Some(WordOrNumbers::Number(p)) => LocalProb::Constant(*p),
            Some(WordOrNumbers::List(list)) => LocalProb::List(list.clone()),
            Some(WordOrNumbers::Word(word)) => {
                let word: String = word.chars().filter(|c| !c.is_whitespace()).collect();
                match word.as_str() {
                    "1-1/t" => LocalProb::Power(1.0),
                    "1-1/sqrt(t)" => LocalProb::Power(0.5),
                    "1-1/t^2" => LocalProb::Power(2.0),
                    _ => {
                        let expected = "\"1-1/t\", \"1-1/sqrt(t)\", \"1-1/t^2\", a probability, or a list of probabilities";
                        return Err(check.file.value_error(&path, expected));
                    }
                }
            }
        };
        check.setting(&path, schedule.validate())
    }
}

fn message(
    table: &DpFtsDeTable,
    check: Check<'_>,
    papers: bool,
) -> Result<MessageSettings, FileError> {
    let standard = MessageSettings::default();
    let words = [("mean", MessageContent::Mean), ("sample", MessageContent::Posterior)];
    let content = check.word(&["dp-fts-de", "message"], table.message.as_deref(), &words)?;
    let settings = MessageSettings {
        content: content.unwrap_or(match papers {
            true => MessageContent::Posterior,
            false => MessageContent::Mean,
        }),
        noise_variance: table.message_noise.map_or(standard.noise_variance, MessageNoise::Given),
        standardize: table.standardize.unwrap_or(standard.standardize),
    };
    check.setting(&["dp-fts-de", "message_noise"], settings.validate())
}

fn memory(table: &DpFtsDeTable, check: Check<'_>, papers: bool) -> Result<Memory, FileError> {
    let words = [("mean", false), ("latest", true)];
    let latest = check.word(&["dp-fts-de", "memory"], table.memory.as_deref(), &words)?;
    let path = ["dp-fts-de", "discount"];
    match (latest.unwrap_or(papers), table.discount) {
        (true, None) => Ok(Memory::Latest),
        (true, Some(_)) => {
            let message = "dp-fts-de.discount has no effect unless memory = \"mean\"; remove it, or set memory";
            Err(check.file.error(&path, message))
        }
        (false, discount) => {
            let discount = discount.unwrap_or(1.0);
            if discount > 0.0 && discount <= 1.0 {
                return Ok(Memory::Mean { discount });
            }
            Err(check.file.value_error(&path, "a number above 0 and at most 1"))
        }
    }
}
