//! Reasons why a trial has no usable value.

/// The reason why a trial has no value.
///
/// `stderr` is the tail of the command's standard error, without control characters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The value is NaN or infinite.
    #[error("the objective returned {0}, which is not a finite number")]
    NotFinite(f64),
    /// A number other than the value is NaN or infinite.
    #[error("the objective's {name:?} is not a finite number")]
    NotFiniteNumber {
        /// Name of the number.
        name: String,
    },
    /// The objective returned a different number of values than the study expects.
    #[error("the objective returned {found} numbers, expected {expected}")]
    WrongNumbers {
        /// Number of returned values.
        found: usize,
        /// Number of expected values.
        expected: usize,
    },
    /// The objective panicked.
    #[error("the objective panicked: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// The objective cannot evaluate this point.
    #[error("the objective cannot evaluate this point: {message}")]
    BadPoint {
        /// The problem with the point.
        message: String,
    },
    /// The objective reported a failure.
    #[error("the objective reported: {message}")]
    Reported {
        /// The objective's message.
        message: String,
    },
    /// A model inside the objective could not be fitted or scored.
    #[error("the objective's model returned no score: {message}")]
    Model {
        /// The model's message.
        message: String,
    },
    /// The command could not be started.
    #[error("could not start {program}: {message}")]
    Spawn {
        /// The program, as found on PATH.
        program: String,
        /// The operating system's message.
        message: String,
    },
    /// The command was started, but its exit status or its output could not be read.
    #[error("lost track of the command: {message}")]
    Lost {
        /// The operating system's message.
        message: String,
    },
    /// The command exited with a status other than 0.
    #[error("the command ended with exit status {code}{}", Tail(stderr))]
    Exit {
        /// The status.
        code: i32,
        /// Tail of standard error.
        stderr: String,
    },
    /// The command was terminated by a signal that this program did not send.
    #[error("the command was ended by signal {signal}{}", Tail(stderr))]
    Signal {
        /// The signal's number, for example 9 if the kernel ran out of memory.
        signal: i32,
        /// Tail of standard error.
        stderr: String,
    },
    /// The command exceeded its time limit and was killed.
    #[error("the command was killed after its timeout of {timeout_s} s{}", Tail(stderr))]
    TimedOut {
        /// The time limit in seconds.
        timeout_s: f64,
        /// Tail of standard error.
        stderr: String,
    },
    /// The command printed nothing.
    #[error(
        "the command printed nothing; its last line must be a number or {{\"value\": ..}}{}",
        Tail(stderr)
    )]
    NoValue {
        /// Tail of standard error.
        stderr: String,
    },
    /// The command's last line does not contain the numbers that the study expects.
    #[error("the command's last line is {what}{}", Tail(stderr))]
    Numbers {
        /// The start of the line, the problem with the entry's name, and an example of a valid
        /// line.
        what: String,
        /// Tail of standard error.
        stderr: String,
    },
    /// The command's last line is not a value.
    #[error(
        "the command's last line is {line:?}, expected a number or {{\"value\": ..}}{}",
        Tail(stderr)
    )]
    Unparsable {
        /// Start of the line.
        line: String,
        /// Tail of standard error.
        stderr: String,
    },
}

impl Failure {
    /// Returns the kind of failure as a single word, for tables.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotFinite(_) | Self::NotFiniteNumber { .. } => "not-finite",
            Self::WrongNumbers { .. } | Self::Numbers { .. } => "numbers",
            Self::Panicked { .. } => "panicked",
            Self::BadPoint { .. } => "bad-point",
            Self::Reported { .. } => "reported",
            Self::Model { .. } => "model",
            Self::Spawn { .. } => "spawn",
            Self::Lost { .. } => "lost",
            Self::Exit { .. } => "exit",
            Self::Signal { .. } => "signal",
            Self::TimedOut { .. } => "timed-out",
            Self::NoValue { .. } => "no-value",
            Self::Unparsable { .. } => "unparsable",
        }
    }
}

/// Formats a tail of standard error as the end of a message; empty if there is none.
struct Tail<'a>(&'a str);

impl std::fmt::Display for Tail<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "; its standard error ends: {}", self.0) }
    }
}
