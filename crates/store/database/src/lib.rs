//! SQLite files that several processes of one machine may use: how they are opened, waited for, and checked.
//!
//! Decides the settings of a connection, how long one waits, whose file it is, and what SQLite's errors mean to a user.
//! Knows nothing of what the tables hold: that is a [`Format`]. Start at [`File`].

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
