//! The agent's process can die at any time, and the result is the same as without a crash.

use std::collections::BTreeMap;
use std::path::Path;

use fedbo_agent::{Ended, Session, Step, status};
use fedbo_space::Point;
use fedbo_storage::Told;

use crate::ways::{Cutter, busy, note};
use crate::world::{CHARGED, Member, SIMULATED, coordinator, members};

/// The observable results of a finished federation.
#[derive(Debug, PartialEq)]
struct Traces {
    trials: Vec<Vec<(Point, String, Option<Told>)>>,
    /// The first body of each slot and round.
    uploads: BTreeMap<(u32, u64), Vec<u8>>,
}

/// Runs three agents. Before each session of the first agent, `allowance` returns the number of
/// calls after which the agent dies.
fn run(
    folder: &Path,
    algorithm: &str,
    more: &str,
    mut allowance: impl FnMut(u64) -> Option<u64>,
) -> (Traces, u64) {
    let coordinator = coordinator("cut", algorithm, more);
    let members = members(folder, &coordinator);
    members.iter().for_each(|member| member.cutter().n_calls.set(0));
    let mut sessions: Vec<Option<Session<'_>>> = members.iter().map(|_| None).collect();
    let mut ended = [false; 3];
    let mut n_sessions = 0;
    let mut n_steps = 0;
    while ended != [true; 3] {
        n_steps += 1;
        assert!(n_steps < 100_000, "the federation stands still: {ended:?}");
        for (at, member) in members.iter().enumerate() {
            if ended[at] {
                continue;
            }
            if sessions[at].is_none() && at == 0 {
                match allowance(n_sessions) {
                    Some(n_calls) => member.cutter().after(n_calls),
                    None => member.cutter().never(),
                }
                n_sessions += 1;
            }
            ended[at] = step(member, &mut sessions[at]);
        }
    }
    drop(sessions);
    let coordinator = coordinator.borrow();
    for ((slot, round), bodies) in &coordinator.arrived {
        let differs = bodies.iter().any(|body| *body != bodies[0]);
        assert!(!differs, "slot {slot} sent two different bodies for round {round}");
    }
    let first = coordinator.arrived.iter().map(|(at, bodies)| (*at, bodies[0].clone()));
    let traces =
        Traces { trials: members.iter().map(Member::trials).collect(), uploads: first.collect() };
    (traces, members[0].cutter().n_calls.get())
}

/// Advances a session by one step, after opening it if necessary. Returns true if the session has
/// ended. A session that was cut is dropped.
fn step<'a>(member: &'a Member, slot: &mut Option<Session<'a>>) -> bool {
    let mut session = match slot.take() {
        Some(session) => session,
        None => match Cutter::within(|| member.session().unwrap()) {
            Some(session) => session,
            None => {
                busy();
                return false;
            }
        },
    };
    let stepped = Cutter::within(|| {
        let step = session.advance().unwrap();
        (step, session)
    });
    let Some((step, session)) = stepped else {
        busy();
        return false;
    };
    note(step, 3);
    *slot = Some(session);
    step == Step::Ended(Ended::Complete)
}

fn uncut(algorithm: &str, more: &str) -> (Traces, u64) {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), algorithm, more, |_| None)
}

/// The agent dies repeatedly, after 0, 1, 2, … calls, so that each moment of a run is the last
/// moment of some process.
#[test]
fn an_agent_that_dies_again_and_again_does_the_same() {
    for (algorithm, more) in [("fts", ""), ("dp-fts-de", SIMULATED)] {
        let (expected, n_calls) = uncut(algorithm, more);
        assert!(n_calls > 40, "{n_calls} moments");
        let folder = tempfile::tempdir().unwrap();
        let (found, _) = run(folder.path(), algorithm, more, |n| Some(n % 11));
        assert_eq!(found, expected, "{algorithm}");
    }
}

/// Like the test above, but with a single crash at each moment of a run.
#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn an_agent_that_dies_once_at_any_moment_does_the_same() {
    for (algorithm, more) in [("fts", ""), ("dp-fts-de", SIMULATED)] {
        let (expected, n_calls) = uncut(algorithm, more);
        for cut in 0..n_calls {
            let folder = tempfile::tempdir().unwrap();
            let once = |n| (n == 0).then_some(cut);
            let (found, _) = run(folder.path(), algorithm, more, once);
            assert_eq!(found, expected, "{algorithm}, cut after {cut} calls");
        }
    }
}

/// Charged noise is not replayed, so trials differ between runs. Each upload is still charged once.
#[test]
fn dying_charges_no_upload_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (traces, _) = run(folder.path(), "dp-fts-de", CHARGED, |n| Some(n % 11));
    let mine = traces.uploads.keys().filter(|(slot, _)| *slot == 0).count();
    let privacy = status(&folder.path().join("home0")).unwrap().privacy.unwrap();
    let spent = privacy.spent.unwrap();
    assert_eq!((mine, spent.n_releases), (3, 3));
    assert!(spent.epsilon <= 2.0, "{spent}");
}
