//! The rounds of one study at the helper.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedbo_failpoints::pass;
use fedbo_ledger::{Head, Ledger};
use fedbo_privacy::mechanism::{NoiseSource, Server};
use fedbo_secure_sum::{OutputShare, ReportRefused, SealingKey, ServerRound, VerificationKey};
use fedbo_servers::SumStudy;
use fedbo_wire::{
    CloseAnswer, Digest, HelperEntry, LedgerEntry, PassedReport, SigningKey, Verdict, commitment,
    digest, share_digest,
};

use crate::error::{HelperError, Refused};
use crate::records::{Records, ShareRecord};

/// The requests of a leader, whatever the kind of noise.
pub(crate) trait Summing: Send {
    /// Verifies reports together with the leader.
    fn verify(&mut self, round: u64, reports: &[PassedReport]) -> Result<Vec<Verdict>, Refused>;

    /// Sums the vectors of these slots, once and for all, and charges the share.
    fn close(&mut self, round: u64, slots: &[u32]) -> Result<CloseAnswer, Refused>;

    /// Gives the share of a round away for the leader's; with it the entries after number `after`.
    fn reveal(
        &mut self,
        round: u64,
        leader_share: &[u8],
        after: u64,
    ) -> Result<([u8; 32], Vec<HelperEntry>), Refused>;

    /// The end of the chain.
    fn head(&self) -> Head;
}

/// The rounds of a study, with noise from `S`.
pub(crate) struct Sum<S: NoiseSource> {
    study: SumStudy,
    key: Arc<SigningKey>,
    sealing: SealingKey,
    verification: VerificationKey,
    source: S,
    records: Records,
    /// The ledger; none where nothing is charged.
    ledger: Option<Ledger>,
    head: Head,
    last_closed: Option<u64>,
    /// Releases of each slot, where they are limited.
    counts: BTreeMap<u32, u64>,
    current: Option<Current<S::Kind>>,
}

/// The round whose reports come in.
struct Current<K> {
    round: u64,
    /// The answer to each slot's report, and the report's digest.
    verdicts: BTreeMap<u32, (Digest, Verdict)>,
    /// The sums; none once the round is closed.
    sums: Option<ServerRound<K>>,
}

impl<S: NoiseSource> Sum<S> {
    /// Goes on where the study stands.
    pub(crate) fn open(
        study: SumStudy,
        (key, sealing): (Arc<SigningKey>, SealingKey),
        source: S,
        records: Records,
        ledger: Option<(Ledger, PathBuf)>,
    ) -> Result<Self, HelperError> {
        let (mut ledger, path) = ledger.unzip();
        let verification =
            sealing.verification_key(&study.sealing(Server::Leader), &study.config.0);
        let verification = verification.ok_or(HelperError::NotOurs {
            study: study.name.clone(),
            why: "names a coordinator whose key cannot be used",
        })?;
        let path = path.unwrap_or_default();
        let set_back = |round, path: &Path, other: &Path| HelperError::SetBack {
            study: study.name.clone(),
            round,
            path: path.to_owned(),
            other: other.to_owned(),
        };
        let file = records.database.path().to_owned();
        // A share that the process charged, and died before it noted that.
        if let Some(ledger) = &mut ledger {
            for entry in ledger.entries(0)? {
                match records.of_round(entry.round)? {
                    Some(known) if known.share == entry.release => match known.seq {
                        None => records.charge(entry.round, entry.seq)?,
                        Some(seq) if seq == entry.seq => {}
                        Some(_) => return Err(set_back(entry.round, &path, &file)),
                    },
                    _ => return Err(set_back(entry.round, &file, &path)),
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
            return Err(set_back(last_closed.unwrap_or(0), &path, &file));
        }
        let current = None;
        Ok(Self {
            study,
            key,
            sealing,
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

    /// The round, which begins now if it is new: its noise is drawn before anything of it is opened (INV-8).
    fn current(&mut self, round: u64) -> Result<&mut Current<S::Kind>, Refused> {
        let is_known = self.current.as_ref().is_some_and(|current| current.round == round);
        if !is_known {
            let known = self.current.as_ref().map(|current| current.round);
            let is_late = known.max(self.last_closed).is_some_and(|last| round < last);
            if is_late || !self.study.schedule.releases(round) {
                return Err(Refused::Round { round });
            }
            let is_closed = self.last_closed == Some(round);
            let sums = match is_closed {
                true => None,
                false => {
                    if let (Some(ledger), Some(event)) = (&self.ledger, &self.study.event) {
                        ledger.admits(event, 1)?; // INV-13
                    }
                    let at = (round, self.study.schedule.shape(round));
                    Some(self.study.sharing.begin(Server::Helper, at, &mut self.source)?)
                }
            };
            self.current = Some(Current { round, verdicts: BTreeMap::new(), sums });
            pass("helper: a round has begun");
        }
        self.current.as_mut().ok_or(Refused::Round { round })
    }

    /// Looks at a report: the common answer and the vector as this server knows it.
    fn look(
        &self,
        round: u64,
        report: &PassedReport,
    ) -> Result<(Vec<u8>, OutputShare), ReportRefused> {
        let sharing = &self.study.sharing;
        let place = self.study.place(round, report.slot);
        let (context, info) = (place.context(), place.info(Server::Helper));
        let bound = [report.nonce.as_slice(), &report.public].concat();
        let opened = self.sealing.open(&info, &bound, &report.for_helper);
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
    fn verify(&mut self, round: u64, reports: &[PassedReport]) -> Result<Vec<Verdict>, Refused> {
        self.current(round)?;
        let most = self.study.participations.unwrap_or(u64::MAX);
        let mut verdicts = Vec::with_capacity(reports.len());
        for report in reports {
            let parts: [&[u8]; 4] =
                [&report.nonce, &report.public, &report.for_helper, &report.verifier];
            let named = digest("a passed report", &parts);
            let known = self.current(round)?.verdicts.get(&report.slot).cloned();
            let is_spent = self.counts.get(&report.slot).is_some_and(|count| *count >= most)
                && self.last_closed != Some(round);
            let verdict = match known {
                Some((before, verdict)) if before == named => verdict,
                // INV-6: the first valid one counts.
                Some((_, Some(_))) => None,
                _ if report.slot >= self.study.n_slots || is_spent => None,
                _ => {
                    let looked = self.look(round, report).ok();
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
        if let Some(known) = self.stored(round)? {
            let commitment = commitment(&self.salt(round), &known.share);
            return Ok(CloseAnswer::Closed { slots: known.slots, commitment });
        }
        if self.last_closed.is_some_and(|last| round <= last) {
            return Err(Refused::Round { round });
        }
        let current = self.current(round)?;
        let sums = current.sums.take().ok_or(Refused::Round { round })?;
        let share = match sums.close(slots) {
            Ok(share) => share.to_bytes(),
            Err((sums, missing)) => {
                current.sums = Some(*sums);
                return Ok(CloseAnswer::Missing { slots: missing.slots });
            }
        };
        let record =
            ShareRecord { round, slots: slots.to_vec(), share, seq: None, leader_share: None };
        pass("helper: a share is made");
        self.records.prepare(&record)?;
        pass("helper: a share is kept");
        let head = self.head.follow(round, &self.study.event_bytes, &record.share);
        if let (Some(ledger), Some(event)) = (&mut self.ledger, &self.study.event) {
            ledger.commit(round, event, &record.share)?;
            pass("helper: a share is charged");
        }
        // INV-1: charged and stored before anything of it leaves.
        self.records.charge(round, head.seq)?;
        pass("helper: a share is noted as charged");
        self.head = head;
        self.last_closed = Some(round);
        slots.iter().for_each(|slot| *self.counts.entry(*slot).or_insert(0) += 1);
        let commitment = commitment(&self.salt(round), &record.share);
        Ok(CloseAnswer::Closed { slots: record.slots, commitment })
    }

    fn reveal(
        &mut self,
        round: u64,
        leader_share: &[u8],
        after: u64,
    ) -> Result<([u8; 32], Vec<HelperEntry>), Refused> {
        let known = self.stored(round)?.ok_or(Refused::Round { round })?;
        let shown = share_digest(leader_share);
        match known.leader_share {
            Some(before) if before == shown => {}
            Some(_) => return Err(Refused::OtherShare { round }),
            // This share has left with that of a later round, and the leader may know the sum: it is bound no more.
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
                break; // not before the leader is bound to its share of that round
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
    use fedbo_database::Mode;
    use fedbo_federation::{Federation, FrozenFor};
    use fedbo_objective::NoProblems;
    use fedbo_privacy::mechanism::{SecureNoise, SimNoise, Simulated};
    use fedbo_secure_sum::{Verifying, combine};
    use fedbo_servers::{HelperChain, card_of, sealing_key_of};
    use fedbo_wire::{ProblemCode, PublicKey};
    use tempfile::TempDir;

    use super::*;
    use crate::home::{Home, JoinedStudy};
    use crate::records::StudyRecord;
    use crate::service::Shared;

    const N_AGENTS: u32 = 3;

    fn leader_key() -> SigningKey {
        SigningKey::from_seed([1; 32])
    }

    /// A helper that has joined a study, and what a leader needs.
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

        /// The helper, as it goes on after a start.
        fn helper(&self) -> Box<dyn Summing> {
            self.home().open_sum(&self.joined).unwrap()
        }

        /// An agent's report, as an honest leader passes it on, and what the leader keeps of it.
        fn report(&self, round: u64, slot: u32, vector: &[f64]) -> (PassedReport, Verifying) {
            let study = &self.joined.study;
            let place = study.place(round, slot);
            let (context, sharing) = (place.context(), &study.sharing);
            let report = sharing.share(&context, vector).unwrap();
            let bound = [report.nonce.as_slice(), &report.public].concat();
            let sealing = study.sealing(Server::Helper);
            let info = place.info(Server::Helper);
            let for_helper = sealing.seal(&info, &bound, &report.helper).unwrap();
            let parts = (&report.nonce, report.public.as_slice(), report.leader.as_slice());
            let (state, verifier) =
                sharing.verify(Server::Leader, &self.verification, &context, parts).unwrap();
            let (nonce, public) = (report.nonce, report.public);
            (PassedReport { slot, nonce, public, for_helper, verifier }, state)
        }

        /// The leader's share over these slots.
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
            let mut sums = study.sharing.begin(Server::Leader, at, &mut noise).unwrap();
            let slots: Vec<u32> = vectors.iter().map(|(slot, _)| *slot).collect();
            vectors.into_iter().for_each(|(slot, vector)| sums.keep(slot, vector));
            sums.close(&slots).unwrap().to_bytes()
        }

        /// Verifies a vector at both servers; the leader's part of it.
        fn sent(
            &self,
            helper: &mut dyn Summing,
            round: u64,
            slot: u32,
            vector: &[f64],
        ) -> (u32, OutputShare) {
            let (report, state) = self.report(round, slot, vector);
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

    const VECTOR: [f64; 4] = [0.5, -0.5, 0.1, 0.0];

    #[test]
    fn a_round_of_an_honest_leader_gives_both_shares_once() {
        let world = World::charged();
        let study = &world.joined.study;
        let mut helper = world.helper();
        let vectors: Vec<_> =
            (0..N_AGENTS).map(|slot| world.sent(helper.as_mut(), 0, slot, &VECTOR)).collect();
        let (slots, bound) = closed(helper.close(0, &[0, 1, 2]).unwrap());
        assert_eq!(slots, [0, 1, 2]);
        let share = world.leader_share(0, vectors, 1);
        let (salt, entries) = helper.reveal(0, &share, 0).unwrap();
        assert_eq!(commitment(&salt, &entries[0].entry.release), bound);
        let mut chain = HelperChain::new(study);
        assert_eq!(chain.follow(study, &entries).unwrap().len(), 1);
        HelperChain::check_leader(&entries[0], &share).unwrap();
        // After a start of its own it says the same.
        drop(helper);
        let mut again = world.helper();
        assert_eq!(closed(again.close(0, &[1]).unwrap()), (vec![0, 1, 2], bound));
        let (_, same) = again.reveal(0, &share, 0).unwrap();
        assert_eq!(same, entries);
        assert_eq!(again.head(), chain.head());
    }

    /// A bad leader shows one share to the helper, and would hand out another that it chose when it knew the sum.
    #[test]
    fn a_leader_is_bound_to_the_first_share_that_it_shows() {
        let world = World::charged();
        let mut helper = world.helper();
        let vectors = vec![world.sent(helper.as_mut(), 0, 1, &VECTOR)];
        helper.close(0, &[1]).unwrap();
        let first = world.leader_share(0, vectors.clone(), 1);
        helper.reveal(0, &first, 0).unwrap();
        let other = world.leader_share(0, vectors, 2);
        assert!(matches!(helper.reveal(0, &other, 0), Err(Refused::OtherShare { round: 0 })));
        drop(helper);
        let mut helper = world.helper();
        assert!(matches!(helper.reveal(0, &other, 0), Err(Refused::OtherShare { round: 0 })));
        // What is no share, or one over other slots, gets nothing.
        let vectors = vec![world.sent(helper.as_mut(), 1, 1, &VECTOR)];
        helper.close(1, &[1]).unwrap();
        let over_nobody = world.leader_share(1, Vec::new(), 1);
        for wrong in [vec![0; over_nobody.len()], over_nobody, first] {
            let refused = helper.reveal(1, &wrong, 0);
            assert!(matches!(refused, Err(Refused::LeaderShare { round: 1, .. })));
        }
        let right = world.leader_share(1, vectors, 1);
        assert_eq!(helper.reveal(1, &right, 1).unwrap().1.len(), 1);
        // Nothing is given of a round that was not closed.
        assert!(matches!(helper.reveal(2, &right, 0), Err(Refused::Round { round: 2 })));
    }

    /// A bad leader gets the share of a round along with that of the next, and would choose its own when it knows the sum.
    #[test]
    fn a_leader_that_has_shown_a_later_share_is_bound_to_none_of_an_earlier_round() {
        let world = World::charged();
        let mut helper = world.helper();
        let vectors = vec![world.sent(helper.as_mut(), 0, 1, &VECTOR)];
        helper.close(0, &[1]).unwrap();
        helper.close(1, &[]).unwrap();
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

    /// A bad leader passes on a report elsewhere than it was made for, or changed: nothing of it is counted.
    #[test]
    fn a_report_counts_in_its_own_place_and_unchanged() {
        let world = World::charged();
        let mut helper = world.helper();
        let refused = |helper: &mut dyn Summing, round, report: PassedReport| {
            helper.verify(round, &[report]).unwrap().remove(0).is_none()
        };
        let (report, _) = world.report(0, 1, &VECTOR);
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
        // The first valid one counts, whoever sends it again; another of the slot does not.
        assert!(!refused(helper.as_mut(), 0, report.clone()));
        assert!(!refused(helper.as_mut(), 0, report.clone()));
        let (second, _) = world.report(0, 1, &[9.0; 4]);
        assert!(refused(helper.as_mut(), 0, second));
        assert!(refused(helper.as_mut(), 1, report));
        // The round before is over: its reports are not taken any more.
        assert!(matches!(helper.verify(0, &[]), Err(Refused::Round { round: 0 })));
    }

    #[test]
    fn a_round_is_closed_once_over_slots_that_are_here() {
        let world = World::charged();
        let mut helper = world.helper();
        world.sent(helper.as_mut(), 0, 2, &VECTOR);
        let missing = helper.close(0, &[0, 2]).unwrap();
        assert_eq!(missing, CloseAnswer::Missing { slots: vec![0] });
        assert_eq!(helper.head().seq, 0, "nothing was charged");
        let first = closed(helper.close(0, &[2]).unwrap());
        assert_eq!(closed(helper.close(0, &[]).unwrap()), first);
        assert_eq!(helper.head().seq, 1);
        // A round to which nobody came is charged as any other.
        assert_eq!(closed(helper.close(2, &[]).unwrap()).0, Vec::<u32>::new());
        // One that was left out is not closed later.
        assert!(matches!(helper.close(1, &[]), Err(Refused::Round { round: 1 })));
        // A leader whose copy was set back asks again.
        assert_eq!(closed(helper.close(0, &[1]).unwrap()), first);
        assert!(matches!(helper.close(9, &[]), Err(Refused::Round { round: 9 })));
    }

    #[test]
    fn a_budget_ends_what_the_helper_sums() {
        let world = World::new("epsilon = 4.0\nreleases = 2\n");
        let mut helper = world.helper();
        helper.close(0, &[]).unwrap();
        helper.close(1, &[]).unwrap();
        assert!(matches!(helper.close(2, &[]), Err(Refused::Round { round: 2 })));
        // The ledger is the authority: without it nothing is served.
        drop(helper);
        let ledger = world.path().join("labs.ledger.db");
        std::fs::remove_file(&ledger).unwrap();
        let missing = world.home().open_sum(&world.joined).map(|_| ());
        assert!(matches!(missing, Err(HelperError::LedgerMissing { .. })));
        let other = Ledger::create(&ledger, world.joined.study.helper_charter.as_ref().unwrap());
        drop(other.unwrap());
        let set_back = world.home().open_sum(&world.joined).map(|_| ());
        assert!(matches!(set_back, Err(HelperError::SetBack { .. })));
    }

    /// The helper died between storing a share and charging it, or between charging and noting that.
    #[test]
    fn a_share_that_was_not_charged_is_made_anew_and_one_that_was_stays() {
        let world = World::charged();
        let mut helper = world.helper();
        helper.close(0, &[]).unwrap();
        drop(helper);
        let database = rusqlite::Connection::open(world.path().join("helper.db")).unwrap();
        let share = |round: u64| -> Vec<u8> {
            let sql = "SELECT share FROM shares WHERE round = ?";
            database.query_row(sql, [round], |row| row.get(0)).unwrap()
        };
        // Prepared, not charged.
        let sql = "INSERT INTO shares (study, round, slots, share) VALUES (1, 1, x'', x'0102')";
        database.execute(sql, []).unwrap();
        let mut helper = world.helper();
        assert_eq!(helper.head().seq, 1);
        helper.close(1, &[]).unwrap();
        assert_ne!(share(1), [1, 2]);
        drop(helper);
        // Charged, not noted: what the ledger has is noted when it is opened.
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

    /// The trigger of the layout that was dropped.
    fn fixed_trigger() -> String {
        let layout = crate::schema::FORMAT.steps[0];
        layout[layout.find("CREATE TRIGGER shares_are_fixed").unwrap()..].to_owned()
    }

    /// The disk refuses to note a share that was charged, as when it is full: the study goes on by itself once it can be written.
    #[test]
    fn a_disk_that_fails_costs_a_round_and_no_study() {
        let world = World::charged();
        let shared = Shared::new(world.home()).unwrap();
        let close = |round: u64| -> Result<(), ProblemCode> {
            let served =
                shared.study("labs", &leader_key().public()).ok_or(ProblemCode::UnknownStudy)?;
            let closed = shared.act(&served, |_, sum| {
                sum.close(round, &[])?;
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
        // What the ledger has is found again, in its place in the chain.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while close(1).is_err() {
            assert!(std::time::Instant::now() < until, "the study is served again");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        close(2).unwrap();
        drop(shared);
        assert_eq!(world.helper().head().seq, 3);
    }

    /// A study that cannot be served stops no other.
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

    /// A file that was set back, or is gone, is named with the file that knows more.
    #[test]
    fn a_file_of_shares_that_was_set_back_is_named() {
        let world = World::charged();
        world.helper().close(0, &[]).unwrap();
        let [shares, ledger] = ["helper.db", "labs.ledger.db"].map(|name| world.path().join(name));
        let older = world.folder.path().join("older");
        std::fs::copy(&shares, &older).unwrap();
        world.helper().close(1, &[]).unwrap();
        std::fs::copy(&older, &shares).unwrap();
        match world.home().open_sum(&world.joined).map(|_| ()) {
            Err(HelperError::SetBack { round: 1, path, other, .. }) => {
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

    #[test]
    fn a_simulated_study_has_noise_of_its_seed_and_no_ledger() {
        let world = World::new("epsilon = 4.0\nreleases = 2\nsimulate = true\n");
        let mut helper = world.helper();
        let vectors = vec![world.sent(helper.as_mut(), 0, 1, &VECTOR)];
        helper.close(0, &[1]).unwrap();
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
