//! Wine quality (Cortez et al. 2009, red) split over sites with different wines. Each site tunes an
//! SVM on its own bottles.
//!
//! docs/decisions/0005-wine-silos.md describes how the sites were constructed, and which of their
//! properties are realistic.

use std::collections::HashSet;

use fedbo_objective::{Direction, Objective, Outcome, Problem, TrialId};
use fedbo_space::{Point, Space};
use fedbo_streams::{Purpose, Seed, Stream};

use crate::problem::{ProblemError, coordinates, log_space, svm_outcome};
use crate::svm::{Labelled, SplitSvm, SvmError};

/// Default number of sites.
pub const N_SILOS: usize = 8;
/// Minimum number of bottles at a site. In each split, 60 of them are for validation.
const SILO_MIN: usize = 120;
/// Number of splits over which a site averages its AUC, to reduce the noise of a single small half.
const N_SPLITS: u64 = 5;
/// Ratio between consecutive sites' numbers of bottles above the minimum.
const GROWTH: f64 = 1.6;
/// Distance of a site's typical wine from the overall mean, in standard deviations.
const SPREAD: f64 = 1.0;
/// Width of a site's range of wines, in standard deviations.
const WIDTH: f64 = 1.2;
/// Seed of the split, which is part of the problem's definition.
const SPLIT_SEED: u64 = 2009;
/// Minimum quality of a bottle with the label yes.
const GOOD: usize = 6;
/// Columns that distinguish the sites.
const ALCOHOL: usize = 10;
const VOLATILE_ACIDITY: usize = 1;
/// Range of the penalty C.
const C_RANGE: [f64; 2] = [1e-3, 1e3];
/// Range of the kernel parameter gamma.
const GAMMA_RANGE: [f64; 2] = [1e-4, 1e1];

/// One site's bottles, repeatedly split in half within each label. The label is quality ≥ 6.
#[derive(Clone, Debug, PartialEq)]
pub struct WineSilo {
    /// The splits. Each contains all bottles of the site.
    pub splits: Vec<WineSplit>,
}

/// One split of a site's bottles. Features are standardised with the training half's mean and
/// standard deviation.
#[derive(Clone, Debug, PartialEq)]
pub struct WineSplit {
    /// Training bottles.
    pub train: Labelled,
    /// Validation bottles.
    pub validation: Labelled,
}

impl WineSilo {
    /// Returns the number of bottles.
    pub fn len(&self) -> usize {
        let split = &self.splits[0];
        split.train.len() + split.validation.len()
    }

    /// Returns true if there are no bottles, which is never the case.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the share of good bottles.
    pub fn share_good(&self) -> f64 {
        let split = &self.splits[0];
        (split.train.n_positive() + split.validation.n_positive()) as f64 / self.len() as f64
    }
}

/// All sites. The split is deterministic.
#[derive(Clone, Debug, PartialEq)]
pub struct WineSites {
    silos: Vec<WineSilo>,
}

/// A bottle: eleven measurements, and true if the quality is good.
pub(crate) type WineSample = (Vec<f64>, bool);

impl WineSites {
    /// Splits the data over `n_silos` sites.
    ///
    /// # Errors
    /// If there are too few bottles for this number of sites.
    pub fn new(n_silos: usize) -> Result<Self, ProblemError> {
        Self::with_at_least(SILO_MIN, n_silos, "wine-svm")
    }

    /// Like [`Self::new`], for the problem named `problem`, with at least `silo_min` bottles at
    /// each site instead of 120.
    pub(crate) fn with_at_least(
        silo_min: usize,
        n_silos: usize,
        problem: &str,
    ) -> Result<Self, ProblemError> {
        let bottles = distinct_bottles();
        let n_silos_max = bottles.len() / silo_min;
        if !(1..=n_silos_max).contains(&n_silos) {
            return Err(ProblemError::Option {
                problem: problem.into(),
                key: "n_silos",
                found: n_silos.to_string(),
                expected: format!("a number from 1 to {n_silos_max}"),
            });
        }
        let seed = Seed::new(SPLIT_SEED);
        let sizes = quotas(bottles.len(), n_silos, silo_min);
        let assigned = assign(&bottles, sizes, &mut seed.stream(Purpose::PROBLEM, 0, 0));
        let silos = (1..)
            .zip(assigned)
            .map(|(index, own)| WineSilo {
                splits: (0..N_SPLITS)
                    .map(|split| halve(&own, &mut seed.stream(Purpose::PROBLEM, index, split)))
                    .collect(),
            })
            .collect();
        Ok(Self { silos })
    }

    /// Returns the sites in order.
    pub fn silos(&self) -> &[WineSilo] {
        &self.silos
    }

    /// Returns site number `silo`. `problem` is the problem's name for the error.
    pub(crate) fn silo(&self, silo: usize, problem: &str) -> Result<&WineSilo, ProblemError> {
        self.silos.get(silo).ok_or_else(|| ProblemError::Option {
            problem: problem.into(),
            key: "silo",
            found: silo.to_string(),
            expected: format!("a number from 0 to {}", self.silos.len() - 1),
        })
    }
}

/// Returns the distinct bottles. 240 of the 1599 rows repeat an earlier row, and the same bottle
/// could otherwise be in both halves of a split.
pub(crate) fn distinct_bottles() -> Vec<WineSample> {
    let data = linfa_datasets::winequality();
    let mut seen = HashSet::new();
    let mut bottles = Vec::new();
    for (row, &quality) in data.records.rows().into_iter().zip(&data.targets) {
        let row = row.to_vec();
        let bits: Vec<u64> = row.iter().map(|value| value.to_bits()).collect();
        if seen.insert((bits, quality)) {
            bottles.push((row, quality >= GOOD));
        }
    }
    bottles
}

/// Assigns bottles to sites until each has its quota, `room`.
///
/// Sites are evenly spaced on a circle in the plane of standardised alcohol and volatile acidity.
/// Consecutive sizes are three positions apart (or four, five, … when 3 divides N), so that sites
/// of similar size are far apart. Bottles are assigned in random order. Each bottle goes to a site
/// with room left, with probability ∝ room_s exp(−‖z − c_s‖²/(2w²)).
fn assign(
    bottles: &[WineSample],
    mut room: Vec<usize>,
    stream: &mut Stream,
) -> Vec<Vec<WineSample>> {
    let n_silos = room.len();
    let (alcohol, acidity) =
        (column_scale(bottles, ALCOHOL), column_scale(bottles, VOLATILE_ACIDITY));
    let stride = (3..).find(|&s| gcd(s, n_silos) == 1).unwrap_or(1);
    let centres: Vec<(f64, f64)> = (0..n_silos)
        .map(|silo| {
            let angle = std::f64::consts::TAU * ((silo * stride) % n_silos) as f64 / n_silos as f64;
            (SPREAD * angle.cos(), SPREAD * angle.sin())
        })
        .collect();
    let mut order: Vec<&WineSample> = bottles.iter().collect();
    stream.shuffle(&mut order);
    let mut silos = vec![Vec::new(); n_silos];
    for bottle in order {
        let standard = |scale: (f64, f64), column: usize| (bottle.0[column] - scale.0) / scale.1;
        let z = (standard(alcohol, ALCOHOL), standard(acidity, VOLATILE_ACIDITY));
        let log_weights: Vec<f64> = centres
            .iter()
            .zip(&room)
            .map(|(centre, &room)| {
                let distance = (z.0 - centre.0).powi(2) + (z.1 - centre.1).powi(2);
                (room as f64).ln() - distance / (2.0 * WIDTH * WIDTH)
            })
            .collect();
        let largest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = log_weights.iter().map(|w| (w - largest).exp()).collect();
        let silo = stream.choose(&weights).expect("the quotas add up to the number of bottles");
        room[silo] -= 1;
        silos[silo].push(bottle.clone());
    }
    silos
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the sizes of the sites in ascending order: the minimum, plus a share of the rest that
/// grows by a constant factor.
fn quotas(n_rows: usize, n_silos: usize, silo_min: usize) -> Vec<usize> {
    let rest = (n_rows - n_silos * silo_min) as f64;
    let shares: Vec<f64> = (0..n_silos).map(|silo| GROWTH.powf(silo as f64)).collect();
    let total: f64 = shares.iter().sum();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of at most some thousand rows, rounded down on purpose"
    )]
    let mut sizes: Vec<usize> =
        shares.iter().map(|share| silo_min + (rest * share / total) as usize).collect();
    let n_given: usize = sizes.iter().sum();
    sizes[n_silos - 1] += n_rows - n_given;
    sizes
}

/// Returns the mean and standard deviation of a column. A standard deviation of 0 is replaced by 1.
pub(crate) fn column_scale(bottles: &[WineSample], column: usize) -> (f64, f64) {
    let n = bottles.len() as f64;
    let values = || bottles.iter().map(|(row, _)| row[column]);
    let mean = values().sum::<f64>() / n;
    let std = (values().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt();
    (mean, if std > 0.0 { std } else { 1.0 })
}

/// Randomly splits a site's bottles in half within each label, and standardises both halves by the
/// first.
///
/// The two labels start with opposite halves, so that odd counts compensate each other.
fn halve(bottles: &[WineSample], stream: &mut Stream) -> WineSplit {
    let mut bottles: Vec<&WineSample> = bottles.iter().collect();
    stream.shuffle(&mut bottles);
    let (mut train, mut validation) = (Vec::new(), Vec::new());
    let mut to_train = [true, false];
    for bottle in bottles {
        let turn = &mut to_train[usize::from(bottle.1)];
        if *turn { &mut train } else { &mut validation }.push(bottle.clone());
        *turn = !*turn;
    }
    let n_features = train.first().map_or(0, |(row, _): &WineSample| row.len());
    let scales: Vec<(f64, f64)> = (0..n_features).map(|c| column_scale(&train, c)).collect();
    let standardised = |bottles: Vec<WineSample>| {
        let mut labelled = Labelled::default();
        for (row, good) in bottles {
            let scaled = row.iter().zip(&scales).map(|(v, (mean, std))| (v - mean) / std);
            labelled.push(scaled.collect(), good);
        }
        labelled
    };
    WineSplit { train: standardised(train), validation: standardised(validation) }
}

/// One site's objective: validation AUC of an RBF-kernel SVM over C and gamma (both logarithmic), to be maximized.
#[derive(Clone, Debug)]
pub struct WineSvm {
    silo: usize,
    n_silos: usize,
    space: Space,
    machines: Vec<SplitSvm>,
}

impl WineSvm {
    /// Creates the objective of site number `silo`.
    ///
    /// # Errors
    /// If there is no site with this number.
    pub fn new(sites: &WineSites, silo: usize) -> Result<Self, ProblemError> {
        let n_silos = sites.silos.len();
        let data = sites.silo(silo, "wine-svm")?;
        Ok(Self {
            silo,
            n_silos,
            space: log_space([("C", C_RANGE), ("gamma", GAMMA_RANGE)]),
            machines: data
                .splits
                .iter()
                .map(|split| SplitSvm::new(&split.train, &split.validation))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl WineSvm {
    /// Returns the mean validation AUC over the site's splits, at penalty `c` and kernel parameter
    /// `gamma`.
    ///
    /// # Errors
    /// If a hyperparameter is not a finite number above 0.
    pub fn auc(&self, c: f64, gamma: f64) -> Result<f64, SvmError> {
        let aucs = self.machines.iter().map(|machine| machine.auc(c, gamma));
        Ok(aucs.sum::<Result<f64, _>>()? / self.machines.len() as f64)
    }
}

impl Objective for WineSvm {
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        svm_outcome(&self.space, point, |c, gamma| self.auc(c, gamma))
    }
}

impl Problem for WineSvm {
    fn name(&self) -> String {
        format!("wine-svm silo {} of {}", self.silo, self.n_silos)
    }

    fn space(&self) -> &Space {
        &self.space
    }

    fn direction(&self) -> Direction {
        Direction::Maximize
    }

    fn noiseless(&self, point: &Point) -> Option<f64> {
        let at = coordinates(&self.space, point).ok()?;
        self.auc(at[0], at[1]).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bottle_is_at_one_site_and_sites_keep_their_quota() {
        let n_rows = distinct_bottles().len();
        assert_eq!(n_rows, 1359);
        for n_silos in [1, 2, 5, 8, 11] {
            let sites = WineSites::new(n_silos).unwrap();
            let sizes: Vec<usize> = sites.silos().iter().map(WineSilo::len).collect();
            assert_eq!(sizes, quotas(n_rows, n_silos, SILO_MIN));
            assert_eq!(sizes.iter().sum::<usize>(), n_rows);
            for silo in sites.silos().iter().flat_map(|silo| &silo.splits) {
                assert!(silo.validation.len() >= 60);
                assert!(silo.train.len().abs_diff(silo.validation.len()) <= 1);
                assert!(silo.train.n_positive().abs_diff(silo.validation.n_positive()) <= 1);
                for column in 0..11 {
                    let values = silo.train.rows.iter().map(|row| row[column]);
                    assert!((values.sum::<f64>() / silo.train.len() as f64).abs() < 1e-9);
                }
            }
        }
        assert!(WineSites::new(0).is_err() && WineSites::new(12).is_err());
    }

    /// Sites differ far more in their share of good wine than they would with random splits
    /// (standard error about 4 %).
    #[test]
    fn sites_differ_in_their_share_of_good_wine() {
        let sites = WineSites::new(N_SILOS).unwrap();
        let shares: Vec<f64> = sites.silos().iter().map(WineSilo::share_good).collect();
        let low = shares.iter().copied().fold(1.0, f64::min);
        let high = shares.iter().copied().fold(0.0, f64::max);
        assert!(high - low > 0.2, "{shares:?}");
        assert!(low > 0.1 && high < 0.9, "{shares:?}");
    }

    #[test]
    fn the_split_and_the_objective_are_the_same_every_time() {
        let sites = WineSites::new(N_SILOS).unwrap();
        assert_eq!(sites, WineSites::new(N_SILOS).unwrap());
        let problem = WineSvm::new(&sites, 3).unwrap();
        let point = problem.space().decode(&[0.5, 0.5]);
        let trial = |trial| problem.evaluate(&point, TrialId { agent: 3, trial });
        let Outcome::Value(auc) = trial(0) else {
            panic!("{:?}", trial(0));
        };
        assert_eq!(trial(0), trial(1));
        assert!((0.6..0.95).contains(&auc), "{auc}");
        assert_eq!(problem.noiseless(&point), Some(auc));
    }
}
