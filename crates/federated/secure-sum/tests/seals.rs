//! Tests that shares are sealed for one server, study, round and slot, and that only the two
//! servers share the verification key.

use fedbo_secure_sum::{NotOpened, OpeningKey, SealingKey, SealingPublicKey, seal, sealed_size};

fn key(seed: u8) -> SealingKey {
    SealingKey::from_seed(&[seed; 32])
}

#[test]
fn what_was_sealed_for_something_else_or_changed_is_not_opened() {
    let (own, other) = (key(1), key(2));
    let sealed = seal(&own.public().seal, b"round 1", b"nonce", b"share").unwrap();
    assert_eq!(sealed.len(), sealed_size(5));
    assert_eq!(own.open(b"round 1", b"nonce", &sealed).unwrap().as_slice(), b"share");
    assert_eq!(own.open(b"round 2", b"nonce", &sealed).unwrap_err(), NotOpened);
    assert_eq!(own.open(b"round 1", b"other", &sealed).unwrap_err(), NotOpened);
    assert_eq!(other.open(b"round 1", b"nonce", &sealed).unwrap_err(), NotOpened);
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 0x20;
        assert_eq!(own.open(b"round 1", b"nonce", &changed).unwrap_err(), NotOpened, "byte {at}");
        assert_eq!(own.open(b"round 1", b"nonce", &sealed[..at]).unwrap_err(), NotOpened);
    }
    // Sealing twice gives different bytes.
    assert_ne!(seal(&own.public().seal, b"round 1", b"nonce", b"share").unwrap(), sealed);
}

/// A share sealed with a round key opens only with that key, not with other keys derived from the
/// same secret.
#[test]
fn a_key_of_a_round_opens_its_own_shares_alone() {
    let [own, other] = [3, 4].map(|seed| OpeningKey::of_round(&[seed; 32]));
    let sealed = seal(&own.public(), b"round 1", b"nonce", b"share").unwrap();
    assert_eq!(own.open(b"round 1", b"nonce", &sealed).unwrap().as_slice(), b"share");
    assert_eq!(other.open(b"round 1", b"nonce", &sealed).unwrap_err(), NotOpened);
    assert_eq!(key(3).open(b"round 1", b"nonce", &sealed).unwrap_err(), NotOpened);
    assert_eq!(format!("{own:?}"), "OpeningKey");
}

#[test]
fn both_servers_have_one_verification_key_a_study() {
    let (leader, helper) = (key(1), key(2));
    let of = |own: &SealingKey, other: &SealingKey, study: &[u8]| {
        own.verification_key(&other.public(), study)
    };
    // The key itself is secret. That both servers' keys are equal follows from the fact that they
    // verify reports (tests/sums.rs).
    assert!(of(&leader, &helper, b"study").is_some());
    let nothing = SealingPublicKey { seal: [0; 32], agree: [0; 32] };
    assert!(leader.verification_key(&nothing, b"study").is_none());
    assert!(seal(&nothing.seal, b"", b"", b"share").is_err());
    assert_eq!(format!("{:?}", of(&helper, &leader, b"study").unwrap()), "VerificationKey");
}
