//! The interface of parties that exchange shared messages.

use fedbo_gp::FunctionBasis;
use fedbo_streams::Stream;

use super::{SharedMessage, SharedPrior};
use crate::{Domain, Strategy, StrategyError, Surrogate};

/// A strategy that learns from the [`SharedMessage`]s of other parties and creates such messages
/// from its own outputs.
pub trait MessageParty: Strategy {
    /// Returns the domain of the queries.
    fn domain(&self) -> &Domain;

    /// Returns the model of the party's own objective.
    fn own(&self) -> &Surrogate;

    /// Returns the shared functions.
    fn basis(&self) -> &FunctionBasis;

    /// Returns the number of parties with a stored message.
    fn n_parties(&self) -> usize;

    /// Stores another party's message, replacing an older one.
    ///
    /// # Errors
    /// If no observations could have produced the message. The older message is then kept.
    fn receive(&mut self, sender: u32, message: SharedMessage) -> Result<(), StrategyError>;

    /// Removes a party's message.
    fn forget(&mut self, sender: u32);

    /// Creates the message for the party's outputs.
    ///
    /// # Errors
    /// If the covariance has no Cholesky factor.
    fn message(&self) -> Result<SharedMessage, StrategyError>;

    /// Creates a message of the same length that contains no information about the objective.
    ///
    /// # Errors
    /// Same as [`MessageParty::message`].
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
