//! Clocks, and backoff between retries.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that also provides random numbers for retry jitter.
pub trait Clock {
    /// Returns the milliseconds since 1970 UTC.
    fn now_ms(&self) -> u64;

    /// Returns monotonic milliseconds since a fixed time months ago. Not affected by changes of the
    /// system time.
    fn elapsed_ms(&self) -> u64;

    /// Blocks the thread for the given time.
    fn sleep(&self, time: Duration);

    /// Returns a number in `[0, 1)` for retry jitter. Nothing else depends on it.
    fn chance(&self) -> f64;
}

/// Initial value of [`SystemClock::elapsed_ms`](Clock::elapsed_ms), a hundred days.
///
/// Rounds take at most 31 days, so even the start of a round that began before this process is
/// positive.
const BEFORE_MS: u64 = 100 * 86_400_000;

/// Returns the time since boot. Includes time while the machine is suspended, because rounds
/// continue then.
#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (time.tv_sec, time.tv_nsec);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
        .saturating_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
}

/// Returns the time since the first call. On some platforms, this excludes time while the machine
/// is suspended.
#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    static FIRST: OnceLock<std::time::Instant> = OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed()
}

/// The system's clock and random number generator.
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
        // If no randomness is available, use the midpoint. Agents may then retry at the same time,
        // which is harmless.
        getrandom::u32().map_or(0.5, |bits| f64::from(bits) / 4_294_967_296.0)
    }
}

/// Exponential backoff with full jitter.
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
    /// Minimum wait. Smaller draws are raised to it.
    const SHORTEST: Duration = Duration::from_millis(50);

    /// Creates a backoff that waits up to `first` after the first failure, and never longer than
    /// `longest`.
    #[must_use]
    pub fn between(first: Duration, longest: Duration) -> Self {
        Self { n_failed: 0, first, longest }
    }

    /// Returns the wait after one more failed attempt.
    ///
    /// The wait is drawn uniformly between zero and a bound that doubles with each consecutive
    /// failure, by default from 2 to 60 seconds. It is never shorter than 50 ms.
    pub fn next(&mut self, clock: &dyn Clock) -> Duration {
        self.next_by(clock.chance())
    }

    /// Like [`next`](Self::next), but with a given random draw in `[0, 1)`.
    pub fn next_by(&mut self, chance: f64) -> Duration {
        let doubled =
            self.first.saturating_mul(1_u32.checked_shl(self.n_failed).unwrap_or(u32::MAX));
        self.n_failed = self.n_failed.saturating_add(1).min(31);
        let longest = doubled.min(self.longest);
        longest.mul_f64(chance.clamp(0.0, 1.0)).max(Self::SHORTEST)
    }

    /// Restarts the backoff after a successful attempt.
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

    /// The clock can represent the start of a round that began long before this process.
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
