//! Local maximization in a polytope: sequential quadratic programming.

use super::quadratic::{Nearest, add, cholesky, dot, set_multiple_of_unit, square};
use super::{Polytope, max_abs};
use crate::{LbfgsbOptions, LocalMaximum, OptimError};

/// Sufficient increase: f(x') ≥ f(x) + 10⁻⁴ ∇f(x)·(x' − x) (Nocedal & Wright 2006, Eq. 3.6a).
const INCREASE: f64 = 1e-4;
/// Length of the first step.
const FIRST_STEP: f64 = 0.05;
/// Maximum number of evaluations in a line search.
const MAX_TRIALS: usize = 20;
/// The damping keeps sᵀy at least this fraction of sᵀBs (Powell 1978).
const DAMPING: f64 = 0.2;

/// The state of one search.
pub(super) struct Ascent<'a> {
    polytope: &'a Polytope,
    nearest: Nearest,
    x: Vec<f64>,
    /// The gradient along the equations.
    gradient: Vec<f64>,
    trial: Vec<f64>,
    trial_gradient: Vec<f64>,
    step: Vec<f64>,
    /// B, n×n.
    curvature: Vec<f64>,
    /// J with J Jᵀ = B⁻¹, columns one after the other.
    factor: Vec<f64>,
    scratch: Vec<f64>,
}

impl<'a> Ascent<'a> {
    pub(super) fn new(polytope: &'a Polytope) -> Self {
        let n = polytope.dim();
        let zeros = || vec![0.0; n];
        Self {
            polytope,
            nearest: Nearest::new(&polytope.rows),
            x: zeros(),
            gradient: zeros(),
            trial: zeros(),
            trial_gradient: zeros(),
            step: zeros(),
            curvature: vec![0.0; n * n],
            factor: vec![0.0; n * n],
            scratch: vec![0.0; n * n],
        }
    }

    pub(super) fn maximize(
        mut self,
        mut function: impl FnMut(&[f64], &mut [f64]) -> f64,
        start: &[f64],
        options: &LbfgsbOptions,
    ) -> Result<LocalMaximum, OptimError> {
        let polytope = self.polytope;
        polytope.project_with(&mut self.nearest, start);
        self.x.copy_from_slice(&self.nearest.x);
        let mut value = function(&self.x, &mut self.gradient);
        let mut n_evaluations = 1;
        if !(value.is_finite() && self.gradient.iter().all(|g| g.is_finite())) {
            return Err(OptimError::NoFiniteValue { n_evaluated: 1 });
        }
        polytope.rows.along_equalities(&mut self.gradient);
        let mut is_fresh = true;
        self.reset();
        for _ in 0..options.max_iterations {
            if self.distance_to_projection() <= options.gradient_tolerance {
                break;
            }
            let slope = self.find_step();
            let is_ascent = slope > f64::EPSILON * value.abs() * 0.25;
            let found = is_ascent
                .then(|| self.search(&mut function, value, slope, &mut n_evaluations))
                .flatten();
            let Some(trial_value) = found else {
                if is_fresh {
                    break;
                }
                self.reset();
                is_fresh = true;
                continue;
            };
            self.update(is_fresh);
            is_fresh = false;
            std::mem::swap(&mut self.x, &mut self.trial);
            std::mem::swap(&mut self.gradient, &mut self.trial_gradient);
            let gain = trial_value - value;
            let scale = value.abs().max(trial_value.abs()).max(1.0);
            value = trial_value;
            if gain <= options.value_tolerance * scale {
                break;
            }
        }
        Ok(LocalMaximum { x: self.x, value, n_evaluations })
    }

    /// Returns max_j |P(x + ∇f) − x|_j.
    fn distance_to_projection(&mut self) -> f64 {
        self.trial.copy_from_slice(&self.x);
        add(&mut self.trial, 1.0, &self.gradient);
        self.polytope.project_with(&mut self.nearest, &self.trial);
        add(&mut self.nearest.x, -1.0, &self.x);
        max_abs(&self.nearest.x)
    }

    /// Sets B to the multiple of the unit matrix for which an unconstrained step has the length of
    /// a first step.
    fn reset(&mut self) {
        let scale = max_abs(&self.gradient) / FIRST_STEP;
        let scale = if scale > 0.0 { scale } else { 1.0 };
        set_multiple_of_unit(&mut self.curvature, self.x.len(), scale);
    }

    /// Writes the step that maximizes ∇f·d − ½ dᵀ B d and returns ∇f·d, or 0 if rounding prevents
    /// an accurate step.
    fn find_step(&mut self) -> f64 {
        let n = self.x.len();
        if !self.factorize() {
            return 0.0;
        }
        self.trial.copy_from_slice(&self.x);
        for column in self.factor.chunks_exact(n) {
            add(&mut self.trial, dot(column, &self.gradient), column);
        }
        if self.nearest.solve(&self.polytope.rows, &self.factor, &self.trial).is_err() {
            return 0.0;
        }
        for ((step, end), x) in self.step.iter_mut().zip(&self.nearest.x).zip(&self.x) {
            *step = end - x;
        }
        dot(&self.gradient, &self.step)
    }

    /// Computes J = L⁻ᵀ for B = L Lᵀ. The columns of J are the rows of L⁻¹.
    fn factorize(&mut self) -> bool {
        let n = self.x.len();
        self.scratch.copy_from_slice(&self.curvature);
        if !cholesky(&mut self.scratch, n) {
            return false;
        }
        self.factor.fill(0.0);
        for j in 0..n {
            let (known, rest) = self.factor.split_at_mut(j * n);
            let row = &mut rest[..n];
            for k in 0..j {
                add(&mut row[..=k], -self.scratch[j * n + k], &known[k * n..=k * n + k]);
            }
            row[j] = 1.0;
            row[..=j].iter_mut().for_each(|entry| *entry /= self.scratch[j * n + j]);
        }
        true
    }

    /// Searches for t ≤ 1 with a sufficient increase at x + t d. The point is in `trial`.
    fn search(
        &mut self,
        function: &mut impl FnMut(&[f64], &mut [f64]) -> f64,
        value: f64,
        slope: f64,
        n_evaluations: &mut usize,
    ) -> Option<f64> {
        let mut length = 1.0;
        for _ in 0..MAX_TRIALS {
            for ((trial, x), step) in self.trial.iter_mut().zip(&self.x).zip(&self.step) {
                *trial = (x + length * step).clamp(0.0, 1.0);
            }
            if self.trial == self.x {
                return None;
            }
            let trial_value = function(&self.trial, &mut self.trial_gradient);
            *n_evaluations += 1;
            let is_finite =
                trial_value.is_finite() && self.trial_gradient.iter().all(|g| g.is_finite());
            if is_finite && trial_value >= value + INCREASE * length * slope {
                self.polytope.rows.along_equalities(&mut self.trial_gradient);
                return Some(trial_value);
            }
            // The maximum of the parabola through the values and the slope.
            let parabola = 0.5 * slope * length / (slope - (trial_value - value) / length);
            length *= if is_finite && parabola.is_finite() {
                (parabola / length).clamp(0.1, 0.5)
            } else {
                0.1
            };
        }
        None
    }

    /// Updates B with s = x' − x and y = ∇f(x) − ∇f(x'). A fresh B first becomes (yᵀy / sᵀy) I
    /// (Nocedal & Wright 2006, Eq. 6.20).
    fn update(&mut self, is_fresh: bool) {
        let n = self.x.len();
        for i in 0..n {
            self.step[i] = self.trial[i] - self.x[i];
            self.gradient[i] -= self.trial_gradient[i];
        }
        let (s, y) = (&self.step, &mut self.gradient);
        let sy = dot(s, y);
        if is_fresh && sy > f64::EPSILON * square(y) {
            set_multiple_of_unit(&mut self.curvature, n, square(y) / sy);
        }
        let bs = &mut self.scratch[..n];
        for (bs, row) in bs.iter_mut().zip(self.curvature.chunks_exact(n)) {
            *bs = dot(row, s);
        }
        let sbs = dot(s, bs);
        if sbs.is_nan() || sbs <= 0.0 {
            return;
        }
        if sy < DAMPING * sbs {
            let theta = (1.0 - DAMPING) * sbs / (sbs - sy);
            for (y, bs) in y.iter_mut().zip(&*bs) {
                *y = theta * *y + (1.0 - theta) * bs;
            }
        }
        let sy = dot(s, y);
        for i in 0..n {
            for j in 0..n {
                self.curvature[i * n + j] += y[i] * y[j] / sy - bs[i] * bs[j] / sbs;
            }
        }
    }
}
