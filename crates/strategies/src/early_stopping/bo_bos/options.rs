//! Options of BO-BOS.

use serde::{Deserialize, Serialize};

use super::{BosSettings, ValueBounds};
use crate::early_stopping::options::{positive, whole};
use crate::early_stopping::{OptionError, StoppingMethod, StoppingOptions};

/// Options of `bo-bos`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoBosOptions {
    /// Lowest and highest possible value. Defaults to a range slightly wider than the range of the
    /// observed values.
    pub bounds: Option<ValueBounds>,
    /// N₀: number of epochs that every trial is trained for.
    #[serde(deserialize_with = "whole::<1, _>")]
    pub first_epochs: u32,
    /// κ ≥ 1 in condition C2: a trial is stopped at epoch n only if σ([x, N]) ≤ κ σ([x, n]).
    #[serde(deserialize_with = "positive")]
    pub stop_std_ratio: f64,
    /// K_{1,1}: the loss of stopping a trial that would have beaten the incumbent.
    #[serde(deserialize_with = "positive")]
    pub wrong_stop_loss: f64,
    /// Growth factor of K_{1,t} per trial (thesis Theorem 4.2 requires growth; Fig. 4.1 compares
    /// 1/0.89, 1/0.95, 1/0.99 and 1).
    #[serde(deserialize_with = "positive")]
    pub wrong_stop_growth: f64,
    /// K₂: the loss of training a trial to the end that does not beat the incumbent.
    #[serde(deserialize_with = "positive")]
    pub wrong_continue_loss: f64,
    /// c: the cost of each observed epoch.
    #[serde(deserialize_with = "positive")]
    pub epoch_cost: f64,
    /// True to add the expected end of a stopped trial, the mean of the predicted curves, to the
    /// model as if it had been observed at epoch N. Studies that were stored before this option
    /// existed keep it on.
    #[serde(default = "of_stored_without")]
    pub expected_end: bool,
}

/// The value of `expected_end` for definitions that were stored before this option existed.
fn of_stored_without() -> bool {
    true
}

impl BoBosOptions {
    /// Returns the settings of the thesis (section 4.5, A.4): N₀ = 8 of 50 epochs (in proportion
    /// for other N), K_{1,t} = 100/0.95^(t−1), K₂ = 99, c = 1, κ = 2.
    pub fn for_epochs(epochs: u32) -> Self {
        Self {
            bounds: None,
            first_epochs: (epochs.saturating_mul(4) / 25).max(2),
            stop_std_ratio: 2.0,
            wrong_stop_loss: 100.0,
            wrong_stop_growth: 1.0 / 0.95,
            wrong_continue_loss: 99.0,
            epoch_cost: 1.0,
            expected_end: false,
        }
    }
}

impl StoppingOptions for BoBosOptions {
    /// Uses one process per curve, as in the thesis. Averaging over many processes stops more
    /// trials, including good ones.
    fn make(&self, epochs: u32) -> Result<StoppingMethod, OptionError> {
        let settings = BosSettings {
            options: *self,
            ..BosSettings::for_epochs(epochs as usize).with_one_process()
        };
        Ok(StoppingMethod::Solved(settings.validate()?))
    }

    fn epochs_min(&self) -> u32 {
        3
    }

    fn needs_epoch_model(&self) -> bool {
        true
    }
}
