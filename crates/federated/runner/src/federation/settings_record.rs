//! A record of the settings with which a run's results were started, so that the run is not resumed
//! with different settings.

use std::collections::BTreeMap;
use std::path::Path;

use fedbo_config::{Changes, TomlFile};
use fedbo_federation::{Federation, FederationFile};
use fedbo_report::{ReportError, write_whole};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

use super::run_error::RunError;

/// Name of the record in the results folder.
const SETTINGS_FILE: &str = "settings.json";
/// Returns the tables of the file with which a folder's results were started, without commands and
/// the number of rounds. Returns `None` if the folder has no record, or a record from an old
/// version, which has no tables.
#[must_use]
pub fn recorded_tables(folder: &Path) -> Option<Json> {
    let text = std::fs::read_to_string(folder.join(SETTINGS_FILE)).ok()?;
    match serde_json::from_str(&text).ok()? {
        Record::Tables(record) => Some(without_commands(record.file)),
        Record::Texts(_) => None,
    }
}

/// The key for repeated runs in old records, next to the tables.
const RUNS: &str = "runs";

/// The file's tables, without the settings that are allowed to change between sessions: `rounds`,
/// commands and their time limits, `[network]` and the number of runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SettingsRecord {
    file: Json,
    /// True if runs are repeated, each with its own child of the seed.
    is_repeated: bool,
}

impl SettingsRecord {
    pub(super) fn of(federation: &Federation, is_repeated: bool) -> Result<Self, RunError> {
        let mut file: Json = federation.source().parse().map_err(RunError::File)?;
        if let Some(tables) = file.as_object_mut() {
            tables.remove("version");
            tables.remove("network");
        }
        if let Some(head) = file.get_mut("federation").and_then(Json::as_object_mut) {
            head.remove("rounds");
            // A seed from the command line overrides the file.
            let seed = federation.file().federation.as_ref().and_then(|head| head.seed);
            head.insert("seed".to_owned(), seed.unwrap_or(0).into());
        }
        add_observations(&mut file, federation);
        Ok(Self { file: without_commands(file), is_repeated })
    }

    fn seed(&self) -> &Json {
        &self.file["federation"]["seed"]
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), ReportError> {
        let path = folder.join(SETTINGS_FILE);
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| ReportError::Write { path: path.clone(), cause: error.into() })?;
        write_whole(&path, text.as_bytes())
    }

    /// Checks that a folder's results were started with these settings.
    pub(super) fn compare(&self, folder: &Path, federation: &Federation) -> Result<(), RunError> {
        let path = folder.join(SETTINGS_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                let message = "it is missing, so the settings of the results beside it are unknown; put it back, or start again with \
                     --overwrite or in another folder with --out"
                    .to_owned();
                return Err(RunError::AnotherRun { path, message });
            }
            Err(cause) => return Err(ReportError::Read { path, cause }.into()),
        };
        let changed = match serde_json::from_str(&text) {
            Ok(Record::Tables(old)) if old.is_repeated != self.is_repeated => {
                Some(of_runs(old.is_repeated).to_owned())
            }
            Ok(Record::Tables(old)) => {
                let stored = without_value_name(without_commands(old.file));
                let now = without_value_name(self.file.clone());
                let changes = Changes::between_tables(&stored, &now, "the run there");
                changes.map(|changes| {
                    let changes = match seed_of_file(federation) == *self.seed() {
                        true => changes.located(federation.source()).to_string(),
                        // The command line can override the seed, so changes are not attributed to
                        // lines of the file.
                        false => changes.to_string(),
                    };
                    format!(
                        "{changes}; only rounds, command, directory and timeout_s may change. Undo the change, also of --seed"
                    )
                })
            }
            Ok(Record::Texts(old)) => {
                let table =
                    changed_table(&old, federation.source(), federation.file(), self.is_repeated);
                table.map(|table| match table.as_str() {
                    RUNS => of_runs(!self.is_repeated).to_owned(),
                    table => format!(
                        "[{table}] of the file has changed since; only rounds and timeout_s may. Undo the change"
                    ),
                })
            }
            Err(error) => {
                let message = format!("it is not readable: {error}");
                return Err(RunError::AnotherRun { path, message });
            }
        };
        let Some(changed) = changed else {
            return Ok(());
        };
        let message =
            format!("{changed}, or start again with --overwrite or in another folder with --out");
        Err(RunError::AnotherRun { path, message })
    }
}

/// Adds a digest of the agents' earlier trials, because the study or table might contain different
/// trials later.
fn add_observations(file: &mut Json, federation: &Federation) {
    let Some(agents) = file.get_mut("agents").and_then(Json::as_array_mut) else { return };
    for (id, agent) in (0_u32..).zip(agents) {
        if let (Some(history), Some(agent)) = (federation.history(id), agent.as_object_mut()) {
            let mut digest = Sha256::new();
            for number in
                history.iter().flat_map(|each| each.unit.iter().copied().chain(each.value))
            {
                digest.update(number.to_bits().to_le_bytes());
            }
            let start: String =
                digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            let shown = format!("{} trials, digest {start}", history.len());
            agent.insert("observations".to_owned(), shown.into());
        }
    }
}

/// Removes the agents' commands from the tables, because a failing command might be repaired before
/// the run is resumed.
fn without_commands(mut file: Json) -> Json {
    let agents = file.get_mut("agents").and_then(Json::as_array_mut);
    for agent in agents.into_iter().flatten().filter_map(Json::as_object_mut) {
        for key in ["command", "directory", "timeout_s"] {
            agent.remove(key);
        }
    }
    file
}

/// Removes the name of the value from the tables, because it appears only in figures.
fn without_value_name(mut file: Json) -> Json {
    if let Some(head) = file.get_mut("federation").and_then(Json::as_object_mut) {
        head.remove("value_name");
    }
    file
}

/// Returns the seed in the file.
fn seed_of_file(federation: &Federation) -> Json {
    let file: Json = federation.source().parse().unwrap_or_default();
    match &file["federation"]["seed"] {
        Json::Null => 0.into(),
        seed => seed.clone(),
    }
}

/// Returns the advice if only one of the recorded run and the current run is repeated.
fn of_runs(were_repeated: bool) -> &'static str {
    match were_repeated {
        true => "it was started with --runs; pass it again",
        false => "it was started without --runs; leave it out",
    }
}

/// A record as read from the file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Record {
    Tables(SettingsRecord),
    /// A record from version 0.1 or older, with one string per table, so the key that differs is
    /// unknown.
    Texts(BTreeMap<String, String>),
}

/// Returns the first table that differs from the strings of an old record.
fn changed_table(
    old: &BTreeMap<String, String>,
    source: &TomlFile,
    file: &FederationFile,
    is_repeated: bool,
) -> Option<String> {
    let mut head = file.federation.clone().unwrap_or_default();
    head.rounds = None;
    let mut agents = file.agents.clone();
    for agent in &mut agents {
        agent.timeout_s = None;
    }
    let space: BTreeMap<&String, old::ParameterSpec> =
        file.space.iter().map(|(name, spec)| (name, old::ParameterSpec::of(spec))).collect();
    let old::Tables { fts, dp_fts_de, exploration } = source.parse().unwrap_or_default();
    let mut texts = BTreeMap::from([
        ("federation", format!("{head:?}")),
        ("features", format!("{:?}", file.features)),
        ("surrogate", format!("{:?}", file.surrogate)),
        ("fts", format!("{fts:?}")),
        ("ts", format!("{:?}", file.ts)),
        ("space", format!("{space:?}")),
        ("agents", format!("{agents:?}")),
    ]);
    let given = [
        ("dp-fts-de", dp_fts_de.as_ref().map(|t| format!("{t:?}"))),
        ("exploration", exploration.as_ref().map(|t| format!("{t:?}"))),
        ("privacy", file.privacy.as_ref().map(|t| format!("{t:?}"))),
        (RUNS, is_repeated.then(|| "each from a child of the seed".to_owned())),
    ];
    texts.extend(given.into_iter().filter_map(|(name, text)| Some((name, text?))));
    let mut tables = texts.keys().copied().chain(old.keys().map(String::as_str));
    let differs = |table: &&str| old.get(*table) != texts.get(*table);
    tables.find(differs).map(str::to_owned)
}

mod old {
    use fedbo_federated::dp_fts_de::{DpFtsDeTable, ExplorationTable};
    use fedbo_federated::fts::FtsTable;
    use serde::Deserialize;

    /// The algorithms' tables, which old records contain as strings.
    #[derive(Default, Deserialize)]
    pub(super) struct Tables {
        #[serde(default)]
        pub(super) fts: FtsTable,
        #[serde(rename = "dp-fts-de")]
        pub(super) dp_fts_de: Option<DpFtsDeTable>,
        pub(super) exploration: Option<ExplorationTable>,
    }

    /// The declaration of a parameter in old records, which had no steps and only text choices.
    #[derive(Debug)]
    #[expect(dead_code, reason = "its text is compared")]
    pub(super) struct ParameterSpec {
        kind: String,
        low: Option<f64>,
        high: Option<f64>,
        log: Option<bool>,
        choices: Option<Vec<String>>,
    }

    impl ParameterSpec {
        pub(super) fn of(spec: &fedbo_space::ParameterSpec) -> Self {
            // A step, a numeric choice, a set or an order gives a different string, as intended, because
            // old records have none of them.
            let choices = spec.choices.as_ref().map(|choices| {
                let text = |choice: &fedbo_space::Value| match choice {
                    fedbo_space::Value::Choice(text) => text.clone(),
                    other => format!("the value {other}"),
                };
                choices.iter().map(text).collect()
            });
            let step = spec.step.map_or_else(String::new, |step| format!(" by {step}"));
            let values = spec.values.as_ref().map(|values| format!(" in {values:?}"));
            let order = spec.ordered.map(|ordered| format!(" ordered {ordered}"));
            let more = [values, order].into_iter().flatten().collect::<String>();
            Self {
                kind: spec.kind.clone() + &step + &more,
                low: spec.low,
                high: spec.high,
                log: spec.log,
                choices,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The string was written by version 0.1.
    #[test]
    fn the_space_of_an_old_record_is_still_the_same() {
        let text = "[space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 9\n[space.m]\ntype = \"categorical\"\nchoices = [\"a\", \"b\"]\n";
        let file = TomlFile::from_text(Path::new("f.toml"), text);
        let source = file;
        let file: FederationFile = source.parse().unwrap();
        let written = "{\"m\": ParameterSpec { kind: \"categorical\", low: None, high: None, log: None, choices: Some([\"a\", \"b\"]) }, \
                       \"x\": ParameterSpec { kind: \"float\", low: Some(0.0), high: Some(9.0), log: None, choices: None }}";
        let mut old = BTreeMap::from([("space".to_owned(), written.to_owned())]);
        let tables = ["federation", "features", "surrogate", "fts", "ts", "agents"];
        // Replaces the strings of the other tables, which are not tested here.
        while let Some(table) = changed_table(&old, &source, &file, false) {
            assert!(tables.contains(&table.as_str()), "{table}");
            let head = fedbo_federation::FederationTable::default();
            let text = match table.as_str() {
                "federation" => format!("{head:?}"),
                "features" => format!("{:?}", file.features),
                "surrogate" => format!("{:?}", file.surrogate),
                "fts" => format!("{:?}", fedbo_federated::fts::FtsTable::default()),
                "ts" => format!("{:?}", file.ts),
                _ => "[]".to_owned(),
            };
            old.insert(table, text);
        }
        assert_eq!(old.len(), 7);
    }
}
