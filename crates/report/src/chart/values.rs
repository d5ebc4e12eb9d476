//! The value axis, which resolves the better values: it is linear or logarithmic, and leaves off
//! outliers on the worse side.

use fedbo_space::Direction;

use super::axis::Axis;
use super::{Scale, Strip};

/// Maximum magnitude of a drawn value, limited by the range of an axis. Larger values are clamped.
const LARGEST: f64 = 1e300;
/// Approximate number of ticks.
const N_TICKS: u32 = 7;
/// Ratio between values of one sign above which the axis is logarithmic, if a logarithm spreads the
/// better values.
const WIDE: f64 = 100.0;
/// A logarithm spreads the better values if the better end is the one near 0, or if the best value
/// and the median differ by more than this factor.
const WIDE_HALF: f64 = 10.0;
/// A curve has diverged if its distance from the best value is more than this multiple of the
/// typical distance.
const DIVERGED: f64 = 20.0;
/// The same criterion on a logarithmic axis, in decades.
const DIVERGED_DECADES: f64 = 1.5;
/// If a curve diverged, the axis extends to at most this multiple of the typical distance.
const KEPT: f64 = 2.0;
/// Height of the strip for values off the axis.
const STRIP: f64 = 20.0;

/// The vertical axis, and the handling of values beyond its worse end.
#[derive(Clone, Debug)]
pub(crate) struct ValueAxis {
    pub(crate) axis: Axis,
    spacing: Spacing,
    direction: Direction,
    /// The best and worst values on the axis, if there are values beyond the worst.
    limits: Option<(f64, f64)>,
}

/// The spacing of values on the axis. `MirroredLog` is the logarithm of negative values.
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
            Self::Log => value.max(0.0).log10(),
            Self::MirroredLog => -(-value).max(0.0).log10(),
        }
    }
}

impl ValueAxis {
    /// Creates the axis for finite values. `scale` selects a linear or logarithmic axis; `None`
    /// lets the values decide.
    ///
    /// Returns an error if a logarithmic axis is requested and a value is not above 0.
    pub(crate) fn of(
        values: impl Iterator<Item = f64>,
        direction: Direction,
        scale: Option<Scale>,
    ) -> Result<Self, String> {
        Self::of_curves(values, None, direction, scale)
    }

    /// Same as [`ValueAxis::of`], for values that form curves.
    ///
    /// `typical_worst` is a value that most curves do not exceed. If some curves go far beyond it,
    /// the axis ends near it.
    pub(crate) fn of_curves(
        values: impl Iterator<Item = f64>,
        typical_worst: Option<f64>,
        direction: Direction,
        scale: Option<Scale>,
    ) -> Result<Self, String> {
        let mut sorted: Vec<f64> = values.map(within_magnitude).collect();
        // Sorted from best to worst.
        let key = |value: f64| -direction.to_maximize(value);
        sorted.sort_by(|a, b| key(*a).total_cmp(&key(*b)));
        let wanted = match scale {
            Some(Scale::Linear) => Some(Spacing::Linear),
            Some(Scale::Log) => Some(Spacing::Log),
            None => None,
        };
        let Some(best) = sorted.first().copied() else {
            let (axis, spacing) = (Axis::bare(0.0, 1.0), Spacing::Linear);
            return Ok(Self { axis, spacing, direction, limits: None });
        };
        let below = sorted.iter().copied().find(|value| *value <= 0.0);
        if let (Some(Spacing::Log), Some(value)) = (wanted, below) {
            return Err(format!("a logarithmic axis cannot show the value {value}"));
        }
        let typical_worst = typical_worst.map(within_magnitude);
        let near = within_typical(&sorted, typical_worst, wanted);
        let spacing = wanted.unwrap_or_else(|| fitting_spacing(near));
        let n_shown = n_shown(near, spacing);
        let worst = sorted[n_shown - 1];
        let (from, to) = (spacing.position(best), spacing.position(worst));
        let (low, high) = (from.min(to), from.max(to));
        let axis = match spacing {
            Spacing::Linear => Axis::linear(low, high, N_TICKS),
            Spacing::Log => Axis::log(low, high, N_TICKS),
            Spacing::MirroredLog => Axis::mirrored_log(low, high, N_TICKS),
        };
        let limits = (n_shown < sorted.len()).then_some((best, worst));
        Ok(Self { axis, spacing, direction, limits })
    }

    /// Returns true if a value is beyond the worse end of the axis.
    pub(crate) fn is_beyond(&self, value: f64) -> bool {
        self.limits.is_some_and(|(_, worst)| self.direction.is_better(worst, value))
    }

    /// Returns the position of a value: 0 at the lower end of the axis, 1 at its upper end.
    ///
    /// The position of a value beyond the axis is outside by at most half an axis length, so that
    /// lines leave the axis at a visible slope.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let inside = |value: f64| self.axis.place(value);
        let Some((best, worst)) = self.limits.filter(|_| self.is_beyond(value)) else {
            return inside(value);
        };
        let position = |value: f64| self.spacing.position(within_magnitude(value));
        let share = (position(value) - position(best)) / (position(worst) - position(best));
        let place = inside(best) + share * (inside(worst) - inside(best));
        place.clamp(-0.5, 1.5)
    }

    /// Returns true if the worse end, beyond which values are off the axis, is the upper one.
    pub(crate) fn is_worse_above(&self) -> bool {
        self.direction == Direction::Minimize
    }

    /// Returns the strip for values off the axis; `None` if there are none.
    pub(crate) fn strip(&self) -> Option<Strip> {
        let (above, label) = (self.is_worse_above(), "worse");
        self.limits.map(|_| Strip { above, height: STRIP, label })
    }
}

/// Returns the label of a value axis, with the direction of better values.
pub(crate) fn labelled(y_label: &str, direction: Direction) -> String {
    let y_label = if y_label.is_empty() { "value" } else { y_label };
    let better = match direction {
        Direction::Minimize => "smaller",
        Direction::Maximize => "larger",
    };
    format!("{y_label} ({better} is better)")
}

pub(crate) fn within_magnitude(value: f64) -> f64 {
    value.clamp(-LARGEST, LARGEST)
}

/// Returns the number of values on the axis. `values` are sorted from best to worst.
fn n_shown(values: &[f64], spacing: Spacing) -> usize {
    let positions: Vec<f64> = values.iter().map(|value| spacing.position(*value)).collect();
    n_in_reach(&positions)
}

/// Returns the spacing for `values`, which are sorted from best to worst and not empty. Values that
/// a linear axis leaves off do not count.
fn fitting_spacing(values: &[f64]) -> Spacing {
    let spacing = match values {
        all if all.iter().all(|value| *value > 0.0) => Spacing::Log,
        all if all.iter().all(|value| *value < 0.0) => Spacing::MirroredLog,
        _ => return Spacing::Linear,
    };
    let shown = &values[..n_shown(values, Spacing::Linear)];
    let worst = shown.len() - 1;
    let decades = |other: usize| (shown[0].abs().log10() - shown[other].abs().log10()).abs();
    let near_zero_is_better = shown[0].abs() < shown[worst].abs();
    let spreads_better = near_zero_is_better || decades(shown.len() / 2) > WIDE_HALF.log10();
    if decades(worst) > WIDE.log10() && spreads_better { spacing } else { Spacing::Linear }
}

/// Returns the values in a typical range, without the values that would compress the others.
///
/// `values` are sorted from best to worst; `typical_worst` is a value that most curves do not
/// exceed. Nothing is left off unless the worst value is very far from `typical_worst`, so that a
/// curve that starts only slightly worse stays on the axis.
fn within_typical(values: &[f64], typical_worst: Option<f64>, wanted: Option<Spacing>) -> &[f64] {
    let (Some(typical_worst), [best, .., worst]) = (typical_worst, values) else {
        return values;
    };
    let from_best = |value: f64| (value - best).abs();
    let typical = from_best(typical_worst);
    if typical <= 0.0 || from_best(*worst) <= DIVERGED * typical {
        return values;
    }
    let is_near = |value: &f64| from_best(*value) <= KEPT * typical;
    let near = &values[..values.partition_point(is_near)];
    let spacing = wanted.unwrap_or_else(|| fitting_spacing(near));
    let decades = |value: f64| (spacing.position(value) - spacing.position(*best)).abs();
    match spacing {
        Spacing::Log | Spacing::MirroredLog
            if decades(*worst) <= DIVERGED_DECADES * decades(typical_worst) =>
        {
            values
        }
        _ => near,
    }
}

/// Factor by which leaving off the worst tenth of the values (at least one) must shorten the axis.
const FAR: f64 = 8.0;
/// Factor by which leaving off up to a third of the values, such as penalties, must shorten the
/// axis.
const VERY_FAR: f64 = 50.0;
/// Values are left off only if there are at least this many.
const N_FOR_LIMIT: usize = 5;

/// Returns the number of values, starting from the best, that are not far beyond all others.
/// `positions` are axis positions from best to worst.
fn n_in_reach(positions: &[f64]) -> usize {
    let n = positions.len();
    if n < N_FOR_LIMIT {
        return n;
    }
    // Halve first, since the difference of two finite values may overflow.
    let from_best = |index: usize| (positions[index] / 2.0 - positions[0] / 2.0).abs();
    let is_far = |n_left_off: usize| {
        let last = from_best(n - n_left_off - 1);
        let factor = if n_left_off <= (n / 10).max(1) { FAR } else { VERY_FAR };
        last > 0.0 && from_best(n - n_left_off) > factor * last
    };
    let n_left_off = (1..=n / 3).rev().find(|n_left_off| is_far(*n_left_off));
    n - n_left_off.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Maximize, Minimize};

    fn axis(values: &[f64], direction: Direction, scale: Option<Scale>) -> ValueAxis {
        ValueAxis::of(values.iter().copied(), direction, scale).expect("an axis")
    }

    #[test]
    fn the_axis_is_logarithmic_where_that_spreads_the_better_values() {
        let is_log = |values: &[f64], direction| axis(values, direction, None).axis.is_log();
        assert!(is_log(&[3.0, 1.0, 0.1, 1e-3], Minimize));
        assert!(is_log(&[3.0, 10.0, 70.0, 1e4], Maximize));
        assert!(!is_log(&[1e-3, 0.5, 0.9, 0.95], Maximize), "an accuracy");
        assert!(!is_log(&[3.0, 1.0, 0.1, 0.0], Minimize));
        assert!(!is_log(&[3.0, 2.0], Minimize));
        let one_far = [0.1, 0.2, 0.4, 0.5, 0.3, 0.25, 50.0];
        assert!(!is_log(&one_far, Minimize), "one is off the axis");
    }

    #[test]
    fn a_wanted_scale_is_kept_or_refused() {
        assert!(axis(&[1.0, 2.0], Minimize, Some(Scale::Log)).axis.is_log());
        let linear = axis(&[1e-3, 3.0], Minimize, Some(Scale::Linear));
        assert!(!linear.axis.is_log());
        let refused = ValueAxis::of([1.0, -2.0].into_iter(), Minimize, Some(Scale::Log));
        assert!(refused.expect_err("not positive").contains("the value -2"));
    }

    /// A value far beyond the others is in the strip on the worse side, and its position
    /// extrapolates the axis.
    #[test]
    fn far_values_are_off_the_axis_on_the_worse_side() {
        for (direction, sign) in [(Minimize, 1.0), (Maximize, -1.0)] {
            let values: Vec<f64> = [5.0, 4.0, 1e6, 3.0, -1.0, 2.5].map(|v| sign * v).to_vec();
            let axis = axis(&values, direction, None);
            assert!(axis.is_beyond(values[2]) && !axis.is_beyond(values[0]));
            assert_eq!(axis.strip().map(|strip| strip.above), Some(sign > 0.0));
            let distance = (axis.place(values[0]) - axis.place(values[4])).abs();
            assert!(distance > 0.8, "{distance}");
            // The distance from 5 to 7 is a third of that from 5 to −1.
            let (a, b, c) = (axis.place(-sign), axis.place(values[0]), axis.place(sign * 7.0));
            assert!((3.0 * (c - b) - (b - a)).abs() < 1e-9, "{a} {b} {c}");
        }
    }

    /// Diverged curves can have any number of values, even values that grow step by step without a
    /// gap.
    #[test]
    fn diverged_curves_do_not_press_the_others_together() {
        for (direction, sign) in [(Minimize, 1.0), (Maximize, -1.0)] {
            let sound: Vec<f64> = (0..20).map(|i| sign * (0.3 + 0.1 * f64::from(i))).collect();
            let diverged: Vec<f64> = (0..60).map(|i| sign * 1.3_f64.powi(i)).collect();
            let all = || sound.iter().chain(&diverged).copied();
            let axis = ValueAxis::of_curves(all(), Some(sound[19]), direction, None);
            let axis = axis.expect("an axis");
            assert!(!axis.axis.is_log());
            let share = (axis.place(sound[19]) - axis.place(sound[0])).abs();
            assert!(share > 0.4, "{share}");
            assert!(sound.iter().all(|value| !axis.is_beyond(*value)));
            assert!(axis.is_beyond(diverged[59]) && axis.is_beyond(diverged[10]));
            let whole = ValueAxis::of(all(), direction, Some(Scale::Linear)).expect("an axis");
            let share = (whole.place(sound[19]) - whole.place(sound[0])).abs();
            assert!(share < 0.2, "without a typical value: {share}");
        }
        // Curves that start several times higher, or that stay within the decades of a logarithmic
        // axis, have not diverged.
        for (values, typical) in
            [([0.1, 0.5, 1.0, 2.0, 8.0], 1.0), ([1e-6, 1e-3, 1.0, 1e3, 3e4], 1e3)]
        {
            let axis = ValueAxis::of_curves(values.into_iter(), Some(typical), Minimize, None);
            assert!(!axis.expect("an axis").is_beyond(values[4]));
        }
        let values = [1e-6, 1e-3, 1.0, 1e3, 1e12];
        let axis = ValueAxis::of_curves(values.into_iter(), Some(1e3), Minimize, None);
        let axis = axis.expect("an axis");
        assert!(axis.axis.is_log() && axis.is_beyond(1e12) && !axis.is_beyond(1e3));
    }

    #[test]
    fn equal_and_huge_values_have_an_axis() {
        let equal = axis(&[0.5; 9], Minimize, None);
        assert!((equal.place(0.5) - 0.5).abs() < 1e-9 && !equal.is_beyond(0.5));
        let huge = axis(&[f64::MAX, f64::MIN, 0.0], Maximize, None);
        assert!((huge.place(0.0) - 0.5).abs() < 1e-9);
        assert!(!axis(&[], Minimize, None).is_beyond(1e9));
    }

    #[test]
    fn few_values_are_left_off_sooner_than_many() {
        assert_eq!(n_in_reach(&[0.0, 1.0, 2.0, 100.0]), 4, "too few to judge");
        assert_eq!(n_in_reach(&[0.0, 1.0, 1.5, 2.0, 17.0]), 4);
        assert_eq!(n_in_reach(&[0.0, 1.0, 1.5, 2.0, 15.0]), 5);
        assert_eq!(n_in_reach(&[0.0, 1.0, 1.5, 2.0, 99.0, 99.0]), 6);
        assert_eq!(n_in_reach(&[0.0, 1.0, 1.5, 2.0, 101.0, 101.0]), 4);
        assert_eq!(n_in_reach(&[0.0, 0.0, 0.0, 0.0, 0.0, 9.0]), 6, "a range of its own");
        assert_eq!(n_in_reach(&[-1e308, -5e307, 0.0, 5e307, 1e308]), 5);
    }

    fn scale(minimize: bool, values: &[f64]) -> ValueAxis {
        axis(values, if minimize { Minimize } else { Maximize }, None)
    }

    #[test]
    fn an_axis_is_logarithmic_where_that_spreads_the_better_trials() {
        let is_log = |minimize, values: &[f64]| scale(minimize, values).axis.is_log();
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
            let scale = scale(minimize, &values);
            assert!(scale.is_beyond(values[2]) && !scale.is_beyond(values[0]));
            let distance = (scale.axis.place(values[0]) - scale.axis.place(values[4])).abs();
            assert!(distance > 0.8, "{distance}");
        }
        // The better end is never cut off.
        let scale = scale(true, &[5.0, 4.0, -1e6, 3.0, 1.0, 2.5]);
        assert!(!scale.is_beyond(5.0) && !scale.is_beyond(-1e6));
    }

    #[test]
    fn one_value_beside_equal_ones_stays_on_the_axis() {
        let mut values = [0.5; 9];
        values[3] = 0.9;
        let scale = scale(true, &values);
        assert!(!scale.is_beyond(0.9) && scale.axis.place(0.9) > scale.axis.place(0.5));
    }

    #[test]
    fn a_penalty_for_a_third_of_the_trials_is_left_off() {
        let values: Vec<f64> = (0..30)
            .map(|index| if index % 3 == 0 { 1e5 } else { f64::from(index) - 2.0 })
            .collect();
        let scale = scale(true, &values);
        assert!(scale.is_beyond(1e5) && !scale.is_beyond(27.0));
    }
}
