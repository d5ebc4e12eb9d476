//! A TOML file written by a user. Errors contain the file, line, key, value and a remedy.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use fedbo_error_class::masked;
use fedbo_error_class::{Class, Classified};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::excerpt::excerpt;

/// Maximum number of characters of a value that an error message shows.
const SHOWN_CHARS: usize = 60;
/// Minimum Jaro-Winkler similarity for suggesting a known word in place of an unknown one.
const ALIKE: f64 = 0.75;

/// A location in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Path of the file, as given.
    pub path: Box<Path>,
    /// Line number, counted from 1; `None` if the entry is missing.
    pub line: Option<usize>,
    /// The line, with carets under the error.
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
/// The `Display` output is a single line with the location. With `{:#}`, it is followed by the
/// offending line with carets under the error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error message.
        cause: String,
    },
    /// The text is not valid TOML.
    Syntax {
        /// The location of the error.
        place: Place,
        /// Column, counted in characters from 1.
        column: usize,
        /// The parser's message.
        message: String,
    },
    /// The file contains an unknown key.
    UnknownKey {
        /// The location of the key.
        place: Place,
        /// The key, including its parent tables.
        key: String,
        /// The most similar known key, if one is similar enough.
        nearest: Option<Box<str>>,
        /// All valid keys at this location.
        known: Vec<String>,
    },
    /// A value is of the wrong type or out of range.
    Value {
        /// The location of the value.
        place: Place,
        /// The key, including its parent tables.
        key: String,
        /// The value as written in the file.
        found: String,
        /// Description of the accepted values.
        expected: String,
    },
    /// A required key or table is missing.
    Missing {
        /// The start of the enclosing table.
        place: Place,
        /// The missing key or table.
        key: String,
        /// The remedy: the text to add.
        remedy: String,
    },
    /// Keys are valid on their own but incompatible, or refer to something unusable.
    Invalid {
        /// The location of the error.
        place: Place,
        /// The problem and its remedy.
        message: String,
    },
}

impl Classified for FileError {
    fn class(&self) -> Class {
        Class::Input
    }
}

impl FileError {
    /// Returns the offending line with carets under the error, or `None` if the error has no line.
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

/// Returns the known word that is most similar to `word`, or `None` if no word is similar enough.
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

/// The text of a file. Locations are addressed by path: names of tables and keys, and indices as
/// numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TomlFile {
    path: PathBuf,
    text: String,
}

impl TomlFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let read = |cause: String| FileError::Read { path: path.to_owned(), cause };
        let bytes = std::fs::read(path).map_err(|error| read(error.to_string()))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| read("it is not a text file in UTF-8".to_owned()))?;
        Ok(Self::from_text(path, text))
    }

    /// Creates a file from text in memory.
    pub fn from_text(path: &Path, text: impl Into<String>) -> Self {
        let (path, text) = (path.to_owned(), text.into());
        Self { path, text }
    }

    /// Returns the path of the file, as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder of the file, the base of its relative paths.
    pub fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// Deserializes the file into plain data.
    ///
    /// # Errors
    /// Fails if the file is not valid TOML, contains an unknown key, or has a value of the wrong
    /// type.
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

    /// Deserializes a table, ignoring the keys `others`. Missing keys take their values from
    /// `default`.
    ///
    /// # Errors
    /// Fails if the table contains an unknown key or a value of the wrong type.
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

    /// Returns the keys of a table in file order; empty if the table does not exist.
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

    /// Creates an error for an invalid value.
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

    /// Creates an error for a missing key or table.
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

    /// Creates an error for an unknown key. `known` lists the valid keys.
    pub fn unknown_key(&self, path: &[&str], known: &[&str]) -> FileError {
        unknown(self.place(path), path, known.iter().map(|key| (*key).to_owned()).collect())
    }

    /// Creates an error for the entry at `path`, with a custom message.
    pub fn error(&self, path: &[&str], message: impl Into<String>) -> FileError {
        FileError::Invalid { place: self.place(path), message: message.into() }
    }

    /// Returns the line number of a key, counted from 1; `None` if the file does not contain the
    /// key.
    pub fn line_of(&self, path: &[&str]) -> Option<usize> {
        let (key, _) = self.span_of(path)?;
        self.place_at(&key).line
    }

    /// Returns the location of `path`, or of its innermost existing table.
    fn place(&self, path: &[&str]) -> Place {
        let found = (0..path.len()).rev().find_map(|end| self.span_of(&path[..=end]));
        match found {
            Some((key, _)) => self.place_at(&key),
            None => Place { path: self.path.as_path().into(), line: None, excerpt: None },
        }
    }

    /// Returns the spans of a key and its value.
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

    /// Converts a serde error into an error of this crate.
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
            // A header such as [spice.x] covers tables that belong to an unknown table.
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

/// Creates an error for an unknown key. Distinguishes tables that only study files have from
/// misspelt tables.
fn unknown(place: Place, path: &[&str], known: Vec<String>) -> FileError {
    if let [table @ ("objectives" | "constraints")] = path {
        let message = format!(
            "[[{table}]] is only for study files (fedbo tune), because this file has one objective without constraints; remove it"
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

/// Rewrites serde's description of an expected type for readers who do not know Rust.
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

/// Formats a path of steps, for example `agents[0].silo`.
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

/// Returns the first line of a value, truncated if it is long.
pub(crate) fn shown(text: &str) -> String {
    cut(text, 0)
}

/// Returns excerpts of two differing strings. An excerpt starts shortly before the first difference
/// if the difference would otherwise be cut off.
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

/// Returns the first line of a string after `n_skipped` characters, truncated if it is long.
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

/// Returns the path of the key or value at byte `at` of the text.
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
