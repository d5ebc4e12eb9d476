//! Federations with vectors summed by two servers: coordinator, helper and agents as processes of
//! the real program.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::federation_folder::{PATIENCE, Process, Setup, World};
use crate::network::kill_everywhere::Victim;

/// Starts both servers, and returns the coordinator's port.
fn both_servers(world: &World) -> (Process, Process, u16) {
    let (service, port) = world.serve(0);
    let joined = world.joining(port).output().unwrap();
    assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
    let mut helper = Process::start(&mut world.helper());
    helper.wait_for("://");
    (service, helper, port)
}

/// With simulated noise, equal seeds give equal results: all trials equal those of `fedbo run`,
/// where one process acts as both servers.
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

/// Both ledgers are valid, charge the same amount, and end with different heads. The agents have
/// charged themselves the same amount.
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

/// The party that issues tokens cannot substitute its own helper for the other party's. An agent
/// that refuses has not claimed its slot: the token remains valid, even for a different home, and
/// the study does not start.
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
        said.contains("do not take part: somebody has replaced the helper by another server"),
        "{said}"
    );
    let (code, said) = run(&["--helper", &other.trim()[..40]]);
    assert_eq!(code, Some(2), "{said}");
    let enrolled = world.json(&["coordinator", "agents", "ls", "--data", "coordinator", "labs"]);
    let states: Vec<&str> =
        enrolled.as_array().unwrap().iter().map(|agent| agent["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["waiting", "waiting"], "{enrolled}");
    std::fs::remove_dir_all(world.path("home0")).unwrap();
    // The other helper cannot join either, since the study names a different one.
    let mut joining = world.joining(port);
    let refused = joining.args(["--data", "other"]).output().unwrap();
    assert!(!refused.status.success());
    world.enrol(0, &tokens[0], port);
}

/// Returns the number of releases charged at the leader, at the helper, and at each agent.
fn releases(world: &World) -> Vec<u64> {
    let of_servers = ["coordinator/labs.ledger.db", "helper/labs.ledger.db"]
        .map(|path| world.ledger_at(path)["releases"].as_u64().unwrap());
    let mut all = of_servers.to_vec();
    for agent in 0..2 {
        let status = world.json(&["agent", "status", "--home", &format!("home{agent}")]);
        all.push(status["privacy"]["releases"].as_u64().unwrap());
    }
    all
}

/// The helper stops in the middle of a round and returns. Rounds wait for the helper, no release is
/// lost, and no agent pays for a round without a release.
#[test]
fn rounds_wait_while_the_helper_is_away_and_nothing_is_lost() {
    let world = World::new(&Setup {
        secure_sum: true,
        privacy: "epsilon = 1000.0\nnoise_multiplier = 1.0\nreleases = 7\n",
        ..Setup::charged(2, 7, 2.0)
    });
    let tokens = world.create();
    let (mut service, helper, port) = both_servers(&world);
    let mut agents = world.start_agents(&tokens, port);
    agents[0].wait_for("round 2");
    helper.signal(rustix::process::Signal::KILL);
    drop(helper);
    service.wait_for("the helper");
    // This takes as long as four rounds. Without the wait, round 4 would have begun.
    std::thread::sleep(Duration::from_secs(8));
    for agent in &mut agents {
        let said = agent.all();
        assert!(!said.contains("round 4"), "{said}");
        assert!(!agent.has_ended(), "{said}");
    }
    let mut helper = Process::start(&mut world.helper());
    helper.wait_for("://");
    for process in &mut agents {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
    }
    service.signal(rustix::process::Signal::TERM);
    service.end();
    drop(helper);
    let said = [service.all(), agents[0].all(), agents[1].all()].join("\n");
    assert_eq!(releases(&world), [7; 4], "{said}");
    for agent in 0..2 {
        assert_eq!(world.trials(agent).len(), 9);
    }
}

/// Until the helper has joined the study, the study does not start, and nobody pays. Afterwards,
/// everything works as usual.
#[test]
fn a_study_waits_for_its_helper_and_nobody_pays() {
    let world = World::new(&Setup { secure_sum: true, ..Setup::charged(2, 4, 1.0) });
    let tokens = world.create();
    let (mut service, port) = world.serve(0);
    // The helper runs, but has not joined the study.
    let mut helper = Process::start(&mut world.helper());
    helper.wait_for("://");
    let mut agents = world.start_agents(&tokens, port);
    let line = service.wait_for("the round waits for the helper");
    assert!(line.contains("fedbo helper join"), "{line}");
    for agent in &mut agents {
        agent.wait_for("round 0 waits for the study's helper: nothing is charged until it answers");
    }
    std::thread::sleep(Duration::from_secs(4));
    for agent in 0..2 {
        let status = world.json(&["agent", "status", "--home", &format!("home{agent}")]);
        assert_eq!(status["privacy"]["releases"], 0, "{status}");
    }
    assert_eq!(world.ledger()["releases"], 0);
    let joined = world.joining(port).output().unwrap();
    assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
    for process in &mut agents {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
    }
    let spent = releases(&world);
    assert!(spent[0] >= 4 && spent.iter().all(|n| *n == spent[0]), "{spent:?}");
}

/// A coordinator that restarts in the middle of a round keeps its state about the helper, and does
/// not accuse it of misconduct.
#[test]
fn a_coordinator_that_is_started_again_accuses_nobody() {
    let world = World::new(&Setup { secure_sum: true, ..Setup::charged(2, 4, 3.0) });
    let tokens = world.create();
    let (mut service, _helper, port) = both_servers(&world);
    let mut agents = world.start_agents(&tokens, port);
    service.wait_for("round=2");
    std::thread::sleep(Duration::from_secs(1));
    service.signal(rustix::process::Signal::KILL);
    service.end();
    let (mut again, _) = world.serve(port);
    for process in &mut agents {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
    }
    again.signal(rustix::process::Signal::TERM);
    again.end();
    let said = again.all();
    for accusation in ["rolled back", "cannot get the helper's share"] {
        assert!(!said.contains(accusation), "{said}");
    }
    let spent = releases(&world);
    assert!(spent.iter().all(|n| *n == spent[0]), "{spent:?}");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &to),
            false => drop(std::fs::copy(&path, &to).unwrap()),
        }
    }
    std::fs::set_permissions(to, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
}

/// The helper's operator restores an older folder, including the keys of rounds. The helper serves
/// nothing and reports the remedy, and nobody pays for a second share. With the latest folder,
/// everything continues.
#[test]
fn a_helper_from_a_backup_serves_nothing() {
    let world = World::new(&Setup {
        secure_sum: true,
        privacy: "epsilon = 1000.0\nnoise_multiplier = 1.0\nreleases = 8\n",
        ..Setup::charged(2, 8, 1.0)
    });
    let tokens = world.create();
    let (mut service, helper, port) = both_servers(&world);
    let mut agents = world.start_agents(&tokens, port);
    service.wait_for("round=2");
    copy(&world.path("helper"), &world.path("older"));
    service.wait_for("round=4");
    helper.signal(rustix::process::Signal::KILL);
    drop(helper);
    std::fs::rename(world.path("helper"), world.path("last")).unwrap();
    copy(&world.path("older"), &world.path("helper"));
    let mut restored = Process::start(&mut world.helper());
    let refused = restored.wait_for("was rolled back to an older copy");
    assert!(refused.contains("restore the latest state of the folder"), "{refused}");
    assert!(service.wait_for("rolled back").contains("older copy"));
    std::thread::sleep(Duration::from_secs(3));
    restored.signal(rustix::process::Signal::KILL);
    drop(restored);
    let n = world.ledger_at("helper/labs.ledger.db")["releases"].as_u64().unwrap();
    assert!(n <= 3, "the older copy has made {n} shares");
    std::fs::remove_dir_all(world.path("helper")).unwrap();
    std::fs::rename(world.path("last"), world.path("helper")).unwrap();
    let mut helper = Process::start(&mut world.helper());
    helper.wait_for("://");
    for process in &mut agents {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
    }
    // The servers agree. An agent may miss rounds, because its retries back off while the helper is
    // unreachable. An agent does not pay for missed rounds.
    let made = releases(&world);
    assert_eq!(made[..2], [8; 2], "{}", service.all());
    assert!(made[2..].iter().all(|n| (1..=8).contains(n)), "{made:?}");
    // A ledger truncated at its end, as in a copy that is a few rounds older, is detected by the
    // helper's memory beside it.
    for suffix in ["", "-wal", "-shm"] {
        let at = |folder: &str| world.path(folder).join(format!("labs.ledger.db{suffix}"));
        let (file, older) = (at("helper"), at("older"));
        let _ = std::fs::remove_file(&file);
        if older.exists() {
            std::fs::copy(&older, &file).unwrap();
        }
    }
    drop(helper);
    let verified = world.output(&["privacy", "verify", "helper/labs.ledger.db"]);
    let said = [verified.stdout, verified.stderr].map(|said| String::from_utf8(said).unwrap());
    let said = said.concat();
    assert_eq!(verified.status.code(), Some(2), "{said}");
    assert!(said.contains("rolled back to an older state"), "{said}");
}

/// An older copy of the coordinator's folder is restored while agents have unsent shares. The
/// agents refuse the coordinator and erase the shares, and the helper opens no round for it. With
/// the latest folder, the study finishes, and each agent misses at most that round.
#[test]
fn a_coordinator_from_a_backup_is_refused_and_the_newest_folder_works() {
    let world = World::new(&Setup {
        secure_sum: true,
        privacy: "epsilon = 1000.0\nnoise_multiplier = 1.0\nreleases = 6\n",
        ..Setup::charged(2, 6, 3.0)
    });
    let tokens = world.create();
    let (mut service, mut helper, port) = both_servers(&world);
    let mut agents = world.start_agents(&tokens, port);
    service.wait_for("round=1");
    copy(&world.path("coordinator"), &world.path("older"));
    service.wait_for("round=3");
    std::thread::sleep(Duration::from_secs(1));
    service.signal(rustix::process::Signal::KILL);
    service.end();
    let (mut restored, _) = world.serve_from("older", port);
    for agent in &mut agents {
        assert_eq!(agent.end(), Some(6), "{:#?}", agent.said);
    }
    let line = restored.wait_for("was rolled back to an older copy");
    assert!(line.contains("the coordinator's folder"), "{line}");
    std::thread::sleep(Duration::from_secs(4));
    restored.signal(rustix::process::Signal::KILL);
    restored.end();
    assert!(!restored.all().contains("round=2"), "{}", restored.all());
    let (_service, _) = world.serve(port);
    let mut again = [0, 1].map(|agent| Process::start(&mut world.agent(agent)));
    for (agent, process) in again.iter_mut().enumerate() {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
        let status = world.json(&["agent", "status", "--home", &format!("home{agent}")]);
        assert!(status["studies"][0]["uploads_missed"].as_u64().unwrap() <= 1, "{status}");
    }
    let made = releases(&world);
    assert_eq!(made[..2], [6; 2], "{}", helper.all());
}

/// Number of rounds, which is more than needed to die everywhere.
const N_ROUNDS: u64 = 45;

/// Both servers die at each of their failpoints. No round has two shares of one server, both charge
/// each round once, and every release accepted by an agent comes from both.
#[test]
fn kill_everywhere_over_both_servers() {
    let world = World::new(&Setup {
        secure_sum: true,
        privacy: "epsilon = 1000.0\nnoise_multiplier = 1.0\nreleases = 45\n",
        ..Setup::charged(2, N_ROUNDS, 2.0)
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
            "helper: the key of a round is erased",
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
    assert_eq!((service.n_deaths, helper.n_deaths), (10, 9));
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
    assert_eq!(leader, helper, "both servers have charged the same rounds");
    assert_eq!(leader.len() as u64, N_ROUNDS, "no release was lost");
    for agent in 0..2 {
        let memory = Connection::open(world.path(&format!("home{agent}/agent.db"))).unwrap();
        let count = |sql: &str| memory.query_row(sql, [], |row| row.get::<_, u64>(0)).unwrap();
        let charges = count("SELECT count(*) FROM charges");
        assert_eq!(charges, count("SELECT count(DISTINCT round) FROM charges"));
        // An agent that is absent while a server restarts misses the round.
        let trials = world.trials(agent);
        assert!(trials.len() > 20 && trials.iter().all(|[_, _, value]| value.is_finite()));
    }
}
