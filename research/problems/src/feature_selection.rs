//! Forward feature selection for boosted trees. The rounds of selection are the epochs.
//!
//! This is the joint hyperparameter tuning and feature selection of the thesis (sections 4.5.3.2
//! and A.4.4), on its e-mails, or alternatively on images, which need no data folder.

use fedbo_objective::{Direction, Failure};
use fedbo_space::{ParameterSpec, Point, Space};
use fedbo_streams::{Purpose, Seed};

use crate::boosted_trees::{BoosterSettings, Columns, boosted_error};
use crate::problem::{ProblemError, coordinates};
use crate::svm::Labelled;
use crate::training_problem::TrainingProblem;
use fedbo_problems::digits::digits;

/// Number of rounds. Each round adds one feature.
const N_EPOCHS: usize = 50;
/// Round n tries this number of features, divided by n, so that all rounds take about the same
/// time.
const N_CANDIDATES: usize = 60;
/// Like [`N_CANDIDATES`], for e-mails, whose models take longer to train.
const N_CANDIDATES_EMAILS: usize = 30;
/// Number of e-mails for validation.
const N_VALIDATION_EMAILS: usize = 1536;
/// Minimum number of features to try in a round.
const N_CANDIDATES_MIN: usize = 2;
/// Number of trees of a model.
const N_TREES: usize = 12;
/// Seed of the split, which is part of the problem's definition.
const SPLIT_SEED: u64 = 1999;

/// Validation error of boosted trees with n features, for n = 1 to 50, to be minimized.
///
/// An epoch is a round of forward selection: it adds the feature with the lowest validation error.
/// The space is the same as in the thesis: learning rate (1e-3 to 0.5, log), maximum depth of a
/// tree (2 to 15), share of the features that each tree can use (0.3 to 1) and L1 penalty of the
/// leaves (0 to 5). A run has its own candidates and its own choice of features for each tree. The
/// split is fixed. Deviations: round n tries 60/n of the remaining features (30/n for e-mails), at
/// least two, instead of all of them, and a model has twelve trees, so that a curve takes about a
/// second. Trees split between 32 quantiles of a feature. Other settings are XGBoost's defaults.
#[derive(Clone, Debug)]
pub struct FeatureSelection {
    name: &'static str,
    n_candidates: usize,
    space: Space,
    train: Columns,
    validation: Columns,
}

impl FeatureSelection {
    /// Creates the problem of telling even from odd digits: 1797 images, half of them for training.
    /// The features are those of the 64 pixels that vary.
    pub fn digits() -> Self {
        let images = digits();
        let n_train = images.len() / 2;
        let rows = images.iter().map(|image| (&image.pixels[..], image.digit % 2 == 0)).collect();
        Self::of("feature-selection", N_CANDIDATES, rows, n_train)
    }

    /// Creates the problem of telling spam from other e-mails, with the 57 features of
    /// [`read_emails`](crate::read_emails). 3065 of the 4601 e-mails are used for training, as in
    /// the thesis.
    ///
    /// # Errors
    /// If there are too few e-mails.
    pub fn emails(emails: &Labelled) -> Result<Self, ProblemError> {
        const NAME: &str = "feature-selection emails";
        let n_train = emails.len().saturating_sub(N_VALIDATION_EMAILS);
        if n_train == 0 {
            return Err(ProblemError::Option {
                problem: NAME.to_owned(),
                key: "rows",
                found: emails.len().to_string(),
                expected: format!("more than {N_VALIDATION_EMAILS}"),
            });
        }
        let rows = emails.rows.iter().map(Vec::as_slice).zip(emails.positive.iter().copied());
        Ok(Self::of(NAME, N_CANDIDATES_EMAILS, rows.collect(), n_train))
    }

    /// Creates a problem that trains on the first `n_train` of the shuffled rows.
    fn of(
        name: &'static str,
        n_candidates: usize,
        mut rows: Vec<(&[f64], bool)>,
        n_train: usize,
    ) -> Self {
        let specs = [
            ("learning_rate", ParameterSpec::log_float(1e-3, 0.5)),
            ("max_depth", ParameterSpec::int(2, 15)),
            ("feature_share", ParameterSpec::float(0.3, 1.0)),
            ("l1", ParameterSpec::float(0.0, 5.0)),
        ];
        let space = Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec)))
            .unwrap_or_else(|error| unreachable!("a valid space: {error}"));
        let mut stream = Seed::new(SPLIT_SEED).stream(Purpose::PROBLEM, 0, 0);
        stream.shuffle(&mut rows);
        let n_features = rows.first().map_or(0, |(row, _)| row.len());
        let (train, validation) = rows.split_at(n_train);
        let columns = |rows: &[(&[f64], bool)]| Columns {
            features: (0..n_features)
                .map(|feature| rows.iter().map(|(row, _)| row[feature]).collect())
                .collect(),
            labels: rows.iter().map(|(_, positive)| if *positive { 1.0 } else { 0.0 }).collect(),
        };
        Self { name, n_candidates, space, train: columns(train), validation: columns(validation) }
    }

    /// Returns the features that are not constant in the training rows. The booster rejects
    /// constant ones.
    fn features(&self) -> Vec<usize> {
        let features = 0..self.train.features.len();
        features.filter(|&feature| self.train.varies(feature)).collect()
    }

    /// Returns the settings at a point of the space.
    fn settings(&self, point: &Point) -> Result<BoosterSettings, Failure> {
        let at = coordinates(&self.space, point)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number from 2 to 15"
        )]
        let max_depth = at[1].round() as usize;
        Ok(BoosterSettings { learning_rate: at[0], max_depth, feature_share: at[2], l1: at[3] })
    }
}

impl TrainingProblem for FeatureSelection {
    fn name(&self) -> String {
        self.name.to_owned()
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

    fn curve(&self, point: &Point, run: u64) -> Result<Vec<f64>, Failure> {
        let settings = self.settings(point)?;
        let seed = Seed::new(run);
        let features = self.features();
        let selected = forward_selection(
            N_EPOCHS,
            |round, taken| candidates(self.n_candidates, &features, taken, seed, round),
            |round, features| {
                let seed = tree_seed(seed, round);
                let (train, validation) = (&self.train, &self.validation);
                boosted_error(train, validation, features, &settings, N_TREES, seed)
            },
        )?;
        Ok(selected.iter().map(|step| step.error).collect())
    }
}

/// Returns candidates among the `features` that are not yet `taken`: at most `n_first`, and fewer
/// in later rounds.
///
/// The candidates are the first features in an order that depends only on the seed and the round.
/// Settings with the same selected features therefore have the same candidates.
fn candidates(
    n_first: usize,
    features: &[usize],
    taken: &[usize],
    seed: Seed,
    round: u64,
) -> Vec<usize> {
    let mut order = features.to_vec();
    seed.stream(Purpose::PROBLEM, 0, round).shuffle(&mut order);
    order.retain(|feature| !taken.contains(feature));
    order.truncate((n_first / (taken.len() + 1)).max(N_CANDIDATES_MIN));
    order
}

/// Returns the seed for the choice of features for each tree, shared by all models of a round.
fn tree_seed(seed: Seed, round: u64) -> u64 {
    u64::from(seed.stream(Purpose::PROBLEM, 1, round).bits())
}

/// A selected feature, and the error with it and all features selected before it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Selected {
    feature: usize,
    error: f64,
}

/// Performs greedy forward selection (Hall & Smith 1999). Each round adds the candidate with the
/// lowest error (the first one if several are equal), even if the error rises. Stops after
/// `n_rounds`, or when there are no candidates.
///
/// `candidates` takes the round, from 1, and the features selected so far. `error` takes the round
/// and a set of features.
fn forward_selection<E>(
    n_rounds: usize,
    candidates: impl Fn(u64, &[usize]) -> Vec<usize>,
    error: impl Fn(u64, &[usize]) -> Result<f64, E>,
) -> Result<Vec<Selected>, E> {
    let mut steps: Vec<Selected> = Vec::new();
    let mut features = Vec::new();
    for round in (1..).take(n_rounds) {
        let mut best: Option<Selected> = None;
        for feature in candidates(round, &features) {
            features.push(feature);
            let error = error(round, &features)?;
            features.pop();
            if best.is_none_or(|best| error < best.error) {
                best = Some(Selected { feature, error });
            }
        }
        let Some(best) = best else { break };
        features.push(best.feature);
        steps.push(best);
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boosted_trees::tests::{SETTINGS, coins};

    fn majority(row: &[bool]) -> bool {
        [2, 5, 7].iter().filter(|&&at| row[at]).count() >= 2
    }

    /// The label is the majority of three of eight coins. Of all 56 sets of three features only
    /// this one makes no error, and selection finds it. If only one of the three coins is
    /// available, selection takes that coin first.
    #[test]
    fn selection_finds_the_best_of_all_sets() {
        let (train, validation) = (coins(300, 8, majority), coins(301, 8, majority));
        let error = |_: u64, features: &[usize]| {
            boosted_error(&train, &validation, features, &SETTINGS, 9, 0)
        };
        let left = |of: std::ops::Range<usize>| {
            move |_: u64, taken: &[usize]| -> Vec<usize> {
                of.clone().filter(|at| !taken.contains(at)).collect()
            }
        };
        let found = forward_selection(3, left(0..8), error).unwrap();
        let mut set: Vec<usize> = found.iter().map(|step| step.feature).collect();
        set.sort_unstable();
        let mut sets = Vec::new();
        for a in 0..8 {
            for b in a + 1..8 {
                for c in b + 1..8 {
                    sets.push((error(1, &[a, b, c]).unwrap(), [a, b, c]));
                }
            }
        }
        sets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        assert_eq!(sets.len(), 56);
        assert_eq!(sets[0], (0.0, [2, 5, 7]));
        assert!(sets[1].0 > 0.1, "{:?}", sets[1]);
        assert_eq!((set, found[2].error), (vec![2, 5, 7], 0.0));
        // A single one of the three coins is right in three of four rows. Two coins are no better
        // than one.
        assert!((found[0].error - 0.25).abs() < 0.1, "{found:?}");
        let few = forward_selection(9, left(0..5), error).unwrap();
        assert_eq!((few[0].feature, few.len()), (2, 5));
    }

    #[test]
    fn rounds_try_fewer_and_fewer_features_that_are_left() {
        let problem = FeatureSelection::digits();
        let features = problem.features();
        assert!(features.len() > N_EPOCHS && features.len() < 64);
        let taken = &features[..19];
        for (round, taken, expected) in [(1, &[][..], 60), (20, taken, 3), (50, taken, 3)] {
            let tried = candidates(N_CANDIDATES, &features, taken, Seed::new(1), round);
            assert_eq!(tried.len(), expected.min(features.len()));
            assert!(tried.iter().all(|at| features.contains(at) && !taken.contains(at)));
            assert_ne!(tried, candidates(N_CANDIDATES, &features, taken, Seed::new(2), round));
        }
        assert_eq!(candidates(N_CANDIDATES, &features, &features[..49], Seed::new(1), 50).len(), 2);
    }

    #[test]
    fn curves_are_reproducible_and_feel_each_setting() {
        let problem = FeatureSelection::digits();
        let curve = |unit: [f64; 4], run| {
            let point = problem.space().decode(&unit);
            problem.curve(&point, run).unwrap()
        };
        let middle = curve([0.5; 4], 3);
        assert_eq!(middle.len(), problem.n_epochs());
        let again = FeatureSelection::digits();
        let point = again.space().decode(&[0.5; 4]);
        assert_eq!(middle, again.curve(&point, 3).unwrap());
        assert_ne!(middle, curve([0.5; 4], 4));
        for setting in [0, 2, 3] {
            let mut unit = [0.5; 4];
            unit[setting] = 1.0;
            assert_ne!(middle, curve(unit, 3), "setting {setting}");
        }
        // Many pixels are more informative than one; deep trees are better than trees of two
        // splits.
        assert!(middle[0] > 0.15 && middle[49] < 0.1, "{middle:?}");
        assert!(curve([0.5, 0.0, 0.5, 0.5], 3)[49] > middle[49] + 0.02);
        let outside = Point::new(Vec::new());
        assert!(matches!(problem.curve(&outside, 0), Err(Failure::BadPoint { .. })));
    }

    /// Uses 3000 e-mails with three features. The second is the label, and is selected first
    /// because only its error is 0. The third is constant, and is not a candidate.
    #[test]
    fn emails_are_split_at_random_and_the_feature_that_tells_is_chosen() {
        let mut emails = Labelled::default();
        for row in 0..3000_u32 {
            let is_spam = row < 1000;
            let noise = f64::from(row * 7919 % 101);
            emails.push(vec![noise, if is_spam { 1.0 } else { 0.0 }, 5.0], is_spam);
        }
        let problem = FeatureSelection::emails(&emails).unwrap();
        assert_eq!((problem.train.n_rows(), problem.validation.n_rows()), (1464, 1536));
        for (half, n_rows) in [(&problem.train, 1464.0), (&problem.validation, 1536.0)] {
            let share = half.labels.iter().sum::<f64>() / n_rows;
            assert!((share - 1.0 / 3.0).abs() < 0.05, "{share}");
        }
        assert_eq!(problem.features(), [0, 1]);
        let point = problem.space().decode(&[1.0, 0.5, 1.0, 0.0]);
        let curve = problem.curve(&point, 1).unwrap();
        assert_eq!(curve, [0.0, 0.0]);
        emails.rows.truncate(1536);
        emails.positive.truncate(1536);
        let refused = FeatureSelection::emails(&emails).unwrap_err().to_string();
        assert!(refused.contains("rows = 1536, expected more than 1536"), "{refused}");
    }
}
