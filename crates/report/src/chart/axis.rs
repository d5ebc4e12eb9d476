//! Ranges, ticks and their labels.

use fedbo_space::{Kind, Numbers, Value};

use super::Scale;
use super::text::Font;
use super::values::within_magnitude;

/// Minimum distance between adjacent labels.
const LABEL_GAP: f64 = 6.0;

/// An axis: a range, in decades if logarithmic, and its ticks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
    /// True if a logarithmic axis shows negative values.
    mirrored: bool,
    /// Position and label of each tick.
    pub(crate) ticks: Vec<(f64, String)>,
    /// Positions of the minor ticks.
    pub(crate) minor: Vec<f64>,
    /// Names of categories, which occupy the intervals from 0 to 1, from 1 to 2, and so on; empty
    /// for a numeric axis.
    pub(crate) names: Vec<String>,
    /// Constructor and range, from which [`Self::with_ticks`] recreates the axis.
    made: (Made, f64, f64),
    /// Requested number of ticks; 0 if the ticks are fixed.
    pub(crate) n_ticks: u32,
}

/// Constructor that created an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Fixed,
    Whole,
    Iterations,
    Linear,
    Log,
    MirroredLog,
}

impl Axis {
    /// Creates a linear axis from `low` to `high` with these ticks. `low` can be greater than
    /// `high`.
    fn stepped(made: (Made, f64, f64), (low, high): (f64, f64), ticks: Vec<(f64, String)>) -> Self {
        Self {
            low,
            high,
            scale: Scale::Linear,
            mirrored: false,
            n_ticks: 0,
            ticks,
            minor: Vec::new(),
            names: Vec::new(),
            made,
        }
    }

    /// Recreates the axis with approximately this number of ticks.
    pub(crate) fn with_ticks(&self, n_ticks: u32) -> Self {
        let (made, low, high) = self.made;
        match made {
            Made::Fixed => self.clone(),
            Made::Whole => Self::whole(low, high, n_ticks),
            Made::Iterations => Self::iterations(low, high, n_ticks),
            Made::Linear => Self::linear(low, high, n_ticks),
            Made::Log => Self::log(low, high, n_ticks),
            Made::MirroredLog => Self::mirrored_log(low, high, n_ticks),
        }
    }

    /// Creates an integer axis from `low` to `high`, without margins.
    pub(crate) fn iterations(low: f64, high: f64, n_ticks: u32) -> Self {
        let made = (Made::Iterations, low, high);
        let high = high.max(low + 1.0);
        let step = nice_step(high - low, n_ticks).max(1.0);
        let ticks = linear_ticks(low, high, step);
        Self { n_ticks, ..Self::stepped(made, (low, high), ticks) }
    }

    /// Creates an integer axis with margins, so that points at either end are drawn in full.
    pub(crate) fn whole(low: f64, high: f64, n_ticks: u32) -> Self {
        let margin = ((high - low) * 0.04).max(0.5);
        let step = nice_step((high - low).max(1.0), n_ticks).max(1.0);
        let ticks = linear_ticks(low, high, step);
        let made = (Made::Whole, low, high);
        Self { n_ticks, ..Self::stepped(made, (low - margin, high + margin), ticks) }
    }

    /// Creates an axis for bars, from 0 to `high`, which must be above 0. Leaves room for a number
    /// after the longest bar.
    pub(crate) fn of_bars(high: f64, n_ticks: u32) -> Self {
        let ticks = linear_ticks(0.0, high, nice_step(high, n_ticks));
        Self::stepped((Made::Fixed, 0.0, 0.0), (0.0, 1.12 * high), ticks)
    }

    /// Creates a linear axis from `low` to `high`, without ticks.
    pub(crate) fn bare(low: f64, high: f64) -> Self {
        Self::stepped((Made::Fixed, 0.0, 0.0), (low, high), Vec::new())
    }

    /// Creates an axis of categories side by side.
    pub(crate) fn columns(names: Vec<String>) -> Self {
        Self { names: names.clone(), ..Self::bare(0.0, names.len().max(1) as f64) }
    }

    /// Creates an axis of categories from top to bottom.
    pub(crate) fn rows(names: Vec<String>) -> Self {
        Self { names: names.clone(), ..Self::bare(names.len().max(1) as f64, 0.0) }
    }

    /// Creates the axis for a parameter's range. `names` creates an axis of categories,
    /// [`columns`](Self::columns) or [`rows`](Self::rows).
    pub(crate) fn of_range(
        range: &Kind,
        n_ticks: u32,
        names: impl Fn(Vec<String>) -> Self,
    ) -> Self {
        let numbers = |low: f64, high: f64, log: bool, whole: bool| {
            let (low, high) = (within_magnitude(low), within_magnitude(high));
            let (low, high) = (low.min(high), low.max(high));
            if log && low > 0.0 {
                Self::log(low.log10(), high.log10(), n_ticks)
            } else if whole {
                Self::whole(low, high, n_ticks)
            } else {
                Self::linear(low, high, n_ticks)
            }
        };
        match range.numbers() {
            Some(Numbers { low, high, log, is_whole, .. }) => numbers(low, high, log, is_whole),
            None => names(range.choices().iter().map(Value::to_string).collect()),
        }
    }

    /// Creates a logarithmic axis of negative values: `low` and `high` are −log10 of −value.
    pub(crate) fn mirrored_log(low: f64, high: f64, n_ticks: u32) -> Self {
        let mut axis = Self::log(-high, -low, n_ticks);
        (axis.low, axis.high) = (-axis.high, -axis.low);
        (axis.mirrored, axis.made) = (true, (Made::MirroredLog, low, high));
        for (position, label) in &mut axis.ticks {
            *position = -*position;
            label.insert(0, '−');
        }
        axis.minor.iter_mut().for_each(|position| *position = -*position);
        axis
    }

    /// Reduces the number of ticks until the labels fit below a panel of this width.
    ///
    /// Labels must not touch each other or extend beyond the panel by more than `overhang`. If no
    /// number of ticks fits, some ticks are removed.
    pub(crate) fn fitted(&self, (width, overhang): (f64, f64), font: Font) -> Self {
        let make = |n_ticks| self.with_ticks(n_ticks);
        let counts = || (2..=self.n_ticks.max(2)).rev();
        for axis in counts().map(&make) {
            let inside = axis.labels_inside(width, overhang, font);
            if inside.len() == axis.ticks.len() && !overlap(&inside) {
                return axis;
            }
        }
        for at_least in [2, 1] {
            for axis in counts().map(&make) {
                let inside = axis.labels_inside(width, overhang, font);
                for every in 1..=inside.len() {
                    let kept: Vec<Extent> = inside.iter().step_by(every).copied().collect();
                    if kept.len() >= at_least && !overlap(&kept) {
                        let ticks = kept.iter().map(|extent| axis.ticks[extent.index].clone());
                        let ticks = ticks.collect();
                        return Self { ticks, ..axis };
                    }
                }
            }
        }
        Self { ticks: Vec::new(), ..make(2) }
    }

    /// Returns the labels that stay within the permitted overhang.
    fn labels_inside(&self, width: f64, overhang: f64, font: Font) -> Vec<Extent> {
        let mut inside = Vec::with_capacity(self.ticks.len());
        for (index, (position, label)) in self.ticks.iter().enumerate() {
            let middle = self.place_of_position(*position) * width;
            let half = font.width(label) / 2.0;
            let (from, to) = (middle - half, middle + half);
            if from >= -overhang && to <= width + overhang {
                inside.push(Extent { index, from, to });
            }
        }
        inside
    }

    /// Creates a linear axis with a margin.
    pub(crate) fn linear(low: f64, high: f64, n_ticks: u32) -> Self {
        let margin = match high / 2.0 - low / 2.0 {
            half if half > 1e-12 * low.abs().max(high.abs()) => half * 0.1,
            _ => (low.abs() * 0.1).max(1e-3),
        };
        let made = (Made::Linear, low, high);
        let (low, high) = (low - margin, high + margin);
        let ticks = linear_ticks(low, high, nice_step(high - low, n_ticks));
        Self { n_ticks, ..Self::stepped(made, (low, high), ticks) }
    }

    /// Creates a logarithmic axis with a margin. `low` and `high` are decimal logarithms.
    pub(crate) fn log(low: f64, high: f64, n_ticks: u32) -> Self {
        let made = (Made::Log, low, high);
        let margin = ((high - low) * 0.05).max(0.02);
        let (low, high) = (low - margin, high + margin);
        let n_decades = high.floor() - low.ceil() + 1.0;
        let within = |position: &f64| *position >= low && *position <= high;
        let decades = || {
            (0..)
                .map(|index| low.floor() + f64::from(index))
                .take_while(move |decade| *decade <= high)
        };
        let of_decades = |mantissas: &'static [f64]| {
            decades()
                .flat_map(|decade| mantissas.iter().map(move |mantissa| decade + mantissa.log10()))
        };
        let label = |position: f64| (position, power_label(position));
        let mut ticks: Vec<(f64, String)> = if n_decades > f64::from(n_ticks) {
            let every = (n_decades / f64::from(n_ticks)).ceil();
            decades()
                .filter(|decade| decade.rem_euclid(every) < 0.5)
                .filter(within)
                .map(label)
                .collect()
        } else if n_decades >= 2.0 {
            decades().filter(within).map(label).collect()
        } else {
            of_decades(&[1.0, 2.0, 5.0]).filter(within).map(label).collect()
        };
        let finer: [&'static [f64]; 2] =
            [&[1.0, 2.0, 5.0], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]];
        for mantissas in finer {
            if ticks.len() < 3 {
                ticks = of_decades(mantissas).filter(within).map(label).collect();
            }
        }
        if ticks.len() < 2 {
            // Within a factor of two, the logarithm is almost linear.
            let (from, to) = (10_f64.powf(low), 10_f64.powf(high));
            ticks = linear_ticks(from, to, nice_step(to - from, n_ticks));
            ticks.iter_mut().for_each(|(position, _)| *position = position.log10());
        }
        let minor = match n_decades {
            many if many > 8.0 => Vec::new(),
            _ => of_decades(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]).filter(within).collect(),
        };
        Self { scale: Scale::Log, minor, n_ticks, ..Self::stepped(made, (low, high), ticks) }
    }

    #[cfg(test)]
    pub(super) fn is_log(&self) -> bool {
        self.scale == Scale::Log
    }

    /// Returns the position of a value on the axis: 0 at its start, 1 at its end. Values beyond
    /// either end are clamped.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let position = match self.scale {
            Scale::Linear => value,
            Scale::Log if self.mirrored && value < 0.0 => -(-value).log10(),
            Scale::Log if self.mirrored => return 1.0,
            Scale::Log if value > 0.0 => value.log10(),
            Scale::Log => return 0.0,
        };
        self.place_of_position(position)
    }

    /// Returns the relative position of a tick.
    pub(crate) fn place_of_position(&self, position: f64) -> f64 {
        ((position - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// The horizontal extent of a tick's label.
#[derive(Clone, Copy, Debug)]
struct Extent {
    index: usize,
    from: f64,
    to: f64,
}

fn overlap(labels: &[Extent]) -> bool {
    labels.windows(2).any(|pair| pair[1].from < pair[0].to + LABEL_GAP)
}

/// Returns the smallest step of 1, 2 or 5 times a power of ten that gives no more than about
/// `n_ticks` ticks.
fn nice_step(range: f64, n_ticks: u32) -> f64 {
    let least = range / f64::from(n_ticks.max(1));
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

fn linear_ticks(low: f64, high: f64, step: f64) -> Vec<(f64, String)> {
    let first = (low / step - 1e-9).ceil();
    let largest = low.abs().max(high.abs());
    (0..100)
        .map(|index| (first + f64::from(index)) * step)
        .take_while(|position| *position <= high + step * 1e-9)
        .map(|position| (position, linear_label(position, step, largest)))
        .collect()
}

/// Formats a label with as many decimals as the step needs, or with powers of ten if the axis is
/// very large or very small.
fn linear_label(value: f64, step: f64, largest: f64) -> String {
    let value = if value.abs() < step * 1e-9 { 0.0 } else { value };
    let exponent = (step.log10() + 1e-9).floor();
    let text = if (1e-5..1e6).contains(&largest) {
        let decimals = (0..12).find(|decimals| f64::from(*decimals) >= -exponent).unwrap_or(12);
        format!("{value:.decimals$}", decimals = usize::from(u8::try_from(decimals).unwrap_or(12)))
    } else if value.abs() < step * 1e-9 {
        "0".to_owned()
    } else {
        let digits = (0..12)
            .find(|digits| f64::from(*digits) >= value.abs().log10().floor() - exponent)
            .unwrap_or(12);
        format!("{value:.digits$e}", digits = usize::from(u8::try_from(digits).unwrap_or(12)))
    };
    text.replace('-', "−")
}

/// Formats the label of a power of ten, or of a digit times a power of ten.
fn power_label(position: f64) -> String {
    let value = 10_f64.powf(position);
    let text = if (9e-5..2e5).contains(&value) {
        let decimals = (0..6_u8)
            .find(|decimals| f64::from(*decimals) >= -(position + 1e-9).floor())
            .unwrap_or(6);
        format!("{value:.decimals$}", decimals = usize::from(decimals))
    } else {
        format!("{value:.0e}")
    };
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_carry_the_decimals_they_need() {
        assert_eq!(labels(&Axis::iterations(0.0, 50.0, 6)), ["0", "10", "20", "30", "40", "50"]);
        assert_eq!(labels(&Axis::iterations(1.0, 3.0, 6)), ["1", "2", "3"]);
        assert_eq!(labels(&Axis::linear(0.703, 0.887, 6)), ["0.70", "0.75", "0.80", "0.85"]);
        assert_eq!(labels(&Axis::linear(-2.0, 4.1, 5)), ["−2", "0", "2", "4"]);
        assert_eq!(labels(&Axis::linear(1.1e7, 2.9e7, 4)), ["1.5e7", "2.0e7", "2.5e7"]);
    }

    #[test]
    fn logarithmic_ticks_are_decades_or_lie_between_them() {
        assert_eq!(labels(&Axis::log(-3.2, 0.7, 6)), ["0.001", "0.01", "0.1", "1"]);
        assert_eq!(labels(&Axis::log(-0.8, 0.5, 6)), ["0.2", "0.5", "1", "2"]);
        assert_eq!(
            labels(&Axis::log(-1.2, 0.4, 6)),
            ["0.1", "0.2", "0.5", "1", "2"],
            "two decades alone are too few, every digit too many"
        );
        assert_eq!(labels(&Axis::log(-1.1, -0.6, 6)), ["0.08", "0.09", "0.1", "0.2"]);
        assert_eq!(labels(&Axis::log(-12.0, 3.0, 4)).len(), 4);
        assert!(labels(&Axis::log(0.31, 0.32, 6)).len() >= 2);
    }

    #[test]
    fn negative_values_have_a_logarithmic_axis_too() {
        let axis = Axis::mirrored_log(-1.0, 2.0, 6);
        let mut labels = labels(&axis);
        labels.reverse();
        assert_eq!(labels, ["−10", "−1", "−0.1", "−0.01"]);
        assert!(axis.place(-10.0) < axis.place(-1.0) && axis.place(-1.0) < axis.place(-0.01));
        assert!(axis.place(0.0) >= 1.0 && axis.place(-1e9) <= 0.0);
    }

    #[test]
    fn a_place_is_within_the_axis() {
        let axis = Axis::log(-2.0, 0.0, 6);
        assert!((axis.place(0.1) - 0.5).abs() < 1e-12);
        assert!(axis.place(0.0) <= 0.0 && axis.place(-1.0) <= 0.0 && axis.place(1e9) >= 1.0);
    }
}
