//! The coordinator's clock, which may be set.

use fedbo_protocol::Tick;

/// Reads as a clock that never goes back while its process runs: set back, it stands still until the time has come again.
#[derive(Debug)]
pub(crate) struct Clock {
    offset: i64,
    latest: Tick,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { offset: 100_000, latest: 0 }
    }

    fn raw(&self, now: Tick) -> Tick {
        now.checked_add_signed(self.offset).unwrap()
    }

    pub(crate) fn read(&mut self, now: Tick) -> Tick {
        self.latest = self.latest.max(self.raw(now));
        self.latest
    }

    /// The moment of the world, now or later, at which it reads this.
    pub(crate) fn when(&self, tick: Tick, now: Tick) -> Tick {
        if tick <= self.latest {
            return now;
        }
        now.max(tick.saturating_add_signed(-self.offset))
    }

    /// It is set by so much; `now` was read before.
    pub(crate) fn set(&mut self, step: i64, now: Tick) {
        self.read(now);
        self.offset += step;
    }

    /// A new process knows nothing of what was read before.
    pub(crate) fn forget(&mut self) {
        self.latest = 0;
    }
}
