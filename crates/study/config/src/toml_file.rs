//! A TOML file that a user wrote: every error about it names the file, the line, the key, the value and a way out.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use fedbo_postgres::masked;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::excerpt::excerpt;

/// Characters of a value that an error shows.
const SHOWN_CHARS: usize = 60;
/// The least similarity (Jaro and Winkler) of two words at which one is suggested for the other.
const ALIKE: f64 = 0.75;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named.
    pub path: Box<Path>,
    /// Line from 1; none where the thing is missing as a whole.
    pub line: Option<usize>,
    /// The line itself with carets under what is wrong.
    excerpt: Option<Box<str>>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        self.line.map_or(Ok(()), |line| write!(f, ", line {line}"))
    }
}

/// An error in a file.
///
/// Displayed it is one line that names the place. With `{:#}` the line of the file follows below, with carets under what is
/// wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error message.
        cause: String,
    },
    /// The text is not TOML.
    Syntax {
        /// The place of the error.
        place: Place,
        /// Column from 1, in characters.
        column: usize,
        /// The parser's message.
        message: String,
    },
    /// A key means nothing here.
    UnknownKey {
        /// The place of the key.
        place: Place,
        /// The key, with the tables that it stands in.
        key: String,
        /// The known key that is most alike, if one is.
        nearest: Option<Box<str>>,
        /// All that could stand here.
        known: Vec<String>,
    },
    /// A value is of the wrong type or out of range.
    Value {
        /// The place of the value.
        place: Place,
        /// The key, with the tables that it stands in.
        key: String,
        /// The value that stands there, as the file spells it.
        found: String,
        /// The values that would be accepted, in words.
        expected: String,
    },
    /// A key or table that is needed is not there.
    Missing {
        /// The place where its table begins.
        place: Place,
        /// The key or table that is missing.
        key: String,
        /// The way out: what to add.
        remedy: String,
    },
    /// Keys that are valid on their own do not go together, or name something that cannot be used.
    Invalid {
        /// The place of the error.
        place: Place,
        /// The problem, and the way out.
        message: String,
    },
}

impl FileError {
    /// The line of the file with carets under what is wrong; nothing where the error is about no line.
    pub fn excerpt(&self) -> Option<&str> {
        match self {
            Self::Read { .. } => None,
            Self::Syntax { place, .. }
            | Self::UnknownKey { place, .. }
            | Self::Value { place, .. }
            | Self::Missing { place, .. }
            | Self::Invalid { place, .. } => place.excerpt.as_deref(),
        }
    }
}

impl std::error::Error for FileError {}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, cause } => write!(f, "cannot read {}: {cause}", path.display())?,
            Self::Syntax { place, column, message } => {
                write!(f, "{place}, column {column}: {message}")?
            }
            Self::UnknownKey { place, key, nearest, known } => {
                let suggestion = suggestion(nearest.as_deref(), known);
                write!(f, "{place}: unknown key {key}; {suggestion}")?;
            }
            Self::Value { place, key, found, expected } => {
                write!(f, "{place}: {key} = {found}, expected {expected}")?
            }
            Self::Missing { place, key, remedy } => {
                write!(f, "{place}: {key} is missing; {remedy}")?;
            }
            Self::Invalid { place, message } => write!(f, "{place}: {message}")?,
        }
        match self.excerpt().filter(|_| f.alternate()) {
            Some(excerpt) => write!(f, "\n{excerpt}"),
            None => Ok(()),
        }
    }
}

fn suggestion(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => format!("known here: {}", known.join(", ")),
    }
}

/// The known word that is most like `word`, if one is like it at all.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    known
        .into_iter()
        .map(|each| (each, strsim::jaro_winkler(&lower, &each.to_lowercase())))
        .filter(|(_, likeness)| *likeness >= ALIKE)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(each, _)| each)
}

/// The text of a file. Places in it are found by path: the names of tables and keys, and indices as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TomlFile {
    path: PathBuf,
    text: String,
}

impl TomlFile {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let read = |cause: String| FileError::Read { path: path.to_owned(), cause };
        let bytes = std::fs::read(path).map_err(|error| read(error.to_string()))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| read("it is not a text file in UTF-8".to_owned()))?;
        Ok(Self::from_text(path, text))
    }

    /// A file whose text is at hand.
    pub fn from_text(path: &Path, text: impl Into<String>) -> Self {
        let (path, text) = (path.to_owned(), text.into());
        Self { path, text }
    }

    /// The file, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's folder, to which relative paths in it refer.
    pub fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// The file as plain data.
    ///
    /// # Errors
    /// If it is not TOML, has an unknown key, or a value of the wrong type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, FileError> {
        if let Err(error) = DeTable::parse(&self.text) {
            let span = error.span().unwrap_or_default();
            return Err(FileError::Syntax {
                column: self.column_at(span.start),
                place: self.place_at(&span),
                message: error.message().replace('\n', "; "),
            });
        }
        toml::from_str(&self.text).map_err(|error| self.explain(&error))
    }

    /// A table of the file without its `others` keys as plain data; what it leaves out is as in `default`.
    ///
    /// # Errors
    /// If it has an unknown key, or a value of the wrong type.
    pub(crate) fn parse_table<T: Serialize + DeserializeOwned>(
        &self,
        table: &str,
        others: &[&str],
        default: &T,
    ) -> Result<T, FileError> {
        let default = toml::to_string(default)
            .unwrap_or_else(|error| unreachable!("plain data becomes TOML: {error}"));
        let mut whole =
            DeTable::parse(&default).map_or_else(|_| DeTable::new(), Spanned::into_inner);
        let mut file =
            DeTable::parse(&self.text).map_or_else(|_| DeTable::new(), Spanned::into_inner);
        let given = file.remove(table);
        let span = given.as_ref().map_or(0..0, Spanned::span);
        if let Some(DeValue::Table(given)) = given.map(Spanned::into_inner) {
            let given = given.into_iter();
            whole.extend(given.filter(|(key, _)| !others.contains(&&**key.get_ref())));
        }
        let whole = Spanned::new(span, DeValue::Table(whole));
        T::deserialize(ValueDeserializer::from(whole)).map_err(|error| self.explain(&error))
    }

    /// The keys of a table in the order in which they stand in the file; none if there is no such table.
    pub fn keys_in_order(&self, table: &[&str]) -> Vec<String> {
        let mut keys = self.within(|root| {
            let Some(DeValue::Table(table)) = find(root, table).map(|found| found.value) else {
                return Vec::new();
            };
            table.keys().map(|key| (key.span().start, key.get_ref().to_string())).collect()
        });
        keys.sort();
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// The error that a value cannot be accepted.
    pub fn value_error(&self, path: &[&str], expected: impl Into<String>) -> FileError {
        let found = self.span_of(path);
        let text = found
            .as_ref()
            .and_then(|(_, value)| self.text.get(value.clone()))
            .map_or_else(|| "nothing".to_owned(), shown);
        FileError::Value {
            place: match &found {
                Some((key, value)) => {
                    Place { line: self.place_at(key).line, ..self.place_at(value) }
                }
                None => self.place(path),
            },
            key: format_key_path(path),
            found: text,
            expected: expected.into(),
        }
    }

    /// The error that a key or a table is not there.
    pub fn missing_error(&self, path: &[&str], remedy: impl Into<String>) -> FileError {
        let key = match path {
            [table] => format!("[{table}]"),
            _ => format_key_path(path),
        };
        FileError::Missing {
            place: self.place(&path[..path.len().saturating_sub(1)]),
            key,
            remedy: remedy.into(),
        }
    }

    /// The error that a key means nothing here; `known` are those that would.
    pub fn unknown_key(&self, path: &[&str], known: &[&str]) -> FileError {
        unknown(self.place(path), path, known.iter().map(|key| (*key).to_owned()).collect())
    }

    /// An error about what stands at `path`, in words of its own.
    pub fn error(&self, path: &[&str], message: impl Into<String>) -> FileError {
        FileError::Invalid { place: self.place(path), message: message.into() }
    }

    /// The line, from 1, of a key that the file has.
    pub fn line_of(&self, path: &[&str]) -> Option<usize> {
        let (key, _) = self.span_of(path)?;
        self.place_at(&key).line
    }

    /// Returns the place of `path`, or of the innermost table of it that there is.
    fn place(&self, path: &[&str]) -> Place {
        let found = (0..path.len()).rev().find_map(|end| self.span_of(&path[..=end]));
        match found {
            Some((key, _)) => self.place_at(&key),
            None => Place { path: self.path.as_path().into(), line: None, excerpt: None },
        }
    }

    /// Spans of a key and of its value.
    fn span_of(&self, path: &[&str]) -> Option<(Range<usize>, Range<usize>)> {
        self.within(|root| find(root, path).map(|found| (found.key, found.span)))
    }

    fn within<R: Default>(&self, look: impl FnOnce(&DeTable<'_>) -> R) -> R {
        DeTable::parse(&self.text).map(|root| look(root.get_ref())).unwrap_or_default()
    }

    fn place_at(&self, span: &Range<usize>) -> Place {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        Place {
            path: self.path.as_path().into(),
            line: Some(1 + before.iter().filter(|byte| **byte == b'\n').count()),
            excerpt: Some(excerpt(&self.path, &self.text, span).into()),
        }
    }

    fn column_at(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or(&self.text);
        1 + before.rsplit('\n').next().map_or(0, |line| line.chars().count())
    }

    /// Puts an error of serde into the words of this project.
    fn explain(&self, error: &toml::de::Error) -> FileError {
        let message = error.message();
        let span = error.span().unwrap_or_default();
        let at = span.start;
        let mut path = self.within(|root| path_at(root, at).unwrap_or_default());
        if let Some(rest) = message.strip_prefix("unknown field ") {
            // "`x`, expected one of `a`, `b`", "`x`, expected `a` or `b`", "`x`, there are no fields"
            let mut words = rest.split('`').skip(1).step_by(2).map(str::to_owned);
            let key = words.next().unwrap_or_default();
            let known: Vec<String> = words.collect();
            // A header such as [spice.x] covers tables that are known by now to stand in an unknown one.
            match path.iter().rposition(|step| *step == key) {
                Some(index) => path.truncate(index + 1),
                None => path.push(key.clone()),
            }
            let steps: Vec<&str> = path.iter().map(String::as_str).collect();
            let named = self.span_of(&steps).map_or_else(|| span.clone(), |(key, _)| key);
            let place = Place { line: self.place_at(&span).line, ..self.place_at(&named) };
            return unknown(place, &steps, known);
        }
        if let Some(rest) = message.strip_prefix("missing field ") {
            path.push(rest.trim_matches('`').to_owned());
            let remedy = "add it".to_owned();
            return FileError::Missing {
                place: self.place_at(&span),
                key: format_key_path(&path),
                remedy,
            };
        }
        let borrowed: Vec<&str> = path.iter().map(String::as_str).collect();
        match message.rsplit_once("expected ") {
            Some((_, expected)) if !path.is_empty() => {
                let mut refused = self.value_error(&borrowed, plain(expected, &borrowed));
                if let FileError::Value { found, place, .. } = &mut refused {
                    *place = self.place_at(&span);
                    if found.starts_with('[') && found.ends_with(']') && message.contains("map") {
                        *found = "a table".to_owned();
                    }
                }
                refused
            }
            _ => FileError::Invalid { place: self.place_at(&span), message: message.to_owned() },
        }
    }
}

/// The error that a key means nothing at its place. Tables of a study that other files have not are told apart from misspelt ones.
fn unknown(place: Place, path: &[&str], known: Vec<String>) -> FileError {
    if let [table @ ("objectives" | "constraints")] = path {
        let message = format!(
            "[[{table}]] is for the file of a study (fedbo tune): what this file describes has one objective without constraints; remove it"
        );
        return FileError::Invalid { place, message };
    }
    let key = path.last().copied().unwrap_or_default();
    FileError::UnknownKey {
        place,
        key: format_key_path(path),
        nearest: nearest(key, known.iter().map(String::as_str)).map(Box::from),
        known,
    }
}

/// Puts what serde expects into words for people who do not write Rust.
fn plain(expected: &str, path: &[&str]) -> String {
    match expected {
        "a sequence" if path == ["agents"] => {
            "one [[agents]] table, with double brackets, for each agent".to_owned()
        }
        "a sequence" => "a list in [brackets]".to_owned(),
        "a string" => "a text in \"quotes\"".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "f64" => "a number".to_owned(),
        "u64" | "usize" => "a whole number of at least 0".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other => other.to_owned(),
    }
}

/// `agents[0].silo` from its steps.
pub(crate) fn format_key_path<S: AsRef<str>>(path: &[S]) -> String {
    let mut text = String::new();
    for step in path.iter().map(AsRef::as_ref) {
        if step.parse::<usize>().is_ok() {
            text += &format!("[{step}]");
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text += step;
        }
    }
    text
}

/// The first line of a value, not too long of it.
pub(crate) fn shown(text: &str) -> String {
    cut(text, 0)
}

/// Two texts that differ, each from shortly before the first difference on if that would be cut off.
pub(crate) fn differing_excerpts(a: &str, b: &str) -> [String; 2] {
    let [line_a, line_b] = [a, b].map(|text| masked(text.lines().next().unwrap_or("")));
    let pairs = line_a.chars().zip(line_b.chars());
    let n_equal = pairs.take_while(|(a, b)| a == b).count();
    let n_skipped = match n_equal >= SHOWN_CHARS {
        true => n_equal - SHOWN_CHARS / 4,
        false => 0,
    };
    [cut(a, n_skipped), cut(b, n_skipped)]
}

/// The first line of a text after so many characters, cut where it is long.
fn cut(text: &str, n_skipped: usize) -> String {
    let line = masked(text.lines().next().unwrap_or(""));
    let mut shown = String::new();
    if n_skipped > 0 {
        shown.push('…');
    }
    shown.extend(line.chars().skip(n_skipped).take(SHOWN_CHARS));
    let is_cut = line.chars().count() > n_skipped + SHOWN_CHARS;
    if is_cut || text.trim_end().contains('\n') {
        shown.push('…');
    }
    shown
}

struct Found<'a, 'i> {
    key: Range<usize>,
    span: Range<usize>,
    value: &'a DeValue<'i>,
}

/// Finds the key and the value at a path.
fn find<'a, 'i>(root: &'a DeTable<'i>, path: &[&str]) -> Option<Found<'a, 'i>> {
    let (first, rest) = path.split_first()?;
    let (key, value) = root.iter().find(|(key, _)| key.get_ref() == first)?;
    descend(key.span(), value, rest)
}

fn descend<'a, 'i>(
    key: Range<usize>,
    value: &'a Spanned<DeValue<'i>>,
    path: &[&str],
) -> Option<Found<'a, 'i>> {
    let Some((step, rest)) = path.split_first() else {
        return Some(Found { key, span: value.span(), value: value.get_ref() });
    };
    match value.get_ref() {
        DeValue::Table(table) => {
            let (key, value) = table.iter().find(|(key, _)| key.get_ref() == step)?;
            descend(key.span(), value, rest)
        }
        DeValue::Array(array) => {
            let value = array.get(step.parse::<usize>().ok()?)?;
            descend(value.span(), value, rest)
        }
        _ => None,
    }
}

/// Steps to the key or value that covers a place of the text.
fn path_at(table: &DeTable<'_>, at: usize) -> Option<Vec<String>> {
    table.iter().find_map(|(key, value)| {
        let name = key.get_ref().to_string();
        inside(value, at)
            .or_else(|| key.span().contains(&at).then(Vec::new))
            .map(|rest| [vec![name], rest].concat())
    })
}

fn inside(value: &Spanned<DeValue<'_>>, at: usize) -> Option<Vec<String>> {
    let deeper = match value.get_ref() {
        DeValue::Table(table) => path_at(table, at),
        DeValue::Array(array) => array.iter().enumerate().find_map(|(index, value)| {
            inside(value, at).map(|rest| [vec![index.to_string()], rest].concat())
        }),
        _ => None,
    };
    deeper.or_else(|| value.span().contains(&at).then(Vec::new))
}
