//! The alignment of agents' vectors, estimated only from releases, and the fraction of hostile
//! agents that a sum withstands.

/// The energy of a mean of releases, and the parts of it that are not due to the mean of the
/// agents' vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Energy {
    /// Σ_i ‖ω^(i)‖² over regions.
    pub(crate) total: f64,
    /// Σ_i E‖noise^(i)‖².
    pub(crate) noise: f64,
    /// Upper bound on the energy that random sampling of agents adds, summed over regions i, in
    /// units of C², the squared maximum norm of a vector.
    pub(crate) sampling: f64,
    /// P.
    pub(crate) n_regions: u32,
    /// Number of coordinates per region that the energies cover.
    pub(crate) n_numbers: usize,
}

impl Energy {
    /// Returns 1 − E‖noise‖²/‖ω‖², at least 0: the fraction of the energy that is not noise.
    pub(crate) fn signal_share(&self) -> f64 {
        if self.total > 0.0 { (1.0 - self.noise / self.total).max(0.0) } else { 0.0 }
    }

    /// Estimates the alignment of vectors that are clipped to norm S/√P, where S = `max_norm`.
    pub(crate) fn alignment(&self, max_norm: f64) -> Alignment {
        // P C², C = S/√P.
        let largest = max_norm * max_norm;
        let mean_of_regions = |sum: f64| sum / f64::from(self.n_regions.max(1));
        let energy = (self.total - self.noise) / largest - mean_of_regions(self.sampling);
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let spread = (2.0 / self.n_numbers.max(1) as f64).sqrt() * self.noise / largest;
        Alignment {
            rho: energy.clamp(0.0, 1.0).sqrt(),
            noise_alone: (2.0 * spread).min(1.0).sqrt(),
            n_regions: self.n_regions.max(1),
            hostile_weight: 1.0,
        }
    }
}

/// An estimate of ρ, the norm of the mean of the agents' vectors divided by the maximum norm C =
/// S/√P of a vector. ρ is 1 if all agents send the same vector with norm C, and about 1/√N if
/// vectors of norm C are unrelated.
///
/// ρ̂² = (1/P) Σ_i ( (‖ω^(i)‖² − M v_i)/C² − s_i ),   s_i = (1 − q)/q Σ_n (φ_n^(i))²
///
/// clipped to `[0, 1]`. ω^(i) = (1/q) Σ_n φ_n^(i) x_n + noise is a region's mean as agents use it
/// (M numbers, in units of the vectors x_n), and there are P of them. The weights φ^(i) sum to 1
/// over all N agents, including those that sent nothing. v_i is the variance of the noise in each
/// number, after applying the weights and 1/q. If agents have equal weight in all regions, every
/// ω^(i) is (1/(qN)) Σ_n x_n + noise. s_i (dimensionless) is the energy that sampling agents with
/// probability q adds to the mean. It is exact for vectors of norm C, too large for shorter ones,
/// and 0 for q = 1. For a mean over releases, ω, v and s refer to the mean.
///
/// Apart from the clipping to `[0, 1]`, ρ̂² is unbiased if all vectors have norm C or q = 1. Its
/// square root ρ̂ is slightly too small if the noise is large. It is computed from released and
/// announced numbers, so it has no privacy cost. Hostile agents are included like all others, and
/// can increase or decrease it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alignment {
    rho: f64,
    noise_alone: f64,
    n_regions: u32,
    hostile_weight: f64,
}

impl Alignment {
    /// Sets the maximum norm of a hostile agent's vector relative to an honest one; infinite if
    /// nothing bounds the vector.
    #[must_use]
    pub fn with_hostile_weight(self, hostile_weight: f64) -> Self {
        Self { hostile_weight, ..self }
    }

    /// Returns ρ̂, in `[0, 1]`.
    #[must_use]
    pub fn rho(&self) -> f64 {
        self.rho
    }

    /// Returns the largest ρ̂ that pure noise is likely to produce: the square root of two standard
    /// deviations of the noise energy, 2 √(2/M) M v/C². A lower estimate is not significant.
    #[must_use]
    pub fn noise_alone(&self) -> f64 {
        self.noise_alone
    }

    /// Returns true if the estimate exceeds [`Self::noise_alone`].
    #[must_use]
    pub fn is_seen(&self) -> bool {
        self.rho > self.noise_alone
    }

    /// Returns ρ̂/(w + ρ̂), where w is the weight of a hostile agent. A smaller fraction of
    /// colluding agents cannot reverse the direction of the sum.
    ///
    /// If m of N agents send −C w along the mean of the others, the sum vanishes when (1 − m/N) ρ =
    /// (m/N) w.
    #[must_use]
    pub fn breakdown(&self) -> f64 {
        if self.hostile_weight.is_finite() && self.rho > 0.0 {
            self.rho / (self.hostile_weight + self.rho)
        } else {
            0.0
        }
    }

    /// Returns [`Alignment::breakdown`] divided by P: the fraction of all agents that can reverse
    /// one region's sum if they can choose their slots.
    #[must_use]
    pub fn breakdown_of_region(&self) -> f64 {
        self.breakdown() / f64::from(self.n_regions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakdown_is_where_nothing_is_left_of_the_sum() {
        let energy = Energy { total: 0.98, noise: 0.0, sampling: 0.0, n_regions: 2, n_numbers: 5 };
        let alignment = energy.alignment(2.0_f64.sqrt());
        assert!((alignment.rho() - 0.7).abs() < 1e-12 && alignment.is_seen());
        for weight in [1.0, 10.0] {
            let share = alignment.with_hostile_weight(weight).breakdown();
            assert!(((1.0 - share) * 0.7 - share * weight).abs() < 1e-12);
        }
        assert!((alignment.breakdown_of_region() - alignment.breakdown() / 2.0).abs() < 1e-15);
        assert!(alignment.with_hostile_weight(f64::INFINITY).breakdown().abs() < 1e-300);
        // Nothing is clipped, so vectors have no bound and the sum withstands no hostile agents.
        assert!(energy.alignment(f64::INFINITY).breakdown().abs() < 1e-300);
    }
}
