//! The reports that a peer sends to its neighbours.

use std::fmt;

/// A peer's observations of one round, sent to its neighbours (Algorithm 1, line 13). The
/// observations are raw, so reports are not private.
///
/// A peer creates one report per round, in order and without gaps, starting with its initial points
/// in round 0. The round is therefore also the report's index in the sender's log, and a receiver
/// that counts reports uses each report exactly once.
#[derive(Clone, PartialEq)]
pub struct Report {
    /// Index of the sender.
    pub sender: u32,
    /// The round, which is also the report's index in the log.
    pub round: u64,
    /// The shared observations: one per round, except in round 0, which contains the observations
    /// at the shared initial points.
    pub observations: Vec<Shared>,
    /// True if this is the sender's last report.
    pub is_last: bool,
}

/// A shared observation.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// Coordinates in `[0,1]^d`.
    pub unit: Vec<f64>,
    /// The value, to be maximized; `None` if the trial failed.
    pub value: Option<f64>,
}

impl fmt::Debug for Report {
    /// Prints only counts, so that observations stay out of logs.
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

/// The reason that a report, or an observation in a report, is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportRejected {
    /// The sender is not a neighbour in any round.
    #[error("agent {sender} is not a neighbour of agent {receiver}")]
    Stranger {
        /// The sender.
        sender: u32,
        /// The receiver.
        receiver: u32,
    },
    /// The round is after the last round of any agent.
    #[error("agent {sender} reports round {round}; rounds end at {last}")]
    BeyondTheEnd {
        /// The sender.
        sender: u32,
        /// Round of the report.
        round: u64,
        /// The last round.
        last: u64,
    },
    /// The sender has already sent its last report.
    #[error("agent {sender} reports round {round} after its last one")]
    AfterTheLast {
        /// The sender.
        sender: u32,
        /// Round of the report.
        round: u64,
    },
    /// The report contains more observations than a round has. It is not used, but the round counts
    /// as reported.
    #[error("agent {sender} reports {found} observations of round {round}, at most {most}")]
    TooMany {
        /// The sender.
        sender: u32,
        /// Round of the report.
        round: u64,
        /// Number of observations in the report.
        found: usize,
        /// Maximum number of observations.
        most: usize,
    },
    /// A point is not in the unit cube, or a value is not finite. The observation is not used.
    #[error("agent {sender} reports an invalid observation of round {round}: {reason}")]
    NoObservation {
        /// The sender.
        sender: u32,
        /// Round of the report.
        round: u64,
        /// The reason.
        reason: &'static str,
    },
    /// No model can be fitted to all of the sender's reports. The model from the earlier reports is
    /// kept, and the fit is retried with the next report.
    #[error("the reports of agent {sender} are not used: {reason}")]
    NoModel {
        /// The sender.
        sender: u32,
        /// The reason.
        reason: String,
    },
}
