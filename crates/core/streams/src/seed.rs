//! A seed, and the streams and child seeds derived from it by label.

use sha2::{Digest, Sha256};

use crate::Stream;

/// The purpose of a stream: the first part of its label.
///
/// The constants here are for purposes that several crates share. Any other purpose is defined in
/// the crate that draws from the stream. A label must be unique within a program and must never
/// change, because a new label gives different draws.
///
/// ```
/// use fedbo_streams::{Purpose, Seed};
///
/// const SPLIT: Purpose = Purpose::new("train-test-split");
/// let mut stream = Seed::new(7).stream(SPLIT, 0, 0);
/// assert!(stream.uniform() < 1.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Purpose(&'static str);

impl Purpose {
    /// An agent's initial points, chosen before there is a surrogate.
    pub const INITIAL_DESIGN: Self = Self::new("initial-design");
    /// An agent's choices in one step: the function to use, the function sample, and the starts of
    /// the maximizer.
    pub const PROPOSAL: Self = Self::new("proposal");
    /// Restarts of a hyperparameter fit.
    pub const HYPERPARAMETER_FIT: Self = Self::new("hyperparameter-fit");
    /// Frequencies and phases of random features shared by several parties or models.
    pub const SHARED_FEATURES: Self = Self::new("shared-features");
    /// The definition of a random problem, such as a function drawn from a prior or a split of a
    /// data set.
    pub const PROBLEM: Self = Self::new("problem");
    /// Noise that a built-in problem adds to its observations.
    pub const OBSERVATION_NOISE: Self = Self::new("observation-noise");
    /// Past observations of an agent that joins with a history.
    pub const HISTORY: Self = Self::new("history");
    /// One of several repetitions of an experiment.
    pub const RUN: Self = Self::new("run");
    /// An agent of a federation.
    pub const AGENT: Self = Self::new("agent");
    /// Draws inside a test or a benchmark.
    pub const TEST: Self = Self::new("test");

    /// Creates the purpose with this label.
    pub const fn new(label: &'static str) -> Self {
        Self(label)
    }
}

/// The root of all reproducible randomness of a run.
///
/// The key of a stream is the SHA-256 of the seed, the purpose and two indices, so streams with
/// different labels are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Creates a seed from the number that a user provides.
    pub fn new(number: u64) -> Self {
        Self(digest(&[b"fedbo seed", &number.to_le_bytes()]))
    }

    /// Returns the stream for `purpose` and two indices, for example an agent's index and a round
    /// number.
    pub fn stream(&self, purpose: Purpose, index: u64, step: u64) -> Stream {
        Stream::from_key(self.derive(b"stream", purpose, index, step))
    }

    /// Returns a separate seed for a part of a run, so that its streams never collide with other
    /// streams.
    pub fn child(&self, purpose: Purpose, index: u64) -> Self {
        Self(self.derive(b"child", purpose, index, 0))
    }

    fn derive(&self, role: &[u8], purpose: Purpose, index: u64, step: u64) -> [u8; 32] {
        let label = purpose.0.as_bytes();
        digest(&[role, b"\0", &self.0, label, b"\0", &index.to_le_bytes(), &step.to_le_bytes()])
    }
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}
