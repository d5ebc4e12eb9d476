//! The authors' figures, as read off their plots.

use std::path::Path;

use anyhow::Context as _;
use fedbo_research_problems::data_sets::{DTS_CURVES, figures};

/// A value read off a curve.
#[derive(Clone, Debug)]
struct Reading {
    objective: String,
    graph: String,
    series: String,
    metric: String,
    iteration: u64,
    value: f64,
}

/// All readings.
#[derive(Clone, Debug)]
pub(super) struct AuthorsFigures(Vec<Reading>);

impl AuthorsFigures {
    /// Reads [`DTS_CURVES`] of the data folder. Returns `None` if the file is missing.
    pub(super) fn read(data: &Path) -> anyhow::Result<Option<Self>> {
        let Some(path) = figures(data, DTS_CURVES) else {
            return Ok(None);
        };
        let mut reader =
            csv::Reader::from_path(&path).with_context(|| path.display().to_string())?;
        let mut readings = Vec::new();
        for record in reader.records() {
            let record = record.with_context(|| path.display().to_string())?;
            let cell = |index: usize| record.get(index).unwrap_or_default();
            let place = || format!("{}: {record:?}", path.display());
            if cell(6).is_empty() {
                continue; // hidden under another curve
            }
            readings.push(Reading {
                objective: cell(1).to_owned(),
                graph: cell(2).to_owned(),
                series: cell(3).to_owned(),
                metric: cell(4).to_owned(),
                iteration: cell(5).parse().with_context(place)?,
                value: cell(6).parse().with_context(place)?,
            });
        }
        anyhow::ensure!(!readings.is_empty(), "{}: no values", path.display());
        Ok(Some(Self(readings)))
    }

    /// Returns the last reading of a curve, with its iteration.
    pub(super) fn last(
        &self,
        objective: &str,
        graph: &str,
        series: &str,
        metric: &str,
    ) -> Option<(u64, f64)> {
        let of_curve = self.0.iter().filter(|reading| {
            reading.objective == objective
                && reading.graph.starts_with(graph)
                && reading.series == series
                && reading.metric == metric
        });
        let last = of_curve.max_by_key(|reading| reading.iteration)?;
        Some((last.iteration, last.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "data: run by cargo xtask test --all"]
    fn readings_are_found_by_curve() {
        let data = fedbo_testkit::published_data("official-results");
        let figures = AuthorsFigures::read(&data).unwrap().unwrap();
        let last = |graph, series, metric| figures.last("ackley", graph, series, metric).unwrap();
        let (round, value) = last("star", "7", "cumulative_best_regret");
        assert_eq!(round, 99);
        assert!((value - 7.7141).abs() < 1e-12);
        let (round, value) = last("Erdos-Renyi", "p=0.6", "cumulative_simple_regret");
        assert_eq!(round, 49);
        assert!((value - 2.7222).abs() < 1e-12);
        assert!(figures.last("ackley", "star", "9", "x").is_none());
    }
}
