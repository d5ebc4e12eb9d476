//! The picture with its measures: panels in a grid, a legend of the series above, names of the lines at their ends.

use plotters::backend::DrawingBackend;
use plotters::style::Color;

use super::labels::{Area, Wanted, beside_markers, spread};
use super::{Level, Mark, Panel, Tradeoff};
use crate::plot::Scale;
use crate::plot::axis::Axis;
use crate::plot::canvas::{Anchor, Canvas, Font};
use crate::plot::frame::{Frame, draw_marker, whole_length};
use crate::plot::render::Picture;
use crate::plot::style::{
    ArmStyle, EDGE, GREY, GUTTER, INK, NAME, NOTE, TICK, WHITE, grid, reference_dash, tick_font,
};
use crate::study::head::{Head, Sign, WIDER};
use crate::summary::Estimate;

/// Names beside markers and lines.
const LABEL: Font = Font {
    em: 11.5,
    bold: false,
    color: INK,
};
/// From the end of the lines to the first error bar beside them, from one to the next, and from the last to the names.
const FIRST_BAR: f64 = 8.0;
const NEXT_BAR: f64 = 7.0;
const NAME_GAP: f64 = 14.0;
/// Widest name of a line.
const LEVEL_WIDTH_MAX: f64 = 150.0;
/// Half the width of the caps of an error bar.
const CAP: f64 = 3.0;
/// Markers whose middles are nearer than this side by side are drawn this far apart.
const DODGE: f64 = 10.0;

/// A trade-off with its measures.
pub(super) struct TradeoffPicture<'a> {
    tradeoff: &'a Tradeoff,
    head: Head,
    views: Vec<View<'a>>,
    n_columns: usize,
    size: (f64, f64),
    footnote: String,
}

/// One panel at its place.
struct View<'a> {
    panel: &'a Panel,
    /// Left and upper edge.
    at: (f64, f64),
    size: (f64, f64),
    x_axis: Axis,
    y_axis: Axis,
    small: Font,
    /// Index of the style of each series.
    styles: Vec<usize>,
    /// Names of the lines, as there is room for them.
    level_names: Vec<String>,
}

impl<'a> TradeoffPicture<'a> {
    pub(super) fn of(tradeoff: &'a Tradeoff) -> Result<Self, String> {
        let n_panels = tradeoff.panels.len().max(1);
        let (n_columns, panel_size) = grid(n_panels);
        let small = tick_font(n_columns);
        let names = series_names(&tradeoff.panels);
        let mut views = Vec::with_capacity(n_panels);
        for panel in &tradeoff.panels {
            let style = |name: &String| names.iter().position(|each| each == name).unwrap_or(0);
            let mut level_names = Vec::with_capacity(panel.levels.len());
            for level in &panel.levels {
                level_names.push(LABEL.shortened(&level.name, LEVEL_WIDTH_MAX)?);
            }
            views.push(View {
                panel,
                at: (0.0, 0.0),
                size: panel_size,
                x_axis: x_axis(panel, panel_size.0, n_columns, small)?,
                y_axis: y_axis(panel, if n_columns == 1 { 7 } else { 5 }),
                small,
                styles: panel.series.iter().map(|each| style(&each.name)).collect(),
                level_names,
            });
        }

        let (mut left_of_panel, mut right_of_panel) = (0.0_f64, 0.0_f64);
        for view in &views {
            for (_, label) in &view.y_axis.ticks {
                left_of_panel = left_of_panel.max(small.width(label)? + TICK + 4.0);
            }
            right_of_panel = right_of_panel.max(view.width_of_levels()?);
        }
        let below_panel = TICK + 4.0 + small.cap_height() + 8.0 + NAME.em;
        let titled = tradeoff.panels.iter().any(|panel| !panel.title.is_empty());
        let above_panel = if titled { small.em + 8.0 } else { 4.0 };
        let stride = (
            panel_size.0 + left_of_panel + right_of_panel + GUTTER,
            above_panel + panel_size.1 + below_panel + GUTTER,
        );
        let left = EDGE + NAME.em + 8.0 + left_of_panel;
        let width = left
            + (n_columns - 1) as f64 * stride.0
            + panel_size.0
            + right_of_panel.max(14.0)
            + EDGE;
        let keys = names.into_iter().enumerate();
        let keys = keys.map(|(index, name)| (Sign::Series(index), name));
        let head = Head::of(&tradeoff.title, keys.collect(), left, width - EDGE)?;
        let top = EDGE + head.height() + above_panel;
        for (index, view) in views.iter_mut().enumerate() {
            let (row, column) = (index / n_columns, index % n_columns);
            view.at = (left + column as f64 * stride.0, top + row as f64 * stride.1);
        }
        let n_rows = n_panels.div_ceil(n_columns);
        let height = top
            + (n_rows - 1) as f64 * stride.1
            + panel_size.1
            + below_panel
            + 8.0
            + NOTE.em
            + EDGE;
        Ok(Self {
            tradeoff,
            head,
            views,
            n_columns,
            size: (width, height),
            footnote: footnote(tradeoff),
        })
    }

    /// Returns the points at which the marks of a panel are drawn, series by series.
    #[cfg(test)]
    pub(super) fn places_of_marks(&self, panel: usize) -> Vec<(f64, f64)> {
        self.views[panel].places_of_marks()
    }
}

impl Picture for TradeoffPicture<'_> {
    fn size(&self) -> (u32, u32) {
        (whole_length(self.size.0), whole_length(self.size.1))
    }

    fn n_panels(&self) -> usize {
        self.views.len()
    }

    fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        canvas.rectangle((0.0, 0.0), self.size, WHITE.mix(1.0))?;
        self.head.draw(canvas)?;
        for view in &self.views {
            view.draw(canvas)?;
        }
        let (width, height) = self.size;
        for row in self.views.chunks(self.n_columns) {
            let middle = row[0].at.1 + row[0].size.1 / 2.0;
            let font = NAME.fitted(&self.tradeoff.y_label, row[0].size.1 * 1.1)?;
            let at = (EDGE + NAME.cap_height(), middle);
            canvas.text_upwards(&self.tradeoff.y_label, at, Anchor::Middle, font)?;
        }
        let at = (width - EDGE, height - EDGE);
        canvas.text(&self.footnote, at, Anchor::End, NOTE)
    }
}

impl View<'_> {
    fn frame(&self) -> Frame<'_> {
        Frame {
            at: self.at,
            size: self.size,
            strip: (0.0, 0.0),
            x_axis: &self.x_axis,
            y_axis: &self.y_axis,
            small: self.small,
        }
    }

    fn area(&self) -> Area {
        Area {
            left: self.at.0,
            top: self.at.1,
            right: self.at.0 + self.size.0,
            bottom: self.at.1 + self.size.1,
        }
    }

    /// From the end of the lines to the end of their names.
    fn width_of_levels(&self) -> Result<f64, String> {
        let mut width: f64 = 0.0;
        for name in &self.level_names {
            width = width.max(WIDER * LABEL.width(name)?);
        }
        Ok(match self.level_names.len() {
            0 => 0.0,
            n => FIRST_BAR + NEXT_BAR * (n - 1) as f64 + NAME_GAP + width,
        })
    }

    fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        let (frame, area) = (self.frame(), self.area());
        frame.draw_axes(true, canvas)?;
        let title = Font {
            bold: true,
            ..self.small
        };
        let text = title.shortened(&self.panel.title, self.size.0 / WIDER)?;
        canvas.text(&text, (area.left, area.top - 7.0), Anchor::Start, title)?;
        let label = &self.panel.x_label;
        let y = area.bottom + TICK + 4.0 + self.small.cap_height() + 4.0 + NAME.em;
        let font = NAME.fitted(label, self.size.0 + 20.0)?;
        canvas.text(
            label,
            (f64::midpoint(area.left, area.right), y),
            Anchor::Middle,
            font,
        )?;
        self.draw_levels(canvas)?;
        self.draw_marks(canvas)
    }

    /// Lines through the panel, error bars beside it, and the names.
    fn draw_levels<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        let area = self.area();
        let y_of = |level: &Level| self.frame().y(self.y_axis.place(level.estimate.mean));
        let heights: Vec<f64> = self.panel.levels.iter().map(y_of).collect();
        let line_height = LABEL.em * 1.2;
        // Names may reach a little beyond the panel.
        let room = (
            area.top - line_height / 2.0,
            area.bottom + line_height / 2.0,
        );
        let places = spread(&heights, line_height, room);
        let n_levels = self.panel.levels.len();
        let bars_from = area.right + FIRST_BAR;
        let bars_to = bars_from + NEXT_BAR * n_levels.saturating_sub(1) as f64;
        for (index, level) in self.panel.levels.iter().enumerate() {
            let (y, bar) = (heights[index], bars_from + NEXT_BAR * index as f64);
            let inside = [(area.left, y), (area.right, y)];
            canvas.line(&inside, GREY, 1.25, reference_dash(index))?;
            canvas.line(&[(area.right, y), (bar, y)], GREY, 0.75, &[])?;
            self.draw_error_bar((bar, y), level.estimate, GREY, canvas)?;
            canvas.disc((bar, y), 1.8, GREY)?;
            let leader = [
                (bar, y),
                (bars_to + CAP, y),
                (bars_to + NAME_GAP - 3.0, places[index]),
            ];
            canvas.line(&leader, GREY, 0.75, &[])?;
            let baseline = places[index] + LABEL.cap_height() / 2.0;
            let at = (bars_to + NAME_GAP, baseline);
            canvas.text(&self.level_names[index], at, Anchor::Start, LABEL)?;
        }
        Ok(())
    }

    /// Returns the point at which each mark is drawn, series by series: marks that would cover each other stand side by
    /// side.
    fn places_of_marks(&self) -> Vec<(f64, f64)> {
        let frame = self.frame();
        let place = |mark: &Mark| frame.point(mark.cost, mark.estimate.mean);
        let mut places: Vec<(f64, f64)> = self.panel.marks().map(place).collect();
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by(|a, b| places[*a].0.total_cmp(&places[*b].0));
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for index in order {
            match groups.last_mut() {
                Some(group) if places[index].0 - places[group[0]].0 < DODGE / 2.0 => {
                    group.push(index);
                }
                _ => groups.push(vec![index]),
            }
        }
        for group in groups {
            let half = (group.len() - 1) as f64 / 2.0;
            for (place, index) in group.into_iter().enumerate() {
                places[index].0 += DODGE * (place as f64 - half);
            }
        }
        places
    }

    fn draw_marks<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        let size = if self.size.0 > 400.0 { 5.0 } else { 4.4 };
        let places = self.places_of_marks();
        let marks: Vec<(&Mark, ArmStyle)> = self
            .panel
            .series
            .iter()
            .zip(&self.styles)
            .flat_map(|(series, style)| {
                let style = ArmStyle::of(*style);
                series.marks.iter().map(move |mark| (mark, style))
            })
            .collect();
        let mut solid: Vec<Area> = Vec::with_capacity(2 * marks.len());
        let mut wanted = Vec::with_capacity(marks.len());
        for ((mark, _), at) in marks.iter().zip(&places) {
            let (top, bottom) = self.error_bar(at.1, mark.estimate);
            solid.push(Area::around(*at, size * 1.3, size * 1.3));
            solid.push(Area {
                left: at.0 - CAP,
                top,
                right: at.0 + CAP,
                bottom,
            });
            wanted.push(Wanted {
                at: *at,
                width: WIDER * LABEL.width(&mark.label)?,
                height: LABEL.em,
            });
        }
        let area = self.area();
        let thin = self.panel.levels.iter().map(|level| {
            let y = self.frame().y(self.y_axis.place(level.estimate.mean));
            Area {
                top: y - 0.7,
                bottom: y + 0.7,
                ..area
            }
        });
        let thin: Vec<Area> = thin.collect();
        let labels = beside_markers(&wanted, area, &solid, &thin);
        for (((mark, style), at), label) in marks.iter().zip(&places).zip(&labels) {
            // A name that had to go further away is tied to its marker.
            let beside = label.nearest(*at);
            let far = (beside.0 - at.0).hypot(beside.1 - at.1) > 2.5 * size;
            if far && !mark.label.is_empty() {
                canvas.line(&[*at, beside], GREY, 0.75, &[])?;
            }
            self.draw_error_bar(*at, mark.estimate, style.color, canvas)?;
        }
        for ((_, style), at) in marks.iter().zip(&places) {
            draw_marker((style.marker, style.color), *at, size, canvas)?;
        }
        for ((mark, _), label) in marks.iter().zip(&labels) {
            if mark.label.is_empty() {
                continue;
            }
            let (from, to) = ((label.left, label.top), (label.right, label.bottom));
            canvas.rectangle(from, to, WHITE.mix(0.75))?;
            let at = (
                f64::midpoint(label.left, label.right),
                f64::midpoint(label.top, label.bottom) + LABEL.cap_height() / 2.0,
            );
            canvas.text(&mark.label, at, Anchor::Middle, LABEL)?;
        }
        Ok(())
    }

    /// Upper and lower end of an error bar around a height.
    fn error_bar(&self, y: f64, estimate: Estimate) -> (f64, f64) {
        match estimate.standard_error {
            Some(error) if error.is_finite() => {
                let end = |value| self.frame().y(self.y_axis.place(value));
                (end(estimate.mean + error), end(estimate.mean - error))
            }
            _ => (y, y),
        }
    }

    fn draw_error_bar<DB: DrawingBackend>(
        &self,
        (x, y): (f64, f64),
        estimate: Estimate,
        color: plotters::style::RGBColor,
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        let (top, bottom) = self.error_bar(y, estimate);
        if bottom - top < 1.0 {
            return Ok(());
        }
        canvas.line(&[(x, top), (x, bottom)], color, 1.0, &[])?;
        for y in [top, bottom] {
            canvas.line(&[(x - CAP, y), (x + CAP, y)], color, 1.0, &[])?;
        }
        Ok(())
    }
}

/// Names of the series of all panels: their indices choose styles.
fn series_names(panels: &[Panel]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if !series.marks.is_empty() && !names.contains(&series.name) {
            names.push(series.name.clone());
        }
    }
    names
}

fn x_axis(panel: &Panel, width: f64, n_columns: usize, font: Font) -> Result<Axis, String> {
    let costs = || panel.marks().map(|mark| mark.cost);
    let low = costs().reduce(f64::min).unwrap_or(1.0);
    let high = costs().reduce(f64::max).unwrap_or(1.0);
    let make = |n_ticks| match panel.scale {
        Scale::Linear => Axis::linear(low, high, n_ticks),
        Scale::Log => Axis::log(low.log10(), high.log10(), n_ticks),
    };
    let n_ticks = if n_columns == 1 { 8 } else { 5 };
    Axis::fitted(make, n_ticks, (width, 12.0), font)
}

fn y_axis(panel: &Panel, n_ticks: u32) -> Axis {
    let ends = panel.estimates().flat_map(|estimate| {
        let error = estimate.standard_error.unwrap_or(0.0);
        [estimate.mean - error, estimate.mean + error]
    });
    let ends: Vec<f64> = ends.filter(|end| end.is_finite()).collect();
    let low = ends.iter().copied().reduce(f64::min).unwrap_or(0.0);
    let high = ends.iter().copied().reduce(f64::max).unwrap_or(1.0);
    Axis::linear(low, high, n_ticks)
}

/// Returns the footnote: the meaning of error bars, the number of values, and the points that are missing.
fn footnote(tradeoff: &Tradeoff) -> String {
    let counts: Vec<usize> = tradeoff.estimates().map(|estimate| estimate.n).collect();
    let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) else {
        return "no data".to_owned();
    };
    let bars = match (least, most) {
        (1, 1) => "one run of each".to_owned(),
        _ if least == most => format!("error bars: one standard error, n = {most}"),
        _ => format!("error bars: one standard error, n = {least} to {most}"),
    };
    match tradeoff.n_missing {
        0 => bars,
        1 => format!("{bars}; 1 arm without a value is left out"),
        n => format!("{bars}; {n} arms without a value are left out"),
    }
}
