//! Accounts of agents: their counters, and the rounds in which their slots delivered (INV-28).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use fedbo_ledger::event_to_bytes;
use fedbo_transport::{Clock as _, SystemClock};
use fedbo_wire::{Account, PublicKey, Rounds, StudyAccount};

use super::Shared;
use super::registry::Served;
use crate::machine::digest_of;
use crate::published::Published;
use crate::store::{Participants, StoreError};

/// Participants of published releases, which no longer change.
#[derive(Clone, Default)]
struct Known {
    /// Participants by round.
    records: BTreeMap<u64, Participants>,
    n_entries: usize,
    /// Released rounds whose participants are unknown.
    unrecorded: BTreeSet<u64>,
}

/// Cached participants of a study's releases.
#[derive(Default)]
pub(crate) struct Deliveries(Mutex<Arc<Known>>);

impl Deliveries {
    /// Returns the participants of published releases, and separately the participants of releases
    /// that are not published yet.
    fn read(
        &self,
        shared: &Shared,
        served: &Served,
        now: &Published,
    ) -> Result<(Arc<Known>, Vec<Participants>), StoreError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = known.records.last_key_value().map_or(0, |(round, _)| round + 1);
        let newer = shared.store.participants(served.study.key, from)?;
        let (left, others): (Vec<_>, Vec<_>) =
            newer.into_iter().partition(|found| found.round < now.round);
        if !left.is_empty() || known.n_entries < now.entries.len() {
            let mut next = Known::clone(&known);
            next.records.extend(left.into_iter().map(|found| (found.round, found)));
            for entry in now.entries.iter().skip(next.n_entries) {
                let record = next.records.get(&entry.round);
                if record.is_none_or(|record| record.release != digest_of(&entry.release)) {
                    next.unrecorded.insert(entry.round);
                }
            }
            next.n_entries = now.entries.len();
            *known = Arc::new(next);
        }
        Ok((Arc::clone(&known), others))
    }
}

/// Returns the account of the agent with this key, for all studies of this coordinator.
pub(super) fn account(shared: &Shared, key: PublicKey) -> Result<Account, StoreError> {
    let registry = shared.registry();
    let mut studies = Vec::new();
    for served in registry.studies.values() {
        if let Some((slot, _)) = served.slot(&key) {
            studies.push(of_slot(shared, served, slot)?);
        }
    }
    Ok(Account::new(&shared.key, key, SystemClock.now_ms(), studies))
}

fn of_slot(shared: &Shared, served: &Served, slot: u32) -> Result<StudyAccount, StoreError> {
    let study = &served.study;
    let now = Arc::clone(&served.published.borrow());
    let known = shared.store.counter(study.key, slot)?;
    let mut account = StudyAccount {
        study: study.name.clone(),
        config: study.digest,
        slot,
        counter: known.counter,
        event: String::new(),
        mode: String::new(),
        delivered: Vec::new(),
        unrecorded: Vec::new(),
    };
    let Some(plan) = study.plan() else {
        return Ok(account);
    };
    // A study is not served if its event cannot be encoded.
    let event = event_to_bytes(&plan.event).unwrap_or_default();
    account.event = event.iter().map(|byte| format!("{byte:02x}")).collect();
    account.mode = plan.charter.mode.to_string();
    let (records, others) = served.deliveries.read(shared, served, &now)?;
    let is_in = |found: &&Participants| found.slots.binary_search(&slot).is_ok();
    let all = records.records.values().chain(&others);
    let mut delivered: BTreeSet<u64> = all.filter(is_in).map(|found| found.round).collect();
    if served.attendance.has_delivered(slot, now.round) {
        delivered.insert(now.round);
    }
    // Rounds before `since` belong to an agent that had the slot earlier.
    let own = |rounds: &BTreeSet<u64>| in_rows(rounds.range(known.since..).copied());
    account.delivered = own(&delivered);
    account.unrecorded = own(&records.unrecorded);
    Ok(account)
}

/// Groups ascending rounds into contiguous ranges.
fn in_rows(rounds: impl Iterator<Item = u64>) -> Vec<Rounds> {
    let mut rows: Vec<Rounds> = Vec::new();
    for round in rounds {
        match rows.last_mut() {
            Some((_, last)) if *last + 1 == round => *last = round,
            _ => rows.push((round, round)),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_without_a_gap_are_together() {
        assert_eq!(in_rows([0, 1, 2, 4, 7, 8].into_iter()), [(0, 2), (4, 4), (7, 8)]);
        assert_eq!(in_rows(std::iter::empty()), []);
    }
}
