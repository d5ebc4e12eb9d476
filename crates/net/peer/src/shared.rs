//! State shared by all threads of a peer.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fedbo_party::HomeError;
use fedbo_wire::{Receipt, SigningKey};

use crate::hub::Hub;
use crate::{Member, Memory, Observer, PeerError};

/// State shared by all threads of a peer.
pub(crate) struct Shared {
    pub(crate) member: Member,
    pub(crate) key: SigningKey,
    pub(crate) memory: Memory,
    pub(crate) hub: Hub,
    pub(crate) observer: Arc<dyn Observer>,
    /// Path of the federation file, for messages.
    pub(crate) file: String,
}

impl Shared {
    /// Returns a signed receipt for the reports received from a sender.
    pub(crate) fn receipt(&self, sender: u32) -> Receipt {
        let received = self.memory.received_from(sender);
        Receipt::new(&self.key, &self.member.digest, sender, received)
    }

    /// Stores the number of reports that a neighbour has confirmed.
    pub(crate) fn confirm(&self, slot: u32, received: u64) -> Result<(), HomeError> {
        if self.hub.link(slot).confirmed == received {
            return Ok(());
        }
        self.memory.confirm(slot, received, now_ms())?;
        self.hub.change(slot, |link| link.confirmed = received);
        Ok(())
    }

    /// Ends the session because of a storage error.
    pub(crate) fn cannot_store(&self, error: HomeError) {
        self.hub.fail(PeerError::Memory(error));
    }
}

/// Returns the milliseconds since 1970, for display only.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
