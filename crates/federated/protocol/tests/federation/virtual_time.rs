//! A federation in virtual time. Messages are lost, delayed, duplicated and reordered, and agents
//! stall. The driver is a queue of timed events. All randomness comes from one stream.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use fedbo_federated::fts::Fts;
use fedbo_protocol::{
    Agent, AgentEffect, AgentEvent, AgentUpdate, Broadcast, Coordinator, Effect, Relay, Tick, Trial,
};
use fedbo_strategies::Source;
use fedbo_streams::Stream;
use fedbo_testkit::test_stream;

use crate::federation::common::{N_FEATURES, agent, map};

/// A federation, and the faults of its messages and agents.
#[derive(Clone, Debug)]
pub(crate) struct NetworkFaults {
    pub(crate) seed: u64,
    pub(crate) n_participants: u32,
    pub(crate) n_contributors: u32,
    pub(crate) n_initial: u32,
    pub(crate) n_rounds: u64,
    /// Probabilities.
    pub(crate) upload_loss: f64,
    pub(crate) broadcast_loss: f64,
    pub(crate) doubling: f64,
    pub(crate) stalling: f64,
    pub(crate) failing: f64,
    /// Maximum delay of a message.
    pub(crate) delay: usize,
    pub(crate) timeout: Tick,
}

enum Event {
    Upload(AgentUpdate),
    Broadcast(u32, Broadcast),
    Evaluated(u32, u64),
}

/// A record of an agent's actions.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberState {
    pub(crate) trials: Vec<Trial>,
    pub(crate) upload_rounds: Vec<u64>,
    pub(crate) finished: bool,
    /// The rounds of the broadcasts that reached the agent.
    pub(crate) heard: BTreeSet<u64>,
}

/// A record of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) states: BTreeMap<u32, MemberState>,
    pub(crate) broadcasts: Vec<Broadcast>,
    /// Every effect with its time, including weights.
    pub(crate) trace: Vec<String>,
}

struct Run {
    weather: NetworkFaults,
    luck: Stream,
    queue: BinaryHeap<Reverse<(Tick, u64)>>,
    /// Events by sequence number. Events at the same time are ordered by when they were sent.
    events: BTreeMap<u64, Event>,
    next_event: u64,
    agents: BTreeMap<u32, Agent<Fts>>,
    relay: Relay,
    outcome: Outcome,
}

impl Run {
    fn at(&mut self, time: Tick, event: Event) {
        let id = self.next_event;
        self.next_event += 1;
        self.queue.push(Reverse((time, id)));
        self.events.insert(id, event);
    }

    fn delay(&mut self) -> Tick {
        1 + self.luck.below(self.weather.delay) as Tick
    }

    /// Sends a message zero times, once or twice, each copy with its own delay.
    fn send(&mut self, now: Tick, loss: f64, make: impl Fn() -> Event) {
        if self.luck.bernoulli(loss) {
            return;
        }
        let copies = 1 + usize::from(self.luck.bernoulli(self.weather.doubling));
        for _ in 0..copies {
            let time = now + self.delay();
            self.at(time, make());
        }
    }

    fn agent_effects(&mut self, id: u32, now: Tick, effects: Vec<AgentEffect>) {
        for effect in effects {
            let mut line = format!("{now} agent {id}: {effect:?}");
            let state = self.outcome.states.get_mut(&id).unwrap();
            match effect {
                AgentEffect::Evaluate(trial) => {
                    state.trials.push(trial.clone());
                    let mut duration = 1 + self.luck.below(40) as Tick;
                    if self.luck.bernoulli(self.weather.stalling) {
                        duration += 3 * self.weather.timeout;
                    }
                    self.at(now + duration, Event::Evaluated(id, trial.index));
                }
                AgentEffect::Upload(update) => {
                    state.upload_rounds.push(update.round);
                    line += &format!(" {:?}", update.weights);
                    let loss = self.weather.upload_loss;
                    self.send(now, loss, || Event::Upload(update.clone()));
                }
                AgentEffect::Finished => state.finished = true,
                AgentEffect::Refused(rejected) => panic!("{rejected}"),
            }
            self.outcome.trace.push(line);
        }
    }

    fn relay_effects(&mut self, now: Tick, effects: Vec<Effect<Broadcast>>) {
        for effect in effects {
            self.outcome.trace.push(format!("{now} relay: {effect:?}"));
            match effect {
                Effect::Broadcast(broadcast) => {
                    self.outcome.broadcasts.push(broadcast.clone());
                    let ids: Vec<u32> = self.agents.keys().copied().collect();
                    for id in ids {
                        let loss = self.weather.broadcast_loss;
                        self.send(now, loss, || Event::Broadcast(id, broadcast.clone()));
                    }
                }
                Effect::Refuse(rejected) => panic!("{rejected}"),
                asked @ (Effect::Recall { .. } | Effect::Commit { .. } | Effect::Fail(_)) => {
                    panic!("{asked:?}")
                }
            }
        }
    }

    fn happen(&mut self, now: Tick, event: Event) {
        match event {
            Event::Upload(update) => {
                let effects = self.relay.receive(update, now);
                self.relay_effects(now, effects);
            }
            Event::Broadcast(id, broadcast) => {
                let state = self.outcome.states.get_mut(&id).unwrap();
                let again = !state.heard.insert(broadcast.round);
                let agent = self.agents.get_mut(&id).unwrap();
                let effects = agent.handle(AgentEvent::Broadcast(broadcast)).unwrap();
                assert!(
                    !again || effects.is_empty(),
                    "a broadcast delivered again has effects: {effects:?}"
                );
                self.agent_effects(id, now, effects);
            }
            Event::Evaluated(id, trial) => {
                let value = (!self.luck.bernoulli(self.weather.failing)).then(|| {
                    let unit = &self.outcome.states[&id].trials.last().unwrap().unit;
                    (f64::from(id) + 6.0 * unit[0]).sin()
                });
                let agent = self.agents.get_mut(&id).unwrap();
                let effects = agent.handle(AgentEvent::Evaluated { trial, value }).unwrap();
                self.agent_effects(id, now, effects);
            }
        }
    }
}

/// Runs a federation until all agents have finished, but at most 10 rounds beyond the plan, and
/// then delivers the remaining messages.
///
/// # Panics
/// If an agent returns an error, a valid message is refused, or a repeated broadcast has an effect.
pub(crate) fn simulate(weather: &NetworkFaults) -> Outcome {
    let n_agents = weather.n_participants + weather.n_contributors;
    let participants: Vec<u32> = (0..weather.n_participants).collect();
    let contributors = (weather.n_participants..n_agents).collect();
    let agents: BTreeMap<u32, Agent<Fts>> = (0..n_agents)
        .map(|id| {
            let contributes = id >= weather.n_participants;
            let (n_initial, n_rounds) =
                if contributes { (0, 0) } else { (weather.n_initial, weather.n_rounds) };
            (id, agent(id, n_initial, n_rounds, 0.5, weather.seed))
        })
        .collect();
    let mut run = Run {
        luck: test_stream(weather.seed),
        queue: BinaryHeap::new(),
        events: BTreeMap::new(),
        next_event: 0,
        relay: Relay::new(
            participants,
            contributors,
            N_FEATURES,
            map().hash(),
            Some(weather.timeout),
            0,
        ),
        outcome: Outcome {
            states: agents.keys().map(|id| (*id, MemberState::default())).collect(),
            broadcasts: Vec::new(),
            trace: Vec::new(),
        },
        agents,
        weather: weather.clone(),
    };
    for id in 0..n_agents {
        let effects = run.agents.get_mut(&id).unwrap().start().unwrap();
        run.agent_effects(id, 0, effects);
    }
    loop {
        let all_done = run.outcome.states.values().all(|state| state.finished);
        let open = !all_done && run.relay.round() < weather.n_rounds + 10;
        let deadline = run.relay.deadline().filter(|_| open);
        let next = run.queue.peek().map(|Reverse((time, _))| *time);
        match (next, deadline) {
            (None, None) => return run.outcome,
            (time, Some(deadline)) if time.is_none_or(|time| deadline < time) => {
                let effects = run.relay.tick(deadline);
                assert!(!effects.is_empty(), "a deadline passes without a broadcast");
                run.relay_effects(deadline, effects);
            }
            _ => {
                let Reverse((now, id)) = run.queue.pop().unwrap();
                let event = run.events.remove(&id).unwrap();
                run.happen(now, event);
            }
        }
    }
}

pub(crate) fn is_initial(trial: &Trial) -> bool {
    trial.source == Source::Initial
}
