//! `curves.svg` and `curves.png`: mean lines with standard-error bands.
//!
//! Arms differ in colour, marker and dash pattern, so they are distinguishable without colour. The
//! legend is above the panels and never covers data. Both files come from the same drawing code.

use std::collections::BTreeMap;
use std::path::Path;

use plotters::style::Color as _;
use serde::{Deserialize, Serialize};

use super::chart::axis::Axis;
use super::chart::style::{Glyph, Stroke, grid};
use super::chart::{self, At, Chart, Key, Mark, Rule, Scale, Sign, at};
use super::curves::{Curve, CurvePoint, curves};
use super::error::ReportError;
use super::metric::Metric;
use super::row::Row;
use super::summary::Clusters;

/// Height of the leading panel.
const LEAD_HEIGHT: f64 = 260.0;

/// Division of a picture into panels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PanelBy {
    /// No division: one panel with the mean over all units.
    #[default]
    None,
    /// One panel per agent.
    Agent,
    /// One panel per value of the column `experiment`, for the configurations of an experiment.
    Experiment,
}

/// A horizontal line at a known value, such as an optimum or a published result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// Legend text.
    pub label: String,
    /// The value at which the line is drawn.
    pub value: f64,
}

/// The picture settings of a results folder, stored in its summary so that the pictures can be
/// redrawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FigureSpec {
    /// Title at the top; empty for none, as in papers.
    pub title: String,
    /// Label of the horizontal axis, with its unit.
    pub x_label: String,
    /// Label of the vertical axis, with its unit.
    pub y_label: String,
    /// The scale of the vertical axis.
    pub scale: Scale,
    /// The division into panels.
    pub panel_by: PanelBy,
    /// True if agents learn from each other, so that each run counts as one value.
    ///
    /// Curves over several agents are then averaged over the agents of each run first, and bands
    /// are over runs. If there is one panel per agent, a leading panel shows the mean over agents.
    pub mean_over_agents: bool,
    /// True if all panels share the vertical axis.
    pub shared_y: bool,
    /// Lines drawn in every panel.
    pub references: Vec<Reference>,
    /// Plain-language labels of arms, by name. Tables and pictures show both.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub arm_labels: BTreeMap<String, String>,
}

impl Default for FigureSpec {
    fn default() -> Self {
        Self {
            title: String::new(),
            x_label: "iteration".to_owned(),
            y_label: "best value so far".to_owned(),
            scale: Scale::Linear,
            panel_by: PanelBy::None,
            mean_over_agents: false,
            shared_y: false,
            references: Vec::new(),
            arm_labels: BTreeMap::new(),
        }
    }
}

impl FigureSpec {
    /// Formats an arm's label and name, such as `each alone (log-ei)`; only the name if it has no
    /// label.
    #[must_use]
    pub fn arm_label(&self, arm: &str) -> String {
        match self.arm_labels.get(arm) {
            Some(words) => format!("{words} ({arm})"),
            None => arm.to_owned(),
        }
    }
}

/// One panel with its own axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Title above the panel; empty for none.
    pub title: String,
    /// The arms.
    pub curves: Vec<Curve>,
    /// Horizontal lines.
    pub references: Vec<Reference>,
}

/// A picture of one or more panels.
///
/// Curves start at iteration 0, the end of the initial points, which are the same in all arms.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Title at the top; empty for none.
    pub title: String,
    /// Label of the horizontal axis, with its unit.
    pub x_label: String,
    /// Label of the vertical axis, with its unit.
    pub y_label: String,
    /// The scale of the vertical axis.
    pub scale: Scale,
    /// True if all panels except the leading one share the vertical axis.
    pub shared_y: bool,
    /// A wide panel above all others, with a separate vertical axis.
    pub lead: Option<Panel>,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
}

impl Figure {
    /// Creates the figure that `spec` describes from the rows of a results file.
    #[must_use]
    pub fn from_rows(rows: &[Row], metric: Metric, spec: &FigureSpec) -> Self {
        let key = |row: &Row| match spec.panel_by {
            PanelBy::None => String::new(),
            PanelBy::Agent => row.agent.clone(),
            PanelBy::Experiment => row.experiment.clone(),
        };
        let mut titles: Vec<String> = Vec::new();
        let mut groups: BTreeMap<String, Vec<Row>> = BTreeMap::new();
        for row in rows {
            let title = key(row);
            if !groups.contains_key(&title) {
                titles.push(title.clone());
            }
            groups.entry(title).or_default().push(row.clone());
        }
        let clusters = match spec.mean_over_agents {
            true => Clusters::Runs,
            false => Clusters::Units,
        };
        let labelled = |curve: Curve| Curve { arm: spec.arm_label(&curve.arm), ..curve };
        let panel = |title: String, rows: &[Row]| Panel {
            curves: curves(rows, metric, clusters).into_iter().map(labelled).collect(),
            title,
            references: spec.references.clone(),
        };
        let leads = spec.mean_over_agents && spec.panel_by == PanelBy::Agent && titles.len() > 1;
        let lead = leads.then(|| panel(format!("mean over {} agents", titles.len()), rows));
        Self {
            title: spec.title.clone(),
            x_label: spec.x_label.clone(),
            y_label: spec.y_label.clone(),
            scale: spec.scale,
            shared_y: spec.shared_y,
            lead,
            panels: titles
                .into_iter()
                .map(|title| {
                    let rows = &groups[&title];
                    panel(title, rows)
                })
                .collect(),
        }
    }

    /// Writes `curves.svg` and `curves.png` into the folder.
    ///
    /// # Errors
    /// Fails if a file cannot be written or drawn.
    pub fn write(&self, folder: &Path) -> Result<(), ReportError> {
        self.write_svg(&folder.join("curves.svg"))?;
        self.write_png(&folder.join("curves.png"))
    }

    /// Writes the picture as SVG.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn write_svg(&self, path: &Path) -> Result<(), ReportError> {
        self.chart().write_svg(path)
    }

    /// Writes the picture as PNG.
    ///
    /// # Errors
    /// Fails if the picture cannot be encoded or the file cannot be written.
    pub fn write_png(&self, path: &Path) -> Result<(), ReportError> {
        self.chart().write_png(path)
    }

    /// Returns all panels, the leading one first.
    fn all_panels(&self) -> impl Iterator<Item = &Panel> + Clone {
        self.lead.iter().chain(&self.panels)
    }

    pub(crate) fn chart(&self) -> Chart {
        let (arms, references) = (self.arms(), self.reference_labels());
        // Below a leading panel, seven or eight panels fit into two rows.
        let (n_columns, size) = match (&self.lead, self.panels.len()) {
            (Some(_), 7 | 8) => grid(10),
            (_, n_panels) => grid(n_panels),
        };
        let iterations = self.all_panels().flat_map(|panel| &panel.curves).flat_map(shown);
        let iterations = iterations.map(|point| point.iteration as f64);
        let first = iterations.clone().reduce(f64::min).unwrap_or(0.0);
        let last = iterations.reduce(f64::max).unwrap_or(1.0);
        let first_row = usize::from(self.lead.is_some());
        let panels = self.panels.iter().enumerate().map(|(index, panel)| {
            let n_ticks = if n_columns == 1 { (8, 7) } else { (5, 5) };
            let own = std::slice::from_ref(panel);
            let over = if self.shared_y { &self.panels[..] } else { own };
            let x = Axis::iterations(first, last, n_ticks.0);
            chart::Panel {
                cell: (first_row + index / n_columns, index % n_columns),
                ..self.panel(panel, (&arms, &references), size, (x, self.y_axis(over, n_ticks.1)))
            }
        });
        let lead = self.lead.as_ref().map(|panel| {
            let axes =
                (Axis::iterations(first, last, 10), self.y_axis(std::slice::from_ref(panel), 6));
            let size = (n_columns as f64 * size.0, LEAD_HEIGHT);
            chart::Panel { wide: true, ..self.panel(panel, (&arms, &references), size, axes) }
        });
        let curve = |(index, text): (usize, &String)| {
            let (stroke, glyph) = (Stroke::of_arm(index), Some(Glyph::of_arm(index)));
            Key::new(Sign::Line { stroke, glyph, band: true }, text.clone())
        };
        let reference = |(index, text): (usize, &String)| {
            let stroke = Stroke::of_reference(index);
            Key::new(Sign::line(stroke), text.clone())
        };
        let curves = arms.iter().enumerate().map(curve);
        Chart {
            title: self.title.clone(),
            keys: curves.chain(references.iter().enumerate().map(reference)).collect(),
            panels: lead.into_iter().chain(panels).collect(),
            x_label: self.x_label.clone(),
            y_label: self.y_label.clone(),
            footnote: self.footnote(),
            ..Chart::default()
        }
    }

    /// Returns the names of the arms in all panels. A name's index selects its style.
    fn arms(&self) -> Vec<String> {
        let curves = self.all_panels().flat_map(|panel| &panel.curves);
        different(curves.map(|curve| &curve.arm))
    }

    fn reference_labels(&self) -> Vec<String> {
        let references = self.all_panels().flat_map(|panel| &panel.references);
        different(references.map(|reference| &reference.label))
    }

    /// Creates the vertical axis over all values shown in these panels.
    fn y_axis(&self, panels: &[Panel], n_ticks: u32) -> Axis {
        let is_log = self.scale == Scale::Log;
        let mut values: Vec<f64> = Vec::new();
        for point in panels.iter().flat_map(|panel| &panel.curves).flat_map(shown) {
            let error = point.estimate.standard_error.unwrap_or(0.0);
            let mean = point.estimate.mean;
            // A band that reaches zero would be infinitely long on a logarithmic axis.
            let lower = if is_log { (mean - error).max(mean / 4.0) } else { mean - error };
            values.extend([lower, mean + error]);
        }
        let references = panels.iter().flat_map(|panel| &panel.references);
        values.extend(references.map(|reference| reference.value));
        values.retain(|value| value.is_finite() && (!is_log || *value > 0.0));
        let low = values.iter().copied().reduce(f64::min).unwrap_or(1.0);
        let high = values.iter().copied().reduce(f64::max).unwrap_or(1.0);
        match self.scale {
            Scale::Linear => Axis::linear(low, high, n_ticks),
            Scale::Log => Axis::log(low.log10(), high.log10(), n_ticks),
        }
    }

    fn panel(
        &self,
        panel: &Panel,
        (arms, references): (&[String], &[String]),
        size: (f64, f64),
        (x, y): (Axis, Axis),
    ) -> chart::Panel {
        let is_wide = size.0 > 400.0;
        let mut drawn =
            chart::Panel { title: panel.title.clone(), ..chart::Panel::new(size, x, y) };
        let index_of = |names: &[String], name: &String| {
            names.iter().position(|each| each == name).unwrap_or(0)
        };
        for reference in &panel.references {
            let y = reference.value;
            if y.is_finite() && (self.scale == Scale::Linear || y > 0.0) {
                let stroke = Stroke::of_reference(index_of(references, &reference.label));
                drawn.rules.push(Rule { y, stroke, name: String::new(), ends: None });
            }
        }
        let styled = panel.curves.iter().map(|curve| (index_of(arms, &curve.arm), curve));
        for (index, curve) in styled.clone() {
            let edge = |sign: f64| {
                shown(curve).filter_map(move |point| {
                    let error = point.estimate.standard_error?;
                    Some(at(point.iteration as f64, point.estimate.mean + sign * error))
                })
            };
            let upper: Vec<At> = edge(1.0).collect();
            if upper.len() > 1 {
                let lower: Vec<At> = edge(-1.0).collect();
                let corners = upper.into_iter().chain(lower.into_iter().rev()).collect();
                let color = Stroke::of_arm(index).color.mix(0.16);
                drawn.marks.push(Mark::Band { at: corners, color });
            }
        }
        let points = |curve: &Curve| -> Vec<At> {
            shown(curve).map(|point| at(point.iteration as f64, point.estimate.mean)).collect()
        };
        // The first arm is drawn last, above the others.
        for (index, curve) in styled.clone().rev() {
            drawn.line(points(curve), Stroke::of_arm(index));
        }
        // Each curve has about eight markers, fewer in small panels. Different arms have them at
        // different iterations.
        for (index, curve) in styled.rev() {
            let points = points(curve);
            let every = points.len().div_ceil(if is_wide { 8 } else { 5 }).max(1);
            let first = index * every / arms.len().max(1);
            let marked = points.into_iter().skip(first).step_by(every).collect();
            drawn.points(marked, Glyph::of_arm(index), if is_wide { 4.0 } else { 3.4 });
        }
        drawn
    }

    /// Returns the footnote, which explains lines and bands and states the number of units.
    fn footnote(&self) -> String {
        let points = self.all_panels().flat_map(|panel| &panel.curves).flat_map(shown);
        let counts: Vec<usize> = points.map(|point| point.estimate.n).collect();
        let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) else {
            return "no data".to_owned();
        };
        let units = match (least, most) {
            (1, 1) => return "one run of each".to_owned(),
            _ if least == most => format!("{most}"),
            _ => format!("{least} to {most}"),
        };
        match self.lead {
            Some(_) => format!("mean ± one standard error over {units} runs"),
            None => format!("mean ± one standard error, n = {units}"),
        }
    }
}

/// Returns the points that are drawn: those from iteration 0 on.
fn shown(curve: &Curve) -> impl Iterator<Item = &CurvePoint> + Clone {
    curve.points.iter().filter(|point| point.iteration >= 0)
}

/// Returns the names without duplicates.
fn different<'a>(all: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in all {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::trace::tests::row;
    use super::*;
    use crate::chart::svg::{png_size, svg_size};

    fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        for (arm_idx, arm) in ["ts", "fts & <co>"].into_iter().enumerate() {
            for (agent, run) in [("a", 0), ("a", 1), ("b", 0)] {
                for iteration in -2..=20 {
                    let best =
                        1.0 - 1.0 / (iteration as f64 + 4.0 + f64::from(run) + arm_idx as f64);
                    rows.push(row(arm, agent, run, iteration, Some(best)));
                }
            }
        }
        rows
    }

    #[test]
    fn both_files_are_written_and_have_the_same_proportions() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Figure::from_rows(&rows(), Metric::Best, &FigureSpec::default())
            .write(folder.path())
            .expect("a writable folder");
        let svg = std::fs::read_to_string(folder.path().join("curves.svg")).expect("the SVG");
        let png = std::fs::read(folder.path().join("curves.png")).expect("the PNG");
        let (width, height) = svg_size(&svg);
        assert_eq!(png_size(&png), (2.0 * width, 2.0 * height));
        assert!(svg.contains("fts &amp; &lt;co&gt;"));
    }

    /// Arms without a label keep their names.
    #[test]
    fn the_legend_shows_plain_words_beside_names() {
        let words = [("ts".to_owned(), "each alone".to_owned())];
        let spec = FigureSpec { arm_labels: BTreeMap::from(words), ..FigureSpec::default() };
        let svg = Figure::from_rows(&rows(), Metric::Best, &spec).chart().svg();
        assert!(svg.contains("each alone (ts)") && svg.contains("fts &amp; &lt;co&gt;"), "{svg}");
        let again: FigureSpec =
            serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
        assert_eq!(again, spec);
    }

    #[test]
    fn panels_follow_the_agents_in_the_order_of_the_file() {
        let spec = FigureSpec { panel_by: PanelBy::Agent, ..FigureSpec::default() };
        let figure = Figure::from_rows(&rows(), Metric::Best, &spec);
        let titles: Vec<&str> = figure.panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, ["a", "b"]);
        assert_eq!(figure.panels[0].curves[0].points[0].estimate.n, 2);
        assert_eq!(figure.panels[1].curves[0].points[0].estimate.n, 1);
    }

    /// Checked by hand: at iteration 20, agents a and b of run 0 have equal values, and run 1 has
    /// only agent a.
    #[test]
    fn the_mean_over_agents_leads_with_one_value_a_run() {
        let spec = FigureSpec {
            panel_by: PanelBy::Agent,
            mean_over_agents: true,
            ..FigureSpec::default()
        };
        let figure = Figure::from_rows(&rows(), Metric::Best, &spec);
        let lead = figure.lead.as_ref().expect("a leading panel");
        assert_eq!(lead.title, "mean over 2 agents");
        let last = lead.curves[0].points.last().expect("points").estimate;
        assert_eq!(last.n, 2, "runs, not agents");
        let mean = 1.0 - (1.0 / 24.0 + 1.0 / 25.0) / 2.0;
        assert!((last.mean - mean).abs() < 1e-12, "{last:?}");
        let folder = tempfile::tempdir().expect("a temporary folder");
        figure.write(folder.path()).expect("a writable folder");
        let svg = std::fs::read_to_string(folder.path().join("curves.svg")).expect("the SVG");
        assert!(svg.contains("mean over 2 agents") && svg.contains("over 1 to 2 runs"), "{svg}");
        // A single agent needs no mean over agents, and a picture without panels per agent already
        // shows the mean.
        let alone: Vec<Row> = rows().into_iter().filter(|row| row.agent == "a").collect();
        assert_eq!(Figure::from_rows(&alone, Metric::Best, &spec).lead, None);
        let spec = FigureSpec { panel_by: PanelBy::None, ..spec };
        let figure = Figure::from_rows(&rows(), Metric::Best, &spec);
        assert_eq!((figure.lead, figure.panels[0].curves[0].points[0].estimate.n), (None, 2));
    }

    /// Covers no data, one point, one unit, equal values, regret 0 on a logarithmic axis, and huge
    /// and tiny values.
    #[test]
    fn awkward_data_are_drawn_too() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("curves.svg");
        let constant: Vec<Row> =
            (0..5).map(|iteration| row("ts", "a", 0, iteration, Some(1.0))).collect();
        let wide: Vec<Row> = [1e-114, 1e-38, 1.0, 1e38, 1e152]
            .into_iter()
            .zip(1..)
            .map(|(best, iteration)| row("ts", "a", 0, iteration, Some(best)))
            .collect();
        let failed = [row("ts", "a", 0, 1, None)];
        for rows in [&[][..], &constant[..1], &constant, &failed, &wide] {
            for (scale, metric) in [
                (Scale::Linear, Metric::Best),
                (Scale::Log, Metric::Best),
                (Scale::Log, Metric::Regret),
            ] {
                let spec = FigureSpec { scale, ..FigureSpec::default() };
                Figure::from_rows(rows, metric, &spec).write_svg(&path).expect("a picture");
                let svg = std::fs::read_to_string(&path).expect("the SVG");
                assert!(!svg.contains("NaN") && !svg.contains("2147483647"), "{svg}");
            }
        }
    }

    #[test]
    fn a_hundred_panels_are_a_picture_and_a_thousand_are_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("curves.png");
        let mut figure = Figure::from_rows(&rows(), Metric::Best, &FigureSpec::default());
        figure.panels = vec![figure.panels[0].clone(); 100];
        figure.write_png(&path).expect("a picture");
        figure.panels = vec![figure.panels[0].clone(); 1000];
        assert!(matches!(figure.write_png(&path), Err(ReportError::Draw { .. })));
    }

    #[test]
    fn a_picture_that_cannot_be_written_is_named() {
        let missing = Path::new("/nonexistent/curves.png");
        let figure = Figure::from_rows(&rows(), Metric::Best, &FigureSpec::default());
        let error = figure.write_png(missing).expect_err("no such folder");
        assert!(matches!(error, ReportError::Write { .. }));
        assert!(error.to_string().contains("/nonexistent/curves.png"), "{error}");
    }

    #[test]
    fn a_specification_may_leave_fields_out() {
        let spec: FigureSpec =
            serde_json::from_str(r#"{"scale": "log"}"#).expect("a valid specification");
        assert_eq!(spec, FigureSpec { scale: Scale::Log, ..FigureSpec::default() });
    }
}
