//! Local maximisation in a box: projected L-BFGS for small problems.

use crate::OptimError;

/// Number of stored curvature pairs (s, y).
const MEMORY: usize = 8;
/// Sufficient increase: f(x') ≥ f(x) + 10⁻⁴ ∇f(x)·(x' − x) (Nocedal & Wright 2006, Eq. 3.6a).
const INCREASE: f64 = 1e-4;
/// A step that leaves more than this fraction of the slope is lengthened (Nocedal & Wright 2006,
/// Eq. 3.6b).
const SLOPE_LEFT: f64 = 0.9;
/// Maximum number of evaluations in a line search.
const MAX_TRIALS: usize = 20;
/// Length of the first step, as a fraction of the narrowest side of the box (1 for an unbounded
/// side).
const FIRST_STEP: f64 = 0.05;

/// Stopping criteria of a local search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LbfgsbOptions {
    /// Maximum number of accepted steps. With 0, only the start is evaluated.
    pub max_iterations: usize,
    /// The search ends when max_j |P(x + ∇f(x)) − x|_j is at most this, where P projects onto the
    /// box.
    pub gradient_tolerance: f64,
    /// The search ends when a step from f to f' gains at most this times max(|f|, |f'|, 1).
    pub value_tolerance: f64,
}

impl Default for LbfgsbOptions {
    /// 100 steps, a gradient tolerance of 10⁻⁶ and a value tolerance of 10⁻¹⁰.
    fn default() -> Self {
        Self { max_iterations: 100, gradient_tolerance: 1e-6, value_tolerance: 1e-10 }
    }
}

/// The result of a local search.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalMaximum {
    /// The point, inside the bounds (d).
    pub x: Vec<f64>,
    /// The value at the point, which is finite and the best value found.
    pub value: f64,
    /// Number of evaluations of the value and the gradient.
    pub n_evaluations: usize,
}

/// Maximises a smooth function in the box lower ≤ x ≤ upper from one start. See
/// [`Lbfgsb::maximize`].
///
/// # Errors
/// [`OptimError::NoFiniteValue`] if the value or the gradient at the start is not finite.
///
/// # Panics
/// If the lengths of `lower`, `upper` and `start` differ, or a lower bound is above its upper
/// bound.
pub fn maximize_in_box(
    function: impl FnMut(&[f64], &mut [f64]) -> f64,
    lower: &[f64],
    upper: &[f64],
    start: &[f64],
    options: &LbfgsbOptions,
) -> Result<LocalMaximum, OptimError> {
    Lbfgsb::new(start.len(), *options).maximize(function, lower, upper, start)
}

/// Projected L-BFGS with a workspace that all searches in the same dimension reuse.
///
/// A step holds a variable fixed if it is at a bound and the gradient points outwards. A variable
/// within a small distance of such a bound moves onto it. For the other variables, the step
/// computes d = H ∇f by the two-loop recursion over the last 8 pairs s = x' − x, y = ∇f(x) −
/// ∇f(x'), restricted to the free variables (Nocedal & Wright 2006, Alg. 7.4), and searches along
/// the projected path P(x + t d) (Bertsekas 1982). A pair is used if sᵀy > 0. The line search
/// accepts a sufficient increase, lengthens a step that leaves most of the slope, and shortens a
/// step that ends where the value or the gradient is not finite.
///
/// Cost: O(d) per step and pair. After `new`, only the returned point is allocated.
#[derive(Clone, Debug)]
pub struct Lbfgsb {
    options: LbfgsbOptions,
    x: Vec<f64>,
    gradient: Vec<f64>,
    trial: Vec<f64>,
    trial_gradient: Vec<f64>,
    kept: Vec<f64>,
    kept_gradient: Vec<f64>,
    direction: Vec<f64>,
    /// 1 for a variable that is free in this step, 0 for a held one.
    free: Vec<f64>,
    pairs: Pairs,
}

/// The result of a line search.
struct Step {
    value: f64,
    /// True if the point is in `kept`, false if it is in `trial`.
    in_kept: bool,
}

impl Lbfgsb {
    /// Creates a workspace for d = `dim` variables.
    pub fn new(dim: usize, options: LbfgsbOptions) -> Self {
        let zeros = || vec![0.0; dim];
        Self {
            options,
            x: zeros(),
            gradient: zeros(),
            trial: zeros(),
            trial_gradient: zeros(),
            kept: zeros(),
            kept_gradient: zeros(),
            direction: zeros(),
            free: zeros(),
            pairs: Pairs::new(dim),
        }
    }

    /// Replaces the stopping criteria for later searches.
    pub fn set_options(&mut self, options: LbfgsbOptions) {
        self.options = options;
    }

    /// Maximises a smooth function over lower ≤ x ≤ upper from `start`, which is first moved into
    /// the box.
    ///
    /// `function` returns the value and writes the gradient. `function` is only called inside the
    /// box. Bounds can be infinite. A point with a non-finite value or gradient is a rejected step,
    /// so the returned value is finite and at least the value at the start.
    ///
    /// # Errors
    /// [`OptimError::NoFiniteValue`] if the value or the gradient at the start is not finite.
    ///
    /// # Panics
    /// If a length differs from the dimension of the workspace, or a lower bound is above its upper
    /// bound.
    pub fn maximize(
        &mut self,
        function: impl FnMut(&[f64], &mut [f64]) -> f64,
        lower: &[f64],
        upper: &[f64],
        start: &[f64],
    ) -> Result<LocalMaximum, OptimError> {
        self.pairs.clear();
        self.search(function, lower, upper, start)
    }

    /// Like [`Lbfgsb::maximize`], for a function similar to the last one that this workspace
    /// maximized, but with about c_j times the curvature along coordinate j. The search starts from
    /// C^½ B C^½ with C = diag(c), where B is the curvature that the last search found, and so
    /// skips the steps that would estimate it.
    ///
    /// # Errors
    /// Same as [`Lbfgsb::maximize`].
    ///
    /// # Panics
    /// Same as [`Lbfgsb::maximize`], or if the number of factors is not d or a factor is not
    /// positive.
    pub fn maximize_similar(
        &mut self,
        function: impl FnMut(&[f64], &mut [f64]) -> f64,
        lower: &[f64],
        upper: &[f64],
        start: &[f64],
        factors: &[f64],
    ) -> Result<LocalMaximum, OptimError> {
        assert_eq!(factors.len(), self.x.len());
        assert!(factors.iter().all(|c| *c > 0.0), "{factors:?}");
        self.pairs.rescale(factors);
        self.search(function, lower, upper, start)
    }

    fn search(
        &mut self,
        mut function: impl FnMut(&[f64], &mut [f64]) -> f64,
        lower: &[f64],
        upper: &[f64],
        start: &[f64],
    ) -> Result<LocalMaximum, OptimError> {
        let dim = self.x.len();
        assert!(
            start.len() == dim && lower.len() == dim && upper.len() == dim,
            "start {}, lower {}, upper {} numbers in a search over {dim} variables",
            start.len(),
            lower.len(),
            upper.len()
        );
        assert!(
            lower.iter().zip(upper).all(|(l, u)| l <= u),
            "a lower bound lies above its upper bound"
        );
        for (i, x) in self.x.iter_mut().enumerate() {
            *x = start[i].clamp(lower[i], upper[i]);
        }
        self.gradient.fill(0.0);
        let mut value = function(&self.x, &mut self.gradient);
        let mut n_evaluations = 1;
        if !(value.is_finite() && all_finite(&self.gradient)) {
            return Err(OptimError::NoFiniteValue { n_evaluated: 1 });
        }
        let side = lower
            .iter()
            .zip(upper)
            .map(|(l, u)| u - l)
            .filter(|&w| w > 0.0)
            .fold(1.0_f64, |a, w| if w.is_finite() { a.min(w) } else { a });
        for _ in 0..self.options.max_iterations {
            let projected = self.hold_active(lower, upper, side);
            if projected <= self.options.gradient_tolerance {
                break;
            }
            let slope = self.ascent_direction();
            if slope <= f64::EPSILON * value.abs() * 0.25 {
                break;
            }
            let first = if self.pairs.is_empty() {
                FIRST_STEP * side / max_abs(&self.direction)
            } else {
                1.0
            };
            match self.line_search(
                &mut function,
                lower,
                upper,
                value,
                slope,
                first,
                &mut n_evaluations,
            ) {
                Some(step) => {
                    if step.in_kept {
                        std::mem::swap(&mut self.trial, &mut self.kept);
                        std::mem::swap(&mut self.trial_gradient, &mut self.kept_gradient);
                    }
                    self.pairs.push(&self.x, &self.gradient, &self.trial, &self.trial_gradient);
                    std::mem::swap(&mut self.x, &mut self.trial);
                    std::mem::swap(&mut self.gradient, &mut self.trial_gradient);
                    let gain = step.value - value;
                    let scale = value.abs().max(step.value.abs()).max(1.0);
                    value = step.value;
                    if gain <= self.options.value_tolerance * scale {
                        break;
                    }
                }
                None if self.pairs.is_empty() => break,
                None => self.pairs.clear(),
            }
        }
        Ok(LocalMaximum { x: self.x.clone(), value, n_evaluations })
    }

    /// Splits the variables into free and held ones, and writes the steps that move the held ones
    /// to their bounds into `direction`. Returns max_j |P(x + ∇f) − x|_j.
    fn hold_active(&mut self, lower: &[f64], upper: &[f64], side: f64) -> f64 {
        let mut norm = 0.0_f64;
        for i in 0..self.x.len() {
            let (x, g) = (self.x[i], self.gradient[i]);
            norm = norm.max(((x + g).clamp(lower[i], upper[i]) - x).abs());
        }
        let near = norm.min(1e-6 * side);
        for i in 0..self.x.len() {
            let (x, g) = (self.x[i], self.gradient[i]);
            let held = if g < 0.0 && x - lower[i] <= near {
                lower[i] - x
            } else if g > 0.0 && upper[i] - x <= near {
                upper[i] - x
            } else {
                self.free[i] = 1.0;
                continue;
            };
            self.free[i] = 0.0;
            self.direction[i] = held;
        }
        norm
    }

    /// Fills the free part of `direction`. Returns the slope ∇f·d over all variables, which is
    /// positive unless no variable can move.
    fn ascent_direction(&mut self) -> f64 {
        self.pairs.apply(&self.gradient, &self.free, &mut self.direction);
        let slope = dot(&self.gradient, &self.direction);
        let (mut free_slope, mut gg, mut dd) = (0.0, 0.0, 0.0);
        for i in 0..self.x.len() {
            free_slope += self.free[i] * self.gradient[i] * self.direction[i];
            gg += self.free[i] * self.gradient[i] * self.gradient[i];
            dd += self.free[i] * self.direction[i] * self.direction[i];
        }
        if slope.is_finite() && dd.is_finite() && free_slope >= 1e-10 * (gg * dd).sqrt() {
            return slope;
        }
        self.pairs.clear();
        for i in 0..self.x.len() {
            if self.free[i] > 0.0 {
                self.direction[i] = self.gradient[i];
            }
        }
        dot(&self.gradient, &self.direction)
    }

    /// Searches along P(x + t d) for a step with a sufficient increase. Returns `None` if no such
    /// step is found.
    #[expect(clippy::too_many_arguments, reason = "the state of one search, used in one place")]
    fn line_search(
        &mut self,
        function: &mut impl FnMut(&[f64], &mut [f64]) -> f64,
        lower: &[f64],
        upper: &[f64],
        value: f64,
        slope: f64,
        first: f64,
        n_evaluations: &mut usize,
    ) -> Option<Step> {
        let dim = self.x.len();
        let (mut low, mut low_value, mut low_slope) = (0.0, value, slope);
        let mut length = first;
        for _ in 0..MAX_TRIALS {
            let mut moved = false;
            let mut promised = 0.0;
            for i in 0..dim {
                let t = (self.x[i] + length * self.direction[i]).clamp(lower[i], upper[i]);
                let change = t - self.x[i];
                moved |= change.abs() > 0.0;
                promised += self.gradient[i] * change;
                self.trial[i] = t;
            }
            if !moved {
                break;
            }
            let trial_value = function(&self.trial, &mut self.trial_gradient);
            *n_evaluations += 1;
            let finite = trial_value.is_finite() && all_finite(&self.trial_gradient);
            if !finite || trial_value < value + INCREASE * promised || trial_value < low_value {
                if low > 0.0 {
                    break; // a shorter step is already acceptable
                }
                let share = if finite {
                    // The maximum of the parabola through the value, the slope and the trial value.
                    let bend = value + slope * length - trial_value;
                    (0.5 * slope * length / bend).clamp(0.1, 0.5)
                } else {
                    0.25
                };
                length *= share;
                continue;
            }
            let mut trial_slope = 0.0;
            for i in 0..dim {
                if self.trial[i] > lower[i] && self.trial[i] < upper[i] {
                    trial_slope += self.trial_gradient[i] * self.direction[i];
                }
            }
            if trial_slope <= SLOPE_LEFT * slope {
                return Some(Step { value: trial_value, in_kept: false });
            }
            std::mem::swap(&mut self.kept, &mut self.trial);
            std::mem::swap(&mut self.kept_gradient, &mut self.trial_gradient);
            // The point where linear extrapolation of the slope reaches zero, limited to two to ten
            // times the length.
            let secant = (length - low) * trial_slope / (low_slope - trial_slope);
            let ahead =
                if secant > 0.0 { secant.clamp(length, 9.0 * length) } else { 9.0 * length };
            (low, low_value, low_slope) = (length, trial_value, trial_slope);
            length += ahead;
        }
        (low > 0.0).then_some(Step { value: low_value, in_kept: true })
    }
}

/// A ring buffer of the latest curvature pairs, with their inner products over the free variables.
#[derive(Clone, Debug)]
struct Pairs {
    dim: usize,
    /// MEMORY rows of length d.
    s: Vec<f64>,
    y: Vec<f64>,
    /// sᵀy over the free variables, 0 for an unused pair. Filled by `apply`.
    sy: [f64; MEMORY],
    alpha: [f64; MEMORY],
    len: usize,
    next: usize,
}

impl Pairs {
    fn new(dim: usize) -> Self {
        Self {
            dim,
            s: vec![0.0; MEMORY * dim],
            y: vec![0.0; MEMORY * dim],
            sy: [0.0; MEMORY],
            alpha: [0.0; MEMORY],
            len: 0,
            next: 0,
        }
    }

    fn clear(&mut self) {
        self.len = 0;
        self.next = 0;
    }

    fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Computes (s, y) ← (C^−½ s, C^½ y) with C = diag(`factors`), which turns pairs of B into
    /// pairs of C^½ B C^½.
    fn rescale(&mut self, factors: &[f64]) {
        for (s, y) in self.s.chunks_mut(self.dim).zip(self.y.chunks_mut(self.dim)) {
            for (j, c) in factors.iter().enumerate() {
                s[j] /= c.sqrt();
                y[j] *= c.sqrt();
            }
        }
    }

    /// Adds s = x' − x, y = ∇f(x) − ∇f(x') if the function curves downwards along s.
    fn push(&mut self, x: &[f64], gradient: &[f64], new_x: &[f64], new_gradient: &[f64]) {
        let rows = self.next * self.dim..(self.next + 1) * self.dim;
        let (s, y) = (&mut self.s[rows.clone()], &mut self.y[rows]);
        let (mut sy, mut yy) = (0.0, 0.0);
        for i in 0..self.dim {
            s[i] = new_x[i] - x[i];
            y[i] = gradient[i] - new_gradient[i];
            sy += s[i] * y[i];
            yy += y[i] * y[i];
        }
        if sy > f64::EPSILON * yy {
            self.next = (self.next + 1) % MEMORY;
            self.len = (self.len + 1).min(MEMORY);
        }
    }

    /// Computes d = H g over the free variables, by the two-loop recursion. Leaves the other
    /// entries of `direction` unchanged.
    fn apply(&mut self, gradient: &[f64], free: &[f64], direction: &mut [f64]) {
        let dim = self.dim;
        for i in 0..dim {
            if free[i] > 0.0 {
                direction[i] = gradient[i];
            }
        }
        let mut scale = 0.0;
        for age in 0..self.len {
            let k = (self.next + MEMORY - 1 - age) % MEMORY;
            let (s, y) = (&self.s[k * dim..(k + 1) * dim], &self.y[k * dim..(k + 1) * dim]);
            let (mut sy, mut yy, mut sd) = (0.0, 0.0, 0.0);
            for i in 0..dim {
                sy += free[i] * s[i] * y[i];
                yy += free[i] * y[i] * y[i];
                sd += free[i] * s[i] * direction[i];
            }
            if sy <= f64::EPSILON * yy {
                self.sy[k] = 0.0;
                continue;
            }
            if scale <= 0.0 {
                scale = sy / yy;
            }
            self.sy[k] = sy;
            self.alpha[k] = sd / sy;
            for i in 0..dim {
                direction[i] -= self.alpha[k] * free[i] * y[i];
            }
        }
        if scale > 0.0 {
            for i in 0..dim {
                if free[i] > 0.0 {
                    direction[i] *= scale;
                }
            }
        }
        for age in (0..self.len).rev() {
            let k = (self.next + MEMORY - 1 - age) % MEMORY;
            if self.sy[k] <= 0.0 {
                continue;
            }
            let (s, y) = (&self.s[k * dim..(k + 1) * dim], &self.y[k * dim..(k + 1) * dim]);
            let mut yd = 0.0;
            for i in 0..dim {
                yd += free[i] * y[i] * direction[i];
            }
            let factor = self.alpha[k] - yd / self.sy[k];
            for i in 0..dim {
                direction[i] += factor * free[i] * s[i];
            }
        }
    }
}

fn all_finite(values: &[f64]) -> bool {
    values.iter().all(|v| v.is_finite())
}

fn max_abs(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |a, v| a.max(v.abs()))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Function;
    use crate::testing::{Cosines, HalfNan};
    use proptest::prelude::*;

    fn tight() -> LbfgsbOptions {
        LbfgsbOptions { max_iterations: 500, gradient_tolerance: 1e-9, value_tolerance: 0.0 }
    }

    /// −Σ 100 (x_{i+1} − x_i²)² + (1 − x_i)²
    fn rosenbrock(x: &[f64], gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        let mut value = 0.0;
        for i in 0..x.len() - 1 {
            let (a, b) = (x[i + 1] - x[i] * x[i], 1.0 - x[i]);
            value -= 100.0 * a * a + b * b;
            gradient[i] += 400.0 * a * x[i] + 2.0 * b;
            gradient[i + 1] -= 200.0 * a;
        }
        value
    }

    /// Compares the two-loop recursion with the dense update H ← (I − ρ s yᵀ) H (I − ρ y sᵀ) + ρ s
    /// sᵀ, ρ = 1/sᵀy. The update starts from (sᵀy/yᵀy) I, with the newest pair, and uses the last 8
    /// of 11 pairs, restricted to the free variables.
    #[test]
    fn the_two_loop_recursion_is_the_dense_bfgs_update() {
        const D: usize = 5;
        let numbers = crate::sobol(2 * D, 12, 5);
        let free = [1.0, 1.0, 0.0, 1.0, 1.0];
        let mut pairs = Pairs::new(D);
        let mut kept = Vec::new();
        for row in numbers.rows().take(11) {
            // y is close to s, so that sᵀy > 0 for any set of free variables.
            let s: Vec<f64> = row[..D].iter().map(|v| v - 0.5).collect();
            let y: Vec<f64> = s.iter().zip(&row[D..]).map(|(s, v)| s * (1.0 + v)).collect();
            pairs.push(&[0.0; D], &y, &s, &[0.0; D]);
            let masked = |v: &[f64]| v.iter().zip(free).map(|(v, f)| v * f).collect::<Vec<f64>>();
            kept.push((masked(&s), masked(&y)));
        }
        let (s, y) = kept.last().unwrap();
        let mut h = [[0.0; D]; D];
        for (i, row) in h.iter_mut().enumerate() {
            row[i] = dot(s, y) / dot(y, y);
        }
        for (s, y) in &kept[11 - 8..] {
            let sy = dot(s, y);
            let hy: Vec<f64> = h.iter().map(|row| dot(row, y)).collect();
            let yhy = dot(y, &hy);
            for i in 0..D {
                for j in 0..D {
                    h[i][j] +=
                        (1.0 + yhy / sy) * s[i] * s[j] / sy - (hy[i] * s[j] + s[i] * hy[j]) / sy;
                }
            }
        }
        let gradient: Vec<f64> = numbers.row(11)[..D].to_vec();
        let mut direction = vec![7.0; D];
        pairs.apply(&gradient, &free, &mut direction);
        for i in 0..D {
            let dense: f64 = (0..D).map(|j| free[j] * h[i][j] * gradient[j]).sum();
            let expected = if free[i] > 0.0 { dense } else { 7.0 };
            assert!((direction[i] - expected).abs() < 1e-11, "{direction:?}");
        }
    }

    #[test]
    fn rosenbrock_without_and_with_a_bound_in_the_way() {
        let start = [-1.2, 1.0];
        let open = [f64::NEG_INFINITY; 2];
        let found =
            maximize_in_box(rosenbrock, &open, &[f64::INFINITY; 2], &start, &tight()).unwrap();
        assert!(
            found.x.iter().all(|v| (v - 1.0).abs() < 1e-6) && found.n_evaluations < 100,
            "{found:?}"
        );
        // With x_0 ≤ 0.5, the maximum is at (0.5, 0.25) and has the value −0.25.
        let found = maximize_in_box(rosenbrock, &open, &[0.5, 2.0], &start, &tight()).unwrap();
        assert!(
            found.x[0] >= 0.5
                && (found.x[1] - 0.25).abs() < 1e-7
                && (found.value + 0.25).abs() < 1e-12,
            "{found:?}"
        );
    }

    /// A concave quadratic over a box, checked by the Karush-Kuhn-Tucker conditions: the gradient
    /// vanishes for a variable between its bounds and points outwards for a variable at a bound.
    #[test]
    fn an_ill_conditioned_quadratic_satisfies_the_kkt_conditions() {
        let dim = 12;
        let curvature = |i: usize| 10.0_f64.powf(4.0 * i as f64 / (dim - 1) as f64);
        let mut quadratic = |x: &[f64], gradient: &mut [f64]| {
            // ½ Σ λ_i z_i², where z contains the differences of neighbouring coordinates minus a
            // target. For some coordinates the target is outside the box.
            let mut value = 0.0;
            gradient.fill(0.0);
            for i in 0..dim {
                let before = if i > 0 { x[i - 1] } else { 0.0 };
                let z = x[i] - 0.7 * before - 0.4 * (i % 3) as f64 + 0.1;
                value -= 0.5 * curvature(i) * z * z;
                gradient[i] -= curvature(i) * z;
                if i > 0 {
                    gradient[i - 1] += 0.7 * curvature(i) * z;
                }
            }
            value
        };
        let found = maximize_in_box(
            &mut quadratic,
            &vec![0.0; dim],
            &vec![1.0; dim],
            &vec![0.5; dim],
            &tight(),
        )
        .unwrap();
        let mut gradient = vec![0.0; dim];
        quadratic(&found.x, &mut gradient);
        let n_bound = found.x.iter().filter(|&&x| x <= 0.0 || x >= 1.0).count();
        assert!(n_bound > 0 && n_bound < dim);
        for (x, g) in found.x.iter().zip(&gradient) {
            let violation = if *x <= 0.0 {
                g.max(0.0)
            } else if *x >= 1.0 {
                (-g).max(0.0)
            } else {
                g.abs()
            };
            assert!(violation < 1e-4, "{:?} {gradient:?}", found.x); // λ_max = 10⁴, times 10⁻⁸ (half the digits of f64)
        }
    }

    #[test]
    fn a_wall_of_nan_is_climbed_up_to_and_never_returned() {
        // Left of the wall at 1, the maximum of −(x − 2)² is at the wall.
        let walled = |x: &[f64], gradient: &mut [f64]| {
            gradient[0] = if x[0] > 1.0 { f64::NAN } else { 2.0 * (2.0 - x[0]) };
            -(x[0] - 2.0) * (x[0] - 2.0)
        };
        let found = maximize_in_box(walled, &[-5.0], &[5.0], &[-4.0], &tight()).unwrap();
        assert!(found.x[0] <= 1.0 && found.x[0] > 1.0 - 1e-3, "{found:?}");
    }

    #[test]
    fn a_start_without_finite_value_or_gradient_is_an_error() {
        let error = Err(OptimError::NoFiniteValue { n_evaluated: 1 });
        let run = |value: f64, slope: f64, start: f64| {
            let f = move |_: &[f64], gradient: &mut [f64]| {
                gradient[0] = slope;
                value
            };
            maximize_in_box(f, &[0.0], &[1.0], &[start], &LbfgsbOptions::default()).map(|m| m.x)
        };
        assert_eq!(run(f64::NAN, 1.0, 0.5), error);
        assert_eq!(run(f64::INFINITY, 1.0, 0.5), error);
        assert_eq!(run(1.0, f64::NAN, 0.5), error);
        assert_eq!(run(1.0, 0.0, 3.0), Ok(vec![1.0])); // a start outside is moved into the box
    }

    #[test]
    fn fixed_variables_stay_and_a_workspace_can_be_used_again() {
        let mut search = Lbfgsb::new(2, tight());
        let (lower, upper) = ([0.3, -2.0], [0.3, 2.0]);
        let first = search.maximize(rosenbrock, &lower, &upper, &[0.0, 1.5]).unwrap();
        assert!((first.x[0] - 0.3).abs() < 1e-15 && (first.x[1] - 0.09).abs() < 1e-8);
        assert_eq!(search.maximize(rosenbrock, &lower, &upper, &[0.0, 1.5]).unwrap(), first);
    }

    /// After a search on −½ xᵀ A x, a search with C^½ A C^½ takes fewer evaluations. Wrong factors
    /// do not keep it from reaching the maximum.
    #[test]
    fn the_curvature_of_a_similar_function_saves_steps() {
        const FACTORS: [f64; 3] = [4.0, 1.5, 0.5];
        let bowl = |factors: [f64; 3]| {
            move |x: &[f64], gradient: &mut [f64]| {
                const A: [[f64; 3]; 3] = [[20.0, 6.0, 0.0], [6.0, 5.0, -1.0], [0.0, -1.0, 1.0]];
                let mut value = 0.0;
                for i in 0..3 {
                    gradient[i] = (0..3)
                        .map(|j| -A[i][j] * (factors[i] * factors[j]).sqrt() * (x[j] - 0.3))
                        .sum();
                    value += 0.5 * gradient[i] * (x[i] - 0.3);
                }
                value
            }
        };
        let (lower, upper) = ([-5.0; 3], [5.0; 3]);
        let start = [1.0, -2.0, 3.0];
        let mut cold = Lbfgsb::new(3, tight());
        let from_nothing =
            cold.maximize(bowl(FACTORS), &lower, &upper, &start).unwrap().n_evaluations;
        for (factors, saves) in [(FACTORS, true), ([1e-3, 1e3, 1.0], false)] {
            let mut search = Lbfgsb::new(3, tight());
            search.maximize(bowl([1.0; 3]), &lower, &upper, &start).unwrap();
            let found =
                search.maximize_similar(bowl(FACTORS), &lower, &upper, &start, &factors).unwrap();
            assert!(found.x.iter().all(|x| (x - 0.3).abs() < 1e-6), "{found:?}");
            assert!(!saves || 2 * found.n_evaluations <= from_nothing, "{found:?} {from_nothing}");
        }
    }

    /// On function samples, the search ends at a maximum: no step of 10⁻³ along a coordinate gains
    /// more than the tolerance.
    #[test]
    fn the_end_on_a_function_sample_is_a_local_maximum_at_the_expected_cost() {
        let mut n_evaluations = 0;
        for seed in 0..40 {
            let sample = Cosines::draw(3, 0.2, seed);
            let f = |x: &[f64], g: &mut [f64]| sample.value_gradient(x, g);
            let start = crate::sobol(3, 1, seed);
            let found =
                maximize_in_box(f, &[0.0; 3], &[1.0; 3], start.row(0), &LbfgsbOptions::default())
                    .unwrap();
            n_evaluations += found.n_evaluations;
            for j in 0..3 {
                for step in [-1e-3, 1e-3] {
                    let mut near = found.x.clone();
                    near[j] = (near[j] + step).clamp(0.0, 1.0);
                    assert!(
                        sample.values(&crate::Points::from_flat(3, near))[0] <= found.value + 1e-8
                    );
                }
            }
        }
        assert!(n_evaluations < 40 * 25, "{n_evaluations} evaluations for 40 searches");
    }

    proptest! {
        #[test]
        fn the_end_is_in_bounds_finite_and_no_worse_than_the_start(
            dim in 1_usize..9, seed in any::<u32>(), lengthscale in 0.05..1.0_f64, cut in 0.4..1.1_f64,
            margin in 0.0..0.5_f64,
        ) {
            let function = HalfNan { inner: Cosines::draw(dim, lengthscale, seed), cut };
            let (lower, upper) = (vec![margin; dim], vec![1.0 - margin / 2.0; dim]);
            let start: Vec<f64> = crate::sobol(dim, 1, seed).row(0).iter().map(|v| v.clamp(margin, 1.0 - margin / 2.0)).collect();
            let mut gradient = vec![0.0; dim];
            let at_start = function.value_gradient(&start, &mut gradient);
            let search = |x: &[f64], g: &mut [f64]| {
                assert!(x.iter().zip(&lower).all(|(x, l)| x >= l) && x.iter().zip(&upper).all(|(x, u)| x <= u));
                function.value_gradient(x, g)
            };
            match maximize_in_box(search, &lower, &upper, &start, &LbfgsbOptions::default()) {
                Ok(found) => {
                    prop_assert!(found.value.is_finite() && found.value >= at_start);
                    let again = function.value_gradient(&found.x, &mut gradient);
                    prop_assert!((again - found.value).abs() < 1e-15);
                }
                Err(error) => {
                    prop_assert!(!at_start.is_finite());
                    prop_assert_eq!(error, OptimError::NoFiniteValue { n_evaluated: 1 });
                }
            }
        }
    }
}
