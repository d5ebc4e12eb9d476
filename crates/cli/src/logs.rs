//! Logs on standard error: of the programs that run for long, as text or as JSON, and of any command with `--verbose`.

use std::sync::atomic::{AtomicU8, Ordering};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
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
        let (collector, logs) = collector()?;
        let registry = tracing_subscriber::registry().with(filter).with(collector);
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(ProgressWriter)
            .with_ansi(crate::console::stderr_is_coloured());
        let installed = match self.log_format {
            LogFormat::Text => registry.with(layer).try_init(),
            LogFormat::Json => registry.with(layer.json()).try_init(),
        };
        installed.map_err(|error| BadInput(format!("logs cannot be written: {error}")))?;
        Ok(logs)
    }
}

/// Returns true if the environment names a collector of logs.
fn is_collected() -> bool {
    let variables = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"];
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    variables.into_iter().any(is_set)
}

/// The log of this process: while it is kept, what is logged is sent.
#[derive(Debug)]
pub(crate) struct Logs {
    #[cfg(feature = "otlp")]
    _collector: Option<crate::otlp::Collector>,
}

#[cfg(feature = "otlp")]
fn collector<S>() -> Result<(Option<impl tracing_subscriber::Layer<S>>, Logs), BadInput>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    let (layer, collector) = match is_collected() {
        true => crate::otlp::layer().map(|(layer, collector)| (Some(layer), Some(collector)))?,
        false => (None, None),
    };
    let logs = Logs { _collector: collector };
    Ok((layer, logs))
}

#[cfg(not(feature = "otlp"))]
fn collector() -> Result<(tracing_subscriber::layer::Identity, Logs), BadInput> {
    if is_collected() {
        crate::console::note(
            "warning: OTEL_* variables name a collector, and this program is built without OTLP (cargo build --features otlp)",
        );
    }
    Ok((tracing_subscriber::layer::Identity::new(), Logs {}))
}
