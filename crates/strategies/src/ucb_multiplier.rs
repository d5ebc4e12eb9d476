//! β_t: the multiplier of the posterior standard deviation.

use std::f64::consts::PI;
use std::fmt;

use fedbo_gp::Kernel;
use fedbo_optim::Points;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{StrategyError, information_gain_bound};

/// A schedule for β_t, the multiplier of the standard deviation.
///
/// Files and stored definitions contain a number for a constant, a table of the parameters for a
/// schedule with parameters, and the name for any other schedule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum UcbMultiplier {
    /// The same value at every step; 1 in the papers' experiments (FTS section 5).
    Constant(f64),
    /// β_t = B + σ √(2(γ_{t−1} + 1 + ln(4/δ))) (FTS Theorem 1), with γ_{t−1} from
    /// [`information_gain_bound`].
    Theorem1 {
        /// B, a bound on the norm of the objective in the kernel's RKHS, in the surrogate's units.
        norm_bound: f64,
        /// δ in (0, 1).
        failure_prob: f64,
    },
    /// β_t = √(2 ln(|X| t² π²/(2δ))) on a finite domain X (thesis Theorem 7.1, where β denotes the
    /// square).
    FiniteDomain {
        /// |X|.
        n_points: usize,
        /// δ in (0, 1).
        failure_prob: f64,
    },
    /// β_t = 0.2 d ln 2t, without a square root: the schedule of the authors' code for BO-BOS,
    /// which explores more for d > 1.
    #[serde(serialize_with = "logarithmic_square")]
    LogarithmicSquare,
    /// β_t = √(0.2 d ln 2t): the practical schedule of Kandasamy et al. (2015) and the experiments
    /// in the thesis.
    #[serde(serialize_with = "logarithmic")]
    Logarithmic,
}

impl UcbMultiplier {
    /// The forms accepted in a file, for error messages.
    pub const FORMS: &str = "a number, or { norm_bound = .., failure_prob = .. }";

    /// Checks the parameters.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn validate(self) -> Result<Self, StrategyError> {
        let fail = |name, value: f64, expected| Err(StrategyError::setting(name, value, expected));
        match self {
            Self::Constant(beta) if !(beta.is_finite() && beta >= 0.0) => {
                fail("ucb_multiplier", beta, "a finite number of at least 0")
            }
            Self::Theorem1 { norm_bound, .. } if !(norm_bound.is_finite() && norm_bound >= 0.0) => {
                fail("norm_bound", norm_bound, "a finite number of at least 0")
            }
            Self::Theorem1 { failure_prob, .. } | Self::FiniteDomain { failure_prob, .. }
                if !(failure_prob > 0.0 && failure_prob < 1.0) =>
            {
                fail("failure_prob", failure_prob, "a number between 0 and 1, ends excluded")
            }
            Self::FiniteDomain { n_points: 0, .. } => {
                fail("n_points", 0.0, "at least 1 point of the domain")
            }
            valid => Ok(valid),
        }
    }

    /// Returns β_t for step t = `step` ≥ 1, given the surrogate's kernel and noise variance and
    /// points that cover the domain.
    pub fn at(self, step: u64, kernel: &Kernel, noise_variance: f64, candidates: &Points) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            reason = "steps, dimensions and sizes of domains are far below 2^53"
        )]
        let count = |n: u64| n as f64;
        match self {
            Self::Constant(beta) => beta,
            Self::FiniteDomain { n_points, failure_prob } => {
                let logs = count(n_points as u64).ln() + 2.0 * count(step.max(1)).ln();
                (2.0 * (logs + 2.0 * PI.ln() - (2.0 * failure_prob).ln())).sqrt()
            }
            Self::LogarithmicSquare => {
                Self::Logarithmic.at(step, kernel, noise_variance, candidates).powi(2)
            }
            Self::Logarithmic => {
                (0.2 * count(kernel.dim() as u64) * (2.0 * count(step.max(1))).ln()).sqrt()
            }
            Self::Theorem1 { norm_bound, failure_prob } => {
                // γ_n is a maximum over sets of points, so it stops growing once n reaches the
                // number of points.
                let n = usize::try_from(step.saturating_sub(1))
                    .unwrap_or(usize::MAX)
                    .min(candidates.len());
                let noise_variance = noise_variance.max(1e-10);
                let gain = information_gain_bound(kernel, noise_variance, candidates, n);
                norm_bound
                    + noise_variance.sqrt()
                        * (2.0 * (gain + 1.0 + (4.0 / failure_prob).ln())).sqrt()
            }
        }
    }
}

const LOGARITHMIC: &str = "logarithmic";
const LOGARITHMIC_SQUARE: &str = "logarithmic-square";

fn logarithmic<S: Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(LOGARITHMIC)
}

fn logarithmic_square<S: Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(LOGARITHMIC_SQUARE)
}

impl<'de> Deserialize<'de> for UcbMultiplier {
    /// Reads a schedule and checks its parameters.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = deserializer.deserialize_any(Written)?;
        read.validate().map_err(|error| match error {
            StrategyError::Setting { expected, .. } => {
                D::Error::custom(format!("expected {expected}"))
            }
            other => D::Error::custom(other),
        })
    }
}

/// Deserializes a schedule without checking its parameters.
struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = UcbMultiplier;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(UcbMultiplier::FORMS)
    }

    fn visit_f64<E: Error>(self, beta: f64) -> Result<UcbMultiplier, E> {
        Ok(UcbMultiplier::Constant(beta))
    }

    #[expect(clippy::cast_precision_loss, reason = "a number for which a whole one was written")]
    fn visit_i64<E: Error>(self, beta: i64) -> Result<UcbMultiplier, E> {
        self.visit_f64(beta as f64)
    }

    #[expect(clippy::cast_precision_loss, reason = "a number for which a whole one was written")]
    fn visit_u64<E: Error>(self, beta: u64) -> Result<UcbMultiplier, E> {
        self.visit_f64(beta as f64)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<UcbMultiplier, E> {
        match name {
            LOGARITHMIC => Ok(UcbMultiplier::Logarithmic),
            LOGARITHMIC_SQUARE => Ok(UcbMultiplier::LogarithmicSquare),
            _ => Err(E::custom(format!("expected {}", UcbMultiplier::FORMS))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<UcbMultiplier, A::Error> {
        let (mut norm, mut points, mut probability) = (None, None, None);
        while let Some(key) = table.next_key::<String>()? {
            match key.as_str() {
                "norm_bound" => norm = Some(table.next_value()?),
                "n_points" => points = Some(table.next_value()?),
                "failure_prob" => probability = Some(table.next_value()?),
                _ => {
                    return Err(A::Error::custom(format!("expected {}", UcbMultiplier::FORMS)));
                }
            }
        }
        match (norm, points, probability) {
            (Some(norm_bound), None, Some(failure_prob)) => {
                Ok(UcbMultiplier::Theorem1 { norm_bound, failure_prob })
            }
            (None, Some(n_points), Some(failure_prob)) => {
                Ok(UcbMultiplier::FiniteDomain { n_points, failure_prob })
            }
            _ => Err(A::Error::custom(format!("expected {}", UcbMultiplier::FORMS))),
        }
    }
}

#[cfg(test)]
mod tests {
    use fedbo_gp::{Family, Kernel};

    use super::*;

    #[test]
    fn theorem_1_at_the_first_step_has_no_gain() {
        let kernel = Kernel::isotropic(Family::SquaredExponential, 1, 0.2, 1.0).unwrap();
        let points = Points::from_flat(1, vec![0.0, 0.5, 1.0]);
        let multiplier = UcbMultiplier::Theorem1 { norm_bound: 2.0, failure_prob: 0.1 };
        let expected = 2.0 + 0.1 * (2.0 * (1.0 + 40.0_f64.ln())).sqrt();
        assert!((multiplier.at(1, &kernel, 0.01, &points) - expected).abs() < 1e-12);
        assert!(multiplier.at(3, &kernel, 0.01, &points) > expected);
        assert!(multiplier.at(1_000_000_000, &kernel, 0.01, &points).is_finite());
    }

    /// Computed by hand: 2 ln(100·9·π²/0.2) at t = 3, and 0.2·2·ln 10 at t = 5 in two dimensions.
    #[test]
    fn schedules_without_a_gain_are_the_published_ones() {
        let kernel = Kernel::isotropic(Family::Matern52, 2, 0.2, 1.0).unwrap();
        let nowhere = Points::new(2);
        let finite = UcbMultiplier::FiniteDomain { n_points: 100, failure_prob: 0.1 };
        let square = finite.at(3, &kernel, 0.01, &nowhere).powi(2);
        assert!((square - 2.0 * (900.0 * PI * PI / 0.2_f64).ln()).abs() < 1e-12);
        let square = UcbMultiplier::Logarithmic.at(5, &kernel, 0.01, &nowhere);
        assert!((square.powi(2) - 0.4 * 10.0_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn every_schedule_is_read_as_it_was_written() {
        let schedules = [
            (UcbMultiplier::Constant(2.0), "2.0"),
            (
                UcbMultiplier::Theorem1 { norm_bound: 1.5, failure_prob: 0.1 },
                r#"{"norm_bound":1.5,"failure_prob":0.1}"#,
            ),
            (
                UcbMultiplier::FiniteDomain { n_points: 9, failure_prob: 0.1 },
                r#"{"n_points":9,"failure_prob":0.1}"#,
            ),
            (UcbMultiplier::LogarithmicSquare, r#""logarithmic-square""#),
            (UcbMultiplier::Logarithmic, r#""logarithmic""#),
        ];
        for (schedule, text) in schedules {
            assert_eq!(serde_json::to_string(&schedule).unwrap(), text);
            assert_eq!(serde_json::from_str::<UcbMultiplier>(text).unwrap(), schedule);
        }
        let refused = |text| {
            let read = serde_json::from_str::<UcbMultiplier>(text);
            read.unwrap_err().to_string()
        };
        assert!(refused("-1").starts_with("expected a finite number of at least 0"));
        for text in ["true", "\"wide\"", "{}", r#"{"norm_bound":1.5}"#] {
            assert!(refused(text).contains("expected a number, or {"), "{text}");
        }
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        for bad in [
            UcbMultiplier::Constant(f64::NAN),
            UcbMultiplier::Constant(-1.0),
            UcbMultiplier::Theorem1 { norm_bound: f64::INFINITY, failure_prob: 0.1 },
            UcbMultiplier::Theorem1 { norm_bound: 1.0, failure_prob: 1.0 },
            UcbMultiplier::FiniteDomain { n_points: 10, failure_prob: 0.0 },
            UcbMultiplier::FiniteDomain { n_points: 0, failure_prob: 0.1 },
        ] {
            assert!(matches!(bad.validate(), Err(StrategyError::Setting { .. })), "{bad:?}");
        }
    }
}
