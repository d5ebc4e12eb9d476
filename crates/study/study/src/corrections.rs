//! Corrections of finished trials.

use fedbo_storage::{Correction, StorageError, Told};

use crate::study::is_retry;
use crate::{Study, StudyError};

impl Study {
    /// Replaces the value of a trial that has ended. The earlier outcome stays stored
    /// ([`Study::corrections`]). A discarded or failed trial gets a value.
    ///
    /// Models, the best trial and running workers follow the new value. Returns false if the trial
    /// already has this value.
    ///
    /// ```
    /// use fedbo_space::ParameterSpec;
    /// use fedbo_study::{Definition, Study};
    ///
    /// let definition = Definition::new("bench").parameter("x", ParameterSpec::float(0.0, 1.0));
    /// let study = Study::in_memory(&definition)?;
    /// let trial = study.ask()?;
    /// study.tell(trial.number, 1250.0)?;
    /// study.correct(trial.number, 12.5)?;
    /// assert_eq!(study.best()?.and_then(|best| best.value()), Some(12.5));
    /// assert_eq!(study.corrections()?[0].before.numbers(), [1250.0]);
    /// # Ok::<(), fedbo_study::StudyError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the value is not finite, the trial has not ended, was stopped early or has been
    /// retried, or the storage fails.
    pub fn correct(&self, number: u64, value: f64) -> Result<bool, StudyError> {
        self.correct_numbers(number, vec![value])
    }

    /// Replaces the numbers of a trial that has ended, in the order of
    /// [`Definition::number_names`](crate::Definition::number_names).
    ///
    /// # Errors
    /// Same as [`Study::correct`]. Also fails if the number of values differs from the study's.
    pub fn correct_numbers(&self, number: u64, numbers: Vec<f64>) -> Result<bool, StudyError> {
        self.definition().check_numbers(&numbers)?;
        self.change(number, &Told::with_numbers(numbers))
    }

    /// Discards a trial that has ended. The trial then counts neither as a value nor as a failure,
    /// its point can be proposed again, and one more trial replaces it in the number of trials. Its
    /// outcome stays stored ([`Study::corrections`]).
    ///
    /// Returns false if the trial is already discarded. [`Study::correct`] gives it a value again.
    ///
    /// # Errors
    /// Fails if the trial has not ended or has been retried, or the storage fails.
    pub fn discard(&self, number: u64) -> Result<bool, StudyError> {
        self.change(number, &Told::Discarded)
    }

    /// Returns all corrections, in their order. Each has the outcome that it replaced.
    ///
    /// # Errors
    /// Fails if the storage fails.
    pub fn corrections(&self) -> Result<Vec<Correction>, StudyError> {
        let (storage, key) = self.stored();
        Ok(storage.corrections(key)?)
    }

    fn change(&self, number: u64, told: &Told) -> Result<bool, StudyError> {
        let trials = self.trials()?;
        let n_trials = trials.len() as u64;
        let trial = trials.iter().find(|trial| trial.number == number);
        let trial = trial.ok_or(StorageError::NoTrial { number, n_trials })?;
        // A model takes the value of a stopped trial from its reports.
        if matches!(trial.told(), Some(Told::Stopped { .. })) && *told != Told::Discarded {
            return Err(StudyError::WasStopped { number });
        }
        // A discarded trial can have been stopped or retried before.
        if matches!(trial.told(), Some(Told::Discarded)) {
            let corrections = self.corrections()?;
            let last = corrections.iter().rev().find(|each| each.number == number);
            if last.is_some_and(|each| matches!(each.before, Told::Stopped { .. })) {
                return Err(StudyError::WasStopped { number });
            }
            let retried = trial.retry_of();
            let other = trials.iter().find(|other| {
                other.number != number
                    && !other.is_discarded()
                    && retried.is_some()
                    && other.retry_of() == retried
            });
            if let Some(by) = other {
                return Err(StudyError::WasRetried { number, by: by.number });
            }
        }
        if let Some(by) = trials.iter().find(|later| is_retry(later, number)) {
            return Err(StudyError::WasRetried { number, by: by.number });
        }
        let (storage, key) = self.stored();
        Ok(storage.correct(key, number, told)?)
    }
}
