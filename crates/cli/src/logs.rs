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
    /// Begins to log; to be called once.
    pub(crate) fn install(&self) -> Result<(), BadInput> {
        let filter = EnvFilter::try_new(&self.log)
            .map_err(|error| BadInput(format!("--log {:?}: {error}", self.log)))?;
        let registry = tracing_subscriber::registry().with(filter);
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal());
        let installed = match self.log_format {
            LogFormat::Text => registry.with(layer).try_init(),
            LogFormat::Json => registry.with(layer.json()).try_init(),
        };
        installed.map_err(|error| BadInput(format!("logs cannot be written: {error}")))
    }
}
