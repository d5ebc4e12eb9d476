//! Contract suites, oracles, statistical assertions, and tests that start themselves again (dev-dependency only).
//!
//! Oracles are slow and plain, and share no code with what they check: [`dense`] solves by Gaussian elimination and takes
//! eigenvalues by Jacobi rotations. Statistical checks return `Err` with the figures, so that a test can also demand
//! that a mutated counterpart fails; each states the level at which a correct sampler fails it.

pub mod again;
mod contracts;
pub mod dense;
mod forwarded;
#[cfg(unix)]
pub mod postgres;
pub mod statistics;
mod storage_contract;

pub use contracts::kernel_contract;
pub use forwarded::{Forward, Forwarded};
pub use storage_contract::storage_contract;

use std::path::{Path, PathBuf};

use fedbo_optim::Points;
use fedbo_streams::{Purpose, Seed, Stream};

/// Stream number `n` for the draws of a test.
pub fn test_stream(n: u64) -> Stream {
    Seed::new(0x007e_57ed).stream(Purpose::Test, n, 0)
}

/// The folder of data that the papers' authors published: `FEDBO_DATA`, by default `../shared/data` beside the workspace.
///
/// A test that reads it is ignored with the reason "data: run by cargo xtask test --all", by which that command finds it.
///
/// # Panics
/// If the folder has no part of this name.
pub fn published_data(part: &str) -> PathBuf {
    let folder = std::env::var_os("FEDBO_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    assert!(
        folder.join(part).is_dir(),
        "{} has no folder {part}: set FEDBO_DATA to the folder that has",
        folder.display()
    );
    folder
}

/// n points drawn uniformly from `[0,1]^dim`.
pub fn uniform_points(n: usize, dim: usize, stream: &mut Stream) -> Points {
    Points::from_flat(dim, (0..n * dim).map(|_| stream.uniform()).collect())
}
