//! Pictures of one party's study, each as SVG and PNG: `history`, `slices`, `importance` and, if
//! the study learns from old studies, `transfer`; for several objectives, `pareto`.
//!
//! This module draws trials. It does not depend on storage or proposals: its input is plain data.
//! Start at [`StudyPlot`].

mod history;
mod importance;
mod pareto;
mod slices;
mod transfer;

use std::path::Path;

use fedbo_space::{Direction, Kind};

use crate::chart::style::{BLUE, GREY, Glyph, INK, Marker};
use crate::chart::values::{ValueAxis, labelled};
use crate::chart::{Chart, Key, Panel, Picture, Sign, Strip, at, write};
use crate::error::ReportError;

/// Names of the pictures, each with the extensions `.svg` and `.png`.
pub const STUDY_PICTURES: [&str; 3] = ["history", "slices", "importance"];

/// Name of the additional picture for a study that learns from old studies.
pub const TRANSFER_PICTURE: &str = "transfer";

/// Name of the picture that replaces the others for a study with several objectives.
pub const PARETO_PICTURE: &str = "pareto";

/// Label and marker of trials that violate a constraint.
const INFEASIBLE: (&str, Glyph) = ("infeasible", Glyph::new(Marker::Square, GREY).hollow());
/// Label of failed trials.
const FAILED: &str = "failed";
/// Range of drawn magnitudes: larger values are drawn at the upper limit, and smaller ones as 0.
const MAGNITUDE: (f64, f64) = (1e-300, 1e300);

/// A parameter of the study.
#[derive(Clone, Debug, PartialEq)]
pub struct PlottedParameter {
    /// The parameter's name.
    pub name: String,
    /// The range of the parameter's values.
    pub range: Kind,
}

/// The value of one parameter in a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PlottedValue {
    /// A number.
    Number(f64),
    /// Index of a choice.
    Choice(usize),
}

/// One trial.
#[derive(Clone, Debug, PartialEq)]
pub struct PlottedTrial {
    /// The trial's number in the study.
    pub number: u64,
    /// The trial's value; `None` if it failed. A value that is not finite counts as failed.
    pub value: Option<f64>,
    /// The parameter values, in the order of the parameters. A value that does not fit its
    /// parameter, such as a number for a categorical parameter, is not drawn.
    pub coordinates: Vec<PlottedValue>,
    /// True if the trial belongs to the initial points.
    pub initial: bool,
    /// The trial's objectives, if the study has several.
    pub numbers: Vec<f64>,
    /// True if the trial satisfies all constraints.
    pub feasible: bool,
    /// True if the study has several objectives, the trial satisfies all constraints, and no other
    /// feasible trial dominates it.
    pub on_front: bool,
}

/// One of several objectives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlottedObjective {
    /// The objective's name.
    pub name: String,
    /// The direction of optimization.
    pub direction: Direction,
}

/// The importance of one parameter by two measures, which are shown side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct PlottedImportance {
    /// Name of the parameter.
    pub parameter: String,
    /// Share of the posterior mean's variance explained by the parameter, from 0 to 1.
    pub variance_share: f64,
    /// Relevance by length scale (ARD), as a share from 0 to 1.
    pub relevance: f64,
}

/// An old study that the study learns from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlottedOldStudy {
    /// The old study's name.
    pub name: String,
    /// The old study's fraction of the old studies' share, from 0 to 1, one number per query.
    pub weights: Vec<f64>,
    /// True if the old study's weight is no longer significant at the last query.
    pub dropped: bool,
}

/// The influence of old studies on a study, by query: before the first completed trial, and after
/// each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlottedTransfer {
    /// The old studies' share in each query, from 0 to 1. A negative value, down to −1, is the
    /// share of their negated functions.
    pub shares: Vec<f64>,
    /// The old studies, each with one weight per share; empty if they share one weight.
    pub studies: Vec<PlottedOldStudy>,
}

/// The pictures of one study.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StudyPlot {
    /// Title at the top of every picture; empty for none.
    pub title: String,
    /// True if smaller values are better.
    pub minimize: bool,
    /// The objectives, if there are several.
    pub objectives: Vec<PlottedObjective>,
    /// The finished trials in completion order. Trials stopped early are excluded, since they have
    /// no final value.
    pub trials: Vec<PlottedTrial>,
    /// Number of trials that were stopped early, for the footnotes.
    pub n_stopped: usize,
    /// The parameters.
    pub parameters: Vec<PlottedParameter>,
    /// Importances in any order. If empty, the picture states that they are unknown.
    pub importance: Vec<PlottedImportance>,
    /// The influence of old studies, if the study learns from any.
    pub transfer: Option<PlottedTransfer>,
}

impl StudyPlot {
    /// Returns the names of this study's pictures, each with the extensions `.svg` and `.png`.
    #[must_use]
    pub fn pictures(&self) -> Vec<&'static str> {
        if !self.objectives.is_empty() {
            return vec![PARETO_PICTURE];
        }
        let further = self.transfer.as_ref().map(|_| TRANSFER_PICTURE);
        STUDY_PICTURES.into_iter().chain(further).collect()
    }

    /// Writes this study's pictures into an existing folder, each as `.svg` and `.png`.
    ///
    /// - `history`: each trial's value and the best value so far. Failed trials are in a strip
    ///   beyond the worse end of the axis. A few values far beyond all others are drawn at that
    ///   end, with a separate marker. The axis is logarithmic if values of one sign span more than
    ///   two decades and the better ones would otherwise be hard to distinguish.
    /// - `slices`: the same values against each parameter, coloured by order from the first to the
    ///   last trial.
    /// - `importance`: both shares of each parameter, in decreasing order.
    /// - `pareto`: for several objectives, instead of the pictures above. Each pair of objectives
    ///   is plotted against each other. With two objectives, the front is a line.
    /// - `transfer`: the weight of each old study at every query, with their combined share below.
    ///
    /// # Errors
    /// Fails if a file cannot be written or drawn.
    pub fn write(&self, folder: &Path) -> Result<(), ReportError> {
        for name in self.pictures() {
            let files = ["svg", "png"].map(|ending| format!("{name}.{ending}"));
            write(Ok(self.chart(name)), folder, [&files[0], &files[1]])?;
        }
        Ok(())
    }

    /// Returns one of the [`StudyPlot::pictures`] in memory; `None` if this study has no picture
    /// with this name.
    #[must_use]
    pub fn picture(&self, name: &str) -> Option<Picture> {
        self.pictures().contains(&name).then(|| self.chart(name).picture(&format!("{name}.svg")))
    }

    /// Returns the chart of the picture with this name.
    fn chart(&self, name: &str) -> Chart {
        match (name, &self.transfer) {
            ("history", _) => history::chart(self),
            ("slices", _) => slices::chart(self),
            ("importance", _) => importance::chart(self),
            (PARETO_PICTURE, _) => pareto::chart(self),
            (_, Some(transfer)) => transfer::chart(&self.title, transfer),
            (_, None) => Chart::default(),
        }
    }

    /// Returns the index of the best feasible trial; the first one in a tie.
    fn best(&self) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        for (index, trial) in self.trials.iter().enumerate() {
            let Some(value) = trial.drawn().filter(|_| trial.feasible) else { continue };
            if best.is_none_or(|(_, so_far)| self.is_better(value, so_far)) {
                best = Some((index, value));
            }
        }
        best.map(|(index, _)| index)
    }

    fn is_better(&self, value: f64, than: f64) -> bool {
        if self.minimize { value < than } else { value > than }
    }

    fn direction(&self) -> Direction {
        if self.minimize { Direction::Minimize } else { Direction::Maximize }
    }

    /// Returns the label of the value axis.
    fn value_label(&self) -> String {
        labelled("", self.direction())
    }

    fn value_axis(&self) -> ValueAxis {
        let values = self.trials.iter().filter_map(PlottedTrial::drawn);
        ValueAxis::of(values, self.direction(), None)
            .expect("an axis that the values choose is theirs")
    }

    /// Returns the number of trials that have a value but violate a constraint.
    fn n_infeasible(&self) -> usize {
        self.trials.iter().filter(|trial| trial.drawn().is_some() && !trial.feasible).count()
    }

    fn has_failed(&self) -> bool {
        self.trials.iter().any(|trial| trial.drawn().is_none())
    }

    /// Returns the strip of failed trials, at the worse end; `None` if there are none.
    fn strip(&self, height: f64) -> Option<Strip> {
        self.has_failed().then_some(Strip { above: self.minimize, height, label: FAILED })
    }

    /// Returns the text for an empty picture; an empty string if there is something to show.
    fn nothing(&self) -> String {
        let text = match self.trials.iter().any(|trial| trial.drawn().is_some()) {
            true => "",
            false if self.trials.is_empty() => "no finished trial",
            false => "no trial has a value",
        };
        text.to_owned()
    }

    /// Returns the marker for a value beyond the end of the axis.
    fn beyond_mark(&self) -> Glyph {
        let marker = if self.minimize { Marker::TriangleUp } else { Marker::TriangleDown };
        Glyph::new(marker, BLUE)
    }

    /// Places a marker just inside the end of the axis for a value beyond it.
    fn beyond(&self, panel: &mut Panel, x: f64, size: f64) {
        let (end, inwards) =
            if self.minimize { (f64::INFINITY, 1.6) } else { (f64::NEG_INFINITY, -1.6) };
        panel.points(vec![at(x, end).shifted(0.0, inwards * size)], self.beyond_mark(), size);
    }

    /// Returns the legend entries of the markers at the worse end.
    fn keys_of_borders(&self, values: &ValueAxis) -> Vec<Key> {
        let mut drawn = self.trials.iter().filter_map(PlottedTrial::drawn);
        let is_beyond = drawn.any(|value| values.is_beyond(value));
        let signs = [
            (is_beyond, self.beyond_mark(), "worse, off the axis"),
            (self.n_infeasible() > 0, INFEASIBLE.1, INFEASIBLE.0),
            (self.has_failed(), Glyph::failed(INK), FAILED),
        ];
        let shown = signs.into_iter().filter(|(is_shown, ..)| *is_shown);
        shown.map(|(_, glyph, text)| Key::new(Sign::Point(glyph), text)).collect()
    }

    /// Returns the footnote: the number of trials, the number of trials not shown, and the best
    /// trial.
    fn footnote(&self) -> String {
        let n_trials = self.trials.len();
        let failed = self.trials.iter().filter(|trial| trial.drawn().is_none());
        let mut text = match n_trials {
            1 => "1 trial".to_owned(),
            _ => format!("{n_trials} trials"),
        };
        match failed.count() {
            0 => {}
            n_failed => text += &format!(", {n_failed} failed"),
        }
        match self.n_infeasible() {
            0 => {}
            n => text += &format!(", {n} {}", INFEASIBLE.0),
        }
        if self.n_stopped > 0 {
            text += &format!(" ({} more stopped early, not shown)", self.n_stopped);
        }
        let best = self.best().map(|index| &self.trials[index]);
        if let Some((number, value)) = best.and_then(|trial| Some((trial.number, trial.value?))) {
            text += &format!("; best: trial {number} with {}", significant(value));
        }
        text
    }
}

impl PlottedTrial {
    /// Returns the value as drawn; `None` without a value.
    fn drawn(&self) -> Option<f64> {
        self.value.filter(|value| value.is_finite()).map(within_magnitude)
    }
}

fn within_magnitude(value: f64) -> f64 {
    let (least, most) = MAGNITUDE;
    if value.abs() < least { 0.0 } else { value.clamp(-most, most) }
}

/// Labels trials by number if they finished in numerical order, otherwise by their position in
/// completion order.
fn order_label(study: &StudyPlot) -> (&'static str, Vec<f64>) {
    let ordered = study.trials.windows(2).all(|pair| pair[0].number < pair[1].number);
    if ordered {
        ("trial", study.trials.iter().map(|trial| trial.number as f64).collect())
    } else {
        let places = 1..=study.trials.len();
        ("trial, in the order told", places.map(|place| place as f64).collect())
    }
}

/// Formats a number with at most six significant digits.
fn significant(value: f64) -> String {
    let scientific = format!("{value:.5e}");
    let exponent = scientific.split_once('e').map_or("0", |(_, power)| power);
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |digits: &str| -> String {
        if digits.contains('.') {
            digits.trim_end_matches('0').trim_end_matches('.').into()
        } else {
            digits.into()
        }
    };
    let text = if (-4..6).contains(&exponent) {
        let n_decimals = usize::try_from(5 - exponent).unwrap_or(0);
        trimmed(&format!("{value:.n_decimals$}"))
    } else {
        let (digits, _) = scientific.split_once('e').unwrap_or((&scientific, ""));
        format!("{}e{exponent}", trimmed(digits))
    };
    text.replace('-', "−")
}

#[cfg(test)]
mod tests;
