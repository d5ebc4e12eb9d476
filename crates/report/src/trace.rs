//! The trace of one unit: an agent in a run of an arm.

use std::collections::BTreeMap;

use super::metric::Metric;
use super::row::Row;

/// The unit of paired comparisons between arms: experiment, agent and run. The experiment matters
/// if rows of several configurations are combined.
pub(super) type Unit<'a> = (&'a str, &'a str, u32);

/// The metric of one unit over its iterations.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// Metric after each iteration. If an iteration has several rows, the last one counts.
    points: BTreeMap<i64, f64>,
    /// Last iteration that the unit reached, with or without a value.
    last_iteration: Option<i64>,
}

impl Trace {
    /// Returns the metric after this iteration; `None` if the unit did not reach it or had no value
    /// by then.
    pub(super) fn at(&self, iteration: i64) -> Option<f64> {
        let reached = self.last_iteration.is_some_and(|last| last >= iteration);
        reached
            .then(|| self.points.range(..=iteration).next_back().map(|(_, value)| *value))
            .flatten()
    }

    /// Replaces each number with the mean over iterations 1, 2, … up to its own, and drops the
    /// numbers before iteration 1.
    fn average(&mut self) {
        let (mut sum, mut n) = (0.0, 0.0);
        self.points.retain(|iteration, value| {
            if *iteration > 0 {
                sum += *value;
                n += 1.0;
                *value = sum / n;
            }
            *iteration > 0
        });
    }

    /// Returns the metric at the unit's end.
    pub(super) fn last(&self) -> Option<f64> {
        self.last_iteration.and_then(|last| self.at(last))
    }

    /// Returns the last iteration that the unit reached.
    pub(super) fn last_iteration(&self) -> Option<i64> {
        self.last_iteration
    }
}

/// Returns the names of the arms in order of first appearance.
pub(super) fn arm_names<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.arm.as_str()) {
            names.push(&row.arm);
        }
    }
    names
}

/// Returns the traces of one arm.
pub(super) fn traces<'a>(
    rows: impl IntoIterator<Item = &'a Row>,
    arm: &str,
    metric: Metric,
) -> BTreeMap<Unit<'a>, Trace> {
    let mut traces: BTreeMap<Unit<'a>, Trace> = BTreeMap::new();
    for row in rows.into_iter().filter(|row| row.arm == arm) {
        let trace = traces.entry((&row.experiment, &row.agent, row.run)).or_default();
        trace.last_iteration = trace.last_iteration.max(Some(row.iteration));
        if let Some(value) = metric.of(row) {
            trace.points.insert(row.iteration, value);
        }
    }
    if metric.is_mean() {
        traces.values_mut().for_each(Trace::average);
    }
    traces
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Creates a row in which only the metric is meaningful.
    pub(crate) fn row(arm: &str, agent: &str, run: u32, iteration: i64, best: Option<f64>) -> Row {
        Row {
            experiment: "test".to_owned(),
            arm: arm.to_owned(),
            agent: agent.to_owned(),
            run,
            iteration,
            source: if iteration > 0 { "own" } else { "initial" }.to_owned(),
            parameters: Vec::new(),
            value: best,
            best,
            regret: best.map(|best| 1.0 - best),
            ask_seconds: 0.5,
            status: if best.is_some() { Row::ok_status() } else { Row::failed_status("test") },
        }
    }

    #[test]
    fn a_trace_holds_its_value_until_the_next_and_ends_where_the_unit_ends() {
        let rows = [
            row("ts", "a", 0, 0, None),
            row("ts", "a", 0, 1, Some(2.0)),
            row("ts", "a", 0, 3, Some(5.0)),
            row("ts", "a", 0, 4, None),
            row("other", "a", 0, 9, Some(9.0)),
        ];
        let traces = traces(&rows, "ts", Metric::Best);
        let trace = &traces[&("test", "a", 0)];
        let values: Vec<Option<f64>> = (0..=5).map(|iteration| trace.at(iteration)).collect();
        assert_eq!(values, [None, Some(2.0), Some(2.0), Some(5.0), Some(5.0), None]);
        assert_eq!(trace.last(), Some(5.0));
        assert_eq!(trace.last_iteration(), Some(4));
    }

    /// Values 9 (initial), 2, 5, none, 4 and regrets 1 − v, with means computed by hand.
    #[test]
    fn a_mean_is_over_what_came_after_the_initial_rows_whatever_their_order() {
        let rows = [
            row("a", "a", 0, 0, Some(9.0)),
            row("a", "a", 0, 2, Some(5.0)),
            row("a", "a", 0, 1, Some(2.0)),
            row("a", "a", 0, 3, None),
            row("a", "a", 0, 4, Some(4.0)),
        ];
        for (metric, means) in [
            (Metric::Mean, [2.0, 3.5, 3.5, 11.0 / 3.0]),
            (Metric::MeanRegret, [-1.0, -2.5, -2.5, -8.0 / 3.0]),
        ] {
            let traces = traces(&rows, "a", metric);
            let trace = &traces[&("test", "a", 0)];
            assert_eq!(trace.at(0), None);
            for (iteration, mean) in (1..).zip(means) {
                assert!((trace.at(iteration).unwrap() - mean).abs() < 1e-12);
            }
            assert_eq!(trace.last(), trace.at(4));
        }
    }

    #[test]
    fn arms_keep_the_order_of_the_file() {
        let rows = ["ts", "fts", "ts", "a"].map(|arm| row(arm, "a", 0, 1, None));
        assert_eq!(arm_names(&rows), ["ts", "fts", "a"]);
    }
}
