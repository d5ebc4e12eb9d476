//! The pictures of a game.

use std::path::{Path, PathBuf};

use fedbo_console::BadInput;
use fedbo_documents::study_ref::folder_of;
use fedbo_play::GameRecord;
use fedbo_report::ReportError;

use crate::game::Kept;
use crate::results::write_pictures;

/// Draws the rounds that have been played of the game in `file`. Writes the pictures to `out` or
/// `results/NAME`, and returns their paths.
///
/// # Errors
/// If the game file or record cannot be used, no round has been played, or the pictures cannot be
/// written.
pub fn plot(file: &Path, out: Option<&Path>) -> anyhow::Result<Vec<PathBuf>> {
    let kept = Kept::new(file)?;
    let record = GameRecord::load(&kept.path)?;
    let course = kept.course(&record)?;
    if course.rounds().is_empty() {
        let message = "no round of the game has been played yet; start it with fedbo play";
        return Err(BadInput(message.to_owned()).into());
    }
    let folder = match out {
        Some(out) => out.to_owned(),
        None => Path::new("results").join(folder_of(&course.definition().name)?),
    };
    std::fs::create_dir_all(&folder)
        .map_err(|cause| ReportError::CreateFolder { path: folder.clone(), cause })?;
    Ok(write_pictures(&folder, &course)?)
}
