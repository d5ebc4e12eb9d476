//! TOML files written by users: plain data, validation of shared parts, and errors that point into
//! the file.
//!
//! This crate defines the parts that several files share, and how errors report their location and
//! a remedy. The crate that reads a file defines the file's tables and their combined meaning.
//! Start at [`TomlFile`], then [`Check`]. [`Changes`] lists the differences between a file and a
//! stored version.

mod archive;
mod changes;
mod check;
mod command;
mod entry;
mod excerpt;
mod options;
mod surrogate;
mod toml_file;
mod untrusted;

pub use archive::{ArchiveError, ArchivedParameter, ReleaseArchive};
pub use changes::{Change, Changes, Keys};
pub use check::{Check, NAME_CHARS_MAX, is_folder_name};
pub use command::CommandKeys;
pub use entry::{LengthscaleEntry, NumberOrList, WordOrNumbers};
pub use options::TableOptions;
pub use surrogate::SurrogateTable;
pub use toml_file::{FileError, Place, TomlFile, nearest};
pub use untrusted::{ListedChoices, UnlistedChoice, choices_to_write, odd_choices};
