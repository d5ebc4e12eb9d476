//! `history`: the value of each trial, and the best value so far.

use super::{INFEASIBLE, StudyPlot, order_label};
use crate::chart::axis::Axis;
use crate::chart::style::{BLUE, Glyph, INK, LINE_WIDTH, Stroke, VERMILION, grid, size_for};
use crate::chart::{At, Chart, Key, Panel, Sign, at, in_strip};

/// Height of the strip for failed trials.
const STRIP: f64 = 20.0;

pub(super) fn chart(study: &StudyPlot) -> Chart {
    let values = study.value_axis();
    let (x_label, numbers) = order_label(study);
    let first = numbers.first().copied().unwrap_or(0.0);
    let last = numbers.last().copied().unwrap_or(1.0);
    let x = Axis::whole(first, last, 8);
    let mut panel = Panel {
        strip: study.strip(STRIP),
        nothing: study.nothing(),
        ..Panel::new(grid(1).1, x, values.axis.clone())
    };
    panel.line(best_so_far(study, &numbers), Stroke::solid(VERMILION, LINE_WIDTH));
    let size = size_for(study.trials.len(), 120.0, (1.3, 4.0));
    let (trial, initial) = (Glyph::disc(BLUE), Glyph::disc(BLUE).hollow());
    for (number, each) in numbers.iter().zip(&study.trials) {
        match each.drawn() {
            None => panel.points(vec![in_strip(*number, 0.5)], Glyph::failed(INK), size),
            Some(value) if values.is_beyond(value) => study.beyond(&mut panel, *number, size),
            Some(value) => {
                let glyph = match (each.feasible, each.initial) {
                    (false, _) => INFEASIBLE.1,
                    (true, true) => initial,
                    (true, false) => trial,
                };
                panel.points(vec![at(*number, value)], glyph, size);
            }
        }
    }
    let best =
        study.best().and_then(|index| Some(at(numbers[index], study.trials[index].drawn()?)));
    panel.points(best.into_iter().collect(), Glyph::best(VERMILION), size.max(3.2));

    let shown = |initial: bool| {
        let mut trials =
            study.trials.iter().filter(|trial| trial.feasible && trial.initial == initial);
        trials.any(|trial| trial.drawn().is_some_and(|value| !values.is_beyond(value)))
    };
    let mut keys = Vec::new();
    for (is_shown, glyph, text) in
        [(shown(true), initial, "initial trial"), (shown(false), trial, "trial")]
    {
        keys.extend(is_shown.then(|| Key::new(Sign::Point(glyph), text)));
    }
    if best.is_some() {
        let stroke = Stroke::solid(VERMILION, LINE_WIDTH);
        let sign = Sign::curve(stroke, Glyph::best(VERMILION));
        keys.push(Key::new(sign, "best so far"));
    }
    keys.extend(study.keys_of_borders(&values));
    Chart {
        title: study.title.clone(),
        keys,
        panels: vec![panel],
        x_label: x_label.to_owned(),
        y_label: study.value_label(),
        footnote: study.footnote(),
        ..Chart::default()
    }
}

/// Returns the corners of the step line that shows the best value so far.
fn best_so_far(study: &StudyPlot, numbers: &[f64]) -> Vec<At> {
    let mut corners: Vec<At> = Vec::new();
    let mut best: Option<f64> = None;
    for (number, trial) in numbers.iter().zip(&study.trials) {
        let Some(value) = trial.drawn().filter(|_| trial.feasible) else { continue };
        if best.is_some_and(|best| !study.is_better(value, best)) {
            continue;
        }
        corners.extend(best.map(|best| at(*number, best)));
        corners.push(at(*number, value));
        best = Some(value);
    }
    corners.extend(best.zip(numbers.last()).map(|(best, last)| at(*last, best)));
    corners
}
