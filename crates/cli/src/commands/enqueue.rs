//! `fedbo enqueue`: a point of one's own.

use crate::console;
use crate::exit::{BadInput, Exit};
use crate::own_point::parse;
use crate::study_ref::StudyRef;
use crate::text;

/// Add a point of your own, which is tried next
///
/// Whoever asks next gets it: fedbo tune, or fedbo ask. A study that is not stored yet is created as its file says.
#[derive(clap::Args)]
pub(crate) struct Enqueue {
    #[command(flatten)]
    study: StudyRef,
    /// A value for each parameter, for instance: rate=0.01 kind=rbf
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
        // Before anything is created.
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
