//! Schema of `helper.db`.

use fedbo_database::Format;

/// Format of a helper's database file. The application ID is "fedh" in ASCII.
pub(crate) const FORMAT: Format = Format {
    application_id: 0x6665_6468,
    steps: &[STEP_1, STEP_2],
    what: "helper's memory",
    never: "no helper was ever created in it",
    verify: None,
};

/// A share is stored, then charged, then released. It can be replaced until `seq` is set.
const STEP_1: &str = "
CREATE TABLE studies (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    url TEXT NOT NULL,
    coordinator BLOB NOT NULL CHECK (length(coordinator) = 32),
    config TEXT NOT NULL,
    joined_at_ms INTEGER NOT NULL
) STRICT;
CREATE TRIGGER studies_are_fixed BEFORE UPDATE ON studies BEGIN SELECT RAISE(ABORT, 'a study never changes'); END;
CREATE TRIGGER studies_stay BEFORE DELETE ON studies BEGIN SELECT RAISE(ABORT, 'a study stays'); END;

CREATE TABLE shares (
    study INTEGER NOT NULL REFERENCES studies (id),
    round INTEGER NOT NULL CHECK (round >= 0),
    slots BLOB NOT NULL,
    share BLOB NOT NULL,
    seq INTEGER CHECK (seq >= 1),
    leader_share BLOB CHECK (length(leader_share) = 32),
    PRIMARY KEY (study, round),
    UNIQUE (study, seq)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER shares_stay BEFORE DELETE ON shares WHEN OLD.seq IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'what was given away stays'); END;
CREATE TRIGGER shares_are_fixed BEFORE UPDATE ON shares
WHEN OLD.seq IS NOT NULL AND (NEW.seq IS NOT OLD.seq OR NEW.share IS NOT OLD.share OR NEW.slots IS NOT OLD.slots
    OR (OLD.leader_share IS NOT NULL AND NEW.leader_share IS NOT OLD.leader_share))
BEGIN SELECT RAISE(ABORT, 'what was given away never changes'); END;
";

/// Adds the helper's verdicts on the reports in a share, kept until the leader reveals its own
/// share.
///
/// A restarted leader requests the verdicts again, and the key that opens the reports may have been
/// erased by then.
const STEP_2: &str = "ALTER TABLE shares ADD COLUMN verdicts BLOB;";
