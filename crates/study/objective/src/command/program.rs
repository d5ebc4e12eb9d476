//! Programs with templated arguments. They run in a separate process group, with bounded output and
//! running time.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::ops::ControlFlow;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit};

use super::running::{Finished, Running, TICK};
use super::secrets::remove_secrets;
use super::template::{Piece, Placeholder, filled, find_program, templates};
use super::training_output::{last_chars, last_line};
use super::{CommandError, CommandSpec};
use crate::Failure;

/// Number of characters of standard error that a failure keeps.
const STDERR_CHARS: usize = 400;
/// Time between SIGTERM and SIGKILL.
pub(super) const GRACE: Duration = Duration::from_millis(500);
/// Time after a command's failure during which the stop flag, if set, still counts as its cause.
///
/// A signal that ends this process is often sent to the command too, for example by Slurm or at a
/// shutdown, and the command may exit first.
const SIGNALLED: Duration = Duration::from_millis(100);

/// A validated command with an existing program.
///
/// - `{name}` in an argument is replaced by the value of the placeholder `name`, and `{{name}}` by
///   the literal text `{name}`. Other braces are kept.
/// - A text value is a whole argument or the whole value of an option. It follows a user-supplied
///   script or program (INV-24).
/// - The command inherits the environment without fedbo's secrets (INV-26). Of this process's open
///   files, it inherits only its standard streams.
/// - At the timeout, or once the stop flag is set, the whole process group receives SIGTERM,
///   followed by SIGKILL half a second later. Processes that remain in the group when the command
///   exits are killed.
/// - Memory use is bounded for any amount of output: the last 64 KiB of each stream are kept.
///
/// Unix only. If this process is killed (SIGKILL), a running command continues to its end.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<Vec<Piece>>,
    directory: Option<PathBuf>,
    timeout: Option<Duration>,
    /// The command's open-file limit. A service can later raise the limit of this process.
    open_files: Rlimit,
    stop: Arc<AtomicBool>,
}

/// Output of a program that exited with status 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOutput {
    /// The last non-blank line of standard output, without the text before its last carriage
    /// return.
    ///
    /// `None` if all lines are blank.
    pub last_line: Option<String>,
    /// Tail of standard error.
    pub stderr: String,
}

impl Program {
    /// Validates a command with placeholders from `known`. Setting `stop` ends a running command.
    ///
    /// # Errors
    /// Fails if the command is empty, contains a NUL character or an unknown placeholder, could run
    /// text as code, or cannot be found and executed. Also fails if the timeout is zero or the
    /// directory is missing.
    pub fn new(
        spec: &CommandSpec,
        known: &[Placeholder],
        stop: Arc<AtomicBool>,
    ) -> Result<Self, CommandError> {
        let program = spec.argv.first().ok_or(CommandError::Empty)?;
        for (index, argument) in spec.argv.iter().enumerate() {
            if argument.contains('\0') {
                let argument = argument.clone();
                return Err(CommandError::Nul { index, argument });
            }
        }
        if spec.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(CommandError::Timeout);
        }
        if let Some(directory) = spec.directory.as_ref().filter(|path| !path.is_dir()) {
            let directory = directory.clone();
            return Err(CommandError::Directory { directory });
        }
        Ok(Self {
            path: find_program(program, spec.directory.as_deref())?,
            arguments: templates(&spec.argv, known)?,
            directory: spec.directory.clone(),
            timeout: spec.timeout,
            open_files: getrlimit(Resource::Nofile),
            stop,
        })
    }

    /// Runs the program to its end and returns its output; `None` if the stop flag ended it.
    ///
    /// `value` returns the value of a placeholder. `environment` adds variables. `input` is passed
    /// as standard input, which is empty for `None`.
    ///
    /// # Errors
    /// Fails if the program cannot be started, exits with a status other than 0 or times out, or if
    /// a placeholder has no value.
    pub fn print(
        &self,
        value: impl Fn(&str) -> Option<String>,
        environment: &[(&str, String)],
        input: Option<&str>,
    ) -> Result<Option<ProgramOutput>, Failure> {
        let mut command = self.command(|placeholder| {
            let name = &placeholder.name;
            let value = value(name).ok_or_else(|| Failure::BadPoint {
                message: format!("there is no value for {name}"),
            })?;
            Ok(Some(value))
        })?;
        for (name, text) in environment {
            command.env(name, text);
        }
        if let Some(input) = input {
            command.stdin(file_with(input).map_err(|error| Failure::Spawn {
                program: self.path.display().to_string(),
                message: format!("its standard input cannot be prepared: {error}"),
            })?);
        }
        let Some(ran) = self.run(command, false, |_| Ok(ControlFlow::Continue(())))? else {
            return Ok(None);
        };
        Ok(ran.end()?.map(|(stdout, stderr)| ProgramOutput {
            last_line: last_line(&stdout).map(str::to_owned),
            stderr,
        }))
    }

    /// Builds the command with its arguments and environment. `value` returns `None` for a parameter
    /// that does not exist.
    pub(super) fn command(
        &self,
        value: impl Fn(&Placeholder) -> Result<Option<String>, Failure>,
    ) -> Result<Command, Failure> {
        let mut command = Command::new(&self.path);
        remove_secrets(&mut command); // INV-26
        command.args(filled(&self.arguments, value)?);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        Ok(command)
    }

    /// Resets a child's soft open-file limit to the limit that this process had when `self` was
    /// created.
    ///
    /// A service raises the limit of this process. Some programs close every possible file
    /// descriptor when they start, or use `select`.
    #[cfg(target_os = "linux")]
    fn restore_open_files(&self, child: &Child) {
        use rustix::process::{Pid, prlimit};
        let own = getrlimit(Resource::Nofile);
        if own.current != self.open_files.current {
            let limit = Rlimit { current: self.open_files.current, maximum: own.maximum };
            if let Err(error) = prlimit(Some(Pid::from_child(child)), Resource::Nofile, limit) {
                tracing::debug!(
                    "cannot restore the open-file limit of {}: {error}",
                    self.path.display()
                );
            }
        }
    }

    /// No-op: other systems have no safe call to set the limit of another process.
    #[cfg(not(target_os = "linux"))]
    fn restore_open_files(&self, _: &Child) {}

    /// Runs a command to its end. Returns `None` if the stop flag is already set.
    ///
    /// `during` is called after every poll. It returns `Break` if it has itself ended the command.
    pub(super) fn run(
        &self,
        mut command: Command,
        trains: bool,
        mut during: impl FnMut(&mut Running) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<Option<ExitedProgram>, Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        tracing::debug!("starts {command:?}");
        let child = command.spawn().map_err(|error| Failure::Spawn {
            program: self.path.display().to_string(),
            message: error.to_string(),
        })?;
        self.restore_open_files(&child);
        let started = Instant::now();
        let mut running = Running::new(child, trains);
        let mut ended_by = None;
        let mut broken_off = false;
        while !running.has_ended()? {
            if self.stop.load(Ordering::Relaxed) {
                ended_by = Some(TerminationReason::Stop);
            } else if let Some(timeout) = self.timeout.filter(|t| started.elapsed() >= *t) {
                ended_by = Some(TerminationReason::Timeout(timeout));
            }
            if ended_by.is_some() {
                running.terminate(GRACE)?;
                break;
            }
            let left =
                self.timeout.map_or(TICK, |timeout| timeout.saturating_sub(started.elapsed()));
            running.listen(left.min(TICK))?;
            if during(&mut running)?.is_break() {
                broken_off = true;
                break;
            }
        }
        let finished = running.finish()?;
        if ended_by.is_none() && !broken_off && !finished.status.success() {
            let failed = Instant::now();
            while !self.stop.load(Ordering::Relaxed) && failed.elapsed() < SIGNALLED {
                std::thread::sleep(SIGNALLED / 20);
            }
            if self.stop.load(Ordering::Relaxed) {
                ended_by = Some(TerminationReason::Stop);
            }
        }
        tracing::debug!(
            "{} ended after {:.3} s with {}",
            self.path.display(),
            started.elapsed().as_secs_f64(),
            finished.status
        );
        Ok(Some(ExitedProgram { finished, ended_by }))
    }
}

/// Returns an unnamed temporary file that contains this text, positioned at its start.
fn file_with(text: &str) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// A command that has exited or was terminated.
pub(super) struct ExitedProgram {
    pub(super) finished: Finished,
    ended_by: Option<TerminationReason>,
}

/// The reason why this process terminated a command.
enum TerminationReason {
    Stop,
    Timeout(Duration),
}

impl ExitedProgram {
    /// Returns true if neither the stop flag nor the timeout ended the command.
    pub(super) fn exited_by_itself(&self) -> bool {
        self.ended_by.is_none()
    }

    /// Returns the tail of standard output.
    pub(super) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.finished.stdout).into_owned()
    }

    /// Returns the tails of standard output and standard error; `None` if the stop flag ended the
    /// command.
    ///
    /// # Errors
    /// Fails if the command timed out, exited with a status other than 0, or was killed by a
    /// signal.
    pub(super) fn end(self) -> Result<Option<(String, String)>, Failure> {
        let stdout = self.stdout();
        let stderr = last_chars(&self.finished.stderr, STDERR_CHARS);
        match self.ended_by {
            Some(TerminationReason::Stop) => return Ok(None),
            Some(TerminationReason::Timeout(timeout)) => {
                return Err(Failure::TimedOut { timeout_s: timeout.as_secs_f64(), stderr });
            }
            None => {}
        }
        let status = self.finished.status;
        match (status.code(), status.signal()) {
            (Some(0), _) => Ok(Some((stdout, stderr))),
            (Some(code), _) => Err(Failure::Exit { code, stderr }),
            (None, signal) => Err(Failure::Signal { signal: signal.unwrap_or(0), stderr }),
        }
    }
}
