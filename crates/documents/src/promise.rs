//! Descriptions of the privacy guarantees for releases, and of their limits.

use fedbo_federation::ReleaseScale;
use fedbo_privacy::accounting::{Adjacency, Claim, Mode};

/// Limits of the guarantee that `fedbo run` gives.
pub const NOT_PROMISED: &str = "anything about the trials in results.csv, their times, or which agents take part. This process sees every \
     agent's vectors as they are and is trusted with them (mode central)";

/// Limits of the guarantee for a study with a coordinator.
const NOT_PROMISED_OVER_NETWORK: &str = "anything about which agents take part and when. The coordinator sees every agent's vectors as they are and is trusted with them (mode \
     central); trials and values stay with the agents";

/// Limits of the guarantee for a study with a secure sum.
const NOT_PROMISED_OF_SECURE_SUM: &str = "anything about which agents take part and when, or against two servers that work together. Neither server sees a vector; trials and values \
     stay with the agents";

/// Returns the limits of a study's guarantee, according to the configuration in its ledger.
pub fn not_promised(scale: Option<&ReleaseScale>) -> &'static str {
    match scale {
        Some(scale) if scale.is_over_network && scale.n_noises > 1 => NOT_PROMISED_OF_SECURE_SUM,
        Some(scale) if scale.is_over_network => NOT_PROMISED_OVER_NETWORK,
        _ => NOT_PROMISED,
    }
}

/// Describes the guarantee of the releases that a claim covers.
pub fn promised(claim: &Claim) -> String {
    format!("the releases together are differentially private for each agent: {claim}")
}

/// Describes a claim's adjacency.
pub fn neighbours(claim: &Claim) -> &'static str {
    match claim.adjacency {
        Adjacency::ZeroOut => {
            "zero-out: replace everything that one agent ever submits by zeros. For an observer of all releases, no outcome becomes more \
             than e^epsilon times as likely as before, plus delta, whatever the observer knows and however many of the other agents it \
             controls"
        }
        Adjacency::ReplaceOne => {
            "replace-one: replace everything that one agent ever submits by anything else. For an observer of all releases, no outcome \
             becomes more than e^epsilon times as likely as before, plus delta, whatever the observer knows and however many of the \
             other agents it controls"
        }
    }
}

/// Describes a claim's mode.
pub fn mode(claim: &Claim) -> &'static str {
    match claim.mode {
        Mode::Default => {
            "default: exact sums of integers, and exact noise from the operating system"
        }
        Mode::Paper => {
            "paper: the paper's guarantee, which holds for real numbers but not for a machine's arithmetic; for reproduction"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The process of a run sees all vectors, and so does a coordinator. With two servers, neither
    /// server sees them.
    #[test]
    fn limits_name_the_server_that_sees_vectors() {
        let scale = |is_over_network, n_noises| ReleaseScale {
            n_agents: 3,
            n_regions: 1,
            n_features: 20,
            max_norm: 1.0,
            sampling_rate: 1.0,
            noise_multiplier: 2.0,
            n_noises,
            n_planned: 3,
            is_over_network,
        };
        let coordinator = not_promised(Some(&scale(true, 1)));
        assert!(
            coordinator.contains("The coordinator sees every agent's vectors"),
            "{coordinator}"
        );
        let two = not_promised(Some(&scale(true, 2)));
        assert!(
            two.contains("Neither server sees a vector") && !two.contains("The coordinator sees"),
            "{two}"
        );
        for scale in [None, Some(scale(false, 1)), Some(scale(false, 2))] {
            assert!(
                not_promised(scale.as_ref()).contains("This process sees every agent's vectors")
            );
        }
    }
}
