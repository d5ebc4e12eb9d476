//! Problems: objectives with more known properties than their values, and the registry that finds
//! them by name.

use std::path::PathBuf;
use std::sync::Arc;

use fedbo_space::{Direction, Point, Space};
use fedbo_streams::Seed;

use crate::Objective;

/// An objective with more known properties than its values.
pub trait Problem: Objective {
    /// Its name, including the options that distinguish it.
    fn name(&self) -> String;
    /// The space of the problem.
    fn space(&self) -> &Space;
    /// The direction of optimization.
    fn direction(&self) -> Direction;
    /// The best possible value, in the problem's own sign; `None` if unknown.
    fn optimum(&self) -> Option<f64> {
        None
    }
    /// The value without observation noise; `None` if it is unknown or the point is outside the
    /// space.
    fn noiseless(&self, point: &Point) -> Option<f64>;
    /// The same problem with observation noise from another seed; `None` if it has no noise.
    fn with_noise_from(&self, seed: Seed) -> Option<Arc<dyn Problem>> {
        let _ = seed;
        None
    }
}

/// A problem as a file declares it: plain data, not yet validated.
///
/// An option that a problem does not have is an error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProblemSpec {
    /// Its name.
    pub name: String,
    /// Number of dimensions.
    pub dim: Option<usize>,
    /// Standard deviation of the observation noise.
    pub noise_std: Option<f64>,
    /// Index of the site, from 0.
    pub silo: Option<usize>,
    /// The number of sites.
    pub n_silos: Option<usize>,
    /// Index of the field, from 0.
    pub field: Option<usize>,
    /// The folder with its data.
    pub data: Option<PathBuf>,
    /// Seed of the observation noise.
    pub seed: Option<u64>,
}

/// The problems that files may name: `problem = "..."`. Each program supplies those that it is
/// built with.
pub trait Problems: Send + Sync {
    /// Returns the problem that `spec` describes.
    ///
    /// # Errors
    /// A message with a remedy, if there is no such problem, or an option is missing, unknown to
    /// the problem or out of range.
    fn find(&self, spec: &ProblemSpec) -> Result<Arc<dyn Problem>, String>;
}

/// An empty registry: every objective is a command, or is evaluated elsewhere.
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
