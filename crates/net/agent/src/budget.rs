//! An agent's privacy spending over all its studies, and its budget for them (INV-13).
//!
//! A charge is made before the first byte of an upload leaves, in the transaction that keeps the upload: two processes that
//! run two studies of one home cannot both spend the last of the budget. What is charged stays charged, also if the upload
//! comes too late.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use fedbo_database::Failure;
use fedbo_ledger::{event_from_bytes, event_to_bytes};
use fedbo_party::{Database, HomeError};
use fedbo_privacy::accounting::{
    AccountantKind, Budget, Claim, Delta, Mode, PrivacyEvent, Unproved, UnsupportedEvent,
};
use rusqlite::{OptionalExtension as _, Transaction, params};

use crate::Membership;
use crate::log::{NewUpload, UploadState, insert_upload};

/// An error that leaves a charge without a price.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unpriced {
    /// The accountant takes no such events.
    #[error("what an upload costs is not known, so none is made: {0}")]
    Event(#[from] UnsupportedEvent),
    /// It proves nothing of them.
    #[error("what the uploads cost together is not known, so none is made: {0}")]
    Epsilon(#[from] Unproved),
    /// The event has no bytes.
    #[error("what an upload costs cannot be written down, so none is made: {0}")]
    Unwritable(String),
}

/// An upload that the agent's budget does not allow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetReached {
    /// The budget over all studies.
    pub cap: Budget,
    /// ε of all charges so far.
    pub spent: f64,
    /// ε with one more.
    pub would_be: f64,
}

impl fmt::Display for BudgetReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "over all studies epsilon {:?} is spent and would be {:?}, of {:?} at delta {:?}",
            self.spent,
            self.would_be,
            self.cap.epsilon(),
            self.cap.delta().get()
        )
    }
}

/// The privacy spending of an agent over all its studies, and its budget.
#[derive(Clone, Debug)]
pub struct PrivacyStatus {
    /// The budget, as the agent's file said last.
    pub cap: Budget,
    /// The cost of all its uploads together, at most.
    pub spent: Result<Claim, Unpriced>,
}

/// The outcome of a charge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Charged {
    /// It is made; the upload may leave.
    Made,
    /// The budget does not allow it; the upload is kept and never leaves.
    Withheld(BudgetReached),
}

/// The agent's privacy budget, as the uploads of one study charge it.
#[derive(Debug)]
pub(crate) struct PrivacyBudget {
    cap: Budget,
    event: PrivacyEvent,
    event_bytes: Vec<u8>,
    mode: Mode,
    /// Charges by event that are known to fit the cap, and so does every part of them: leaving releases out does not raise ε.
    within: RefCell<BTreeMap<Vec<u8>, u64>>,
}

impl PrivacyBudget {
    /// Returns a budget for uploads that cost this event each, once it is known that they have a price.
    pub(crate) fn open(cap: Budget, event: PrivacyEvent, mode: Mode) -> Result<Self, Unpriced> {
        let mut accountant = AccountantKind::Pld.accountant();
        accountant.compose(&event, 1)?;
        accountant.epsilon(cap.delta())?;
        let event_bytes =
            event_to_bytes(&event).map_err(|error| Unpriced::Unwritable(error.to_string()))?;
        Ok(Self { cap, event, event_bytes, mode, within: RefCell::default() })
    }

    /// Charges an upload and keeps it, in one transaction; or keeps it as withheld.
    pub(crate) fn charge(
        &self,
        database: &Database,
        membership: &Membership,
        made: &NewUpload<'_>,
    ) -> Result<Result<Charged, Unpriced>, HomeError> {
        database.write(|tx| {
            let charged = match self.admit(tx)? {
                Ok(charged) => charged,
                Err(unpriced) => return Ok(Err(unpriced)),
            };
            let NewUpload { round, now_ms, .. } = *made;
            let state = match charged {
                Charged::Made => {
                    let mode = self.mode.to_string();
                    let sql = "INSERT INTO charges (digest, round, event, mode, charged_at_ms) VALUES (?, ?, ?, ?, ?)";
                    let digest = membership.digest.0;
                    tx.execute(sql, params![digest, round, self.event_bytes, mode, now_ms])?;
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

/// Charges of one event.
#[derive(Clone, Copy, Debug)]
struct Charges {
    event: PrivacyEvent,
    count: u64,
    /// Paper if any of them is.
    mode: Mode,
}

/// All charges, by the bytes of their events.
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

/// Returns an upper bound on the cost of charges together (INV-14).
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
    // INV-14: what is no number is no bound.
    if claim.epsilon.is_nan() || claim.epsilon < 0.0 {
        return Err(Unproved::Epsilon(claim.epsilon).into());
    }
    Ok(claim)
}

/// Keeps the cap for all later runs, and for who asks what may be spent.
pub(crate) fn keep_cap(database: &Database, cap: Budget) -> Result<(), HomeError> {
    database.write(|tx| {
        let sql = "INSERT INTO cap VALUES (1, ?1, ?2) ON CONFLICT (id) DO UPDATE SET epsilon = ?1, delta = ?2";
        tx.execute(sql, params![cap.epsilon(), cap.delta().get()])?;
        Ok(())
    })
}

/// The cap that was given last; none before the first.
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

/// Returns the privacy spending over all studies, at the δ of the agent's cap; none before its first run of a study
/// that charges.
pub(crate) fn spent(database: &Database) -> Result<Option<PrivacyStatus>, HomeError> {
    database.read(|tx| {
        let Some(cap) = cap(tx)? else {
            return Ok(None);
        };
        let spent = claim(&charges(tx)?, cap);
        Ok(Some(PrivacyStatus { cap, spent }))
    })
}
