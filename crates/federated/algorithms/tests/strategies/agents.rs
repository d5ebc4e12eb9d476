//! Small agents shared by the tests.

use std::sync::Arc;

use fedbo_federated::fts::{AgentSampling, Fts, FtsSettings};
use fedbo_gp::{FeatureDescription, FeatureMap, LengthscaleLaw};
use fedbo_strategies::{
    Collaborator, Domain, LocalProb, MessageContent, MessageNoise, MessageSettings,
    ThompsonSettings,
};
use fedbo_streams::{Purpose, Seed};
use fedbo_testkit::test_stream;

use crate::common::{AskAlone, SEED, line, own};

/// A map with `m` features and length scale 0.2.
pub(crate) fn map(dim: usize, m: usize) -> Arc<FeatureMap> {
    let description = FeatureDescription::random(m, dim, LengthscaleLaw::Fixed(0.2));
    let mut stream = Seed::new(SEED).stream(Purpose::SHARED_FEATURES, 0, 0);
    Arc::new(FeatureMap::draw(&description, &mut stream).unwrap())
}

pub(crate) const MESSAGE: MessageSettings = MessageSettings {
    content: MessageContent::Posterior,
    noise_variance: MessageNoise::Given(1e-2),
    standardize: true,
};

pub(crate) fn fts_with(
    domain: Domain,
    own: ThompsonSettings,
    local_prob: LocalProb,
    agent_sampling: AgentSampling,
    message: MessageSettings,
    map: Arc<FeatureMap>,
) -> Fts {
    let settings = FtsSettings { own, local_prob, agent_sampling, message };
    Fts::new(domain, settings, map, Seed::new(SEED)).unwrap()
}

/// An agent on 16 points of a line with 16 shared features, for which `ask` takes microseconds.
pub(crate) fn small_fts(local_prob: LocalProb, agent_sampling: AgentSampling) -> Fts {
    fts_with(line(16), own(1), local_prob, agent_sampling, MESSAGE, map(1, 16))
}

/// Lets an agent receive messages with prior draws from these senders.
pub(crate) fn with_messages(mut fts: Fts, senders: impl IntoIterator<Item = u32>) -> Fts {
    for sender in senders {
        let m = fts.map().n_features();
        let weights = test_stream(1000 + u64::from(sender)).normals(m);
        let hash = fts.map().hash();
        fts.receive(sender, hash, &weights).unwrap();
    }
    fts
}

impl AskAlone for Fts {
    fn dim(&self) -> usize {
        self.domain().dim()
    }
}
