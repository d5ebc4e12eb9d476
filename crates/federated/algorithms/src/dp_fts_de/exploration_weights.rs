//! The weights φ_n^(i), which give an agent more weight in the region to which it is assigned.

use fedbo_strategies::StrategyError;

/// The formula for r_t. φ_n^(i) ∝ r_t if agent n is assigned to region i, and ∝ 1 otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExplorationWeightLaw {
    /// r = exp(a_t − 1), the softmax of (a I + 1)/𝒯_t with 𝒯_t = a/(a_t − 1) (DP-FTS-DE section 3.2
    /// and appendix B).
    Softmax,
    /// r = a_t ("weights 2" of appendix B.2.3).
    Linear,
    /// r = a_t² ("weights 3" of appendix B.2.3).
    Square,
}

/// The formula for the weights and the schedule of a_t. a_t is `start` for the first `hold`
/// releases, then takes `decay` equally spaced values from `start` to 1, both included, and is 1
/// afterwards, which means uniform weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExplorationWeights {
    /// The formula that maps a_t to a ratio of weights.
    pub law: ExplorationWeightLaw,
    /// a_1, at least 1.
    pub start: f64,
    /// Number of releases at the initial value. `None` means forever (the non-adaptive weights of
    /// appendix B.2.5).
    pub hold: Option<u64>,
    /// Number of releases over which a_t decreases to 1.
    pub decay: u64,
}

impl ExplorationWeights {
    /// The weights in the synthetic experiments (appendix B): a = 15, so a_t is 16 for 5 releases,
    /// and weights are uniform after 10.
    pub const SYNTHETIC: Self =
        Self { law: ExplorationWeightLaw::Softmax, start: 16.0, hold: Some(5), decay: 5 };

    /// The weights in the real-world experiments (appendix B): a = 15, so a_t is 16 for 10
    /// releases, and weights are uniform after 40.
    pub const REAL: Self =
        Self { law: ExplorationWeightLaw::Softmax, start: 16.0, hold: Some(10), decay: 30 };

    /// The same weight for every agent in every region.
    pub const UNIFORM: Self =
        Self { law: ExplorationWeightLaw::Linear, start: 1.0, hold: Some(0), decay: 0 };

    /// Checks the initial value a_1.
    ///
    /// # Errors
    /// If a_1 is below 1, not finite, or leads to a weight ratio that is out of range.
    pub fn validate(self) -> Result<Self, StrategyError> {
        if self.start.is_finite() && self.start >= 1.0 && self.ratio_of(self.start) <= 1e100 {
            return Ok(self);
        }
        Err(StrategyError::setting(
            "start of the region weights",
            self.start,
            "a number of at least 1 whose ratio of weights stays below 1e100",
        ))
    }

    /// Returns a_t for the release in server iteration `round` = t − 1 ≥ 0.
    pub fn level(&self, round: u64) -> f64 {
        let Some(hold) = self.hold else {
            return self.start;
        };
        if round < hold {
            return self.start;
        }
        let step = round - hold;
        if step >= self.decay || self.decay == 0 {
            return 1.0;
        }
        if self.decay == 1 {
            return self.start; // a single step consists of the start value
        }
        #[expect(clippy::cast_precision_loss, reason = "numbers of releases are far below 2^53")]
        let share = step as f64 / (self.decay - 1) as f64;
        self.start + share * (1.0 - self.start)
    }

    fn ratio_of(&self, level: f64) -> f64 {
        match self.law {
            ExplorationWeightLaw::Softmax => (level - 1.0).exp(),
            ExplorationWeightLaw::Linear => level,
            ExplorationWeightLaw::Square => level * level,
        }
    }

    /// Returns r_t for the release in server iteration `round`; 1 once the weights are uniform.
    pub fn ratio(&self, round: u64) -> f64 {
        self.ratio_of(self.level(round))
    }

    /// Returns true if all agents have equal weight in the release of `round`, so that one total
    /// contains as much information as P sums.
    pub fn is_uniform(&self, round: u64) -> bool {
        self.level(round) <= 1.0
    }

    /// Returns the first server iteration with uniform weights, if there is one.
    pub fn uniform_from(&self) -> Option<u64> {
        if self.start <= 1.0 {
            return Some(0);
        }
        let hold = self.hold?;
        // With two or more steps, the last step is already at 1.
        Some(hold + if self.decay >= 2 { self.decay - 1 } else { self.decay })
    }

    /// Returns the weights in a region to which `own` of `all` agents are assigned: (weight of each
    /// assigned agent, weight of each other agent). The weights sum to 1 over all agents. If no
    /// agents are assigned to a region, all agents have equal weight.
    pub fn weights(&self, round: u64, own: usize, all: usize) -> (f64, f64) {
        let ratio = self.ratio(round);
        #[expect(clippy::cast_precision_loss, reason = "numbers of agents are far below 2^53")]
        let sum = ratio * own as f64 + (all - own) as f64;
        (ratio / sum, 1.0 / sum)
    }

    /// Returns φ_n^(i) for the release of `round`: P rows of N weights, each of which sums to 1.
    /// Agents are assigned as in [`region_sizes`].
    pub fn agent_weights(&self, round: u64, n_agents: usize, n_regions: usize) -> Vec<Vec<f64>> {
        let row = |(region, size): (usize, usize)| {
            let (inside, outside) = self.weights(round, size, n_agents);
            let of = |agent: usize| match agent % n_regions == region {
                true => inside,
                false => outside,
            };
            (0..n_agents).map(of).collect()
        };
        let sizes = region_sizes(n_agents, n_regions);
        sizes.into_iter().enumerate().map(row).collect()
    }
}

/// Returns the number of agents assigned to each of P regions. Agent n explores region n mod P,
/// which depends only on the agent's index.
///
/// # Panics
/// If `n_regions` is 0.
pub fn region_sizes(n_agents: usize, n_regions: usize) -> Vec<usize> {
    let size = |region| n_agents / n_regions + usize::from(region < n_agents % n_regions);
    (0..n_regions).map(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// a_t = 16, 12.25, 8.5, 4.75, 1 for t = 6, …, 10 in the synthetic experiments (appendix B).
    #[test]
    fn the_schedules_are_those_of_the_paper() {
        let levels: Vec<f64> = (0..12).map(|t| ExplorationWeights::SYNTHETIC.level(t)).collect();
        let expected = [16.0, 16.0, 16.0, 16.0, 16.0, 16.0, 12.25, 8.5, 4.75, 1.0, 1.0, 1.0];
        assert_eq!(levels, expected);
        assert_eq!(ExplorationWeights::SYNTHETIC.uniform_from(), Some(9));
        assert_eq!(ExplorationWeights::REAL.uniform_from(), Some(39));
        for emphasis in
            [ExplorationWeights::SYNTHETIC, ExplorationWeights::REAL, ExplorationWeights::UNIFORM]
        {
            let from = emphasis.uniform_from().unwrap();
            assert!(emphasis.is_uniform(from) && (from == 0 || !emphasis.is_uniform(from - 1)));
        }
        let fixed = ExplorationWeights { hold: None, ..ExplorationWeights::REAL };
        assert!(fixed.uniform_from().is_none() && (fixed.level(10_000) - 16.0).abs() < 1e-15);
    }

    /// exp((a I + 1)/𝒯)/Σ exp((a I + 1)/𝒯) with 𝒯 = a/(a_t − 1), as written in the paper.
    #[test]
    fn softmax_weights_are_the_papers() {
        let (a, own, all) = (15.0, 7, 29);
        for round in 0..10 {
            let temperature = a / (ExplorationWeights::REAL.level(round + 15) - 1.0);
            let (inside, outside) = (((a + 1.0) / temperature).exp(), (1.0 / temperature).exp());
            let sum = 7.0 * inside + 22.0 * outside;
            let found = ExplorationWeights::REAL.weights(round + 15, own, all);
            assert!(
                (found.0 - inside / sum).abs() < 1e-14 && (found.1 - outside / sum).abs() < 1e-14
            );
        }
        let (inside, outside) = ExplorationWeights::REAL.weights(0, 7, 29);
        assert!((inside - 1.0 / 7.0).abs() < 1e-6 && outside < 1e-7); // as in the authors' code
        assert_eq!(ExplorationWeights::REAL.weights(50, 7, 29), (1.0 / 29.0, 1.0 / 29.0));
    }

    #[test]
    fn agents_are_dealt_out_to_regions_and_weigh_1_in_each() {
        assert_eq!(region_sizes(29, 4), [8, 7, 7, 7]);
        assert_eq!(region_sizes(2, 3), [1, 1, 0]);
        for round in [0, 7, 20] {
            let rows = ExplorationWeights::SYNTHETIC.agent_weights(round, 7, 3);
            for (region, row) in rows.iter().enumerate() {
                assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-14);
                let own = row[region]; // the first agent assigned to the region
                let expected = ExplorationWeights::SYNTHETIC.weights(round, [3, 2, 2][region], 7);
                for (agent, weight) in row.iter().enumerate() {
                    let at_home = agent % 3 == region;
                    assert!((weight - if at_home { own } else { expected.1 }).abs() < 1e-15);
                }
                assert!((own - expected.0).abs() < 1e-15);
            }
        }
    }

    #[test]
    fn starts_out_of_range_are_refused() {
        for start in [0.5, f64::NAN, f64::INFINITY, 1000.0] {
            let emphasis = ExplorationWeights { start, ..ExplorationWeights::REAL };
            assert!(emphasis.validate().is_err(), "{start}");
        }
        let linear = ExplorationWeights {
            law: ExplorationWeightLaw::Linear,
            start: 1000.0,
            ..ExplorationWeights::REAL
        };
        assert!(linear.validate().is_ok());
    }
}
