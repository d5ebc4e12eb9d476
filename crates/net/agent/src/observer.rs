//! Observers of a run.

use std::fmt;
use std::time::Duration;

use fedbo_protocol::{Trial, UpdateRejected};
use fedbo_space::Point;
use fedbo_storage::Told;
use fedbo_wire::{Problem, StudyState};

use crate::{BudgetReached, Misconduct};

/// Something that an agent does or meets beside its trials; displayed in a sentence.
#[derive(Clone, Copy, Debug)]
pub enum Notice<'a> {
    /// The run begins; the study promises this of what is sent, in one sentence.
    StudyOpened(&'a str),
    /// The study's rounds are so short that when the agent speaks shows how long its trials take; said in one sentence.
    RoundsAreShort(&'a str),
    /// A round began; nothing is sent in it if the flag is false.
    RoundBegan(u64, bool),
    /// The coordinator has the upload of a round.
    UploadSent(u64),
    /// The upload of a round came too late, or is not collected; the agent goes on.
    UploadMissed(u64, &'a Problem),
    /// The coordinator lost the upload of a round, and was sent the same once more.
    UploadResent(u64),
    /// There was no answer; the request is repeated after this time.
    Retrying(&'a str, Duration),
    /// The study waits to begin, or is paused; said once each time.
    StudyWaits(StudyState),
    /// At a free pace: the agent's plan is done, and its last upload waits for a window. Said once a run.
    WaitsToDeliver,
    /// The agent's own budget allows no upload any more; it goes on with what others release. Said once a run.
    BudgetReached(&'a BudgetReached),
    /// A part of a handout does not fit this agent and is not used.
    Refused(&'a UpdateRejected),
    /// The coordinator did what none may do; the run ends.
    CoordinatorRefused(&'a Misconduct),
}

impl fmt::Display for Notice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::StudyOpened(text) | Self::RoundsAreShort(text) => f.write_str(text),
            Self::RoundBegan(round, true) => write!(f, "round {round}"),
            Self::RoundBegan(round, false) => write!(f, "round {round}, nothing is sent in it"),
            Self::UploadSent(round) => write!(f, "round {round}: sent"),
            Self::UploadMissed(round, why) => {
                write!(f, "round {round} goes on without this agent: {}", why.message)
            }
            Self::UploadResent(round) => {
                write!(f, "round {round}: sent once more, as the coordinator asked for it")
            }
            Self::Retrying(why, next) => {
                write!(f, "{why}; trying again in {:.1} s", next.as_secs_f64())
            }
            Self::StudyWaits(state) => write!(f, "the study is {state}"),
            Self::WaitsToDeliver => {
                f.write_str("all trials are done; what they showed last is sent in the next window")
            }
            Self::BudgetReached(reached) => write!(f, "nothing more is sent: {reached}"),
            Self::Refused(rejected) => write!(f, "{rejected}"),
            Self::CoordinatorRefused(misconduct) => write!(f, "{misconduct}"),
        }
    }
}

/// Hears what an agent does. What it hears is durable already.
pub trait Observer {
    /// A trial is about to be evaluated.
    fn trial_started(&self, trial: &Trial, point: &Point) {
        let (_, _) = (trial, point);
    }

    /// A trial was told.
    fn trial_ended(&self, trial: &Trial, point: &Point, told: &Told) {
        let (_, _, _) = (trial, point, told);
    }

    /// Something else happened.
    fn notice(&self, notice: &Notice<'_>) {
        let _ = notice;
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
