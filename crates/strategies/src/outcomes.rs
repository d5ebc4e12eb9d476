//! The additional numbers of a trial beside its value.

/// Number of objectives and constraints of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcomes {
    /// Number of objectives, at least 1.
    pub n_objectives: usize,
    /// Number of constraints.
    pub n_constraints: usize,
}

impl Default for Outcomes {
    /// One objective without constraints.
    fn default() -> Self {
        Self { n_objectives: 1, n_constraints: 0 }
    }
}

impl Outcomes {
    /// The length of [`Observation::further`](crate::Observation::further) of a trial with a value.
    pub fn n_further(&self) -> usize {
        self.n_objectives - 1 + self.n_constraints
    }
}
