//! Binary logistic regression by mini-batch gradient descent, scored after every epoch.

use fedbo_streams::{Purpose, Seed};

use crate::svm::Labelled;

/// Training settings of a logistic regression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogisticSettings {
    /// Number of rows per step. The last batch of an epoch can have fewer rows.
    pub batch_size: usize,
    /// Coefficient λ ≥ 0 of the penalty (λ/2) ‖w‖².
    pub l2: f64,
    /// Step size, above 0.
    pub learning_rate: f64,
    /// Number of passes over the training rows.
    pub n_epochs: usize,
}

/// Reason why training or scoring failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LogisticError {
    /// There are no training rows, or no validation rows.
    #[error("there are no {half} rows")]
    NoRows {
        /// `training` or `validation`.
        half: &'static str,
    },
    /// A row has a different number of features than the first, the numbers of labels and rows
    /// differ, or a feature is not finite.
    #[error("the {half} rows do not all have {expected} finite features and one label")]
    Ragged {
        /// `training` or `validation`.
        half: &'static str,
        /// Number of features in the first training row.
        expected: usize,
    },
    /// A setting is out of range.
    #[error("{name} = {value}, expected {expected}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// The given value.
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// The steps were too long, and the weights overflowed.
    #[error(
        "the weights are not finite after epoch {epoch}: take a smaller learning rate than {learning_rate}"
    )]
    Diverged {
        /// The epoch, from 1.
        epoch: usize,
        /// The step size.
        learning_rate: f64,
    },
}

/// A linear classifier: the probability of yes is 1/(1 + exp(−(w·x + b))).
#[derive(Clone, Debug, PartialEq)]
pub struct LogisticModel {
    /// The weights w (d).
    pub weights: Vec<f64>,
    /// The bias b.
    pub bias: f64,
}

impl LogisticModel {
    /// Creates the model that predicts a probability of one half everywhere.
    pub fn zero(n_features: usize) -> Self {
        Self { weights: vec![0.0; n_features], bias: 0.0 }
    }

    /// Returns w·x + b. The prediction is yes if the score is above 0.
    pub fn score(&self, row: &[f64]) -> f64 {
        let products = row.iter().zip(&self.weights).map(|(x, w)| x * w);
        products.sum::<f64>() + self.bias
    }

    /// Returns the share of misclassified `rows`, or NaN without rows.
    pub fn error(&self, rows: &Labelled) -> f64 {
        let labelled = rows.rows.iter().zip(&rows.positive);
        let wrong = labelled.filter(|(row, positive)| (self.score(row) > 0.0) != **positive);
        wrong.count() as f64 / rows.len() as f64
    }

    /// Returns the mean of −ln p over `rows`, where p is the probability of the row's label, or NaN
    /// without rows.
    pub fn log_loss(&self, rows: &Labelled) -> f64 {
        let labelled = rows.rows.iter().zip(&rows.positive);
        let losses = labelled.map(|(row, positive)| {
            let score = self.score(row);
            let margin = if *positive { score } else { -score };
            logistic_loss(margin)
        });
        losses.sum::<f64>() / rows.len() as f64
    }

    /// Returns the gradient of the mean loss over the rows at `indices` plus the penalty:
    ///
    /// L = (1/B) Σ_i ln(1 + exp(−y_i (w·x_i + b))) + (λ/2) ‖w‖²,   y_i = ±1; the bias b is not penalised.
    fn gradient(&self, rows: &Labelled, indices: &[usize], l2: f64) -> Self {
        let share = 1.0 / indices.len() as f64;
        let mut slope = Self { weights: self.weights.iter().map(|w| l2 * w).collect(), bias: 0.0 };
        for &index in indices {
            let row = &rows.rows[index];
            let label = if rows.positive[index] { 1.0 } else { 0.0 };
            let excess = share * (1.0 / (1.0 + (-self.score(row)).exp()) - label);
            for (slope, x) in slope.weights.iter_mut().zip(row) {
                *slope += excess * x;
            }
            slope.bias += excess;
        }
        slope
    }

    fn step(&mut self, slope: &Self, learning_rate: f64) {
        for (weight, slope) in self.weights.iter_mut().zip(&slope.weights) {
            *weight -= learning_rate * slope;
        }
        self.bias -= learning_rate * slope.bias;
    }

    fn is_finite(&self) -> bool {
        self.bias.is_finite() && self.weights.iter().all(|w| w.is_finite())
    }
}

impl LogisticSettings {
    fn validate(&self) -> Result<(), LogisticError> {
        let check = |fine: bool, name, value: String, expected| {
            let wrong = LogisticError::Setting { name, value, expected };
            if fine { Ok(()) } else { Err(wrong) }
        };
        let size = self.batch_size;
        check(size > 0, "batch size", size.to_string(), "at least 1")?;
        let (l2, rate) = (self.l2, self.learning_rate);
        let fine = l2.is_finite() && l2 >= 0.0;
        check(fine, "L2", l2.to_string(), "a finite number of at least 0")?;
        let fine = rate.is_finite() && rate > 0.0;
        let expected = "a finite number above 0";
        check(fine, "learning rate", rate.to_string(), expected)?;
        let n = self.n_epochs;
        check(n > 0, "number of epochs", n.to_string(), "at least 1")
    }
}

/// Trains from zero weights by gradient descent on mini-batches, and calls `after_epoch` after each
/// pass.
///
/// The rows are shuffled before each epoch. Their order depends only on `seed`, the epoch and the
/// number of rows, so it is the same for all settings. Cost of an epoch: O(n d).
///
/// # Errors
/// If there are no rows, their lengths differ, a setting is out of range or the weights overflow.
pub fn train_logistic(
    train: &Labelled,
    settings: &LogisticSettings,
    seed: Seed,
    mut after_epoch: impl FnMut(&LogisticModel),
) -> Result<LogisticModel, LogisticError> {
    settings.validate()?;
    let n_features = n_features_of(train)?;
    check_rows("training", train, n_features)?;
    let mut model = LogisticModel::zero(n_features);
    for epoch in 1..=settings.n_epochs {
        let mut order: Vec<usize> = (0..train.len()).collect();
        let mut stream = seed.stream(Purpose::PROBLEM, 0, epoch as u64);
        stream.shuffle(&mut order);
        for batch in order.chunks(settings.batch_size) {
            let slope = model.gradient(train, batch, settings.l2);
            model.step(&slope, settings.learning_rate);
        }
        if !model.is_finite() {
            return Err(LogisticError::Diverged { epoch, learning_rate: settings.learning_rate });
        }
        after_epoch(&model);
    }
    Ok(model)
}

/// The scores of a classifier on the validation rows after an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValidationScore {
    /// Share of wrong labels.
    pub error: f64,
    /// Mean of −ln p, with p the probability of the row's label.
    pub log_loss: f64,
}

/// Returns the validation scores after each epoch of [`train_logistic`].
///
/// # Errors
/// As for [`train_logistic`], and if there are no validation rows or their number of features
/// differs.
pub fn logistic_curve(
    train: &Labelled,
    validation: &Labelled,
    settings: &LogisticSettings,
    seed: Seed,
) -> Result<Vec<ValidationScore>, LogisticError> {
    check_rows("validation", validation, n_features_of(train)?)?;
    let mut curve = Vec::new();
    train_logistic(train, settings, seed, |model| {
        curve.push(ValidationScore {
            error: model.error(validation),
            log_loss: model.log_loss(validation),
        });
    })?;
    Ok(curve)
}

fn n_features_of(train: &Labelled) -> Result<usize, LogisticError> {
    let first = train.rows.first();
    first.map(Vec::len).ok_or(LogisticError::NoRows { half: "training" })
}

fn check_rows(half: &'static str, rows: &Labelled, expected: usize) -> Result<(), LogisticError> {
    if rows.is_empty() {
        return Err(LogisticError::NoRows { half });
    }
    let regular = rows.rows.len() == rows.positive.len()
        && rows.rows.iter().all(|row| row.len() == expected && row.iter().all(|x| x.is_finite()));
    if regular { Ok(()) } else { Err(LogisticError::Ragged { half, expected }) }
}

/// Returns ln(1 + exp(−margin)), without overflow.
pub(crate) fn logistic_loss(margin: f64) -> f64 {
    (-margin).max(0.0) + (-margin.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two overlapping clouds in two dimensions.
    fn clouds(n: usize, index: u64) -> Labelled {
        let mut stream = Seed::new(11).stream(Purpose::TEST, index, 0);
        let mut rows = Labelled::default();
        for row in 0..n {
            let positive = row % 3 == 0;
            let centre = if positive { 0.8 } else { -0.4 };
            let at = vec![centre + stream.normal(), 0.5 * centre + stream.normal()];
            rows.push(at, positive);
        }
        rows
    }

    fn loss(model: &LogisticModel, rows: &Labelled, l2: f64) -> f64 {
        let norm: f64 = model.weights.iter().map(|w| w * w).sum();
        model.log_loss(rows) + l2 / 2.0 * norm
    }

    const SETTINGS: LogisticSettings =
        LogisticSettings { batch_size: 60, l2: 0.05, learning_rate: 0.5, n_epochs: 2000 };

    /// Computes two rows by hand. A score of 1000 does not overflow an exponential.
    #[test]
    fn error_and_loss_of_known_rows() {
        let model = LogisticModel { weights: vec![2.0], bias: -1.0 };
        let mut rows = Labelled::default();
        rows.push(vec![1.0], true); // score 1
        rows.push(vec![0.75], false); // score 0.5
        let by_hand = f64::midpoint((1.0 + (-1.0_f64).exp()).ln(), (1.0 + 0.5_f64.exp()).ln());
        assert!((model.log_loss(&rows) - by_hand).abs() < 1e-15);
        assert!((model.error(&rows) - 0.5).abs() < 1e-15);
        rows.push(vec![-499.5], true); // score −1000
        assert!((model.log_loss(&rows) - (2.0 * by_hand + 1000.0) / 3.0).abs() < 1e-10);
    }

    /// Uses central differences with a step of 1e-5, with an error of about 1e-10.
    #[test]
    fn the_gradient_is_the_slope_of_the_loss() {
        let rows = clouds(40, 0);
        let model = LogisticModel { weights: vec![0.7, -1.1], bias: 0.3 };
        let all: Vec<usize> = (0..rows.len()).collect();
        let slope = model.gradient(&rows, &all, 0.2);
        let difference = |change: &dyn Fn(&mut LogisticModel, f64)| {
            let at = |step| {
                let mut near = model.clone();
                change(&mut near, step);
                loss(&near, &rows, 0.2)
            };
            (at(1e-5) - at(-1e-5)) / 2e-5
        };
        for j in 0..2 {
            let slope_j = difference(&|model, step| model.weights[j] += step);
            assert!((slope.weights[j] - slope_j).abs() < 1e-8);
        }
        let slope_b = difference(&|model, step| model.bias += step);
        assert!((slope.bias - slope_b).abs() < 1e-8);
    }

    /// Trains on one feature by Newton's method on the two stationarity equations, which are solved
    /// by hand in each step.
    fn newton(rows: &Labelled, l2: f64) -> (f64, f64) {
        let (mut w, mut b) = (0.0_f64, 0.0_f64);
        let n = rows.len() as f64;
        for _ in 0..50 {
            let (mut gw, mut gb, mut hww, mut hwb, mut hbb) = (l2 * w, 0.0, l2, 0.0, 0.0);
            for (row, positive) in rows.rows.iter().zip(&rows.positive) {
                let x = row[0];
                let score: f64 = w * x + b;
                let p = 1.0 / (1.0 + (-score).exp());
                let excess = p - if *positive { 1.0 } else { 0.0 };
                let curvature = p * (1.0 - p);
                gw += excess * x / n;
                gb += excess / n;
                hww += curvature * x * x / n;
                hwb += curvature * x / n;
                hbb += curvature / n;
            }
            let det = hww * hbb - hwb * hwb;
            w -= (hbb * gw - hwb * gb) / det;
            b -= (hww * gb - hwb * gw) / det;
        }
        (w, b)
    }

    /// Full-batch descent contracts by a constant factor per step, so 2000 steps reach the optimum
    /// up to rounding. Small batches hover around the optimum: with a step size of 0.01, the noise
    /// stays below 0.2.
    #[test]
    fn descent_ends_at_newtons_optimum() {
        let mut rows = clouds(60, 1);
        for row in &mut rows.rows {
            row.truncate(1);
        }
        let (w, b) = newton(&rows, SETTINGS.l2);
        let found = train_logistic(&rows, &SETTINGS, Seed::new(0), |_| ()).unwrap();
        assert!((found.weights[0] - w).abs() < 1e-9, "{found:?}, {w}, {b}");
        assert!((found.bias - b).abs() < 1e-9, "{found:?}, {w}, {b}");
        let small = LogisticSettings { batch_size: 7, learning_rate: 0.01, ..SETTINGS };
        let near = train_logistic(&rows, &small, Seed::new(0), |_| ()).unwrap();
        assert!((near.weights[0] - w).abs() < 0.2 && (near.bias - b).abs() < 0.2);
        assert!((w, b) != newton(&rows, 0.0) && w.abs() > 0.3);
    }

    #[test]
    fn the_curve_has_one_error_an_epoch_and_is_that_of_shorter_training() {
        let (train, validation) = (clouds(90, 2), clouds(200, 3));
        let short = LogisticSettings { batch_size: 20, n_epochs: 6, ..SETTINGS };
        let curve = |settings: &LogisticSettings, seed| {
            logistic_curve(&train, &validation, settings, Seed::new(seed)).unwrap()
        };
        let six = curve(&short, 4);
        assert_eq!(six.len(), 6);
        let longer = LogisticSettings { n_epochs: 12, ..short };
        assert_eq!(curve(&longer, 4)[..6], six[..]);
        assert_ne!(curve(&longer, 5)[..6], six[..]);
        // A third of the labels are yes, so a constant no is wrong in a third of the rows.
        assert!(six[5].error < 0.3, "{six:?}");
    }

    #[test]
    fn what_cannot_be_trained_is_refused_in_words() {
        let rows = clouds(10, 4);
        let mut ragged = rows.clone();
        ragged.rows[3].push(1.0);
        let mut infinite = rows.clone();
        infinite.rows[3][0] = f64::INFINITY;
        let none = Labelled::default();
        let with = |change: fn(&mut LogisticSettings)| {
            let mut settings = SETTINGS;
            change(&mut settings);
            settings
        };
        for (train, validation, settings, expected) in [
            (&none, &rows, SETTINGS, "no training rows"),
            (&rows, &none, SETTINGS, "no validation rows"),
            (&ragged, &rows, SETTINGS, "training rows do not all have 2"),
            (&rows, &ragged, SETTINGS, "validation rows do not all have 2"),
            (&infinite, &rows, SETTINGS, "training rows do not all"),
            (&rows, &rows, with(|s| s.batch_size = 0), "batch size = 0"),
            (&rows, &rows, with(|s| s.l2 = -1.0), "L2 = -1"),
            (&rows, &rows, with(|s| s.learning_rate = f64::NAN), "learning rate = NaN"),
            (&rows, &rows, with(|s| s.n_epochs = 0), "epochs = 0"),
            (&rows, &rows, with(|s| s.learning_rate = 1e300), "take a smaller learning rate"),
        ] {
            let refused = logistic_curve(train, validation, &settings, Seed::new(0));
            let message = refused.unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
