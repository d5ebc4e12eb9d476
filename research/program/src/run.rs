//! `fedbo-research run`: an experiment with its control arms.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::Context;
use fedbo_cli::{add_remedies, parse_threads, print_summary};
use fedbo_console::text::whole;
use fedbo_console::{self as console, BadInput, Exit, interrupt};
use fedbo_experiments::catalogue::{RunOptions, catalogue, find};
use fedbo_runner::Ended;

use crate::display::ExperimentDisplay;

/// Run an experiment with its control arms
///
/// Writes results.csv, summary.json, curves.svg and curves.png, and prints the tables. If arms have
/// a cost, tradeoff.svg and tradeoff.png show the final metric against it.
#[derive(clap::Args)]
pub(crate) struct Run {
    /// Name of the experiment, see `fedbo-research list`
    name: String,
    /// Repetitions [default: the experiment's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: Option<u32>,
    /// Folder with the data sets, for experiments that need one
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Root of all randomness
    #[arg(long, value_name = "S", allow_negative_numbers = true, default_value_t = 0, value_parser = whole::<u64>)]
    seed: u64,
    /// Results folder [default: results/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace existing results
    #[arg(long)]
    overwrite: bool,
    /// Number of concurrent sessions; results do not depend on it [default: the machine's cores]
    #[arg(long, short = 'j', visible_alias = "jobs", value_name = "N", value_parser = parse_threads)]
    threads: Option<usize>,
    /// Print the summary as JSON instead of tables
    #[arg(long)]
    json: bool,
}

impl Run {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let Some(experiment) = find(&self.name) else {
            let known: Vec<&str> = catalogue().iter().map(|each| each.name).collect();
            let near = fedbo_config::nearest(&self.name, known.iter().copied());
            let near = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
            let message = format!(
                "there is no experiment {:?}; {near}known are {}",
                self.name,
                known.join(", ")
            );
            return Err(BadInput(message).into());
        };
        match &self.data {
            None if experiment.needs_data() => {
                let name = experiment.name;
                let message = format!(
                    "experiment {name} needs the data sets {}; name their folder with --data DIR, which `fedbo-research data check DIR` checks",
                    experiment.data_sets.join(" and ")
                );
                return Err(BadInput(message).into());
            }
            Some(folder) if !folder.is_dir() => {
                let folder = folder.display();
                return Err(BadInput(format!("--data {folder} is not a folder")).into());
            }
            _ => {}
        }
        let out =
            self.out.clone().unwrap_or_else(|| PathBuf::from("results").join(experiment.name));
        let options = RunOptions {
            runs: self.runs,
            seed: self.seed,
            data: self.data.clone(),
            out: out.clone(),
            overwrite: self.overwrite,
        };
        let mut builder = rayon::ThreadPoolBuilder::new();
        if let Some(threads) = self.threads {
            builder = builder.num_threads(threads);
        }
        let pool = builder.build().context("cannot start worker threads")?;
        let stop = interrupt::stop_flag(interrupt::ABANDONS);
        let display = ExperimentDisplay::new();
        let ran = pool.install(|| experiment.run(&options, &display, &stop));
        display.finish();
        let ways = "replace it with --overwrite, or choose another folder with --out DIR";
        let finding = ran.map_err(|error| add_remedies(error, ways))?;
        print_summary(&finding.summary, self.json)?;
        for note in &finding.notes {
            if self.json {
                console::note(note);
            } else {
                console::result(note)?;
            }
        }
        if finding.ended == Ended::Interrupted || stop.load(Ordering::Relaxed) {
            console::note(&format!(
                "interrupted: finished sessions are kept in {}; run it again with --overwrite",
                out.display()
            ));
            return Ok(Exit::Interrupted);
        }
        if !console::is_quiet() {
            console::note(&format!(
                "results are in {}: results.csv, summary.json, curves.svg, curves.png{}",
                out.display(),
                if finding.summary.tradeoff.is_some() {
                    ", tradeoff.svg, tradeoff.png"
                } else {
                    ""
                }
            ));
        }
        Ok(Exit::Done)
    }
}
