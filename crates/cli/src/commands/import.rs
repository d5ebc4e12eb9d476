//! `fedbo import`: trials of a table or of another program as a study of their own.

use std::path::{Path, PathBuf};

use fedbo_storage::{Address, Mode};
use fedbo_study::{
    Definition, ImportedTrials, OptunaStorage, Study, StudyFile, read_optuna, read_trials,
};
use serde::Serialize;

use crate::console;
use crate::exit::{BadInput, Exit};
use crate::file_kind::FileKind;
use crate::text::{counted, shown};
use crate::trial_record::SCHEMA_VERSION;

/// Store the trials of a table or of an Optuna study as a study of their own, from which others can learn
///
/// SOURCE is a file of comma-separated values: an export of fedbo, a table of Optuna or pandas with columns params_NAME, or one whose columns
/// are the parameters, the study's numbers (value, unless it has several objectives) and, if there is one, state. Or it is a study in Optuna's storage, optuna:STORAGE or
/// optuna:STORAGE#NAME where it has several; STORAGE is a file of SQLite, a journal or postgresql://USER@HOST/DATABASE. Such a study has its own space and directions. Trials that failed, were stopped or have not ended are left out; the others become
/// complete trials, in the order of the rows. Nothing is stored unless all of it can be used. Done again, it adds the trials that the
/// source has got since, or those that an interrupted import had not stored.
#[derive(clap::Args)]
pub(crate) struct Import {
    /// The table, or optuna:STORAGE[#NAME]
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// A study's file that has the space, objectives and constraints of a table's trials, for instance study.toml
    #[arg(long, value_name = "FILE")]
    space: Option<PathBuf>,
    /// The storage: sqlite:FILE or postgresql://USER@HOST/DATABASE
    #[arg(long, value_name = "STORAGE")]
    storage: String,
    /// Name of the study
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ImportedDocument<'a> {
    schema_version: u32,
    study: &'a str,
    storage: String,
    imported: usize,
    known: usize,
    left_out: usize,
}

impl Import {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let address: Address = self.storage.parse()?;
        if address == Address::Memory {
            let message = "--storage memory: ends with this command; name one that lasts, for instance sqlite:old.db";
            return Err(BadInput(message.to_owned()).into());
        }
        if self.name.trim().is_empty()
            || self.name.starts_with(['.', '-'])
            || self.name.contains(['/', '\\'])
            || self.name.chars().any(char::is_control)
        {
            let message = format!(
                "--name {:?}: expected a name that can be a folder's: no slash, no dot or dash in front",
                self.name
            );
            return Err(BadInput(message).into());
        }
        let optuna = self.source.to_str().and_then(|text| text.strip_prefix("optuna:"));
        let (definition, read) = match (optuna, &self.space) {
            (Some(storage), None) => self.read_optuna_study(storage)?,
            (None, Some(space)) => self.read_table(space)?,
            (Some(_), Some(_)) => {
                let message = "--space is for tables: an Optuna study has its own space";
                return Err(BadInput(message.to_owned()).into());
            }
            (None, None) if self.source.to_string_lossy().contains("://") => {
                let message = "the source is no table; a study in Optuna's storage is named as optuna:STORAGE#NAME";
                return Err(BadInput(message.to_owned()).into());
            }
            (None, None) => {
                let message = "--space is missing: a table needs a study's file with its space and direction, for instance --space study.toml";
                return Err(BadInput(message.to_owned()).into());
            }
        };
        let storage = fedbo_storage::open(&address, Mode::Create)?;
        let (_, n_new) = Study::import(storage, &definition, &read.trials)?;
        let n_left_out = read.left_out.iter().map(|each| each.n_trials).sum();
        if self.json {
            let document = ImportedDocument {
                schema_version: SCHEMA_VERSION,
                study: &self.name,
                storage: address.to_string(),
                imported: n_new,
                known: read.trials.len() - n_new,
                left_out: n_left_out,
            };
            console::result(&serde_json::to_string_pretty(&document)?)?;
            return Ok(Exit::Done);
        }
        let mut text = format!(
            "{} imported as study {:?} in {address}",
            counted(n_new as u64, "trial"),
            self.name
        );
        if n_new < read.trials.len() {
            text += &format!("; {} known already", read.trials.len() - n_new);
        }
        if n_left_out > 0 {
            let left_out: Vec<String> = read.left_out.iter().map(ToString::to_string).collect();
            text += &format!("; left out: {}", shown(&left_out.join(", ")));
        }
        console::result(&text)?;
        Ok(Exit::Done)
    }

    /// The study in an Optuna storage.
    fn read_optuna_study(&self, storage: &str) -> anyhow::Result<(Definition, ImportedTrials)> {
        let (address, study) = OptunaStorage::with_study(storage).map_err(BadInput)?;
        Ok(read_optuna(&address, study, &self.name)?)
    }

    /// The trials of a table.
    fn read_table(&self, space: &Path) -> anyhow::Result<(Definition, ImportedTrials)> {
        FileKind::Study.check(space)?;
        let file = StudyFile::load_without_command(space)?;
        let definition = Definition {
            space: file.definition.space,
            direction: file.definition.direction,
            objectives: file.definition.objectives,
            constraints: file.definition.constraints,
            noisy: file.definition.noisy,
            ..Definition::new(&self.name)
        };
        let read = read_trials(&self.source, &definition)?;
        if let Some(direction) = read.direction.filter(|other| *other != definition.direction) {
            let message = format!(
                "{}: its column direction says {direction}, and [study] direction of {} does not",
                self.source.display(),
                space.display()
            );
            return Err(BadInput(message).into());
        }
        Ok((definition, read))
    }
}
