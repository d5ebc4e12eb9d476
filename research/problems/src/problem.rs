//! Lookup of problems by name.

use std::sync::Arc;

use fedbo_error_class::{Class, Classified};
use fedbo_objective::{Failure, Outcome, Problem, ProblemSpec, Problems};
pub(crate) use fedbo_problems::{coordinates, linear_space, log_space};
use fedbo_space::{Point, Space};
use fedbo_streams::Seed;

use crate::landmine::{LandmineSvm, read_fields};
use crate::suite::{PREFIX, suite, suite_high};
use crate::svm::SvmError;
use crate::table::DataError;
use crate::wine::{N_SILOS, WineSites, WineSvm};
use crate::wine_trees::{N_TREE_SILOS, WineTrees};

/// Names of the problems in this crate, in addition to the built-in ones and `suite/NAME`.
pub const PROBLEM_NAMES: [&str; 3] = ["wine-svm", "wine-trees", "landmine-svm"];

/// Returns the names of all problems except those of the suite.
fn all_names() -> impl Iterator<Item = &'static str> {
    fedbo_problems::PROBLEM_NAMES.into_iter().chain(PROBLEM_NAMES)
}

/// Reason why a problem cannot be created.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// No built-in problem has this name.
    #[error("problem = {name:?} is not known; did you mean {nearest:?}? Known are {}, and suite/NAME", all_names().collect::<Vec<_>>().join(", "))]
    UnknownName {
        /// The unknown name.
        name: String,
        /// The closest known name.
        nearest: &'static str,
    },
    /// The suite has no function with this name.
    #[error(
        "problem = {name:?}: the suite has no such function; did you mean {nearest:?}? Names are suite/SHAPE-Dd, D the number of parameters"
    )]
    UnknownSuiteFunction {
        /// The unknown name.
        name: String,
        /// The closest name in the suite.
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
        /// Description of the option.
        expected: String,
    },
    /// The option's value is invalid for the problem.
    #[error("problem {problem}: {key} = {found}, expected {expected}")]
    Option {
        /// The problem.
        problem: String,
        /// The option.
        key: &'static str,
        /// The given value.
        found: String,
        /// The accepted values.
        expected: String,
    },
    /// A built-in problem cannot be created.
    #[error(transparent)]
    BuiltIn(#[from] fedbo_problems::ProblemError),
    /// The data folder is unusable.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The data is unsuitable for a support vector machine.
    #[error(transparent)]
    Svm(#[from] SvmError),
}

impl Classified for ProblemError {
    fn class(&self) -> Class {
        Class::Input
    }
}

/// The problems of this crate and the built-in ones, which user files select by name.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResearchProblems;

impl Problems for ResearchProblems {
    fn find(&self, spec: &ProblemSpec) -> Result<Arc<dyn Problem>, String> {
        problem(spec).map_err(|error| error.to_string())
    }
}

/// Returns the problem that `spec` describes, either one of this crate or a built-in one.
///
/// `n_silos` is 8 by default for `wine-svm` and 12 for `wine-trees`. `data` is the folder that
/// contains `landmine/landmine.csv`. The names `suite/NAME` and `suite/NAME/N` refer to instances 0
/// and N of a function of [`suite()`] or [`suite_high()`].
///
/// # Errors
/// If the name is unknown, an option is missing, not supported or out of range, or the data cannot
/// be read.
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
    if let Some(name) = spec.name.strip_prefix(PREFIX) {
        only(&["seed"])?;
        return suite_function(name, spec.seed);
    }
    match spec.name.as_str() {
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
        "landmine-svm" => {
            only(&["field", "data"])?;
            let field = spec.field.ok_or_else(|| missing("field", "which field, from 0 to 28"))?;
            let what = "the folder that holds landmine/landmine.csv (--data DIR)";
            let folder = spec.data.as_ref().ok_or_else(|| missing("data", what))?;
            Ok(Arc::new(LandmineSvm::new(&read_fields(folder)?, field)?))
        }
        name if fedbo_problems::PROBLEM_NAMES.contains(&name) => Ok(fedbo_problems::problem(spec)?),
        name => {
            let mut nearest = PROBLEM_NAMES[0];
            for known in all_names() {
                if strsim::jaro_winkler(known, name) > strsim::jaro_winkler(nearest, name) {
                    nearest = known;
                }
            }
            let name = name.to_owned();
            Err(ProblemError::UnknownName { name, nearest })
        }
    }
}

/// Returns the suite function with the name `NAME` or `NAME/N`, where N is the instance's seed. The
/// noise seed defaults to N.
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

/// Returns the outcome of an SVM problem as a function of C and gamma.
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
                "there is no folder /no/such; pass the one that contains landmine/landmine.csv (--data DIR)",
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
