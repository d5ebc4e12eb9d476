//! The keys that differ between a stored description and a file that may have changed since.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use fedbo_space::{ParameterSpec, Value};
use serde::Serialize;

use crate::toml_file::{TomlFile, differing_excerpts, format_key_path, shown};

/// Maximum number of changed keys that a message lists. The rest are only counted.
const NAMED: usize = 3;

/// The content of a description, key by key, in the notation of the file.
///
/// A key that is missing from one of the two descriptions is not compared. A table of named entries
/// comes before their keys, and its value is the list of their names. A key that a file omits has
/// no value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keys(Vec<Entry>);

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    key: String,
    path: Vec<String>,
    value: Option<String>,
}

impl Keys {
    /// Adds a key at its path, with its value as written in a file.
    pub fn push<V: Serialize>(&mut self, path: &[&str], value: V) {
        self.push_as(&format_key_path(path), path, value);
    }

    /// Same as [`Keys::push`], for a key whose name in messages differs from its path. For example,
    /// messages identify a player by its name.
    pub fn push_as<V: Serialize>(&mut self, key: &str, path: &[&str], value: V) {
        let value = serde_json::to_value(value).unwrap_or_default();
        self.0.push(Entry {
            key: key.to_owned(),
            path: path.iter().map(|step| (*step).to_owned()).collect(),
            value: (!value.is_null()).then(|| value.to_string()),
        });
    }

    /// Adds the keys of a parameter's table. Keys with their default value count as absent.
    pub fn push_parameter(&mut self, key: &str, path: &[&str], spec: &ParameterSpec) {
        let is_int = spec.kind == "int";
        let number = |number: Option<f64>| {
            number.map(|number| match is_int && number.fract() == 0.0 {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "bounds of whole numbers lie within ±2^53"
                )]
                true => Value::Int(number as i64),
                false => Value::Float(number),
            })
        };
        let mut push = |name: &str, value: Option<serde_json::Value>| {
            let path = [path, &[name]].concat();
            self.push_as(&format!("{key}.{name}"), &path, value);
        };
        let json = |value: Option<Value>| value.and_then(|value| serde_json::to_value(value).ok());
        push("type", Some(spec.kind.clone().into()));
        push("low", json(number(spec.low)));
        push("high", json(number(spec.high)));
        push("log", spec.log.filter(|log| *log).map(Into::into));
        let step = spec.step.filter(|step| !is_int || *step > 1.0);
        push("step", json(number(step)));
        push("choices", serde_json::to_value(&spec.choices).ok());
    }
}

impl Keys {
    /// Returns the keys of unvalidated tables.
    ///
    /// Whole numbers are equal with and without a decimal point. Tables in a list are addressed by
    /// their names.
    fn of_tables(tables: &serde_json::Value) -> Self {
        let mut keys = Self::default();
        keys.push_tables("", &[], tables);
        keys
    }

    fn push_tables(&mut self, key: &str, path: &[&str], value: &serde_json::Value) {
        let under = |step: &str| match key {
            "" => step.to_owned(),
            key => format!("{key}.{step}"),
        };
        match value {
            serde_json::Value::Object(table) => {
                for (step, value) in table {
                    self.push_tables(&under(step), &[path, &[step]].concat(), value);
                }
            }
            serde_json::Value::Array(list) => {
                let names: Option<Vec<&str>> =
                    list.iter().map(|each| each["name"].as_str()).collect();
                match names.filter(|names| !names.is_empty()) {
                    None => self.push_as(key, path, same_form(value)),
                    Some(names) => {
                        self.push_as(key, path, &names);
                        for (index, (name, table)) in names.iter().zip(list).enumerate() {
                            let index = index.to_string();
                            self.push_tables(&under(name), &[path, &[&index]].concat(), table);
                        }
                    }
                }
            }
            leaf => self.push_as(key, path, same_form(leaf)),
        }
    }

    /// Adds the keys of another description, without values.
    fn pad(&mut self, other: &Self) {
        let known: BTreeSet<String> = self.0.iter().map(|entry| entry.key.clone()).collect();
        let missing = other.0.iter().filter(|entry| !known.contains(&entry.key));
        let missing = missing.map(|entry| Entry { value: None, ..entry.clone() });
        self.0.extend(missing);
    }
}

/// Normalizes a value, so that different notations of it compare equal.
fn same_form(value: &serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Number(number) => {
            let whole =
                number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e15);
            #[expect(clippy::cast_possible_truncation, reason = "whole, and below 10^15")]
            whole.map_or_else(|| value.clone(), |whole| (whole as i64).into())
        }
        serde_json::Value::Array(list) => list.iter().map(same_form).collect(),
        other => other.clone(),
    }
}

/// A key that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key, including its parent tables.
    pub key: String,
    /// The stored value, if any.
    pub stored: Option<String>,
    /// The given value, if any.
    pub given: Option<String>,
    path: Vec<String>,
    line: Option<usize>,
}

/// The differing keys of a stored and a given description. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Name of the stored description in messages, with an article: `the stored study`.
    stored_in: &'static str,
    file: Option<PathBuf>,
    all: Vec<Change>,
}

impl Changes {
    /// Returns the differing keys in the order of `stored`, or `None` if there are none.
    ///
    /// `stored_in` is the name of the stored description, with an article.
    pub fn between(stored: &Keys, given: &Keys, stored_in: &'static str) -> Option<Self> {
        let by_key: BTreeMap<&str, &Entry> =
            given.0.iter().map(|entry| (entry.key.as_str(), entry)).collect();
        let differing = stored.0.iter().filter_map(|stored| {
            let given = by_key.get(stored.key.as_str())?;
            (stored.value != given.value).then(|| Change {
                key: stored.key.clone(),
                stored: stored.value.clone(),
                given: given.value.clone(),
                path: given.path.clone(),
                line: None,
            })
        });
        let all: Vec<Change> = differing.collect();
        (!all.is_empty()).then_some(Self { stored_in, file: None, all })
    }

    /// Compares two parsed files before validation, including keys that only one of them has.
    pub fn between_tables(
        stored: &serde_json::Value,
        given: &serde_json::Value,
        stored_in: &'static str,
    ) -> Option<Self> {
        let (mut stored, mut given) = (Keys::of_tables(stored), Keys::of_tables(given));
        stored.pad(&given);
        given.pad(&stored);
        Self::between(&stored, &given, stored_in)
    }

    /// Creates a set with one changed key, whose values are already formatted for display.
    pub fn of_key(
        path: &[&str],
        stored: Option<String>,
        given: Option<String>,
        stored_in: &'static str,
    ) -> Self {
        Self {
            stored_in,
            file: None,
            all: vec![Change {
                key: format_key_path(path),
                stored,
                given,
                path: path.iter().map(|step| (*step).to_owned()).collect(),
                line: None,
            }],
        }
    }

    /// Adds the line numbers of the file that contains the given description.
    #[must_use]
    pub fn located(mut self, file: &TomlFile) -> Self {
        for change in &mut self.all {
            let path: Vec<&str> = change.path.iter().map(String::as_str).collect();
            change.line = file.line_of(&path);
        }
        self.file = Some(file.path().to_owned());
        self
    }

    /// Returns the keys that differ.
    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.all.iter()
    }
}

impl fmt::Display for Changes {
    /// Formats `space.lr.high is 0.1 in study.toml:14, the stored study has 0.2; ...`, limited to
    /// the first keys if there are many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, change) in self.all.iter().take(NAMED).enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            let file = match (&self.file, change.line) {
                (Some(file), Some(line)) => format!("{}:{line}", file.display()),
                (Some(file), None) => file.display().to_string(),
                (None, _) => "the given settings".to_owned(),
            };
            let (given, stored) = match (&change.given, &change.stored) {
                (Some(given), Some(stored)) => {
                    let [given, stored] = differing_excerpts(given, stored);
                    (Some(given), Some(stored))
                }
                (given, stored) => (given.as_deref().map(shown), stored.as_deref().map(shown)),
            };
            match given {
                Some(given) => write!(f, "{} is {given} in {file}", change.key)?,
                None => write!(f, "{} is not set in {file}", change.key)?,
            }
            match stored {
                Some(stored) => write!(f, ", {} has {stored}", self.stored_in)?,
                None => write!(f, ", {} has none", self.stored_in)?,
            }
        }
        match self.all.len().saturating_sub(NAMED) {
            0 => Ok(()),
            1 => f.write_str("; and another key differs"),
            n => write!(f, "; and {n} other keys differ"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn keys(specs: &[(&str, ParameterSpec)]) -> Keys {
        let mut keys = Keys::default();
        let names: Vec<&str> = specs.iter().map(|(name, _)| *name).collect();
        keys.push(&["space"], &names);
        for (name, spec) in specs {
            keys.push_parameter(&format!("space.{name}"), &["space", name], spec);
        }
        keys
    }

    #[test]
    fn a_changed_bound_is_named_with_its_line_and_both_values() {
        let text = "[space.lr]\ntype = \"float\"\nlow = 0.0\nhigh = 0.1\n\n[space.n]\ntype = \"int\"\nlow = 1\nhigh = 9\n";
        let file = TomlFile::from_text(Path::new("study.toml"), text);
        let given = [("lr", ParameterSpec::float(0.0, 0.1)), ("n", ParameterSpec::int(1, 9))];
        let stored = [
            ("lr", ParameterSpec::float(0.0, 0.2)),
            ("n", ParameterSpec::int(1, 9).with_step(2.0)),
        ];
        let changes = Changes::between(&keys(&stored), &keys(&given), "the stored study");
        let changes = changes.expect("two keys").located(&file);
        assert_eq!(
            changes.to_string(),
            "space.lr.high is 0.1 in study.toml:4, the stored study has 0.2; space.n.step is not set in study.toml, the \
             stored study has 2"
        );
        assert_eq!(Changes::between(&keys(&stored), &keys(&stored), "it"), None);
    }

    #[test]
    fn a_parameter_that_came_or_went_is_named_once() {
        let one = [("a", ParameterSpec::float(0.0, 1.0))];
        let two = [("a", ParameterSpec::float(0.0, 1.0)), ("b", ParameterSpec::int(0, 3))];
        let changes = Changes::between(&keys(&one), &keys(&two), "the stored study").unwrap();
        assert_eq!(
            changes.to_string(),
            "space is [\"a\",\"b\"] in the given settings, the stored study has [\"a\"]"
        );
    }

    #[test]
    fn long_values_are_shown_where_they_differ() {
        let list = |last: &str| {
            let mut choices: Vec<String> = (0..30).map(|i| format!("choice-{i}")).collect();
            choices.push(last.to_owned());
            serde_json::json!({ "choices": choices })
        };
        let changes = Changes::between_tables(&list("old"), &list("new"), "the run there");
        let text = changes.expect("one key").to_string();
        assert!(text.contains("new\"]") && text.contains("old\"]"), "{text}");
        assert!(text.contains("choices is …") && text.contains("has …"), "{text}");
    }

    #[test]
    fn what_is_the_default_and_a_step_of_one_differ_from_nothing_in_name_alone() {
        let mut said = ParameterSpec::int(0, 9).with_step(1.0);
        said.log = Some(false);
        let (said, unsaid) = ([("a", said)], [("a", ParameterSpec::int(0, 9))]);
        assert_eq!(Changes::between(&keys(&said), &keys(&unsaid), "it"), None);
    }

    #[test]
    fn tables_that_nobody_checked_are_compared_key_by_key() {
        let read = |text: &str| -> serde_json::Value {
            let file = TomlFile::from_text(Path::new("f.toml"), text);
            file.parse().unwrap()
        };
        let agents = "[[agents]]\nname = \"a\"\nx = 1\n[[agents]]\nname = \"b\"\n";
        let stored = read(&format!("[federation]\nseed = 3\nlow = 0\n{agents}"));
        let same = read(&format!("[federation]\nlow = 0.0\nseed = 3\n{agents}"));
        assert_eq!(Changes::between_tables(&stored, &same, "it"), None);
        let text = "[federation]\nseed = 4\nlow = 0\n[fts]\np = [0.5, 1]\n[[agents]]\nname = \"a\"\n[[agents]]\nname = \"b\"\n";
        let file = TomlFile::from_text(Path::new("f.toml"), text);
        let changes = Changes::between_tables(&stored, &read(text), "the run").unwrap();
        assert_eq!(
            changes.located(&file).to_string(),
            "agents.a.x is not set in f.toml, the run has 1; federation.seed is 4 in f.toml:2, the run has 3; fts.p is \
             [0.5,1] in f.toml:5, the run has none"
        );
    }

    #[test]
    fn of_many_changed_keys_the_first_are_named() {
        let many = |seed: u32| {
            let mut keys = Keys::default();
            for index in 0..6 {
                keys.push(&["t", &format!("k{index}")], seed + index);
            }
            keys
        };
        let changes = Changes::between(&many(0), &many(1), "it").unwrap();
        assert!(changes.to_string().ends_with("; and 3 other keys differ"));
        assert_eq!(changes.iter().count(), 6);
    }
}
