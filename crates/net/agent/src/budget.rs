//! An agent's privacy budget for all its studies, and what it has spent (INV-13).
//!
//! An upload is charged before its first byte leaves, in the transaction that stores it. Two
//! processes that run two studies of one home therefore cannot both spend the rest of the budget.
//! Charges are permanent, even if the upload arrives too late.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use fedbo_database::Failure;
use fedbo_ledger::{event_from_bytes, event_to_bytes};
use fedbo_party::{Database, HomeError};
use fedbo_privacy::accounting::{
    AccountantKind, Budget, Claim, Delta, Mode, PrivacyEvent, Unproved, UnsupportedEvent,
};
use fedbo_wire::Digest;
use rusqlite::{OptionalExtension as _, Transaction, params};

use crate::Membership;
use crate::log::{NewUpload, UploadState, insert_upload};

/// An error that leaves the cost of a charge unknown.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unpriced {
    /// The accountant does not support the event.
    #[error("the cost of an upload is unknown, so none is made: {0}")]
    Event(#[from] UnsupportedEvent),
    /// The accountant cannot prove a bound.
    #[error("the total cost of the uploads is unknown, so none is made: {0}")]
    Epsilon(#[from] Unproved),
    /// The event has no byte representation.
    #[error("the cost of an upload cannot be encoded, so none is made: {0}")]
    Unwritable(String),
}

/// An upload that the agent's budget does not allow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetReached {
    /// The budget over all studies.
    pub cap: Budget,
    /// ε of all charges so far.
    pub spent: f64,
    /// ε after one more charge.
    pub would_be: f64,
}

impl fmt::Display for BudgetReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "over all studies epsilon {:?} is spent, one more upload would raise it to {:?}, and the budget is {:?} at delta {:?}",
            self.spent,
            self.would_be,
            self.cap.epsilon(),
            self.cap.delta().get()
        )
    }
}

/// An agent's privacy budget, and its spending over all its studies.
#[derive(Clone, Debug)]
pub struct PrivacyStatus {
    /// The most recent budget from the agent's file.
    pub cap: Budget,
    /// Upper bound on the total cost of all uploads.
    pub spent: Result<Claim, Unpriced>,
}

/// The outcome of a charge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Charged {
    /// The charge is recorded, and the upload can be sent.
    Made,
    /// The budget does not allow the charge. The upload is recorded but never sent.
    Withheld(BudgetReached),
}

/// The agent's privacy budget, as charged by the uploads of one study.
#[derive(Debug)]
pub(crate) struct PrivacyBudget {
    cap: Budget,
    event: PrivacyEvent,
    event_bytes: Vec<u8>,
    mode: Mode,
    /// Charge counts, by event, that are known to fit the cap. Smaller counts fit as well, because
    /// removing releases does not increase ε.
    within: RefCell<BTreeMap<Vec<u8>, u64>>,
}

impl PrivacyBudget {
    /// Opens a budget for uploads that each cost this event. Fails if their cost cannot be
    /// computed.
    pub(crate) fn open(cap: Budget, event: PrivacyEvent, mode: Mode) -> Result<Self, Unpriced> {
        let mut accountant = AccountantKind::Pld.accountant();
        accountant.compose(&event, 1)?;
        accountant.epsilon(cap.delta())?;
        let event_bytes =
            event_to_bytes(&event).map_err(|error| Unpriced::Unwritable(error.to_string()))?;
        Ok(Self { cap, event, event_bytes, mode, within: RefCell::default() })
    }

    /// Charges and stores an upload in one transaction. If the budget does not allow the charge,
    /// the upload is stored as withheld.
    pub(crate) fn charge(
        &self,
        database: &Database,
        membership: &Membership,
        made: &NewUpload<'_>,
    ) -> Result<Result<Charged, Unpriced>, HomeError> {
        database.write(|tx| {
            let NewUpload { round, now_ms, .. } = *made;
            let digest = &membership.digest;
            // The round is already charged if it was taken over from the coordinator's account.
            // Only one vector per slot counts in a round (INV-6).
            let is_charged = is_charged(tx, digest, round)?;
            let charged = match is_charged {
                true => Charged::Made,
                false => match self.admit(tx)? {
                    Ok(charged) => charged,
                    Err(unpriced) => return Ok(Err(unpriced)),
                },
            };
            let state = match charged {
                Charged::Made => {
                    if !is_charged {
                        let mode = self.mode.to_string();
                        let price = (self.event_bytes.as_slice(), mode.as_str());
                        insert_charge(tx, (digest, round), price, now_ms)?;
                    }
                    UploadState::Pending
                }
                Charged::Withheld(_) => UploadState::Withheld,
            };
            insert_upload(tx, membership.id, made, state)?;
            Ok(Ok(charged))
        })
    }

    /// Decides whether one more charge fits the cap.
    fn admit(&self, tx: &Transaction<'_>) -> Result<Result<Charged, Unpriced>, Failure> {
        let before = charges(tx)?;
        let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for (bytes, charge) in &before {
            counts.insert(bytes.clone(), charge.count);
        }
        *counts.entry(self.event_bytes.clone()).or_default() += 1;
        let is_within = {
            let within = self.within.borrow();
            let known =
                |(bytes, count): (&Vec<u8>, &u64)| within.get(bytes).is_some_and(|n| n >= count);
            counts.iter().all(known)
        };
        if is_within {
            return Ok(Ok(Charged::Made));
        }
        let mut after = before.clone();
        after
            .entry(self.event_bytes.clone())
            .and_modify(|charge| charge.count += 1)
            .or_insert(Charges { event: self.event, count: 1, mode: self.mode });
        let would_be = match claim(&after, self.cap) {
            Ok(claim) => claim.epsilon,
            Err(unpriced) => return Ok(Err(unpriced)),
        };
        if would_be <= self.cap.epsilon() {
            self.within.replace(counts);
            return Ok(Ok(Charged::Made));
        }
        Ok(claim(&before, self.cap).map(|claim| {
            Charged::Withheld(BudgetReached { cap: self.cap, spent: claim.epsilon, would_be })
        }))
    }
}

/// Returns true if this round has already been charged. `digest` identifies the study's
/// configuration.
pub(crate) fn is_charged(
    tx: &Transaction<'_>,
    digest: &Digest,
    round: u64,
) -> Result<bool, Failure> {
    let mut statement =
        tx.prepare_cached("SELECT 1 FROM charges WHERE digest = ? AND round = ?")?;
    Ok(statement.exists(params![digest.0, round])?)
}

/// Charges a round. `digest` identifies the study's configuration.
pub(crate) fn insert_charge(
    tx: &Transaction<'_>,
    (digest, round): (&Digest, u64),
    (event, mode): (&[u8], &str),
    now_ms: u64,
) -> Result<(), Failure> {
    let sql =
        "INSERT INTO charges (digest, round, event, mode, charged_at_ms) VALUES (?, ?, ?, ?, ?)";
    tx.execute(sql, params![digest.0, round, event, mode, now_ms])?;
    Ok(())
}

/// All charges of the same event.
#[derive(Clone, Copy, Debug)]
struct Charges {
    event: PrivacyEvent,
    count: u64,
    /// `Paper` if any of the charges was made in that mode.
    mode: Mode,
}

/// Returns all charges, grouped by encoded event.
fn charges(tx: &Transaction<'_>) -> Result<BTreeMap<Vec<u8>, Charges>, Failure> {
    let sql = "SELECT event, count(*), max(mode = 'paper') FROM charges GROUP BY event";
    let mut statement = tx.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut all = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let bytes: Vec<u8> = row.get(0)?;
        let event = event_from_bytes(&bytes)
            .map_err(|error| Failure::Contradiction(format!("a charge is for {error}")))?;
        let charge = Charges {
            event,
            count: row.get(1)?,
            mode: match row.get(2)? {
                true => Mode::Paper,
                false => Mode::Default,
            },
        };
        all.insert(bytes, charge);
    }
    Ok(all)
}

/// Returns an upper bound on the total cost of the charges (INV-14).
fn claim(charges: &BTreeMap<Vec<u8>, Charges>, cap: Budget) -> Result<Claim, Unpriced> {
    let mut accountant = AccountantKind::Pld.accountant();
    let mut mode = Mode::Default;
    for charge in charges.values() {
        accountant.compose(&charge.event, charge.count)?;
        if charge.mode == Mode::Paper {
            mode = Mode::Paper;
        }
    }
    let claim = Claim::of(accountant.as_ref(), cap.delta(), mode)?;
    // INV-14: NaN or a negative value is not a bound.
    if claim.epsilon.is_nan() || claim.epsilon < 0.0 {
        return Err(Unproved::Epsilon(claim.epsilon).into());
    }
    Ok(claim)
}

/// Stores the cap. It applies to all later runs and to status queries.
pub(crate) fn keep_cap(database: &Database, cap: Budget) -> Result<(), HomeError> {
    database.write(|tx| {
        let sql = "INSERT INTO cap VALUES (1, ?1, ?2) ON CONFLICT (id) DO UPDATE SET epsilon = ?1, delta = ?2";
        tx.execute(sql, params![cap.epsilon(), cap.delta().get()])?;
        Ok(())
    })
}

/// Returns the most recent cap, or `None` if none was ever set.
pub(crate) fn cap(tx: &Transaction<'_>) -> Result<Option<Budget>, Failure> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, f64>(0)?, row.get::<_, f64>(1)?));
    let cap = tx.query_row("SELECT epsilon, delta FROM cap", [], read).optional()?;
    let budget = |(epsilon, delta)| {
        Delta::new(delta)
            .and_then(|delta| Budget::new(epsilon, delta))
            .map_err(|error| Failure::Contradiction(format!("its cap: {error}")))
    };
    cap.map(budget).transpose()
}

/// Returns the privacy spending over all studies, at the cap's δ, or `None` before the first run
/// with a cap.
pub(crate) fn spent(database: &Database) -> Result<Option<PrivacyStatus>, HomeError> {
    database.read(|tx| {
        let Some(cap) = cap(tx)? else {
            return Ok(None);
        };
        let spent = claim(&charges(tx)?, cap);
        Ok(Some(PrivacyStatus { cap, spent }))
    })
}
