//! A peer's memory keeps each event once and in order, even if the process dies.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

use std::collections::BTreeSet;
use std::path::Path;

use fedbo_peer::{Event, Logged, Member, Memory, OtherHome, Taken};
use fedbo_space::Direction;
use fedbo_wire::{Digest, PeerReport, PublicKey, SharedObservation, SigningKey};

fn member() -> Member {
    Member {
        federation: "labs".to_owned(),
        digest: Digest([1; 32]),
        names: ["a", "b", "c"].map(str::to_owned).to_vec(),
        slot: 0,
        neighbours: BTreeSet::from([1, 2]),
        dim: 1,
        rounds: 9,
        n_initial: 2,
        direction: Direction::Maximize,
    }
}

const KEY: PublicKey = PublicKey([7; 32]);

fn open(home: &Path) -> Memory {
    Memory::open(home, &member(), KEY).unwrap()
}

fn report(sender: u32, round: u64, value: f64) -> Vec<u8> {
    let observation = SharedObservation { unit: vec![0.5], value: Some(value) };
    let report = PeerReport {
        federation: member().digest,
        sender,
        round,
        is_last: false,
        observations: vec![observation],
    };
    report.to_bytes(1, &SigningKey::from_seed([3; 32]))
}

fn events(memory: &Memory) -> Vec<Logged> {
    let mut all: Vec<Logged> = Vec::new();
    loop {
        let next = memory.events_after(all.last().map_or(0, |last| last.seq)).unwrap();
        if next.is_empty() {
            return all;
        }
        all.extend(next);
    }
}

/// Results and reports from all senders are read back bit for bit and in log order, even if the
/// file is reopened repeatedly.
#[test]
fn events_are_read_back_as_they_happened() {
    let home = tempfile::tempdir().unwrap();
    let values = [Some(0.1 + 0.2), None, Some(-0.0), Some(f64::MIN_POSITIVE / 2.0)];
    let mut expected = Vec::new();
    for (trial, value) in (0_u32..).zip(&values) {
        let memory = open(home.path());
        memory.note_evaluated(trial.into(), *value).unwrap();
        expected.push(Event::Evaluated { trial: trial.into(), value: *value });
        let bytes = report(1 + trial % 2, u64::from(trial / 2), 1.0);
        let taken = memory.take(1 + trial % 2, u64::from(trial / 2), &bytes);
        assert_eq!(taken.unwrap(), Taken::New);
        expected.push(Event::Report(bytes));
        memory.note_tick().unwrap();
        expected.push(Event::Tick);
    }
    let memory = open(home.path());
    let logged = events(&memory);
    let found: Vec<Event> = logged.iter().map(|logged| logged.event.clone()).collect();
    assert_eq!(found, expected);
    let bits = |events: &[Event]| -> Vec<Option<u64>> {
        let bits = events.iter().map(|event| match event {
            Event::Evaluated { value, .. } => value.map(f64::to_bits),
            _ => None,
        });
        bits.collect()
    };
    assert_eq!(bits(&found), bits(&expected));
    assert!(logged.iter().zip(1..).all(|(logged, seq)| logged.seq == seq));
    assert!(logged.is_sorted_by_key(|logged| logged.at));
    assert!(memory.now() >= logged.last().unwrap().at);
}

/// Reads more events than fit in one batch.
#[test]
fn a_long_log_is_read_to_its_end() {
    let home = tempfile::tempdir().unwrap();
    let memory = open(home.path());
    (0..600).for_each(|trial| memory.note_evaluated(trial, None).unwrap());
    assert_eq!(events(&memory).len(), 600);
}

#[test]
fn a_report_counts_once_and_without_a_gap() {
    let home = tempfile::tempdir().unwrap();
    let memory = open(home.path());
    let take =
        |memory: &Memory, round, value| memory.take(1, round, &report(1, round, value)).unwrap();
    assert_eq!(take(&memory, 2, 1.0), Taken::New);
    assert_eq!(memory.received_from(1), 0);
    assert_eq!(take(&memory, 0, 1.0), Taken::New);
    assert_eq!(memory.received_from(1), 1);
    drop(memory);
    let memory = open(home.path());
    assert_eq!(memory.received_from(1), 1);
    assert_eq!(take(&memory, 1, 1.0), Taken::New);
    assert_eq!(memory.received_from(1), 3);
    // Send the same report again, then a different one for the same round.
    assert_eq!(take(&memory, 1, 1.0), Taken::Again);
    let conflict = |is_new| Taken::Conflict { is_new };
    assert_eq!(take(&memory, 1, 1.5), conflict(true));
    assert_eq!(take(&memory, 1, 1.5), conflict(false));
    assert_eq!(take(&memory, 1, 1.0), Taken::Again);
    assert_eq!((memory.received_from(1), memory.received_from(2)), (3, 0));
    assert_eq!(events(&memory).len(), 3);
    // The same content with a different signature counts as the same report.
    let mut resigned = report(1, 1, 1.0);
    *resigned.last_mut().unwrap() ^= 1;
    assert_eq!(memory.take(1, 1, &resigned).unwrap(), Taken::Again);
}

#[test]
fn what_leaves_is_kept_first_and_never_changes() {
    let home = tempfile::tempdir().unwrap();
    let memory = open(home.path());
    assert_eq!(memory.outgoing(0).unwrap(), None);
    let made = [report(0, 0, 1.0), report(0, 1, 2.0)];
    assert!(memory.keep(0, &made[0]).unwrap());
    assert!(memory.keep(1, &made[1]).unwrap());
    assert!(memory.keep(0, &made[0]).unwrap());
    assert!(!memory.keep(1, &made[0]).unwrap());
    assert!(memory.keep(3, &made[0]).is_err(), "a gap");
    let memory = open(home.path());
    assert_eq!(memory.n_outgoing().unwrap(), 2);
    assert_eq!(memory.outgoing(1).unwrap().as_ref(), Some(&made[1]));
}

/// A key configured by the user replaces a key trusted on first use; otherwise, the first trusted
/// key is kept.
#[test]
fn what_is_known_of_neighbours_stays() {
    let home = tempfile::tempdir().unwrap();
    let (first, second) = (PublicKey([1; 32]), PublicKey([2; 32]));
    let memory = open(home.path());
    memory.meet(1, "b", "http://one", None).unwrap();
    memory.pin(1, first).unwrap();
    memory.pin(1, second).unwrap();
    memory.confirm(1, 4, 99).unwrap();
    memory.meet(1, "b", "http://two", None).unwrap();
    let known = &open(home.path()).neighbours().unwrap()[0];
    assert_eq!((known.key, known.confirmed), (Some(first), 4));
    assert_eq!((known.url.as_str(), known.contact_at_ms), ("http://two", Some(99)));
    memory.meet(1, "b", "http://two", Some(second)).unwrap();
    assert_eq!(memory.neighbours().unwrap()[0].key, Some(second));
}

/// A peer that was killed while creating its memory has not started.
#[test]
fn a_memory_that_a_kill_left_empty_is_none() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("peer.db");
    std::fs::write(&path, "").unwrap();
    assert_eq!(fedbo_peer::status(home.path()).unwrap(), None);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}

#[test]
fn a_home_stays_its_peers() {
    let home = tempfile::tempdir().unwrap();
    drop(open(home.path()));
    let mut other_name = member();
    other_name.slot = 1;
    let mut other_file = member();
    other_file.digest = Digest([2; 32]);
    for (member, key, expected) in [
        (member(), PublicKey([8; 32]), "key"),
        (other_name, KEY, "name"),
        (other_file, KEY, "federation"),
    ] {
        match Memory::open(home.path(), &member, key) {
            Err(OtherHome::Differs { what, .. }) => assert_eq!(what, expected),
            other => panic!("{other:?}"),
        }
    }
}

/// The database itself rejects changes that this program must never make.
#[test]
fn the_log_is_only_appended_to() {
    let home = tempfile::tempdir().unwrap();
    let memory = open(home.path());
    memory.note_evaluated(0, Some(1.0)).unwrap();
    memory.keep(0, b"report").unwrap();
    assert!(memory.note_evaluated(0, Some(2.0)).is_err(), "a trial ends once");
    drop(memory);
    let file = rusqlite::Connection::open(home.path().join("peer.db")).unwrap();
    for sql in [
        "UPDATE events SET at_ms = 5",
        "DELETE FROM events",
        "INSERT INTO events (seq, at_ms, kind) VALUES (3, 0, 'tick')",
        "UPDATE outbox SET bytes = x'00'",
        "DELETE FROM outbox",
        "DELETE FROM peer",
    ] {
        assert!(file.execute(sql, []).is_err(), "{sql}");
    }
}
