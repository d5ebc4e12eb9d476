//! Results of a game's players.

use fedbo_report::study::PlottedValue;
use fedbo_space::{Kind, Value};
use serde::Serialize;

/// Source prefix for actions that replaced a player's own action.
pub const STAND_IN: &str = "stand-in: ";

/// A player's results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlayerResult {
    /// The player's name.
    pub player: String,
    /// The rule by which the player chooses its actions.
    pub plays: String,
    /// Mean payoff over the rounds after the initial random rounds.
    pub mean: Option<f64>,
    /// Mean payoff over the initial random rounds.
    pub mean_of_initial: Option<f64>,
    /// Mean payoff over the last tenth of the rounds that follow the initial rounds.
    pub mean_of_last_tenth: Option<f64>,
    /// Largest payoff.
    pub best: Option<f64>,
    /// Number of lost payoffs.
    pub n_lost: usize,
    /// Number of actions that replaced the player's own.
    pub n_stand_ins: usize,
}

impl PlayerResult {
    /// Summarizes a player's payoffs. The first `n_initial` payoffs are from random rounds.
    pub fn of(
        player: &str,
        plays: String,
        payoffs: &[Option<f64>],
        n_initial: usize,
        n_stand_ins: usize,
    ) -> Self {
        let (initial, after) = payoffs.split_at(n_initial.min(payoffs.len()));
        let n_last = after.len().div_ceil(10);
        Self {
            player: player.to_owned(),
            plays,
            mean: mean_of(after),
            mean_of_initial: mean_of(initial),
            mean_of_last_tenth: mean_of(&after[after.len() - n_last..]),
            best: payoffs.iter().flatten().copied().reduce(f64::max),
            n_lost: payoffs.iter().filter(|payoff| payoff.is_none()).count(),
            n_stand_ins,
        }
    }
}

/// Returns the mean of the payoffs that were not lost; `None` if there are none.
#[must_use]
pub fn mean_of(payoffs: &[Option<f64>]) -> Option<f64> {
    let (mut sum, mut n) = (0.0, 0.0);
    for payoff in payoffs.iter().flatten() {
        sum += payoff;
        n += 1.0;
    }
    (n > 0.0).then(|| sum / n)
}

/// Converts a value for a picture.
pub fn plotted(value: Option<&Value>, kind: &Kind) -> PlottedValue {
    match value {
        Some(value) if kind.numbers().is_none() => {
            let index = kind.index_of(value).and_then(|k| usize::try_from(k).ok());
            PlottedValue::Choice(index.unwrap_or(usize::MAX))
        }
        _ => {
            let number = value.and_then(Value::as_f64);
            PlottedValue::Number(number.unwrap_or(f64::NAN))
        }
    }
}
