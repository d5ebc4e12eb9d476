//! The published data sets of problems and experiments: a table of their files, checks of a data
//! folder, and the conversion from the originals.
//!
//! docs/data.md describes sources, licences and columns.

mod check;
mod convert;
mod mat;
mod numbers;
mod pickle;
mod rdata;
mod split;

pub use check::{FileState, SetReport, SetState, check};
pub use convert::{Conversion, ConvertedFile, OriginalError, conversions};

use std::path::Path;

use crate::table::DataError;
use crate::{cnn_records, emails, landmine, landmine_grid, patients, payoff_functions};

/// Numbers of shared features for which the authors' draws are stored.
const FEATURE_COUNTS: [usize; 4] = [50, 100, 150, 200];

/// A data set of the layout.
#[derive(Clone, Debug)]
pub struct DataSet {
    /// Name used in commands and experiments.
    pub name: &'static str,
    /// One-line summary of the contents.
    pub about: &'static str,
    /// The files, in the order in which they are read.
    pub files: Vec<DataFile>,
}

/// A file of a data set.
#[derive(Clone, Debug)]
pub struct DataFile {
    /// Path within the data folder.
    pub path: String,
    content: Content,
}

/// The content of a file, which determines how it is checked.
#[derive(Clone, Copy, Debug)]
enum Content {
    Landmine,
    LandmineGrid,
    Features(usize),
    InitialPoints,
    Observations,
    CnnObservations,
    CnnInitializations,
    Payoffs,
    Patients,
    Emails,
    /// Columns that an experiment shows next to its own figures.
    Figures(&'static [(&'static str, Kind)]),
}

/// The values of a column.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Whole,
    Number,
    /// A number, or an empty cell.
    Optional,
}

/// Returns all data sets of the layout.
pub fn data_sets() -> Vec<DataSet> {
    let file = |path: &str, content| DataFile { path: path.to_owned(), content };
    let mut archive: Vec<DataFile> = FEATURE_COUNTS
        .map(|n| file(&format!("landmine-fts/random_features_M{n}.csv"), Content::Features(n)))
        .into();
    archive.push(file("landmine-fts/initial_points.csv", Content::InitialPoints));
    archive.push(file("landmine-fts/agent_observations.csv", Content::Observations));
    let games = (0..payoff_functions::N_GAMES).flat_map(|game| [(game, 1), (game, 2)]);
    let games = games
        .map(|(game, function)| file(&payoff_functions::file(game, function), Content::Payoffs));
    vec![
        DataSet {
            name: "landmine",
            about: "29 fields with labelled locations, as training and validation halves",
            files: vec![file(landmine::FILE, Content::Landmine)],
        },
        DataSet {
            name: "landmine-grid",
            about: "the AUC of an SVM on each landmine field at 88 hyperparameter settings",
            files: vec![file(landmine_grid::FILE, Content::LandmineGrid)],
        },
        DataSet {
            name: "landmine-fts",
            about: "features, initial points and observations of the authors' runs of FTS",
            files: archive,
        },
        DataSet {
            name: "meta-bo",
            about: "recorded training runs of a CNN on four image data sets",
            files: vec![
                file(cnn_records::OBSERVATIONS, Content::CnnObservations),
                file(cnn_records::INITIALIZATIONS, Content::CnnInitializations),
            ],
        },
        DataSet {
            name: "r2b2-synthetic",
            about: "payoff functions of ten synthetic games, 100 x 100 actions each",
            files: games.collect(),
        },
        DataSet {
            name: "pima",
            about: "diabetes among 768 Pima women, by eight measurements",
            files: vec![file(patients::PATIENTS.file, Content::Patients)],
        },
        DataSet {
            name: "spam",
            about: "4601 e-mails by 57 frequencies and lengths, spam or not",
            files: vec![file(emails::EMAILS.file, Content::Emails)],
        },
        DataSet {
            name: "official-results",
            about: "figures of the authors' own runs, shown alongside ours",
            files: vec![
                file(
                    FTS_SUMMARY,
                    Content::Figures(&[
                        ("method", Kind::Text),
                        ("M", Kind::Whole),
                        ("mean_best50_auc", Kind::Number),
                        ("se_over_30_runs", Kind::Number),
                        ("mean_s_per_iter", Kind::Number),
                    ]),
                ),
                file(
                    FTS_CURVES,
                    Content::Figures(&[
                        ("method", Kind::Text),
                        ("iter", Kind::Whole),
                        ("mean_elapsed_s", Kind::Number),
                        ("mean_best_auc", Kind::Number),
                    ]),
                ),
                file(
                    FTS_TARGETS,
                    Content::Figures(&[
                        ("method", Kind::Text),
                        ("M", Kind::Whole),
                        ("field", Kind::Whole),
                        ("mean_best50_auc", Kind::Number),
                    ]),
                ),
                file(
                    DP_ENDS,
                    Content::Figures(&[
                        ("method", Kind::Text),
                        ("q", Kind::Optional),
                        ("z", Kind::Optional),
                        ("mean_1_minus_auc_after_60", Kind::Number),
                    ]),
                ),
                file(
                    DTS_CURVES,
                    Content::Figures(&[
                        ("objective", Kind::Text),
                        ("graph", Kind::Text),
                        ("series", Kind::Text),
                        ("metric", Kind::Text),
                        ("iteration", Kind::Whole),
                        ("value_read_from_figure", Kind::Optional),
                    ]),
                ),
            ],
        },
    ]
}

/// Final values of the authors' runs of FTS, RGPE and TAF (FTS Fig. 2a), within the data folder.
pub const FTS_SUMMARY: &str = "official-results/fts_landmine_summary.csv";
/// Curves of the same runs (FTS Fig. 3a).
pub const FTS_CURVES: &str = "official-results/fts_landmine_fig3a_field0_M100.csv";
/// Final values of the authors' runs of FTS, RGPE and TAF per target (FTS Fig. 5).
pub const FTS_TARGETS: &str = "official-results/fts_landmine_summary_by_field.csv";
/// Final values of the authors' runs of DP-FTS-DE (DP-FTS-DE Fig. 3a).
pub const DP_ENDS: &str = "official-results/dpftsde_privacy_utility_from_figure.csv";
/// Curves of distributed Thompson sampling.
pub const DTS_CURVES: &str = "official-results/distributed_ts_from_figures.csv";

/// Returns the path of a file with the authors' figures if the data folder contains it. Experiments
/// run without it.
pub fn figures(folder: &Path, file: &str) -> Option<std::path::PathBuf> {
    Some(folder.join(file)).filter(|path| path.exists())
}

/// Returns the note that an experiment prints if the data folder lacks this file of the authors'
/// figures.
pub fn without_figures(file: &str) -> String {
    format!("The authors' figures are left out: the data folder has no {file} (docs/data.md).")
}

impl DataFile {
    /// Reads the file as experiments do, and checks that it is complete. Returns the number of
    /// rows.
    fn rows(&self, folder: &Path) -> Result<usize, DataError> {
        check::rows(folder, &self.path, self.content)
    }
}
