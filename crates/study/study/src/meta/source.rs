//! The source of an old study: its storage, or a CSV file of its trials.

use std::path::{Path, PathBuf};

use fedbo_space::{Direction, Space, Value};
use fedbo_storage::{Address, Mode, StorageError, Told, TrialState};
use fedbo_streams::Seed;

use super::fit::Fitting;
use super::{LeftOut, MetaError, MetaSettings, OldStudy};
use crate::trial_table::TrialTable;
use crate::{Study, StudyError};

/// An old study named in `[meta] studies`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSource {
    /// The source as written in the file, without a password.
    text: String,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A storage, and the study's name if the storage has more than one study.
    Storage(Address, Option<String>),
    Csv(PathBuf),
}

impl OldSource {
    /// Returns true if both refer to the same storage or file.
    pub(super) fn is_in_same_storage(&self, other: &Self) -> bool {
        match (&self.place, &other.place) {
            (Place::Storage(one, _), Place::Storage(other, _)) => is_same(one, other),
            (Place::Csv(one), Place::Csv(other)) => {
                matches!((one.canonicalize(), other.canonicalize()), (Ok(a), Ok(b)) if a == b)
            }
            _ => false,
        }
    }
}

/// The trials of an old study, before conversion to a new space.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OldTrials {
    pub(super) name: String,
    pub(super) direction: Option<Direction>,
    /// The space; `None` for a CSV file, which does not contain it.
    pub(super) space: Option<Space>,
    pub(super) noisy: bool,
    /// Names of the parameters.
    pub(super) parameters: Vec<String>,
    /// Trials with a finite value, in completion order or in the row order of the CSV file.
    /// Parameter values are strings.
    pub(super) rows: Vec<(Vec<String>, f64)>,
    pub(super) left_out: Vec<LeftOut>,
}

impl OldSource {
    /// Parses the source of an old study. Relative paths are relative to `folder`.
    ///
    /// # Errors
    /// Returns a description of the expected format.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let path = Path::new(text);
        let is_csv = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"));
        if is_csv && text.parse::<Address>().is_err() {
            return Ok(Self { text: text.to_owned(), place: Place::Csv(folder.join(path)) });
        }
        let (address, name) = match text.rsplit_once('#') {
            Some((address, name)) if !name.is_empty() => (address, Some(name.to_owned())),
            _ => (text, None),
        };
        let expected = |hint: &str| {
            format!(
                "\"sqlite:FILE\" or \"postgresql://USER@HOST/DATABASE\", followed by #STUDY if it holds several, or \"FILE.csv\" as \
                 fedbo export writes it{hint}"
            )
        };
        match address.parse::<Address>() {
            Ok(Address::Memory) => Err(expected("")),
            Ok(address) => Ok(Self {
                text: match &name {
                    Some(name) => format!("{address}#{name}"),
                    None => address.to_string(),
                },
                place: Place::Storage(address.relative_to(folder), name),
            }),
            Err(StorageError::Address { hint, .. }) => Err(expected(&hint)),
            Err(other) => Err(other.to_string()),
        }
    }

    /// Returns the source as written in the file, without a password.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Reads all trials as points of a space with the same parameters, for a federation's agent
    /// that evaluated them earlier.
    ///
    /// # Errors
    /// Returns the reason why the trials are unusable.
    pub fn observations(&self, space: &Space, direction: Direction) -> Result<OldStudy, String> {
        let settings = MetaSettings { trials_max: usize::MAX, ..MetaSettings::default() };
        // The seed is unused: values are spread only if the spaces differ, and this case is
        // rejected.
        let fitting = Fitting { space, direction, seed: Seed::new(0), settings: &settings };
        let read = self.read((&Address::Memory, ""));
        let fitted = read.and_then(|old| fitting.fit(old, 0, self.text()));
        fitted.map_err(|error| match error {
            MetaError::Unreadable { message, .. } => format!("it cannot be read: {message}"),
            MetaError::Csv { line: Some(line), message, .. } => format!("line {line}: {message}"),
            MetaError::Csv { line: None, message, .. } => message,
            MetaError::Direction { theirs, ours, .. } => format!(
                "it is set to {theirs}, and the federation to {ours}; export it with fedbo export, change the sign of its values \
                 and name the CSV"
            ),
            MetaError::Space { differences, .. } => {
                format!("it has a different space: {}", differences.join("; "))
            }
            MetaError::NothingShared { .. } => {
                "it has no parameter of the federation; name a study or table with the same parameters".to_owned()
            }
            MetaError::NoTrial { why, .. } => {
                format!("it has no trial with a value in the federation's space: {why}")
            }
            other => other.to_string(),
        })
    }

    /// Reads the trials. `own` is the storage and the name of the new study.
    pub(super) fn read(&self, own: (&Address, &str)) -> Result<OldTrials, MetaError> {
        match &self.place {
            Place::Csv(path) => self.read_csv(path),
            Place::Storage(address, name) => self.read_stored(address, name.as_deref(), own),
        }
    }

    fn read_csv(&self, path: &Path) -> Result<OldTrials, MetaError> {
        let bytes = std::fs::read(path).map_err(|error| MetaError::Unreadable {
            source_text: self.text.clone(),
            message: error.to_string(),
        })?;
        let table = TrialTable::parse(&bytes, &["value"]).map_err(|defect| MetaError::Csv {
            source_text: self.text.clone(),
            line: defect.line,
            message: defect.message,
        })?;
        Ok(OldTrials {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            direction: table.direction,
            space: None,
            noisy: false,
            rows: table
                .rows
                .iter()
                .map(|row| (table.canonical(&row.texts), row.numbers[0]))
                .collect(),
            parameters: table.columns.into_iter().map(|each| each.parameter).collect(),
            left_out: table.left_out,
        })
    }

    fn read_stored(
        &self,
        address: &Address,
        name: Option<&str>,
        own: (&Address, &str),
    ) -> Result<OldTrials, MetaError> {
        let unreadable = |error: StudyError| {
            let way = match &error {
                StudyError::AmbiguousStudy { .. } => {
                    format!("; write {:?}", format!("{}#STUDY", self.text))
                }
                _ => String::new(),
            };
            MetaError::Unreadable {
                source_text: self.text.clone(),
                message: format!("{error}{way}"),
            }
        };
        let itself = || MetaError::Itself { source_text: self.text.clone() };
        let is_own_place = is_same(address, own.0);
        if is_own_place && name == Some(own.1) {
            return Err(itself());
        }
        let storage = fedbo_storage::open(address, Mode::Existing);
        let storage = storage.map_err(|error| unreadable(error.into()))?;
        let study = Study::load(storage, name).map_err(unreadable)?;
        let definition = study.definition();
        if is_own_place && definition.name == own.1 {
            return Err(itself());
        }
        if let Some(table) = definition.outcomes_table() {
            return Err(MetaError::Unreadable {
                source_text: self.text.clone(),
                message: format!(
                    "it has {table}, but [meta] learns only from studies with one objective"
                ),
            });
        }
        let mut trials = study.trials().map_err(unreadable)?;
        trials.sort_by_key(|trial| trial.told_seq);
        let count =
            |of: &dyn Fn(&TrialState) -> bool| trials.iter().filter(|t| of(&t.state)).count();
        let left_out = LeftOut::of_counts([
            (count(&|state| matches!(state, TrialState::Told(Told::Failed { .. }))), "failed"),
            (
                count(&|state| matches!(state, TrialState::Told(Told::Stopped { .. }))),
                "stopped early",
            ),
            (count(&|state| !matches!(state, TrialState::Told(_))), "not finished"),
            (count(&|state| matches!(state, TrialState::Told(Told::Discarded))), "discarded"),
        ]);
        let space = study.space();
        let rows = trials.iter().filter_map(|trial| {
            let texts = space.parameters().iter().map(|parameter| {
                let value = trial.point.get(parameter.name());
                value.map_or_else(String::new, Value::to_string)
            });
            Some((texts.collect(), trial.value().filter(|v| v.is_finite())?))
        });
        Ok(OldTrials {
            name: definition.name.clone(),
            direction: Some(definition.direction),
            noisy: definition.noisy,
            parameters: space
                .parameters()
                .iter()
                .map(|parameter| parameter.name().to_owned())
                .collect(),
            rows: rows.collect(),
            left_out,
            space: Some(space.clone()),
        })
    }
}

/// Returns true if both are the same storage.
fn is_same(one: &Address, other: &Address) -> bool {
    match (one, other) {
        (Address::Sqlite(one), Address::Sqlite(other)) => {
            one == other
                || matches!((one.canonicalize(), other.canonicalize()), (Ok(a), Ok(b)) if a == b)
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_a_storage_a_study_in_it_or_a_table() {
        let folder = Path::new("/data");
        let parse = |text: &str| OldSource::parse(text, folder).map(|source| source.place);
        let sqlite = |path: &str| Address::Sqlite(path.into());
        let cases = [
            ("sqlite:a.db", Place::Storage(sqlite("/data/a.db"), None)),
            ("sqlite:a.db#lr 2025", Place::Storage(sqlite("/data/a.db"), Some("lr 2025".into()))),
            ("sqlite:a#b.db#x", Place::Storage(sqlite("/data/a#b.db"), Some("x".into()))),
            ("sqlite:a.csv", Place::Storage(sqlite("/data/a.csv"), None)),
            ("a.CSV", Place::Csv("/data/a.CSV".into())),
            ("/b/a.csv", Place::Csv("/b/a.csv".into())),
        ];
        for (text, place) in cases {
            assert_eq!(parse(text), Ok(place), "{text}");
        }
        for text in ["a.db", "memory:", "", "#x", "study.toml"] {
            assert!(parse(text).unwrap_err().contains("sqlite:FILE"), "{text}");
        }
        assert!(parse("a.db").unwrap_err().contains("did you mean \"sqlite:a.db\"?"));
    }

    #[test]
    fn a_table_with_semicolons_is_read_with_its_decimal_commas() {
        let folder = tempfile::tempdir().unwrap();
        let text = "x;kind;value\n0,5;a, b;2,25\n";
        std::fs::write(folder.path().join("old.csv"), text).unwrap();
        let source = OldSource::parse("old.csv", folder.path()).unwrap();
        let old = source.read((&Address::Memory, "")).unwrap();
        let row = (vec!["0.5".to_owned(), "a, b".to_owned()], 2.25);
        assert_eq!(
            (old.parameters, old.rows),
            (vec!["x".to_owned(), "kind".to_owned()], vec![row])
        );
    }

    #[test]
    fn a_password_is_not_kept_in_the_text() {
        let text = "postgresql://me:secret@localhost/db#lr";
        let source = OldSource::parse(text, Path::new(".")).unwrap();
        assert!(!source.text().contains("secret"), "{}", source.text());
        assert!(source.text().ends_with("/db#lr"));
    }
}
