//! Tests that with identical randomness, rounds of neighbouring rosters differ by at most K before
//! the noise, and in nothing else (INV-5, 6, 7).
#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it only in test functions, not in shared helpers"
)]

use crate::common;

use common::{Uploads, difference, mechanism, source, squared_bound, squared_norm};
use fedbo_privacy::mechanism::{Mechanism, ReleaseShape, VectorRefused};
use fedbo_testkit::test_stream;

/// The public record of a round: its sums, its responses, its size and the number of random words
/// drawn.
struct Record {
    sums: Vec<i64>,
    answers: Vec<Result<(), VectorRefused>>,
    n_bytes: usize,
    n_words: u128,
}

fn play(mechanism: &Mechanism, shape: ReleaseShape, seed: u64, uploads: &Uploads) -> Record {
    let mut source = source(seed);
    let mut collecting = mechanism.begin(seed, shape);
    let answers = uploads.iter().map(|(slot, vector)| collecting.receive(*slot, vector)).collect();
    let release = collecting.close(&mut source).unwrap().release;
    Record {
        sums: release.sums().to_vec(),
        answers,
        n_bytes: release.to_bytes().len(),
        n_words: source.n_words(),
    }
}

/// Draws coordinates of many magnitudes, including NaN.
fn vector(n: usize, stream: &mut fedbo_streams::Stream) -> Vec<f64> {
    let scale = [1e-3, 0.3, 1.0, 30.0, 1e300][stream.below(5)];
    let mut vector: Vec<f64> = stream.normals(n).iter().map(|x| x * scale).collect();
    if stream.bernoulli(0.05) {
        let place = stream.below(n);
        vector[place] = [f64::NAN, f64::INFINITY, -0.0, f64::MAX, 5e-324][stream.below(5)];
    }
    vector
}

/// Tests 10,000 pairs, in which one slot's vectors are all zero or the rosters are equal. One slot
/// might send twice, or send a vector of the wrong length.
#[test]
fn neighbours_differ_by_at_most_k_before_the_noise_and_in_nothing_else() {
    let mut stream = test_stream(1);
    let (mut n_equal, mut n_at_the_bound) = (0, 0);
    for pair in 0..10_000 {
        let n_slots = u32::try_from(1 + stream.below(12)).unwrap();
        let n_regions = u32::try_from(1 + stream.below(5)).unwrap();
        let n_features = u32::try_from(1 + stream.below(24)).unwrap();
        let q = [1.0, 0.6, 0.25][stream.below(3)];
        let mechanism = mechanism(n_slots, n_regions, n_features, q, 1.0);
        let shape = [ReleaseShape::Regions, ReleaseShape::Total][stream.below(2)];
        let victim = u32::try_from(stream.below(n_slots as usize)).unwrap();
        let mut uploads: Vec<(u32, Vec<f64>)> = (0..n_slots + 2)
            .map(|slot| (slot % (n_slots + 1), vector(n_features as usize, &mut stream)))
            .collect();
        uploads.push((victim, vector(n_features as usize, &mut stream)));
        uploads.push((victim, vector(n_features as usize + 1, &mut stream)));
        stream.shuffle(&mut uploads);
        let mut neighbour = uploads.clone();
        for (_, vector) in neighbour.iter_mut().filter(|(slot, _)| *slot == victim) {
            vector.fill(0.0);
        }
        let (record, other) =
            (play(&mechanism, shape, pair, &uploads), play(&mechanism, shape, pair, &neighbour));
        let moved = squared_norm(&difference(&record.sums, &other.sums));
        assert!(moved <= squared_bound(&mechanism), "pair {pair}: {moved}");
        assert_eq!(record.answers, other.answers, "pair {pair}");
        assert_eq!(record.n_bytes, other.n_bytes, "pair {pair}");
        assert_eq!(record.n_words, other.n_words, "pair {pair}");
        let refused = record.answers.iter().filter(|answer| answer.is_err()).count();
        assert!(refused >= 3, "pair {pair}: {refused} refused");
        n_equal += usize::from(moved == 0);
        n_at_the_bound += usize::from(moved * 1_000_000 > squared_bound(&mechanism) * 999_990);
    }
    // Control: a bound that is never reached would also hold for a mechanism that adds nothing.
    assert!(n_at_the_bound > 1_000 && n_equal > 1_000, "{n_at_the_bound}, {n_equal}");
}

/// Sending nothing is equivalent to sending zeros for all other slots.
#[test]
fn a_slot_that_sends_nothing_counts_as_zero() {
    let mechanism = mechanism(5, 2, 8, 1.0, 1.0);
    let mut stream = test_stream(2);
    let uploads: Vec<(u32, Vec<f64>)> = (0..5).map(|slot| (slot, stream.normals(8))).collect();
    let mut zeroed = uploads.clone();
    zeroed[3].1.fill(0.0);
    let missing: Vec<(u32, Vec<f64>)> = uploads.iter().filter(|(s, _)| *s != 3).cloned().collect();
    for shape in [ReleaseShape::Regions, ReleaseShape::Total] {
        let play = |uploads| play(&mechanism, shape, 0, uploads);
        assert_eq!(play(&zeroed).sums, play(&missing).sums);
        assert_ne!(play(&uploads).sums, play(&missing).sums);
    }
}

/// The first valid vector counts, and every later one gets the same response (INV-6).
#[test]
fn only_the_first_valid_vector_of_a_slot_counts() {
    let mechanism = mechanism(3, 1, 4, 1.0, 1.0);
    let first = (1, vec![0.5, -0.25, 0.0, 1.0]);
    let alone = play(&mechanism, ReleaseShape::Regions, 9, std::slice::from_ref(&first));
    let uploads = [
        (1, vec![1.0]),
        (1, vec![]),
        first.clone(),
        first,
        (1, vec![9.0; 4]),
        (1, vec![f64::NAN; 4]),
    ];
    let record = play(&mechanism, ReleaseShape::Regions, 9, &uploads);
    assert_eq!(record.sums, alone.sums);
    assert_eq!(record.answers[2], Ok(()));
    for answer in &record.answers[3..] {
        assert_eq!(*answer, Err(VectorRefused::Repeated { slot: 1 }));
    }
    for answer in &record.answers[..2] {
        assert!(matches!(answer, Err(VectorRefused::WrongLength { slot: 1, expected: 4, .. })));
    }
}
