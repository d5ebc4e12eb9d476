//! Storage for releases.

use fedbo_privacy::accounting::PrivacyEvent;

/// Stores the releases of a session, with their costs.
pub trait ReleaseStore {
    /// Returns the committed release of a round, if there is one. Its bytes never change (INV-2).
    ///
    /// # Errors
    /// If the store cannot be read, or the session must not create another release. An error ends
    /// the session before any vector of the round is accepted (INV-13).
    fn stored(&mut self, round: u64) -> anyhow::Result<Option<Vec<u8>>>;

    /// Makes the charge and the release durable, both or neither (INV-1). `event` is `None` if the
    /// release has no privacy cost to account for.
    ///
    /// # Errors
    /// If they could not be made durable. The session then ends, and no part of the release has
    /// left the process.
    fn commit(
        &mut self,
        round: u64,
        event: Option<&PrivacyEvent>,
        release: &[u8],
    ) -> anyhow::Result<()>;
}

/// A store that stores nothing, for simulations, which protect no data, and for strategies without
/// releases.
pub struct UnchargedReleases;

impl ReleaseStore for UnchargedReleases {
    fn stored(&mut self, _round: u64) -> anyhow::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn commit(
        &mut self,
        _round: u64,
        _event: Option<&PrivacyEvent>,
        _release: &[u8],
    ) -> anyhow::Result<()> {
        Ok(())
    }
}
