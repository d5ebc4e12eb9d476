//! The interface between a strategy and the loop that drives it.

use std::fmt;

use fedbo_error_class::{Class, Classified};
use fedbo_gp::GpError;
use fedbo_optim::{OptimError, Points};
use fedbo_space::Space;
use fedbo_streams::Stream;

use crate::Surrogate;
use crate::meta::Transfer;

/// The origin of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The initial design, before there is a surrogate.
    Initial,
    /// The agent's own model: the maximizer of a posterior sample or of an acquisition function.
    Own,
    /// The maximizer of a function received from another agent.
    Message {
        /// Index of the sender.
        sender: u32,
    },
    /// The maximizer of the function that is defined by the aggregates of all regions.
    Region {
        /// Index of the region that contains the query.
        region: usize,
    },
    /// A mixture of the agent's own model with the models of other parties.
    ///
    /// The other models are either a prior and its negation, or one model per party. The prior and
    /// its negation each contribute to the query only if their weight is at least a tenth (or at
    /// least the initial weight, if that is smaller).
    Shared {
        /// Weight of the other parties' models in percent, called the trust. If the negated
        /// functions contribute and have the larger weight, the trust is minus their weight.
        trust_percent: i8,
    },
    /// The maximizer of a function drawn only from meta-tasks.
    MetaTasks,
    /// A point of a Sobol sequence.
    Sobol,
    /// A uniformly random point. Proposed by random search, and by other strategies in place of a
    /// point that was already evaluated, is running or has failed.
    Random,
    /// A uniformly random point instead of the maximizer of another agent's function. The message
    /// counts as used.
    RandomInstead {
        /// Index of the sender.
        sender: u32,
    },
}

impl fmt::Display for Source {
    /// Writes the value of the `source` column of results.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Initial => f.write_str("initial"),
            Self::Own => f.write_str("own"),
            Self::Message { sender } => write!(f, "message:{sender}"),
            Self::Region { region } => write!(f, "region:{region}"),
            Self::Shared { trust_percent } => write!(f, "shared:{trust_percent}%"),
            Self::MetaTasks => f.write_str("meta-tasks"),
            Self::Sobol => f.write_str("sobol"),
            Self::Random | Self::RandomInstead { .. } => f.write_str("random"),
        }
    }
}

impl Source {
    /// Creates a mixture in which the other models have weight `trust`, in `[-1, 1]`.
    #[expect(clippy::cast_possible_truncation, reason = "a share in percent")]
    pub(crate) fn shared(trust: f64) -> Self {
        Self::Shared { trust_percent: (100.0 * trust).round() as i8 }
    }

    /// Parses the trust, in percent, from the string form of a [`Source::Shared`]. Returns `None`
    /// for any other string.
    pub fn trust_percent_of(text: &str) -> Option<i8> {
        let percent = text.strip_prefix("shared:")?.strip_suffix('%')?.parse().ok()?;
        (-100..=100).contains(&percent).then_some(percent)
    }
}

/// A query proposed by a strategy.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// Coordinates in `[0,1]^d`, which are finite and in the domain.
    pub unit: Vec<f64>,
    /// The origin of the query.
    pub source: Source,
}

/// A finished query.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Coordinates in `[0,1]^d`.
    pub unit: Vec<f64>,
    /// The value of the first objective (larger is better); `None` if the trial failed or the value
    /// was not measured.
    pub value: Option<f64>,
    /// The source of the proposal.
    pub source: Source,
    /// Values of the other objectives in order (larger is better), followed by the slack of each
    /// constraint. A slack is at least 0 if the constraint is met. The length is
    /// [`Outcomes::n_further`](crate::Outcomes::n_further), or 0 if the trial failed. A number that
    /// was not measured is NaN.
    pub further: Vec<f64>,
}

impl Observation {
    /// Creates an observation with a single value, or with no value if the trial failed.
    #[must_use]
    pub fn new(unit: Vec<f64>, value: Option<f64>, source: Source) -> Self {
        Self { unit, value, source, further: Vec::new() }
    }

    /// Returns true if the trial failed, or has a value that is not finite. A trial that lacks the
    /// value but has other numbers did not fail.
    pub(crate) fn is_failure(&self) -> bool {
        match self.value {
            Some(value) => !value.is_finite(),
            None => self.further.is_empty(),
        }
    }
}

/// A sequential decision rule for maximization. The caller owns the loop.
pub trait Strategy: Send {
    /// Proposes a query. Does not change the state, so equal streams and equal `pending` give equal
    /// proposals.
    ///
    /// `pending` (p×d, may be empty) contains the coordinates of running trials. None of these
    /// points is proposed again unless repeats are allowed. Deterministic acquisition functions
    /// also account for the information that these trials will provide.
    ///
    /// # Errors
    /// If no finite proposal exists, or a discrete domain is exhausted.
    ///
    /// # Panics
    /// If the dimension of `pending` differs from the dimension of the domain.
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError>;

    /// Adds finished observations, in any order. Each trial must be added only once. Failed trials
    /// and non-finite values never reach the surrogate, and their points are not proposed again.
    ///
    /// # Errors
    /// If the surrogate cannot be conditioned; in that case nothing is added.
    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError>;

    /// Restricts the next queries to a part of the space in which some parameters have given values
    /// ([`Space::with_given`]). `None` removes the restriction.
    ///
    /// The observations remain those of the whole space.
    ///
    /// # Errors
    /// [`StrategyError::NoGivenValues`] if the strategy cannot restrict its queries. Nothing is
    /// restricted then.
    fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError> {
        match part {
            None => Ok(()),
            Some(_) => Err(StrategyError::NoGivenValues),
        }
    }

    /// Returns the model of the objective, if the strategy has one.
    fn surrogate(&self) -> Option<&Surrogate> {
        None
    }

    /// Returns the weight of earlier tasks in the next query, if the strategy learns from earlier
    /// tasks.
    fn transfer(&self) -> Option<Transfer> {
        None
    }
}

impl<S: Strategy + ?Sized> Strategy for Box<S> {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        (**self).ask(pending, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        (**self).tell(observed)
    }

    fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError> {
        (**self).restrict(part)
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        (**self).surrogate()
    }

    fn transfer(&self) -> Option<Transfer> {
        (**self).transfer()
    }
}

/// An error of a strategy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StrategyError {
    /// The surrogate could not be built.
    #[error("the surrogate cannot be built: {0}")]
    Surrogate(#[from] GpError),
    /// The maximization failed.
    #[error("no query can be proposed: {0}")]
    Maximization(#[from] OptimError),
    /// Every point of a discrete domain has been evaluated, is running or has failed.
    #[error("all {n_points} points of the domain are used up")]
    Exhausted {
        /// Size of the domain.
        n_points: usize,
    },
    /// The strategy cannot propose a query with given values of some parameters.
    #[error("the strategy cannot propose trials with given values")]
    NoGivenValues,
    /// No observations could have produced a received message.
    #[error("{0}")]
    Implausible(String),
    /// The raw outputs are so large that a message weight overflows.
    #[error("the message would contain a non-finite number: standardize its outputs")]
    MessageOverflow,
    /// A setting is outside its range.
    #[error("{name} = {value}: expected {expected}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
}

impl Classified for StrategyError {
    fn class(&self) -> Class {
        match self {
            Self::Exhausted { .. } | Self::NoGivenValues | Self::Setting { .. } => Class::Input,
            _ => Class::Internal,
        }
    }
}

impl StrategyError {
    /// Creates a [`StrategyError::Setting`].
    pub fn setting(name: &'static str, value: impl ToString, expected: &'static str) -> Self {
        Self::Setting { name, value: value.to_string(), expected }
    }

    /// Returns an error for a setting unless `holds` is true.
    ///
    /// # Errors
    /// [`StrategyError::Setting`] if `holds` is false.
    pub fn ensure(
        holds: bool,
        name: &'static str,
        value: impl ToString,
        expected: &'static str,
    ) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::setting(name, value, expected)) }
    }
}
