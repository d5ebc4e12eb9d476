//! `fedbo import`: stores the trials of a table as a separate study.

use std::path::{Path, PathBuf};

use fedbo_storage::{Address, Mode};
use fedbo_study::{Definition, ImportedTrials, Outside, Study, StudyFile, read_trials};
use serde::Serialize;

use fedbo_console as console;
use fedbo_console::text::{counted, shown};
use fedbo_console::{BadInput, Exit};
use fedbo_documents::file_kind::FileKind;
use fedbo_documents::trial_record::SCHEMA_VERSION;

/// Store the trials of a table as a separate study from which others can learn
///
/// SOURCE is a table separated by commas, semicolons or tabs: an export of fedbo, a table of Optuna
/// or pandas with columns params_NAME, or a table with columns for the parameters, the study's
/// outcomes (value, unless it has several objectives) and optionally state. Failed, stopped,
/// discarded and unfinished trials are omitted; the others become complete trials, in the order of the rows. If any row is invalid, nothing is stored.
/// Repeating the command adds trials that are new in the source, or that an interrupted import did
/// not store.
#[derive(clap::Args)]
pub(crate) struct Import {
    /// Table of trials
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// Study file with the space, objectives and constraints of a table's trials, for instance
    /// study.toml
    #[arg(long, value_name = "FILE")]
    space: Option<PathBuf>,
    /// Storage: sqlite:FILE or postgresql://USER@HOST/DATABASE
    #[arg(long, value_name = "STORAGE")]
    storage: String,
    /// Name of the study
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Rows with a number outside its range or with an unknown choice: refuse the table, or skip
    /// them
    #[arg(long, value_name = "ROWS", value_enum, default_value_t)]
    outside: OutsideRows,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Default, clap::ValueEnum)]
enum OutsideRows {
    #[default]
    Refuse,
    Skip,
}

impl From<OutsideRows> for Outside {
    fn from(rows: OutsideRows) -> Self {
        match rows {
            OutsideRows::Refuse => Self::Refuse,
            OutsideRows::Skip => Self::Skip,
        }
    }
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
            let message = "--storage memory: is lost when this command ends; name a persistent one, for instance sqlite:old.db";
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
        if self.source.to_string_lossy().contains("://")
            || self.source.to_string_lossy().starts_with("optuna:")
        {
            let message = "the source is not a table; an Optuna study is imported in Python, with fedbo.integrations.optuna.import_study, or \
                           as the table that study.trials_dataframe().to_csv(..) writes";
            return Err(BadInput(message.to_owned()).into());
        }
        let Some(space) = &self.space else {
            let message = "--space is missing: a table needs a study's file with its space and direction, for instance --space study.toml";
            return Err(BadInput(message.to_owned()).into());
        };
        let (definition, read) = self.read_table(space)?;
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
            text += &format!("; {} already known", read.trials.len() - n_new);
        }
        if n_left_out > 0 {
            let left_out: Vec<String> = read.left_out.iter().map(ToString::to_string).collect();
            text += &format!("; left out: {}", shown(&left_out.join(", ")));
        }
        console::result(&text)?;
        Ok(Exit::Done)
    }

    /// Reads the trials of a table.
    fn read_table(&self, space: &Path) -> anyhow::Result<(Definition, ImportedTrials)> {
        FileKind::Study.check(space)?;
        let file = StudyFile::load_without_command(space)?;
        let definition = Definition {
            space: file.definition.space,
            direction: file.definition.direction,
            objectives: file.definition.objectives,
            constraints: file.definition.constraints,
            rules: file.definition.rules,
            mixtures: file.definition.mixtures,
            noisy: file.definition.noisy,
            ..Definition::new(&self.name)
        };
        let read = read_trials(&self.source, &definition, self.outside.into())?;
        if let Some(direction) = read.direction.filter(|other| *other != definition.direction) {
            let message = format!(
                "{}: its column direction is {direction}, but [study] direction of {} is not",
                self.source.display(),
                space.display()
            );
            return Err(BadInput(message).into());
        }
        Ok((definition, read))
    }
}
