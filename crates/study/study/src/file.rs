//! `study.toml`: one party's study definition as a file, and its validation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fedbo_config::{Check, CommandKeys, FileError, TableOptions, TomlFile};
use fedbo_objective::{CommandSpec, FailuresMax};
use fedbo_space::{Direction, MixtureSpec, ParameterSpec, RuleSpec, Space};
use fedbo_storage::{Address, StorageError};
use fedbo_strategies::StrategySpec;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::archive::{ArchiveFile, ArchiveTable};
use crate::definition::{Learning, Mismatch, Parts};
use crate::early_stopping::{DEFAULT_GRACE, EarlyStoppingTable};
use crate::meta::MetaTable;
use crate::outcomes::outcomes_table;
use crate::{Constraint, Definition, EarlyStoppingSpec, MetaFile, NamedObjective, NamedParameter};

/// The raw file, before validation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StudyToml {
    /// Version of the file layout. The default and only version is 1.
    version: Option<u64>,
    study: Option<StudyTable>,
    /// A map is unordered; the validated space takes its order from the file.
    space: BTreeMap<String, ParameterSpec>,
    strategy: StrategyTable,
    meta: Option<MetaTable>,
    archive: Option<ArchiveTable>,
    early_stopping: Option<EarlyStoppingTable>,
    objective: Option<ObjectiveTable>,
    objectives: Vec<ObjectiveEntry>,
    constraints: Vec<ConstraintEntry>,
    rules: Vec<RuleSpec>,
    mixtures: Vec<MixtureSpec>,
}

/// An entry of `[[objectives]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ObjectiveEntry {
    name: Option<String>,
    direction: Option<String>,
}

/// An entry of `[[constraints]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ConstraintEntry {
    name: Option<String>,
    at_most: Option<f64>,
    at_least: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StudyTable {
    name: Option<String>,
    direction: Option<String>,
    trials: Option<u64>,
    seed: Option<u64>,
    initial: Option<usize>,
    noisy: Option<bool>,
    storage: Option<String>,
    jobs: Option<usize>,
    failures_max: Option<u64>,
    timeout_s: Option<f64>,
    patience: Option<u64>,
    improvement_min: Option<f64>,
    missing: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct StrategyTable {
    name: Option<String>,
    /// The strategy's options. [`TableOptions`] reads them once the strategy is known.
    #[serde(flatten)]
    _options: BTreeMap<String, IgnoredAny>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ObjectiveTable {
    command: Option<Vec<String>>,
    directory: Option<PathBuf>,
    timeout_s: Option<f64>,
}

/// A validated `study.toml`.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyFile {
    /// The definition of the study, without the trials of old studies.
    pub definition: Definition,
    /// The old studies that the study learns from.
    pub meta: Option<MetaFile>,
    /// The archive that the study starts from.
    pub archive: Option<ArchiveFile>,
    /// The search space.
    pub space: Space,
    /// Total number of trials.
    pub n_trials: u64,
    /// Default number of trials that a process evaluates in parallel.
    pub jobs: usize,
    /// Number of consecutive failed trials after which a run ends.
    pub failures_max: FailuresMax,
    /// Time after which a run starts no further trials.
    pub timeout: Option<Duration>,
    /// Number of consecutive trials without progress after which the study ends; `None` for no
    /// limit.
    pub patience: Option<u64>,
    /// Minimum improvement that counts as progress: [`crate::Patience::improvement_min`].
    pub improvement_min: f64,
    /// The address of the study's storage. A relative path is relative to the study file.
    pub storage: Address,
    /// Grace period for a trial to exit after an early stop.
    pub stop_grace: Duration,
    /// True if the command may leave out some of a trial's numbers, or print null or NaN for them.
    pub missing_allowed: bool,
    /// The command that evaluates a point; `None` if points are evaluated outside of fedbo.
    pub command: Option<CommandSpec>,
    /// The text of the file.
    pub(crate) source: TomlFile,
}

/// Maximum number of workers per process.
pub const JOBS_MAX: usize = 256;

impl StudyFile {
    /// Reads and validates a file.
    ///
    /// # Errors
    /// Returns the first problem, with its location and a remedy.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let file = TomlFile::read(path)?;
        read(&file)?.validate(&file)
    }

    /// Validates the text of a file. Errors refer to the file as `path`. Relative paths are
    /// relative to the folder of `path`.
    ///
    /// # Errors
    /// Same as [`StudyFile::load`].
    pub fn from_text(path: &Path, text: impl Into<String>) -> Result<Self, FileError> {
        let file = TomlFile::from_text(path, text);
        read(&file)?.validate(&file)
    }

    /// Same as [`StudyFile::load`], but ignores the command: inspecting a study or recording a
    /// value does not require the program.
    ///
    /// # Errors
    /// Same as [`StudyFile::load`], except for errors in `[objective]`.
    pub fn load_without_command(path: &Path) -> Result<Self, FileError> {
        let file = TomlFile::read(path)?;
        let mut table = read(&file)?;
        table.objective = None;
        table.validate(&file)
    }
}

fn read(file: &TomlFile) -> Result<StudyToml, FileError> {
    let read: StudyToml = file.parse()?;
    strategy_options(file).check_keys(&StrategySpec::of_files(), None)?;
    if let Some(early_stopping) = &read.early_stopping {
        early_stopping.check_keys(file)?;
    }
    Ok(read)
}

fn strategy_options(file: &TomlFile) -> TableOptions<'_> {
    TableOptions { file, table: "strategy", keys: &["name"] }
}

impl StudyToml {
    fn validate(&self, file: &TomlFile) -> Result<StudyFile, FileError> {
        let check = Check::new(file);
        if self.version.is_some_and(|version| version != 1) {
            let expected = "1, the only version of this file's layout so far";
            return Err(file.value_error(&["version"], expected));
        }
        let Some(study) = &self.study else {
            let remedy = "begin the file with [study] and its name and trials";
            return Err(file.missing_error(&["study"], remedy));
        };
        let Some(name) = &study.name else {
            let remedy = "add name = \"...\", under which the study is stored";
            return Err(file.missing_error(&["study", "name"], remedy));
        };
        check.folder_name(&["study", "name"], name)?;
        let (objectives, constraints) = (self.objectives(check)?, self.constraints(check)?);
        let at = ["study", "direction"];
        let direction = check.word(&at, study.direction.as_deref(), &DIRECTIONS)?;
        let direction = match (direction, objectives.first()) {
            (Some(direction), None) => direction,
            (None, Some(first)) => first.direction,
            (Some(_), Some(_)) => {
                let message = "study.direction is for a single objective, and each of [[objectives]] has its own; remove one of the two";
                return Err(file.error(&at, message));
            }
            (None, None) => {
                let remedy = "add direction = \"minimize\" or \"maximize\": the direction of better values (or [[objectives]], two or more)";
                return Err(file.missing_error(&at, remedy));
            }
        };
        let early_stopping = self.early_stopping.as_ref();
        let spec = early_stopping.map(|table| table.validate(check));
        let spec = spec.transpose()?;
        let outcomes = outcomes_table(&objectives, &constraints);
        let strategy = self.strategy(check, spec.as_ref(), outcomes)?;
        let n_trials = n_trials(study, file)?;
        if self.space.is_empty() {
            let remedy =
                "add a [space.NAME] table for each parameter, with type, low and high (or choices)";
            return Err(file.missing_error(&["space"], remedy));
        }
        let space = check.space(&["space"], &self.space)?;
        let space = check.with_rules(&space, &self.rules, &self.mixtures)?;
        let parameters = space.parameters().iter().map(|parameter| NamedParameter {
            name: parameter.name().to_owned(),
            spec: self.space[parameter.name()].clone(),
        });
        let meta = self.meta.as_ref();
        let meta = meta.map(|meta| meta.validate(check, &strategy));
        let meta = meta.transpose()?;
        let asks_first =
            |meta: &MetaFile| strategy.begins_with_old_studies(meta.settings.scale.output_scale());
        let n_initial = match study.initial {
            Some(0) if strategy.requires_old_studies() || self.archive.is_some() => 0,
            Some(n) => check.count(&["study", "initial"], n, 10_000)?,
            None if meta.as_ref().is_some_and(asks_first) => 0,
            None if meta.is_none() && self.archive.is_some() => 0,
            None => Definition::default_n_initial(space.parameters().len()),
        };
        let command = match &self.objective {
            None => None,
            Some(objective) => Some(objective.command(check, &space)?),
        };
        let definition = Definition {
            name: name.clone(),
            space: parameters.collect(),
            direction,
            objectives,
            constraints,
            rules: self.rules.clone(),
            mixtures: self.mixtures.clone(),
            seed: study.seed.unwrap_or(0),
            strategy,
            n_initial,
            noisy: study.noisy.unwrap_or(false),
            meta: None,
            archive: None,
            early_stopping: spec,
        };
        definition.check_outcomes().map_err(|bad| {
            let at: Vec<&str> = bad.at.iter().map(String::as_str).collect();
            file.error(&at, bad.message)
        })?;
        Ok(StudyFile {
            definition,
            meta,
            archive: self.archive.as_ref().map(|archive| archive.validate(file)).transpose()?,
            n_trials,
            jobs: check.count(&["study", "jobs"], study.jobs.unwrap_or(1), JOBS_MAX)?,
            failures_max: FailuresMax::from_key(study.failures_max),
            timeout: study.timeout(check)?,
            improvement_min: study.improvement_min(check, !self.objectives.is_empty())?,
            patience: study.patience.filter(|n_trials| *n_trials > 0),
            storage: storage(study, file)?,
            missing_allowed: study.missing_allowed(check, outcomes)?,
            stop_grace: match early_stopping {
                Some(table) => table.grace(check)?,
                None => DEFAULT_GRACE,
            },
            command,
            space,
            source: file.clone(),
        })
    }

    /// Returns the objectives, if the file has more than one.
    fn objectives(&self, check: Check<'_>) -> Result<Vec<NamedObjective>, FileError> {
        let mut objectives = Vec::with_capacity(self.objectives.len());
        for (index, entry) in self.objectives.iter().enumerate() {
            let index = index.to_string();
            let at = ["objectives", &index, "direction"];
            let direction = check.word(&at, entry.direction.as_deref(), &DIRECTIONS)?;
            let Some(direction) = direction else {
                let remedy = "add direction = \"minimize\" or \"maximize\"";
                return Err(check.file.missing_error(&at, remedy));
            };
            let name = name_of(check, "objectives", &index, entry.name.as_ref())?;
            objectives.push(NamedObjective { name, direction });
        }
        Ok(objectives)
    }

    /// Returns the constraints, if the file has any.
    fn constraints(&self, check: Check<'_>) -> Result<Vec<Constraint>, FileError> {
        let constraint = |(index, entry): (usize, &ConstraintEntry)| {
            Ok(Constraint {
                name: name_of(check, "constraints", &index.to_string(), entry.name.as_ref())?,
                at_most: entry.at_most,
                at_least: entry.at_least,
            })
        };
        self.constraints.iter().enumerate().map(constraint).collect()
    }

    /// Returns the strategy, validated against the other tables.
    fn strategy(
        &self,
        check: Check<'_>,
        early_stopping: Option<&EarlyStoppingSpec>,
        outcomes: Option<&'static str>,
    ) -> Result<StrategySpec, FileError> {
        let all = StrategySpec::of_files();
        let words: Vec<_> = all.iter().map(|each| (each.name(), *each)).collect();
        let given = self.strategy.name.as_deref();
        let named = check.word(&["strategy", "name"], given, &words)?;
        let strategy = match (named, &self.meta) {
            (Some(named), _) => named,
            (None, Some(_)) => StrategySpec::rm_gp_ucb(),
            (None, None) if early_stopping.is_some() => StrategySpec::gp_ucb(),
            (None, None) => StrategySpec::default(),
        };
        let parts = Parts {
            strategy: &strategy,
            learns: self
                .meta
                .as_ref()
                .map(|meta| Learning { has_studies: true, has_warm_start: meta.has_warm_start() }),
            has_archive: self.archive.is_some(),
            early_stopping,
            outcomes,
        };
        let refused = |misfit: Mismatch| check.file.error(misfit.at, misfit.error.to_string());
        parts.check().map_err(refused)?;
        strategy_options(check.file).read(&all, strategy)
    }
}

/// Names of the directions.
const DIRECTIONS: [(&str, Direction); 2] =
    [("maximize", Direction::Maximize), ("minimize", Direction::Minimize)];

/// Returns the required name of an objective or a constraint.
fn name_of(
    check: Check<'_>,
    table: &str,
    index: &str,
    name: Option<&String>,
) -> Result<String, FileError> {
    name.cloned().ok_or_else(|| {
        let remedy = "add name = \"..\", under which the command reports it";
        check.file.missing_error(&[table, index, "name"], remedy)
    })
}

/// Converts a time limit in seconds; `None` if it is not a valid positive duration.
pub fn time_limit(seconds: f64) -> Option<Duration> {
    let time = Duration::try_from_secs_f64(seconds).ok()?;
    (!time.is_zero()).then_some(time)
}

impl StudyTable {
    fn timeout(&self, check: Check<'_>) -> Result<Option<Duration>, FileError> {
        let Some(seconds) = self.timeout_s else {
            return Ok(None);
        };
        let time = time_limit(seconds).ok_or_else(|| {
            let expected = "a number of seconds above 0; without this key there is no limit";
            check.file.value_error(&["study", "timeout_s"], expected)
        })?;
        Ok(Some(time))
    }

    /// Returns true if a trial may lack some of its numbers.
    fn missing_allowed(
        &self,
        check: Check<'_>,
        outcomes: Option<&'static str>,
    ) -> Result<bool, FileError> {
        let at = ["study", "missing"];
        let words = [("refused", false), ("allowed", true)];
        let given = check.word(&at, self.missing.as_deref(), &words)?;
        match (given, outcomes) {
            (Some(_), None) => {
                let message = "study.missing is for trials with several numbers, and this study has one; remove missing, or add \
                               [[objectives]] or [[constraints]]";
                Err(check.file.error(&at, message.to_owned()))
            }
            (given, _) => Ok(given.unwrap_or(false)),
        }
    }

    fn improvement_min(&self, check: Check<'_>, has_objectives: bool) -> Result<f64, FileError> {
        let at = ["study", "improvement_min"];
        if let (Some(_), None) = (self.improvement_min, self.patience) {
            let message = "study.improvement_min defines progress for study.patience, which is missing; add patience = .., or remove \
                           improvement_min";
            return Err(check.file.error(&at, message.to_owned()));
        }
        if let (Some(_), true) = (self.improvement_min, has_objectives) {
            let message = "study.improvement_min is for a single objective; remove it, since with [[objectives]] every non-dominated trial \
                           is progress";
            return Err(check.file.error(&at, message.to_owned()));
        }
        let improvement_min = self.improvement_min.unwrap_or(0.0);
        if !(improvement_min.is_finite() && improvement_min >= 0.0) {
            let expected = "a finite number of at least 0";
            return Err(check.file.value_error(&at, expected));
        }
        Ok(improvement_min)
    }
}

impl ObjectiveTable {
    fn command(&self, check: Check<'_>, space: &Space) -> Result<CommandSpec, FileError> {
        let Some(command) = &self.command else {
            let remedy = "add command = [\"program\", \"argument\", ..]; its last line of output is the value";
            return Err(check.file.missing_error(&["objective", "command"], remedy));
        };
        let keys = CommandKeys {
            command,
            directory: self.directory.as_deref(),
            timeout_s: self.timeout_s,
        };
        check.command(&["objective"], "", keys, space)
    }
}

fn n_trials(study: &StudyTable, file: &TomlFile) -> Result<u64, FileError> {
    let path = ["study", "trials"];
    let Some(n_trials) = study.trials else {
        let remedy = "add trials = .., the total number of points to evaluate";
        return Err(file.missing_error(&path, remedy));
    };
    let max = StrategySpec::TRIALS_MAX;
    if (1..=max).contains(&n_trials) {
        return Ok(n_trials);
    }
    let expected = format!("a whole number from 1 to {max}");
    Err(file.value_error(&path, expected))
}

fn storage(study: &StudyTable, file: &TomlFile) -> Result<Address, FileError> {
    let Some(given) = &study.storage else {
        return Ok(Address::Memory);
    };
    let path = ["study", "storage"];
    match given.parse::<Address>() {
        Ok(address) => Ok(address.relative_to(file.folder())),
        // The error quotes the file's value, unless it has a password.
        Err(StorageError::Address { address, hint }) if address == *given => {
            let expected = format!(
                "\"sqlite:FILE\", \"postgresql://USER@HOST/DATABASE\" or \"memory:\"{hint}"
            );
            Err(file.value_error(&path, expected))
        }
        Err(error) => Err(file.error(&path, error.to_string())),
    }
}

#[cfg(test)]
mod tests;
