//! A study's durable releases: in its ledger if they are charged, in the store otherwise.

use std::path::Path;
use std::sync::Arc;

use fedbo_failpoints::pass;
use fedbo_ledger::{Charter, Head, Ledger, LedgerError, Ledgers};
use fedbo_privacy::accounting::PrivacyEvent;
use fedbo_wire::LedgerEntry;

use crate::store::{FreeRelease, Lead, Store, StoreError};
use crate::study::Study;

/// Error that prevents a release from becoming durable. The release is not published, and the study
/// stops.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReleasesError {
    /// The ledger refused an operation.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The store refused an operation.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger lacks the head that the store has recorded.
    #[error(
        "the ledger of study {study:?} ends at {found}, but its releases had reached {known}: it \
         was rolled back or replaced, so the spent budget is unknown; restore the latest ledger, \
         or end the study"
    )]
    RolledBack {
        /// Name of the study.
        study: String,
        /// Head of the ledger.
        found: Head,
        /// Head recorded in the store.
        known: String,
    },
    /// A charged release has no privacy event, or a free release has one.
    #[error("round {round}: the release and its charge do not match")]
    Price {
        /// Round of the release.
        round: u64,
    },
}

/// Durable releases of one study, in order.
pub(crate) trait Releases: Send {
    /// Returns the head of the chain.
    fn head(&self) -> Head;

    /// Returns the release of a round, if there is one. Otherwise, returns an error if the budget
    /// does not admit another release, before anything is collected (INV-13).
    fn stored(&mut self, round: u64) -> Result<Option<Vec<u8>>, ReleasesError>;

    /// Commits the charge and the release atomically (INV-1), then records the head of the chain
    /// outside the ledger.
    fn commit(
        &mut self,
        round: u64,
        event: Option<&PrivacyEvent>,
        release: &[u8],
    ) -> Result<Head, ReleasesError>;

    /// Returns the entries numbered above `after`, in order.
    fn entries(&self, after: u64) -> Result<Vec<LedgerEntry>, ReleasesError>;
}

/// Location of a study's ledger.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LedgerPlace<'a> {
    File(&'a Path),
    Database(&'a Ledgers),
}

impl LedgerPlace<'_> {
    fn open(self, charter: &Charter) -> Result<Ledger, LedgerError> {
        match self {
            Self::File(path) => Ledger::open(path, charter),
            Self::Database(ledgers) => Ledger::open_in(ledgers, charter),
        }
    }

    fn create(self, charter: &Charter) -> Result<Ledger, LedgerError> {
        match self {
            Self::File(path) => Ledger::create(path, charter),
            Self::Database(ledgers) => Ledger::create_in(ledgers, charter),
        }
    }
}

/// Releases charged in a ledger.
pub(crate) struct ChargedReleases {
    ledger: Ledger,
    event: PrivacyEvent,
    store: Arc<dyn Store>,
    lead: Lead,
}

impl ChargedReleases {
    /// Opens or creates the study's ledger. `known` is the ledger's last recorded head.
    pub(crate) fn open(
        place: LedgerPlace<'_>,
        study: &Study,
        (charter, event): (&Charter, PrivacyEvent),
        known: Option<&str>,
        (store, lead): (Arc<dyn Store>, Lead),
    ) -> Result<Self, ReleasesError> {
        let ledger = match place.open(charter) {
            Err(LedgerError::Absent { .. }) if known.is_none() => place.create(charter)?,
            opened => opened?,
        };
        if let Some(known) = known {
            let is_there = match known.parse::<Head>() {
                Ok(head) => ledger.contains(&head)?,
                Err(_) => false,
            };
            if !is_there {
                return Err(ReleasesError::RolledBack {
                    study: study.name.clone(),
                    found: ledger.head(),
                    known: known.to_owned(),
                });
            }
        }
        store.note_head(&lead, &ledger.head().to_string())?;
        Ok(Self { ledger, event, store, lead })
    }
}

impl Releases for ChargedReleases {
    fn head(&self) -> Head {
        self.ledger.head()
    }

    fn stored(&mut self, round: u64) -> Result<Option<Vec<u8>>, ReleasesError> {
        let stored = self.ledger.stored(round)?;
        if stored.is_none() {
            self.ledger.admits(&self.event, 1)?;
        }
        Ok(stored)
    }

    fn commit(
        &mut self,
        round: u64,
        event: Option<&PrivacyEvent>,
        release: &[u8],
    ) -> Result<Head, ReleasesError> {
        let event = event.ok_or(ReleasesError::Price { round })?;
        let head = self.ledger.commit(round, event, release)?;
        pass("coordinator: a release is charged");
        // Recorded after the charge and before the release is published, so that a later rollback
        // of the ledger is detected.
        self.store.note_head(&self.lead, &head.to_string())?;
        pass("coordinator: the head is noted");
        Ok(head)
    }

    fn entries(&self, after: u64) -> Result<Vec<LedgerEntry>, ReleasesError> {
        let entries = self.ledger.entries(after)?;
        Ok(entries.into_iter().map(entry).collect())
    }
}

fn entry(committed: fedbo_ledger::Committed) -> LedgerEntry {
    LedgerEntry {
        seq: committed.seq,
        round: committed.round,
        event: committed.event,
        release: committed.release,
    }
}

/// Returns the entries that another coordinator committed after `head`, for rounds before `round`.
/// They are durable, and their rounds are over (INV-1, INV-9).
pub(crate) fn released(
    store: &dyn Store,
    study: &Study,
    head: Head,
    round: u64,
) -> Result<Vec<LedgerEntry>, ReleasesError> {
    if let (Some(ledgers), Some(_)) = (store.ledgers(), study.plan()) {
        let committed = ledgers.follow(&study.name, head, round)?;
        return Ok(committed.into_iter().map(entry).collect());
    }
    let releases = store.free_releases(study.key)?;
    let over = releases.into_iter().filter(|release| release.round < round);
    let entries = (1..).zip(over).map(|(seq, release)| LedgerEntry {
        seq,
        round: release.round,
        event: Vec::new(),
        release: release.bytes,
    });
    Ok(entries.filter(|entry| entry.seq > head.seq).collect())
}

/// Releases without a privacy charge: without noise, or with seeded noise.
pub(crate) struct FreeReleases {
    entries: Vec<LedgerEntry>,
    head: Head,
    store: Arc<dyn Store>,
    lead: Lead,
}

impl FreeReleases {
    pub(crate) fn open(
        study: &Study,
        store: Arc<dyn Store>,
        lead: Lead,
    ) -> Result<Self, ReleasesError> {
        let mut releases = Self { entries: Vec::new(), head: study.genesis(), lead, store };
        for release in releases.store.free_releases(study.key)? {
            releases.append(release);
        }
        Ok(releases)
    }

    fn append(&mut self, release: FreeRelease) {
        self.head = self.head.follow(release.round, &[], &release.bytes);
        self.entries.push(LedgerEntry {
            seq: self.head.seq,
            round: release.round,
            event: Vec::new(),
            release: release.bytes,
        });
    }
}

impl Releases for FreeReleases {
    fn head(&self) -> Head {
        self.head
    }

    fn stored(&mut self, round: u64) -> Result<Option<Vec<u8>>, ReleasesError> {
        let found = self.entries.iter().find(|entry| entry.round == round);
        Ok(found.map(|entry| entry.release.clone()))
    }

    fn commit(
        &mut self,
        round: u64,
        event: Option<&PrivacyEvent>,
        release: &[u8],
    ) -> Result<Head, ReleasesError> {
        if event.is_some() {
            return Err(ReleasesError::Price { round });
        }
        let release = FreeRelease { round, bytes: release.to_vec() };
        self.store.add_release(&self.lead, &release)?;
        self.append(release);
        Ok(self.head)
    }

    fn entries(&self, after: u64) -> Result<Vec<LedgerEntry>, ReleasesError> {
        let known = usize::try_from(after).unwrap_or(usize::MAX);
        Ok(self.entries.get(known..).unwrap_or_default().to_vec())
    }
}
