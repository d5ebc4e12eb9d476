//! A storage that forwards every call to another storage.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use fedbo_storage::{
    AddOutcome, Correction, NewTrial, Report, ReportOutcome, Snapshot, Stop, Storage, StorageError,
    StudyKey, StudyRecord, TellAuthority, TellOutcome, Told, Trial, Worker,
};

/// Selects the storage for each call of a [`Forwarded`], and observes snapshots.
pub trait Forward: fmt::Debug + Send + Sync {
    /// Returns the storage for one call.
    ///
    /// # Errors
    /// If the storage cannot be opened. The call then fails with the same error.
    fn storage(&self) -> Result<Arc<dyn Storage>, StorageError>;

    /// Called after each snapshot has been read.
    fn was_read(&self, _snapshot: &Snapshot) {}
}

/// A storage that forwards every call to the storage selected by `T`.
#[derive(Debug, Default)]
pub struct Forwarded<T>(pub T);

impl<T: Forward> Storage for Forwarded<T> {
    fn create(&self, name: &str, definition: &str) -> Result<StudyRecord, StorageError> {
        self.0.storage()?.create(name, definition)
    }

    fn studies(&self) -> Result<Vec<StudyRecord>, StorageError> {
        self.0.storage()?.studies()
    }

    fn trials(&self, study: StudyKey) -> Result<Vec<Trial>, StorageError> {
        self.0.storage()?.trials(study)
    }

    fn snapshot_from(
        &self,
        study: StudyKey,
        after: u64,
        from_epochs: &BTreeMap<u64, u32>,
    ) -> Result<Snapshot, StorageError> {
        let snapshot = self.0.storage()?.snapshot_from(study, after, from_epochs)?;
        self.0.was_read(&snapshot);
        Ok(snapshot)
    }

    fn add_unless_stopped(
        &self,
        study: StudyKey,
        trial: &NewTrial,
        known_stops: Option<u64>,
    ) -> Result<ControlFlow<Stop, AddOutcome>, StorageError> {
        self.0.storage()?.add_unless_stopped(study, trial, known_stops)
    }

    fn add_told(&self, study: StudyKey, trials: &[(NewTrial, Told)]) -> Result<(), StorageError> {
        self.0.storage()?.add_told(study, trials)
    }

    fn claim_unless_stopped(
        &self,
        study: StudyKey,
        worker: &Worker,
        lease: Option<Duration>,
        known_stops: Option<u64>,
    ) -> Result<ControlFlow<Stop, Option<Trial>>, StorageError> {
        self.0.storage()?.claim_unless_stopped(study, worker, lease, known_stops)
    }

    fn renew(&self, study: StudyKey, worker: &str, lease: Duration) -> Result<(), StorageError> {
        self.0.storage()?.renew(study, worker, lease)
    }

    fn report(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
        report: Report,
    ) -> Result<ReportOutcome, StorageError> {
        self.0.storage()?.report(study, number, teller, report)
    }

    fn finish(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
        told: &Told,
    ) -> Result<TellOutcome, StorageError> {
        self.0.storage()?.finish(study, number, teller, told)
    }

    fn correct(&self, study: StudyKey, number: u64, told: &Told) -> Result<bool, StorageError> {
        self.0.storage()?.correct(study, number, told)
    }

    fn corrections(&self, study: StudyKey) -> Result<Vec<Correction>, StorageError> {
        self.0.storage()?.corrections(study)
    }

    fn release_trial(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
    ) -> Result<(), StorageError> {
        self.0.storage()?.release_trial(study, number, teller)
    }

    fn stop(&self, study: StudyKey, by: &str) -> Result<Stop, StorageError> {
        self.0.storage()?.stop(study, by)
    }

    fn last_stop(&self, study: StudyKey) -> Result<Option<Stop>, StorageError> {
        self.0.storage()?.last_stop(study)
    }
}
