//! The report of a round from a peer to its neighbours.

use std::fmt;

/// A peer's observations of one round, on their way to its neighbours (Algorithm 1 line 13). Observations are raw:
/// nothing here is private.
///
/// A peer makes one report a round, in order and without gaps, from round 0, its initial points. So the round is also the
/// report's number in its sender's log, and a receiver that counts reports takes each exactly once.
#[derive(Clone, PartialEq)]
pub struct Report {
    /// Index of the sender.
    pub sender: u32,
    /// The round, which is also the report's number.
    pub round: u64,
    /// The observations that are shared: one, or in round 0 as many as the sender shares of its initial points.
    pub observations: Vec<Shared>,
    /// True if this is the sender's last report.
    pub is_last: bool,
}

/// An observation that is shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// Coordinates in `[0,1]^d`.
    pub unit: Vec<f64>,
    /// The value, to be maximized; `None` if the trial failed.
    pub value: Option<f64>,
}

impl fmt::Debug for Report {
    /// Prints numbers of things only: observations stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Report {{ sender: {}, round: {}, {} observations, is_last: {} }}",
            self.sender,
            self.round,
            self.observations.len(),
            self.is_last
        )
    }
}

/// The reason why a report, or an observation in it, is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportRejected {
    /// The sender is no neighbour, and is none in any other round.
    #[error("agent {sender} is no neighbour of agent {receiver}")]
    Stranger {
        /// The sender.
        sender: u32,
        /// The receiver.
        receiver: u32,
    },
    /// The round is beyond all that any agent plays.
    #[error("agent {sender} reports round {round}; rounds end at {last}")]
    BeyondTheEnd {
        /// The sender.
        sender: u32,
        /// The round that it names.
        round: u64,
        /// The last round.
        last: u64,
    },
    /// The sender had said that a report was its last.
    #[error("agent {sender} reports round {round} after its last one")]
    AfterTheLast {
        /// The sender.
        sender: u32,
        /// The round that it names.
        round: u64,
    },
    /// The report holds more observations than a round has. None of it is used, the round counts as reported.
    #[error("agent {sender} reports {found} observations of round {round}, at most {most}")]
    TooMany {
        /// The sender.
        sender: u32,
        /// Its round.
        round: u64,
        /// Observations in it.
        found: usize,
        /// Observations that it may have.
        most: usize,
    },
    /// A point is not in the unit cube of the space, or a value is not finite. This observation is not used.
    #[error("agent {sender} reports an observation of round {round} that cannot be one: {reason}")]
    NoObservation {
        /// The sender.
        sender: u32,
        /// Its round.
        round: u64,
        /// The reason.
        reason: &'static str,
    },
    /// No model can be made of all that the sender has reported. What was learned from it before stays, and its next report is tried again.
    #[error("nothing is learned from what agent {sender} has reported: {reason}")]
    NoModel {
        /// The sender.
        sender: u32,
        /// The reason.
        reason: String,
    },
}
