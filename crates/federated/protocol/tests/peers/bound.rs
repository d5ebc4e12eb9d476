//! Compares the measured Bayesian simple regret with the bound of Theorem 3.1, on functions drawn
//! from the agents' prior.

use std::sync::Arc;

use fedbo_federated::distributed_ts::regret_bound::RegretPrior;
use fedbo_federated::distributed_ts::{DistributedTs, DistributedTsSettings, Query};
use fedbo_gp::{Family, Hyperparameters, JointSampler, Kernel, Posterior};
use fedbo_optim::Points;
use fedbo_protocol::{Neighbourhood, Peer, PeerEffect, PeerEvent, PeerPlan};
use fedbo_strategies::{
    Domain, HyperparameterPolicy, Repeats, SurrogateSettings, ThompsonSettings,
};
use fedbo_streams::{Purpose, Seed};

use crate::peers::common::{SYNCHRONOUS, Team, complete, star};

const N_POINTS: u32 = 50;
const NOISE_STD: f64 = 0.5;
const N_FUNCTIONS: u64 = 40;

fn kernel() -> Kernel {
    Kernel::isotropic(Family::Matern52, 1, 0.2, 1.0).unwrap()
}

fn points() -> Points {
    let places = (0..N_POINTS).map(|i| f64::from(i) / f64::from(N_POINTS - 1));
    Points::from_flat(1, places.collect())
}

/// f* − f(x) for each agent and round, for one function. Agents know only the prior.
fn instants(team: &Team, joint: &Arc<JointSampler>, seed: Seed) -> Vec<Vec<f64>> {
    let prior = Posterior::new(kernel(), NOISE_STD.powi(2), Points::new(1), Vec::new()).unwrap();
    let mut stream = seed.stream(Purpose::PROBLEM, 0, 0);
    let function = joint.sample(&prior, 1.0, &mut stream).unwrap();
    let best = function.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let settings = ThompsonSettings {
        surrogate: SurrogateSettings {
            hyperparameters: HyperparameterPolicy::Fixed(Hyperparameters {
                kernel: kernel(),
                noise_variance: NOISE_STD.powi(2),
            }),
            standardize: false,
            ..SurrogateSettings::default_for(1)
        },
        repeats: Repeats::Allow,
        ..ThompsonSettings::default_for(1)
    };
    let mut peers: Vec<Peer> = (0..team.n())
        .map(|id| {
            let settings = DistributedTsSettings { own: settings.clone(), query: Query::Sample };
            let domain = Domain::Factored(Arc::clone(joint));
            let strategy = DistributedTs::new(domain, settings, seed).unwrap();
            let neighbours = team.neighbours[id as usize].iter().copied();
            let plan = PeerPlan {
                initial: Vec::new(),
                neighbourhood: Neighbourhood::fixed(neighbours),
                ..team.plan(id)
            };
            Peer::new(Box::new(strategy), plan, seed)
        })
        .collect();
    let mut instants = vec![Vec::new(); team.n() as usize];
    let mut sent = vec![0; team.n() as usize];
    let mut work: Vec<(usize, Option<PeerEvent>)> = (0..peers.len()).map(|n| (n, None)).collect();
    while let Some((agent, event)) = work.pop() {
        let effects = match event {
            None => peers[agent].start(0).unwrap(),
            Some(event) => peers[agent].handle(event, 0).unwrap(),
        };
        for effect in effects {
            let PeerEffect::Evaluate(trial) = effect else {
                continue;
            };
            let place = (0..N_POINTS as usize)
                .find(|place| (points().row(*place)[0] - trial.unit[0]).abs() < 1e-12)
                .unwrap();
            instants[agent].push(best - function[place]);
            let mut noise = seed.stream(Purpose::OBSERVATION_NOISE, agent as u64, trial.index);
            let value = Some(function[place] + NOISE_STD * noise.normal());
            let trial = trial.index;
            work.push((agent, Some(PeerEvent::Evaluated { trial, value })));
        }
        let log = peers[agent].log().to_vec();
        for report in &log[sent[agent]..] {
            for to in peers[agent].recipients() {
                work.push((*to as usize, Some(PeerEvent::Received(report.clone()))));
            }
        }
        sent[agent] = log.len();
    }
    instants
}

/// R_SB(t) is the minimum over agents and rounds up to t of the mean of f* − f(x) over functions
/// (equation 1).
#[test]
fn regret_stays_under_the_bound_on_functions_of_the_prior() {
    let joint = Arc::new(JointSampler::new(kernel(), points()).unwrap());
    for (n, edges, clique) in [(1, vec![], 1), (4, star(4), 2), (3, complete(3), 3)] {
        let team = Team { n_rounds: 40, ..Team::new(n, &edges, SYNCHRONOUS, 1) };
        let prior = RegretPrior::new(&kernel(), NOISE_STD.powi(2), &points(), 40 * clique).unwrap();
        let bound = prior.bound(clique);
        let mut sums = vec![vec![0.0; 40]; n as usize];
        for function in 0..N_FUNCTIONS {
            let seed = Seed::new(7).child(Purpose::RUN, function);
            for (sums, instants) in sums.iter_mut().zip(instants(&team, &joint, seed)) {
                for (sum, instant) in sums.iter_mut().zip(instants) {
                    *sum += instant / N_FUNCTIONS as f64;
                }
            }
        }
        let mut least = f64::INFINITY;
        let mut first = None;
        for round in 0..40 {
            let of_round = sums.iter().map(|agent| agent[round]);
            least = of_round.fold(least, f64::min);
            first.get_or_insert(least);
            let limit = bound.at(round as u64 + 1);
            assert!(least <= limit, "{n} agents, round {round}: {least} above {limit}");
        }
        // Random queries would satisfy the bound too, so the measured regret must also be far below
        // that of the first queries.
        assert!(least < 0.25 * first.unwrap(), "{n} agents: {least}");
    }
}
