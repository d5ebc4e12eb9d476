//! The interface of a strategy that takes part in a federation.

use fedbo_gp::FeatureMap;
use fedbo_streams::Stream;

use crate::{Domain, Strategy, StrategyError, Surrogate};

/// A strategy that shares its knowledge as a function drawn from its posterior, represented by
/// weights of the shared features.
pub trait Collaborator: Strategy {
    /// Returns the domain of the queries.
    fn domain(&self) -> &Domain;

    /// Returns the model of the agent's own objective.
    fn own(&self) -> &Surrogate;

    /// Returns the federation's shared feature map.
    fn map(&self) -> &FeatureMap;

    /// Draws the M weights ω of a message. Does not change the state, so equal streams give equal
    /// weights.
    ///
    /// # Errors
    /// If the weight posterior cannot be built, or a weight is not finite.
    fn weight_sample(&self, stream: &mut Stream) -> Result<Vec<f64>, StrategyError>;
}

impl<S: Collaborator + ?Sized> Collaborator for Box<S> {
    fn domain(&self) -> &Domain {
        (**self).domain()
    }

    fn own(&self) -> &Surrogate {
        (**self).own()
    }

    fn map(&self) -> &FeatureMap {
        (**self).map()
    }

    fn weight_sample(&self, stream: &mut Stream) -> Result<Vec<f64>, StrategyError> {
        (**self).weight_sample(stream)
    }
}
