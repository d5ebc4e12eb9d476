//! `study.toml`: one party's study as a user writes it, and its check.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fedbo_algorithms::Surrogate;
use fedbo_config::{Check, CommandKeys, FileError, TomlFile, UcbEntry};
use fedbo_objective::CommandSpec;
use fedbo_space::{Direction, ParameterSpec, Space};
use fedbo_storage::{Address, StorageError};
use serde::Deserialize;

use crate::{Definition, NamedParameter, StrategySpec, UcbSpec};

/// A whole file: plain data, not yet checked.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StudyToml {
    /// Version of the file's layout; 1, also by default.
    version: Option<u64>,
    study: Option<StudyTable>,
    /// A map has no order: the checked space follows the file's.
    space: BTreeMap<String, ParameterSpec>,
    strategy: StrategyTable,
    objective: Option<ObjectiveTable>,
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
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StrategyTable {
    name: Option<String>,
    ucb_multiplier: Option<UcbEntry>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ObjectiveTable {
    command: Option<Vec<String>>,
    directory: Option<PathBuf>,
    timeout_s: Option<f64>,
}

/// A checked `study.toml`.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyFile {
    /// What the study is.
    pub definition: Definition,
    /// Its space.
    pub space: Space,
    /// Number of trials it is to have.
    pub n_trials: u64,
    /// Trials that one process evaluates at once, unless the command line says otherwise.
    pub jobs: usize,
    /// Where it is kept; a relative file is relative to the study's own file.
    pub storage: Address,
    /// The command that evaluates a point; `None` where points are asked for and told by hand.
    pub command: Option<CommandSpec>,
}

/// Most trials of a study without a surrogate.
const N_TRIALS_MAX: u64 = 1_000_000;
/// Most workers of one process.
pub const JOBS_MAX: usize = 256;

impl StudyFile {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The first thing that cannot be used, with its place and the way out.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let file = TomlFile::read(path)?;
        file.parse::<StudyToml>()?.validate(&file)
    }
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
        let directions = [
            ("maximize", Direction::Maximize),
            ("minimize", Direction::Minimize),
        ];
        let at = ["study", "direction"];
        let direction = check.word(&at, study.direction.as_deref(), &directions)?;
        let Some(direction) = direction else {
            let remedy = "add direction = \"minimize\" or \"maximize\": which values are better";
            return Err(file.missing_error(&at, remedy));
        };
        let strategy = self.strategy(check)?;
        let n_trials = n_trials(study, &strategy, file)?;
        if self.space.is_empty() {
            let remedy =
                "add a [space.NAME] table for each parameter, with type, low and high (or choices)";
            return Err(file.missing_error(&["space"], remedy));
        }
        let space = check.space(&["space"], &self.space)?;
        let parameters = space.parameters().iter().map(|parameter| NamedParameter {
            name: parameter.name().to_owned(),
            spec: self.space[parameter.name()].clone(),
        });
        let n_initial = match study.initial {
            Some(n) => check.count(&["study", "initial"], n, 10_000)?,
            None => Definition::default_n_initial(space.dim()),
        };
        let command = match &self.objective {
            None => None,
            Some(objective) => Some(objective.command(check, &space)?),
        };
        Ok(StudyFile {
            definition: Definition {
                name: name.clone(),
                space: parameters.collect(),
                direction,
                seed: study.seed.unwrap_or(0),
                strategy,
                n_initial,
                noisy: study.noisy.unwrap_or(false),
            },
            n_trials,
            jobs: check.count(&["study", "jobs"], study.jobs.unwrap_or(1), JOBS_MAX)?,
            storage: storage(study, file)?,
            command,
            space,
        })
    }

    fn strategy(&self, check: Check<'_>) -> Result<StrategySpec, FileError> {
        let known = [
            ("ts", StrategySpec::ts()),
            ("gp-ucb", StrategySpec::gp_ucb()),
            ("log-ei", StrategySpec::LogEi {}),
            ("random", StrategySpec::Random {}),
            ("sobol", StrategySpec::Sobol {}),
        ];
        let given = self.strategy.name.as_deref();
        let named = check.word(&["strategy", "name"], given, &known)?;
        let mut strategy = named.unwrap_or_default();
        let Some(entry) = self.strategy.ucb_multiplier else {
            return Ok(strategy);
        };
        let path = ["strategy", "ucb_multiplier"];
        let (StrategySpec::Ts { ucb_multiplier } | StrategySpec::GpUcb { ucb_multiplier }) =
            &mut strategy
        else {
            let message = format!(
                "strategy.ucb_multiplier is for \"ts\" and \"gp-ucb\"; remove it, or choose one of them instead of {:?}",
                strategy.name()
            );
            return Err(check.file.error(&path, message));
        };
        check.ucb_multiplier(&path, Some(entry))?;
        *ucb_multiplier = match entry {
            UcbEntry::Constant(beta) => UcbSpec::Constant(beta),
            UcbEntry::Theorem1 {
                norm_bound,
                failure_prob,
            } => UcbSpec::Theory {
                norm_bound,
                failure_prob,
            },
        };
        Ok(strategy)
    }
}

impl ObjectiveTable {
    fn command(&self, check: Check<'_>, space: &Space) -> Result<CommandSpec, FileError> {
        let Some(command) = &self.command else {
            let remedy = "add command = [\"program\", \"argument\", ..], whose last line of output is the value";
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

fn n_trials(
    study: &StudyTable,
    strategy: &StrategySpec,
    file: &TomlFile,
) -> Result<u64, FileError> {
    let path = ["study", "trials"];
    let Some(n_trials) = study.trials else {
        let remedy = "add trials = .., how many points are evaluated in all";
        return Err(file.missing_error(&path, remedy));
    };
    let (max, why) = match strategy.has_surrogate() {
        true => (
            Surrogate::MAX_OBSERVATIONS as u64,
            format!(
                ", all that {:?} models (\"random\" and \"sobol\" go on)",
                strategy.name()
            ),
        ),
        false => (N_TRIALS_MAX, String::new()),
    };
    if (1..=max).contains(&n_trials) {
        return Ok(n_trials);
    }
    let expected = format!("a whole number from 1 to {max}{why}");
    Err(file.value_error(&path, expected))
}

fn storage(study: &StudyTable, file: &TomlFile) -> Result<Address, FileError> {
    let Some(given) = &study.storage else {
        return Ok(Address::Memory);
    };
    let path = ["study", "storage"];
    match given.parse::<Address>() {
        Ok(address) => Ok(address.relative_to(file.folder())),
        Err(StorageError::Address { hint, .. }) => {
            let expected = format!("\"sqlite:FILE\" or \"memory:\"{hint}");
            Err(file.value_error(&path, expected))
        }
        Err(error) => Err(file.error(&path, error.to_string())),
    }
}
