//! Ends a study after too many trials without progress.

use fedbo_storage::{LastCorrection, StorageError, Told, Trial};

use crate::{Definition, Study};

/// Number of trials without progress after which a study ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    /// Number of consecutive trials without progress. Trials count if they were evaluated to the
    /// end or stopped early. Failed trials do not count.
    ///
    /// Progress is a new best value that satisfies all constraints. With multiple objectives,
    /// progress is a trial that satisfies the constraints and is neither dominated nor equalled by
    /// an earlier such trial.
    pub n_trials: u64,
    /// Minimum improvement of the best value that counts as progress; finite, at least 0.
    ///
    /// With 0, any improvement is progress. Ignored with multiple objectives.
    pub improvement_min: f64,
}

/// The progress of a study, as a function of the finished trials in completion order. An
/// interrupted study therefore ends at the same trial as an uninterrupted one.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    patience: Patience,
    definition: Definition,
    /// Number of trials added so far.
    n_told: u64,
    /// The last correction of these trials.
    last_correction: Option<LastCorrection>,
    /// Objectives, to be maximized, of the last trial that counted as progress. With multiple
    /// objectives, those of all such trials.
    best: Vec<Vec<f64>>,
    n_without: u64,
}

impl Progress {
    pub(crate) fn new(patience: Patience, definition: &Definition) -> Self {
        let definition = definition.clone();
        Self {
            patience,
            definition,
            n_told: 0,
            last_correction: None,
            best: Vec::new(),
            n_without: 0,
        }
    }

    /// Adds the trials of the study that finished since the last call. After a correction, starts
    /// again with all of them.
    pub(crate) fn look(&mut self, study: &Study) -> Result<(), StorageError> {
        let mut snapshot = study.snapshot(self.n_told)?;
        if snapshot.last_correction != self.last_correction {
            *self = Self::new(self.patience, &self.definition);
            snapshot = study.snapshot(0)?;
            self.last_correction = snapshot.last_correction;
        }
        self.absorb(&snapshot.told);
        Ok(())
    }

    /// Adds the next finished trials, in completion order.
    fn absorb(&mut self, told: &[Trial]) {
        for trial in told {
            self.n_told += 1;
            if trial.is_discarded() {
                continue;
            }
            let objectives = self.definition.objectives_of(trial);
            if self.definition.is_feasible(trial)
                && self.definition.has_objectives(trial)
                && self.is_progress(&objectives)
            {
                if objectives.len() == 1 {
                    self.best.clear();
                }
                self.best.push(objectives);
                self.n_without = 0;
            } else if !self.best.is_empty() && !matches!(trial.told(), Some(Told::Failed { .. })) {
                self.n_without += 1;
            }
        }
    }

    fn is_progress(&self, objectives: &[f64]) -> bool {
        self.best.iter().all(|best| match (objectives, best.as_slice()) {
            ([value], [best]) => value > best && value - best > self.patience.improvement_min,
            (new, old) => new.iter().zip(old).any(|(new, old)| new > old),
        })
    }

    /// Returns true if the limit of trials without progress is reached.
    pub(crate) fn is_over(&self) -> bool {
        self.n_without >= self.patience.n_trials
    }
}

#[cfg(test)]
mod tests {
    use fedbo_space::{Direction, Point};
    use fedbo_storage::TrialState;

    use super::*;

    fn told(number: u64, told: Told) -> Trial {
        Trial {
            number,
            point: Point::new(Vec::new()),
            source: "own".to_owned(),
            state: TrialState::Told(told),
            attempts: 1,
            asked_at_ms: 0,
            started_at_ms: None,
            told_at_ms: None,
            told_seq: Some(number + 1),
            ask_seconds: 0.0,
            reports: Vec::new(),
        }
    }

    /// Adds the outcomes one by one, and returns the index of the outcome after which the study
    /// ends.
    fn ends_after(n_trials: u64, improvement_min: f64, endings: &[Told]) -> Option<usize> {
        let patience = Patience { n_trials, improvement_min };
        let mut progress = Progress::new(patience, &Definition::new("p").minimize());
        (0..).zip(endings).position(|(number, ending)| {
            progress.absorb(&[told(number, ending.clone())]);
            progress.is_over()
        })
    }

    fn failed() -> Told {
        Told::Failed { kind: "exit".to_owned(), message: String::new() }
    }

    fn stopped() -> Told {
        Told::Stopped { epoch: 1, value: 0.0, because: String::new() }
    }

    #[test]
    fn trials_without_a_better_value_are_counted_in_a_row() {
        let values = [5.0, 6.0, 5.0, 4.0, 4.5, 7.0, 8.0].map(Told::Value);
        assert_eq!(ends_after(3, 0.0, &values), Some(6));
        assert_eq!(ends_after(2, 0.0, &values), Some(2));
        assert_eq!(ends_after(4, 0.0, &values), None);
    }

    #[test]
    fn failures_do_not_count_stopped_trials_do_and_nothing_counts_before_the_first_value() {
        let mut endings = vec![failed(), stopped(), failed(), Told::Value(1.0), failed()];
        endings.extend([failed(), stopped(), failed(), Told::Value(1.0)]);
        assert_eq!(ends_after(1, 0.0, &endings), Some(6));
        assert_eq!(ends_after(2, 0.0, &endings), Some(8));
    }

    #[test]
    fn with_several_objectives_a_feasible_trial_that_none_dominates_is_progress() {
        let definition = Definition::new("p")
            .objective("error", Direction::Minimize)
            .objective("speed", Direction::Maximize)
            .at_most("ms", 5.0);
        let patience = Patience { n_trials: 2, improvement_min: 0.0 };
        let mut progress = Progress::new(patience, &definition);
        let endings = [
            [0.5, 1.0, 6.0],
            [0.5, 1.0, 5.0],
            [0.6, 1.0, 5.0],
            [0.4, 0.5, 1.0],
            [0.4, 0.5, 1.0],
            [0.1, 9.0, 7.0],
        ];
        let ends = (0..).zip(endings).position(|(number, ending)| {
            progress.absorb(&[told(number, Told::Numbers(ending.to_vec()))]);
            progress.is_over()
        });
        assert_eq!(ends, Some(5));
    }

    #[test]
    fn less_than_the_least_improvement_is_no_progress() {
        let values = [1.0, 0.95, 0.91, 0.85, 0.8].map(Told::Value);
        assert_eq!(ends_after(2, 0.1, &values), Some(2));
        assert_eq!(ends_after(3, 0.1, &values), None);
    }
}
