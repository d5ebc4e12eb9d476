//! Built-in problems, and their lookup by name.

use std::sync::Arc;

use fedbo_objective::{Failure, Outcome, Problem, ProblemSpec, Problems};
use fedbo_space::{Parameter, ParameterSpec, Point, Space};
use fedbo_streams::Seed;

use crate::digits_perceptron::DigitsPerceptron;
use crate::functions::{Function, TestFunction};
use crate::landmine::{LandmineSvm, read_fields};
use crate::suite::{PREFIX, suite, suite_high};
use crate::svm::SvmError;
use crate::table::DataError;
use crate::wine::{N_SILOS, WineSites, WineSvm};
use crate::wine_trees::{N_TREE_SILOS, WineTrees};

/// Names of the built-in problems.
pub const PROBLEM_NAMES: [&str; 9] = [
    "branin",
    "ackley",
    "rosenbrock",
    "hartmann6",
    "levy",
    "wine-svm",
    "wine-trees",
    "digits-perceptron",
    "landmine-svm",
];

/// The reason why there is no such problem.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// No built-in problem has this name.
    #[error("problem = {name:?} is not known; did you mean {nearest:?}? Known are {}, and suite/NAME", PROBLEM_NAMES.join(", "))]
    UnknownName {
        /// The name.
        name: String,
        /// The known name closest to it.
        nearest: &'static str,
    },
    /// The suite has no function of this name.
    #[error(
        "problem = {name:?}: the suite has no such function; did you mean {nearest:?}? Names are suite/SHAPE-Dd, D the number of parameters"
    )]
    UnknownSuiteFunction {
        /// The name.
        name: String,
        /// The name of the suite that is closest to it.
        nearest: String,
    },
    /// The problem does not have this option.
    #[error("problem {problem} has no option {key}; leave it out")]
    UnusedOption {
        /// The problem.
        problem: String,
        /// The option.
        key: &'static str,
    },
    /// The problem needs this option.
    #[error("problem {problem} needs {key}: {expected}")]
    MissingOption {
        /// The problem.
        problem: String,
        /// The option.
        key: &'static str,
        /// The meaning of the option.
        expected: String,
    },
    /// The option's value is not one that the problem can have.
    #[error("problem {problem}: {key} = {found}, expected {expected}")]
    Option {
        /// The problem.
        problem: String,
        /// The option.
        key: &'static str,
        /// The value that was given.
        found: String,
        /// The values that are accepted.
        expected: String,
    },
    /// The data folder cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The data cannot carry a support vector machine.
    #[error(transparent)]
    Svm(#[from] SvmError),
}

/// The problems of this crate that files may name.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltInProblems;

impl Problems for BuiltInProblems {
    fn find(&self, spec: &ProblemSpec) -> Result<Arc<dyn Problem>, String> {
        problem(spec).map_err(|error| error.to_string())
    }
}

/// The built-in problem that `spec` describes. `dim` is 2 by default, `noise_std` 0, `n_silos` 8 for
/// `wine-svm` and 12 for `wine-trees`, `seed` 0; `data` is the folder that
/// holds `landmine/landmine.csv`. Names `suite/NAME` and `suite/NAME/N` are instances
/// 0 and N of a function of [`suite()`] or [`suite_high()`].
///
/// # Errors
/// If its name is unknown, an option is missing, not its own or out of range, or its data cannot be read.
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
    if let Some(name) = spec.name.strip_prefix(PREFIX) {
        only(&["seed"])?;
        return suite_function(name, spec.seed);
    }
    match spec.name.as_str() {
        "branin" => only(&noisy).and_then(|()| function(Function::Branin)),
        "hartmann6" => only(&noisy).and_then(|()| function(Function::Hartmann6)),
        "ackley" => only(&sized).and_then(|()| function(Function::Ackley { dim })),
        "rosenbrock" => only(&sized).and_then(|()| function(Function::Rosenbrock { dim })),
        "levy" => only(&sized).and_then(|()| function(Function::Levy { dim })),
        "wine-svm" => {
            only(&["silo", "n_silos"])?;
            let silo = spec.silo.ok_or_else(|| missing("silo", "which site, from 0"))?;
            let sites = WineSites::new(spec.n_silos.unwrap_or(N_SILOS))?;
            Ok(Arc::new(WineSvm::new(&sites, silo)?))
        }
        "wine-trees" => {
            only(&["silo", "n_silos"])?;
            let silo = spec.silo.ok_or_else(|| missing("silo", "which site, from 0"))?;
            Ok(Arc::new(WineTrees::new(spec.n_silos.unwrap_or(N_TREE_SILOS), silo)?))
        }
        "digits-perceptron" => {
            only(&["silo"])?;
            let form = spec.silo.ok_or_else(|| missing("silo", "which form, from 0 to 13"))?;
            Ok(Arc::new(DigitsPerceptron::new(form)?))
        }
        "landmine-svm" => {
            only(&["field", "data"])?;
            let field = spec.field.ok_or_else(|| missing("field", "which field, from 0 to 28"))?;
            let what = "the folder that holds landmine/landmine.csv (--data DIR)";
            let folder = spec.data.as_ref().ok_or_else(|| missing("data", what))?;
            Ok(Arc::new(LandmineSvm::new(&read_fields(folder)?, field)?))
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

/// The function of the suite that `NAME` or `NAME/N` names, N the seed of the instance, with noise from `noise_seed` or else from N.
fn suite_function(name: &str, noise_seed: Option<u64>) -> Result<Arc<dyn Problem>, ProblemError> {
    let (shape, instance) = name.split_once('/').unwrap_or((name, "0"));
    let entries = [suite(), suite_high()].concat();
    if let Some(entry) = entries.iter().find(|entry| entry.name() == shape) {
        let instance = instance.parse().map_err(|_| ProblemError::Option {
            problem: format!("{PREFIX}{shape}"),
            key: "its instance",
            found: instance.to_owned(),
            expected: format!("a whole number from 0, as in {PREFIX}{shape}/3"),
        })?;
        let function = entry.instance(instance);
        let noisy = noise_seed.and_then(|seed| function.with_noise_from(Seed::new(seed)));
        return Ok(noisy.unwrap_or_else(|| Arc::new(function)));
    }
    let names = entries.iter().map(|entry| entry.name());
    let closeness = |known: &String| strsim::jaro_winkler(known, shape);
    let nearest = names.max_by(|a, b| closeness(a).total_cmp(&closeness(b)));
    let nearest = PREFIX.to_owned() + &nearest.unwrap_or_default();
    Err(ProblemError::UnknownSuiteFunction { name: PREFIX.to_owned() + name, nearest })
}

/// A space of float parameters.
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

/// A space of float parameters on linear scales.
pub(crate) fn linear_space<N: Into<String>>(
    parameters: impl IntoIterator<Item = (N, [f64; 2])>,
) -> Space {
    float_space(parameters.into_iter().map(|(name, range)| (name.into(), range)), false)
}

/// A space of float parameters on logarithmic scales.
pub(crate) fn log_space<N: Into<String>>(
    parameters: impl IntoIterator<Item = (N, [f64; 2])>,
) -> Space {
    float_space(parameters.into_iter().map(|(name, range)| (name.into(), range)), true)
}

/// A point's values in the order of a space of numbers, checked to lie in it.
pub(crate) fn coordinates(space: &Space, point: &Point) -> Result<Vec<f64>, Failure> {
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

/// The outcome of an SVM problem, a function of C and gamma.
pub(crate) fn svm_outcome(
    space: &Space,
    point: &Point,
    auc: impl FnOnce(f64, f64) -> Result<f64, SvmError>,
) -> Outcome {
    let scored = coordinates(space, point).and_then(|at| {
        auc(at[0], at[1]).map_err(|error| Failure::Model { message: error.to_string() })
    });
    scored.map_or_else(Outcome::Failed, Outcome::Value)
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
        for (name, nearest) in [
            ("brannin", "branin"),
            ("wine_svm", "wine-svm"),
            ("hartman", "hartmann6"),
            ("suite/ellipsoid-4d", "suite/ellipsoid-5d"),
            ("suite/griewank-vally-10d", "suite/griewank-valley-10d"),
        ] {
            let message = refused(&named(name));
            assert!(message.contains(&format!("did you mean {nearest:?}")), "{message}");
        }
    }

    #[test]
    fn options_are_checked_against_the_problem() {
        for (spec, expected) in [
            (ProblemSpec { dim: Some(2), ..named("branin") }, "problem branin has no option dim"),
            (ProblemSpec { dim: Some(2), ..named("suite/sphere-2d") }, "has no option dim"),
            (named("suite/sphere-2d/-1"), "suite/sphere-2d: its instance = -1"),
            (ProblemSpec { dim: Some(0), ..named("ackley") }, "dim = 0"),
            (ProblemSpec { dim: Some(1), ..named("rosenbrock") }, "dim = 1"),
            (ProblemSpec { noise_std: Some(-1.0), ..named("levy") }, "noise_std = -1"),
            (ProblemSpec { noise_std: Some(f64::NAN), ..named("levy") }, "noise_std = NaN"),
            (named("wine-svm"), "problem wine-svm needs silo"),
            (
                ProblemSpec { silo: Some(8), ..named("wine-svm") },
                "silo = 8, expected a number from 0 to 7",
            ),
            (
                ProblemSpec { silo: Some(0), n_silos: Some(1000), ..named("wine-svm") },
                "n_silos = 1000",
            ),
            (ProblemSpec { field: Some(0), ..named("landmine-svm") }, "needs data"),
            (
                ProblemSpec {
                    field: Some(0),
                    data: Some("/no/such".into()),
                    ..named("landmine-svm")
                },
                "there is no folder /no/such; pass the one that holds landmine/landmine.csv (--data DIR)",
            ),
        ] {
            let message = refused(&spec);
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn a_function_of_the_suite_is_found_with_its_instance() {
        let optimum = |name: &str| problem(&named(name)).unwrap().optimum().unwrap();
        let entry = suite().into_iter().find(|entry| entry.name() == "noisy-gp-3d").unwrap();
        for (name, instance) in [("suite/noisy-gp-3d", 0), ("suite/noisy-gp-3d/7", 7)] {
            let expected = entry.instance(instance).optimum().unwrap();
            assert!((optimum(name) - expected).abs() < 1e-12, "{name}");
            assert_eq!(problem(&named(name)).unwrap().name(), name);
        }
        assert!((optimum("suite/noisy-gp-3d") - optimum("suite/noisy-gp-3d/7")).abs() > 1e-3);
    }
}
