//! The store's clock, extrapolated between reads.

use std::time::Instant;

use crate::store::{Store, StoreError};

/// The store's clock in milliseconds since 1970, extrapolated with the local monotonic clock
/// between reads.
///
/// Never goes backwards: if the store's clock jumps backwards, this clock continues from its latest
/// value.
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
        let read_ms = store.now_ms()?;
        self.continue_from(read_ms);
        Ok(())
    }

    /// Continues from `read_ms`, or from the current value if it is later. If this clock jumped
    /// backwards with the store's, no round would end until the store's clock caught up.
    fn continue_from(&mut self, read_ms: u64) {
        self.read_ms = read_ms.max(self.now_ms());
        self.read_at = Instant::now();
    }

    pub(crate) fn now_ms(&mut self) -> u64 {
        let elapsed = u64::try_from(self.read_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.latest_ms = self.latest_ms.max(self.read_ms.saturating_add(elapsed));
        self.latest_ms
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_jumps_holds_no_round_up() {
        let read_at = Instant::now();
        let mut clock = Clock { read_ms: 10_000_000, read_at, latest_ms: 0 };
        let before = clock.now_ms();
        clock.continue_from(1_000_000);
        clock.read_at -= Duration::from_secs(5);
        assert!(clock.now_ms() >= before + 5_000, "the clock must advance");
        clock.continue_from(90_000_000);
        assert!(clock.now_ms() >= 90_000_000);
    }
}
