//! The shared prior among agents: what is sent, what is taken from broadcasts, and the controls.

use std::sync::Arc;

use fedbo_federated::shared_prior::SharedPriorAgent;
use fedbo_gp::MapHash;
use fedbo_protocol::{AgentUpdate, Broadcast, MessageRejected, UpdateRejected, UsesHandouts};
use fedbo_strategies::{
    Collaborator, Observation, OthersUse, Points, SharedMessage, SharedPriorSettings, Source,
    Strategy,
};
use fedbo_streams::Seed;
use fedbo_testkit::{test_stream, uniform_points};

use crate::agents::map;
use crate::common::unit_box;

const RANK: usize = 10;

fn agent(is_placebo: bool) -> SharedPriorAgent {
    let settings = SharedPriorSettings { rank: RANK, ..SharedPriorSettings::default_for(2, false) };
    SharedPriorAgent::new(unit_box(2), settings, is_placebo, map(2, 40), Seed::new(2)).unwrap()
}

/// An agent that has seen 12 points of a function of its own.
fn experienced(id: u32, is_placebo: bool) -> SharedPriorAgent {
    let mut agent = agent(is_placebo);
    let points = uniform_points(12, 2, &mut test_stream(u64::from(id)));
    let shift = 0.1 * f64::from(id);
    let told: Vec<Observation> = points
        .rows()
        .map(|x| Observation {
            unit: x.to_vec(),
            value: Some(-(x[0] - 0.3 - shift).powi(2) - (x[1] - 0.6).powi(2)),
            source: Source::Initial,
        })
        .collect();
    agent.tell(&told).unwrap();
    agent
}

fn update(id: u32, is_placebo: bool) -> AgentUpdate {
    let agent = experienced(id, is_placebo);
    let weights = agent.weight_sample(&mut test_stream(u64::from(id))).unwrap();
    AgentUpdate { sender: id, round: 0, map: agent.map().hash(), weights }
}

fn broadcast(messages: Vec<AgentUpdate>, stragglers: Vec<u32>) -> Broadcast {
    Broadcast { round: 1, messages, stragglers }
}

/// Messages and placebos have the length that coordinators expect, also without observations.
#[test]
fn messages_have_one_length() {
    let expected = SharedMessage::n_numbers(RANK, 2);
    assert_eq!(expected, 10 * 13 / 2 + 2);
    let empty = agent(false).weight_sample(&mut test_stream(1)).unwrap();
    for numbers in [empty, update(1, false).weights.clone(), update(1, true).weights.clone()] {
        assert_eq!(numbers.len(), expected);
    }
    assert_ne!(update(1, false).weights, update(1, true).weights);
}

/// The agent's own message is skipped, a straggler's is forgotten until it comes again, and a newer one takes the place of an older.
#[test]
fn broadcasts_are_taken() {
    let mut agent = agent(false);
    let all: Vec<AgentUpdate> = (1..=4).map(|id| update(id, false)).collect();
    assert!(agent.take(broadcast(all, Vec::new()), 4).is_empty());
    assert_eq!(agent.party().n_parties(), 3);
    let trust = |agent: &SharedPriorAgent| agent.party().trust().unwrap();
    assert!(trust(&agent) > 0.0);
    agent.take(broadcast(Vec::new(), vec![1, 2]), 4);
    assert_eq!(agent.party().n_parties(), 1);
    agent.take(broadcast(vec![update(1, false)], Vec::new()), 4);
    assert_eq!(agent.party().n_parties(), 2);
    agent.take(broadcast(Vec::new(), vec![1, 3]), 4);
    assert_eq!((agent.party().n_parties(), trust(&agent)), (0, 0.0));
}

/// The order in which messages come changes nothing, to the last bit.
#[test]
fn the_order_of_messages_does_not_count() {
    let ask = |ids: &[u32]| {
        let mut agent = experienced(9, false);
        for id in ids {
            agent.take(broadcast(vec![update(*id, false)], Vec::new()), 9);
        }
        agent.ask(&Points::new(2), &mut test_stream(3)).unwrap()
    };
    assert_eq!(ask(&[1, 2, 3]), ask(&[3, 1, 2]));
}

/// Defective and hostile messages are refused and named, and the others are used.
#[test]
fn defective_messages_are_refused() {
    let mut agent = agent(false);
    let good = update(1, false);
    let with = |sender: u32, change: &dyn Fn(&mut AgentUpdate)| {
        let mut bad = update(1, false);
        bad.sender = sender;
        change(&mut bad);
        bad
    };
    let messages = vec![
        good,
        with(2, &|bad| bad.map = MapHash([7; 32])),
        with(3, &|bad| bad.weights.truncate(5)),
        with(4, &|bad| bad.weights[3] = f64::INFINITY),
        with(5, &|bad| bad.weights[0] = 1e300),
        with(6, &|bad| bad.weights[RANK..].iter_mut().for_each(|entry| *entry = 1e308)),
        with(7, &|bad| *bad.weights.last_mut().unwrap() = 2.0),
        with(8, &|bad| bad.weights[RANK..].iter_mut().for_each(|entry| *entry = -1e3)),
        with(9, &|bad| {
            bad.weights.fill(0.0);
            bad.weights[0] = 9.0;
        }),
    ];
    let refused = agent.take(broadcast(messages, Vec::new()), 0);
    let senders: Vec<u32> = refused
        .iter()
        .map(|each| match each {
            UpdateRejected::Message(
                MessageRejected::WrongMap { sender, .. }
                | MessageRejected::WrongLength { sender, .. }
                | MessageRejected::NotFinite { sender, .. }
                | MessageRejected::Implausible { sender, .. },
            ) => *sender,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(senders, [2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(agent.party().n_parties(), 1);
    agent.ask(&Points::new(2), &mut test_stream(1)).unwrap();
}

/// An agent that uses nothing of others asks as one that got nothing.
#[test]
fn alone_messages_change_nothing() {
    let settings = SharedPriorSettings {
        rank: RANK,
        others: OthersUse::Nothing,
        ..SharedPriorSettings::default_for(2, false)
    };
    let new = || {
        let (map, settings) = (Arc::clone(&map(2, 40)), settings.clone());
        SharedPriorAgent::new(unit_box(2), settings, false, map, Seed::new(2)).unwrap()
    };
    let mut with = new();
    with.take(broadcast((1..=4).map(|id| update(id, false)).collect(), Vec::new()), 0);
    let ask = |agent: &SharedPriorAgent| agent.ask(&Points::new(2), &mut test_stream(5)).unwrap();
    assert_eq!(ask(&with), ask(&new()));
}
