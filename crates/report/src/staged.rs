//! A results file that takes the place of an older one at once.

use std::path::{Path, PathBuf};

use super::error::ReportError;
use super::row::{RESULTS_FILE, ResultsWriter};

/// Name of the folder, inside the results folder, of a file that is not in its place yet.
const STAGING: &str = ".new-results";

/// A new results file that is written aside, and put in place of the old one once it holds all that it should. A process that is killed
/// before leaves the old one as it was.
#[derive(Debug)]
pub struct StagedResults {
    folder: PathBuf,
    to: PathBuf,
}

impl StagedResults {
    /// Begins a file for a results folder.
    ///
    /// # Errors
    /// As [`ResultsWriter::create`].
    pub fn create(
        folder: &Path,
        parameters: &[String],
    ) -> Result<(Self, ResultsWriter), ReportError> {
        let staged = Self { folder: folder.join(STAGING), to: folder.join(RESULTS_FILE) };
        let writer = ResultsWriter::create(&staged.folder, parameters, true)?;
        Ok((staged, writer))
    }

    /// Puts the new file in place of the old one; its writer goes on writing to it.
    ///
    /// # Errors
    /// [`ReportError::Write`] when that fails; the old file stays.
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
        // Best effort: the file of a folder that stays is replaced by the next writer.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
