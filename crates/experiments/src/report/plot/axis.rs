//! Ranges, ticks and their labels.

use super::{Panel, Scale};

/// A vertical axis: a range, in decades for a logarithmic one, and the ticks in it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
    /// Position and label of each tick.
    pub(super) ticks: Vec<(f64, String)>,
    /// Positions of the small ticks between them.
    pub(super) minor: Vec<f64>,
}

impl Axis {
    /// The horizontal axis over these iterations.
    pub(super) fn iterations(low: i64, high: i64, n_ticks: u32) -> Self {
        let (low, high) = (low as f64, (high as f64).max(low as f64 + 1.0));
        let step = nice_step(high - low, n_ticks).max(1.0);
        Self {
            low,
            high,
            scale: Scale::Linear,
            ticks: linear_ticks(low, high, step),
            minor: Vec::new(),
        }
    }

    /// The vertical axis over all that the panels show.
    pub(super) fn values<'a>(
        panels: impl Iterator<Item = &'a Panel>,
        scale: Scale,
        n_ticks: u32,
    ) -> Self {
        let mut shown: Vec<f64> = Vec::new();
        for panel in panels {
            for point in panel
                .curves
                .iter()
                .flat_map(|curve| &curve.points)
                .filter(|point| point.iteration >= 0)
            {
                let error = point.estimate.standard_error.unwrap_or(0.0);
                let mean = point.estimate.mean;
                // A band that reaches zero would stretch a logarithmic axis without end.
                let lower = if scale == Scale::Log {
                    (mean - error).max(mean / 4.0)
                } else {
                    mean - error
                };
                shown.extend([lower, mean + error]);
            }
            shown.extend(panel.references.iter().map(|reference| reference.value));
        }
        shown.retain(|value| value.is_finite() && (scale == Scale::Linear || *value > 0.0));
        let low = shown.iter().copied().reduce(f64::min);
        let high = shown.iter().copied().reduce(f64::max);
        let (low, high) = low.zip(high).unwrap_or((1.0, 1.0));
        match scale {
            Scale::Linear => Self::linear(low, high, n_ticks),
            Scale::Log => Self::log(low.log10(), high.log10(), n_ticks),
        }
    }

    fn linear(low: f64, high: f64, n_ticks: u32) -> Self {
        let margin = match high / 2.0 - low / 2.0 {
            half if half > 1e-12 * low.abs().max(high.abs()) => half * 0.1,
            _ => (low.abs() * 0.1).max(1e-3),
        };
        let (low, high) = (low - margin, high + margin);
        let ticks = linear_ticks(low, high, nice_step(high - low, n_ticks));
        Self {
            low,
            high,
            scale: Scale::Linear,
            ticks,
            minor: Vec::new(),
        }
    }

    /// `low` and `high` are decimal logarithms.
    fn log(low: f64, high: f64, n_ticks: u32) -> Self {
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
            decades().flat_map(|decade| {
                mantissas
                    .iter()
                    .map(move |mantissa| decade + mantissa.log10())
            })
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
            of_decades(&[1.0, 2.0, 5.0])
                .filter(within)
                .map(label)
                .collect()
        };
        if ticks.len() < 3 {
            ticks = of_decades(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
                .filter(within)
                .map(label)
                .collect();
        }
        if ticks.len() < 2 {
            // Less than a factor of two: a logarithm is nearly straight there.
            let (from, to) = (10_f64.powf(low), 10_f64.powf(high));
            ticks = linear_ticks(from, to, nice_step(to - from, n_ticks));
            ticks
                .iter_mut()
                .for_each(|(position, _)| *position = position.log10());
        }
        let minor = match n_decades {
            many if many > 8.0 => Vec::new(),
            _ => of_decades(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
                .filter(within)
                .collect(),
        };
        Self {
            low,
            high,
            scale: Scale::Log,
            ticks,
            minor,
        }
    }

    pub(super) fn is_log(&self) -> bool {
        self.scale == Scale::Log
    }

    /// Where a value lies on the axis: 0 at its start, 1 at its end. What lies beyond is put at the edge.
    pub(super) fn place(&self, value: f64) -> f64 {
        let position = match self.scale {
            Scale::Linear => value,
            Scale::Log if value > 0.0 => value.log10(),
            Scale::Log => return 0.0,
        };
        self.place_of_position(position)
    }

    /// The same for a tick.
    pub(super) fn place_of_position(&self, position: f64) -> f64 {
        ((position - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// The smallest step of 1, 2 or 5 times a power of ten that gives at most about `n_ticks` ticks.
fn nice_step(range: f64, n_ticks: u32) -> f64 {
    let least = range / f64::from(n_ticks.max(1));
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps
        .into_iter()
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
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

/// As many decimals as the step needs; powers of ten for very large and very small axes.
fn linear_label(value: f64, step: f64, largest: f64) -> String {
    let value = if value.abs() < step * 1e-9 {
        0.0
    } else {
        value
    };
    let exponent = (step.log10() + 1e-9).floor();
    let text = if (1e-5..1e6).contains(&largest) {
        let decimals = (0..12)
            .find(|decimals| f64::from(*decimals) >= -exponent)
            .unwrap_or(12);
        format!(
            "{value:.decimals$}",
            decimals = usize::from(u8::try_from(decimals).unwrap_or(12))
        )
    } else if value.abs() < step * 1e-9 {
        "0".to_owned()
    } else {
        let digits = (0..12)
            .find(|digits| f64::from(*digits) >= value.abs().log10().floor() - exponent)
            .unwrap_or(12);
        format!(
            "{value:.digits$e}",
            digits = usize::from(u8::try_from(digits).unwrap_or(12))
        )
    };
    text.replace('-', "−")
}

/// A power of ten, or a digit times one.
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
        assert_eq!(
            labels(&Axis::iterations(0, 50, 6)),
            ["0", "10", "20", "30", "40", "50"]
        );
        assert_eq!(labels(&Axis::iterations(1, 3, 6)), ["1", "2", "3"]);
        assert_eq!(
            labels(&Axis::linear(0.703, 0.887, 6)),
            ["0.70", "0.75", "0.80", "0.85"]
        );
        assert_eq!(labels(&Axis::linear(-2.0, 4.1, 5)), ["−2", "0", "2", "4"]);
        assert_eq!(
            labels(&Axis::linear(1.1e7, 2.9e7, 4)),
            ["1.5e7", "2.0e7", "2.5e7"]
        );
    }

    #[test]
    fn logarithmic_ticks_are_decades_or_lie_between_them() {
        assert_eq!(
            labels(&Axis::log(-3.2, 0.7, 6)),
            ["0.001", "0.01", "0.1", "1"]
        );
        assert_eq!(labels(&Axis::log(-0.8, 0.5, 6)), ["0.2", "0.5", "1", "2"]);
        assert_eq!(
            labels(&Axis::log(-1.1, -0.6, 6)),
            ["0.08", "0.09", "0.1", "0.2"]
        );
        assert_eq!(labels(&Axis::log(-12.0, 3.0, 4)).len(), 4);
        assert!(labels(&Axis::log(0.31, 0.32, 6)).len() >= 2);
    }

    #[test]
    fn a_place_is_within_the_axis() {
        let axis = Axis::log(-2.0, 0.0, 6);
        assert!((axis.place(0.1) - 0.5).abs() < 1e-12);
        assert!(axis.place(0.0) <= 0.0 && axis.place(-1.0) <= 0.0 && axis.place(1e9) >= 1.0);
    }
}
