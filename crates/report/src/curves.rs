//! Mean and standard error over units at each iteration.

use std::collections::BTreeSet;

use super::metric::Metric;
use super::row::Row;
use super::summary::{Clusters, Estimate};
use super::trace::{arm_names, traces};

/// The mean curve of one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Name of the arm. A figure replaces it with the arm's label and name.
    pub arm: String,
    /// The iterations at which at least one unit has a value, in order.
    pub points: Vec<CurvePoint>,
}

/// One iteration of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// The iteration; initial points are ≤ 0.
    pub iteration: i64,
    /// Mean over the units that reached the iteration, with standard error and count.
    pub estimate: Estimate,
}

/// Returns one curve per arm, in the order of the file. Each cluster counts as one value. Arms
/// without a value are omitted.
#[must_use]
pub fn curves(rows: &[Row], metric: Metric, clusters: Clusters) -> Vec<Curve> {
    let curve = |arm: &str| {
        let traces = traces(rows, arm, metric);
        let iterations: BTreeSet<i64> =
            rows.iter().filter(|row| row.arm == arm).map(|row| row.iteration).collect();
        let point = |iteration| {
            let values =
                traces.iter().filter_map(|(unit, trace)| Some((unit, trace.at(iteration)?)));
            Some(CurvePoint { iteration, estimate: Estimate::of(&clusters.means(values))? })
        };
        Curve { arm: arm.to_owned(), points: iterations.into_iter().filter_map(point).collect() }
    };
    arm_names(rows).into_iter().map(curve).filter(|curve| !curve.points.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::trace::tests::row;
    use super::*;

    #[test]
    fn a_curve_is_the_mean_over_the_units_that_got_so_far() {
        let rows = [
            row("ts", "a", 0, 0, Some(1.0)),
            row("ts", "a", 0, 1, Some(2.0)),
            row("ts", "a", 1, 0, Some(3.0)),
            row("ts", "a", 1, 1, None), // failed: the best value is unchanged
            row("ts", "b", 0, 0, Some(5.0)),
            row("empty", "a", 0, 0, None),
        ];
        let points = |clusters| {
            let curves = curves(&rows, Metric::Best, clusters);
            assert_eq!(curves.len(), 1);
            curves[0].points.clone()
        };
        let [first, second] = points(Clusters::Units)[..] else { panic!("two iterations") };
        // 1, 3, 5: mean 3, variance 4, standard error 2/√3; then 2, 3: mean 2.5, variance 1/2, standard error 1/2.
        assert!((first.estimate.mean - 3.0).abs() < 1e-12 && first.estimate.n == 3);
        let error = first.estimate.standard_error.expect("three units");
        assert!((error - 2.0 / 3.0_f64.sqrt()).abs() < 1e-12);
        assert!((second.estimate.mean - 2.5).abs() < 1e-12 && second.estimate.n == 2);
        assert!((second.estimate.standard_error.expect("two units") - 0.5).abs() < 1e-12);
        // Averaged by run: (1 + 5)/2 = 3 and 3 at iteration 1; then 2 and 3.
        let [first, second] = points(Clusters::Runs)[..] else { panic!("two iterations") };
        assert!((first.estimate.mean - 3.0).abs() < 1e-12 && first.estimate.n == 2);
        assert!(first.estimate.standard_error.expect("two runs") < 1e-12);
        assert!((second.estimate.mean - 2.5).abs() < 1e-12 && second.estimate.n == 2);
    }
}
