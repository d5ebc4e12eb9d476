//! Storages of Optuna in SQLite.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, Row};

use super::Defect;
use super::tables::{Cells, Database, NAMES, check_tables};

/// Opens a file for reading. All is read as it was at one time.
pub(super) fn open(path: &Path) -> Result<impl Database, Defect> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).and_then(|connection| {
        // A foreign file: what stands in its layout is not run.
        connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA query_only = ON; BEGIN")?;
        Ok(connection)
    });
    let connection = connection.map_err(|error| Defect::Unreadable(error.to_string()))?;
    let sql = "SELECT name FROM sqlite_schema WHERE type <> 'table'";
    let others: Vec<String> =
        connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    check_tables(others.into_iter().filter(|name| NAMES.contains(&&*name.to_lowercase())))?;
    Ok(connection)
}

impl From<rusqlite::Error> for Defect {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
        match error.sqlite_error_code() {
            Some(DatabaseBusy | DatabaseLocked) => {
                Self::Unreadable(format!("{error}: another process is writing; try again"))
            }
            _ => Self::Storage(error.to_string()),
        }
    }
}

impl Database for Connection {
    fn schema(&self) -> &str {
        "main"
    }

    fn query(
        &mut self,
        sql: &str,
        study: Option<i64>,
        each: &mut dyn FnMut(&dyn Cells) -> Result<(), Defect>,
    ) -> Result<(), Defect> {
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(rusqlite::params_from_iter(study))?;
        while let Some(row) = rows.next()? {
            each(row)?;
        }
        Ok(())
    }
}

impl Cells for Row<'_> {
    fn whole(&self, column: usize) -> Result<i64, Defect> {
        Ok(self.get(column)?)
    }

    fn real(&self, column: usize) -> Result<Option<f64>, Defect> {
        Ok(self.get(column)?)
    }

    fn text(&self, column: usize) -> Result<String, Defect> {
        Ok(self.get(column)?)
    }
}
