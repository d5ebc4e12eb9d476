//! An objective that is a command: a template of arguments, run once a trial in a process group of its own.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fedbo_space::{Point, Space};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};

use crate::{Failure, Objective, Outcome, TrialId};

/// Bytes kept from the end of each output: a value stands in the last line, a cause in the last words.
const TAIL_BYTES: usize = 64 * 1024;
/// Characters of standard error that a failure keeps.
const STDERR_CHARS: usize = 400;
/// Characters of an unparsable line that a failure keeps.
const LINE_CHARS: usize = 200;
/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(500);
/// Longest time between two looks at the stop flag, the deadline and the command's state.
const TICK: Duration = Duration::from_millis(20);
/// Bytes read after the command's end at most, should a process that escaped its group go on writing.
const REST_BYTES: usize = 16 * 1024 * 1024;

/// A command as it stands in a file: plain data, not yet checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandSpec {
    /// The program and its arguments; `{name}` in an argument stands for a parameter's value.
    pub argv: Vec<String>,
    /// Where it runs, and what a relative program path is relative to; the current directory by default.
    pub directory: Option<PathBuf>,
    /// How long one trial may take; no limit by default.
    pub timeout: Option<Duration>,
}

/// Why a command cannot be an objective.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// There is no program to run.
    #[error("objective.command = [], expected a list that starts with a program")]
    Empty,
    /// The program's name is empty or has a placeholder.
    #[error(
        "objective.command[0] = {program:?}, expected the name of a program without placeholders"
    )]
    Program {
        /// The first entry.
        program: String,
    },
    /// An argument has a NUL character, which no command can receive.
    #[error("objective.command[{index}] = {argument:?} has a NUL character; remove it")]
    Nul {
        /// Which entry.
        index: usize,
        /// The entry.
        argument: String,
    },
    /// A placeholder names no parameter.
    #[error(
        "objective.command[{index}] = {argument:?}: {{{name}}} is no parameter; known are {known} \
         (write {{{{{name}}}}} for the text {{{name}}} itself)"
    )]
    Placeholder {
        /// Which entry.
        index: usize,
        /// The entry.
        argument: String,
        /// The name between the braces.
        name: String,
        /// The parameters of the space, separated by commas.
        known: String,
    },
    /// The program is in no directory on PATH.
    #[error(
        "objective.command[0] = {program:?} is not on PATH; install it, or give its path with a slash"
    )]
    NotOnPath {
        /// The program.
        program: String,
    },
    /// The program's path leads nowhere.
    #[error(
        "objective.command[0] = {program:?}: there is no file {path}; a path is relative to the working directory"
    )]
    NoSuchFile {
        /// The program as written.
        program: String,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The program's path is not an executable file.
    #[error(
        "objective.command[0] = {program:?}: {path} is not an executable file; \
         make it one (chmod +x), or put its interpreter first"
    )]
    NotExecutable {
        /// The program as written.
        program: String,
        /// Where it was found.
        path: PathBuf,
    },
    /// The working directory is none.
    #[error("objective.directory = {directory:?} is not a directory; create it, or name another")]
    Directory {
        /// The path.
        directory: PathBuf,
    },
    /// The timeout leaves no time.
    #[error("objective.timeout = 0, expected a time above 0 (leave the key out for no limit)")]
    Timeout,
}

/// Runs a command once a trial and reads the value from its last line of standard output.
///
/// - `{name}` in an argument becomes the parameter's value; `{{name}}` becomes the text `{name}`; other braces stay.
/// - The environment has `FEDBO_PARAMS` (JSON object), `FEDBO_TRIAL` and `FEDBO_AGENT`; standard input is empty.
///   A value goes into its argument as it is: a script for `sh -c` should rather read the environment.
/// - At the timeout, or once the stop flag is set, its whole process group gets SIGTERM, and SIGKILL half a second
///   later. Whatever it leaves running in its group when it ends is killed.
/// - Memory stays bounded whatever it prints: 64 KiB of each output are kept.
///
/// Unix only. If this process itself is killed (SIGKILL), a command that is running goes on to its end.
#[derive(Clone, Debug)]
pub struct CommandObjective {
    program: PathBuf,
    arguments: Vec<Vec<Piece>>,
    directory: Option<PathBuf>,
    timeout: Option<Duration>,
    stop: Arc<AtomicBool>,
}

/// Part of an argument.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    Parameter(String),
}

impl CommandObjective {
    /// Checks a command for a space whose parameters it may name; `stop` ends a running trial.
    ///
    /// # Errors
    /// If the command is empty, names an unknown parameter, or cannot be found and executed.
    pub fn new(
        spec: &CommandSpec,
        space: &Space,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, CommandError> {
        let (program, arguments) = spec.argv.split_first().ok_or(CommandError::Empty)?;
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
        let known: Vec<&str> = space.parameters().iter().map(|p| p.name()).collect();
        let arguments = arguments
            .iter()
            .enumerate()
            .map(|(position, argument)| template(argument, &known, position + 1))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            program: find_program(program, spec.directory.as_deref())?,
            arguments,
            directory: spec.directory.clone(),
            timeout: spec.timeout,
            stop,
        })
    }

    fn command(&self, point: &Point, trial: TrialId) -> Result<Command, Failure> {
        let bad = |message: String| Failure::BadPoint { message };
        let mut command = Command::new(&self.program);
        for pieces in &self.arguments {
            let mut argument = String::new();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => argument.push_str(text),
                    Piece::Parameter(name) => {
                        let value = point
                            .get(name)
                            .ok_or_else(|| bad(format!("it lacks parameter {name}")))?;
                        write!(argument, "{value}").map_err(|error| bad(error.to_string()))?;
                    }
                }
            }
            command.arg(argument);
        }
        let parameters = serde_json::to_string(point).map_err(|error| bad(error.to_string()))?;
        command
            .env("FEDBO_PARAMS", parameters)
            .env("FEDBO_TRIAL", trial.trial.to_string())
            .env("FEDBO_AGENT", trial.agent.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        Ok(command)
    }

    fn run(&self, point: &Point, trial: TrialId) -> Result<Outcome, Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(Outcome::Interrupted);
        }
        let mut command = self.command(point, trial)?;
        let child = command.spawn().map_err(|error| Failure::Spawn {
            program: self.program.display().to_string(),
            message: error.to_string(),
        })?;
        let started = Instant::now();
        let mut running = Running::new(child);
        let mut ended_by = None;
        while !running.has_ended()? {
            if self.stop.load(Ordering::Relaxed) {
                ended_by = Some(Reason::Stop);
            } else if let Some(timeout) = self.timeout.filter(|t| started.elapsed() >= *t) {
                ended_by = Some(Reason::Timeout(timeout));
            }
            if ended_by.is_some() {
                running.terminate(GRACE)?;
                break;
            }
            let left = self
                .timeout
                .map_or(TICK, |timeout| timeout.saturating_sub(started.elapsed()));
            running.listen(left.min(TICK))?;
        }
        let (status, stdout, stderr) = running.finish()?;
        let stderr = last_chars(&stderr, STDERR_CHARS);
        match ended_by {
            Some(Reason::Stop) => Ok(Outcome::Interrupted),
            Some(Reason::Timeout(timeout)) => Err(Failure::TimedOut {
                timeout_s: timeout.as_secs_f64(),
                stderr,
            }),
            None => match (status.code(), status.signal()) {
                (Some(0), _) => value(&stdout, stderr).map(Outcome::Value),
                (Some(code), _) => Err(Failure::Exit { code, stderr }),
                (None, signal) => Err(Failure::Signal {
                    signal: signal.unwrap_or(0),
                    stderr,
                }),
            },
        }
    }
}

impl Objective for CommandObjective {
    fn evaluate(&self, point: &Point, trial: TrialId) -> Outcome {
        self.run(point, trial).unwrap_or_else(Outcome::Failed)
    }
}

/// Why we ended the command ourselves.
enum Reason {
    Stop,
    Timeout(Duration),
}

/// A started command: its process group and what it has printed so far.
///
/// The group is signalled only while its leader is not yet reaped, so its number cannot belong to another group.
struct Running {
    child: Child,
    group: Pid,
    stdout: Output<ChildStdout>,
    stderr: Output<ChildStderr>,
    /// Pause while both outputs are closed and the command still runs; grows up to [`TICK`].
    pause: Duration,
    reaped: bool,
}

impl Running {
    fn new(mut child: Child) -> Self {
        Self {
            group: Pid::from_child(&child),
            stdout: Output::new(child.stdout.take()),
            stderr: Output::new(child.stderr.take()),
            child,
            pause: Duration::from_micros(200),
            reaped: false,
        }
    }

    /// Whether the leader has ended; leaves it unreaped.
    fn has_ended(&self) -> Result<bool, Failure> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::Pid(self.group), options) {
                Ok(status) => return Ok(status.as_ref().is_some_and(is_end)),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(lost(&error)),
            }
        }
    }

    /// Keeps the tails of what is printed within `wait`; returns at the first print, at the latest after `wait`.
    fn listen(&mut self, wait: Duration) -> Result<usize, Failure> {
        let mut ready = [false; 2];
        {
            let mut waited = Vec::with_capacity(2);
            if let Some(pipe) = &self.stdout.pipe {
                waited.push((0, PollFd::new(pipe, PollFlags::IN)));
            }
            if let Some(pipe) = &self.stderr.pipe {
                waited.push((1, PollFd::new(pipe, PollFlags::IN)));
            }
            if waited.is_empty() {
                std::thread::sleep(self.pause.min(wait));
                self.pause = (self.pause * 2).min(TICK);
                return Ok(0);
            }
            let (which, mut fds): (Vec<usize>, Vec<_>) = waited.into_iter().unzip();
            let timeout = Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            };
            match poll(&mut fds, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(lost(&error)),
            }
            for (index, fd) in which.into_iter().zip(&fds) {
                ready[index] = !fd.revents().is_empty();
            }
        }
        let mut n_read = 0;
        if ready[0] {
            n_read += self.stdout.read()?;
        }
        if ready[1] {
            n_read += self.stderr.read()?;
        }
        Ok(n_read)
    }

    /// Asks the group to end, and waits up to `grace` for its leader to do so.
    fn terminate(&mut self, grace: Duration) -> Result<(), Failure> {
        self.signal(Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < grace && !self.has_ended()? {
            self.listen(TICK)?;
        }
        Ok(())
    }

    /// Kills what is left of the group, reads what is left in the pipes, and reaps the leader.
    fn finish(mut self) -> Result<(ExitStatus, Vec<u8>, Vec<u8>), Failure> {
        self.signal(Signal::KILL);
        while !self.has_ended()? {
            self.listen(TICK)?;
        }
        let mut n_rest = 0;
        while n_rest < REST_BYTES {
            let open = [self.stdout.pipe.is_some(), self.stderr.pipe.is_some()];
            if open == [false, false] {
                break;
            }
            let n_read = self.listen(Duration::ZERO)?;
            let still_open = [self.stdout.pipe.is_some(), self.stderr.pipe.is_some()];
            if n_read == 0 && open == still_open {
                break; // a process that left the group holds the pipe: nothing of ours will come
            }
            n_rest += n_read;
        }
        let status = self.child.wait().map_err(|error| lost(&error))?;
        self.reaped = true;
        let stdout = std::mem::take(&mut self.stdout.tail);
        let stderr = std::mem::take(&mut self.stderr.tail);
        Ok((status, stdout, stderr))
    }

    fn signal(&self, signal: Signal) {
        // Fails only when nobody is left to receive it.
        let _ = kill_process_group(self.group, signal);
    }
}

impl Drop for Running {
    /// Leaves nothing behind, also when an error ended the trial early.
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

fn is_end(status: &WaitIdStatus) -> bool {
    status.exited() || status.killed() || status.dumped()
}

fn lost(error: &dyn std::error::Error) -> Failure {
    Failure::Lost {
        message: error.to_string(),
    }
}

/// One output of the command, of which only the tail is kept.
struct Output<R> {
    pipe: Option<R>,
    tail: Vec<u8>,
}

impl<R: Read + AsFd> Output<R> {
    fn new(pipe: Option<R>) -> Self {
        let tail = Vec::new();
        Self { pipe, tail }
    }

    /// Reads once, which does not block when `poll` has reported the pipe; closes it at its end.
    fn read(&mut self) -> Result<usize, Failure> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(0);
        };
        let mut chunk = [0; 8192];
        match pipe.read(&mut chunk) {
            Ok(0) => {
                self.pipe = None;
                Ok(0)
            }
            Ok(n) => {
                if self.tail.len() + n > 2 * TAIL_BYTES {
                    self.tail.drain(..self.tail.len() - TAIL_BYTES);
                }
                self.tail.extend_from_slice(&chunk[..n]);
                Ok(n)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(lost(&error)),
        }
    }
}

/// The value in the last line of `stdout` that is not blank.
fn value(stdout: &[u8], stderr: String) -> Result<f64, Failure> {
    let text = String::from_utf8_lossy(stdout);
    let Some(line) = text.lines().map(str::trim).rfind(|line| !line.is_empty()) else {
        return Err(Failure::NoValue { stderr });
    };
    let in_json = |line: &str| {
        let object: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(object.as_object()?.get("value")?.clone())
    };
    let number = line.parse().ok().or_else(|| in_json(line)?.as_f64());
    // Python's json writes NaN and Infinity, which JSON does not have.
    let not_finite = || {
        let without = line
            .replace("-Infinity", "null")
            .replace("Infinity", "null")
            .replace("NaN", "null");
        without != line && in_json(&without).is_some_and(|value| value.is_null())
    };
    match number {
        Some(value) if f64::is_finite(value) => Ok(value),
        Some(value) => Err(Failure::NotFinite(value)),
        None if not_finite() => Err(Failure::NotFinite(f64::NAN)),
        None => Err(Failure::Unparsable {
            line: line.chars().take(LINE_CHARS).collect(),
            stderr,
        }),
    }
}

/// The last `n` characters of `bytes`, without control characters but for line breaks and tabs.
fn last_chars(bytes: &[u8], n: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let kept: Vec<char> = text
        .trim_end()
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect();
    kept[kept.len().saturating_sub(n)..]
        .iter()
        .collect::<String>()
        .trim()
        .to_owned()
}

/// Cuts an argument into text and placeholders.
fn template(argument: &str, known: &[&str], index: usize) -> Result<Vec<Piece>, CommandError> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = argument;
    while let Some(start) = rest.find('{') {
        text.push_str(&rest[..start]);
        rest = &rest[start..];
        if let Some(name) = braced(rest, "{{", "}}") {
            let _ = write!(text, "{{{name}}}");
            rest = &rest[name.len() + 4..];
        } else if let Some(name) = braced(rest, "{", "}") {
            if !known.contains(&name) {
                return Err(CommandError::Placeholder {
                    index,
                    argument: argument.to_owned(),
                    name: name.to_owned(),
                    known: known.join(", "),
                });
            }
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(Piece::Parameter(name.to_owned()));
            rest = &rest[name.len() + 2..];
        } else {
            text.push('{');
            rest = &rest[1..];
        }
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

/// The parameter name between `open` and `close` at the start of `text`, if what stands there can be one.
fn braced<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let inner = text.strip_prefix(open)?;
    let name = &inner[..inner.find('}')?];
    let can_be_name = !name.is_empty()
        && !name
            .chars()
            .any(|c| c.is_whitespace() || matches!(c, '{' | ',' | '"'));
    (can_be_name && inner[name.len()..].starts_with(close)).then_some(name)
}

/// Absolute path of the program: by its path if it has a slash, otherwise on PATH.
fn find_program(program: &str, directory: Option<&Path>) -> Result<PathBuf, CommandError> {
    if program.is_empty() || braced_anywhere(program) {
        return Err(CommandError::Program {
            program: program.to_owned(),
        });
    }
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    if program.contains('/') {
        let path = absolute(directory.unwrap_or(Path::new("")).join(program));
        let program = program.to_owned();
        return if is_executable(&path) {
            Ok(path)
        } else if path.exists() {
            Err(CommandError::NotExecutable { program, path })
        } else {
            Err(CommandError::NoSuchFile { program, path })
        };
    }
    let search = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    std::env::split_paths(&search)
        .map(|folder| absolute(folder.join(program)))
        .find(|path| is_executable(path))
        .ok_or_else(|| CommandError::NotOnPath {
            program: program.to_owned(),
        })
}

fn braced_anywhere(text: &str) -> bool {
    text.char_indices()
        .any(|(at, c)| c == '{' && braced(&text[at..], "{", "}").is_some())
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests;
