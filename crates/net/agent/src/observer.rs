//! Observers for runs.

use std::fmt;
use std::time::Duration;

use fedbo_protocol::{Trial, UpdateRejected};
use fedbo_space::Point;
use fedbo_storage::Told;
use fedbo_wire::{Problem, StudyState};

use crate::{BudgetReached, Misconduct, TakenOver};

/// An event of a run, other than the start or end of a trial. Displayed as one sentence.
#[derive(Clone, Copy, Debug)]
pub enum Notice<'a> {
    /// The run begins. The text describes the protection of the agent's uploads in one sentence.
    StudyOpened(&'a str),
    /// The study's rounds are so short that the times of the agent's requests reveal the durations
    /// of its trials. The text is a warning in one sentence.
    RoundsAreShort(&'a str),
    /// The study's promised ε is so large that it offers hardly any protection. The text is a
    /// warning in one sentence.
    WeakProtection(&'a str),
    /// A round began. If the flag is false, nothing is sent in it.
    RoundBegan(u64, bool),
    /// The coordinator has the upload of a round.
    UploadSent(u64),
    /// The upload of a round was too late, or was not collected. The agent continues.
    UploadMissed(u64, &'a Problem),
    /// The coordinator lost the upload of a round, and the same bytes were sent again.
    UploadResent(u64),
    /// A request failed temporarily and is retried after this time.
    Retrying(&'a str, Duration),
    /// The study waits to begin, or is paused. Reported once per wait or pause.
    StudyWaits(StudyState),
    /// A round waits for the study's helper. Nothing is charged or sent until the helper has
    /// confirmed the round. Reported once per round.
    HelperAwaited(u64),
    /// The agent's plan is done, and its last upload waits for a window. Only at a free pace.
    /// Reported once per run.
    WaitsToDeliver,
    /// The agent's own budget allows no further upload. The agent continues with the releases of
    /// others. Reported once per run.
    BudgetReached(&'a BudgetReached),
    /// A coordinator has uploads of this agent that were missing from the agent's home. They are
    /// now charged.
    TakenOver(&'a TakenOver),
    /// The coordinator of a study has forgotten requests that got a response, so it was restored
    /// from a backup. The numbers are the counters of the last request that the coordinator knows
    /// and of the last request that got a response.
    CoordinatorSetBack(&'a str, u64, u64),
    /// The account of this agent could not be requested from another study's coordinator. The texts
    /// are the study and the reason.
    AccountUnchecked(&'a str, &'a str),
    /// A part of a handout does not fit this agent and was ignored.
    Refused(&'a UpdateRejected),
    /// The coordinator is guilty of misconduct. The run ends.
    CoordinatorRefused(&'a Misconduct),
}

impl fmt::Display for Notice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::StudyOpened(text) | Self::RoundsAreShort(text) | Self::WeakProtection(text) => {
                f.write_str(text)
            }
            Self::RoundBegan(round, true) => write!(f, "round {round}"),
            Self::RoundBegan(round, false) => write!(f, "round {round}, nothing is sent in it"),
            Self::UploadSent(round) => write!(f, "round {round}: sent"),
            Self::UploadMissed(round, why) => {
                write!(f, "round {round} continues without this agent: {}", why.message)
            }
            Self::UploadResent(round) => {
                write!(f, "round {round}: sent again, as the coordinator asked for it")
            }
            Self::Retrying(why, next) => {
                write!(f, "{why}; trying again in {:.1} s", next.as_secs_f64())
            }
            Self::StudyWaits(state) => write!(f, "the study is {state}"),
            Self::HelperAwaited(round) => {
                write!(
                    f,
                    "round {round} waits for the study's helper: nothing is charged until it answers"
                )
            }
            Self::WaitsToDeliver => {
                f.write_str("all trials are done; the last upload is sent in the next window")
            }
            Self::BudgetReached(reached) => write!(f, "nothing more is sent: {reached}"),
            Self::TakenOver(new) => write!(f, "{new}"),
            Self::CoordinatorSetBack(study, known, answered) => write!(
                f,
                "the coordinator of study {study:?} knows only request {known} of this agent, but has answered request \
                 {answered}: it was restored from a backup"
            ),
            Self::AccountUnchecked(study, why) => write!(
                f,
                "cannot ask the coordinator of study {study:?} for this agent's uploads ({why}); if this home was restored \
                 from an older copy, its account may be too low: run `fedbo agent reconcile` before you continue"
            ),
            Self::Refused(rejected) => write!(f, "{rejected}"),
            Self::CoordinatorRefused(misconduct) => write!(f, "{misconduct}"),
        }
    }
}

/// Observes a run. Every event is durable before it is reported.
pub trait Observer {
    /// A trial is about to be evaluated.
    fn trial_started(&self, trial: &Trial, point: &Point) {
        let (_, _) = (trial, point);
    }

    /// A trial has ended.
    fn trial_ended(&self, trial: &Trial, point: &Point, told: &Told) {
        let (_, _, _) = (trial, point, told);
    }

    /// Something else happened.
    fn notice(&self, notice: &Notice<'_>) {
        let _ = notice;
    }
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
