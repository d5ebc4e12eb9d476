//! The table that a study's trials are exported to, and read back from by another study.

/// Columns before those of the parameters.
pub const EXPORT_COLUMNS: [&str; 12] = [
    "number",
    "state",
    "source",
    "value",
    "failure",
    "attempts",
    "asked_at",
    "started_at",
    "told_at",
    "ask_seconds",
    "evaluate_seconds",
    "trained_epochs",
];

/// The prefix of a parameter's column, repeated as often as it takes, if the parameter's name is taken.
pub const PARAMETER_PREFIX: &str = "parameter.";
