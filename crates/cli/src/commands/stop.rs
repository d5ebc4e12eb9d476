//! `fedbo stop`: whoever tunes a study now begins no further trial.

use crate::console;
use crate::exit::Exit;
use crate::study_ref::StudyRef;
use crate::text;
use crate::trial_record::StopDocument;

/// The name of this command, as whoever is stopped by it reads it.
const BY: &str = "fedbo stop";

/// Stop a study: whoever tunes it now begins no further trial
///
/// Each fedbo tune and each optimize of Python that runs at this moment, on any machine, ends once the trials that it evaluates are told.
/// One that is started later goes on with the study. fedbo ask is not affected.
#[derive(clap::Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    study: StudyRef,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Stop {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let opened = self.study.stored()?;
        let document = StopDocument::stop(&opened.study, BY)?;
        if self.json {
            console::result(&serde_json::to_string(&document)?)?;
            return Ok(Exit::Done);
        }
        let name = text::shown(opened.name());
        let told = match document.running() {
            [] => "no trial runs".to_owned(),
            [one] => format!("trial {one} runs, and is still told"),
            some => format!("trials {} run, and are still told", text::numbers(some)),
        };
        console::result(&format!("{name} is stopped: no further trial begins; {told}"))?;
        if opened.file.is_some() {
            console::note(&format!("go on with: fedbo tune {}", opened.word));
        }
        Ok(Exit::Done)
    }
}
