//! How arms are told apart.

use plotters::style::RGBColor;

/// Okabe and Ito's palette, which colour-blind readers can tell apart, without its yellow, too faint on white.
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
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
pub(super) enum Marker {
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
pub(super) struct ArmStyle {
    pub(super) color: RGBColor,
    pub(super) marker: Marker,
    pub(super) dash: &'static [f64],
}

impl ArmStyle {
    /// The style of the arm with this index. The least common multiple of the numbers of colours, markers
    /// and dashes is 168: as many arms differ.
    pub(super) fn of(arm_idx: usize) -> Self {
        Self {
            color: COLORS[arm_idx % COLORS.len()],
            marker: MARKERS[arm_idx % MARKERS.len()],
            dash: DASHES[arm_idx % DASHES.len()],
        }
    }
}

/// Dash pattern of the reference line with this index; they are thin, grey and without markers.
pub(super) fn reference_dash(reference_idx: usize) -> &'static [f64] {
    const REFERENCE_DASHES: [&[f64]; 3] = [&[5.0, 3.0], &[1.5, 2.5], &[8.0, 3.0, 1.5, 3.0]];
    REFERENCE_DASHES[reference_idx % REFERENCE_DASHES.len()]
}

impl Marker {
    /// Corners around the origin, about one unit away; several outlines for crossed bars, none for the circle.
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
        let shape = |arm_idx| (ArmStyle::of(arm_idx).marker, ArmStyle::of(arm_idx).dash);
        for arm_idx in 0..24 {
            for other in 0..arm_idx {
                assert_ne!(shape(arm_idx), shape(other), "arms {other} and {arm_idx}");
            }
        }
    }
}
