//! Shapes and text in real lengths, over either backend of plotters.

use std::collections::BTreeSet;
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
pub(crate) const PIXELS_PER_UNIT: u32 = 4;

/// The name under which our font is registered, and the fonts that a reader's browser tries for an SVG.
const FAMILY: &str = "Noto Sans, Open Sans, Helvetica, Arial, DejaVu Sans, sans-serif";

/// Ascent minus descent of Noto Sans over its em: what the bitmap backend takes for the size of a font.
const BITMAP_SIZE_PER_EM: f64 = 2789.0 / 2048.0;
/// The SVG backend divides the size that it is given by this.
const SVG_SIZE_PER_EM: f64 = 1.24;

/// Most characters of a name that are shown whole, however much room there is.
const SHORTENED_CHARS_MAX: usize = 200;

/// Makes the font known to plotters, once.
pub(crate) fn register_fonts() -> Result<(), String> {
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

/// The backend that draws the text: backends take sizes and heights differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextMetrics {
    Svg,
    Bitmap,
}

/// The position of a text relative to its point; the point is on the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// Size, weight and colour of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Font {
    /// The em, in units of length.
    pub(crate) em: f64,
    pub(crate) bold: bool,
    pub(crate) color: RGBColor,
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
    pub(crate) fn width(self, text: &str) -> Result<f64, String> {
        // Measured large, since plotters answers in whole pixels.
        let size = 100.0 * BITMAP_SIZE_PER_EM;
        let font = (FAMILY, size, self.style()).into_font();
        let (width, _) = font.box_size(text).map_err(|error| error.to_string())?;
        Ok(f64::from(width) * self.em / 100.0)
    }

    /// The same font, smaller where the text would be wider than this.
    pub(crate) fn fitted(self, text: &str, width: f64) -> Result<Self, String> {
        let factor = (width / self.width(text)?.max(1.0)).clamp(0.4, 1.0);
        Ok(Self {
            em: self.em * factor,
            ..self
        })
    }

    /// The text, its middle left out where it would be wider than this: both ends of a name tell most.
    pub(crate) fn shortened(self, text: &str, width: f64) -> Result<String, String> {
        // A line of its own, whatever the name holds, and not measured without end.
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let chars: Vec<char> = text.chars().map(plain).collect();
        let cut = |n_kept: usize| -> String {
            let n_head = n_kept.div_ceil(2);
            let tail = chars.len() - (n_kept - n_head);
            let (head, tail) = (chars[..n_head].iter(), chars[tail..].iter());
            head.chain(['…'].iter()).chain(tail).collect()
        };
        if chars.len() <= SHORTENED_CHARS_MAX {
            let whole: String = chars.iter().collect();
            if self.width(&whole)? <= width {
                return Ok(whole);
            }
        }
        let (mut fits, mut too_many) = (1, chars.len().min(SHORTENED_CHARS_MAX));
        while too_many > fits + 1 {
            let middle = usize::midpoint(fits, too_many);
            if self.width(&cut(middle))? <= width {
                fits = middle;
            } else {
                too_many = middle;
            }
        }
        Ok(cut(fits.min(chars.len())))
    }

    /// Several names, shortened so that those that differ still do, where that is possible.
    pub(crate) fn shortened_apart(self, names: &[&str], width: f64) -> Result<Vec<String>, String> {
        let shorten = |names: &[String]| -> Result<Vec<String>, String> {
            let shortened = names.iter().map(|name| self.shortened(name, width));
            shortened.collect()
        };
        let n_different = |names: &[String]| names.iter().collect::<BTreeSet<_>>().len();
        let whole: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let plain = shorten(&whole)?;
        if n_different(&plain) == n_different(&whole) {
            return Ok(plain);
        }
        for (head, tail) in [(true, false), (false, true), (true, true)] {
            let apart = shorten(&without_common_ends(&whole, head, tail))?;
            if n_different(&apart) == n_different(&whole) {
                return Ok(apart);
            }
        }
        Ok(plain)
    }

    /// Height of its capitals and figures in units of length.
    pub(crate) fn cap_height(self) -> f64 {
        0.714 * self.em
    }
}

/// Leaves out what all names begin with (`head`) and what they end with (`tail`).
fn without_common_ends(names: &[String], head: bool, tail: bool) -> Vec<String> {
    let chars: Vec<Vec<char>> = names.iter().map(|name| name.chars().collect()).collect();
    let shortest = chars.iter().map(Vec::len).min().unwrap_or(0);
    let same =
        |at: &dyn Fn(&[char]) -> char| chars.windows(2).all(|pair| at(&pair[0]) == at(&pair[1]));
    let n_head = (0..shortest)
        .take_while(|index| head && same(&|name: &[char]| name[*index]))
        .count();
    let n_tail = (0..shortest - n_head)
        .take_while(|index| tail && same(&|name: &[char]| name[name.len() - 1 - *index]))
        .count();
    // A single character is worth more than the sign that it is missing.
    let at_least_two = |n: usize| if n > 1 { n } else { 0 };
    let (head, tail) = (at_least_two(n_head), at_least_two(n_tail));
    let cut = |name: &Vec<char>| {
        let middle: String = name[head..name.len() - tail].iter().collect();
        let (before, after) = (
            if head > 0 { "…" } else { "" },
            if tail > 0 { "…" } else { "" },
        );
        format!("{before}{middle}{after}")
    };
    chars.iter().map(cut).collect()
}

/// A drawing area that takes real lengths; the origin is the upper left corner.
pub(crate) struct Canvas<'a, DB: DrawingBackend> {
    area: &'a DrawingArea<DB, Shift>,
    text: TextMetrics,
    scale: f64,
}

impl<'a, DB: DrawingBackend> Canvas<'a, DB> {
    pub(crate) fn new(area: &'a DrawingArea<DB, Shift>, text: TextMetrics, scale: u32) -> Self {
        Self {
            area,
            text,
            scale: f64::from(scale),
        }
    }

    /// Ends the drawing; nothing may be drawn afterwards.
    pub(crate) fn finish(&self) -> Result<(), String> {
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
    pub(crate) fn rectangle(
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

    /// Fills a disc.
    pub(crate) fn disc(
        &self,
        center: (f64, f64),
        radius: f64,
        color: RGBColor,
    ) -> Result<(), String> {
        let disc = Circle::new(
            self.point(center),
            self.pixel(radius).max(1),
            color.filled(),
        );
        self.area.draw(&disc).map_err(|error| error.to_string())
    }

    /// Fills a polygon.
    pub(crate) fn polygon(&self, corners: &[(f64, f64)], color: RGBAColor) -> Result<(), String> {
        let corners: Vec<(i32, i32)> = corners.iter().map(|corner| self.point(*corner)).collect();
        self.area
            .draw(&Polygon::new(corners, color))
            .map_err(|error| error.to_string())
    }

    /// Draws a line through points, dashed by `dash` (empty: solid).
    pub(crate) fn line(
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
    pub(crate) fn text(
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
    pub(crate) fn text_upwards(
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

    /// Returns the distance from the point of a text that is anchored at its top down to the backend's baseline.
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
    fn a_long_name_keeps_both_ends() {
        register_fonts().expect("a sound font");
        let font = Font {
            em: 10.0,
            bold: false,
            color: RGBColor(0, 0, 0),
        };
        let short = |text: &str, width| font.shortened(text, width).expect("a width");
        assert_eq!(short("learning_rate", 100.0), "learning_rate");
        let name = "encoder.layers.0.attention.dropout";
        let cut = short(name, 80.0);
        assert!(cut.starts_with("enc") && cut.ends_with("out"), "{cut}");
        assert!(font.width(&cut).expect("a width") <= 80.0);
        assert_eq!(short("a\nb", 100.0), "a b");
        assert_eq!(short("", 0.0), "");
        assert_eq!(short("ab", 0.0), "a…");
        assert!(short(&"x".repeat(100_000), 1e9).chars().count() <= 201);
    }

    #[test]
    fn shortened_names_stay_apart() {
        register_fonts().expect("a sound font");
        let font = Font {
            em: 10.0,
            bold: false,
            color: RGBColor(0, 0, 0),
        };
        let apart = |names: &[&str]| font.shortened_apart(names, 60.0).expect("widths");
        assert_eq!(apart(&["adam", "sgd"]), ["adam", "sgd"]);
        let names = ["activation-1-smooth", "activation-22-smooth"];
        assert_eq!(apart(&names), ["…1-smooth", "…22-smooth"]);
        assert_eq!(apart(&[]), Vec::<String>::new());
        assert_eq!(apart(&["a", "a"]), ["a", "a"]);
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
