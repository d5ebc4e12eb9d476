//! Checks on single values. Errors contain the key, the value found and a remedy.

use std::collections::BTreeMap;

use fedbo_gp::Family;
use fedbo_space::{MixtureSpec, Parameter, ParameterSpec, RuleSpec, Space, SpaceError};
use fedbo_strategies::{StrategyError, UcbMultiplier, in_words};

use super::toml_file::{FileError, TomlFile, format_key_path, nearest};

/// Maximum number of characters in a name.
pub const NAME_CHARS_MAX: usize = 100;

/// Returns true if a name can be used as the name of a folder and cannot refer to a path outside of
/// its parent.
pub fn is_folder_name(name: &str) -> bool {
    !name.trim().is_empty()
        && name.chars().count() <= NAME_CHARS_MAX
        && !name.starts_with(['.', '-'])
        && !name.chars().any(|c| c.is_control() || c == '/' || c == '\\')
}

/// Validates parts of a file and reports errors with their location.
///
/// Each method takes the path of a key (names of tables and keys, indices as numbers) and the value
/// read there. It returns the parsed value.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// The file that contains the values.
    pub file: &'a TomlFile,
}

impl<'a> Check<'a> {
    /// Creates a validator for values of this file.
    pub fn new(file: &'a TomlFile) -> Self {
        Self { file }
    }

    /// Parses a word, or returns `None` if it is absent.
    ///
    /// # Errors
    /// Fails if the word is unknown. The error suggests the most similar known word.
    pub fn word<T: Copy>(
        &self,
        path: &[&str],
        given: Option<&str>,
        known: &[(&str, T)],
    ) -> Result<Option<T>, FileError> {
        let Some(given) = given else {
            return Ok(None);
        };
        let found = known.iter().find(|(word, _)| *word == given);
        if let Some((_, meaning)) = found {
            return Ok(Some(*meaning));
        }
        let words = known.iter().map(|(word, _)| *word);
        let mut expected = in_words(words, "or");
        if let Some(near) = nearest(given, known.iter().map(|(word, _)| *word)) {
            expected += &format!(" (did you mean {near:?}?)");
        }
        Err(self.file.value_error(path, expected))
    }

    /// Checks that a value is a whole number from 1 to `max`.
    ///
    /// # Errors
    /// Fails if the value is out of range.
    pub fn count(&self, path: &[&str], given: usize, max: usize) -> Result<usize, FileError> {
        if (1..=max).contains(&given) {
            Ok(given)
        } else {
            let expected = format!("a whole number from 1 to {max}");
            Err(self.file.value_error(path, expected))
        }
    }

    /// Checks that a number is finite and above 0.
    ///
    /// # Errors
    /// Fails if the number is not finite and positive, or is subnormal and therefore cannot be
    /// stored at full precision.
    pub fn positive(&self, path: &[&str], given: f64) -> Result<f64, FileError> {
        if given.is_normal() && given > 0.0 {
            Ok(given)
        } else {
            let expected = "a finite number above 0";
            Err(self.file.value_error(path, expected))
        }
    }

    /// Returns a setting that an algorithm has validated.
    ///
    /// # Errors
    /// Returns the algorithm's error, located at the key.
    pub fn setting<T>(
        &self,
        path: &[&str],
        checked: Result<T, StrategyError>,
    ) -> Result<T, FileError> {
        checked.map_err(|error| match error {
            StrategyError::Setting { expected, .. } => self.file.value_error(path, expected),
            other => self.file.error(path, other.to_string()),
        })
    }

    /// Checks that a name can be used as the name of a folder.
    ///
    /// # Errors
    /// Fails if the name is empty or too long, contains a slash or a control character, or starts
    /// with a dot or a dash.
    pub fn folder_name(&self, path: &[&str], name: &str) -> Result<(), FileError> {
        if is_folder_name(name) {
            return Ok(());
        }
        let expected = format!(
            "a name that is valid for a folder: 1 to {NAME_CHARS_MAX} characters, no slash, no leading dot or dash"
        );
        Err(self.file.value_error(path, expected))
    }

    /// Parses the name of a kernel family, or returns `None` if it is absent.
    ///
    /// # Errors
    /// Fails if the name is unknown.
    pub fn family(&self, path: &[&str], given: Option<&str>) -> Result<Option<Family>, FileError> {
        let known = [
            ("matern-5/2", Family::Matern52),
            ("matern-3/2", Family::Matern32),
            ("squared-exponential", Family::SquaredExponential),
        ];
        self.word(path, given, &known)
    }

    /// Returns β_t of a federation, or the constant 1 if it is absent.
    ///
    /// # Errors
    /// Fails if the value is neither a constant nor the multiplier of theorem 1.
    pub fn ucb_multiplier(
        &self,
        path: &[&str],
        given: Option<UcbMultiplier>,
    ) -> Result<UcbMultiplier, FileError> {
        match given.unwrap_or(UcbMultiplier::Constant(1.0)) {
            known @ (UcbMultiplier::Constant(_) | UcbMultiplier::Theorem1 { .. }) => Ok(known),
            _ => Err(self.file.value_error(path, UcbMultiplier::FORMS)),
        }
    }

    /// Returns the space of the tables `[path.NAME]`, with parameters in file order.
    ///
    /// # Errors
    /// Fails if there is no parameter, or if a parameter is invalid.
    pub fn space(
        &self,
        path: &[&str],
        given: &BTreeMap<String, ParameterSpec>,
    ) -> Result<Space, FileError> {
        let mut parameters = Vec::with_capacity(given.len());
        for name in self.file.keys_in_order(path) {
            if let Some(spec) = given.get(&name) {
                let parameter = Parameter::from_spec(&name, spec);
                parameters
                    .push(parameter.map_err(|error| self.parameter_error(path, &name, error))?);
            }
        }
        Space::new(parameters).map_err(|error| match &error {
            SpaceError::Parameter { name, .. } => {
                let name = name.clone();
                self.parameter_error(path, &name, error)
            }
            _ => self.file.error(path, error.to_string()),
        })
    }

    /// Returns a space with the linear rules of `[[rules]]` and the mixtures of `[[mixtures]]`.
    ///
    /// # Errors
    /// Fails if a rule or mixture is invalid.
    pub fn with_rules(
        &self,
        space: &Space,
        rules: &[RuleSpec],
        mixtures: &[MixtureSpec],
    ) -> Result<Space, FileError> {
        let with_rules = |key: &str, mixtures: &[MixtureSpec]| {
            let space = space.clone().with_rules(rules, mixtures);
            space.map_err(|error| self.file.error(&[key], error.to_string()))
        };
        with_rules("rules", &[])?;
        with_rules("mixtures", mixtures)
    }

    /// Returns the space of the tables `[path.NAME]`, for a kind of file that cannot use conditional
    /// parameters yet. `owner` names it, as in "a game".
    ///
    /// # Errors
    /// Same as [`Check::space`]. Also fails if a parameter has a condition.
    pub fn unconditional_space(
        &self,
        path: &[&str],
        given: &BTreeMap<String, ParameterSpec>,
        owner: &str,
    ) -> Result<Space, FileError> {
        let space = self.space(path, given)?;
        let conditional = space.parameters().iter().find(|each| !each.when().is_empty());
        let Some(parameter) = conditional else {
            return Ok(space);
        };
        let name = parameter.name();
        let message = format!(
            "{}: {owner} cannot use conditional parameters yet; remove the key and let the objective ignore {name} where it has no \
             effect, or tune in a study (fedbo tune)",
            format_key_path(&[path, &[name, "when"]].concat())
        );
        Err(self.file.error(&[path, &[name, "when"]].concat(), message))
    }

    fn parameter_error(&self, path: &[&str], name: &str, error: SpaceError) -> FileError {
        let at = [path, &[name]].concat();
        match &error {
            SpaceError::Parameter { key, expected, .. } if key != "name" => {
                // The key of a condition has two parts: `when.booster`.
                let key = match key.split_once('.') {
                    Some((table, parent)) => vec![table, parent],
                    None => vec![key.as_str()],
                };
                let at = [at, key].concat();
                self.file.value_error(&at, expected.clone())
            }
            _ => self.file.error(&at, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fedbo_strategies::HyperparameterPolicy;
    use serde::Deserialize;

    use super::*;
    use crate::{CommandKeys, SurrogateTable};

    #[derive(Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Example {
        direction: Option<String>,
        name: Option<String>,
        count: Option<usize>,
        command: Vec<String>,
        timeout_s: Option<f64>,
        ucb_multiplier: Option<UcbMultiplier>,
        surrogate: SurrogateTable,
        space: BTreeMap<String, ParameterSpec>,
    }

    fn file(text: &str) -> (TomlFile, Example) {
        let file = TomlFile::from_text(Path::new("example.toml"), text);
        let example = file.parse().expect("a file whose types are right");
        (file, example)
    }

    #[test]
    fn a_word_that_is_not_known_is_answered_with_the_nearest() {
        let (file, read) = file("direction = \"minimise\"");
        let known = [("maximize", 1), ("minimize", -1)];
        let error = Check::new(&file)
            .word(&["direction"], read.direction.as_deref(), &known)
            .expect_err("another word");
        assert_eq!(
            error.to_string(),
            "example.toml, line 1: direction = \"minimise\", expected \"maximize\" or \"minimize\" \
             (did you mean \"minimize\"?)"
        );
    }

    #[test]
    fn a_number_out_of_range_is_shown_with_its_line() {
        let (file, read) = file("name = \"../up\"\n\ncount = 0\nucb_multiplier = \"logarithmic\"");
        let check = Check::new(&file);
        let name = read.name.unwrap_or_default();
        let negative = TomlFile::from_text(Path::new("example.toml"), "ucb_multiplier = -1");
        let errors = [
            check.count(&["count"], read.count.unwrap_or(1), 9).err(),
            check.folder_name(&["name"], &name).err(),
            check.ucb_multiplier(&["ucb_multiplier"], read.ucb_multiplier).err(),
            negative.parse::<Example>().err(),
        ];
        let begins = [
            "example.toml, line 3: count = 0, expected a whole number from 1 to 9",
            "example.toml, line 1: name = \"../up\", expected a name that is valid for a folder",
            "example.toml, line 4: ucb_multiplier = \"logarithmic\", expected a number, or { norm_bound",
            "example.toml, line 1: ucb_multiplier = -1, expected a finite number of at least 0",
        ];
        for (error, begin) in errors.into_iter().zip(begins) {
            let error = error.expect("refused").to_string();
            assert!(error.starts_with(begin), "{error}");
        }
        assert!(check.positive(&["count"], f64::MIN_POSITIVE / 2.0).is_err());
    }

    #[test]
    fn a_space_keeps_the_order_of_the_file() {
        let (file, read) = file(
            "[space.width]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n[space.alpha]\ntype = \"float\"\nlow = 1e-3\nhigh = 1.0\nlog = true",
        );
        let space = Check::new(&file).space(&["space"], &read.space).expect("a space");
        let names: Vec<&str> = space.parameters().iter().map(Parameter::name).collect();
        assert_eq!(names, ["width", "alpha"]);
    }

    #[test]
    fn a_bad_bound_is_named_by_table_and_line() {
        let (file, read) = file("[space.width]\ntype = \"float\"\nlow = 2.0\nhigh = 1.0");
        let error = Check::new(&file)
            .space(&["space"], &read.space)
            .expect_err("bounds the wrong way round");
        let error = error.to_string();
        assert!(error.starts_with("example.toml, line "), "{error}");
        assert!(error.contains("space.width"), "{error}");
    }

    #[test]
    fn a_condition_is_checked_and_refused_where_it_cannot_be_used() {
        let text = |when: &str| {
            format!(
                "[space.kind]\ntype = \"categorical\"\nchoices = [\"a\", \"b\"]\n\
                 [space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\nwhen = {when}"
            )
        };
        let (good, read) = file(&text("{ kind = \"b\" }"));
        let check = Check::new(&good);
        assert!(check.space(&["space"], &read.space).expect("a space").has_conditions());
        let refused = check.unconditional_space(&["space"], &read.space, "a game");
        let refused = refused.expect_err("a condition").to_string();
        assert!(
            refused.starts_with(
                "example.toml, line 8: space.x.when: a game cannot use conditional parameters yet; remove"
            ),
            "{refused}"
        );
        let (bad, read) = file(&text("{ kind = \"c\" }"));
        let refused = Check::new(&bad).space(&["space"], &read.space).expect_err("no choice");
        assert_eq!(
            refused.to_string(),
            "example.toml, line 8: space.x.when.kind = \"c\", expected one of a, b"
        );
    }

    #[test]
    fn a_surrogate_is_fitted_unless_a_length_scale_is_given() {
        let policy = |text: &str| {
            let (file, read) = file(text);
            let check = Check::new(&file);
            let checked = check.surrogate(&["surrogate"], &read.surrogate, 2);
            checked.map(|settings| settings.hyperparameters)
        };
        let fitted = policy("").expect("the default");
        assert!(matches!(fitted, HyperparameterPolicy::Fitted { .. }));
        let fixed = policy("[surrogate]\nlengthscale = [0.1, 0.2]").expect("one per coordinate");
        assert!(matches!(fixed, HyperparameterPolicy::Fixed(_)));
        let short = policy("[surrogate]\nlengthscale = [0.1]").expect_err("one for two");
        assert!(short.to_string().contains("2 numbers"), "{short}");
        let lone = policy("[surrogate]\noutputscale = 2.0").expect_err("nothing to stand beside");
        assert_eq!(
            lone.to_string(),
            "example.toml, line 2: surrogate.outputscale is fitted unless surrogate.lengthscale is given too; add \
             lengthscale, or remove outputscale"
        );
    }

    #[test]
    fn a_command_is_checked_with_its_time_limit() {
        let error = |text: &str, owner: &str| {
            let (file, read) =
                file(&format!("{text}\n[space.x]\ntype = \"int\"\nlow = 0\nhigh = 9"));
            let check = Check::new(&file);
            let space = check.space(&["space"], &read.space).expect("a space");
            let keys = CommandKeys {
                command: &read.command,
                timeout_s: read.timeout_s,
                ..CommandKeys::default()
            };
            let refused = check.command(&[], owner, keys, &space).expect_err("refused");
            refused.to_string()
        };
        let unknown = error("command = [\"true\", \"{y}\"]", "agent \"a\"");
        assert!(
            unknown.starts_with("example.toml, line 1: agent \"a\": command[1] = \"{y}\""),
            "{unknown}"
        );
        let empty = error("command = []", "");
        assert!(empty.starts_with("example.toml, line 1: command = []"), "{empty}");
        let timeout = error("command = [\"true\"]\ntimeout_s = 0", "");
        assert!(
            timeout
                .starts_with("example.toml, line 2: timeout_s = 0, expected a number of seconds"),
            "{timeout}"
        );
    }
}
