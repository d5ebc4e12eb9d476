//! `fedbo discard`: discards a finished trial.

use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_console::text::whole;
use fedbo_documents::study_ref::StudyRef;

use super::outcome_args::best_after;

/// Discard a trial that has ended
///
/// The trial then counts neither as a value nor as a failure. Its point may be proposed again, and
/// one more trial takes its place in the number of trials. Its outcome stays on file; fedbo trials
/// --json shows it, and fedbo correct gives the trial a value again.
#[derive(clap::Args)]
pub(crate) struct Discard {
    #[command(flatten)]
    study: StudyRef,
    /// Number of the trial
    #[arg(allow_negative_numbers = true, value_parser = whole::<u64>)]
    trial: u64,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Discard {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let number = self.trial;
        let opened = self.study.stored()?;
        opened.check_not_federated()?;
        let is_new = opened.study.discard(number)?;
        if self.json {
            let discarded = if is_new { "new" } else { "already" };
            let record = serde_json::json!({ "trial": number, "discarded": discarded });
            console::result(&record.to_string())?;
            return Ok(Exit::Done);
        }
        let line = match is_new {
            true => format!("trial {number} discarded"),
            false => format!("trial {number} is already discarded"),
        };
        console::result(&(line + &best_after(&opened.study)?))?;
        Ok(Exit::Done)
    }
}
