//! Connected components and shortest paths.

use std::collections::VecDeque;

use crate::Graph;

/// Distance that marks an unreachable agent.
pub(crate) const UNREACHED: u32 = u32::MAX;

impl Graph {
    /// Returns the connected components, ordered by their first agents. The agents in each are in
    /// ascending order. Costs O(n + |E|).
    pub fn components(&self) -> Vec<Vec<u32>> {
        let mut distances = vec![UNREACHED; self.n_agents() as usize];
        let mut components = Vec::new();
        for agent in self.agents() {
            if distances[agent as usize] == UNREACHED {
                let mut component = self.reach(agent, &mut distances);
                component.sort_unstable();
                components.push(component);
            }
        }
        components
    }

    /// Returns true if there is a path between every two agents.
    pub fn is_connected(&self) -> bool {
        let mut distances = vec![UNREACHED; self.n_agents() as usize];
        self.reach(0, &mut distances).len() == distances.len()
    }

    /// Returns the graph distance from this agent to each agent, or `None` if there is no path.
    /// Costs O(n + |E|).
    ///
    /// # Panics
    /// If there is no such agent.
    pub fn distances(&self, agent: u32) -> Vec<Option<u32>> {
        let mut distances = vec![UNREACHED; self.n_agents() as usize];
        self.reach(agent, &mut distances);
        let known = |distance| (distance != UNREACHED).then_some(distance);
        distances.into_iter().map(known).collect()
    }

    /// Returns the largest distance between two agents, or `None` if the graph is not connected.
    ///
    /// A breadth-first search from agent v bounds all eccentricities: e(w) ≤ d(v, w) + e(v). Each
    /// search starts at the agent with the largest bound. The algorithm stops when no bound exceeds
    /// the largest eccentricity found so far (Takes & Kosters 2011). Most graphs need few searches.
    /// A ring needs one per agent, which costs O(n²).
    pub fn diameter(&self) -> Option<u32> {
        let n_agents = self.n_agents() as usize;
        let mut bounds = vec![UNREACHED; n_agents];
        let mut distances = vec![UNREACHED; n_agents];
        let mut diameter = 0;
        loop {
            let (agent, bound) = self.widest(&bounds);
            if bound <= diameter {
                return Some(diameter);
            }
            distances.fill(UNREACHED);
            if self.reach(agent, &mut distances).len() < n_agents {
                return None;
            }
            let eccentricity = distances.iter().copied().max().unwrap_or(0);
            diameter = diameter.max(eccentricity);
            for (bound, distance) in bounds.iter_mut().zip(&distances) {
                *bound = (*bound).min(eccentricity + distance);
            }
            bounds[agent as usize] = eccentricity;
        }
    }

    /// Returns the agent with the largest bound, and the bound. The agent with the most neighbours
    /// wins a tie.
    fn widest(&self, bounds: &[u32]) -> (u32, u32) {
        let widest =
            self.agents().max_by_key(|agent| (bounds[*agent as usize], self.degree(*agent)));
        widest.map_or((0, 0), |agent| (agent, bounds[agent as usize]))
    }

    /// Fills in the distances of all agents reachable from `agent`. Returns these agents, nearest
    /// first.
    pub(crate) fn reach(&self, agent: u32, distances: &mut [u32]) -> Vec<u32> {
        let mut reached = vec![agent];
        let mut queue = VecDeque::from([agent]);
        distances[agent as usize] = 0;
        while let Some(at) = queue.pop_front() {
            let distance = distances[at as usize] + 1;
            for &next in self.neighbours(at) {
                if distances[next as usize] == UNREACHED {
                    distances[next as usize] = distance;
                    reached.push(next);
                    queue.push_back(next);
                }
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::tests::all_graphs;

    /// Distances by the Floyd–Warshall algorithm. `None` means no path.
    #[expect(clippy::needless_range_loop, reason = "follows the published algorithm")]
    fn all_distances(graph: &Graph) -> Vec<Vec<Option<u32>>> {
        let n = graph.n_agents() as usize;
        let mut d = vec![vec![None; n]; n];
        for (a, b) in graph.edges() {
            d[a as usize][b as usize] = Some(1);
            d[b as usize][a as usize] = Some(1);
        }
        for i in 0..n {
            d[i][i] = Some(0);
        }
        for k in 0..n {
            for i in 0..n {
                for j in 0..n {
                    if let (Some(first), Some(second)) = (d[i][k], d[k][j])
                        && d[i][j].is_none_or(|known| first + second < known)
                    {
                        d[i][j] = Some(first + second);
                    }
                }
            }
        }
        d
    }

    /// Covers every graph with at most 5 agents.
    #[test]
    fn paths_agree_with_floyd_and_warshall() {
        for graph in (1..=5).flat_map(all_graphs) {
            let expected = all_distances(&graph);
            let longest = expected.iter().flatten().copied().collect::<Option<Vec<_>>>();
            assert_eq!(graph.diameter(), longest.and_then(|all| all.into_iter().max()));
            assert_eq!(graph.is_connected(), graph.components().len() == 1);
            for agent in graph.agents() {
                assert_eq!(graph.distances(agent), expected[agent as usize]);
            }
            for component in graph.components() {
                for agent in graph.agents() {
                    let reaches = expected[component[0] as usize][agent as usize].is_some();
                    assert_eq!(reaches, component.contains(&agent));
                }
            }
        }
    }
}
