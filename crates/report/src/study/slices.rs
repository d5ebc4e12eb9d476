//! `slices`: the value against each parameter, one panel each.

use fedbo_space::{Kind, Value};
use plotters::backend::DrawingBackend;
use plotters::style::Color;

use super::head::{Head, Sign, WIDER, color_of_order, mark_size, trial_mark};
use super::history::{draw_no_value, draw_strip, keys_of_borders, strip, y_beyond, y_label_width};
use super::value_scale::ValueScale;
use super::{PlottedParameter, PlottedTrial, PlottedValue, StudyPlot, within_magnitude};
use crate::plot::axis::Axis;
use crate::plot::canvas::{Anchor, Canvas, Font};
use crate::plot::frame::{Frame, whole_length};
use crate::plot::render::Picture;
use crate::plot::style::{EDGE, GRID, NAME, NOTE, TICK, WHITE, grid, tick_font};

/// Distance between the panels of a row.
const GUTTER: f64 = 34.0;
/// Height of a parameter's name with the room around it.
const NAME_ROOM: f64 = 24.0;
/// Distance between the labels of a row and the names of the next.
const ROW_GAP: f64 = 12.0;
/// Whole numbers get columns like choices if there are no more than this.
const N_WHOLE_COLUMNS: f64 = 12.0;
/// Height of the strip of failed trials.
const STRIP: f64 = 15.0;
/// Radius of the mark of a trial where there are few.
const LARGEST_MARK: f64 = 4.0;
/// Most room for the names of choices, set upwards.
const UPWARDS_MAX: f64 = 84.0;
/// Names of choices are set upwards where a column is narrower than this and a name does not fit.
const COLUMN_MIN: f64 = 72.0;

/// The picture with its measures.
pub(super) struct Slices<'a> {
    study: &'a StudyPlot,
    head: Head,
    scale: ValueScale,
    panels: Vec<Panel<'a>>,
    n_columns: usize,
    panel_size: (f64, f64),
    /// Left edge of the first column.
    left: f64,
    /// Upper edge of each row.
    rows: Vec<f64>,
    strip: (f64, f64),
    small: Font,
    size: (f64, f64),
}

/// One parameter.
struct Panel<'a> {
    parameter: &'a PlottedParameter,
    /// Its name, short enough for the panel.
    name: String,
    axis: Axis,
    /// Labels of the choices, and whether they are set upwards.
    choices: Option<(Vec<String>, bool)>,
}

impl<'a> Slices<'a> {
    pub(super) fn of(study: &'a StudyPlot) -> Result<Self, String> {
        let n_panels = study.parameters.len().max(1);
        let (n_columns, panel_size) = grid(n_panels);
        let small = tick_font(n_columns);
        let scale = ValueScale::of(study, if n_columns == 1 { 7 } else { 5 });
        let strip = strip(study, STRIP);
        let panel_size = (panel_size.0, panel_size.1 + strip.0 + strip.1);
        let names: Vec<&str> = study.parameters.iter().map(|p| p.name.as_str()).collect();
        let title = Font {
            bold: true,
            ..small
        };
        let names = title.shortened_apart(&names, (panel_size.0 + GUTTER - 10.0) / WIDER)?;
        let panels = study.parameters.iter().zip(names);
        let panels = panels
            .map(|(parameter, name)| Panel::of(parameter, name, panel_size.0, small))
            .collect::<Result<Vec<_>, String>>()?;

        let left = EDGE + NAME.em + 8.0 + y_label_width(study, &scale, small)? + TICK + 4.0;
        let width = n_columns as f64 * (panel_size.0 + GUTTER) - GUTTER;
        let mut keys = Vec::new();
        if study.best().is_some() {
            keys.push((Sign::Order, "first to last trial".to_owned()));
            keys.push((Sign::Best, "best".to_owned()));
        }
        keys.extend(keys_of_borders(study, &scale));
        let head = Head::of(&study.title, keys, left, left + width)?;

        let mut rows = Vec::new();
        let mut top = EDGE + head.height();
        for row in panels.chunks(n_columns) {
            let mut below: f64 = 0.0;
            for panel in row {
                below = below.max(panel.label_height(small)?);
            }
            rows.push(top + NAME_ROOM);
            top += NAME_ROOM + panel_size.1 + below + ROW_GAP;
        }
        Ok(Self {
            study,
            head,
            scale,
            panels,
            n_columns,
            panel_size,
            left,
            rows,
            strip,
            small,
            size: (left + width + EDGE + 14.0, top + NOTE.em + EDGE),
        })
    }

    fn draw_panel<DB: DrawingBackend>(
        &self,
        index: usize,
        panel: &Panel<'_>,
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        let (row, column) = (index / self.n_columns, index % self.n_columns);
        let top = self.rows[row];
        let frame = Frame {
            at: (
                self.left + column as f64 * (self.panel_size.0 + GUTTER),
                top,
            ),
            size: self.panel_size,
            strip: self.strip,
            x_axis: &panel.axis,
            y_axis: &self.scale.axis,
            small: self.small,
        };
        panel.draw_columns(&frame, canvas)?;
        frame.draw_axes(column == 0, canvas)?;
        draw_strip(&frame, column == 0, canvas)?;
        panel.draw_choices(&frame, canvas)?;
        if self.study.best().is_none() {
            draw_no_value(&frame, self.study, canvas)?;
        }
        self.draw_trials(index, panel, &frame, canvas)?;
        let title = Font {
            bold: true,
            ..self.small
        };
        canvas.text(&panel.name, (frame.x(0.0), top - 7.0), Anchor::Start, title)
    }

    fn draw_trials<DB: DrawingBackend>(
        &self,
        index: usize,
        panel: &Panel<'_>,
        frame: &Frame<'_>,
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        let n_trials = self.study.trials.len();
        let largest = if self.n_columns == 1 {
            LARGEST_MARK
        } else {
            3.4
        };
        let size = mark_size(n_trials, largest);
        let at = |trial_idx: usize, trial: &PlottedTrial, place: f64| {
            let coordinate = trial.coordinates.get(index)?;
            let x = panel.place(*coordinate, trial_idx)?;
            Some((frame.x(x), frame.y(place)))
        };
        for (trial_idx, trial) in self.study.trials.iter().enumerate() {
            let Some(value) = trial.drawn() else {
                if let Some(((x, _), y)) = at(trial_idx, trial, 0.0).zip(frame.strip_middle()) {
                    Sign::Failed.mark((x, y), size, canvas)?;
                }
                continue;
            };
            if self.scale.is_beyond(value) {
                let above = self.study.minimize;
                if let Some((x, _)) = at(trial_idx, trial, 0.0) {
                    let y = y_beyond(frame, above, size);
                    Sign::Beyond { above }.mark((x, y), size, canvas)?;
                }
            } else if let Some(at) = at(trial_idx, trial, self.scale.axis.place(value)) {
                let share = trial_idx as f64 / (n_trials.saturating_sub(1).max(1)) as f64;
                trial_mark(at, size, color_of_order(share), canvas)?;
            }
        }
        let Some(best) = self.study.best() else {
            return Ok(());
        };
        let trial = &self.study.trials[best];
        let place = self.scale.axis.place(trial.drawn().unwrap_or(0.0));
        at(best, trial, place).map_or(Ok(()), |at| Sign::Best.mark(at, size.max(3.0), canvas))
    }
}

impl Picture for Slices<'_> {
    fn size(&self) -> (u32, u32) {
        (whole_length(self.size.0), whole_length(self.size.1))
    }

    fn n_panels(&self) -> usize {
        self.panels.len()
    }

    fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        canvas.rectangle((0.0, 0.0), self.size, WHITE.mix(1.0))?;
        self.head.draw(canvas)?;
        for (index, panel) in self.panels.iter().enumerate() {
            self.draw_panel(index, panel, canvas)?;
        }
        let right = self.size.0 - EDGE - 14.0;
        let bottom = self.size.1 - EDGE;
        canvas.text(&self.study.footnote(), (right, bottom), Anchor::End, NOTE)?;
        let (first, last) = self
            .rows
            .first()
            .zip(self.rows.last())
            .unwrap_or((&0.0, &0.0));
        let middle = f64::midpoint(*first, last + self.panel_size.1);
        canvas.text_upwards(
            self.study.value_label(),
            (EDGE + NAME.cap_height(), middle),
            Anchor::Middle,
            NAME,
        )
    }
}

impl<'a> Panel<'a> {
    fn of(
        parameter: &'a PlottedParameter,
        name: String,
        width: f64,
        font: Font,
    ) -> Result<Self, String> {
        let n_ticks = if width > 300.0 { 8 } else { 5 };
        let fitted = |make: &dyn Fn(u32) -> Axis| {
            Axis::fitted(make, n_ticks, (width, GUTTER / 2.0 - 3.0), font)
        };
        let numbers = |low: f64, high: f64, log: bool, whole: bool| {
            let (low, high) = (within_magnitude(low), within_magnitude(high));
            let (low, high) = (low.min(high), low.max(high));
            if log && low > 0.0 {
                fitted(&|n_ticks| Axis::log(low.log10(), high.log10(), n_ticks))
            } else if whole {
                fitted(&|n_ticks| Axis::whole(low, high, n_ticks))
            } else {
                fitted(&|n_ticks| Axis::linear(low, high, n_ticks))
            }
        };
        let (axis, choices) = match &parameter.range {
            Kind::Float { low, high, log } => (numbers(*low, *high, *log, false)?, None),
            Kind::Int { low, high, log } => (numbers(*low as f64, *high as f64, *log, true)?, None),
            Kind::Stepped(grid) => {
                let axis = numbers(grid.low(), grid.high(), false, grid.is_whole())?;
                (axis, None)
            }
            Kind::Categorical { choices } => {
                let texts: Vec<String> = choices.iter().map(Value::to_string).collect();
                let labels = choice_labels(&texts, width, font)?;
                (Axis::bare(), Some(labels))
            }
        };
        Ok(Self {
            parameter,
            name,
            axis,
            choices,
        })
    }

    /// Returns the place of a value across the panel; none if it does not belong to the parameter. The trials of a
    /// choice, or of one of few whole numbers, are spread over its column.
    fn place(&self, value: PlottedValue, trial_idx: usize) -> Option<f64> {
        // Multiples of the golden ratio fill an interval evenly.
        let jitter = (0.5 + trial_idx as f64 * 0.618_033_988_749_895).fract() - 0.5;
        match (value, &self.parameter.range) {
            (PlottedValue::Number(number), range) => {
                let spread = match range {
                    Kind::Categorical { .. } => return None,
                    Kind::Int { low, high, log }
                        if !*log && (*high as f64 - *low as f64) < N_WHOLE_COLUMNS =>
                    {
                        0.36
                    }
                    Kind::Stepped(grid) if (grid.n_values() as f64) <= N_WHOLE_COLUMNS => {
                        0.36 * grid.step()
                    }
                    _ => 0.0,
                };
                let at = within_magnitude(number) + spread * jitter;
                number.is_finite().then(|| self.axis.place(at))
            }
            (PlottedValue::Choice(choice), Kind::Categorical { choices }) => {
                let at = (choice as f64 + 0.5 + 0.6 * jitter) / choices.len().max(1) as f64;
                (choice < choices.len()).then_some(at)
            }
            (PlottedValue::Choice(_), _) => None,
        }
    }

    /// Height of the labels below the panel.
    fn label_height(&self, font: Font) -> Result<f64, String> {
        match &self.choices {
            Some((labels, true)) => {
                let mut widest: f64 = 0.0;
                for label in labels {
                    widest = widest.max(font.width(label)?);
                }
                Ok(TICK + 4.0 + WIDER * widest)
            }
            _ => Ok(TICK + 4.0 + font.cap_height() + 2.0),
        }
    }

    /// Parts the columns of choices.
    fn draw_columns<DB: DrawingBackend>(
        &self,
        frame: &Frame<'_>,
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        let n_choices = self.choices.as_ref().map_or(0, |(labels, _)| labels.len());
        if frame.size.0 / (n_choices.max(1) as f64) < 2.0 * LARGEST_MARK {
            return Ok(());
        }
        for index in 1..n_choices {
            let x = frame.x(index as f64 / n_choices as f64);
            let line = [(x, frame.at.1), (x, frame.at.1 + frame.size.1)];
            canvas.line(&line, GRID, 1.0, &[])?;
        }
        Ok(())
    }

    fn draw_choices<DB: DrawingBackend>(
        &self,
        frame: &Frame<'_>,
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        let Some((labels, upwards)) = &self.choices else {
            return Ok(());
        };
        let font = frame.small;
        let bottom = frame.at.1 + frame.size.1;
        for (index, label) in labels.iter().enumerate() {
            let x = frame.x((index as f64 + 0.5) / labels.len() as f64);
            if *upwards {
                let at = (x + font.cap_height() / 2.0, bottom + TICK + 2.0);
                canvas.text_upwards(label, at, Anchor::End, font)?;
            } else {
                let at = (x, bottom + TICK + 4.0 + font.cap_height());
                canvas.text(label, at, Anchor::Middle, font)?;
            }
        }
        Ok(())
    }
}

/// Names of choices as they fit below a panel, and whether they are set upwards; empty ones where there is no room.
fn choice_labels(
    choices: &[String],
    width: f64,
    font: Font,
) -> Result<(Vec<String>, bool), String> {
    let column = width / choices.len().max(1) as f64;
    let names: Vec<&str> = choices.iter().map(String::as_str).collect();
    let level = font.shortened_apart(&names, (column - 6.0) / WIDER)?;
    if level == names || column >= COLUMN_MIN {
        return Ok((level, false));
    }
    // In columns narrower than a line of text only some have room.
    let every = (1..)
        .find(|every| f64::from(*every) * column >= font.em + 1.0)
        .unwrap_or(1);
    let mut upwards = font.shortened_apart(&names, UPWARDS_MAX / WIDER)?;
    for (index, label) in (0..).zip(&mut upwards) {
        if index % every != 0 {
            label.clear();
        }
    }
    Ok((upwards, true))
}
