//! An in-memory coordinator, made of the project's own state machines and the protocol's byte
//! formats.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fedbo_agent::{Caller, Poll, Polled, Progress};
use fedbo_federation::{Collaboration, Federation, Protection};
use fedbo_ledger::{Head, event_to_bytes};
use fedbo_privacy::mechanism::{NoiseSource, SecureNoise, SimNoise};
use fedbo_protocol::{
    AgentUpdate, AggregateHandout, Aggregator, Broadcast, Coordinator, Effect, Handout as _,
    Instants, Mailbox, Participations, Relay, RoundMechanism, UpdateRejected,
};
use fedbo_wire::{
    Account, Content, Digest, Handout, LedgerEntry, LedgerHead, Problem, ProblemCode, PublicKey,
    RelayedMessage, Signature, SigningKey, StudyAccount, StudyState, StudyStatus, Upload,
    config_digest, sign_config,
};

use crate::ways::now_ms;

/// The state machine that runs the rounds.
enum Rounds {
    Relay(Box<Relay>),
    Aggregator(Box<dyn Coordinator<Handout = AggregateHandout>>),
}

/// Changes a handout before it is signed.
pub(crate) type Mangle = fn(&mut Handout, &TestCoordinator);

/// A coordinator of one study.
pub(crate) struct TestCoordinator {
    pub(crate) key: SigningKey,
    pub(crate) federation: Federation,
    pub(crate) text: String,
    rounds: Rounds,
    broadcasts: Vec<Broadcast>,
    /// The newest round that has begun with a handout.
    pub(crate) round: Option<u64>,
    collects: bool,
    pub(crate) ledger: Vec<LedgerEntry>,
    pub(crate) genesis: Head,
    pub(crate) head: Head,
    /// Slots that are waiting for the next round.
    waiting: BTreeSet<u32>,
    /// The key that may make requests for each slot.
    pub(crate) keys: BTreeMap<u32, PublicKey>,
    /// Every body that arrived, by slot and round.
    pub(crate) arrived: BTreeMap<(u32, u64), Vec<Vec<u8>>>,
    /// Vectors that count, by slot and round.
    pub(crate) counted: BTreeSet<(u32, u64)>,
    pub(crate) mangle: Option<Mangle>,
    /// The codes with which the next uploads are refused.
    pub(crate) refuses: VecDeque<ProblemCode>,
    pub(crate) state: StudyState,
    /// The round whose upload is requested again.
    pub(crate) resend: Option<u64>,
    /// The start time of the round.
    pub(crate) began_ms: u64,
    /// The arrival times of uploads, by slot and round, in milliseconds since the start of the
    /// round.
    pub(crate) came_ms: BTreeMap<(u32, u64), Vec<u64>>,
    /// The slots that polled, each with the time in milliseconds since the start of the round.
    pub(crate) asked_ms: Vec<(u32, u64)>,
    /// The slots that requested the study's status, each with the time.
    pub(crate) looked_ms: Vec<(u32, u64)>,
    /// The time at which the study starts, or its round restarts.
    pub(crate) begins_ms: Option<u64>,
    /// The round that the next unsigned status reports instead of the current round.
    pub(crate) forged: Option<u64>,
    /// The number of enrolment requests.
    pub(crate) n_enrolments: u32,
    /// The largest request counter of each slot.
    pub(crate) counters: BTreeMap<u32, u64>,
    /// Rounds that are missing from the record of participants.
    pub(crate) unrecorded: Vec<u64>,
    /// Changes the account before it is signed.
    pub(crate) falsifies: Option<fn(&mut Account)>,
}

impl TestCoordinator {
    /// Starts a study from the frozen text of a federation.
    pub(crate) fn new(text: &str) -> Self {
        let federation = Federation::thaw(text).unwrap();
        let map = federation.feature_map().unwrap();
        let n_agents = u32::try_from(federation.agents.len()).unwrap();
        let mut head = Head { seq: 0, hash: [0; 32] };
        let rounds = match &federation.collaboration {
            Collaboration::Relayed(_) => {
                let participants = (0..n_agents).collect();
                let (message_len, hash) = (federation.message_len(), map.hash());
                let relay = |timeout, now| {
                    Relay::new(participants, Vec::new(), message_len, hash, timeout, now)
                };
                Rounds::Relay(Box::new(match &federation.free {
                    None => relay(None, 0),
                    Some(free) => relay(Some(federation.network.round_ms), now_ms())
                        .with_mailbox(Mailbox::new(free.max_age, free.sample, federation.root())),
                }))
            }
            Collaboration::Neighbours(_) => panic!("it has no coordinator"),
            Collaboration::Released(releases) => match &releases.releases.protection {
                Protection::Charged(plan) => {
                    head = plan.charter.genesis();
                    Rounds::Aggregator(aggregator(&federation, SecureNoise::new()))
                }
                _ => {
                    head = Head::uncharged(text.as_bytes());
                    let noise = SimNoise::new(federation.noise_seed());
                    Rounds::Aggregator(aggregator(&federation, noise))
                }
            },
        };
        let mut coordinator = Self {
            key: coordinator_key(),
            text: text.to_owned(),
            federation,
            rounds,
            broadcasts: Vec::new(),
            round: None,
            collects: true,
            ledger: Vec::new(),
            genesis: head,
            head,
            waiting: BTreeSet::new(),
            keys: BTreeMap::new(),
            arrived: BTreeMap::new(),
            counted: BTreeSet::new(),
            mangle: None,
            refuses: VecDeque::new(),
            state: StudyState::Running,
            resend: None,
            began_ms: now_ms(),
            came_ms: BTreeMap::new(),
            asked_ms: Vec::new(),
            looked_ms: Vec::new(),
            begins_ms: None,
            forged: None,
            n_enrolments: 0,
            counters: BTreeMap::new(),
            unrecorded: Vec::new(),
            falsifies: None,
        };
        if let Rounds::Aggregator(aggregator) = &mut coordinator.rounds {
            let effects = aggregator.start(machine_ms(&coordinator.federation));
            coordinator.apply(effects).unwrap();
        }
        coordinator
    }

    /// Returns the time at which the open window closes.
    pub(crate) fn deadline(&self) -> Option<u64> {
        if self.state != StudyState::Running {
            return None;
        }
        match &self.rounds {
            Rounds::Relay(relay) => relay.deadline(),
            Rounds::Aggregator(aggregator) => aggregator.deadline(),
        }
    }

    pub(crate) fn digest(&self) -> Digest {
        config_digest(self.text.as_bytes())
    }

    pub(crate) fn signature(&self) -> Signature {
        sign_config(&self.key, self.text.as_bytes())
    }

    fn check_key(&self, key: &SigningKey, slot: u32) -> Result<(), Problem> {
        match self.keys.get(&slot) {
            Some(known) if *known == key.public() => Ok(()),
            _ => Err(problem(ProblemCode::UnknownAgent)),
        }
    }

    fn slot_of(&self, key: &SigningKey) -> Option<u32> {
        let mut keys = self.keys.iter();
        keys.find(|(_, known)| **known == key.public()).map(|(slot, _)| *slot)
    }

    /// Checks and records the counter of a request.
    pub(crate) fn count(&mut self, by: Caller<'_>) -> Result<(), Problem> {
        let slot = self.slot_of(by.key).ok_or_else(|| problem(ProblemCode::UnknownAgent))?;
        let known = self.counters.entry(slot).or_default();
        if by.counter <= *known {
            return Err(problem(ProblemCode::CounterBehind));
        }
        *known = by.counter;
        Ok(())
    }

    /// Returns the coordinator's account of the agent with this key in a slot.
    pub(crate) fn account(&self, key: &SigningKey, slot: u32) -> Account {
        let row = |round: u64| (round, round);
        let (event, mode, delivered) = match self.federation.privacy() {
            None => (String::new(), String::new(), Vec::new()),
            Some(plan) => {
                let event = event_to_bytes(&plan.event).unwrap();
                let event = event.iter().map(|byte| format!("{byte:02x}")).collect();
                let own = self.counted.iter().filter(|(of, _)| *of == slot);
                let is_known = |round: &u64| !self.unrecorded.contains(round);
                let delivered = own.map(|(_, round)| *round).filter(is_known).map(row).collect();
                (event, plan.charter.mode.to_string(), delivered)
            }
        };
        let study = StudyAccount {
            study: self.federation.name.clone(),
            config: self.digest(),
            slot,
            counter: self.counters.get(&slot).copied().unwrap_or(0),
            event,
            mode,
            delivered,
            unrecorded: self.unrecorded.iter().copied().map(row).collect(),
        };
        let mut account = Account::new(&self.key, key.public(), now_ms(), vec![study]);
        if let Some(falsify) = self.falsifies {
            falsify(&mut account);
            account = Account::new(&self.key, account.key, account.time_ms, account.studies);
        }
        account
    }

    pub(crate) fn upload(
        &mut self,
        key: &SigningKey,
        slot: u32,
        round: u64,
        body: &[u8],
    ) -> Result<(), Problem> {
        self.check_key(key, slot)?;
        if let Some(code) = self.refuses.pop_front() {
            return Err(problem(code));
        }
        self.pass_time();
        match self.state {
            StudyState::Waiting => return Err(problem(ProblemCode::NotStarted)),
            StudyState::Paused => return Err(problem(ProblemCode::Paused)),
            StudyState::Running | StudyState::Finished => {}
        }
        self.came_ms.entry((slot, round)).or_default().push(now_ms() - self.began_ms);
        let n_features = u32::try_from(self.federation.message_len()).unwrap();
        let mut upload = Upload::from_bytes(body, n_features).unwrap();
        assert_eq!((upload.slot, upload.round), (slot, round));
        assert_eq!(upload.config, self.digest());
        self.arrived.entry((slot, round)).or_default().push(body.to_vec());
        let update = AgentUpdate {
            sender: slot,
            round,
            map: fedbo_gp::MapHash(upload.map.0),
            weights: std::mem::take(&mut upload.weights).into(),
        };
        let now = machine_ms(&self.federation);
        let refusal = match &mut self.rounds {
            Rounds::Relay(relay) => {
                let effects = relay.receive(update, now);
                self.carry_out_relayed(effects)
            }
            Rounds::Aggregator(aggregator) => {
                let effects = aggregator.receive(update, now);
                self.apply(effects)
            }
        };
        refusal?;
        self.resend = self.resend.filter(|lost| *lost != round);
        self.counted.insert((slot, round));
        Ok(())
    }

    pub(crate) fn handouts(&mut self, key: &SigningKey, poll: Poll) -> Result<Polled, Problem> {
        let slot = self.slot_of(key).ok_or_else(|| problem(ProblemCode::UnknownAgent))?;
        self.pass_time();
        let is_free = self.federation.free.is_some();
        if (poll.after == self.round || is_free) && self.state != StudyState::Waiting {
            self.asked_ms.push((slot, now_ms() - self.began_ms));
            self.waiting.insert(slot);
            self.end_idle_round();
        }
        match self.round {
            Some(round) if poll.after.is_none_or(|after| round > after) => {
                let mut handout = self.handout(round, poll);
                if let Some(mangle) = &self.mangle {
                    mangle(&mut handout, self);
                }
                Ok(Polled::Handout {
                    bytes: handout.to_bytes(&self.key),
                    elapsed_ms: self.elapsed_ms(),
                })
            }
            _ => Ok(Polled::Nothing(Progress {
                round: self.round.unwrap_or(0),
                state: self.state,
                resend: self.resend,
                elapsed_ms: self.elapsed_ms(),
                round_key: None,
            })),
        }
    }

    /// Returns the state of the study for the agent with this key.
    pub(crate) fn status(&mut self, key: &SigningKey) -> Result<StudyStatus, Problem> {
        let slot = self.slot_of(key).ok_or_else(|| problem(ProblemCode::UnknownAgent))?;
        self.pass_time();
        self.looked_ms.push((slot, now_ms()));
        Ok(StudyStatus {
            study: self.federation.name.clone(),
            state: self.state,
            round: self.forged.take().unwrap_or(self.round.unwrap_or(0)),
            rounds: self.federation.rounds,
            collects: true,
            head: self.status_head(),
            time_ms: now_ms(),
            elapsed_ms: self.elapsed_ms(),
            round_key: None,
            account: self.account(key, slot),
        })
    }

    /// Returns the ledger's head for a status. Empty if messages are relayed.
    pub(crate) fn status_head(&self) -> String {
        match &self.rounds {
            Rounds::Relay(_) => String::new(),
            Rounds::Aggregator(_) => self.head.to_string(),
        }
    }

    /// Ends the round if all agents are idle, unless the study has windows that close by the clock.
    fn end_idle_round(&mut self) {
        let n_agents = self.federation.agents.len();
        if self.waiting.len() == n_agents && self.federation.free.is_none() {
            self.end_round();
        }
    }

    /// Ends a private round, regardless of missing uploads.
    pub(crate) fn end_round(&mut self) {
        if let Rounds::Aggregator(aggregator) = &mut self.rounds {
            let effects = aggregator.idle(0);
            self.apply(effects).unwrap();
        }
    }

    fn handout(&self, round: u64, poll: Poll) -> Handout {
        let content = match &self.rounds {
            Rounds::Aggregator(_) => {
                let news = self.ledger.iter().filter(|entry| entry.seq > poll.entries);
                Content::Releases(news.cloned().collect())
            }
            Rounds::Relay(_) => {
                let after =
                    if self.federation.free.is_some() { Some(round - 1) } else { poll.after };
                let is_new = |b: &&Broadcast| after.is_none_or(|after| b.round > after);
                let mut news = self.broadcasts.iter().filter(is_new).cloned();
                let mut joined = news.next().unwrap();
                news.for_each(|newer| joined.join(newer));
                joined.messages.sort_by_key(|message| message.sender);
                let relayed = |message: AgentUpdate| RelayedMessage {
                    sender: message.sender,
                    round: message.round,
                    weights: message.weights.to_vec(),
                };
                Content::Messages {
                    messages: joined.messages.into_iter().map(relayed).collect(),
                    stragglers: joined.stragglers,
                }
            }
        };
        Handout {
            config: self.digest(),
            round,
            collects: self.collects,
            head: match &self.rounds {
                Rounds::Relay(_) => LedgerHead::NONE,
                Rounds::Aggregator(_) => LedgerHead { seq: self.head.seq, hash: self.head.hash },
            },
            content,
        }
    }

    fn carry_out_relayed(&mut self, effects: Vec<Effect<Broadcast>>) -> Result<(), Problem> {
        for effect in effects {
            match effect {
                Effect::Broadcast(broadcast) => {
                    self.begin(broadcast.round, true);
                    self.broadcasts.push(broadcast);
                }
                Effect::Refuse(rejected) => return Err(refusal(&rejected)),
                other => panic!("a relay asks for {other:?}"),
            }
        }
        Ok(())
    }

    fn apply(&mut self, effects: Vec<Effect<AggregateHandout>>) -> Result<(), Problem> {
        let now = machine_ms(&self.federation);
        let mut queue = VecDeque::from(effects);
        let mut refused = Ok(());
        while let Some(effect) = queue.pop_front() {
            let Rounds::Aggregator(aggregator) = &mut self.rounds else {
                panic!("a relay has no releases")
            };
            match effect {
                Effect::Broadcast(handout) => self.begin(handout.round, handout.collects),
                Effect::Refuse(rejected) => refused = Err(refusal(&rejected)),
                Effect::Fail(error) => panic!("{error}"),
                Effect::Recall { round } => {
                    queue.extend(aggregator.recalled(round, None, now).unwrap());
                }
                Effect::Commit { round, bytes, event, .. } => {
                    let event = event.map_or_else(Vec::new, |e| event_to_bytes(&e).unwrap());
                    self.head = self.head.follow(round, &event, &bytes);
                    self.ledger.push(LedgerEntry {
                        seq: self.head.seq,
                        round,
                        event,
                        release: bytes.to_vec(),
                    });
                    queue.extend(aggregator.committed(round, now).unwrap());
                }
            }
        }
        refused
    }

    fn begin(&mut self, round: u64, collects: bool) {
        if round > self.federation.last_round() && self.federation.free.is_some() {
            self.state = StudyState::Finished;
        }
        self.round = Some(round);
        self.collects = collects;
        self.began_ms = now_ms();
        self.waiting.clear();
    }

    /// Starts the study, restarts its round, and closes windows that are due.
    pub(crate) fn pass_time(&mut self) {
        if let Some(begins_ms) = self.begins_ms.take_if(|begins_ms| *begins_ms <= now_ms()) {
            (self.state, self.began_ms) = (StudyState::Running, begins_ms);
        }
        while let Some(deadline) = self.deadline().filter(|deadline| *deadline <= now_ms())
            && self.federation.free.is_some()
        {
            match &mut self.rounds {
                Rounds::Relay(relay) => {
                    // Tick at the deadline, even if the deadline has already passed.
                    let effects = relay.tick(deadline);
                    self.carry_out_relayed(effects).unwrap();
                    self.began_ms = deadline;
                }
                Rounds::Aggregator(aggregator) => {
                    let effects = aggregator.tick(now_ms());
                    self.apply(effects).unwrap();
                }
            }
        }
    }

    /// Returns the elapsed time of the round.
    fn elapsed_ms(&self) -> Option<u64> {
        (self.state != StudyState::Waiting).then(|| now_ms() - self.began_ms)
    }
}

/// Returns the time for a machine, which stays 0 in rounds.
fn machine_ms(federation: &Federation) -> u64 {
    federation.free.as_ref().map_or(0, |_| now_ms())
}

fn aggregator<S: NoiseSource + 'static>(
    federation: &Federation,
    source: S,
) -> Box<dyn Coordinator<Handout = AggregateHandout>> {
    let Collaboration::Released(releases) = &federation.collaboration else {
        panic!("a federation without releases")
    };
    let schedule = releases.schedule();
    let map = federation.feature_map().unwrap().hash();
    let network = federation.network;
    let instants = federation
        .free
        .as_ref()
        .map(|_| Instants::new(network.collect_ms.unwrap(), network.round_ms).unwrap());
    let rounds = releases.rounds(federation.own_arm(), source);
    Box::new(paced(federation, Aggregator::new(rounds, schedule, map, instants)))
}

fn paced<M: RoundMechanism>(federation: &Federation, aggregator: Aggregator<M>) -> Aggregator<M> {
    let n_slots = u32::try_from(federation.agents.len()).unwrap();
    match federation.free_pace().and_then(|pace| pace.uploads_max) {
        Some(most) => aggregator.with_participations(Participations::new(n_slots, most)),
        None => aggregator,
    }
}

/// Returns the key of every coordinator in these tests.
pub(crate) fn coordinator_key() -> SigningKey {
    SigningKey::from_seed([9; 32])
}

fn refusal(rejected: &UpdateRejected) -> Problem {
    problem(match rejected {
        UpdateRejected::Late { .. } => ProblemCode::Late,
        UpdateRejected::Early { .. } => ProblemCode::Early,
        UpdateRejected::NotCollected { .. } => ProblemCode::NotCollected,
        UpdateRejected::Conflict { .. } => ProblemCode::Conflict,
        UpdateRejected::Spent { .. } => ProblemCode::NotCollected,
        _ => ProblemCode::BadRequest,
    })
}

pub(crate) fn problem(code: ProblemCode) -> Problem {
    Problem { code, message: format!("the test says {code}") }
}
