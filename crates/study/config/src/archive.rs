//! The archive of a federation's releases: a file that the federation's operator publishes and that
//! other parties start from.

use std::fs;
use std::path::{Path, PathBuf};

use fedbo_space::{Direction, ParameterSpec};
use fedbo_strategies::ReleasedFunction;
use serde::{Deserialize, Serialize};

/// Name of the format. The file begins with this name, which identifies it as an archive.
const FORMAT: &str = "fedbo archive of releases";
/// Version of the file layout.
const VERSION: u32 = 1;
/// Maximum size of an archive in bytes.
const BYTES_MAX: u64 = 512 << 20;

/// The releases of a finished federation. Everything in the archive is already public.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseArchive {
    format: String,
    version: u32,
    /// The federation's name.
    pub federation: String,
    /// The direction of optimization.
    pub direction: Direction,
    /// The parameters, in order.
    pub space: Vec<ArchivedParameter>,
    /// Description of the agents' protection. Using the archive costs no further privacy.
    pub privacy: String,
    /// Number of releases in the archive.
    pub n_releases: u64,
    /// Final head of the federation's ledger.
    pub ledger_head: String,
    /// The function that the releases represent.
    pub function: ReleasedFunction,
}

/// A parameter of an archived space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchivedParameter {
    /// The name.
    pub name: String,
    /// The declaration.
    #[serde(flatten)]
    pub spec: ParameterSpec,
}

/// Error returned if an archive cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// The file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error message.
        cause: String,
    },
    /// The file is not an archive.
    #[error("{}: not an archive of releases ({message}); create one with fedbo privacy archive", path.display())]
    NotAnArchive {
        /// Path of the file.
        path: PathBuf,
        /// Description of the mismatch.
        message: String,
    },
    /// The file was written by a later version of the program.
    #[error("{}: the archive has version {found}, and this program reads version {VERSION}; use a newer program", path.display())]
    Version {
        /// Path of the file.
        path: PathBuf,
        /// Version of the file.
        found: u32,
    },
}

impl ReleaseArchive {
    /// Creates an archive of the current version.
    pub fn new(
        federation: String,
        direction: Direction,
        space: Vec<ArchivedParameter>,
        privacy: String,
        n_releases: u64,
        ledger_head: String,
        function: ReleasedFunction,
    ) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            federation,
            direction,
            space,
            privacy,
            n_releases,
            ledger_head,
            function,
        }
    }

    /// Returns the text of the file.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self)
            .unwrap_or_else(|error| unreachable!("plain data becomes JSON: {error}"))
    }

    /// Reads an archive.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is too large, or is not an archive of a known version.
    pub fn read(path: &Path) -> Result<Self, ArchiveError> {
        let unreadable = |cause: std::io::Error| ArchiveError::Read {
            path: path.to_owned(),
            cause: cause.to_string(),
        };
        let none = |message: String| ArchiveError::NotAnArchive { path: path.to_owned(), message };
        let size = fs::metadata(path).map_err(unreadable)?.len();
        if size > BYTES_MAX {
            return Err(none(format!("{size} bytes, expected at most {BYTES_MAX}")));
        }
        let text = fs::read_to_string(path).map_err(unreadable)?;
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u32,
        }
        let head: Head = serde_json::from_str(&text).map_err(|error| none(error.to_string()))?;
        if head.format != FORMAT {
            return Err(none(format!("format = {:?}", head.format)));
        }
        if head.version != VERSION {
            return Err(ArchiveError::Version { path: path.to_owned(), found: head.version });
        }
        serde_json::from_str(&text).map_err(|error| none(error.to_string()))
    }
}
