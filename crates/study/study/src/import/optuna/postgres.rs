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

/// The table that the user's own statements would find.
const FIND: &str = "SELECT CAST(pg_catalog.to_regclass('trial_params') AS pg_catalog.oid)";

/// Others may have changed what names and operators mean in this database, and have rules of their own for rows.
const GUARD: &str =
    "SET search_path = pg_catalog, pg_temp; SET row_security = off; SET lock_timeout = '30s';
     SET idle_in_transaction_session_timeout = '60s'";

/// The schema of that table, and what there has a table's name: `r` and `p` are tables.
const TABLES: &str =
    "SELECT CAST(n.nspname AS text), CAST(c.relname AS text), c.relkind IN ('r', 'p')
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relname = ANY ($1) AND n.oid = (SELECT relnamespace FROM pg_class WHERE oid = $2)";

/// Columns of those tables of a type that is not the server's own: what compares and converts it is its author's. Three of Optuna's are
/// enumerations, which are read and not compared.
const COLUMNS: &str = "SELECT CAST(c.relname AS text) || '.' || CAST(a.attname AS text)
     FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
     WHERE c.relname = ANY ($1) AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = $2)
     AND a.attnum > 0 AND NOT a.attisdropped AND t.typnamespace <> CAST('pg_catalog' AS regnamespace)
     AND NOT (t.typtype = 'e' AND a.attname IN ('state', 'direction', 'value_type'))";

/// Connects to a database for reading.
pub(super) fn open(address: &PostgresAddress) -> Result<impl Database, Defect> {
    let unreadable = |problem: Problem| {
        Defect::Unreadable(problem.words(Operation::Connect, "of Optuna's tables"))
    };
    let connector = Connector::new(address).map_err(unreadable)?;
    let client = connector.connect_unchecked().map_err(unreadable)?;
    let mut reader = Reader { client: Some(client), schema: String::new() };
    let client = reader.client()?;
    client.batch_execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    let Some(table) = client.query_typed_one(FIND, &[])?.try_get::<_, Option<u32>>(0)? else {
        let message = "there is no table trial_params that this user finds; see the rights on its schema, and the user's search_path, which \
                       the address can set (?options=-csearch_path%3DSCHEMA)";
        return Err(Defect::Content(message.to_owned()));
    };
    client.batch_execute(GUARD)?;
    let names: &(dyn ToSql + Sync) = &&NAMES[..];
    let of_tables = [(names, Type::TEXT_ARRAY), (&table, Type::OID)];
    let found = client.query_typed(TABLES, &of_tables)?;
    let Some(row) = found.first() else {
        return Err(Defect::Storage("its tables are gone".to_owned()));
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
    if let Some(row) = client.query_typed(COLUMNS, &of_tables)?.first() {
        let name: String = row.try_get(0)?;
        let message = format!(
            "{name} has a type that is none of the server's own, which no storage of Optuna has"
        );
        return Err(Defect::Content(message));
    }
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
        let is_answer = error.as_db_error().is_some();
        let message = error.to_string();
        let problem = Problem::from(error);
        match (problem.is_damage(), is_answer) {
            (true, false) => Self::Storage(message),
            (true, true) => Self::Storage(problem.words(Operation::Read, "of Optuna's tables")),
            (false, _) => Self::Unreadable(problem.words(Operation::Read, "of Optuna's tables")),
        }
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
        let keys: Vec<&(dyn ToSql + Sync)> =
            study.iter().map(|key| key as &(dyn ToSql + Sync)).collect();
        let client = self.client()?;
        // The types of columns are asked for before any row comes: amid the answer, a client that asks waits for itself.
        let statement = client.prepare_typed(sql, &vec![Type::INT8; keys.len()])?;
        client.query(&statement, &keys)?.iter().try_for_each(|row| each(row))
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
