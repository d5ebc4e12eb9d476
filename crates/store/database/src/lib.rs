//! SQLite files shared by several processes of one machine: opening, waiting and checking.
//!
//! Decides the settings of a connection, the longest wait for other processes, the owner of a file,
//! and the messages for SQLite's errors. The content of the tables is defined by a [`Format`].
//! Start at [`File`].

mod failure;
mod file;
mod format;
mod lock;
mod private;

pub use failure::{Failure, FileFault};
pub use file::{File, Mode, PATIENCE, begin, beside, sync_folder, uri};
pub use format::{Content, Format, integrity_problems, pragma};
pub use lock::{Lock, NotLocked};
pub use private::{private, private_folder};
