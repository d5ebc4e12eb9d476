//! Properties of every function in the suite, and a few of its values.

use std::collections::BTreeMap;

use super::*;

fn entry(name: &str) -> SuiteEntry {
    suite().into_iter().find(|entry| entry.name() == name).unwrap()
}

fn test_stream(index: u64) -> Stream {
    Seed::new(11).stream(Purpose::TEST, index, 0)
}

fn random_point(function: &SuiteFunction, stream: &mut Stream) -> Point {
    let unit: Vec<f64> = (0..function.space.dim()).map(|_| stream.uniform()).collect();
    function.space.decode(&unit)
}

fn gap(function: &SuiteFunction, point: &Point) -> f64 {
    function.gap(point).unwrap()
}

/// The gap at the minimizer is rounding error. Functions with a slope at their minimum have 1e-9 of
/// a typical gap.
#[test]
fn the_minimum_is_taken_at_the_minimiser() {
    for entry in [suite(), suite_high()].concat() {
        for seed in [0, 7] {
            let function = entry.instance(seed);
            let found = gap(&function, &function.minimiser());
            assert!(found.abs() < 1e-9, "{entry:?}, seed {seed}: {found:e}");
            let value = function.noiseless(&function.minimiser()).unwrap();
            assert!((value - function.optimum().unwrap()).abs() < 1e-9);
        }
    }
}

/// Neither 4,000 random points, nor 4,000 shrinking steps around the best of them and around the
/// minimizer, go below the minimum. The minima of GP draws come from a search, all others from the
/// formula.
#[test]
fn no_value_lies_below_the_minimum() {
    for (index, entry) in (0..).zip([suite(), suite_high()].concat()) {
        let function = entry.instance(3);
        let stream = &mut test_stream(index);
        let lowest = -1e-9;
        let mut best = (f64::INFINITY, vec![0.0; function.space.dim()]);
        for _ in 0..4_000 {
            let unit: Vec<f64> = (0..function.space.dim()).map(|_| stream.uniform()).collect();
            let found = gap(&function, &function.space.decode(&unit));
            assert!(found >= lowest, "{entry:?}: {found:e}");
            if found < best.0 {
                best = (found, unit);
            }
        }
        let minimiser = function.space.encode(&function.minimiser()).unwrap();
        for start in [best.1, minimiser] {
            let mut at = (gap(&function, &function.space.decode(&start)), start);
            for step in 0..4_000 {
                let size = 0.3 * 10_f64.powf(-f64::from(step) / 500.0);
                let unit: Vec<f64> =
                    at.1.iter().map(|u| (u + size * stream.normal()).clamp(0.0, 1.0)).collect();
                let found = gap(&function, &function.space.decode(&unit));
                assert!(found >= lowest, "{entry:?}: {found:e}");
                if found < at.0 {
                    at = (found, unit);
                }
            }
        }
    }
}

/// The two tests above would detect a minimum that is off by a hundredth of the box: all functions
/// except the stepped ones rise from their minimum in some direction, and none stays below 1e-9.
#[test]
fn functions_rise_from_their_minimum() {
    for (index, entry) in (0..).zip(suite()) {
        let function = entry.instance(3);
        let minimiser = function.space.encode(&function.minimiser()).unwrap();
        let stream = &mut test_stream(index);
        let mut highest: f64 = 0.0;
        for _ in 0..50 {
            let unit: Vec<f64> =
                minimiser.iter().map(|u| (u + 0.02 * stream.normal()).clamp(0.0, 1.0)).collect();
            highest = highest.max(gap(&function, &function.space.decode(&unit)));
        }
        let whole = entry.name().starts_with("integer-rastrigin");
        assert!(whole || highest > 1e-9, "{entry:?}: {highest:e}");
    }
}

#[test]
fn minima_lie_inside_the_box_and_move_with_the_seed() {
    for entry in suite() {
        let [one, other] = [1, 2].map(|seed| entry.instance(seed));
        let encoded = |function: &SuiteFunction| function.space.encode(&function.minimiser());
        assert_ne!(encoded(&one).unwrap(), encoded(&other).unwrap(), "{entry:?}");
        assert!(one.space.normalize(&one.minimiser()).is_ok());
        let is_drawn = matches!(entry.shape.form, Form::GpSample(_)); // may be on a face
        for function in [&one, &other] {
            let inside = |x: &f64| x.abs() <= OPTIMUM_MAX + 1e-12;
            let level = &function.levels[function.best_choice];
            assert!(is_drawn || level.landscape.optimum().iter().all(inside), "{entry:?}");
        }
    }
}

#[test]
fn equal_seeds_give_equal_functions_and_others_do_not() {
    for (index, entry) in (0..).zip(suite()) {
        let [one, again, other] = [5, 5, 6].map(|seed| entry.instance(seed));
        let stream = &mut test_stream(index);
        let mut differs = false;
        for trial in 0..20 {
            let point = random_point(&one, stream);
            let id = TrialId { agent: 0, trial };
            let [a, b] = [&one, &again].map(|function| match function.evaluate(&point, id) {
                Outcome::Value(value) => value,
                other => panic!("{entry:?}: {other:?}"),
            });
            assert_eq!(a.to_bits(), b.to_bits(), "{entry:?}");
            differs |= other.gap(&point).is_ok_and(|found| (found - gap(&one, &point)).abs() > 0.0);
        }
        let moved = one.space != other.space; // integers start at another number
        assert!(differs || moved, "{entry:?}");
    }
}

/// The median of the gap over the box is 1, within the accuracy of 2,001 points, for all functions
/// without integers or an offset from a category's choice.
#[test]
fn a_typical_gap_is_one() {
    for (index, entry) in (0..).zip(suite()) {
        let function = entry.instance(9);
        let stream = &mut test_stream(index);
        let mut gaps: Vec<f64> =
            (0..2_001).map(|_| gap(&function, &random_point(&function, stream))).collect();
        gaps.sort_by(f64::total_cmp);
        // Quantiles of the median's own distribution, at five standard errors (5/2/√n) of both
        // samples.
        let (low, high) = (gaps[850], gaps[1150]);
        let expected = match entry.family() {
            SuiteFamily::Mixed => 0.5..2.5,
            _ => 1.0..1.0 + 1e-9,
        };
        assert!(low <= expected.end && high >= expected.start, "{entry:?}: {low} to {high}");
    }
}

#[test]
fn halves_are_balanced_over_families_and_dimensions() {
    let mut counts: BTreeMap<(SuiteFamily, usize), [usize; 2]> = BTreeMap::new();
    let mut names = Vec::new();
    for entry in suite() {
        let count = counts.entry((entry.family(), entry.dim())).or_default();
        count[usize::from(entry.half() == SuiteHalf::Reporting)] += 1;
        assert!(!names.contains(&entry.name()), "{entry:?} twice");
        names.push(entry.name());
    }
    assert_eq!(names.len(), 116);
    assert_eq!(counts.len(), 11 * 4 + 3);
    for (group, [choosing, reporting]) in counts {
        assert_eq!(choosing, reporting, "{group:?}");
        assert!(choosing > 0, "{group:?}");
    }
    let half = |name| entry(name).half();
    assert_eq!((half("sphere-2d"), half("sphere-3d")), (SuiteHalf::Choosing, SuiteHalf::Reporting));
}

/// In the family with irrelevant inputs, exactly the declared number of coordinates has an effect.
#[test]
fn irrelevant_inputs_have_no_effect() {
    for entry in suite().iter().filter(|entry| entry.family() == SuiteFamily::Irrelevant) {
        let function = entry.instance(2);
        let stream = &mut test_stream(0);
        let mut matters = vec![false; entry.dim()];
        for _ in 0..50 {
            let unit: Vec<f64> = (0..entry.dim()).map(|_| stream.uniform()).collect();
            let before = gap(&function, &function.space.decode(&unit));
            for (coordinate, matters) in matters.iter_mut().enumerate() {
                let mut moved = unit.clone();
                moved[coordinate] = stream.uniform();
                let after = gap(&function, &function.space.decode(&moved));
                *matters |= (after - before).abs() > 0.0;
            }
        }
        let expected = match entry.dim() {
            2 => 1,
            10 => 3,
            _ => 2,
        };
        assert_eq!(matters.iter().filter(|each| **each).count(), expected, "{entry:?}");
    }
}

/// Over 4,000 trials at one point, additive noise and the logarithm of proportional noise have
/// their stated standard deviations. The tolerance is five standard errors, each 1/√(2n) of a
/// standard deviation. Other functions always return the same value.
#[test]
fn noise_has_its_size_and_follows_its_seed() {
    for entry in suite() {
        let function = entry.instance(4);
        let point = random_point(&function, &mut test_stream(1));
        let (optimum, gap) = (function.optimum().unwrap(), gap(&function, &point));
        let values = |function: &dyn Problem| -> Vec<f64> {
            (0..4_000)
                .map(|trial| match function.evaluate(&point, TrialId { agent: 0, trial }) {
                    Outcome::Value(value) => value - optimum,
                    other => panic!("{entry:?}: {other:?}"),
                })
                .collect()
        };
        let seen = values(&function);
        let other = function.with_noise_from(Seed::new(99));
        assert_eq!(other.is_some(), entry.is_noisy());
        let (errors, std): (Vec<f64>, f64) = match entry.shape.noise {
            Noise::None => {
                assert!(seen.iter().all(|value| (value - gap).abs() < 1e-12 * (1.0 + gap)));
                continue;
            }
            Noise::Additive(std) => (seen.iter().map(|value| value - gap).collect(), std),
            Noise::Proportional(std) => {
                (seen.iter().map(|value| (value / gap).ln()).collect(), std)
            }
        };
        let square = errors.iter().map(|e| e * e).sum::<f64>() / 4_000.0;
        let expected = 5.0 / (2.0 * 4_000.0_f64).sqrt();
        assert!((square.sqrt() / std - 1.0).abs() < expected, "{entry:?}: {}", square.sqrt());
        assert_ne!(values(&*other.unwrap()), seen, "{entry:?}");
    }
}

#[test]
fn a_point_of_another_space_is_a_failure() {
    let function = entry("mixed-valley-5d").instance(0);
    let point = entry("sphere-5d").instance(0).minimiser();
    assert!(function.gap(&point).is_err());
    let outcome = function.evaluate(&point, TrialId { agent: 0, trial: 0 });
    assert!(matches!(outcome, Outcome::Failed(_)));
    assert_eq!(function.noiseless(&point), None);
}

/// Computes formulas by hand, with the minimum at 0 and no rotation: values minus those at the
/// minimum, without the unit.
#[test]
fn formulas_are_the_published_ones() {
    let ratio = |name: &str, a: &[f64], b: &[f64]| {
        let function = entry(name).instance(1);
        let minimiser = function.levels[0].landscape.optimum().to_vec();
        let at = |offset: &[f64]| {
            let x: Vec<f64> = minimiser.iter().zip(offset).map(|(m, o)| m + o).collect();
            function.levels[0].landscape.value(&x)
        };
        at(a) / at(b)
    };
    let check = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    };
    // The sphere has the values 1 + 4 + 4 and 1.
    check(ratio("sphere-3d", &[1.0, 2.0, -2.0], &[1.0, 0.0, 0.0]), 9.0);
    // Rosenbrock's valley at z = (0, 0, 0): 2; at z = (1, 1, 2): 100; at z = (2, 1, 1):
    // 100 · 9 + 1.
    check(ratio("valley-3d", &[-1.0, -1.0, -1.0], &[0.0, 0.0, 1.0]), 0.02);
    check(ratio("valley-3d", &[1.0, 0.0, 0.0], &[0.0, 0.0, 1.0]), 9.01);
    // Along a ray, the sharp ridge is z_1² + 100 |rest|: a quadratic part and a linear part, so f(2v) is between 2 and 4 times f(v).
    let ridge = ratio("sharp-ridge-2d", &[0.2, 0.1], &[0.1, 0.05]);
    assert!(ridge > 2.0 && ridge < 4.0, "{ridge}");
}

/// A quadratic form with condition number α has values on a sphere around its minimum that differ
/// by a factor of up to α, within the amplitude of the oscillation.
#[test]
fn condition_numbers_are_within_their_range() {
    for (name, exponents) in [("ellipsoid-2d", [1.0, 3.0]), ("ill-ellipsoid-2d", [4.0, 6.0])] {
        for seed in 0..5 {
            let function = entry(name).instance(seed);
            let landscape = &function.levels[0].landscape;
            let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
            for step in 0..100_000 {
                let angle = std::f64::consts::TAU * f64::from(step) / 100_000.0;
                let at = [angle.cos(), angle.sin()];
                let x: Vec<f64> = at.iter().zip(landscape.optimum()).map(|(a, o)| a + o).collect();
                let value = landscape.value(&x);
                (low, high) = (low.min(value), high.max(value));
            }
            let exponent = (high / low).log10();
            assert!(
                exponent > exponents[0] - 0.2 && exponent < exponents[1] + 0.2,
                "{name}, seed {seed}: 10^{exponent}"
            );
        }
    }
}

/// Between the gap at a hundredth of the box from the minimum and the highest of 2,000 values, wide
/// shapes span more decades than plain ones, by about their stated number.
#[test]
fn wide_outputs_span_their_decades() {
    let span = |name: &str, decades: f64| {
        let mut function = entry(name).instance(1);
        let shape =
            Shape { decades, ..plain("", function.entry.family(), function.entry.shape.form) };
        function.entry.shape = Box::leak(Box::new(shape));
        let stream = &mut test_stream(3);
        let minimiser = function.space.encode(&function.minimiser()).unwrap();
        let near: Vec<f64> = minimiser.iter().map(|u| u + 0.01 * (0.5 - u).signum()).collect();
        let values = (0..2_000).map(|_| gap(&function, &random_point(&function, stream)));
        (values.fold(0.0, f64::max) / gap(&function, &function.space.decode(&near))).log10()
    };
    for (name, decades) in [("wide-sphere-5d", 3.0), ("wide-ellipsoid-5d", 5.0)] {
        let entry = entry(name);
        assert!((entry.shape.decades - decades).abs() < 1e-12);
        let (plain, wide) = (span(name, 0.0), span(name, decades));
        assert!(
            wide > plain + 0.8 * decades && wide < plain + 1.5 * decades,
            "{name}: {plain} {wide}"
        );
    }
}

/// Values of a few functions at the first corner and the centre of the box, to detect changes of a
/// formula, a stream or a label.
#[test]
fn values_stay_what_they_are() {
    for (name, expected) in GOLDEN {
        let function = entry(name).instance(1);
        for (unit, expected) in [0.0, 0.5].into_iter().zip(expected) {
            let point = function.space.decode(&vec![unit; function.space.dim()]);
            let found = gap(&function, &point);
            assert!((found / expected - 1.0).abs() < 1e-9, "{name} at {unit}: {found:?}");
        }
    }
}
const GOLDEN: [(&str, [f64; 2]); 6] = [
    ("sphere-2d", [2.418_584_645_765_816, 0.251_442_945_912_811_3]),
    ("ill-ellipsoid-10d", [4.469_600_293_540_212, 0.184_477_488_931_772_46]),
    ("peaks-3d", [1.087_482_610_907_153_8, 0.244_625_206_995_371_5]),
    ("gp-rough-5d", [0.963_400_098_723_076_4, 1.193_664_749_454_843_6]),
    ("wide-ellipsoid-5d", [1_290.642_885_928_948_5, 0.042_887_107_795_729_046]),
    ("mixed-valley-5d", [4.976_778_744_264_159, 0.624_004_912_074_536]),
];
