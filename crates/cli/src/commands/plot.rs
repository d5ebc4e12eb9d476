//! `fedbo plot`: the pictures of a results folder again.

use std::path::PathBuf;

use fedbo_report::{Figure, FigureSpec, Metric, RESULTS_FILE, SUMMARY_FILE, Summary, read_results};

use crate::console;
use crate::exit::{BadInput, Exit};

/// Draw the pictures of a results folder again
///
/// Reads results.csv and, for titles and axes, summary.json; writes curves.svg and curves.png and prints their paths.
#[derive(clap::Args)]
pub(crate) struct Plot {
    /// The results folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print the paths as JSON
    #[arg(long)]
    json: bool,
}

impl Plot {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let rows = read_results(&self.folder.join(RESULTS_FILE))?;
        if rows.is_empty() {
            let folder = self.folder.display();
            return Err(BadInput(format!("{folder} holds no trials to draw")).into());
        }
        // A run that crashed has no summary: it is drawn with the usual axes.
        let (metric, spec) = if self.folder.join(SUMMARY_FILE).exists() {
            let summary = Summary::read(&self.folder)?;
            (summary.metric, summary.figure.unwrap_or_default())
        } else {
            (Metric::Best, FigureSpec::default())
        };
        Figure::from_rows(&rows, metric, &spec).write(&self.folder)?;
        let paths = ["curves.svg", "curves.png"].map(|name| self.folder.join(name));
        let paths = paths.map(|path| path.display().to_string());
        if self.json {
            console::result(&serde_json::json!({ "files": paths }).to_string())?;
        } else {
            console::result(&paths.join("\n"))?;
        }
        Ok(Exit::Done)
    }
}
