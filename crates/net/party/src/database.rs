//! The SQLite file in which a party keeps its memory.

use std::fmt;
use std::path::Path;

use fedbo_database::{
    Content, Failure, File, FileFault, Format, Mode, begin, integrity_problems, pragma,
};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::HomeError;

/// An open SQLite file of some format.
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
    /// Opens the file for writing, after one of an older version was brought up to date, and its layout and its pages were verified
    /// (INV-15).
    ///
    /// # Errors
    /// If it is none of this format, or the system refuses it.
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
        // What is overwritten is not to be found in free space (INV-26).
        let overwrites = connection.pragma_update(None, "secure_delete", true);
        overwrites.map_err(|error| refused(error.into()))?;
        verify(&connection, format).map_err(refused)?;
        Ok(Self { file, connection, format })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Opens the file for reading.
    ///
    /// # Errors
    /// As for [`Database::open`]. A file without tables is one whose process was killed as it began it: [`HomeError::Absent`].
    pub fn look(path: &Path, format: &'static Format) -> Result<Self, HomeError> {
        let (file, _) =
            File::locate(path, Mode::Existing, format).map_err(|fault| in_words(path, fault))?;
        let connection = file.open_for_reading().map_err(|failure| match failure {
            Failure::NotOurs(Content::Empty) => HomeError::Absent { path: path.to_owned() },
            failure => in_words(path, failure.into_fault(format)),
        })?;
        Ok(Self { file, connection, format })
    }

    /// Reads in one transaction.
    ///
    /// # Errors
    /// If what is stored cannot be read, or `act` fails.
    pub fn read<R>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, HomeError> {
        self.within(TransactionBehavior::Deferred, act)
    }

    /// Writes in one transaction, which is on the disk when this returns. It has its turn before or after those of other
    /// processes, never among them.
    ///
    /// # Errors
    /// If it cannot be stored, or `act` fails; nothing is stored then.
    pub fn write<R>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, HomeError> {
        self.within(TransactionBehavior::Immediate, act)
    }

    /// Leaves nothing in the log of pages of what was overwritten, if nobody reads at the moment; else the next time.
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

/// Brings a file of an older version up to date: the steps that it lacks, in one transaction. No copy is kept, and free space is given
/// up before, as versions before the second left vectors in it (INV-26).
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
            message: "it was moved, deleted or replaced while it was in use; put it back with the files of the same name \
                      ending in -wal and -shm, which belong to it"
                .to_owned(),
        },
        FileFault::Damaged(message) => HomeError::Damaged { path, message },
    }
}

/// Bytes of a fixed length, from a column that holds nothing else.
///
/// # Errors
/// If there are more or fewer.
pub fn fixed<const N: usize>(bytes: &[u8], what: &str) -> Result<[u8; N], Failure> {
    bytes
        .try_into()
        .map_err(|_| Failure::Contradiction(format!("{what} has {} bytes, not {N}", bytes.len())))
}
