//! A surface that resembles a model's hyperparameter space, with a categorical, a logarithmic and
//! an integer parameter.

use fedbo_objective::{Direction, Failure, Objective, Outcome, TrialId};
use fedbo_space::{ParameterSpec, Point, Space, Value};

use crate::Problem;

/// Loss of a synthetic model over `solver` (one of three), `rate` (1e-5 to 1, logarithmic) and
/// `depth` (1 to 16).
///
/// With u = log10 rate, a solver's offset o, best rate 10^c and best depth b, and
/// v = (depth − b)/4:
///
/// f = o + (u − c)² / 4 + v² + (u − c) v / 4
///
/// The form in u − c and v is positive definite, so a solver's smallest loss is its offset: sgd (o,
/// c, b) = (0.15, −1, 12), adam (0, −3, 6), lbfgs (0.4, −0.5, 3). The optimum is 0, reached by adam
/// at rate 1e-3 and depth 6. The other solvers look better over much of the space.
#[derive(Clone, Debug)]
pub struct MixedSurface {
    space: Space,
}

/// Solvers with offset, best log10 rate and best depth.
const SOLVERS: [(&str, f64, f64, f64); 3] =
    [("sgd", 0.15, -1.0, 12.0), ("adam", 0.0, -3.0, 6.0), ("lbfgs", 0.4, -0.5, 3.0)];

impl MixedSurface {
    /// Creates the surface.
    pub fn new() -> Self {
        let specs = [
            ("solver", ParameterSpec::categorical(SOLVERS.map(|(name, ..)| name))),
            ("rate", ParameterSpec::log_float(1e-5, 1.0)),
            ("depth", ParameterSpec::int(1, 16)),
        ];
        let space = Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec)))
            .unwrap_or_else(|error| unreachable!("a valid space: {error}"));
        Self { space }
    }

    fn value(&self, point: &Point) -> Result<f64, Failure> {
        let bad = |error: fedbo_space::SpaceError| Failure::BadPoint { message: error.to_string() };
        let point = self.space.normalize(point).map_err(bad)?;
        let solver = SOLVERS.iter().find(|(name, ..)| {
            matches!(point.get("solver"), Some(Value::Choice(choice)) if choice == name)
        });
        let Some((_, offset, best_rate, best_depth)) = solver else {
            unreachable!("a normalized point has one of the choices")
        };
        let u = point.number("rate").log10() - best_rate;
        let v = (point.number("depth") - best_depth) / 4.0;
        Ok(offset + u * u / 4.0 + v * v + u * v / 4.0)
    }
}

impl Default for MixedSurface {
    fn default() -> Self {
        Self::new()
    }
}

impl Objective for MixedSurface {
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        self.value(point).map_or_else(Outcome::Failed, Outcome::Value)
    }
}

impl Problem for MixedSurface {
    fn name(&self) -> String {
        "mixed".to_owned()
    }

    fn space(&self) -> &Space {
        &self.space
    }

    fn direction(&self) -> Direction {
        Direction::Minimize
    }

    fn optimum(&self) -> Option<f64> {
        Some(0.0)
    }

    fn noiseless(&self, point: &Point) -> Option<f64> {
        self.value(point).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(solver: &str, rate: f64, depth: i64) -> f64 {
        let point = Point::new(vec![
            ("solver".into(), Value::Choice(solver.into())),
            ("rate".into(), Value::Float(rate)),
            ("depth".into(), Value::Int(depth)),
        ]);
        MixedSurface::new().value(&point).unwrap()
    }

    #[test]
    fn the_least_loss_of_each_solver_is_its_offset_and_nothing_is_below() {
        for (solver, offset, best_rate, best_depth) in SOLVERS {
            #[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
            let depth = best_depth as i64;
            let least = loss(solver, 10_f64.powf(best_rate), depth);
            assert!((least - offset).abs() < 1e-12, "{solver}: {least}");
            for exponent in 0..=100 {
                for depth in 1..=16 {
                    let rate = 10_f64.powf(-5.0 + 0.05 * f64::from(exponent));
                    assert!(loss(solver, rate.min(1.0), depth) >= offset - 1e-12);
                }
            }
        }
    }

    #[test]
    fn a_point_of_another_space_is_a_failure() {
        let point = Point::new(vec![("solver".into(), Value::Choice("sgd".into()))]);
        assert!(MixedSurface::new().value(&point).is_err());
    }
}
