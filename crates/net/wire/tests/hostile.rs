//! Hostile bytes are refused, or decode to exactly one message (INV-19).

#![expect(clippy::unwrap_used, reason = "a test fails on unexpected data")]

use fedbo_wire::{
    Content, Digest, EnrolmentToken, Handout, HandoutUnreadable, HelperEntry, LedgerEntry,
    LedgerHead, Limits, PublicKey, RelayedMessage, RoundKey, Signature, SigningKey, Upload,
};

const LIMITS: Limits = Limits { n_features: 3, n_slots: 5, release_bytes_max: 40 };

fn key() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

fn upload() -> Upload {
    Upload {
        config: Digest([1; 32]),
        map: Digest([2; 32]),
        slot: 3,
        round: 4,
        weights: vec![0.5, -1.0, f64::NAN],
    }
}

fn handouts() -> [Handout; 3] {
    let message =
        |sender| RelayedMessage { sender, round: 5, weights: vec![1.0, 2.0, f64::from(sender)] };
    let entry =
        |seq: u64| LedgerEntry { seq, round: 2 * seq, event: vec![3; 5], release: vec![4; 11] };
    let with = |head, content| Handout {
        config: Digest([1; 32]),
        round: 6,
        collects: true,
        head,
        content,
    };
    [
        with(
            LedgerHead::NONE,
            Content::Messages { messages: vec![message(0), message(3)], stragglers: vec![1, 2] },
        ),
        with(LedgerHead { seq: 9, hash: [8; 32] }, Content::Releases(vec![entry(8), entry(9)])),
        with(
            LedgerHead { seq: 9, hash: [8; 32] },
            Content::Shares {
                leader: vec![entry(9)],
                helper: vec![HelperEntry {
                    entry: entry(8),
                    leader_share: Digest([6; 32]),
                    signature: Signature([5; 64]),
                }],
                key: Some(RoundKey { round: 6, key: [3; 32], signature: Signature([5; 64]) }),
            },
        ),
    ]
}

/// Returns all byte strings that differ from `bytes` in one bit.
fn flips(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..8 * bytes.len()).map(|bit| {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    })
}

fn check_upload(bytes: &[u8], n_features: u32) -> bool {
    match Upload::from_bytes(bytes, n_features) {
        Ok(upload) => {
            assert_eq!(upload.to_bytes(), bytes);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// Signs the bytes as the coordinator. Returns true if they are accepted as a handout.
fn check_signed(unsigned: &[u8], limits: Limits) -> bool {
    let key = key();
    let signature = key.sign("fedbo handout, version 1", &[unsigned]);
    let bytes = [unsigned, &signature.0].concat();
    match Handout::from_bytes(&bytes, &key.public(), limits) {
        Ok(handout) => {
            assert_eq!(handout.to_bytes(&key), bytes);
            true
        }
        Err(error) => {
            assert!(!matches!(error, HandoutUnreadable::Signature(_)));
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

#[test]
fn no_part_of_an_upload_is_one_and_no_flipped_bit_is_lost() {
    let bytes = upload().to_bytes();
    assert!(check_upload(&bytes, 3));
    for n in 0..bytes.len() {
        assert!(!check_upload(&bytes[..n], 3));
        assert!(!check_upload(&bytes[n + 1..], 3));
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(!check_upload(&longer, 3));
    let n_accepted = flips(&bytes).filter(|flipped| check_upload(flipped, 3)).count();
    // The magic number, version, reserved bytes and number of weights have only one valid value.
    // All other bits are content.
    assert_eq!(n_accepted, 8 * (bytes.len() - 4 - 2 - 2 - 4));
}

#[test]
fn no_other_bytes_are_what_the_coordinator_signed() {
    let key = key();
    for handout in handouts() {
        let bytes = handout.to_bytes(&key);
        let read = |bytes: &[u8]| Handout::from_bytes(bytes, &key.public(), LIMITS);
        assert_eq!(read(&bytes), Ok(handout));
        for n in 0..bytes.len() {
            assert!(read(&bytes[..n]).is_err());
            assert!(read(&bytes[n + 1..]).is_err());
        }
        assert!(read(&[&bytes[..], &[0]].concat()).is_err());
        for flipped in flips(&bytes) {
            assert!(read(&flipped).is_err());
        }
        let stranger = SigningKey::from_seed([8; 32]).public();
        assert!(Handout::from_bytes(&bytes, &stranger, LIMITS).is_err());
    }
}

#[test]
fn what_a_coordinator_signs_has_one_form() {
    for handout in handouts() {
        let bytes = handout.to_bytes(&key());
        let unsigned = &bytes[..bytes.len() - 64];
        assert!(check_signed(unsigned, LIMITS));
        for n in 0..unsigned.len() {
            assert!(!check_signed(&unsigned[..n], LIMITS), "a part of {n} bytes");
        }
        assert!(!check_signed(&[unsigned, &[0]].concat(), LIMITS));
        let n_accepted = flips(unsigned).filter(|flipped| check_signed(flipped, LIMITS)).count();
        // Changes of the round and the configuration are accepted, but no change of the magic
        // number, version or lengths.
        assert!(n_accepted > 8 * 40 && n_accepted < 8 * (unsigned.len() - 6));
    }
}

/// SplitMix64, a pseudo-random number generator.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        let words = std::iter::repeat_with(|| self.next().to_le_bytes());
        words.take(n.div_ceil(8)).flatten().take(n).collect()
    }

    /// Overwrites some words of a valid message with huge lengths, small numbers or random values.
    fn distort(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let word = match self.below(5) {
                0 => u64::MAX,
                1 => u64::from(u32::MAX),
                2 => 1 << self.below(64),
                3 => self.next() % 16,
                _ => self.next(),
            };
            let n = [1, 4, 8][self.below(3)];
            let at = self.below(bytes.len().saturating_sub(n).max(1));
            for (byte, new) in bytes.iter_mut().skip(at).zip(&word.to_le_bytes()[..n]) {
                *byte = *new;
            }
        }
        match self.below(4) {
            0 => bytes.truncate(self.below(bytes.len() + 1)),
            1 => {
                let n = self.below(40);
                bytes.extend(self.bytes(n));
            }
            _ => {}
        }
    }
}

fn fuzz_upload(n_cases: u64) {
    let mut noise = Noise(n_cases);
    let mut n_accepted = 0;
    for _ in 0..n_cases {
        let n_features = u32::try_from(noise.below(6)).unwrap();
        let mut bytes = Upload { weights: vec![1.0; n_features as usize], ..upload() }.to_bytes();
        if noise.below(2) == 0 {
            noise.distort(&mut bytes);
        } else {
            let n = noise.below(140);
            let kept = noise.below(bytes.len());
            bytes.truncate(kept);
            bytes.extend(noise.bytes(n));
        }
        let expected = if noise.below(20) == 0 { u32::MAX } else { n_features };
        n_accepted += u64::from(check_upload(&bytes, expected));
    }
    assert!(n_accepted > n_cases / 100, "{n_accepted} of {n_cases}"); // valid uploads occur
}

fn fuzz_broadcast(n_cases: u64) {
    let mut noise = Noise(n_cases);
    let sound = handouts().map(|handout| handout.to_bytes(&key()));
    let mut n_accepted = 0;
    for case in 0..n_cases {
        let whole = &sound[noise.below(2)];
        let mut bytes = whole[..whole.len() - 64].to_vec();
        noise.distort(&mut bytes);
        if case % 8 == 0 {
            bytes.truncate(88);
            let n = noise.below(200);
            bytes.extend(noise.bytes(n));
        }
        let limits = match noise.below(4) {
            0 => Limits { n_features: u32::MAX, n_slots: u32::MAX, release_bytes_max: u64::MAX },
            _ => LIMITS,
        };
        n_accepted += u64::from(check_signed(&bytes, limits));
    }
    assert!(n_accepted > n_cases / 100, "{n_accepted} of {n_cases}");
}

#[test]
fn uploads_of_any_bytes() {
    fuzz_upload(100_000);
}

#[test]
fn broadcasts_of_any_bytes() {
    fuzz_broadcast(10_000);
}

/// This test is fast, because unsigned bytes are refused before they are parsed.
#[test]
fn unsigned_broadcasts_and_texts_of_any_bytes() {
    let mut noise = Noise(3);
    let signer = key().public();
    for case in 0..100_000 {
        let n = noise.below(120);
        let mut bytes = noise.bytes(n);
        if case % 50 == 0 {
            bytes.splice(..0, *b"FBHO\x01\0");
        }
        assert!(Handout::from_bytes(&bytes, &signer, LIMITS).is_err());
        assert!(!check_upload(&bytes, 3));
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.parse::<EnrolmentToken>().is_err());
        assert!(format!("fbt2_{text}").parse::<EnrolmentToken>().is_err());
        assert!(text.parse::<PublicKey>().is_err());
        assert!(SigningKey::from_file_text(&text).is_err());
    }
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn a_million_uploads_and_broadcasts_of_any_bytes() {
    fuzz_upload(1_000_000);
    fuzz_broadcast(1_000_000);
}
