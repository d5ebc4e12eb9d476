//! The program `fedbo`: federated Bayesian optimization from the command line. A library, so that the Python package carries it too.
//!
//! Decides how the outside world is asked and answered: arguments, progress, exit codes, signals. Results go to
//! standard output, all else to standard error. What is computed is decided elsewhere.

mod advice;
mod alignment;
mod answers;
mod commands;
mod console;
mod core_dumps;
mod dashboard;
mod exit;
pub mod export;
mod file_kind;
mod game_display;
mod game_results;
mod interrupt;
mod logs;
mod old_studies;
#[cfg(feature = "otlp")]
mod otlp;
mod own_point;
pub mod pictures;
mod progress;
mod serve;
mod space_display;
mod sparkline;
mod study_display;
mod study_ref;
mod table;
mod text;
mod token;
mod trial_record;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::{CommandFactory, FromArgMatches, Parser};

pub use commands::problems;

use crate::exit::Exit;
use crate::text::without_passwords;

/// Federated Bayesian optimization: many parties tune together without showing their data
#[derive(Parser)]
#[command(name = "fedbo", version, after_help = exit::HELP, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
    #[command(flatten)]
    verbosity: Verbosity,
}

/// Options that set how much is said on standard error.
#[derive(clap::Args)]
struct Verbosity {
    /// Say less: results, warnings and errors, no progress
    #[arg(long, short, global = true, display_order = 1000)]
    quiet: bool,
    /// Log on standard error what is done: commands that run, requests that are made; -vv even more
    #[arg(long, short, global = true, display_order = 1000, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
}

/// All commands, for completions and manual pages.
fn command_line() -> clap::Command {
    /// A negative number is a value, which who takes it refuses, not an option that is not known.
    fn with_numbers(command: clap::Command) -> clap::Command {
        command.allow_negative_numbers(true).mut_subcommands(with_numbers)
    }
    with_numbers(Cli::command())
}

/// An error and its causes; what one says already is not said twice. The line of a file that it is about stands below.
fn words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    let mut excerpt = None;
    for cause in error.chain() {
        let text = cause.to_string();
        let whole = format!("{cause:#}");
        let below = whole.strip_prefix(&text).filter(|below| below.starts_with('\n'));
        excerpt = excerpt.or(below.map(str::to_owned));
        if words.contains(&text) {
            continue;
        }
        if !words.is_empty() {
            words += ": ";
        }
        words += &text;
    }
    words + &excerpt.unwrap_or_default()
}

fn run(command: &commands::Command) -> anyhow::Result<Exit> {
    // What `coordinator run` logs is chosen by its own options.
    let _logs = match command.logs_itself() {
        true => None,
        false => logs::install_verbose()?,
    };
    command.run()
}

/// Runs the program with these arguments, of which the first is its name, and returns its exit status.
///
/// Help, the version and mistakes in the arguments end the process itself.
pub fn run_program(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let matches = command_line().get_matches_from(arguments);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if cli.verbosity.quiet {
        console::enable_quiet();
    }
    logs::set_verbosity(cli.verbosity.verbose);
    // Panics inside objectives are caught and recorded as failed trials; one that comes up to here is our mistake.
    let panics = console::collect_panics();
    let exit = match catch_unwind(AssertUnwindSafe(|| run(&cli.command))) {
        Ok(Ok(exit)) => exit,
        Ok(Err(error)) => {
            console::note(&format!("error: {}", without_passwords(&words(&error))));
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
    exit.status()
}

/// An error of a command whose answer was asked for, in words.
#[derive(Debug)]
pub struct Unanswered {
    /// The fault, and the way out.
    pub message: String,
    /// True if what was given cannot be used.
    pub is_input: bool,
}

/// The JSON document of a command that only computes one (`privacy epsilon`, `noise`, `plan` and `statement`, `agent status`,
/// `peer status`), without
/// printing it. Of the arguments, the first is the program's name.
///
/// # Errors
/// If the arguments name no such command, or the command has no answer to them.
pub fn answer(arguments: impl IntoIterator<Item = OsString>) -> Result<String, Unanswered> {
    let mistake =
        |error: clap::Error| Unanswered { message: first_line(&error.to_string()), is_input: true };
    let matches = command_line().try_get_matches_from(arguments).map_err(mistake)?;
    let cli = Cli::from_arg_matches(&matches).map_err(mistake)?;
    let answer = cli.command.answer().unwrap_or_else(|| {
        Err(exit::BadInput("this command has no answer beside what it does".to_owned()).into())
    });
    answer.map_err(|error| Unanswered {
        message: without_passwords(&words(&error)),
        is_input: Exit::of(&error) == Exit::Input,
    })
}

/// The mistake in the arguments, without advice for terminals.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Variables that the program reads and that say nothing secret: commands may see them (INV-26).
    const PUBLIC: [&str; 3] = ["FEDBO_LOG", "FEDBO_COORDINATOR", "FEDBO_HELPER"];

    fn variables(command: &clap::Command, found: &mut Vec<std::ffi::OsString>) {
        found.extend(command.get_arguments().filter_map(|a| a.get_env().map(Into::into)));
        for each in command.get_subcommands() {
            variables(each, found);
        }
    }

    #[test]
    fn every_variable_is_public_or_kept_from_commands() {
        let mut found = Vec::new();
        variables(&Cli::command(), &mut found);
        assert!(found.iter().any(|name| name == "FEDBO_TOKEN"), "{found:?}");
        for name in found {
            let is_public = PUBLIC.iter().any(|public| name == *public);
            assert_ne!(is_public, fedbo_objective::is_secret(&name), "{}", name.display());
        }
    }
}
