//! The file's layout, version by version.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::failure::Failure;
use crate::StorageError;

/// Marks a SQLite file as ours: "fedb".
pub(super) const APPLICATION_ID: i32 = 0x6665_6462;

/// How the layout came to be: step i leads from version i to version i + 1, version 0 being an empty file. A step that
/// has been released never changes.
pub(super) const STEPS: &[&str] = &[STEP_1];

/// Times are milliseconds since 1970. `value` has no declared type because one would turn −0.0 into 0; `point` is JSON.
/// A trial waits if it has neither holder nor told_seq, runs while it has a holder, and has ended with its told_seq.
const STEP_1: &str = "
CREATE TABLE studies (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    definition TEXT NOT NULL
) STRICT;

CREATE TABLE trials (
    study INTEGER NOT NULL REFERENCES studies (id),
    number INTEGER NOT NULL CHECK (number >= 0),
    point TEXT NOT NULL,
    encoding BLOB NOT NULL,
    source TEXT NOT NULL,
    ask_seconds REAL NOT NULL,
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    asked_at_ms INTEGER NOT NULL,
    started_at_ms INTEGER,
    holder TEXT,
    holder_process TEXT,
    until_ms INTEGER,
    told_seq INTEGER CHECK (told_seq > 0),
    told_at_ms INTEGER,
    value ANY CHECK (value IS NULL OR typeof(value) = 'real'),
    failure_kind TEXT,
    failure_message TEXT,
    PRIMARY KEY (study, number),
    CHECK (holder IS NULL OR (told_seq IS NULL AND started_at_ms IS NOT NULL)),
    CHECK (holder IS NOT NULL OR (holder_process IS NULL AND until_ms IS NULL)),
    CHECK ((told_seq IS NULL) = (told_at_ms IS NULL)),
    CHECK ((value IS NOT NULL) + (failure_kind IS NOT NULL) = (told_seq IS NOT NULL)),
    CHECK ((failure_kind IS NULL) = (failure_message IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX trials_by_encoding ON trials (study, encoding);
CREATE INDEX trials_open ON trials (study, number) WHERE told_seq IS NULL;
CREATE UNIQUE INDEX trials_by_telling ON trials (study, told_seq) WHERE told_seq IS NOT NULL;
";

/// The version that this program reads and writes.
pub(super) fn version(steps: &[&str]) -> i64 {
    steps.len() as i64
}

/// What a SQLite file is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing is in it.
    Empty,
    /// A storage of studies, of this version.
    Studies(i64),
    /// Somebody else's tables.
    Foreign,
}

/// What is in a file; reads only.
pub(super) fn content(connection: &Connection) -> Result<Content, Failure> {
    let tx = connection.unchecked_transaction()?;
    let (id, version) = (pragma(&tx, "application_id")?, pragma(&tx, "user_version")?);
    let tables: i64 = tx.query_one("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    tx.commit()?;
    Ok(match (id, version, tables) {
        (0, 0, 0) => Content::Empty,
        (id, 1.., _) if id == i64::from(APPLICATION_ID) => Content::Studies(version),
        _ => Content::Foreign,
    })
}

/// That the file is a storage of studies of our version.
pub(super) fn check_content(content: Content, path: &Path) -> Result<(), StorageError> {
    match content {
        Content::Studies(found) => of_our_version(found, version(STEPS), path),
        Content::Empty => Err(StorageError::NotAStorage {
            path: path.to_owned(),
            message: "it is empty, no study was ever stored in it".to_owned(),
        }),
        Content::Foreign => Err(StorageError::NotAStorage {
            path: path.to_owned(),
            message: "it is a SQLite file of another program; name another file".to_owned(),
        }),
    }
}

/// That the file has our version still; cheap enough for every transaction.
pub(super) fn check_version(tx: &Transaction<'_>, path: &Path) -> Result<(), Failure> {
    Ok(of_our_version(
        pragma(tx, "user_version")?,
        version(STEPS),
        path,
    )?)
}

pub(super) fn of_our_version(found: i64, expected: i64, path: &Path) -> Result<(), StorageError> {
    let remedy = match found.cmp(&expected) {
        std::cmp::Ordering::Equal => return Ok(()),
        std::cmp::Ordering::Less => "`fedbo storage upgrade` brings it up to date and keeps a copy",
        std::cmp::Ordering::Greater => "a newer fedbo wrote it, use that one",
    };
    Err(StorageError::Version {
        path: path.to_owned(),
        found,
        expected,
        remedy,
    })
}

/// Lays out an empty file; one that somebody else has laid out meanwhile is left as it is.
pub(super) fn lay_out(connection: &Connection, steps: &[&str]) -> Result<(), Failure> {
    let tx = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let is_empty = pragma(&tx, "user_version")? == 0 && pragma(&tx, "application_id")? == 0;
    if is_empty {
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        for (version, step) in (1_i64..).zip(steps) {
            tx.execute_batch(step)?;
            tx.pragma_update(None, "user_version", version)?;
        }
    }
    Ok(tx.commit()?)
}

pub(super) fn pragma(connection: &Connection, name: &str) -> Result<i64, Failure> {
    let mut statement = connection.prepare_cached(&format!("PRAGMA {name}"))?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_is_not_ours_has_a_way_out() {
        let path = Path::new("study.db");
        assert_eq!(of_our_version(2, 2, path), Ok(()));
        let text = |found| of_our_version(found, 2, path).unwrap_err().to_string();
        assert_eq!(
            text(1),
            "study.db: its layout has version 1, this program reads 2; `fedbo storage upgrade` brings it up to date and \
             keeps a copy"
        );
        assert_eq!(
            text(3),
            "study.db: its layout has version 3, this program reads 2; a newer fedbo wrote it, use that one"
        );
    }
}
