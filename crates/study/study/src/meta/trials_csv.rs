//! A CSV of trials, as `fedbo export` writes it or as somebody made it.

use std::path::Path;

use fedbo_space::Direction;
use fedbo_space::cell::restored;

use super::source::OldTrials;
use super::{LeftOut, MetaError};
use crate::export::{EXPORT_COLUMNS, PARAMETER_PREFIX};

/// Returns true if a column is not a parameter's: one of an export, or the direction of the values.
fn is_column(name: &str) -> bool {
    EXPORT_COLUMNS.contains(&name) || name == "direction"
}

/// Reads the file at `path`, which the study's file names `text`.
pub(super) fn read(path: &Path, text: &str) -> Result<OldTrials, MetaError> {
    let bytes = std::fs::read(path).map_err(|error| MetaError::Unreadable {
        source_text: text.to_owned(),
        message: error.to_string(),
    })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    parse(&bytes, &name, text)
}

fn parse(bytes: &[u8], name: &str, source_text: &str) -> Result<OldTrials, MetaError> {
    let refused = |line: Option<u64>, message: String| MetaError::Csv {
        source_text: source_text.to_owned(),
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
    let header: csv::StringRecord = header.iter().map(text_of).collect();
    let column = |name: &str| header.iter().position(|each| each == name);
    let Some(value_at) = column("value") else {
        let way = "the first line must name the parameters and value, as fedbo export writes it";
        return Err(refused(None, format!("it has no column value; {way}")));
    };
    let (state_at, direction_at) = (column("state"), column("direction"));
    let parameters: Vec<(usize, String)> = header
        .iter()
        .enumerate()
        .filter(|(_, name)| !is_column(name))
        .map(|(at, name)| (at, parameter(name, &header)))
        .collect();
    let mut seen: Vec<&str> = Vec::new();
    for (_, name) in &parameters {
        if seen.contains(&name.as_str()) {
            return Err(refused(None, format!("it has two columns {name:?}")));
        }
        seen.push(name);
    }
    let (mut n_failed, mut n_stopped, mut n_open) = (0, 0, 0);
    let (mut n_without, mut direction) = (0, None);
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(broken)?;
        let line = record.position().map(csv::Position::line);
        if let Some(word) = direction_at.and_then(|at| record.get(at)) {
            let given = match word {
                "minimize" => Direction::Minimize,
                "maximize" => Direction::Maximize,
                _ => {
                    let message = format!("direction = {word:?}, expected minimize or maximize");
                    return Err(refused(line, message));
                }
            };
            if direction.is_some_and(|other| other != given) {
                return Err(refused(line, "rows differ in their direction".to_owned()));
            }
            direction = Some(given);
        }
        let word = &record[value_at];
        match (state_at.and_then(|at| record.get(at)), word) {
            (Some("failed"), _) => n_failed += 1,
            (Some("stopped"), _) => n_stopped += 1,
            (Some("running" | "waiting"), _) => n_open += 1,
            (_, "") => n_without += 1,
            (_, word) => match word.parse::<f64>() {
                Ok(value) if value.is_finite() => {
                    let texts = parameters.iter().map(|(at, _)| text_of(&record[*at]));
                    rows.push((texts.collect(), value));
                }
                Ok(_) => n_without += 1,
                Err(_) => {
                    let message = format!(
                        "value = {word:?}, expected a number, or nothing for a failed trial"
                    );
                    return Err(refused(line, message));
                }
            },
        }
    }
    let left_out = [
        (n_failed, "failed"),
        (n_stopped, "stopped early"),
        (n_open, "not finished"),
        (n_without, "without a finite value"),
    ];
    Ok(OldTrials {
        name: name.to_owned(),
        direction,
        space: None,
        noisy: false,
        parameters: parameters.into_iter().map(|(_, name)| name).collect(),
        rows,
        left_out: left_out
            .into_iter()
            .filter(|(n_trials, _)| *n_trials > 0)
            .map(|(n_trials, why)| LeftOut { n_trials, why: why.to_owned() })
            .collect(),
    })
}

/// The parameter that a column is of: an export sets a prefix before a name that is taken, as often as that takes.
fn parameter(column: &str, header: &csv::StringRecord) -> String {
    match column.strip_prefix(PARAMETER_PREFIX) {
        Some(rest) if is_column(rest) || header.iter().any(|each| each == rest) => rest.to_owned(),
        Some(rest) if rest.starts_with(PARAMETER_PREFIX) => parameter(rest, header),
        _ => column.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<OldTrials, MetaError> {
        parse(text.as_bytes(), "old", "old.csv")
    }

    #[test]
    fn an_export_is_read_with_what_is_left_out() {
        let old = read(
            "number,state,source,value,failure,attempts,asked_at,started_at,told_at,ask_seconds,evaluate_seconds,trained_epochs,x,parameter.value,kind\n\
             0,complete,initial,0.5,,1,t,t,t,0.1,0.2,,1e-3,7,\"a, b\"\n\
             1,failed,own,,\"exit: 1\",1,t,t,t,0.1,0.2,,0.5,8,c\n\
             2,running,own,,,1,t,t,,0.1,,,0.5,8,c\n\
             3,complete,own,-1.25,,1,t,t,t,0.1,0.2,9,0.25,9,c\n\
             4,stopped,own,-9.5,,1,t,t,t,0.1,0.2,4,0.25,9,c\n",
        )
        .unwrap();
        assert_eq!(old.parameters, ["x", "value", "kind"]);
        let row = |texts: [&str; 3], value| (texts.map(str::to_owned).to_vec(), value);
        assert_eq!(old.rows, [row(["1e-3", "7", "a, b"], 0.5), row(["0.25", "9", "c"], -1.25)]);
        let words: Vec<String> = old.left_out.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["1 failed", "1 stopped early", "1 not finished"]);
        assert_eq!((old.direction, old.space), (None, None));
    }

    #[test]
    fn the_cells_of_an_export_are_restored_and_those_of_a_table_by_hand_are_as_they_are() {
        let columns = EXPORT_COLUMNS.join(",");
        let cells = "0,complete,own,1,,1,t,t,t,0.1,0.2,";
        let old = read(&format!("{columns},path,'=x\n{cells},C:\\\\new,'=1+1\n")).unwrap();
        assert_eq!(old.parameters, ["path", "=x"]);
        assert_eq!(old.rows[0].0, ["C:\\new", "=1+1"]);
        let old = read("path,value\nC:\\\\new,1\n").unwrap();
        assert_eq!(old.rows[0].0, ["C:\\\\new"]);
    }

    #[test]
    fn a_table_by_hand_needs_parameters_and_values_alone() {
        let old =
            read("\u{feff}x, value, direction\n0.5, 2, minimize\n0.1, nan, minimize\n").unwrap();
        assert_eq!(old.direction, Some(Direction::Minimize));
        assert_eq!(old.rows, [(vec!["0.5".to_owned()], 2.0)]);
        assert_eq!(old.left_out[0].to_string(), "1 without a finite value");
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line() {
        let cases = [
            ("x,y\n1,2\n", "no column value"),
            ("x,value\n1,2\n1,high\n", "line 3: value = \"high\""),
            ("x,value\n1,2\n1\n", "line 3: it is not a table"),
            ("x,x,value\n1,2,3\n", "two columns \"x\""),
            ("x,value,direction\n1,2,up\n", "direction = \"up\""),
            ("x,value,direction\n1,2,minimize\n1,2,maximize\n", "line 3: rows differ"),
        ];
        for (text, expected) in cases {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(error.contains("\"old.csv\""), "{error}");
        }
    }
}
