//! Test functions, data sets and models whose answer is known: what algorithms are measured on.
//!
//! Decides how each is defined, in its own units and sign. Knows nothing of surrogates, strategies or federations.
//! Start at [`problem()`], which finds one by name; [`GridFamily`] is the synthetic family of the FTS paper.

mod auc;
mod functions;
mod gp_functions;
mod landmine;
pub mod landmine_archive;
mod mixed;
mod problem;
mod svm;
mod table;
mod wine;

pub use auc::auc;
pub use functions::{Function, TestFunction};
pub use gp_functions::{
    GridFamily, GridObservations, GridPrior, LENGTHSCALE, N_GRID, NOISE_VARIANCE,
};
pub use landmine::{LandmineField, LandmineSvm, N_FIELDS, read_fields};
pub use mixed::MixedSurface;
pub use problem::{PROBLEM_NAMES, Problem, ProblemError, ProblemSpec, problem};
pub use svm::{Labelled, SplitSvm, SvmError};
pub use table::DataError;
pub use wine::{N_SILOS, WineSilo, WineSites, WineSplit, WineSvm};
