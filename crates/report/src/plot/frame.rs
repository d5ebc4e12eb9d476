//! A system of axes at its place, and markers in it.

use plotters::backend::DrawingBackend;
use plotters::style::{Color, RGBColor};

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Font};
use super::style::{GRID, INK, Marker, TICK, WHITE};

/// A panel: where it is and what its axes are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    /// Left and upper edge.
    pub(crate) at: (f64, f64),
    /// Width and height, strips included.
    pub(crate) size: (f64, f64),
    /// Heights of strips above and below the range of the vertical axis, for what has no place on it.
    pub(crate) strip: (f64, f64),
    pub(crate) x_axis: &'a Axis,
    pub(crate) y_axis: &'a Axis,
    /// Labels of the ticks.
    pub(crate) small: Font,
}

impl Frame<'_> {
    /// The picture's x of a place on the horizontal axis.
    pub(crate) fn x(&self, place: f64) -> f64 {
        self.at.0 + place * self.size.0
    }

    /// The picture's y of a place on the vertical axis.
    pub(crate) fn y(&self, place: f64) -> f64 {
        let (above, below) = self.strip;
        self.at.1 + above + (1.0 - place) * (self.size.1 - above - below)
    }

    /// Returns the point at which a pair of values is drawn.
    pub(crate) fn point(&self, x: f64, y: f64) -> (f64, f64) {
        (self.x(self.x_axis.place(x)), self.y(self.y_axis.place(y)))
    }

    /// The picture's y of what is in the strip; none if there is no strip.
    pub(crate) fn strip_middle(&self) -> Option<f64> {
        let (above, below) = self.strip;
        if above > 0.0 {
            Some(self.at.1 + above / 2.0)
        } else if below > 0.0 {
            Some(self.at.1 + self.size.1 - below / 2.0)
        } else {
            None
        }
    }

    /// Draws axes, grid and labels; those of the vertical axis may be left to the panel beside it.
    pub(crate) fn draw_axes<DB: DrawingBackend>(
        &self,
        y_labels: bool,
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        let small = self.small;
        let (left, right) = (self.x(0.0), self.x(1.0));
        let (top, bottom) = (self.at.1, self.at.1 + self.size.1);
        for (position, label) in &self.y_axis.ticks {
            let y = self.y(self.y_axis.place_of_position(*position));
            canvas.line(&[(left, y), (right, y)], GRID, 1.0, &[])?;
            canvas.line(&[(left - TICK, y), (left, y)], INK, 1.0, &[])?;
            // The strip's own label stands at its middle.
            let hidden = self
                .strip_middle()
                .is_some_and(|middle| (middle - y).abs() < small.em);
            if y_labels && !hidden {
                let at = (left - TICK - 4.0, y + small.cap_height() / 2.0);
                canvas.text(label, at, Anchor::End, small)?;
            }
        }
        for position in &self.y_axis.minor {
            let y = self.y(self.y_axis.place_of_position(*position));
            canvas.line(&[(left - TICK / 2.0, y), (left, y)], INK, 0.75, &[])?;
        }
        for (position, label) in &self.x_axis.ticks {
            let x = self.x(self.x_axis.place_of_position(*position));
            canvas.line(&[(x, top), (x, bottom)], GRID, 1.0, &[])?;
            canvas.line(&[(x, bottom), (x, bottom + TICK)], INK, 1.0, &[])?;
            let at = (x, bottom + TICK + 4.0 + small.cap_height());
            canvas.text(label, at, Anchor::Middle, small)?;
        }
        for position in &self.x_axis.minor {
            let x = self.x(self.x_axis.place_of_position(*position));
            canvas.line(&[(x, bottom), (x, bottom + TICK / 2.0)], INK, 0.75, &[])?;
        }
        canvas.line(&[(left, top), (left, bottom)], INK, 1.0, &[])?;
        canvas.line(&[(left, bottom), (right, bottom)], INK, 1.0, &[])
    }
}

/// Draws a marker.
pub(crate) fn draw_marker<DB: DrawingBackend>(
    (marker, color): (Marker, RGBColor),
    (x, y): (f64, f64),
    size: f64,
    canvas: &Canvas<'_, DB>,
) -> Result<(), String> {
    let outline = marker.outline();
    let grown = |size: f64| {
        outline
            .iter()
            .map(|(dx, dy)| (x + dx * size, y + dy * size))
            .collect::<Vec<_>>()
    };
    // A white rim keeps markers apart from what is behind them.
    canvas.polygon(&grown(size * 1.3), WHITE.mix(1.0))?;
    canvas.polygon(&grown(size), color.mix(1.0))
}

/// A length that a picture can have: rounded up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive length; the cast saturates and the size is checked afterwards"
)]
pub(crate) fn whole_length(length: f64) -> u32 {
    length.ceil() as u32
}
