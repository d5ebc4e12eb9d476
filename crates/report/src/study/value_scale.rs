//! The axis of values, so chosen that the better trials can be told apart.

use super::{PlottedTrial, StudyPlot};
use crate::plot::axis::Axis;
use crate::plot::far_values::n_shown;

/// Values of one sign that differ by more than this factor may have a logarithmic axis.
const WIDE: f64 = 100.0;
/// The axis is then logarithmic if best and median differ by more than this, or if the better end is the one near 0.
const WIDE_HALF: f64 = 10.0;

/// The vertical axis, and what is worse than its end.
#[derive(Clone, Debug)]
pub(super) struct ValueScale {
    pub(super) axis: Axis,
    minimize: bool,
    /// Values worse than this are off the axis.
    limit: Option<f64>,
}

/// The spacing of values on the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spacing {
    Linear,
    Log,
    MirroredLog,
}

impl Spacing {
    fn position(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.log10(),
            Self::MirroredLog => -(-value).log10(),
        }
    }
}

impl ValueScale {
    /// The scale for all values of a study; without ticks if there are none.
    pub(super) fn of(study: &StudyPlot, n_ticks: u32) -> Self {
        // From the best to the worst.
        let mut values: Vec<f64> = study
            .trials
            .iter()
            .filter_map(PlottedTrial::drawn)
            .collect();
        values.sort_by(|a, b| {
            if study.minimize {
                a.total_cmp(b)
            } else {
                b.total_cmp(a)
            }
        });
        let Some(best) = values.first().copied() else {
            return Self {
                axis: Axis::bare(),
                minimize: study.minimize,
                limit: None,
            };
        };
        let spacing = spacing(&values);
        let positions: Vec<f64> = values.iter().map(|v| spacing.position(*v)).collect();
        let n_shown = n_shown(&positions);
        let limit = (n_shown < values.len()).then(|| values[n_shown - 1]);
        let (from, to) = (
            spacing.position(best),
            spacing.position(values[n_shown - 1]),
        );
        let (low, high) = (from.min(to), from.max(to));
        Self {
            axis: match spacing {
                Spacing::Linear => Axis::linear(low, high, n_ticks),
                Spacing::Log => Axis::log(low, high, n_ticks),
                Spacing::MirroredLog => Axis::mirrored_log(low, high, n_ticks),
            },
            minimize: study.minimize,
            limit,
        }
    }

    /// Returns true if a value is worse than the end of the axis.
    pub(super) fn is_beyond(&self, value: f64) -> bool {
        self.limit.is_some_and(|limit| {
            if self.minimize {
                value > limit
            } else {
                value < limit
            }
        })
    }
}

/// `values` from the best to the worst, at least one.
fn spacing(values: &[f64]) -> Spacing {
    let (best, median) = (values[0], values[values.len() / 2]);
    let worst = values[values.len() - 1];
    let same_sign = best.abs() > 0.0 && best.signum() * worst.signum() > 0.0 && worst.abs() > 0.0;
    let factor = |a: f64, b: f64| {
        let (a, b) = (a.abs(), b.abs());
        a.log10().max(b.log10()) - a.log10().min(b.log10())
    };
    let near_zero_is_better = best.abs() < worst.abs();
    if !same_sign
        || factor(best, worst) <= WIDE.log10()
        || !(near_zero_is_better || factor(best, median) > WIDE_HALF.log10())
    {
        Spacing::Linear
    } else if best > 0.0 {
        Spacing::Log
    } else {
        Spacing::MirroredLog
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(minimize: bool, values: &[f64]) -> StudyPlot {
        let trial = |(number, value): (u64, &f64)| PlottedTrial {
            number,
            value: Some(*value),
            coordinates: Vec::new(),
            initial: false,
        };
        StudyPlot {
            minimize,
            trials: (0..).zip(values).map(trial).collect(),
            ..StudyPlot::default()
        }
    }

    fn is_log(minimize: bool, values: &[f64]) -> bool {
        ValueScale::of(&study(minimize, values), 6).axis.is_log()
    }

    #[test]
    fn an_axis_is_logarithmic_where_that_spreads_the_better_trials() {
        assert!(is_log(true, &[3.0, 1.0, 0.1, 1e-3]));
        assert!(is_log(false, &[-3.0, -1.0, -0.1, -1e-3]));
        assert!(is_log(false, &[3.0, 10.0, 70.0, 1e4]));
        assert!(!is_log(false, &[1e-3, 0.5, 0.9, 0.95])); // an accuracy
        assert!(!is_log(true, &[3.0, 1.0, 0.1, 0.0]));
        assert!(!is_log(true, &[3.0, 2.0]) && !is_log(true, &[3.0, -1.0, 1e-3]));
    }

    #[test]
    fn what_lies_far_beyond_all_others_does_not_stretch_the_axis() {
        for minimize in [true, false] {
            let sign = if minimize { 1.0 } else { -1.0 };
            let values: Vec<f64> = [5.0, 4.0, 1e6, 3.0, -1.0, 2.5].map(|v| sign * v).to_vec();
            let scale = ValueScale::of(&study(minimize, &values), 6);
            assert!(scale.is_beyond(values[2]) && !scale.is_beyond(values[0]));
            let distance = (scale.axis.place(values[0]) - scale.axis.place(values[4])).abs();
            assert!(distance > 0.8, "{distance}");
        }
        // The better end is never cut.
        let scale = ValueScale::of(&study(true, &[5.0, 4.0, -1e6, 3.0, 1.0, 2.5]), 6);
        assert!(!scale.is_beyond(5.0) && !scale.is_beyond(-1e6));
    }

    #[test]
    fn one_value_beside_equal_ones_stays_on_the_axis() {
        let mut values = [0.5; 9];
        values[3] = 0.9;
        let scale = ValueScale::of(&study(true, &values), 6);
        assert!(!scale.is_beyond(0.9) && scale.axis.place(0.9) > scale.axis.place(0.5));
    }

    #[test]
    fn a_penalty_for_a_third_of_the_trials_is_left_off() {
        let values: Vec<f64> = (0..30)
            .map(|index| {
                if index % 3 == 0 {
                    1e5
                } else {
                    f64::from(index) - 2.0
                }
            })
            .collect();
        let scale = ValueScale::of(&study(true, &values), 6);
        assert!(scale.is_beyond(1e5) && !scale.is_beyond(27.0));
    }
}
