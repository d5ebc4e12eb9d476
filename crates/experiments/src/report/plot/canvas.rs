//! Shapes and text in real lengths, over either backend of plotters.

use std::sync::LazyLock;

use plotters::coord::Shift;
use plotters::drawing::DrawingArea;
use plotters::element::{Circle, PathElement, Polygon, Rectangle};
use plotters::prelude::{DrawingBackend, IntoFont};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontStyle, FontTransform, RGBAColor, RGBColor, ShapeStyle, TextStyle, register_font,
};

/// Pixels of the drawing per unit of length; a unit is a pixel of an ordinary screen, 1/96 inch.
pub(super) const PIXELS_PER_UNIT: u32 = 4;

/// The name under which our font is registered, and the fonts that a reader's browser tries for an SVG.
const FAMILY: &str = "Noto Sans, Open Sans, Helvetica, Arial, DejaVu Sans, sans-serif";

/// Ascent minus descent of Noto Sans over its em: what the bitmap backend takes for the size of a font.
const BITMAP_SIZE_PER_EM: f64 = 2789.0 / 2048.0;
/// The SVG backend divides the size that it is given by this.
const SVG_SIZE_PER_EM: f64 = 1.24;

/// Makes the font known to plotters, once.
pub(super) fn register_fonts() -> Result<(), String> {
    static REGISTERED: LazyLock<bool> = LazyLock::new(|| {
        register_font(FAMILY, FontStyle::Normal, ttf_noto_sans::REGULAR).is_ok()
            && register_font(FAMILY, FontStyle::Bold, ttf_noto_sans::BOLD).is_ok()
    });
    if *REGISTERED {
        Ok(())
    } else {
        Err("the built-in font is damaged".to_owned())
    }
}

/// Which backend draws the text: they take sizes and heights differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextMetrics {
    Svg,
    Bitmap,
}

/// Where a text stands relative to its point; the point is on the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Size, weight and colour of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Font {
    /// The em, in units of length.
    pub(super) em: f64,
    pub(super) bold: bool,
    pub(super) color: RGBColor,
}

impl Font {
    fn style(self) -> FontStyle {
        if self.bold {
            FontStyle::Bold
        } else {
            FontStyle::Normal
        }
    }

    /// Width of a text in units of length, as our font sets it.
    pub(super) fn width(self, text: &str) -> Result<f64, String> {
        // Measured large, since plotters answers in whole pixels.
        let size = 100.0 * BITMAP_SIZE_PER_EM;
        let font = (FAMILY, size, self.style()).into_font();
        let (width, _) = font.box_size(text).map_err(|error| error.to_string())?;
        Ok(f64::from(width) * self.em / 100.0)
    }

    /// The same font, smaller where the text would be wider than this.
    pub(super) fn fitted(self, text: &str, width: f64) -> Result<Self, String> {
        let factor = (width / self.width(text)?.max(1.0)).clamp(0.4, 1.0);
        Ok(Self {
            em: self.em * factor,
            ..self
        })
    }

    /// Height of its capitals and figures in units of length.
    pub(super) fn cap_height(self) -> f64 {
        0.714 * self.em
    }
}

/// A drawing area that takes real lengths; the origin is the upper left corner.
pub(super) struct Canvas<'a, DB: DrawingBackend> {
    area: &'a DrawingArea<DB, Shift>,
    text: TextMetrics,
    scale: f64,
}

impl<'a, DB: DrawingBackend> Canvas<'a, DB> {
    pub(super) fn new(area: &'a DrawingArea<DB, Shift>, text: TextMetrics, scale: u32) -> Self {
        Self {
            area,
            text,
            scale: f64::from(scale),
        }
    }

    /// Ends the drawing; nothing may be drawn afterwards.
    pub(super) fn finish(&self) -> Result<(), String> {
        self.area.present().map_err(|error| error.to_string())
    }

    fn pixel(&self, length: f64) -> i32 {
        whole(length * self.scale)
    }

    fn point(&self, (x, y): (f64, f64)) -> (i32, i32) {
        (self.pixel(x), self.pixel(y))
    }

    fn stroke(&self, color: RGBColor, width: f64) -> ShapeStyle {
        color.stroke_width(self.pixel(width).max(1).unsigned_abs())
    }

    /// Fills a rectangle.
    pub(super) fn rectangle(
        &self,
        from: (f64, f64),
        to: (f64, f64),
        color: RGBAColor,
    ) -> Result<(), String> {
        let rectangle = Rectangle::new([self.point(from), self.point(to)], color.filled());
        self.area
            .draw(&rectangle)
            .map_err(|error| error.to_string())
    }

    /// Fills a polygon.
    pub(super) fn polygon(&self, corners: &[(f64, f64)], color: RGBAColor) -> Result<(), String> {
        let corners: Vec<(i32, i32)> = corners.iter().map(|corner| self.point(*corner)).collect();
        self.area
            .draw(&Polygon::new(corners, color))
            .map_err(|error| error.to_string())
    }

    /// Draws a line through points, dashed by `dash` (empty: solid).
    pub(super) fn line(
        &self,
        points: &[(f64, f64)],
        color: RGBColor,
        width: f64,
        dash: &[f64],
    ) -> Result<(), String> {
        let style = self.stroke(color, width);
        for piece in dashes(points, dash) {
            let piece: Vec<(i32, i32)> = piece.into_iter().map(|point| self.point(point)).collect();
            // The bitmap backend mitres corners and cuts ends; a disc at each corner rounds them.
            if self.text == TextMetrics::Bitmap && width > 1.0 {
                for corner in piece.iter().skip(1).take(piece.len().saturating_sub(2)) {
                    let disc = Circle::new(*corner, self.pixel(width) / 2, color.filled());
                    self.area.draw(&disc).map_err(|error| error.to_string())?;
                }
            }
            self.area
                .draw(&PathElement::new(piece, style))
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Writes a text from left to right; `at` is on the baseline.
    pub(super) fn text(
        &self,
        text: &str,
        at: (f64, f64),
        anchor: Anchor,
        font: Font,
    ) -> Result<(), String> {
        let (x, y) = at;
        self.write(
            text,
            (x, y - self.baseline(font)),
            anchor,
            font,
            FontTransform::None,
        )
    }

    /// Writes a text from bottom to top; `at` is on the baseline.
    pub(super) fn text_upwards(
        &self,
        text: &str,
        at: (f64, f64),
        anchor: Anchor,
        font: Font,
    ) -> Result<(), String> {
        let (x, y) = at;
        self.write(
            text,
            (x - self.baseline(font), y),
            anchor,
            font,
            FontTransform::Rotate270,
        )
    }

    /// The size that makes the backend set this font.
    fn size(&self, font: Font) -> f64 {
        font.em
            * match self.text {
                TextMetrics::Svg => SVG_SIZE_PER_EM,
                TextMetrics::Bitmap => BITMAP_SIZE_PER_EM,
            }
    }

    /// How far the backend puts the baseline below the point of a text that is anchored at its top.
    fn baseline(&self, font: Font) -> f64 {
        match self.text {
            TextMetrics::Svg => 0.76 * font.em,
            TextMetrics::Bitmap => self.size(font) / 2.0,
        }
    }

    fn write(
        &self,
        text: &str,
        at: (f64, f64),
        anchor: Anchor,
        font: Font,
        transform: FontTransform,
    ) -> Result<(), String> {
        let horizontal = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        let style =
            TextStyle::from((FAMILY, self.size(font) * self.scale, font.style()).into_font())
                .color(&font.color)
                .pos(Pos::new(horizontal, VPos::Top))
                .transform(transform);
        self.area
            .draw_text(text, &style, self.point(at))
            .map_err(|error| error.to_string())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, and drawings are far smaller than i32::MAX"
)]
fn whole(length: f64) -> i32 {
    length.round() as i32
}

/// Cuts a line into the pieces that a dash pattern leaves.
fn dashes(points: &[(f64, f64)], pattern: &[f64]) -> Vec<Vec<(f64, f64)>> {
    if pattern.is_empty() || points.len() < 2 {
        return if points.len() < 2 {
            Vec::new()
        } else {
            vec![points.to_vec()]
        };
    }
    let mut pieces = Vec::new();
    let mut piece = vec![points[0]];
    let (mut index, mut left) = (0, pattern[0]);
    for pair in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        let length = (x1 - x0).hypot(y1 - y0);
        let mut done = 0.0;
        while length - done > left {
            done += left;
            let cut = (
                x0 + (x1 - x0) * done / length,
                y0 + (y1 - y0) * done / length,
            );
            if index % 2 == 0 {
                piece.push(cut);
                pieces.push(std::mem::take(&mut piece));
            } else {
                piece = vec![cut];
            }
            index = (index + 1) % pattern.len();
            left = pattern[index];
        }
        left -= length - done;
        if index % 2 == 0 {
            piece.push((x1, y1));
        }
    }
    if piece.len() > 1 {
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_follow_the_line_around_corners() {
        let line = [(0.0, 0.0), (3.0, 0.0), (3.0, 4.0)];
        assert_eq!(dashes(&line, &[]), [line.to_vec()]);
        let pieces = dashes(&line, &[2.0, 0.5]);
        let expected = [
            vec![(0.0, 0.0), (2.0, 0.0)],
            vec![(2.5, 0.0), (3.0, 0.0), (3.0, 1.5)],
            vec![(3.0, 2.0), (3.0, 4.0)],
        ];
        assert_eq!(pieces.len(), expected.len(), "{pieces:?}");
        for (found, expected) in pieces.iter().flatten().zip(expected.iter().flatten()) {
            assert!(
                (found.0 - expected.0).hypot(found.1 - expected.1) < 1e-12,
                "{pieces:?}"
            );
        }
    }

    #[test]
    fn widths_are_those_of_the_font() {
        register_fonts().expect("a sound font");
        let font = Font {
            em: 10.0,
            bold: false,
            color: RGBColor(0, 0, 0),
        };
        // A figure of Noto Sans is 1171 of 2048 units wide, and figures are not kerned.
        let width = font.width("0000000000").expect("a width");
        assert!((width - 100.0 * 1171.0 / 2048.0).abs() < 0.2, "{width}");
    }
}
