//! The coordinator's side: a process that drives the state machine, crashes and restarts.
use fedbo_protocol::{AgentUpdate, Coordinator, Effect, Handout as _};

use super::{Event, HandoutOf, Stored, Subject, World};

impl<S: Subject> World<S> {
    /// Starts a coordinator in the durable round. If the round's release is stored, the round keeps
    /// its original start time. Otherwise the round begins now, because its vectors are lost.
    pub(super) fn restart(&mut self) {
        if self.host.is_some() {
            return;
        }
        self.incarnation += 1;
        self.clock.forget();
        let is_released = self.durable.releases.contains_key(&self.durable.round);
        if !is_released {
            self.durable.began = self.clock.read(self.now);
        }
        self.note(&("coordinator", self.incarnation, self.durable.round));
        let mut host = self.subject.coordinator(&self.durable, self.incarnation);
        let effects = host.start(self.durable.began);
        self.host = Some(host);
        self.effects(effects);
    }

    /// Crashes the coordinator and drops the vectors that it held. Each transaction in progress
    /// either becomes durable or is lost.
    pub(super) fn crash(&mut self, time: usize) {
        if self.host.take().is_none() {
            return;
        }
        self.note(&"crash");
        self.counts.add("crashes", 1);
        let held = self.collected.get(&self.durable.round);
        let is_stored = self.durable.releases.contains_key(&self.durable.round);
        let lost = held.map_or(0, |held| held.len() as u64);
        self.counts.add("lost vectors", if is_stored { 0 } else { lost });
        self.collected.clear();
        let mut under_way = Vec::new();
        for event in self.events.values() {
            if let Event::Durable(incarnation, round, stored) = event
                && *incarnation == self.incarnation
            {
                under_way.push((*round, stored.clone()));
            }
        }
        for (round, stored) in under_way {
            if self.luck.bernoulli(0.5) {
                self.write(round, stored);
            }
        }
        self.incarnation += 1; // drops pending responses to the old process
        self.after(time, Event::Restart);
    }

    /// Stores the release of a round. There is only one release per round (INV-2).
    pub(super) fn write(&mut self, round: u64, stored: Stored) {
        let before = self.durable.releases.insert(round, stored);
        assert_eq!(before, None, "two releases of round {round}");
    }

    pub(super) fn committed(&mut self, round: u64) {
        let now = self.clock.read(self.now);
        let host = self.host.as_mut().unwrap();
        let effects = host.committed(round, now).unwrap();
        self.effects(effects);
    }

    pub(super) fn tick(&mut self) {
        let now = self.clock.read(self.now);
        let host = self.host.as_mut().unwrap();
        let effects = host.tick(now);
        self.effects(effects);
    }

    pub(super) fn uploaded(&mut self, update: AgentUpdate) {
        let now = self.clock.read(self.now);
        let Some(host) = &mut self.host else {
            return;
        };
        let (slot, round) = (update.sender, update.round);
        let mut effects = host.receive(update, now);
        let mut accepted = true;
        effects.retain(|effect| match effect {
            Effect::Refuse(rejected) => {
                self.subject.check_refused(rejected);
                accepted = false;
                false
            }
            _ => true,
        });
        self.note(&("upload", slot, round, accepted));
        self.counts.add("late", u64::from(!accepted));
        if accepted {
            let is_new = self.collected.entry(round).or_default().insert(slot);
            self.counts.add("repeats", u64::from(!is_new));
        }
        self.send(slot, 1, || Event::Verdict(slot, round, accepted));
        self.effects(effects);
    }

    /// Responds to an agent that asks for the rounds after `after`.
    pub(super) fn answer(&mut self, slot: u32, after: u64, delivered: Option<u64>) {
        let Some(host) = &self.host else {
            return;
        };
        let mut missed = self.durable.handed.range(after + 1..);
        if let Some((_, first)) = missed.next() {
            let mut joined = first.clone();
            missed.for_each(|(_, handout)| joined.join(handout.clone()));
            self.send(slot, 1, || Event::Handout(slot, after, joined.clone()));
        } else if let Some(round) = delivered.filter(|round| host.awaits(slot, *round)) {
            self.counts.add("asked again", 1);
            self.send(slot, 1, || Event::Resend(slot, round));
        }
    }

    pub(super) fn effects(&mut self, effects: Vec<Effect<HandoutOf<S>>>) {
        for effect in effects {
            self.note(&effect);
            match effect {
                Effect::Broadcast(handout) => self.broadcast(&handout),
                Effect::Recall { round } => {
                    let stored = self.durable.releases.get(&round);
                    self.counts.add("replays", u64::from(stored.is_some()));
                    let bytes = stored.map(|stored| stored.bytes.clone());
                    let now = self.clock.read(self.now);
                    let host = self.host.as_mut().unwrap();
                    let effects = host.recalled(round, bytes.as_deref(), now).unwrap();
                    self.effects(effects);
                }
                Effect::Commit { round, bytes, .. } => {
                    self.note(&bytes);
                    let slots = self.collected.remove(&round).unwrap_or_default();
                    let slow = if self.luck.bernoulli(0.1) { 100 } else { 0 };
                    let delay = 1 + self.luck.below(20) + slow;
                    let stored = Stored { bytes, slots };
                    self.after(delay, Event::Durable(self.incarnation, round, stored));
                }
                Effect::Refuse(rejected) => panic!("nobody is told that {rejected}"),
                Effect::Fail(error) => panic!("{error}"),
            }
        }
    }

    /// Makes the round durable, then sends its handout to every agent.
    fn broadcast(&mut self, handout: &HandoutOf<S>) {
        let now = self.clock.read(self.now);
        self.subject.check_handout(&self.durable, handout, now, &mut self.counts);
        let round = handout.round();
        assert_eq!(round, self.durable.round + 1, "rounds go forward one by one");
        (self.durable.round, self.durable.began) = (round, now);
        self.durable.handed.insert(round, handout.clone());
        for slot in 0..self.subject.n_slots() {
            self.send(slot, 1, || Event::Handout(slot, round - 1, handout.clone()));
        }
    }
}
