//! An agent's estimate from the releases so far, with one weight vector per region.

use fedbo_protocol::{Aggregate, AggregateContent};

use crate::alignment::Energy;
use crate::dp_fts_de::ExplorationWeights;

/// The weighting of past releases. This is post-processing, so it has no privacy cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Memory {
    /// Only the latest release (DP-FTS-DE Algorithm 2).
    Latest,
    /// A mean over all releases. Each release is weighted by the inverse variance of its noise and
    /// by discount^age.
    ///
    /// With discount 1, and if the agents' vectors do not change, T releases have as much noise as
    /// one release with 1/T of the variance.
    Mean {
        /// The discount per round, in `(0, 1]`.
        discount: f64,
    },
}

/// P weighted averages of M numbers each, and the variance of their noise.
#[derive(Clone)]
pub(crate) struct Belief {
    emphasis: ExplorationWeights,
    memory: Memory,
    sampling_rate: f64,
    /// Number of agents assigned to each region (P entries).
    region_sizes: Vec<usize>,
    /// Σ_k c_k W_k^(i) over releases k, P×M.
    sums: Vec<Vec<f64>>,
    /// Σ_k c_k.
    mass: Vec<f64>,
    /// Σ_k c_k² v_k, where v_k is the variance of the noise in each number of W_k^(i).
    noise: Vec<f64>,
    /// Σ_k c_k² s_k, where s_k is the energy that sampling agents adds to W_k^(i); see
    /// [`Self::sampling`].
    sampling: Vec<f64>,
    round: Option<u64>,
}

impl Belief {
    /// The largest number that is accepted in a release. Its square, and sums of squares, stay
    /// finite.
    const LARGEST: f64 = 1e50;

    pub(crate) fn new(
        emphasis: ExplorationWeights,
        memory: Memory,
        sampling_rate: f64,
        region_sizes: Vec<usize>,
        n_features: usize,
    ) -> Self {
        let n_regions = region_sizes.len();
        Self {
            emphasis,
            memory,
            sampling_rate,
            region_sizes,
            sums: vec![vec![0.0; n_features]; n_regions],
            mass: vec![0.0; n_regions],
            noise: vec![0.0; n_regions],
            sampling: vec![0.0; n_regions],
            round: None,
        }
    }

    /// Returns the round of the newest release that is included.
    pub(crate) fn round(&self) -> Option<u64> {
        self.round
    }

    /// Adds a release. Returns false if it has the wrong shape, contains a number that is far out
    /// of range, or is not newer than the last release.
    pub(crate) fn take(&mut self, aggregate: &Aggregate) -> bool {
        let n_features = self.sums[0].len();
        let fits = |row: &Vec<f64>| {
            row.len() == n_features && row.iter().all(|w| w.abs() <= Self::LARGEST)
        };
        let rows = match &aggregate.content {
            AggregateContent::RegionSums(rows) | AggregateContent::Weighted(rows)
                if rows.len() == self.sums.len() =>
            {
                rows.as_slice()
            }
            AggregateContent::Total(row) => std::slice::from_ref(row),
            _ => return false,
        };
        let is_newer = self.round.is_none_or(|round| aggregate.round > round);
        let noise = aggregate.noise_std;
        let has_scale = noise == 0.0 || (1.0 / Self::LARGEST..=Self::LARGEST).contains(&noise);
        if !(rows.iter().all(fits) && is_newer && has_scale) {
            return false;
        }
        let age = self.round.map_or(0, |round| aggregate.round - round);
        self.round = Some(aggregate.round);
        for region in 0..self.sums.len() {
            let (average, variance) = self.weighted(aggregate, region);
            let sampling = self.sampling(aggregate.round, region);
            self.add(region, &average, (variance, sampling), age);
        }
        true
    }

    /// Returns ω^(i) for a release, and the variance of the noise in each of its numbers
    /// (Algorithm 1, line 10, applied to sums).
    fn weighted(&self, aggregate: &Aggregate, region: usize) -> (Vec<f64>, f64) {
        let noise = aggregate.noise_std * aggregate.noise_std;
        let all: usize = self.region_sizes.iter().sum();
        let q = self.sampling_rate;
        match &aggregate.content {
            AggregateContent::Weighted(rows) => (rows[region].clone(), noise),
            AggregateContent::Total(total) => {
                let share = 1.0 / (q * count(all));
                let scaled = total.iter().map(|w| w * share).collect();
                (scaled, noise * share * share)
            }
            AggregateContent::RegionSums(rows) => {
                let own = self.region_sizes[region];
                let (inside, outside) = self.emphasis.weights(aggregate.round, own, all);
                let (mut average, mut variance) = (vec![0.0; rows[region].len()], 0.0);
                for (index, row) in rows.iter().enumerate() {
                    let weight = if index == region { inside } else { outside } / q;
                    average.iter_mut().zip(row).for_each(|(sum, w)| *sum += weight * w);
                    variance += weight * weight * noise;
                }
                (average, variance)
            }
        }
    }

    /// Returns (1 − q)/q Σ_n (φ_n^(i))². If agents take part with probability q, this is E‖ω^(i)‖²
    /// minus the squared norm of the mean of ω^(i), in units of the vectors' squared norm.
    fn sampling(&self, round: u64, region: usize) -> f64 {
        let (own, all) = (self.region_sizes[region], self.region_sizes.iter().sum());
        let (inside, outside) = self.emphasis.weights(round, own, all);
        let squares = count(own) * inside * inside + count(all - own) * outside * outside;
        (1.0 - self.sampling_rate) / self.sampling_rate * squares
    }

    fn add(&mut self, region: usize, average: &[f64], (variance, sampling): (f64, f64), age: u64) {
        let kept = match self.memory {
            Memory::Latest => 0.0,
            Memory::Mean { discount } => {
                discount.powf(count(usize::try_from(age).unwrap_or(usize::MAX)))
            }
        };
        let coefficient = if variance > 0.0 { 1.0 / variance } else { 1.0 };
        let sums = self.sums[region].iter_mut().zip(average);
        sums.for_each(|(sum, w)| *sum = kept * *sum + coefficient * w);
        self.mass[region] = kept * self.mass[region] + coefficient;
        self.noise[region] =
            kept * kept * self.noise[region] + coefficient * (coefficient * variance);
        self.sampling[region] =
            kept * kept * self.sampling[region] + coefficient * (coefficient * sampling);
    }

    /// Returns the weights of each region's function (P×M), or `None` before the first release.
    pub(crate) fn weights(&self) -> Option<Vec<Vec<f64>>> {
        self.round?;
        let scaled = self.sums.iter().zip(&self.mass);
        Some(scaled.map(|(sum, mass)| sum.iter().map(|w| w / mass).collect()).collect())
    }

    /// Returns the variance of the noise in each number of each region's function (P entries), or
    /// `None` before the first release.
    pub(crate) fn noise_variances(&self) -> Option<Vec<f64>> {
        self.round?;
        Some(self.noise.iter().zip(&self.mass).map(|(noise, mass)| noise / (mass * mass)).collect())
    }

    /// Returns the energy of the belief over all regions, and the parts of it that are not signal.
    /// The result depends only on released and announced numbers.
    pub(crate) fn energy(&self) -> Energy {
        let n_numbers = self.sums.first().map_or(0, Vec::len);
        let n_regions = u32::try_from(self.sums.len()).unwrap_or(u32::MAX); // fits into a u32
        let mut energy = Energy { n_regions, n_numbers, ..Energy::default() };
        for (region, (sum, mass)) in self.sums.iter().zip(&self.mass).enumerate() {
            if *mass > 0.0 {
                energy.total += sum.iter().map(|w| (w / mass).powi(2)).sum::<f64>();
                energy.noise += count(sum.len()) * self.noise[region] / (mass * mass);
                energy.sampling += self.sampling[region] / (mass * mass);
            }
        }
        energy
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn count(n: usize) -> f64 {
    n as f64
}
