//! Posterior means and variances at many joint actions, updated round by round.

use fedbo_gp::{Columns, Kernel, Posterior};
use fedbo_optim::Points;

/// Number of cells per chunk, chosen so that their rows stay in the CPU cache.
const CHUNK: usize = 512;

/// The n×m matrix V = L⁻¹ k(X, cells), where L Lᵀ = k(X, X) + σ² I, and its column sums of squares.
///
/// mean = Vᵀ L⁻¹ y,   var = k(x, x) − Σ_s V_s²
///
/// A new observation adds the row V_n = (k(x_n, cells) − Σ_{s<n} L_ns V_s)/L_nn and keeps the other
/// rows, at cost O(n m). Each cell is computed independently and in the order of observations. The
/// numbers are therefore bitwise equal whether rows are added one by one or all at once, and do not
/// depend on the other cells.
#[derive(Clone, Debug)]
pub(crate) struct Whitened {
    cells: Columns,
    rows: Vec<Vec<f64>>,
    explained: Vec<f64>,
    /// The kernel and the last row of L with which V was computed. If either changes, V is
    /// discarded.
    kernel: Option<Kernel>,
    last: Vec<f64>,
}

impl Whitened {
    pub(crate) fn new(cells: &Points) -> Self {
        Self {
            cells: Columns::new(cells),
            rows: Vec::new(),
            explained: vec![0.0; cells.len()],
            kernel: None,
            last: Vec::new(),
        }
    }

    /// Adds the rows of new observations.
    pub(crate) fn extend(&mut self, posterior: &Posterior) {
        let lower = posterior.factor().lower();
        let known = self.rows.len();
        let same =
            |row: &[f64]| row.iter().map(|v| v.to_bits()).eq(self.last.iter().map(|v| v.to_bits()));
        let continues = known <= posterior.len()
            && self.kernel.as_ref() == Some(posterior.kernel())
            && (known == 0 || same(lower.row(known - 1)));
        if !continues {
            self.rows.clear();
            self.explained.fill(0.0);
            self.kernel = Some(posterior.kernel().clone());
        }
        let first = self.rows.len();
        if first == posterior.len() {
            return;
        }
        for place in first..posterior.len() {
            let mut row = posterior.kernel().row(posterior.inputs().row(place), &self.cells);
            row.truncate(self.cells.len());
            self.rows.push(row);
        }
        for begin in (0..self.cells.len()).step_by(CHUNK) {
            let cells = begin..(begin + CHUNK).min(self.cells.len());
            for place in first..posterior.len() {
                let factors = lower.row(place);
                let (done, rest) = self.rows.split_at_mut(place);
                let row = &mut rest[0][cells.clone()];
                subtract(row, factors, done, cells.start);
                let explained = &mut self.explained[cells.clone()];
                for (v, sum) in row.iter_mut().zip(explained) {
                    *v /= factors[place];
                    *sum += *v * *v;
                }
            }
        }
        self.last = lower.row(posterior.len() - 1).to_vec();
    }

    /// Returns the means and variances at all cells. Call [`Whitened::extend`] with this posterior
    /// first. Variances are at least 0.
    pub(crate) fn means_variances(&self, posterior: &Posterior) -> (Vec<f64>, Vec<f64>) {
        debug_assert_eq!(self.rows.len(), posterior.len());
        let mut weights = posterior.outputs().to_vec();
        posterior.factor().solve_lower(&mut weights);
        for weight in &mut weights {
            *weight = -*weight; // `subtract` subtracts rows
        }
        let mut means = vec![0.0; self.cells.len()];
        for begin in (0..means.len()).step_by(CHUNK) {
            let end = (begin + CHUNK).min(means.len());
            subtract(&mut means[begin..end], &weights, &self.rows, begin);
        }
        let prior = posterior.kernel().outputscale();
        let variances = self.explained.iter().map(|v| (prior - v).max(0.0));
        (means, variances.collect())
    }
}

/// Computes target ← target − Σ_s factors_s rows_s, where rows start at column `first`, four rows
/// at a time.
fn subtract(target: &mut [f64], factors: &[f64], rows: &[Vec<f64>], first: usize) {
    let n = target.len();
    let part = |row: &'_ Vec<f64>| -> std::ops::Range<usize> {
        debug_assert!(row.len() >= first + n);
        first..first + n
    };
    let mut place = 0;
    while place + 4 <= rows.len() {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| &rows[place + k][part(&rows[place + k])]);
        let [p, q, r, s] = [0, 1, 2, 3].map(|k| factors[place + k]);
        for ((((t, a), b), c), d) in target.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *t -= (p * a + q * b) + (r * c + s * d);
        }
        place += 4;
    }
    for (row, factor) in rows[place..].iter().zip(&factors[place..]) {
        for (t, v) in target.iter_mut().zip(&row[part(row)]) {
            *t -= factor * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use fedbo_gp::Family;
    use fedbo_testkit::{test_stream, uniform_points};

    use super::*;

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|v| v.to_bits()).collect()
    }

    /// Rows are bitwise equal whether they are added one by one, all at once, or for a subset of
    /// the cells. They agree with the posterior to 1e-10, although the noise level amplifies
    /// rounding errors by 1e4.
    #[test]
    fn rows_added_one_by_one_are_those_of_a_recomputation() {
        for family in [Family::SquaredExponential, Family::Matern52] {
            let kernel = Kernel::new(family, vec![0.3, 0.5, 0.2], 1.3).unwrap();
            let cells = uniform_points(1100, 3, &mut test_stream(1));
            let inputs = uniform_points(37, 3, &mut test_stream(2));
            let mut posterior = Posterior::new(kernel, 1e-4, Points::new(3), Vec::new()).unwrap();
            let mut kept = Whitened::new(&cells);
            for (index, x) in inputs.rows().enumerate() {
                posterior.append(x, (9.0 * x[0]).sin() + x[1]).unwrap();
                if index % 3 != 1 {
                    kept.extend(&posterior);
                }
            }
            kept.extend(&posterior);
            let (means, variances) = kept.means_variances(&posterior);
            let mut anew = Whitened::new(&cells);
            anew.extend(&posterior);
            let again = anew.means_variances(&posterior);
            assert_eq!((bits(&means), bits(&variances)), (bits(&again.0), bits(&again.1)));
            let some = Points::from_rows(3, [510, 7, 1099].map(|i| cells.row(i)));
            let mut part = Whitened::new(&some);
            part.extend(&posterior);
            let (of_some, _) = part.means_variances(&posterior);
            assert_eq!(bits(&of_some), bits(&[means[510], means[7], means[1099]]));
            let expected = posterior.mean_variances(&cells);
            for i in 0..cells.len() {
                assert!((means[i] - expected.0[i]).abs() < 1e-10);
                assert!((variances[i] - expected.1[i]).abs() < 1e-10);
            }
        }
    }

    /// No stale rows remain after the kernel changes (with one observation, the factor stays equal)
    /// or the factor's rows change.
    #[test]
    fn rows_of_another_posterior_are_thrown_away() {
        let cells = uniform_points(20, 2, &mut test_stream(3));
        let inputs = uniform_points(6, 2, &mut test_stream(4));
        let build = |lengthscale, inputs: &Points| {
            let kernel = Kernel::isotropic(Family::Matern32, 2, lengthscale, 1.0).unwrap();
            let y = inputs.rows().map(|x| x[0]).collect();
            Posterior::new(kernel, 1e-3, inputs.clone(), y).unwrap()
        };
        let others = uniform_points(9, 2, &mut test_stream(5));
        let mut kept = Whitened::new(&cells);
        let one = Points::from_rows(2, [inputs.row(0)]);
        for posterior in [
            build(0.3, &one),
            build(0.5, &one),
            build(0.3, &inputs),
            build(0.4, &inputs),
            build(0.4, &others),
        ] {
            kept.extend(&posterior);
            let (means, _) = kept.means_variances(&posterior);
            let expected = posterior.mean_variances(&cells).0;
            assert!(means.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-11));
        }
    }
}
