//! The message of a party to the others.

use std::fmt;

use fedbo_gp::{FunctionBasis, Posterior, Remainder, WeightStatistics};
use fedbo_optim::Points;
use fedbo_streams::Stream;

use crate::{Domain, StrategyError, Surrogate};

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

/// The terms on which parties make messages of their outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageTerms {
    /// ρ, in units of the shared functions.
    pub own_variance: f64,
    /// τ².
    pub level_variance: f64,
    /// The least σ², in units of the shared functions.
    pub least_noise: f64,
    /// True if the party's best point is sent.
    pub sends_best: bool,
}

impl MessageTerms {
    /// D of outputs whose model is `own`.
    pub(super) fn remainder(&self, own: &Posterior) -> Remainder {
        let noise = own.noise_variance() / own.kernel().outputscale();
        Remainder {
            own_variance: self.own_variance,
            level_variance: if own.is_empty() { 0.0 } else { self.level_variance },
            noise_variance: noise.max(self.least_noise),
        }
    }

    /// The message of outputs (n) at inputs (n×d), with the hyperparameters of `own`.
    pub(crate) fn message(
        &self,
        basis: &FunctionBasis,
        own: &Posterior,
        inputs: &Points,
        outputs: &[f64],
    ) -> Result<SharedMessage, StrategyError> {
        let (remainder, kernel) = (self.remainder(own), own.kernel());
        let statistics =
            WeightStatistics::of_observations(basis, kernel, &remainder, inputs, outputs)?;
        let best = (0..outputs.len()).max_by(|a, b| outputs[*a].total_cmp(&outputs[*b]));
        let best = best.filter(|_| self.sends_best);
        Ok(SharedMessage { statistics, best: best.map(|index| inputs.row(index).to_vec()) })
    }

    /// A message of the same length that says nothing of the objective: as many outputs as `own` has, a draw of the prior at random
    /// inputs.
    pub(crate) fn placebo(
        &self,
        basis: &FunctionBasis,
        own: &Posterior,
        domain: &Domain,
        stream: &mut Stream,
    ) -> Result<SharedMessage, StrategyError> {
        let inputs = (0..own.len()).map(|_| domain.random(stream));
        let inputs = Points::from_rows(domain.dim(), inputs.collect::<Vec<_>>().iter());
        let w = stream.normals(basis.rank());
        let value = |row: &Vec<f64>| row.iter().zip(&w).map(|(psi, w)| psi * w).sum();
        let outputs: Vec<f64> = basis.rows(&inputs).iter().map(value).collect();
        self.message(basis, own, &inputs, &outputs)
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
    pub(crate) fn is_informative(&self) -> bool {
        self.statistics.numbers().iter().any(|v| *v != 0.0)
    }
}
