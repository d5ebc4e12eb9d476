//! Tests of `learning-curves`.

use fedbo_space::Direction::{Maximize, Minimize};

use super::*;
use crate::chart::Scale;
use crate::chart::svg::says;

const N_EPOCHS: u32 = 50;

/// Returns the error of a training run, which decays to the run's own level, with some noise.
fn error_at(trial: usize, epoch: u32) -> f64 {
    let level = 0.03 + 0.5 * noise(trial + 1).powi(2);
    let rate = 0.05 + 0.25 * noise(trial + 1000);
    let jitter = 0.012 * (noise(trial * 97 + epoch as usize) - 0.5);
    level + (0.9 - level) * (-rate * f64::from(epoch)).exp() + jitter
}

fn line(trial: u64, ended: CurveEnd, values: &[f64]) -> LearningCurveLine {
    LearningCurveLine {
        trial,
        values: (1..).zip(values.iter().copied()).collect(),
        ended,
        rest: Vec::new(),
    }
}

fn picture(lines: Vec<LearningCurveLine>) -> LearningCurvesPicture {
    LearningCurvesPicture {
        title: "a < b".to_owned(),
        y_label: "validation error".to_owned(),
        n_epochs: N_EPOCHS,
        direction: Minimize,
        scale: None,
        lines,
    }
}

/// Creates a study of `n_trials` trials. A trial is stopped at the first epoch from 8 on with a
/// high error. The second to last trial has failed, and the last one is running.
pub(super) fn study(n_trials: usize) -> LearningCurvesPicture {
    let trial = |index: usize| {
        let all: Vec<(u32, f64)> =
            (1..=N_EPOCHS).map(|epoch| (epoch, error_at(index, epoch))).collect();
        let stops =
            |(epoch, error): &&(u32, f64)| *epoch >= 8 && *error > 0.16 + 1.2 / f64::from(*epoch);
        let stop = all.iter().find(stops).map(|(epoch, _)| *epoch);
        let (n_trained, ended) = match (n_trials - index, stop) {
            (1, _) => (20, CurveEnd::Running),
            (2, _) => (13, CurveEnd::Failed),
            (_, Some(epoch)) => (epoch as usize, CurveEnd::Stopped),
            (_, None) => (all.len(), CurveEnd::Complete),
        };
        let (values, rest) = all.split_at(n_trained);
        LearningCurveLine {
            trial: index as u64,
            values: values.to_vec(),
            ended,
            rest: if ended == CurveEnd::Stopped { rest.to_vec() } else { Vec::new() },
        }
    };
    picture((0..n_trials).map(trial).collect())
}

fn svg(picture: &LearningCurvesPicture) -> String {
    files(|folder| picture.write(folder)).0
}

#[test]
fn each_training_has_a_line_and_a_mark_at_its_end() {
    let stopped = LearningCurveLine {
        rest: vec![(4, 0.72), (5, 0.7), (6, 0.69)],
        ..line(2, CurveEnd::Stopped, &[0.9, 0.8, 0.75])
    };
    let picture = picture(vec![
        line(0, CurveEnd::Complete, &[0.9, 0.7, 0.6, 0.5, 0.4]),
        line(1, CurveEnd::Complete, &[0.8, 0.6, 0.4, 0.3, 0.2]),
        stopped,
        line(3, CurveEnd::Failed, &[0.85, 0.65]),
        line(4, CurveEnd::Running, &[0.7, 0.5, 0.45, 0.4]),
    ]);
    let svg = svg(&picture);
    // The legend comes first, so the first marker of each kind is in the legend.
    let best = polygons(&svg, INK, 4);
    assert_eq!(best.len(), 2);
    let complete = polygons(&svg, GREEN, 3);
    let (stop, failed) = (discs(&svg, RED), polygons(&svg, INK, 12));
    let running = discs(&svg, BLUE);
    let of_panel = [&best, &complete, &stop, &failed, &running].map(|marks| marks[marks.len() - 1]);
    let [best, complete, stop, failed, running] = of_panel;
    assert_eq!((discs(&svg, RED).len(), polygons(&svg, GREEN, 3).len()), (2, 2));
    // From left to right: failed after 2, stopped after 3, running after 4, complete after 5;
    // smaller errors are lower.
    assert!(failed.0 < stop.0 && stop.0 < running.0 && running.0 < best.0);
    assert!((best.0 - complete.0).abs() <= 1.0 && best.1 > complete.1);
    assert!(stop.1 < failed.1 && failed.1 < complete.1);
    // The best line is the thickest, drawn after all others.
    let last = *elements(&svg, "polyline").last().expect("a line");
    assert_eq!((attribute(last, "stroke"), attribute(last, "stroke-width")), (INK, "11"));
    assert_eq!(corners(last).len(), 5);
    assert_says(
        &svg,
        &[
            "a &lt; b",
            "epoch",
            "validation error (smaller is better)",
            "best: trial 1",
            "trained to the end (2)",
            "stopped early (1)",
            "failed (1)",
            "still training (1)",
            "if continued",
            "5 trials, 1 stopped: 15 of 200 epochs trained; best: trial 1 with 0.2",
        ],
    );
}

#[test]
fn the_best_is_the_one_whose_direction_says_so() {
    let mut picture = picture(vec![
        line(7, CurveEnd::Complete, &[0.1, 0.9]),
        line(8, CurveEnd::Complete, &[0.5, 0.6]),
        line(9, CurveEnd::Stopped, &[0.99]),
    ]);
    assert!(svg(&picture).contains("best: trial 8 with 0.6"));
    picture.direction = Maximize;
    let svg = svg(&picture);
    assert!(svg.contains("best: trial 7 with 0.9") && svg.contains("larger is better"));
}

/// Besides a dozen normal training runs, two diverge: one is trained to the end, the other fails.
/// The normal ones still fill the height of the picture, and the footnote counts the values off the
/// axis.
#[test]
fn diverged_trainings_do_not_press_the_others_together() {
    let sound = study(12);
    let mut diverged = sound.clone();
    let extent = |svg: &str| {
        let best = lines(svg, INK, 20).into_iter().flatten();
        let (low, high) =
            best.fold((f64::MAX, f64::MIN), |(low, high), (_, y)| (low.min(y), high.max(y)));
        high - low
    };
    let grows = |factor: f64, n_epochs: i32| (1..=n_epochs).map(move |e| 0.9 * factor.powi(e));
    let lines_of = |ended, values: Vec<f64>| line(12, ended, &values);
    diverged.lines.push(lines_of(CurveEnd::Complete, grows(1.4, 50).collect()));
    let whole = svg(&diverged);
    let share = extent(&whole) / extent(&svg(&sound));
    assert!(share > 0.35, "{share}");
    // The typical worst value is 0.76 from the best value, 0.1. Twice that distance, 1.62, is below
    // 0.9 · 1.4² and above 0.9 · 1.4.
    let says = |svg: &str, end: &str| texts(svg).iter().any(|(text, _)| text.ends_with(end));
    assert!(says(&whole, "; 49 values of trial 12 off the axis"), "{:?}", texts(&whole));

    diverged
        .lines
        .push(LearningCurveLine { trial: 13, ..lines_of(CurveEnd::Failed, vec![0.8, 1e6, 3e6]) });
    let both = svg(&diverged);
    assert!(says(&both, "; 51 values of 2 trials off the axis"), "{:?}", texts(&both));
    assert!(!svg(&sound).contains("off the axis"));
}

/// Without stopped runs, the text does not mention them. Without complete runs, there is no best
/// one.
#[test]
fn the_legend_names_only_what_is_there() {
    let whole = svg(&picture(vec![line(0, CurveEnd::Complete, &[0.9, 0.4])]));
    assert!(!whole.contains("stopped") && !whole.contains("trained to the end"));
    assert_says(&whole, &["best: trial 0", "1 trial; best: trial 0 with 0.4"]);
    let running = svg(&picture(vec![line(0, CurveEnd::Running, &[0.9])]));
    assert!(!running.contains("best:"));
    assert!(svg(&picture(Vec::new())).contains("no training has reported a value"));
    let silent = picture(vec![line(0, CurveEnd::Failed, &[])]);
    assert!(svg(&silent).contains("no training has reported a value"));
}

#[test]
fn three_hundred_trainings_are_a_small_file_and_equal_each_time() {
    let picture = study(300);
    let (svg, png) = files(|folder| picture.write(folder));
    assert!(svg.len() < 4_000_000, "{}", svg.len());
    assert_eq!((svg, png), files(|folder| picture.write(folder)));
}

#[test]
fn very_long_trainings_are_thinned_and_keep_their_peaks() {
    let mut values: Vec<f64> = (0..60_000).map(|index| 0.5 + 0.1 * noise(index)).collect();
    values[31_415] = 0.95;
    let mut picture = picture(vec![line(0, CurveEnd::Stopped, &values)]);
    picture.n_epochs = 60_000;
    let svg = svg(&picture);
    let lines = lines(&svg, "#D8664C", 100);
    assert_eq!(lines.len(), 1, "{svg:.3000}");
    assert!(lines[0].len() <= 4 * 600, "{}", lines[0].len());
    let top = lines[0].iter().map(|at| at.1).fold(f64::INFINITY, f64::min);
    let mut heights: Vec<f64> = lines[0].iter().map(|at| at.1).collect();
    heights.sort_by(f64::total_cmp);
    assert!(heights[1] - top > 500.0, "the peak is isolated: {top} {}", heights[1]);
}

/// The axis is logarithmic automatically or on request. An impossible request is refused.
#[test]
fn the_axis_of_values_can_be_logarithmic() {
    let mut picture = picture(vec![
        line(0, CurveEnd::Complete, &[1.0, 0.1, 0.001]),
        line(1, CurveEnd::Stopped, &[2.0, 0.9]),
    ]);
    assert_says(&svg(&picture), &["0.001", "0.01", "0.1", "1"]);
    picture.scale = Some(Scale::Linear);
    assert!(!says(&svg(&picture), "0.01"));
    picture.scale = Some(Scale::Log);
    picture.lines[1].values[0].1 = -2.0;
    assert!(
        refused(|folder| picture.write(folder))
            .contains("a logarithmic axis cannot show the value -2")
    );
}

/// The line of a diverging run leaves the axis where it crosses the end. The run's marker is in the
/// strip above.
#[test]
fn a_training_that_diverges_does_not_press_the_others_together() {
    let mut picture = study(12);
    picture.scale = Some(Scale::Linear);
    picture.lines.push(line(99, CurveEnd::Failed, &[0.9, 0.8, 50.0, 1e4, 0.8, 1e6]));
    let svg = svg(&picture);
    let failed: Vec<_> = polygons(&svg, INK, 12);
    let strip = failed.last().expect("a mark").1;
    let line = lines(&svg, "#5F5F5F", 2);
    let highest = line.iter().flatten().map(|at| at.1).fold(f64::INFINITY, f64::min);
    assert!(strip < highest, "{strip} {highest}");
    // One piece before the first crossing, and one around 0.8 between two crossings.
    assert_eq!(line.iter().map(Vec::len).filter(|n| *n == 3).count(), 2, "{line:?}");
    assert!(says(&svg, "worse"));
}

#[test]
fn awkward_values_are_drawn_too() {
    let ends = [CurveEnd::Complete, CurveEnd::Stopped, CurveEnd::Failed, CurveEnd::Running];
    for values in [
        vec![0.5; 9],
        vec![0.5],
        vec![0.0, -0.0],
        vec![f64::MAX, f64::MIN, 0.0, 1.0, 2.0, 3.0, 4.0],
        vec![5e-324, 1e300, 1.0, 2.0, 3.0],
        vec![-1.0, -1e-3, -1e-6],
    ] {
        for direction in [Minimize, Maximize] {
            let mut picture =
                picture((0..).zip(ends).map(|(trial, end)| line(trial, end, &values)).collect());
            picture.direction = direction;
            picture.lines[1].rest = vec![(N_EPOCHS, 0.1)];
            svg(&picture);
        }
    }
    // A single epoch, and one beyond the last.
    let mut one = picture(vec![line(0, CurveEnd::Complete, &[0.4])]);
    (one.n_epochs, one.title, one.y_label) = (1, String::new(), String::new());
    assert!(svg(&one).contains("value (smaller is better)"));
    one.lines[0].values = vec![(0, 1.0), (u32::MAX, 0.3)];
    svg(&one);
    // Names that are too long are shortened and do not cross the edge.
    (one.title, one.y_label) = ("t".repeat(500), "y".repeat(500));
    assert!(svg(&one).contains("tt…tt"));
}

#[test]
fn what_cannot_be_drawn_is_named() {
    let message = |change: &dyn Fn(&mut LearningCurveLine)| {
        let mut picture = study(6);
        change(&mut picture.lines[2]);
        refused(|folder| picture.write(folder))
    };
    let nan = message(&|line| line.values[4].1 = f64::NAN);
    assert!(nan.contains("trial 2 has the value NaN at epoch 5"), "{nan}");
    let infinite = message(&|line| line.rest = vec![(60, f64::INFINITY)]);
    assert!(infinite.contains("trial 2 has the value inf at epoch 60"), "{infinite}");
    let twice = message(&|line| line.values[4].0 = 4);
    assert!(twice.contains("the epochs of trial 2 do not increase at 4"), "{twice}");
    let overlap = message(&|line| line.rest = vec![(3, 0.5)]);
    assert!(overlap.contains("do not increase at 3"), "{overlap}");
}
