//! `fedbo report`: reports an epoch of a trial and prints the decision to continue or stop.

use fedbo_strategies::early_stopping::Verdict;
use fedbo_study::StudyError;
use serde::Serialize;

use fedbo_console as console;
use fedbo_console::text::whole;
use fedbo_console::{BadInput, Exit};
use fedbo_documents::study_ref::StudyRef;

/// Report a trial's value after an epoch of training, and decide whether it should continue
///
/// For trials from fedbo ask, in a study with `[early_stopping]`. Prints `continue`, or `stop: `
/// and the reason; the trial is then already recorded as stopped. The report is on disk when the
/// command returns. Repeating the same report is allowed; epochs must increase.
#[derive(clap::Args)]
pub(crate) struct Report {
    #[command(flatten)]
    study: StudyRef,
    /// Number of the trial
    #[arg(allow_negative_numbers = true, value_parser = whole::<u64>)]
    trial: u64,
    /// Epoch, counted from 1
    epoch: u32,
    /// Value after this epoch
    #[arg(allow_hyphen_values = true, value_parser = parse_value)]
    value: f64,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ReportRecord<'a> {
    trial: u64,
    epoch: u32,
    value: f64,
    /// `continue` or `stop`.
    verdict: &'static str,
    because: Option<&'a str>,
}

impl Report {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let (number, epoch, value) = (self.trial, self.epoch, self.value);
        let opened = self.study.stored()?;
        let word = &opened.word;
        let judged = opened.study.report(number, epoch, value);
        let verdict = judged.map_err(|error| match &error {
            StudyError::NotFinite { value } => BadInput(format!(
                "the value {value} is not a finite number; tell a failure instead: fedbo tell {word} {number} --failed REASON"
            ))
            .into(),
            _ => anyhow::Error::from(error),
        })?;
        let because = match &verdict {
            Verdict::Continue => None,
            Verdict::Stop { because } => Some(because.as_str()),
        };
        if self.json {
            let record = ReportRecord {
                trial: number,
                epoch,
                value,
                verdict: if because.is_some() { "stop" } else { "continue" },
                because,
            };
            console::result(&serde_json::to_string(&record)?)?;
            return Ok(Exit::Done);
        }
        console::result(&match because {
            None => "continue".to_owned(),
            Some(because) => format!("stop: {because}"),
        })?;
        Ok(Exit::Done)
    }
}

fn parse_value(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| "expected a number".to_owned())
}
