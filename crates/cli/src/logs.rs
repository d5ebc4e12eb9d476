//! Logs on standard error: of the programs that run for long, as text or as JSON, and of any command with `--verbose`.

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

use crate::exit::BadInput;

/// The form and the filter of logs.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct LogOptions {
    /// Form of the log on standard error
    #[arg(long, value_name = "FORM", default_value = "text")]
    log_format: LogFormat,
    /// Level of the log: error, warn, info, debug or trace, or a filter such as fedbo=debug,info [default:
    /// info; warn with --quiet, debug with --verbose, trace with -vv]
    #[arg(long, value_name = "FILTER", env = "FEDBO_LOG")]
    log: Option<String>,
}

/// The number of times that `--verbose` was given.
static VERBOSITY: AtomicU8 = AtomicU8::new(0);

/// Notes how often `--verbose` was given.
pub(crate) fn set_verbosity(n: u8) {
    VERBOSITY.store(n, Ordering::Relaxed);
}

/// The level that `--quiet` and `--verbose` ask for.
fn level() -> &'static str {
    match (crate::console::is_quiet(), VERBOSITY.load(Ordering::Relaxed)) {
        (true, _) => "warn",
        (false, 0) => "info",
        (false, 1) => "debug",
        (false, _) => "trace",
    }
}

/// Logs for a command without options of its own for them, if `--verbose` was given. To be kept until the end.
pub(crate) fn install_verbose() -> Result<Option<Logs>, BadInput> {
    if VERBOSITY.load(Ordering::Relaxed) == 0 {
        return Ok(None);
    }
    let options = LogOptions {
        log_format: LogFormat::Text,
        // A target is every crate whose name begins so.
        log: Some(format!("fedbo={}", level())),
    };
    options.install().map(Some)
}

/// Lines of the log, written above progress bars.
struct ProgressWriter;

impl std::io::Write for ProgressWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        crate::console::BARS.suspend(|| std::io::stderr().lock().write(bytes))
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

/// The form of a log.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum LogFormat {
    /// One line a message
    Text,
    /// One JSON object a line
    Json,
}

impl LogOptions {
    /// Begins to log; to be called once. What is returned is to be kept until the end.
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
            .with_ansi(crate::console::stderr_is_coloured());
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

/// Lets the events of a filter through, and no spans: those are for a collector of traces.
pub(crate) fn only_events<S>(filter: EnvFilter) -> impl Filter<S> {
    filter.and(filter_fn(|each| each.is_event()))
}

/// A kind of what a collector takes.
#[derive(Clone, Copy)]
pub(crate) enum Signal {
    Logs,
    Metrics,
    Traces,
}

/// Returns true if the environment names a collector of this kind, and does not turn it off.
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

/// The log of this process: while it is kept, what is logged is sent.
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

    /// The way of a coordinator's metrics to a collector, if the environment names one.
    pub(crate) fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        self.collector.recorder()
    }
}

#[cfg(not(feature = "otlp"))]
#[expect(
    clippy::unused_self,
    reason = "it has something to say where the program is built with OTLP"
)]
impl Logs {
    #[expect(clippy::unnecessary_wraps, reason = "the same")]
    fn new() -> Result<Self, BadInput> {
        if [Signal::Logs, Signal::Metrics, Signal::Traces].into_iter().any(is_collected) {
            crate::console::note(
                "warning: OTEL_* variables name a collector, and this program is built without OTLP (cargo build --features otlp)",
            );
        }
        Ok(Self {})
    }

    fn layer(&self, _: EnvFilter) -> Identity {
        Identity::new()
    }

    /// The way of a coordinator's metrics to a collector: none.
    pub(crate) fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        None
    }
}
