//! `results.csv`: one row per trial, in tidy form, written during the run.
//!
//! Each row is one line, and no cell is interpreted as a formula (`fedbo_space::cell`).

use std::fs::{File, OpenOptions};
use std::hash::{Hash as _, Hasher as _};
use std::io::{self, Read as _, Seek, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fedbo_space::cell::{escaped, restored};

use super::error::ReportError;
use super::folder::remove;
use super::summary::SUMMARY_FILE;
use super::task_weights::TASK_WEIGHT_FILES;
use super::team_regret::TEAM_REGRET_FILE;
use super::tradeoff::TRADEOFF_FILES;

/// File name of the results in their folder.
pub const RESULTS_FILE: &str = "results.csv";

/// Columns before the parameters.
const LEADING: [&str; 6] = ["experiment", "arm", "agent", "run", "iteration", "source"];
/// Columns after the parameters.
const TRAILING: [&str; 5] = ["value", "best", "regret", "ask_seconds", "status"];
/// Status of a trial that has a value.
const OK: &str = "ok";
/// Status prefix of failed trials, followed by the reason.
const FAILED: &str = "failed: ";

/// One trial of one agent in one run of one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the experiment or of one of its configurations.
    pub experiment: String,
    /// The algorithm or control arm.
    pub arm: String,
    /// The agent. Agent and `run` together identify the unit for means and paired comparisons.
    pub agent: String,
    /// Index of the repetition. Runs with equal indices share their seeds across arms.
    pub run: u32,
    /// Iteration, from 1; initial points have numbers ≤ 0.
    pub iteration: i64,
    /// The source of the query: initial, own posterior, a message with its sender, or a region's
    /// aggregate.
    pub source: String,
    /// Name and value of each parameter, in the order of the search space. A parameter that does
    /// not exist in the trial can be left out, and is blank in a row that was read.
    pub parameters: Vec<(String, String)>,
    /// The value of the objective; `None` for a failed trial.
    pub value: Option<f64>,
    /// Best value of this unit so far; `None` until a trial succeeds.
    pub best: Option<f64>,
    /// Simple regret after this trial, if the optimum is known. In a game, the distance of this
    /// round's payoff from the largest one.
    pub regret: Option<f64>,
    /// Seconds spent proposing the query.
    pub ask_seconds: f64,
    /// `ok`, or `failed: ` followed by the reason.
    pub status: String,
}

impl Row {
    /// Returns the status of a trial that has a value.
    #[must_use]
    pub fn ok_status() -> String {
        OK.to_owned()
    }

    /// Returns the status of a failed trial.
    #[must_use]
    pub fn failed_status(reason: impl std::fmt::Display) -> String {
        format!("{FAILED}{reason}")
    }

    /// Returns the names and values of the parameters that exist in the trial.
    pub fn existing(&self) -> impl Iterator<Item = &(String, String)> {
        self.parameters.iter().filter(|(_, value)| !value.is_empty())
    }

    /// Returns true if the trial has no usable value.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.status != OK
    }
}

/// Appends rows to the results file of one run. Each [`commit`](Self::commit) writes complete rows
/// to the file.
#[derive(Debug)]
pub struct ResultsWriter {
    path: PathBuf,
    file: File,
    parameters: Vec<String>,
    pending: csv::Writer<Vec<u8>>,
    /// Size in bytes of the file when it was opened.
    begun_at: u64,
}

impl ResultsWriter {
    /// Creates the folder and the file, and writes the header.
    ///
    /// Existing results are an error unless `overwrite` is set. With `overwrite`, the summary and
    /// the pictures in the folder are removed too, so that a folder never mixes two runs.
    ///
    /// # Errors
    /// Fails if the folder is unusable, or a parameter has the name of another column.
    pub fn create(
        folder: &Path,
        parameters: &[String],
        overwrite: bool,
    ) -> Result<Self, ReportError> {
        let path = folder.join(RESULTS_FILE);
        for (index, name) in parameters.iter().enumerate() {
            let taken = LEADING.contains(&name.as_str()) || TRAILING.contains(&name.as_str());
            if taken || parameters[..index].contains(name) {
                return Err(ReportError::ParameterName { path, name: name.clone() });
            }
        }
        check_folder(folder, overwrite)?;
        let mut options = OpenOptions::new();
        options.write(true);
        if overwrite {
            options.create(true).truncate(true);
            remove_reports(folder)?;
        } else {
            options.create_new(true);
        }
        let file = options.open(&path).map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists => ReportError::ResultsExist { path: path.clone() },
            _ => ReportError::Write { path: path.clone(), cause },
        })?;
        let parameters = parameters.to_vec();
        let mut writer = Self { path, file, parameters, pending: buffer(), begun_at: 0 };
        let header =
            LEADING.into_iter().chain(writer.parameters.iter().map(String::as_str)).chain(TRAILING);
        writer
            .pending
            .write_record(header.map(|name| escaped(name).into_owned()))
            .map_err(|error| writer.write_error(error.into()))?;
        writer.commit()?;
        Ok(writer)
    }

    /// Opens the results file of a folder to append rows. The parameters must match the existing
    /// rows.
    ///
    /// # Errors
    /// Fails if the file cannot be opened.
    pub fn append_to(folder: &Path, parameters: &[String]) -> Result<Self, ReportError> {
        let path = folder.join(RESULTS_FILE);
        let opened = OpenOptions::new().write(true).open(&path).and_then(|mut file| {
            let begun_at = file.seek(io::SeekFrom::End(0))?;
            Ok((file, begun_at))
        });
        let (file, begun_at) =
            opened.map_err(|cause| ReportError::Write { path: path.clone(), cause })?;
        Ok(Self { path, file, parameters: parameters.to_vec(), pending: buffer(), begun_at })
    }

    /// Discards everything written since the file was opened.
    ///
    /// # Errors
    /// Fails if the file cannot be truncated.
    pub fn take_back(self) -> Result<(), ReportError> {
        self.file.set_len(self.begun_at).map_err(|cause| self.write_error(cause))
    }

    /// Updates the path after the file was moved.
    pub(super) fn moved_to(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// Returns the path of the file being written.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a row, which is written to the file at the next commit.
    ///
    /// # Errors
    /// Fails if a number is NaN or infinite.
    ///
    /// # Panics
    /// Panics if the row has a parameter without a column, or its parameters are in another order.
    pub fn append(&mut self, row: &Row) -> Result<(), ReportError> {
        let mut fields = vec![
            row.experiment.clone(),
            row.arm.clone(),
            row.agent.clone(),
            row.run.to_string(),
            row.iteration.to_string(),
            row.source.clone(),
        ];
        let mut own = row.parameters.iter().peekable();
        for column in &self.parameters {
            let value = own.next_if(|(name, _)| name == column).map(|(_, value)| value.clone());
            fields.push(value.unwrap_or_default());
        }
        assert!(
            own.next().is_none(),
            "a row with parameters {:?} for a file with parameters {:?}",
            row.parameters,
            self.parameters
        );
        let numbers = [
            ("value", row.value),
            ("best", row.best),
            ("regret", row.regret),
            ("ask_seconds", Some(row.ask_seconds)),
        ];
        for (column, number) in numbers {
            fields.push(match number {
                None => String::new(),
                Some(value) if value.is_finite() => shortest(value),
                Some(value) => {
                    return Err(ReportError::NotFinite { path: self.path.clone(), column, value });
                }
            });
        }
        fields.push(row.status.clone());
        self.pending
            .write_record(fields.iter().map(|field| escaped(field).into_owned()))
            .map_err(|error| self.write_error(error.into()))
    }

    /// Writes the rows appended since the last commit, so that they survive an interruption.
    ///
    /// # Errors
    /// Fails if the file cannot be written. Earlier commits are kept, and a partial line is
    /// removed.
    pub fn commit(&mut self) -> Result<(), ReportError> {
        let pending = std::mem::replace(&mut self.pending, buffer());
        let bytes = pending.into_inner().map_err(|error| {
            let cause = io::Error::other(error.to_string());
            self.write_error(cause)
        })?;
        let start = self.file.stream_position().map_err(|cause| self.write_error(cause))?;
        let written = self.file.write_all(&bytes).and_then(|()| self.file.flush());
        written.map_err(|cause| {
            // Best effort: the original error is the one to report.
            let _ =
                self.file.set_len(start).and_then(|()| self.file.seek(io::SeekFrom::Start(start)));
            self.write_error(cause)
        })
    }

    fn write_error(&self, cause: io::Error) -> ReportError {
        ReportError::Write { path: self.path.clone(), cause }
    }
}

fn buffer() -> csv::Writer<Vec<u8>> {
    csv::Writer::from_writer(Vec::new())
}

/// Removes the files derived from the results in a folder: the summary, the team regret and the
/// pictures of a run.
///
/// # Errors
/// Fails if a file cannot be removed.
pub fn remove_reports(folder: &Path) -> Result<(), ReportError> {
    let pictures =
        ["curves.svg", "curves.png"].into_iter().chain(TRADEOFF_FILES).chain(TASK_WEIGHT_FILES);
    for name in pictures.chain([SUMMARY_FILE, TEAM_REGRET_FILE]) {
        remove(&folder.join(name))?;
    }
    Ok(())
}

/// Prepares the folder before a long run: creates it if necessary, and checks that it is writable
/// and has no other results.
///
/// # Errors
/// Fails if the folder cannot be created or written, or has results although `overwrite` is not
/// set.
pub fn check_folder(folder: &Path, overwrite: bool) -> Result<(), ReportError> {
    std::fs::create_dir_all(folder)
        .map_err(|cause| ReportError::CreateFolder { path: folder.to_owned(), cause })?;
    let results = folder.join(RESULTS_FILE);
    if !overwrite && results.exists() {
        return Err(ReportError::ResultsExist { path: results });
    }
    let probe = folder.join(format!(".fedbo-probe-{}", std::process::id()));
    let tried = File::create(&probe).and_then(|_| std::fs::remove_file(&probe));
    tried.map_err(|cause| ReportError::Write { path: folder.to_owned(), cause })
}

/// Reads a results file.
///
/// # Errors
/// Fails if the file cannot be read. An invalid field is reported with its line and column.
pub fn read_results(path: &Path) -> Result<Vec<Row>, ReportError> {
    let file =
        File::open(path).map_err(|cause| ReportError::Read { path: path.to_owned(), cause })?;
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
    let header = reader.headers().map_err(|error| csv_error(path, error))?;
    let header: csv::StringRecord = header.iter().map(restored).collect();
    let parameters = parameter_names(path, &header)?;
    let mut rows = Vec::new();
    for record in reader.into_records() {
        rows.push(row_of(path, &header, &parameters, record)?);
    }
    Ok(rows)
}

/// Parses one record of the file.
fn row_of(
    path: &Path,
    header: &csv::StringRecord,
    parameters: &[String],
    record: csv::Result<csv::StringRecord>,
) -> Result<Row, ReportError> {
    let record = record.map_err(|error| csv_error(path, error))?;
    let line = record.position().map_or(0, csv::Position::line);
    if record.len() != header.len() {
        return Err(ReportError::FieldCount {
            path: path.to_owned(),
            line,
            expected: header.len(),
            found: record.len(),
        });
    }
    Fields { path, line, header, record: &record.iter().map(restored).collect() }.row(parameters)
}

/// Follows a results file that may still be growing. Each call returns the rows added since the
/// previous call.
#[derive(Debug)]
pub struct ResultsTail {
    path: PathBuf,
    /// Names of all columns, and of the parameters.
    header: Option<(csv::StringRecord, Vec<String>)>,
    /// Position of the next line to read.
    place: csv::Position,
    /// Device and inode number of the file at the first read.
    file: Option<(u64, u64)>,
    /// The first two lines (header and first row), or the part of them read so far.
    head: Vec<u8>,
}

/// Maximum size in bytes of the first lines, which identify the results.
const HEAD_BYTES: usize = 4096;

impl ResultsTail {
    /// Follows the results in a folder, from the beginning.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            path: folder.join(RESULTS_FILE),
            header: None,
            place: csv::Position::new(),
            file: None,
            head: Vec::new(),
        }
    }

    /// Returns an identifier of these results once the first row has been read: a hash of the
    /// file's device and inode numbers and the first lines.
    #[must_use]
    pub fn identity(&self) -> Option<u64> {
        if !self.has_head() {
            return None;
        }
        let mut hasher = std::hash::DefaultHasher::new();
        (self.file, &self.head).hash(&mut hasher);
        Some(hasher.finish())
    }

    fn has_head(&self) -> bool {
        let n_lines = self.head.iter().filter(|byte| **byte == b'\n').count();
        n_lines == 2 || self.head.len() == HEAD_BYTES
    }

    /// Returns the rows added since the last call. An incomplete last line is not included.
    ///
    /// Returns `None` if the results read so far have been replaced: the file became shorter,
    /// begins differently, or is a different file.
    ///
    /// # Errors
    /// Fails if the file cannot be read. An invalid field is reported with its line and column.
    pub fn more(&mut self) -> Result<Option<Vec<Row>>, ReportError> {
        let Some(bytes) = self
            .new_lines()
            .map_err(|cause| ReportError::Read { path: self.path.clone(), cause })?
        else {
            return Ok(None);
        };
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(&*bytes);
        let mut records = reader.records();
        let (header, parameters) = match self.header.take() {
            Some(known) => known,
            None => match records.next() {
                None => return Ok(Some(Vec::new())),
                Some(first) => {
                    let first = first.map_err(|error| csv_error(&self.path, error))?;
                    let header = first.iter().map(restored).collect();
                    let parameters = parameter_names(&self.path, &header)?;
                    (header, parameters)
                }
            },
        };
        let mut rows = Vec::new();
        for record in records {
            let record = record.map(|mut record| {
                if let Some(mut place) = record.position().cloned() {
                    place.set_line(place.line() + self.place.line() - 1);
                    record.set_position(Some(place));
                }
                record
            });
            rows.push(row_of(&self.path, &header, &parameters, record)?);
        }
        self.header = Some((header, parameters));
        let n_lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.place.set_line(self.place.line() + n_lines);
        self.place.set_byte(self.place.byte() + bytes.len() as u64);
        Ok(Some(rows))
    }

    /// Returns the complete lines after those already read.
    fn new_lines(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut file = File::open(&self.path)?;
        let meta = file.metadata()?;
        let found = (meta.dev(), meta.ino());
        if meta.len() < self.place.byte() || *self.file.get_or_insert(found) != found {
            return Ok(None);
        }
        let mut head = vec![0; self.head.len()];
        file.read_exact(&mut head)?;
        if head != self.head {
            return Ok(None);
        }
        file.seek(io::SeekFrom::Start(self.place.byte()))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        bytes.truncate(end);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.has_head() {
                break;
            }
            let room = HEAD_BYTES - self.head.len();
            self.head.extend(&line[..line.len().min(room)]);
        }
        Ok(Some(bytes))
    }
}

fn csv_error(path: &Path, error: csv::Error) -> ReportError {
    let path = path.to_owned();
    let message = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(cause) => ReportError::Read { path, cause },
        _ => ReportError::Malformed { path, message },
    }
}

/// Checks the fixed columns and returns the parameter names between them.
fn parameter_names(path: &Path, header: &csv::StringRecord) -> Result<Vec<String>, ReportError> {
    let n_parameters = header.len().saturating_sub(LEADING.len() + TRAILING.len());
    let trailing = TRAILING
        .into_iter()
        .enumerate()
        .map(|(index, name)| (LEADING.len() + n_parameters + index, name));
    for (index, expected) in LEADING.into_iter().enumerate().chain(trailing) {
        let found = header.get(index).unwrap_or("");
        if found != expected {
            return Err(ReportError::Header {
                path: path.to_owned(),
                column: index + 1,
                expected,
                found: found.to_owned(),
            });
        }
    }
    Ok(header.iter().skip(LEADING.len()).take(n_parameters).map(str::to_owned).collect())
}

/// A line with as many fields as the header.
struct Fields<'a> {
    path: &'a Path,
    line: u64,
    header: &'a csv::StringRecord,
    record: &'a csv::StringRecord,
}

impl Fields<'_> {
    fn row(&self, parameters: &[String]) -> Result<Row, ReportError> {
        let after = LEADING.len() + parameters.len();
        let status = self.text(after + 4);
        if status != OK && !status.starts_with(FAILED) {
            return Err(self.error(after + 4, "\"ok\" or \"failed: \" and the reason"));
        }
        let values = self.record.iter().skip(LEADING.len()).map(str::to_owned);
        Ok(Row {
            experiment: self.text(0).to_owned(),
            arm: self.text(1).to_owned(),
            agent: self.text(2).to_owned(),
            run: self.text(3).parse().map_err(|_| self.error(3, "a whole number ≥ 0"))?,
            iteration: self.text(4).parse().map_err(|_| self.error(4, "a whole number"))?,
            source: self.text(5).to_owned(),
            parameters: parameters.iter().cloned().zip(values).collect(),
            value: self.optional(after)?,
            best: self.optional(after + 1)?,
            regret: self.optional(after + 2)?,
            ask_seconds: self.number(after + 3, "a finite number")?,
            status: status.to_owned(),
        })
    }

    fn text(&self, index: usize) -> &str {
        self.record.get(index).unwrap_or("")
    }

    fn optional(&self, index: usize) -> Result<Option<f64>, ReportError> {
        if self.text(index).is_empty() {
            Ok(None)
        } else {
            self.number(index, "a finite number or nothing").map(Some)
        }
    }

    fn number(&self, index: usize, expected: &'static str) -> Result<f64, ReportError> {
        let number: Option<f64> = self.text(index).parse().ok();
        number.filter(|number| number.is_finite()).ok_or_else(|| self.error(index, expected))
    }

    fn error(&self, index: usize, expected: &'static str) -> ReportError {
        ReportError::Field {
            path: self.path.to_owned(),
            line: self.line,
            column: self.header.get(index).unwrap_or("").to_owned(),
            expected,
            found: self.text(index).to_owned(),
        }
    }
}

/// Formats the shortest decimal that parses to the same number, with an exponent if plain digits
/// would be long.
fn shortest(value: f64) -> String {
    let digits = format!("{value:?}");
    digits.strip_suffix(".0").map(str::to_owned).unwrap_or(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["x1".to_owned(), "kernel, kind".to_owned()]
    }

    fn row(iteration: i64, value: Option<f64>) -> Row {
        Row {
            experiment: "branin".to_owned(),
            arm: "fts".to_owned(),
            agent: "north \"1\"".to_owned(),
            run: 3,
            iteration,
            source: "message of agent 4".to_owned(),
            parameters: names()
                .into_iter()
                .zip(["0.1".to_owned(), "rbf\nor not".to_owned()])
                .collect(),
            value,
            best: value,
            regret: value.map(|value| value / 3.0),
            ask_seconds: 0.1 + 0.2,
            status: if value.is_some() {
                Row::ok_status()
            } else {
                Row::failed_status("exit status 2, no output")
            },
        }
    }

    #[test]
    fn a_file_that_is_written_is_followed_line_by_line() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut tail = ResultsTail::new(folder.path());
        assert!(matches!(tail.more(), Err(ReportError::Read { .. })));
        let mut writer = ResultsWriter::create(folder.path(), &names(), false).expect("a new file");
        assert_eq!(tail.more().expect("a header"), Some(Vec::new()));
        let rows = [row(0, None), row(1, Some(0.5)), row(2, Some(0.25))];
        writer.append(&rows[0]).and_then(|()| writer.commit()).expect("a writable file");
        assert_eq!(tail.more().expect("a row"), Some(rows[..1].to_vec()));
        assert_eq!(tail.more().expect("nothing new"), Some(Vec::new()));
        // The next line arrives in two pieces.
        for row in &rows[1..] {
            writer.append(row).expect("a finite row");
        }
        writer.commit().expect("a writable file");
        let whole = std::fs::read(writer.path()).expect("a readable file");
        std::fs::write(writer.path(), &whole[..whole.len() - 5]).expect("a writable file");
        assert_eq!(tail.more().expect("a row"), Some(rows[1..2].to_vec()));
        std::fs::write(writer.path(), &whole).expect("a writable file");
        assert_eq!(tail.more().expect("a row"), Some(rows[2..].to_vec()));
        // An invalid line is reported with its line number in the file.
        std::fs::write(writer.path(), [&whole[..], b"a,b\n"].concat()).expect("a writable file");
        assert!(matches!(tail.more(), Err(ReportError::FieldCount { line: 5, found: 2, .. })));
        std::fs::write(writer.path(), &whole[..20]).expect("a writable file");
        let mut tail = ResultsTail { place: csv::Position::new(), ..tail };
        tail.place.set_byte(whole.len() as u64);
        assert_eq!(tail.more().expect("a shorter file"), None);
    }

    #[test]
    fn other_results_in_the_place_of_those_that_were_read_are_told() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |first: f64, n_rows: i64| {
            let mut writer =
                ResultsWriter::create(folder.path(), &names(), true).expect("a new file");
            for iteration in 0..n_rows {
                writer.append(&row(iteration, Some(first))).expect("a finite row");
            }
            writer.commit().expect("a writable file");
            writer.path().to_owned()
        };
        let read = |tail: &mut ResultsTail| tail.more().expect("a file").map(|rows| rows.len());
        let path = write(0.5, 0);
        let mut tail = ResultsTail::new(folder.path());
        assert_eq!((read(&mut tail), tail.identity()), (Some(0), None));
        write(0.5, 1);
        assert_eq!(read(&mut tail), Some(1));
        let first = tail.identity();
        assert!(first.is_some());
        write(0.5, 3);
        assert_eq!((read(&mut tail), tail.identity()), (Some(2), first), "it has grown");
        // The same file with a different first row of equal length, and more rows.
        write(0.2, 4);
        assert_eq!((read(&mut tail), tail.identity()), (None, first));
        let mut tail = ResultsTail::new(folder.path());
        assert_eq!(read(&mut tail), Some(4));
        assert!(tail.identity() != first && tail.identity().is_some());
        // A different file with the same rows.
        let copy = folder.path().join("copy");
        std::fs::copy(&path, &copy).and_then(|_| std::fs::rename(&copy, &path)).expect("a file");
        assert_eq!(read(&mut tail), None);
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut hostile = row(0, None);
        hostile.agent = "=HYPERLINK(\"http://x\")".to_owned();
        hostile.status = Row::failed_status("Traceback:\n  C:\\new\r\n-1+cmd|' /C calc'!A0");
        let written = vec![
            row(-1, Some(1.0 / 3.0)),
            row(0, None),
            hostile,
            row(1, Some(-1.5e-300)),
            row(2, Some(4e22)),
        ];
        let mut writer =
            ResultsWriter::create(&folder.path().join("a/b"), &names(), false).expect("a new file");
        for row in &written {
            writer.append(row).expect("a finite row");
        }
        writer.commit().expect("a writable file");
        assert_eq!(read_results(writer.path()).expect("a readable file"), written);
        let text = std::fs::read_to_string(writer.path()).expect("a readable file");
        assert_eq!(text.lines().count(), 1 + written.len());
        assert!(text.contains("failed: Traceback:\\n  C:\\\\new\\r\\n-1+cmd"), "{text}");
        assert!(text.contains(",\"'=HYPERLINK"), "{text}");
    }

    #[test]
    fn the_header_is_the_contract() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let writer =
            ResultsWriter::create(folder.path(), &["x1".to_owned()], false).expect("a new file");
        let text = std::fs::read_to_string(writer.path()).expect("a readable file");
        assert_eq!(
            text,
            "experiment,arm,agent,run,iteration,source,x1,value,best,regret,ask_seconds,status\n"
        );
    }

    #[test]
    fn rows_reach_the_file_at_commit_and_no_sooner() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut writer = ResultsWriter::create(folder.path(), &names(), false).expect("a new file");
        for iteration in 0..1000 {
            writer.append(&row(iteration, Some(1.0))).expect("a finite row");
        }
        assert_eq!(read_results(writer.path()).expect("a readable file").len(), 0);
        writer.commit().expect("a writable file");
        writer.append(&row(1000, Some(1.0))).expect("a finite row");
        let path = writer.path().to_owned();
        drop(writer);
        assert_eq!(read_results(&path).expect("a readable file").len(), 1000);
    }

    #[test]
    fn results_of_another_run_are_kept_unless_overwriting_is_asked_for() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut first = ResultsWriter::create(folder.path(), &names(), false).expect("a new file");
        first.append(&row(1, Some(1.0))).expect("a finite row");
        first.commit().expect("a writable file");
        std::fs::write(folder.path().join(SUMMARY_FILE), "{}").expect("a writable folder");

        let second = ResultsWriter::create(folder.path(), &names(), false);
        assert!(matches!(second, Err(ReportError::ResultsExist { .. })));
        assert!(matches!(
            check_folder(folder.path(), false),
            Err(ReportError::ResultsExist { .. })
        ));
        assert_eq!(read_results(first.path()).expect("a readable file").len(), 1);

        let third =
            ResultsWriter::create(folder.path(), &names(), true).expect("leave to overwrite");
        assert_eq!(read_results(third.path()).expect("a readable file").len(), 0);
        assert!(!folder.path().join(SUMMARY_FILE).exists());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("file");
        std::fs::write(&file, "").expect("a writable folder");
        let error = check_folder(&file.join("results"), false).expect_err("a file is no folder");
        assert!(matches!(error, ReportError::CreateFolder { .. }));
        assert!(error.to_string().contains("file/results"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::os::unix::fs::symlink("/dev/full", folder.path().join(RESULTS_FILE))
            .expect("a symbolic link");
        let error =
            ResultsWriter::create(folder.path(), &names(), true).expect_err("no space is left");
        assert!(matches!(error, ReportError::Write { .. }));
        assert!(error.to_string().contains("results.csv: No space left"), "{error}");
    }

    #[test]
    fn a_parameter_cannot_take_the_name_of_another_column() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for taken in [vec!["best".to_owned()], vec!["x".to_owned(), "x".to_owned()]] {
            let error =
                ResultsWriter::create(folder.path(), &taken, false).expect_err("a taken name");
            assert!(matches!(error, ReportError::ParameterName { .. }));
        }
        assert!(!folder.path().join(RESULTS_FILE).exists());
    }

    #[test]
    fn a_number_that_is_not_finite_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut writer = ResultsWriter::create(folder.path(), &names(), false).expect("a new file");
        let error = writer.append(&row(1, Some(f64::NAN))).expect_err("a NaN");
        assert!(matches!(error, ReportError::NotFinite { column: "value", .. }));
    }

    #[test]
    fn a_bad_file_is_described_by_line_and_column() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(RESULTS_FILE);
        let header =
            "experiment,arm,agent,run,iteration,source,x,value,best,regret,ask_seconds,status\n";
        let good = "e,ts,a,0,1,own,0.5,1,1,,0.1,ok\n";
        let message = |text: &str| {
            std::fs::write(&path, text).expect("a writable folder");
            read_results(&path).expect_err("a bad file").to_string()
        };
        let bad_number = message(&format!("{header}{good}e,ts,a,0,2,own,0.5,1,one,,0.1,ok\n"));
        assert!(
            bad_number.ends_with(
                "line 3, column best: expected a finite number or nothing, found \"one\""
            )
        );
        let bad_run = message(&format!("{header}e,ts,a,-1,2,own,0.5,1,1,,0.1,ok\n"));
        assert!(bad_run.ends_with("line 2, column run: expected a whole number ≥ 0, found \"-1\""));
        let bad_status = message(&format!("{header}e,ts,a,0,2,own,0.5,1,1,,0.1,good\n"));
        assert!(bad_status.contains("column status"), "{bad_status}");
        let cut = message(&format!("{header}{good}e,ts,a,0,2,ow"));
        assert!(
            cut.ends_with("line 3: 6 fields, the header has 12; if the run was cut off there, `fedbo run FILE --resume` repairs it"),
            "{cut}"
        );
        let renamed = message(&header.replace("regret", "loss"));
        assert!(
            renamed.ends_with("line 1, column 10: expected the column \"regret\", found \"loss\""),
            "{renamed}"
        );
        assert!(message("").contains("expected the column \"experiment\""));
        std::fs::write(&path, b"\xff\xfe,\n").expect("a writable folder");
        assert!(matches!(read_results(&path), Err(ReportError::Malformed { .. })));
        assert!(matches!(
            read_results(&folder.path().join("none.csv")),
            Err(ReportError::Read { .. })
        ));
    }

    #[test]
    fn numbers_are_short_and_exact() {
        for (value, text) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (-2.5e-9, "-2.5e-9"),
            (1e21, "1e21"),
            (0.1 + 0.2, "0.30000000000000004"),
        ] {
            assert_eq!(shortest(value), text);
            assert_eq!(text.parse::<f64>().map(f64::to_bits), Ok(value.to_bits()));
        }
    }
}
