//! Files for decoders that read from a path.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Environment variable with the parent folder of all scratch folders.
///
/// The process that sets it must remove the folder, since a fuzzer does not clean up when it exits.
pub const SCRATCH: &str = "FEDBO_FUZZ_SCRATCH";

thread_local! {
    static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
}

/// Returns the folder of this thread, in memory if the system has `/dev/shm`.
pub(crate) fn folder() -> PathBuf {
    FOLDER.with(|folder| folder.get_or_init(made).path().to_owned())
}

fn made() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = match std::env::var_os(SCRATCH) {
        Some(parent) => tempfile::tempdir_in(parent),
        None if memory.is_dir() => tempfile::tempdir_in(memory),
        None => tempfile::tempdir(),
    };
    made.expect("a temporary folder can be made")
}

/// Writes a file into the thread's folder and replaces an existing one.
pub(crate) fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, bytes).expect("there is room for a small file");
    path
}

/// Writes a file as [`file`] does, but readable only by its owner, as required for keys.
pub(crate) fn secret(name: &str, bytes: &[u8]) -> PathBuf {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;
    let path = file(name, bytes);
    set_permissions(&path, Permissions::from_mode(0o600)).expect("a file of this process");
    path
}

/// Creates a folder in the thread's folder.
pub(crate) fn subfolder(name: &str) -> PathBuf {
    let path = folder().join(name);
    std::fs::create_dir_all(&path).expect("a folder can be made");
    path
}
