//! Problems: objectives with additional known properties, and the registry that finds them by name.

use std::path::PathBuf;
use std::sync::Arc;

use fedbo_space::{Direction, Point, Space};
use fedbo_streams::Seed;

use crate::Objective;

/// An objective with additional known properties, such as its optimum.
pub trait Problem: Objective {
    /// Returns the name, including the options that distinguish it.
    fn name(&self) -> String;
    /// Returns the search space.
    fn space(&self) -> &Space;
    /// Returns the direction of optimization.
    fn direction(&self) -> Direction;
    /// Returns the best possible value, in the problem's own sign; `None` if unknown.
    fn optimum(&self) -> Option<f64> {
        None
    }
    /// Returns the value without observation noise; `None` if it is unknown or the point is outside
    /// the space.
    fn noiseless(&self, point: &Point) -> Option<f64>;
    /// Returns the same problem with observation noise from a different seed; `None` if the problem
    /// has no noise.
    fn with_noise_from(&self, seed: Seed) -> Option<Arc<dyn Problem>> {
        let _ = seed;
        None
    }
}

/// A problem as declared in a file, before validation.
///
/// Options that the problem does not support are errors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProblemSpec {
    /// The name.
    pub name: String,
    /// Number of dimensions.
    pub dim: Option<usize>,
    /// Standard deviation of the observation noise.
    pub noise_std: Option<f64>,
    /// Index of the site, from 0.
    pub silo: Option<usize>,
    /// Number of sites.
    pub n_silos: Option<usize>,
    /// Index of the field, from 0.
    pub field: Option<usize>,
    /// The folder that contains the problem's data.
    pub data: Option<PathBuf>,
    /// Seed of the observation noise.
    pub seed: Option<u64>,
}

/// The problems that files can refer to: `problem = "..."`. Each program supplies its own.
pub trait Problems: Send + Sync {
    /// Returns the problem described by `spec`.
    ///
    /// # Errors
    /// Returns a message with a remedy if the problem does not exist, or if an option is missing,
    /// not supported by the problem, or out of range.
    fn find(&self, spec: &ProblemSpec) -> Result<Arc<dyn Problem>, String>;
}

/// An empty registry: every objective is a command or is evaluated elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProblems;

impl Problems for NoProblems {
    fn find(&self, spec: &ProblemSpec) -> Result<Arc<dyn Problem>, String> {
        Err(format!(
            "problem = {:?}: this program has no built-in problems; tune a command, with command = [\"program\", ..]",
            spec.name
        ))
    }
}
