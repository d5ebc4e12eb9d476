//! The layout of a figure: title and legend above, panels in a grid, names of the axes outside, a footnote below.

use plotters::backend::DrawingBackend;
use plotters::style::Color;

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Font};
use super::frame::{Frame, draw_marker, whole_length};
use super::style::{
    ArmStyle, EDGE, GREY, GUTTER, KEY_GAP, LINE_WIDTH, NAME, NOTE, TICK, TITLE, WHITE, grid,
    reference_dash, tick_font,
};
use super::{Figure, Panel};
use crate::curves::{Curve, CurvePoint};

/// Length of the line beside a name in the legend.
const SAMPLE: f64 = 38.0;

/// Height of the leading panel.
const LEAD_HEIGHT: f64 = 260.0;
/// Ticks of its axes, about.
const LEAD_TICKS: (u32, u32) = (10, 6);

/// An entry of the legend.
#[derive(Clone, Debug, PartialEq)]
enum Key {
    Arm { index: usize, name: String },
    Reference { index: usize, label: String },
}

impl Key {
    fn text(&self) -> &str {
        match self {
            Self::Arm { name, .. } => name,
            Self::Reference { label, .. } => label,
        }
    }
}

/// The place of the leading panel, and its axes.
#[derive(Clone, Debug)]
struct Lead {
    at: (f64, f64),
    size: (f64, f64),
    x_axis: Axis,
    y_axis: Axis,
}

/// The measures of one picture.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Width of the picture.
    pub(super) width: u32,
    /// Height of the picture.
    pub(super) height: u32,
    n_columns: usize,
    panel_size: (f64, f64),
    /// Left and upper edge of the first panel.
    origin: (f64, f64),
    /// Distance from one panel to the next.
    stride: (f64, f64),
    x_axis: Axis,
    y_axes: Vec<Axis>,
    lead: Option<Lead>,
    /// Names of the arms and labels of the references of all panels: their indices choose styles.
    arms: Vec<String>,
    references: Vec<String>,
    /// Lines of the legend: each key with its left edge.
    legend: Vec<Vec<(f64, Key)>>,
    small: Font,
    footnote: String,
}

impl Layout {
    pub(super) fn of(figure: &Figure) -> Result<Self, String> {
        let n_panels = figure.panels.len().max(1);
        // Beneath a leading panel seven or eight stand in two rows: there is width for them.
        let (n_columns, panel_size) = match (&figure.lead, n_panels) {
            (Some(_), 7 | 8) => grid(10),
            _ => grid(n_panels),
        };
        let n_rows = n_panels.div_ceil(n_columns);
        let n_ticks = if n_columns == 1 { (8, 7) } else { (5, 5) };
        let small = tick_font(n_columns);

        let iterations = figure.all_panels().flat_map(|panel| &panel.curves);
        let iterations = iterations.flat_map(shown).map(|point| point.iteration);
        let iterations: Vec<i64> = iterations.collect();
        let first = iterations.iter().copied().min().unwrap_or(0);
        let last = iterations.iter().copied().max().unwrap_or(1);
        let x_axis = Axis::iterations(first, last, n_ticks.0);
        let lead_axes = figure.lead.as_ref().map(|panel| {
            let panel = std::iter::once(panel);
            let y_axis = Axis::values(panel, figure.scale, LEAD_TICKS.1);
            (Axis::iterations(first, last, LEAD_TICKS.0), y_axis)
        });
        let y_axes: Vec<Axis> = figure
            .panels
            .iter()
            .map(|panel| {
                let own = std::slice::from_ref(panel);
                let panels = if figure.shared_y {
                    &figure.panels[..]
                } else {
                    own
                };
                Axis::values(panels.iter(), figure.scale, n_ticks.1)
            })
            .collect();

        let mut label_width: f64 = 0.0;
        let of_lead = lead_axes.iter().map(|(_, y_axis)| y_axis);
        for (_, label) in y_axes.iter().chain(of_lead).flat_map(|axis| &axis.ticks) {
            label_width = label_width.max(small.width(label)?);
        }
        let left_of_panel = label_width + TICK + 4.0;
        let below_panel = TICK + 4.0 + small.cap_height() + 4.0;
        let above_panel = if figure.all_panels().any(|panel| !panel.title.is_empty()) {
            small.em + 8.0
        } else {
            4.0
        };
        let stride = (
            panel_size.0 + left_of_panel + GUTTER,
            above_panel + panel_size.1 + below_panel + GUTTER,
        );
        let left = EDGE + NAME.em + 8.0 + left_of_panel;
        // The last label of the horizontal axis hangs over by half its width.
        let right = EDGE + 14.0;
        let width = left + (n_columns - 1) as f64 * stride.0 + panel_size.0 + right;

        let arms = arm_names(figure);
        let legend = legend(figure, &arms, left, width - EDGE)?;
        let title_height = if figure.title.is_empty() {
            0.0
        } else {
            TITLE.em + 10.0
        };
        let legend_height = legend.len() as f64 * legend_line() + 4.0;
        let mut top = EDGE + title_height + legend_height + above_panel + 2.0;
        let lead = lead_axes.map(|(x_axis, y_axis)| {
            let across = (n_columns - 1) as f64 * stride.0 + panel_size.0;
            let lead = Lead {
                at: (left, top),
                size: (across, LEAD_HEIGHT),
                x_axis,
                y_axis,
            };
            top += LEAD_HEIGHT + below_panel + GUTTER + above_panel;
            lead
        });
        let under = NAME.em + 8.0 + NOTE.em + 8.0 + EDGE;
        let height = top + (n_rows - 1) as f64 * stride.1 + panel_size.1 + below_panel + under;
        Ok(Self {
            width: whole_length(width),
            height: whole_length(height),
            n_columns,
            panel_size,
            origin: (left, top),
            stride,
            x_axis,
            y_axes,
            lead,
            arms,
            references: reference_labels(figure),
            legend,
            small,
            footnote: footnote(figure),
        })
    }

    pub(super) fn draw<DB: DrawingBackend>(
        &self,
        figure: &Figure,
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        let (width, height) = (f64::from(self.width), f64::from(self.height));
        canvas.rectangle((0.0, 0.0), (width, height), WHITE.mix(1.0))?;
        let (left, top) = self.origin;
        let mut y = EDGE;
        if !figure.title.is_empty() {
            let font = TITLE.fitted(&figure.title, width - left - EDGE)?;
            canvas.text(
                &figure.title,
                (left, y + TITLE.em * 0.85),
                Anchor::Start,
                font,
            )?;
            y += TITLE.em + 10.0;
        }
        for line in &self.legend {
            for (x, key) in line {
                self.draw_key(key, (*x, y + legend_line() / 2.0), canvas)?;
            }
            y += legend_line();
        }
        if let Some((panel, lead)) = figure.lead.as_ref().zip(self.lead.as_ref()) {
            let frame = Frame {
                at: lead.at,
                size: lead.size,
                strip: (0.0, 0.0),
                x_axis: &lead.x_axis,
                y_axis: &lead.y_axis,
                small: self.small,
            };
            self.view(panel, frame, canvas).draw()?;
        }
        for (index, panel) in figure.panels.iter().enumerate() {
            let (row, column) = (index / self.n_columns, index % self.n_columns);
            let at = (
                left + column as f64 * self.stride.0,
                top + row as f64 * self.stride.1,
            );
            let frame = Frame {
                at,
                size: self.panel_size,
                strip: (0.0, 0.0),
                x_axis: &self.x_axis,
                y_axis: &self.y_axes[index],
                small: self.small,
            };
            self.view(panel, frame, canvas).draw()?;
        }
        let n_rows = figure.panels.len().max(1).div_ceil(self.n_columns);
        let bottom = top + (n_rows - 1) as f64 * self.stride.1 + self.panel_size.1;
        let right = left + (self.n_columns - 1) as f64 * self.stride.0 + self.panel_size.0;
        let note_at = height - EDGE - 2.0;
        let font = NAME.fitted(&figure.x_label, right - left)?;
        canvas.text(
            &figure.x_label,
            (f64::midpoint(left, right), note_at - NOTE.em - 9.0),
            Anchor::Middle,
            font,
        )?;
        let top = self.lead.as_ref().map_or(top, |lead| lead.at.1);
        let middle = f64::midpoint(top, bottom);
        let font = NAME.fitted(
            &figure.y_label,
            bottom - top + self.stride.1 - self.panel_size.1,
        )?;
        canvas.text_upwards(
            &figure.y_label,
            (EDGE + NAME.cap_height(), middle),
            Anchor::Middle,
            font,
        )?;
        canvas.text(&self.footnote, (right, note_at), Anchor::End, NOTE)
    }

    fn view<'a, DB: DrawingBackend>(
        &'a self,
        panel: &'a Panel,
        frame: Frame<'a>,
        canvas: &'a Canvas<'a, DB>,
    ) -> PanelView<'a, DB> {
        PanelView {
            layout: self,
            panel,
            frame,
            canvas,
        }
    }

    fn draw_key<DB: DrawingBackend>(
        &self,
        key: &Key,
        at: (f64, f64),
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        let (x, y) = at;
        let line = [(x, y), (x + SAMPLE, y)];
        match key {
            Key::Arm { index, .. } => {
                let style = ArmStyle::of(*index);
                canvas.rectangle((x, y - 5.0), (x + SAMPLE, y + 5.0), style.color.mix(0.16))?;
                canvas.line(&line, style.color, LINE_WIDTH, style.dash)?;
                draw_marker(
                    (style.marker, style.color),
                    (x + SAMPLE / 2.0, y),
                    self.marker_size(),
                    canvas,
                )?;
            }
            Key::Reference { index, .. } => {
                canvas.line(&line, GREY, 1.25, reference_dash(*index))?
            }
        }
        canvas.text(
            key.text(),
            (x + SAMPLE + 7.0, y + NAME.cap_height() / 2.0),
            Anchor::Start,
            NAME,
        )
    }

    fn marker_size(&self) -> f64 {
        if self.n_columns == 1 { 4.0 } else { 3.4 }
    }
}

/// The iterations that are drawn; see [`Figure`].
fn shown(curve: &Curve) -> impl Iterator<Item = &CurvePoint> {
    curve.points.iter().filter(|point| point.iteration >= 0)
}

fn arm_names(figure: &Figure) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for curve in figure.all_panels().flat_map(|panel| &panel.curves) {
        if !names.contains(&curve.arm) {
            names.push(curve.arm.clone());
        }
    }
    names
}

fn reference_labels(figure: &Figure) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for reference in figure.all_panels().flat_map(|panel| &panel.references) {
        if !labels.contains(&reference.label) {
            labels.push(reference.label.clone());
        }
    }
    labels
}

fn legend_line() -> f64 {
    NAME.em + 8.0
}

/// Sets the keys one after the other and begins a new line where the width ends; the references begin a line of
/// their own unless everything fits into one.
fn legend(
    figure: &Figure,
    arms: &[String],
    left: f64,
    right: f64,
) -> Result<Vec<Vec<(f64, Key)>>, String> {
    let arms = arms
        .iter()
        .cloned()
        .enumerate()
        .map(|(index, name)| Key::Arm { index, name });
    let labels = reference_labels(figure).into_iter().enumerate();
    let references = labels.map(|(index, label)| Key::Reference { index, label });
    let keys = arms.chain(references).map(|key| {
        let text_width = NAME.width(key.text())?;
        // Room for the wider fonts that a reader of the SVG may have.
        Ok((SAMPLE + 7.0 + 1.08 * text_width + KEY_GAP, key))
    });
    let keys: Vec<(f64, Key)> = keys.collect::<Result<_, String>>()?;
    let one_line =
        left + keys.iter().map(|(key_width, _)| key_width).sum::<f64>() - KEY_GAP <= right;
    let first_reference = keys
        .iter()
        .position(|(_, key)| matches!(key, Key::Reference { .. }));
    let mut lines: Vec<Vec<(f64, Key)>> = Vec::new();
    let mut x = f64::INFINITY;
    for (index, (key_width, key)) in keys.into_iter().enumerate() {
        if x + key_width - KEY_GAP > right || (first_reference == Some(index) && !one_line) {
            lines.push(Vec::new());
            x = left;
        }
        if let Some(line) = lines.last_mut() {
            line.push((x, key));
        }
        x += key_width;
    }
    Ok(lines)
}

/// Returns the footnote: the meaning of lines and bands, and the number of units.
fn footnote(figure: &Figure) -> String {
    let curves = figure.all_panels().flat_map(|panel| &panel.curves);
    let points = curves.flat_map(shown);
    let counts: Vec<usize> = points.map(|point| point.estimate.n).collect();
    let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) else {
        return "no data".to_owned();
    };
    let units = match (least, most) {
        (1, 1) => return "one run of each".to_owned(),
        _ if least == most => format!("{most}"),
        _ => format!("{least} to {most}"),
    };
    match figure.lead {
        Some(_) => format!("mean ± one standard error over {units} runs"),
        None => format!("mean ± one standard error, n = {units}"),
    }
}

/// One panel at its place.
struct PanelView<'a, DB: DrawingBackend> {
    layout: &'a Layout,
    panel: &'a Panel,
    frame: Frame<'a>,
    canvas: &'a Canvas<'a, DB>,
}

impl<DB: DrawingBackend> PanelView<'_, DB> {
    fn point(&self, iteration: i64, value: f64) -> (f64, f64) {
        self.frame.point(iteration as f64, value)
    }

    fn draw(&self) -> Result<(), String> {
        let (frame, y_axis) = (self.frame, self.frame.y_axis);
        frame.draw_axes(true, self.canvas)?;
        self.draw_title()?;
        for reference in &self.panel.references {
            if !reference.value.is_finite() || (y_axis.is_log() && reference.value <= 0.0) {
                continue;
            }
            let same = |label: &String| *label == reference.label;
            let index = self.layout.references.iter().position(same).unwrap_or(0);
            let y = frame.y(y_axis.place(reference.value));
            self.canvas.line(
                &[(frame.x(0.0), y), (frame.x(1.0), y)],
                GREY,
                1.25,
                reference_dash(index),
            )?;
        }
        let styled: Vec<(usize, &Curve)> = self
            .panel
            .curves
            .iter()
            .map(|curve| (self.arm_idx(curve), curve))
            .collect();
        for (arm_idx, curve) in &styled {
            self.draw_band(*arm_idx, curve)?;
        }
        // The first arm is drawn last, above the others.
        for (arm_idx, curve) in styled.iter().rev() {
            self.draw_line(*arm_idx, curve)?;
        }
        for (arm_idx, curve) in styled.iter().rev() {
            self.draw_markers(*arm_idx, curve)?;
        }
        Ok(())
    }

    fn arm_idx(&self, curve: &Curve) -> usize {
        self.layout
            .arms
            .iter()
            .position(|arm| *arm == curve.arm)
            .unwrap_or(0)
    }

    fn draw_title(&self) -> Result<(), String> {
        if self.panel.title.is_empty() {
            return Ok(());
        }
        let (left, top) = self.frame.at;
        let title = Font {
            bold: true,
            ..self.layout.small
        }
        .fitted(&self.panel.title, self.frame.size.0)?;
        self.canvas
            .text(&self.panel.title, (left, top - 7.0), Anchor::Start, title)
    }

    fn draw_band(&self, arm_idx: usize, curve: &Curve) -> Result<(), String> {
        let edge = |sign: f64| {
            shown(curve).filter_map(move |point| {
                let error = point.estimate.standard_error?;
                Some(self.point(point.iteration, point.estimate.mean + sign * error))
            })
        };
        let upper: Vec<(f64, f64)> = edge(1.0).collect();
        if upper.len() < 2 {
            return Ok(());
        }
        let mut lower: Vec<(f64, f64)> = edge(-1.0).collect();
        lower.reverse();
        self.canvas.polygon(
            &[upper, lower].concat(),
            ArmStyle::of(arm_idx).color.mix(0.16),
        )
    }

    fn draw_line(&self, arm_idx: usize, curve: &Curve) -> Result<(), String> {
        let style = ArmStyle::of(arm_idx);
        let points: Vec<_> = shown(curve)
            .map(|point| self.point(point.iteration, point.estimate.mean))
            .collect();
        self.canvas
            .line(&points, style.color, LINE_WIDTH, style.dash)
    }

    /// About eight markers a curve, fewer in small panels, at different iterations for different arms.
    fn draw_markers(&self, arm_idx: usize, curve: &Curve) -> Result<(), String> {
        let style = ArmStyle::of(arm_idx);
        let n_points = shown(curve).count();
        let is_wide = self.frame.size.0 > self.layout.panel_size.0 || self.layout.n_columns == 1;
        let wanted = if is_wide { 8 } else { 5 };
        let every = n_points.div_ceil(wanted).max(1);
        let n_arms = self.layout.arms.len().max(1);
        let first = arm_idx * every / n_arms;
        for point in shown(curve).skip(first).step_by(every) {
            let at = self.point(point.iteration, point.estimate.mean);
            draw_marker(
                (style.marker, style.color),
                at,
                self.layout.marker_size(),
                self.canvas,
            )?;
        }
        Ok(())
    }
}
