//! The store of releases.

use fedbo_privacy::accounting::PrivacyEvent;

/// Keeps the releases of one session, each with what it costs.
pub trait ReleaseStore {
    /// The release of a round as it was committed, if it was: the same bytes for ever (INV-2).
    ///
    /// # Errors
    /// If the store cannot be read, or the session may make no further release: an error ends the session before a vector of
    /// the round is taken (INV-13).
    fn stored(&mut self, round: u64) -> anyhow::Result<Option<Vec<u8>>>;

    /// Makes charge and release durable, both or neither (INV-1); `None` costs nothing that could be counted.
    ///
    /// # Errors
    /// If they are not durable; the session ends then, and nothing of the release has left.
    fn commit(
        &mut self,
        round: u64,
        event: Option<&PrivacyEvent>,
        release: &[u8],
    ) -> anyhow::Result<()>;
}

/// Keeps nothing: for simulations, whose releases protect nobody, and for strategies without releases.
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
