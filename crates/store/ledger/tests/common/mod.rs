//! Utilities for the ledger's tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

pub mod store;

use std::path::Path;

use fedbo_ledger::{Charter, Ledger, LedgerError};
use fedbo_privacy::accounting::{
    AccountantKind, Budget, Delta, Mode, Noise, NoiseMultiplier, PrivacyEvent, Sampling,
    SamplingRate,
};
use tempfile::TempDir;

/// Returns the charter of a study with a budget that no test exhausts.
pub fn charter() -> Charter {
    Charter {
        name: "study".to_owned(),
        config: b"max_norm = 22.0\nn_agents = 200\n".to_vec(),
        budget: budget(1e9),
        mode: Mode::Default,
        accountant: AccountantKind::Moments,
        participations: None,
    }
}

/// Returns a budget with this ε, at δ = 1e−5.
pub fn budget(epsilon: f64) -> Budget {
    Budget::new(epsilon, Delta::new(1e-5).unwrap()).unwrap()
}

/// Returns an event that includes all agents, with Gaussian noise of this multiplier.
pub fn event(noise_multiplier: f64) -> PrivacyEvent {
    PrivacyEvent {
        sampling: Sampling::Poisson(SamplingRate::ALL),
        noise: Noise::Gaussian(NoiseMultiplier::new(noise_multiplier).unwrap()),
    }
}

/// Creates a folder, in memory if possible, for tests that do not test the disk.
pub fn quick_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

/// Returns all files of a folder, sorted by name.
pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap();
    let read = entries.map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, std::fs::read(entry.path()).unwrap())
    });
    let mut files: Vec<_> = read.collect();
    files.sort();
    files
}

pub fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Asserts that every call that could lead to a release is refused, and acknowledged releases
/// remain.
pub fn assert_stopped(ledger: &mut Ledger) {
    let (head, releases) = (ledger.head(), ledger.releases());
    let next = ledger.last_round().map_or(0, |round| round + 1);
    let stopped = |error: LedgerError| {
        assert!(matches!(error, LedgerError::Stopped { .. }), "{error}");
    };
    for _ in 0..2 {
        stopped(ledger.commit(next, &event(2.0), b"no").unwrap_err());
        stopped(ledger.admits(&event(2.0), 1).unwrap_err());
        stopped(ledger.stored(0).unwrap_err());
        stopped(ledger.statement().unwrap_err());
        stopped(ledger.contains(&head).unwrap_err());
    }
    assert_eq!((ledger.head(), ledger.releases()), (head, releases));
}
