//! Tests of the contents of a study's pictures, including awkward data.

use fedbo_space::{Parameter, ParameterSpec};

use super::*;
use crate::chart::style::{color_of_order, tick_font};
use crate::chart::svg::{
    BLUE, INK, VERMILION, assert_sound, at_of, attribute, discs, elements, length, lines, png_size,
    polygons, says, svg_size, texts,
};

mod transfer;

fn number(name: &str, low: f64, high: f64, log: bool) -> PlottedParameter {
    PlottedParameter { name: name.to_owned(), range: Kind::Float { low, high, log } }
}

fn parameters() -> Vec<PlottedParameter> {
    let choices = ["adam", "sgd", "r<m>s"].map(Into::into).to_vec();
    vec![
        number("learning rate & more", 1e-5, 0.1, true),
        PlottedParameter {
            name: "layers".to_owned(),
            range: Kind::Int { low: 1, high: 5, log: false },
        },
        PlottedParameter { name: "optimizer".to_owned(), range: Kind::Categorical { choices } },
        number("model.encoder.layers.0.attention.heads.width.multiplier", 0.0, 1.0, false),
    ]
}

/// Creates a study of trials with these values. Every third trial is an initial one.
fn study(minimize: bool, values: &[Option<f64>]) -> StudyPlot {
    let trial = |(index, value): (u32, &Option<f64>)| {
        let share = (f64::from(index) * 0.618).fract();
        PlottedTrial {
            number: u64::from(index),
            value: *value,
            coordinates: vec![
                PlottedValue::Number(10_f64.powf(-5.0 + 4.0 * share)),
                PlottedValue::Number(f64::from(1 + index % 5)),
                PlottedValue::Choice(if index % 2 == 0 { 0 } else { 2 }),
                PlottedValue::Number(share),
            ],
            initial: index % 3 == 0,
            numbers: Vec::new(),
            feasible: true,
            on_front: false,
        }
    };
    StudyPlot {
        title: "a < b".to_owned(),
        minimize,
        objectives: Vec::new(),
        trials: (0..).zip(values).map(trial).collect(),
        n_stopped: 0,
        parameters: parameters(),
        importance: Vec::new(),
        transfer: None,
    }
}

fn importance(parameter: &str, variance_share: f64, relevance: f64) -> PlottedImportance {
    PlottedImportance { parameter: parameter.to_owned(), variance_share, relevance }
}

fn history(study: &StudyPlot) -> String {
    study.chart("history").svg()
}

fn slices(study: &StudyPlot) -> String {
    study.chart("slices").svg()
}

fn bars(study: &StudyPlot) -> String {
    study.chart("importance").svg()
}

fn all_pictures(study: &StudyPlot) -> [String; 3] {
    STUDY_PICTURES.map(|name| study.chart(name).svg())
}

fn y_of(svg: &str, wanted: &str) -> f64 {
    at_of(svg, wanted).1
}

#[test]
fn six_files_are_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut study = study(true, &[Some(2.0), Some(1.0), None]);
    study.importance = vec![importance("layers", 0.7, 0.4)];
    study.write(folder.path()).expect("a writable folder");
    for name in STUDY_PICTURES {
        let text = std::fs::read_to_string(folder.path().join(format!("{name}.svg")));
        let text = text.expect("the SVG");
        assert!(text.starts_with("<svg ") && text.contains("a &lt; b"));
        let png = std::fs::read(folder.path().join(format!("{name}.png"))).expect("the PNG");
        let (width, height) = svg_size(&text);
        assert_eq!(png_size(&png), (2.0 * width, 2.0 * height));
        let picture = study.picture(name).expect("a picture");
        assert_eq!(picture.svg().expect("an SVG"), text);
        assert_eq!(picture.png().expect("a PNG"), png);
    }
    assert!(study.picture(TRANSFER_PICTURE).is_none());
}

#[test]
fn a_picture_that_cannot_be_written_is_named() {
    let error =
        study(true, &[Some(1.0)]).write(Path::new("/nonexistent")).expect_err("no such folder");
    assert!(matches!(error, ReportError::Write { .. }));
    assert!(error.to_string().contains("/nonexistent/history.svg"));
}

/// Values 3, 5, (failed), 1, 2, minimized: five markers in order, with the failed trial above the
/// others and the best one lowest.
#[test]
fn the_history_has_a_mark_for_each_trial() {
    let values = [Some(3.0), Some(5.0), None, Some(1.0), Some(2.0)];
    let svg = history(&study(true, &values));
    // The legend shows each sign once, before the panel.
    let trials = discs(&svg, BLUE).split_off(2);
    assert_eq!(trials.len(), 4);
    assert!(trials.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert!(trials[2].1 > trials[3].1 && trials[3].1 > trials[0].1 && trials[0].1 > trials[1].1);
    let failed = polygons(&svg, INK, 12);
    assert_eq!(failed.len(), 2);
    let failed = failed[1];
    assert!(trials[1].0 < failed.0 && failed.0 < trials[2].0);
    assert!(trials.iter().all(|trial| trial.1 > failed.1));
    let best = polygons(&svg, VERMILION, 4)[1];
    assert!((best.0 - trials[2].0).abs() <= 1.0 && (best.1 - trials[2].1).abs() <= 1.0);
    let shown: Vec<String> = texts(&svg).into_iter().map(|(text, _)| text).collect();
    for text in [
        "initial trial",
        "trial",
        "best so far",
        "failed",
        "value (smaller is better)",
        "5 trials, 1 failed; best: trial 3 with 1",
    ] {
        assert!(shown.contains(&text.to_owned()), "{text} in {shown:?}");
    }
}

/// The failed trial is below the others, since the study maximizes. The line rises in steps from
/// the first value to the last trial.
#[test]
fn the_best_so_far_is_a_line_of_steps() {
    let values = [None, Some(3.0), Some(1.0), Some(5.0), Some(2.0)];
    let study = study(false, &values);
    let svg = history(&study);
    let trials = discs(&svg, BLUE).split_off(2);
    let failed = polygons(&svg, INK, 12)[1];
    assert!(trials.iter().all(|trial| trial.1 < failed.1));
    let corners = lines(&svg, VERMILION, 2).remove(0);
    let (first, best, last) = (trials[0], trials[2], trials[3]);
    let expected = [first, (best.0, first.1), best, (last.0, best.1)];
    assert_eq!(corners.len(), expected.len(), "{corners:?}");
    for (found, expected) in corners.iter().zip(expected) {
        assert!((found.0 - expected.0).hypot(found.1 - expected.1) <= 1.5);
    }
}

#[test]
fn the_order_of_telling_counts_where_numbers_do_not_follow_it() {
    let mut study = study(true, &[Some(3.0), Some(2.0), Some(1.0)]);
    study.trials.swap(0, 2);
    let svg = history(&study);
    assert!(says(&svg, "trial, in the order told"));
    let ys: Vec<f64> = discs(&svg, BLUE)[2..].iter().map(|disc| disc.1).collect();
    assert!(ys[0] > ys[1] && ys[1] > ys[2]);
    assert_eq!(study.best(), Some(0));
}

#[test]
fn a_value_far_beyond_all_others_has_its_own_mark_at_the_end() {
    let values = [3.0, 5.0, 1e9, 1.0, 2.0, 4.0, -1.0].map(Some);
    let svg = history(&study(true, &values));
    let triangles = polygons(&svg, BLUE, 3);
    assert_eq!(triangles.len(), 2);
    let trials = discs(&svg, BLUE).split_off(2);
    assert_eq!(trials.len(), 6);
    assert!(trials.iter().all(|trial| trial.1 > triangles[1].1));
    assert!(says(&svg, "worse, off the axis"));
}

#[test]
fn slices_have_a_panel_for_each_parameter() {
    let values: Vec<Option<f64>> =
        (0..20).map(|index| (index % 7 != 3).then(|| f64::from(index))).collect();
    let svg = slices(&study(true, &values));
    let shown: Vec<String> = texts(&svg).into_iter().map(|(text, _)| text).collect();
    for text in [
        "learning rate &amp; more",
        "layers",
        "optimizer",
        "adam",
        "sgd",
        "r&lt;m&gt;s",
        "first to last trial",
        "failed",
    ] {
        assert!(shown.contains(&text.to_owned()), "{text} in {shown:?}");
    }
    let long = shown.iter().find(|text| text.starts_with("model."));
    let long = long.expect("the long name");
    assert!(long.contains('…') && long.ends_with("multiplier"), "{long}");
    // The best trial has one marker in the legend and one per panel. Failed trials have one in the
    // legend and three per panel.
    assert_eq!(polygons(&svg, VERMILION, 4).len(), 1 + 4);
    assert_eq!(polygons(&svg, INK, 12).len(), 1 + 3 * 4);
    let first = color_of_order(0.0);
    let last = color_of_order(1.0);
    for color in [first, last] {
        let fill = format!("#{:02X}{:02X}{:02X}", color.0, color.1, color.2);
        assert_eq!(discs(&svg, &fill).len(), 4, "{fill}");
    }
}

#[test]
fn a_coordinate_that_does_not_fit_its_parameter_is_not_drawn() {
    let mut study = study(true, &[Some(1.0), Some(2.0)]);
    study.trials[0].coordinates =
        vec![PlottedValue::Choice(0), PlottedValue::Number(f64::NAN), PlottedValue::Choice(9)];
    let svg = slices(&study);
    assert_eq!(polygons(&svg, VERMILION, 4).len(), 1);
    let last = color_of_order(1.0);
    let fill = format!("#{:02X}{:02X}{:02X}", last.0, last.1, last.2);
    assert_eq!(discs(&svg, &fill).len(), 4);
}

#[test]
fn importances_are_sorted_and_both_shares_are_given() {
    let mut study = study(true, &[Some(1.0)]);
    study.importance = vec![
        importance("small", 0.0404, 0.9),
        importance("large", 0.61, 0.0),
        importance("odd", f64::NAN, 0.0004),
    ];
    let svg = bars(&study);
    assert!(y_of(&svg, "large") < y_of(&svg, "small") && y_of(&svg, "small") < y_of(&svg, "odd"));
    for (name, shares) in
        [("large", ["61 %", "0 %"]), ("small", ["4.0 %", "90 %"]), ("odd", ["0 %", "&lt; 0.1 %"])]
    {
        let near = |share: &str| {
            texts(&svg)
                .into_iter()
                .any(|(text, (_, y))| text == share && (y - y_of(&svg, name)).abs() < 17.0 * 4.0)
        };
        assert!(shares.into_iter().all(near), "{name}");
    }
    study.importance.clear();
    let unknown = bars(&study);
    assert!(unknown.contains("importances are not known yet"));
}

#[test]
fn the_best_is_the_first_of_several_and_failed_trials_are_none() {
    let values = [Some(f64::NAN), Some(2.0), None, Some(7.0), Some(2.0), Some(7.0)];
    assert_eq!(study(true, &values).best(), Some(1));
    assert_eq!(study(false, &values).best(), Some(3));
    assert_eq!(study(true, &[None, Some(f64::INFINITY)]).best(), None);
}

#[test]
fn numbers_in_the_footnote_have_six_digits_at_most() {
    for (value, text) in [
        (0.0, "0"),
        (1.0, "1"),
        (-0.25, "−0.25"),
        (2.0 / 3.0, "0.666667"),
        (123_456.7, "123457"),
        (999_999.9, "1e6"),
        (1e-5, "1e−5"),
        (1.0 / 3e9, "3.33333e−10"),
        (f64::MAX, "1.79769e308"),
    ] {
        assert_eq!(significant(value), text);
    }
}

#[test]
fn colours_darken_from_the_first_trial_to_the_last() {
    let luminance = |share: f64| {
        let color = color_of_order(share);
        0.2126 * f64::from(color.0) + 0.7152 * f64::from(color.1) + 0.0722 * f64::from(color.2)
    };
    let shares = || (0..=50).map(|index| f64::from(index) / 50.0);
    assert!(shares().zip(shares().skip(1)).all(|(a, b)| luminance(a) > luminance(b)));
}

#[test]
fn awkward_values_are_drawn_too() {
    let huge = [1e-300, 1e300, -1e300, 3.0, f64::MAX, f64::MIN, 5e-324, 0.0];
    let cases: [(&str, Vec<Option<f64>>); 11] = [
        ("nothing", vec![]),
        ("one", vec![Some(0.3)]),
        ("one failed", vec![None]),
        ("all failed", vec![None; 9]),
        ("not finite", vec![Some(f64::NAN), Some(f64::INFINITY)]),
        ("constant", vec![Some(-7.25); 9]),
        ("zero", vec![Some(0.0); 9]),
        ("huge", huge.map(Some).to_vec()),
        ("positive", [1e-300, 1e300, 2.0, 1.0].map(Some).to_vec()),
        ("negative", [-1e-300, -1e300, -2.0, -1.0].map(Some).to_vec()),
        ("close", [1e15, 1e15 + 1.0, 1e15 + 2.0].map(Some).to_vec()),
    ];
    for (case, values) in cases {
        for minimize in [true, false] {
            let study = study(minimize, &values);
            for svg in all_pictures(&study) {
                assert_sound(&svg, case);
            }
        }
    }
}

#[test]
fn awkward_parameters_are_drawn_too() {
    let choices = |n: usize| Kind::Categorical {
        choices: (0..n).map(|index| format!("a-long-name-{index}-of-a-choice").into()).collect(),
    };
    let float = |low, high, log| Kind::Float { low, high, log };
    let int = |low, high, log| Kind::Int { low, high, log };
    let stepped = |spec: &ParameterSpec| {
        let parameter = Parameter::from_spec("x", spec).unwrap();
        parameter.kind().clone()
    };
    let ranges = [
        float(-f64::MAX, f64::MAX, false),
        float(1e-300, 1e300, true),
        float(0.0, 1.0, true),
        float(1.0, 1.0, false),
        float(5e-324, 1e-323, false),
        float(1e9, 1e9 + 1e-3, false),
        int(i64::MIN, i64::MAX, false),
        int(1, 1 << 52, true),
        int(3, 3, false),
        choices(0),
        choices(1),
        choices(200),
        Kind::Categorical { choices: vec!["\u{1}\n".repeat(5000).into(), "".into()] },
        Kind::Categorical { choices: vec![16.into(), 1e-300.into(), true.into()] },
        stepped(&ParameterSpec::float(-1e300, 1e300).with_step(1e290)),
        stepped(&ParameterSpec::float(0.0, 0.3).with_step(0.1)),
        stepped(&ParameterSpec::int(8, 64).with_step(8.0)),
    ];
    let names = ["", "x", "日本語", "a\tb"].map(str::to_owned);
    let names = names.into_iter().chain(std::iter::once("y".repeat(10_000))).cycle();
    let parameters: Vec<PlottedParameter> = ranges
        .into_iter()
        .zip(names)
        .map(|(range, name)| PlottedParameter { name, range })
        .collect();
    let trial = |index: usize| PlottedTrial {
        number: index as u64 * (u64::MAX / 9),
        value: Some(1.0 / (1.0 + index as f64)),
        coordinates: parameters
            .iter()
            .map(|parameter| match parameter.range.numbers() {
                Some(numbers) if index.is_multiple_of(2) => PlottedValue::Number(numbers.low),
                Some(numbers) => PlottedValue::Number(numbers.high),
                None => PlottedValue::Choice(index),
            })
            .collect(),
        initial: false,
        numbers: Vec::new(),
        feasible: true,
        on_front: false,
    };
    let importance = parameters.iter().map(|parameter| importance(&parameter.name, 1e300, -1.0));
    let study = StudyPlot {
        title: "t".repeat(10_000),
        minimize: true,
        objectives: Vec::new(),
        trials: (0..9).map(trial).collect(),
        n_stopped: 0,
        importance: importance.collect(),
        parameters: parameters.clone(),
        transfer: None,
    };
    for svg in all_pictures(&study) {
        assert_sound(&svg, "awkward parameters");
        let unprintable = |c: char| c.is_control() && c != '\n';
        assert!(!svg.contains(unprintable));
    }
}

/// Trials that were stopped early have no final value. The pictures mention only their number.
#[test]
fn stopped_trials_are_counted_where_they_are_not_shown() {
    let mut study = study(true, &[Some(1.0), Some(3.0), None]);
    let footnote = |study: &StudyPlot| study.footnote();
    assert_eq!(footnote(&study), "3 trials, 1 failed; best: trial 0 with 1");
    study.n_stopped = 9;
    let expected = "3 trials, 1 failed (9 more stopped early, not shown); best: trial 0 with 1";
    assert_eq!(footnote(&study), expected);
    for svg in [history(&study), slices(&study)] {
        assert!(svg.contains(expected), "{svg}");
    }
}

/// The labels of adjacent panels do not touch, for any number of panels.
#[test]
fn panels_of_one_to_twenty_parameters_stand_apart() {
    for n in 1..=20_u32 {
        let mut study = study(true, &[Some(1.0), Some(3.0), None]);
        let all = (0..n).map(|index| {
            // Labels of various lengths.
            let low = if index % 2 == 0 { 0.0 } else { 1.234_567_8e9 };
            number(&format!("{index}"), low, low + f64::from(index + 1), false)
        });
        study.parameters = all.collect();
        for trial in &mut study.trials {
            trial.coordinates = (0..n).map(|_| PlottedValue::Number(0.5)).collect();
        }
        let svg = slices(&study);
        assert_sound(&svg, &format!("{n} parameters"));
        let font = tick_font(2);
        let mut extents: Vec<(f64, f64, f64)> = Vec::new();
        for element in elements(&svg, "text") {
            let (_, text) = element.split_once('>').expect("a text");
            if attribute(element, "text-anchor") != "middle" || element.contains("rotate") {
                continue;
            }
            let half = 2.0 * font.width(text.trim());
            let (x, y) = (length(element, "x"), length(element, "y"));
            extents.push((y, x - half, x + half));
        }
        extents.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        for pair in extents.windows(2).filter(|pair| pair[1].0 - pair[0].0 < 1.0) {
            assert!(pair[0].2 < pair[1].1, "{n} parameters: {pair:?}");
        }
    }
}

/// Two objectives give one panel with the front as a line, three give three panels, and four give
/// six. An infeasible trial has a separate marker.
#[test]
fn several_objectives_are_drawn_against_each_other() {
    for (n, n_panels) in [(2, 1), (3, 3), (4, 6)] {
        let mut study = study(true, &[Some(1.0), Some(3.0), None, Some(2.0), Some(1e5), Some(0.5)]);
        study.objectives = (0..n)
            .map(|index| PlottedObjective {
                name: format!("objective_{index}"),
                direction: [Direction::Minimize, Direction::Maximize][index % 2],
            })
            .collect();
        for (index, trial) in study.trials.iter_mut().enumerate() {
            let value = trial.value.unwrap_or_default();
            trial.numbers = (0..n).map(|each| value * (each + 1) as f64).collect();
            (trial.on_front, trial.feasible) = (index < 2, index != 3);
        }
        assert_eq!(study.pictures(), [PARETO_PICTURE]);
        let chart = study.chart(PARETO_PICTURE);
        assert_eq!(chart.panels.len(), n_panels);
        let has_line = chart.panels.iter().any(|panel| {
            panel.marks.iter().any(|mark| matches!(mark, crate::chart::Mark::Line { .. }))
        });
        assert_eq!(has_line, n == 2);
        let svg = chart.svg();
        assert_sound(&svg, "objectives");
        let expected = "6 trials, 1 failed, 1 infeasible; 2 on the front";
        assert!(svg.contains(expected) && svg.contains("objective_1 (larger is better)"), "{svg}");
    }
}

/// An infeasible trial is never the best, whatever its value, and has a separate marker.
#[test]
fn infeasible_trials_are_marked_and_never_best() {
    let mut study = study(true, &[Some(3.0), Some(1.0), Some(2.0)]);
    study.trials[1].feasible = false;
    assert_eq!(study.footnote(), "3 trials, 1 infeasible; best: trial 2 with 2");
    for svg in [history(&study), slices(&study)] {
        assert!(svg.contains("infeasible"), "{svg}");
    }
    study.trials.iter_mut().for_each(|trial| trial.feasible = false);
    assert_eq!(study.footnote(), "3 trials, 3 infeasible");
    assert!(history(&study).contains("infeasible"));
}
