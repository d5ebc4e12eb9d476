//! `pareto`: the trials' objectives against each other, with the front.

use fedbo_space::Direction;

use super::{INFEASIBLE, PlottedTrial, StudyPlot, within_magnitude};
use crate::chart::style::{BLUE, Glyph, LINE_WIDTH, Stroke, VERMILION, grid, size_for};
use crate::chart::values::{ValueAxis, labelled};
use crate::chart::{At, Chart, Key, Panel, Sign, at};

pub(super) fn chart(study: &StudyPlot) -> Chart {
    let axes: Vec<ValueAxis> = (0..study.objectives.len()).map(|i| axis(study, i)).collect();
    let pairs: Vec<(usize, usize)> =
        (0..axes.len()).flat_map(|x| (x + 1..axes.len()).map(move |y| (x, y))).collect();
    let (n_columns, size) = grid(pairs.len());
    let shown = |is_meant: &dyn Fn(&PlottedTrial) -> bool| {
        study.trials.iter().any(|trial| has_numbers(trial) && is_meant(trial))
    };
    let is_lined = pairs.len() == 1;
    let front = match is_lined {
        true => Sign::curve(Stroke::solid(VERMILION, LINE_WIDTH), Glyph::best(VERMILION)),
        false => Sign::Point(Glyph::best(VERMILION)),
    };
    let keys = [
        (shown(&|trial| trial.on_front), front, "front: no other one dominates these"),
        (
            shown(&|trial| trial.feasible && !trial.on_front),
            Sign::Point(Glyph::disc(BLUE)),
            "other trial",
        ),
        (shown(&|trial| !trial.feasible), Sign::Point(INFEASIBLE.1), INFEASIBLE.0),
    ];
    Chart {
        title: study.title.clone(),
        keys: keys
            .into_iter()
            .filter(|(is_shown, ..)| *is_shown)
            .map(|(_, sign, text)| Key::new(sign, text))
            .collect(),
        panels: pairs
            .iter()
            .enumerate()
            .map(|(index, &(x, y))| Panel {
                cell: (index / n_columns, index % n_columns),
                ..panel(study, [(x, &axes[x]), (y, &axes[y])], size, is_lined)
            })
            .collect(),
        footnote: footnote(study),
        ..Chart::default()
    }
}

fn has_numbers(trial: &PlottedTrial) -> bool {
    trial.value.is_some()
}

fn number(trial: &PlottedTrial, objective: usize) -> Option<f64> {
    trial.numbers.get(objective).filter(|_| has_numbers(trial)).copied().map(within_magnitude)
}

fn axis(study: &StudyPlot, objective: usize) -> ValueAxis {
    let values = study.trials.iter().filter_map(|trial| number(trial, objective));
    ValueAxis::of(values, study.objectives[objective].direction, None)
        .expect("an axis that the values choose is theirs")
}

fn panel(
    study: &StudyPlot,
    axes: [(usize, &ValueAxis); 2],
    size: (f64, f64),
    is_lined: bool,
) -> Panel {
    let [x, y] = axes.map(|(objective, _)| &study.objectives[objective]);
    let n_ticks = if size.0 > 400.0 { 7 } else { 5 };
    let n_drawn = study.trials.iter().filter(|trial| has_numbers(trial)).count();
    let mark = size_for(n_drawn, 120.0, (1.3, if size.0 > 400.0 { 4.0 } else { 3.4 }));
    let mut panel = Panel {
        x_label: labelled(&x.name, x.direction),
        y_label: if is_lined { labelled(&y.name, y.direction) } else { String::new() },
        // If panels are side by side, the label of the vertical axis is above the panel.
        title: if is_lined { String::new() } else { labelled(&y.name, y.direction) },
        nothing: if n_drawn == 0 { "no trial has a value".to_owned() } else { String::new() },
        ..Panel::new(size, axes[0].1.axis.with_ticks(n_ticks), axes[1].1.axis.with_ticks(n_ticks))
    };
    let values = |trial: &PlottedTrial| {
        let [x, y] = axes.map(|(objective, _)| number(trial, objective));
        Some((x?, y?))
    };
    // A value beyond the worse end of an axis is drawn at that end.
    let place = |(x, y): (f64, f64)| {
        let [x, y] = [(x, axes[0].1), (y, axes[1].1)].map(|(value, axis)| {
            match (axis.is_beyond(value), axis.is_worse_above()) {
                (false, _) => value,
                (true, true) => f64::INFINITY,
                (true, false) => f64::NEG_INFINITY,
            }
        });
        at(x, y)
    };
    let mut draw = |is_meant: &dyn Fn(&PlottedTrial) -> bool, glyph: Glyph, size: f64| {
        let meant = study.trials.iter().filter(|trial| is_meant(trial));
        panel.points(meant.filter_map(values).map(place).collect(), glyph, size);
    };
    draw(&|trial| !trial.feasible, INFEASIBLE.1, mark);
    draw(&|trial| trial.feasible && !trial.on_front, Glyph::disc(BLUE), mark);
    let front = study.trials.iter().filter(|trial| trial.on_front).filter_map(values);
    let front: Vec<(f64, f64)> = front.collect();
    if is_lined {
        let corners = staircase(&front, x.direction, y.direction);
        panel.line(corners.into_iter().map(place).collect(), Stroke::solid(VERMILION, LINE_WIDTH));
    }
    let places: Vec<At> = front.into_iter().map(place).collect();
    panel.points(places, Glyph::best(VERMILION), mark.max(3.0));
    panel
}

/// Returns the border of the region that the front dominates. Between two adjacent points, it
/// passes through the worse of their values in each objective.
fn staircase(front: &[(f64, f64)], x: Direction, y: Direction) -> Vec<(f64, f64)> {
    let mut sorted = front.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let worse = |direction: Direction, a: f64, b: f64| match direction.is_better(a, b) {
        true => b,
        false => a,
    };
    let mut corners = Vec::with_capacity(2 * sorted.len());
    for point in sorted {
        if let Some(&(before_x, before_y)) = corners.last() {
            corners.push((worse(x, before_x, point.0), worse(y, before_y, point.1)));
        }
        corners.push(point);
    }
    corners
}

/// Returns the footnote: the numbers of all, failed and infeasible trials, and of trials on the
/// front.
fn footnote(study: &StudyPlot) -> String {
    let count = |is_meant: &dyn Fn(&PlottedTrial) -> bool| {
        study.trials.iter().filter(|trial| is_meant(trial)).count()
    };
    let mut text = match study.trials.len() {
        1 => "1 trial".to_owned(),
        n => format!("{n} trials"),
    };
    for (n, what) in [
        (count(&|trial| !has_numbers(trial)), "failed"),
        (count(&|trial| has_numbers(trial) && !trial.feasible), INFEASIBLE.0),
    ] {
        if n > 0 {
            text += &format!(", {n} {what}");
        }
    }
    text + &format!("; {} on the front", count(&|trial| trial.on_front))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_goes_around_what_the_front_dominates() {
        let front = [(3.0, 1.0), (1.0, 3.0), (2.0, 2.0)];
        use Direction::{Maximize, Minimize};
        let least = staircase(&front, Minimize, Minimize);
        assert_eq!(least, [(1.0, 3.0), (2.0, 3.0), (2.0, 2.0), (3.0, 2.0), (3.0, 1.0)]);
        let most = staircase(&front, Maximize, Maximize);
        assert_eq!(most, [(1.0, 3.0), (1.0, 2.0), (2.0, 2.0), (2.0, 1.0), (3.0, 1.0)]);
        let rising = staircase(&[(1.0, 1.0), (2.0, 2.0)], Minimize, Maximize);
        assert_eq!(rising, [(1.0, 1.0), (2.0, 1.0), (2.0, 2.0)]);
        assert_eq!(staircase(&[], Minimize, Minimize), []);
    }
}
