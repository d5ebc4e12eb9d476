//! `fedbo enqueue`: add a user's point.

use fedbo_console as console;
use fedbo_console::text;
use fedbo_console::{BadInput, Exit};
use fedbo_documents::own_point::parse;
use fedbo_documents::study_ref::StudyRef;
use fedbo_space::{Parameter, Point, Space};

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

/// Splits NAME=VALUE. The name of a parameter can contain a =.
fn entry<'a>(space: &Space, text: &'a str) -> anyhow::Result<(&'a str, &'a str)> {
    let names = space.parameters().iter().map(Parameter::name);
    let of_name = |name: &str| {
        let value = text.strip_prefix(name)?.strip_prefix('=')?;
        Some((&text[..name.len()], value))
    };
    let known = names.filter_map(of_name).max_by_key(|(name, _)| name.len());
    let first = || text.split_once('=').map(|(name, value)| (name.trim(), value));
    known.or_else(first).ok_or_else(|| {
        BadInput(format!("{text:?}: expected NAME=VALUE, for instance rate=0.01")).into()
    })
}
