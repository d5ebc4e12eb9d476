//! Each refusal by the system, and each file that is not a storage, causes a specific error. No
//! stored data are lost.
//!
//! A test that needs another user, a small disk or a limit starts a second test under this
//! condition. See [`fedbo_testkit::again`].
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "test helpers: a failure here fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fedbo_space::{Point, Value};
use fedbo_storage::{
    AddOutcome, Mode, NewTrial, SqliteStorage, Storage, StorageError, StudyKey, TellAuthority,
    Told, Worker, verify,
};
use fedbo_testkit::again::{
    allow, given_folder, run_on_a_small_disk, run_under_a_limit, run_without_privileges,
};
use rusqlite::Connection;
use tempfile::TempDir;

fn new_trial(size: usize) -> NewTrial {
    NewTrial {
        holder: Some((Worker::by_hand(), None)),
        ..NewTrial::new(
            vec![0],
            Point::new(vec![("x".to_owned(), Value::Choice("x".repeat(size)))]),
            "own",
        )
    }
}

fn key(storage: &SqliteStorage) -> StudyKey {
    storage.studies().unwrap()[0].key
}

/// Adds a trial and tells it. Returns its number once both are acknowledged.
fn one_more(storage: &SqliteStorage, size: usize) -> Result<u64, StorageError> {
    let AddOutcome::Trial(trial) = storage.add(key(storage), &new_trial(size))? else {
        panic!("nothing keeps it out");
    };
    let told = Told::Value(0.1);
    storage.finish(key(storage), trial.number, TellAuthority::Hand, &told)?;
    Ok(trial.number)
}

/// Creates a file with one trial and closes it.
fn fixture() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    allow(folder.path(), 0o777);
    let path = folder.path().join("study.db");
    let storage = SqliteStorage::open(&path, Mode::Create).unwrap();
    storage.create("study", "{}").unwrap();
    one_more(&storage, 1).unwrap();
    (folder, path)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn what_may_only_be_read_is_read() {
    for (file_mode, folder_mode) in [(0o444, 0o777), (0o644, 0o555), (0o444, 0o555)] {
        let (folder, path) = fixture();
        allow(&path, file_mode);
        allow(folder.path(), folder_mode);
        run_without_privileges("reads_what_it_may_not_write", folder.path());
        assert_eq!(names(folder.path()), ["study.db"], "nothing lies beside it");
        allow(folder.path(), 0o777);
    }
}

#[test]
#[ignore = "started by another test"]
fn reads_what_it_may_not_write() {
    let Some(folder) = given_folder() else { return };
    let path = folder.join("study.db");
    for mode in [Mode::Existing, Mode::Create] {
        let storage = SqliteStorage::open(&path, mode).unwrap();
        for _ in 0..2 {
            assert_eq!(storage.trials(key(&storage)).unwrap().len(), 1);
            let error = one_more(&storage, 1).unwrap_err();
            assert!(matches!(error, StorageError::Write { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("study.db: cannot write: the file"), "{text}");
        }
        assert_eq!(storage.trials(key(&storage)).unwrap().len(), 1);
    }
    assert_eq!(verify(&path).unwrap().problems, []);
}

/// Another user can read recent changes from the log.
#[test]
fn a_file_at_work_is_read_by_who_may_not_write() {
    let (folder, path) = fixture();
    let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
    one_more(&storage, 1).unwrap();
    for name in ["study.db", "study.db-wal", "study.db-shm"] {
        allow(&folder.path().join(name), 0o444);
    }
    allow(folder.path(), 0o555);
    run_without_privileges("reads_the_log", folder.path());
    one_more(&storage, 1).unwrap();
    allow(folder.path(), 0o777);
}

#[test]
#[ignore = "started by another test"]
fn reads_the_log() {
    let Some(folder) = given_folder() else { return };
    let storage = SqliteStorage::open(&folder.join("study.db"), Mode::Existing).unwrap();
    assert_eq!(storage.trials(key(&storage)).unwrap().len(), 2);
    let error = one_more(&storage, 1).unwrap_err();
    assert!(matches!(error, StorageError::Write { .. }), "{error:?}");
}

/// A log left by a crash cannot be read if no file can be created next to the database. The error
/// suggests a fix.
#[test]
fn what_may_not_be_read_is_refused() {
    let (folder, path) = fixture();
    let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
    one_more(&storage, 1).unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("crashed")).unwrap();
    fs::create_dir(at("locked")).unwrap();
    for name in ["study.db", "study.db-wal"] {
        fs::copy(at(name), at("crashed").join(name)).unwrap();
    }
    fs::copy(at("study.db"), at("locked").join("study.db")).unwrap();
    allow(&at("crashed"), 0o555);
    allow(&at("locked").join("study.db"), 0o000);
    allow(&at("locked"), 0o555);
    run_without_privileges("is_refused", folder.path());
    allow(&at("crashed"), 0o755);
    allow(&at("locked"), 0o755);
    assert_eq!(names(&at("crashed")), ["study.db", "study.db-wal"]);
    assert_eq!(names(&at("locked")), ["study.db"]);
}

#[test]
#[ignore = "started by another test"]
fn is_refused() {
    let Some(folder) = given_folder() else { return };
    for name in ["crashed", "locked"] {
        let path = folder.join(name).join("study.db");
        let error = SqliteStorage::open(&path, Mode::Existing).unwrap_err();
        assert!(matches!(error, StorageError::Read { .. }), "{error:?}");
        assert!(error.to_string().contains("permissions"), "{error}");
        let missing = folder.join(name).join("new.db");
        let error = SqliteStorage::open(&missing, Mode::Create).unwrap_err();
        assert!(matches!(error, StorageError::Write { .. }), "{error:?}");
    }
}

#[test]
fn a_full_disk_loses_nothing_and_can_be_emptied() {
    let folder = tempfile::tempdir().unwrap();
    run_on_a_small_disk("works_on_a_small_disk", folder.path());
}

#[test]
#[ignore = "started by another test"]
fn works_on_a_small_disk() {
    let Some(folder) = given_folder() else { return };
    let (path, ballast) = (folder.join("study.db"), folder.join("ballast"));
    let reserve = folder.join("reserve");
    fs::write(&ballast, vec![1; 1 << 19]).unwrap();
    fs::write(&reserve, vec![1; 1 << 19]).unwrap();
    let storage = SqliteStorage::open(&path, Mode::Create).unwrap();
    storage.create("study", "{}").unwrap();
    let mut known = Vec::new();
    let fill = |known: &mut Vec<u64>| {
        for size in [1000, 100, 1] {
            let error = loop {
                match one_more(&storage, size) {
                    Ok(number) => known.push(number),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, StorageError::Write { .. }), "{error:?}");
            assert!(error.to_string().contains("disk is full"), "{error}");
        }
    };
    let told = |storage: &SqliteStorage| -> Vec<u64> {
        let trials = storage.trials(key(storage)).unwrap().into_iter();
        trials.filter(|trial| trial.told().is_some()).map(|trial| trial.number).collect()
    };
    fill(&mut known);
    assert!(known.len() > 10);
    assert_eq!(told(&storage), known, "a full disk can be read");
    assert_eq!(verify(&path).unwrap().problems, []);
    // Once there is space again, the same handle continues to work.
    fs::remove_file(&ballast).unwrap();
    known.push(one_more(&storage, 1).unwrap());
    fill(&mut known);
    assert_eq!(told(&storage), known);
    drop(storage);
    // A file reopened on a full disk is readable, and becomes writable once there is space.
    while fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&ballast)
        .and_then(|mut file| std::io::Write::write_all(&mut file, &[1; 512]))
        .is_ok()
    {}
    let storage = SqliteStorage::open(&path, Mode::Create).unwrap();
    assert_eq!(told(&storage), known);
    let error = one_more(&storage, 1).unwrap_err();
    assert!(matches!(error, StorageError::Write { .. }), "{error:?}");
    for _ in 0..2 {
        let new = SqliteStorage::open(&folder.join("new.db"), Mode::Create).unwrap_err();
        assert!(matches!(new, StorageError::Write { .. }), "{new:?}");
    }
    fs::remove_file(&reserve).unwrap();
    known.push(one_more(&storage, 1).unwrap());
    // If a list does not fit, none of it is stored.
    let list = vec![(new_trial(4_000), Told::Value(0.1)); 400];
    let error = storage.add_told(key(&storage), &list).unwrap_err();
    assert!(error.to_string().contains("disk is full"), "{error}");
    assert_eq!(told(&storage), known);
    known.push(one_more(&storage, 1).unwrap());
    assert_eq!(told(&storage), known);
    drop(storage);
    let new = SqliteStorage::open(&folder.join("new.db"), Mode::Create).unwrap();
    new.create("study", "{}").unwrap();
    assert_eq!(verify(&path).unwrap().problems, []);
}

/// Uses a file size limit, which every Unix system supports.
#[test]
fn a_limit_of_file_sizes_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    run_under_a_limit("works_under_a_limit", folder.path());
    let path = folder.path().join("study.db");
    assert_eq!(verify(&path).unwrap().problems, []);
    let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
    let n_trials = storage.trials(key(&storage)).unwrap().len();
    one_more(&storage, 20_000).unwrap();
    assert_eq!(storage.trials(key(&storage)).unwrap().len(), n_trials + 1);
}

#[test]
#[ignore = "started by another test"]
fn works_under_a_limit() {
    let Some(folder) = given_folder() else { return };
    let storage = SqliteStorage::open(&folder.join("study.db"), Mode::Create).unwrap();
    storage.create("study", "{}").unwrap();
    let mut known = Vec::new();
    let error = loop {
        match one_more(&storage, 500) {
            Ok(number) => known.push(number),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StorageError::Write { .. }), "{error:?}");
    assert!(known.len() > 10, "{error}");
    let trials = storage.trials(key(&storage)).unwrap();
    let told = trials.iter().filter(|trial| trial.told().is_some());
    assert_eq!(told.map(|trial| trial.number).collect::<Vec<_>>(), known);
}

#[test]
fn a_file_that_is_gone_is_not_written_any_more() {
    let (folder, path) = fixture();
    let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
    let elsewhere = folder.path().join("moved.db");
    let key = key(&storage);
    fs::rename(&path, &elsewhere).unwrap();
    for _ in 0..2 {
        let error = storage.add(key, &new_trial(1)).unwrap_err();
        assert!(matches!(error, StorageError::Gone { .. }), "{error:?}");
        assert!(error.to_string().contains("moved, deleted or replaced"));
        let error = storage.trials(key).unwrap_err();
        assert!(matches!(error, StorageError::Gone { .. }), "{error:?}");
        // In the second pass, there is a different file at the path.
        fs::copy(&elsewhere, &path).unwrap();
    }
    fs::rename(&elsewhere, &path).unwrap();
    one_more(&storage, 1).unwrap();
}

/// The file without its log contains the results, both while the storage is open and after its
/// process was killed.
#[test]
fn what_was_told_is_in_the_file_itself() {
    let (folder, path) = fixture();
    let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
    one_more(&storage, 1).unwrap();
    let told = storage.trials(key(&storage)).unwrap();
    let alone = folder.path().join("alone.db");
    fs::copy(&path, &alone).unwrap();
    let copy = SqliteStorage::open(&alone, Mode::Existing).unwrap();
    assert_eq!(copy.trials(key(&copy)).unwrap(), told);
}

/// The latest results may be only in the log. A new file next to the log would replay or discard
/// them.
#[test]
fn no_file_is_begun_beside_the_log_of_one_that_is_gone() {
    let (folder, path) = fixture();
    let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
    one_more(&storage, 1).unwrap();
    let elsewhere = folder.path().join("moved.db");
    fs::rename(&path, &elsewhere).unwrap();
    let refused = SqliteStorage::open(&path, Mode::Create).unwrap_err();
    assert!(matches!(refused, StorageError::NotAStorage { .. }), "{refused:?}");
    assert!(refused.to_string().contains("-wal"), "{refused}");
    assert!(!path.exists());
    fs::rename(&elsewhere, &path).unwrap();
    SqliteStorage::open(&path, Mode::Create).unwrap();
}

#[test]
fn one_waits_for_a_process_that_holds_the_lock() {
    let (_folder, path) = fixture();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = std::thread::spawn({
        let path = path.clone();
        move || {
            let storage = SqliteStorage::open(&path, Mode::Create).unwrap();
            let before = storage.trials(key(&storage)).unwrap().len();
            (before, one_more(&storage, 1).unwrap())
        }
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(!waiting.is_finished());
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(waiting.join().unwrap(), (1, 1), "a reader does not wait");
}

#[test]
fn what_is_no_storage_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let sql = |name: &str, sql: &str| {
        let connection = Connection::open(at(name)).unwrap();
        connection.execute_batch(sql).unwrap();
    };
    fs::write(at("notes.txt"), "x = 1\n".repeat(1000)).unwrap();
    fs::write(at("short.db"), "SQLite").unwrap();
    fs::write(at("empty.db"), "").unwrap();
    fs::create_dir(at("folder.db")).unwrap();
    sql("foreign.db", "CREATE TABLE t (x)");
    sql("marked.db", "PRAGMA application_id = 7");
    sql("blank.db", "PRAGMA user_version = 1; PRAGMA user_version = 0");
    sql("old.db", "PRAGMA application_id = 1717920866; CREATE TABLE t (x)");
    sql("new.db", "PRAGMA application_id = 1717920866; PRAGMA user_version = 9");
    let before = names(folder.path());
    let bytes = |name: &str| fs::read(at(name)).ok();
    for (name, both, existing) in [
        ("notes.txt", "it is not a valid storage of studies (not a SQLite file", ""),
        ("short.db", "it is not a valid storage of studies (not a SQLite file", ""),
        ("folder.db", "it is a folder", ""),
        ("foreign.db", "it is a SQLite file of another program", ""),
        ("marked.db", "it is a SQLite file of another program", ""),
        ("old.db", "it is a SQLite file of another program", ""),
        ("new.db", "its layout has version 9, this program reads 2; use the newer fedbo", ""),
        ("none/study.db", "", "there is no such storage"),
        ("notes.txt/study.db", "a part of its path is not a folder", ""),
        ("none.db", "", "there is no such storage"),
        ("empty.db", "", "it is empty"),
        ("blank.db", "", "it is empty"),
    ] {
        let (path, content) = (at(name), bytes(name));
        let message = if both.is_empty() { existing } else { both };
        let expected = format!("{}: {message}", path.display());
        let refused = |error: StorageError| {
            let text = error.to_string();
            assert!(text.starts_with(&expected), "{text}");
            assert!(!matches!(error, StorageError::Write { .. } | StorageError::Read { .. }));
        };
        refused(SqliteStorage::open(&path, Mode::Existing).unwrap_err());
        refused(verify(&path).unwrap_err());
        refused(fedbo_storage::upgrade(&path).err().unwrap_or_else(|| panic!("{name}")));
        if !both.is_empty() {
            refused(SqliteStorage::open(&path, Mode::Create).unwrap_err());
        }
        assert_eq!(bytes(name), content, "{name} is untouched");
    }
    assert_eq!(names(folder.path()), before, "nothing is created");
    let error = SqliteStorage::open(&at("none/study.db"), Mode::Create).unwrap_err();
    assert!(error.to_string().contains("create it first"), "{error}");
    for name in ["none.db", "empty.db", "blank.db"] {
        let storage = SqliteStorage::open(&at(name), Mode::Create).unwrap();
        storage.create("study", "{}").unwrap();
    }
    let upgraded = fedbo_storage::upgrade(&at("none.db")).unwrap();
    assert_eq!((upgraded.from, upgraded.to, upgraded.backup), (2, 2, None));
}

#[test]
fn names_with_special_signs_are_files() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a b?mode=memory&x#y%20.db", "file:x.db", "größe 🜛.db", ":memory:"] {
        let path = folder.path().join(name);
        let storage = SqliteStorage::open(&path, Mode::Create).unwrap();
        storage.create("study", "{}").unwrap();
        drop(storage);
        assert!(path.is_file(), "{name}");
        assert_eq!(verify(&path).unwrap().n_studies, 1);
    }
}

/// Garbage in the middle of a file is found by verification and by reads.
#[test]
fn damage_is_found() {
    let (_folder, path) = fixture();
    {
        let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
        for _ in 0..20 {
            one_more(&storage, 3000).unwrap();
        }
    }
    let mut bytes = fs::read(&path).unwrap();
    assert!(bytes.len() > 40_000);
    for byte in &mut bytes[20_000..40_000] {
        *byte = byte.wrapping_mul(31).wrapping_add(7);
    }
    fs::write(&path, &bytes).unwrap();
    let report = verify(&path).unwrap();
    assert!(!report.problems.is_empty());
    let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
    let error = storage.trials(key(&storage)).unwrap_err();
    assert!(matches!(error, StorageError::Corrupt { .. }), "{error:?}");
    assert!(error.to_string().contains("fedbo storage verify"), "{error}");
    // A file with a damaged header is not recognizable as a storage.
    bytes[..16].fill(0);
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(verify(&path), Err(StorageError::NotAStorage { .. })));
}
