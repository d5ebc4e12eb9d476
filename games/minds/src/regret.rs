//! Regret on finite games with known payoffs, and the bounds of thesis theorems 8.1 to 8.3.

use crate::GameError;
use crate::error::count;
use crate::ucb::theorem_beta;

/// Noise-free payoffs f_i of one player for all joint actions of a finite game.
#[derive(Clone, Debug, PartialEq)]
pub struct PayoffTable {
    sizes: Vec<usize>,
    values: Vec<f64>,
}

impl PayoffTable {
    /// Creates a table of n_1 × … × n_M payoffs. The last player's index varies fastest.
    ///
    /// # Errors
    /// If the number of values does not match, or a value is not finite.
    pub fn new(sizes: Vec<usize>, values: Vec<f64>) -> Result<Self, GameError> {
        let expected = sizes.iter().product();
        if values.len() != expected || expected == 0 {
            return Err(GameError::Count {
                what: "payoffs of a table",
                found: values.len(),
                expected,
            });
        }
        if let Some(index) = values.iter().position(|v| !v.is_finite()) {
            return Err(GameError::Table { index });
        }
        Ok(Self { sizes, values })
    }

    /// Returns the number of actions of each player.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Returns f_i at a joint action.
    ///
    /// # Panics
    /// If the joint action is not in the table.
    pub fn value(&self, actions: &[usize]) -> f64 {
        assert_eq!(actions.len(), self.sizes.len());
        let number = actions.iter().zip(&self.sizes).fold(0, |number, (action, size)| {
            assert!(action < size, "action {action} of {size}");
            number * size + action
        });
        self.values[number]
    }

    /// Returns the largest payoff.
    pub fn largest(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// Returns the external regret of `player`, R_{i,T} = max_{x_i} Σ_t f_i(x_i, x_{−i,t}) − Σ_t
    /// f_i(x_t) (thesis (8.1)). It can be negative. Cost O(K T).
    ///
    /// # Panics
    /// If a joint action is not in the table.
    pub fn external_regret<A: AsRef<[usize]>>(&self, player: usize, plays: &[A]) -> f64 {
        let earned: f64 = plays.iter().map(|actions| self.value(actions.as_ref())).sum();
        let with = |own: usize| -> f64 {
            let instead = plays.iter().map(|actions| {
                let mut actions = actions.as_ref().to_vec();
                actions[player] = own;
                self.value(&actions)
            });
            instead.sum()
        };
        let best = (0..self.sizes[player]).map(with).fold(f64::NEG_INFINITY, f64::max);
        best - earned
    }

    /// Returns the mean regret T⁻¹ Σ_t (max f_i − f_i(x_t)), which is at least R_{i,T}/T (footnote
    /// 5 of thesis chapter 8), or 0 without rounds.
    ///
    /// # Panics
    /// If a joint action is not in the table.
    pub fn mean_regret<A: AsRef<[usize]>>(&self, plays: &[A]) -> f64 {
        let largest = self.largest();
        let regrets = plays.iter().map(|actions| largest - self.value(actions.as_ref()));
        regrets.sum::<f64>() / count(plays.len().max(1))
    }
}

/// Inputs of the regret bounds. The bounds hold with probability 1 − δ if f_i is drawn from the
/// Gaussian process, β_t is taken from Theorem 8.1 with the same δ, and there are no initial
/// rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegretBound {
    /// |X_i|.
    pub n_actions: usize,
    /// T.
    pub n_rounds: usize,
    /// δ in (0, 1).
    pub failure_prob: f64,
    /// σ_i² > 0.
    pub noise_variance: f64,
    /// a² = k(x, x); 1 in the thesis.
    pub outputscale: f64,
    /// γ_T, or the information gain of the actual history
    /// ([`crate::PayoffModel::information_gain`]). The latter is smaller and sufficient, since
    /// Lemma 5.3 of Srinivas et al. (2010) concerns the joint actions that were played.
    pub information_gain: f64,
}

impl RegretBound {
    /// Returns C_1 = 8/ln(1 + σ⁻²); for any a², 8 a²/ln(1 + a²/σ²).
    pub fn c1(&self) -> f64 {
        8.0 * self.outputscale / (self.outputscale / self.noise_variance).ln_1p()
    }

    /// Returns β_T = 2 ln(|X_i| T² π²/(3δ)).
    pub fn beta(&self) -> f64 {
        theorem_beta(self.n_actions, self.n_rounds, self.failure_prob)
    }

    /// Returns √(C_1 T β_T γ_T), the bound for level k ≥ 2 against level k − 1 (Theorem 8.3) and
    /// for the expectation at level 1 (Theorem 8.2).
    pub fn reasoning(&self) -> f64 {
        (self.c1() * count(self.n_rounds) * self.beta() * self.information_gain).sqrt()
    }

    /// Returns √(T ln|X_i|/2) + √(T ln(2/δ)/2) + √(C_1 T β_T γ_T), the bound for GP-MW with payoffs
    /// in [0, 1] and η = √(8 ln|X_i|/T). These are the terms of Theorem 8.1 with the constants of
    /// Cesa-Bianchi & Lugosi (2006, chapters 2 and 4), which imply the theorem.
    pub fn gp_mw(&self) -> f64 {
        let half = count(self.n_rounds) / 2.0;
        let learning = (half * count(self.n_actions).ln()).sqrt();
        let chance = (half * (2.0 / self.failure_prob).ln()).sqrt();
        learning + chance + self.reasoning()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand for player 1 of a 2×3 game, and for the second of three players.
    #[test]
    fn regrets_are_those_by_hand() {
        let table = PayoffTable::new(vec![2, 3], vec![1.0, 5.0, 0.0, 2.0, 3.0, 4.0]).unwrap();
        let plays = [[0, 0], [1, 2], [0, 1]];
        // The plays earn 1 + 4 + 5 = 10. Always playing row 0 earns 1 + 0 + 5, and row 1 earns 2 +
        // 4 + 3. The columns earn 4, 13 and 4.
        assert!((table.external_regret(0, &plays) - (9.0 - 10.0)).abs() < 1e-12);
        assert!((table.external_regret(1, &plays) - (13.0 - 10.0)).abs() < 1e-12);
        assert!((table.mean_regret(&plays) - 5.0 / 3.0).abs() < 1e-12);
        let values = (0..12_u8).map(f64::from).collect();
        let three = PayoffTable::new(vec![2, 3, 2], values).unwrap();
        assert!((three.value(&[1, 2, 0]) - 10.0).abs() < 1e-12);
        assert!((three.external_regret(1, &[[0, 0, 1], [1, 1, 0]]) - 6.0).abs() < 1e-12);
        assert!(PayoffTable::new(vec![2, 2], vec![0.0; 3]).is_err());
        let defective = PayoffTable::new(vec![1, 2], vec![0.0, f64::NAN]);
        assert_eq!(defective, Err(GameError::Table { index: 1 }));
    }

    /// Computed by hand for |X| = 100, T = 150, δ = 0.1, σ² = 0.01, γ = 20.
    #[test]
    fn bounds_are_the_published_ones() {
        let bound = RegretBound {
            n_actions: 100,
            n_rounds: 150,
            failure_prob: 0.1,
            noise_variance: 0.01,
            outputscale: 1.0,
            information_gain: 20.0,
        };
        let beta = 2.0 * (100.0 * 22_500.0 * std::f64::consts::PI.powi(2) / 0.3).ln();
        let reasoning = (8.0 / 101.0_f64.ln() * 150.0 * beta * 20.0).sqrt();
        assert!((bound.beta() - beta).abs() < 1e-9);
        assert!((bound.reasoning() - reasoning).abs() < 1e-9);
        let others = (75.0 * 100.0_f64.ln()).sqrt() + (75.0 * 20.0_f64.ln()).sqrt();
        assert!((bound.gp_mw() - reasoning - others).abs() < 1e-9);
        let scaled = RegretBound { outputscale: 4.0, noise_variance: 0.04, ..bound };
        assert!((scaled.c1() - 4.0 * bound.c1()).abs() < 1e-12);
    }
}
