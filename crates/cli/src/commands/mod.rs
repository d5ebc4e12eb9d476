//! The subcommands, one module each.

mod experiment;
mod plot;
mod run;

use std::path::Path;

use fedbo_report::{ReportError, Summary, closing_table};

use crate::console;
use crate::exit::{BadInput, Exit};

/// What to do.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Run(run::Run),
    #[command(subcommand)]
    Experiment(experiment::Experiment),
    Plot(plot::Plot),
}

impl Command {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        match self {
            Self::Run(command) => command.run(),
            Self::Experiment(command) => command.run(),
            Self::Plot(command) => command.run(),
        }
    }
}

/// A number of worker threads.
fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=1024) => Ok(threads),
        _ => Err("expected a number from 1 to 1024".to_owned()),
    }
}

/// Prints a summary: as JSON, or as the closing table.
fn print_summary(summary: &Summary, json: bool) -> anyhow::Result<()> {
    if json {
        console::result(&serde_json::to_string_pretty(summary)?)?;
    } else {
        let table = closing_table(summary, console::width());
        console::result(&table)?;
    }
    Ok(())
}

/// Completes the error that results exist with the ways out that the command has.
fn name_ways_out(error: anyhow::Error, ways: &str) -> anyhow::Error {
    match exists(&error) {
        Some(path) => BadInput(format!(
            "{} holds the results of another run; {ways}",
            path.display()
        ))
        .into(),
        None => error,
    }
}

fn exists(error: &anyhow::Error) -> Option<&Path> {
    use fedbo_experiments::federation::RunError;
    let report = error
        .downcast_ref::<ReportError>()
        .or_else(|| match error.downcast_ref() {
            Some(RunError::Report(report)) => Some(report),
            _ => None,
        });
    match report {
        Some(ReportError::ResultsExist { path }) => Some(path),
        _ => None,
    }
}
