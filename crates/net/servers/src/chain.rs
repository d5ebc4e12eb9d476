//! Verification of a helper's ledger by the other parties.

use fedbo_ledger::Head;
use fedbo_wire::{HelperEntry, LedgerEntry, share_digest};

use crate::SumStudy;

/// Misconduct of a helper, or of the coordinator that passes on its entries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelperMisconduct {
    /// The helper did not sign the entry, or signed a different history.
    #[error(
        "entry {seq} of the helper's ledger is not signed by the helper, or the ledger has another history"
    )]
    Signature {
        /// Number of the entry.
        seq: u64,
    },
    /// Entries are missing.
    #[error(
        "entries of the helper's ledger are missing: received entry {found}, expected entry {expected}"
    )]
    EntryMissing {
        /// Number of the expected entry.
        expected: u64,
        /// Number of the entry found.
        found: u64,
    },
    /// The round of the entry has no release, or is not after the previous one.
    #[error(
        "entry {seq} of the helper's ledger is for round {round}, which has no release at that point"
    )]
    Round {
        /// Number of the entry.
        seq: u64,
        /// Round of the entry.
        round: u64,
    },
    /// The helper charged an event other than the configured one.
    #[error("the helper charged round {round} with another event than the configured one")]
    Event {
        /// The round.
        round: u64,
    },
    /// The leader's share differs from the one that the leader revealed to the helper, so the
    /// leader may have chosen it after seeing the helper's share.
    #[error(
        "the share of round {round} that the coordinator hands out differs from the one that it showed to the helper"
    )]
    OtherShare {
        /// The round.
        round: u64,
    },
    /// The helper did not sign the key with which its shares are sealed. The owner of the
    /// corresponding secret key could open the shares.
    #[error("the key of round {round} for the helper's shares is not signed by the helper")]
    Key {
        /// The round.
        round: u64,
    },
}

/// The known part of a helper's ledger, up to the head of its chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelperChain {
    head: Head,
    last_round: Option<u64>,
    /// Hashes of the chain after each entry.
    hashes: Vec<[u8; 32]>,
}

impl HelperChain {
    /// Creates the chain of a study, with no entries yet.
    #[must_use]
    pub fn new(study: &SumStudy) -> Self {
        Self { head: study.helper_genesis, last_round: None, hashes: Vec::new() }
    }

    /// Returns the number of known entries.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.head.seq
    }

    /// Returns the head of the chain.
    #[must_use]
    pub fn head(&self) -> Head {
        self.head
    }

    /// Verifies entries, appends the new ones and returns them. Known entries must be unchanged.
    ///
    /// # Errors
    /// Returns the first misconduct, and leaves the chain unchanged.
    pub fn follow(
        &mut self,
        study: &SumStudy,
        entries: &[HelperEntry],
    ) -> Result<Vec<HelperEntry>, HelperMisconduct> {
        let mut next = self.clone();
        let mut new = Vec::new();
        for found in entries {
            let LedgerEntry { seq, round, event, release } = &found.entry;
            if *seq <= next.head.seq {
                next.check_again(study, found)?;
                continue;
            }
            let expected = next.head.seq + 1;
            if *seq != expected {
                return Err(HelperMisconduct::EntryMissing { expected, found: *seq });
            }
            let is_due =
                study.schedule.releases(*round) && next.last_round.is_none_or(|last| *round > last);
            if !is_due {
                return Err(HelperMisconduct::Round { seq: *seq, round: *round });
            }
            if *event != study.event_bytes {
                return Err(HelperMisconduct::Event { round: *round });
            }
            let head = next.head.follow(*round, event, release);
            found
                .verify(&study.helper.key, &study.config, &head.hash)
                .map_err(|_| HelperMisconduct::Signature { seq: *seq })?;
            next.hashes.push(head.hash);
            (next.head, next.last_round) = (head, Some(*round));
            new.push(found.clone());
        }
        *self = next;
        Ok(new)
    }

    /// Checks that a known entry is unchanged.
    fn check_again(&self, study: &SumStudy, found: &HelperEntry) -> Result<(), HelperMisconduct> {
        let LedgerEntry { seq, round, event, release } = &found.entry;
        let at = |seq: u64| {
            let index = usize::try_from(seq.checked_sub(1)?).ok()?;
            self.hashes.get(index).copied()
        };
        let before = match seq.checked_sub(1) {
            Some(0) => Some(study.helper_genesis.hash),
            Some(before) => at(before),
            None => None,
        };
        let again = before.map(|hash| Head { seq: seq - 1, hash }.follow(*round, event, release));
        match again {
            Some(head) if at(*seq) == Some(head.hash) => Ok(()),
            _ => Err(HelperMisconduct::Signature { seq: *seq }),
        }
    }

    /// Checks that the leader's share of a round is the one that the leader revealed to the helper.
    ///
    /// # Errors
    /// If the share differs.
    pub fn check_leader(entry: &HelperEntry, share: &[u8]) -> Result<(), HelperMisconduct> {
        match share_digest(share) == entry.leader_share {
            true => Ok(()),
            false => Err(HelperMisconduct::OtherShare { round: entry.entry.round }),
        }
    }
}

#[cfg(test)]
mod tests {
    use fedbo_federation::{Federation, FrozenFor};
    use fedbo_objective::NoProblems;
    use fedbo_wire::{Digest, SigningKey};

    use super::*;
    use crate::{NoSum, card_of};

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed([seed; 32])
    }

    fn study() -> SumStudy {
        study_of(&key(1)).unwrap()
    }

    /// Parses a study with this coordinator, in which the leader's card has key 1.
    fn study_of(coordinator: &SigningKey) -> Result<SumStudy, NoSum> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.toml");
        let (leader, helper) = (card_of(&key(1)).to_string(), card_of(&key(2)));
        let text = format!(
            "[federation]\nname = \"labs\"\nalgorithm = \"dp-fts-de\"\nrounds = 6\n[features]\ncount = 4\n[privacy]\nepsilon = 4.0\n\
             releases = 3\nevery = 2\n[secure_sum]\nhelper = \"{helper}\"\nhelper_url = \"http://127.0.0.1:1\"\n[space.x]\n\
             type = \"float\"\nlow = 0.0\nhigh = 1.0\n[[agents]]\nname = \"a\"\n[[agents]]\nname = \"b\"\n"
        );
        std::fs::write(&path, text).unwrap();
        let coordinator = coordinator.public().to_string();
        let by = FrozenFor { key: &coordinator, card: &leader };
        let (federation, text) = Federation::freeze(&path, by, &NoProblems).unwrap();
        SumStudy::of(&federation, &text).map(Option::unwrap)
    }

    #[test]
    fn the_leader_is_the_coordinator_of_the_study() {
        assert!(matches!(study_of(&key(3)), Err(NoSum::OtherLeader { .. })));
    }

    /// Returns entries for these rounds, signed by the helper.
    fn entries(study: &SumStudy, rounds: &[u64]) -> Vec<HelperEntry> {
        let mut head = study.helper_genesis;
        let entry = |round: &u64| {
            let (event, release) = (study.event_bytes.clone(), vec![7; 5]);
            head = head.follow(*round, &event, &release);
            let entry = LedgerEntry { seq: head.seq, round: *round, event, release };
            HelperEntry::new(&key(2), &study.config, entry, &head.hash, share_digest(b"leader"))
        };
        rounds.iter().map(entry).collect()
    }

    #[test]
    fn a_chain_is_followed_once_and_a_round_may_be_missing() {
        let study = study();
        let all = entries(&study, &[0, 4]);
        let mut chain = HelperChain::new(&study);
        assert_eq!(chain.follow(&study, &all[..1]).unwrap().len(), 1);
        assert_eq!(chain.follow(&study, &all).unwrap(), all[1..]);
        assert_eq!(chain.seq(), 2);
        assert!(chain.follow(&study, &all).unwrap().is_empty());
        assert!(HelperChain::check_leader(&all[0], b"leader").is_ok());
        let other = HelperChain::check_leader(&all[0], b"chosen later");
        assert_eq!(other, Err(HelperMisconduct::OtherShare { round: 0 }));
    }

    #[test]
    fn what_the_helper_did_not_sign_is_not_believed() {
        let study = study();
        let good = entries(&study, &[0, 2]);
        let follow = |entries: &[HelperEntry]| HelperChain::new(&study).follow(&study, entries);
        let signature = Err(HelperMisconduct::Signature { seq: 1 });
        let mut changed = good.clone();
        changed[0].entry.release[0] ^= 1;
        assert_eq!(follow(&changed), signature);
        let mut changed = good.clone();
        changed[0].leader_share = Digest([0; 32]);
        assert_eq!(follow(&changed), signature);
        let mut forged = good.clone();
        let head = study.helper_genesis.follow(0, &study.event_bytes, &[7; 5]);
        let (entry, shown) = (good[0].entry.clone(), good[0].leader_share);
        forged[0] = HelperEntry::new(&key(3), &study.config, entry, &head.hash, shown);
        assert_eq!(follow(&forged), signature);
        // Entries from a different study.
        let mut other = study.clone();
        other.config = Digest([9; 32]);
        assert_eq!(HelperChain::new(&other).follow(&other, &good), signature);
        // A gap, a round without a release, and a different charge.
        let gap = Err(HelperMisconduct::EntryMissing { expected: 1, found: 2 });
        assert_eq!(follow(&good[1..]), gap);
        let odd = entries(&study, &[1]);
        assert_eq!(follow(&odd), Err(HelperMisconduct::Round { seq: 1, round: 1 }));
        let twice = entries(&study, &[2, 2]);
        assert_eq!(follow(&twice), Err(HelperMisconduct::Round { seq: 2, round: 2 }));
        let mut cheaper = good;
        cheaper[0].entry.event.push(0);
        assert_eq!(follow(&cheaper), Err(HelperMisconduct::Event { round: 0 }));
    }

    /// A helper that was restored from an older copy signs entries that replace known ones.
    #[test]
    fn a_helper_that_was_rolled_back_is_found_out() {
        let study = study();
        let mut chain = HelperChain::new(&study);
        chain.follow(&study, &entries(&study, &[0, 2])).unwrap();
        let rewritten = entries(&study, &[2]);
        assert_eq!(chain.follow(&study, &rewritten), Err(HelperMisconduct::Signature { seq: 1 }));
        assert_eq!(chain.seq(), 2);
    }
}
