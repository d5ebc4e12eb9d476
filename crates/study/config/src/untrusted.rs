//! Rules for names and choices in a space that another party wrote (INV-24).
//!
//! A choice becomes an argument of a command on the evaluating party's machine. It must not act as
//! an option, a path, a pattern or part of a script there, regardless of how the command uses it.
//! Numbers, as formatted by this program, cannot do so.

use std::collections::BTreeMap;

use fedbo_space::{Parameter, Space, Value};

use super::check::Check;
use super::toml_file::FileError;

/// Maximum number of characters in a name or a choice that is accepted without confirmation.
const CHARS_MAX: usize = 64;

/// Descriptions of the characters allowed in names and choices.
const NAME_IS: &str = "1 to 64 of the characters a-z, A-Z, 0-9, \"_\", \".\" and \"-\", a letter or \"_\" first, no \"..\"";
const CHOICE_IS: &str = "1 to 64 of the characters a-z, A-Z, 0-9, \"_\", \".\", \"-\", \"+\" and \",\", a letter, a digit or \"_\" first, no \"..\"";

/// The `[choices]` table: choices that the owner of a file has approved, by parameter. Numbers and
/// booleans can be omitted.
pub type ListedChoices = BTreeMap<String, Vec<Value>>;

/// A choice of another party that the evaluating party must list in its own file before the choice
/// is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnlistedChoice {
    /// Name of the parameter.
    pub parameter: String,
    /// The choice.
    pub choice: String,
}

/// Returns the choices of a space that are not plain.
#[must_use]
pub fn odd_choices(space: &Space) -> Vec<UnlistedChoice> {
    let of_parameter = |parameter: &Parameter| {
        let odd = texts(parameter).into_iter().filter(|text| !is_plain_choice(text));
        let name = parameter.name().to_owned();
        let odd = odd.map(|choice| UnlistedChoice { parameter: name.clone(), choice });
        odd.collect::<Vec<_>>()
    };
    space.parameters().iter().flat_map(of_parameter).collect()
}

/// Returns `[choices]` entries, as TOML, that list all choices of each parameter with a choice that
/// is not plain.
#[must_use]
pub fn choices_to_write(space: &Space) -> Option<String> {
    let mut table = toml::Table::new();
    for parameter in space.parameters() {
        let texts = texts(parameter);
        if texts.iter().any(|text| !is_plain_choice(text)) {
            let list = texts.into_iter().map(toml::Value::String);
            table.insert(parameter.name().to_owned(), list.collect::<Vec<_>>().into());
        }
    }
    (!table.is_empty()).then(|| table.to_string())
}

impl Check<'_> {
    /// Checks that other parties accept the parameter names of a space.
    ///
    /// # Errors
    /// Fails if a name is not plain.
    pub fn foreign_names(&self, space: &Space) -> Result<(), FileError> {
        // INV-24: names become keys and placeholders on the machines of other parties.
        let names = space.parameters().iter().map(Parameter::name);
        match names.into_iter().find(|name| !is_plain_name(name)) {
            None => Ok(()),
            Some(name) => {
                let message = format!(
                    "parameter {name:?}: over a network, the name of a parameter must have {NAME_IS}; it becomes part of other parties' commands"
                );
                Err(self.file.error(&["space", name], message))
            }
        }
    }

    /// Checks that every choice in another party's space is plain or is listed in this file's
    /// `[choices]`.
    ///
    /// # Errors
    /// Fails if a choice is neither, or if the table contains a parameter or a choice that the
    /// space does not have.
    pub fn foreign_choices(&self, own: &ListedChoices, space: &Space) -> Result<(), FileError> {
        for (name, listed) in own {
            let path = ["choices", name.as_str()];
            let found = space.parameters().iter().find(|p| p.name() == name);
            let Some(parameter) = found else {
                let known: Vec<String> = space
                    .parameters()
                    .iter()
                    .map(|parameter| format!("{:?}", parameter.name()))
                    .collect();
                let message = format!(
                    "choices.{name}: {name:?} is not a parameter of the study, which has {}; remove the line",
                    known.join(", ")
                );
                return Err(self.file.error(&path, message));
            };
            let choices = parameter.kind().choices();
            let strange = listed.iter().find(|choice| !choices.contains(choice));
            if let Some(strange) = strange {
                let message = format!(
                    "choices.{name}: {} is not a choice of the study, which has {}; copy them exactly",
                    shown(strange),
                    choices.iter().map(shown).collect::<Vec<_>>().join(", ")
                );
                return Err(self.file.error(&path, message));
            }
            let is_listed = |text: &String| listed.contains(&Value::Choice(text.clone()));
            if let Some(missing) = texts(parameter).iter().find(|text| !is_listed(text)) {
                let message = format!(
                    "choices.{name} lacks the study's choice {missing:?}; if your command may receive it, add it to the list"
                );
                return Err(self.file.error(&path, message));
            }
        }
        // INV-24: choices that are not listed in the party's own file must be plain.
        let odd = odd_choices(space);
        let Some(UnlistedChoice { parameter, choice }) =
            odd.into_iter().find(|odd| !own.contains_key(&odd.parameter))
        else {
            return Ok(());
        };
        let lines = choices_to_write(space).unwrap_or_default();
        let message = format!(
            "the study's parameter {parameter} has the choice {choice:?}, which your command would receive. Choices written by others must \
             have {CHOICE_IS}. If your command accepts all of these as they are, add [choices] with {}",
            lines.trim_end().replace('\n', " and ")
        );
        Err(self.file.error(&["choices"], message))
    }
}

/// Formats a choice as in a file, with terminal control characters escaped.
fn shown(choice: &Value) -> String {
    match choice {
        Value::Choice(text) => format!("{text:?}"),
        number => number.to_string(),
    }
}

/// Returns the choices of a parameter that are strings.
fn texts(parameter: &Parameter) -> Vec<String> {
    let text = |choice: &Value| match choice {
        Value::Choice(text) => Some(text.clone()),
        Value::Int(_) | Value::Float(_) | Value::Bool(_) => None,
    };
    parameter.kind().choices().iter().filter_map(text).collect()
}

fn is_plain_name(name: &str) -> bool {
    is_plain(name, "_", "_.-") && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn is_plain_choice(choice: &str) -> bool {
    is_plain(choice, "_", "_.-+,")
}

/// Returns true if the string consists of ASCII letters, digits and `others`, starts with a letter,
/// a digit or one of `first`, has at most [`CHARS_MAX`] bytes and does not contain `..`.
fn is_plain(text: &str, first: &str, others: &str) -> bool {
    let fits = |c: char, others: &str| c.is_ascii_alphanumeric() || others.contains(c);
    text.starts_with(|c| fits(c, first))
        && text.chars().all(|c| fits(c, others))
        && text.len() <= CHARS_MAX
        && !text.contains("..")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fedbo_space::ParameterSpec;

    use super::*;
    use crate::TomlFile;

    /// Checks a file containing `own` against a space that has a parameter with these choices.
    fn checked(choices: &[&str], own: &str) -> Result<(), String> {
        let spec = ParameterSpec::categorical(choices.iter().copied());
        let width = ParameterSpec::float(0.0, 1.0);
        let space = Space::from_specs([("width", &width), ("kernel", &spec)]).expect("a space");
        let file = TomlFile::from_text(Path::new("agent.toml"), own);
        let read: BTreeMap<String, ListedChoices> = file.parse().expect("a table");
        let own = read.get("choices").cloned().unwrap_or_default();
        let checked = Check::new(&file).foreign_choices(&own, &space);
        checked.map_err(|error| error.to_string())
    }

    #[test]
    fn plain_choices_are_taken_and_all_others_are_not() {
        let long = "a".repeat(CHARS_MAX);
        for plain in ["rbf", "matern-5", "RBF_2", "1e-3", "64,32", "c++", "v1.0", "_", &long] {
            assert_eq!(checked(&[plain, "other"], ""), Ok(()), "{plain}");
        }
        let longer = "a".repeat(CHARS_MAX + 1);
        for odd in [
            "x; touch pwned",
            "--config=other.conf",
            "-c",
            "",
            " ",
            ".",
            "..",
            "a..b",
            ".ssh",
            "/etc/passwd",
            "a/b",
            "~root",
            "@file",
            "+x",
            "$(id)",
            "`id`",
            "a|b",
            "a&b",
            "a>b",
            "a*",
            "a?",
            "[a]",
            "{a}",
            "a\\b",
            "a'b",
            "a\"b",
            "a=b",
            "a:b",
            "a%b",
            "a#b",
            "a!b",
            "größer",
            "\u{202e}fbr",
            "r\u{200b}bf",
            "r\u{430}f",
            &longer,
        ] {
            let message = checked(&[odd, "other"], "").expect_err(odd);
            assert!(message.contains("kernel") && message.contains("[choices]"), "{message}");
        }
    }

    /// Ordered and single choices reach a command like all others.
    #[test]
    fn an_order_does_not_hide_a_choice() {
        let width = ParameterSpec::float(0.0, 1.0);
        for spec in [
            ParameterSpec::ordered(["rbf", "x; touch pwned"]),
            ParameterSpec::categorical(["x; touch pwned"]),
        ] {
            let space = Space::from_specs([("width", &width), ("kernel", &spec)]).expect("a space");
            let odd = odd_choices(&space);
            assert_eq!(odd.len(), 1, "{spec:?}");
            assert_eq!(odd[0].choice, "x; touch pwned");
        }
    }

    #[test]
    fn what_the_owner_lists_is_taken_and_must_fit_the_study() {
        let odd = ["rbf", "my odd choice"];
        let listed = "[choices]\nkernel = [\"rbf\", \"my odd choice\"]";
        assert_eq!(checked(&odd, listed), Ok(()));
        for (own, words) in [
            ("", "add [choices] with kernel = [\"rbf\", \"my odd choice\"]"),
            (
                "[choices]\nkernel = [\"rbf\"]",
                "line 2: choices.kernel lacks the study's choice \"my odd choice\"",
            ),
            (
                "[choices]\nkernel = [\"rbf\", \"my odd choice\", \"x\"]",
                "line 2: choices.kernel: \"x\" is not a choice of the study",
            ),
            (
                "[choices]\nkern = []",
                "\"kern\" is not a parameter of the study, which has \"width\", \"kernel\"",
            ),
            (
                "[choices]\nkernel = [\"rbf\", \"my odd choice\", 16]",
                "16 is not a choice of the study, which has \"rbf\", \"my odd choice\"",
            ),
            ("[choices]\nwidth = [\"a\"]", "choices.width: \"a\" is not a choice"),
        ] {
            let message = checked(&odd, own).expect_err(own);
            assert!(message.contains(words), "{own}: {message}");
        }
    }

    #[test]
    fn names_of_parameters_are_plain_for_others() {
        let width = ParameterSpec::float(0.0, 1.0);
        let file = TomlFile::from_text(Path::new("f.toml"), "");
        let check = |name: &str| {
            let space = Space::from_specs([(name, &width)]).expect("a space");
            Check::new(&file).foreign_names(&space)
        };
        for name in ["x", "learning_rate", "optim.lr", "l-2", "_", "X1"] {
            assert!(check(name).is_ok(), "{name}");
        }
        for name in ["-x", "1x", "a;b", "$x", "a/b", "a..b", "é", "x\u{202e}", "a=b"] {
            let message = check(name).expect_err(name).to_string();
            assert!(message.contains("the name of a parameter must have"), "{message}");
        }
    }
}
