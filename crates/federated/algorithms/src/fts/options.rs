//! The options in `[fts]`.

use std::sync::Arc;

use fedbo_config::{Check, FileError, WordOrNumbers};
use fedbo_strategies::{LocalProb, MessageNoise, MessageSettings, UcbMultiplier};
use serde::Deserialize;

use super::{AgentSampling, Federated, FtsSettings};
use crate::{Read, Reading, Settings};

/// `[fts]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FtsTable {
    /// p_t: `1-1/sqrt(t)` (default), `1-1/t^2`, a number or a list.
    pub local_prob: Option<WordOrNumbers>,
    /// The rule for queries by the agent's own model, which are made with probability p_t: `ts`
    /// (default), as in the paper, or `log-ei`, with the model of the arm `log-ei`.
    pub own_query: Option<String>,
    /// P_N: `learned` (default), `uniform`, or a list with a weight for each agent.
    pub agent_sampling: Option<WordOrNumbers>,
    /// c in `learned`, where 0 means uniform; default 2.
    pub sharpness: Option<f64>,
    /// β_t: a number (default 1), or the bound of the paper's Theorem 1.
    pub ucb_multiplier: Option<UcbMultiplier>,
    /// True if each agent standardizes its outputs before it computes messages; default true.
    pub standardize: Option<bool>,
    /// σ² used for messages. The default is the noise variance of the agent's own surrogate, but at
    /// least 1e-4.
    pub message_noise: Option<f64>,
}

/// The tables that this algorithm reads.
#[derive(Deserialize)]
struct Tables {
    #[serde(default)]
    fts: FtsTable,
}

/// Reads `[fts]`.
pub(super) fn read(reading: &Reading<'_>) -> Result<Read, FileError> {
    let Reading { check, n_agents, .. } = *reading;
    let Tables { fts: table } = check.file.parse()?;
    let ucb_multiplier = check.ucb_multiplier(&["fts", "ucb_multiplier"], table.ucb_multiplier)?;
    reading.memory_suffices(reading.n_features, "features.count")?;
    let mut own = reading.own_by(&["fts", "own_query"], table.own_query.as_deref())?;
    own.ucb_multiplier = ucb_multiplier;
    let settings = FtsSettings {
        own,
        local_prob: table.local_prob(check)?,
        agent_sampling: table.agent_sampling(check, n_agents)?,
        message: table.message(check)?,
    };
    let (alone, log_ei) = (reading.own.clone(), reading.log_ei.clone());
    let federated = Federated { settings, alone, log_ei };
    Ok(Read { settings: Settings::Relayed(Arc::new(federated)), ucb_multiplier })
}

impl FtsTable {
    /// Returns the schedule of p_t.
    ///
    /// # Errors
    /// If the value is not a schedule.
    pub fn local_prob(&self, check: Check<'_>) -> Result<LocalProb, FileError> {
        let path = ["fts", "local_prob"];
        let schedule = match &self.local_prob {
            None => LocalProb::InverseSqrt,
            Some(WordOrNumbers::Number(p)) => LocalProb::Constant(*p),
            Some(WordOrNumbers::List(list)) => LocalProb::List(list.clone()),
            Some(WordOrNumbers::Word(word)) => {
                let word: String = word.chars().filter(|c| !c.is_whitespace()).collect();
                let known = [
                    ("1-1/sqrt(t)", LocalProb::InverseSqrt),
                    ("1-1/t^2", LocalProb::InverseSquare),
                ];
                let found = known.into_iter().find(|(name, _)| *name == word);
                let expected =
                    "\"1-1/sqrt(t)\", \"1-1/t^2\", a probability, or a list of probabilities";
                found.ok_or_else(|| check.file.value_error(&path, expected))?.1
            }
        };
        check.setting(&path, schedule.validate())
    }

    /// Returns the distribution P_N over `n_agents` agents.
    ///
    /// # Errors
    /// If the value of a key is invalid.
    pub fn agent_sampling(
        &self,
        check: Check<'_>,
        n_agents: usize,
    ) -> Result<AgentSampling, FileError> {
        let path = ["fts", "agent_sampling"];
        let expected = format!(
            "\"learned\", \"uniform\", or a list of {n_agents} weights, one per agent in the file's order"
        );
        let sampling = match &self.agent_sampling {
            None => AgentSampling::Learned { sharpness: self.sharpness.unwrap_or(2.0) },
            Some(WordOrNumbers::Word(word)) if word == "learned" => {
                AgentSampling::Learned { sharpness: self.sharpness.unwrap_or(2.0) }
            }
            Some(WordOrNumbers::Word(word)) if word == "uniform" => AgentSampling::Uniform,
            Some(WordOrNumbers::List(list)) if list.len() == n_agents => {
                AgentSampling::Given(list.clone())
            }
            Some(_) => return Err(check.file.value_error(&path, expected)),
        };
        let learned = matches!(sampling, AgentSampling::Learned { .. });
        if self.sharpness.is_some() && !learned {
            let message =
                "fts.sharpness has no effect unless agent_sampling = \"learned\"; remove it";
            return Err(check.file.error(&["fts", "sharpness"], message));
        }
        let path = if learned { ["fts", "sharpness"] } else { path };
        check.setting(&path, sampling.validate())
    }

    fn message(&self, check: Check<'_>) -> Result<MessageSettings, FileError> {
        let standard = MessageSettings::default();
        let noise_variance =
            self.message_noise.map_or(standard.noise_variance, MessageNoise::Given);
        let settings = MessageSettings {
            noise_variance,
            standardize: self.standardize.unwrap_or(standard.standardize),
            ..standard
        };
        check.setting(&["fts", "message_noise"], settings.validate())
    }
}
