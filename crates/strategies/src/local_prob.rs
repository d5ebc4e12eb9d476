//! p_t: the probability that an agent uses its own posterior at step t.

use crate::StrategyError;

/// A schedule for p_t. The schedules from FTS have p_1 = p_2, as in the paper's experiments (FTS
/// sections 5.1 and 5.2).
#[derive(Clone, Debug, PartialEq)]
pub enum LocalProb {
    /// p_t = 1 − 1/√t.
    InverseSqrt,
    /// p_t = 1 − 1/t².
    InverseSquare,
    /// p_t = 1 − t^(−exponent) with p_1 = 0. The exponent is 1/2 or 1 in the experiments of
    /// DP-FTS-DE (section 5).
    Power(f64),
    /// The same value at every step; 1 is plain Thompson sampling.
    Constant(f64),
    /// One value per step. The last value also applies to all later steps.
    List(Vec<f64>),
}

impl LocalProb {
    /// Checks that every probability is in `[0, 1]` and that a list is not empty.
    ///
    /// # Errors
    /// If a value is out of range. The error describes the first one.
    pub fn validate(self) -> Result<Self, StrategyError> {
        let values: &[f64] = match &self {
            Self::InverseSqrt | Self::InverseSquare => &[],
            Self::Power(exponent) => {
                StrategyError::ensure(
                    exponent.is_finite() && *exponent >= 0.0,
                    "exponent of local_prob",
                    exponent,
                    "a finite number of at least 0",
                )?;
                &[]
            }
            Self::Constant(p) => std::slice::from_ref(p),
            Self::List(list) => {
                let expected = "at least one probability";
                StrategyError::ensure(!list.is_empty(), "local_prob", "[]", expected)?;
                list
            }
        };
        match values.iter().find(|p| !(0.0..=1.0).contains(*p)) {
            Some(bad) => {
                Err(StrategyError::setting("local_prob", bad, "a probability between 0 and 1"))
            }
            None => Ok(self),
        }
    }

    /// Returns p_t for t = `step` ≥ 1.
    pub fn at(&self, step: u64) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            reason = "beyond 2^53 steps p_t is 1 to the last digit"
        )]
        let t = step.max(2) as f64;
        match self {
            Self::InverseSqrt => 1.0 - 1.0 / t.sqrt(),
            Self::InverseSquare => 1.0 - 1.0 / (t * t),
            #[expect(
                clippy::cast_precision_loss,
                reason = "beyond 2^53 steps p_t is 1 to the last digit"
            )]
            Self::Power(exponent) => 1.0 - (step.max(1) as f64).powf(-exponent),
            Self::Constant(p) => *p,
            Self::List(list) => {
                let index = usize::try_from(step.max(1) - 1).unwrap_or(usize::MAX);
                let last = list.last().copied().unwrap_or(1.0); // `validate` rejects empty lists
                list.get(index).copied().unwrap_or(last)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_those_of_the_paper() {
        for (schedule, expected) in [
            (
                LocalProb::InverseSqrt,
                [1.0 - 0.5_f64.sqrt(), 1.0 - 0.5_f64.sqrt(), 1.0 - 1.0 / 3.0_f64.sqrt(), 0.5],
            ),
            (LocalProb::InverseSquare, [0.75, 0.75, 8.0 / 9.0, 15.0 / 16.0]),
            (LocalProb::Power(0.5), [0.0, 1.0 - 0.5_f64.sqrt(), 1.0 - 1.0 / 3.0_f64.sqrt(), 0.5]),
            (LocalProb::Power(1.0), [0.0, 0.5, 2.0 / 3.0, 0.75]),
            (LocalProb::Constant(0.3), [0.3; 4]),
            (LocalProb::List(vec![0.1, 0.9]), [0.1, 0.9, 0.9, 0.9]),
        ] {
            for (t, p) in (1..).zip(expected) {
                assert!((schedule.at(t) - p).abs() < 1e-15, "{schedule:?} at {t}");
            }
            assert!(
                (0.0..=1.0).contains(&schedule.at(u64::MAX))
                    && (0.0..=1.0).contains(&schedule.at(0))
            );
        }
    }

    /// In the paper's landmine runs, 0.25 + Σ_{t=2}^{50} 1/t² = 0.875 of 50 queries are expected to
    /// use another agent's message.
    #[test]
    fn the_papers_landmine_schedule_uses_less_than_one_message() {
        let expected: f64 = (1..=50).map(|t| 1.0 - LocalProb::InverseSquare.at(t)).sum();
        assert!((expected - 0.875).abs() < 1e-3, "{expected}");
    }

    #[test]
    fn probabilities_out_of_range_are_refused() {
        for bad in [
            LocalProb::Constant(1.1),
            LocalProb::Constant(f64::NAN),
            LocalProb::Power(-1.0),
            LocalProb::List(vec![0.5, -0.1]),
        ] {
            assert!(bad.validate().is_err());
        }
        assert!(LocalProb::List(vec![]).validate().is_err());
        assert!(LocalProb::List(vec![0.0, 1.0]).validate().is_ok());
    }
}
