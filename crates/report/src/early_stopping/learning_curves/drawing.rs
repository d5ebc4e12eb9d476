//! The drawing of curves: the part of each that is on the axis, its dots, its mark, the legend.

use plotters::backend::DrawingBackend;

use super::super::marks::{GREEN, LineStyle, MARK, Mark, RED, Sign, faded, size_for};
use super::super::panel::{Panel, Words};
use super::super::value_axis::{ValueAxis, labelled};
use super::{CurveEnd, LearningCurveLine, LearningCurvesPicture};
use crate::plot::canvas::Canvas;
use crate::plot::render::Picture;
use crate::plot::style::{BLUE, GREY, INK, WHITE};

/// More points of a curve than this are thinned to what its columns of pixels show.
const N_POINTS_MAX: usize = 1200;
/// About so many dots of dotted lines are drawn at most, so that the SVG stays small.
const N_DOTS_MAX: f64 = 12_000.0;
/// Dash patterns of what stopped trainings would have done, with the length of each: the first that gives few enough dots.
const DOTTED: [(f64, &[f64]); 4] = [
    (4.0, &[1.5, 2.5]),
    (7.0, &[3.0, 4.0]),
    (12.0, &[5.0, 7.0]),
    (24.0, &[12.0, 12.0]),
];

/// Multiples of it leave fractions that are spread evenly.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

impl CurveEnd {
    fn mark(self) -> Mark {
        match self {
            Self::Complete => Mark::Complete,
            Self::Stopped => Mark::Stopped,
            Self::Failed => Mark::Failed,
            Self::Running => Mark::Running,
        }
    }

    /// The style of one of so many lines: thinner and paler where they are many.
    fn style(self, n_lines: usize) -> LineStyle {
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
        LineStyle {
            color: faded(color, percent * crowded / 100),
            width: size_for(n_lines, 1.5, 0.7),
            dash,
        }
    }
}

/// The line of the best, and of what is left white around it.
const BEST: LineStyle = LineStyle {
    color: INK,
    width: 2.75,
    dash: &[],
};
const AROUND_BEST: LineStyle = LineStyle {
    color: WHITE,
    width: 5.0,
    dash: &[],
};

/// The picture with its measures.
pub(super) struct Drawing<'a> {
    picture: &'a LearningCurvesPicture,
    best: Option<usize>,
    y_axis: ValueAxis,
    rest: LineStyle,
    panel: Panel,
}

impl<'a> Drawing<'a> {
    pub(super) fn of(picture: &'a LearningCurvesPicture) -> Result<Self, String> {
        let values = picture.lines.iter().flat_map(LearningCurveLine::points);
        let y_axis = ValueAxis::of_curves(
            values.map(|(_, value)| value),
            picture.typical_worst(),
            picture.direction,
            picture.scale,
        )?;
        let epochs = || picture.lines.iter().flat_map(LearningCurveLine::points);
        let first = epochs().map(|(epoch, _)| epoch).min().unwrap_or(1).min(1);
        let last = epochs().map(|(epoch, _)| epoch).max().unwrap_or(1);
        let x_range = (f64::from(first), f64::from(last.max(picture.n_epochs)));
        let best = picture.best();
        let words = Words {
            title: picture.title.clone(),
            x_label: "epoch".to_owned(),
            y_label: labelled(&picture.y_label, picture.direction),
            footnote: picture.footnote(|value| y_axis.is_beyond(value)),
        };
        let with_rest = picture.lines.iter().filter(|line| !line.rest.is_empty());
        let n_rests = with_rest.count();
        let rest = LineStyle {
            color: faded(RED, if n_rests > 60 { 50 } else { 75 }),
            width: size_for(n_rests, 1.0, 0.7),
            dash: DOTTED[0].1,
        };
        let panel = |rest: LineStyle| {
            let (keys, axis) = (keys(picture, best, rest), y_axis.axis.clone());
            Panel::of(words.clone(), keys, x_range, axis, y_axis.strip())
        };
        let mut drawing = Self {
            picture,
            best,
            rest,
            panel: panel(rest)?,
            y_axis: y_axis.clone(),
        };
        // How long the lines are is known only now; the legend shows the same dots.
        drawing.rest.dash = drawing.dots();
        drawing.panel = panel(drawing.rest)?;
        Ok(drawing)
    }

    /// The dash pattern that does not give too many dots.
    fn dots(&self) -> &'static [f64] {
        let rests = self
            .picture
            .lines
            .iter()
            .flat_map(|line| self.rest_pieces(line));
        let length: f64 = rests
            .flat_map(|piece| piece.windows(2).map(distance).collect::<Vec<_>>())
            .sum();
        let few = |(period, _): &&(f64, &[f64])| length / period <= N_DOTS_MAX;
        let found = DOTTED.iter().find(few).or(DOTTED.last());
        found.map_or(&[], |(_, dash)| dash)
    }

    /// The line of what a training would have done, from its last value on.
    fn rest_pieces(&self, line: &LearningCurveLine) -> Vec<Vec<(f64, f64)>> {
        if line.rest.is_empty() {
            return Vec::new();
        }
        let points: Vec<(u32, f64)> = line
            .last()
            .into_iter()
            .chain(line.rest.iter().copied())
            .collect();
        self.pieces(&points)
    }

    /// The pieces of a curve that are on the axis, in the picture's lengths.
    fn pieces(&self, points: &[(u32, f64)]) -> Vec<Vec<(f64, f64)>> {
        let frame = self.panel.frame();
        let at = |(epoch, value): &(u32, f64)| {
            let x = frame.x(frame.x_axis.place(f64::from(*epoch)));
            (x, self.y_axis.place(*value), self.y_axis.is_beyond(*value))
        };
        let end = self.y_axis.worse_end();
        let mut pieces: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut before: Option<(f64, f64, bool)> = None;
        for (x, place, beyond) in points.iter().map(at) {
            // Where the line crosses the end of the axis.
            let crossing =
                before
                    .filter(|before| before.2 != beyond)
                    .map(|(from, from_place, _)| {
                        let share = (end - from_place) / (place - from_place);
                        (from + share.clamp(0.0, 1.0) * (x - from), frame.y(end))
                    });
            if !beyond {
                if before.is_none_or(|before| before.2) {
                    pieces.push(crossing.into_iter().collect());
                }
                if let Some(piece) = pieces.last_mut() {
                    piece.push((x, frame.y(place)));
                }
            } else if let (Some(piece), Some(crossing)) = (pieces.last_mut(), crossing) {
                piece.push(crossing);
            }
            before = Some((x, place, beyond));
        }
        pieces.into_iter().map(thinned).collect()
    }

    fn draw_curve<DB: DrawingBackend>(
        &self,
        line: &LearningCurveLine,
        style: LineStyle,
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        for piece in self.pieces(&line.values) {
            style.draw(&piece, canvas)?;
        }
        Ok(())
    }

    fn draw_end<DB: DrawingBackend>(
        &self,
        line: &LearningCurveLine,
        (mark, size): (Mark, f64),
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        let Some((epoch, value)) = line.last() else {
            return Ok(());
        };
        let frame = self.panel.frame();
        let (x, y) = frame.point(f64::from(epoch), value);
        let in_strip = frame
            .strip_middle()
            .filter(|_| self.y_axis.is_beyond(value));
        mark.draw((x, in_strip.unwrap_or(y)), size, canvas)
    }
}

impl Picture for Drawing<'_> {
    fn size(&self) -> (u32, u32) {
        self.panel.size()
    }

    fn n_panels(&self) -> usize {
        1
    }

    fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        self.panel.draw(canvas)?;
        let lines = &self.picture.lines;
        if lines.iter().all(|line| line.values.is_empty()) {
            return self
                .panel
                .draw_nothing("no training has reported a value", canvas);
        }
        for (index, line) in lines.iter().enumerate() {
            // Dots of different lines do not stand below each other.
            let period: f64 = self.rest.dash.iter().sum();
            let cut = period * (index as f64 * GOLDEN).fract();
            for piece in self.rest_pieces(line) {
                self.rest.draw(&without_start(&piece, cut), canvas)?;
            }
        }
        // What was trained to the end lies above what was not, its marks above all lines.
        let order = [
            CurveEnd::Failed,
            CurveEnd::Stopped,
            CurveEnd::Running,
            CurveEnd::Complete,
        ];
        let others = |ended: CurveEnd| {
            let others = lines.iter().enumerate();
            others.filter(move |(index, line)| line.ended == ended && Some(*index) != self.best)
        };
        for ended in order {
            let style = ended.style(lines.len());
            for (_, line) in others(ended) {
                self.draw_curve(line, style, canvas)?;
            }
        }
        let size = size_for(lines.len(), MARK, 1.8);
        for ended in order {
            for (_, line) in others(ended) {
                self.draw_end(line, (ended.mark(), size), canvas)?;
            }
        }
        if let Some(best) = self.best.map(|index| &lines[index]) {
            self.draw_curve(best, AROUND_BEST, canvas)?;
            self.draw_curve(best, BEST, canvas)?;
            self.draw_end(best, (Mark::Best, MARK), canvas)?;
        }
        Ok(())
    }
}

/// The keys of what there is.
fn keys(
    picture: &LearningCurvesPicture,
    best: Option<usize>,
    rest: LineStyle,
) -> Vec<(Sign, String)> {
    let mut keys = Vec::new();
    if let Some(best) = best.map(|index| &picture.lines[index]) {
        let text = format!("best: trial {}", best.trial);
        keys.push((Sign::Line(BEST, Some(Mark::Best)), text));
    }
    for (ended, words) in [
        (CurveEnd::Complete, "trained to the end"),
        (CurveEnd::Stopped, "stopped early"),
        (CurveEnd::Failed, "failed"),
        (CurveEnd::Running, "still training"),
    ] {
        let n = picture.count(ended);
        let n_others = n - usize::from(ended == CurveEnd::Complete && best.is_some());
        if n_others > 0 {
            let style = ended.style(1);
            let sign = Sign::Line(style, Some(ended.mark()));
            keys.push((sign, format!("{words} ({n})")));
        }
    }
    if picture.lines.iter().any(|line| !line.rest.is_empty()) {
        keys.push((Sign::Line(rest, None), "had it gone on".to_owned()));
    }
    keys
}

fn distance(pair: &[(f64, f64)]) -> f64 {
    (pair[1].0 - pair[0].0).hypot(pair[1].1 - pair[0].1)
}

/// A line without the first so much of its length.
fn without_start(points: &[(f64, f64)], mut length: f64) -> Vec<(f64, f64)> {
    for (index, pair) in points.windows(2).enumerate() {
        let of_pair = distance(pair);
        if of_pair > length {
            let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
            let share = length / of_pair;
            let start = (x0 + share * (x1 - x0), y0 + share * (y1 - y0));
            return [&[start], &points[index + 1..]].concat();
        }
        length -= of_pair;
    }
    Vec::new()
}

/// A long line, left with the first, lowest, highest and last point of each unit of its width.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= N_POINTS_MAX {
        return points;
    }
    let same_column = |a: &(f64, f64), b: &(f64, f64)| (a.0.floor() - b.0.floor()).abs() < 0.5;
    let mut kept = Vec::new();
    for column in points.chunk_by(same_column) {
        let indices = || 0..column.len();
        let by_y = |a: &usize, b: &usize| column[*a].1.total_cmp(&column[*b].1);
        let mut of_column: Vec<usize> = indices().min_by(by_y).into_iter().collect();
        of_column.extend(indices().max_by(by_y));
        of_column.extend([0, column.len() - 1]);
        of_column.sort_unstable();
        of_column.dedup();
        kept.extend(of_column.into_iter().map(|index| column[index]));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_loses_its_start_around_corners() {
        let line = [(0.0, 0.0), (3.0, 0.0), (3.0, 4.0)];
        assert_eq!(without_start(&line, 0.0), line);
        assert_eq!(without_start(&line, 1.0), [(1.0, 0.0), line[1], line[2]]);
        assert_eq!(without_start(&line, 5.0), [(3.0, 2.0), line[2]]);
        assert_eq!(without_start(&line, 7.0), []);
    }
}
