//! Mean curves of a run's arms. Means are cached until the run's files change, because pages
//! request them every few seconds.

use std::collections::HashMap;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use axum::response::Response;
use fedbo_report::{
    Clusters, FigureSpec, Metric, RESULTS_FILE, ResultsTail, Row, SUMMARY_FILE, curves,
};
use serde::Serialize;

use super::request::Asked;
use super::{Stamp, folder, stamp};
use crate::answers::typed;
use fedbo_documents::trial_record::SCHEMA_VERSION;

/// Maximum size in bytes of a results file for computing means. The computation needs about seven
/// times as much memory.
const RESULTS_BYTES: u64 = 128 << 20;
/// Maximum number of runs with cached means.
const RUNS: usize = 16;

/// Mean curves of the arms, by metric.
#[derive(Serialize)]
struct Means {
    schema_version: u32,
    metrics: Vec<MetricMeans>,
    /// The reason why there are no means.
    too_large: Option<String>,
}

/// Mean of a metric over repetitions, each averaged over its agents, with one standard error.
#[derive(Serialize)]
struct MetricMeans {
    metric: Metric,
    /// Label of the vertical axis, if the run's file names the value.
    label: Option<String>,
    arms: Vec<ArmMeans>,
}

/// Mean curve of one arm: iterations, means, standard errors, and the number of values per mean.
#[derive(Serialize)]
struct ArmMeans {
    arm: String,
    /// Descriptive label of the arm.
    label: String,
    iterations: Vec<i64>,
    means: Vec<f64>,
    standard_errors: Vec<Option<f64>>,
    n: Vec<usize>,
}

/// Cached means, by run.
#[derive(Default)]
pub(super) struct Computed(Mutex<HashMap<PathBuf, Kept>>);

/// Cached means of a run, as JSON.
struct Kept {
    /// Stamps of the run's results and summary.
    of: [Option<Stamp>; 2],
    means: Bytes,
}

impl Computed {
    /// Returns the means of the run in a folder as JSON.
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
                "{RESULTS_FILE} has {} MB; means are drawn here for at most {} MB; use fedbo plot for this folder",
                n_bytes >> 20,
                RESULTS_BYTES >> 20
            );
            return Ok(Self {
                schema_version: SCHEMA_VERSION,
                metrics: Vec::new(),
                too_large: Some(message),
            });
        }
        let summary = folder::summary(folder).ok().flatten();
        let clusters = summary.as_ref().map_or(Clusters::Runs, |summary| summary.clusters);
        let figure = folder::figure(folder, summary.as_ref());
        let rows = ResultsTail::new(folder).more()?.unwrap_or_default();
        let mut metrics = vec![Metric::Regret, Metric::Best];
        if let Some(metric) = summary.map(|summary| summary.metric) {
            metrics.retain(|other| *other != metric);
            metrics.insert(0, metric);
        }
        let metrics =
            metrics.into_iter().map(|metric| metric_means(&rows, metric, clusters, &figure));
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

fn metric_means(
    rows: &[Row],
    metric: Metric,
    clusters: Clusters,
    figure: &FigureSpec,
) -> MetricMeans {
    let arms = curves(rows, metric, clusters).into_iter().map(|curve| {
        let points = curve.points.iter();
        ArmMeans {
            label: figure.arm_label(&curve.arm),
            arm: curve.arm,
            iterations: points.clone().map(|point| point.iteration).collect(),
            means: points.clone().map(|point| point.estimate.mean).collect(),
            standard_errors: points.clone().map(|point| point.estimate.standard_error).collect(),
            n: points.map(|point| point.estimate.n).collect(),
        }
    });
    let label = (metric == Metric::Best && figure.y_label != FigureSpec::default().y_label)
        .then(|| figure.y_label.clone());
    MetricMeans { metric, label, arms: arms.collect() }
}
