//! Collaborative Bayesian optimization by consensus.

use std::sync::Arc;

use fedbo_gp::FeatureMap;
use fedbo_optim::Points;
use fedbo_protocol::{Broadcast, UpdateRejected, UsesHandouts};
use fedbo_space::Space;
use fedbo_strategies::{
    Collaborator, Domain, LogEi, LogEiSettings, Observation, Proposal, Source, Strategy,
    StrategyError, Surrogate,
};
use fedbo_streams::{Seed, Stream};

use super::N_RANDOM_FIRST;

/// A party that queries averages of all parties' candidates (Yue, Al Kontar, Berahas, Liu & Johnson
/// 2023, arXiv 2306.14348). All parties start at the same time:
///
/// x_k^(t) = Σ_j W_kj^(t) x̂_j^(t),   W^(t) = (1 − t/T) 1 1ᵀ/K + (t/T) I,   t = 0, …, T − 1
///
/// x̂_j is the query that maximizes party j's own log expected improvement. Party j sends it after
/// each of its observations. The first three queries are random and not averaged, as for `log-ei`;
/// T counts the queries after them. Averages are taken in the unit cube and moved to the nearest
/// point of the space.
pub(in super::super) struct Consensus {
    own: LogEi,
    space: Space,
    domain: Domain,
    map: Arc<FeatureMap>,
    /// T.
    n_steps: u64,
    n_told: u64,
    next: Option<Proposal>,
}

impl Consensus {
    /// Creates a party without observations for `n_queries` queries. `seed` is used for
    /// hyperparameter fits.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub(in super::super) fn new(
        space: Space,
        settings: LogEiSettings,
        map: Arc<FeatureMap>,
        n_queries: u64,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let domain = Domain::Space(space.clone());
        let own = LogEi::new(domain.clone(), settings, seed)?;
        let n_steps = n_queries.saturating_sub(N_RANDOM_FIRST as u64);
        Ok(Self { own, space, domain, map, n_steps, n_told: 0, next: None })
    }

    /// Returns t/T, or `None` while queries are random.
    fn progress(&self) -> Option<f64> {
        let step = self.n_told.checked_sub(N_RANDOM_FIRST as u64)?;
        #[expect(clippy::cast_precision_loss, reason = "numbers of queries")]
        let share = step.min(self.n_steps) as f64 / self.n_steps.max(1) as f64;
        Some(share)
    }
}

impl Strategy for Consensus {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        match &self.next {
            Some(next) => Ok(next.clone()),
            // Without a handout the party uses its own strategy.
            None => self.own.ask(pending, stream),
        }
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.own.tell(observed)?;
        self.n_told += observed.len() as u64;
        self.next = None;
        Ok(())
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        self.own.surrogate()
    }
}

impl Collaborator for Consensus {
    fn domain(&self) -> &Domain {
        &self.domain
    }

    fn own(&self) -> &Surrogate {
        self.own.surrogate().unwrap_or_else(|| unreachable!("a strategy with a model"))
    }

    fn map(&self) -> &FeatureMap {
        &self.map
    }

    /// Returns the d coordinates of x̂.
    fn weight_sample(&self, stream: &mut Stream) -> Result<Vec<f64>, StrategyError> {
        match self.progress() {
            None => Ok(self.domain.random(stream)),
            Some(_) => Ok(self.own.ask(&Points::new(self.domain.dim()), stream)?.unit),
        }
    }
}

impl UsesHandouts for Consensus {
    type Handout = Broadcast;

    fn take(&mut self, broadcast: Broadcast, own_id: u32) -> Vec<UpdateRejected> {
        let candidates = &broadcast.messages;
        let Some(own) = candidates.iter().find(|message| message.sender == own_id) else {
            return Vec::new();
        };
        let Some(progress) = self.progress() else {
            let unit = own.weights.to_vec();
            self.next = Some(Proposal { unit, source: Source::Random });
            return Vec::new();
        };
        #[expect(clippy::cast_precision_loss, reason = "numbers of parties")]
        let each = (1.0 - progress) / candidates.len() as f64;
        let average = |j: usize| {
            let sum: f64 = candidates.iter().map(|message| message.weights[j]).sum();
            each * sum + progress * own.weights[j]
        };
        let unit: Vec<f64> = (0..self.domain.dim()).map(average).collect();
        self.next = Some(Proposal { unit: self.space.snap(&unit), source: Source::Own });
        Vec::new()
    }
}
