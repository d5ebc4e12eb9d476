//! Contract suites, oracles and statistical assertions (dev-dependency only).
//!
//! Oracles are slow and plain, and share no code with what they check: [`dense`] solves by Gaussian elimination and takes
//! eigenvalues by Jacobi rotations. Statistical checks return `Err` with the figures, so that a test can also demand
//! that a mutated counterpart fails; each states the level at which a correct sampler fails it.

mod contracts;
pub mod dense;
#[cfg(unix)]
pub mod postgres;
pub mod statistics;
mod storage_contract;

pub use contracts::kernel_contract;
pub use storage_contract::storage_contract;

use fedbo_optim::Points;
use fedbo_streams::{Purpose, Seed, Stream};

/// Stream number `n` for the draws of a test.
pub fn test_stream(n: u64) -> Stream {
    Seed::new(0x007e_57ed).stream(Purpose::Test, n, 0)
}

/// n points drawn uniformly from `[0,1]^dim`.
pub fn uniform_points(n: usize, dim: usize, stream: &mut Stream) -> Points {
    Points::from_flat(dim, (0..n * dim).map(|_| stream.uniform()).collect())
}
