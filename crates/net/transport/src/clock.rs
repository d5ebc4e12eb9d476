//! Clocks, and backoff between retries.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A session's source of time, and of the random numbers that spread its retries.
pub trait Clock {
    /// Milliseconds since 1970 UTC.
    fn now_ms(&self) -> u64;

    /// Milliseconds since some fixed moment, months before now; unlike the time of day it is never set.
    fn elapsed_ms(&self) -> u64;

    /// Waits.
    fn sleep(&self, time: Duration);

    /// A number in `[0, 1)`, for the time until a retry. Nothing else depends on it.
    fn chance(&self) -> f64;
}

/// The time on the machine's clock when it is first looked at: rounds that began before the agent have their place
/// on it. A hundred days; a round takes 31 at most.
const BEFORE_MS: u64 = 100 * 86_400_000;

/// The time since some fixed moment, which goes on while the machine is suspended: rounds do.
#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (time.tv_sec, time.tv_nsec);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
        .saturating_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
}

/// The same where the system has no such clock: it stands still while the machine is suspended.
#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    static FIRST: OnceLock<std::time::Instant> = OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed()
}

/// The machine's clock and its random numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn elapsed_ms(&self) -> u64 {
        static BEGAN: OnceLock<Duration> = OnceLock::new();
        let now = since_boot();
        let elapsed = now.saturating_sub(*BEGAN.get_or_init(|| now));
        BEFORE_MS.saturating_add(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn chance(&self) -> f64 {
        // Without randomness the middle: agents then retry at the same time, and nothing is wrong.
        getrandom::u32().map_or(0.5, |bits| f64::from(bits) / 4_294_967_296.0)
    }
}

/// Exponential backoff with full jitter: the time to wait before the next attempt.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    n_failed: u32,
    first: Duration,
    longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::between(Duration::from_secs(2), Duration::from_secs(60))
    }
}

impl Backoff {
    /// The shortest wait, also with the smallest draw.
    const SHORTEST: Duration = Duration::from_millis(50);

    /// Waits up to `first` after the first failure, never longer than `longest`.
    #[must_use]
    pub fn between(first: Duration, longest: Duration) -> Self {
        Self { n_failed: 0, first, longest }
    }

    /// One more attempt has failed: uniform between nothing and what doubles with every failure in a row, by default from 2 seconds
    /// to a minute.
    pub fn next(&mut self, clock: &dyn Clock) -> Duration {
        let doubled =
            self.first.saturating_mul(1_u32.checked_shl(self.n_failed).unwrap_or(u32::MAX));
        self.n_failed = self.n_failed.saturating_add(1).min(31);
        let longest = doubled.min(self.longest);
        longest.mul_f64(clock.chance().clamp(0.0, 1.0)).max(Self::SHORTEST)
    }

    /// An attempt has succeeded.
    pub fn reset(&mut self) {
        self.n_failed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(f64);

    impl Clock for Fixed {
        fn now_ms(&self) -> u64 {
            0
        }
        fn elapsed_ms(&self) -> u64 {
            0
        }
        fn sleep(&self, _: Duration) {}
        fn chance(&self) -> f64 {
            self.0
        }
    }

    #[test]
    fn waits_double_up_to_a_minute_and_begin_anew_after_a_success() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..40).map(|_| backoff.next(&Fixed(1.0)).as_millis()).collect();
        assert_eq!(waits[..8], [2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000]);
        assert!(waits[8..].iter().all(|wait| *wait == 60000));
        backoff.reset();
        assert_eq!(backoff.next(&Fixed(0.5)), Duration::from_secs(1));
        assert_eq!(backoff.next(&Fixed(0.0)), Backoff::SHORTEST);
    }

    /// The beginning of a round that is longer under way than this program has its place on the clock.
    #[test]
    fn the_clock_reaches_back_further_than_a_round_takes() {
        let longest_ms = 31 * 86_400_000;
        assert!(SystemClock.elapsed_ms() > 2 * longest_ms);
    }

    #[test]
    fn chance_is_a_fraction_and_differs() {
        let draws: Vec<f64> = (0..64).map(|_| SystemClock.chance()).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        assert!(draws.iter().any(|draw| draw.to_bits() != draws[0].to_bits()));
    }
}
