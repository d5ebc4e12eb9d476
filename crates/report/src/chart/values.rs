//! The axis of values, so chosen that the better ones can be told apart: linear or logarithmic, and without what lies far
//! beyond all others on the worse side.

use fedbo_space::Direction;

use super::axis::Axis;
use super::{Scale, Strip};

/// Magnitude beyond which a value is drawn like the limit: so far an axis can be measured.
const LARGEST: f64 = 1e300;
/// Number of ticks, about.
const N_TICKS: u32 = 7;
/// Values of one sign that differ by more than this factor have a logarithmic axis, if that spreads the better ones.
const WIDE: f64 = 100.0;
/// It does where the better end is the one near 0, or where best and median differ by more than this factor.
const WIDE_HALF: f64 = 10.0;
/// A curve that goes this many times as far from the best value as is typical has diverged.
const DIVERGED: f64 = 20.0;
/// On a logarithmic axis: this many times as many decades.
const DIVERGED_DECADES: f64 = 1.5;
/// Beside a curve that has diverged the axis goes this many times as far as is typical, at most.
const KEPT: f64 = 2.0;
/// Height of the strip for values that are off the axis.
const STRIP: f64 = 20.0;

/// The vertical axis, and what is worse than its end.
#[derive(Clone, Debug)]
pub(crate) struct ValueAxis {
    pub(crate) axis: Axis,
    spacing: Spacing,
    direction: Direction,
    /// The best value, and the worst on the axis, where others are worse still.
    limits: Option<(f64, f64)>,
}

/// The spacing of values on the axis; `MirroredLog` is the logarithm of negative values.
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
    /// The axis of these finite values; `scale` decides whether it is logarithmic, none: the values do.
    ///
    /// An error where a logarithmic one is wanted and a value is not above 0.
    pub(crate) fn of(
        values: impl Iterator<Item = f64>,
        direction: Direction,
        scale: Option<Scale>,
    ) -> Result<Self, String> {
        Self::of_curves(values, None, direction, scale)
    }

    /// The same of the values of curves: where some go far beyond `typical_worst`, which most curves do not go beyond, the
    /// axis ends near it.
    pub(crate) fn of_curves(
        values: impl Iterator<Item = f64>,
        typical_worst: Option<f64>,
        direction: Direction,
        scale: Option<Scale>,
    ) -> Result<Self, String> {
        let mut sorted: Vec<f64> = values.map(within_magnitude).collect();
        // From the best to the worst.
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

    /// Returns true if a value is worse than the end of the axis.
    pub(crate) fn is_beyond(&self, value: f64) -> bool {
        self.limits.is_some_and(|(_, worst)| self.direction.is_better(worst, value))
    }

    /// Returns the place of a value: 0 at the axis's lower end, 1 at its upper. The place of a value beyond the axis is
    /// farther out, but by at most half an axis: lines leave the axis at a slope that can be seen.
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

    /// The strip for what is off the axis, if there is any.
    pub(crate) fn strip(&self) -> Option<Strip> {
        let (above, label) = (self.is_worse_above(), "worse");
        self.limits.map(|_| Strip { above, height: STRIP, label })
    }
}

/// The name of an axis of values, with which of them are better.
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

/// Returns the number of values on the axis; `values` are from the best to the worst.
fn n_shown(values: &[f64], spacing: Spacing) -> usize {
    let positions: Vec<f64> = values.iter().map(|value| spacing.position(*value)).collect();
    n_in_reach(&positions)
}

/// `values` from the best to the worst, at least one. Those that a linear axis leaves off do not count.
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

/// The values that an axis is made for: without those beyond a typical range, where they would press the others together.
///
/// `values` go from the best to the worst; `typical_worst` is what most curves do not go beyond. Nothing is left off unless the worst is
/// very far from there, so that a curve that only begins a little higher stays on the axis.
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

/// The worst tenth (at least one) is left off the axis if that makes it shorter by this factor.
const FAR: f64 = 8.0;
/// So is up to a third of the values, a penalty perhaps, if it makes the axis shorter by this.
const VERY_FAR: f64 = 50.0;
/// Fewer values than this are all on the axis.
const N_FOR_LIMIT: usize = 5;

/// Returns the number of values, from the best on, that do not lie far beyond all others; `positions` are where an axis would
/// show them, from the best to the worst.
fn n_in_reach(positions: &[f64]) -> usize {
    let n = positions.len();
    if n < N_FOR_LIMIT {
        return n;
    }
    // Halves, as the distance of two finite values need not be finite.
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

    /// A value that lies far beyond the others has its strip on the worse side, and its place there continues the axis.
    #[test]
    fn far_values_are_off_the_axis_on_the_worse_side() {
        for (direction, sign) in [(Minimize, 1.0), (Maximize, -1.0)] {
            let values: Vec<f64> = [5.0, 4.0, 1e6, 3.0, -1.0, 2.5].map(|v| sign * v).to_vec();
            let axis = axis(&values, direction, None);
            assert!(axis.is_beyond(values[2]) && !axis.is_beyond(values[0]));
            assert_eq!(axis.strip().map(|strip| strip.above), Some(sign > 0.0));
            let distance = (axis.place(values[0]) - axis.place(values[4])).abs();
            assert!(distance > 0.8, "{distance}");
            // 7 is a third as far from 5 as −1 is.
            let (a, b, c) = (axis.place(-sign), axis.place(values[0]), axis.place(sign * 7.0));
            assert!((3.0 * (c - b) - (b - a)).abs() < 1e-9, "{a} {b} {c}");
        }
    }

    /// However many values diverged curves have, and also where these grow step by step without a gap.
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
            assert!(share < 0.2, "without knowing what is typical: {share}");
        }
        // A curve that begins some times higher, and one within the decades of a logarithmic axis, have not diverged.
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
        // The better end is never cut.
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
