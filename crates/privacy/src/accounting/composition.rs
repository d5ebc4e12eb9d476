//! The events of a study, reduced to subsampled Gaussians and grouped by rate and multiplier.

use std::collections::BTreeMap;

use super::accountant::{AccountantKind, Unproved, UnsupportedEvent, n_releases_after};
use super::event::{InvalidParameter, Noise, PrivacyEvent, Sampling, invalid};
use super::subsampled::Subsampled;

/// The smallest z supported for releases with sampling. For smaller z, a single round has an ε in
/// the thousands.
pub(super) const MIN_MULTIPLIER: f64 = 0.05;
/// Larger multipliers are lowered to this value.
const MAX_MULTIPLIER: f64 = 1e12;
/// Smaller rates are raised to this value.
const MIN_RATE: f64 = 1e-30;

/// The smallest variance, in squared lattice units, at which a discrete Gaussian is reduced to a
/// continuous one.
const MIN_DISCRETE_VARIANCE: u128 = 100;
/// s², the part of the variance that the randomised rounding uses up.
const ROUNDING_VARIANCE: u128 = 9;
/// η ≥ 2 Σ_{m≥1} exp(−2π² m² s²) = 1.44e−77: the relative difference between
/// Σ_k exp(−(k − y)²/(2 s²)) and s √(2π).
const ROUNDING_DEFECT: f64 = 1.5e-77;

/// A continuous Gaussian from which post-processing yields a release's noise, with probabilities
/// exact up to a factor e^{±defect}.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reduced {
    /// z, rounded down.
    pub(super) multiplier: f64,
    /// a, rounded up.
    pub(super) defect: f64,
}

impl Reduced {
    /// Reduces the noise to a continuous Gaussian relative to C (`ACCOUNTING.md`, "The lattice").
    pub(super) fn of(noise: &Noise) -> Result<Self, InvalidParameter> {
        match *noise {
            Noise::Gaussian(multiplier) => Ok(Self { multiplier: multiplier.get(), defect: 0.0 }),
            Noise::DiscreteGaussian { variance, bound, n_coordinates } => {
                if variance < MIN_DISCRETE_VARIANCE {
                    let expected =
                        "at least 100 squared lattice units: use a finer lattice or more noise";
                    return Err(invalid("discrete noise variance", variance, expected));
                }
                if bound == 0 {
                    return Err(invalid("norm bound", bound, "above 0"));
                }
                // Each of the four operations has a relative error of at most 2⁻⁵²; a factor of 8
                // leaves a margin.
                let left = (variance - ROUNDING_VARIANCE) as f64;
                let multiplier = left.sqrt() / bound as f64 * (1.0 - 8.0 * f64::EPSILON);
                // 2 artanh η ≤ 2.1 η for each coordinate.
                let defect = 2.1 * ROUNDING_DEFECT * n_coordinates as f64;
                Ok(Self { multiplier, defect })
            }
        }
    }
}

/// Poisson-sampled Gaussian releases under zero-out adjacency.
#[derive(Clone, Debug, Default)]
pub(super) struct Composition {
    /// Number of releases for each (q, z). The keys are the bit patterns, which sort like the
    /// positive numbers they encode.
    counts: BTreeMap<(u64, u64), u64>,
    n_releases: u64,
    defect: f64,
}

impl Composition {
    /// Adds `count` releases; `kind` is named in errors.
    pub(super) fn add(
        &mut self,
        kind: AccountantKind,
        event: &PrivacyEvent,
        count: u64,
    ) -> Result<(), UnsupportedEvent> {
        let Sampling::Poisson(rate) = event.sampling else {
            return Err(kind.refuses(&event.sampling));
        };
        let reduced = Reduced::of(&event.noise)?;
        let n_releases = n_releases_after(self.n_releases, count)?;
        if count == 0 {
            return Ok(());
        }
        let rate = rate.get().max(MIN_RATE);
        let multiplier = reduced.multiplier.min(MAX_MULTIPLIER);
        *self.counts.entry((rate.to_bits(), multiplier.to_bits())).or_default() += count;
        self.n_releases = n_releases;
        self.defect += reduced.defect * count as f64;
        Ok(())
    }

    /// Returns the number of releases so far.
    pub(super) fn n_releases(&self) -> u64 {
        self.n_releases
    }

    /// Returns Σ a, rounded up: the joint probabilities of all releases are correct up to a factor
    /// e^{±Σ a}.
    pub(super) fn defect(&self) -> f64 {
        self.defect * (1.0 + 1e-6)
    }

    /// Returns Σ q, rounded up: an agent is never sampled with probability at least 1 − Σ q.
    pub(super) fn expected_participations(&self) -> f64 {
        let sum: f64 = self
            .counts
            .iter()
            .map(|(&(rate, _), &count)| f64::from_bits(rate) * count as f64)
            .sum();
        sum * (1.0 + 1e-9)
    }

    /// Returns the releases grouped by (q, z); those without sampling are combined into a single
    /// Gaussian.
    ///
    /// # Errors
    /// If the noise is too small to be evaluated.
    pub(super) fn parts(&self) -> Result<Vec<Subsampled>, Unproved> {
        let all = self.counts.iter().map(|(&(rate, multiplier), &count)| Subsampled {
            rate: f64::from_bits(rate),
            multiplier: f64::from_bits(multiplier),
            count: count as f64,
        });
        let (whole, mut sampled): (Vec<_>, Vec<_>) = all.partition(|part| part.rate >= 1.0);
        let too_low = sampled.iter().find(|part| part.multiplier < MIN_MULTIPLIER);
        if let Some(part) = too_low {
            return Err(Unproved::TooLittleNoise {
                multiplier: part.multiplier,
                rate: part.rate,
                limit: MIN_MULTIPLIER,
            });
        }
        if !whole.is_empty() {
            // The composition of Gaussians is the Gaussian with 1/z² = Σ count/z².
            let precision: f64 =
                whole.iter().map(|part| part.count / part.multiplier / part.multiplier).sum();
            sampled.push(Subsampled {
                rate: 1.0,
                multiplier: precision.sqrt().recip() * (1.0 - 1e-13),
                count: 1.0,
            });
        }
        Ok(sampled)
    }
}

/// The choice of the q and z that represent all releases of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Representative {
    /// The largest q and the smallest z of the class, which dominate every member (`ACCOUNTING.md`,
    /// "Classes").
    Worst,
    /// The mean q and z. They give no bound, but are useful for a search.
    Mean,
}

/// Returns about `most` parts that represent all parts. Parts in the same cell of a grid with ratio
/// 1 + 2^−n form a class; the grid is as fine as `most` allows.
pub(super) fn gathered(
    parts: &[Subsampled],
    most: usize,
    representative: Representative,
) -> Vec<Subsampled> {
    if parts.len() <= most {
        return parts.to_vec();
    }
    for fineness in (0..=14).rev() {
        let ratio = 2.0_f64.powi(-fineness).ln_1p();
        let mut classes: BTreeMap<(i64, i64), Subsampled> = BTreeMap::new();
        for part in parts {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "logarithms of numbers within 1e-30 and 1e12, over 2^-14"
            )]
            let class = |value: f64| (value.ln() / ratio).floor() as i64;
            let key = (class(part.rate), class(part.multiplier));
            let Some(class) = classes.get_mut(&key) else {
                classes.insert(key, *part);
                continue;
            };
            let count = class.count + part.count;
            match representative {
                Representative::Worst => {
                    class.rate = class.rate.max(part.rate);
                    class.multiplier = class.multiplier.min(part.multiplier);
                }
                Representative::Mean => {
                    let share = part.count / count;
                    class.rate += share * (part.rate - class.rate);
                    class.multiplier += share * (part.multiplier - class.multiplier);
                }
            }
            class.count = count;
        }
        if classes.len() <= most || fineness == 0 {
            return classes.into_values().collect();
        }
    }
    parts.to_vec()
}
