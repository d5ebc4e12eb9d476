//! Describes the alignment of agents' vectors, and the fraction of hostile agents that a private
//! federation tolerates.

use fedbo_federation::Alignment;
use serde::Serialize;

use fedbo_console::text::digits;

/// Describes the alignment in one sentence.
pub(crate) fn sentence(found: &Alignment) -> String {
    let rho = digits(found.rho(), 3);
    if !found.is_seen() {
        return format!(
            "the noise hides how much the agents' vectors agree (rho = {rho}; noise alone gives up to {}): the number of \
             hostile agents that the sums withstand is unknown",
            digits(found.noise_alone(), 3)
        );
    }
    let percent = |share: f64| digits(100.0 * share, 3);
    let (all, region) = (found.breakdown(), found.breakdown_of_region());
    if all <= 0.0 {
        return format!(
            "the agents' vectors agree by rho = {rho}, but vectors are not bounded: one hostile agent can reverse the sums"
        );
    }
    let mut text = format!(
        "the agents' vectors agree by rho = {rho} (of 1): hostile agents cannot reverse the sums if they are fewer than {} % of all",
        percent(all)
    );
    if region < all {
        text += &format!(
            "; if they choose their slots, fewer than {} % cannot reverse that of a region",
            percent(region)
        );
    }
    text
}

/// Alignment in JSON output.
#[derive(Serialize)]
pub(crate) struct AlignmentRecord {
    /// Estimated alignment, from 0 to 1.
    rho: f64,
    /// Largest estimate that noise alone may produce. Smaller estimates are not significant.
    noise_alone: f64,
    /// Fraction of hostile agents below which they cannot reverse the sums.
    breakdown: f64,
    /// `breakdown` if hostile agents can choose their slots and thereby their region.
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
