//! `fedbo release`: release a trial.

use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_documents::study_ref::StudyRef;

/// Release a trial that was asked for with fedbo ask
///
/// The trial becomes waiting again, and the next ask returns it.
#[derive(clap::Args)]
pub(crate) struct Release {
    #[command(flatten)]
    study: StudyRef,
    /// Number of the trial
    trial: u64,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Release {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let opened = self.study.stored()?;
        opened.study.release_trial(self.trial)?;
        let number = self.trial;
        if self.json {
            let record = serde_json::json!({ "trial": number, "state": "waiting" });
            console::result(&record.to_string())?;
        } else {
            console::result(&format!("trial {number} waits for the next ask"))?;
        }
        Ok(Exit::Done)
    }
}
