//! Tests that every round has a release of the same shape, size, cost and noise, regardless of
//! participation (INV-3, INV-4).
#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it only in test functions, not in shared helpers"
)]

use crate::common;

use common::{float, mechanism, pre_noise, release, signed, source};
use fedbo_privacy::mechanism::{Mechanism, ReleaseShape};
use fedbo_testkit::statistics::check_chi_squared;

const SHAPES: [ReleaseShape; 2] = [ReleaseShape::Regions, ReleaseShape::Total];

/// Rounds without vectors, with all vectors and with an empty sample have the same form; only the
/// numbers differ.
#[test]
fn a_round_without_anybody_releases_like_any_other() {
    for shape in SHAPES {
        let size = |q, uploads: &common::Uploads| {
            let mechanism = mechanism(6, 4, 9, q, 1.0);
            let closed = {
                let mut collecting = mechanism.begin(4, shape);
                for (slot, vector) in uploads {
                    collecting.receive(*slot, vector).unwrap();
                }
                collecting.close(&mut source(1)).unwrap()
            };
            assert_eq!(closed.event, mechanism.event());
            assert_eq!((closed.release.round(), closed.release.shape()), (4, shape));
            let bytes = closed.release.to_bytes().len();
            assert_eq!(bytes as u64, mechanism.release_size(shape));
            bytes
        };
        let everybody: Vec<(u32, Vec<f64>)> = (0..6).map(|slot| (slot, vec![1.0; 9])).collect();
        let sizes = [
            size(1.0, &[]),
            size(1.0, &everybody),
            size(2_f64.powi(-32), &everybody),
            size(2_f64.powi(-32), &[]),
        ];
        assert!(sizes.windows(2).all(|pair| pair[0] == pair[1]), "{sizes:?}");
    }
}

/// With more regions than slots, some regions are empty: their sums are noise with the same
/// distribution.
#[test]
fn empty_regions_release_noise() {
    let mechanism = mechanism(2, 5, 400, 1.0, 1.5);
    let uploads = [(0, vec![0.9; 400]), (1, vec![-0.9; 400])];
    let beneath = pre_noise(&mechanism, 0, ReleaseShape::Regions, 3, &uploads);
    let touched = |region: usize| beneath[400 * region..400 * (region + 1)].iter().any(|k| *k != 0);
    assert_eq!([0, 1, 2, 3, 4].map(touched), [true, true, false, false, false]);
    let release = release(&mechanism, 0, ReleaseShape::Regions, &mut source(3), &uploads);
    for region in [2, 3, 4] {
        let sum = &release.sums()[400 * region..400 * (region + 1)];
        check_noise(&mechanism, sum);
    }
}

fn check_noise(mechanism: &Mechanism, sums: &[i64]) {
    let variance = (1.5 * float(mechanism.lattice().bound())).powi(2);
    let statistic = sums.iter().map(|k| signed(*k).powi(2) / variance).sum();
    check_chi_squared(statistic, float(sums.len() as u64), 1e-6).unwrap();
}

/// The noise of a round does not depend on participation, because it is drawn first and never
/// scaled. The sum is not divided by the number of vectors either: with q = 1, the sum of n equal
/// vectors is n times one vector.
#[test]
fn neither_noise_nor_sums_depend_on_how_many_came() {
    let mechanism = mechanism(40, 1, 20, 1.0, 1.5);
    let one = pre_noise(&mechanism, 2, ReleaseShape::Total, 8, &[(0, vec![0.25; 20])]);
    assert!(one.iter().all(|k| *k == one[0] && *k != 0));
    for n in [2, 7, 40] {
        let uploads: Vec<(u32, Vec<f64>)> = (0..n).map(|slot| (slot, vec![0.25; 20])).collect();
        let all = pre_noise(&mechanism, 2, ReleaseShape::Total, 8, &uploads);
        assert!(all.iter().zip(&one).all(|(all, one)| *all == i64::from(n) * one));
    }
    let n_one = common::mechanism(1, 1, 20, 1.0, 1.5);
    let alone = release(&n_one, 2, ReleaseShape::Total, &mut source(8), &[]);
    let among = release(&mechanism, 2, ReleaseShape::Total, &mut source(8), &[]);
    assert_eq!(alone.sums(), among.sums(), "the noise depends on the size of the roster");
}

/// Checks the distribution of the noise over many rounds with an empty sample. With N = 1 and
/// q = 1/2, these are half of all rounds.
#[test]
fn the_noise_of_an_empty_sample_is_the_noise_of_any_round() {
    let mechanism = mechanism(1, 1, 4, 0.5, 1.5);
    let mut of_sample = [Vec::new(), Vec::new()];
    for round in 0..4_000 {
        let uploads = [(0, vec![0.5, 0.0, 0.0, 0.0])];
        let beneath = pre_noise(&mechanism, round, ReleaseShape::Regions, 11, &uploads);
        let full = release(&mechanism, round, ReleaseShape::Regions, &mut source(11), &uploads);
        of_sample[usize::from(beneath[0] != 0)].extend(common::difference(full.sums(), &beneath));
    }
    for noise in &of_sample {
        assert!(noise.len() > 4 * 1_800);
        check_noise(&mechanism, noise);
    }
}

/// The cost of a release depends only on the settings, not on the shape, the round or
/// participation.
#[test]
fn every_release_costs_the_same() {
    let mechanism = mechanism(3, 2, 4, 0.25, 1.0);
    for (round, shape) in (0..).zip(SHAPES) {
        let closed = mechanism.begin(round, shape).close(&mut source(1));
        assert_eq!(closed.unwrap().event, mechanism.event());
    }
}
