//! RGPE and TAF as parties of a federation, with models of other tasks built from messages.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use fedbo_gp::{FeatureMap, FunctionBasis};
use fedbo_optim::Points;
use fedbo_streams::Stream;

use super::{FeatureTask, TaskModel, Transfer};
use crate::{
    Domain, MessageParty, MessageTerms, Observation, Proposal, SharedMessage, Source, Strategy,
    StrategyError, Surrogate,
};

/// A strategy that weights models of other tasks, which can be replaced at any time.
pub trait ModelEnsemble: Strategy {
    /// Returns the domain of the queries.
    fn domain(&self) -> &Domain;

    /// Returns the model of the strategy's own objective.
    fn own(&self) -> &Surrogate;

    /// Replaces all models of other tasks.
    ///
    /// # Panics
    /// If the dimension of a model differs from the dimension of the domain, or a model lacks a
    /// value that the settings require.
    fn set_models(&mut self, tasks: Vec<Arc<dyn TaskModel>>);
}

/// A party that builds models of other parties from their latest messages
/// ([`FeatureTask::of_message`]). `S` weights these models as it weights tasks.
///
/// Only the statistics of other parties are used. Best points, means and scales are neither sent
/// nor read. A party without outputs has no model. If there are models, the source of a query
/// includes their total weight, called the trust.
#[derive(Clone)]
pub struct MessageEnsemble<S> {
    strategy: S,
    basis: Arc<FunctionBasis>,
    terms: MessageTerms,
    /// Models by sender; `None` for a party without outputs.
    parties: BTreeMap<u32, Option<Arc<dyn TaskModel>>>,
}

impl<S> fmt::Debug for MessageEnsemble<S> {
    /// Prints only counts, so that neither observations nor messages reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageEnsemble {{ parties: {} }}", self.parties.len())
    }
}

impl<S: ModelEnsemble> MessageEnsemble<S> {
    /// Creates a party without messages. All parties must use the same `rank` shared functions of
    /// `map` and the same `terms`. Cost: O(M³).
    ///
    /// # Errors
    /// If the dimension of the map differs from the dimension of the domain, or the map has no
    /// leading functions.
    pub fn new(
        strategy: S,
        map: Arc<FeatureMap>,
        rank: usize,
        terms: MessageTerms,
    ) -> Result<Self, StrategyError> {
        strategy.domain().check_features(&map)?;
        let terms = MessageTerms { sends_best: false, ..terms };
        let basis = Arc::new(FunctionBasis::new(map, rank)?);
        Ok(Self { strategy, basis, terms, parties: BTreeMap::new() })
    }

    fn models(&self) -> impl Iterator<Item = &Arc<dyn TaskModel>> {
        self.parties.values().flatten()
    }

    fn update(&mut self) {
        let models = self.models().cloned().collect();
        self.strategy.set_models(models);
    }
}

impl<S: ModelEnsemble> Strategy for MessageEnsemble<S> {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let proposal = self.strategy.ask(pending, stream)?;
        if proposal.source != Source::Own || self.models().next().is_none() {
            return Ok(proposal);
        }
        let trust = self.strategy.transfer().map_or(0.0, |transfer| transfer.meta_share);
        Ok(Proposal { source: Source::shared(trust), ..proposal })
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.strategy.tell(observed)
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        self.strategy.surrogate()
    }

    fn transfer(&self) -> Option<Transfer> {
        self.strategy.transfer()
    }
}

impl<S: ModelEnsemble> MessageParty for MessageEnsemble<S> {
    fn domain(&self) -> &Domain {
        self.strategy.domain()
    }

    fn own(&self) -> &Surrogate {
        self.strategy.own()
    }

    fn basis(&self) -> &FunctionBasis {
        &self.basis
    }

    fn n_parties(&self) -> usize {
        self.parties.len()
    }

    fn receive(&mut self, sender: u32, message: SharedMessage) -> Result<(), StrategyError> {
        message.check(&self.basis, self.terms.least_noise)?;
        let model: Option<Arc<dyn TaskModel>> = match message.is_informative() {
            true => {
                let name = format!("party {sender}");
                Some(Arc::new(FeatureTask::of_message(name, &self.basis, &message)?))
            }
            false => None,
        };
        self.parties.insert(sender, model);
        self.update();
        Ok(())
    }

    fn forget(&mut self, sender: u32) {
        if self.parties.remove(&sender).is_some() {
            self.update();
        }
    }

    fn message(&self) -> Result<SharedMessage, StrategyError> {
        let own = self.strategy.own().posterior();
        self.terms.message(&self.basis, own, own.inputs(), own.outputs(), None)
    }

    fn placebo(&self, stream: &mut Stream) -> Result<SharedMessage, StrategyError> {
        let own = self.strategy.own().posterior();
        self.terms.placebo(&self.basis, own, self.strategy.domain(), stream)
    }
}

#[cfg(test)]
mod tests;
