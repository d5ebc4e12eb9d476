//! Rounds of federated Thompson sampling under network faults, with bookkeeping for each message.

use std::collections::{BTreeMap, BTreeSet};

use fedbo_federated::fts::Fts;
use fedbo_protocol::{
    Agent, AgentUpdate, Broadcast, Handout as _, Relay, Tick, Trial, UpdateRejected,
};
use fedbo_strategies::Source;
use fedbo_streams::Stream;

use crate::federation::common::{N_FEATURES, agent, map};
use crate::network_faults::{Counts, Durable, PERIOD, Subject, World};

/// The expected state of an agent, from simple bookkeeping.
#[derive(Default)]
struct ReferenceState {
    /// Handouts that the agent has not acted on.
    told: Vec<Broadcast>,
    /// The round of each sender's unused message.
    inbox: BTreeMap<u32, u64>,
    used: BTreeSet<(u32, u64)>,
    /// The sender of the message that led to the running trial.
    running: Option<u32>,
}

/// A federation with relayed messages.
struct Relayed {
    seed: u64,
    n_rounds: u64,
    n_initial: Vec<u32>,
    shadows: Vec<ReferenceState>,
    /// Broadcast messages, by sender and round.
    relayed: BTreeMap<(u32, u64), AgentUpdate>,
    n_used: u64,
    n_forgotten: u64,
}

impl Relayed {
    fn draw(seed: u64, luck: &mut Stream) -> Self {
        let n_slots = 1 + luck.below(4);
        Self {
            seed,
            n_rounds: 2 + luck.below(6) as u64,
            n_initial: (0..n_slots).map(|_| luck.bits() % 3).collect(),
            shadows: (0..n_slots).map(|_| ReferenceState::default()).collect(),
            relayed: BTreeMap::new(),
            n_used: 0,
            n_forgotten: 0,
        }
    }
}

impl Subject for Relayed {
    type Strategy = Fts;
    type Coordinator = Relay;

    fn n_slots(&self) -> u32 {
        u32::try_from(self.n_initial.len()).unwrap()
    }

    fn agent(&self, slot: u32) -> Agent<Fts> {
        let n_initial = self.n_initial[slot as usize];
        agent(slot, n_initial, self.n_rounds, 0.3, self.seed)
    }

    /// Creates a coordinator that resumes after the last durable broadcast.
    fn coordinator(&self, found: &Durable<Broadcast>, _incarnation: u32) -> Relay {
        let mut newest = BTreeMap::new();
        for broadcast in found.handed.values() {
            newest.extend(broadcast.messages.iter().map(|m| (m.sender, m.round)));
        }
        let participants = (0..self.n_slots()).collect();
        let (map, timeout) = (map().hash(), Some(PERIOD));
        let relay = Relay::new(participants, Vec::new(), N_FEATURES, map, timeout, found.began);
        relay.from_round(found.round, newest)
    }

    /// A message is relayed once, with the bytes that its sender sent. A participant without a
    /// message is a straggler. Only a round with all messages ends before its timeout.
    fn check_handout(
        &mut self,
        found: &Durable<Broadcast>,
        broadcast: &Broadcast,
        now: Tick,
        counts: &mut Counts,
    ) {
        let mut missing: BTreeSet<u32> = (0..self.n_slots()).collect();
        let mut is_whole = true;
        for message in &broadcast.messages {
            let (sender, round) = (message.sender, message.round);
            assert!(round < broadcast.round && missing.remove(&sender), "{message:?}");
            let newest = self.relayed.range((sender, 0)..=(sender, u64::MAX)).last();
            assert!(newest.is_none_or(|((_, newest), _)| *newest < round), "{message:?}");
            self.relayed.insert((sender, round), message.clone());
            is_whole &= round + 1 == broadcast.round;
        }
        assert!(missing.iter().eq(&broadcast.stragglers));
        is_whole &= missing.is_empty();
        assert!(is_whole || now >= found.began + PERIOD);
        counts.add("stragglers", missing.len() as u64);
        counts.add("whole", u64::from(is_whole));
    }

    fn check_refused(&self, rejected: &UpdateRejected) {
        panic!("{rejected}");
    }

    fn restarted(&mut self, slot: u32) {
        self.shadows[slot as usize] = ReferenceState::default();
    }

    fn taken(&mut self, slot: u32, broadcast: &Broadcast) {
        self.shadows[slot as usize].told.push(broadcast.clone());
    }

    /// A message is used at most once, never after its sender became a straggler, and never by its
    /// own sender.
    fn asked(&mut self, slot: u32, trial: &Trial, strategy: &Fts) {
        let shadow = &mut self.shadows[slot as usize];
        if let Some(sender) = shadow.running.take() {
            shadow.inbox.remove(&sender); // its trial has ended
        }
        if trial.source == Source::Initial {
            return;
        }
        for broadcast in std::mem::take(&mut shadow.told) {
            assert!(broadcast.round() <= trial.round);
            for straggler in &broadcast.stragglers {
                self.n_forgotten += u64::from(shadow.inbox.remove(straggler).is_some());
            }
            let others = broadcast.messages.iter().filter(|m| m.sender != slot);
            shadow.inbox.extend(others.map(|m| (m.sender, m.round)));
        }
        if let Source::Message { sender } | Source::RandomInstead { sender } = trial.source {
            let round = shadow.inbox.get(&sender).copied();
            let round = round.expect("a message that is at hand");
            assert!(
                shadow.used.insert((sender, round)),
                "agent {slot}: {sender}'s of {round} again"
            );
            shadow.running = Some(sender);
            self.n_used += 1;
        }
        let known = shadow.inbox.iter().map(|(sender, round)| {
            let message = &self.relayed[&(*sender, *round)];
            (*sender, message.weights.as_slice())
        });
        assert!(strategy.inbox().iter().eq(known), "agent {slot}: {:?}", strategy.inbox());
    }
}

/// Plays a session. Returns a digest of all events, and their counts.
fn play(seed: u64) -> (u64, Counts) {
    let mut world = World::new(seed, |luck| Relayed::draw(seed, luck));
    let trace = world.run();
    for ((sender, round), message) in &world.subject.relayed {
        let made = world.members[*sender as usize].upload(*round);
        assert_eq!(made, Some(message), "what its sender has made");
    }
    world.counts.add("used", world.subject.n_used);
    world.counts.add("forgotten", world.subject.n_forgotten);
    (trace, world.counts)
}

/// Events that the sessions must cover. Each occurs on average at least once in this many sessions.
const HAPPENINGS: [(&str, u64); 15] = [
    ("crashes", 2),
    ("lost vectors", 5),
    ("asked again", 4),
    ("repeats", 1),
    ("stragglers", 1),
    ("whole", 1),
    ("used", 1),
    ("forgotten", 4),
    ("joined", 2),
    ("old handouts", 1),
    ("cut from", 2),
    ("cut to", 2),
    ("jumps", 4),
    ("join late", 4),
    ("replayed logs", 1),
];

/// Checks these properties under network faults. Rounds advance one by one. A message is relayed
/// once, and used at most once by each receiver, never after its sender has become a straggler. An
/// agent that was away acts on everything that it missed. Restarts of agents or the coordinator
/// change none of this. No agent gets stuck, and equal seeds give equal traces.
fn in_any_weather(n_seeds: u64) {
    let mut all = Counts::default();
    for seed in 0..n_seeds {
        let (trace, counts) = play(seed);
        assert_eq!(trace, play(seed).0, "seed {seed}");
        all.join(&counts);
    }
    for (what, share) in HAPPENINGS {
        assert!(all.of(what) >= n_seeds / share, "{what}: {all:?}");
    }
    assert!(all.of("leaves") >= n_seeds / 10, "{all:?}");
}

#[test]
fn sim() {
    in_any_weather(500);
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn sim_long() {
    in_any_weather(100_000);
}
