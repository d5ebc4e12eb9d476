//! Lost responses, temporary and permanent refusals, and missed rounds.

use std::cell::RefCell;
use std::rc::Rc;

use fedbo_agent::{Ended, Misconduct, RunError, Session, Step};
use fedbo_wire::{ProblemCode, StudyState};

use crate::coordinator::TestCoordinator;
use crate::ways::{note, now_ms};
use crate::world::{CHARGED, Member, SIMULATED, coordinator, finish, members, take_turns};

fn bodies(coordinator: &RefCell<TestCoordinator>, slot: u32, round: u64) -> Vec<Vec<u8>> {
    let coordinator = coordinator.borrow();
    coordinator.arrived.get(&(slot, round)).cloned().unwrap_or_default()
}

fn one(
    algorithm: &str,
    more: &str,
) -> (tempfile::TempDir, Rc<RefCell<TestCoordinator>>, Vec<Member>) {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("delivery", algorithm, more);
    let members = members(folder.path(), &coordinator);
    (folder, coordinator, members)
}

/// Advances an agent until its first upload has been attempted and decided.
fn first_upload(session: &mut Session<'_>) -> Result<(), RunError> {
    finish(session, 20).map(|ended| assert_eq!(ended, None, "it waits for the others"))
}

#[test]
fn an_upload_whose_answers_get_lost_is_sent_again_and_counts_once() {
    let (_folder, coordinator, members) = one("dp-fts-de", SIMULATED);
    let mut session = members[0].session().unwrap();
    members[0].link.n_lost.set(3);
    first_upload(&mut session).unwrap();
    let sent = bodies(&coordinator, 0, 0);
    assert_eq!(sent.len(), 4);
    assert!(sent.iter().all(|body| *body == sent[0]));
    assert_eq!(members[0].ears.count("retrying"), 3);
    assert_eq!(members[0].ears.count("sent 0"), 1);
    // Retries are made at instants that are determined by the slot, the round and the attempt:
    // after 50 % to 100 % of 2 s, 4 s and 8 s.
    let came = coordinator.borrow().came_ms[&(0, 0)].clone();
    for (pair, longest) in came.windows(2).zip([2_000, 4_000, 8_000]) {
        let wait = pair[1] - pair[0];
        assert!((longest / 2..=longest).contains(&wait), "{came:?}");
    }
    drop(session);
    // The other agents join a minute later. Without a restart of the round, they would be too late.
    coordinator.borrow_mut().began_ms = now_ms();
    // A whole federation still completes if every eleventh response gets lost.
    let mut sessions: Vec<_> = members.iter().map(|m| m.session().unwrap()).collect();
    let mut ended = [false; 3];
    for n in 0..100_000 {
        for (at, session) in
            sessions.iter_mut().enumerate().filter(|(at, _)| !ended[*at]).collect::<Vec<_>>()
        {
            members[at].link.n_lost.set(u32::from(n % 11 == at));
            let step = note(session.advance().unwrap(), 3);
            ended[at] = matches!(step, Step::Ended(Ended::Complete));
        }
        if ended == [true; 3] {
            break;
        }
    }
    assert_eq!(ended, [true; 3]);
    let coordinator = coordinator.borrow();
    assert_eq!(coordinator.counted.len(), 6, "2 releases of 3 agents");
    for bodies in coordinator.arrived.values() {
        assert!(bodies.iter().all(|body| *body == bodies[0]));
    }
}

#[test]
fn a_coordinator_that_lost_an_upload_gets_the_same_bytes() {
    let (_folder, coordinator, members) = one("dp-fts-de", CHARGED);
    let mut session = members[0].session().unwrap();
    first_upload(&mut session).unwrap();
    coordinator.borrow_mut().resend = Some(0);
    finish(&mut session, 5).unwrap();
    drop(session);
    coordinator.borrow_mut().resend = Some(0);
    // This also works after a restart of the agent, and with a lost response.
    members[0].link.n_lost.set(1);
    let mut session = members[0].session().unwrap();
    finish(&mut session, 5).unwrap();
    let sent = bodies(&coordinator, 0, 0);
    assert!(sent.len() >= 3 && sent.iter().all(|body| *body == sent[0]));
    assert_eq!(members[0].ears.count("resent 0"), 2);
    // The agent does not invent an upload that it never sent, and a request for one does not keep
    // it busy.
    coordinator.borrow_mut().resend = Some(2);
    assert_eq!(finish(&mut session, 5).unwrap(), None);
    assert!(bodies(&coordinator, 0, 2).is_empty());
}

/// A coordinator that was restored from a backup requests vectors of rounds that were released in a
/// different history, and gets none.
#[test]
fn a_coordinator_with_another_history_gets_no_vector_again() {
    let (_folder, coordinator, members) = one("dp-fts-de", CHARGED);
    let mut session = members[0].session().unwrap();
    first_upload(&mut session).unwrap();
    assert_eq!(bodies(&coordinator, 0, 0).len(), 1);
    let head = coordinator.borrow().head;
    coordinator.borrow_mut().head.hash = [9; 32];
    coordinator.borrow_mut().resend = Some(0);
    let refused = finish(&mut session, 5).unwrap_err();
    assert!(
        matches!(&refused, RunError::Misconduct(Misconduct::OtherHistory { expected, .. }) if *expected == head),
        "{refused}"
    );
    assert_eq!(bodies(&coordinator, 0, 0).len(), 1);
    drop(session);
    // The coordinator does not get the first vector of a restarted agent either.
    let mut session = members[1].session().unwrap();
    let refused = first_upload(&mut session).unwrap_err();
    assert!(matches!(refused, RunError::Misconduct(_)), "{refused}");
    assert!(bodies(&coordinator, 1, 0).is_empty());
}

/// While a study is paused, an agent polls at intervals, and reports once why it waits. A round
/// that ended before the pause is missed.
#[test]
fn a_paused_study_is_not_asked_without_rest() {
    for n_over in [0, 1] {
        let (_folder, coordinator, members) = one("dp-fts-de", SIMULATED);
        let mut session = members[0].session().unwrap();
        (0..n_over).for_each(|_| coordinator.borrow_mut().end_round());
        coordinator.borrow_mut().state = StudyState::Paused;
        let mut n_waits = 0;
        for _ in 0..60 {
            if let Step::Waits(time) = note(session.advance().unwrap(), 1) {
                assert!(time.as_millis() > 0);
                n_waits += 1;
            }
        }
        // Three trials and the requests between them take steps. All other steps wait.
        assert!(n_waits >= 40, "{n_waits}");
        assert_eq!(members[0].ears.count("waits paused"), 1);
        assert_eq!(members[0].ears.count("missed 0 late"), n_over);
        assert_eq!(members[0].ears.count("round 1"), n_over);
    }
}

#[test]
fn refusals_that_pass_are_waited_for() {
    let (_folder, coordinator, members) = one("fts", "");
    let codes = [
        ProblemCode::NotStarted,
        ProblemCode::Paused,
        ProblemCode::Busy,
        ProblemCode::Unavailable,
        ProblemCode::Internal,
        ProblemCode::Early,
    ];
    coordinator.borrow_mut().refuses.extend(codes);
    let mut session = members[0].session().unwrap();
    first_upload(&mut session).unwrap();
    // If a study has not started or is paused, the agent waits by polling, not by retrying.
    assert_eq!(members[0].ears.count("retrying"), codes.len() - 2);
    assert_eq!(bodies(&coordinator, 0, 0).len(), 1);
}

#[test]
fn an_upload_that_is_missed_is_not_sent_again_and_the_agent_goes_on() {
    for code in [ProblemCode::Late, ProblemCode::NotCollected] {
        let (_folder, coordinator, members) = one("dp-fts-de", SIMULATED);
        coordinator.borrow_mut().refuses.push_back(code);
        let mut session = members[0].session().unwrap();
        first_upload(&mut session).unwrap();
        drop(session);
        assert_eq!(members[0].ears.count(&format!("missed 0 {code}")), 1);
        let mut sessions: Vec<_> = members.iter().map(|m| m.session().unwrap()).collect();
        let ended = take_turns(&mut sessions);
        assert!(ended.iter().all(|ended| *ended == Ended::Complete));
        assert!(bodies(&coordinator, 0, 0).is_empty());
        assert_eq!(bodies(&coordinator, 0, 2).len(), 1, "the next release has it again");
    }
}

#[test]
fn refusals_that_do_not_pass_end_the_run_in_words() {
    for code in [
        ProblemCode::Conflict,
        ProblemCode::WrongConfig,
        ProblemCode::WrongMap,
        ProblemCode::BadSignature,
        ProblemCode::ClockDiffers,
        ProblemCode::Revoked,
    ] {
        let (_folder, coordinator, members) = one("fts", "");
        coordinator.borrow_mut().refuses.push_back(code);
        let mut session = members[0].session().unwrap();
        let error = first_upload(&mut session).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(code.name()) && text.contains("the test says"), "{text}");
        assert!(matches!(error, RunError::Refused { .. }));
        assert!(bodies(&coordinator, 0, 0).is_empty());
    }
}

/// An agent that was inactive for several rounds takes all new releases at once, and delivers
/// nothing for past rounds.
#[test]
fn a_slow_agent_gets_every_release_and_misses_rounds() {
    let (_folder, coordinator, members) = one("dp-fts-de", CHARGED);
    let mut sessions: Vec<_> = members.iter().map(|m| m.session().unwrap()).collect();
    let (slow, others) = sessions.split_first_mut().unwrap();
    for _ in 0..3 {
        for session in others.iter_mut() {
            finish(session, 2).unwrap();
        }
        coordinator.borrow_mut().end_round();
    }
    assert_eq!(coordinator.borrow().ledger.len(), 3);
    assert_eq!(finish(slow, 2).unwrap(), None);
    assert_eq!(members[0].ears.count("missed 0 late"), 1);
    assert_eq!(members[0].ears.count("round 3"), 1);
    assert_eq!(members[0].ears.count("round"), 1, "one handout brings all");
    let ended = take_turns(&mut sessions);
    assert!(ended.iter().all(|ended| *ended == Ended::Complete));
    assert_eq!(members[0].trials().len(), 4, "initial points, rounds 3 and 4");
}

#[test]
fn a_study_that_waits_is_said_once_and_one_that_is_over_ends_the_run() {
    let (_folder, coordinator, members) = one("fts", "");
    let mut session = members[0].session().unwrap();
    first_upload(&mut session).unwrap();
    coordinator.borrow_mut().state = StudyState::Paused;
    finish(&mut session, 5).unwrap();
    assert_eq!(members[0].ears.count("waits paused"), 1);
    let sent = coordinator.borrow().arrived[&(0, 0)][0].clone();
    assert!(members[0].holds(&sent));
    coordinator.borrow_mut().state = StudyState::Finished;
    assert_eq!(finish(&mut session, 5).unwrap(), Some(Ended::StudyOver));
    // The upload can no longer be requested again (INV-26).
    assert!(!members[0].holds(&sent));
}
