//! The regret guarantee of DP-FTS-DE (DP-FTS-DE Theorem 1 and appendix A.2), with the constants
//! from the proof.
//!
//! Units are the same as in [`crate::fts::regret_bound`]. The regret bound is vacuous at realistic
//! sizes (`papers/dp-fts-de.md`), so no command prints it. ϑ_t, the weight of clipped agents, is
//! useful at any size.

use fedbo_strategies::LocalProb;

use crate::fts::regret_bound::{Assumptions, float};

/// Returns λ = 1 + 2/T, which is added to the diagonal in posteriors (Theorem 1).
///
/// # Panics
/// If T is 0.
#[must_use]
pub fn regularizer(rounds: u64) -> f64 {
    assert!(rounds > 0, "T is at least 1");
    1.0 + 2.0 / float(rounds)
}

/// Returns ϑ_t = (1 − p_t) Σ_i Σ_{n ∈ C_t} φ_n^(i), the weight of clipped agents over all P
/// regions, which is at most (1 − p_t) P (Theorem 1).
///
/// `agent_weights` contains P rows of N weights. C_t is the set of agents with ‖ω_n‖ > S/√P. `clipped`
/// contains N indicators (0 or 1), or N probabilities, in which case the result is an expectation.
///
/// # Panics
/// If the length of a row differs from the length of `clipped`.
#[must_use]
pub fn clipped_weight(local_prob: f64, agent_weights: &[Vec<f64>], clipped: &[f64]) -> f64 {
    let of_region = |weights: &Vec<f64>| -> f64 {
        assert_eq!(weights.len(), clipped.len(), "one weight per agent");
        weights.iter().zip(clipped).map(|(weight, clipped)| weight * clipped).sum()
    };
    (1.0 - local_prob) * agent_weights.iter().map(of_region).sum::<f64>()
}

/// The assumptions of Theorem 1: those of FTS with λ from [`regularizer`], and the mechanism.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseAssumptions<'a> {
    /// B, σ, δ, N, M, ε, γ and |X|. N is the total number of agents.
    pub agents: Assumptions<'a>,
    /// P.
    pub n_regions: u32,
    /// q in (0, 1].
    pub sampling_rate: f64,
    /// z ≥ 0.
    pub noise_multiplier: f64,
    /// S > 0.
    pub max_norm: f64,
}

impl ReleaseAssumptions<'_> {
    /// Returns Δ_t = Σ_n Δ_{n,t} if every agent has t observations, from (7). This is FTS's Lemma 5
    /// with t_n = t. `function_gaps` contains the N values d_n.
    #[must_use]
    pub fn gap(&self, t: u64, function_gaps: &[f64]) -> f64 {
        function_gaps.iter().map(|gap| self.agents.gap(t, t, *gap)).sum()
    }

    /// Returns ψ_t = (1 − p_t) P [((φ_max + 2)/q + 6) Δ_t + B (2/q + N φ_max/q) + (2 z S φ_max/q)
    /// √(2 M ln(8M/δ))] (Lemma 6).
    #[must_use]
    pub fn psi(&self, t: u64, local_prob: f64, weight_max: f64, function_gaps: &[f64]) -> f64 {
        let (q, b) = (self.sampling_rate, self.agents.norm_bound);
        let n = float(self.agents.n_agents as u64);
        let gaps = ((weight_max + 2.0) / q + 6.0) * self.gap(t, function_gaps);
        let values = b * (2.0 + n * weight_max) / q;
        let scale = (1.0 - local_prob) * f64::from(self.n_regions);
        scale * (gaps + values + self.noise_term(weight_max))
    }

    /// Returns (2 z S φ_max/q) √(2 M ln(8M/δ)), a bound on the noise in the difference between two
    /// points that holds with probability 1 − δ/8, from (20).
    #[must_use]
    pub fn noise_term(&self, weight_max: f64) -> f64 {
        let m = float(self.agents.n_features as u64);
        let logs = 2.0 * m * (8.0 * m / self.agents.failure_prob).ln();
        2.0 * self.noise_multiplier * self.max_norm * weight_max / self.sampling_rate * logs.sqrt()
    }

    /// Returns an upper bound on agent 1's cumulative regret R_T that holds with probability 1 − δ
    /// (Lemma 7), with explicit constants instead of O(·) as in [`Assumptions::regret`]. In that
    /// bound, Σ ψ_t becomes Σ (ψ_t + 4 B ϑ_t), and δ/4 in Azuma's inequality becomes δ/8.
    /// `agent_weights` returns the P rows of N weights in a round, and `clipped` the probability
    /// that each agent is clipped in it.
    ///
    /// Deviation: the lemma adds ψ_1 + 4B to the largest change of each step. ϑ_t can be as large
    /// as (1 − p_t) P, so max_t (ψ_t + 4 B ϑ_t) is used here.
    #[must_use]
    pub fn regret(
        &self,
        rounds: u64,
        local_prob: &LocalProb,
        function_gaps: &[f64],
        agent_weights: impl Fn(u64) -> Vec<Vec<f64>>,
        clipped: impl Fn(u64) -> Vec<f64>,
    ) -> f64 {
        let of_round = |t: u64| {
            let (p, weights) = (local_prob.at(t), agent_weights(t));
            let weight_max = weights.iter().flatten().copied().fold(0.0, f64::max);
            self.psi(t, p, weight_max, function_gaps)
                + 4.0 * self.agents.norm_bound * clipped_weight(p, &weights, &clipped(t))
        };
        let of_messages: Vec<f64> = (1..=rounds).map(of_round).collect();
        let azuma_failure = self.agents.failure_prob / 8.0;
        self.agents.regret_with(rounds, local_prob.at(1), &of_messages, azuma_failure)
    }
}

#[cfg(test)]
mod tests {
    use fedbo_gp::{Family, Kernel};
    use fedbo_optim::Points;

    use super::super::clipping::clipped_share;
    use super::super::{ExplorationWeights, region_sizes};
    use super::*;
    use crate::distributed_ts::regret_bound::RegretPrior;

    const ROUNDS: u64 = 40;

    /// B.1.1: 1000 points, ℓ = 0.03; λ = 1 + 2/T.
    fn papers_line(rounds: u64) -> RegretPrior {
        let kernel = Kernel::isotropic(Family::SquaredExponential, 1, 0.03, 1.0).unwrap();
        let grid = Points::from_flat(1, (0..1000).map(|i| f64::from(i) / 999.0).collect());
        RegretPrior::new(&kernel, regularizer(rounds), &grid, 200).unwrap()
    }

    /// Returns the assumptions of the synthetic experiment: N = 200, M = 50, P = 2, q = 0.25,
    /// z = 1, S = 11. ε is at most 1 + 1 for any features.
    fn papers(prior: &RegretPrior) -> ReleaseAssumptions<'_> {
        let agents = Assumptions {
            prior,
            norm_bound: 1.0,
            noise_std: 0.1,
            failure_prob: 0.1,
            n_agents: 200,
            n_features: 50,
            feature_error: 1.0,
        };
        ReleaseAssumptions {
            agents: agents.validate().unwrap(),
            n_regions: 2,
            sampling_rate: 0.25,
            noise_multiplier: 1.0,
            max_norm: 11.0,
        }
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found}, not {expected}");
    }

    #[test]
    fn the_regularizer_is_that_of_the_theorem() {
        close(regularizer(40), 1.05);
        close(regularizer(1), 3.0);
    }

    /// Compares ϑ_t with values computed by hand, for two regions and three agents. The second
    /// agent is always clipped, and the third half of the time. Also covers no clipped agents and
    /// all agents clipped.
    #[test]
    fn the_weight_of_clipped_agents_is_that_of_the_theorem() {
        let weights = [vec![0.5, 0.3, 0.2], vec![0.1, 0.1, 0.8]];
        close(clipped_weight(0.75, &weights, &[0.0, 1.0, 0.5]), 0.25 * (0.4 + 0.5));
        assert!(clipped_weight(0.75, &weights, &[0.0; 3]).abs() < 1e-300);
        close(clipped_weight(0.75, &weights, &[1.0; 3]), 0.25 * 2.0);
        assert!(clipped_weight(1.0, &weights, &[1.0; 3]).abs() < 1e-300);
        // Weights sum to 1 in each region, so equal probabilities give (1 − p_t) P times the
        // probability for any weights.
        for round in [0, 7, 30] {
            let weights = ExplorationWeights::SYNTHETIC.agent_weights(round, 200, 4);
            close(clipped_weight(0.5, &weights, &[0.008; 200]), 0.5 * 4.0 * 0.008);
        }
    }

    /// Computes ψ_t at t = 2 term by term: q = 0.25, φ_max = 0.01, N = 200, M = 50, z = 1, S = 11,
    /// δ = 0.1, 1 − p_2 = 1/4, P = 2.
    #[test]
    fn psi_is_the_formula_of_lemma_6() {
        let prior = papers_line(ROUNDS);
        let papers = papers(&prior);
        let gaps: Vec<f64> = (0..200).map(|n| 0.01 * f64::from(n)).collect();
        let gap = 200.0 * papers.agents.gap(2, 2, 0.0) + 0.01 * 199.0 * 100.0;
        close(papers.gap(2, &gaps), gap);
        // √(100 ln 4000) = 28.799 4…, times 2 · 11 · .01/.25 = .88.
        let noise = 0.88 * (100.0 * 8.294_049_640_1_f64).sqrt();
        close(papers.noise_term(0.01), noise);
        let expected = 0.5 * ((2.01 / 0.25 + 6.0) * gap + 4.0 / 0.25 + noise);
        close(papers.psi(2, 0.75, 0.01, &gaps), expected);
    }

    /// S trades noise against clipping (section 4): a smaller S decreases ψ_t and increases ϑ_t. A
    /// larger q, a smaller z and fewer features decrease ψ_t. With p_t = 1, the other agents have
    /// no influence.
    #[test]
    fn the_trade_offs_are_those_of_section_4() {
        let prior = papers_line(ROUNDS);
        let base = papers(&prior);
        let gaps = [0.02; 200];
        let psi = |release: &ReleaseAssumptions<'_>| release.psi(3, 0.5, 0.01, &gaps);
        assert!(psi(&ReleaseAssumptions { max_norm: 3.0, ..base }) < psi(&base));
        assert!(clipped_share(50.0, 3.0, 2) > clipped_share(50.0, 11.0, 2));
        assert!(psi(&ReleaseAssumptions { sampling_rate: 0.5, ..base }) < psi(&base));
        assert!(psi(&ReleaseAssumptions { noise_multiplier: 1.5, ..base }) > psi(&base));
        let wider = Assumptions { n_features: 100, ..base.agents };
        assert!(psi(&ReleaseAssumptions { agents: wider, ..base }) > psi(&base));
        assert!(base.psi(3, 1.0, 0.01, &gaps).abs() < 1e-300);
    }

    fn excess(rounds: u64, exponent: Option<f64>) -> f64 {
        let prior = papers_line(rounds);
        let papers = papers(&prior);
        // p_1 = 1/2, because the theorem requires p_1 > 0.
        let of_round = |t: u32, exponent: f64| 1.0 - 0.5 * f64::from(t).powf(-exponent);
        let local_prob = match exponent {
            Some(exponent) => LocalProb::List(
                (1..=u32::try_from(rounds).unwrap()).map(|t| of_round(t, exponent)).collect(),
            ),
            None => LocalProb::Constant(1.0),
        };
        let share = clipped_share(50.0, 11.0, 2);
        let regret = papers.regret(
            rounds,
            &local_prob,
            &[0.02; 200],
            |t| ExplorationWeights::SYNTHETIC.agent_weights(t - 1, 200, 2),
            |_| vec![share; 200],
        );
        regret / (2.0 * float(rounds))
    }

    /// Checks the numbers in papers/dp-fts-de.md. At the paper's sizes, the bound is 39,000 times
    /// the maximum possible regret with 1 − p_t = t^(−2)/2, which satisfies the theorem, and 1600
    /// times without messages.
    #[test]
    fn the_bound_is_vacuous_at_the_papers_sizes() {
        for (exponent, expected) in [(None, 1600.0), (Some(2.0), 39_000.0)] {
            let found = excess(ROUNDS, exponent);
            assert!((found / expected - 1.0).abs() < 0.1, "{found}, not about {expected}");
        }
        assert_eq!(region_sizes(200, 2), [100, 100]);
    }

    /// With p_t = 1, the bound is that of standalone Thompson sampling, with δ/8 instead of δ/4 in
    /// Azuma's inequality.
    #[test]
    fn without_releases_the_bound_is_that_of_thompson_sampling() {
        let prior = papers_line(ROUNDS);
        let papers = papers(&prior);
        let alone = LocalProb::Constant(1.0);
        let of = |failure_prob: f64| papers.agents.regret_with(ROUNDS, 1.0, &[], failure_prob);
        let found = papers.regret(
            ROUNDS,
            &alone,
            &[0.02; 200],
            |_| vec![vec![0.005; 200]; 2],
            |_| vec![1.0; 200],
        );
        close(found, of(0.1 / 8.0));
        close(papers.agents.regret(ROUNDS, &alone, &[]), of(0.1 / 4.0));
    }
}
