//! Texts about the alignment of agents' vectors, and how many hostile agents a private federation withstands.

use fedbo_federation::Alignment;
use serde::Serialize;

use crate::text::digits;

/// The text, in one sentence.
pub(crate) fn sentence(found: &Alignment) -> String {
    let rho = digits(found.rho(), 3);
    if !found.is_seen() {
        return format!(
            "how much the agents' vectors agree is hidden by the noise (rho = {rho}, and noise alone shows up to {}): nothing is known of \
             how many hostile agents the sums withstand",
            digits(found.noise_alone(), 3)
        );
    }
    let percent = |share: f64| digits(100.0 * share, 3);
    let (all, region) = (found.breakdown(), found.breakdown_of_region());
    if all <= 0.0 {
        return format!(
            "the agents' vectors agree by rho = {rho}, but nothing bounds a vector: one hostile agent can turn the sums round"
        );
    }
    let mut text = format!(
        "the agents' vectors agree by rho = {rho} (of 1): hostile agents that are fewer than {} % of all cannot turn the sums round",
        percent(all)
    );
    if region < all {
        text += &format!(
            "; if they choose their slots, fewer than {} % cannot turn that of a region",
            percent(region)
        );
    }
    text
}

/// The same for programs.
#[derive(Serialize)]
pub(crate) struct AlignmentRecord {
    /// An estimate, from 0 to 1.
    rho: f64,
    /// The estimate that noise alone may show: a smaller one says nothing.
    noise_alone: f64,
    /// The share of all agents below which hostile ones cannot turn the sums round.
    breakdown: f64,
    /// The same where they choose their slots, and so a region.
    breakdown_of_region: f64,
}

impl From<&Alignment> for AlignmentRecord {
    fn from(found: &Alignment) -> Self {
        Self {
            rho: found.rho(),
            noise_alone: found.noise_alone(),
            breakdown: found.breakdown(),
            breakdown_of_region: found.breakdown_of_region(),
        }
    }
}
