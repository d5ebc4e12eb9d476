//! Softmax regression by mini-batch gradient descent: a linear classifier for K classes.

use fedbo_streams::{Purpose, Seed};

use crate::logistic::{LogisticError, LogisticSettings};

/// Rows of numbers with one of several classes each. Zeros, which make up half of an image, are not
/// stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClassifiedRows {
    n_features: usize,
    entries: Vec<Entry>,
    /// End of each row's entries, n.
    ends: Vec<usize>,
    classes: Vec<usize>,
}

/// A nonzero number of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The column, from 0.
    pub(crate) feature: usize,
    /// The value.
    pub(crate) value: f64,
}

impl ClassifiedRows {
    /// Creates an empty set of rows with `n_features` numbers each.
    pub(crate) fn new(n_features: usize) -> Self {
        Self { n_features, entries: Vec::new(), ends: Vec::new(), classes: Vec::new() }
    }

    /// Adds a row of class `class`, from 0.
    pub(crate) fn push(&mut self, row: &[f64], class: usize) {
        assert_eq!(row.len(), self.n_features, "features of a row");
        let entries = row.iter().enumerate().filter(|(_, value)| **value != 0.0);
        let entries = entries.map(|(feature, &value)| Entry { feature, value });
        self.entries.extend(entries);
        self.ends.push(self.entries.len());
        self.classes.push(class);
    }

    /// Returns the number n of rows.
    pub(crate) fn len(&self) -> usize {
        self.classes.len()
    }

    fn row(&self, index: usize) -> &[Entry] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.entries[start..self.ends[index]]
    }

    /// Iterates over the rows and their classes, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[Entry], usize)> {
        let rows = (0..self.len()).map(|index| self.row(index));
        rows.zip(self.classes.iter().copied())
    }
}

/// A linear classifier: the probability of class k is p_k = exp(s_k) / Σ_j exp(s_j),  s = Wᵀx + b.
///
/// Classes are contiguous in memory, so that their sums are vectorized.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SoftmaxModel<const K: usize> {
    /// W, d×K.
    weights: Vec<[f64; K]>,
    /// b, K.
    biases: [f64; K],
}

impl<const K: usize> SoftmaxModel<K> {
    /// Creates the model with equal probabilities for all classes.
    fn zero(n_features: usize) -> Self {
        Self { weights: vec![[0.0; K]; n_features], biases: [0.0; K] }
    }

    /// Returns s = Wᵀx + b. This function is not inlined, because the compiler then adds whole
    /// vectors of classes.
    #[inline(never)]
    fn scores(&self, row: &[Entry]) -> [f64; K] {
        let mut scores = self.biases;
        for &Entry { feature, value } in row {
            add_scaled(&mut scores, value, &self.weights[feature]);
        }
        scores
    }

    /// Returns the number of misclassified `rows`. The lowest class wins a tie.
    pub(crate) fn n_wrong(&self, rows: &ClassifiedRows) -> usize {
        let wrong = rows.iter().filter(|&(row, class)| {
            let scores = self.scores(row);
            let best = (1..K).fold(0, |best, k| if scores[k] > scores[best] { k } else { best });
            best != class
        });
        wrong.count()
    }

    /// Sets `slope` to the gradient of the mean loss over the rows at `indices`, without the
    /// penalty:
    ///
    /// ∂L/∂W = (1/B) Σ_i x_i (p_i − e_i)ᵀ,   ∂L/∂b = (1/B) Σ_i (p_i − e_i),   e_i the indicator of row i's class.
    fn gradient_into(&self, slope: &mut Self, rows: &ClassifiedRows, indices: &[usize]) {
        let share = 1.0 / indices.len() as f64;
        slope.weights.fill([0.0; K]);
        slope.biases = [0.0; K];
        for &index in indices {
            let row = rows.row(index);
            let mut excess = probabilities(self.scores(row));
            excess[rows.classes[index]] -= 1.0;
            for (e, bias) in excess.iter_mut().zip(&mut slope.biases) {
                *e *= share;
                *bias += *e;
            }
            for &Entry { feature, value } in row {
                add_scaled(&mut slope.weights[feature], value, &excess);
            }
        }
    }

    /// Updates W ← W − η (∂L/∂W + λ W),   b ← b − η ∂L/∂b.
    fn step(&mut self, slope: &Self, settings: &LogisticSettings) {
        let rate = settings.learning_rate;
        let keep = 1.0 - rate * settings.l2;
        for (weights, slopes) in self.weights.iter_mut().zip(&slope.weights) {
            for (weight, slope) in weights.iter_mut().zip(slopes) {
                *weight = keep * *weight - rate * slope;
            }
        }
        for (bias, slope) in self.biases.iter_mut().zip(&slope.biases) {
            *bias -= rate * slope;
        }
    }

    fn is_finite(&self) -> bool {
        let weights = self.weights.as_flattened();
        weights.iter().chain(&self.biases).all(|w| w.is_finite())
    }
}

/// Adds x times `row` to `sum`, for all classes in parallel.
#[inline]
fn add_scaled<const K: usize>(sum: &mut [f64; K], x: f64, row: &[f64; K]) {
    for (entry, value) in sum.iter_mut().zip(row) {
        *entry += x * value;
    }
}

/// Returns exp(s_k) / Σ_j exp(s_j), without overflow.
#[inline]
fn probabilities<const K: usize>(scores: [f64; K]) -> [f64; K] {
    let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exponentials = scores.map(|score| (score - highest).exp());
    let total: f64 = exponentials.iter().sum();
    exponentials.map(|e| e / total)
}

/// Trains from zero weights by gradient descent on mini-batches, and calls `after_epoch` after each
/// pass.
///
/// The loss is L + (λ/2) ‖W‖², where L is the mean of −ln p over the batch. Biases are not
/// penalised. The rows are shuffled before each epoch. Their order depends only on `seed`, the
/// epoch and the number of rows, so it is the same for all settings. Cost of an epoch: O(m K) for m
/// nonzero numbers.
///
/// # Errors
/// If the weights overflow.
///
/// # Panics
/// If the batch size is 0 or a row's class is not below K.
pub(crate) fn train_softmax<const K: usize>(
    train: &ClassifiedRows,
    settings: &LogisticSettings,
    seed: Seed,
    mut after_epoch: impl FnMut(&SoftmaxModel<K>),
) -> Result<SoftmaxModel<K>, LogisticError> {
    let mut model = SoftmaxModel::zero(train.n_features);
    let mut slope = model.clone();
    for epoch in 1..=settings.n_epochs {
        let mut order: Vec<usize> = (0..train.len()).collect();
        let mut stream = seed.stream(Purpose::PROBLEM, 0, epoch as u64);
        stream.shuffle(&mut order);
        for batch in order.chunks(settings.batch_size) {
            model.gradient_into(&mut slope, train, batch);
            model.step(&slope, settings);
        }
        if !model.is_finite() {
            return Err(LogisticError::Diverged { epoch, learning_rate: settings.learning_rate });
        }
        after_epoch(&model);
    }
    Ok(model)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logistic::train_logistic;
    use crate::svm::Labelled;

    /// Three overlapping clouds in two dimensions, one around each corner of a triangle.
    fn clouds(n: usize, index: u64) -> ClassifiedRows {
        let mut stream = Seed::new(12).stream(Purpose::TEST, index, 0);
        let mut rows = ClassifiedRows::new(2);
        for row in 0..n {
            let [x, y] = [[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]][row % 3];
            rows.push(&[x + stream.normal(), y + stream.normal()], row % 3);
        }
        rows
    }

    const SETTINGS: LogisticSettings =
        LogisticSettings { batch_size: 90, l2: 0.05, learning_rate: 0.5, n_epochs: 3000 };

    /// Returns the mean of −ln p plus the penalty, written out.
    fn loss<const K: usize>(model: &SoftmaxModel<K>, rows: &ClassifiedRows, l2: f64) -> f64 {
        let mut total = 0.0;
        for (row, class) in rows.iter() {
            let score = |k: usize| {
                let products = row.iter().map(|x| x.value * model.weights[x.feature][k]);
                products.sum::<f64>() + model.biases[k]
            };
            let all: f64 = (0..K).map(|k| score(k).exp()).sum();
            total -= (score(class).exp() / all).ln();
        }
        let norm: f64 = model.weights.as_flattened().iter().map(|w| w * w).sum();
        total / rows.len() as f64 + l2 / 2.0 * norm
    }

    fn some_model() -> SoftmaxModel<3> {
        SoftmaxModel { weights: vec![[0.7, -1.1, 0.2], [0.1, 0.9, -0.6]], biases: [0.3, -0.2, 0.4] }
    }

    /// Uses central differences with a step of 1e-5, with an error of about 1e-10. One descent step
    /// from the same model moves by the learning rate times that gradient, penalty included.
    #[test]
    fn a_step_follows_the_slope_of_the_loss() {
        let rows = clouds(40, 0);
        let all: Vec<usize> = (0..rows.len()).collect();
        let (model, mut slope) = (some_model(), SoftmaxModel::zero(2));
        model.gradient_into(&mut slope, &rows, &all);
        let mut stepped = model.clone();
        stepped.step(&slope, &SETTINGS);
        let check = |entry: fn(&mut SoftmaxModel<3>, usize) -> &mut f64, at: usize| {
            let value = |change: f64| {
                let mut near = model.clone();
                *entry(&mut near, at) += change;
                loss(&near, &rows, SETTINGS.l2)
            };
            let slope = (value(1e-5) - value(-1e-5)) / 2e-5;
            let moved = *entry(&mut stepped.clone(), at) - *entry(&mut model.clone(), at);
            assert!((moved + SETTINGS.learning_rate * slope).abs() < 1e-8);
        };
        for at in 0..6 {
            check(|model, at| &mut model.weights.as_flattened_mut()[at], at);
        }
        for at in 0..3 {
            check(|model, at| &mut model.biases[at], at);
        }
    }

    /// Full-batch descent on a strictly convex loss ends where all small moves increase the loss:
    /// each weight by ±1e-3, and 200 random moves of that size. The final biases sum to zero,
    /// because their gradients do.
    #[test]
    fn descent_ends_at_the_minimum() {
        let rows = clouds(90, 1);
        let found: SoftmaxModel<3> = train_softmax(&rows, &SETTINGS, Seed::new(0), |_| ()).unwrap();
        let lowest = loss(&found, &rows, SETTINGS.l2);
        let mut stream = Seed::new(13).stream(Purpose::TEST, 0, 0);
        for trial in 0..212 {
            let mut near = found.clone();
            let flat = near.weights.as_flattened_mut();
            if trial < 12 {
                flat[trial / 2] += if trial % 2 == 0 { 1e-3 } else { -1e-3 };
            } else {
                let moves = flat.iter_mut().chain(&mut near.biases);
                moves.for_each(|w| *w += 1e-3 * stream.normal());
            }
            assert!(loss(&near, &rows, SETTINGS.l2) > lowest, "trial {trial}");
        }
        assert!(found.biases.iter().sum::<f64>().abs() < 1e-12);
        assert!(found.n_wrong(&rows) < 45, "{}", found.n_wrong(&rows));
    }

    /// With two classes only w = w_1 − w_0 matters, and the penalty is smallest at w_1 = −w_0,
    /// where it is (λ/4) ‖w‖². The optimum is therefore that of a binary logistic regression with
    /// penalty λ/2, which is itself checked against Newton's method.
    #[test]
    fn two_classes_are_a_binary_regression() {
        let (mut two, mut binary) = (ClassifiedRows::new(2), Labelled::default());
        for (row, class) in clouds(90, 2).iter().filter(|(_, class)| *class < 2) {
            let row = [row[0].value, row[1].value];
            two.push(&row, class);
            binary.push(row.to_vec(), class == 1);
        }
        let found: SoftmaxModel<2> = train_softmax(&two, &SETTINGS, Seed::new(0), |_| ()).unwrap();
        let halved = LogisticSettings { l2: SETTINGS.l2 / 2.0, ..SETTINGS };
        let expected = train_logistic(&binary, &halved, Seed::new(0), |_| ()).unwrap();
        for (pair, w) in found.weights.iter().zip(&expected.weights) {
            assert!((pair[1] - pair[0] - w).abs() < 1e-9, "{found:?}");
        }
        let bias = found.biases[1] - found.biases[0];
        assert!((bias - expected.bias).abs() < 1e-9, "{found:?}");
        assert!(expected.weights[0].abs() > 0.3);
        let wrong = expected.error(&binary) * binary.len() as f64;
        assert!((found.n_wrong(&two) as f64 - wrong).abs() < 1e-9);
    }

    /// A score of 1000 does not overflow an exponential. A step that is too long is reported.
    #[test]
    fn large_scores_are_fine_and_overflow_is_an_error() {
        let [high, low] = probabilities([1000.0, -1000.0]);
        assert!((high - 1.0).abs() < 1e-15 && low.abs() < 1e-15);
        let rows = clouds(10, 3);
        let long = LogisticSettings { learning_rate: 1e300, n_epochs: 9, ..SETTINGS };
        let refused = train_softmax::<3>(&rows, &long, Seed::new(0), |_| ());
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("smaller learning rate"), "{message}");
    }
}
