//! Federations whose vectors two servers sum: coordinator, helper and agents as processes of the real program.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::federation_folder::{PATIENCE, Process, Setup, World};
use crate::kill_everywhere::Victim;

/// Starts both servers; the port of the coordinator.
fn both_servers(world: &World) -> (Process, Process, u16) {
    let (service, port) = world.serve(0);
    let joined = world.joining(port).output().unwrap();
    assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
    let mut helper = Process::start(&mut world.helper());
    helper.wait_for("://");
    (service, helper, port)
}

/// Simulated noise, so that equal seeds give equal results: every trial is that of `fedbo run`, in which one process plays both servers.
#[test]
fn two_servers_sum_what_one_process_does() {
    let setup = Setup { secure_sum: true, ..Setup::simulated(4, 4, 2.0) };
    let world = World::new(&setup);
    let expected = world.in_process();
    let tokens = world.create();
    let (mut service, mut helper, port) = both_servers(&world);
    for (agent, process) in world.start_agents(&tokens, port).iter_mut().enumerate() {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
        assert_eq!(world.trials(agent), expected[agent], "agent {agent}: {}", service.all());
    }
    for server in [&mut service, &mut helper] {
        server.signal(rustix::process::Signal::TERM);
        assert_eq!(server.end(), Some(0), "{:#?}", server.said);
    }
}

/// Both ledgers are sound, charge the same, and end in different heads; agents have charged themselves as much.
#[test]
fn each_server_charges_its_own_ledger_and_agents_agree_with_both() {
    let world = World::new(&Setup { secure_sum: true, ..Setup::charged(3, 4, 1.5) });
    let tokens = world.create();
    let (_service, _helper, port) = both_servers(&world);
    for process in &mut world.start_agents(&tokens, port) {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
    }
    let statements = [world.ledger(), world.ledger_at("helper/labs.ledger.db")];
    for key in ["epsilon", "releases"] {
        assert_eq!(statements[0][key], statements[1][key], "{statements:?}");
    }
    assert_ne!(statements[0]["head"], statements[1]["head"]);
    assert!(statements[0]["releases"].as_u64().unwrap() >= 4);
    for agent in 0..3 {
        let status = world.json(&["agent", "status", "--home", &format!("home{agent}")]);
        assert_eq!(status["privacy"]["releases"], statements[0]["releases"]);
        assert_eq!(status["studies"][0]["uploads_missed"], 0);
        let rho = status["studies"][0]["alignment"]["rho"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&rho), "{status}");
    }
}

/// Whoever hands out tokens cannot put a helper of its own in the place of another party's.
#[test]
fn an_agent_joins_with_the_card_that_the_other_party_gave_and_with_no_other() {
    let world = World::new(&Setup { secure_sum: true, ..Setup::charged(2, 3, 1.0) });
    let tokens = world.create();
    let (_service, port) = world.serve(0);
    let without: Vec<String> = {
        let command = world.enrolment(0, &tokens[0], port);
        let words = command.get_args().map(|word| word.to_str().unwrap().to_owned());
        words.take_while(|word| word != "--helper").collect()
    };
    let run = |more: &[&str]| {
        let words: Vec<&str> =
            without.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let output = world.output(&words);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = run(&[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--helper") && said.contains("fbs1_"), "{said}");
    let other = world.done(&["helper", "card", "--data", "other"]);
    let (code, said) = run(&["--helper", other.trim()]);
    assert_eq!(code, Some(6), "{said}");
    assert!(
        said.contains("do not take part: somebody has put another server in its place"),
        "{said}"
    );
    let (code, said) = run(&["--helper", &other.trim()[..40]]);
    assert_eq!(code, Some(2), "{said}");
    // The other helper cannot join either: the study is not for it.
    let mut joining = world.joining(port);
    let refused = joining.args(["--data", "other"]).output().unwrap();
    assert!(!refused.status.success());
    world.enrol(0, &tokens[0], port);
}

/// A helper that is away costs releases and no trial; it comes back, and the next rounds have releases.
#[test]
fn agents_go_on_while_the_helper_is_away() {
    let world = World::new(&Setup {
        secure_sum: true,
        privacy: "epsilon = 1000.0\nnoise_multiplier = 1.0\nreleases = 10\n",
        ..Setup::charged(2, 10, 1.0)
    });
    let tokens = world.create();
    let (mut service, helper, port) = both_servers(&world);
    let mut agents = world.start_agents(&tokens, port);
    agents[0].wait_for("round 3");
    helper.signal(rustix::process::Signal::KILL);
    drop(helper);
    agents[0].wait_for("round 6");
    let mut helper = Process::start(&mut world.helper());
    helper.wait_for("://");
    for process in &mut agents {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
    }
    service.signal(rustix::process::Signal::TERM);
    service.end();
    drop(helper);
    let [leader, helper] = ["coordinator/labs.ledger.db", "helper/labs.ledger.db"].map(|path| {
        let found = world.ledger_at(path);
        found["releases"].as_u64().unwrap()
    });
    // Some rounds of ten were lost, and those before and after were not.
    assert!((4..10).contains(&leader), "{leader}: {}", service.all());
    assert!(helper.abs_diff(leader) <= 1, "{leader} {helper}");
    for agent in 0..2 {
        assert_eq!(world.trials(agent).len(), 12);
    }
}

/// Longer than it takes to die everywhere.
const N_ROUNDS: u64 = 45;

/// Both servers die at each of their places: no round has two shares of one server, both charge each of theirs once, and whatever an agent took
/// for a release is of both.
#[test]
fn kill_everywhere_over_both_servers() {
    let world = World::new(&Setup {
        secure_sum: true,
        privacy: "epsilon = 1000.0\nnoise_multiplier = 1.0\nreleases = 45\n",
        ..Setup::charged(2, N_ROUNDS, 0.8)
    });
    let tokens = world.create();
    let (service, helper, port) = both_servers(&world);
    for (agent, token) in tokens.iter().enumerate().take(1) {
        world.enrol(agent, token, port);
    }
    drop((service, helper));
    let named = |places: &[&str]| -> Vec<String> {
        places.iter().rev().map(|place| format!("{place}:1")).collect()
    };
    let mut service = Victim::new(
        named(&[
            "coordinator: the lead is taken",
            "coordinator: the helper has closed the round",
            "coordinator: a round is closed",
            "coordinator: the helper's hash is kept",
            "ledger: a charge is committed",
            "coordinator: a release is charged",
            "coordinator: the head is noted",
            "coordinator: the helper has given its share",
            "coordinator: a round has begun and nobody knows",
            "coordinator: a round is published",
        ]),
        || world.service("coordinator", port),
    );
    let mut helper = Victim::new(
        named(&[
            "helper: a round has begun",
            "helper: a share is made",
            "helper: a share is kept",
            "ledger: a charge is written and not committed",
            "ledger: a charge is committed",
            "helper: a share is charged",
            "helper: a share is noted as charged",
            "helper: the leader's share is noted",
        ]),
        || world.helper(),
    );
    let until = Instant::now() + PATIENCE;
    while world.enrolment(1, &tokens[1], port).output().unwrap().status.code() != Some(0) {
        assert!(Instant::now() < until, "the last agent cannot enrol");
        service.look();
    }
    let mut agents: Vec<Process> =
        (0..2).map(|agent| Process::start(&mut world.agent(agent))).collect();
    loop {
        let (one, other) = (service.look(), helper.look());
        if one && other {
            break;
        }
        let left = (&service.places, &helper.places);
        assert!(Instant::now() < until, "{left:?}; {}", service.process.all());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!((service.n_deaths, helper.n_deaths), (10, 8));
    for process in &mut agents {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
    }
    drop((service, helper));
    let rounds = |path: &str| -> Vec<u64> {
        world.ledger_at(path);
        let ledger = Connection::open(world.path(path)).unwrap();
        let mut entries =
            ledger.prepare("SELECT round, release FROM entries ORDER BY seq").unwrap();
        let entries = entries.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let entries: Vec<(u64, Vec<u8>)> = entries.map(Result::unwrap).collect();
        let shares: BTreeSet<&Vec<u8>> = entries.iter().map(|(_, share)| share).collect();
        assert_eq!(shares.len(), entries.len(), "noise was used again");
        entries.iter().map(|(round, _)| *round).collect()
    };
    let leader = rounds("coordinator/labs.ledger.db");
    let helper = rounds("helper/labs.ledger.db");
    for found in [&leader, &helper] {
        assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{found:?}");
    }
    let both = leader.iter().filter(|round| helper.contains(round)).count();
    assert!(both >= 10, "{leader:?} {helper:?}");
    for agent in 0..2 {
        let memory = Connection::open(world.path(&format!("home{agent}/agent.db"))).unwrap();
        let count = |sql: &str| memory.query_row(sql, [], |row| row.get::<_, u64>(0)).unwrap();
        let charges = count("SELECT count(*) FROM charges");
        assert_eq!(charges, count("SELECT count(DISTINCT round) FROM charges"));
        // Rounds that pass while a server is started again are over for whoever was away.
        let trials = world.trials(agent);
        assert!(trials.len() > 20 && trials.iter().all(|[_, _, value]| value.is_finite()));
    }
}
