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
