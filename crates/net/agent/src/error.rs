//! Errors of an agent.

use std::path::PathBuf;

use fedbo_config::FileError;
use fedbo_gp::GpError;
use fedbo_party::{EvaluationError, HomeError, TrialsError};
use fedbo_protocol::AgentError;
use fedbo_secure_sum::{NotSealed, NotShared};
use fedbo_servers::NoSum;
use fedbo_strategies::StrategyError;
use fedbo_transport::LinkError;
use fedbo_wire::{ClockDiffers, ProblemCode, PublicKey};

use crate::{Misconduct, NotFollowed, Unpriced, Unprotected};

/// An error that prevents the enrolment of an agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolError {
    /// The address is none of a coordinator.
    #[error("coordinator URL = {url:?}: {message}")]
    Url {
        /// The address.
        url: String,
        /// The defect of the address, and the remedy.
        message: String,
    },
    /// The home.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The coordinator does not answer, or refuses.
    #[error("{url}: {source}")]
    Link {
        /// The address.
        url: String,
        /// The cause.
        source: LinkError,
    },
    /// The party that answers is not the coordinator that the token names.
    #[error("{url}: {message}; nothing was stored; ask the study's operator")]
    Impostor {
        /// The address.
        url: String,
        /// The mismatch that was found.
        message: String,
    },
    /// The study's helper is not the one that the agent's owner named.
    #[error(
        "the helper of study {study:?} has the key {found}, and the card of --helper the key {named}; nothing was stored. Ask the helper's operator \
         for the card once more; if it is the same, do not take part: somebody has put another server in its place"
    )]
    OtherHelper {
        /// The study.
        study: String,
        /// The key of the study's helper.
        found: PublicKey,
        /// The key of the helper that was named.
        named: PublicKey,
    },
    /// Two servers sum, and the agent's owner did not name the other party's.
    #[error(
        "vectors of study {study:?} are summed by two servers of two parties. One is this coordinator, the other says that it is at {helper_url}, with the \
         card\n  {card}\nAsk the other party itself for its card, and give it with --helper; nothing was stored"
    )]
    HelperUnnamed {
        /// The study.
        study: String,
        /// The helper's address.
        helper_url: String,
        /// The helper's card, as the configuration says.
        card: String,
    },
    /// The study's secure sum cannot be taken part in.
    #[error(transparent)]
    Sum(#[from] NoSum),
    /// The study's configuration cannot be used by this program.
    #[error("the study cannot be joined with this version of fedbo: {0}")]
    Config(#[from] FileError),
    /// The home takes part in another study of this name.
    #[error(
        "{}: the agent has joined a study {study:?} already, {differs}; name another home for this one", path.display()
    )]
    Joined {
        /// The home.
        path: PathBuf,
        /// The name.
        study: String,
        /// The difference.
        differs: String,
    },
}

/// An error that stops an agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Its file.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its home.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Its trials cannot be read or written.
    #[error(transparent)]
    Trials(#[from] TrialsError),
    /// The study's secure sum cannot be taken part in.
    #[error(transparent)]
    Sum(#[from] NoSum),
    /// A vector cannot be shared out.
    #[error(transparent)]
    Shared(#[from] NotShared),
    /// A share cannot be sealed.
    #[error(transparent)]
    Sealed(#[from] NotSealed),
    /// The study charges privacy, and the agent has no budget of its own.
    #[error(
        "study {study:?} charges privacy, and the agent's file says nothing of what it may spend over all its studies; add \
         [privacy] with epsilon_max = {epsilon} and delta = {delta:e}, which is this study's own budget"
    )]
    NoBudget {
        /// The study.
        study: String,
        /// The study's own budget.
        epsilon: f64,
        /// The study's own δ.
        delta: f64,
    },
    /// The agent has a budget, and the study does not charge it (INV-25).
    #[error(
        "study {study:?} {what}, and the agent has a budget (in [privacy] of its file, or of one that its folder was used with \
         before), so nothing is sent to it; to take part all the same, write allow_unprotected = [{study:?}] under [privacy], \
         beside epsilon_max"
    )]
    Unprotected {
        /// The study.
        study: String,
        /// The reason why its uploads are not charged as in the default mode.
        what: Unprotected,
    },
    /// The cost of its uploads is not known.
    #[error(transparent)]
    Unpriced(#[from] Unpriced),
    /// It began with another seed.
    #[error(
        "agent.seed = {given} is not the seed with which study {study:?} was begun; take the key back as it was, or leave it out"
    )]
    OtherSeed {
        /// The study.
        study: String,
        /// The seed in the agent's file.
        given: u64,
    },
    /// There is no seed to draw.
    #[error("the operating system gives no random numbers ({cause}); give agent.seed")]
    NoRandomness {
        /// The system's error message.
        cause: String,
    },
    /// The study's releases cannot be followed.
    #[error(transparent)]
    NotFollowed(#[from] NotFollowed),
    /// The shared features cannot be drawn.
    #[error("the features that the study's agents share cannot be drawn: {0}")]
    Features(#[from] GpError),
    /// The strategy refuses its settings.
    #[error("the study's configuration cannot be used: {0}")]
    Strategy(#[from] StrategyError),
    /// No point of the agent's region was found.
    #[error("no initial point of the agent's region was found; ask the study's operator")]
    NoStart,
    /// The study's agents have no coordinator.
    #[error("the study's agents share with neighbours and have no coordinator; use `fedbo peer`")]
    Neighbours,
    /// The agent's slot is not in the configuration.
    #[error("slot {slot} is none of the study's {n_agents} slots: the agent's memory is damaged")]
    NoSlot {
        /// The slot.
        slot: u32,
        /// N.
        n_agents: usize,
    },
    /// The agent's machine failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The objective cannot be evaluated at all, whatever the point.
    #[error("{message}; the trial was given back, mend the command and start again")]
    Objective {
        /// The defect of the objective.
        message: String,
    },
    /// The system gives no thread for a trial.
    #[error(
        "no thread could be started for a trial ({cause}); free some of the machine's resources, and start again: nothing is lost"
    )]
    NoThread {
        /// The system's error message.
        cause: String,
    },
    /// The objective failed for one point after another.
    #[error(
        "{}, the last one because {last}\nthey are kept as failed, and nothing more is evaluated; \
         mend the command of [objective], then run the agent again: it goes on with the next trial (failures_max in [agent] is \
         the number of failures in a row that ends a run; 0: none does)",
        in_a_row(*n_in_a_row)
    )]
    Failing {
        /// The number of failures in a row.
        n_in_a_row: u64,
        /// The cause of the last failure.
        last: String,
    },
    /// The agent's upload for a round differs from the one that it made before.
    #[error(
        "round {round}: what the agent made for it is not what it would make now, so nothing is sent; its trials, its file \
         or this program have changed: put back what was there"
    )]
    UploadDiffers {
        /// The round.
        round: u64,
    },
    /// A handout that was taken before is refused now.
    #[error("the agent's memory is damaged: its handout of round {round} is refused: {source}")]
    Log {
        /// The round after which it was taken; 0 for the first.
        round: u64,
        /// The reason for the refusal.
        source: Misconduct,
    },
    /// A handout was taken at another place.
    #[error(
        "the agent's memory and its trials do not fit each other: a round began after {logged} trials, there are {found} now; \
         restore both from the same copy"
    )]
    LogOrder {
        /// Trials that the memory knows.
        logged: u64,
        /// Trials that there are.
        found: u64,
    },
    /// The coordinator did what none may do. Nothing is uploaded any more.
    #[error(
        "the coordinator is not to be trusted, so the agent stops and uploads nothing more: {0}; ask the study's operator, \
         and keep the agent's folder: what was refused is in it under the coordinator's signature"
    )]
    Misconduct(#[from] Misconduct),
    /// The coordinator refuses for good.
    #[error("the coordinator refuses {what}: {message} ({code})")]
    Refused {
        /// The request that was refused.
        what: &'static str,
        /// The reason, as a code.
        code: ProblemCode,
        /// The same in words, with the way out.
        message: String,
    },
    /// The clocks differ too much: requests would be refused, so nothing is evaluated for them.
    #[error(transparent)]
    Clock(#[from] ClockDiffers),
    /// There is no usable answer, and none is to be expected.
    #[error("{0}")]
    Link(LinkError),
}

/// The number of failed trials in a row, in words.
fn in_a_row(n: u64) -> String {
    match n {
        1 => "1 trial failed".to_owned(),
        n => format!("{n} trials in a row failed"),
    }
}

impl From<EvaluationError> for RunError {
    fn from(error: EvaluationError) -> Self {
        match error {
            EvaluationError::Trials(error) => Self::Trials(error),
            EvaluationError::Objective { message } => Self::Objective { message },
        }
    }
}

/// An error in replacing a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RotateError {
    /// The home.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A coordinator does not answer, or refuses.
    #[error(
        "study {study:?}: {source}; the new key is kept beside the old one, and both serve: start again to complete the change"
    )]
    Link {
        /// The study.
        study: String,
        /// The cause.
        source: LinkError,
    },
}
