//! `decision-regions`: what an optimal stopping rule says, by epoch and average error so far (thesis Fig. A.2), and the way that a
//! trial took through it.

use std::path::{Path, PathBuf};

use plotters::backend::DrawingBackend;
use plotters::style::{Color, RGBColor};

use super::marks::{LineStyle, MARK, Mark, RED, Sign, size_for};
use super::panel::{Panel, Strip, Words};
use super::{counted, write_both};
use crate::error::ReportError;
use crate::plot::axis::Axis;
use crate::plot::canvas::Canvas;
use crate::plot::frame::Frame;
use crate::plot::render::Picture;
use crate::plot::style::{BLUE, INK, WHITE};

/// Number of ticks of the vertical axis, about.
const N_TICKS: u32 = 7;
/// Height of the strip for C2.
const STRIP: f64 = 18.0;
/// Fills reach this far under their neighbour, so that nothing shines through between them.
const UNDER: f64 = 0.5;
/// The fills differ in brightness, so that they can be told apart without colour.
const CONTINUE: RGBColor = WHITE;
const STOP_EARLY: RGBColor = RGBColor(247, 211, 56);
const RUN_TO_END: RGBColor = RED;
const NEVER: RGBColor = RGBColor(48, 48, 48);
const NO_RULE: RGBColor = RGBColor(236, 236, 236);
const FORBIDDEN: RGBColor = RGBColor(130, 130, 130);
const ALLOWED: RGBColor = WHITE;

/// Names of the picture's files; with the trial's number if it is given: `decision-regions-7.svg`.
#[must_use]
pub fn decision_regions_files(trial: Option<u64>) -> [String; 2] {
    let number = trial.map_or(String::new(), |trial| format!("-{trial}"));
    ["svg", "png"].map(|ending| format!("decision-regions{number}.{ending}"))
}

/// The rule of one trial, and its way.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionRegionsPicture {
    /// Title above everything; empty for none.
    pub title: String,
    /// Name of the horizontal axis: "epoch".
    pub x_label: String,
    /// Name of the vertical axis: "average error so far", or of the values that errors stand for.
    pub y_label: String,
    /// The rule's decisions, epoch by epoch, increasing.
    pub epochs: Vec<RegionEpoch>,
    /// Epochs, increasing, each with the trial's average so far in the axis's unit; also of epochs before the rule's first.
    pub path: Vec<(usize, f64)>,
    /// After which epoch it was stopped; none if it was not.
    pub stopped_at: Option<usize>,
}

/// The rule's decisions after one epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionEpoch {
    /// The epoch.
    pub epoch: usize,
    /// The lower end of the first cell, in the axis's unit.
    pub low: f64,
    /// The upper end of the last cell.
    pub high: f64,
    /// Cells of equal height from `low` to `high`; none where no sampled path goes.
    pub cells: Vec<Option<Region>>,
    /// C2: whether stopping is allowed after this epoch (thesis, section 4.3.1).
    pub may_stop: bool,
}

/// The rule's decision in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Region {
    /// d₀: train one more epoch.
    Continue,
    /// d₁: stop.
    StopEarly,
    /// d₂: train to the end.
    RunToEnd,
}

impl Default for DecisionRegionsPicture {
    /// No epoch and no way; the axes have their names.
    fn default() -> Self {
        Self {
            title: String::new(),
            x_label: "epoch".to_owned(),
            y_label: "average error so far".to_owned(),
            epochs: Vec::new(),
            path: Vec::new(),
            stopped_at: None,
        }
    }
}

impl DecisionRegionsPicture {
    /// Writes [`decision_regions_files`] of this trial into the folder and returns their paths.
    ///
    /// The vertical axis shows the cells that paths reach, and the trial's way; a strip below says after which epochs C2 forbids
    /// stopping.
    ///
    /// # Errors
    /// [`ReportError::Draw`] when a number is not finite, epochs do not increase, cells have no height, or the trial was stopped
    /// after an epoch that its way does not have; [`ReportError::Write`] when a file cannot be written.
    pub fn write(&self, folder: &Path, trial: Option<u64>) -> Result<Vec<PathBuf>, ReportError> {
        let [svg, png] = decision_regions_files(trial);
        write_both(folder, [&svg, &png], || {
            self.check()?;
            Drawing::of(self)
        })
    }

    fn check(&self) -> Result<(), String> {
        for rules in self.epochs.iter().filter(|rules| !rules.cells.is_empty()) {
            let (epoch, low, high) = (rules.epoch, rules.low, rules.high);
            if !(low.is_finite() && high.is_finite() && low < high) {
                return Err(format!(
                    "the cells of epoch {epoch} go from {low} to {high}"
                ));
            }
        }
        if let Some((epoch, error)) = self.path.iter().find(|(_, error)| !error.is_finite()) {
            return Err(format!(
                "the trial's average error at epoch {epoch} is {error}, which is not a finite number"
            ));
        }
        let of_rules = self
            .epochs
            .windows(2)
            .map(|pair| (pair[0].epoch, pair[1].epoch));
        let of_path = self.path.windows(2).map(|pair| (pair[0].0, pair[1].0));
        if let Some((before, after)) = of_rules.chain(of_path).find(|(a, b)| a >= b) {
            return Err(format!("epoch {after} follows epoch {before}"));
        }
        match self.stopped_at {
            Some(epoch) if !self.path.iter().any(|(known, _)| *known == epoch) => Err(format!(
                "the trial was stopped after epoch {epoch}, of which its way says nothing"
            )),
            _ => Ok(()),
        }
    }

    /// Returns the mark at the end of the trial's path, and its text in the legend.
    fn end(&self) -> (Mark, &'static str) {
        let last_rule = self.epochs.last().map(|rules| rules.epoch);
        let last = self.path.last().map(|(epoch, _)| *epoch);
        if self.stopped_at.is_some() {
            (Mark::Stopped, "this trial, stopped")
        } else if last >= last_rule {
            (Mark::Complete, "this trial, trained to the end")
        } else {
            (Mark::Running, "this trial, so far")
        }
    }

    /// Returns the footnote: the epoch after which the trial ended, and how often C2 forbids stopping.
    fn footnote(&self) -> String {
        let mut parts = Vec::new();
        match (self.stopped_at, self.path.last()) {
            (Some(epoch), _) => parts.push(format!("stopped after epoch {epoch}")),
            (None, Some((epoch, _))) => parts.push(format!("trained for {}", epochs(*epoch))),
            (None, None) => {}
        }
        let n_forbidden = self.epochs.iter().filter(|rules| !rules.may_stop).count();
        let n_epochs = epochs(self.epochs.len());
        parts.push(match n_forbidden {
            0 => format!("C2 allows stopping after each of {n_epochs}"),
            n if n == self.epochs.len() => format!("C2 forbids stopping after each of {n_epochs}"),
            n => format!("C2 forbids stopping after {n} of {n_epochs}"),
        });
        parts.join("; ")
    }
}

impl RegionEpoch {
    /// Equal neighbours together, from below: the region, and from where to where it goes.
    fn runs(&self) -> Vec<(Option<Region>, f64, f64)> {
        let n_cells = self.cells.len();
        let height = (self.high - self.low) / n_cells.max(1) as f64;
        let edge = |index: usize| {
            if index == n_cells {
                self.high
            } else {
                self.low + height * index as f64
            }
        };
        let mut runs = Vec::new();
        let mut index = 0;
        for run in self.cells.chunk_by(|a, b| a == b) {
            let end = index + run.len();
            runs.push((run[0], edge(index), edge(end)));
            index = end;
        }
        runs
    }
}

/// The fill of a region.
fn fill(region: Option<Region>) -> RGBColor {
    match region {
        Some(Region::Continue) => CONTINUE,
        Some(Region::StopEarly) => STOP_EARLY,
        Some(Region::RunToEnd) => RUN_TO_END,
        None => NEVER,
    }
}

/// The trial's way, and what is left white around it.
const WAY: LineStyle = LineStyle {
    color: BLUE,
    width: 2.0,
    dash: &[],
};
const AROUND_WAY: LineStyle = LineStyle {
    color: WHITE,
    width: 4.5,
    dash: &[],
};

/// The picture with its measures.
struct Drawing<'a> {
    picture: &'a DecisionRegionsPicture,
    /// Left edge of each epoch's column, and the right edge of the last.
    edges: Vec<f64>,
    panel: Panel,
}

impl<'a> Drawing<'a> {
    fn of(picture: &'a DecisionRegionsPicture) -> Result<Self, String> {
        let epochs: Vec<f64> = picture
            .epochs
            .iter()
            .map(|rules| rules.epoch as f64)
            .collect();
        let of_path = picture.path.iter().map(|(epoch, _)| *epoch as f64);
        let all = || epochs.iter().copied().chain(of_path.clone());
        let first = all().reduce(f64::min).unwrap_or(1.0);
        let last = all().reduce(f64::max).unwrap_or(1.0);
        let words = Words {
            title: picture.title.clone(),
            x_label: picture.x_label.clone(),
            y_label: picture.y_label.clone(),
            footnote: picture.footnote(),
        };
        let strip = Strip {
            above: 0.0,
            below: STRIP,
            label: "C2",
        };
        let y_axis = y_axis(picture);
        Ok(Self {
            picture,
            edges: edges(&epochs),
            panel: Panel::of(words, keys(picture), (first, last), y_axis, strip)?,
        })
    }

    /// Left and right edges of the columns in the picture's lengths.
    fn columns(&self, frame: &Frame<'_>) -> Vec<(f64, f64)> {
        let x = |edge: f64| frame.x(frame.x_axis.place(edge));
        let pairs = self.edges.windows(2);
        pairs.map(|pair| (x(pair[0]), x(pair[1]))).collect()
    }

    fn draw_regions<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        let frame = self.panel.frame();
        let columns = self.columns(&frame);
        let (top, bottom) = (frame.y(1.0), frame.y(0.0));
        let lowest = frame.at.1 + frame.size.1;
        let Some((_, right)) = columns.last() else {
            return Ok(());
        };
        let whole = ((frame.x(0.0), top), (frame.x(1.0), lowest));
        canvas.rectangle(whole.0, whole.1, NO_RULE.mix(1.0))?;
        for (rules, (from, to)) in self.picture.epochs.iter().zip(&columns) {
            // Under the next column and the next region above, which are drawn later.
            let to_under = (to + UNDER).min(*right);
            let place = |value: f64| frame.y(frame.y_axis.place(value));
            let runs = rules.runs();
            // Below and above the cells nothing is reached either.
            let first = runs.first().map_or(top, |(_, low, _)| place(*low));
            let below = (None, bottom, first);
            let above = runs.last().map(|(_, _, high)| (None, place(*high), top));
            let cells = runs
                .iter()
                .map(|(region, low, high)| (*region, place(*low), place(*high)));
            for (region, low, high) in [below].into_iter().chain(cells).chain(above) {
                let upper = (high - UNDER).max(top);
                let color = fill(region).mix(1.0);
                canvas.rectangle((*from, upper), (to_under, low), color)?;
            }
            let allowed = if rules.may_stop { ALLOWED } else { FORBIDDEN };
            canvas.rectangle((*from, bottom), (to_under, lowest), allowed.mix(1.0))?;
        }
        // The fills cover the axes.
        let (axis, end) = (frame.x(0.0), frame.x(1.0));
        canvas.line(&[(axis, bottom), (end, bottom)], INK, 1.0, &[])?;
        canvas.line(&[(axis, lowest), (end, lowest)], INK, 1.0, &[])?;
        canvas.line(&[(axis, top), (axis, lowest)], INK, 1.0, &[])
    }

    fn draw_way<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        let frame = self.panel.frame();
        let points = self.picture.path.iter();
        let way: Vec<(f64, f64)> = points
            .map(|(epoch, error)| frame.point(*epoch as f64, *error))
            .collect();
        AROUND_WAY.draw(&way, canvas)?;
        WAY.draw(&way, canvas)?;
        let size = size_for(way.len(), 2.6, 0.0);
        if size > 1.4 {
            for at in &way {
                canvas.disc(*at, size, BLUE)?;
            }
        }
        let stopped = self.picture.stopped_at;
        let mut path = self.picture.path.iter();
        let end = stopped.and_then(|epoch| path.position(|(known, _)| *known == epoch));
        let at = end.map_or(way.last(), |index| way.get(index));
        let (mark, _) = self.picture.end();
        at.map_or(Ok(()), |at| {
            // Red and yellow are behind: a black ring keeps the end apart.
            canvas.disc(*at, MARK * 2.3, WHITE)?;
            canvas.disc(*at, MARK * 2.05, INK)?;
            canvas.disc(*at, MARK * 1.7, WHITE)?;
            mark.draw(*at, MARK, canvas)
        })
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
        if self.picture.epochs.is_empty() {
            self.panel.draw_nothing("no rule", canvas)?;
        }
        self.draw_regions(canvas)?;
        self.draw_way(canvas)
    }
}

/// Edges of the columns: half-way between epochs, and as far beyond the first and the last.
fn edges(epochs: &[f64]) -> Vec<f64> {
    let (Some(first), Some(last)) = (epochs.first(), epochs.last()) else {
        return Vec::new();
    };
    let halves: Vec<f64> = epochs
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) / 2.0)
        .collect();
    let half = |at: Option<&f64>| at.copied().unwrap_or(0.5);
    let inner = epochs
        .windows(2)
        .map(|pair| f64::midpoint(pair[0], pair[1]));
    let mut edges = vec![first - half(halves.first())];
    edges.extend(inner);
    edges.push(last + half(halves.last()));
    edges
}

/// The axis over what paths reach and over the trial's way.
fn y_axis(picture: &DecisionRegionsPicture) -> Axis {
    let mut shown: Vec<f64> = picture.path.iter().map(|(_, error)| *error).collect();
    for (region, low, high) in picture.epochs.iter().flat_map(RegionEpoch::runs) {
        if region.is_some() {
            shown.extend([low, high]);
        }
    }
    let low = shown.iter().copied().reduce(f64::min);
    let high = shown.iter().copied().reduce(f64::max);
    let (low, high) = low.zip(high).unwrap_or((0.0, 1.0));
    Axis::linear(low, high, N_TICKS)
}

/// The keys of what there is.
fn keys(picture: &DecisionRegionsPicture) -> Vec<(Sign, String)> {
    let mut keys = Vec::new();
    let mut fills = |color: RGBColor, words: &str| keys.push((Sign::Fill(color), words.to_owned()));
    if !picture.epochs.is_empty() {
        fills(CONTINUE, "train one more epoch");
        fills(STOP_EARLY, "stop");
        fills(RUN_TO_END, "train to the end");
        fills(NEVER, "never reached");
        fills(NO_RULE, "no rule");
        if picture.epochs.iter().any(|rules| !rules.may_stop) {
            fills(FORBIDDEN, "C2 forbids stopping");
        }
    }
    if !picture.path.is_empty() {
        let (mark, words) = picture.end();
        keys.push((Sign::Line(WAY, Some(mark)), words.to_owned()));
    }
    keys
}

fn epochs(n: usize) -> String {
    counted(n, "epoch", "epochs")
}
