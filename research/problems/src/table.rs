//! Reading tables from a data folder, with errors that name the path, the line and the way out.

use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The reason why a data folder cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The folder is not there.
    #[error("there is no folder {folder}; pass the one that holds {file} (--data DIR)")]
    NoFolder {
        /// The folder.
        folder: PathBuf,
        /// The file that was to be read from it.
        file: String,
    },
    /// The file is not in the folder, or cannot be read.
    #[error("cannot read {path}: {message}; the data folder (--data DIR) must hold {file}")]
    Unreadable {
        /// Full path.
        path: PathBuf,
        /// Path within the data folder.
        file: String,
        /// The operating system's message.
        message: String,
    },
    /// A line is not what it should be.
    #[error("{path}, line {line}: {message}")]
    Malformed {
        /// Full path.
        path: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// The fault, and what was expected.
        message: String,
    },
}

/// One line of a table.
pub(crate) struct Row<'a> {
    path: &'a Path,
    line: u64,
    header: &'a csv::StringRecord,
    record: &'a csv::StringRecord,
}

impl Row<'_> {
    /// Cell of the column called `column`.
    pub(crate) fn get<T: FromStr>(&self, column: &str) -> Result<T, DataError> {
        let position = self.header.iter().position(|name| name == column);
        let Some(position) = position else {
            return Err(self.malformed(format!("there is no column {column}")));
        };
        self.at(position)
    }

    /// Finite number in the column called `column`.
    pub(crate) fn number(&self, column: &str) -> Result<f64, DataError> {
        self.finite(column, self.get(column)?)
    }

    /// Finite numbers in the columns from `start` on.
    pub(crate) fn numbers_from(&self, start: usize) -> Result<Vec<f64>, DataError> {
        let column = |position: usize| self.header.get(position).unwrap_or_default();
        (start..self.header.len())
            .map(|position| self.finite(column(position), self.at(position)?))
            .collect()
    }

    /// An error about this line.
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

/// Reads `file` within `folder`, one item a line.
pub(crate) fn read<T>(
    folder: &Path,
    file: &str,
    mut item: impl FnMut(&Row<'_>) -> Result<T, DataError>,
) -> Result<Vec<T>, DataError> {
    let path = folder.join(file);
    if !folder.is_dir() {
        return Err(DataError::NoFolder { folder: folder.to_owned(), file: file.to_owned() });
    }
    let unreadable = |message: String| DataError::Unreadable {
        path: path.clone(),
        file: file.to_owned(),
        message,
    };
    let open = std::fs::File::open(&path).map_err(|error| unreadable(error.to_string()))?;
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
