//! A database left by the first version remains usable (INV-13), without the vectors that it kept
//! (INV-26).

use std::path::Path;

use fedbo_agent::{Ended, Home, Session, Step, status};
use fedbo_wire::digest;
use rusqlite::{Connection, params};

use crate::coordinator::TestCoordinator;
use crate::ways::note;
use crate::world::{CHARGED, Member, coordinator, members, take_turns};

/// The SQL statements of the first version, which must never change.
const LAYOUT: &str = include_str!("agent_v1.sql");

/// Number of rounds in the abandoned study.
const N_LEFT: u8 = 40;
/// Identifies the upload in the finished study.
const OVER: u8 = N_LEFT + 1;

/// Returns the unique bytes of an upload.
fn upload(mark: u8) -> Vec<u8> {
    digest("an upload", &[&[mark]]).0.repeat(6)
}

/// Replaces a home's database by one with the layout of the first version, with the same rows and
/// raw vectors.
fn downgrade(home: &Path, coordinator: &TestCoordinator) {
    let (path, now) = (home.join("agent.db"), home.join("now.db"));
    std::fs::rename(&path, &now).unwrap();
    let old = Connection::open(&path).unwrap();
    old.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA secure_delete = OFF;
         PRAGMA application_id = 0x66656461; PRAGMA user_version = 1; {LAYOUT}
         ATTACH '{}' AS now;
         INSERT INTO memberships SELECT id, study, url, authority, coordinator, slot, agent, config, digest, signature, key, seed, enrolled_at_ms,
         contact_at_ms, finished FROM now.memberships;
         INSERT INTO charges SELECT * FROM now.charges;
         INSERT INTO cap SELECT * FROM now.cap;
         INSERT INTO handouts SELECT * FROM now.handouts;",
        now.display()
    ))
    .unwrap();
    // Like the first version, first store the upload as pending, and end it later.
    let make = |membership: i64, round: u64, bytes: &[u8]| {
        let sql = "INSERT INTO uploads VALUES (?, ?, ?, 'pending', 0)";
        old.execute(sql, params![membership, round, bytes]).unwrap();
    };
    let end = |membership: i64, round: u64, state: &str| {
        let sql = "UPDATE uploads SET state = ? WHERE membership = ? AND round = ?";
        old.execute(sql, params![state, membership, round]).unwrap();
    };
    for ((_, round), bodies) in coordinator.arrived.range((0, 0)..(1, 0)) {
        make(1, *round, &bodies[0]);
        end(1, *round, "acknowledged");
    }
    let head = format!("0:{}", "0".repeat(64));
    let sql = "INSERT INTO handouts VALUES (2, ?, 0, x'01', ?, 0)";
    old.execute(sql, params![N_LEFT, head]).unwrap();
    for (round, state) in (0..N_LEFT).zip(["acknowledged", "missed", "pending"].iter().cycle()) {
        make(2, round.into(), &upload(round));
        end(2, round.into(), state);
    }
    make(2, N_LEFT.into(), &upload(N_LEFT));
    make(3, 0, &upload(OVER));
    end(3, 0, "acknowledged");
    let over = "UPDATE memberships SET finished = 1 WHERE id = 3; DETACH now;";
    old.execute_batch(over).unwrap();
    drop(old);
    std::fs::remove_file(&now).unwrap();
}

#[test]
fn a_memory_of_version_1_goes_on_without_the_vectors_that_it_kept() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("old", "dp-fts-de", CHARGED);
    let members = members(folder.path(), &coordinator);
    let member = &members[0];
    // Two other studies of the same home no longer run. One is abandoned, and one is finished.
    for name in ["left", "over"] {
        Member::enrol(&member.home, &crate::world::coordinator(name, "fts", ""), 0);
    }
    let mut sessions: Vec<_> = members.iter().map(|m| m.session().unwrap()).collect();
    let arrived = |round| coordinator.borrow().arrived.contains_key(&(0, round));
    while !(arrived(1) && member.newest_round() == 1) {
        for session in &mut sessions {
            assert!(!matches!(note(session.advance().unwrap(), 3), Step::Ended(_)));
        }
    }
    drop(sessions);
    let before = status(&member.home).unwrap();
    let vector = |round| coordinator.borrow().arrived[&(0, round)][0].clone();
    downgrade(&member.home, &coordinator.borrow());
    coordinator.borrow_mut().counters.clear(); // unknown to the first version
    let kept = [vector(1), upload(N_LEFT)];
    let mut forgotten = vec![vector(0), upload(OVER)];
    forgotten.extend((0..N_LEFT).map(upload));
    assert!(kept.iter().chain(&forgotten).all(|v| member.holds(v)));

    // Reading does not upgrade the database, but the error names the command that does.
    let error = status(&member.home).unwrap_err().to_string();
    assert!(error.contains("has version 1"), "{error}");
    assert!(error.contains("`fedbo agent run` brings"), "{error}");
    drop(Home::open(&member.home).unwrap());
    for (at, vector) in forgotten.iter().enumerate() {
        assert!(!member.holds(vector), "vector {at}");
    }
    assert!(kept.iter().all(|vector| member.holds(vector)));
    let after = status(&member.home).unwrap();
    let of = |status: &fedbo_agent::HomeStatus| {
        let study = status.memberships.iter().find(|m| m.study == "old");
        let privacy = status.privacy.clone().unwrap();
        (study.unwrap().clone(), privacy.cap, privacy.spent.unwrap())
    };
    assert!(of(&after) == of(&before));

    // Earlier uploads are recognized by their hashes, and spending continues from its earlier
    // value.
    let mut sessions: Vec<Session<'_>> = members.iter().map(|m| m.session().unwrap()).collect();
    assert_eq!(take_turns(&mut sessions), [Ended::Complete; 3]);
    drop(sessions);
    let spent = of(&status(&member.home).unwrap()).2;
    assert_eq!(spent.n_releases, 3);
    let coordinator = coordinator.borrow();
    assert!(coordinator.arrived.values().all(|bodies| bodies.len() == 1));

    // A database of a newer version is left unchanged.
    let memory = Connection::open(member.home.join("agent.db")).unwrap();
    memory.pragma_update(None, "user_version", 5).unwrap();
    drop(memory);
    let error = Home::open(&member.home).unwrap_err().to_string();
    assert!(error.contains("use the fedbo that wrote it"), "{error}");
}
