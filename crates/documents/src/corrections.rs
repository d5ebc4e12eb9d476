//! Corrections of trials, as commands and exports show them.

use fedbo_storage::{Address, Correction, Told};
use fedbo_study::Definition;
use serde::Serialize;
use serde_json::Map;

use crate::trial_record::outcomes;
use fedbo_console::BadInput;
use fedbo_console::text::timestamp;

/// The file name of the trials of an agent or peer of a federation.
const TRIALS_FILE: &str = "trials.db";

/// The files beside it.
const MEMORY_FILES: [&str; 2] = ["agent.db", "peer.db"];

/// An earlier outcome of a trial, with the time at which it was replaced.
#[derive(Serialize)]
pub struct CorrectionRecord<'a> {
    corrected_at: String,
    /// The state before: `complete`, `failed`, `stopped` or `discarded`.
    state: &'static str,
    value: Option<f64>,
    /// All numbers by name, if a trial has more than one.
    #[serde(skip_serializing_if = "Map::is_empty")]
    outcomes: Map<String, serde_json::Value>,
    /// The reason of a failure or an early stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl<'a> CorrectionRecord<'a> {
    /// Creates the record of a correction in a study with this definition.
    pub fn new(definition: &Definition, correction: &'a Correction) -> Self {
        let before = &correction.before;
        Self {
            corrected_at: timestamp(correction.at_ms),
            state: before.word(),
            value: match before {
                Told::Stopped { value, .. } => Some(*value),
                other => other.numbers().first().copied(),
            },
            outcomes: match before.numbers() {
                [] => Map::new(),
                numbers => outcomes(definition, numbers),
            },
            message: match before {
                Told::Failed { message, .. } => Some(message),
                Told::Stopped { because, .. } => Some(because),
                Told::Value(_) | Told::Numbers(_) | Told::Discarded => None,
            },
        }
    }
}

/// Checks that a storage does not belong to an agent or a peer of a federation.
///
/// # Errors
/// Fails if it does: messages about these trials were already sent.
pub fn check_not_federated(address: &Address) -> Result<(), BadInput> {
    let Address::Sqlite(path) = address else {
        return Ok(());
    };
    // A link to the file is the file. A storage that does not exist has no trials.
    let path = path.canonicalize().unwrap_or_else(|_| path.clone());
    let is_of_party = path.file_name().is_some_and(|name| name == TRIALS_FILE)
        && MEMORY_FILES.iter().any(|name| path.with_file_name(name).exists());
    match is_of_party {
        false => Ok(()),
        true => Err(BadInput(format!(
            "{address} has the trials of an agent of a federation; they cannot be corrected or discarded, because messages that depend \
             on them were already sent"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_beside_the_memory_of_a_party_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let address = Address::Sqlite(folder.path().join("trials.db"));
        assert!(check_not_federated(&address).is_ok());
        for name in MEMORY_FILES {
            std::fs::write(folder.path().join(name), "").expect("a file");
            let refused = check_not_federated(&address).expect_err("an agent's trials");
            assert!(refused.0.contains("were already sent"), "{}", refused.0);
            let other = Address::Sqlite(folder.path().join("study.db"));
            assert!(check_not_federated(&other).is_ok());
            std::fs::remove_file(folder.path().join(name)).expect("removed");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_the_trials_of_a_party_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let trials = folder.path().join("trials.db");
        for path in [&trials, &folder.path().join(MEMORY_FILES[0])] {
            std::fs::write(path, "").expect("a file");
        }
        let elsewhere = tempfile::tempdir().expect("a folder");
        let link = elsewhere.path().join("link.db");
        std::os::unix::fs::symlink(&trials, &link).expect("a link");
        assert!(check_not_federated(&Address::Sqlite(link)).is_err());
    }
}
