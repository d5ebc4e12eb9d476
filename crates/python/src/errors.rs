//! Conversion of errors to Python exceptions.

use fedbo_agent::EnrolError;
use fedbo_config::FileError;
use fedbo_documents::pictures::PictureError;
use fedbo_party::HomeError;
use fedbo_peer::PeerError;
use fedbo_report::ReportError;
use fedbo_runner::federation::RunError;
use fedbo_storage::StorageError;
use fedbo_study::StudyError;
use fedbo_transport::LinkError;
use pyo3::PyErr;

mod python {
    pyo3::import_exception!(fedbo._errors, Error);
    pyo3::import_exception!(fedbo._errors, DefinitionError);
    pyo3::import_exception!(fedbo._errors, ObjectiveError);
    pyo3::import_exception!(fedbo._errors, Refused);
    pyo3::import_exception!(fedbo._errors, StorageError);
}

/// References to the command line in error messages, and their replacements in Python.
const IN_PYTHON: [(&str, &str); 4] = [
    ("has no [early_stopping]", "was made without early_stopping"),
    ("with fedbo tell", "with tell"),
    ("(fedbo trials lists them)", "(Study.trials has them)"),
    ("`fedbo agent enrol`", "Agent.enrol"),
];

/// Formats an error for Python.
fn words(error: impl std::fmt::Display) -> String {
    IN_PYTHON.iter().fold(error.to_string(), |text, (program, ours)| text.replace(program, ours))
}

/// Converts an error without a specific exception class.
pub(crate) fn other(error: impl std::fmt::Display) -> PyErr {
    python::Error::new_err(words(error))
}

/// Converts an error about an argument.
pub(crate) fn input(error: impl std::fmt::Display) -> PyErr {
    python::DefinitionError::new_err(words(error))
}

/// Converts an error about arguments that were formatted as a file. Keys become argument names, and
/// line numbers are omitted.
pub(crate) fn arguments(mut error: FileError) -> PyErr {
    match &mut error {
        FileError::UnknownKey { place, key, .. }
        | FileError::Value { place, key, .. }
        | FileError::Missing { place, key, .. } => {
            place.line = None;
            *key = argument(key);
        }
        FileError::Syntax { place, .. } | FileError::Invalid { place, .. } => place.line = None,
        _ => {}
    }
    input(error)
}

/// Returns the argument name for a key of the file, for instance `seed` for `study.seed`.
fn argument(key: &str) -> String {
    match key.split_once('.') {
        Some(("study" | "federation" | "agent", argument)) => argument.to_owned(),
        Some(("privacy", argument @ ("epsilon_max" | "delta" | "allow_unprotected"))) => {
            argument.to_owned()
        }
        Some(("strategy", "name")) => "strategy".to_owned(),
        Some(("strategy", option)) => format!("strategy_options.{option}"),
        Some(("meta", rest)) if rest.starts_with("studies") => {
            rest.replacen("studies", "old_studies", 1)
        }
        Some(("meta", option)) => format!("old_studies.{option}"),
        Some(("archive", "file")) => "archive".to_owned(),
        _ => key.to_owned(),
    }
}

/// Converts an error about a file or a definition, with an excerpt of the file.
pub(crate) fn definition(error: &FileError) -> PyErr {
    python::DefinitionError::new_err(format!("{error:#}"))
}

/// Converts a storage error.
pub(crate) fn storage(error: &StorageError) -> PyErr {
    match error {
        StorageError::NoTrial { .. } => input(error),
        _ => stored(error),
    }
}

/// Converts an error of data stored in files.
fn stored(error: impl std::fmt::Display) -> PyErr {
    python::StorageError::new_err(words(error))
}

fn refused(error: impl std::fmt::Display) -> PyErr {
    python::Refused::new_err(words(error))
}

/// Converts an error of an export.
pub(crate) fn export(error: anyhow::Error) -> PyErr {
    match error.downcast::<StudyError>() {
        Ok(error) => study(error),
        Err(error) => other(error),
    }
}

/// Converts an error of a picture.
pub(crate) fn picture(error: PictureError) -> PyErr {
    match error {
        PictureError::Study(error) => study(error),
        error => other(error),
    }
}

/// Converts an error of a study.
pub(crate) fn study(error: StudyError) -> PyErr {
    match error {
        StudyError::Storage(error) => storage(&error),
        error @ StudyError::Unstored { .. } => stored(error),
        error @ (StudyError::Space(_)
        | StudyError::Archive(_)
        | StudyError::Meta(_)
        | StudyError::EarlyStopping(_)
        | StudyError::Differs { .. }
        | StudyError::Duplicate { .. }
        | StudyError::OtherTrial { .. }
        | StudyError::Outcomes { .. }
        | StudyError::IncompatibleOutcomes { .. }
        | StudyError::OutcomesStrategy { .. }
        | StudyError::WrongNumbers { .. }
        | StudyError::SeveralObjectives { .. }
        | StudyError::NothingMeasured { .. }
        | StudyError::NoGivenValues { .. }
        | StudyError::NotFinite { .. }) => input(error),
        error => other(error),
    }
}

/// Converts an error of a federation in one process.
pub(crate) fn federation(error: RunError) -> PyErr {
    match error {
        RunError::File(error) | RunError::NotPaid(error) => definition(&error),
        RunError::Report(ReportError::ResultsExist { path }) => input(format!(
            "{} holds the results of another run; continue it with --resume, replace it with --overwrite, or choose another \
             folder with --out DIR",
            path.display()
        )),
        error @ (RunError::TooFewAgents { .. }
        | RunError::UnknownArm { .. }
        | RunError::RepeatedArm { .. }
        | RunError::NothingToResume { .. }
        | RunError::RunsSpend { .. }
        | RunError::AnotherRun { .. }
        | RunError::LedgerExists { .. }
        | RunError::NoStart { .. }
        | RunError::Command { .. }
        | RunError::NoObjective { .. }) => input(error),
        error @ (RunError::LedgerMissing { .. }
        | RunError::HeadMissing { .. }
        | RunError::LedgerSetBack { .. }
        | RunError::Ledger(_)
        | RunError::Report(_)) => stored(error),
        error => other(error),
    }
}

/// Converts an error of an agent's enrolment.
pub(crate) fn enrolment(error: EnrolError) -> PyErr {
    match error {
        EnrolError::Home(error) => home(error),
        EnrolError::Config(ref file) => input(format!("{error}{}", excerpt(file))),
        error @ (EnrolError::Url { .. }
        | EnrolError::Joined { .. }
        | EnrolError::HelperUnnamed { .. }
        | EnrolError::Unusable(_)
        | EnrolError::Link { source: LinkError::Setting(_), .. }) => input(error),
        error @ (EnrolError::Impostor { .. }
        | EnrolError::OtherHelper { .. }
        | EnrolError::OtherPlace { .. }
        | EnrolError::Link { source: LinkError::Refused { .. }, .. }) => refused(error),
        error => other(error),
    }
}

/// Converts an error of a running agent.
pub(crate) fn agent(error: fedbo_agent::RunError) -> PyErr {
    use fedbo_agent::RunError;
    match error {
        RunError::File(error) => definition(&error),
        RunError::Home(error) => home(error),
        RunError::Failing { n_consecutive, last } => python::ObjectiveError::new_err(format!(
            "{n_consecutive} trials in a row failed, the last one because {last}; they are kept as failed, and the next run continues \
             with the next trial (failures_max=0 continues despite failures)"
        )),
        error @ (RunError::OtherSeed { .. }
        | RunError::Neighbours
        | RunError::Link(LinkError::Setting(_))) => input(error),
        error @ (RunError::Trials(_)
        | RunError::NoSlot { .. }
        | RunError::Log { .. }
        | RunError::LogOrder { .. }
        | RunError::RolledBack { .. }) => stored(error),
        error @ (RunError::NoBudget { .. }
        | RunError::Unprotected { .. }
        | RunError::Unpriced(_)
        | RunError::NotFollowed(_)
        | RunError::UploadDiffers { .. }
        | RunError::Misconduct(_)
        | RunError::Refused { .. }
        | RunError::Clock(_)
        | RunError::Link(LinkError::Refused { .. })) => refused(error),
        error => other(error),
    }
}

/// Converts an error of a peer.
pub(crate) fn peer(error: PeerError) -> PyErr {
    match error {
        PeerError::File(error) => definition(&error),
        error @ (PeerError::Unfit(_) | PeerError::Addresses(_) | PeerError::Home(_)) => {
            input(error)
        }
        error @ (PeerError::Memory(_) | PeerError::Trials(_) | PeerError::Log(_)) => stored(error),
        error @ (PeerError::ReportDiffers { .. }
        | PeerError::Impostor { .. }
        | PeerError::OtherFile { .. }
        | PeerError::Refused { .. }
        | PeerError::RolledBack { .. }) => refused(error),
        error => other(error),
    }
}

/// Converts an error of an agent's folder. An unknown or ambiguous study is an argument error.
fn home(error: HomeError) -> PyErr {
    match error {
        error @ HomeError::AmbiguousStudy { .. } => input(error),
        error => stored(error),
    }
}

/// Returns the excerpt of the file that is shown below an error message.
fn excerpt(error: &FileError) -> String {
    let words = error.to_string();
    format!("{error:#}").strip_prefix(&words).unwrap_or_default().to_owned()
}
