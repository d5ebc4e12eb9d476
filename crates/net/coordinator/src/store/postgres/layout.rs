//! Schema `fedbo_coordinator` of a coordinator's store in a PostgreSQL database.

use fedbo_postgres::Layout;

/// Layout of the schema. Times are milliseconds since 1970.
///
/// - `holder` leads a study until `until_ms`, with the fencing token `token`.
/// - `is_open` is true while the round accepts vectors.
/// - `identity` is the coordinator's public key, as known to agents.
/// - `inbox` contains the newest vector from each slot, sealed. The vector is deleted once its
///   round is over; in a relayed study, its mark is kept.
/// - Unlogged tables are not part of base backups, WAL archives or standbys, and are empty after a
///   crash of the server. `inbox_epoch` is then empty as well, and gets a new number.
pub(super) const LAYOUT: Layout = Layout {
    schema: "fedbo_coordinator",
    version: 1,
    tables: r#"
CREATE TABLE fedbo_coordinator.studies (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    config text NOT NULL,
    state text NOT NULL CHECK (state IN ('waiting', 'running', 'paused', 'finished')),
    round bigint NOT NULL CHECK (round >= 0),
    began_ms bigint,
    is_open boolean NOT NULL DEFAULT false,
    head text,
    holder text,
    until_ms bigint,
    token bigint NOT NULL DEFAULT 0,
    CONSTRAINT studies_by_name EXCLUDE USING hash (name WITH =)
);

CREATE TABLE fedbo_coordinator.identity (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    key bytea NOT NULL CHECK (length(key) = 32)
);

CREATE TABLE fedbo_coordinator.slots (
    study bigint NOT NULL REFERENCES fedbo_coordinator.studies (id),
    slot bigint NOT NULL CHECK (slot >= 0),
    name text NOT NULL,
    key bytea CHECK (length(key) = 32),
    previous bytea CHECK (length(previous) = 32),
    revoked boolean NOT NULL DEFAULT false,
    PRIMARY KEY (study, slot)
);
CREATE UNIQUE INDEX slots_by_key ON fedbo_coordinator.slots (study, key) WHERE key IS NOT NULL;
CREATE INDEX slots_without_key ON fedbo_coordinator.slots (study) WHERE key IS NULL;

CREATE TABLE fedbo_coordinator.tokens (
    secret bytea PRIMARY KEY CHECK (length(secret) = 32),
    study bigint NOT NULL,
    slot bigint NOT NULL,
    expires_ms bigint NOT NULL,
    used_by bytea CHECK (length(used_by) = 32),
    FOREIGN KEY (study, slot) REFERENCES fedbo_coordinator.slots (study, slot)
);
CREATE INDEX tokens_by_slot ON fedbo_coordinator.tokens (study, slot);

CREATE TABLE fedbo_coordinator.broadcasts (
    study bigint NOT NULL REFERENCES fedbo_coordinator.studies (id),
    round bigint NOT NULL CHECK (round >= 0),
    bytes bytea NOT NULL,
    PRIMARY KEY (study, round)
);

CREATE TABLE fedbo_coordinator.releases (
    study bigint NOT NULL REFERENCES fedbo_coordinator.studies (id),
    round bigint NOT NULL CHECK (round >= 0),
    bytes bytea NOT NULL,
    PRIMARY KEY (study, round)
);

CREATE TABLE fedbo_coordinator.generation (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    number bigint NOT NULL
);
INSERT INTO fedbo_coordinator.generation (number) VALUES (1);

CREATE UNLOGGED TABLE fedbo_coordinator.inbox (
    study bigint NOT NULL,
    slot bigint NOT NULL,
    round bigint NOT NULL,
    mark bytea,
    sealed bytea,
    PRIMARY KEY (study, slot)
);

CREATE UNLOGGED TABLE fedbo_coordinator.inbox_epoch (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    number bigint NOT NULL
);
"#,
};

/// Participants of releases that are charged or made at a free pace: four bytes per slot, and the
/// digest of the release. The table is created on first use.
pub(super) const PARTICIPANTS: &str = "
CREATE TABLE IF NOT EXISTS fedbo_coordinator.participants (
    study bigint NOT NULL REFERENCES fedbo_coordinator.studies (id),
    round bigint NOT NULL CHECK (round >= 0),
    slots bytea NOT NULL CHECK (length(slots) % 4 = 0),
    release bytea NOT NULL CHECK (length(release) = 32),
    PRIMARY KEY (study, round)
)";

/// Counters of slots: the last requests, and the first round that may belong to the slot's key. The
/// table is created on first use.
pub(super) const COUNTERS: &str = "
CREATE TABLE IF NOT EXISTS fedbo_coordinator.counters (
    study bigint NOT NULL REFERENCES fedbo_coordinator.studies (id),
    slot bigint NOT NULL CHECK (slot >= 0),
    recent bytea NOT NULL CHECK (length(recent) % 24 = 0),
    since bigint NOT NULL CHECK (since >= 0),
    PRIMARY KEY (study, slot)
)";

/// Commitments of helpers of secure sums. The table is created on first use.
pub(super) const COMMITMENTS: &str = "
CREATE TABLE IF NOT EXISTS fedbo_coordinator.commitments (
    study bigint NOT NULL REFERENCES fedbo_coordinator.studies (id),
    round bigint NOT NULL CHECK (round >= 0),
    hash bytea NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (study, round)
)";

/// Shards' parts of rounds: slots and sealed sums. The table is created on first use.
///
/// Like the inbox, it is unlogged.
pub(super) const SHARDS: &str = "
CREATE UNLOGGED TABLE IF NOT EXISTS fedbo_coordinator.shards (
    study bigint NOT NULL,
    shard bigint NOT NULL,
    round bigint NOT NULL,
    began_ms bigint NOT NULL,
    seen_ms bigint NOT NULL,
    is_final boolean NOT NULL,
    slots bytea NOT NULL,
    counts bytea,
    sealed bytea,
    PRIMARY KEY (study, shard)
)";
