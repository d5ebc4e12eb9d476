//! Upgrades files of older versions.

use std::path::{Path, PathBuf};

use fedbo_database::{Content, File, begin, beside, pragma, private, sync_folder, uri};
use rusqlite::{Connection, TransactionBehavior};

use super::failure::{Failure, Operation};
use super::schema::{self, FORMAT};
use crate::{Mode, StorageError};

/// The result of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeReport {
    /// The version found.
    pub from: i64,
    /// The version after the upgrade, which is this program's version.
    pub to: i64,
    /// The copy of the original file. `None` if no upgrade was needed, and for PostgreSQL
    /// databases.
    pub backup: Option<PathBuf>,
}

/// Upgrades a file of an older version. Each version is a separate step, in its own transaction.
///
/// Before the first step, copies the file to `FILE.v1-backup` next to it. If that name exists, a
/// number is appended. If a step fails, the file stays at the previous version, and the upgrade can
/// be repeated.
///
/// # Errors
/// [`StorageError::Absent`], [`StorageError::NotAStorage`]; [`StorageError::Version`] if the file is newer than this
/// program; [`StorageError::Write`] if the file or the copy cannot be written.
pub fn upgrade(path: &Path) -> Result<UpgradeReport, StorageError> {
    upgrade_by(path, FORMAT.steps)
}

fn upgrade_by(path: &Path, steps: &[&str]) -> Result<UpgradeReport, StorageError> {
    let (file, _) = super::locate(path, Mode::Existing)?;
    run(&file, steps).map_err(|failure| failure.into_error(path, Operation::Write))
}

fn run(file: &File, steps: &[&str]) -> Result<UpgradeReport, Failure> {
    // Never modify another program's file. An up-to-date file may be read-only.
    let from = match file.open_for_inspection()?.1 {
        Content::Ours(version) => version,
        other => return Err(fedbo_database::Failure::NotOurs(other).into()),
    };
    let to = steps.len() as i64;
    if from > to {
        return Err(schema::other_version(from, to, file.path()).into());
    }
    if from == to {
        return Ok(UpgradeReport { from, to, backup: None });
    }
    let connection = file.open_any_for_writing(Mode::Existing)?;
    // A step may rebuild a table, so references are checked only before the step's commit.
    connection.pragma_update(None, "foreign_keys", false)?;
    let backup = back_up(&connection, file, from)?;
    for (version, step) in (1..).zip(steps).skip_while(|(version, _)| *version <= from) {
        take_step(&connection, version, step)?;
    }
    Ok(UpgradeReport { from, to, backup })
}

/// Runs the step that upgrades to `version`. Does nothing if the file already has that version.
fn take_step(connection: &Connection, version: i64, step: &str) -> Result<(), Failure> {
    let tx = begin(connection, TransactionBehavior::Immediate)?;
    if pragma(&tx, "user_version")? >= version {
        return Ok(());
    }
    tx.execute_batch(step)?;
    if tx.prepare("PRAGMA foreign_key_check")?.exists([])? {
        let what = format!("after the step to version {version}, rows refer to missing rows");
        return Err(Failure::contradiction(what));
    }
    tx.pragma_update(None, "user_version", version)?;
    Ok(tx.commit()?)
}

/// Copies the file to the same folder, with its permissions. The copy is complete and durable
/// before it gets its name. Returns `None` if another upgrade has already started, because that
/// upgrade made a copy.
fn back_up(connection: &Connection, file: &File, version: i64) -> Result<Option<PathBuf>, Failure> {
    let original = file.absolute();
    let part = beside(original, &format!(".v{version}-backup.part"));
    let refused = |error: std::io::Error| StorageError::Write {
        place: part.display().to_string(),
        message: format!("the copy before the upgrade: {error}"),
    };
    // Concurrent upgrades make their copies one after the other, so that neither writes to the
    // other's copy or takes its name.
    let other = file.open_any_for_writing(Mode::Existing)?;
    let turn = begin(&other, TransactionBehavior::Immediate)?;
    if pragma(&turn, "user_version")? != version {
        return Ok(None);
    }
    let copy = || -> Result<PathBuf, Failure> {
        let _ = std::fs::remove_file(&part); // left by a killed process
        // SQLite accepts an existing empty file as the target, but does not sync it.
        private().write(true).create_new(true).open(&part).map_err(refused)?;
        connection.execute("VACUUM INTO ?", [uri(&part)])?;
        let placed = std::fs::metadata(original)
            .and_then(|meta| std::fs::set_permissions(&part, meta.permissions()))
            .and_then(|()| std::fs::File::open(&part)?.sync_all())
            .and_then(|()| {
                let backup = free_name(original, version);
                std::fs::rename(&part, &backup)?;
                sync_folder(&backup)?;
                Ok(backup)
            });
        Ok(placed.map_err(refused)?)
    };
    copy().map(Some).inspect_err(|_| drop(std::fs::remove_file(&part)))
}

/// Returns the first unused name for a copy of this version.
fn free_name(path: &Path, version: i64) -> PathBuf {
    let named = |number: u64| match number {
        1 => beside(path, &format!(".v{version}-backup")),
        n => beside(path, &format!(".v{version}-backup-{n}")),
    };
    let mut names = (1..).map(named).filter(|name| std::fs::symlink_metadata(name).is_err());
    names.next().unwrap_or_else(|| unreachable!("there are more numbers than files"))
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
        let (folder, path) = fixture();
        let permissions = std::fs::metadata(&path).unwrap().permissions();
        // The remains of a killed upgrade must not be mistaken for a copy.
        std::fs::write(beside(&path, ".v2-backup.part"), "half of it").unwrap();
        let steps = [FORMAT.steps, &[NOTES, LABELS]].concat();
        let backup = beside(&path.canonicalize().unwrap(), ".v2-backup");
        let report = upgrade_by(&path, &steps).unwrap();
        let expected = UpgradeReport { from: 2, to: 4, backup: Some(backup.clone()) };
        assert_eq!(report, expected);
        assert_eq!(look::<String>(&path, "SELECT note FROM studies"), "none");
        assert_eq!(look::<String>(&path, "SELECT label FROM labels"), "old");
        // The copy is a storage of the old version with the original file's permissions, and no
        // other files are left.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        assert_eq!(std::fs::metadata(&backup).unwrap().permissions(), permissions);
        let copy = SqliteStorage::open(&backup, Mode::Existing).unwrap();
        assert_eq!(copy.studies().unwrap()[0].name, "old");
        // An up-to-date file is left alone, even if it is read-only.
        let again = upgrade_by(&path, &steps).unwrap();
        assert_eq!((again.from, again.backup), (4, None));
    }

    #[test]
    fn a_step_that_fails_leaves_the_version_before_it() {
        let (_folder, path) = fixture();
        let steps = [FORMAT.steps, &[NOTES, BREAKS]].concat();
        let error = upgrade_by(&path, &steps).unwrap_err();
        assert!(error.to_string().contains("nowhere"), "{error}");
        assert_eq!(look::<i64>(&path, "PRAGMA user_version"), 3);
        let halfway = "SELECT count(*) FROM sqlite_schema WHERE name = 'halfway'";
        assert_eq!(look::<i64>(&path, halfway), 0);
        // Once the step is fixed, the upgrade continues from that version, with a new copy.
        let steps = [FORMAT.steps, &[NOTES, LABELS]].concat();
        let report = upgrade_by(&path, &steps).unwrap();
        assert_eq!((report.from, report.to), (3, 4));
        assert!(report.backup.unwrap().ends_with("study.db.v3-backup"));
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
        let first = beside(&path, ".v2-backup");
        std::fs::write(&first, "precious").unwrap();
        let steps = [FORMAT.steps, &[NOTES]].concat();
        let report = upgrade_by(&path, &steps).unwrap();
        assert!(report.backup.unwrap().ends_with("study.db.v2-backup-2"));
        assert_eq!(std::fs::read_to_string(&first).unwrap(), "precious");
    }

    #[test]
    fn a_newer_file_is_refused_with_the_way_out() {
        let (_folder, path) = fixture();
        upgrade_by(&path, &[FORMAT.steps, &[NOTES]].concat()).unwrap();
        let opened = SqliteStorage::open(&path, Mode::Create).unwrap_err();
        for error in [opened, upgrade(&path).unwrap_err()] {
            let expected = format!(
                "{}: its layout has version 3, this program reads 2; use the newer fedbo that wrote it",
                path.display()
            );
            assert_eq!(error.to_string(), expected);
        }
    }

    /// A program that has the file open during an upgrade writes nothing in the old layout.
    #[test]
    fn an_open_handle_notices_an_upgrade() {
        let (_folder, path) = fixture();
        let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
        assert_eq!(storage.studies().unwrap().len(), 1);
        upgrade_by(&path, &[FORMAT.steps, &[NOTES]].concat()).unwrap();
        let (read, write) = (storage.studies(), storage.create("new", "{}"));
        assert!(matches!(read, Err(StorageError::Version { found: 3, .. })));
        assert!(matches!(write, Err(StorageError::Version { found: 3, .. })));
    }

    /// The file was written by the first version. It contains a trial with a value, a failed trial,
    /// and a waiting trial.
    #[test]
    fn a_file_of_version_1_keeps_its_trials_and_takes_reports() {
        use crate::{Report, TellAuthority, Told, Worker, verify};

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("study.db");
        let connection = Connection::open(&path).unwrap();
        let (mark, first) = (FORMAT.application_id, FORMAT.steps[0]);
        let columns = "study, number, point, encoding, source, ask_seconds, attempts, asked_at_ms, started_at_ms, told_seq, \
                       told_at_ms, value, failure_kind, failure_message";
        connection
            .execute_batch(&format!(
                "PRAGMA application_id = {mark}; PRAGMA user_version = 1; {first}
                 INSERT INTO studies VALUES (1, 'old', '{{}}');
                 INSERT INTO trials ({columns}) VALUES
                 (1, 0, '{{\"x\":0.5}}', x'01', 'own', 0.1, 1, 5, 6, 1, 7, -0.25, NULL, NULL),
                 (1, 1, '{{\"x\":0.75}}', x'02', 'own', 0.1, 1, 5, 6, 2, 8, NULL, 'exit', 'status 3'),
                 (1, 2, '{{\"x\":0.25}}', x'03', 'own', 0.1, 0, 5, NULL, NULL, NULL, NULL, NULL, NULL);"
            ))
            .unwrap();
        drop(connection);
        let refused = SqliteStorage::open(&path, Mode::Existing).unwrap_err();
        assert!(refused.to_string().contains("fedbo storage upgrade"));
        let report = upgrade(&path).unwrap();
        assert_eq!((report.from, report.to), (1, 2));
        assert_eq!(verify(&path).unwrap().problems, []);

        let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
        let study = storage.studies().unwrap()[0].key;
        let worker = Worker::of_this_process();
        let claimed = storage.claim(study, &worker, None).unwrap().unwrap();
        assert_eq!(claimed.number, 2);
        let teller = TellAuthority::Worker(&worker.id);
        let at = |epoch, value| Report { epoch, value };
        storage.report(study, 2, teller, at(3, 0.5)).unwrap();
        let stopped =
            Told::Stopped { epoch: 3, value: 0.5, because: "worse than the others".to_owned() };
        storage.finish(study, 2, teller, &stopped).unwrap();
        let trials = storage.trials(study).unwrap();
        assert_eq!(trials[0].value(), Some(-0.25));
        assert!(matches!(trials[1].told(), Some(Told::Failed { kind, .. }) if kind == "exit"));
        assert_eq!((trials[2].told(), trials[2].value()), (Some(&stopped), None));
        assert_eq!(trials[2].reports, [at(3, 0.5)]);
        assert_eq!(verify(&path).unwrap().problems, []);
    }
}
