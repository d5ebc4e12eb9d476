//! An objective that is a command: a template of arguments, run once a trial in a process group of its own.

mod interpreters;
mod lines;
mod near_report;
mod program;
mod running;
mod secrets;
mod template;
mod training_output;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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

/// A command as it stands in a file: plain data, not yet checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandSpec {
    /// The program and its arguments; `{name}` in an argument stands for a parameter's value.
    pub argv: Vec<String>,
    /// The directory in which it runs, and to which a relative program path is relative; the current directory by
    /// default.
    pub directory: Option<PathBuf>,
    /// The time limit of one trial; none by default.
    pub timeout: Option<Duration>,
}

/// The reason why a command cannot be an objective.
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
        "objective.command[{index}] = {argument:?}: {{{name}}} is no parameter; known are {known} \
         (write {{{{{name}}}}} for the text {{{name}}} itself)"
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
    /// A text would be run as code: a choice such as `x; rm -r .` is one.
    #[error(
        "objective.command[{index}] = {argument:?}: {by} runs this, and the choices of {{{name}}} would be run with it; {instead}; or read \
         it from the environment (FEDBO_PARAMS, in a game FEDBO_ACTIONS)"
    )]
    Code {
        /// The index of the entry.
        index: usize,
        /// The entry.
        argument: String,
        /// The parameter whose choices are texts.
        name: String,
        /// The program that runs the entry.
        by: String,
        /// The way out.
        instead: String,
    },
    /// A text would choose the program.
    #[error(
        "objective.command[{index}] = {argument:?}: {by} runs the program that stands here, so the choices of {{{name}}} would be \
         programs or options; name the program, and hand {{{name}}} over as an argument behind it. If the program is named already, \
         put -- before it, or = between an option of {by} and its value"
    )]
    ChoosesProgram {
        /// The index of the entry.
        index: usize,
        /// The entry.
        argument: String,
        /// The parameter whose choices are texts.
        name: String,
        /// The program that runs the entry.
        by: String,
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
        /// The path at which it was looked for.
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
        /// The path at which it was found.
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
///   It has none of our secrets (INV-26).
/// - A value goes into its argument as it is. So a choice is refused where a shell or an interpreter would run it (INV-24): the
///   script of `sh -c` reads `"$1"`, or the environment.
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
    program: Program,
    stop_grace: Duration,
    stop: Arc<AtomicBool>,
    /// The names of its numbers, where it has more than a value.
    names: Option<NumberNames>,
}

impl CommandObjective {
    /// Checks a command for a space whose parameters it may name; `stop` ends a running trial.
    ///
    /// # Errors
    /// If the command is empty, names an unknown parameter, would run a choice as code, or cannot be found and executed.
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

    /// The time between the request to stop training and SIGTERM; 10 s without this.
    #[must_use]
    pub fn with_stop_grace(self, stop_grace: Duration) -> Self {
        Self { stop_grace, ..self }
    }

    /// With several numbers: its last line is a JSON object with exactly these names. Of a single name, which is that of the value, nothing
    /// changes.
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

    /// Runs the command; one that trains reports to a monitor.
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
                // Python would keep its lines to itself until there are many of them.
                command.env("PYTHONUNBUFFERED", "1");
            }
        }
        let mut training = monitor.map(Training::new);
        let trains = monitor.is_some();
        let ran = self.program.run(command, trains, |running| {
            if let Some(training) = &mut training
                && training.hear(running.said(), &self.stop).stops()
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
            // What a command said last counts like the rest, also if it has ended meanwhile.
            let said = std::mem::take(&mut ran.finished.said);
            if ran.exited_by_itself() && training.hear(said, &self.stop).stops() {
                return Ok(TrainingEnd::Stopped);
            }
            if training.is_cut_off {
                // Its value is not told without the verdicts on all of its reports.
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

    /// Asks a command that is not to train on to end, gives it its grace, and ends it then.
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
            Ok(TrainingEnd::Stopped) => unreachable!("nobody is there to stop it"),
            Err(failure) => Outcome::Failed(failure),
        }
    }

    fn train(&self, point: &Point, trial: TrialId, monitor: &dyn Monitor) -> TrainingEnd {
        let trained = self.run(point, trial, Some(monitor));
        trained.unwrap_or_else(|failure| TrainingEnd::Ended(Outcome::Failed(failure)))
    }
}

/// The state of a command's training, as far as it is known.
struct Training<'a> {
    monitor: &'a dyn Monitor,
    /// The signal by which it wants to be stopped.
    stop_by: Option<rustix::process::Signal>,
    is_stopped: bool,
    /// Something that it has said was not heard, as the run was stopped.
    is_cut_off: bool,
}

impl<'a> Training<'a> {
    fn new(monitor: &'a dyn Monitor) -> Self {
        Self { monitor, stop_by: None, is_stopped: false, is_cut_off: false }
    }

    /// Passes on what the command has said, until it is stopped or the run is (`stop`).
    fn hear(&mut self, said: Vec<TrainingMessage>, stop: &AtomicBool) -> Signal {
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
