//! The layout, in the separate schema `fedbo` of the database.

use postgres::{Client, IsolationLevel, Transaction};

use super::failure::Failure;
use crate::Mode;

/// The layout's version.
pub(super) const VERSION: i64 = 2;

/// Advisory lock that is held while a layout is created, so that two processes do not both create
/// it. The bytes spell "fedb".
const LAYING_OUT: i64 = 0x6665_6462;

/// Version 1. Times are in milliseconds since 1970. `point` and `holder_process` are JSON. In all
/// other strings, U+0000 is escaped. A trial is waiting if it has neither `holder` nor `told_seq`,
/// running if it has a `holder`, and finished if it has a `told_seq`. Names and encodings may
/// exceed the size limit of an index entry, so their indexes store hashes.
const LAYOUT: &str = r#"
CREATE TABLE fedbo.layout (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    version bigint NOT NULL
);

CREATE TABLE fedbo.studies (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    definition text NOT NULL,
    CONSTRAINT studies_by_name EXCLUDE USING hash (name WITH =)
);

CREATE TABLE fedbo.trials (
    study bigint NOT NULL REFERENCES fedbo.studies (id),
    number bigint NOT NULL CHECK (number >= 0),
    point text NOT NULL,
    encoding bytea NOT NULL,
    source text NOT NULL,
    ask_seconds double precision NOT NULL,
    attempts bigint NOT NULL CHECK (attempts >= 0),
    asked_at_ms bigint NOT NULL,
    started_at_ms bigint,
    holder text COLLATE "C",
    holder_process text,
    until_ms bigint,
    told_seq bigint CHECK (told_seq > 0),
    told_at_ms bigint,
    value double precision CHECK (value > '-Infinity' AND value < 'Infinity'),
    failure_kind text,
    failure_message text,
    PRIMARY KEY (study, number),
    CHECK (holder IS NULL OR (told_seq IS NULL AND started_at_ms IS NOT NULL)),
    CHECK (holder IS NOT NULL OR (holder_process IS NULL AND until_ms IS NULL)),
    CHECK ((told_seq IS NULL) = (told_at_ms IS NULL)),
    CHECK (num_nonnulls(value, failure_kind) = num_nonnulls(told_seq)),
    CHECK ((failure_kind IS NULL) = (failure_message IS NULL))
);

CREATE INDEX trials_by_encoding ON fedbo.trials (study, sha256(encoding), number);
CREATE INDEX trials_open ON fedbo.trials (study, number) WHERE told_seq IS NULL;
CREATE UNIQUE INDEX trials_by_telling ON fedbo.trials (study, told_seq) WHERE told_seq IS NOT NULL;
"#;

/// Upgrades version 1 to 2, which adds intermediate reports of trials. The `value` of a stopped
/// trial is its last reported value, stored with the epoch and the reason. `value` is final only if
/// `stopped_epoch` is null.
const STEP_2: &str = r#"
CREATE TABLE fedbo.reports (
    study bigint NOT NULL,
    number bigint NOT NULL,
    epoch bigint NOT NULL CHECK (epoch > 0),
    value double precision NOT NULL CHECK (value > '-Infinity' AND value < 'Infinity'),
    PRIMARY KEY (study, number, epoch),
    FOREIGN KEY (study, number) REFERENCES fedbo.trials (study, number)
);

ALTER TABLE fedbo.trials
    ADD COLUMN stopped_epoch bigint,
    ADD COLUMN stopped_because text,
    ADD CHECK (stopped_epoch IS NULL OR (stopped_epoch > 0 AND value IS NOT NULL)),
    ADD CHECK ((stopped_epoch IS NULL) = (stopped_because IS NULL));
"#;

/// Returns SQL that copies the grants of SELECT, INSERT and UPDATE on the trials to a table that is
/// created on first use.
pub(super) fn grants(table: &str) -> String {
    format!(
        "DO $$
         DECLARE
             allowed record;
         BEGIN
             FOR allowed IN
                 SELECT acl.privilege_type AS what,
                        CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END AS who
                 FROM pg_class AS trials, aclexplode(coalesce(trials.relacl, acldefault('r', trials.relowner))) AS acl
                 WHERE trials.oid = 'fedbo.trials'::regclass AND acl.privilege_type IN ('SELECT', 'INSERT', 'UPDATE')
             LOOP
                 EXECUTE format('GRANT %s ON {table} TO %s', allowed.what, allowed.who);
             END LOOP;
         END $$"
    )
}

/// Upgrades the layout of an older version in one transaction. Returns the version found.
pub(super) fn upgrade(client: &mut Client) -> Result<i64, Failure> {
    let mut tx =
        client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start()?;
    tx.batch_execute(&format!("SELECT pg_advisory_xact_lock({LAYING_OUT})"))?;
    match look(&mut tx)? {
        Found::Layout => {}
        Found::Other(names) => return Err(not_ours(&names)),
        Found::Nothing { .. } => return Err(Failure::Absent),
    }
    // Every change of a study first locks the study's row, and then checks the version.
    tx.batch_execute("LOCK TABLE fedbo.layout, fedbo.studies IN ACCESS EXCLUSIVE MODE")?;
    let found = version(&mut tx)?;
    match found {
        VERSION => return Ok(found),
        1 => tx.batch_execute(STEP_2)?,
        other => return Err(Failure::Version(other)),
    }
    tx.batch_execute(&format!("UPDATE fedbo.layout SET version = {VERSION}"))?;
    tx.commit()?;
    Ok(found)
}

/// Checks that the layout exists and has this program's version. [`Mode::Create`] creates a missing
/// layout.
pub(super) fn prepare(client: &mut Client, mode: Mode) -> Result<(), Failure> {
    let mut tx = client.transaction()?;
    match (look(&mut tx)?, mode) {
        (Found::Layout, _) => return check(version(&mut tx)?),
        (Found::Other(names), _) => return Err(not_ours(&names)),
        (Found::Nothing { .. }, Mode::Existing) => return Err(Failure::Absent),
        (Found::Nothing { .. }, Mode::Create) => {}
    }
    drop(tx);
    let mut tx =
        client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start()?;
    tx.batch_execute(&format!("SELECT pg_advisory_xact_lock({LAYING_OUT})"))?;
    // Another process may have created the layout first.
    match look(&mut tx)? {
        Found::Layout => return check(version(&mut tx)?),
        Found::Other(names) => return Err(not_ours(&names)),
        Found::Nothing { has_schema } => {
            if !has_schema {
                tx.batch_execute("CREATE SCHEMA fedbo")?;
            }
        }
    }
    tx.batch_execute(LAYOUT)?;
    tx.batch_execute(STEP_2)?;
    tx.batch_execute(&format!("INSERT INTO fedbo.layout (version) VALUES ({VERSION})"))?;
    Ok(tx.commit()?)
}

/// Returns the version of the existing layout.
fn version(tx: &mut Transaction<'_>) -> Result<i64, Failure> {
    Ok(additions(tx)?.0)
}

/// The tables that exist beside the layout, because their first row was stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Additions {
    /// True if the table of further numbers exists.
    pub(super) has_outcomes: bool,
    /// True if the table of corrections exists.
    pub(super) has_corrections: bool,
}

/// Returns the version, and the tables that exist beside the layout.
pub(super) fn additions(tx: &mut Transaction<'_>) -> Result<(i64, Additions), Failure> {
    let sql = "SELECT version, to_regclass('fedbo.outcomes') IS NOT NULL, to_regclass('fedbo.corrections') IS NOT NULL \
               FROM fedbo.layout";
    let row = tx.query_typed_opt(sql, &[])?;
    let row = row.ok_or_else(|| Failure::Contradiction("its layout has no version".to_owned()))?;
    let (has_outcomes, has_corrections) = (row.try_get(1)?, row.try_get(2)?);
    Ok((row.try_get(0)?, Additions { has_outcomes, has_corrections }))
}

/// Refuses an unsupported version.
pub(super) fn check(version: i64) -> Result<(), Failure> {
    match version {
        VERSION => Ok(()),
        other => Err(Failure::Version(other)),
    }
}

/// The content found in the schema.
enum Found {
    Nothing {
        has_schema: bool,
    },
    Layout,
    /// The names of the existing tables.
    Other(String),
}

fn look(tx: &mut Transaction<'_>) -> Result<Found, Failure> {
    let row = tx.query_typed_one(
        "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'fedbo'),
                (SELECT string_agg(relname::text, ', ' ORDER BY relname::text) FROM pg_class
                 WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND relnamespace = to_regnamespace('fedbo'))",
        &[],
    )?;
    let (has_schema, tables): (bool, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
    Ok(match tables {
        None => Found::Nothing { has_schema },
        Some(names) if names.split(", ").any(|name| name == "layout") => Found::Layout,
        Some(names) => Found::Other(names),
    })
}

fn not_ours(names: &str) -> Failure {
    Failure::NotOurs(format!(
        "its schema fedbo was not created by fedbo: it contains {names}; name another database"
    ))
}
