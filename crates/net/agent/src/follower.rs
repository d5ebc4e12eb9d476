//! An agent's view of its coordinator's ledger, against which every handout is checked (INV-13).
//!
//! This module does no I/O. `Follower::read` takes the bytes of a handout, and returns the verified
//! content or the coordinator's misconduct.

use std::collections::BTreeMap;
use std::sync::Arc;

use fedbo_federation::{Collaboration, Federation, Protection};
use fedbo_ledger::{Head, UnreadableEvent, event_to_bytes};
use fedbo_protocol::{Release, ReleaseSchedule};
use fedbo_servers::{HelperChain, HelperMisconduct, SumStudy};
use fedbo_wire::{
    Content, Digest, Handout, HelperEntry, LedgerEntry, Limits, PublicKey, RelayedMessage, RoundKey,
};

use crate::intake::Intake;
use crate::reader::Reader;
use crate::{Membership, Misconduct};

/// An error that keeps an agent from following a study's releases.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotFollowed {
    /// The study's privacy event has no byte representation.
    #[error("the study's privacy event is invalid: {0}")]
    Event(#[from] UnreadableEvent),
    /// The study's noise is simulated from a seed, and this build cannot read simulated releases.
    #[error(
        "the study has simulate = true, and this program is built without simulation: the study's releases have no guarantee"
    )]
    Simulation,
    /// The study's agents exchange messages with neighbours, without a coordinator.
    #[error("the study's agents share with neighbours and have no coordinator; use `fedbo peer`")]
    Neighbours,
}

/// The verified content of a handout.
#[derive(Clone, Debug)]
pub(crate) struct VerifiedHandout {
    /// The round that the handout begins.
    pub(crate) round: u64,
    pub(crate) collects: bool,
    pub(crate) content: VerifiedContent,
    /// The head of the coordinator's ledger after this handout.
    pub(crate) head: Head,
    /// Digest of each new release together with its event, by round.
    known: Vec<(u64, Digest)>,
    /// The helper's ledger after this handout, and the shares that still lack the other server's
    /// share.
    pairing: Option<Pairing>,
    /// The helper's key for the round.
    round_key: Option<RoundKey>,
}

/// The unpaired shares of a secure sum's two servers. The two shares of a round form a release.
#[derive(Clone, Debug)]
struct Pairing {
    helper: HelperChain,
    /// The leader's shares that lack the helper's, by round.
    of_leader: BTreeMap<u64, Vec<u8>>,
    /// The helper's shares that lack the leader's, by round.
    of_helper: BTreeMap<u64, HelperEntry>,
}

impl VerifiedHandout {
    /// Returns the rounds of the ledger's new entries, in ascending order.
    pub(crate) fn released(&self) -> Vec<u64> {
        self.known.iter().map(|(round, _)| *round).collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) enum VerifiedContent {
    Messages { messages: Vec<RelayedMessage>, stragglers: Vec<u32> },
    Releases(Vec<Arc<Release>>),
}

/// Follows a coordinator's ledger in one study.
#[derive(Debug)]
pub(crate) struct Follower {
    coordinator: PublicKey,
    config: Digest,
    limits: Limits,
    source: Source,
    /// The newest verified round.
    round: Option<u64>,
    head: Head,
    /// Digests of the releases, by round. If two servers sum, digests of the leader's shares.
    known: BTreeMap<u64, Digest>,
    /// The newest round key that the helper has signed.
    round_key: Option<RoundKey>,
}

/// The kind of content in a study's handouts.
#[derive(Debug)]
enum Source {
    Messages,
    Releases(LedgerPlan),
    /// The shares of two servers.
    Shares(Box<Shares>),
}

#[derive(Debug)]
struct Shares {
    plan: LedgerPlan,
    study: SumStudy,
    pairing: Pairing,
}

impl Source {
    fn plan(&self) -> Option<&LedgerPlan> {
        match self {
            Self::Messages => None,
            Self::Releases(plan) => Some(plan),
            Self::Shares(shares) => Some(&shares.plan),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Releases(_) => "releases",
            Self::Shares(_) => "shares",
        }
    }
}

/// The ledger that the configuration plans for a study with releases.
#[derive(Debug)]
struct LedgerPlan {
    schedule: ReleaseSchedule,
    /// The encoded event; empty if nothing is charged.
    event: Vec<u8>,
    reader: Reader,
}

impl Follower {
    /// Creates a follower that starts before the study's first round.
    pub(crate) fn new(
        membership: &Membership,
        federation: &Federation,
        intake: &Intake,
    ) -> Result<Self, NotFollowed> {
        let (source, head) = match &federation.collaboration {
            Collaboration::Relayed(_) => (Source::Messages, Head { seq: 0, hash: [0; 32] }),
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
                let source = match intake {
                    Intake::Plain => Source::Releases(plan),
                    Intake::Sum(study) => {
                        let helper = HelperChain::new(study);
                        let (of_leader, of_helper) = (BTreeMap::new(), BTreeMap::new());
                        let pairing = Pairing { helper, of_leader, of_helper };
                        let study = study.as_ref().clone();
                        Source::Shares(Box::new(Shares { plan, study, pairing }))
                    }
                };
                (source, head)
            }
            Collaboration::Neighbours(_) => return Err(NotFollowed::Neighbours),
        };
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX); // the parser limits both
        Ok(Self {
            coordinator: membership.coordinator,
            config: membership.digest,
            limits: Limits {
                n_features: count(federation.message_len()),
                n_slots: count(federation.agents.len()),
                release_bytes_max: source.plan().map_or(0, |plan| plan.reader.bytes_max),
            },
            source,
            round: None,
            head,
            known: BTreeMap::new(),
            round_key: None,
        })
    }

    /// Returns the newest verified round.
    pub(crate) fn round(&self) -> Option<u64> {
        self.round
    }

    /// Returns the head of the ledger, as far as the agent has followed it.
    pub(crate) fn head(&self) -> Head {
        self.head
    }

    /// Returns the number of entries in the helper's ledger, as far as the agent has followed it.
    pub(crate) fn helper_seq(&self) -> u64 {
        match &self.source {
            Source::Shares(shares) => shares.pairing.helper.seq(),
            Source::Messages | Source::Releases(_) => 0,
        }
    }

    /// Returns the maximum size of a handout in bytes.
    pub(crate) fn bytes_max(&self) -> u64 {
        let n_releases = self.source.plan().map_or(0, |plan| plan.schedule.n_releases());
        self.limits.handout_bytes_max(n_releases)
    }

    /// Verifies a handout without advancing.
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
        let Handout { round, collects, .. } = handout;
        let signed = Head { seq: handout.head.seq, hash: handout.head.hash };
        let mut verified = VerifiedHandout {
            round,
            collects,
            content: VerifiedContent::Releases(Vec::new()),
            head: signed,
            known: Vec::new(),
            pairing: None,
            round_key: None,
        };
        match (handout.content, &self.source) {
            (Content::Messages { messages, stragglers }, Source::Messages) => {
                verified.content = VerifiedContent::Messages { messages, stragglers };
                verified.head = self.head; // there is no ledger
            }
            (Content::Releases(entries), Source::Releases(plan)) => {
                let (new, known) = self.follow(plan, &entries, signed, round)?;
                plan.check_round(round, collects, Some(signed.seq))?;
                let read = |(round, release): (u64, Vec<u8>)| {
                    let read = plan.reader.read(round, &release);
                    read.map_err(|source| Misconduct::Release { round, source })
                };
                let releases = new.into_iter().map(read).collect::<Result<_, _>>()?;
                verified.content = VerifiedContent::Releases(releases);
                verified.known = known;
            }
            (Content::Shares { leader, helper, key }, Source::Shares(shares)) => {
                let (new, known) = self.follow(&shares.plan, &leader, signed, round)?;
                shares.plan.check_round(round, collects, None)?;
                let (releases, pairing) = shares.pair(new, &helper, round)?;
                if key.is_some_and(|key| !self.is_of_helper(&key)) {
                    return Err(HelperMisconduct::Key { round }.into());
                }
                verified.content = VerifiedContent::Releases(releases);
                verified.known = known;
                verified.pairing = Some(pairing);
                verified.round_key = key;
            }
            (content, expected) => {
                let found = match content {
                    Content::Messages { .. } => "messages",
                    Content::Releases(_) => "releases",
                    Content::Shares { .. } => "shares",
                };
                return Err(Misconduct::OtherContent { expected: expected.name(), found });
            }
        }
        Ok(verified)
    }

    /// Advances to a verified handout.
    pub(crate) fn advance(&mut self, verified: &VerifiedHandout) {
        self.round = Some(verified.round);
        self.head = verified.head;
        self.known.extend(verified.known.iter().copied());
        if let (Source::Shares(shares), Some(pairing)) = (&mut self.source, &verified.pairing) {
            shares.pairing.clone_from(pairing);
        }
        if let Some(key) = verified.round_key {
            self.hear_key(key);
        }
    }

    fn is_of_helper(&self, key: &RoundKey) -> bool {
        match &self.source {
            Source::Shares(shares) => {
                key.verify(&shares.study.helper.key, &shares.study.config).is_ok()
            }
            Source::Messages | Source::Releases(_) => false,
        }
    }

    /// Records a round key from an unsigned response, if the helper has signed the key.
    pub(crate) fn hear_key(&mut self, key: RoundKey) {
        let is_new = self.round_key.is_none_or(|known| key.round >= known.round);
        if is_new && self.is_of_helper(&key) {
            self.round_key = Some(key);
        }
    }

    /// Returns the helper's key for a round. The key shows that the helper has confirmed the round
    /// (INV-30).
    pub(crate) fn round_key(&self, round: u64) -> Option<&[u8; 32]> {
        self.round_key.as_ref().filter(|key| key.round == round).map(|key| &key.key)
    }

    /// Returns true once all servers of the study have confirmed a round. Until then, no upload is
    /// made or charged for the round (INV-30).
    pub(crate) fn is_answered(&self, round: u64) -> bool {
        !self.has_helper() || self.round_key(round).is_some()
    }

    /// Returns true if a helper sums the study's vectors together with the coordinator.
    pub(crate) fn has_helper(&self) -> bool {
        matches!(self.source, Source::Shares(_))
    }

    /// Follows the chain from the agent's head to the signed head, and returns the new entries.
    /// `begins` is the round that the handout begins.
    #[expect(clippy::type_complexity, reason = "the new releases, and their digests by round")]
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
                // The entry was handed out before. If its content differs in any bit, the round was
                // released twice.
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
            let expected = match self.has_helper() {
                false => (due - 1) * plan.schedule.every(), // at most the last round of the schedule
                // A round may be absent from the ledger if it did not reach both servers.
                true => {
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

impl Shares {
    /// Returns the releases of all rounds that now have both servers' shares. A round has no
    /// release if a share is missing, or if the leader had not committed to its own share before it
    /// got the helper's.
    fn pair(
        &self,
        leader: Vec<(u64, Vec<u8>)>,
        helper: &[HelperEntry],
        begins: u64,
    ) -> Result<(Vec<Arc<Release>>, Pairing), Misconduct> {
        let mut pairing = self.pairing.clone();
        let new = pairing.helper.follow(&self.study, helper)?;
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
                continue; // the leader had not committed to a share when it got the helper's
            }
            HelperChain::check_leader(&entry, &share)?;
            let release = [share, entry.entry.release].concat();
            let read = self.plan.reader.read(round, &release);
            releases.push(read.map_err(|source| Misconduct::Release { round, source })?);
        }
        Ok((releases, pairing))
    }
}

impl LedgerPlan {
    /// Checks that this round collects vectors if and only if that is planned, and that no earlier
    /// release is missing (INV-3). `n_released` is `None` if two servers sum, because they can miss
    /// a round.
    ///
    /// The round itself is already released if the coordinator was restarted between the release
    /// and the next handout.
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

#[cfg(test)]
mod tests {
    use fedbo_federation::FrozenFor;
    use fedbo_objective::NoProblems;
    use fedbo_privacy::accounting::NoiseMultiplier;
    use fedbo_privacy::mechanism::{Mechanism, MechanismSettings, SecureNoise, Server};
    use fedbo_protocol::AggregateContent;
    use fedbo_secure_sum::Sharing;
    use fedbo_servers::card_of;
    use fedbo_wire::{LedgerHead, SigningKey, share_digest, sign_config};

    use super::*;
    use crate::reader::ReleaseDefect;

    fn leader() -> SigningKey {
        SigningKey::from_seed([1; 32])
    }

    fn helper() -> SigningKey {
        SigningKey::from_seed([2; 32])
    }

    /// The two servers of a study and their ledgers, and a follower.
    struct Servers {
        study: SumStudy,
        follower: Follower,
        leader: Vec<LedgerEntry>,
        head: Head,
        helper: Vec<HelperEntry>,
        helper_head: Head,
    }

    impl Servers {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("f.toml");
            let (card, other) = (card_of(&leader()).to_string(), card_of(&helper()));
            let text = format!(
                "[federation]\nname = \"labs\"\nalgorithm = \"dp-fts-de\"\nrounds = 9\n[features]\ncount = 4\n[privacy]\nepsilon = 9.0\n\
                 releases = 4\n[secure_sum]\nhelper = \"{other}\"\nhelper_url = \"http://127.0.0.1:1\"\n[space.x]\ntype = \"float\"\n\
                 low = 0.0\nhigh = 1.0\n[[agents]]\nname = \"a\"\n[[agents]]\nname = \"b\"\n"
            );
            std::fs::write(&path, text).unwrap();
            let key = leader().public().to_string();
            let by = FrozenFor { key: &key, card: &card };
            let (federation, text) = Federation::freeze(&path, by, &NoProblems).unwrap();
            let study = SumStudy::of(&federation, &text).unwrap().unwrap();
            let membership = Membership {
                id: 1,
                study: "labs".to_owned(),
                url: "http://127.0.0.1:2".to_owned(),
                authority: None,
                coordinator: leader().public(),
                slot: 0,
                agent: "a".to_owned(),
                digest: study.config,
                signature: sign_config(&leader(), text.as_bytes()),
                config: text,
                key: leader().public(),
                seed: None,
                contact_at_ms: 0,
                finished: false,
            };
            let intake = Intake::Sum(Box::new(study.clone()));
            let follower = Follower::new(&membership, &federation, &intake).unwrap();
            let (head, helper_head) = (follower.head(), study.helper_genesis);
            Self { study, follower, leader: Vec::new(), head, helper: Vec::new(), helper_head }
        }

        /// Returns a server's share of a round without uploads.
        fn share(&self, sharing: &Sharing, server: Server, round: u64) -> Vec<u8> {
            let at = (round, self.study.schedule.shape(round));
            let round = sharing.begin(server, at);
            round.close(&[], &mut SecureNoise::new()).unwrap().to_bytes()
        }

        fn leader_commits(&mut self, round: u64, release: Vec<u8>) {
            let event = self.study.event_bytes.clone();
            self.head = self.head.follow(round, &event, &release);
            self.leader.push(LedgerEntry { seq: self.head.seq, round, event, release });
        }

        fn helper_commits(&mut self, round: u64, release: Vec<u8>, shown: Digest) {
            let event = self.study.event_bytes.clone();
            self.helper_head = self.helper_head.follow(round, &event, &release);
            let entry = LedgerEntry { seq: self.helper_head.seq, round, event, release };
            let hash = &self.helper_head.hash;
            self.helper.push(HelperEntry::new(&helper(), &self.study.config, entry, hash, shown));
        }

        /// Plays a round with two honest servers.
        fn plays(&mut self, round: u64) {
            let sharing = self.study.sharing.clone();
            let (own, other) = (
                self.share(&sharing, Server::Leader, round),
                self.share(&sharing, Server::Helper, round),
            );
            self.helper_commits(round, other, share_digest(&own));
            self.leader_commits(round, own);
        }

        /// Returns the handout that begins a round, without the first `known` entries of each
        /// ledger.
        fn handout(&self, round: u64, known: (usize, usize)) -> Vec<u8> {
            let content = Content::Shares {
                leader: self.leader[known.0..].to_vec(),
                helper: self.helper[known.1..].to_vec(),
                key: None,
            };
            self.signed(round, content)
        }

        fn signed(&self, round: u64, content: Content) -> Vec<u8> {
            let head = LedgerHead { seq: self.head.seq, hash: self.head.hash };
            let collects = self.study.schedule.releases(round);
            let config = self.study.config;
            Handout { config, round, collects, head, content }.to_bytes(&leader())
        }

        fn take(&mut self, bytes: &[u8]) -> Result<usize, Misconduct> {
            let verified = self.follower.read(bytes)?;
            self.follower.advance(&verified);
            match verified.content {
                VerifiedContent::Releases(releases) => Ok(releases.len()),
                VerifiedContent::Messages { .. } => panic!("a study with releases"),
            }
        }
    }

    #[test]
    fn a_round_that_both_servers_reached_is_a_release() {
        let mut servers = Servers::new();
        servers.plays(0);
        let bytes = servers.handout(1, (0, 0));
        let VerifiedContent::Releases(releases) = servers.follower.read(&bytes).unwrap().content
        else {
            panic!("a study with releases")
        };
        let one = servers.study.sharing.mechanism().noise_std();
        assert!((releases[0].aggregate.noise_std / one - 2.0_f64.sqrt()).abs() < 1e-12);
        assert!(matches!(releases[0].aggregate.content, AggregateContent::RegionSums(_)));
        assert_eq!(servers.take(&bytes), Ok(1));
        servers.plays(1);
        assert_eq!(servers.take(&servers.handout(2, (1, 1))), Ok(1));
        assert_eq!(servers.follower.helper_seq(), 2);
    }

    /// A round that one server missed has no release. A share that arrives later completes it.
    #[test]
    fn a_round_of_one_server_has_no_release_until_the_other_share_comes() {
        let mut servers = Servers::new();
        servers.plays(0);
        let late = servers.helper.clone();
        servers.helper.clear();
        assert_eq!(servers.take(&servers.handout(1, (0, 0))), Ok(0));
        // Neither server reached round 1, and only the helper reached round 2.
        servers.helper = late;
        let sharing = servers.study.sharing.clone();
        let alone = servers.share(&sharing, Server::Helper, 2);
        servers.helper_commits(2, alone, Digest([0; 32]));
        assert_eq!(servers.take(&servers.handout(3, (1, 0))), Ok(1));
        servers.plays(3);
        assert_eq!(servers.take(&servers.handout(4, (1, 2))), Ok(1));
    }

    /// A malicious leader hands out a share that it chose after it had seen the helper's.
    #[test]
    fn a_leader_that_chooses_the_sum_is_named() {
        let mut servers = Servers::new();
        let sharing = servers.study.sharing.clone();
        let shown = servers.share(&sharing, Server::Leader, 0);
        let chosen = servers.share(&sharing, Server::Leader, 0);
        let other = servers.share(&sharing, Server::Helper, 0);
        servers.helper_commits(0, other, share_digest(&shown));
        servers.leader_commits(0, chosen);
        let found = servers.take(&servers.handout(1, (0, 0)));
        assert_eq!(found, Err(HelperMisconduct::OtherShare { round: 0 }.into()));
    }

    /// A round has no release if the leader got the helper's share before it had committed to its
    /// own.
    #[test]
    fn a_share_that_was_shown_to_nobody_is_none() {
        let mut servers = Servers::new();
        let sharing = servers.study.sharing.clone();
        let own = servers.share(&sharing, Server::Leader, 0);
        let other = servers.share(&sharing, Server::Helper, 0);
        servers.helper_commits(0, other, Digest([0; 32]));
        servers.leader_commits(0, own);
        assert_eq!(servers.take(&servers.handout(1, (0, 0))), Ok(0));
    }

    /// A server that adds too little noise is identified by its share: the coordinates that are
    /// zero in all vectors contain only its noise.
    #[test]
    fn a_lazy_server_is_found_by_name() {
        for lazy in [Server::Leader, Server::Helper] {
            let mut servers = Servers::new();
            let sharing = servers.study.sharing.clone();
            let settings: &MechanismSettings = sharing.mechanism().settings();
            let noise_multiplier = settings.noise_multiplier.get() / 8.0;
            let noise_multiplier = NoiseMultiplier::new(noise_multiplier).unwrap();
            let settings = MechanismSettings { noise_multiplier, ..settings.clone() };
            let quiet = Mechanism::for_secure_sum(settings, sharing.bits()).unwrap();
            let quiet = Sharing::new(quiet, 64, sharing.bits(), sharing.proof()).unwrap();
            let of = |servers: &Servers, server| match server == lazy {
                true => {
                    let mut bytes = servers.share(&quiet, server, 0);
                    bytes[12..44].copy_from_slice(&sharing.hash()); // claims this mechanism
                    bytes
                }
                false => servers.share(&sharing, server, 0),
            };
            let (own, other) = (of(&servers, Server::Leader), of(&servers, Server::Helper));
            servers.helper_commits(0, other, share_digest(&own));
            servers.leader_commits(0, own);
            let name = if lazy == Server::Leader { "coordinator" } else { "helper" };
            match servers.take(&servers.handout(1, (0, 0))) {
                Err(Misconduct::Release {
                    round: 0,
                    source: ReleaseDefect::Server { server, .. },
                }) => assert_eq!(server, name),
                other => panic!("{other:?}"),
            }
        }
    }

    /// A round key is used only if this study's helper has signed it, regardless of the response
    /// that contains it.
    #[test]
    fn a_key_of_a_round_is_the_helpers_or_none() {
        let mut servers = Servers::new();
        let config = servers.study.config;
        let made = |key: &SigningKey, round| RoundKey::new(key, &config, round, [7; 32]);
        for other in [
            made(&leader(), 0),
            RoundKey::new(&helper(), &Digest([0; 32]), 0, [7; 32]),
            RoundKey { round: 0, ..made(&helper(), 1) },
        ] {
            servers.follower.hear_key(other);
            assert_eq!(servers.follower.round_key(0), None);
        }
        servers.follower.hear_key(made(&helper(), 0));
        assert_eq!(servers.follower.round_key(0), Some(&[7; 32]));
        assert_eq!(servers.follower.round_key(1), None);
        servers.plays(0);
        let with = |servers: &Servers, key| {
            let (leader, helper) = (servers.leader.clone(), servers.helper.clone());
            servers.signed(1, Content::Shares { leader, helper, key: Some(key) })
        };
        let found = servers.take(&with(&servers, made(&leader(), 1)));
        assert_eq!(found, Err(HelperMisconduct::Key { round: 1 }.into()));
        assert_eq!(servers.take(&with(&servers, made(&helper(), 1))), Ok(1));
        assert_eq!(servers.follower.round_key(1), Some(&[7; 32]));
        // The key of an earlier round is ignored.
        servers.follower.hear_key(made(&helper(), 0));
        assert_eq!(servers.follower.round_key(0), None);
    }

    #[test]
    fn other_misconduct_is_seen() {
        // A helper that was restored from an older backup signs a different history.
        let mut servers = Servers::new();
        servers.plays(0);
        assert_eq!(servers.take(&servers.handout(1, (0, 0))), Ok(1));
        (servers.helper, servers.helper_head) = (Vec::new(), servers.study.helper_genesis);
        servers.plays(1);
        let found = servers.take(&servers.handout(2, (1, 0)));
        assert_eq!(found, Err(HelperMisconduct::Signature { seq: 1 }.into()));
        // A single coordinator hands out its own sums, although two servers should sum.
        let mut servers = Servers::new();
        servers.plays(0);
        let alone = Content::Releases(servers.leader.clone());
        let found = servers.take(&servers.signed(1, alone));
        assert_eq!(found, Err(Misconduct::OtherContent { expected: "shares", found: "releases" }));
        // The share belongs to the round that the handout begins.
        let sharing = servers.study.sharing.clone();
        let early = servers.share(&sharing, Server::Helper, 1);
        servers.helper_commits(1, early, Digest([0; 32]));
        let found = servers.take(&servers.handout(1, (0, 0)));
        assert_eq!(found, Err(Misconduct::ReleaseEarly { round: 1, found: 1 }));
        // The leader's own chain is checked as usual.
        let mut servers = Servers::new();
        servers.plays(0);
        servers.leader[0].release[90] ^= 1;
        let found = servers.take(&servers.handout(1, (0, 0)));
        assert!(matches!(found, Err(Misconduct::OtherHistory { .. })));
    }
}
