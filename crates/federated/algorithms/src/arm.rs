//! Arms: ways to run the agents of one federation on the same seeds.

use std::fmt;
use std::str::FromStr;

use fedbo_strategies::StrategyError;

use crate::ALGORITHMS;

/// The part of an arm in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The algorithm itself.
    Own,
    /// Each agent by Thompson sampling alone.
    Alone,
    /// Each agent by expected improvement alone.
    LogEi,
    /// The others' best points first, then log expected improvement alone.
    WarmStart,
    /// The algorithm with messages that hold no information: draws of the prior (at random points, where messages tell of points), zeros
    /// where releases are noisy, values at random points where observations are shared.
    Placebo,
}

impl Role {
    /// The error of an algorithm that has no agents in this part.
    #[must_use]
    pub fn not_of_this_algorithm(self) -> StrategyError {
        StrategyError::setting(
            "part of an arm",
            format!("{self:?}"),
            "one that the algorithm has among its arms",
        )
    }
}

/// One way to run the agents of a federation, on the same seeds as every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arm {
    /// Its part in the comparison.
    pub role: Role,
    name: &'static str,
}

impl Arm {
    /// Each agent alone.
    pub const ALONE: Self = Self { role: Role::Alone, name: "ts" };
    /// Each agent alone, by log expected improvement.
    pub const LOG_EI: Self = Self { role: Role::LogEi, name: "log-ei" };
    /// The others' best points first.
    pub const WARM_START: Self = Self { role: Role::WarmStart, name: "warm-start" };
    /// The control whose messages hold no information.
    pub const PLACEBO: Self = Self { role: Role::Placebo, name: "placebo" };

    /// An algorithm itself, by the name that results give it.
    #[must_use]
    pub const fn own(name: &'static str) -> Self {
        Self { role: Role::Own, name }
    }

    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns true if agents use each other's messages in this arm.
    #[must_use]
    pub fn exchanges(self) -> bool {
        !matches!(self.role, Role::Alone | Role::LogEi)
    }

    /// The arms of all algorithms of the registry.
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

/// Names of arms, with commas between.
#[must_use]
pub fn names(arms: &[Arm]) -> String {
    let names: Vec<&str> = arms.iter().map(|arm| arm.name).collect();
    names.join(", ")
}
