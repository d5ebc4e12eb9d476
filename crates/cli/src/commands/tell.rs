//! `fedbo tell`: records the outcome of a trial.

use fedbo_objective::NumberNames;
use fedbo_storage::{StorageError, TellOutcome};
use fedbo_study::{Definition, StudyError};
use serde::Serialize;
use serde_json::Map;

use fedbo_console as console;
use fedbo_console::text::{self, counted, whole};
use fedbo_console::{BadInput, Exit};
use fedbo_documents::study_ref::StudyRef;
use fedbo_documents::trial_record::{numbers_in_words, outcomes, tell_usage};

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
    /// Value of the trial
    #[arg(allow_hyphen_values = true, value_parser = parse_value)]
    value: Option<f64>,
    /// Additional outcome of the trial, for a study with constraints or several objectives; repeat
    /// it for each outcome
    #[arg(long = "outcome", value_name = "NAME=NUMBER", value_parser = parse_outcome)]
    outcomes: Vec<(String, f64)>,
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
        if self.value.is_none() && self.outcomes.is_empty() && self.failed.is_none() {
            let message = format!("how did trial {number} end? give its VALUE, or --failed REASON");
            return Err(BadInput(message).into());
        }
        let opened = self.study.stored()?;
        let word = &opened.word;
        let definition = opened.study.definition();
        let numbers = match self.failed {
            Some(_) => Vec::new(),
            None => self.numbers(definition, word)?,
        };
        let telling = match &self.failed {
            None => opened.study.tell_numbers(number, numbers.clone()),
            Some(reason) => opened.study.tell_failed(number, reason),
        };
        let telling = telling.map_err(|error| match &error {
            StudyError::Storage(StorageError::ToldOtherwise { .. }) => {
                BadInput(format!("{error}, which stays")).into()
            }
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
        let best = opened.study.best_trials()?;
        match (definition.objectives.is_empty(), best.as_slice()) {
            (_, []) => {}
            (true, [best, ..]) => {
                let value = best.value().map_or_else(String::new, text::number);
                line += &format!("; best {value} (trial {})", best.number);
            }
            (false, front) => {
                line += &format!("; {} on the front", counted(front.len() as u64, "trial"));
            }
        }
        console::result(&line)?;
        Ok(Exit::Done)
    }
}

impl Tell {
    /// Returns the outcomes of the trial in the order of the study's definition.
    fn numbers(&self, definition: &Definition, word: &str) -> Result<Vec<f64>, BadInput> {
        let value = self.value.map(|value| ("value".to_owned(), value));
        let entries: Vec<_> = value.into_iter().chain(self.outcomes.iter().cloned()).collect();
        let failed = format!("fedbo tell {word} {} --failed REASON", self.trial);
        if let Some((name, number)) = entries.iter().find(|(_, number)| !number.is_finite()) {
            let what = match name.as_str() {
                "value" => "the value".to_owned(),
                name => format!("{name} ="),
            };
            let message =
                format!("{what} {number} is not a finite number; tell a failure instead: {failed}");
            return Err(BadInput(message));
        }
        let names = NumberNames::new(definition.number_names());
        names.of_entries(&entries).map_err(|error| {
            let usage = tell_usage(definition);
            BadInput(format!("{error}: fedbo tell {word} {} {usage}", self.trial))
        })
    }
}

fn parse_outcome(text: &str) -> Result<(String, f64), String> {
    let expected = || "expected NAME=NUMBER, for instance latency_ms=40".to_owned();
    let (name, number) = text.rsplit_once('=').ok_or_else(expected)?;
    let number = number.trim().parse().map_err(|_| expected())?;
    Ok((name.trim().to_owned(), number))
}

fn parse_value(text: &str) -> Result<f64, String> {
    let expected = "expected a number; for a trial without one, --failed REASON";
    text.trim().parse().map_err(|_| expected.to_owned())
}
