//! One panel and what stands around it: title and legend above, names of the axes, a footnote below.

use plotters::backend::DrawingBackend;
use plotters::style::Color;

use super::marks::Sign;
use crate::plot::axis::Axis;
use crate::plot::canvas::{Anchor, Canvas, Font};
use crate::plot::frame::{Frame, whole_length};
use crate::plot::style::{
    EDGE, GREY, INK, KEY_GAP, NAME, NOTE, TICK, TITLE, WHITE, grid, tick_font,
};

/// A reader's browser may set an SVG in a font that is this much wider.
const WIDER: f64 = 1.08;
/// Distance between a sign and its text.
const SIGN_GAP: f64 = 7.0;
/// Height of a line of the legend.
const KEY_LINE: f64 = NAME.em + 8.0;
/// Height of the title with the room below it.
const TITLE_LINE: f64 = TITLE.em + 10.0;

/// The texts around a panel; each may be empty.
#[derive(Clone, Debug)]
pub(super) struct Words {
    pub(super) title: String,
    pub(super) x_label: String,
    pub(super) y_label: String,
    pub(super) footnote: String,
}

/// A strip beside the range of the vertical axis, for what has no place on it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Strip {
    /// Its height above the range; 0 for none.
    pub(super) above: f64,
    /// Its height below the range; 0 for none.
    pub(super) below: f64,
    /// Its label.
    pub(super) label: &'static str,
}

/// A panel with its measures.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    words: Words,
    /// Lines of the legend: each sign with its left edge and its text.
    keys: Vec<Vec<(f64, Sign, String)>>,
    x_axis: Axis,
    y_axis: Axis,
    strip: Strip,
    small: Font,
    /// Left and upper edge of the panel, and its size.
    at: (f64, f64),
    panel_size: (f64, f64),
    size: (f64, f64),
}

impl Panel {
    /// Measures a panel: keys that do not fit beside each other begin a new line, texts that are too long are set smaller or cut.
    pub(super) fn of(
        words: Words,
        keys: Vec<(Sign, String)>,
        (first, last): (f64, f64),
        y_axis: Axis,
        strip: Strip,
    ) -> Result<Self, String> {
        let (_, (width, height)) = grid(1);
        let panel_size = (width, height + strip.above + strip.below);
        let small = tick_font(1);
        let x_axis = Axis::fitted(
            |n_ticks| Axis::whole(first, last, n_ticks),
            8,
            (width, 12.0),
            small,
        )?;
        let ticks = y_axis.ticks.iter().map(|(_, label)| label.as_str());
        let mut label_width: f64 = 0.0;
        for label in ticks.chain([strip.label]) {
            label_width = label_width.max(small.width(label)?);
        }
        let left = EDGE + NAME.em + 8.0 + label_width + TICK + 4.0;
        let right = left + width;

        let words = Words {
            title: TITLE.shortened(&words.title, width / WIDER)?,
            x_label: NAME.shortened(&words.x_label, width / WIDER)?,
            y_label: NAME.shortened(&words.y_label, panel_size.1 / WIDER / 0.7)?,
            footnote: NOTE.shortened(&words.footnote, (right - EDGE) / WIDER)?,
        };
        let mut lines: Vec<Vec<(f64, Sign, String)>> = Vec::new();
        let mut x = f64::INFINITY;
        for (sign, text) in keys {
            let text_width = width - sign.width() - SIGN_GAP;
            let text = NAME.shortened(&text, text_width / WIDER)?;
            let key_width = sign.width() + SIGN_GAP + WIDER * NAME.width(&text)?;
            if x + key_width > right {
                lines.push(Vec::new());
                x = left;
            }
            if let Some(line) = lines.last_mut() {
                line.push((x, sign, text));
            }
            x += key_width + KEY_GAP;
        }
        let title = if words.title.is_empty() {
            0.0
        } else {
            TITLE_LINE
        };
        let top = EDGE + title + lines.len() as f64 * KEY_LINE + 8.0;
        let under = TICK + 4.0 + small.cap_height() + 8.0 + NAME.em + 8.0 + NOTE.em + EDGE;
        Ok(Self {
            words,
            keys: lines,
            x_axis,
            y_axis,
            strip,
            small,
            at: (left, top),
            panel_size,
            size: (right + EDGE + 14.0, top + panel_size.1 + under),
        })
    }

    /// Width and height of the picture.
    pub(super) fn size(&self) -> (u32, u32) {
        (whole_length(self.size.0), whole_length(self.size.1))
    }

    /// The system of axes at its place.
    pub(super) fn frame(&self) -> Frame<'_> {
        Frame {
            at: self.at,
            size: self.panel_size,
            strip: (self.strip.above, self.strip.below),
            x_axis: &self.x_axis,
            y_axis: &self.y_axis,
            small: self.small,
        }
    }

    /// Draws everything but what the panel shows.
    pub(super) fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        canvas.rectangle((0.0, 0.0), self.size, WHITE.mix(1.0))?;
        self.draw_head(canvas)?;
        let frame = self.frame();
        frame.draw_axes(true, canvas)?;
        self.draw_strip(canvas)?;

        let (left, right) = (frame.x(0.0), frame.x(1.0));
        let bottom = self.size.1 - EDGE;
        let at = (f64::midpoint(left, right), bottom - NOTE.em - 8.0);
        canvas.text(&self.words.x_label, at, Anchor::Middle, NAME)?;
        canvas.text(&self.words.footnote, (right, bottom), Anchor::End, NOTE)?;
        let middle = self.at.1 + self.panel_size.1 / 2.0;
        let font = NAME.fitted(&self.words.y_label, self.panel_size.1 / WIDER)?;
        let at = (EDGE + NAME.cap_height(), middle);
        canvas.text_upwards(&self.words.y_label, at, Anchor::Middle, font)
    }

    fn draw_head<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        let mut y = EDGE;
        if !self.words.title.is_empty() {
            let at = (self.at.0, y + TITLE.em * 0.85);
            canvas.text(&self.words.title, at, Anchor::Start, TITLE)?;
            y += TITLE_LINE;
        }
        for line in &self.keys {
            let middle = y + NAME.em / 2.0 + 4.0;
            for (x, sign, text) in line {
                sign.draw((*x, middle), canvas)?;
                let at = (
                    x + sign.width() + SIGN_GAP,
                    middle + NAME.cap_height() / 2.0,
                );
                canvas.text(text, at, Anchor::Start, NAME)?;
            }
            y += KEY_LINE;
        }
        Ok(())
    }

    /// The border of the strip, and its name.
    fn draw_strip<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        let frame = self.frame();
        let Some(middle) = frame.strip_middle() else {
            return Ok(());
        };
        let border = frame.y(if self.strip.above > 0.0 { 1.0 } else { 0.0 });
        let line = [(frame.x(0.0), border), (frame.x(1.0), border)];
        canvas.line(&line, GREY, 0.75, &[3.0, 2.5])?;
        let font = Font {
            color: INK,
            ..self.small
        };
        let at = (frame.x(0.0) - TICK - 4.0, middle + font.cap_height() / 2.0);
        canvas.text(self.strip.label, at, Anchor::End, font)
    }

    /// Says in the middle of the panel that there is nothing to see.
    pub(super) fn draw_nothing<DB: DrawingBackend>(
        &self,
        text: &str,
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        let font = Font {
            color: GREY,
            ..NAME
        };
        let frame = self.frame();
        let (x, y) = (frame.x(0.5), frame.y(0.5));
        let half = font.width(text)? / 2.0 + 6.0;
        let (from, to) = ((x - half, y - font.em), (x + half, y + font.em));
        canvas.rectangle(from, to, WHITE.mix(1.0))?;
        canvas.text(text, (x, y + font.cap_height() / 2.0), Anchor::Middle, font)
    }
}
