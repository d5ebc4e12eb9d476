//! Tests that malformed and extreme vectors are accepted like any other, have a norm of at most K
//! after clipping, and never cause a panic (INV-5, INV-7).

use crate::common;

use common::{float, mechanism, pre_noise, release, signed, source, squared_bound, squared_norm};
use fedbo_privacy::mechanism::{
    Mechanism, MechanismSettings, ReleaseShape, SecureNoise, VectorRefused,
};
use proptest::prelude::*;

fn alone(mechanism: &Mechanism, vector: Vec<f64>) -> Vec<i64> {
    pre_noise(mechanism, 0, ReleaseShape::Regions, 1, &[(0, vector)])
}

/// A NaN of any kind or an infinity makes the whole vector zero. The vector is accepted like any
/// other.
#[test]
fn a_vector_with_a_coordinate_that_is_not_finite_counts_as_zero() {
    let mechanism = mechanism(2, 1, 5, 1.0, 1.0);
    let signalling = f64::from_bits(0x7ff0_0000_0000_0001);
    for bad in [f64::NAN, -f64::NAN, signalling, f64::INFINITY, f64::NEG_INFINITY] {
        for place in 0..5 {
            let mut vector = vec![0.5, -0.5, 1e300, 0.0, 0.25];
            vector[place] = bad;
            let mut collecting = mechanism.begin(0, ReleaseShape::Regions);
            assert_eq!(collecting.receive(0, &vector), Ok(()));
            assert_eq!(collecting.receive(0, &[0.0; 5]), Err(VectorRefused::Repeated { slot: 0 }));
            let empty = release(&mechanism, 0, ReleaseShape::Regions, &mut source(1), &[]);
            let release = collecting.close(&mut source(1)).unwrap().release;
            assert_eq!(release.sums(), empty.sums());
        }
    }
}

/// Vectors with 1e300 and the largest float are clipped to norm K and keep their direction,
/// although squares of floats would overflow.
#[test]
fn huge_vectors_keep_their_direction() {
    let mechanism = mechanism(1, 1, 4, 1.0, 1.0);
    let bound = signed(i64::try_from(mechanism.lattice().bound()).unwrap());
    for size in [1e10, 1e160, 1e300, f64::MAX] {
        let sums = alone(&mechanism, vec![size, -size, 0.5 * size, 0.0]);
        assert!(squared_norm(&sums) <= squared_bound(&mechanism));
        for (k, share) in sums.iter().zip([2.0 / 3.0, -2.0 / 3.0, 1.0 / 3.0, 0.0]) {
            assert!((signed(*k) - share * bound).abs() < 4.0, "{k} of {bound} at {size:e}");
        }
        assert_eq!(sums[0], -sums[1], "truncation is symmetric");
    }
    let sums = alone(&mechanism, vec![f64::MAX, 1.0, -1.0, 0.0]);
    assert!(sums[0] > sums[1] && sums[1..] == [0, 0, 0]);
}

/// Subnormal numbers and both zeros become zero on the lattice.
#[test]
fn denormal_numbers_and_zeros_are_zero() {
    let mechanism = mechanism(1, 1, 4, 1.0, 1.0);
    let tiny = f64::MIN_POSITIVE;
    for vector in [[0.0, -0.0, 5e-324, -5e-324], [tiny, -tiny, 0.5 * tiny, 1e-300]] {
        assert_eq!(alone(&mechanism, vector.to_vec()), [0; 4]);
    }
}

/// Tests vectors of norm C, one float step above and below C, and one lattice unit below C, with
/// C = 1 exactly.
#[test]
fn a_vector_at_the_clipping_norm_is_left_alone_and_one_beyond_it_is_cut() {
    let mechanism =
        Mechanism::new(MechanismSettings { max_norm: 1.0, ..common::settings(1, 1, 2, 1.0, 1.0) })
            .unwrap();
    let (bound, spacing) = (1_i64 << 23, mechanism.lattice().spacing());
    assert_eq!(mechanism.lattice().bound(), 1 << 23);
    for (vector, expected) in [
        ([1.0, 0.0], [bound, 0]),
        ([-1.0, 0.0], [-bound, 0]),
        ([1.0_f64.next_up(), 0.0], [bound, 0]),
        ([1.0_f64.next_down(), 0.0], [bound - 1, 0]),
        ([-(1.0_f64.next_down()), 0.0], [1 - bound, 0]),
        ([1.0 - spacing, 0.0], [bound - 1, 0]),
        ([2.0, 0.0], [bound, 0]),
        ([0.6, 0.8], [5_033_164, 6_710_886]),
    ] {
        assert_eq!(alone(&mechanism, vector.to_vec()), expected, "{vector:?}");
    }
    let over = alone(&mechanism, vec![1.0, spacing]);
    assert!(squared_norm(&over) <= squared_bound(&mechanism), "{over:?}");
    assert!(over[0] >= bound - 1 && over[1] <= 1, "{over:?}");
}

#[test]
fn wrong_lengths_and_unknown_slots_are_refused_and_the_round_goes_on() {
    let mechanism = mechanism(3, 2, 4, 1.0, 1.0);
    let mut collecting = mechanism.begin(0, ReleaseShape::Regions);
    for found in [0, 1, 3, 5, 4_000] {
        let refused = VectorRefused::WrongLength { slot: 2, expected: 4, found };
        assert_eq!(collecting.receive(2, &vec![1.0; found]), Err(refused));
    }
    for slot in [3, 4, 64, u32::MAX] {
        let refused = VectorRefused::UnknownSlot { slot, last: 2 };
        assert_eq!(collecting.receive(slot, &[1.0; 4]), Err(refused));
    }
    assert_eq!(collecting.receive(2, &[0.5; 4]), Ok(()));
    let expected =
        release(&mechanism, 0, ReleaseShape::Regions, &mut source(1), &[(2, vec![0.5; 4])]);
    let release = collecting.close(&mut source(1)).unwrap().release;
    assert_eq!(release, expected);
}

/// Tests N = 1, more regions than slots, one feature and many features, with noise from the
/// operating system.
#[test]
fn extreme_dimensions_work() {
    for (n_slots, n_regions, n_features) in
        [(1, 1, 1), (1, 9, 3), (2, 1, 16_384), (200, 1, 1), (65, 64, 2)]
    {
        let mechanism = mechanism(n_slots, n_regions, n_features, 1.0, 1.0);
        let mut source = SecureNoise::new();
        let mut collecting = mechanism.begin(0, ReleaseShape::Regions);
        for slot in 0..n_slots {
            collecting.receive(slot, &vec![f64::MAX; n_features as usize]).unwrap();
        }
        let release = collecting.close(&mut source).unwrap().release;
        assert_eq!(release.sums().len() as u64, u64::from(n_regions) * u64::from(n_features));
    }
    // For the longest vector, the sum of squares of 2^14 coordinates near 2^25 fills 64 bits.
    let mechanism = mechanism(1, 1, 16_384, 1.0, 1.0);
    let sums = alone(&mechanism, vec![f64::MAX; 16_384]);
    let (norm, bound) = (squared_norm(&sums), squared_bound(&mechanism));
    assert!(norm <= bound && norm * 1_000 > bound * 999, "{norm} of {bound}");
}

/// Generates floats with all bit patterns.
fn any_float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        -2.0..2.0_f64,
        (-330.0..309.0_f64).prop_map(|log| 10_f64.powf(log)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The clipped vector has a norm of at most K, no sign changes, and no coordinate grows. All
    /// coordinates are zero if one is not finite.
    #[test]
    fn any_vector_is_clipped(vector in prop::collection::vec(any_float(), 1..40), log in -20.0..20.0_f64) {
        let n_features = u32::try_from(vector.len()).unwrap();
        let mechanism = Mechanism::new(MechanismSettings {
            max_norm: 10_f64.powf(log),
            ..common::settings(1, 1, n_features, 1.0, 1.0)
        })
        .unwrap();
        let spacing = mechanism.lattice().spacing();
        let sums = alone(&mechanism, vector.clone());
        prop_assert!(squared_norm(&sums) <= squared_bound(&mechanism));
        let finite = vector.iter().all(|x| x.is_finite());
        for (k, x) in sums.iter().zip(&vector) {
            prop_assert!(finite || *k == 0);
            let size = float(k.unsigned_abs()) * spacing;
            prop_assert!(*k == 0 || (size <= x.abs() && (*k > 0) == (*x > 0.0)), "{} {}", k, x);
        }
        // Clipping again changes nothing.
        let again: Vec<f64> = sums.iter().map(|k| signed(*k) * spacing).collect();
        prop_assert_eq!(alone(&mechanism, again), sums);
    }
}
