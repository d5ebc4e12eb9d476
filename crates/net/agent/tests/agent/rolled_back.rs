//! A home that was restored from an older copy, or is used on two machines, is detected before it
//! sends anything, and pays for everything that was sent in its name (INV-28).

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fedbo_agent::{
    Ended, Link, Membership, ReconcileError, Reconciled, RunError, Session, Step, reconcile_with,
    status,
};
use fedbo_transport::LinkError;
use fedbo_wire::{Account, Digest, ProblemCode, SigningKey};

use crate::coordinator::TestCoordinator;
use crate::ways::{TestClock, TestLink, now_ms, pass_time};
use crate::world::{CHARGED, Member, coordinator, finish, members, take_turns};

/// Copies a home, which must not be open.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// Replaces a home by a copy.
fn restore(copied: &Path, home: &Path) {
    fs::remove_dir_all(home).unwrap();
    copy(copied, home);
}

fn releases(home: &Path) -> u64 {
    status(home).unwrap().privacy.unwrap().spent.unwrap().n_releases
}

fn n_arrived(coordinator: &RefCell<TestCoordinator>) -> usize {
    let coordinator = coordinator.borrow();
    let of_slot = coordinator.arrived.iter().filter(|((slot, _), _)| *slot == 0);
    of_slot.map(|(_, bodies)| bodies.len()).sum()
}

fn reconciled(home: &Path, link: &TestLink) -> Result<Vec<Reconciled>, ReconcileError> {
    let to = |_: &Membership| -> Result<Box<dyn Link>, LinkError> { Ok(Box::new(link.clone())) };
    reconcile_with(home, None, &to, &TestClock::default())
}

/// Creates a study. Also returns a copy of one agent's home, made right after its enrolment.
fn study(folder: &Path, privacy: &str) -> (Rc<RefCell<TestCoordinator>>, Vec<Member>, PathBuf) {
    let coordinator = coordinator("mill", "dp-fts-de", privacy);
    let members = members(folder, &coordinator);
    // The agent has an account after its first run.
    drop(members[0].session().unwrap());
    let copied = folder.join("copied");
    copy(&members[0].home, &copied);
    (coordinator, members, copied)
}

fn play(members: &[Member]) {
    let mut sessions: Vec<Session<'_>> = members.iter().map(|m| m.session().unwrap()).collect();
    assert_eq!(take_turns(&mut sessions), vec![Ended::Complete; 3]);
}

/// Returns the error that ends a session.
fn refused(member: &Member) -> RunError {
    finish(&mut member.session().unwrap(), 9).unwrap_err()
}

#[test]
fn a_home_that_was_rolled_back_pays_for_what_it_does_not_know_and_sends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (coordinator, members, copied) = study(folder.path(), CHARGED);
    play(&members);
    let home = &members[0].home;
    assert_eq!(releases(home), 3);
    restore(&copied, home);
    assert_eq!(releases(home), 0);
    let before = n_arrived(&coordinator);
    for attempt in 0..2 {
        let error = refused(&members[0]);
        assert!(matches!(&error, RunError::RolledBack { home: 0, .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains("restored") && said.contains("`fedbo agent reconcile`"), "{said}");
        assert_eq!(releases(home), 3, "charged once, however often it is looked at");
        assert_eq!(members[0].ears.count("taken over mill [0, 1, 2]"), 1, "attempt {attempt}");
    }
    assert_eq!(n_arrived(&coordinator), before);
    // The other homes are unaffected.
    let mut other = members[1].session().unwrap();
    assert_eq!(finish(&mut other, 3).unwrap(), Some(Ended::Complete));
}

/// Reconciliation verifies the ledger and charges its rounds, and the agent continues.
#[test]
fn reconcile_takes_the_spending_over_and_lets_the_agent_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (coordinator, members, copied) = study(folder.path(), CHARGED);
    play(&members);
    let (home, link) = (&members[0].home, &members[0].link);
    restore(&copied, home);
    let known = coordinator.borrow().counters[&0];
    let found = reconciled(home, link).unwrap().remove(0);
    assert_eq!((found.counter_before, found.counter), (0, known + 1));
    assert_eq!(found.charged, [("mill".to_owned(), vec![0, 1, 2])]);
    assert_eq!((found.n_releases, found.head), (3, Some(coordinator.borrow().head)));
    assert_eq!(releases(home), 3);
    // A second call changes only the request counter.
    let again = reconciled(home, link).unwrap().remove(0);
    assert_eq!((again.charged, again.counter_before), (Vec::new(), known + 1));
    let mut session = members[0].session().unwrap();
    let ended = finish(&mut session, 9).unwrap();
    assert!(ended.is_some(), "it goes on with what it has");
    drop(session);
    assert_eq!(releases(home), 3);
    // A finished study is included only if named.
    assert_eq!(reconciled(home, link).unwrap(), []);
}

/// If two machines have the same home, each detects the other, and each round is paid for exactly
/// once.
#[test]
fn two_machines_with_one_home_notice_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let (coordinator, members, copied) = study(folder.path(), CHARGED);
    let twin = Member::unenrolled(&copied, &coordinator);
    // The first machine delivers round 0.
    let mut first = members[0].session().unwrap();
    while members[0].ears.count("sent 0") == 0 {
        if let Step::Waits(time) = first.advance().unwrap() {
            pass_time(time);
        }
    }
    assert!(matches!(refused(&twin), RunError::RolledBack { .. }));
    assert_eq!(twin.ears.count("taken over mill [0]"), 1);
    let found = reconciled(&twin.home, &twin.link).unwrap().remove(0);
    assert_eq!((found.n_releases, found.charged), (0, Vec::new()));
    // The second machine continues with the same round, which restarts. The round has one vector
    // and one charge.
    coordinator.borrow_mut().began_ms = now_ms();
    let mut second = twin.session().unwrap();
    while twin.ears.count("sent 0") == 0 {
        if let Step::Waits(time) = second.advance().unwrap() {
            pass_time(time);
        }
    }
    drop(second);
    assert_eq!(releases(&twin.home), 1);
    // The first machine is now behind, and its next request ends the session.
    let error = finish(&mut first, 99).unwrap_err();
    assert!(matches!(error, RunError::RolledBack { .. }), "{error}");
    drop(first);
    assert_eq!(releases(&members[0].home), 1);
}

/// Lost responses, and crashes between any two steps, do not look like a home that was rolled back.
#[test]
fn lost_responses_and_sudden_ends_do_not_look_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let (_, members, _) = study(folder.path(), CHARGED);
    members[0].link.n_lost.set(7);
    play(&members);
    assert_eq!(releases(&members[0].home), 3);
    assert_eq!(members[0].ears.count("taken over"), 0);
}

/// A coordinator that has forgotten requests that got a response is recognized as restored from a
/// backup. Its ledger is checked as usual.
#[test]
fn a_coordinator_that_has_forgotten_requests_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (coordinator, members, _) = study(folder.path(), CHARGED);
    let mut session = members[0].session().unwrap();
    finish(&mut session, 5).unwrap();
    drop(session);
    let before = coordinator.borrow_mut().counters.insert(0, 0).unwrap();
    assert!(before > 1);
    let mut session = members[0].session().unwrap();
    finish(&mut session, 5).unwrap();
    assert_eq!(members[0].ears.count("forgotten 0 "), 1);
    assert!(coordinator.borrow().counters[&0] > before);
}

/// Releases by an earlier version have no record of their participants. A home that was rolled back
/// pays for all of them, and any other home for none.
#[test]
fn releases_without_a_record_are_charged_to_a_home_that_was_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let (coordinator, members, copied) = study(folder.path(), CHARGED);
    play(&members);
    coordinator.borrow_mut().unrecorded = vec![0, 1];
    let mut session = members[0].session().unwrap();
    finish(&mut session, 3).unwrap();
    drop(session);
    assert_eq!(members[0].ears.count("taken over"), 0);
    restore(&copied, &members[0].home);
    assert!(matches!(refused(&members[0]), RunError::RolledBack { .. }));
    assert_eq!(members[0].ears.count("taken over mill [0, 1, 2]"), 1);
}

/// A coordinator's account of an agent is accepted only if it is signed, in order, and at the
/// agreed price.
#[test]
fn an_account_that_cannot_be_is_refused_and_charges_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (coordinator, members, copied) = study(folder.path(), CHARGED);
    play(&members);
    let home = &members[0].home;
    restore(&copied, home);
    // The account contains a round that is not in the ledger.
    coordinator.borrow_mut().counted.insert((0, 3));
    let error = reconciled(home, &members[0].link).unwrap_err().to_string();
    assert!(error.contains("release of round 3") && error.contains("signed ledger"), "{error}");
    assert_eq!(releases(home), 0);
    coordinator.borrow_mut().counted.insert((0, 9_999_999));
    let error = refused(&members[0]).to_string();
    assert!(error.contains("not in order"), "{error}");
    assert_eq!(releases(home), 0);
    // The account is signed with a different key.
    let other = SigningKey::from_seed([77; 32]);
    let key = std::mem::replace(&mut coordinator.borrow_mut().key, other);
    let error = refused(&members[0]).to_string();
    assert!(error.contains("not signed by the coordinator"), "{error}");
    coordinator.borrow_mut().key = key;
    coordinator.borrow_mut().counted.retain(|(_, round)| *round < 3);
    type Falsify = fn(&mut Account);
    let falsified: [(Falsify, &str); 6] = [
        (|account| account.time_ms -= 301_000, "signature time is 301 s away"),
        (|account| account.studies[0].counter = u64::MAX, "no agent can have made"),
        (
            |account| account.studies[0].delivered.push((5, 5)),
            "rounds that the study does not have",
        ),
        (
            |account| account.studies[0].unrecorded.push((0, 5)),
            "rounds that the study does not have",
        ),
        (|account| account.studies[0].event.replace_range(.., "00"), "its event"),
        // The account contains unknown studies, with enough rounds to fill the home's disk.
        (
            |account| {
                for n in 0..3 {
                    let mut other = account.studies[0].clone();
                    (other.config, other.delivered) = (Digest([n; 32]), vec![(0, 499_999)]);
                    account.studies.push(other);
                }
            },
            "more than 1000000 rounds",
        ),
    ];
    for (falsify, words) in falsified {
        coordinator.borrow_mut().falsifies = Some(falsify);
        let error = refused(&members[0]).to_string();
        assert!(error.contains(words), "{error}");
        let error = reconciled(home, &members[0].link).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(releases(home), 0);
    }
    coordinator.borrow_mut().falsifies = None;
    assert!(matches!(refused(&members[0]), RunError::RolledBack { .. }));
    assert_eq!(releases(home), 3);
}

/// A coordinator's account must not contain another coordinator's studies.
#[test]
fn an_account_of_another_coordinators_study_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (coordinator, members, _) = study(folder.path(), CHARGED);
    let home = &members[0].home;
    let other = crate::world::coordinator("quarry", "dp-fts-de", CHARGED);
    let key = SigningKey::from_seed([78; 32]);
    let (first, second) = (other.borrow().key.public().to_string(), key.public().to_string());
    let text = other.borrow().text.replace(&first, &second);
    other.borrow_mut().text = text;
    other.borrow_mut().key = key;
    let member = Member::enrol(home, &other, 0);
    other.borrow_mut().falsifies = Some(|account| {
        let study = &mut account.studies[0];
        let text = crate::world::coordinator("mill", "dp-fts-de", CHARGED);
        (study.config, study.delivered) = (text.borrow().digest(), vec![(0, 2)]);
    });
    let error = refused(&member).to_string();
    assert!(error.contains("belongs to another coordinator"), "{error}");
    play(&members);
    assert_eq!(releases(home), 3);
    assert_eq!(coordinator.borrow().counted.len(), 9);
}

/// A request that was overtaken by a later request of the same home is sent again with a new
/// counter. It does not end the run.
#[test]
fn a_request_that_was_overtaken_is_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let (coordinator, members, _) = study(folder.path(), CHARGED);
    coordinator.borrow_mut().refuses = vec![ProblemCode::CounterBehind; 2].into();
    play(&members);
    assert_eq!(coordinator.borrow().refuses.len(), 0);
    assert_eq!(members.iter().map(|member| releases(&member.home)).collect::<Vec<_>>(), [3; 3]);
}

/// In a study without charges, only the counter reveals a home that was rolled back.
#[test]
fn a_relayed_study_notices_a_home_that_was_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("relay", "fts", "");
    let members = members(folder.path(), &coordinator);
    let copied = folder.path().join("copied");
    copy(&members[0].home, &copied);
    play(&members);
    restore(&copied, &members[0].home);
    assert!(matches!(refused(&members[0]), RunError::RolledBack { home: 0, .. }));
    let found = reconciled(&members[0].home, &members[0].link).unwrap().remove(0);
    assert_eq!((found.n_releases, found.head, found.charged), (0, None, Vec::new()));
    assert!(found.counter > 0);
}
