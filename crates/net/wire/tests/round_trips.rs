//! Round trips: decoding inverts encoding, and encoding inverts decoding.

#![expect(clippy::unwrap_used, reason = "a test fails on unexpected data")]

use fedbo_wire::{
    Content, Digest, EnrolmentToken, Handout, HelperEntry, LedgerEntry, LedgerHead, Limits,
    PublicKey, RelayedMessage, RoundKey, Signature, SigningKey, Upload,
};
use proptest::prelude::*;

/// Generates any bit pattern, including NaN with any payload.
fn any_weight() -> impl Strategy<Value = f64> {
    any::<u64>().prop_map(f64::from_bits)
}

fn bits(weights: &[f64]) -> Vec<u64> {
    weights.iter().map(|weight| weight.to_bits()).collect()
}

fn any_upload() -> impl Strategy<Value = Upload> {
    let weights = prop::collection::vec(any_weight(), 0..20);
    (any::<[u8; 32]>(), any::<[u8; 32]>(), any::<u32>(), any::<u64>(), weights).prop_map(
        |(config, map, slot, round, weights)| Upload {
            config: Digest(config),
            map: Digest(map),
            slot,
            round,
            weights,
        },
    )
}

fn any_messages() -> impl Strategy<Value = (Content, Limits)> {
    let message = |n| (any::<u64>(), prop::collection::vec(any_weight(), n));
    (0_usize..6, 1_u32..40).prop_flat_map(move |(n_features, n_slots)| {
        let n_messages = 0..=(n_slots as usize).min(6);
        let messages =
            prop::collection::btree_map(0..n_slots, message(n_features), n_messages.clone());
        let stragglers = prop::collection::btree_set(0..n_slots, n_messages);
        let limits =
            Limits { n_features: n_features.try_into().unwrap(), n_slots, release_bytes_max: 0 };
        (messages, stragglers).prop_map(move |(messages, stragglers)| {
            let messages = messages.into_iter();
            let content = Content::Messages {
                messages: messages
                    .map(|(sender, (round, weights))| RelayedMessage { sender, round, weights })
                    .collect(),
                stragglers: stragglers.into_iter().collect(),
            };
            (content, limits)
        })
    })
}

fn any_releases() -> impl Strategy<Value = (Content, Limits)> {
    let bytes = |n| prop::collection::vec(any::<u8>(), 0..n);
    let rounds = prop::collection::btree_map(any::<u64>(), (bytes(50), bytes(200)), 0..6);
    (0..u64::MAX - 10, rounds).prop_map(|(first, rounds)| {
        let entries = rounds.into_iter().zip(first..);
        let entries = entries
            .map(|((round, (event, release)), seq)| LedgerEntry { seq, round, event, release })
            .collect();
        let limits = Limits { n_features: 1, n_slots: 1, release_bytes_max: 200 };
        (Content::Releases(entries), limits)
    })
}

fn any_shares() -> impl Strategy<Value = (Content, Limits)> {
    let signed = (any::<[u8; 32]>(), any::<[u8; 64]>());
    (any_releases(), any_releases(), signed).prop_map(|((one, limits), (other, _), (shown, by))| {
        let (Content::Releases(leader), Content::Releases(helper)) = (one, other) else {
            unreachable!("releases are made of entries")
        };
        let signed =
            |entry| HelperEntry { entry, leader_share: Digest(shown), signature: Signature(by) };
        let helper = helper.into_iter().map(signed).collect();
        (Content::Shares { leader, helper, key: None }, limits)
    })
}

fn any_handout() -> impl Strategy<Value = (Handout, Limits)> {
    let content = prop_oneof![any_messages(), any_releases(), any_shares()];
    let head = (any::<u64>(), any::<[u8; 32]>());
    (any::<[u8; 32]>(), any::<u64>(), any::<bool>(), head, content).prop_map(
        |(config, round, collects, (seq, hash), (mut content, limits))| {
            // Half of these handouts have the key for their round.
            if let (Content::Shares { key, .. }, true) = (&mut content, collects) {
                *key = Some(RoundKey { round, key: config, signature: Signature([3; 64]) });
            }
            let head = match content {
                Content::Messages { .. } => LedgerHead::NONE,
                Content::Releases(_) | Content::Shares { .. } => LedgerHead { seq, hash },
            };
            let handout = Handout { config: Digest(config), round, collects, head, content };
            (handout, limits)
        },
    )
}

/// Compares two contents bit for bit.
fn same(one: &Content, other: &Content) -> bool {
    match (one, other) {
        (
            Content::Messages { messages, stragglers },
            Content::Messages { messages: others, stragglers: other_stragglers },
        ) => {
            let plain = |messages: &[RelayedMessage]| -> Vec<_> {
                let messages = messages.iter();
                messages.map(|m| (m.sender, m.round, bits(&m.weights))).collect()
            };
            plain(messages) == plain(others) && stragglers == other_stragglers
        }
        _ => one == other,
    }
}

proptest! {
    #[test]
    fn an_upload_reads_back_to_the_last_bit(upload in any_upload()) {
        let bytes = upload.to_bytes();
        prop_assert_eq!(bytes.len(), Upload::n_bytes(upload.weights.len()));
        let n_features = upload.weights.len().try_into().unwrap();
        let read = Upload::from_bytes(&bytes, n_features).unwrap();
        prop_assert_eq!(bits(&read.weights), bits(&upload.weights));
        prop_assert_eq!((read.slot, read.round), (upload.slot, upload.round));
        prop_assert_eq!((read.config, read.map), (upload.config, upload.map));
        prop_assert_eq!(read.to_bytes(), bytes.clone());
        prop_assert!(Upload::from_bytes(&bytes, n_features + 1).is_err());
    }

    #[test]
    fn a_handout_reads_back_to_the_last_bit(
        (handout, limits) in any_handout(),
        seed in any::<[u8; 32]>(),
    ) {
        let key = SigningKey::from_seed(seed);
        let bytes = handout.to_bytes(&key);
        let n_releases = match &handout.content {
            Content::Messages { .. } => 0,
            Content::Releases(entries) => entries.len() as u64,
            Content::Shares { leader, helper, .. } => leader.len().max(helper.len()) as u64,
        };
        prop_assert!(bytes.len() as u64 <= limits.handout_bytes_max(n_releases));
        let read = Handout::from_bytes(&bytes, &key.public(), limits).unwrap();
        prop_assert!(same(&read.content, &handout.content));
        prop_assert_eq!((read.config, read.round), (handout.config, handout.round));
        prop_assert_eq!((read.collects, read.head), (handout.collects, handout.head));
        prop_assert_eq!(read.to_bytes(&key), bytes);
    }

    #[test]
    fn texts_read_back(
        seed in any::<[u8; 32]>(),
        secret in any::<[u8; 20]>(),
        hash in any::<[u8; 32]>(),
        halves in any::<[[u8; 32]; 2]>(),
    ) {
        let key = SigningKey::from_seed(seed);
        let read = SigningKey::from_file_text(&key.to_file_text()).unwrap();
        prop_assert_eq!(read.public(), key.public());
        prop_assert_eq!(key.public().to_string().parse(), Ok(key.public()));
        prop_assert_eq!(Digest(hash).to_string().parse(), Ok(Digest(hash)));
        let signature = Signature(halves.concat().try_into().unwrap());
        prop_assert_eq!(signature.to_string().parse(), Ok(signature));
        let token = EnrolmentToken { secret, coordinator: PublicKey(hash), config: Digest(hash) };
        let read: EnrolmentToken = token.to_text().parse().unwrap();
        prop_assert_eq!((read.secret, read.coordinator), (secret, PublicKey(hash)));
    }
}

#[test]
fn sizes_saturate() {
    assert_eq!(Upload::n_bytes(3), 88 + 24);
    assert_eq!(Upload::n_bytes(usize::MAX), usize::MAX);
    let all = Limits { n_features: u32::MAX, n_slots: u32::MAX, release_bytes_max: u64::MAX };
    assert_eq!(all.handout_bytes_max(u64::MAX), u64::MAX);
    let none = Limits { n_features: 0, n_slots: 0, release_bytes_max: 0 };
    assert_eq!(none.handout_bytes_max(0), 88 + 16 + 96 + 64);
}
