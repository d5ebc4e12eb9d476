//! The end of a run whose trials fail one after another.

/// The number of failed trials in a row that end a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailuresMax {
    /// After so many before the first value of all: then something is wrong with the command rather than with the points.
    BeforeFirstValue(u64),
    /// After so many at any time.
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
    /// Failed trials before the first value that end a run, unless somebody says otherwise.
    pub const AT_FIRST: u64 = 5;

    /// From the key `failures_max`: a number holds at any time, 0 is never, and without the key the default holds.
    pub fn from_key(given: Option<u64>) -> Self {
        match given {
            None => Self::default(),
            Some(0) => Self::Never,
            Some(n) => Self::Always(n),
        }
    }
}

/// Counts the trials of one run that fail in a row, in the order in which they end. A run begins with a count of 0, so going on
/// gives a command that was mended as many chances again.
#[derive(Clone, Debug)]
pub struct FailureCounter {
    failures_max: FailuresMax,
    has_value: bool,
    n_in_a_row: u64,
}

impl FailureCounter {
    /// For a run that begins; `has_value` says whether an earlier trial has a value.
    pub fn new(failures_max: FailuresMax, has_value: bool) -> Self {
        Self { failures_max, has_value, n_in_a_row: 0 }
    }

    /// A trial has a value, in this run or before.
    pub fn succeeded(&mut self) {
        self.has_value = true;
        self.n_in_a_row = 0;
    }

    /// A trial of this run has failed.
    pub fn failed(&mut self) {
        self.n_in_a_row += 1;
    }

    /// Returns true if the run is to end.
    pub fn holds(&self) -> bool {
        match self.failures_max {
            FailuresMax::BeforeFirstValue(n) => !self.has_value && self.n_in_a_row >= n,
            FailuresMax::Always(n) => self.n_in_a_row >= n,
            FailuresMax::Never => false,
        }
    }

    /// Trials that have failed since the last value, or since the run began.
    pub fn n_in_a_row(&self) -> u64 {
        self.n_in_a_row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of these outcomes after which a run ends; `true` is a value.
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
