//! Maximisers over the unit cube and over finite domains.
//!
//! Finds the point where a function is largest. Functions implement [`Function`]. Randomness enters
//! as the number that scrambles the starting points. This crate has no knowledge of surrogates,
//! seeds or search spaces. Results are never outside the domain or NaN.

mod direct;
mod error;
mod lbfgsb;
mod multistart;
mod points;
mod scan;
#[cfg(test)]
mod testing;

pub use direct::{Direct, GlobalMaximum};
pub use error::OptimError;
pub use lbfgsb::{Lbfgsb, LbfgsbOptions, LocalMaximum, maximize_in_box};
pub use multistart::{Maxima, MultiStart, sobol, sobol_point};
pub use points::Points;
pub use scan::{Scan, best, rank, scan};

/// A function on the unit cube `[0,1]^d` to maximise.
pub trait Function: Sync {
    /// Dimension d of its input.
    fn dim(&self) -> usize;

    /// Values at many points, one number per row. This is the batch path; implementations vectorise
    /// it.
    fn values(&self, points: &Points) -> Vec<f64>;

    /// Value at one point; writes ∂f/∂x into `gradient` (length d).
    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64;
}
