//! Backoff for processes that ask for trials of one study concurrently.
//!
//! A proposal takes all earlier trials into account. Of several concurrent proposals, one is added
//! and the others are wasted. A process that is overtaken therefore waits for a random time before
//! its next attempt. The range of the wait doubles each time (binary exponential backoff, as in
//! IEEE 802.3), which reduces the number of processes that compute concurrently. This works if the
//! processes have similar speed. A process whose proposals take longer than the trials of other
//! processes can be overtaken for as long as those processes run.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, Instant};

use crate::StudyError;

/// Time after which an ask fails if every attempt was overtaken.
const PATIENCE: Duration = Duration::from_secs(600);
/// Interval between two checks that the run should continue.
const CHECK: Duration = Duration::from_millis(50);
/// Maximum wait.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Maximum exponent of the backoff. The longest wait is 2 to this power times the duration of an
/// attempt.
const DOUBLINGS: u32 = 7;

/// The attempts of a single ask.
pub(crate) struct Pace {
    since: Instant,
    /// Start of the current attempt.
    began: Instant,
    n_overtaken: u32,
}

impl Pace {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self { since: now, began: now, n_overtaken: 0 }
    }

    /// Starts an attempt.
    pub(crate) fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// Records that another process added its trial first, then waits before the next attempt. The
    /// wait ends early when `continues` returns false.
    ///
    /// # Errors
    /// Returns [`StudyError::Overtaken`] if `continues` returns false, or if ten minutes have
    /// passed since the first attempt.
    pub(crate) fn overtaken(&mut self, continues: &dyn Fn() -> bool) -> Result<(), StudyError> {
        self.n_overtaken += 1;
        self.pause(wait(self.n_overtaken, self.began.elapsed(), uniform()), continues)
    }

    /// Sleeps in short intervals to detect the end of the run.
    fn pause(&self, time: Duration, continues: &dyn Fn() -> bool) -> Result<(), StudyError> {
        let until = Instant::now() + time;
        loop {
            if !continues() || self.since.elapsed() > PATIENCE {
                return Err(StudyError::Overtaken { attempts: self.n_overtaken });
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(CHECK));
        }
    }
}

/// Returns the wait after the `n`th overtaken attempt, which lasted `took`, for a random number
/// between 0 and 1.
fn wait(n: u32, took: Duration, draw: f64) -> Duration {
    took.mul_f64(draw * f64::from(2_u32.pow(n.min(DOUBLINGS)))).min(WAIT_MAX)
}

/// Returns a random number between 0 and 1 that differs between processes. Only waiting times
/// depend on it.
fn uniform() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit() {
        let took = Duration::from_millis(10);
        assert_eq!(wait(1, took, 0.0), Duration::ZERO);
        assert_eq!(wait(1, took, 1.0), Duration::from_millis(20));
        assert_eq!(wait(3, took, 0.5), Duration::from_millis(40));
        assert_eq!(wait(7, took, 1.0), wait(100, took, 1.0));
        assert_eq!(wait(100, Duration::from_secs(60), 1.0), WAIT_MAX);
    }

    #[test]
    fn a_wait_ends_with_the_run() {
        let looks = std::cell::Cell::new(0);
        let continues = || {
            looks.set(looks.get() + 1);
            looks.get() < 3
        };
        let pace = Pace { n_overtaken: 1, ..Pace::new() };
        let ended = pace.pause(Duration::from_secs(3600), &continues);
        assert!(matches!(ended, Err(StudyError::Overtaken { attempts: 1 })));
        assert_eq!(looks.get(), 3);
    }

    #[test]
    fn draws_differ_and_fill_the_unit_interval() {
        let draws: Vec<f64> = (0..1000).map(|_| uniform()).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        let mean = draws.iter().sum::<f64>() / 1000.0;
        assert!((mean - 0.5).abs() < 0.05, "{mean}"); // 5 standard errors
    }
}
