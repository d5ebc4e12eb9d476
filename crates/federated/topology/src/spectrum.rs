//! The Laplacian spectrum of a graph, a measure of how fast information spreads.

use faer::linalg::solvers::SelfAdjointEigen;
use faer::{Mat, Side};

use crate::{Edge, Graph};

/// Maximum number of agents for which eigenvalues are computed.
pub const N_SPECTRUM_MAX: u32 = 2_000;

/// The eigenvalues λ_1 = 0 ≤ λ_2 ≤ … ≤ λ_n of the Laplacian, with their eigenvectors.
///
/// L = D − A, with degrees D and adjacency A. λ_2 is the algebraic connectivity (Fiedler 1973),
/// which is positive if and only if the graph is connected. The larger λ_2 is, the faster repeated
/// averaging over neighbours converges.
pub struct Spectrum {
    values: Vec<f64>,
    /// Row j is the unit eigenvector for `values[j]`.
    vectors: Vec<Vec<f64>>,
    n_components: usize,
}

impl std::fmt::Debug for Spectrum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spectrum").field("n_agents", &self.values.len()).finish_non_exhaustive()
    }
}

impl Graph {
    /// Computes the eigenvalues and eigenvectors of the Laplacian by dense decomposition, in O(n³).
    /// Returns `None` for one agent, for more than [`N_SPECTRUM_MAX`] agents, or if the
    /// decomposition does not converge.
    pub fn spectrum(&self) -> Option<Spectrum> {
        let laplacian = self.laplacian()?;
        let eigen = laplacian.self_adjoint_eigen(Side::Lower).ok()?;
        Some(Spectrum::of(&eigen, self.components().len()))
    }

    /// Returns λ_2 of the Laplacian, or 0 if the graph is not connected; `None` for one agent, for
    /// more than [`N_SPECTRUM_MAX`] agents, or if the decomposition does not converge.
    pub fn algebraic_connectivity(&self) -> Option<f64> {
        let laplacian = self.laplacian()?;
        if !self.is_connected() {
            return Some(0.0);
        }
        let values = laplacian.self_adjoint_eigenvalues(Side::Lower).ok()?;
        values.get(1).map(|value| value.max(0.0))
    }

    fn laplacian(&self) -> Option<Mat<f64>> {
        if !(2..=N_SPECTRUM_MAX).contains(&self.n_agents()) {
            return None;
        }
        let n = self.n_agents() as usize;
        let mut laplacian = Mat::zeros(n, n);
        for (a, b) in self.edges() {
            let (a, b) = (a as usize, b as usize);
            laplacian[(a, b)] = -1.0;
            laplacian[(b, a)] = -1.0;
            laplacian[(a, a)] += 1.0;
            laplacian[(b, b)] += 1.0;
        }
        Some(laplacian)
    }
}

impl Spectrum {
    fn of(eigen: &SelfAdjointEigen<f64>, n_components: usize) -> Self {
        let values = eigen.S().column_vector();
        let columns = eigen.U().col_iter();
        Self {
            values: values.iter().map(|value| value.max(0.0)).collect(),
            vectors: columns.map(|column| column.iter().copied().collect()).collect(),
            n_components,
        }
    }

    /// Returns λ_2, or 0 if the graph is not connected.
    pub fn algebraic_connectivity(&self) -> f64 {
        if self.n_components > 1 {
            return 0.0;
        }
        self.values[1]
    }

    /// Returns λ_2 after adding an edge between two agents that are not yet adjacent.
    ///
    /// The eigenvalues of L' = L + z zᵀ with z = e_a − e_b are the roots μ of 1 + Σ_j (u_jᵀ z)² /
    /// (λ_j − μ). One of them lies in `[λ_2, λ_3]` (Golub 1973, section 5). Costs O(n).
    ///
    /// # Panics
    /// If an agent does not exist.
    pub fn algebraic_connectivity_with(&self, (a, b): Edge) -> f64 {
        if self.n_components > 2 {
            return 0.0;
        }
        let shares: Vec<f64> = self
            .vectors
            .iter()
            .map(|vector| (vector[a as usize] - vector[b as usize]).powi(2))
            .collect();
        let secular = |mu: f64| {
            let terms = shares.iter().zip(&self.values);
            1.0 + terms.map(|(share, value)| share / (value - mu)).sum::<f64>()
        };
        let (mut low, mut high) = match self.values.get(2) {
            Some(third) => (self.values[1], *third),
            None => (self.values[1], self.values[1] + 2.0), // the trace grows by 2
        };
        // There is no root strictly in between if λ_2 and λ_3 are equal up to rounding, or if z is
        // orthogonal to the eigenvector.
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if secular(middle) < 0.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        f64::midpoint(low, high)
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::{PI, TAU};

    use fedbo_streams::{Purpose, Seed};

    use super::*;
    use crate::GraphSpec;
    use crate::graph::tests::all_graphs;

    fn build(spec: GraphSpec, n_agents: u32) -> Graph {
        let mut stream = Seed::new(8).stream(Purpose::TEST, 0, 0);
        spec.build(n_agents, &mut stream).expect("a graph")
    }

    /// λ_2 in closed form: 1 for a star, n for a complete graph, 2 − 2 cos(2π/n) for a ring, and 2
    /// − 2 cos(π/k) for a grid with k agents on its longer side.
    #[test]
    fn algebraic_connectivity_has_its_closed_forms() {
        for n in 3..=24_u32 {
            let of = |spec| build(spec, n).algebraic_connectivity().expect("a spectrum");
            let grid = GraphSpec::Grid { columns: Some(2) };
            for (found, expected) in [
                (of(GraphSpec::Star), 1.0),
                (of(GraphSpec::Complete), f64::from(n)),
                (of(GraphSpec::Ring), 2.0 - 2.0 * (TAU / f64::from(n)).cos()),
                (of(GraphSpec::Edgeless), 0.0),
                if n % 2 == 0 {
                    (of(grid), 2.0 - 2.0 * (2.0 * PI / f64::from(n.max(4))).cos())
                } else {
                    (0.0, 0.0)
                },
            ] {
                assert!((found - expected).abs() < 1e-12 * f64::from(n), "{n}: {found} {expected}");
            }
        }
        assert_eq!(build(GraphSpec::Star, 1).algebraic_connectivity(), None);
        let large = build(GraphSpec::Star, N_SPECTRUM_MAX + 1);
        assert_eq!(large.algebraic_connectivity(), None);
    }

    /// Compares the result with a new decomposition, for every missing edge of every graph with at
    /// most 5 agents and of some larger graphs.
    #[test]
    fn one_more_edge_is_answered_without_a_new_decomposition() {
        let larger = [
            build(GraphSpec::Star, 9),
            build(GraphSpec::Ring, 12),
            build(GraphSpec::Grid { columns: None }, 16),
            build(GraphSpec::ErdosRenyi { edge_prob: 0.3 }, 20),
        ];
        for graph in (2..=5).flat_map(all_graphs).chain(larger) {
            let spectrum = graph.spectrum().expect("a spectrum");
            for b in graph.agents() {
                for a in (0..b).filter(|a| !graph.has_edge(*a, b)) {
                    let more = graph.with_edge((a, b)).expect("a missing edge");
                    let expected = more.algebraic_connectivity().expect("a spectrum");
                    let found = spectrum.algebraic_connectivity_with((a, b));
                    assert!(
                        (found - expected).abs() < 1e-7,
                        "{graph:?} {a} {b}: {found} {expected}"
                    );
                }
            }
        }
    }
}
