//! Arms: different ways to run a federation's agents with the same seeds.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use fedbo_strategies::StrategyError;

use crate::ALGORITHMS;

/// The role of an arm in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The algorithm itself.
    Own,
    /// Standalone agents with Thompson sampling.
    Alone,
    /// Standalone agents with log expected improvement.
    LogEi,
    /// Agents that try the others' best points first, and then use standalone log expected
    /// improvement.
    WarmStart,
    /// The algorithm with messages that contain no information. These are draws from the prior (at
    /// random points if messages contain points), zeros if releases are noisy, and values at random
    /// points if observations are shared.
    Placebo,
}

impl Role {
    /// Returns a short plain label for tables and figures, shown before an arm's name: `together
    /// (shared-prior)`.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Own => "together",
            Self::Alone | Self::LogEi => "each alone",
            Self::WarmStart => "copy the others' best",
            Self::Placebo => "messages without information",
        }
    }

    /// Returns the error for an algorithm that does not support this role.
    #[must_use]
    pub fn not_of_this_algorithm(self) -> StrategyError {
        StrategyError::setting(
            "part of an arm",
            format!("{self:?}"),
            "one that the algorithm has among its arms",
        )
    }
}

/// One way to run a federation's agents, with the same seeds as every other arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arm {
    /// The role in the comparison.
    pub role: Role,
    name: &'static str,
}

impl Arm {
    /// Standalone agents with Thompson sampling.
    pub const ALONE: Self = Self { role: Role::Alone, name: "ts" };
    /// Standalone agents with log expected improvement.
    pub const LOG_EI: Self = Self { role: Role::LogEi, name: "log-ei" };
    /// Agents that try the others' best points first.
    pub const WARM_START: Self = Self { role: Role::WarmStart, name: "warm-start" };
    /// The control with messages that contain no information.
    pub const PLACEBO: Self = Self { role: Role::Placebo, name: "placebo" };

    /// Creates the arm that runs the algorithm itself; `name` is used in results.
    #[must_use]
    pub const fn own(name: &'static str) -> Self {
        Self { role: Role::Own, name }
    }

    /// Returns the arm's name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns true if agents use each other's messages in this arm.
    #[must_use]
    pub fn exchanges(self) -> bool {
        !matches!(self.role, Role::Alone | Role::LogEi)
    }

    /// Returns the plain labels for all arms in the registry, by arm name.
    #[must_use]
    pub fn labels() -> BTreeMap<String, String> {
        let pair = |arm: Self| (arm.name.to_owned(), arm.role.in_words().to_owned());
        Self::all().into_iter().map(pair).collect()
    }

    /// Returns the arms of all algorithms in the registry.
    fn all() -> Vec<Self> {
        let own = ALGORITHMS
            .iter()
            .filter(|algorithm| algorithm.role == Role::Own)
            .flat_map(|algorithm| [Some(algorithm.name), algorithm.name_without_noise])
            .flatten()
            .map(Self::own);
        own.chain([Self::LOG_EI, Self::WARM_START, Self::ALONE, Self::PLACEBO]).collect()
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for Arm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = Self::all();
        let found = all.iter().find(|arm| arm.name == text).copied();
        found.ok_or_else(|| format!("unknown arm {text:?}; known are {}", names(&all)))
    }
}

/// Returns the names of arms, separated by commas.
#[must_use]
pub fn names(arms: &[Arm]) -> String {
    let names: Vec<&str> = arms.iter().map(|arm| arm.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every arm that a file or `--arms` can name has the label of its role.
    #[test]
    fn every_arm_has_plain_words() {
        let labels = Arm::labels();
        for (name, words) in [
            ("fts", "together"),
            ("fts-de", "together"),
            ("shared-prior", "together"),
            ("dp-shared-prior", "together"),
            ("distributed-ts", "together"),
            ("ts", "each alone"),
            ("log-ei", "each alone"),
            ("warm-start", "copy the others' best"),
            ("placebo", "messages without information"),
        ] {
            assert_eq!(labels.get(name).map(String::as_str), Some(words), "{name}");
        }
        for algorithm in ALGORITHMS {
            let own = algorithm.own_arm(true);
            assert_eq!(labels[own.name()], own.role.in_words());
        }
    }
}
