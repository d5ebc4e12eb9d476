//! The one description of all pictures, as plain data: panels with axes, marks in their units, a legend, captions.
//!
//! A picture makes a [`Chart`]; [`layout`] gives everything its place, and [`render`] writes what is placed.

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

/// A picture. Each text may be empty, and is shortened where it is too long.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Chart {
    /// Title above everything, and a line below it.
    pub(crate) title: String,
    pub(crate) facts: String,
    /// The legend, above the panels.
    pub(crate) keys: Vec<Key>,
    pub(crate) panels: Vec<Panel>,
    /// Names of the axes of all panels.
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

/// The sign before a text of the legend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sign {
    Point(Glyph),
    /// A line, with a marker in its middle, and perhaps a band around it.
    Line {
        stroke: Stroke,
        glyph: Option<Glyph>,
        band: bool,
    },
    /// A line that ends in a marker.
    Ending(Stroke, Glyph),
    Fill(RGBColor),
    /// A filled box with a border, for a colour that may be white.
    Boxed(RGBColor),
    /// The colours of trials from the first to the last.
    Order,
}

impl Sign {
    pub(crate) fn line(stroke: Stroke) -> Self {
        Self::Line { stroke, glyph: None, band: false }
    }

    /// A line with a marker in its middle.
    pub(crate) fn curve(stroke: Stroke, glyph: Glyph) -> Self {
        Self::Line { stroke, glyph: Some(glyph), band: false }
    }
}

/// A system of axes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Panel {
    pub(crate) title: String,
    /// Names of its own axes.
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    /// Row and column.
    pub(crate) cell: (usize, usize),
    /// Width and height without its strip; a panel that is `wide` reaches across all columns.
    pub(crate) size: (f64, f64),
    pub(crate) wide: bool,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// True if the axes are drawn, and if the vertical one has labels.
    pub(crate) framed: bool,
    pub(crate) y_labels: bool,
    pub(crate) strip: Option<Strip>,
    /// Drawn below the grid, and above it, each in this order.
    pub(crate) backdrop: Vec<Mark>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) labels: Vec<Label>,
    /// The text in its middle where it has nothing to show.
    pub(crate) nothing: String,
}

impl Panel {
    /// A panel of this size with these axes and nothing else.
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

    /// Lays one-coloured points.
    pub(crate) fn points(&mut self, at: Vec<At>, glyph: Glyph, size: f64) {
        self.marks.push(Mark::Points { at, glyph, size });
    }

    /// Draws a line.
    pub(crate) fn line(&mut self, at: Vec<At>, stroke: Stroke) {
        self.marks.push(Mark::Line { at, stroke });
    }
}

#[cfg(test)]
impl Panel {
    /// The places of its points in lengths from its upper left corner.
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

/// A strip beyond the range of the vertical axis, for what has no place on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Strip {
    /// True if it is above the range.
    pub(crate) above: bool,
    pub(crate) height: f64,
    pub(crate) label: &'static str,
}

/// A place in a panel. Infinite values are the ends of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct At {
    pub(crate) x: f64,
    pub(crate) y: Y,
    /// Lengths by which it is moved, to the right and down.
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

/// The place of two values.
pub(crate) fn at(x: f64, y: f64) -> At {
    At { x, y: Y::Value(y), shift: (0.0, 0.0) }
}

/// A place in the middle of the strip, or at another height of it.
pub(crate) fn in_strip(x: f64, share: f64) -> At {
    At { y: Y::Strip(share), ..at(x, 0.0) }
}

impl At {
    pub(crate) fn shifted(self, right: f64, down: f64) -> Self {
        Self { shift: (right, down), ..self }
    }
}

/// Something that a panel shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mark {
    Line {
        at: Vec<At>,
        stroke: Stroke,
    },
    /// A filled area, as of a band around a line.
    Band {
        at: Vec<At>,
        color: RGBAColor,
    },
    Points {
        at: Vec<At>,
        glyph: Glyph,
        size: f64,
    },
    /// A bar, or the cell of a heat map: what two corners have between them and inside the panel.
    Cell {
        from: At,
        to: At,
        color: RGBColor,
    },
    /// From one value to another, with caps.
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

/// A horizontal line through a panel. Its name, if it has one, stands at its right end, with its error bar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    pub(crate) y: f64,
    pub(crate) stroke: Stroke,
    pub(crate) name: String,
    pub(crate) ends: Option<(f64, f64)>,
}

/// A name beside a point: in the direction `outward`, of length 1, or wherever it covers least.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Label {
    pub(crate) at: At,
    pub(crate) text: String,
    pub(crate) font: Font,
    /// From the point to its name, at least.
    pub(crate) distance: f64,
    pub(crate) outward: Option<[f64; 2]>,
    /// True if it rather stands below than to the right.
    pub(crate) below: bool,
}

impl Chart {
    /// Everything at its place; tests make sure that it can be read there.
    fn placed(&self) -> Scene {
        let scene = layout::place(self);
        #[cfg(test)]
        layout::tests::assert_readable(self, &scene);
        scene
    }

    /// The picture in words: its panels and axes, the legend, and the notes around it.
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

    /// The picture in memory; an error names it as the file that it would be.
    pub(crate) fn picture(self, file: &str) -> Picture {
        Picture { file: PathBuf::from(file), chart: self }
    }

    /// Writes the picture as PNG.
    pub(crate) fn write_png(&self, path: &Path) -> Result<(), ReportError> {
        render::write_png(&self.placed(), path)
    }
}

/// A picture that is not written anywhere yet.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Its name in messages.
    file: PathBuf,
    chart: Chart,
}

impl Picture {
    /// The picture as SVG: the text that its file would have.
    ///
    /// # Errors
    /// [`ReportError::Draw`] if it cannot be drawn.
    pub fn svg(&self) -> Result<String, ReportError> {
        let svg = render::svg(&self.chart.placed());
        svg.map_err(|message| render::draw_error(&self.file, message))
    }

    /// The picture as PNG, at twice the density of a screen: the bytes that its file would have.
    ///
    /// # Errors
    /// [`ReportError::Draw`] if it cannot be drawn.
    pub fn png(&self) -> Result<Vec<u8>, ReportError> {
        let png = render::png(&self.chart.placed());
        png.map_err(|message| render::draw_error(&self.file, message))
    }
}

/// Writes a picture's two files, SVG and PNG, into a folder and returns their paths; or says why there is no picture.
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

/// A count with its noun.
pub(crate) fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
