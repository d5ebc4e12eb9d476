//! Tests of the contract that every store fulfils for agents, operators and rounds, and of the
//! contract between an inbox and the replicas that share it.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    reason = "a store that fails here breaks its contract, and the place says how"
)]

#[path = "../../../store/storage/tests/postgres_crash/proxy.rs"]
#[allow(dead_code, reason = "each test uses its own part")]
mod proxy;

use std::sync::{Arc, OnceLock};
use std::thread::{scope, sleep};
use std::time::Duration;

use fedbo_coordinator::store::{
    Arrived, Counted, CountedRequest, FreeRelease, Lead, NextRound, Opening, Participants, Posted,
    PostgresStore, Posting, ShardId, ShardReport, ShardView, SlotCounter, SqliteStore, Store,
    StoreError, StudyRecord, StudyState,
};
use fedbo_database::Mode;
use fedbo_testkit::postgres::Server;
use fedbo_wire::{Digest, PublicKey, config_digest};
use proxy::{Cut, Proxy};

/// Server shared by all tests that do not stop or change it.
fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

fn postgres(url: &str) -> PostgresStore {
    PostgresStore::open(&url.parse().unwrap(), Mode::Create).unwrap()
}

type Check = fn(&dyn Store);

const CHECKS: [(&str, Check); 15] = [
    ("studies are found by name", studies_are_found_by_name),
    ("states change as an operator may", states_change),
    ("tokens are used once", tokens_are_used_once),
    ("a study begins with its last agent", a_study_begins),
    ("one agent has one slot", one_agent_has_one_slot),
    ("keys are replaced", keys_are_replaced),
    ("leases end by the store's clock", leases_end),
    ("who was superseded changes nothing", fencing),
    ("rounds and what they hand out", rounds),
    ("a release is made once", a_release_is_made_once),
    ("who is in a release", who_is_in_a_release),
    ("what a helper is bound to", what_a_helper_is_bound_to),
    ("counters of requests", counters_of_requests),
    ("counters at once", counters_at_once),
    ("many at once", races),
];

#[test]
fn sqlite_store_contract() {
    for (name, check) in CHECKS {
        // In memory if possible, since the disk is not under test.
        let memory = std::path::Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => tempfile::tempdir_in(memory).unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        let store = SqliteStore::open(&folder.path().join("store.db"), Mode::Create).unwrap();
        eprintln!("store contract: {name}");
        check(&store);
    }
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn postgres_store_contract() {
    for (name, check) in CHECKS {
        let store = postgres(&server().new_database());
        eprintln!("store contract: {name}");
        check(&store);
    }
}

/// Tables that were created on first use are not defects of the file.
#[test]
fn a_file_with_participants_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path, Mode::Create).unwrap();
    let study = create(&store);
    let lead = lead(&store, &study, "a");
    assert_eq!(SqliteStore::verify(&path).unwrap(), Vec::<String>::new());
    let found = Participants { round: 0, slots: vec![1], release: Digest([3; 32]) };
    store.note_participants(&lead, &found).unwrap();
    store.note_commitment(&lead, 0, &Digest([4; 32])).unwrap();
    let request = CountedRequest { study: study.key, slot: 0, counter: 1, mark: Digest([5; 32]) };
    store.count(&[request]).unwrap();
    drop(store);
    assert_eq!(SqliteStore::verify(&path).unwrap(), Vec::<String>::new());
}

/// Requests write their counters continually, so counting must need little disk space: a disk that
/// is filling up must still have room for counters and releases.
#[test]
fn counters_need_little_of_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path, Mode::Create).unwrap();
    let study = create(&store);
    for counter in 1..=300 {
        let request = CountedRequest { study: study.key, slot: 0, counter, mark: Digest([5; 32]) };
        assert_eq!(store.count(&[request]).unwrap(), [Counted::Taken]);
    }
    let n_bytes = std::fs::metadata(folder.path().join("store.db-wal")).unwrap().len();
    assert!(n_bytes < 200_000, "{n_bytes} bytes in the log");
}

fn roster(n: usize) -> Vec<String> {
    (0..n).map(|agent| format!("lab {agent}")).collect()
}

fn create(store: &dyn Store) -> StudyRecord {
    store.create_study("labs", "config = 1\n", &roster(3)).unwrap()
}

fn secret(n: u8) -> PublicKey {
    PublicKey([n; 32])
}

/// Returns the configuration digest of the study created by [`create`].
fn agreed() -> Digest {
    config_digest(b"config = 1\n")
}

fn key(n: u8) -> PublicKey {
    PublicKey([n; 32])
}

fn hour(store: &dyn Store) -> u64 {
    store.now_ms().unwrap() + 3_600_000
}

fn lead(store: &dyn Store, study: &StudyRecord, holder: &str) -> Lead {
    store.lead(study.key, holder, 60_000).unwrap().unwrap()
}

fn next(round: u64) -> NextRound<'static> {
    NextRound { round, began_ms: 1_000 + round, collects: true, broadcast: None, finishes: false }
}

fn studies_are_found_by_name(store: &dyn Store) {
    assert_eq!(store.studies().unwrap(), []);
    let before = store.generation().unwrap();
    let labs = create(store);
    assert!(store.generation().unwrap() > before);
    assert_eq!(
        (&*labs.name, &*labs.config, labs.state, labs.round),
        ("labs", "config = 1\n", StudyState::Waiting, 0)
    );
    assert_eq!((labs.began_ms, &labs.head), (None, &None));
    let long = "ü\u{1F41D}".repeat(3_000);
    let other = store.create_study(&long, "", &[]).unwrap();
    assert_eq!(store.study("labs").unwrap(), labs);
    assert_eq!(store.studies().unwrap(), [labs, other]);
    let exists = store.create_study("labs", "config = 1\n", &roster(3));
    assert!(matches!(exists, Err(StoreError::Exists { .. })));
    let none = store.study("lab");
    assert!(matches!(none, Err(StoreError::NoStudy { .. })));
    let names: Vec<String> = store
        .slots(store.study("labs").unwrap().key)
        .unwrap()
        .into_iter()
        .map(|slot| slot.name)
        .collect();
    assert_eq!(names, roster(3));
}

fn states_change(store: &dyn Store) {
    use StudyState::{Finished, Paused, Running, Waiting};
    let study = create(store).key;
    let state = || store.study("labs").unwrap().state;
    for (to, is_allowed) in [
        (Waiting, true),
        (Finished, false),
        (Paused, true),
        (Waiting, false),
        (Running, true),
        (Running, true),
        (Waiting, false),
        (Paused, true),
        (Running, true),
    ] {
        let before = state();
        let changed = store.set_state(study, to);
        assert_eq!(changed.is_ok(), is_allowed, "{before} to {to}");
        assert_eq!(state(), if is_allowed { to } else { before });
    }
    let lead = lead(store, &store.study("labs").unwrap(), "a");
    let finishes = true;
    store.begin_round(&lead, NextRound { finishes, ..next(1) }).unwrap();
    assert_eq!(state(), Finished);
    let over = store.set_state(study, Running);
    assert!(matches!(over, Err(StoreError::State { from: Finished, .. })));
}

fn tokens_are_used_once(store: &dyn Store) {
    let study = create(store).key;
    let hour = hour(store);
    let add = |slot, n| store.add_token(study, slot, &secret(n), hour);
    add(0, 1).unwrap();
    assert_eq!(add(9, 2), Err(StoreError::NoSlot { slot: 9 }));
    let enrol =
        |n, agent| store.enrol(&secret(n), &agreed(), &key(agent)).map(|enrolment| enrolment.slot);
    assert_eq!(enrol(7, 1), Err(StoreError::TokenUnknown));
    add(0, 3).unwrap(); // the first token is void
    assert_eq!(enrol(1, 1), Err(StoreError::TokenUnknown));
    assert_eq!(enrol(3, 1), Ok(0));
    assert_eq!(enrol(3, 1), Ok(0));
    assert_eq!(enrol(3, 2), Err(StoreError::TokenUsed));
    let other = Digest([9; 32]);
    add(1, 8).unwrap();
    let changed = store.enrol(&secret(8), &other, &key(2)).unwrap_err();
    assert_eq!(changed, StoreError::OtherConfig);
    // Revoking a slot voids its tokens.
    store.revoke(study, 1).unwrap();
    assert_eq!(enrol(8, 2), Err(StoreError::TokenUnknown));
    assert!(store.slots(study).unwrap()[1].key.is_none());
    store.add_token(study, 1, &secret(4), 5).unwrap();
    assert_eq!(enrol(4, 2), Err(StoreError::TokenExpired));
    // A new token for a claimed slot lets another key claim it.
    add(0, 5).unwrap();
    assert_eq!(enrol(5, 9), Ok(0));
    assert_eq!(store.slots(study).unwrap()[0].key, Some(key(9)));
    assert_eq!(store.slot_of(study, &key(1)).unwrap(), None);
}

fn a_study_begins(store: &dyn Store) {
    let study = create(store).key;
    for slot in 0..3_u8 {
        assert_eq!(store.study("labs").unwrap().state, StudyState::Waiting);
        let hour = hour(store);
        store.add_token(study, slot.into(), &secret(slot), hour).unwrap();
        let before = store.generation().unwrap();
        let enrolment = store.enrol(&secret(slot), &agreed(), &key(slot)).unwrap();
        assert!(store.generation().unwrap() > before);
        assert_eq!(enrolment.agent, format!("lab {slot}"));
        assert_eq!(enrolment.study, store.study("labs").unwrap());
    }
    assert_eq!(store.study("labs").unwrap().state, StudyState::Running);
}

fn one_agent_has_one_slot(store: &dyn Store) {
    let study = create(store).key;
    let hour = hour(store);
    for slot in 0..2_u8 {
        store.add_token(study, slot.into(), &secret(slot), hour).unwrap();
    }
    store.enrol(&secret(0), &agreed(), &key(7)).unwrap();
    let taken = store.enrol(&secret(1), &agreed(), &key(7)).unwrap_err();
    assert_eq!(taken, StoreError::KeyTaken { slot: 0 });
    store.enrol(&secret(1), &agreed(), &key(8)).unwrap();
    let taken = store.rotate(study, 1, &key(8), &key(7)).unwrap_err();
    assert_eq!(taken, StoreError::KeyTaken { slot: 0 });
    // The agent may have a slot in another study.
    let other = store.create_study("other", "", &roster(1)).unwrap().key;
    store.add_token(other, 0, &secret(9), hour).unwrap();
    store.enrol(&secret(9), &config_digest(b""), &key(7)).unwrap();
}

fn keys_are_replaced(store: &dyn Store) {
    let study = create(store).key;
    let hour = hour(store);
    store.add_token(study, 2, &secret(0), hour).unwrap();
    store.enrol(&secret(0), &agreed(), &key(1)).unwrap();
    let of = |n| store.slot_of(study, &key(n)).unwrap();
    for _ in 0..2 {
        store.rotate(study, 2, &key(1), &key(2)).unwrap();
        assert_eq!((of(1), of(2), of(3)), (Some(2), Some(2), None));
    }
    let not_theirs = store.rotate(study, 2, &key(1), &key(3));
    assert_eq!(not_theirs, Err(StoreError::NoSlot { slot: 2 }));
    store.rotate(study, 2, &key(2), &key(3)).unwrap();
    assert_eq!((of(1), of(2), of(3)), (None, Some(2), Some(2)));
    store.revoke(study, 2).unwrap();
    assert_eq!((of(2), of(3)), (None, None));
    assert!(store.slots(study).unwrap()[2].is_revoked);
    let revoked = store.rotate(study, 2, &key(3), &key(4));
    assert_eq!(revoked, Err(StoreError::NoSlot { slot: 2 }));
    assert_eq!(store.revoke(study, 9), Err(StoreError::NoSlot { slot: 9 }));
}

fn leases_end(store: &dyn Store) {
    let study = create(store).key;
    let take = |holder, ms| store.lead(study, holder, ms).unwrap();
    let first = take("a", 150).unwrap();
    assert_eq!(take("b", 60_000), None);
    assert!(store.renew(&first, 400).unwrap());
    sleep(Duration::from_millis(200));
    assert_eq!(take("b", 60_000), None, "the lease was renewed");
    sleep(Duration::from_millis(300));
    let second = take("b", 60_000).unwrap();
    assert!(second.token > first.token);
    assert!(!store.renew(&first, 60_000).unwrap());
    store.resign(&first).unwrap();
    assert_eq!(take("a", 60_000), None, "another's lead is not let go");
    store.resign(&second).unwrap();
    let third = take("a", 60_000).unwrap();
    // The same holder can acquire leadership again, for example after a crash.
    assert!(take("a", 60_000).unwrap().token > third.token);
    let missing = store.lead(fedbo_coordinator::store::StudyKey(99), "a", 1);
    assert!(matches!(missing, Err(StoreError::NoStudy { .. })));
}

fn fencing(store: &dyn Store) {
    let study = create(store);
    let old = store.lead(study.key, "a", 1).unwrap().unwrap();
    store.begin_round(&old, next(3)).unwrap();
    sleep(Duration::from_millis(20));
    let new = lead(store, &study, "b");
    let bytes = vec![1];
    let release = FreeRelease { round: 3, bytes };
    let before = store.study("labs").unwrap();
    assert_eq!(store.begin_round(&old, next(4)), Err(StoreError::Superseded));
    assert_eq!(store.note_head(&old, "1:aa"), Err(StoreError::Superseded));
    assert_eq!(store.add_release(&old, &release), Err(StoreError::Superseded));
    if let Some(inbox) = store.shared() {
        assert_eq!(inbox.shut_inbox(&old), Err(StoreError::Superseded));
        assert_eq!(inbox.forget_vectors(&old, 3), Err(StoreError::Superseded));
    }
    assert_eq!(store.study("labs").unwrap(), before);
    assert_eq!(store.free_releases(study.key).unwrap(), []);
    store.add_release(&new, &release).unwrap();
    store.note_head(&new, "1:bb").unwrap();
    store.begin_round(&new, next(4)).unwrap();
    let after = store.study("labs").unwrap();
    assert_eq!((after.round, after.head.as_deref()), (4, Some("1:bb")));
}

fn rounds(store: &dyn Store) {
    let study = create(store);
    let lead = lead(store, &study, "a");
    for round in 0..4 {
        let bytes = vec![u8::try_from(round).unwrap(); 100_000];
        let broadcast = (round > 1).then_some(&bytes[..]);
        store.begin_round(&lead, NextRound { broadcast, ..next(round) }).unwrap();
        let record = store.study("labs").unwrap();
        assert_eq!((record.round, record.began_ms), (round, Some(1_000 + round)));
        let stored = store.broadcast(study.key, round).unwrap();
        assert_eq!(stored.as_deref(), broadcast);
    }
    // A stored broadcast never changes.
    let broadcast = Some(&b"other"[..]);
    store.begin_round(&lead, NextRound { broadcast, ..next(3) }).unwrap_err();
    assert_eq!(store.broadcast(study.key, 3).unwrap().unwrap().len(), 100_000);
    // A round that is restarted after a crash gets a new start time.
    let began_ms = 7_777;
    store.begin_round(&lead, NextRound { began_ms, ..next(3) }).unwrap();
    assert_eq!(store.study("labs").unwrap().began_ms, Some(7_777));
}

fn a_release_is_made_once(store: &dyn Store) {
    let study = create(store);
    let lead = lead(store, &study, "a");
    let release = |round: u64| FreeRelease { round, bytes: round.to_le_bytes().to_vec() };
    for round in [0, 1, 5] {
        store.add_release(&lead, &release(round)).unwrap();
    }
    for bytes in [release(1).bytes, vec![]] {
        let again = store.add_release(&lead, &FreeRelease { round: 1, bytes });
        assert_eq!(again, Err(StoreError::Released { round: 1 }));
    }
    assert_eq!(store.free_releases(study.key).unwrap(), [release(0), release(1), release(5)]);
}

/// If a round is closed again after a crash, the new record replaces the old one.
fn who_is_in_a_release(store: &dyn Store) {
    let study = create(store);
    let old = store.lead(study.key, "a", 1).unwrap().unwrap();
    let of = |round: u64, slots: &[u32]| Participants {
        round,
        slots: slots.to_vec(),
        release: Digest([u8::try_from(slots.len()).unwrap(); 32]),
    };
    assert_eq!(store.participants(study.key, 0).unwrap(), []);
    store.note_participants(&old, &of(4, &[0, 7, u32::MAX])).unwrap();
    store.note_participants(&old, &of(2, &[])).unwrap();
    store.note_participants(&old, &of(4, &[1])).unwrap();
    sleep(Duration::from_millis(20));
    lead(store, &study, "b");
    let late = store.note_participants(&old, &of(5, &[1]));
    assert_eq!(late, Err(StoreError::Superseded));
    assert_eq!(store.participants(study.key, 0).unwrap(), [of(2, &[]), of(4, &[1])]);
    let other = fedbo_coordinator::store::StudyKey(99);
    assert_eq!(store.participants(other, 0).unwrap(), []);
}

/// If a round is closed again after a crash, the new commitment replaces the old one.
fn what_a_helper_is_bound_to(store: &dyn Store) {
    let study = create(store);
    let old = store.lead(study.key, "a", 1).unwrap().unwrap();
    let hash = |n: u8| Digest([n; 32]);
    assert_eq!(store.commitments(study.key).unwrap(), []);
    for (round, n) in [(4, 1), (2, 2), (4, 3)] {
        store.note_commitment(&old, round, &hash(n)).unwrap();
    }
    sleep(Duration::from_millis(20));
    lead(store, &study, "b");
    assert_eq!(store.note_commitment(&old, 5, &hash(1)), Err(StoreError::Superseded));
    assert_eq!(store.commitments(study.key).unwrap(), [(2, hash(2)), (4, hash(3))]);
    let other = fedbo_coordinator::store::StudyKey(99);
    assert_eq!(store.commitments(other).unwrap(), []);
}

/// Even with concurrent calls, there is one study per name, one agent per token and one leader per
/// fencing token.
fn races(store: &dyn Store) {
    let won = |act: &(dyn Fn(u8) -> bool + Sync)| {
        scope(|scope| {
            let threads: Vec<_> = (0..6).map(|n| scope.spawn(move || act(n))).collect();
            let won = threads.into_iter().map(|thread| thread.join().unwrap());
            won.filter(|won| *won).count()
        })
    };
    assert_eq!(won(&|_| store.create_study("race", "", &roster(2)).is_ok()), 1);
    let study = store.study("race").unwrap();
    let hour = hour(store);
    store.add_token(study.key, 0, &secret(101), hour).unwrap();
    let enrol = |n: u8| {
        let config = config_digest(b"");
        store.enrol(&secret(101), &config, &key(100 + n)).is_ok()
    };
    assert_eq!(won(&enrol), 1);
    let take = |n: u8| store.lead(study.key, &n.to_string(), 60_000).unwrap().is_some();
    assert_eq!(won(&take), 1);
    let before = store.generation().unwrap();
    let revoke = |_| store.revoke(study.key, 1).is_ok();
    assert_eq!(won(&revoke), 6);
    assert_eq!(store.generation().unwrap(), before + 6);
}

fn post(
    inbox: &PostgresStore,
    study: &StudyRecord,
    slot: u32,
    round: u64,
    vector: &[u8],
) -> Posted {
    inbox
        .post(&Posting { study: study.key, round, slot, mark: Some(&vector[..1]), sealed: vector })
        .unwrap()
}

/// The first vector from a slot for a round counts, only in this round and only if it arrives while
/// the round is open (INV-6). The vector is deleted once the round is over (INV-16).
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn inbox_contract() {
    let store = postgres(&server().new_database());
    let inbox = store.shared().unwrap();
    let study = create(&store);
    assert_eq!(post(inbox, &study, 0, 0, b"a"), Posted::BeforeTheFirst, "nobody plays rounds yet");
    let lead = lead(&store, &study, "a");
    store.begin_round(&lead, next(4)).unwrap();
    let arrived = |round, known: &[u32]| inbox.arrived(study.key, round, known).unwrap();
    let slots = |known: &[u32]| arrived(4, known).iter().map(|a| a.slot).collect::<Vec<_>>();
    for slot in [2, 0] {
        assert!(inbox.awaits(study.key, slot, 4).unwrap());
        assert_eq!(post(inbox, &study, slot, 4, b"abc"), Posted::Taken);
        assert!(!inbox.awaits(study.key, slot, 4).unwrap());
    }
    assert_eq!(post(inbox, &study, 0, 4, b"abc"), Posted::Taken, "a repeat");
    assert_eq!(post(inbox, &study, 0, 4, b"xyz"), Posted::Conflict);
    assert_eq!(post(inbox, &study, 1, 3, b"abc"), Posted::Late);
    assert_eq!(post(inbox, &study, 1, 5, b"abc"), Posted::Early { current: 4 });
    assert_eq!(slots(&[]), [0, 2]);
    assert_eq!(slots(&[0]), [2]);
    assert_eq!(arrived(4, &[0])[0], Arrived { slot: 2, sealed: b"abc".to_vec() });
    assert_eq!(arrived(3, &[]), []);
    // After the inbox is shut, repeats return the same result, and all other vectors are late.
    inbox.shut_inbox(&lead).unwrap();
    assert_eq!(post(inbox, &study, 1, 4, b"abc"), Posted::Late);
    assert!(!inbox.awaits(study.key, 1, 4).unwrap());
    assert_eq!(post(inbox, &study, 2, 4, b"abc"), Posted::Taken);
    assert_eq!(slots(&[]), [0, 2]);
    inbox.forget_vectors(&lead, 4).unwrap();
    assert_eq!(slots(&[]), [0; 0]);
    store.begin_round(&lead, next(5)).unwrap();
    assert_eq!(post(inbox, &study, 2, 4, b"abc"), Posted::Taken, "a repeat of what counted");
    assert_eq!(post(inbox, &study, 2, 4, b"xyz"), Posted::Conflict);
    assert_eq!(arrived(4, &[]), []);
    assert_eq!(post(inbox, &study, 2, 5, b"new"), Posted::Taken);
    assert_eq!(post(inbox, &study, 2, 4, b"abc"), Posted::Taken);
    assert_eq!(arrived(5, &[]), [Arrived { slot: 2, sealed: b"new".to_vec() }]);
    // Even if the inbox was not shut first, no vector is accepted after the round's release.
    inbox.forget_vectors(&lead, 5).unwrap();
    assert_eq!(post(inbox, &study, 0, 5, b"abc"), Posted::Late);
    assert!(!inbox.awaits(study.key, 0, 5).unwrap());
    // A round that collects no vectors.
    let collects = false;
    store.begin_round(&lead, NextRound { collects, ..next(6) }).unwrap();
    assert_eq!(post(inbox, &study, 1, 6, b"abc"), Posted::Late);
    assert_eq!(arrived(5, &[]), [], "INV-16: a round's vectors go with it");
}

/// Shutting a round takes into account every shard that was allowed to accept vectors. A shard's
/// vectors count only once the leader has chosen them.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn shards_contract() {
    let store = postgres(&server().new_database());
    let shards = store.shared().unwrap();
    shards.prepare_shards().unwrap();
    shards.prepare_shards().unwrap();
    let study = create(&store);
    let lease = 60_000;
    let [a, b] = [ShardId(-7), ShardId(5)];
    let view = |shard| shards.view(study.key, shard, lease).unwrap();
    assert_eq!(view(a), ShardView { opening: None, is_open: false, counts: None, others: vec![] });
    let lead = lead(&store, &study, "a");
    store.begin_round(&lead, next(4)).unwrap();
    let opening = view(a).opening.unwrap();
    assert!(view(a).is_open && opening.round == 4);
    let report = |shard, opening, slots: &[u8], is_final| {
        let report = ShardReport { study: study.key, shard, opening, slots, is_final };
        shards.report(&report).unwrap()
    };
    let other = Opening { began_ms: opening.began_ms + 1, ..opening };
    assert!(!report(a, other, &[1], false), "the round began at another time");
    assert!(!report(a, opening, &[1], true), "it never took part");
    assert!(report(a, opening, &[1], false));
    assert!(report(b, opening, &[2], false));
    assert_eq!(view(a).others, [vec![2]]);
    assert!(shards.view(study.key, a, 0).unwrap().others.is_empty(), "it is gone");
    store.shared().unwrap().shut_inbox(&lead).unwrap();
    assert!(!report(ShardId(9), opening, &[4], false), "it comes too late");
    assert!(!report(b, opening, &[6], false), "no more vectors");
    assert!(report(a, opening, &[3], true));
    let parts = shards.parts(study.key, opening, lease).unwrap();
    let said: Vec<_> = parts.iter().map(|p| (p.shard, p.is_live, p.is_final, p.slots[0])).collect();
    assert_eq!(said, [(a, true, true, 3), (b, true, false, 2)]);
    shards.hand_in(study.key, a, opening, b"early").unwrap();
    assert_eq!(shards.parts(study.key, opening, lease).unwrap()[0].sealed, None);
    shards.choose(&lead, opening, &[(a, vec![1]), (b, vec![2])], lease).unwrap();
    assert_eq!(view(a).counts, Some(vec![1]));
    assert_eq!(view(b).counts, None, "it has not said that it takes no more");
    shards.hand_in(study.key, a, opening, b"sum").unwrap();
    let parts = shards.parts(study.key, opening, lease).unwrap();
    assert_eq!(parts[0].sealed.as_deref(), Some(&b"sum"[..]));
    // Another leader restarts the round, which invalidates the choice.
    let later = NextRound { began_ms: next(4).began_ms + 10, ..next(4) };
    let fenced = Lead { token: lead.token - 1, ..lead };
    let refused = shards.choose(&fenced, opening, &[], lease).unwrap_err();
    assert!(matches!(refused, StoreError::Superseded), "{refused}");
    store.begin_round(&lead, later).unwrap();
    let anew = view(a).opening.unwrap();
    assert_eq!(view(a).counts, None);
    assert!(!report(a, opening, &[3], false));
    assert!(report(a, anew, &[3], false));
    assert_eq!(shards.parts(study.key, anew, lease).unwrap()[0].sealed, None);
    assert_eq!(shards.parts(study.key, opening, 0).unwrap().len(), 1, "that of b");
    shards.leave(study.key, a).unwrap();
    assert!(!shards.parts(study.key, anew, lease).unwrap()[0].is_live);
    shards.choose(&lead, anew, &[], 0).unwrap();
    assert_eq!(
        shards.parts(study.key, opening, 0).unwrap(),
        [],
        "those who are gone are forgotten"
    );
}

/// The inbox is shut while many vectors are being posted. All accepted vectors can be read
/// afterwards, and no others arrive later.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn what_was_taken_can_be_read_once_the_inbox_is_shut() {
    let store = postgres(&server().new_database());
    let inbox = store.shared().unwrap();
    let study = create(&store);
    let lead = lead(&store, &study, "a");
    for round in 0..5 {
        store.begin_round(&lead, next(round)).unwrap();
        let (mut taken, read) = scope(|scope| {
            let (store, study) = (&store, &study);
            let threads: Vec<_> = (0..4_u32)
                .map(|thread| {
                    scope.spawn(move || {
                        let slots = (0..40).map(|n| 4 * n + thread);
                        let inbox = store.shared().unwrap();
                        slots
                            .filter(|slot| post(inbox, study, *slot, round, b"v") == Posted::Taken)
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            sleep(Duration::from_millis(12));
            inbox.shut_inbox(&lead).unwrap();
            let read = inbox.arrived(study.key, round, &[]).unwrap();
            let taken = threads.into_iter().flat_map(|thread| thread.join().unwrap());
            (taken.collect::<Vec<_>>(), read)
        });
        taken.sort_unstable();
        let read: Vec<u32> = read.iter().map(|arrived| arrived.slot).collect();
        assert_eq!(taken, read, "round {round}");
    }
}

/// If a connection is cut during a commit, each change still happens exactly once, and the caller
/// gets the same result as without the cut.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn an_answer_that_is_lost_changes_nothing() {
    for cut in [Cut::BeforeCommit, Cut::WithCommit, Cut::BeforeAnswer] {
        let url = server().new_database();
        drop(postgres(&url));
        let proxy = Proxy::start(server().socket());
        let store = postgres(&proxy.url_of(&url));
        let due = || proxy.cut_next(cut);
        due();
        let study = create(&store);
        let hour = hour(&store);
        due();
        store.add_token(study.key, 0, &secret(1), hour).unwrap();
        due();
        store.enrol(&secret(1), &agreed(), &key(1)).unwrap();
        due();
        store.rotate(study.key, 0, &key(1), &key(2)).unwrap();
        due();
        store.set_state(study.key, StudyState::Running).unwrap();
        due();
        let lead = lead(&store, &study, "a");
        due();
        let broadcast = Some(&b"messages"[..]);
        store.begin_round(&lead, NextRound { broadcast, ..next(1) }).unwrap();
        due();
        let bytes = vec![7];
        store.add_release(&lead, &FreeRelease { round: 1, bytes }).unwrap();
        due();
        store.note_head(&lead, "1:aa").unwrap();
        due();
        assert!(store.renew(&lead, 60_000).unwrap());
        let inbox = store.shared().unwrap();
        due();
        inbox.shut_inbox(&lead).unwrap();
        assert_eq!(proxy.n_cuts(), 11, "{cut:?}: each call was cut");
        assert_eq!(store.studies().unwrap().len(), 1);
        assert_eq!(store.slots(study.key).unwrap().len(), 3);
        assert_eq!(store.free_releases(study.key).unwrap().len(), 1);
    }
}

/// A crash of the server empties only the inbox, and can be detected.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn database_killed() {
    let mut server = Server::start();
    let store: Arc<PostgresStore> = postgres(&server.new_database()).into();
    let inbox = store.shared().unwrap();
    let study = create(&*store);
    let lead = lead(&*store, &study, "a");
    store.begin_round(&lead, next(2)).unwrap();
    store.note_head(&lead, "1:aa").unwrap();
    let epoch = inbox.inbox_epoch().unwrap();
    assert_eq!(inbox.inbox_epoch().unwrap(), epoch);
    assert_eq!(post(inbox, &study, 0, 2, b"abc"), Posted::Taken);
    let before = store.study("labs").unwrap();
    server.kill_all();
    let gone =
        inbox.post(&Posting { study: study.key, round: 2, slot: 1, mark: None, sealed: b"abc" });
    assert!(matches!(gone, Err(StoreError::Refused { .. })), "{gone:?}");
    server.restart();
    assert_eq!(store.study("labs").unwrap(), before);
    assert_ne!(inbox.inbox_epoch().unwrap(), epoch);
    assert!(inbox.awaits(study.key, 0, 2).unwrap(), "it is asked for again");
    assert_eq!(post(inbox, &study, 0, 2, b"abc"), Posted::Taken);
    store.begin_round(&lead, next(3)).unwrap();
}

/// A counter grows with every request from a slot. The counter restarts if a different agent claims
/// the slot, and continues if the same agent claims it again.
fn counters_of_requests(store: &dyn Store) {
    let study = create(store);
    let request = |slot, counter, mark| CountedRequest {
        study: study.key,
        slot,
        counter,
        mark: Digest([mark; 32]),
    };
    assert_eq!(store.counter(study.key, 0).unwrap(), SlotCounter::default());
    assert_eq!(store.count(&[]).unwrap(), []);
    let batch = [request(0, 1, 1), request(1, 7, 2), request(0, 1, 3), request(0, 4, 4)];
    let verdicts = store.count(&batch).unwrap();
    let behind = |known| Counted::Behind { known };
    assert_eq!(verdicts, [Counted::Taken, Counted::Taken, behind(1), Counted::Taken]);
    let again = [request(0, 4, 4), request(0, 1, 1), request(0, 3, 5), request(1, 7, 9)];
    let verdicts = store.count(&again).unwrap();
    assert_eq!(verdicts, [Counted::Taken, Counted::Taken, behind(4), behind(7)]);
    assert_eq!(store.counter(study.key, 0).unwrap(), SlotCounter { counter: 4, since: 0 });
    // The slot is claimed by its first agent, by the same agent with a new token, and then by a
    // different agent.
    let enrol = |token, agent| {
        store.add_token(study.key, 0, &secret(token), hour(store)).unwrap();
        store.enrol(&secret(token), &agreed(), &key(agent)).unwrap();
        store.counter(study.key, 0).unwrap()
    };
    assert_eq!(enrol(1, 1).counter, 4);
    let lead = lead(store, &study, "a");
    let next =
        NextRound { round: 5, began_ms: 1, collects: true, broadcast: None, finishes: false };
    store.begin_round(&lead, next).unwrap();
    assert_eq!(enrol(2, 1), SlotCounter { counter: 4, since: 0 });
    assert_eq!(enrol(3, 2), SlotCounter { counter: 0, since: 5 });
    assert_eq!(store.count(&[request(0, 1, 1)]).unwrap(), [Counted::Taken]);
}

/// Replicas record the first counters concurrently. One request per counter is accepted, and no
/// replica deadlocks.
fn counters_at_once(store: &dyn Store) {
    let key = create(store).key;
    let taken = scope(|scope| {
        let replicas: Vec<_> = (0..6_u8)
            .map(|replica| {
                scope.spawn(move || {
                    let mut n_taken = 0;
                    for counter in 1..=5 {
                        let request = |slot| CountedRequest {
                            study: key,
                            slot,
                            counter,
                            mark: Digest([replica; 32]),
                        };
                        // In ascending and descending order of slots.
                        let slots = if replica % 2 == 0 { [0, 1, 2] } else { [2, 1, 0] };
                        let verdicts = store.count(&slots.map(request)).unwrap();
                        n_taken += verdicts.iter().filter(|v| **v == Counted::Taken).count();
                    }
                    n_taken
                })
            })
            .collect();
        replicas.into_iter().map(|replica| replica.join().unwrap()).sum::<usize>()
    });
    assert!((3..=15).contains(&taken), "{taken}");
    assert_eq!(store.counter(key, 2).unwrap().counter, 5);
}
