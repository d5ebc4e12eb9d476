//! Reads tables from a data folder, with errors that state the path, the line and the remedy.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use fedbo_error_class::{Class, Classified};

/// Reason why a data folder is unusable.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The folder is missing.
    #[error(
        "there is no folder {folder}; pass the one that contains {file} (--data DIR); docs/data.md describes it"
    )]
    NoFolder {
        /// The folder.
        folder: PathBuf,
        /// The requested file.
        file: String,
    },
    /// The file is missing or unreadable.
    #[error(
        "cannot read {path}: {message}; the data folder (--data DIR) must contain {file}; `fedbo-research data check DIR` lists what is missing"
    )]
    Unreadable {
        /// Full path.
        path: PathBuf,
        /// Path within the data folder.
        file: String,
        /// The operating system's message.
        message: String,
    },
    /// A line is malformed.
    #[error("{path}, line {line}: {message}")]
    Malformed {
        /// Full path.
        path: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// The fault, and the expected content.
        message: String,
    },
}

impl Classified for DataError {
    fn class(&self) -> Class {
        Class::Input
    }
}

/// Maximum size of a file in bytes. The largest table of the layout has a size of 3 MB.
const MAX_BYTES: u64 = 64 << 20;

/// One line of a table.
pub(crate) struct Row<'a> {
    path: &'a Path,
    line: u64,
    header: &'a csv::StringRecord,
    record: &'a csv::StringRecord,
}

impl Row<'_> {
    /// Parses the cell in the column called `column`.
    pub(crate) fn get<T: FromStr>(&self, column: &str) -> Result<T, DataError> {
        let position = self.header.iter().position(|name| name == column);
        let Some(position) = position else {
            return Err(self.malformed(format!("there is no column {column}")));
        };
        self.at(position)
    }

    /// Parses a finite number in the column called `column`.
    pub(crate) fn number(&self, column: &str) -> Result<f64, DataError> {
        self.finite(column, self.get(column)?)
    }

    /// Parses finite numbers in the columns from `start` on.
    pub(crate) fn numbers_from(&self, start: usize) -> Result<Vec<f64>, DataError> {
        let column = |position: usize| self.header.get(position).unwrap_or_default();
        (start..self.header.len())
            .map(|position| self.finite(column(position), self.at(position)?))
            .collect()
    }

    /// Creates an error for this line.
    pub(crate) fn malformed(&self, message: String) -> DataError {
        DataError::Malformed { path: self.path.to_owned(), line: self.line, message }
    }

    fn at<T: FromStr>(&self, position: usize) -> Result<T, DataError> {
        let column = self.header.get(position).unwrap_or_default();
        let cell = self.record.get(position).unwrap_or_default();
        cell.parse().map_err(|_| {
            let kind = if std::any::type_name::<T>() == "f64" {
                "a number"
            } else {
                "another kind of value"
            };
            self.malformed(format!("{column} = {cell:?}, expected {kind}"))
        })
    }

    fn finite(&self, column: &str, value: f64) -> Result<f64, DataError> {
        if value.is_finite() {
            Ok(value)
        } else {
            Err(self.malformed(format!("{column} = {value}, expected a finite number")))
        }
    }
}

fn unreadable(folder: &Path, file: &str, message: String) -> DataError {
    DataError::Unreadable { path: folder.join(file), file: file.to_owned(), message }
}

/// Opens `file` in `folder` if it is a regular file and not too large.
fn open(folder: &Path, file: &str) -> Result<std::fs::File, DataError> {
    if !folder.is_dir() {
        return Err(DataError::NoFolder { folder: folder.to_owned(), file: file.to_owned() });
    }
    let refused = |message: String| unreadable(folder, file, message);
    let path = folder.join(file);
    let about = std::fs::metadata(&path).map_err(|error| refused(error.to_string()))?;
    if !about.is_file() {
        return Err(refused("it is not a file".to_owned()));
    }
    if about.len() > MAX_BYTES {
        return Err(refused(format!(
            "it has {} bytes, more than any table of this layout",
            about.len()
        )));
    }
    std::fs::File::open(&path).map_err(|error| refused(error.to_string()))
}

/// Reads `file` in `folder`: `n_rows` lines of `n_columns` finite numbers, without a header.
/// Returns them in row-major order.
pub(crate) fn read_numbers(
    folder: &Path,
    file: &str,
    n_rows: usize,
    n_columns: usize,
) -> Result<Vec<f64>, DataError> {
    let path = folder.join(file);
    let malformed = |line: u64, message: String| {
        Err(DataError::Malformed { path: path.clone(), line, message })
    };
    let open = open(folder, file)?;
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(open);
    let mut record = csv::StringRecord::new();
    let mut values = Vec::with_capacity(n_rows * n_columns);
    loop {
        match reader.read_record(&mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                return malformed(line, error.to_string());
            }
        }
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() != n_columns {
            return malformed(line, format!("{} numbers, expected {n_columns}", record.len()));
        }
        if values.len() == n_rows * n_columns {
            return malformed(line, format!("an extra line, expected only {n_rows}"));
        }
        for (column, cell) in (1..).zip(&record) {
            match cell.trim().parse::<f64>() {
                Ok(value) if value.is_finite() => values.push(value),
                _ => {
                    let message = format!("column {column} = {cell:?}, expected a finite number");
                    return malformed(line, message);
                }
            }
        }
    }
    match values.len() / n_columns {
        n if n == n_rows => Ok(values),
        n => malformed(n as u64 + 1, format!("the table ends after {n} lines, expected {n_rows}")),
    }
}

/// Reads `file` in `folder`, one item per line.
pub(crate) fn read<T>(
    folder: &Path,
    file: &str,
    mut item: impl FnMut(&Row<'_>) -> Result<T, DataError>,
) -> Result<Vec<T>, DataError> {
    let path = folder.join(file);
    let open = open(folder, file)?;
    let unreadable = |message: String| unreadable(folder, file, message);
    let mut reader = csv::Reader::from_reader(open);
    let broken = |error: csv::Error| match error.position() {
        Some(position) => DataError::Malformed {
            path: path.clone(),
            line: position.line(),
            message: error.to_string(),
        },
        None => unreadable(error.to_string()),
    };
    let header = reader.headers().map_err(broken)?.clone();
    let mut record = csv::StringRecord::new();
    let mut items = Vec::new();
    while reader.read_record(&mut record).map_err(broken)? {
        items.push(item(&Row {
            path: &path,
            line: record.position().map_or(0, csv::Position::line),
            header: &header,
            record: &record,
        })?);
    }
    if items.is_empty() {
        return Err(DataError::Malformed {
            path,
            line: 1,
            message: "the table has no rows".to_owned(),
        });
    }
    Ok(items)
}
