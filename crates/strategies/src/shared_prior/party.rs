//! The contract of parties that tell each other what they know in shared messages.

use fedbo_gp::FunctionBasis;
use fedbo_streams::Stream;

use super::{SharedMessage, SharedPrior};
use crate::{Domain, Strategy, StrategyError, Surrogate};

/// A strategy that learns from [`SharedMessage`]s of other parties and makes such messages of its own outputs.
pub trait MessageParty: Strategy {
    /// The domain of its queries.
    fn domain(&self) -> &Domain;

    /// Its model of its own objective.
    fn own(&self) -> &Surrogate;

    /// The shared functions.
    fn basis(&self) -> &FunctionBasis;

    /// Number of parties whose messages are at hand.
    fn n_parties(&self) -> usize;

    /// Takes the message of another party in place of its older one.
    ///
    /// # Errors
    /// If it cannot be of anybody's observations; the older one then stays.
    fn receive(&mut self, sender: u32, message: SharedMessage) -> Result<(), StrategyError>;

    /// Forgets a party.
    fn forget(&mut self, sender: u32);

    /// The message of its outputs.
    ///
    /// # Errors
    /// If its covariance has no Cholesky factor.
    fn message(&self) -> Result<SharedMessage, StrategyError>;

    /// A message of the same length that says nothing of the objective.
    ///
    /// # Errors
    /// As [`MessageParty::message`].
    fn placebo(&self, stream: &mut Stream) -> Result<SharedMessage, StrategyError>;
}

impl MessageParty for SharedPrior {
    fn domain(&self) -> &Domain {
        self.domain()
    }

    fn own(&self) -> &Surrogate {
        Self::surrogate(self)
    }

    fn basis(&self) -> &FunctionBasis {
        self.basis()
    }

    fn n_parties(&self) -> usize {
        self.n_parties()
    }

    fn receive(&mut self, sender: u32, message: SharedMessage) -> Result<(), StrategyError> {
        self.receive(sender, message)
    }

    fn forget(&mut self, sender: u32) {
        self.forget(sender);
    }

    fn message(&self) -> Result<SharedMessage, StrategyError> {
        self.message()
    }

    fn placebo(&self, stream: &mut Stream) -> Result<SharedMessage, StrategyError> {
        self.placebo(stream)
    }
}
