//! A session in rounds. It evaluates the round's trial, delivers its upload, and waits for the next
//! round.

use fedbo_party::{Evaluated, evaluate_trial};
use fedbo_protocol::{AgentEffect, AgentUpdate, Trial};

use crate::dialogue::Rounds;
use crate::dialogue::rounds::{Outgoing, Task};
use crate::exchange::Supply;
use crate::intake::Intake;
use crate::link::Place;
use crate::log::UploadState;
use crate::session::{Core, Ended, Step};
use crate::{Notice, RunError};

impl Core<'_> {
    /// Performs one step: evaluates a trial, sends an upload, or polls for the next round.
    pub(crate) fn advance_rounds(&mut self, rounds: &mut Rounds) -> Result<Step, RunError> {
        if self.is_stopped() {
            return Ok(Step::Ended(Ended::Interrupted));
        }
        self.contact.check_trust()?;
        if let Some(round) = self.contact.resend {
            let task = Task::Resend { round, is_kept: self.keeps(round)? };
            return self.take_turn(rounds, task);
        }
        match self.queue.pop_front() {
            Some(AgentEffect::Evaluate(trial)) => self.evaluate(rounds, trial),
            Some(AgentEffect::Upload(update)) => self.deliver(rounds, update),
            Some(AgentEffect::Refused(rejected)) => {
                self.observer.notice(&Notice::Refused(&rejected));
                Ok(Step::Went)
            }
            Some(AgentEffect::Finished) => {
                self.queue.push_front(AgentEffect::Finished);
                self.finish(Ended::Complete)
            }
            None => self.next_round(rounds),
        }
    }

    fn take_turn(&mut self, rounds: &mut Rounds, task: Task) -> Result<Step, RunError> {
        let step = self.turn(rounds, task, Supply::none(self.n_told))?;
        Ok(step.unwrap_or(Step::Went))
    }

    fn evaluate(&mut self, rounds: &mut Rounds, trial: Trial) -> Result<Step, RunError> {
        // Check that the clocks agree, and request the start time of the round, before doing
        // anything expensive.
        if !self.contact.is_met
            && !self.trials.was_finished(trial.index)
            && let Some(step) = self.turn(rounds, Task::Meet, Supply::none(self.n_told))?
        {
            self.queue.push_front(AgentEffect::Evaluate(trial));
            return Ok(step);
        }
        let point = self.federation.space.decode(&trial.unit);
        let (objective, slot) = (self.objective.as_ref(), self.membership.slot);
        let started = || self.observer.trial_started(&trial, &point);
        let asked = (&trial, &point);
        let evaluated =
            evaluate_trial(&self.trials, objective, slot, asked, self.ask_seconds, started);
        let told = match evaluated? {
            Evaluated::Before(told) => told,
            Evaluated::Now(told) => {
                rounds.trial_ended(&self.contact, self.clock.elapsed_ms());
                self.note_result(&trial, &point, &told);
                told
            }
            Evaluated::Interrupted => {
                self.queue.push_front(AgentEffect::Evaluate(trial));
                return Ok(Step::Ended(Ended::Interrupted));
            }
        };
        self.tell(&trial, told)
    }

    /// Delivers an upload, unless it was already decided.
    fn deliver(&mut self, rounds: &mut Rounds, update: AgentUpdate) -> Result<Step, RunError> {
        let round = update.round;
        let made = self.log().upload(round)?;
        let mut bytes = Vec::new();
        if let Some(made) = &made {
            let is_pending = made.state == UploadState::Pending;
            bytes = match self.intake {
                Intake::Sum(_) if is_pending && made.bytes.is_empty() => {
                    let why =
                        "its shares for the round were erased when it refused the coordinator";
                    self.miss(round, why)?;
                    return Ok(Step::Went);
                }
                // Each call would draw new shares, so only the stored shares may be sent.
                Intake::Sum(_) => made.bytes.clone(),
                Intake::Plain => self.upload_bytes(&update)?,
            };
            if matches!(self.intake, Intake::Plain) && !made.is_of(&bytes) {
                return Err(RunError::UploadDiffers { round });
            }
            if !is_pending {
                return Ok(Step::Went);
            }
        }
        let to = Place { study: &self.membership.study, round, slot: self.membership.slot };
        let is_made = made.is_some();
        // If it has a response, an earlier process sent it at its instant.
        let is_answered = is_made && self.link.has_answer(self.requests.key(), to, &bytes);
        let task = Task::Deliver(Outgoing { round, is_made, is_answered });
        let supply = Supply { n_told: self.n_told, update: Some(&update), bytes };
        match self.turn(rounds, task, supply)? {
            Some(step) => {
                self.queue.push_front(AgentEffect::Upload(update));
                Ok(step)
            }
            None => Ok(Step::Went),
        }
    }

    /// Begins the next round from the log. If the log has no further handout, polls the
    /// coordinator.
    fn next_round(&mut self, rounds: &mut Rounds) -> Result<Step, RunError> {
        let Some(taken) = self.log().handout_after(self.contact.follower.round())? else {
            return self.take_turn(rounds, Task::Await);
        };
        if taken.n_told != self.n_told {
            return Err(RunError::LogOrder { logged: taken.n_told, found: self.n_told });
        }
        let verified = self.read_logged(&taken)?;
        self.begin_round(verified)?;
        Ok(Step::Went)
    }
}
