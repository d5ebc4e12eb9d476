//! An agent's folder.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use fedbo_agent::{EnrolOptions, Home, Parts, RunError, Session, Step, enrol_with, status};
use fedbo_objective::FailuresMax;
use fedbo_privacy::accounting::{Budget, Delta};
use fedbo_transport::{Clock as _, ProxySetting};
use fedbo_wire::{EnrolmentToken, config_digest};

use super::Change;
use crate::fakes::{FakeCoordinator, Frozen, NullObserver, SECRET, Waited, objective, studies};
use crate::input_reader::Pieces;
use crate::keys::{coordinator, signed_handout};
use crate::scratch;

const HOME: &str = "home";
const FILES: [&str; 2] = ["home/agent.db", "home/trials.db"];

/// Reads the agent's status, then runs it until the coordinator has no further handouts.
pub(super) fn read(mut pieces: Pieces<'_>) {
    let which = pieces.below(studies().len() * FILES.len());
    let (study, which) = (which / FILES.len(), which % FILES.len());
    let (study, base) = (&studies()[study], &bases()[study]);
    let home = base.put();
    let change = Change::of(&mut pieces);
    // A stored handout gets a valid signature, so that the fuzzer reaches the code behind the
    // signature check.
    change.put(FILES[which], &base.files[which], pieces, |column, bytes| match column {
        "bytes" => signed_handout(&bytes),
        _ => bytes,
    });
    if let Err(error) = status(&home) {
        assert!(!error.to_string().is_empty());
    }
    if let Err(error) = run(&home, study, N_ROUNDS + 1) {
        assert!(!error.to_string().is_empty());
    }
}

/// Number of rounds that the agent has completed.
const N_ROUNDS: u64 = 2;
/// Upper bound on the number of steps of a complete run.
const N_STEPS: usize = 60;

/// Runs the agent for at most `N_STEPS` steps, with a clock that skips waiting times.
fn run(home: &Path, study: &Frozen, n_rounds: u64) -> Result<(), RunError> {
    let home = Home::open(home)?;
    let membership = home.membership(None)?;
    let federation = membership.federation()?;
    let delta = Delta::new(1e-6).expect("between 0 and 1");
    let clock = Waited::default();
    let parts = Parts {
        home,
        membership,
        federation,
        objective: objective(),
        seed: None,
        cap: Budget::new(100.0, delta).ok(),
        failures_max: FailuresMax::default(),
        allow_unprotected: vec![study.federation.name.clone()],
        link: &FakeCoordinator { study, n_rounds },
        clock: &clock,
        observer: &NullObserver,
        stop: Arc::new(AtomicBool::new(false)),
    };
    let mut session = Session::open(parts)?;
    for _ in 0..N_STEPS {
        match session.advance()? {
            Step::Went => {}
            Step::Waits(time) => clock.sleep(time),
            Step::Ended(_) => return Ok(()),
        }
    }
    Ok(())
}

/// Files of an agent's folder.
struct Base {
    key: Vec<u8>,
    files: [Vec<u8>; 2],
}

impl Base {
    /// Writes the files and returns their folder.
    fn put(&self) -> PathBuf {
        let home = scratch::subfolder(HOME);
        scratch::secret("home/identity.key", &self.key);
        for (name, bytes) in FILES.iter().zip(&self.files) {
            crate::sqlite_file::put(name, bytes, &[]);
        }
        home
    }
}

/// Files of the agent of each study after two rounds.
fn bases() -> &'static [Base; 2] {
    static BASES: OnceLock<[Base; 2]> = OnceLock::new();
    BASES.get_or_init(|| {
        [0, 1].map(|number| {
            let study = &studies()[number];
            let home = scratch::folder().join(format!("agent-{number}"));
            let options = EnrolOptions {
                home: home.clone(),
                coordinator_url: "http://127.0.0.1".to_owned(),
                token: EnrolmentToken {
                    secret: SECRET,
                    coordinator: coordinator().public(),
                    config: config_digest(study.text.as_bytes()),
                },
                ca: None,
                proxy: ProxySetting::default(),
                helper: None,
                allow_plain_http: false,
            };
            let desk = FakeCoordinator { study, n_rounds: 0 };
            enrol_with(&options, &desk).expect("an agent that is taken");
            run(&home, study, N_ROUNDS).expect("rounds that are handed out");
            let bytes = |name: &str| std::fs::read(home.join(name)).expect("a file of the agent");
            Base { key: bytes("identity.key"), files: [bytes("agent.db"), bytes("trials.db")] }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The undamaged files are valid, and their agents can continue.
    #[test]
    fn the_agents_have_taken_part_in_two_rounds() {
        for (study, base) in studies().iter().zip(bases()) {
            let home = base.put();
            let stands = || status(&home).unwrap().memberships.remove(0);
            let before = stands();
            assert_eq!(before.round, Some(N_ROUNDS));
            assert!(before.uploads.acknowledged >= N_ROUNDS && before.n_trials >= N_ROUNDS);
            run(&home, study, N_ROUNDS + 1).unwrap();
            assert_eq!(stands().round, Some(N_ROUNDS + 1));
        }
    }
}
