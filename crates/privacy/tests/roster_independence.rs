//! Tests that a slot's data changes only the slot's own sum, by its own clipped vector (INV-11).

use crate::common;

use common::{difference, mechanism, pre_noise, release, source};
use fedbo_privacy::mechanism::{Mechanism, ReleaseShape};
use fedbo_testkit::test_stream;

const N_SLOTS: u32 = 11;
const N_REGIONS: u32 = 4;
const N_FEATURES: u32 = 16;

fn uploads(seed: u64) -> Vec<(u32, Vec<f64>)> {
    let mut stream = test_stream(seed);
    (0..N_SLOTS).map(|slot| (slot, stream.normals(N_FEATURES as usize))).collect()
}

fn with_rate(q: f64) -> Mechanism {
    mechanism(N_SLOTS, N_REGIONS, N_FEATURES, q, 1.0)
}

/// With the same seed, the round without a slot has the same bytes except for that slot's sum, from
/// which exactly the slot's contribution in a round without other slots is missing. Coins, noise,
/// regions and other sums therefore do not depend on participation.
#[test]
fn removing_a_slot_changes_no_other_byte() {
    let uploads = uploads(1);
    let m = N_FEATURES as usize;
    for q in [1.0, 0.5] {
        let mechanism = with_rate(q);
        for shape in [ReleaseShape::Regions, ReleaseShape::Total] {
            for seed in 0..20 {
                let with = release(&mechanism, 6, shape, &mut source(seed), &uploads);
                for slot in 0..N_SLOTS {
                    let (own, rest): (Vec<_>, Vec<_>) =
                        uploads.iter().cloned().partition(|(s, _)| *s == slot);
                    let without = release(&mechanism, 6, shape, &mut source(seed), &rest);
                    let alone = pre_noise(&mechanism, 6, shape, seed, &own);
                    assert_eq!(difference(with.sums(), without.sums()), alone);

                    let region = match shape {
                        ReleaseShape::Regions => slot % N_REGIONS,
                        ReleaseShape::Total => 0,
                    } as usize;
                    let (a, b) = (with.to_bytes(), without.to_bytes());
                    let first = a.len() - 8 * with.sums().len() + 8 * m * region;
                    let own_bytes = first..first + 8 * m;
                    let elsewhere = |bytes: &[u8]| {
                        [&bytes[..own_bytes.start], &bytes[own_bytes.end..]].concat()
                    };
                    assert_eq!(elsewhere(&a), elsewhere(&b));
                }
            }
        }
    }
}

/// The region of a slot is the slot's number modulo P, independently of the other slots.
#[test]
fn a_region_follows_from_the_slot_alone() {
    let mechanism = with_rate(1.0);
    for slot in 0..N_SLOTS {
        assert_eq!(mechanism.region_of(slot), slot % N_REGIONS);
        let alone = [(slot, vec![0.5; N_FEATURES as usize])];
        let beneath = pre_noise(&mechanism, 0, ReleaseShape::Regions, 2, &alone);
        for (region, sum) in (0..).zip(beneath.chunks_exact(N_FEATURES as usize)) {
            assert_eq!(sum.iter().any(|k| *k != 0), region == slot % N_REGIONS);
        }
    }
}

/// Vectors can arrive in any order.
#[test]
fn the_order_of_arrival_does_not_matter() {
    let mechanism = with_rate(0.5);
    let mut uploads = uploads(3);
    let sums = |uploads: &common::Uploads| {
        release(&mechanism, 1, ReleaseShape::Regions, &mut source(4), uploads).to_bytes()
    };
    let first = sums(&uploads);
    let mut stream = test_stream(4);
    for _ in 0..20 {
        stream.shuffle(&mut uploads);
        assert_eq!(sums(&uploads), first);
    }
}

/// The total is the sum of the regions, because the coins do not depend on the shape.
#[test]
fn the_total_is_the_sum_of_the_regions() {
    let (mechanism, uploads) = (with_rate(0.5), uploads(5));
    for round in 0..10 {
        let regions = pre_noise(&mechanism, round, ReleaseShape::Regions, 6, &uploads);
        let total = pre_noise(&mechanism, round, ReleaseShape::Total, 6, &uploads);
        for (place, total) in total.iter().enumerate() {
            let column = regions.iter().skip(place).step_by(N_FEATURES as usize);
            assert_eq!(column.sum::<i64>(), *total);
        }
    }
}

/// Runs rounds with all, some and no vectors. A different test reads the output of this process.
#[test]
#[ignore = "started by another test"]
fn rounds_of_all_sizes() {
    for n in [0, 5, 11] {
        let mut collecting = with_rate(0.5).begin(3, ReleaseShape::Regions);
        for (slot, vector) in uploads(7).iter().take(n) {
            collecting.receive(*slot, vector).unwrap();
        }
        let closed = collecting.close(&mut source(9)).unwrap();
        assert_eq!(closed.release.round(), 3);
    }
}

/// A round prints nothing, so it reveals nothing about the number of vectors (INV-4).
#[test]
fn a_round_prints_nothing() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "roster_independence::rounds_of_all_sizes", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stdout));
    assert_eq!(text(&output.stderr), "");
    let shown = text(&output.stdout);
    let lines: Vec<&str> = shown.lines().filter(|line| !line.is_empty()).collect();
    // These lines come from the test harness.
    let [begun, passed, ended] = lines[..] else { panic!("{shown}") };
    assert_eq!(begun, "running 1 test");
    assert_eq!(passed, "test roster_independence::rounds_of_all_sizes ... ok");
    assert!(ended.starts_with("test result: ok. 1 passed;"), "{ended}");
}

/// The debug output of a running round, and of a release, reveals nothing about participation or
/// vectors (INV-4).
#[test]
fn debug_prints_no_coordinates_coins_or_counts() {
    let mechanism = with_rate(0.5);
    let mut printed = Vec::new();
    for n in [0, 5, 11] {
        let mut collecting = mechanism.begin(3, ReleaseShape::Regions);
        for (slot, vector) in uploads(7).iter().take(n) {
            collecting.receive(*slot, vector).unwrap();
        }
        let before = format!("{collecting:?} {collecting:#?}");
        let closed = collecting.close(&mut source(9)).unwrap();
        printed.push(format!("{before} {:?} {:#?}", closed.release, closed));
        let sums = closed.release.sums();
        assert!(sums.iter().all(|sum| !printed[0].contains(&sum.to_string())));
    }
    assert!(printed.iter().all(|text| *text == printed[0]));
}
