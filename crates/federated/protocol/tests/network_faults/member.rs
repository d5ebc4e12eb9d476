//! An agent's side: a process that drives the state machine and replays its log after a restart.
use std::collections::BTreeMap;

use fedbo_protocol::{
    Agent, AgentEffect, AgentEvent, AgentUpdate, Handout as _, Tick, Trial, UsesHandouts,
};

use super::{Event, HandoutOf, Subject, World};

/// The state of an upload.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Pending,
    Acknowledged,
    Missed,
}

/// An entry in an agent's log of inputs.
#[derive(Clone)]
enum Told<H> {
    Round(H),
    Value(u64, Option<f64>),
}

/// An agent: its process and its durable state.
pub(crate) struct Member<S: UsesHandouts> {
    /// `None` while the agent is down.
    pub(crate) live: Option<Agent<S>>,
    process: u32,
    pub(crate) away_until: Tick,
    /// True if the agent never comes back.
    pub(crate) is_gone: bool,
    pub(crate) done: bool,
    log: Vec<Told<S::Handout>>,
    uploads: BTreeMap<u64, (AgentUpdate, State)>,
    /// The newest round that the agent has seen.
    pub(crate) round: u64,
}

impl<S: UsesHandouts> Member<S> {
    pub(crate) fn new() -> Self {
        Self {
            live: None,
            process: 0,
            away_until: 0,
            is_gone: false,
            done: false,
            log: Vec::new(),
            uploads: BTreeMap::new(),
            round: 0,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.done || self.is_gone
    }

    pub(crate) fn upload(&self, round: u64) -> Option<&AgentUpdate> {
        self.uploads.get(&round).map(|(update, _)| update)
    }

    pub(crate) fn stop(&mut self) {
        self.live = None;
        self.process += 1;
    }

    /// Handles the coordinator's response to an upload.
    pub(crate) fn answered(&mut self, round: u64, accepted: bool) {
        let (_, state) = self.uploads.get_mut(&round).unwrap();
        // The response to a repeat does not change an earlier acknowledgement. An agent that is
        // down misses the response.
        if *state == State::Pending && self.live.is_some() {
            *state = if accepted { State::Acknowledged } else { State::Missed };
        }
    }

    fn delivered(&self) -> Option<u64> {
        let mut uploads = self.uploads.iter().rev();
        uploads.find(|(_, (_, state))| *state == State::Acknowledged).map(|(round, _)| *round)
    }
}

impl<S: Subject> World<S> {
    /// Starts or restarts an agent, which replays its log and carries out the remaining effects.
    pub(super) fn rise(&mut self, slot: u32) {
        let agent = self.subject.agent(slot);
        let member = &mut self.members[slot as usize];
        if member.live.is_some() || member.is_gone || self.now < member.away_until {
            return;
        }
        let log = member.log.clone();
        let process = member.process;
        self.note(&("rises", slot, log.len()));
        if !log.is_empty() {
            self.counts.add("replayed logs", 1);
            self.subject.restarted(slot);
        }
        let mut agent = agent;
        let mut open = Vec::new();
        self.replayed(slot, &agent.start().unwrap(), &agent, &mut open);
        for told in log {
            let effects = match told {
                Told::Round(handout) => {
                    self.subject.taken(slot, &handout);
                    agent.handle(AgentEvent::Broadcast(handout)).unwrap()
                }
                Told::Value(trial, value) => {
                    open.retain(|effect| !matches!(effect, AgentEffect::Evaluate(asked) if asked.index == trial));
                    agent.handle(AgentEvent::Evaluated { trial, value }).unwrap()
                }
            };
            self.replayed(slot, &effects, &agent, &mut open);
        }
        self.members[slot as usize].live = Some(agent);
        self.agent_effects(slot, open);
        let delay = 1 + self.luck.below(40);
        self.after(delay, Event::Poll(slot, process));
    }

    fn replayed(
        &mut self,
        slot: u32,
        effects: &[AgentEffect],
        agent: &Agent<S::Strategy>,
        open: &mut Vec<AgentEffect>,
    ) {
        self.look(slot, effects, agent);
        open.extend(effects.iter().cloned());
    }

    fn look(&mut self, slot: u32, effects: &[AgentEffect], agent: &Agent<S::Strategy>) {
        for effect in effects {
            if let AgentEffect::Evaluate(trial) = effect {
                self.subject.asked(slot, trial, agent.strategy());
            }
        }
    }

    /// Passes a logged event to an agent. Sometimes the agent stops before it acts on the event.
    fn tell(&mut self, slot: u32, event: AgentEvent<HandoutOf<S>>) {
        if self.luck.bernoulli(0.01) {
            self.counts.add("falls midway", 1);
            return self.fall(slot, Some(20));
        }
        let mut agent = self.members[slot as usize].live.take().unwrap();
        if let AgentEvent::Broadcast(handout) = &event {
            self.subject.taken(slot, handout);
        }
        let effects = agent.handle(event).unwrap();
        self.look(slot, &effects, &agent);
        self.members[slot as usize].live = Some(agent);
        self.agent_effects(slot, effects);
    }

    /// Delivers a handout that was addressed to an agent with the rounds up to `after`.
    pub(super) fn take(&mut self, slot: u32, after: u64, handout: HandoutOf<S>) {
        let member = &mut self.members[slot as usize];
        let Some(agent) = member.live.as_mut().filter(|_| !member.done) else {
            return;
        };
        let round = handout.round();
        if round <= member.round {
            if round > after + 1 {
                return; // the response to an older request would repeat rounds
            }
            let effects = agent.handle(AgentEvent::Broadcast(handout)).unwrap();
            assert_eq!(effects, [], "a handout that came before has effects");
            self.counts.add("old handouts", 1);
            return;
        }
        if after != member.round {
            self.counts.add("gaps", 1); // the agent asks for the rounds in between
            return;
        }
        member.round = round;
        member.log.push(Told::Round(handout.clone()));
        self.counts.add("joined", u64::from(round > after + 1));
        self.tell(slot, AgentEvent::Broadcast(handout));
    }

    pub(super) fn begin_trial(&mut self, slot: u32, trial: Trial) {
        let process = self.members[slot as usize].process;
        let slow = if self.luck.bernoulli(0.1) { 250 } else { 0 };
        let duration = 1 + self.luck.below(40) + slow;
        self.after(duration, Event::Evaluated(slot, process, trial));
    }

    pub(super) fn evaluated(&mut self, slot: u32, process: u32, trial: &Trial) {
        let member = &mut self.members[slot as usize];
        if member.process != process {
            self.counts.add("trials again", 1);
            return;
        }
        let (index, unit) = (trial.index, trial.unit[0]);
        let value = (!self.luck.bernoulli(0.1)).then(|| (f64::from(slot) + 6.0 * unit).sin());
        member.log.push(Told::Value(index, value));
        self.tell(slot, AgentEvent::Evaluated { trial: index, value });
    }

    /// Makes an upload durable before its first byte leaves. A repeated upload must have the same
    /// bytes.
    pub(super) fn keep(&mut self, slot: u32, update: AgentUpdate) {
        let bits = |update: &AgentUpdate| -> Vec<u64> {
            update.weights.iter().map(|weight| weight.to_bits()).collect()
        };
        self.note(&bits(&update));
        let member = &mut self.members[slot as usize];
        let (round, process) = (update.round, member.process);
        let (kept, state) =
            member.uploads.entry(round).or_insert_with(|| (update.clone(), State::Pending));
        assert_eq!(bits(kept), bits(&update), "two vectors of one round");
        if *state == State::Pending {
            let delay = self.luck.below(5);
            self.after(delay, Event::Send(slot, process, round));
        }
    }

    /// Sends an upload until there is a response.
    pub(super) fn deliver(&mut self, slot: u32, process: u32, round: u64) {
        let member = &self.members[slot as usize];
        let Some((update, State::Pending)) = member.uploads.get(&round) else {
            return;
        };
        if member.process != process {
            return;
        }
        let update = update.clone();
        self.send(slot, 0, || Event::Upload(update.clone()));
        let delay = 20 + self.luck.below(30);
        self.after(delay, Event::Send(slot, process, round));
    }

    /// Resends an acknowledged upload after the coordinator has lost it.
    pub(super) fn send_again(&mut self, slot: u32, round: u64) {
        let member = &self.members[slot as usize];
        if member.live.is_none() || member.delivered() != Some(round) {
            return;
        }
        let update = member.uploads[&round].0.clone();
        self.counts.add("sent again", 1);
        self.send(slot, 0, || Event::Upload(update.clone()));
    }

    pub(super) fn poll(&mut self, slot: u32, process: u32) {
        let member = &self.members[slot as usize];
        if member.process != process || member.has_ended() {
            return;
        }
        let (after, delivered) = (member.round, member.delivered());
        self.send(slot, 0, || Event::Question(slot, after, delivered));
        let delay = 25 + self.luck.below(30);
        self.after(delay, Event::Poll(slot, process));
    }
}
