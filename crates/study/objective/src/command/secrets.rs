//! Variables of our environment that hold secrets of a party: no command that we start gets them (INV-26).
//!
//! The rest of the environment stays, as commands need PATH, HOME, proxies, devices and settings of their libraries.

use std::ffi::OsStr;
use std::process::Command;

/// The variables that are taken out of the environment of every command, each with the reason.
const SECRETS: &[(&str, &str)] = &[
    ("FEDBO_TOKEN", "takes a slot in a study"),
    ("FEDBO_COORDINATOR_STORE", "may hold the password of the coordinator's database"),
    ("FEDBO_COORDINATOR_KEY", "says where the coordinator's secret key is"),
    ("PGPASSWORD", "password of the database that holds studies"),
    ("PGPASSFILE", "says where passwords of databases are"),
    ("PGSERVICEFILE", "says where addresses of databases with their passwords are"),
    ("PGSSLKEY", "says where the key is by which databases know us"),
    ("PGSSLPASSWORD", "opens that key"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "credentials at the collector of logs"),
    ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "credentials at the collector of logs"),
    ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "credentials at the collector of metrics"),
    ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "credentials at the collector of traces"),
    ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "says where the key is by which the collector knows us"),
    ("OTEL_EXPORTER_OTLP_LOGS_CLIENT_KEY", "says where the key is by which the collector knows us"),
    (
        "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY",
        "says where the key is by which the collector knows us",
    ),
    (
        "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
        "says where the key is by which the collector knows us",
    ),
];

/// Returns true if a variable of the environment is kept from the commands that we start.
#[must_use]
pub fn is_secret(variable: &OsStr) -> bool {
    SECRETS.iter().any(|(name, _)| variable == *name)
}

/// Takes our secrets out of the environment that a command will have.
pub(super) fn remove_secrets(command: &mut Command) {
    for (name, _) in SECRETS {
        command.env_remove(name);
    }
}
