//! Tests of the selection of old trials and their conversion to a new space.

use std::collections::BTreeMap;

use fedbo_space::ParameterSpec;

use super::*;

fn space(parameters: &[(&str, ParameterSpec)]) -> Space {
    Space::from_specs(parameters.iter().map(|(name, spec)| (*name, spec))).unwrap()
}

fn new_space() -> Space {
    space(&[
        ("x", ParameterSpec::log_float(0.1, 10.0)),
        ("n", ParameterSpec::int(1, 5)),
        ("kind", ParameterSpec::categorical(["a", "b", "c"])),
    ])
}

fn old(space: Option<Space>, parameters: &[&str], rows: &[(&[&str], f64)]) -> OldTrials {
    let text = |text: &&str| (*text).to_owned();
    OldTrials {
        name: "old".to_owned(),
        direction: Some(Direction::Minimize),
        space,
        noisy: false,
        parameters: parameters.iter().map(text).collect(),
        rows: rows
            .iter()
            .map(|(texts, value)| (texts.iter().map(text).collect(), *value))
            .collect(),
        left_out: Vec::new(),
    }
}

fn fitted(old: OldTrials, settings: &MetaSettings) -> Result<OldStudy, MetaError> {
    let fitting = Fitting {
        space: &new_space(),
        direction: Direction::Minimize,
        seed: Seed::new(0),
        settings,
    };
    fitting.check_values()?;
    fitting.fit(old, 0, "old.csv")
}

fn some(values: [Value; 3]) -> Vec<Option<Value>> {
    values.map(Some).to_vec()
}

fn shared() -> MetaSettings {
    MetaSettings { mismatch: Mismatch::Shared, ..MetaSettings::default() }
}

/// The new study determines a parameter's scale, so a different log flag is not a difference.
#[test]
fn an_equal_space_is_taken_as_it_is_whatever_its_order_and_scales() {
    let theirs = space(&[
        ("kind", ParameterSpec::categorical(["c", "b", "a"])),
        ("x", ParameterSpec::float(0.1, 10.0)),
        ("n", ParameterSpec::int(1, 5)),
    ]);
    let rows: [(&[&str], f64); 2] =
        [(&["b", "0.30000000000000004", "5"], 1.5), (&["a", "10.0", "1"], 2.0)];
    let study = fitted(old(Some(theirs), &["kind", "x", "n"], &rows), &MetaSettings::default());
    let study = study.unwrap();
    let choice = |name: &str| Value::Choice(name.to_owned());
    assert_eq!(
        study.rows,
        [
            (some([Value::Float(0.30000000000000004), Value::Int(5), choice("b")]), 1.5),
            (some([Value::Float(10.0), Value::Int(1), choice("a")]), 2.0),
        ]
    );
    assert!(study.left_out.is_empty() && study.assumptions.is_empty() && !study.noisy);
}

/// An old study may have the numbers of a set as choices, and ordered words without their order.
#[test]
fn numbers_and_words_of_an_old_study_are_those_of_a_set_and_an_order() {
    let theirs = space(&[
        ("batch", ParameterSpec::categorical([128, 16, 32])),
        ("spin", ParameterSpec::categorical(["fast", "slow"])),
        ("x", ParameterSpec::float(0.0, 1.0)),
    ]);
    let ours = space(&[
        ("batch", ParameterSpec::int_values([16, 32, 128]).with_log()),
        ("spin", ParameterSpec::ordered(["slow", "fast"])),
        ("x", ParameterSpec::float(0.0, 1.0)),
        ("fixed", ParameterSpec::float(25.0, 25.0)),
    ]);
    let rows: [(&[&str], f64); 1] = [(&["32", "slow", "0.5"], 1.0)];
    let settings = shared();
    let fitting = Fitting {
        space: &ours,
        direction: Direction::Minimize,
        seed: Seed::new(0),
        settings: &settings,
    };
    let study = fitting.fit(old(Some(theirs), &["batch", "spin", "x"], &rows), 0, "old.csv");
    let (point, _) = &study.unwrap().rows[0];
    let expected = [Value::Int(32), "slow".into(), Value::Float(0.5), Value::Float(25.0)];
    assert_eq!(point[..], expected.map(Some));
}

#[test]
fn another_space_is_refused_parameter_by_parameter() {
    let theirs = space(&[
        ("x", ParameterSpec::float(0.1, 20.0)),
        ("n", ParameterSpec::float(1.0, 5.0)),
        ("kind", ParameterSpec::categorical(["a", "b"])),
        ("depth", ParameterSpec::int(1, 9)),
    ]);
    let rows: [(&[&str], f64); 1] = [(&["1.0", "2.0", "a", "3"], 1.0)];
    let names = ["x", "n", "kind", "depth"];
    let error = fitted(old(Some(theirs.clone()), &names, &rows), &MetaSettings::default());
    let error = error.unwrap_err().to_string();
    for words in [
        "x: a number from 0.1 to 20.0 there, a number from 0.1 to 10.0 here",
        "n: a number from 1.0 to 5.0 there, a whole number from 1 to 5 here",
        "kind: one of a, b there, one of a, b, c here",
        "depth: not here",
        "mismatch = \"shared\"",
    ] {
        assert!(error.contains(words), "{words} in {error}");
    }
    let study = fitted(old(Some(theirs), &names, &rows), &shared()).unwrap();
    assert_eq!(study.len(), 1);
    assert_eq!(study.assumptions, ["the effect of depth is treated as noise"]);
    assert!(study.noisy, "depth varied");
    // A table declares no ranges, so its values are inspected.
    let rows: [(&[&str], f64); 3] =
        [(&["1", "2", "a"], 1.0), (&["11", "2", "a"], 1.0), (&["1e2", "2", "a"], 1.0)];
    let error = fitted(old(None, &["x", "n", "kind"], &rows), &MetaSettings::default());
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains(
            "x: \"11\" there (of 3 values, 2 are outside), a number from 0.1 to 10.0 here"
        ),
        "{error}"
    );
}

#[test]
fn trials_outside_the_new_space_are_left_out_and_counted() {
    let rows: [(&[&str], f64); 6] = [
        (&["0.5", "2", "a"], 1.0),
        (&["0.05", "2", "a"], 1.0),
        (&["20", "9", "z"], 1.0),
        (&["0.5", "2.5", "a"], 1.0),
        (&["0.5", "2", "z"], 1.0),
        (&["", "2", "a"], 1.0),
    ];
    let study = fitted(old(None, &["x", "n", "kind"], &rows), &shared()).unwrap();
    assert_eq!(study.len(), 1);
    let words: Vec<String> = study.left_out.iter().map(ToString::to_string).collect();
    let expected = ["x", "n", "kind"].map(|name| format!("outside the range of {name} here"));
    assert_eq!(
        words,
        [
            format!("2 {}", expected[0]),
            format!("1 {}", expected[1]),
            format!("1 {}", expected[2]),
            "1 without a value of x".to_owned()
        ]
    );
    let error = fitted(old(None, &["x", "n", "kind"], &rows[1..3]), &shared()).unwrap_err();
    assert!(
        error.to_string().contains("no trial to learn from: 2 outside the range of x"),
        "{error}"
    );
    let error = fitted(old(None, &["z"], &[(&["1"], 1.0)]), &shared()).unwrap_err();
    assert!(matches!(error, MetaError::NothingShared { .. }), "{error}");
}

#[test]
fn a_parameter_that_was_not_there_has_the_given_value_or_all_of_its_values() {
    let rows: Vec<(&[&str], f64)> = (0..30).map(|_| (&["0.5"][..], 1.0)).collect();
    let mut settings = shared();
    settings.values = BTreeMap::from([("n".to_owned(), Value::Float(3.0))]);
    let study = fitted(old(None, &["x"], &rows), &settings).unwrap();
    assert_eq!(study.assumptions, ["n was 3.0", "taken as constant in kind"]);
    assert!(study.rows.iter().all(|(values, _)| values[1] == Some(Value::Int(3))));
    for choice in ["a", "b", "c"] {
        let has = |(values, _): &&OldRow| values[2] == Some(Value::Choice(choice.to_owned()));
        assert!(study.rows.iter().filter(has).count() > 5, "{choice}");
    }
    // With a value for every such parameter, the spaces match.
    settings.mismatch = Mismatch::Refuse;
    assert!(matches!(fitted(old(None, &["x"], &rows), &settings), Err(MetaError::Space { .. })));
    settings.values.insert("kind".to_owned(), Value::Choice("b".to_owned()));
    assert_eq!(fitted(old(None, &["x"], &rows), &settings).unwrap().len(), 30);
    for (name, value, words) in [
        ("kind", Value::Choice("z".to_owned()), "kind: \"z\", expected one of a, b, c"),
        ("n", Value::Float(0.5), "n: 0.5, expected a whole number"),
        ("q", Value::Int(1), "there is no parameter q"),
    ] {
        settings.values = BTreeMap::from([(name.to_owned(), value)]);
        let error = fitted(old(None, &["x"], &rows), &settings).unwrap_err().to_string();
        assert!(error.contains(words), "{words} in {error}");
    }
}

#[test]
fn of_many_trials_an_even_spread_and_the_best_are_used() {
    for best in [0, 1, 57, 99] {
        let value = |index: usize| {
            if index == best { -1.0 } else { 1.0 + f64::from(u32::try_from(index).unwrap()) }
        };
        let texts: Vec<(&[&str], f64)> =
            (0..100).map(|i| (&["0.5", "2", "a"][..], value(i))).collect();
        let mut settings = shared();
        settings.trials_max = 10;
        let study = fitted(old(None, &["x", "n", "kind"], &texts), &settings).unwrap();
        assert_eq!(study.len(), 10);
        assert_eq!(study.best(Direction::Minimize), Some(-1.0), "{best}");
        assert_eq!(study.left_out[0].to_string(), "90 beyond trials_max = 10");
        let values: Vec<f64> = study.rows.iter().map(|(_, value)| *value).collect();
        let last = values.iter().copied().fold(0.0, f64::max);
        assert!(last > 80.0, "{values:?}");
    }
}

#[test]
fn of_many_trials_as_many_of_the_best_are_used_as_are_tried_first() {
    let value = |index: usize| match [41, 42, 90].contains(&index) {
        true => -1.0,
        false => 1.0,
    };
    let texts: Vec<(&[&str], f64)> = (0..100).map(|i| (&["0.5", "2", "a"][..], value(i))).collect();
    let mut settings = shared();
    (settings.trials_max, settings.warm_start) = (10, 3);
    let study = fitted(old(None, &["x", "n", "kind"], &texts), &settings).unwrap();
    let values = study.rows.iter().map(|(_, value)| *value);
    let n_best = values.filter(|value| *value < 0.0).count();
    assert_eq!((study.len(), n_best), (10, 3));
}

#[test]
fn the_other_direction_is_refused() {
    let mut other = old(None, &["x"], &[(&["1"], 1.0)]);
    other.direction = Some(Direction::Maximize);
    let error = fitted(other, &shared()).unwrap_err().to_string();
    assert!(error.contains("is set to maximize, this study is set to minimize"), "{error}");
}

/// Fits trials to a space in which `rate` exists only with `kind = b`.
fn fitted_to_tree(old: OldTrials, settings: &MetaSettings) -> Result<OldStudy, MetaError> {
    let tree = space(&[
        ("kind", ParameterSpec::categorical(["a", "b"])),
        ("rate", ParameterSpec::float(0.0, 1.0).when("kind", "b")),
    ]);
    let (direction, seed) = (Direction::Minimize, Seed::new(0));
    Fitting { space: &tree, direction, seed, settings }.fit(old, 0, "old.csv")
}

#[test]
fn a_blank_cell_of_an_old_study_is_a_parameter_that_does_not_exist() {
    let rows: [(&[&str], f64); 3] = [(&["a", ""], 1.0), (&["b", "0.5"], 2.0), (&["b", ""], 3.0)];
    let study = fitted_to_tree(old(None, &["kind", "rate"], &rows), &MetaSettings::default());
    let study = study.unwrap();
    let (a, b): (Value, Value) = ("a".into(), "b".into());
    let expected = [(vec![Some(a), None], 1.0), (vec![Some(b), Some(Value::Float(0.5))], 2.0)];
    assert_eq!(study.rows, expected);
    assert_eq!(study.left_out[0].to_string(), "1 without a value of rate");
    assert!(study.assumptions.is_empty());
    let stored = serde_json::to_string(&study).unwrap();
    assert!(stored.contains(r#"[["a",null],1.0]"#), "{stored}");
    assert_eq!(serde_json::from_str::<OldStudy>(&stored).unwrap(), study);
    let names: Vec<usize> = study.trials().map(|(point, _)| point.iter().count()).collect();
    assert_eq!(names, [1, 2]);
}

#[test]
fn a_parameter_that_an_old_study_lacks_is_spread_only_where_it_exists() {
    // In no trial: no difference.
    let rows: [(&[&str], f64); 2] = [(&["a"], 1.0), (&["a"], 2.0)];
    let study = fitted_to_tree(old(None, &["kind"], &rows), &MetaSettings::default()).unwrap();
    assert!(study.assumptions.is_empty() && study.rows.iter().all(|row| row.0[1].is_none()));
    let rows: [(&[&str], f64); 2] = [(&["a"], 1.0), (&["b"], 2.0)];
    let refused = fitted_to_tree(old(None, &["kind"], &rows), &MetaSettings::default());
    assert!(refused.unwrap_err().to_string().contains("rate: not there"));
    let study = fitted_to_tree(old(None, &["kind"], &rows), &shared()).unwrap();
    assert_eq!(study.assumptions, ["taken as constant in rate"]);
    assert!(study.rows[0].0[1].is_none() && study.rows[1].0[1].is_some());
}

/// The values of a flat study had no effect where the parameter does not exist.
#[test]
fn another_condition_is_a_difference_and_values_without_effect_are_dropped() {
    let flat = space(&[
        ("kind", ParameterSpec::categorical(["a", "b"])),
        ("rate", ParameterSpec::float(0.0, 1.0)),
    ]);
    let rows: [(&[&str], f64); 2] = [(&["a", "0.1"], 1.0), (&["b", "0.2"], 2.0)];
    let theirs = || old(Some(flat.clone()), &["kind", "rate"], &rows);
    let refused = fitted_to_tree(theirs(), &MetaSettings::default()).unwrap_err().to_string();
    assert!(refused.contains("rate: exists always there, only when kind = b here"), "{refused}");
    let study = fitted_to_tree(theirs(), &shared()).unwrap();
    assert!(study.rows[0].0[1].is_none() && study.rows[1].0[1] == Some(Value::Float(0.2)));
}
