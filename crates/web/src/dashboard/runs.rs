//! Results folders of finished and unfinished federations, experiments and games.

use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::time::SystemTime;

use anyhow::Context as _;
use axum::response::Response;
use fedbo_report::{Estimate, Interval, Metric, RESULTS_FILE, Summary, closing_table};
use serde::Serialize;

use super::request::{Asked, Problem, as_file, json};
use super::{folder, privacy, schedule, topology};
use crate::answers::typed;
use fedbo_documents::trial_record::SCHEMA_VERSION;

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
    /// The reason why the run's summary cannot be read.
    problem: Option<String>,
}

/// Returns the state of a run according to its folder, and the reason if the run cannot be read. A
/// run without a summary is "not finished", whether or not it is still running.
pub(super) fn state(folder: &FilePath) -> (&'static str, Option<String>) {
    match folder::summary(folder) {
        Ok(Some(summary)) if summary.interrupted => ("interrupted", None),
        Ok(Some(_)) => ("finished", None),
        // A game has no summary. Its pictures are drawn when it ends.
        Ok(None) if folder::is_game(folder) => ("finished", None),
        Ok(None) => ("not finished", None),
        Err(error) => ("unreadable", Some(fedbo_documents::error_text(&error))),
    }
}

/// Returns the number of seconds since the results were last written.
fn seconds_since(folder: &FilePath) -> Option<f64> {
    let modified = std::fs::metadata(folder.join(RESULTS_FILE)).ok()?.modified().ok()?;
    Some(SystemTime::now().duration_since(modified).unwrap_or_default().as_secs_f64())
}

/// `GET /api/runs`.
pub(super) fn list(asked: &Asked) -> anyhow::Result<Response> {
    let runs = asked.shared.catalog.runs().into_iter().map(|(id, folder)| {
        let (state, problem) = state(&folder);
        Listed {
            id,
            name: folder::name(&folder),
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
    /// The reason why the run's summary cannot be read.
    problem: Option<String>,
    seconds_since: Option<f64>,
    summary: Option<Summary>,
    /// Names of the pictures in the folder, without extension.
    pictures: Vec<String>,
    files: Vec<String>,
    /// True if the settings declare unprotected releases: simulated, or without noise.
    unprotected: bool,
    /// The final table of `fedbo run`.
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
    /// True if the folder contains a ledger of charged releases.
    ledger: bool,
    /// True if agents share with neighbours.
    topology: bool,
    /// True if the settings contain a schedule for the use of other agents' messages.
    schedule: bool,
    /// True if the run is a game.
    game: bool,
}

/// The final metric of an arm as in the final table, with Student's confidence interval.
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
    let summary = folder::summary(&folder).ok().flatten();
    let (state, problem) = state(&folder);
    json(&Described {
        schema_version: SCHEMA_VERSION,
        id: asked.id().to_owned(),
        name: folder::name(&folder),
        place: folder.display().to_string(),
        state,
        problem,
        seconds_since: seconds_since(&folder),
        closing: summary.as_ref().map(|summary| closing_table(summary, None)),
        arms: summary.as_ref().map(arm_records).unwrap_or_default(),
        arm_labels: folder::figure(&folder, summary.as_ref()).arm_labels,
        unprotected: is_unprotected(&folder),
        summary,
        pictures: folder::pictures(&folder),
        files: folder::files(&folder),
        parts: Parts {
            ledger: privacy::has_ledger(&folder),
            topology: topology::has_neighbours(&folder),
            schedule: schedule::has_schedule(&folder),
            game: folder::is_game(&folder),
        },
    })
}

/// Returns true if the settings of a run declare unprotected releases: their noise is seeded, or
/// there is none.
fn is_unprotected(folder: &FilePath) -> bool {
    let Some(tables) = folder::settings(folder) else {
        return false;
    };
    let privacy = &tables["privacy"];
    privacy["simulate"] == true || privacy["mode"] == "off"
}

/// `GET /api/runs/{id}/files/{name}`: a picture or table in the folder, unchanged.
pub(super) fn file(asked: &Asked) -> anyhow::Result<Response> {
    let (folder, name) = (asked.shared.catalog.run(asked.id())?, asked.file());
    let absent = || Problem::absent(format!("the run has no file {name:?}"));
    // Match only against the folder's own file names, so that no path escapes the folder.
    let found =
        folder::files(&folder).into_iter().find(|file| file == name).with_context(absent)?;
    let kind = folder::kind(&found).with_context(absent)?;
    // Pages embed pictures as images. A picture that is opened directly is saved as a file, so that
    // its scripts do not run.
    Ok(as_file(typed(kind, folder::read(&folder.join(&found))?), &found))
}
