//! A session in virtual time: uploads and handouts are lost, late, doubled and reordered, the store is slow, and the
//! coordinator crashes at any moment and begins again from what is stored.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use fedbo_protocol::{
    Agent, AgentEffect, AgentEvent, AgentPlan, AgentUpdate, AggregateHandout, Aggregator,
    Coordinator, Effect, Instants, ReleaseSchedule, Tick, UpdateRejected,
};
use fedbo_streams::{Seed, Stream};
use fedbo_testkit::test_stream;

use crate::common::{Counting, Effects, OneHot, shared_map};
use crate::sim::Counts;

const COLLECT: Tick = 60;
pub(crate) const PERIOD: Tick = 100;

enum Event {
    Upload(AgentUpdate),
    Handout(u32, AggregateHandout),
    Evaluated(u32, u64),
    /// The store has looked for a round's release; the number tells coordinators apart.
    Recalled(u32, u64),
    /// The store's transaction becomes durable.
    Stored(u32, u64, Arc<[u8]>),
    /// The coordinator hears of it.
    Committed(u32, u64),
    Crash,
}

/// A session under way.
pub(crate) struct World {
    luck: Stream,
    pub(crate) now: Tick,
    pub(crate) n_slots: u32,
    pub(crate) n_features: usize,
    n_rounds: u64,
    pub(crate) schedule: ReleaseSchedule,
    loss: f64,
    delay: usize,
    queue: BinaryHeap<Reverse<(Tick, u64)>>,
    events: BTreeMap<u64, Event>,
    next_event: u64,
    pub(crate) agents: BTreeMap<u32, Agent<OneHot>>,
    pub(crate) done: BTreeSet<u32>,
    /// What the agents have uploaded: sender and round.
    pub(crate) sent: BTreeMap<(u32, u64), AgentUpdate>,
    pub(crate) delivered: BTreeSet<(u32, u64)>,
    pub(crate) coordinator: Aggregator<Counting>,
    /// Number of the coordinator that runs.
    incarnation: u32,
    /// When its round began.
    pub(crate) began: Tick,
    /// The newest round it has handed out.
    pub(crate) handed_out: Option<u64>,
    /// The durable store.
    pub(crate) store: BTreeMap<u64, Arc<[u8]>>,
    pub(crate) counts: Counts,
    trace: Vec<String>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut luck = test_stream(seed);
        let n_slots = u32::try_from(1 + luck.below(5)).unwrap();
        let n_rounds = 2 + luck.below(8) as u64;
        let every = 1 + luck.below(3) as u64;
        let n_releases = 1 + luck.below(8) as u64;
        let schedule = ReleaseSchedule::new(n_releases, every, 0).unwrap();
        // Rounds go on past the plan where agents lag behind.
        let n_features = OneHot::place(0, n_slots, n_rounds + 1);
        let agents = (0..n_slots).map(|slot| {
            let plan = AgentPlan {
                id: slot,
                history: Vec::new(),
                initial: vec![vec![0.75]; luck.below(3)],
                n_rounds,
            };
            let strategy = OneHot::new(slot, n_slots, n_features);
            (slot, Agent::new(strategy, plan, Seed::new(seed)).unwrap())
        });
        let agents = agents.collect();
        let coordinator = fresh(n_slots, n_features, schedule, 0);
        Self {
            now: 0,
            n_slots,
            n_features,
            n_rounds,
            schedule,
            loss: 0.3 * luck.uniform(),
            delay: 1 + luck.below(120),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            next_event: 0,
            agents,
            done: BTreeSet::new(),
            sent: BTreeMap::new(),
            delivered: BTreeSet::new(),
            coordinator,
            incarnation: 0,
            began: 0,
            handed_out: None,
            store: BTreeMap::new(),
            counts: Counts::default(),
            trace: Vec::new(),
            luck,
        }
    }

    fn after(&mut self, delay: usize, event: Event) {
        let id = self.next_event;
        self.next_event += 1;
        self.queue.push(Reverse((self.now + delay as Tick, id)));
        self.events.insert(id, event);
    }

    /// Sends a message: lost, once or twice, each copy with a delay of its own.
    fn send(&mut self, make: impl Fn() -> Event) {
        if self.luck.bernoulli(self.loss) {
            return;
        }
        for _copy in 0..1 + usize::from(self.luck.bernoulli(0.3)) {
            let delay = 1 + self.luck.below(self.delay);
            self.after(delay, make());
        }
    }

    fn agent_effects(&mut self, id: u32, effects: Vec<AgentEffect>) {
        for effect in effects {
            self.trace
                .push(format!("{} agent {id}: {effect:?}", self.now));
            match effect {
                AgentEffect::Evaluate(trial) => {
                    let slow = if self.luck.bernoulli(0.1) { 250 } else { 0 };
                    let duration = 1 + self.luck.below(40) + slow;
                    self.after(duration, Event::Evaluated(id, trial.index));
                }
                AgentEffect::Upload(update) => {
                    assert!(
                        self.schedule.releases(update.round),
                        "{update:?} is not wanted"
                    );
                    let before = self.sent.insert((id, update.round), update.clone());
                    assert_eq!(before, None, "two vectors of one round");
                    self.send(|| Event::Upload(update.clone()));
                }
                AgentEffect::Finished => {
                    self.done.insert(id);
                }
                AgentEffect::Refused(rejected) => panic!("{rejected}"),
            }
        }
    }

    fn effects(&mut self, effects: Effects) {
        for effect in effects {
            self.trace.push(format!("{} {effect:?}", self.now));
            match effect {
                Effect::Broadcast(handout) => self.broadcast(&handout),
                Effect::Recall { round } => {
                    let delay = self.luck.below(4);
                    self.after(delay, Event::Recalled(self.incarnation, round));
                }
                Effect::Commit { round, bytes, .. } => {
                    self.trace.push(format!("{bytes:?}"));
                    let slow = if self.luck.bernoulli(0.1) { 100 } else { 0 };
                    let delay = 1 + self.luck.below(20) + slow;
                    self.after(delay, Event::Stored(self.incarnation, round, bytes));
                }
                Effect::Refuse(rejected) => self.refused(&rejected),
            }
        }
    }

    fn broadcast(&mut self, handout: &AggregateHandout) {
        self.check_handout(handout);
        (self.handed_out, self.began) = (Some(handout.round), self.now);
        for id in 0..self.n_slots {
            self.send(|| Event::Handout(id, handout.clone()));
        }
    }

    fn refused(&mut self, rejected: &UpdateRejected) {
        match *rejected {
            UpdateRejected::Late { .. } => self.counts.late += 1,
            // A coordinator that begins again is behind its agents for a while.
            UpdateRejected::Early { sender, round, .. }
            | UpdateRejected::NotCollected { sender, round } => {
                let update = self.sent[&(sender, round)].clone();
                if self.luck.bernoulli(0.8) {
                    self.after(30, Event::Upload(update));
                }
            }
            ref other => panic!("{other}"),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Upload(update) => {
                if !self.delivered.insert((update.sender, update.round)) {
                    self.counts.repeats += 1;
                }
                let effects = self.coordinator.receive(update, self.now);
                self.effects(effects);
            }
            Event::Handout(id, handout) => {
                let agent = self.agents.get_mut(&id).unwrap();
                let effects = agent.handle(AgentEvent::Broadcast(handout)).unwrap();
                self.agent_effects(id, effects);
            }
            Event::Evaluated(id, trial) => {
                let value = (!self.luck.bernoulli(0.1)).then_some(0.5);
                let agent = self.agents.get_mut(&id).unwrap();
                let effects = agent
                    .handle(AgentEvent::Evaluated { trial, value })
                    .unwrap();
                self.counts.joined += u64::from(
                    matches!(effects.as_slice(), [.., AgentEffect::Evaluate(trial)] if trial.round > 0),
                );
                self.agent_effects(id, effects);
            }
            Event::Recalled(incarnation, round) if incarnation == self.incarnation => {
                let stored = self.store.get(&round).map(Arc::clone);
                self.counts.replays += u64::from(stored.is_some());
                let answer = self
                    .coordinator
                    .recalled(round, stored.as_deref(), self.now);
                self.effects(answer.unwrap());
            }
            Event::Stored(incarnation, round, bytes) if incarnation == self.incarnation => {
                self.write(round, bytes);
                let delay = self.luck.below(10);
                self.after(delay, Event::Committed(incarnation, round));
            }
            Event::Committed(incarnation, round) if incarnation == self.incarnation => {
                let effects = self.coordinator.committed(round, self.now).unwrap();
                self.effects(effects);
            }
            // What a coordinator that is gone was told.
            Event::Recalled(..) | Event::Stored(..) | Event::Committed(..) => {}
            Event::Crash => self.crash(),
        }
    }

    /// The store takes one release of a round, for ever (INV-2).
    fn write(&mut self, round: u64, bytes: Arc<[u8]>) {
        let before = self.store.insert(round, bytes);
        assert_eq!(before, None, "two releases of round {round}");
    }

    /// The coordinator is gone, and another one begins with the last stored round. A transaction that was under way has
    /// become durable or not. Some agents send their last vectors again.
    fn crash(&mut self) {
        self.counts.crashes += 1;
        let mut under_way = Vec::new();
        for event in self.events.values() {
            if let Event::Stored(incarnation, round, bytes) = event
                && *incarnation == self.incarnation
            {
                under_way.push((*round, Arc::clone(bytes)));
            }
        }
        for (round, bytes) in under_way {
            if self.luck.bernoulli(0.5) {
                self.write(round, bytes);
            }
        }
        self.incarnation += 1;
        let first = self.store.keys().last().copied().unwrap_or(0);
        let fresh = fresh(
            self.n_slots,
            self.n_features,
            self.schedule,
            self.incarnation,
        );
        self.coordinator = fresh.from_round(first);
        (self.began, self.handed_out) = (self.now, None);
        self.trace
            .push(format!("{} crash, begins with round {first}", self.now));
        let effects = self.coordinator.start(self.now);
        self.effects(effects);
        let last: Vec<AgentUpdate> = (0..self.n_slots)
            .filter_map(|slot| {
                let of_slot = self.sent.range((slot, 0)..=(slot, u64::MAX));
                of_slot.last().map(|(_, update)| update.clone())
            })
            .collect();
        for update in last {
            self.send(|| Event::Upload(update.clone()));
        }
    }

    /// Plays it to its end, with so many crashes of the coordinator.
    pub(crate) fn run(mut self, crashes: usize) -> (Vec<String>, Counts) {
        let effects = self.coordinator.start(0);
        self.effects(effects);
        for id in 0..self.n_slots {
            let effects = self.agents.get_mut(&id).unwrap().start().unwrap();
            self.agent_effects(id, effects);
        }
        let horizon = usize::try_from(PERIOD * (self.n_rounds + 1)).unwrap();
        for _crash in 0..crashes {
            let moment = self.luck.below(horizon);
            self.after(moment, Event::Crash);
        }
        while self.done.len() < self.agents.len() && self.now < 100 * PERIOD {
            let next = self.queue.peek().map(|Reverse((time, _))| *time);
            match self.coordinator.deadline() {
                Some(deadline) if next.is_none_or(|time| deadline < time) => {
                    assert!(deadline >= self.now);
                    self.now = deadline;
                    let effects = self.coordinator.tick(deadline);
                    self.effects(effects);
                    assert!(
                        self.coordinator.deadline() != Some(deadline),
                        "a deadline that does nothing"
                    );
                }
                _ => {
                    let Reverse((time, id)) = self.queue.pop().unwrap();
                    self.now = time;
                    let event = self.events.remove(&id).unwrap();
                    self.happen(event);
                }
            }
        }
        self.check_end();
        (self.trace, self.counts)
    }
}

/// A coordinator that has not begun. One that computes a round again releases other bytes than the one before it.
fn fresh(
    n_slots: u32,
    n_features: usize,
    schedule: ReleaseSchedule,
    incarnation: u32,
) -> Aggregator<Counting> {
    let mut mechanism = Counting::new(n_slots, n_features);
    mechanism.opened = vec![0; 1000 * incarnation as usize];
    let instants = Some(Instants::new(COLLECT, PERIOD).unwrap());
    Aggregator::new(mechanism, schedule, shared_map().hash(), instants)
}
