//! The subcommands, one module each.

mod agent;
mod ask;
mod best;
mod completions;
pub(crate) mod coordinator;
mod correct;
mod dashboard;
mod dev;
mod discard;
mod enqueue;
mod export;
mod found;
mod helper;
mod import;
mod man;
mod outcome_args;
mod peer;
mod plot;
pub(crate) mod privacy;
mod release;
mod report;
mod retry;
mod run;
mod serve;
mod stop;
mod storage;
mod tell;
pub(crate) mod tls_options;
pub(crate) mod topology;
mod trials;
mod tune;

use std::path::Path;
use std::sync::OnceLock;

use fedbo_objective::Problems;
use fedbo_report::{ReportError, Summary, closing_table};

use fedbo_console as console;
use fedbo_console::{BadInput, Exit};

/// Problems registered by a program that has more than the built-in ones.
static PROBLEMS: OnceLock<&'static dyn Problems> = OnceLock::new();

/// Registers the problems that files may refer to. Call this at most once, before any command runs.
///
/// # Panics
/// If called twice.
pub fn set_problems(problems: &'static dyn Problems) {
    assert!(PROBLEMS.set(problems).is_ok(), "the problems are set once");
}

/// Returns the problems that files may refer to: the built-in ones, unless [`set_problems`]
/// registered others.
#[must_use]
pub fn problems() -> &'static dyn Problems {
    PROBLEMS.get().copied().unwrap_or(&fedbo_problems::BuiltInProblems)
}

/// Play games: needs a program built with --features games
#[cfg(not(feature = "games"))]
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct NoGames {
    /// Ignored arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _words: Vec<std::ffi::OsString>,
}

#[cfg(not(feature = "games"))]
impl NoGames {
    fn run(&self) -> anyhow::Result<Exit> {
        Err(without_games())
    }
}

/// Returns the error of a game command in a build without games.
#[cfg(not(feature = "games"))]
fn without_games() -> anyhow::Error {
    let message = "this program was built without games; released programs have them, and in a clone: \
                   cargo install --path crates/cli --features games";
    BadInput(message.to_owned()).into()
}

/// The command to run.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Tune(tune::Tune),
    Ask(ask::Ask),
    Tell(tell::Tell),
    Report(report::Report),
    Enqueue(enqueue::Enqueue),
    Release(release::Release),
    Retry(retry::Retry),
    Correct(correct::Correct),
    Discard(discard::Discard),
    Stop(stop::Stop),
    Trials(trials::Trials),
    Best(best::Best),
    Export(export::Export),
    Import(import::Import),
    Plot(plot::Plot),
    Dashboard(dashboard::Dashboard),
    Serve(serve::Serve),
    #[command(subcommand)]
    Storage(storage::Storage),
    #[cfg(feature = "games")]
    Play(fedbo_game_commands::Play),
    #[cfg(feature = "games")]
    #[command(subcommand)]
    Game(fedbo_game_commands::Game),
    #[cfg(not(feature = "games"))]
    #[command(hide = true)]
    Play(NoGames),
    #[cfg(not(feature = "games"))]
    #[command(hide = true)]
    Game(NoGames),
    Run(run::Run),
    #[command(subcommand)]
    Privacy(privacy::Privacy),
    #[command(subcommand)]
    Coordinator(coordinator::Coordinator),
    #[command(subcommand)]
    Helper(helper::Helper),
    #[command(subcommand)]
    Agent(agent::Agent),
    Peer(peer::Peer),
    #[command(subcommand)]
    Topology(topology::Topology),
    #[command(subcommand)]
    Dev(dev::Dev),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Command {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        match self {
            Self::Tune(command) => command.run(),
            Self::Ask(command) => command.run(),
            Self::Tell(command) => command.run(),
            Self::Report(command) => command.run(),
            Self::Enqueue(command) => command.run(),
            Self::Release(command) => command.run(),
            Self::Retry(command) => command.run(),
            Self::Correct(command) => command.run(),
            Self::Discard(command) => command.run(),
            Self::Stop(command) => command.run(),
            Self::Trials(command) => command.run(),
            Self::Best(command) => command.run(),
            Self::Export(command) => command.run(),
            Self::Import(command) => command.run(),
            Self::Storage(command) => command.run(),
            Self::Play(command) => command.run(),
            Self::Game(command) => command.run(),
            Self::Run(command) => command.run(),
            Self::Plot(command) => command.run(),
            Self::Dashboard(command) => command.run(),
            Self::Serve(command) => command.run(),
            Self::Privacy(command) => command.run(),
            Self::Coordinator(command) => command.run(),
            Self::Helper(command) => command.run(),
            Self::Agent(command) => command.run(),
            Self::Peer(command) => command.run(),
            Self::Topology(command) => command.run(),
            Self::Dev(command) => command.run(),
            Self::Completions(command) => command.run(),
            Self::Man(command) => command.run(),
        }
    }

    /// Returns the document printed by `--json`, or `None` if the command does not support this.
    pub(crate) fn answer(&self) -> Option<anyhow::Result<String>> {
        match self {
            Self::Agent(command) => command.answer(),
            Self::Peer(command) => command.answer(),
            Self::Privacy(command) => command.answer(),
            _ => None,
        }
    }

    /// Returns true if the command has its own log options.
    pub(crate) fn logs_itself(&self) -> bool {
        matches!(
            self,
            Self::Coordinator(coordinator::Coordinator::Run(_))
                | Self::Helper(helper::Helper::Run(_))
        )
    }
}

/// Parses an address to listen on.
fn parse_listen(text: &str) -> Result<std::net::SocketAddr, String> {
    let expected = "expected an IP address and a port, for instance 127.0.0.1:7433 or [::1]:7433";
    text.parse().map_err(|_| expected.to_owned())
}

/// Parses a number of worker threads, from 1 to 1024.
///
/// # Errors
/// If `text` is not an integer in this range.
pub fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=1024) => Ok(threads),
        _ => Err("expected a number from 1 to 1024".to_owned()),
    }
}

/// Prints a summary as JSON or as the closing table.
///
/// # Errors
/// If standard output cannot be written.
pub fn print_summary(summary: &Summary, json: bool) -> anyhow::Result<()> {
    if json {
        console::result(&serde_json::to_string_pretty(summary)?)?;
    } else {
        let table = closing_table(summary, console::width());
        console::table(&table, None)?;
    }
    Ok(())
}

/// Adds the command's remedies, `ways`, to an error about existing results. Returns other errors
/// unchanged.
#[must_use]
pub fn add_remedies(error: anyhow::Error, ways: &str) -> anyhow::Error {
    match exists(&error) {
        Some(path) => {
            BadInput(format!("{} holds the results of another run; {ways}", path.display())).into()
        }
        None => error,
    }
}

fn exists(error: &anyhow::Error) -> Option<&Path> {
    use fedbo_runner::federation::RunError;
    let report = error.downcast_ref::<ReportError>().or_else(|| match error.downcast_ref() {
        Some(RunError::Report(report)) => Some(report),
        _ => None,
    });
    match report {
        Some(ReportError::ResultsExist { path }) => Some(path),
        _ => None,
    }
}
