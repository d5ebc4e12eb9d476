//! Observers of a run.

use std::time::Duration;

use fedbo_protocol::{Trial, UpdateRejected};
use fedbo_space::Point;
use fedbo_storage::Told;
use fedbo_wire::{Problem, StudyState};

use crate::{BudgetReached, Misconduct};

/// Hears what an agent does. What it hears is durable already.
pub trait Observer {
    /// The run begins; `promise` is what the study promises of what is sent, in one sentence.
    fn study_opened(&self, promise: &str) {
        let _ = promise;
    }

    /// The study's rounds are so short that when the agent speaks shows how long its trials take; said in one sentence.
    fn rounds_are_short(&self, warning: &str) {
        let _ = warning;
    }

    /// A round began.
    fn round_began(&self, round: u64, collects: bool) {
        let (_, _) = (round, collects);
    }

    /// A trial is about to be evaluated.
    fn trial_started(&self, trial: &Trial, point: &Point) {
        let (_, _) = (trial, point);
    }

    /// A trial was told.
    fn trial_ended(&self, trial: &Trial, point: &Point, told: &Told) {
        let (_, _, _) = (trial, point, told);
    }

    /// The coordinator has the upload of a round.
    fn upload_sent(&self, round: u64) {
        let _ = round;
    }

    /// The upload of a round came too late, or is not collected; the agent goes on.
    fn upload_missed(&self, round: u64, why: &Problem) {
        let (_, _) = (round, why);
    }

    /// The coordinator lost the upload of a round, and was sent the same once more.
    fn upload_resent(&self, round: u64) {
        let _ = round;
    }

    /// There was no answer; the request is repeated after this time.
    fn retrying(&self, why: &str, next: Duration) {
        let (_, _) = (why, next);
    }

    /// The study waits to begin, or is paused; said once each time.
    fn study_waits(&self, state: StudyState) {
        let _ = state;
    }

    /// At a free pace: the agent's plan is done, and its last upload waits for a window. Said once a run.
    fn waits_to_deliver(&self) {}

    /// The agent's own budget allows no upload any more; it goes on with what others release. Said once a run.
    fn budget_reached(&self, reached: &BudgetReached) {
        let _ = reached;
    }

    /// A part of a handout does not fit this agent and is not used.
    fn refused(&self, rejected: &UpdateRejected) {
        let _ = rejected;
    }

    /// The coordinator did what none may do; the run ends.
    fn coordinator_refused(&self, misconduct: &Misconduct) {
        let _ = misconduct;
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
