//! Marks, lines and fills of these pictures, and what the legend shows of them.

use plotters::backend::DrawingBackend;
use plotters::style::{Color, RGBColor};

use crate::plot::canvas::Canvas;
use crate::plot::frame::draw_marker;
use crate::plot::style::{BLUE, INK, Marker, WHITE};

/// Trainings to the end. Okabe and Ito's green.
pub(super) const GREEN: RGBColor = RGBColor(0, 158, 115);
/// Stopped trainings, and regions that train to the end: a red that is darker than the palette's vermilion, which turns orange where
/// lines are pale.
pub(super) const RED: RGBColor = RGBColor(204, 51, 17);
/// Radius of a mark in the legend, and the largest in a panel.
pub(super) const MARK: f64 = 4.0;

/// A mark for the end of a training, or for its rank among the others: shape and colour both tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Trained to the end: a green triangle.
    Complete,
    /// Stopped early: a red disc.
    Stopped,
    /// Stopped early, and wrongly: a red disc within a black ring.
    WrongStop,
    /// Failed: a black cross.
    Failed,
    /// Still training: a blue ring.
    Running,
    /// The best of those trained to the end: a black diamond.
    Best,
}

impl Mark {
    /// Draws it around a point, with a white rim that keeps it apart from others.
    pub(super) fn draw<DB: DrawingBackend>(
        self,
        at: (f64, f64),
        size: f64,
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        match self {
            Self::Complete => draw_marker((Marker::TriangleUp, GREEN), at, size, canvas),
            Self::Failed => draw_marker((Marker::Cross, INK), at, size, canvas),
            Self::Best => draw_marker((Marker::Diamond, INK), at, size * 1.35, canvas),
            Self::Stopped => {
                canvas.disc(at, size * 1.25, WHITE)?;
                canvas.disc(at, size, RED)
            }
            Self::WrongStop => {
                canvas.disc(at, size * 2.15, WHITE)?;
                canvas.disc(at, size * 1.95, INK)?;
                canvas.disc(at, size * 1.5, WHITE)?;
                canvas.disc(at, size, RED)
            }
            Self::Running => {
                canvas.disc(at, size * 1.25, WHITE)?;
                canvas.disc(at, size, BLUE)?;
                canvas.disc(at, size * 0.55, WHITE)
            }
        }
    }
}

/// Radius of the marks, or any other size, of so many trials: smaller where they are many.
pub(super) fn size_for(n_trials: usize, largest: f64, smallest: f64) -> f64 {
    (largest * (40.0 / n_trials.max(1) as f64).powf(0.35)).clamp(smallest, largest)
}

/// Colour, width and dash pattern of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LineStyle {
    pub(super) color: RGBColor,
    pub(super) width: f64,
    /// Lengths of line and gap in turn; empty for a solid line.
    pub(super) dash: &'static [f64],
}

impl LineStyle {
    /// Draws a line through points.
    pub(super) fn draw<DB: DrawingBackend>(
        self,
        points: &[(f64, f64)],
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        canvas.line(points, self.color, self.width, self.dash)
    }
}

/// A colour on the way to white: `percent` of it is left. Lines are opaque, so that both kinds of files look the same.
pub(super) fn faded(RGBColor(r, g, b): RGBColor, percent: u16) -> RGBColor {
    let percent = percent.min(100);
    let mix = |channel: u8| {
        let mixed = (u16::from(channel) * percent + 255 * (100 - percent)) / 100;
        u8::try_from(mixed).unwrap_or(u8::MAX)
    };
    RGBColor(mix(r), mix(g), mix(b))
}

/// The sign before a text of the legend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sign {
    /// A mark.
    Mark(Mark),
    /// A line, and the mark at its end.
    Line(LineStyle, Option<Mark>),
    /// A filled box.
    Fill(RGBColor),
}

impl Sign {
    /// Its width.
    pub(super) fn width(self) -> f64 {
        match self {
            Self::Mark(_) => 14.0,
            Self::Line(..) => 32.0,
            Self::Fill(_) => 18.0,
        }
    }

    /// Draws it from `at`, the middle of its left edge, to the right.
    pub(super) fn draw<DB: DrawingBackend>(
        self,
        (x, y): (f64, f64),
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        let right = x + self.width();
        match self {
            Self::Mark(mark) => mark.draw((f64::midpoint(x, right), y), MARK, canvas),
            Self::Line(style, mark) => {
                let end = right - if mark.is_some() { 1.5 * MARK } else { 0.0 };
                style.draw(&[(x, y), (end, y)], canvas)?;
                mark.map_or(Ok(()), |mark| mark.draw((end, y), MARK, canvas))
            }
            Self::Fill(color) => {
                canvas.rectangle((x, y - 5.5), (right, y + 5.5), INK.mix(1.0))?;
                let inner = ((x + 0.75, y - 4.75), (right - 0.75, y + 4.75));
                canvas.rectangle(inner.0, inner.1, color.mix(1.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!((size_for(0, 4.0, 1.5) - 4.0).abs() < 1e-12);
        assert!((size_for(40, 4.0, 1.5) - 4.0).abs() < 1e-12);
        assert!(size_for(300, 4.0, 1.5) < 2.5 && size_for(300, 4.0, 1.5) > 1.5);
        assert!((size_for(1_000_000, 4.0, 1.5) - 1.5).abs() < 1e-12);
    }
}
