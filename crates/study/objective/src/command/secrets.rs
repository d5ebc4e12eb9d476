//! Environment variables with secrets, which are removed from the environment of commands (INV-26).
//!
//! All other variables are kept: commands need PATH, HOME, proxies, devices and the settings of
//! their libraries.

use std::ffi::OsStr;
use std::process::Command;

/// Variables removed from every command's environment, each with the reason.
const SECRETS: &[(&str, &str)] = &[
    ("FEDBO_TOKEN", "takes a slot in a study"),
    ("FEDBO_WORKER_TOKEN", "asks and tells at a server of trials"),
    ("FEDBO_COORDINATOR_STORE", "may hold the password of the coordinator's database"),
    ("FEDBO_COORDINATOR_KEY", "path of the coordinator's secret key"),
    ("PGPASSWORD", "password of the database that holds studies"),
    ("PGPASSFILE", "path of a file with passwords of databases"),
    ("PGSERVICEFILE", "path of a file with addresses and passwords of databases"),
    ("PGSSLKEY", "path of our client key for databases"),
    ("PGSSLPASSWORD", "passphrase of that key"),
    ("MLFLOW_TRACKING_USERNAME", "credentials for MLflow"),
    ("MLFLOW_TRACKING_PASSWORD", "credentials for MLflow"),
    ("MLFLOW_TRACKING_TOKEN", "credentials for MLflow"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "credentials for the collector of logs"),
    ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "credentials for the collector of logs"),
    ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "credentials for the collector of metrics"),
    ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "credentials for the collector of traces"),
    ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "path of our client key for the collector"),
    ("OTEL_EXPORTER_OTLP_LOGS_CLIENT_KEY", "path of our client key for the collector"),
    ("OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY", "path of our client key for the collector"),
    ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "path of our client key for the collector"),
];

/// Returns true if an environment variable is withheld from commands.
#[must_use]
pub fn is_secret(variable: &OsStr) -> bool {
    SECRETS.iter().any(|(name, _)| variable == *name)
}

/// Removes fedbo's secrets from a command's environment.
pub(super) fn remove_secrets(command: &mut Command) {
    for (name, _) in SECRETS {
        command.env_remove(name);
    }
}
