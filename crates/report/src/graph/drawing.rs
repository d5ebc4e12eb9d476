//! The picture with its measures: title and facts above, agents where they were put, a legend below.

use plotters::backend::DrawingBackend;
use plotters::style::{Color, RGBColor};

use super::names::{Ground, Spot, Wanted};
use super::{GraphAgent, GraphPicture};
use crate::plot::canvas::{Anchor, Canvas, Font};
use crate::plot::frame::whole_length;
use crate::plot::render::Picture;
use crate::plot::style::{BLUE, GREY, INK, NAME, VERMILION, WHITE};
use crate::study::head::WIDER;

/// Agents up to which each has its name beside it.
const N_NAMES_MAX: usize = 60;

const WIDTH: f64 = 760.0;
/// Most height for agents.
const HEIGHT_MAX: f64 = 620.0;
/// Distance of everything from the edge of the picture.
const EDGE: f64 = 24.0;
/// Heights of the baselines of title and facts, and where they end.
const TITLE_AT: f64 = 36.0;
const FACTS_AT: f64 = 57.0;
const HEAD: f64 = 62.0;
/// Room for the legend.
const FOOT: f64 = 34.0;
/// Widest name.
const NAME_WIDTH_MAX: f64 = 150.0;
/// From an agent's disc to its name.
const NAME_GAP: f64 = 6.0;
/// Width of the white rim of discs.
const RIM: f64 = 1.5;
/// Edges between agents that do not stand out.
const PLAIN_EDGE: RGBColor = RGBColor(172, 178, 184);

const TITLE: Font = Font {
    em: 18.0,
    bold: true,
    color: INK,
};
const NOTE: Font = Font {
    em: 13.0,
    bold: false,
    color: GREY,
};
/// Names where agents do not stand around a middle.
const SMALL_NAME: Font = Font { em: 11.5, ..NAME };

/// Agents at their places in the picture, in units of length.
pub(super) struct Drawing<'a> {
    picture: &'a GraphPicture,
    places: Vec<(f64, f64)>,
    height: f64,
    /// Radius of an agent's disc.
    radius: f64,
    name_font: Font,
    /// As they are written; none where the agents are too many.
    names: Vec<String>,
    /// The places of the names that have no direction, in the order of the agents.
    spots: Vec<Spot>,
}

impl<'a> Drawing<'a> {
    pub(super) fn of(picture: &'a GraphPicture) -> Result<Self, String> {
        let n_agents = picture.agents.len();
        let around = picture.agents.iter().any(|agent| agent.outward.is_some());
        let name_font = if around { NAME } else { SMALL_NAME };
        let named = if n_agents <= N_NAMES_MAX {
            &picture.agents[..]
        } else {
            &[]
        };
        let shorten = |agent: &GraphAgent| name_font.shortened(&agent.name, NAME_WIDTH_MAX);
        let mut drawing = Self {
            picture,
            places: Vec::new(),
            height: 0.0,
            radius: (60.0 / (n_agents as f64).sqrt()).clamp(3.0, 10.0),
            name_font,
            names: named.iter().map(shorten).collect::<Result<_, _>>()?,
            spots: Vec::new(),
        };
        drawing.fit()?;
        drawing.place_names()?;
        Ok(drawing)
    }

    /// Scales the places so that agents and their names fill the picture.
    fn fit(&mut self) -> Result<(), String> {
        let mut widest = 0.0_f64;
        for name in &self.names {
            widest = widest.max(self.name_font.width(name)?);
        }
        let beside = EDGE + self.radius + widest.min(NAME_WIDTH_MAX) + 8.0;
        let above = EDGE + self.radius + 18.0;
        // Halves, as the distance of two finite numbers may not be one.
        let half = |axis: usize| {
            let values = self
                .picture
                .agents
                .iter()
                .map(move |agent| agent.place[axis] / 2.0);
            let low = values.clone().reduce(f64::min).unwrap_or(0.0);
            (low, values.reduce(f64::max).unwrap_or(0.0) - low)
        };
        let ((left, width), (top, height)) = (half(0), half(1));
        let room = WIDTH - 2.0 * beside;
        // The side that fills its room has the same scale as the other.
        let share = (width / room).max(height / HEIGHT_MAX);
        let scaled = |length: f64| if share > 0.0 { length / share } else { 0.0 };
        let first = (WIDTH - scaled(width)) / 2.0;
        let place = |agent: &GraphAgent| {
            let [x, y] = agent.place;
            (
                first + scaled(x / 2.0 - left),
                HEAD + above + scaled(y / 2.0 - top),
            )
        };
        self.places = self.picture.agents.iter().map(place).collect();
        self.height = HEAD + above + scaled(height) + above + FOOT;
        Ok(())
    }

    fn ends(&self, (a, b): (usize, usize)) -> [(f64, f64); 2] {
        [self.places[a], self.places[b]]
    }

    fn is_highlighted(&self, (a, b): (usize, usize)) -> bool {
        self.picture.agents[a].highlighted && self.picture.agents[b].highlighted
    }

    fn draw_edges<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        let edges = &self.picture.edges;
        // Many lines are thin ones, so that the agents stand out.
        let thin = (1.5 * (80.0 / edges.len().max(1) as f64).powf(0.35)).clamp(0.5, 1.5);
        let thick = 1.5 * thin + 0.75;
        for (highlighted, color, width) in [(false, PLAIN_EDGE, thin), (true, VERMILION, thick)] {
            let edges = edges.iter().copied();
            for edge in edges.filter(|edge| self.is_highlighted(*edge) == highlighted) {
                canvas.line(&self.ends(edge), color, width, &[])?;
            }
        }
        Ok(())
    }

    fn draw_agents<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        for (highlighted, color) in [(false, BLUE), (true, VERMILION)] {
            let agents = self.picture.agents.iter().zip(&self.places);
            for (_, &place) in agents.filter(|(agent, _)| agent.highlighted == highlighted) {
                canvas.disc(place, self.radius + RIM, WHITE)?;
                canvas.disc(place, self.radius, color)?;
            }
        }
        Ok(())
    }

    /// Finds places for the names of agents that do not stand around a middle.
    fn place_names(&mut self) -> Result<(), String> {
        let distance = self.radius + NAME_GAP;
        let edges = || self.picture.edges.iter().copied();
        let highlighted = edges().filter(|edge| self.is_highlighted(*edge));
        let lines = edges().chain(highlighted);
        let mut ground = Ground {
            lines: lines.map(|edge| self.ends(edge)).collect(),
            discs: self.places.clone(),
            radius: self.radius + RIM,
            names: Vec::new(),
        };
        let mut wanted = Vec::new();
        for (index, name) in self.names.iter().enumerate() {
            let (width, height) = (self.name_font.width(name)?, self.name_font.cap_height());
            let half = (WIDER * width / 2.0 + 1.0, height / 2.0 + 2.0);
            let agent = self.places[index];
            match self.picture.agents[index].outward {
                Some(outward) => ground
                    .names
                    .push(Spot::beside(agent, outward, distance, half)),
                None => wanted.push(Wanted {
                    agent,
                    distance,
                    half,
                }),
            }
        }
        self.spots = ground.place(&wanted);
        Ok(())
    }

    fn draw_names<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        // What lies below a name is faded, below all names before the first is written.
        for spot in &self.spots {
            let (from, to) = spot.corners();
            canvas.rectangle(from, to, WHITE.mix(0.85))?;
        }
        let mut spots = self.spots.iter();
        let agents = self.picture.agents.iter().zip(&self.places);
        for ((agent, &place), name) in agents.zip(&self.names) {
            if let Some(outward) = agent.outward {
                self.write_outside(name, place, outward, canvas)?;
            } else if let Some(spot) = spots.next() {
                let (x, y) = spot.middle;
                let at = (x, y + self.name_font.cap_height() / 2.0);
                canvas.text(name, at, Anchor::Middle, self.name_font)?;
            }
        }
        Ok(())
    }

    /// Writes a name outside of the circle that its agent is on.
    fn write_outside<DB: DrawingBackend>(
        &self,
        name: &str,
        (x, y): (f64, f64),
        [dx, dy]: [f64; 2],
        canvas: &Canvas<'_, DB>,
    ) -> Result<(), String> {
        let (font, gap) = (self.name_font, self.radius + NAME_GAP);
        let anchor = match dx {
            dx if dx > 0.1 => Anchor::Start,
            dx if dx < -0.1 => Anchor::End,
            _ => Anchor::Middle,
        };
        let baseline = y + gap * dy + font.cap_height() * (1.0 + dy) / 2.0;
        canvas.text(name, (x + gap * dx, baseline), anchor, font)
    }

    fn draw_legend<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        let agents = &self.picture.agents;
        let y = self.height - EDGE;
        let mut x = EDGE;
        for (highlighted, color, line, width, words) in [
            (
                true,
                VERMILION,
                VERMILION,
                3.0,
                &self.picture.highlighted_words,
            ),
            (false, BLUE, PLAIN_EDGE, 1.5, &self.picture.other_words),
        ] {
            if !agents.iter().any(|agent| agent.highlighted == highlighted) {
                continue;
            }
            let middle = y - NOTE.cap_height() / 2.0;
            canvas.line(&[(x, middle), (x + 30.0, middle)], line, width, &[])?;
            canvas.disc((x + 15.0, middle), 5.0, color)?;
            let words = NOTE.shortened(words, (WIDTH - EDGE - x - 38.0) / WIDER)?;
            canvas.text(&words, (x + 38.0, y), Anchor::Start, NOTE)?;
            x += 38.0 + WIDER * NOTE.width(&words)? + 18.0;
        }
        Ok(())
    }
}

impl Picture for Drawing<'_> {
    fn size(&self) -> (u32, u32) {
        (whole_length(WIDTH), whole_length(self.height))
    }

    fn n_panels(&self) -> usize {
        1
    }

    fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String> {
        let (width, height) = self.size();
        let corner = (f64::from(width), f64::from(height));
        canvas.rectangle((0.0, 0.0), corner, WHITE.mix(1.0))?;
        for (text, font, y) in [
            (&self.picture.title, TITLE, TITLE_AT),
            (&self.picture.facts, NOTE, FACTS_AT),
        ] {
            let text = font.shortened(text, (WIDTH - 2.0 * EDGE) / WIDER)?;
            canvas.text(&text, (EDGE, y), Anchor::Start, font)?;
        }
        self.draw_edges(canvas)?;
        self.draw_agents(canvas)?;
        self.draw_names(canvas)?;
        self.draw_legend(canvas)
    }
}
