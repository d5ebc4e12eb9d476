//! The grounds on which a trial was stopped.

use fedbo_space::Direction;

/// The grounds on which a rule stops a trial. Values are as the rule sees them, to be maximized.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum StopReason {
    /// The median rule.
    WorseThanMedian {
        /// The trial's best value so far.
        best: f64,
        /// The median of the averages of the complete trials up to the epoch.
        median: f64,
        /// The number of complete trials.
        n_trials: usize,
        /// The epoch after which the trial is stopped.
        epoch: usize,
    },
    /// ASHA or Hyperband.
    BelowRung {
        /// The epoch after which the trial is stopped.
        epoch: usize,
        /// The trial's value there.
        value: f64,
        /// The number of trials that are better at that epoch.
        n_better: usize,
        /// The number of trials that reached it, this one included.
        n_reached: usize,
        /// The number of those that go on.
        n_go_on: usize,
    },
    /// BO-BOS: it will hardly end better than the best so far.
    UnlikelyToImprove {
        /// The probability that it would.
        probability: f64,
        /// The best value so far.
        incumbent: f64,
    },
    /// Curve prediction: it will hardly end at the best so far or above.
    BelowBest {
        /// The epoch after which the trial is stopped.
        epoch: usize,
        /// The best value so far.
        best: f64,
        /// The probability that it would.
        probability: f64,
        /// The expected last value.
        expected: f64,
        /// The standard deviation of the last value.
        std: f64,
    },
}

impl StopReason {
    /// The grounds in words, with values in the unit and sign of a user with this direction.
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
                    1 => "only the best goes on".to_owned(),
                    n => format!("the best {n} go on"),
                };
                format!(
                    "at epoch {epoch}, {n_better} of {n_reached} trials {are} better than its {value}, and {go_on}"
                )
            }
            Self::UnlikelyToImprove { probability, incumbent } => format!(
                "it would end better than {} with a probability of {:.1} %, too little for what its epochs cost",
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

/// A number with at most six digits: 0.113605, 12, 1e308.
pub fn short(value: f64) -> String {
    rounded(value, 6)
}

/// Two numbers with six digits each, or as many more as make them differ.
fn apart(a: f64, b: f64) -> (String, String) {
    let texts = (6..=17).map(|n_digits| (rounded(a, n_digits), rounded(b, n_digits)));
    let mut texts = texts.skip_while(|(a, b)| a == b);
    texts.next().unwrap_or_else(|| (short(a), short(b)))
}

/// A number with at most so many significant digits, scientific below 1e-4 and from 1e7 on.
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
            "at epoch 3, 1 of 2 trials is better than its 0.5, and only the best goes on"
        );
        assert!(because.tell(Direction::Minimize).contains("its -0.5,"));
    }
}
