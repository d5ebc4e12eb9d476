//! The paper's mechanism in floating-point arithmetic, for reproducing its results.

use std::fmt;

use rand_distr::{Distribution, StandardNormal};

use super::bits::{Bits, Purpose};
use super::collecting::VectorRefused;
use super::paper_release::PaperRelease;
use super::sealed::Sealed;
use super::settings::{MechanismError, check_dimensions};
use super::source::{NoiseError, NoiseSource};
use crate::accounting::{Noise, NoiseMultiplier, PrivacyEvent, Sampling, SamplingRate};

/// Parameters of the paper's mechanism.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperSettings {
    /// N: the number of agents, at least 1.
    pub n_slots: u32,
    /// P: the number of sub-regions, at least 1.
    pub n_regions: u32,
    /// M: the number of features, from 1 to [`super::MAX_FEATURES`].
    pub n_features: u32,
    /// S: the clipping threshold; each vector is clipped at S / √P. An infinite S disables clipping
    /// and requires z = 0.
    pub max_norm: f64,
    /// The sampling scheme for agents, with its q.
    pub sampling: PaperSampling,
    /// z ≥ 0; 0 with q = 1 is FTS with distributed exploration, which is not private.
    pub noise_multiplier: f64,
    /// The weight φ_max that scales the noise.
    pub weight_max: WeightMax,
}

/// The paper's schemes for sampling the agents of a round. Sums are divided by q in both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PaperSampling {
    /// Samples each agent with probability q (Algorithm 1 line 6).
    Poisson(SamplingRate),
    /// Samples ⌊q N⌋ agents uniformly at random (footnote 14).
    FixedSize(SamplingRate),
}

impl PaperSampling {
    /// Returns q.
    pub fn rate(self) -> SamplingRate {
        match self {
            Self::Poisson(rate) | Self::FixedSize(rate) => rate,
        }
    }
}

/// The choice of φ_max, the weight that scales the noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightMax {
    /// The maximum over all regions and agents, as in the paper.
    Overall,
    /// The maximum over the agents, separately for each region, as in the authors' code. In units
    /// of the region's noise, an agent still adds at most 1/(z √P) to each of P regions, so the
    /// overall multiplier is z in both variants.
    PerRegion,
}

/// The reason the paper's mechanism cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PaperError {
    /// A count is out of range.
    #[error(transparent)]
    Dimensions(#[from] MechanismError),
    /// S, z or q is out of range.
    #[error("{name} = {value}: it must be {expected}")]
    Number {
        /// The setting.
        name: &'static str,
        /// The given value.
        value: f64,
        /// Description of the accepted values.
        expected: &'static str,
    },
    /// The sample would be empty, because ⌊q N⌋ = 0.
    #[error("a sample of sampling_rate = {rate} of {n_slots} agents is empty")]
    NobodySampled {
        /// q.
        rate: f64,
        /// N.
        n_slots: u32,
    },
    /// The weights do not have the shape P × N.
    #[error(
        "region {region} has {found} weights, but there are {n_slots} agents and {n_regions} regions"
    )]
    WeightShape {
        /// The first region with a missing row or a row of the wrong length.
        region: usize,
        /// The number of weights found.
        found: usize,
        /// N.
        n_slots: u32,
        /// P.
        n_regions: u32,
    },
    /// The weights in a row are negative or do not sum to 1.
    #[error("the weights of region {region} must be at least 0 and sum to 1")]
    Weights {
        /// The region.
        region: usize,
    },
    /// The source provides no randomness.
    #[error(transparent)]
    Noise(#[from] NoiseError),
}

/// DP-FTS-DE, Algorithm 1 lines 5 to 11.
///
/// ω^(i) = (1/q) Σ_{n ∈ S_t} φ_n^(i) ω̂_n + N(0, (z φ_max S/q)² I),   ω̂_n = ω_n / max(1, ‖ω_n‖ / (S/√P))
/// Shapes: φ P×N with rows that sum to 1, ω_n and ω^(i) M. Sensitivity of the joint vector: φ_max S / q.
///
/// The guarantee is the paper's, which assumes real numbers. In floating-point arithmetic neither
/// the sum nor the noise is exact, so INV-7 and INV-8 do not hold here. Use [`super::Mechanism`] if
/// privacy matters.
///
/// Deviation from the authors' code: if the sample is empty, the release is pure noise (INV-3). The
/// authors' code releases uniform numbers instead, which reveals that no agent was sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperMechanism {
    settings: PaperSettings,
}

impl PaperMechanism {
    /// Creates the mechanism after checking the settings.
    ///
    /// # Errors
    /// If a setting is out of range; the error names it.
    pub fn new(settings: PaperSettings) -> Result<Self, PaperError> {
        check_dimensions(settings.n_slots, settings.n_regions, settings.n_features)?;
        let (norm, z) = (settings.max_norm, settings.noise_multiplier);
        let number = |name, value, expected| PaperError::Number { name, value, expected };
        if !(z == 0.0 || (1e-6..=1e6).contains(&z)) {
            return Err(number("noise_multiplier", z, "0 or within 1e-6 and 1e6"));
        }
        let no_clip = norm == f64::INFINITY && z == 0.0;
        if !((1e-100..=1e100).contains(&norm) || no_clip) {
            return Err(number(
                "max_norm",
                norm,
                "within 1e-100 and 1e100, or infinite if noise_multiplier is 0",
            ));
        }
        let rate = settings.sampling.rate().get();
        if rate < 1e-9 {
            return Err(number("sampling_rate", rate, "at least 1e-9"));
        }
        let mechanism = Self { settings };
        if mechanism.n_sampled() == Some(0) {
            return Err(PaperError::NobodySampled { rate, n_slots: mechanism.settings.n_slots });
        }
        Ok(mechanism)
    }

    /// Returns the settings.
    pub fn settings(&self) -> &PaperSettings {
        &self.settings
    }

    /// Returns ⌊q N⌋ if samples have a fixed size.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 < q N ≤ N < 2^32"
    )]
    fn n_sampled(&self) -> Option<u32> {
        match self.settings.sampling {
            PaperSampling::Poisson(_) => None,
            PaperSampling::FixedSize(rate) => {
                Some((rate.get() * f64::from(self.settings.n_slots)).floor() as u32)
            }
        }
    }

    /// Returns the privacy event of each release, by the paper's argument; `None` without noise,
    /// because then nothing is private.
    pub fn event(&self) -> Option<PrivacyEvent> {
        let noise = NoiseMultiplier::new(self.settings.noise_multiplier).ok()?;
        let sampling = match (self.settings.sampling, self.n_sampled()) {
            (_, Some(n_sampled)) => {
                Sampling::WithoutReplacement { n_sampled, n_agents: self.settings.n_slots }
            }
            (sampling, None) => Sampling::Poisson(sampling.rate()),
        };
        Some(PrivacyEvent { sampling, noise: Noise::Gaussian(noise) })
    }

    /// Begins a round with the weights φ, P rows of N, without drawing any randomness yet.
    ///
    /// # Errors
    /// If the weights do not have the shape P × N, or a row has a negative weight or does not sum
    /// to 1.
    pub fn begin(&self, round: u64, weights: Vec<Vec<f64>>) -> Result<PaperCollecting, PaperError> {
        self.check_weights(&weights)?;
        Ok(PaperCollecting {
            mechanism: self.clone(),
            round,
            weights,
            vectors: Sealed::new(self.settings.n_slots, self.settings.n_features),
        })
    }

    /// Runs a whole round, in which vector n belongs to slot n. A refused vector is treated as
    /// zero.
    ///
    /// # Errors
    /// Same as for [`Self::begin`] and [`PaperCollecting::close`].
    pub fn aggregate<S: NoiseSource>(
        &self,
        round: u64,
        vectors: &[Vec<f64>],
        weights: Vec<Vec<f64>>,
        source: &mut S,
    ) -> Result<PaperClosed<S::Kind>, PaperError> {
        let mut collecting = self.begin(round, weights)?;
        for (slot, vector) in (0..self.settings.n_slots).zip(vectors) {
            let _refused_counts_as_zero = collecting.receive(slot, vector);
        }
        Ok(collecting.close(source)?)
    }

    fn check_weights(&self, weights: &[Vec<f64>]) -> Result<(), PaperError> {
        let (n_slots, n_regions) = (self.settings.n_slots, self.settings.n_regions);
        let wrong_shape = |region: usize| PaperError::WeightShape {
            region,
            found: weights.get(region).map_or(0, Vec::len),
            n_slots,
            n_regions,
        };
        for (region, row) in weights.iter().enumerate() {
            if row.len() != n_slots as usize {
                return Err(wrong_shape(region));
            }
            let usable = row.iter().all(|w| w.is_finite() && *w >= 0.0);
            if !usable || (row.iter().sum::<f64>() - 1.0).abs() > 1e-9 {
                return Err(PaperError::Weights { region });
            }
        }
        if weights.len() != n_regions as usize {
            return Err(wrong_shape(weights.len().min(n_regions as usize)));
        }
        Ok(())
    }

    /// Draws S_t, as one flag per slot (Algorithm 1 line 6).
    fn sample(&self, key: &[u8; 32]) -> Vec<bool> {
        let n = self.settings.n_slots;
        let mut bits = Bits::new(key, Purpose::PaperSample);
        let Some(n_sampled) = self.n_sampled() else {
            let rate = self.settings.sampling.rate().get();
            #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
            let mut toss = || (bits.take(53) as f64) < rate * 9_007_199_254_740_992.0;
            return (0..n).map(|_| toss()).collect();
        };
        let mut slots: Vec<usize> = (0..n as usize).collect();
        let mut sampled = vec![false; n as usize];
        for place in 0..n_sampled {
            let chosen = u64::from(place) + bits.below(u64::from(n - place));
            #[expect(clippy::cast_possible_truncation, reason = "below N < 2^32")]
            slots.swap(place as usize, chosen as usize);
            sampled[slots[place as usize]] = true;
        }
        sampled
    }

    /// Replaces ω by ω̂ = ω / max(1, ‖ω‖ / (S/√P)), or by zero if ω is not finite. The squares of
    /// huge coordinates do not overflow.
    fn clip(&self, vector: &mut [f64]) {
        let largest = vector.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        if !vector.iter().all(|x| x.is_finite()) {
            vector.fill(0.0);
        } else if largest > 0.0 {
            let bound = self.settings.max_norm / f64::from(self.settings.n_regions).sqrt();
            let relative = vector.iter().map(|x| (x / largest).powi(2)).sum::<f64>();
            let relative_norm = relative.sqrt(); // ‖ω‖ / largest, from 1 to √M
            if largest > bound / relative_norm {
                for x in vector {
                    *x = *x / largest * (bound / relative_norm);
                }
            }
        }
    }
}

/// An open round of the paper's mechanism. Vectors stay unread until the round closes, so their
/// order does not matter.
pub struct PaperCollecting {
    mechanism: PaperMechanism,
    round: u64,
    weights: Vec<Vec<f64>>,
    vectors: Sealed,
}

/// The result of a round of the paper's mechanism, and the privacy cost by the paper's argument.
#[derive(Debug)]
#[must_use = "a release has been paid for when it is made"]
pub struct PaperClosed<K> {
    /// The noisy weighted averages of all regions.
    pub release: PaperRelease<K>,
    /// The privacy event of the release; `None` without noise.
    pub event: Option<PrivacyEvent>,
}

impl PaperCollecting {
    /// Accepts a slot's vector without reading it.
    ///
    /// # Errors
    /// For public reasons; see [`VectorRefused`].
    pub fn receive(&mut self, slot: u32, vector: &[f64]) -> Result<(), VectorRefused> {
        self.vectors.keep(slot, vector)
    }

    /// Samples agents, averages their vectors and adds noise, even if no vector has arrived
    /// (INV-3). The key is drawn before any vector is read (INV-8).
    ///
    /// # Errors
    /// If the source provides no randomness. In that case no vector has been read, and the round
    /// has no release.
    pub fn close<S: NoiseSource>(self, source: &mut S) -> Result<PaperClosed<S::Kind>, NoiseError> {
        let key = source.key(self.round)?;
        // Nothing below can fail.
        let settings = &self.mechanism.settings;
        let rate = settings.sampling.rate().get();
        let sampled = self.mechanism.sample(&key);
        let mut noise = Bits::new(&key, Purpose::PaperNoise);
        let vectors: Vec<_> = self
            .vectors
            .by_slot
            .into_iter()
            .map(|(slot, mut vector)| {
                self.mechanism.clip(&mut vector);
                (slot, vector)
            })
            .collect();
        let maxima: Vec<f64> = self.weights.iter().map(|row| largest(row)).collect();
        let overall = largest(&maxima);
        let (mut regions, mut noise_stds) = (Vec::new(), Vec::new());
        for (row, own_max) in self.weights.iter().zip(maxima) {
            let weight_max = match settings.weight_max {
                WeightMax::Overall => overall,
                WeightMax::PerRegion => own_max,
            };
            let mut sum = vec![0.0; settings.n_features as usize];
            for (slot, vector) in &vectors {
                if sampled[*slot as usize] {
                    let weight = row[*slot as usize] / rate;
                    sum.iter_mut().zip(vector.iter()).for_each(|(s, x)| *s += weight * x);
                }
            }
            let noise_std = match settings.noise_multiplier {
                0.0 => 0.0, // S may be infinite
                z => z * weight_max * settings.max_norm / rate,
            };
            for s in &mut sum {
                let normal: f64 = StandardNormal.sample(noise.generator());
                *s += noise_std * normal;
            }
            regions.extend(sum);
            noise_stds.push(noise_std);
        }
        Ok(PaperClosed {
            release: PaperRelease::new(self.round, noise_stds, regions),
            event: self.mechanism.event(),
        })
    }
}

/// Shows only the round (INV-4).
impl fmt::Debug for PaperCollecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PaperCollecting").field("round", &self.round).finish_non_exhaustive()
    }
}

fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(0.0, f64::max)
}
