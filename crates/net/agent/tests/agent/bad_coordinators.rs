//! A coordinator's misconduct is identified and refused, and the coordinator gets nothing more
//! (INV-13).

use fedbo_agent::{Misconduct, ReleaseDefect, RunError, Session, Step};
use fedbo_ledger::Head;
use fedbo_transport::Clock as _;
use fedbo_wire::{Content, Digest, Handout, LedgerEntry, LedgerHead, SigningKey};

use crate::coordinator::{Mangle, TestCoordinator};
use crate::ways::note;
use crate::world::{CHARGED, coordinator, members};

/// The round with the bad handout. By then, the agents have followed two rounds and two releases.
const ROUND: u64 = 3;

fn entries(handout: &mut Handout) -> &mut Vec<LedgerEntry> {
    match &mut handout.content {
        Content::Releases(entries) => entries,
        Content::Messages { .. } | Content::Shares { .. } => panic!("a study with releases"),
    }
}

/// Signs the current entries, so that the forged history is consistent.
fn resign(handout: &mut Handout, coordinator: &TestCoordinator) {
    let entries = entries(handout).clone();
    let first = entries.first().map_or(u64::MAX, |entry| entry.seq);
    let before = coordinator.ledger.iter().filter(|entry| entry.seq < first);
    let follow = |head: Head, e: &LedgerEntry| head.follow(e.round, &e.event, &e.release);
    let head = before.chain(&entries).fold(coordinator.genesis, follow);
    handout.head = LedgerHead { seq: head.seq, hash: head.hash };
}

/// Runs three agents against a coordinator that misbehaves in one round. Each agent refuses with
/// these words and uploads nothing more, even after a restart.
fn refused(mangle: Mangle, is_expected: fn(&Misconduct) -> bool, words: &str) {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("bad", "dp-fts-de", CHARGED);
    let members = members(folder.path(), &coordinator);
    coordinator.borrow_mut().mangle = Some(mangle);
    let mut sessions: Vec<Session<'_>> = members.iter().map(|m| m.session().unwrap()).collect();
    let mut errors: Vec<Option<RunError>> = members.iter().map(|_| None).collect();
    let mut n_steps = 0;
    while errors.iter().any(Option::is_none) {
        n_steps += 1;
        assert!(n_steps < 10_000, "{words}: nobody minds");
        for (session, error) in sessions.iter_mut().zip(&mut errors) {
            if error.is_none() {
                *error = session.advance().map(|step| note(step, 3)).err();
            }
        }
    }
    let n_arrived = coordinator.borrow().arrived.len();
    for (session, error) in sessions.iter_mut().zip(&errors) {
        match error {
            Some(RunError::Misconduct(misconduct)) => {
                assert!(is_expected(misconduct), "{words}: {misconduct:?}");
                let text = misconduct.to_string();
                assert!(text.contains(words), "{text:?} does not say {words:?}");
            }
            other => panic!("{words}: {other:?}"),
        }
        assert!(matches!(session.advance(), Err(RunError::Misconduct(_))));
    }
    for (member, slot) in members.iter().zip(0..) {
        assert_eq!(member.ears.count("refused"), 1, "{words}");
        // Nothing more is sent, so no vector is kept (INV-26).
        for ((_, round), bodies) in coordinator.borrow().arrived.range((slot, 0)..=(slot, u64::MAX))
        {
            assert!(!member.holds(&bodies[0]), "{words}: round {round}");
        }
    }
    drop(sessions);
    {
        let mut session = members[0].session().unwrap();
        let again = loop {
            match session.advance() {
                Ok(step) => note(step, 1),
                Err(error) => break error,
            };
        };
        assert!(matches!(again, RunError::Misconduct(_)), "{words}: {again}");
    }
    assert_eq!(
        coordinator.borrow().arrived.len(),
        n_arrived,
        "{words}: an upload after the refusal"
    );
}

#[test]
fn bad_coordinators() {
    refused(
        |handout, coordinator| {
            if handout.round == ROUND {
                handout.config = Digest([7; 32]);
                assert_ne!(handout.config, coordinator.digest());
            }
        },
        |m| matches!(m, Misconduct::OtherConfig { .. }),
        "another configuration",
    );
    refused(
        |handout, _| {
            if handout.round == ROUND {
                handout.round = 1;
            }
        },
        |m| matches!(m, Misconduct::RoundBack { last: 2, found: 1 }),
        "rounds go back",
    );
    refused(
        |handout, coordinator| {
            if handout.round == ROUND {
                handout.collects = !handout.collects;
                assert!(!coordinator.ledger.is_empty());
            }
        },
        |m| matches!(m, Misconduct::OtherCollection { .. }),
        "contradicts the configuration",
    );
    refused(
        |handout, _| {
            if handout.round == ROUND {
                handout.head = LedgerHead::NONE;
                handout.content =
                    Content::Messages { messages: Vec::new(), stragglers: Vec::new() };
            }
        },
        |m| matches!(m, Misconduct::OtherContent { .. }),
        "this study requires releases",
    );
}

#[test]
fn bad_coordinators_with_a_ledger_that_was_rewritten() {
    refused(
        |handout, coordinator| {
            if handout.round == ROUND {
                // The ledger is rolled back to its first entry.
                let entry = &coordinator.ledger[0];
                let head = coordinator.genesis.follow(entry.round, &entry.event, &entry.release);
                entries(handout).clear();
                handout.head = LedgerHead { seq: head.seq, hash: head.hash };
            }
        },
        |m| matches!(m, Misconduct::LedgerBack { known: 2, found: 1 }),
        "ledger goes back",
    );
    refused(
        |handout, coordinator| {
            if handout.round == ROUND {
                // The history has a different second entry.
                let mut head = coordinator.genesis;
                for entry in &coordinator.ledger {
                    let other = [entry.release.as_slice(), b"!"].concat();
                    let release = if entry.seq == 2 { &other } else { &entry.release };
                    head = head.follow(entry.round, &entry.event, release);
                }
                handout.head = LedgerHead { seq: head.seq, hash: head.hash };
            }
        },
        |m| matches!(m, Misconduct::OtherHistory { .. }),
        "another history",
    );
    refused(
        |handout, coordinator| {
            if handout.round == ROUND {
                let mut again = coordinator.ledger[1].clone();
                *again.release.last_mut().unwrap() ^= 1;
                entries(handout).insert(0, again);
            }
        },
        |m| matches!(m, Misconduct::OtherRelease { round: 1 }),
        "released round 1 twice",
    );
    refused(
        |handout, coordinator| {
            if handout.round == ROUND {
                entries(handout).clear();
                let head = coordinator.ledger[..2].iter().fold(coordinator.genesis, |head, e| {
                    head.follow(e.round, &e.event, &e.release)
                });
                handout.head = LedgerHead { seq: head.seq, hash: head.hash };
            }
        },
        |m| matches!(m, Misconduct::ReleaseMissing { round: 3, expected: 3, found: 2 }),
        "3 releases before it there are only 2",
    );
}

#[test]
fn bad_coordinators_that_release_what_was_not_agreed() {
    refused(
        |handout, coordinator| {
            if handout.round == ROUND {
                // Half the noise is a different event of the same form.
                let entry = entries(handout).last_mut().unwrap();
                let event = fedbo_ledger::event_from_bytes(&entry.event).unwrap();
                let mut cheaper = event;
                if let fedbo_privacy::accounting::Noise::DiscreteGaussian { variance, .. } =
                    &mut cheaper.noise
                {
                    *variance *= 4;
                }
                assert_ne!(cheaper, event);
                entry.event = fedbo_ledger::event_to_bytes(&cheaper).unwrap();
                resign(handout, coordinator);
            }
        },
        |m| matches!(m, Misconduct::OtherEvent { round: 2 }),
        "another event",
    );
    refused(
        |handout, coordinator| {
            // Only three releases are planned.
            if handout.round == 4 {
                let mut more = coordinator.ledger[2].clone();
                (more.seq, more.round) = (4, 3);
                entries(handout).push(more);
                resign(handout, coordinator);
            }
        },
        |m| matches!(m, Misconduct::TooManyReleases { planned: 3, found: 4 }),
        "more than planned",
    );
    refused(
        |handout, coordinator| {
            if handout.round == ROUND {
                entries(handout).last_mut().unwrap().round = 7;
                resign(handout, coordinator);
            }
        },
        |m| matches!(m, Misconduct::OtherRound { seq: 3, .. }),
        "the configuration requires round 2",
    );
    refused(
        |handout, coordinator| {
            if handout.round == ROUND {
                entries(handout).last_mut().unwrap().release.pop();
                resign(handout, coordinator);
            }
        },
        |m| matches!(m, Misconduct::Release { round: 2, .. }),
        "release of round 2 is invalid",
    );
    refused(
        |handout, coordinator| {
            if handout.round == ROUND {
                // The release belongs to the previous round, so its bytes are of this mechanism but
                // of a different round.
                let release = coordinator.ledger[1].release.clone();
                entries(handout).last_mut().unwrap().release = release;
                resign(handout, coordinator);
            }
        },
        |m| matches!(m, Misconduct::Release { round: 2, .. }),
        "release of round 2 is invalid",
    );
}

/// Missing noise, and noise weaker than promised, is detected in the coordinates that are zero in
/// all vectors.
#[test]
fn bad_coordinators_without_their_noise() {
    for weaker in [0, 3] {
        let is_quiet = |m: &Misconduct| {
            let Misconduct::Release { round: 2, source } = m else {
                return false;
            };
            matches!(source, ReleaseDefect::Quiet { n: 64, .. })
        };
        let mangle: Mangle = match weaker {
            0 => |handout, coordinator| weaken(handout, coordinator, |_| 0),
            _ => |handout, coordinator| weaken(handout, coordinator, |sum| sum / 3),
        };
        refused(mangle, is_quiet, "coordinates without signal");
    }
}

/// Changes the witnesses of a release, which are the last 64 of its sums, of eight bytes each.
fn weaken(handout: &mut Handout, coordinator: &TestCoordinator, change: fn(i64) -> i64) {
    if handout.round == ROUND {
        let release = &mut entries(handout).last_mut().unwrap().release;
        let first = release.len() - 64 * 8;
        for sum in release[first..].as_chunks_mut::<8>().0 {
            *sum = change(i64::from_le_bytes(*sum)).to_le_bytes();
        }
        resign(handout, coordinator);
    }
}

/// A signature by a different key is not accepted.
#[test]
fn bad_coordinators_that_are_others() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("bad", "dp-fts-de", CHARGED);
    let members = members(folder.path(), &coordinator);
    let mut sessions: Vec<Session<'_>> = members.iter().map(|m| m.session().unwrap()).collect();
    'all: loop {
        for session in &mut sessions {
            note(session.advance().unwrap(), 3);
            if coordinator.borrow().arrived.len() == 3 {
                break 'all; // no agent has taken the next round yet
            }
        }
    }
    coordinator.borrow_mut().key = SigningKey::from_seed([1; 32]);
    let n_arrived = coordinator.borrow().arrived.len();
    for session in &mut sessions {
        let error = loop {
            match session.advance() {
                Ok(step) => note(step, 1),
                Err(error) => break error,
            };
        };
        let text = error.to_string();
        assert!(matches!(error, RunError::Misconduct(Misconduct::Unreadable(_))));
        assert!(text.contains("not from the coordinator of this study"), "{text}");
    }
    assert_eq!(coordinator.borrow().arrived.len(), n_arrived);
}

/// A coordinator that was rolled back is detected even if it hands out nothing, because for half a
/// minute it reports an earlier round than the agent's newest one. A shorter time is tolerated,
/// because a coordinator can lag behind its own store.
#[test]
fn bad_coordinators_that_were_rolled_back_are_seen_while_they_hand_out_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("bad", "fts", "");
    let members = members(folder.path(), &coordinator);
    let mut sessions: Vec<Session<'_>> = members.iter().map(|m| m.session().unwrap()).collect();
    while coordinator.borrow().round < Some(ROUND) {
        for session in &mut sessions {
            note(session.advance().unwrap(), 3);
        }
    }
    // Only the first agent waits for more.
    let mut advance = |n: usize| {
        for _ in 0..n {
            let step = sessions[0].advance()?;
            if let Step::Waits(time) = step {
                members[0].clock.sleep(time);
            }
        }
        Ok::<(), RunError>(())
    };
    let now = coordinator.borrow().round;
    coordinator.borrow_mut().round = Some(1);
    advance(5).unwrap();
    coordinator.borrow_mut().round = now;
    advance(40).unwrap();
    coordinator.borrow_mut().round = Some(1);
    let error = advance(100).unwrap_err();
    assert!(
        matches!(error, RunError::Misconduct(Misconduct::RoundBack { found: 1, .. })),
        "{error}"
    );
}
