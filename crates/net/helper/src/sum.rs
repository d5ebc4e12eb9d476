//! Runs the rounds of one study at the helper.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedbo_failpoints::pass;
use fedbo_ledger::{Head, Ledger};
use fedbo_privacy::mechanism::{NoiseSource, Server};
use fedbo_secure_sum::{
    NotClosed, OpeningKey, OutputShare, ReportRefused, ServerRound, VerificationKey,
};
use fedbo_servers::{SumStudy, sealing_key_of};
use fedbo_wire::{
    CloseAnswer, Digest, HelperEntry, LedgerEntry, OpenAnswer, PassedReport, RoundKey, Session,
    SigningKey, Verdict, commitment, digest, share_digest,
};

use crate::error::{HelperError, Refused};
use crate::records::{Records, ShareRecord};
use crate::round_keys::RoundKeys;

/// Handles a leader's requests, with any kind of noise.
pub(crate) trait Summing: Send {
    /// Returns the current session.
    fn session(&self) -> Session;

    /// Opens a round for reports. `known` identifies the newest helper share known to the leader,
    /// by its round and the helper's commitment to it.
    ///
    /// Refuses if the folder lacks this share, since the folder is then an older copy.
    fn open(&mut self, round: u64, known: Option<(u64, Digest)>) -> Result<OpenAnswer, Refused>;

    /// Verifies reports together with the leader.
    fn verify(&mut self, round: u64, reports: &[PassedReport]) -> Result<Vec<Verdict>, Refused>;

    /// Sums the vectors from these slots, charges the helper's share of the sum, and closes the
    /// round permanently.
    fn close(&mut self, round: u64, slots: &[u32]) -> Result<CloseAnswer, Refused>;

    /// Releases the helper's share of a round in exchange for the leader's. Returns the
    /// commitment's salt, and the entries numbered above `after`.
    fn reveal(
        &mut self,
        round: u64,
        leader_share: &[u8],
        after: u64,
    ) -> Result<([u8; 32], Vec<HelperEntry>), Refused>;

    /// Returns the head of the chain.
    fn head(&self) -> Head;
}

/// The rounds of a study, with noise from `S`.
pub(crate) struct Sum<S: NoiseSource> {
    study: SumStudy,
    key: Arc<SigningKey>,
    keys: RoundKeys,
    /// Identifies the session. Drawn at random each time that the study is opened. Replayed
    /// requests from other sessions are refused (INV-28).
    session: Session,
    verification: VerificationKey,
    source: S,
    records: Records,
    /// The ledger, or `None` if nothing is charged.
    ledger: Option<Ledger>,
    head: Head,
    last_closed: Option<u64>,
    /// Number of releases that include each slot, for the limit on participations.
    counts: BTreeMap<u32, u64>,
    current: Option<Current>,
}

/// The round that is open for reports.
struct Current {
    round: u64,
    /// Key that opens only the shares of this round.
    key: OpeningKey,
    /// Digest of each slot's report, and the verdict on it.
    verdicts: BTreeMap<u32, (Digest, Verdict)>,
    /// The helper's shares of the verified vectors, or `None` while the round is being closed.
    sums: Option<ServerRound>,
}

impl<S: NoiseSource> Sum<S> {
    /// Opens a study from its stored state.
    pub(crate) fn open(
        study: SumStudy,
        (key, keys): (Arc<SigningKey>, RoundKeys),
        source: S,
        records: Records,
        ledger: Option<(Ledger, PathBuf)>,
    ) -> Result<Self, HelperError> {
        let (mut ledger, path) = ledger.unzip();
        let verification =
            sealing_key_of(&key).verification_key(&study.sealing(Server::Leader), &study.config.0);
        let verification = verification.ok_or(HelperError::NotOurs {
            study: study.name.clone(),
            why: "names a coordinator with an unusable key",
        })?;
        let path = path.unwrap_or_default();
        let rolled_back = |round, path: &Path, other: &Path| HelperError::RolledBack {
            study: study.name.clone(),
            round,
            path: path.to_owned(),
            other: other.to_owned(),
        };
        let file = records.database.path().to_owned();
        // The process may have died after charging a share, but before recording the charge.
        if let Some(ledger) = &mut ledger {
            for entry in ledger.entries(0)? {
                match records.of_round(entry.round)? {
                    Some(known) if known.share == entry.release => match known.seq {
                        None => records.charge(entry.round, entry.seq)?,
                        Some(seq) if seq == entry.seq => {}
                        Some(_) => return Err(rolled_back(entry.round, &path, &file)),
                    },
                    _ => return Err(rolled_back(entry.round, &file, &path)),
                }
            }
        }
        let (mut head, mut last_closed, mut counts) = (study.helper_genesis, None, BTreeMap::new());
        for known in records.charged(0)? {
            head = head.follow(known.round, &study.event_bytes, &known.share);
            last_closed = Some(known.round);
            known.slots.iter().for_each(|slot| *counts.entry(*slot).or_insert(0) += 1);
        }
        if let Some(ledger) = &ledger
            && ledger.head() != head
        {
            return Err(rolled_back(last_closed.unwrap_or(0), &path, &file));
        }
        // INV-27: the process may have died before it erased the key of a round that it closed.
        if let Some(last) = last_closed {
            keys.erase_to(last)?;
        }
        let mut session = [0; 16];
        getrandom::fill(&mut session).map_err(HelperError::NoRandomness)?;
        let current = None;
        Ok(Self {
            study,
            key,
            keys,
            session,
            verification,
            source,
            records,
            ledger,
            head,
            last_closed,
            counts,
            current,
        })
    }

    /// Refuses a round that is not in the study or has no release. Called before any other step.
    fn check(&self, round: u64) -> Result<(), Refused> {
        match self.study.schedule.releases(round) {
            true => Ok(()),
            false => Err(Refused::Round { round }),
        }
    }

    /// Returns the round if it is open.
    fn current(&mut self, round: u64) -> Result<&mut Current, Refused> {
        self.current
            .as_mut()
            .filter(|current| current.round == round)
            .ok_or(Refused::Round { round })
    }

    /// Verifies a report. Returns the verifier message, and this server's share of the vector.
    fn look(
        &self,
        (round, key): (u64, &OpeningKey),
        report: &PassedReport,
    ) -> Result<(Vec<u8>, OutputShare), ReportRefused> {
        let sharing = &self.study.sharing;
        let place = self.study.place(round, report.slot);
        let (context, info) = (place.context(), place.info(Server::Helper));
        let bound = [report.nonce.as_slice(), &report.public].concat();
        let opened = key.open(&info, &bound, &report.for_helper);
        let share = opened.map_err(|_| ReportRefused::Unreadable { part: "sealed share" })?;
        let parts = (&report.nonce, report.public.as_slice(), share.as_slice());
        let (state, own) = sharing.verify(Server::Helper, &self.verification, &context, parts)?;
        let answer = sharing.decide(&context, &state, [&report.verifier, &own])?;
        let vector = sharing.accept(&context, state, &answer)?;
        Ok((answer, vector))
    }

    fn salt(&self, round: u64) -> [u8; 32] {
        let secret = self.key.derived("fedbo helper, salts of commitments, version 1");
        let (config, round) = (&self.study.config.0, round.to_le_bytes());
        digest("salt of a commitment", &[secret.as_slice(), config, &round]).0
    }

    fn stored(&self, round: u64) -> Result<Option<ShareRecord>, Refused> {
        Ok(self.records.of_round(round)?.filter(|known| known.seq.is_some()))
    }
}

impl<S: NoiseSource + Send> Summing for Sum<S>
where
    S::Kind: Send,
{
    fn session(&self) -> Session {
        self.session
    }

    fn open(&mut self, round: u64, known: Option<(u64, Digest)>) -> Result<OpenAnswer, Refused> {
        self.check(round)?;
        if let Some((closed, hash)) = known {
            self.check(closed)?;
            let own = self.stored(closed)?;
            let is_ours = |own: ShareRecord| commitment(&self.salt(closed), &own.share) == hash;
            if !own.is_some_and(is_ours) {
                return Err(Refused::RolledBack { round: closed }); // INV-28
            }
        }
        let session = self.session;
        if self.stored(round)?.is_some() {
            // A restarted coordinator opens at most the last closed round again, never an earlier
            // one.
            if let Some(last) = self.last_closed.filter(|last| round < *last) {
                return Err(Refused::LeaderRolledBack { round, last });
            }
            return Ok(OpenAnswer { session, key: None });
        }
        let open = self.current.as_ref().map(|current| current.round);
        if open.max(self.last_closed).is_some_and(|last| round < last) {
            return Err(Refused::Round { round });
        }
        if open != Some(round) {
            if let (Some(ledger), Some(event)) = (&self.ledger, &self.study.event) {
                ledger.admits(event, 1)?; // INV-13
            }
            // The leader has abandoned the round that was open before.
            self.current = None;
            if let Some(before) = round.checked_sub(1) {
                self.keys.erase_to(before)?;
            }
            let key = self.keys.get(round)?;
            let at = (round, self.study.schedule.shape(round));
            let sums = Some(self.study.sharing.begin(Server::Helper, at));
            self.current = Some(Current { round, key, verdicts: BTreeMap::new(), sums });
            pass("helper: a round has begun");
        }
        let key = self.current(round)?.key.public();
        let key = RoundKey::new(&self.key, &self.study.config, round, key);
        Ok(OpenAnswer { session, key: Some(key) })
    }

    fn verify(&mut self, round: u64, reports: &[PassedReport]) -> Result<Vec<Verdict>, Refused> {
        self.check(round)?;
        let name = |report: &PassedReport| {
            let parts: [&[u8]; 4] =
                [&report.nonce, &report.public, &report.for_helper, &report.verifier];
            digest("a passed report", &parts)
        };
        // A leader that has lost its vectors asks again, possibly after the round's key was erased.
        // Reports that are included in the share get the same verdict as before.
        if self.current(round).is_err() {
            let known = self.stored(round)?.ok_or(Refused::Round { round })?;
            let verdict = |report: &PassedReport| known.verdict(report.slot, &name(report));
            return Ok(reports.iter().map(verdict).collect());
        }
        let most = self.study.participations.unwrap_or(u64::MAX);
        let mut verdicts = Vec::with_capacity(reports.len());
        for report in reports {
            let named = name(report);
            let known = self.current(round)?.verdicts.get(&report.slot).cloned();
            let is_spent = self.counts.get(&report.slot).is_some_and(|count| *count >= most);
            let verdict = match known {
                Some((before, verdict)) if before == named => verdict,
                // INV-6: the first valid report counts.
                Some((_, Some(_))) => None,
                _ if report.slot >= self.study.n_slots || is_spent => None,
                _ => {
                    let current = self.current.as_ref().ok_or(Refused::Round { round })?;
                    let looked = self.look((round, &current.key), report).ok();
                    let current = self.current(round)?;
                    let verdict = looked.map(|(answer, vector)| {
                        if let Some(sums) = &mut current.sums {
                            sums.keep(report.slot, vector);
                        }
                        answer
                    });
                    current.verdicts.insert(report.slot, (named, verdict.clone()));
                    verdict
                }
            };
            verdicts.push(verdict);
        }
        Ok(verdicts)
    }

    fn close(&mut self, round: u64, slots: &[u32]) -> Result<CloseAnswer, Refused> {
        self.check(round)?;
        if let Some(known) = self.stored(round)? {
            let commitment = commitment(&self.salt(round), &known.share);
            return Ok(CloseAnswer::Closed { slots: known.slots, commitment });
        }
        let Some(current) = self.current.as_mut().filter(|current| current.round == round) else {
            return Err(Refused::Round { round });
        };
        let sums = current.sums.take().ok_or(Refused::Round { round })?;
        // INV-29: the noise is drawn only once the slots are fixed.
        let share = match sums.close(slots, &mut self.source) {
            Ok(share) => share.to_bytes(),
            Err((sums, refused)) => {
                current.sums = Some(*sums);
                return match refused {
                    NotClosed::Missing { slots } => Ok(CloseAnswer::Missing { slots }),
                    NotClosed::Noise(error) => Err(error.into()),
                };
            }
        };
        let answers = slots.iter().filter_map(|slot| current.verdicts.get(slot));
        let verdicts = answers.flat_map(|(named, verdict)| {
            let message = verdict.iter().flatten();
            named.0.iter().chain(message).copied()
        });
        let record = ShareRecord {
            round,
            slots: slots.to_vec(),
            share,
            seq: None,
            leader_share: None,
            verdicts: verdicts.collect(),
        };
        pass("helper: a share is made");
        self.records.prepare(&record)?;
        pass("helper: a share is kept");
        let head = self.head.follow(round, &self.study.event_bytes, &record.share);
        if let (Some(ledger), Some(event)) = (&mut self.ledger, &self.study.event) {
            ledger.commit(round, event, &record.share)?;
            pass("helper: a share is charged");
        }
        // INV-1: the share is charged and stored before it is sent.
        self.records.charge(round, head.seq)?;
        pass("helper: a share is noted as charged");
        self.head = head;
        self.last_closed = Some(round);
        slots.iter().for_each(|slot| *self.counts.entry(*slot).or_insert(0) += 1);
        self.current = None;
        self.keys.erase_to(round)?; // INV-27
        pass("helper: the key of a round is erased");
        let commitment = commitment(&self.salt(round), &record.share);
        Ok(CloseAnswer::Closed { slots: record.slots, commitment })
    }

    fn reveal(
        &mut self,
        round: u64,
        leader_share: &[u8],
        after: u64,
    ) -> Result<([u8; 32], Vec<HelperEntry>), Refused> {
        self.check(round)?;
        let known = self.stored(round)?.ok_or(Refused::Round { round })?;
        let shown = share_digest(leader_share);
        match known.leader_share {
            Some(before) if before == shown => {}
            Some(_) => return Err(Refused::OtherShare { round }),
            // The helper's share was sent along with that of a later round, so the leader may
            // already know the sum and could choose its own share accordingly.
            None if self.records.is_shown_after(round)? => return Err(Refused::Round { round }),
            None => {
                let checked = self.study.check_shares(round, leader_share, &known.share);
                checked.map_err(|e| Refused::LeaderShare { round, why: e.to_string() })?;
                self.records.reveal(round, &shown)?;
                pass("helper: the leader's share is noted");
            }
        }
        let mut head = self.study.helper_genesis;
        let mut entries = Vec::new();
        for known in self.records.charged(0)? {
            if known.round > round {
                break; // the leader must first commit to its share of that round
            }
            let event = self.study.event_bytes.clone();
            head = head.follow(known.round, &event, &known.share);
            if head.seq <= after {
                continue;
            }
            let entry =
                LedgerEntry { seq: head.seq, round: known.round, event, release: known.share };
            let shown = known.leader_share.unwrap_or(Digest([0; 32]));
            entries.push(HelperEntry::new(&self.key, &self.study.config, entry, &head.hash, shown));
        }
        Ok((self.salt(round), entries))
    }

    fn head(&self) -> Head {
        self.head
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};

    use fedbo_database::Mode;
    use fedbo_federation::{Federation, FrozenFor};
    use fedbo_objective::NoProblems;
    use fedbo_privacy::mechanism::{SecureNoise, SimNoise, Simulated};
    use fedbo_secure_sum::{Verifying, combine, seal};
    use fedbo_servers::{HelperChain, card_of, sealing_key_of};
    use fedbo_transport::{Clock as _, ConnectionLimits, ListenSettings, SystemClock};
    use fedbo_wire::{
        CLOCK_TOLERANCE_MS, HEADER_COUNTER, HEADER_KEY, HEADER_PROTOCOL, HEADER_SIGNATURE,
        HEADER_TIME, NO_SESSION, PROTOCOL_VERSION, ProblemCode, PublicKey, Stamp, close_to_bytes,
        open_to_bytes, sign_request,
    };
    use tempfile::TempDir;

    use super::*;
    use crate::home::{Home, JoinedStudy};
    use crate::records::StudyRecord;
    use crate::server::Service;
    use crate::service::Shared;

    const N_AGENTS: u32 = 3;

    fn leader_key() -> SigningKey {
        SigningKey::from_seed([1; 32])
    }

    /// A helper that has joined a study, and everything that its leader needs.
    struct World {
        folder: TempDir,
        joined: JoinedStudy,
        verification: VerificationKey,
    }

    impl World {
        fn new(privacy: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let home = Home::open(&folder.path().join("helper"), Mode::Create).unwrap();
            let (leader, helper) = (card_of(&leader_key()), home.card());
            let mut text = format!(
                "[federation]\nname = \"labs\"\nalgorithm = \"dp-fts-de\"\nrounds = 9\n[features]\ncount = 4\n[privacy]\n{privacy}\
                 [secure_sum]\nhelper = \"{helper}\"\nhelper_url = \"http://127.0.0.1:1\"\n[space.x]\ntype = \"float\"\nlow = 0.0\n\
                 high = 1.0\n"
            );
            for agent in 0..N_AGENTS {
                text += &format!("[[agents]]\nname = \"a{agent}\"\n");
            }
            let path = folder.path().join("f.toml");
            std::fs::write(&path, text).unwrap();
            let (key, card) = (leader_key().public().to_string(), leader.to_string());
            let by = FrozenFor { key: &key, card: &card };
            let (_, config) = Federation::freeze(&path, by, &NoProblems).unwrap();
            let record = StudyRecord {
                id: 0,
                name: "labs".to_owned(),
                url: "http://127.0.0.1:2".to_owned(),
                coordinator: leader_key().public(),
                config,
            };
            home.keep(&record);
            let joined = home.studies().unwrap().remove("labs").unwrap().unwrap();
            let sealing = sealing_key_of(&leader_key());
            let verification = sealing
                .verification_key(&joined.study.sealing(Server::Helper), &joined.study.config.0)
                .unwrap();
            Self { folder, joined, verification }
        }

        fn charged() -> Self {
            Self::new("epsilon = 1000.0\nnoise_multiplier = 1.0\nreleases = 4\n")
        }

        fn home(&self) -> Home {
            Home::open(&self.path(), Mode::Existing).unwrap()
        }

        fn path(&self) -> std::path::PathBuf {
            self.folder.path().join("helper")
        }

        /// Starts the helper from its folder.
        fn helper(&self) -> Box<dyn Summing> {
            self.home().open_sum(&self.joined).unwrap()
        }

        /// Returns an agent's report as passed on by an honest leader, and the leader's
        /// verification state.
        fn report(
            &self,
            helper: &mut dyn Summing,
            round: u64,
            slot: u32,
            vector: &[f64],
        ) -> (PassedReport, Verifying) {
            let key = helper.open(round, None).unwrap().key.unwrap();
            let study = &self.joined.study;
            key.verify(&study.helper.key, &study.config).unwrap();
            let place = study.place(round, slot);
            let (context, sharing) = (place.context(), &study.sharing);
            let report = sharing.share(&context, vector).unwrap();
            let bound = [report.nonce.as_slice(), &report.public].concat();
            let info = place.info(Server::Helper);
            let for_helper = seal(&key.key, &info, &bound, &report.helper).unwrap();
            let parts = (&report.nonce, report.public.as_slice(), report.leader.as_slice());
            let (state, verifier) =
                sharing.verify(Server::Leader, &self.verification, &context, parts).unwrap();
            let (nonce, public) = (report.nonce, report.public);
            (PassedReport { slot, nonce, public, for_helper, verifier }, state)
        }

        /// Returns the leader's share over these slots.
        fn leader_share(&self, round: u64, vectors: Vec<(u32, OutputShare)>, seed: u8) -> Vec<u8> {
            match self.joined.study.event {
                Some(_) => self.share_with(round, vectors, SecureNoise::new()),
                None => self.share_with(round, vectors, SimNoise::new([seed; 32])),
            }
        }

        fn share_with<S: NoiseSource>(
            &self,
            round: u64,
            vectors: Vec<(u32, OutputShare)>,
            mut noise: S,
        ) -> Vec<u8> {
            let study = &self.joined.study;
            let at = (round, study.schedule.shape(round));
            let mut sums = study.sharing.begin(Server::Leader, at);
            let slots: Vec<u32> = vectors.iter().map(|(slot, _)| *slot).collect();
            vectors.into_iter().for_each(|(slot, vector)| sums.keep(slot, vector));
            sums.close(&slots, &mut noise).unwrap().to_bytes()
        }

        /// Verifies a vector at both servers. Returns the leader's share of the vector.
        fn sent(
            &self,
            helper: &mut dyn Summing,
            round: u64,
            slot: u32,
            vector: &[f64],
        ) -> (u32, OutputShare) {
            let (report, state) = self.report(helper, round, slot, vector);
            let verdict = helper.verify(round, &[report]).unwrap().remove(0).unwrap();
            let context = self.joined.study.place(round, slot).context();
            (slot, self.joined.study.sharing.accept(&context, state, &verdict).unwrap())
        }
    }

    fn closed(answer: CloseAnswer) -> (Vec<u32>, Digest) {
        match answer {
            CloseAnswer::Closed { slots, commitment } => (slots, commitment),
            CloseAnswer::Missing { slots } => panic!("missing {slots:?}"),
        }
    }

    /// Opens a round and closes it.
    fn closes(helper: &mut dyn Summing, round: u64, slots: &[u32]) -> Result<CloseAnswer, Refused> {
        helper.open(round, None)?;
        helper.close(round, slots)
    }

    const VECTOR: [f64; 4] = [0.5, -0.5, 0.1, 0.0];

    #[test]
    fn a_round_of_an_honest_leader_gives_both_shares_once() {
        let world = World::charged();
        let study = &world.joined.study;
        let mut helper = world.helper();
        let vectors: Vec<_> =
            (0..N_AGENTS).map(|slot| world.sent(helper.as_mut(), 0, slot, &VECTOR)).collect();
        let (slots, bound) = closed(closes(helper.as_mut(), 0, &[0, 1, 2]).unwrap());
        assert_eq!(slots, [0, 1, 2]);
        let share = world.leader_share(0, vectors, 1);
        let (salt, entries) = helper.reveal(0, &share, 0).unwrap();
        assert_eq!(commitment(&salt, &entries[0].entry.release), bound);
        let mut chain = HelperChain::new(study);
        assert_eq!(chain.follow(study, &entries).unwrap().len(), 1);
        HelperChain::check_leader(&entries[0], &share).unwrap();
        // The result is the same after a restart.
        drop(helper);
        let mut again = world.helper();
        assert_eq!(closed(closes(again.as_mut(), 0, &[1]).unwrap()), (vec![0, 1, 2], bound));
        let (_, same) = again.reveal(0, &share, 0).unwrap();
        assert_eq!(same, entries);
        assert_eq!(again.head(), chain.head());
    }

    /// A malicious leader reveals one share to the helper, and later a different one, chosen with
    /// knowledge of the sum.
    #[test]
    fn a_leader_is_bound_to_the_first_share_that_it_shows() {
        let world = World::charged();
        let mut helper = world.helper();
        let vectors = vec![world.sent(helper.as_mut(), 0, 1, &VECTOR)];
        closes(helper.as_mut(), 0, &[1]).unwrap();
        let first = world.leader_share(0, vectors.clone(), 1);
        helper.reveal(0, &first, 0).unwrap();
        let other = world.leader_share(0, vectors, 2);
        assert!(matches!(helper.reveal(0, &other, 0), Err(Refused::OtherShare { round: 0 })));
        drop(helper);
        let mut helper = world.helper();
        assert!(matches!(helper.reveal(0, &other, 0), Err(Refused::OtherShare { round: 0 })));
        // A malformed share, or one for different slots, is refused.
        let vectors = vec![world.sent(helper.as_mut(), 1, 1, &VECTOR)];
        closes(helper.as_mut(), 1, &[1]).unwrap();
        let over_nobody = world.leader_share(1, Vec::new(), 1);
        for wrong in [vec![0; over_nobody.len()], over_nobody, first] {
            let refused = helper.reveal(1, &wrong, 0);
            assert!(matches!(refused, Err(Refused::LeaderShare { round: 1, .. })));
        }
        let right = world.leader_share(1, vectors, 1);
        assert_eq!(helper.reveal(1, &right, 1).unwrap().1.len(), 1);
        // A round that is not closed has no share to reveal.
        assert!(matches!(helper.reveal(2, &right, 0), Err(Refused::Round { round: 2 })));
    }

    /// A malicious leader receives the helper's share of a round along with that of the next round,
    /// and then chooses its own share with knowledge of the sum.
    #[test]
    fn a_leader_that_has_shown_a_later_share_is_bound_to_none_of_an_earlier_round() {
        let world = World::charged();
        let mut helper = world.helper();
        let vectors = vec![world.sent(helper.as_mut(), 0, 1, &VECTOR)];
        closes(helper.as_mut(), 0, &[1]).unwrap();
        closes(helper.as_mut(), 1, &[]).unwrap();
        let later = world.leader_share(1, Vec::new(), 2);
        let (_, entries) = helper.reveal(1, &later, 0).unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].leader_share, Digest([0; 32]), "agents take no release from it");
        let chosen = world.leader_share(0, vectors, 3);
        assert!(matches!(helper.reveal(0, &chosen, 0), Err(Refused::Round { round: 0 })));
        drop(helper);
        let mut helper = world.helper();
        assert!(matches!(helper.reveal(0, &chosen, 0), Err(Refused::Round { round: 0 })));
        assert_eq!(helper.reveal(1, &later, 0).unwrap().1, entries);
    }

    /// A malicious leader passes on a report for another slot or round, or modifies it. The report
    /// is not counted.
    #[test]
    fn a_report_counts_in_its_own_place_and_unchanged() {
        let world = World::charged();
        let mut helper = world.helper();
        let refused = |helper: &mut dyn Summing, round, report: PassedReport| {
            helper.verify(round, &[report]).unwrap().remove(0).is_none()
        };
        let (report, _) = world.report(helper.as_mut(), 0, 1, &VECTOR);
        assert!(refused(helper.as_mut(), 0, PassedReport { slot: 2, ..report.clone() }));
        let changed = |change: fn(&mut PassedReport)| {
            let mut changed = report.clone();
            change(&mut changed);
            changed
        };
        for changed in [
            changed(|report| report.nonce[0] ^= 1),
            changed(|report| report.public[40] ^= 1),
            changed(|report| report.for_helper[50] ^= 1),
            changed(|report| report.verifier[8] ^= 1),
            changed(|report| report.slot = N_AGENTS),
        ] {
            assert!(refused(helper.as_mut(), 0, changed));
        }
        // The first valid report counts, even if it is repeated; a different one from the same slot
        // does not.
        assert!(!refused(helper.as_mut(), 0, report.clone()));
        assert!(!refused(helper.as_mut(), 0, report.clone()));
        let (second, _) = world.report(helper.as_mut(), 0, 1, &[9.0; 4]);
        assert!(refused(helper.as_mut(), 0, second));
        helper.open(1, None).unwrap();
        assert!(refused(helper.as_mut(), 1, report));
        // The previous round is over and accepts no more reports.
        assert!(matches!(helper.verify(0, &[]), Err(Refused::Round { round: 0 })));
    }

    #[test]
    fn a_round_is_closed_once_over_slots_that_are_here() {
        let world = World::charged();
        let mut helper = world.helper();
        world.sent(helper.as_mut(), 0, 2, &VECTOR);
        let missing = closes(helper.as_mut(), 0, &[0, 2]).unwrap();
        assert_eq!(missing, CloseAnswer::Missing { slots: vec![0] });
        assert_eq!(helper.head().seq, 0, "nothing was charged");
        let first = closed(closes(helper.as_mut(), 0, &[2]).unwrap());
        assert_eq!(closed(closes(helper.as_mut(), 0, &[]).unwrap()), first);
        assert_eq!(helper.head().seq, 1);
        // A round without vectors is charged like any other.
        assert_eq!(closed(closes(helper.as_mut(), 2, &[]).unwrap()).0, Vec::<u32>::new());
        // A skipped round cannot be closed later.
        assert!(matches!(closes(helper.as_mut(), 1, &[]), Err(Refused::Round { round: 1 })));
        // A leader restored from an older copy opens an earlier round again.
        let refused = closes(helper.as_mut(), 0, &[1]);
        assert!(matches!(refused, Err(Refused::LeaderRolledBack { round: 0, last: 2 })));
        assert!(matches!(closes(helper.as_mut(), 9, &[]), Err(Refused::Round { round: 9 })));
    }

    #[test]
    fn a_budget_ends_what_the_helper_sums() {
        let world = World::new("epsilon = 4.0\nreleases = 2\n");
        let mut helper = world.helper();
        closes(helper.as_mut(), 0, &[]).unwrap();
        closes(helper.as_mut(), 1, &[]).unwrap();
        assert!(matches!(closes(helper.as_mut(), 2, &[]), Err(Refused::Round { round: 2 })));
        // The ledger is authoritative: the study is not served without it.
        drop(helper);
        let ledger = world.path().join("labs.ledger.db");
        std::fs::remove_file(&ledger).unwrap();
        let missing = world.home().open_sum(&world.joined).map(|_| ());
        assert!(matches!(missing, Err(HelperError::LedgerMissing { .. })));
        let other = Ledger::create(&ledger, world.joined.study.helper_charter.as_ref().unwrap());
        drop(other.unwrap());
        let rolled_back = world.home().open_sum(&world.joined).map(|_| ());
        assert!(matches!(rolled_back, Err(HelperError::RolledBack { .. })));
    }

    /// The helper dies between storing and charging a share, or between charging it and recording
    /// the charge.
    #[test]
    fn a_share_that_was_not_charged_is_made_anew_and_one_that_was_stays() {
        let world = World::charged();
        let mut helper = world.helper();
        closes(helper.as_mut(), 0, &[]).unwrap();
        drop(helper);
        let database = rusqlite::Connection::open(world.path().join("helper.db")).unwrap();
        let share = |round: u64| -> Vec<u8> {
            let sql = "SELECT share FROM shares WHERE round = ?";
            database.query_row(sql, [round], |row| row.get(0)).unwrap()
        };
        // The share of round 1 is stored, but not charged.
        let sql = "INSERT INTO shares (study, round, slots, share) VALUES (1, 1, x'', x'0102')";
        database.execute(sql, []).unwrap();
        let mut helper = world.helper();
        assert_eq!(helper.head().seq, 1);
        closes(helper.as_mut(), 1, &[]).unwrap();
        assert_ne!(share(1), [1, 2]);
        drop(helper);
        // The share is charged, but the charge is not recorded. Opening the study records it.
        let kept = share(1);
        database.execute("DROP TRIGGER shares_are_fixed", []).unwrap();
        database.execute("UPDATE shares SET seq = NULL WHERE round = 1", []).unwrap();
        database.execute(&fixed_trigger(), []).unwrap();
        drop(database);
        let helper = world.helper();
        assert_eq!(helper.head().seq, 2);
        drop(helper);
        let database = rusqlite::Connection::open(world.path().join("helper.db")).unwrap();
        let sql = "SELECT share, seq FROM shares WHERE round = 1";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let (share, seq): (Vec<u8>, u64) = database.query_row(sql, [], read).unwrap();
        assert_eq!((share, seq), (kept, 2));
    }

    /// Returns the SQL of the dropped trigger.
    fn fixed_trigger() -> String {
        let layout = crate::schema::FORMAT.steps[0]; // a later step only adds a column
        layout[layout.find("CREATE TRIGGER shares_are_fixed").unwrap()..].to_owned()
    }

    /// The disk fails, for example because it is full, while a charge is recorded. The study
    /// resumes once the disk is writable.
    #[test]
    fn a_disk_that_fails_costs_a_round_and_no_study() {
        let world = World::charged();
        let shared = Shared::new(world.home()).unwrap();
        let close = |round: u64| -> Result<(), ProblemCode> {
            let served =
                shared.study("labs", &leader_key().public()).ok_or(ProblemCode::UnknownStudy)?;
            let closed = shared.act(&served, |_, sum| {
                closes(sum, round, &[])?;
                Ok(Vec::new())
            });
            closed.map(|_| ()).map_err(|refusal| refusal.code())
        };
        close(0).unwrap();
        let database = rusqlite::Connection::open(world.path().join("helper.db")).unwrap();
        let fails = "CREATE TRIGGER disk_is_full BEFORE UPDATE OF seq ON shares BEGIN SELECT RAISE(ABORT, 'full'); END";
        database.execute(fails, []).unwrap();
        assert_eq!(close(1), Err(ProblemCode::Unavailable));
        database.execute("DROP TRIGGER disk_is_full", []).unwrap();
        // The ledger's entry is found again at its position in the chain.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while close(1).is_err() {
            assert!(std::time::Instant::now() < until, "the study is served again");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        close(2).unwrap();
        drop(shared);
        assert_eq!(world.helper().head().seq, 3);
    }

    #[test]
    fn a_study_that_is_broken_stops_no_other() {
        let world = World::charged();
        let (name, config) = ("broken".to_owned(), "what no program reads".to_owned());
        let (url, coordinator) = (world.joined.url.clone(), world.joined.coordinator);
        let home = world.home();
        home.keep(&StudyRecord { id: 0, name, url, coordinator, config });
        let studies = home.studies().unwrap();
        assert!(studies["broken"].is_err() && studies["labs"].is_ok());
        let shared = Shared::new(home).unwrap();
        assert!(shared.study("labs", &coordinator).is_some());
        assert!(shared.study("broken", &coordinator).is_none());
    }

    /// The error names the missing or outdated file, and the newer file.
    #[test]
    fn a_file_of_shares_that_was_rolled_back_is_named() {
        let world = World::charged();
        closes(world.helper().as_mut(), 0, &[]).unwrap();
        let [shares, ledger] = ["helper.db", "labs.ledger.db"].map(|name| world.path().join(name));
        let older = world.folder.path().join("older");
        std::fs::copy(&shares, &older).unwrap();
        closes(world.helper().as_mut(), 1, &[]).unwrap();
        std::fs::copy(&older, &shares).unwrap();
        match world.home().open_sum(&world.joined).map(|_| ()) {
            Err(HelperError::RolledBack { round: 1, path, other, .. }) => {
                assert_eq!((path, other), (shares.clone(), ledger.clone()));
            }
            other => panic!("{other:?}"),
        }
        std::fs::remove_file(&shares).unwrap();
        match Home::open(&world.path(), Mode::Create).map(|_| ()) {
            Err(HelperError::SharesMissing { path, ledger: found }) => {
                assert_eq!((path, found), (shares, ledger));
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns the names of the key files in the folder.
    fn keys(world: &World) -> Vec<String> {
        let folder = world.path().join("round-keys").join("labs");
        let names = folder.read_dir().unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    /// A later state of the folder, including `helper.key`, cannot open recorded traffic.
    #[test]
    fn a_recorded_share_is_opened_by_nothing_after_its_round() {
        let world = World::charged();
        let mut helper = world.helper();
        let key = helper.open(0, None).unwrap().key.unwrap();
        assert_eq!(helper.open(0, None).unwrap().key, Some(key), "one key a round");
        let (recorded, _) = world.report(helper.as_mut(), 0, 1, &VECTOR);
        assert_eq!(keys(&world), ["0.key"]);
        world.sent(helper.as_mut(), 0, 2, &VECTOR);
        helper.close(0, &[2]).unwrap();
        assert_eq!(keys(&world), [""; 0], "the key went with its round");
        // Neither this process nor a restarted one can open it, in its own round or in the next.
        let opened = |helper: &mut dyn Summing, round| {
            helper.verify(round, std::slice::from_ref(&recorded)).unwrap().remove(0).is_some()
        };
        assert!(!opened(helper.as_mut(), 0));
        drop(helper);
        let mut helper = world.helper();
        assert!(!opened(helper.as_mut(), 0));
        let next = helper.open(1, None).unwrap().key.unwrap();
        assert_ne!(next.key, key.key);
        assert!(!opened(helper.as_mut(), 1));
        // The permanent key derived from `helper.key` cannot open it either.
        let place = world.joined.study.place(0, 1);
        let bound = [recorded.nonce.as_slice(), &recorded.public].concat();
        let identity = sealing_key_of(&world.home().key());
        assert!(identity.open(&place.info(Server::Helper), &bound, &recorded.for_helper).is_err());
        // The folder of keys is tagged for exclusion from backups.
        let tag = std::fs::read_to_string(world.path().join("round-keys/CACHEDIR.TAG")).unwrap();
        assert!(tag.starts_with("Signature: 8a477f597d28d172789f06886806bc55"));
    }

    /// The process dies between charging a round's share and erasing its key, or a round is
    /// abandoned.
    #[test]
    fn keys_of_rounds_that_are_over_are_erased_at_the_next_start_and_opening() {
        let world = World::charged();
        let mut helper = world.helper();
        helper.open(0, None).unwrap();
        let kept = world.path().join("round-keys/labs/0.key");
        let secret = std::fs::read(&kept).unwrap();
        helper.close(0, &[]).unwrap();
        drop(helper);
        std::fs::write(&kept, &secret).unwrap();
        std::fs::write(world.path().join("round-keys/labs/0.key.part-1"), &secret).unwrap();
        let mut helper = world.helper();
        assert_eq!(keys(&world), [""; 0]);
        helper.open(1, None).unwrap();
        helper.open(3, None).unwrap();
        assert_eq!(keys(&world), ["3.key"]);
    }

    /// A leader that was killed between the helper's close and its own commit can verify its
    /// vectors again, although the key is erased.
    #[test]
    fn a_leader_that_lost_its_vectors_gets_the_same_verdicts_of_a_closed_round() {
        let world = World::charged();
        let mut helper = world.helper();
        let (report, state) = world.report(helper.as_mut(), 0, 1, &VECTOR);
        let reports = std::slice::from_ref(&report);
        let verdict = helper.verify(0, reports).unwrap().remove(0).unwrap();
        let (other, _) = world.report(helper.as_mut(), 0, 2, &VECTOR);
        let bound = closed(helper.close(0, &[1]).unwrap());
        drop(helper);
        let mut helper = world.helper();
        assert_eq!(helper.open(0, None).unwrap().key, None);
        assert_eq!(helper.verify(0, reports).unwrap(), [Some(verdict.clone())]);
        assert_eq!(helper.verify(0, &[other]).unwrap(), [None]);
        let changed = PassedReport { nonce: [0; 16], ..report.clone() };
        assert_eq!(helper.verify(0, &[changed]).unwrap(), [None]);
        assert_eq!(closed(helper.close(0, &[1]).unwrap()), bound);
        let context = world.joined.study.place(0, 1).context();
        let vector = world.joined.study.sharing.accept(&context, state, &verdict).unwrap();
        let share = world.leader_share(0, vec![(1, vector)], 1);
        helper.reveal(0, &share, 0).unwrap();
        // The leader has everything it needs, so the verdicts are erased.
        assert_eq!(helper.verify(0, reports).unwrap(), [None]);
    }

    /// A coordinator restored from a backup is refused, since it opens a round before the last
    /// closed one. A restarted coordinator opens the last closed round again.
    #[test]
    fn a_coordinator_that_was_rolled_back_gets_nothing() {
        let world = World::charged();
        let mut helper = world.helper();
        for round in 0..3 {
            helper.open(round, None).unwrap();
            helper.close(round, &[]).unwrap();
        }
        for round in [0, 1] {
            let refused = helper.open(round, None).unwrap_err();
            assert!(matches!(refused, Refused::LeaderRolledBack { last: 2, .. }), "{refused}");
            assert!(refused.to_string().contains("coordinator's folder was rolled back"));
        }
        assert!(helper.open(2, None).unwrap().key.is_none());
    }

    /// An older copy of the folder is restored by an attacker or by mistake; it lacks a share known
    /// to the coordinator.
    #[test]
    fn a_folder_that_was_rolled_back_serves_nothing() {
        let world = World::charged();
        let mut helper = world.helper();
        helper.open(0, None).unwrap();
        helper.close(0, &[]).unwrap();
        helper.open(1, None).unwrap();
        drop(helper);
        // The copy includes the key of the open round, like a snapshot of the whole disk.
        let older = world.folder.path().join("older");
        copy(&world.path(), &older);
        let mut helper = world.helper();
        helper.open(1, None).unwrap();
        let vectors = vec![world.sent(helper.as_mut(), 1, 1, &VECTOR)];
        let (_, bound) = closed(helper.close(1, &[1]).unwrap());
        helper.reveal(1, &world.leader_share(1, vectors, 1), 0).unwrap();
        let first = helper.session();
        drop(helper);
        std::fs::remove_dir_all(world.path()).unwrap();
        copy(&older, &world.path());
        let mut helper = world.helper();
        for round in [1, 2] {
            let refused = helper.open(round, Some((1, bound))).unwrap_err();
            assert!(matches!(refused, Refused::RolledBack { round: 1 }));
            let words = refused.to_string();
            assert!(
                words.contains("older copy") && words.contains("latest state of the folder"),
                "{words}"
            );
        }
        // Requests from an earlier session are refused, and no round is open.
        assert_ne!(helper.session(), first);
        assert!(matches!(helper.verify(1, &[]), Err(Refused::Round { round: 1 })));
        assert!(matches!(helper.close(1, &[]), Err(Refused::Round { round: 1 })));
        // The folder contains the share known to the coordinator, so the study is served.
        let known = closed(helper.close(0, &[]).unwrap()).1;
        assert!(helper.open(1, Some((0, known))).unwrap().key.is_some());
        assert!(matches!(helper.open(2, Some((0, bound))), Err(Refused::RolledBack { round: 0 })));
    }

    /// Sends a leader's request to a helper's service. Returns the status and the body of the
    /// response.
    fn ask(
        at: SocketAddr,
        helper: &PublicKey,
        action: &str,
        body: &[u8],
        time_ms: u64,
    ) -> (u16, Vec<u8>) {
        let target = format!("/v1/studies/labs/rounds/0/{action}");
        let stamp = Stamp { time_ms, counter: 0 };
        let signed = sign_request(&leader_key(), helper, "POST", &target, body, stamp);
        let head = format!(
            "POST {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{HEADER_PROTOCOL}: {PROTOCOL_VERSION}\r\n\
             {HEADER_KEY}: {}\r\n{HEADER_TIME}: {time_ms}\r\n{HEADER_COUNTER}: 0\r\n{HEADER_SIGNATURE}: {}\r\ncontent-length: {}\r\n\r\n",
            signed.key,
            signed.signature,
            body.len()
        );
        let mut connection = TcpStream::connect(at).unwrap();
        connection.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
        (status, answer[end + 4..].to_vec())
    }

    /// An attacker replays the leader's recorded requests: later, and to a helper restarted from
    /// an older copy.
    #[test]
    fn requests_that_were_recorded_are_refused() {
        let world = World::charged();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let start = || {
            let listen = ListenSettings {
                address: "127.0.0.1:0".parse().unwrap(),
                tls: None,
                plain_http: false,
                limits: ConnectionLimits::default(),
            };
            let _inside = runtime.enter();
            Service::start(world.home(), &listen).unwrap()
        };
        let study = &world.joined.study;
        let now_ms = SystemClock.now_ms();
        let tolerated = CLOCK_TOLERANCE_MS + 2_000;
        let opening = open_to_bytes(study.sum_place(0, NO_SESSION), None);
        let open = |service: &Service, time_ms| {
            let (at, helper) = (service.address(), &study.helper.key);
            let (status, body) = ask(at, helper, "open", &opening, time_ms);
            let by = (helper, opening.as_slice());
            let place = study.sum_place(0, NO_SESSION);
            (status, OpenAnswer::from_bytes(&body, place, by).ok())
        };
        let close = |service: &Service, body: &[u8]| {
            ask(service.address(), &study.helper.key, "close", body, now_ms).0
        };
        let first = start();
        for time_ms in [now_ms - tolerated, now_ms + tolerated] {
            assert_eq!(open(&first, time_ms), (401, None), "another time");
        }
        let unopened = close_to_bytes(study.sum_place(0, NO_SESSION), &[]);
        assert_eq!(close(&first, &unopened), 409);
        let (status, opened) = open(&first, now_ms);
        let session = opened.unwrap().session;
        assert_eq!(status, 200);
        let recorded = close_to_bytes(study.sum_place(0, session), &[]);
        runtime.block_on(first.stop());
        // The leader's own requests are refused after a restart, since they belong to a different
        // session.
        let second = start();
        assert_eq!(close(&second, &recorded), 409);
        let (_, opened) = open(&second, now_ms);
        assert_eq!(close(&second, &recorded), 409);
        let own = close_to_bytes(study.sum_place(0, opened.unwrap().session), &[]);
        assert_eq!(close(&second, &own), 200);
        runtime.block_on(second.stop());
        assert_eq!(world.helper().head().seq, 1);
    }

    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
            match path.is_dir() {
                true => copy(&path, &to.join(name)),
                false => drop(std::fs::copy(&path, to.join(name)).unwrap()),
            }
        }
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(to, private).unwrap();
    }

    /// A round outside the study is refused before any other step, so received reports are kept.
    #[test]
    fn a_round_beyond_the_study_costs_no_report_that_is_here() {
        let world = World::charged();
        let mut helper = world.helper();
        let vectors = vec![world.sent(helper.as_mut(), 0, 1, &VECTOR)];
        for beyond in [4, 1 << 63, u64::MAX] {
            let is_refused = |refused: Refused| {
                assert!(!refused.is_storage_failure(), "{refused}");
                matches!(refused, Refused::Round { round } if round == beyond)
            };
            assert!(is_refused(helper.open(beyond, None).unwrap_err()));
            assert!(is_refused(helper.open(0, Some((beyond, Digest([1; 32])))).unwrap_err()));
            assert!(is_refused(helper.verify(beyond, &[]).unwrap_err()));
            assert!(is_refused(helper.close(beyond, &[]).unwrap_err()));
            assert!(is_refused(helper.reveal(beyond, &[], 0).unwrap_err()));
        }
        assert_eq!(closed(helper.close(0, &[1]).unwrap()).0, [1]);
        helper.reveal(0, &world.leader_share(0, vectors, 1), 0).unwrap();
    }

    #[test]
    fn a_simulated_study_has_noise_of_its_seed_and_no_ledger() {
        let world = World::new("epsilon = 4.0\nreleases = 2\nsimulate = true\n");
        let mut helper = world.helper();
        let vectors = vec![world.sent(helper.as_mut(), 0, 1, &VECTOR)];
        closes(helper.as_mut(), 0, &[1]).unwrap();
        let share = world.leader_share(0, vectors, 3);
        let (_, entries) = helper.reveal(0, &share, 0).unwrap();
        let study = &world.joined.study;
        let at = (0, study.schedule.shape(0));
        let read =
            |server, bytes: &[u8]| study.sharing.read::<Simulated>(server, at, bytes).unwrap();
        let own = read(Server::Helper, &entries[0].entry.release);
        combine(&read(Server::Leader, &share), &own).unwrap();
        assert!(!world.path().join("labs.ledger.db").exists());
        assert_eq!(world.joined.coordinator, PublicKey(leader_key().public().0));
    }
}
