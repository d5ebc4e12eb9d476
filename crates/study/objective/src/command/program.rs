//! A program with a template of arguments: started in a process group of its own, listened to, and ended in time.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::ops::ControlFlow;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::running::{Finished, Running, TICK};
use super::secrets::remove_secrets;
use super::template::{Piece, Placeholder, find_program, templates};
use super::training_output::{last_chars, last_line};
use super::{CommandError, CommandSpec};
use crate::Failure;

/// Characters of standard error that a failure keeps.
const STDERR_CHARS: usize = 400;
/// Time between SIGTERM and SIGKILL.
pub(super) const GRACE: Duration = Duration::from_millis(500);
/// The time after a command has failed in which the stop flag may still be set: a signal that ends this process often goes to the command too,
/// as from Slurm or at a shutdown, and the command may end first.
const SIGNALLED: Duration = Duration::from_millis(100);

/// A command that was checked, and is found on this machine.
///
/// - `{name}` in an argument becomes what stands for the name; `{{name}}` becomes the text `{name}`; other braces stay.
/// - A text takes no place in what a shell or an interpreter would run (INV-24).
/// - It has our environment but for our secrets (INV-26), and none of our open files but what it is given to read and write.
/// - At the timeout, or once the stop flag is set, its whole process group gets SIGTERM, and SIGKILL half a second later.
///   Whatever it leaves running in its group when it ends is killed.
/// - Memory stays bounded whatever it prints: 64 KiB of each output are kept.
///
/// Unix only. If this process itself is killed (SIGKILL), a command that is running goes on to its end.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<Vec<Piece>>,
    directory: Option<PathBuf>,
    timeout: Option<Duration>,
    stop: Arc<AtomicBool>,
}

/// The output of a program that ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOutput {
    /// The last line of standard output that is not blank, without what stood before its last carriage return; `None` if there
    /// is none.
    pub last_line: Option<String>,
    /// Tail of standard error.
    pub stderr: String,
}

impl Program {
    /// Checks a command whose placeholders are among `known`; `stop` ends it while it runs.
    ///
    /// # Errors
    /// If the command is empty, has an unknown placeholder, would run a text as code, or cannot be found and executed.
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
            arguments: templates(&spec.argv, known)?,
            path: find_program(program, spec.directory.as_deref())?,
            directory: spec.directory.clone(),
            timeout: spec.timeout,
            stop,
        })
    }

    /// Runs it to its end, with these values for placeholders, further variables in its environment, and `input` to be read from
    /// standard input, which is empty without. `None` if the stop flag ended it.
    ///
    /// # Errors
    /// If it cannot be started, ends with another status than 0 or takes too long, or a placeholder has no value.
    pub fn print(
        &self,
        value: impl Fn(&str) -> Option<String>,
        environment: &[(&str, String)],
        input: Option<&str>,
    ) -> Result<Option<ProgramOutput>, Failure> {
        let mut command = self.command(|name| {
            value(name).ok_or_else(|| Failure::BadPoint {
                message: format!("there is no value for {name}"),
            })
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

    /// The command with its arguments.
    pub(super) fn command(
        &self,
        value: impl Fn(&str) -> Result<String, Failure>,
    ) -> Result<Command, Failure> {
        let mut command = Command::new(&self.path);
        remove_secrets(&mut command); // INV-26
        for pieces in &self.arguments {
            let mut argument = String::new();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => argument.push_str(text),
                    Piece::Parameter(placeholder) => argument.push_str(&value(&placeholder.name)?),
                }
            }
            command.arg(argument);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        Ok(command)
    }

    /// Runs a command to its end. `during` is called between two looks at it, and may break off what it has ended itself.
    /// `None` if the stop flag was set before it began.
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

/// A file of no name, to be read from its beginning.
fn file_with(text: &str) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// A command that has ended.
pub(super) struct ExitedProgram {
    pub(super) finished: Finished,
    ended_by: Option<TerminationReason>,
}

/// The reason why we ended a command ourselves.
enum TerminationReason {
    Stop,
    Timeout(Duration),
}

impl ExitedProgram {
    /// Returns true if the command ended by itself.
    pub(super) fn exited_by_itself(&self) -> bool {
        self.ended_by.is_none()
    }

    /// Tail of standard output.
    pub(super) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.finished.stdout).into_owned()
    }

    /// Tails of standard output and standard error of a command that ended well; `None` if the stop flag ended it.
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
