//! Results folders of federations, experiments and games, finished or not.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path as FilePath;
use std::time::SystemTime;

use anyhow::Context as _;
use axum::response::Response;
use fedbo_federation::Arm;
use fedbo_report::{
    Estimate, FigureSpec, Interval, Metric, RESULTS_FILE, SUMMARY_FILE, Summary, closing_table,
};
use fedbo_runner::federation::recorded_tables;
use serde::Serialize;

use super::request::{Asked, Problem, as_file, json};
use super::{game, privacy, schedule, topology};
use crate::answers::typed;
use crate::trial_record::SCHEMA_VERSION;

/// Maximum size of a file that is sent.
const FILE_BYTES: u64 = 256 << 20;

/// The list of runs.
#[derive(Serialize)]
struct List {
    schema_version: u32,
    runs: Vec<Listed>,
}

/// A run in the list.
#[derive(Serialize)]
struct Listed {
    id: String,
    name: String,
    place: String,
    /// Seconds since the last row was written.
    seconds_since: Option<f64>,
    state: &'static str,
    /// Reason why its summary cannot be read.
    problem: Option<String>,
}

/// Returns the state of a run according to its folder, and the reason if it is unreadable. A run
/// without a summary is "not finished"; it may or may not be running.
pub(super) fn state(folder: &FilePath) -> (&'static str, Option<String>) {
    match summary(folder) {
        Ok(Some(summary)) if summary.interrupted => ("interrupted", None),
        Ok(Some(_)) => ("finished", None),
        // A game has no summary, and its pictures are drawn at its end.
        Ok(None) if game::is_game(folder) => ("finished", None),
        Ok(None) => ("not finished", None),
        Err(error) => ("unreadable", Some(crate::words(&error))),
    }
}

/// File with the settings of a run.
const SETTINGS_FILE: &str = "settings.json";

/// Returns true if a folder contains a regular file of this name. Links may lead elsewhere, and a
/// pipe may never end.
pub(super) fn has_file(folder: &FilePath, name: &str) -> bool {
    folder.join(name).symlink_metadata().is_ok_and(|meta| meta.is_file())
}

/// Reads the summary of a run; `None` if there is none yet.
///
/// # Errors
/// If it is not a regular file of the folder, or cannot be read.
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

/// Returns the labels of a run's pictures: those of its summary; before it exists, for a
/// federation, all arms' labels and the value's name.
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

/// Seconds since the results were last written.
fn seconds_since(folder: &FilePath) -> Option<f64> {
    let modified = std::fs::metadata(folder.join(RESULTS_FILE)).ok()?.modified().ok()?;
    Some(SystemTime::now().duration_since(modified).unwrap_or_default().as_secs_f64())
}

/// Name of a run: that of its folder.
pub(super) fn name(folder: &FilePath) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    whole.file_name().map_or_else(|| "results".into(), |name| name.to_string_lossy().into_owned())
}

/// `GET /api/runs`.
pub(super) fn list(asked: &Asked) -> anyhow::Result<Response> {
    let runs = asked.shared.catalog.runs().into_iter().map(|(id, folder)| {
        let (state, problem) = state(&folder);
        Listed {
            id,
            name: name(&folder),
            place: folder.display().to_string(),
            seconds_since: seconds_since(&folder),
            state,
            problem,
        }
    });
    json(&List { schema_version: SCHEMA_VERSION, runs: runs.collect() })
}

/// A run without its rows.
#[derive(Serialize)]
struct Described {
    schema_version: u32,
    id: String,
    name: String,
    place: String,
    state: &'static str,
    /// Reason why its summary cannot be read.
    problem: Option<String>,
    seconds_since: Option<f64>,
    summary: Option<Summary>,
    /// Names of the folder's pictures, without extension.
    pictures: Vec<String>,
    files: Vec<String>,
    /// True if the settings declare releases without protection: simulated, or without noise.
    unprotected: bool,
    /// The closing table of `fedbo run`.
    closing: Option<String>,
    /// The final metric of each arm.
    arms: Vec<ArmRecord>,
    /// Descriptive labels of arms, by name.
    arm_labels: BTreeMap<String, String>,
    /// Optional sections of the page for this folder.
    parts: Parts,
}

/// Optional sections of a run's page.
#[derive(Serialize)]
struct Parts {
    /// True if the folder has a ledger of charged releases.
    ledger: bool,
    /// True if agents share with neighbours.
    topology: bool,
    /// True if the settings contain a schedule of the use of others' messages.
    schedule: bool,
    /// True if the run is a game.
    game: bool,
}

/// The final metric of an arm as in the closing table, with Student's interval.
#[derive(Serialize)]
struct ArmRecord {
    experiment: String,
    metric: Metric,
    arm: String,
    estimate: Option<Estimate>,
    interval: Option<Interval>,
    failed: usize,
    trials: usize,
    ask_seconds: f64,
    wall_seconds: Option<f64>,
}

/// Returns the arms of a summary and of all its configurations.
fn arm_records(summary: &Summary) -> Vec<ArmRecord> {
    let parts = [summary].into_iter().chain(&summary.configurations);
    let records = parts.flat_map(|part| {
        part.arms.iter().map(|arm| ArmRecord {
            experiment: part.experiment.clone(),
            metric: part.metric,
            arm: arm.arm.clone(),
            estimate: arm.last,
            interval: arm.last.and_then(|last| last.interval()),
            failed: arm.failed_trials,
            trials: arm.trials,
            ask_seconds: arm.ask_seconds_mean,
            wall_seconds: arm.wall_seconds,
        })
    });
    records.collect()
}

/// `GET /api/runs/{id}`.
pub(super) fn one(asked: &Asked) -> anyhow::Result<Response> {
    let folder = asked.shared.catalog.run(asked.id())?;
    let summary = summary(&folder).ok().flatten();
    let (state, problem) = state(&folder);
    json(&Described {
        schema_version: SCHEMA_VERSION,
        id: asked.id().to_owned(),
        name: name(&folder),
        place: folder.display().to_string(),
        state,
        problem,
        seconds_since: seconds_since(&folder),
        closing: summary.as_ref().map(|summary| closing_table(summary, None)),
        arms: summary.as_ref().map(arm_records).unwrap_or_default(),
        arm_labels: figure(&folder, summary.as_ref()).arm_labels,
        unprotected: is_unprotected(&folder),
        summary,
        pictures: pictures(&folder),
        files: files(&folder),
        parts: Parts {
            ledger: privacy::has_ledger(&folder),
            topology: topology::has_neighbours(&folder),
            schedule: schedule::has_schedule(&folder),
            game: game::is_game(&folder),
        },
    })
}

/// Returns true if the settings of a run declare unprotected releases: their noise is seeded, or
/// there is none.
fn is_unprotected(folder: &FilePath) -> bool {
    let Some(tables) = settings(folder) else {
        return false;
    };
    let privacy = &tables["privacy"];
    privacy["simulate"] == true || privacy["mode"] == "off"
}

/// Extensions of files that are served, with their types. Ledgers are excluded.
const KINDS: [(&str, &str); 4] = [
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("csv", "text/csv; charset=utf-8"),
    ("json", "application/json"),
];

/// Returns the files of a folder that are served, sorted by name.
fn files(folder: &FilePath) -> Vec<String> {
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

fn kind(name: &str) -> Option<&'static str> {
    let (stem, ending) = name.rsplit_once('.')?;
    let known = KINDS.iter().find(|(known, _)| *known == ending);
    known.filter(|_| !stem.is_empty()).map(|(_, kind)| *kind)
}

/// `GET /api/runs/{id}/files/{name}`: a picture or a table of the folder, unchanged.
pub(super) fn file(asked: &Asked) -> anyhow::Result<Response> {
    let (folder, name) = (asked.shared.catalog.run(asked.id())?, asked.file());
    let absent = || Problem::absent(format!("the run has no file {name:?}"));
    // Match the folder's own file names only, so that no path escapes the folder.
    let found = files(&folder).into_iter().find(|file| file == name).with_context(absent)?;
    let kind = kind(&found).with_context(absent)?;
    // Pictures are embedded in a page. One opened on its own is saved as a file, so its scripts do
    // not run.
    Ok(as_file(typed(kind, read(&folder.join(&found))?), &found))
}

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
