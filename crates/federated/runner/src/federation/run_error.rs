//! The reasons why a run could not go on.

use std::path::PathBuf;

use fedbo_config::FileError;
use fedbo_gp::GpError;
use fedbo_ledger::LedgerError;
use fedbo_objective::CommandError;
use fedbo_protocol::AgentError;
use fedbo_report::ReportError;
use fedbo_strategies::StrategyError;

use crate::session::SessionError;
use fedbo_federation::{Arm, names};

/// The reason why a run could not go on. The trials that were finished before are in the results folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An arm in which agents learn from each other has one agent.
    #[error(
        "arm {arm} needs at least 2 agents that learn from each other; add an [[agents]] table, or run ts"
    )]
    TooFewAgents {
        /// The arm.
        arm: Arm,
    },
    /// The file has no such arm.
    #[error("arm {arm} is none of this file's, which are {}", names(known))]
    UnknownArm {
        /// The arm.
        arm: Arm,
        /// The arms that there are.
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
    /// The folder to go on from holds no results.
    #[error(
        "{} holds nothing to go on from; leave out --resume to begin there, or name the folder of the interrupted run with \
         --out DIR", path.display()
    )]
    NothingToResume {
        /// The folder.
        path: PathBuf,
    },
    /// Repetitions would charge a budget once each.
    #[error(
        "--runs {runs} would release {runs} times what the budget pays for once: repetitions of arm {arm} spend anew of the same \
         agents' privacy. Leave out --runs, repeat the arms that are not charged with --arms ts,placebo, or try it out with \
         [privacy] simulate = true, which protects nobody and charges nothing"
    )]
    RunsSpend {
        /// The number of runs.
        runs: u32,
        /// The arm that is charged.
        arm: Arm,
    },
    /// The results to go on from are those of another file or command.
    #[error("cannot go on from {}: {message}", path.display())]
    AnotherRun {
        /// The results.
        path: PathBuf,
        /// The difference.
        message: String,
    },
    /// The budget pays for no release at all.
    #[error(transparent)]
    NotPaid(FileError),
    /// A folder's ledger would be overwritten, or mixed with another run's results.
    #[error(
        "{} records what releases have cost, which stays spent whatever becomes of it; go on with --resume, choose another \
         folder with --out DIR, or give --overwrite --spend-again, which keeps it under another name and spends anew", path.display()
    )]
    LedgerExists {
        /// The ledger.
        path: PathBuf,
    },
    /// The ledger of the results in the folder is not there.
    #[error(
        "{} is missing, and the results beside it rest on what it charged; put it back, with the file of the same name ending in \
         -wal if there was one{}, or begin anew in another folder with --out DIR, which spends anew", path.display(),
         aside.as_ref().map_or_else(String::new, |aside| format!(
             " ({} was set aside by --overwrite; if these are its results, give it back its name)", aside.display()
         ))
    )]
    LedgerMissing {
        /// The path at which it was.
        path: PathBuf,
        /// The last one that was set aside.
        aside: Option<PathBuf>,
    },
    /// The head file, by which a ledger that was set back is recognized, is missing.
    #[error(
        "{} is missing beside a ledger with {found} releases, so it cannot be told whether that was set back; put the file back, or \
         write into it the last head that you know, SEQ:HASH, as `fedbo privacy statement` printed it", path.display()
    )]
    HeadMissing {
        /// The file.
        path: PathBuf,
        /// Releases in the ledger.
        found: u64,
    },
    /// The ledger ends before what is known to have been released.
    #[error(
        "{} holds {found} releases, and the results beside it rest on {expected}: it was set back or replaced, so what was \
         spent is not known from it; put back the ledger of these results, as it was last", path.display()
    )]
    LedgerSetBack {
        /// The ledger.
        path: PathBuf,
        /// Releases in it.
        found: u64,
        /// Releases that there were at least.
        expected: u64,
    },
    /// The ledger cannot be used, or refuses.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// No initial point was found in an agent's region.
    #[error(
        "agent {agent:?}: no point of its region was found to begin with; set exploration.start = \"anywhere\", or fewer regions"
    )]
    NoStart {
        /// The agent's name.
        agent: String,
    },
    /// The results folder cannot be used.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A command that was there when the file was checked is not there any more.
    #[error("agent {agent:?}: {source}")]
    Command {
        /// The agent's name.
        agent: String,
        /// The fault of the command.
        source: Box<CommandError>,
    },
    /// An agent has nothing to tune in the file.
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
    /// Something that should not happen.
    #[error(transparent)]
    Other(anyhow::Error),
}

impl From<SessionError> for RunError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Agent(error) => Self::Agent(error),
            // What our own observer or ledger answered comes back as it was.
            SessionError::Observer(error) | SessionError::Store { source: error, .. } => {
                error.downcast::<Self>().unwrap_or_else(Self::Other)
            }
            other => Self::Other(other.into()),
        }
    }
}
