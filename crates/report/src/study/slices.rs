//! `slices`: the value against each parameter, one panel per parameter.

use fedbo_space::Kind;

use super::{INFEASIBLE, PlottedParameter, PlottedValue, StudyPlot, within_magnitude};
use crate::chart::axis::Axis;
use crate::chart::style::{Glyph, INK, VERMILION, color_of_order, grid, size_for, tick_font};
use crate::chart::text::Font;
use crate::chart::values::ValueAxis;
use crate::chart::{Chart, Key, Panel, Sign, at, in_strip};

/// Height of the strip for failed trials.
const STRIP: f64 = 15.0;
/// Maximum number of integer values that are shown in columns, like choices.
const N_WHOLE_COLUMNS: f64 = 12.0;

pub(super) fn chart(study: &StudyPlot) -> Chart {
    let values = study.value_axis();
    let (n_columns, size) = grid(study.parameters.len());
    let names: Vec<&str> = study.parameters.iter().map(|p| p.name.as_str()).collect();
    let title = Font { bold: true, ..tick_font(n_columns) };
    let names = title.cut_apart(&names, size.0 + 10.0);
    let parameters = study.parameters.iter().zip(names).enumerate();
    let mut keys = Vec::new();
    if study.best().is_some() {
        keys.push(Key::new(Sign::Order, "first to last trial"));
        let sign = Sign::Point(Glyph::best(VERMILION));
        keys.push(Key::new(sign, "best"));
    }
    keys.extend(study.keys_of_borders(&values));
    Chart {
        title: study.title.clone(),
        keys,
        panels: parameters
            .map(|(index, (parameter, title))| Panel {
                title,
                cell: (index / n_columns, index % n_columns),
                y_labels: index % n_columns == 0,
                ..panel(study, (index, parameter), size, &values)
            })
            .collect(),
        y_label: study.value_label(),
        footnote: study.footnote(),
        ..Chart::default()
    }
}

fn panel(
    study: &StudyPlot,
    (index, parameter): (usize, &PlottedParameter),
    size: (f64, f64),
    values: &ValueAxis,
) -> Panel {
    let is_wide = size.0 > 400.0;
    let x = Axis::of_range(&parameter.range, if size.0 > 300.0 { 8 } else { 5 }, Axis::columns);
    let y = values.axis.with_ticks(if is_wide { 7 } else { 5 });
    let mut panel =
        Panel { strip: study.strip(STRIP), nothing: study.nothing(), ..Panel::new(size, x, y) };
    let n_trials = study.trials.len();
    let mark = size_for(n_trials, 120.0, (1.3, if is_wide { 4.0 } else { 3.4 }));
    let best = study.best();
    let mut last = Vec::new();
    for (trial_idx, trial) in study.trials.iter().enumerate() {
        let coordinate = trial.coordinates.get(index);
        let Some(x) = coordinate.and_then(|value| place(parameter, *value, trial_idx)) else {
            continue;
        };
        match trial.drawn() {
            None => panel.points(vec![in_strip(x, 0.5)], Glyph::failed(INK), mark),
            Some(value) if values.is_beyond(value) => study.beyond(&mut panel, x, mark),
            Some(value) if !trial.feasible => {
                panel.points(vec![at(x, value)], INFEASIBLE.1, mark);
            }
            Some(value) => {
                let share = trial_idx as f64 / n_trials.saturating_sub(1).max(1) as f64;
                panel.points(vec![at(x, value)], Glyph::disc(color_of_order(share)), mark);
                last.extend((best == Some(trial_idx)).then(|| at(x, value)));
            }
        }
    }
    panel.points(last, Glyph::best(VERMILION), mark.max(3.0));
    panel
}

/// Returns the position of a value on its axis; `None` if it does not fit the parameter.
///
/// Trials with the same choice, or with the same one of a few integers, are spread over its column.
fn place(parameter: &PlottedParameter, value: PlottedValue, trial_idx: usize) -> Option<f64> {
    // Multiples of the golden ratio fill an interval evenly.
    let jitter = (0.5 + trial_idx as f64 * 0.618_033_988_749_895).fract() - 0.5;
    value.place(&parameter.range, (0.36 * jitter, 0.6 * jitter), N_WHOLE_COLUMNS)
}

impl PlottedValue {
    /// Returns the position of the value on its parameter's axis; `None` if it does not fit the
    /// parameter.
    ///
    /// A choice, or one of a few integers, may be shifted within its row or column by a fraction of
    /// the width.
    pub(crate) fn place(
        self,
        range: &Kind,
        (whole, choice): (f64, f64),
        n_few: f64,
    ) -> Option<f64> {
        match self {
            Self::Number(number) => {
                let numbers = range.numbers()?;
                let is_few = range.n_values().is_some_and(|n_values| n_values as f64 <= n_few);
                let shift = match numbers.step {
                    Some(step) if is_few && !numbers.log => whole * step,
                    _ => 0.0,
                };
                number.is_finite().then(|| within_magnitude(number) + shift)
            }
            Self::Choice(index) => {
                (index < range.choices().len()).then_some(index as f64 + 0.5 + choice)
            }
        }
    }
}
