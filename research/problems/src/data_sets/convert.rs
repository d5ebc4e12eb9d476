//! Conversion of the published originals to the layout that experiments read.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use fedbo_error_class::{Class, Classified};

use super::FEATURE_COUNTS;
use super::mat::{self, Matrix, Value};
use super::numbers::{shortest, ten_digits};
use super::pickle::{Array, Pickle};
use super::rdata::{self, Column};
use super::split::stratified_halves;
use crate::cnn_records::{INITIALIZATIONS, N_INITIAL, N_OBSERVATIONS, OBSERVATIONS};
use crate::emails::EMAILS;
use crate::labelled_table::LabelledTable;
use crate::landmine::{self, C_RANGE, GAMMA_RANGE, N_FEATURES};
use crate::patients::PATIENTS;
use crate::payoff_functions::{self, N_GAMES, N_GRID_ACTIONS};
use crate::svm::Labelled;
use crate::{
    CNN_DATA_SETS, DataError, LandmineSvm, N_CNN_RUNS, N_FIELDS, landmine_grid, read_fields,
};

/// Maximum number of bytes read from an original. The largest original has a size of 1.8 MB.
const MAX_BYTES: u64 = 8 << 20;
/// Maximum number of locations in a field. The largest field has 690.
const MAX_LOCATIONS: usize = 10_000;
/// Coordinates of the published grid of hyperparameters.
const GRID_C: [f64; 8] = [0.0, 0.015625, 0.0625, 0.125, 0.25, 0.5, 0.75, 1.0];
const GRID_GAMMA: [f64; 11] =
    [0.0, 0.001953125, 0.0078125, 0.015625, 0.03125, 0.0625, 0.125, 0.25, 0.5, 0.75, 1.0];

/// Reason why an original cannot be converted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OriginalError {
    /// The original is missing or unreadable.
    #[error("cannot read {path}: {message}; {expected}")]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The operating system's message.
        message: String,
        /// The expected original.
        expected: &'static str,
    },
    /// The original is malformed.
    #[error("{path}: {message}")]
    Malformed {
        /// The path.
        path: PathBuf,
        /// The fault.
        message: String,
    },
    /// The data folder that serves as input is unusable.
    #[error(transparent)]
    Data(#[from] DataError),
}

impl Classified for OriginalError {
    fn class(&self) -> Class {
        Class::Input
    }
}

/// A file of the layout, converted from an original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvertedFile {
    /// Path within the data folder.
    pub path: String,
    /// Contents of the file.
    pub text: String,
    /// Number of lines, excluding the header.
    pub rows: usize,
}

/// The conversion of a data set.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// The name of the data set.
    pub data_set: &'static str,
    /// The original that is expected.
    pub expects: &'static str,
    run: fn(&Original<'_>) -> Result<Vec<ConvertedFile>, OriginalError>,
}

impl Conversion {
    /// Creates the files of the data set from the original at `source`, without writing them to
    /// disk.
    ///
    /// # Errors
    /// If the original is unreadable or malformed.
    pub fn run(&self, source: &Path) -> Result<Vec<ConvertedFile>, OriginalError> {
        (self.run)(&Original { path: source, expects: self.expects })
    }
}

/// Returns all conversions.
pub fn conversions() -> &'static [Conversion] {
    &[
        Conversion {
            data_set: "landmine",
            expects: "SOURCE is LandmineData.mat, or a folder that has it, such as a clone of \
                      daizhongxiang/Federated_Bayesian_Optimization",
            run: landmine,
        },
        Conversion {
            data_set: "landmine-grid",
            expects: "SOURCE is a data folder with landmine/landmine.csv",
            run: grid,
        },
        Conversion {
            data_set: "landmine-fts",
            expects: "SOURCE is a clone of daizhongxiang/Federated_Bayesian_Optimization, in which \
                      results_standard_bo/results_standard_bo.zip is unpacked where it stands",
            run: fts,
        },
        Conversion {
            data_set: "meta-bo",
            expects: "SOURCE is a clone of daizhongxiang/meta-BO",
            run: cnn,
        },
        Conversion {
            data_set: "r2b2-synthetic",
            expects: "SOURCE is a clone of daizhongxiang/R2-B2",
            run: games,
        },
        Conversion {
            data_set: "pima",
            expects: "SOURCE is PimaIndiansDiabetes.rda of the R package mlbench, decompressed with xz -dc, or a folder that contains it",
            run: |original| {
                labelled(original, "PimaIndiansDiabetes", ("diabetes", ["neg", "pos"]), &PATIENTS)
            },
        },
        Conversion {
            data_set: "spam",
            expects: "SOURCE is spam.rda of the R package kernlab, decompressed with bzip2 -dc, or a folder that contains it",
            run: |original| labelled(original, "spam", ("type", ["nonspam", "spam"]), &EMAILS),
        },
    ]
}

/// The original of a conversion: a file, or a folder.
struct Original<'a> {
    path: &'a Path,
    expects: &'static str,
}

impl Original<'_> {
    /// Reads a file of the original.
    fn bytes(&self, path: &Path) -> Result<Vec<u8>, OriginalError> {
        let refused = |message: String| OriginalError::Unreadable {
            path: path.to_owned(),
            message,
            expected: self.expects,
        };
        let about = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?;
        if !about.is_file() {
            return Err(refused("it is not a file".to_owned()));
        }
        let file = std::fs::File::open(path).map_err(|error| refused(error.to_string()))?;
        let mut bytes = Vec::new();
        let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| refused(error.to_string()))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(refused(format!("it has more than {MAX_BYTES} bytes")));
        }
        Ok(bytes)
    }

    /// Reads a pickle of the original, and extracts a part of it.
    fn pickle<T>(
        &self,
        file: &str,
        part: impl FnOnce(&Pickle) -> Result<T, String>,
    ) -> Result<T, OriginalError> {
        let path = self.path.join(file);
        let read = Pickle::read(&self.bytes(&path)?);
        read.and_then(|pickle| part(&pickle)).map_err(|message| malformed(&path, message))
    }
}

fn malformed(path: &Path, message: String) -> OriginalError {
    OriginalError::Malformed { path: path.to_owned(), message }
}

/// A table that is built line by line.
struct Table {
    text: String,
    rows: usize,
}

impl Table {
    fn new(header: &str) -> Self {
        Self { text: format!("{header}\n"), rows: 0 }
    }

    /// Adds a line: labels, then numbers.
    fn line(&mut self, labels: &[&dyn std::fmt::Display], numbers: &[f64]) {
        let labels = labels.iter().map(ToString::to_string);
        let cells = labels.chain(numbers.iter().map(|number| shortest(*number)));
        let line = cells.collect::<Vec<_>>().join(",");
        self.text += &line;
        self.text.push('\n');
        self.rows += 1;
    }

    fn into_file(self, path: impl Into<String>) -> ConvertedFile {
        ConvertedFile { path: path.into(), text: self.text, rows: self.rows }
    }
}

/// Reads the landmine fields from `LandmineData.mat`. The variables `feature` and `label` are 1 ×
/// 29 cell arrays. Cell n of `feature` is an N_n × 9 matrix of numbers, and cell n of `label` is an
/// N_n × 1 matrix of zeros and ones.
fn landmine(original: &Original<'_>) -> Result<Vec<ConvertedFile>, OriginalError> {
    let path = if original.path.is_dir() {
        original.path.join("LandmineData.mat")
    } else {
        original.path.to_owned()
    };
    let bytes = original.bytes(&path)?;
    let text = landmine_table(&bytes).map_err(|message| malformed(&path, message))?;
    Ok(vec![text.into_file(landmine::FILE)])
}

fn landmine_table(bytes: &[u8]) -> Result<Table, String> {
    let [features, labels] = ["feature", "label"].map(|name| match mat::variable(bytes, name)? {
        Some(Value::Cells(cells)) if cells.len() == N_FIELDS => Ok(cells),
        Some(Value::Cells(cells)) => {
            Err(format!("{name} has {} cells, expected {N_FIELDS}", cells.len()))
        }
        Some(_) => Err(format!("{name} is not a cell array")),
        None => Err(format!("there is no variable {name}")),
    });
    let mut table = Table::new("field,split,label,f1,f2,f3,f4,f5,f6,f7,f8,f9,mat_row");
    for (field, pair) in features?.iter().zip(&labels?).enumerate() {
        let (Value::Matrix(features), Value::Matrix(labels)) = pair else {
            return Err(format!(
                "cell {} of feature or label is not a matrix of numbers",
                field + 1
            ));
        };
        let labels = field_labels(features, labels)
            .map_err(|message| format!("cell {}: {message}", field + 1))?;
        let halves = stratified_halves(&labels);
        for (split, rows) in [("train", halves.train), ("validation", halves.validation)] {
            for row in rows {
                let numbers: Vec<String> =
                    (0..N_FEATURES).map(|column| shortest(features.at(row, column))).collect();
                let label = u8::from(labels[row]);
                let _ = writeln!(table.text, "{field},{split},{label},{},{row}", numbers.join(","));
                table.rows += 1;
            }
        }
    }
    Ok(table)
}

/// Checks both matrices of a field, and returns its labels.
fn field_labels(features: &Matrix, labels: &Matrix) -> Result<Vec<bool>, String> {
    let n = features.n_rows;
    if features.n_columns != N_FEATURES || n > MAX_LOCATIONS {
        return Err(format!(
            "feature is {n} x {}, expected {N_FEATURES} columns and at most {MAX_LOCATIONS} rows",
            features.n_columns
        ));
    }
    if (labels.n_rows, labels.n_columns) != (n, 1) {
        return Err(format!("label is {} x {}, expected {n} x 1", labels.n_rows, labels.n_columns));
    }
    for row in 0..n {
        if let Some(column) = (0..N_FEATURES).find(|c| !features.at(row, *c).is_finite()) {
            let value = features.at(row, column);
            return Err(format!(
                "row {}, column {}: {value}, expected a finite number",
                row + 1,
                column + 1
            ));
        }
    }
    let label = |row: usize| match labels.at(row, 0) {
        0.0 => Ok(false),
        1.0 => Ok(true),
        other => Err(format!("row {}: label {other}, expected 0 or 1", row + 1)),
    };
    let labels = (0..n).map(label).collect::<Result<Vec<bool>, String>>()?;
    let n_mines = labels.iter().filter(|label| **label).count();
    if n_mines < 2 || n - n_mines < 2 {
        return Err(format!("{n_mines} of {n} labels are 1, expected at least two of each"));
    }
    Ok(labels)
}

/// Creates a table from the data frame called `name` in `name.rda`. Its column `label.0` is a
/// factor with the levels `label.1`, no and yes.
fn labelled(
    original: &Original<'_>,
    name: &str,
    label: (&str, [&str; 2]),
    table: &LabelledTable,
) -> Result<Vec<ConvertedFile>, OriginalError> {
    let path = if original.path.is_dir() {
        original.path.join(format!("{name}.rda"))
    } else {
        original.path.to_owned()
    };
    let bytes = original.bytes(&path)?;
    let text =
        labelled_text(&bytes, name, label, table).map_err(|message| malformed(&path, message))?;
    Ok(vec![text.into_file(table.file)])
}

fn labelled_text(
    bytes: &[u8],
    name: &str,
    (label, expected): (&str, [&str; 2]),
    table: &LabelledTable,
) -> Result<Table, String> {
    let frame = rdata::frame(bytes, name)?;
    let Column::Factor { levels, codes } = frame.column(label)? else {
        return Err(format!("{label} is not a factor"));
    };
    if *levels != expected {
        return Err(format!("{label} has the levels {levels:?}, expected {expected:?}"));
    }
    let columns = table.measurements.iter().map(|(name, ..)| match frame.column(name)? {
        Column::Numbers(values) => Ok(values),
        _ => Err(format!("{name} is not a column of numbers")),
    });
    let columns = columns.collect::<Result<Vec<&Vec<f64>>, String>>()?;
    let mut rows = Labelled::default();
    for (row, code) in codes.iter().enumerate() {
        let at = |message: String| format!("row {}: {message}", row + 1);
        let code = code.ok_or_else(|| at(format!("{label} is missing")))?;
        let numbers: Vec<f64> = columns.iter().map(|column| column[row]).collect();
        table.check_row(&numbers).map_err(at)?;
        rows.push(numbers, code == 1);
    }
    table.check_all(&rows)?;
    let names: Vec<&str> = table.measurements.iter().map(|(name, ..)| *name).collect();
    let mut text = Table::new(&format!("{},{}", table.label, names.join(",")));
    for (numbers, positive) in rows.rows.iter().zip(&rows.positive) {
        text.line(&[&u8::from(*positive)], numbers);
    }
    Ok(text)
}

/// Computes the AUC of every field at 88 settings with [`LandmineSvm`].
fn grid(original: &Original<'_>) -> Result<Vec<ConvertedFile>, OriginalError> {
    let fields = read_fields(original.path)?;
    let fault = |message: String| malformed(&original.path.join(landmine::FILE), message);
    let mut table = Table::new("field,x1,x2,C,gamma,auc");
    for field in 0..N_FIELDS {
        let svm = LandmineSvm::new(&fields, field)
            .map_err(|error| fault(format!("field {field}: {error}")))?;
        for x1 in GRID_C {
            for x2 in GRID_GAMMA {
                let at = |x: f64, [low, high]: [f64; 2]| low + x * (high - low);
                let (c, gamma) = (at(x1, C_RANGE), at(x2, GAMMA_RANGE));
                let auc =
                    svm.auc(c, gamma).map_err(|error| fault(format!("field {field}: {error}")))?;
                table.line(&[&field], &[x1, x2, c, gamma, auc]);
            }
        }
    }
    Ok(vec![table.into_file(landmine_grid::FILE)])
}

/// Returns the rows of an array with the given number of columns.
fn rows(array: &Array, n_columns: usize) -> Result<Vec<&[f64]>, String> {
    match array.shape[..] {
        [_, n] if n == n_columns => Ok(array.values.chunks(n_columns).collect()),
        _ => Err(format!("an array of shape {:?}, expected {n_columns} columns", array.shape)),
    }
}

/// Reads the features, initial points and observations of the authors' TS runs. In a record, the
/// list of queries contains each query twice in a row, but each value once (docs/data.md).
fn fts(original: &Original<'_>) -> Result<Vec<ConvertedFile>, OriginalError> {
    let mut files = Vec::new();
    for n_features in FEATURE_COUNTS {
        let name = format!("saved_random_features/RF_M_{n_features}.pkl");
        files.push(original.pickle(&name, |pickle| {
            let frequencies = rows(pickle.root().get("s")?.array()?, 2)?;
            let phases = &pickle.root().get("b")?.array()?.values;
            if [frequencies.len(), phases.len()] != [n_features; 2] {
                return Err(format!(
                    "{} frequencies and {} phases, expected {n_features}",
                    frequencies.len(),
                    phases.len()
                ));
            }
            let mut table = Table::new("j,s1,s2,b");
            for (j, (s, b)) in frequencies.iter().zip(phases).enumerate() {
                table.line(&[&j], &[s[0], s[1], *b]);
            }
            Ok(table.into_file(format!("landmine-fts/random_features_M{n_features}.csv")))
        })?);
    }
    let mut initial = Table::new("field,run,k,x1,x2,auc");
    let mut observed = Table::new("field,iter,x1,x2,auc");
    for field in 0..N_FIELDS {
        for run in 0..if field < 6 { 5 } else { 1 } {
            let name = format!("results_standard_bo/ts_field_{field}_iter_{run}_no_agent_info.p");
            let (points, queries) = original.pickle(&name, run_of_ts)?;
            for (k, (x, auc)) in points.iter().enumerate() {
                initial.line(&[&field, &run, &k], &[x[0], x[1], *auc]);
            }
            if run > 0 {
                continue;
            }
            for (iter, (x, auc)) in (-2..).zip(points.iter().chain(&queries)) {
                observed.line(&[&field, &iter], &[x[0], x[1], *auc]);
            }
        }
    }
    files.push(initial.into_file("landmine-fts/initial_points.csv"));
    files.push(observed.into_file("landmine-fts/agent_observations.csv"));
    Ok(files)
}

/// A point of the unit square with its AUC.
type Scored = ([f64; 2], f64);

/// Returns a run's three initial points and its fifty queries.
fn run_of_ts(pickle: &Pickle) -> Result<(Vec<Scored>, Vec<Scored>), String> {
    let all = pickle.root().get("all")?;
    let start = all.get("init")?;
    let inputs = rows(start.get("X")?.array()?, 2)?;
    let values = &start.get("Y")?.array()?.values;
    if [inputs.len(), values.len()] != [3, 3] {
        return Err(format!("{} initial points, expected 3", inputs.len()));
    }
    let initial = inputs.iter().zip(values).map(|(x, auc)| ([x[0], x[1]], *auc)).collect();
    let queries = all.get("params")?.items()?;
    let values = all.get("values")?.items()?;
    if [queries.len(), values.len()] != [100, 50] {
        return Err(format!(
            "{} queries and {} values, expected each of 50 queries twice and 50 values",
            queries.len(),
            values.len()
        ));
    }
    let mut scored = Vec::new();
    for (number, (pair, value)) in queries.chunks(2).zip(values).enumerate() {
        let [first, second] = [pair[0].array()?, pair[1].array()?];
        if first != second {
            return Err(format!("query {number} is not repeated"));
        }
        let [x1, x2] = first.values[..] else {
            return Err(format!("query {number} has {} coordinates", first.values.len()));
        };
        scored.push(([x1, x2], value.number()?));
    }
    Ok((initial, scored))
}

/// Reads the CNN records: observations from `meta_obs_images.pkl`, and initial points from the
/// results of the runs.
fn cnn(original: &Original<'_>) -> Result<Vec<ConvertedFile>, OriginalError> {
    let observed = original.pickle("meta_obs_images.pkl", |pickle| {
        let inputs = pickle.root().get("params_meta")?.items()?;
        let values = pickle.root().get("func_values_meta")?.items()?;
        if [inputs.len(), values.len()] != [CNN_DATA_SETS.len(); 2] {
            return Err(format!("{} meta-tasks, expected {}", inputs.len(), CNN_DATA_SETS.len()));
        }
        let mut table = Table::new("task,k,phase,x1,x2,x3,val_accuracy");
        for ((task, inputs), values) in CNN_DATA_SETS.iter().zip(inputs).zip(values) {
            let inputs = rows(inputs.array()?, 3)?;
            let values = rows(values.array()?, 1)?;
            if [inputs.len(), values.len()] != [N_OBSERVATIONS; 2] {
                return Err(format!(
                    "{} observations of {task}, expected {N_OBSERVATIONS}",
                    inputs.len()
                ));
            }
            for (k, (x, value)) in inputs.iter().zip(values).enumerate() {
                let phase = if k < N_INITIAL { "init" } else { "bo" };
                table.line(&[task, &k, &phase], &[x[0], x[1], x[2], value[0]]);
            }
        }
        Ok(table.into_file(OBSERVATIONS))
    })?;
    let mut initial = Table::new("target,run,k,x1,x2,x3,val_accuracy");
    // Use the order of the published table.
    for target in ["mnist", "svhn", "cifar_10", "cifar_100"] {
        for run in 0..N_CNN_RUNS {
            original.pickle(&format!("results/{target}_{run}.p"), |pickle| {
                let start = pickle.root().get("all")?.get("init")?;
                let inputs = rows(start.get("X")?.array()?, 3)?;
                let values = &start.get("Y")?.array()?.values;
                if [inputs.len(), values.len()] != [N_INITIAL; 2] {
                    return Err(format!("{} initial points, expected {N_INITIAL}", inputs.len()));
                }
                for (k, (x, value)) in inputs.iter().zip(values).enumerate() {
                    initial.line(&[&target, &run, &k], &[x[0], x[1], x[2], *value]);
                }
                Ok(())
            })?;
        }
    }
    Ok(vec![observed, initial.into_file(INITIALIZATIONS)])
}

/// Reads the payoff functions of the synthetic games. `domain` contains the joint actions in the
/// order of the values, on a grid with steps of 1/99.
fn games(original: &Original<'_>) -> Result<Vec<ConvertedFile>, OriginalError> {
    let name = "r2_b2_synthetic_games/all_funcs_info_new_K_100_ls_0.1.pkl";
    original.pickle(name, |pickle| {
        let n_joint = N_GRID_ACTIONS * N_GRID_ACTIONS;
        let places = rows(pickle.root().get("domain")?.array()?, 2)?
            .into_iter()
            .map(|joint| Some(action(joint[0])? * N_GRID_ACTIONS + action(joint[1])?))
            .collect::<Option<Vec<usize>>>()
            .ok_or("domain has a point off the grid of 100 actions from 0 to 1")?;
        let mut sorted = places.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..n_joint) {
            return Err(format!("domain does not have each of {n_joint} joint actions once"));
        }
        let games = pickle.root().get("all_funcs")?.items()?;
        if games.len() != N_GAMES {
            return Err(format!("{} games, expected {N_GAMES}", games.len()));
        }
        let mut files = Vec::new();
        for (game, pair) in games.into_iter().enumerate() {
            for (function, values) in (1..).zip(pair.items()?) {
                let values = &values.array()?.values;
                if values.len() != n_joint {
                    return Err(format!("{} payoffs, expected {n_joint}", values.len()));
                }
                let mut table = vec![0.0; n_joint];
                for (place, value) in places.iter().zip(values) {
                    table[*place] = *value;
                }
                let line = |row: &[f64]| {
                    row.iter().map(|value| ten_digits(*value)).collect::<Vec<_>>().join(",") + "\n"
                };
                files.push(ConvertedFile {
                    path: payoff_functions::file(game, function),
                    text: table.chunks(N_GRID_ACTIONS).map(line).collect(),
                    rows: N_GRID_ACTIONS,
                });
            }
        }
        match files.len() {
            n if n == 2 * N_GAMES => Ok(files),
            n => Err(format!("{n} functions, expected two per game")),
        }
    })
}

/// Returns the index of an action on the grid.
fn action(x: f64) -> Option<usize> {
    (0..N_GRID_ACTIONS).find(|i| (*i as f64 / (N_GRID_ACTIONS - 1) as f64 - x).abs() < 1e-9)
}
