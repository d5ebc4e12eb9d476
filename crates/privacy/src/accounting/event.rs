//! The description of one release for an accountant.

use std::fmt;

/// An invalid parameter.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} = {value} is not {expected}")]
pub struct InvalidParameter {
    /// The parameter's name.
    pub name: &'static str,
    /// The given value.
    pub value: String,
    /// Description of the accepted values.
    pub expected: &'static str,
}

pub(super) fn invalid(
    name: &'static str,
    value: impl fmt::Display,
    expected: &'static str,
) -> InvalidParameter {
    InvalidParameter { name, value: value.to_string(), expected }
}

/// q: the probability with which an agent takes part in a round, in `(0, 1]`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct SamplingRate(f64);

impl SamplingRate {
    /// Every agent takes part.
    pub const ALL: Self = Self(1.0);

    /// Checks the range.
    ///
    /// # Errors
    /// If `rate` is not in `(0, 1]`.
    pub fn new(rate: f64) -> Result<Self, InvalidParameter> {
        if rate > 0.0 && rate <= 1.0 {
            Ok(Self(rate))
        } else {
            Err(invalid("sampling rate", rate, "above 0 and at most 1"))
        }
    }

    /// Returns the number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// z: the standard deviation of the noise divided by the sensitivity; finite and above 0.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct NoiseMultiplier(f64);

impl NoiseMultiplier {
    /// Checks the range.
    ///
    /// # Errors
    /// If `multiplier` is not finite and above 0.
    pub fn new(multiplier: f64) -> Result<Self, InvalidParameter> {
        if multiplier.is_normal() && multiplier > 0.0 {
            Ok(Self(multiplier))
        } else {
            Err(invalid("noise multiplier", multiplier, "a finite number above 0"))
        }
    }

    /// Returns the number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// δ of (ε, δ)-differential privacy, in `(0, 1)`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Delta(f64);

impl Delta {
    /// Checks the range.
    ///
    /// # Errors
    /// If `delta` is not strictly between 0 and 1.
    pub fn new(delta: f64) -> Result<Self, InvalidParameter> {
        if delta.is_normal() && delta > 0.0 && delta < 1.0 {
            Ok(Self(delta))
        } else {
            Err(invalid("delta", delta, "above 0 and below 1"))
        }
    }

    /// Returns the number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// The sampling scheme that selects the agents of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampling {
    /// Each agent takes part independently with probability q.
    Poisson(SamplingRate),
    /// Exactly `n_sampled` of `n_agents` agents, uniformly at random (the paper's Rényi variant,
    /// footnote 14).
    WithoutReplacement {
        /// Number of agents in the sample, at least 1 and at most `n_agents`.
        n_sampled: u32,
        /// Number of agents on the roster.
        n_agents: u32,
    },
}

/// The noise added to the sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Continuous Gaussian noise N(0, (z C)² I), where C is the largest norm of an agent's vector.
    Gaussian(NoiseMultiplier),
    /// Discrete Gaussian noise: each coordinate is k ∈ ℤ with probability ∝ exp(−k²/(2 σ²)).
    /// Vectors have integer coordinates and a squared norm of at most K².
    DiscreteGaussian {
        /// σ², in squared lattice units.
        variance: u128,
        /// K, the largest norm of an agent's vector in lattice units, above 0.
        bound: u64,
        /// Number of coordinates in a release.
        n_coordinates: u64,
    },
}

/// The relation that makes two datasets neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjacency {
    /// The same roster, with all vectors of one agent set to zero.
    ZeroOut,
    /// The same roster, with the vectors of one agent replaced by arbitrary vectors.
    ReplaceOne,
}

impl fmt::Display for Adjacency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroOut => "zero-out",
            Self::ReplaceOne => "replace-one",
        })
    }
}

/// One release of a subsampled Gaussian mechanism, described by exactly the parameters that an
/// accountant needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrivacyEvent {
    /// The sampling scheme of the round.
    pub sampling: Sampling,
    /// The added noise.
    pub noise: Noise,
}
