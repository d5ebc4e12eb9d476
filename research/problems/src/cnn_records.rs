//! Recorded evaluations of a small CNN on four image data sets: meta-observations and initial
//! points (meta-bo).
//!
//! The image data sets themselves are not included, so the objective cannot be re-evaluated. See
//! `data/meta-bo/README.md`.

use std::path::Path;

use crate::table::{DataError, Row, read};

/// The data sets, in the authors' order of meta-tasks.
pub const CNN_DATA_SETS: [&str; 4] = ["cifar_10", "cifar_100", "svhn", "mnist"];
/// Number of runs with recorded initial points per target.
pub const N_CNN_RUNS: usize = 10;
/// Number of observations of a data set when it serves as a meta-task.
pub(crate) const N_OBSERVATIONS: usize = 50;
/// Number of initial points per run.
pub(crate) const N_INITIAL: usize = 5;
pub(crate) const OBSERVATIONS: &str = "meta-bo/meta_observations.csv";
pub(crate) const INITIALIZATIONS: &str = "meta-bo/initializations_used.csv";

/// One training run of the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CnnRecord {
    /// Learning rate, its decay, and L2 penalty, each mapped linearly from `[1e-7, 1e-2]` to
    /// `[0,1]`.
    pub x: [f64; 3],
    /// Accuracy on the test split after 20 epochs, in `[0,1]`.
    pub accuracy: f64,
}

/// The records of one data set.
#[derive(Clone, Debug, PartialEq)]
pub struct CnnRecords {
    /// One of [`CNN_DATA_SETS`].
    pub data_set: &'static str,
    /// The 50 observations as a meta-task, in order: five initial points, then queries by GP-UCB.
    pub observations: Vec<CnnRecord>,
    /// The five initial points of each of ten runs as a target. All even runs share one set of
    /// inputs, and all odd runs another. Accuracies differ by the training noise.
    pub initial: Vec<Vec<CnnRecord>>,
}

/// Reads all four data sets from `meta-bo/` in the data folder, in the order of [`CNN_DATA_SETS`].
///
/// # Errors
/// If a file is missing, a line is malformed, or a record is missing or duplicated.
pub fn read_cnn_records(folder: &Path) -> Result<Vec<CnnRecords>, DataError> {
    let observations = read_observations(folder)?;
    let initial = read_initializations(folder)?;
    let runs: Vec<Vec<CnnRecord>> = initial.chunks(N_INITIAL).map(<[_]>::to_vec).collect();
    Ok(CNN_DATA_SETS
        .into_iter()
        .zip(observations.chunks(N_OBSERVATIONS))
        .zip(runs.chunks(N_CNN_RUNS))
        .map(|((data_set, observations), initial)| CnnRecords {
            data_set,
            observations: observations.to_vec(),
            initial: initial.to_vec(),
        })
        .collect())
}

/// Reads the 50 observations of each data set, in order.
pub(crate) fn read_observations(folder: &Path) -> Result<Vec<CnnRecord>, DataError> {
    read_places(folder, OBSERVATIONS, N_OBSERVATIONS, |row| {
        let phase: String = row.get("phase")?;
        if phase != "init" && phase != "bo" {
            return Err(row.malformed(format!("phase = {phase:?}, expected init or bo")));
        }
        let k = index(row, "k", N_OBSERVATIONS)?;
        Ok(data_set(row, "task")? * N_OBSERVATIONS + k)
    })
}

/// Reads the five initial points of each data set's ten runs, in order.
pub(crate) fn read_initializations(folder: &Path) -> Result<Vec<CnnRecord>, DataError> {
    read_places(folder, INITIALIZATIONS, N_CNN_RUNS * N_INITIAL, |row| {
        let run = index(row, "run", N_CNN_RUNS)?;
        let k = index(row, "k", N_INITIAL)?;
        Ok((data_set(row, "target")? * N_CNN_RUNS + run) * N_INITIAL + k)
    })
}

/// Reads all records of a file, `n_each` per data set, at the positions that `place_of` returns.
/// Every position must occur exactly once.
fn read_places(
    folder: &Path,
    file: &str,
    n_each: usize,
    place_of: impl Fn(&Row<'_>) -> Result<usize, DataError>,
) -> Result<Vec<CnnRecord>, DataError> {
    let n_places = CNN_DATA_SETS.len() * n_each;
    let mut places = vec![None; n_places];
    read(folder, file, |row| {
        let place = place_of(row)?;
        if places[place].replace(record(row)?).is_some() {
            return Err(row.malformed("this record is in the table twice".to_owned()));
        }
        Ok(())
    })?;
    let n_missing = places.iter().filter(|place| place.is_none()).count();
    if n_missing > 0 {
        return Err(DataError::Malformed {
            path: folder.join(file),
            line: 1,
            message: format!("{n_missing} of {n_places} records are missing"),
        });
    }
    Ok(places.into_iter().flatten().collect())
}

fn record(row: &Row<'_>) -> Result<CnnRecord, DataError> {
    Ok(CnnRecord {
        x: [share(row, "x1")?, share(row, "x2")?, share(row, "x3")?],
        accuracy: share(row, "val_accuracy")?,
    })
}

fn share(row: &Row<'_>, column: &str) -> Result<f64, DataError> {
    let value = row.number(column)?;
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(row.malformed(format!("{column} = {value}, expected a number from 0 to 1")))
    }
}

fn index(row: &Row<'_>, column: &str, n: usize) -> Result<usize, DataError> {
    let value: usize = row.get(column)?;
    if value < n {
        Ok(value)
    } else {
        Err(row.malformed(format!("{column} = {value}, expected 0 to {}", n - 1)))
    }
}

fn data_set(row: &Row<'_>, column: &str) -> Result<usize, DataError> {
    let name: String = row.get(column)?;
    let position = CNN_DATA_SETS.iter().position(|known| *known == name);
    position.ok_or_else(|| {
        let known = CNN_DATA_SETS.join(", ");
        row.malformed(format!("{column} = {name:?}, expected one of {known}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, file: &str, text: &str) {
        std::fs::create_dir_all(folder.join("meta-bo")).unwrap();
        std::fs::write(folder.join(file), text).unwrap();
    }

    fn observations() -> String {
        let mut text = "task,k,phase,x1,x2,x3,val_accuracy\n".to_owned();
        for (t, task) in CNN_DATA_SETS.iter().enumerate() {
            for k in (0..N_OBSERVATIONS).rev() {
                let phase = if k < 5 { "init" } else { "bo" };
                text += &format!("{task},{k},{phase},0.1,0.2,0.3,0.{t}{k:02}\n");
            }
        }
        text
    }

    fn initializations() -> String {
        let mut text = "target,run,k,x1,x2,x3,val_accuracy\n".to_owned();
        for task in CNN_DATA_SETS {
            for run in 0..N_CNN_RUNS {
                for k in 0..N_INITIAL {
                    text += &format!("{task},{run},{k},0,1,0.5,0.{run}{k}\n");
                }
            }
        }
        text
    }

    #[test]
    fn records_are_in_order_whatever_the_order_of_lines() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), OBSERVATIONS, &observations());
        write(folder.path(), INITIALIZATIONS, &initializations());
        let read = read_cnn_records(folder.path()).unwrap();
        let names: Vec<&str> = read.iter().map(|records| records.data_set).collect();
        assert_eq!(names, CNN_DATA_SETS);
        for (t, records) in read.iter().enumerate() {
            assert_eq!(records.observations.len(), 50);
            let expected = 0.1 * t as f64 + 0.007;
            assert!((records.observations[7].accuracy - expected).abs() < 1e-12);
            assert_eq!(records.initial.len(), 10);
            assert!((records.initial[3][4].accuracy - 0.34).abs() < 1e-12);
        }
    }

    #[test]
    fn a_broken_table_is_an_error_that_names_what_is_wrong() {
        let good = observations();
        for (text, expected) in [
            (good.replace("svhn,3,", "shvn,3,"), "task = \"shvn\""),
            (good.replace("svhn,3,init", "svhn,3,ini"), "phase = \"ini\""),
            (good.replace("svhn,3,", "svhn,50,"), "k = 50, expected 0 to 49"),
            (good.replace("svhn,3,", "svhn,4,"), "twice"),
            (good.replace("0.207", "1.207"), "val_accuracy = 1.207"),
            (good.replace("0.207", "x"), "val_accuracy = \"x\""),
            (
                good.lines().take(101).map(|line| format!("{line}\n")).collect(),
                "100 of 200 records are missing",
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), OBSERVATIONS, &text);
            write(folder.path(), INITIALIZATIONS, &initializations());
            let message = read_cnn_records(folder.path()).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
            assert!(message.contains("meta_observations.csv"), "{message}");
        }
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), OBSERVATIONS, &good);
        let message = read_cnn_records(folder.path()).unwrap_err().to_string();
        assert!(message.contains("initializations_used.csv"), "{message}");
    }
}
