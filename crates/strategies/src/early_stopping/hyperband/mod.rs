//! Hyperband: successive halving at several trade-offs between many short trials and few long ones.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::asha::{at_least, halve};
use super::options::whole;
use super::{OptionError, StoppingMethod, StoppingOptions, StoppingRule, TrainedTrial, Verdict};
use crate::StrategyError;

/// Options of `hyperband`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HyperbandOptions {
    /// η ≥ 2: one in η trials continues at a rung.
    #[serde(deserialize_with = "whole::<2, _>")]
    pub reduction: u32,
}

impl HyperbandOptions {
    /// Returns the default η = 3, as the authors recommend, whatever the number of epochs.
    pub fn for_epochs(_epochs: u32) -> Self {
        Self { reduction: 3 }
    }
}

impl StoppingOptions for HyperbandOptions {
    fn make(&self, epochs: u32) -> Result<StoppingMethod, OptionError> {
        let schedule = Brackets::new(epochs as usize, self.reduction as usize)?;
        Ok(StoppingMethod::Curves(Box::new(HyperbandRule::new(schedule))))
    }
}

/// One round of successive halving within a bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    /// n_i: number of configurations trained up to this rung.
    pub n_configurations: usize,
    /// r_i: last epoch of training for this rung.
    pub n_epochs: usize,
}

/// One run of successive halving: one or more rungs with decreasing numbers of configurations and
/// increasing numbers of epochs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bracket {
    rungs: Vec<Rung>,
}

impl Bracket {
    /// Returns the rungs. The last one is at R epochs.
    pub fn rungs(&self) -> &[Rung] {
        &self.rungs
    }

    /// Returns n, the initial number of configurations.
    pub fn n_configurations(&self) -> usize {
        self.rungs[0].n_configurations
    }

    /// Returns the total number of epochs if training is paused and resumed, so that no epoch is
    /// repeated.
    pub fn n_epochs_total(&self) -> usize {
        let before = std::iter::once(0).chain(self.rungs.iter().map(|rung| rung.n_epochs));
        let widths = self.rungs.iter().zip(before);
        widths.map(|(rung, before)| rung.n_configurations * (rung.n_epochs - before)).sum()
    }
}

/// The schedule of Hyperband (Li et al. 2017, Algorithm 1): brackets s = s_max, …, 0 with
///
/// s_max = ⌊log_η R⌋,   n = ⌈(s_max + 1)/(s + 1) ηˢ⌉,   r = R η⁻ˢ,   n_i = ⌊n η⁻ⁱ⌋,   r_i = r ηⁱ for i = 0, …, s.
///
/// R is the number of epochs of a complete trial. r_i is rounded to the nearest epoch, with halves
/// rounded up, and increases strictly. All computations use integers, because floating-point
/// logarithms would miss s_max = 5 at R = 243, η = 3.
///
/// The paper contradicts itself. For R = 81 and η = 3, the formula of Algorithm 1 gives n = 81, 34,
/// 15, 8, 5. Table 1 prints 81, 27, 9, 6, 5, which is ⌊(s_max + 1)/(s + 1)⌋ ηˢ, as in the authors'
/// published code. We follow the formula, for which each bracket costs about (s_max + 1) R epochs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brackets {
    reduction: usize,
    brackets: Vec<Bracket>,
}

impl Brackets {
    /// Maximum number of epochs of a complete trial. The first bracket starts at most this number
    /// of configurations.
    pub const MAX_EPOCHS: usize = 1_000_000;

    /// Creates the schedule for R = `n_epochs` and η = `reduction`.
    ///
    /// # Errors
    /// If R is 0 or above [`Brackets::MAX_EPOCHS`], or η is below 2.
    pub fn new(n_epochs: usize, reduction: usize) -> Result<Self, StrategyError> {
        at_least("n_epochs", n_epochs, 1)?;
        at_least("reduction", reduction, 2)?;
        StrategyError::ensure(
            n_epochs <= Self::MAX_EPOCHS,
            "n_epochs",
            n_epochs,
            "at most 1000000",
        )?;
        // η⁰, η¹, …, up to R.
        let powers: Vec<usize> =
            std::iter::successors(Some(1_usize), |power| power.checked_mul(reduction))
                .take_while(|power| *power <= n_epochs)
                .collect();
        let n_brackets = powers.len();
        let bracket = |s: usize| {
            let n = (n_brackets * powers[s]).div_ceil(s + 1);
            let rungs = (0..=s).map(|i| {
                let divisor = powers[s - i];
                Rung {
                    n_configurations: n / powers[i],
                    n_epochs: (2 * n_epochs + divisor) / (2 * divisor),
                }
            });
            Bracket { rungs: rungs.collect() }
        };
        Ok(Self { reduction, brackets: (0..n_brackets).rev().map(bracket).collect() })
    }

    /// Returns the brackets, from s = s_max, which starts the most configurations, to s = 0, which
    /// trains all of its configurations to the end.
    pub fn brackets(&self) -> &[Bracket] {
        &self.brackets
    }

    /// Returns η.
    pub fn reduction(&self) -> usize {
        self.reduction
    }
}

/// Hyperband as a stopping rule. Each trial belongs to a bracket. At the bracket's rungs, the trial
/// is compared with other trials of the same bracket, as in [`AshaRule`](super::AshaRule).
///
/// Deviations from the paper:
///
/// - No trial is paused. A trial continues immediately iff it is among the best max(1, ⌊m/η⌋) of
///   the m trials in its bracket that have reached the rung so far. The paper waits for all n_i
///   trials and promotes ⌊n_i/η⌋.
/// - The brackets run in parallel rather than one after the other, because a study of 40 trials
///   would never leave the first bracket.
///
/// A bracket gets a fraction n/Σ n of the trials, as in the schedule, spread evenly over the trial
/// numbers. The brackets divide `[0, 1)` into intervals with these fractions as lengths. Trial k
/// belongs to the bracket with the interval that contains the fractional part of k/φ, where φ is
/// the golden ratio. A trial's bracket therefore depends only on its number. (Equal numbers of
/// trials would spend most epochs in the bracket s = 0, which stops no trial.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperbandRule {
    schedule: Brackets,
}

impl HyperbandRule {
    /// Creates the rule for this schedule.
    pub fn new(schedule: Brackets) -> Self {
        Self { schedule }
    }

    /// Returns R, the number of epochs of a complete trial.
    fn n_epochs(&self) -> usize {
        let last = self.schedule.brackets().last();
        last.and_then(|bracket| bracket.rungs().last()).map_or(0, |rung| rung.n_epochs)
    }

    /// Returns the index of a trial's bracket in [`Brackets::brackets`].
    pub fn bracket_of(&self, number: u64) -> usize {
        /// 2⁶⁴/φ, rounded to an odd number.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let brackets = self.schedule.brackets();
        let total: usize = brackets.iter().map(Bracket::n_configurations).sum();
        let place = u128::from(number.wrapping_mul(STEP)) * total as u128;
        let mut end = 0;
        let within = |bracket: &Bracket| {
            end += bracket.n_configurations() as u128;
            place < end << 64
        };
        brackets.iter().position(within).unwrap_or(brackets.len() - 1)
    }
}

impl StoppingRule for HyperbandRule {
    fn judge(&self, trial: &TrainedTrial, others: &[TrainedTrial]) -> Verdict {
        self.judge_since(trial.curve.n_epochs() - 1, trial, others)
    }

    /// Compares the trial at its latest epoch if it has reached a rung of its bracket since
    /// `before`.
    fn judge_since(&self, before: usize, trial: &TrainedTrial, others: &[TrainedTrial]) -> Verdict {
        let index = self.bracket_of(trial.number);
        let rungs = self.schedule.brackets()[index].rungs();
        let epoch = trial.curve.n_epochs();
        let is_due = |rung: &Rung| (before + 1..=epoch).contains(&rung.n_epochs);
        if epoch >= self.n_epochs() || !rungs[..rungs.len() - 1].iter().any(is_due) {
            return Verdict::Continue;
        }
        let rivals = others.iter().filter(|other| self.bracket_of(other.number) == index);
        halve(self.schedule.reduction(), trial, rivals)
    }
}

/// A step of Hyperband, which trains a configuration from one epoch to a later one and then
/// evaluates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HyperbandStep {
    /// Index of the configuration, counted from 0 in the order in which configurations start.
    pub configuration: usize,
    /// Epoch at which the configuration's training was paused; 0 for a new configuration, which the
    /// caller must draw at random.
    pub from_epoch: usize,
    /// Last epoch of the step.
    pub to_epoch: usize,
}

/// Hyperband with pausing and resuming of training runs (Li et al. 2017, Algorithm 1), as an
/// endless state machine.
///
/// The brackets run one after the other, from s = s_max to 0, and then again with new
/// configurations. In a bracket, all n_i configurations are trained to r_i epochs, one after the
/// other, and then the best ⌊n_i/η⌋ of them to r_{i+1}. Among equal values, the earlier
/// configuration is promoted (the paper does not specify this); failed configurations rank last.
/// The thesis uses η = 3 and R = 80 (Dai 2021, appendix A.4).
///
/// One deviation from the paper: the paper's `run_then_return_val_loss` can restart training from
/// the first epoch at every rung. Here a promoted configuration resumes, as in the authors'
/// experiments with iterative training.
#[derive(Clone, Debug)]
pub struct Hyperband {
    schedule: Brackets,
    bracket: usize,
    rung: usize,
    /// Configurations at the current rung, in training order.
    contenders: Vec<usize>,
    /// Values reported at the current rung so far.
    values: Vec<Option<f64>>,
    n_begun: usize,
}

impl Hyperband {
    /// Starts a run with this schedule.
    pub fn new(schedule: Brackets) -> Self {
        let mut run = Self {
            schedule,
            bracket: 0,
            rung: 0,
            contenders: Vec::new(),
            values: Vec::new(),
            n_begun: 0,
        };
        run.begin(0);
        run
    }

    /// Returns the schedule.
    pub fn schedule(&self) -> &Brackets {
        &self.schedule
    }

    /// Returns the index of the current bracket in [`Brackets::brackets`].
    pub fn bracket(&self) -> usize {
        self.bracket
    }

    /// Returns the next step, which stays the same until its value is reported.
    pub fn next_step(&self) -> HyperbandStep {
        let rungs = self.schedule.brackets[self.bracket].rungs();
        HyperbandStep {
            configuration: self.contenders[self.values.len()],
            from_epoch: match self.rung {
                0 => 0,
                later => rungs[later - 1].n_epochs,
            },
            to_epoch: rungs[self.rung].n_epochs,
        }
    }

    /// Reports the value of the step that [`Hyperband::next_step`] returned. Larger is better.
    /// `None` or a non-finite number means that the step failed. Returns the configurations that
    /// will not be trained again, so that their saved state can be deleted.
    pub fn tell(&mut self, value: Option<f64>) -> Vec<usize> {
        self.values.push(value.filter(|value| value.is_finite()));
        if self.values.len() < self.contenders.len() {
            return Vec::new();
        }
        let mut ranking: Vec<usize> = (0..self.contenders.len()).collect();
        let worth = |index: usize| self.values[index].unwrap_or(f64::NEG_INFINITY);
        ranking.sort_by(|a, b| {
            let by_worth = worth(*b).partial_cmp(&worth(*a));
            by_worth.unwrap_or(Ordering::Equal).then(a.cmp(b))
        });
        let rungs = self.schedule.brackets[self.bracket].rungs();
        let n_promoted = rungs.get(self.rung + 1).map_or(0, |rung| rung.n_configurations);
        let rest = ranking.split_off(n_promoted);
        let dropped = rest.into_iter().map(|index| self.contenders[index]);
        let dropped: Vec<usize> = dropped.collect();
        if n_promoted == 0 {
            self.begin((self.bracket + 1) % self.schedule.brackets.len());
        } else {
            ranking.sort_unstable();
            self.contenders = ranking.iter().map(|i| self.contenders[*i]).collect();
            self.values.clear();
            self.rung += 1;
        }
        dropped
    }

    /// Starts a bracket with new configurations.
    fn begin(&mut self, bracket: usize) {
        let n = self.schedule.brackets[bracket].n_configurations();
        self.bracket = bracket;
        self.rung = 0;
        self.contenders = (self.n_begun..self.n_begun + n).collect();
        self.values.clear();
        self.n_begun += n;
    }
}
