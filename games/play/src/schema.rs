//! The schema of a game's record, version by version.

use fedbo_database::Format;

/// The format of a record. Its application ID is "fedg" in ASCII.
pub(crate) const FORMAT: Format = Format {
    application_id: 0x6665_6467,
    steps: &[STEP_1],
    what: "record of a game",
    never: "no game was ever started in it",
    verify: None,
};

/// Rounds count from 0 here. The table of moves contains one move per round and player: a move by a
/// program or a person, or its substitute. The moves of reasoning players follow from the other
/// data. Tables are append-only: triggers refuse changes that this program must never make.
const STEP_1: &str = "
CREATE TABLE game (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    definition TEXT NOT NULL
) STRICT;
CREATE TRIGGER games_are_fixed BEFORE UPDATE ON game BEGIN SELECT RAISE(ABORT, 'a game stays what it is'); END;
CREATE TRIGGER games_stay BEFORE DELETE ON game BEGIN SELECT RAISE(ABORT, 'a game stays what it is'); END;

CREATE TABLE moves (
    round INTEGER NOT NULL CHECK (round >= 0),
    player INTEGER NOT NULL CHECK (player >= 0),
    point TEXT NOT NULL,
    stand_in TEXT, -- why another action stands in for the player's own, as JSON; null where it is its own
    PRIMARY KEY (round, player)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER moves_are_not_updated BEFORE UPDATE ON moves BEGIN SELECT RAISE(ABORT, 'a move stands'); END;
CREATE TRIGGER moves_are_not_deleted BEFORE DELETE ON moves BEGIN SELECT RAISE(ABORT, 'a move stands'); END;

CREATE TABLE rounds (
    round INTEGER PRIMARY KEY CHECK (round >= 0),
    played TEXT NOT NULL
) STRICT;
CREATE TRIGGER rounds_are_appended BEFORE INSERT ON rounds
WHEN NEW.round IS NOT (SELECT coalesce(max(round) + 1, 0) FROM rounds)
BEGIN SELECT RAISE(ABORT, 'rounds are only appended'); END;
CREATE TRIGGER rounds_are_not_updated BEFORE UPDATE ON rounds
BEGIN SELECT RAISE(ABORT, 'rounds are only appended'); END;
CREATE TRIGGER rounds_are_not_deleted BEFORE DELETE ON rounds
BEGIN SELECT RAISE(ABORT, 'rounds are only appended'); END;
";
