//! Coordinates to points and back, and what a bad declaration is answered with.

use fedbo_space::{ParameterSpec, Space, SpaceError, Value};
use proptest::prelude::*;

fn spec(
    kind: &str,
    low: Option<f64>,
    high: Option<f64>,
    log: bool,
    choices: &[&str],
) -> ParameterSpec {
    ParameterSpec {
        kind: kind.into(),
        low,
        high,
        log: log.then_some(true),
        step: None,
        choices: (!choices.is_empty()).then(|| choices.iter().map(|c| Value::from(*c)).collect()),
    }
}

fn mixed() -> Space {
    let specs = [
        ("lr", spec("float", Some(1e-5), Some(1.0), true, &[])),
        ("x", spec("float", Some(-3.0), Some(7.0), false, &[])),
        ("depth", spec("int", Some(2.0), Some(9.0), false, &[])),
        ("width", spec("int", Some(1.0), Some(1024.0), true, &[])),
        (
            "flag",
            spec("categorical", None, None, false, &["off", "on"]),
        ),
        (
            "kind",
            spec("categorical", None, None, false, &["a", "b", "c"]),
        ),
    ];
    Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec))).expect("a valid space")
}

proptest! {
    /// decode ∘ encode is the identity on points, and snapping is idempotent, for any coordinates.
    #[test]
    fn points_survive_the_round_trip(unit in prop::collection::vec(-0.5_f64..1.5, 8)) {
        let space = mixed();
        let snapped = space.snap(&unit);
        prop_assert!(snapped.iter().all(|u| (0.0..=1.0).contains(u)));
        let (first, again) = (space.decode(&unit), space.decode(&snapped));
        for ((name, a), (_, b)) in first.iter().zip(again.iter()) {
            match (a, b) {
                (Value::Float(a), Value::Float(b)) => prop_assert!((a - b).abs() <= 1e-13 * (1.0 + a.abs()), "{name}: {a} and {b}"),
                _ => prop_assert_eq!(a, b),
            }
        }
    }
}

/// Every integer of a linear range gets the same share of [0,1], the two at the ends included.
#[test]
fn integers_share_the_interval_equally() {
    let space = Space::from_specs([("k", &spec("int", Some(0.0), Some(4.0), false, &[]))]).unwrap();
    let mut counts = [0_usize; 5];
    for i in 0..10_000 {
        let Some(Value::Int(k)) = space
            .decode(&[(f64::from(i) + 0.5) / 10_000.0])
            .get("k")
            .cloned()
        else {
            panic!("k is an int")
        };
        counts[usize::try_from(k).unwrap()] += 1;
    }
    assert_eq!(counts, [2000; 5]);
}

#[test]
fn coordinates_that_are_not_numbers_land_in_the_middle() {
    let space = mixed();
    assert!(
        space
            .snap(&[f64::NAN; 8])
            .iter()
            .all(|u| (0.0..=1.0).contains(u))
    );
}

#[test]
fn extreme_ranges_stay_finite_and_inside() {
    let space =
        Space::from_specs([("s", &spec("float", Some(1e-300), Some(1e300), true, &[]))]).unwrap();
    for u in [0.0, 0.3, 0.5, 1.0] {
        let v = space.decode(&[u]).get("s").and_then(Value::as_f64).unwrap();
        assert!((1e-300..=1e300).contains(&v), "{v}");
    }
}

#[test]
fn bad_declarations_name_the_parameter_the_key_and_the_way_out() {
    let cases = [
        (
            spec("float", Some(2.0), Some(1.0), false, &[]),
            "low = 2, expected a number below high = 1 (are the bounds reversed?)",
        ),
        (
            spec("float", Some(1.0), Some(1.0), false, &[]),
            "a fixed value needs no parameter",
        ),
        (
            spec("float", Some(f64::NAN), Some(1.0), false, &[]),
            "low = NaN, expected a finite number",
        ),
        (
            spec("float", Some(-1e308), Some(1e308), false, &[]),
            "64-bit float",
        ),
        (spec("float", None, Some(1.0), false, &[]), "low = nothing"),
        (spec("float", Some(0.0), Some(1.0), true, &[]), "log = true"),
        (
            spec("int", Some(0.5), Some(3.0), false, &[]),
            "whole number",
        ),
        (
            spec("categorical", None, None, false, &["a"]),
            "at least two names",
        ),
        (
            spec("categorical", None, None, false, &["a", "a"]),
            "all different",
        ),
        (
            spec("floot", Some(0.0), Some(1.0), false, &[]),
            "\"float\", \"int\" or \"categorical\"",
        ),
    ];
    for (bad, expected) in cases {
        let error = Space::from_specs([("q", &bad)]).unwrap_err().to_string();
        assert!(
            error.starts_with("space.q: ") && error.contains(expected),
            "{error}"
        );
    }
    assert_eq!(Space::from_specs([]).unwrap_err(), SpaceError::Empty);
}

/// The number of points is the product over parameters, without one for floats, and stops at the largest number.
#[test]
fn points_of_a_discrete_space_are_counted() {
    let int = |low: f64, high: f64| ParameterSpec {
        kind: "int".into(),
        low: Some(low),
        high: Some(high),
        log: None,
        step: None,
        choices: None,
    };
    let float = ParameterSpec {
        kind: "float".into(),
        ..int(0.0, 1.0)
    };
    let choice = ParameterSpec {
        kind: "categorical".into(),
        low: None,
        high: None,
        log: None,
        step: None,
        choices: Some(vec!["a".into(), "b".into(), "c".into()]),
    };
    let n_points = |specs: &[(&str, &ParameterSpec)]| {
        let space = Space::from_specs(specs.iter().copied()).unwrap();
        space.n_points()
    };
    assert_eq!(
        n_points(&[("i", &int(-2.0, 5.0)), ("c", &choice)]),
        Some(24)
    );
    assert_eq!(n_points(&[("i", &int(-2.0, 5.0)), ("x", &float)]), None);
    let widest = int(-9.0e15, 9.0e15);
    let two = [("i", &widest), ("j", &widest)];
    assert_eq!(n_points(&two[..1]), Some(18_000_000_000_000_001));
    assert_eq!(n_points(&two), Some(u64::MAX));
}
