//! Bringing a file of an older version up to date.

use std::path::{Path, PathBuf};

use fedbo_database::{Content, File, begin, beside, pragma, sync_folder, uri};
use rusqlite::{Connection, TransactionBehavior};

use super::failure::{Doing, Failure};
use super::schema::{self, FORMAT};
use crate::{Mode, StorageError};

/// What an upgrade did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeReport {
    /// The version that was found.
    pub from: i64,
    /// The version now: this program's.
    pub to: i64,
    /// The copy of the file as it was; `None` if there was nothing to do.
    pub backup: Option<PathBuf>,
}

/// Brings a file of an older version up to date, version by version, each step one transaction. Before the first, a copy
/// is made beside it: `FILE.v1-backup`, or with a number behind it if there is one already. A step that fails leaves the
/// file at the version before it, and the upgrade can be called again.
///
/// # Errors
/// [`StorageError::Absent`], [`StorageError::NotAStorage`]; [`StorageError::Version`] if the file is newer than this
/// program; [`StorageError::Write`] if the file or the copy cannot be written.
pub fn upgrade(path: &Path) -> Result<UpgradeReport, StorageError> {
    upgrade_by(path, FORMAT.steps)
}

fn upgrade_by(path: &Path, steps: &[&str]) -> Result<UpgradeReport, StorageError> {
    let (file, _) = super::locate(path, Mode::Existing)?;
    run(&file, steps).map_err(|failure| failure.into_error(path, Doing::Write))
}

fn run(file: &File, steps: &[&str]) -> Result<UpgradeReport, Failure> {
    // A file that is not ours is not to be touched, and one that needs nothing may be read-only.
    let from = match file.open_to_look()?.1 {
        Content::Ours(version) => version,
        other => return Err(fedbo_database::Failure::NotOurs(other).into()),
    };
    let to = steps.len() as i64;
    if from > to {
        return Err(schema::other_version(from, to, file.path()).into());
    }
    if from == to {
        return Ok(UpgradeReport {
            from,
            to,
            backup: None,
        });
    }
    let connection = file.open_to_change(Mode::Existing)?;
    // A step may rebuild a table; its references are checked before it is committed.
    connection.pragma_update(None, "foreign_keys", false)?;
    let backup = back_up(&connection, file, from)?;
    for (version, step) in (1..).zip(steps).skip_while(|(version, _)| *version <= from) {
        take_step(&connection, version, step)?;
    }
    Ok(UpgradeReport {
        from,
        to,
        backup: Some(backup),
    })
}

/// One step, which leads to `version`; nothing if the file is there already.
fn take_step(connection: &Connection, version: i64, step: &str) -> Result<(), Failure> {
    let tx = begin(connection, TransactionBehavior::Immediate)?;
    if pragma(&tx, "user_version")? >= version {
        return Ok(());
    }
    tx.execute_batch(step)?;
    if tx.prepare("PRAGMA foreign_key_check")?.exists([])? {
        let what = format!("after the step to version {version} rows refer to what is not there");
        return Err(Failure::contradiction(what));
    }
    tx.pragma_update(None, "user_version", version)?;
    Ok(tx.commit()?)
}

/// Copies the file beside itself; the copy is on the disk when this returns.
fn back_up(connection: &Connection, file: &File, version: i64) -> Result<PathBuf, Failure> {
    let refused = |path: &Path, error: std::io::Error| StorageError::Write {
        place: path.display().to_string(),
        message: format!("the copy before the upgrade: {error}"),
    };
    let backup = reserve(file.absolute(), version).map_err(|error| refused(file.path(), error))?;
    let part = beside(&backup, ".part");
    let copy = || -> Result<(), Failure> {
        let _ = std::fs::remove_file(&part);
        connection.execute("VACUUM INTO ?", [uri(&part)])?;
        // SQLite does not sync such a copy.
        std::fs::File::open(&part)
            .and_then(|copy| copy.sync_all())
            .and_then(|()| std::fs::rename(&part, &backup))
            .and_then(|()| sync_folder(&backup))
            .map_err(|error| refused(&backup, error))?;
        Ok(())
    };
    if let Err(failure) = copy() {
        let _ = (std::fs::remove_file(&part), std::fs::remove_file(&backup));
        return Err(failure);
    }
    Ok(backup)
}

/// An empty file under the first name that is free.
fn reserve(path: &Path, version: i64) -> std::io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let suffix = match number {
            1 => format!(".v{version}-backup"),
            n => format!(".v{version}-backup-{n}"),
        };
        let backup = beside(path, &suffix);
        match std::fs::File::create_new(&backup) {
            Ok(_) => return Ok(backup),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SqliteStorage, Storage};

    const NOTES: &str = "ALTER TABLE studies ADD COLUMN note TEXT NOT NULL DEFAULT 'none';";
    const LABELS: &str =
        "CREATE TABLE labels (study INTEGER NOT NULL REFERENCES studies (id), label TEXT) STRICT;
                          INSERT INTO labels SELECT id, name FROM studies;";
    const BREAKS: &str = "CREATE TABLE halfway (x INTEGER) STRICT; INSERT INTO nowhere VALUES (1);";
    const DANGLES: &str = "INSERT INTO labels VALUES (77, 'of no study');";

    fn fixture() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("study.db");
        let storage = SqliteStorage::open(&path, Mode::Create).unwrap();
        storage.create("old", "{}").unwrap();
        (folder, path)
    }

    fn look<T: rusqlite::types::FromSql>(path: &Path, sql: &str) -> T {
        let connection = Connection::open(path).unwrap();
        connection.query_one(sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn an_old_file_goes_through_all_steps_and_leaves_a_copy() {
        let (_folder, path) = fixture();
        let steps = [FORMAT.steps, &[NOTES, LABELS]].concat();
        let report = upgrade_by(&path, &steps).unwrap();
        let backup = beside(&path.canonicalize().unwrap(), ".v1-backup");
        let expected = UpgradeReport {
            from: 1,
            to: 3,
            backup: Some(backup.clone()),
        };
        assert_eq!(report, expected);
        assert_eq!(look::<String>(&path, "SELECT note FROM studies"), "none");
        assert_eq!(look::<String>(&path, "SELECT label FROM labels"), "old");
        // The copy is a storage of the old version, nothing else lies about.
        let copy = SqliteStorage::open(&backup, Mode::Existing).unwrap();
        assert_eq!(copy.studies().unwrap()[0].name, "old");
        assert!(!beside(&backup, ".part").exists());
        // What is up to date stays, also if it may only be read.
        let again = upgrade_by(&path, &steps).unwrap();
        assert_eq!((again.from, again.backup), (3, None));
    }

    #[test]
    fn a_step_that_fails_leaves_the_version_before_it() {
        let (_folder, path) = fixture();
        let steps = [FORMAT.steps, &[NOTES, BREAKS]].concat();
        let error = upgrade_by(&path, &steps).unwrap_err();
        assert!(error.to_string().contains("nowhere"), "{error}");
        assert_eq!(look::<i64>(&path, "PRAGMA user_version"), 2);
        let halfway = "SELECT count(*) FROM sqlite_schema WHERE name = 'halfway'";
        assert_eq!(look::<i64>(&path, halfway), 0);
        // Once the step is mended it goes on from there, with a copy of its own.
        let steps = [FORMAT.steps, &[NOTES, LABELS]].concat();
        let report = upgrade_by(&path, &steps).unwrap();
        assert_eq!((report.from, report.to), (2, 3));
        assert!(report.backup.unwrap().ends_with("study.db.v2-backup"));
    }

    #[test]
    fn a_step_that_leaves_dangling_references_is_not_committed() {
        let (_folder, path) = fixture();
        let steps = [FORMAT.steps, &[LABELS, DANGLES]].concat();
        let error = upgrade_by(&path, &steps).unwrap_err();
        assert!(matches!(error, StorageError::Corrupt { .. }), "{error}");
        assert_eq!(look::<i64>(&path, "SELECT count(*) FROM labels"), 1);
    }

    #[test]
    fn a_copy_does_not_replace_an_earlier_one() {
        let (_folder, path) = fixture();
        let first = beside(&path, ".v1-backup");
        std::fs::write(&first, "precious").unwrap();
        let steps = [FORMAT.steps, &[NOTES]].concat();
        let report = upgrade_by(&path, &steps).unwrap();
        assert!(report.backup.unwrap().ends_with("study.db.v1-backup-2"));
        assert_eq!(std::fs::read_to_string(&first).unwrap(), "precious");
    }

    #[test]
    fn a_newer_file_is_refused_with_the_way_out() {
        let (_folder, path) = fixture();
        upgrade_by(&path, &[FORMAT.steps, &[NOTES]].concat()).unwrap();
        let opened = SqliteStorage::open(&path, Mode::Create).unwrap_err();
        for error in [opened, upgrade(&path).unwrap_err()] {
            let expected = format!(
                "{}: its layout has version 2, this program reads 1; a newer fedbo wrote it, use that one",
                path.display()
            );
            assert_eq!(error.to_string(), expected);
        }
    }

    /// A program that has the file open while another upgrades it writes nothing in the old layout.
    #[test]
    fn an_open_handle_notices_an_upgrade() {
        let (_folder, path) = fixture();
        let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
        assert_eq!(storage.studies().unwrap().len(), 1);
        upgrade_by(&path, &[FORMAT.steps, &[NOTES]].concat()).unwrap();
        let (read, write) = (storage.studies(), storage.create("new", "{}"));
        assert!(matches!(read, Err(StorageError::Version { found: 2, .. })));
        assert!(matches!(write, Err(StorageError::Version { found: 2, .. })));
    }
}
