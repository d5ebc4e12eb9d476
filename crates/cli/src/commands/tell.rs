//! `fedbo tell`: how a trial ended.

use fedbo_storage::{StorageError, TellOutcome};
use fedbo_study::StudyError;
use serde::Serialize;

use crate::console;
use crate::exit::{BadInput, Exit};
use crate::study_ref::StudyRef;
use crate::text::{self, whole};

/// Tell the value of a trial, or that it failed
///
/// For trials that were asked for by hand, that wait, or whose worker is gone. When the command ends, the value is on the disk.
/// Telling the same twice is no mistake; another value than the one that was told is refused.
#[derive(clap::Args)]
pub(crate) struct Tell {
    #[command(flatten)]
    study: StudyRef,
    /// Number of the trial
    #[arg(allow_negative_numbers = true, value_parser = whole::<u64>)]
    trial: u64,
    /// Its value
    #[arg(allow_hyphen_values = true, value_parser = parse_value)]
    value: Option<f64>,
    /// It has no value, and why
    #[arg(long, value_name = "REASON", conflicts_with = "value", allow_hyphen_values = true)]
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
    failed: Option<&'a str>,
}

impl Tell {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let number = self.trial;
        if self.value.is_none() && self.failed.is_none() {
            let message = format!("how did trial {number} end? give its VALUE, or --failed REASON");
            return Err(BadInput(message).into());
        }
        let opened = self.study.stored()?;
        let word = &opened.word;
        let telling = match (self.value, &self.failed) {
            (Some(value), _) => opened.study.tell(number, value),
            (None, reason) => {
                let reason = reason.as_deref().unwrap_or_default();
                opened.study.tell_failed(number, reason)
            }
        };
        let telling = telling.map_err(|error| match &error {
            StudyError::NotFinite { value } => BadInput(format!(
                "the value {value} is not a finite number; tell a failure instead: fedbo tell {word} {number} --failed REASON"
            ))
            .into(),
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
                value: self.value,
                failed: self.failed.as_deref(),
            };
            console::result(&serde_json::to_string(&record)?)?;
            return Ok(Exit::Done);
        }
        let what = match self.value {
            Some(value) => format!("{value:?}"),
            None => "failed".to_owned(),
        };
        let mut line = match telling {
            TellOutcome::New { .. } => format!("trial {number} told: {what}"),
            TellOutcome::Already => format!("trial {number} was told already: {what}"),
        };
        if let Some((best, value)) = opened.study.best()?.and_then(|t| Some((t.number, t.value()?)))
        {
            line += &format!("; best {} (trial {best})", text::number(value));
        }
        console::result(&line)?;
        Ok(Exit::Done)
    }
}

fn parse_value(text: &str) -> Result<f64, String> {
    let expected = "expected a number; for a trial without one, --failed REASON";
    text.trim().parse().map_err(|_| expected.to_owned())
}
