//! `agent.toml`: an owner's description of an agent, and its validation.

use std::path::{Path, PathBuf};

use fedbo_config::{Check, FileError, ListedChoices, TomlFile};
use fedbo_objective::{CommandSpec, FailuresMax};
use fedbo_party::ObjectiveTable;
use fedbo_privacy::accounting::{Budget, Delta};
use fedbo_space::Space;
use fedbo_transport::ProxySetting;
use serde::Deserialize;

/// Default folder of an agent.
pub const HOME: &str = "fedbo-agent";
/// Default δ of an agent's own budget.
const DELTA: f64 = 1e-5;

/// A parsed file, not yet checked.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AgentToml {
    /// Version of the file's layout; 1 by default.
    version: Option<u64>,
    agent: AgentTable,
    objective: Option<ObjectiveTable>,
    privacy: Option<PrivacyTable>,
    choices: ListedChoices,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AgentTable {
    home: Option<PathBuf>,
    study: Option<String>,
    seed: Option<u64>,
    ca: Option<PathBuf>,
    proxy: Option<String>,
    failures_max: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PrivacyTable {
    epsilon_max: Option<f64>,
    delta: Option<f64>,
    allow_unprotected: Vec<String>,
}

/// A parsed agent file. Everything is checked except the command, which requires the study's space.
#[derive(Clone, Debug)]
pub struct AgentFile {
    /// The agent's folder, `agent.home`.
    pub home: PathBuf,
    /// The study to take part in, `agent.study`. Can be omitted if the agent has only one.
    pub study: Option<String>,
    /// Root seed of the agent's random draws, `agent.seed`. By default, a secret seed is drawn.
    pub seed: Option<u64>,
    /// Certificates of an additional certificate authority, `agent.ca`.
    pub authority: Option<PathBuf>,
    /// The outbound proxy, `agent.proxy`. Taken from the environment by default.
    pub proxy: ProxySetting,
    /// The privacy budget for all studies together, `[privacy]`.
    pub cap: Option<Budget>,
    /// The number of consecutive failed trials that ends a run, `agent.failures_max`.
    pub failures_max: FailuresMax,
    /// Studies that are allowed not to charge the budget, `privacy.allow_unprotected`.
    pub allow_unprotected: Vec<String>,
    file: TomlFile,
    objective: Option<ObjectiveTable>,
    /// Categorical choices that the owner has reviewed, `[choices]`.
    choices: ListedChoices,
}

impl AgentFile {
    /// Reads and checks a file. Relative paths in it are relative to its folder.
    ///
    /// # Errors
    /// Reports the first invalid value, with its location and the remedy.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        Self::checked(TomlFile::read(path)?)
    }

    /// Parses and checks an agent file given as a string. The `[objective]` table can be missing,
    /// because [`crate::run_with`] takes a function.
    ///
    /// Errors refer to the string as `path`. Relative paths in it are relative to the folder of
    /// `path`.
    ///
    /// # Errors
    /// As for [`AgentFile::load`].
    pub fn from_text(path: &Path, text: &str) -> Result<Self, FileError> {
        Self::checked(TomlFile::from_text(path, text))
    }

    fn checked(file: TomlFile) -> Result<Self, FileError> {
        let read: AgentToml = file.parse()?;
        if read.version.is_some_and(|version| version != 1) {
            let expected = "1, the only version of this file's layout so far";
            return Err(file.value_error(&["version"], expected));
        }
        let AgentTable { home, study, seed, ca, proxy, failures_max } = read.agent;
        let proxy = proxy.map(|given| given.parse()).transpose();
        let proxy = proxy.map_err(|expected| file.value_error(&["agent", "proxy"], expected))?;
        let privacy = read.privacy.as_ref();
        let cap = privacy.map(|table| table.cap(&file)).transpose()?;
        Ok(Self {
            home: file.folder().join(home.unwrap_or_else(|| HOME.into())),
            study,
            seed,
            authority: ca.map(|path| file.folder().join(path)),
            proxy: proxy.unwrap_or_default(),
            cap,
            failures_max: FailuresMax::from_key(failures_max),
            allow_unprotected: read.privacy.unwrap_or_default().allow_unprotected,
            objective: read.objective,
            choices: read.choices,
            file,
        })
    }

    /// Returns the command that evaluates a point of the study's space.
    ///
    /// # Errors
    /// If there is none, its program does not exist, a placeholder does not name a parameter, or
    /// the space has choices that are neither plain nor listed in the file (INV-24).
    pub fn command(&self, space: &Space) -> Result<CommandSpec, FileError> {
        Check::new(&self.file).foreign_choices(&self.choices, space)?;
        let table = self.objective.clone().unwrap_or_default();
        table.command(&self.file, space)
    }
}

impl PrivacyTable {
    fn cap(&self, file: &TomlFile) -> Result<Budget, FileError> {
        let Some(epsilon) = self.epsilon_max else {
            let remedy = "add epsilon_max = .., the budget over all studies of this agent";
            return Err(file.missing_error(&["privacy", "epsilon_max"], remedy));
        };
        let refused = |key, expected: &str| file.value_error(&["privacy", key], expected);
        let delta = Delta::new(self.delta.unwrap_or(DELTA))
            .map_err(|error| refused("delta", error.expected))?;
        Budget::new(epsilon, delta).map_err(|error| refused("epsilon_max", error.expected))
    }
}

#[cfg(test)]
mod tests {
    use fedbo_space::ParameterSpec;

    use super::*;

    const WHOLE: &str = "\
[agent]
home = \"north\"
study = \"wine\"
seed = 7
ca = \"ca.pem\"
proxy = \"http://proxy.example.org:3128\"
failures_max = 3

[objective]
command = [\"true\", \"{C}\"]
timeout_s = 600

[privacy]
epsilon_max = 4.0
delta = 1e-6
allow_unprotected = [\"beer\"]
";

    fn load(text: &str) -> Result<(AgentFile, CommandSpec), FileError> {
        let file = AgentFile::checked(TomlFile::from_text(Path::new("/tmp/agent.toml"), text))?;
        let spec = ParameterSpec::log_float(1e-3, 1e3);
        let space = Space::from_specs([("C", &spec)]).unwrap();
        let command = file.command(&space)?;
        Ok((file, command))
    }

    #[test]
    fn a_whole_file_is_read_as_it_says() {
        let (file, command) = load(WHOLE).unwrap();
        assert_eq!(file.home, Path::new("/tmp/north"));
        assert_eq!(file.authority.as_deref(), Some(Path::new("/tmp/ca.pem")));
        assert_eq!(file.proxy, ProxySetting::Url("http://proxy.example.org:3128".to_owned()));
        assert_eq!((file.study.as_deref(), file.seed), (Some("wine"), Some(7)));
        let cap = file.cap.unwrap();
        let expected = Budget::new(4.0, Delta::new(1e-6).unwrap()).unwrap();
        assert_eq!(cap, expected);
        assert_eq!(file.failures_max, FailuresMax::Always(3));
        assert_eq!(file.allow_unprotected, ["beer"]);
        assert_eq!(command.argv, ["true", "{C}"]);
        assert_eq!(command.directory.as_deref(), Some(Path::new("/tmp")));
    }

    #[test]
    fn choices_of_others_are_plain_or_listed() {
        let text = "[objective]\ncommand = [\"sh\", \"-c\", \"true\", \"sh\", \"{kernel}\"]\n";
        let command = |more: &str, choices: [&str; 2]| {
            let text = format!("{text}{more}");
            let file = AgentFile::checked(TomlFile::from_text(Path::new("/tmp/agent.toml"), &text));
            let spec = ParameterSpec::categorical(choices);
            let space = Space::from_specs([("kernel", &spec)]).unwrap();
            file.unwrap().command(&space).map_err(|error| error.to_string())
        };
        assert!(command("", ["rbf", "matern"]).is_ok());
        for hostile in ["x; touch pwned", "--config=other.conf"] {
            let message = command("", ["rbf", hostile]).unwrap_err();
            assert!(message.contains(hostile) && message.contains("[choices]"), "{message}");
        }
        let listed = "[choices]\nkernel = [\"rbf\", \"my odd choice\"]\n";
        assert!(command(listed, ["rbf", "my odd choice"]).is_ok());
        let message = command(listed, ["rbf", "another; one"]).unwrap_err();
        assert!(message.contains("line 4") && message.contains("is not a choice"), "{message}");
    }

    #[test]
    fn what_may_be_left_out_has_its_default() {
        let (file, _) = load("[objective]\ncommand = [\"true\"]\n").unwrap();
        assert_eq!(file.home, Path::new("/tmp/fedbo-agent"));
        assert!(file.study.is_none() && file.seed.is_none() && file.cap.is_none());
        assert_eq!(file.failures_max, FailuresMax::default());
        let (file, _) = load(&WHOLE.replace("delta = 1e-6\n", "")).unwrap();
        assert_eq!(file.cap.unwrap().delta(), Delta::new(1e-5).unwrap());
    }

    #[test]
    fn mistakes_are_named_with_their_place_and_a_way_out() {
        let cases: [(&str, &str, &[&str]); 10] = [
            (
                "http://proxy.example.org:3128",
                "socks5://proxy",
                &["agent.proxy", "expected http://HOST:PORT"],
            ),
            ("study =", "stduy =", &["line 3", "did you mean study?"]),
            ("seed = 7", "seed = -7", &["agent.seed"]),
            ("failures_max = 3", "failures_max = -3", &["line 7", "agent.failures_max"]),
            (
                "epsilon_max = 4.0",
                "epsilon_max = 0",
                &["line 14", "privacy.epsilon_max = 0", "above 0"],
            ),
            ("epsilon_max = 4.0\n", "", &["privacy.epsilon_max is missing"]),
            ("delta = 1e-6", "delta = 1", &["privacy.delta = 1", "below 1"]),
            ("{C}", "{B}", &["line 10", "{B} is not a parameter"]),
            ("timeout_s = 600", "timeout_s = 0", &["objective.timeout_s = 0"]),
            ("command = [\"true\", \"{C}\"]\n", "", &["objective.command is missing"]),
        ];
        for (from, to, words) in cases {
            assert!(WHOLE.contains(from), "{from}");
            let message = load(&WHOLE.replacen(from, to, 1)).unwrap_err().to_string();
            for word in words {
                assert!(message.contains(word), "{from:?} → {to:?}: {message}");
            }
        }
    }
}
