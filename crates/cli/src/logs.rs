//! Logs of the programs that run for long: to standard error, as text or as JSON.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::exit::BadInput;

/// How logs look.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct LogOptions {
    /// Form of the log on standard error
    #[arg(long, value_name = "FORM", default_value = "text")]
    log_format: LogFormat,
    /// What is logged: error, warn, info, debug or trace, or a filter such as fedbo_coordinator=debug,info
    #[arg(long, value_name = "FILTER", env = "FEDBO_LOG", default_value = "info")]
    log: String,
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
        let filter = EnvFilter::try_new(&self.log)
            .map_err(|error| BadInput(format!("--log {:?}: {error}", self.log)))?;
        let (collector, logs) = collector()?;
        let registry = tracing_subscriber::registry().with(filter).with(collector);
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal());
        let installed = match self.log_format {
            LogFormat::Text => registry.with(layer).try_init(),
            LogFormat::Json => registry.with(layer.json()).try_init(),
        };
        installed.map_err(|error| BadInput(format!("logs cannot be written: {error}")))?;
        Ok(logs)
    }
}

/// Whether the environment names a collector of logs.
fn is_collected() -> bool {
    let variables = [
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    ];
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
    let logs = Logs {
        _collector: collector,
    };
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
