//! Tests of agents with aggregate handouts: the rounds in which they upload, and how handouts are
//! joined.

use std::sync::Arc;

use fedbo_federated::dp_fts_de::{
    AggregateUse, DpFtsDe, DpFtsDeSettings, ExplorationWeights, Memory,
};
use fedbo_protocol::{
    Agent, AgentEffect, AgentError, AgentEvent, AgentPlan, AgentUpdate, AggregateHandout, FreePace,
    Handout, Release, UpdateRejected, UsesHandouts,
};
use fedbo_protocol::{Aggregate, AggregateContent};
use fedbo_strategies::{Domain, LocalProb, MessageSettings, Partition, Points, ThompsonSettings};
use fedbo_streams::Seed;

use crate::aggregator::common::{OneHot, shared_map};

fn agent(n_initial: usize, n_rounds: u64) -> Agent<OneHot> {
    let plan =
        AgentPlan { id: 1, history: Vec::new(), initial: vec![vec![0.75]; n_initial], n_rounds };
    Agent::new(OneHot::new(1, 3, 30), plan, Seed::new(7)).unwrap()
}

fn release(round: u64) -> Arc<Release> {
    released(round, vec![0.0; 2])
}

fn released(round: u64, numbers: Vec<f64>) -> Arc<Release> {
    let aggregate = Aggregate {
        round,
        content: AggregateContent::RegionSums(vec![numbers]),
        noise_std: 0.0,
        witnesses: Vec::new(),
    };
    let bytes = round.to_le_bytes().to_vec().into();
    Arc::new(Release { aggregate, bytes })
}

fn handout(round: u64, releases: &[u64], collects: bool) -> AggregateHandout {
    AggregateHandout {
        round,
        releases: releases.iter().map(|round| release(*round)).collect(),
        collects,
    }
}

fn begin(agent: &mut Agent<OneHot>, handout: AggregateHandout) -> Vec<AgentEffect> {
    agent.handle(AgentEvent::Broadcast(handout)).unwrap()
}

fn evaluated(agent: &mut Agent<OneHot>, trial: u64) -> Vec<AgentEffect> {
    let value = Some(0.5);
    agent.handle(AgentEvent::Evaluated { trial, value }).unwrap()
}

fn upload(effect: &AgentEffect) -> &AgentUpdate {
    match effect {
        AgentEffect::Upload(update) => update,
        other => panic!("an upload expected, not {other:?}"),
    }
}

fn is_trial_of(effects: &[AgentEffect], round: u64) -> bool {
    matches!(effects, [AgentEffect::Evaluate(trial)] if trial.round == round)
}

fn rounds(releases: &[Arc<Release>]) -> Vec<u64> {
    releases.iter().map(|release| release.aggregate.round).collect()
}

/// Round 0 collects after the initial points. Later rounds collect if their handout requests it. In
/// other rounds, the end of the trial has no effect. The last round completes the plan in either
/// case.
#[test]
fn an_agent_uploads_only_where_vectors_are_collected() {
    for last_collects in [true, false] {
        let mut agent = agent(1, 3);
        agent.start().unwrap();
        let effects = evaluated(&mut agent, 0);
        assert_eq!((effects.len(), upload(&effects[0]).round), (1, 0));
        assert!(is_trial_of(&begin(&mut agent, handout(1, &[0], false)), 1));
        assert_eq!(evaluated(&mut agent, 1), []);
        assert_eq!(begin(&mut agent, handout(1, &[0], false)), []);
        assert!(is_trial_of(&begin(&mut agent, handout(2, &[], true)), 2));
        let effects = evaluated(&mut agent, 2);
        assert_eq!((effects.len(), upload(&effects[0]).round), (1, 2));
        assert!(is_trial_of(&begin(&mut agent, handout(3, &[2], last_collects)), 3));
        let effects = evaluated(&mut agent, 3);
        assert_eq!(effects.len(), 1 + usize::from(last_collects));
        assert_eq!(effects.last(), Some(&AgentEffect::Finished));
    }
}

/// After a trial, an agent acts on all handouts that arrived during it, in any order. The agent
/// gets every release once and in order, the newest round, and that round's `collects` flag.
#[test]
fn a_slow_agent_takes_every_release_once() {
    let all = [
        handout(1, &[0], true),
        handout(2, &[1], true),
        handout(3, &[2], true),
        handout(4, &[3], false),
    ];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let mut agent = agent(1, 9);
        agent.start().unwrap();
        for index in order.into_iter().chain(order) {
            assert_eq!(begin(&mut agent, all[index].clone()), []);
        }
        let effects = evaluated(&mut agent, 0);
        // The vector for round 0 is late but still belongs to round 0.
        let update = upload(&effects[0]);
        assert_eq!((update.round, update.weights[1].to_bits()), (0, 1.0_f64.to_bits()));
        assert!(is_trial_of(&effects[1..], 4));
        assert_eq!(evaluated(&mut agent, 1), []); // round 4 does not collect

        let mut joined = all[order[0]].clone();
        for index in order {
            joined.join(all[index].clone());
        }
        assert_eq!((joined.round(), joined.wants_upload()), (4, false));
        let mut probe = OneHot::new(1, 3, 30);
        assert_eq!(probe.take(joined, 1), []);
        assert_eq!(rounds(&probe.taken), [0, 1, 2, 3]);
    }
}

#[test]
fn handouts_share_their_releases() {
    let first = handout(1, &[0], true);
    let mut joined = first.clone();
    joined.join(handout(2, &[1], true));
    assert!(Arc::ptr_eq(&first.releases[0], &joined.releases[0]));
    assert_eq!(Arc::strong_count(&first.releases[0]), 2);
}

/// DP-FTS-DE uses its handouts, and reports a release that does not match its settings.
#[test]
fn dp_fts_de_takes_aggregates() {
    let settings = DpFtsDeSettings {
        own: ThompsonSettings::default_for(1),
        local_prob: LocalProb::Constant(0.5),
        trust: AggregateUse::Schedule,
        message: MessageSettings::default(),
        partition: Partition::whole(1),
        region_sizes: vec![4],
        emphasis: ExplorationWeights::UNIFORM,
        sampling_rate: 0.5,
        memory: Memory::Latest,
    };
    let domain = Domain::Finite(Arc::new(Points::from_flat(1, vec![0.25, 0.75])));
    let mut strategy = DpFtsDe::new(domain, settings, shared_map(), Seed::new(1)).unwrap();
    let mut joined =
        AggregateHandout { round: 1, releases: vec![released(0, vec![8.0, 0.0])], collects: true };
    joined.join(AggregateHandout {
        round: 2,
        releases: vec![released(1, vec![4.0, 6.0])],
        collects: true,
    });
    assert_eq!(strategy.take(joined, 3), []);
    // The weights are sum / (q N) = sum / 2. The later release counts.
    assert_eq!(strategy.region_weights(), Some(vec![vec![2.0, 3.0]]));
    let unfit =
        AggregateHandout { round: 3, releases: vec![released(2, vec![1.0; 5])], collects: true };
    let expected = UpdateRejected::Unfit { agent: 3, round: 2 };
    assert_eq!(strategy.take(unfit, 3), [expected]);
    assert_eq!(strategy.region_weights(), Some(vec![vec![2.0, 3.0]]));
}

fn proceed(agent: &mut Agent<OneHot>) -> Vec<AgentEffect> {
    agent.handle(AgentEvent::Proceed).unwrap()
}

/// At a free pace, an agent begins each query on request. It has a message only if it has new
/// observations and uploads left. Here, this is after its own queries 0, 2 and 4, regardless of the
/// windows.
#[test]
fn a_free_agent_sends_what_is_new_and_no_more_than_it_may() {
    let pace = FreePace { every: 2, uploads_max: Some(3), max_age: 9 };
    let mut agent = agent(2, 7).at_free_pace(pace);
    agent.start().unwrap();
    assert!(!agent.has_upload(), "initial points are left");
    assert!(is_trial_of(&evaluated(&mut agent, 0), 0));
    assert_eq!(agent.upload(0).unwrap(), None);
    assert_eq!(evaluated(&mut agent, 1), []);
    let mut sent = Vec::new();
    for step in 1..=7 {
        assert!(is_trial_of(&proceed(&mut agent), step));
        // During the trial, the agent uploads the earlier observations, once.
        for window in [3 * step, 3 * step + 1] {
            if let Some(update) = agent.upload(window).unwrap() {
                assert_eq!(update.round, window);
                sent.push((step - 1, window));
            }
        }
        let ended = evaluated(&mut agent, 1 + step);
        assert_eq!(ended.as_slice(), if step < 7 { &[][..] } else { &[AgentEffect::Finished][..] });
    }
    assert_eq!(sent, [(0, 3), (2, 9), (4, 15)]);
    assert_eq!(agent.upload(99).unwrap(), None, "three are all");
}

/// A handout that arrives during a trial is used after the trial, a repeated handout is ignored,
/// and a second request to proceed is an error.
#[test]
fn a_free_agent_uses_what_has_come_in_its_next_query() {
    let pace = FreePace { every: 1, uploads_max: None, max_age: 9 };
    let mut agent = agent(1, 2).at_free_pace(pace);
    agent.start().unwrap();
    assert_eq!(begin(&mut agent, handout(1, &[0], true)), []);
    assert_eq!(begin(&mut agent, handout(2, &[1], true)), []);
    assert!(agent.strategy().taken.is_empty(), "not before its trial has ended");
    evaluated(&mut agent, 0);
    assert_eq!(begin(&mut agent, handout(2, &[1], true)), []);
    assert!(is_trial_of(&proceed(&mut agent), 1));
    assert_eq!(rounds(&agent.strategy().taken), [0, 1]);
    let twice = agent.handle(AgentEvent::Proceed).unwrap_err();
    assert!(matches!(twice, AgentError::Unexpected { .. }), "{twice}");
    evaluated(&mut agent, 1);
    assert_eq!(begin(&mut agent, handout(7, &[4, 5], true)), []);
    assert_eq!(rounds(&agent.strategy().taken), [0, 1, 4, 5], "between two trials, at once");
}
