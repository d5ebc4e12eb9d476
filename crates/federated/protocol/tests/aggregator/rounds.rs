//! Tests of the events in a round and their order.

use fedbo_gp::MapHash;
use fedbo_privacy::mechanism::{ReleaseRefused, VectorRefused};
use fedbo_protocol::Aggregate;
use fedbo_protocol::MessageRejected;
use fedbo_protocol::{
    Aggregator, Coordinator, Effect, Instants, MechanismFailed, Participations, PendingRelease,
    ReleaseSchedule, RoundError, RoundMechanism, UpdateRejected,
};

use crate::aggregator::common::{
    Counting, aggregator, commit, event, every_round, handout, map_hash, refusal, total, update,
};

fn begun(schedule: ReleaseSchedule) -> Aggregator<Counting> {
    let mut aggregator = aggregator(schedule, None);
    assert_eq!(aggregator.recalled(0, None, 0).unwrap(), []);
    aggregator
}

/// The effects are a recall, a commit after the vectors, and then the handout together with the
/// next recall. There are no others.
#[test]
fn effects_come_in_order() {
    let mut aggregator = begun(every_round(9));
    for round in 0..3 {
        assert_eq!(aggregator.round(), round);
        assert_eq!(aggregator.receive(update(2, round, 1.0), 0), []);
        assert_eq!(aggregator.receive(update(0, round, 10.0), 0), []);
        let closed = aggregator.receive(update(1, round, 100.0), 0);
        let bytes = commit(&closed, round);
        let Effect::Commit { event: cost, .. } = &closed[0] else { unreachable!() };
        assert_eq!(*cost, Some(event()));
        let effects = aggregator.committed(round, 0).unwrap();
        let next = handout(&effects);
        assert_eq!((next.round, next.collects), (round + 1, true));
        assert_eq!(total(&next), [111.0, 3.0, 0.0, 0.0]);
        assert_eq!(next.releases[0].bytes, bytes);
        assert_eq!(next.releases[0].aggregate.round, round);
        assert_eq!(effects[1..], [Effect::Recall { round: round + 1 }]);
        assert_eq!(aggregator.recalled(round + 1, None, 0).unwrap(), []);
    }
    assert_eq!(aggregator.mechanism().opened, [0, 1, 2, 3]);
}

/// INV-1: between the close and the driver's confirmation, nothing triggers a handout. A response
/// to any other request is an error that changes nothing.
#[test]
fn nothing_leaves_before_the_commit() {
    let mut aggregator = begun(every_round(9));
    for sender in 0..3 {
        aggregator.receive(update(sender, 0, 1.0), 0);
    }
    assert_eq!(aggregator.tick(u64::MAX), []);
    assert_eq!(aggregator.idle(0), []);
    assert_eq!(aggregator.start(0), []);
    assert_eq!(aggregator.receive(update(0, 0, 1.0), 0), []);
    for wrong in [
        aggregator.committed(1, 0),
        aggregator.recalled(0, None, 0),
        aggregator.recalled(1, None, 0),
    ] {
        assert!(matches!(wrong, Err(RoundError::Unasked { .. })), "{wrong:?}");
    }
    assert_eq!(aggregator.round(), 0);
    let effects = aggregator.committed(0, 0).unwrap();
    assert_eq!(handout(&effects).round, 1);
    let again = aggregator.committed(0, 0);
    assert!(matches!(again, Err(RoundError::Unasked { .. })), "{again:?}");
}

/// INV-2: a stored release is handed out byte for byte. No round is opened, no vector is read, and
/// nothing is charged.
#[test]
fn a_stored_release_is_handed_out_as_it_is() {
    let mut first = begun(every_round(9));
    for sender in 0..3 {
        first.receive(update(sender, 0, f64::from(sender)), 0);
    }
    let bytes = handout(&first.committed(0, 0).unwrap()).releases[0].bytes.clone();

    let mut second = aggregator(every_round(9), None);
    assert_eq!(second.recalled(0, Some(&bytes), 0).unwrap(), []);
    assert_eq!(second.receive(update(0, 0, 77.0), 0), []);
    assert_eq!(second.receive(update(0, 0, 77.0), 0), []);
    assert_eq!(second.receive(update(1, 0, f64::NAN), 0), []);
    let effects = second.receive(update(2, 0, 77.0), 0);
    let next = handout(&effects);
    assert_eq!(next.releases[0].bytes, bytes);
    assert_eq!(total(&next), [3.0, 3.0, 0.0, 0.0]);
    assert_eq!(effects[1..], [Effect::Recall { round: 1 }]);
    assert_eq!(second.mechanism().opened, [] as [u64; 0]);
    // The next round proceeds as usual, and accepts a new vector from the first slot.
    second.recalled(1, None, 0).unwrap();
    assert_eq!(second.receive(update(0, 1, 1.0), 0), []);
    assert_eq!(second.mechanism().opened, [1]);
}

/// Stored bytes that are not this round's release end the session before any vector is accepted.
#[test]
fn a_stored_release_of_another_round_is_an_error() {
    let mut first = begun(every_round(9));
    first.idle(0);
    let bytes = handout(&first.committed(0, 0).unwrap()).releases[0].bytes.clone();
    let mut second = begun(every_round(9));
    second.idle(0);
    second.committed(0, 0).unwrap();
    for stored in [&bytes[..], &bytes[..9], &[]] {
        let error = second.recalled(1, Some(stored), 0).unwrap_err();
        let RoundError::Mechanism { round: 1, source } = error else { panic!("{error}") };
        assert!(matches!(source, MechanismFailed::Release(_)), "{source}");
    }
    let taken = second.receive(update(0, 1, 1.0), 0);
    assert!(matches!(refusal(&taken), UpdateRejected::NotCollected { round: 1, .. }));
}

/// INV-3: a round with missing vectors, or without any vectors, has a release of the same size, and
/// the session continues.
#[test]
fn empty_rounds_release() {
    let mut aggregator = begun(every_round(9));
    let size = commit(&aggregator.idle(0), 0).len();
    let next = handout(&aggregator.committed(0, 0).unwrap());
    assert_eq!(total(&next), [0.0; 4]);
    aggregator.recalled(1, None, 0).unwrap();
    aggregator.receive(update(1, 1, 5.0), 0);
    assert_eq!(commit(&aggregator.idle(0), 1).len(), size);
    let next = handout(&aggregator.committed(1, 0).unwrap());
    assert_eq!(total(&next), [5.0, 1.0, 0.0, 0.0]);
}

/// INV-6: the first vector of a slot counts. A repeat gets the same response regardless of its
/// content. A late vector counts in no round.
#[test]
fn the_first_vector_of_a_slot_counts_in_its_own_round() {
    let mut aggregator = begun(every_round(9));
    assert_eq!(aggregator.receive(update(0, 0, 1.0), 0), []);
    assert_eq!(aggregator.receive(update(0, 0, 1.0), 0), []);
    assert_eq!(aggregator.receive(update(0, 0, 500.0), 0), []);
    commit(&aggregator.idle(0), 0);
    // The round is closed but not handed out yet. New vectors are late, but a repeat is still a
    // repeat.
    let late = aggregator.receive(update(1, 0, 500.0), 0);
    let expected = UpdateRejected::Late { sender: 1, round: 0 };
    assert_eq!(refusal(&late), expected);
    assert_eq!(aggregator.receive(update(0, 0, 500.0), 0), []);
    let next = handout(&aggregator.committed(0, 0).unwrap());
    assert_eq!(total(&next), [1.0, 1.0, 0.0, 0.0]);
    aggregator.recalled(1, None, 0).unwrap();
    assert_eq!(refusal(&aggregator.receive(update(1, 0, 500.0), 0)), expected);
    assert_eq!(aggregator.receive(update(0, 0, 500.0), 0), []);
    for sender in 0..2 {
        assert_eq!(aggregator.receive(update(sender, 1, 2.0), 0), []);
    }
    let closed = aggregator.receive(update(2, 1, 2.0), 0);
    commit(&closed, 1);
    let next = handout(&aggregator.committed(1, 0).unwrap());
    assert_eq!(total(&next), [6.0, 3.0, 0.0, 0.0]); // nothing was carried over
}

/// An unknown sender, a different map, a wrong length and a round that has not begun are refused
/// with specific reasons. The sender can still deliver, and the round waits for the delivery.
#[test]
fn refusals_are_for_public_reasons() {
    let mut aggregator = begun(every_round(9));
    aggregator.receive(update(0, 0, 1.0), 0);
    aggregator.receive(update(1, 0, 1.0), 0);
    let mut other_map = update(2, 0, 1.0);
    other_map.map = MapHash([9; 32]);
    let mut short = update(2, 0, 1.0);
    short.weights.pop();
    for _twice in 0..2 {
        for (bad, expected) in [
            (update(3, 0, 1.0), UpdateRejected::UnknownSender { sender: 3 }),
            (update(u32::MAX, 0, 1.0), UpdateRejected::UnknownSender { sender: u32::MAX }),
            (
                other_map.clone(),
                UpdateRejected::Message(MessageRejected::WrongMap {
                    sender: 2,
                    found: MapHash([9; 32]),
                    expected: map_hash(),
                }),
            ),
            (
                short.clone(),
                UpdateRejected::Message(MessageRejected::WrongLength {
                    sender: 2,
                    found: 3,
                    expected: 4,
                }),
            ),
            (update(2, 1, 1.0), UpdateRejected::Early { sender: 2, round: 1, current: 0 }),
        ] {
            assert_eq!(refusal(&aggregator.receive(bad, 0)), expected);
        }
    }
    commit(&aggregator.receive(update(2, 0, 1.0), 0), 0);
}

/// A vector that arrives before the store has responded is refused and not kept.
#[test]
fn nothing_is_taken_before_the_store_has_answered() {
    let mut aggregator = aggregator(every_round(9), None);
    let early = aggregator.receive(update(0, 0, 1.0), 0);
    assert!(matches!(refusal(&early), UpdateRejected::NotCollected { .. }));
    assert_eq!(aggregator.idle(0), []);
    aggregator.recalled(0, None, 0).unwrap();
    assert_eq!(aggregator.receive(update(0, 0, 1.0), 0), []);
}

/// Only rounds 0 and 3 have releases. The handouts between and after them contain no release and
/// request no vectors, and an upload in these rounds is refused.
#[test]
fn rounds_follow_the_schedule() {
    let schedule = ReleaseSchedule::new(2, 3, 2).unwrap();
    assert_eq!(schedule.last(), 3);
    let mut aggregator = begun(schedule);
    let mut seen = Vec::new();
    for round in 0..8 {
        assert_eq!(aggregator.round(), round);
        let effects = if schedule.releases(round) {
            commit(&aggregator.idle(0), round);
            aggregator.committed(round, 0).unwrap()
        } else {
            let refused = refusal(&aggregator.receive(update(0, round, 1.0), 0));
            let expected = UpdateRejected::NotCollected { sender: 0, round };
            assert_eq!(refused, expected);
            aggregator.idle(0)
        };
        let next = handout(&effects);
        seen.push((next.round, next.releases.len(), next.collects));
        if next.collects {
            assert_eq!(effects[1..], [Effect::Recall { round: round + 1 }]);
            aggregator.recalled(round + 1, None, 0).unwrap();
        } else {
            assert_eq!(effects.len(), 1);
        }
    }
    let expected = [
        (1, 1, false),
        (2, 0, false),
        (3, 0, true),
        (4, 1, false),
        (5, 0, false),
        (6, 0, false),
        (7, 0, false),
        (8, 0, false),
    ];
    assert_eq!(seen, expected);
}

/// A schedule that is out of range is rejected, and the error names the parameter.
#[test]
fn impossible_schedules_are_refused() {
    for (n_releases, every, name) in [
        (0, 1, "number of releases"),
        (1, 0, "rounds from release to release"),
        (u64::MAX, 2, "number of releases"),
    ] {
        let error = ReleaseSchedule::new(n_releases, every, 0).unwrap_err();
        assert_eq!(error.name, name);
    }
    assert_eq!(ReleaseSchedule::new(u64::MAX, 1, 0).unwrap().last(), u64::MAX - 1);
}

/// INV-4, with a canary: vectors, and releases that are not durable yet, do not appear in the debug
/// output of the machine, its effects or its errors.
#[test]
fn debug_prints_no_number() {
    let canary = 123_456.75;
    let mut aggregator = begun(every_round(9));
    aggregator.receive(update(0, 0, canary), 0);
    let mut printed = vec![format!("{aggregator:?}")];
    let effects = aggregator.idle(0);
    printed.push(format!("{effects:?} {aggregator:?}"));
    let effects = aggregator.committed(0, 0).unwrap();
    printed.push(format!("{effects:?} {aggregator:?}"));
    let handed = handout(&effects);
    assert_eq!(total(&handed)[0].to_bits(), canary.to_bits()); // the canary is in the release
    printed.push(format!("{handed:?} {:?}", handed.releases[0]));
    let bytes = format!("{:?}", canary.to_le_bytes());
    let bytes = bytes.trim_matches(['[', ']']);
    assert!(format!("{:?}", handed.releases[0].bytes).contains(bytes));
    for text in printed {
        assert!(!text.contains("123456") && !text.contains(bytes), "{text}");
    }
}

/// A mechanism that cannot close a round.
struct Exhausted(Counting);

impl RoundMechanism for Exhausted {
    type Round = (u64, Vec<f64>);

    fn n_slots(&self) -> u32 {
        self.0.n_slots
    }

    fn n_features(&self) -> usize {
        self.0.n_features
    }

    fn open(&mut self, round: u64) -> Result<Self::Round, MechanismFailed> {
        self.0.open(round)
    }

    fn receive(
        &self,
        collecting: &mut Self::Round,
        slot: u32,
        vector: &[f64],
    ) -> Result<(), VectorRefused> {
        self.0.receive(collecting, slot, vector)
    }

    fn close(&mut self, _collecting: Self::Round) -> Result<PendingRelease, MechanismFailed> {
        Err(ReleaseRefused::UnknownFormat.into())
    }

    fn restore(&self, round: u64, bytes: &[u8]) -> Result<Aggregate, MechanismFailed> {
        self.0.restore(round, bytes)
    }
}

/// Without randomness, nothing leaves: there is no release and no later round, and no further
/// vectors are accepted.
#[test]
fn a_round_without_randomness_fails_and_nothing_follows() {
    let mechanism = Exhausted(Counting::new(3, 4));
    let mut aggregator = Aggregator::new(mechanism, every_round(5), map_hash(), None);
    aggregator.start(0);
    aggregator.recalled(0, None, 0).unwrap();
    for sender in 0..2 {
        assert_eq!(aggregator.receive(update(sender, 0, 1.0), 0), []);
    }
    let effects = aggregator.receive(update(2, 0, 1.0), 0);
    let [Effect::Fail(RoundError::Mechanism { round: 0, .. })] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!((aggregator.tick(u64::MAX), aggregator.idle(0)), (vec![], vec![]));
    assert_eq!(aggregator.deadline(), None);
    assert!(aggregator.committed(0, 0).is_err() && !aggregator.awaits(0, 0));
    assert_eq!(aggregator.round(), 0);
}

/// Plays a window of an aggregator. Returns the participants in its commit, and the refusals.
fn window(
    aggregator: &mut Aggregator<Counting>,
    round: u64,
    senders: &[u32],
) -> (Vec<u32>, Vec<UpdateRejected>) {
    let (begins, ends) = (10 * round, 10 * round + 10);
    assert_eq!(aggregator.recalled(round, None, begins).unwrap(), []);
    let mut refused = Vec::new();
    for sender in senders {
        match aggregator.receive(update(*sender, round, 1.0), begins + 1).as_slice() {
            [] => {}
            [Effect::Refuse(rejected)] => refused.push(rejected.clone()),
            other => panic!("{other:?}"),
        }
    }
    let closed = aggregator.tick(ends);
    let [Effect::Commit { participants, .. }] = closed.as_slice() else {
        panic!("a commit with its participants expected, not {closed:?}")
    };
    let participants = participants.clone();
    handout(&aggregator.committed(round, ends).unwrap());
    (participants, refused)
}

/// A slot can be in any two of four releases, and its third vector is refused (k of T). The same
/// holds for a restarted coordinator that continues with the counts.
#[test]
fn a_slot_is_in_so_many_releases_and_in_no_more() {
    let instants = Some(Instants::new(10, 10).unwrap());
    let limited = |counts| aggregator(every_round(9), instants).with_participations(counts);
    let mut first = limited(Participations::new(3, 2));
    assert_eq!(window(&mut first, 0, &[0, 2]), (vec![0, 2], vec![]));
    assert_eq!(window(&mut first, 1, &[0, 1]), (vec![0, 1], vec![]));
    let spent = UpdateRejected::Spent { sender: 0, most: 2 };
    assert_eq!(window(&mut first, 2, &[0, 1, 2]), (vec![1, 2], vec![spent.clone()]));
    // The coordinator is killed and restarted in the current window.
    let mut counts = Participations::new(3, 2);
    for (round, slots) in [(0, [0, 2]), (1, [0, 1]), (2, [1, 2])] {
        slots.iter().for_each(|slot| counts.count(*slot, round));
    }
    let mut again = Aggregator::new(Counting::new(3, 4), every_round(9), map_hash(), instants)
        .with_participations(counts)
        .from_round(3);
    assert_eq!(again.start(30), [Effect::Recall { round: 3 }]);
    let all = [0, 1, 2].map(|sender| UpdateRejected::Spent { sender, most: 2 });
    assert_eq!(window(&mut again, 3, &[0, 1, 2]), (vec![], all.to_vec()));
}
