//! Schema of `peer.db`, with one step per version.

use fedbo_database::Format;

/// Format of a peer's database file. The application ID is "fedp" in ASCII.
pub(crate) const FORMAT: Format = Format {
    application_id: 0x6665_6470,
    steps: &[STEP_1],
    what: "peer's database",
    never: "no peer was ever started in it",
    verify: None,
};

/// Layout of version 1. `at_ms` is the peer's total running time since its first start.
///
/// Events and reports are append-only: triggers reject changes that this program must never make.
const STEP_1: &str = "
CREATE TABLE peer (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    name TEXT NOT NULL,
    slot INTEGER NOT NULL CHECK (slot >= 0),
    federation BLOB NOT NULL CHECK (length(federation) = 32),
    study TEXT NOT NULL,
    rounds INTEGER NOT NULL CHECK (rounds >= 0),
    maximizes INTEGER NOT NULL CHECK (maximizes IN (0, 1)),
    key BLOB NOT NULL CHECK (length(key) = 32)
) STRICT;
CREATE TRIGGER peers_are_fixed BEFORE UPDATE ON peer BEGIN SELECT RAISE(ABORT, 'a peer stays who it is'); END;
CREATE TRIGGER peers_stay BEFORE DELETE ON peer BEGIN SELECT RAISE(ABORT, 'a peer stays who it is'); END;

CREATE TABLE neighbours (
    slot INTEGER PRIMARY KEY CHECK (slot >= 0),
    name TEXT NOT NULL,
    url TEXT NOT NULL,
    key BLOB CHECK (length(key) = 32),
    confirmed INTEGER NOT NULL DEFAULT 0 CHECK (confirmed >= 0),
    contact_at_ms INTEGER
) STRICT;

CREATE TABLE events (
    seq INTEGER PRIMARY KEY CHECK (seq >= 1),
    at_ms INTEGER NOT NULL CHECK (at_ms >= 0),
    kind TEXT NOT NULL CHECK (kind IN ('evaluated', 'report', 'tick')),
    trial INTEGER CHECK ((trial IS NOT NULL) = (kind = 'evaluated')),
    value BLOB CHECK (value IS NULL OR (kind = 'evaluated' AND length(value) = 8)),
    sender INTEGER CHECK ((sender IS NOT NULL) = (kind = 'report')),
    round INTEGER CHECK ((round IS NOT NULL) = (kind = 'report')),
    bytes BLOB CHECK ((bytes IS NOT NULL) = (kind = 'report'))
) STRICT;
CREATE UNIQUE INDEX trials_end_once ON events (trial) WHERE kind = 'evaluated';
CREATE UNIQUE INDEX reports_come_once ON events (sender, round) WHERE kind = 'report';
CREATE TRIGGER events_are_appended BEFORE INSERT ON events
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM events)
    OR NEW.at_ms < (SELECT coalesce(max(at_ms), 0) FROM events WHERE seq = NEW.seq - 1)
BEGIN SELECT RAISE(ABORT, 'events are only appended'); END;
CREATE TRIGGER events_are_not_updated BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are only appended'); END;
CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are only appended'); END;

CREATE TABLE outbox (
    round INTEGER PRIMARY KEY CHECK (round >= 0),
    bytes BLOB NOT NULL
) STRICT;
CREATE TRIGGER reports_are_appended BEFORE INSERT ON outbox
WHEN NEW.round IS NOT (SELECT coalesce(max(round) + 1, 0) FROM outbox)
BEGIN SELECT RAISE(ABORT, 'reports are only appended'); END;
CREATE TRIGGER reports_are_not_updated BEFORE UPDATE ON outbox
BEGIN SELECT RAISE(ABORT, 'reports are only appended'); END;
CREATE TRIGGER reports_are_not_deleted BEFORE DELETE ON outbox
BEGIN SELECT RAISE(ABORT, 'reports are only appended'); END;

CREATE TABLE conflicts (
    sender INTEGER NOT NULL,
    round INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (sender, round)
) STRICT, WITHOUT ROWID;
";
