//! The retry deadline of a call whose connection was lost.

use std::time::{Duration, Instant};

/// A retry deadline, measured from the first failure.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    length: Duration,
    until: Option<Instant>,
    pause: Duration,
}

impl Default for Patience {
    /// Retries for ten seconds, which is enough for a server to restart.
    fn default() -> Self {
        Self::of(Duration::from_secs(10))
    }
}

impl Patience {
    /// Retries for the given time. With a zero length, allows exactly one immediate retry.
    #[must_use]
    pub fn of(length: Duration) -> Self {
        Self { length, until: None, pause: Duration::ZERO }
    }

    /// Sleeps until the next attempt. The first retry is immediate.
    ///
    /// # Errors
    /// Returns `failure` once the deadline has passed.
    pub fn spend<F>(&mut self, failure: F) -> Result<(), F> {
        let now = Instant::now();
        let is_first = self.until.is_none();
        if now >= *self.until.get_or_insert(now + self.length) && !is_first {
            return Err(failure);
        }
        std::thread::sleep(self.pause);
        self.pause = (2 * self.pause).clamp(Duration::from_millis(10), Duration::from_millis(250));
        Ok(())
    }
}
