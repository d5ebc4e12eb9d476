//! Errors of reading, writing and drawing a results folder.

use std::path::PathBuf;

use fedbo_error_class::{Class, Classified};

/// A failure to write, read or draw a results folder. Each message names the path.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The folder does not exist and cannot be created, or is not a folder.
    #[error("cannot create the folder {}: {cause}{}", path.display(), advice(cause))]
    CreateFolder {
        /// The folder.
        path: PathBuf,
        /// The operating system's error.
        cause: std::io::Error,
    },
    /// A file cannot be created or written: no permission, disk full.
    #[error("cannot write {}: {cause}{}", path.display(), advice(cause))]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        cause: std::io::Error,
    },
    /// A file cannot be opened or read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        cause: std::io::Error,
    },
    /// Another run is writing into the folder.
    #[error("another run is writing into {}; wait for it, or choose another folder", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The folder already has results, and overwriting was not requested.
    #[error("{} holds the results of another run; choose another folder or allow overwriting it", path.display())]
    ResultsExist {
        /// The existing file.
        path: PathBuf,
    },
    /// The header of a results file does not match this version.
    #[error("{}, line 1, column {column}: expected the column {expected:?}, found {found:?}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// Position of the column, from 1.
        column: usize,
        /// The expected name.
        expected: &'static str,
        /// The actual name.
        found: String,
    },
    /// A line has too few or too many fields, usually because it was truncated.
    #[error("{}, line {line}: {found} fields, the header has {expected}; if the run was cut off there, `fedbo run FILE --resume` repairs it", path.display())]
    FieldCount {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: u64,
        /// Number of columns in the header.
        expected: usize,
        /// Number of fields in the line.
        found: usize,
    },
    /// A field does not match its column.
    #[error("{}, line {line}, column {column}: expected {expected}, found {found:?}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: u64,
        /// Name of the column.
        column: String,
        /// The expected kind of value.
        expected: &'static str,
        /// The actual content.
        found: String,
    },
    /// The file is not valid CSV in UTF-8.
    #[error("{}: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parser's message with the position.
        message: String,
    },
    /// A parameter has the name of a fixed column or of another parameter.
    #[error("the parameter {name:?} cannot be a column of {}: the name is taken; rename the parameter", path.display())]
    ParameterName {
        /// The file to be written.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A number to be written is NaN or infinite.
    #[error("{}: column {column} would be {value}, which is not a finite number", path.display())]
    NotFinite {
        /// The file to be written.
        path: PathBuf,
        /// Name of the column.
        column: &'static str,
        /// The number.
        value: f64,
    },
    /// A picture could not be drawn or encoded.
    #[error("cannot draw {}: {message}", path.display())]
    Draw {
        /// The picture.
        path: PathBuf,
        /// The renderer's message.
        message: String,
    },
}

impl Classified for ReportError {
    fn class(&self) -> Class {
        match self {
            Self::CreateFolder { .. } | Self::Write { .. } => Class::Output,
            Self::NotFinite { .. } | Self::Draw { .. } => Class::Internal,
            _ => Class::Input,
        }
    }
}

/// Returns a remedy for a failed write.
fn advice(cause: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match cause.kind() {
        ErrorKind::NotFound => "; create its parent folder first, or choose another location",
        ErrorKind::NotADirectory | ErrorKind::IsADirectory | ErrorKind::AlreadyExists => {
            "; choose another location"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "; make its folder writable, or choose another location"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "; free some space, or choose another location"
        }
        _ => "",
    }
}
