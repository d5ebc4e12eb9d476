//! Restores the record of an agent's spending from its studies' coordinators, after its home was
//! restored from an older copy (INV-28).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_ledger::Head;
use fedbo_party::Identity;
use fedbo_transport::{Clock, LinkError, SystemClock};
use fedbo_wire::{SigningKey, StudyStatus};

use crate::account::{Settled, check, in_order, settle};
use crate::dialogue::is_of_the_key;
use crate::follower::Follower;
use crate::intake::Intake;
use crate::link::{Caller, Poll, Polled};
use crate::rotate::LinkTo;
use crate::{Home, HttpLink, Link, Membership, ReconcileError};

/// The spending that was taken over from a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconciled {
    /// The study.
    pub study: String,
    /// Counter of the home's last request before the reconciliation.
    pub counter_before: u64,
    /// Request counter from which the home continues.
    pub counter: u64,
    /// The rounds that were charged, in ascending order, by study. Includes other studies at the
    /// same coordinator.
    pub charged: Vec<(String, Vec<u64>)>,
    /// Number of releases in the study's ledger, which was verified from its charter onwards. 0 if
    /// nothing is released.
    pub n_releases: u64,
    /// The head of the ledger, or `None` before the first round.
    pub head: Option<Head>,
}

/// Compares an agent's home with the coordinators of its studies, or of one study if it is named.
///
/// Charges the rounds that the agent's slots delivered according to the coordinators' signed
/// accounts and ledgers but that are missing from the home. Advances the request counters. Studies
/// that the home considers finished are included only if named. The operation can be repeated
/// safely.
///
/// # Errors
/// If a coordinator does not respond or cannot be trusted, or a study of the agent is running.
/// Spending that was taken over before the error is kept.
pub fn reconcile(home: &Path, study: Option<&str>) -> Result<Vec<Reconciled>, ReconcileError> {
    let link_to = |membership: &Membership| -> Result<Box<dyn Link>, LinkError> {
        let never = Arc::new(AtomicBool::new(false));
        let authority = membership.authority.as_deref();
        Ok(Box::new(HttpLink::new(&membership.url, authority, membership.coordinator, never)?))
    };
    reconcile_with(home, study, &link_to, &SystemClock)
}

/// Like [`reconcile`], but with the given links to the coordinators and clock.
///
/// # Errors
/// As for [`reconcile`].
pub fn reconcile_with(
    home: &Path,
    study: Option<&str>,
    link_to: &LinkTo<'_>,
    clock: &dyn Clock,
) -> Result<Vec<Reconciled>, ReconcileError> {
    let home = Home::open(home)?;
    let _held = home.hold_key()?;
    let memberships = match study {
        Some(_) => vec![home.membership(study)?],
        None => {
            let mut all = home.memberships()?;
            all.retain(|membership| !membership.finished);
            all
        }
    };
    let mut all = Vec::new();
    for membership in &memberships {
        let _not_running = home.hold(membership)?;
        let link = link_to(membership).map_err(|source| failed(membership, source))?;
        all.push(one(&home, membership, link.as_ref(), clock)?);
    }
    Ok(all)
}

fn one(
    home: &Home,
    membership: &Membership,
    link: &dyn Link,
    clock: &dyn Clock,
) -> Result<Reconciled, ReconcileError> {
    let keys = Identity::load(home.folder())?.in_order(membership.key);
    let (key, status) = status(link, &keys, membership)?;
    // Check the account before using its counter for a request.
    check(&membership.coordinator, &key.public(), &status.account, clock.now_ms())
        .map_err(|error| failed(membership, error.into()))?;
    let own = status.account.studies.iter().find(|study| study.config == membership.digest);
    let unusable =
        |reason: &str| failed(membership, LinkError::Unusable { reason: reason.to_owned() });
    let own = own
        .ok_or_else(|| unusable("the coordinator's account has no entry for this agent's slot"))?;
    let (before, _) = home.database.read(|tx| membership.counters(tx))?;
    // A home that is behind is advanced only after everything has been taken over. If this process
    // ends earlier, the home still counts as behind.
    let counter = match own.counter > before {
        true => own.counter.saturating_add(1),
        false => home.database.write(|tx| membership.count(tx, 0))?,
    };
    let federation = membership.federation()?;
    let (n_releases, head, released) = match federation.privacy() {
        None => (0, None, Vec::new()),
        Some(_) => {
            let intake = Intake::of(&federation, membership)?;
            let follower = Follower::new(membership, &federation, &intake)?;
            ledger(link, Caller { key, counter }, membership, follower)?
        }
    };
    let in_doubt = in_order(&own.delivered).map_err(|error| failed(membership, error.into()))?;
    if let Some(round) =
        in_doubt.iter().find(|&&round| round < status.round && !released.contains(&round))
    {
        let reason = format!(
            "it reports that this agent's upload is in the release of round {round}, but the study's signed ledger has no such release"
        );
        return Err(unusable(&reason));
    }
    let (by, now_ms) = (&membership.coordinator, clock.now_ms());
    let settled = settle(home, by, &key.public(), &status.account, now_ms)?;
    let Settled { taken_over, .. } = settled.map_err(|error| failed(membership, error.into()))?;
    home.database.write(|tx| membership.set_forward(tx, counter))?;
    Ok(Reconciled {
        study: membership.study.clone(),
        counter_before: before,
        counter,
        charged: taken_over.into_iter().map(|new| (new.study, new.rounds)).collect(),
        n_releases,
        head,
    })
}

/// Requests the study's state with each key in turn. Also returns the key that the coordinator
/// knows.
fn status<'a>(
    link: &dyn Link,
    keys: &'a [SigningKey],
    membership: &Membership,
) -> Result<(&'a SigningKey, StudyStatus), ReconcileError> {
    let mut refused = None;
    for key in keys {
        match link.status(key, &membership.study) {
            Ok(status) => return Ok((key, status)),
            Err(error) if error.code().is_some_and(is_of_the_key) => refused = Some(error),
            Err(error) => return Err(failed(membership, error)),
        }
    }
    let none = || LinkError::Setting("the agent has no key".to_owned());
    Err(failed(membership, refused.unwrap_or_else(none)))
}

/// Returns the number of releases in the study's ledger, its head, and the released rounds.
///
/// All of them come from the newest handout, whose chain is verified from the charter to the head
/// that the coordinator has signed.
fn ledger(
    link: &dyn Link,
    by: Caller<'_>,
    membership: &Membership,
    follower: Follower,
) -> Result<(u64, Option<Head>, Vec<u64>), ReconcileError> {
    let poll = Poll {
        after: None,
        entries: 0,
        helper: 0,
        wait_s: 0,
        delivered: None,
        state: None,
        bytes_max: follower.bytes_max(),
    };
    let polled = link.handouts(by, &membership.study, poll);
    match polled.map_err(|source| failed(membership, source))? {
        Polled::Nothing(_) => Ok((0, None, Vec::new())),
        Polled::Handout { bytes, .. } => {
            let verified = follower.read(&bytes).map_err(|source| ReconcileError::Misconduct {
                study: membership.study.clone(),
                source: Box::new(source),
            })?;
            Ok((verified.head.seq, Some(verified.head), verified.released()))
        }
    }
}

fn failed(membership: &Membership, source: LinkError) -> ReconcileError {
    ReconcileError::Link { study: membership.study.clone(), source }
}
