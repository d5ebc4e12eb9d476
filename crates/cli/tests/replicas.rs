//! Coordinators that share a PostgreSQL database, as processes of the real program. They are paused
//! and killed, and so is their database.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

mod cluster;

use crate::federation_folder;

use std::os::unix::fs::PermissionsExt as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use cluster::Cluster;
use federation_folder::Setup;

/// A privacy budget that no test of this file exhausts.
const PRIVACY: &str = "epsilon = 1000.0\nnoise_multiplier = 1.0\nreleases = 10\n";

fn charged() -> Setup {
    Setup { privacy: PRIVACY, ..Setup::charged(3, 10, 1.0) }
}

/// Checks that all agents succeed, with the same trials as in one process.
fn plays_as_one_process_does(cluster: &Cluster) {
    let expected = cluster.world.in_process();
    for (agent, process) in cluster.start_agents().iter_mut().enumerate() {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
        assert_eq!(cluster.world.trials(agent), expected[agent], "agent {agent}");
    }
}

/// Kills the database during rounds, a few milliseconds after each of the given charges.
fn kill_the_database(setup: &Setup, times: [(u64, u64); 3]) {
    let mut cluster = Cluster::new(setup, 2);
    let mut agents = cluster.start_agents();
    for (n_entries, wait_ms) in times {
        cluster.wait_for_entries(n_entries);
        sleep(Duration::from_millis(wait_ms));
        cluster.server.kill_all();
        sleep(Duration::from_millis(wait_ms));
        cluster.server.restart();
    }
    cluster.check(&mut agents, setup.rounds);
}

/// With two coordinators behind a proxy, all trials equal those of one process.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn two_coordinators_do_what_one_process_does() {
    let setup = Setup::simulated(3, 4, 4.0);
    let cluster = Cluster::new(&setup, 2);
    plays_as_one_process_does(&cluster);
    cluster.wait_until_finished();
    assert!(cluster.inbox().iter().all(|(_, has_vector)| !has_vector), "INV-16");
}

/// With two coordinators and relayed messages, all trials equal those of one process.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn two_coordinators_relay_what_one_process_does() {
    let setup = Setup { algorithm: "fts", privacy: "", ..Setup::simulated(3, 4, 60.0) };
    let cluster = Cluster::new(&setup, 2);
    plays_as_one_process_does(&cluster);
}

/// With four coordinators that each sum their own uploads, all trials equal those of one process.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn four_shards_do_what_one_process_does() {
    let setup = Setup { sharded: true, ..Setup::simulated(5, 4, 4.0) };
    let cluster = Cluster::new(&setup, 4);
    plays_as_one_process_does(&cluster);
    cluster.wait_until_finished();
    assert!(cluster.inbox().is_empty(), "no vector was stored");
    assert!(cluster.n_shards_of_a_round() > 1, "one has done all");
}

/// Shards are killed and paused, including the leader: no round is released or charged twice, and
/// the study continues.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn shards_that_are_killed_and_paused() {
    let setup = Setup { sharded: true, ..charged() };
    let mut cluster = Cluster::new(&setup, 3);
    let mut agents = cluster.start_agents();
    for (round, wait_ms) in [(1, 0), (3, 300), (5, 800)] {
        cluster.wait_for_round(round);
        sleep(Duration::from_millis(wait_ms));
        let leader = cluster.leader();
        let follower = (leader + 1) % 3;
        cluster.signal(follower, Signal::STOP);
        cluster.signal(leader, Signal::KILL);
        cluster.restart(leader);
        sleep(Duration::from_millis(2500)); // longer than the lease
        cluster.signal(follower, Signal::CONT);
    }
    cluster.check(&mut agents, setup.rounds);
}

/// All coordinators die at each step of a round: when the round is shut, chosen, summed, closed and
/// charged. The round restarts, and is released once.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn shards_that_die_at_each_step() {
    let setup = Setup { sharded: true, ..charged() };
    let mut cluster = Cluster::new(&setup, 2);
    let mut agents = cluster.start_agents();
    cluster.wait_for_round(1);
    for place in [
        "coordinator: the round is shut for shards",
        "coordinator: shards know which vectors count",
        "coordinator: a shard has added up",
        "coordinator: a round is closed",
        "coordinator: a release is charged",
    ] {
        cluster.die_at(place);
    }
    cluster.check(&mut agents, setup.rounds);
}

/// The database is killed while shards receive vectors, and while they sum them.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn database_of_shards_killed() {
    let setup = Setup { sharded: true, ..charged() };
    kill_the_database(&setup, [(1, 0), (2, 150), (4, 900)]);
}

/// The leader is paused twice during a round, for longer than its lease. The other coordinator
/// takes over, and the paused one cannot commit when it resumes.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn two_coordinators_one_of_which_is_paused() {
    let setup = charged();
    let mut cluster = Cluster::new(&setup, 2);
    let mut agents = cluster.start_agents();
    for round in [2, 5] {
        cluster.wait_for_round(round);
        let paused = cluster.leader();
        cluster.signal(paused, Signal::STOP);
        let since = Instant::now();
        while !cluster.leads(1 - paused) {
            assert!(since.elapsed() < Duration::from_secs(30));
            sleep(Duration::from_millis(5));
        }
        eprintln!("taken over after {:?}", since.elapsed());
        cluster.wait_for_round(round + 2);
        assert_ne!(cluster.leader(), paused);
        cluster.signal(paused, Signal::CONT);
    }
    cluster.check(&mut agents, setup.rounds);
}

/// Coordinators are killed at arbitrary points, once both together, and restarted.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn two_coordinators_that_are_killed() {
    let setup = charged();
    let mut cluster = Cluster::new(&setup, 2);
    let mut agents = cluster.start_agents();
    for (round, wait_ms) in [(1, 0), (3, 300), (5, 600)] {
        cluster.wait_for_round(round);
        sleep(Duration::from_millis(wait_ms));
        let leader = cluster.leader();
        cluster.signal(leader, Signal::KILL);
        if round == 5 {
            cluster.signal(1 - leader, Signal::KILL);
            cluster.restart(1 - leader);
        }
        cluster.restart(leader);
    }
    cluster.check(&mut agents, setup.rounds);
}

/// The database is killed during rounds, and immediately after a charge.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn database_killed() {
    kill_the_database(&charged(), [(1, 0), (2, 150), (4, 500)]);
}

/// A replica with a different key would be a different coordinator, so it is refused. A database
/// that may lose acknowledged data is refused too.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn other_keys_and_unsafe_databases_are_refused() {
    let mut cluster = Cluster::new(&charged(), 1);
    let refused = |cluster: &Cluster, key: &str, code: i32| {
        let output = cluster.service(key).output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        String::from_utf8(output.stderr).unwrap()
    };
    let err = refused(&cluster, "no.key", 2);
    assert!(err.contains("key is missing"), "{err}");
    let other = "fedbo-secret-key-1 ".to_owned() + &"07".repeat(32) + "\n";
    let path = cluster.world.path("other.key");
    std::fs::write(&path, other).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let err = refused(&cluster, "other.key", 2);
    assert!(err.contains("by another key"), "{err}");
    let key = cluster.world.path("fedbo.key");
    assert_eq!(std::fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    for setting in ["fsync", "synchronous_commit"] {
        cluster.server.restart_with(&[(setting, "off")]);
        let err = refused(&cluster, "fedbo.key", 4);
        assert!(err.contains(&format!("{setting} is off")), "{err}");
    }
}
