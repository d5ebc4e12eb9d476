//! Colours, fonts and lengths shared by all pictures, the styles of arms, and the look of points
//! and lines.

use plotters::style::RGBColor;

use super::text::Font;

/// Text and axes.
pub(crate) const INK: RGBColor = RGBColor(30, 30, 30);
/// Secondary text and lines.
pub(crate) const GREY: RGBColor = RGBColor(95, 95, 95);
/// Grid lines.
pub(crate) const GRID: RGBColor = RGBColor(229, 229, 229);
pub(crate) const WHITE: RGBColor = RGBColor(255, 255, 255);

/// Margin around the picture.
pub(crate) const EDGE: f64 = 10.0;
/// Distance between panels, in addition to their labels.
pub(crate) const GUTTER: f64 = 14.0;
/// Distance between legend entries.
pub(crate) const KEY_GAP: f64 = 22.0;
/// Length of a tick.
pub(crate) const TICK: f64 = 4.0;
pub(crate) const LINE_WIDTH: f64 = 1.75;

pub(crate) const TITLE: Font = Font { em: 16.0, bold: true, color: INK };
pub(crate) const NAME: Font = Font { em: 14.0, bold: false, color: INK };
pub(crate) const NOTE: Font = Font { em: 11.0, bold: false, color: GREY };

/// Names beside markers and at the ends of rules.
pub(crate) const LABEL: Font = Font { em: 11.5, bold: false, color: INK };

/// Returns the number of columns in a grid of panels, and the size of each panel.
pub(crate) fn grid(n_panels: usize) -> (usize, (f64, f64)) {
    let n_columns = match n_panels {
        0 | 1 => 1,
        2 | 3 => n_panels,
        4 => 2,
        5..=9 => 3,
        10..=16 => 4,
        _ => 5,
    };
    let panel_size = match n_columns {
        1 => (560.0, 330.0),
        2 => (330.0, 220.0),
        3 => (240.0, 165.0),
        _ => (200.0, 140.0),
    };
    (n_columns, panel_size)
}

/// Returns the font of tick labels, which is smaller if there are several columns.
pub(crate) fn tick_font(n_columns: usize) -> Font {
    Font { em: if n_columns == 1 { 13.0 } else { 12.0 }, bold: false, color: INK }
}

pub(crate) const BLUE: RGBColor = RGBColor(0, 114, 178);
pub(crate) const VERMILION: RGBColor = RGBColor(213, 94, 0);
pub(crate) const ORANGE: RGBColor = RGBColor(230, 159, 0);

/// Okabe and Ito's palette for colour-blind readers, without its yellow, which is too pale on
/// white.
const COLORS: [RGBColor; 7] = [
    BLUE,
    VERMILION,
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(0, 0, 0),
    ORANGE,
    RGBColor(86, 180, 233),
];

/// Alternating lengths of dashes and gaps; empty for a solid line.
const DASHES: [&[f64]; 6] = [
    &[],
    &[8.0, 3.5],
    &[2.0, 2.5],
    &[9.0, 3.0, 2.0, 3.0],
    &[4.5, 2.5],
    &[9.0, 2.5, 2.0, 2.5, 2.0, 2.5],
];

const MARKERS: [Marker; 8] = [
    Marker::Circle,
    Marker::Square,
    Marker::TriangleUp,
    Marker::Diamond,
    Marker::TriangleDown,
    Marker::Cross,
    Marker::Pentagon,
    Marker::Plus,
];

/// Shape of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    TriangleUp,
    Diamond,
    TriangleDown,
    Cross,
    Pentagon,
    Plus,
}

/// The position of text relative to its anchor point, which is on the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// Colour, width and dash pattern of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stroke {
    pub(crate) color: RGBColor,
    pub(crate) width: f64,
    /// Alternating lengths of dashes and gaps; empty for a solid line.
    pub(crate) dash: &'static [f64],
    /// Length at the start of the line that is not drawn, so that the dashes of adjacent lines are
    /// not aligned.
    pub(crate) skip: f64,
}

impl Stroke {
    /// Creates a solid line.
    pub(crate) const fn solid(color: RGBColor, width: f64) -> Self {
        Self { color, width, dash: &[], skip: 0.0 }
    }

    /// Returns the line style for the arm with this index.
    ///
    /// The least common multiple of the numbers of colours, markers and dash patterns is 168, so
    /// that many arms have distinct styles.
    pub(crate) fn of_arm(arm_idx: usize) -> Self {
        let dash = DASHES[arm_idx % DASHES.len()];
        Self { dash, ..Self::solid(color_of_arm(arm_idx), LINE_WIDTH) }
    }

    /// Returns the style of the reference line with this index: thin, grey and without markers.
    pub(crate) fn of_reference(reference_idx: usize) -> Self {
        const DASHES: [&[f64]; 3] = [&[5.0, 3.0], &[1.5, 2.5], &[8.0, 3.0, 1.5, 3.0]];
        Self { dash: DASHES[reference_idx % DASHES.len()], ..Self::solid(GREY, 1.25) }
    }
}

/// The look of a point. Lengths are multiples of its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Glyph {
    pub(crate) marker: Marker,
    pub(crate) color: RGBColor,
    /// The size of the shape.
    scale: f64,
    /// Size of the white rim around the shape; 0 for none.
    rim: f64,
    /// Radius of the black ring around the shape, and of the white hole in it; 0 for none.
    ring: f64,
    hole: f64,
}

impl Glyph {
    /// Creates a shape with a white rim.
    pub(crate) const fn new(marker: Marker, color: RGBColor) -> Self {
        Self { marker, color, scale: 1.0, rim: 1.3, ring: 0.0, hole: 0.0 }
    }

    /// Returns the marker for the arm with this index.
    pub(crate) fn of_arm(arm_idx: usize) -> Self {
        Self::new(MARKERS[arm_idx % MARKERS.len()], color_of_arm(arm_idx))
    }

    /// Creates a disc with a white rim.
    pub(crate) const fn disc(color: RGBColor) -> Self {
        Self { rim: 1.22, ..Self::new(Marker::Circle, color) }
    }

    /// Creates a cross for a failure, without a rim since crosses may be dense.
    pub(crate) const fn failed(color: RGBColor) -> Self {
        Self { scale: 0.85, ..Self::new(Marker::Cross, color).bare() }
    }

    /// Creates a diamond for the best trial.
    pub(crate) const fn best(color: RGBColor) -> Self {
        Self { scale: 1.35, rim: 1.75, ..Self::new(Marker::Diamond, color) }
    }

    /// Removes the rim.
    pub(crate) const fn bare(self) -> Self {
        Self { rim: 0.0, ..self }
    }

    /// Adds a white hole.
    pub(crate) const fn hollow(self) -> Self {
        Self { hole: 0.57, ..self }
    }

    /// Adds a black ring.
    pub(crate) const fn ringed(self) -> Self {
        Self { ring: 1.95, ..self }
    }

    /// Returns the distance from the centre to the outermost point.
    pub(super) fn reach(self) -> f64 {
        self.rim.max(1.1 * self.ring).max(1.3 * self.scale)
    }

    /// Returns the parts drawn on top of each other around the origin, each with a shape, a size
    /// and a colour.
    pub(super) fn parts(self) -> impl Iterator<Item = (Marker, f64, RGBColor)> {
        let disc = |size, color| (Marker::Circle, size, color);
        let parts = [
            disc(1.1 * self.ring, WHITE),
            disc(self.ring, INK),
            disc(0.77 * self.ring, WHITE),
            (self.marker, self.rim, WHITE),
            (self.marker, self.scale, self.color),
            disc(self.hole, WHITE),
        ];
        parts.into_iter().filter(|(_, size, _)| *size > 0.0)
    }
}

/// Returns the colour for the arm, player or series with this index.
pub(crate) fn color_of_arm(arm_idx: usize) -> RGBColor {
    COLORS[arm_idx % COLORS.len()]
}

/// Mixes `percent` of a colour with white. The result is opaque, so both file formats look the
/// same.
pub(crate) fn faded(RGBColor(r, g, b): RGBColor, percent: u16) -> RGBColor {
    let percent = percent.min(100);
    let mix = |channel: u8| {
        let mixed = (u16::from(channel) * percent + 255 * (100 - percent)) / 100;
        u8::try_from(mixed).unwrap_or(u8::MAX)
    };
    RGBColor(mix(r), mix(g), mix(b))
}

/// Returns the colour of a trial, from the first (0) to the last (1). Colours become darker, so
/// that the order is visible without colour.
pub(crate) fn color_of_order(share: f64) -> RGBColor {
    const STOPS: [[f64; 3]; 5] = [
        [161.0, 218.0, 180.0],
        [96.0, 189.0, 190.0],
        [38.0, 140.0, 185.0],
        [35.0, 85.0, 160.0],
        [12.0, 32.0, 92.0],
    ];
    let position = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let index = (1..STOPS.len() - 1).filter(|stop| position > *stop as f64).count();
    let part = position - index as f64;
    let [r, g, b] = [0, 1, 2].map(|i| {
        let (from, to) = (STOPS[index][i], STOPS[index + 1][i]);
        channel(from + (to - from) * part)
    });
    RGBColor(r, g, b)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean of two channels; the cast saturates"
)]
fn channel(value: f64) -> u8 {
    value.round() as u8
}

/// Returns the size of each of `n` markers: `largest` for up to `n_large` markers, then decreasing
/// with `n`.
pub(crate) fn size_for(n: usize, n_large: f64, (smallest, largest): (f64, f64)) -> f64 {
    (largest * (n_large / n.max(1) as f64).powf(0.35)).clamp(smallest, largest)
}

impl Marker {
    /// Returns the corners around the origin, at a distance of about one unit.
    pub(super) fn outline(self) -> Vec<(f64, f64)> {
        let polygon = |n: u32, start: f64, radius: f64| -> Vec<(f64, f64)> {
            let corner = |index| {
                let angle = start + std::f64::consts::TAU * f64::from(index) / f64::from(n);
                (radius * angle.cos(), radius * angle.sin())
            };
            (0..n).map(corner).collect()
        };
        let quarter = std::f64::consts::FRAC_PI_2;
        let cross = [
            (-0.35, -1.1),
            (0.35, -1.1),
            (0.35, -0.35),
            (1.1, -0.35),
            (1.1, 0.35),
            (0.35, 0.35),
            (0.35, 1.1),
            (-0.35, 1.1),
            (-0.35, 0.35),
            (-1.1, 0.35),
            (-1.1, -0.35),
            (-0.35, -0.35),
        ];
        match self {
            Self::Circle => polygon(32, 0.0, 1.0),
            Self::Square => polygon(4, quarter / 2.0, 1.25),
            Self::TriangleUp => polygon(3, -quarter, 1.3),
            Self::Diamond => polygon(4, 0.0, 1.3),
            Self::TriangleDown => polygon(3, quarter, 1.3),
            Self::Pentagon => polygon(5, -quarter, 1.2),
            Self::Plus => cross.to_vec(),
            Self::Cross => {
                let turned =
                    |(x, y): (f64, f64)| ((x - y) / 2.0_f64.sqrt(), (x + y) / 2.0_f64.sqrt());
                cross.into_iter().map(turned).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_differ_in_shape_even_without_colour() {
        let shape = |arm_idx| (Glyph::of_arm(arm_idx).marker, Stroke::of_arm(arm_idx).dash);
        for arm_idx in 0..24 {
            for other in 0..arm_idx {
                assert_ne!(shape(arm_idx), shape(other), "arms {other} and {arm_idx}");
            }
        }
    }

    #[test]
    fn a_faded_colour_lies_between_itself_and_white() {
        let color = RGBColor(0, 158, 255);
        assert_eq!(faded(color, 100), color);
        assert_eq!(faded(color, 0), WHITE);
        assert_eq!(faded(color, 50), RGBColor(127, 206, 255));
        assert_eq!(faded(color, 900), color);
    }

    #[test]
    fn many_trials_have_smaller_marks() {
        let size = |n| size_for(n, 40.0, (1.5, 4.0));
        assert!((size(0) - 4.0).abs() < 1e-12 && (size(40) - 4.0).abs() < 1e-12);
        assert!(size(300) < 2.5 && size(300) > 1.5);
        assert!((size(1_000_000) - 1.5).abs() < 1e-12);
    }
}
