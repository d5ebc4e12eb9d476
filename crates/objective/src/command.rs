//! An objective that is a command: a template of arguments, run once a trial in a process group of its own.

mod lines;
mod printed;
mod resemblance;
mod running;
mod template;

use std::fmt::Write as _;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fedbo_space::{Point, Space};

use self::lines::{Said, is_report};
use self::printed::{last_chars, last_line, value};
use self::running::{Finished, Running, TICK};
use self::template::{Piece, find_program, template};
use crate::{Failure, Monitor, Objective, Outcome, Signal, Trained, TrialId};

/// Characters of standard error that a failure keeps.
const STDERR_CHARS: usize = 400;
/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(500);
/// Time between the request to stop training and SIGTERM.
const STOP_GRACE: Duration = Duration::from_secs(10);

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

/// Runs a command once a trial and reads the value from its last line of standard output, of which only what stands after its last
/// carriage return counts.
///
/// - `{name}` in an argument becomes the parameter's value; `{{name}}` becomes the text `{name}`; other braces stay.
/// - The environment has `FEDBO_PARAMS` (JSON object), `FEDBO_TRIAL` and `FEDBO_AGENT`; standard input is empty.
///   A value goes into its argument as it is: a script for `sh -c` should rather read the environment.
/// - At the timeout, or once the stop flag is set, its whole process group gets SIGTERM, and SIGKILL half a second
///   later. Whatever it leaves running in its group when it ends is killed.
/// - Memory stays bounded whatever it prints: 64 KiB of each output are kept.
///
/// As a trial that trains ([`Objective::train`]), it may also print lines `{"epoch": 7, "value": 0.83}` as it goes on. When it is
/// not to go on, it is sent the line `stop` on standard input, which is a pipe then, or the signal that it has asked for with a
/// line `{"stop_by": "SIGUSR1"}`; it has a grace to end by itself. A line longer than 64 KiB is no report.
///
/// Unix only. If this process itself is killed (SIGKILL), a command that is running goes on to its end.
#[derive(Clone, Debug)]
pub struct CommandObjective {
    program: PathBuf,
    arguments: Vec<Vec<Piece>>,
    directory: Option<PathBuf>,
    timeout: Option<Duration>,
    stop_grace: Duration,
    stop: Arc<AtomicBool>,
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
            stop_grace: STOP_GRACE,
            stop,
        })
    }

    /// The time between the request to stop training and SIGTERM; 10 s without this.
    #[must_use]
    pub fn with_stop_grace(self, stop_grace: Duration) -> Self {
        Self { stop_grace, ..self }
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

    /// Runs the command; one that trains reports to a monitor.
    fn run(
        &self,
        point: &Point,
        trial: TrialId,
        monitor: Option<&dyn Monitor>,
    ) -> Result<Trained, Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(Trained::Ended(Outcome::Interrupted));
        }
        let mut command = self.command(point, trial)?;
        if monitor.is_some() {
            command.stdin(Stdio::piped());
            if std::env::var_os("PYTHONUNBUFFERED").is_none() {
                // Python would keep its lines to itself until there are many of them.
                command.env("PYTHONUNBUFFERED", "1");
            }
        }
        let child = command.spawn().map_err(|error| Failure::Spawn {
            program: self.program.display().to_string(),
            message: error.to_string(),
        })?;
        let started = Instant::now();
        let mut running = Running::new(child, monitor.is_some());
        let mut training = monitor.map(Training::new);
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
            if let Some(training) = &mut training
                && training.hear(running.said(), &self.stop).stops()
            {
                self.wind_down(&mut running, training)?;
                break;
            }
        }
        let Finished {
            status,
            said,
            resembling,
            stdout,
            stderr,
        } = running.finish()?;
        if let Some(training) = &mut training {
            // What a command said last counts like the rest, also if it has ended meanwhile.
            if ended_by.is_none() && training.hear(said, &self.stop).stops() {
                return Ok(Trained::Stopped);
            }
            if let Some(what) = resembling {
                training.monitor.resembles_report(&what);
            }
        }
        let stdout = String::from_utf8_lossy(&stdout);
        if let Some(monitor) = monitor
            && last_line(&stdout).is_some_and(is_report)
        {
            monitor.ends_with_report();
        }
        let stderr = last_chars(&stderr, STDERR_CHARS);
        let value = match ended_by {
            Some(Reason::Stop) => return Ok(Trained::Ended(Outcome::Interrupted)),
            Some(Reason::Timeout(timeout)) => {
                return Err(Failure::TimedOut {
                    timeout_s: timeout.as_secs_f64(),
                    stderr,
                });
            }
            None => match (status.code(), status.signal()) {
                (Some(0), _) => value(&stdout, stderr)?,
                (Some(code), _) => return Err(Failure::Exit { code, stderr }),
                (None, signal) => {
                    return Err(Failure::Signal {
                        signal: signal.unwrap_or(0),
                        stderr,
                    });
                }
            },
        };
        Ok(Trained::Ended(Outcome::Value(value)))
    }

    /// Asks a command that is not to train on to end, gives it its grace, and ends it then.
    fn wind_down(&self, running: &mut Running, training: &Training<'_>) -> Result<(), Failure> {
        running.ask_to_stop(training.stop_by);
        let asked = Instant::now();
        while !running.has_ended()? {
            if self.stop.load(Ordering::Relaxed) {
                return running.terminate(GRACE);
            }
            let left = self.stop_grace.saturating_sub(asked.elapsed());
            if left.is_zero() {
                training.monitor.killed(self.stop_grace);
                return running.terminate(GRACE);
            }
            running.listen(left.min(TICK))?;
            drop(running.said());
        }
        Ok(())
    }
}

impl Objective for CommandObjective {
    fn evaluate(&self, point: &Point, trial: TrialId) -> Outcome {
        match self.run(point, trial, None) {
            Ok(Trained::Ended(outcome)) => outcome,
            Ok(Trained::Stopped) => unreachable!("nobody is there to stop it"),
            Err(failure) => Outcome::Failed(failure),
        }
    }

    fn train(&self, point: &Point, trial: TrialId, monitor: &dyn Monitor) -> Trained {
        let trained = self.run(point, trial, Some(monitor));
        trained.unwrap_or_else(|failure| Trained::Ended(Outcome::Failed(failure)))
    }
}

/// Why we ended the command ourselves.
enum Reason {
    Stop,
    Timeout(Duration),
}

/// What is known of a command's training.
struct Training<'a> {
    monitor: &'a dyn Monitor,
    /// The signal by which it wants to be stopped.
    stop_by: Option<rustix::process::Signal>,
    is_stopped: bool,
}

impl<'a> Training<'a> {
    fn new(monitor: &'a dyn Monitor) -> Self {
        Self {
            monitor,
            stop_by: None,
            is_stopped: false,
        }
    }

    /// Passes on what the command has said, until it is stopped or the run is (`stop`).
    fn hear(&mut self, said: Vec<Said>, stop: &AtomicBool) -> Signal {
        for each in said {
            if self.is_stopped || stop.load(Ordering::Relaxed) {
                break;
            }
            match each {
                Said::Report { epoch, value } => {
                    self.is_stopped = self.monitor.report(epoch, value).stops();
                }
                Said::StopBy(signal) => self.stop_by = Some(signal),
                Said::NoNumber { epoch, word } => {
                    self.is_stopped = self.monitor.no_number(epoch, word).stops();
                }
                Said::Unusable(what, why) => self.monitor.unusable(what, &why),
            }
        }
        match self.is_stopped {
            true => Signal::Stop,
            false => Signal::Continue,
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod training_tests;
