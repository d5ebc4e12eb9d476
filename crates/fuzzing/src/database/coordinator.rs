//! A coordinator's folder.

use std::sync::OnceLock;

use fedbo_coordinator::store::{StoreError, StudyState};
use fedbo_coordinator::{ConnectionLimits, Home, Service, ServiceSettings, Study};
use fedbo_database::Mode;
use fedbo_ledger::Ledger;
use tokio::runtime::{Builder, Runtime};

use super::{Change, put_secret};
use crate::keys::{agent, coordinator};
use crate::pieces::Pieces;
use crate::scratch;
use crate::world::{Frozen, studies};

const FOLDER: &str = "coordinator";
const FILES: [&str; 2] = [
    "coordinator/coordinator.db",
    "coordinator/charged.ledger.db",
];

/// Reads all that is stored, then starts the service on it, which goes on with the studies' rounds, and ends it.
pub(super) fn read(mut pieces: Pieces<'_>) {
    let which = pieces.below(FILES.len());
    let base = base();
    std::fs::create_dir_all(scratch::folder().join(FOLDER)).expect("a folder can be made");
    let key = scratch::folder().join("coordinator/coordinator.key");
    put_secret(&key, coordinator().to_file_text().as_bytes());
    for (name, bytes) in FILES.iter().zip(&base.files) {
        crate::sqlite_file::put(name, bytes, &[]);
    }
    let change = Change::of(&mut pieces);
    change.put(FILES[which], &base.files[which], pieces, |_, bytes| bytes);
    let home = match Home::open(&scratch::folder().join(FOLDER), Mode::Existing) {
        Ok(home) => home,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    if let Err(error) = look(&home) {
        assert!(!error.to_string().is_empty());
    }
    let started = runtime(|runtime| {
        runtime.block_on(async {
            let service = Service::start(settings(&home)).await?;
            service.stop().await;
            Ok::<_, fedbo_coordinator::ServiceError>(())
        })
    });
    if let Err(error) = started {
        assert!(!error.to_string().is_empty());
    }
}

fn look(home: &Home) -> Result<(), StoreError> {
    let store = home.store();
    store.generation()?;
    for record in store.studies()? {
        store.slots(record.key)?;
        store.slot_of(record.key, &agent().public())?;
        store.free_releases(record.key)?;
        for round in 0..3 {
            store.broadcast(record.key, round)?;
        }
        if let Err(error) = Study::of(&record, &home.key()) {
            assert!(!error.to_string().is_empty());
        }
    }
    Ok(())
}

fn settings(home: &Home) -> ServiceSettings {
    ServiceSettings {
        listen: ([127, 0, 0, 1], 0).into(),
        tls: None,
        plain_http: false,
        store: home.store(),
        ledgers: home.path().to_owned(),
        key: home.key(),
        lease: fedbo_coordinator::LEASE,
        holder: "fuzz".to_owned(),
        limits: ConnectionLimits::default(),
    }
}

/// With a runtime of this thread.
fn runtime<R>(act: impl FnOnce(&Runtime) -> R) -> R {
    thread_local! {
        static RUNTIME: Runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be made");
    }
    RUNTIME.with(act)
}

/// A coordinator's files.
struct Base {
    files: [Vec<u8>; 2],
}

/// With both studies, whose first rounds have ended.
fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let folder = scratch::folder().join("coordinator-base");
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let home = Home::open(&folder, Mode::Create).expect("an empty folder");
        for Frozen { federation, text } in studies() {
            let record = home
                .create_study(federation, text)
                .expect("a study of its own name");
            let store = home.store();
            let begun = store.set_state(record.key, StudyState::Running);
            begun.expect("a study that waits");
        }
        play(&home).expect("a first round");
        ledger(&home);
        drop(home);
        let bytes = |name: &str| std::fs::read(folder.join(name)).expect("a file of the folder");
        Base {
            files: [bytes("coordinator.db"), bytes("charged.ledger.db")],
        }
    })
}

/// Ends round 0 of each study.
fn play(home: &Home) -> Result<(), StoreError> {
    use fedbo_coordinator::store::{FreeRelease, NextRound};
    let store = home.store();
    for (record, study) in store.studies()?.iter().zip(studies()) {
        let lead = store.lead(record.key, "fuzz", 1)?;
        let lead = lead.expect("nobody else leads");
        let handout = study.handout(1);
        let is_relayed = study.federation.privacy().is_none();
        store.add_release(
            &lead,
            &FreeRelease {
                round: 0,
                bytes: vec![1, 2, 3],
            },
        )?;
        store.begin_round(
            &lead,
            NextRound {
                round: 1,
                began_ms: store.now_ms()?,
                collects: true,
                broadcast: is_relayed.then_some(&handout),
                finishes: false,
            },
        )?;
        store.resign(&lead)?;
    }
    Ok(())
}

/// The ledger of the study that charges, with its first release.
fn ledger(home: &Home) {
    for study in studies() {
        let Some(plan) = study.federation.privacy() else {
            continue;
        };
        let path = home.ledger(&study.federation.name);
        let mut ledger = Ledger::create(&path, &plan.charter).expect("a new ledger");
        let entry = &study.entries()[0];
        let committed = ledger.commit(entry.round, &plan.event, &entry.release);
        committed.expect("a release within the budget");
    }
}
