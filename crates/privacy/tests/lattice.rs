//! Tests that released values are multiples of g, and that the clipping, the bound and the variance
//! are exact (INV-7, INV-8, INV-19).
#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it only in test functions, not in shared helpers"
)]

use crate::common;

use common::{float, pre_noise, release, settings, signed, source, squared_bound, squared_norm};
use fedbo_privacy::accounting::{Noise, NoiseMultiplier, SamplingRate};
use fedbo_privacy::mechanism::{
    Mechanism, MechanismError, Release, ReleaseRefused, ReleaseShape, Secure, Simulated,
};
use fedbo_testkit::test_stream;
use proptest::prelude::*;

fn with_norm(max_norm: f64, n_regions: u32, z: f64) -> Result<Mechanism, MechanismError> {
    Mechanism::new(fedbo_privacy::mechanism::MechanismSettings {
        max_norm,
        ..settings(4, n_regions, 6, 1.0, z)
    })
}

/// g = 2^−e, K = ⌊C/g⌋ in 2^23..2^24, K g ≤ C < (K + 1) g with C = S/√P.
#[test]
fn the_bound_is_the_clipping_norm_in_units_of_a_power_of_two() {
    for n_regions in [1, 2, 4, 7] {
        for max_norm in [1e-90, 0.1, 1.0, 1.999_999, 2.0, 11.0, 22.0, 1e5, 1e90] {
            let mechanism = with_norm(max_norm, n_regions, 1.0).unwrap();
            let lattice = mechanism.lattice();
            let clip = max_norm / f64::from(n_regions).sqrt();
            assert!((1 << 23..1 << 24).contains(&lattice.bound()));
            assert!(float(lattice.bound()) * lattice.spacing() <= clip);
            assert!(float(lattice.bound() + 1) * lattice.spacing() > clip);
            assert_eq!(lattice.spacing().to_bits() << 12, 0, "not a power of two");
        }
    }
    for max_norm in [0.0, -1.0, 1e-101, 1e101, f64::NAN, f64::INFINITY] {
        let error = with_norm(max_norm, 1, 1.0).unwrap_err();
        assert!(matches!(error, MechanismError::MaxNorm { .. }), "{error}");
    }
}

/// Every released value is an integer multiple of g, for any vectors.
#[test]
fn released_values_are_multiples_of_the_spacing() {
    let mechanism = Mechanism::new(settings(50, 3, 20, 0.5, 1.0)).unwrap();
    let mut stream = test_stream(1);
    let uploads: Vec<(u32, Vec<f64>)> = (0..50).map(|slot| (slot, stream.normals(20))).collect();
    for (round, shape) in (0..).zip([ReleaseShape::Regions, ReleaseShape::Total]) {
        let release = release(&mechanism, round, shape, &mut source(1), &uploads);
        assert!((release.spacing() - mechanism.lattice().spacing()).abs() < 1e-300);
        for region in 0..release.n_sums() {
            let first = 20 * region as usize;
            let sums = &release.sums()[first..first + 20];
            for (value, k) in release.values(region).iter().zip(sums) {
                let multiple = value / release.spacing();
                assert!(multiple.fract().abs() < 1e-300, "{value}");
                assert!((multiple - signed(*k)).abs() < 1e-300, "{value}");
            }
        }
    }
}

/// Multiplies integers given as base-2^32 digits, lowest first. This is an independent
/// implementation.
fn product(a: &[u64], b: &[u64]) -> Vec<u64> {
    let mut digits = vec![0_u64; a.len() + b.len()];
    for (i, x) in a.iter().enumerate() {
        let mut carry = 0;
        for (j, y) in b.iter().enumerate() {
            let sum = digits[i + j] + x * y + carry;
            digits[i + j] = sum & 0xffff_ffff;
            carry = sum >> 32;
        }
        digits[i + b.len()] = carry;
    }
    digits
}

fn digits(mut n: u128) -> Vec<u64> {
    let mut digits = Vec::new();
    while n > 0 {
        digits.push(u64::try_from(n & 0xffff_ffff).unwrap());
        n >>= 32;
    }
    digits
}

/// Returns a < b.
fn below(a: &[u64], b: &[u64]) -> bool {
    let padded = |x: &[u64], n: usize| -> Vec<u64> {
        let mut x = x.to_vec();
        x.resize(n, 0);
        x.reverse();
        x
    };
    let n = a.len().max(b.len());
    padded(a, n) < padded(b, n)
}

proptest! {
    /// (z K)² ≤ σ² < (z K)² + 1 exactly, with z = m/2^s: m² K² ≤ σ² 2^2s < m² K² + 2^2s.
    #[test]
    fn the_variance_is_never_short_and_at_most_one_too_large(
        z in prop_oneof![1.0 / 1024.0..65_536.0_f64, 0.5..4.0_f64, Just(1.0 / 1024.0), Just(65_536.0), Just(1.5)],
        max_norm in 1e-3..1e3_f64,
    ) {
        let mechanism = with_norm(max_norm, 1, z).unwrap();
        let Noise::DiscreteGaussian { variance, bound, n_coordinates } = mechanism.event().noise else {
            panic!("another noise");
        };
        prop_assert_eq!((bound, n_coordinates), (mechanism.lattice().bound(), 6));
        prop_assert_eq!(variance, mechanism.noise().variance());
        let bits = z.to_bits();
        let m = u128::from((bits & ((1 << 52) - 1)) | (1 << 52));
        let s = 1075 - u32::try_from(bits >> 52).unwrap();
        prop_assert!((float(u64::try_from(m).unwrap()) / 2_f64.powi(i32::try_from(s).unwrap()) - z).abs() < 1e-300);
        let root = digits(m * u128::from(bound));
        let exact = product(&root, &root);
        let power = digits(1 << s);
        let scale = product(&power, &power);
        prop_assert!(!below(&product(&digits(variance), &scale), &exact), "noise is short");
        prop_assert!(below(&product(&digits(variance - 1), &scale), &exact), "noise is too much");
    }

    /// If the norm is within the bound, coordinates are only truncated toward zero.
    #[test]
    fn coordinates_inside_the_bound_are_truncated_toward_zero(
        vector in prop::collection::vec(prop_oneof![-0.9..0.9_f64, -1e-6..1e-6_f64, Just(-0.0), Just(5e-324)], 6),
    ) {
        let mechanism = Mechanism::new(settings(1, 1, 6, 1.0, 1.0)).unwrap();
        let spacing = mechanism.lattice().spacing();
        let sums = pre_noise(&mechanism, 0, ReleaseShape::Regions, 1, &[(0, vector.clone())]);
        for (k, x) in sums.iter().zip(&vector) {
            prop_assert!((signed(*k) - (x / spacing).trunc()).abs() < 1e-300, "{} {}", k, x);
        }
    }

    /// If the norm exceeds the bound, the clipped norm is at most K and within a few units of it,
    /// and the direction is preserved to one unit per coordinate.
    #[test]
    fn vectors_beyond_the_bound_keep_their_direction(
        vector in prop::collection::vec(-1.0..1.0_f64, 6),
        log in -2.0..300.0_f64,
    ) {
        let mechanism = Mechanism::new(settings(1, 1, 6, 1.0, 1.0)).unwrap();
        let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        prop_assume!(norm > 0.1);
        let scaled: Vec<f64> = vector.iter().map(|x| x / norm * 10_f64.powf(log)).collect();
        let sums = pre_noise(&mechanism, 0, ReleaseShape::Regions, 1, &[(0, scaled)]);
        prop_assert!(squared_norm(&sums) <= squared_bound(&mechanism));
        let bound = float(mechanism.lattice().bound());
        let clip = 1.1 * 6_f64.sqrt();
        let expected = (10_f64.powf(log) / clip).min(1.0) * bound;
        let found = float(u64::try_from(squared_norm(&sums)).unwrap()).sqrt();
        prop_assert!((found - expected).abs() < 8.0, "{} {}", found, expected);
        for (k, x) in sums.iter().zip(&vector) {
            prop_assert!((signed(*k) - x / norm * expected).abs() < 6.0);
        }
    }

    /// No bytes make the decoder panic, and a decoded release encodes to the same bytes.
    #[test]
    fn decoders_survive_any_bytes(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        place in 0_usize..160,
        value in any::<u8>(),
        length in 0_usize..200,
    ) {
        let mechanism = Mechanism::new(settings(2, 2, 6, 1.0, 1.0)).unwrap();
        let mut bytes = release(&mechanism, 7, ReleaseShape::Regions, &mut source(2), &[]).to_bytes();
        prop_assert!(Release::<Simulated>::from_bytes(&noise).is_err());
        let position = place % bytes.len();
        bytes[position] = value;
        bytes.resize(length, value);
        if let Ok(read) = Release::<Simulated>::from_bytes(&bytes) {
            prop_assert_eq!(read.to_bytes(), bytes);
        }
    }
}

#[test]
fn a_release_is_read_back_and_nothing_else_is() {
    let mechanism = Mechanism::new(settings(5, 3, 4, 1.0, 1.0)).unwrap();
    let other = Mechanism::new(settings(6, 3, 4, 1.0, 1.0)).unwrap();
    for shape in [ReleaseShape::Regions, ReleaseShape::Total] {
        let release = release(&mechanism, 9, shape, &mut source(1), &[(0, vec![1.0; 4])]);
        let bytes = release.to_bytes();
        assert_eq!(bytes.len() as u64, mechanism.release_size(shape));
        assert_eq!(Release::from_bytes(&bytes).as_ref(), Ok(&release));
        assert_eq!(mechanism.read::<Simulated>(9, &bytes).as_ref(), Ok(&release));
        assert_eq!(mechanism.read::<Secure>(9, &bytes), Err(ReleaseRefused::OtherKind));
        assert_eq!(other.read::<Simulated>(9, &bytes), Err(ReleaseRefused::OtherMechanism));
        let round = ReleaseRefused::OtherRound { expected: 8, found: 9 };
        assert_eq!(mechanism.read::<Simulated>(8, &bytes), Err(round));
        for length in 0..bytes.len() {
            assert!(Release::<Simulated>::from_bytes(&bytes[..length]).is_err(), "{length}");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(matches!(
            Release::<Simulated>::from_bytes(&longer),
            Err(ReleaseRefused::WrongSize { .. })
        ));
        let eight_longer = [bytes.as_slice(), &[0; 8]].concat();
        assert!(Release::<Simulated>::from_bytes(&eight_longer).is_err());
    }
}

/// A short message with a header that claims 2^24 numbers is refused before any allocation
/// (INV-19).
#[test]
fn claimed_lengths_allocate_nothing() {
    let mechanism = Mechanism::new(settings(5, 3, 4, 1.0, 1.0)).unwrap();
    let release = release(&mechanism, 9, ReleaseShape::Regions, &mut source(1), &[]);
    let mut bytes = release.to_bytes();
    bytes[50..54].copy_from_slice(&(1_u32 << 10).to_le_bytes());
    bytes[54..58].copy_from_slice(&(1_u32 << 14).to_le_bytes());
    let expected = 62 + 8 * (1 << 24);
    let refused = ReleaseRefused::WrongSize { expected, found: bytes.len() };
    assert_eq!(Release::<Simulated>::from_bytes(&bytes), Err(refused));
    bytes[50..54].copy_from_slice(&u32::MAX.to_le_bytes());
    let refused = Release::<Simulated>::from_bytes(&bytes);
    assert!(matches!(refused, Err(ReleaseRefused::Field { .. })), "{refused:?}");
}

/// The hash covers each public parameter (INV-11), and the encoding does not change.
#[test]
fn the_hash_covers_every_parameter() {
    let reference = settings(10, 2, 6, 0.25, 1.0);
    let hash = |settings: &fedbo_privacy::mechanism::MechanismSettings| {
        Mechanism::new(settings.clone()).unwrap().hash()
    };
    let change = |change: fn(&mut fedbo_privacy::mechanism::MechanismSettings)| {
        let mut settings = reference.clone();
        change(&mut settings);
        hash(&settings)
    };
    let hashes = [
        hash(&reference),
        change(|s| s.n_slots = 11),
        change(|s| s.n_regions = 3),
        change(|s| s.n_features = 7),
        change(|s| s.max_norm *= 1.0 + 1e-15),
        change(|s| s.sampling_rate = SamplingRate::new(0.250_000_001).unwrap()),
        change(|s| s.noise_multiplier = NoiseMultiplier::new(1.0 + 1e-15).unwrap()),
    ];
    for (i, a) in hashes.iter().enumerate() {
        assert!(hashes[..i].iter().all(|b| a != b), "change {i} leaves the hash as it was");
    }
    let mechanism = Mechanism::new(reference).unwrap();
    assert_eq!(mechanism.to_bytes().len(), 18 + 12 + 8 + 8 + 8 + 4 + 8 + 16);
    assert_eq!(mechanism.hash()[..4], GOLDEN, "the encoding has changed: so must its version");
}
const GOLDEN: [u8; 4] = [102, 105, 216, 180];

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let refused = |change: fn(&mut fedbo_privacy::mechanism::MechanismSettings)| {
        let mut settings = settings(10, 2, 6, 0.25, 1.0);
        change(&mut settings);
        Mechanism::new(settings).unwrap_err().to_string()
    };
    for (message, name) in [
        (refused(|s| s.n_slots = 0), "n_slots = 0"),
        (refused(|s| s.n_regions = 0), "n_regions = 0"),
        (refused(|s| s.n_features = 0), "n_features = 0"),
        (refused(|s| s.n_features = 16_385), "n_features = 16385"),
        (refused(|s| s.n_regions = 1 << 24), "n_regions = 16777216"),
        (refused(|s| s.max_norm = 0.0), "max_norm = 0"),
        (refused(|s| s.sampling_rate = SamplingRate::new(1e-10).unwrap()), "sampling_rate = 1e-10"),
        (
            refused(|s| s.noise_multiplier = NoiseMultiplier::new(1e-4).unwrap()),
            "noise_multiplier = 0.0001",
        ),
        (
            refused(|s| s.noise_multiplier = NoiseMultiplier::new(1e5).unwrap()),
            "noise_multiplier = 100000",
        ),
    ] {
        assert!(message.contains(name), "{message}");
    }
    let largest = Mechanism::new(settings(u32::MAX, 1 << 10, 1 << 14, 1.0, 65_536.0));
    assert!(largest.is_ok(), "N K stays below 2^62 for every roster");
}
