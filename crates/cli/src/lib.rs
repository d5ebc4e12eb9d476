//! The `fedbo` program: federated Bayesian optimization from the command line. The program is a
//! library so that the Python package can embed it.
//!
//! This crate defines the program's interface: arguments, progress, exit codes and signals. Results
//! go to standard output, everything else to standard error. Other crates do all the computation.

mod advice;
mod alignment;
mod commands;
mod core_dumps;
mod logs;
#[cfg(feature = "otlp")]
mod otlp;
mod progress;
mod study_display;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::{CommandFactory, FromArgMatches, Parser};

pub use commands::{add_remedies, parse_threads, print_summary, problems, set_problems};

use fedbo_console::text::without_passwords;
use fedbo_console::{self as console, Exit};
use fedbo_documents::error_text;
use fedbo_documents::exit::{self, ExitOf};

/// Maps errors of games to exit codes. Empty in a build without games.
#[cfg(feature = "games")]
const GAMES: &[ExitOf] = &[fedbo_game_commands::exit_of];
#[cfg(not(feature = "games"))]
const GAMES: &[ExitOf] = &[];

/// Federated Bayesian optimization: many parties tune together without showing their data
#[derive(Parser)]
#[command(name = "fedbo", version, after_help = fedbo_console::HELP, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
    #[command(flatten)]
    verbosity: Verbosity,
}

/// Options that set the amount of output on standard error.
#[derive(clap::Args)]
struct Verbosity {
    /// Show only results, warnings and errors, no progress
    #[arg(long, short, global = true, display_order = 1000)]
    quiet: bool,
    /// Log details on standard error: commands that are run, requests that are sent; -vv logs even
    /// more
    #[arg(long, short, global = true, display_order = 1000, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
}

/// Returns the definition of the full command line, which is used for parsing, completions and
/// manual pages.
fn command_line() -> clap::Command {
    /// Accepts negative numbers as values in all subcommands. The value parser of the argument then
    /// checks them; otherwise clap would reject them as unknown options.
    fn with_numbers(command: clap::Command) -> clap::Command {
        command.allow_negative_numbers(true).mut_subcommands(with_numbers)
    }
    with_numbers(Cli::command())
}

fn run(command: &commands::Command) -> anyhow::Result<Exit> {
    // `coordinator run` and `helper run` have their own log options.
    let _logs = match command.logs_itself() {
        true => None,
        false => logs::install_verbose()?,
    };
    command.run()
}

/// Runs the program and returns its exit status. The first of the `arguments` is the program's
/// name.
///
/// Exits the process directly for `--help`, `--version` and invalid arguments.
pub fn run_program(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let matches = command_line().get_matches_from(arguments);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    logs::set_verbosity(cli.verbosity.verbose);
    guarded(cli.verbosity.quiet, GAMES, || run(&cli.command))
}

/// Runs a command and returns the exit status. Prints errors and catches panics. `exits` maps the
/// calling program's own error types to exit codes.
pub fn guarded(is_quiet: bool, exits: &[ExitOf], run: impl FnOnce() -> anyhow::Result<Exit>) -> u8 {
    if is_quiet {
        console::enable_quiet();
    }
    // Panics in objectives are caught earlier and recorded as failed trials. A panic that reaches
    // this point is a bug in this program.
    let panics = console::collect_panics();
    let exit = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(exit)) => exit,
        Ok(Err(error)) => {
            console::note(&format!("error: {}", without_passwords(&error_text(&error))));
            exit::of(&error, exits)
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

/// Error returned by [`answer`].
#[derive(Debug)]
pub struct AnswerError {
    /// Description of the error and its remedy.
    pub message: String,
    /// True if the input is invalid.
    pub is_input: bool,
}

/// Runs a command without side effects and returns its JSON document instead of printing it.
///
/// Supports `privacy epsilon`, `noise`, `plan` and `statement`, `agent status` and `peer status`.
/// The first argument is the program's name.
///
/// # Errors
/// If the arguments do not name one of these commands, or the command fails.
pub fn answer(arguments: impl IntoIterator<Item = OsString>) -> Result<String, AnswerError> {
    let mistake = |error: clap::Error| AnswerError {
        message: first_line(&error.to_string()),
        is_input: true,
    };
    let matches = command_line().try_get_matches_from(arguments).map_err(mistake)?;
    let cli = Cli::from_arg_matches(&matches).map_err(mistake)?;
    let answer = cli.command.answer().unwrap_or_else(|| {
        Err(console::BadInput(
            "only privacy epsilon, noise, plan and statement, agent status and peer status return a document".to_owned(),
        )
        .into())
    });
    answer.map_err(|error| AnswerError {
        message: without_passwords(&error_text(&error)),
        is_input: exit::of(&error, GAMES) == Exit::Input,
    })
}

/// Returns the first line of an error message of clap, without the prefix `error: `. The usage
/// hints on further lines are omitted.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Variables that contain no secrets, so that commands may inherit them (INV-26).
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
