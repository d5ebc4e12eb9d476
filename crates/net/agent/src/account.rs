//! Compares the home with the coordinators' accounts of the agent (INV-28).
//!
//! A home that was restored from an older copy, or is used on two machines, does not contain
//! everything that was sent in its name. The coordinators' accounts do. Each response with a
//! study's state contains a signed account: the counter of each slot's last request, and the rounds
//! that the agent's slots delivered. Rounds that are missing from the home are charged before
//! anything else is sent.

use std::collections::BTreeMap;
use std::fmt;

use fedbo_database::Failure;
use fedbo_ledger::{event_from_bytes, event_to_bytes};
use fedbo_party::{HomeError, Identity};
use fedbo_transport::{Clock as _, LinkError, SystemClock};
use fedbo_wire::{
    Account, CLOCK_TOLERANCE_MS, COUNTER_MAX, Digest, PublicKey, Rounds, StudyAccount,
};
use rusqlite::Transaction;

use crate::budget::{insert_charge, is_charged};
use crate::rotate::LinkTo;
use crate::{Home, Membership, Notice, Observer};

/// Largest number of rounds that a study's file can set.
const ROUNDS_MAX: u64 = 1_000_000;

/// Rounds that a coordinator's account contained and the agent's home did not. They have been
/// charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenOver {
    /// The study.
    pub study: String,
    /// The rounds, ascending.
    pub rounds: Vec<u64>,
}

/// Request counters of a study that differ between the home and the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Behind {
    pub(crate) study: String,
    /// Counter of the home's last request. In [`Settled::forgotten`], of its last request that got
    /// a response.
    pub(crate) home: u64,
    /// Counter of the last request that the coordinator has seen.
    pub(crate) coordinator: u64,
}

/// The result of comparing the home with an account. All charges are already on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) taken_over: Vec<TakenOver>,
    /// Studies in which the coordinator has seen a later request than the home's last one.
    pub(crate) behind: Vec<Behind>,
    /// Studies in which the coordinator has forgotten a request that got a response.
    pub(crate) forgotten: Vec<Behind>,
}

/// An account that cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot use the coordinator's account of this agent's uploads: {0}")]
pub(crate) struct NotSettled(String);

impl From<NotSettled> for LinkError {
    fn from(error: NotSettled) -> Self {
        Self::Unusable { reason: error.to_string() }
    }
}

impl fmt::Display for TakenOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounds: Vec<String> = self.rounds.iter().map(u64::to_string).collect();
        write!(
            f,
            "study {:?} has uploads of this agent that are missing from this home, which was restored from an older copy or is \
             used on two machines; they are now charged to its account: round {}",
            self.study,
            rounds.join(", ")
        )
    }
}

/// Charges the rounds that are in a coordinator's account, over all its studies, but missing from
/// the home. Charges nothing if the account cannot be trusted.
pub(crate) fn settle(
    home: &Home,
    coordinator: &PublicKey,
    key: &PublicKey,
    account: &Account,
    now_ms: u64,
) -> Result<Result<Settled, NotSettled>, HomeError> {
    if let Err(refused) = check(coordinator, key, account, now_ms) {
        return Ok(Err(refused));
    }
    home.database.write(|tx| {
        let known: BTreeMap<Digest, Membership> =
            Membership::all(tx)?.into_iter().map(|known| (known.digest, known)).collect();
        let mut settled = Settled::default();
        let mut all_owed = Vec::with_capacity(account.studies.len());
        let mut n_left = ROUNDS_MAX;
        for study in &account.studies {
            let membership = known.get(&study.config);
            if membership.is_some_and(|membership| membership.coordinator != *coordinator) {
                let why = format!("study {:?} belongs to another coordinator", study.study);
                return Ok(Err(NotSettled(why)));
            }
            let is_behind = compare(tx, study, membership, &mut settled)?;
            match owed(study, membership, is_behind, &mut n_left) {
                Ok(owed) => all_owed.push(owed),
                Err(refused) => return Ok(Err(refused)),
            }
        }
        for (study, owed) in account.studies.iter().zip(all_owed) {
            let mut new = Vec::new();
            for round in owed.rounds {
                if !is_charged(tx, &study.config, round)? {
                    let price = (owed.price.as_slice(), study.mode.as_str());
                    insert_charge(tx, (&study.config, round), price, now_ms)?;
                    new.push(round);
                }
            }
            if !new.is_empty() {
                settled.taken_over.push(TakenOver { study: study.study.clone(), rounds: new });
            }
        }
        Ok(Ok(settled))
    })
}

/// Checks that an account is signed by the coordinator for this agent, is recent, and has only
/// counters that an agent can reach.
pub(crate) fn check(
    coordinator: &PublicKey,
    key: &PublicKey,
    account: &Account,
    now_ms: u64,
) -> Result<(), NotSettled> {
    if account.verify(coordinator, key).is_err() {
        return Err(NotSettled("it is not signed by the coordinator for this agent".to_owned()));
    }
    // A replayed account may lack rounds that the current account contains.
    let age_ms = now_ms.abs_diff(account.time_ms);
    if age_ms > CLOCK_TOLERANCE_MS {
        let why =
            format!("its signature time is {} s away from the time of this clock", age_ms / 1000);
        return Err(NotSettled(why));
    }
    match account.studies.iter().find(|study| study.counter > COUNTER_MAX / 2) {
        Some(study) => {
            let why = format!(
                "study {:?}: no agent can have made {} requests",
                study.study, study.counter
            );
            Err(NotSettled(why))
        }
        None => Ok(()),
    }
}

/// Compares a study's counters with the home's, and records the coordinator's counter. Returns true
/// if the home is behind, or does not have the study.
fn compare(
    tx: &Transaction<'_>,
    study: &StudyAccount,
    membership: Option<&Membership>,
    settled: &mut Settled,
) -> Result<bool, Failure> {
    let Some(membership) = membership else {
        return Ok(true);
    };
    let (home, answered) = membership.counters(tx)?;
    let differs = Behind { study: study.study.clone(), home, coordinator: study.counter };
    if study.counter > home {
        settled.behind.push(differs);
        return Ok(true);
    }
    match study.counter < answered {
        true => settled.forgotten.push(Behind { home: answered, ..differs }),
        false => membership.note_answered(tx, study.counter)?,
    }
    Ok(false)
}

/// The rounds of a study that must be charged, and the encoded event to charge each with.
#[derive(Default)]
struct Owed {
    rounds: Vec<u64>,
    price: Vec<u8>,
}

/// Returns the rounds that an agent owes in a study. `n_left` limits the number of rounds, so that
/// an account cannot fill the disk.
fn owed(
    study: &StudyAccount,
    membership: Option<&Membership>,
    is_behind: bool,
    n_left: &mut u64,
) -> Result<Owed, NotSettled> {
    if study.delivered.is_empty() && study.unrecorded.is_empty() {
        return Ok(Owed::default());
    }
    let price = price(study, membership)?;
    let mut rounds = in_order(&study.delivered)?;
    // A home that contains the last request has charged all its uploads. Only a home that is behind
    // can owe unrecorded rounds.
    if is_behind {
        rounds.extend(in_order(&study.unrecorded)?);
        rounds.sort_unstable();
        rounds.dedup();
    }
    let n = rounds.len() as u64;
    *n_left = n_left.checked_sub(n).ok_or_else(|| {
        NotSettled(format!("its studies have more than {ROUNDS_MAX} rounds in total"))
    })?;
    Ok(Owed { rounds, price })
}

/// Returns the encoded event to charge for each round of the study. If the home has the study, the
/// event must match the study's configuration.
fn price(study: &StudyAccount, membership: Option<&Membership>) -> Result<Vec<u8>, NotSettled> {
    let refused = |why: &str| NotSettled(format!("study {:?}: {why}", study.study));
    let event = bytes_of(&study.event).ok_or_else(|| refused("its event is not hexadecimal"))?;
    event_from_bytes(&event).map_err(|error| refused(&format!("its event is {error}")))?;
    if !matches!(study.mode.as_str(), "default" | "paper") {
        return Err(refused("its mode is unknown"));
    }
    let Some(membership) = membership else {
        return Ok(event);
    };
    let federation = membership.federation().map_err(|error| refused(&error.to_string()))?;
    let last = study.delivered.iter().chain(&study.unrecorded).map(|(_, last)| *last).max();
    if last.is_some_and(|last| last < ROUNDS_MAX && last > federation.last_round()) {
        return Err(refused("it names rounds that the study does not have"));
    }
    let plan = federation.privacy();
    let expected = plan.and_then(|plan| event_to_bytes(&plan.event).ok());
    let mode = plan.map(|plan| plan.charter.mode.to_string());
    match expected == Some(event.clone()) && mode.as_ref() == Some(&study.mode) {
        true => Ok(event),
        false => Err(refused("its price differs from that of the configuration")),
    }
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes();
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(text, 16).ok()
    };
    let is_even = digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit);
    is_even.then(|| digits.chunks(2).map(pair).collect())?
}

/// Expands ranges to single rounds, after checking that they ascend and that a study can have that
/// many rounds.
pub(crate) fn in_order(rows: &[Rounds]) -> Result<Vec<u64>, NotSettled> {
    let mut rounds = Vec::new();
    for &(first, last) in rows {
        let is_next = rounds.last().is_none_or(|before| first > *before);
        if first > last || last >= ROUNDS_MAX || !is_next {
            return Err(NotSettled("its rounds are not in order".to_owned()));
        }
        rounds.extend(first..=last);
    }
    Ok(rounds)
}

/// Requests the accounts of the other studies' coordinators before a study is run. If the home was
/// restored from a backup between two studies, it is charged for the first study before it sends
/// anything to the second.
///
/// If a coordinator does not respond, reports it and continues without its account.
pub(crate) fn ask_others(
    home: &Home,
    run: &Membership,
    link_to: &LinkTo<'_>,
    observer: &dyn Observer,
) -> Result<(), HomeError> {
    let mut asked = vec![run.coordinator]; // its account is requested when the study is run
    for membership in home.memberships()? {
        let charges =
            membership.federation().is_ok_and(|federation| federation.privacy().is_some());
        if membership.finished || !charges || asked.contains(&membership.coordinator) {
            continue;
        }
        asked.push(membership.coordinator);
        let study = &membership.study;
        let keys = Identity::load(home.folder())?.in_order(membership.key);
        let Some(key) = keys.first() else {
            continue;
        };
        let status = link_to(&membership).and_then(|link| link.status(key, study));
        let settled = match status {
            Ok(status) => {
                let (by, now_ms) = (&membership.coordinator, SystemClock.now_ms());
                settle(home, by, &key.public(), &status.account, now_ms)?.map_err(LinkError::from)
            }
            Err(error) => Err(error),
        };
        match settled {
            Ok(settled) => {
                settled.taken_over.iter().for_each(|new| observer.notice(&Notice::TakenOver(new)));
            }
            Err(LinkError::Stopped) => return Ok(()),
            Err(error) => observer.notice(&Notice::AccountUnchecked(study, &error.to_string())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_read_in_order_and_no_more_than_there_may_be() {
        assert_eq!(in_order(&[(0, 2), (4, 4)]), Ok(vec![0, 1, 2, 4]));
        for bad in [&[(2, 1)][..], &[(0, 2), (2, 3)], &[(5, 5), (1, 1)], &[(0, u64::MAX)]] {
            assert!(in_order(bad).is_err(), "{bad:?}");
        }
        assert_eq!(bytes_of("01ff"), Some(vec![1, 255]));
        assert!(bytes_of("01f").is_none() && bytes_of("0x").is_none() && bytes_of("+1").is_none());
    }
}
