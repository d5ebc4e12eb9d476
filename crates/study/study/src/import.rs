//! Trials of other programs, which become a study of their own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use csv::StringRecord;
use fedbo_space::cell::restored;
use fedbo_space::{Point, Space};
use fedbo_storage::{Storage, StudyRecord};

use crate::export::{EXPORT_COLUMNS, export_column};
use crate::{Definition, LeftOut, Study, StudyError};

/// The prefix of a parameter's column in tables of pandas, as Optuna and [`Study`]'s Python side make them.
const DATAFRAME_PREFIX: &str = "params_";

/// The trials of a table that have a value.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedTrials {
    /// Points of the space with their values, in the order of the rows.
    pub trials: Vec<(Point, f64)>,
    /// The rows without a usable value, by their reason.
    pub left_out: Vec<LeftOut>,
}

/// The reason why a table cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("cannot read {}: {message}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's message.
        message: String,
    },
    /// Its content cannot be used.
    #[error("{}{}: {message}", path.display(), line.map_or_else(String::new, |line| format!(", line {line}")))]
    Table {
        /// The file.
        path: PathBuf,
        /// The line, from 1, if it is one.
        line: Option<u64>,
        /// The defect, with column and value, and what was expected.
        message: String,
    },
}

/// Reads the trials of a table of comma-separated values: an export of fedbo, a table of pandas with columns `params_NAME`, or one
/// whose columns are the parameters, `value` and, if there is one, `state`. Rows of trials that failed, were stopped or have not ended
/// are left out.
///
/// # Errors
/// The first thing that cannot be used, with its line, column and value.
pub fn read_trials(path: &Path, space: &Space) -> Result<ImportedTrials, ImportError> {
    let bytes = std::fs::read(path).map_err(|error| ImportError::Unreadable {
        path: path.to_owned(),
        message: error.to_string(),
    })?;
    parse(&bytes, path, space)
}

fn parse(bytes: &[u8], path: &Path, space: &Space) -> Result<ImportedTrials, ImportError> {
    let refused = |line: Option<u64>, message: String| ImportError::Table {
        path: path.to_owned(),
        line,
        message,
    };
    let broken = |error: csv::Error| {
        let line = error.position().map(csv::Position::line);
        refused(line, format!("it is not a table: {error}"))
    };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes);
    let header = reader.headers().map_err(broken)?.clone();
    // Who writes a table by hand means what stands there.
    let is_export = EXPORT_COLUMNS.iter().all(|name| header.iter().any(|each| each == *name));
    let text_of = |cell: &str| match is_export {
        true => restored(cell).into_owned(),
        false => cell.to_owned(),
    };
    let header: StringRecord = header.iter().map(text_of).collect();
    let Some(value_at) = header.iter().position(|each| each == "value") else {
        let way = "the first line must name the parameters and value, as fedbo export writes it";
        return Err(refused(Some(1), format!("it has no column value; {way}")));
    };
    let state_at = header.iter().position(|each| each == "state");
    let columns =
        columns(&header, is_export, space).map_err(|message| refused(Some(1), message))?;
    let mut trials = Vec::new();
    let mut n_left_out = [0; 4];
    for record in reader.records() {
        let record = record.map_err(broken)?;
        let line = record.position().map(csv::Position::line);
        let state = state_at.and_then(|at| record.get(at)).map(str::to_ascii_lowercase);
        let given = &record[value_at];
        let why = match state.as_deref() {
            Some("failed" | "fail") => Some(0),
            Some("stopped" | "pruned") => Some(1),
            Some("running" | "waiting") => Some(2),
            Some("complete" | "") | None => None,
            Some(_) => {
                let word = state_at.and_then(|at| record.get(at)).unwrap_or_default();
                let expected = "complete, failed, stopped, running or waiting";
                return Err(refused(line, format!("column state = {word:?}, expected {expected}")));
            }
        };
        let value = match (why, given) {
            (None, "") => None,
            (None, word) => match word.parse::<f64>() {
                Ok(value) => Some(value).filter(|value| value.is_finite()),
                Err(_) => {
                    let expected = "a number, or nothing for a trial without a value";
                    let message = format!("column value = {word:?}, expected {expected}");
                    return Err(refused(line, message));
                }
            },
            (Some(_), _) => None,
        };
        let Some(value) = value else {
            n_left_out[why.unwrap_or(3)] += 1;
            continue;
        };
        let mut entries = Vec::with_capacity(columns.len());
        for (parameter, at) in space.parameters().iter().zip(&columns) {
            let text = text_of(&record[*at]);
            let parsed = parameter.parse(&text).map_err(|error| {
                refused(line, format!("column {} = {text:?}: {error}", &header[*at]))
            })?;
            entries.push((parameter.name().to_owned(), parsed));
        }
        trials.push((Point::new(entries), value));
    }
    if trials.is_empty() {
        return Err(refused(None, "it has no trial with a value".to_owned()));
    }
    let words = ["failed", "stopped early", "not finished", "without a finite value"];
    let left_out = n_left_out.into_iter().zip(words).filter(|(n_trials, _)| *n_trials > 0);
    Ok(ImportedTrials {
        trials,
        left_out: left_out
            .map(|(n_trials, why)| LeftOut { n_trials, why: why.to_owned() })
            .collect(),
    })
}

/// The column of each parameter of the space.
fn columns(header: &StringRecord, is_export: bool, space: &Space) -> Result<Vec<usize>, String> {
    let find = |name: &str| {
        let mut found = header.iter().enumerate().filter(|(_, each)| *each == name);
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Err(format!("it has two columns {name:?}")),
            (first, _) => Ok(first.map(|(at, _)| at)),
        }
    };
    let has_dataframe = !is_export && header.iter().any(|name| name.starts_with(DATAFRAME_PREFIX));
    let columns = space.parameters().iter().map(|parameter| {
        let name = match (has_dataframe, is_export) {
            (true, _) => format!("{DATAFRAME_PREFIX}{}", parameter.name()),
            (false, true) => export_column(parameter.name(), space),
            (false, false) => parameter.name().to_owned(),
        };
        find(&name)?.ok_or_else(|| {
            let known: Vec<&str> = header.iter().collect();
            format!(
                "it has no column {name:?} for parameter {:?}; its columns are {}",
                parameter.name(),
                known.join(", ")
            )
        })
    });
    columns.collect()
}

impl Study {
    /// Creates a study of trials that were evaluated elsewhere, all of them complete, in this order.
    ///
    /// # Errors
    /// If the definition or a point is not valid or a value not finite, a study of this name is stored already, or the storage fails.
    pub fn import(
        storage: Arc<dyn Storage>,
        definition: &Definition,
        trials: &[(Point, f64)],
    ) -> Result<Self, StudyError> {
        let space = definition.check()?;
        let mut points = Vec::with_capacity(trials.len());
        for (point, value) in trials {
            if !value.is_finite() {
                return Err(StudyError::NotFinite { value: *value });
            }
            points.push((space.normalize(point)?, *value));
        }
        let name = &definition.name;
        if storage.studies()?.iter().any(|record: &StudyRecord| record.name == *name) {
            return Err(StudyError::Exists { name: name.clone() });
        }
        let study = Self::open(storage, definition)?;
        for (point, value) in points {
            study.add_told(point, value)?;
        }
        Ok(study)
    }
}

#[cfg(test)]
mod tests {
    use fedbo_space::ParameterSpec;
    use fedbo_storage::MemoryStorage;

    use super::*;

    fn definition() -> Definition {
        Definition::new("old")
            .parameter("x", ParameterSpec::float(0.0, 1.0))
            .parameter("value", ParameterSpec::int(1, 9))
            .parameter("kind", ParameterSpec::categorical(["a, b", "c"]))
            .minimize()
    }

    fn read(text: &str) -> Result<ImportedTrials, ImportError> {
        parse(text.as_bytes(), Path::new("old.csv"), &definition().check().unwrap())
    }

    fn shown(read: &ImportedTrials) -> Vec<(String, f64)> {
        let shown = |point: &Point| {
            let values: Vec<String> = point.iter().map(|(_, value)| value.to_string()).collect();
            values.join(" ")
        };
        read.trials.iter().map(|(point, value)| (shown(point), *value)).collect()
    }

    #[test]
    fn an_export_and_a_table_of_pandas_say_the_same() {
        let columns = EXPORT_COLUMNS.join(",");
        let export = read(&format!(
            "{columns},x,parameter.value,kind\n\
             0,complete,own,0.5,,1,t,t,t,0.1,0.2,,1e-3,7,\"a, b\"\n\
             1,failed,own,,\"exit: 1\",1,t,t,t,0.1,0.2,,0.5,8,c\n\
             2,stopped,own,3,,1,t,t,t,0.1,0.2,4,0.5,8,c\n\
             3,complete,own,-1.25,,1,t,t,t,0.1,0.2,9,0.25,9,c\n"
        ))
        .unwrap();
        let trials = [("0.001 7 a, b".to_owned(), 0.5), ("0.25 9 c".to_owned(), -1.25)];
        assert_eq!(shown(&export), trials);
        let words: Vec<String> = export.left_out.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["1 failed", "1 stopped early"]);
        // As study.trials_dataframe().to_csv() of Optuna 5 writes it.
        let optuna = read(
            ",number,value,datetime_start,datetime_complete,duration,params_kind,params_value,params_x,state\n\
             0,0,0.5,2026-11-23 20:00:00,2026-11-23 20:00:01,0 days 00:00:01,\"a, b\",7,0.001,COMPLETE\n\
             1,1,,2026-11-23 20:00:00,2026-11-23 20:00:01,0 days 00:00:01,c,8,0.5,FAIL\n\
             2,2,3.0,2026-11-23 20:00:00,2026-11-23 20:00:01,0 days 00:00:01,c,8,0.5,PRUNED\n\
             3,3,-1.25,2026-11-23 20:00:00,2026-11-23 20:00:01,0 days 00:00:01,c,9,0.25,COMPLETE\n",
        );
        assert_eq!(optuna.unwrap(), export);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_line_column_and_value() {
        let cases = [
            ("x,kind\n", "old.csv, line 1: it has no column value"),
            (
                "params_x,value\n",
                "line 1: it has no column \"params_value\" for parameter \"value\"",
            ),
            ("params_x,params_x,params_value,params_kind,value\n", "two columns \"params_x\""),
            (
                "params_x,params_value,params_kind,value\n0,1,c,1\n2,1,c,1\n",
                "line 3: column params_x = \"2\"",
            ),
            (
                "params_x,params_value,params_kind,value\n0,1,d,1\n",
                "line 2: column params_kind = \"d\"",
            ),
            (
                "params_x,params_value,params_kind,value\n0,1,c,high\n",
                "line 2: column value = \"high\"",
            ),
            (
                "params_x,params_value,params_kind,value,state\n0,1,c,1,odd\n",
                "column state = \"odd\"",
            ),
            ("params_x,params_value,params_kind,value\n0,1,c\n", "line 2: it is not a table"),
            ("params_x,params_value,params_kind,value\n0,1,c,\n", "no trial with a value"),
        ];
        for (text, expected) in cases {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn imported_trials_are_complete_and_a_study_is_imported_once() {
        let storage = Arc::new(MemoryStorage::new());
        let table = "params_x,params_value,params_kind,value\n0.5,1,c,2\n0.5,1,c,3\n0,9,c,1\n";
        let trials = read(table).unwrap().trials;
        let study = Study::import(storage.clone(), &definition(), &trials).unwrap();
        let stored = study.trials().unwrap();
        let pairs: Vec<(Point, f64)> =
            stored.iter().map(|each| (each.point.clone(), each.value().unwrap())).collect();
        assert_eq!(pairs, trials);
        assert!(stored.iter().all(|each| each.source == "imported"));
        let again = Study::import(storage, &definition(), &trials).unwrap_err();
        assert!(again.to_string().contains("\"old\" is stored there already"), "{again}");
        assert_eq!(study.trials().unwrap().len(), 3);
    }
}
