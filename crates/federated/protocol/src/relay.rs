//! The relay, which collects one message per agent and round and passes the messages on.

use std::collections::{BTreeMap, BTreeSet};

use fedbo_gp::MapHash;
use fedbo_streams::Seed;

use crate::handout::is_old;
use crate::{AgentUpdate, Broadcast, Coordinator, Effect, Inbox, Tick, UpdateRejected};

/// The messages that a relay stores and hands out repeatedly at a free pace.
#[derive(Clone, Debug)]
pub struct Mailbox {
    max_age: u64,
    sample: usize,
    seed: Seed,
    messages: BTreeMap<u32, AgentUpdate>,
}

impl Mailbox {
    /// Creates an empty mailbox. A message remains usable for `max_age` windows after its own
    /// window.
    ///
    /// Each window hands out at most `sample` of the stored messages, the same ones to every agent,
    /// so that at most N · `sample` messages are sent to N agents. The sample is drawn with `seed`,
    /// which is public.
    pub fn new(max_age: u64, sample: usize, seed: Seed) -> Self {
        Self { max_age, sample, seed, messages: BTreeMap::new() }
    }

    /// Adds messages that were handed out before the coordinator crashed.
    #[must_use]
    pub fn with_messages(mut self, messages: impl IntoIterator<Item = AgentUpdate>) -> Self {
        self.messages.extend(messages.into_iter().map(|update| (update.sender, update)));
        self
    }

    /// Stores new messages, drops those that have expired in this window, and samples the handout.
    fn hand_out(
        &mut self,
        arrived: impl IntoIterator<Item = AgentUpdate>,
        window: u64,
    ) -> Vec<AgentUpdate> {
        self.messages.extend(arrived.into_iter().map(|update| (update.sender, update)));
        let max_age = self.max_age;
        self.messages.retain(|_, update| !is_old(update.round, max_age, window));
        if self.messages.len() <= self.sample {
            return self.messages.values().cloned().collect();
        }
        let mut senders: Vec<u32> = self.messages.keys().copied().collect();
        self.seed.stream(crate::NETWORK, 0, window).shuffle(&mut senders);
        senders.truncate(self.sample);
        senders.sort_unstable();
        senders.iter().filter_map(|sender| self.messages.get(sender).cloned()).collect()
    }
}

/// A coordinator that collects updates and broadcasts them. A round closes when all expected
/// updates have arrived, or at its deadline.
///
/// Participants optimize and deliver in every round. Contributors deliver once, before round 1 (the
/// setting of FTS Algorithm 1). A late message counts in the round in which it arrives. A repeated
/// message is ignored.
///
/// With a [`Mailbox`], rounds are windows. Each window closes at its deadline without waiting for
/// agents, and hands out the newest message of every sender again, or a sample of these messages.
/// There are no stragglers.
#[derive(Clone, Debug)]
pub struct Relay {
    participants: BTreeSet<u32>,
    contributors: BTreeSet<u32>,
    checker: Inbox,
    timeout: Option<Tick>,
    round: u64,
    deadline: Option<Tick>,
    arrived: BTreeMap<u32, AgentUpdate>,
    /// Number of expected senders that have delivered a message for this round.
    n_delivered: usize,
    /// Round of the newest accepted message of each sender.
    newest: BTreeMap<u32, u64>,
    /// Present only at a free pace.
    mailbox: Option<Mailbox>,
}

impl Relay {
    /// Creates a relay for the given agent indices. Messages have `message_len` numbers, and are
    /// collected for round 0 from `now` on. Rounds last at most `timeout`, if it is given.
    pub fn new(
        participants: Vec<u32>,
        contributors: Vec<u32>,
        message_len: usize,
        map: MapHash,
        timeout: Option<Tick>,
        now: Tick,
    ) -> Self {
        let participants: BTreeSet<u32> = participants.into_iter().collect();
        let only_once = contributors.into_iter().filter(|id| !participants.contains(id));
        Self {
            contributors: only_once.collect(),
            participants,
            checker: Inbox::new(message_len, map),
            timeout,
            round: 0,
            deadline: timeout.map(|t| now.saturating_add(t)),
            arrived: BTreeMap::new(),
            n_delivered: 0,
            newest: BTreeMap::new(),
            mailbox: None,
        }
    }

    /// Extends round 0 by `extra` if rounds have a timeout, because round 0 contains all initial
    /// trials of an agent, whereas every other round contains one trial. This has no effect on a
    /// relay that resumes in a later round.
    #[must_use]
    pub fn with_longer_first(mut self, extra: Tick) -> Self {
        if self.round == 0 {
            self.deadline = self.deadline.map(|deadline| deadline.saturating_add(extra));
        }
        self
    }

    /// Switches to a free pace, with windows that last `timeout` regardless of deliveries.
    #[must_use]
    pub fn with_mailbox(mut self, mailbox: Mailbox) -> Self {
        self.mailbox = Some(mailbox);
        self
    }

    /// Resumes in a later round, after a crash of only the coordinator. `newest` gives the round of
    /// each sender's newest broadcast message. Agents send any later messages again.
    #[must_use]
    pub fn from_round(mut self, round: u64, newest: impl IntoIterator<Item = (u32, u64)>) -> Self {
        self.round = round;
        self.newest = newest.into_iter().collect();
        self
    }

    fn accept(&mut self, update: AgentUpdate) -> Result<(), UpdateRejected> {
        let AgentUpdate { sender, round, .. } = update;
        if !self.participants.contains(&sender) && !self.contributors.contains(&sender) {
            return Err(UpdateRejected::UnknownSender { sender });
        }
        self.checker.check(sender, update.map, &update.weights)?;
        if round > self.round {
            return Err(UpdateRejected::Early { sender, round, current: self.round });
        }
        match (self.newest.get(&sender), self.arrived.get(&sender)) {
            (Some(newest), Some(known)) if round == *newest && *known != update => {
                return Err(UpdateRejected::Conflict { sender, round });
            }
            // A repeated message, or one that is older than the newest.
            (Some(newest), _) if round <= *newest => return Ok(()),
            _ => {}
        }
        let is_expected = self.participants.contains(&sender) || round == 0;
        self.n_delivered += usize::from(round == self.round && is_expected);
        self.newest.insert(sender, round);
        self.arrived.insert(sender, update);
        Ok(())
    }

    /// Returns true if every agent that is expected in this round has delivered a message for it.
    fn is_complete(&self) -> bool {
        if self.mailbox.is_some() {
            return false;
        }
        let n_contributors = if self.round == 0 { self.contributors.len() } else { 0 };
        self.n_delivered == self.participants.len() + n_contributors
    }

    fn close(&mut self, now: Tick) -> Effect<Broadcast> {
        let arrived = std::mem::take(&mut self.arrived);
        let (messages, stragglers) = match &mut self.mailbox {
            Some(mailbox) => (mailbox.hand_out(arrived.into_values(), self.round + 1), Vec::new()),
            None => {
                let is_missing = |id: &u32| !arrived.contains_key(id);
                let stragglers = self.participants.iter().copied().filter(is_missing).collect();
                (arrived.into_values().collect(), stragglers)
            }
        };
        self.round += 1;
        self.n_delivered = 0;
        self.deadline = self.timeout.map(|t| now.saturating_add(t));
        Effect::Broadcast(Broadcast { round: self.round, messages, stragglers })
    }
}

impl Coordinator for Relay {
    type Handout = Broadcast;

    fn round(&self) -> u64 {
        self.round
    }

    fn awaits(&self, sender: u32, round: u64) -> bool {
        let is_known = self.participants.contains(&sender) || self.contributors.contains(&sender);
        let newest = self.newest.get(&sender);
        is_known && round == self.round && newest.is_none_or(|newest| *newest < round)
    }

    /// Returns the time at which the round closes even if messages are missing.
    fn deadline(&self) -> Option<Tick> {
        self.deadline
    }

    fn receive(&mut self, update: AgentUpdate, now: Tick) -> Vec<Effect<Broadcast>> {
        match self.accept(update) {
            Ok(()) if self.is_complete() => vec![self.close(now)],
            Ok(()) => Vec::new(),
            Err(rejected) => vec![Effect::Refuse(rejected)],
        }
    }

    /// Closes the round if its deadline has passed.
    fn tick(&mut self, now: Tick) -> Vec<Effect<Broadcast>> {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            vec![self.close(now)]
        } else {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: MapHash = MapHash([7; 32]);

    fn update(sender: u32, round: u64, first: f64) -> AgentUpdate {
        AgentUpdate { sender, round, map: MAP, weights: vec![first, 1.0].into() }
    }

    fn relay(timeout: Option<Tick>) -> Relay {
        Relay::new(vec![0, 1], vec![2], 2, MAP, timeout, 100)
    }

    fn broadcast(effects: Vec<Effect<Broadcast>>) -> Broadcast {
        match effects.as_slice() {
            [Effect::Broadcast(broadcast)] => broadcast.clone(),
            other => panic!("one broadcast expected, not {other:?}"),
        }
    }

    #[test]
    fn a_round_closes_when_everybody_has_delivered() {
        let mut relay = relay(None);
        assert!(relay.receive(update(0, 0, 1.0), 100).is_empty());
        assert!(relay.receive(update(1, 0, 2.0), 100).is_empty());
        let first = broadcast(relay.receive(update(2, 0, 3.0), 100));
        assert_eq!((first.round, first.messages.len(), first.stragglers.len()), (1, 3, 0));
        // Contributors deliver once, so round 1 needs only the participants.
        assert!(relay.receive(update(1, 1, 4.0), 100).is_empty());
        let second = broadcast(relay.receive(update(0, 1, 5.0), 100));
        assert_eq!(second.messages.iter().map(|m| m.sender).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn stragglers_are_named_and_count_when_they_arrive() {
        let mut relay = relay(Some(50));
        relay.receive(update(0, 0, 1.0), 110);
        relay.receive(update(2, 0, 1.0), 110);
        assert!(relay.tick(149).is_empty());
        let first = broadcast(relay.tick(150));
        assert_eq!(first.stragglers, [1]);
        assert!(relay.receive(update(1, 0, 9.0), 160).is_empty()); // late, so it counts in round 1
        relay.receive(update(0, 1, 2.0), 170);
        let second = broadcast(relay.tick(200));
        assert!(
            second.stragglers.is_empty()
                && second.messages.iter().any(|m| m.sender == 1 && m.round == 0)
        );
    }

    #[test]
    fn repeats_are_ignored_and_conflicts_refused() {
        let mut relay = relay(None);
        assert!(relay.receive(update(0, 0, 1.0), 0).is_empty());
        assert!(relay.receive(update(0, 0, 1.0), 0).is_empty());
        let conflict = UpdateRejected::Conflict { sender: 0, round: 0 };
        assert_eq!(relay.receive(update(0, 0, 2.0), 0), [Effect::Refuse(conflict)]);
    }

    #[test]
    fn defective_updates_are_refused_and_their_sender_named() {
        let mut relay = relay(None);
        let mut refusals = Vec::new();
        let mut wrong_map = update(1, 0, 1.0);
        wrong_map.map = MapHash([8; 32]);
        let mut short = update(1, 0, 1.0);
        short.weights.pop();
        for bad in [wrong_map, short, update(1, 0, f64::NAN), update(9, 0, 1.0), update(1, 1, 1.0)]
        {
            match relay.receive(bad, 0).as_slice() {
                [Effect::Refuse(rejected)] => refusals.push(rejected.to_string()),
                other => panic!("a refusal expected, not {other:?}"),
            }
        }
        let expected = [
            "feature map 0808",
            "1 numbers, those of the session have 2",
            "number 0 of the message is not",
            "agent 9 is not",
            "for round 1",
        ];
        for (refusal, part) in refusals.iter().zip(expected) {
            assert!(refusal.contains(part) && refusal.starts_with("agent "), "{refusal}");
        }
        assert!(relay.receive(update(1, 0, 1.0), 0).is_empty()); // and the round continues
    }

    /// A relay at a free pace, with five agents and windows that last 50 ms.
    fn mailbox(max_age: u64, sample: usize) -> Relay {
        let mailbox = Mailbox::new(max_age, sample, Seed::new(1));
        Relay::new((0..5).collect(), vec![], 2, MAP, Some(50), 0).with_mailbox(mailbox)
    }

    fn senders(broadcast: &Broadcast) -> Vec<(u32, u64)> {
        broadcast.messages.iter().map(|message| (message.sender, message.round)).collect()
    }

    #[test]
    fn a_window_waits_for_nobody_and_hands_the_newest_out_again() {
        let mut relay = mailbox(2, 10);
        for sender in 0..5 {
            assert!(relay.receive(update(sender, 0, 1.0), 10).is_empty(), "not before its instant");
        }
        assert!(relay.tick(49).is_empty());
        assert_eq!(broadcast(relay.tick(50)).messages.len(), 5);
        relay.receive(update(3, 1, 2.0), 60);
        let second = broadcast(relay.tick(100));
        assert_eq!(senders(&second), [(0, 0), (1, 0), (2, 0), (3, 1), (4, 0)]);
        assert!(second.stragglers.is_empty());
        // A message from window 0 has expired when window 3 begins. A late message from window 1
        // still counts.
        relay.receive(update(4, 1, 3.0), 110);
        let third = broadcast(relay.tick(150));
        assert_eq!(senders(&third), [(3, 1), (4, 1)]);
        let again = relay.receive(update(4, 1, 4.0), 160);
        assert!(again.is_empty(), "a repeat, or older: {again:?}");
        assert_eq!(senders(&broadcast(relay.tick(200))), []);
    }

    #[test]
    fn a_sample_is_the_same_for_all_and_another_in_each_window() {
        let mut relay = mailbox(1000, 2);
        for sender in 0..5 {
            relay.receive(update(sender, 0, 1.0), 10);
        }
        let mut same = relay.clone();
        let mut seen = std::collections::BTreeSet::new();
        for window in 1..30 {
            let found = broadcast(relay.tick(50 * window));
            assert_eq!(found, broadcast(same.tick(50 * window)));
            assert_eq!(found.messages.len(), 2);
            seen.insert(senders(&found));
        }
        assert_eq!(seen.len(), 10, "every pair of five comes up: {seen:?}");
    }
}
