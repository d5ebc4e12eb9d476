//! The direction of an objective: minimize or maximize.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The direction in which the values of an objective improve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Smaller is better.
    Minimize,
    /// Larger is better.
    Maximize,
}

impl fmt::Display for Direction {
    /// Writes the word that files use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Maximize => "maximize",
            Self::Minimize => "minimize",
        })
    }
}

impl Direction {
    /// Returns the value with the sign that algorithms use, where larger is better. The function is
    /// its own inverse.
    pub fn to_maximize(self, value: f64) -> f64 {
        match self {
            Self::Minimize => -value,
            Self::Maximize => value,
        }
    }

    /// Returns true if `value` is strictly better than `other`. Returns false if either is NaN.
    pub fn is_better(self, value: f64, other: f64) -> bool {
        self.to_maximize(value) > self.to_maximize(other)
    }
}
