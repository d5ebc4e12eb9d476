//! Ends a run after consecutive failed trials.

/// Number of consecutive failed trials after which a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailuresMax {
    /// After this number of failures before the first value. So many early failures are probably
    /// the fault of the command, not of the points.
    BeforeFirstValue(u64),
    /// After this number of consecutive failures at any time.
    Always(u64),
    /// Never.
    Never,
}

impl Default for FailuresMax {
    fn default() -> Self {
        Self::BeforeFirstValue(Self::AT_FIRST)
    }
}

impl FailuresMax {
    /// Default limit: a run ends after this number of failed trials before the first value.
    pub const AT_FIRST: u64 = 5;

    /// Converts the key `failures_max`: a number applies at any time, 0 means never, and an absent
    /// key means the default.
    pub fn from_key(given: Option<u64>) -> Self {
        match given {
            None => Self::default(),
            Some(0) => Self::Never,
            Some(n) => Self::Always(n),
        }
    }
}

/// Counts the consecutive failed trials of one run, in completion order.
///
/// A run starts with a count of 0. After a command has been repaired, a resumed run therefore
/// tolerates the full number of failures again.
#[derive(Clone, Debug)]
pub struct FailureCounter {
    failures_max: FailuresMax,
    has_value: bool,
    n_consecutive: u64,
}

impl FailureCounter {
    /// Creates the counter for a new run. `has_value` is true if an earlier trial has a value.
    pub fn new(failures_max: FailuresMax, has_value: bool) -> Self {
        Self { failures_max, has_value, n_consecutive: 0 }
    }

    /// Records that a trial has a value, in this run or before.
    pub fn succeeded(&mut self) {
        self.has_value = true;
        self.n_consecutive = 0;
    }

    /// Records that a trial of this run has failed.
    pub fn failed(&mut self) {
        self.n_consecutive += 1;
    }

    /// Returns true if the run should end.
    pub fn holds(&self) -> bool {
        match self.failures_max {
            FailuresMax::BeforeFirstValue(n) => !self.has_value && self.n_consecutive >= n,
            FailuresMax::Always(n) => self.n_consecutive >= n,
            FailuresMax::Never => false,
        }
    }

    /// Returns the number of failed trials since the last value or the start of the run.
    pub fn n_consecutive(&self) -> u64 {
        self.n_consecutive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the index of the outcome after which a run ends; `true` stands for a value.
    fn ends_after(failures_max: FailuresMax, has_value: bool, outcomes: &[bool]) -> Option<usize> {
        let mut brake = FailureCounter::new(failures_max, has_value);
        outcomes.iter().position(|is_value| {
            match is_value {
                true => brake.succeeded(),
                false => brake.failed(),
            }
            brake.holds()
        })
    }

    #[test]
    fn by_default_only_a_run_without_any_value_ends() {
        let default = FailuresMax::from_key(None);
        assert_eq!(ends_after(default, false, &[false; 9]), Some(4));
        assert_eq!(ends_after(default, true, &[false; 9]), None);
        let one_value = [false, false, true, false, false, false, false, false, false];
        assert_eq!(ends_after(default, false, &one_value), None);
    }

    #[test]
    fn a_number_counts_in_a_row_at_any_time_and_zero_never_ends_a_run() {
        let two = FailuresMax::from_key(Some(2));
        let outcomes = [false, true, false, true, false, false];
        assert_eq!(ends_after(two, true, &outcomes), Some(5));
        assert_eq!(ends_after(two, false, &[false; 3]), Some(1));
        let never = FailuresMax::from_key(Some(0));
        assert_eq!(ends_after(never, false, &[false; 99]), None);
    }
}
