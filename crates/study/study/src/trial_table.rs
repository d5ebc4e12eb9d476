//! Tables of trials as comma-separated values: fedbo exports, pandas tables, and handwritten
//! tables.

use csv::StringRecord;
use fedbo_space::cell::restored;
use fedbo_space::{Direction, Parameter, Space};

use crate::LeftOut;
use crate::separator::{DecimalMarks, Separator, with_decimal_point};

/// Columns of an export that precede the parameter columns.
pub const EXPORT_COLUMNS: [&str; 12] = [
    "number",
    "state",
    "source",
    "value",
    "failure",
    "attempts",
    "asked_at",
    "started_at",
    "told_at",
    "ask_seconds",
    "evaluate_seconds",
    "trained_epochs",
];

/// Prefix of a parameter's column in an export if the parameter's name is taken. Repeated until the
/// name is unique.
const PARAMETER_PREFIX: &str = "parameter.";

/// Prefix of a parameter's column in pandas tables written by Optuna or the Python package.
const DATAFRAME_PREFIX: &str = "params_";

/// Returns a parameter's export column: its name, with as many prefixes as needed to make it
/// unique.
pub fn export_column(parameter: &str, space: &Space) -> String {
    let is_taken = |name: &str| {
        let mut others = space.parameters().iter().map(Parameter::name);
        EXPORT_COLUMNS.contains(&name) || (name != parameter && others.any(|other| other == name))
    };
    let mut name = parameter.to_owned();
    while is_taken(&name) {
        name.insert_str(0, PARAMETER_PREFIX);
    }
    name
}

/// The trials of a table.
#[derive(Debug, PartialEq)]
pub(crate) struct TrialTable {
    /// The parameter columns in order.
    pub(crate) columns: Vec<ParameterColumn>,
    /// The direction, if the table has a column for it.
    pub(crate) direction: Option<Direction>,
    /// The rows with a finite value, in order.
    pub(crate) rows: Vec<TableRow>,
    /// The other rows, grouped by reason.
    pub(crate) left_out: Vec<LeftOut>,
    /// True if numbers may have a decimal comma.
    pub(crate) has_decimal_commas: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ParameterColumn {
    /// The parameter.
    pub(crate) parameter: String,
    /// The column's name.
    pub(crate) name: String,
}

/// A trial with a finite value.
#[derive(Debug, PartialEq)]
pub(crate) struct TableRow {
    /// Line number, counted from 1.
    pub(crate) line: Option<u64>,
    /// One string per parameter column.
    pub(crate) texts: Vec<String>,
    /// The numbers in the order of the requested names, in the user's own signs. A number with a
    /// blank cell is NaN, and at least one is finite.
    pub(crate) numbers: Vec<f64>,
}

/// Error returned if a table cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TableDefect {
    /// Line number, counted from 1, if the defect has one.
    pub(crate) line: Option<u64>,
    /// The defect, with the column, the value found and the value expected.
    pub(crate) message: String,
}

impl TableDefect {
    pub(crate) fn new(line: Option<u64>, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }

    fn broken(error: &csv::Error) -> Self {
        Self::new(error.position().map(csv::Position::line), format!("it is not a table: {error}"))
    }
}

impl TrialTable {
    /// Reads a table with a column for each of the numbers `names` (`value` if a trial has only
    /// one).
    ///
    /// The columns `state` and `direction` are optional. The parameter columns are those with the
    /// prefix `params_`. Without such columns, they are all columns that an export does not use for
    /// another purpose.
    ///
    /// Columns are separated by commas, semicolons or tabs. With semicolons, numbers may have a
    /// decimal comma.
    pub(crate) fn parse(bytes: &[u8], names: &[&str]) -> Result<Self, TableDefect> {
        let separator = Separator::of_table(bytes, names).map_err(|e| TableDefect::broken(&e))?;
        let mut reader = separator.reader(bytes);
        let header = reader.headers().map_err(|e| TableDefect::broken(&e))?.clone();
        // A handwritten table is read literally. Only exports escape their cells.
        let is_export = EXPORT_COLUMNS.iter().all(|name| header.iter().any(|each| each == *name));
        let text_of = |cell: &str| match is_export {
            true => restored(cell).into_owned(),
            false => cell.to_owned(),
        };
        let header: StringRecord = header.iter().map(text_of).collect();
        let column = |name: &str| header.iter().position(|each| each == name);
        let mut numbers_at = Vec::with_capacity(names.len());
        for name in names {
            let Some(at) = column(name) else {
                let numbers = names.join(", ");
                let message = format!(
                    "it has no column {name}; the first line must name the parameters and {numbers}, separated by commas, semicolons or \
                     tabs, as fedbo export writes it"
                );
                return Err(TableDefect::new(Some(1), message));
            };
            numbers_at.push(at);
        }
        let (state_at, direction_at) = (column("state"), column("direction"));
        let columns = parameter_columns(&header, is_export, names)?;
        let mut table = Self {
            columns: Vec::new(),
            direction: None,
            rows: Vec::new(),
            left_out: Vec::new(),
            has_decimal_commas: separator == Separator::Semicolon,
        };
        let mut marks = DecimalMarks::default();
        let (mut n_failed, mut n_stopped, mut n_open, mut n_discarded, mut n_without) =
            (0, 0, 0, 0, 0);
        for record in reader.records() {
            let record = record.map_err(|e| TableDefect::broken(&e))?;
            let line = record.position().map(csv::Position::line);
            let wrong = |column: &str, word: &str, expected: &str| {
                TableDefect::new(line, format!("column {column} = {word:?}, expected {expected}"))
            };
            if let Some(word) = direction_at.and_then(|at| record.get(at)) {
                let given = match word {
                    "minimize" => Direction::Minimize,
                    "maximize" => Direction::Maximize,
                    _ => return Err(wrong("direction", word, "minimize or maximize")),
                };
                if table.direction.is_some_and(|other| other != given) {
                    return Err(TableDefect::new(line, "rows differ in their direction"));
                }
                table.direction = Some(given);
            }
            let state = state_at.and_then(|at| record.get(at)).unwrap_or_default();
            let counter = match state.to_ascii_lowercase().as_str() {
                "failed" | "fail" => Some(&mut n_failed),
                "stopped" | "pruned" => Some(&mut n_stopped),
                "running" | "waiting" => Some(&mut n_open),
                "discarded" => Some(&mut n_discarded),
                "complete" | "" => None,
                _ => {
                    let expected = "complete, failed, stopped, discarded, running or waiting";
                    return Err(wrong("state", state, expected));
                }
            };
            if let Some(counter) = counter {
                *counter += 1;
                continue;
            }
            if table.has_decimal_commas {
                let used = numbers_at.iter().chain(columns.iter().map(|(at, _)| at));
                for at in used {
                    if !marks.agree_with(&record[*at]) {
                        return Err(wrong(
                            &header[*at],
                            &record[*at],
                            "one kind of numbers: this table has decimal points and decimal commas; write 1250.5 without a mark \
                             between thousands",
                        ));
                    }
                }
            }
            let mut numbers = Vec::with_capacity(names.len());
            for (name, at) in names.iter().zip(&numbers_at) {
                let number: Option<f64> = match &record[*at] {
                    "" => None,
                    word => Some(
                        table
                            .number(word, |text| text.parse().ok())
                            .ok_or_else(|| wrong(name, word, separator.expected_number()))?,
                    ),
                };
                numbers.push(number.unwrap_or(f64::NAN));
            }
            // Of several numbers, some may be missing.
            let has_infinite = numbers.iter().any(|number| number.is_infinite());
            if has_infinite || numbers.iter().all(|number| number.is_nan()) {
                n_without += 1;
                continue;
            }
            let texts = columns.iter().map(|(at, _)| text_of(&record[*at])).collect();
            table.rows.push(TableRow { line, texts, numbers });
        }
        table.columns = columns.into_iter().map(|(_, column)| column).collect();
        table.left_out = LeftOut::of_counts([
            (n_failed, "failed"),
            (n_stopped, "stopped early"),
            (n_open, "not finished"),
            (n_discarded, "discarded"),
            (n_without, "without a finite value"),
        ]);
        Ok(table)
    }

    /// Returns cells with a decimal point instead of a decimal comma in numbers. Without a space, a
    /// choice that looks like a number counts as one.
    pub(crate) fn canonical(&self, texts: &[String]) -> Vec<String> {
        let canonical = |text: &String| match with_decimal_point(text) {
            Some(number) if self.has_decimal_commas && number.parse::<f64>().is_ok() => number,
            _ => text.clone(),
        };
        texts.iter().map(canonical).collect()
    }

    /// Parses a number of this table, with a decimal comma if the table may have them.
    pub(crate) fn number<T>(&self, text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        parse(text).or_else(|| match self.has_decimal_commas {
            true => parse(&with_decimal_point(text)?),
            false => None,
        })
    }
}

/// Returns the parameter columns with their indices.
fn parameter_columns(
    header: &StringRecord,
    is_export: bool,
    names: &[&str],
) -> Result<Vec<(usize, ParameterColumn)>, TableDefect> {
    let has_prefix = !is_export && header.iter().any(|name| name.starts_with(DATAFRAME_PREFIX));
    let mut columns: Vec<(usize, ParameterColumn)> = Vec::new();
    for (at, name) in header.iter().enumerate() {
        let parameter = match name.strip_prefix(DATAFRAME_PREFIX) {
            Some(parameter) if has_prefix => parameter.to_owned(),
            _ if has_prefix || name.is_empty() || is_column(name) || names.contains(&name) => {
                continue;
            }
            _ => parameter_of(name, header),
        };
        if columns.iter().any(|(_, other)| other.name == name) {
            return Err(TableDefect::new(Some(1), format!("it has two columns {name:?}")));
        }
        columns.push((at, ParameterColumn { parameter, name: name.to_owned() }));
    }
    Ok(columns)
}

/// Returns true if a column does not belong to a parameter: a fixed column of an export, or the
/// direction.
fn is_column(name: &str) -> bool {
    EXPORT_COLUMNS.contains(&name) || name == "direction"
}

/// Returns the parameter of a column. Reverses the prefixes that an export adds to make names
/// unique.
fn parameter_of(column: &str, header: &StringRecord) -> String {
    match column.strip_prefix(PARAMETER_PREFIX) {
        Some(rest) if is_column(rest) || header.iter().any(|each| each == rest) => rest.to_owned(),
        Some(rest) if rest.starts_with(PARAMETER_PREFIX) => parameter_of(rest, header),
        _ => column.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TrialTable, TableDefect> {
        TrialTable::parse(text.as_bytes(), &["value"])
    }

    fn names(table: &TrialTable) -> Vec<&str> {
        table.columns.iter().map(|each| each.parameter.as_str()).collect()
    }

    fn rows(table: &TrialTable) -> Vec<(Vec<&str>, f64)> {
        let rows = table.rows.iter();
        rows.map(|each| (each.texts.iter().map(String::as_str).collect(), each.numbers[0]))
            .collect()
    }

    fn left_out(table: &TrialTable) -> Vec<String> {
        table.left_out.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_export_and_a_table_of_pandas_say_the_same() {
        let columns = EXPORT_COLUMNS.join(",");
        let export = read(&format!(
            "{columns},x,parameter.value,kind\n\
             0,complete,initial,0.5,,1,t,t,t,0.1,0.2,,1e-3,7,\"a, b\"\n\
             1,failed,own,,\"exit: 1\",1,t,t,t,0.1,0.2,,0.5,8,c\n\
             2,running,own,,,1,t,t,,0.1,,,0.5,8,c\n\
             3,complete,own,-1.25,,1,t,t,t,0.1,0.2,9,0.25,9,c\n\
             4,stopped,own,-9.5,,1,t,t,t,0.1,0.2,4,0.25,9,c\n"
        ))
        .unwrap();
        assert_eq!(names(&export), ["x", "value", "kind"]);
        let expected = [(vec!["1e-3", "7", "a, b"], 0.5), (vec!["0.25", "9", "c"], -1.25)];
        assert_eq!(rows(&export), expected);
        assert_eq!(left_out(&export), ["1 failed", "1 stopped early", "1 not finished"]);
        assert_eq!(export.direction, None);
        // Output of study.trials_dataframe().to_csv() in Optuna 5.
        let pandas = read(
            ",number,value,datetime_start,datetime_complete,duration,params_kind,params_value,params_x,state\n\
             0,0,0.5,2026-11-23 20:00:00,2026-11-23 20:00:01,0 days 00:00:01,\"a, b\",7,1e-3,COMPLETE\n\
             1,1,,2026-11-23 20:00:00,2026-11-23 20:00:01,0 days 00:00:01,c,8,0.5,FAIL\n\
             2,2,3.0,2026-11-23 20:00:00,2026-11-23 20:00:01,0 days 00:00:01,c,8,0.5,RUNNING\n\
             3,3,-1.25,2026-11-23 20:00:00,2026-11-23 20:00:01,0 days 00:00:01,c,9,0.25,COMPLETE\n\
             4,4,3.0,2026-11-23 20:00:00,2026-11-23 20:00:01,0 days 00:00:01,c,8,0.5,PRUNED\n",
        )
        .unwrap();
        assert_eq!(names(&pandas), ["kind", "value", "x"]);
        let expected = [(vec!["a, b", "7", "1e-3"], 0.5), (vec!["c", "9", "0.25"], -1.25)];
        assert_eq!(rows(&pandas), expected);
        assert_eq!(left_out(&pandas), left_out(&export));
    }

    #[test]
    fn the_cells_of_an_export_are_restored_and_those_of_a_table_by_hand_are_as_they_are() {
        let columns = EXPORT_COLUMNS.join(",");
        let cells = "0,complete,own,1,,1,t,t,t,0.1,0.2,";
        let table = read(&format!("{columns},path,'=x\n{cells},C:\\\\new,'=1+1\n")).unwrap();
        assert_eq!(names(&table), ["path", "=x"]);
        assert_eq!(rows(&table)[0].0, ["C:\\new", "=1+1"]);
        let table = read("path,value\nC:\\\\new,1\n").unwrap();
        assert_eq!(rows(&table)[0].0, ["C:\\\\new"]);
    }

    #[test]
    fn semicolons_and_tabs_separate_columns_too() {
        let table = read("\u{feff}temp;cat;value\n30,5;Pd, old;10,25\n-4;Ni;1e-2\n").unwrap();
        assert_eq!(names(&table), ["temp", "cat"]);
        let expected = [(vec!["30,5", "Pd, old"], 10.25), (vec!["-4", "Ni"], 0.01)];
        assert_eq!(rows(&table), expected);
        assert_eq!(table.canonical(&table.rows[0].texts), ["30.5", "Pd, old"]);
        let table = read("temp, in C\tvalue\n30.5\t10.1\n").unwrap();
        assert_eq!((names(&table), rows(&table)), (vec!["temp, in C"], vec![(vec!["30.5"], 10.1)]));
        let table = read("temp;value\n30.5;10.1\n").unwrap();
        assert_eq!(rows(&table), [(vec!["30.5"], 10.1)]);
        // The header of a table with commas may contain the other marks.
        let table = read("a;b,value\n1,2\n").unwrap();
        assert_eq!((names(&table), rows(&table)), (vec!["a;b"], vec![(vec!["1"], 2.0)]));
    }

    #[test]
    fn ambiguous_numbers_are_refused_with_their_line_and_column() {
        let cases = [
            // Perhaps 1250, perhaps 1.25.
            (
                "x;value\n1;2,5\n1;1.250\n",
                Some(3),
                "column value = \"1.250\", expected one kind of numbers",
            ),
            ("x;value\n2.5;1\n1,5;1\n", Some(3), "column x = \"1,5\""),
            ("x;value\n1;1.250,5\n", Some(2), "column value = \"1.250,5\", expected a number"),
            ("x\tvalue\n1\t2,5\n", Some(2), "with a decimal point"),
            ("x,value\n1,\"2,5\"\n", Some(2), "column value = \"2,5\", expected a number"),
            ("temp,cat\n30.5,Pd\n", Some(1), "no column value"),
            ("temp|value\n30.5|10.1\n", Some(1), "separated by commas, semicolons or tabs"),
        ];
        for (text, line, expected) in cases {
            let defect = read(text).unwrap_err();
            assert!(defect.line == line && defect.message.contains(expected), "{defect:?}");
        }
    }

    #[test]
    fn a_table_by_hand_needs_parameters_and_values_alone() {
        let table =
            read("\u{feff}x, value, direction,,\n0.5, 2, minimize,,\n0.1, nan, minimize,,\n");
        let table = table.unwrap();
        assert_eq!(table.direction, Some(Direction::Minimize));
        assert_eq!((names(&table), rows(&table)), (vec!["x"], vec![(vec!["0.5"], 2.0)]));
        assert_eq!(left_out(&table), ["1 without a finite value"]);
    }

    #[test]
    fn further_numbers_have_columns_of_their_own() {
        let read = |text: &str| TrialTable::parse(text.as_bytes(), &["error", "ms"]);
        let table = read("x,error,ms,state\n1,2,3,complete\n1,2,,complete\n1,,,failed\n1,,nan,complete\n1,2,inf,complete\n").unwrap();
        assert_eq!(names(&table), ["x"]);
        assert_eq!((table.rows.len(), &table.rows[0].numbers), (2, &vec![2.0, 3.0]));
        let partly = &table.rows[1].numbers;
        assert!((partly[0] - 2.0).abs() < 1e-12 && partly[1].is_nan(), "{partly:?}");
        assert_eq!(left_out(&table), ["1 failed", "2 without a finite value"]);
        let defect = read("x,error\n1,2\n").unwrap_err();
        assert!(
            defect
                .message
                .contains("no column ms; the first line must name the parameters and error, ms")
        );
        let defect = read("x,error,ms\n1,2,fast\n").unwrap_err();
        assert!(defect.message.contains("column ms = \"fast\", expected a number"), "{defect:?}");
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line_column_and_value() {
        let cases = [
            ("x,y\n1,2\n", Some(1), "no column value"),
            ("x,value\n1,2\n1,high\n", Some(3), "column value = \"high\", expected a number"),
            ("x,value\n1,2\n1\n", Some(3), "it is not a table"),
            ("x,x,value\n1,2,3\n", Some(1), "two columns \"x\""),
            ("params_x,params_x,value\n1,2,3\n", Some(1), "two columns \"params_x\""),
            ("x,value,state\n1,2,odd\n", Some(2), "column state = \"odd\""),
            ("x,value,direction\n1,2,up\n", Some(2), "column direction = \"up\""),
            ("x,value,direction\n1,2,minimize\n1,2,maximize\n", Some(3), "rows differ"),
        ];
        for (text, line, expected) in cases {
            let defect = read(text).unwrap_err();
            assert!(defect.line == line && defect.message.contains(expected), "{defect:?}");
        }
    }
}
