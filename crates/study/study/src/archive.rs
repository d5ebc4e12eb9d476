//! `[archive]`: a study that begins where a federation ended, with what that one released.

use std::path::{Path, PathBuf};

use fedbo_config::{ArchiveError, FileError, ReleaseArchive, TomlFile};
use fedbo_space::{Parameter, Space};
use fedbo_strategies::{FromArchive, LocalProb, Maximizer, Strategy, StrategyError};
use serde::{Deserialize, Serialize};

use crate::{Definition, StudyError};

/// The table: plain data, not yet checked.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ArchiveTable {
    file: Option<PathBuf>,
}

/// The archive that a study's file names. Nothing of it has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveFile {
    /// As the file names it.
    pub text: String,
    path: PathBuf,
}

/// An archive that a study begins with, whole: the study never reads the file again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveSpec {
    /// The file that it was read from, as the study's own file names it.
    pub source: String,
    /// The content of that file.
    pub archive: ReleaseArchive,
}

/// The reason why a study cannot begin with an archive.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ArchiveMisfit {
    /// The file cannot be used.
    #[error("[archive] file: {0}")]
    Unreadable(#[from] ArchiveError),
    /// The federation had the other direction.
    #[error(
        "[archive] file: federation {federation:?} was to {theirs}, this study is to {ours}; its values mean the opposite here"
    )]
    Direction {
        /// The federation.
        federation: String,
        /// Its direction.
        theirs: String,
        /// This study's.
        ours: String,
    },
    /// The federation had another space.
    #[error(
        "[archive] file: federation {federation:?} had another space: {}; what it released means nothing elsewhere: declare its \
         parameters in its order",
        differences.join("; ")
    )]
    Space {
        /// The federation.
        federation: String,
        /// One entry for each parameter that differs.
        differences: Vec<String>,
    },
    /// The content of the archive cannot be used.
    #[error("[archive] file: {0}")]
    Contents(StrategyError),
}

impl ArchiveTable {
    pub(crate) fn validate(&self, file: &TomlFile) -> Result<ArchiveFile, FileError> {
        match &self.file {
            None => {
                let remedy = "add file = \"...\", the archive that a federation published";
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
    /// If it cannot be read or is none.
    pub fn read(&self) -> Result<ArchiveSpec, ArchiveMisfit> {
        ArchiveSpec::read(&self.path).map(|spec| ArchiveSpec { source: self.text.clone(), ..spec })
    }
}

impl ArchiveSpec {
    /// Reads an archive.
    ///
    /// # Errors
    /// If it cannot be read or is none.
    pub fn read(path: &Path) -> Result<Self, ArchiveMisfit> {
        Ok(Self { source: path.display().to_string(), archive: ReleaseArchive::read(path)? })
    }

    /// A strategy that asks the archive with probability s/t in step t, s its share of signal, and `then` otherwise.
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
        Ok(Box::new(strategy.map_err(ArchiveMisfit::Contents)?))
    }

    /// Checks that the federation's space and direction are the study's.
    fn check(&self, definition: &Definition, space: &Space) -> Result<(), ArchiveMisfit> {
        let federation = self.archive.federation.clone();
        if self.archive.direction != definition.direction {
            return Err(ArchiveMisfit::Direction {
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
            false => Err(ArchiveMisfit::Space { federation, differences }),
        }
    }
}

/// Parameters that are not the same in both, one by one.
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
            (Some(its), None) => differences.push(format!("{:?} is missing here", its.name())),
            (None, Some(own)) => differences.push(format!("{:?} is missing there", own.name())),
            _ => {}
        }
    }
    differences
}
