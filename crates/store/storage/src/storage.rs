//! The contract for storages of trials.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use fedbo_error_class::{Class, Classified};
use fedbo_space::Point;
use serde::{Deserialize, Serialize};

use crate::{Correction, LastCorrection, Report, Told, Trial, Worker};

/// The key of a study. Valid only in the study's storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StudyKey(pub i64);

/// A stored study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudyRecord {
    /// The key.
    pub key: StudyKey,
    /// The name, unique within the storage.
    pub name: String,
    /// The definition. The storage does not parse it and never changes it.
    pub definition: String,
}

/// A trial to be added.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTrial {
    /// The point to evaluate.
    pub point: Point,
    /// A canonical encoding of the point. Two points have equal encodings if and only if they
    /// denote the same trial.
    pub encoding: Vec<u8>,
    /// The source of the point.
    pub source: String,
    /// Time to compute the proposal, in seconds.
    pub ask_seconds: f64,
    /// The worker that evaluates the trial from now on, and the duration of its lease (`None` means
    /// until the trial is told). Without a worker, the trial waits.
    pub holder: Option<(Worker, Option<Duration>)>,
    /// If true, the trial is refused if the study already has a trial with the same encoding.
    pub unique: bool,
    /// The required trial number, or `None` to accept any number.
    pub number: Option<u64>,
    /// Maximum number of trials in the study.
    pub limit: Option<u64>,
}

impl NewTrial {
    /// Creates a trial that waits for a worker, without a uniqueness check and without a limit on
    /// the number of trials.
    pub fn new(encoding: Vec<u8>, point: Point, source: impl Into<String>) -> Self {
        Self {
            point,
            encoding,
            source: source.into(),
            ask_seconds: 0.0,
            holder: None,
            unique: false,
            number: None,
            limit: None,
        }
    }
}

/// The result of adding a [`NewTrial`].
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one per trial, and mostly of the large kind")]
pub enum AddOutcome {
    /// The trial is stored.
    Trial(Trial),
    /// Because of a concurrent caller, the required number is taken or not yet due. Nothing is
    /// stored.
    Overtaken,
    /// Trial `number` has the same encoding. Nothing is stored.
    Duplicate {
        /// The earlier trial.
        number: u64,
    },
    /// The study has reached its limit of trials. Nothing is stored.
    Full,
}

/// The state of a study that a worker needs to propose the next trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Trials told after the given sequence number, in the order of telling.
    pub told: Vec<Trial>,
    /// Waiting and running trials, in the order of asking.
    pub open: Vec<Trial>,
    /// Total number of trials in any state, which is the number of the next trial.
    pub n_trials: u64,
    /// The last correction. If it is not that of an earlier snapshot, trials that were told before
    /// that snapshot may have other outcomes.
    pub last_correction: Option<LastCorrection>,
}

/// The authority with which a trial is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TellAuthority<'a> {
    /// The worker with this token, which must hold the trial.
    Worker(&'a str),
    /// A person. The trial must be waiting, its lease must have expired, or its holder must be
    /// gone. Alternatively, it must be held without a lease, either by a person or by a process
    /// that is not known to be alive, for example on another machine.
    Hand,
}

/// The effect of telling a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TellOutcome {
    /// The trial has ended.
    New {
        /// Position in the order of telling, counted from 1.
        seq: u64,
    },
    /// The trial had already ended with the same outcome. Nothing changes.
    Already,
}

/// The effect of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportOutcome {
    /// The report is stored.
    New,
    /// The trial had already reported this value at this epoch. Nothing changes.
    Already,
}

/// A request to stop a study. The runs that are active at that time start no further trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Position among the study's stops, counted from 1. A run compares positions, not times, to
    /// find stops after its own start, because the clock may go backwards.
    pub seq: u64,
    /// The time in milliseconds since 1970.
    pub at_ms: i64,
    /// The program that made the request, for example `fedbo stop`.
    pub by: String,
}

/// A store of studies and their trials.
///
/// Every call is one atomic transaction, and all callers see the same order of transactions. A
/// durable storage returns from [`Storage::add`], [`Storage::add_told`], [`Storage::claim`],
/// [`Storage::report`], [`Storage::finish`], [`Storage::correct`], [`Storage::release_trial`] and
/// [`Storage::stop`] only once the change survives a crash of the process and of the machine. Times come from the
/// storage's own clock, which may go backwards.
///
/// A call that fails with [`StorageError::Write`] has made no visible change, but a crash right
/// after the call may still make the change appear. Retry a failed call of [`Storage::finish`].
/// [`TellOutcome::Already`] is not an error.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Stores a study, or returns the existing study with this name, regardless of its definition.
    ///
    /// # Errors
    /// If the storage cannot be read or written.
    fn create(&self, name: &str, definition: &str) -> Result<StudyRecord, StorageError>;

    /// Returns all studies, in the order of their creation.
    ///
    /// # Errors
    /// If the storage cannot be read.
    fn studies(&self) -> Result<Vec<StudyRecord>, StorageError>;

    /// Returns all trials, in the order of asking.
    ///
    /// # Errors
    /// If the storage cannot be read, or has no such study.
    fn trials(&self, study: StudyKey) -> Result<Vec<Trial>, StorageError>;

    /// Returns the trials told after sequence number `after`, and the open trials.
    ///
    /// # Errors
    /// If the storage cannot be read, or has no such study.
    fn snapshot(&self, study: StudyKey, after: u64) -> Result<Snapshot, StorageError> {
        self.snapshot_from(study, after, &BTreeMap::new())
    }

    /// Like [`Storage::snapshot`], but for a caller that has already read some reports.
    /// `from_epochs` maps the number of an open trial to the first epoch to return. The cost grows
    /// with the size of the result, not with the number of reports read before.
    ///
    /// # Errors
    /// Same as for [`Storage::snapshot`].
    fn snapshot_from(
        &self,
        study: StudyKey,
        after: u64,
        from_epochs: &BTreeMap<u64, u32>,
    ) -> Result<Snapshot, StorageError>;

    /// Adds a trial. Apart from an index search, the cost does not grow with the number of trials.
    ///
    /// # Errors
    /// [`StorageError::NotFinite`] for a point with an infinite number or NaN; or an error if the
    /// storage cannot be written or has no such study.
    fn add(&self, study: StudyKey, trial: &NewTrial) -> Result<AddOutcome, StorageError> {
        Ok(unstopped(self.add_unless_stopped(study, trial, None)?))
    }

    /// Like [`Storage::add`], but for a run that knew the first `known_stops` stops when it
    /// started. If there is a later stop, returns it as `Break` and adds nothing. `None` ignores
    /// stops.
    ///
    /// # Errors
    /// Same as for [`Storage::add`].
    fn add_unless_stopped(
        &self,
        study: StudyKey,
        trial: &NewTrial,
        known_stops: Option<u64>,
    ) -> Result<ControlFlow<Stop, AddOutcome>, StorageError>;

    /// Adds trials that were completed elsewhere, either all of them in this order or none. Ignores
    /// the constraints [`NewTrial::number`], [`NewTrial::limit`] and [`NewTrial::unique`].
    ///
    /// # Errors
    /// [`StorageError::NotFinite`] for a point or an outcome with an infinite number or NaN;
    /// [`StorageError::NotHeld`] for a trial held by a process; [`StorageError::NotReported`] for a
    /// stopped trial; or an error if the storage cannot be written or has no such study.
    fn add_told(&self, study: StudyKey, trials: &[(NewTrial, Told)]) -> Result<(), StorageError>;

    /// Claims the first trial that is waiting, has an expired lease, or has a holder that is gone.
    /// `worker` then holds the trial for `lease`, and the reports of earlier attempts are deleted.
    ///
    /// A trial that was already started [`ATTEMPTS_MAX`] times is marked as failed (`abandoned`)
    /// instead, and the search continues.
    ///
    /// # Errors
    /// If the storage cannot be written, or has no such study.
    fn claim(
        &self,
        study: StudyKey,
        worker: &Worker,
        lease: Option<Duration>,
    ) -> Result<Option<Trial>, StorageError> {
        Ok(unstopped(self.claim_unless_stopped(study, worker, lease, None)?))
    }

    /// Like [`Storage::claim`], but for a run that knew the first `known_stops` stops when it
    /// started. If there is a later stop, returns it as `Break` and claims nothing. `None` ignores
    /// stops.
    ///
    /// # Errors
    /// Same as for [`Storage::claim`].
    fn claim_unless_stopped(
        &self,
        study: StudyKey,
        worker: &Worker,
        lease: Option<Duration>,
        known_stops: Option<u64>,
    ) -> Result<ControlFlow<Stop, Option<Trial>>, StorageError>;

    /// Extends the leases of all trials that the worker holds to `lease` from now. Longer leases
    /// are kept. An expired lease can be renewed until another worker claims the trial.
    ///
    /// # Errors
    /// If the storage cannot be written, or has no such study.
    fn renew(&self, study: StudyKey, worker: &str, lease: Duration) -> Result<(), StorageError>;

    /// Stores an intermediate value from the holder of a trial. Repeating a report is not an error.
    /// Apart from an index search, the cost does not grow with the number of earlier reports.
    ///
    /// # Errors
    /// [`StorageError::NotFinite`], [`StorageError::EpochZero`], [`StorageError::NoTrial`];
    /// [`StorageError::NotHeld`] if the trial is waiting or has a different holder;
    /// [`StorageError::ToldOtherwise`] if it has ended; [`StorageError::ReportOrder`] if the epoch
    /// is not later than the last one; or an error if the storage cannot be written.
    fn report(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
        report: Report,
    ) -> Result<ReportOutcome, StorageError>;

    /// Ends a trial. Repeating the same outcome is not an error, under any authority.
    ///
    /// # Errors
    /// [`StorageError::NotFinite`], [`StorageError::NoTrial`]; [`StorageError::NotHeld`] if the
    /// trial has a different holder; [`StorageError::NotReported`] if the outcome is a stop at an
    /// epoch other than the last report's; [`StorageError::ToldOtherwise`] if the trial has ended
    /// with a different outcome; or an error if the storage cannot be written.
    fn finish(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
        told: &Told,
    ) -> Result<TellOutcome, StorageError>;

    /// Replaces the outcome of a trial that has ended, and stores the earlier outcome as a
    /// [`Correction`]. The trial keeps its place in the order of telling and its reports. Returns
    /// false if the trial already has this outcome.
    ///
    /// # Errors
    /// [`StorageError::NotFinite`], [`StorageError::NoTrial`]; [`StorageError::NotEnded`] for a
    /// waiting or running trial; [`StorageError::NotReported`] if the outcome is a stop at an epoch
    /// other than the last report's; or an error if the storage cannot be written.
    fn correct(&self, study: StudyKey, number: u64, told: &Told) -> Result<bool, StorageError>;

    /// Returns all corrections of a study, in their order.
    ///
    /// # Errors
    /// If the storage cannot be read, or has no such study.
    fn corrections(&self, study: StudyKey) -> Result<Vec<Correction>, StorageError>;

    /// Returns a trial to the waiting state. The attempt does not count, and its reports are
    /// deleted.
    ///
    /// # Errors
    /// Same as for [`Storage::finish`]; [`StorageError::ToldOtherwise`] if the trial has ended.
    fn release_trial(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
    ) -> Result<(), StorageError>;

    /// Stops a study for all runs that are active now. Later runs are not affected. No trial
    /// changes.
    ///
    /// # Errors
    /// If the storage cannot be written, or has no such study.
    fn stop(&self, study: StudyKey, by: &str) -> Result<Stop, StorageError>;

    /// Returns the last stop of a study, or `None` if it was never stopped.
    ///
    /// # Errors
    /// If the storage cannot be read, or has no such study.
    fn last_stop(&self, study: StudyKey) -> Result<Option<Stop>, StorageError>;
}

/// Unwraps the outcome of a call that ignores stops.
fn unstopped<T>(outcome: ControlFlow<Stop, T>) -> T {
    match outcome {
        ControlFlow::Continue(outcome) => outcome,
        ControlFlow::Break(stop) => {
            unreachable!("stop {} was heeded by a call that heeds none", stop.seq)
        }
    }
}

/// Maximum number of attempts for a trial. A trial is abandoned if its evaluation crashes the
/// process ten times. Occasional preemption of a machine should not reach this limit.
pub const ATTEMPTS_MAX: u32 = 10;

/// An error of a storage. `place` is its address or file, and never contains a password.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The address is invalid.
    #[error(
        "storage = {address:?}, expected \"sqlite:FILE\", \"postgresql://USER@HOST/DATABASE\" or \"memory:\"{hint}"
    )]
    Address {
        /// The given address.
        address: String,
        /// The address that was probably intended, preceded by a separator. May be empty.
        hint: String,
    },
    /// The storage does not exist, and the call must not create it.
    #[error("{place}: there is no such storage")]
    Absent {
        /// The storage's address or file.
        place: String,
    },
    /// The address refers to something other than a storage of studies.
    #[error("{place}: {message}")]
    NotAStorage {
        /// The address or file.
        place: String,
        /// A description of the content, and how to fix the problem.
        message: String,
    },
    /// The layout has a different version.
    #[error("{place}: its layout has version {found}, this program reads {expected}; {remedy}")]
    Version {
        /// The storage's address or file.
        place: String,
        /// The version found.
        found: i64,
        /// This program's version.
        expected: i64,
        /// A suggestion for the user.
        remedy: &'static str,
    },
    /// The server cannot be reached, or refuses the login.
    #[error("{place}: cannot connect: {message}")]
    Connect {
        /// The server.
        place: String,
        /// The message of the system or the server, and how to fix the problem.
        message: String,
    },
    /// The server's settings may lose acknowledged commits.
    #[error("{place}: {message}")]
    Unsafe {
        /// The server.
        place: String,
        /// The setting, the danger, and how to fix it.
        message: String,
    },
    /// A write was refused, temporarily or permanently.
    #[error("{place}: cannot write: {message}")]
    Write {
        /// The storage's address or file.
        place: String,
        /// The message of the system or the server, and how to fix the problem.
        message: String,
    },
    /// The file is no longer where it was opened.
    #[error(
        "{place}: the file was moved, deleted or replaced while it was in use; put it back with the files of the same \
         name ending in -wal and -shm, which belong to it"
    )]
    Gone {
        /// The file.
        place: String,
    },
    /// A read was refused.
    #[error("{place}: cannot read: {message}")]
    Read {
        /// The storage's address or file.
        place: String,
        /// The message of the system or the server.
        message: String,
    },
    /// The stored data are inconsistent.
    #[error("{place}: {message}")]
    Corrupt {
        /// The storage's address or file.
        place: String,
        /// The problem, and how to fix it.
        message: String,
    },
    /// A number to be stored is infinite or NaN.
    #[error("{what} is not finite; only finite numbers are stored")]
    NotFinite {
        /// The name of the number.
        what: String,
    },
    /// The study does not exist.
    #[error("the storage has no study with key {}", key.0)]
    NoStudy {
        /// The key.
        key: StudyKey,
    },
    /// The trial does not exist.
    #[error(
        "there is no trial {number}; the study has {n_trials} so far, numbered from 0 (fedbo trials lists them)"
    )]
    NoTrial {
        /// The number.
        number: u64,
        /// Number of trials.
        n_trials: u64,
    },
    /// The trial has a different holder.
    #[error("trial {number} is held by {holder}")]
    NotHeld {
        /// The trial.
        number: u64,
        /// The holder, for messages.
        holder: String,
    },
    /// The epoch of a report is not later than the last one.
    #[error(
        "trial {number} has reported {:?} at epoch {} after {:?} at epoch {}; epochs must ascend",
        report.value, report.epoch, before.value, before.epoch
    )]
    ReportOrder {
        /// The trial.
        number: u64,
        /// The refused report.
        report: Report,
        /// The stored report at the same epoch, or else the last report.
        before: Report,
    },
    /// A report names epoch 0.
    #[error("trial {number} has reported epoch 0; epochs are counted from 1")]
    EpochZero {
        /// The trial.
        number: u64,
    },
    /// The outcome is a stop at an epoch other than the trial's last report.
    #[error(
        "trial {number} cannot have been stopped at epoch {epoch}: this is not its last report"
    )]
    NotReported {
        /// The trial.
        number: u64,
        /// The epoch.
        epoch: u32,
    },
    /// The trial has no outcome that could be corrected.
    #[error(
        "trial {number} is {state}, so there is nothing to correct or discard; end it first with fedbo tell"
    )]
    NotEnded {
        /// The trial.
        number: u64,
        /// Its state, for messages.
        state: &'static str,
    },
    /// The trial has already ended with a different outcome.
    #[error("trial {number} has already ended with {told}")]
    ToldOtherwise {
        /// The trial.
        number: u64,
        /// The outcome of the trial, for messages.
        told: String,
    },
}

impl Classified for StorageError {
    fn class(&self) -> Class {
        match self {
            Self::Write { .. } | Self::Gone { .. } => Class::Output,
            _ => Class::Input,
        }
    }
}
