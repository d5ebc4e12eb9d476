//! Objectives with a value after each epoch of training.

use fedbo_objective::{Direction, Failure};
use fedbo_space::{Point, Space};

/// An objective that improves epoch by epoch. The whole curve is known, so an experiment can report
/// the value that a stopped trial would have reached.
pub trait TrainingProblem: Send + Sync {
    /// Returns the name, with the options that distinguish it from others.
    fn name(&self) -> String;
    /// Returns the space on which the objective is defined.
    fn space(&self) -> &Space;
    /// Returns the direction of improvement.
    fn direction(&self) -> Direction;
    /// Returns the number N of epochs of a complete training run.
    fn n_epochs(&self) -> usize;
    /// Returns the values after epochs 1 to N. `run` seeds the randomness of training. The same run
    /// has the same randomness at all points.
    ///
    /// # Errors
    /// If the point cannot be trained.
    fn curve(&self, point: &Point, run: u64) -> Result<Vec<f64>, Failure>;
}
