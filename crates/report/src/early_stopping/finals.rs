//! `stopped-finals`: where each training ended, or would have ended had it not been stopped (thesis Fig. A.4).

use std::path::{Path, PathBuf};

use fedbo_space::Direction;
use plotters::backend::DrawingBackend;

use super::marks::{LineStyle, MARK, Mark, Sign, size_for};
use super::panel::{Panel, Words};
use super::value_axis::{ValueAxis, labelled};
use super::{counted, write_both};
use crate::error::ReportError;
use crate::plot::Scale;
use crate::plot::canvas::Canvas;
use crate::plot::render::Picture;
use crate::plot::style::{BLUE, INK, LINE_WIDTH};

/// Names of the picture's files.
pub const FINALS_FILES: [&str; 2] = ["stopped-finals.svg", "stopped-finals.png"];

/// The footnote names so many wrong stops at most.
const N_NAMED_MAX: usize = 8;

/// The final values of a study's trials, also of those that were stopped: an experiment knows them.
#[derive(Clone, Debug, PartialEq)]
pub struct FinalsPicture {
    /// Title above everything; empty for none.
    pub title: String,
    /// Name of the vertical axis; which values are better is added to it.
    pub y_label: String,
    /// The direction in which values are better.
    pub direction: Direction,
    /// The vertical axis. None: as in [`LearningCurvesPicture`](super::LearningCurvesPicture).
    pub scale: Option<Scale>,
    /// The trials, in any order.
    pub points: Vec<FinalPoint>,
}

/// One trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FinalPoint {
    /// Its number.
    pub trial: u64,
    /// Its value after the last epoch: what it reached, or would have.
    pub value: f64,
    /// True if it was stopped early.
    pub stopped: bool,
    /// The best value so far when it was decided upon; none if there was none.
    pub incumbent: Option<f64>,
}

impl FinalPoint {
    /// Returns true if it was stopped although it would have done better than the incumbent.
    #[must_use]
    pub fn is_wrong_stop(&self, direction: Direction) -> bool {
        let better = |incumbent| direction.is_better(self.value, incumbent);
        self.stopped && self.incumbent.is_some_and(better)
    }
}

impl FinalsPicture {
    /// Writes [`FINALS_FILES`] into the folder and returns their paths.
    ///
    /// Trained to the end: triangles; stopped: discs, in a ring and joined to the incumbent where the stop was wrong; the incumbent
    /// is a line of steps. Values that lie far on the worse side of all others are in a strip.
    ///
    /// # Errors
    /// [`ReportError::Draw`] when a value is not finite, or `scale` wants a logarithmic axis of values that are not all above 0;
    /// [`ReportError::Write`] when a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        write_both(folder, FINALS_FILES, || {
            self.check()?;
            Drawing::of(self)
        })
    }

    fn check(&self) -> Result<(), String> {
        for point in &self.points {
            let FinalPoint {
                trial,
                value,
                incumbent,
                ..
            } = point;
            let named = [("value", Some(*value)), ("incumbent", *incumbent)];
            for (what, number) in named {
                if let Some(number) = number.filter(|number| !number.is_finite()) {
                    return Err(format!(
                        "trial {trial} has the {what} {number}, which is not a finite number"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The line of the incumbent.
const INCUMBENT: LineStyle = LineStyle {
    color: BLUE,
    width: LINE_WIDTH,
    dash: &[],
};
/// From a wrong stop to the incumbent of its time.
const MISSED: LineStyle = LineStyle {
    color: INK,
    width: 1.0,
    dash: &[],
};

/// The picture with its measures.
struct Drawing {
    /// By number.
    points: Vec<FinalPoint>,
    direction: Direction,
    y_axis: ValueAxis,
    panel: Panel,
}

impl Drawing {
    fn of(picture: &FinalsPicture) -> Result<Self, String> {
        let direction = picture.direction;
        let mut points = picture.points.clone();
        points.sort_by_key(|point| point.trial);
        let values = points
            .iter()
            .flat_map(|point| [Some(point.value), point.incumbent]);
        let y_axis = ValueAxis::of(values.flatten(), direction, picture.scale)?;
        let number_of = |point: Option<&FinalPoint>| point.map_or(0.0, |point| point.trial as f64);
        let x_range = (number_of(points.first()), number_of(points.last()));
        let words = Words {
            title: picture.title.clone(),
            x_label: "trial".to_owned(),
            y_label: labelled(&picture.y_label, direction),
            footnote: footnote(&points, direction),
        };
        let strip = y_axis.strip();
        let keys = keys(&points, direction);
        let panel = Panel::of(words, keys, x_range, y_axis.axis.clone(), strip)?;
        Ok(Self {
            points,
            direction,
            y_axis,
            panel,
        })
    }

    /// The picture's x of a number of a trial, or of a place between two.
    fn x(&self, trial: f64) -> f64 {
        let frame = self.panel.frame();
        frame.x(frame.x_axis.place(trial))
    }

    /// The picture's y of a value; in the strip if it is off the axis.
    fn y(&self, value: f64) -> f64 {
        let frame = self.panel.frame();
        let in_strip = frame
            .strip_middle()
            .filter(|_| self.y_axis.is_beyond(value));
        in_strip.unwrap_or_else(|| frame.y(self.y_axis.place(value).clamp(0.0, 1.0)))
    }

    /// Corners of the incumbent's line, which steps half-way between two trials.
    fn steps(&self) -> Vec<(f64, f64)> {
        let mut corners: Vec<(f64, f64)> = Vec::new();
        let known = self
            .points
            .iter()
            .filter_map(|point| Some((point.trial as f64, point.incumbent?)));
        for (trial, incumbent) in known {
            let (x, y) = (self.x(trial - 0.5), self.y(incumbent));
            let before = corners.last().map(|(_, before)| *before);
            if before.is_some_and(|before| (before - y).abs() < 1e-9) {
                continue;
            }
            corners.extend(before.map(|before| (x, before)));
            corners.push((x, y));
        }
        let last = self
            .points
            .last()
            .map(|point| self.x(point.trial as f64 + 0.5));
        let level = corners.last().map(|(_, y)| *y);
        corners.extend(last.zip(level));
        corners
    }
}

impl Picture for Drawing {
    fn size(&self) -> (u32, u32) {
        self.panel.size()
    }

    fn n_panels(&self) -> usize {
        1
    }

    fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        self.panel.draw(canvas)?;
        if self.points.is_empty() {
            return self.panel.draw_nothing("no trial has ended", canvas);
        }
        INCUMBENT.draw(&self.steps(), canvas)?;
        let wrong = |point: &&FinalPoint| point.is_wrong_stop(self.direction);
        for point in self.points.iter().filter(wrong) {
            let x = self.x(point.trial as f64);
            if let Some(incumbent) = point.incumbent {
                let ends = [(x, self.y(point.value)), (x, self.y(incumbent))];
                MISSED.draw(&ends, canvas)?;
            }
        }
        // Wrong stops above all others.
        let size = size_for(self.points.len(), MARK, 1.8);
        for mark in [Mark::Stopped, Mark::Complete, Mark::WrongStop] {
            let of_mark = |point: &&FinalPoint| mark_of(point, self.direction) == mark;
            for point in self.points.iter().filter(of_mark) {
                let at = (self.x(point.trial as f64), self.y(point.value));
                mark.draw(at, size, canvas)?;
            }
        }
        Ok(())
    }
}

fn mark_of(point: &FinalPoint, direction: Direction) -> Mark {
    if point.is_wrong_stop(direction) {
        Mark::WrongStop
    } else if point.stopped {
        Mark::Stopped
    } else {
        Mark::Complete
    }
}

/// The keys of what there is.
fn keys(points: &[FinalPoint], direction: Direction) -> Vec<(Sign, String)> {
    let mut keys = Vec::new();
    for (mark, words) in [
        (Mark::Complete, "trained to the end"),
        (Mark::Stopped, "stopped: what it would have reached"),
        (
            Mark::WrongStop,
            "stopped wrongly: better than the best so far",
        ),
    ] {
        if points.iter().any(|point| mark_of(point, direction) == mark) {
            keys.push((Sign::Mark(mark), words.to_owned()));
        }
    }
    if points.iter().any(|point| point.incumbent.is_some()) {
        keys.push((Sign::Line(INCUMBENT, None), "best so far".to_owned()));
    }
    keys
}

/// Returns the footnote: the number of trials that were stopped, and those of them that were stopped wrongly.
fn footnote(points: &[FinalPoint], direction: Direction) -> String {
    let mut text = counted(points.len(), "trial", "trials");
    let n_stopped = points.iter().filter(|point| point.stopped).count();
    if n_stopped == 0 {
        return text + ", none stopped";
    }
    let wrong = points.iter().filter(|point| point.is_wrong_stop(direction));
    let wrong: Vec<String> = wrong.map(|point| point.trial.to_string()).collect();
    text += &format!(", {n_stopped} stopped, ");
    text += &match wrong.len() {
        0 => "none of them wrongly".to_owned(),
        1 => format!("1 of them wrongly: trial {}", wrong[0]),
        n_wrong => {
            let named = wrong.iter().take(N_NAMED_MAX).cloned().collect::<Vec<_>>();
            let more = if n_wrong > N_NAMED_MAX { ", …" } else { "" };
            format!(
                "{n_wrong} of them wrongly: trials {}{more}",
                named.join(", ")
            )
        }
    };
    text
}
