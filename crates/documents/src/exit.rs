//! Mapping from errors to exit codes.

use std::error::Error;

use fedbo_console::{BadInput, Exit, OutputClosed};
use fedbo_error_class::{Classified, class_of};

/// Function that returns an error's exit code, or `None` if it does not handle errors of this type.
pub type ExitOf = fn(&(dyn Error + 'static)) -> Option<Exit>;

/// Returns the exit code of `error` if it is an `E`.
#[must_use]
pub fn exit_of<E: Classified>(error: &(dyn Error + 'static)) -> Option<Exit> {
    class_of::<E>(error).map(Exit::from)
}

/// Functions for all error types that a command can return.
const EXITS: [ExitOf; 26] = [
    exit_of::<BadInput>,
    exit_of::<OutputClosed>,
    exit_of::<fedbo_agent::EnrolError>,
    exit_of::<fedbo_agent::MoveError>,
    exit_of::<fedbo_agent::ReconcileError>,
    exit_of::<fedbo_agent::RotateError>,
    exit_of::<fedbo_agent::RunError>,
    exit_of::<fedbo_config::FileError>,
    exit_of::<fedbo_coordinator::BackupError>,
    exit_of::<fedbo_coordinator::HomeError>,
    exit_of::<fedbo_coordinator::ServiceError>,
    exit_of::<fedbo_coordinator::store::StoreError>,
    exit_of::<fedbo_helper::HelperError>,
    exit_of::<fedbo_helper::JoinError>,
    exit_of::<fedbo_helper::ServiceError>,
    exit_of::<fedbo_ledger::LedgerError>,
    exit_of::<fedbo_objective::CommandError>,
    exit_of::<fedbo_peer::PeerError>,
    exit_of::<fedbo_report::ReportError>,
    exit_of::<fedbo_runner::federation::RunError>,
    exit_of::<fedbo_servers::NoSum>,
    exit_of::<fedbo_space::SpaceError>,
    exit_of::<fedbo_storage::StorageError>,
    exit_of::<fedbo_study::ImportError>,
    exit_of::<fedbo_study::StudyError>,
    exit_of::<fedbo_transport::ListenError>,
];

/// Returns the exit code of the first error in the chain that has one, otherwise `Exit::Internal`.
/// `further` handles additional error types of the program.
pub fn of(error: &anyhow::Error, further: &[ExitOf]) -> Exit {
    let of_cause = |cause| EXITS.iter().chain(further).find_map(|of| of(cause));
    error.chain().find_map(of_cause).unwrap_or(Exit::Internal)
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
