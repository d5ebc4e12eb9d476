//! Contract suites, oracles, statistical assertions, and tests that run their own binary again
//! (dev-dependency only).
//!
//! Oracles are slow, simple, and share no code with the code under test: [`dense`] solves by
//! Gaussian elimination and computes eigenvalues by Jacobi rotations. Statistical checks return
//! `Err` with the figures, so that a test can also require that they fail for a mutated
//! counterpart. Each check documents the probability with which it rejects a correct sampler.

pub mod again;
mod contracts;
pub mod dense;
mod forwarded;
pub mod made_up;
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

/// Returns stream number `n` for random draws in a test.
pub fn test_stream(n: u64) -> Stream {
    Seed::new(0x007e_57ed).stream(Purpose::TEST, n, 0)
}

/// Returns the folder of the data published by the papers' authors: `FEDBO_DATA`, by default
/// `../shared/data` next to the workspace.
///
/// Tests that read this data must be ignored with the reason "data: run by cargo xtask test --all".
/// That command finds the tests by this reason.
///
/// # Panics
/// If the folder does not contain `part`.
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

/// Draws n points uniformly from `[0,1]^dim`.
pub fn uniform_points(n: usize, dim: usize, stream: &mut Stream) -> Points {
    Points::from_flat(dim, (0..n * dim).map(|_| stream.uniform()).collect())
}
