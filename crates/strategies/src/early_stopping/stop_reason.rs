//! Reasons for stopping a trial.

use fedbo_space::Direction;

/// A rule's reason for stopping a trial. Values have the sign that the rule uses, so larger is
/// better.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum StopReason {
    /// Stopped by the median rule.
    WorseThanMedian {
        /// The trial's best value so far.
        best: f64,
        /// Median of the complete trials' averages up to this epoch.
        median: f64,
        /// Number of complete trials.
        n_trials: usize,
        /// Epoch after which the trial is stopped.
        epoch: usize,
    },
    /// Stopped by ASHA or Hyperband.
    BelowRung {
        /// Epoch after which the trial is stopped.
        epoch: usize,
        /// Value of the trial at this epoch.
        value: f64,
        /// Number of trials that are better at this epoch.
        n_better: usize,
        /// Number of trials that have reached this epoch, including this trial.
        n_reached: usize,
        /// Number of trials that can continue.
        n_go_on: usize,
    },
    /// Stopped by BO-BOS: the trial is unlikely to end better than the best value so far.
    UnlikelyToImprove {
        /// Probability of ending above the best value so far.
        probability: f64,
        /// Best value so far.
        incumbent: f64,
    },
    /// Stopped by curve prediction: the trial is unlikely to end at or above the best value so far.
    BelowBest {
        /// Epoch after which the trial is stopped.
        epoch: usize,
        /// Best value so far.
        best: f64,
        /// Probability of ending at or above the best value.
        probability: f64,
        /// Expected final value.
        expected: f64,
        /// Standard deviation of the final value.
        std: f64,
    },
}

impl StopReason {
    /// Describes the reason to a user of an objective with this direction. Values are in the user's
    /// unit and sign.
    pub fn tell(&self, direction: Direction) -> String {
        let own = |value: f64| direction.to_maximize(value);
        match *self {
            Self::WorseThanMedian { best, median, n_trials, epoch } => {
                let (best, median) = apart(own(best), own(median));
                format!(
                    "best value {best} worse than {median}, the median of the averages of {n_trials} trials up to epoch {epoch}"
                )
            }
            Self::BelowRung { epoch, value, n_better, n_reached, n_go_on } => {
                let value = short(own(value));
                let are = if n_better == 1 { "is" } else { "are" };
                let go_on = match n_go_on {
                    1 => "only the best continues".to_owned(),
                    n => format!("the best {n} continue"),
                };
                format!(
                    "at epoch {epoch}, {n_better} of {n_reached} trials {are} better than its {value}, and {go_on}"
                )
            }
            Self::UnlikelyToImprove { probability, incumbent } => format!(
                "it would end better than {} with a probability of {:.1} %, too low for the cost of its epochs",
                short(own(incumbent)),
                100.0 * probability
            ),
            Self::BelowBest { epoch, best, probability, expected, std } => format!(
                "at epoch {epoch}, it would end at {} or better with a probability of {:.1} %; expected {} ± {}",
                short(own(best)),
                100.0 * probability,
                short(own(expected)),
                short(std)
            ),
        }
    }
}

/// Formats a number with at most six digits: 0.113605, 12, 1e308.
pub fn short(value: f64) -> String {
    rounded(value, 6)
}

/// Formats two numbers with at most six digits each, or with as many as it takes to tell them
/// apart.
fn apart(a: f64, b: f64) -> (String, String) {
    let texts = (6..=17).map(|n_digits| (rounded(a, n_digits), rounded(b, n_digits)));
    let mut texts = texts.skip_while(|(a, b)| a == b);
    texts.next().unwrap_or_else(|| (short(a), short(b)))
}

/// Formats a number with at most `n_digits` significant digits. Uses scientific notation for
/// magnitudes below 1e-4 or at least 1e7.
fn rounded(value: f64, n_digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { value.to_string() };
    }
    let scientific = format!("{value:.*e}", n_digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let trimmed = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits.to_owned(),
    };
    match exponent.parse::<i32>() {
        Ok(exponent @ -4..7) => {
            let n_decimals = usize::try_from(exponent + 1).map_or_else(
                |_| n_digits + exponent.unsigned_abs() as usize - 1,
                |n_whole| n_digits.saturating_sub(n_whole),
            );
            trimmed(&format!("{value:.n_decimals$}"))
        }
        _ => format!("{}e{exponent}", trimmed(mantissa)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (100.0, "100"),
            (0.113_604_96, "0.113605"),
            (0.000_123_456_78, "0.000123457"),
            (0.000_012_345_678, "1.23457e-5"),
            (1_234_567.0, "1234567"),
            (12_345_678.0, "1.23457e7"),
            (999_999.96, "1000000"),
            (1e308, "1e308"),
            (-1e-300, "-1e-300"),
        ] {
            assert_eq!(short(value), expected);
        }
        let texts = apart(0.999_999_9, 1.0);
        assert_eq!(texts, ("0.9999999".to_owned(), "1".to_owned()));
    }

    #[test]
    fn values_are_told_in_the_users_sign() {
        let because =
            StopReason::WorseThanMedian { best: -1e308, median: -0.25, n_trials: 5, epoch: 7 };
        assert_eq!(
            because.tell(Direction::Minimize),
            "best value 1e308 worse than 0.25, the median of the averages of 5 trials up to epoch 7"
        );
        let because =
            StopReason::BelowRung { epoch: 3, value: 0.5, n_better: 1, n_reached: 2, n_go_on: 1 };
        assert_eq!(
            because.tell(Direction::Maximize),
            "at epoch 3, 1 of 2 trials is better than its 0.5, and only the best continues"
        );
        assert!(because.tell(Direction::Minimize).contains("its -0.5,"));
    }
}
