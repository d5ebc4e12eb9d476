//! `importance`: how much each parameter matters, by two measures.

use plotters::backend::DrawingBackend;
use plotters::style::{Color, RGBColor};

use super::head::{Head, Sign, WIDER};
use super::{PlottedImportance, StudyPlot};
use crate::plot::axis::Axis;
use crate::plot::canvas::{Anchor, Canvas, Font};
use crate::plot::frame::whole_length;
use crate::plot::render::Picture;
use crate::plot::style::{BLUE, EDGE, GREY, GRID, INK, NAME, NOTE, ORANGE, TICK, WHITE, tick_font};

/// Most room for names.
const NAME_MAX: f64 = 200.0;
const PLOT_WIDTH: f64 = 430.0;
/// Room for the number behind the longest bar.
const NUMBER: f64 = 52.0;
/// Height of a bar and of a parameter with both bars, where there is room and where there are many.
const BAR: (f64, f64) = (11.0, 9.5);
const ROW: (f64, f64) = (34.0, 27.0);
const N_MANY: usize = 12;

/// The picture with its measures.
pub(super) struct Importance<'a> {
    study: &'a StudyPlot,
    head: Head,
    /// Name, as it is shown, and both shares in percent; the largest first.
    rows: Vec<(String, [f64; 2])>,
    axis: Axis,
    small: Font,
    /// Left and upper edge of the bars.
    at: (f64, f64),
    row: f64,
    bar: f64,
    size: (f64, f64),
}

impl<'a> Importance<'a> {
    pub(super) fn of(study: &'a StudyPlot) -> Result<Self, String> {
        let small = tick_font(1);
        let mut sorted: Vec<(&str, [f64; 2])> = study.importance.iter().map(shares).collect();
        sorted.sort_by(|(_, a), (_, b)| b[0].total_cmp(&a[0]).then(b[1].total_cmp(&a[1])));
        let (names, shares): (Vec<&str>, Vec<[f64; 2]>) = sorted.into_iter().unzip();
        let names = NAME.shortened_apart(&names, NAME_MAX / WIDER)?;
        let mut name_width: f64 = 40.0;
        for name in &names {
            name_width = name_width.max(WIDER * NAME.width(name)?);
        }
        let rows: Vec<(String, [f64; 2])> = names.into_iter().zip(shares).collect();
        let largest = rows.iter().flat_map(|(_, shares)| *shares);
        let largest = largest.fold(0.0, f64::max);
        let axis = Axis::from_zero(if largest > 0.0 { largest } else { 100.0 }, 6);

        let many = rows.len() > N_MANY;
        let (row, bar) = if many { (ROW.1, BAR.1) } else { (ROW.0, BAR.0) };
        let left = EDGE + name_width + 8.0;
        let right = left + PLOT_WIDTH + NUMBER;
        let keys = if rows.is_empty() {
            Vec::new()
        } else {
            vec![
                (Sign::Bar(BLUE), "variance of the posterior mean".to_owned()),
                (
                    Sign::Bar(ORANGE),
                    "relevance by length scale (ARD)".to_owned(),
                ),
            ]
        };
        let head = Head::of(&study.title, keys, EDGE + 2.0, right)?;
        let top = EDGE + head.height();
        let height = rows.len().max(3) as f64 * row;
        let under = TICK + 4.0 + small.cap_height() + 8.0 + NAME.em + EDGE;
        Ok(Self {
            study,
            head,
            rows,
            axis,
            small,
            at: (left, top),
            row,
            bar,
            size: (right + EDGE, top + height + under),
        })
    }

    fn x(&self, share: f64) -> f64 {
        self.at.0 + self.axis.place(share) * PLOT_WIDTH
    }

    fn draw_bars<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        let number = Font {
            em: self.bar + 0.5,
            color: INK,
            ..NOTE
        };
        for (index, (name, shares)) in self.rows.iter().enumerate() {
            let middle = self.at.1 + (index as f64 + 0.5) * self.row;
            let name_at = (self.at.0 - 8.0, middle + NAME.cap_height() / 2.0);
            canvas.text(name, name_at, Anchor::End, NAME)?;
            let bars: [(RGBColor, f64); 2] = [(BLUE, middle - self.bar), (ORANGE, middle)];
            for ((color, upper), share) in bars.into_iter().zip(shares) {
                let (left, right) = (self.at.0, self.x(*share).max(self.at.0 + 1.0));
                canvas.rectangle((left, upper), (right, upper + self.bar), color.mix(1.0))?;
                let at = (
                    right + 5.0,
                    upper + self.bar / 2.0 + number.cap_height() / 2.0,
                );
                canvas.text(&percent(*share), at, Anchor::Start, number)?;
            }
        }
        Ok(())
    }
}

impl Picture for Importance<'_> {
    fn size(&self) -> (u32, u32) {
        (whole_length(self.size.0), whole_length(self.size.1))
    }

    fn n_panels(&self) -> usize {
        self.rows.len()
    }

    fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        canvas.rectangle((0.0, 0.0), self.size, WHITE.mix(1.0))?;
        self.head.draw(canvas)?;
        let (left, top) = self.at;
        if self.rows.is_empty() {
            let text = match self.study.best() {
                Some(_) => "importances are not known yet",
                None => "importances are not known: no trial has a value",
            };
            let font = Font {
                color: GREY,
                ..NAME
            };
            let middle = (self.size.0 / 2.0, top + 1.5 * self.row);
            return canvas.text(text, middle, Anchor::Middle, font);
        }
        let bottom = top + self.rows.len().max(3) as f64 * self.row;
        for (position, label) in &self.axis.ticks {
            let x = self.x(*position);
            canvas.line(&[(x, top), (x, bottom)], GRID, 1.0, &[])?;
            canvas.line(&[(x, bottom), (x, bottom + TICK)], INK, 1.0, &[])?;
            let at = (x, bottom + TICK + 4.0 + self.small.cap_height());
            canvas.text(label, at, Anchor::Middle, self.small)?;
        }
        self.draw_bars(canvas)?;
        canvas.line(&[(left, top), (left, bottom)], INK, 1.0, &[])?;
        canvas.line(
            &[(left, bottom), (left + PLOT_WIDTH, bottom)],
            INK,
            1.0,
            &[],
        )?;
        let at = (left + PLOT_WIDTH / 2.0, self.size.1 - EDGE);
        canvas.text("share, %", at, Anchor::Middle, NAME)
    }
}

/// Both shares in percent; what is no share counts as none.
fn shares(given: &PlottedImportance) -> (&str, [f64; 2]) {
    let percent = |share: f64| {
        if share.is_finite() {
            100.0 * share.clamp(0.0, 1.0)
        } else {
            0.0
        }
    };
    let both = [percent(given.variance_share), percent(given.relevance)];
    (&given.parameter, both)
}

fn percent(share: f64) -> String {
    match share {
        none if none <= 0.0 => "0 %".to_owned(),
        small if small < 0.1 => "< 0.1 %".to_owned(),
        small if small < 9.95 => format!("{small:.1} %"),
        large => format!("{large:.0} %"),
    }
}
