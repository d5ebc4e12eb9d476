//! Corrupted SQLite files: with modified bytes, or with cell values that fedbo never writes.

use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, Error, params_from_iter};

use crate::input_reader::{Pieces, text};
use crate::scratch;

/// Suffixes of the files that SQLite creates next to a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Writes a database file and its write-ahead log into the thread's folder, and removes the other
/// companion files.
pub(crate) fn put(name: &str, file: &[u8], log: &[u8]) -> PathBuf {
    for suffix in COMPANIONS {
        // The file may not exist.
        let _ = std::fs::remove_file(scratch::folder().join(format!("{name}{suffix}")));
    }
    if !log.is_empty() {
        scratch::file(&format!("{name}-wal"), log);
    }
    scratch::file(name, file)
}

/// Applies one change read from the input: a position and an operation.
pub(crate) fn damage(bytes: &mut Vec<u8>, pieces: &mut Pieces<'_>) {
    let at = pieces.u32() as usize % (bytes.len() + 1);
    match pieces.byte() % 5 {
        0 => {
            let new = pieces.piece();
            let end = bytes.len().min(at + new.len());
            bytes[at..end].copy_from_slice(&new[..end - at]);
        }
        1 => bytes.truncate(at),
        2 => {
            let new = pieces.piece().to_vec();
            bytes.splice(at..at, new);
        }
        3 => {
            let end = bytes.len().min(at + 4 * usize::from(pieces.byte()));
            bytes[at..end].fill(0);
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (pieces.byte() % 8);
            }
        }
    }
}

/// Changes cells until the input ends, with triggers and checks disabled.
///
/// A change consists of the indices of a table, a column and a row, and a value. Values of a type
/// that the file rejects are ignored. `sees` can transform a new blob value.
pub(crate) fn change_cells(
    path: &Path,
    mut pieces: Pieces<'_>,
    sees: impl Fn(&str, Vec<u8>) -> Vec<u8>,
) {
    /// Maximum number of changed cells, to bound the cost of an input.
    const MAX: usize = 8;
    let connection = Connection::open(path).expect("a sound file");
    let run = |sql: &str| connection.execute_batch(sql).expect("a sound file");
    run(
        "PRAGMA synchronous = OFF; PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF; BEGIN",
    );
    let triggers =
        listed(&connection, "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'");
    for [name, _] in &triggers {
        run(&format!("DROP TRIGGER {name}"));
    }
    let tables = tables(&connection);
    for _ in 0..MAX {
        if pieces.is_empty() {
            break;
        }
        let table = &tables[pieces.below(tables.len())];
        let column = &table.columns[pieces.below(table.columns.len())];
        let row = pieces.below(8);
        let value = match value(&mut pieces) {
            Value::Blob(bytes) => Value::Blob(sees(column, bytes)),
            value => value,
        };
        table.change(&connection, column, row, value);
    }
    if connection.is_autocommit() {
        return; // SQLite could not use a page and has rolled back the transaction.
    }
    for [_, sql] in &triggers {
        run(sql);
    }
    run("COMMIT");
}

/// A table and the key of its rows.
struct Table {
    name: String,
    columns: Vec<String>,
    /// Columns of the primary key, or `rowid`.
    key: String,
}

fn tables(connection: &Connection) -> Vec<Table> {
    let sql = "SELECT name, '' FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let names = listed(connection, sql).into_iter();
    let table = |[name, _]: [String; 2]| {
        let sql = format!("SELECT name, CAST(pk AS TEXT) FROM pragma_table_info('{name}')");
        let columns = listed(connection, &sql);
        let key: Vec<&str> = columns
            .iter()
            .filter(|[_, place]| place != "0")
            .map(|[column, _]| column.as_str())
            .collect();
        Table {
            key: match key.is_empty() {
                true => "rowid".to_owned(),
                false => key.join(", "),
            },
            columns: columns.into_iter().map(|[column, _]| column).collect(),
            name,
        }
    };
    names.map(table).collect()
}

impl Table {
    fn change(&self, connection: &Connection, column: &str, row: usize, value: Value) {
        let Self { name, key, .. } = self;
        let sql = format!(
            "UPDATE OR IGNORE {name} SET {column} = ? WHERE ({key}) = (SELECT {key} FROM {name} LIMIT 1 OFFSET {row})"
        );
        match connection.execute(&sql, params_from_iter([value])) {
            // The value has a wrong type for the column, or is NULL in a NOT NULL column.
            Ok(_) | Err(Error::SqliteFailure(..)) => {}
            Err(error) => unreachable!("a statement of this module: {error}"),
        }
    }
}

/// Runs a query that returns rows of two strings.
fn listed(connection: &Connection, sql: &str) -> Vec<[String; 2]> {
    let mut statement = connection.prepare(sql).expect("a sound file");
    let rows = statement.query_map([], |row| Ok([row.get(0)?, row.get(1)?]));
    rows.expect("a sound file").collect::<Result<_, _>>().expect("a sound file")
}

fn value(pieces: &mut Pieces<'_>) -> Value {
    match pieces.byte() % 6 {
        0 => Value::Null,
        1 => Value::Integer(i64::from_le_bytes(pieces.take())),
        2 => Value::Integer(i64::from(pieces.byte())),
        3 => Value::Real(f64::from_le_bytes(pieces.take())),
        4 => Value::Text(text(pieces.piece())),
        _ => Value::Blob(pieces.piece().to_vec()),
    }
}
