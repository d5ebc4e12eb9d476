//! Reading a ledger: all of it is verified before any of it is used (INV-15).

use std::fmt;
use std::path::Path;

use fedbo_database::{Failure, File, Mode, integrity_problems};
use fedbo_privacy::accounting::{Budget, Delta};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::chain::{Entry, Hash};
use crate::charter::{accountant_by_name, mode_by_name};
use crate::error::Doing;
use crate::schema::FORMAT;
use crate::spending::Charges;
use crate::{Charter, Head, LedgerError, Statement, event_from_bytes};

/// Something that is wrong in a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Number of the entry, if it concerns one.
    pub seq: Option<u64>,
    /// What is wrong.
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

/// What a verification found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The study's name, if it could be read.
    pub name: Option<String>,
    /// Entries that could be read.
    pub n_entries: u64,
    /// Where the ledger ends; `None` if it is damaged.
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
    let findings = look(path, known)?;
    Ok(Report {
        name: findings.name,
        n_entries: findings.n_entries,
        head: findings.record.map(|record| record.head),
        problems: findings.problems,
    })
}

/// Copies a ledger, as it is at one moment, to a new file, also while a study runs. What is released later is missing in the copy:
/// to go on from it would be to release rounds again that agents have seen (see docs/operations.md).
///
/// # Errors
/// As for [`read`]; [`LedgerError::Write`] if there is something at `to` or it cannot be written.
pub fn backup(path: &Path, to: &Path) -> Result<(), LedgerError> {
    read(path)?;
    let (file, _) = File::locate(path, Mode::Existing, &FORMAT)
        .map_err(|fault| LedgerError::of(fault, path, Doing::Read))?;
    file.copy_to(to)
        .map_err(|failure| LedgerError::of(failure.into_fault(&FORMAT), to, Doing::Write))
}

/// What a ledger has spent, without opening it for writing.
///
/// # Errors
/// As for [`verify`]; [`LedgerError::Corrupt`] if anything is wrong with it, [`LedgerError::Accounting`] if ε is not known.
pub fn read(path: &Path) -> Result<Statement, LedgerError> {
    let record = look(path, None)?.into_record(path)?;
    Statement::of(&record)
}

fn look(path: &Path, known: Option<&Head>) -> Result<Findings, LedgerError> {
    let refused = |fault| LedgerError::of(fault, path, Doing::Read);
    let (file, _) = File::locate(path, Mode::Existing, &FORMAT).map_err(refused)?;
    let mut findings = Findings::default();
    let checked = file.open_to_verify().and_then(|connection| {
        let tx = connection.unchecked_transaction()?;
        findings.check_all(&tx, known)
    });
    findings
        .or_damaged(checked)
        .map_err(|failure| refused(failure.into_fault(&FORMAT)))?;
    Ok(findings)
}

/// All that was found in a ledger.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    name: Option<String>,
    n_entries: u64,
    problems: Vec<Problem>,
    /// What is stored, if nothing is wrong with it.
    record: Option<Record>,
}

impl Findings {
    /// Everything that `connection`, in one transaction, sees.
    ///
    /// # Errors
    /// If the system refuses to read it.
    pub(crate) fn of(connection: &Connection) -> Result<Self, Failure> {
        let mut findings = Self::default();
        findings.check_all(connection, None)?;
        Ok(findings)
    }

    /// The record, or what is wrong.
    pub(crate) fn into_record(self, path: &Path) -> Result<Record, LedgerError> {
        let n_more = self.problems.len().saturating_sub(1);
        match (self.record, self.problems.first()) {
            (Some(record), None) => Ok(record),
            (_, first) => Err(LedgerError::Corrupt {
                path: path.to_owned(),
                message: format!(
                    "the ledger is damaged: {}{}; `{}` lists what is wrong; nothing is released from it: go on from a \
                     copy that is sound and has the head you know, or begin a new study with a budget of its own",
                    first.map_or_else(|| "it has no charter".to_owned(), Problem::to_string),
                    match n_more {
                        0 => String::new(),
                        n => format!(" (and {n} more)"),
                    },
                    FORMAT.verify
                ),
            }),
        }
    }

    fn add(&mut self, seq: Option<u64>, message: impl Into<String>) {
        self.problems.push(Problem {
            seq,
            message: message.into(),
        });
    }

    /// Turns damage into a finding; what else keeps a file from being read stays a failure.
    fn or_damaged<T>(&mut self, result: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match result {
            Err(failure) if failure.is_damage() => {
                self.add(None, format!("it cannot be read to its end: {failure}"));
                Ok(None)
            }
            Err(failure) => Err(failure),
            Ok(found) => Ok(Some(found)),
        }
    }

    fn check_all(&mut self, connection: &Connection, known: Option<&Head>) -> Result<(), Failure> {
        for found in [
            integrity_problems(connection),
            FORMAT.layout_problems(connection),
        ] {
            for message in self.or_damaged(found)?.unwrap_or_default() {
                self.add(None, message);
            }
        }
        let charter = self.charter(connection);
        let charter = self.or_damaged(charter)?.flatten();
        let token = token(connection);
        let token = self.or_damaged(token)?;
        let genesis = charter.as_ref().map(Charter::hash);
        let entries = self.entries(connection, genesis.as_ref(), known);
        let entries = self.or_damaged(entries)?;
        if let (Some(charter), Some(token), Some((charges, head, last_round)), []) =
            (charter, token, entries, &self.problems[..])
        {
            self.record = Some(Record {
                charter,
                charges,
                head,
                last_round,
                token,
            });
        }
        Ok(())
    }

    fn charter(&mut self, connection: &Connection) -> Result<Option<Charter>, Failure> {
        let mut statement = connection.prepare(
            "SELECT name, config, epsilon, delta, mode, accountant, hash FROM charter ORDER BY id",
        )?;
        let mut rows = statement.query([])?;
        let Some(row) = rows.next()? else {
            self.add(None, "it has no charter");
            return Ok(None);
        };
        let name: String = row.get(0)?;
        self.name = Some(name.clone());
        let (mode, accountant): (String, String) = (row.get(4)?, row.get(5)?);
        let stored = hash_of(row, 6)?;
        let (epsilon, delta): (f64, f64) = (row.get(2)?, row.get(3)?);
        let budget = Delta::new(delta).and_then(|delta| Budget::new(epsilon, delta));
        let (Ok(budget), Some(mode), Some(accountant)) =
            (budget, mode_by_name(&mode), accountant_by_name(&accountant))
        else {
            self.add(
                None,
                "its charter has a budget, mode or accountant that is none",
            );
            return Ok(None);
        };
        let charter = Charter {
            name,
            config: row.get(1)?,
            budget,
            mode,
            accountant,
        };
        if charter.check().is_err() {
            self.add(None, "its charter is none that a ledger begins with");
        }
        if charter.hash() != stored {
            self.add(None, "its charter does not have its hash: it was changed");
        }
        if rows.next()?.is_some() {
            self.add(None, "it has more than one charter");
        }
        Ok(Some(charter))
    }

    /// Every entry has its hash, follows from the one before, and a later round than that.
    fn entries(
        &mut self,
        connection: &Connection,
        genesis: Option<&Hash>,
        known: Option<&Head>,
    ) -> Result<(Charges, Head, Option<u64>), Failure> {
        let mut statement = connection.prepare(
            "SELECT seq, previous, round, event, release, hash FROM entries ORDER BY seq",
        )?;
        let mut rows = statement.query([])?;
        let mut charges = Charges::default();
        let (mut seq, mut last_round) = (0, None);
        let mut before: Option<Hash> = genesis.copied();
        let mut is_known =
            known.is_none() || known.map(|k| (k.seq, Some(k.hash))) == Some((0, before));
        while let Some(row) = rows.next()? {
            let stored = StoredEntry::read(row)?;
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
            if stored.entry().hash() != stored.hash {
                self.add(at, "it does not have its hash: it was changed");
            }
            if last_round.is_some_and(|last| stored.round <= last) {
                let round = stored.round;
                self.add(at, format!("round {round} is not after the one before"));
            }
            match event_from_bytes(stored.event) {
                Ok(event) => charges.add(&event, stored.event, 1),
                Err(error) => self.add(at, error.to_string()),
            }
            (seq, last_round) = (stored.seq, Some(stored.round));
            before = Some(stored.hash);
            is_known |= known
                == Some(&Head {
                    seq,
                    hash: stored.hash,
                });
        }
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
        let head = Head {
            seq,
            hash: before.unwrap_or_default(),
        };
        Ok((charges, head, last_round))
    }
}

fn token(connection: &Connection) -> Result<i64, Failure> {
    let token = connection
        .query_row("SELECT token FROM writer", [], |row| row.get(0))
        .optional()?;
    token.ok_or_else(|| Failure::Contradiction("it has no fencing token".to_owned()))
}

/// One row of the ledger.
pub(crate) struct StoredEntry<'r> {
    pub(crate) seq: u64,
    pub(crate) previous: Hash,
    pub(crate) round: u64,
    pub(crate) event: &'r [u8],
    pub(crate) release: &'r [u8],
    pub(crate) hash: Hash,
}

impl<'r> StoredEntry<'r> {
    /// From `seq, previous, round, event, release, hash`.
    pub(crate) fn read(row: &'r Row<'_>) -> Result<Self, Failure> {
        Ok(Self {
            seq: row.get(0)?,
            previous: hash_of(row, 1)?,
            round: row.get(2)?,
            event: bytes_of(row, 3)?,
            release: bytes_of(row, 4)?,
            hash: hash_of(row, 5)?,
        })
    }

    pub(crate) fn entry(&self) -> Entry<'_> {
        Entry {
            seq: self.seq,
            previous: &self.previous,
            round: self.round,
            event: self.event,
            release: self.release,
        }
    }
}

fn bytes_of<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r [u8], Failure> {
    let value = row.get_ref(column)?;
    value
        .as_blob()
        .map_err(|_| Failure::Contradiction(format!("column {column} of a row holds no bytes")))
}

fn hash_of(row: &Row<'_>, column: usize) -> Result<Hash, Failure> {
    let bytes = bytes_of(row, column)?;
    bytes
        .try_into()
        .map_err(|_| Failure::Contradiction(format!("a hash has {} bytes", bytes.len())))
}
