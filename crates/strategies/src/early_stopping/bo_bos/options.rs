//! The options of BO-BOS.

use serde::{Deserialize, Serialize};

use super::{BosSettings, ValueBounds};
use crate::early_stopping::options::{positive, whole};
use crate::early_stopping::{OptionError, StoppingMethod, StoppingOptions};

/// The options of `bo-bos`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoBosOptions {
    /// The lowest and the highest possible value; without it, a range somewhat wider than that of the values seen.
    pub bounds: Option<ValueBounds>,
    /// N₀: epochs that every trial is trained for.
    #[serde(deserialize_with = "whole::<1, _>")]
    pub first_epochs: u32,
    /// κ ≥ 1 of condition C2: a trial is stopped at epoch n only if σ([x, N]) ≤ κ σ([x, n]).
    #[serde(deserialize_with = "positive")]
    pub stop_std_ratio: f64,
    /// K_{1,1}: what it costs to stop a trial that would have been better.
    #[serde(deserialize_with = "positive")]
    pub wrong_stop_loss: f64,
    /// The factor by which K_{1,t} is multiplied with each trial (thesis Theorem 4.2 wants it to grow; Fig. 4.1 compares 1/0.89, 1/0.95, 1/0.99
    /// and 1).
    #[serde(deserialize_with = "positive")]
    pub wrong_stop_growth: f64,
    /// K₂: what it costs to train a trial to the end that is worse.
    #[serde(deserialize_with = "positive")]
    pub wrong_continue_loss: f64,
    /// c: what an epoch costs.
    #[serde(deserialize_with = "positive")]
    pub epoch_cost: f64,
    /// True if the model is told the expected end of a trial that was stopped, the mean of the predicted curves, as if it had been observed
    /// at epoch N. Studies that were stored without this option were told it, and go on so.
    #[serde(default = "of_stored_without")]
    pub expected_end: bool,
}

/// The option `expected_end` of a definition that was stored before there was one.
fn of_stored_without() -> bool {
    true
}

impl BoBosOptions {
    /// The settings of the thesis (section 4.5, A.4): N₀ = 8 of 50 epochs (in proportion for other N), K_{1,t} = 100/0.95^(t−1),
    /// K₂ = 99, c = 1, κ = 2.
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
    /// A curve has one process, as in the thesis: the average over many processes stops more trials, better ones among them.
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
