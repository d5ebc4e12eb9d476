//! A ledger that is being written.

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

/// Bytes of a release at most.
pub const RELEASE_BYTES_MAX: usize = 512 << 20;

/// An entry as it was committed.
#[derive(Clone, PartialEq, Eq)]
pub struct Committed {
    /// Its number, from 1.
    pub seq: u64,
    /// Its round.
    pub round: u64,
    /// Its event, as [`crate::event_to_bytes`] writes it.
    pub event: Vec<u8>,
    /// The bytes that were released.
    pub release: Vec<u8>,
}

/// A study's ledger, open for writing by this process alone.
///
/// A release is charged and stored in one durable transaction before its first byte may leave ([`Ledger::commit`]); what was
/// stored is handed out again byte for byte ([`Ledger::stored`]). It must lie on a disk of this machine.
pub struct Ledger {
    backend: Box<dyn Backend>,
    place: PathBuf,
    record: Record,
    /// Charges that are known to be within the budget, and so is every part of them.
    within: RefCell<Charges>,
    /// The reason why nothing is written any more; `None` while the ledger goes on.
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
    /// Begins the ledger of a new study. It appears under its name whole, or not at all.
    ///
    /// # Errors
    /// [`LedgerError::Exists`] if there is anything of that name; [`LedgerError::Charter`] for a charter that is none;
    /// [`LedgerError::Held`], [`LedgerError::Write`].
    pub fn create(path: &Path, charter: &Charter) -> Result<Self, LedgerError> {
        charter.check()?;
        let (backend, record) = FileBackend::create(path, charter)?;
        Ok(Self::of(backend, path, charter, record))
    }

    /// Opens the ledger of this study, after all of it was verified (INV-15).
    ///
    /// # Errors
    /// [`LedgerError::Absent`], [`LedgerError::NotALedger`], [`LedgerError::Version`]; [`LedgerError::Corrupt`] if anything is
    /// wrong with it; [`LedgerError::OtherCharter`] with the keys that differ (INV-11); [`LedgerError::Held`] if a process
    /// that lives has it open; [`LedgerError::Write`] if it cannot be written.
    pub fn open(path: &Path, charter: &Charter) -> Result<Self, LedgerError> {
        let (backend, record) = FileBackend::open(path, charter)?;
        Ok(Self::of(backend, path, charter, record))
    }

    /// Begins the ledger of a new study in a database.
    ///
    /// # Errors
    /// As for [`Ledger::create`].
    pub fn create_in(ledgers: &Ledgers, charter: &Charter) -> Result<Self, LedgerError> {
        charter.check()?;
        let (backend, record) = PostgresBackend::create(ledgers, charter)?;
        Ok(Self::of(backend, &ledgers.place_of(&charter.name), charter, record))
    }

    /// Opens the ledger of this study in a database, after all of it was verified (INV-15). Whoever had it open before cannot commit
    /// any more: [`LedgerError::Superseded`].
    ///
    /// # Errors
    /// As for [`Ledger::open`], but nobody holds it.
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

    /// The file, as it was named, or the database and the study in it.
    pub fn path(&self) -> &Path {
        &self.place
    }

    /// Returns the charter, which was fixed before the first round.
    pub fn charter(&self) -> &Charter {
        &self.record.charter
    }

    /// Returns the head after the last commit that was acknowledged.
    pub fn head(&self) -> Head {
        self.record.head
    }

    /// Releases that are charged and stored.
    pub fn releases(&self) -> u64 {
        self.record.head.seq
    }

    /// The last round that was released.
    pub fn last_round(&self) -> Option<u64> {
        self.record.last_round
    }

    /// The bytes that were released in a round: the same for ever (INV-2). `None` if it was not released.
    ///
    /// # Errors
    /// [`LedgerError::Corrupt`] if they are not those that were stored; [`LedgerError::Read`], [`LedgerError::Gone`],
    /// [`LedgerError::Stopped`].
    pub fn stored(&self, round: u64) -> Result<Option<Vec<u8>>, LedgerError> {
        self.check_goes_on()?;
        let Ok(round) = i64::try_from(round) else {
            return Ok(None);
        };
        self.look(Key::Round(round), |stored| stored.release.to_vec())
    }

    /// The entries after number `after`, in order.
    ///
    /// # Errors
    /// As for [`Ledger::stored`].
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

    /// Returns true if the ledger still contains a head that was kept elsewhere.
    ///
    /// # Errors
    /// As for [`Ledger::stored`].
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

    /// Checks that the budget allows `count` more releases that cost this event each (INV-13): ε of all so far and of
    /// them is at most the budget's. Ask before vectors are collected. If it was asked for all rounds of a study at
    /// once, the commits need not compute it again.
    ///
    /// # Errors
    /// [`LedgerError::BudgetSpent`] if not; [`LedgerError::Accounting`] if ε is not known; [`LedgerError::Event`],
    /// [`LedgerError::Stopped`].
    pub fn admits(&self, event: &PrivacyEvent, count: u64) -> Result<(), LedgerError> {
        self.check_goes_on()?;
        self.admit(event, &event_to_bytes(event)?, count)
    }

    fn admit(&self, event: &PrivacyEvent, bytes: &[u8], count: u64) -> Result<(), LedgerError> {
        let mut charges = self.record.charges.clone();
        charges.add(event, bytes, count);
        // Leaving releases out does not raise epsilon, so a bound for more of them is one for these.
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

    /// Charges and stores a release in one transaction that is on the disk when this returns: only then may its first byte leave
    /// (INV-1). The budget is checked again. A round that was released is refused, also with the same bytes: ask
    /// [`Ledger::stored`] first.
    ///
    /// # Errors
    /// [`LedgerError::RoundPassed`], [`LedgerError::BudgetSpent`], [`LedgerError::Accounting`], [`LedgerError::Event`],
    /// [`LedgerError::TooLarge`] refuse the release and leave the ledger as it was. Any other error stops the ledger for good,
    /// as a commit that failed may yet be on the disk (INV-15): every later call is [`LedgerError::Stopped`].
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
        // INV-13; the transaction makes sure that these charges are still all.
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

    /// Returns a statement of what was released and spent.
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

    /// One entry, if it has its hash.
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
