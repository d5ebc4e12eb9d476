//! Errors of an agent.

use std::path::PathBuf;

use fedbo_config::FileError;
use fedbo_error_class::{Class, Classified};
use fedbo_gp::GpError;
use fedbo_party::{EvaluationError, HomeError, TrialsError};
use fedbo_protocol::AgentError;
use fedbo_secure_sum::{NotSealed, NotShared};
use fedbo_servers::NoSum;
use fedbo_strategies::StrategyError;
use fedbo_transport::LinkError;
use fedbo_wire::{ClockDiffers, ProblemCode, PublicKey};

use crate::{Misconduct, NotFollowed, Unpriced, Unprotected};

/// An error that prevents an agent's enrolment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolError {
    /// The address is not a valid coordinator address.
    #[error("coordinator URL = {url:?}: {message}")]
    Url {
        /// The address.
        url: String,
        /// The defect of the address, and the remedy.
        message: String,
    },
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The coordinator does not respond, or refuses.
    #[error("{url}: {source}")]
    Link {
        /// The address.
        url: String,
        /// The cause.
        source: LinkError,
    },
    /// The server at this address is not the coordinator that the token names.
    #[error(
        "{url}: {message}; nothing was stored, and the token was not used; ask the study's operator"
    )]
    Impostor {
        /// The address.
        url: String,
        /// The mismatch that was found.
        message: String,
    },
    /// The study's helper is not the one that the agent's owner named.
    #[error(
        "the helper of study {study:?} has the key {found}, but the card of --helper has the key {named}; nothing was stored, \
         and the token can still be used. Ask the helper's operator for the card again; if it is the same, do not take part: \
         somebody has replaced the helper by another server"
    )]
    OtherHelper {
        /// The study.
        study: String,
        /// The key of the study's helper.
        found: PublicKey,
        /// The key of the helper that was named.
        named: PublicKey,
    },
    /// Two servers sum, and the agent's owner did not name the other party's server.
    #[error(
        "vectors of study {study:?} are summed by two servers of two parties. One is this coordinator, the other is said to \
         be at {helper_url}, with the card\n  {card}\nAsk the other party itself for its card, and pass it with --helper; \
         nothing was stored, and the token can still be used"
    )]
    HelperUnnamed {
        /// The study.
        study: String,
        /// The address of the helper in the configuration.
        helper_url: String,
        /// The helper's card in the configuration.
        card: String,
    },
    /// The agent cannot take part in the study's secure sum.
    #[error(transparent)]
    Sum(#[from] NoSum),
    /// The study's configuration cannot be used by this program.
    #[error("the study cannot be joined with this version of fedbo: {0}")]
    Config(#[from] FileError),
    /// A run of the study would be refused by this program.
    #[error(
        "the study cannot be run with this version of fedbo: {0}; nothing was stored, and the token can still be used"
    )]
    Unusable(#[source] Box<RunError>),
    /// The coordinator assigned a different slot than the one it had offered.
    #[error(
        "{url}: the coordinator offered {offered} but gave {given}; nothing was stored, and the token is used up: ask the \
         study's operator for the reason and for a new token"
    )]
    OtherPlace {
        /// The address.
        url: String,
        /// The study and slot that were offered.
        offered: String,
        /// The study and slot that were assigned.
        given: String,
    },
    /// The home already has a different study with this name.
    #[error(
        "{}: the agent has already joined a study {study:?}, {differs}; use another home for this one", path.display()
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

impl Classified for EnrolError {
    fn class(&self) -> Class {
        match self {
            Self::Link { .. }
            | Self::Impostor { .. }
            | Self::OtherPlace { .. }
            | Self::OtherHelper { .. } => Class::Remote,
            Self::Home(error) => error.class(),
            _ => Class::Input,
        }
    }
}

/// An error that prevents moving studies to a coordinator's new address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// The address is not a valid coordinator address.
    #[error("coordinator URL = {url:?}: {message}")]
    Url {
        /// The address.
        url: String,
        /// The defect of the address, and the remedy.
        message: String,
    },
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The coordinator does not respond, or refuses.
    #[error("{url}: {source}")]
    Link {
        /// The address.
        url: String,
        /// The cause.
        source: LinkError,
    },
    /// The server at this address is not the agent's coordinator.
    #[error("{url}: {message}; the old address is kept; ask the study's operator")]
    Impostor {
        /// The address.
        url: String,
        /// The mismatch that was found.
        message: String,
    },
    /// The agent's studies have several coordinators, and no study was named.
    #[error(
        "the agent's studies {studies} have several coordinators; use --study to name a study of the coordinator that has moved"
    )]
    WhichCoordinator {
        /// The studies.
        studies: String,
    },
    /// No study is left to move.
    #[error("{}: no unfinished study of the agent has this coordinator", path.display())]
    NoStudy {
        /// The home.
        path: PathBuf,
    },
    /// The agent cannot take part in the study's secure sum.
    #[error(transparent)]
    Sum(#[from] NoSum),
    /// The study's configuration cannot be used by this program.
    #[error("the study cannot be used with this version of fedbo: {0}")]
    Config(#[from] FileError),
}

impl Classified for MoveError {
    fn class(&self) -> Class {
        match self {
            Self::Home(error) => error.class(),
            Self::Link { .. } | Self::Impostor { .. } => Class::Remote,
            _ => Class::Input,
        }
    }
}

/// An error that stops a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The agent's file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The agent's home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The agent's trials cannot be read or written.
    #[error(transparent)]
    Trials(#[from] TrialsError),
    /// The agent cannot take part in the study's secure sum.
    #[error(transparent)]
    Sum(#[from] NoSum),
    /// A vector cannot be split into shares.
    #[error(transparent)]
    Shared(#[from] NotShared),
    /// A share cannot be sealed.
    #[error(transparent)]
    Sealed(#[from] NotSealed),
    /// A share cannot be sealed for the helper, because the helper's key for the round is missing.
    #[error("the study's helper has not confirmed round {round}: nothing can be sealed for it yet")]
    NotAnswered {
        /// The round.
        round: u64,
    },
    /// The study charges privacy, but the agent has no budget.
    #[error(
        "study {study:?} charges privacy, but the agent's file sets no budget over all its studies; add [privacy] with \
         epsilon_max = {epsilon} and delta = {delta:e}, which is this study's own budget"
    )]
    NoBudget {
        /// The study.
        study: String,
        /// The study's own ε.
        epsilon: f64,
        /// The study's own δ.
        delta: f64,
    },
    /// The agent has a budget, but the study does not charge it as the default mode does, and the
    /// agent's owner has not exempted the study (INV-25).
    #[error(
        "study {study:?} {what}, and the agent has a budget (in [privacy] of its file, or of a file used earlier with its \
         folder), so nothing is sent to it; to take part anyway, set allow_unprotected = [{study:?}] under [privacy], next to \
         epsilon_max"
    )]
    Unprotected {
        /// The study.
        study: String,
        /// The reason why its uploads are not charged as in the default mode.
        what: Unprotected,
    },
    /// The cost of the agent's uploads is not known.
    #[error(transparent)]
    Unpriced(#[from] Unpriced),
    /// The agent began the study with a different seed.
    #[error(
        "agent.seed = {given} is not the seed with which study {study:?} was started; restore the previous value, or remove the key"
    )]
    OtherSeed {
        /// The study.
        study: String,
        /// The seed in the agent's file.
        given: u64,
    },
    /// No seed can be drawn.
    #[error("the operating system provides no random numbers ({cause}); set agent.seed")]
    NoRandomness {
        /// The system's error message.
        cause: String,
    },
    /// The study's releases cannot be followed.
    #[error(transparent)]
    NotFollowed(#[from] NotFollowed),
    /// The shared random features cannot be drawn.
    #[error("the features that the study's agents share cannot be drawn: {0}")]
    Features(#[from] GpError),
    /// The strategy refuses its settings.
    #[error("the study's configuration cannot be used: {0}")]
    Strategy(#[from] StrategyError),
    /// No initial point was found in the agent's region.
    #[error("no initial point was found in the agent's region; ask the study's operator")]
    NoStart,
    /// The study's agents exchange messages with neighbours, without a coordinator.
    #[error("the study's agents share with neighbours and have no coordinator; use `fedbo peer`")]
    Neighbours,
    /// The agent's slot is not in the configuration.
    #[error(
        "slot {slot} is not one of the study's {n_agents} slots: the agent's database is damaged"
    )]
    NoSlot {
        /// The slot.
        slot: u32,
        /// The number of agents, N.
        n_agents: usize,
    },
    /// The agent's machine failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The objective cannot be evaluated at any point.
    #[error("{message}; the trial was released; fix the command and start again")]
    Objective {
        /// The defect of the objective.
        message: String,
    },
    /// The operating system cannot start a thread for a trial.
    #[error(
        "cannot start a thread for a trial ({cause}); free some of the machine's resources, and start again: nothing is lost"
    )]
    NoThread {
        /// The system's error message.
        cause: String,
    },
    /// The objective failed for several points in a row.
    #[error(
        "{}, the last one because {last}\nthey are kept as failed, and no more trials are evaluated; fix the command of \
         [objective], then run the agent again: it continues with the next trial (failures_max in [agent] is the number of \
         failures in a row that ends a run; 0: no limit)",
        in_a_row(*n_consecutive)
    )]
    Failing {
        /// The number of failures in a row.
        n_consecutive: u64,
        /// The cause of the last failure.
        last: String,
    },
    /// The upload that the agent would make for a round differs from the stored one.
    #[error(
        "round {round}: the agent's stored upload differs from the one that it would make now, so nothing is sent; its \
         trials, its file or this program have changed: restore the previous version"
    )]
    UploadDiffers {
        /// The round.
        round: u64,
    },
    /// A handout in the log is no longer accepted.
    #[error("the agent's database is damaged: its handout of round {round} is refused: {source}")]
    Log {
        /// The round after which the handout was taken, or 0 for the first handout.
        round: u64,
        /// The reason for the refusal.
        source: Misconduct,
    },
    /// A handout was logged after a different number of finished trials than there are now.
    #[error(
        "the agent's database does not match its trials: a round began after {logged} trials, but there are {found} now; \
         restore both from the same copy"
    )]
    LogOrder {
        /// Number of finished trials before the handout, according to the log.
        logged: u64,
        /// Number of finished trials now.
        found: u64,
    },
    /// The coordinator is guilty of misconduct. Nothing more is uploaded.
    #[error(
        "the coordinator is not to be trusted, so the agent stops and uploads nothing more: {0}; ask the study's operator, \
         and keep the agent's folder: it contains the refused handout with the coordinator's signature"
    )]
    Misconduct(#[from] Misconduct),
    /// The coordinator permanently refused a request.
    #[error("the coordinator refuses {what}: {message} ({code})")]
    Refused {
        /// The request that was refused.
        what: &'static str,
        /// The reason, as a problem code.
        code: ProblemCode,
        /// The coordinator's message, with the remedy.
        message: String,
    },
    /// The home does not contain the last request that was sent in its name (INV-28).
    #[error(
        "study {study:?}: its coordinator has seen request {coordinator} of this agent, but the last request of this home is \
         {home}: the home was restored from an older copy, or is used on two machines. Nothing was sent; rounds that the home \
         did not know are charged to its account. Stop the other machine, if there is one, then run `fedbo agent reconcile`"
    )]
    RolledBack {
        /// The study.
        study: String,
        /// Counter of the home's last request.
        home: u64,
        /// Counter of the last request that the coordinator has seen.
        coordinator: u64,
    },
    /// The clocks differ too much. Requests would be refused, so no trial is evaluated.
    #[error(transparent)]
    Clock(#[from] ClockDiffers),
    /// There is no usable response, and a retry would not help.
    #[error("{0}")]
    Link(LinkError),
}

impl Classified for RunError {
    fn class(&self) -> Class {
        match self {
            Self::Home(error) => error.class(),
            Self::Trials(error) => error.class(),
            Self::Misconduct(_) | Self::Refused { .. } | Self::Link(_) => Class::Remote,
            Self::NoRandomness { .. } | Self::NoThread { .. } | Self::Agent(_) => Class::Internal,
            Self::Failing { .. } => Class::NoTrial,
            _ => Class::Input,
        }
    }
}

/// Describes a number of consecutive failed trials in words.
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

/// An error that prevents an agent from taking over its spending from the coordinators' accounts
/// and ledgers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReconcileError {
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The study's configuration cannot be used by this program.
    #[error(transparent)]
    Config(#[from] FileError),
    /// The study's releases cannot be followed.
    #[error(transparent)]
    NotFollowed(#[from] NotFollowed),
    /// The agent cannot take part in the study's secure sum.
    #[error(transparent)]
    Sum(#[from] NoSum),
    /// A coordinator does not respond, or refuses.
    #[error(
        "study {study:?}: {source}; the charges taken over so far are kept: run the command again to complete them"
    )]
    Link {
        /// The study.
        study: String,
        /// The cause.
        source: LinkError,
    },
    /// A coordinator is guilty of misconduct.
    #[error(
        "study {study:?}: the coordinator is not to be trusted: {source}; nothing was taken over from its ledger; ask the study's operator"
    )]
    Misconduct {
        /// The study.
        study: String,
        /// The misconduct.
        source: Box<Misconduct>,
    },
}

impl Classified for ReconcileError {
    fn class(&self) -> Class {
        match self {
            Self::Home(error) => error.class(),
            Self::Link { source: LinkError::Setting(_), .. } => Class::Input,
            Self::Link { .. } | Self::Misconduct { .. } => Class::Remote,
            _ => Class::Input,
        }
    }
}

/// An error that interrupts a key rotation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RotateError {
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A coordinator does not respond, or refuses.
    #[error(
        "study {study:?}: {source}; the new key is kept next to the old one, and both work: run the command again to complete the change"
    )]
    Link {
        /// The study.
        study: String,
        /// The cause.
        source: LinkError,
    },
}

impl Classified for RotateError {
    fn class(&self) -> Class {
        match self {
            Self::Home(error) => error.class(),
            Self::Link { .. } => Class::Remote,
        }
    }
}
