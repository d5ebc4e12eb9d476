//! `fedbo export`: all trials for other programs.

use std::path::PathBuf;

use fedbo_report::write_whole;

use crate::console;
use crate::exit::Exit;
use crate::study_ref::StudyRef;
use crate::trial_record::{TrialsDocument, csv};

/// Write all trials of a study as CSV or JSON
///
/// Also while it runs. CSV has one row a trial: number, state, source, value (of a trial that was stopped early its last one), failure,
/// attempts, times in UTC, seconds, the epochs that it has trained, then one column a parameter. All numbers read back exactly.
#[derive(clap::Args)]
pub(crate) struct Export {
    #[command(flatten)]
    study: StudyRef,
    /// Form
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write to this file, whole or not at all [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Comma-separated values
    Csv,
    /// The JSON that `fedbo trials --json` prints
    Json,
}

impl Export {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let opened = self.study.stored()?;
        if let Some(path) = &self.out {
            opened.check_is_separate(path)?;
        }
        let trials = opened.study.trials()?;
        let format = match self.json {
            true => Format::Json,
            false => self.format,
        };
        let text = match format {
            Format::Csv => String::from_utf8(csv(opened.study.space(), &trials)?)?,
            Format::Json => {
                let document = TrialsDocument::new(&opened, &trials);
                serde_json::to_string_pretty(&document)? + "\n"
            }
        };
        match &self.out {
            Some(path) => write_whole(path, text.as_bytes())?,
            None => {
                console::data(&text)?;
            }
        }
        Ok(Exit::Done)
    }
}
