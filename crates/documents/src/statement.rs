//! A study's privacy statement as JSON.

use fedbo_federation::ledger_in_plain_words;
use fedbo_ledger::History;
use fedbo_privacy::accounting::{Noise, PrivacyEvent, Sampling};
use fedbo_wire::Digest;
use serde::Serialize;

/// The document printed by `fedbo privacy statement --json`.
#[derive(Serialize)]
pub struct StatementDocument {
    study: String,
    /// The protection so far, in one sentence without technical terms.
    in_plain_words: String,
    epsilon: f64,
    delta: f64,
    adjacency: String,
    accountant: &'static str,
    mode: String,
    releases: u64,
    /// Maximum number of releases in which an agent can take part, if fewer than all.
    #[serde(skip_serializing_if = "Option::is_none")]
    participations: Option<u64>,
    budget_epsilon: f64,
    remaining_epsilon: f64,
    further_releases: Option<u64>,
    is_overdrawn: bool,
    charges: Vec<ChargeRecord>,
    config_sha256: String,
    head: String,
}

#[derive(Serialize)]
struct ChargeRecord {
    releases: u64,
    #[serde(flatten)]
    sampling: SamplingRecord,
    #[serde(flatten)]
    noise: NoiseRecord,
}

#[derive(Serialize)]
#[serde(tag = "sampling", rename_all = "kebab-case")]
enum SamplingRecord {
    Poisson { sampling_rate: f64 },
    FixedSize { n_sampled: u32, n_agents: u32 },
}

#[derive(Serialize)]
#[serde(tag = "noise", rename_all = "kebab-case")]
enum NoiseRecord {
    Gaussian {
        noise_multiplier: f64,
    },
    DiscreteGaussian {
        noise_multiplier: f64,
        /// A string, since it can exceed the range of JSON numbers.
        variance: String,
        bound: u64,
        n_coordinates: u64,
    },
}

/// Describes the protection of all releases so far, in one sentence without technical terms.
#[must_use]
pub fn in_plain_words(history: &History) -> String {
    ledger_in_plain_words(&history.charter.config, &history.statement.claim)
}

impl StatementDocument {
    /// Creates the document of a verified history.
    #[must_use]
    pub fn of(history: &History) -> Self {
        let statement = &history.statement;
        let claim = &statement.claim;
        let charges = statement.charges.iter().map(|charge| ChargeRecord {
            releases: charge.count,
            sampling: match charge.event.sampling {
                Sampling::Poisson(rate) => SamplingRecord::Poisson { sampling_rate: rate.get() },
                Sampling::WithoutReplacement { n_sampled, n_agents } => {
                    SamplingRecord::FixedSize { n_sampled, n_agents }
                }
            },
            noise: match charge.event.noise {
                Noise::Gaussian(multiplier) => {
                    NoiseRecord::Gaussian { noise_multiplier: multiplier.get() }
                }
                Noise::DiscreteGaussian { variance, bound, n_coordinates } => {
                    NoiseRecord::DiscreteGaussian {
                        noise_multiplier: noise_multiplier(&charge.event),
                        variance: variance.to_string(),
                        bound,
                        n_coordinates,
                    }
                }
            },
        });
        Self {
            study: statement.name.clone(),
            in_plain_words: in_plain_words(history),
            epsilon: claim.epsilon,
            delta: claim.delta,
            adjacency: claim.adjacency.to_string(),
            accountant: claim.accountant.name(),
            mode: claim.mode.to_string(),
            releases: statement.n_releases(),
            participations: statement.participations,
            budget_epsilon: statement.budget.epsilon(),
            remaining_epsilon: statement.remaining(),
            further_releases: statement.further(),
            is_overdrawn: statement.is_overdrawn(),
            charges: charges.collect(),
            config_sha256: Digest(statement.config_hash).to_string(),
            head: statement.head.to_string(),
        }
    }
}

/// Returns the noise multiplier z: the standard deviation of the noise divided by the sensitivity.
#[must_use]
pub fn noise_multiplier(event: &PrivacyEvent) -> f64 {
    match event.noise {
        Noise::Gaussian(multiplier) => multiplier.get(),
        Noise::DiscreteGaussian { variance, bound, .. } => (variance as f64).sqrt() / bound as f64,
    }
}
