//! Logs, metrics and traces to a collector by OTLP over HTTP, as the standard variables say (OTEL_EXPORTER_OTLP_ENDPOINT and its like).
//!
//! All that is sent stands on the allow-list of docs/operations.md (INV-4).

use std::sync::Arc;
use std::time::Duration;

use fedbo_coordinator::{Recorder, SECONDS, SPANS};
use fedbo_transport::ConnectionCounts;
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

use crate::exit::BadInput;
use crate::logs::{Signal, is_collected};

/// The time within which a collector has to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// The name of what is instrumented.
const SCOPE: &str = "fedbo";

/// Sends what is logged, measured and traced, in batches, from threads of its own; what is left is sent when it is dropped.
#[derive(Debug)]
pub(crate) struct Collector {
    logs: Option<SdkLoggerProvider>,
    metrics: Option<SdkMeterProvider>,
    traces: Option<SdkTracerProvider>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        // A collector that is away keeps the program from ending for some seconds, once and not for each signal.
        let Self { logs, metrics, traces } = self;
        let (logs, metrics, traces) = (logs.take(), metrics.take(), traces.take());
        let ends: [Box<dyn FnOnce() + Send>; 3] = [
            Box::new(move || drop(traces.map(|traces| traces.shutdown()))),
            Box::new(move || drop(metrics.map(|metrics| metrics.shutdown()))),
            Box::new(move || drop(logs.map(|logs| logs.shutdown()))),
        ];
        // Where no thread can be started, what is left is not sent.
        let ends = ends.map(|end| std::thread::Builder::new().spawn(end).ok());
        for end in ends.into_iter().flatten() {
            let _ = end.join(); // an exporter that panicked has nothing more to send
        }
    }
}

impl Collector {
    /// The collector that the environment names, for the signals that it asks for.
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

    /// Layers that send the events that pass a filter, and the spans of the service.
    pub(crate) fn layer<S>(&self, events: EnvFilter) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let spans = filter_fn(|each| each.is_span() && each.target() == SPANS);
        let logs = self.logs.as_ref().map(|logs| {
            OpenTelemetryTracingBridge::new(logs).with_filter(crate::logs::only_events(events))
        });
        let traces = self.traces.as_ref().map(|traces| {
            // What a library adds by itself is left out: places in the source, threads, times of waiting.
            let layer = tracing_opentelemetry::layer()
                .with_tracer(traces.tracer(SCOPE))
                .with_location(false);
            let layer = layer.with_threads(false).with_target(false).with_context_activation(false);
            layer.with_tracked_inactivity(false).with_level(false).with_filter(spans)
        });
        Layer::and_then(traces, logs)
    }

    /// The way of a service's metrics to the collector, if it takes any.
    pub(crate) fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        let metrics = self.metrics.as_ref()?;
        Some(Arc::new(Instruments::new(&metrics.meter(SCOPE))))
    }
}

/// The names of this process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES are read by the library.
fn resource() -> Resource {
    let mut resource = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name("fedbo");
    }
    resource.build()
}

/// The metrics of a coordinator. A collector that writes them for Prometheus gives them the names of `GET /metrics`.
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

    fn stands_still(&self, study: &str, stands_still: bool) {
        self.still.record(stands_still.into(), &[of_study(study)]);
    }
}

fn of_study(study: &str) -> KeyValue {
    KeyValue::new("study", study.to_owned())
}

/// Requests by the HTTP client that agents use.
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
    /// Blocks: it is called from the thread that sends batches, which has nothing else to do.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let answer = self.0.run(Request::from_parts(head, body.to_vec()))?;
        let (head, mut body) = answer.into_parts();
        let body = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
        Ok(Response::from_parts(head, Bytes::from(body)))
    }
}
