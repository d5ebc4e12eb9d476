//! `topology.svg` and `topology.png`: agents, who is joined to whom, and some of them in another colour.
//!
//! Decides how places, names and edges become a picture. Knows nothing of graphs: where agents stand and which ones stand out is
//! the caller's choice. Start at [`GraphPicture`].

mod drawing;
mod names;

use std::path::{Path, PathBuf};

use self::drawing::Drawing;
use crate::error::ReportError;
use crate::plot::canvas::register_fonts;
use crate::plot::render::{draw_error, write_png, write_svg};

/// Names of the picture's files.
pub const GRAPH_FILES: [&str; 2] = ["topology.svg", "topology.png"];

/// A picture of agents and edges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphPicture {
    /// Title above everything.
    pub title: String,
    /// The text below the title.
    pub facts: String,
    /// The agents.
    pub agents: Vec<GraphAgent>,
    /// Pairs of indices into `agents`. An edge is highlighted where both of its agents are.
    pub edges: Vec<(usize, usize)>,
    /// The legend's text for highlighted agents and edges.
    pub highlighted_words: String,
    /// The legend's text for the others.
    pub other_words: String,
}

/// An agent at its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphAgent {
    /// Its name, which stands beside it where the agents are few enough for names.
    pub name: String,
    /// Its place, in any unit, x to the right and y downwards: the picture is scaled so that all fill it.
    pub place: [f64; 2],
    /// The direction, of length 1, in which its name stands: away from the middle where agents stand around one. None: the name
    /// stands wherever it covers least.
    pub outward: Option<[f64; 2]>,
    /// True if it is highlighted.
    pub highlighted: bool,
}

impl GraphPicture {
    /// Writes [`GRAPH_FILES`] into the folder and returns their paths.
    ///
    /// # Errors
    /// [`ReportError::Draw`] when an edge joins an agent that is not there, or a place is not finite; [`ReportError::Write`] when a
    /// file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        let [svg, png] = GRAPH_FILES.map(|name| folder.join(name));
        let drawing = register_fonts()
            .and_then(|()| self.check())
            .and_then(|()| Drawing::of(self))
            .map_err(|message| draw_error(&svg, message))?;
        write_svg(&drawing, &svg)?;
        write_png(&drawing, &png)?;
        Ok(vec![svg, png])
    }

    fn check(&self) -> Result<(), String> {
        let n_agents = self.agents.len();
        if let Some((a, b)) = self.edges.iter().find(|(a, b)| *a.max(b) >= n_agents) {
            return Err(format!(
                "an edge joins the agents {a} and {b}, and there are {n_agents}, numbered from 0"
            ));
        }
        let is_finite = |agent: &GraphAgent| {
            let numbers = agent.place.iter().chain(agent.outward.iter().flatten());
            numbers.into_iter().all(|number| number.is_finite())
        };
        match self.agents.iter().find(|agent| !is_finite(agent)) {
            Some(agent) => Err(format!(
                "the place of the agent {:?} is not a finite number",
                agent.name
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, place: [f64; 2]) -> GraphAgent {
        GraphAgent {
            name: name.to_owned(),
            place,
            ..GraphAgent::default()
        }
    }

    /// A triangle, two of whose agents stand out.
    fn triangle() -> GraphPicture {
        let mut agents = vec![
            agent("a & <b>", [0.0, 0.0]),
            agent("c", [1.0, 0.0]),
            agent("d", [0.0, 1.0]),
        ];
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
        // Each name once: a reader can search for it.
        assert_eq!(svg.matches("a &amp; &lt;b&gt;").count(), 1);
        // Three edges and two lines of the legend; three discs, each with its white rim, and two of the legend.
        assert_eq!(svg.matches("<polyline").count(), 5);
        assert_eq!(svg.matches("<circle").count(), 8);
        let highlighted = |shape: &str| {
            let of_shape = svg.lines().filter(|line| line.contains(shape));
            of_shape.filter(|line| line.contains("#D55E00")).count()
        };
        // One edge and two agents, and their line of the legend.
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

    /// Nobody, one agent, all in one place, all on a line, huge and tiny coordinates, and too many agents for names.
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
        assert!(message(&picture).contains("the agents 1 and 3, and there are 3"));
        let mut picture = triangle();
        picture.agents[2].place[1] = f64::NAN;
        assert!(message(&picture).contains("\"d\""));
        assert!(!folder.path().join("topology.svg").exists());
        let error = triangle().write(Path::new("/nonexistent"));
        assert!(matches!(error, Err(ReportError::Write { .. })));
    }
}
