//! An agent's budget over all its studies holds, regardless of its coordinators' behavior (INV-13).

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_agent::{
    AgentFile, Caller, Ended, Home, Link, Offer, Place, Poll, Polled, RunError, RunOptions,
    Session, Silent, Step, status,
};
use fedbo_privacy::accounting::Claim;
use fedbo_transport::LinkError;
use fedbo_wire::{
    CoordinatorProof, Digest, EnrolRequest, Enrolled, RotateRequest, SigningKey, StudyStatus,
};

use crate::coordinator::TestCoordinator;
use crate::ways::{TestLink, note};
use crate::world::{
    CHARGED, Member, SIMULATED, budget, coordinator, finish, frozen, members, take_turns,
    three_agents,
};

/// A budget for more than one study, which costs 2.0, but not for two.
const CAP: f64 = 2.7;

fn spent(home: &Path) -> Claim {
    let privacy = status(home).unwrap().privacy.unwrap();
    assert!(privacy.cap == budget(CAP));
    privacy.spent.unwrap()
}

/// Creates a study and its agents. The home of the first agent is `home`.
fn study(folder: &Path, home: &Path, name: &str) -> (Rc<RefCell<TestCoordinator>>, Vec<Member>) {
    let coordinator = coordinator(name, "dp-fts-de", privacy(name));
    let mut members = vec![Member::enrol(home, &coordinator, 0)];
    for slot in 1..3 {
        let other = folder.join(format!("{name}{slot}"));
        members.push(Member::enrol(&other, &coordinator, slot));
    }
    members[0].cap = Some(budget(CAP));
    (coordinator, members)
}

/// Returns the privacy settings of a study. Studies with different names charge different events.
fn privacy(name: &str) -> &'static str {
    match name {
        "a" => CHARGED,
        _ => "[privacy]\nepsilon = 1.9\nreleases = 3\nsampling_rate = 0.8\n",
    }
}

/// Returns the number of the first agent's uploads that arrived.
fn n_arrived(coordinator: &RefCell<TestCoordinator>) -> usize {
    let coordinator = coordinator.borrow();
    coordinator.arrived.keys().filter(|(slot, _)| *slot == 0).count()
}

/// Advances each session that has not ended by one step.
fn turn(sessions: &mut [Session<'_>], ended: &mut [bool], n_idle: usize) {
    for (session, ended) in sessions.iter_mut().zip(ended.iter_mut()) {
        if !*ended {
            let step = note(session.advance().unwrap(), n_idle);
            *ended = step == Step::Ended(Ended::Complete);
        }
    }
}

/// With any interleaving of two studies of one home, the agent stops uploading at its limit but
/// continues with its trials.
#[test]
fn two_studies_one_agent() {
    // Numbers of turns that the two studies take alternately.
    for (of_a, of_b) in [(1, 1), (1000, 1), (1, 1000)] {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let (desk_a, members_a) = study(folder.path(), &home, "a");
        let (desk_b, members_b) = study(folder.path(), &home, "b");
        let mut a: Vec<_> = members_a.iter().map(|m| m.session().unwrap()).collect();
        let mut b: Vec<_> = members_b.iter().map(|m| m.session().unwrap()).collect();
        let (mut ended_a, mut ended_b) = ([false; 3], [false; 3]);
        // After this many idle steps, both studies have had their turns.
        let n_idle = 3 * (of_a + of_b);
        let mut n_before = 0;
        while ended_a != [true; 3] || ended_b != [true; 3] {
            (0..of_a).for_each(|_| turn(&mut a, &mut ended_a, n_idle));
            (0..of_b).for_each(|_| turn(&mut b, &mut ended_b, n_idle));
            let n_sent = n_arrived(&desk_a) + n_arrived(&desk_b);
            if n_sent > n_before {
                n_before = n_sent;
                let total = spent(&home);
                assert!(total.epsilon <= CAP, "{total}");
            }
        }
        let total = spent(&home);
        let n_sent = n_arrived(&desk_a) + n_arrived(&desk_b);
        assert_eq!(total.n_releases, n_sent as u64, "each upload is charged, and no other");
        assert!((4..6).contains(&n_sent), "{n_sent} of 6 uploads fit: {total}");
        let heard = members_a[0].ears.count("budget") + members_b[0].ears.count("budget");
        assert!((1..=2).contains(&heard), "said once in each run that is concerned");
        for members in [&members_a, &members_b] {
            assert_eq!(members[0].trials().len(), 6, "trials go on");
        }
        let progress = status(&home).unwrap().memberships;
        let withheld: u64 = progress.iter().map(|m| m.uploads.withheld).sum();
        assert_eq!(withheld + n_sent as u64, 6);
        assert!(progress.iter().all(|m| m.finished && m.n_trials == 6));
        // The alignment is estimated from the releases that were handed out to the agent.
        assert!(progress.iter().all(|m| m.alignment.is_some_and(|found| found.rho() <= 1.0)));
    }
}

/// Two runs race for the rest of the budget. Each has its own connection, like two processes.
#[test]
fn two_studies_that_race_for_the_rest_of_a_budget_share_it() {
    let folder = tempfile::tempdir().unwrap();
    let home: PathBuf = folder.path().join("home");
    for name in ["a", "b"] {
        let text = frozen(&three_agents(name, "dp-fts-de", privacy(name)));
        let coordinator = Rc::new(RefCell::new(TestCoordinator::new(&text)));
        Member::enrol(&home, &coordinator, 0);
    }
    let run = |name: &str| {
        let text = frozen(&three_agents(name, "dp-fts-de", privacy(name)));
        let coordinator = Rc::new(RefCell::new(TestCoordinator::new(&text)));
        let known = Home::open(&home).unwrap().membership(Some(name)).unwrap();
        coordinator.borrow_mut().keys.insert(0, known.key);
        let mut members = vec![Member::unenrolled(&home, &coordinator)];
        members[0].cap = Some(budget(CAP));
        for slot in 1..3 {
            let other = folder.path().join(format!("{name}{slot}"));
            members.push(Member::enrol(&other, &coordinator, slot));
        }
        let mut sessions: Vec<_> = members.iter().map(|m| m.session().unwrap()).collect();
        take_turns(&mut sessions);
        n_arrived(&coordinator)
    };
    let n_sent = std::thread::scope(|scope| {
        let (a, b) = (scope.spawn(|| run("a")), scope.spawn(|| run("b")));
        a.join().unwrap() + b.join().unwrap()
    });
    let total = spent(&home);
    assert!(total.epsilon <= CAP && total.n_releases == n_sent as u64, "{total}");
    assert!((4..6).contains(&n_sent), "{n_sent} of 6 uploads fit");
}

#[test]
fn a_study_that_charges_needs_a_budget_and_says_which() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut members) = study(folder.path(), &folder.path().join("home"), "a");
    members[0].cap = None;
    let error = members[0].session().unwrap_err();
    assert!(matches!(error, RunError::NoBudget { .. }));
    let text = error.to_string();
    for word in ["[privacy]", "epsilon_max = 2", "delta = 1e-5"] {
        assert!(text.contains(word), "{text}");
    }
}

/// INV-25: an agent with a budget refuses every kind of study that does not charge uploads as the
/// default mode does, unless the agent's owner names the study.
#[test]
fn a_cap_refuses_what_has_no_price() {
    const PAPER: &str = "[privacy]\nmode = \"paper\"\nsampling_rate = 0.5\nnoise_multiplier = 1.0\nmax_norm = 5.0\n\
                         epsilon = 100.0\ndelta = 1e-3\nreleases = 3\n";
    let cases = [
        ("fts", "", "relays every message to every agent"),
        ("dp-fts-de", "[privacy]\nmode = \"off\"\nreleases = 3\n", "privacy.mode = \"off\""),
        ("dp-fts-de", SIMULATED, "privacy.simulate = true"),
        ("dp-fts-de", PAPER, "privacy.mode = \"paper\""),
    ];
    for (algorithm, more, what) in cases {
        let folder = tempfile::tempdir().unwrap();
        let coordinator = coordinator("open", algorithm, more);
        let mut members = members(folder.path(), &coordinator);
        for member in &mut members {
            member.cap = Some(budget(0.1));
            member.allow_unprotected = vec!["another".to_owned()];
        }
        let error = members[0].session().unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, RunError::Unprotected { .. }), "{text}");
        assert!(text.contains(what), "{text}");
        assert!(text.contains("allow_unprotected = [\"open\"]"), "{text}");
        assert!(coordinator.borrow().arrived.is_empty(), "{what}");
        assert!(!members[0].home.join("trials.db").exists());
        // If the owner names the study, the cap still applies to the study's charges, if any.
        members[0].allow_unprotected = vec!["open".to_owned()];
        finish(&mut members[0].session().unwrap(), 20).unwrap();
        let n_sent = n_arrived(&coordinator);
        match what.contains("paper") {
            true => assert_eq!(n_sent, 0, "{what}"),
            false => assert!(n_sent > 0, "{what}"),
        }
        // An agent that has never had a budget may join. Paper mode requires a budget.
        members[1].cap = None;
        assert_eq!(members[1].session().is_ok(), !what.contains("paper"));
    }
}

/// INV-25: a budget belongs to the home, so a file without a budget does not lift the refusal.
#[test]
fn a_home_with_a_budget_has_it_with_every_file() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let charged = coordinator("a", "dp-fts-de", CHARGED);
    let open = coordinator("b", "fts", "");
    Member::enrol(&home, &charged, 0);
    Member::enrol(&home, &open, 0);
    let run = |study: &str, privacy: &str| {
        let path = folder.path().join("agent.toml");
        let text = format!(
            "[agent]\nhome = \"home\"\nstudy = {study:?}\n[objective]\ncommand = [\"true\"]\n{privacy}"
        );
        std::fs::write(&path, text).unwrap();
        // The run is stopped before any request.
        fedbo_agent::run(&RunOptions {
            file: &AgentFile::load(&path).unwrap(),
            stop: Arc::new(AtomicBool::new(true)),
            observer: &Silent,
        })
    };
    let budget = || Home::open(&home).unwrap().budget().unwrap();
    // An agent that has never had a budget may join.
    assert_eq!(run("b", "").unwrap(), Ended::Interrupted);
    assert!(budget().is_none());
    // Once a budget excludes the agent from a study, the study stays excluded with any other file.
    let error = run("b", "[privacy]\nepsilon_max = 2.7\n").unwrap_err();
    assert!(matches!(error, RunError::Unprotected { .. }), "{error}");
    assert!(budget() == Some(self::budget(CAP)));
    let error = run("b", "").unwrap_err();
    assert!(matches!(error, RunError::Unprotected { .. }), "{error}");
    assert_eq!(run("a", "[privacy]\nepsilon_max = 2.7\n").unwrap(), Ended::Interrupted);
    let error = run("b", "").unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, RunError::Unprotected { .. }), "{text}");
    assert!(text.contains("allow_unprotected = [\"b\"]"), "{text}");
    let named = "[privacy]\nepsilon_max = 2.7\nallow_unprotected = [\"b\"]\n";
    assert_eq!(run("b", named).unwrap(), Ended::Interrupted);
}

/// An agent with a budget that is too small for any upload sends nothing, and still benefits from
/// the releases of others.
#[test]
fn without_a_budget_left_nothing_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let (coordinator, mut members) = study(folder.path(), &folder.path().join("home"), "a");
    members[0].cap = Some(budget(0.01));
    let mut sessions: Vec<_> = members.iter().map(|m| m.session().unwrap()).collect();
    take_turns(&mut sessions);
    drop(sessions);
    assert_eq!(n_arrived(&coordinator), 0);
    assert_eq!(members[0].ears.count("budget"), 1, "said once");
    assert_eq!(members[0].trials().len(), 6);
    let rounds = members[0].ears.count("round");
    assert_eq!(rounds, 4, "it takes every round");
}

/// Inspects the agent's database, as another process would, whenever an upload is about to leave.
struct Auditor<'a> {
    link: &'a TestLink,
    memory: PathBuf,
    n_uploads: Cell<usize>,
}

impl Link for Auditor<'_> {
    fn upload(&self, by: Caller<'_>, to: Place<'_>, body: &[u8]) -> Result<(), LinkError> {
        let memory = rusqlite::Connection::open(&self.memory).unwrap();
        let one = |sql: &str| memory.query_row(sql, [to.round], |row| row.get::<_, Vec<u8>>(0));
        let charge = one("SELECT event FROM charges WHERE round = ?").unwrap();
        assert!(fedbo_ledger::event_from_bytes(&charge).is_ok());
        let kept = one("SELECT bytes FROM uploads WHERE round = ?").unwrap();
        assert_eq!(kept, body);
        self.n_uploads.set(self.n_uploads.get() + 1);
        self.link.upload(by, to, body)
    }

    fn handouts(&self, by: Caller<'_>, study: &str, poll: Poll) -> Result<Polled, LinkError> {
        self.link.handouts(by, study, poll)
    }

    fn prove(&self, challenge: &Digest) -> Result<CoordinatorProof, LinkError> {
        self.link.prove(challenge)
    }

    fn enrol(&self, key: &SigningKey, request: &EnrolRequest) -> Result<Enrolled, LinkError> {
        self.link.enrol(key, request)
    }

    fn offer(&self, key: &SigningKey, request: &EnrolRequest) -> Result<Offer, LinkError> {
        self.link.offer(key, request)
    }

    fn status(&self, key: &SigningKey, study: &str) -> Result<StudyStatus, LinkError> {
        self.link.status(key, study)
    }

    fn rotate(
        &self,
        by: Caller<'_>,
        study: &str,
        request: &RotateRequest,
    ) -> Result<(), LinkError> {
        self.link.rotate(by, study, request)
    }
}

/// INV-13: an upload's charge and its bytes are durable before its first byte leaves.
#[test]
fn an_upload_is_charged_and_kept_before_it_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let (_, members) = study(folder.path(), &folder.path().join("home"), "a");
    let auditor = Auditor {
        link: &members[0].link,
        memory: members[0].home.join("agent.db"),
        n_uploads: Cell::new(0),
    };
    let never = Arc::new(AtomicBool::new(false));
    let mut sessions = vec![members[0].session_with(&auditor, &never).unwrap()];
    sessions.extend(members[1..].iter().map(|m| m.session().unwrap()));
    take_turns(&mut sessions);
    assert_eq!(auditor.n_uploads.get(), 3);
}
