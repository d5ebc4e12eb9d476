//! Drives a session's state machine: feeds the log to it, stores its reports, and evaluates its
//! trials.

use std::time::{Duration, Instant};

use fedbo_party::{Evaluated, evaluate_trial};
use fedbo_protocol::{PeerEffect, PeerEvent, Report, Shared as SharedPoint, Trial};
use fedbo_storage::Told;
use fedbo_wire::{PeerReport, SharedObservation};

use crate::memory::{Event, Logged};
use crate::session::{Ended, Session};
use crate::shared::Shared;
use crate::{Notice, PeerError};

/// Delay before the observer is told for which neighbours a round is waiting.
const SAID_AFTER: Duration = Duration::from_secs(2);

impl Session {
    pub(crate) fn run_rounds(&mut self) -> Result<Ended, PeerError> {
        loop {
            if let Some(error) = self.shared.hub.take_failure() {
                return Err(error);
            }
            if self.shared.hub.is_stopped() {
                return Ok(Ended::Interrupted);
            }
            let n_came = self.shared.hub.n_came();
            self.drain()?;
            if let Some(trial) = self.running.clone() {
                if !self.evaluate(&trial)? {
                    return Ok(Ended::Interrupted);
                }
            } else if self.is_finished {
                if let Some(ended) = self.stay() {
                    return Ok(ended);
                }
                self.shared.hub.idle(n_came, Duration::from_millis(100));
            } else {
                self.wait(n_came)?;
            }
        }
    }

    /// Feeds all new events in the log to the machine.
    pub(crate) fn drain(&mut self) -> Result<(), PeerError> {
        loop {
            self.settle()?;
            let events = self.shared.memory.events_after(self.seq);
            let events = events.map_err(PeerError::Memory)?;
            if events.is_empty() {
                return Ok(());
            }
            for logged in events {
                self.take(logged)?;
                self.settle()?;
            }
        }
    }

    fn take(&mut self, logged: Logged) -> Result<(), PeerError> {
        self.seq = logged.seq;
        let event = match logged.event {
            Event::Evaluated { trial, value } => {
                let asked = self.running.take().map(|running| running.index);
                if asked != Some(trial) {
                    return Err(PeerError::Log(format!(
                        "trial {trial} ended, but was not asked for"
                    )));
                }
                PeerEvent::Evaluated { trial, value }
            }
            Event::Report(bytes) => {
                let dim = u32::try_from(self.shared.member.dim).unwrap_or(u32::MAX);
                let report = PeerReport::from_bytes(&bytes, dim);
                let report = report.map_err(|error| PeerError::Log(error.to_string()))?;
                if report.is_last {
                    self.last_reports.insert(report.sender, report.round);
                }
                PeerEvent::Received(received(report))
            }
            Event::Tick => PeerEvent::Tick,
        };
        let began = Instant::now();
        let effects = self.machine.handle(event, logged.at)?;
        self.ask_seconds = began.elapsed().as_secs_f64();
        self.effects.extend(effects);
        Ok(())
    }

    /// Carries out the machine's effects, except for trials.
    fn settle(&mut self) -> Result<(), PeerError> {
        while let Some(effect) = self.effects.pop_front() {
            let observer = &self.shared.observer;
            match effect {
                PeerEffect::Evaluate(trial) => self.running = Some(trial),
                PeerEffect::Shared(report) => self.share(&report)?,
                PeerEffect::Rejected(rejected) if !self.is_replay => {
                    observer.notice(&Notice::Rejected(&rejected));
                }
                PeerEffect::ContinuedWithout { round, neighbours } if !self.is_replay => {
                    observer.notice(&Notice::ContinuedWithout(round, &self.names(&neighbours)));
                }
                PeerEffect::Rejected(_) | PeerEffect::ContinuedWithout { .. } => {}
                PeerEffect::Finished => self.is_finished = true,
            }
        }
        Ok(())
    }

    /// Stores a report, which the links then send.
    fn share(&self, report: &Report) -> Result<(), PeerError> {
        let Shared { member, key, memory, hub, .. } = &*self.shared;
        let round = report.round;
        let sent = PeerReport {
            federation: member.digest,
            sender: member.slot,
            round,
            is_last: report.is_last,
            observations: report.observations.iter().map(sent).collect(),
        };
        let bytes = sent.to_bytes(member.dim, key);
        if !memory.keep(round, &bytes).map_err(PeerError::Memory)? {
            return Err(PeerError::ReportDiffers { round });
        }
        hub.made(hub.n_outgoing().max(round + 1));
        Ok(())
    }

    /// Evaluates a trial. Returns false if interrupted.
    fn evaluate(&mut self, trial: &Trial) -> Result<bool, PeerError> {
        self.waits = None;
        let point = self.federation.space.decode(&trial.unit);
        let Shared { member, memory, observer, .. } = &*self.shared;
        let started = || observer.trial_started(trial, &point);
        let (asked, objective) = ((trial, &point), self.objective.as_ref());
        let evaluated =
            evaluate_trial(&self.trials, objective, member.slot, asked, self.ask_seconds, started);
        let told = match evaluated? {
            Evaluated::Before(told) => told,
            Evaluated::Now(told) => {
                observer.trial_ended(trial, &point, &told);
                told
            }
            Evaluated::Interrupted => return Ok(false),
        };
        let value = match told {
            Told::Value(value) => Some(member.direction.to_maximize(value)),
            // A peer's trials report no intermediate values, so none is stopped early, each has only
            // one objective, and none can be discarded.
            Told::Failed { .. } | Told::Numbers(_) | Told::Stopped { .. } | Told::Discarded => None,
        };
        let noted = memory.note_evaluated(trial.index, value);
        noted.map_err(PeerError::Memory)?;
        Ok(true)
    }

    /// Waits briefly for reports from neighbours. If the machine's deadline has passed, logs this
    /// instead of waiting.
    fn wait(&mut self, n_came: u64) -> Result<(), PeerError> {
        let memory = &self.shared.memory;
        let now = memory.now();
        let mut time = Duration::from_millis(100);
        if let Some(deadline) = self.machine.deadline() {
            if now >= deadline {
                return memory.note_tick().map_err(PeerError::Memory);
            }
            time = time.min(Duration::from_millis(deadline - now));
        }
        self.report_missing_neighbours();
        self.shared.hub.idle(n_came, time);
        Ok(())
    }

    fn report_missing_neighbours(&mut self) {
        let round = self.machine.log().len() as u64;
        match &mut self.waits {
            Some((waits, since, said)) if *waits == round => {
                if !*said && since.elapsed() >= SAID_AFTER {
                    *said = true;
                    let is_missing = |slot: &u32| !self.has_all_before(round, *slot);
                    let neighbours = self.machine.recipients().iter().copied();
                    let missing: Vec<u32> = neighbours.filter(is_missing).collect();
                    self.shared.observer.notice(&Notice::WaitsFor(round, &self.names(&missing)));
                }
            }
            _ => self.waits = Some((round, Instant::now(), false)),
        }
    }

    fn has_all_before(&self, round: u64, slot: u32) -> bool {
        self.machine.received_from(slot) >= round || self.has_all(slot)
    }

    /// Returns true if all reports from a neighbour have arrived, including its last.
    fn has_all(&self, slot: u32) -> bool {
        let last = self.last_reports.get(&slot);
        last.is_some_and(|last| self.machine.received_from(slot) > *last)
    }

    /// Returns the outcome of the session, or `None` while exchanges with neighbours are still
    /// pending.
    fn stay(&mut self) -> Option<Ended> {
        let n_outgoing = self.shared.hub.n_outgoing();
        let mut missing = Vec::new();
        let mut is_left = true;
        for (slot, link) in self.shared.hub.links() {
            let is_complete = link.confirmed >= n_outgoing && self.has_all(slot);
            if is_complete != link.is_complete {
                self.shared.hub.change(slot, |link| link.is_complete = is_complete);
            }
            if !(is_complete && link.is_done) {
                missing.push(slot);
            }
            is_left &= link.confirmed >= n_outgoing || link.is_away || !link.is_claimed;
        }
        if missing.is_empty() {
            return Some(Ended::Complete);
        }
        if self.leaves && is_left {
            return Some(Ended::Left);
        }
        let complete = |slot: &u32| self.shared.hub.link(*slot).is_complete;
        missing.retain(|slot| !complete(slot));
        if missing != self.stays_for {
            if !missing.is_empty() {
                self.shared.observer.notice(&Notice::StaysFor(&self.names(&missing)));
            }
            self.stays_for = missing;
        }
        None
    }

    fn names(&self, slots: &[u32]) -> Vec<&str> {
        let member = &self.shared.member;
        slots.iter().map(|slot| member.name_of(*slot)).collect()
    }
}

fn sent(shared: &SharedPoint) -> SharedObservation {
    SharedObservation { unit: shared.unit.clone(), value: shared.value }
}

fn received(report: PeerReport) -> Report {
    let observation =
        |shared: SharedObservation| SharedPoint { unit: shared.unit, value: shared.value };
    Report {
        sender: report.sender,
        round: report.round,
        observations: report.observations.into_iter().map(observation).collect(),
        is_last: report.is_last,
    }
}
