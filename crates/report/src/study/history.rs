//! `history`: the value of each trial, and the best so far.

use plotters::backend::DrawingBackend;
use plotters::style::Color;

use super::head::{Head, Sign, mark_size};
use super::value_scale::ValueScale;
use super::{PlottedTrial, StudyPlot};
use crate::plot::axis::Axis;
use crate::plot::canvas::{Anchor, Canvas, Font};
use crate::plot::frame::{Frame, whole_length};
use crate::plot::render::Picture;
use crate::plot::style::{
    EDGE, GREY, INK, LINE_WIDTH, NAME, NOTE, TICK, VERMILION, WHITE, grid, tick_font,
};

/// Height of the strip of failed trials.
const STRIP: f64 = 20.0;
/// The label of the strip.
pub(super) const FAILED: &str = "failed";

/// The picture with its measures.
pub(super) struct History<'a> {
    study: &'a StudyPlot,
    head: Head,
    x_axis: Axis,
    x_label: &'static str,
    /// The value of each trial on the horizontal axis.
    x_values: Vec<f64>,
    scale: ValueScale,
    small: Font,
    /// Left and upper edge of the panel.
    at: (f64, f64),
    panel_size: (f64, f64),
    strip: (f64, f64),
    size: (f64, f64),
}

impl<'a> History<'a> {
    pub(super) fn of(study: &'a StudyPlot) -> Result<Self, String> {
        let (_, panel_size) = grid(1);
        let small = tick_font(1);
        let scale = ValueScale::of(study, 7);
        let strip = strip(study, STRIP);
        let panel_size = (panel_size.0, panel_size.1 + strip.0 + strip.1);

        // Trials that were told in the order of their numbers are found by them.
        let ordered = study
            .trials
            .windows(2)
            .all(|pair| pair[0].number < pair[1].number);
        let (x_label, x_values): (_, Vec<f64>) = if ordered {
            let numbers = study.trials.iter().map(|trial| trial.number as f64);
            ("trial", numbers.collect())
        } else {
            let places = (1..=study.trials.len()).map(|place| place as f64);
            ("trial, in the order told", places.collect())
        };
        let first = x_values.first().copied().unwrap_or(0.0);
        let last = x_values.last().copied().unwrap_or(1.0);
        let x_axis = Axis::fitted(
            |n_ticks| Axis::whole(first, last, n_ticks),
            8,
            (panel_size.0, 12.0),
            small,
        )?;

        let left = EDGE + NAME.em + 8.0 + y_label_width(study, &scale, small)? + TICK + 4.0;
        let head = Head::of(&study.title, keys(study, &scale), left, left + panel_size.0)?;
        let top = EDGE + head.height();
        let under = TICK + 4.0 + small.cap_height() + 8.0 + NAME.em + 8.0 + NOTE.em + EDGE;
        Ok(Self {
            study,
            size: (
                left + panel_size.0 + EDGE + 14.0,
                top + panel_size.1 + under,
            ),
            at: (left, top),
            head,
            x_axis,
            x_label,
            x_values,
            scale,
            small,
            panel_size,
            strip,
        })
    }

    fn frame(&self) -> Frame<'_> {
        Frame {
            at: self.at,
            size: self.panel_size,
            strip: self.strip,
            x_axis: &self.x_axis,
            y_axis: &self.scale.axis,
            small: self.small,
        }
    }

    /// Corners of the line of the best so far.
    fn best_so_far(&self) -> Vec<(f64, f64)> {
        let frame = self.frame();
        let mut corners: Vec<(f64, f64)> = Vec::new();
        let mut best: Option<f64> = None;
        for (x, trial) in self.x_values.iter().zip(&self.study.trials) {
            let Some(value) = trial.drawn() else { continue };
            if best.is_some_and(|best| !self.study.is_better(value, best)) {
                continue;
            }
            let to = frame.point(*x, value);
            corners.extend(corners.last().map(|(_, y)| (to.0, *y)));
            corners.push(to);
            best = Some(value);
        }
        let end = self.x_values.last().map(|x| frame.x(self.x_axis.place(*x)));
        let level = corners.last().map(|(_, y)| *y);
        corners.extend(end.zip(level));
        corners
    }

    fn draw_trials<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        let frame = self.frame();
        let size = mark_size(self.study.trials.len(), 4.0);
        for (x, trial) in self.x_values.iter().zip(&self.study.trials) {
            let x = frame.x(self.x_axis.place(*x));
            match trial.drawn() {
                None => {
                    let y = frame.strip_middle().unwrap_or(frame.at.1);
                    Sign::Failed.mark((x, y), size, canvas)?;
                }
                Some(value) if self.scale.is_beyond(value) => {
                    let above = self.study.minimize;
                    let y = y_beyond(&frame, above, size);
                    Sign::Beyond { above }.mark((x, y), size, canvas)?;
                }
                Some(value) => {
                    let sign = if trial.initial {
                        Sign::Initial
                    } else {
                        Sign::Trial
                    };
                    let y = frame.y(self.scale.axis.place(value));
                    sign.mark((x, y), size, canvas)?;
                }
            }
        }
        let best = self.study.best();
        let best = best.and_then(|index| Some((index, self.study.trials[index].drawn()?)));
        best.map_or(Ok(()), |(index, value)| {
            Sign::Best.mark(
                frame.point(self.x_values[index], value),
                size.max(3.2),
                canvas,
            )
        })
    }
}

impl Picture for History<'_> {
    fn size(&self) -> (u32, u32) {
        (whole_length(self.size.0), whole_length(self.size.1))
    }

    fn n_panels(&self) -> usize {
        1
    }

    fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        canvas.rectangle((0.0, 0.0), self.size, WHITE.mix(1.0))?;
        self.head.draw(canvas)?;
        let frame = self.frame();
        frame.draw_axes(true, canvas)?;
        draw_strip(&frame, true, canvas)?;
        if self.study.best().is_none() {
            draw_no_value(&frame, self.study, canvas)?;
        }
        canvas.line(&self.best_so_far(), VERMILION, LINE_WIDTH, &[])?;
        self.draw_trials(canvas)?;

        let (left, right) = (frame.x(0.0), frame.x(1.0));
        let bottom = self.size.1 - EDGE;
        let x_label_at = (f64::midpoint(left, right), bottom - NOTE.em - 8.0);
        canvas.text(self.x_label, x_label_at, Anchor::Middle, NAME)?;
        canvas.text(&self.study.footnote(), (right, bottom), Anchor::End, NOTE)?;
        let middle = self.at.1 + self.panel_size.1 / 2.0;
        canvas.text_upwards(
            self.study.value_label(),
            (EDGE + NAME.cap_height(), middle),
            Anchor::Middle,
            NAME,
        )
    }
}

/// The keys of what there is.
fn keys(study: &StudyPlot, scale: &ValueScale) -> Vec<(Sign, String)> {
    let shown = |initial: bool| {
        study.trials.iter().any(|trial| {
            trial.initial == initial && trial.drawn().is_some_and(|value| !scale.is_beyond(value))
        })
    };
    let mut keys = Vec::new();
    if shown(true) {
        keys.push((Sign::Initial, "initial trial".to_owned()));
    }
    if shown(false) {
        keys.push((Sign::Trial, "trial".to_owned()));
    }
    if study.best().is_some() {
        keys.push((Sign::BestSoFar, "best so far".to_owned()));
    }
    keys.extend(keys_of_borders(study, scale));
    keys
}

/// The keys of what stands at the worse end.
pub(super) fn keys_of_borders(study: &StudyPlot, scale: &ValueScale) -> Vec<(Sign, String)> {
    let mut keys = Vec::new();
    let is_beyond = |trial: &PlottedTrial| trial.drawn().is_some_and(|v| scale.is_beyond(v));
    if study.trials.iter().any(is_beyond) {
        let above = study.minimize;
        keys.push((Sign::Beyond { above }, "worse, off the axis".to_owned()));
    }
    if study.trials.iter().any(|trial| trial.drawn().is_none()) {
        keys.push((Sign::Failed, FAILED.to_owned()));
    }
    keys
}

/// Heights above and below the axis for failed trials, at the worse end; 0 if there are none.
pub(super) fn strip(study: &StudyPlot, height: f64) -> (f64, f64) {
    if study.trials.iter().all(|trial| trial.drawn().is_some()) {
        (0.0, 0.0)
    } else if study.minimize {
        (height, 0.0)
    } else {
        (0.0, height)
    }
}

/// The picture's y of marks for values beyond the end of the axis: just inside it.
pub(super) fn y_beyond(frame: &Frame<'_>, above: bool, size: f64) -> f64 {
    if above {
        frame.y(1.0) + 1.6 * size
    } else {
        frame.y(0.0) - 1.6 * size
    }
}

/// Parts the strip from the axis and names it.
pub(super) fn draw_strip<DB: DrawingBackend>(
    frame: &Frame<'_>,
    labelled: bool,
    canvas: &Canvas<'_, DB>,
) -> Result<(), String> {
    let Some(middle) = frame.strip_middle() else {
        return Ok(());
    };
    let border = frame.y(if frame.strip.0 > 0.0 { 1.0 } else { 0.0 });
    let line = [(frame.x(0.0), border), (frame.x(1.0), border)];
    canvas.line(&line, GREY, 0.75, &[3.0, 2.5])?;
    if !labelled {
        return Ok(());
    }
    let font = frame.small;
    let at = (frame.x(0.0) - TICK - 4.0, middle + font.cap_height() / 2.0);
    canvas.text(FAILED, at, Anchor::End, Font { color: INK, ..font })
}

/// Says that there is nothing to see.
pub(super) fn draw_no_value<DB: DrawingBackend>(
    frame: &Frame<'_>,
    study: &StudyPlot,
    canvas: &Canvas<'_, DB>,
) -> Result<(), String> {
    let text = if study.trials.is_empty() {
        "no finished trial"
    } else {
        "no trial has a value"
    };
    let font = Font {
        color: GREY,
        ..NAME
    };
    let (x, y) = (frame.x(0.5), frame.y(0.5));
    let half = font.width(text)? / 2.0 + 6.0;
    canvas.rectangle(
        (x - half, y - font.em),
        (x + half, y + font.em),
        WHITE.mix(1.0),
    )?;
    canvas.text(text, (x, y + font.cap_height() / 2.0), Anchor::Middle, font)
}

/// Width of the labels left of the vertical axis.
pub(super) fn y_label_width(
    study: &StudyPlot,
    scale: &ValueScale,
    font: Font,
) -> Result<f64, String> {
    let strip = strip(study, 1.0);
    let failed = (strip.0 + strip.1 > 0.0).then_some(FAILED);
    let ticks = scale.axis.ticks.iter().map(|(_, label)| label.as_str());
    ticks
        .chain(failed)
        .try_fold(0.0_f64, |widest, label| Ok(widest.max(font.width(label)?)))
}
