//! An agent's view of its coordinator's ledger, and the checks of every handout against it (INV-13).
//!
//! Pure: the bytes of a handout go in; its usable content, or the coordinator's misconduct, comes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use fedbo_federation::{Collaboration, Federation, Protection};
use fedbo_ledger::{Head, UnreadableEvent, event_to_bytes};
use fedbo_protocol::{Release, ReleaseSchedule};
use fedbo_servers::{HelperChain, SumStudy};
use fedbo_wire::{
    Content, Digest, Handout, HelperEntry, LedgerEntry, Limits, PublicKey, RelayedMessage,
};

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
    /// The helper's ledger as it is known after this handout, and the shares that wait for the other server's.
    pairing: Option<Pairing>,
}

/// Shares of the two servers of a secure sum, which are a release where both are there.
#[derive(Clone, Debug)]
struct Pairing {
    helper: HelperChain,
    /// The leader's shares without the helper's, by round.
    of_leader: BTreeMap<u64, Vec<u8>>,
    /// The helper's without the leader's.
    of_helper: BTreeMap<u64, HelperEntry>,
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
    /// Releases by round; where two servers sum, the leader's shares.
    known: BTreeMap<u64, Digest>,
    sum: Option<(SumStudy, Pairing)>,
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
        sum: Option<SumStudy>,
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
            sum: sum.map(|study| {
                let helper = HelperChain::new(&study);
                let (of_leader, of_helper) = (BTreeMap::new(), BTreeMap::new());
                (study, Pairing { helper, of_leader, of_helper })
            }),
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

    /// Entries of the helper's ledger, as far as the agent has followed it.
    pub(crate) fn helper_seq(&self) -> u64 {
        self.sum.as_ref().map_or(0, |(_, pairing)| pairing.helper.seq())
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
                pairing: None,
            }),
            (Content::Releases(entries), Some(plan)) if self.sum.is_none() => {
                let signed = Head { seq: handout.head.seq, hash: handout.head.hash };
                let (new, known) = self.follow(plan, &entries, signed, handout.round)?;
                plan.check_round(handout.round, handout.collects, Some(signed.seq))?;
                let read = |(round, release): (u64, Vec<u8>)| {
                    let read = plan.reader.read(round, &release);
                    read.map_err(|source| Misconduct::Release { round, source })
                };
                let releases = new.into_iter().map(read).collect::<Result<_, _>>()?;
                Ok(VerifiedHandout {
                    round: handout.round,
                    collects: handout.collects,
                    content: VerifiedContent::Releases(releases),
                    head: signed,
                    known,
                    pairing: None,
                })
            }
            (Content::Shares { leader, helper }, Some(plan)) if self.sum.is_some() => {
                let signed = Head { seq: handout.head.seq, hash: handout.head.hash };
                let (new, known) = self.follow(plan, &leader, signed, handout.round)?;
                plan.check_round(handout.round, handout.collects, None)?;
                let (releases, pairing) = self.pair(plan, new, &helper, handout.round)?;
                Ok(VerifiedHandout {
                    round: handout.round,
                    collects: handout.collects,
                    content: VerifiedContent::Releases(releases),
                    head: signed,
                    known,
                    pairing,
                })
            }
            (Content::Messages { .. }, Some(_)) => Err(other_content("releases", "messages")),
            (Content::Releases(_), Some(_)) => Err(other_content("shares", "releases")),
            (Content::Shares { .. }, Some(_)) => Err(other_content("releases", "shares")),
            (Content::Releases(_), None) => Err(other_content("messages", "releases")),
            (Content::Shares { .. }, None) => Err(other_content("messages", "shares")),
        }
    }

    /// Goes on to a handout that was verified.
    pub(crate) fn advance(&mut self, verified: &VerifiedHandout) {
        self.round = Some(verified.round);
        self.head = verified.head;
        self.known.extend(verified.known.iter().copied());
        if let (Some((_, known)), Some(pairing)) = (&mut self.sum, &verified.pairing) {
            known.clone_from(pairing);
        }
    }

    /// The releases of rounds of which both servers' shares are there now. A round of which one is missing has none, nor one in which the leader
    /// had not shown its share before it got the helper's.
    fn pair(
        &self,
        plan: &LedgerPlan,
        leader: Vec<(u64, Vec<u8>)>,
        helper: &[HelperEntry],
        begins: u64,
    ) -> Result<(Vec<Arc<Release>>, Option<Pairing>), Misconduct> {
        let Some((study, known)) = &self.sum else {
            return Ok((Vec::new(), None));
        };
        let mut pairing = known.clone();
        let new = pairing.helper.follow(study, helper)?;
        if let Some(early) = new.iter().find(|entry| entry.entry.round >= begins) {
            return Err(Misconduct::ReleaseEarly { round: begins, found: early.entry.round });
        }
        pairing.of_leader.extend(leader);
        pairing.of_helper.extend(new.into_iter().map(|entry| (entry.entry.round, entry)));
        let rounds: Vec<u64> = pairing.of_leader.keys().copied().collect();
        let mut releases = Vec::new();
        for round in rounds {
            let Some(entry) = pairing.of_helper.remove(&round) else {
                continue;
            };
            let share = pairing.of_leader.remove(&round).unwrap_or_default();
            if entry.leader_share.0 == [0; 32] {
                continue; // the leader was bound to nothing when it got the helper's share
            }
            HelperChain::check_leader(&entry, &share)?;
            let release = [share, entry.entry.release].concat();
            let read = plan.reader.read(round, &release);
            releases.push(read.map_err(|source| Misconduct::Release { round, source })?);
        }
        Ok((releases, Some(pairing)))
    }

    /// The entries that are new when a round begins, after the whole chain from the own head to the signed one was followed.
    #[expect(clippy::type_complexity, reason = "releases, and what is known of them from now on")]
    fn follow(
        &self,
        plan: &LedgerPlan,
        entries: &[LedgerEntry],
        signed: Head,
        begins: u64,
    ) -> Result<(Vec<(u64, Vec<u8>)>, Vec<(u64, Digest)>), Misconduct> {
        let own = self.head;
        let mut head = own;
        let mut new = Vec::new();
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
            let expected = match self.sum {
                None => (due - 1) * plan.schedule.every(), // at most the last round of the schedule
                // A round that not both servers reached is missing.
                Some(_) => {
                    let last = known.last().map(|(round, _)| *round);
                    let last = last.or_else(|| self.known.keys().next_back().copied());
                    let is_due =
                        plan.schedule.releases(*round) && last.is_none_or(|last| *round > last);
                    if is_due { *round } else { round.wrapping_add(1) }
                }
            };
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
            new.push((*round, release.clone()));
            known.push((*round, digest));
        }
        if signed.seq < own.seq {
            return Err(Misconduct::LedgerBack { known: own.seq, found: signed.seq });
        }
        if signed != head {
            return Err(Misconduct::OtherHistory { expected: head, found: signed });
        }
        Ok((new, known))
    }
}

impl LedgerPlan {
    /// Checks that every round before this one that is to release has done so, unless two servers may miss one, and that it collects as it is to (INV-3). The round
    /// itself may have been released: by a coordinator that stopped between that and the next handout, and was started again.
    fn check_round(
        &self,
        round: u64,
        collects: bool,
        n_released: Option<u64>,
    ) -> Result<(), Misconduct> {
        if collects != self.schedule.releases(round) {
            return Err(Misconduct::OtherCollection { round, found: collects });
        }
        let expected = round.div_ceil(self.schedule.every()).min(self.schedule.n_releases());
        match n_released {
            Some(found) if found < expected => {
                Err(Misconduct::ReleaseMissing { round, expected, found })
            }
            _ => Ok(()),
        }
    }
}
