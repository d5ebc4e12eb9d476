//! A federation in virtual time under network faults. Messages are lost, delayed, duplicated and
//! reordered. Agents and their coordinator stop at any time and restart from durable state. Parts
//! of the network are cut off, agents join late and leave, and the coordinator's clock jumps or
//! stops. All randomness comes from one stream.
#![expect(clippy::unwrap_used, reason = "test helpers, where a panic fails the test")]

mod clock;
mod happenings;
mod host;
mod member;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use fedbo_protocol::{
    Agent, AgentEffect, AgentUpdate, Coordinator, Tick, Trial, UpdateRejected, UsesHandouts,
};
use fedbo_streams::Stream;
use fedbo_testkit::test_stream;

use clock::Clock;
use member::Member;

/// A typical duration of a round. Other durations are relative to it.
pub(crate) const PERIOD: Tick = 100;

pub(crate) type HandoutOf<S> = <<S as Subject>::Strategy as UsesHandouts>::Handout;

/// The durable part of a closed round.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored {
    pub(crate) bytes: Arc<[u8]>,
    /// The slots with an accepted vector for the round.
    pub(crate) slots: BTreeSet<u32>,
}

/// The durable state from which a coordinator restarts.
pub(crate) struct Durable<H> {
    pub(crate) round: u64,
    /// The time at which the round began, according to the coordinator's clock.
    pub(crate) began: Tick,
    pub(crate) releases: BTreeMap<u64, Stored>,
    /// Handouts by round.
    pub(crate) handed: BTreeMap<u64, H>,
}

/// The federation under test, and the properties that it must have.
pub(crate) trait Subject {
    type Strategy: UsesHandouts<Handout: Debug>;
    type Coordinator: Coordinator<Handout = HandoutOf<Self>>;

    fn n_slots(&self) -> u32;

    /// Creates an agent that has not started. Every call creates the same agent.
    fn agent(&self, slot: u32) -> Agent<Self::Strategy>;

    /// Creates the coordinator with number `incarnation`, which has not started.
    fn coordinator(&self, found: &Durable<HandoutOf<Self>>, incarnation: u32) -> Self::Coordinator;

    /// Checks a handout that leaves. `found` is the durable state before that.
    fn check_handout(
        &mut self,
        found: &Durable<HandoutOf<Self>>,
        handout: &HandoutOf<Self>,
        now: Tick,
        counts: &mut Counts,
    );

    /// Accepts the refusals that can occur, and panics on all others.
    fn check_refused(&self, rejected: &UpdateRejected);

    /// Records a handout that an agent receives. After a restart, an agent receives its handouts
    /// again.
    fn taken(&mut self, slot: u32, handout: &HandoutOf<Self>);

    /// Records the restart of an agent, which then receives everything again.
    fn restarted(&mut self, slot: u32);

    /// Checks an agent's trial, given the strategy's current state.
    fn asked(&mut self, slot: u32, trial: &Trial, strategy: &Self::Strategy);
}

/// The number of occurrences of each event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    pub(crate) fn add(&mut self, what: &'static str, n: u64) {
        *self.0.entry(what).or_default() += n;
    }

    pub(crate) fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    pub(crate) fn join(&mut self, other: &Self) {
        for (what, n) in &other.0 {
            self.add(what, *n);
        }
    }
}

/// A scheduled event.
enum Event<H> {
    /// A vector reaches the coordinator.
    Upload(AgentUpdate),
    /// The response to an upload reaches its sender: true if it was accepted.
    Verdict(u32, u64, bool),
    /// An agent asks for rounds after this one, and reports its last delivered round.
    Question(u32, u64, Option<u64>),
    /// A handout reaches an agent with the rounds up to this one.
    Handout(u32, u64, H),
    /// The coordinator requests a vector again.
    Resend(u32, u64),
    /// An internal event of an agent. The second number identifies the process.
    Evaluated(u32, u32, Trial),
    Send(u32, u32, u64),
    Poll(u32, u32),
    /// An agent stops, and restarts after this time.
    Fall(u32, Option<usize>),
    Rise(u32),
    /// Agents are cut off for this time. This affects messages from them, to them, or both.
    Cut(Vec<u32>, [bool; 2], usize),
    /// The coordinator's clock is adjusted.
    Jump(i64),
    Crash(usize),
    Restart,
    /// The store's transaction becomes durable; then the coordinator is notified.
    Durable(u32, u64, Stored),
    Committed(u32, u64),
}

/// A running federation.
pub(crate) struct World<S: Subject> {
    pub(crate) subject: S,
    luck: Stream,
    now: Tick,
    loss: f64,
    delay: usize,
    queue: BinaryHeap<Reverse<(Tick, u64)>>,
    /// Events by sequence number. Events at the same time are ordered by when they were scheduled.
    events: BTreeMap<u64, Event<HandoutOf<S>>>,
    next_event: u64,
    pub(crate) members: Vec<Member<S::Strategy>>,
    /// The times until which messages from and to each agent are cut off.
    cut: Vec<[Tick; 2]>,
    clock: Clock,
    /// `None` while the coordinator is down.
    host: Option<S::Coordinator>,
    incarnation: u32,
    pub(crate) durable: Durable<HandoutOf<S>>,
    /// The slots with vectors that the coordinator has accepted, by round.
    collected: BTreeMap<u64, BTreeSet<u32>>,
    pub(crate) counts: Counts,
    trace: DefaultHasher,
}

impl<S: Subject> World<S> {
    pub(crate) fn new(seed: u64, make: impl FnOnce(&mut Stream) -> S) -> Self {
        let mut luck = test_stream(seed);
        let subject = make(&mut luck);
        let n_slots = subject.n_slots();
        let longest = if luck.bernoulli(0.5) { 20 } else { 120 };
        let delay = 1 + luck.below(longest);
        Self {
            subject,
            now: 0,
            loss: 0.3 * luck.uniform(),
            delay,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            next_event: 0,
            members: (0..n_slots).map(|_| Member::new()).collect(),
            cut: vec![[0; 2]; n_slots as usize],
            clock: Clock::new(),
            host: None,
            incarnation: 0,
            durable: Durable {
                round: 0,
                began: 0,
                releases: BTreeMap::new(),
                handed: BTreeMap::new(),
            },
            collected: BTreeMap::new(),
            counts: Counts::default(),
            trace: DefaultHasher::new(),
            luck,
        }
    }

    fn note(&mut self, what: &impl Debug) {
        format!("{} {what:?}", self.now).hash(&mut self.trace);
    }

    fn after(&mut self, delay: usize, event: Event<HandoutOf<S>>) {
        let id = self.next_event;
        self.next_event += 1;
        self.queue.push(Reverse((self.now + delay as Tick, id)));
        self.events.insert(id, event);
    }

    /// Sends a message from an agent (0) or to an agent (1) zero times, once or twice. Each copy
    /// has its own delay.
    fn send(&mut self, slot: u32, direction: usize, make: impl Fn() -> Event<HandoutOf<S>>) {
        if self.is_cut(slot, direction) || self.luck.bernoulli(self.loss) {
            return;
        }
        for _copy in 0..1 + usize::from(self.luck.bernoulli(0.3)) {
            let delay = 1 + self.luck.below(self.delay);
            self.after(delay, make());
        }
    }

    fn is_cut(&mut self, slot: u32, direction: usize) -> bool {
        let is_cut = self.cut[slot as usize][direction] > self.now;
        self.counts.add(["cut from", "cut to"][direction], u64::from(is_cut));
        is_cut
    }

    /// Runs until every remaining agent has finished. Returns a digest of all events.
    ///
    /// # Panics
    /// If a property is violated, or if agents have not finished after 100 periods.
    pub(crate) fn run(&mut self) -> u64 {
        self.plan();
        self.restart();
        while !self.members.iter().all(Member::has_ended) {
            assert!(self.now < 100 * PERIOD, "an agent is stuck");
            let next = self.queue.peek().map(|Reverse((time, _))| *time);
            let deadline = self.host.as_ref().and_then(Coordinator::deadline);
            let due = deadline.map(|tick| self.clock.when(tick, self.now));
            match due {
                Some(due) if next.is_none_or(|time| due < time) => {
                    self.now = due;
                    self.tick();
                    let after = self.host.as_ref().and_then(Coordinator::deadline);
                    assert_ne!(after, deadline, "a deadline that does nothing");
                }
                _ => {
                    let Reverse((time, id)) = self.queue.pop().unwrap();
                    self.now = time;
                    let event = self.events.remove(&id).unwrap();
                    self.happen(event);
                }
            }
        }
        self.trace.finish()
    }

    fn happen(&mut self, event: Event<HandoutOf<S>>) {
        match event {
            Event::Upload(update) if !self.is_cut(update.sender, 0) => self.uploaded(update),
            Event::Question(slot, after, delivered) if !self.is_cut(slot, 0) => {
                self.answer(slot, after, delivered);
            }
            Event::Verdict(slot, round, accepted) if !self.is_cut(slot, 1) => {
                self.members[slot as usize].answered(round, accepted);
            }
            Event::Handout(slot, after, handout) if !self.is_cut(slot, 1) => {
                self.take(slot, after, handout);
            }
            Event::Resend(slot, round) if !self.is_cut(slot, 1) => self.send_again(slot, round),
            Event::Upload(..) | Event::Question(..) => {}
            Event::Verdict(..) | Event::Handout(..) | Event::Resend(..) => {}
            Event::Evaluated(slot, process, trial) => self.evaluated(slot, process, &trial),
            Event::Send(slot, process, round) => self.deliver(slot, process, round),
            Event::Poll(slot, process) => self.poll(slot, process),
            Event::Fall(slot, time) => self.fall(slot, time),
            Event::Rise(slot) => self.rise(slot),
            Event::Cut(slots, directions, time) => self.cut_off(&slots, directions, time),
            Event::Jump(step) => self.jump(step),
            Event::Crash(time) => self.crash(time),
            Event::Restart => self.restart(),
            Event::Durable(incarnation, round, stored) if incarnation == self.incarnation => {
                self.write(round, stored);
                let delay = self.luck.below(10);
                self.after(delay, Event::Committed(incarnation, round));
            }
            Event::Committed(incarnation, round) if incarnation == self.incarnation => {
                self.committed(round);
            }
            // Notifications of a crashed coordinator.
            Event::Durable(..) | Event::Committed(..) => {}
        }
    }

    fn agent_effects(&mut self, slot: u32, effects: Vec<AgentEffect>) {
        for effect in effects {
            self.note(&(slot, &effect));
            match effect {
                AgentEffect::Evaluate(trial) => self.begin_trial(slot, trial),
                AgentEffect::Upload(update) => self.keep(slot, update),
                AgentEffect::Finished => self.members[slot as usize].done = true,
                AgentEffect::Refused(rejected) => panic!("{rejected}"),
            }
        }
    }
}
