//! `fedbo enqueue`: add a user's point.

use fedbo_console as console;
use fedbo_console::text;
use fedbo_console::{BadInput, Exit};
use fedbo_documents::own_point::parse;
use fedbo_documents::study_ref::StudyRef;

/// Add a point of your own to try next
///
/// The next fedbo tune or fedbo ask takes it. A study that is not stored yet is created from its
/// file.
#[derive(clap::Args)]
pub(crate) struct Enqueue {
    #[command(flatten)]
    study: StudyRef,
    /// Value of each parameter, for instance: rate=0.01 kind=rbf
    #[arg(value_name = "NAME=VALUE", required = true)]
    values: Vec<String>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Enqueue {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let mut entries = Vec::with_capacity(self.values.len());
        for text in &self.values {
            let Some((name, value)) = text.split_once('=') else {
                let message = format!("{text:?}: expected NAME=VALUE, for instance rate=0.01");
                return Err(BadInput(message).into());
            };
            entries.push((name.trim(), value));
        }
        // Check before anything is created.
        if let Some(space) = self.study.space_of_file()? {
            parse(&space, &entries)?;
        }
        let opened = self.study.stored_or_new()?;
        let point = parse(opened.study.space(), &entries)?;
        let trial = opened.study.enqueue(&point)?;
        if self.json {
            let record = serde_json::json!({ "trial": trial.number, "parameters": trial.point });
            console::result(&record.to_string())?;
        } else {
            console::result(&format!(
                "trial {} waits: {}",
                trial.number,
                text::shown(&text::exact_point(&trial.point))
            ))?;
        }
        Ok(Exit::Done)
    }
}
