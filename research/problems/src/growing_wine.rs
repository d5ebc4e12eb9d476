//! One wine data set that grows: a logistic regression is tuned again each time, helped by the searches on less data.
//!
//! The growing diabetes data of the thesis (section 7.6.2), with red wines in place of patients.

use fedbo_objective::{Direction, Failure, Objective, Outcome, Problem, TrialId};
use fedbo_space::{ParameterSpec, Point, Space};
use fedbo_streams::{Purpose, Seed};

use crate::logistic::{LogisticError, LogisticSettings, ValidationScore, logistic_curve};
use crate::problem::{ProblemError, coordinates};
use crate::svm::Labelled;
use crate::wine::{WineSample, column_scale, distinct_bottles};

/// Bottles to train on at each stage; each stage has those of the one before.
pub const GROWING_WINE_SIZES: [usize; 5] = [138, 276, 414, 552, 691];
/// Bottles to score on, the same at all stages.
const N_VALIDATION: usize = 300;
/// Passes over the training bottles.
const N_EPOCHS: usize = 10;
/// Trainings, each with its own order of the bottles, over which the error is averaged.
const N_ORDERS: u64 = 5;

/// The scale on which the L2 penalty and the learning rate map to `[0,1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogisticScale {
    /// Linearly, as in the thesis.
    Linear,
    /// By their logarithm.
    Logarithmic,
}

/// The score that is maximized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogisticScore {
    /// Share of right labels: what the thesis measures. Over the whole space it moves by a few bottles of 300 only.
    Accuracy,
    /// Mean logarithm of the probability given to the right label, at most 0: smooth, and it tells settings apart.
    LogLikelihood,
}

/// One stage's objective: validation score of a logistic regression over batch size (20 to 60), L2 penalty (1e-6 to 1e-2)
/// and learning rate (0.01 to 0.1), to be maximized.
///
/// The label is quality ≥ 6. Features are standardised with the training bottles' own mean and deviation. The score is the
/// mean over five trainings of ten epochs, which differ in the order of the bottles; the orders belong to the problem, so the
/// score is a function of the point. The optimum is not known.
#[derive(Clone, Debug)]
pub struct GrowingWine {
    stage: usize,
    score: LogisticScore,
    space: Space,
    train: Labelled,
    validation: Labelled,
    seed: Seed,
}

impl GrowingWine {
    /// The objective of stage number `stage`, from 0. `seed` says which bottles it has, in which order they came and how
    /// trainings shuffle them: stages with one seed are nested and share their validation bottles.
    ///
    /// # Errors
    /// If there is no such stage.
    pub fn new(
        stage: usize,
        scale: LogisticScale,
        score: LogisticScore,
        seed: Seed,
    ) -> Result<Self, ProblemError> {
        let size = GROWING_WINE_SIZES.get(stage).copied();
        let size = size.ok_or_else(|| ProblemError::Option {
            problem: "growing-wine".to_owned(),
            key: "stage",
            found: stage.to_string(),
            expected: format!("a number from 0 to {}", GROWING_WINE_SIZES.len() - 1),
        })?;
        let mut bottles = distinct_bottles();
        seed.stream(Purpose::Problem, 0, 0).shuffle(&mut bottles);
        let (validation, rest) = bottles.split_at(N_VALIDATION);
        let train = &rest[..size];
        let range = |low, high| match scale {
            LogisticScale::Linear => ParameterSpec::float(low, high),
            LogisticScale::Logarithmic => ParameterSpec::log_float(low, high),
        };
        let specs = [
            ("batch_size", ParameterSpec::int(20, 60)),
            ("l2", range(1e-6, 1e-2)),
            ("learning_rate", range(0.01, 0.1)),
        ];
        let space = Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec)))
            .unwrap_or_else(|error| unreachable!("a valid space: {error}"));
        Ok(Self {
            stage,
            score,
            space,
            train: standardised(train, train),
            validation: standardised(validation, train),
            seed,
        })
    }

    /// Mean validation scores over the trainings after each epoch.
    ///
    /// # Errors
    /// If a setting is out of range or the weights overflow.
    pub fn curve(
        &self,
        settings: &LogisticSettings,
    ) -> Result<Vec<ValidationScore>, LogisticError> {
        let orders = (0..N_ORDERS).map(|order| {
            let seed = self.seed.child(Purpose::Problem, order);
            logistic_curve(&self.train, &self.validation, settings, seed)
        });
        let curves = orders.collect::<Result<Vec<_>, _>>()?;
        let mean = |epoch: usize, part: fn(&ValidationScore) -> f64| {
            curves.iter().map(|curve| part(&curve[epoch])).sum::<f64>() / N_ORDERS as f64
        };
        Ok((0..settings.n_epochs)
            .map(|epoch| ValidationScore {
                error: mean(epoch, |score| score.error),
                log_loss: mean(epoch, |score| score.log_loss),
            })
            .collect())
    }

    /// The settings that a point of the space stands for.
    ///
    /// # Errors
    /// If the point is not in the space.
    pub fn settings(&self, point: &Point) -> Result<LogisticSettings, Failure> {
        let at = coordinates(&self.space, point)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number from 20 to 60"
        )]
        let batch_size = at[0].round() as usize;
        Ok(LogisticSettings { batch_size, l2: at[1], learning_rate: at[2], n_epochs: N_EPOCHS })
    }

    /// Bottles that it trains on, and bottles that it scores on.
    pub fn rows(&self) -> (&Labelled, &Labelled) {
        (&self.train, &self.validation)
    }

    fn value(&self, point: &Point) -> Result<f64, Failure> {
        let settings = self.settings(point)?;
        let curve =
            self.curve(&settings).map_err(|error| Failure::Model { message: error.to_string() })?;
        let last = curve[settings.n_epochs - 1];
        Ok(match self.score {
            LogisticScore::Accuracy => 1.0 - last.error,
            LogisticScore::LogLikelihood => -last.log_loss,
        })
    }
}

/// Features in units of the training bottles' deviation from their mean.
fn standardised(bottles: &[WineSample], train: &[WineSample]) -> Labelled {
    let n_features = train.first().map_or(0, |(row, _)| row.len());
    let scales: Vec<(f64, f64)> = (0..n_features).map(|c| column_scale(train, c)).collect();
    let mut labelled = Labelled::default();
    for (row, good) in bottles {
        let scaled = row.iter().zip(&scales);
        let scaled = scaled.map(|(v, (mean, std))| (v - mean) / std);
        labelled.push(scaled.collect(), *good);
    }
    labelled
}

impl Objective for GrowingWine {
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        self.value(point).map_or_else(Outcome::Failed, Outcome::Value)
    }
}

impl Problem for GrowingWine {
    fn name(&self) -> String {
        format!("growing-wine stage {} of {}", self.stage, GROWING_WINE_SIZES.len())
    }

    fn space(&self) -> &Space {
        &self.space
    }

    fn direction(&self) -> Direction {
        Direction::Maximize
    }

    fn noiseless(&self, point: &Point) -> Option<f64> {
        self.value(point).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed() -> Seed {
        Seed::new(1)
    }

    fn stage(index: usize, score: LogisticScore) -> GrowingWine {
        GrowingWine::new(index, LogisticScale::Linear, score, seed()).unwrap()
    }

    #[test]
    fn stages_are_nested_and_share_their_validation_bottles() {
        let stages: Vec<GrowingWine> = (0..5).map(|s| stage(s, LogisticScore::Accuracy)).collect();
        let (all, validation) = stages[4].rows();
        // Standardising keeps the order of a column's values, and labels.
        let order = |rows: &Labelled, n: usize| {
            let mut order: Vec<usize> = (0..n).collect();
            order.sort_by(|&a, &b| rows.rows[a][0].total_cmp(&rows.rows[b][0]));
            order
        };
        for (smaller, size) in stages.iter().zip(GROWING_WINE_SIZES) {
            let (train, own_validation) = smaller.rows();
            assert_eq!((train.len(), own_validation.len()), (size, 300));
            assert_eq!(train.positive, all.positive[..size]);
            assert_eq!(order(train, size), order(all, size));
            assert_eq!(own_validation.positive, validation.positive);
            assert_eq!(order(own_validation, 300), order(validation, 300));
            for column in 0..11 {
                let sum: f64 = train.rows.iter().map(|row| row[column]).sum();
                assert!((sum / size as f64).abs() < 1e-9);
            }
        }
        assert!(!validation.rows.iter().any(|row| all.rows.contains(row)));
        let other =
            GrowingWine::new(4, LogisticScale::Linear, LogisticScore::Accuracy, Seed::new(2));
        assert_ne!(other.unwrap().rows().1.positive, validation.positive);
    }

    /// The values are those of the five classifiers, counted here bottle by bottle.
    #[test]
    fn the_value_is_the_mean_score_of_five_trainings() {
        let accuracy = stage(2, LogisticScore::Accuracy);
        let likelihood = stage(2, LogisticScore::LogLikelihood);
        let point = accuracy.space().decode(&[0.5, 0.5, 0.5]);
        let settings = accuracy.settings(&point).unwrap();
        assert_eq!((settings.batch_size, settings.n_epochs), (40, 10));
        let (train, validation) = accuracy.rows();
        let (mut n_right, mut log_likelihood) = (0, 0.0);
        for order in 0..5 {
            let seed = seed().child(Purpose::Problem, order);
            let model = crate::train_logistic(train, &settings, seed, |_| ()).unwrap();
            for (row, positive) in validation.rows.iter().zip(&validation.positive) {
                let yes = 1.0 / (1.0 + (-model.score(row)).exp());
                let right = if *positive { yes } else { 1.0 - yes };
                n_right += u32::from(right > 0.5);
                log_likelihood += right.ln() / 1500.0;
            }
        }
        let trial = TrialId { agent: 0, trial: 7 };
        let value = |problem: &GrowingWine| match problem.evaluate(&point, trial) {
            Outcome::Value(value) => value,
            other => panic!("{other:?}"),
        };
        assert!((value(&accuracy) - f64::from(n_right) / 1500.0).abs() < 1e-12);
        assert!((value(&likelihood) - log_likelihood).abs() < 1e-12);
        assert!(value(&accuracy) > 0.6, "no better than one label for all");
        assert_eq!(accuracy.noiseless(&point), Some(value(&accuracy)));
    }

    /// The later a stage, the higher the correlation of its surface with that of the last stage.
    #[test]
    fn later_stages_are_more_like_the_last() {
        let mut stream = Seed::new(9).stream(Purpose::Test, 0, 0);
        let units: Vec<[f64; 3]> = (0..40).map(|_| [(); 3].map(|()| stream.uniform())).collect();
        let surface = |index| {
            let problem = stage(index, LogisticScore::LogLikelihood);
            let values = units.iter().map(|unit| problem.space().decode(unit));
            let values: Vec<f64> = values.filter_map(|point| problem.noiseless(&point)).collect();
            let mean = values.iter().sum::<f64>() / 40.0;
            values.iter().map(|v| v - mean).collect::<Vec<f64>>()
        };
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let last = surface(4);
        let likeness: Vec<f64> = [0, 2, 3]
            .map(surface)
            .iter()
            .map(|own| product(own, &last) / (product(own, own) * product(&last, &last)).sqrt())
            .collect();
        assert!(likeness.is_sorted() && likeness[0] < 0.95 && likeness[2] > 0.98, "{likeness:?}");
    }

    #[test]
    fn there_are_five_stages_and_points_of_other_spaces_fail() {
        let refused = GrowingWine::new(5, LogisticScale::Linear, LogisticScore::Accuracy, seed());
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("stage = 5, expected a number from 0 to 4"), "{message}");
        let first = stage(0, LogisticScore::Accuracy);
        let trial = TrialId { agent: 0, trial: 0 };
        let outcome = first.evaluate(&Point::new(Vec::new()), trial);
        assert!(matches!(outcome, Outcome::Failed(Failure::BadPoint { .. })));
        let log = GrowingWine::new(0, LogisticScale::Logarithmic, LogisticScore::Accuracy, seed());
        let middle = log.unwrap().space().decode(&[0.5; 3]);
        assert!((middle.number("l2") - 1e-4).abs() < 1e-12);
    }
}
