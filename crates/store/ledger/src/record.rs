//! Reading a ledger: all of it is verified before any of it is used (INV-15).

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

/// Something that is wrong in a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Number of the entry, if it concerns one.
    pub seq: Option<u64>,
    /// The problem, in words.
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

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The study's name, if it could be read.
    pub name: Option<String>,
    /// Entries that could be read.
    pub n_entries: u64,
    /// The head of the ledger; `None` if it is damaged.
    pub head: Option<Head>,
    /// All that is wrong; empty if the ledger is sound.
    pub problems: Vec<Problem>,
}

/// A ledger that is sound, without the bytes of its releases.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) charter: Charter,
    pub(crate) charges: Charges,
    pub(crate) head: Head,
    pub(crate) last_round: Option<u64>,
    /// The fencing token of who opened it last.
    pub(crate) token: i64,
}

/// Checks a ledger and lists all that is wrong in it: SQLite's own checks, the layout, the charter, and the chain of hashes over
/// every byte of every release. With `known`, a head that was kept elsewhere, also that the ledger still contains it. Reads
/// only, of one moment, also while a study runs.
///
/// # Errors
/// [`LedgerError::Absent`], [`LedgerError::NotALedger`] and [`LedgerError::Version`] for a file that is no ledger of this
/// version; [`LedgerError::Read`] if the system refuses it. Damage is no error, it stands in the report.
pub fn verify(path: &Path, known: Option<&Head>) -> Result<Report, LedgerError> {
    Ok(look(path, known)?.into_report())
}

/// Copies a ledger, as it is at one moment, to a new file, also while a study runs. What is released later is missing in the copy:
/// to go on from it would be to release rounds again that agents have seen (see docs/operations.md).
///
/// # Errors
/// As for [`read`]; [`LedgerError::Write`] if there is something at `to` or it cannot be written.
pub fn backup(path: &Path, to: &Path) -> Result<(), LedgerError> {
    read(path)?;
    let (file, _) = File::locate(path, Mode::Existing, &FORMAT)
        .map_err(|fault| LedgerError::of(fault, path, Operation::Read))?;
    file.copy_to(to)
        .map_err(|failure| LedgerError::of(failure.into_fault(&FORMAT), to, Operation::Write))
}

/// Returns what a ledger has spent, without opening it for writing.
///
/// # Errors
/// As for [`verify`]; [`LedgerError::Corrupt`] if anything is wrong with it, [`LedgerError::Accounting`] if ε is not known.
pub fn read(path: &Path) -> Result<Statement, LedgerError> {
    let record = look(path, None)?.into_record(path)?;
    Statement::of(&record)
}

/// The same with the bytes of every release and its round, in order: what was public when it was released.
///
/// # Errors
/// As for [`read`].
pub fn releases(path: &Path) -> Result<(Statement, Releases), LedgerError> {
    let findings = look_keeping(Findings::with_releases(), path, None)?;
    findings.into_releases(path)
}

/// The same with every entry but the bytes of its release, in order.
///
/// # Errors
/// As for [`read`].
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

/// All that was found in a ledger.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    name: Option<String>,
    n_entries: u64,
    problems: Vec<Problem>,
    /// The stored ledger, if nothing is wrong with it.
    record: Option<Record>,
    /// Every release, if they are to be kept.
    releases: Option<Releases>,
    /// Every entry without its release, if they are to be kept.
    entries: Option<Vec<Charged>>,
}

/// Rounds and the bytes of their releases.
pub type Releases = Vec<(u64, Vec<u8>)>;

impl Findings {
    /// Everything that `source`, in one transaction, sees.
    ///
    /// # Errors
    /// If the system refuses to read it.
    pub(crate) fn of<S: Source>(source: &mut S) -> Result<Self, S::Failure> {
        Self::with_known(source, None)
    }

    /// The same, and whether a head that was kept elsewhere is there.
    pub(crate) fn with_known<S: Source>(
        source: &mut S,
        known: Option<&Head>,
    ) -> Result<Self, S::Failure> {
        Self::default().adding(source, known)
    }

    /// Nothing yet, but that releases are kept.
    pub(crate) fn with_releases() -> Self {
        Self { releases: Some(Releases::new()), ..Self::default() }
    }

    /// Nothing yet, but that entries are kept.
    pub(crate) fn with_entries() -> Self {
        Self { entries: Some(Vec::new()), ..Self::default() }
    }

    /// Adds everything that `source`, in one transaction, sees, and whether a head that was kept elsewhere is there.
    ///
    /// # Errors
    /// If the system refuses to read it.
    pub(crate) fn adding<S: Source>(
        mut self,
        source: &mut S,
        known: Option<&Head>,
    ) -> Result<Self, S::Failure> {
        self.check_all(source, known)?;
        Ok(self)
    }

    /// Returns the entries that were kept and what was spent, or an error that says what is wrong.
    pub(crate) fn into_history(mut self, path: &Path) -> Result<History, LedgerError> {
        let entries = self.entries.take().unwrap_or_default();
        let record = self.into_record(path)?;
        Ok(History { statement: Statement::of(&record)?, charter: record.charter, entries })
    }

    /// Returns what was spent and the releases that were kept, or an error that says what is wrong.
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

    /// The record, or what is wrong.
    pub(crate) fn into_record(self, path: &Path) -> Result<Record, LedgerError> {
        let n_more = self.problems.len().saturating_sub(1);
        match (self.record, self.problems.first()) {
            (Some(record), None) => Ok(record),
            (_, first) => Err(LedgerError::Corrupt {
                path: path.to_owned(),
                message: format!(
                    "the ledger is damaged: {}{}; `fedbo privacy verify` lists what is wrong; nothing is released from it: go on from a \
                     copy that is sound and has the head you know, or begin a new study with a budget of its own",
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

    /// Turns damage into a finding; what else keeps a file from being read stays a failure.
    fn record_damage<S: Source, T>(
        &mut self,
        result: Result<T, S::Failure>,
    ) -> Result<Option<T>, S::Failure> {
        match result {
            Err(failure) if S::is_damage(&failure) => {
                self.add(None, format!("it cannot be read to its end: {failure}"));
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
            self.add(None, "its charter has a budget, mode or accountant that is none");
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
            self.add(None, "its charter is none that a ledger begins with");
        }
        if charter.hash() != stored.hash {
            self.add(None, "its charter does not have its hash: it was changed");
        }
        if !is_one {
            self.add(None, "it has more than one charter");
        }
        Some(charter)
    }

    /// Every entry has its hash, follows from the one before, and a later round than that.
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
                self.add(at, "it does not have its hash: it was changed");
            }
            if last_round.is_some_and(|last| stored.round <= last) {
                let round = stored.round;
                self.add(at, format!("round {round} is not after the one before"));
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
                    "it ends at entry {seq}, before the head {known} that is known: it was set back to an older state"
                ),
                false => format!(
                    "it does not contain the head {known} that is known: it is another history"
                ),
            };
            self.add(None, message);
        }
        let head = Head { seq, hash: before.unwrap_or_default() };
        Ok((charges, head, last_round))
    }
}
