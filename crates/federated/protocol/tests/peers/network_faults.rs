//! Tests in which reports are lost, delayed, duplicated and reordered, peers crash and are restored
//! from their durable events, and links are cut.

use std::collections::{BTreeMap, BTreeSet};

use fedbo_protocol::{Pace, Peer, PeerEffect, PeerEvent, Report, ReportRejected, Shared, Tick};
use fedbo_streams::Stream;
use fedbo_testkit::test_stream;

use crate::peers::common::{SYNCHRONOUS, Team, calm, complete, objective, shared_prior, star};

/// The time after which a sender retries.
const RETRY: Tick = 40;

enum Due {
    Evaluated(u32, u64, f64),
    Arrives(u32, Report),
    Confirmed(u32, u32, u64),
    Retry(u32),
    Tick(u32),
    Rises(u32),
    Dies(u32),
}

/// A peer, with its durable state.
struct Host {
    /// `None` after a crash.
    peer: Option<Peer>,
    /// The events that the state machine has handled, in order.
    durable: Vec<(PeerEvent, Tick)>,
    /// The number of reports that each neighbour has acknowledged.
    confirmed: BTreeMap<u32, u64>,
}

struct World<'a> {
    team: &'a Team,
    luck: Stream,
    now: Tick,
    queue: BTreeMap<(Tick, u64), Due>,
    n_queued: u64,
    hosts: Vec<Host>,
    /// The time until which the link between two peers is cut.
    cut: BTreeMap<(u32, u32), Tick>,
    loss: f64,
    queries: Vec<BTreeMap<u64, Vec<f64>>>,
    n_late: usize,
}

impl<'a> World<'a> {
    fn new(team: &'a Team, seed: u64, loss: f64) -> Self {
        let hosts = (0..team.n()).map(|agent| Host {
            peer: Some(team.peer(agent)),
            durable: Vec::new(),
            confirmed: BTreeMap::new(),
        });
        Self {
            luck: test_stream(seed),
            now: 0,
            queue: BTreeMap::new(),
            n_queued: 0,
            hosts: hosts.collect(),
            cut: BTreeMap::new(),
            loss,
            queries: vec![BTreeMap::new(); team.n() as usize],
            n_late: 0,
            team,
        }
    }

    fn after(&mut self, time: usize, due: Due) {
        self.queue.insert((self.now + time as Tick, self.n_queued), due);
        self.n_queued += 1;
    }

    fn run(&mut self) {
        for agent in 0..self.team.n() {
            let peer = self.hosts[agent as usize].peer.as_mut().unwrap();
            let effects = peer.start(0).unwrap();
            self.follow(agent, effects);
            self.after(RETRY as usize, Due::Retry(agent));
            for _ in 0..self.luck.below(3) {
                let moment = self.luck.below(600);
                self.after(moment, Due::Dies(agent));
            }
        }
        for _ in 0..self.luck.below(4) {
            let [a, b] = [(); 2].map(|()| self.luck.below(self.team.n() as usize) as u32);
            self.cut.insert((a, b), self.luck.below(500) as Tick);
            self.cut.insert((b, a), self.luck.below(500) as Tick);
        }
        while let Some(((at, _), due)) = self.queue.pop_first() {
            self.now = at;
            assert!(at < 100_000, "it does not end");
            self.happen(due);
        }
        for host in &self.hosts {
            assert!(host.peer.as_ref().unwrap().is_finished());
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Evaluated(agent, trial, value) => {
                let value = Some(value);
                self.feed(agent, PeerEvent::Evaluated { trial, value });
            }
            Due::Arrives(agent, report) => {
                let (sender, is_up) = (report.sender, self.hosts[agent as usize].peer.is_some());
                self.feed(agent, PeerEvent::Received(report));
                if let (true, Some(peer)) = (is_up, &self.hosts[agent as usize].peer) {
                    let n = peer.received_from(sender);
                    self.send(agent, sender, |_| Due::Confirmed(sender, agent, n));
                }
            }
            Due::Confirmed(agent, by, n) => {
                let confirmed = self.hosts[agent as usize].confirmed.entry(by).or_default();
                *confirmed = (*confirmed).max(n);
            }
            Due::Retry(agent) => self.push(agent),
            Due::Tick(agent) => self.feed(agent, PeerEvent::Tick),
            Due::Dies(agent) => {
                self.hosts[agent as usize].peer = None;
                let time = 1 + self.luck.below(120);
                self.after(time, Due::Rises(agent));
            }
            Due::Rises(agent) => self.rise(agent),
        }
    }

    /// Starts a new process and replays the durable events at their original times.
    fn rise(&mut self, agent: u32) {
        if self.hosts[agent as usize].peer.is_some() {
            return;
        }
        let mut peer = self.team.peer(agent);
        let mut effects = peer.start(0).unwrap();
        for (event, at) in self.hosts[agent as usize].durable.clone() {
            effects = [effects, peer.handle(event, at).unwrap()].concat();
        }
        // Of the replayed effects, only a trial that is still running must be carried out again.
        let last = effects.iter().rev().find_map(|effect| match effect {
            PeerEffect::Evaluate(trial) => Some(trial.clone()),
            _ => None,
        });
        let is_open = last.as_ref().is_some_and(|trial| {
            let is_result = |event: &PeerEvent| {
                matches!(event, PeerEvent::Evaluated { trial: known, .. } if *known == trial.index)
            };
            let durable = &self.hosts[agent as usize].durable;
            !durable.iter().any(|(event, _)| is_result(event))
        });
        self.hosts[agent as usize].peer = Some(peer);
        if let (true, Some(trial)) = (is_open, last) {
            self.follow(agent, vec![PeerEffect::Evaluate(trial)]);
        }
        self.feed(agent, PeerEvent::Tick);
    }

    fn feed(&mut self, agent: u32, event: PeerEvent) {
        let host = &mut self.hosts[agent as usize];
        let Some(peer) = &mut host.peer else {
            return; // the peer is down
        };
        if let PeerEvent::Evaluated { trial, .. } = &event {
            let is_known = |(known, _): &(PeerEvent, Tick)| matches!(known, PeerEvent::Evaluated { trial: known, .. } if known == trial);
            if host.durable.iter().any(is_known) {
                return; // reported by the previous process
            }
        }
        host.durable.push((event.clone(), self.now));
        let effects = peer.handle(event, self.now).unwrap();
        self.follow(agent, effects);
    }

    fn follow(&mut self, agent: u32, effects: Vec<PeerEffect>) {
        let mut has_shared = false;
        for effect in effects {
            match effect {
                PeerEffect::Evaluate(trial) => {
                    let known = &mut self.queries[agent as usize];
                    let before = known.insert(trial.index, trial.unit.clone());
                    assert!(before.is_none_or(|before| before == trial.unit));
                    let time = 1 + self.luck.below(100);
                    let value = objective(&trial.unit);
                    self.after(time, Due::Evaluated(agent, trial.index, value));
                }
                PeerEffect::Rejected(rejected) => panic!("{rejected}"),
                PeerEffect::ContinuedWithout { .. } => self.n_late += 1,
                PeerEffect::Shared(_) => has_shared = true,
                PeerEffect::Finished => {}
            }
        }
        if has_shared {
            self.push(agent);
        }
        let deadline = self.hosts[agent as usize].peer.as_ref().unwrap().deadline();
        if let Some(deadline) = deadline {
            let wait = usize::try_from(deadline.saturating_sub(self.now)).unwrap();
            self.after(wait, Due::Tick(agent));
        }
    }

    /// Sends unacknowledged reports, and retries later.
    fn push(&mut self, agent: u32) {
        let Some(peer) = &self.hosts[agent as usize].peer else {
            self.after(RETRY as usize, Due::Retry(agent));
            return;
        };
        let (log, recipients) = (peer.log().to_vec(), peer.recipients().clone());
        let mut is_done = peer.is_finished();
        for to in recipients {
            let confirmed = &self.hosts[agent as usize].confirmed;
            let from = usize::try_from(confirmed.get(&to).copied().unwrap_or(0)).unwrap();
            for report in &log[from..] {
                is_done = false;
                let report = report.clone();
                self.send(agent, to, |_| Due::Arrives(to, report.clone()));
            }
        }
        if !is_done {
            let wait = RETRY as usize + self.luck.below(20);
            self.after(wait, Due::Retry(agent));
        }
    }

    fn send(&mut self, from: u32, to: u32, message: impl Fn(&Self) -> Due) {
        let is_cut = self.cut.get(&(from, to)).is_some_and(|until| self.now < *until);
        if is_cut || self.luck.bernoulli(self.loss) {
            return;
        }
        let copies = 1 + usize::from(self.luck.bernoulli(0.2));
        for _ in 0..copies {
            let delay = self.luck.below(60);
            let due = message(self);
            self.after(delay, due);
        }
    }
}

fn graphs() -> Vec<(u32, Vec<(u32, u32)>)> {
    vec![(4, star(4)), (3, complete(3)), (4, vec![(0, 1), (1, 2), (2, 3)])]
}

/// At a synchronous pace, delivery faults and crashes do not change the queries.
#[test]
fn weather_changes_nothing_of_a_synchronous_team() {
    for (case, (n, edges)) in graphs().into_iter().enumerate() {
        let team = Team::new(n, &edges, SYNCHRONOUS, case as u64);
        let mut peers: Vec<Peer> = (0..n).map(|agent| team.peer(agent)).collect();
        let expected = calm(&mut peers);
        for seed in 0..4 {
            let mut world = World::new(&team, 100 * case as u64 + seed, 0.25);
            world.run();
            let queries: Vec<Vec<Vec<f64>>> =
                world.queries.iter().map(|queries| queries.values().cloned().collect()).collect();
            assert_eq!(queries, expected, "graph {case}, weather {seed}");
        }
    }
}

/// The same holds for agents that learn a prior from each other's observations.
#[test]
fn weather_changes_nothing_of_a_team_with_a_shared_prior() {
    let team = Team { strategy: shared_prior, ..Team::new(3, &complete(3), SYNCHRONOUS, 7) };
    let mut peers: Vec<Peer> = (0..3).map(|agent| team.peer(agent)).collect();
    let expected = calm(&mut peers);
    for seed in 0..2 {
        let mut world = World::new(&team, seed, 0.25);
        world.run();
        let queries: Vec<Vec<Vec<f64>>> =
            world.queries.iter().map(|queries| queries.values().cloned().collect()).collect();
        assert_eq!(queries, expected, "weather {seed}");
    }
}

/// Without waiting, or with limited patience, every agent still finishes, and no observation counts
/// twice.
#[test]
fn nothing_is_counted_twice_at_any_pace() {
    let hasty = Pace::Synchronous { patience: Some(15) };
    let mut n_late = 0;
    for (case, pace) in [(0, Pace::Asynchronous), (1, hasty)] {
        for (graph, (n, edges)) in graphs().into_iter().enumerate() {
            let team = Team::new(n, &edges, pace, case);
            let seed = 1000 + 10 * case + graph as u64;
            let mut world = World::new(&team, seed, 0.25);
            world.run();
            n_late += world.n_late;
            for (agent, host) in world.hosts.iter().enumerate() {
                let peer = host.peer.as_ref().unwrap();
                let mut sources: BTreeSet<usize> =
                    team.neighbours[agent].iter().map(|n| *n as usize).collect();
                for neighbour in &sources {
                    let all = team.n_rounds + 1;
                    assert_eq!(peer.received_from(u32::try_from(*neighbour).unwrap()), all);
                }
                sources.insert(agent);
                let known: BTreeSet<u64> =
                    peer.surrogate().outputs().iter().map(|value| value.to_bits()).collect();
                assert_eq!(known.len(), peer.surrogate().len(), "counted twice");
                let made = sources.iter().flat_map(|source| world.queries[*source].values());
                let made: BTreeSet<u64> = made.map(|unit| objective(unit).to_bits()).collect();
                assert!(known.is_subset(&made));
                // The peer knows all of its own observations, except the last, which followed the
                // last query.
                let own = world.queries[agent].values().rev().skip(1);
                assert!(own.clone().all(|unit| known.contains(&objective(unit).to_bits())));
            }
        }
    }
    assert!(n_late > 0, "nobody was ever late");
}

#[test]
fn what_is_no_report_is_refused() {
    let team = Team::new(3, &[(0, 1)], SYNCHRONOUS, 3);
    let mut peer = team.peer(0);
    peer.start(0).unwrap();
    let shared = |unit: &[f64], value| Shared { unit: unit.to_vec(), value };
    let report = |sender, round, observations: Vec<Shared>| Report {
        sender,
        round,
        observations,
        is_last: false,
    };
    let good = shared(&[0.5, 0.5], Some(1.0));
    let mut take = |report| -> Vec<ReportRejected> {
        let effects = peer.handle(PeerEvent::Received(report), 0).unwrap();
        let rejected = effects.into_iter().map(|effect| match effect {
            PeerEffect::Rejected(rejected) => rejected,
            other => panic!("{other:?}"),
        });
        rejected.collect()
    };
    let stranger = take(report(2, 0, vec![good.clone()]));
    assert_eq!(stranger, [ReportRejected::Stranger { sender: 2, receiver: 0 }]);
    let late = take(report(1, 6, vec![good.clone()]));
    assert!(matches!(late[..], [ReportRejected::BeyondTheEnd { last: 5, .. }]));
    let bad = vec![
        shared(&[0.5], Some(1.0)),
        shared(&[0.5, 1.5], Some(1.0)),
        shared(&[f64::NAN, 0.5], None),
        shared(&[0.5, 0.5], Some(f64::INFINITY)),
        good.clone(),
    ];
    let rejected = take(report(1, 0, bad));
    assert_eq!(rejected.len(), 4);
    assert!(rejected.iter().all(|r| matches!(r, ReportRejected::NoObservation { .. })));
    let many = take(report(1, 1, vec![good.clone(), good.clone()]));
    assert!(matches!(many[..], [ReportRejected::TooMany { found: 2, most: 1, .. }]));
    let last = Report { is_last: true, ..report(1, 2, vec![good.clone()]) };
    assert!(take(last).is_empty());
    assert!(matches!(take(report(1, 3, vec![good]))[..], [ReportRejected::AfterTheLast { .. }]));
    assert_eq!(peer.received_from(1), 3);
}
