//! Objectives of which more is known than their values, and the registry in which files find them by name.

use std::path::PathBuf;
use std::sync::Arc;

use fedbo_space::{Direction, Point, Space};
use fedbo_streams::Seed;

use crate::Objective;

/// An objective of which more is known than its values.
pub trait Problem: Objective {
    /// Its name, with the options that tell it from others.
    fn name(&self) -> String;
    /// The space in which it is defined.
    fn space(&self) -> &Space;
    /// The direction in which values are better.
    fn direction(&self) -> Direction;
    /// The best value there is, in the problem's own sign; `None` if unknown.
    fn optimum(&self) -> Option<f64> {
        None
    }
    /// The value without observation noise; `None` if unknown or if the point is not in the space.
    fn noiseless(&self, point: &Point) -> Option<f64>;
    /// The same problem with observation noise from another seed; `None` if it has no noise.
    fn with_noise_from(&self, seed: Seed) -> Option<Arc<dyn Problem>> {
        let _ = seed;
        None
    }
}

/// A problem as it stands in a file: plain data, not yet checked. An option that a problem does not have is an error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProblemSpec {
    /// Its name.
    pub name: String,
    /// Number of dimensions.
    pub dim: Option<usize>,
    /// Standard deviation of the observation noise.
    pub noise_std: Option<f64>,
    /// The number of the site, from 0.
    pub silo: Option<usize>,
    /// The number of sites.
    pub n_silos: Option<usize>,
    /// The number of the field, from 0.
    pub field: Option<usize>,
    /// The folder with its data.
    pub data: Option<PathBuf>,
    /// Seed of the observation noise.
    pub seed: Option<u64>,
}

/// The problems that files may name: `problem = "..."`. A program hands over those that it is built with.
pub trait Problems: Send + Sync {
    /// The problem that `spec` describes.
    ///
    /// # Errors
    /// A message with the way out, if there is no such problem, or an option is missing, not its own or out of range.
    fn find(&self, spec: &ProblemSpec) -> Result<Arc<dyn Problem>, String>;
}

/// No problem at all: every objective is a command, or elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProblems;

impl Problems for NoProblems {
    fn find(&self, spec: &ProblemSpec) -> Result<Arc<dyn Problem>, String> {
        Err(format!(
            "problem = {:?}: this program is built without problems of its own; tune a command, with command = [\"program\", ..]",
            spec.name
        ))
    }
}
