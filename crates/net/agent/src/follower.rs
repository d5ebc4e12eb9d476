//! An agent's view of its coordinator's ledger, and the checks of every handout against it (INV-13).
//!
//! Pure: the bytes of a handout go in; its usable content, or the coordinator's misconduct, comes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use fedbo_federation::{Collaboration, Federation, Protection};
use fedbo_ledger::{Head, UnreadableEvent, event_to_bytes};
use fedbo_protocol::{Release, ReleaseSchedule};
use fedbo_wire::{Content, Digest, Handout, LedgerEntry, Limits, PublicKey, RelayedMessage};

use crate::reader::Reader;
use crate::{Membership, Misconduct};

/// An error that keeps an agent from following a study's releases.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotFollowed {
    /// Its event has no bytes.
    #[error("the study's privacy event is none: {0}")]
    Event(#[from] UnreadableEvent),
    /// Its noise comes from a seed, and this build reads no such releases.
    #[error(
        "the study has simulate = true, and this program is built without simulation: nothing is promised of its releases"
    )]
    Simulation,
    /// Its agents share with neighbours.
    #[error("the study's agents share with neighbours and have no coordinator; use `fedbo peer`")]
    Neighbours,
}

/// The verified content of a handout.
#[derive(Clone, Debug)]
pub(crate) struct VerifiedHandout {
    /// The round that begins.
    pub(crate) round: u64,
    pub(crate) collects: bool,
    pub(crate) content: VerifiedContent,
    /// The head of the ledger after this handout.
    pub(crate) head: Head,
    /// Hash of each new release with its event, by round.
    known: Vec<(u64, Digest)>,
}

#[derive(Clone, Debug)]
pub(crate) enum VerifiedContent {
    Messages { messages: Vec<RelayedMessage>, stragglers: Vec<u32> },
    Releases(Vec<Arc<Release>>),
}

/// Follows one coordinator in one study.
#[derive(Debug)]
pub(crate) struct Follower {
    coordinator: PublicKey,
    config: Digest,
    limits: Limits,
    ledger: Option<LedgerPlan>,
    /// The newest round that was verified.
    round: Option<u64>,
    head: Head,
    /// Releases by round.
    known: BTreeMap<u64, Digest>,
}

/// The ledger of a study with releases, as the configuration describes it.
#[derive(Debug)]
struct LedgerPlan {
    schedule: ReleaseSchedule,
    /// In bytes; empty where nothing is charged.
    event: Vec<u8>,
    reader: Reader,
}

impl Follower {
    /// Begins before the first round of a study.
    pub(crate) fn new(
        membership: &Membership,
        federation: &Federation,
    ) -> Result<Self, NotFollowed> {
        let (ledger, head) = match &federation.collaboration {
            Collaboration::Relayed(_) => (None, Head { seq: 0, hash: [0; 32] }),
            Collaboration::Released(releases) => {
                let (event, head) = match &releases.releases.protection {
                    Protection::Charged(plan) => {
                        (event_to_bytes(&plan.event)?, plan.charter.genesis())
                    }
                    Protection::Off | Protection::Simulated => {
                        (Vec::new(), Head::uncharged(membership.config.as_bytes()))
                    }
                };
                let plan = LedgerPlan {
                    schedule: releases.schedule(),
                    event,
                    reader: Reader::of(releases, federation.own_arm())
                        .ok_or(NotFollowed::Simulation)?,
                };
                (Some(plan), head)
            }
            Collaboration::Neighbours(_) => return Err(NotFollowed::Neighbours),
        };
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX); // checked to be far below when the text was read
        Ok(Self {
            coordinator: membership.coordinator,
            config: membership.digest,
            limits: Limits {
                n_features: count(federation.message_len()),
                n_slots: count(federation.agents.len()),
                release_bytes_max: ledger.as_ref().map_or(0, |plan| plan.reader.bytes_max),
            },
            ledger,
            round: None,
            head,
            known: BTreeMap::new(),
        })
    }

    /// The newest round.
    pub(crate) fn round(&self) -> Option<u64> {
        self.round
    }

    /// The head of the ledger, as far as the agent has followed it.
    pub(crate) fn head(&self) -> Head {
        self.head
    }

    /// Bytes of a handout at most.
    pub(crate) fn bytes_max(&self) -> u64 {
        let n_releases = self.ledger.as_ref().map_or(0, |plan| plan.schedule.n_releases());
        self.limits.handout_bytes_max(n_releases)
    }

    /// Looks at a handout; nothing is changed by it.
    pub(crate) fn read(&self, bytes: &[u8]) -> Result<VerifiedHandout, Misconduct> {
        let handout = Handout::from_bytes(bytes, &self.coordinator, self.limits)?;
        if handout.config != self.config {
            return Err(Misconduct::OtherConfig { expected: self.config, found: handout.config });
        }
        if let Some(last) = self.round
            && handout.round <= last
        {
            return Err(Misconduct::RoundBack { last, found: handout.round });
        }
        let other_content = |expected, found| Misconduct::OtherContent { expected, found };
        match (handout.content, &self.ledger) {
            (Content::Messages { messages, stragglers }, None) => Ok(VerifiedHandout {
                round: handout.round,
                collects: handout.collects,
                content: VerifiedContent::Messages { messages, stragglers },
                head: self.head,
                known: Vec::new(),
            }),
            (Content::Releases(entries), Some(plan)) => {
                let signed = Head { seq: handout.head.seq, hash: handout.head.hash };
                let (releases, known) = self.follow(plan, &entries, signed, handout.round)?;
                plan.check_round(handout.round, handout.collects, signed.seq)?;
                Ok(VerifiedHandout {
                    round: handout.round,
                    collects: handout.collects,
                    content: VerifiedContent::Releases(releases),
                    head: signed,
                    known,
                })
            }
            (Content::Messages { .. }, Some(_)) => Err(other_content("releases", "messages")),
            (Content::Releases(_), None) => Err(other_content("messages", "releases")),
        }
    }

    /// Goes on to a handout that was verified.
    pub(crate) fn advance(&mut self, verified: &VerifiedHandout) {
        self.round = Some(verified.round);
        self.head = verified.head;
        self.known.extend(verified.known.iter().copied());
    }

    /// The releases that are new when a round begins, after the whole chain from the own head to the signed one was followed.
    #[expect(clippy::type_complexity, reason = "releases, and what is known of them from now on")]
    fn follow(
        &self,
        plan: &LedgerPlan,
        entries: &[LedgerEntry],
        signed: Head,
        begins: u64,
    ) -> Result<(Vec<Arc<Release>>, Vec<(u64, Digest)>), Misconduct> {
        let own = self.head;
        let mut head = own;
        let mut releases = Vec::new();
        let mut known = Vec::new();
        for entry in entries {
            let LedgerEntry { seq, round, event, release } = entry;
            let digest = fedbo_wire::digest("release of a round", &[event, release]);
            if let Some(before) = self.known.get(round) {
                // Shown again: the same in every bit, or it is released twice.
                match *before == digest && *seq <= own.seq {
                    true => continue,
                    false => return Err(Misconduct::OtherRelease { round: *round }),
                }
            }
            let planned = plan.schedule.n_releases();
            if *seq > planned {
                return Err(Misconduct::TooManyReleases { planned, found: *seq });
            }
            let due = head.seq + 1;
            if *seq != due {
                return Err(Misconduct::EntryMissing { expected: due, found: *seq });
            }
            let expected = (due - 1) * plan.schedule.every(); // at most the last round of the schedule
            if *round != expected {
                return Err(Misconduct::OtherRound { seq: *seq, expected, found: *round });
            }
            if *round > begins {
                return Err(Misconduct::ReleaseEarly { round: begins, found: *round });
            }
            if *event != plan.event {
                return Err(Misconduct::OtherEvent { round: *round });
            }
            head = head.follow(*round, event, release);
            let read = plan.reader.read(*round, release);
            releases.push(read.map_err(|source| Misconduct::Release { round: *round, source })?);
            known.push((*round, digest));
        }
        if signed.seq < own.seq {
            return Err(Misconduct::LedgerBack { known: own.seq, found: signed.seq });
        }
        if signed != head {
            return Err(Misconduct::OtherHistory { expected: head, found: signed });
        }
        Ok((releases, known))
    }
}

impl LedgerPlan {
    /// Checks that every round before this one that is to release has done so, and that it collects as it is to (INV-3). The round
    /// itself may have been released: by a coordinator that stopped between that and the next handout, and was started again.
    fn check_round(&self, round: u64, collects: bool, n_released: u64) -> Result<(), Misconduct> {
        if collects != self.schedule.releases(round) {
            return Err(Misconduct::OtherCollection { round, found: collects });
        }
        let expected = round.div_ceil(self.schedule.every()).min(self.schedule.n_releases());
        if n_released < expected {
            return Err(Misconduct::ReleaseMissing { round, expected, found: n_released });
        }
        Ok(())
    }
}
