//! A results file that replaces an older one atomically.

use std::path::{Path, PathBuf};

use super::error::ReportError;
use super::row::{RESULTS_FILE, ResultsWriter};

/// Folder inside the results folder for a file that is not in place yet.
const STAGING: &str = ".new-results";

/// A new results file, written in a separate folder. It replaces the old file once it is complete.
///
/// If the process is killed before that, the old file is unchanged.
#[derive(Debug)]
pub struct StagedResults {
    folder: PathBuf,
    to: PathBuf,
}

impl StagedResults {
    /// Starts a file for a results folder.
    ///
    /// # Errors
    /// Same as [`ResultsWriter::create`].
    pub fn create(
        folder: &Path,
        parameters: &[String],
    ) -> Result<(Self, ResultsWriter), ReportError> {
        let staged = Self { folder: folder.join(STAGING), to: folder.join(RESULTS_FILE) };
        let writer = ResultsWriter::create(&staged.folder, parameters, true)?;
        Ok((staged, writer))
    }

    /// Replaces the old file with the new one. The writer continues to write to the new file.
    ///
    /// # Errors
    /// Returns [`ReportError::Write`] on failure; the old file is unchanged.
    pub fn promote(self, writer: &mut ResultsWriter) -> Result<(), ReportError> {
        let from = self.folder.join(RESULTS_FILE);
        let moved = std::fs::File::open(&from)
            .and_then(|file| file.sync_all())
            .and_then(|()| std::fs::rename(&from, &self.to));
        moved.map_err(|cause| ReportError::Write { path: self.to.clone(), cause })?;
        writer.moved_to(self.to.clone());
        Ok(())
    }
}

impl Drop for StagedResults {
    fn drop(&mut self) {
        // Best effort: the next writer overwrites a leftover file in this folder.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
