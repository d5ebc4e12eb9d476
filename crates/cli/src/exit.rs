//! Exit codes, and which of them an error leads to. Documented in docs/exit-codes.md too.

use fedbo_config::FileError;
use fedbo_coordinator::store::StoreError;
use fedbo_coordinator::{BackupError, HomeError, ServiceError};
use fedbo_ledger::LedgerError;
use fedbo_objective::CommandError;
use fedbo_peer::PeerError;
use fedbo_play::PlayError;
use fedbo_report::ReportError;
use fedbo_runner::federation::RunError;
use fedbo_space::SpaceError;
use fedbo_storage::StorageError;
use fedbo_strategies::StrategyError;
use fedbo_study::{ImportError, StudyError};
use fedbo_transport::{KeyError, LinkError};

use crate::console::OutputClosed;
use crate::export::mlflow::MlflowError;

/// The table in `fedbo --help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done
  1    internal error
  2    wrong usage, or a file, setting, command, study or data folder that cannot be used
  3    a privacy budget is spent
  4    results cannot be written: read-only folder, disk full
  5    every trial failed, or too many in a row
  6    a coordinator or neighbour cannot be reached, refuses, or is not to be trusted
  7    a player of a game, or its payoffs, failed; the rounds before are kept
  130  interrupted (Ctrl-C, SIGTERM, SIGHUP); finished trials are kept";

/// The end of the program, as its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// A mistake of this program.
    Internal = 1,
    /// Wrong usage, or an input that cannot be used.
    Input = 2,
    /// A privacy budget is spent.
    BudgetSpent = 3,
    /// Results cannot be written.
    Output = 4,
    /// Every trial failed, or too many in a row.
    NoTrial = 5,
    /// A coordinator or neighbour cannot be reached, refuses, or is not to be trusted.
    Coordinator = 6,
    /// A player of a game, or its payoffs, failed.
    Game = 7,
    /// Interrupted by a signal.
    Interrupted = 130,
}

/// An input that cannot be used, in words of its own.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

impl Exit {
    /// The code that an error leads to, by the first cause that tells.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        error.chain().find_map(Self::of_cause).unwrap_or(Self::Internal)
    }

    fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Self> {
        if cause.is::<FileError>()
            || cause.is::<BadInput>()
            || is_of_a_problem(cause)
            || cause.is::<CommandError>()
            || cause.is::<fedbo_servers::NoSum>()
            || cause.is::<SpaceError>()
            || cause.is::<ImportError>()
        {
            return Some(Self::Input);
        }
        if cause.is::<OutputClosed>() {
            return Some(Self::Output);
        }
        if let Some(error) = cause.downcast_ref::<ReportError>() {
            return Some(Self::of_report(error));
        }
        if let Some(error) = cause.downcast_ref::<StorageError>() {
            return Some(Self::of_storage(error));
        }
        if let Some(error) = cause.downcast_ref::<LedgerError>() {
            return Some(Self::of_ledger(error));
        }
        if let Some(error) = cause.downcast_ref::<StoreError>() {
            return Some(Self::of_store(error));
        }
        if let Some(error) = cause.downcast_ref::<HomeError>() {
            return Some(match error {
                HomeError::Refused { .. } => Self::Output,
                HomeError::Store(error) => Self::of_store(error),
                HomeError::Key(KeyError::Refused { .. }) => Self::Output,
                HomeError::Randomness(_) | HomeError::Key(KeyError::NoRandomness(_)) => {
                    Self::Internal
                }
                _ => Self::Input,
            });
        }
        if let Some(error) = cause.downcast_ref::<BackupError>() {
            return match error {
                BackupError::Write { .. } => Some(Self::Output),
                BackupError::Home(error) => Self::of_cause(error),
                BackupError::Store(error) => Some(Self::of_store(error)),
                BackupError::Ledger(error) => Some(Self::of_ledger(error)),
            };
        }
        if let Some(error) = cause.downcast_ref::<ServiceError>() {
            return Some(match error {
                ServiceError::Store(error) => Self::of_store(error),
                _ => Self::Input,
            });
        }
        if cause.is::<fedbo_transport::ListenError>() {
            return Some(Self::Input);
        }
        if let Some(error) = cause.downcast_ref::<fedbo_agent::EnrolError>() {
            return Some(Self::of_enrolment(error));
        }
        if let Some(error) = cause.downcast_ref::<fedbo_helper::HelperError>() {
            return Some(Self::of_helper(error));
        }
        if let Some(error) = cause.downcast_ref::<fedbo_helper::JoinError>() {
            use fedbo_helper::JoinError;
            return Some(match error {
                JoinError::Link { source: LinkError::Setting(_), .. } => Self::Input,
                JoinError::Link { .. } | JoinError::Impostor { .. } => Self::Coordinator,
                JoinError::Helper(error) => Self::of_helper(error),
                _ => Self::Input,
            });
        }
        if let Some(error) = cause.downcast_ref::<fedbo_helper::ServiceError>() {
            return Some(match error {
                fedbo_helper::ServiceError::Helper(error) => Self::of_helper(error),
                fedbo_helper::ServiceError::Listen(_) => Self::Input,
            });
        }
        if let Some(error) = cause.downcast_ref::<fedbo_agent::RotateError>() {
            return Some(match error {
                fedbo_agent::RotateError::Home(error) => Self::of_agent_home(error),
                fedbo_agent::RotateError::Link { .. } => Self::Coordinator,
                _ => Self::Input,
            });
        }
        if let Some(error) = cause.downcast_ref::<fedbo_agent::RunError>() {
            return Self::of_agent(error);
        }
        if let Some(error) = cause.downcast_ref::<MlflowError>() {
            return Some(match error {
                MlflowError::Unreachable { cause: LinkError::Setting(_), .. } => Self::Input,
                _ => Self::Coordinator,
            });
        }
        if let Some(error) = cause.downcast_ref::<PeerError>() {
            return Some(Self::of_peer(error));
        }
        if let Some(error) = cause.downcast_ref::<StudyError>() {
            return Some(Self::of_study(error));
        }
        if let Some(error) = cause.downcast_ref::<PlayError>() {
            return Some(Self::of_game(error));
        }
        match cause.downcast_ref::<RunError>()? {
            RunError::Report(error) => Some(Self::of_report(error)),
            RunError::Ledger(error) => Some(Self::of_ledger(error)),
            RunError::NotPaid(_) => Some(Self::BudgetSpent),
            RunError::TooFewAgents { .. }
            | RunError::UnknownArm { .. }
            | RunError::RepeatedArm { .. }
            | RunError::RunsSpend { .. }
            | RunError::NothingToResume { .. }
            | RunError::LedgerExists { .. }
            | RunError::LedgerMissing { .. }
            | RunError::LedgerSetBack { .. }
            | RunError::HeadMissing { .. }
            | RunError::NoStart { .. }
            | RunError::AnotherRun { .. }
            | RunError::Command { .. } => Some(Self::Input),
            _ => Some(Self::Internal),
        }
    }

    fn of_report(error: &ReportError) -> Self {
        match error {
            ReportError::CreateFolder { .. } | ReportError::Write { .. } => Self::Output,
            ReportError::NotFinite { .. } | ReportError::Draw { .. } => Self::Internal,
            _ => Self::Input,
        }
    }

    fn of_enrolment(error: &fedbo_agent::EnrolError) -> Self {
        use fedbo_agent::EnrolError;
        match error {
            EnrolError::Link { .. }
            | EnrolError::Impostor { .. }
            | EnrolError::OtherHelper { .. } => Self::Coordinator,
            EnrolError::Home(error) => Self::of_agent_home(error),
            _ => Self::Input,
        }
    }

    fn of_helper(error: &fedbo_helper::HelperError) -> Self {
        use fedbo_helper::HelperError;
        match error {
            HelperError::Home(error) => Self::of_agent_home(error),
            HelperError::Ledger(error) => Self::of_ledger(error),
            HelperError::Noise(_) => Self::Internal,
            _ => Self::Input,
        }
    }

    fn of_agent(error: &fedbo_agent::RunError) -> Option<Self> {
        use fedbo_agent::RunError;
        use fedbo_party::TrialsError;
        Some(match error {
            RunError::Home(error) => Self::of_agent_home(error),
            RunError::Trials(TrialsError::Storage(error)) => Self::of_storage(error),
            RunError::Trials(TrialsError::Study(error)) => Self::of_study(error),
            RunError::Misconduct(_) | RunError::Refused { .. } | RunError::Link(_) => {
                Self::Coordinator
            }
            RunError::NoRandomness { .. } | RunError::NoThread { .. } | RunError::Agent(_) => {
                Self::Internal
            }
            RunError::Failing { .. } => Self::NoTrial,
            _ => Self::Input,
        })
    }

    fn of_peer(error: &PeerError) -> Self {
        use fedbo_party::{EvaluationError, TrialsError};
        use fedbo_peer::OtherHome;
        match error {
            PeerError::Home(OtherHome::Home(error)) => Self::of_agent_home(error),
            PeerError::Memory(_) => Self::Output,
            PeerError::Trials(error) | PeerError::Evaluation(EvaluationError::Trials(error)) => {
                match error {
                    TrialsError::Storage(error) => Self::of_storage(error),
                    TrialsError::Study(error) => Self::of_study(error),
                    _ => Self::Input,
                }
            }
            PeerError::Impostor { .. }
            | PeerError::Unexpected { .. }
            | PeerError::OtherFile { .. }
            | PeerError::Refused { .. }
            | PeerError::SetBack { .. }
            | PeerError::Link { .. } => Self::Coordinator,
            PeerError::Threads(_) | PeerError::NoRandomness(_) | PeerError::Machine(_) => {
                Self::Internal
            }
            _ => Self::Input,
        }
    }

    fn of_agent_home(error: &fedbo_party::HomeError) -> Self {
        match error {
            fedbo_party::HomeError::Folder { .. } | fedbo_party::HomeError::Refused { .. } => {
                Self::Output
            }
            _ => Self::Input,
        }
    }

    fn of_store(error: &StoreError) -> Self {
        match error {
            StoreError::Refused { .. } => Self::Output,
            _ => Self::Input,
        }
    }

    fn of_storage(error: &StorageError) -> Self {
        match error {
            StorageError::Write { .. } | StorageError::Gone { .. } => Self::Output,
            _ => Self::Input,
        }
    }

    fn of_ledger(error: &LedgerError) -> Self {
        match error {
            LedgerError::BudgetSpent(_) => Self::BudgetSpent,
            LedgerError::Write { .. }
            | LedgerError::Gone { .. }
            | LedgerError::Superseded { .. }
            | LedgerError::Stopped { .. } => Self::Output,
            LedgerError::RoundPassed { .. }
            | LedgerError::TooLarge { .. }
            | LedgerError::Event(_) => Self::Internal,
            _ => Self::Input,
        }
    }

    fn of_game(error: &PlayError) -> Self {
        match error {
            PlayError::Player { .. } | PlayError::Payoffs { .. } | PlayError::Repeatedly { .. } => {
                Self::Game
            }
            PlayError::Refused { .. } | PlayError::Gone { .. } => Self::Output,
            PlayError::Mind { .. } | PlayError::Game(_) => Self::Internal,
            _ => Self::Input,
        }
    }

    fn of_study(error: &StudyError) -> Self {
        match error {
            StudyError::Storage(error) => Self::of_storage(error),
            StudyError::Unstored { .. } => Self::Output,
            StudyError::Overtaken { .. } => Self::Internal,
            StudyError::Strategy(error) => match error {
                StrategyError::Exhausted { .. } | StrategyError::Setting { .. } => Self::Input,
                _ => Self::Internal,
            },
            _ => Self::Input,
        }
    }
}

/// Returns true if an experiment's problem or its data cannot be used.
#[cfg(feature = "research")]
fn is_of_a_problem(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.is::<fedbo_problems::ProblemError>()
        || cause.is::<fedbo_problems::DataError>()
        || cause.is::<fedbo_problems::data_sets::OriginalError>()
        || cause.is::<fedbo_experiments::catalogue::PeersUnusable>()
}

#[cfg(not(feature = "research"))]
fn is_of_a_problem(_: &(dyn std::error::Error + 'static)) -> bool {
    false
}

impl Exit {
    /// The status that a shell sees.
    pub(crate) fn status(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_the_help_says() {
        let page = include_str!("../../../docs/exit-codes.md");
        for line in HELP.lines().skip(1) {
            let (code, meaning) = line.trim().split_once(' ').expect("a code and a meaning");
            let row = format!("| {code} | {} |", meaning.trim());
            assert!(page.contains(&row), "{row}");
        }
    }

    #[test]
    fn a_cause_deep_in_a_chain_is_found() {
        let denied = ReportError::Write {
            path: "/x".into(),
            cause: std::io::ErrorKind::PermissionDenied.into(),
        };
        assert_eq!(Exit::of(&anyhow::Error::new(denied).context("while writing")), Exit::Output);
        let full = StorageError::Write {
            place: "study.db".into(),
            message: "the disk is full".to_owned(),
        };
        let lost = StudyError::Unstored {
            number: 3,
            told: fedbo_storage::Told::Value(0.5),
            cause: full.clone(),
        };
        for error in [StudyError::from(full), lost] {
            assert_eq!(Exit::of(&error.into()), Exit::Output);
        }
        let moved = StorageError::Gone { place: "study.db".into() };
        assert_eq!(Exit::of(&StudyError::from(moved).into()), Exit::Output);
        let not_there = StudyError::Objective { message: "cannot start".to_owned() };
        assert_eq!(Exit::of(&not_there.into()), Exit::Input);
        let absent = StorageError::Absent { place: "study.db".into() };
        assert_eq!(Exit::of(&StudyError::from(absent).into()), Exit::Input);
        assert_eq!(Exit::of(&anyhow::anyhow!("?")), Exit::Internal);
    }
}
