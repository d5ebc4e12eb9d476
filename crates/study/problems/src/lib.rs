//! Problems that files can refer to (`problem = "digits-perceptron"`): test functions and
//! perceptrons on handwritten digits.
//!
//! Each problem is defined in its own units and sign, independent of surrogates, strategies and
//! federations. Start at [`problem()`]. The problems of the papers are in the workspace `research`.

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
