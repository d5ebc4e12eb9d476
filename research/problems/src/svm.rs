//! A support vector machine with a Gaussian kernel, which is trained on one half of a data set and
//! scored on the other.
//!
//! The solver is libsvm-rs's translation of libsvm. Distances between rows are cached, so a new C
//! or γ costs only the exponentials and the solver itself.

use std::sync::Once;

use libsvm_rs::qmatrix::QMatrix;
use libsvm_rs::solver::{Solver, SolverVariant};

use crate::auc::auc;

/// Rows of numbers with binary labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labelled {
    /// Features, n×d.
    pub rows: Vec<Vec<f64>>,
    /// Labels, n.
    pub positive: Vec<bool>,
}

impl Labelled {
    /// Adds a row.
    pub fn push(&mut self, row: Vec<f64>, positive: bool) {
        self.rows.push(row);
        self.positive.push(positive);
    }

    /// Returns the number of rows n.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of rows labelled yes.
    pub fn n_positive(&self) -> usize {
        self.positive.iter().filter(|label| **label).count()
    }
}

/// Reason why training or scoring failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SvmError {
    /// One half lacks one of the two labels.
    #[error(
        "the {half} rows have {n_positive} positive and {n_negative} negative labels; both are needed"
    )]
    OneClass {
        /// `training` or `validation`.
        half: &'static str,
        /// Number of rows labelled yes.
        n_positive: usize,
        /// Number of rows labelled no.
        n_negative: usize,
    },
    /// A row has a different number of features than the first, or the numbers of labels and rows
    /// differ.
    #[error("the {half} rows do not all have {expected} features and one label")]
    Ragged {
        /// `training` or `validation`.
        half: &'static str,
        /// Number of features of the first training row.
        expected: usize,
    },
    /// A feature is NaN or infinite.
    #[error("a feature of the {half} rows is not a finite number")]
    NotFinite {
        /// `training` or `validation`.
        half: &'static str,
    },
    /// A hyperparameter is out of range.
    #[error("{name} = {value}, expected a finite number above 0")]
    Hyperparameter {
        /// `C` or `gamma`.
        name: &'static str,
        /// The given value.
        value: f64,
    },
    /// A decision value is NaN.
    #[error("the decision values are not numbers")]
    NoScore,
}

/// An RBF-kernel C-SVM as a function of (C, γ): the validation AUC of its decision value.
///
/// min ½‖w‖² + C Σ ξ_i,   k(x, x') = exp(−γ ‖x − x'‖²)
///
/// The stopping tolerance is 1e-3, as in libsvm and scikit-learn. For small C, the solution can
/// vary within that tolerance. Negative rows therefore come first, as in scikit-learn, so that the
/// solver finds the same solution. Cost: O(n²) memory, at most O(n²) exponentials.
#[derive(Clone, Debug)]
pub struct SplitSvm {
    n_train: usize,
    n_train_negative: usize,
    /// Squared distances between training rows, n×n, negative rows first.
    train_distances: Vec<f64>,
    /// Squared distances from each validation row to each training row, m×n.
    cross_distances: Vec<f64>,
    validation_positive: Vec<bool>,
}

/// Tolerance of the solver's stopping rule for violations of the optimality conditions.
const TOLERANCE: f64 = 1e-3;

impl SplitSvm {
    /// Computes the distances.
    ///
    /// # Errors
    /// If a half lacks a label, rows differ in length, or a feature is not finite.
    pub fn new(train: &Labelled, validation: &Labelled) -> Result<Self, SvmError> {
        let n_features = train.rows.first().map_or(0, Vec::len);
        for (half, data) in [("training", train), ("validation", validation)] {
            if data.rows.iter().any(|row| row.len() != n_features)
                || data.positive.len() != data.len()
            {
                let expected = n_features;
                return Err(SvmError::Ragged { half, expected });
            }
            if data.rows.iter().flatten().any(|value| !value.is_finite()) {
                return Err(SvmError::NotFinite { half });
            }
            let n_positive = data.n_positive();
            let n_negative = data.len() - n_positive;
            if n_positive == 0 || n_negative == 0 {
                return Err(SvmError::OneClass { half, n_positive, n_negative });
            }
        }
        let of_class = |class: bool| {
            let labelled = train.rows.iter().zip(&train.positive);
            labelled.filter(move |(_, positive)| **positive == class).map(|(row, _)| row)
        };
        let ordered: Vec<&Vec<f64>> = of_class(false).chain(of_class(true)).collect();
        let distances = |row: &[f64]| -> Vec<f64> {
            let to = |other: &Vec<f64>| row.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum();
            ordered.iter().map(|other| to(other)).collect()
        };
        Ok(Self {
            n_train: train.len(),
            n_train_negative: train.len() - train.n_positive(),
            train_distances: ordered.iter().flat_map(|row| distances(row)).collect(),
            cross_distances: validation.rows.iter().flat_map(|row| distances(row)).collect(),
            validation_positive: validation.positive.clone(),
        })
    }

    /// Trains with penalty `c` and kernel parameter `gamma`, and returns the AUC on the validation
    /// rows, in `[0,1]`.
    ///
    /// # Errors
    /// If a hyperparameter is not a finite number above 0.
    pub fn auc(&self, c: f64, gamma: f64) -> Result<f64, SvmError> {
        let scores = self.decision_values(c, gamma)?;
        auc(&scores, &self.validation_positive).ok_or(SvmError::NoScore)
    }

    /// Returns the decision value of each validation row. The prediction is yes if the value is
    /// above 0.
    ///
    /// # Errors
    /// If a hyperparameter is not a finite number above 0.
    pub fn decision_values(&self, c: f64, gamma: f64) -> Result<Vec<f64>, SvmError> {
        for (name, value) in [("C", c), ("gamma", gamma)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(SvmError::Hyperparameter { name, value });
            }
        }
        quiet();
        // libsvm assigns +1 to the class of the first row. Here that is the negative class, hence
        // the sign at the end.
        let n = self.n_train;
        let y: Vec<i8> =
            (0..n).map(|row| if row < self.n_train_negative { 1 } else { -1 }).collect();
        let mut alpha = vec![0.0; n];
        let solution = Solver::solve(
            SolverVariant::Standard,
            n,
            Box::new(DistanceQ::new(&self.train_distances, gamma, &y)),
            &vec![-1.0; n],
            &y,
            &mut alpha,
            c,
            c,
            TOLERANCE,
            true,
        );
        let support: Vec<(usize, f64)> = alpha
            .iter()
            .zip(&y)
            .enumerate()
            .filter(|(_, (alpha, _))| **alpha > 0.0)
            .map(|(row, (alpha, y))| (row, alpha * f64::from(*y)))
            .collect();
        Ok(self
            .cross_distances
            .chunks_exact(n)
            .map(|distances| {
                let sum: f64 = support
                    .iter()
                    .map(|&(row, weight)| weight * (-gamma * distances[row]).exp())
                    .sum();
                -(sum - solution.rho) // rho is kept: its rounding decides which scores tie
            })
            .collect())
    }
}

/// Silences libsvm-rs, once per process. Otherwise libsvm-rs would report every solve on standard
/// error.
fn quiet() {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| libsvm_rs::set_quiet(true));
}

/// Q_ij = y_i y_j exp(−γ D_ij) from cached squared distances D. Rows are computed on first use.
///
/// The solver renumbers rows as it shrinks. `original` maps back to the numbering of D.
struct DistanceQ<'a> {
    distances: &'a [f64],
    gamma: f64,
    y: Vec<f64>,
    original: Vec<usize>,
    rows: Vec<Vec<f32>>,
    diagonal: Vec<f64>,
}

impl<'a> DistanceQ<'a> {
    fn new(distances: &'a [f64], gamma: f64, y: &[i8]) -> Self {
        let n = y.len();
        Self {
            distances,
            gamma,
            y: y.iter().map(|&y| f64::from(y)).collect(),
            original: (0..n).collect(),
            rows: vec![Vec::new(); n],
            diagonal: vec![1.0; n],
        }
    }
}

impl QMatrix for DistanceQ<'_> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "libsvm keeps Q in single precision; agreement with it needs the same rounding"
    )]
    fn get_q(&mut self, i: usize, len: usize) -> &[f32] {
        if self.rows[i].is_empty() {
            let n = self.y.len();
            let from_i = &self.distances[self.original[i] * n..][..n];
            let (y_i, gamma) = (self.y[i], self.gamma);
            self.rows[i] = self
                .original
                .iter()
                .zip(&self.y)
                .map(|(&j, y_j)| (y_i * y_j * (-gamma * from_i[j]).exp()) as f32)
                .collect();
        }
        &self.rows[i][..len]
    }

    fn get_qd(&self) -> &[f64] {
        &self.diagonal
    }

    fn swap_index(&mut self, i: usize, j: usize) {
        self.y.swap(i, j);
        self.original.swap(i, j);
        self.rows.swap(i, j);
        for row in self.rows.iter_mut().filter(|row| !row.is_empty()) {
            row.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use fedbo_streams::{Purpose, Seed};
    use libsvm_rs::{SvmNode, SvmParameterBuilder, SvmProblem};

    use super::*;

    /// Returns two overlapping clouds in three dimensions. The positive one has larger coordinates.
    fn clouds(n: usize, index: u64) -> Labelled {
        let mut stream = Seed::new(5).stream(Purpose::TEST, index, 0);
        let mut data = Labelled::default();
        for _ in 0..n {
            let positive = stream.bernoulli(0.4);
            let shift = if positive { 0.8 } else { 0.0 };
            data.push(stream.normals(3).iter().map(|z| z + shift).collect(), positive);
        }
        data
    }

    fn nodes(row: &[f64]) -> Vec<SvmNode> {
        (1..).zip(row).map(|(index, &value)| SvmNode { index, value }).collect()
    }

    /// libsvm-rs's own entry point gives the same decision values on the same rows in the same
    /// order.
    #[test]
    fn decision_values_are_those_of_libsvm_rs_itself() {
        let (train, validation) = (clouds(120, 0), clouds(80, 1));
        let machine = SplitSvm::new(&train, &validation).unwrap();
        let mut rows: Vec<(bool, &Vec<f64>)> =
            train.positive.iter().copied().zip(&train.rows).collect();
        rows.sort_by_key(|(positive, _)| *positive);
        let problem = SvmProblem {
            labels: rows.iter().map(|(p, _)| if *p { 1.0 } else { 0.0 }).collect(),
            instances: rows.iter().map(|(_, row)| nodes(row)).collect(),
        };
        for (c, gamma) in [(0.1, 0.05), (1.0, 0.5), (100.0, 0.2), (1000.0, 3.0)] {
            let found = machine.decision_values(c, gamma).unwrap();
            let parameter = SvmParameterBuilder::new().c(c).gamma(gamma).build().unwrap();
            let model = libsvm_rs::train::svm_train(&problem, &parameter);
            assert_eq!(model.labels(), [0, 1]);
            for (row, found) in validation.rows.iter().zip(found) {
                let mut expected = [0.0];
                libsvm_rs::predict::predict_values(&model, &nodes(row), &mut expected);
                let error = (found + expected[0]).abs();
                assert!(error < 2e-2 * c.sqrt().max(1.0), "C {c}, gamma {gamma}: {error}");
            }
        }
    }

    /// A sign error would give the complement of the AUC, about 0.2.
    #[test]
    fn a_useful_machine_scores_above_one_half_whatever_label_comes_first() {
        let (mut train, validation) = (clouds(120, 0), clouds(80, 1));
        let scored =
            |train: &Labelled| SplitSvm::new(train, &validation).unwrap().auc(1.0, 0.2).unwrap();
        let first = scored(&train);
        assert!(first > 0.7, "{first}");
        train.rows.reverse();
        train.positive.reverse();
        assert!((scored(&train) - first).abs() < 0.01);
    }

    #[test]
    fn unusable_data_and_hyperparameters_are_errors() {
        let (train, validation) = (clouds(30, 0), clouds(20, 1));
        let machine = SplitSvm::new(&train, &validation).unwrap();
        for (c, gamma) in [(0.0, 1.0), (1.0, f64::NAN), (-1.0, 1.0), (1.0, f64::INFINITY)] {
            let found = machine.auc(c, gamma);
            assert!(matches!(found, Err(SvmError::Hyperparameter { .. })), "{found:?}");
        }
        let with = |change: fn(&mut Labelled)| {
            let mut changed = validation.clone();
            change(&mut changed);
            SplitSvm::new(&train, &changed).unwrap_err()
        };
        assert!(matches!(with(|d| d.positive.fill(true)), SvmError::OneClass { .. }));
        assert!(matches!(with(|d| d.rows[3].truncate(2)), SvmError::Ragged { .. }));
        assert!(matches!(with(|d| d.rows[3][0] = f64::NAN), SvmError::NotFinite { .. }));
        let none = SplitSvm::new(&Labelled::default(), &validation);
        assert!(none.is_err());
    }
}
