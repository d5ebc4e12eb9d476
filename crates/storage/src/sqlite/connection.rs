//! How the file is opened, and how one waits for others.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::beside;
use super::failure::Failure;
use super::schema::{self, Content};
use crate::{Mode, StorageError};

/// How long one waits for others. Their transactions take milliseconds, so it only ends when a process is stuck.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Where a storage is.
pub(super) struct File {
    /// As it was named, for messages.
    path: PathBuf,
    /// The same, whatever the working folder becomes.
    absolute: PathBuf,
    /// Which file it is, once it was opened for writing.
    identity: OnceLock<Identity>,
}

/// Which file a path leads to: device and number.
type Identity = (u64, u64);

impl File {
    /// Finds the file, and whether it is there; creates nothing.
    pub(super) fn locate(path: &Path, mode: Mode) -> Result<(Self, bool), StorageError> {
        let not_a_storage = |message: String| StorageError::NotAStorage {
            path: path.to_owned(),
            message,
        };
        let is_there = match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => {
                return Err(not_a_storage(
                    "it is a folder; name a file in it".to_owned(),
                ));
            }
            Ok(meta) if !meta.is_file() => {
                return Err(not_a_storage("it is not a plain file".to_owned()));
            }
            Ok(_) => true,
            Err(error) => match (error.kind(), mode) {
                (std::io::ErrorKind::NotFound, Mode::Existing) => {
                    return Err(StorageError::Absent {
                        path: path.to_owned(),
                    });
                }
                (std::io::ErrorKind::NotFound, Mode::Create) => false,
                (std::io::ErrorKind::NotADirectory, _) => {
                    return Err(not_a_storage("a part of its path is no folder".to_owned()));
                }
                _ => {
                    return Err(StorageError::Read {
                        path: path.to_owned(),
                        message: error.to_string(),
                    });
                }
            },
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !is_there && !folder.is_dir() {
            let message = format!("there is no folder {}; create it first", folder.display());
            return Err(not_a_storage(message));
        }
        let log = beside(path, "-wal");
        if !is_there && std::fs::metadata(&log).is_ok_and(|meta| meta.len() > 0) {
            return Err(not_a_storage(format!(
                "the file is gone, but {} beside it holds what was told last; put the file back beside it, or delete that \
                 one too to begin anew",
                log.display()
            )));
        }
        let absolute = path
            .canonicalize()
            .or_else(|_| std::path::absolute(path))
            .unwrap_or_else(|_| path.to_owned());
        let file = Self {
            path: path.to_owned(),
            absolute,
            identity: OnceLock::new(),
        };
        Ok((file, is_there))
    }

    /// As it was named.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// As it is found from anywhere.
    pub(super) fn absolute(&self) -> &Path {
        &self.absolute
    }

    /// A connection for all purposes, to a storage of our version.
    pub(super) fn open_to_write(&self, mode: Mode) -> Result<Connection, Failure> {
        let connection = patiently(|| {
            let connection = self.open_to_change(mode)?;
            let mut content = schema::content(&connection)?;
            if content == Content::Empty && mode == Mode::Create {
                schema::lay_out(&connection, schema::STEPS)?;
                content = schema::content(&connection)?;
            }
            schema::check_content(content, &self.path)?;
            // In a file system without shared memory it stays as it was, which is slower and as safe.
            let _: String =
                connection.query_one("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
            Ok(connection)
        })?;
        if let Some(identity) = identity(&self.absolute) {
            self.identity.get_or_init(|| identity);
        }
        Ok(connection)
    }

    /// A connection that may write, to whatever is in the file.
    pub(super) fn open_to_change(&self, mode: Mode) -> Result<Connection, Failure> {
        let create = match mode {
            Mode::Create => OpenFlags::SQLITE_OPEN_CREATE,
            Mode::Existing => OpenFlags::empty(),
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create;
        let mut connection = Connection::open_with_flags(&self.absolute, flags)?;
        wait_for_others(&mut connection)?;
        if connection.is_readonly("main")? {
            return Err(Failure::ReadOnly);
        }
        connection.set_prepared_statement_cache_capacity(32);
        // EXTRA is FULL for the log, and also safe where there is none. The others make a sync reach the disk on macOS.
        connection.execute_batch(
            "PRAGMA synchronous = EXTRA; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
             PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;",
        )?;
        Ok(connection)
    }

    /// A connection that reads a storage of our version.
    pub(super) fn open_to_read(&self) -> Result<Connection, Failure> {
        let (connection, content) = self.open_to_look()?;
        schema::check_content(content, &self.path)?;
        Ok(connection)
    }

    /// A connection that reads for longer, also while others begin to write.
    pub(super) fn open_to_verify(&self) -> Result<Connection, Failure> {
        // With a log, a reader shares it. Without one a reader would leave one behind; a writer cleans up.
        if std::fs::metadata(beside(&self.absolute, "-wal")).is_err() {
            let opened = self.open_to_change(Mode::Existing).and_then(|connection| {
                connection.pragma_update(None, "query_only", true)?;
                schema::check_content(schema::content(&connection)?, &self.path)?;
                Ok(connection)
            });
            match opened {
                Err(failure) if failure.is_of_the_system() => {}
                result => return result,
            }
        }
        self.open_to_read()
    }

    /// A connection that reads, and what it reads.
    pub(super) fn open_to_look(&self) -> Result<(Connection, Content), Failure> {
        let length = |suffix| {
            let meta = std::fs::metadata(beside(&self.absolute, suffix)).ok()?;
            Some(meta.len())
        };
        match (length("-wal"), length("-journal")) {
            // Without a log nobody writes, and then the file can be read without laying anything beside it.
            (None, None) => self.look("?immutable=1"),
            // The rest of a process that was killed before its first write.
            (Some(0), None) => match self.look("") {
                Err(failure) if failure.is_of_the_system() => self.look("?immutable=1"),
                result => result,
            },
            _ => self.look(""),
        }
    }

    fn look(&self, query: &str) -> Result<(Connection, Content), Failure> {
        patiently(|| {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_NO_MUTEX
                | OpenFlags::SQLITE_OPEN_URI;
            let mut connection = Connection::open_with_flags(uri(&self.absolute) + query, flags)?;
            wait_for_others(&mut connection)?;
            connection.execute_batch("PRAGMA trusted_schema = OFF")?;
            let content = schema::content(&connection)?;
            Ok((connection, content))
        })
    }

    /// That the path still leads to the file that is open: what is written to a file that was deleted is lost.
    pub(super) fn check_is_same(&self) -> Result<(), Failure> {
        match self.identity.get() {
            Some(opened) if identity(&self.absolute).as_ref() != Some(opened) => {
                Err(Failure::Moved)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Path) -> Option<Identity> {
    None
}

/// Lets SQLite try again until the patience is over. Short waits, as transactions are short.
fn wait_for_others(connection: &mut Connection) -> Result<(), Failure> {
    let mut since = Instant::now();
    connection.busy_handler(Some(move |count| {
        if count == 0 {
            since = Instant::now();
        }
        pause(u32::try_from(count).unwrap_or(u32::MAX));
        since.elapsed() < PATIENCE
    }))?;
    Ok(())
}

/// Tries again while others are at work, where SQLite itself does not.
pub(super) fn patiently<R>(mut act: impl FnMut() -> Result<R, Failure>) -> Result<R, Failure> {
    let since = Instant::now();
    let mut count = 0;
    loop {
        match act() {
            Err(failure) if failure.is_busy() && since.elapsed() < PATIENCE => pause(count),
            result => return result,
        }
        count += 1;
    }
}

/// From 0.1 ms to 5 ms.
fn pause(count: u32) {
    let micros = 100 * u64::from(count.min(49) + 1);
    std::thread::sleep(Duration::from_micros(micros));
}

/// A path as SQLite's URI.
pub(super) fn uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => uri.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            _ => {
                // Writing to a String does not fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_has_no_sign_that_means_something_else() {
        assert_eq!(
            uri(Path::new("/a b/ä?#%.db")),
            "file:/a%20b/%C3%A4%3F%23%25.db"
        );
    }
}
