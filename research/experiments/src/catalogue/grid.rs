//! Functions on the papers' grid of 1000 points, observed with noise.

use std::sync::Arc;

use fedbo_objective::{Failure, Objective, Outcome, TrialId};
use fedbo_research_problems::N_GRID;
use fedbo_runner::{Decoder, Evaluation};
use fedbo_space::{Direction, Point, Value};
use fedbo_streams::{Purpose, Seed};

/// Values on the grid with Gaussian noise that depends only on the trial number.
pub(super) struct GridObjective {
    pub(super) values: Vec<f64>,
    pub(super) noise_std: f64,
    pub(super) seed: Seed,
}

impl Objective for GridObjective {
    fn evaluate(&self, point: &Point, trial: TrialId) -> Outcome {
        let Some(index) = grid_index(point) else {
            return Outcome::Failed(Failure::NotFinite(f64::NAN));
        };
        let noise = self.seed.stream(Purpose::OBSERVATION_NOISE, trial.agent, trial.trial).normal();
        Outcome::Value(self.values[index] + self.noise_std * noise)
    }
}

/// Returns a decoder from a coordinate to a point with one parameter `x`.
pub(super) fn grid_decoder() -> Decoder {
    Arc::new(|unit: &[f64]| Point::new(vec![("x".to_owned(), Value::Float(unit[0]))]))
}

/// Creates the evaluation of a member that maximizes a function on the grid.
pub(super) fn grid_evaluation(objective: GridObjective) -> Evaluation {
    Evaluation {
        objective: Arc::new(objective),
        decoder: grid_decoder(),
        direction: Direction::Maximize,
    }
}

/// Returns the index of a grid point.
pub(super) fn grid_index(point: &Point) -> Option<usize> {
    let x = point.get("x").and_then(Value::as_f64)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "x lies in [0,1]")]
    let index = (x * (N_GRID - 1) as f64).round() as usize;
    (index < N_GRID).then_some(index)
}
