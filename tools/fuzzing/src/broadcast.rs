//! `broadcast`: a coordinator's handouts and the releases in them.

use std::sync::OnceLock;

use fedbo_privacy::accounting::{NoiseMultiplier, SamplingRate};
use fedbo_privacy::mechanism::{
    Kind, Mechanism, MechanismSettings, PaperRelease, Release, ReleaseShape, Secure, SimNoise,
    Simulated,
};
use fedbo_wire::{
    Content, Digest, Handout, HelperEntry, LedgerEntry, LedgerHead, Limits, RelayedMessage,
    RoundKey, Signature,
};

use crate::input_reader::Pieces;
use crate::keys::{coordinator, signed_handout};
use crate::ledger::event;

/// The first byte selects the decoder: a raw handout; a handout with a valid signature, which lets
/// the fuzzer reach the code behind the signature check; a release; or a release that starts like a
/// valid release of a known mechanism.
pub fn broadcast(bytes: &[u8]) {
    let mut pieces = Pieces(bytes);
    match pieces.byte() % 4 {
        0 => handout(limits(&mut pieces), pieces.0),
        1 => handout(limits(&mut pieces), &signed_handout(pieces.0)),
        2 => release(pieces.0),
        _ => release_of_mechanism(&mut pieces),
    }
}

/// Returns the limits of a study, selected by the bits of a byte.
fn limits(pieces: &mut Pieces<'_>) -> Limits {
    let choice = pieces.byte();
    let of = |at: u8, choices: [u64; 4]| choices[usize::from(choice >> at & 3)];
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Limits {
        n_features: narrow(of(0, [0, 1, 3, u64::MAX])),
        n_slots: narrow(of(2, [0, 1, 4, u64::MAX])),
        release_bytes_max: of(4, [0, 64, 1 << 20, u64::MAX]),
    }
}

fn handout(limits: Limits, bytes: &[u8]) {
    let handout = match Handout::from_bytes(bytes, &coordinator().public(), limits) {
        Ok(handout) => handout,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(handout.to_bytes(coordinator()), bytes);
    let n_releases = match &handout.content {
        Content::Messages { .. } => 0,
        Content::Releases(entries) => {
            let followed = handout.head.after(entries);
            let _ = followed.or_else(|_| LedgerHead::NONE.after(entries));
            for entry in entries {
                event(&entry.event);
                release(&entry.release);
            }
            entries.len() as u64
        }
        Content::Shares { leader, helper, .. } => {
            leader.iter().for_each(|entry| event(&entry.event));
            leader.len().max(helper.len()) as u64
        }
    };
    // INV-18: an agent that reads at most this many bytes reads the complete handout.
    assert!(bytes.len() as u64 <= limits.handout_bytes_max(n_releases));
    assert!(format!("{handout:?}").len() < 400 + 120 * bytes.len());
}

/// Parses the bytes as each type of release: both mechanisms, secure and simulated.
fn release(bytes: &[u8]) {
    lattice::<Secure>(bytes);
    lattice::<Simulated>(bytes);
    paper::<Secure>(bytes);
    paper::<Simulated>(bytes);
}

fn lattice<K: Kind>(bytes: &[u8]) {
    match Release::<K>::from_bytes(bytes) {
        Ok(release) => usable(&release, bytes),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn usable<K: Kind>(release: &Release<K>, bytes: &[u8]) {
    assert_eq!(release.to_bytes(), bytes);
    assert_eq!(
        release.sums().len() as u64,
        u64::from(release.n_sums()) * u64::from(release.n_features())
    );
    // INV-21: agents compute only with finite values.
    assert!(release.spacing().is_finite() && release.spacing() > 0.0);
    for region in 0..release.n_sums() {
        assert!(release.values(region).iter().all(|value| value.is_finite()));
    }
}

fn paper<K: Kind>(bytes: &[u8]) {
    match PaperRelease::<K>::from_bytes(bytes) {
        Ok(release) => {
            assert_eq!(release.to_bytes(), bytes);
            assert_eq!(release.region_weights().len(), release.n_regions());
            assert!(release.region_weights().flatten().all(|w| w.is_finite()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Truncates a valid release of a known mechanism and appends the rest of the input.
fn release_of_mechanism(pieces: &mut Pieces<'_>) {
    let good = good_releases();
    let good = &good[pieces.below(good.len())];
    let cut = pieces.below(good.len() + 1);
    let bytes = [&good[..cut], pieces.0].concat();
    for round in [0, ROUND, u64::MAX] {
        match mechanism().read::<Simulated>(round, &bytes) {
            Ok(release) => {
                assert_eq!(release.round(), round);
                assert_eq!(release.mechanism(), mechanism().hash());
                assert_eq!(bytes.len() as u64, mechanism().release_size(release.shape()));
                usable(&release, &bytes);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        assert!(mechanism().read::<Secure>(round, &bytes).is_err(), "INV-10");
    }
    release(&bytes);
}

const ROUND: u64 = 7;

/// Returns a mechanism with three features and two regions.
fn mechanism() -> &'static Mechanism {
    static MECHANISM: OnceLock<Mechanism> = OnceLock::new();
    MECHANISM.get_or_init(|| {
        let settings = MechanismSettings {
            n_slots: 5,
            n_regions: 2,
            n_features: 3,
            max_norm: 1.0,
            sampling_rate: SamplingRate::ALL,
            noise_multiplier: NoiseMultiplier::new(1.5).expect("a multiplier above 0"),
        };
        Mechanism::new(settings).expect("settings within their ranges")
    })
}

/// Returns a valid release of each kind.
fn good_releases() -> &'static [Vec<u8>] {
    static RELEASES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    RELEASES.get_or_init(|| {
        let made = |shape| {
            let closed = mechanism().begin(ROUND, shape).close(&mut SimNoise::new([1; 32]));
            let closed = closed.expect("a seed has randomness to give");
            closed.release.to_bytes()
        };
        vec![made(ReleaseShape::Regions), made(ReleaseShape::Total)]
    })
}

/// Returns valid handouts and releases, with the matching first byte.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    // Three features, four slots, releases of up to 2^20 bytes.
    const LIMITS: u8 = 0b10_10_10;
    let handout = |content, head| Handout {
        config: Digest([1; 32]),
        round: 8,
        collects: true,
        head,
        content,
    };
    let message = |sender| RelayedMessage { sender, round: 7, weights: vec![0.5, -1.0, 2.0] };
    let entry = |seq, round| LedgerEntry {
        seq,
        round,
        event: crate::ledger::seeds()[0][1..].to_vec(),
        release: good_releases()[1].clone(),
    };
    let entries = vec![entry(1, ROUND), entry(2, 9)];
    let head = LedgerHead::NONE.after(&entries);
    let contents = [
        (
            Content::Messages { messages: vec![message(0), message(2)], stragglers: vec![1, 3] },
            LedgerHead::NONE,
        ),
        (Content::Releases(entries.clone()), head.expect("entries without a gap")),
        (
            Content::Shares {
                helper: vec![HelperEntry {
                    entry: entry(1, ROUND),
                    leader_share: Digest([4; 32]),
                    signature: Signature([5; 64]),
                }],
                leader: entries.clone(),
                key: None,
            },
            LedgerHead { seq: 2, hash: [3; 32] },
        ),
        (
            Content::Shares {
                helper: Vec::new(),
                leader: entries,
                key: Some(RoundKey::new(coordinator(), &Digest([4; 32]), ROUND, [6; 32])),
            },
            LedgerHead { seq: 2, hash: [3; 32] },
        ),
    ];
    let mut seeds = Vec::new();
    for (content, head) in contents {
        let bytes = handout(content, head).to_bytes(coordinator());
        let unsigned = &bytes[..bytes.len() - 64];
        seeds.push([&[0, LIMITS], &bytes[..]].concat());
        seeds.push([&[1, LIMITS], unsigned].concat());
        seeds.push([&[1, LIMITS], &unsigned[..unsigned.len() - 5]].concat());
    }
    for bytes in good_releases() {
        seeds.push([&[2], &bytes[..]].concat());
    }
    let paper: Vec<u8> = [
        &b"fdbpap\x001\x02"[..],
        &5_u64.to_le_bytes(),
        &2_u32.to_le_bytes(),
        &1_u32.to_le_bytes(),
        &[0.5, 0.5, -1.0, 1.0].map(f64::to_le_bytes).concat(),
    ]
    .concat();
    seeds.push([&[2], &paper[..]].concat());
    seeds.push(vec![3, 0, 0, 62, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    seeds.push(vec![3, 1, 0, 50, 0, 1]);
    seeds
}
