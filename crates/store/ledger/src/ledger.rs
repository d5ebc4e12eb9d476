//! A ledger that is open for writing.

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};

use fedbo_failpoints::pass;
use fedbo_privacy::accounting::PrivacyEvent;

use crate::backend::{Backend, Key, StoredEntry};
use crate::chain::Entry;
use crate::file::FileBackend;
use crate::postgres::PostgresBackend;
use crate::record::Record;
use crate::spending::Charges;
use crate::{BudgetSpent, Charter, Head, LedgerError, Ledgers, Statement, event_to_bytes};

/// Maximum size of a release in bytes.
pub const RELEASE_BYTES_MAX: usize = 512 << 20;

/// A committed entry.
#[derive(Clone, PartialEq, Eq)]
pub struct Committed {
    /// The entry's number, counted from 1.
    pub seq: u64,
    /// The entry's round.
    pub round: u64,
    /// The privacy event, encoded by [`crate::event_to_bytes`].
    pub event: Vec<u8>,
    /// The released bytes.
    pub release: Vec<u8>,
}

/// A study's ledger that only this process has open for writing.
///
/// A release is charged and stored in one durable transaction before its first byte is sent
/// ([`Ledger::commit`]). Stored releases are returned byte for byte ([`Ledger::stored`]). A ledger
/// file must be on a local disk.
pub struct Ledger {
    backend: Box<dyn Backend>,
    place: PathBuf,
    record: Record,
    /// Charges that are known to be within the budget. Every subset of them is within the budget as
    /// well.
    within: RefCell<Charges>,
    /// The reason why the ledger refuses all calls, or `None` while it is usable.
    stopped: Option<String>,
}

impl fmt::Debug for Committed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seq, round, n_bytes) = (self.seq, self.round, self.release.len());
        write!(f, "Committed {{ seq: {seq}, round: {round}, {n_bytes} bytes }}")
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("path", &self.path())
            .field("head", &self.record.head.to_string())
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}

impl Ledger {
    /// Creates the ledger of a new study in a file, which appears at its path atomically.
    ///
    /// # Errors
    /// [`LedgerError::Exists`] if the path exists; [`LedgerError::Charter`] if the charter is
    /// invalid; [`LedgerError::Held`], [`LedgerError::Write`].
    pub fn create(path: &Path, charter: &Charter) -> Result<Self, LedgerError> {
        charter.check()?;
        let (backend, record) = FileBackend::create(path, charter)?;
        Ok(Self::of(backend, path, charter, record))
    }

    /// Opens the ledger of a study in a file after verifying all of it (INV-15).
    ///
    /// # Errors
    /// [`LedgerError::Absent`], [`LedgerError::NotALedger`], [`LedgerError::Version`];
    /// [`LedgerError::Corrupt`] if the verification finds a problem; [`LedgerError::OtherCharter`]
    /// with the keys that differ (INV-11); [`LedgerError::Held`] if a running process has the
    /// ledger open; [`LedgerError::Write`] if the ledger cannot be written.
    pub fn open(path: &Path, charter: &Charter) -> Result<Self, LedgerError> {
        let (backend, record) = FileBackend::open(path, charter)?;
        Ok(Self::of(backend, path, charter, record))
    }

    /// Creates the ledger of a new study in a database.
    ///
    /// # Errors
    /// Same as for [`Ledger::create`].
    pub fn create_in(ledgers: &Ledgers, charter: &Charter) -> Result<Self, LedgerError> {
        charter.check()?;
        let (backend, record) = PostgresBackend::create(ledgers, charter)?;
        Ok(Self::of(backend, &ledgers.place_of(&charter.name), charter, record))
    }

    /// Opens the ledger of a study in a database after verifying all of it (INV-15). A previous
    /// writer can no longer commit, and gets [`LedgerError::Superseded`].
    ///
    /// # Errors
    /// Same as for [`Ledger::open`], except [`LedgerError::Held`].
    pub fn open_in(ledgers: &Ledgers, charter: &Charter) -> Result<Self, LedgerError> {
        let (backend, record) = PostgresBackend::open(ledgers, charter)?;
        Ok(Self::of(backend, &ledgers.place_of(&charter.name), charter, record))
    }

    fn of(
        backend: impl Backend + 'static,
        place: &Path,
        charter: &Charter,
        record: Record,
    ) -> Self {
        Self {
            backend: Box::new(backend),
            place: place.to_owned(),
            record: Record { charter: charter.clone(), ..record },
            within: RefCell::default(),
            stopped: None,
        }
    }

    /// Returns the file's path as given by the caller, or the database and the study's name.
    pub fn path(&self) -> &Path {
        &self.place
    }

    /// Returns the charter, which is fixed before the first round.
    pub fn charter(&self) -> &Charter {
        &self.record.charter
    }

    /// Returns the head after the last acknowledged commit.
    pub fn head(&self) -> Head {
        self.record.head
    }

    /// Returns the number of charged and stored releases.
    pub fn releases(&self) -> u64 {
        self.record.head.seq
    }

    /// Returns the last released round.
    pub fn last_round(&self) -> Option<u64> {
        self.record.last_round
    }

    /// Returns the bytes released in a round, which never change (INV-2), or `None` if the round
    /// was not released.
    ///
    /// # Errors
    /// [`LedgerError::Corrupt`] if the stored bytes do not match their hash; [`LedgerError::Read`],
    /// [`LedgerError::Gone`], [`LedgerError::Stopped`].
    pub fn stored(&self, round: u64) -> Result<Option<Vec<u8>>, LedgerError> {
        self.check_goes_on()?;
        let Ok(round) = i64::try_from(round) else {
            return Ok(None);
        };
        self.look(Key::Round(round), |stored| stored.release.to_vec())
    }

    /// Returns the entries after number `after`, in order.
    ///
    /// # Errors
    /// Same as for [`Ledger::stored`].
    pub fn entries(&self, after: u64) -> Result<Vec<Committed>, LedgerError> {
        self.check_goes_on()?;
        let mut entries = Vec::new();
        for seq in after + 1..=self.record.head.seq {
            let key = i64::try_from(seq).unwrap_or(i64::MAX);
            let found = self.look(Key::Seq(key), |stored| Committed {
                seq: stored.seq,
                round: stored.round,
                event: stored.event.to_vec(),
                release: stored.release.to_vec(),
            })?;
            entries.push(found.ok_or_else(|| LedgerError::Corrupt {
                path: self.path().to_owned(),
                message: format!("entry {seq} is missing; nothing more is released from it"),
            })?);
        }
        Ok(entries)
    }

    /// Returns true if the ledger still contains a head that was saved elsewhere.
    ///
    /// # Errors
    /// Same as for [`Ledger::stored`].
    pub fn contains(&self, known: &Head) -> Result<bool, LedgerError> {
        self.check_goes_on()?;
        if known.seq == 0 {
            return Ok(known.hash == self.record.charter.hash());
        }
        let Ok(seq) = i64::try_from(known.seq) else {
            return Ok(false);
        };
        let found = self.look(Key::Seq(seq), |stored| stored.hash)?;
        Ok(found == Some(known.hash))
    }

    /// Checks that the budget allows `count` more releases that each cost this event (INV-13). This
    /// requires that ε of all past releases and these together is at most the budget's ε.
    ///
    /// Call this function before vectors are collected. If it is called once for all rounds of a
    /// study, commits need not compute ε again.
    ///
    /// # Errors
    /// [`LedgerError::BudgetSpent`] if the budget does not allow them; [`LedgerError::Accounting`]
    /// if ε cannot be computed; [`LedgerError::Event`], [`LedgerError::Stopped`].
    pub fn admits(&self, event: &PrivacyEvent, count: u64) -> Result<(), LedgerError> {
        self.check_goes_on()?;
        self.admit(event, &event_to_bytes(event)?, count)
    }

    fn admit(&self, event: &PrivacyEvent, bytes: &[u8], count: u64) -> Result<(), LedgerError> {
        let mut charges = self.record.charges.clone();
        charges.add(event, bytes, count);
        // Removing releases does not raise epsilon, so a bound for a superset of the charges also
        // holds for them.
        if charges.are_within(&self.within.borrow()) {
            return Ok(());
        }
        let charter = &self.record.charter;
        let budget = charter.budget;
        let would_be = charges.claim(charter)?.epsilon;
        if would_be <= budget.epsilon() {
            self.within.replace(charges);
            return Ok(());
        }
        Err(BudgetSpent {
            budget,
            spent: self.record.charges.claim(charter)?.epsilon,
            n_releases: self.releases(),
            count,
            would_be,
        }
        .into())
    }

    /// Charges and stores a release in one transaction that is durable when this returns `Ok`.
    /// Callers must not send any byte of the release before that (INV-1).
    ///
    /// Checks the budget again. Refuses a round that was already released, even with the same
    /// bytes, so call [`Ledger::stored`] first.
    ///
    /// # Errors
    /// [`LedgerError::RoundPassed`], [`LedgerError::BudgetSpent`], [`LedgerError::Accounting`],
    /// [`LedgerError::Event`] and [`LedgerError::TooLarge`] refuse the release and leave the ledger
    /// unchanged. Any other error stops the ledger permanently, because the failed commit may still
    /// be on disk (INV-15). Every later call returns [`LedgerError::Stopped`].
    pub fn commit(
        &mut self,
        round: u64,
        event: &PrivacyEvent,
        release: &[u8],
    ) -> Result<Head, LedgerError> {
        self.check_goes_on()?;
        let bytes = event_to_bytes(event)?;
        let too_large = |what, value: u64, max: u64| match value > max {
            true => Err(LedgerError::TooLarge { what, value, max }),
            false => Ok(()),
        };
        too_large("round", round, i64::MAX as u64)?;
        let (length, max) = (release.len() as u64, RELEASE_BYTES_MAX as u64);
        too_large("bytes of a release", length, max)?;
        if let Some(last) = self.record.last_round
            && round <= last
        {
            return Err(LedgerError::RoundPassed { round, last });
        }
        // INV-13: the transaction ensures that no other charges were added in the meantime.
        self.admit(event, &bytes, 1)?;
        pass("ledger: a charge is admitted");
        let entry = Entry {
            seq: self.record.head.seq + 1,
            previous: &self.record.head.hash,
            round,
            event: &bytes,
            release,
        };
        let head = Head { seq: entry.seq, hash: entry.hash() };
        if let Err(error) = self.backend.append(self.record.token, &entry, &head) {
            self.stopped = Some(error.to_string());
            return Err(error);
        }
        self.record.head = head;
        self.record.last_round = Some(round);
        self.record.charges.add(event, &bytes, 1);
        self.backend.tidy();
        Ok(head)
    }

    /// Returns a statement of all releases and their cost.
    ///
    /// # Errors
    /// [`LedgerError::Accounting`], [`LedgerError::Stopped`].
    pub fn statement(&self) -> Result<Statement, LedgerError> {
        self.check_goes_on()?;
        Statement::of(&self.record)
    }

    fn check_goes_on(&self) -> Result<(), LedgerError> {
        match &self.stopped {
            None => Ok(()),
            Some(cause) => {
                Err(LedgerError::Stopped { path: self.path().to_owned(), cause: cause.clone() })
            }
        }
    }

    /// Passes one entry to `take` after checking its hash. Returns `None` if there is no such
    /// entry.
    fn look<R>(
        &self,
        key: Key,
        take: impl FnOnce(&StoredEntry<'_>) -> R,
    ) -> Result<Option<R>, LedgerError> {
        let (mut take, mut taken) = (Some(take), None);
        self.backend.find(key, &mut |stored| {
            taken = take.take().map(|take| take(stored));
        })?;
        Ok(taken)
    }
}
