//! The store of releases.

use fedbo_privacy::accounting::PrivacyEvent;

/// Stores the releases of one session with their costs.
pub trait ReleaseStore {
    /// Returns the committed release of a round, if there is one. It has the same bytes forever
    /// (INV-2).
    ///
    /// # Errors
    /// If the store cannot be read, or the session may not make another release. An error ends the
    /// session before a vector of the round is taken (INV-13).
    fn stored(&mut self, round: u64) -> anyhow::Result<Option<Vec<u8>>>;

    /// Makes charge and release durable, both or neither (INV-1). `None` means a release without a
    /// countable cost.
    ///
    /// # Errors
    /// If they are not durable. The session then ends, and no part of the release has left the
    /// process.
    fn commit(
        &mut self,
        round: u64,
        event: Option<&PrivacyEvent>,
        release: &[u8],
    ) -> anyhow::Result<()>;
}

/// Stores nothing: for simulations, which protect no data, and for strategies without releases.
pub struct NullReleaseStore;

impl ReleaseStore for NullReleaseStore {
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
