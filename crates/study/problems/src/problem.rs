//! Built-in problems, and their lookup by name.

use std::sync::Arc;

use fedbo_objective::{Failure, Problem, ProblemSpec, Problems};
use fedbo_space::{Parameter, ParameterSpec, Point, Space};
use fedbo_streams::Seed;

use crate::digits_perceptron::DigitsPerceptron;
use crate::functions::{Function, TestFunction};

/// Names of the built-in problems.
pub const PROBLEM_NAMES: [&str; 6] =
    ["branin", "ackley", "rosenbrock", "hartmann6", "levy", "digits-perceptron"];

/// Error returned if a problem does not exist or cannot be created.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// No built-in problem has this name.
    #[error("problem = {name:?} is not known; did you mean {nearest:?}? Known are {}", PROBLEM_NAMES.join(", "))]
    UnknownName {
        /// The name.
        name: String,
        /// The most similar known name.
        nearest: &'static str,
    },
    /// The problem does not have this option.
    #[error("problem {problem} has no option {key}; leave it out")]
    UnusedOption {
        /// Name of the problem.
        problem: String,
        /// Name of the option.
        key: &'static str,
    },
    /// The problem needs this option.
    #[error("problem {problem} needs {key}: {expected}")]
    MissingOption {
        /// Name of the problem.
        problem: String,
        /// Name of the option.
        key: &'static str,
        /// Description of the accepted values.
        expected: String,
    },
    /// The option's value is invalid for the problem.
    #[error("problem {problem}: {key} = {found}, expected {expected}")]
    Option {
        /// Name of the problem.
        problem: String,
        /// Name of the option.
        key: &'static str,
        /// The given value.
        found: String,
        /// Description of the accepted values.
        expected: String,
    },
}

/// The built-in problems that files can refer to.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltInProblems;

impl Problems for BuiltInProblems {
    fn find(&self, spec: &ProblemSpec) -> Result<Arc<dyn Problem>, String> {
        problem(spec).map_err(|error| error.to_string())
    }
}

/// Returns the built-in problem described by `spec`. The default of `dim` is 2; the defaults of
/// `noise_std` and `seed` are 0.
///
/// # Errors
/// Fails if the name is unknown, or if an option is missing, out of range or not supported by the
/// problem.
pub fn problem(spec: &ProblemSpec) -> Result<Arc<dyn Problem>, ProblemError> {
    let given = [
        ("dim", spec.dim.is_some()),
        ("noise_std", spec.noise_std.is_some()),
        ("silo", spec.silo.is_some()),
        ("n_silos", spec.n_silos.is_some()),
        ("field", spec.field.is_some()),
        ("data", spec.data.is_some()),
        ("seed", spec.seed.is_some()),
    ];
    let only = |own: &[&str]| match given.iter().find(|(key, set)| *set && !own.contains(key)) {
        Some(&(key, _)) => Err(ProblemError::UnusedOption { problem: spec.name.clone(), key }),
        None => Ok(()),
    };
    let missing = |key, expected: &str| ProblemError::MissingOption {
        problem: spec.name.clone(),
        key,
        expected: expected.to_owned(),
    };
    let function = |function| -> Result<Arc<dyn Problem>, ProblemError> {
        let seed = Seed::new(spec.seed.unwrap_or(0));
        let noise_std = spec.noise_std.unwrap_or(0.0);
        Ok(Arc::new(TestFunction::new(function, noise_std, seed)?))
    };
    let noisy = ["noise_std", "seed"];
    let sized = ["noise_std", "seed", "dim"];
    let dim = spec.dim.unwrap_or(2);
    match spec.name.as_str() {
        "branin" => only(&noisy).and_then(|()| function(Function::Branin)),
        "hartmann6" => only(&noisy).and_then(|()| function(Function::Hartmann6)),
        "ackley" => only(&sized).and_then(|()| function(Function::Ackley { dim })),
        "rosenbrock" => only(&sized).and_then(|()| function(Function::Rosenbrock { dim })),
        "levy" => only(&sized).and_then(|()| function(Function::Levy { dim })),
        "digits-perceptron" => {
            only(&["silo"])?;
            let form = spec.silo.ok_or_else(|| missing("silo", "the form, from 0 to 13"))?;
            Ok(Arc::new(DigitsPerceptron::new(form)?))
        }
        name => {
            let mut nearest = PROBLEM_NAMES[0];
            for known in PROBLEM_NAMES {
                if strsim::jaro_winkler(known, name) > strsim::jaro_winkler(nearest, name) {
                    nearest = known;
                }
            }
            let name = name.to_owned();
            Err(ProblemError::UnknownName { name, nearest })
        }
    }
}

/// Creates a space of float parameters.
fn float_space(parameters: impl IntoIterator<Item = (String, [f64; 2])>, log: bool) -> Space {
    let parameters = parameters
        .into_iter()
        .map(|(name, [low, high])| {
            let spec = ParameterSpec { log: Some(log), ..ParameterSpec::float(low, high) };
            Parameter::from_spec(&name, &spec)
        })
        .collect::<Result<_, _>>();
    parameters
        .and_then(Space::new)
        .unwrap_or_else(|error| unreachable!("the spaces of built-in problems are valid: {error}"))
}

/// Creates a space of float parameters on linear scales.
#[must_use]
pub fn linear_space<N: Into<String>>(parameters: impl IntoIterator<Item = (N, [f64; 2])>) -> Space {
    float_space(parameters.into_iter().map(|(name, range)| (name.into(), range)), false)
}

/// Creates a space of float parameters on logarithmic scales.
#[must_use]
pub fn log_space<N: Into<String>>(parameters: impl IntoIterator<Item = (N, [f64; 2])>) -> Space {
    float_space(parameters.into_iter().map(|(name, range)| (name.into(), range)), true)
}

/// Returns a point's values in the order of a numeric space.
///
/// # Errors
/// Fails if the point is not in the space or a value is not a number.
pub fn coordinates(space: &Space, point: &Point) -> Result<Vec<f64>, Failure> {
    let bad = |message: String| Failure::BadPoint { message };
    space.encode(point).map_err(|error| bad(error.to_string()))?;
    space
        .parameters()
        .iter()
        .map(|parameter| {
            let value = point.get(parameter.name()).and_then(fedbo_space::Value::as_f64);
            value.ok_or_else(|| bad(format!("{} is not a number", parameter.name())))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use fedbo_space::Direction;

    use super::*;

    fn refused(spec: &ProblemSpec) -> String {
        match problem(spec) {
            Err(error) => error.to_string(),
            Ok(found) => panic!("{}", found.name()),
        }
    }

    fn named(name: &str) -> ProblemSpec {
        ProblemSpec { name: name.to_owned(), ..ProblemSpec::default() }
    }

    #[test]
    fn a_problem_is_found_by_name_and_a_misspelt_name_is_answered_with_the_nearest() {
        for name in ["branin", "ackley", "rosenbrock", "hartmann6", "levy"] {
            let found = problem(&named(name)).unwrap();
            assert!(found.name().starts_with(name));
            assert_eq!(found.direction(), Direction::Minimize);
        }
        assert_eq!(
            problem(&ProblemSpec { dim: Some(5), ..named("levy") }).unwrap().space().dim(),
            5
        );
        for (name, nearest) in [("brannin", "branin"), ("hartman", "hartmann6")] {
            let message = refused(&named(name));
            assert!(message.contains(&format!("did you mean {nearest:?}")), "{message}");
        }
    }

    #[test]
    fn options_are_checked_against_the_problem() {
        for (spec, expected) in [
            (ProblemSpec { dim: Some(2), ..named("branin") }, "problem branin has no option dim"),
            (ProblemSpec { dim: Some(0), ..named("ackley") }, "dim = 0"),
            (ProblemSpec { dim: Some(1), ..named("rosenbrock") }, "dim = 1"),
            (ProblemSpec { noise_std: Some(-1.0), ..named("levy") }, "noise_std = -1"),
            (ProblemSpec { noise_std: Some(f64::NAN), ..named("levy") }, "noise_std = NaN"),
            (named("digits-perceptron"), "problem digits-perceptron needs silo"),
            (
                ProblemSpec { silo: Some(14), ..named("digits-perceptron") },
                "silo = 14, expected a number from 0 to 13",
            ),
        ] {
            let message = refused(&spec);
            assert!(message.contains(expected), "{message}");
        }
    }
}
