//! Coordinate hit-and-run with rounding.

use super::quadratic::{Rows, add, cholesky, dot, square};

/// A coordinate that changes by less than this per unit of every free direction is constant.
const CONSTANT: f64 = 1e-9;
/// Maximum number of rounds that make the polytope as wide in every direction.
const MAX_ROUNDS: u32 = 12;
/// The rounds end when no coordinate is wider than another by more than this factor.
const ROUND: f64 = 4.0;

/// A polytope in k coordinates y of its affine space, z = anchor + W y.
///
/// Strip i contains the points with low_i ≤ w_i·y ≤ high_i. The first n strips are the coordinates
/// of z, so w_i is a row of W; the others are the inequalities.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    n_free: usize,
    n_strips: usize,
    /// Entry k·`n_strips` + i is coordinate k of w_i.
    normals: Vec<f64>,
    low: Vec<f64>,
    high: Vec<f64>,
}

/// The position of a walk.
pub(super) struct State {
    /// w_i·y for each strip.
    left: Vec<f64>,
    y: Vec<f64>,
    random: SplitMix,
}

impl Walk {
    /// Prepares walks in the polytope of `rows`, and moves `anchor` to about the centre of gravity.
    ///
    /// Each round takes 16 k² + 128 k steps from the anchor, moves the anchor to the mean of the walk and changes the
    /// coordinates so that the covariance of the walk becomes the unit matrix.
    pub(super) fn new(rows: &Rows, anchor: &mut [f64]) -> Self {
        let basis = free_directions(rows);
        let (n, k) = (rows.dim, basis.len());
        let n_strips = n + rows.n_at_most();
        let mut normals = Vec::with_capacity(k * n_strips);
        for direction in &basis {
            normals.extend_from_slice(direction);
            normals.extend(rows.at_most.chunks_exact(n).map(|row| dot(row, direction)));
        }
        let mut walk = Self { n_free: k, n_strips, normals, low: vec![], high: vec![] };
        walk.set_limits(rows, anchor);
        for round in 0..MAX_ROUNDS {
            let mut state = walk.start(round);
            let (mean, mut covariance) = walk.moments(&mut state);
            if !cholesky(&mut covariance, k) {
                break;
            }
            // A convex combination of points in the polytope is in the polytope.
            let widths = (0..k).map(|j| covariance[j * k + j]);
            let (thin, wide) =
                widths.fold((f64::INFINITY, 0.0_f64), |(a, b), w| (a.min(w), b.max(w)));
            for (i, anchor) in anchor.iter_mut().enumerate() {
                *anchor += (0..k).map(|j| walk.normals[j * n_strips + i] * mean[j]).sum::<f64>();
            }
            walk.change_coordinates(&covariance);
            rows.onto_equalities(anchor);
            walk.set_limits(rows, anchor);
            if wide <= ROUND * thin {
                break;
            }
        }
        walk
    }

    pub(super) fn n_free(&self) -> usize {
        self.n_free
    }

    /// The number of steps between two points that are close to independent.
    pub(super) fn steps_apart(&self) -> usize {
        8 * self.n_free * self.n_free + 8
    }

    pub(super) fn start(&self, bits: u32) -> State {
        State {
            left: vec![0.0; self.n_strips],
            y: vec![0.0; self.n_free],
            random: SplitMix(u64::from(bits)),
        }
    }

    /// Takes steps to a uniform point of the chord through y along a random coordinate.
    pub(super) fn advance(&self, state: &mut State, n_steps: usize) {
        if self.n_free == 0 {
            return;
        }
        for _ in 0..n_steps {
            let k = state.random.below(self.n_free);
            let normals = &self.normals[k * self.n_strips..(k + 1) * self.n_strips];
            let (mut first, mut last) = (f64::NEG_INFINITY, f64::INFINITY);
            for (i, w) in normals.iter().enumerate() {
                let inverse = 1.0 / w;
                let to_low = (self.low[i] - state.left[i]) * inverse;
                let to_high = (self.high[i] - state.left[i]) * inverse;
                if *w > 0.0 {
                    (first, last) = (first.max(to_low), last.min(to_high));
                } else if *w < 0.0 {
                    (first, last) = (first.max(to_high), last.min(to_low));
                }
            }
            let step = first + (last - first) * state.random.uniform();
            if !(first < last && step.is_finite()) {
                continue; // at a vertex, to the precision of the numbers
            }
            state.y[k] += step;
            for (left, w) in state.left.iter_mut().zip(normals) {
                *left += step * w;
            }
        }
    }

    /// Writes the point z of a state, and removes the rounding errors of its steps.
    pub(super) fn write_point(&self, state: &mut State, anchor: &[f64], point: &mut [f64]) {
        state.left.fill(0.0);
        for (y, normals) in state.y.iter().zip(self.normals.chunks_exact(self.n_strips)) {
            add(&mut state.left, *y, normals);
        }
        for ((point, anchor), left) in point.iter_mut().zip(anchor).zip(&state.left) {
            *point = anchor + left;
        }
    }

    /// Returns the mean and the covariance of y over 8 k + 64 points of a walk.
    fn moments(&self, state: &mut State) -> (Vec<f64>, Vec<f64>) {
        let k = self.n_free;
        let n_points = 8 * k + 64;
        let mut mean = vec![0.0; k];
        let mut covariance = vec![0.0; k * k];
        for _ in 0..n_points {
            self.advance(state, 2 * k);
            for i in 0..k {
                mean[i] += state.y[i];
                for j in 0..=i {
                    covariance[i * k + j] += state.y[i] * state.y[j];
                }
            }
        }
        mean.iter_mut().for_each(|sum| *sum /= n_points as f64);
        for i in 0..k {
            for j in 0..=i {
                let entry = &mut covariance[i * k + j];
                *entry = *entry / n_points as f64 - mean[i] * mean[j];
            }
        }
        (mean, covariance)
    }

    /// Replaces y by L⁻¹ y, and so w by Lᵀ w.
    fn change_coordinates(&mut self, factor: &[f64]) {
        let (k, n) = (self.n_free, self.n_strips);
        for j in 0..k {
            // Column j of L has entries from row j on, and column j of the normals is not read
            // again.
            for i in 0..n {
                self.normals[j * n + i] =
                    (j..k).map(|row| factor[row * k + j] * self.normals[row * n + i]).sum();
            }
        }
    }

    fn set_limits(&mut self, rows: &Rows, anchor: &[f64]) {
        let at_most =
            (0..rows.n_at_most()).map(|i| rows.slack(rows.n_equal() + i, anchor).max(0.0));
        self.low = anchor.iter().map(|x| -x.max(0.0)).collect();
        self.low.resize(self.n_strips, f64::NEG_INFINITY);
        self.high = anchor.iter().map(|x| (1.0 - x).max(0.0)).chain(at_most).collect();
    }
}

/// Returns an orthonormal basis of the directions along the equalities.
fn free_directions(rows: &Rows) -> Vec<Vec<f64>> {
    let n = rows.dim;
    let mut all: Vec<Vec<f64>> = rows.equal.chunks_exact(n).map(<[f64]>::to_vec).collect();
    let mut used = vec![false; n];
    for _ in rows.n_equal()..n {
        // The unit vector with the longest rest.
        let rest = |i: &usize| 1.0 - all.iter().map(|v| v[*i] * v[*i]).sum::<f64>();
        let longest = (0..n).filter(|i| !used[*i]).max_by(|a, b| rest(a).total_cmp(&rest(b)));
        let Some(longest) = longest else { break };
        used[longest] = true;
        let mut direction = vec![0.0; n];
        direction[longest] = 1.0;
        for _ in 0..2 {
            for known in &all {
                let part = dot(known, &direction);
                add(&mut direction, -part, known);
            }
        }
        let length = square(&direction).sqrt();
        direction.iter_mut().for_each(|v| *v /= length);
        all.push(direction);
    }
    let mut free = all.split_off(rows.n_equal());
    // A coordinate that does not vary in the polytope has exact zeros.
    for i in 0..n {
        if free.iter().map(|v| v[i] * v[i]).sum::<f64>().sqrt() <= CONSTANT {
            free.iter_mut().for_each(|v| v[i] = 0.0);
        }
    }
    free
}

/// The generator SplitMix64 (Steele, Lea & Flood 2014).
pub(super) struct SplitMix(pub(super) u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in (0, 1).
    pub(super) fn uniform(&mut self) -> f64 {
        ((self.next() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Returns an index below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::try_from((u128::from(self.next()) * n as u128) >> 64).expect("below n")
    }
}
