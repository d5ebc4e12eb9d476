//! Opens database files, and waits for other processes that are using them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::private::{create_private_file, opening};
use crate::{Content, Failure, FileFault, Format};

/// Longest wait for other processes. Transactions take milliseconds, so the wait reaches this limit
/// only if a process is stuck.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Behaviour if the file does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Create the file.
    Create,
    /// Fail without creating the file.
    Existing,
}

/// The path of a database, and its format.
#[derive(Debug)]
pub struct File {
    format: &'static Format,
    /// The path as given by the caller, for messages.
    path: PathBuf,
    /// The absolute path, independent of the working directory.
    absolute: PathBuf,
    /// The identity of the file, set when it is first opened for writing.
    identity: OnceLock<Identity>,
}

/// Device and inode number of a file.
type Identity = (u64, u64);

impl File {
    /// Resolves a path and returns whether the file exists. Creates nothing.
    ///
    /// # Errors
    /// [`FileFault::Absent`] if the file does not exist, with [`Mode::Existing`];
    /// [`FileFault::NotOurs`] if the path cannot be a database; [`FileFault::Refused`] if the
    /// file's metadata cannot be read.
    pub fn locate(
        path: &Path,
        mode: Mode,
        format: &'static Format,
    ) -> Result<(Self, bool), FileFault> {
        let not_ours = |message: &str| FileFault::NotOurs(message.to_owned());
        let is_there = match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => {
                return Err(not_ours("it is a folder; name a file in it"));
            }
            Ok(meta) if !meta.is_file() => return Err(not_ours("it is not a regular file")),
            Ok(_) => true,
            Err(error) => match (error.kind(), mode) {
                (std::io::ErrorKind::NotFound, Mode::Existing) => return Err(FileFault::Absent),
                (std::io::ErrorKind::NotFound, Mode::Create) => false,
                (std::io::ErrorKind::NotADirectory, _) => {
                    return Err(not_ours("a part of its path is not a folder"));
                }
                _ => return Err(FileFault::Refused(error.to_string())),
            },
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !is_there && !folder.is_dir() {
            let message = format!("there is no folder {}; create it first", folder.display());
            return Err(FileFault::NotOurs(message));
        }
        let log = beside(path, "-wal");
        if !is_there && std::fs::metadata(&log).is_ok_and(|meta| meta.len() > 0) {
            return Err(FileFault::NotOurs(format!(
                "the file is gone, but {} beside it contains the latest changes; put the file back \
                 beside it, or delete that file too to start over",
                log.display()
            )));
        }
        let absolute = path
            .canonicalize()
            .or_else(|_| std::path::absolute(path))
            .unwrap_or_else(|_| path.to_owned());
        let file = Self { format, path: path.to_owned(), absolute, identity: OnceLock::new() };
        Ok((file, is_there))
    }

    /// Returns the path as given by the caller.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the absolute path.
    pub fn absolute(&self) -> &Path {
        &self.absolute
    }

    /// Opens a connection for reading and writing tables of this program's version. With
    /// [`Mode::Create`], creates the tables in an empty file.
    ///
    /// # Errors
    /// If the file does not have this format and version, or the system refuses access.
    pub fn open_for_writing(&self, mode: Mode) -> Result<Connection, Failure> {
        let connection = patiently(|| {
            let connection = self.open_any_for_writing(mode)?;
            let mut content = self.format.content(&connection)?;
            if content == Content::Empty && mode == Mode::Create {
                self.format.create_layout(&connection)?;
                content = self.format.content(&connection)?;
            }
            self.format.check_content(content)?;
            // On file systems without shared memory, the journal mode stays unchanged, which is
            // slower but equally safe.
            let _: String =
                connection.query_one("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
            Ok(connection)
        })?;
        if let Some(identity) = identity(&self.absolute) {
            self.identity.get_or_init(|| identity);
        }
        Ok(connection)
    }

    /// Opens a connection that can write, regardless of the file's content. A new file, and the
    /// files that SQLite creates next to it, are readable only by their owner (INV-26).
    ///
    /// # Errors
    /// [`Failure::ReadOnly`], or any other error of the system.
    pub fn open_any_for_writing(&self, mode: Mode) -> Result<Connection, Failure> {
        let opening = opening();
        if mode == Mode::Create {
            // If this fails, SQLite does not find the file and reports the cause.
            let _ = create_private_file(&self.absolute, &opening);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.absolute, flags)?;
        drop(opening);
        wait_for_others(&mut connection)?;
        if connection.is_readonly("main")? {
            return Err(Failure::ReadOnly);
        }
        connection.set_prepared_statement_cache_capacity(32);
        // With a log, EXTRA equals FULL, and it is also safe without a log. The `fullfsync` pragmas
        // make syncs reach the disk on macOS.
        connection.execute_batch(
            "PRAGMA synchronous = EXTRA; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
             PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;",
        )?;
        Ok(connection)
    }

    /// Opens a connection for reading tables of this program's version.
    ///
    /// # Errors
    /// If the file does not have this format and version, or the system refuses access.
    pub fn open_for_reading(&self) -> Result<Connection, Failure> {
        let (connection, content) = self.open_for_inspection()?;
        self.format.check_content(content)?;
        Ok(connection)
    }

    /// Opens a connection for a long read, during which other processes may start to write.
    ///
    /// # Errors
    /// Same as for [`File::open_for_reading`].
    pub fn open_for_verification(&self) -> Result<Connection, Failure> {
        // If there is a log, a reader shares it. Otherwise, a reader would leave a log behind,
        // whereas a writer removes it.
        if std::fs::metadata(beside(&self.absolute, "-wal")).is_err() {
            let opened = self.open_any_for_writing(Mode::Existing).and_then(|connection| {
                connection.pragma_update(None, "query_only", true)?;
                self.format.check_content(self.format.content(&connection)?)?;
                Ok(connection)
            });
            match opened {
                Err(failure) if failure.is_denied_by_system() => {}
                result => return result,
            }
        }
        self.open_for_reading()
    }

    /// Copies a consistent snapshot of the file to a new file, which is readable only by its owner
    /// and durable when this returns. Other processes can continue to write.
    ///
    /// # Errors
    /// If `to` exists, the file cannot be read, or the copy cannot be written.
    pub fn copy_to(&self, to: &Path) -> Result<(), Failure> {
        if std::fs::symlink_metadata(to).is_ok() {
            let what = format!("{} exists already; name another place", to.display());
            return Err(Failure::Refused(what));
        }
        // The name contains the process id, because two processes may copy to the same path.
        let aside = beside(to, &format!(".part-{}", std::process::id()));
        let io = |error: std::io::Error| Failure::Refused(format!("{}: {error}", aside.display()));
        match std::fs::remove_file(&aside) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        let connection = self.open_for_verification()?;
        // `VACUUM INTO` needs a connection without `query_only`, although it does not change the
        // source.
        connection.pragma_update(None, "query_only", false)?;
        let not_utf8 = || Failure::Refused(format!("{}: the name is not UTF-8", to.display()));
        let name = aside.to_str().ok_or_else(not_utf8)?;
        // SQLite accepts an existing empty file as the target.
        create_private_file(&aside, &opening()).map_err(io)?;
        let copied = || -> Result<(), Failure> {
            connection.execute("VACUUM INTO ?", [name])?;
            let placed = std::fs::File::open(&aside)
                .and_then(|copy| copy.sync_all())
                .and_then(|()| std::fs::rename(&aside, to))
                .and_then(|()| sync_folder(to));
            placed.map_err(io)
        };
        copied().inspect_err(|_| drop(std::fs::remove_file(&aside)))
    }

    /// Opens a connection for reading, and returns what kind of content the file has.
    ///
    /// # Errors
    /// If the system refuses access, or the file is not a SQLite file.
    pub fn open_for_inspection(&self) -> Result<(Connection, Content), Failure> {
        let length = |suffix| {
            let meta = std::fs::metadata(beside(&self.absolute, suffix)).ok()?;
            Some(meta.len())
        };
        match (length("-wal"), length("-journal")) {
            // Without a log, there is no writer, so the file can be read without creating files
            // next to it.
            (None, None) => self.look("?immutable=1"),
            // An empty log was left behind by a process that was killed before its first write.
            (Some(0), None) => match self.look("") {
                Err(failure) if failure.is_denied_by_system() => self.look("?immutable=1"),
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
            let opening = opening();
            let mut connection = Connection::open_with_flags(uri(&self.absolute) + query, flags)?;
            drop(opening);
            wait_for_others(&mut connection)?;
            connection.execute_batch("PRAGMA trusted_schema = OFF")?;
            let content = self.format.content(&connection)?;
            Ok((connection, content))
        })
    }

    /// Begins a transaction, after waiting for other writers if necessary. First rolls back a
    /// transaction that a panic left open.
    ///
    /// # Errors
    /// [`Failure::Moved`]; [`Failure::Version`] if another program has upgraded the file since it
    /// was opened; or any other error of the system.
    pub fn begin<'c>(
        &self,
        connection: &'c Connection,
        behavior: TransactionBehavior,
    ) -> Result<Transaction<'c>, Failure> {
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK")?;
        }
        self.check_is_same()?;
        let transaction = begin(connection, behavior)?;
        self.format.check_version(&transaction)?;
        Ok(transaction)
    }

    /// Copies the log into the file, as far as other readers allow. If the file is later moved or
    /// copied without its log, at most the most recent commits are missing. Durability does not
    /// depend on this.
    pub fn copy_log(connection: &Connection) {
        let copied = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        // Whatever makes this fail, for example a full disk, also makes the next write fail, which
        // reports the error.
        drop(copied);
    }

    /// Checks that the path still refers to the open file, since writes to a deleted file are lost.
    ///
    /// # Errors
    /// [`Failure::Moved`] if it does not.
    pub fn check_is_same(&self) -> Result<(), Failure> {
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

/// Makes SQLite retry for at most [`PATIENCE`]. The pauses between retries are short because
/// transactions are short.
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

/// Begins a transaction as soon as other processes allow it.
///
/// # Errors
/// If other processes keep the file locked for longer than [`PATIENCE`], or the transaction cannot
/// begin.
pub fn begin(
    connection: &Connection,
    behavior: TransactionBehavior,
) -> Result<Transaction<'_>, Failure> {
    patiently(|| Ok(Transaction::new_unchecked(connection, behavior)?))
}

/// Retries while other processes keep the file busy, in cases that SQLite does not retry itself.
fn patiently<R>(mut act: impl FnMut() -> Result<R, Failure>) -> Result<R, Failure> {
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

/// Sleeps for 0.1 ms to 5 ms, longer for a larger `count`.
fn pause(count: u32) {
    let micros = 100 * u64::from(count.min(49) + 1);
    std::thread::sleep(Duration::from_micros(micros));
}

/// Appends a suffix to a file name, for example `-wal` to `study.db`.
#[must_use]
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes a new directory entry durable, if the platform supports this.
///
/// # Errors
/// The system's error.
pub fn sync_folder(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        // A path without a folder refers to the current directory.
        Some(folder) if cfg!(unix) && folder.as_os_str().is_empty() => {
            std::fs::File::open(".")?.sync_all()
        }
        Some(folder) if cfg!(unix) => std::fs::File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

/// Converts a path to a SQLite URI.
pub fn uri(path: &Path) -> String {
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
        assert_eq!(uri(Path::new("/a b/ä?#%.db")), "file:/a%20b/%C3%A4%3F%23%25.db");
    }

    const FORMAT: Format = Format {
        application_id: 1,
        steps: &["CREATE TABLE stamp (id INTEGER PRIMARY KEY)"],
        what: "collection of stamps",
        never: "no stamp was ever put into it",
        verify: None,
    };

    #[cfg(unix)]
    #[test]
    fn a_database_is_readable_for_its_owner_alone_from_its_first_moment() {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| Some(std::fs::metadata(path).ok()?.permissions().mode() & 0o777);
        let folder = tempfile::tempdir().unwrap();
        let path = |number: u32| folder.path().join(format!("{number}.db"));
        let n_files = 50;
        std::thread::scope(|scope| {
            // A thread that polls continuously never sees any other permissions.
            let watcher = scope.spawn(|| {
                for number in 0..n_files {
                    let seen = std::iter::repeat_with(|| mode(&path(number)));
                    assert_eq!(seen.flatten().next(), Some(0o600));
                }
            });
            for number in 0..n_files {
                let (file, is_there) = File::locate(&path(number), Mode::Create, &FORMAT).unwrap();
                assert!(!is_there);
                let connection = file.open_for_writing(Mode::Create).unwrap();
                connection.execute("INSERT INTO stamp VALUES (1)", []).unwrap();
                for suffix in ["", "-wal", "-shm"] {
                    let path = beside(&path(number), suffix);
                    assert_eq!(mode(&path), Some(0o600), "{}", path.display());
                }
            }
            watcher.join().unwrap();
        });
        let (file, _) = File::locate(&path(0), Mode::Existing, &FORMAT).unwrap();
        let copy = folder.path().join("copy.db");
        file.copy_to(&copy).unwrap();
        assert_eq!(mode(&copy), Some(0o600));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_there_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared.db");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let (file, _) = File::locate(&path, Mode::Create, &FORMAT).unwrap();
        file.open_for_writing(Mode::Create).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }
}
