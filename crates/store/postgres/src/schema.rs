//! Layouts: tables in a separate schema with a version.

use postgres::{Client, IsolationLevel, Transaction};

use crate::Problem;

/// Advisory lock that is held while a layout is created, so that two processes do not both create
/// it. The bytes spell "fedb".
const LAYING_OUT: i64 = 0x6665_6462;

/// Tables in a separate schema. The schema's table `layout` contains the version and is created
/// with the other tables.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The name of the schema.
    pub schema: &'static str,
    /// The version that this program reads and writes.
    pub version: i64,
    /// The statements that create the tables.
    pub tables: &'static str,
}

/// The content found in a schema.
#[derive(Debug)]
pub(crate) enum Found {
    Nothing { has_schema: bool },
    Version(i64),
    Other(String),
}

impl Layout {
    /// Creates the tables if there are none and `creates` is true. Returns the resulting content.
    pub(crate) fn prepare(&self, client: &mut Client, creates: bool) -> Result<Found, Problem> {
        let mut tx = client.transaction()?;
        let found = self.look(&mut tx)?;
        tx.commit()?;
        if !matches!(found, Found::Nothing { .. }) || !creates {
            return Ok(found);
        }
        let mut tx =
            client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start()?;
        tx.batch_execute(&format!("SELECT pg_advisory_xact_lock({LAYING_OUT})"))?;
        // Another process may have created the tables first.
        let Found::Nothing { has_schema } = self.look(&mut tx)? else {
            return self.look(&mut tx);
        };
        let Self { schema, version, tables } = self;
        if !has_schema {
            tx.batch_execute(&format!("CREATE SCHEMA {schema}"))?;
        }
        tx.batch_execute(&format!(
            "CREATE TABLE {schema}.layout (
                 is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
                 version bigint NOT NULL
             );
             INSERT INTO {schema}.layout (version) VALUES ({version});"
        ))?;
        tx.batch_execute(tables)?;
        tx.commit()?;
        Ok(Found::Version(*version))
    }

    fn look(&self, tx: &mut Transaction<'_>) -> Result<Found, Problem> {
        let schema = self.schema;
        let row = tx.query_typed_one(
            &format!(
                "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = '{schema}'),
                        (SELECT string_agg(relname::text, ', ' ORDER BY relname::text) FROM pg_class
                         WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND relnamespace = to_regnamespace('{schema}'))"
            ),
            &[],
        )?;
        let (has_schema, tables): (bool, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        Ok(match tables {
            None => Found::Nothing { has_schema },
            Some(names) if names.split(", ").any(|name| name == "layout") => {
                let sql = format!("SELECT version FROM {schema}.layout");
                let row = tx.query_typed_opt(&sql, &[])?;
                Found::Version(row.map_or(Ok(0), |row| row.try_get(0))?)
            }
            Some(names) => Found::Other(names),
        })
    }
}
