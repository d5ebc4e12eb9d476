//! Errors of a run.

use std::path::PathBuf;

use fedbo_config::FileError;
use fedbo_error_class::{Class, Classified};
use fedbo_gp::GpError;
use fedbo_ledger::LedgerError;
use fedbo_objective::CommandError;
use fedbo_protocol::AgentError;
use fedbo_report::ReportError;
use fedbo_strategies::StrategyError;

use crate::session::SessionError;
use fedbo_federation::{Arm, names};

/// The reason that a run failed. Trials that finished before the failure are in the results folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An arm in which agents learn from each other has only one agent.
    #[error(
        "arm {arm} needs at least 2 agents that learn from each other; add an [[agents]] table, or run ts"
    )]
    TooFewAgents {
        /// The arm.
        arm: Arm,
    },
    /// The file has no such arm.
    #[error("arm {arm} is not an arm of this file, which has {}", names(known))]
    UnknownArm {
        /// The arm.
        arm: Arm,
        /// The arms of the file.
        known: Vec<Arm>,
    },
    /// An arm is named twice.
    #[error("arm {arm} is named twice; name each arm once")]
    RepeatedArm {
        /// The arm.
        arm: Arm,
    },
    /// The file cannot be read again.
    #[error(transparent)]
    File(FileError),
    /// The folder to resume from contains no results.
    #[error(
        "{} holds nothing to resume; leave out --resume to start there, or name the folder of the interrupted run with \
         --out DIR", path.display()
    )]
    NothingToResume {
        /// The folder.
        path: PathBuf,
    },
    /// Each repetition would charge the budget.
    #[error(
        "--runs {runs} would release {runs} times, but the budget pays for once: each repetition of arm {arm} spends privacy of \
         the same agents again. Leave out --runs, repeat the arms that are not charged with --arms ts,placebo, or try it out \
         with [privacy] simulate = true, which protects nobody and charges nothing"
    )]
    RunsSpend {
        /// The number of runs.
        runs: u32,
        /// The arm that is charged.
        arm: Arm,
    },
    /// The results to resume from belong to a different file or command.
    #[error("cannot resume {}: {message}", path.display())]
    AnotherRun {
        /// The results.
        path: PathBuf,
        /// The difference.
        message: String,
    },
    /// The budget does not cover a single release.
    #[error(transparent)]
    NotPaid(FileError),
    /// The folder's ledger would be overwritten, or mixed with another run's results.
    #[error(
        "{} records the cost of releases, which stays spent even if the file is removed; continue with --resume, choose \
         another folder with --out DIR, or give --overwrite --spend-again, which keeps the file under another name and \
         spends again", path.display()
    )]
    LedgerExists {
        /// The ledger.
        path: PathBuf,
    },
    /// The ledger that belongs to the folder's results is missing.
    #[error(
        "{} is missing, but the results beside it depend on its charges; put it back, with the file of the same name ending in \
         -wal if there was one{}, or start again in another folder with --out DIR, which spends again", path.display(),
         aside.as_ref().map_or_else(String::new, |aside| format!(
             " ({} was set aside by --overwrite; if these are its results, restore its name)", aside.display()
         ))
    )]
    LedgerMissing {
        /// The expected path of the ledger.
        path: PathBuf,
        /// The last ledger that was set aside.
        aside: Option<PathBuf>,
    },
    /// The head file, which detects a rolled-back ledger, is missing.
    #[error(
        "{} is missing beside a ledger with {found} releases, so a rollback of the ledger cannot be detected; put the file back, or \
         write the last known head into it, SEQ:HASH, as `fedbo privacy statement` printed it", path.display()
    )]
    HeadMissing {
        /// The file.
        path: PathBuf,
        /// Number of releases in the ledger.
        found: u64,
    },
    /// The ledger lacks a release that is known to exist.
    #[error(
        "{} holds {found} releases, but the results beside it depend on {expected}: it was rolled back or replaced, so it \
         no longer shows the spending; put back the latest ledger of these results", path.display()
    )]
    LedgerSetBack {
        /// The ledger.
        path: PathBuf,
        /// Number of releases in the ledger.
        found: u64,
        /// Minimum number of releases that are known to exist.
        expected: u64,
    },
    /// The ledger cannot be used, or refuses a charge.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// No initial point was found in an agent's region.
    #[error(
        "agent {agent:?}: no initial point was found in its region; set exploration.start = \"anywhere\", or fewer regions"
    )]
    NoStart {
        /// The agent's name.
        agent: String,
    },
    /// The results folder cannot be used.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A command that existed when the file was checked is missing.
    #[error("agent {agent:?}: {source}")]
    Command {
        /// The agent's name.
        agent: String,
        /// The error of the command.
        source: Box<CommandError>,
    },
    /// An agent has no objective in the file.
    #[error("agent {agent:?} has nothing to tune; give it a command or a problem")]
    NoObjective {
        /// The agent's name.
        agent: String,
    },
    /// The shared features cannot be drawn.
    #[error("the shared features cannot be drawn: {0}")]
    Features(GpError),
    /// An agent's strategy cannot be built.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// An agent failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// Threads cannot be started.
    #[error("cannot start worker threads: {0}")]
    Threads(String),
    /// Any other error, which should not occur.
    #[error(transparent)]
    Other(anyhow::Error),
}

impl Classified for RunError {
    fn class(&self) -> Class {
        match self {
            Self::Report(error) => error.class(),
            Self::Ledger(error) => error.class(),
            Self::NotPaid(_) => Class::BudgetSpent,
            Self::TooFewAgents { .. }
            | Self::UnknownArm { .. }
            | Self::RepeatedArm { .. }
            | Self::RunsSpend { .. }
            | Self::NothingToResume { .. }
            | Self::LedgerExists { .. }
            | Self::LedgerMissing { .. }
            | Self::LedgerSetBack { .. }
            | Self::HeadMissing { .. }
            | Self::NoStart { .. }
            | Self::AnotherRun { .. }
            | Self::Command { .. } => Class::Input,
            _ => Class::Internal,
        }
    }
}

impl From<SessionError> for RunError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Agent(error) => Self::Agent(error),
            // Errors from this module's observer or ledger are passed through unchanged.
            SessionError::Observer(error) | SessionError::Store { source: error, .. } => {
                error.downcast::<Self>().unwrap_or_else(Self::Other)
            }
            other => Self::Other(other.into()),
        }
    }
}
