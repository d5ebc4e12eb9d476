//! Disks restored from older copies, and cloned machines.

use std::path::Path;

use rusqlite::Connection;

use crate::federation_folder::{Process, Setup, World};

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// A backup is taken in the middle of a study and restored later. The agents have seen rounds that
/// the backup lacks, so they refuse the restored coordinator with a message and send nothing more
/// (INV-13).
#[test]
fn snapshot_restore() {
    let world = World::new(&Setup {
        privacy: "epsilon = 60.0\nreleases = 12\n",
        ..Setup::charged(2, 12, 0.7)
    });
    let tokens = world.create();
    let (mut service, port) = world.serve(0);
    let mut agents = world.start_agents(&tokens, port);
    service.wait_for("round=2");
    world.done(&["storage", "backup", "coordinator", "backup", "--with-key"]);
    world.done(&["storage", "verify", "backup"]);
    service.wait_for("round=5");
    service.signal(rustix::process::Signal::KILL);
    service.end();
    // The whole folder is rolled back. The coordinator cannot detect this, but its agents can.
    let (mut restored, _) = world.serve_from("backup", port);
    for process in &mut agents {
        assert_eq!(process.end(), Some(6), "{:#?}", process.said);
        let said = process.said.join("\n");
        assert!(said.contains("not to be trusted"), "{said}");
    }
    restored.signal(rustix::process::Signal::KILL);
    restored.end();
    // The same happens after the agents restart.
    let (_restored, _) = world.serve_from("backup", port);
    let mut again = Process::start(&mut world.agent(0));
    assert_eq!(again.end(), Some(6), "{:#?}", again.said);
    // Only the ledger is rolled back. The coordinator's own store detects this, and nothing is
    // released.
    drop(_restored);
    for name in ["labs.ledger.db", "labs.ledger.db-wal", "labs.ledger.db-shm"] {
        let _ = std::fs::remove_file(world.path("coordinator").join(name));
    }
    world.done(&["storage", "backup", "backup/labs.ledger.db", "coordinator/labs.ledger.db"]);
    let verified = world.output(&["storage", "verify", "coordinator"]);
    let out = String::from_utf8_lossy(&verified.stdout);
    assert_eq!(verified.status.code(), Some(2), "{out}");
    assert!(out.contains("rolled back") || out.contains("another history"), "{out}");
    let (mut service, _) = world.serve(port);
    service.wait_for("was rolled back or replaced");
    drop(service);
    // If the store is lost but a ledger exists, no new coordinator is created in its place.
    for name in ["coordinator.db", "coordinator.db-wal", "coordinator.db-shm"] {
        let _ = std::fs::remove_file(world.path("coordinator").join(name));
    }
    let refused = world.service("coordinator", 0).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let err = String::from_utf8_lossy(&refused.stderr);
    assert!(err.contains("store is missing") && err.contains("labs.ledger.db"), "{err}");
}

/// A ledger that lacks its last entries is still a valid chain. The coordinator's store beside it,
/// or an agent's head, reveals the truncation.
#[test]
fn a_ledger_that_was_cut_at_its_end_is_named() {
    let world = World::new(&Setup::charged(2, 4, 0.7));
    let tokens = world.create();
    let (mut service, port) = world.serve(0);
    for process in &mut world.start_agents(&tokens, port) {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
    }
    service.signal(rustix::process::Signal::TERM);
    service.end();
    let ledger = world.path("coordinator/labs.ledger.db");
    let verify = |arguments: &[&str]| {
        let output = world.output(&[&["privacy", "verify"], arguments].concat());
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap());
        (output.status.code(), said.concat())
    };
    let whole = "coordinator/labs.ledger.db";
    let (code, said) = verify(&[whole]);
    assert!(code == Some(0) && said.contains("is sound: "), "{said}");
    let status = world.json(&["agent", "status", "--home", "home0"]);
    let head = status["studies"][0]["ledger_head"].as_str().unwrap();
    assert_eq!(verify(&[whole, "--head", head]).0, Some(0), "{head}");
    // Remove the last entry, as in a backup of the ledger that is one round older.
    {
        let cut = Connection::open(&ledger).unwrap();
        let triggers: Vec<String> = {
            let sql = "SELECT name FROM sqlite_schema WHERE type = 'trigger'";
            let mut found = cut.prepare(sql).unwrap();
            let names = found.query_map([], |row| row.get(0)).unwrap();
            names.map(Result::unwrap).collect()
        };
        let layout: Vec<String> = triggers
            .iter()
            .map(|name| {
                let sql = "SELECT sql FROM sqlite_schema WHERE name = ?";
                let text = cut.query_row(sql, [name], |row| row.get(0)).unwrap();
                cut.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
                text
            })
            .collect();
        let sql = "DELETE FROM entries WHERE seq = (SELECT max(seq) FROM entries)";
        assert_eq!(cut.execute(sql, []).unwrap(), 1);
        layout.iter().for_each(|sql| cut.execute_batch(sql).unwrap());
    }
    let (code, said) = verify(&[whole]);
    assert!(code == Some(2) && said.contains("rolled back to an older state"), "{said}");
    // Without the store beside it, the ledger is valid as far as it goes. Compared with the agent's
    // head, it is invalid.
    std::fs::copy(&ledger, world.path("alone.ledger.db")).unwrap();
    let (code, said) = verify(&["alone.ledger.db"]);
    assert!(code == Some(0) && said.contains("is sound as far as it goes: "), "{said}");
    let (code, said) = verify(&["alone.ledger.db", "--head", head]);
    assert!(code == Some(2) && said.contains("rolled back"), "{said}");
}

/// Two machines from one snapshot each release the same round with their own noise, and agents
/// follow one of them.
#[test]
fn fork_and_snapshot_reseed() {
    let world = World::new(&Setup {
        privacy: "epsilon = 60.0\nreleases = 3\n",
        ..Setup::charged(2, 3, 0.4)
    });
    world.create();
    world.done(&["coordinator", "study", "resume", "labs"]);
    copy(&world.path("coordinator"), &world.path("twin"));
    let mut releases = Vec::new();
    for folder in ["coordinator", "twin"] {
        let (mut service, _) = world.serve_from(folder, 0);
        service.wait_for("round=4");
        drop(service);
        let ledger = Connection::open(world.path(folder).join("labs.ledger.db")).unwrap();
        let mut statement = ledger.prepare("SELECT release FROM entries ORDER BY seq").unwrap();
        let rows = statement.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
        releases.push(rows.map(Result::unwrap).collect::<Vec<_>>());
    }
    let [one, other] = releases.try_into().unwrap();
    assert_eq!((one.len(), other.len()), (3, 3));
    // No agent took part, so the releases are pure noise and do not have eight bytes in common.
    for (one, other) in one.iter().zip(&other) {
        let numbers =
            |bytes: &[u8]| bytes.rchunks_exact(8).take(90).map(<[u8]>::to_vec).collect::<Vec<_>>();
        let n_equal = numbers(one).iter().zip(numbers(other)).filter(|(a, b)| *a == b).count();
        assert!(n_equal <= 2, "{n_equal} of 90 numbers are equal");
    }
    assert_ne!(one[0], one[1]);
}
