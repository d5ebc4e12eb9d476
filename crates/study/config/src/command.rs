//! A command that evaluates an objective, and its time limit.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fedbo_objective::{CommandSpec, Placeholder, Program};
use fedbo_space::Space;

use super::check::Check;
use super::toml_file::{FileError, format_key_path};

/// The keys of a table that declares a command.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandKeys<'a> {
    /// `command`: the program and its arguments; `{x}` is replaced by the value of parameter x.
    pub command: &'a [String],
    /// `directory`: the command's working directory, relative to the folder of the file, which is
    /// the default.
    pub directory: Option<&'a Path>,
    /// `timeout_s`: maximum duration of a trial in seconds; no limit if absent.
    pub timeout_s: Option<f64>,
}

impl Check<'_> {
    /// Returns the time limit, or `None` if it is absent.
    ///
    /// # Errors
    /// Fails if the limit is not above 0 or is too long to be represented.
    pub fn timeout(
        &self,
        path: &[&str],
        given: Option<f64>,
    ) -> Result<Option<Duration>, FileError> {
        let Some(seconds) = given else {
            return Ok(None);
        };
        let usable = seconds > 0.0 && Duration::try_from_secs_f64(seconds).is_ok();
        if !usable {
            let expected = "a number of seconds above 0 (leave the key out for no limit)";
            return Err(self.file.value_error(path, expected));
        }
        // At least one nanosecond, since zero would mean that no time is left.
        Ok(Some(Duration::from_secs_f64(seconds).max(Duration::from_nanos(1))))
    }

    /// Returns the command declared by the keys `command`, `directory` and `timeout_s` of a table,
    /// validated against the space and the installed programs.
    ///
    /// Error messages start with `owner` (`agent "north"`), or with the table if `owner` is empty.
    ///
    /// # Errors
    /// Fails if the program does not exist, a placeholder does not match a parameter, text would
    /// be run as code (INV-24), the directory is not a directory, or the time limit is not above 0.
    pub fn command(
        &self,
        table: &[&str],
        owner: &str,
        given: CommandKeys<'_>,
        space: &Space,
    ) -> Result<CommandSpec, FileError> {
        self.program(table, owner, given, &Placeholder::of(space))
    }

    /// Same as [`Check::command`], for a command with the given placeholders.
    ///
    /// # Errors
    /// Same as [`Check::command`].
    pub fn program(
        &self,
        table: &[&str],
        owner: &str,
        given: CommandKeys<'_>,
        placeholders: &[Placeholder],
    ) -> Result<CommandSpec, FileError> {
        let at = |key| [table, &[key]].concat();
        let timeout = self.timeout(&at("timeout_s"), given.timeout_s)?;
        let folder = self.file.folder();
        let directory = given.directory.map(|own| folder.join(own));
        let spec = CommandSpec {
            argv: given.command.to_vec(),
            directory: Some(directory.unwrap_or_else(|| folder.to_owned())),
            timeout,
        };
        let checked = Program::new(&spec, placeholders, Arc::new(AtomicBool::new(false)));
        checked.map(|_| spec).map_err(|error| {
            let text = error.to_string();
            let text = text.strip_prefix("objective.").unwrap_or(&text);
            let message = match (owner, table) {
                ("", []) => text.to_owned(),
                ("", table) => format!("{}.{text}", format_key_path(table)),
                (owner, _) => format!("{owner}: {text}"),
            };
            self.file.error(&at("command"), message)
        })
    }
}
