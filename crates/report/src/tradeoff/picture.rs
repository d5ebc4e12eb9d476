//! The trade-off picture: panels in a grid, names beside the markers, and arms without a cost as
//! named lines.

use super::{Mark, Panel, Tradeoff};
use crate::chart::axis::Axis;
use crate::chart::style::{Glyph, LABEL, Stroke, color_of_arm, grid};
use crate::chart::{self, At, Chart, Key, Label, Rule, Scale, Sign, at};
use crate::summary::Estimate;

/// Maximum width of a marker's name.
const NAME_MAX: f64 = 160.0;
/// Horizontal distance between markers that are moved apart because they are closer than half of
/// it.
const DODGE: f64 = 10.0;

pub(super) fn chart(tradeoff: &Tradeoff) -> Chart {
    let names = series_names(&tradeoff.panels);
    let (n_columns, size) = grid(tradeoff.panels.len());
    let panels = tradeoff.panels.iter().enumerate().map(|(index, panel)| chart::Panel {
        cell: (index / n_columns, index % n_columns),
        y_label: tradeoff.y_label.clone(),
        ..drawn(panel, &names, size)
    });
    let key =
        |(index, text): (usize, &String)| Key::new(Sign::Point(Glyph::of_arm(index)), text.clone());
    Chart {
        title: tradeoff.title.clone(),
        keys: names.iter().enumerate().map(key).collect(),
        panels: panels.collect(),
        footnote: footnote(tradeoff),
        ..Chart::default()
    }
}

fn drawn(panel: &Panel, names: &[String], size: (f64, f64)) -> chart::Panel {
    let is_wide = size.0 > 400.0;
    let (x, y) = axes(panel, if is_wide { (8, 7) } else { (5, 5) });
    let mut drawn = chart::Panel {
        title: panel.title.clone(),
        x_label: panel.x_label.clone(),
        ..chart::Panel::new(size, x, y)
    };
    for (index, level) in panel.levels.iter().enumerate() {
        drawn.rules.push(Rule {
            y: level.estimate.mean,
            stroke: Stroke::of_reference(index),
            name: level.name.clone(),
            ends: ends(level.estimate),
        });
    }
    let places = places_of_marks(panel, &drawn.x, size.0);
    let styles = panel.series.iter().flat_map(|series| {
        let style = names.iter().position(|name| *name == series.name).unwrap_or(0);
        series.marks.iter().map(move |mark| (mark, style))
    });
    let marks: Vec<((&Mark, usize), At)> = styles.zip(places).collect();
    for ((mark, style), at) in &marks {
        if let Some(ends) = ends(mark.estimate) {
            let color = color_of_arm(*style);
            drawn.marks.push(chart::Mark::ErrorBar { at: *at, ends, color });
        }
    }
    for ((mark, style), at) in marks {
        drawn.points(vec![at], Glyph::of_arm(style), if is_wide { 5.0 } else { 4.4 });
        if !mark.label.is_empty() {
            let text = LABEL.cut(&mark.label, NAME_MAX);
            let label = Label { at, text, font: LABEL, distance: 9.0, outward: None, below: false };
            drawn.labels.push(label);
        }
    }
    drawn
}

/// Returns the point at which each marker is drawn, series by series. Markers that would cover each
/// other are moved side by side.
fn places_of_marks(panel: &Panel, axis: &Axis, width: f64) -> Vec<At> {
    let mut places: Vec<At> = panel.marks().map(|mark| at(mark.cost, mark.estimate.mean)).collect();
    let x: Vec<f64> = places.iter().map(|at| width * axis.place(at.x)).collect();
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| x[*a].total_cmp(&x[*b]));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for index in order {
        match groups.last_mut() {
            Some(group) if x[index] - x[group[0]] < DODGE / 2.0 => group.push(index),
            _ => groups.push(vec![index]),
        }
    }
    for group in groups {
        let half = (group.len() - 1) as f64 / 2.0;
        for (place, index) in group.into_iter().enumerate() {
            places[index] = places[index].shifted(DODGE * (place as f64 - half), 0.0);
        }
    }
    places
}

/// Returns the ends of the error bar around an estimate.
fn ends(estimate: Estimate) -> Option<(f64, f64)> {
    let error = estimate.standard_error.filter(|error| error.is_finite())?;
    Some((estimate.mean - error, estimate.mean + error))
}

fn axes(panel: &Panel, n_ticks: (u32, u32)) -> (Axis, Axis) {
    let costs = || panel.marks().map(|mark| mark.cost);
    let low = costs().reduce(f64::min).unwrap_or(1.0);
    let high = costs().reduce(f64::max).unwrap_or(1.0);
    let x = match panel.scale {
        Scale::Linear => Axis::linear(low, high, n_ticks.0),
        Scale::Log => Axis::log(low.log10(), high.log10(), n_ticks.0),
    };
    let ends = panel.estimates().flat_map(|estimate| {
        let error = estimate.standard_error.unwrap_or(0.0);
        [estimate.mean - error, estimate.mean + error]
    });
    let ends: Vec<f64> = ends.filter(|end| end.is_finite()).collect();
    let low = ends.iter().copied().reduce(f64::min).unwrap_or(0.0);
    let high = ends.iter().copied().reduce(f64::max).unwrap_or(1.0);
    (x, Axis::linear(low, high, n_ticks.1))
}

/// Returns the names of the series in all panels. A name's index selects its style.
fn series_names(panels: &[Panel]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if !series.marks.is_empty() && !names.contains(&series.name) {
            names.push(series.name.clone());
        }
    }
    names
}

/// Returns the footnote: the meaning of error bars, the number of values, and the missing points.
fn footnote(tradeoff: &Tradeoff) -> String {
    let counts: Vec<usize> = tradeoff.estimates().map(|estimate| estimate.n).collect();
    let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) else {
        return "no data".to_owned();
    };
    let bars = match (least, most) {
        (1, 1) => "one run of each".to_owned(),
        _ if least == most => format!("error bars: one standard error, n = {most}"),
        _ => format!("error bars: one standard error, n = {least} to {most}"),
    };
    match tradeoff.n_missing {
        0 => bars,
        1 => format!("{bars}; 1 arm without a value is left out"),
        n => format!("{bars}; {n} arms without a value are left out"),
    }
}
