//! `tradeoff.svg` and `tradeoff.png`: final metrics of arms against the cost of their releases, as
//! in DP-FTS-DE Fig. 3a, b, c.
//!
//! This module converts a summary to the picture. It does not depend on accountants: a cost is a
//! number with a name. Start at [`TradeoffSpec`], then [`Tradeoff`].

mod picture;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::chart::{Scale, write};
use crate::error::ReportError;
use crate::summary::{ArmSummary, Estimate, Summary};

/// File names of the picture.
pub const TRADEOFF_FILES: [&str; 2] = ["tradeoff.svg", "tradeoff.png"];

/// The settings of the picture, stored in the summary so that it can be redrawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TradeoffSpec {
    /// Title at the top; empty for none.
    pub title: String,
    /// Label of the vertical axis, which shows the summary's metric, with its unit.
    pub y_label: String,
    /// The panels, row by row.
    pub panels: Vec<TradeoffPanel>,
}

/// One panel with its own axes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TradeoffPanel {
    /// Title above the panel; empty for none.
    pub title: String,
    /// Label of the horizontal axis: the cost and its conditions.
    pub x_label: String,
    /// The scale of the horizontal axis. Costs on a logarithmic axis must be above 0.
    pub scale: Scale,
    /// Arms with a cost, grouped into series by the setting that varies. Each series has a marker
    /// and a colour.
    pub series: Vec<TradeoffSeries>,
    /// Arms without a cost, drawn as horizontal lines with names at their ends.
    pub levels: Vec<ArmRef>,
}

/// Arms that differ in one setting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TradeoffSeries {
    /// The series' name in the legend. Series with equal names look the same in all panels.
    pub name: String,
    /// The arms in the series.
    pub points: Vec<TradeoffPoint>,
}

/// An arm with a cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TradeoffPoint {
    /// The arm.
    pub arm: ArmRef,
    /// The text beside the marker; empty for none.
    pub label: String,
    /// The position on the horizontal axis.
    pub cost: f64,
}

/// An arm of a summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArmRef {
    /// The configuration of the arm; empty if the summary has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub configuration: String,
    /// The arm's name.
    pub arm: String,
}

impl ArmRef {
    /// Creates a reference to the arm with this name in a configuration.
    pub fn new(configuration: impl Into<String>, arm: impl Into<String>) -> Self {
        Self { configuration: configuration.into(), arm: arm.into() }
    }

    fn find<'a>(&self, summary: &'a Summary) -> Option<&'a ArmSummary> {
        let arms = if self.configuration.is_empty() {
            &summary.arms
        } else {
            let mut parts = summary.configurations.iter();
            &parts.find(|part| part.experiment == self.configuration)?.arms
        };
        arms.iter().find(|arm| arm.arm == self.arm)
    }
}

impl Summary {
    /// Adds the picture that `spec` describes to the summary and its file, and writes
    /// [`TRADEOFF_FILES`] into the folder.
    ///
    /// # Errors
    /// Fails if a file cannot be written or drawn.
    pub fn add_tradeoff(&mut self, spec: TradeoffSpec, folder: &Path) -> Result<(), ReportError> {
        Tradeoff::of(self, &spec).write(folder)?;
        self.tradeoff = Some(spec);
        self.write(folder)
    }
}

/// The picture's data: the final metric of each arm and its cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Tradeoff {
    title: String,
    y_label: String,
    panels: Vec<Panel>,
    /// Number of requested arms without a value or without a position on the axis.
    n_missing: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Panel {
    title: String,
    x_label: String,
    scale: Scale,
    series: Vec<Series>,
    levels: Vec<Level>,
}

#[derive(Clone, Debug, PartialEq)]
struct Series {
    name: String,
    marks: Vec<Mark>,
}

#[derive(Clone, Debug, PartialEq)]
struct Mark {
    label: String,
    cost: f64,
    estimate: Estimate,
}

#[derive(Clone, Debug, PartialEq)]
struct Level {
    name: String,
    estimate: Estimate,
}

impl Tradeoff {
    /// Creates the picture that `spec` describes.
    ///
    /// Omits arms that are missing from the summary, have no value, or have a cost that does not
    /// fit the axis. The picture states their number.
    #[must_use]
    pub fn of(summary: &Summary, spec: &TradeoffSpec) -> Self {
        let mut n_missing = 0;
        let mut found = |arm: &ArmRef, shown: bool| {
            let last = arm.find(summary).and_then(|arm| arm.last);
            let estimate = last.filter(|estimate| shown && estimate.mean.is_finite());
            n_missing += usize::from(estimate.is_none());
            estimate
        };
        let mut panels = Vec::with_capacity(spec.panels.len());
        for panel in &spec.panels {
            let mut series = Vec::with_capacity(panel.series.len());
            for each in &panel.series {
                let mut marks = Vec::with_capacity(each.points.len());
                for point in &each.points {
                    let on_axis = point.cost.is_finite()
                        && (panel.scale == Scale::Linear || point.cost > 0.0);
                    if let Some(estimate) = found(&point.arm, on_axis) {
                        marks.push(Mark { label: point.label.clone(), cost: point.cost, estimate });
                    }
                }
                let name = each.name.clone();
                series.push(Series { name, marks });
            }
            let mut levels = Vec::with_capacity(panel.levels.len());
            for level in &panel.levels {
                if let Some(estimate) = found(level, true) {
                    let name = level.arm.clone();
                    levels.push(Level { name, estimate });
                }
            }
            panels.push(Panel {
                title: panel.title.clone(),
                x_label: panel.x_label.clone(),
                scale: panel.scale,
                series,
                levels,
            });
        }
        Self { title: spec.title.clone(), y_label: spec.y_label.clone(), panels, n_missing }
    }

    /// Writes [`TRADEOFF_FILES`] into the folder.
    ///
    /// # Errors
    /// Fails if a file cannot be written or drawn.
    pub fn write(&self, folder: &Path) -> Result<(), ReportError> {
        write(Ok(picture::chart(self)), folder, TRADEOFF_FILES).map(|_| ())
    }

    fn estimates(&self) -> impl Iterator<Item = &Estimate> {
        self.panels.iter().flat_map(Panel::estimates)
    }
}

impl Panel {
    fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.series.iter().flat_map(|series| &series.marks)
    }

    fn estimates(&self) -> impl Iterator<Item = &Estimate> {
        let marks = self.marks().map(|mark| &mark.estimate);
        marks.chain(self.levels.iter().map(|level| &level.estimate))
    }
}

#[cfg(test)]
mod tests;
