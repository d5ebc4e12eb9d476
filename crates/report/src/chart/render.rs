//! Draws a laid-out chart to SVG and PNG with plotters.

use std::path::Path;

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Rectangle};
use plotters::prelude::IntoFont;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontTransform, TextStyle};

use super::layout::{Scene, Shape};
use super::style::{Anchor, Stroke};
use super::text::{BITMAP_SIZE_PER_EM, FAMILY, Font, register_fonts};
use crate::error::ReportError;
use crate::folder::write_whole;

/// Pixels of the drawing per unit of length. A unit is a pixel of an ordinary screen, 1/96 inch.
const PIXELS_PER_UNIT: u32 = 4;
/// Pixels of the PNG per unit of length: twice the density of a screen.
const PNG_PIXELS_PER_UNIT: u32 = 2;
/// Maximum number of pixels of a drawing with smoothing, at three bytes each.
const SMOOTH_PIXELS_MAX: u64 = 60_000_000;
/// Maximum number of pixels of any drawing.
const PIXELS_MAX: u64 = 100_000_000;
/// The SVG backend divides the given font size by this factor.
const SVG_SIZE_PER_EM: f64 = 1.24;

/// Writes a laid-out chart as SVG.
pub(super) fn write_svg(scene: &Scene, path: &Path) -> Result<(), ReportError> {
    let svg = svg(scene).map_err(|message| draw_error(path, message))?;
    write_whole(path, svg.as_bytes())
}

/// Returns a laid-out chart as SVG.
pub(super) fn svg(scene: &Scene) -> Result<String, String> {
    let (width, height) = scene.size;
    let size = (width * PIXELS_PER_UNIT, height * PIXELS_PER_UNIT);
    let mut svg = String::new();
    let backend = SVGBackend::with_string(&mut svg, size);
    draw(scene, backend, TextMetrics::Svg, PIXELS_PER_UNIT)?;
    // The SVG is drawn on a fine integer grid and displayed at its real size.
    let fine = format!("<svg width=\"{}\" height=\"{}\"", size.0, size.1);
    let shown = format!("<svg role=\"img\" width=\"{width}\" height=\"{height}\"");
    let svg = svg.replacen(&fine, &shown, 1);
    // Screen readers expect the title and description as the first children of the picture.
    let Some((head, rest)) = svg.split_once(">\n") else {
        return Ok(svg);
    };
    let (title, description) = (escaped(&scene.title), escaped(&scene.description));
    Ok(format!("{head}>\n<title>{title}</title>\n<desc>{description}</desc>\n{rest}"))
}

/// Escapes markup in a string for an SVG, and replaces control characters with spaces.
fn escaped(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Writes a laid-out chart as PNG.
pub(super) fn write_png(scene: &Scene, path: &Path) -> Result<(), ReportError> {
    let png = png(scene).map_err(|message| draw_error(path, message))?;
    write_whole(path, &png)
}

/// Returns a laid-out chart as PNG.
pub(super) fn png(scene: &Scene) -> Result<Vec<u8>, String> {
    let (width, height) = scene.size;
    // To save memory, a very large picture is drawn without smoothing, and refused beyond a limit.
    let n_pixels = |scale: u32| u64::from(width * scale) * u64::from(height * scale);
    let scale = if n_pixels(PIXELS_PER_UNIT) > SMOOTH_PIXELS_MAX {
        PNG_PIXELS_PER_UNIT
    } else {
        PIXELS_PER_UNIT
    };
    if n_pixels(scale) > PIXELS_MAX {
        return Err(format!("{} panels are too many for a picture", scene.n_panels));
    }
    let (width, height) = (width * scale, height * scale);
    let mut fine = vec![255; width as usize * height as usize * 3];
    let backend = BitMapBackend::with_buffer(&mut fine, (width, height));
    draw(scene, backend, TextMetrics::Bitmap, scale)?;
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
        .map_err(|error| error.to_string())?;
    Ok(encoded)
}

/// Converts the renderer's message to a picture error.
pub(super) fn draw_error(path: &Path, message: String) -> ReportError {
    ReportError::Draw { path: path.to_owned(), message }
}

fn draw<DB: DrawingBackend>(
    scene: &Scene,
    backend: DB,
    text: TextMetrics,
    scale: u32,
) -> Result<(), String> {
    register_fonts()?;
    let area = backend.into_drawing_area();
    let canvas = Canvas { area: &area, text, scale: f64::from(scale) };
    let drawn = scene.shapes.iter().try_for_each(|shape| canvas.draw(shape));
    drawn.and_then(|()| area.present()).map_err(|error| error.to_string())
}

/// The backend that draws text. Backends interpret sizes and heights differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextMetrics {
    Svg,
    Bitmap,
}

/// A drawing area with real-valued lengths. The origin is the upper left corner.
struct Canvas<'a, DB: DrawingBackend> {
    area: &'a DrawingArea<DB, Shift>,
    text: TextMetrics,
    scale: f64,
}

impl<DB: DrawingBackend> Canvas<'_, DB> {
    fn pixel(&self, length: f64) -> i32 {
        whole(length * self.scale)
    }

    fn point(&self, (x, y): (f64, f64)) -> (i32, i32) {
        (self.pixel(x), self.pixel(y))
    }

    fn draw(&self, shape: &Shape) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
        match shape {
            Shape::Rectangle { from, to, color } => {
                let corners = [self.point(*from), self.point(*to)];
                self.area.draw(&Rectangle::new(corners, color.filled()))
            }
            Shape::Disc { at, radius, color } => {
                let radius = self.pixel(*radius).max(1);
                self.area.draw(&Circle::new(self.point(*at), radius, color.filled()))
            }
            Shape::Polygon { corners, color } => {
                let corners: Vec<_> = corners.iter().map(|corner| self.point(*corner)).collect();
                self.area.draw(&Polygon::new(corners, color))
            }
            Shape::Line { points, stroke } => self.line(points, *stroke),
            Shape::Text { text, at, anchor, font, upwards } => {
                let (x, y) = *at;
                let down = self.baseline(*font);
                let (at, transform) = if *upwards {
                    ((x - down, y), FontTransform::Rotate270)
                } else {
                    ((x, y - down), FontTransform::None)
                };
                let horizontal = match anchor {
                    Anchor::Start => HPos::Left,
                    Anchor::Middle => HPos::Center,
                    Anchor::End => HPos::Right,
                };
                let size = self.size(*font) * self.scale;
                let style = TextStyle::from((FAMILY, size, font.style()).into_font())
                    .color(&font.color)
                    .pos(Pos::new(horizontal, VPos::Top))
                    .transform(transform);
                self.area.draw_text(text, &style, self.point(at))
            }
        }
    }

    fn line(
        &self,
        points: &[(f64, f64)],
        stroke: Stroke,
    ) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
        let style = stroke.color.stroke_width(self.pixel(stroke.width).max(1).unsigned_abs());
        for piece in dashes(&without_start(points, stroke.skip), stroke.dash) {
            let piece: Vec<(i32, i32)> = piece.into_iter().map(|point| self.point(point)).collect();
            // The bitmap backend draws mitred corners and butt ends. A disc at each corner rounds
            // them.
            if self.text == TextMetrics::Bitmap && stroke.width > 1.0 {
                for corner in piece.iter().skip(1).take(piece.len().saturating_sub(2)) {
                    let radius = self.pixel(stroke.width) / 2;
                    self.area.draw(&Circle::new(*corner, radius, stroke.color.filled()))?;
                }
            }
            self.area.draw(&PathElement::new(piece, style))?;
        }
        Ok(())
    }

    /// Returns the size that makes the backend render this font correctly.
    fn size(&self, font: Font) -> f64 {
        font.em
            * match self.text {
                TextMetrics::Svg => SVG_SIZE_PER_EM,
                TextMetrics::Bitmap => BITMAP_SIZE_PER_EM,
            }
    }

    /// Returns the distance from the anchor at the top of a text down to the backend's baseline.
    fn baseline(&self, font: Font) -> f64 {
        match self.text {
            TextMetrics::Svg => 0.76 * font.em,
            TextMetrics::Bitmap => self.size(font) / 2.0,
        }
    }
}

/// Removes the first `length` of a line.
fn without_start(points: &[(f64, f64)], mut length: f64) -> Vec<(f64, f64)> {
    if length <= 0.0 {
        return points.to_vec();
    }
    for (index, pair) in points.windows(2).enumerate() {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        let of_pair = (x1 - x0).hypot(y1 - y0);
        if of_pair > length {
            let share = length / of_pair;
            let start = (x0 + share * (x1 - x0), y0 + share * (y1 - y0));
            return [&[start], &points[index + 1..]].concat();
        }
        length -= of_pair;
    }
    Vec::new()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, and drawings are far smaller than i32::MAX"
)]
fn whole(length: f64) -> i32 {
    length.round() as i32
}

/// Splits a line into the pieces of a dash pattern.
fn dashes(points: &[(f64, f64)], pattern: &[f64]) -> Vec<Vec<(f64, f64)>> {
    if pattern.is_empty() || points.len() < 2 {
        return if points.len() < 2 { Vec::new() } else { vec![points.to_vec()] };
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
            let cut = (x0 + (x1 - x0) * done / length, y0 + (y1 - y0) * done / length);
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

/// Downscales an RGB image by an integer factor. Each pixel is the mean of a block, which smooths
/// the edges of all shapes.
fn average_blocks(fine: &[u8], width: usize, factor: usize) -> Vec<u8> {
    let height = fine.len() / 3 / width;
    let area = factor * factor;
    let mut coarse = Vec::with_capacity(fine.len() / area);
    for row in 0..height / factor {
        for column in 0..width / factor {
            for channel in 0..3 {
                let pixel = |index: usize| {
                    let (y, x) = (row * factor + index / factor, column * factor + index % factor);
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
            assert!((found.0 - expected.0).hypot(found.1 - expected.1) < 1e-12, "{pieces:?}");
        }
    }

    #[test]
    fn a_line_loses_its_start_around_corners() {
        let line = [(0.0, 0.0), (3.0, 0.0), (3.0, 4.0)];
        assert_eq!(without_start(&line, 0.0), line);
        assert_eq!(without_start(&line, 1.0), [(1.0, 0.0), line[1], line[2]]);
        assert_eq!(without_start(&line, 5.0), [(3.0, 2.0), line[2]]);
        assert_eq!(without_start(&line, 7.0), []);
    }

    #[test]
    fn blocks_are_averaged_by_channel() {
        // 2×2 pixels are averaged to one: channels 0, 10, 20, 30 → 15; 1, 1, 1, 2 → 1.25; 255
        // everywhere.
        let fine = [0, 1, 255, 10, 1, 255, 20, 1, 255, 30, 2, 255];
        assert_eq!(average_blocks(&fine, 2, 2), [15, 1, 255]);
    }
}
