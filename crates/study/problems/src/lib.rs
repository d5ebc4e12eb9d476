//! Problems that a file may name (`problem = "digits-perceptron"`): test functions and perceptrons on handwritten digits.
//!
//! Defines each in its own units and sign, without knowledge of surrogates, strategies or federations. Start at [`problem()`]. The
//! problems of the papers are in the workspace `research`.

pub mod digit_classifier;
pub mod digits;
mod digits_perceptron;
mod functions;
pub mod neural;
mod problem;

pub use digits_perceptron::DigitsPerceptron;
pub use fedbo_objective::{Problem, ProblemSpec};
pub use functions::{Function, TestFunction};
pub use problem::{
    BuiltInProblems, PROBLEM_NAMES, ProblemError, coordinates, linear_space, log_space, problem,
};
