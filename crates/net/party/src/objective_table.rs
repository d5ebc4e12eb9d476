//! `[objective]` of a party's file: the command that it tunes.

use std::path::PathBuf;

use fedbo_config::{Check, CommandKeys, FileError, TomlFile};
use fedbo_objective::CommandSpec;
use fedbo_space::Space;
use serde::Deserialize;

/// `[objective]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ObjectiveTable {
    /// The program and its arguments; `{x}` stands for the value of parameter x.
    pub command: Option<Vec<String>>,
    /// Seconds that a trial may take; none for no limit.
    pub timeout_s: Option<f64>,
    /// The command's working directory, relative to the file's folder, which is also the default.
    pub directory: Option<PathBuf>,
}

impl ObjectiveTable {
    /// The command that evaluates a point of this space.
    ///
    /// # Errors
    /// If there is none, its program is not there, or a placeholder names no parameter.
    pub fn command(&self, file: &TomlFile, space: &Space) -> Result<CommandSpec, FileError> {
        let Some(command) = &self.command else {
            let remedy = "add [objective] with command = [\"program\", \"argument\", ..], whose last line of output is the value";
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
