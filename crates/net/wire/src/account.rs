//! A coordinator's record of an agent: the rounds that its slots delivered, and the counters of its
//! requests (INV-28).

use serde::{Deserialize, Serialize};

use crate::{BadSignature, Digest, PublicKey, Signature, SigningKey};

/// The first and last of a range of consecutive rounds.
pub type Rounds = (u64, u64);

/// A coordinator's record of an agent over all studies, signed so that the agent's owner can show
/// it to others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The agent's key.
    pub key: PublicKey,
    /// The coordinator's clock, in milliseconds since 1970 UTC.
    pub time_ms: u64,
    /// The studies in which the key has a slot.
    pub studies: Vec<StudyAccount>,
    /// The coordinator's signature over all other fields.
    pub proof: Signature,
}

/// A coordinator's record of an agent in one study.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StudyAccount {
    /// Name of the study.
    pub study: String,
    /// Digest of the study's configuration.
    pub config: Digest,
    /// The agent's slot.
    pub slot: u32,
    /// Largest counter of a request for the slot, or 0 before the first.
    pub counter: u64,
    /// Encoded privacy event charged for each release, in hexadecimal. Empty if nothing is charged.
    pub event: String,
    /// Mode of the study's charter, `default` or `paper`. Empty if nothing is charged.
    pub mode: String,
    /// Rounds with a vector from the slot, released or still to be released. The ranges ascend and
    /// do not overlap.
    pub delivered: Vec<Rounds>,
    /// Rounds that an earlier version released without a record of their participants.
    pub unrecorded: Vec<Rounds>,
}

const PURPOSE: &str = "fedbo account, version 1";

impl Account {
    /// Creates the account of the agent with `key`, signed by the owner of `coordinator`.
    pub fn new(
        coordinator: &SigningKey,
        key: PublicKey,
        time_ms: u64,
        studies: Vec<StudyAccount>,
    ) -> Self {
        let mut account = Self { key, time_ms, studies, proof: Signature([0; 64]) };
        account.proof = account.signed_by(|parts| coordinator.sign(PURPOSE, parts));
        account
    }

    /// Checks that this coordinator signed the account for the agent with this key.
    ///
    /// # Errors
    /// If the account is for a different key, or the signature does not match.
    pub fn verify(&self, coordinator: &PublicKey, key: &PublicKey) -> Result<(), BadSignature> {
        if self.key != *key {
            return Err(BadSignature);
        }
        self.signed_by(|parts| coordinator.verify(PURPOSE, parts, &self.proof))
    }

    /// Passes the signed parts to `act`: the key and the time, then for each study the name,
    /// digest, slot, counter, event, mode, and the rounds of both lists.
    fn signed_by<R>(&self, act: impl FnOnce(&[&[u8]]) -> R) -> R {
        let rounds = |all: &[Rounds]| -> Vec<u8> {
            all.iter()
                .flat_map(|(first, last)| [first.to_le_bytes(), last.to_le_bytes()].concat())
                .collect()
        };
        let mut owned: Vec<Vec<u8>> =
            vec![self.key.0.to_vec(), self.time_ms.to_le_bytes().to_vec()];
        for study in &self.studies {
            owned.extend([
                study.study.as_bytes().to_vec(),
                study.config.0.to_vec(),
                study.slot.to_le_bytes().to_vec(),
                study.counter.to_le_bytes().to_vec(),
                study.event.as_bytes().to_vec(),
                study.mode.as_bytes().to_vec(),
                rounds(&study.delivered),
                rounds(&study.unrecorded),
            ]);
        }
        let parts: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
        act(&parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study() -> StudyAccount {
        StudyAccount {
            study: "wine".to_owned(),
            config: Digest([1; 32]),
            slot: 2,
            counter: 17,
            event: "0100".to_owned(),
            mode: "default".to_owned(),
            delivered: vec![(0, 3), (5, 5)],
            unrecorded: vec![(4, 4)],
        }
    }

    /// Verification detects a change of any field, and a different agent's key.
    #[test]
    fn an_account_is_that_of_one_agent_as_it_was_signed() {
        let (coordinator, key) =
            (SigningKey::from_seed([1; 32]), SigningKey::from_seed([2; 32]).public());
        let account = Account::new(&coordinator, key, 5, vec![study()]);
        assert_eq!(account.verify(&coordinator.public(), &key), Ok(()));
        let text = serde_json::to_string(&account).unwrap();
        assert_eq!(serde_json::from_str::<Account>(&text).unwrap(), account);
        assert_eq!(account.verify(&key, &key), Err(BadSignature));
        let other = SigningKey::from_seed([3; 32]).public();
        assert_eq!(account.verify(&coordinator.public(), &other), Err(BadSignature));
        let changes: [fn(&mut Account); 10] = [
            |account| account.time_ms += 1,
            |account| account.studies.clear(),
            |account| account.studies[0].study.push('s'),
            |account| account.studies[0].config = Digest([2; 32]),
            |account| account.studies[0].slot = 3,
            |account| account.studies[0].counter = 16,
            |account| account.studies[0].event = "0101".to_owned(),
            |account| account.studies[0].mode = "paper".to_owned(),
            |account| account.studies[0].delivered.truncate(1),
            |account| account.studies[0].unrecorded[0].1 = 5,
        ];
        for change in changes {
            let mut changed = account.clone();
            change(&mut changed);
            assert_eq!(
                changed.verify(&coordinator.public(), &key),
                Err(BadSignature),
                "{changed:?}"
            );
        }
    }
}
