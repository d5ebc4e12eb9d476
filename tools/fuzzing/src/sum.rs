//! `sum`: the inputs of the servers of a secure sum: sealed uploads, the servers' messages, cards,
//! and shares of releases.

use std::sync::OnceLock;

use fedbo_privacy::accounting::{NoiseMultiplier, SamplingRate};
use fedbo_privacy::mechanism::{
    Mechanism, MechanismSettings, ReleaseShape, Secure, Server, SimNoise, Simulated,
};
use fedbo_secure_sum::{Proof, Sharing};
use fedbo_wire::{
    CloseAnswer, Digest, HelperEntry, LedgerEntry, OpenAnswer, PassedReport, PassedSizes, RoundKey,
    SealedSizes, SealedUpload, ServerCard, Signature, SumPlace, close_from_bytes, close_to_bytes,
    entries_from_bytes, entries_to_bytes, open_from_bytes, open_size, open_to_bytes,
    reveal_from_bytes, reveal_to_bytes, verdicts_from_bytes, verdicts_to_bytes, verify_from_bytes,
    verify_to_bytes,
};

use sha2::{Digest as _, Sha256};

use crate::input_reader::Pieces;
use crate::keys::coordinator;

const PLACE: SumPlace = SumPlace { config: Digest([1; 32]), round: 5, session: [2; 16] };
const PASSED: PassedSizes = PassedSizes { public: 3, for_helper: 5, verifier: 2, message: 4 };
const SEALED: SealedSizes = SealedSizes { n_features: 2, public: 3, for_leader: 7, for_helper: 5 };
const N_SLOTS: u32 = 6;
const REQUEST: &[u8] = b"request";

/// The first byte selects the decoder. An accepted value must encode to the same bytes.
pub fn sum(bytes: &[u8]) {
    let mut pieces = Pieces(bytes);
    let kind = pieces.byte() % 11;
    let bytes = pieces.0;
    let key = coordinator();
    let answers = (&key.public(), REQUEST);
    match kind {
        0 => {
            if let Ok(upload) = SealedUpload::from_bytes(bytes, SEALED) {
                assert_eq!(upload.to_bytes(SEALED.n_features), bytes);
                assert!(format!("{upload:?}").len() < 200);
            }
        }
        1 => {
            if let Ok(reports) = verify_from_bytes(bytes, PLACE, PASSED) {
                assert_eq!(verify_to_bytes(PLACE, &reports), bytes);
            }
        }
        2 => {
            let n = usize::from(pieces.byte());
            let signed = signed(pieces.0);
            if let Ok(verdicts) = verdicts_from_bytes(&signed, PLACE, answers, (n, PASSED)) {
                assert_eq!(verdicts.len(), n);
                assert_eq!(verdicts_to_bytes(PLACE, (key, REQUEST), &verdicts, PASSED), signed);
            }
        }
        3 => {
            if let Ok(slots) = close_from_bytes(bytes, PLACE, N_SLOTS) {
                assert!(slots.iter().all(|slot| *slot < N_SLOTS));
                assert_eq!(close_to_bytes(PLACE, &slots), bytes);
            }
        }
        4 => {
            let signed = signed(bytes);
            if let Ok(answer) = CloseAnswer::from_bytes(&signed, PLACE, answers, N_SLOTS) {
                assert_eq!(answer.to_bytes(PLACE, (key, REQUEST)), signed);
                assert!(signed.len() <= CloseAnswer::size_max(N_SLOTS));
            }
        }
        5 => {
            if let Ok(share) = reveal_from_bytes(bytes, PLACE, 8) {
                assert_eq!(reveal_to_bytes(PLACE, share), bytes);
            }
        }
        6 => {
            let signed = signed(bytes);
            if let Ok((salt, entries)) = entries_from_bytes(&signed, PLACE, answers, 64) {
                assert_eq!(entries_to_bytes(PLACE, (key, REQUEST), &salt, &entries), signed);
            }
        }
        7 => {
            if let Ok(card) = String::from_utf8_lossy(bytes).parse::<ServerCard>() {
                assert_eq!(card.to_string().parse(), Ok(card));
            }
        }
        8 => shares(bytes),
        9 => {
            if let Ok(known) = open_from_bytes(bytes, PLACE) {
                assert_eq!(open_to_bytes(PLACE, known), bytes);
                assert!(bytes.len() <= open_size());
            }
        }
        _ => {
            let signed = signed(bytes);
            if let Ok(answer) = OpenAnswer::from_bytes(&signed, PLACE, answers) {
                assert_eq!(answer.to_bytes(PLACE, (key, REQUEST)), signed);
                assert!(signed.len() <= OpenAnswer::size_max());
                if let Some(key) = answer.key {
                    assert_eq!(key.to_string().parse(), Ok(key));
                }
            }
        }
    }
}

/// Appends the helper's signature to arbitrary content, as in its response to a request.
fn signed(content: &[u8]) -> Vec<u8> {
    let request: [u8; 32] = Sha256::digest(REQUEST).into();
    let parts: [&[u8]; 2] = [&request, content];
    let signature = coordinator().sign("fedbo helper answer, version 1", &parts);
    [content, &signature.0].concat()
}

fn sharing() -> &'static Sharing {
    static SHARING: OnceLock<Sharing> = OnceLock::new();
    SHARING.get_or_init(|| {
        let settings = MechanismSettings {
            n_slots: N_SLOTS,
            n_regions: 2,
            n_features: 3,
            max_norm: 1.0,
            sampling_rate: SamplingRate::ALL,
            noise_multiplier: NoiseMultiplier::new(1.5).expect("a multiplier above 0"),
        };
        let mechanism = Mechanism::for_secure_sum(settings, 12).expect("settings within ranges");
        Sharing::new(mechanism, 1, 12, Proof::None).expect("a sum of few numbers")
    })
}

fn shares(bytes: &[u8]) {
    for shape in [ReleaseShape::Regions, ReleaseShape::Total] {
        let at = (PLACE.round, shape);
        for server in [Server::Leader, Server::Helper] {
            if let Ok(share) = sharing().read::<Simulated>(server, at, bytes) {
                assert_eq!(share.to_bytes(), bytes);
                assert!(sharing().witnesses(&share).iter().all(|value| value.is_finite()));
                assert!(sharing().read::<Secure>(server, at, bytes).is_err(), "INV-10");
            }
        }
    }
}

/// Returns a valid input for each decoder.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let key = coordinator();
    let upload = SealedUpload {
        config: Digest([1; 32]),
        map: Digest([2; 32]),
        slot: 1,
        round: 5,
        nonce: [3; 16],
        public: vec![4; 3],
        for_leader: vec![5; 7],
        for_helper: vec![6; 5],
    };
    let report = |slot| PassedReport {
        slot,
        nonce: [3; 16],
        public: vec![4; 3],
        for_helper: vec![6; 5],
        verifier: vec![7; 2],
    };
    let verdicts = [Some(vec![1; 4]), None];
    let verdicts = verdicts_to_bytes(PLACE, (key, REQUEST), &verdicts, PASSED);
    let closed = CloseAnswer::Closed { slots: vec![1, 4], commitment: Digest([9; 32]) };
    let closed = closed.to_bytes(PLACE, (key, REQUEST));
    let missing = CloseAnswer::Missing { slots: vec![2] }.to_bytes(PLACE, (key, REQUEST));
    let entry = LedgerEntry { seq: 1, round: 5, event: vec![1; 4], release: vec![2; 16] };
    let (leader_share, signature) = (Digest([8; 32]), Signature([7; 64]));
    let entries = [HelperEntry { entry, leader_share, signature }];
    let entries = entries_to_bytes(PLACE, (key, REQUEST), &[6; 32], &entries);
    let unsigned = |bytes: &[u8]| bytes[..bytes.len() - 64].to_vec();
    let share = |server| {
        let at = (PLACE.round, ReleaseShape::Total);
        let closed = sharing().begin(server, at).close(&[], &mut SimNoise::new([1; 32]));
        closed.map(|share| share.to_bytes()).unwrap_or_default()
    };
    let card = ServerCard::new(key, [1; 32], [2; 32]).to_string();
    let opened = |key| {
        let answer = OpenAnswer { session: [3; 16], key };
        unsigned(&answer.to_bytes(PLACE, (coordinator(), REQUEST)))
    };
    let round_key = RoundKey::new(key, &PLACE.config, PLACE.round, [4; 32]);
    vec![
        [&[0], &upload.to_bytes(2)[..]].concat(),
        [&[1], &verify_to_bytes(PLACE, &[report(0), report(3)])[..]].concat(),
        [&[2, 2], &unsigned(&verdicts)[..]].concat(),
        [&[3], &close_to_bytes(PLACE, &[0, 5])[..]].concat(),
        [&[4], &unsigned(&closed)[..]].concat(),
        [&[4], &unsigned(&missing)[..]].concat(),
        [&[5], &reveal_to_bytes(PLACE, &[7; 8])[..]].concat(),
        [&[6], &unsigned(&entries)[..]].concat(),
        [&[7], card.as_bytes()].concat(),
        [&[8], &share(Server::Leader)[..]].concat(),
        [&[8], &share(Server::Helper)[..]].concat(),
        [&[9], &open_to_bytes(PLACE, None)[..]].concat(),
        [&[9], &open_to_bytes(PLACE, Some((4, Digest([9; 32]))))[..]].concat(),
        [&[10], &opened(Some(round_key))[..]].concat(),
        [&[10], &opened(None)[..]].concat(),
    ]
}
