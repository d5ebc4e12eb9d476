//! The regret guarantee of federated Thompson sampling (FTS Theorem 1 and appendix C), with the
//! constants from the proof.
//!
//! All values are in units of the objective's prior standard deviation a, because the theorem
//! assumes k(x, x) ≤ 1. The regret bound far exceeds the maximum possible regret, even after
//! 100,000 rounds (`papers/fts.md`), so no command prints it. The condition on p_t can be checked
//! at any size.

use std::f64::consts::PI;

use fedbo_strategies::{LocalProb, StrategyError};

use crate::distributed_ts::regret_bound::RegretPrior;

/// Returns p = 1/(4 e √π) = 0.0519, the minimum probability that a draw from the agent's own
/// posterior exceeds the objective (Lemma 6).
#[must_use]
pub fn optimism() -> f64 {
    1.0 / (4.0 * std::f64::consts::E * PI.sqrt())
}

/// Number of initial rounds without a guarantee, because Lemma 7 is vacuous (p − 1/t² ≤ 0) or (25)
/// is false.
const N_UNPROVED: u64 = 4;

/// Another agent, as described by the theorem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peer {
    /// P_N\[n\], the probability that the agent's message is used.
    pub weight: f64,
    /// t_n, the agent's number of observations.
    pub n_observations: u64,
    /// d_n = max |f − g_n|, in units of a.
    pub function_gap: f64,
}

/// The assumptions of Theorem 1, in units of the signal's standard deviation a.
#[derive(Clone, Copy, Debug)]
pub struct Assumptions<'a> {
    /// The prior, which determines γ_t and |X|. The prior's noise variance is λ, which is added to
    /// the diagonal in the posterior: σ² in FTS, and 1 + 2/T in DP-FTS-DE. γ is an upper bound, so
    /// every quantity computed from it is also an upper bound.
    pub prior: &'a RegretPrior,
    /// B ≥ ‖f‖_k, ‖g_n‖_k.
    pub norm_bound: f64,
    /// σ, the standard deviation of observation noise.
    pub noise_std: f64,
    /// δ in (0, 1).
    pub failure_prob: f64,
    /// N.
    pub n_agents: usize,
    /// M.
    pub n_features: usize,
    /// ε ≥ sup |k(x, x') − φ(x)·φ(x')|.
    pub feature_error: f64,
}

impl Assumptions<'_> {
    /// Checks the numbers.
    ///
    /// # Errors
    /// If a number is out of range. The error names the first such number.
    pub fn validate(self) -> Result<Self, StrategyError> {
        for (name, value) in [
            ("norm_bound", self.norm_bound),
            ("noise_std", self.noise_std),
            ("feature_error", self.feature_error),
        ] {
            StrategyError::ensure(
                value.is_finite() && value >= 0.0,
                name,
                value,
                "a finite number of at least 0",
            )?;
        }
        StrategyError::ensure(
            self.failure_prob > 0.0 && self.failure_prob < 1.0,
            "failure_prob",
            self.failure_prob,
            "a number between 0 and 1, ends excluded",
        )?;
        for (name, count) in [("n_agents", self.n_agents), ("n_features", self.n_features)] {
            StrategyError::ensure(count > 0, name, 0.0, "at least 1")?;
        }
        Ok(self)
    }

    /// Returns B + σ √(2 (γ_{t−1} + 1 + ln(1/failure))).
    fn confidence(&self, t: u64, failure: f64) -> f64 {
        let gain = self.prior.information_gain(t.saturating_sub(1));
        self.norm_bound + self.noise_std * (2.0 * (gain + 1.0 - failure.ln())).sqrt()
    }

    /// Returns β_t = B + σ √(2 (γ_{t−1} + 1 + ln(4/δ))) (Theorem 1), with which |μ_{t−1} − f| ≤ β_t
    /// σ_{t−1} (Lemma 1).
    #[must_use]
    pub fn beta(&self, t: u64) -> f64 {
        self.confidence(t, self.failure_prob / 4.0)
    }

    /// Returns β'_t = B + σ √(2 (γ_{t−1} + 1 + ln(8N/δ))), the same bound for N other agents
    /// simultaneously (Lemma 4).
    #[must_use]
    pub fn beta_of_all(&self, t: u64) -> f64 {
        self.confidence(t, self.failure_prob / (8.0 * float(self.n_agents as u64)))
    }

    /// Returns c_t = β_t (1 + √(2 ln(|X| t²))) (Theorem 1), for which |f − f_t| ≤ c_t σ_{t−1} for a
    /// draw f_t from the agent's own posterior, from (12).
    #[must_use]
    pub fn c(&self, t: u64) -> f64 {
        let logs = float(self.prior.n_points() as u64).ln() + 2.0 * float(t.max(1)).ln();
        self.beta(t) * (1.0 + (2.0 * logs).sqrt())
    }

    /// Returns ε (t_n + 1)²/λ (B + √(2 ln(4π²t²N/(3δ)))), a bound on how much the feature
    /// approximation changes a posterior mean given t_n observations, from (10).
    #[must_use]
    pub fn feature_term(&self, t: u64, n_observations: u64) -> f64 {
        let n = float(n_observations) + 1.0;
        let noise = (2.0 * self.log_of_rounds(t, 4.0)).sqrt();
        self.feature_error * n * n / self.prior.noise_ratio() * (self.norm_bound + noise)
    }

    /// Returns √(2 ln(2π²t²N/(3δ)) + M), the distance between a message's function and its
    /// posterior mean (Lemma 3).
    ///
    /// The root covers the whole expression, as in (9). As typeset in the statement, the root ends
    /// before M.
    #[must_use]
    pub fn draw_term(&self, t: u64) -> f64 {
        (2.0 * self.log_of_rounds(t, 2.0) + float(self.n_features as u64)).sqrt()
    }

    /// Returns ln(factor π² t² N/(3δ)).
    fn log_of_rounds(&self, t: u64, factor: f64) -> f64 {
        let agents = float(self.n_agents as u64);
        (factor * PI * PI * agents / (3.0 * self.failure_prob)).ln() + 2.0 * float(t.max(1)).ln()
    }

    /// Returns Δ̃_{n,t} = feature term + β'_{t_n+1} + draw term, the distance between an agent's
    /// message and that agent's objective (Lemma 4).
    #[must_use]
    pub fn message_gap(&self, t: u64, n_observations: u64) -> f64 {
        let confidence = self.beta_of_all(n_observations.saturating_add(1));
        self.feature_term(t, n_observations) + confidence + self.draw_term(t)
    }

    /// Returns Δ_{n,t} = Δ̃_{n,t} + d_n + c_t, the distance between another agent's message and the
    /// agent's own draw (Lemma 5).
    #[must_use]
    pub fn gap(&self, t: u64, n_observations: u64, function_gap: f64) -> f64 {
        self.message_gap(t, n_observations) + function_gap + self.c(t)
    }

    /// Returns ψ_t = 2 (1 − p_t) Σ_n P_N\[n\] Δ_{n,t} (Theorem 1), the regret that the messages in
    /// round t can add.
    #[must_use]
    pub fn psi(&self, t: u64, local_prob: &LocalProb, peers: &[Peer]) -> f64 {
        let gap = |peer: &Peer| peer.weight * self.gap(t, peer.n_observations, peer.function_gap);
        2.0 * (1.0 - local_prob.at(t)) * peers.iter().map(gap).sum::<f64>()
    }

    /// Returns the rounds t ≤ `rounds` in which p_t violates a condition of Theorem 1: p_t in (0,
    /// 1], p_t non-decreasing, and (1 − p_t) c_t ≤ (1 − p_1) c_1. The condition p_t → 1 cannot be
    /// checked on finitely many rounds.
    #[must_use]
    pub fn broken_conditions(&self, local_prob: &LocalProb, rounds: u64) -> Vec<u64> {
        let first = (1.0 - local_prob.at(1)) * self.c(1);
        let is_broken = |t: u64| {
            let p = local_prob.at(t);
            let falls = t > 1 && p < local_prob.at(t - 1);
            !(p > 0.0 && p <= 1.0) || falls || (1.0 - p) * self.c(t) > first * (1.0 + 1e-12)
        };
        (1..=rounds).filter(|t| is_broken(*t)).collect()
    }

    /// Returns an upper bound on the cumulative regret R_T that holds with probability 1 − δ (Lemma
    /// 11), with explicit constants instead of O(·):
    ///
    /// 2B min(T, 4) + c_T (1 + 10/(p p_1)) √(2 T γ_T/ln(1 + λ⁻¹)) + Σ_t ψ_t + B π²/3
    ///   + (c_T (1 + 4B/p + 10/(p p_1)) + max_t ψ_t) √(2 T ln(4/δ))
    ///
    /// Σ_t σ_{t−1}(x_t) ≤ √(2 T γ_T/ln(1 + λ⁻¹)) follows from lemmas 5.3 and 5.4 of Srinivas et al.
    /// (2010). max_t ψ_t needs no condition on p_t.
    ///
    /// Deviation: (25) in the proof, 1/(p − 1/t²) ≤ 5/p for all t ≥ 1, holds only from t = 5 on.
    /// Each of the first four rounds counts as 2B. Infinite if p_1 = 0.
    #[must_use]
    pub fn regret(&self, rounds: u64, local_prob: &LocalProb, peers: &[Peer]) -> f64 {
        let psi: Vec<f64> = (1..=rounds).map(|t| self.psi(t, local_prob, peers)).collect();
        self.regret_with(rounds, local_prob.at(1), &psi, self.failure_prob / 4.0)
    }

    /// Returns the same bound for given message terms, one per round, and a given failure
    /// probability in Azuma's inequality.
    pub(crate) fn regret_with(
        &self,
        rounds: u64,
        first_local_prob: f64,
        of_messages: &[f64],
        azuma_failure: f64,
    ) -> f64 {
        let (t, b, p) = (float(rounds), self.norm_bound, optimism());
        let draws = 10.0 / (p * first_local_prob);
        let gain = self.prior.information_gain(rounds);
        let spreads = (2.0 * t * gain / (1.0 / self.prior.noise_ratio()).ln_1p()).sqrt();
        let c = self.c(rounds);
        let largest = of_messages.iter().copied().fold(0.0, f64::max);
        let deviation = (-2.0 * t * azuma_failure.ln()).sqrt();
        2.0 * b * float(rounds.min(N_UNPROVED))
            + c * (1.0 + draws) * spreads
            + of_messages.iter().sum::<f64>()
            + b * PI * PI / 3.0
            + (c * (1.0 + 4.0 * b / p + draws) + largest) * deviation
    }
}

#[expect(clippy::cast_precision_loss, reason = "rounds and counts are far below 2^53")]
pub(crate) fn float(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use fedbo_gp::{Family, FeatureDescription, Kernel, LengthscaleLaw};
    use fedbo_optim::Points;
    use fedbo_strategies::UcbMultiplier;

    use super::*;

    /// One point with variance 1 and noise 1. Ψ_1 = ½ ln 2, so every quantity has a closed form.
    fn one_point() -> RegretPrior {
        let kernel = Kernel::isotropic(Family::SquaredExponential, 1, 1.0, 1.0).unwrap();
        RegretPrior::new(&kernel, 1.0, &Points::from_flat(1, vec![0.0]), 50).unwrap()
    }

    fn assumed(prior: &RegretPrior) -> Assumptions<'_> {
        let assumptions = Assumptions {
            prior,
            norm_bound: 2.0,
            noise_std: 1.0,
            failure_prob: 0.1,
            n_agents: 3,
            n_features: 50,
            feature_error: 0.2,
        };
        assumptions.validate().unwrap()
    }

    /// FTS section 5.1: a grid of 1000 points, ℓ = 0.03, σ² = 0.01; N = 50 agents.
    fn papers_line() -> RegretPrior {
        let kernel = Kernel::isotropic(Family::SquaredExponential, 1, 0.03, 1.0).unwrap();
        let grid = Points::from_flat(1, (0..1000).map(|i| f64::from(i) / 999.0).collect());
        RegretPrior::new(&kernel, 0.01, &grid, 400).unwrap()
    }

    fn of_papers_line(prior: &RegretPrior) -> Assumptions<'_> {
        let assumptions = Assumptions {
            prior,
            norm_bound: 1.0,
            noise_std: 0.1,
            failure_prob: 0.1,
            n_agents: 50,
            n_features: 100,
            feature_error: 1.0,
        };
        assumptions.validate().unwrap()
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found}, not {expected}");
    }

    /// Every quantity at t = 2 and t_n = 1 with |X| = 1, γ_1 = ½ ln 2, B = 2, σ = λ = 1, δ = 0.1,
    /// N = 3, M = 50, ε = 0.2, computed independently of this code to ten digits.
    #[test]
    fn every_quantity_is_the_formula_of_the_paper() {
        let prior = one_point();
        let assumed = assumed(&prior);
        let gain = 0.346_573_590_3;
        close(assumed.beta(1), 2.0 + (2.0 * (1.0 + 3.688_879_454_1_f64)).sqrt());
        close(assumed.beta(2), 2.0 + (2.0 * (gain + 4.688_879_454_1_f64)).sqrt());
        close(assumed.c(2), 5.173_469_093_7 * (1.0 + 1.665_109_222_3));
        close(assumed.beta_of_all(2), 2.0 + (2.0 * (gain + 1.0 + 5.480_638_923_3_f64)).sqrt());
        // ln(4 π² 4 3/(3 · 0.1)) = ln 1579.1367 = 7.364 633 3. The draw term has half the argument:
        // ln 789.568 35.
        let rounds = (16.0 * PI * PI * 3.0 / 0.3_f64).ln();
        assert!((rounds - 7.364_633_3).abs() < 1e-6, "{rounds}");
        close(assumed.feature_term(2, 1), 0.2 * 4.0 * (2.0 + (2.0 * rounds).sqrt()));
        close(assumed.draw_term(2), (2.0 * (rounds - 2.0_f64.ln()) + 50.0).sqrt());
        let message = assumed.feature_term(2, 1) + assumed.beta_of_all(2) + assumed.draw_term(2);
        close(assumed.message_gap(2, 1), message);
        close(assumed.gap(2, 1, 0.7), message + 0.7 + assumed.c(2));
        let peers = [
            Peer { weight: 0.25, n_observations: 1, function_gap: 0.7 },
            Peer { weight: 0.75, n_observations: 4, function_gap: 0.0 },
        ];
        let expected = 0.25 * assumed.gap(2, 1, 0.7) + 0.75 * assumed.gap(2, 4, 0.0);
        // p_2 = 3/4.
        close(assumed.psi(2, &LocalProb::InverseSquare, &peers), 2.0 * 0.25 * expected);
        assert!((optimism() - 0.051_888_5).abs() < 1e-7, "{}", optimism());
    }

    /// The failure probabilities in the proof add up: Σ_t 3δ/(2π²t²) = δ/4 (Lemma 3), and half of
    /// that for (10). The logarithms are therefore those of a union bound over all rounds and
    /// agents.
    #[test]
    fn the_logarithms_are_those_of_a_union_bound() {
        let prior = one_point();
        let assumed = assumed(&prior);
        let total = |factor: f64| {
            let failure = |t: u64| 3.0 * (-assumed.log_of_rounds(t, factor)).exp();
            (1..200_000).map(failure).sum::<f64>()
        };
        assert!((total(2.0) - 0.1 / 4.0).abs() < 1e-6, "{}", total(2.0));
        assert!((total(4.0) - 0.1 / 8.0).abs() < 1e-6, "{}", total(4.0));
    }

    /// β_t agrees with the schedule in the strategies, which bounds γ only by greedy choices. The
    /// two are equal while there is no gain. Later, this one is smaller, because its bound on the
    /// gain is tighter, by a factor of no less than 1 − 1/e.
    #[test]
    fn beta_is_that_of_the_strategies() {
        let kernel = Kernel::isotropic(Family::Matern52, 1, 0.3, 1.0).unwrap();
        let points = Points::from_flat(1, (0..40).map(|i| f64::from(i) / 40.0).collect());
        let prior = RegretPrior::new(&kernel, 0.04, &points, 60).unwrap();
        let assumed = Assumptions { noise_std: 0.2, ..assumed(&prior) };
        let schedule = UcbMultiplier::Theorem1 { norm_bound: 2.0, failure_prob: 0.1 };
        close(assumed.beta(1), schedule.at(1, &kernel, 0.04, &points));
        for t in 2..=30 {
            let (here, there) = (assumed.beta(t), schedule.at(t, &kernel, 0.04, &points));
            assert!(here <= there * (1.0 + 1e-12) && here - 2.0 > 0.79 * (there - 2.0), "{t}");
        }
    }

    /// With p_t = 1, the bound is that of standalone Thompson sampling: there is no message term,
    /// regardless of the other agents. A smaller p_t, different objectives and more observations of
    /// others increase the bound, as in section 4.
    #[test]
    fn without_messages_the_bound_is_that_of_thompson_sampling() {
        let prior = papers_line();
        let assumed = of_papers_line(&prior);
        let peer =
            |n_observations, function_gap| [Peer { weight: 1.0, n_observations, function_gap }];
        let alone = LocalProb::Constant(1.0);
        assert!(assumed.psi(7, &alone, &peer(10, 1.0)).abs() < 1e-300);
        let bound = |p: &LocalProb, peers: &[Peer]| assumed.regret(50, p, peers);
        close(
            bound(&alone, &peer(40, 9.0)),
            bound(&LocalProb::InverseSquare, &[]) - {
                // p_1 = 3/4 instead of 1 changes only the first factor.
                let draws = 10.0 / optimism() * (1.0 / 0.75 - 1.0);
                let gain = prior.information_gain(50);
                let spreads = (100.0 * gain / 101.0_f64.ln()).sqrt();
                assumed.c(50) * draws * (spreads + (100.0 * 40.0_f64.ln()).sqrt())
            },
        );
        let usual = bound(&LocalProb::InverseSquare, &peer(10, 0.1));
        assert!(usual > bound(&alone, &peer(10, 0.1)));
        assert!(bound(&LocalProb::InverseSqrt, &peer(10, 0.1)) > usual);
        assert!(bound(&LocalProb::InverseSquare, &peer(10, 5.0)) > usual);
        assert!(bound(&LocalProb::InverseSquare, &peer(20, 0.1)) > usual);
        assert!(bound(&LocalProb::Power(1.0), &peer(10, 0.1)).is_infinite());
    }

    /// The paper's own schedules begin with p_1 = p_2, so (1 − p_2) c_2 > (1 − p_1) c_1. They
    /// violate the condition in round 2 and in no later round. 1 − t^(−2)/2, with p_1 = 1/2,
    /// satisfies it. The schedules of DP-FTS-DE have p_1 = 0.
    #[test]
    fn the_condition_on_p_is_that_of_the_theorem() {
        let prior = papers_line();
        let assumed = of_papers_line(&prior);
        let broken = |p: &LocalProb| assumed.broken_conditions(p, 100);
        assert_eq!(broken(&LocalProb::InverseSquare), [2]);
        assert_eq!(broken(&LocalProb::Power(1.0)), [1]);
        assert!(broken(&LocalProb::Constant(1.0)).is_empty());
        assert_eq!(broken(&LocalProb::List(vec![0.5, 0.9, 0.8, 1.0])), [3]);
        // β_t grows, so with a constant probability of messages, every round after the first
        // violates the condition.
        assert_eq!(broken(&LocalProb::Constant(0.5)).len(), 99);
        let kept = (1..=100).map(|t| 1.0 - 0.5 / f64::from(t).powi(2)).collect();
        assert!(broken(&LocalProb::List(kept)).is_empty());
    }

    /// More features decrease the feature term through their error and increase the draw term. With
    /// ε as in Rahimi & Recht, Δ decreases from M = 100 to M = 1000 for agents with 50 observations
    /// and increases for agents without observations, as in section 4 (t_n = Ω(√(M/B))).
    #[test]
    fn more_features_help_agents_with_many_observations_alone() {
        let prior = one_point();
        let gap = |n_features: usize, n_observations: u64, scale: f64| {
            let description = FeatureDescription::random(n_features, 1, LengthscaleLaw::Fixed(0.3));
            let feature_error = scale * description.uniform_error(0.1);
            let assumed = Assumptions { n_features, feature_error, ..assumed(&prior) };
            assumed.gap(10, n_observations, 0.0)
        };
        assert!(gap(1000, 50, 1.0) < gap(100, 50, 1.0));
        // If the feature error is small, the draw term dominates.
        assert!(gap(1000, 0, 1.0) > gap(100, 0, 1.0));
        assert!(gap(1000, 50, 0.0) > gap(100, 50, 0.0));
    }

    /// Checks the numbers in papers/fts.md. At the paper's sizes and long afterwards, the bound is
    /// hundreds of times the maximum possible regret 2BT, although the ratio decreases. With
    /// messages, it is even higher, solely because of the feature term.
    #[test]
    fn the_bound_is_vacuous_at_usual_sizes() {
        let kernel = Kernel::isotropic(Family::SquaredExponential, 1, 0.03, 1.0).unwrap();
        let grid = Points::from_flat(1, (0..200).map(|i| f64::from(i) / 199.0).collect());
        let prior = RegretPrior::new(&kernel, 0.01, &grid, 4000).unwrap();
        let assumed = of_papers_line(&prior);
        let peers = [Peer { weight: 1.0, n_observations: 40, function_gap: 0.1 }];
        let excess = |rounds: u64, p: &LocalProb| {
            assumed.regret(rounds, p, &peers) / (2.0 * assumed.norm_bound * float(rounds))
        };
        let (alone, fts) = (LocalProb::Constant(1.0), LocalProb::InverseSquare);
        for (found, expected) in [
            (excess(50, &alone), 2000.0),
            (excess(100_000, &alone), 290.0),
            (excess(50, &fts), 1e5),
            (assumed.beta(10), 1.7),
            (assumed.c(10), 9.2),
            (assumed.feature_term(10, 40), 1.04e6),
            (assumed.draw_term(10), 11.2),
            (assumed.beta_of_all(41), 2.4),
        ] {
            assert!((found / expected - 1.0).abs() < 0.15, "{found}, not about {expected}");
        }
        // The average regret vanishes in the limit.
        assert!(excess(100_000, &alone) < 0.5 * excess(1000, &alone));
    }

    #[test]
    fn assumptions_out_of_range_are_refused() {
        let prior = one_point();
        let good = assumed(&prior);
        for bad in [
            Assumptions { norm_bound: -1.0, ..good },
            Assumptions { noise_std: f64::NAN, ..good },
            Assumptions { feature_error: f64::INFINITY, ..good },
            Assumptions { failure_prob: 1.0, ..good },
            Assumptions { failure_prob: 0.0, ..good },
            Assumptions { n_agents: 0, ..good },
            Assumptions { n_features: 0, ..good },
        ] {
            assert!(matches!(bad.validate(), Err(StrategyError::Setting { .. })), "{bad:?}");
        }
    }
}
