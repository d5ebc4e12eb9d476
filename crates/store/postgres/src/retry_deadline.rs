//! The time for which a call goes on trying once its connection is lost.

use std::time::{Duration, Instant};

/// The time for which to go on trying, from the first failure on.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    length: Duration,
    until: Option<Instant>,
    pause: Duration,
}

impl Default for Patience {
    /// Ten seconds: a server that is restarted is back by then.
    fn default() -> Self {
        Self::of(Duration::from_secs(10))
    }
}

impl Patience {
    /// This long; with none, one more attempt is made at once.
    #[must_use]
    pub fn of(length: Duration) -> Self {
        Self { length, until: None, pause: Duration::ZERO }
    }

    /// Waits a little, the first time not at all.
    ///
    /// # Errors
    /// The failure, when the patience is over.
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
