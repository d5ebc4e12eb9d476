//! Σ_i c_i g_i(x): mixtures of acquisition functions or function samples.

use fedbo_optim::{Function, Points};

/// A weighted sum of functions on the same domain. Terms with weight 0 cost nothing.
pub struct WeightedSum<'a> {
    dim: usize,
    terms: Vec<(f64, Box<dyn Function + 'a>)>,
}

impl<'a> WeightedSum<'a> {
    /// Creates the zero function in `dim` dimensions.
    pub fn new(dim: usize) -> Self {
        Self { dim, terms: Vec::new() }
    }

    /// Adds `weight` times a function.
    ///
    /// # Panics
    /// If the dimension of the function differs from the dimension of the sum.
    pub fn add(&mut self, weight: f64, function: impl Function + 'a) {
        assert_eq!(function.dim(), self.dim);
        if weight != 0.0 {
            self.terms.push((weight, Box::new(function)));
        }
    }
}

impl Function for WeightedSum<'_> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let mut sum = vec![0.0; points.len()];
        for (weight, function) in &self.terms {
            for (total, value) in sum.iter_mut().zip(function.values(points)) {
                *total += weight * value;
            }
        }
        sum
    }

    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        let mut of_term = vec![0.0; gradient.len()];
        let mut sum = 0.0;
        for (weight, function) in &self.terms {
            sum += weight * function.value_gradient(point, &mut of_term);
            for (total, slope) in gradient.iter_mut().zip(&of_term) {
                *total += weight * slope;
            }
        }
        sum
    }
}
