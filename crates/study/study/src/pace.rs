//! The pace of asking where many processes ask at once.
//!
//! A proposal takes all trials before it into account, so of proposals that are computed at the same time one is added, and the others
//! were in vain. Who was overtaken waits for a random time before the next attempt, longer each time, as stations on a shared cable do
//! (binary exponential backoff, IEEE 802.3): then fewer compute at once, and nobody is overtaken for ever.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, Instant};

use crate::StudyError;

/// The time for which others may be faster before asking fails.
const PATIENCE: Duration = Duration::from_secs(600);
/// The longest wait, in times of an attempt, is two to this power.
const DOUBLINGS: u32 = 7;

/// The attempts of one who asks.
pub(crate) struct Pace {
    since: Instant,
    began: Instant,
    n_overtaken: u32,
}

impl Pace {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self { since: now, began: now, n_overtaken: 0 }
    }

    /// An attempt begins.
    pub(crate) fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// Somebody was faster: waits before the next attempt.
    ///
    /// # Errors
    /// [`StudyError::Overtaken`] if this has gone on for ten minutes.
    pub(crate) fn overtaken(&mut self) -> Result<(), StudyError> {
        self.n_overtaken += 1;
        if self.since.elapsed() > PATIENCE {
            return Err(StudyError::Overtaken { attempts: self.n_overtaken });
        }
        std::thread::sleep(wait(self.n_overtaken, self.began.elapsed(), uniform()));
        Ok(())
    }
}

/// The wait after an attempt that took so long and was overtaken for the `n`th time, for a draw from 0 to 1.
fn wait(n: u32, took: Duration, draw: f64) -> Duration {
    took.mul_f64(draw * f64::from(2_u32.pow(n.min(DOUBLINGS)))).min(Duration::from_secs(10))
}

/// A draw from 0 to 1 that differs from process to process. Nothing but a time of waiting depends on it.
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
        assert_eq!(wait(100, Duration::from_secs(60), 1.0), Duration::from_secs(10));
    }

    #[test]
    fn draws_differ_and_fill_the_unit_interval() {
        let draws: Vec<f64> = (0..1000).map(|_| uniform()).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        let mean = draws.iter().sum::<f64>() / 1000.0;
        assert!((mean - 0.5).abs() < 0.05, "{mean}"); // 5 standard errors
    }
}
