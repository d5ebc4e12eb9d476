//! Errors of a maximisation.

/// A maximisation that has no point to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptimError {
    /// No evaluated point had a finite value (for a local search: the start had no finite value or
    /// no finite gradient).
    #[error("none of the {n_evaluated} evaluated points has a finite value")]
    NoFiniteValue {
        /// Number of evaluated points.
        n_evaluated: usize,
    },
    /// There was no point to evaluate.
    #[error("the domain has no points")]
    EmptyDomain,
}
