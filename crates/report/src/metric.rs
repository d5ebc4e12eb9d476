//! Which column is compared, and which way is better.

use fedbo_space::Direction;
use serde::{Deserialize, Serialize};

use super::row::Row;

/// The column that summaries and pictures are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// The best value so far, in the direction of the study.
    Best,
    /// Simple regret: distance of the best so far from the known optimum. Smaller is better in either direction.
    Regret,
}

impl Metric {
    /// The metric's value in this row, if the row has one.
    #[must_use]
    pub fn of(self, row: &Row) -> Option<f64> {
        match self {
            Self::Best => row.best,
            Self::Regret => row.regret,
        }
    }

    /// How much better `arm` is than `control`: positive when it improves on it.
    #[must_use]
    pub fn improvement(self, direction: Direction, arm_minus_control: f64) -> f64 {
        match self {
            Self::Best => direction.to_maximize(arm_minus_control),
            Self::Regret => -arm_minus_control,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regret_improves_downwards_in_either_direction() {
        assert!(Metric::Best.improvement(Direction::Maximize, 1.0) > 0.0);
        assert!(Metric::Best.improvement(Direction::Minimize, 1.0) < 0.0);
        assert!(Metric::Regret.improvement(Direction::Maximize, 1.0) < 0.0);
        assert!(Metric::Regret.improvement(Direction::Minimize, 1.0) < 0.0);
    }
}
