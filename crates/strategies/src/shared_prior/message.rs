//! The message of a party to the others.

use std::fmt;

use fedbo_gp::{FunctionBasis, WeightStatistics};

use crate::{StrategyError, Surrogate};

/// A party's message: what its outputs say of the coefficients of the shared functions, and the point of its best output.
#[derive(Clone, PartialEq)]
pub struct SharedMessage {
    /// A and b, in units of the party's own.
    pub statistics: WeightStatistics,
    /// The point (d), if the party sends it and has one.
    pub best: Option<Vec<f64>>,
}

impl fmt::Debug for SharedMessage {
    /// Prints lengths only: what is known of an objective stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let best = if self.best.is_some() { "a best point" } else { "no best point" };
        write!(f, "SharedMessage {{ {:?}, {best} }}", self.statistics)
    }
}

/// In place of a coordinate of a best point that there is none.
const NO_POINT: f64 = -1.0;

impl SharedMessage {
    /// The number of numbers of a message: r(r + 3)/2 + d.
    pub fn n_numbers(rank: usize, dim: usize) -> usize {
        WeightStatistics::n_numbers(rank) + dim
    }

    /// The numbers that are sent: those of the statistics, then the best point, −1 in each coordinate if there is none.
    pub fn numbers(&self, dim: usize) -> Vec<f64> {
        let mut numbers = self.statistics.numbers();
        match &self.best {
            Some(best) => numbers.extend(best),
            None => numbers.resize(numbers.len() + dim, NO_POINT),
        }
        numbers
    }

    /// Reads what was sent.
    ///
    /// # Errors
    /// If the length is another than [`SharedMessage::n_numbers`], a number is not finite, or a coordinate lies outside the cube.
    pub fn from_numbers(rank: usize, dim: usize, numbers: &[f64]) -> Result<Self, StrategyError> {
        let n_statistics = numbers.len().saturating_sub(dim);
        let (statistics, best) = numbers.split_at(n_statistics);
        let statistics = WeightStatistics::from_numbers(rank, statistics)?;
        if best.iter().all(|v| v.to_bits() == NO_POINT.to_bits()) {
            return Ok(Self { statistics, best: None });
        }
        if best.iter().all(|v| (0.0..=1.0).contains(v)) {
            return Ok(Self { statistics, best: Some(best.to_vec()) });
        }
        Err(StrategyError::Implausible("its best point lies outside the space".to_owned()))
    }

    /// Refuses what is no message of a party with these shared functions, or cannot be of anybody's outputs.
    ///
    /// # Errors
    /// If so.
    pub fn check(&self, basis: &FunctionBasis, least_noise: f64) -> Result<(), StrategyError> {
        let dim = basis.map().dim();
        let best_fits = self
            .best
            .as_ref()
            .is_none_or(|best| best.len() == dim && best.iter().all(|v| (0.0..=1.0).contains(v)));
        if self.statistics.rank() != basis.rank() || !best_fits {
            return Err(StrategyError::Implausible(
                "it has another number of shared functions or coordinates".to_owned(),
            ));
        }
        let checked = self.statistics.check(Surrogate::MAX_OBSERVATIONS, least_noise);
        checked.map_err(|reason| StrategyError::Implausible(reason.to_string()))
    }

    /// Returns true if it says anything of the objective.
    pub(super) fn is_informative(&self) -> bool {
        self.statistics.numbers().iter().any(|v| *v != 0.0)
    }
}
