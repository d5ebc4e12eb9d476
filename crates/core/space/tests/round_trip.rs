//! Conversion of coordinates to points and back, and the errors for invalid declarations.

use fedbo_space::{Parameter, ParameterSpec, Point, Space, SpaceError, Value, WhenSpec};
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
        values: None,
        ordered: None,
        choices: (!choices.is_empty()).then(|| choices.iter().map(|c| Value::from(*c)).collect()),
        when: WhenSpec::new(),
    }
}

fn mixed() -> Space {
    let specs = [
        ("lr", spec("float", Some(1e-5), Some(1.0), true, &[])),
        ("x", spec("float", Some(-3.0), Some(7.0), false, &[])),
        ("depth", spec("int", Some(2.0), Some(9.0), false, &[])),
        ("width", spec("int", Some(1.0), Some(1024.0), true, &[])),
        ("flag", spec("categorical", None, None, false, &["off", "on"])),
        ("kind", spec("categorical", None, None, false, &["a", "b", "c"])),
        ("drop", ParameterSpec::float(0.0, 0.5).with_step(0.05)),
        ("units", ParameterSpec::int(8, 64).with_step(8.0)),
        ("size", ParameterSpec::categorical(varied())),
        ("batch", ParameterSpec::int_values([128, 16, 32]).with_log()),
        ("dose", ParameterSpec::float_values([0.1, 0.25, -3.0, 90.0])),
        ("spin", ParameterSpec::ordered(["slow", "medium", "fast"])),
        ("fixed", ParameterSpec::float(25.0, 25.0)),
        ("only", ParameterSpec::categorical(["adam"])),
    ];
    Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec))).expect("a valid space")
}

/// Number of coordinates of [`mixed`].
const DIM: usize = 17;

/// Returns choices of every type.
fn varied() -> [Value; 4] {
    [16.into(), 0.5.into(), true.into(), "auto".into()]
}

proptest! {
    /// decode ∘ encode is the identity on points, and snapping is idempotent, for any coordinates.
    #[test]
    fn points_survive_the_round_trip(unit in prop::collection::vec(-0.5_f64..1.5, DIM)) {
        let space = mixed();
        let drawn = space.draw(&unit);
        prop_assert_eq!(space.snap(&drawn), drawn);
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

    /// A point survives a round trip through JSON, and each of its values survives a round trip
    /// through a string.
    #[test]
    fn points_survive_their_texts(unit in prop::collection::vec(0.0_f64..=1.0, DIM)) {
        let space = mixed();
        let point = space.decode(&unit);
        let json = serde_json::to_string(&point).expect("plain data");
        let read: Point = serde_json::from_str(&json).expect("a point");
        prop_assert_eq!(&read, &point);
        prop_assert_eq!(space.normalize(&read), Ok(point.clone()));
        for (parameter, (_, value)) in space.parameters().iter().zip(point.iter()) {
            prop_assert_eq!(parameter.parse(&value.to_string()), Ok(value.clone()));
        }
    }

    /// For any grid of decimals, each value is the decimal as a user would write it, and its
    /// coordinate decodes to the same value. A sum with rounding errors in the last digits still
    /// denotes the value.
    #[test]
    fn values_a_step_apart_are_decimals_and_survive_the_round_trip(
        first in -1_000_i32..1_000, stride in 1_i32..200, n in 2_u32..60, decimals in 0_usize..9, at in 0.0_f64..1.0
    ) {
        let decimal = |units: i64| -> f64 { format!("{units}e-{decimals}").parse().expect("a number") };
        let index = (at * f64::from(n)).floor();
        let of = |k: i64| decimal(i64::from(first) + k * i64::from(stride));
        let spec = ParameterSpec::float(of(0), of(i64::from(n) - 1)).with_step(decimal(stride.into()));
        let space = Space::from_specs([("x", &spec)]).expect("a grid");
        prop_assert_eq!(space.n_points(), Some(u64::from(n)));
        let kind = space.parameters()[0].kind();
        let values: Vec<Value> = kind.values().expect("finitely many").collect();
        for (k, value) in (0_i64..).zip(&values) {
            prop_assert_eq!(value, &Value::Float(of(k)));
            let digits = value.to_string();
            let digits = digits.split('e').next().and_then(|text| text.split_once('.')).map_or(0, |(_, rest)| rest.len());
            prop_assert!(digits <= decimals.max(1) + 4, "{}", value);
            let unit = space.encode(&Point::new(vec![("x".into(), value.clone())])).expect("a value");
            let decoded = space.decode(&unit);
            prop_assert_eq!(decoded.get("x"), Some(value));
        }
        let drawn = space.decode(&[(index + 0.5) / f64::from(n)]);
        let k = drawn.get("x").and_then(|value| kind.index_of(value));
        prop_assert_eq!(k.map(|k| k as f64), Some(index));
        let dusty = Value::Float(of(0) + index * decimal(stride.into()));
        let meant = space.normalize(&Point::new(vec![("x".into(), dusty)])).expect("dust is no other value");
        prop_assert_eq!(meant, drawn);
    }
}

/// Other code reads a range only through these methods: a range without numbers has choices, and a
/// declaration survives the round trip.
#[test]
fn a_range_has_numbers_or_choices_and_gives_its_declaration_back() {
    for parameter in mixed().parameters() {
        let kind = parameter.kind();
        assert_eq!(kind.numbers().is_none(), !kind.choices().is_empty(), "{kind}");
        let again = Parameter::from_spec(parameter.name(), &parameter.to_spec()).expect("a range");
        assert!(&again == parameter && kind.has_same_values(again.kind()), "{kind}");
        for value in kind.values().into_iter().flatten().take(20) {
            let index = kind.index_of(&value).expect("one of its values");
            assert_eq!(kind.value(index), Some(value));
        }
    }
}

/// Choices as written in `study.toml`.
#[test]
fn choices_keep_their_types_and_are_found_by_their_texts() {
    let space = Space::from_specs([("size", &ParameterSpec::categorical(varied()))]).unwrap();
    let parameter = &space.parameters()[0];
    for (text, value) in [
        ("16", Value::Int(16)),
        (" 16.0 ", Value::Int(16)),
        ("0.5", Value::Float(0.5)),
        ("5e-1", Value::Float(0.5)),
        ("true", Value::Bool(true)),
        ("True", Value::Bool(true)),
        ("auto", Value::Choice("auto".into())),
    ] {
        assert_eq!(parameter.parse(text), Ok(value), "{text}");
    }
    let refused = parameter.parse("17").unwrap_err().to_string();
    assert_eq!(refused, "parameter size = 17, expected one of 16, 0.5, true, auto");
    let given = |value: Value| space.normalize(&Point::new(vec![("size".into(), value)]));
    assert_eq!(given(16.0.into()).unwrap().get("size"), Some(&Value::Int(16)));
    let refused = given("16".into()).unwrap_err().to_string();
    assert_eq!(
        refused,
        "parameter size = the text \"16\", expected one of the number 16, the number 0.5, the boolean true, the text \"auto\""
    );
    let point = space.decode(&[0.0, 0.0, 1.0, 0.0]);
    assert!(point.flag("size"));
    assert_eq!(serde_json::to_string(&point).unwrap(), "{\"size\":true}");
    let point = space.decode(&[1.0, 0.0, 0.0, 0.0]);
    assert!((point.number("size") - 16.0).abs() < 1e-12);
    assert_eq!(serde_json::to_string(&point).unwrap(), "{\"size\":16}");
}

/// A stored definition with only string choices keeps its serialized form, byte for byte.
#[test]
fn declarations_without_the_new_forms_keep_their_text() {
    let text = "{\"type\":\"categorical\",\"low\":null,\"high\":null,\"log\":null,\"choices\":[\"16\",\"1.0\",\"true\"]}";
    let spec: ParameterSpec = serde_json::from_str(text).unwrap();
    assert_eq!(spec, ParameterSpec::categorical(["16", "1.0", "true"]));
    assert_eq!(serde_json::to_string(&spec).unwrap(), text);
    let text = "{\"type\":\"int\",\"low\":1.0,\"high\":9.0,\"log\":null,\"choices\":null}";
    let spec: ParameterSpec = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&spec).unwrap(), text);
    // A step of one gives every integer, and a declaration survives the round trip.
    let space = |spec: &ParameterSpec| Space::from_specs([("n", spec)]).unwrap();
    assert_eq!(space(&spec), space(&spec.clone().with_step(1.0)));
    for spec in [
        ParameterSpec::float(-0.5, 0.5).with_step(0.1),
        ParameterSpec::int(8, 64).with_step(8.0),
        ParameterSpec::categorical(varied()),
        ParameterSpec::int_values([16, 32, 128]).with_log(),
        ParameterSpec::ordered(["b", "a", "c"]),
    ] {
        assert_eq!(space(&spec).parameters()[0].to_spec(), spec);
    }
    // The numbers of a set are sorted.
    let [set, sorted] = [[2.0, 0.5], [0.5, 2.0]].map(ParameterSpec::float_values);
    assert_eq!(space(&set), space(&sorted));
    let text = "{\"type\":\"int\",\"low\":null,\"high\":null,\"log\":null,\"values\":[1,2.0],\"choices\":null}";
    let spec: ParameterSpec = serde_json::from_str(text).unwrap();
    assert_eq!(spec, ParameterSpec::int_values([1, 2]));
}

/// Every integer in a linear range gets the same share of [0,1], including the two at the ends.
#[test]
fn integers_share_the_interval_equally() {
    let space = Space::from_specs([("k", &spec("int", Some(0.0), Some(4.0), false, &[]))]).unwrap();
    let mut counts = [0_usize; 5];
    for i in 0..10_000 {
        let Some(Value::Int(k)) =
            space.decode(&[(f64::from(i) + 0.5) / 10_000.0]).get("k").cloned()
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
    assert!(space.snap(&[f64::NAN; DIM]).iter().all(|u| (0.0..=1.0).contains(u)));
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
            spec("float", Some(f64::NAN), Some(1.0), false, &[]),
            "low = NaN, expected a finite number",
        ),
        (spec("float", Some(-1e308), Some(1e308), false, &[]), "64-bit float"),
        (spec("float", None, Some(1.0), false, &[]), "low = nothing"),
        (spec("float", Some(0.0), Some(1.0), true, &[]), "log = true"),
        (spec("int", Some(0.5), Some(3.0), false, &[]), "whole number"),
        (spec("categorical", None, None, false, &["a", "a"]), "all different"),
        (
            ParameterSpec::categorical([Value::Int(1), Value::Float(1.0)]),
            "choices = 1 beside 1.0, expected numbers that are all different",
        ),
        (
            ParameterSpec::categorical([Value::from("16"), Value::Int(16)]),
            "choices = \"16\" beside 16, expected names that are all different",
        ),
        (
            ParameterSpec::categorical([Value::from("True"), Value::Bool(true)]),
            "choices = true beside \"True\", expected texts that cannot be read as another choice",
        ),
        (
            ParameterSpec::categorical([f64::INFINITY, 1.0]),
            "choices = inf, expected finite numbers",
        ),
        (
            ParameterSpec::categorical::<&str>([]),
            "choices = [], expected a list of at least one name",
        ),
        (
            ParameterSpec::float(0.0, 1.0).with_step(0.3),
            "high = 1, expected low + k * step for a whole number k; the nearest such values are 0.9 and 1.2",
        ),
        (
            ParameterSpec::log_float(0.1, 1.0).with_step(0.1),
            "step = 0.1, expected no such key, since log = true",
        ),
        (
            ParameterSpec { step: Some(1.0), ..ParameterSpec::categorical(["a", "b"]) },
            "step = a value, expected no such key, since the type is categorical",
        ),
        (ParameterSpec::float_values([]), "values = [], expected a list of at least one number"),
        (ParameterSpec::float_values([1.0, f64::NAN]), "values = NaN, expected finite numbers"),
        (
            ParameterSpec { kind: "int".into(), ..ParameterSpec::float_values([1.5]) },
            "values = 1.5, expected whole numbers",
        ),
        (
            ParameterSpec::int_values([0, 4]).with_log(),
            "values = 0, expected whole numbers of at least 1",
        ),
        (
            ParameterSpec::float_values([0.0, 4.0]).with_log(),
            "values = 0, expected finite numbers above 0",
        ),
        (ParameterSpec::int_values([3, 3]), "values = 3 twice"),
        (
            ParameterSpec { high: Some(3.0), ..ParameterSpec::int_values([3, 4]) },
            "high = a value, expected no such key beside values",
        ),
        (
            ParameterSpec { values: Some(vec![1.0]), ..ParameterSpec::categorical(["a", "b"]) },
            "values = a value, expected no such key, since the type is categorical",
        ),
        (
            ParameterSpec { ordered: Some(true), ..ParameterSpec::float(0.0, 1.0) },
            "ordered = true, expected no such key, since the type is not categorical",
        ),
        (spec("floot", Some(0.0), Some(1.0), false, &[]), "\"float\", \"int\" or \"categorical\""),
    ];
    for (bad, expected) in cases {
        let error = Space::from_specs([("q", &bad)]).unwrap_err().to_string();
        assert!(error.starts_with("space.q: ") && error.contains(expected), "{error}");
    }
    assert_eq!(Space::from_specs([]).unwrap_err(), SpaceError::Empty);
    let fixed = [
        ("x", &ParameterSpec::float(1.0, 1.0)),
        ("n", &ParameterSpec::int_values([3])),
        ("kind", &ParameterSpec::categorical(["a"])),
    ];
    assert_eq!(Space::from_specs(fixed).unwrap_err(), SpaceError::Fixed);
}

/// The number of points is the product over the parameters. The result is `None` if there are
/// floats, and saturates at the largest number.
#[test]
fn points_of_a_discrete_space_are_counted() {
    let int = ParameterSpec::int(-2, 5);
    let float = ParameterSpec::float(0.0, 1.0);
    let choice = ParameterSpec::categorical(["a", "b", "c"]);
    let n_points = |specs: &[(&str, &ParameterSpec)]| {
        let space = Space::from_specs(specs.iter().copied()).unwrap();
        space.n_points()
    };
    assert_eq!(n_points(&[("i", &int), ("c", &choice)]), Some(24));
    assert_eq!(n_points(&[("i", &int), ("x", &float)]), None);
    let widest = ParameterSpec::int(-9_000_000_000_000_000, 9_000_000_000_000_000);
    let two = [("i", &widest), ("j", &widest)];
    assert_eq!(n_points(&two[..1]), Some(18_000_000_000_000_001));
    assert_eq!(n_points(&two), Some(u64::MAX));
}

/// Names as in a sheet of a laboratory. Others would break a placeholder, a table or a line.
#[test]
fn names_may_have_blanks_and_units() {
    let x = ParameterSpec::float(0.0, 1.0);
    let of = |name: &str| Space::from_specs([(name, &x)]);
    for name in ["Temp (°C)", "Stir speed", "a b  c", "x[0]", "c/c₀ %", "it's", "α"] {
        let space = of(name).unwrap();
        let point = space.decode(&[0.5]);
        let json = serde_json::to_string(&point).unwrap();
        assert_eq!(serde_json::from_str::<Point>(&json).unwrap(), point, "{name}");
    }
    for name in [
        "",
        " ",
        " x",
        "x ",
        "a\tb",
        "a\nb",
        "a\u{a0}b",
        "a\u{2028}b",
        "a{b",
        "a}b",
        "a,b",
        "a\"b",
        "\u{7f}",
    ] {
        let error = of(name).unwrap_err().to_string();
        assert!(error.contains(": name = ") && error.contains("expected a name"), "{error}");
    }
}

/// A parameter with a single value has no coordinate, but is part of each point.
#[test]
fn fixed_parameters_take_no_coordinate_and_no_other_value() {
    let fixed = [
        (ParameterSpec::float(25.0, 25.0), Value::Float(25.0)),
        (ParameterSpec::log_float(0.5, 0.5), Value::Float(0.5)),
        (ParameterSpec::int(3, 3), Value::Int(3)),
        (ParameterSpec::float(0.25, 0.25).with_step(0.1), Value::Float(0.25)),
        (ParameterSpec::int_values([7]), Value::Int(7)),
        (ParameterSpec::categorical(["adam"]), "adam".into()),
        (ParameterSpec::ordered([true]), true.into()),
    ];
    let x = ParameterSpec::float(0.0, 1.0);
    for (spec, only) in fixed {
        let space = Space::from_specs([("only", &spec), ("x", &x)]).unwrap();
        assert_eq!(space.dim(), 1, "{only}");
        let point = space.decode(&[0.5]);
        assert_eq!(point.get("only"), Some(&only));
        assert_eq!(space.encode(&point).unwrap(), [0.5]);
        let parameter = &space.parameters()[0];
        assert_eq!(parameter.parse(&only.to_string()), Ok(only.clone()));
        let refused = parameter.parse("26").unwrap_err().to_string();
        assert!(refused.contains(&format!("expected the fixed value {only}")), "{refused}");
        assert_eq!(parameter.kind().n_values(), Some(1));
        assert!(parameter.kind().neighbours(&only).is_empty());
        assert_eq!(&Parameter::from_spec("only", &parameter.to_spec()).unwrap(), parameter);
    }
}

/// A design tries each number of a set equally often, even though most of the coordinate belongs to
/// isolated numbers.
#[test]
fn drawn_numbers_of_a_set_have_equal_shares() {
    let spec = ParameterSpec::int_values([1, 2, 3, 1000]);
    let space = Space::from_specs([("n", &spec)]).unwrap();
    let count = |unit_of: &dyn Fn(&[f64]) -> Vec<f64>, value: i64| {
        let units = (0..1000).map(|i| unit_of(&[(f64::from(i) + 0.5) / 1000.0]));
        let drawn = units.map(|unit| space.decode(&unit).get("n").cloned());
        drawn.filter(|drawn| *drawn == Some(Value::Int(value))).count()
    };
    for value in [1, 2, 3, 1000] {
        assert_eq!(count(&|unit| space.draw(unit), value), 250, "{value}");
    }
    assert!(count(&|unit| space.snap(unit), 1000) > 450);
    let [one, two, last] = [1, 2, 1000]
        .map(|n| space.encode(&Point::new(vec![("n".into(), Value::Int(n))])).unwrap()[0]);
    for (found, expected) in [(one, 0.0), (two, 1.0 / 999.0), (last, 1.0)] {
        assert!((found - expected).abs() < 1e-15, "{found}");
    }
}

#[test]
fn ordered_words_have_one_coordinate_and_adjacent_neighbours() {
    let spec = ParameterSpec::ordered(["slow", "medium", "fast", "faster"]);
    let space = Space::from_specs([("spin", &spec)]).unwrap();
    let kind = space.parameters()[0].kind();
    assert!(kind.is_ordered() && kind.numbers().is_none());
    let units: Vec<f64> = kind
        .values()
        .into_iter()
        .flatten()
        .map(|word| space.encode(&Point::new(vec![("spin".into(), word)])).unwrap()[0])
        .collect();
    assert_eq!(units, [0.125, 0.375, 0.625, 0.875]);
    assert_eq!(kind.neighbours(&"medium".into()), ["slow".into(), "fast".into()]);
    assert_eq!(kind.neighbours(&"faster".into()), ["fast".into()]);
    assert!(
        kind.has_same_values(
            Parameter::from_spec(
                "spin",
                &ParameterSpec::categorical(["fast", "slow", "faster", "medium"])
            )
            .unwrap()
            .kind()
        )
    );
}
