//! The charter of a ledger, fixed before the first round: the study's public configuration and its budget.

use fedbo_privacy::accounting::{AccountantKind, Budget, Mode};
use sha2::Digest as _;

use crate::LedgerError;
use crate::chain::{Hash, hash};

/// Characters of a name at most.
pub const NAME_CHARS_MAX: usize = 200;

/// Bytes of a configuration at most.
pub const CONFIG_BYTES_MAX: usize = 16 << 20;

/// All that is public of a study and never changes (INV-11): any change is a new study with a new charge.
#[derive(Clone, Debug, PartialEq)]
pub struct Charter {
    /// The study's name: 1 to [`NAME_CHARS_MAX`] characters on one line.
    pub name: String,
    /// The public configuration in its one canonical form, at most [`CONFIG_BYTES_MAX`]: the ledger compares and hashes it only.
    pub config: Vec<u8>,
    /// The ε and the δ that may be spent.
    pub budget: Budget,
    /// The guarantee that ε states.
    pub mode: Mode,
    /// The accountant that computes ε.
    pub accountant: AccountantKind,
    /// The releases that each agent may be in (k of T), where they are fewer than all: ε is then that of so many. `None` where every agent
    /// may be in every release.
    pub participations: Option<u64>,
}

/// A key of two charters that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its name.
    pub key: String,
    /// The value in the study that is being opened.
    pub here: String,
    /// The value in the ledger.
    pub there: String,
}

impl Charter {
    /// That a ledger can be begun with it.
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
                expected: "at most 16 MiB; keep data out of it and name its hash instead",
            });
        }
        if self.participations == Some(0) {
            return Err(LedgerError::Charter {
                key: "participations",
                value: "0".to_owned(),
                expected: "at least 1, or none where every agent may be in every release",
            });
        }
        Ok(())
    }

    /// Hash over all of it: where the chain begins.
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

    /// Returns the head before the first entry, at which the ledger of a study begins.
    #[must_use]
    pub fn genesis(&self) -> crate::Head {
        crate::Head { seq: 0, hash: self.hash() }
    }

    /// The guarantee as the ledger stores and hashes it: the mode's name, and in how many releases an agent may be where that is
    /// limited. A program that knows of no limit refuses such a ledger.
    pub(crate) fn guarantee(&self) -> String {
        let mode = mode_name(self.mode);
        match self.participations {
            None => mode.to_owned(),
            Some(most) => format!("{mode}, at most {most} releases an agent"),
        }
    }

    /// SHA-256 of the configuration.
    pub fn config_hash(&self) -> [u8; 32] {
        sha2::Sha256::digest(&self.config).into()
    }

    /// The keys in which this differs from what a ledger says.
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

/// The first line of two configurations that differs, or their hashes if they are no texts.
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

/// The beginning of a text that may be long.
fn shortened(text: &str) -> String {
    const MAX: usize = 120;
    match text.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A mode's name in the file; never changes.
pub(crate) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Default => "default",
        Mode::Paper => "paper",
    }
}

/// The mode and the limit that a stored guarantee names.
pub(crate) fn guarantee_by_name(name: &str) -> Option<(Mode, Option<u64>)> {
    let (mode, limit) = match name.split_once(", ") {
        None => (name, None),
        Some((mode, limit)) => {
            let digits = limit.strip_prefix("at most ")?.strip_suffix(" releases an agent")?;
            let most: u64 = digits.parse().ok()?;
            let is_canonical = most > 0 && most.to_string() == digits; // one form for each number
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
