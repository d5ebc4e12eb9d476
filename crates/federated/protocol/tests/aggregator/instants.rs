//! Tests of timing: deadlines for vectors and scheduled times of releases (INV-9).

use fedbo_protocol::{Aggregator, Coordinator, Effect, Instants, ReleaseSchedule, UpdateRejected};

use crate::aggregator::common::{
    Counting, aggregator, commit, every_round, handout, period, refusal, total, update,
};

/// An aggregator that accepts vectors until 60, with handouts at 100, 200, …
fn begun() -> Aggregator<Counting> {
    let mut aggregator = aggregator(every_round(9), period(60, 100));
    assert_eq!(aggregator.deadline(), None); // waiting for the store
    aggregator.recalled(0, None, 0).unwrap();
    assert_eq!(aggregator.deadline(), Some(60));
    aggregator
}

#[test]
fn a_round_closes_at_its_deadline_and_leaves_at_its_instant() {
    let mut aggregator = begun();
    aggregator.receive(update(1, 0, 4.0), 59);
    assert_eq!(aggregator.tick(59), []);
    assert_eq!(aggregator.idle(59), []); // ignored, because the round has scheduled times
    commit(&aggregator.tick(60), 0);
    assert_eq!(aggregator.deadline(), None); // waiting for the commit
    assert_eq!(aggregator.tick(61), []);
    assert_eq!(aggregator.committed(0, 70).unwrap(), []); // durable, but not due yet
    assert_eq!(aggregator.deadline(), Some(100));
    assert_eq!(aggregator.tick(99), []);
    let effects = aggregator.tick(100);
    assert_eq!(total(&handout(&effects)), [4.0, 1.0, 0.0, 0.0]);
    aggregator.recalled(1, None, 101).unwrap();
    assert_eq!(aggregator.deadline(), Some(160));
}

/// If all vectors arrive early, the release is created and made durable, but still waits for its
/// scheduled time.
#[test]
fn a_round_that_is_complete_early_leaves_at_its_instant() {
    let mut aggregator = begun();
    for sender in 0..2 {
        aggregator.receive(update(sender, 0, 1.0), 1);
    }
    commit(&aggregator.receive(update(2, 0, 1.0), 2), 0);
    assert_eq!(aggregator.committed(0, 3).unwrap(), []);
    assert_eq!(aggregator.idle(4), []);
    assert_eq!(aggregator.tick(99), []);
    assert_eq!(handout(&aggregator.tick(100)).round, 1);
}

/// A commit that takes longer than the round delays the handout. The next round begins with the
/// handout.
#[test]
fn a_late_commit_delays_the_round() {
    let mut aggregator = begun();
    commit(&aggregator.tick(60), 0);
    assert_eq!(aggregator.tick(140), []);
    let effects = aggregator.committed(0, 150).unwrap();
    assert_eq!(handout(&effects).round, 1);
    aggregator.recalled(1, None, 150).unwrap();
    assert_eq!(aggregator.deadline(), Some(210));
}

/// A vector that arrives at the deadline is late even if `tick` was not called, because the round
/// closes first.
#[test]
fn a_vector_at_the_deadline_is_late() {
    let mut aggregator = begun();
    aggregator.receive(update(0, 0, 1.0), 10);
    let effects = aggregator.receive(update(1, 0, 50.0), 60);
    let late = UpdateRejected::Late { sender: 1, round: 0 };
    assert!(matches!(effects[0], Effect::Commit { round: 0, .. }));
    assert_eq!(effects[1..], [Effect::Refuse(late.clone())]);
    aggregator.committed(0, 61).unwrap();
    let effects = aggregator.receive(update(1, 0, 50.0), 100);
    assert_eq!(total(&handout(&effects)), [1.0, 1.0, 0.0, 0.0]);
    assert_eq!(effects[2..], [Effect::Refuse(late)]);
}

#[test]
fn a_stored_release_leaves_at_its_instant() {
    let mut first = begun();
    commit(&first.tick(60), 0);
    first.committed(0, 60).unwrap();
    let bytes = handout(&first.tick(100)).releases[0].bytes.clone();
    let mut second = aggregator(every_round(9), period(60, 100));
    second.recalled(0, Some(&bytes), 5).unwrap();
    assert_eq!(second.deadline(), Some(60));
    assert_eq!(second.tick(60), []);
    assert_eq!(second.deadline(), Some(100));
    assert_eq!(handout(&second.tick(100)).releases[0].bytes, bytes);
}

#[test]
fn silent_rounds_end_at_their_instant() {
    let schedule = ReleaseSchedule::new(1, 1, 0).unwrap();
    let mut aggregator = aggregator(schedule, period(60, 100));
    aggregator.recalled(0, None, 0).unwrap();
    commit(&aggregator.tick(60), 0);
    aggregator.committed(0, 60).unwrap();
    assert!(!handout(&aggregator.tick(100)).collects);
    assert_eq!(aggregator.deadline(), Some(200));
    assert_eq!(aggregator.tick(199), []);
    let refused = aggregator.receive(update(0, 1, 1.0), 199);
    assert!(matches!(refusal(&refused), UpdateRejected::NotCollected { .. }));
    let next = handout(&aggregator.tick(200));
    assert_eq!((next.round, next.releases.len(), next.collects), (2, 0, false));
}

/// Times in the wrong order are rejected. Times at the end of the range cause no errors.
#[test]
fn impossible_instants_are_refused() {
    assert!(Instants::new(0, 10).is_err() && Instants::new(11, 10).is_err());
    let mut aggregator = aggregator(every_round(2), period(u64::MAX, u64::MAX));
    aggregator.recalled(0, None, 0).unwrap();
    assert_eq!(aggregator.deadline(), Some(u64::MAX));
    assert_eq!(aggregator.tick(u64::MAX - 1), []);
    commit(&aggregator.tick(u64::MAX), 0);
}

/// After a crash, a coordinator begins with the last stored round and then continues with the next.
#[test]
fn a_coordinator_begins_where_the_last_one_ended() {
    let mut first = begun();
    commit(&first.tick(60), 0);
    first.committed(0, 60).unwrap();
    let bytes = handout(&first.tick(100)).releases[0].bytes.clone();
    let fresh = Aggregator::new(
        Counting::new(3, 4),
        every_round(9),
        crate::aggregator::common::map_hash(),
        period(60, 100),
    );
    let mut second = fresh.from_round(1);
    assert_eq!(second.start(500), [Effect::Recall { round: 1 }]);
    let error = second.recalled(1, Some(&bytes), 500).unwrap_err();
    assert!(error.to_string().contains("round 0"), "{error}");
    second.recalled(1, None, 500).unwrap();
    assert_eq!(second.deadline(), Some(560));
}
