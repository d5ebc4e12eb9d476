//! The layout of ledgers in a database, in the separate schema `fedbo_ledger`.

use fedbo_postgres::Layout;

/// Rows are only ever added to `entries` and `ledgers`. Triggers refuse other changes, as a
/// safeguard against bugs in this program. The hash chain detects changes by users who are allowed
/// to disable triggers. `token` is the fencing token of the most recent writer.
pub(crate) const LAYOUT: Layout = Layout {
    schema: "fedbo_ledger",
    version: 1,
    tables: r#"
CREATE TABLE fedbo_ledger.ledgers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    config bytea NOT NULL,
    epsilon double precision NOT NULL,
    delta double precision NOT NULL,
    mode text NOT NULL,
    accountant text NOT NULL,
    hash bytea NOT NULL CHECK (length(hash) = 32),
    token bigint NOT NULL DEFAULT 0 CHECK (token >= 0)
);

CREATE TABLE fedbo_ledger.entries (
    ledger bigint NOT NULL REFERENCES fedbo_ledger.ledgers (id),
    seq bigint NOT NULL CHECK (seq > 0),
    previous bytea NOT NULL CHECK (length(previous) = 32),
    round bigint NOT NULL CHECK (round >= 0),
    event bytea NOT NULL,
    release bytea NOT NULL,
    hash bytea NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (ledger, seq),
    UNIQUE (ledger, round)
);

CREATE FUNCTION fedbo_ledger.refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'a ledger is only appended to';
END $$;

CREATE FUNCTION fedbo_ledger.check_entry() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last record;
BEGIN
    SELECT seq, round INTO last FROM fedbo_ledger.entries WHERE ledger = NEW.ledger ORDER BY seq DESC LIMIT 1;
    IF NEW.seq <> coalesce(last.seq, 0) + 1 OR NEW.round <= coalesce(last.round, -1) THEN
        RAISE EXCEPTION 'a ledger is only appended to';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION fedbo_ledger.check_charter() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (NEW.id, NEW.name, NEW.config, NEW.epsilon, NEW.delta, NEW.mode, NEW.accountant, NEW.hash)
        IS DISTINCT FROM (OLD.id, OLD.name, OLD.config, OLD.epsilon, OLD.delta, OLD.mode, OLD.accountant, OLD.hash) THEN
        RAISE EXCEPTION 'the charter of a ledger never changes';
    END IF;
    IF NEW.token <= OLD.token THEN
        RAISE EXCEPTION 'a fencing token only grows';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER entries_are_appended BEFORE INSERT ON fedbo_ledger.entries
    FOR EACH ROW EXECUTE FUNCTION fedbo_ledger.check_entry();
CREATE TRIGGER entries_are_not_changed BEFORE UPDATE OR DELETE ON fedbo_ledger.entries
    FOR EACH ROW EXECUTE FUNCTION fedbo_ledger.refuse();
CREATE TRIGGER entries_are_not_truncated BEFORE TRUNCATE ON fedbo_ledger.entries
    FOR EACH STATEMENT EXECUTE FUNCTION fedbo_ledger.refuse();
CREATE TRIGGER charters_are_not_changed BEFORE UPDATE ON fedbo_ledger.ledgers
    FOR EACH ROW EXECUTE FUNCTION fedbo_ledger.check_charter();
CREATE TRIGGER charters_are_not_deleted BEFORE DELETE ON fedbo_ledger.ledgers
    FOR EACH ROW EXECUTE FUNCTION fedbo_ledger.refuse();
CREATE TRIGGER charters_are_not_truncated BEFORE TRUNCATE ON fedbo_ledger.ledgers
    FOR EACH STATEMENT EXECUTE FUNCTION fedbo_ledger.refuse();
"#,
};

/// The triggers of [`LAYOUT`], sorted by name.
pub(crate) const TRIGGERS: [&str; 6] = [
    "charters_are_not_changed",
    "charters_are_not_deleted",
    "charters_are_not_truncated",
    "entries_are_appended",
    "entries_are_not_changed",
    "entries_are_not_truncated",
];
