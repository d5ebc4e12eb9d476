//! `[secure_sum]`: sums by two servers of two parties, of which neither sees a vector.

use fedbo_config::{Check, FileError};
use fedbo_secure_sum::Proof;
use serde::Deserialize;

use crate::file::PrivacyTable;
use crate::privacy::PrivacyMode;

/// `[secure_sum]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SecureSumTable {
    /// The bound that each agent proves of its vector: `l2` (default), of its norm; `linf`, of each of its numbers; `none`.
    pub proof: Option<String>,
    /// Bits of a number of a vector, from 8 to 20; default 12, from 1,000 features on 14.
    pub bits: Option<u32>,
    /// The card of the server that another party runs (`fedbo helper card`); needed over a network.
    pub helper: Option<String>,
    /// The address at which the coordinator reaches it; needed over a network.
    pub helper_url: Option<String>,
    /// The coordinator's own card. Written when the study is frozen.
    pub leader: Option<String>,
}

/// The checked table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SecureSum {
    pub(crate) proof: Proof,
    pub(crate) bits: u32,
}

impl SecureSum {
    pub(crate) fn of(
        given: &SecureSumTable,
        privacy: &PrivacyTable,
        n_features: u32,
        check: Check<'_>,
    ) -> Result<Self, FileError> {
        if PrivacyMode::of(privacy, check)?.is_papers() {
            let mode = privacy.mode.as_deref().unwrap_or_default();
            let message = format!(
                "[secure_sum] has no effect with privacy.mode = \"{mode}\"; remove it, or the mode"
            );
            return Err(check.file.error(&["secure_sum"], message));
        }
        if privacy.sampling_rate.is_some_and(|rate| rate < 1.0) {
            let message = "privacy.sampling_rate below 1 is not possible with [secure_sum], where who takes part is public; remove it, \
                           or the table";
            return Err(check.file.error(&["privacy", "sampling_rate"], message.to_owned()));
        }
        if given.helper.is_some() != given.helper_url.is_some() {
            let key = if given.helper.is_some() { "helper_url" } else { "helper" };
            let remedy = "helper is the card that the other party's `fedbo helper card` prints, helper_url the address of its \
                          `fedbo helper run`; a study over a network needs both, and in one process neither has an effect";
            return Err(check.file.missing_error(&["secure_sum", key], remedy));
        }
        let path = ["secure_sum", "proof"];
        let proof = check.word(&path, given.proof.as_deref(), &Proof::NAMED)?;
        let standard = if n_features < 1000 { 12 } else { 14 };
        Ok(Self { proof: proof.unwrap_or_default(), bits: given.bits.unwrap_or(standard) })
    }
}
