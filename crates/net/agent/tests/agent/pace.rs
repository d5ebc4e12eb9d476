//! The instants of an agent's requests reveal nothing about its trials (INV-12), and clocks are
//! compared before anything is evaluated.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fedbo_agent::{RunError, Step, short_rounds, status};
use fedbo_objective::{Objective, Outcome, TrialId};
use fedbo_space::Point;
use fedbo_wire::StudyState;

use crate::coordinator::TestCoordinator;
use crate::ways::{note, now_ms, pass_time};
use crate::world::{Bump, CHARGED, Member, coordinator, finish, members, take_turns};

/// An objective whose duration reveals if the point is below one half.
struct RevealingDuration {
    below: Duration,
    above: Duration,
}

impl Objective for RevealingDuration {
    fn evaluate(&self, point: &Point, trial: TrialId) -> Outcome {
        pass_time(match point.number("x") < 0.5 {
            true => self.below,
            false => self.above,
        });
        Bump.evaluate(point, trial)
    }
}

/// The times of uploads, by slot and round, and the times at which each slot polled, in
/// milliseconds since the start of the round.
type Heard = (BTreeMap<(u32, u64), Vec<u64>>, Vec<(u32, u64)>);

fn heard(below: u64, above: u64) -> Heard {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("pace", "dp-fts-de", CHARGED);
    let mut members = members(folder.path(), &coordinator);
    let (below, above) = (Duration::from_millis(below), Duration::from_millis(above));
    for member in &mut members {
        member.objective = Arc::new(RevealingDuration { below, above });
    }
    let mut sessions: Vec<_> = members.iter().map(|m| m.session().unwrap()).collect();
    take_turns(&mut sessions);
    drop(sessions);
    let sides = members.iter().flat_map(|member| member.trials());
    let n_above = sides.filter(|(point, ..)| point.number("x") >= 0.5).count();
    assert!((1..18).contains(&n_above), "both sides were asked");
    let coordinator = coordinator.borrow();
    (coordinator.came_ms.clone(), coordinator.asked_ms.clone())
}

/// The durations of trials reveal their points and values, but an observer of the network sees the
/// same times for all durations. In virtual time, only waits and trials take time, so the tolerance
/// is zero.
#[test]
fn upload_time_uncorrelated() {
    let at_once = heard(0, 0);
    assert_eq!(at_once.0.len(), 9, "3 releases of 3 agents");
    for ((_, round), offsets) in &at_once.0 {
        // Vectors are accepted for 54 seconds. Uploads arrive in the ten seconds before the last
        // ten. Round 0 is longer by the duration of a round.
        let longer = if *round == 0 { 60_000 } else { 0 };
        assert!(offsets.len() == 1 && (34_000..=44_000).contains(&(offsets[0] - longer)));
    }
    assert_eq!(heard(1, 4_000), at_once);
    assert_eq!(heard(4_000, 1), at_once);
    // A round's instant does not determine the instant of the next round.
    let of_first: Vec<u64> = (0..3).map(|round| at_once.0[&(0, round)][0]).collect();
    assert!(of_first[0] != of_first[1] && of_first[1] != of_first[2]);
}

/// An agent that is not done in time is a straggler: nothing is sent or charged, and the agent
/// polls at the next round boundary.
#[test]
fn a_trial_that_is_too_long_sends_nothing_and_shows_no_more_than_that() {
    for took in [52_500, 55_000, 59_999] {
        let folder = tempfile::tempdir().unwrap();
        let coordinator = coordinator("pace", "dp-fts-de", CHARGED);
        let mut members = members(folder.path(), &coordinator);
        let took = Duration::from_millis(took);
        members[0].objective = Arc::new(RevealingDuration { below: took, above: took });
        let mut session = members[0].session().unwrap();
        assert_eq!(finish(&mut session, 3).unwrap(), None);
        drop(session);
        assert!(coordinator.borrow().arrived.is_empty());
        assert_eq!(members[0].ears.count("missed 0 late"), 1);
        assert_eq!(coordinator.borrow().asked_ms[0], (0, 120_000));
        let spent = status(&members[0].home).unwrap().privacy.unwrap();
        assert_eq!(spent.spent.unwrap().n_releases, 0);
        // A reopened session behaves the same.
        let mut session = members[0].session().unwrap();
        finish(&mut session, 3).unwrap();
        assert!(coordinator.borrow().arrived.is_empty());
    }
}

/// Creates a study whose round starts or restarts at `begins_ms`, and its agents. The first agent's
/// trials take `took_ms`.
fn one(
    begins_ms: u64,
    took_ms: u64,
) -> (tempfile::TempDir, Rc<RefCell<TestCoordinator>>, Vec<Member>) {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("pace", "dp-fts-de", CHARGED);
    coordinator.borrow_mut().begins_ms = Some(begins_ms);
    let mut members = members(folder.path(), &coordinator);
    let took = Duration::from_millis(took_ms);
    members[0].objective = Arc::new(RevealingDuration { below: took, above: took });
    (folder, coordinator, members)
}

/// Returns the number of uploads that an agent has paid for.
fn n_charged(member: &Member) -> u64 {
    let spent = status(&member.home).unwrap().privacy.unwrap();
    spent.spent.unwrap().n_releases
}

/// A study begins during an agent's first trials. The agent detects the start without revealing the
/// duration of the trials, and sends at the round's scheduled instant, or not at all.
#[test]
fn a_study_that_begins_during_the_first_trials_gets_uploads_at_its_instant() {
    let set = heard(0, 0).0[&(0, 0)].clone();
    for (took_ms, is_in_time) in [(1_000, true), (4_000, true), (25_000, true), (55_000, false)] {
        let began_ms = now_ms() + 1_500;
        let (_folder, coordinator, members) = one(began_ms, took_ms);
        coordinator.borrow_mut().state = StudyState::Waiting;
        let ended_ms = now_ms() + 2 * took_ms;
        finish(&mut members[0].session().unwrap(), 3).unwrap();
        // The agent requested the state at the start, and then at a multiple of a quarter of the
        // round.
        let looked_ms: Vec<u64> =
            coordinator.borrow().looked_ms.iter().map(|(_, at)| *at).collect();
        assert_eq!(looked_ms[1], ended_ms.next_multiple_of(15_000));
        let came = coordinator.borrow().came_ms.clone();
        assert_eq!(came.get(&(0, 0)), is_in_time.then_some(&set), "{took_ms}");
        assert_eq!(n_charged(&members[0]), u64::from(is_in_time));
        let missed = members[0].ears.count("missed 0 late");
        assert_eq!(missed, usize::from(!is_in_time));
    }
    // An agent that is done before the study begins waits for the start.
    let began_ms = now_ms() + 100_000;
    let (_folder, coordinator, members) = one(began_ms, 1_000);
    coordinator.borrow_mut().state = StudyState::Waiting;
    let mut session = members[0].session().unwrap();
    assert_eq!(finish(&mut session, 10).unwrap(), None);
    assert_eq!(n_charged(&members[0]), 0, "nothing is sent yet");
    assert_eq!(members[0].ears.count("waits waiting"), 1);
    finish(&mut session, 100).unwrap();
    // The agent detects the start within a second.
    let came = coordinator.borrow().came_ms[&(0, 0)].clone();
    assert_eq!(came, set);
}

/// A coordinator and its round are restarted while an agent evaluates a trial. The agent would have
/// been late for the old round. It detects the restart at the round boundary, and is in time.
#[test]
fn a_round_that_begins_anew_during_a_trial_is_not_missed() {
    let set = heard(0, 0).0[&(0, 0)].clone();
    let since_ms = now_ms();
    let (_folder, coordinator, members) = one(since_ms + 40_000, 55_000);
    finish(&mut members[0].session().unwrap(), 3).unwrap();
    assert_eq!(members[0].ears.count("missed"), 0);
    assert_eq!(coordinator.borrow().came_ms[&(0, 0)], set);
    assert_eq!(n_charged(&members[0]), 1);
    // The trials ended at 110 s, which no request reveals.
    let looked_ms: Vec<u64> = coordinator.borrow().looked_ms.iter().map(|(_, at)| *at).collect();
    assert_eq!(looked_ms, [since_ms, since_ms + 120_000]);
}

/// The reported round is unsigned. A forged round makes an agent miss at most one round.
#[test]
fn a_forged_round_does_not_mute_an_agent() {
    let sent = heard(0, 0).0;
    for (forged, n_missed) in [(1_000_000, 0), (4, 1)] {
        let (_folder, coordinator, members) = one(now_ms(), 0);
        coordinator.borrow_mut().forged = Some(forged);
        let mut sessions: Vec<_> = members.iter().map(|m| m.session().unwrap()).collect();
        take_turns(&mut sessions);
        drop(sessions);
        assert_eq!(members[0].ears.count("missed"), n_missed);
        let missed = (0, 0);
        let mut expected = sent.clone();
        expected.retain(|upload, _| n_missed == 0 || *upload != missed);
        assert_eq!(coordinator.borrow().came_ms, expected);
    }
}

#[test]
fn rounds_that_are_short_are_warned_of() {
    for (algorithm, network, is_warned) in [
        ("dp-fts-de", "round_s = 2.5", true),
        ("dp-fts-de", "round_s = 10.0", false),
        ("fts", "round_s = 2.5", false),
        ("fts", "round_s = 2.5\ncollect_s = 2.0", true),
    ] {
        let privacy = if algorithm == "fts" { "" } else { CHARGED };
        let coordinator =
            coordinator("pace", algorithm, &format!("{privacy}[network]\n{network}\n"));
        let warning = short_rounds(&coordinator.borrow().federation);
        assert_eq!(warning.is_some(), is_warned, "{algorithm} {network}");
        let is_clear = |text: String| text.contains("2.5 s") && text.contains("round_s of 10");
        assert!(warning.is_none_or(is_clear));
    }
}

/// Relayed messages are sent as soon as trials end, unless the study has scheduled instants.
#[test]
fn a_relayed_study_has_an_instant_where_it_sets_one() {
    for (more, is_set) in [("", false), ("[network]\ncollect_s = 54.0\n", true)] {
        let folder = tempfile::tempdir().unwrap();
        let coordinator = coordinator("pace", "fts", more);
        let members = members(folder.path(), &coordinator);
        let mut sessions: Vec<_> = members.iter().map(|m| m.session().unwrap()).collect();
        take_turns(&mut sessions);
        let coordinator = coordinator.borrow();
        let mut offsets = coordinator.came_ms.values().flatten();
        assert!(offsets.all(|offset| (*offset >= 34_000) == is_set));
    }
}

#[test]
fn clocks_are_compared_before_anything_is_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("pace", "dp-fts-de", CHARGED);
    let members = members(folder.path(), &coordinator);
    members[0].clock.ahead_ms.set(301_000);
    let error = finish(&mut members[0].session().unwrap(), 3).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, RunError::Clock(_)), "{text}");
    for words in ["2023-11-14 22:18:21.000", "2023-11-14 22:13:20.000", "set the clock"] {
        assert!(text.contains(words), "{text}");
    }
    assert_eq!(members[0].ears.count("started"), 0);
    members[0].clock.ahead_ms.set(299_000);
    finish(&mut members[0].session().unwrap(), 3).unwrap();
    assert!(members[0].ears.count("ended") > 0);
}

/// INV-26: during the rounds, an agent's files contain only the vector of the newest round. A
/// restarted agent still recognizes its earlier uploads.
#[test]
fn vectors_do_not_outlive_their_use() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("pace", "dp-fts-de", CHARGED);
    let members = members(folder.path(), &coordinator);
    let mut sessions: Vec<_> = members.iter().map(|m| m.session().unwrap()).collect();
    let mut ended = [false; 3];
    let mut seen = BTreeMap::new();
    while ended != [true; 3] {
        for (at, session) in sessions.iter_mut().enumerate() {
            if !ended[at] {
                let step = note(session.advance().unwrap(), 3);
                ended[at] = matches!(step, Step::Ended(_));
            }
            let (member, slot) = (&members[at], u32::try_from(at).unwrap());
            let coordinator = coordinator.borrow();
            for ((_, round), bodies) in coordinator.arrived.range((slot, 0)..=(slot, u64::MAX)) {
                let is_of_use = *round == member.newest_round() && !ended[at];
                if seen.insert((at, round.to_owned()), is_of_use) != Some(is_of_use) {
                    let place = format!("slot {slot}, round {round}");
                    assert_eq!(member.holds(&bodies[0]), is_of_use, "{place}");
                }
            }
        }
    }
    assert_eq!(seen.len(), 9, "3 uploads of 3 agents");
    drop(sessions);
    // Replayed uploads are compared with the hashes.
    for member in &members {
        finish(&mut member.session().unwrap(), 3).unwrap();
    }
}
