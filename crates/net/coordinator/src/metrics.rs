//! Metrics for operators. Every value is public, or derived from released data (INV-4);
//! docs/operations.md has the allow-list.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fedbo_transport::ConnectionCounts;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Bucket bounds of the duration histograms in seconds. They start at 0.1 ms and double.
pub const SECONDS: [f64; 19] = {
    let mut bounds = [1e-4; 19];
    let mut index = 1;
    while index < bounds.len() {
        bounds[index] = 2.0 * bounds[index - 1];
        index += 1;
    }
    bounds
};

type Labels = Vec<(&'static str, String)>;

/// Additional sink for a service's metrics, for example a collector. The sink receives the same
/// values as `GET /metrics` reports.
pub trait Recorder: Debug + Send + Sync {
    /// Receives the counts of open and refused connections, which can be read at any time.
    fn connections(&self, counts: &ConnectionCounts);
    /// Called after the response to a request. `took` is `None` for a long poll.
    fn request(&self, route: &'static str, status: u16, took: Option<Duration>);
    /// Called with a study's current round when it begins or becomes known.
    fn round(&self, study: &str, round: u64);
    /// Called when a release and its charge have become durable.
    fn committed(&self, study: &str, took: Duration);
    /// Called with `true` when a study that should run is stalled, and with `false` when it no
    /// longer is.
    fn stalled(&self, study: &str, stalled: bool);
}

/// All metrics of a service.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    seconds: Family<Labels, Histogram>,
    rounds: Family<Labels, Gauge<u64, AtomicU64>>,
    commits: Family<Labels, Histogram>,
    still: Family<Labels, Gauge<u64, AtomicU64>>,
    /// Open and refused connections.
    pub(crate) connections: ConnectionCounts,
    recorder: Option<Arc<dyn Recorder>>,
}

/// Metrics of one study.
#[derive(Clone, Debug)]
pub(crate) struct StudyMetrics {
    metrics: Arc<Metrics>,
    study: String,
    labels: Labels,
}

impl Metrics {
    pub(crate) fn new(recorder: Option<Arc<dyn Recorder>>) -> Self {
        let mut registry = Registry::with_prefix("fedbo");
        let histogram = || Histogram::new(SECONDS);
        let requests = Family::<Labels, Counter>::default();
        let seconds = Family::<Labels, Histogram>::new_with_constructor(histogram);
        let rounds = Family::<Labels, Gauge<u64, AtomicU64>>::default();
        let commits = Family::<Labels, Histogram>::new_with_constructor(histogram);
        let still = Family::<Labels, Gauge<u64, AtomicU64>>::default();
        let connections = ConnectionCounts::default();
        registry.register("requests", "Requests by route and status", requests.clone());
        registry.register(
            "request_seconds",
            "Time from a request's head to its response, excluding long polls",
            seconds.clone(),
        );
        registry.register("round", "Current round", rounds.clone());
        registry.register(
            "commit_seconds",
            "Time to make a release and its charge durable",
            commits.clone(),
        );
        registry.register(
            "stands_still",
            "1 while a study that should run is stalled; the log has the reason",
            still.clone(),
        );
        registry.register("connections", "Open connections", connections.open.clone());
        registry.register(
            "connections_refused",
            "Connections closed because too many were open",
            connections.refused.clone(),
        );
        if let Some(recorder) = &recorder {
            recorder.connections(&connections);
        }
        Self { registry, requests, seconds, rounds, commits, still, connections, recorder }
    }

    /// Counts a request. `took` is `None` for a long poll.
    pub(crate) fn request(&self, route: &'static str, status: u16, took: Option<Duration>) {
        let labels = vec![("route", route.to_owned()), ("status", status.to_string())];
        self.requests.get_or_create(&labels).inc();
        if let Some(took) = took {
            let labels = vec![("route", route.to_owned())];
            self.seconds.get_or_create(&labels).observe(took.as_secs_f64());
        }
        if let Some(recorder) = &self.recorder {
            recorder.request(route, status, took);
        }
    }

    /// Returns all metrics as text in the OpenMetrics format.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a `String` does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl StudyMetrics {
    pub(crate) fn new(metrics: Arc<Metrics>, study: &str) -> Self {
        let labels = vec![("study", study.to_owned())];
        Self { metrics, study: study.to_owned(), labels }
    }

    pub(crate) fn round(&self, round: u64) {
        self.metrics.rounds.get_or_create(&self.labels).set(round);
        if let Some(recorder) = &self.metrics.recorder {
            recorder.round(&self.study, round);
        }
    }

    /// Sets the gauge that shows whether the study is stalled.
    pub(crate) fn stalled(&self, stalled: bool) {
        self.metrics.still.get_or_create(&self.labels).set(stalled.into());
        if let Some(recorder) = &self.metrics.recorder {
            recorder.stalled(&self.study, stalled);
        }
    }

    pub(crate) fn committed(&self, took: Duration) {
        self.metrics.commits.get_or_create(&self.labels).observe(took.as_secs_f64());
        if let Some(recorder) = &self.metrics.recorder {
            recorder.committed(&self.study, took);
        }
    }
}
