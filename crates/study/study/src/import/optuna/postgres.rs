//! Storages of Optuna in PostgreSQL.

use std::error::Error;

use fedbo_postgres::{Connector, Operation, PostgresAddress, Problem};
use postgres::types::{FromSql, Kind, ToSql, Type};
use postgres::{Client, Row};

use super::Defect;
use super::tables::{Cells, Database, NAMES, check_tables};

/// A connection within a transaction that sees all as it was at one time, and changes nothing.
struct Reader {
    client: Option<Client>,
    schema: String,
}

/// The schema where the user's statements find the tables, and what has their names there: `r` and `p` are tables.
const FIND: &str = "SELECT n.nspname::text, c.relname::text, c.relkind IN ('r', 'p')
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relname = ANY ($1) AND n.oid = (SELECT s.relnamespace FROM pg_catalog.pg_class s
         WHERE s.oid = pg_catalog.to_regclass('trial_params'))";

/// Others may have changed what names and operators mean in this database, and have rules of their own for rows.
const GUARD: &str =
    "SET search_path = pg_catalog, pg_temp; SET row_security = off; SET lock_timeout = '30s'";

/// Connects to a database for reading.
pub(super) fn open(address: &PostgresAddress) -> Result<impl Database, Defect> {
    let unreadable = |problem: Problem| {
        Defect::Unreadable(problem.words(Operation::Connect, "that Optuna uses"))
    };
    let connector = Connector::new(address).map_err(unreadable)?;
    let client = connector.connect_unchecked().map_err(unreadable)?;
    let mut reader = Reader { client: Some(client), schema: String::new() };
    let client = reader.client()?;
    client.batch_execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    let names: &(dyn ToSql + Sync) = &&NAMES[..];
    let found = client.query_typed(FIND, &[(names, Type::TEXT_ARRAY)])?;
    let Some(row) = found.first() else {
        return Err(Defect::Storage("it has no table trial_params".to_owned()));
    };
    let schema: String = row.try_get(0)?;
    let mut others = Vec::new();
    for row in &found {
        let (name, is_table): (String, bool) = (row.try_get(1)?, row.try_get(2)?);
        if !is_table {
            others.push(name);
        }
    }
    check_tables(others)?;
    client.batch_execute(GUARD)?;
    reader.schema = format!("\"{}\"", schema.replace('"', "\"\""));
    Ok(reader)
}

impl Drop for Reader {
    fn drop(&mut self) {
        fedbo_postgres::close(self.client.take().into_iter().collect());
    }
}

impl From<postgres::Error> for Defect {
    fn from(error: postgres::Error) -> Self {
        let problem = Problem::from(error);
        let message = problem.words(Operation::Read, "that Optuna uses");
        if problem.is_damage() { Self::Storage(message) } else { Self::Unreadable(message) }
    }
}

impl Reader {
    fn client(&mut self) -> Result<&mut Client, Defect> {
        let closed = || Defect::Unreadable("the connection is closed".to_owned());
        self.client.as_mut().ok_or_else(closed)
    }
}

impl Database for Reader {
    fn schema(&self) -> &str {
        &self.schema
    }

    fn query(
        &mut self,
        sql: &str,
        study: Option<i64>,
        each: &mut dyn FnMut(&dyn Cells) -> Result<(), Defect>,
    ) -> Result<(), Defect> {
        let study: Vec<(&(dyn ToSql + Sync), Type)> =
            study.iter().map(|key| (key as &(dyn ToSql + Sync), Type::INT8)).collect();
        let rows = self.client()?.query_typed(sql, &study)?;
        rows.iter().try_for_each(|row| each(row))
    }
}

impl Cells for Row {
    fn whole(&self, column: usize) -> Result<i64, Defect> {
        match self.columns().get(column).map(postgres::Column::type_) {
            Some(&Type::INT4) => Ok(i64::from(self.try_get::<_, i32>(column)?)),
            _ => Ok(self.try_get(column)?),
        }
    }

    fn real(&self, column: usize) -> Result<Option<f64>, Defect> {
        Ok(self.try_get(column)?)
    }

    fn text(&self, column: usize) -> Result<String, Defect> {
        let Text(text) = self.try_get(column)?;
        Ok(text)
    }
}

/// A text, or the name of a value of an enumeration: states, directions and kinds of values are such.
struct Text(String);

impl<'a> FromSql<'a> for Text {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?.to_owned()))
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::TEXT | Type::VARCHAR) || matches!(kind.kind(), Kind::Enum(_))
    }
}
