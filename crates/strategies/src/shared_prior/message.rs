//! The messages that parties send to one another.

use std::fmt;

use fedbo_gp::{FunctionBasis, Posterior, Remainder, Units, WeightStatistics};
use fedbo_optim::Points;
use fedbo_streams::Stream;

use crate::{Domain, StrategyError, Surrogate};

/// A party's message: the information in its outputs about the coefficients of the shared
/// functions, the mean level and scale of the outputs, and the point of the best output.
#[derive(Clone, PartialEq)]
pub struct SharedMessage {
    /// A and b, in the party's own units.
    pub statistics: WeightStatistics,
    /// The point of the best output (d), if there is one and the party sends it.
    pub best: Option<Vec<f64>>,
    /// Level and scale of the party's outputs, in their original units; `None` if the scale is
    /// undefined.
    pub units: Option<Units>,
}

impl fmt::Debug for SharedMessage {
    /// Prints only lengths, so that no information about an objective reaches a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let best = if self.best.is_some() { "a best point" } else { "no best point" };
        write!(f, "SharedMessage {{ {:?}, {best} }}", self.statistics)
    }
}

/// Encodes missing units.
const NO_UNITS: [f64; 2] = [0.0; 2];
/// Settings for creating messages from outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageTerms {
    /// ρ, the variance of the party's own function, in units of the shared functions.
    pub own_variance: f64,
    /// τ², the variance of the level.
    pub level_variance: f64,
    /// The minimum of σ², in units of the shared functions.
    pub least_noise: f64,
    /// True if the party sends its best point.
    pub sends_best: bool,
}

impl MessageTerms {
    /// Returns the remainder D for the outputs that `own` models.
    pub(super) fn remainder(&self, own: &Posterior) -> Remainder {
        let noise = own.noise_variance() / own.kernel().outputscale();
        Remainder {
            own_variance: self.own_variance,
            level_variance: if own.is_empty() { 0.0 } else { self.level_variance },
            noise_variance: noise.max(self.least_noise),
        }
    }

    /// Creates the message for outputs (n) at inputs (n×d), with the hyperparameters of `own`. The
    /// outputs are the original outputs minus the level and divided by the scale in
    /// `level_and_size`. If this is `None`, the message has no units.
    pub(crate) fn message(
        &self,
        basis: &FunctionBasis,
        own: &Posterior,
        inputs: &Points,
        outputs: &[f64],
        level_and_size: Option<(f64, f64)>,
    ) -> Result<SharedMessage, StrategyError> {
        let (remainder, kernel) = (self.remainder(own), own.kernel());
        let (statistics, units) =
            WeightStatistics::of_observations(basis, kernel, &remainder, inputs, outputs)?;
        let best = (0..outputs.len()).max_by(|a, b| outputs[*a].total_cmp(&outputs[*b]));
        let best = best.filter(|_| self.sends_best);
        let best = best.map(|index| inputs.row(index).to_vec());
        let units = level_and_size.zip(units).map(|((level, size), found)| Units {
            level: level + size * found.level,
            size: size * found.size,
        });
        Ok(SharedMessage { statistics, best, units: units.filter(SharedMessage::are_units) })
    }

    /// Creates a message of the same length that contains no information about the objective: a
    /// draw from the prior at random inputs, with as many outputs as `own` has.
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
        self.message(basis, own, &inputs, &outputs, None)
    }
}

/// Encodes each coordinate of a missing best point.
const NO_POINT: f64 = -1.0;

impl SharedMessage {
    /// Returns the length of a message, r(r + 3)/2 + d + 2.
    pub fn n_numbers(rank: usize, dim: usize) -> usize {
        WeightStatistics::n_numbers(rank) + dim + 2
    }

    /// Serializes the message: the statistics, the best point (−1 in each coordinate if there is
    /// none), and the level and scale (both 0 if there are none).
    pub fn numbers(&self, dim: usize) -> Vec<f64> {
        let mut numbers = self.statistics.numbers();
        match &self.best {
            Some(best) => numbers.extend(best),
            None => numbers.resize(numbers.len() + dim, NO_POINT),
        }
        numbers.extend(self.units.map_or(NO_UNITS, |units| [units.level, units.size]));
        numbers
    }

    /// Parses the numbers of a message.
    ///
    /// # Errors
    /// If the length is not [`SharedMessage::n_numbers`], a number is not finite, a coordinate is
    /// outside the cube, or the level and scale are impossible.
    pub fn from_numbers(rank: usize, dim: usize, numbers: &[f64]) -> Result<Self, StrategyError> {
        let n_statistics = WeightStatistics::n_numbers(rank).min(numbers.len());
        let (statistics, rest) = numbers.split_at(n_statistics);
        let statistics = WeightStatistics::from_numbers(rank, statistics)?;
        let [best @ .., level, size] = rest else { return Err(Self::wrong_length()) };
        if best.len() != dim {
            return Err(Self::wrong_length());
        }
        let units = match [*level, *size] == NO_UNITS {
            true => None,
            false => Some(Units { level: *level, size: *size }),
        };
        if units.as_ref().is_some_and(|units| !Self::are_units(units)) {
            return Err(StrategyError::Implausible("its outputs cannot have this size".to_owned()));
        }
        if best.iter().all(|v| v.to_bits() == NO_POINT.to_bits()) {
            return Ok(Self { statistics, best: None, units });
        }
        if best.iter().all(|v| (0.0..=1.0).contains(v)) {
            return Ok(Self { statistics, best: Some(best.to_vec()), units });
        }
        Err(StrategyError::Implausible("its best point lies outside the space".to_owned()))
    }

    fn wrong_length() -> StrategyError {
        StrategyError::Implausible(
            "it has a different number of shared functions or coordinates".to_owned(),
        )
    }

    /// Returns true if outputs can have this level and scale. Values above 1e100 are rejected.
    pub(super) fn are_units(units: &Units) -> bool {
        const LARGEST: f64 = 1e100;
        let Units { level, size } = *units;
        (1.0 / LARGEST..=LARGEST).contains(&size) && level.abs() <= LARGEST
    }

    /// Checks that a party with these shared functions could have sent this message and that
    /// observations could have produced it.
    ///
    /// # Errors
    /// If the check fails.
    pub fn check(&self, basis: &FunctionBasis, least_noise: f64) -> Result<(), StrategyError> {
        let dim = basis.map().dim();
        let best_fits = self
            .best
            .as_ref()
            .is_none_or(|best| best.len() == dim && best.iter().all(|v| (0.0..=1.0).contains(v)));
        let units_fit = self.units.as_ref().is_none_or(Self::are_units);
        if self.statistics.rank() != basis.rank() || !best_fits || !units_fit {
            return Err(Self::wrong_length());
        }
        let checked = self.statistics.check(Surrogate::MAX_CONDITIONED, least_noise);
        checked.map_err(|reason| StrategyError::Implausible(reason.to_string()))
    }

    /// Returns true if the message contains information about the objective.
    pub(crate) fn is_informative(&self) -> bool {
        self.statistics.numbers().iter().any(|v| *v != 0.0)
    }
}
