//! Logging to standard error: text or JSON for long-running services, and text for any command with
//! `--verbose`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use fedbo_coordinator::Recorder;
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
#[cfg(not(feature = "otlp"))]
use tracing_subscriber::layer::Identity;
use tracing_subscriber::layer::{Filter, Layer, SubscriberExt as _};
#[cfg(feature = "otlp")]
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt as _;

use fedbo_console::BadInput;

/// Options for the format and the filter of the log.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct LogOptions {
    /// Format of the log on standard error
    #[arg(long, value_name = "FORM", default_value = "text")]
    log_format: LogFormat,
    /// Level of the log: error, warn, info, debug or trace, or a filter such as fedbo=debug,info
    /// [default: info; warn with --quiet, debug with --verbose, trace with -vv]
    #[arg(long, value_name = "FILTER", env = "FEDBO_LOG")]
    log: Option<String>,
}

/// Number of times `--verbose` was given.
static VERBOSITY: AtomicU8 = AtomicU8::new(0);

/// Sets the number of times `--verbose` was given.
pub(crate) fn set_verbosity(n: u8) {
    VERBOSITY.store(n, Ordering::Relaxed);
}

/// Returns the log level set by `--quiet` and `--verbose`.
fn level() -> &'static str {
    match (fedbo_console::is_quiet(), VERBOSITY.load(Ordering::Relaxed)) {
        (true, _) => "warn",
        (false, 0) => "info",
        (false, 1) => "debug",
        (false, _) => "trace",
    }
}

/// Starts logging for a command without its own log options if `--verbose` was given. The returned
/// guard must live until the command ends.
pub(crate) fn install_verbose() -> Result<Option<Logs>, BadInput> {
    if VERBOSITY.load(Ordering::Relaxed) == 0 {
        return Ok(None);
    }
    let options = LogOptions {
        log_format: LogFormat::Text,
        // This matches the targets of all crates, since they start with `fedbo`.
        log: Some(format!("fedbo={}", level())),
    };
    options.install().map(Some)
}

/// Writes log lines above progress bars.
struct ProgressWriter;

impl std::io::Write for ProgressWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        fedbo_console::BARS.suspend(|| std::io::stderr().lock().write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().lock().flush()
    }
}

impl MakeWriter<'_> for ProgressWriter {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}

/// Format of a log.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum LogFormat {
    /// One line per message
    Text,
    /// One JSON object per line
    Json,
}

impl LogOptions {
    /// Starts logging. Call this only once, and keep the returned guard alive until the process
    /// exits.
    pub(crate) fn install(&self) -> Result<Logs, BadInput> {
        let log = match &self.log {
            Some(log) => log.as_str(),
            None => level(),
        };
        let filter = EnvFilter::try_new(log).map_err(|error| {
            BadInput(format!(
                "--log {log:?}: {error}; give error, warn, info, debug or trace, or a filter such as fedbo=debug,info"
            ))
        })?;
        let logs = Logs::new()?;
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(ProgressWriter)
            .with_ansi(fedbo_console::stderr_is_coloured());
        let registry = tracing_subscriber::registry().with(logs.layer(filter.clone()));
        let events = only_events(filter);
        let installed = match self.log_format {
            LogFormat::Text => registry.with(layer.with_filter(events)).try_init(),
            LogFormat::Json => registry.with(layer.json().with_filter(events)).try_init(),
        };
        installed.map_err(|error| BadInput(format!("logs cannot be written: {error}")))?;
        Ok(logs)
    }
}

/// Accepts the events that pass `filter`, but no spans, which are only exported as traces.
pub(crate) fn only_events<S>(filter: EnvFilter) -> impl Filter<S> {
    filter.and(filter_fn(|each| each.is_event()))
}

/// An OpenTelemetry signal.
#[derive(Clone, Copy)]
pub(crate) enum Signal {
    Logs,
    Metrics,
    Traces,
}

/// Returns true if the environment configures an OTLP endpoint for this signal and does not disable
/// it.
pub(crate) fn is_collected(signal: Signal) -> bool {
    let name = match signal {
        Signal::Logs => "LOGS",
        Signal::Metrics => "METRICS",
        Signal::Traces => "TRACES",
    };
    let value = |name: &str| std::env::var(name).unwrap_or_default();
    let is_off = value("OTEL_SDK_DISABLED").eq_ignore_ascii_case("true")
        || value(&format!("OTEL_{name}_EXPORTER")).eq_ignore_ascii_case("none");
    let endpoints = ["EXPORTER_OTLP".to_owned(), format!("EXPORTER_OTLP_{name}")];
    let is_named =
        endpoints.into_iter().any(|which| !value(&format!("OTEL_{which}_ENDPOINT")).is_empty());
    is_named && !is_off
}

/// Guard of the process's telemetry. Dropping it flushes and shuts down the OTLP exporters; without
/// OTLP it has no effect.
#[derive(Debug)]
pub(crate) struct Logs {
    #[cfg(feature = "otlp")]
    collector: crate::otlp::Collector,
}

#[cfg(feature = "otlp")]
impl Logs {
    fn new() -> Result<Self, BadInput> {
        Ok(Self { collector: crate::otlp::Collector::new()? })
    }

    fn layer(&self, events: EnvFilter) -> impl Layer<Registry> + Send + Sync + use<> {
        self.collector.layer(events)
    }

    /// Returns a recorder that exports a coordinator's metrics, or `None` if the environment does
    /// not enable their export.
    pub(crate) fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        self.collector.recorder()
    }
}

#[cfg(not(feature = "otlp"))]
#[expect(clippy::unused_self, reason = "it uses `self` if the program is built with OTLP")]
impl Logs {
    #[expect(clippy::unnecessary_wraps, reason = "it can fail if the program is built with OTLP")]
    fn new() -> Result<Self, BadInput> {
        if [Signal::Logs, Signal::Metrics, Signal::Traces].into_iter().any(is_collected) {
            fedbo_console::note(
                "warning: OTEL_* variables name a collector, but this program is built without OTLP (cargo build --features otlp)",
            );
        }
        Ok(Self {})
    }

    fn layer(&self, _: EnvFilter) -> Identity {
        Identity::new()
    }

    /// Returns `None`, because this build cannot export metrics.
    pub(crate) fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        None
    }
}
