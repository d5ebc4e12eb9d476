//! SQLite files, damaged: byte by byte, or by cells that no program of ours would write.

use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, Error, params_from_iter};

use crate::input_reader::{Pieces, text};
use crate::scratch;

/// The suffixes of the files that SQLite puts beside a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Puts a file into the thread's folder, with this log and nothing else beside it.
pub(crate) fn put(name: &str, file: &[u8], log: &[u8]) -> PathBuf {
    for suffix in COMPANIONS {
        // What is not there need not be removed.
        let _ = std::fs::remove_file(scratch::folder().join(format!("{name}{suffix}")));
    }
    if !log.is_empty() {
        scratch::file(&format!("{name}-wal"), log);
    }
    scratch::file(name, file)
}

/// Changes bytes until the input is at its end: each time a place and what is done there.
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

/// Changes cells until the input is at its end, with triggers and checks out of the way meanwhile: table, column and row by
/// number, then a value. What the file's types refuse stays as it was. `sees` may change a value that is a row of bytes.
pub(crate) fn change_cells(
    path: &Path,
    mut pieces: Pieces<'_>,
    sees: impl Fn(&str, Vec<u8>) -> Vec<u8>,
) {
    /// Cells at most, so that an input's cost is bounded.
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
    for [_, sql] in &triggers {
        run(sql);
    }
    run("COMMIT");
}

/// A table, and what names its rows.
struct Table {
    name: String,
    columns: Vec<String>,
    /// Columns of its primary key, or `rowid`.
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
            // Of another type than the column's, or none where there has to be one.
            Ok(_) | Err(Error::SqliteFailure(..)) => {}
            Err(error) => unreachable!("a statement of this module: {error}"),
        }
    }
}

/// Rows of two texts.
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
