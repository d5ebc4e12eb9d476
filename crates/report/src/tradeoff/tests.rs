//! Tests of the contents of the picture, including awkward data.

use fedbo_space::Direction;

use super::*;
use crate::metric::Metric;
use crate::row::Row;
use crate::summary::{SummaryRequest, summarize_configurations};
use crate::trace::tests::row;

/// Creates rows for arms of one configuration with these final values, in two runs 0.01 apart.
fn rows(configuration: &str, arms: &[(&str, f64)]) -> Vec<Row> {
    let of = |(arm, value): &(&str, f64)| {
        [(0, -0.005), (1, 0.005)].map(|(run, shift)| Row {
            experiment: configuration.to_owned(),
            ..row(arm, "all", run, 60, Some(value + shift))
        })
    };
    arms.iter().flat_map(of).collect()
}

fn summary(rows: &[Row]) -> Summary {
    let request = SummaryRequest::new("test", 7, Direction::Maximize, Metric::Best);
    summarize_configurations(rows, &request, |_| Vec::new())
}

fn point(configuration: &str, arm: &str, cost: f64) -> TradeoffPoint {
    TradeoffPoint { arm: ArmRef::new(configuration, arm), label: arm.to_owned(), cost }
}

fn spec(points: Vec<TradeoffPoint>, levels: Vec<ArmRef>) -> TradeoffSpec {
    let series = TradeoffSeries { name: "z, with q & <all> else fixed".to_owned(), points };
    TradeoffSpec {
        title: "utility against cost".to_owned(),
        y_label: "best value".to_owned(),
        panels: vec![TradeoffPanel {
            title: "a panel".to_owned(),
            x_label: "cost".to_owned(),
            scale: Scale::Log,
            series: vec![series],
            levels,
        }],
    }
}

fn usual() -> (Summary, TradeoffSpec) {
    let arms = [("ts", 0.70), ("fts", 0.75), ("z=1", 0.74), ("z=4", 0.72)];
    let points = vec![point("a", "z=1", 15.17), point("a", "z=4", 2.16)];
    let levels = vec![ArmRef::new("a", "ts"), ArmRef::new("a", "fts")];
    (summary(&rows("a", &arms)), spec(points, levels))
}

/// Means computed by hand: the two runs are 0.005 to either side, so s = 0.01/√2 and the standard
/// error is s/√2 = 0.005.
#[test]
fn marks_and_levels_are_the_final_estimates_of_their_arms() {
    let (summary, spec) = usual();
    let tradeoff = Tradeoff::of(&summary, &spec);
    let panel = &tradeoff.panels[0];
    let marks = &panel.series[0].marks;
    assert_eq!((marks[0].label.as_str(), marks[1].cost), ("z=1", 2.16));
    let means = panel.estimates().map(|estimate| estimate.mean);
    for (found, expected) in means.zip([0.74, 0.72, 0.70, 0.75]) {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }
    for estimate in panel.estimates() {
        assert_eq!(estimate.n, 2);
        assert!((estimate.standard_error.expect("two runs") - 0.005).abs() < 1e-12);
    }
    assert_eq!(tradeoff.n_missing, 0);
}

#[test]
fn arms_are_found_in_their_own_configuration() {
    let mut all = rows("a", &[("ts", 0.7)]);
    all.extend(rows("b", &[("ts", 0.9)]));
    let summary = summary(&all);
    let last = |configuration: &str| {
        let arm = ArmRef::new(configuration, "ts");
        let found = arm.find(&summary).and_then(|arm| arm.last);
        found.map(|estimate| (estimate.mean * 10.0).round())
    };
    assert_eq!([last("a"), last("b"), last("")], [Some(7.0), Some(9.0), None]);
}

#[test]
fn what_cannot_be_drawn_is_left_out_and_counted() {
    let (summary, mut spec) = usual();
    let panel = &mut spec.panels[0];
    for cost in [0.0, -1.0, f64::INFINITY, f64::NAN] {
        panel.series[0].points.push(point("a", "z=1", cost));
    }
    panel.series[0].points.push(point("a", "no such arm", 1.0));
    panel.levels.push(ArmRef::new("nowhere", "ts"));
    let tradeoff = Tradeoff::of(&summary, &spec);
    assert_eq!(tradeoff.panels[0].marks().count(), 2);
    assert_eq!((tradeoff.panels[0].levels.len(), tradeoff.n_missing), (2, 6));
    spec.panels[0].scale = Scale::Linear; // a linear axis can show 0 and below
    assert_eq!(Tradeoff::of(&summary, &spec).n_missing, 4);
}

#[test]
fn the_files_hold_what_they_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (summary, spec) = usual();
    Tradeoff::of(&summary, &spec).write(folder.path()).expect("a writable folder");
    let svg = std::fs::read_to_string(folder.path().join("tradeoff.svg")).expect("the SVG");
    for text in [
        "utility against cost",
        "z, with q &amp; &lt;all&gt; else fixed",
        "a panel",
        "z=1",
        "z=4",
        "fts",
        "error bars: one standard error, n = 2",
    ] {
        assert!(svg.contains(text), "{text} is not in {svg}");
    }
    let png = std::fs::read(folder.path().join("tradeoff.png")).expect("the PNG");
    assert_eq!(&png[1..4], b"PNG");
    let missing = Tradeoff::of(&summary, &spec).write(Path::new("/nonexistent"));
    let error = missing.expect_err("no such folder").to_string();
    assert!(error.contains("/nonexistent/tradeoff.svg"), "{error}");
}

/// A cheaper arm is further to the left, and a better one is higher.
#[test]
fn places_follow_cost_and_value() {
    let (summary, spec) = usual();
    let tradeoff = Tradeoff::of(&summary, &spec);
    let places = super::picture::chart(&tradeoff).panels[0].places();
    let [dear, cheap] = places[..] else { panic!("two marks") };
    assert!(cheap.0 < dear.0 && dear.1 < cheap.1, "{places:?}");
    // Arms of equal cost are side by side.
    let both = [point("a", "z=1", 5.0), point("a", "z=4", 5.0)];
    let spec = self::spec(both.to_vec(), Vec::new());
    let tradeoff = Tradeoff::of(&summary, &spec);
    let places = super::picture::chart(&tradeoff).panels[0].places();
    assert!((places[0].0 - places[1].0).abs() > 9.0, "{places:?}");
}

/// Covers no data, no panel, one run, one arm, dense data, far and near values, and long names.
#[test]
fn awkward_data_are_drawn_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (summary, usual_spec) = usual();
    let crowd: Vec<(String, f64)> =
        (0..40).map(|i| (format!("arm {i}"), 0.5 + 1e-4 * f64::from(i))).collect();
    let crowd: Vec<(&str, f64)> = crowd.iter().map(|(n, v)| (n.as_str(), *v)).collect();
    let crowd_rows = rows("a", &crowd);
    let crowd_points: Vec<TradeoffPoint> = crowd.iter().map(|(n, _)| point("a", n, 3.0)).collect();
    let crowd_levels = crowd.iter().map(|(n, _)| ArmRef::new("a", *n)).collect();
    let long = "n".repeat(3000);
    let extreme = [("x", 1e300), ("y", -1e300), (long.as_str(), 1e-300)];
    let extreme_points =
        vec![point("a", "x", 1e-300), point("a", "y", 1e300), point("a", &long, 1.0)];
    let one_run = &rows("a", &[("ts", 0.7)])[..1];
    let cases = [
        (summary.clone(), TradeoffSpec::default()),
        (super::tests::summary(&[]), usual_spec.clone()),
        (
            super::tests::summary(one_run),
            spec(vec![point("a", "ts", 1.0)], vec![ArmRef::new("a", "ts")]),
        ),
        (super::tests::summary(&crowd_rows), spec(crowd_points, crowd_levels)),
        (
            super::tests::summary(&rows("a", &extreme)),
            spec(extreme_points, vec![ArmRef::new("a", long.as_str())]),
        ),
    ];
    for (summary, mut spec) in cases {
        for scale in [Scale::Linear, Scale::Log] {
            for panel in &mut spec.panels {
                panel.scale = scale;
            }
            Tradeoff::of(&summary, &spec).write(folder.path()).expect("a picture");
            let svg = std::fs::read_to_string(folder.path().join("tradeoff.svg"));
            let svg = svg.expect("the SVG");
            assert!(!svg.contains("NaN") && !svg.contains("2147483647"), "{svg}");
        }
    }
}

#[test]
fn a_specification_survives_the_summary_and_may_leave_fields_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut summary, spec) = usual();
    summary.add_tradeoff(spec.clone(), folder.path()).expect("a writable folder");
    assert_eq!(summary.tradeoff, Some(spec));
    assert!(folder.path().join("tradeoff.png").exists());
    let read = Summary::read(folder.path()).expect("a readable summary");
    assert_eq!(read, summary);
    let bare: TradeoffSpec =
        serde_json::from_str(r#"{"panels": [{"scale": "log"}]}"#).expect("a specification");
    assert_eq!(bare.panels[0].scale, Scale::Log);
}
