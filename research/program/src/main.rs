//! The program `fedbo-research`: the experiments of the papers on which fedbo is based, and their
//! data sets.

mod data;
mod display;
mod list;
mod run;

use std::ffi::OsString;
use std::process::ExitCode;

use fedbo_documents::exit::{ExitOf, exit_of};
use fedbo_experiments::catalogue::PeersUnusable;
use fedbo_research_problems::data_sets::OriginalError;
use fedbo_research_problems::{DataError, ProblemError, ResearchProblems};

/// Run the experiments of the papers on which fedbo is built
#[derive(clap::Parser)]
#[command(name = "fedbo-research", version, after_help = fedbo_console::HELP, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Show only results, warnings and errors, no progress
    #[arg(long, short, global = true, display_order = 1000)]
    quiet: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    List(list::List),
    Run(run::Run),
    #[command(subcommand)]
    Data(data::Data),
    /// Run a `fedbo` command; its files can also name the problems of the papers
    ///
    /// Example: `fedbo-research fedbo run research/examples/wine.toml`.
    #[command(disable_help_flag = true)]
    Fedbo {
        /// The command with its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    fedbo_cli::set_problems(&ResearchProblems);
    let cli = <Cli as clap::Parser>::parse();
    let status = match &cli.command {
        Command::Fedbo { arguments } => {
            let name = OsString::from("fedbo");
            fedbo_cli::run_program(std::iter::once(name).chain(arguments.iter().cloned()))
        }
        command => fedbo_cli::guarded(cli.quiet, &EXITS, || match command {
            Command::List(command) => command.run(),
            Command::Run(command) => command.run(),
            Command::Data(command) => command.run(),
            Command::Fedbo { .. } => unreachable!("handled above"),
        }),
    };
    ExitCode::from(status)
}

/// Exit codes for the error types of this workspace.
const EXITS: [ExitOf; 4] = [
    exit_of::<DataError>,
    exit_of::<OriginalError>,
    exit_of::<PeersUnusable>,
    exit_of::<ProblemError>,
];
