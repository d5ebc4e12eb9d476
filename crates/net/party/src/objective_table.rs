//! The table `[objective]` of a party's file, which names the command to tune.

use std::path::PathBuf;

use fedbo_config::{Check, CommandKeys, FileError, TomlFile};
use fedbo_objective::CommandSpec;
use fedbo_space::Space;
use serde::Deserialize;

/// The table `[objective]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ObjectiveTable {
    /// The program and its arguments. `{x}` is replaced by the value of parameter x.
    pub command: Option<Vec<String>>,
    /// Timeout of a trial in seconds, or `None` for no limit.
    pub timeout_s: Option<f64>,
    /// Working directory of the command, relative to the file's folder. Defaults to that folder.
    pub directory: Option<PathBuf>,
}

impl ObjectiveTable {
    /// Returns the command that evaluates a point of this space.
    ///
    /// # Errors
    /// If there is no command, its program does not exist, or a placeholder is not a parameter.
    pub fn command(&self, file: &TomlFile, space: &Space) -> Result<CommandSpec, FileError> {
        let Some(command) = &self.command else {
            let remedy = "add [objective] with command = [\"program\", \"argument\", ..]; the last line of its output is the value";
            return Err(file.missing_error(&["objective", "command"], remedy));
        };
        let keys = CommandKeys {
            command,
            directory: self.directory.as_deref(),
            timeout_s: self.timeout_s,
        };
        Check::new(file).command(&["objective"], "", keys, space)
    }
}
