//! The numbers of objectives and constraints.

/// The numbers of objectives and constraints of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcomes {
    /// Number of objectives, at least 1.
    pub n_objectives: usize,
    /// Number of constraints.
    pub n_constraints: usize,
}

impl Default for Outcomes {
    /// One objective and no constraints.
    fn default() -> Self {
        Self { n_objectives: 1, n_constraints: 0 }
    }
}

impl Outcomes {
    /// Returns the length of [`Observation::further`](crate::Observation::further) for a successful
    /// trial.
    pub fn n_further(&self) -> usize {
        self.n_objectives - 1 + self.n_constraints
    }
}
