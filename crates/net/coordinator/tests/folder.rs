//! Only the owner can access a coordinator's folder.

use std::fs::{DirBuilder, Permissions, metadata, read_dir, set_permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use fedbo_coordinator::store::{SqliteStore, Store as _, StoreError};
use fedbo_coordinator::{Home, HomeError};
use fedbo_database::Mode;
use fedbo_transport::KeyError;

fn folder(parent: &Path, mode: u32) -> std::path::PathBuf {
    let path = parent.join(format!("{mode:o}"));
    DirBuilder::new().create(&path).expect("a folder can be made");
    set_permissions(&path, Permissions::from_mode(mode)).expect("the folder is ours");
    path
}

/// The files are private even if the folder itself is readable by others, such as a folder created
/// beforehand.
#[test]
fn everything_in_a_folder_is_readable_for_its_owner_alone() {
    let parent = tempfile::tempdir().unwrap();
    let path = folder(parent.path(), 0o755);
    let home = Home::open(&path, Mode::Create).unwrap();
    let _lock = home.lock().unwrap();
    let mut n_files = 0;
    for entry in read_dir(&path).unwrap().flatten() {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.path().display());
        n_files += 1;
    }
    assert!(n_files >= 3); // the store, the key, the lock
    assert_eq!(metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
}

#[test]
fn a_folder_in_which_others_may_write_holds_no_key() {
    let parent = tempfile::tempdir().unwrap();
    for mode in [0o777, 0o775, 0o1777, 0o720] {
        let path = folder(parent.path(), mode);
        let Err(error) = Home::open(&path, Mode::Create) else {
            panic!("{mode:o} is open to others");
        };
        assert!(matches!(&error, HomeError::Key(KeyError::OpenFolder { .. })), "{error}");
        assert!(error.to_string().contains("`chmod go-w "), "{error}");
        assert_eq!(read_dir(&path).unwrap().count(), 0);
    }
    // A folder is also refused if it becomes writable by others after its creation.
    let path = parent.path().join("ours");
    DirBuilder::new().mode(0o700).create(&path).unwrap();
    drop(Home::open(&path, Mode::Create).unwrap());
    set_permissions(&path, Permissions::from_mode(0o770)).unwrap();
    let opened = Home::open(&path, Mode::Existing);
    assert!(matches!(opened, Err(HomeError::Key(KeyError::OpenFolder { .. }))));
}

/// Verifying a copy must work on a read-only medium. Since root can write anyway, this test checks
/// the store itself.
#[test]
fn a_folder_is_verified_by_a_store_that_cannot_write() {
    let parent = tempfile::tempdir().unwrap();
    let path = folder(parent.path(), 0o755);
    drop(Home::open(&path, Mode::Create).unwrap());
    let names = || {
        let mut names: Vec<_> =
            read_dir(&path).unwrap().flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    assert_eq!(fedbo_coordinator::verify(&path).unwrap(), []);
    assert_eq!(names(), before);
    let store = SqliteStore::open_for_reading(&path.join("coordinator.db")).unwrap();
    assert!(store.studies().unwrap().is_empty());
    let refused = store.create_study("a", "", &["b".to_owned()]).unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused}");
}
