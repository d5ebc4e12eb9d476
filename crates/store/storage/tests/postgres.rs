//! The PostgreSQL storage fulfills the trait's contract, refuses unsafe servers, and never shows a
//! password.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "test helpers: a failure here fails the test")]

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use fedbo_space::{Point, Value};
use fedbo_storage::{
    AddOutcome, Address, Mode, NewTrial, PostgresStorage, Report, Storage, StorageError,
    TellAuthority, Told, Worker, open, upgrade_at,
};
use fedbo_testkit::postgres::Server;

/// Returns the server that all tests share, except tests that change it.
fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

fn open_url(url: &str, mode: Mode) -> Result<PostgresStorage, StorageError> {
    match url.parse()? {
        Address::Postgres(address) => PostgresStorage::open(&address, mode),
        other => panic!("{other} is no PostgreSQL address"),
    }
}

fn create(url: &str) -> PostgresStorage {
    open_url(url, Mode::Create).unwrap()
}

/// Returns the name of the database in an address.
fn database(url: &str) -> &str {
    url.rsplit_once('/').unwrap().1
}

fn new_trial(x: f64, worker: &Worker) -> NewTrial {
    NewTrial {
        holder: Some((worker.clone(), None)),
        ..NewTrial::new(
            x.to_bits().to_le_bytes().to_vec(),
            Point::new(vec![("x".to_owned(), Value::Float(x))]),
            "own",
        )
    }
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_database_without_studies_is_absent_unless_it_is_to_be_created() {
    let url = server().new_database();
    let absent = open_url(&url, Mode::Existing).unwrap_err();
    assert!(matches!(absent, StorageError::Absent { .. }), "{absent}");
    let storage = create(&url);
    let record = storage.create("study", "{}").unwrap();
    let again = open_url(&url, Mode::Existing).unwrap();
    assert_eq!(again.studies().unwrap(), [record]);
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn many_lay_out_one_database_at_once() {
    let url = server().new_database();
    let records: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..6).map(|_| scope.spawn(|| create(&url).create("study", "{}").unwrap())).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(records.iter().all(|record| *record == records[0]));
    assert_eq!(create(&url).studies().unwrap().len(), 1);
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn long_names_encodings_and_definitions_are_kept_and_found() {
    let storage = create(&server().new_database());
    let long = |last: &str| "long ".repeat(20_000) + last;
    let first = storage.create(&long("a"), &long("definition")).unwrap();
    let second = storage.create(&long("b"), "{}").unwrap();
    assert_ne!(first.key, second.key);
    assert_eq!(storage.create(&long("a"), "{}").unwrap(), first);
    let worker = Worker::of_this_process();
    for (last, expected) in [(1, None), (2, None), (1, Some(0)), (2, Some(1))] {
        let mut encoding = vec![7; 100_000];
        encoding.push(last);
        let new = NewTrial { encoding, unique: true, ..new_trial(0.5, &worker) };
        match (storage.add(first.key, &new).unwrap(), expected) {
            (AddOutcome::Trial(_), None) => {}
            (AddOutcome::Duplicate { number }, Some(twin)) => assert_eq!(number, twin),
            (other, _) => panic!("{other:?}"),
        }
    }
}

/// The cost of a call does not grow with the number of trials, because no call scans the whole
/// table.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn every_call_searches_an_index() {
    let url = server().new_database();
    let database = database(&url);
    create(&url).create("study", "{}").unwrap();
    let rows = "INSERT INTO fedbo.trials (study, number, point, encoding, source, ask_seconds, attempts, asked_at_ms,
                    started_at_ms, told_seq, told_at_ms, value)
                SELECT 1, n, '{}', int8send(n), 'own', 0, 1, 0, 0, n + 1, 0, n FROM generate_series(0, 19999) AS n;
                ANALYZE fedbo.trials";
    server().run(database, rows);
    let counts = || -> (i64, i64) {
        let sql = "SELECT seq_scan, idx_scan FROM pg_stat_user_tables WHERE relname = 'trials'";
        let row = server().connect(database).query_one(sql, &[]).unwrap();
        (row.get(0), row.get(1))
    };
    // A session's counts become visible only after it has ended.
    let settle = |before: (i64, i64)| {
        let mut now = counts();
        for _ in 0..200 {
            if now.1 > before.1 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            now = counts();
        }
        now
    };
    let before = counts();
    let storage = create(&url);
    let study = storage.studies().unwrap()[0].key;
    let worker = Worker::of_this_process();
    let new = NewTrial { unique: true, ..new_trial(0.5, &worker) };
    let AddOutcome::Trial(trial) = storage.add(study, &new).unwrap() else {
        panic!("it is new");
    };
    storage.renew(study, &worker.id, Duration::from_secs(60)).unwrap();
    let teller = TellAuthority::Worker(&worker.id);
    storage.release_trial(study, trial.number, teller).unwrap();
    storage.claim(study, &worker, None).unwrap().unwrap();
    storage.finish(study, trial.number, teller, &Told::Value(1.0)).unwrap();
    assert_eq!(storage.snapshot(study, 20_000).unwrap().told.len(), 1);
    drop(storage);
    let after = settle(before);
    assert!(after.1 > before.1 + 8, "{before:?} {after:?}");
    assert_eq!(after.0, before.0, "no call read the whole table");
    // Control: a full scan is counted.
    server().run(database, "SELECT count(*) FROM fedbo.trials WHERE value > 3");
    for _ in 0..200 {
        if counts().0 > after.0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("a scan of the table is not counted");
}

/// Checks that the error states the setting and the fix.
fn check_unsafe(error: &StorageError, setting: &str) {
    let text = error.to_string();
    assert!(matches!(error, StorageError::Unsafe { .. }), "{error:?}");
    assert!(
        text.contains(&format!("the server's {setting} is off"))
            && text.contains(&format!("SET {setting} = on")),
        "{text}"
    );
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_server_that_may_lose_what_it_acknowledges_is_refused() {
    let mut server = Server::with_settings(&[("fsync", "off")]);
    let refused = |url: &str, setting: &str| {
        check_unsafe(&open_url(url, Mode::Create).unwrap_err(), setting);
    };
    let url = server.new_database();
    refused(&url, "fsync");
    server.restart_with(&[("full_page_writes", "off")]);
    refused(&url, "full_page_writes");
    server.restart_with(&[("synchronous_commit", "off")]);
    refused(&url, "synchronous_commit");
    server.restart_with(&[("synchronous_commit", "local")]);
    let storage = create(&url);
    // The refused calls created no tables. If a setting is turned off later, the next change is
    // refused.
    let study = storage.create("study", "{}").unwrap();
    server.run("postgres", "ALTER SYSTEM SET fsync = off");
    server.run("postgres", "SELECT pg_reload_conf()");
    let worker = Worker::of_this_process();
    let mut error = None;
    for _ in 0..200 {
        error = storage.add(study.key, &new_trial(0.0, &worker)).err();
        if error.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let error = error.expect("the reload is seen within seconds");
    check_unsafe(&error, "fsync");
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_setting_of_the_database_counts_like_one_of_the_server() {
    let url = server().new_database();
    let database = database(&url);
    server().run("postgres", &format!("ALTER DATABASE {database} SET synchronous_commit = off"));
    let error = open_url(&url, Mode::Create).unwrap_err();
    check_unsafe(&error, "synchronous_commit");
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn what_is_not_ours_is_left_alone() {
    let url = server().new_database();
    server().run(database(&url), "CREATE SCHEMA fedbo; CREATE TABLE fedbo.cats (name text)");
    for mode in [Mode::Create, Mode::Existing] {
        let error = open_url(&url, mode).unwrap_err();
        assert!(matches!(error, StorageError::NotAStorage { .. }), "{error}");
        assert!(error.to_string().contains("cats"), "{error}");
    }
    // An empty schema, prepared by an administrator, is accepted.
    let url = server().new_database();
    server().run(database(&url), "CREATE SCHEMA fedbo");
    create(&url).create("study", "{}").unwrap();
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn another_version_is_refused_when_it_is_opened_and_when_it_is_open() {
    let url = server().new_database();
    let storage = create(&url);
    let study = storage.create("study", "{}").unwrap();
    server().run(database(&url), "UPDATE fedbo.layout SET version = 3");
    let opened = open_url(&url, Mode::Create).unwrap_err();
    let read = storage.studies().unwrap_err();
    let worker = Worker::of_this_process();
    let written = storage.add(study.key, &new_trial(0.0, &worker)).unwrap_err();
    for error in [opened, read, written] {
        assert!(matches!(error, StorageError::Version { found: 3, .. }), "{error:?}");
        let way =
            "its layout has version 3, this program reads 2; use the newer fedbo that wrote it";
        assert!(error.to_string().ends_with(way), "{error}");
    }
}

/// A layout of version 1 is upgraded in one transaction, even while an older program has it open,
/// and keeps its trials.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_layout_of_version_1_is_upgraded() {
    let url = server().new_database();
    let address: Address = url.parse().unwrap();
    let absent = upgrade_at(&address).unwrap_err();
    assert!(matches!(absent, StorageError::Absent { .. }), "{absent:?}");
    let storage = create(&url);
    let study = storage.create("study", "{}").unwrap().key;
    let worker = Worker::of_this_process();
    storage.add(study, &new_trial(0.5, &worker)).unwrap();
    storage.add(study, &new_trial(0.25, &worker)).unwrap();
    let teller = TellAuthority::Worker(&worker.id);
    storage.finish(study, 0, teller, &Told::Value(-0.0)).unwrap();
    let before = storage.trials(study).unwrap();
    server().run(
        database(&url),
        "ALTER TABLE fedbo.trials DROP COLUMN stopped_epoch, DROP COLUMN stopped_because;
         DROP TABLE fedbo.reports; UPDATE fedbo.layout SET version = 1",
    );
    let refused = storage.trials(study).unwrap_err().to_string();
    assert!(refused.contains("this program reads 2; `fedbo storage upgrade`"), "{refused}");
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| upgrade_at(&address))).collect();
        threads.into_iter().map(|t| t.join().unwrap().unwrap()).collect()
    });
    let mut found: Vec<i64> = results.iter().map(|report| report.from).collect();
    found.sort_unstable();
    assert_eq!(found, [1, 2, 2], "one of them does it");
    assert!(results.iter().all(|report| report.to == 2 && report.backup.is_none()));
    assert_eq!(storage.trials(study).unwrap(), before);
    let report = Report { epoch: 1, value: 0.5 };
    storage.report(study, 1, teller, report).unwrap();
    let stopped = Told::Stopped { epoch: 1, value: 0.5, because: "worse".to_owned() };
    storage.finish(study, 1, teller, &stopped).unwrap();
    assert_eq!(storage.trials(study).unwrap()[1].told(), Some(&stopped));
    server().run(database(&url), "UPDATE fedbo.layout SET version = 3");
    let newer = upgrade_at(&address).unwrap_err();
    assert!(matches!(newer, StorageError::Version { found: 3, .. }));
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_damaged_trial_is_named_and_not_quoted() {
    let url = server().new_database();
    let storage = create(&url);
    let study = storage.create("study", "{}").unwrap().key;
    let worker = Worker::of_this_process();
    storage.add(study, &new_trial(0.125, &worker)).unwrap();
    server().run(database(&url), "UPDATE fedbo.trials SET point = point || 'secret'");
    let error = storage.trials(study).unwrap_err();
    assert!(matches!(error, StorageError::Corrupt { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("trial 0 is damaged") && !text.contains("secret"), "{text}");
    server().run(database(&url), "DROP TABLE fedbo.trials CASCADE");
    let error = storage.trials(study).unwrap_err();
    assert!(matches!(error, StorageError::Corrupt { .. }), "{error:?}");
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn who_may_only_read_reads() {
    let url = server().new_database();
    let database = database(&url);
    let study = create(&url).create("study", "{}").unwrap();
    server().run(
        database,
        "CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA fedbo TO reader;
         GRANT SELECT ON ALL TABLES IN SCHEMA fedbo TO reader; CREATE ROLE stranger LOGIN",
    );
    let storage = open_url(&server().url_of("reader", database), Mode::Existing).unwrap();
    assert_eq!(storage.studies().unwrap()[0], study);
    let worker = Worker::of_this_process();
    let error = storage.add(study.key, &new_trial(0.0, &worker)).unwrap_err();
    assert!(matches!(error, StorageError::Write { .. }), "{error:?}");
    assert!(error.to_string().contains("rights on the tables"), "{error}");
    let error = open_url(&server().url_of("stranger", database), Mode::Existing).unwrap_err();
    assert!(matches!(error, StorageError::Connect { .. }), "{error:?}");
}

/// The first stop creates the table of stops. Other users with privileges on the studies must have
/// access to this table.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn stops_are_for_all_who_work_on_the_studies() {
    let url = server().new_database();
    let database = database(&url);
    let owner = open_url(&url, Mode::Create).unwrap();
    let study = owner.create("study", "{}").unwrap().key;
    server().run(
        database,
        "CREATE ROLE worker LOGIN; CREATE ROLE \"the reader\" LOGIN; GRANT USAGE ON SCHEMA fedbo TO worker, \"the reader\";
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fedbo TO worker;
         GRANT SELECT ON ALL TABLES IN SCHEMA fedbo TO \"the reader\"",
    );
    let at_work = open_url(&server().url_of("worker", database), Mode::Existing).unwrap();
    let process = Worker::of_this_process();
    let claim = || at_work.claim_unless_stopped(study, &process, None, Some(0)).unwrap();
    assert!(claim().is_continue());
    // A user who is not allowed to create a table gets an error, and nothing changes.
    let refused = at_work.stop(study, "worker").unwrap_err();
    assert!(matches!(refused, StorageError::Write { .. }), "{refused:?}");
    assert_eq!(at_work.last_stop(study).unwrap(), None);
    let stop = owner.stop(study, "owner").unwrap();
    assert_eq!(claim(), std::ops::ControlFlow::Break(stop.clone()));
    assert_eq!(at_work.stop(study, "worker").unwrap().seq, 2);
    let reader = open_url(&server().url_of("the%20reader", database), Mode::Existing).unwrap();
    assert_eq!(reader.last_stop(study).unwrap().map(|stop| stop.by), Some("worker".to_owned()));
    assert!(matches!(reader.stop(study, "reader"), Err(StorageError::Write { .. })));
    // Two concurrent first stops both succeed.
    server().run(database, "DROP TABLE fedbo.stops");
    let other = owner.create("other", "{}").unwrap().key;
    std::thread::scope(|scope| {
        for key in [study, other] {
            let url = &url;
            scope.spawn(move || open_url(url, Mode::Existing).unwrap().stop(key, "both").unwrap());
        }
    });
    for key in [study, other] {
        assert_eq!(owner.last_stop(key).unwrap().map(|stop| stop.seq), Some(1));
    }
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_password_is_used_and_never_shown() {
    let url = server().new_database();
    let database = database(&url);
    server().run(
        database,
        &format!(
            "CREATE ROLE guarded LOGIN PASSWORD 'se@cret'; GRANT CREATE ON DATABASE {database} TO guarded"
        ),
    );
    let right = server().url_of("guarded:se%40cret", database);
    let storage = open_url(&right, Mode::Create).unwrap();
    storage.create("study", "{}").unwrap();
    let address: Address = right.parse().unwrap();
    let mut shown = vec![format!("{storage:?}"), format!("{address} {address:?}")];
    for wrong in ["guarded:wrong%40cret", "guarded"] {
        let error = open_url(&server().url_of(wrong, database), Mode::Existing).unwrap_err();
        assert!(matches!(error, StorageError::Connect { .. }), "{error:?}");
        shown.push(format!("{error} {error:?}"));
    }
    server().run(database, "DROP SCHEMA fedbo CASCADE");
    let error = storage.studies().unwrap_err();
    shown.push(format!("{error} {error:?}"));
    for text in shown {
        assert!(!text.contains("cret"), "{text}");
        assert!(text.contains("guarded"), "it still says who: {text}");
    }
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn nobody_there_is_said_at_once_and_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().display().to_string().replace('/', "%2F");
    for url in [
        format!("postgresql://me:secret@{socket}/db"),
        "postgresql://me:secret@127.0.0.1:1/db".to_owned(),
        server().url("no_such_database"),
    ] {
        let begun = std::time::Instant::now();
        let error = open_url(&url, Mode::Create).unwrap_err();
        assert!(matches!(error, StorageError::Connect { .. }), "{error:?}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_study_that_is_locked_is_waited_for_and_locks_no_other() {
    let url = server().new_database();
    let storage = create(&url);
    let (one, two) =
        (storage.create("one", "{}").unwrap().key, storage.create("two", "{}").unwrap().key);
    let mut other = server().connect(database(&url));
    let mut tx = other.transaction().unwrap();
    tx.execute("SELECT FROM fedbo.studies WHERE id = $1 FOR UPDATE", &[&one.0]).unwrap();
    let worker = Worker::of_this_process();
    storage.add(two, &new_trial(0.0, &worker)).unwrap();
    assert_eq!(storage.trials(one).unwrap(), [], "reading waits for nobody");
    let waiting = std::thread::spawn(move || {
        let worker = Worker::of_this_process();
        storage.add(one, &new_trial(0.0, &worker)).map(|_| storage)
    });
    std::thread::sleep(Duration::from_millis(200));
    assert!(!waiting.is_finished(), "its turn comes after the other's");
    drop(tx);
    let storage = waiting.join().unwrap().unwrap();
    assert_eq!(storage.trials(one).unwrap().len(), 1);
}

#[test]
fn relative_certificates_are_seen_from_the_folder_of_the_file() {
    let address: Address =
        "postgresql://me@h/db?sslmode=verify-full&sslrootcert=ca.pem".parse().unwrap();
    let error = open(&address.relative_to(Path::new("/nowhere")), Mode::Create).unwrap_err();
    assert!(error.to_string().contains("sslrootcert /nowhere/ca.pem"), "{error}");
}
