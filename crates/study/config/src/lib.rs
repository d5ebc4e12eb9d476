//! Users' files: TOML as plain data, checks of its parts, and errors that point into it.
//!
//! Decides what the parts that several files share may look like, and how an error names its place and a way out. Which
//! tables a file has, and what they mean together, is decided by the crate that reads it. Start at [`TomlFile`], then
//! [`Check`]; what has changed since something was stored is said by [`Changes`].

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
