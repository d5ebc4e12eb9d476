//! `transfer`: what each old study weighed at every query, and what all of them together had of it.

use plotters::backend::DrawingBackend;
use plotters::style::Color;

use super::PlottedTransfer;
use super::head::{Head, Sign, WIDER, mark_size};
use crate::plot::axis::Axis;
use crate::plot::canvas::{Anchor, Canvas, Font};
use crate::plot::frame::{Frame, draw_marker, whole_length};
use crate::plot::render::Picture;
use crate::plot::style::{
    ArmStyle, EDGE, GREY, GUTTER, INK, LINE_WIDTH, NAME, NOTE, TICK, WHITE, grid, tick_font,
};

/// Height of the lower panel, as a share of the upper one's.
const LOWER: f64 = 0.55;
/// Most room for the name of an old study.
const NAME_MAX: f64 = 260.0;
const UPPER_LABEL: &str = "part of each old study";
const LOWER_LABEL: &str = "share of all";

/// The picture with its measures.
pub(super) struct Transfer<'a> {
    transfer: &'a PlottedTransfer,
    head: Head,
    x_axis: Axis,
    y_axis: Axis,
    small: Font,
    /// Left and upper edges of both panels.
    at: [(f64, f64); 2],
    panels: [(f64, f64); 2],
    size: (f64, f64),
}

impl<'a> Transfer<'a> {
    pub(super) fn of(title: &str, transfer: &'a PlottedTransfer) -> Result<Self, String> {
        let (_, panel) = grid(1);
        let small = tick_font(1);
        let last = transfer.shares.len().saturating_sub(1).max(1) as f64;
        let x_axis = Axis::fitted(
            |n_ticks| Axis::whole(0.0, last, n_ticks),
            8,
            (panel.0, 12.0),
            small,
        )?;
        let y_axis = Axis::linear(0.0, 1.0, 5);
        let mut label_width: f64 = 0.0;
        for (_, label) in &y_axis.ticks {
            label_width = label_width.max(small.width(label)?);
        }
        let left = EDGE + NAME.em + 8.0 + label_width + TICK + 4.0;
        let names: Vec<&str> = transfer.studies.iter().map(|s| s.name.as_str()).collect();
        let names = NAME.shortened_apart(&names, NAME_MAX / WIDER)?;
        let keys = names.into_iter().zip(&transfer.studies).enumerate();
        let keys = keys.map(|(index, (name, study))| {
            let what = match (study.dropped, study.weights.last()) {
                (true, _) => ": dropped".to_owned(),
                (false, Some(weight)) => format!(": {:.0} %", 100.0 * weight),
                (false, None) => String::new(),
            };
            (Sign::Curve(index), name + &what)
        });
        let head = Head::of(title, keys.collect(), left, left + panel.0)?;
        let top = EDGE + head.height();
        let lower = (panel.0, LOWER * panel.1);
        let labels = TICK + 4.0 + small.cap_height();
        let second = top + panel.1 + labels + GUTTER;
        let under = labels + 8.0 + NAME.em + 8.0 + NOTE.em + EDGE;
        Ok(Self {
            transfer,
            head,
            x_axis,
            y_axis,
            small,
            at: [(left, top), (left, second)],
            panels: [panel, lower],
            size: (left + panel.0 + EDGE + 14.0, second + lower.1 + under),
        })
    }

    fn frame(&self, index: usize) -> Frame<'_> {
        Frame {
            at: self.at[index],
            size: self.panels[index],
            strip: (0.0, 0.0),
            x_axis: &self.x_axis,
            y_axis: &self.y_axis,
            small: self.small,
        }
    }

    /// Corners of the line of some shares, query by query.
    fn corners(frame: &Frame<'_>, shares: &[f64]) -> Vec<(f64, f64)> {
        let places = shares.iter().enumerate();
        let corner = |(query, share): (usize, &f64)| frame.point(query as f64, *share);
        places.map(corner).collect()
    }

    /// Returns the footnote: the old studies' share of the query after the last trial.
    fn footnote(&self) -> String {
        match self.transfer.shares.last() {
            Some(share) => format!(
                "after {} told: old studies have {:.0} % of the next query",
                self.transfer.shares.len() - 1,
                100.0 * share
            ),
            None => "no query yet".to_owned(),
        }
    }
}

impl Picture for Transfer<'_> {
    fn size(&self) -> (u32, u32) {
        (whole_length(self.size.0), whole_length(self.size.1))
    }

    fn n_panels(&self) -> usize {
        2
    }

    fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        canvas.rectangle((0.0, 0.0), self.size, WHITE.mix(1.0))?;
        self.head.draw(canvas)?;
        let size = mark_size(self.transfer.shares.len(), 4.0);
        let upper = self.frame(0);
        upper.draw_axes(true, canvas)?;
        for (index, study) in self.transfer.studies.iter().enumerate() {
            let style = ArmStyle::of(index);
            let corners = Self::corners(&upper, &study.weights);
            canvas.line(&corners, style.color, LINE_WIDTH, style.dash)?;
            for at in corners {
                draw_marker((style.marker, style.color), at, size, canvas)?;
            }
        }
        let lower = self.frame(1);
        lower.draw_axes(true, canvas)?;
        let corners = Self::corners(&lower, &self.transfer.shares);
        canvas.line(&corners, INK, LINE_WIDTH, &[])?;
        for at in corners {
            canvas.disc(at, size, INK)?;
        }
        for (index, label) in [UPPER_LABEL, LOWER_LABEL].into_iter().enumerate() {
            let middle = self.at[index].1 + self.panels[index].1 / 2.0;
            let font = NAME.fitted(label, self.panels[index].1)?;
            let at = (EDGE + NAME.cap_height(), middle);
            canvas.text_upwards(label, at, Anchor::Middle, font)?;
        }
        let (left, right) = (upper.x(0.0), upper.x(1.0));
        let bottom = self.size.1 - EDGE;
        let at = (f64::midpoint(left, right), bottom - NOTE.em - 8.0);
        canvas.text("trials told", at, Anchor::Middle, NAME)?;
        let font = Font {
            color: GREY,
            ..NOTE
        };
        canvas.text(&self.footnote(), (right, bottom), Anchor::End, font)
    }
}
