//! Schema of a coordinator's store.

use fedbo_database::Format;

/// Format of the store's file. The application ID is "fedc" in ASCII.
pub(super) const FORMAT: Format = Format {
    application_id: 0x6665_6463,
    steps: &[STEP_1],
    what: "coordinator's store",
    never: "no study was ever created in it",
    verify: Some("fedbo storage verify"),
};

/// First version of the layout. Times are milliseconds since 1970.
///
/// `holder` leads a study until `until_ms`, with the fencing token `token`. `generation` has one
/// row.
const STEP_1: &str = "
CREATE TABLE studies (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    config TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'paused', 'finished')),
    round INTEGER NOT NULL CHECK (round >= 0),
    began_ms INTEGER,
    head TEXT,
    holder TEXT,
    until_ms INTEGER,
    token INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE slots (
    study INTEGER NOT NULL REFERENCES studies (id),
    slot INTEGER NOT NULL CHECK (slot >= 0),
    name TEXT NOT NULL,
    key BLOB CHECK (length(key) = 32),
    previous BLOB CHECK (length(previous) = 32),
    revoked INTEGER NOT NULL DEFAULT 0 CHECK (revoked IN (0, 1)),
    PRIMARY KEY (study, slot)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX slots_by_key ON slots (study, key) WHERE key IS NOT NULL;

CREATE TABLE tokens (
    secret BLOB PRIMARY KEY CHECK (length(secret) = 32),
    study INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    used_by BLOB CHECK (length(used_by) = 32),
    FOREIGN KEY (study, slot) REFERENCES slots (study, slot)
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_by_slot ON tokens (study, slot);

CREATE TABLE broadcasts (
    study INTEGER NOT NULL REFERENCES studies (id),
    round INTEGER NOT NULL CHECK (round >= 0),
    bytes BLOB NOT NULL,
    PRIMARY KEY (study, round)
) STRICT, WITHOUT ROWID;

CREATE TABLE releases (
    study INTEGER NOT NULL REFERENCES studies (id),
    round INTEGER NOT NULL CHECK (round >= 0),
    bytes BLOB NOT NULL,
    PRIMARY KEY (study, round)
) STRICT, WITHOUT ROWID;

CREATE TABLE generation (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    number INTEGER NOT NULL
) STRICT;
INSERT INTO generation VALUES (1, 1);
";

/// Participants of releases that are charged or made at a free pace: four bytes per slot, and the
/// digest of the release. The table is created on first use.
pub(super) const PARTICIPANTS: &str = "CREATE TABLE IF NOT EXISTS participants (
    study INTEGER NOT NULL REFERENCES studies (id),
    round INTEGER NOT NULL CHECK (round >= 0),
    slots BLOB NOT NULL CHECK (length(slots) % 4 = 0),
    release BLOB NOT NULL CHECK (length(release) = 32),
    PRIMARY KEY (study, round)
) STRICT, WITHOUT ROWID";

/// Counters of slots: the last requests, and the first round that may belong to the slot's key. The
/// table is created on first use.
pub(super) const COUNTERS: &str = "CREATE TABLE IF NOT EXISTS counters (
    study INTEGER NOT NULL REFERENCES studies (id),
    slot INTEGER NOT NULL CHECK (slot >= 0),
    recent BLOB NOT NULL CHECK (length(recent) % 24 = 0),
    since INTEGER NOT NULL CHECK (since >= 0),
    PRIMARY KEY (study, slot)
) STRICT, WITHOUT ROWID";

/// Commitments of helpers of secure sums. The table is created on first use.
pub(super) const COMMITMENTS: &str = "CREATE TABLE IF NOT EXISTS commitments (
    study INTEGER NOT NULL REFERENCES studies (id),
    round INTEGER NOT NULL CHECK (round >= 0),
    hash BLOB NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (study, round)
) STRICT, WITHOUT ROWID";
