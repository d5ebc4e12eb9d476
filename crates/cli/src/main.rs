//! The binary `fedbo`: federated Bayesian optimization from the command line.
//!
//! Decides how the outside world is asked and answered: arguments, progress, exit codes, signals. Results go to
//! standard output, all else to standard error. What is computed is decided elsewhere.

mod commands;
mod console;
mod core_dumps;
mod exit;
mod game_display;
mod game_results;
mod interrupt;
mod logs;
mod old_studies;
#[cfg(feature = "otlp")]
mod otlp;
mod progress;
mod sparkline;
mod study_display;
mod study_ref;
mod table;
mod text;
mod trial_record;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::Parser;

use crate::exit::Exit;

/// Federated Bayesian optimization: many parties tune together without showing their data
#[derive(Parser)]
#[command(name = "fedbo", version, after_help = exit::HELP, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

/// An error and its causes; what one says already is not said twice.
fn words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if words.contains(&text) {
            continue;
        }
        if !words.is_empty() {
            words += ": ";
        }
        words += &text;
    }
    words
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Panics inside objectives are caught and recorded as failed trials; one that comes up to here is our mistake.
    let panics = console::collect_panics();
    let exit = match catch_unwind(AssertUnwindSafe(|| cli.command.run())) {
        Ok(Ok(exit)) => exit,
        Ok(Err(error)) => {
            console::note(&format!("error: {}", words(&error)));
            Exit::of(&error)
        }
        Err(_) => {
            let what = panics.last().unwrap_or_else(|| "no message".to_owned());
            console::note(&format!(
                "internal error, please report it with the command that led to it: {what}"
            ));
            Exit::Internal
        }
    };
    exit.into()
}
