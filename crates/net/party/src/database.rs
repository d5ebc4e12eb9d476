//! The SQLite database of a party.

use std::fmt;
use std::path::Path;

use fedbo_database::{
    Content, Failure, File, FileFault, Format, Mode, begin, integrity_problems, pragma,
};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::HomeError;

/// An open SQLite file of a given format.
pub struct Database {
    file: File,
    connection: Connection,
    format: &'static Format,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database {{ {} }}", self.file.path().display())
    }
}

impl Database {
    /// Opens the file for writing. Upgrades a file of an older version, and verifies the schema and
    /// the pages (INV-15).
    ///
    /// # Errors
    /// If the file has a different format, or the system refuses access.
    pub fn open(path: &Path, mode: Mode, format: &'static Format) -> Result<Self, HomeError> {
        let (file, _) = File::locate(path, mode, format).map_err(|fault| in_words(path, fault))?;
        let refused = |failure: Failure| in_words(path, failure.into_fault(format));
        let opened = match file.open_for_writing(mode) {
            Err(Failure::Version { found, expected }) if found < expected => {
                upgrade(&file, format).and_then(|()| file.open_for_writing(mode))
            }
            opened => opened,
        };
        let connection = opened.map_err(refused)?;
        // Overwritten data must not remain in free space (INV-26).
        let overwrites = connection.pragma_update(None, "secure_delete", true);
        overwrites.map_err(|error| refused(error.into()))?;
        verify(&connection, format).map_err(refused)?;
        Ok(Self { file, connection, format })
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Opens the file read-only.
    ///
    /// # Errors
    /// Same as [`Database::open`]. Also [`HomeError::Absent`] if the file has no tables, because a
    /// process was killed while creating it.
    pub fn look(path: &Path, format: &'static Format) -> Result<Self, HomeError> {
        let (file, _) =
            File::locate(path, Mode::Existing, format).map_err(|fault| in_words(path, fault))?;
        let connection = file.open_for_reading().map_err(|failure| match failure {
            Failure::NotOurs(Content::Empty) => HomeError::Absent { path: path.to_owned() },
            failure => in_words(path, failure.into_fault(format)),
        })?;
        Ok(Self { file, connection, format })
    }

    /// Runs `act` in a read transaction.
    ///
    /// # Errors
    /// If the stored data cannot be read, or `act` fails.
    pub fn read<R>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, HomeError> {
        self.within(TransactionBehavior::Deferred, act)
    }

    /// Runs `act` in a write transaction, which is durable when this returns. Write transactions of
    /// different processes are serialized.
    ///
    /// # Errors
    /// If the write or `act` fails. Nothing is stored in that case.
    pub fn write<R>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, HomeError> {
        self.within(TransactionBehavior::Immediate, act)
    }

    /// Truncates the write-ahead log, so that overwritten data does not remain in it. While another
    /// process is reading, the log may remain until the next call.
    pub fn shrink_log(&self) {
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        let _: Result<i64, _> = self.connection.query_row(sql, [], |row| row.get(0));
    }

    fn within<R>(
        &self,
        behavior: TransactionBehavior,
        act: impl FnOnce(&Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, HomeError> {
        let run = || {
            let transaction = self.file.begin(&self.connection, behavior)?;
            let result = act(&transaction)?;
            transaction.commit()?;
            Ok(result)
        };
        run()
            .map_err(|failure: Failure| in_words(self.file.path(), failure.into_fault(self.format)))
    }
}

/// Applies the missing steps to a file of an older version, in one transaction.
///
/// Keeps no copy of the old file. Vacuums free space first, because version 1 left vectors in it
/// (INV-26).
fn upgrade(file: &File, format: &Format) -> Result<(), Failure> {
    let connection = file.open_any_for_writing(Mode::Existing)?;
    let settings = "PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY;";
    connection.execute_batch(settings)?;
    connection.execute_batch("VACUUM")?;
    let tx = begin(&connection, TransactionBehavior::Immediate)?;
    let found = pragma(&tx, "user_version")?;
    let steps = (1..).zip(format.steps);
    for (version, step) in steps.skip_while(|(version, _)| *version <= found) {
        tx.execute_batch(step)?;
        tx.pragma_update(None, "user_version", version)?;
    }
    Ok(tx.commit()?)
}

fn verify(connection: &Connection, format: &Format) -> Result<(), Failure> {
    let mut problems = format.layout_problems(connection)?;
    problems.extend(integrity_problems(connection)?);
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Failure::Contradiction(problems.join("; "))),
    }
}

fn in_words(path: &Path, fault: FileFault) -> HomeError {
    let path = path.to_owned();
    match fault {
        FileFault::Absent => HomeError::Absent { path },
        FileFault::NotOurs(message) => HomeError::Database { path, message },
        FileFault::Refused(message) => HomeError::Refused { path, message },
        FileFault::Version { found, expected } => HomeError::Version {
            path,
            found,
            expected,
        },
        FileFault::Gone => HomeError::Database {
            path,
            message: "it was moved, deleted or replaced while it was in use; restore it together with its files of the same \
                      name ending in -wal and -shm"
                .to_owned(),
        },
        FileFault::Damaged(message) => HomeError::Damaged { path, message },
    }
}

/// Converts a column's bytes to an array of fixed length.
///
/// # Errors
/// If the length differs.
pub fn fixed<const N: usize>(bytes: &[u8], what: &str) -> Result<[u8; N], Failure> {
    bytes
        .try_into()
        .map_err(|_| Failure::Contradiction(format!("{what} has {} bytes, not {N}", bytes.len())))
}
