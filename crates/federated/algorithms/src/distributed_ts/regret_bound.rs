//! A bound on the Bayesian simple regret of distributed Thompson sampling (Theorem 3.1 and
//! Corollary 3.2).

use fedbo_gp::{Columns, Kernel};
use fedbo_optim::{Points, sobol};

/// Maximum number of points that represent the domain. Their covariances take 32 MB.
pub const N_POINTS_MAX: usize = 2_000;
/// Maximum number of observations that are chosen greedily. For more observations, the bound stays
/// valid but becomes looser.
pub const N_GREEDY_MAX: usize = 4_000;

/// Returns C₁ = √2 π^{3/2} / 12 = Σ_{τ≥1} 1/(τ² √(2π)), from line (7) of the proof. As typeset in
/// the theorem, the root extends over π.
fn c1() -> f64 {
    2.0_f64.sqrt() * std::f64::consts::PI.powf(1.5) / 12.0
}

/// The reason that the regret cannot be bounded for a prior.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RegretBoundError {
    /// The noise variance is zero, tiny or not a number. Every bound divides by ln(1 + σ⁻²).
    #[error(
        "noise variance {noise_variance}: expected a finite number above 0, at least 1e-12 of the signal variance"
    )]
    Noise {
        /// The given noise variance.
        noise_variance: f64,
    },
    /// There are no points, or too many.
    #[error("{n_points} points: expected 1 to {N_POINTS_MAX}")]
    Points {
        /// The given number of points.
        n_points: usize,
    },
    /// The points and the kernel have different dimensions.
    #[error("points have {found} coordinates, the kernel {expected}")]
    Dimension {
        /// The dimension of the points.
        found: usize,
        /// The dimension of the kernel.
        expected: usize,
    },
}

/// The prior of an objective on finitely many points, with bounds on the information that n
/// observations provide.
///
/// f ~ GP(0, k) on |X| points, y = f(x) + ε, ε ~ N(0, σ²). The theorem assumes k(x, x) ≤ 1, so f is
/// divided by its standard deviation a and σ² by a², and bounds are multiplied by a again.
///
/// The theorem holds for finitely many points, and depends on |X| through β_t. For a box, use
/// points that cover it. The bound then holds for the best of these points. It carries over to the
/// box only to the extent that f varies little between them.
#[derive(Clone, Debug)]
pub struct RegretPrior {
    /// a.
    signal_std: f64,
    /// σ²/a².
    noise_ratio: f64,
    n_points: usize,
    /// Information of the first n greedily chosen observations, starting at n = 0.
    greedy: Vec<f64>,
}

impl RegretPrior {
    /// Creates the prior on these points. `n_observations` observations are chosen greedily, but at
    /// most [`N_GREEDY_MAX`]. Set it to t·|V| for the largest bound that is needed.
    /// Costs O(n |X|²).
    ///
    /// # Errors
    /// If the noise variance is not above 0 or is tiny relative to the signal's, or if there are no
    /// points, too many points, or points of the wrong dimension.
    pub fn new(
        kernel: &Kernel,
        noise_variance: f64,
        points: &Points,
        n_observations: usize,
    ) -> Result<Self, RegretBoundError> {
        let noise_ratio = noise_variance / kernel.outputscale();
        if !(noise_ratio.is_finite() && noise_ratio >= 1e-12) {
            return Err(RegretBoundError::Noise { noise_variance });
        }
        let n_points = points.len();
        if !(1..=N_POINTS_MAX).contains(&n_points) {
            return Err(RegretBoundError::Points { n_points });
        }
        if points.dim() != kernel.dim() {
            return Err(RegretBoundError::Dimension {
                found: points.dim(),
                expected: kernel.dim(),
            });
        }
        let n_steps = n_observations.clamp(1, N_GREEDY_MAX) + 1;
        Ok(Self {
            signal_std: kernel.outputscale().sqrt(),
            noise_ratio,
            n_points,
            greedy: greedy_information(kernel, noise_ratio, points, n_steps),
        })
    }

    /// Creates the prior on `n_points` points of a Sobol sequence, which cover the unit cube
    /// evenly.
    ///
    /// # Errors
    /// Same as [`RegretPrior::new`].
    pub fn on_unit_cube(
        kernel: &Kernel,
        noise_variance: f64,
        n_points: usize,
        n_observations: usize,
    ) -> Result<Self, RegretBoundError> {
        if n_points > N_POINTS_MAX {
            return Err(RegretBoundError::Points { n_points });
        }
        let points = sobol(kernel.dim(), n_points, 0);
        Self::new(kernel, noise_variance, &points, n_observations)
    }

    /// Returns σ²/a², the noise variance in units of the signal variance.
    pub fn noise_ratio(&self) -> f64 {
        self.noise_ratio
    }

    /// Returns |X|.
    pub fn n_points(&self) -> usize {
        self.n_points
    }

    /// Returns an upper bound on Ψ_n = max_{|A| = n} ½ ln det(I + σ⁻² k(A, A)), in nats. Points can
    /// be observed repeatedly.
    ///
    /// The information I is submodular. With A_s the first s greedy choices and δ_s = I(A_{s+1}) −
    /// I(A_s), I(A_n) / (1 − 1/e) and, for every s, I(A_s) + n δ_s are upper bounds on Ψ_n
    /// (Nemhauser et al. 1978; Srinivas et al. 2010, section 4). The result is the smallest of
    /// these bounds, which is exact for n = 1.
    pub fn information_gain(&self, n_observations: u64) -> f64 {
        if n_observations == 0 {
            return 0.0;
        }
        let n = n_observations as f64;
        let by_steps = self.greedy.windows(2).map(|pair| pair[0] + n * (pair[1] - pair[0]));
        let greedy = usize::try_from(n_observations).ok();
        let greedy = greedy.and_then(|n| self.greedy.get(n));
        let by_greedy = greedy.map(|gain| gain / (1.0 - (-1.0_f64).exp()));
        by_steps.chain(by_greedy).fold(f64::INFINITY, f64::min)
    }

    /// Returns the bound for a clique of `clique_size` agents, which can all communicate with each
    /// other. A clique of size 1 is a standalone agent.
    ///
    /// # Panics
    /// If the clique is empty.
    pub fn bound(&self, clique_size: usize) -> RegretBound<'_> {
        assert!(clique_size > 0, "a clique has at least one agent");
        RegretBound { prior: self, clique_size: clique_size as u64 }
    }

    /// Returns the clique size from 1 to `size_max` with the smallest bound after t rounds.
    ///
    /// A clique contains smaller cliques, for which Theorem 3.1 holds too. The price ξ of not
    /// waiting for each other can outweigh the benefit of a larger clique.
    ///
    /// # Panics
    /// If `size_max` is 0.
    pub fn best_size(&self, size_max: usize, t: u64) -> usize {
        assert!(size_max > 0, "a clique has at least one agent");
        let (mut best, mut least) = (1, self.bound(1).at(t));
        for size in 2..=size_max {
            let at = self.bound(size).at(t);
            if at < least {
                (best, least) = (size, at);
            }
        }
        best
    }
}

/// The bound of Theorem 3.1 for a complete subgraph V_s. For the largest such subgraph, this is
/// Corollary 3.2.
///
/// R_SB(t) ≤ C₁/(t|V_s|) + √(C₂ ξ_{|V_s|} β_t Ψ_{t|V_s|} / (t|V_s|)), times the signal's standard
/// deviation a.
///
/// Deviation: C₂ = 2/ln(1 + σ⁻²), as in the theorem and Lemma I.3. The corollary prints ln(1 + σ²).
#[derive(Clone, Copy, Debug)]
pub struct RegretBound<'a> {
    prior: &'a RegretPrior,
    clique_size: u64,
}

impl RegretBound<'_> {
    /// Returns an upper bound on R_SB(t) = min_{i, τ ≤ t} E[f(x*) − f(x_{τ,i})] after t rounds, in
    /// units of f; infinite for t = 0, or if ξ is too large for a float.
    pub fn at(&self, t: u64) -> f64 {
        if t == 0 {
            return f64::INFINITY;
        }
        let n = t.saturating_mul(self.clique_size);
        let observations = n as f64;
        let product = self.c2() * self.beta(t) * self.prior.information_gain(n) / observations;
        // √ξ is computed directly, because it overflows later than ξ.
        let price = (0.5 * self.log_price()).exp();
        self.prior.signal_std * (c1() / observations + price * product.sqrt())
    }

    /// |V_s|.
    pub fn clique_size(&self) -> u64 {
        self.clique_size
    }

    /// Returns C₂ = 2/ln(1 + a²σ⁻²).
    pub fn c2(&self) -> f64 {
        2.0 / (1.0 / self.prior.noise_ratio).ln_1p()
    }

    /// Returns β_t = 2 ln(t² |V_s| |X|).
    pub fn beta(&self, t: u64) -> f64 {
        let t = t as f64;
        2.0 * (2.0 * t.ln() + (self.clique_size as f64).ln() + (self.prior.n_points as f64).ln())
    }

    /// Returns ln ξ = 2 Ψ_{|V_s| − 1}, where ξ is the price that agents pay for not seeing each
    /// other's queries in a round; 0 for a standalone agent.
    ///
    /// By submodularity, fewer than |V_s| observations provide no more information given any data
    /// than without the data (equation (3)).
    pub fn log_price(&self) -> f64 {
        2.0 * self.prior.information_gain(self.clique_size - 1)
    }

    /// Returns Ψ_{t|V_s|}, bounded as in [`RegretPrior::information_gain`].
    pub fn information_gain(&self, t: u64) -> f64 {
        let n = t.saturating_mul(self.clique_size);
        self.prior.information_gain(n)
    }
}

/// Returns ½ Σ_{s ≤ n} ln(1 + σ⁻² v_s) for n from 0 to `n_steps`, where v_s is the largest
/// posterior variance after s − 1 greedy choices.
fn greedy_information(
    kernel: &Kernel,
    noise_ratio: f64,
    points: &Points,
    n_steps: usize,
) -> Vec<f64> {
    let n_points = points.len();
    let columns = Columns::new(points);
    let scale = 1.0 / kernel.outputscale();
    let mut covariances: Vec<f64> = Vec::with_capacity(n_points * n_points);
    for x in points.rows() {
        let row = kernel.row(x, &columns);
        covariances.extend(row.iter().take(n_points).map(|value| scale * value));
    }
    let mut gains = vec![0.0];
    let mut total = 0.0;
    for _ in 0..n_steps {
        let variance = |point: usize| covariances[point * n_points + point].max(0.0);
        let Some(chosen) = (0..n_points).max_by(|a, b| variance(*a).total_cmp(&variance(*b)))
        else {
            break;
        };
        let largest = variance(chosen);
        total += 0.5 * (largest / noise_ratio).ln_1p();
        gains.push(total);
        let row: Vec<f64> = covariances[chosen * n_points..][..n_points].to_vec();
        let shrink = 1.0 / (largest + noise_ratio);
        for (share, covariances) in row.iter().zip(covariances.chunks_exact_mut(n_points)) {
            let factor = share * shrink;
            for (covariance, other) in covariances.iter_mut().zip(&row) {
                *covariance -= factor * other;
            }
        }
    }
    gains
}

#[cfg(test)]
mod tests {
    use fedbo_gp::Family;
    use fedbo_gp::linalg::SpdFactor;
    use fedbo_strategies::information_gain_bound;

    use super::*;

    fn line(n: u32) -> Points {
        Points::from_flat(1, (0..n).map(|i| f64::from(i) / f64::from(n)).collect())
    }

    fn kernel(outputscale: f64) -> Kernel {
        Kernel::isotropic(Family::Matern52, 1, 0.3, outputscale).unwrap()
    }

    /// Returns ½ ln det(I + σ⁻² k(A, A)).
    fn information(kernel: &Kernel, noise: f64, points: &Points) -> f64 {
        let mut gram = kernel.gram(points);
        for i in 0..points.len() {
            for value in gram.row_mut(i).iter_mut() {
                *value /= noise;
            }
            gram.row_mut(i)[i] += 1.0;
        }
        0.5 * SpdFactor::new(&gram).unwrap().log_determinant()
    }

    /// Checks all multisets of up to 4 of 6 points. The bound covers the best multiset, is exact
    /// for one observation, and never exceeds the bound from the greedy choices.
    #[test]
    fn the_information_gain_covers_the_best_observations() {
        for (outputscale, noise) in [(1.0, 0.1), (4.0, 0.02), (0.5, 3.0)] {
            let (kernel, points) = (kernel(outputscale), line(6));
            let prior = RegretPrior::new(&kernel, noise, &points, 10).unwrap();
            for n in 1..=4_u32 {
                let mut best = 0.0_f64;
                for code in 0..6_u32.pow(n) {
                    let chosen = (0..n).map(|digit| code / 6_u32.pow(digit) % 6);
                    let chosen: Vec<&[f64]> = chosen.map(|i| points.row(i as usize)).collect();
                    let chosen = Points::from_rows(1, chosen);
                    best = best.max(information(&kernel, noise, &chosen));
                }
                let bound = prior.information_gain(n.into());
                assert!(bound >= best * (1.0 - 1e-12), "{n}: {bound} for {best}");
                if n == 1 {
                    assert!(bound <= best * (1.0 + 1e-12), "{bound} for {best}");
                }
                let greedy = information_gain_bound(&kernel, noise, &points, n as usize);
                assert!(bound <= greedy * (1.0 + 1e-12), "{n}: {bound} above {greedy}");
            }
        }
    }

    /// The greedy choices match those of `information_gain_bound`, even long after every point has
    /// been chosen.
    #[test]
    fn greedy_choices_agree_with_the_other_implementation() {
        let (kernel, points) = (kernel(2.0), line(15));
        let gains = greedy_information(&kernel, 0.05, &points, 60);
        for n in [0, 1, 2, 7, 15, 16, 60] {
            let expected = information_gain_bound(&kernel, 0.1, &points, n);
            let found = gains[n] / (1.0 - (-1.0_f64).exp());
            assert!((found - expected).abs() <= 1e-9 * expected, "{n}: {found} {expected}");
        }
    }

    /// With one point of variance 1 and noise 1, Ψ_n = ½ ln(1 + n) and C₂ = 2/ln 2, so every
    /// quantity has a closed form.
    #[test]
    fn the_bound_is_the_formula_of_the_theorem() {
        let kernel = Kernel::isotropic(Family::SquaredExponential, 1, 1.0, 1.0).unwrap();
        let prior = RegretPrior::new(&kernel, 1.0, &line(1), 50).unwrap();
        // The bound on Ψ_1 = ½ ln 2 is exact. The bound on Ψ_2 is at most 2 (½ ln 2).
        let two = prior.bound(2);
        assert!((two.log_price() - 2.0_f64.ln()).abs() < 1e-12);
        assert!(prior.bound(1).log_price().abs() < 1e-15);
        let psi = 6.0_f64.ln_1p() / 2.0;
        assert!(prior.information_gain(6) >= psi && prior.information_gain(6) <= psi / 0.632);
        let beta = 2.0 * (9.0_f64 * 2.0).ln();
        let gain = prior.information_gain(6);
        let expected =
            0.656_233_747_738_434_2 / 6.0 + (2.0 / 2.0_f64.ln() * 2.0 * beta * gain / 6.0).sqrt();
        assert!((two.at(3) - expected).abs() < 1e-12, "{} {expected}", two.at(3));
        let sum: f64 = (1..=1_000_000).map(|t| f64::from(t).powi(-2)).sum();
        assert!((c1() - sum / std::f64::consts::TAU.sqrt()).abs() < 1e-6);
        assert!(two.at(0).is_infinite());
    }

    /// Doubling f and the standard deviation of the noise doubles the bound.
    #[test]
    fn bounds_scale_with_the_objective() {
        let bound = |outputscale: f64, noise: f64| {
            let prior = RegretPrior::new(&kernel(outputscale), noise, &line(20), 60).unwrap();
            prior.bound(3).at(20)
        };
        assert!((bound(4.0, 0.4) / bound(1.0, 0.1) - 2.0).abs() < 1e-12);
    }

    /// After the first rounds, the bound decreases with time, even beyond the greedy choices. It
    /// decreases with the clique size if the noise keeps the price of parallel queries low. With
    /// little noise, the price dominates.
    #[test]
    fn more_rounds_and_more_agents_lower_the_bound_where_they_should() {
        let prior = |noise: f64, n| RegretPrior::new(&kernel(1.0), noise, &line(40), n).unwrap();
        let noisy = prior(4.0, 500);
        let bounds: Vec<f64> = (1..=400).map(|t| noisy.bound(2).at(t)).collect();
        assert!(bounds[20..].is_sorted_by(|a, b| a > b), "{:?}", &bounds[..30]);
        let at = |size, t| noisy.bound(size).at(t);
        assert!(at(3, 200) < at(2, 200) && at(2, 200) < at(1, 200));
        assert_eq!(noisy.best_size(3, 200), 3);
        let short = prior(4.0, 20);
        assert!(
            short.bound(2).at(400) >= noisy.bound(2).at(400) && short.bound(2).at(400).is_finite()
        );
        let exact = prior(1e-6, 500);
        assert!(exact.bound(4).at(100) > exact.bound(1).at(100));
        assert_eq!(exact.best_size(4, 100), 1);
        assert!(exact.bound(5_000).at(1) >= exact.bound(4).at(1));
    }

    #[test]
    fn a_prior_that_cannot_be_bounded_is_refused() {
        let refused = |noise: f64, points: &Points| {
            RegretPrior::new(&kernel(1.0), noise, points, 5).unwrap_err()
        };
        for noise in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300] {
            assert!(matches!(refused(noise, &line(3)), RegretBoundError::Noise { .. }));
        }
        assert!(matches!(refused(1.0, &line(2_001)), RegretBoundError::Points { .. }));
        assert!(matches!(refused(1.0, &line(0)), RegretBoundError::Points { .. }));
        let plane = Points::from_flat(2, vec![0.0; 4]);
        assert!(matches!(refused(1.0, &plane), RegretBoundError::Dimension { .. }));
        let many = RegretPrior::on_unit_cube(&kernel(1.0), 1.0, 1 << 40, 5);
        assert!(matches!(many, Err(RegretBoundError::Points { .. })));
    }
}
