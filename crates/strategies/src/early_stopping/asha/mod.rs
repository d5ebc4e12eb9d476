//! Asynchronous successive halving without pauses. At each rung, trials that are not among the best
//! fraction are stopped.

use serde::{Deserialize, Serialize};

use super::options::{below, whole};
use super::{
    OptionError, StopReason, StoppingMethod, StoppingOptions, StoppingRule, TrainedTrial, Verdict,
};
use crate::StrategyError;

/// Options of `asha`, which define its rungs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AshaOptions {
    /// η ≥ 2: one in η trials continues at a rung.
    #[serde(deserialize_with = "whole::<2, _>")]
    pub reduction: u32,
    /// r_0 ≥ 1: the epoch of the first rung.
    #[serde(deserialize_with = "whole::<1, _>")]
    pub first_rung: u32,
}

impl AshaOptions {
    /// Returns the defaults: η = 3, as the authors of Hyperband recommend (Li et al. 2017), and the
    /// first rung after one epoch. Both are independent of the number of epochs.
    pub fn for_epochs(_epochs: u32) -> Self {
        Self { reduction: 3, first_rung: 1 }
    }
}

impl StoppingOptions for AshaOptions {
    fn make(&self, epochs: u32) -> Result<StoppingMethod, OptionError> {
        below("first_rung", self.first_rung, epochs)?;
        let rule = AshaRule::new(*self, epochs as usize)?;
        Ok(StoppingMethod::Curves(Box::new(rule)))
    }
}

/// Asynchronous successive halving (ASHA; Li, Jamieson et al. 2020, Algorithm 2), in the variant
/// that stops trials:
///
/// rungs r_k = r_0 ηᵏ < N; a trial continues at r_k iff fewer than max(1, ⌊m/η⌋) of the m trials
/// that have reached it so far are better.
///
/// m includes the trial itself, and tied trials continue. The paper's algorithm *pauses* a trial at
/// a rung and resumes it once it is among the best ⌊m/η⌋ of a larger number of trials, which
/// requires programs that can resume. Here no trial waits, and the decision is immediate and final.
/// The first trial at a rung therefore always continues, and the best of only a few trials
/// continues where the paper would pause it. Cost: O(m) per rung.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AshaRule {
    reduction: usize,
    rungs: Vec<usize>,
}

impl AshaRule {
    /// Creates the rule with these rungs for training runs of N = `n_epochs` epochs.
    ///
    /// # Errors
    /// If η is below 2, or r_0 or N is 0.
    pub fn new(options: AshaOptions, n_epochs: usize) -> Result<Self, StrategyError> {
        let [reduction, first_rung] = [options.reduction, options.first_rung].map(|n| n as usize);
        at_least("reduction", reduction, 2)?;
        at_least("first_rung", first_rung, 1)?;
        at_least("n_epochs", n_epochs, 1)?;
        let rungs = std::iter::successors(Some(first_rung), |rung| rung.checked_mul(reduction));
        Ok(Self { reduction, rungs: rungs.take_while(|rung| *rung < n_epochs).collect() })
    }

    /// Returns the epochs at which trials are compared, in ascending order, all below N.
    pub fn rungs(&self) -> &[usize] {
        &self.rungs
    }
}

impl StoppingRule for AshaRule {
    fn judge(&self, trial: &TrainedTrial, others: &[TrainedTrial]) -> Verdict {
        self.judge_since(trial.curve.n_epochs() - 1, trial, others)
    }

    /// Compares the trial at its latest epoch if it has reached a rung since `before`.
    fn judge_since(&self, before: usize, trial: &TrainedTrial, others: &[TrainedTrial]) -> Verdict {
        let epoch = trial.curve.n_epochs();
        let is_due = |rung: &usize| (before + 1..=epoch).contains(rung);
        if self.rungs.iter().any(is_due) {
            halve(self.reduction, trial, others.iter())
        } else {
            Verdict::Continue
        }
    }
}

/// Decides whether a trial continues past a rung, which is its latest epoch. The trial continues if
/// it is in the best fraction 1/η of the trials that have reached the rung. See [`AshaRule`].
pub(super) fn halve<'a>(
    reduction: usize,
    trial: &TrainedTrial,
    others: impl Iterator<Item = &'a TrainedTrial>,
) -> Verdict {
    let (epoch, value) = (trial.curve.n_epochs(), trial.curve.last());
    let (mut n_reached, mut n_better) = (1, 0);
    for other in others.filter_map(|other| other.curve.at(epoch)) {
        n_reached += 1;
        n_better += usize::from(other > value);
    }
    let n_go_on = (n_reached / reduction).max(1);
    if n_better < n_go_on {
        Verdict::Continue
    } else {
        Verdict::Stop {
            because: StopReason::BelowRung { epoch, value, n_better, n_reached, n_go_on },
        }
    }
}

/// Checks an integer setting.
pub(super) fn at_least(
    name: &'static str,
    value: usize,
    least: usize,
) -> Result<usize, StrategyError> {
    if value >= least {
        return Ok(value);
    }
    let expected = if least == 1 { "at least 1" } else { "at least 2" };
    Err(StrategyError::setting(name, value, expected))
}
