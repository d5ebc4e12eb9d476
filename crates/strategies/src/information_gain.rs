//! Maximum information gain, a quantity that regret bounds use.

use fedbo_gp::Kernel;
use fedbo_optim::Points;

/// Returns an upper bound on γ_n = max_{|A| = n} ½ ln det(I + σ⁻² k(A, A)) over subsets A of the
/// candidates.
///
/// Greedy selection reaches at least (1 − 1/e) γ_n because the gain is submodular (Srinivas et al.
/// 2010, section 4). The greedy gain divided by (1 − 1/e) is therefore a bound for the candidates.
/// For a box that the candidates merely cover, the result is only an estimate. Cost: O(n² N) for N
/// candidates.
pub fn information_gain_bound(
    kernel: &Kernel,
    noise_variance: f64,
    candidates: &Points,
    n: usize,
) -> f64 {
    let mut variances = vec![kernel.outputscale(); candidates.len()];
    // Row s contains cov(f_c, w_s) for every candidate c, where w_s are the whitened observations
    // chosen so far.
    let mut rows: Vec<Vec<f64>> = Vec::with_capacity(n);
    let mut gain = 0.0;
    for _ in 0..n {
        let Some((chosen, variance)) = variances
            .iter()
            .copied()
            .enumerate()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .filter(|(_, v)| *v > 0.0)
        else {
            break;
        };
        gain += 0.5 * (variance / noise_variance).ln_1p();
        let pivot = (variance + noise_variance).sqrt();
        let row: Vec<f64> = candidates
            .rows()
            .enumerate()
            .map(|(c, x)| {
                let known: f64 = rows.iter().map(|row| row[c] * row[chosen]).sum();
                (kernel.value(x, candidates.row(chosen)) - known) / pivot
            })
            .collect();
        for (variance, r) in variances.iter_mut().zip(&row) {
            *variance = (*variance - r * r).max(0.0);
        }
        rows.push(row);
    }
    gain / (1.0 - (-1.0_f64).exp())
}

#[cfg(test)]
mod tests {
    use fedbo_gp::{Family, Kernel, linalg::SpdFactor};
    use fedbo_optim::Points;

    use super::*;

    /// Compares with brute force over all subsets of 3 out of 9 points. The bound must hold and be
    /// within a factor of 1/(1 − 1/e).
    #[test]
    fn the_bound_covers_the_best_subset() {
        let kernel = Kernel::isotropic(Family::SquaredExponential, 1, 0.2, 1.0).unwrap();
        let points = Points::from_flat(1, (0..9).map(|i| f64::from(i) / 8.0).collect());
        let noise = 0.1;
        let mut best = 0.0_f64;
        for a in 0..9 {
            for b in 0..a {
                for c in 0..b {
                    let subset =
                        Points::from_rows(1, [points.row(a), points.row(b), points.row(c)]);
                    let mut gram = kernel.gram(&subset);
                    for i in 0..3 {
                        for v in gram.row_mut(i).iter_mut() {
                            *v /= noise;
                        }
                        gram.row_mut(i)[i] += 1.0;
                    }
                    best = best.max(0.5 * SpdFactor::new(&gram).unwrap().log_determinant());
                }
            }
        }
        let bound = information_gain_bound(&kernel, noise, &points, 3);
        assert!(
            bound >= best && bound <= best / (1.0 - (-1.0_f64).exp()) + 1e-12,
            "{bound} for {best}"
        );
    }

    #[test]
    fn gain_grows_with_the_number_of_observations() {
        let kernel = Kernel::isotropic(Family::Matern52, 1, 0.2, 1.0).unwrap();
        let points = Points::from_flat(1, (0..20).map(|i| f64::from(i) / 19.0).collect());
        let gains: Vec<f64> =
            (0..6).map(|n| information_gain_bound(&kernel, 0.01, &points, n)).collect();
        assert!(gains[0].abs() < 1e-15 && gains.windows(2).all(|w| w[1] > w[0]), "{gains:?}");
    }
}
