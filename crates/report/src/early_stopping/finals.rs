//! `stopped-finals`: the final value of each training run; for a stopped run, the value that it
//! would have reached (thesis Fig. A.4).

use std::path::{Path, PathBuf};

use super::{GREEN, MARK, STOPPED};
use crate::chart::axis::Axis;
use crate::chart::style::{BLUE, Glyph, INK, LINE_WIDTH, Marker, Stroke, grid, size_for};
use crate::chart::values::{ValueAxis, labelled};
use crate::chart::{At, Chart, Key, Panel, Scale, Sign, at, counted, in_strip, write};
use crate::error::ReportError;
use fedbo_space::Direction;

/// File names of the picture.
pub const FINALS_FILES: [&str; 2] = ["stopped-finals.svg", "stopped-finals.png"];

/// Maximum number of wrong stops listed in the footnote.
const N_NAMED_MAX: usize = 8;

/// The final values of a study's trials. The final values of stopped trials are known only in an
/// experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct FinalsPicture {
    /// Title at the top; empty for none.
    pub title: String,
    /// Label of the vertical axis. The direction of better values is appended.
    pub y_label: String,
    /// The direction of optimization.
    pub direction: Direction,
    /// The scale of the vertical axis. `None` selects it automatically, as in
    /// [`LearningCurvesPicture`](super::LearningCurvesPicture).
    pub scale: Option<Scale>,
    /// The trials, in any order.
    pub points: Vec<FinalPoint>,
}

/// One trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FinalPoint {
    /// The trial's number.
    pub trial: u64,
    /// The value after the last epoch, actual or hypothetical.
    pub value: f64,
    /// True if the trial was stopped early.
    pub stopped: bool,
    /// The best value at the time of the decision; `None` if there was none.
    pub incumbent: Option<f64>,
}

impl FinalPoint {
    /// Returns true if the trial was stopped although its final value would have beaten the
    /// incumbent.
    #[must_use]
    pub fn is_wrong_stop(&self, direction: Direction) -> bool {
        let better = |incumbent| direction.is_better(self.value, incumbent);
        self.stopped && self.incumbent.is_some_and(better)
    }
}

impl FinalsPicture {
    /// Writes [`FINALS_FILES`] into the folder and returns their paths.
    ///
    /// Triangles are complete training runs, and discs are stopped ones. A wrong stop has a ring
    /// and a line to the incumbent, which is drawn as a step line. Values far worse than all others
    /// are placed in a strip.
    ///
    /// # Errors
    /// Returns [`ReportError::Draw`] if a value is not finite, or `scale` requests a logarithmic
    /// axis for values that are not all above 0; returns [`ReportError::Write`] if a file cannot be
    /// written.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        write(self.check().and_then(|()| self.chart()), folder, FINALS_FILES)
    }

    fn check(&self) -> Result<(), String> {
        for point in &self.points {
            let FinalPoint { trial, value, incumbent, .. } = point;
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

    fn chart(&self) -> Result<Chart, String> {
        let direction = self.direction;
        let mut points = self.points.clone();
        points.sort_by_key(|point| point.trial);
        let values = points.iter().flat_map(|point| [Some(point.value), point.incumbent]);
        let y = ValueAxis::of(values.flatten(), direction, self.scale)?;
        let number_of = |point: Option<&FinalPoint>| point.map_or(0.0, |point| point.trial as f64);
        let x = Axis::whole(number_of(points.first()), number_of(points.last()), 8);
        let mut panel = Panel { strip: y.strip(), ..Panel::new(grid(1).1, x, y.axis.clone()) };
        let place = |x: f64, value: f64| {
            if y.is_beyond(value) { in_strip(x, 0.5) } else { at(x, value) }
        };
        panel.line(steps(&points, place), INCUMBENT);
        let kinds = [Kind::Stopped, Kind::Complete, Kind::WrongStop];
        let of_kind = |kind: Kind| points.iter().filter(move |point| point.kind(direction) == kind);
        for point in of_kind(Kind::WrongStop) {
            let x = point.trial as f64;
            let ends =
                point.incumbent.map(|incumbent| vec![place(x, point.value), place(x, incumbent)]);
            panel.line(ends.unwrap_or_default(), Stroke::solid(INK, 1.0));
        }
        // Wrong stops are drawn on top.
        let size = size_for(points.len(), 40.0, (1.8, MARK));
        for kind in kinds {
            let at = of_kind(kind).map(|point| place(point.trial as f64, point.value));
            panel.points(at.collect(), kind.glyph(), size);
        }
        let mut keys = Vec::new();
        for (kind, words) in [
            (Kind::Complete, "trained to the end"),
            (Kind::Stopped, "stopped: value it would have reached"),
            (Kind::WrongStop, "stopped wrongly: better than the best so far"),
        ] {
            let key = || Key::new(Sign::Point(kind.glyph()), words);
            keys.extend(of_kind(kind).next().map(|_| key()));
        }
        if points.iter().any(|point| point.incumbent.is_some()) {
            let sign = Sign::line(INCUMBENT);
            keys.push(Key::new(sign, "best so far"));
        }
        if points.is_empty() {
            panel.nothing = "no trial has ended".to_owned();
        }
        Ok(Chart {
            title: self.title.clone(),
            keys,
            panels: vec![panel],
            x_label: "trial".to_owned(),
            y_label: labelled(&self.y_label, direction),
            footnote: footnote(&points, direction),
            ..Chart::default()
        })
    }
}

/// The line of the incumbent.
const INCUMBENT: Stroke = Stroke::solid(BLUE, LINE_WIDTH);

/// The outcome of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Complete,
    Stopped,
    WrongStop,
}

impl Kind {
    fn glyph(self) -> Glyph {
        match self {
            Self::Complete => Glyph::new(Marker::TriangleUp, GREEN),
            Self::Stopped => STOPPED,
            Self::WrongStop => STOPPED.ringed(),
        }
    }
}

impl FinalPoint {
    fn kind(&self, direction: Direction) -> Kind {
        match self.stopped {
            _ if self.is_wrong_stop(direction) => Kind::WrongStop,
            true => Kind::Stopped,
            false => Kind::Complete,
        }
    }
}

/// Returns the corners of the incumbent's step line. Each step is midway between two trials.
fn steps(points: &[FinalPoint], place: impl Fn(f64, f64) -> At) -> Vec<At> {
    let mut corners: Vec<At> = Vec::new();
    let mut before: Option<f64> = None;
    for (trial, incumbent) in points.iter().filter_map(|p| Some((p.trial as f64, p.incumbent?))) {
        if before.is_none_or(|before| (before - incumbent).abs() > 0.0) {
            corners.extend(before.map(|before| place(trial - 0.5, before)));
            corners.push(place(trial - 0.5, incumbent));
            before = Some(incumbent);
        }
    }
    let last = points.last().map(|point| point.trial as f64 + 0.5);
    corners.extend(last.zip(before).map(|(last, before)| place(last, before)));
    corners
}

/// Returns the footnote: the number of stopped trials, and the trials that were stopped wrongly.
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
            format!("{n_wrong} of them wrongly: trials {}{more}", named.join(", "))
        }
    };
    text
}
