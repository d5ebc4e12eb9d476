//! The file's layout, by version.

use std::path::Path;

use fedbo_database::Format;

use crate::StorageError;

/// The format of a storage file. The bytes of its application id spell "fedb".
pub(super) const FORMAT: Format = Format {
    application_id: 0x6665_6462,
    steps: &[STEP_1, STEP_2],
    what: "storage of studies",
    never: "no study was ever stored in it",
    verify: Some("fedbo storage verify"),
};

/// Times are in milliseconds since 1970. `value` has the type ANY, because with type REAL, SQLite
/// would store −0.0 as 0. `point` is JSON. A trial is waiting if it has neither `holder` nor
/// `told_seq`,
/// running if it has a `holder`, and finished if it has a `told_seq`.
const STEP_1: &str = "
CREATE TABLE studies (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    definition TEXT NOT NULL
) STRICT;

CREATE TABLE trials (
    study INTEGER NOT NULL REFERENCES studies (id),
    number INTEGER NOT NULL CHECK (number >= 0),
    point TEXT NOT NULL,
    encoding BLOB NOT NULL,
    source TEXT NOT NULL,
    ask_seconds REAL NOT NULL,
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    asked_at_ms INTEGER NOT NULL,
    started_at_ms INTEGER,
    holder TEXT,
    holder_process TEXT,
    until_ms INTEGER,
    told_seq INTEGER CHECK (told_seq > 0),
    told_at_ms INTEGER,
    value ANY CHECK (value IS NULL OR typeof(value) = 'real'),
    failure_kind TEXT,
    failure_message TEXT,
    PRIMARY KEY (study, number),
    CHECK (holder IS NULL OR (told_seq IS NULL AND started_at_ms IS NOT NULL)),
    CHECK (holder IS NOT NULL OR (holder_process IS NULL AND until_ms IS NULL)),
    CHECK ((told_seq IS NULL) = (told_at_ms IS NULL)),
    CHECK ((value IS NOT NULL) + (failure_kind IS NOT NULL) = (told_seq IS NOT NULL)),
    CHECK ((failure_kind IS NULL) = (failure_message IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX trials_by_encoding ON trials (study, encoding);
CREATE INDEX trials_open ON trials (study, number) WHERE told_seq IS NULL;
CREATE UNIQUE INDEX trials_by_telling ON trials (study, told_seq) WHERE told_seq IS NOT NULL;
";

/// Adds intermediate reports of trials. The `value` of a stopped trial is its last reported value,
/// stored with the epoch and the reason. `value` is final only if `stopped_epoch` is null.
const STEP_2: &str = "
CREATE TABLE reports (
    study INTEGER NOT NULL,
    number INTEGER NOT NULL,
    epoch INTEGER NOT NULL CHECK (epoch > 0),
    value ANY NOT NULL CHECK (typeof(value) = 'real'),
    PRIMARY KEY (study, number, epoch),
    FOREIGN KEY (study, number) REFERENCES trials (study, number)
) STRICT, WITHOUT ROWID;

ALTER TABLE trials ADD COLUMN stopped_epoch INTEGER
    CHECK (stopped_epoch IS NULL OR (stopped_epoch > 0 AND value IS NOT NULL));
ALTER TABLE trials ADD COLUMN stopped_because TEXT
    CHECK ((stopped_because IS NULL) = (stopped_epoch IS NULL));
";

/// Returns the error for an unsupported layout version, with advice.
pub(super) fn other_version(found: i64, expected: i64, path: &Path) -> StorageError {
    let remedy = if found < expected {
        "`fedbo storage upgrade` brings it up to date and keeps a copy"
    } else {
        "use the newer fedbo that wrote it"
    };
    StorageError::Version { place: path.display().to_string(), found, expected, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_is_not_ours_has_a_way_out() {
        let text = |found| other_version(found, 2, Path::new("study.db")).to_string();
        assert_eq!(
            text(1),
            "study.db: its layout has version 1, this program reads 2; `fedbo storage upgrade` brings it up to date and \
             keeps a copy"
        );
        assert_eq!(
            text(3),
            "study.db: its layout has version 3, this program reads 2; use the newer fedbo that wrote it"
        );
    }
}
