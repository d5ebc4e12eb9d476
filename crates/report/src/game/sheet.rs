//! Panels over the rounds of a game, each with its own vertical axis, and what stands around them.

use plotters::backend::DrawingBackend;
use plotters::style::{Color, RGBColor};

use super::{counted, round_number};
use crate::plot::axis::Axis;
use crate::plot::canvas::{Anchor, Canvas, Font};
use crate::plot::frame::{Frame, whole_length};
use crate::plot::style::{EDGE, GREY, GRID, GUTTER, INK, NAME, NOTE, TICK, WHITE, tick_font};
use crate::study::head::{Head, Sign, WIDER};

/// The band of the random rounds.
const BAND: RGBColor = RGBColor(226, 228, 238);
/// Least width of the band.
const BAND_MIN: f64 = 3.0;
/// Height of a panel's title with the room around it.
const TITLE_ROOM: f64 = 24.0;
/// Distance between the labels of a row and the titles of the next.
const ROW_GAP: f64 = 12.0;
/// Most room for the names of choices: in one or two columns, and in more.
const CHOICE_ROOM: (f64, f64) = (140.0, 84.0);
/// Number of ticks of the horizontal axis, at most: in one column and in several.
const N_TICKS: (u32, u32) = (8, 5);

/// A panel: its place, its title and its vertical axis.
#[derive(Clone, Debug)]
pub(super) struct PanelOf {
    /// Its row and its column.
    pub(super) cell: (usize, usize),
    /// Its title, short enough; empty for none.
    pub(super) title: String,
    pub(super) y_axis: Axis,
    /// Names of choices, each with a row, the first on top; empty for an axis of numbers.
    pub(super) choices: Vec<String>,
    /// The text in its middle where it has nothing to show.
    pub(super) nothing: Option<&'static str>,
}

/// The texts, the legend and the strip that are common to all panels.
#[derive(Clone, Debug)]
pub(super) struct Words {
    pub(super) title: String,
    /// Name of the vertical axes; empty for none.
    pub(super) y_label: &'static str,
    pub(super) footnote: String,
    pub(super) keys: Vec<(Sign, String)>,
    /// Height of the strip below each axis, 0 for none, and what it is called.
    pub(super) strip: (f64, &'static str),
}

/// A grid of panels with its measures.
#[derive(Clone, Debug)]
pub(super) struct Sheet {
    head: Head,
    footnote: String,
    y_label: &'static str,
    strip: (f64, &'static str),
    panels: Vec<PanelOf>,
    /// Names of the choices of each panel, as they are set.
    choices: Vec<Vec<String>>,
    panel_size: (f64, f64),
    x_axis: Axis,
    /// Last of the random rounds that were played; none if there was none.
    last_initial: Option<f64>,
    n_rounds: f64,
    small: Font,
    /// Left edge of each column and upper edge of each row.
    lefts: Vec<f64>,
    tops: Vec<f64>,
    size: (f64, f64),
}

/// The number of rounds, and of the random ones that the game begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    pub(super) n_rounds: usize,
    pub(super) n_initial: usize,
}

impl Rounds {
    /// Returns the number of played rounds that were random.
    pub(super) fn n_random(self) -> usize {
        self.n_initial.min(self.n_rounds)
    }

    /// The key of their band; none if there was none.
    pub(super) fn key(self) -> Option<(Sign, String)> {
        let text = counted(self.n_random(), "random round", "random rounds");
        (self.n_random() > 0).then_some((Sign::Bar(BAND), text))
    }
}

impl Sheet {
    /// Measures panels in so many columns; `panel_size` is that of a panel without its strip.
    pub(super) fn of(
        words: Words,
        panels: Vec<PanelOf>,
        (n_columns, panel_size): (usize, (f64, f64)),
        rounds: Rounds,
    ) -> Result<Self, String> {
        let small = tick_font(n_columns);
        let panel_size = (panel_size.0, panel_size.1 + words.strip.0);
        let n_ticks = if n_columns == 1 { N_TICKS.0 } else { N_TICKS.1 };
        let last = rounds.n_rounds.max(1) as f64;
        let x_axis = Axis::fitted(
            |n_ticks| Axis::whole(1.0, last, n_ticks),
            n_ticks,
            (panel_size.0, GUTTER / 2.0),
            small,
        )?;
        let room = if n_columns < 3 {
            CHOICE_ROOM.0
        } else {
            CHOICE_ROOM.1
        };
        let choices = panels
            .iter()
            .map(|panel| choice_labels(&panel.choices, (room, panel_size.1), small))
            .collect::<Result<Vec<_>, String>>()?;

        let y_label = if words.y_label.is_empty() {
            0.0
        } else {
            NAME.em + 8.0
        };
        let mut right = EDGE + y_label;
        let mut lefts = Vec::with_capacity(n_columns);
        for column in 0..n_columns {
            let mut widest: f64 = 0.0;
            let of_column = panels.iter().zip(&choices);
            for (panel, choices) in of_column.filter(|(panel, _)| panel.cell.1 == column) {
                let ticks = panel.y_axis.ticks.iter().map(|(_, label)| label);
                for label in ticks.chain(choices) {
                    widest = widest.max(small.width(label)?);
                }
            }
            if words.strip.0 > 0.0 {
                widest = widest.max(small.width(words.strip.1)?);
            }
            let gutter = if column == 0 { 0.0 } else { GUTTER };
            let left = right + gutter + WIDER * widest + TICK + 4.0;
            lefts.push(left);
            right = left + panel_size.0;
        }

        let left = lefts.first().copied().unwrap_or(EDGE);
        let head = Head::of(&words.title, words.keys, left, right)?;
        let titled = panels.iter().any(|panel| !panel.title.is_empty());
        let title_room = if titled { TITLE_ROOM } else { 0.0 };
        let mut bottom = EDGE + head.height();
        let mut tops = Vec::new();
        let n_rows = panels.iter().map(|panel| panel.cell.0 + 1).max();
        for _ in 0..n_rows.unwrap_or(0) {
            tops.push(bottom + title_room);
            let labels = TICK + 4.0 + small.cap_height() + 2.0;
            bottom += title_room + panel_size.1 + labels + ROW_GAP;
        }
        let under = NAME.em + 8.0 + NOTE.em + EDGE - 4.0;
        Ok(Self {
            head,
            footnote: NOTE.shortened(&words.footnote, (right - EDGE) / WIDER)?,
            y_label: words.y_label,
            strip: words.strip,
            panels,
            choices,
            panel_size,
            x_axis,
            last_initial: (rounds.n_random() > 0).then(|| round_number(rounds.n_random() - 1)),
            n_rounds: rounds.n_rounds as f64,
            small,
            lefts,
            tops,
            size: (right + EDGE + 14.0, bottom + under),
        })
    }

    /// Width and height of the picture.
    pub(super) fn size(&self) -> (u32, u32) {
        (whole_length(self.size.0), whole_length(self.size.1))
    }

    pub(super) fn n_panels(&self) -> usize {
        self.panels.len()
    }

    /// The system of axes of a panel, at its place.
    pub(super) fn frame(&self, index: usize) -> Frame<'_> {
        let (row, column) = self.panels[index].cell;
        Frame {
            at: (self.lefts[column], self.tops[row]),
            size: self.panel_size,
            strip: (0.0, self.strip.0),
            x_axis: &self.x_axis,
            y_axis: &self.panels[index].y_axis,
            small: self.small,
        }
    }

    /// The picture's y of a place in a panel's strip: 0 at its lower end, 1 at its upper.
    pub(super) fn y_in_strip(&self, index: usize, place: f64) -> f64 {
        let frame = self.frame(index);
        frame.at.1 + frame.size.1 - place * self.strip.0
    }

    /// Draws everything but the rounds.
    pub(super) fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        canvas.rectangle((0.0, 0.0), self.size, WHITE.mix(1.0))?;
        self.head.draw(canvas)?;
        for index in 0..self.panels.len() {
            self.draw_panel(index, canvas)?;
        }
        let left = self.lefts.first().copied().unwrap_or(EDGE);
        let right = self.size.0 - EDGE - 14.0;
        let bottom = self.size.1 - EDGE;
        canvas.text(&self.footnote, (right, bottom), Anchor::End, NOTE)?;
        let at = (f64::midpoint(left, right), bottom - NOTE.em - 8.0);
        canvas.text("round", at, Anchor::Middle, NAME)?;
        if self.y_label.is_empty() {
            return Ok(());
        }
        let top = self.tops.first().copied().unwrap_or(EDGE);
        let last = self.tops.last().copied().unwrap_or(EDGE);
        let middle = f64::midpoint(top, last + self.panel_size.1);
        let at = (EDGE + NAME.cap_height(), middle);
        canvas.text_upwards(self.y_label, at, Anchor::Middle, NAME)
    }

    fn draw_panel<DB: DrawingBackend>(
        &self,
        index: usize,
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        let panel = &self.panels[index];
        let frame = self.frame(index);
        let (left, right) = (frame.x(0.0), frame.x(1.0));
        let (top, bottom) = (frame.at.1, frame.at.1 + frame.size.1);
        let end = self.last_initial.map(|round| round + 0.5);
        if let Some(end) = end.map(|end| frame.x(self.x_axis.place(end))) {
            // Of few rounds among very many a little is seen too, in the margin.
            let start = frame.x(self.x_axis.place(0.5)).min(end - BAND_MIN);
            let from = (start.max(left), top);
            canvas.rectangle(from, (end, bottom), BAND.mix(1.0))?;
        }
        self.draw_rows(index, &frame, canvas)?;
        frame.draw_axes(true, canvas)?;
        let is_last = |end: &f64| *end > self.n_rounds;
        if let Some(end) = end.filter(|end| !is_last(end)) {
            let x = frame.x(self.x_axis.place(end));
            canvas.line(&[(x, top), (x, bottom)], GREY, 0.75, &[3.0, 2.5])?;
        }
        let font = Font {
            color: INK,
            ..self.small
        };
        if let Some(middle) = frame.strip_middle() {
            let border = frame.y(0.0);
            canvas.line(&[(left, border), (right, border)], GREY, 0.75, &[3.0, 2.5])?;
            let at = (left - TICK - 4.0, middle + font.cap_height() / 2.0);
            canvas.text(self.strip.1, at, Anchor::End, font)?;
        }
        let title = Font { bold: true, ..font };
        canvas.text(&panel.title, (left, top - 7.0), Anchor::Start, title)?;
        panel
            .nothing
            .map_or(Ok(()), |text| draw_nothing(&frame, text, canvas))
    }

    /// Parts and names the rows of choices.
    fn draw_rows<DB: DrawingBackend>(
        &self,
        index: usize,
        frame: &Frame<'_>,
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        let labels = &self.choices[index];
        let n_choices = labels.len();
        let font = self.small;
        for (row, label) in labels.iter().enumerate() {
            let y = frame.y(row_place(row, n_choices));
            let at = (frame.x(0.0) - TICK - 4.0, y + font.cap_height() / 2.0);
            canvas.text(label, at, Anchor::End, font)?;
            if row > 0 && self.panel_size.1 / n_choices as f64 > 6.0 {
                let y = frame.y(1.0 - row as f64 / n_choices as f64);
                canvas.line(&[(frame.x(0.0), y), (frame.x(1.0), y)], GRID, 1.0, &[])?;
            }
        }
        Ok(())
    }
}

/// Returns the place of the middle of a choice's row on the axis.
pub(super) fn row_place(row: usize, n_choices: usize) -> f64 {
    1.0 - (row as f64 + 0.5) / n_choices.max(1) as f64
}

/// Names of choices as they fit beside a panel; empty ones where there is no room.
fn choice_labels(
    choices: &[String],
    (width, height): (f64, f64),
    font: Font,
) -> Result<Vec<String>, String> {
    let names: Vec<&str> = choices.iter().map(String::as_str).collect();
    let mut labels = font.shortened_apart(&names, width / WIDER)?;
    let row = height / choices.len().max(1) as f64;
    let every = (1..)
        .find(|every| f64::from(*every) * row >= font.em + 1.0)
        .unwrap_or(1);
    for (index, label) in (0..).zip(&mut labels) {
        if index % every != 0 {
            label.clear();
        }
    }
    Ok(labels)
}

/// Says in the middle of a panel that there is nothing to see.
fn draw_nothing<DB: DrawingBackend>(
    frame: &Frame<'_>,
    text: &str,
    canvas: &Canvas<'_, DB>,
) -> Result<(), String> {
    let font = Font {
        color: GREY,
        ..NAME
    };
    let (x, y) = (frame.x(0.5), frame.y(0.5));
    let half = font.width(text)? / 2.0 + 6.0;
    let (from, to) = ((x - half, y - font.em), (x + half, y + font.em));
    canvas.rectangle(from, to, WHITE.mix(1.0))?;
    canvas.text(text, (x, y + font.cap_height() / 2.0), Anchor::Middle, font)
}
