//! `fedbo stop`: stop the current runs of a study.

use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_console::text;
use fedbo_documents::study_ref::StudyRef;
use fedbo_documents::trial_record::StopDocument;

/// Name of this command, as shown to the stopped runs.
const BY: &str = "fedbo stop";

/// Stop the current runs of a study, so that they start no further trials
///
/// Each running fedbo tune and each running Study.optimize in Python, on any machine, ends once its
/// current trials have finished. Runs started later continue the study. fedbo ask is not affected.
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
            [] => "no trial is running".to_owned(),
            [one] => format!("trial {one} is still running and will finish"),
            some => format!("trials {} are still running and will finish", text::numbers(some)),
        };
        console::result(&format!("{name} is stopped: no further trial begins; {told}"))?;
        if opened.file.is_some() {
            console::note(&format!("continue with: fedbo tune {}", opened.word));
        }
        Ok(Exit::Done)
    }
}
