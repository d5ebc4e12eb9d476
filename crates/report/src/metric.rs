//! The metric by which arms are compared, and its direction of improvement.

use fedbo_space::Direction;
use serde::{Deserialize, Serialize};

use super::row::Row;

/// The smallest regret that [`Metric::LogRegret`] distinguishes from 0.
pub const LOG_REGRET_FLOOR: f64 = 1e-8;

/// The column on which summaries and pictures are based.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// The best value so far, in the direction of the study.
    Best,
    /// Simple regret: the distance of the best value so far from the known optimum. Smaller is
    /// better in both directions.
    Regret,
    /// The mean of the values after the initial ones, T⁻¹ Σ_t v_t, in the direction of the study.
    /// Used for games, where every round counts.
    Mean,
    /// The mean of the regrets after the initial ones, where a row's regret is the regret of its
    /// own round. Smaller is better in both directions.
    #[serde(rename = "mean-regret")]
    MeanRegret,
    /// log10 max(simple regret, 10⁻⁸). Used if regrets differ by orders of magnitude, since the
    /// worst one would dominate their mean. Smaller is better in both directions.
    #[serde(rename = "log-regret")]
    LogRegret,
}

impl Metric {
    /// Returns the row's contribution to the metric, if it has one: the metric itself, or a term of
    /// the mean ([`is_mean`](Self::is_mean)).
    #[must_use]
    pub fn of(self, row: &Row) -> Option<f64> {
        match self {
            Self::Best => row.best,
            Self::Regret | Self::MeanRegret => row.regret,
            Self::LogRegret => row.regret.map(|regret| regret.max(LOG_REGRET_FLOOR).log10()),
            Self::Mean => row.value,
        }
    }

    /// Returns true if the metric after an iteration is the mean over all iterations from 1 to that
    /// one.
    #[must_use]
    pub fn is_mean(self) -> bool {
        matches!(self, Self::Mean | Self::MeanRegret)
    }

    /// Returns the improvement of `arm` over `control`: positive if the arm is better.
    #[must_use]
    pub fn improvement(self, direction: Direction, arm_minus_control: f64) -> f64 {
        match self {
            Self::Best | Self::Mean => direction.to_maximize(arm_minus_control),
            Self::Regret | Self::MeanRegret | Self::LogRegret => -arm_minus_control,
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
        assert!(Metric::MeanRegret.improvement(Direction::Maximize, 1.0) < 0.0);
        assert!(Metric::LogRegret.improvement(Direction::Maximize, 1.0) < 0.0);
        assert!(Metric::Mean.improvement(Direction::Maximize, 1.0) > 0.0);
        assert!(Metric::Mean.improvement(Direction::Minimize, 1.0) < 0.0);
    }

    #[test]
    fn names_in_a_summary_stay() {
        for (metric, name) in [
            (Metric::Best, "\"best\""),
            (Metric::Regret, "\"regret\""),
            (Metric::Mean, "\"mean\""),
            (Metric::MeanRegret, "\"mean-regret\""),
            (Metric::LogRegret, "\"log-regret\""),
        ] {
            assert_eq!(serde_json::to_string(&metric).unwrap(), name);
        }
    }

    #[test]
    fn a_logarithm_of_regret_ends_at_its_floor() {
        let of = |regret| {
            let row = Row { regret, ..crate::trace::tests::row("a", "a", 0, 1, None) };
            Metric::LogRegret.of(&row)
        };
        assert_eq!(of(None), None);
        for (regret, expected) in [(100.0, 2.0), (1e-5, -5.0), (0.0, -8.0), (-1e-16, -8.0)] {
            assert!((of(Some(regret)).unwrap() - expected).abs() < 1e-12, "{regret}");
        }
    }
}
