//! The units in which tasks are compared with the target.

use fedbo_gp::Standardizer;

use super::MetaTask;
use crate::Surrogate;

/// The units in which tasks are compared with the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputScale {
    /// Raw values, with a prior mean of 0 (thesis section 7.2: f and all f_i are draws of one
    /// Gaussian process).
    Raw,
    /// One shift and one divisor for all tasks, so that their pooled outputs have mean 0 and
    /// variance 1. Tasks that differ only in mean or scale still count as different functions, as
    /// with [`OutputScale::Raw`].
    Common,
    /// Like [`OutputScale::Common`] for ordinary values, but robust: a minority of huge values,
    /// whether from one task or from penalties, does not mask differences between the other tasks
    /// and the target.
    ///
    /// The pooled outputs of the tasks are shifted by their median and divided by their standard
    /// deviation without outliers. Values beyond five such units count as five. From the fifth
    /// observation on, gaps and bounds are compared after standardizing by the target's own mean
    /// and standard deviation. Before that, they are compared in the tasks' units.
    Typical,
    /// Each task and the target are scaled by their own mean and standard deviation. Means and
    /// scales do not affect similarity (Feurer et al. 2018).
    Own,
}

/// Number of observations from which on the target's own mean and standard deviation are
/// informative.
pub(super) const OWN_SCALE_MIN: usize = 5;

/// Values beyond this number of units are clamped.
const LARGEST: f64 = 5.0;
/// A value is an outlier if its distance from the median exceeds this multiple of the median
/// distance, which is 3.4 standard deviations for normal values.
const FAR: f64 = 5.0;

/// Units of the tasks' outputs. Some scales standardize each task separately after this conversion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TaskUnits {
    /// Raw values.
    Raw,
    /// All values are standardized together.
    Pooled(Standardizer),
    /// Maps y to (y − shift)/size, clamped to ±5.
    Typical { shift: f64, size: f64 },
}

impl TaskUnits {
    pub(super) fn of(scale: OutputScale, tasks: &[MetaTask]) -> Self {
        let finite = |task: &MetaTask| -> Vec<f64> {
            let outputs = task.outputs.iter().copied();
            outputs.filter(|y| y.is_finite()).collect()
        };
        match scale {
            OutputScale::Raw | OutputScale::Own => Self::Raw,
            OutputScale::Common => {
                let all: Vec<f64> = tasks.iter().flat_map(finite).collect();
                Self::Pooled(Standardizer::robust(&all))
            }
            OutputScale::Typical => {
                let (shift, size) = spread(tasks.iter().flat_map(finite).collect());
                Self::Typical { shift, size }
            }
        }
    }

    pub(super) fn apply(&self, y: f64) -> f64 {
        match *self {
            Self::Raw => y,
            Self::Pooled(standardizer) => standardizer.standardize(y),
            Self::Typical { shift, size } => {
                // Computed in halves, because the difference of two large numbers can overflow.
                let half = 0.5 * y - 0.5 * shift;
                (half / size * 2.0).clamp(-LARGEST, LARGEST)
            }
        }
    }

    /// Returns the size of one unit, in the units of the values.
    pub(super) fn size(&self) -> f64 {
        match *self {
            Self::Raw => 1.0,
            Self::Pooled(standardizer) => standardizer.restore_std(1.0),
            Self::Typical { size, .. } => size,
        }
    }
}

/// Returns the median, and the standard deviation of the values after clamping them to five median
/// distances from the median. If more than half of the values are equal, returns the plain standard
/// deviation; if all of them are equal, 1.
fn spread(values: Vec<f64>) -> (f64, f64) {
    let centre = lower_median(values.clone()).unwrap_or(0.0);
    let distances = values.iter().map(|v| (v - centre).abs()).collect();
    let reach = FAR * lower_median(distances).unwrap_or(0.0);
    let kept: Vec<f64> = match reach > 0.0 && reach.is_finite() {
        true => {
            let near = values.iter().map(|v| v.clamp(centre - reach, centre + reach));
            near.collect()
        }
        false => values,
    };
    let (least, largest) = (kept.iter(), kept.iter());
    let least = least.copied().fold(f64::INFINITY, f64::min);
    let deviates = least < largest.copied().fold(f64::NEG_INFINITY, f64::max);
    let own = Standardizer::new(&kept).restore_std(1.0);
    let is_usable = deviates && own.is_normal();
    (centre, if is_usable { own } else { 1.0 })
}

/// Returns the median, or the lower of the two middle values.
fn lower_median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// The conversion of the tasks' and the target's models to common units: affine maps for means, and
/// factors for standard deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Exchange {
    pub(super) task_factor: f64,
    pub(super) task_shift: f64,
    pub(super) target_factor: f64,
    pub(super) target_shift: f64,
    pub(super) target_std_factor: f64,
    /// The size of one common unit, in the units of the values.
    pub(super) unit: f64,
}

impl Exchange {
    /// The identity, if the units are already equal.
    pub(super) const NONE: Self = Self {
        task_factor: 1.0,
        task_shift: 0.0,
        target_factor: 1.0,
        target_shift: 0.0,
        target_std_factor: 1.0,
        unit: 1.0,
    };

    /// Returns the conversion between tasks in `units` and the target's current posterior.
    pub(super) fn of(units: &TaskUnits, target: &Surrogate) -> Self {
        let same = Self { unit: units.size(), ..Self::NONE };
        let TaskUnits::Typical { shift, size: typical } = *units else {
            return same;
        };
        let (level, size) = target.level_and_size();
        if !(size.is_normal() && level.is_finite()) {
            return same;
        }
        if target.len() < OWN_SCALE_MIN {
            return Self {
                target_factor: size / typical,
                target_shift: (level - shift) / typical,
                ..same
            };
        }
        Self { task_factor: typical / size, task_shift: (shift - level) / size, unit: size, ..same }
    }
}

#[cfg(test)]
mod tests {
    use fedbo_optim::Points;

    use super::*;

    fn task(outputs: &[f64]) -> MetaTask {
        MetaTask {
            name: "task".into(),
            inputs: Points::from_flat(1, vec![0.5; outputs.len()]),
            outputs: outputs.to_vec(),
        }
    }

    /// If the values of one task are a million times larger, or contain penalties or constants, the
    /// unit is still determined by the other tasks, and no value exceeds five.
    #[test]
    fn outliers_do_not_set_the_typical_scale() {
        let plain = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let large = [1e6, 3e6, -5e6, 2e6, 7e6];
        let penalty = [1.0, 2.0, 3.0, 4.0, -1e300];
        for other in [task(&large), task(&penalty), task(&[2.0; 5])] {
            let units = TaskUnits::of(OutputScale::Typical, &[task(&plain), other]);
            assert!((1.0..20.0).contains(&units.size()), "{units:?}");
            assert!(units.apply(6.0) - units.apply(1.0) > 0.2);
            for extreme in [1e308, -1e308, 1e300] {
                assert!(units.apply(extreme).abs() <= LARGEST);
            }
        }
        // Without outliers, the typical scale equals the common scale, except that it uses the
        // median instead of the mean.
        let [typical, common] = [OutputScale::Typical, OutputScale::Common]
            .map(|scale| TaskUnits::of(scale, &[task(&plain)]).size());
        assert!((typical - common).abs() < 1e-12);
        let constant = TaskUnits::of(OutputScale::Typical, &[task(&[7.0; 4])]);
        assert!(constant.apply(7.0).abs() < 1e-12 && (constant.size() - 1.0).abs() < 1e-12);
        assert!(TaskUnits::of(OutputScale::Typical, &[]).apply(3.0) > 2.9);
    }
}
