//! Opens the study that a file describes: the stored one, or a new one.

use fedbo_config::Changes;
use fedbo_storage::{Mode, StorageError};
use fedbo_strategies::Registered;
use serde::de::DeserializeOwned;

use crate::definition::STORED;
use crate::{ArchiveFile, Definition, OldStudy, Study, StudyError, StudyFile};

impl StudyFile {
    /// Returns the definition of a new study. Reads the old studies that it learns from.
    ///
    /// # Errors
    /// Fails if an old study cannot be used.
    pub fn read_definition(&self) -> Result<Definition, StudyError> {
        let studies = match &self.meta {
            None => Vec::new(),
            Some(meta) => meta.read(&self.definition, &self.space, &self.storage)?,
        };
        let archive = self.archive.as_ref().map(ArchiveFile::read).transpose()?;
        Ok(Definition { archive, ..self.definition_with(studies) })
    }

    fn definition_with(&self, studies: Vec<OldStudy>) -> Definition {
        Definition {
            meta: self.meta.as_ref().map(|meta| meta.with(studies)),
            ..self.definition.clone()
        }
    }

    /// Returns the keys that differ between the file and the stored study, with their lines.
    ///
    /// Trials of old studies are not compared. The stored trials are used even if the old studies
    /// have changed.
    pub fn difference(&self, stored: &Definition) -> Option<StudyError> {
        self.changes(stored).map(|differs| self.located(differs))
    }

    /// Adds the line numbers of this file to an error.
    fn located(&self, error: StudyError) -> StudyError {
        match error {
            StudyError::Differs { name, changes } => {
                StudyError::Differs { name, changes: Box::new(changes.located(&self.source)) }
            }
            other => other,
        }
    }

    fn changes(&self, stored: &Definition) -> Option<StudyError> {
        let studies = match (&self.meta, &stored.meta) {
            (Some(given), Some(stored)) => {
                let given = given.sources.iter();
                let unread = given.map(|source| OldStudy::without_trials(source.text()));
                let mut unread: Vec<OldStudy> = unread.collect();
                for (unread, stored) in unread.iter_mut().zip(&stored.studies) {
                    if unread.source == stored.source {
                        *unread = stored.clone();
                    }
                }
                unread
            }
            (Some(given), None) => {
                let given = given.sources.iter();
                given.map(|source| OldStudy::without_trials(source.text())).collect()
            }
            (None, _) => Vec::new(),
        };
        let (given, kept) = (self.archive.as_ref(), stored.archive.as_ref());
        let (given, kept) = (given.map(|a| &a.text), kept.map(|a| &a.source));
        if given != kept {
            let shown = |source: Option<&String>| source.map(|source| format!("{source:?}"));
            let (kept, given) = (shown(kept), shown(given));
            let changes = Changes::of_key(&["archive", "file"], kept, given, STORED);
            return Some(StudyError::Differs {
                name: stored.name.clone(),
                changes: Box::new(changes),
            });
        }
        let mut given =
            Definition { archive: stored.archive.clone(), ..self.definition_with(studies) };
        // The default differs in versions that counted coordinates.
        if !self.source.keys_in_order(&["study"]).iter().any(|each| each == "initial") {
            given.n_initial = stored.n_initial;
        }
        for key in ["output_transform", "search", "augmented"] {
            self.keep(["strategy", key], &mut given.strategy, &stored.strategy);
        }
        if let (Some(given), Some(stored)) = (&mut given.early_stopping, &stored.early_stopping) {
            self.keep(["early_stopping", "expected_end"], &mut given.rule, &stored.rule);
        }
        stored.difference(&given)
    }

    /// Keeps a stored option that is absent from the file, since its default may have been
    /// different when the study was created.
    fn keep<E: Registered + DeserializeOwned>(
        &self,
        [table, key]: [&str; 2],
        given: &mut E,
        stored: &E,
    ) {
        let is_given = self.source.keys_in_order(&[table]).iter().any(|each| each == key);
        if is_given || given.name() != stored.name() {
            return;
        }
        if let (Ok(mut kept), Some(value)) = (serde_json::to_value(*given), stored.value(key)) {
            kept[key] = value;
            *given = serde_json::from_value(kept).unwrap_or(*given);
        }
    }

    /// Resumes the stored study, or creates it. Old studies are read only on creation.
    ///
    /// # Errors
    /// Fails if an old study is unusable, a different study is stored under this name, or the
    /// storage fails. An invalid definition creates no storage.
    pub fn open(&self) -> Result<Study, StudyError> {
        let go_on = |study: Study| match self.difference(study.definition()) {
            Some(differs) => Err(differs),
            None => Ok(study),
        };
        if self.meta.is_some() || self.archive.is_some() || self.definition.early_stopping.is_some()
        {
            match fedbo_storage::open(&self.storage, Mode::Existing) {
                // An empty storage has no study yet. A file that is not a storage is rejected on
                // creation.
                Err(StorageError::Absent { .. } | StorageError::NotAStorage { .. }) => {}
                Err(error) => return Err(error.into()),
                Ok(storage) => match Study::load(storage, Some(&self.definition.name)) {
                    Err(StudyError::NoStudy { .. }) => {}
                    loaded => return loaded.and_then(go_on),
                },
            }
        }
        let definition = self.read_definition()?;
        Study::in_memory(&definition)?; // an invalid definition must not create a file
        let storage = fedbo_storage::open(&self.storage, Mode::Create)?;
        match Study::open(storage.clone(), &definition) {
            // Options that are absent from the file keep their stored values. Otherwise, another
            // process created the study first and read different trials from an old study.
            Err(StudyError::Differs { .. }) => {
                Study::load(storage, Some(&definition.name)).and_then(go_on)
            }
            opened => opened.map_err(|error| self.located(error)),
        }
    }

    /// Describes how the old studies have changed since the stored study was created; empty if they
    /// have not.
    pub fn old_study_changes(&self, stored: &Definition) -> Vec<String> {
        let (Some(file), Some(stored)) = (&self.meta, &stored.meta) else {
            return Vec::new();
        };
        file.news(&self.definition, &self.space, &self.storage, &stored.studies)
    }
}
