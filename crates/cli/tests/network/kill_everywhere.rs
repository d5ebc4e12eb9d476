//! Kills the program at every failpoint, where data is about to become durable or to be sent. The
//! program must continue as if it had not been killed.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use fedbo_failpoints::PLACES;
use rusqlite::Connection;

use crate::federation_folder::{PATIENCE, Process, Setup, World, bytes_below};

/// Failpoints that are passed once, when a study starts and agents join.
const BEGINNING: [&str; 7] = [
    "coordinator: a study is stored",
    "coordinator: an agent is enrolled",
    "agent: its key is written",
    "agent: the coordinator has shown its key",
    "agent: the study is checked",
    "agent: the coordinator knows it",
    "agent: its membership is stored",
];

/// Runs a command that must die at a failpoint.
pub(crate) fn dies(command: &mut Command, place: &str) {
    let mut process = Process::start(command.env("FEDBO_DIE_AT", place));
    assert_eq!(process.end(), None, "{place} is not passed: {:#?}", process.said);
}

/// A process that is restarted each time it has died, so that it dies at the next failpoint, until
/// no failpoints are left.
pub(crate) struct Victim<'a> {
    start: Box<dyn Fn() -> Command + 'a>,
    pub(crate) process: Process,
    /// Remaining failpoints in reverse order.
    pub(crate) places: Vec<String>,
    pub(crate) n_deaths: usize,
}

impl<'a> Victim<'a> {
    pub(crate) fn new(places: Vec<String>, start: impl Fn() -> Command + 'a) -> Self {
        let mut victim = Self {
            process: Process::start(start().env("FEDBO_DIE_AT", places.last().unwrap())),
            start: Box::new(start),
            places,
            n_deaths: 0,
        };
        victim.look();
        victim
    }

    /// Restarts the process if it has died. Returns true if there are no more failpoints.
    pub(crate) fn look(&mut self) -> bool {
        if self.places.is_empty() || !self.process.has_ended() {
            return self.places.is_empty();
        }
        let place = self.places.pop().unwrap();
        assert_eq!(self.process.end(), None, "at {place}: {:#?}", self.process.said);
        self.n_deaths += 1;
        let mut command = (self.start)();
        if let Some(next) = self.places.last() {
            command.env("FEDBO_DIE_AT", next);
        }
        self.process = Process::start(&mut command);
        self.places.is_empty()
    }
}

/// The failpoint that is passed only at a free pace.
const FREE: &str = "coordinator: the participants are noted";

/// Number of rounds, which is more than needed to die everywhere: each death takes at most about
/// two rounds.
const N_ROUNDS: u64 = 60;

fn in_rounds() -> Setup {
    Setup {
        privacy: "epsilon = 1000.0\nnoise_multiplier = 1.0\nreleases = 60\n",
        ..Setup::charged(3, N_ROUNDS, 0.6)
    }
}

/// Returns a setup in which trials last about as long as a window, and an agent has more trials
/// than there are windows.
fn at_a_free_pace() -> Setup {
    Setup {
        privacy: "epsilon = 1000.0\nnoise_multiplier = 1.0\nparticipations = 50\n",
        free_windows: Some(N_ROUNDS),
        trial_s: 0.5,
        ..Setup::charged(3, 90, 0.6)
    }
}

/// Runs one study in which each process dies once at each of its failpoints, on the `nth` passage.
fn killed_everywhere(setup: &Setup, nth: usize) {
    let (n_agents, is_free) = (setup.n_agents, setup.free_windows.is_some());
    let world = World::new(setup);
    let mut n_deaths = BEGINNING.len();

    dies(
        &mut world.program(&["coordinator", "study", "create", "federation.toml"]),
        "coordinator: a study is stored",
    );
    // The study exists, but nobody has seen its tokens, so create new ones.
    let tokens: Vec<String> = (0..n_agents)
        .map(|agent| {
            let name = format!("lab {agent}");
            let token = world.json(&["coordinator", "agents", "token", "labs", &name]);
            token["token"].as_str().unwrap().to_owned()
        })
        .collect();
    let (service, port) = world.serve(0);
    drop(service);
    let mut service = Process::start(
        world.service("coordinator", port).env("FEDBO_DIE_AT", "coordinator: an agent is enrolled"),
    );
    service.wait_for("://");
    let lost = world.enrolment(0, &tokens[0], port).output().unwrap();
    assert_eq!(lost.status.code(), Some(6), "its coordinator died");
    assert_eq!(service.end(), None);
    let (service, _) = world.serve(port);
    // Two of the three agents are then on the roster, and the study waits for the third.
    for (agent, place) in [
        (0, "agent: its membership is stored"),
        (1, "agent: the coordinator knows it"),
        (2, "agent: its key is written"),
        (2, "agent: the coordinator has shown its key"),
        (2, "agent: the study is checked"),
    ] {
        dies(&mut world.enrolment(agent, &tokens[agent], port), place);
    }
    drop(service);

    // The last agent's enrolment starts the study, under a service that soon dies.
    let of = |prefix: &[&str]| -> Vec<String> {
        let runtime = PLACES.iter().filter(|place| !BEGINNING.contains(place));
        let runtime = runtime.filter(|place| !place.contains("helper") && !place.contains("shard"));
        let runtime = runtime.filter(|place| is_free || **place != FREE);
        let own = runtime.filter(|place| prefix.iter().any(|prefix| place.starts_with(prefix)));
        // Failpoints that a process normally passes once are passed again after its death.
        let once = ["new one", "token is raised", "lead is taken", "about to be played"];
        own.map(|place| match once.iter().any(|part| place.contains(part)) {
            true => format!("{place}:1"),
            false => format!("{place}:{nth}"),
        })
        .rev()
        .collect()
    };
    let mut places = of(&["coordinator", "ledger"]);
    let mut service =
        Victim::new(std::mem::take(&mut places), || world.service("coordinator", port));
    for (agent, token) in tokens.iter().enumerate() {
        let until = Instant::now() + PATIENCE;
        while world.enrolment(agent, token, port).output().unwrap().status.code() != Some(0) {
            assert!(Instant::now() < until, "agent {agent} cannot enrol");
            service.look();
        }
    }
    let mut agents: Vec<Victim<'_>> = (0..n_agents)
        .map(|agent| {
            let mut places = of(&["agent"]);
            let n_places = places.len();
            places.rotate_left(agent * n_places / n_agents); // not all at the same failpoint at once
            let world = &world;
            Victim::new(places, move || world.agent(agent))
        })
        .collect();
    let until = Instant::now() + PATIENCE;
    loop {
        let mut all = service.look();
        for agent in &mut agents {
            all &= agent.look();
        }
        if all {
            break;
        }
        assert!(
            Instant::now() < until,
            "{:?} {:?}",
            service.places,
            agents.iter().map(|a| &a.places).collect::<Vec<_>>()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    // No process dies any more, so the study runs to its end.
    for agent in &mut agents {
        assert_eq!(agent.process.end(), Some(0), "{:#?}", agent.process.said);
        n_deaths += agent.n_deaths;
    }
    n_deaths += service.n_deaths;
    assert!(n_deaths >= 25, "{n_deaths}");
    // The last rounds may end after the agents.
    let until = Instant::now() + PATIENCE;
    while world.json(&["coordinator", "study", "show", "labs"])["state"] != "finished" {
        assert!(Instant::now() < until, "the study does not end");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(service);
    check(&world, is_free);
}

/// The oracle: each scheduled round was charged and released exactly once, with the planned event.
/// Every release accepted by an agent is one of the ledger's, byte for byte. No agent was charged
/// twice for a round, or sent two vectors for the same round.
fn check(world: &World, is_free: bool) {
    let rounds = N_ROUNDS;
    if is_free {
        check_participants(world);
    }
    let statement = world.ledger();
    assert_eq!(statement["releases"], rounds);
    let ledger = Connection::open(world.path("coordinator/labs.ledger.db")).unwrap();
    let mut entries =
        ledger.prepare("SELECT round, event, release FROM entries ORDER BY seq").unwrap();
    let entries: Vec<(u64, Vec<u8>, Vec<u8>)> = entries
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let found: Vec<u64> = entries.iter().map(|(round, _, _)| *round).collect();
    assert_eq!(found, (0..rounds).collect::<Vec<_>>());
    let events: BTreeSet<&Vec<u8>> = entries.iter().map(|(_, event, _)| event).collect();
    assert_eq!(events.len(), 1);
    let releases: BTreeSet<&Vec<u8>> = entries.iter().map(|(_, _, release)| release).collect();
    assert_eq!(releases.len(), entries.len(), "noise was used again");
    for agent in 0..world.n_agents {
        let memory = Connection::open(world.path(&format!("home{agent}/agent.db"))).unwrap();
        let count = |sql: &str| memory.query_row(sql, [], |row| row.get::<_, u64>(0)).unwrap();
        let charges = count("SELECT count(*) FROM charges");
        assert_eq!(charges, count("SELECT count(DISTINCT round) FROM charges"));
        // Every upload that may have been sent is charged. Uploads that were too late to be sent
        // need not be charged.
        let sent = "SELECT round FROM uploads WHERE state IN ('pending', 'acknowledged')";
        let rows = |sql: &str| count(&format!("SELECT count(*) FROM ({sql})"));
        let uncharged = format!("{sent} EXCEPT SELECT round FROM charges");
        assert_eq!(rows(&uncharged), 0);
        let unmade =
            "SELECT round FROM charges EXCEPT SELECT round FROM uploads WHERE state <> 'withheld'";
        assert_eq!(rows(unmade), 0);
        assert!(charges <= if is_free { 50 } else { rounds });
        // The agent's files contain the releases as they are in the ledger.
        let kept = bytes_below(&world.path(&format!("home{agent}")));
        let last = &entries.last().unwrap().2;
        assert!(kept.windows(last.len()).any(|window| window == last), "agent {agent}");
        let trials = world.trials(agent);
        assert!(trials.len() > 2 && trials.iter().all(|[_, _, value]| value.is_finite()));
    }
}

/// At a free pace, no agent takes part in more releases than it has paid for.
fn check_participants(world: &World) {
    let store = Connection::open(world.path("coordinator/coordinator.db")).unwrap();
    let mut found = store.prepare("SELECT slots FROM participants ORDER BY round").unwrap();
    let found = found.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    let mut n_in = [0; 3];
    for slots in found.map(Result::unwrap) {
        slots.chunks(4).for_each(|slot| n_in[usize::from(slot[0])] += 1);
    }
    assert!(n_in.iter().all(|n| (1..=50).contains(n)), "{n_in:?}");
}

#[test]
fn kill_everywhere() {
    killed_everywhere(&in_rounds(), 1);
}

#[test]
fn kill_everywhere_at_a_free_pace() {
    killed_everywhere(&at_a_free_pace(), 1);
}

/// Repeats each test 20 times, at different passages.
#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn kill_everywhere_twenty_times() {
    for time in 0..20 {
        killed_everywhere(&in_rounds(), 1 + time % 4);
        killed_everywhere(&at_a_free_pace(), 1 + time % 4);
    }
}
