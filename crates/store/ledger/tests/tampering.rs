//! INV-15: changes made by other means are found and described, as far as a hash chain can detect
//! them.
#![expect(clippy::unwrap_used, reason = "test helpers: a failure here fails the test")]

use crate::common;

use std::path::Path;

use common::charter;
use common::store::{Left, ROUNDS, Store};
use fedbo_ledger::{Ledger, LedgerError, verify};
use rusqlite::Connection;

/// The hash chain detects each change made through SQLite, and the error describes it.
#[test]
fn each_kind_of_tampering_is_named() {
    let store = Store::new(Left::Closed);
    const SWAP: &str = "UPDATE entries SET release = CASE seq WHEN 1 THEN (SELECT release FROM entries WHERE seq = 2)
                        WHEN 2 THEN (SELECT release FROM entries WHERE seq = 1) ELSE release END";
    for (sql, expected) in [
        ("UPDATE entries SET release = x'00' WHERE seq = 2", "entry 2: it does not match its hash"),
        (
            "UPDATE entries SET event = (SELECT event FROM entries WHERE seq = 4) WHERE seq = 1",
            "entry 1: it does not match its hash",
        ),
        ("UPDATE entries SET round = 9 WHERE seq = 4", "entry 4: it does not match its hash"),
        (SWAP, "entry 1: it does not match its hash"),
        ("DELETE FROM entries WHERE seq = 2", "entry 3: expected entry 2"),
        ("DELETE FROM entries WHERE seq = 1", "entry 2: it does not follow from entry 0"),
        (
            "UPDATE entries SET hash = zeroblob(32) WHERE seq = 2",
            "entry 3: it does not follow from entry 2",
        ),
        ("UPDATE entries SET event = x'' WHERE seq = 3", "entry 3: an event that ends too early"),
        (
            "INSERT INTO entries VALUES (5, zeroblob(32), 9, x'01', x'', zeroblob(32))",
            "entry 5: it does not follow from entry 4",
        ),
        ("UPDATE charter SET epsilon = 2e9", "its charter does not match its hash"),
        ("UPDATE charter SET config = x'00'", "its charter does not match its hash"),
        ("UPDATE charter SET hash = zeroblob(32)", "its charter does not match its hash"),
        ("UPDATE charter SET delta = 2", "its charter has an invalid budget, mode or accountant"),
        (
            "UPDATE charter SET mode = 'plain'",
            "its charter has an invalid budget, mode or accountant",
        ),
        ("UPDATE charter SET epsilon = 9e999", "its charter has an invalid budget"),
        ("DELETE FROM charter", "it has no charter"),
        ("DELETE FROM writer", "it has no fencing token"),
        ("DROP TABLE entries", "table entries is missing"),
        ("DROP TRIGGER writer_moves_on", "trigger writer_moves_on is missing"),
        ("CREATE TABLE more (x)", "table more does not belong here"),
        (
            "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'seq > 0', 'seq > 1')",
            "the layout of this version",
        ),
    ] {
        let path = store.put(&store.file, &[]);
        let connection = Connection::open(&path).unwrap();
        let triggers: Vec<(String, String)> = connection
            .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let mut batch = "PRAGMA ignore_check_constraints = ON;".to_owned();
        let is_of_tables = !sql.contains("TRIGGER") && !sql.contains("schema");
        if is_of_tables {
            for (name, _) in &triggers {
                batch += &format!("DROP TRIGGER {name};");
            }
        }
        batch += sql;
        if is_of_tables && !sql.starts_with("DROP") {
            for (_, sql) in &triggers {
                batch += ";";
                batch += sql;
            }
        }
        connection.execute_batch(&batch).unwrap();
        drop(connection);
        let problems = verify(&path, None).unwrap().problems;
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{sql}: {problems:#?}");
        let error = Ledger::open(&path, &charter()).unwrap_err();
        assert!(matches!(error, LedgerError::Corrupt { .. }), "{sql}: {error}");
        assert!(error.to_string().contains("`fedbo privacy verify`"), "{error}");
        assert_eq!(store.judge_by_opening(), None);
    }
}

/// A completely forged history with matching hashes passes verification. Only a known head reveals
/// it.
#[test]
fn what_a_chain_cannot_see_a_known_head_does() {
    let store = Store::new(Left::Closed);
    let forged = Store::new(Left::Closed);
    assert_eq!(store.last().head, forged.last().head, "the same history has the same head");
    let path = forged.put(&forged.file, &[]);
    cut_last_entry(&path);
    assert_eq!(forged.judge(), Some(ROUNDS.len() - 1));
    let report = verify(&path, Some(&store.last().head)).unwrap();
    assert!(report.problems[0].message.contains("rolled back"), "{report:?}");
}

fn cut_last_entry(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let sql: String = connection
        .query_row(
            "SELECT sql FROM sqlite_schema WHERE name = 'entries_are_not_deleted'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let batch =
        format!("DROP TRIGGER entries_are_not_deleted; DELETE FROM entries WHERE seq = 4; {sql}");
    connection.execute_batch(&batch).unwrap();
}
