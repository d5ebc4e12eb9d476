//! The `[archive]` table: starts a study from a finished federation's releases.

use std::path::{Path, PathBuf};

use fedbo_config::{ArchiveError, FileError, ReleaseArchive, TomlFile};
use fedbo_space::{Parameter, Space};
use fedbo_strategies::{FromArchive, LocalProb, Maximizer, Strategy, StrategyError};
use serde::{Deserialize, Serialize};

use crate::{Definition, StudyError};

/// The raw table, before validation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ArchiveTable {
    file: Option<PathBuf>,
}

/// The archive named in a study file, not yet read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveFile {
    /// The path as written in the file.
    pub text: String,
    path: PathBuf,
}

/// The archive that a study starts from. It is stored with the study, so the file is read only
/// once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveSpec {
    /// The archive's path, as written in the study file.
    pub source: String,
    /// The content of the archive.
    pub archive: ReleaseArchive,
}

/// Error returned if a study cannot start from an archive.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ArchiveMismatch {
    /// The file is unusable.
    #[error("[archive] file: {0}")]
    Unreadable(#[from] ArchiveError),
    /// The federation had the opposite direction.
    #[error(
        "[archive] file: federation {federation:?} was set to {theirs}, this study is set to {ours}; its values have the opposite meaning here"
    )]
    Direction {
        /// Name of the federation.
        federation: String,
        /// The federation's direction.
        theirs: String,
        /// The study's direction.
        ours: String,
    },
    /// The federation's space differs from the study's.
    #[error(
        "[archive] file: federation {federation:?} had a different space: {}; its releases are valid only in its own space: \
         declare its parameters in the same order",
        differences.join("; ")
    )]
    Space {
        /// Name of the federation.
        federation: String,
        /// One entry per parameter that differs.
        differences: Vec<String>,
    },
    /// The archive's content is unusable.
    #[error("[archive] file: {0}")]
    Contents(StrategyError),
}

impl ArchiveTable {
    pub(crate) fn validate(&self, file: &TomlFile) -> Result<ArchiveFile, FileError> {
        match &self.file {
            None => {
                let remedy = "add file = \"...\", the archive published by a federation";
                Err(file.missing_error(&["archive", "file"], remedy))
            }
            Some(path) => {
                Ok(ArchiveFile { text: path.display().to_string(), path: file.folder().join(path) })
            }
        }
    }
}

impl ArchiveFile {
    /// Reads the archive.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not an archive.
    pub fn read(&self) -> Result<ArchiveSpec, ArchiveMismatch> {
        ArchiveSpec::read(&self.path).map(|spec| ArchiveSpec { source: self.text.clone(), ..spec })
    }
}

impl ArchiveSpec {
    /// Reads an archive.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not an archive.
    pub fn read(path: &Path) -> Result<Self, ArchiveMismatch> {
        Ok(Self { source: path.display().to_string(), archive: ReleaseArchive::read(path)? })
    }

    /// Wraps the strategy `then`. Step t queries the archive with probability s/t, where s is the
    /// archive's share of signal, and `then` otherwise.
    pub(crate) fn before(
        &self,
        definition: &Definition,
        space: &Space,
        then: Box<dyn Strategy>,
    ) -> Result<Box<dyn Strategy>, StudyError> {
        self.check(definition, space)?;
        let maximizer = Maximizer::of_acquisition(space.dim());
        let function = &self.archive.function;
        let strategy = FromArchive::new(space, function, then, LocalProb::Power(1.0), maximizer);
        Ok(Box::new(strategy.map_err(ArchiveMismatch::Contents)?))
    }

    /// Checks that the federation's space and direction match the study's.
    fn check(&self, definition: &Definition, space: &Space) -> Result<(), ArchiveMismatch> {
        let federation = self.archive.federation.clone();
        if self.archive.direction != definition.direction {
            return Err(ArchiveMismatch::Direction {
                federation,
                theirs: self.archive.direction.to_string(),
                ours: definition.direction.to_string(),
            });
        }
        let theirs = self.archive.space.iter();
        let theirs = Space::from_specs(theirs.map(|each| (each.name.as_str(), &each.spec)));
        let differences = match &theirs {
            Ok(theirs) => differences(theirs.parameters(), space.parameters()),
            Err(error) => vec![error.to_string()],
        };
        match differences.is_empty() {
            true => Ok(()),
            false => Err(ArchiveMismatch::Space { federation, differences }),
        }
    }
}

/// Describes each parameter that differs.
fn differences(theirs: &[Parameter], ours: &[Parameter]) -> Vec<String> {
    let shown = |parameter: &Parameter| {
        let is_log = parameter.to_spec().log == Some(true);
        let scale = if is_log { ", log" } else { "" };
        format!("{}{scale}", parameter.kind())
    };
    let mut differences = Vec::new();
    for index in 0..theirs.len().max(ours.len()) {
        match (theirs.get(index), ours.get(index)) {
            (Some(its), Some(own)) if its.name() != own.name() => differences.push(format!(
                "parameter {} is {:?} there and {:?} here",
                index + 1,
                its.name(),
                own.name()
            )),
            (Some(its), Some(own)) if its.kind() != own.kind() => differences.push(format!(
                "{:?} is {} there and {} here",
                own.name(),
                shown(its),
                shown(own)
            )),
            (Some(its), Some(own)) if its.when() != own.when() => {
                differences.push(format!("{:?} has another condition (when) here", own.name()));
            }
            (Some(its), None) => differences.push(format!("{:?} is missing here", its.name())),
            (None, Some(own)) => differences.push(format!("{:?} is missing there", own.name())),
            _ => {}
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use fedbo_space::ParameterSpec;

    use super::*;

    #[test]
    fn a_condition_is_a_difference() {
        let kind = Parameter::from_spec("kind", &ParameterSpec::categorical(["a", "b"])).unwrap();
        let x = ParameterSpec::float(0.0, 1.0);
        let always = [kind.clone(), Parameter::from_spec("x", &x).unwrap()];
        let sometimes = [kind, Parameter::from_spec("x", &x.when("kind", "b")).unwrap()];
        assert!(differences(&sometimes, &sometimes).is_empty());
        let found = differences(&always, &sometimes);
        assert_eq!(found, ["\"x\" has another condition (when) here"]);
    }
}
