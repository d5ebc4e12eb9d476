//! The nearest point of a polytope in the norm of a quadratic form.

/// A row counts as violated if its left side exceeds its right side by more than this. Rows have
/// norm 1.
const VIOLATED: f64 = 1e-13;
/// Violations up to this are computed again after x has moved onto the active rows.
const UNCERTAIN: f64 = 1e-8;
/// Maximum violation of a returned point.
const ACCEPTED: f64 = 5e-13;
/// A normal depends on the active ones if the rest of it is at most this fraction of its length.
const DEPENDENT: f64 = 1e-10;
/// A coordinate this close to 0 or 1 is moved onto it.
const SNAP: f64 = 1e-15;

/// The rows of a polytope in `[0,1]^n`: e·x = f, then a·x ≤ b, then x ≥ 0, then x ≤ 1. Rows e are
/// orthonormal, and rows a have norm 1. An index counts through all of them in this order.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) dim: usize,
    /// Rows e, flat.
    pub(super) equal: Vec<f64>,
    pub(super) equal_to: Vec<f64>,
    /// Rows a, flat.
    pub(super) at_most: Vec<f64>,
    pub(super) at_most_of: Vec<f64>,
    /// Inequalities and bounds hold with this much to spare: 0, except while a polytope is built.
    pub(super) loosened_by: f64,
}

/// One row of [`Rows`] by its kind.
#[derive(Clone, Copy)]
enum Side<'a> {
    Equal(&'a [f64], f64),
    AtMost(&'a [f64], f64),
    Lower(usize),
    Upper(usize),
}

impl Rows {
    pub(super) fn n_equal(&self) -> usize {
        self.equal_to.len()
    }

    pub(super) fn n_at_most(&self) -> usize {
        self.at_most_of.len()
    }

    /// The number of all rows, bounds included.
    pub(super) fn len(&self) -> usize {
        self.n_equal() + self.n_at_most() + 2 * self.dim
    }

    fn side(&self, index: usize) -> Side<'_> {
        let (n, equal, at_most) = (self.dim, self.n_equal(), self.n_at_most());
        if index < equal {
            return Side::Equal(&self.equal[index * n..(index + 1) * n], self.equal_to[index]);
        }
        let index = index - equal;
        if index < at_most {
            return Side::AtMost(&self.at_most[index * n..(index + 1) * n], self.at_most_of[index]);
        }
        let index = index - at_most;
        if index < n { Side::Lower(index) } else { Side::Upper(index - n) }
    }

    /// Returns s(x), which is 0 on the row's hyperplane and negative where an inequality is
    /// violated.
    pub(super) fn slack(&self, index: usize, x: &[f64]) -> f64 {
        match self.side(index) {
            Side::Equal(row, right) => dot(row, x) - right,
            Side::AtMost(row, right) => right - dot(row, x) + self.loosened_by,
            Side::Lower(i) => x[i] + self.loosened_by,
            Side::Upper(i) => 1.0 - x[i] + self.loosened_by,
        }
    }

    /// Returns the largest violation of a row.
    pub(super) fn violation(&self, x: &[f64]) -> f64 {
        (0..self.len()).fold(0.0, |worst, index| {
            let slack = self.slack(index, x);
            worst.max(if index < self.n_equal() { slack.abs() } else { -slack })
        })
    }

    /// Adds `length` times the normal ∇s to `x`.
    pub(super) fn add_normal(&self, index: usize, length: f64, x: &mut [f64]) {
        match self.side(index) {
            Side::Equal(row, _) => add(x, length, row),
            Side::AtMost(row, _) => add(x, -length, row),
            Side::Lower(i) => x[i] += length,
            Side::Upper(i) => x[i] -= length,
        }
    }

    /// Writes Jᵀ∇s, where J has its columns one after the other.
    fn transform_normal(&self, index: usize, factor: &[f64], out: &mut [f64]) {
        let columns = factor.chunks_exact(self.dim).zip(out);
        match self.side(index) {
            Side::Equal(row, _) => columns.for_each(|(column, out)| *out = dot(column, row)),
            Side::AtMost(row, _) => columns.for_each(|(column, out)| *out = -dot(column, row)),
            Side::Lower(i) => columns.for_each(|(column, out)| *out = column[i]),
            Side::Upper(i) => columns.for_each(|(column, out)| *out = -column[i]),
        }
    }

    /// Moves `x` to the nearest point of the affine space of the equalities.
    pub(super) fn onto_equalities(&self, x: &mut [f64]) {
        for (row, right) in self.equal.chunks_exact(self.dim).zip(&self.equal_to) {
            let excess = dot(row, x) - right;
            add(x, -excess, row);
        }
    }

    /// Removes the part of `vector` that is normal to the equalities.
    pub(super) fn along_equalities(&self, vector: &mut [f64]) {
        for row in self.equal.chunks_exact(self.dim) {
            let part = dot(row, vector);
            add(vector, -part, row);
        }
    }
}

/// The reason why no nearest point was found.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    /// No point satisfies these rows together. The numbers are the weights of the contradiction.
    Conflict(Vec<(usize, f64)>),
    /// Rounding prevented an accurate result.
    Inaccurate,
}

/// The dual active-set method of Goldfarb & Idnani (1983) for
///
/// minimize ½ (x − t)ᵀ H (x − t)  subject to the rows,
///
/// with a workspace that all problems in the same dimension reuse.
///
/// The method starts at t. Each step adds the most violated row to the active ones, and drops
/// active rows with multipliers that would become negative. It stores J with J Jᵀ = H⁻¹ and
/// Jᵀ N = (R; 0), where N contains the active normals, and updates both by Givens rotations. The
/// dual objective grows with every added row, so no active set repeats. A normal that depends on
/// the active ones is added only after one of them is dropped, which handles parallel and repeated
/// rows; if none can be dropped, the rows contradict each other.
///
/// At the end, x moves onto the active rows by −J₁ R⁻ᵀ s(x), which removes the rounding errors of
/// the steps. If this violates another row, the method continues.
///
/// Cost: O(n²) per step and O(n m) to find the violated row, without allocations.
#[derive(Clone, Debug)]
pub(super) struct Nearest {
    pub(super) x: Vec<f64>,
    /// J, columns one after the other.
    factor: Vec<f64>,
    /// R, columns one after the other.
    triangle: Vec<f64>,
    active: Vec<usize>,
    multipliers: Vec<f64>,
    is_active: Vec<bool>,
    transformed: Vec<f64>,
    /// R⁻¹ times the first part of `transformed`.
    ratios: Vec<f64>,
}

impl Nearest {
    pub(super) fn new(rows: &Rows) -> Self {
        let n = rows.dim;
        Self {
            x: vec![0.0; n],
            factor: vec![0.0; n * n],
            triangle: vec![0.0; n * n],
            active: Vec::with_capacity(n),
            multipliers: Vec::with_capacity(n),
            is_active: vec![false; rows.len()],
            transformed: vec![0.0; n],
            ratios: vec![0.0; n],
        }
    }

    /// Solves the problem for H = I. The result is in `self.x`.
    pub(super) fn solve_euclidean(&mut self, rows: &Rows, target: &[f64]) -> Result<(), Stop> {
        set_multiple_of_unit(&mut self.factor, rows.dim, 1.0);
        self.run(rows, target)
    }

    /// Solves the problem for H = (J Jᵀ)⁻¹. The result is in `self.x`.
    pub(super) fn solve(
        &mut self,
        rows: &Rows,
        factor: &[f64],
        target: &[f64],
    ) -> Result<(), Stop> {
        self.factor.copy_from_slice(factor);
        self.run(rows, target)
    }

    fn run(&mut self, rows: &Rows, target: &[f64]) -> Result<(), Stop> {
        self.x.copy_from_slice(target);
        self.active.clear();
        self.multipliers.clear();
        self.is_active.fill(false);
        let mut steps_left = 100 + 10 * rows.len();
        for index in 0..rows.n_equal() {
            self.add(rows, index, &mut steps_left)?;
        }
        let mut ends_left = 8;
        loop {
            let mut violated = self.most_violated(rows);
            // A small violation can be an error of the steps so far.
            if violated.is_none_or(|(_, slack)| slack >= -UNCERTAIN) {
                self.settle(rows);
                violated = self.most_violated(rows);
            }
            if let Some((index, _)) = violated {
                self.add(rows, index, &mut steps_left)?;
                continue;
            }
            if rows.violation(&self.x) <= ACCEPTED {
                return Ok(());
            }
            ends_left -= 1;
            if ends_left == 0 {
                return Err(Stop::Inaccurate);
            }
        }
    }

    /// Returns the most violated row that is not active, and its slack.
    fn most_violated(&self, rows: &Rows) -> Option<(usize, f64)> {
        let mut worst = None;
        // A NaN in x is below every limit, so that it reaches `add`, which ends the method.
        let mut limit = -VIOLATED;
        for index in rows.n_equal()..rows.len() {
            if self.is_active[index] {
                continue;
            }
            let slack = rows.slack(index, &self.x);
            if slack < limit || slack.is_nan() {
                limit = slack;
                worst = Some((index, slack));
            }
        }
        worst
    }

    /// Adds row `index` to the active ones (step 2 of the method).
    fn add(&mut self, rows: &Rows, index: usize, steps_left: &mut usize) -> Result<(), Stop> {
        let (n, is_equal) = (rows.dim, index < rows.n_equal());
        let mut multiplier = 0.0;
        loop {
            if *steps_left == 0 {
                return Err(Stop::Inaccurate);
            }
            *steps_left -= 1;
            rows.transform_normal(index, &self.factor, &mut self.transformed);
            let q = self.active.len();
            let free = square(&self.transformed[q..]);
            let all = free + square(&self.transformed[..q]);
            let slack = rows.slack(index, &self.x);
            if !(all.is_finite() && slack.is_finite()) {
                return Err(Stop::Inaccurate);
            }
            self.solve_triangle(n);
            let mut dual_step = f64::INFINITY;
            let mut blocking = None;
            for j in 0..q {
                let is_inequality = self.active[j] >= rows.n_equal();
                if is_inequality && self.ratios[j] > 0.0 {
                    let step = self.multipliers[j] / self.ratios[j];
                    if step < dual_step {
                        (dual_step, blocking) = (step, Some(j));
                    }
                }
            }
            let is_dependent = free <= DEPENDENT * DEPENDENT * all;
            let full_step = if is_dependent {
                f64::INFINITY
            } else if is_equal {
                -slack / free
            } else {
                (-slack).max(0.0) / free
            };
            let step = dual_step.min(full_step);
            if !step.is_finite() {
                let active = self.active.iter().copied().zip(self.ratios.iter().map(|r| -r));
                return Err(Stop::Conflict(active.chain([(index, 1.0)]).collect()));
            }
            if !is_dependent {
                for (j, column) in self.factor.chunks_exact(n).enumerate().skip(q) {
                    add(&mut self.x, step * self.transformed[j], column);
                }
            }
            for (j, u) in self.multipliers.iter_mut().enumerate() {
                *u -= step * self.ratios[j];
                if self.active[j] >= rows.n_equal() {
                    *u = u.max(0.0);
                }
            }
            multiplier += step;
            match blocking {
                Some(j) if dual_step < full_step => self.drop_active(n, j),
                _ => {
                    self.push_active(n, index, multiplier);
                    return Ok(());
                }
            }
        }
    }

    /// Computes `ratios` from the first part of `transformed` by back substitution.
    fn solve_triangle(&mut self, n: usize) {
        let q = self.active.len();
        self.ratios[..q].copy_from_slice(&self.transformed[..q]);
        for j in (0..q).rev() {
            let column = &self.triangle[j * n..j * n + q];
            self.ratios[j] /= column[j];
            let ratio = self.ratios[j];
            add(&mut self.ratios[..j], -ratio, &column[..j]);
        }
    }

    fn push_active(&mut self, n: usize, index: usize, multiplier: f64) {
        let q = self.active.len();
        for i in (q + 1..n).rev() {
            let rotation = Rotation::to_first(self.transformed[i - 1], self.transformed[i]);
            self.transformed[i - 1] = rotation.length;
            self.transformed[i] = 0.0;
            rotation.turn_columns(&mut self.factor, n, i - 1);
        }
        self.triangle[q * n..q * n + q + 1].copy_from_slice(&self.transformed[..=q]);
        self.active.push(index);
        self.multipliers.push(multiplier);
        self.is_active[index] = true;
    }

    fn drop_active(&mut self, n: usize, position: usize) {
        self.is_active[self.active.remove(position)] = false;
        self.multipliers.remove(position);
        let q = self.active.len();
        self.triangle.copy_within((position + 1) * n..(q + 1) * n, position * n);
        for i in position..q {
            let column = &mut self.triangle[i * n..(i + 1) * n];
            let rotation = Rotation::to_first(column[i], column[i + 1]);
            for column in self.triangle[i * n..q * n].chunks_exact_mut(n) {
                (column[i], column[i + 1]) = rotation.turn(column[i], column[i + 1]);
            }
            rotation.turn_columns(&mut self.factor, n, i);
        }
    }

    /// Moves x onto the active rows, and into the cube.
    fn settle(&mut self, rows: &Rows) {
        let (n, q) = (rows.dim, self.active.len());
        for _ in 0..2 {
            for j in 0..q {
                let column = &self.triangle[j * n..j * n + q];
                let known = dot(&column[..j], &self.ratios[..j]);
                self.ratios[j] = (rows.slack(self.active[j], &self.x) - known) / column[j];
            }
            for (ratio, column) in self.ratios[..q].iter().zip(self.factor.chunks_exact(n)) {
                add(&mut self.x, -ratio, column);
            }
        }
        for &index in &self.active {
            match rows.side(index) {
                Side::Lower(i) if self.x[i].abs() <= VIOLATED => self.x[i] = 0.0,
                Side::Upper(i) if (self.x[i] - 1.0).abs() <= VIOLATED => self.x[i] = 1.0,
                _ => {}
            }
        }
        into_cube(&mut self.x);
    }
}

/// Moves coordinates that rounding put outside the cube, or within 10⁻¹⁵ of a bound, onto the
/// bound. Leaves coordinates that are further outside.
pub(super) fn into_cube(x: &mut [f64]) {
    for x in x {
        if x.abs() <= SNAP || (*x < 0.0 && *x >= -VIOLATED) {
            *x = 0.0;
        } else if (*x - 1.0).abs() <= SNAP || (*x > 1.0 && *x <= 1.0 + VIOLATED) {
            *x = 1.0;
        }
    }
}

/// The rotation that turns (a, b) into (length, 0).
struct Rotation {
    cos: f64,
    sin: f64,
    length: f64,
}

impl Rotation {
    fn to_first(a: f64, b: f64) -> Self {
        let length = a.hypot(b);
        if length > 0.0 {
            Self { cos: a / length, sin: b / length, length }
        } else {
            Self { cos: 1.0, sin: 0.0, length }
        }
    }

    fn turn(&self, a: f64, b: f64) -> (f64, f64) {
        (self.cos * a + self.sin * b, self.cos * b - self.sin * a)
    }

    /// Turns columns `first` and `first` + 1 of a matrix with n rows.
    fn turn_columns(&self, matrix: &mut [f64], n: usize, first: usize) {
        let (a, b) = matrix[first * n..(first + 2) * n].split_at_mut(n);
        for (a, b) in a.iter_mut().zip(b) {
            (*a, *b) = self.turn(*a, *b);
        }
    }
}

/// Replaces the lower triangle of a symmetric matrix by its Cholesky factor. Returns false if the
/// matrix is not positive definite to the precision of the numbers.
pub(super) fn cholesky(matrix: &mut [f64], n: usize) -> bool {
    for i in 0..n {
        for j in 0..=i {
            let known = dot(&matrix[i * n..i * n + j], &matrix[j * n..j * n + j]);
            let rest = matrix[i * n + j] - known;
            if i > j {
                matrix[i * n + j] = rest / matrix[j * n + j];
            } else if rest > 1e-14 * matrix[i * n + i] && rest.is_finite() {
                matrix[i * n + i] = rest.sqrt();
            } else {
                return false;
            }
        }
    }
    true
}

/// Writes `scale` times the unit matrix.
pub(super) fn set_multiple_of_unit(matrix: &mut [f64], n: usize, scale: f64) {
    matrix.fill(0.0);
    matrix.iter_mut().step_by(n + 1).for_each(|diagonal| *diagonal = scale);
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn square(a: &[f64]) -> f64 {
    dot(a, a)
}

/// Adds `factor` times `b` to `a`.
pub(super) fn add(a: &mut [f64], factor: f64, b: &[f64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a += factor * b;
    }
}
