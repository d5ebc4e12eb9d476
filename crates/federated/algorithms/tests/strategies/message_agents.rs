//! Contract tests for agents that send statistics of observations.

use fedbo_federated::MessageAgent;
use fedbo_gp::MapHash;
use fedbo_protocol::{AgentUpdate, Broadcast, MessageRejected, UpdateRejected, UsesHandouts};
use fedbo_strategies::{
    Collaborator, MessageParty, Observation, Points, SharedMessage, Source, Strategy,
};
use fedbo_testkit::{test_stream, uniform_points};

pub(crate) const RANK: usize = 10;

/// 12 observations of a function that peaks at a different point for each agent.
pub(crate) fn seen(id: u32) -> Vec<Observation> {
    let points = uniform_points(12, 2, &mut test_stream(u64::from(id)));
    let shift = 0.1 * f64::from(id);
    let observation = |x: &[f64]| {
        Observation::new(
            x.to_vec(),
            Some(-(x[0] - 0.3 - shift).powi(2) - (x[1] - 0.6).powi(2)),
            Source::Initial,
        )
    };
    points.rows().map(observation).collect()
}

/// The message of an agent after it has observed its points.
pub(crate) fn update<P: MessageParty>(mut agent: MessageAgent<P>, id: u32) -> AgentUpdate {
    agent.tell(&seen(id)).unwrap();
    let weights = agent.weight_sample(&mut test_stream(u64::from(id))).unwrap();
    AgentUpdate { sender: id, round: 0, map: agent.map().hash(), weights: weights.into() }
}

pub(crate) fn broadcast(messages: Vec<AgentUpdate>, stragglers: Vec<u32>) -> Broadcast {
    Broadcast { round: 1, messages, stragglers }
}

/// Checks that messages have the length that coordinators expect, without observations, with
/// observations, and from a placebo, which sends different content. Returns these three messages.
pub(crate) fn messages_have_one_length<P: MessageParty>(
    new: impl Fn(bool) -> MessageAgent<P>,
) -> [Vec<f64>; 3] {
    let expected = SharedMessage::n_numbers(RANK, 2);
    assert_eq!(expected, 10 * 13 / 2 + 2 + 2);
    let empty = new(false).weight_sample(&mut test_stream(1)).unwrap();
    let [own, placebo] = [false, true].map(|placebo| update(new(placebo), 1).weights.to_vec());
    assert_ne!(own, placebo);
    let messages = [empty, own, placebo];
    assert!(messages.iter().all(|numbers| numbers.len() == expected));
    messages
}

/// Checks that the agent's own message is skipped, that a straggler's message is dropped until it
/// sends a new one, and that a newer message replaces an older one. Returns the weight of the other
/// agents, `share`, with three, one, two and none of them.
pub(crate) fn broadcasts_are_taken<P: MessageParty>(
    new: impl Fn(bool) -> MessageAgent<P>,
    share: impl Fn(&MessageAgent<P>) -> f64,
) -> [f64; 4] {
    let mut agent = new(false);
    let updates = |ids: &[u32]| ids.iter().map(|id| update(new(false), *id)).collect();
    [
        (updates(&[1, 2, 3, 4]), vec![], 3),
        (vec![], vec![1, 2], 1),
        (updates(&[1]), vec![], 2),
        (vec![], vec![1, 3], 0),
    ]
    .map(|(messages, stragglers, n_parties)| {
        assert!(agent.take(broadcast(messages, stragglers), 4).is_empty());
        assert_eq!(agent.party().n_parties(), n_parties);
        let share = share(&agent);
        assert!(share >= 0.0 && (share > 0.0) == (n_parties > 0), "{share} of {n_parties}");
        share
    })
}

/// Checks that the order of messages has no influence, bit for bit. Once an agent that joins late
/// has all messages, it equals one that was there from the start.
pub(crate) fn the_order_of_messages_does_not_count<P: MessageParty>(
    new: impl Fn(bool) -> MessageAgent<P>,
) {
    let ask = |ids: [u32; 3]| {
        let mut agent = new(false);
        agent.tell(&seen(9)).unwrap();
        for id in ids {
            agent.take(broadcast(vec![update(new(false), id)], Vec::new()), 9);
        }
        agent.ask(&Points::new(2), &mut test_stream(3)).unwrap()
    };
    let expected = ask([1, 2, 3]);
    assert_eq!(ask([3, 1, 2]), expected);
    assert_eq!(ask([2, 3, 1]), expected);
}

/// Checks that invalid and hostile messages are refused with errors that name the sender, and that
/// the others are used.
pub(crate) fn defective_messages_are_refused<P: MessageParty>(
    new: impl Fn(bool) -> MessageAgent<P>,
) {
    let mut agent = new(false);
    let good = update(new(false), 1);
    let with = |sender: u32, change: &dyn Fn(&mut AgentUpdate)| {
        let mut bad = AgentUpdate { sender, ..good.clone() };
        change(&mut bad);
        bad
    };
    let messages = vec![
        good.clone(),
        with(2, &|bad| bad.map = MapHash([7; 32])),
        with(3, &|bad| bad.weights.truncate(5)),
        with(4, &|bad| bad.weights[3] = f64::INFINITY),
        with(5, &|bad| bad.weights[0] = 1e300),
        with(6, &|bad| bad.weights[RANK..].iter_mut().for_each(|entry| *entry = 1e308)),
        with(7, &|bad| *bad.weights.iter_mut().nth_back(2).unwrap() = 2.0),
        with(8, &|bad| bad.weights[RANK..].iter_mut().for_each(|entry| *entry = -1e3)),
        with(9, &|bad| {
            bad.weights.fill(0.0);
            bad.weights[0] = 9.0;
        }),
        with(10, &|bad| *bad.weights.last_mut().unwrap() = -1.0),
        with(11, &|bad| *bad.weights.iter_mut().nth_back(1).unwrap() = 1e300),
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
    assert_eq!(senders, [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(agent.party().n_parties(), 1);
    agent.ask(&Points::new(2), &mut test_stream(1)).unwrap();
}
