//! `fedbo correct`: replaces the value of a finished trial.

use serde::Serialize;
use serde_json::Map;

use fedbo_console as console;
use fedbo_console::text::whole;
use fedbo_console::{BadInput, Exit};
use fedbo_documents::study_ref::StudyRef;
use fedbo_documents::trial_record::{numbers_in_words, outcomes, tell_usage};

use super::outcome_args::{OutcomeArgs, best_after};

/// Correct the value of a trial that has ended
///
/// Models, the best trial, counts and pictures follow the new value, also in runs that are active
/// now. The earlier outcome stays on file; fedbo trials --json shows it. A failed or discarded trial
/// gets a value.
#[derive(clap::Args)]
pub(crate) struct Correct {
    #[command(flatten)]
    study: StudyRef,
    /// Number of the trial
    #[arg(allow_negative_numbers = true, value_parser = whole::<u64>)]
    trial: u64,
    #[command(flatten)]
    outcome: OutcomeArgs,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct CorrectedRecord {
    trial: u64,
    /// `new` or `already`.
    corrected: &'static str,
    value: Option<f64>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    outcomes: Map<String, serde_json::Value>,
}

impl Correct {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let number = self.trial;
        let opened = self.study.stored()?;
        let (word, definition) = (&opened.word, opened.study.definition());
        let command = format!("fedbo correct {word} {number}");
        if self.outcome.is_empty() {
            let usage = tell_usage(definition);
            return Err(BadInput(format!("the new value is missing: {command} {usage}")).into());
        }
        let instead = format!("discard the trial instead: fedbo discard {word} {number}");
        let numbers = self.outcome.numbers(definition, &command, &instead)?;
        opened.check_not_federated()?;
        let is_new = opened.study.correct_numbers(number, numbers.clone())?;
        if self.json {
            let record = CorrectedRecord {
                trial: number,
                corrected: if is_new { "new" } else { "already" },
                value: numbers.first().copied(),
                outcomes: outcomes(definition, &numbers),
            };
            console::result(&serde_json::to_string(&record)?)?;
            return Ok(Exit::Done);
        }
        let what = match numbers.as_slice() {
            [value] => format!("{value:?}"),
            several => numbers_in_words(definition, several),
        };
        let line = match is_new {
            true => format!("trial {number} corrected: {what}"),
            false => format!("trial {number} already has this outcome: {what}"),
        };
        console::result(&(line + &best_after(&opened.study)?))?;
        Ok(Exit::Done)
    }
}
