//! Enrolment, key rotations and moves, including interrupted ones.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use fedbo_agent::{
    EnrolError, EnrolOptions, Home, Link, Membership, MoveError, MoveOptions, RotateError,
    enrol_with, move_with, rotate_with, status,
};
use fedbo_transport::LinkError;
use fedbo_wire::{PublicKey, SigningKey};

use crate::coordinator::TestCoordinator;
use crate::ways::{Cutter, TestLink, token};
use crate::world::{Member, coordinator, finish, members, options, take_turns};

fn rotated(home: &Path, link: &TestLink) -> Result<PublicKey, RotateError> {
    let to = |_: &Membership| -> Result<Box<dyn Link>, LinkError> { Ok(Box::new(link.clone())) };
    rotate_with(home, &to)
}

#[test]
fn enrolment_that_dies_at_any_moment_can_be_done_again() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let coordinator = coordinator("enrol", "fts", "");
    let link = TestLink::new(&coordinator);
    let options = options(&home, token(&coordinator.borrow(), 1));
    let mut n_cut = 0;
    let membership = loop {
        link.cutter.after(n_cut);
        match Cutter::within(|| enrol_with(&options, &link)) {
            Some(enrolled) => break enrolled.unwrap(),
            None => n_cut += 1,
        }
    };
    assert!(n_cut >= 4, "{n_cut} moments");
    link.cutter.never();
    let again = enrol_with(&options, &link).unwrap();
    assert_eq!(again, membership);
    assert_eq!((membership.slot, membership.agent.as_str()), (1, "south"));
    assert_eq!(membership.key, coordinator.borrow().keys[&1]);
    let progress = status(&home).unwrap();
    assert_eq!(progress.memberships.len(), 1);
    assert!(progress.privacy.is_none() && progress.memberships[0].round.is_none());
}

fn refused(change: impl Fn(&mut TestCoordinator), words: &str) {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("enrol", "fts", "");
    let token = token(&coordinator.borrow(), 1);
    change(&mut coordinator.borrow_mut());
    let error =
        enrol_with(&options(folder.path(), token), &TestLink::new(&coordinator)).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, EnrolError::Impostor { .. }), "{text}");
    assert!(text.contains(words), "{text}");
    assert!(Home::open(folder.path()).unwrap().memberships().unwrap().is_empty());
}

#[test]
fn whoever_is_not_the_coordinator_of_the_token_is_refused() {
    refused(|coordinator| coordinator.key = SigningKey::from_seed([1; 32]), "the token names");
}

/// A coordinator assigns a different slot than the offered one. Nothing is stored.
#[test]
fn a_slot_that_was_not_offered_is_refused() {
    let changes: [fn(&mut TestCoordinator); 2] = [
        |coordinator| coordinator.federation.name = "other".to_owned(),
        |coordinator| coordinator.federation.agents[1].name = "east".to_owned(),
    ];
    for change in changes {
        let folder = tempfile::tempdir().unwrap();
        let coordinator = coordinator("enrol", "fts", "");
        let token = token(&coordinator.borrow(), 1);
        change(&mut coordinator.borrow_mut());
        let link = TestLink::new(&coordinator);
        let error = enrol_with(&options(folder.path(), token), &link).unwrap_err();
        assert!(matches!(error, EnrolError::OtherPlace { .. }), "{error}");
        assert!(Home::open(folder.path()).unwrap().memberships().unwrap().is_empty());
    }
}

/// Everything is checked before the slot is claimed, so a study that starts when its last agent
/// joins does not start after a refused enrolment.
#[test]
fn a_refused_enrolment_leaves_the_token_usable() {
    let folder = tempfile::tempdir().unwrap();
    let first = coordinator("enrol", "ts", "");
    Member::enrol(&folder.path().join("taken"), &first, 0);
    let coordinator = coordinator("enrol", "fts", "");
    let link = TestLink::new(&coordinator);
    let token = |n| token(&coordinator.borrow(), n);
    let unneeded = |home: &Path| {
        let card = fedbo_servers::card_of(&SigningKey::from_seed([3; 32]));
        EnrolOptions { helper: Some(card), ..options(home, token(1)) }
    };
    let refused = |options: &EnrolOptions| {
        let error = enrol_with(options, &link).unwrap_err().to_string();
        assert_eq!(coordinator.borrow().n_enrolments, 0, "{error}");
        assert!(coordinator.borrow().keys.is_empty(), "{error}");
        error
    };
    let error = refused(&unneeded(&folder.path().join("home")));
    assert!(
        error.contains("--helper names one") && error.contains("the token was not used"),
        "{error}"
    );
    let error = refused(&options(&folder.path().join("taken"), token(1)));
    assert!(error.contains("another configuration"), "{error}");
    let joined = enrol_with(&options(&folder.path().join("other"), token(1)), &link).unwrap();
    assert_eq!(joined.key, coordinator.borrow().keys[&1]);
}

/// Nothing is signed and no part of the token is sent until the coordinator has proved its
/// identity.
#[test]
fn an_impostor_hears_of_no_key_and_of_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("enrol", "fts", "");
    let token = token(&coordinator.borrow(), 1);
    coordinator.borrow_mut().key = SigningKey::from_seed([1; 32]);
    enrol_with(&options(folder.path(), token), &TestLink::new(&coordinator)).unwrap_err();
    assert_eq!(coordinator.borrow().n_enrolments, 0);
    assert!(coordinator.borrow().keys.is_empty());
}

/// INV-11: a party joins exactly the study that it agreed to when it received its token.
#[test]
fn a_configuration_that_was_changed_after_the_token_was_made_is_refused() {
    let change = |coordinator: &mut TestCoordinator| {
        coordinator.text = coordinator.text.replace("rounds = 4", "rounds = 5")
    };
    refused(change, "is not the one that the token was made for");
}

#[test]
fn another_study_of_the_same_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = coordinator("enrol", "fts", "");
    Member::enrol(folder.path(), &first, 0);
    let second = coordinator("enrol", "ts", "");
    let options = options(folder.path(), token(&second.borrow(), 0));
    let error = enrol_with(&options, &TestLink::new(&second)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("another configuration") && text.contains("another home"), "{text}");
}

#[test]
fn a_change_of_keys_that_dies_at_any_moment_can_be_done_again_and_runs_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("rotate", "fts", "");
    let members = members(folder.path(), &coordinator);
    let home = &members[0].home;
    let link = &members[0].link;
    let before = coordinator.borrow().keys[&0];
    let mut n_cut = 0;
    let key = loop {
        link.cutter.after(n_cut);
        let done = Cutter::within(|| rotated(home, link));
        link.cutter.never();
        // A run finds the key that the coordinator knows, wherever the rotation was interrupted.
        let mut session = members[0].session().unwrap();
        finish(&mut session, 3).unwrap();
        match done {
            Some(key) => break key.unwrap(),
            None => n_cut += 1,
        }
    };
    assert!(n_cut >= 2 && key != before, "{n_cut} moments");
    assert_eq!(coordinator.borrow().keys[&0], key);
    assert!(!home.join("identity.key.next").exists());
    let mut sessions: Vec<_> = members.iter().map(|m| m.session().unwrap()).collect();
    take_turns(&mut sessions);
}

#[test]
fn a_coordinator_that_does_not_answer_leaves_both_keys() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("rotate", "fts", "");
    let members = members(folder.path(), &coordinator);
    let home = &members[0].home;
    // The rotation is carried out, but the response gets lost.
    members[0].link.n_lost.set(1);
    let error = rotated(home, &members[0].link).unwrap_err().to_string();
    assert!(error.contains("run the command again"), "{error}");
    assert!(home.join("identity.key.next").exists());
    let known = coordinator.borrow().keys[&0];
    let mut session = members[0].session().unwrap();
    finish(&mut session, 3).unwrap();
    // The key cannot change while a study runs.
    let error = rotated(home, &members[0].link).unwrap_err().to_string();
    assert!(error.contains("runs this study"), "{error}");
    drop(session);
    assert_eq!(rotated(home, &members[0].link).unwrap(), known);
    assert!(!home.join("identity.key.next").exists());
}

#[test]
fn several_studies_are_named_when_none_is() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let coordinator: Rc<RefCell<TestCoordinator>> = coordinator(name, "fts", "");
        Member::enrol(folder.path(), &coordinator, 0);
    }
    let home = Home::open(folder.path()).unwrap();
    let error = home.membership(None).unwrap_err().to_string();
    assert!(error.contains("\"a\", \"b\"") && error.contains("agent.study"), "{error}");
    let error = home.membership(Some("c")).unwrap_err().to_string();
    assert!(error.contains("does not take part in study \"c\""), "{error}");
    assert_eq!(home.membership(Some("b")).unwrap().study, "b");
}

fn moved(home: &Path, link: &TestLink, url: &str) -> Result<Vec<Membership>, MoveError> {
    let options = MoveOptions {
        home: home.to_owned(),
        study: None,
        coordinator_url: url.to_owned(),
        ca: None,
        allow_plain_http: false,
    };
    move_with(&options, &|_, _, _| Ok(Box::new(link.clone())))
}

#[test]
fn an_agent_moves_to_an_address_that_proves_the_coordinators_key() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("move", "fts", "");
    let member = Member::enrol(folder.path(), &coordinator, 0);
    let url = "https://new.example:7433";
    let moved = moved(&member.home, &member.link, url).unwrap();
    assert_eq!(moved.len(), 1);
    let kept = Home::open(&member.home).unwrap().membership(None).unwrap();
    assert_eq!((kept.url.as_str(), &kept), (url, &moved[0]));
}

#[test]
fn an_address_without_the_coordinators_key_or_study_is_not_taken() {
    type Change = fn(&mut TestCoordinator);
    let impostor: [(Change, &str); 2] = [
        (|it| it.key = SigningKey::from_seed([1; 32]), "has the key"),
        (
            |it| it.text = it.text.replace("rounds = 4", "rounds = 5"),
            "is not the one that the agent has agreed to",
        ),
    ];
    for (change, words) in impostor {
        let folder = tempfile::tempdir().unwrap();
        let coordinator = coordinator("move", "fts", "");
        let member = Member::enrol(folder.path(), &coordinator, 0);
        let before = Home::open(&member.home).unwrap().membership(None).unwrap();
        change(&mut coordinator.borrow_mut());
        let error = moved(&member.home, &member.link, "https://new.example").unwrap_err();
        assert!(matches!(error, MoveError::Impostor { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(Home::open(&member.home).unwrap().membership(None).unwrap(), before);
    }
    // An address with plain HTTP beyond this machine is an error.
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("move", "fts", "");
    let member = Member::enrol(folder.path(), &coordinator, 0);
    let error = moved(&member.home, &member.link, "http://new.example").unwrap_err();
    assert!(matches!(error, MoveError::Url { .. }), "{error}");
}
