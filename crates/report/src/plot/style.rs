//! Colours, fonts and lengths that all pictures share, and how arms are told apart.

use plotters::style::RGBColor;

use super::canvas::Font;

/// Text and axes.
pub(crate) const INK: RGBColor = RGBColor(30, 30, 30);
/// Secondary texts and lines.
pub(crate) const GREY: RGBColor = RGBColor(95, 95, 95);
/// Lines of the grid.
pub(crate) const GRID: RGBColor = RGBColor(229, 229, 229);
pub(crate) const WHITE: RGBColor = RGBColor(255, 255, 255);

/// Distance of everything from the edge of the picture.
pub(crate) const EDGE: f64 = 10.0;
/// Distance between panels, besides their labels.
pub(crate) const GUTTER: f64 = 14.0;
/// Distance between the keys of the legend.
pub(crate) const KEY_GAP: f64 = 22.0;
/// Length of a tick.
pub(crate) const TICK: f64 = 4.0;
pub(crate) const LINE_WIDTH: f64 = 1.75;

pub(crate) const TITLE: Font = Font {
    em: 16.0,
    bold: true,
    color: INK,
};
pub(crate) const NAME: Font = Font {
    em: 14.0,
    bold: false,
    color: INK,
};
pub(crate) const NOTE: Font = Font {
    em: 11.0,
    bold: false,
    color: GREY,
};

/// Number of columns of a grid of panels, and the size of each panel.
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

/// Labels of the ticks: smaller where there are several columns.
pub(crate) fn tick_font(n_columns: usize) -> Font {
    Font {
        em: if n_columns == 1 { 13.0 } else { 12.0 },
        bold: false,
        color: INK,
    }
}

pub(crate) const BLUE: RGBColor = RGBColor(0, 114, 178);
pub(crate) const VERMILION: RGBColor = RGBColor(213, 94, 0);
pub(crate) const ORANGE: RGBColor = RGBColor(230, 159, 0);

/// Okabe and Ito's palette, which colour-blind readers can tell apart, without its yellow, too faint on white.
const COLORS: [RGBColor; 7] = [
    BLUE,
    VERMILION,
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(0, 0, 0),
    ORANGE,
    RGBColor(86, 180, 233),
];

/// Lengths of line and gap in turn; empty for a solid line.
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

/// Colour, marker and dash pattern of one arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ArmStyle {
    pub(crate) color: RGBColor,
    pub(crate) marker: Marker,
    pub(crate) dash: &'static [f64],
}

impl ArmStyle {
    /// The style of the arm with this index. The least common multiple of the numbers of colours, markers
    /// and dashes is 168: as many arms differ.
    pub(crate) fn of(arm_idx: usize) -> Self {
        Self {
            color: COLORS[arm_idx % COLORS.len()],
            marker: MARKERS[arm_idx % MARKERS.len()],
            dash: DASHES[arm_idx % DASHES.len()],
        }
    }
}

/// Dash pattern of the reference line with this index; they are thin, grey and without markers.
pub(crate) fn reference_dash(reference_idx: usize) -> &'static [f64] {
    const REFERENCE_DASHES: [&[f64]; 3] = [&[5.0, 3.0], &[1.5, 2.5], &[8.0, 3.0, 1.5, 3.0]];
    REFERENCE_DASHES[reference_idx % REFERENCE_DASHES.len()]
}

impl Marker {
    /// Corners around the origin, about one unit away; several outlines for crossed bars, none for the circle.
    pub(crate) fn outline(self) -> Vec<(f64, f64)> {
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
        let shape = |arm_idx| (ArmStyle::of(arm_idx).marker, ArmStyle::of(arm_idx).dash);
        for arm_idx in 0..24 {
            for other in 0..arm_idx {
                assert_ne!(shape(arm_idx), shape(other), "arms {other} and {arm_idx}");
            }
        }
    }
}
