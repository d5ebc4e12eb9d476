//! Agents at a free pace. Trials take virtual time on their own threads, while sessions poll and
//! send.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use fedbo_agent::{Ended, Session, Step, status};
use fedbo_federation::Federation;
use fedbo_objective::{Objective, Outcome, TrialId};
use fedbo_space::Point;
use fedbo_storage::Told;
use fedbo_wire::{ProblemCode, StudyState};

use crate::coordinator::TestCoordinator;
use crate::equality::in_one_process;
use crate::ways::{Cutter, now_ms, pass_time};
use crate::world::{Bump, Member, frozen, members};

/// A gate that lets trials with an index below a given number end.
#[derive(Default)]
struct Gate {
    released: Mutex<u64>,
    bell: Condvar,
}

impl Gate {
    fn wait(&self, trial: u64) {
        let released = self.released.lock().unwrap();
        drop(self.bell.wait_while(released, |released| *released <= trial).unwrap());
    }

    fn release(&self, n: u64) {
        let mut released = self.released.lock().unwrap();
        *released = n.max(*released);
        self.bell.notify_all();
    }
}

/// A [`Bump`] whose evaluations wait at a gate.
struct Gated(Arc<Gate>);

impl Objective for Gated {
    fn evaluate(&self, point: &Point, trial: TrialId) -> Outcome {
        self.0.wait(trial.trial);
        Bump.evaluate(point, trial)
    }
}

/// The duration of an agent's trials, and its running trial.
struct Pacer {
    gate: Arc<Gate>,
    takes_ms: u64,
    /// The time at which each trial first began. A trial that is evaluated again ends as if it had
    /// not been interrupted.
    began_ms: BTreeMap<u64, u64>,
    n_heard: usize,
    running: Option<u64>,
}

impl Pacer {
    fn hear(&mut self, member: &Member) {
        let heard = member.ears.heard.borrow();
        for line in &heard[self.n_heard..] {
            if let Some(trial) = line.strip_prefix("started ") {
                let trial = trial.parse().unwrap();
                self.began_ms.entry(trial).or_insert_with(now_ms);
                self.running = Some(trial);
            } else if line.starts_with("ended ") {
                self.running = None;
            }
        }
        self.n_heard = heard.len();
    }

    fn ends_ms(&self) -> Option<u64> {
        Some(self.began_ms[&self.running?] + self.takes_ms)
    }

    /// Lets the running trial end if it is due. Returns true if it was due.
    fn ends(&self) -> bool {
        let is_due = self.ends_ms().is_some_and(|at| at <= now_ms());
        if let (true, Some(trial)) = (is_due, self.running) {
            self.gate.release(trial + 1);
        }
        is_due
    }
}

/// Returns the text of a federation at a free pace, with windows of a minute, one initial point and
/// `rounds` queries per agent, and the given trial durations.
fn text(algorithm: &str, head: &str, more: &str, seconds: [u64; 3]) -> String {
    let mut text = format!(
        "[federation]\nname = \"free\"\nalgorithm = \"{algorithm}\"\ninitial = 1\nseed = 11\npace = \"free\"\n{head}\n\
         [features]\ncount = 12\nlengthscale = 0.3\n{more}\n[space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n"
    );
    for (name, seconds) in ["north", "south", "west"].iter().zip(seconds) {
        text += &format!("[[agents]]\nname = \"{name}\"\ntrial_s = {seconds}.0\n");
    }
    text
}

/// The agents of a study, and the durations of their trials.
struct World {
    coordinator: Rc<RefCell<TestCoordinator>>,
    members: Vec<Member>,
    pacers: Vec<Pacer>,
}

impl World {
    fn new(folder: &Path, text: &str, seconds: [u64; 3]) -> Self {
        let coordinator = Rc::new(RefCell::new(TestCoordinator::new(&frozen(text))));
        let mut members = members(folder, &coordinator);
        let mut pacers = Vec::new();
        for (member, seconds) in members.iter_mut().zip(seconds) {
            let gate = Arc::new(Gate::default());
            member.objective = Arc::new(Gated(Arc::clone(&gate)));
            member.cutter().n_calls.set(0);
            pacers.push(Pacer {
                gate,
                takes_ms: 1_000 * seconds,
                began_ms: BTreeMap::new(),
                n_heard: 0,
                running: None,
            });
        }
        Self { coordinator, members, pacers }
    }

    /// Creates a private study in which only the first agent runs.
    fn alone(folder: &Path) -> Self {
        let seconds = [67; 3];
        let text = text("dp-fts-de", "rounds = 5\nwindows = 40", CHARGED, seconds);
        let mut world = Self::new(folder, &text, seconds);
        world.keep_the_first();
        world
    }

    fn keep_the_first(&mut self) {
        self.members.truncate(1);
        self.pacers.truncate(1);
    }

    /// Runs until all agents have ended, or until `until_ms`. Before each session of the first
    /// agent, `allowance` returns the number of calls after which the agent dies.
    fn play(
        &mut self,
        until_ms: u64,
        mut allowance: impl FnMut(u64) -> Option<u64>,
    ) -> [Option<Ended>; 3] {
        let Self { coordinator, members, pacers } = self;
        let mut sessions: Vec<Option<Session<'_>>> = members.iter().map(|_| None).collect();
        let mut ended = [None; 3];
        ended[members.len()..].fill(Some(Ended::Complete));
        let mut n_sessions = 0;
        while now_ms() < until_ms && ended.contains(&None) {
            coordinator.borrow_mut().pass_time();
            let mut next = coordinator.borrow().deadline().unwrap_or(u64::MAX);
            for (at, (member, pacer)) in members.iter().zip(pacers.iter_mut()).enumerate() {
                let (mut n_idle, holds_back) = (0, member.ears.ponders_ms.get() > 0);
                while ended[at].is_none() {
                    let session = match sessions[at].take() {
                        Some(session) => Some(session),
                        None => {
                            match allowance(n_sessions).filter(|_| at == 0) {
                                Some(n_calls) => member.cutter().after(n_calls),
                                None => member.cutter().never(),
                            }
                            n_sessions += u64::from(at == 0);
                            pacer.running = None;
                            Cutter::within(|| member.session().unwrap())
                        }
                    };
                    let Some(mut session) = session else { continue };
                    let is_due = pacer.ends();
                    let stepped = Cutter::within(|| (session.advance().unwrap(), session));
                    pacer.hear(member);
                    let Some((step, session)) = stepped else { continue };
                    sessions[at] = Some(session);
                    match step {
                        Step::Went => {}
                        Step::Ended(how) => ended[at] = Some(how),
                        // The result is processed as soon as its thread has ended, unless the
                        // session holds it back.
                        Step::Waits(_) if is_due && (n_idle < 60 || !holds_back) => {
                            n_idle += 1;
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        Step::Waits(time) => {
                            let ms = u64::try_from(time.as_millis()).unwrap();
                            next = next.min(now_ms() + ms.max(1));
                            break;
                        }
                    }
                }
                let ends_ms = pacer.ends_ms().filter(|at| *at > now_ms());
                next = next.min(ends_ms.unwrap_or(u64::MAX));
            }
            if ended.contains(&None) {
                pass_time(Duration::from_millis(next.saturating_sub(now_ms())));
            }
        }
        // Release all trials, so that no thread waits forever.
        pacers.iter().for_each(|pacer| pacer.gate.release(u64::MAX));
        ended
    }

    fn whole(&mut self) {
        let ended = self.play(u64::MAX, |_| None);
        assert_eq!(ended, [Some(Ended::Complete); 3]);
    }

    fn trials(&self) -> Vec<Vec<(Point, String, Option<Told>)>> {
        self.members.iter().map(Member::trials).collect()
    }

    fn n_charged(&self, agent: usize) -> u64 {
        let spent = status(&self.members[agent].home).unwrap().privacy.unwrap();
        spent.spent.unwrap().n_releases
    }

    /// Returns the windows in which an agent uploaded.
    fn windows_of(&self, slot: u32) -> Vec<u64> {
        let coordinator = self.coordinator.borrow();
        let arrived = coordinator.arrived.keys().filter(|(from, _)| *from == slot);
        arrived.map(|(_, window)| *window).collect()
    }
}

const SECONDS: [u64; 3] = [67, 68, 127];
const SIMULATED: &str = "[privacy]\nepsilon = 20.0\nsimulate = true\nparticipations = 3\n";
const CHARGED: &str = "[privacy]\nepsilon = 2.0\nparticipations = 2\n";

/// Trials end in the first half of a window, so that events between an agent's instant and the end
/// of the window make no difference.
#[test]
fn agents_of_their_own_do_at_a_free_pace_what_they_do_in_one_process() {
    for (algorithm, more) in [
        ("fts", ""),
        ("shared-prior", "[shared-prior]\nrank = 12\n"),
        ("dp-fts-de", SIMULATED),
        ("dp-shared-prior", SIMULATED),
    ] {
        let text = text(algorithm, "rounds = 3\nwindows = 9", more, SECONDS);
        let federation = Federation::from_text(&text, fedbo_federation::ALGORITHMS).unwrap();
        let expected = in_one_process(&federation);
        let folder = tempfile::tempdir().unwrap();
        let mut world = World::new(folder.path(), &text, SECONDS);
        world.whole();
        let value = |told: Option<Told>| match told {
            Some(Told::Value(value)) => value,
            other => panic!("{other:?}"),
        };
        let found: Vec<Vec<_>> = world
            .trials()
            .into_iter()
            .map(|trials| {
                trials
                    .into_iter()
                    .map(|(point, source, told)| (point, source, value(told)))
                    .collect()
            })
            .collect();
        assert_eq!(found, expected, "{algorithm}");
        let sources = found.iter().flatten().map(|(_, source, _)| source.as_str());
        let others = ["message:", "shared:", "region:"];
        let heard = sources.filter(|source| others.iter().any(|other| source.starts_with(other)));
        assert!(heard.count() > 0, "{found:?}");
    }
}

/// The agent dies repeatedly, after 0, 1, 2, … calls, during trials and between them.
#[test]
fn an_agent_that_dies_again_and_again_does_the_same() {
    for (algorithm, more, initial) in [("fts", "", 1), ("fts", "", 2), ("dp-fts-de", SIMULATED, 1)]
    {
        let head = format!("rounds = {}\nwindows = 9", 4 - initial);
        let text = text(algorithm, &head, more, SECONDS)
            .replace("initial = 1", &format!("initial = {initial}"));
        let play = |allowance: fn(u64) -> Option<u64>| {
            let folder = tempfile::tempdir().unwrap();
            let mut world = World::new(folder.path(), &text, SECONDS);
            let ended = world.play(u64::MAX, allowance);
            assert_eq!(ended, [Some(Ended::Complete); 3]);
            let coordinator = world.coordinator.borrow();
            for ((slot, window), bodies) in &coordinator.arrived {
                let differs = bodies.iter().any(|body| *body != bodies[0]);
                assert!(!differs, "slot {slot} sent two different bodies for window {window}");
            }
            let first = coordinator.arrived.iter().map(|(at, bodies)| (*at, bodies[0].clone()));
            (world.trials(), first.collect::<BTreeMap<_, _>>())
        };
        let expected = play(|_| None);
        assert!(expected.1.len() >= 6, "{:?}", expected.1.keys());
        assert_eq!(play(|n| Some(n % 11)), expected, "{algorithm}");
        assert_eq!(play(|n| Some(n % 17)), expected, "{algorithm}");
    }
}

/// An agent makes requests only at its instants, however long its trials take. The trials determine
/// only which windows have an upload.
#[test]
fn what_trials_take_shows_by_windows_alone() {
    for (algorithm, more) in [("fts", ""), ("dp-fts-de", CHARGED)] {
        let mut offsets: BTreeMap<(u32, u64), Vec<u64>> = BTreeMap::new();
        let mut asks: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        let mut n_compared = 0;
        for seconds in [[67, 68, 127], [20, 130, 64], [61, 27, 250]] {
            let folder = tempfile::tempdir().unwrap();
            let text = text(algorithm, "rounds = 14\nwindows = 90", more, seconds);
            let mut world = World::new(folder.path(), &text, seconds);
            world.whole();
            let coordinator = world.coordinator.borrow();
            for (at, came_ms) in &coordinator.came_ms {
                assert_eq!(came_ms.len(), 1);
                // Vectors are accepted for 54 seconds. Uploads arrive in the ten seconds before the
                // last ten.
                assert!((34_000..=44_000).contains(&came_ms[0]), "{came_ms:?}");
                n_compared += usize::from(offsets.contains_key(at));
                assert_eq!(
                    offsets.entry(*at).or_insert_with(|| came_ms.clone()),
                    came_ms,
                    "{at:?}"
                );
            }
            for slot in 0..3 {
                let asked = coordinator.asked_ms.iter().filter(|(from, _)| *from == slot);
                let asked: Vec<u64> = asked.map(|(_, at)| *at).collect();
                let known = asks.entry(slot).or_insert_with(|| asked.clone());
                let n = known.len().min(asked.len());
                assert!(n >= 5, "{asked:?}");
                assert_eq!(known[..n], asked[..n]);
            }
        }
        assert!(n_compared >= 3, "{n_compared} windows in which two speeds were heard");
    }
}

/// Computing a query takes time, and starts when a trial ends. A result is held while an instant is
/// near, so that no request is late.
#[test]
fn a_result_waits_while_an_instant_is_near() {
    let play = |seconds: u64, ponders_ms: u64| {
        let seconds = [seconds; 3];
        let folder = tempfile::tempdir().unwrap();
        let text = text("fts", "rounds = 40\nwindows = 99", "", seconds);
        let mut world = World::new(folder.path(), &text, seconds);
        world.keep_the_first();
        world.members[0].ears.ponders_ms.set(ponders_ms);
        world.play(u64::MAX, |_| None);
        let coordinator = world.coordinator.borrow();
        (coordinator.came_ms.clone(), coordinator.asked_ms.clone())
    };
    for seconds in [9, 50] {
        let (came, asked) = play(seconds, 0);
        let (came_late, asked_late) = play(seconds, 1_800);
        assert!(came.len() >= 6 && came_late.len() > came.len(), "{came_late:?}");
        for (at, came_ms) in &came {
            assert_eq!(came_late[at], *came_ms, "{at:?}");
        }
        assert_eq!(asked_late[..asked.len()], asked);
    }
}

/// A request that is set aside for a result is resumed instead of being sent again. No request is
/// repeated or made at a different time.
#[test]
fn a_request_that_is_set_aside_is_taken_up() {
    let play = |every: u32| {
        let folder = tempfile::tempdir().unwrap();
        let text = text("dp-fts-de", "rounds = 5\nwindows = 12", SIMULATED, SECONDS);
        let mut world = World::new(folder.path(), &text, SECONDS);
        world.members.iter().for_each(|member| member.link.set_aside_every.set(every));
        world.whole();
        let coordinator = world.coordinator.borrow();
        let heard = (coordinator.came_ms.clone(), coordinator.asked_ms.clone());
        (heard, coordinator.arrived.clone(), world.trials())
    };
    let expected = play(0);
    assert!(expected.0.0.len() >= 9, "{:?}", expected.0);
    for every in [2, 3, 7] {
        assert_eq!(play(every), expected, "{every}");
    }
}

/// The response to a request that was set aside belongs to its first transmission. A coordinator
/// that has seen only the counter of that transmission has forgotten nothing.
#[test]
fn a_request_that_is_set_aside_is_no_sign_of_a_restored_coordinator() {
    let folder = tempfile::tempdir().unwrap();
    let text = text("dp-fts-de", "rounds = 5\nwindows = 12", SIMULATED, SECONDS);
    let mut world = World::new(folder.path(), &text, SECONDS);
    for member in &world.members {
        member.link.set_aside_every.set(3);
        member.link.unsent_every.set(4);
    }
    world.whole();
    for member in &world.members {
        assert!(member.ears.count("retrying") > 3);
        assert_eq!(member.ears.count("forgotten"), 0, "{:?}", member.ears.heard.borrow());
    }
}

/// If a coordinator requests an upload again but then cannot be reached, the agent pauses between
/// retries.
#[test]
fn an_upload_that_is_wanted_again_is_sent_with_pauses() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::alone(folder.path());
    world.play(now_ms() + 110_000, |_| None);
    let window = *world.windows_of(0).last().unwrap();
    world.coordinator.borrow_mut().resend = Some(window);
    world.coordinator.borrow_mut().state = StudyState::Paused; // the window stays open
    world.coordinator.borrow_mut().refuses = vec![ProblemCode::Unavailable; 10_000].into();
    world.play(now_ms() + 60_000, |_| None);
    let n_asked = 10_000 - world.coordinator.borrow().refuses.len();
    assert!((2..30).contains(&n_asked), "{n_asked}");
    let ended = world.members[0].ears.count("ended ");
    assert!(ended >= 2, "trials go on: {ended}");
}

/// According to the coordinator, the agent has reached its maximum number of releases. It sends and
/// pays for no further upload.
#[test]
fn an_agent_whose_vector_is_not_collected_sends_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::alone(folder.path());
    world.coordinator.borrow_mut().refuses = vec![ProblemCode::NotCollected].into();
    assert_eq!(world.play(u64::MAX, |_| None)[0], Some(Ended::Complete));
    assert_eq!((world.windows_of(0), world.n_charged(0)), (Vec::new(), 1));
    assert_eq!(world.trials()[0].len(), 6);
}

/// An agent participates in its maximum number of releases, pays for these, and then continues
/// without uploads, even after restarts.
#[test]
fn an_agent_takes_part_as_often_as_it_pays_for() {
    let seconds = [20, 67, 200];
    let folder = tempfile::tempdir().unwrap();
    let text = text("dp-fts-de", "rounds = 9\nwindows = 40", CHARGED, seconds);
    let mut world = World::new(folder.path(), &text, seconds);
    let ended = world.play(u64::MAX, |n| Some(5 + n % 23));
    assert_eq!(ended, [Some(Ended::Complete); 3]);
    for agent in 0..3 {
        assert_eq!(world.windows_of(u32::try_from(agent).unwrap()).len(), 2, "agent {agent}");
        assert_eq!(world.n_charged(agent), 2);
        assert_eq!(world.trials()[agent].len(), 10);
    }
}

/// Agents make no queries while a study waits to begin. If a study becomes unreachable after it has
/// begun, no agent is delayed.
#[test]
fn agents_wait_for_the_beginning_and_for_nothing_else() {
    let seconds = [20; 3];
    let folder = tempfile::tempdir().unwrap();
    let text = text("fts", "rounds = 5\nwindows = 6", "", seconds);
    let mut world = World::new(folder.path(), &text, seconds);
    world.coordinator.borrow_mut().state = StudyState::Waiting;
    let begins_ms = now_ms() + 600_000;
    world.play(begins_ms, |_| None);
    let n_trials = |world: &World| -> Vec<usize> { world.trials().iter().map(Vec::len).collect() };
    assert_eq!(n_trials(&world), [1; 3], "the initial point of each");
    assert_eq!(world.members[0].ears.count("waits waiting"), 1);
    assert!(world.coordinator.borrow().arrived.is_empty());
    // The study begins, and its coordinator becomes unreachable after the first window.
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path(), &text, seconds);
    world.play(now_ms() + 65_000, |_| None);
    world.coordinator.borrow_mut().refuses = vec![ProblemCode::Unavailable; 10_000].into();
    world.members.iter().for_each(|member| member.link.n_lost.set(u32::MAX));
    world.play(now_ms() + 600_000, |_| None);
    assert_eq!(n_trials(&world), [6; 3]);
    let told = world.trials().into_iter().flatten().all(|(_, _, told)| told.is_some());
    assert!(told);
}

/// At a free pace, before anything is sent, a notice tells the agent's owner which information
/// becomes public. In rounds, the notice does not mention this.
#[test]
fn what_becomes_public_is_said_first() {
    for (algorithm, more) in [("fts", ""), ("dp-fts-de", CHARGED)] {
        let said = |text: &str| {
            let federation = Federation::thaw(&frozen(text)).unwrap();
            fedbo_agent::protection(&federation)
        };
        let text = text(algorithm, "rounds = 5\nwindows = 6", more, [60; 3]);
        let free = said(&text);
        assert!(free.contains("roughly how long its trials take"), "{free}");
        let rounds = text
            .replace("pace = \"free\"\n", "")
            .replace("windows = 6\n", "")
            .replace("participations = 2\n", "")
            .replace("trial_s = 60.0\n", "");
        assert!(!said(&rounds).contains("how long"), "{algorithm}");
        if algorithm == "dp-fts-de" {
            assert!(free.contains("at most 2 of 6 releases, one every 60 s,"), "{free}");
        }
    }
}
