//! A coordinator's releases: sums or averages of clipped vectors, with noise.

use std::fmt;

/// The content of a release, before agents apply any weighting. It is public once it has been
/// released.
#[derive(Clone, PartialEq)]
pub struct Aggregate {
    /// The server iteration t = 0, 1, … of the release.
    pub round: u64,
    /// The numbers.
    pub content: AggregateContent,
    /// Standard deviation of the noise in each number of the content; 0 without privacy.
    pub noise_std: f64,
    /// The released values of coordinates in which all vectors are zero. These values are pure
    /// noise with the same distribution as the rest, so an agent can use them to verify the noise.
    /// Empty if there are no such coordinates.
    pub witnesses: Vec<f64>,
}

/// The numbers of an [`Aggregate`].
#[derive(Clone, PartialEq)]
pub enum AggregateContent {
    /// For each of P regions, the sum of its sampled agents' clipped vectors (M numbers).
    RegionSums(Vec<Vec<f64>>),
    /// The sum over all sampled agents (M numbers).
    Total(Vec<f64>),
    /// For each of P regions, the weighted average ω^(i) of DP-FTS-DE Algorithm 1, lines 7–11 (M
    /// numbers).
    Weighted(Vec<Vec<f64>>),
}

impl AggregateContent {
    /// Returns the number of rows, and the length of each row.
    fn shape(&self) -> (usize, usize) {
        let rows = match self {
            Self::RegionSums(rows) | Self::Weighted(rows) => rows.as_slice(),
            Self::Total(row) => std::slice::from_ref(row),
        };
        (rows.len(), rows.first().map_or(0, Vec::len))
    }
}

impl fmt::Debug for AggregateContent {
    /// Prints only shapes, so that weights stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::RegionSums(_) => "RegionSums",
            Self::Total(_) => "Total",
            Self::Weighted(_) => "Weighted",
        };
        let (rows, numbers) = self.shape();
        write!(f, "{name}({rows} x {numbers})")
    }
}

impl fmt::Debug for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Aggregate {{ round: {}, content: {:?}, noise_std: {} }}",
            self.round, self.content, self.noise_std
        )
    }
}
