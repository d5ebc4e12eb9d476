//! The file's layout, by version.

use fedbo_database::Format;

/// The format of a ledger file. The bytes of its application id spell "fedl".
pub(crate) const FORMAT: Format = Format {
    application_id: 0x6665_646c,
    steps: &[STEP_1],
    what: "privacy ledger",
    never: "no charge was ever stored in it",
    verify: Some("fedbo privacy verify"),
};

/// Rows are only ever added to `entries` and `charter`. Triggers refuse other changes, as a
/// safeguard against bugs in this program. The hash chain detects changes made by other means.
/// `writer` holds the fencing token of the most recent writer.
const STEP_1: &str = "
CREATE TABLE charter (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    name TEXT NOT NULL,
    config BLOB NOT NULL,
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    mode TEXT NOT NULL,
    accountant TEXT NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;

CREATE TABLE entries (
    seq INTEGER PRIMARY KEY CHECK (seq > 0),
    previous BLOB NOT NULL CHECK (length(previous) = 32),
    round INTEGER NOT NULL UNIQUE CHECK (round >= 0),
    event BLOB NOT NULL,
    release BLOB NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;

CREATE TABLE writer (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    token INTEGER NOT NULL CHECK (token >= 0)
) STRICT;

CREATE TRIGGER charter_is_one BEFORE INSERT ON charter WHEN EXISTS (SELECT 1 FROM charter)
BEGIN SELECT RAISE(ABORT, 'the charter of a ledger never changes'); END;
CREATE TRIGGER charter_is_not_updated BEFORE UPDATE ON charter
BEGIN SELECT RAISE(ABORT, 'the charter of a ledger never changes'); END;
CREATE TRIGGER charter_is_not_deleted BEFORE DELETE ON charter
BEGIN SELECT RAISE(ABORT, 'the charter of a ledger never changes'); END;

CREATE TRIGGER entries_are_appended BEFORE INSERT ON entries
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM entries)
    OR NEW.round <= (SELECT round FROM entries ORDER BY seq DESC LIMIT 1)
BEGIN SELECT RAISE(ABORT, 'a ledger is only appended to'); END;
CREATE TRIGGER entries_are_not_updated BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'a ledger is only appended to'); END;
CREATE TRIGGER entries_are_not_deleted BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'a ledger is only appended to'); END;

CREATE TRIGGER writer_is_one BEFORE INSERT ON writer WHEN EXISTS (SELECT 1 FROM writer)
BEGIN SELECT RAISE(ABORT, 'a ledger has one writer'); END;
CREATE TRIGGER writer_moves_on BEFORE UPDATE ON writer WHEN NEW.token <= OLD.token
BEGIN SELECT RAISE(ABORT, 'a fencing token only grows'); END;
CREATE TRIGGER writer_is_not_deleted BEFORE DELETE ON writer
BEGIN SELECT RAISE(ABORT, 'a ledger has one writer'); END;
";

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// A trigger refuses each statement that would rewrite history. This includes REPLACE, which
    /// would silently delete a row.
    #[test]
    fn history_is_not_rewritten() {
        let connection = Connection::open_in_memory().unwrap();
        FORMAT.create_layout(&connection).unwrap();
        connection
            .execute_batch(
                "INSERT INTO charter VALUES (1, 'n', x'00', 1.0, 0.1, 'default', 'pld', zeroblob(32));
                 INSERT INTO writer VALUES (1, 5);
                 INSERT INTO entries VALUES (1, zeroblob(32), 3, x'', x'01', zeroblob(32));
                 INSERT INTO entries VALUES (2, zeroblob(32), 7, x'', x'02', zeroblob(32));",
            )
            .unwrap();
        for (sql, part) in [
            ("UPDATE charter SET epsilon = 2", "never changes"),
            ("DELETE FROM charter", "never changes"),
            (
                "INSERT OR REPLACE INTO charter VALUES (1, 'm', x'00', 1.0, 0.1, 'default', 'pld', zeroblob(32))",
                "never changes",
            ),
            ("UPDATE entries SET release = x'03'", "only appended"),
            ("DELETE FROM entries WHERE seq = 2", "only appended"),
            (
                "INSERT OR REPLACE INTO entries VALUES (2, zeroblob(32), 9, x'', x'02', zeroblob(32))",
                "only appended",
            ),
            (
                "INSERT OR REPLACE INTO entries VALUES (3, zeroblob(32), 7, x'', x'02', zeroblob(32))",
                "only appended",
            ),
            (
                "INSERT INTO entries VALUES (4, zeroblob(32), 9, x'', x'02', zeroblob(32))",
                "only appended",
            ),
            (
                "INSERT INTO entries VALUES (3, zeroblob(32), 5, x'', x'02', zeroblob(32))",
                "only appended",
            ),
            ("UPDATE writer SET token = 5", "only grows"),
            ("UPDATE writer SET token = 4", "only grows"),
            ("DELETE FROM writer", "one writer"),
            ("INSERT OR REPLACE INTO writer VALUES (1, 9)", "one writer"),
        ] {
            let error = connection.execute_batch(sql).unwrap_err().to_string();
            assert!(error.contains(part), "{sql}: {error}");
        }
        connection
            .execute_batch(
                "INSERT INTO entries VALUES (3, zeroblob(32), 8, x'', x'03', zeroblob(32));
                 UPDATE writer SET token = 6",
            )
            .unwrap();
    }
}
