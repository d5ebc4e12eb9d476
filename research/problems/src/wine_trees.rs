//! Red wines split over at least a dozen sites. Each site tunes boosted trees on its own bottles.
//!
//! Sites are constructed as in [`WineSites::new`], with fewer bottles.
//! docs/decisions/0017-wine-trees.md shows the surfaces.

use fedbo_objective::{Direction, Failure, Objective, Outcome, Problem, TrialId};
use fedbo_space::{ParameterSpec, Point, Space};

use crate::boosted_trees::{BoosterSettings, Columns, boosted_scores};
use crate::logistic::logistic_loss;
use crate::problem::{ProblemError, coordinates};
use crate::svm::Labelled;
use crate::wine::WineSites;

/// Default number of sites.
pub const N_TREE_SILOS: usize = 12;
/// Minimum number of bottles at a site. In each split, 40 of them are for validation.
const SILO_MIN: usize = 80;

/// One site's objective: the relative reduction of the validation log loss by gradient boosted
/// trees, compared with the base rate and averaged over the site's splits, to be maximized.
#[derive(Clone, Debug)]
pub struct WineTrees {
    silo: usize,
    n_silos: usize,
    space: Space,
    splits: Vec<Split>,
}

/// A split, stored by columns.
#[derive(Clone, Debug)]
struct Split {
    train: Columns,
    validation: Columns,
    /// The columns that are not constant in the training rows. The booster rejects constant ones.
    features: Vec<usize>,
}

impl WineTrees {
    /// Splits the wines over `n_silos` sites and returns the objective of site number `silo`.
    ///
    /// # Errors
    /// If there are too few bottles for this number of sites, or there is no site with this number.
    pub fn new(n_silos: usize, silo: usize) -> Result<Self, ProblemError> {
        let sites = WineSites::with_at_least(SILO_MIN, n_silos, "wine-trees")?;
        let data = sites.silo(silo, "wine-trees")?;
        let specs = [
            ("learning_rate", ParameterSpec::log_float(1e-3, 1.0)),
            ("trees", ParameterSpec::log_int(2, 100)),
            ("max_depth", ParameterSpec::int(1, 8)),
            ("l1", ParameterSpec::log_float(1e-3, 1e1)),
        ];
        let space = Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec)))
            .unwrap_or_else(|error| unreachable!("a valid space: {error}"));
        let splits = data.splits.iter().map(|split| {
            let (train, validation) = (columns(&split.train), columns(&split.validation));
            let features = (0..train.features.len()).filter(|&f| train.varies(f)).collect();
            Split { train, validation, features }
        });
        Ok(Self { silo, n_silos, splits: splits.collect(), space })
    }

    /// Returns the settings and the number of trees at a point of the space.
    fn settings(&self, point: &Point) -> Result<(BoosterSettings, usize), Failure> {
        let at = coordinates(&self.space, point)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole numbers from 1 to 100"
        )]
        let (n_trees, max_depth) = (at[1] as usize, at[2] as usize);
        let settings =
            BoosterSettings { learning_rate: at[0], max_depth, feature_share: 1.0, l1: at[3] };
        Ok((settings, n_trees))
    }

    /// Returns the mean relative reduction of the log loss over the site's splits.
    fn saved(&self, point: &Point) -> Result<f64, Failure> {
        let (settings, n_trees) = self.settings(point)?;
        let mut total = 0.0;
        for Split { train, validation, features } in &self.splits {
            let scores = boosted_scores(train, validation, features, &settings, n_trees, 0)?;
            let share = train.labels.iter().sum::<f64>() / train.n_rows() as f64;
            let base_rate = (share / (1.0 - share)).ln();
            let base = log_loss(std::iter::repeat(base_rate), &validation.labels);
            total += 1.0 - log_loss(scores.into_iter(), &validation.labels) / base;
        }
        Ok(total / self.splits.len() as f64)
    }
}

/// Returns the mean of −ln p of the correct labels, p = 1/(1 + exp(∓score)).
fn log_loss(scores: impl Iterator<Item = f64>, labels: &[f64]) -> f64 {
    let losses = scores
        .zip(labels)
        .map(|(score, label)| logistic_loss(if *label > 0.5 { score } else { -score }));
    losses.sum::<f64>() / labels.len() as f64
}

/// Converts rows to columns.
fn columns(rows: &Labelled) -> Columns {
    let n_features = rows.rows.first().map_or(0, Vec::len);
    let column = |feature: usize| rows.rows.iter().map(|row| row[feature]).collect();
    Columns {
        features: (0..n_features).map(column).collect(),
        labels: rows.positive.iter().map(|&good| if good { 1.0 } else { 0.0 }).collect(),
    }
}

impl Objective for WineTrees {
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        self.saved(point).map_or_else(Outcome::Failed, Outcome::Value)
    }
}

impl Problem for WineTrees {
    fn name(&self) -> String {
        format!("wine-trees silo {} of {}", self.silo, self.n_silos)
    }

    fn space(&self) -> &Space {
        &self.space
    }

    fn direction(&self) -> Direction {
        Direction::Maximize
    }

    fn noiseless(&self, point: &Point) -> Option<f64> {
        self.saved(point).ok()
    }
}

#[cfg(test)]
mod tests {
    use fedbo_space::Value;

    use super::*;

    /// Returns the point with these hyperparameters and a negligible penalty.
    fn point(learning_rate: f64, trees: i64, max_depth: i64) -> Point {
        Point::new(vec![
            ("learning_rate".into(), Value::Float(learning_rate)),
            ("trees".into(), Value::Int(trees)),
            ("max_depth".into(), Value::Int(max_depth)),
            ("l1".into(), Value::Float(1e-3)),
        ])
    }

    fn saved(silo: usize, point: &Point) -> f64 {
        let problem = WineTrees::new(N_TREE_SILOS, silo).unwrap();
        match problem.evaluate(point, TrialId { agent: 0, trial: 0 }) {
            Outcome::Value(value) => value,
            other => panic!("{other:?}"),
        }
    }

    /// Computes −ln p by hand, for both labels. Scores of ±1000 do not overflow.
    #[test]
    fn the_log_loss_is_that_of_the_definition() {
        let p = |score: f64| 1.0 / (1.0 + (-score).exp());
        let found = log_loss([0.3, -2.0].into_iter(), &[1.0, 0.0]);
        assert!((found + (p(0.3).ln() + (1.0 - p(-2.0)).ln()) / 2.0).abs() < 1e-12);
        assert!((log_loss([1000.0, -1000.0].into_iter(), &[0.0, 0.0]) - 500.0).abs() < 1e-9);
    }

    /// A few trees with a low learning rate are about as good as the base rate, and moderate
    /// settings reduce its loss. Many trees with a high learning rate overfit and are worse than
    /// the base rate.
    #[test]
    fn too_little_and_too_much_training_both_cost() {
        for silo in [5, 9, 10] {
            let moderate = saved(silo, &point(0.05, 40, 3));
            assert!((0.05..1.0).contains(&moderate), "{silo}: {moderate}");
            let little = saved(silo, &point(1e-3, 2, 3));
            let much = saved(silo, &point(1.0, 100, 3));
            assert!(little < 0.05 && much < 0.0, "{silo}: {little} {much}");
        }
    }

    #[test]
    fn sites_keep_their_minimum_and_differ_and_equal_points_have_equal_values() {
        let sites = WineSites::with_at_least(SILO_MIN, 16, "wine-trees").unwrap();
        assert!(sites.silos().iter().all(|silo| silo.len() >= SILO_MIN));
        let moderate = point(0.05, 40, 3);
        assert!((saved(8, &moderate) - saved(10, &moderate)).abs() > 0.05);
        let problem = WineTrees::new(N_TREE_SILOS, 5).unwrap();
        assert_eq!(problem.noiseless(&moderate), Some(saved(5, &moderate)));
        for (n_silos, silo, expected) in
            [(17, 0, "n_silos = 17, expected a number from 1 to 16"), (12, 12, "silo = 12")]
        {
            let refused = WineTrees::new(n_silos, silo).unwrap_err().to_string();
            assert!(refused.contains(expected) && refused.contains("wine-trees"), "{refused}");
        }
    }
}
