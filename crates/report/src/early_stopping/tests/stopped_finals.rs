//! Tests of `stopped-finals`.

use fedbo_space::Direction::{Maximize, Minimize};

use super::*;
use crate::chart::Scale;

fn point(trial: u64, value: f64, stopped: bool, incumbent: Option<f64>) -> FinalPoint {
    FinalPoint { trial, value, stopped, incumbent }
}

fn picture(points: Vec<FinalPoint>) -> FinalsPicture {
    FinalsPicture {
        title: "CNN & more".to_owned(),
        y_label: "validation error".to_owned(),
        direction: Minimize,
        scale: None,
        points,
    }
}

/// Creates a study of `n_trials` trials. Most trials that do not beat the best value so far are
/// stopped, and occasionally one that would have beaten it.
pub(super) fn study(n_trials: usize) -> FinalsPicture {
    let mut incumbent: Option<f64> = None;
    let mut points = Vec::with_capacity(n_trials);
    for index in 0..n_trials {
        let value = 0.03 + 0.5 * noise(index + 1).powi(2) + 0.05 * noise(index + 77);
        let beats = incumbent.is_none_or(|best| value < best);
        let stopped =
            index > 3 && if beats { noise(index + 500) < 0.3 } else { noise(index + 900) < 0.8 };
        points.push(point(index as u64, value, stopped, incumbent));
        if beats && !stopped {
            incumbent = Some(value);
        }
    }
    picture(points)
}

fn svg(picture: &FinalsPicture) -> String {
    files(|folder| picture.write(folder)).0
}

#[test]
fn a_wrong_stop_is_better_than_the_incumbent_of_its_time() {
    assert!(point(1, 0.2, true, Some(0.3)).is_wrong_stop(Minimize));
    assert!(!point(1, 0.2, true, Some(0.3)).is_wrong_stop(Maximize));
    assert!(!point(1, 0.2, false, Some(0.3)).is_wrong_stop(Minimize));
    assert!(!point(1, 0.3, true, Some(0.3)).is_wrong_stop(Minimize));
    assert!(!point(1, 0.2, true, None).is_wrong_stop(Minimize));
}

/// Trials 0 to 4, out of order: two complete, two stopped, and one stopped wrongly. The incumbent
/// steps from 0.5 to 0.3.
#[test]
fn whole_and_stopped_trainings_stand_beside_the_incumbent() {
    let picture = picture(vec![
        point(3, 0.2, true, Some(0.3)),
        point(0, 0.5, false, None),
        point(2, 0.3, false, Some(0.5)),
        point(1, 0.8, true, Some(0.5)),
        point(4, 0.7, true, Some(0.3)),
    ]);
    let svg = svg(&picture);
    let (complete, stopped) = (polygons(&svg, GREEN, 3), discs(&svg, RED));
    assert_eq!((complete.len(), stopped.len()), (3, 5), "with those of the legend");
    // The wrong stop is drawn last and has the only ring in the panel.
    let wrong = stopped[4];
    assert_eq!(discs(&svg, INK).last(), Some(&wrong));
    assert!(stopped[2].0 < wrong.0 && wrong.0 < stopped[3].0);
    assert!(stopped[2].1 < stopped[3].1 && stopped[3].1 < wrong.1);
    let steps = lines(&svg, BLUE, 2).remove(0);
    let (first, last) = (steps[0], steps[steps.len() - 1]);
    assert!(first.0 < stopped[2].0 && last.0 > stopped[3].0, "{steps:?}");
    assert!((first.1 - complete[1].1).abs() < 12.0 && (last.1 - complete[2].1).abs() < 12.0);
    // The step line has two levels with two corners each.
    assert_eq!(steps.len(), 4, "{steps:?}");
    // A line joins the wrong stop to the incumbent at that time.
    let joins = lines(&svg, INK, 1);
    let from_wrong =
        |line: &&Vec<(f64, f64)>| (line[0].0 - wrong.0).hypot(line[0].1 - wrong.1) < 1.5;
    let to = joins.iter().find(from_wrong).expect("a line to the incumbent")[1];
    assert!((to.1 - last.1).abs() < 1.5, "{to:?} {last:?}");
    assert_says(
        &svg,
        &[
            "CNN &amp; more",
            "trial",
            "validation error (smaller is better)",
            "trained to the end",
            "stopped: value it would have reached",
            "stopped wrongly: better than the best so far",
            "best so far",
            "5 trials, 3 stopped, 1 of them wrongly: trial 3",
        ],
    );
}

#[test]
fn the_footnote_names_a_few_wrong_stops() {
    let none = svg(&picture(vec![point(0, 0.5, true, None)]));
    assert_says(&none, &["1 trial, 1 stopped, none of them wrongly"]);
    let wrong = |n: u64| (1..=n).map(|trial| point(trial, 0.1, true, Some(0.2))).collect();
    assert!(svg(&picture(wrong(2))).contains("2 of them wrongly: trials 1, 2"));
    assert!(
        svg(&picture(wrong(9))).contains("9 of them wrongly: trials 1, 2, 3, 4, 5, 6, 7, 8, …")
    );
}

#[test]
fn the_legend_names_only_what_is_there() {
    let whole = svg(&picture(vec![point(0, 0.5, false, None)]));
    assert_says(&whole, &["1 trial, none stopped"]);
    assert!(!whole.contains("would have reached") && !whole.contains("best so far"));
    assert!(svg(&picture(Vec::new())).contains("no trial has ended"));
}

#[test]
fn the_same_picture_is_the_same_files() {
    let picture = study(300);
    let (svg, png) = files(|folder| picture.write(folder));
    assert!(svg.len() < 500_000, "{}", svg.len());
    assert_eq!((svg, png), files(|folder| picture.write(folder)));
}

#[test]
fn awkward_values_are_drawn_too() {
    for values in [
        vec![0.5; 6],
        vec![1.0, 1.1, 1.2, 1.3, 1.25, 1e9],
        vec![1e-5, 1.0, 0.1, 0.02],
        vec![f64::MAX, f64::MIN, 0.0, 1.0, 2.0],
        vec![5e-324, 1e300],
    ] {
        for direction in [Minimize, Maximize] {
            for stopped in [true, false] {
                let points = values.iter().zip(0..);
                let points =
                    points.map(|(value, trial)| point(trial * 7, *value, stopped, Some(values[0])));
                let mut picture = picture(points.collect());
                picture.direction = direction;
                let svg = svg(&picture);
                assert_eq!(svg.contains("would have reached"), stopped);
            }
        }
    }
    let numbers = picture(vec![point(u64::MAX, 1.0, true, None), point(0, 2.0, false, Some(3.0))]);
    svg(&numbers);
}

#[test]
fn what_cannot_be_drawn_is_named() {
    let message = |value, incumbent, scale| {
        let mut picture = study(4);
        picture.scale = scale;
        picture.points.push(point(9, value, true, incumbent));
        refused(|folder| picture.write(folder))
    };
    assert!(message(f64::NAN, None, None).contains("trial 9 has the value NaN"));
    let incumbent = message(0.5, Some(f64::NEG_INFINITY), None);
    assert!(incumbent.contains("trial 9 has the incumbent -inf"), "{incumbent}");
    assert!(message(-1.0, None, Some(Scale::Log)).contains("a logarithmic axis cannot show"));
}
