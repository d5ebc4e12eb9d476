//! Errors of the maximisers.

/// A reason for not returning a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptimError {
    /// No evaluated point had a finite value. For a local search, the value or the gradient at the
    /// start was not finite.
    #[error("none of the {n_evaluated} evaluated points has a finite value")]
    NoFiniteValue {
        /// Number of evaluated points.
        n_evaluated: usize,
    },
    /// There was no point to evaluate.
    #[error("the domain has no points")]
    EmptyDomain,
}
