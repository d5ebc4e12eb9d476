//! `fedbo-research list`: the declared experiments.

use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_experiments::catalogue::{self, catalogue};

/// List the experiments
#[derive(clap::Args)]
pub(crate) struct List {
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        if self.json {
            let entry = |each: &catalogue::Experiment| {
                serde_json::json!({
                    "name": each.name,
                    "about": each.about,
                    "needs_data": each.needs_data(),
                    "data_sets": each.data_sets,
                    "figures": each.figures,
                    "default_runs": each.default_runs,
                })
            };
            let list: Vec<serde_json::Value> = catalogue().iter().map(entry).collect();
            console::result(&serde_json::to_string_pretty(&list)?)?;
            return Ok(Exit::Done);
        }
        let width = catalogue().iter().map(|each| each.name.len()).max();
        let width = width.unwrap_or(0);
        for each in catalogue() {
            let data = if each.needs_data() { "; needs --data" } else { "" };
            console::result(&format!(
                "{:width$}  {} ({} runs{data})",
                each.name, each.about, each.default_runs
            ))?;
        }
        Ok(Exit::Done)
    }
}
