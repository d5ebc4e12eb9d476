//! The picture of a graph: positions and labels of its agents.

use fedbo_report::{GraphAgent, GraphPicture};
use fedbo_streams::Seed;
use fedbo_topology::{Clique, Graph, circle, layout};

use crate::graph::GraphSource;
use fedbo_console::text::counted;

/// Number of agents from which positions follow graph distances instead of a circle.
const N_CIRCLE_MAX: u32 = 30;
const N_AGENTS_MAX: u32 = 1_000;
const N_EDGES_MAX: usize = 20_000;

/// Returns an explanation if a graph is too large to draw.
pub fn too_large(graph: &Graph) -> Option<String> {
    (graph.n_agents() > N_AGENTS_MAX || graph.n_edges() > N_EDGES_MAX).then(|| {
        format!(
            "{} agents and {} edges would not be told apart; at most {N_AGENTS_MAX} and {N_EDGES_MAX} are drawn",
            graph.n_agents(),
            graph.n_edges()
        )
    })
}

/// Creates the picture of a graph with a highlighted clique.
pub fn of(source: &GraphSource, clique: &Clique) -> GraphPicture {
    let graph = &source.graph;
    let members = clique.members();
    let agents = graph.agents().zip(places(graph));
    let agents = agents.map(|(agent, (place, outward))| GraphAgent {
        name: source.agent(agent).to_owned(),
        place,
        outward,
        highlighted: members.binary_search(&agent).is_ok(),
    });
    let size = counted(clique.size() as u64, "agent");
    GraphPicture {
        title: source.name.clone(),
        facts: format!(
            "{}: {}, {}",
            source.words,
            counted(graph.n_agents().into(), "agent"),
            counted(graph.n_edges() as u64, "edge")
        ),
        agents: agents.collect(),
        edges: graph.edges().map(|(a, b)| (a as usize, b as usize)).collect(),
        highlighted_words: match clique.is_exact() {
            true => format!("largest clique: {size}"),
            false => format!("largest clique found: {size}"),
        },
        other_words: "other agents".to_owned(),
    }
}

/// Returns the position of each agent and, for agents on a circle, the direction from the circle's
/// centre.
fn places(graph: &Graph) -> Vec<([f64; 2], Option<[f64; 2]>)> {
    if graph.n_agents() < N_CIRCLE_MAX {
        let outward = around(graph).into_iter();
        return outward.map(|place| (place.unwrap_or([0.0; 2]), place)).collect();
    }
    let mut stream = Seed::new(0).stream(fedbo_topology::TOPOLOGY, 1, 0);
    let places = upright(graph, layout(graph, &mut stream)).into_iter();
    places.map(|place| (place, None)).collect()
}

/// Places agents on a circle, with the first agent at the top. If the graph is a star, its centre,
/// which is joined to all other agents, is placed in the middle.
fn around(graph: &Graph) -> Vec<Option<[f64; 2]>> {
    let n_agents = graph.n_agents();
    let is_hub = |agent: &u32| graph.degree(*agent) + 1 == n_agents as usize;
    let hub = match graph.agents().filter(is_hub).collect::<Vec<_>>()[..] {
        [hub] if n_agents > 3 => hub,
        _ => return circle(n_agents).into_iter().map(Some).collect(),
    };
    let mut places: Vec<_> = circle(n_agents - 1).into_iter().map(Some).collect();
    places.insert(hub as usize, None);
    places
}

/// Rotates a layout so that as many edges as possible are horizontal or vertical, the picture is
/// wider than high, and the first agent is in the upper left quarter.
fn upright(graph: &Graph, places: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    // Multiplying angles by four maps perpendicular edges to the same direction.
    let (mut along, mut across) = (0.0, 0.0);
    for (a, b) in graph.edges() {
        let ([ax, ay], [bx, by]) = (places[a as usize], places[b as usize]);
        let angle = 4.0 * (by - ay).atan2(bx - ax);
        along += angle.cos();
        across += angle.sin();
    }
    let (sin, cos) = (across.atan2(along) / 4.0).sin_cos();
    let mut turned: Vec<[f64; 2]> =
        places.into_iter().map(|[x, y]| [cos * x + sin * y, cos * y - sin * x]).collect();
    let extent = |axis: usize, places: &[[f64; 2]]| {
        let values = places.iter().map(|place| place[axis]);
        let low = values.clone().fold(f64::INFINITY, f64::min);
        (low, values.fold(f64::NEG_INFINITY, f64::max))
    };
    let ((left, right), (top, bottom)) = (extent(0, &turned), extent(1, &turned));
    if bottom - top > right - left {
        for place in &mut turned {
            place.swap(0, 1);
        }
    }
    for axis in [0, 1] {
        let (low, high) = extent(axis, &turned);
        if turned[0][axis] > f64::midpoint(low, high) {
            for place in &mut turned {
                place[axis] = low + high - place[axis];
            }
        }
    }
    turned
}

#[cfg(test)]
mod tests {
    use fedbo_topology::GraphSpec;

    use super::*;

    fn graph(spec: &GraphSpec, n_agents: u32) -> Graph {
        let mut unused = Seed::new(0).stream(fedbo_topology::TOPOLOGY, 0, 0);
        spec.build(n_agents, &mut unused).expect("a graph")
    }

    #[test]
    fn the_hub_of_a_star_stands_in_the_middle_and_the_others_around_it() {
        let graph = graph(&GraphSpec::Star, 6);
        let places = places(&graph);
        assert_eq!(places[0], ([0.0, 0.0], None));
        for (place, outward) in &places[1..] {
            assert_eq!(Some(*place), *outward);
            assert!((place[0].hypot(place[1]) - 1.0).abs() < 1e-12, "{place:?}");
        }
    }

    /// Neighbours in a large grid are placed side by side or one above the other, and the first
    /// agent is in the upper left.
    #[test]
    fn a_grid_stands_upright() {
        let graph = graph(&GraphSpec::Grid { columns: Some(6) }, 36);
        let places = places(&graph);
        for (a, b) in graph.edges() {
            let ([ax, ay], [bx, by]) = (places[a as usize].0, places[b as usize].0);
            let (wide, high) = ((bx - ax).abs(), (by - ay).abs());
            assert!(wide.min(high) < 0.15 * wide.max(high), "{a} and {b}: {wide} {high}");
        }
        let [x, y] = places[0].0;
        assert!(places[35].0[0] > x && places[35].0[1] > y);
    }
}
