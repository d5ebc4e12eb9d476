//! `fedbo release`: a trial is given back.

use crate::console;
use crate::exit::Exit;
use crate::study_ref::StudyRef;

/// Give a trial back that was asked for by hand
///
/// It waits again, and whoever asks next gets it.
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
            console::result(&format!("trial {number} waits for whoever asks next"))?;
        }
        Ok(Exit::Done)
    }
}
