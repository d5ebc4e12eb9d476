//! SQLite files that are shared by several processes on one machine.
//!
//! This crate configures connections, limits the wait for other processes, recognizes files of
//! other programs, and turns SQLite's errors into messages. A [`Format`] defines the tables. Start
//! at [`File`].

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
