//! The shared layout: title and legend at the top, panels in rows and columns, axis labels outside,
//! a footnote at the bottom.
//!
//! Columns are as wide as their panels with the labels of their vertical axes. Rows are as high as
//! their panels with the labels below. Text never overlaps: tick labels that do not fit are
//! omitted, names are shortened, the legend continues on a new line if necessary, and names beside
//! points and at the ends of lines avoid each other.

use plotters::style::{Color, RGBAColor, RGBColor};

use super::axis::Axis;
use super::labels::{Ground, Side, Spot, Wanted, spread};
use super::style::{
    Anchor, EDGE, GREY, GRID, GUTTER, Glyph, INK, KEY_GAP, LABEL, Marker, NAME, NOTE, Stroke, TICK,
    TITLE, WHITE, color_of_order, grid, tick_font,
};
use super::text::Font;
use super::{At, Chart, Key, Mark, Panel, Sign, Y};

type Point = (f64, f64);

/// A chart with computed positions, in units of length from the upper left corner.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) size: (u32, u32),
    pub(super) n_panels: usize,
    pub(super) shapes: Vec<Shape>,
    /// Accessible name and description of the picture.
    pub(super) title: String,
    pub(super) description: String,
}

#[derive(Clone, Debug)]
pub(super) enum Shape {
    Rectangle {
        from: Point,
        to: Point,
        color: RGBAColor,
    },
    Disc {
        at: Point,
        radius: f64,
        color: RGBColor,
    },
    Polygon {
        corners: Vec<Point>,
        color: RGBAColor,
    },
    Line {
        points: Vec<Point>,
        stroke: Stroke,
    },
    /// `at` is on the baseline. `upwards` text runs from bottom to top.
    Text {
        text: String,
        at: Point,
        anchor: Anchor,
        font: Font,
        upwards: bool,
    },
}

/// Distance between a sign and its text, and size of markers in signs.
const SIGN_GAP: f64 = 7.0;
const SIGN_SIZE: f64 = 4.0;
/// Height of a legend line, and of a panel's title including spacing.
const KEY_LINE: f64 = NAME.em + 8.0;
const TITLE_ROOM: f64 = 24.0;
/// Distance between the labels of a row and the titles of the next row, and between panels without
/// labels.
const ROW_GAP: f64 = 14.0;
const BARE_GAP: f64 = 20.0;
/// Maximum overhang of labels on a horizontal axis.
const OVERHANG: f64 = 12.0;
/// Maximum size of category names: beside panels in one, two, or more columns; and vertically,
/// below a panel.
const NAME_WIDTHS: [f64; 3] = [200.0, 140.0, 84.0];
const UPWARDS: f64 = 84.0;
/// Column width below which names that do not fit are set vertically.
const COLUMN_MIN: f64 = 72.0;
/// Column width below which categories are not separated by lines.
const PARTED_MIN: f64 = 7.0;
/// Distances from the end of the rules to the first error bar, between error bars, and from the
/// last error bar to the names.
const FIRST_BAR: f64 = 8.0;
const NEXT_BAR: f64 = 7.0;
const NAME_GAP: f64 = 14.0;
/// Maximum width of a rule's name.
const RULE_NAME: f64 = 160.0;
/// Half the width of an error bar's caps.
const CAP: f64 = 3.0;

/// Computes all positions of a chart.
pub(super) fn place(chart: &Chart) -> Scene {
    let panels = || chart.panels.iter();
    let n_columns = panels().map(|panel| panel.cell.1 + 1).max().unwrap_or(1);
    let mut views: Vec<View<'_>> = panels().map(|panel| View::of(panel, n_columns)).collect();

    let y_named = !chart.y_label.is_empty() || panels().any(|panel| !panel.y_label.is_empty());
    let mut right = EDGE + if y_named { NAME.em + 8.0 } else { 0.0 };
    let mut columns = Vec::with_capacity(n_columns);
    for column in 0..n_columns {
        let of_column = || views.iter().filter(|view| view.panel.cell.1 == column);
        let widest = |room: &dyn Fn(&View<'_>) -> f64| of_column().map(room).fold(0.0, f64::max);
        let gutter = if column == 0 { 0.0 } else { GUTTER };
        let left = right + gutter + widest(&|view| view.left_room());
        let width = widest(&|view| if view.panel.wide { 0.0 } else { view.size.0 });
        columns.push((left, left + if width > 0.0 { width } else { grid(1).1.0 }));
        right = columns[column].1 + widest(&|view| view.right_room());
    }
    let (left, inner_right) = (columns[0].0, columns[n_columns - 1].1);

    let mut scene = Scene {
        size: (0, 0),
        n_panels: views.len(),
        shapes: Vec::new(),
        title: chart.title.clone(),
        description: chart.description(),
    };
    let mut bottom = scene.head(chart, left, right);
    let mut top = bottom;
    for row in 0..panels().map(|panel| panel.cell.0 + 1).max().unwrap_or(0) {
        let is_titled = |view: &View<'_>| !view.panel.title.is_empty();
        let titled = views.iter().any(|view| view.panel.cell.0 == row && is_titled(view));
        let upper = bottom + if titled { TITLE_ROOM } else { 4.0 };
        if row == 0 {
            top = upper;
        }
        for view in views.iter_mut().filter(|view| view.panel.cell.0 == row) {
            let (left, right) = columns[view.panel.cell.1];
            let end =
                if view.panel.wide { inner_right } else { left + view.size.0.min(right - left) };
            (view.at, view.size.0) = ((left, upper), end - left);
            view.fit();
            bottom = bottom.max(upper + view.size.1 + view.below() + ROW_GAP);
        }
    }
    let lowest = views.iter().map(|view| view.at.1 + view.size.1).fold(top, f64::max);
    bottom -= ROW_GAP;
    if !chart.x_label.is_empty() {
        bottom += 8.0 + NAME.em;
        let text = NAME.cut(&chart.x_label, inner_right - left);
        let at = (f64::midpoint(left, inner_right), bottom - 0.2 * NAME.em);
        scene.text(text, at, Anchor::Middle, NAME);
    }
    if !chart.y_label.is_empty() {
        scene.y_label(&chart.y_label, (top, lowest));
    }
    if !chart.footnote.is_empty() {
        bottom += 8.0 + NOTE.em;
        let text = NOTE.cut(&chart.footnote, right - EDGE);
        scene.text(text, (right, bottom - 0.2 * NOTE.em), Anchor::End, NOTE);
    }
    scene.size = (whole_length(right + 14.0 + EDGE), whole_length(bottom + EDGE));
    let corner = (f64::from(scene.size.0), f64::from(scene.size.1));
    let background = Shape::Rectangle { from: (0.0, 0.0), to: corner, color: WHITE.mix(1.0) };
    scene.shapes.insert(0, background);
    views.iter().for_each(|view| view.draw(&mut scene));
    let is_empty = |shape: &Shape| matches!(shape, Shape::Text { text, .. } if text.is_empty());
    scene.shapes.retain(|shape| !is_empty(shape));
    scene
}

/// Rounds a length up to whole units.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive length; the cast saturates and the size is checked afterwards"
)]
fn whole_length(length: f64) -> u32 {
    length.ceil() as u32
}

impl Scene {
    fn text(&mut self, text: String, at: Point, anchor: Anchor, font: Font) {
        let upwards = false;
        self.shapes.push(Shape::Text { text, at, anchor, font, upwards });
    }

    fn text_upwards(&mut self, text: String, at: Point, anchor: Anchor, font: Font) {
        let upwards = true;
        self.shapes.push(Shape::Text { text, at, anchor, font, upwards });
    }

    fn line(&mut self, points: Vec<Point>, stroke: Stroke) {
        self.shapes.push(Shape::Line { points, stroke });
    }

    fn rectangle(&mut self, from: Point, to: Point, color: RGBAColor) {
        self.shapes.push(Shape::Rectangle { from, to, color });
    }

    fn glyph(&mut self, (x, y): Point, size: f64, glyph: Glyph) {
        self.shapes.extend(glyph.parts().map(|(marker, scale, color)| {
            let size = size * scale;
            if marker == Marker::Circle {
                return Shape::Disc { at: (x, y), radius: size, color };
            }
            let outline = marker.outline().into_iter();
            let corners = outline.map(|(dx, dy)| (x + dx * size, y + dy * size)).collect();
            Shape::Polygon { corners, color: color.mix(1.0) }
        }));
    }

    /// Adds the label of a vertical axis beside the panels, between two heights.
    fn y_label(&mut self, label: &str, (top, bottom): (f64, f64)) {
        let height = bottom - top;
        let text = NAME.cut(label, height / 0.7);
        let font = NAME.fitted(&text, height);
        let at = (EDGE + NAME.cap_height(), f64::midpoint(top, bottom));
        self.text_upwards(text, at, Anchor::Middle, font);
    }

    /// Adds the title and the legend between two edges, and returns their lower end.
    fn head(&mut self, chart: &Chart, left: f64, right: f64) -> f64 {
        let mut y = EDGE;
        for (text, font) in [(&chart.title, TITLE), (&chart.facts, Font { em: 13.0, ..NOTE })] {
            if !text.is_empty() {
                let text = font.cut(text, right - left);
                self.text(text, (left, y + font.em * 0.85), Anchor::Start, font);
                y += font.em + 10.0;
            }
        }
        let mut x = left;
        for (index, Key { sign, text }) in chart.keys.iter().enumerate() {
            let before = sign.width() + SIGN_GAP;
            let text = NAME.cut(text, right - left - before);
            let width = before + NAME.room(&text);
            if index > 0 && x + width > right {
                (x, y) = (left, y + KEY_LINE);
            }
            let middle = y + KEY_LINE / 2.0;
            self.sign(*sign, (x, middle));
            let at = (x + before, middle + NAME.cap_height() / 2.0);
            self.text(text, at, Anchor::Start, NAME);
            x += width + KEY_GAP;
        }
        y + if chart.keys.is_empty() { 0.0 } else { KEY_LINE } + 6.0
    }

    /// Draws a sign. `(x, y)` is the middle of its left edge.
    fn sign(&mut self, sign: Sign, (x, y): Point) {
        let right = x + sign.width();
        let middle = (f64::midpoint(x, right), y);
        match sign {
            Sign::Point(glyph) => self.glyph(middle, SIGN_SIZE, glyph),
            Sign::Line { stroke, glyph, band } => {
                if band {
                    let color = stroke.color.mix(0.16);
                    self.rectangle((x, y - 5.0), (right, y + 5.0), color);
                }
                self.line(vec![(x, y), (right, y)], stroke);
                if let Some(glyph) = glyph {
                    self.glyph(middle, SIGN_SIZE, glyph);
                }
            }
            Sign::Ending(stroke, glyph) => {
                let end = (right - 1.5 * SIGN_SIZE, y);
                self.line(vec![(x, y), end], stroke);
                self.glyph(end, SIGN_SIZE, glyph);
            }
            Sign::Fill(color) => self.rectangle((x, y - 5.0), (right, y + 5.0), color.mix(1.0)),
            Sign::Boxed(color) => {
                self.rectangle((x, y - 5.5), (right, y + 5.5), INK.mix(1.0));
                let (from, to) = ((x + 0.75, y - 4.75), (right - 0.75, y + 4.75));
                self.rectangle(from, to, color.mix(1.0));
            }
            Sign::Order => {
                let n_steps = 36_u32;
                let step = sign.width() / f64::from(n_steps);
                for index in 0..n_steps {
                    let from = x + step * f64::from(index);
                    let color = color_of_order(f64::from(index) / f64::from(n_steps - 1));
                    self.rectangle((from, y - 5.0), (from + step, y + 5.0), color.mix(1.0));
                }
            }
        }
    }
}

impl Sign {
    fn width(self) -> f64 {
        match self {
            Self::Point(_) => 14.0,
            Self::Fill(_) | Self::Boxed(_) => 18.0,
            Self::Line { .. } | Self::Ending(..) => 34.0,
            Self::Order => 72.0,
        }
    }
}

/// A panel at its position, with fitted labels.
struct View<'a> {
    panel: &'a Panel,
    /// Left and upper edge.
    at: Point,
    /// Width and height, including the strip.
    size: Point,
    x: Axis,
    /// Names of the categories below the panel, true if they are vertical, and names of the
    /// categories beside the panel.
    x_names: (Vec<String>, bool),
    y_names: Vec<String>,
    rule_names: Vec<String>,
    small: Font,
    n_columns: usize,
}

impl<'a> View<'a> {
    fn of(panel: &'a Panel, n_columns: usize) -> Self {
        let small = tick_font(n_columns);
        let height = panel.size.1 + panel.strip.map_or(0.0, |strip| strip.height);
        let named = panel.rules.iter().filter(|rule| !rule.name.is_empty());
        let mut view = Self {
            panel,
            at: (0.0, 0.0),
            size: (panel.size.0, height),
            x: panel.x.clone(),
            x_names: (Vec::new(), false),
            y_names: names_beside(
                &panel.y.names,
                (NAME_WIDTHS[n_columns.min(3) - 1], height),
                small,
            ),
            rule_names: named.map(|rule| LABEL.cut(&rule.name, RULE_NAME)).collect(),
            small,
            n_columns,
        };
        view.fit();
        view
    }

    /// Fits the labels of the horizontal axis to the width.
    fn fit(&mut self) {
        self.x = self.panel.x.fitted((self.size.0, OVERHANG), self.small);
        self.x_names = names_below(&self.panel.x.names, self.size.0, self.small);
    }

    /// Returns the labels of the vertical axis, each with its height.
    fn y_labels(&self) -> Vec<(f64, &str)> {
        if !self.panel.framed || !self.panel.y_labels {
            return Vec::new();
        }
        let y = &self.panel.y;
        let strip = self.panel.strip.map(|strip| (self.y(Y::Strip(0.5)), strip.label));
        // The strip's own label is at its middle.
        let is_free =
            |at: f64| strip.is_none_or(|(middle, _)| (middle - at).abs() >= self.small.em);
        let ticks = y.ticks.iter().map(|(position, label)| {
            (self.y_of_place(y.place_of_position(*position)), label.as_str())
        });
        let names = self
            .y_names
            .iter()
            .enumerate()
            .map(|(index, name)| (self.y(Y::Value(index as f64 + 0.5)), name.as_str()));
        ticks.chain(names).filter(|(at, _)| is_free(*at)).chain(strip).collect()
    }

    fn left_room(&self) -> f64 {
        if !self.panel.framed {
            0.0
        } else if self.panel.y_labels {
            let labels = self.y_labels().into_iter();
            labels.map(|(_, label)| self.small.room(label)).fold(0.0, f64::max) + TICK + 4.0
        } else {
            BARE_GAP
        }
    }

    /// Returns the distance from the end of the rules to the end of their names.
    fn right_room(&self) -> f64 {
        let width = LABEL.widest(&self.rule_names);
        match self.rule_names.len() {
            0 => 0.0,
            n => FIRST_BAR + NEXT_BAR * (n - 1) as f64 + NAME_GAP + width,
        }
    }

    /// Returns the height of the labels below the panel.
    fn below(&self) -> f64 {
        let label = if self.panel.x_label.is_empty() { 0.0 } else { NAME.em + 8.0 };
        self.labels_below() + label
    }

    fn labels_below(&self) -> f64 {
        if !self.panel.framed {
            return 0.0;
        }
        TICK + 4.0
            + match &self.x_names {
                (names, true) => self.small.widest(names),
                _ => self.small.cap_height() + 2.0,
            }
    }

    fn x(&self, value: f64) -> f64 {
        self.x_of_place(self.x.place(value))
    }

    fn x_of_place(&self, place: f64) -> f64 {
        self.at.0 + place * self.size.0
    }

    fn y(&self, y: Y) -> f64 {
        let strip = self.panel.strip;
        match (y, strip) {
            (Y::Value(value), _) => self.y_of_place(self.panel.y.place(value)),
            (Y::Strip(_), None) => self.at.1,
            (Y::Strip(share), Some(strip)) => {
                let lowest = if strip.above { strip.height } else { self.size.1 };
                self.at.1 + lowest - share * strip.height
            }
        }
    }

    fn y_of_place(&self, place: f64) -> f64 {
        let strip = self.panel.strip;
        let above = strip.filter(|strip| strip.above).map_or(0.0, |strip| strip.height);
        self.at.1 + above + (1.0 - place) * self.panel.size.1
    }

    fn point(&self, at: &At) -> Point {
        (self.x(at.x) + at.shift.0, self.y(at.y) + at.shift.1)
    }

    fn points(&self, at: &[At]) -> Vec<Point> {
        at.iter().map(|at| self.point(at)).collect()
    }

    /// Returns the lower right corner.
    fn end(&self) -> Point {
        (self.at.0 + self.size.0, self.at.1 + self.size.1)
    }

    fn draw(&self, scene: &mut Scene) {
        let panel = self.panel;
        panel.backdrop.iter().for_each(|mark| self.draw_mark(mark, scene));
        if panel.framed {
            self.draw_axes(scene);
        }
        let ((left, top), (right, bottom)) = (self.at, self.end());
        let title = Font { bold: true, ..self.small };
        let text =
            title.cut(&panel.title, self.size.0 + if self.n_columns > 1 { 10.0 } else { 0.0 });
        scene.text(text, (left, top - 7.0), Anchor::Start, title);
        let label = NAME.cut(&panel.x_label, self.size.0 + 20.0);
        let at = (f64::midpoint(left, right), bottom + self.labels_below() + 6.0 + 0.8 * NAME.em);
        scene.text(label, at, Anchor::Middle, NAME);
        if !panel.y_label.is_empty() && panel.cell.1 == 0 {
            scene.y_label(&panel.y_label, (top, bottom));
        }
        if !panel.nothing.is_empty() {
            let (x, y) = (self.x_of_place(0.5), self.y_of_place(0.5));
            let font = Font { color: GREY, ..NAME };
            let half = font.room(&panel.nothing) / 2.0 + 6.0;
            scene.rectangle((x - half, y - font.em), (x + half, y + font.em), WHITE.mix(1.0));
            let at = (x, y + font.cap_height() / 2.0);
            scene.text(panel.nothing.clone(), at, Anchor::Middle, font);
        }
        self.draw_rules(scene);
        let spots = self.places_of_labels();
        for (label, spot) in panel.labels.iter().zip(&spots) {
            // A tie connects the name to its point if they are far apart.
            let point = self.point(&label.at);
            let near = spot.nearest(point);
            let length = (near.0 - point.0).hypot(near.1 - point.1);
            if label.outward.is_none() && !label.below && length > label.distance + 4.0 {
                scene.line(vec![point, near], Stroke::solid(GREY, 0.75));
            }
        }
        panel.marks.iter().for_each(|mark| self.draw_mark(mark, scene));
        // Marks below a name are faded. All fading precedes the first name.
        for (_, spot) in
            panel.labels.iter().zip(&spots).filter(|(label, _)| label.outward.is_none())
        {
            let (from, to) = spot.corners();
            scene.rectangle(from, to, WHITE.mix(0.8));
        }
        for (label, spot) in panel.labels.iter().zip(spots) {
            let ((left, _), (right, _)) = spot.corners();
            let baseline = spot.middle.1 + label.font.cap_height() / 2.0;
            let (x, anchor) = match label.outward {
                Some([dx, _]) if dx > 0.1 => (left + 1.0, Anchor::Start),
                Some([dx, _]) if dx < -0.1 => (right - 1.0, Anchor::End),
                _ => (spot.middle.0, Anchor::Middle),
            };
            scene.text(label.text.clone(), (x, baseline), anchor, label.font);
        }
    }

    /// Draws axes, grid and labels, the borders of categories, and the strip.
    fn draw_axes(&self, scene: &mut Scene) {
        let (panel, small) = (self.panel, self.small);
        let ((left, top), (right, bottom)) = (self.at, self.end());
        let [grid, ink] = [Stroke::solid(GRID, 1.0), Stroke::solid(INK, 1.0)];
        let minor = Stroke::solid(INK, 0.75);
        for (position, _) in &panel.y.ticks {
            let y = self.y_of_place(panel.y.place_of_position(*position));
            scene.line(vec![(left, y), (right, y)], grid);
            scene.line(vec![(left - TICK, y), (left, y)], ink);
        }
        for (position, label) in &self.x.ticks {
            let x = self.x_of_place(self.x.place_of_position(*position));
            scene.line(vec![(x, top), (x, bottom)], grid);
            scene.line(vec![(x, bottom), (x, bottom + TICK)], ink);
            let at = (x, bottom + TICK + 4.0 + small.cap_height());
            scene.text(label.clone(), at, Anchor::Middle, small);
        }
        for position in &panel.y.minor {
            let y = self.y_of_place(panel.y.place_of_position(*position));
            scene.line(vec![(left - TICK / 2.0, y), (left, y)], minor);
        }
        for position in &self.x.minor {
            let x = self.x_of_place(self.x.place_of_position(*position));
            scene.line(vec![(x, bottom), (x, bottom + TICK / 2.0)], minor);
        }
        let (n_x, n_y) = (panel.x.names.len(), panel.y.names.len());
        if self.size.0 / n_x.max(1) as f64 > PARTED_MIN {
            for index in 1..n_x {
                let x = self.x(index as f64);
                scene.line(vec![(x, top), (x, bottom)], grid);
            }
        }
        if self.size.1 / n_y.max(1) as f64 > PARTED_MIN {
            for index in 1..n_y {
                let y = self.y(Y::Value(index as f64));
                scene.line(vec![(left, y), (right, y)], grid);
            }
        }
        for (index, name) in self.x_names.0.iter().enumerate() {
            let x = self.x(index as f64 + 0.5);
            if self.x_names.1 {
                let at = (x + small.cap_height() / 2.0, bottom + TICK + 2.0);
                scene.text_upwards(name.clone(), at, Anchor::End, small);
            } else {
                let at = (x, bottom + TICK + 4.0 + small.cap_height());
                scene.text(name.clone(), at, Anchor::Middle, small);
            }
        }
        for (y, label) in self.y_labels() {
            let at = (left - TICK - 4.0, y + small.cap_height() / 2.0);
            scene.text(label.to_owned(), at, Anchor::End, small);
        }
        scene.line(vec![(left, top), (left, bottom)], ink);
        scene.line(vec![(left, bottom), (right, bottom)], ink);
        if let Some(strip) = panel.strip {
            let border = self.y(Y::Strip(if strip.above { 0.0 } else { 1.0 }));
            let stroke = Stroke { dash: &[3.0, 2.5], ..Stroke::solid(GREY, 0.75) };
            scene.line(vec![(left, border), (right, border)], stroke);
        }
    }

    /// Draws the rules through the panel, the error bars beside it, and their names.
    fn draw_rules(&self, scene: &mut Scene) {
        let ((left, top), (right, bottom)) = (self.at, self.end());
        let height = |y: f64| self.y(Y::Value(y));
        let named = self.panel.rules.iter().filter(|rule| !rule.name.is_empty());
        let heights: Vec<f64> = named.map(|rule| height(rule.y)).collect();
        let line = LABEL.em * 1.2;
        // Names may extend slightly beyond the panel.
        let mut places =
            spread(&heights, line, (top - line / 2.0, bottom + line / 2.0)).into_iter();
        let mut bar = right + FIRST_BAR;
        let bars_to = bar + NEXT_BAR * heights.len().saturating_sub(1) as f64;
        let mut names = self.rule_names.iter();
        let thin = Stroke::solid(GREY, 0.75);
        for rule in &self.panel.rules {
            let y = height(rule.y);
            scene.line(vec![(left, y), (right, y)], rule.stroke);
            if rule.name.is_empty() {
                continue;
            }
            let place = places.next().unwrap_or(y);
            scene.line(vec![(right, y), (bar, y)], thin);
            if let Some(ends) = rule.ends {
                self.draw_error_bar(bar, ends, GREY, scene);
            }
            scene.shapes.push(Shape::Disc { at: (bar, y), radius: 1.8, color: GREY });
            let leader = [(bar, y), (bars_to + CAP, y), (bars_to + NAME_GAP - 3.0, place)];
            scene.line(leader.to_vec(), thin);
            let at = (bars_to + NAME_GAP, place + LABEL.cap_height() / 2.0);
            scene.text(names.next().cloned().unwrap_or_default(), at, Anchor::Start, LABEL);
            bar += NEXT_BAR;
        }
    }

    fn draw_error_bar(&self, x: f64, (low, high): (f64, f64), color: RGBColor, scene: &mut Scene) {
        let (top, bottom) = (self.y(Y::Value(high)), self.y(Y::Value(low)));
        if bottom - top >= 1.0 {
            let stroke = Stroke::solid(color, 1.0);
            scene.line(vec![(x, top), (x, bottom)], stroke);
            for y in [top, bottom] {
                scene.line(vec![(x - CAP, y), (x + CAP, y)], stroke);
            }
        }
    }

    fn draw_mark(&self, mark: &Mark, scene: &mut Scene) {
        match mark {
            Mark::Line { at, stroke } => scene.line(self.points(at), *stroke),
            Mark::Band { at, color } => {
                scene.shapes.push(Shape::Polygon { corners: self.points(at), color: *color });
            }
            Mark::Points { at, glyph, size } => {
                at.iter().for_each(|at| scene.glyph(self.point(at), *size, *glyph));
            }
            Mark::Cell { from, to, color } => {
                let ((left, top), (right, bottom)) = (self.at, self.end());
                let inside = |(x, y): Point| (x.clamp(left, right), y.clamp(top, bottom));
                let (from, to) = (inside(self.point(from)), inside(self.point(to)));
                let upper = (from.0.min(to.0), from.1.min(to.1));
                scene.rectangle(upper, (from.0.max(to.0), from.1.max(to.1)), color.mix(1.0));
            }
            Mark::ErrorBar { at, ends, color } => {
                self.draw_error_bar(self.point(at).0, *ends, *color, scene);
            }
            Mark::Text { at, text, anchor, font } => {
                let (x, y) = self.point(at);
                scene.text(text.clone(), (x, y + font.cap_height() / 2.0), *anchor, *font);
            }
        }
    }

    /// Returns the rectangles of the labels, which avoid lines, points, error bars and other names.
    fn places_of_labels(&self) -> Vec<Spot> {
        if self.panel.labels.is_empty() {
            return Vec::new();
        }
        let mut ground = Ground {
            lines: Vec::new(),
            discs: Vec::new(),
            radius: 0.0,
            solid: Vec::new(),
            within: self.panel.framed.then(|| Spot::between(self.at, self.end())),
            ties: Vec::new(),
            names: Vec::new(),
        };
        for rule in &self.panel.rules {
            let y = self.y(Y::Value(rule.y));
            ground.lines.push([(self.at.0, y), (self.end().0, y)]);
        }
        for mark in &self.panel.marks {
            match mark {
                Mark::Line { at, stroke } => {
                    // A thick line counts twice.
                    for _ in 0..if stroke.width > 2.0 { 2 } else { 1 } {
                        ground
                            .lines
                            .extend(self.points(at).windows(2).map(|pair| [pair[0], pair[1]]));
                    }
                }
                Mark::Points { at, glyph, size } => {
                    ground.discs.extend(self.points(at));
                    ground.radius = ground.radius.max(glyph.reach() * size);
                }
                Mark::ErrorBar { at, ends, .. } => {
                    let x = self.point(at).0;
                    let (top, bottom) = (self.y(Y::Value(ends.1)), self.y(Y::Value(ends.0)));
                    ground.solid.push(Spot::between((x - CAP, top), (x + CAP, bottom)));
                }
                _ => {}
            }
        }
        let labels = self.panel.labels.iter().map(|label| {
            let half = label.font.room(&label.text) / 2.0 + 1.0;
            let half = (half, label.font.cap_height() / 2.0 + 2.0);
            let prefer = if label.below { Side::Below } else { Side::Right };
            let agent = self.point(&label.at);
            (label.outward, Wanted { agent, distance: label.distance, half, prefer })
        });
        let labels: Vec<(Option<[f64; 2]>, Wanted)> = labels.collect();
        let given = |(outward, name): &(Option<[f64; 2]>, Wanted)| {
            outward.map(|outward| Spot::beside(name.agent, outward, name.distance, name.half))
        };
        ground.names = labels.iter().filter_map(given).collect();
        let free = labels.iter().filter(|(outward, _)| outward.is_none());
        let free: Vec<Wanted> = free.map(|(_, name)| *name).collect();
        let mut placed = ground.place(&free).into_iter();
        labels.iter().filter_map(|label| given(label).or_else(|| placed.next())).collect()
    }
}

/// Returns the names of categories, shortened to fit below a panel, and true if they are vertical.
/// The names are empty if there is no room.
fn names_below(names: &[String], width: f64, font: Font) -> (Vec<String>, bool) {
    let column = width / names.len().max(1) as f64;
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let level = font.cut_apart(&all, column - 6.0);
    if level == names || column >= COLUMN_MIN {
        return (level, false);
    }
    (thinned(font.cut_apart(&all, UPWARDS), column, font), true)
}

/// Returns the names of categories, shortened to fit beside a panel; empty names if there is no
/// room.
fn names_beside(names: &[String], (width, height): Point, font: Font) -> Vec<String> {
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    thinned(font.cut_apart(&all, width), height / names.len().max(1) as f64, font)
}

/// Blanks some names if rows are lower than a line of text.
fn thinned(mut names: Vec<String>, row: f64, font: Font) -> Vec<String> {
    let every = (font.em + 1.0) / row;
    let mut next = 0.0;
    for (index, name) in names.iter_mut().enumerate() {
        if (index as f64) < next {
            name.clear();
        } else {
            next = index as f64 + every.max(1.0);
        }
    }
    names
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::style::BLUE;
    use super::super::{Label, Rule, Strip, at, in_strip};
    use super::*;

    /// If a panel has more names than this beside points and lines, some may overlap.
    const N_CROWD: usize = 20;

    /// Returns the upper left and lower right corners of a shape.
    fn extent(shape: &Shape) -> (Point, Point) {
        let around = |points: &[Point]| {
            let fold = |pick: fn(f64, f64) -> f64, start| {
                points.iter().fold((start, start), |(x, y), at| (pick(x, at.0), pick(y, at.1)))
            };
            (fold(f64::min, f64::INFINITY), fold(f64::max, f64::NEG_INFINITY))
        };
        match shape {
            Shape::Rectangle { from, to, .. } => (*from, *to),
            Shape::Disc { at: (x, y), radius: r, .. } => ((x - r, y - r), (x + r, y + r)),
            Shape::Polygon { corners, .. } => around(corners),
            Shape::Line { points, .. } => around(points),
            Shape::Text { text, at: (x, y), anchor, font, upwards } => {
                let width = font.width(text);
                let before = match anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => width / 2.0,
                    Anchor::End => width,
                };
                let (up, down) = (font.cap_height(), 0.2 * font.em);
                if *upwards {
                    ((x - up, y + before - width), (x + down, y + before))
                } else {
                    ((x - before, y - up), (x - before + width, y + down))
                }
            }
        }
    }

    /// Asserts that everything is inside the canvas, and that no text overlaps other text.
    pub(in super::super) fn assert_readable(chart: &Chart, scene: &Scene) {
        let (width, height) = (f64::from(scene.size.0), f64::from(scene.size.1));
        let mut texts: Vec<(&str, Point, Point)> = Vec::new();
        for shape in &scene.shapes {
            let (from, to) = extent(shape);
            let is_empty = matches!(shape, Shape::Line { points, .. } if points.len() < 2);
            let inside = from.0 >= 0.0 && from.1 >= 0.0 && to.0 <= width && to.1 <= height;
            assert!(is_empty || inside, "{shape:?} leaves {:?}", scene.size);
            if let Shape::Text { text, .. } = shape {
                texts.push((text, from, to));
            }
        }
        if chart.panels.iter().any(|panel| panel.labels.len() + panel.rules.len() > N_CROWD) {
            return;
        }
        texts.sort_by(|a, b| a.1.1.total_cmp(&b.1.1));
        for (index, (text, from, to)) in texts.iter().enumerate() {
            let below = texts[index + 1..].iter().take_while(|other| other.1.1 < to.1 - 0.1);
            for (other, other_from, other_to) in below {
                let apart = other_from.0 >= to.0 - 0.1 || from.0 >= other_to.0 - 0.1;
                assert!(apart, "{text:?} and {other:?} overlap: {from:?} {to:?} {other_from:?}");
            }
        }
    }

    /// Creates a panel with every kind of content.
    fn panel(cell: (usize, usize), n_names: usize, above: bool) -> Panel {
        let names = |stem: &str| -> Vec<String> {
            (0..n_names).map(|index| format!("{stem} {index} of several categories")).collect()
        };
        let mut panel = Panel {
            title: format!("a panel with a title that does not fit above it: {cell:?}"),
            cell,
            x_label: "a cost that has a long name, in its own unit".to_owned(),
            y_label: "a value".to_owned(),
            strip: Some(Strip { above, height: 20.0, label: "failed" }),
            ..Panel::new(grid(4).1, Axis::columns(names("column")), Axis::rows(names("row")))
        };
        if cell.1 == 1 {
            (panel.x, panel.y) = (Axis::log(-5.0, 7.0, 8), Axis::linear(-1e7, 2e7, 6));
        }
        let n = n_names.max(1) as f64;
        let place = |i: i32| match cell.1 {
            1 => at(10_f64.powi(3 * i - 4), 5e6),
            _ => at(n * (0.2 + 0.2 * f64::from(i)), 0.5 * n),
        };
        let places: Vec<At> = (0..4).map(place).collect();
        panel.line(places.clone(), Stroke::solid(BLUE, 1.0));
        panel.points(places.clone(), Glyph::disc(BLUE).ringed(), 4.0);
        panel.points(vec![in_strip(1.0, 0.5)], Glyph::failed(INK), 4.0);
        panel.labels = places
            .iter()
            .map(|place| Label {
                at: *place,
                text: "beside a point".to_owned(),
                font: LABEL,
                distance: 12.0,
                outward: None,
                below: above,
            })
            .collect();
        panel.rules = (0..5)
            .map(|index| Rule {
                y: 1.0 + 1e-3 * f64::from(index),
                stroke: Stroke::of_reference(0),
                name: format!("rule {index}, with a name that does not fit beside it"),
                ends: Some((0.9, 1.1)),
            })
            .collect();
        panel
    }

    fn chart(panels: Vec<Panel>) -> Chart {
        let glyph = Glyph::disc(BLUE);
        let stroke = Stroke::solid(BLUE, 1.0);
        let signs = [
            Sign::Point(glyph),
            Sign::Line { stroke, glyph: Some(glyph), band: true },
            Sign::Ending(stroke, glyph),
            Sign::Fill(BLUE),
            Sign::Boxed(WHITE),
            Sign::Order,
        ];
        let key = |(index, sign)| Key { sign, text: "long text ".repeat(1 + 7 * index) };
        Chart {
            title: "a title ".repeat(90),
            facts: "some facts ".repeat(90),
            keys: signs.into_iter().enumerate().map(key).collect(),
            panels,
            x_label: "the horizontal axis ".repeat(90),
            y_label: "the vertical axis ".repeat(90),
            footnote: "a footnote ".repeat(90),
        }
    }

    #[test]
    fn texts_are_apart_and_everything_is_inside_whatever_the_panels() {
        for n_names in [0, 1, 3, 40, 300] {
            for above in [true, false] {
                let cells = [(1, 0), (1, 1), (2, 0), (2, 1)];
                let mut panels: Vec<Panel> =
                    cells.into_iter().map(|cell| panel(cell, n_names, above)).collect();
                // Either the chart or each row labels the vertical axis.
                panels.iter_mut().for_each(|panel| panel.y_label.clear());
                let wide = Panel {
                    wide: true,
                    cell: (0, 0),
                    labels: Vec::new(),
                    rules: Vec::new(),
                    ..panels[1].clone()
                };
                panels.push(wide);
                let chart = chart(panels);
                assert_readable(&chart, &place(&chart));
                let rows = Chart {
                    y_label: String::new(),
                    panels: cells[..2].iter().map(|cell| panel(*cell, n_names, above)).collect(),
                    ..chart
                };
                assert_readable(&rows, &place(&rows));
            }
        }
        let nothing = chart(Vec::new());
        assert_readable(&nothing, &place(&nothing));
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn texts_that_overlap_are_noticed() {
        let mut panel = panel((0, 0), 0, true);
        for shift in [0.0, 3.0] {
            let at = at(0.5, 0.5).shifted(shift, 0.0);
            let (text, anchor) = ("here".to_owned(), Anchor::Middle);
            panel.marks.push(Mark::Text { at, text, anchor, font: LABEL });
        }
        let chart = chart(vec![panel]);
        assert_readable(&chart, &place(&chart));
    }

    #[test]
    #[should_panic(expected = "leaves")]
    fn what_is_not_inside_is_noticed() {
        let mut panel = panel((0, 0), 0, true);
        panel.points(vec![at(0.5, 0.5).shifted(1e4, 0.0)], Glyph::disc(BLUE), 4.0);
        let chart = chart(vec![panel]);
        assert_readable(&chart, &place(&chart));
    }

    /// The first column is as wide as its widest panel with labels. The panels of a row have the
    /// same upper edge.
    #[test]
    fn panels_stand_in_rows_and_columns() {
        let cells = [(0, 0), (0, 1), (1, 0), (1, 1)];
        let panels = cells.map(|cell| Panel {
            cell,
            framed: false,
            marks: vec![Mark::Cell { from: at(0.0, 0.0), to: at(1.0, 1.0), color: BLUE }],
            ..Panel::new((100.0, 50.0), Axis::bare(0.0, 1.0), Axis::bare(0.0, 1.0))
        });
        let chart = Chart { panels: panels.to_vec(), ..Chart::default() };
        let boxes = place(&chart).shapes.into_iter().filter_map(|shape| match shape {
            Shape::Rectangle { from, to, color } if color == BLUE.mix(1.0) => Some((from, to)),
            _ => None,
        });
        let boxes: Vec<(Point, Point)> = boxes.collect();
        let size = |(from, to): (Point, Point)| (to.0 - from.0, to.1 - from.1);
        assert!(boxes.iter().all(|each| size(*each) == (100.0, 50.0)), "{boxes:?}");
        let [a, b, c, d] = boxes[..] else { panic!("four panels") };
        let same = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(same(a.0.1, b.0.1) && same(c.0.1, d.0.1), "{boxes:?}");
        assert!(same(a.0.0, c.0.0) && same(b.0.0, d.0.0), "{boxes:?}");
        assert!(a.1.0 < b.0.0 && a.1.1 < c.0.1, "{boxes:?}");
    }
}
