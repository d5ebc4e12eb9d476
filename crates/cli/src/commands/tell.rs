//! `fedbo tell`: records the outcome of a trial.

use fedbo_storage::{StorageError, TellOutcome};
use fedbo_study::StudyError;
use serde::Serialize;
use serde_json::Map;

use fedbo_console as console;
use fedbo_console::text::whole;
use fedbo_console::{BadInput, Exit};
use fedbo_documents::study_ref::StudyRef;
use fedbo_documents::trial_record::{numbers_in_words, outcomes, tell_usage};

use super::outcome_args::{OutcomeArgs, best_after};

/// Tell the value of a trial, or that it failed
///
/// For trials from fedbo ask, waiting trials, and trials that have lost their worker. The value is
/// on disk when the command returns. Telling the same value twice is allowed; a different value is
/// refused.
#[derive(clap::Args)]
pub(crate) struct Tell {
    #[command(flatten)]
    study: StudyRef,
    /// Number of the trial
    #[arg(allow_negative_numbers = true, value_parser = whole::<u64>)]
    trial: u64,
    #[command(flatten)]
    outcome: OutcomeArgs,
    /// Record the trial as failed, with the reason
    #[arg(long, value_name = "REASON", conflicts_with_all = ["value", "outcomes"], allow_hyphen_values = true)]
    failed: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ToldRecord<'a> {
    trial: u64,
    /// `new` or `already`.
    told: &'static str,
    value: Option<f64>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    outcomes: Map<String, serde_json::Value>,
    failed: Option<&'a str>,
}

impl Tell {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let number = self.trial;
        if self.outcome.is_empty() && self.failed.is_none() {
            let message = format!("how did trial {number} end? give its VALUE, or --failed REASON");
            return Err(BadInput(message).into());
        }
        let opened = self.study.stored()?;
        let word = &opened.word;
        let definition = opened.study.definition();
        let numbers = match self.failed {
            Some(_) => Vec::new(),
            None => {
                let command = format!("fedbo tell {word} {number}");
                let instead = format!("tell a failure instead: {command} --failed REASON");
                self.outcome.numbers(definition, &command, &instead)?
            }
        };
        let telling = match &self.failed {
            None => opened.study.tell_numbers(number, numbers.clone()),
            Some(reason) => opened.study.tell_failed(number, reason),
        };
        let telling = telling.map_err(|error| match &error {
            StudyError::Storage(StorageError::ToldOtherwise { .. }) => BadInput(format!(
                "{error}, which stays; replace it with: fedbo correct {word} {number} {}",
                tell_usage(definition)
            ))
            .into(),
            _ => anyhow::Error::from(error),
        })?;
        let told = match telling {
            TellOutcome::New { .. } => "new",
            TellOutcome::Already => "already",
        };
        if self.json {
            let record = ToldRecord {
                trial: number,
                told,
                value: numbers.first().copied(),
                outcomes: outcomes(definition, &numbers),
                failed: self.failed.as_deref(),
            };
            console::result(&serde_json::to_string(&record)?)?;
            return Ok(Exit::Done);
        }
        let what = match numbers.as_slice() {
            [] => "failed".to_owned(),
            [value] => format!("{value:?}"),
            several => numbers_in_words(definition, several),
        };
        let mut line = match telling {
            TellOutcome::New { .. } => format!("trial {number} told: {what}"),
            TellOutcome::Already => format!("trial {number} was already told: {what}"),
        };
        line += &best_after(&opened.study)?;
        console::result(&line)?;
        Ok(Exit::Done)
    }
}
