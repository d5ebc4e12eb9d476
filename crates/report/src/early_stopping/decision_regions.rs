//! `decision-regions`: the decisions of an optimal stopping rule, by epoch and average error so far
//! (thesis Fig. A.2), and one trial's path through them.

use std::path::{Path, PathBuf};

use plotters::style::RGBColor;

use super::{GREEN, MARK, RED, STOPPED};
use crate::chart::axis::Axis;
use crate::chart::style::{BLUE, Glyph, INK, Marker, Stroke, WHITE, grid, size_for};
use crate::chart::{At, Chart, Key, Mark, Panel, Sign, Strip, at, counted, in_strip, write};
use crate::error::ReportError;

/// Approximate number of ticks on the vertical axis.
const N_TICKS: u32 = 7;
/// Height of the strip that shows C2.
const STRIP: f64 = 18.0;
/// Overlap of a fill with its neighbour, which prevents a visible gap between them.
const UNDER: f64 = 0.5;
/// The fills differ in brightness, so they are distinguishable without colour.
const CONTINUE: RGBColor = WHITE;
const STOP_EARLY: RGBColor = RGBColor(247, 211, 56);
const RUN_TO_END: RGBColor = RED;
const NEVER: RGBColor = RGBColor(48, 48, 48);
const NO_RULE: RGBColor = RGBColor(236, 236, 236);
const FORBIDDEN: RGBColor = RGBColor(130, 130, 130);
const ALLOWED: RGBColor = WHITE;

/// Returns the file names of the picture, with the trial number if given: `decision-regions-7.svg`.
#[must_use]
pub fn decision_regions_files(trial: Option<u64>) -> [String; 2] {
    let number = trial.map_or(String::new(), |trial| format!("-{trial}"));
    ["svg", "png"].map(|ending| format!("decision-regions{number}.{ending}"))
}

/// The stopping rule of one trial, and the trial's path.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionRegionsPicture {
    /// Title at the top; empty for none.
    pub title: String,
    /// Label of the horizontal axis: "epoch".
    pub x_label: String,
    /// Label of the vertical axis: "average error so far", or the name of the values that the
    /// errors represent.
    pub y_label: String,
    /// The rule's decisions, by increasing epoch.
    pub epochs: Vec<RegionEpoch>,
    /// The trial's average so far after each epoch, in the unit of the axis. Epochs increase and
    /// may precede the rule's first epoch.
    pub path: Vec<(usize, f64)>,
    /// The epoch after which the trial was stopped; `None` if it was not.
    pub stopped_at: Option<usize>,
}

/// The rule's decisions after one epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionEpoch {
    /// The epoch.
    pub epoch: usize,
    /// The lower end of the first cell, in the unit of the axis.
    pub low: f64,
    /// The upper end of the last cell.
    pub high: f64,
    /// Cells of equal height from `low` to `high`; `None` for a cell that no sampled path reaches.
    pub cells: Vec<Option<Region>>,
    /// True if C2 allows stopping after this epoch (thesis, section 4.3.1).
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
    /// Creates a picture without epochs and path, with the default axis labels.
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
    /// The vertical axis covers the cells that paths reach and the trial's path. A strip below the
    /// axis marks the epochs after which C2 forbids stopping.
    ///
    /// # Errors
    /// Returns [`ReportError::Draw`] if a number is not finite, epochs do not increase, cells have
    /// no height, or the trial was stopped after an epoch that is not on its path; returns
    /// [`ReportError::Write`] if a file cannot be written.
    pub fn write(&self, folder: &Path, trial: Option<u64>) -> Result<Vec<PathBuf>, ReportError> {
        let [svg, png] = decision_regions_files(trial);
        write(self.check().map(|()| self.chart()), folder, [&svg, &png])
    }

    fn check(&self) -> Result<(), String> {
        for rules in self.epochs.iter().filter(|rules| !rules.cells.is_empty()) {
            let (epoch, low, high) = (rules.epoch, rules.low, rules.high);
            if !(low.is_finite() && high.is_finite() && low < high) {
                return Err(format!("the cells of epoch {epoch} go from {low} to {high}"));
            }
        }
        if let Some((epoch, error)) = self.path.iter().find(|(_, error)| !error.is_finite()) {
            return Err(format!(
                "the trial's average error at epoch {epoch} is {error}, which is not a finite number"
            ));
        }
        let of_rules = self.epochs.windows(2).map(|pair| (pair[0].epoch, pair[1].epoch));
        let of_path = self.path.windows(2).map(|pair| (pair[0].0, pair[1].0));
        if let Some((before, after)) = of_rules.chain(of_path).find(|(a, b)| a >= b) {
            return Err(format!("epoch {after} follows epoch {before}"));
        }
        match self.stopped_at {
            Some(epoch) if !self.path.iter().any(|(known, _)| *known == epoch) => {
                Err(format!("the trial was stopped after epoch {epoch}, which is not on its path"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the mark at the end of the trial's path, and its text in the legend.
    fn end(&self) -> (Glyph, &'static str) {
        let last_rule = self.epochs.last().map(|rules| rules.epoch);
        let last = self.path.last().map(|(epoch, _)| *epoch);
        if self.stopped_at.is_some() {
            (STOPPED, "this trial, stopped")
        } else if last >= last_rule {
            (Glyph::new(Marker::TriangleUp, GREEN), "this trial, trained to the end")
        } else {
            (Glyph::disc(BLUE).hollow(), "this trial, so far")
        }
    }

    /// Returns the footnote: the epoch after which the trial ended, and the number of epochs after
    /// which C2 forbids stopping.
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

    fn chart(&self) -> Chart {
        let of_rules = self.epochs.iter().map(|rules| rules.epoch as f64);
        let epochs: Vec<f64> = of_rules.collect();
        let of_path = self.path.iter().map(|(epoch, _)| *epoch as f64);
        let all = epochs.iter().copied().chain(of_path);
        let first = all.clone().reduce(f64::min).unwrap_or(1.0);
        let last = all.reduce(f64::max).unwrap_or(1.0);
        let mut panel = Panel {
            strip: Some(Strip { above: false, height: STRIP, label: "C2" }),
            ..Panel::new(grid(1).1, Axis::whole(first, last, 8), y_axis(self))
        };
        if self.epochs.is_empty() {
            panel.nothing = "no rule".to_owned();
        } else {
            self.lay_regions(&edges(&epochs), &mut panel);
        }
        let way: Vec<At> =
            self.path.iter().map(|(epoch, error)| at(*epoch as f64, *error)).collect();
        panel.line(way.clone(), AROUND_WAY);
        panel.line(way.clone(), WAY);
        let size = size_for(way.len(), 40.0, (0.0, 2.6));
        if size > 1.4 {
            panel.points(way.clone(), Glyph::disc(BLUE).bare(), size);
        }
        let mut path = self.path.iter();
        let stop = self.stopped_at.and_then(|stop| path.position(|(epoch, _)| *epoch == stop));
        let end = stop.map_or(way.last(), |index| way.get(index));
        // The fills behind the end are red and yellow, so a black ring makes it visible.
        panel.points(end.copied().into_iter().collect(), self.end().0.ringed(), MARK);
        Chart {
            title: self.title.clone(),
            keys: keys(self),
            panels: vec![panel],
            x_label: self.x_label.clone(),
            y_label: self.y_label.clone(),
            footnote: self.footnote(),
            ..Chart::default()
        }
    }

    /// Adds the cells of each epoch between two edges.
    fn lay_regions(&self, edges: &[f64], panel: &mut Panel) {
        let mut cell =
            |from: At, to: At, color: RGBColor| panel.marks.push(Mark::Cell { from, to, color });
        let (lowest, highest) = (f64::NEG_INFINITY, f64::INFINITY);
        cell(in_strip(lowest, 0.0), at(highest, highest), NO_RULE);
        let n_epochs = self.epochs.len();
        for (index, (rules, pair)) in self.epochs.iter().zip(edges.windows(2)).enumerate() {
            let (left, right) = (pair[0], pair[1]);
            // Extends beneath the next column and the next region above, which are drawn later.
            let under = if index + 1 < n_epochs { UNDER } else { 0.0 };
            let runs = rules.runs();
            // Paths do not go below or above the cells either.
            let first = runs.first().map_or(highest, |(_, low, _)| *low);
            let below = (None, lowest, first);
            let above = runs.last().map(|(_, _, high)| (None, *high, highest));
            for (region, low, high) in [below].into_iter().chain(runs).chain(above) {
                let to = at(right, high).shifted(under, if high < highest { -UNDER } else { 0.0 });
                cell(at(left, low), to, fill(region));
            }
            let allowed = if rules.may_stop { ALLOWED } else { FORBIDDEN };
            cell(in_strip(left, 0.0), in_strip(right, 1.0).shifted(under, 0.0), allowed);
        }
        // The fills cover the axes.
        for ends in [
            [at(lowest, lowest), at(highest, lowest)],
            [in_strip(lowest, 0.0), in_strip(highest, 0.0)],
            [at(lowest, highest), in_strip(lowest, 0.0)],
        ] {
            panel.line(ends.to_vec(), Stroke::solid(INK, 1.0));
        }
    }
}

impl RegionEpoch {
    /// Groups equal neighbouring cells, from below: the region and its lower and upper end.
    fn runs(&self) -> Vec<(Option<Region>, f64, f64)> {
        let n_cells = self.cells.len();
        let height = (self.high - self.low) / n_cells.max(1) as f64;
        let edge = |index: usize| {
            if index == n_cells { self.high } else { self.low + height * index as f64 }
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

/// Returns the fill of a region.
fn fill(region: Option<Region>) -> RGBColor {
    match region {
        Some(Region::Continue) => CONTINUE,
        Some(Region::StopEarly) => STOP_EARLY,
        Some(Region::RunToEnd) => RUN_TO_END,
        None => NEVER,
    }
}

/// The trial's path, and the white margin around it.
const WAY: Stroke = Stroke::solid(BLUE, 2.0);
const AROUND_WAY: Stroke = Stroke::solid(WHITE, 4.5);

/// Returns the edges of the columns: halfway between epochs, and equally far beyond the first and
/// the last.
fn edges(epochs: &[f64]) -> Vec<f64> {
    let (Some(first), Some(last)) = (epochs.first(), epochs.last()) else {
        return Vec::new();
    };
    let halves: Vec<f64> = epochs.windows(2).map(|pair| (pair[1] - pair[0]) / 2.0).collect();
    let half = |at: Option<&f64>| at.copied().unwrap_or(0.5);
    let inner = epochs.windows(2).map(|pair| f64::midpoint(pair[0], pair[1]));
    let mut edges = vec![first - half(halves.first())];
    edges.extend(inner);
    edges.push(last + half(halves.last()));
    edges
}

/// Creates the axis over the reached cells and the trial's path.
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

/// Returns the legend entries of the fills and marks in use.
fn keys(picture: &DecisionRegionsPicture) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut fills = |color: RGBColor, text: &str| {
        keys.push(Key::new(Sign::Boxed(color), text));
    };
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
        let (glyph, text) = picture.end();
        keys.push(Key::new(Sign::Ending(WAY, glyph), text));
    }
    keys
}

fn epochs(n: usize) -> String {
    counted(n, "epoch", "epochs")
}
