//! Metrics for operators. Every number is public or post-processing; docs/operations.md has the allow-list (INV-4).

use fedbo_transport::ConnectionCounts;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

type Labels = Vec<(&'static str, String)>;

/// All metrics of a service.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    seconds: Family<Labels, Histogram>,
    rounds: Family<Labels, Gauge<u64, AtomicU64>>,
    commits: Family<Labels, Histogram>,
    still: Family<Labels, Gauge<u64, AtomicU64>>,
    /// Connections of all kinds.
    pub(crate) connections: ConnectionCounts,
}

/// Those of one study.
#[derive(Clone, Debug)]
pub(crate) struct StudyMetrics {
    metrics: Arc<Metrics>,
    labels: Labels,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("fedbo");
        // From 0.1 ms to 26 s.
        let histogram = || Histogram::new(exponential_buckets(1e-4, 2.0, 19));
        let requests = Family::<Labels, Counter>::default();
        let seconds = Family::<Labels, Histogram>::new_with_constructor(histogram);
        let rounds = Family::<Labels, Gauge<u64, AtomicU64>>::default();
        let commits = Family::<Labels, Histogram>::new_with_constructor(histogram);
        let still = Family::<Labels, Gauge<u64, AtomicU64>>::default();
        let connections = ConnectionCounts::default();
        registry.register("requests", "Requests by route and status", requests.clone());
        registry.register(
            "request_seconds",
            "Time from a request's head to its answer, long polls left out",
            seconds.clone(),
        );
        registry.register("round", "Round that is being played", rounds.clone());
        registry.register(
            "commit_seconds",
            "Time to make a release and its charge durable",
            commits.clone(),
        );
        registry.register(
            "stands_still",
            "1 while a study that should run cannot; the log says why",
            still.clone(),
        );
        registry.register("connections", "Open connections", connections.open.clone());
        registry.register(
            "connections_refused",
            "Connections closed because too many were open",
            connections.refused.clone(),
        );
        Self { registry, requests, seconds, rounds, commits, still, connections }
    }

    /// Counts a request; `took` is none for a long poll.
    pub(crate) fn request(&self, route: &'static str, status: u16, took: Option<Duration>) {
        let labels = vec![("route", route.to_owned()), ("status", status.to_string())];
        self.requests.get_or_create(&labels).inc();
        if let Some(took) = took {
            let labels = vec![("route", route.to_owned())];
            self.seconds.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }

    /// All of them as text, in OpenMetrics' form.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl StudyMetrics {
    pub(crate) fn new(metrics: Arc<Metrics>, study: &str) -> Self {
        Self { metrics, labels: vec![("study", study.to_owned())] }
    }

    pub(crate) fn round(&self, round: u64) {
        self.metrics.rounds.get_or_create(&self.labels).set(round);
    }

    /// Sets the gauge that says whether the study cannot go on.
    pub(crate) fn stands_still(&self, stands_still: bool) {
        let gauge = self.metrics.still.get_or_create(&self.labels);
        gauge.set(stands_still.into());
    }

    pub(crate) fn committed(&self, took: Duration) {
        let histogram = self.metrics.commits.get_or_create(&self.labels);
        histogram.observe(took.as_secs_f64());
    }
}
