//! Small agents with 12 points on a line and 8 shared features.

use std::sync::Arc;

use fedbo_federated::fts::{AgentSampling, Fts, FtsSettings};
use fedbo_gp::{
    Family, FeatureDescription, FeatureMap, Hyperparameters, Kernel, LengthscaleLaw, Prior,
};
use fedbo_optim::{MultiStart, Points};
use fedbo_protocol::{Agent, AgentPlan, AgentUpdate, Broadcast};
use fedbo_strategies::{
    Domain, HyperparameterPolicy, LocalProb, Maximizer, MessageContent, MessageNoise,
    MessageSettings, Observation, OwnQuery, OwnSampler, Repeats, SampleSearch, Source,
    SurrogateSettings, ThompsonSettings, UcbMultiplier,
};
use fedbo_streams::{Purpose, Seed};

pub(crate) const N_FEATURES: usize = 8;

pub(crate) fn map() -> Arc<FeatureMap> {
    let description = FeatureDescription::random(N_FEATURES, 1, LengthscaleLaw::Fixed(0.2));
    let mut stream = Seed::new(1).stream(Purpose::SHARED_FEATURES, 0, 0);
    Arc::new(FeatureMap::draw(&description, &mut stream).unwrap())
}

/// Creates an agent that queries by its own posterior with probability `local_prob`, and otherwise
/// by a message.
pub(crate) fn strategy(local_prob: f64) -> Fts {
    let domain = Domain::Finite(Arc::new(Points::from_flat(
        1,
        (0..12).map(|i| f64::from(i) / 11.0).collect(),
    )));
    let hyperparameters = Hyperparameters {
        kernel: Kernel::isotropic(Family::Matern52, 1, 0.2, 1.0).unwrap(),
        noise_variance: 1e-2,
    };
    let settings = FtsSettings {
        own: ThompsonSettings {
            surrogate: SurrogateSettings {
                hyperparameters: HyperparameterPolicy::Fixed(hyperparameters),
                standardize: true,
                sampler: OwnSampler::Exact(Prior::default()),
            },
            maximizer: Maximizer::MultiStart(MultiStart::for_dim(1)),
            ucb_multiplier: UcbMultiplier::Constant(1.0),
            repeats: Repeats::Allow,
            search: SampleSearch::Global,
            own_query: OwnQuery::Sample,
        },
        local_prob: LocalProb::Constant(local_prob),
        agent_sampling: AgentSampling::Uniform,
        message: MessageSettings {
            content: MessageContent::Posterior,
            noise_variance: MessageNoise::Given(1e-2),
            standardize: true,
        },
    };
    Fts::new(domain, settings, map(), Seed::new(2)).unwrap()
}

/// Creates an agent with these numbers of initial points and rounds.
pub(crate) fn agent(
    id: u32,
    n_initial: u32,
    n_rounds: u64,
    local_prob: f64,
    seed: u64,
) -> Agent<Fts> {
    let plan = AgentPlan {
        id,
        history: vec![Observation::new(vec![3.0 / 11.0], Some(0.1), Source::Initial)],
        initial: (0..n_initial).map(|i| vec![f64::from(i) / 11.0]).collect(),
        n_rounds,
    };
    Agent::new(strategy(local_prob), plan, Seed::new(seed)).unwrap()
}

/// A valid message with `first` as its first weight.
pub(crate) fn update(sender: u32, round: u64, first: f64) -> AgentUpdate {
    let mut weights = vec![0.5; N_FEATURES];
    weights[0] = first;
    AgentUpdate { sender, round, map: map().hash(), weights: weights.into() }
}

pub(crate) fn broadcast(round: u64, messages: Vec<AgentUpdate>, stragglers: &[u32]) -> Broadcast {
    Broadcast { round, messages, stragglers: stragglers.to_vec() }
}
