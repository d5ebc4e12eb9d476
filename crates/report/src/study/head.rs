//! The head of a picture, above its panels: the title, and a legend of the marks.

use plotters::backend::DrawingBackend;
use plotters::style::{Color, RGBColor};

use crate::plot::canvas::{Anchor, Canvas};
use crate::plot::frame::draw_marker;
use crate::plot::style::{
    ArmStyle, BLUE, EDGE, INK, KEY_GAP, LINE_WIDTH, Marker, NAME, TITLE, VERMILION, WHITE,
};

/// A reader's browser may set an SVG in a font that is this much wider.
pub(crate) const WIDER: f64 = 1.08;
/// Distance between a sign and its text.
const SIGN_GAP: f64 = 7.0;

/// A sign that is drawn in a panel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sign {
    /// A trial that was proposed.
    Trial,
    /// An initial one.
    Initial,
    /// The best trial.
    Best,
    /// The line of the best so far, with its mark.
    BestSoFar,
    /// A failed trial.
    Failed,
    /// A value beyond the end of the axis; whether that is the upper one.
    Beyond { above: bool },
    /// The colours of trials from the first to the last.
    Order,
    /// A bar.
    Bar(RGBColor),
    /// A marker of the series with this index.
    Series(usize),
    /// The line of the series with this index, with its marker.
    Curve(usize),
}

impl Sign {
    fn width(self) -> f64 {
        match self {
            Self::Trial | Self::Initial | Self::Best | Self::Failed | Self::Beyond { .. } => 12.0,
            Self::Bar(_) => 18.0,
            Self::Series(_) => 12.0,
            Self::BestSoFar | Self::Curve(_) => 32.0,
            Self::Order => 72.0,
        }
    }

    /// Draws the sign for a legend, from `at` to the right.
    fn draw<DB: DrawingBackend>(
        self,
        at: (f64, f64),
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        let (x, y) = at;
        let middle = (x + self.width() / 2.0, y);
        match self {
            Self::Order => {
                let n_steps = 36_u32;
                let step = self.width() / f64::from(n_steps);
                for index in 0..n_steps {
                    let from = x + step * f64::from(index);
                    let share = f64::from(index) / f64::from(n_steps - 1);
                    let color = color_of_order(share).mix(1.0);
                    canvas.rectangle((from, y - 5.0), (from + step, y + 5.0), color)?;
                }
                Ok(())
            }
            Self::Bar(color) => {
                canvas.rectangle((x, y - 5.0), (x + self.width(), y + 5.0), color.mix(1.0))
            }
            Self::BestSoFar => {
                let line = [(x, y), (x + self.width(), y)];
                canvas.line(&line, VERMILION, LINE_WIDTH, &[])?;
                self.mark(middle, 4.0, canvas)
            }
            Self::Curve(index) => {
                let style = ArmStyle::of(index);
                let line = [(x, y), (x + self.width(), y)];
                canvas.line(&line, style.color, LINE_WIDTH, style.dash)?;
                self.mark(middle, 4.0, canvas)
            }
            _ => self.mark(middle, 4.0, canvas),
        }
    }

    /// Draws the mark in a panel.
    pub(super) fn mark<DB: DrawingBackend>(
        self,
        at: (f64, f64),
        size: f64,
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        match self {
            Self::Initial => {
                trial_mark(at, size, BLUE, canvas)?;
                canvas.disc(at, size * 0.58, WHITE)
            }
            Self::Best | Self::BestSoFar => {
                draw_marker((Marker::Diamond, VERMILION), at, size * 1.35, canvas)
            }
            // Without a rim, as it is crowded in the strip.
            Self::Failed => {
                let (x, y) = at;
                let size = 0.85 * size;
                let outline = Marker::Cross.outline().into_iter();
                let corners: Vec<(f64, f64)> = outline
                    .map(|(dx, dy)| (x + dx * size, y + dy * size))
                    .collect();
                canvas.polygon(&corners, INK.mix(1.0))
            }
            Self::Beyond { above: true } => {
                draw_marker((Marker::TriangleUp, BLUE), at, size, canvas)
            }
            Self::Beyond { above: false } => {
                draw_marker((Marker::TriangleDown, BLUE), at, size, canvas)
            }
            Self::Series(index) | Self::Curve(index) => {
                let style = ArmStyle::of(index);
                draw_marker((style.marker, style.color), at, size, canvas)
            }
            Self::Trial | Self::Order | Self::Bar(_) => trial_mark(at, size, BLUE, canvas),
        }
    }
}

/// A disc with a white rim, which keeps it apart from others.
pub(super) fn trial_mark<DB: DrawingBackend>(
    at: (f64, f64),
    size: f64,
    color: RGBColor,
    canvas: &Canvas<'_, DB>,
) -> Result<(), String> {
    canvas.disc(at, size * 1.2, WHITE)?;
    canvas.disc(at, size, color)
}

/// From the first trial (0) to the last (1): ever darker, so that the order survives without colours.
pub(super) fn color_of_order(share: f64) -> RGBColor {
    const STOPS: [(f64, f64, f64); 5] = [
        (161.0, 218.0, 180.0),
        (96.0, 189.0, 190.0),
        (38.0, 140.0, 185.0),
        (35.0, 85.0, 160.0),
        (12.0, 32.0, 92.0),
    ];
    let position = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let mut steps = STOPS.windows(2).enumerate();
    let (index, stops) = steps
        .find(|(index, _)| position <= (index + 1) as f64)
        .unwrap_or((0, &STOPS[..2]));
    let (from, to) = (stops[0], stops[1]);
    let part = position - index as f64;
    let mixed = |from: f64, to: f64| channel(from + (to - from) * part);
    RGBColor(
        mixed(from.0, to.0),
        mixed(from.1, to.1),
        mixed(from.2, to.2),
    )
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean of two channels; the cast saturates"
)]
fn channel(value: f64) -> u8 {
    value.round() as u8
}

/// Radius of the marks of so many trials.
pub(super) fn mark_size(n_trials: usize, largest: f64) -> f64 {
    (largest * (120.0 / n_trials.max(1) as f64).powf(0.35)).clamp(1.3, largest)
}

/// Title and legend.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    title: String,
    left: f64,
    /// Lines of the legend: each sign with its left edge and its text.
    lines: Vec<Vec<(f64, Sign, String)>>,
}

impl Head {
    /// Sets the title and the keys between two edges; a key that does not fit begins a new line.
    pub(crate) fn of(
        title: &str,
        keys: Vec<(Sign, String)>,
        left: f64,
        right: f64,
    ) -> Result<Self, String> {
        let title = TITLE.shortened(title, (right - left) / WIDER)?;
        let mut lines: Vec<Vec<(f64, Sign, String)>> = Vec::new();
        let mut x = f64::INFINITY;
        for (sign, text) in keys {
            let width = sign.width() + SIGN_GAP + WIDER * NAME.width(&text)?;
            if x + width > right {
                lines.push(Vec::new());
                x = left;
            }
            if let Some(line) = lines.last_mut() {
                line.push((x, sign, text));
            }
            x += width + KEY_GAP;
        }
        Ok(Self { title, left, lines })
    }

    /// Height of title and legend together.
    pub(crate) fn height(&self) -> f64 {
        let title = if self.title.is_empty() {
            0.0
        } else {
            TITLE.em + 10.0
        };
        title + self.lines.len() as f64 * (NAME.em + 8.0) + 8.0
    }

    /// Draws both below the upper edge of the picture.
    pub(crate) fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        let mut y = EDGE;
        if !self.title.is_empty() {
            let at = (self.left, y + TITLE.em * 0.85);
            canvas.text(&self.title, at, Anchor::Start, TITLE)?;
            y += TITLE.em + 10.0;
        }
        for line in &self.lines {
            let middle = y + NAME.em / 2.0 + 4.0;
            for (x, sign, text) in line {
                sign.draw((*x, middle), canvas)?;
                let at = (
                    x + sign.width() + SIGN_GAP,
                    middle + NAME.cap_height() / 2.0,
                );
                canvas.text(text, at, Anchor::Start, NAME)?;
            }
            y += NAME.em + 8.0;
        }
        Ok(())
    }
}
