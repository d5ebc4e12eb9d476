//! Synthetic learning curves with known final values, for measuring early stopping rules.

use std::f64::consts::PI;

use fedbo_objective::{Direction, Failure};
use fedbo_space::{Point, Space};
use fedbo_streams::{Purpose, Seed};

use crate::TrainingProblem;
use crate::problem::{coordinates, linear_space};

/// Number N of epochs.
const N_EPOCHS: usize = 50;
/// Error of an untrained model: chance level with ten classes.
const UNTRAINED: f64 = 0.9;
/// Final error far from all wells.
const CEILING: f64 = 0.55;
/// Wells of the final error: centre, depth h and width w. The first is the deepest.
const WELLS: [([f64; 2], f64, f64); 4] = [
    ([0.75, 0.7], 0.45, 0.1),
    ([0.25, 0.65], 0.38, 0.14),
    ([0.35, 0.2], 0.33, 0.18),
    ([0.8, 0.2], 0.28, 0.16),
];
/// The point with the smallest final error, in the unit square.
const MINIMISER: [f64; 2] = [0.749_577_092_029_102, 0.698_865_849_967_274];
/// Standard deviation of [`CurveFamily::Noisy`] per epoch.
const NOISE_STD: f64 = 0.02;

/// The shape of the curves that lead to the final value v. Each family defines the epoch p until
/// which nothing is learned, and the time constant τ after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurveFamily {
    /// p = 0, τ = 3 + 9 sin²(π (x1 − x2)). Speed and final value are unrelated, so early ranks are
    /// informative.
    Exponential,
    /// p = 0, τ = 3 + 100 (0.55 − v). Curves with better final values take longer. Early ranks are
    /// the reverse of the final ones.
    Crossing,
    /// p = 4 + 30 sin²(π (x1 + x2)), τ = 3. The error is constant until epoch p, then drops. Two
    /// good wells drop early, the best one after epoch 33. Before that epoch, nothing distinguishes
    /// the best well from a point that never becomes good.
    Plateau,
    /// Like [`CurveFamily::Exponential`], with normal noise of standard deviation 0.02 in each
    /// epoch, clipped to [0, 1].
    Noisy,
}

impl CurveFamily {
    /// All families.
    pub const ALL: [Self; 4] = [Self::Exponential, Self::Crossing, Self::Plateau, Self::Noisy];

    /// Returns the name of the family.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::Crossing => "crossing",
            Self::Plateau => "plateau",
            Self::Noisy => "noisy",
        }
    }

    /// Returns the epoch p until which nothing is learned, and the time constant τ.
    fn pace(self, at: [f64; 2]) -> (f64, f64) {
        let [x1, x2] = at;
        let wave = |angle: f64| (PI * angle).sin().powi(2);
        match self {
            Self::Exponential | Self::Noisy => (0.0, 3.0 + 9.0 * wave(x1 - x2)),
            Self::Crossing => (0.0, 3.0 + 100.0 * (CEILING - final_error(at))),
            Self::Plateau => (4.0 + 30.0 * wave(x1 + x2), 3.0),
        }
    }

    /// Returns the error after `epoch` epochs without noise.
    fn error(self, at: [f64; 2], epoch: usize) -> f64 {
        let (plateau, time_constant) = self.pace(at);
        let left = |epoch: f64| (-(epoch - plateau).max(0.0) / time_constant).exp();
        let (now, end) = (left(epoch as f64), left(N_EPOCHS as f64));
        let last = final_error(at);
        last + (UNTRAINED - last) * (now - end) / (1.0 - end)
    }
}

/// Validation errors of 50 epochs over two parameters x1, x2 in [0, 1], to be minimized.
///
/// The error after epoch n falls exponentially from 0.9 to its final value v, which it reaches
/// exactly at N = 50. A family determines when learning starts (p) and its time constant (τ):
///
/// f(x, n) = v + (0.9 − v) (g(n) − g(N))/(1 − g(N)),   g(n) = exp(−max(n − p, 0)/τ),
/// v(x) = 0.55 − Σ_i h_i exp(−|x − c_i|²/(2 w_i²))
///
/// v has four wells of different depths. The deepest well is narrow. All families have the same
/// final values.
#[derive(Clone, Debug)]
pub struct LearningCurves {
    family: CurveFamily,
    space: Space,
}

impl LearningCurves {
    /// Creates the problem with curves of this family.
    pub fn new(family: CurveFamily) -> Self {
        Self { family, space: linear_space([("x1", [0.0, 1.0]), ("x2", [0.0, 1.0])]) }
    }

    /// Returns the error v after the last epoch, without noise.
    ///
    /// # Errors
    /// If the point is not in the space.
    pub fn final_value(&self, point: &Point) -> Result<f64, Failure> {
        Ok(final_error(self.position(point)?))
    }

    /// Returns the smallest final error without noise.
    pub fn optimum(&self) -> f64 {
        final_error(MINIMISER)
    }

    /// Returns the minimizer of the final error. Its value is [`LearningCurves::optimum`].
    pub fn minimiser(&self) -> Point {
        self.space.decode(&MINIMISER)
    }

    fn position(&self, point: &Point) -> Result<[f64; 2], Failure> {
        let at = coordinates(&self.space, point)?;
        Ok([at[0], at[1]])
    }
}

/// Returns the final error v.
fn final_error(at: [f64; 2]) -> f64 {
    let wells = WELLS.iter().map(|(centre, depth, width)| {
        let offset = [at[0] - centre[0], at[1] - centre[1]];
        let square = offset[0] * offset[0] + offset[1] * offset[1];
        depth * (-square / (2.0 * width * width)).exp()
    });
    CEILING - wells.sum::<f64>()
}

impl TrainingProblem for LearningCurves {
    fn name(&self) -> String {
        format!("learning-curves {}", self.family.name())
    }

    fn space(&self) -> &Space {
        &self.space
    }

    fn direction(&self) -> Direction {
        Direction::Minimize
    }

    fn n_epochs(&self) -> usize {
        N_EPOCHS
    }

    /// Only [`CurveFamily::Noisy`] uses `run`. Noise at different points is independent, as if the
    /// initial weights depended on the parameters.
    fn curve(&self, point: &Point, run: u64) -> Result<Vec<f64>, Failure> {
        let at = self.position(point)?;
        let mut curve: Vec<f64> =
            (1..=N_EPOCHS).map(|epoch| self.family.error(at, epoch)).collect();
        if self.family == CurveFamily::Noisy {
            let label = at.map(|x| (x + 0.0).to_bits()); // −0 + 0 is 0
            let mut stream = Seed::new(run).stream(Purpose::OBSERVATION_NOISE, label[0], label[1]);
            for value in &mut curve {
                *value = (*value + NOISE_STD * stream.normal()).clamp(0.0, 1.0);
            }
        }
        Ok(curve)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curves(family: CurveFamily, at: [f64; 2], run: u64) -> Vec<f64> {
        let problem = LearningCurves::new(family);
        problem.curve(&problem.space.decode(&at), run).unwrap()
    }

    /// Returns 300 points, uniform on the square.
    fn points() -> Vec<[f64; 2]> {
        let mut stream = Seed::new(5).stream(Purpose::TEST, 0, 0);
        let point = |_| [stream.uniform(), stream.uniform()];
        (0..300).map(point).collect()
    }

    /// Returns Spearman's rank correlation of two lists without ties.
    fn rank_correlation(a: &[f64], b: &[f64]) -> f64 {
        let ranks = |values: &[f64]| -> Vec<f64> {
            let below = |v: f64| values.iter().filter(|other| **other < v).count();
            values.iter().map(|v| below(*v) as f64).collect()
        };
        let middle = (a.len() - 1) as f64 / 2.0;
        let (a, b) = (ranks(a), ranks(b));
        let product = |a: &[f64], b: &[f64]| -> f64 {
            let pairs = a.iter().zip(b);
            pairs.map(|(a, b)| (a - middle) * (b - middle)).sum()
        };
        product(&a, &b) / product(&a, &a)
    }

    /// Returns the rank correlation, over the points, of the values after `epoch` with the final
    /// ones.
    fn early_correlation(family: CurveFamily, epoch: usize) -> f64 {
        let all = points().into_iter().map(|at| curves(family, at, 0));
        let (early, last): (Vec<f64>, Vec<f64>) =
            all.map(|curve| (curve[epoch - 1], curve[49])).unzip();
        rank_correlation(&early, &last)
    }

    /// On a grid with a spacing of 1/500, the final error has four minima, and the deepest is at
    /// the stated point. No value is smaller, and the gradient vanishes there: steps of 1e-5
    /// increase the error by about h (1e-5/w)²/2 = 2e-9 in all directions.
    #[test]
    fn the_optimum_is_the_least_of_four_minima() {
        let problem = LearningCurves::new(CurveFamily::Exponential);
        let optimum = problem.optimum();
        let best = problem.final_value(&problem.minimiser()).unwrap();
        assert!((optimum - best).abs() < 1e-15);
        let n = 500_i32;
        let value = |i: i32, j: i32| final_error([f64::from(i) / 500.0, f64::from(j) / 500.0]);
        let grid: Vec<Vec<f64>> = (0..=n).map(|i| (0..=n).map(|j| value(i, j)).collect()).collect();
        let mut minima = Vec::new();
        for i in 1..500 {
            for j in 1..500 {
                let here = grid[i][j];
                assert!(here >= optimum);
                let around = (i - 1..=i + 1).flat_map(|a| (j - 1..=j + 1).map(move |b| (a, b)));
                if around.filter(|at| *at != (i, j)).all(|(a, b)| grid[a][b] > here) {
                    minima.push((here, [i as f64 / 500.0, j as f64 / 500.0]));
                }
            }
        }
        minima.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!(minima.len(), 4, "{minima:?}");
        assert!(minima[1].0 - minima[0].0 > 0.05, "{minima:?}");
        assert!((0..2).all(|axis| (minima[0].1[axis] - MINIMISER[axis]).abs() < 0.002));
        for (dx, dy) in [(1e-5, 0.0), (-1e-5, 0.0), (0.0, 1e-5), (0.0, -1e-5)] {
            let raised = final_error([MINIMISER[0] + dx, MINIMISER[1] + dy]) - optimum;
            assert!((1.5e-9..3e-9).contains(&raised), "{raised}");
        }
    }

    #[test]
    fn curves_fall_from_chance_to_their_known_ends() {
        for family in CurveFamily::ALL {
            let problem = LearningCurves::new(family);
            for at in points() {
                let point = problem.space.decode(&at);
                let curve = problem.curve(&point, 3).unwrap();
                let last = problem.final_value(&point).unwrap();
                assert_eq!(curve.len(), 50);
                assert!(curve.iter().all(|value| (0.0..=1.0).contains(value)));
                assert!((0.09..=0.55).contains(&last), "{last}");
                if family == CurveFamily::Noisy {
                    assert!((curve[49] - last).abs() < 6.0 * NOISE_STD);
                } else {
                    assert!((curve[49] - last).abs() < 1e-14);
                    assert!(curve.is_sorted_by(|a, b| a >= b), "{curve:?}");
                }
            }
        }
    }

    /// From three values at equally spaced epochs, ratios of differences give the time constant.
    /// Without a delay of learning, the exponential through the first two values starts at 0.9.
    #[test]
    fn curves_are_exponential_with_the_stated_time_constants() {
        let at = [0.3, 0.7];
        let last = final_error(at);
        for (family, first, time_constant) in [
            (CurveFamily::Exponential, 2, 3.0 + 9.0 * (0.4 * PI).sin().powi(2)),
            (CurveFamily::Crossing, 2, 3.0 + 100.0 * (0.55 - last)),
            (CurveFamily::Plateau, 6, 3.0), // x1 + x2 = 1: the plateau ends after epoch 4
        ] {
            let curve = curves(family, at, 0);
            let fall = |epoch: usize| curve[epoch - 1] - curve[epoch + 4];
            let found = 5.0 / (fall(first) / fall(first + 5)).ln();
            assert!(
                (found - time_constant).abs() < 1e-6,
                "{family:?}: {found} and {time_constant}"
            );
            let begun = curve[0] + (curve[0] - curve[1]) * (1.0 / time_constant).exp();
            assert!((begun - 0.9).abs() < 1e-12, "{family:?}: {begun}");
        }
    }

    #[test]
    fn early_ranks_tell_something_mislead_or_are_absent_as_each_family_says() {
        let early = early_correlation(CurveFamily::Exponential, 8);
        assert!((0.4..0.9).contains(&early), "{early}");
        let early = early_correlation(CurveFamily::Crossing, 8);
        assert!(early < -0.8, "{early}");
        let late = early_correlation(CurveFamily::Crossing, 30);
        assert!(late > 0.95, "{late}");
    }

    /// The best point is still on its plateau at epoch 33, while the second well has reached its
    /// final value by epoch 25.
    #[test]
    fn plateaus_end_late_where_it_matters() {
        let best = curves(CurveFamily::Plateau, MINIMISER, 0);
        assert!(best[..33].iter().all(|value| (value - 0.9).abs() < 1e-15));
        assert!(best[36] < 0.6, "{best:?}");
        let second = curves(CurveFamily::Plateau, [0.25, 0.65], 0);
        assert!(second[24] - second[49] < 0.01, "{second:?}");
        let never = curves(CurveFamily::Plateau, [0.55, 0.9], 0);
        assert!(never[..33].iter().zip(&best).all(|(a, b)| (a - b).abs() < 1e-15));
        assert!(never[49] > 0.5);
    }

    /// The noise has mean 0 and the stated standard deviation within five standard errors, and is
    /// uncorrelated between epochs, points and runs.
    #[test]
    fn noise_is_a_function_of_run_point_and_epoch() {
        let noise = |at, run| -> Vec<f64> {
            let plain = curves(CurveFamily::Exponential, at, run);
            let noisy = curves(CurveFamily::Noisy, at, run);
            noisy.iter().zip(plain).map(|(a, b)| a - b).collect()
        };
        let at = [0.5, 0.5];
        assert_eq!(curves(CurveFamily::Noisy, at, 1), curves(CurveFamily::Noisy, at, 1));
        assert_eq!(
            curves(CurveFamily::Exponential, at, 1),
            curves(CurveFamily::Exponential, at, 2)
        );
        let draws: Vec<f64> = (0..200).flat_map(|run| noise(at, run)).collect();
        let n = draws.len() as f64;
        let mean = draws.iter().sum::<f64>() / n;
        let variance = draws.iter().map(|z| z * z).sum::<f64>() / n;
        assert!(mean.abs() < 5.0 * NOISE_STD / n.sqrt(), "{mean}");
        let ratio = variance / (NOISE_STD * NOISE_STD);
        assert!((ratio - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "{ratio}");
        let other_points: Vec<f64> = (0..200).flat_map(|run| noise([0.5, 0.51], run)).collect();
        let next_epochs = [&draws[1..], &draws[..1]].concat();
        let next_runs = [&draws[50..], &draws[..50]].concat();
        for other in [other_points, next_epochs, next_runs] {
            let products = draws.iter().zip(&other).map(|(a, b)| a * b);
            let correlation = products.sum::<f64>() / n / variance;
            assert!(correlation.abs() < 5.0 / n.sqrt(), "{correlation}");
        }
    }

    #[test]
    fn points_of_other_spaces_fail() {
        let problem = LearningCurves::new(CurveFamily::Plateau);
        let nowhere = Point::new(Vec::new());
        assert!(matches!(problem.curve(&nowhere, 0), Err(Failure::BadPoint { .. })));
        assert!(problem.final_value(&nowhere).is_err());
        assert_eq!(problem.name(), "learning-curves plateau");
    }
}
