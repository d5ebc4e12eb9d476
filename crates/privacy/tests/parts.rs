//! Tests that for every split of a sum into parts, the release is bitwise equal to that of a single
//! collector.

use crate::common;

use std::collections::BTreeSet;

use common::{mechanism, source};
use fedbo_privacy::mechanism::{Mechanism, PartRefused, PartialSum, ReleaseShape, VectorRefused};
use fedbo_streams::{Purpose, Seed, Stream};
use zeroize::Zeroizing;

/// Draws a vector of a kind that agents might send: ordinary, with too large a norm, zero, tiny, or
/// not finite.
fn vector(n: u32, stream: &mut Stream) -> Vec<f64> {
    let scale = [1.0, 1e9, 0.0, 1e-300, f64::INFINITY][stream.below(5)];
    (0..n).map(|_| scale * (2.0 * stream.uniform() - 1.0)).collect()
}

/// Draws a number below `n`.
fn below(n: u32, stream: &mut Stream) -> u32 {
    stream.bits() % n
}

/// Pads a vector with zeros for the missing numbers.
fn whole(vector: &[f64], mechanism: &Mechanism) -> Vec<f64> {
    let mut whole = vector.to_vec();
    whole.resize(mechanism.settings().n_features as usize, 0.0);
    whole
}

#[test]
fn whoever_has_which_vectors_the_release_is_the_same() {
    for seed in 0..1000 {
        let mut stream = Seed::new(seed).stream(Purpose::TEST, 0, 0);
        let n_slots = 1 + below(40, &mut stream);
        let (n_regions, n_numbers) = (1 + below(4, &mut stream), 1 + below(6, &mut stream));
        let n_features = n_numbers + below(3, &mut stream);
        let mechanism = mechanism(n_slots, n_regions, n_features, 1.0, 1.0);
        let shape = [ReleaseShape::Regions, ReleaseShape::Total][stream.below(2)];
        let round = (u64::from(below(100, &mut stream)), shape);
        let n_parts = 1 + stream.below(5);
        let mut one = mechanism.begin(round.0, round.1);
        let begin = |_| mechanism.begin_part(round, n_numbers).unwrap();
        let mut parts: Vec<_> = (0..n_parts).map(begin).collect();
        let mut taken = vec![BTreeSet::new(); n_parts];
        for slot in (0..n_slots).filter(|slot| slot % 7 != 3) {
            let vector = vector(n_numbers, &mut stream);
            let part = stream.below(n_parts);
            parts[part].receive(slot, &vector).unwrap();
            // Only the vector taken at the slot's collector counts, not a different vector of the
            // slot at another collector, and not a vector that no collector takes.
            let other = (part + 1) % n_parts;
            if other != part {
                parts[other]
                    .receive(slot, &vector.iter().rev().copied().collect::<Vec<_>>())
                    .unwrap();
            }
            if stream.bernoulli(0.9) {
                taken[part].insert(slot);
                one.receive(slot, &whole(&vector, &mechanism)).unwrap();
            }
        }
        let sums = parts.iter().zip(&taken).map(|(part, taken)| {
            let made = part.add_up(|slot| taken.contains(&slot));
            let numbers = Zeroizing::new(made.numbers().to_vec());
            PartialSum::of(&mechanism, round, numbers, taken.len()).unwrap()
        });
        let sums: Vec<_> = sums.collect();
        let joined = mechanism.close_parts(round, sums, &mut source(seed)).unwrap();
        let expected = one.close(&mut source(seed)).unwrap();
        assert_eq!(joined.release.to_bytes(), expected.release.to_bytes(), "seed {seed}");
        assert_eq!(joined.event, expected.event);
    }
}

/// A round without parts releases noise, like a round without vectors (INV-3).
#[test]
fn a_round_without_parts_releases_noise() {
    let mechanism = mechanism(5, 2, 3, 1.0, 1.0);
    let round = (4, ReleaseShape::Regions);
    let joined = mechanism.close_parts(round, [], &mut source(1)).unwrap();
    let empty = mechanism.begin(round.0, round.1).close(&mut source(1)).unwrap();
    assert_eq!(joined.release.to_bytes(), empty.release.to_bytes());
}

#[test]
fn where_coins_decide_there_are_no_parts() {
    let round = (0, ReleaseShape::Total);
    assert!(mechanism(5, 1, 3, 0.999_999, 1.0).begin_part(round, 3).is_none());
    let certain = mechanism(5, 1, 3, 1.0, 1.0);
    assert!(certain.begin_part(round, 4).is_none(), "longer than a vector");
    let mut part = certain.begin_part(round, 2).unwrap();
    part.receive(1, &[1.0, 2.0]).unwrap();
    assert_eq!(part.receive(1, &[1.0, 2.0]), Err(VectorRefused::Repeated { slot: 1 }));
    assert_eq!(part.receive(5, &[1.0, 2.0]), Err(VectorRefused::UnknownSlot { slot: 5, last: 4 }));
    assert!(part.receive(2, &[1.0]).is_err());
    assert!(part.has(1) && !part.has(2));
    assert_eq!(part.slots().collect::<Vec<_>>(), [1]);
}

/// A sum that no clipped vectors can produce is refused (INV-7), and the debug output of a part
/// shows no numbers (INV-4).
#[test]
fn a_part_that_nobody_can_have_made_is_refused() {
    let mechanism = mechanism(5, 2, 3, 1.0, 1.0);
    let round = (0, ReleaseShape::Regions);
    let bound = i64::try_from(mechanism.lattice().bound()).unwrap();
    let part =
        |numbers: &[i64], n| PartialSum::of(&mechanism, round, Zeroizing::new(numbers.to_vec()), n);
    let largest = [2 * bound, -2 * bound, 0, 0, 0, 0];
    assert_eq!(format!("{:?}", part(&largest, 2).unwrap()), "PartialSum { .. }");
    for n in [0, 1] {
        assert_eq!(part(&largest, n).unwrap_err(), PartRefused::TooLarge { n_vectors: n });
    }
    let extreme = part(&[i64::MIN, 0, 0, 0, 0, 0], 5).unwrap_err();
    assert_eq!(extreme, PartRefused::TooLarge { n_vectors: 5 });
    let short = part(&[0; 3], 2).unwrap_err();
    assert_eq!(short, PartRefused::WrongLength { found: 3, expected: 6 });
    let mut collecting = mechanism.begin_part(round, 3).unwrap();
    collecting.receive(0, &[123.0; 3]).unwrap();
    assert_eq!(format!("{collecting:?}"), "PartCollecting { round: 0, .. }");
}
