//! The pace of asking where many processes ask at once.
//!
//! A proposal takes all trials before it into account, so of proposals that are computed at the same time one is added, and the others
//! were in vain. Who was overtaken waits for a random time before the next attempt, longer each time, as stations on a shared cable do
//! (binary exponential backoff, IEEE 802.3): then fewer compute at once. It helps among processes of one kind. One whose proposals take
//! longer than the others' trials may be overtaken for as long as those go on.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, Instant};

use crate::StudyError;

/// The time for which others may be faster before asking fails.
const PATIENCE: Duration = Duration::from_secs(600);
/// The time between two looks whether to go on.
const LOOK: Duration = Duration::from_millis(50);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(2);
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

    /// Somebody was faster: waits before the next attempt, as long as `goes_on` says so.
    ///
    /// # Errors
    /// [`StudyError::Overtaken`] if it does not, or this has gone on for ten minutes.
    pub(crate) fn overtaken(&mut self, goes_on: &dyn Fn() -> bool) -> Result<(), StudyError> {
        self.n_overtaken += 1;
        let until = Instant::now() + wait(self.n_overtaken, self.began.elapsed(), uniform());
        loop {
            if !goes_on() || self.since.elapsed() > PATIENCE {
                return Err(StudyError::Overtaken { attempts: self.n_overtaken });
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}

/// The wait after an attempt that took so long and was overtaken for the `n`th time, for a draw from 0 to 1.
fn wait(n: u32, took: Duration, draw: f64) -> Duration {
    took.mul_f64(draw * f64::from(2_u32.pow(n.min(DOUBLINGS)))).min(WAIT_MAX)
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
        assert_eq!(wait(100, Duration::from_secs(60), 1.0), WAIT_MAX);
    }

    #[test]
    fn a_wait_ends_with_the_run() {
        let looks = std::cell::Cell::new(0);
        let goes_on = || {
            looks.set(looks.get() + 1);
            looks.get() < 3
        };
        let mut pace = Pace { began: Instant::now() - Duration::from_secs(3600), ..Pace::new() };
        let error = pace.overtaken(&goes_on).expect_err("the run has ended");
        assert!(matches!(error, StudyError::Overtaken { attempts: 1 }));
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
