//! Clique search in small subgraphs, by branch and bound on bit sets.

use crate::Graph;

/// The work that a search has left, in bit-set words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    left: u64,
}

impl Work {
    pub(crate) fn new(words: u64) -> Self {
        Self { left: words }
    }

    pub(crate) fn is_spent(self) -> bool {
        self.left == 0
    }

    pub(crate) fn spend(&mut self, words: usize) {
        self.left = self.left.saturating_sub(words as u64);
    }
}

/// An induced subgraph as a bit matrix. Agents with the most neighbours in the subgraph come first.
pub(crate) struct Subgraph {
    agents: Vec<u32>,
    n_words: usize,
    rows: Vec<u64>,
}

/// One level of the search tree: the candidates and the order in which they are tried.
struct Level {
    candidates: Vec<u64>,
    /// Candidates with their colours, in ascending order of colour. Candidates are omitted if their
    /// colour is too small to lead to a larger clique.
    colored: Vec<(u32, u32)>,
}

impl Subgraph {
    /// Returns the subgraph induced by these distinct agents. `places` is scratch space. It must
    /// hold `u32::MAX` for every agent of the graph, and is restored to that state.
    pub(crate) fn of(graph: &Graph, agents: &[u32], places: &mut [u32], work: &mut Work) -> Self {
        let mut agents = agents.to_vec();
        let degrees = |agents: &[u32], places: &mut [u32]| -> Vec<usize> {
            for &agent in agents {
                places[agent as usize] = 0;
            }
            let inside = |agent: &&u32| places[**agent as usize] != u32::MAX;
            let degree = |agent: &u32| graph.neighbours(*agent).iter().filter(inside).count();
            agents.iter().map(degree).collect()
        };
        let mut order: Vec<(usize, u32)> =
            degrees(&agents, places).into_iter().zip(agents.iter().copied()).collect();
        order.sort_unstable_by_key(|(degree, agent)| (usize::MAX - degree, *agent));
        agents.clear();
        agents.extend(order.iter().map(|(_, agent)| *agent));
        for (place, agent) in (0_u32..).zip(&agents) {
            places[*agent as usize] = place;
        }
        let n_words = agents.len().div_ceil(64);
        let mut rows = vec![0; n_words * agents.len()];
        for (agent, row) in agents.iter().zip(rows.chunks_exact_mut(n_words.max(1))) {
            work.spend(graph.degree(*agent));
            for neighbour in graph.neighbours(*agent) {
                let place = places[*neighbour as usize];
                if place != u32::MAX {
                    row[place as usize / 64] |= 1 << (place % 64);
                }
            }
        }
        for agent in &agents {
            places[*agent as usize] = u32::MAX;
        }
        work.spend(rows.len());
        Self { agents, n_words, rows }
    }

    fn row(&self, place: u32) -> &[u64] {
        &self.rows[place as usize * self.n_words..][..self.n_words]
    }

    /// Returns all agents of the subgraph, as the candidate set of a search.
    pub(crate) fn all(&self) -> Vec<u64> {
        let mut all = vec![0_u64; self.n_words];
        for place in 0..self.agents.len() {
            all[place / 64] |= 1 << (place % 64);
        }
        all
    }

    /// Returns the agents adjacent to both agents at these positions.
    pub(crate) fn common(&self, a: u32, b: u32) -> Vec<u64> {
        let both = self.row(a).iter().zip(self.row(b));
        both.map(|(a, b)| a & b).collect()
    }

    /// Returns the agents of the subgraph, in order of position.
    pub(crate) fn agents(&self) -> &[u32] {
        &self.agents
    }

    /// Finds a clique of more than `size` agents among the candidates: the largest, or the first
    /// with at least `enough` agents. Returns `None` if there is none.
    ///
    /// The caller must check `work` afterwards. If it is spent, the search did not complete.
    /// Colours are assigned greedily so that neighbours differ. Agents with k colours contain no
    /// clique larger than k (Tomita & Seki 2003; San Segundo et al. 2011).
    pub(crate) fn clique_above(
        &self,
        candidates: Vec<u64>,
        size: usize,
        enough: usize,
        work: &mut Work,
    ) -> Option<Vec<u32>> {
        let (mut best, mut found) = (size, None);
        let mut chosen: Vec<u32> = Vec::new();
        let mut levels = vec![self.level(candidates, best, work)];
        while let Some(level) = levels.last_mut() {
            let next = match level.colored.pop() {
                Some((place, color)) if chosen.len() + color as usize > best => Some(place),
                _ => None,
            };
            let (Some(place), false) = (next, work.is_spent()) else {
                levels.pop();
                chosen.pop();
                continue;
            };
            level.candidates[place as usize / 64] &= !(1 << (place % 64));
            let joint = level.candidates.iter().zip(self.row(place));
            let joint: Vec<u64> = joint.map(|(a, b)| a & b).collect();
            work.spend(self.n_words);
            chosen.push(place);
            if joint.iter().any(|word| *word != 0) {
                let needed = best.saturating_sub(chosen.len());
                levels.push(self.level(joint, needed, work));
                continue;
            }
            if chosen.len() > best {
                best = chosen.len();
                found = Some(chosen.clone());
                if best >= enough {
                    break;
                }
            }
            chosen.pop();
        }
        let places = found?;
        Some(places.iter().map(|p| self.agents[*p as usize]).collect())
    }

    /// Colours the candidates. A clique of more than `needed` agents always contains a candidate
    /// with a colour above `needed`, so only those are tried.
    fn level(&self, candidates: Vec<u64>, needed: usize, work: &mut Work) -> Level {
        let mut uncolored = candidates.clone();
        let mut colored = Vec::new();
        let mut color = 0_u32;
        let mut first = 0;
        let mut free = vec![0; self.n_words];
        loop {
            while first < self.n_words && uncolored[first] == 0 {
                first += 1;
            }
            if first == self.n_words {
                return Level { candidates, colored };
            }
            color += 1;
            free[first..].copy_from_slice(&uncolored[first..]);
            for word in first..self.n_words {
                while free[word] != 0 {
                    let bit = free[word].trailing_zeros();
                    let place = u32::try_from(64 * word).unwrap_or(u32::MAX) + bit;
                    free[word] &= free[word] - 1;
                    uncolored[word] &= !(1 << bit);
                    let row = &self.row(place)[word..];
                    for (free, joined) in free[word..].iter_mut().zip(row) {
                        *free &= !joined;
                    }
                    if color as usize > needed {
                        colored.push((place, color));
                    }
                    work.spend(self.n_words - word + 3);
                }
            }
        }
    }
}
