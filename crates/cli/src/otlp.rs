//! Exports logs, metrics and traces with OTLP over HTTP. The standard environment variables
//! (`OTEL_EXPORTER_OTLP_ENDPOINT` and others) configure it.
//!
//! Only data on the allow-list in docs/operations.md is exported (INV-4).

use std::sync::Arc;
use std::time::Duration;

use fedbo_coordinator::{Recorder, SECONDS, SPANS};
use fedbo_transport::{ConnectionCounts, ProxySetting, proxy_for};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter, MeterProvider as _};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, MetricExporter, SpanExporter, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{EnvFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::logs::{Signal, is_collected};
use fedbo_console::BadInput;

/// Timeout of a request to the collector.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum size of a response body in bytes.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Name of the instrumentation scope.
const SCOPE: &str = "fedbo";

/// Exports logs, metrics and traces in batches on background threads. Dropping it flushes pending
/// data.
#[derive(Debug)]
pub(crate) struct Collector {
    logs: Option<SdkLoggerProvider>,
    metrics: Option<SdkMeterProvider>,
    traces: Option<SdkTracerProvider>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        // An unreachable collector delays the exit by a few seconds. The three shutdowns run in
        // parallel so that this delay occurs only once.
        let Self { logs, metrics, traces } = self;
        let (logs, metrics, traces) = (logs.take(), metrics.take(), traces.take());
        let ends: [Box<dyn FnOnce() + Send>; 3] = [
            Box::new(move || drop(traces.map(|traces| traces.shutdown()))),
            Box::new(move || drop(metrics.map(|metrics| metrics.shutdown()))),
            Box::new(move || drop(logs.map(|logs| logs.shutdown()))),
        ];
        // If a thread cannot be started, pending data of its signal may be lost.
        let ends = ends.map(|end| std::thread::Builder::new().spawn(end).ok());
        for end in ends.into_iter().flatten() {
            let _ = end.join(); // an exporter that panicked has nothing more to send
        }
    }
}

impl Collector {
    /// Creates exporters for the signals that the environment enables.
    pub(crate) fn new() -> Result<Self, BadInput> {
        let refused = |error: ExporterBuildError| {
            BadInput(format!("OTLP cannot be set up from OTEL_* variables: {error}"))
        };
        let (client, resource) = (Client::new(), resource());
        let mut made = Self { logs: None, metrics: None, traces: None };
        if is_collected(Signal::Logs) {
            let exporter = LogExporter::builder().with_http().with_http_client(client.clone());
            let provider = SdkLoggerProvider::builder().with_resource(resource.clone());
            let provider = provider.with_batch_exporter(exporter.build().map_err(refused)?);
            made.logs = Some(provider.build());
        }
        if is_collected(Signal::Metrics) {
            let exporter = MetricExporter::builder().with_http().with_http_client(client.clone());
            let provider = SdkMeterProvider::builder().with_resource(resource.clone());
            let provider = provider.with_periodic_exporter(exporter.build().map_err(refused)?);
            made.metrics = Some(provider.build());
        }
        if is_collected(Signal::Traces) {
            let exporter = SpanExporter::builder().with_http().with_http_client(client);
            let provider = SdkTracerProvider::builder().with_resource(resource);
            let provider = provider.with_batch_exporter(exporter.build().map_err(refused)?);
            made.traces = Some(provider.build());
        }
        Ok(made)
    }

    /// Returns a layer that exports the service's spans and the events that pass the filter
    /// `events`.
    pub(crate) fn layer<S>(&self, events: EnvFilter) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let spans = filter_fn(|each| each.is_span() && each.target() == SPANS);
        let logs = self.logs.as_ref().map(|logs| {
            OpenTelemetryTracingBridge::new(logs).with_filter(crate::logs::only_events(events))
        });
        let traces = self.traces.as_ref().map(|traces| {
            // Disable the attributes that the library adds by default, such as source locations,
            // threads and idle times.
            let layer = tracing_opentelemetry::layer()
                .with_tracer(traces.tracer(SCOPE))
                .with_location(false);
            let layer = layer.with_threads(false).with_target(false).with_context_activation(false);
            layer.with_tracked_inactivity(false).with_level(false).with_filter(spans)
        });
        Layer::and_then(traces, logs)
    }

    /// Returns a recorder that exports a service's metrics, or `None` if metrics are not exported.
    pub(crate) fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        let metrics = self.metrics.as_ref()?;
        Some(Arc::new(Instruments::new(&metrics.meter(SCOPE))))
    }
}

/// Returns the resource attributes of this process. The builder itself reads `OTEL_SERVICE_NAME`
/// and `OTEL_RESOURCE_ATTRIBUTES`.
fn resource() -> Resource {
    let mut resource = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name("fedbo");
    }
    resource.build()
}

/// Metrics of a coordinator. A collector that forwards them to Prometheus gives them the same names
/// as `GET /metrics`.
#[derive(Debug)]
struct Instruments {
    meter: Meter,
    requests: Counter<u64>,
    seconds: Histogram<f64>,
    rounds: Gauge<u64>,
    commits: Histogram<f64>,
    still: Gauge<u64>,
}

impl Instruments {
    fn new(meter: &Meter) -> Self {
        let seconds = |name| {
            meter.f64_histogram(name).with_unit("s").with_boundaries(SECONDS.to_vec()).build()
        };
        Self {
            requests: meter.u64_counter("fedbo.requests").build(),
            seconds: seconds("fedbo.request_seconds"),
            rounds: meter.u64_gauge("fedbo.round").build(),
            commits: seconds("fedbo.commit_seconds"),
            still: meter.u64_gauge("fedbo.stands_still").build(),
            meter: meter.clone(),
        }
    }
}

impl Recorder for Instruments {
    fn connections(&self, counts: &ConnectionCounts) {
        let (open, refused) = (counts.open.clone(), counts.refused.clone());
        self.meter
            .i64_observable_gauge("fedbo.connections")
            .with_callback(move |observer| observer.observe(open.get(), &[]))
            .build();
        self.meter
            .u64_observable_counter("fedbo.connections_refused")
            .with_callback(move |observer| observer.observe(refused.get(), &[]))
            .build();
    }

    fn request(&self, route: &'static str, status: u16, took: Option<Duration>) {
        let route = KeyValue::new("route", route);
        self.requests.add(1, &[route.clone(), KeyValue::new("status", status.to_string())]);
        if let Some(took) = took {
            self.seconds.record(took.as_secs_f64(), &[route]);
        }
    }

    fn round(&self, study: &str, round: u64) {
        self.rounds.record(round, &[of_study(study)]);
    }

    fn committed(&self, study: &str, took: Duration) {
        self.commits.record(took.as_secs_f64(), &[of_study(study)]);
    }

    fn stalled(&self, study: &str, stalled: bool) {
        self.still.record(stalled.into(), &[of_study(study)]);
    }
}

fn of_study(study: &str) -> KeyValue {
    KeyValue::new("study", study.to_owned())
}

/// Sends exports with `ureq`, the HTTP client library that agents also use.
#[derive(Clone, Debug)]
struct Client(Arc<ureq::Agent>);

impl Client {
    fn new() -> Self {
        let provider = rustls::crypto::ring::default_provider();
        let system = rustls_native_certs::load_native_certs();
        let roots = system.certs.iter();
        let roots: Vec<_> = roots.map(|der| Certificate::from_der(der).to_owned()).collect();
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(provider))
            .root_certs(RootCerts::new_with_certs(&roots))
            .build();
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .tls_config(tls)
            .build();
        Self(Arc::new(config.new_agent()))
    }
}

#[async_trait::async_trait]
impl HttpClient for Client {
    /// Blocks the calling thread, which is the background thread of one exporter.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let proxy = proxy_for(&head.uri.to_string(), &ProxySetting::Environment)?;
        let request = Request::from_parts(head, body.to_vec());
        let request = self.0.configure_request(request).proxy(proxy).build();
        let answer = self.0.run(request)?;
        let (head, mut body) = answer.into_parts();
        let body = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
        Ok(Response::from_parts(head, Bytes::from(body)))
    }
}
