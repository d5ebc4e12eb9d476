//! The coordinator's clock, which can be adjusted.
use fedbo_protocol::Tick;

/// A clock that never goes backwards while its process runs. If the clock is set back, the reading
/// stays constant until the time has caught up.
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

    /// Returns the simulation time, now or later, at which the clock reads `tick`.
    pub(crate) fn when(&self, tick: Tick, now: Tick) -> Tick {
        if tick <= self.latest {
            return now;
        }
        now.max(tick.saturating_add_signed(-self.offset))
    }

    /// Adjusts the clock by `step`, after recording the reading at `now`.
    pub(crate) fn set(&mut self, step: i64, now: Tick) {
        self.read(now);
        self.offset += step;
    }

    /// Starts a new process, which does not know the latest reading of the old one.
    pub(crate) fn forget(&mut self) {
        self.latest = 0;
    }
}
