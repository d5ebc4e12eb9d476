//! The schema of `agent.db`, as one step per version.

use fedbo_database::Format;

/// The format of an agent's database file. Its application id is "feda".
pub(crate) const FORMAT: Format = Format {
    application_id: 0x6665_6461,
    steps: &[STEP_1, STEP_2, STEP_3, STEP_4],
    what: "agent's database",
    never: "no membership was ever stored in it",
    verify: None,
};

/// Times are milliseconds since 1970. `charges` and `handouts` only grow, and the content of an
/// upload never changes. Triggers reject statements that this program must never execute, even by
/// mistake.
const STEP_1: &str = "
CREATE TABLE memberships (
    id INTEGER PRIMARY KEY,
    study TEXT NOT NULL UNIQUE,
    url TEXT NOT NULL,
    authority TEXT,
    coordinator BLOB NOT NULL CHECK (length(coordinator) = 32),
    slot INTEGER NOT NULL CHECK (slot >= 0),
    agent TEXT NOT NULL,
    config TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    signature BLOB NOT NULL CHECK (length(signature) = 64),
    key BLOB NOT NULL CHECK (length(key) = 32),
    seed BLOB CHECK (length(seed) = 8),
    enrolled_at_ms INTEGER NOT NULL,
    contact_at_ms INTEGER NOT NULL,
    finished INTEGER NOT NULL DEFAULT 0 CHECK (finished IN (0, 1))
) STRICT;
CREATE TRIGGER memberships_stay BEFORE DELETE ON memberships
BEGIN SELECT RAISE(ABORT, 'a membership stays'); END;
CREATE TRIGGER memberships_are_fixed BEFORE UPDATE OF id, study, coordinator, slot, agent, config, digest, signature
ON memberships BEGIN SELECT RAISE(ABORT, 'what was enrolled for does not change'); END;
CREATE TRIGGER seeds_are_drawn_once BEFORE UPDATE OF seed ON memberships
WHEN OLD.seed IS NOT NULL AND NEW.seed IS NOT OLD.seed
BEGIN SELECT RAISE(ABORT, 'a seed is drawn once'); END;

CREATE TABLE charges (
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    round INTEGER NOT NULL CHECK (round >= 0),
    event BLOB NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('default', 'paper')),
    charged_at_ms INTEGER NOT NULL,
    PRIMARY KEY (digest, round)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER charges_are_not_updated BEFORE UPDATE ON charges
BEGIN SELECT RAISE(ABORT, 'a charge stays as it is'); END;
CREATE TRIGGER charges_are_not_deleted BEFORE DELETE ON charges
BEGIN SELECT RAISE(ABORT, 'a charge stays as it is'); END;
CREATE TRIGGER charges_are_made_once BEFORE INSERT ON charges
WHEN EXISTS (SELECT 1 FROM charges WHERE digest = NEW.digest AND round = NEW.round)
BEGIN SELECT RAISE(ABORT, 'a round is charged once'); END;

CREATE TABLE cap (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    epsilon REAL NOT NULL,
    delta REAL NOT NULL
) STRICT;

CREATE TABLE handouts (
    membership INTEGER NOT NULL REFERENCES memberships (id),
    round INTEGER NOT NULL CHECK (round >= 0),
    n_told INTEGER NOT NULL CHECK (n_told >= 0),
    bytes BLOB NOT NULL,
    head TEXT NOT NULL,
    taken_at_ms INTEGER NOT NULL,
    PRIMARY KEY (membership, round)
) STRICT;
CREATE TRIGGER handouts_are_appended BEFORE INSERT ON handouts
WHEN NEW.round <= (SELECT max(round) FROM handouts WHERE membership = NEW.membership)
BEGIN SELECT RAISE(ABORT, 'handouts are only appended'); END;
CREATE TRIGGER handouts_are_not_updated BEFORE UPDATE ON handouts
BEGIN SELECT RAISE(ABORT, 'handouts are only appended'); END;
CREATE TRIGGER handouts_are_not_deleted BEFORE DELETE ON handouts
BEGIN SELECT RAISE(ABORT, 'handouts are only appended'); END;

CREATE TABLE uploads (
    membership INTEGER NOT NULL REFERENCES memberships (id),
    round INTEGER NOT NULL CHECK (round >= 0),
    bytes BLOB NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'acknowledged', 'missed', 'withheld')),
    made_at_ms INTEGER NOT NULL,
    PRIMARY KEY (membership, round)
) STRICT;
CREATE TRIGGER uploads_are_made_once BEFORE INSERT ON uploads
WHEN NEW.round <= (SELECT max(round) FROM uploads WHERE membership = NEW.membership)
BEGIN SELECT RAISE(ABORT, 'a round has one upload'); END;
CREATE TRIGGER uploads_are_fixed BEFORE UPDATE OF membership, round, bytes, made_at_ms ON uploads
BEGIN SELECT RAISE(ABORT, 'what was made for a round does not change'); END;
CREATE TRIGGER uploads_end_once BEFORE UPDATE OF state ON uploads
WHEN OLD.state <> 'pending' AND NEW.state <> OLD.state
BEGIN SELECT RAISE(ABORT, 'how an upload ended does not change'); END;
CREATE TRIGGER uploads_are_not_deleted BEFORE DELETE ON uploads
BEGIN SELECT RAISE(ABORT, 'what was made for a round stays'); END;
";

/// Allows a vector to be replaced by its hash, once and permanently.
const STEP_2: &str = "
ALTER TABLE uploads ADD COLUMN hash BLOB CHECK (length(hash) = 32);
DROP TRIGGER uploads_are_fixed;
CREATE TRIGGER uploads_are_fixed BEFORE UPDATE OF membership, round, bytes, hash, made_at_ms ON uploads
WHEN NOT (NEW.membership = OLD.membership AND NEW.round = OLD.round AND NEW.made_at_ms = OLD.made_at_ms
          AND OLD.hash IS NULL AND NEW.hash IS NOT NULL AND NEW.bytes = x'')
BEGIN SELECT RAISE(ABORT, 'what was made for a round does not change'); END;
";

/// Adds the number of finished trials when an upload was made. An agent at a free pace continues
/// from there.
const STEP_3: &str = "
ALTER TABLE uploads ADD COLUMN n_told INTEGER CHECK (n_told >= 0);
DROP TRIGGER uploads_are_fixed;
CREATE TRIGGER uploads_are_fixed BEFORE UPDATE OF membership, round, bytes, hash, made_at_ms, n_told ON uploads
WHEN NOT (NEW.membership = OLD.membership AND NEW.round = OLD.round AND NEW.made_at_ms = OLD.made_at_ms
          AND NEW.n_told IS OLD.n_told AND OLD.hash IS NULL AND NEW.hash IS NOT NULL AND NEW.bytes = x'')
BEGIN SELECT RAISE(ABORT, 'what was made for a round does not change'); END;
";

/// Adds the request counter, and the largest counter with a response (INV-28).
const STEP_4: &str = "
ALTER TABLE memberships ADD COLUMN counter INTEGER NOT NULL DEFAULT 0 CHECK (counter >= 0);
ALTER TABLE memberships ADD COLUMN answered INTEGER NOT NULL DEFAULT 0 CHECK (answered >= 0);
CREATE TRIGGER counters_grow BEFORE UPDATE OF counter, answered ON memberships
WHEN NEW.counter < OLD.counter OR NEW.answered < OLD.answered
BEGIN SELECT RAISE(ABORT, 'a counter only grows'); END;
";

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// A trigger rejects each statement that would rewrite data that the agent relies on.
    #[test]
    fn what_was_charged_taken_and_sent_is_not_rewritten() {
        let connection = Connection::open_in_memory().unwrap();
        FORMAT.create_layout(&connection).unwrap();
        connection
            .execute_batch(
                "INSERT INTO memberships VALUES (1, 's', 'u', NULL, zeroblob(32), 0, 'a', 'c', zeroblob(32), zeroblob(64),
                     zeroblob(32), zeroblob(8), 0, 0, 0, 5, 3);
                 INSERT INTO charges VALUES (zeroblob(32), 0, x'01', 'default', 0);
                 INSERT INTO handouts VALUES (1, 2, 0, x'01', '0:00', 0);
                 INSERT INTO uploads VALUES (1, 0, x'01', 'acknowledged', 0, NULL, 2);
                 INSERT INTO uploads VALUES (1, 1, x'01', 'pending', 0, NULL, 3);",
            )
            .unwrap();
        for (sql, part) in [
            ("DELETE FROM memberships", "stays"),
            ("UPDATE memberships SET slot = 3", "does not change"),
            ("UPDATE memberships SET counter = 4", "only grows"),
            ("UPDATE memberships SET answered = 2", "only grows"),
            ("UPDATE memberships SET config = 'd'", "does not change"),
            ("UPDATE memberships SET seed = x'0000000000000001'", "drawn once"),
            ("UPDATE charges SET event = x'02'", "stays as it is"),
            ("DELETE FROM charges", "stays as it is"),
            (
                "INSERT OR REPLACE INTO charges VALUES (zeroblob(32), 0, x'00', 'default', 0)",
                "charged once",
            ),
            ("UPDATE handouts SET bytes = x'02'", "only appended"),
            ("DELETE FROM handouts", "only appended"),
            ("INSERT OR REPLACE INTO handouts VALUES (1, 2, 0, x'02', '0:00', 0)", "only appended"),
            ("INSERT INTO handouts VALUES (1, 1, 0, x'02', '0:00', 0)", "only appended"),
            ("UPDATE uploads SET bytes = x'02'", "does not change"),
            ("UPDATE uploads SET bytes = x''", "does not change"),
            ("UPDATE uploads SET hash = zeroblob(32)", "does not change"),
            ("UPDATE uploads SET n_told = 9", "does not change"),
            ("UPDATE uploads SET state = 'pending' WHERE round = 0", "ended"),
            ("DELETE FROM uploads", "stays"),
            (
                "INSERT OR REPLACE INTO uploads VALUES (1, 1, x'02', 'pending', 0, NULL, 3)",
                "one upload",
            ),
        ] {
            let error = connection.execute_batch(sql).unwrap_err().to_string();
            assert!(error.contains(part), "{sql}: {error}");
        }
        connection
            .execute_batch(
                "UPDATE uploads SET state = 'missed' WHERE round = 1; UPDATE memberships SET url = 'v', finished = 1;
                 INSERT INTO handouts VALUES (1, 3, 0, x'02', '0:00', 0);
                 UPDATE uploads SET bytes = x'', hash = zeroblob(32) WHERE round = 0;",
            )
            .unwrap();
        let again = connection.execute_batch("UPDATE uploads SET hash = x'01' WHERE round = 0");
        assert!(again.unwrap_err().to_string().contains("does not change"));
    }
}
