//! Compares peers on special graphs with reference loops that do not use peers.

use fedbo_protocol::{InitialSharing, Neighbourhood, Peer, PeerPlan, ReportContent};
use fedbo_strategies::{Observation, Points, Source, Strategy as _, ThompsonSampling};
use fedbo_streams::Purpose;

use crate::peers::common::{SYNCHRONOUS, Team, calm, complete, domain, objective, settings, star};

fn observation(unit: Vec<f64>) -> Observation {
    let value = Some(objective(&unit));
    Observation::new(unit, value, Source::Own)
}

/// A reference for batch Thompson sampling, with one model of all observations and one sample per
/// agent in each round.
fn batch(team: &Team) -> Vec<Vec<Vec<f64>>> {
    let mut model = ThompsonSampling::new(domain(), settings(), team.root()).unwrap();
    let mut queries: Vec<Vec<Vec<f64>>> = (0..team.n()).map(|n| team.initial(n)).collect();
    let initial = queries.iter().flatten().cloned().map(observation);
    model.tell(&initial.collect::<Vec<_>>()).unwrap();
    for round in 1..=team.n_rounds {
        let asked: Vec<Vec<f64>> = (0..team.n())
            .map(|agent| {
                let mut stream = team.root().stream(Purpose::PROPOSAL, u64::from(agent), round);
                model.ask(&Points::new(2), &mut stream).unwrap().unit
            })
            .collect();
        let told: Vec<Observation> = asked.iter().cloned().map(observation).collect();
        model.tell(&told).unwrap();
        for (queries, unit) in queries.iter_mut().zip(asked) {
            queries.push(unit);
        }
    }
    queries
}

/// A reference for an agent without neighbours.
fn alone(team: &Team, agent: u32) -> Vec<Vec<f64>> {
    let mut model = ThompsonSampling::new(domain(), settings(), team.root()).unwrap();
    let mut queries = team.initial(agent);
    let told: Vec<Observation> = queries.iter().cloned().map(observation).collect();
    model.tell(&told).unwrap();
    for round in 1..=team.n_rounds {
        let mut stream = team.root().stream(Purpose::PROPOSAL, u64::from(agent), round);
        let unit = model.ask(&Points::new(2), &mut stream).unwrap().unit;
        model.tell(&[observation(unit.clone())]).unwrap();
        queries.push(unit);
    }
    queries
}

fn peers(team: &Team) -> Vec<Peer> {
    (0..team.n()).map(|agent| team.peer(agent)).collect()
}

#[test]
fn a_complete_graph_is_batch_thompson_sampling() {
    for (n, seed) in [(1, 1), (2, 2), (4, 3)] {
        let team = Team::new(n, &complete(n), SYNCHRONOUS, seed);
        assert_eq!(calm(&mut peers(&team)), batch(&team), "{n} agents");
    }
}

#[test]
fn a_graph_without_edges_is_everybody_alone() {
    let team = Team::new(3, &[], SYNCHRONOUS, 4);
    let queries = calm(&mut peers(&team));
    for agent in 0..3 {
        assert_eq!(queries[agent as usize], alone(&team, agent));
    }
}

/// In a star, the centre has all observations, and a leaf has its own and the centre's.
#[test]
fn each_agent_models_its_own_and_its_neighbours_observations() {
    let team = Team::new(4, &star(4), SYNCHRONOUS, 5);
    let mut peers = peers(&team);
    let queries = calm(&mut peers);
    let known = |agents: &[usize]| {
        // The observations of the last round are shared but not used any more.
        let of = |agent: &usize| queries[*agent][..6].iter().map(|unit| objective(unit));
        let mut known: Vec<f64> = agents.iter().flat_map(of).collect();
        known.sort_by(f64::total_cmp);
        known
    };
    for (agent, sources) in [(0, vec![0, 1, 2, 3]), (1, vec![0, 1]), (3, vec![0, 3])] {
        let mut found = peers[agent].surrogate().outputs().to_vec();
        found.sort_by(f64::total_cmp);
        assert_eq!(found, known(&sources), "agent {agent}");
    }
}

/// A new neighbour receives all earlier reports, and reports are kept after the edge is removed.
#[test]
fn a_neighbour_that_comes_brings_its_past() {
    let team = Team::new(2, &[], SYNCHRONOUS, 6);
    let plan = |id: u32, other: u32| PeerPlan {
        neighbourhood: Neighbourhood::fixed([]).from_round(3, [other]).from_round(5, []),
        ..team.plan(id)
    };
    let mut peers = [team.peer_with(plan(0, 1)), team.peer_with(plan(1, 0))];
    let queries = calm(&mut peers);
    for agent in 0..2_usize {
        assert_eq!(queries[agent][..4], alone(&team, u32::try_from(agent).unwrap())[..4]);
        // The agent has its own observations of rounds 0 to 4 and the other's of rounds 0 to 3,
        // because the edge is removed before round 4 is needed.
        let (own, others) = (&queries[agent][..6], &queries[1 - agent][..5]);
        let mut expected: Vec<f64> = own.iter().chain(others).map(|unit| objective(unit)).collect();
        let mut found = peers[agent].surrogate().outputs().to_vec();
        expected.sort_by(f64::total_cmp);
        found.sort_by(f64::total_cmp);
        assert_eq!(found, expected);
    }
}

#[test]
fn what_is_shared_of_initial_points_is_a_choice() {
    let team = Team::new(2, &complete(2), SYNCHRONOUS, 7);
    let n_known = |initial_sharing| {
        let plan = |id| PeerPlan { initial_sharing, ..team.plan(id) };
        let mut peers = [team.peer_with(plan(0)), team.peer_with(plan(1))];
        calm(&mut peers);
        peers[0].surrogate().len()
    };
    assert_eq!(n_known(InitialSharing::All), 2 * (2 + 4));
    assert_eq!(n_known(InitialSharing::Best), 2 * (2 + 4) - 1);
    assert_eq!(n_known(InitialSharing::Nothing), 2 * (2 + 4) - 2);
}

/// A placebo report has the observed values, but at none of the observed points.
#[test]
fn a_placebo_says_nothing_of_where_values_are_from() {
    let team = Team::new(2, &complete(2), SYNCHRONOUS, 8);
    let plan = |id| PeerPlan { content: ReportContent::Placebo, ..team.plan(id) };
    let mut peers = [team.peer_with(plan(0)), team.peer_with(plan(1))];
    let queries = calm(&mut peers);
    for report in peers[1].log() {
        for shared in &report.observations {
            assert!(!queries[1].contains(&shared.unit));
            let value = shared.value.unwrap();
            assert!(queries[1].iter().any(|unit| objective(unit).to_bits() == value.to_bits()));
        }
    }
}
