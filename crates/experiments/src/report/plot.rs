//! `curves.svg` and `curves.png`: mean lines with standard-error bands.
//!
//! Arms differ by colour, marker and dash pattern, so that they can be told apart without colour. The legend stands
//! above the panels and never covers data. Both files come from the same drawing code.

mod axis;
mod canvas;
mod layout;
mod style;

use std::collections::BTreeMap;
use std::path::Path;

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::drawing::IntoDrawingArea;
use serde::{Deserialize, Serialize};

use self::canvas::{Canvas, PIXELS_PER_UNIT, TextMetrics};
use self::layout::Layout;
use super::curves::{Curve, curves};
use super::error::ReportError;
use super::folder::write_whole;
use super::metric::Metric;
use super::row::Row;

/// Pixels of the PNG per unit of length: twice the density of a screen.
const PNG_PIXELS_PER_UNIT: u32 = 2;
/// Most pixels of a drawing that is smoothed: three bytes each.
const SMOOTH_PIXELS_MAX: u64 = 60_000_000;
/// Most pixels of any drawing.
const PIXELS_MAX: u64 = 100_000_000;

/// The vertical axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Equal distances are equal differences.
    #[default]
    Linear,
    /// Equal distances are equal ratios: for regret. Values ≤ 0 are drawn at the lower edge.
    Log,
}

/// What gets a panel of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PanelBy {
    /// Nothing: one panel, the mean over all units.
    #[default]
    None,
    /// Each agent.
    Agent,
    /// Each value of the column `experiment`: the configurations of an experiment.
    Experiment,
}

/// A horizontal line at a known value: an optimum, a published figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// What the legend says.
    pub label: String,
    /// Where the line is.
    pub value: f64,
}

/// How the pictures of a results folder are drawn; part of its summary, so that they can be drawn again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FigureSpec {
    /// Title above everything; empty for none, as a paper wants it.
    pub title: String,
    /// Name of the horizontal axis, with its unit.
    pub x_label: String,
    /// Name of the vertical axis, with its unit.
    pub y_label: String,
    /// The vertical axis.
    pub scale: Scale,
    /// What gets a panel of its own.
    pub panel_by: PanelBy,
    /// Whether all panels have the same vertical axis.
    pub shared_y: bool,
    /// Lines drawn in every panel.
    pub references: Vec<Reference>,
}

impl Default for FigureSpec {
    fn default() -> Self {
        Self {
            title: String::new(),
            x_label: "iteration".to_owned(),
            y_label: "best value so far".to_owned(),
            scale: Scale::Linear,
            panel_by: PanelBy::None,
            shared_y: false,
            references: Vec::new(),
        }
    }
}

/// One system of axes.
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
/// A curve starts at iteration 0, the end of the initial points, which are the same in every arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Title above everything; empty for none.
    pub title: String,
    /// Name of the horizontal axis, with its unit.
    pub x_label: String,
    /// Name of the vertical axis, with its unit.
    pub y_label: String,
    /// The vertical axis.
    pub scale: Scale,
    /// Whether all panels have the same vertical axis.
    pub shared_y: bool,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
}

impl Figure {
    /// The figure that `spec` asks for, from the rows of a results file.
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
        let panel = |title: String| Panel {
            curves: curves(&groups[&title], metric),
            title,
            references: spec.references.clone(),
        };
        Self {
            title: spec.title.clone(),
            x_label: spec.x_label.clone(),
            y_label: spec.y_label.clone(),
            scale: spec.scale,
            shared_y: spec.shared_y,
            panels: titles.into_iter().map(panel).collect(),
        }
    }

    /// Writes `curves.svg` and `curves.png` into the folder.
    ///
    /// # Errors
    /// When a file cannot be written or drawn.
    pub fn write(&self, folder: &Path) -> Result<(), ReportError> {
        self.write_svg(&folder.join("curves.svg"))?;
        self.write_png(&folder.join("curves.png"))
    }

    /// Writes the picture as SVG.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_svg(&self, path: &Path) -> Result<(), ReportError> {
        let layout = self.layout(path)?;
        let size = (
            layout.width * PIXELS_PER_UNIT,
            layout.height * PIXELS_PER_UNIT,
        );
        let mut svg = String::new();
        self.draw(
            &layout,
            SVGBackend::with_string(&mut svg, size),
            TextMetrics::Svg,
            PIXELS_PER_UNIT,
        )
        .map_err(|message| draw_error(path, message))?;
        // Drawn on a fine grid of whole numbers, shown at its real size.
        let (width, height) = size;
        let fine = format!("<svg width=\"{width}\" height=\"{height}\"");
        let shown = format!(
            "<svg width=\"{}\" height=\"{}\"",
            width / PIXELS_PER_UNIT,
            height / PIXELS_PER_UNIT
        );
        let svg = svg.replacen(&fine, &shown, 1);
        write_whole(path, svg.as_bytes())
    }

    /// Writes the picture as PNG.
    ///
    /// # Errors
    /// When the file cannot be written or encoded.
    pub fn write_png(&self, path: &Path) -> Result<(), ReportError> {
        let layout = self.layout(path)?;
        // A very large picture is drawn without smoothing, to save memory, and beyond a limit not at all.
        let n_pixels =
            |scale: u32| u64::from(layout.width * scale) * u64::from(layout.height * scale);
        let scale = if n_pixels(PIXELS_PER_UNIT) > SMOOTH_PIXELS_MAX {
            PNG_PIXELS_PER_UNIT
        } else {
            PIXELS_PER_UNIT
        };
        if n_pixels(scale) > PIXELS_MAX {
            let message = format!("{} panels are too many for a picture", self.panels.len());
            return Err(draw_error(path, message));
        }
        let (width, height) = (layout.width * scale, layout.height * scale);
        let mut fine = vec![255; width as usize * height as usize * 3];
        let backend = BitMapBackend::with_buffer(&mut fine, (width, height));
        self.draw(&layout, backend, TextMetrics::Bitmap, scale)
            .map_err(|message| draw_error(path, message))?;
        let factor = scale / PNG_PIXELS_PER_UNIT;
        let coarse = average_blocks(&fine, width as usize, factor as usize);
        let size = (width / factor, height / factor);

        let mut encoded = Vec::new();
        let mut encoder = png::Encoder::new(&mut encoded, size.0, size.1);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder
            .write_header()
            .and_then(|mut writer| writer.write_image_data(&coarse))
            .map_err(|error| draw_error(path, error.to_string()))?;
        write_whole(path, &encoded)
    }

    fn layout(&self, path: &Path) -> Result<Layout, ReportError> {
        canvas::register_fonts()
            .and_then(|()| Layout::of(self))
            .map_err(|message| draw_error(path, message))
    }

    fn draw<DB: DrawingBackend>(
        &self,
        layout: &Layout,
        backend: DB,
        text: TextMetrics,
        scale: u32,
    ) -> Result<(), String> {
        let area = backend.into_drawing_area();
        let canvas = Canvas::new(&area, text, scale);
        layout.draw(self, &canvas)?;
        canvas.finish()
    }
}

fn draw_error(path: &Path, message: String) -> ReportError {
    ReportError::Draw {
        path: path.to_owned(),
        message,
    }
}

/// Shrinks an RGB image by a whole factor, each pixel the mean of its block: smooth edges for every shape.
fn average_blocks(fine: &[u8], width: usize, factor: usize) -> Vec<u8> {
    let height = fine.len() / 3 / width;
    let area = factor * factor;
    let mut coarse = Vec::with_capacity(fine.len() / area);
    for row in 0..height / factor {
        for column in 0..width / factor {
            for channel in 0..3 {
                let pixel = |index: usize| {
                    let (y, x) = (
                        row * factor + index / factor,
                        column * factor + index % factor,
                    );
                    usize::from(fine[(y * width + x) * 3 + channel])
                };
                let sum: usize = (0..area).map(pixel).sum();
                coarse.push(u8::try_from((sum + area / 2) / area).unwrap_or(u8::MAX));
            }
        }
    }
    coarse
}

#[cfg(test)]
mod tests {
    use super::super::trace::tests::row;
    use super::*;

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
        let number = |name: &str| -> u32 {
            let (_, rest) = svg.split_once(&format!("{name}=\"")).expect("an attribute");
            rest.split('"')
                .next()
                .expect("its end")
                .parse()
                .expect("a number")
        };
        let png = std::fs::read(folder.path().join("curves.png")).expect("the PNG");
        assert_eq!(&png[1..4], b"PNG");
        let big_endian =
            |at: usize| u32::from_be_bytes([png[at], png[at + 1], png[at + 2], png[at + 3]]);
        assert_eq!(
            (big_endian(16), big_endian(20)),
            (2 * number("width"), 2 * number("height"))
        );
        assert!(svg.contains("fts &amp; &lt;co&gt;"));
    }

    #[test]
    fn panels_follow_the_agents_in_the_order_of_the_file() {
        let spec = FigureSpec {
            panel_by: PanelBy::Agent,
            ..FigureSpec::default()
        };
        let figure = Figure::from_rows(&rows(), Metric::Best, &spec);
        let titles: Vec<&str> = figure
            .panels
            .iter()
            .map(|panel| panel.title.as_str())
            .collect();
        assert_eq!(titles, ["a", "b"]);
        assert_eq!(figure.panels[0].curves[0].points[0].estimate.n, 2);
        assert_eq!(figure.panels[1].curves[0].points[0].estimate.n, 1);
    }

    /// Nothing to draw, one point, one unit, all values equal, regret 0 on a logarithmic axis, huge and tiny values.
    #[test]
    fn awkward_data_are_drawn_too() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("curves.svg");
        let constant: Vec<Row> = (0..5)
            .map(|iteration| row("ts", "a", 0, iteration, Some(1.0)))
            .collect();
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
                let spec = FigureSpec {
                    scale,
                    ..FigureSpec::default()
                };
                Figure::from_rows(rows, metric, &spec)
                    .write_svg(&path)
                    .expect("a picture");
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
        assert!(matches!(
            figure.write_png(&path),
            Err(ReportError::Draw { .. })
        ));
    }

    #[test]
    fn a_picture_that_cannot_be_written_is_named() {
        let missing = Path::new("/nonexistent/curves.png");
        let figure = Figure::from_rows(&rows(), Metric::Best, &FigureSpec::default());
        let error = figure.write_png(missing).expect_err("no such folder");
        assert!(matches!(error, ReportError::Write { .. }));
        assert!(
            error.to_string().contains("/nonexistent/curves.png"),
            "{error}"
        );
    }

    #[test]
    fn a_specification_may_leave_fields_out() {
        let spec: FigureSpec =
            serde_json::from_str(r#"{"scale": "log"}"#).expect("a valid specification");
        assert_eq!(
            spec,
            FigureSpec {
                scale: Scale::Log,
                ..FigureSpec::default()
            }
        );
    }

    #[test]
    fn blocks_are_averaged_by_channel() {
        // 2×2 pixels into one: channels 0, 10, 20, 30 → 15; 1, 1, 1, 2 → 1.25; 255 throughout.
        let fine = [0, 1, 255, 10, 1, 255, 20, 1, 255, 30, 2, 255];
        assert_eq!(average_blocks(&fine, 2, 2), [15, 1, 255]);
    }
}
