//! Imports trials from other programs as a new study.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedbo_error_class::{Class, Classified};
use fedbo_space::{Direction, Parameter, Point, Space, SpaceError};
use fedbo_storage::{Storage, Told, TrialState};

use crate::trial_table::{TableDefect, TableRow, TrialTable};
use crate::{Definition, LeftOut, Study, StudyError};

/// Maximum number of trials per transaction of an import. Other writers wait for each transaction.
const IMPORTED_AT_A_TIME: usize = 100;

/// The trials of a table that have a value.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedTrials {
    /// The direction of the values, if the table contains it.
    pub direction: Option<Direction>,
    /// Points of the space with their numbers, ordered as in [`Definition::number_names`], in row
    /// order.
    pub trials: Vec<(Point, Vec<f64>)>,
    /// The rows without a usable value, grouped by reason.
    pub left_out: Vec<LeftOut>,
}

/// The treatment of rows with a value outside the space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outside {
    /// The whole table is refused.
    #[default]
    Refuse,
    /// These rows are left out and counted.
    Skip,
}

/// Error returned if a table cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The file or the database cannot be read.
    #[error("cannot read {}: {message}", path.display())]
    Unreadable {
        /// The file, or the database's address.
        path: PathBuf,
        /// The error message of the system or the server.
        message: String,
    },
    /// The content is unusable.
    #[error("{}{}: {message}", path.display(), line.map_or_else(String::new, |line| format!(", line {line}")))]
    Table {
        /// The file, or the database's address.
        path: PathBuf,
        /// Line number, counted from 1, if the defect has one.
        line: Option<u64>,
        /// The defect, with the column, the value and the expected value.
        message: String,
    },
}

impl Classified for ImportError {
    fn class(&self) -> Class {
        Class::Input
    }
}

/// Reads trials from a table whose columns are separated by commas, semicolons or tabs.
///
/// The table is an export of fedbo, a pandas table with columns `params_NAME`, or a table with
/// columns for the parameters, the study's numbers (`value` if there is only one) and optionally
/// `state`. Rows of failed, stopped, discarded and unfinished trials are skipped. `outside` applies
/// to numbers outside the range of their parameter, to unknown choices, and to points that break a
/// rule.
/// The cell of a conditional parameter is blank in the rows where the parameter does not exist.
///
/// # Errors
/// Returns the first unusable entry, with its line, column and value.
pub fn read_trials(
    path: &Path,
    definition: &Definition,
    outside: Outside,
) -> Result<ImportedTrials, ImportError> {
    let bytes = std::fs::read(path).map_err(|error| ImportError::Unreadable {
        path: path.to_owned(),
        message: error.to_string(),
    })?;
    trials_of_table(&bytes, path, definition, outside)
}

/// Same as [`read_trials`], for the content of a table that has already been read from `path`.
///
/// # Errors
/// Same as [`read_trials`].
pub fn trials_of_table(
    bytes: &[u8],
    path: &Path,
    definition: &Definition,
    outside: Outside,
) -> Result<ImportedTrials, ImportError> {
    parse(bytes, definition, outside).map_err(|TableDefect { line, message }| ImportError::Table {
        path: path.to_owned(),
        line,
        message,
    })
}

fn parse(
    bytes: &[u8],
    definition: &Definition,
    outside: Outside,
) -> Result<ImportedTrials, TableDefect> {
    let space = definition.check().map_err(|error| TableDefect::new(None, error.to_string()))?;
    let table = TrialTable::parse(bytes, &definition.number_names())?;
    let columns = columns(&space, &table)?;
    let mut trials = Vec::with_capacity(table.rows.len());
    let mut skipped: Vec<LeftOut> = Vec::new();
    for row in &table.rows {
        match point(&space, &table, &columns, row, outside)? {
            Placed::Inside(point) => trials.push((point, row.numbers.clone())),
            Placed::Outside(why) => match skipped.iter_mut().find(|each| each.why == why) {
                Some(known) => known.n_trials += 1,
                None => skipped.push(LeftOut { n_trials: 1, why }),
            },
        }
    }
    let mut left_out = table.left_out;
    left_out.extend(skipped);
    if trials.is_empty() {
        let reasons: Vec<String> = left_out.iter().map(ToString::to_string).collect();
        let message = match reasons.as_slice() {
            [] => "it has no trial with a value".to_owned(),
            some => format!("it has no trial with a value in the space: {}", some.join(", ")),
        };
        return Err(TableDefect::new(None, message));
    }
    Ok(ImportedTrials { direction: table.direction, trials, left_out })
}

/// Returns true if a cell that is not a value of the parameter is a finite number or, for choices,
/// a word.
fn is_outside(table: &TrialTable, parameter: &Parameter, text: &str) -> bool {
    match parameter.kind().numbers() {
        Some(_) => {
            let number = table.number(text, |text| text.parse::<f64>().ok());
            number.is_some_and(f64::is_finite)
        }
        None => !text.is_empty(),
    }
}

/// Returns the index of each parameter's column; `None` for a conditional parameter without one.
fn columns(space: &Space, table: &TrialTable) -> Result<Vec<Option<usize>>, TableDefect> {
    let column = |parameter: &Parameter| {
        let at = table.columns.iter().position(|each| each.parameter == parameter.name());
        match at.is_some() || parameter.condition().is_some() {
            true => Ok(at),
            false => Err(TableDefect::new(Some(1), no_column(parameter, table))),
        }
    };
    space.parameters().iter().map(column).collect()
}

fn no_column(parameter: &Parameter, table: &TrialTable) -> String {
    let known: Vec<&str> = table.columns.iter().map(|each| each.name.as_str()).collect();
    format!(
        "it has no column for parameter {:?}; its columns of parameters are {}",
        parameter.name(),
        known.join(", ")
    )
}

/// A row as a point.
enum Placed {
    Inside(Point),
    /// The row is left out for this reason.
    Outside(String),
}

/// Returns the point of a row. The cells of parameters that do not exist there must be blank.
fn point(
    space: &Space,
    table: &TrialTable,
    columns: &[Option<usize>],
    row: &TableRow,
    outside: Outside,
) -> Result<Placed, TableDefect> {
    let texts: Vec<Option<&str>> =
        columns.iter().map(|at| at.map(|at| row.texts[at].as_str())).collect();
    let read = |(parameter, text): (&Parameter, &Option<&str>)| {
        let value = table.number((*text)?, |text| parameter.parse(text).ok())?;
        Some((parameter.name().to_owned(), value))
    };
    let known = Point::new(space.parameters().iter().zip(&texts).filter_map(read).collect());
    let exist = space.existing(&known);
    let mut entries = Vec::with_capacity(columns.len());
    let rows = || space.parameters().iter().enumerate();
    // With an unreadable parent, it is not known which parameters exist; its own error comes below.
    let is_unreadable = |(index, parameter): (usize, &Parameter)| {
        let has_text = columns[index].is_some_and(|at| !row.texts[at].is_empty());
        exist[index] && has_text && known.get(parameter.name()).is_none()
    };
    let parents_are_known = !rows().any(is_unreadable);
    for (index, parameter) in rows().filter(|(index, _)| parents_are_known && !exist[*index]) {
        if let Some(at) = columns[index].filter(|at| !row.texts[*at].is_empty()) {
            let message = format!(
                "column {} = {:?}: parameter {} exists only when {}; leave the cell blank",
                table.columns[at].name,
                row.texts[at],
                parameter.name(),
                parameter.condition().unwrap_or_default()
            );
            return Err(TableDefect::new(row.line, message));
        }
    }
    for (index, parameter) in rows().filter(|(index, _)| exist[*index]) {
        let Some(at) = columns[index] else {
            let condition = parameter.condition().unwrap_or_default();
            let missing = no_column(parameter, table);
            let message = format!("{missing}, and the row needs it, since {condition}");
            return Err(TableDefect::new(row.line, message));
        };
        let text = &row.texts[at];
        let found = format!("column {} = {text:?}", table.columns[at].name);
        match known.get(parameter.name()) {
            Some(value) => entries.push((parameter.name().to_owned(), value.clone())),
            None if !is_outside(table, parameter, text) => {
                let message = format!("{found}, expected {}", parameter.kind());
                return Err(TableDefect::new(row.line, message));
            }
            None if outside == Outside::Skip => {
                let why = format!("outside the range of {}", parameter.name());
                return Ok(Placed::Outside(why));
            }
            None => {
                let message = format!(
                    "{found} is outside the space, expected {}; widen the space, or leave out such rows with --outside skip",
                    parameter.kind()
                );
                return Err(TableDefect::new(row.line, message));
            }
        }
    }
    let point = Point::new(entries);
    match space.normalize(&point) {
        Ok(_) => Ok(Placed::Inside(point)),
        Err(SpaceError::Broken { rule, .. }) if outside == Outside::Skip => {
            Ok(Placed::Outside(format!("against the rule {rule}")))
        }
        Err(error @ SpaceError::Broken { .. }) => {
            let message = format!("{error}; leave out such rows with --outside skip");
            Err(TableDefect::new(row.line, message))
        }
        Err(error) => Err(TableDefect::new(row.line, error.to_string())),
    }
}

impl Study {
    /// Stores trials that were evaluated elsewhere as a study of complete trials, in this order.
    ///
    /// If the study already has the first of these trials, the rest are appended. An interrupted
    /// import can therefore be completed by repeating it. Corrected trials keep their correction.
    ///
    /// Returns the study and the number of newly added trials.
    ///
    /// # Errors
    /// Fails if the definition or a point is invalid, a value is not finite, a different study is
    /// stored under this name, a stored trial differs from the imported trial with the same number,
    /// or the storage fails.
    pub fn import(
        storage: Arc<dyn Storage>,
        definition: &Definition,
        trials: &[(Point, Vec<f64>)],
    ) -> Result<(Self, usize), StudyError> {
        let space = definition.check()?;
        let mut points = Vec::with_capacity(trials.len());
        for (point, numbers) in trials {
            definition.check_numbers(numbers)?;
            points.push((space.normalize(point)?, numbers.clone()));
        }
        // All trials are complete, so the strategy stored by an earlier import does not matter.
        let definition = match Self::load(storage.clone(), Some(&definition.name)) {
            Ok(stored) => {
                Definition { strategy: stored.definition().strategy, ..definition.clone() }
            }
            Err(StudyError::NoStudy { .. }) => definition.clone(),
            Err(error) => return Err(error),
        };
        let study = Self::open(storage, &definition)?;
        let known = study.trials()?;
        let corrections = study.corrections()?;
        let corrected: BTreeSet<u64> = corrections.iter().map(|each| each.number).collect();
        for (trial, (point, numbers)) in known.iter().zip(&points) {
            let is_told =
                matches!(trial.state, TrialState::Told(_)) && !corrected.contains(&trial.number);
            let told = Told::with_numbers(numbers.clone());
            if trial.point != *point || is_told && trial.told() != Some(&told) {
                return Err(StudyError::OtherTrial {
                    name: definition.name.clone(),
                    number: trial.number,
                });
            }
        }
        let (there, new) = points.split_at(known.len().min(points.len()));
        let mut n_new = new.len();
        for (trial, (_, numbers)) in known.iter().zip(there) {
            if !matches!(trial.state, TrialState::Told(_)) {
                // The import of an earlier version was interrupted before it stored this value.
                study.tell_numbers(trial.number, numbers.clone())?;
                n_new += 1;
            }
        }
        for batch in new.chunks(IMPORTED_AT_A_TIME) {
            study.add_imported(batch)?;
        }
        Ok((study, n_new))
    }
}

#[cfg(test)]
mod tests {
    use fedbo_space::{ParameterSpec, RuleSpec};
    use fedbo_storage::{MemoryStorage, NewTrial, Worker};

    use super::*;

    fn definition() -> Definition {
        Definition::new("old")
            .parameter("x", ParameterSpec::float(0.0, 1.0))
            .parameter("value", ParameterSpec::int(1, 9))
            .parameter("kind", ParameterSpec::categorical(["a, b", "c"]))
            .minimize()
    }

    fn read(text: &str) -> Result<ImportedTrials, TableDefect> {
        parse(text.as_bytes(), &definition(), Outside::Refuse)
    }

    fn shown(read: &ImportedTrials) -> Vec<(String, f64)> {
        let shown = |point: &Point| {
            let values: Vec<String> = point.iter().map(|(_, value)| value.to_string()).collect();
            values.join(" ")
        };
        read.trials.iter().map(|(point, value)| (shown(point), value[0])).collect()
    }

    #[test]
    fn columns_of_parameters_are_found_by_their_names() {
        let table = read("x,note,parameter.value,kind,value\n0.001,hot,7,\"a, b\",0.5\n").unwrap();
        assert_eq!(shown(&table), [("0.001 7 a, b".to_owned(), 0.5)]);
        let table = read("params_kind,params_value,params_x,value\nc,9,0.25,-1.25\n").unwrap();
        assert_eq!(shown(&table), [("0.25 9 c".to_owned(), -1.25)]);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_line_column_and_value() {
        let header = "params_x,params_value,params_kind,value";
        let cases = [
            ("params_x,value\n".to_owned(), Some(1), "no column for parameter \"value\""),
            (format!("{header}\n0,1,c,1\n2,1,c,1\n"), Some(3), "column params_x = \"2\""),
            (format!("{header}\n0,1,d,1\n"), Some(2), "column params_kind = \"d\""),
            (format!("{header}\n0,1,c,\n"), None, "no trial with a value in the space: 1 without"),
            (format!("{header}\n2,1,c,1\n"), Some(2), "--outside skip"),
        ];
        for (text, line, expected) in cases {
            let defect = read(&text).unwrap_err();
            assert!(defect.line == line && defect.message.contains(expected), "{defect:?}");
        }
    }

    #[test]
    fn rows_outside_are_left_out_and_counted_but_not_damaged_cells() {
        let skip = |text: &str| parse(text.as_bytes(), &definition(), Outside::Skip);
        let table =
            "x;parameter.value;kind;value\n0,5;1;c;1,5\n2,5;1;c;9\n0;10;d;9\n-1;1;d;9\n1;9;c;2\n";
        let read = skip(table).unwrap();
        assert_eq!(shown(&read), [("0.5 1 c".to_owned(), 1.5), ("1.0 9 c".to_owned(), 2.0)]);
        let left_out: Vec<String> = read.left_out.iter().map(ToString::to_string).collect();
        assert_eq!(left_out, ["2 outside the range of x", "1 outside the range of value"]);
        let header = "x,parameter.value,kind,value";
        for (row, expected) in [
            ("warm,1,c,1", "column x = \"warm\", expected"),
            ("nan,1,c,1", "column x = \"nan\""),
            ("0,1,,1", "column kind = \"\""),
            ("0,,c,1", "column parameter.value = \"\""),
            ("3,1,c,1", "no trial with a value in the space: 1 outside the range of x"),
        ] {
            let defect = skip(&format!("{header}\n{row}\n")).unwrap_err();
            assert!(defect.message.contains(expected), "{defect:?}");
        }
    }

    #[test]
    fn a_blank_cell_is_a_parameter_that_does_not_exist() {
        let definition = Definition::new("tree")
            .parameter("kind", ParameterSpec::categorical(["a", "b"]))
            .parameter("rate", ParameterSpec::float(0.0, 1.0).when("kind", "b"))
            .minimize();
        let read = |text: &str| parse(text.as_bytes(), &definition, Outside::Refuse);
        let table = read("kind,rate,value\na,,1\nb,0.5,2\n").unwrap();
        assert_eq!(shown(&table), [("a".to_owned(), 1.0), ("b 0.5".to_owned(), 2.0)]);
        let table = read("kind,value\na,1\n").unwrap();
        assert_eq!(shown(&table), [("a".to_owned(), 1.0)]);
        for (text, line, expected) in [
            (
                "kind,rate,value\na,,1\na,0.5,2\n",
                3,
                "column rate = \"0.5\": parameter rate exists only when kind = b; leave the cell blank",
            ),
            ("kind,rate,value\nb,,1\n", 2, "column rate = \"\", expected"),
            ("kind,rate,value\nc,0.5,1\n", 2, "column kind = \"c\""),
            (
                "kind,value\na,1\nb,2\n",
                3,
                "no column for parameter \"rate\"; its columns of parameters are kind, and the row needs it, since kind = b",
            ),
        ] {
            let defect = read(text).unwrap_err();
            assert_eq!(defect.line, Some(line), "{defect:?}");
            assert!(defect.message.contains(expected), "{defect:?}");
        }
    }

    #[test]
    fn a_row_that_breaks_a_rule_is_refused_or_left_out() {
        let rule = RuleSpec {
            name: Some("budget".into()),
            terms: [("a".to_owned(), 1.0), ("b".to_owned(), 1.0)].into(),
            at_most: Some(1.0),
            ..RuleSpec::default()
        };
        let definition = Definition::new("rules")
            .parameter("a", ParameterSpec::float(0.0, 1.0))
            .parameter("b", ParameterSpec::float(0.0, 1.0))
            .rule(rule);
        let table = b"a,b,value\n0.25,0.5,1\n0.75,0.5,2\n";
        let defect = parse(table, &definition, Outside::Refuse).unwrap_err();
        assert_eq!(defect.line, Some(3));
        let expected = "the point breaks the rule budget (the sum is 1.25); leave out";
        assert!(defect.message.starts_with(expected), "{defect:?}");
        let read = parse(table, &definition, Outside::Skip).unwrap();
        assert_eq!(read.trials.len(), 1);
        assert_eq!(read.left_out[0].to_string(), "1 against the rule budget");
    }

    /// Imports more trials than one batch, then repeats the import after a few batches and a
    /// partial one.
    #[test]
    fn a_long_table_is_stored_in_batches() {
        let trials: Vec<(Point, Vec<f64>)> = (1..=9)
            .cycle()
            .zip(0..2 * IMPORTED_AT_A_TIME + 7)
            .map(|(at, place)| {
                let table = format!("x,parameter.value,kind,value\n0.5,{at},c,{place}\n");
                read(&table).unwrap().trials.swap_remove(0)
            })
            .collect();
        let storage = Arc::new(MemoryStorage::new());
        let import =
            |n: usize| Study::import(storage.clone(), &definition(), &trials[..n]).unwrap();
        assert_eq!(import(IMPORTED_AT_A_TIME + 3).1, IMPORTED_AT_A_TIME + 3);
        let (study, n_new) = import(trials.len());
        assert_eq!(n_new, IMPORTED_AT_A_TIME + 4);
        let stored = study.trials().unwrap();
        let pairs: Vec<(Point, Vec<f64>)> =
            stored.iter().map(|each| (each.point.clone(), each.numbers().to_vec())).collect();
        assert_eq!(pairs, trials);
    }

    #[test]
    fn imported_trials_are_complete_and_an_interrupted_import_goes_on() {
        let storage = Arc::new(MemoryStorage::new());
        let table =
            "params_x,params_value,params_kind,value\n0.5,1,c,2\n0.5,1,c,3\n0,9,c,1\n1,9,c,0\n";
        let trials = read(table).unwrap().trials;
        let import =
            |trials: &[(Point, Vec<f64>)]| Study::import(storage.clone(), &definition(), trials);
        let (_, n_new) = import(&trials[..2]).unwrap();
        assert_eq!(n_new, 2);
        // The state after the import of an earlier version was interrupted before it stored the
        // value.
        let key = storage.studies().unwrap()[0].key;
        let asked = NewTrial {
            holder: Some((Worker::by_hand(), None)),
            ..NewTrial::new(vec![0], trials[2].0.clone(), "imported")
        };
        storage.add(key, &asked).unwrap();
        let (study, n_new) = import(&trials).unwrap();
        let stored = study.trials().unwrap();
        let pairs: Vec<(Point, Vec<f64>)> =
            stored.iter().map(|each| (each.point.clone(), each.numbers().to_vec())).collect();
        assert_eq!((n_new, &pairs), (2, &trials));
        assert!(stored.iter().all(|each| each.source == "imported"));
        assert_eq!(import(&trials).unwrap().1, 0);
        // Also into a study stored by an earlier version with fewer strategy options.
        let earlier = Arc::new(MemoryStorage::new());
        let stored = serde_json::to_string(&definition()).unwrap();
        let option = r#","output_transform":"automatic","augmented":true"#;
        assert!(stored.contains(option), "{stored}");
        earlier.create("old", &stored.replace(option, "")).unwrap();
        assert_eq!(Study::import(earlier, &definition(), &trials).unwrap().1, 4);
        let mut others = trials.clone();
        others[1].1 = vec![4.0];
        let refused = import(&others).unwrap_err().to_string();
        assert!(refused.contains("\"old\"") && refused.contains("trial 1"), "{refused}");
        assert_eq!(study.trials().unwrap().len(), 4);
    }
}
