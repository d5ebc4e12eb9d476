//! The time of a store, between the moments at which it is read.

use std::time::Instant;

use crate::store::{Store, StoreError};

/// Milliseconds since 1970 by the store's clock: read now and then, and continued by the machine's monotonic clock. It never goes
/// back.
#[derive(Debug)]
pub(crate) struct Clock {
    read_ms: u64,
    read_at: Instant,
    latest_ms: u64,
}

impl Clock {
    pub(crate) fn read(store: &dyn Store) -> Result<Self, StoreError> {
        let read_ms = store.now_ms()?;
        Ok(Self { read_ms, read_at: Instant::now(), latest_ms: read_ms })
    }

    /// Reads the store's clock again.
    pub(crate) fn set(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        self.read_ms = store.now_ms()?;
        self.read_at = Instant::now();
        Ok(())
    }

    pub(crate) fn now_ms(&mut self) -> u64 {
        let elapsed = u64::try_from(self.read_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.latest_ms = self.latest_ms.max(self.read_ms.saturating_add(elapsed));
        self.latest_ms
    }
}
