//! Reads ledgers. A ledger is verified completely before any of it is used (INV-15).

use std::fmt;
use std::path::Path;

use fedbo_database::{File, Mode};
use fedbo_privacy::accounting::{Budget, Delta};

use crate::backend::{Source, StoredCharter};
use crate::chain::Hash;
use crate::charter::{accountant_by_name, guarantee_by_name};
use crate::error::Operation;
use crate::schema::FORMAT;
use crate::spending::Charges;
use crate::{Charged, Charter, Head, History, LedgerError, Statement, event_from_bytes};

/// A problem found in a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Number of the affected entry, if the problem concerns one.
    pub seq: Option<u64>,
    /// Description of the problem.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seq {
            Some(seq) => write!(f, "entry {seq}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// The result of verifying a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The study's name, if readable.
    pub name: Option<String>,
    /// Number of readable entries.
    pub n_entries: u64,
    /// The head of the ledger, or `None` if the ledger is damaged.
    pub head: Option<Head>,
    /// All problems. Empty if the ledger is sound.
    pub problems: Vec<Problem>,
}

/// A sound ledger, without the bytes of its releases.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) charter: Charter,
    pub(crate) charges: Charges,
    pub(crate) head: Head,
    pub(crate) last_round: Option<u64>,
    /// The fencing token of the most recent writer.
    pub(crate) token: i64,
}

/// Checks a ledger and lists all problems. Runs SQLite's own checks, and checks the layout, the
/// charter, and the hash chain over every byte of every release.
///
/// If `known` is given, which is a head saved elsewhere, also checks that the ledger still contains
/// it. Reads a single snapshot and writes nothing, so it can be called while a study runs.
///
/// # Errors
/// [`LedgerError::Absent`], [`LedgerError::NotALedger`] and [`LedgerError::Version`] if the file is
/// not a ledger of this version; [`LedgerError::Read`] if the system refuses access. Damage is
/// reported, not returned as an error.
pub fn verify(path: &Path, known: Option<&Head>) -> Result<Report, LedgerError> {
    Ok(look(path, known)?.into_report())
}

/// Copies a consistent snapshot of a ledger to a new file. Can be called while a study runs.
///
/// The copy does not contain later releases. A study that continues from it would repeat rounds
/// that agents have already received (see docs/operations.md).
///
/// # Errors
/// Same as for [`read`]; [`LedgerError::Write`] if `to` exists or cannot be written.
pub fn backup(path: &Path, to: &Path) -> Result<(), LedgerError> {
    read(path)?;
    let (file, _) = File::locate(path, Mode::Existing, &FORMAT)
        .map_err(|fault| LedgerError::of(fault, path, Operation::Read))?;
    file.copy_to(to)
        .map_err(|failure| LedgerError::of(failure.into_fault(&FORMAT), to, Operation::Write))
}

/// Returns the spending of a ledger without opening it for writing.
///
/// # Errors
/// Same as for [`verify`]; [`LedgerError::Corrupt`] if the ledger has a problem,
/// [`LedgerError::Accounting`] if ε cannot be computed.
pub fn read(path: &Path) -> Result<Statement, LedgerError> {
    let record = look(path, None)?.into_record(path)?;
    Statement::of(&record)
}

/// Like [`read`], but also returns the round and bytes of every release, in order. The bytes have
/// been public since they were released.
///
/// # Errors
/// Same as for [`read`].
pub fn releases(path: &Path) -> Result<(Statement, Releases), LedgerError> {
    let findings = look_keeping(Findings::with_releases(), path, None)?;
    findings.into_releases(path)
}

/// Like [`read`], but also returns every entry in order, without the bytes of the releases.
///
/// # Errors
/// Same as for [`read`].
pub fn history(path: &Path) -> Result<History, LedgerError> {
    look_keeping(Findings::with_entries(), path, None)?.into_history(path)
}

fn look(path: &Path, known: Option<&Head>) -> Result<Findings, LedgerError> {
    look_keeping(Findings::default(), path, known)
}

fn look_keeping(
    mut findings: Findings,
    path: &Path,
    known: Option<&Head>,
) -> Result<Findings, LedgerError> {
    let refused = |fault| LedgerError::of(fault, path, Operation::Read);
    let (file, _) = File::locate(path, Mode::Existing, &FORMAT).map_err(refused)?;
    let checked = file.open_for_verification().and_then(|connection| {
        let tx = connection.unchecked_transaction()?;
        findings.check_all(&mut &*tx, known)
    });
    findings
        .record_damage::<&rusqlite::Connection, _>(checked)
        .map_err(|failure| refused(failure.into_fault(&FORMAT)))?;
    Ok(findings)
}

/// The findings of a verification.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    name: Option<String>,
    n_entries: u64,
    problems: Vec<Problem>,
    /// The stored ledger, if it is sound.
    record: Option<Record>,
    /// All releases, or `None` if releases are not collected.
    releases: Option<Releases>,
    /// All entries without their releases, or `None` if entries are not collected.
    entries: Option<Vec<Charged>>,
}

/// The rounds and bytes of releases.
pub type Releases = Vec<(u64, Vec<u8>)>;

impl Findings {
    /// Verifies everything visible to `source`, in one transaction.
    ///
    /// # Errors
    /// If the system refuses a read.
    pub(crate) fn of<S: Source>(source: &mut S) -> Result<Self, S::Failure> {
        Self::with_known(source, None)
    }

    /// Like [`Findings::of`], but also checks that the ledger contains the head `known`.
    pub(crate) fn with_known<S: Source>(
        source: &mut S,
        known: Option<&Head>,
    ) -> Result<Self, S::Failure> {
        Self::default().adding(source, known)
    }

    /// Returns empty findings that will collect releases.
    pub(crate) fn with_releases() -> Self {
        Self { releases: Some(Releases::new()), ..Self::default() }
    }

    /// Returns empty findings that will collect entries.
    pub(crate) fn with_entries() -> Self {
        Self { entries: Some(Vec::new()), ..Self::default() }
    }

    /// Verifies everything visible to `source`, in one transaction, and that the ledger contains
    /// the head `known`.
    ///
    /// # Errors
    /// If the system refuses a read.
    pub(crate) fn adding<S: Source>(
        mut self,
        source: &mut S,
        known: Option<&Head>,
    ) -> Result<Self, S::Failure> {
        self.check_all(source, known)?;
        Ok(self)
    }

    /// Returns the collected entries and the spending, or an error that describes the damage.
    pub(crate) fn into_history(mut self, path: &Path) -> Result<History, LedgerError> {
        let entries = self.entries.take().unwrap_or_default();
        let record = self.into_record(path)?;
        Ok(History { statement: Statement::of(&record)?, charter: record.charter, entries })
    }

    /// Returns the spending and the collected releases, or an error that describes the damage.
    pub(crate) fn into_releases(
        mut self,
        path: &Path,
    ) -> Result<(Statement, Releases), LedgerError> {
        let releases = self.releases.take().unwrap_or_default();
        let record = self.into_record(path)?;
        Ok((Statement::of(&record)?, releases))
    }

    pub(crate) fn into_report(self) -> Report {
        Report {
            name: self.name,
            n_entries: self.n_entries,
            head: self.record.map(|record| record.head),
            problems: self.problems,
        }
    }

    /// Returns the record, or an error that describes the damage.
    pub(crate) fn into_record(self, path: &Path) -> Result<Record, LedgerError> {
        let n_more = self.problems.len().saturating_sub(1);
        match (self.record, self.problems.first()) {
            (Some(record), None) => Ok(record),
            (_, first) => Err(LedgerError::Corrupt {
                path: path.to_owned(),
                message: format!(
                    "the ledger is damaged: {}{}; `fedbo privacy verify` lists the problems; \
                     nothing is released from it: restore an intact copy with the head you know, \
                     or start a new study with its own budget",
                    first.map_or_else(|| "it has no charter".to_owned(), Problem::to_string),
                    match n_more {
                        0 => String::new(),
                        n => format!(" (and {n} more)"),
                    }
                ),
            }),
        }
    }

    fn add(&mut self, seq: Option<u64>, message: impl Into<String>) {
        self.problems.push(Problem { seq, message: message.into() });
    }

    /// Records damage as a finding. Returns all other failures.
    fn record_damage<S: Source, T>(
        &mut self,
        result: Result<T, S::Failure>,
    ) -> Result<Option<T>, S::Failure> {
        match result {
            Err(failure) if S::is_damage(&failure) => {
                self.add(None, format!("it cannot be read completely: {failure}"));
                Ok(None)
            }
            Err(failure) => Err(failure),
            Ok(found) => Ok(Some(found)),
        }
    }

    fn check_all<S: Source>(
        &mut self,
        source: &mut S,
        known: Option<&Head>,
    ) -> Result<(), S::Failure> {
        let problems = source.problems();
        for message in self.record_damage::<S, _>(problems)?.unwrap_or_default() {
            self.add(None, message);
        }
        let charters = source.charters();
        let charters = self.record_damage::<S, _>(charters)?;
        let charter = charters.and_then(|charters| self.charter(charters));
        let token = source.token();
        let token = self.record_damage::<S, _>(token)?;
        let genesis = charter.as_ref().map(Charter::hash);
        let entries = self.entries(source, genesis.as_ref(), known);
        let entries = self.record_damage::<S, _>(entries)?;
        if let (Some(charter), Some(token), Some((charges, head, last_round)), []) =
            (charter, token, entries, &self.problems[..])
        {
            self.record = Some(Record { charter, charges, head, last_round, token });
        }
        Ok(())
    }

    fn charter(&mut self, charters: Vec<StoredCharter>) -> Option<Charter> {
        let is_one = charters.len() <= 1;
        let Some(stored) = charters.into_iter().next() else {
            self.add(None, "it has no charter");
            return None;
        };
        self.name = Some(stored.name.clone());
        let budget = Delta::new(stored.delta).and_then(|delta| Budget::new(stored.epsilon, delta));
        let (Ok(budget), Some((mode, participations)), Some(accountant)) =
            (budget, guarantee_by_name(&stored.mode), accountant_by_name(&stored.accountant))
        else {
            self.add(None, "its charter has an invalid budget, mode or accountant");
            return None;
        };
        let charter = Charter {
            name: stored.name,
            config: stored.config,
            budget,
            mode,
            accountant,
            participations,
        };
        if charter.check().is_err() {
            self.add(None, "its charter is not valid for a new ledger");
        }
        if charter.hash() != stored.hash {
            self.add(None, "its charter does not match its hash: it was changed");
        }
        if !is_one {
            self.add(None, "it has more than one charter");
        }
        Some(charter)
    }

    /// Checks that every entry matches its hash, follows from the previous entry, and has a later
    /// round.
    fn entries<S: Source>(
        &mut self,
        source: &mut S,
        genesis: Option<&Hash>,
        known: Option<&Head>,
    ) -> Result<(Charges, Head, Option<u64>), S::Failure> {
        let mut charges = Charges::default();
        let (mut seq, mut last_round) = (0, None);
        let mut before: Option<Hash> = genesis.copied();
        let mut is_known =
            known.is_none() || known.map(|k| (k.seq, Some(k.hash))) == Some((0, before));
        source.entries(&mut |stored| {
            self.n_entries += 1;
            let at = Some(stored.seq);
            if stored.seq != seq + 1 {
                self.add(at, format!("expected entry {}", seq + 1));
            }
            if before.is_some_and(|before| before != stored.previous) {
                let message = match stored.seq {
                    1 => "it does not follow from the charter".to_owned(),
                    _ => format!("it does not follow from entry {seq}"),
                };
                self.add(at, message);
            }
            if !stored.has_its_hash() {
                self.add(at, "it does not match its hash: it was changed");
            }
            if last_round.is_some_and(|last| stored.round <= last) {
                let round = stored.round;
                self.add(at, format!("round {round} is not after the previous one"));
            }
            if let Some(kept) = &mut self.releases {
                kept.push((stored.round, stored.release.to_vec()));
            }
            match event_from_bytes(stored.event) {
                Ok(event) => {
                    charges.add(&event, stored.event, 1);
                    if let Some(kept) = &mut self.entries {
                        kept.push(Charged {
                            seq: stored.seq,
                            round: stored.round,
                            event,
                            n_bytes: stored.release.len() as u64,
                            hash: stored.hash,
                        });
                    }
                }
                Err(error) => self.add(at, error.to_string()),
            }
            (seq, last_round) = (stored.seq, Some(stored.round));
            before = Some(stored.hash);
            is_known |= known == Some(&Head { seq, hash: stored.hash });
        })?;
        if let (Some(known), false) = (known, is_known) {
            let message = match known.seq > seq {
                true => format!(
                    "it ends at entry {seq}, before the known head {known}: it was rolled back to an older state"
                ),
                false => {
                    format!("it does not contain the known head {known}: it has another history")
                }
            };
            self.add(None, message);
        }
        let head = Head { seq, hash: before.unwrap_or_default() };
        Ok((charges, head, last_round))
    }
}
