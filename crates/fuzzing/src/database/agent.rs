//! An agent's folder.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use fedbo_agent::{EnrolOptions, Home, Parts, RunError, Session, Step, enrol_with, status};
use fedbo_privacy::accounting::{Budget, Delta};
use fedbo_wire::EnrolmentToken;

use super::{Change, put_secret};
use crate::keys::{coordinator, signed_handout};
use crate::pieces::Pieces;
use crate::scratch;
use crate::world::{Deaf, Desk, Frozen, SECRET, Still, objective, studies};

const HOME: &str = "home";
const FILES: [&str; 2] = ["home/agent.db", "home/trials.db"];

/// Asks how the agent stands, then runs it to where its coordinator has no more for it.
pub(super) fn read(mut pieces: Pieces<'_>) {
    let which = pieces.below(studies().len() * FILES.len());
    let (study, which) = (which / FILES.len(), which % FILES.len());
    let (study, base) = (&studies()[study], &bases()[study]);
    std::fs::create_dir_all(scratch::folder().join(HOME)).expect("a folder can be made");
    put_secret(&scratch::folder().join("home/identity.key"), &base.key);
    for (name, bytes) in FILES.iter().zip(&base.files) {
        crate::sqlite_file::put(name, bytes, &[]);
    }
    let change = Change::of(&mut pieces);
    // Where a handout is stored, so is one that the coordinator signed: what stands behind its signature is reached.
    change.put(
        FILES[which],
        &base.files[which],
        pieces,
        |column, bytes| match column {
            "bytes" => signed_handout(&bytes),
            _ => bytes,
        },
    );
    let home = scratch::folder().join(HOME);
    if let Err(error) = status(&home) {
        assert!(!error.to_string().is_empty());
    }
    if let Err(error) = run(&home, study, N_ROUNDS + 1) {
        assert!(!error.to_string().is_empty());
    }
}

/// Rounds that the agent has taken part in.
const N_ROUNDS: u64 = 2;
/// More than a run of a study's rounds takes.
const N_STEPS: usize = 60;

/// Runs the agent until it has to wait.
fn run(home: &Path, study: &Frozen, n_rounds: u64) -> Result<(), RunError> {
    let home = Home::open(home)?;
    let membership = home.membership(None)?;
    let federation = membership.federation()?;
    let delta = Delta::new(1e-6).expect("between 0 and 1");
    let parts = Parts {
        home,
        membership,
        federation,
        objective: objective(),
        seed: None,
        cap: Budget::new(100.0, delta).ok(),
        link: &Desk { study, n_rounds },
        clock: &Still,
        observer: &Deaf,
        stop: Arc::new(AtomicBool::new(false)),
    };
    let mut session = Session::open(parts)?;
    for _ in 0..N_STEPS {
        match session.advance()? {
            Step::Went => {}
            Step::Waits(_) | Step::Ended(_) => return Ok(()),
        }
    }
    Ok(())
}

/// An agent's files.
struct Base {
    key: Vec<u8>,
    files: [Vec<u8>; 2],
}

/// The agent of each study, after two rounds.
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
                },
                ca: None,
                allow_plain_http: false,
            };
            let desk = Desk { study, n_rounds: 0 };
            enrol_with(&options, &desk).expect("an agent that is taken");
            run(&home, study, N_ROUNDS).expect("rounds that are handed out");
            let bytes = |name: &str| std::fs::read(home.join(name)).expect("a file of the agent");
            Base {
                key: bytes("identity.key"),
                files: [bytes("agent.db"), bytes("trials.db")],
            }
        })
    })
}
