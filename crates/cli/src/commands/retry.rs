//! `fedbo retry`: retries the points of failed trials.

use fedbo_storage::{Trial, TrialState};

use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_console::text::{self, counted, whole};
use fedbo_documents::study_ref::StudyRef;
use fedbo_documents::trial_record::Retried;

/// Retry the points of failed trials
///
/// For each failed trial, adds a new trial of the same point, which waits for `fedbo tune` or
/// `fedbo ask`. The failure stays in the record, but no longer counts for the model or towards the
/// number of trials. Failed trials that were already retried are skipped.
#[derive(clap::Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    study: StudyRef,
    /// Retry only the failed trial with this number
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>)]
    trial: Option<u64>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Retry {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let opened = self.study.stored()?;
        let waiting = match self.trial {
            Some(number) => vec![opened.study.retry(number)?],
            None => opened.study.retry_failed()?,
        };
        if self.json {
            console::result(&serde_json::to_string(&Retried::new(&waiting))?)?;
            return Ok(Exit::Done);
        }
        if waiting.is_empty() {
            let n_waiting = opened.study.open_trials()?.iter().filter(is_waiting_retry).count();
            let already = match n_waiting as u64 {
                0 => String::new(),
                n => format!("; already waiting: {}", counted(n, "trial")),
            };
            console::result(&format!("no failed trial is left to retry{already}"))?;
            return Ok(Exit::Done);
        }
        let old: Vec<u64> = waiting.iter().filter_map(Trial::retry_of).collect();
        let new: Vec<u64> = waiting.iter().map(|trial| trial.number).collect();
        let word = match new.len() {
            1 => "trial",
            _ => "trials",
        };
        console::result(&format!(
            "{word} {} will be retried as {word} {}",
            text::numbers(&old),
            text::numbers(&new)
        ))?;
        if opened.file.is_some() {
            console::note(&format!("continue with: fedbo tune {}", opened.word));
        }
        Ok(Exit::Done)
    }
}

fn is_waiting_retry(trial: &&Trial) -> bool {
    trial.retry_of().is_some() && trial.state == TrialState::Waiting
}
