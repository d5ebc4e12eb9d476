//! Connected random graphs, drawn by rejection sampling.

use std::collections::BTreeSet;

use fedbo_streams::Stream;

use crate::graph::check_edges;
use crate::{Edge, GraphError};

/// Maximum number of draws before giving up.
const N_DRAWS_MAX: u32 = 1_000;
/// If more isolated agents than this are expected, no graph is drawn: only about one draw in e^25
/// would have none.
const ISOLATED_MAX: f64 = 25.0;

/// G(n, p) conditional on connectedness: edges are independent with probability p (Gilbert 1959).
///
/// The gaps between edges are geometrically distributed, so a draw costs O(n + |E|) (Batagelj &
/// Brandes 2005).
pub(crate) fn erdos_renyi(
    n_agents: u32,
    edge_prob: f64,
    stream: &mut Stream,
) -> Result<Vec<Edge>, GraphError> {
    if !(edge_prob > 0.0 && edge_prob <= 1.0) {
        return Err(GraphError::EdgeProb { edge_prob });
    }
    let n = f64::from(n_agents);
    let mean_edges = edge_prob * n * (n - 1.0) / 2.0;
    check_edges(rounded(mean_edges))?;
    let isolated = n * libm::exp((n - 1.0) * libm::log1p(-edge_prob));
    let enough = enough_prob(n);
    if n_agents > 1 && isolated > ISOLATED_MAX {
        return Err(GraphError::TooSparse {
            edge_prob,
            isolated: rounded(isolated),
            n_agents,
            enough,
        });
    }
    connected(n_agents, || gilbert(n_agents, edge_prob, stream)).ok_or_else(|| {
        GraphError::NotConnected {
            n_draws: N_DRAWS_MAX,
            remedy: format!("raise edge_prob; most are connected from {enough} on"),
        }
    })
}

/// Returns the edge probability at which half an isolated agent is expected, n (1 − p)^(n−1) = 1/2,
/// rounded up to two significant digits.
fn enough_prob(n: f64) -> f64 {
    let exact = -libm::expm1(libm::log(0.5 / n) / (n - 1.0).max(1.0));
    let unit = libm::pow(10.0, libm::floor(libm::log10(exact)) - 1.0);
    let digits = libm::ceil(exact / unit);
    // Dividing by an integer power of ten gives the float nearest to the decimal number.
    (digits / libm::rint(1.0 / unit)).min(1.0)
}

fn gilbert(n_agents: u32, edge_prob: f64, stream: &mut Stream) -> Vec<Edge> {
    let log_absent = libm::log1p(-edge_prob);
    let n = u64::from(n_agents);
    let mut edges = Vec::new();
    // Visits pairs (a, b) with a < b, ordered by b, then a.
    let (mut a, mut b) = (0_u64, 1_u64);
    while b < n {
        let gap = libm::floor(libm::log1p(-stream.uniform()) / log_absent);
        a = a.saturating_add(saturated(gap));
        while a >= b && b < n {
            a -= b;
            b += 1;
        }
        if b < n {
            edges.push((small(a), small(b)));
            a += 1;
        }
        while a >= b && b < n {
            a -= b;
            b += 1;
        }
    }
    edges
}

/// A ring lattice of this degree in which one end of each edge is rewired with probability
/// `rewiring`, conditional on connectedness (Watts & Strogatz 1998).
pub(crate) fn small_world(
    n_agents: u32,
    degree: u32,
    rewiring: f64,
    stream: &mut Stream,
) -> Result<Vec<Edge>, GraphError> {
    if degree < 2 || !degree.is_multiple_of(2) || degree >= n_agents {
        return Err(GraphError::Degree { degree, n_agents });
    }
    if !(0.0..=1.0).contains(&rewiring) {
        return Err(GraphError::Rewiring { rewiring });
    }
    check_edges(u64::from(n_agents) * u64::from(degree / 2))?;
    connected(n_agents, || watts_strogatz(n_agents, degree, rewiring, stream)).ok_or_else(|| {
        GraphError::NotConnected {
            n_draws: N_DRAWS_MAX,
            remedy: "raise degree, or lower rewiring".to_owned(),
        }
    })
}

fn watts_strogatz(n_agents: u32, degree: u32, rewiring: f64, stream: &mut Stream) -> Vec<Edge> {
    let n = n_agents as usize;
    let mut neighbours = vec![BTreeSet::new(); n];
    let lattice = |step: u32| (0..n_agents).map(move |a| (a, (a + step) % n_agents));
    for (a, b) in (1..=degree / 2).flat_map(lattice) {
        neighbours[a as usize].insert(b);
        neighbours[b as usize].insert(a);
    }
    for (a, b) in (1..=degree / 2).flat_map(lattice) {
        let has_room = neighbours[a as usize].len() < n - 1;
        if !(stream.bernoulli(rewiring) && has_room) {
            continue;
        }
        let other = loop {
            let other = small(stream.below(n) as u64);
            if other != a && !neighbours[a as usize].contains(&other) {
                break other;
            }
        };
        neighbours[a as usize].remove(&b);
        neighbours[b as usize].remove(&a);
        neighbours[a as usize].insert(other);
        neighbours[other as usize].insert(a);
    }
    let later = |(a, of_a): (u32, &BTreeSet<u32>)| -> Vec<Edge> {
        of_a.range(a..).map(|b| (a, *b)).collect()
    };
    (0..n_agents).zip(&neighbours).flat_map(later).collect()
}

/// Returns the first connected graph among [`N_DRAWS_MAX`] draws.
fn connected(n_agents: u32, mut draw: impl FnMut() -> Vec<Edge>) -> Option<Vec<Edge>> {
    let is_connected = |edges: &Vec<Edge>| {
        // Union-find with path halving.
        let mut parents: Vec<u32> = (0..n_agents).collect();
        let mut n_parts = n_agents;
        for &(a, b) in edges {
            let mut root = |mut agent: u32| {
                while parents[agent as usize] != agent {
                    let above = parents[agent as usize];
                    parents[agent as usize] = parents[above as usize];
                    agent = above;
                }
                agent
            };
            let (a, b) = (root(a), root(b));
            if a != b {
                parents[a as usize] = b;
                n_parts -= 1;
            }
        }
        n_parts == 1
    };
    (0..N_DRAWS_MAX).map(|_| draw()).find(is_connected)
}

fn small(agent: u64) -> u32 {
    u32::try_from(agent).expect("agents are numbered by 32 bits")
}

fn rounded(value: f64) -> u64 {
    saturated(value.round())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates at both ends"
)]
fn saturated(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use fedbo_streams::{Purpose, Seed};

    use super::*;
    use crate::{Graph, GraphSpec};

    fn stream(index: u64) -> Stream {
        Seed::new(11).stream(Purpose::TEST, index, 0)
    }

    /// Over 20,000 draws, each of the 10 pairs of 5 agents is adjacent with frequency p, and two
    /// given pairs together with frequency p², within five standard errors.
    #[test]
    fn edges_are_independent_with_the_given_probability() {
        let (n_draws, p) = (20_000, 0.3);
        let mut stream = stream(0);
        let mut counts = [[0_u32; 5]; 5];
        let mut both = 0_u32;
        for _ in 0..n_draws {
            let edges = gilbert(5, p, &mut stream);
            for &(a, b) in &edges {
                assert!(a < b && b < 5);
                counts[a as usize][b as usize] += 1;
            }
            both += u32::from(edges.contains(&(0, 1)) && edges.contains(&(3, 4)));
        }
        let check = |count: u32, p: f64| {
            let share = f64::from(count) / f64::from(n_draws);
            let error = (p * (1.0 - p) / f64::from(n_draws)).sqrt();
            assert!((share - p).abs() < 5.0 * error, "{share} for {p}");
        };
        for b in 0..5 {
            for row in &counts[..b] {
                check(row[b], p);
            }
        }
        check(both, p * p);
    }

    #[test]
    fn random_graphs_are_connected_and_depend_on_the_stream_alone() {
        let sparse = GraphSpec::ErdosRenyi { edge_prob: 0.12 };
        let world = GraphSpec::SmallWorld { degree: 2, rewiring: 0.6 };
        for spec in [sparse, world] {
            let draw = |index| spec.build(30, &mut stream(index)).expect("a graph");
            for index in 0..20 {
                assert!(draw(index).is_connected());
                assert_eq!(draw(index), draw(index));
            }
            assert_ne!(draw(0), draw(1));
        }
        assert_eq!(gilbert(30, 1.0, &mut stream(2)).len(), 435);
        let single = GraphSpec::ErdosRenyi { edge_prob: 0.1 }.build(1, &mut stream(0));
        assert_eq!(single.map(|graph| graph.n_edges()), Ok(0));
    }

    #[test]
    fn a_small_world_keeps_its_edges_and_moves_a_share_of_them() {
        let (n, degree) = (200, 6);
        let moved = |rewiring: f64| {
            let edges = watts_strogatz(n, degree, rewiring, &mut stream(4));
            let graph = Graph::from_edges(n, &edges).expect("a simple graph");
            assert_eq!(graph.n_edges(), 600);
            let far = |(a, b): &Edge| (b - a).min(n + a - b) > degree / 2;
            graph.edges().filter(far).count()
        };
        assert_eq!(moved(0.0), 0);
        // Each of 600 edges is moved with probability 0.3, and then ends at a distant agent with a
        // probability of 193/199 or slightly more.
        let share = 180.0 * 193.0 / 199.0;
        let some = f64::from(u32::try_from(moved(0.3)).expect("at most 600"));
        assert!((some - share).abs() < 5.0 * 126_f64.sqrt(), "{some}");
    }

    #[test]
    fn what_cannot_be_connected_is_refused_with_a_way_out() {
        let error = erdos_renyi(1_000, 0.001, &mut stream(0)).expect_err("too sparse");
        let GraphError::TooSparse { enough, .. } = error else {
            panic!("{error}");
        };
        assert!(erdos_renyi(1_000, enough, &mut stream(0)).is_ok(), "{enough}");
        assert!(error.to_string().contains("0.0076"), "{error}");
        let error = erdos_renyi(20, 0.02, &mut stream(0)).expect_err("too sparse");
        let message = error.to_string();
        assert!(message.contains("none of 1000") && message.contains("from 0.18 on"), "{message}");
    }
}
