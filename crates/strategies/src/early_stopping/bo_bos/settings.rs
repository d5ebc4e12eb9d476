//! Settings of BO-BOS: losses, beliefs about learning curves, the grid, and condition C2.

use fedbo_gp::{DecayFit, DecayNoise};
use serde::{Deserialize, Serialize};

use super::{BoBosOptions, SparseCells, StoppingLosses};
use crate::StrategyError;

/// The range of a study's values (larger is better). The error of a value, (high − value)/(high −
/// low), is then in `[0,1]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f64>", into = "[f64; 2]")]
pub struct ValueBounds {
    /// The worst value.
    pub low: f64,
    /// The best value.
    pub high: f64,
}

impl TryFrom<Vec<f64>> for ValueBounds {
    type Error = &'static str;

    fn try_from(given: Vec<f64>) -> Result<Self, Self::Error> {
        match given[..] {
            [low, high] if low < high && low.is_finite() && high.is_finite() => {
                Ok(Self { low, high })
            }
            _ => Err("expected [LOW, HIGH], two finite numbers, the lower one first"),
        }
    }
}

impl From<ValueBounds> for [f64; 2] {
    fn from(ValueBounds { low, high }: ValueBounds) -> Self {
        [low, high]
    }
}

impl ValueBounds {
    /// Bounds for values that are negated errors in `[0,1]`.
    pub const NEGATIVE_ERRORS: Self = Self { low: -1.0, high: 0.0 };

    /// Returns the error of a value, which is outside `[0,1]` if the value is outside the bounds.
    pub fn error(self, value: f64) -> f64 {
        (self.high - value) / (self.high - self.low)
    }

    /// Returns the value that has this error.
    pub fn value(self, error: f64) -> f64 {
        self.high - error * (self.high - self.low)
    }
}

/// The summary statistic: the average error so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Average {
    /// Over epochs 1 to n (thesis A.2).
    All,
    /// Over epochs N₀ + 1 to n (the authors' code).
    AfterFirst,
}

/// The division of the statistic's range into cells at each epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grid {
    /// Equal cells of `[0,1]` at all epochs, as in the authors' code with 99 cells. Most cells are
    /// never visited, because an average over many epochs changes little.
    Unit,
    /// Equal cells of the range that paths typically reach: the mean plus and minus five standard
    /// deviations.
    Reached,
}

/// ξ_t, subtracted from the incumbent because the incumbent is a noisy observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IncumbentMargin {
    /// 0, as in all experiments of the thesis (A.4).
    None,
    /// ξ_t = √(2 σ² ln(π² t² (t − 1)/(6 δ''))) for t > 1, ξ_1 = 0 (Theorem 4.1).
    Theory {
        /// σ, in the units of the values.
        noise_std: f64,
        /// δ'' in (0, 1).
        failure_prob: f64,
    },
}

impl IncumbentMargin {
    /// Returns ξ_t.
    pub fn at(self, t: u64) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Theory { .. } if t <= 1 => 0.0,
            Self::Theory { noise_std, failure_prob } => {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "numbers of trials are far below 2^53"
                )]
                let t = t as f64;
                let pi = std::f64::consts::PI;
                let ratio = pi * pi * t * t * (t - 1.0) / (6.0 * failure_prob);
                noise_std * (2.0 * ratio.ln().max(0.0)).sqrt()
            }
        }
    }
}

/// The belief about a trial's curve after the first epochs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CurveBelief {
    /// A grid of processes, weighted by how well they explain the first errors. Some of them decay
    /// to a level other than 0. See [`fedbo_gp::DecayAverage`].
    Averaged {
        /// Noise variance σ².
        noise: DecayNoise,
    },
    /// A single process, as if its parameters were known (thesis A.2).
    Certain {
        /// Method for fitting the process.
        fit: DecayFit,
        /// a²: variance of the level that curves approach. With 0, as in the thesis, curves decay
        /// to error 0.
        level_variance: f64,
    },
}

/// Settings of a trial's stopping problem and its solution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BosSettings {
    /// Number of epochs N of a complete trial.
    pub n_epochs: usize,
    /// The options that a study file can set.
    pub options: BoBosOptions,
    /// True if C2 compares standard deviations of observations rather than of the latent function,
    /// as in the authors' code.
    pub stop_std_with_noise: bool,
    /// ξ_t.
    pub incumbent_margin: IncumbentMargin,
    /// Number of paths to draw.
    pub n_paths: usize,
    /// Number of cells per epoch, at most 65 536.
    pub n_cells: usize,
    /// Division of the statistic's range into cells.
    pub grid: Grid,
    /// The summary statistic.
    pub average: Average,
    /// Treatment of cells with few paths.
    pub sparse: SparseCells,
    /// The belief about a curve.
    pub belief: CurveBelief,
}

impl BosSettings {
    /// Returns the settings of the thesis (section 4.5, A.4): options as in
    /// [`BoBosOptions::for_epochs`], values between 0 and 1, 100 000 paths, 100 cells, ξ_t = 0.
    ///
    /// There are two differences from the thesis. First, the belief about a curve averages over the
    /// hyperparameters of its process. The thesis uses the process with the largest evidence, which
    /// predicts final values that are too low with too much certainty: see papers/bo-bos.md and
    /// [`BosSettings::with_one_process`]. Second, cells cover only the range that paths typically
    /// reach.
    pub fn for_epochs(n_epochs: usize) -> Self {
        Self {
            n_epochs,
            options: BoBosOptions::for_epochs(u32::try_from(n_epochs).unwrap_or(u32::MAX)),
            stop_std_with_noise: false,
            incumbent_margin: IncumbentMargin::None,
            n_paths: 100_000,
            n_cells: 100,
            grid: Grid::Reached,
            average: Average::All,
            sparse: SparseCells::Plain,
            belief: CurveBelief::Averaged { noise: DecayNoise::Fitted },
        }
    }

    /// Returns the settings with one process per curve: the one with the largest evidence, which
    /// decays to error 0. This matches the thesis except for σ², which is fitted. The thesis does
    /// not specify σ², and the authors fix it at 1e-3.
    #[must_use]
    pub fn with_one_process(self) -> Self {
        Self {
            belief: CurveBelief::Certain {
                fit: DecayFit::Evidence { noise: DecayNoise::Fitted },
                level_variance: 0.0,
            },
            ..self
        }
    }

    /// Returns the settings of the authors' code: σ² = 1e-3, K_{1,t} = 100/0.99^(t−1), 99 cells on
    /// `[0,1]`, and the average over the epochs after N₀. Cells with at most 30 paths continue at
    /// no loss, and C2 includes noise.
    ///
    /// Some differences remain. In the authors' code, α and β can become negative; ours stay
    /// positive. Their bound has β_t = 0.2 d ln 2t without a square root, and their incumbent
    /// excludes fully trained trials.
    #[must_use]
    pub fn as_in_authors_code(self) -> Self {
        Self {
            options: BoBosOptions {
                wrong_stop_loss: 100.0,
                wrong_stop_growth: 1.0 / 0.99,
                ..self.options
            },
            stop_std_with_noise: true,
            n_cells: 99,
            grid: Grid::Unit,
            average: Average::AfterFirst,
            sparse: SparseCells::ContinueFree { n_paths_max: 30 },
            belief: CurveBelief::Certain {
                fit: DecayFit::Evidence { noise: DecayNoise::Fixed(1e-3) },
                level_variance: 0.0,
            },
            ..self
        }
    }

    /// Returns the settings with these value bounds.
    #[must_use]
    pub fn with_bounds(self, bounds: ValueBounds) -> Self {
        let bounds = Some(bounds);
        let options = BoBosOptions { bounds, ..self.options };
        Self { options, ..self }
    }

    /// Returns N₀.
    pub fn first_epochs(&self) -> usize {
        self.options.first_epochs as usize
    }

    /// Returns the range of values, which is 0 to 1 unless the options specify a different range.
    pub fn bounds(&self) -> ValueBounds {
        let unit = ValueBounds { low: 0.0, high: 1.0 };
        self.options.bounds.unwrap_or(unit)
    }

    /// Returns the losses of the t-th trial that the strategy proposed.
    pub fn losses(&self, t: u64) -> StoppingLosses {
        let options = &self.options;
        let exponent = i32::try_from(t.saturating_sub(1)).unwrap_or(i32::MAX);
        StoppingLosses {
            wrong_stop: options.wrong_stop_loss * options.wrong_stop_growth.powi(exponent),
            wrong_continue: options.wrong_continue_loss,
            epoch: options.epoch_cost,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// If a setting is out of range. The error describes the first one.
    pub fn validate(self) -> Result<Self, StrategyError> {
        let n = self.n_epochs;
        StrategyError::ensure(n >= 3, "epochs", n, "at least 3")?;
        let options = &self.options;
        let first = self.first_epochs();
        let fine = (2..=(n - 2).max(2)).contains(&first);
        let expected = "at least 2, and at least 2 fewer than epochs (2 of 3 epochs)";
        StrategyError::ensure(fine, "first_epochs", first, expected)?;
        let ValueBounds { low, high } = self.bounds();
        let fine = low.is_finite() && high.is_finite() && low < high;
        let expected = "two finite numbers, the lower one first";
        StrategyError::ensure(fine, "bounds", format!("[{low}, {high}]"), expected)?;
        let above_zero = |name, value: f64| {
            let expected = "a number above 0";
            StrategyError::ensure(value > 0.0, name, value, expected)
        };
        match self.incumbent_margin {
            IncumbentMargin::None => {}
            IncumbentMargin::Theory { noise_std, failure_prob } => {
                let fine = noise_std.is_finite() && noise_std >= 0.0;
                let expected = "a finite number of at least 0";
                StrategyError::ensure(fine, "noise_std", noise_std, expected)?;
                let fine = failure_prob > 0.0 && failure_prob < 1.0;
                let expected = "a number between 0 and 1, ends excluded";
                StrategyError::ensure(fine, "failure_prob", failure_prob, expected)?;
            }
        }
        let noise = match self.belief {
            CurveBelief::Averaged { noise }
            | CurveBelief::Certain { fit: DecayFit::Evidence { noise }, .. } => noise,
            CurveBelief::Certain {
                fit: DecayFit::BayesianUpdate { shape, rate, noise_variance },
                ..
            } => {
                for (name, value) in [("shape", shape), ("rate", rate)] {
                    let fine = value.is_finite() && value >= 0.0;
                    let expected = "a finite number of at least 0";
                    StrategyError::ensure(fine, name, value, expected)?;
                }
                DecayNoise::Fixed(noise_variance)
            }
        };
        if let DecayNoise::Fixed(variance) = noise {
            let fine = variance.is_finite() && variance > 0.0;
            let expected = "a finite number above 0";
            StrategyError::ensure(fine, "noise variance", variance, expected)?;
        }
        if let CurveBelief::Certain { level_variance, .. } = self.belief {
            let fine = level_variance.is_finite() && level_variance >= 0.0;
            let expected = "a finite number of at least 0";
            StrategyError::ensure(fine, "level_variance", level_variance, expected)?;
        }
        above_zero("wrong_stop_loss", options.wrong_stop_loss)?;
        let growth = options.wrong_stop_growth;
        let fine = growth.is_finite() && growth >= 1.0;
        StrategyError::ensure(fine, "wrong_stop_growth", growth, "a finite number of at least 1")?;
        above_zero("wrong_continue_loss", options.wrong_continue_loss)?;
        let cost = options.epoch_cost;
        let fine = cost.is_finite() && cost > 0.0;
        StrategyError::ensure(fine, "epoch_cost", cost, "a finite number above 0")?;
        let ratio = options.stop_std_ratio;
        StrategyError::ensure(ratio >= 1.0, "stop_std_ratio", ratio, "a number of at least 1")?;
        let paths = self.n_paths;
        StrategyError::ensure(paths >= 100, "n_paths", paths, "at least 100")?;
        let cells = self.n_cells;
        let fine = (2..=1 << 16).contains(&cells);
        StrategyError::ensure(fine, "n_cells", cells, "from 2 to 65536")?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_those_of_the_thesis() {
        let settings = BosSettings::for_epochs(50).validate().unwrap();
        assert_eq!(settings.first_epochs(), 8);
        assert!((settings.losses(3).wrong_stop - 100.0 / 0.95_f64.powi(2)).abs() < 1e-9);
        assert!((settings.as_in_authors_code().losses(2).wrong_stop - 100.0 / 0.99).abs() < 1e-9);
        let margin = IncumbentMargin::Theory { noise_std: 0.1, failure_prob: 0.05 };
        let by_hand = 0.1 * (2.0 * (9.869_604_401 * 9.0 * 2.0 / 0.3_f64).ln()).sqrt();
        assert!((margin.at(3) - by_hand).abs() < 1e-9);
        assert!(margin.at(1).abs() < 1e-15 && IncumbentMargin::None.at(9).abs() < 1e-15);
        let bounds = ValueBounds { low: -2.0, high: 2.0 };
        assert!(
            (bounds.error(1.0) - 0.25).abs() < 1e-15 && (bounds.value(0.25) - 1.0).abs() < 1e-15
        );
    }

    #[test]
    fn what_is_out_of_range_is_refused_by_name() {
        let refused = |change: fn(&mut BosSettings), name: &str| {
            let mut settings = BosSettings::for_epochs(50);
            change(&mut settings);
            let error = settings.validate().unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        };
        refused(|s| s.n_epochs = 2, "epochs");
        refused(|s| s.options.first_epochs = 50, "first_epochs");
        refused(|s| s.options.first_epochs = 1, "first_epochs");
        refused(|s| s.options.bounds = Some(ValueBounds { low: 1.0, high: 1.0 }), "bounds");
        refused(|s| s.options.wrong_stop_loss = f64::NAN, "wrong_stop_loss");
        refused(|s| s.options.wrong_stop_growth = 0.9, "wrong_stop_growth");
        refused(|s| s.options.wrong_continue_loss = 0.0, "wrong_continue_loss");
        refused(|s| s.options.epoch_cost = f64::INFINITY, "epoch_cost");
        refused(|s| s.options.stop_std_ratio = 0.5, "stop_std_ratio");
        refused(
            |s| s.belief = CurveBelief::Averaged { noise: DecayNoise::Fixed(f64::NAN) },
            "noise variance",
        );
        refused(
            |s| {
                s.incumbent_margin =
                    IncumbentMargin::Theory { noise_std: f64::NAN, failure_prob: 0.1 }
            },
            "noise_std",
        );
        refused(|s| s.n_paths = 10, "n_paths");
        refused(|s| s.n_cells = 1, "n_cells");
        let mut infinite = BosSettings::for_epochs(50);
        infinite.options.wrong_continue_loss = f64::INFINITY;
        assert!(infinite.validate().is_ok());
    }
}
