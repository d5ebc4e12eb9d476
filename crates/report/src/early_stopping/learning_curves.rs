//! `learning-curves`: the values of each training run by epoch, and how the run ended, including
//! early stops (thesis Fig. A.3).

use std::path::{Path, PathBuf};

use fedbo_space::Direction;

use super::{GREEN, MARK, RED, STOPPED, number};
use crate::chart::axis::Axis;
use crate::chart::style::{BLUE, GREY, Glyph, INK, Marker, Stroke, WHITE, faded, grid, size_for};
use crate::chart::values::{ValueAxis, labelled};
use crate::chart::{At, Chart, Key, Panel, Picture, Scale, Sign, Y, at, counted, in_strip, write};
use crate::error::ReportError;

/// Maximum number of points in a curve. A longer curve is thinned to pixel resolution.
const N_POINTS_MAX: usize = 1200;
/// Approximate maximum number of dots in dotted lines, to keep the SVG small.
const N_DOTS_MAX: f64 = 12_000.0;
/// Dash patterns, each with its period, for the hypothetical continuation of stopped training runs.
/// The first pattern that produces few enough dots is used.
const DOTTED: [(f64, &[f64]); 4] =
    [(4.0, &[1.5, 2.5]), (7.0, &[3.0, 4.0]), (12.0, &[5.0, 7.0]), (24.0, &[12.0, 12.0])];
/// The golden ratio, less 1: the fractional parts of its multiples are evenly spread.
const GOLDEN: f64 = 0.618_033_988_749_894_9;
/// The line of the best training run, and the white margin around it.
const BEST: Stroke = Stroke::solid(INK, 2.75);
const AROUND_BEST: Stroke = Stroke::solid(WHITE, 5.0);

/// File names of the picture.
pub const LEARNING_CURVES_FILES: [&str; 2] = ["learning-curves.svg", "learning-curves.png"];

/// The learning curves of a study's trials.
#[derive(Clone, Debug, PartialEq)]
pub struct LearningCurvesPicture {
    /// Title at the top; empty for none.
    pub title: String,
    /// Label of the vertical axis. The direction of better values is appended.
    pub y_label: String,
    /// N: the number of epochs in a complete training run.
    pub n_epochs: u32,
    /// The direction of optimization.
    pub direction: Direction,
    /// The scale of the vertical axis. `None` selects logarithmic if all values are above 0, span
    /// more than two decades, and a logarithm spreads the better ones; linear otherwise.
    pub scale: Option<Scale>,
    /// The training runs, one line each.
    pub lines: Vec<LearningCurveLine>,
}

/// One training run.
#[derive(Clone, Debug, PartialEq)]
pub struct LearningCurveLine {
    /// The trial's number.
    pub trial: u64,
    /// The value after each epoch. Epochs increase.
    pub values: Vec<(u32, f64)>,
    /// The outcome of the training run.
    pub ended: CurveEnd,
    /// The values that the run would have had after its last epoch, if an experiment provides them.
    /// Epochs continue to increase.
    pub rest: Vec<(u32, f64)>,
}

/// The outcome of a training run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CurveEnd {
    /// The trial was trained to the end.
    Complete,
    /// The trial was stopped early.
    Stopped,
    /// The trial failed.
    Failed,
    /// The trial is still running.
    Running,
}

impl LearningCurvesPicture {
    /// Writes [`LEARNING_CURVES_FILES`] into the folder and returns their paths.
    ///
    /// Each training run is a line up to its last epoch, with a marker for how it ended. The
    /// complete run with the best last value is drawn thickest and on top. Values far worse than
    /// all others, such as those of a diverged run, are placed in a strip and counted in the
    /// footnote.
    ///
    /// # Errors
    /// Returns [`ReportError::Draw`] if a value is not finite, epochs do not increase, or `scale`
    /// requests a logarithmic axis for values that are not all above 0; returns
    /// [`ReportError::Write`] if a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        write(self.check().and_then(|()| self.chart()), folder, LEARNING_CURVES_FILES)
    }

    /// Returns the picture in memory.
    ///
    /// # Errors
    /// Same as [`LearningCurvesPicture::write`], except file errors.
    pub fn picture(&self) -> Result<Picture, ReportError> {
        let file = LEARNING_CURVES_FILES[0];
        let chart = self.check().and_then(|()| self.chart());
        let chart = chart.map_err(|message| ReportError::Draw { path: file.into(), message })?;
        Ok(chart.picture(file))
    }

    fn check(&self) -> Result<(), String> {
        for line in &self.lines {
            let trial = line.trial;
            let mut before = None;
            for (epoch, value) in line.points() {
                if !value.is_finite() {
                    return Err(format!(
                        "trial {trial} has the value {value} at epoch {epoch}, which is not a finite number"
                    ));
                }
                if before.is_some_and(|before| epoch <= before) {
                    return Err(format!("the epochs of trial {trial} do not increase at {epoch}"));
                }
                before = Some(epoch);
            }
        }
        Ok(())
    }

    /// Returns the index of the complete training run with the best last value; the first one in a
    /// tie.
    fn best(&self) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        for (index, line) in self.lines.iter().enumerate() {
            let Some((_, value)) = line.last().filter(|_| line.ended == CurveEnd::Complete) else {
                continue;
            };
            if best.is_none_or(|(_, so_far)| self.direction.is_better(value, so_far)) {
                best = Some((index, value));
            }
        }
        best.map(|(index, _)| index)
    }

    /// Returns a typical worst value: the median of the worst values of complete and stopped
    /// training runs. For an even number of runs, this is the better of the two middle values.
    ///
    /// If no run is complete or stopped, all runs count. `None` for fewer than three runs.
    fn typical_worst(&self) -> Option<f64> {
        let is_sound = |line: &&LearningCurveLine| {
            matches!(line.ended, CurveEnd::Complete | CurveEnd::Stopped)
        };
        let any_sound = self.lines.iter().any(|line| is_sound(&line));
        let lines = self.lines.iter().filter(|line| !any_sound || is_sound(line));
        let key = |value: f64| self.direction.to_maximize(value);
        let worst_of = |line: &LearningCurveLine| {
            let values = line.points().map(|(_, value)| value);
            values.min_by(|a, b| key(*a).total_cmp(&key(*b)))
        };
        let mut worst: Vec<f64> = lines.filter_map(worst_of).collect();
        worst.sort_by(|a, b| key(*b).total_cmp(&key(*a)));
        let middle = worst.len().saturating_sub(1) / 2;
        worst.get(middle).copied().filter(|_| worst.len() >= 3)
    }

    fn count(&self, ended: CurveEnd) -> usize {
        let lines = self.lines.iter();
        lines.filter(|line| line.ended == ended).count()
    }

    /// Returns the footnote: the number of trials, the share of epochs that remained after early
    /// stopping, the best trial, and the values off the axis.
    fn footnote(&self, is_beyond: impl Fn(f64) -> bool) -> String {
        let mut text = counted(self.lines.len(), "trial", "trials");
        let ended = || {
            let lines = self.lines.iter();
            lines.filter(|line| line.ended != CurveEnd::Running)
        };
        let n_stopped = self.count(CurveEnd::Stopped);
        if n_stopped > 0 {
            let last_epochs = ended().filter_map(|line| Some(u64::from(line.last()?.0)));
            let trained: u64 = last_epochs.sum();
            let all = ended().map(|_| u64::from(self.n_epochs)).sum::<u64>();
            text += &format!(", {n_stopped} stopped: {trained} of {all} epochs trained");
        }
        let best = self.best().map(|index| &self.lines[index]);
        if let Some((line, (_, value))) = best.and_then(|line| Some((line, line.last()?))) {
            text += &format!("; best: trial {} with {}", line.trial, number(value));
        }
        let n_beyond = |line: &LearningCurveLine| {
            let values = line.values.iter();
            values.filter(|(_, value)| is_beyond(*value)).count()
        };
        let beyond: Vec<(u64, usize)> = self
            .lines
            .iter()
            .map(|line| (line.trial, n_beyond(line)))
            .filter(|(_, n_values)| *n_values > 0)
            .collect();
        let n_values = beyond.iter().map(|(_, n_values)| n_values).sum();
        let values = counted(n_values, "value", "values");
        match beyond[..] {
            [] => {}
            [(trial, _)] => text += &format!("; {values} of trial {trial} off the axis"),
            _ => text += &format!("; {values} of {} trials off the axis", beyond.len()),
        }
        text
    }

    fn chart(&self) -> Result<Chart, String> {
        let values = self.lines.iter().flat_map(LearningCurveLine::points);
        let values = values.map(|(_, value)| value);
        let y = ValueAxis::of_curves(values, self.typical_worst(), self.direction, self.scale)?;
        let epochs = self.lines.iter().flat_map(LearningCurveLine::points).map(|(epoch, _)| epoch);
        let first = epochs.clone().min().unwrap_or(1).min(1);
        let last = epochs.max().unwrap_or(1).max(self.n_epochs);
        let x = Axis::whole(f64::from(first), f64::from(last), 8);
        let mut panel = Panel { strip: y.strip(), ..Panel::new(grid(1).1, x, y.axis.clone()) };
        let n_rests = self.lines.iter().filter(|line| !line.rest.is_empty()).count();
        let mut rest = Stroke {
            dash: DOTTED[0].1,
            ..Stroke::solid(
                faded(RED, if n_rests > 60 { 50 } else { 75 }),
                size_for(n_rests, 40.0, (0.7, 1.0)),
            )
        };
        let on_axis = OnAxis { y: &y, x: panel.x.clone(), size: panel.size };
        let rests: Vec<Vec<Vec<At>>> = self
            .lines
            .iter()
            .map(|line| match (line.rest.is_empty(), line.last()) {
                (true, _) | (_, None) => Vec::new(),
                (_, Some(last)) => on_axis.pieces(&[&[last], &line.rest[..]].concat()),
            })
            .collect();
        let length: f64 = rests.iter().flatten().map(|piece| on_axis.length(piece)).sum();
        let is_few = |(period, _): &&(f64, &'static [f64])| length / period <= N_DOTS_MAX;
        rest.dash = DOTTED.iter().find(is_few).map_or(DOTTED[3].1, |(_, dash)| dash);
        // Shift the dots so that those of different lines are not aligned vertically.
        let period: f64 = rest.dash.iter().sum();
        for (index, pieces) in rests.into_iter().enumerate() {
            let skip = period * (index as f64 * GOLDEN).fract();
            pieces.into_iter().for_each(|piece| panel.line(piece, Stroke { skip, ..rest }));
        }

        let best = self.best();
        // Complete runs are drawn on top, and all markers above all lines.
        let order = [CurveEnd::Failed, CurveEnd::Stopped, CurveEnd::Running, CurveEnd::Complete];
        let of_end = order.map(|ended| {
            let lines = self.lines.iter().enumerate();
            let others = lines.filter(|(index, line)| line.ended == ended && Some(*index) != best);
            (ended, others.map(|(_, line)| line).collect::<Vec<_>>())
        });
        for (ended, lines) in &of_end {
            let stroke = ended.stroke(self.lines.len());
            for line in lines {
                on_axis
                    .pieces(&line.values)
                    .into_iter()
                    .for_each(|piece| panel.line(piece, stroke));
            }
        }
        let size = size_for(self.lines.len(), 40.0, (1.8, MARK));
        let end = |line: &LearningCurveLine| {
            let (epoch, value) = line.last()?;
            let x = f64::from(epoch);
            Some(if y.is_beyond(value) { in_strip(x, 0.5) } else { at(x, value) })
        };
        for (ended, lines) in &of_end {
            panel.points(lines.iter().filter_map(|line| end(line)).collect(), ended.glyph(), size);
        }
        if let Some(best) = best.map(|index| &self.lines[index]) {
            for stroke in [AROUND_BEST, BEST] {
                on_axis
                    .pieces(&best.values)
                    .into_iter()
                    .for_each(|piece| panel.line(piece, stroke));
            }
            panel.points(end(best).into_iter().collect(), Glyph::best(INK), MARK);
        }
        if self.lines.iter().all(|line| line.values.is_empty()) {
            panel.nothing = "no training has reported a value".to_owned();
        }
        Ok(Chart {
            title: self.title.clone(),
            keys: self.keys(rest),
            panels: vec![panel],
            x_label: "epoch".to_owned(),
            y_label: labelled(&self.y_label, self.direction),
            footnote: self.footnote(|value| y.is_beyond(value)),
            ..Chart::default()
        })
    }

    /// Returns the legend entries of the lines and marks in use.
    fn keys(&self, rest: Stroke) -> Vec<Key> {
        let best = self.best();
        let mut keys: Vec<Key> = best
            .map(|index| {
                Key::new(
                    Sign::Ending(BEST, Glyph::best(INK)),
                    format!("best: trial {}", self.lines[index].trial),
                )
            })
            .into_iter()
            .collect();
        for (ended, words) in [
            (CurveEnd::Complete, "trained to the end"),
            (CurveEnd::Stopped, "stopped early"),
            (CurveEnd::Failed, "failed"),
            (CurveEnd::Running, "still training"),
        ] {
            let n = self.count(ended);
            if n > usize::from(ended == CurveEnd::Complete && best.is_some()) {
                let sign = Sign::Ending(ended.stroke(1), ended.glyph());
                keys.push(Key::new(sign, format!("{words} ({n})")));
            }
        }
        if self.lines.iter().any(|line| !line.rest.is_empty()) {
            let sign = Sign::line(rest);
            keys.push(Key::new(sign, "if continued"));
        }
        keys
    }
}

impl CurveEnd {
    fn glyph(self) -> Glyph {
        match self {
            Self::Complete => Glyph::new(Marker::TriangleUp, GREEN),
            Self::Stopped => STOPPED,
            Self::Failed => Glyph::new(Marker::Cross, INK),
            Self::Running => Glyph::disc(BLUE).hollow(),
        }
    }

    /// Returns the line style of one of `n_lines` training runs: thinner and paler if there are
    /// many.
    fn stroke(self, n_lines: usize) -> Stroke {
        let (color, percent, dash): (_, _, &[f64]) = match self {
            Self::Complete => (GREEN, 100, &[]),
            Self::Stopped => (RED, 75, &[]),
            Self::Failed => (GREY, 100, &[]),
            Self::Running => (BLUE, 100, &[7.0, 3.0]),
        };
        let crowded = match n_lines {
            0..=30 => 100,
            31..=100 => 80,
            _ => 60,
        };
        let color = faded(color, percent * crowded / 100);
        Stroke { dash, ..Stroke::solid(color, size_for(n_lines, 40.0, (0.7, 1.5))) }
    }
}

/// The axes for curves that may have values off the vertical axis.
struct OnAxis<'a> {
    y: &'a ValueAxis,
    x: Axis,
    size: (f64, f64),
}

impl OnAxis<'_> {
    /// Converts a position to panel lengths.
    fn length_of(&self, point: &At) -> (f64, f64) {
        let value = match point.y {
            Y::Value(value) | Y::Strip(value) => value,
        };
        (self.x.place(point.x) * self.size.0, self.y.axis.place(value) * self.size.1)
    }

    fn length(&self, piece: &[At]) -> f64 {
        let places: Vec<(f64, f64)> = piece.iter().map(|point| self.length_of(point)).collect();
        places.windows(2).map(|pair| (pair[1].0 - pair[0].0).hypot(pair[1].1 - pair[0].1)).sum()
    }

    /// Returns the pieces of a curve that are on the axis.
    fn pieces(&self, points: &[(u32, f64)]) -> Vec<Vec<At>> {
        let above = self.y.is_worse_above();
        let (end, edge) = if above { (1.0, f64::INFINITY) } else { (0.0, f64::NEG_INFINITY) };
        let mut pieces: Vec<Vec<At>> = Vec::new();
        let mut before: Option<(f64, f64, bool)> = None;
        for (epoch, value) in points {
            let (x, place, beyond) =
                (f64::from(*epoch), self.y.place(*value), self.y.is_beyond(*value));
            // The point where the line crosses the end of the axis.
            let crossing =
                before.filter(|before| before.2 != beyond).map(|(from, from_place, _)| {
                    let share = (end - from_place) / (place - from_place);
                    at(from + share.clamp(0.0, 1.0) * (x - from), edge)
                });
            if !beyond {
                if before.is_none_or(|before| before.2) {
                    pieces.push(crossing.into_iter().collect());
                }
                if let Some(piece) = pieces.last_mut() {
                    piece.push(at(x, *value));
                }
            } else if let (Some(piece), Some(crossing)) = (pieces.last_mut(), crossing) {
                piece.push(crossing);
            }
            before = Some((x, place, beyond));
        }
        pieces.into_iter().map(|piece| self.thinned(piece)).collect()
    }

    /// Thins a long line to its first, lowest, highest and last point in each unit of width.
    fn thinned(&self, points: Vec<At>) -> Vec<At> {
        if points.len() <= N_POINTS_MAX {
            return points;
        }
        let column_of = |point: &At| self.length_of(point).0.floor();
        let mut kept = Vec::new();
        for column in points.chunk_by(|a, b| (column_of(a) - column_of(b)).abs() < 0.5) {
            let height = |index: &usize| self.length_of(&column[*index]).1;
            let by_height = |a: &usize, b: &usize| height(a).total_cmp(&height(b));
            let indices = 0..column.len();
            let mut of_column = vec![0, column.len() - 1];
            of_column.extend(indices.clone().min_by(by_height));
            of_column.extend(indices.max_by(by_height));
            of_column.sort_unstable();
            of_column.dedup();
            kept.extend(of_column.into_iter().map(|index| column[index]));
        }
        kept
    }
}

impl LearningCurveLine {
    fn points(&self) -> impl Iterator<Item = (u32, f64)> + Clone {
        self.values.iter().chain(&self.rest).copied()
    }

    fn last(&self) -> Option<(u32, f64)> {
        self.values.last().copied()
    }
}
