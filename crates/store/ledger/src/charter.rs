//! The charter of a ledger, fixed before the first round: the public configuration and the budget.

use fedbo_privacy::accounting::{AccountantKind, Budget, Mode};
use sha2::Digest as _;

use crate::LedgerError;
use crate::chain::{Hash, hash};

/// Maximum length of a name in characters.
pub const NAME_CHARS_MAX: usize = 200;

/// Maximum size of a configuration in bytes.
pub const CONFIG_BYTES_MAX: usize = 16 << 20;

/// The immutable public part of a study (INV-11). Any change requires a new study, which is charged
/// separately.
#[derive(Clone, Debug, PartialEq)]
pub struct Charter {
    /// The study's name: 1 to [`NAME_CHARS_MAX`] characters on one line.
    pub name: String,
    /// The public configuration in its canonical form, at most [`CONFIG_BYTES_MAX`] bytes. The
    /// ledger only compares and hashes it.
    pub config: Vec<u8>,
    /// The budget, ε and δ.
    pub budget: Budget,
    /// The guarantee to which ε refers.
    pub mode: Mode,
    /// The accountant that computes ε.
    pub accountant: AccountantKind,
    /// Maximum number of releases that can include the same agent (k of T). With such a limit, ε
    /// bounds the cost of that many releases. `None` if every agent can be in every release.
    pub participations: Option<u64>,
}

/// A difference between two charters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Name of the key that differs.
    pub key: String,
    /// The value in the study that is being opened.
    pub here: String,
    /// The value in the ledger.
    pub there: String,
}

impl Charter {
    /// Checks that a ledger can be created with this charter.
    pub(crate) fn check(&self) -> Result<(), LedgerError> {
        let n_chars = self.name.chars().count();
        if n_chars == 0 || n_chars > NAME_CHARS_MAX || self.name.contains(char::is_control) {
            return Err(LedgerError::Charter {
                key: "name",
                value: shortened(&format!("{:?}", self.name)),
                expected: "1 to 200 characters on one line",
            });
        }
        if self.config.len() > CONFIG_BYTES_MAX {
            return Err(LedgerError::Charter {
                key: "config",
                value: format!("{} bytes", self.config.len()),
                expected: "at most 16 MiB; store a hash of data instead of the data",
            });
        }
        if self.participations == Some(0) {
            return Err(LedgerError::Charter {
                key: "participations",
                value: "0".to_owned(),
                expected: "at least 1, or none for no limit",
            });
        }
        Ok(())
    }

    /// Returns the hash of all fields, with which the chain starts.
    pub(crate) fn hash(&self) -> Hash {
        hash(
            "fedbo ledger charter, version 1",
            &[
                self.name.as_bytes(),
                &self.config,
                &self.budget.epsilon().to_bits().to_le_bytes(),
                &self.budget.delta().get().to_bits().to_le_bytes(),
                self.guarantee().as_bytes(),
                self.accountant.name().as_bytes(),
            ],
        )
    }

    /// Returns the head before the first entry.
    #[must_use]
    pub fn genesis(&self) -> crate::Head {
        crate::Head { seq: 0, hash: self.hash() }
    }

    /// Returns the guarantee in the form that the ledger stores and hashes: the mode's name, and
    /// the maximum number of releases per agent if it is limited. Programs without support for the
    /// limit refuse ledgers that have one.
    pub(crate) fn guarantee(&self) -> String {
        let mode = mode_name(self.mode);
        match self.participations {
            None => mode.to_owned(),
            Some(most) => format!("{mode}, at most {most} releases an agent"),
        }
    }

    /// Returns the SHA-256 hash of the configuration.
    pub fn config_hash(&self) -> [u8; 32] {
        sha2::Sha256::digest(&self.config).into()
    }

    /// Returns the differences between this charter and a ledger's charter.
    pub(crate) fn differences(&self, there: &Self) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut compare = |key: &str, here: String, there: String| {
            if here != there {
                differences.push(Difference { key: key.to_owned(), here, there });
            }
        };
        let number = |number: f64| format!("{number:?}");
        compare("name", format!("{:?}", self.name), format!("{:?}", there.name));
        compare("budget.epsilon", number(self.budget.epsilon()), number(there.budget.epsilon()));
        compare(
            "budget.delta",
            number(self.budget.delta().get()),
            number(there.budget.delta().get()),
        );
        compare("mode", self.guarantee(), there.guarantee());
        let accountant = |charter: &Self| charter.accountant.name().to_owned();
        compare("accountant", accountant(self), accountant(there));
        differences.extend(config_difference(&self.config, &there.config));
        differences
    }
}

/// Returns the first differing line of two configurations, or their hashes if they are not text.
fn config_difference(here: &[u8], there: &[u8]) -> Option<Difference> {
    if here == there {
        return None;
    }
    let texts = (std::str::from_utf8(here), std::str::from_utf8(there));
    let difference =
        |key: String, here: String, there: String| Some(Difference { key, here, there });
    if let (Ok(here), Ok(there)) = texts {
        let (mut ours, mut theirs) = (here.split('\n'), there.split('\n'));
        for line in 1_u64.. {
            let (our, their) = (ours.next(), theirs.next());
            if our.is_none() && their.is_none() {
                break;
            }
            if our != their {
                let shown = |line: Option<&str>| match line {
                    Some(line) => shortened(&format!("{line:?}")),
                    None => "no such line".to_owned(),
                };
                return difference(format!("config, line {line}"), shown(our), shown(their));
            }
        }
    }
    let shown = |bytes: &[u8]| format!("{} bytes with SHA-256 {}", bytes.len(), sha256(bytes));
    difference("config".to_owned(), shown(here), shown(there))
}

fn sha256(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(bytes))
}

/// Truncates a long string.
fn shortened(text: &str) -> String {
    const MAX: usize = 120;
    match text.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the name of a mode in the file, which must never change.
pub(crate) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Default => "default",
        Mode::Paper => "paper",
    }
}

/// Parses a stored guarantee into its mode and limit.
pub(crate) fn guarantee_by_name(name: &str) -> Option<(Mode, Option<u64>)> {
    let (mode, limit) = match name.split_once(", ") {
        None => (name, None),
        Some((mode, limit)) => {
            let digits = limit.strip_prefix("at most ")?.strip_suffix(" releases an agent")?;
            let most: u64 = digits.parse().ok()?;
            let is_canonical = most > 0 && most.to_string() == digits; // each number has one form
            (mode, is_canonical.then_some(most).map(Some)?)
        }
    };
    let found = [Mode::Default, Mode::Paper].into_iter().find(|known| mode_name(*known) == mode)?;
    Some((found, limit))
}

pub(crate) fn accountant_by_name(name: &str) -> Option<AccountantKind> {
    AccountantKind::ALL.into_iter().find(|kind| kind.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guarantee_has_one_form() {
        for (name, expected) in [
            ("default", Some((Mode::Default, None))),
            ("paper", Some((Mode::Paper, None))),
            ("default, at most 5 releases an agent", Some((Mode::Default, Some(5)))),
            ("default, at most 05 releases an agent", None),
            ("default, at most +5 releases an agent", None),
            ("default, at most 0 releases an agent", None),
            ("default, at most  releases an agent", None),
            ("default, at most 5", None),
            ("default, ", None),
            ("", None),
        ] {
            assert_eq!(guarantee_by_name(name), expected, "{name:?}");
        }
    }
}
