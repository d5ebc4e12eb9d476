//! Maximisers over the unit cube, over polytopes in it and over finite domains.
//!
//! Functions implement [`Function`]. The only source of randomness is the number that scrambles the
//! starting points. This crate does not depend on surrogates, seeds or search spaces. Results are
//! never NaN and never outside the domain.

mod direct;
mod error;
mod lbfgsb;
mod multistart;
mod points;
mod polytope;
mod scan;
#[cfg(test)]
mod testing;

pub use direct::{Direct, GlobalMaximum};
pub use error::OptimError;
pub use lbfgsb::{Lbfgsb, LbfgsbOptions, LocalMaximum, maximize_in_box};
pub use multistart::{Maxima, MultiStart, sobol, sobol_point};
pub use points::Points;
pub use polytope::{Infeasible, Polytope};
pub use scan::{Scan, best, rank, scan};

/// A function to maximise on the unit cube `[0,1]^d`.
pub trait Function: Sync {
    /// The input dimension d.
    fn dim(&self) -> usize;

    /// Returns the values at many points, one number per row. This is the batch path, which
    /// implementations should vectorise.
    fn values(&self, points: &Points) -> Vec<f64>;

    /// Returns the value at a point and writes ∂f/∂x into `gradient` (length d).
    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64;
}
