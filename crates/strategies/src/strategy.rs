//! The contract between a sequential decision rule and the loop that drives it.

use std::fmt;

use fedbo_gp::GpError;
use fedbo_optim::{OptimError, Points};
use fedbo_streams::Stream;

use crate::Surrogate;
use crate::meta::Transfer;

/// The origin of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The initial design, before any surrogate.
    Initial,
    /// The own model: the maximizer of a function drawn from the own posterior, or of an acquisition function.
    Own,
    /// The maximizer of a function that another agent sent.
    Message {
        /// Index of the sender.
        sender: u32,
    },
    /// The maximizer of the functions that the regions' aggregates stand for.
    Region {
        /// Index of the region that it lies in.
        region: usize,
    },
    /// A mixture of the own model and of what came from other parties: a prior, as it is and negated, neither of which has a part in the
    /// query while its weight is below a tenth (or its start, if that is less), or a model of each.
    Shared {
        /// The weight of the latter, in percent: the trust in the others. Where their negated functions weigh more, and have a part, it is
        /// their weight with a minus.
        trust_percent: i8,
    },
    /// The maximizer of a function drawn from meta-tasks alone.
    MetaTasks,
    /// A point of a Sobol sequence.
    Sobol,
    /// A uniformly random point: of random search, or in place of one that was already evaluated, is running or has
    /// failed.
    Random,
    /// The same, where another agent's function had been chosen: its message counts as used.
    RandomInstead {
        /// Index of the sender.
        sender: u32,
    },
}

impl fmt::Display for Source {
    /// The text of the `source` column of results.
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
    /// A mixture in which others have this weight, in `[-1, 1]`.
    #[expect(clippy::cast_possible_truncation, reason = "a share in percent")]
    pub(crate) fn shared(trust: f64) -> Self {
        Self::Shared { trust_percent: (100.0 * trust).round() as i8 }
    }

    /// The trust that the text of a [`Source::Shared`] names, in percent; `None` for any other text.
    pub fn trust_percent_of(text: &str) -> Option<i8> {
        let percent = text.strip_prefix("shared:")?.strip_suffix('%')?.parse().ok()?;
        (-100..=100).contains(&percent).then_some(percent)
    }
}

/// A query that a strategy asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// Coordinates in `[0,1]^d`, finite, in the domain.
    pub unit: Vec<f64>,
    /// The origin of the query.
    pub source: Source,
}

/// A finished query.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Coordinates in `[0,1]^d`.
    pub unit: Vec<f64>,
    /// The value of the first objective, to be maximized; `None` if the trial failed.
    pub value: Option<f64>,
    /// The proposal's source.
    pub source: Source,
    /// The values of the further objectives in order, each to be maximized, then the slack of each constraint, at least 0 where it is met:
    /// as many as [`Outcomes::n_further`](crate::Outcomes::n_further) says, or none if the trial failed.
    pub further: Vec<f64>,
}

impl Observation {
    /// An observation with one number, or none if the trial failed.
    #[must_use]
    pub fn new(unit: Vec<f64>, value: Option<f64>, source: Source) -> Self {
        Self { unit, value, source, further: Vec::new() }
    }
}

/// A sequential decision rule that maximizes. The caller owns the loop.
pub trait Strategy: Send {
    /// Proposes a query. Reads state only, so equal streams and equal `pending` give equal proposals.
    ///
    /// `pending` (p×d, may be empty) are the coordinates of trials that are running. None of them is proposed again unless
    /// repeats are allowed; deterministic acquisition functions also take account of what they will teach.
    ///
    /// # Errors
    /// If no finite proposal exists, or every point of a discrete domain is used up.
    ///
    /// # Panics
    /// If `pending` has another dimension than the domain.
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError>;

    /// Adds finished observations, in any order; each trial counts once. A failed trial, or a value that is not finite,
    /// never reaches the surrogate, and its point is not proposed again.
    ///
    /// # Errors
    /// If the surrogate cannot be conditioned; nothing is added then.
    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError>;

    /// Its model of the objective, if it has one.
    fn surrogate(&self) -> Option<&Surrogate> {
        None
    }

    /// Its reliance on earlier tasks at its next query, if it learns from any.
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

    fn surrogate(&self) -> Option<&Surrogate> {
        (**self).surrogate()
    }

    fn transfer(&self) -> Option<Transfer> {
        (**self).transfer()
    }
}

/// The reason why a strategy could not go on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StrategyError {
    /// The surrogate failed.
    #[error("the surrogate cannot be built: {0}")]
    Surrogate(#[from] GpError),
    /// The maximisation failed.
    #[error("no query can be proposed: {0}")]
    Maximization(#[from] OptimError),
    /// Every point of a discrete domain was evaluated, is running or has failed.
    #[error("all {n_points} points of the domain are used up")]
    Exhausted {
        /// Size of the domain.
        n_points: usize,
    },
    /// A message cannot be of anybody's observations.
    #[error("{0}")]
    Implausible(String),
    /// Raw outputs so large that the weights of a message overflow.
    #[error("the message would hold a number that is not finite: standardize its outputs")]
    MessageOverflow,
    /// A setting is outside its range.
    #[error("{name} = {value}: expected {expected}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// The values that would be accepted.
        expected: &'static str,
    },
}

impl StrategyError {
    /// [`StrategyError::Setting`].
    pub fn setting(name: &'static str, value: impl ToString, expected: &'static str) -> Self {
        Self::Setting { name, value: value.to_string(), expected }
    }

    /// Refuses a setting unless a condition holds.
    ///
    /// # Errors
    /// [`StrategyError::Setting`] if it does not.
    pub fn ensure(
        holds: bool,
        name: &'static str,
        value: impl ToString,
        expected: &'static str,
    ) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::setting(name, value, expected)) }
    }
}
