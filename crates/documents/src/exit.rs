//! Mapping from errors to exit codes.

use std::error::Error;

use fedbo_console::{BadInput, Exit, OutputClosed};
use fedbo_error_class::{Class, class_of};
use fedbo_play::PlayError;

/// Returns the class of an error that belongs to one type.
pub type ClassOf = fn(&(dyn Error + 'static)) -> Option<Class>;

/// The error types that end a command.
const CLASSES: [ClassOf; 26] = [
    class_of::<BadInput>,
    class_of::<OutputClosed>,
    class_of::<fedbo_agent::EnrolError>,
    class_of::<fedbo_agent::MoveError>,
    class_of::<fedbo_agent::ReconcileError>,
    class_of::<fedbo_agent::RotateError>,
    class_of::<fedbo_agent::RunError>,
    class_of::<fedbo_config::FileError>,
    class_of::<fedbo_coordinator::BackupError>,
    class_of::<fedbo_coordinator::HomeError>,
    class_of::<fedbo_coordinator::ServiceError>,
    class_of::<fedbo_coordinator::store::StoreError>,
    class_of::<fedbo_helper::HelperError>,
    class_of::<fedbo_helper::JoinError>,
    class_of::<fedbo_helper::ServiceError>,
    class_of::<fedbo_ledger::LedgerError>,
    class_of::<fedbo_objective::CommandError>,
    class_of::<fedbo_peer::PeerError>,
    class_of::<fedbo_report::ReportError>,
    class_of::<fedbo_runner::federation::RunError>,
    class_of::<fedbo_servers::NoSum>,
    class_of::<fedbo_space::SpaceError>,
    class_of::<fedbo_storage::StorageError>,
    class_of::<fedbo_study::ImportError>,
    class_of::<fedbo_study::StudyError>,
    class_of::<fedbo_transport::ListenError>,
];

/// Returns the exit code of an error: that of the first cause which has one. `further` are the error
/// types of the calling program.
pub fn of(error: &anyhow::Error, further: &[ClassOf]) -> Exit {
    let of_cause = |cause: &(dyn Error + 'static)| {
        let class = CLASSES.iter().chain(further).find_map(|of| of(cause));
        class.map(Exit::from).or_else(|| cause.downcast_ref().map(of_game))
    };
    error.chain().find_map(of_cause).unwrap_or(Exit::Internal)
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

#[cfg(test)]
mod tests {
    use fedbo_report::ReportError;
    use fedbo_storage::StorageError;
    use fedbo_study::StudyError;

    use super::*;

    fn of(error: &anyhow::Error) -> Exit {
        super::of(error, &[])
    }

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
