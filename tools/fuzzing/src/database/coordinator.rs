//! A coordinator's folder.

use std::cell::OnceCell;
use std::sync::OnceLock;

use fedbo_coordinator::store::{FreeRelease, NextRound, StoreError};
use fedbo_coordinator::{Home, ServiceError, Study};
use fedbo_database::Mode;
use fedbo_ledger::Ledger;
use tokio::runtime::Runtime;

use super::Change;
use crate::fakes::studies;
use crate::input_reader::Pieces;
use crate::keys::agent;
use crate::served::{begun, folder, runtime, started};

const FOLDER: &str = "coordinator";
const FILES: [&str; 2] = ["coordinator/coordinator.db", "coordinator/charged.ledger.db"];

/// Reads all stored data, then starts the service, which continues the rounds of the studies, and
/// stops it.
pub(super) fn read(mut pieces: Pieces<'_>) {
    let which = pieces.below(FILES.len());
    let folder = folder(FOLDER);
    for (name, bytes) in FILES.iter().zip(bases()) {
        crate::sqlite_file::put(name, bytes, &[]);
    }
    let change = Change::of(&mut pieces);
    change.put(FILES[which], &bases()[which], pieces, |_, bytes| bytes);
    let home = match Home::open(&folder, Mode::Existing) {
        Ok(home) => home,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    if let Err(error) = look(&home) {
        assert!(!error.to_string().is_empty());
    }
    if let Err(error) = serve(&home) {
        assert!(!error.to_string().is_empty());
    }
}

fn look(home: &Home) -> Result<usize, StoreError> {
    let store = home.store();
    store.generation()?;
    let records = store.studies()?;
    for record in &records {
        store.slots(record.key)?;
        store.slot_of(record.key, &agent().public())?;
        store.free_releases(record.key)?;
        for round in 0..3 {
            store.broadcast(record.key, round)?;
        }
        if let Err(error) = Study::of(record, &home.key()) {
            assert!(!error.to_string().is_empty());
        }
    }
    Ok(records.len())
}

fn serve(home: &Home) -> Result<(), ServiceError> {
    thread_local! {
        static RUNTIME: OnceCell<Runtime> = const { OnceCell::new() };
    }
    RUNTIME.with(|cell| {
        cell.get_or_init(runtime).block_on(async {
            started(home).await?.stop().await;
            Ok(())
        })
    })
}

/// Files of a coordinator with both studies after their first round.
fn bases() -> &'static [Vec<u8>; 2] {
    static BASES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    BASES.get_or_init(|| {
        let home = begun("coordinator-base");
        play(&home).expect("a first round");
        let path = home.path().to_owned();
        drop(home);
        let bytes = |name: &str| std::fs::read(path.join(name)).expect("a file of the folder");
        [bytes("coordinator.db"), bytes("charged.ledger.db")]
    })
}

/// Completes round 0 of each study, which ends with a handout or a release.
fn play(home: &Home) -> Result<(), StoreError> {
    let store = home.store();
    for (record, study) in store.studies()?.iter().zip(studies()) {
        let plan = study.federation.privacy();
        if let Some(plan) = plan {
            let path = home.ledger(&study.federation.name);
            let mut ledger = Ledger::create(&path, &plan.charter).expect("a new ledger");
            let entry = &study.entries()[0];
            let committed = ledger.commit(entry.round, &plan.event, &entry.release);
            committed.expect("a release within the budget");
        }
        let lead = store.lead(record.key, "fuzz", 1)?;
        let lead = lead.expect("nobody else leads");
        let release = FreeRelease { round: 0, bytes: vec![1, 2, 3] };
        store.add_release(&lead, &release)?;
        let handout = study.handout(1);
        store.begin_round(
            &lead,
            NextRound {
                round: 1,
                began_ms: store.now_ms()?,
                collects: true,
                broadcast: plan.is_none().then_some(&handout),
                finishes: false,
            },
        )?;
        store.resign(&lead)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The undamaged files are valid.
    #[test]
    fn the_studies_are_stored_with_their_first_rounds() {
        let home = Home::open(&folder(FOLDER), Mode::Create).unwrap();
        drop(home);
        for (name, bytes) in FILES.iter().zip(bases()) {
            crate::sqlite_file::put(name, bytes, &[]);
        }
        let home = Home::open(&folder(FOLDER), Mode::Existing).unwrap();
        assert_eq!(look(&home).unwrap(), studies().len());
        let store = home.store();
        let broadcasts = store.studies().unwrap().into_iter();
        let broadcasts = broadcasts.map(|record| store.broadcast(record.key, 1).unwrap());
        assert_eq!(broadcasts.flatten().count(), 1);
        let ledger = fedbo_ledger::read(&home.ledger("charged")).unwrap();
        assert_eq!(ledger.n_releases(), 1);
        serve(&home).unwrap();
    }
}
