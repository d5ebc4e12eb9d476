//! `topology.svg` and `topology.png`: agents and the edges between them, some highlighted.
//!
//! This module draws positions, names and edges. It does not depend on graphs: the caller chooses
//! the positions and the highlighted agents. Start at [`GraphPicture`].

use std::path::{Path, PathBuf};

use plotters::style::RGBColor;

use crate::chart::axis::Axis;
use crate::chart::style::{BLUE, Glyph, NAME, Stroke, VERMILION};
use crate::chart::text::Font;
use crate::chart::{At, Chart, Key, Label, Panel, Picture, Sign, at, write};
use crate::error::ReportError;

/// Maximum number of agents for which names are drawn.
const N_NAMES_MAX: usize = 60;
/// Width of the picture, and maximum height for agents.
const WIDTH: f64 = 740.0;
const HEIGHT_MAX: f64 = 620.0;
/// Maximum width of a name.
const NAME_MAX: f64 = 160.0;
/// Distance from an agent's disc to its name.
const NAME_GAP: f64 = 6.0;
/// Colour of edges that are not highlighted.
const PLAIN_EDGE: RGBColor = RGBColor(172, 178, 184);
/// Font of names if agents are not arranged around a centre.
const SMALL_NAME: Font = Font { em: 11.5, ..NAME };

/// File names of the picture.
pub const GRAPH_FILES: [&str; 2] = ["topology.svg", "topology.png"];

/// A picture of agents and edges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphPicture {
    /// Title at the top.
    pub title: String,
    /// The text below the title.
    pub facts: String,
    /// The agents.
    pub agents: Vec<GraphAgent>,
    /// Pairs of indices into `agents`. An edge is highlighted if both of its agents are.
    pub edges: Vec<(usize, usize)>,
    /// Legend text for highlighted agents and edges.
    pub highlighted_words: String,
    /// Legend text for the other agents and edges.
    pub other_words: String,
}

/// An agent and its position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphAgent {
    /// The agent's name, drawn beside it unless there are too many agents.
    pub name: String,
    /// The agent's position in arbitrary units, x to the right and y downwards. The picture is
    /// scaled to contain all agents.
    pub place: [f64; 2],
    /// The unit vector from the agent to its name: away from the centre if agents are arranged
    /// around one. `None` puts the name where it covers the least.
    pub outward: Option<[f64; 2]>,
    /// True if the agent is highlighted.
    pub highlighted: bool,
}

impl GraphPicture {
    /// Writes [`GRAPH_FILES`] into the folder and returns their paths.
    ///
    /// # Errors
    /// Returns [`ReportError::Draw`] if an edge refers to an agent that does not exist, or a
    /// position is not finite; returns [`ReportError::Write`] if a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        write(self.check().map(|()| self.chart()), folder, GRAPH_FILES)
    }

    /// Returns the picture in memory.
    ///
    /// # Errors
    /// Returns [`ReportError::Draw`], as for [`GraphPicture::write`].
    pub fn picture(&self) -> Result<Picture, ReportError> {
        let file = GRAPH_FILES[0];
        self.check().map_err(|message| ReportError::Draw { path: file.into(), message })?;
        Ok(self.chart().picture(file))
    }

    fn chart(&self) -> Chart {
        let n_agents = self.agents.len();
        let around = self.agents.iter().any(|agent| agent.outward.is_some());
        let font = if around { NAME } else { SMALL_NAME };
        let n_names = if n_agents <= N_NAMES_MAX { n_agents } else { 0 };
        let names = self.agents[..n_names].iter().map(|agent| font.cut(&agent.name, NAME_MAX));
        let names: Vec<String> = names.collect();
        let radius = (60.0 / (n_agents as f64).sqrt()).clamp(3.0, 10.0);
        let widest = font.widest(&names);
        let (places, height) = self.places(radius + widest + 20.0, radius + 24.0);

        let mut panel = Panel {
            framed: false,
            ..Panel::new((WIDTH, height), Axis::bare(0.0, WIDTH), Axis::bare(height, 0.0))
        };
        let stands_out =
            |(a, b): &&(usize, usize)| self.agents[*a].highlighted && self.agents[*b].highlighted;
        // With many edges, lines are thin so that the agents remain visible.
        let thin = (1.5 * (80.0 / self.edges.len().max(1) as f64).powf(0.35)).clamp(0.5, 1.5);
        let plain = Stroke::solid(PLAIN_EDGE, thin);
        let thick = Stroke::solid(VERMILION, 1.5 * thin + 0.75);
        for (highlighted, stroke) in [(false, plain), (true, thick)] {
            let edges = self.edges.iter().filter(|edge| stands_out(edge) == highlighted);
            edges.for_each(|(a, b)| panel.line(vec![places[*a], places[*b]], stroke));
        }
        let mut keys = Vec::new();
        for (highlighted, color) in [(false, BLUE), (true, VERMILION)] {
            let of_kind = |(agent, _): &(&GraphAgent, &At)| agent.highlighted == highlighted;
            let discs = self.agents.iter().zip(&places).filter(of_kind).map(|(_, place)| *place);
            panel.points(discs.collect(), Glyph::disc(color), radius);
        }
        for (highlighted, color, stroke, text) in [
            (true, VERMILION, Stroke::solid(VERMILION, 3.0), &self.highlighted_words),
            (false, BLUE, Stroke::solid(PLAIN_EDGE, 1.5), &self.other_words),
        ] {
            if self.agents.iter().any(|agent| agent.highlighted == highlighted) {
                let sign = Sign::curve(stroke, Glyph::disc(color).bare());
                keys.push(Key::new(sign, text.clone()));
            }
        }
        let labels = names.into_iter().zip(&self.agents).zip(&places);
        panel.labels = labels
            .map(|((text, agent), place)| Label {
                at: *place,
                text,
                font,
                distance: radius + NAME_GAP,
                outward: agent.outward,
                below: true,
            })
            .collect();
        Chart {
            title: self.title.clone(),
            facts: self.facts.clone(),
            keys,
            panels: vec![panel],
            ..Chart::default()
        }
    }

    /// Returns the agents' positions, scaled so that agents and names fill the picture, and the
    /// picture's height.
    fn places(&self, beside: f64, above: f64) -> (Vec<At>, f64) {
        // Halve first, since the difference of two finite numbers may overflow.
        let half = |axis: usize| {
            let values = self.agents.iter().map(move |agent| agent.place[axis] / 2.0);
            let low = values.clone().reduce(f64::min).unwrap_or(0.0);
            (low, values.reduce(f64::max).unwrap_or(0.0) - low)
        };
        let ((left, width), (top, height)) = (half(0), half(1));
        // Both axes use the scale of the more constrained one.
        let share = (width / (WIDTH - 2.0 * beside)).max(height / HEIGHT_MAX);
        let scaled = |length: f64| if share > 0.0 { length / share } else { 0.0 };
        let first = (WIDTH - scaled(width)) / 2.0;
        let place = |agent: &GraphAgent| {
            let [x, y] = agent.place;
            at(first + scaled(x / 2.0 - left), above + scaled(y / 2.0 - top))
        };
        (self.agents.iter().map(place).collect(), scaled(height) + 2.0 * above)
    }

    fn check(&self) -> Result<(), String> {
        let n_agents = self.agents.len();
        if let Some((a, b)) = self.edges.iter().find(|(a, b)| *a.max(b) >= n_agents) {
            return Err(format!(
                "an edge joins the agents {a} and {b}, but there are only {n_agents}, numbered from 0"
            ));
        }
        let is_finite = |agent: &GraphAgent| {
            let numbers = agent.place.iter().chain(agent.outward.iter().flatten());
            numbers.into_iter().all(|number| number.is_finite())
        };
        match self.agents.iter().find(|agent| !is_finite(agent)) {
            Some(agent) => Err(format!("the position of the agent {:?} is not finite", agent.name)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, place: [f64; 2]) -> GraphAgent {
        GraphAgent { name: name.to_owned(), place, ..GraphAgent::default() }
    }

    /// Creates a triangle with two highlighted agents.
    fn triangle() -> GraphPicture {
        let mut agents =
            vec![agent("a & <b>", [0.0, 0.0]), agent("c", [1.0, 0.0]), agent("d", [0.0, 1.0])];
        agents[0].highlighted = true;
        agents[1].highlighted = true;
        GraphPicture {
            title: "three".to_owned(),
            facts: "3 agents, 3 edges".to_owned(),
            agents,
            edges: vec![(0, 1), (1, 2), (2, 0)],
            highlighted_words: "two of them".to_owned(),
            other_words: "other agents".to_owned(),
        }
    }

    fn written(picture: &GraphPicture) -> (String, Vec<u8>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let paths = picture.write(folder.path()).expect("a picture");
        assert_eq!(paths, GRAPH_FILES.map(|name| folder.path().join(name)));
        (
            std::fs::read_to_string(&paths[0]).expect("the SVG"),
            std::fs::read(&paths[1]).expect("the PNG"),
        )
    }

    #[test]
    fn both_files_hold_all_agents_edges_and_words() {
        let (svg, png) = written(&triangle());
        assert!(png.starts_with(b"\x89PNG"));
        for words in ["three", "3 agents, 3 edges", "two of them", "other agents"] {
            assert!(svg.contains(words), "{words}");
        }
        // Each name occurs once, so that a reader can search for it.
        assert_eq!(svg.matches("a &amp; &lt;b&gt;").count(), 1);
        // Three edges and two lines in the legend; three discs, each with a white rim, and two in
        // the legend.
        assert_eq!(svg.matches("<polyline").count(), 5);
        assert_eq!(svg.matches("<circle").count(), 8);
        let highlighted = |shape: &str| {
            let of_shape = svg.lines().filter(|line| line.contains(shape));
            of_shape.filter(|line| line.contains("#D55E00")).count()
        };
        // One edge and two agents, and their legend entry.
        assert_eq!((highlighted("<polyline"), highlighted("<circle")), (2, 3));
    }

    #[test]
    fn the_legend_names_only_what_is_there() {
        let mut picture = triangle();
        for agent in &mut picture.agents {
            agent.highlighted = true;
        }
        let (svg, _) = written(&picture);
        assert!(svg.contains("two of them") && !svg.contains("other agents"));
        for agent in &mut picture.agents {
            agent.highlighted = false;
        }
        let (svg, _) = written(&picture);
        assert!(!svg.contains("two of them") && svg.contains("other agents"));
    }

    /// Covers no agent, one agent, coincident agents, collinear agents, huge and tiny coordinates,
    /// and too many agents for names.
    #[test]
    fn awkward_places_are_drawn_too() {
        let crowd = |n: usize, place: &dyn Fn(f64) -> [f64; 2]| GraphPicture {
            agents: (0..n).map(|i| agent("x", place(i as f64))).collect(),
            edges: (1..n).map(|i| (i - 1, i)).collect(),
            ..GraphPicture::default()
        };
        for (picture, n_names) in [
            (crowd(0, &|_| [0.0; 2]), 0),
            (crowd(1, &|_| [5.0, -3.0]), 1),
            (crowd(3, &|_| [1.0; 2]), 3),
            (crowd(9, &|i| [0.0, i]), 9),
            (crowd(4, &|i| [i * 1e300, -i * 1e-300]), 4),
            (crowd(4, &|i| [i * 1e-300, i * i * 1e-300]), 4),
            (crowd(61, &|i| [i.cos(), i.sin()]), 0),
        ] {
            let (svg, png) = written(&picture);
            assert!(png.starts_with(b"\x89PNG"));
            assert!(!svg.contains("NaN") && !svg.contains("2147483647"), "{svg}");
            let names = svg.lines().filter(|line| *line == "x").count();
            assert_eq!(names, n_names, "{svg}");
        }
    }

    /// In tests, the layout itself asserts that names do not overlap.
    #[test]
    fn names_around_a_middle_stand_outside() {
        let around = |n: u32| {
            let agents = (0..n).map(|i| {
                let (y, x) = (std::f64::consts::TAU * f64::from(i) / f64::from(n)).sin_cos();
                GraphAgent { outward: Some([x, y]), ..agent(&format!("agent-number-{i}"), [x, y]) }
            });
            GraphPicture {
                agents: agents.collect(),
                edges: (0..n as usize).map(|i| (i, (i * 7 + 3) % n as usize)).collect(),
                ..triangle()
            }
        };
        for n in [1, 2, 5, 12, 30] {
            let (svg, _) = written(&around(n));
            let discs = crate::chart::svg::discs(&svg, "#0072B2");
            let right = discs.iter().map(|at| at.0).fold(0.0, f64::max);
            assert!(crate::chart::svg::at_of(&svg, "agent-number-0").0 > right, "{n}");
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_named() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let message = |picture: &GraphPicture| {
            let error = picture.write(folder.path()).expect_err("no picture");
            assert!(matches!(error, ReportError::Draw { .. }), "{error:?}");
            error.to_string()
        };
        let mut picture = triangle();
        picture.edges.push((1, 3));
        assert!(message(&picture).contains("the agents 1 and 3, but there are only 3"));
        let mut picture = triangle();
        picture.agents[2].place[1] = f64::NAN;
        assert!(message(&picture).contains("\"d\""));
        assert!(!folder.path().join("topology.svg").exists());
        let error = triangle().write(Path::new("/nonexistent"));
        assert!(matches!(error, Err(ReportError::Write { .. })));
    }
}
