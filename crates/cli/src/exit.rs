//! Mapping from errors to exit codes.

use fedbo_config::FileError;
use fedbo_console::{BadInput, Exit, OutputClosed};
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

/// Returns the exit code of an error: that of the first cause which has one.
pub(crate) fn of(error: &anyhow::Error) -> Exit {
    error.chain().find_map(of_cause).unwrap_or(Exit::Internal)
}

fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if cause.is::<FileError>()
        || cause.is::<BadInput>()
        || cause.is::<CommandError>()
        || cause.is::<fedbo_servers::NoSum>()
        || cause.is::<SpaceError>()
        || cause.is::<ImportError>()
    {
        return Some(Exit::Input);
    }
    if cause.is::<OutputClosed>() {
        return Some(Exit::Output);
    }
    if let Some(error) = cause.downcast_ref::<ReportError>() {
        return Some(of_report(error));
    }
    if let Some(error) = cause.downcast_ref::<StorageError>() {
        return Some(of_storage(error));
    }
    if let Some(error) = cause.downcast_ref::<LedgerError>() {
        return Some(of_ledger(error));
    }
    if let Some(error) = cause.downcast_ref::<StoreError>() {
        return Some(of_store(error));
    }
    if let Some(error) = cause.downcast_ref::<HomeError>() {
        return Some(match error {
            HomeError::Refused { .. } => Exit::Output,
            HomeError::Store(error) => of_store(error),
            HomeError::Key(KeyError::Refused { .. }) => Exit::Output,
            HomeError::Randomness(_) | HomeError::Key(KeyError::NoRandomness(_)) => Exit::Internal,
            _ => Exit::Input,
        });
    }
    if let Some(error) = cause.downcast_ref::<BackupError>() {
        return match error {
            BackupError::Write { .. } => Some(Exit::Output),
            BackupError::Home(error) => of_cause(error),
            BackupError::Store(error) => Some(of_store(error)),
            BackupError::Ledger(error) => Some(of_ledger(error)),
        };
    }
    if let Some(error) = cause.downcast_ref::<ServiceError>() {
        return Some(match error {
            ServiceError::Store(error) => of_store(error),
            _ => Exit::Input,
        });
    }
    if cause.is::<fedbo_transport::ListenError>() {
        return Some(Exit::Input);
    }
    if let Some(error) = cause.downcast_ref::<fedbo_agent::EnrolError>() {
        return Some(of_enrolment(error));
    }
    if let Some(error) = cause.downcast_ref::<fedbo_helper::HelperError>() {
        return Some(of_helper(error));
    }
    if let Some(error) = cause.downcast_ref::<fedbo_helper::JoinError>() {
        use fedbo_helper::JoinError;
        return Some(match error {
            JoinError::Link { source: LinkError::Setting(_), .. } => Exit::Input,
            JoinError::Link { .. } | JoinError::Impostor { .. } => Exit::Coordinator,
            JoinError::Helper(error) => of_helper(error),
            _ => Exit::Input,
        });
    }
    if let Some(error) = cause.downcast_ref::<fedbo_helper::ServiceError>() {
        return Some(match error {
            fedbo_helper::ServiceError::Helper(error) => of_helper(error),
            fedbo_helper::ServiceError::Listen(_) => Exit::Input,
        });
    }
    if let Some(error) = cause.downcast_ref::<fedbo_agent::RotateError>() {
        return Some(match error {
            fedbo_agent::RotateError::Home(error) => of_agent_home(error),
            fedbo_agent::RotateError::Link { .. } => Exit::Coordinator,
            _ => Exit::Input,
        });
    }
    if let Some(error) = cause.downcast_ref::<fedbo_agent::MoveError>() {
        return Some(match error {
            fedbo_agent::MoveError::Home(error) => of_agent_home(error),
            fedbo_agent::MoveError::Link { .. } | fedbo_agent::MoveError::Impostor { .. } => {
                Exit::Coordinator
            }
            _ => Exit::Input,
        });
    }
    if let Some(error) = cause.downcast_ref::<fedbo_agent::ReconcileError>() {
        use fedbo_agent::ReconcileError;
        return Some(match error {
            ReconcileError::Home(error) => of_agent_home(error),
            ReconcileError::Link { source: LinkError::Setting(_), .. } => Exit::Input,
            ReconcileError::Link { .. } | ReconcileError::Misconduct { .. } => Exit::Coordinator,
            _ => Exit::Input,
        });
    }
    if let Some(error) = cause.downcast_ref::<fedbo_agent::RunError>() {
        return of_agent(error);
    }
    if let Some(error) = cause.downcast_ref::<PeerError>() {
        return Some(of_peer(error));
    }
    if let Some(error) = cause.downcast_ref::<StudyError>() {
        return Some(of_study(error));
    }
    if let Some(error) = cause.downcast_ref::<PlayError>() {
        return Some(of_game(error));
    }
    match cause.downcast_ref::<RunError>()? {
        RunError::Report(error) => Some(of_report(error)),
        RunError::Ledger(error) => Some(of_ledger(error)),
        RunError::NotPaid(_) => Some(Exit::BudgetSpent),
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
        | RunError::Command { .. } => Some(Exit::Input),
        _ => Some(Exit::Internal),
    }
}

fn of_report(error: &ReportError) -> Exit {
    match error {
        ReportError::CreateFolder { .. } | ReportError::Write { .. } => Exit::Output,
        ReportError::NotFinite { .. } | ReportError::Draw { .. } => Exit::Internal,
        _ => Exit::Input,
    }
}

fn of_enrolment(error: &fedbo_agent::EnrolError) -> Exit {
    use fedbo_agent::EnrolError;
    match error {
        EnrolError::Link { .. }
        | EnrolError::Impostor { .. }
        | EnrolError::OtherPlace { .. }
        | EnrolError::OtherHelper { .. } => Exit::Coordinator,
        EnrolError::Home(error) => of_agent_home(error),
        _ => Exit::Input,
    }
}

fn of_helper(error: &fedbo_helper::HelperError) -> Exit {
    use fedbo_helper::HelperError;
    match error {
        HelperError::Home(error) => of_agent_home(error),
        HelperError::Ledger(error) => of_ledger(error),
        HelperError::Noise(_) => Exit::Internal,
        _ => Exit::Input,
    }
}

fn of_agent(error: &fedbo_agent::RunError) -> Option<Exit> {
    use fedbo_agent::RunError;
    use fedbo_party::TrialsError;
    Some(match error {
        RunError::Home(error) => of_agent_home(error),
        RunError::Trials(TrialsError::Storage(error)) => of_storage(error),
        RunError::Trials(TrialsError::Study(error)) => of_study(error),
        RunError::Misconduct(_) | RunError::Refused { .. } | RunError::Link(_) => Exit::Coordinator,
        RunError::NoRandomness { .. } | RunError::NoThread { .. } | RunError::Agent(_) => {
            Exit::Internal
        }
        RunError::Failing { .. } => Exit::NoTrial,
        _ => Exit::Input,
    })
}

fn of_peer(error: &PeerError) -> Exit {
    use fedbo_party::{EvaluationError, TrialsError};
    use fedbo_peer::OtherHome;
    match error {
        PeerError::Home(OtherHome::Home(error)) => of_agent_home(error),
        PeerError::Memory(_) => Exit::Output,
        PeerError::Trials(error) | PeerError::Evaluation(EvaluationError::Trials(error)) => {
            match error {
                TrialsError::Storage(error) => of_storage(error),
                TrialsError::Study(error) => of_study(error),
                _ => Exit::Input,
            }
        }
        PeerError::Impostor { .. }
        | PeerError::Unexpected { .. }
        | PeerError::OtherFile { .. }
        | PeerError::Refused { .. }
        | PeerError::SetBack { .. }
        | PeerError::Link { .. } => Exit::Coordinator,
        PeerError::Threads(_) | PeerError::NoRandomness(_) | PeerError::Machine(_) => {
            Exit::Internal
        }
        _ => Exit::Input,
    }
}

fn of_agent_home(error: &fedbo_party::HomeError) -> Exit {
    match error {
        fedbo_party::HomeError::Folder { .. } | fedbo_party::HomeError::Refused { .. } => {
            Exit::Output
        }
        _ => Exit::Input,
    }
}

fn of_store(error: &StoreError) -> Exit {
    match error {
        StoreError::Refused { .. } => Exit::Output,
        _ => Exit::Input,
    }
}

fn of_storage(error: &StorageError) -> Exit {
    match error {
        StorageError::Write { .. } | StorageError::Gone { .. } => Exit::Output,
        _ => Exit::Input,
    }
}

fn of_ledger(error: &LedgerError) -> Exit {
    match error {
        LedgerError::BudgetSpent(_) => Exit::BudgetSpent,
        LedgerError::Write { .. }
        | LedgerError::Gone { .. }
        | LedgerError::Superseded { .. }
        | LedgerError::Stopped { .. } => Exit::Output,
        LedgerError::RoundPassed { .. } | LedgerError::TooLarge { .. } | LedgerError::Event(_) => {
            Exit::Internal
        }
        _ => Exit::Input,
    }
}

fn of_game(error: &PlayError) -> Exit {
    match error {
        PlayError::Player { .. } | PlayError::Payoffs { .. } | PlayError::Repeatedly { .. } => {
            Exit::Game
        }
        PlayError::Refused { .. } | PlayError::Gone { .. } => Exit::Output,
        PlayError::Mind { .. } | PlayError::Game(_) => Exit::Internal,
        _ => Exit::Input,
    }
}

fn of_study(error: &StudyError) -> Exit {
    match error {
        StudyError::Storage(error) => of_storage(error),
        StudyError::Unstored { .. } => Exit::Output,
        StudyError::Overtaken { .. } => Exit::Internal,
        StudyError::Strategy(error) => match error {
            StrategyError::Exhausted { .. } | StrategyError::Setting { .. } => Exit::Input,
            _ => Exit::Internal,
        },
        _ => Exit::Input,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_deep_in_a_chain_is_found() {
        let denied = ReportError::Write {
            path: "/x".into(),
            cause: std::io::ErrorKind::PermissionDenied.into(),
        };
        assert_eq!(of(&anyhow::Error::new(denied).context("while writing")), Exit::Output);
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
            assert_eq!(of(&error.into()), Exit::Output);
        }
        let moved = StorageError::Gone { place: "study.db".into() };
        assert_eq!(of(&StudyError::from(moved).into()), Exit::Output);
        let not_there = StudyError::Objective { message: "cannot start".to_owned() };
        assert_eq!(of(&not_there.into()), Exit::Input);
        let absent = StorageError::Absent { place: "study.db".into() };
        assert_eq!(of(&StudyError::from(absent).into()), Exit::Input);
        assert_eq!(of(&anyhow::anyhow!("?")), Exit::Internal);
    }
}
