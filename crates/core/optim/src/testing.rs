//! Functions with known behaviour for this crate's tests.

use crate::{Function, Points};

/// Σ_i w_i cos(s_i·x + b_i) / ‖cos‖ over 100 features, similar to a function sample.
pub(crate) struct Cosines {
    dim: usize,
    weights: Vec<f64>,
    phases: Vec<f64>,
    /// Rows s_i.
    frequencies: Points,
}

impl Cosines {
    const N_FEATURES: usize = 100;

    /// Draws the weights, phases and frequencies from a separate Sobol sequence.
    pub(crate) fn draw(dim: usize, lengthscale: f64, seed: u32) -> Self {
        let uniform = crate::sobol(
            dim + 2,
            3 * Self::N_FEATURES,
            seed.wrapping_mul(747_796_405).wrapping_add(17),
        );
        // The sum of three uniforms has variance 1/4, so twice its deviation from 3/2 is
        // approximately standard normal.
        let normal = |feature: usize, j: usize| {
            2.0 * ((0..3).map(|k| uniform.row(feature + k * Self::N_FEATURES)[j]).sum::<f64>()
                - 1.5)
        };
        let features = 0..Self::N_FEATURES;
        Self {
            dim,
            weights: features.clone().map(|i| normal(i, 0)).collect(),
            phases: features.clone().map(|i| std::f64::consts::TAU * uniform.row(i)[1]).collect(),
            frequencies: Points::from_flat(
                dim,
                features
                    .flat_map(|i| (0..dim).map(move |j| (i, j)))
                    .map(|(i, j)| normal(i, j + 2) / lengthscale)
                    .collect(),
            ),
        }
    }
}

impl Function for Cosines {
    fn dim(&self) -> usize {
        self.dim
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let mut gradient = vec![0.0; self.dim];
        points.rows().map(|row| self.value_gradient(row, &mut gradient)).collect()
    }

    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let angle = |i: usize| {
            self.phases[i]
                + self.frequencies.row(i).iter().zip(point).map(|(s, x)| s * x).sum::<f64>()
        };
        let (mut sum, mut square) = (0.0, 0.0);
        for i in 0..Self::N_FEATURES {
            let c = angle(i).cos();
            sum += self.weights[i] * c;
            square += c * c;
        }
        gradient.fill(0.0);
        let norm = square.sqrt();
        for i in 0..Self::N_FEATURES {
            let (s, c) = angle(i).sin_cos();
            let factor = (sum / square * c - self.weights[i]) * s / norm;
            for (g, frequency) in gradient.iter_mut().zip(self.frequencies.row(i)) {
                *g += factor * frequency;
            }
        }
        sum / norm
    }
}

/// NaN for the value and the gradient if the mean coordinate exceeds `cut`, otherwise the inner
/// function.
pub(crate) struct HalfNan<F> {
    pub(crate) inner: F,
    pub(crate) cut: f64,
}

impl<F: Function> Function for HalfNan<F> {
    fn dim(&self) -> usize {
        self.inner.dim()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let mut gradient = vec![0.0; self.dim()];
        points.rows().map(|row| self.value_gradient(row, &mut gradient)).collect()
    }

    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        assert!(point.iter().all(|v| (0.0..=1.0).contains(v)), "{point:?} is outside the cube");
        if point.iter().sum::<f64>() > self.cut * point.len() as f64 {
            gradient.fill(f64::NAN);
            return f64::NAN;
        }
        self.inner.value_gradient(point, gradient)
    }
}

/// Σ_k h_k exp(−‖x − c_k‖² / 2w²).
pub(crate) struct Peaks {
    width: f64,
    peaks: Vec<(Vec<f64>, f64)>,
}

impl Peaks {
    pub(crate) fn new(width: f64, peaks: &[(&[f64], f64)]) -> Self {
        Self { width, peaks: peaks.iter().map(|(c, h)| (c.to_vec(), *h)).collect() }
    }
}

impl Function for Peaks {
    fn dim(&self) -> usize {
        self.peaks[0].0.len()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let mut gradient = vec![0.0; self.dim()];
        points.rows().map(|row| self.value_gradient(row, &mut gradient)).collect()
    }

    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        let square = self.width * self.width;
        let mut value = 0.0;
        for (centre, height) in &self.peaks {
            let distance: f64 = centre.iter().zip(point).map(|(c, x)| (x - c) * (x - c)).sum();
            let peak = height * (-0.5 * distance / square).exp();
            value += peak;
            for ((g, c), x) in gradient.iter_mut().zip(centre).zip(point) {
                *g += peak * (c - x) / square;
            }
        }
        value
    }
}

/// A function whose value is given by a closure, for methods that do not use gradients.
pub(crate) struct ValueOnly<F> {
    pub(crate) dim: usize,
    pub(crate) value: F,
}

impl<F: Fn(&[f64]) -> f64 + Sync> Function for ValueOnly<F> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        points.rows().map(&self.value).collect()
    }

    fn value_gradient(&self, _: &[f64], _: &mut [f64]) -> f64 {
        unreachable!("this function has no gradient")
    }
}
