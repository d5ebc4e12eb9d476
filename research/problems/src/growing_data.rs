//! A growing data set: a logistic regression is tuned again at each stage, with the help of the
//! searches on less data.
//!
//! This is the growing diabetes data of the thesis (section 7.6.2), or alternatively red wines,
//! which need no data folder.

use fedbo_objective::{Direction, Failure, Objective, Outcome, Problem, TrialId};
use fedbo_space::{ParameterSpec, Point, Space};
use fedbo_streams::{Purpose, Seed};

use crate::logistic::{LogisticError, LogisticSettings, ValidationScore, logistic_curve};
use crate::problem::{ProblemError, coordinates};
use crate::svm::Labelled;
use crate::wine::{WineSample, column_scale, distinct_bottles};

/// Number of training rows at each stage. Each stage includes the rows of the previous one.
pub const GROWING_SIZES: [usize; 5] = [138, 276, 414, 552, 691];
/// Number of validation bottles, the same at all stages.
const N_VALIDATION_BOTTLES: usize = 300;
/// Number of validation patients: those of the 768 that remain after the last stage.
const N_VALIDATION_PATIENTS: usize = 77;
/// Number of passes over the training rows.
const N_EPOCHS: usize = 10;
/// Number of training runs over which the error is averaged, each with its own order of the rows.
const N_ORDERS: u64 = 5;

/// Scale of the L2 penalty and the learning rate, mapped to `[0,1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogisticScale {
    /// Linear, as in the thesis.
    Linear,
    /// Logarithmic.
    Logarithmic,
}

/// The score to be maximized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogisticScore {
    /// Share of correct labels, as in the thesis. Over the whole space, it varies by only a few
    /// rows.
    Accuracy,
    /// Mean log-probability of the correct label, at most 0. It is smooth and distinguishes
    /// settings.
    LogLikelihood,
}

/// Objective of one stage: validation score of a logistic regression over batch size (20 to 60), L2
/// penalty (1e-6 to 1e-2) and learning rate (0.01 to 0.1), to be maximized.
///
/// Features are standardised with the mean and standard deviation of the training rows. The score
/// is the mean over five training runs of ten epochs, which differ in the order of the rows. These
/// orders are part of the problem, so the score depends only on the point. The optimum is unknown.
#[derive(Clone, Debug)]
pub struct GrowingData {
    name: &'static str,
    stage: usize,
    score: LogisticScore,
    space: Space,
    train: Labelled,
    validation: Labelled,
    seed: Seed,
}

impl GrowingData {
    /// Creates the objective on red wines at stage `stage`, from 0. The label is a quality of 6 or
    /// more, and 300 bottles are held out for validation. `seed` determines the bottles of the
    /// stage, their order, and the shuffling during training. Stages with equal seeds are nested
    /// and share their validation bottles.
    ///
    /// # Errors
    /// If there is no stage with this number.
    pub fn wines(
        stage: usize,
        scale: LogisticScale,
        score: LogisticScore,
        seed: Seed,
    ) -> Result<Self, ProblemError> {
        let bottles = distinct_bottles();
        Self::of("growing-wine", bottles, N_VALIDATION_BOTTLES, stage, scale, score, seed)
    }

    /// Creates the objective on the patients of [`read_patients`](crate::read_patients) at stage
    /// `stage`, from 0, with diabetes as the label. 77 patients are held out for validation, and
    /// the last stage trains on all others.
    ///
    /// # Errors
    /// If there is no stage with this number, or there are too few patients.
    pub fn patients(
        patients: &Labelled,
        stage: usize,
        scale: LogisticScale,
        score: LogisticScore,
        seed: Seed,
    ) -> Result<Self, ProblemError> {
        let rows = patients.rows.iter().cloned().zip(patients.positive.iter().copied()).collect();
        Self::of("growing-pima", rows, N_VALIDATION_PATIENTS, stage, scale, score, seed)
    }

    fn of(
        name: &'static str,
        mut rows: Vec<WineSample>,
        n_validation: usize,
        stage: usize,
        scale: LogisticScale,
        score: LogisticScore,
        seed: Seed,
    ) -> Result<Self, ProblemError> {
        let refused = |key, found: usize, expected| ProblemError::Option {
            problem: name.to_owned(),
            key,
            found: found.to_string(),
            expected,
        };
        let size = GROWING_SIZES.get(stage).copied();
        let size = size.ok_or_else(|| {
            refused("stage", stage, format!("a number from 0 to {}", GROWING_SIZES.len() - 1))
        })?;
        if rows.len() < n_validation + size {
            let expected = format!("{} or more", n_validation + size);
            return Err(refused("rows", rows.len(), expected));
        }
        seed.stream(Purpose::PROBLEM, 0, 0).shuffle(&mut rows);
        let (validation, rest) = rows.split_at(n_validation);
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
            name,
            stage,
            score,
            space,
            train: standardised(train, train),
            validation: standardised(validation, train),
            seed,
        })
    }

    /// Returns the validation scores after each epoch, averaged over the training runs.
    ///
    /// # Errors
    /// If a setting is out of range or the weights overflow.
    pub fn curve(
        &self,
        settings: &LogisticSettings,
    ) -> Result<Vec<ValidationScore>, LogisticError> {
        let orders = (0..N_ORDERS).map(|order| {
            let seed = self.seed.child(Purpose::PROBLEM, order);
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

    /// Returns the settings at a point of the space.
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

    /// Returns the training rows and the validation rows.
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

/// Standardizes features with the mean and standard deviation of the training rows.
fn standardised(rows: &[WineSample], train: &[WineSample]) -> Labelled {
    let n_features = train.first().map_or(0, |(row, _)| row.len());
    let scales: Vec<(f64, f64)> = (0..n_features).map(|c| column_scale(train, c)).collect();
    let mut labelled = Labelled::default();
    for (row, positive) in rows {
        let scaled = row.iter().zip(&scales);
        let scaled = scaled.map(|(v, (mean, std))| (v - mean) / std);
        labelled.push(scaled.collect(), *positive);
    }
    labelled
}

impl Objective for GrowingData {
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        self.value(point).map_or_else(Outcome::Failed, Outcome::Value)
    }
}

impl Problem for GrowingData {
    fn name(&self) -> String {
        format!("{} stage {} of {}", self.name, self.stage, GROWING_SIZES.len())
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

    fn stage(index: usize, score: LogisticScore) -> GrowingData {
        GrowingData::wines(index, LogisticScale::Linear, score, seed()).unwrap()
    }

    #[test]
    fn stages_are_nested_and_share_their_validation_bottles() {
        let stages: Vec<GrowingData> = (0..5).map(|s| stage(s, LogisticScore::Accuracy)).collect();
        let (all, validation) = stages[4].rows();
        // Standardising keeps the labels and the order of a column's values.
        let order = |rows: &Labelled, n: usize| {
            let mut order: Vec<usize> = (0..n).collect();
            order.sort_by(|&a, &b| rows.rows[a][0].total_cmp(&rows.rows[b][0]));
            order
        };
        for (smaller, size) in stages.iter().zip(GROWING_SIZES) {
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
            GrowingData::wines(4, LogisticScale::Linear, LogisticScore::Accuracy, Seed::new(2));
        assert_ne!(other.unwrap().rows().1.positive, validation.positive);
    }

    /// The values equal the scores of the five classifiers, which this test counts bottle by
    /// bottle.
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
            let seed = seed().child(Purpose::PROBLEM, order);
            let model = crate::train_logistic(train, &settings, seed, |_| ()).unwrap();
            for (row, positive) in validation.rows.iter().zip(&validation.positive) {
                let yes = 1.0 / (1.0 + (-model.score(row)).exp());
                let right = if *positive { yes } else { 1.0 - yes };
                n_right += u32::from(right > 0.5);
                log_likelihood += right.ln() / 1500.0;
            }
        }
        let trial = TrialId { agent: 0, trial: 7 };
        let value = |problem: &GrowingData| match problem.evaluate(&point, trial) {
            Outcome::Value(value) => value,
            other => panic!("{other:?}"),
        };
        assert!((value(&accuracy) - f64::from(n_right) / 1500.0).abs() < 1e-12);
        assert!((value(&likelihood) - log_likelihood).abs() < 1e-12);
        assert!(value(&accuracy) > 0.6, "no better than one label for all");
        assert_eq!(accuracy.noiseless(&point), Some(value(&accuracy)));
    }

    /// The later the stage, the higher the correlation of its surface with that of the last stage.
    #[test]
    fn later_stages_are_more_like_the_last() {
        let mut stream = Seed::new(9).stream(Purpose::TEST, 0, 0);
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
        let refused = GrowingData::wines(5, LogisticScale::Linear, LogisticScore::Accuracy, seed());
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("stage = 5, expected a number from 0 to 4"), "{message}");
        let first = stage(0, LogisticScore::Accuracy);
        let trial = TrialId { agent: 0, trial: 0 };
        let outcome = first.evaluate(&Point::new(Vec::new()), trial);
        assert!(matches!(outcome, Outcome::Failed(Failure::BadPoint { .. })));
        let log =
            GrowingData::wines(0, LogisticScale::Logarithmic, LogisticScore::Accuracy, seed());
        let middle = log.unwrap().space().decode(&[0.5; 3]);
        assert!((middle.number("l2") - 1e-4).abs() < 1e-12);
    }

    /// Uses 768 rows that are labelled by the sign of their first feature. The last stage trains on
    /// all rows except the 77 for validation, and separates the classes.
    #[test]
    fn patients_are_divided_without_a_rest() {
        let mut stream = Seed::new(4).stream(Purpose::TEST, 0, 0);
        let mut patients = Labelled::default();
        for _ in 0..768 {
            let row = [(); 3].map(|()| stream.uniform() - 0.5);
            patients.push(row.to_vec(), row[0] > 0.0);
        }
        let stage = |stage| {
            let (scale, score) = (LogisticScale::Linear, LogisticScore::Accuracy);
            GrowingData::patients(&patients, stage, scale, score, seed())
        };
        let last = stage(4).unwrap();
        assert_eq!(last.name(), "growing-pima stage 4 of 5");
        let (train, validation) = last.rows();
        assert_eq!((train.len(), validation.len()), (691, 77));
        assert_eq!(train.n_positive() + validation.n_positive(), patients.n_positive());
        assert_eq!(stage(0).unwrap().rows().0.len(), 138);
        let best = last.noiseless(&last.space().decode(&[0.0, 0.0, 1.0])).unwrap();
        assert!(best > 0.9, "{best}");
        patients.rows.pop();
        patients.positive.pop();
        let (scale, score) = (LogisticScale::Linear, LogisticScore::Accuracy);
        let refused = GrowingData::patients(&patients, 4, scale, score, seed()).unwrap_err();
        assert!(refused.to_string().contains("rows = 767, expected 768 or more"), "{refused}");
    }
}
