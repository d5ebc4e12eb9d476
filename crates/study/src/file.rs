//! `study.toml`: one party's study as a user writes it, and its check.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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

    /// The same without the command: to look at a study, or to tell a trial, its program need not be there.
    ///
    /// # Errors
    /// As for [`StudyFile::load`], but for what stands in `[objective]`.
    pub fn load_without_command(path: &Path) -> Result<Self, FileError> {
        let file = TomlFile::read(path)?;
        let mut read = file.parse::<StudyToml>()?;
        read.objective = None;
        read.validate(&file)
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
    let max = strategy.n_trials_max();
    let why = match strategy.has_surrogate() {
        true => format!(
            ", all that {:?} models (\"random\" and \"sobol\" go on)",
            strategy.name()
        ),
        false => String::new(),
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
        // What the file says is quoted, but for a password in it.
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
mod tests {
    use super::*;

    const WHOLE: &str = "\
[study]
name = \"train\"
direction = \"minimize\"
trials = 40
storage = \"sqlite:train.db\"

[space.rate]
type = \"float\"
low = 1e-4
high = 1.0
log = true

[space.kind]
type = \"categorical\"
choices = [\"a\", \"b\", \"c\"]

[strategy]
name = \"gp-ucb\"
ucb_multiplier = 1.5

[objective]
command = [\"true\", \"{rate}\"]
timeout_s = 5
";

    fn load(text: &str) -> Result<StudyFile, FileError> {
        let file = TomlFile::from_text(Path::new("/tmp/study.toml"), text);
        file.parse::<StudyToml>()?.validate(&file)
    }

    #[test]
    fn a_whole_file_is_read_as_it_says() {
        let study = load(WHOLE).unwrap();
        let names: Vec<&str> = study
            .definition
            .space
            .iter()
            .map(|p| p.name.as_str())
            .collect();
        assert_eq!(names, ["rate", "kind"], "in the order of the file");
        let beta = UcbSpec::Constant(1.5);
        let strategy = StrategySpec::GpUcb {
            ucb_multiplier: beta,
        };
        assert_eq!(study.definition.strategy, strategy);
        assert_eq!(
            study.definition.n_initial, 8,
            "two for each of four coordinates"
        );
        assert_eq!((study.n_trials, study.jobs), (40, 1));
        assert_eq!(study.storage, Address::Sqlite("/tmp/train.db".into()));
        assert!(study.command.is_some());
        assert_eq!(study.definition.space().unwrap(), study.space);
    }

    #[test]
    fn what_may_be_left_out_has_its_default() {
        let short = WHOLE.replace("storage = \"sqlite:train.db\"\n", "");
        let end = short.find("[strategy]").unwrap();
        let study = load(&short[..end]).unwrap();
        assert_eq!(study.storage, Address::Memory);
        assert_eq!(study.definition.strategy, StrategySpec::LogEi {});
        assert!(study.command.is_none() && !study.definition.noisy);
    }

    #[test]
    fn mistakes_are_named_with_their_place_and_a_way_out() {
        let cases: [(&str, &str, &[&str]); 14] = [
            ("name = \"train\"\n", "", &["study.name", "missing"]),
            (
                "direction = \"minimize\"\n",
                "",
                &["study.direction", "\"maximize\""],
            ),
            (
                "\"minimize\"",
                "\"minimise\"",
                &["line 3", "did you mean \"minimize\"?"],
            ),
            (
                "trials = 40",
                "trials = 0",
                &["line 4", "study.trials = 0", "1 to"],
            ),
            (
                "trials = 40",
                "trials = 9000",
                &["study.trials = 9000", "\"random\""],
            ),
            (
                "trials = 40",
                "trails = 40",
                &["unknown key study.trails", "did you mean trials?"],
            ),
            (
                "sqlite:train.db",
                "train.db",
                &["line 5", "study.storage", "sqlite:FILE"],
            ),
            ("high = 1.0", "high = 0.0", &["space.rate", "below high"]),
            (
                "\"gp-ucb\"",
                "\"gp_ucb\"",
                &["strategy.name", "did you mean \"gp-ucb\"?"],
            ),
            (
                "\"gp-ucb\"",
                "\"sobol\"",
                &["strategy.ucb_multiplier", "remove it"],
            ),
            (
                "ucb_multiplier = 1.5",
                "ucb_multiplier = -1",
                &["strategy.ucb_multiplier = -1"],
            ),
            ("{rate}", "{rat}", &["objective", "{rat} is no parameter"]),
            (
                "timeout_s = 5",
                "timeout_s = 0",
                &["objective.timeout_s = 0", "above 0"],
            ),
            (
                "command = [\"true\", \"{rate}\"]\n",
                "",
                &["objective.command is missing"],
            ),
        ];
        for (from, to, words) in cases {
            assert!(WHOLE.contains(from), "{from}");
            let message = load(&WHOLE.replacen(from, to, 1)).unwrap_err().to_string();
            for word in words {
                assert!(message.contains(word), "{from:?} → {to:?}: {message}");
            }
            assert!(message.starts_with("/tmp/study.toml"), "{message}");
        }
    }

    #[test]
    fn random_search_may_have_more_trials_than_a_surrogate_takes() {
        let text = WHOLE.replace("trials = 40", "trials = 9000");
        let text = text.replace("\"gp-ucb\"\nucb_multiplier = 1.5", "\"random\"");
        assert_eq!(load(&text).unwrap().n_trials, 9000);
    }
}
