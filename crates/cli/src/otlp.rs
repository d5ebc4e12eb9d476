//! Logs to a collector by OTLP over HTTP, as the standard variables say (OTEL_EXPORTER_OTLP_ENDPOINT and its like).

use std::sync::Arc;
use std::time::Duration;

use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{LogExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::{SdkLogger, SdkLoggerProvider};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::exit::BadInput;

/// The time within which a collector has to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Sends what is logged, in batches, from a thread of its own; what is left is sent when it is dropped.
#[derive(Debug)]
pub(crate) struct Collector(SdkLoggerProvider);

impl Drop for Collector {
    fn drop(&mut self) {
        // A collector that is away does not keep the program from ending.
        let _ = self.0.shutdown();
    }
}

/// A layer that sends events to the collector that the environment names.
pub(crate) fn layer()
-> Result<(OpenTelemetryTracingBridge<SdkLoggerProvider, SdkLogger>, Collector), BadInput> {
    let exporter =
        LogExporter::builder().with_http().with_http_client(Client::new()).build().map_err(
            |error| BadInput(format!("OTLP cannot be set up from OTEL_* variables: {error}")),
        )?;
    // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES are read by the library.
    let mut resource = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name("fedbo");
    }
    let provider = SdkLoggerProvider::builder()
        .with_resource(resource.build())
        .with_batch_exporter(exporter)
        .build();
    Ok((OpenTelemetryTracingBridge::new(&provider), Collector(provider)))
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
