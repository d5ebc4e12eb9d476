//! `[fts]`: federated Thompson sampling.

use fedbo_algorithms::{AgentSampling, LocalProb, MessageNoise, MessageSettings};
use fedbo_config::{FileError, WordOrNumbers};

use super::Parts;
use crate::file::FtsTable;

impl Parts<'_> {
    pub(super) fn local_prob(&self, given: &FtsTable) -> Result<LocalProb, FileError> {
        let path = ["fts", "local_prob"];
        let schedule = match &given.local_prob {
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
                found
                    .ok_or_else(|| self.file.value_error(&path, expected))?
                    .1
            }
        };
        self.check.setting(&path, schedule.validate())
    }

    pub(super) fn agent_sampling(
        &self,
        given: &FtsTable,
        n_agents: usize,
    ) -> Result<AgentSampling, FileError> {
        let path = ["fts", "agent_sampling"];
        let expected = format!(
            "\"learned\", \"uniform\", or a list of {n_agents} weights, one an agent in the file's order"
        );
        let sampling = match &given.agent_sampling {
            None => AgentSampling::Learned {
                sharpness: given.sharpness.unwrap_or(2.0),
            },
            Some(WordOrNumbers::Word(word)) if word == "learned" => AgentSampling::Learned {
                sharpness: given.sharpness.unwrap_or(2.0),
            },
            Some(WordOrNumbers::Word(word)) if word == "uniform" => AgentSampling::Uniform,
            Some(WordOrNumbers::List(list)) if list.len() == n_agents => {
                AgentSampling::Given(list.clone())
            }
            Some(_) => return Err(self.file.value_error(&path, expected)),
        };
        let learned = matches!(sampling, AgentSampling::Learned { .. });
        if given.sharpness.is_some() && !learned {
            let message =
                "fts.sharpness has no effect unless agent_sampling = \"learned\"; remove it";
            return Err(self.file.error(&["fts", "sharpness"], message));
        }
        let path = if learned { ["fts", "sharpness"] } else { path };
        self.check.setting(&path, sampling.validate())
    }

    pub(super) fn message(&self, given: &FtsTable) -> Result<MessageSettings, FileError> {
        let standard = MessageSettings::default();
        let noise_variance = given
            .message_noise
            .map_or(standard.noise_variance, MessageNoise::Given);
        let settings = MessageSettings {
            noise_variance,
            standardize: given.standardize.unwrap_or(standard.standardize),
            ..standard
        };
        self.check
            .setting(&["fts", "message_noise"], settings.validate())
    }
}
