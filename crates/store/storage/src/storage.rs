//! The contract of every place where trials are kept.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use fedbo_space::Point;
use serde::{Deserialize, Serialize};

use crate::{Report, Told, Trial, Worker};

/// The key of a study; valid in its storage only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StudyKey(pub i64);

/// A study as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudyRecord {
    /// Its key.
    pub key: StudyKey,
    /// Its name, unique within the storage.
    pub name: String,
    /// Its definition, a text that the storage does not read; never changed once stored.
    pub definition: String,
}

/// A trial to be added.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTrial {
    /// The point to be tried.
    pub point: Point,
    /// Equal for points that mean the same trial, different otherwise.
    pub encoding: Vec<u8>,
    /// The source of the point.
    pub source: String,
    /// Seconds that the proposal took.
    pub ask_seconds: f64,
    /// The worker that evaluates it from now on, and the length of its lease (`None`: it is held until told). Without a
    /// worker, the trial waits.
    pub holder: Option<(Worker, Option<Duration>)>,
    /// True if it is to be refused where the study has a trial with the same encoding.
    pub unique: bool,
    /// The number that it must get; `None` for any.
    pub number: Option<u64>,
    /// The number of trials that the study must not exceed.
    pub limit: Option<u64>,
}

impl NewTrial {
    /// A trial that waits for a worker, at a point that may have been tried before, in a study of any size.
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
#[expect(clippy::large_enum_variant, reason = "made once a trial, and mostly of the large kind")]
pub enum AddOutcome {
    /// It is stored.
    Trial(Trial),
    /// Its number is taken, or not yet due: somebody else asked meanwhile. Nothing is stored.
    Overtaken,
    /// Trial `number` has the same encoding. Nothing is stored.
    Duplicate {
        /// The earlier trial.
        number: u64,
    },
    /// The study has as many trials as it may. Nothing is stored.
    Full,
}

/// The state of a study that a worker needs to propose the next trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Trials told after the given place in the order of telling, in that order.
    pub told: Vec<Trial>,
    /// Trials that are waiting or running, in the order of asking.
    pub open: Vec<Trial>,
    /// Number of trials so far, of any state: the next one's number.
    pub n_trials: u64,
}

/// The teller of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TellAuthority<'a> {
    /// The worker with this token; it must hold the trial.
    Worker(&'a str),
    /// A person; the trial must be waiting, or held without a lease by somebody who is not seen to live (a person, or a
    /// process of another machine), or its holder must be gone or its lease over.
    Hand,
}

/// The effect of a telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TellOutcome {
    /// The trial has ended, as the `seq`-th one.
    New {
        /// Place in the order of telling, from 1.
        seq: u64,
    },
    /// It had ended in the same way before; nothing is changed.
    Already,
}

/// The effect of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportOutcome {
    /// It is stored.
    New,
    /// The trial had reported this value at this epoch before; nothing is changed.
    Already,
}

/// A stop of a study: somebody's wish that those who tune it at that moment begin no further trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Its place among the stops of its study, from 1. By it, and not by the clock, which may be set back, a run tells the stops
    /// that came after its own beginning.
    pub seq: u64,
    /// The time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The program that was used for it, in words: `fedbo stop`.
    pub by: String,
}

/// A place where studies and their trials are kept.
///
/// Every call is one transaction: it happens wholly or not at all, in one order for all callers. A durable storage
/// returns from [`Storage::add`], [`Storage::add_told`], [`Storage::claim`], [`Storage::report`], [`Storage::finish`], [`Storage::release_trial`] and
/// [`Storage::stop`] only when what they did survives a crash of the process and of the machine. Times are read from the storage's own clock, which may be set back.
/// A call that fails with [`StorageError::Write`] has changed nothing that anybody sees, but a crash right after it may
/// still bring the change to light: so tell again what could not be told, [`TellOutcome::Already`] is no mistake.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Stores a study, or returns the one that has this name, whatever its definition.
    ///
    /// # Errors
    /// If the storage cannot be read or written.
    fn create(&self, name: &str, definition: &str) -> Result<StudyRecord, StorageError>;

    /// All studies, in the order of their creation.
    ///
    /// # Errors
    /// If the storage cannot be read.
    fn studies(&self) -> Result<Vec<StudyRecord>, StorageError>;

    /// All trials in the order of asking.
    ///
    /// # Errors
    /// If the storage cannot be read, or has no such study.
    fn trials(&self, study: StudyKey) -> Result<Vec<Trial>, StorageError>;

    /// Returns the trials that were told after the `after`-th telling, and those that are open.
    ///
    /// # Errors
    /// If the storage cannot be read, or has no such study.
    fn snapshot(&self, study: StudyKey, after: u64) -> Result<Snapshot, StorageError> {
        self.snapshot_from(study, after, &BTreeMap::new())
    }

    /// The same for somebody who has seen reports of open trials: of those in `from_epochs`, by number, only the reports from this
    /// epoch on. Cost grows with what is returned, not with what was seen.
    ///
    /// # Errors
    /// As for [`Storage::snapshot`].
    fn snapshot_from(
        &self,
        study: StudyKey,
        after: u64,
        from_epochs: &BTreeMap<u64, u32>,
    ) -> Result<Snapshot, StorageError>;

    /// Adds a trial. Cost does not grow with the number of trials, but for the search of an index.
    ///
    /// # Errors
    /// [`StorageError::NotFinite`] for a point with such a number; or if the storage cannot be written, or has no such
    /// study.
    fn add(&self, study: StudyKey, trial: &NewTrial) -> Result<AddOutcome, StorageError> {
        Ok(unstopped(self.add_unless_stopped(study, trial, None)?))
    }

    /// The same for a run that knew of the first `known_stops` stops when it began; `Break` with a later one, and nothing is added.
    /// `None` heeds no stop.
    ///
    /// # Errors
    /// As for [`Storage::add`].
    fn add_unless_stopped(
        &self,
        study: StudyKey,
        trial: &NewTrial,
        known_stops: Option<u64>,
    ) -> Result<ControlFlow<Stop, AddOutcome>, StorageError>;

    /// Adds trials that have ended elsewhere, in this order: all of them, or none. What they demand of the study (a number, a limit, an
    /// encoding of their own) is not looked at.
    ///
    /// # Errors
    /// [`StorageError::NotFinite`] for a point or an ending with such a number, [`StorageError::NotHeld`] for a trial that a process
    /// holds, [`StorageError::NotReported`] for one that was stopped; or if the storage cannot be written, or has no such
    /// study.
    fn add_told(&self, study: StudyKey, trials: &[(NewTrial, Told)]) -> Result<(), StorageError>;

    /// Takes over the first trial that waits, or whose holder is gone or whose lease is over; it is then `worker`'s for
    /// `lease`, and what an earlier attempt has reported goes. A trial that was begun [`ATTEMPTS_MAX`] times already is told as failed (`abandoned`) instead, and the
    /// next one is looked at.
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

    /// The same for a run that knew of the first `known_stops` stops when it began; `Break` with a later one, and nothing is taken.
    /// `None` heeds no stop.
    ///
    /// # Errors
    /// As for [`Storage::claim`].
    fn claim_unless_stopped(
        &self,
        study: StudyKey,
        worker: &Worker,
        lease: Option<Duration>,
        known_stops: Option<u64>,
    ) -> Result<ControlFlow<Stop, Option<Trial>>, StorageError>;

    /// Lengthens the leases of all trials that the worker holds to `lease` from now; those that last longer stay. A lease
    /// that is over counts as held until somebody else takes the trial.
    ///
    /// # Errors
    /// If the storage cannot be written, or has no such study.
    fn renew(&self, study: StudyKey, worker: &str, lease: Duration) -> Result<(), StorageError>;

    /// Keeps what the holder of a trial reports as it trains. Reporting the same again is no mistake. Cost does not grow with the
    /// number of earlier reports, but for the search of an index.
    ///
    /// # Errors
    /// [`StorageError::NotFinite`], [`StorageError::EpochZero`], [`StorageError::NoTrial`]; [`StorageError::NotHeld`] if the
    /// trial waits or is somebody else's by now; [`StorageError::ToldOtherwise`] if it has ended; [`StorageError::ReportOrder`]
    /// if the epoch is not above the last one; or if the storage cannot be written.
    fn report(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
        report: Report,
    ) -> Result<ReportOutcome, StorageError>;

    /// Ends a trial. Telling the same again is no mistake, whoever does it.
    ///
    /// # Errors
    /// [`StorageError::NotFinite`], [`StorageError::NoTrial`], [`StorageError::NotHeld`] if it is somebody else's by now,
    /// [`StorageError::NotReported`] if it is to be stopped elsewhere than at its last report,
    /// [`StorageError::ToldOtherwise`] if it has ended in another way; or if the storage cannot be written.
    fn finish(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
        told: &Told,
    ) -> Result<TellOutcome, StorageError>;

    /// Lets a trial wait again; the attempt counts as not having happened, and what it has reported goes.
    ///
    /// # Errors
    /// As for [`Storage::finish`]; a trial that has ended is [`StorageError::ToldOtherwise`].
    fn release_trial(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
    ) -> Result<(), StorageError>;

    /// Stops a study for those who tune it now; whoever begins later is not concerned. No trial changes.
    ///
    /// # Errors
    /// If the storage cannot be written, or has no such study.
    fn stop(&self, study: StudyKey, by: &str) -> Result<Stop, StorageError>;

    /// The last stop of a study; `None` if nobody ever stopped it.
    ///
    /// # Errors
    /// If the storage cannot be read, or has no such study.
    fn last_stop(&self, study: StudyKey) -> Result<Option<Stop>, StorageError>;
}

/// The outcome of a call that heeds no stop.
fn unstopped<T>(outcome: ControlFlow<Stop, T>) -> T {
    match outcome {
        ControlFlow::Continue(outcome) => outcome,
        ControlFlow::Break(stop) => {
            unreachable!("stop {} was heeded by a call that heeds none", stop.seq)
        }
    }
}

/// The number of times that a trial may be begun: one whose evaluation takes its process down ten times is given up. A
/// machine that is preempted now and then should not come near it.
pub const ATTEMPTS_MAX: u32 = 10;

/// An error of a storage. `place` is its address or its file, never with a password.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The address is none.
    #[error(
        "storage = {address:?}, expected \"sqlite:FILE\", \"postgresql://USER@HOST/DATABASE\" or \"memory:\"{hint}"
    )]
    Address {
        /// The address that was given.
        address: String,
        /// The address that was probably meant, with the mark that parts it from the rest; may be empty.
        hint: String,
    },
    /// There is no such storage, and it is not to be created.
    #[error("{place}: there is no such storage")]
    Absent {
        /// The storage's place.
        place: String,
    },
    /// The place holds something other than a storage of studies.
    #[error("{place}: {message}")]
    NotAStorage {
        /// The place.
        place: String,
        /// A description of what it holds, and the way out.
        message: String,
    },
    /// The layout is of another version.
    #[error("{place}: its layout has version {found}, this program reads {expected}; {remedy}")]
    Version {
        /// The storage's place.
        place: String,
        /// The version there.
        found: i64,
        /// Ours.
        expected: i64,
        /// The way out.
        remedy: &'static str,
    },
    /// The server cannot be reached, or lets us not in.
    #[error("{place}: cannot connect: {message}")]
    Connect {
        /// The server.
        place: String,
        /// The message of the system or the server, and the way out.
        message: String,
    },
    /// The server is set up so that what it acknowledges may be lost.
    #[error("{place}: {message}")]
    Unsafe {
        /// The server.
        place: String,
        /// The setting, what may happen, and the way out.
        message: String,
    },
    /// A write is refused, for now or for good.
    #[error("{place}: cannot write: {message}")]
    Write {
        /// The storage's place.
        place: String,
        /// The message of the system or the server, and the way out.
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
    /// A read is refused.
    #[error("{place}: cannot read: {message}")]
    Read {
        /// The storage's place.
        place: String,
        /// The message of the system or the server.
        message: String,
    },
    /// The stored data contradict themselves.
    #[error("{place}: {message}")]
    Corrupt {
        /// The storage's place.
        place: String,
        /// The problem, and the way out.
        message: String,
    },
    /// A number that is to be stored is infinite or none.
    #[error("{what} is not finite; only finite numbers are stored")]
    NotFinite {
        /// The name of the number.
        what: String,
    },
    /// There is no such study.
    #[error("the storage has no study with key {}", key.0)]
    NoStudy {
        /// The key.
        key: StudyKey,
    },
    /// There is no such trial.
    #[error(
        "there is no trial {number}; the study has {n_trials} so far, numbered from 0 (fedbo trials lists them)"
    )]
    NoTrial {
        /// The number.
        number: u64,
        /// Number of trials.
        n_trials: u64,
    },
    /// Somebody else holds the trial.
    #[error("trial {number} is held by {holder}")]
    NotHeld {
        /// The trial.
        number: u64,
        /// The holder, in words.
        holder: String,
    },
    /// A report is not above the last one.
    #[error(
        "trial {number} has reported {:?} at epoch {} after {:?} at epoch {}; epochs must ascend",
        report.value, report.epoch, before.value, before.epoch
    )]
    ReportOrder {
        /// The trial.
        number: u64,
        /// The report that is refused.
        report: Report,
        /// The report at this epoch, else the last one.
        before: Report,
    },
    /// A report names epoch 0.
    #[error("trial {number} has reported epoch 0; epochs are counted from 1")]
    EpochZero {
        /// The trial.
        number: u64,
    },
    /// A trial is to have been stopped where it did not report last.
    #[error(
        "trial {number} cannot have been stopped at epoch {epoch}: this is not its last report"
    )]
    NotReported {
        /// The trial.
        number: u64,
        /// The epoch.
        epoch: u32,
    },
    /// The trial has ended in another way.
    #[error("trial {number} has ended already with {told}")]
    ToldOtherwise {
        /// The trial.
        number: u64,
        /// The outcome of the trial, in words.
        told: String,
    },
}
