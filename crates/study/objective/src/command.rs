//! A command as an objective: a template of arguments, run once per trial in its own process group.

mod lines;
mod near_report;
mod program;
mod running;
mod secrets;
mod template;
mod text_arguments;
mod training_output;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fedbo_error_class::{Class, Classified};
use fedbo_space::{Point, Space};

use self::lines::{TrainingMessage, is_report};
use self::program::GRACE;
use self::running::{Running, TICK};
use self::training_output::{last_line, numbers, value};
use crate::{Failure, Monitor, NumberNames, Objective, Outcome, Signal, TrainingEnd, TrialId};

pub use self::program::{Program, ProgramOutput};
pub use self::secrets::is_secret;
pub use self::template::Placeholder;

/// Time between the request to stop training and SIGTERM.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// A command as a file declares it: plain data, not yet validated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandSpec {
    /// The program and its arguments; `{name}` in an argument is replaced by a parameter's value.
    pub argv: Vec<String>,
    /// Working directory, and base of a relative program path; the current directory by default.
    pub directory: Option<PathBuf>,
    /// Time limit of one trial; no limit by default.
    pub timeout: Option<Duration>,
}

/// Reason why a command cannot be an objective.
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
        /// The index of the entry.
        index: usize,
        /// The entry.
        argument: String,
    },
    /// A placeholder names no parameter.
    #[error(
        "objective.command[{index}] = {argument:?}: {{{name}}} is not a parameter; known are \
         {known} (write {{{{{name}}}}} for the text {{{name}}} itself)"
    )]
    Placeholder {
        /// The index of the entry.
        index: usize,
        /// The entry.
        argument: String,
        /// The name between the braces.
        name: String,
        /// The parameters of the space, separated by commas.
        known: String,
    },
    /// A text is joined with other characters: a choice such as `x; rm -r .` might be run.
    #[error(
        "objective.command[{index}] = {argument:?}: {{{name}}} is text that could be run as code here; make it a separate \
         argument, or the whole value of an option, as in [\"sh\", \"-c\", \"./train \\\"$1\\\"\", \"sh\", \"{{{name}}}\"] or \
         [\"./train\", \"--{name}={{{name}}}\"]; or read it from the environment (FEDBO_PARAMS, in a game FEDBO_ACTIONS)"
    )]
    JoinedText {
        /// The index of the entry.
        index: usize,
        /// The entry.
        argument: String,
        /// The parameter with text choices.
        name: String,
    },
    /// A text comes before any script or program of the user's own, so that another program might run it.
    #[error(
        "objective.command[{index}] = {argument:?}: {{{name}}} is text, which may only follow your own script, or your own \
         program given by its path, as in [\"python3\", \"train.py\", \"{{{name}}}\"] or [\"./train\", \"{{{name}}}\"]; or \
         read it from the environment (FEDBO_PARAMS, in a game FEDBO_ACTIONS)"
    )]
    TextWithoutScript {
        /// The index of the entry.
        index: usize,
        /// The entry.
        argument: String,
        /// The parameter with text choices.
        name: String,
    },
    /// The program is in no directory on PATH.
    #[error(
        "objective.command[0] = {program:?} is not on PATH; install it, or give its path with a slash"
    )]
    NotOnPath {
        /// The program.
        program: String,
    },
    /// The program's path does not exist.
    #[error(
        "objective.command[0] = {program:?}: there is no file {path}; a path is relative to the working directory"
    )]
    NoSuchFile {
        /// The program as written.
        program: String,
        /// The path that was tried.
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
        /// The path of the file found.
        path: PathBuf,
    },
    /// The working directory is not a directory.
    #[error("objective.directory = {directory:?} is not a directory; create it, or name another")]
    Directory {
        /// The path.
        directory: PathBuf,
    },
    /// The timeout leaves no time.
    #[error("objective.timeout = 0, expected a time above 0 (leave the key out for no limit)")]
    Timeout,
}

impl Classified for CommandError {
    fn class(&self) -> Class {
        Class::Input
    }
}

/// Runs a command once per trial and reads the value from the last line of its standard output.
///
/// Only the part after the line's last carriage return counts.
///
/// - `{name}` in an argument becomes the parameter's value; `{{name}}` becomes the text `{name}`;
///   other braces stay.
/// - The environment has `FEDBO_PARAMS` (JSON object), `FEDBO_TRIAL` and `FEDBO_AGENT`; standard
///   input is empty. It has none of this program's secrets (INV-26).
/// - Values are inserted without quoting. A placeholder of a categorical parameter must be an
///   argument of its own, or the value of an option, after a script or program of the user's own
///   (INV-24).
/// - At the timeout, or once the stop flag is set, the whole process group gets SIGTERM, and
///   SIGKILL half a second later. Processes that remain in the group when the command ends are
///   killed.
/// - Memory use is bounded: 64 KiB of each output stream are kept.
///
/// A trial that trains ([`Objective::train`]) may also print lines `{"epoch": 7, "value": 0.83}`
/// during training. To stop it early, the objective writes the line `stop` to the command's
/// standard input, which is a pipe in this case, or sends the signal that the command requested
/// with a line `{"stop_by": "SIGUSR1"}`. The command then has a grace period to exit. A line longer
/// than 64 KiB is not a report.
///
/// Unix only. If this process itself is killed (SIGKILL), a running command continues to its end.
#[derive(Clone, Debug)]
pub struct CommandObjective {
    program: Program,
    stop_grace: Duration,
    stop: Arc<AtomicBool>,
    /// The names of the numbers, if the objective has more than a value.
    names: Option<NumberNames>,
}

impl CommandObjective {
    /// Validates a command for a space whose parameters it may name; `stop` ends a running trial.
    ///
    /// # Errors
    /// If the command is empty, names an unknown parameter, would run a choice as code, or cannot
    /// be found or executed.
    pub fn new(
        spec: &CommandSpec,
        space: &Space,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, CommandError> {
        Ok(Self {
            program: Program::new(spec, &Placeholder::of(space), Arc::clone(&stop))?,
            stop_grace: STOP_GRACE,
            stop,
            names: None,
        })
    }

    /// Sets the time between the request to stop training and SIGTERM; 10 s by default.
    #[must_use]
    pub fn with_stop_grace(self, stop_grace: Duration) -> Self {
        Self { stop_grace, ..self }
    }

    /// Expects several numbers: the last line is a JSON object with exactly these names.
    ///
    /// A single name, which is that of the value, changes nothing.
    #[must_use]
    pub fn with_numbers(self, names: NumberNames) -> Self {
        let names = Some(names).filter(|names| names.len() > 1);
        Self { names, ..self }
    }

    fn command(&self, point: &Point, trial: TrialId) -> Result<Command, Failure> {
        let bad = |message: String| Failure::BadPoint { message };
        let mut command = self.program.command(|name| {
            let value = point.get(name);
            let value = value.ok_or_else(|| bad(format!("it lacks parameter {name}")))?;
            Ok(value.to_string())
        })?;
        let parameters = serde_json::to_string(point).map_err(|error| bad(error.to_string()))?;
        command
            .env("FEDBO_PARAMS", parameters)
            .env("FEDBO_TRIAL", trial.trial.to_string())
            .env("FEDBO_AGENT", trial.agent.to_string());
        Ok(command)
    }

    /// Runs the command, with reports to the monitor if it trains.
    fn run(
        &self,
        point: &Point,
        trial: TrialId,
        monitor: Option<&dyn Monitor>,
    ) -> Result<TrainingEnd, Failure> {
        let mut command = self.command(point, trial)?;
        if monitor.is_some() {
            command.stdin(Stdio::piped());
            if std::env::var_os("PYTHONUNBUFFERED").is_none() {
                // Python would buffer its output instead of printing lines at once.
                command.env("PYTHONUNBUFFERED", "1");
            }
        }
        let mut training = monitor.map(Training::new);
        let trains = monitor.is_some();
        let ran = self.program.run(command, trains, |running| {
            if let Some(training) = &mut training
                && training.forward(running.said(), &self.stop).stops()
            {
                self.stop_gracefully(running, training)?;
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let Some(mut ran) = ran else {
            return Ok(TrainingEnd::Ended(Outcome::Interrupted));
        };
        if let Some(training) = &mut training {
            // The last lines count like all others, even if the command has ended meanwhile.
            let said = std::mem::take(&mut ran.finished.said);
            if ran.exited_by_itself() && training.forward(said, &self.stop).stops() {
                return Ok(TrainingEnd::Stopped);
            }
            if training.is_cut_off {
                // Not all reports were judged, so the value is not told.
                return Ok(TrainingEnd::Ended(Outcome::Interrupted));
            }
            if let Some(what) = &ran.finished.resembling {
                training.monitor.resembles_report(what);
            }
        }
        if let Some(monitor) = monitor
            && last_line(&ran.stdout()).is_some_and(is_report)
        {
            monitor.ends_with_report();
        }
        Ok(TrainingEnd::Ended(match ran.end()? {
            None => Outcome::Interrupted,
            Some((stdout, stderr)) => match &self.names {
                None => Outcome::Value(value(&stdout, stderr)?),
                Some(names) => Outcome::Numbers(numbers(&stdout, stderr, names)?),
            },
        }))
    }

    /// Asks a command to stop training, waits for the grace period, and then terminates it.
    fn stop_gracefully(
        &self,
        running: &mut Running,
        training: &Training<'_>,
    ) -> Result<(), Failure> {
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
            Ok(TrainingEnd::Ended(outcome)) => outcome,
            Ok(TrainingEnd::Stopped) => unreachable!("without a monitor, nothing stops it"),
            Err(failure) => Outcome::Failed(failure),
        }
    }

    fn train(&self, point: &Point, trial: TrialId, monitor: &dyn Monitor) -> TrainingEnd {
        let trained = self.run(point, trial, Some(monitor));
        trained.unwrap_or_else(|failure| TrainingEnd::Ended(Outcome::Failed(failure)))
    }
}

/// State of a command's training.
struct Training<'a> {
    monitor: &'a dyn Monitor,
    /// The signal that the command requested for its stop.
    stop_by: Option<rustix::process::Signal>,
    is_stopped: bool,
    /// True if some messages were not processed because the run was stopped.
    is_cut_off: bool,
}

impl<'a> Training<'a> {
    fn new(monitor: &'a dyn Monitor) -> Self {
        Self { monitor, stop_by: None, is_stopped: false, is_cut_off: false }
    }

    /// Passes messages of the command to the monitor, until the trial or the run (`stop`) is
    /// stopped.
    fn forward(&mut self, said: Vec<TrainingMessage>, stop: &AtomicBool) -> Signal {
        for each in said {
            if self.is_stopped {
                break;
            }
            if stop.load(Ordering::Relaxed) {
                self.is_cut_off = true;
                break;
            }
            match each {
                TrainingMessage::Report { epoch, value } => {
                    self.is_stopped = self.monitor.report(epoch, value).stops();
                }
                TrainingMessage::StopBy(signal) => self.stop_by = Some(signal),
                TrainingMessage::NoNumber { epoch, word } => {
                    self.is_stopped = self.monitor.no_number(epoch, word).stops();
                }
                TrainingMessage::Unusable(what, why) => self.monitor.unusable(what, &why),
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
