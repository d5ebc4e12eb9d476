//! Creates ledger files. A new file appears at its path atomically.

use std::path::Path;

use fedbo_database::{Failure, File, Mode, beside, sync_folder};
use fedbo_failpoints::pass;
use rusqlite::params;

use crate::error::Operation;
use crate::schema::FORMAT;
use crate::{Charter, LedgerError};

/// Refuses a path with an existing ledger, or with the log of a lost ledger. An existing file must
/// never be overwritten, and the log of a lost ledger must never be applied to a new one.
pub(crate) fn refuse_existing(path: &Path) -> Result<(), LedgerError> {
    let log = beside(path, "-wal");
    for path in [path, &log] {
        if std::fs::symlink_metadata(path).is_ok() {
            return Err(LedgerError::Exists { path: path.to_owned() });
        }
    }
    Ok(())
}

/// Writes a new ledger to a temporary file next to its final path, and renames it once it is
/// durable.
pub(crate) fn create_layout(file: &File, charter: &Charter) -> Result<(), LedgerError> {
    let place = file.absolute();
    let part = beside(place, ".part");
    let write = || -> Result<(), Failure> {
        let connection = File::locate(&part, Mode::Create, &FORMAT)
            .map_err(|_| Failure::Contradiction(format!("{} is not a file", part.display())))?
            .0
            .open_any_for_writing(Mode::Create)?;
        FORMAT.create_layout(&connection)?;
        let tx = connection.unchecked_transaction()?;
        tx.execute(
            "INSERT INTO charter (id, name, config, epsilon, delta, mode, accountant, hash) VALUES (1, ?, ?, ?, ?, ?, ?, ?)",
            params![
                charter.name,
                charter.config,
                charter.budget.epsilon(),
                charter.budget.delta().get(),
                charter.guarantee(),
                charter.accountant.name(),
                charter.hash()
            ],
        )?;
        tx.execute("INSERT INTO writer (id, token) VALUES (1, 0)", [])?;
        tx.commit()?;
        connection.close().map_err(|(_, error)| error.into())
    };
    let remove_part = || {
        for suffix in ["", "-journal", "-wal", "-shm"] {
            // If a file cannot be removed, a later step fails with an error that names it.
            let _ = std::fs::remove_file(beside(&part, suffix));
        }
    };
    let refused = |fault| LedgerError::of(fault, file.path(), Operation::Write);
    remove_part();
    let written = write().map_err(|failure| refused(failure.into_fault(&FORMAT))).and_then(|()| {
        pass("ledger: a new one is laid out beside its place");
        std::fs::File::open(&part)
            .and_then(|part| part.sync_all())
            .and_then(|()| std::fs::rename(&part, place))
            .inspect(|()| pass("ledger: a new one has its name"))
            .and_then(|()| sync_folder(place))
            .map_err(|error| LedgerError::Write {
                path: file.path().to_owned(),
                message: error.to_string(),
            })
    });
    if written.is_err() {
        remove_part();
    }
    written
}
