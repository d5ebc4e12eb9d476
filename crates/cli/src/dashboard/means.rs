//! The mean course of each arm of a run. They are computed once for what stands in its file: pages ask for them every few seconds.

use std::collections::HashMap;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use axum::response::Response;
use fedbo_report::{Clusters, Metric, RESULTS_FILE, ResultsTail, Row, SUMMARY_FILE, curves};
use serde::Serialize;

use super::request::Asked;
use super::{Stamp, runs, stamp};
use crate::answers::typed;
use crate::trial_record::SCHEMA_VERSION;

/// The largest file of results of which means are computed; seven times as much memory is needed for it.
const RESULTS_BYTES: u64 = 128 << 20;
/// Runs whose means are kept at most.
const RUNS: usize = 16;

/// The mean course of each arm, by what is compared.
#[derive(Serialize)]
struct Means {
    schema_version: u32,
    metrics: Vec<MetricMeans>,
    /// The reason why there are none.
    too_large: Option<String>,
}

/// The mean of a metric over repetitions, each the mean of its agents, with one standard error.
#[derive(Serialize)]
struct MetricMeans {
    metric: Metric,
    arms: Vec<ArmMeans>,
}

/// The course of one arm: iterations, means, standard errors, and how many values stand behind each mean.
#[derive(Serialize)]
struct ArmMeans {
    arm: String,
    iterations: Vec<i64>,
    means: Vec<f64>,
    standard_errors: Vec<Option<f64>>,
    n: Vec<usize>,
}

/// The means of some runs, each with the state of the files that they are of.
#[derive(Default)]
pub(super) struct Computed(Mutex<HashMap<PathBuf, Kept>>);

/// The means of a run as JSON.
struct Kept {
    /// The states of its results and of its summary.
    of: [Option<Stamp>; 2],
    means: Bytes,
}

impl Computed {
    /// The means of the run in a folder, as JSON.
    fn of(&self, folder: &FilePath) -> anyhow::Result<Bytes> {
        let [results, summary] =
            [RESULTS_FILE, SUMMARY_FILE].map(|name| folder.join(name).metadata().ok());
        let of = [&results, &summary].map(|meta| meta.as_ref().map(stamp));
        let runs = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = runs().get(folder)
            && kept.of == of
        {
            return Ok(kept.means.clone());
        }
        let n_bytes = results.map_or(0, |results| results.len());
        let means = Bytes::from(serde_json::to_vec(&Means::of(folder, n_bytes)?)?);
        let mut runs = runs();
        if runs.len() >= RUNS {
            runs.clear();
        }
        runs.insert(folder.to_owned(), Kept { of, means: means.clone() });
        Ok(means)
    }
}

impl Means {
    fn of(folder: &FilePath, n_bytes: u64) -> anyhow::Result<Self> {
        if n_bytes > RESULTS_BYTES {
            let message = format!(
                "{RESULTS_FILE} has {} MB; means are drawn here of at most {} MB: fedbo plot draws those of this folder",
                n_bytes >> 20,
                RESULTS_BYTES >> 20
            );
            return Ok(Self {
                schema_version: SCHEMA_VERSION,
                metrics: Vec::new(),
                too_large: Some(message),
            });
        }
        let summary = runs::summary(folder).ok().flatten();
        let clusters = summary.as_ref().map_or(Clusters::Runs, |summary| summary.clusters);
        let rows = ResultsTail::new(folder).more()?.unwrap_or_default();
        let mut metrics = vec![Metric::Regret, Metric::Best];
        if let Some(metric) = summary.map(|summary| summary.metric) {
            metrics.retain(|other| *other != metric);
            metrics.insert(0, metric);
        }
        let metrics = metrics.into_iter().map(|metric| metric_means(&rows, metric, clusters));
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            metrics: metrics.filter(|means| !means.arms.is_empty()).collect(),
            too_large: None,
        })
    }
}

/// `GET /api/runs/{id}/means`.
pub(super) fn means(asked: &Asked) -> anyhow::Result<Response> {
    let shared = &asked.shared;
    Ok(typed("application/json", shared.means.of(&shared.catalog.run(asked.id())?)?))
}

fn metric_means(rows: &[Row], metric: Metric, clusters: Clusters) -> MetricMeans {
    let arms = curves(rows, metric, clusters).into_iter().map(|curve| {
        let points = curve.points.iter();
        ArmMeans {
            arm: curve.arm,
            iterations: points.clone().map(|point| point.iteration).collect(),
            means: points.clone().map(|point| point.estimate.mean).collect(),
            standard_errors: points.clone().map(|point| point.estimate.standard_error).collect(),
            n: points.map(|point| point.estimate.n).collect(),
        }
    });
    MetricMeans { metric, arms: arms.collect() }
}
