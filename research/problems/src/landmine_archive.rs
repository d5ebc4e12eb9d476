//! Inputs of the authors' own landmine runs: features, initial points, observations, messages
//! (landmine-fts).
//!
//! Read `data/landmine-fts/README.md` before using the messages: they were built from mis-paired
//! observations.

use std::path::Path;

use crate::table::{DataError, read};

/// Shared random features: φ(x)_j = √(2/M) cos(s_j·x + b_j), then divided by the Euclidean norm of
/// φ(x).
#[derive(Clone, Debug, PartialEq)]
pub struct ArchivedFeatures {
    /// Spectral points s_j, M×2.
    pub frequencies: Vec<[f64; 2]>,
    /// Phases b_j, M.
    pub phases: Vec<f64>,
}

/// A point where a field's objective was evaluated, with the authors' recorded value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArchivedPoint {
    /// Field, 0 to 28.
    pub field: usize,
    /// Run of the experiment, or 0 if there is only one.
    pub run: usize,
    /// Position within the run: 0, 1, … for initial points; −2, −1, 0 and then 1 to 50 for
    /// observations.
    pub position: i64,
    /// x1 and x2, in `[0,1]`.
    pub x: [f64; 2],
    /// Validation AUC.
    pub auc: f64,
}

/// A field's vector of M numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct ArchivedWeights {
    /// Field, 0 to 28.
    pub field: usize,
    /// The numbers.
    pub weights: Vec<f64>,
}

/// Reads the shared features for M = 50, 100, 150 or 200.
///
/// # Errors
/// If the file is missing or a line is malformed.
pub fn read_features(folder: &Path, n_features: usize) -> Result<ArchivedFeatures, DataError> {
    let file = format!("landmine-fts/random_features_M{n_features}.csv");
    let rows =
        read(folder, &file, |row| Ok(([row.number("s1")?, row.number("s2")?], row.number("b")?)))?;
    let (frequencies, phases) = rows.into_iter().unzip();
    Ok(ArchivedFeatures { frequencies, phases })
}

/// Reads the three initial points of each published run. Fields 0 to 5 have runs 0 to 4, the others
/// only run 0.
///
/// # Errors
/// If the file is missing or a line is malformed.
pub fn read_initial_points(folder: &Path) -> Result<Vec<ArchivedPoint>, DataError> {
    read_points(folder, "landmine-fts/initial_points.csv", Some("run"), "k")
}

/// Reads the ten initial points of the TS runs in the DP-FTS-DE repository: 29 fields, runs 0 to 9.
///
/// # Errors
/// If the file is missing or a line is malformed.
pub fn read_dp_initial_points(folder: &Path) -> Result<Vec<ArchivedPoint>, DataError> {
    read_points(folder, "landmine-fts/dp_ts_initial_points.csv", Some("run"), "k")
}

/// Reads each field's own TS run: three initial points (positions −2 to 0), then 50 queries.
///
/// # Errors
/// If the file is missing or a line is malformed.
pub fn read_agent_observations(folder: &Path) -> Result<Vec<ArchivedPoint>, DataError> {
    read_points(folder, "landmine-fts/agent_observations.csv", None, "iter")
}

/// Reads every field's message ω_n for M = 50, 100, 150 or 200.
///
/// # Errors
/// If the file is missing or a line is malformed.
pub fn read_messages(folder: &Path, n_features: usize) -> Result<Vec<ArchivedWeights>, DataError> {
    read_weights(folder, &format!("landmine-fts/messages_M{n_features}.csv"))
}

/// Reads every field's posterior mean ν_n, which belongs to its message, for M = 50 or 100.
///
/// # Errors
/// If the file is missing or a line is malformed.
pub fn read_posterior_means(
    folder: &Path,
    n_features: usize,
) -> Result<Vec<ArchivedWeights>, DataError> {
    read_weights(folder, &format!("landmine-fts/posterior_mean_nu_M{n_features}.csv"))
}

fn read_points(
    folder: &Path,
    file: &str,
    run: Option<&str>,
    position: &str,
) -> Result<Vec<ArchivedPoint>, DataError> {
    read(folder, file, |row| {
        Ok(ArchivedPoint {
            field: row.get("field")?,
            run: run.map_or(Ok(0), |column| row.get(column))?,
            position: row.get(position)?,
            x: [row.number("x1")?, row.number("x2")?],
            auc: row.number("auc")?,
        })
    })
}

fn read_weights(folder: &Path, file: &str) -> Result<Vec<ArchivedWeights>, DataError> {
    read(folder, file, |row| {
        Ok(ArchivedWeights { field: row.get("field")?, weights: row.numbers_from(1)? })
    })
}
