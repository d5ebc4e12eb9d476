//! `fedbo enqueue`: add a user's point.

use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_console::text;
use fedbo_documents::own_point::{entry, parse};
use fedbo_documents::study_ref::StudyRef;
use fedbo_space::{Point, Space};

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
        // Check before anything is created.
        if let Some(space) = self.study.space_of_file()? {
            self.point(&space)?;
        }
        let opened = self.study.stored_or_new()?;
        let point = self.point(opened.study.space())?;
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

    fn point(&self, space: &Space) -> anyhow::Result<Point> {
        let entries: anyhow::Result<Vec<_>> =
            self.values.iter().map(|text| entry(space, text)).collect();
        parse(space, &entries?)
    }
}
