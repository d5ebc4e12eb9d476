//! Polytopes in the unit cube: linear constraints on its points.

mod ascent;
mod build;
mod quadratic;
mod sample;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use crate::{LbfgsbOptions, LocalMaximum, OptimError, Points};
use quadratic::{Nearest, Rows, into_cube};
use sample::Walk;

/// Maximum violation of the rows by a returned point.
const FEASIBLE: f64 = 1e-12;
/// A coordinate of a projected point beyond this is moved to it.
const FAR: f64 = 1e6;
/// Number of rounds of Dykstra's method, which replaces an inaccurate projection.
const DYKSTRA_ROUNDS: usize = 500;

/// No point of the unit cube satisfies all rows.
///
/// The lists contain the rows that contradict each other, as indices of the arguments of
/// [`Polytope::new`]. If both have one row or none, this row contradicts the bounds of the cube.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no point of the unit cube satisfies these rows together: {at_most:?} of those with an upper limit, {equal:?} of the equations"
)]
pub struct Infeasible {
    /// Rows of `at_most`, in increasing order.
    pub at_most: Vec<usize>,
    /// Rows of `equal`, in increasing order.
    pub equal: Vec<usize>,
}

/// The points z of the cube `[0,1]^n` with a·z ≤ b for some rows (a, b) and e·z = f for other rows
/// (e, f), such as mixtures, whose shares sum to one.
///
/// Made for 2 to 50 variables and some dozens of rows; all matrices are dense. Points that the
/// methods return are in the cube and satisfy every row, divided by the norm of its coefficients,
/// to 10⁻¹². The polytope can have any dimension, down to a single point: inequalities that hold
/// with equality in all points are treated as equations.
///
/// ```
/// use fedbo_optim::Polytope;
///
/// let mixture = Polytope::new(3, vec![], vec![(vec![1.0; 3], 1.0)])?;
/// assert_eq!(mixture.project(&[2.0, 0.0, -1.0]), [1.0, 0.0, 0.0]);
/// assert!(mixture.sample(10, 7).rows().all(|shares| mixture.contains(shares, 1e-12)));
/// # Ok::<(), fedbo_optim::Infeasible>(())
/// ```
#[derive(Clone, Debug)]
pub struct Polytope {
    rows: Rows,
    /// A point with a distance to every row that is not an equation.
    first: Vec<f64>,
    interior: OnceLock<(Walk, Vec<f64>)>,
}

impl Polytope {
    /// Creates the polytope of the rows a·z ≤ b in `at_most` and e·z = f in `equal` in `[0,1]^n`.
    ///
    /// Rows can be parallel, repeated or redundant. An infinite b is no limit. Rows that contradict
    /// each other by at most 10⁻¹⁰ do so by rounding: their right sides then move by about as much. An
    /// inequality whose slack is at most 10⁻⁹ in all points becomes an equation.
    ///
    /// Cost: a few projections. The first call of [`Self::sample`], [`Self::anchor`] or
    /// [`Self::n_free`] adds random walks of some 16 n² + 128 n steps in O(n + m) for m rows: below a
    /// millisecond for 20 variables, some milliseconds for 50.
    ///
    /// # Errors
    /// [`Infeasible`] with the rows that contradict each other. A row with a number that is not
    /// finite contradicts itself. The error names all rows if rounding makes the answer uncertain.
    ///
    /// # Panics
    /// If n is 0, or the length of a row is not n.
    pub fn new(
        n: usize,
        at_most: Vec<(Vec<f64>, f64)>,
        equal: Vec<(Vec<f64>, f64)>,
    ) -> Result<Self, Infeasible> {
        build::build(n, &at_most, &equal)
    }

    /// Returns the number of variables n.
    pub fn dim(&self) -> usize {
        self.rows.dim
    }

    /// Returns the dimension of the polytope: n without the independent equations. It is 0 if the
    /// polytope is a single point.
    pub fn n_free(&self) -> usize {
        self.interior().0.n_free()
    }

    /// Returns a point inside, approximately the centre of gravity.
    pub fn anchor(&self) -> &[f64] {
        &self.interior().1
    }

    /// Returns the walk and its anchor, which are found at the first use: a projection needs neither.
    fn interior(&self) -> &(Walk, Vec<f64>) {
        self.interior.get_or_init(|| {
            let mut anchor = self.first.clone();
            let walk = Walk::new(&self.rows, &mut anchor);
            into_cube(&mut anchor);
            (walk, anchor)
        })
    }

    /// Returns true if `z` violates no bound and no row, divided by its norm, by more than
    /// `tolerance`. A point with a NaN is outside.
    ///
    /// # Panics
    /// If the length of `z` is not n.
    pub fn contains(&self, z: &[f64], tolerance: f64) -> bool {
        assert_eq!(z.len(), self.dim(), "a point of another dimension than the polytope");
        z.iter().all(|z| z.is_finite()) && self.rows.violation(z) <= tolerance
    }

    /// Returns the nearest point of the polytope, argmin ‖x − z‖², by the dual active-set method of
    /// Goldfarb & Idnani (1983): about a microsecond for 6 variables, a tenth of a millisecond for 50.
    ///
    /// A coordinate beyond ±10⁶ is first moved to ±10⁶, and a NaN to the coordinate of a point inside. If
    /// rounding prevents an accurate result, 500 rounds of Dykstra's alternating projections
    /// (Boyle & Dykstra 1986) give an approximate one, and the result is the last point of the
    /// polytope on the segment from that point to it.
    ///
    /// # Panics
    /// If the length of `z` is not n.
    pub fn project(&self, z: &[f64]) -> Vec<f64> {
        let mut nearest = Nearest::new(&self.rows);
        self.project_with(&mut nearest, z);
        nearest.x
    }

    /// Like [`Self::project`], in a workspace. The result is in `nearest.x`.
    fn project_with(&self, nearest: &mut Nearest, z: &[f64]) {
        assert_eq!(z.len(), self.dim(), "a point of another dimension than the polytope");
        if self.n_free() == 0 {
            nearest.x.copy_from_slice(&self.first);
            return;
        }
        let bounded = |(z, anchor): (&f64, &f64)| {
            if z.is_nan() { *anchor } else { z.clamp(-FAR, FAR) }
        };
        let target: Vec<f64> = z.iter().zip(&self.first).map(bounded).collect();
        if nearest.solve_euclidean(&self.rows, &target).is_err() {
            nearest.x = self.cut_segment(&self.alternate(&target));
        }
    }

    /// Returns the limit of Dykstra's alternating projections of `target`, approximately.
    fn alternate(&self, target: &[f64]) -> Vec<f64> {
        let rows = &self.rows;
        let mut x = target.to_vec();
        rows.onto_equalities(&mut x);
        let mut corrections = vec![0.0; rows.len()];
        for _ in 0..DYKSTRA_ROUNDS {
            for (index, correction) in corrections.iter_mut().enumerate().skip(rows.n_equal()) {
                rows.add_normal(index, -*correction, &mut x);
                *correction = (-rows.slack(index, &x)).max(0.0);
                rows.add_normal(index, *correction, &mut x);
            }
            rows.onto_equalities(&mut x);
        }
        x
    }

    /// Returns the last point of the polytope on the segment from an inner point to `end`, which
    /// satisfies the equations.
    fn cut_segment(&self, end: &[f64]) -> Vec<f64> {
        let rows = &self.rows;
        let length = (rows.n_equal()..rows.len()).fold(1.0_f64, |length, index| {
            let (first, last) = (rows.slack(index, &self.first), rows.slack(index, end));
            if last < 0.0 { length.min(first.max(0.0) / (first.max(0.0) - last)) } else { length }
        });
        let mix = |(anchor, end): (&f64, &f64)| anchor + length * (end - anchor);
        let mut x: Vec<f64> = self.first.iter().zip(end).map(mix).collect();
        into_cube(&mut x);
        if rows.violation(&x) <= FEASIBLE { x } else { self.first.clone() }
    }

    /// Draws `n_points` points, approximately uniform and independent. Equal `bits` give equal
    /// points.
    ///
    /// The method is coordinate hit-and-run with rounding (Haraldsdóttir & others 2017) from the
    /// anchor, in the affine space of the equations, in coordinates in which the polytope is about
    /// as wide in every direction. Points are 8 k² + 8 steps apart for a polytope of dimension k,
    /// as in that paper. A step costs O(n + m) for m rows.
    pub fn sample(&self, n_points: usize, bits: u32) -> Points {
        let mut points = Points::new(self.dim());
        let (walk, anchor) = self.interior();
        let mut state = walk.start(bits);
        let mut point = vec![0.0; self.dim()];
        for _ in 0..n_points {
            walk.advance(&mut state, walk.steps_apart());
            walk.write_point(&mut state, anchor, &mut point);
            self.rows.onto_equalities(&mut point);
            into_cube(&mut point);
            if self.rows.violation(&point) > FEASIBLE {
                point = self.project(&point);
            }
            points.push(&point);
        }
        points
    }

    /// Maximizes a smooth function over the polytope from the projection of `start`.
    ///
    /// `function` returns the value and writes the gradient. It is only called at points of the
    /// polytope. A point with a non-finite value or gradient is a rejected step, so the returned
    /// value is finite and at least the value at the projected start.
    ///
    /// The method is sequential quadratic programming: the step d maximizes ∇f·d − ½ dᵀ B d over
    /// the polytope, by the method of [`Self::project`], and x + t d for the largest t ≤ 1 with a
    /// sufficient increase is the next point. B approximates −∇²f by damped BFGS updates (Powell
    /// 1978; Nocedal & Wright 2006, Procedure 18.2). The criterion `gradient_tolerance` applies to
    /// the projection onto the polytope.
    ///
    /// # Errors
    /// [`OptimError::NoFiniteValue`] if the value or the gradient at the projected start is not
    /// finite.
    ///
    /// # Panics
    /// If the length of `start` is not n.
    pub fn maximize(
        &self,
        function: impl FnMut(&[f64], &mut [f64]) -> f64,
        start: &[f64],
        options: &LbfgsbOptions,
    ) -> Result<LocalMaximum, OptimError> {
        ascent::Ascent::new(self).maximize(function, start, options)
    }
}

fn max_abs(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |a, v| a.max(v.abs()))
}
