//! What a party sends to the others.

use fedbo_gp::{FunctionBasis, WeightStatistics};

use crate::StrategyError;

/// A party's message: what its outputs say of the coefficients of the shared functions, and the point of its best output.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedMessage {
    /// A and b, in units of the party's own.
    pub statistics: WeightStatistics,
    /// The point (d), if the party sends it and has one.
    pub best: Option<Vec<f64>>,
}

/// In place of a coordinate of a best point that there is none.
const NO_POINT: f64 = -1.0;

/// The mean square of coefficients beyond which statistics are nobody's: their mean under N(0, I) has about 1.
const MEAN_SQUARE_MAX: f64 = 10.0;

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
        match best.iter().find(|v| !(0.0..=1.0).contains(*v)) {
            Some(bad) => Err(StrategyError::Setting {
                name: "coordinate of a best point",
                value: bad.to_string(),
                expected: "a number from 0 to 1",
            }),
            None => Ok(Self { statistics, best: Some(best.to_vec()) }),
        }
    }

    /// Refuses what cannot be of anybody's outputs in units of their own: coefficients that are far too large, or no covariance.
    ///
    /// # Errors
    /// If so.
    pub fn check(&self, basis: &FunctionBasis) -> Result<(), StrategyError> {
        let mean = self.statistics.mean()?;
        let square: f64 = mean.iter().map(|v| v * v).sum();
        #[expect(clippy::cast_precision_loss, reason = "ranks are far below 2^53")]
        let mean_square = square / basis.rank() as f64;
        if mean_square <= MEAN_SQUARE_MAX {
            return Ok(());
        }
        Err(StrategyError::Setting {
            name: "mean square of coefficients",
            value: format!("{mean_square:.3}"),
            expected: "at most 10, as of outputs with unit size",
        })
    }
}
