//! The files in a results folder of a finished or unfinished run.

use std::io::ErrorKind;
use std::path::Path as FilePath;

use anyhow::Context as _;
use fedbo_federation::Arm;
use fedbo_report::{FigureSpec, GAME_PAYOFF_FILES, SUMMARY_FILE, Summary};
use fedbo_runner::federation::recorded_tables;

/// Maximum size in bytes of a file that is sent.
const FILE_BYTES: u64 = 256 << 20;

/// Extensions of the files that are served, with their content types. Ledgers are excluded.
const KINDS: [(&str, &str); 4] = [
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("csv", "text/csv; charset=utf-8"),
    ("json", "application/json"),
];

/// Name of the file with a run's settings.
const SETTINGS_FILE: &str = "settings.json";

/// Returns true if a folder contains a regular file with this name. Links can lead elsewhere, and
/// reading a pipe can block forever.
pub(super) fn has_file(folder: &FilePath, name: &str) -> bool {
    folder.join(name).symlink_metadata().is_ok_and(|meta| meta.is_file())
}

/// Reads the summary of a run; `None` if it does not exist yet.
///
/// # Errors
/// Fails if the summary is not a regular file in the folder or cannot be read.
pub(super) fn summary(folder: &FilePath) -> anyhow::Result<Option<Summary>> {
    let path = folder.join(SUMMARY_FILE);
    let shown = path.display();
    match path.symlink_metadata() {
        Ok(meta) if meta.is_file() => Ok(Some(Summary::read(folder)?)),
        Ok(_) => anyhow::bail!(
            "{shown} is not a regular file of this folder but a link, a pipe or a folder; it is not read"
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {shown}")),
    }
}

/// Returns the recorded settings of a run, if its folder has them.
pub(super) fn settings(folder: &FilePath) -> Option<serde_json::Value> {
    has_file(folder, SETTINGS_FILE).then(|| recorded_tables(folder)).flatten()
}

/// Returns the labels of a run's pictures, from its summary. Before the summary of a federation
/// exists, returns all arms' labels and the name of the value.
pub(super) fn figure(folder: &FilePath, summary: Option<&Summary>) -> FigureSpec {
    if let Some(figure) = summary.and_then(|summary| summary.figure.clone()) {
        return figure;
    }
    let mut figure = FigureSpec::default();
    if let Some(tables) = settings(folder)
        && let Some(head) = tables.get("federation")
    {
        figure.arm_labels = Arm::labels();
        if let Some(name) = head["value_name"].as_str() {
            figure.y_label = format!("{name} (best so far)");
        }
    }
    figure
}

/// Returns true if a folder has settings, readable or not.
pub(super) fn has_settings(folder: &FilePath) -> bool {
    folder.join(SETTINGS_FILE).symlink_metadata().is_ok()
}

/// Returns true if a folder contains the results of a game: its picture of payoffs, but neither the
/// settings nor the summary of a federation.
pub(super) fn is_game(folder: &FilePath) -> bool {
    let has_summary = folder.join(SUMMARY_FILE).symlink_metadata().is_ok();
    has_file(folder, GAME_PAYOFF_FILES[0]) && !has_summary && !has_settings(folder)
}

/// Returns the name of a run, which is the name of its folder.
pub(super) fn name(folder: &FilePath) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    whole.file_name().map_or_else(|| "results".into(), |name| name.to_string_lossy().into_owned())
}

/// Returns the files in a folder that are served, sorted by name.
pub(super) fn files(folder: &FilePath) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_file = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    let names = entries.filter(is_file).filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| kind(name).is_some()).collect();
    names.sort();
    names
}

/// Returns the names of a folder's pictures, without extension.
pub(super) fn pictures(folder: &FilePath) -> Vec<String> {
    files(folder).iter().filter_map(|name| Some(name.strip_suffix(".svg")?.to_owned())).collect()
}

/// Returns the content type of a file that is served; `None` for other files.
pub(super) fn kind(name: &str) -> Option<&'static str> {
    let (stem, ending) = name.rsplit_once('.')?;
    let known = KINDS.iter().find(|(known, _)| *known == ending);
    known.filter(|_| !stem.is_empty()).map(|(_, kind)| *kind)
}

/// Reads a file of a folder.
///
/// # Errors
/// Fails if the file is too large or cannot be read.
pub(super) fn read(path: &FilePath) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    let bytes = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?.len();
    anyhow::ensure!(
        bytes <= FILE_BYTES,
        "{shown} is larger than {} MB; copy it from the folder",
        FILE_BYTES >> 20
    );
    std::fs::read(path).with_context(|| format!("cannot read {shown}"))
}
