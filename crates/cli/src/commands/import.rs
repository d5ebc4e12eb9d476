//! `fedbo import`: trials of another program as a study of their own.

use std::path::PathBuf;

use fedbo_storage::{Address, Mode};
use fedbo_study::{Definition, Study, StudyFile, read_trials};
use serde::Serialize;

use crate::console;
use crate::exit::{BadInput, Exit};
use crate::file_kind::FileKind;
use crate::text::{counted, shown};
use crate::trial_record::SCHEMA_VERSION;

/// Store the trials of a table as a study of their own, from which others can learn
///
/// FILE has comma-separated values: an export of fedbo, a table of Optuna or pandas with columns params_NAME, or one whose columns are the
/// parameters, value and, if there is one, state. Trials that failed, were stopped or have not ended are left out; the others become
/// complete trials, in the order of the rows. Nothing is stored unless all of the table can be used. Done again, it adds the rows that the
/// table has got since, or those that an interrupted import had not stored.
#[derive(clap::Args)]
pub(crate) struct Import {
    /// The table
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A study's file that has the space and the direction of the trials, for instance study.toml
    #[arg(long, value_name = "FILE")]
    space: PathBuf,
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
        FileKind::Study.check(&self.space)?;
        let file = StudyFile::load_without_command(&self.space)?;
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
        let definition = Definition {
            space: file.definition.space,
            direction: file.definition.direction,
            objectives: file.definition.objectives,
            constraints: file.definition.constraints,
            noisy: file.definition.noisy,
            ..Definition::new(&self.name)
        };
        let read = read_trials(&self.file, &definition)?;
        if let Some(direction) = read.direction.filter(|other| *other != definition.direction) {
            let message = format!(
                "{}: its column direction says {direction}, and [study] direction of {} does not",
                self.file.display(),
                self.space.display()
            );
            return Err(BadInput(message).into());
        }
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
}
