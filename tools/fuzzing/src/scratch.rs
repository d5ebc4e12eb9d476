//! Files for decoders that take a path.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Names the folder below which scratch folders are made. Whoever sets it removes it: a fuzzer that ends removes nothing.
pub const SCRATCH: &str = "FEDBO_FUZZ_SCRATCH";

thread_local! {
    static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
}

/// A folder of this thread, in memory where the system has room for files there.
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

/// A file of this name in the thread's folder, with these bytes and no others.
pub(crate) fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, bytes).expect("there is room for a small file");
    path
}

/// A file as [`file`] makes it that nobody else may read, as keys are.
pub(crate) fn secret(name: &str, bytes: &[u8]) -> PathBuf {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;
    let path = file(name, bytes);
    set_permissions(&path, Permissions::from_mode(0o600)).expect("a file of this process");
    path
}

/// A folder of this name in the thread's folder.
pub(crate) fn subfolder(name: &str) -> PathBuf {
    let path = folder().join(name);
    std::fs::create_dir_all(&path).expect("a folder can be made");
    path
}
