//! Sessions of peers in one process, in virtual time.
//!
//! A simulated network determines the durations of trials and messages. Real durations have no
//! influence. Equal seeds and values give equal results for any number of threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fedbo_protocol::{
    AgentError, MessageRejected, Peer, PeerEffect, PeerEvent, Report, ReportRejected, Tick,
    UpdateRejected,
};
use fedbo_streams::Seed;
use rayon::prelude::*;

use crate::session::{Ended, Evaluation, Observer, Running, SessionError, TrialRecord};

/// Number of ticks in a trial of nominal duration.
const TRIAL: f64 = 1000.0;

/// The durations of trials and messages in virtual time, in units of the nominal trial duration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SimulatedNetwork {
    /// The duration of a trial is uniformly distributed from 1 − spread to 1 + spread. In `[0, 1)`.
    pub spread: f64,
    /// The mean delay of a report. Delays are uniformly distributed from 0 to twice this value. At
    /// least 0.
    pub delay: f64,
    /// Probability that a report is lost, in `[0, 1)`. A lost report is sent again after the
    /// nominal duration of a trial.
    pub loss: f64,
}

impl SimulatedNetwork {
    fn trial(&self, seed: Seed, agent: u32, trial: u64) -> Tick {
        let mut stream = seed.stream(fedbo_protocol::NETWORK, u64::from(agent), 2 * trial);
        ticks(1.0 + self.spread * (2.0 * stream.uniform() - 1.0)).max(1)
    }

    /// Returns the time from the first transmission of a report to its arrival.
    fn report(&self, seed: Seed, report: &Report, to: u32) -> Tick {
        let link = (u64::from(report.sender) << 32) | u64::from(to);
        let mut stream = seed.stream(fedbo_protocol::NETWORK, link, 2 * report.round + 1);
        let mut lost = 0.0;
        while stream.uniform() < self.loss {
            lost += 1.0;
        }
        ticks(lost + 2.0 * self.delay * stream.uniform())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "durations are at least 0 and far below 2^53 ticks; the cast saturates"
)]
fn ticks(trials: f64) -> Tick {
    (TRIAL * trials).round() as Tick
}

/// A peer with its objective.
pub struct PeerMember {
    /// The state machine.
    pub peer: Peer,
    /// The evaluation of the peer's points.
    pub evaluation: Evaluation,
}

/// A scheduled event.
enum Due {
    TrialEnds { of: u32 },
    Arrives { at: u32, report: Report },
}

/// A member, with its running trial and the reports that it has sent.
struct MemberState<'a> {
    member: &'a mut PeerMember,
    running: Option<Running>,
    /// Number of reports sent to each receiver.
    sent: BTreeMap<u32, usize>,
}

impl MemberState<'_> {
    /// Evaluates the running trial, unless it is already evaluated. Returns false if it was
    /// interrupted.
    fn evaluate(&mut self, observer: &dyn Observer) -> bool {
        let PeerMember { peer, evaluation } = &*self.member;
        self.running
            .as_mut()
            .is_none_or(|running| running.evaluate(peer.id(), evaluation, observer))
    }

    /// Passes due events to the peer. Returns the peer's effects, with the seconds that each took,
    /// and the trial that ended.
    fn feed(&mut self, events: Vec<Event>, now: Tick) -> Result<ProcessedEvents, AgentError> {
        let mut fed = ProcessedEvents::default();
        for event in events {
            let since = Instant::now();
            let effects = match event {
                Event::Start => self.member.peer.start(now)?,
                Event::Received(report) => {
                    self.member.peer.handle(PeerEvent::Received(report), now)?
                }
                Event::TrialEnds => {
                    let Some(record) = self.running.take().and_then(|r| r.record) else {
                        continue; // a trial ends only once
                    };
                    let value = record.told(self.member.evaluation.direction);
                    let trial = record.trial.index;
                    fed.record = Some(record);
                    let event = PeerEvent::Evaluated { trial, value };
                    self.member.peer.handle(event, now)?
                }
            };
            let seconds = since.elapsed().as_secs_f64();
            fed.effects.extend(effects.into_iter().map(|effect| (effect, seconds)));
        }
        Ok(fed)
    }
}

enum Event {
    Start,
    TrialEnds,
    Received(Report),
}

#[derive(Default)]
struct ProcessedEvents {
    effects: Vec<(PeerEffect, f64)>,
    record: Option<TrialRecord>,
}

/// Runs peers to the end of their plans. Member n has index n in the graph. Durations and losses
/// are drawn from `seed`.
///
/// Runs on the current rayon pool. If `stop` is set, running trials are abandoned. All finished
/// trials have been passed to the observer on return.
///
/// # Errors
/// If a peer or the observer fails, or if peers wait for each other indefinitely, which happens
/// only if their graphs differ.
pub fn run_peers(
    members: &mut [PeerMember],
    network: SimulatedNetwork,
    seed: Seed,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Ended, SessionError> {
    let mut queue = Queue::default();
    let mut states: Vec<MemberState<'_>> = members
        .iter_mut()
        .map(|member| MemberState { member, running: None, sent: BTreeMap::new() })
        .collect();
    let mut now = 0;
    let mut due: Vec<Vec<Event>> = states.iter().map(|_| vec![Event::Start]).collect();
    loop {
        let fed: Vec<Result<ProcessedEvents, AgentError>> =
            states.par_iter_mut().zip(due).map(|(state, events)| state.feed(events, now)).collect();
        let mut records = Vec::new();
        let mut refused = Vec::new();
        let mut failure: Option<SessionError> = None;
        for (index, fed) in fed.into_iter().enumerate() {
            match fed {
                Ok(fed) => {
                    records.extend(fed.record);
                    let state = &mut states[index];
                    match queue.plan(state, fed.effects, network, seed, now) {
                        Ok(unlearned) => refused.extend(unlearned),
                        Err(rejected) => failure = failure.or(Some(SessionError::Report(rejected))),
                    }
                }
                Err(error) => failure = failure.or(Some(error.into())),
            }
        }
        refused.iter().for_each(|rejected| observer.refused(rejected));
        if !records.is_empty() {
            observer.wave_ended(&records)?;
        }
        if let Some(error) = failure {
            return Err(error);
        }
        if observer.halts() {
            deliver_finished_trials(&mut states, observer)?;
            return Ok(Ended::Interrupted);
        }
        let Some((instant, next)) = queue.pop() else {
            let all_done = states.iter().all(|state| state.member.peer.is_finished());
            return match all_done {
                true => Ok(Ended::Complete),
                false => Err(SessionError::Stalled),
            };
        };
        now = instant;
        if next.iter().any(|due| is_unevaluated(due, &states)) {
            let shared: &dyn Observer = observer;
            // Evaluates all running trials in parallel, including those that end later, because
            // their points are already fixed.
            let is_whole = states
                .par_iter_mut()
                .map(|state| state.evaluate(shared))
                .reduce(|| true, |a, b| a && b);
            if !is_whole || stop.load(Ordering::Relaxed) {
                deliver_finished_trials(&mut states, observer)?;
                return Ok(Ended::Interrupted);
            }
        }
        due = states.iter().map(|_| Vec::new()).collect();
        for next in next {
            match next {
                Due::TrialEnds { of } => due[of as usize].push(Event::TrialEnds),
                Due::Arrives { at, report } => due[at as usize].push(Event::Received(report)),
            }
        }
    }
}

/// Passes trials that were evaluated but are not due yet to the observer, if the session ends
/// early.
fn deliver_finished_trials(
    states: &mut [MemberState<'_>],
    observer: &mut dyn Observer,
) -> Result<(), SessionError> {
    let ended = states.iter_mut().filter_map(|state| state.running.take()?.record);
    let records: Vec<TrialRecord> = ended.collect();
    if !records.is_empty() {
        observer.wave_ended(&records)?;
    }
    Ok(())
}

fn is_unevaluated(due: &Due, states: &[MemberState<'_>]) -> bool {
    let Due::TrialEnds { of } = due else {
        return false;
    };
    let running = &states[*of as usize].running;
    running.as_ref().is_some_and(|r| r.record.is_none())
}

/// Future events, ordered by time and then by the order in which they were scheduled.
#[derive(Default)]
struct Queue(BTreeMap<Tick, Vec<Due>>);

impl Queue {
    fn push(&mut self, at: Tick, due: Due) {
        self.0.entry(at).or_default().push(due);
    }

    fn pop(&mut self) -> Option<(Tick, Vec<Due>)> {
        self.0.pop_first()
    }

    /// Schedules the events that follow from a peer's effects. Returns the reports that the peer
    /// cannot learn from. The peer continues without them.
    fn plan(
        &mut self,
        state: &mut MemberState<'_>,
        effects: Vec<(PeerEffect, f64)>,
        network: SimulatedNetwork,
        seed: Seed,
        now: Tick,
    ) -> Result<Vec<UpdateRejected>, ReportRejected> {
        let id = state.member.peer.id();
        let mut refused = Vec::new();
        for (effect, ask_seconds) in effects {
            match effect {
                PeerEffect::Evaluate(trial) => {
                    let ask_seconds = if trial.round == 0 { 0.0 } else { ask_seconds };
                    let ends = now + network.trial(seed, id, trial.index);
                    self.push(ends, Due::TrialEnds { of: id });
                    state.running = Some(Running::new(trial, ask_seconds, ends));
                }
                PeerEffect::Rejected(ReportRejected::NoModel { sender, reason }) => {
                    let reason = MessageRejected::Implausible { sender, reason };
                    refused.push(UpdateRejected::Message(reason));
                }
                PeerEffect::Rejected(rejected) => return Err(rejected),
                PeerEffect::Shared(_)
                | PeerEffect::ContinuedWithout { .. }
                | PeerEffect::Finished => {}
            }
        }
        let log = state.member.peer.log();
        for to in state.member.peer.recipients() {
            let sent = state.sent.entry(*to).or_default();
            for report in &log[*sent..] {
                let comes = now + network.report(seed, report, *to);
                let report = report.clone();
                self.push(comes, Due::Arrives { at: *to, report });
            }
            *sent = log.len();
        }
        Ok(refused)
    }
}
