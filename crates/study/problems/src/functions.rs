//! Test functions with known minima, on their usual domains and with their original sign, with
//! optional observation noise.

use std::f64::consts::{E, PI, TAU};
use std::sync::Arc;

use fedbo_objective::{Direction, Objective, Outcome, Problem, TrialId};
use fedbo_space::{Point, Space};
use fedbo_streams::{Purpose, Seed};

use crate::problem::{ProblemError, coordinates, linear_space};

/// A function of d numbers x1, …, xd, to be minimized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// (x2 − 5.1 x1²/(4π²) + 5 x1/π − 6)² + 10 (1 − 1/(8π)) cos x1 + 10 on `[−5,10]×[0,15]`; three minima.
    Branin,
    /// −20 exp(−0.2 √(Σ x_i²/d)) − exp(Σ cos(2π x_i)/d) + 20 + e on [−32.768, 32.768]^d; minimum at 0.
    Ackley {
        /// Dimension d ≥ 1.
        dim: usize,
    },
    /// Σ 100 (x_{i+1} − x_i²)² + (1 − x_i)² on `[−5,10]^d`; minimum at 1.
    Rosenbrock {
        /// Dimension d ≥ 2.
        dim: usize,
    },
    /// −Σ_i α_i exp(−Σ_j A_ij (x_j − P_ij)²) on `[0,1]^6`; six minima, one of them global.
    Hartmann6,
    /// sin²(π w_1) + Σ (w_i − 1)² (1 + 10 sin²(π w_i + 1)) + (w_d − 1)² (1 + sin²(2π w_d)), w = 1 + (x − 1)/4,
    /// on `[−10,10]^d`; minimum at 1.
    Levy {
        /// Dimension d ≥ 1.
        dim: usize,
    },
}

/// Maximum dimension. A larger dimension is assumed to be a typo.
const DIM_MAX: usize = 1000;

const HARTMANN_WEIGHTS: [f64; 4] = [1.0, 1.2, 3.0, 3.2];
const HARTMANN_SCALES: [[f64; 6]; 4] = [
    [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
    [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
    [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
    [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
];
const HARTMANN_CENTRES: [[f64; 6]; 4] = [
    [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
    [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
    [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
    [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
];

impl Function {
    /// Returns the name, as in [`crate::PROBLEM_NAMES`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Branin => "branin",
            Self::Ackley { .. } => "ackley",
            Self::Rosenbrock { .. } => "rosenbrock",
            Self::Hartmann6 => "hartmann6",
            Self::Levy { .. } => "levy",
        }
    }

    /// Returns the dimension d.
    pub fn dim(self) -> usize {
        match self {
            Self::Branin => 2,
            Self::Hartmann6 => 6,
            Self::Ackley { dim } | Self::Rosenbrock { dim } | Self::Levy { dim } => dim,
        }
    }

    /// Returns the value at x (length d).
    ///
    /// # Panics
    /// Panics if the length of `x` is not d.
    pub fn value(self, x: &[f64]) -> f64 {
        let d = self.dim();
        assert_eq!(x.len(), d, "{} coordinates for {}", x.len(), self.name());
        match self {
            Self::Branin => {
                let bend = x[1] - 5.1 / (4.0 * PI * PI) * x[0] * x[0] + 5.0 / PI * x[0] - 6.0;
                bend * bend + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * x[0].cos() + 10.0
            }
            Self::Ackley { .. } => {
                let mean =
                    |term: fn(f64) -> f64| x.iter().map(|&v| term(v)).sum::<f64>() / d as f64;
                let root = mean(|v| v * v).sqrt();
                let waves = mean(|v| (TAU * v).cos());
                20.0 * (1.0 - (-0.2 * root).exp()) + E - waves.exp()
            }
            Self::Rosenbrock { .. } => x
                .windows(2)
                .map(|pair| {
                    let (off, left) = (pair[1] - pair[0] * pair[0], 1.0 - pair[0]);
                    100.0 * off * off + left * left
                })
                .sum(),
            Self::Hartmann6 => {
                let peaks = HARTMANN_WEIGHTS.iter().zip(HARTMANN_SCALES).zip(HARTMANN_CENTRES);
                -peaks
                    .map(|((weight, scales), centre)| {
                        let terms = x.iter().zip(scales).zip(centre);
                        let exponent: f64 = terms.map(|((x, a), p)| a * (x - p) * (x - p)).sum();
                        weight * (-exponent).exp()
                    })
                    .sum::<f64>()
            }
            Self::Levy { .. } => {
                let w: Vec<f64> = x.iter().map(|v| 1.0 + (v - 1.0) / 4.0).collect();
                let square = |v: f64| v * v;
                let inner: f64 = w[..d - 1]
                    .iter()
                    .map(|w| square(w - 1.0) * (1.0 + 10.0 * square((PI * w + 1.0).sin())))
                    .sum();
                let last = w[d - 1];
                square((PI * w[0]).sin())
                    + inner
                    + square(last - 1.0) * (1.0 + square((TAU * last).sin()))
            }
        }
    }

    /// Returns the minimum.
    pub fn optimum(self) -> f64 {
        match self {
            Self::Branin => 10.0 / (8.0 * PI),
            Self::Hartmann6 => -3.322_368_011_415_514,
            Self::Ackley { .. } | Self::Rosenbrock { .. } | Self::Levy { .. } => 0.0,
        }
    }

    /// Returns the global minimizers, to the published precision.
    pub fn minimisers(self) -> Vec<Vec<f64>> {
        match self {
            Self::Branin => vec![vec![-PI, 12.275], vec![PI, 2.275], vec![3.0 * PI, 2.475]],
            Self::Ackley { dim } => vec![vec![0.0; dim]],
            Self::Rosenbrock { dim } | Self::Levy { dim } => vec![vec![1.0; dim]],
            Self::Hartmann6 => vec![vec![
                0.201_689_511,
                0.150_010_692,
                0.476_873_974,
                0.275_332_431,
                0.311_651_616,
                0.657_300_534,
            ]],
        }
    }

    fn space(self) -> Space {
        if self == Self::Branin {
            return linear_space([("x1", [-5.0, 10.0]), ("x2", [0.0, 15.0])]);
        }
        let range = match self {
            Self::Ackley { .. } => [-32.768, 32.768],
            Self::Hartmann6 => [0.0, 1.0],
            Self::Levy { .. } => [-10.0, 10.0],
            Self::Branin | Self::Rosenbrock { .. } => [-5.0, 10.0],
        };
        linear_space((1..=self.dim()).map(|index| (format!("x{index}"), range)))
    }
}

/// A function as an objective, with Gaussian observation noise.
///
/// The noise of a trial depends only on the seed, the agent and the trial's number, not on the
/// order of evaluation.
#[derive(Clone, Debug)]
pub struct TestFunction {
    function: Function,
    space: Space,
    noise_std: f64,
    seed: Seed,
}

impl TestFunction {
    /// Creates an objective with observation noise of standard deviation `noise_std` ≥ 0.
    ///
    /// # Errors
    /// Fails if the dimension or the noise is out of range.
    pub fn new(function: Function, noise_std: f64, seed: Seed) -> Result<Self, ProblemError> {
        let wrong = |key, found: String, expected: String| ProblemError::Option {
            problem: function.name().to_owned(),
            key,
            found,
            expected,
        };
        let smallest = if matches!(function, Function::Rosenbrock { .. }) { 2 } else { 1 };
        if !(smallest..=DIM_MAX).contains(&function.dim()) {
            let expected = format!("a number from {smallest} to {DIM_MAX}");
            return Err(wrong("dim", function.dim().to_string(), expected));
        }
        if !(noise_std.is_finite() && noise_std >= 0.0) {
            let expected = "a finite number of at least 0".to_owned();
            return Err(wrong("noise_std", noise_std.to_string(), expected));
        }
        Ok(Self { function, space: function.space(), noise_std, seed })
    }

    /// Returns the function without noise.
    pub fn function(&self) -> Function {
        self.function
    }
}

impl Objective for TestFunction {
    fn evaluate(&self, point: &Point, trial: TrialId) -> Outcome {
        match coordinates(&self.space, point) {
            Err(failure) => Outcome::Failed(failure),
            Ok(x) => {
                let purpose = Purpose::OBSERVATION_NOISE;
                let noise = self.seed.stream(purpose, trial.agent, trial.trial).normal();
                Outcome::Value(self.function.value(&x) + self.noise_std * noise)
            }
        }
    }
}

impl Problem for TestFunction {
    fn name(&self) -> String {
        match self.function {
            Function::Branin | Function::Hartmann6 => self.function.name().to_owned(),
            sized => format!("{} dim {}", sized.name(), sized.dim()),
        }
    }

    fn space(&self) -> &Space {
        &self.space
    }

    fn direction(&self) -> Direction {
        Direction::Minimize
    }

    fn with_noise_from(&self, seed: Seed) -> Option<Arc<dyn Problem>> {
        Some(Arc::new(Self { seed, ..self.clone() }))
    }

    fn optimum(&self) -> Option<f64> {
        Some(self.function.optimum())
    }

    fn noiseless(&self, point: &Point) -> Option<f64> {
        let x = coordinates(&self.space, point).ok()?;
        Some(self.function.value(&x))
    }
}

#[cfg(test)]
mod tests {
    use fedbo_objective::Failure;

    use super::*;

    const FUNCTIONS: [Function; 8] = [
        Function::Branin,
        Function::Hartmann6,
        Function::Ackley { dim: 1 },
        Function::Ackley { dim: 5 },
        Function::Rosenbrock { dim: 2 },
        Function::Rosenbrock { dim: 4 },
        Function::Levy { dim: 1 },
        Function::Levy { dim: 4 },
    ];

    fn noiseless(function: Function) -> TestFunction {
        TestFunction::new(function, 0.0, Seed::new(1)).unwrap()
    }

    #[test]
    fn the_optimum_is_taken_at_the_published_minimisers() {
        for function in FUNCTIONS {
            for x in function.minimisers() {
                let error = function.value(&x) - function.optimum();
                assert!(error.abs() < 1e-12, "{function:?} at {x:?}: {error:e}");
            }
        }
    }

    /// Evaluates 100,000 random points and takes 20,000 shrinking steps around the minimisers. No
    /// value is below the optimum.
    #[test]
    fn no_value_lies_below_the_optimum() {
        for function in FUNCTIONS {
            let space = noiseless(function).space;
            let mut stream = Seed::new(2).stream(Purpose::TEST, 0, 0);
            let d = function.dim();
            let lowest = function.optimum() - 1e-12;
            for _ in 0..100_000 {
                let unit: Vec<f64> = (0..d).map(|_| stream.uniform()).collect();
                let x = coordinates(&space, &space.decode(&unit)).unwrap();
                assert!(function.value(&x) >= lowest, "{function:?} at {x:?}");
            }
            for start in function.minimisers() {
                for step in 0..20_000 {
                    let size = 10_f64.powf(-f64::from(step) / 2000.0);
                    let x: Vec<f64> = start.iter().map(|v| v + size * stream.normal()).collect();
                    let inside = coordinates(&space, &Point::new(named(&x))).is_ok();
                    assert!(!inside || function.value(&x) >= lowest, "{function:?} at {x:?}");
                }
            }
        }
    }

    fn named(x: &[f64]) -> Vec<(String, fedbo_space::Value)> {
        let value =
            |(index, v): (usize, &f64)| (format!("x{index}"), fedbo_space::Value::Float(*v));
        (1..).zip(x).map(value).collect()
    }

    /// Compares with published values (Branin, Ackley) and with values that follow from plain
    /// arithmetic.
    #[test]
    fn values_elsewhere_are_the_known_ones() {
        for (function, x, expected) in [
            (Function::Branin, vec![0.0, 0.0], 55.602_112_642_270_26),
            (Function::Ackley { dim: 2 }, vec![1.0, 1.0], 3.625_384_938_440_363),
            (Function::Rosenbrock { dim: 3 }, vec![0.0, 0.0, 0.0], 2.0),
            (Function::Rosenbrock { dim: 2 }, vec![-1.0, 2.0], 104.0),
            (Function::Levy { dim: 1 }, vec![5.0], 1.0),
        ] {
            let found = function.value(&x);
            assert!((found - expected).abs() < 1e-12, "{function:?}: {found}");
        }
    }

    #[test]
    fn noise_belongs_to_the_trial_and_has_the_right_size() {
        let noisy = TestFunction::new(Function::Branin, 0.5, Seed::new(3)).unwrap();
        let point = noisy.space().decode(&[0.3, 0.6]);
        let value = |agent, trial| match noisy.evaluate(&point, TrialId { agent, trial }) {
            Outcome::Value(value) => value - noisy.noiseless(&point).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(value(1, 2).to_bits(), value(1, 2).to_bits());
        let differ = |a: f64, b: f64| (a - b).abs() > 1e-9;
        assert!(differ(value(1, 2), value(2, 1)) && differ(value(0, 0), value(0, 1)));
        let n = 20_000;
        let variance = (0..n).map(|t| value(0, t).powi(2)).sum::<f64>() / f64::from(20_000);
        let tolerance = 5.0 * 0.25 * (2.0 / f64::from(20_000)).sqrt(); // five standard errors
        assert!((variance - 0.25).abs() < tolerance, "{variance}");
    }

    #[test]
    fn a_point_of_another_space_is_a_failed_trial() {
        let branin = noiseless(Function::Branin);
        let trial = TrialId { agent: 0, trial: 0 };
        for x in [vec![0.0], vec![11.0, 0.0]] {
            let outcome = branin.evaluate(&Point::new(named(&x)), trial);
            assert!(matches!(outcome, Outcome::Failed(Failure::BadPoint { .. })));
            assert_eq!(branin.noiseless(&Point::new(named(&x))), None);
        }
    }
}
