//! Runs dialogues in virtual time over an unreliable network. Requests and responses are lost,
//! delayed and duplicated. Agents stop and restart from their logs, the coordinator pauses and
//! loses uploads, and the helper is unreachable for a while. All randomness comes from one stream.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::rc::Rc;

use fedbo_streams::{Purpose, Seed, Stream};

use super::*;

/// No fault begins after this time.
const HORIZON_MS: u64 = 300_000;

/// A machine in the simulation.
trait Played: Dialogue + Sized {
    fn new(study: &Study, log: &Log) -> Self;

    /// Returns the task of the next turn, or `None` while a trial must end first.
    fn task(agent: &mut Agent<Self>, study: &Study) -> Option<Self::Task>;

    /// Records that the turn's task is done.
    fn done(agent: &mut Agent<Self>, world: &mut Clockwork);

    /// Records the end of a trial.
    fn trial_ended(agent: &mut Agent<Self>, now: u64);
}

/// The durable part of an agent.
#[derive(Default)]
struct Log {
    /// Uploads by round. `None` while undecided, otherwise true if acknowledged.
    uploads: BTreeMap<u64, Option<bool>>,
    handouts: Vec<Vec<u8>>,
    /// Rounds whose trial has ended.
    ended: BTreeSet<u64>,
}

impl Log {
    fn last(&self, state: impl Fn(Option<bool>) -> bool) -> Option<u64> {
        self.uploads.iter().rev().find(|(_, found)| state(**found)).map(|(round, _)| *round)
    }
}

/// The volatile part of an agent.
struct Agent<D> {
    slot: u32,
    contact: Contact,
    machine: D,
    log: Log,
    /// Number of the current process. `is_up` is false between two processes.
    process: u32,
    is_up: bool,
    /// The number of the current request.
    asked: Option<u64>,
    is_evaluating: bool,
    has_new: bool,
    has_finished: bool,
    /// Time of the next turn.
    wakes_ms: u64,
    /// The time of the last turn, and the number of earlier turns at the same time.
    n_turns: (u64, u32),
}

impl<D> Agent<D> {
    fn round(&self) -> u64 {
        self.contact.follower.round().unwrap_or(0)
    }
}

impl Played for Rounds {
    fn new(_: &Study, _: &Log) -> Self {
        Self::new()
    }

    fn task(agent: &mut Agent<Self>, study: &Study) -> Option<Task> {
        let round = agent.round();
        if let Some(round) = agent.contact.resend {
            return Some(Task::Resend { round, is_kept: true });
        }
        if !agent.log.ended.contains(&round) {
            return (!agent.is_evaluating).then_some(Task::Meet);
        }
        let state = agent.log.uploads.get(&round);
        if study.collects(round) && state.is_none_or(Option::is_none) {
            let is_made = state.is_some();
            return Some(Task::Deliver(Outgoing { round, is_made, is_answered: false }));
        }
        Some(Task::Await)
    }

    fn done(agent: &mut Agent<Self>, world: &mut Clockwork) {
        if !agent.log.ended.contains(&agent.round()) {
            agent.is_evaluating = true;
            // Some trials take longer than their round.
            let is_long = world.now < HORIZON_MS && world.luck.bernoulli(0.1);
            let most = if is_long { 80_000 } else { 25_000 };
            let trial = Event::Trial(agent.slot, agent.process, agent.round());
            world.after(most, trial);
        }
    }

    fn trial_ended(agent: &mut Agent<Self>, now: u64) {
        agent.machine.trial_ended(&agent.contact, now);
    }
}

impl Played for Free {
    fn new(study: &Study, log: &Log) -> Self {
        let made = (log.last(|_| true), log.last(|state| state.is_none()));
        Self::new(study.federation.last_round(), made)
    }

    fn task(agent: &mut Agent<Self>, _: &Study) -> Option<free::Task> {
        agent.has_finished = agent.machine.is_over();
        let due = free::Due { has_upload: agent.has_new, is_kept: true };
        Some(free::Task::Due(due))
    }

    fn done(_: &mut Agent<Self>, _: &mut Clockwork) {
        panic!("a turn at a free pace ends with a step");
    }

    fn trial_ended(agent: &mut Agent<Self>, _: u64) {
        agent.has_new = true;
    }
}

enum Body {
    State,
    Poll(Poll),
    Upload(u64),
}

enum Answer {
    State(Result<StudyStatus, LinkError>),
    Polled(Result<Polled, LinkError>),
    Sent(Result<(), LinkError>),
}

enum Event {
    /// An agent's process takes a turn.
    Wake(u32, u32),
    /// The trial of a round ends, if the agent's process is still running.
    Trial(u32, u32, u64),
    /// A request reaches the coordinator, which may hold it until the given time.
    Request(u32, u64, Rc<Body>, u64),
    Answer(u32, u64, Box<Answer>),
    /// An agent stops, and restarts later.
    Fall(u32),
    Rise(u32),
    /// The helper is unreachable for this time.
    HelperAway(u64),
    Pause,
    Resume,
    /// The coordinator loses the uploads of the current round.
    Lose,
}

/// The virtual time, its events and all randomness.
struct Clockwork {
    now: u64,
    luck: Stream,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    n_events: u64,
}

impl Clockwork {
    /// Schedules an event at a random time within `most` milliseconds.
    fn after(&mut self, most: u64, event: Event) {
        let delay = 1 + self.luck.below(usize::try_from(most).unwrap()) as u64;
        self.at(self.now + delay, event);
    }

    fn at(&mut self, time: u64, event: Event) {
        self.n_events += 1;
        self.queue.push(Reverse((time, self.n_events)));
        self.events.insert(self.n_events, event);
    }

    fn is_bad(&mut self, chance: f64) -> bool {
        self.now < HORIZON_MS && self.luck.bernoulli(chance)
    }
}

/// The coordinator of the study, together with its helper.
struct Coordinator {
    round: u64,
    state: StudyState,
    /// The start of the round, or `None` while the round waits for the helper.
    began_ms: Option<u64>,
    helper_back_ms: u64,
    counted: BTreeSet<(u32, u64)>,
    lost: BTreeSet<(u32, u64)>,
    /// Rounds for which the helper's key was published.
    opened: BTreeSet<u64>,
    /// Rounds that began after the last fault.
    quiet: BTreeSet<u64>,
}

struct World<D: Played> {
    study: Study,
    world: Clockwork,
    agents: Vec<Agent<D>>,
    coordinator: Coordinator,
    n_requests: u64,
    /// Times at which each agent sent each upload.
    sent_ms: BTreeMap<(u32, u64), Vec<u64>>,
    n_missed: u64,
    n_resent: u64,
    n_held: u64,
    trace: Vec<(u64, u32, &'static str)>,
}

impl<D: Played> World<D> {
    fn new(study: Study, seed: u64) -> Self {
        let agents = (0..3).map(|slot| Agent {
            slot,
            contact: study.contact(slot, None),
            machine: D::new(&study, &Log::default()),
            log: Log::default(),
            process: 0,
            is_up: true,
            asked: None,
            is_evaluating: false,
            has_new: false,
            has_finished: false,
            wakes_ms: 0,
            n_turns: (0, 0),
        });
        let coordinator = Coordinator {
            round: 0,
            state: StudyState::Waiting,
            began_ms: None,
            helper_back_ms: 0,
            counted: BTreeSet::new(),
            lost: BTreeSet::new(),
            opened: BTreeSet::new(),
            quiet: BTreeSet::new(),
        };
        let world = Clockwork {
            now: 10_000,
            luck: Seed::new(0x5eed).stream(Purpose::TEST, seed, 0),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            n_events: 0,
        };
        Self {
            agents: agents.collect(),
            study,
            world,
            coordinator,
            n_requests: 0,
            sent_ms: BTreeMap::new(),
            n_missed: 0,
            n_resent: 0,
            n_held: 0,
            trace: Vec::new(),
        }
    }

    /// Draws the faults and their times, and runs until all agents have finished.
    fn run(&mut self) {
        let world = &mut self.world;
        world.after(20_000, Event::Resume); // the study begins
        for slot in 0..3 {
            self.agents[slot as usize].wakes_ms = 12_000;
            world.at(12_000, Event::Wake(slot, 0));
            for _ in 0..world.luck.below(3) {
                world.after(HORIZON_MS - 60_000, Event::Fall(slot));
            }
        }
        for _ in 0..world.luck.below(3) {
            let back = 1 + world.luck.below(100_000) as u64;
            world.after(HORIZON_MS - 150_000, Event::HelperAway(back));
            world.after(HORIZON_MS - 60_000, Event::Pause);
            world.after(HORIZON_MS - 60_000, Event::Lose);
        }
        while !self.agents.iter().all(|agent| agent.has_finished) {
            let Reverse((time, id)) = self.world.queue.pop().unwrap();
            self.pass_time(time);
            self.world.now = time;
            let event = self.world.events.remove(&id).unwrap();
            self.happen(event);
            assert!(time < 40 * 60_000, "an agent is stuck");
        }
    }

    /// Advances the rounds to the given time.
    fn pass_time(&mut self, time: u64) {
        let last = self.study.federation.last_round();
        let coordinator = &mut self.coordinator;
        while coordinator.state == StudyState::Running {
            let network = self.study.federation.network;
            match coordinator.began_ms {
                None if coordinator.helper_back_ms <= time => {
                    let began = self.world.now.max(coordinator.helper_back_ms);
                    coordinator.begin(began, self.study.has_helper());
                }
                Some(began) if began + network.round_ms_of(coordinator.round) <= time => {
                    let end = began + network.round_ms_of(coordinator.round);
                    coordinator.round += 1;
                    coordinator.lost.clear();
                    match coordinator.round > last {
                        true => coordinator.state = StudyState::Finished,
                        false if coordinator.helper_back_ms > end => coordinator.began_ms = None,
                        false => coordinator.begin(end, self.study.has_helper()),
                    }
                }
                _ => break,
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake(slot, process) => {
                let agent = &self.agents[slot as usize];
                let is_due = agent.wakes_ms == self.world.now && agent.asked.is_none();
                if agent.is_up && agent.process == process && is_due {
                    self.turn(slot);
                }
            }
            Event::Trial(slot, process, round) => {
                let agent = &mut self.agents[slot as usize];
                if agent.process == process {
                    agent.is_evaluating = false;
                    agent.log.ended.insert(round);
                    D::trial_ended(agent, self.world.now);
                    self.wake(slot, 0);
                }
            }
            Event::Request(slot, id, body, until) => self.request(slot, id, body, until),
            Event::Answer(slot, id, answer) => self.answered(slot, id, *answer),
            Event::Fall(slot) => {
                let agent = &mut self.agents[slot as usize];
                (agent.is_up, agent.asked) = (false, None);
                self.world.after(40_000, Event::Rise(slot));
            }
            Event::Rise(slot) => self.rise(slot),
            Event::HelperAway(time) => self.coordinator.helper_back_ms = self.world.now + time,
            Event::Pause if self.coordinator.state == StudyState::Running => {
                self.coordinator.state = StudyState::Paused;
                self.world.after(50_000, Event::Resume);
            }
            Event::Resume if self.coordinator.state != StudyState::Finished => {
                self.coordinator.state = StudyState::Running;
                self.coordinator.began_ms = None; // its round restarts
                self.pass_time(self.world.now);
            }
            Event::Lose => {
                let coordinator = &mut self.coordinator;
                let round = coordinator.round;
                let is_of_it = |(_, of): &(u32, u64)| *of == round;
                coordinator.lost.extend(coordinator.counted.iter().filter(|at| is_of_it(at)));
                coordinator.counted.retain(|at| !is_of_it(at));
            }
            Event::Pause | Event::Resume => {}
        }
    }

    /// Restarts an agent from its log.
    fn rise(&mut self, slot: u32) {
        let agent = &mut self.agents[slot as usize];
        if agent.is_up || agent.has_finished {
            return;
        }
        agent.process += 1;
        (agent.is_up, agent.is_evaluating) = (true, false);
        let delivered = agent.log.last(|state| state == Some(true));
        agent.contact = self.study.contact(slot, delivered);
        agent.machine = D::new(&self.study, &agent.log);
        for bytes in &agent.log.handouts {
            let verified = agent.contact.follower.read(bytes).unwrap();
            agent.contact.follower.advance(&verified);
        }
        self.wake(slot, 0);
    }

    fn wake(&mut self, slot: u32, delay_ms: u64) {
        let agent = &mut self.agents[slot as usize];
        agent.wakes_ms = self.world.now + delay_ms;
        self.world.at(agent.wakes_ms, Event::Wake(slot, agent.process));
    }

    fn turn(&mut self, slot: u32) {
        let agent = &mut self.agents[slot as usize];
        agent.wakes_ms = u64::MAX;
        let (at, n) = &mut agent.n_turns;
        *n = if *at == self.world.now { *n + 1 } else { 0 };
        *at = self.world.now;
        assert!(*n < 20, "an agent is busy at {at}");
        if let Some(task) = D::task(agent, &self.study)
            && !agent.has_finished
        {
            self.converse(slot, super::Event::Turn(task));
        }
    }

    /// Passes an event to an agent, performs the effects, and makes its next request.
    fn converse(&mut self, slot: u32, event: super::Event<D::Task>) {
        let now = Now { ms: self.world.now, chance: self.world.luck.uniform() };
        let agent = &mut self.agents[slot as usize];
        let next = agent.machine.handle(&mut agent.contact, event, now).unwrap();
        for effect in agent.contact.take_effects() {
            match effect {
                Effect::Take { bytes, .. } => agent.log.handouts.push(bytes),
                Effect::Decide(round, verdict) => {
                    let is_taken = verdict == Verdict::Acknowledged;
                    agent.log.uploads.insert(round, Some(is_taken));
                }
                Effect::Miss { round, .. } => {
                    self.n_missed += 1;
                    agent.log.uploads.insert(round, Some(false));
                }
                Effect::Resent(..) => self.n_resent += 1,
                Effect::HelperAwaited(_) => self.n_held += 1,
                Effect::Retry(_, wait) => {
                    // After a restart of the round, its instants are in the future again.
                    let pace = &agent.contact.pace;
                    let first = match pace.upload_at(pace.round()) {
                        Instant::At(at) => at.saturating_sub(now.ms),
                        _ => 0,
                    };
                    let network = self.study.federation.network;
                    let collect_ms = network.collect_ms_of(pace.round()).unwrap();
                    let most = Duration::from_millis(first + collect_ms / 2 + 1_000);
                    assert!(wait <= most, "{wait:?} in a round of {collect_ms} ms");
                }
                Effect::Accuse { misconduct, .. } => panic!("{misconduct}"),
                Effect::Answered
                | Effect::Contact
                | Effect::ChangeKey
                | Effect::Forget
                | Effect::StudyWaits(_) => {}
            }
        }
        match next {
            Next::AskState => self.ask(slot, Body::State),
            Next::Poll(poll) => self.ask(slot, Body::Poll(poll)),
            Next::Make(round) => {
                let is_opened = self.coordinator.opened.contains(&round);
                assert!(is_opened || !self.study.has_helper(), "round {round} waits");
                agent.log.uploads.entry(round).or_insert(None);
                agent.has_new = false;
                self.converse(slot, super::Event::Made(Made::Kept));
            }
            Next::Send(round) => {
                assert!(agent.log.uploads.contains_key(&round), "round {round} is not charged");
                if agent.log.uploads[&round].is_none() {
                    self.sent_ms.entry((slot, round)).or_default().push(self.world.now);
                }
                self.ask(slot, Body::Upload(round));
            }
            Next::Done => {
                D::done(agent, &mut self.world);
                self.wake(slot, 0);
            }
            Next::Rest(Step::Went) => self.wake(slot, 0),
            Next::Rest(Step::Waits(time)) => {
                self.wake(slot, u64::try_from(time.as_millis()).unwrap());
            }
            Next::StudyOver => agent.has_finished = true,
            Next::Rest(Step::Ended(_)) => panic!("nobody stopped it"),
        }
    }

    /// Delivers a request zero times, once or twice. Without a response, the agent's link gives up.
    fn ask(&mut self, slot: u32, body: Body) {
        self.trace.push((
            self.world.now,
            slot,
            match body {
                Body::State => "state",
                Body::Poll(_) => "poll",
                Body::Upload(_) => "upload",
            },
        ));
        self.n_requests += 1;
        let id = self.n_requests;
        self.agents[slot as usize].asked = Some(id);
        let lost = unreachable();
        let (answer, patience, until) = match &body {
            Body::State => (Answer::State(Err(lost)), 5_000, 0),
            Body::Poll(poll) => {
                let hold_ms = 1_000 * poll.wait_s;
                (Answer::Polled(Err(lost)), 5_000 + hold_ms, self.world.now + hold_ms)
            }
            Body::Upload(_) => (Answer::Sent(Err(lost)), 5_000, 0),
        };
        self.world.at(self.world.now + patience, Event::Answer(slot, id, Box::new(answer)));
        let body = Rc::new(body);
        if self.world.is_bad(0.2) {
            return;
        }
        for _ in 0..1 + u32::from(self.world.is_bad(0.2)) {
            let body = Rc::clone(&body);
            self.world.after(500, Event::Request(slot, id, body, until));
        }
    }

    /// Responds to a request, or holds it while there is no news.
    fn request(&mut self, slot: u32, id: u64, body: Rc<Body>, until: u64) {
        let coordinator = &mut self.coordinator;
        let (now, round, state) = (self.world.now, coordinator.round, coordinator.state);
        let elapsed_ms = coordinator.began_ms.map(|began| now.saturating_sub(began));
        let lost = coordinator.lost.contains(&(slot, round)).then_some(round);
        let is_open = coordinator.opened.contains(&round);
        let round_key = self.study.key(round).filter(|_| is_open);
        let progress = Progress { round, state, resend: lost, elapsed_ms, round_key };
        let answer = match body.as_ref() {
            Body::State => Answer::State(Ok(self.study.status(progress))),
            Body::Poll(poll) => {
                let has_begun = elapsed_ms.is_some() && state == StudyState::Running;
                let last = self.study.federation.last_round();
                let is_news = round > 0 && poll.after.is_none_or(|after| round > after);
                if is_news && has_begun && round <= last {
                    let bytes = self.study.handout(round, round_key);
                    Answer::Polled(Ok(Polled::Handout { bytes, elapsed_ms }))
                } else {
                    let is_idle = lost.is_none() && poll.state.is_none_or(|known| known == state);
                    if is_idle && state != StudyState::Finished && now < until {
                        let again = Event::Request(slot, id, body, until);
                        return self.world.at(now + 200, again);
                    }
                    Answer::Polled(Ok(Polled::Nothing(progress)))
                }
            }
            Body::Upload(of) => Answer::Sent(self.collect(slot, *of)),
        };
        if !self.world.is_bad(0.2) {
            self.world.after(500, Event::Answer(slot, id, Box::new(answer)));
        }
    }

    fn collect(&mut self, slot: u32, of: u64) -> Result<(), LinkError> {
        let coordinator = &mut self.coordinator;
        let collect_ms = self.study.federation.network.collect_ms_of(of).unwrap();
        let late = |began: u64| self.world.now > began + collect_ms;
        match (coordinator.state, coordinator.began_ms) {
            _ if coordinator.counted.contains(&(slot, of)) => return Ok(()),
            _ if of < coordinator.round => return Err(refused(ProblemCode::Late)),
            (StudyState::Waiting, _) => return Err(refused(ProblemCode::NotStarted)),
            (StudyState::Paused, _) => return Err(refused(ProblemCode::Paused)),
            (_, None) => return Err(refused(ProblemCode::Early)),
            (_, Some(began)) if late(began) => return Err(refused(ProblemCode::Late)),
            _ => {}
        }
        assert_eq!(of, coordinator.round, "a vector of a round that has not begun");
        coordinator.counted.insert((slot, of));
        coordinator.lost.remove(&(slot, of));
        Ok(())
    }

    fn answered(&mut self, slot: u32, id: u64, answer: Answer) {
        let agent = &mut self.agents[slot as usize];
        if !agent.is_up || agent.asked != Some(id) {
            return; // the agent has stopped, or has its response
        }
        agent.asked = None;
        self.converse(
            slot,
            match answer {
                Answer::State(answer) => super::Event::State(answer),
                Answer::Polled(answer) => super::Event::Polled(answer),
                Answer::Sent(answer) => super::Event::Sent(answer),
            },
        );
    }
}

impl Coordinator {
    fn begin(&mut self, began: u64, has_helper: bool) {
        self.began_ms = Some(began);
        if has_helper {
            self.opened.insert(self.round);
        }
        if began > HORIZON_MS + 60_000 {
            self.quiet.insert(self.round);
        }
    }
}

/// Runs a study, and checks that agents deliver in every round without faults.
fn play<D: Played>(study: fn() -> Study, seed: u64, prepare: fn(&mut World<D>)) -> World<D> {
    let mut world: World<D> = World::new(study(), seed);
    prepare(&mut world);
    world.run();
    for round in &world.coordinator.quiet {
        for slot in 0..3 {
            let is_counted = world.coordinator.counted.contains(&(slot, *round));
            let is_due = world.study.collects(*round);
            assert!(is_counted || !is_due, "seed {seed}: slot {slot} misses round {round}");
        }
    }
    world
}

#[test]
fn agents_deliver_in_every_round_after_the_faults_have_ended() {
    let (mut n_missed, mut n_resent, mut n_held, mut n_sent) = (0, 0, 0, 0);
    for seed in 0..30 {
        let world = match seed % 2 {
            0 => play::<Rounds>(Study::relayed, seed, |_| {}),
            _ => play::<Rounds>(Study::summed, seed, |_| {}),
        };
        n_missed += world.n_missed;
        n_resent += world.n_resent;
        n_held += world.n_held;
        n_sent += world.sent_ms.len();
    }
    assert!(n_missed > 10 && n_resent > 3 && n_held > 10, "{n_missed} {n_resent} {n_held}");
    assert!(n_sent > 500, "{n_sent}");
}

#[test]
fn agents_at_a_free_pace_deliver_in_every_window_after_the_faults_have_ended() {
    let prepare = |world: &mut World<Free>| {
        // A trial ends every two seconds.
        for slot in 0..3 {
            for n in 0..400 {
                for process in 0..3 {
                    world.world.at(10_000 + 2_000 * n, Event::Trial(slot, process, n));
                }
            }
        }
    };
    for seed in 0..20 {
        let world = play(Study::free, seed, prepare);
        assert!(world.sent_ms.len() > 9, "{:?}", world.sent_ms);
    }
}

#[test]
fn equal_seeds_give_equal_requests() {
    let trace = |seed| play::<Rounds>(Study::summed, seed, |_| {}).trace;
    assert_eq!(trace(3), trace(3));
    assert_ne!(trace(3), trace(5));
}
