//! What a federation's file said when its results were begun, so that a run is not resumed under other settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::run_error::RunError;
use fedbo_federation::FederationFile;
use fedbo_report::{ReportError, write_whole};

/// Name of the record in the results folder.
const SETTINGS_FILE: &str = "settings.json";
/// What is recorded of runs that are repeated, beside the tables.
const RUNS: &str = "runs";

/// The file's tables as text, but for what may change from one session to the next: `rounds`, time limits and the number of runs.
///
/// The text is for comparison only; another version of the program may write another one, and then refuses to resume.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SettingsRecord(BTreeMap<String, String>);

impl SettingsRecord {
    pub(super) fn of(file: &FederationFile, is_repeated: bool) -> Self {
        let mut head = file.federation.clone().unwrap_or_default();
        head.rounds = None;
        let mut agents = file.agents.clone();
        for agent in &mut agents {
            agent.timeout_s = None;
        }
        let mut tables = vec![
            ("federation", format!("{head:?}")),
            ("features", format!("{:?}", file.features)),
            ("surrogate", format!("{:?}", file.surrogate)),
            ("fts", format!("{:?}", file.fts)),
            ("ts", format!("{:?}", file.ts)),
            ("space", format!("{:?}", file.space)),
            ("agents", format!("{agents:?}")),
        ];
        // Only where they are given: the records of plain federations say nothing of privacy.
        let given = [
            (
                "dp-fts-de",
                file.dp_fts_de.as_ref().map(|t| format!("{t:?}")),
            ),
            (
                "exploration",
                file.exploration.as_ref().map(|t| format!("{t:?}")),
            ),
            ("privacy", file.privacy.as_ref().map(|t| format!("{t:?}"))),
            (
                RUNS,
                is_repeated.then(|| "each from a child of the seed".to_owned()),
            ),
        ];
        tables.extend(
            given
                .into_iter()
                .filter_map(|(name, text)| Some((name, text?))),
        );
        let named = |(name, text): (&str, String)| (name.to_owned(), text);
        Self(tables.into_iter().map(named).collect())
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), ReportError> {
        let path = folder.join(SETTINGS_FILE);
        let text = serde_json::to_string_pretty(&self.0).map_err(|error| ReportError::Write {
            path: path.clone(),
            cause: error.into(),
        })?;
        write_whole(&path, text.as_bytes())
    }

    /// Makes sure that the results in a folder were begun under these settings.
    pub(super) fn compare(&self, folder: &Path) -> Result<(), RunError> {
        let path = folder.join(SETTINGS_FILE);
        let refuse = |path: PathBuf, message: String| Err(RunError::AnotherRun { path, message });
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) => return Err(ReportError::Read { path, cause }.into()),
        };
        let old: BTreeMap<String, String> = match serde_json::from_str(&text) {
            Ok(old) => old,
            Err(error) => return refuse(path, format!("it is not readable: {error}")),
        };
        let mut tables = self.0.keys().chain(old.keys());
        match tables.find(|table| old.get(*table) != self.0.get(*table)) {
            None => Ok(()),
            Some(table) => {
                let changed = match table.as_str() {
                    RUNS if old.contains_key(RUNS) => {
                        "it was begun with --runs; give it again".to_owned()
                    }
                    RUNS => "it was begun without --runs; leave that out".to_owned(),
                    "federation" => "[federation] of the file, or --seed, has changed since; only rounds may. Put it back"
                        .to_owned(),
                    table => format!(
                        "[{table}] of the file has changed since; only rounds and timeout_s may. Put it back"
                    ),
                };
                refuse(
                    path,
                    format!(
                        "{changed}, or begin anew with --overwrite or in another folder with --out"
                    ),
                )
            }
        }
    }
}
