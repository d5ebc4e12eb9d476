//! A ledger in a PostgreSQL database gives the same guarantees as a ledger in a file, even if
//! connections are cut during a commit or the server is killed.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "test helpers: a failure here fails the test")]

use crate::common;
#[path = "../../storage/tests/postgres_crash/proxy.rs"]
mod proxy;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{assert_stopped, budget, charter, event};
use fedbo_ledger::{Charter, Head, Ledger, LedgerError, Ledgers};
use fedbo_postgres::{Pool, PostgresAddress};
use fedbo_testkit::postgres::Server;
use proxy::{Cut, Proxy};

/// Returns the server that all tests share, except tests that restart it.
fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

fn ledgers(url: &str) -> Ledgers {
    let address: PostgresAddress = url.parse().unwrap();
    Ledgers::in_pool(Pool::open(&address, 2).unwrap().into(), true).unwrap()
}

fn release(round: u64) -> Vec<u8> {
    format!("<release of round {round}>").into_bytes()
}

/// Creates a database with a ledger of four releases. Returns the database's address and all heads.
fn filled() -> (String, Vec<Head>) {
    let url = server().new_database();
    let mut ledger = Ledger::create_in(&ledgers(&url), &charter()).unwrap();
    let mut heads = vec![ledger.head()];
    for round in [0, 1, 2, 5] {
        assert_eq!(ledger.stored(round).unwrap(), None);
        heads.push(ledger.commit(round, &event(1.5), &release(round)).unwrap());
    }
    (url, heads)
}

fn database(url: &str) -> &str {
    url.rsplit_once('/').unwrap().1
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn what_was_released_stays_the_same_for_ever() {
    let (url, heads) = filled();
    let ledgers = ledgers(&url);
    let error = Ledger::create_in(&ledgers, &charter()).unwrap_err();
    assert!(matches!(error, LedgerError::Exists { .. }), "{error}");
    let mut ledger = Ledger::open_in(&ledgers, &charter()).unwrap();
    assert_eq!((ledger.head(), ledger.last_round()), (heads[4], Some(5)));
    for round in 0..7 {
        let stored = [0, 1, 2, 5].contains(&round).then(|| release(round));
        assert_eq!(ledger.stored(round).unwrap(), stored);
    }
    for round in [5, 3] {
        let error = ledger.commit(round, &event(1.5), b"other").unwrap_err();
        assert_eq!(error, LedgerError::RoundPassed { round, last: 5 });
    }
    for head in &heads {
        assert_eq!(ledger.contains(head), Ok(true));
        let hash = [9; 32];
        assert_eq!(ledger.contains(&Head { hash, ..*head }), Ok(false));
    }
    // The hash chain equals the chain of a ledger file.
    let folder = common::quick_folder();
    let mut file = Ledger::create(&folder.path().join("ledger.db"), &charter()).unwrap();
    for round in [0, 1, 2, 5] {
        file.commit(round, &event(1.5), &release(round)).unwrap();
    }
    assert_eq!(file.head(), ledger.head());
    assert_eq!(file.entries(0), ledger.entries(0));
    let statement = ledgers.read("study").unwrap();
    assert_eq!(statement, ledger.statement().unwrap());
    assert_eq!(statement, file.statement().unwrap());
    let report = ledgers.verify("study", Some(&heads[2])).unwrap();
    assert_eq!((report.problems.len(), report.head), (0, Some(heads[4])));
    // Another study has a separate ledger.
    let other = Charter { name: "other".to_owned(), ..charter() };
    let absent = Ledger::open_in(&ledgers, &other).unwrap_err();
    assert!(matches!(absent, LedgerError::Absent { .. }), "{absent}");
    Ledger::create_in(&ledgers, &other).unwrap();
    assert_eq!(ledgers.names().unwrap(), ["study", "other"]);
    assert_eq!(ledgers.read("other").unwrap().n_releases(), 0);
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_follower_sees_what_is_over_and_nothing_else() {
    let (url, heads) = filled();
    let ledgers = ledgers(&url);
    let rounds = |after: usize, before| {
        let found = ledgers.follow("study", heads[after], before).unwrap();
        found.iter().map(|entry| entry.round).collect::<Vec<_>>()
    };
    assert_eq!(rounds(0, 9), [0, 1, 2, 5]);
    assert_eq!(rounds(0, 5), [0, 1, 2]); // round 5 is not over (INV-9)
    assert_eq!(rounds(2, 9), [2, 5]);
    assert_eq!(rounds(4, 9), [0; 0]);
    let forked = Head { hash: [3; 32], ..heads[2] };
    let error = ledgers.follow("study", forked, 9).unwrap_err();
    assert!(matches!(error, LedgerError::Corrupt { .. }), "{error}");
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn the_budget_and_the_charter_hold() {
    let url = server().new_database();
    let ledgers = ledgers(&url);
    let small = Charter { budget: budget(4.0), ..charter() };
    let mut ledger = Ledger::create_in(&ledgers, &small).unwrap();
    let mut round = 0;
    let refused = loop {
        match ledger.commit(round, &event(5.0), b"") {
            Ok(_) => round += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, LedgerError::BudgetSpent(_)), "{refused}");
    assert!(round > 2 && ledgers.read("study").unwrap().claim.epsilon <= 4.0);
    let error = Ledger::open_in(&ledgers, &charter()).unwrap_err();
    assert!(matches!(error, LedgerError::OtherCharter { .. }), "{error}");
}

/// Only the most recent writer can commit. The previous writer stops permanently (INV-15).
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn two_coordinators_cannot_both_commit() {
    let (url, heads) = filled();
    let mut first = Ledger::open_in(&ledgers(&url), &charter()).unwrap();
    let mut second = Ledger::open_in(&ledgers(&url), &charter()).unwrap();
    let error = first.commit(6, &event(1.5), b"first").unwrap_err();
    assert!(matches!(error, LedgerError::Superseded { .. }), "{error}");
    assert_stopped(&mut first);
    assert_eq!(second.head(), heads[4]);
    second.commit(6, &event(1.5), b"second").unwrap();
    // With concurrent writers, the token counts all openings, and there is only one history.
    let (url, _) = filled();
    std::thread::scope(|scope| {
        for n in 0..4_u64 {
            let url = &url;
            scope.spawn(move || {
                let ledgers = ledgers(url);
                for _ in 0..6 {
                    let mut ledger = Ledger::open_in(&ledgers, &charter()).unwrap();
                    let round = ledger.last_round().unwrap() + 1;
                    match ledger.commit(round, &event(1.5), &n.to_le_bytes()) {
                        Ok(_) | Err(LedgerError::Superseded { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let report = ledgers(&url).verify("study", None).unwrap();
    assert_eq!(report.problems, []);
    assert!(report.n_entries > 4);
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn history_is_not_rewritten() {
    let (url, _) = filled();
    let mut client = server().connect(database(&url));
    for (sql, part) in [
        ("UPDATE fedbo_ledger.ledgers SET epsilon = 2", "never changes"),
        ("UPDATE fedbo_ledger.ledgers SET token = token", "only grows"),
        ("DELETE FROM fedbo_ledger.ledgers", "only appended"),
        ("UPDATE fedbo_ledger.entries SET release = ''", "only appended"),
        ("DELETE FROM fedbo_ledger.entries WHERE seq = 4", "only appended"),
        ("TRUNCATE fedbo_ledger.entries", "only appended"),
        ("TRUNCATE fedbo_ledger.ledgers CASCADE", "only appended"),
        (
            "INSERT INTO fedbo_ledger.entries SELECT ledger, 6, previous, 9, event, release, hash
             FROM fedbo_ledger.entries WHERE seq = 4",
            "only appended",
        ),
        (
            "INSERT INTO fedbo_ledger.entries SELECT ledger, 5, previous, 4, event, release, hash
             FROM fedbo_ledger.entries WHERE seq = 4",
            "only appended",
        ),
    ] {
        let error = client.batch_execute(sql).unwrap_err();
        let said = error.as_db_error().unwrap().message().to_owned();
        assert!(said.contains(part), "{sql}: {said}");
    }
}

/// A user who is allowed to disable triggers can write anything, but verification detects changes
/// of every column of every row, missing rows, and missing triggers.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn ledger_corruption() {
    let changes = [
        "UPDATE fedbo_ledger.ledgers SET name = 'x'",
        "UPDATE fedbo_ledger.ledgers SET config = config || '\\x00'",
        "UPDATE fedbo_ledger.ledgers SET epsilon = epsilon * 2",
        "UPDATE fedbo_ledger.ledgers SET delta = delta * 2",
        "UPDATE fedbo_ledger.ledgers SET mode = 'paper'",
        "UPDATE fedbo_ledger.ledgers SET accountant = 'pld'",
        "UPDATE fedbo_ledger.ledgers SET hash = set_byte(hash, 3, 255 - get_byte(hash, 3))",
        "UPDATE fedbo_ledger.entries SET round = 3 WHERE seq = 3",
        "UPDATE fedbo_ledger.entries SET release = set_byte(release, 3, 0) WHERE seq = 1",
        "UPDATE fedbo_ledger.entries SET event = set_byte(event, 3, 255 - get_byte(event, 3)) WHERE seq = 4",
        "UPDATE fedbo_ledger.entries SET hash = set_byte(hash, 3, 255 - get_byte(hash, 3)) WHERE seq = 2",
        "UPDATE fedbo_ledger.entries SET previous = set_byte(previous, 3, 255 - get_byte(previous, 3)) WHERE seq = 4",
        "UPDATE fedbo_ledger.entries SET seq = 9 WHERE seq = 4",
        "DELETE FROM fedbo_ledger.entries WHERE seq = 2",
        "DELETE FROM fedbo_ledger.entries WHERE seq = 1",
    ];
    let (url, heads) = filled();
    let ledgers = ledgers(&url);
    let mut client = server().connect(database(&url));
    for change in changes {
        client
            .batch_execute(&format!(
                "CREATE TABLE ledgers AS TABLE fedbo_ledger.ledgers; CREATE TABLE entries AS TABLE fedbo_ledger.entries;
                 SET session_replication_role = replica; {change}"
            ))
            .unwrap();
        let name = if change.contains("name") { "x" } else { "study" };
        let report = ledgers.verify(name, None).unwrap();
        assert!(!report.problems.is_empty(), "{change}");
        assert_eq!(report.head, None, "{change}");
        let charter = Charter { name: name.to_owned(), ..charter() };
        let error = Ledger::open_in(&ledgers, &charter).unwrap_err();
        assert!(matches!(error, LedgerError::Corrupt { .. }), "{change}: {error}");
        client
            .batch_execute(
                "DELETE FROM fedbo_ledger.entries; DELETE FROM fedbo_ledger.ledgers;
                 INSERT INTO fedbo_ledger.ledgers OVERRIDING SYSTEM VALUE SELECT * FROM ledgers;
                 INSERT INTO fedbo_ledger.entries SELECT * FROM entries ORDER BY seq;
                 DROP TABLE ledgers, entries; SET session_replication_role = DEFAULT",
            )
            .unwrap();
        assert_eq!(ledgers.verify("study", Some(&heads[4])).unwrap().problems, []);
    }
    // A complete rollback is a valid history, unless the verifier knows the head.
    client
        .batch_execute(
            "SET session_replication_role = replica; DELETE FROM fedbo_ledger.entries WHERE seq = 4;
             SET session_replication_role = DEFAULT",
        )
        .unwrap();
    assert_eq!(ledgers.verify("study", None).unwrap().problems, []);
    assert_eq!(ledgers.verify("study", Some(&heads[4])).unwrap().problems.len(), 1);
    for change in [
        "ALTER TABLE fedbo_ledger.entries DISABLE TRIGGER entries_are_not_changed",
        "DROP TRIGGER charters_are_not_changed ON fedbo_ledger.ledgers",
    ] {
        client.batch_execute(change).unwrap();
        assert!(!ledgers.verify("study", None).unwrap().problems.is_empty());
    }
}

/// A connection is cut at each point of a commit. The release is stored only once, and the ledger
/// continues.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_commit_whose_answer_is_lost_happens_once() {
    for cut in [Cut::BeforeCommit, Cut::WithCommit, Cut::BeforeAnswer] {
        let url = server().new_database();
        let proxy = Proxy::start(server().socket());
        let ledgers = ledgers(&proxy.url_of(&url));
        proxy.cut_next(cut);
        let mut ledger = Ledger::create_in(&ledgers, &charter()).unwrap();
        for round in 0..4 {
            proxy.cut_next(cut);
            let head = ledger.commit(round, &event(1.5), &release(round)).unwrap();
            assert_eq!(head.seq, round + 1);
        }
        // The connection was cut once while creating or opening, and once in each commit.
        assert_eq!(proxy.n_cuts(), 5, "{cut:?}");
        let sound = self::ledgers(&url).verify("study", Some(&ledger.head())).unwrap();
        assert_eq!((sound.problems.len(), sound.n_entries), (0, 4), "{cut:?}");
        // Another writer opens the ledger while a commit of this writer is in flight after a cut.
        proxy.cut_next(cut);
        let next = Ledger::open_in(&ledgers, &charter()).unwrap();
        assert_eq!(next.head(), ledger.head());
        ledger.commit(4, &event(1.5), b"").unwrap_err();
    }
}

/// If the outcome of a commit stays unknown, the ledger stops. Reopening the ledger resolves the
/// outcome.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_commit_that_stays_unsettled_stops_the_ledger() {
    let (url, _) = filled();
    let proxy = Proxy::start(server().socket());
    let cut = ledgers(&proxy.url_of(&url)).with_patience(Duration::from_millis(100));
    let mut ledger = Ledger::open_in(&cut, &charter()).unwrap();
    proxy.cut_next(Cut::BeforeAnswer);
    proxy.refuse_after_cut();
    let error = ledger.commit(6, &event(1.5), b"six").unwrap_err();
    let words = error.to_string();
    assert!(words.contains("may or may not have been stored"), "{words}");
    assert_stopped(&mut ledger);
    let mut next = Ledger::open_in(&ledgers(&url), &charter()).unwrap();
    assert_eq!(next.stored(6).unwrap().as_deref(), Some(&b"six"[..]));
    next.commit(7, &event(1.5), b"").unwrap();
}

/// The server is killed repeatedly while a ledger is written. Acknowledged releases are stored
/// exactly once.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn database_killed() {
    let mut server = Server::start();
    let url = server.new_database();
    let mut ledger = Ledger::create_in(&ledgers(&url), &charter()).unwrap();
    let ends = AtomicBool::new(false);
    let n_committed = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut round = 0;
            while !ends.load(Ordering::Relaxed) {
                ledger.commit(round, &event(1.5), &release(round)).unwrap();
                round += 1;
            }
            round
        });
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(150));
            server.kill_all();
            server.restart();
        }
        std::thread::sleep(Duration::from_millis(100));
        ends.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    let report = ledgers(&url).verify("study", Some(&ledger.head())).unwrap();
    assert_eq!(report.problems, []);
    assert_eq!((report.n_entries, ledger.releases()), (n_committed, n_committed));
    for round in 0..n_committed {
        assert_eq!(ledger.stored(round).unwrap(), Some(release(round)));
    }
    assert!(n_committed > 4, "{n_committed}");
}
