//! The shared description of all pictures, as plain data: panels with axes, marks in axis units, a
//! legend, and captions.
//!
//! A picture creates a [`Chart`]. [`layout`] computes all positions, and [`render`] writes the
//! result.

pub(crate) mod axis;
mod labels;
mod layout;
mod render;
pub(crate) mod style;
#[cfg(test)]
pub(crate) mod svg;
pub(crate) mod text;
pub(crate) mod values;

use std::path::{Path, PathBuf};

use plotters::style::{RGBAColor, RGBColor};
use serde::{Deserialize, Serialize};

use self::axis::Axis;
use self::layout::Scene;
use self::style::{Anchor, Glyph, Stroke};
use self::text::Font;
use crate::error::ReportError;

/// The scale of the vertical axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Linear: equal distances are equal differences.
    #[default]
    Linear,
    /// Logarithmic: equal distances are equal ratios. Useful for regret. Values ≤ 0 are drawn at
    /// the lower edge.
    Log,
}

/// A picture. Any string may be empty. Strings that are too long are shortened.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Chart {
    /// Title at the top, and the line below the title.
    pub(crate) title: String,
    pub(crate) facts: String,
    /// The legend, above the panels.
    pub(crate) keys: Vec<Key>,
    pub(crate) panels: Vec<Panel>,
    /// Axis labels shared by all panels.
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) footnote: String,
}

/// An entry of the legend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub(crate) sign: Sign,
    pub(crate) text: String,
}

impl Key {
    pub(crate) fn new(sign: Sign, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { sign, text }
    }
}

/// The sign before a legend text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sign {
    Point(Glyph),
    /// A line with an optional marker at its middle and an optional band around it.
    Line {
        stroke: Stroke,
        glyph: Option<Glyph>,
        band: bool,
    },
    /// A line that ends in a marker.
    Ending(Stroke, Glyph),
    Fill(RGBColor),
    /// A filled box with a border, for colours that may be white.
    Boxed(RGBColor),
    /// The colours of trials from the first to the last.
    Order,
}

impl Sign {
    pub(crate) fn line(stroke: Stroke) -> Self {
        Self::Line { stroke, glyph: None, band: false }
    }

    /// Creates the sign of a line with a marker at its middle.
    pub(crate) fn curve(stroke: Stroke, glyph: Glyph) -> Self {
        Self::Line { stroke, glyph: Some(glyph), band: false }
    }
}

/// One panel with its own axes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Panel {
    pub(crate) title: String,
    /// Labels of the panel's own axes.
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    /// Row and column.
    pub(crate) cell: (usize, usize),
    /// Width and height without the strip. A `wide` panel spans all columns.
    pub(crate) size: (f64, f64),
    pub(crate) wide: bool,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// True if the axes are drawn, and if the vertical one has labels.
    pub(crate) framed: bool,
    pub(crate) y_labels: bool,
    pub(crate) strip: Option<Strip>,
    /// Marks below and above the grid, each in drawing order.
    pub(crate) backdrop: Vec<Mark>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) labels: Vec<Label>,
    /// The text in the middle of an empty panel.
    pub(crate) nothing: String,
}

impl Panel {
    /// Creates a panel of this size with these axes and no content.
    pub(crate) fn new(size: (f64, f64), x: Axis, y: Axis) -> Self {
        Self {
            title: String::new(),
            x_label: String::new(),
            y_label: String::new(),
            cell: (0, 0),
            size,
            wide: false,
            x,
            y,
            framed: true,
            y_labels: true,
            strip: None,
            backdrop: Vec::new(),
            marks: Vec::new(),
            rules: Vec::new(),
            labels: Vec::new(),
            nothing: String::new(),
        }
    }

    /// Adds points of one colour.
    pub(crate) fn points(&mut self, at: Vec<At>, glyph: Glyph, size: f64) {
        self.marks.push(Mark::Points { at, glyph, size });
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, at: Vec<At>, stroke: Stroke) {
        self.marks.push(Mark::Line { at, stroke });
    }
}

#[cfg(test)]
impl Panel {
    /// Returns the positions of the panel's points, in lengths from the upper left corner.
    pub(crate) fn places(&self) -> Vec<(f64, f64)> {
        let points = self.marks.iter().filter_map(|mark| match mark {
            Mark::Points { at, .. } => Some(at),
            _ => None,
        });
        let place = |at: &At| match at.y {
            Y::Value(y) => (
                self.x.place(at.x) * self.size.0 + at.shift.0,
                (1.0 - self.y.place(y)) * self.size.1 + at.shift.1,
            ),
            Y::Strip(_) => panic!("a point of the strip"),
        };
        points.flatten().map(place).collect()
    }
}

/// A strip beyond the range of the vertical axis, for entries without a position on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Strip {
    /// True if the strip is above the range.
    pub(crate) above: bool,
    pub(crate) height: f64,
    pub(crate) label: &'static str,
}

/// A position in a panel. Infinite values are the ends of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct At {
    pub(crate) x: f64,
    pub(crate) y: Y,
    /// Offset to the right and down, in units of length.
    pub(crate) shift: (f64, f64),
}

/// A height in a panel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Y {
    /// On the axis.
    Value(f64),
    /// In the strip, from 0 at its lower end to 1.
    Strip(f64),
}

/// Returns the position given by two values.
pub(crate) fn at(x: f64, y: f64) -> At {
    At { x, y: Y::Value(y), shift: (0.0, 0.0) }
}

/// Returns a position in the strip; `share` is the height, 0.5 for the middle.
pub(crate) fn in_strip(x: f64, share: f64) -> At {
    At { y: Y::Strip(share), ..at(x, 0.0) }
}

impl At {
    pub(crate) fn shifted(self, right: f64, down: f64) -> Self {
        Self { shift: (right, down), ..self }
    }
}

/// An element drawn in a panel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mark {
    Line {
        at: Vec<At>,
        stroke: Stroke,
    },
    /// A filled area, such as a band around a line.
    Band {
        at: Vec<At>,
        color: RGBAColor,
    },
    Points {
        at: Vec<At>,
        glyph: Glyph,
        size: f64,
    },
    /// A bar, or a cell of a heat map: the part of the panel between two corners.
    Cell {
        from: At,
        to: At,
        color: RGBColor,
    },
    /// An error bar from one value to another, with caps.
    ErrorBar {
        at: At,
        ends: (f64, f64),
        color: RGBColor,
    },
    Text {
        at: At,
        text: String,
        anchor: Anchor,
        font: Font,
    },
}

/// A horizontal line through a panel. If it has a name, the name and its error bar are at the right
/// end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    pub(crate) y: f64,
    pub(crate) stroke: Stroke,
    pub(crate) name: String,
    pub(crate) ends: Option<(f64, f64)>,
}

/// A name beside a point, in the direction `outward` (a unit vector), or where it covers the least.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Label {
    pub(crate) at: At,
    pub(crate) text: String,
    pub(crate) font: Font,
    /// Minimum distance from the point to its name.
    pub(crate) distance: f64,
    pub(crate) outward: Option<[f64; 2]>,
    /// True if the name prefers the position below the point to the one on its right.
    pub(crate) below: bool,
}

impl Chart {
    /// Computes all positions. In tests, also checks that the result is readable.
    fn placed(&self) -> Scene {
        let scene = layout::place(self);
        #[cfg(test)]
        layout::tests::assert_readable(self, &scene);
        scene
    }

    /// Describes the picture in words: its panels and axes, the legend, and the notes.
    fn description(&self) -> String {
        let panels = self.panels.iter().map(|panel| {
            let axes = [&panel.y_label, &panel.x_label].map(String::as_str);
            let axes = axes.into_iter().filter(|label| !label.is_empty()).collect::<Vec<_>>();
            [panel.title.clone(), axes.join(" against "), panel.nothing.clone()].join(" ")
        });
        let axes = [self.y_label.as_str(), self.x_label.as_str()];
        let axes = axes.into_iter().filter(|label| !label.is_empty()).collect::<Vec<_>>();
        let keys = self.keys.iter().map(|key| key.text.clone()).collect::<Vec<_>>().join(", ");
        let parts = [self.facts.clone(), axes.join(" against ")].into_iter().chain(panels);
        let parts = parts.chain([keys, self.footnote.clone()]).map(|part| part.trim().to_owned());
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(". ")
    }

    /// Writes the picture as SVG.
    pub(crate) fn write_svg(&self, path: &Path) -> Result<(), ReportError> {
        render::write_svg(&self.placed(), path)
    }

    #[cfg(test)]
    pub(crate) fn svg(&self) -> String {
        render::svg(&self.placed()).expect("a picture")
    }

    /// Returns the picture in memory. Errors identify the picture by the file name `file`.
    pub(crate) fn picture(self, file: &str) -> Picture {
        Picture { file: PathBuf::from(file), chart: self }
    }

    /// Writes the picture as PNG.
    pub(crate) fn write_png(&self, path: &Path) -> Result<(), ReportError> {
        render::write_png(&self.placed(), path)
    }
}

/// A picture in memory.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The file name in error messages.
    file: PathBuf,
    chart: Chart,
}

impl Picture {
    /// Returns the picture as SVG text, as it would be written to a file.
    ///
    /// # Errors
    /// Returns [`ReportError::Draw`] if the picture cannot be drawn.
    pub fn svg(&self) -> Result<String, ReportError> {
        let svg = render::svg(&self.chart.placed());
        svg.map_err(|message| render::draw_error(&self.file, message))
    }

    /// Returns the picture as PNG bytes, at twice the density of a screen, as they would be written
    /// to a file.
    ///
    /// # Errors
    /// Returns [`ReportError::Draw`] if the picture cannot be drawn.
    pub fn png(&self) -> Result<Vec<u8>, ReportError> {
        let png = render::png(&self.chart.placed());
        png.map_err(|message| render::draw_error(&self.file, message))
    }
}

/// Writes a picture's two files, SVG and PNG, into a folder and returns their paths. An `Err` in
/// `chart` is the reason why there is no picture, and is returned as the error.
pub(crate) fn write(
    chart: Result<Chart, String>,
    folder: &Path,
    files: [&str; 2],
) -> Result<Vec<PathBuf>, ReportError> {
    let [svg, png] = files.map(|name| folder.join(name));
    let chart = chart.map_err(|message| render::draw_error(&svg, message))?;
    let scene = chart.placed();
    render::write_svg(&scene, &svg)?;
    render::write_png(&scene, &png)?;
    Ok(vec![svg, png])
}

/// Formats a count with its noun.
pub(crate) fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
