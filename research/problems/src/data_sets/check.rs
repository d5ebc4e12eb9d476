//! Checks of a data folder.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Content, DataSet, Kind, data_sets};
use crate::landmine_archive::{
    ArchivedPoint, read_agent_observations, read_features, read_initial_points,
};
use crate::table::{self, DataError, Row};
use crate::{
    N_FIELDS, cnn_records, payoff_functions, read_emails, read_fields, read_landmine_grids,
    read_patients,
};

/// Numbers of target fields (FTS section 5.2), of runs per target, and of initial points per run.
const TARGETS: usize = 6;
const RUNS: usize = 5;
const INITIAL: i64 = 3;
/// Number of queries of each field's own run.
const QUERIES: i64 = 50;

/// The state of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// The file is complete.
    Complete {
        /// Number of lines, excluding the header.
        rows: usize,
    },
    /// The file is missing.
    Missing,
    /// The file exists but is unusable.
    Malformed {
        /// Line number, from 1, if the fault is in a line.
        line: Option<u64>,
        /// The fault, and the expected content.
        message: String,
    },
}

/// The state of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetState {
    /// All files are complete.
    Complete,
    /// Some files are missing; the others are complete.
    Incomplete,
    /// All files are missing.
    Missing,
    /// A file is unusable.
    Malformed,
}

/// The result of checking a data set.
#[derive(Clone, Debug)]
pub struct SetReport {
    /// The data set.
    pub set: DataSet,
    /// The state of every file, in the order of the data set's files.
    pub files: Vec<FileState>,
}

impl SetReport {
    /// Returns the state of the data set.
    pub fn state(&self) -> SetState {
        let is = |state: &FileState| matches!(state, FileState::Malformed { .. });
        if self.files.iter().any(is) {
            return SetState::Malformed;
        }
        match self.files.iter().filter(|state| **state == FileState::Missing).count() {
            0 => SetState::Complete,
            n if n == self.files.len() => SetState::Missing,
            _ => SetState::Incomplete,
        }
    }
}

/// Checks every data set of the layout in a data folder.
///
/// # Errors
/// If the folder does not exist.
pub fn check(folder: &Path) -> Result<Vec<SetReport>, DataError> {
    if !folder.is_dir() {
        let file = crate::landmine::FILE.to_owned();
        return Err(DataError::NoFolder { folder: folder.to_owned(), file });
    }
    let state = |found| match found {
        Ok(rows) => FileState::Complete { rows },
        Err(DataError::Malformed { line, message, .. }) => {
            FileState::Malformed { line: Some(line), message }
        }
        Err(DataError::Unreadable { message, .. }) => FileState::Malformed { line: None, message },
        Err(error @ DataError::NoFolder { .. }) => {
            FileState::Malformed { line: None, message: error.to_string() }
        }
    };
    let report = |set: DataSet| {
        let files = set.files.iter().map(|file| match folder.join(&file.path).try_exists() {
            Ok(false) => FileState::Missing,
            Ok(true) => state(file.rows(folder)),
            Err(error) => FileState::Malformed { line: None, message: error.to_string() },
        });
        SetReport { files: files.collect(), set }
    };
    Ok(data_sets().into_iter().map(report).collect())
}

pub(super) fn rows(folder: &Path, file: &str, content: Content) -> Result<usize, DataError> {
    let incomplete = |message| DataError::Malformed { path: folder.join(file), line: 1, message };
    match content {
        Content::Landmine => {
            let fields = read_fields(folder)?;
            for (n, field) in fields.iter().enumerate() {
                for (half, name) in [(&field.train, "train"), (&field.validation, "validation")] {
                    let n_mines = half.n_positive();
                    if n_mines == 0 || n_mines == half.len() {
                        let lacking = u8::from(n_mines == 0);
                        let message =
                            format!("field {n} has no row with split {name} and label {lacking}");
                        return Err(incomplete(message));
                    }
                }
            }
            Ok(fields.iter().map(|field| field.train.len() + field.validation.len()).sum())
        }
        Content::LandmineGrid => {
            let grids = read_landmine_grids(folder)?;
            if grids.len() != N_FIELDS {
                return Err(incomplete(format!("{} fields, expected {N_FIELDS}", grids.len())));
            }
            Ok(grids.iter().map(|grid| grid.points().len()).sum())
        }
        Content::Features(n_features) => {
            let n = read_features(folder, n_features)?.phases.len();
            if n != n_features {
                return Err(incomplete(format!("{n} features, expected {n_features}")));
            }
            Ok(n)
        }
        Content::InitialPoints => {
            let points = read_initial_points(folder)?;
            let expected = (0..TARGETS)
                .flat_map(|field| (0..RUNS).map(move |run| (field, run)))
                .flat_map(|(field, run)| (0..INITIAL).map(move |k| (field, run, k)));
            whole(&points, expected, "k").map_err(incomplete)
        }
        Content::Observations => {
            let points = read_agent_observations(folder)?;
            let expected =
                (0..N_FIELDS).flat_map(|field| (1..=QUERIES).map(move |iter| (field, 0, iter)));
            whole(&points, expected, "iter").map_err(incomplete)
        }
        Content::CnnObservations => Ok(cnn_records::read_observations(folder)?.len()),
        Content::CnnInitializations => Ok(cnn_records::read_initializations(folder)?.len()),
        Content::Payoffs => {
            payoff_functions::read_function(folder, file)?;
            Ok(payoff_functions::N_GRID_ACTIONS)
        }
        Content::Patients => Ok(read_patients(folder)?.len()),
        Content::Emails => Ok(read_emails(folder)?.len()),
        Content::Figures(columns) => {
            let row = |row: &Row<'_>| columns.iter().try_for_each(|column| cell(row, *column));
            Ok(table::read(folder, file, row)?.len())
        }
    }
}

/// Checks that every expected point occurs once in the table, and that all inputs are in the unit
/// square.
fn whole(
    points: &[ArchivedPoint],
    expected: impl Iterator<Item = (usize, usize, i64)>,
    position: &str,
) -> Result<usize, String> {
    let name = |(field, run, at): (usize, usize, i64)| {
        format!("field {field}, run {run}, {position} = {at}")
    };
    let mut found = BTreeSet::new();
    for point in points {
        let key = (point.field, point.run, point.position);
        if !point.x.iter().all(|x| (0.0..=1.0).contains(x)) {
            return Err(format!("{}: x1 and x2 are expected to be from 0 to 1", name(key)));
        }
        if !found.insert(key) {
            return Err(format!("{} is in the table twice", name(key)));
        }
    }
    for key in expected {
        if !found.contains(&key) {
            return Err(format!("{} is missing", name(key)));
        }
    }
    Ok(points.len())
}

fn cell(row: &Row<'_>, (column, kind): (&str, Kind)) -> Result<(), DataError> {
    match kind {
        Kind::Text => row.get::<String>(column).map(drop),
        Kind::Whole => row.get::<u64>(column).map(drop),
        Kind::Number => row.number(column).map(drop),
        Kind::Optional => match row.get::<String>(column)?.as_str() {
            "" => Ok(()),
            _ => row.number(column).map(drop),
        },
    }
}
