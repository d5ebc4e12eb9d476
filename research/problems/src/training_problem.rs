//! Objectives that train: a value after each epoch.

use fedbo_objective::{Direction, Failure};
use fedbo_space::{Point, Space};

/// An objective that gets better epoch by epoch, whose curve is known to the end: so an experiment can say what a trial that was
/// stopped would have reached.
pub trait TrainingProblem: Send + Sync {
    /// Its name, with the options that tell it from others.
    fn name(&self) -> String;
    /// The space on which it is defined.
    fn space(&self) -> &Space;
    /// The direction in which values are better.
    fn direction(&self) -> Direction;
    /// Number N of epochs of a whole training.
    fn n_epochs(&self) -> usize;
    /// The values after epochs 1 to N; `run` seeds what is random in training, and the same run has the same randomness at all
    /// points.
    ///
    /// # Errors
    /// If the point is not one that can be trained.
    fn curve(&self, point: &Point, run: u64) -> Result<Vec<f64>, Failure>;
}
