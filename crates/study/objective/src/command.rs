//! A command as an objective: its arguments are a template, and each trial runs in its own process
//! group.

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

/// Time between a request to stop training and SIGTERM.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// A command as declared in a file, before validation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandSpec {
    /// The program and its arguments; `{name}` in an argument is replaced by a parameter's value.
    pub argv: Vec<String>,
    /// Working directory, and base of a relative program path. The default is the current
    /// directory.
    pub directory: Option<PathBuf>,
    /// Time limit of one trial. The default is no limit.
    pub timeout: Option<Duration>,
}

/// Error returned if a command cannot be used as an objective.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// No program is given.
    #[error("objective.command = [], expected a list that starts with a program")]
    Empty,
    /// The program's name is empty or contains a placeholder.
    #[error(
        "objective.command[0] = {program:?}, expected the name of a program without placeholders"
    )]
    Program {
        /// The first entry of the command.
        program: String,
    },
    /// An argument contains a NUL character, which cannot be passed to a command.
    #[error("objective.command[{index}] = {argument:?} has a NUL character; remove it")]
    Nul {
        /// The index of the entry.
        index: usize,
        /// The entry.
        argument: String,
    },
    /// A placeholder does not match a parameter.
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
    /// A text choice is joined with other characters: `x; rm -r .` could be run as code.
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
        /// Name of the parameter with text choices.
        name: String,
    },
    /// No user-supplied script or program precedes a text choice, so another program could run it.
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
        /// Name of the parameter with text choices.
        name: String,
    },
    /// An argument before a text choice is sometimes left out, so that the program could change.
    #[error(
        "objective.command[{index}] = {argument:?} is left out where its parameter does not exist, and text follows, so your own \
         script must come before it, as in [\"python3\", \"train.py\", {argument:?}]; or read the parameters from the environment \
         (FEDBO_PARAMS)"
    )]
    ConditionalBeforeText {
        /// The index of the entry.
        index: usize,
        /// The entry.
        argument: String,
    },
    /// The program was not found on PATH.
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
        /// The path that was checked.
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
        /// The path of the file.
        path: PathBuf,
    },
    /// The working directory is not a directory.
    #[error("objective.directory = {directory:?} is not a directory; create it, or name another")]
    Directory {
        /// The path.
        directory: PathBuf,
    },
    /// The timeout is zero.
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
/// Ignores text before the line's last carriage return.
///
/// - `{name}` in an argument is replaced by the parameter's value, and `{{name}}` by the literal
///   text `{name}`. Other braces are kept. Where the parameter does not exist, the argument is left
///   out, and so is the option before it (`--rate-drop {rate_drop}`).
/// - The environment contains `FEDBO_PARAMS` (a JSON object), `FEDBO_TRIAL` and `FEDBO_AGENT`, but
///   none of this program's secrets (INV-26). Standard input is empty.
/// - Values are inserted without quoting. A placeholder of a categorical parameter must be a whole
///   argument or the whole value of an option, after a user-supplied script or program (INV-24).
/// - At the timeout, or once the stop flag is set, the whole process group receives SIGTERM,
///   followed by SIGKILL half a second later. Processes that remain in the group when the command
///   exits are killed.
/// - Memory use is bounded: 64 KiB of each output stream are kept.
///
/// A trial that trains ([`Objective::train`]) can also print lines `{"epoch": 7, "value": 0.83}`
/// during training. To stop it early, the objective writes the line `stop` to the command's
/// standard input, which is a pipe in this case. If the command has requested a signal with a line
/// `{"stop_by": "SIGUSR1"}`, the objective sends this signal instead. The command then has a grace
/// period to exit. Lines longer than 64 KiB are not reports.
///
/// Unix only. If this process is killed (SIGKILL), a running command continues to its end.
#[derive(Clone, Debug)]
pub struct CommandObjective {
    program: Program,
    stop_grace: Duration,
    stop: Arc<AtomicBool>,
    /// The names of the numbers, if the objective returns more than one value.
    names: Option<NumberNames>,
}

impl CommandObjective {
    /// Validates a command whose placeholders refer to the parameters of a space. Setting `stop`
    /// ends a running trial.
    ///
    /// # Errors
    /// Fails if the command is empty, refers to an unknown parameter, would run a choice as code,
    /// or cannot be found or executed.
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

    /// Sets the time between a request to stop training and SIGTERM. The default is 10 s.
    #[must_use]
    pub fn with_stop_grace(self, stop_grace: Duration) -> Self {
        Self { stop_grace, ..self }
    }

    /// Expects several numbers: the last line is a JSON object with exactly these names.
    ///
    /// A single name denotes the value and has no effect.
    #[must_use]
    pub fn with_numbers(self, names: NumberNames) -> Self {
        let names = Some(names).filter(|names| names.len() > 1);
        Self { names, ..self }
    }

    fn command(&self, point: &Point, trial: TrialId) -> Result<Command, Failure> {
        let bad = |message: String| Failure::BadPoint { message };
        let mut command = self.program.command(|placeholder| {
            let name = &placeholder.name;
            match point.get(name) {
                Some(value) => Ok(Some(value.to_string())),
                None if placeholder.is_conditional => Ok(None),
                None => Err(bad(format!("it lacks parameter {name}"))),
            }
        })?;
        let parameters = serde_json::to_string(point).map_err(|error| bad(error.to_string()))?;
        command
            .env("FEDBO_PARAMS", parameters)
            .env("FEDBO_TRIAL", trial.trial.to_string())
            .env("FEDBO_AGENT", trial.agent.to_string());
        Ok(command)
    }

    /// Runs the command. If it trains, its reports are passed to the monitor.
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
                // Without this, Python would buffer its output instead of printing each line
                // immediately.
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
            // The last lines count like all others, even if the command has exited in the meantime.
            let said = std::mem::take(&mut ran.finished.said);
            if ran.exited_by_itself() && training.forward(said, &self.stop).stops() {
                return Ok(TrainingEnd::Stopped);
            }
            if training.is_cut_off {
                // Not all reports were evaluated, so the value is discarded.
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
                Some(names) => numbers(&stdout, stderr, names)?,
            },
        }))
    }

    /// Asks a command to stop training, waits for the grace period, then terminates the command.
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

/// State of a training command.
struct Training<'a> {
    monitor: &'a dyn Monitor,
    /// The signal that the command requested for stopping.
    stop_by: Option<rustix::process::Signal>,
    is_stopped: bool,
    /// True if messages were not processed because the run was stopped.
    is_cut_off: bool,
}

impl<'a> Training<'a> {
    fn new(monitor: &'a dyn Monitor) -> Self {
        Self { monitor, stop_by: None, is_stopped: false, is_cut_off: false }
    }

    /// Passes the command's messages to the monitor until the trial or the run (`stop`) is stopped.
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
