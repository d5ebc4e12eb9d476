//! The frozen text of a coordinator's study: TOML that every agent reads (INV-11).
//!
//! The text consists of the operator's file without the agents' private settings (commands, data),
//! plus the values that the program chose. These values are written down so that a different
//! version or machine cannot choose different ones.

use std::path::Path;

use fedbo_config::{Check, FileError, TomlFile};
use fedbo_federated::ALGORITHMS;
use fedbo_objective::{NoProblems, Problems};
use fedbo_space::{OneOf, Parameter, Space};
use toml::{Table, Value};

use crate::checked::{Collaboration, Federation, Objectives};
use crate::file::{AgentTable, FederationFile};
use crate::privacy::Protection;
use crate::release_mechanism::ReleaseMechanism;
use crate::secure_sum::SecureSumTable;

/// The name of the text in error messages.
const NAME: &str = "the study's public configuration";

/// The coordinator for which a study is frozen.
#[derive(Clone, Copy, Debug)]
pub struct FrozenFor<'a> {
    /// The coordinator's public key in hexadecimal.
    pub key: &'a str,
    /// The coordinator's card as a server in a secure sum; not part of other studies.
    pub card: &'a str,
}

impl<'a> From<&'a str> for FrozenFor<'a> {
    fn from(key: &'a str) -> Self {
        Self { key, card: "" }
    }
}

impl<'a> From<&'a String> for FrozenFor<'a> {
    fn from(key: &'a String) -> Self {
        Self::from(key.as_str())
    }
}

impl Federation {
    /// Loads and validates an operator's file and freezes it for this coordinator. The file can
    /// omit the agents' objectives. Returns the federation that the public text describes, and the
    /// text.
    ///
    /// # Errors
    /// Returns the first invalid entry of the file.
    pub fn freeze<'a>(
        path: &Path,
        coordinator: impl Into<FrozenFor<'a>>,
        problems: &dyn Problems,
    ) -> Result<(Self, String), FileError> {
        let coordinator = coordinator.into();
        let file = TomlFile::read(path)?;
        let federation = file.parse::<FederationFile>()?.validate(
            &file,
            Objectives::Elsewhere,
            problems,
            ALGORITHMS,
        )?;
        Check::new(&file).foreign_names(&federation.space)?;
        if let Some(SecureSumTable { helper: None, .. }) = &federation.file().secure_sum {
            let remedy = "over a network another party runs the second server: add helper = \"..\", the card printed by its `fedbo helper \
                          card`, and helper_url = \"https://..\"";
            return Err(file.missing_error(&["secure_sum", "helper"], remedy));
        }
        let text = federation.public_text(&file, coordinator)?;
        let frozen = Self::read_back(&text)?;
        let charter = |federation: &Self| federation.privacy().map(|plan| plan.charter.clone());
        if charter(&frozen) != charter(&federation) {
            let message = "it does not read back as it was written, which is a bug in this program";
            return Err(file.error(&[], message));
        }
        Ok((Self::thaw(&text)?, text))
    }

    /// Parses and validates a public text. The text becomes the configuration in the study's
    /// charter, so that programs in other languages can compute the start of its ledger.
    ///
    /// # Errors
    /// Returns the first invalid entry of the text.
    pub fn thaw(text: &str) -> Result<Self, FileError> {
        let mut federation = Self::read_back(text)?;
        if let Collaboration::Released(made) = &mut federation.collaboration
            && let Protection::Charged(plan) = &mut made.releases.protection
        {
            plan.charter.config = text.as_bytes().to_vec();
        }
        Ok(federation)
    }

    /// Same as [`Federation::thaw`], for a text from a possibly hostile author: refuses everything
    /// except data (INV-24). Choices are checked only when they are passed to a command, because
    /// the command's owner might allow more.
    ///
    /// # Errors
    /// Returns the first invalid entry of the text.
    pub fn received(text: &str) -> Result<Self, FileError> {
        let federation = Self::thaw(text)?;
        let file = TomlFile::from_text(Path::new(NAME), text);
        Check::new(&file).foreign_names(&federation.space)?;
        Ok(federation)
    }

    fn read_back(text: &str) -> Result<Self, FileError> {
        let file = TomlFile::from_text(Path::new(NAME), text);
        let read = file.parse::<FederationFile>()?;
        check_only_agent_names(&read, &file)?;
        read.validate(&file, Objectives::Elsewhere, &NoProblems, ALGORITHMS)
    }

    /// Returns the text that peers without a coordinator must agree on: the federation's file
    /// without the peers' private settings.
    ///
    /// # Errors
    /// If the text cannot be written.
    pub fn text_of_peers(&self, file: &TomlFile) -> Result<String, FileError> {
        let mut root: Table = file.parse()?;
        root.insert("version".to_owned(), Value::Integer(1));
        self.describe(&mut root);
        written(&root, file)
    }

    fn public_text(
        &self,
        file: &TomlFile,
        coordinator: FrozenFor<'_>,
    ) -> Result<String, FileError> {
        let mut root: Table = file.parse()?;
        root.insert("version".to_owned(), Value::Integer(1));
        let key = Value::String(coordinator.key.to_owned());
        insert(&mut root, "network", [("coordinator", key)]);
        self.describe(&mut root);
        if let Some(free) = &self.free {
            insert(&mut root, "federation", [("windows", whole(free.windows))]);
            if let Collaboration::Relayed(_) = &self.collaboration {
                let sample = whole(free.sample as u64);
                let chosen = [("max_age", whole(free.max_age)), ("sample", sample)];
                insert(&mut root, "network", chosen);
            }
        }
        if let Collaboration::Released(made) = &self.collaboration {
            let releases = &made.releases;
            let (max_norm, noise_multiplier) = releases.mechanism.norm_and_noise();
            let mut chosen = match (&self.free, releases.participations) {
                (None, _) => vec![
                    ("releases", whole(releases.n_planned)),
                    ("every", whole(releases.schedule.every())),
                ],
                (Some(_), None) => vec![("every", whole(releases.own_every))],
                (Some(_), Some(_)) => vec![
                    ("participations", whole(releases.n_planned)),
                    ("every", whole(releases.own_every)),
                ],
            };
            if !matches!(releases.protection, Protection::Off) {
                let sampling_rate = releases.mechanism.sampling_rate();
                chosen.push(("sampling_rate", Value::Float(sampling_rate)));
                chosen.push(("noise_multiplier", Value::Float(noise_multiplier)));
                chosen.push(("max_norm", Value::Float(max_norm)));
            }
            if let Protection::Charged(plan) = &releases.protection {
                let delta = plan.charter.budget.delta().get();
                chosen.push(("delta", Value::Float(delta)));
                let accountant = plan.charter.accountant.name().to_owned();
                chosen.push(("accountant", Value::String(accountant)));
            }
            insert(&mut root, "privacy", chosen);
            if let ReleaseMechanism::SecureSum(sharing) = &releases.mechanism {
                let chosen = [
                    ("proof", Value::String(sharing.proof().name().to_owned())),
                    ("bits", whole(sharing.bits().into())),
                    ("leader", Value::String(coordinator.card.to_owned())),
                ];
                insert(&mut root, "secure_sum", chosen);
            }
        }
        written(&root, file)
    }

    /// Inserts the space and the roster, and removes the agents' private settings.
    fn describe(&self, root: &mut Table) {
        let space = root.entry("space").or_insert_with(table);
        *space = space_table(&self.space);
        let agents = self.agents.iter().map(|agent| {
            let mut named = Table::new();
            named.insert("name".to_owned(), Value::String(agent.name.clone()));
            Value::Table(named)
        });
        root.insert("agents".to_owned(), Value::Array(agents.collect()));
    }
}

/// Inserts keys into one of the text's tables.
fn insert(root: &mut Table, name: &str, keys: impl IntoIterator<Item = (&'static str, Value)>) {
    if let Value::Table(found) = root.entry(name).or_insert_with(table) {
        found.extend(keys.into_iter().map(|(key, value)| (key.to_owned(), value)));
    }
}

fn written(root: &Table, file: &TomlFile) -> Result<String, FileError> {
    toml::to_string(root).map_err(|error| {
        let message = format!("its public part cannot be written: {error}");
        file.error(&[], message)
    })
}

/// Checks that the text contains only the agents' names and the virtual durations of their trials.
/// Only the agents themselves know their objectives. The author of a configuration must not be able
/// to make other parties build problems, read files or look for programs.
pub(crate) fn check_only_agent_names(
    read: &FederationFile,
    file: &TomlFile,
) -> Result<(), FileError> {
    let is_name = |agent: &AgentTable| {
        let (name, trial_s) = (agent.name.clone(), agent.trial_s);
        *agent == AgentTable { name, trial_s, ..AgentTable::default() }
    };
    let Some(index) = read.agents.iter().position(|agent| !is_name(agent)) else {
        return Ok(());
    };
    let message = "an agent has more than a name; only the agent knows its objective, so a configuration with one was not \
                   made by `fedbo coordinator study create`";
    Err(file.error(&["agents", &index.to_string()], message))
}

fn table() -> Value {
    Value::Table(Table::new())
}

fn whole(count: u64) -> Value {
    Value::Integer(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Converts a value of an `int` parameter.
#[expect(
    clippy::cast_possible_truncation,
    reason = "bounds and steps of integers are whole and within ±2^53"
)]
fn whole_number(number: f64) -> Value {
    Value::Integer(number as i64)
}

/// Returns the `[space.NAME]` tables, in the space's order.
fn space_table(space: &Space) -> Value {
    let parameters = space.parameters().iter();
    let described = parameters.map(|parameter| (parameter.name().to_owned(), described(parameter)));
    Value::Table(described.collect())
}

fn described(parameter: &Parameter) -> Value {
    let spec = parameter.to_spec();
    let number = |number: f64| match parameter.kind().numbers() {
        Some(numbers) if numbers.is_whole => whole_number(number),
        _ => Value::Float(number),
    };
    // A range without steps states its scale, even if linear, because this wording is frozen.
    let has_scale = parameter.kind().numbers().is_some() && spec.step.is_none();
    let log = has_scale.then(|| Value::Boolean(spec.log.unwrap_or(false)));
    let choices = spec.choices.map(values_of);
    let when = spec.when.into_iter().map(|(parent, values)| {
        let values = match values {
            OneOf::One(only) => value(only),
            OneOf::Any(values) => values_of(values),
        };
        (parent, values)
    });
    let when: Table = when.collect();
    let values = spec.values.map(|values| Value::Array(values.into_iter().map(number).collect()));
    let entries = [
        ("type", Some(Value::String(spec.kind))),
        ("low", spec.low.map(number)),
        ("high", spec.high.map(number)),
        ("log", log),
        ("step", spec.step.map(number)),
        ("values", values),
        ("choices", choices),
        ("ordered", spec.ordered.map(Value::Boolean)),
        ("when", (!when.is_empty()).then_some(Value::Table(when))),
    ];
    let named = entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Table(named.collect())
}

fn values_of(given: Vec<fedbo_space::Value>) -> Value {
    Value::Array(given.into_iter().map(value).collect())
}

/// Converts a value of a parameter.
fn value(given: fedbo_space::Value) -> Value {
    match given {
        fedbo_space::Value::Int(number) => Value::Integer(number),
        fedbo_space::Value::Float(number) => Value::Float(number),
        fedbo_space::Value::Bool(flag) => Value::Boolean(flag),
        fedbo_space::Value::Choice(text) => Value::String(text),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fedbo_objective::{Objective, Outcome, Problem, ProblemSpec, TrialId};
    use fedbo_space::{Direction, ParameterSpec, Point};

    use super::*;

    const HEAD: &str =
        "[federation]\nname = \"labs\"\nalgorithm = \"dp-fts-de\"\nrounds = 9\nseed = 3\n";
    const AGENTS: &str = "[[agents]]\nname = \"a\"\ncommand = [\"./secret\"]\n[[agents]]\nname = \"b\"\nproblem = \"branin\"\n";

    fn frozen(text: &str) -> (Federation, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.toml");
        std::fs::write(&path, text).unwrap();
        Federation::freeze(&path, "00ff", &NoProblems).unwrap()
    }

    #[test]
    fn what_the_program_chose_is_written_down_and_what_agents_alone_know_is_not() {
        let space = "[space.z]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n[space.a]\ntype = \"int\"\nlow = 1\nhigh = 9\n\
                     [space.m]\ntype = \"categorical\"\nchoices = [\"x\", \"y\"]\n";
        let agents = "[[agents]]\nname = \"a\"\ncommand = [\"python3\", \"secret.py\", \"{z}\"]\n[[agents]]\nname = \"b\"\n";
        let (federation, text) =
            frozen(&format!("{HEAD}[privacy]\nepsilon = 2.0\n{space}{agents}"));
        for chosen in ["noise_multiplier", "max_norm", "delta", "releases", "pld"] {
            assert!(text.contains(chosen), "{chosen} is not in\n{text}");
        }
        assert!(!text.contains("secret") && !text.contains("python3"), "{text}");
        let names: Vec<&str> = federation.space.parameters().iter().map(Parameter::name).collect();
        assert_eq!(names, ["z", "a", "m"]);
        // Freezing the text again does not change it.
        let (again, same) = frozen(&text);
        assert_eq!(same, text);
        let charter = |federation: &Federation| federation.privacy().unwrap().charter.clone();
        assert_eq!(charter(&again), charter(&federation));
        assert_eq!(charter(&again).config, text.as_bytes());
    }

    /// The charter has one line per parameter, and the text has the keys of the file.
    #[test]
    fn sets_and_orders_are_frozen_as_they_were_written() {
        let space = "[space.batch]\ntype = \"int\"\nvalues = [32, 16]\nlog = true\n[space.dose]\ntype = \"float\"\n\
                     values = [1, 0.5]\n[space.spin]\ntype = \"categorical\"\nchoices = [\"slow\", \"fast\"]\nordered = true\n\
                     [space.t]\ntype = \"float\"\nlow = 25.0\nhigh = 25.0\n";
        let agents = "[[agents]]\nname = \"a\"\n[[agents]]\nname = \"b\"\n";
        let (federation, text) =
            frozen(&format!("{HEAD}[privacy]\nepsilon = 2.0\n{space}{agents}"));
        for part in [
            "type = \"int\"\nlog = true\nvalues = [16, 32]",
            "type = \"float\"\nlog = false\nvalues = [0.5, 1.0]",
            "choices = [\"slow\", \"fast\"]\nordered = true",
            "low = 25.0\nhigh = 25.0",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert_eq!(frozen(&text).1, text);
        let mut config = fedbo_federated::PublicConfig::default();
        config.federation("n", 1, Direction::Minimize, 2, &[], &federation.space);
        let lines = String::from_utf8(config.bytes()).unwrap();
        for line in [
            "parameter batch = int in [16, 32] log\n",
            "parameter dose = float in [0.5, 1.0]\n",
            "parameter spin = ordered [\"slow\",\"fast\"]\n",
            "parameter t = float 25.0 25.0\n",
        ] {
            assert!(lines.contains(line), "{line} is not in\n{lines}");
        }
    }

    #[test]
    fn conditions_and_rules_are_part_of_the_text_and_of_the_charter() {
        let rules = "[[rules]]\nterms = { u = 1.0, v = -1.0 }\nat_least = 0.0\n[[mixtures]]\nparameters = [\"u\", \"v\"]\n";
        let number =
            |name: &str| format!("[space.{name}]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n");
        let space = format!(
            "[space.kind]\ntype = \"categorical\"\nchoices = [\"x\", \"y\"]\n{}when = {{ kind = [\"y\"] }}\n{}{}{rules}",
            number("z"),
            number("u"),
            number("v")
        );
        let head = HEAD.replace("dp-fts-de", "dp-shared-prior");
        let agents = "[[agents]]\nname = \"a\"\n[[agents]]\nname = \"b\"\n";
        let (federation, text) =
            frozen(&format!("{head}[privacy]\nepsilon = 2.0\n{space}{agents}"));
        assert!(federation.space.has_conditions() && federation.space.has_rules());
        let received = Federation::received(&text).unwrap();
        assert_eq!(received.space, federation.space);
        assert_eq!(frozen(&text).1, text);
        // Without the rules, or with another condition, it would be a different study.
        let config = |text: &str| frozen(text).0.privacy().unwrap().charter.config.clone();
        for other in [
            text.replace("at_least = 0.0", "at_least = 0.1"),
            text.replace("kind = [\"y\"]", "kind = [\"x\"]"),
        ] {
            assert_ne!(other, text);
            assert_ne!(config(&other), config(&text));
        }
        let in_one_process = |text: &str| {
            let file = TomlFile::from_text(Path::new("f.toml"), text);
            let read: FederationFile = file.parse().unwrap();
            let read =
                read.validate(&file, Objectives::Elsewhere, &NoProblems, ALGORITHMS).unwrap();
            String::from_utf8(read.privacy().unwrap().charter.config.clone()).unwrap()
        };
        let lines = in_one_process(&text);
        for line in [
            "when z = {\"kind\":[\"y\"]}\n",
            "rule = {\"terms\":",
            "mixture = {\"parameters\":[\"u\",\"v\"]}\n",
        ] {
            assert!(lines.contains(line), "{line} is not in\n{lines}");
        }
    }

    /// Frozen texts from older versions contain all tables of the operator's file.
    #[test]
    fn an_empty_table_of_another_algorithm_says_nothing_and_one_with_keys_is_refused() {
        let space = "[space.z]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n";
        let agents = "[[agents]]\nname = \"a\"\n[[agents]]\nname = \"b\"\n";
        let text =
            |fts: &str| format!("{HEAD}[fts]\n{fts}[privacy]\nepsilon = 2.0\n{space}{agents}");
        let (_, frozen) = frozen(&text(""));
        assert!(frozen.contains("[fts]") && Federation::thaw(&frozen).is_ok());
        let refused = Federation::thaw(&text("standardize = true\n")).map(|_| ()).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("[fts] has no effect unless federation.algorithm is \"fts\" or \"ts\""),
            "{refused}"
        );
    }

    #[test]
    fn a_text_that_says_what_agents_tune_is_refused() {
        let space = "[space.x1]\ntype = \"float\"\nlow = -5.0\nhigh = 10.0\n";
        let (_, text) = frozen(&format!(
            "{HEAD}[privacy]\nepsilon = 2.0\n{space}[[agents]]\nname = \"a\"\n[[agents]]\nname = \"b\"\n"
        ));
        for more in [
            "problem = \"branin\"",
            "command = [\"./secret\"]",
            "data = \"/dev\"",
            "noise_std = nan",
        ] {
            let hostile = text.replace("name = \"b\"", &format!("name = \"b\"\n{more}"));
            let error = Federation::thaw(&hostile).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("more than a name"), "{more}: {error}");
        }
    }

    #[test]
    fn a_parameter_whose_name_may_act_is_frozen_by_nobody_and_received_by_nobody() {
        let space =
            |name: &str| format!("[space.{name:?}]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n");
        let agents = "[[agents]]\nname = \"a\"\n[[agents]]\nname = \"b\"\n";
        let (_, text) = frozen(&format!("{HEAD}[privacy]\nepsilon = 2.0\n{}{agents}", space("x")));
        assert!(Federation::received(&text).is_ok());
        for name in ["x;id", "--x", "a/../b", "$x"] {
            let hostile = text.replace("[space.x]", &format!("[space.{name:?}]"));
            assert_ne!(hostile, text);
            let error = Federation::received(&hostile).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("f.toml");
            let file = format!("{HEAD}[privacy]\nepsilon = 2.0\n{}{agents}", space(name));
            std::fs::write(&path, file).unwrap();
            let error = Federation::freeze(&path, "00ff", &NoProblems).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("the name of a parameter must have"), "{error}");
        }
    }

    /// A program with a single problem, which has the parameter x1.
    struct OneProblem;

    impl Problems for OneProblem {
        fn find(&self, _: &ProblemSpec) -> Result<Arc<dyn Problem>, String> {
            let spec = ParameterSpec::float(-5.0, 10.0);
            let space = Space::from_specs([("x1", &spec)]).map_err(|error| error.to_string())?;
            Ok(Arc::new(Flat(space)))
        }
    }

    struct Flat(Space);

    impl Objective for Flat {
        fn evaluate(&self, _: &Point, _: TrialId) -> Outcome {
            Outcome::Value(0.0)
        }
    }

    impl Problem for Flat {
        fn name(&self) -> String {
            "flat".to_owned()
        }

        fn space(&self) -> &Space {
            &self.0
        }

        fn direction(&self) -> Direction {
            Direction::Minimize
        }

        fn noiseless(&self, _: &Point) -> Option<f64> {
            None
        }
    }

    #[test]
    fn the_space_of_a_built_in_problem_is_written_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.toml");
        let text = format!("{HEAD}direction = \"minimize\"\n[privacy]\nepsilon = 2.0\n{AGENTS}");
        std::fs::write(&path, text.replace("command = [\"./secret\"]", "problem = \"branin\""))
            .unwrap();
        let (_, text) = Federation::freeze(&path, "00ff", &OneProblem).unwrap();
        assert!(text.contains("[space.x1]") && !text.contains("branin"), "{text}");
    }
}
