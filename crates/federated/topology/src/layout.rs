//! Layout of agents in a figure.

use std::f64::consts::TAU;

use fedbo_streams::Stream;

use crate::Graph;
use crate::paths::UNREACHED;

/// Number of passes over all pairs of agents.
const N_PASSES: u32 = 60;
/// Step size of the last pass.
const LAST_STEP: f64 = 0.05;

/// Positions on the unit circle around the origin, clockwise, starting at the top (y grows
/// downwards).
pub fn circle(n_agents: u32) -> Vec<[f64; 2]> {
    let place = |agent: u32| {
        let angle = TAU * f64::from(agent) / f64::from(n_agents);
        [angle.sin(), -angle.cos()]
    };
    (0..n_agents).map(place).collect()
}

/// Computes positions such that distances are as close as possible to the agents' graph distances.
/// An edge has a length of about 1.
///
/// Minimizes Σ_{i<j} (‖x_i − x_j‖ / d_ij − 1)² over the positions x by stochastic gradient descent,
/// pair by pair, with steps that decrease from d_max² (Zheng, Pawar & Goodman 2018). Agents without
/// a path between them are placed a little farther apart than any connected pair. Each of the 60
/// passes costs O(n²), so the method is suitable for up to a few thousand agents.
pub fn layout(graph: &Graph, stream: &mut Stream) -> Vec<[f64; 2]> {
    let n_agents = graph.n_agents() as usize;
    let mut places = circle(graph.n_agents());
    let mut distances = vec![UNREACHED; n_agents];
    let mut pairs: Vec<(u32, u32, u32)> = Vec::new();
    for a in graph.agents() {
        distances.fill(UNREACHED);
        graph.reach(a, &mut distances);
        pairs.extend((0..a).map(|b| (a, b, distances[b as usize])));
    }
    let finite = pairs.iter().map(|pair| pair.2).filter(|d| *d != UNREACHED);
    let longest = finite.max().unwrap_or(1);
    let apart = longest + 2;
    for pair in &mut pairs {
        pair.2 = pair.2.min(apart);
    }
    let widest = f64::from(apart);
    for place in places.iter_mut().flatten() {
        *place = *place * widest / 2.0 + 0.01 * stream.normal(); // so that no two coincide
    }
    let decay = libm::log(widest * widest / LAST_STEP) / f64::from(N_PASSES - 1);
    for pass in 0..N_PASSES {
        let step = widest * widest * libm::exp(-decay * f64::from(pass));
        stream.shuffle(&mut pairs);
        for &(a, b, distance) in &pairs {
            let (a, b, distance) = (a as usize, b as usize, f64::from(distance));
            let share = (step / (distance * distance)).min(1.0);
            let [dx, dy] = [0, 1].map(|axis| places[a][axis] - places[b][axis]);
            let found = libm::hypot(dx, dy).max(1e-9);
            let pull = share * (found - distance) / (2.0 * found);
            for (axis, d) in [dx, dy].into_iter().enumerate() {
                places[a][axis] -= pull * d;
                places[b][axis] += pull * d;
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use fedbo_streams::{Purpose, Seed};

    use super::*;
    use crate::GraphSpec;

    fn between(places: &[[f64; 2]], a: u32, b: u32) -> f64 {
        let [a, b] = [places[a as usize], places[b as usize]];
        (a[0] - b[0]).hypot(a[1] - b[1])
    }

    /// A path is drawn with its graph distances, and the edges of a grid have similar lengths.
    #[test]
    fn distances_in_the_picture_are_those_of_the_graph() {
        let mut stream = Seed::new(6).stream(Purpose::TEST, 0, 0);
        let path = GraphSpec::Grid { columns: Some(1) };
        let path = path.build(12, &mut stream).unwrap();
        let places = layout(&path, &mut stream);
        for b in 0..12 {
            for a in 0..b {
                let (found, expected) = (between(&places, a, b), f64::from(b - a));
                assert!((found / expected - 1.0).abs() < 0.02, "{a} {b}: {found}");
            }
        }
        let grid = GraphSpec::Grid { columns: None };
        let grid = grid.build(49, &mut stream).unwrap();
        let places = layout(&grid, &mut stream);
        for (a, b) in grid.edges() {
            let found = between(&places, a, b);
            assert!((0.6..1.4).contains(&found), "{a} {b}: {found}");
        }
    }

    #[test]
    fn parts_stand_apart_and_every_place_is_finite() {
        let mut stream = Seed::new(7).stream(Purpose::TEST, 0, 0);
        let parts = Graph::from_edges(7, &[(0, 1), (1, 2), (3, 4), (4, 5)]).unwrap();
        let places = layout(&parts, &mut stream);
        for (a, b) in [(0, 3), (2, 5), (1, 6), (4, 6)] {
            assert!(between(&places, a, b) > 1.5);
        }
        for n_agents in [1, 2] {
            let lone = GraphSpec::Edgeless.build(n_agents, &mut stream).unwrap();
            let places = layout(&lone, &mut stream);
            assert!(places.iter().flatten().all(|place| place.is_finite()));
        }
        let top = circle(4)[0];
        assert!(top[0].abs() < 1e-12 && (top[1] + 1.0).abs() < 1e-12);
    }
}
