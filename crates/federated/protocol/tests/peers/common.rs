//! Peers with small surrogates, an objective that takes a different value at each point, and a
//! network without faults.

use std::collections::BTreeMap;
use std::sync::Arc;

use fedbo_federated::distributed_ts::{DistributedTs, DistributedTsSettings, Query};
use fedbo_federated::shared_prior::NeighbourPriorAgent;
use fedbo_gp::{FeatureDescription, FeatureMap};
use fedbo_protocol::{
    InitialSharing, Neighbour, Neighbourhood, Pace, Peer, PeerEffect, PeerEvent, PeerPlan,
    ReportContent,
};
use fedbo_space::{ParameterSpec, Space};
use fedbo_strategies::{Domain, SharedPriorSettings, ThompsonSettings};
use fedbo_streams::{Purpose, Seed};

/// Agents, and the edges between them.
#[derive(Clone, Debug)]
pub(crate) struct Team {
    pub(crate) neighbours: Vec<Vec<u32>>,
    pub(crate) n_rounds: u64,
    pub(crate) n_initial: usize,
    pub(crate) pace: Pace,
    pub(crate) seed: u64,
    /// Creates an agent. The seed determines its fits.
    pub(crate) strategy: fn(Seed) -> Box<dyn Neighbour>,
}

pub(crate) const SYNCHRONOUS: Pace = Pace::Synchronous { patience: None };

impl Team {
    pub(crate) fn new(n: u32, edges: &[(u32, u32)], pace: Pace, seed: u64) -> Self {
        let mut neighbours = vec![Vec::new(); n as usize];
        for &(a, b) in edges {
            neighbours[a as usize].push(b);
            neighbours[b as usize].push(a);
        }
        Self { neighbours, n_rounds: 5, n_initial: 2, pace, seed, strategy: distributed_ts }
    }

    pub(crate) fn n(&self) -> u32 {
        u32::try_from(self.neighbours.len()).unwrap()
    }

    pub(crate) fn root(&self) -> Seed {
        Seed::new(self.seed)
    }

    pub(crate) fn initial(&self, agent: u32) -> Vec<Vec<f64>> {
        let mut stream = self.root().stream(Purpose::INITIAL_DESIGN, u64::from(agent), 0);
        (0..self.n_initial).map(|_| vec![stream.uniform(), stream.uniform()]).collect()
    }

    pub(crate) fn plan(&self, agent: u32) -> PeerPlan {
        PeerPlan {
            id: agent,
            initial: self.initial(agent),
            n_rounds: self.n_rounds,
            neighbourhood: Neighbourhood::fixed(self.neighbours[agent as usize].iter().copied()),
            pace: self.pace,
            initial_sharing: InitialSharing::All,
            content: ReportContent::Observed,
        }
    }

    pub(crate) fn peer(&self, agent: u32) -> Peer {
        self.peer_with(self.plan(agent))
    }

    pub(crate) fn peer_with(&self, plan: PeerPlan) -> Peer {
        Peer::new((self.strategy)(self.root()), plan, self.root())
    }
}

pub(crate) fn domain() -> Domain {
    let spec = ParameterSpec::float(0.0, 1.0);
    Domain::Space(Space::from_specs([("x", &spec), ("y", &spec)]).unwrap())
}

pub(crate) fn settings() -> ThompsonSettings {
    ThompsonSettings::default_for(2)
}

fn distributed_ts(seed: Seed) -> Box<dyn Neighbour> {
    let settings = DistributedTsSettings { own: settings(), query: Query::Sample };
    Box::new(DistributedTs::new(domain(), settings, seed).unwrap())
}

/// Creates an agent with a shared prior.
pub(crate) fn shared_prior(seed: Seed) -> Box<dyn Neighbour> {
    let description = FeatureDescription { n_features: 30, ..FeatureDescription::for_parties(2) };
    let mut stream = Seed::new(1).stream(Purpose::SHARED_FEATURES, 0, 0);
    let map = Arc::new(FeatureMap::draw(&description, &mut stream).unwrap());
    let settings = SharedPriorSettings { rank: 8, ..SharedPriorSettings::default_for(2, false) };
    Box::new(NeighbourPriorAgent::new(domain(), settings, map, seed).unwrap())
}

/// An objective that takes different values at all distinct points that a test visits.
pub(crate) fn objective(unit: &[f64]) -> f64 {
    -(unit[0] - 0.3).powi(2) - 0.5 * (unit[1] - 0.6).powi(2) + 0.1 * (9.0 * unit[0]).sin()
}

/// Runs the peers with immediate delivery and no losses, and returns each peer's queries.
pub(crate) fn calm(peers: &mut [Peer]) -> Vec<Vec<Vec<f64>>> {
    let mut queries = vec![Vec::new(); peers.len()];
    let mut sent: BTreeMap<(usize, u32), usize> = BTreeMap::new();
    let mut work: Vec<(usize, Option<PeerEvent>)> = (0..peers.len()).map(|n| (n, None)).collect();
    while let Some((agent, event)) = work.pop() {
        let effects = match event {
            None => peers[agent].start(0).unwrap(),
            Some(event) => peers[agent].handle(event, 0).unwrap(),
        };
        for effect in effects {
            match effect {
                PeerEffect::Evaluate(trial) => {
                    let value = Some(objective(&trial.unit));
                    queries[agent].push(trial.unit);
                    let trial = trial.index;
                    work.push((agent, Some(PeerEvent::Evaluated { trial, value })));
                }
                PeerEffect::Rejected(rejected) => panic!("{rejected}"),
                PeerEffect::ContinuedWithout { .. } => panic!("there is no limit"),
                PeerEffect::Shared(_) | PeerEffect::Finished => {}
            }
        }
        for to in peers[agent].recipients() {
            let sent = sent.entry((agent, *to)).or_default();
            for report in &peers[agent].log()[*sent..] {
                work.push((*to as usize, Some(PeerEvent::Received(report.clone()))));
            }
            *sent = peers[agent].log().len();
        }
    }
    queries
}

pub(crate) fn complete(n: u32) -> Vec<(u32, u32)> {
    (0..n).flat_map(|a| (0..a).map(move |b| (a, b))).collect()
}

pub(crate) fn star(n: u32) -> Vec<(u32, u32)> {
    (1..n).map(|leaf| (0, leaf)).collect()
}
