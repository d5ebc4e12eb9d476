//! The table that a study's trials are exported to, and read back from by another study.

use fedbo_space::{Parameter, Space};

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
pub(crate) const PARAMETER_PREFIX: &str = "parameter.";

/// The column that an export has for a parameter: its name, with a prefix as often as the name is taken.
pub fn export_column(parameter: &str, space: &Space) -> String {
    let is_taken = |name: &str| {
        let mut others = space.parameters().iter().map(Parameter::name);
        EXPORT_COLUMNS.contains(&name) || (name != parameter && others.any(|other| other == name))
    };
    let mut name = parameter.to_owned();
    while is_taken(&name) {
        name.insert_str(0, PARAMETER_PREFIX);
    }
    name
}
