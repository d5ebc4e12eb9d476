//! A run of one study: replays the log, then continues from there.
//!
//! The agent's machine is deterministic, so replay and new work share one code path: each effect
//! that the machine requests is looked up in the home, and carried out only if it is not there.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fedbo_database::Lock;
use fedbo_failpoints::pass;
use fedbo_federation::{Collaboration, Federation};
use fedbo_objective::{FailureCounter, FailuresMax, Objective};
use fedbo_party::{Evaluated, HomeError, Identity, Trials, evaluate_trial};
use fedbo_privacy::accounting::Budget;
use fedbo_protocol::{AgentEffect, Trial};
use fedbo_space::Point;
use fedbo_storage::Told;
use fedbo_transport::{Backoff, Clock};
use fedbo_wire::{Digest, SigningKey, StudyState, config_digest, verify_config};

use crate::budget::{PrivacyBudget, keep_cap};
use crate::follower::Follower;
use crate::free::FreePart;
use crate::intake::Intake;
use crate::link::Caller;
use crate::log::{Log, forget_used};
use crate::machine::{Machine, machine};
use crate::pace::Pace;
use crate::protection;
use crate::{Home, Link, Membership, Misconduct, Notice, Observer, RunError};

/// Polling interval of a waiting session: `TICK` for the stop flag, `TICK_BESIDE` also for the end
/// of a trial that runs concurrently.
const TICK: Duration = Duration::from_millis(100);
const TICK_BESIDE: Duration = Duration::from_millis(10);

/// The parts of a session.
pub struct Parts<'a> {
    /// The agent's folder.
    pub home: Home,
    /// The agent's membership in the study.
    pub membership: Membership,
    /// The federation that the membership's configuration describes.
    pub federation: Federation,
    /// The objective that the agent tunes.
    pub objective: Arc<dyn Objective>,
    /// Root seed of the agent's own draws. Defaults to the stored seed, or to a new secret one.
    pub seed: Option<u64>,
    /// The budget over all studies of the agent.
    pub cap: Option<Budget>,
    /// The number of failed trials in a row that ends the run; those of earlier runs do not count.
    pub failures_max: FailuresMax,
    /// Studies that the agent's owner has exempted from charging this budget.
    pub allow_unprotected: Vec<String>,
    /// The link to the coordinator.
    pub link: &'a dyn Link,
    /// The clock, and the source of random retry delays.
    pub clock: &'a dyn Clock,
    /// The observer of the session.
    pub observer: &'a dyn Observer,
    /// Ends the run once it is set.
    pub stop: Arc<AtomicBool>,
}

/// The result of a step of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// There is more to do immediately.
    Went,
    /// There is nothing to do for this long.
    Waits(Duration),
    /// The session is over.
    Ended(Ended),
}

/// The outcome of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The agent's plan is done.
    Complete,
    /// The coordinator has ended the study before the agent's plan was done.
    StudyOver,
    /// The stop flag was set. An interrupted trial is evaluated again in the next run.
    Interrupted,
}

/// A running agent in one study. At most one session of a study is open at a time, across
/// processes.
///
/// Dropping it, at any moment, loses nothing: the next session of the home continues from there.
pub struct Session<'a> {
    pub(crate) home: Home,
    pub(crate) membership: Membership,
    pub(crate) federation: Federation,
    pub(crate) objective: Arc<dyn Objective>,
    pub(crate) machine: Box<dyn Machine>,
    pub(crate) trials: Trials,
    pub(crate) map: Digest,
    pub(crate) follower: Follower,
    pub(crate) intake: Intake,
    /// The budget; `None` if nothing is charged.
    pub(crate) budget: Option<PrivacyBudget>,
    /// The first key is in use; another is tried while a key rotation is incomplete.
    pub(crate) keys: Vec<SigningKey>,
    pub(crate) link: &'a dyn Link,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) observer: &'a dyn Observer,
    stop: Arc<AtomicBool>,
    /// Effects that the machine has requested and that are not yet carried out.
    pub(crate) queue: VecDeque<AgentEffect>,
    /// Number of trials that the machine was told.
    pub(crate) n_told: u64,
    failures: FailureCounter,
    /// Seconds that the machine took for its last answer.
    pub(crate) ask_seconds: f64,
    pub(crate) backoff: Backoff,
    /// Number of other keys tried since the last successful answer.
    pub(crate) n_keys_tried: usize,
    /// The last round with an upload that the coordinator has.
    pub(crate) delivered: Option<u64>,
    /// A round with an upload that the coordinator asks for again.
    pub(crate) resend: Option<u64>,
    pub(crate) reported_budget: bool,
    pub(crate) reported_state: Option<StudyState>,
    /// The last round for which a wait for the helper was reported.
    pub(crate) reported_helper_wait: Option<u64>,
    /// Time at which the coordinator began to report an earlier round than it handed out.
    pub(crate) behind_since_ms: Option<u64>,
    /// The schedule of this agent's requests.
    pub(crate) pace: Pace,
    /// The coordinator is not polled before this time, by the monotonic clock.
    pub(crate) quiet_until: Option<u64>,
    /// Time of the last poll for the next round, by the same clock.
    pub(crate) asked_ms: Option<u64>,
    /// Number of attempts made to send the round's upload.
    pub(crate) n_attempts: u32,
    /// The round of the upload that is being sent.
    pub(crate) attempting: Option<u64>,
    /// True once the coordinator has reported the study's status in this session.
    pub(crate) is_met: bool,
    /// True while the coordinator may not continue from the history that was followed: it may have
    /// been restored since its last answer.
    pub(crate) is_unsure: bool,
    /// The counters of the last request, and of the last that was answered.
    pub(crate) counter: Cell<u64>,
    pub(crate) counter_answered: u64,
    /// Counter of the first request that was set aside since the last answer. Whichever request the
    /// next answer belongs to, at least this one was answered.
    pub(crate) counter_aside: Option<u64>,
    /// True once it was reported that the coordinator has forgotten requests.
    pub(crate) said_set_back: bool,
    /// The coordinator's misconduct, once detected; nothing is sent after that.
    pub(crate) accused: Option<Misconduct>,
    /// The state of a session at a free pace; unused in rounds.
    pub(crate) free: FreePart,
    _lock: Lock,
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (study, slot) = (&self.membership.study, self.membership.slot);
        write!(f, "Session {{ {study:?}, slot {slot} }}")
    }
}

impl<'a> Session<'a> {
    /// Opens everything that a run needs, without contacting the coordinator.
    ///
    /// # Errors
    /// If the home or the configuration cannot be used, another process runs the study, the study charges and the agent has
    /// no budget, or the agent has one, given now or in an earlier run, and the study does not charge it
    /// ([`RunError::Unprotected`]).
    pub fn open(parts: Parts<'a>) -> Result<Self, RunError> {
        let Parts { home, membership, federation, .. } = parts;
        let lock = home.hold(&membership)?;
        check_config(&home, &membership)?;
        let n_agents = federation.agents.len();
        if membership.slot as usize >= n_agents {
            let slot = membership.slot;
            return Err(RunError::NoSlot { slot, n_agents });
        }
        let keys = Identity::load(home.folder())?.in_order(membership.key);
        // A budget, once given, applies to all later runs, even if this study is refused because of
        // it.
        if let Some(cap) = parts.cap {
            keep_cap(&home.database, cap)?;
        }
        protection::check(
            &membership.study,
            &federation,
            home.budget()?.is_some(),
            &parts.allow_unprotected,
        )?;
        let budget = budget(&membership, &federation, parts.cap)?;
        let root = root(&home, &membership, parts.seed)?;
        let trials = Trials::open(home.folder(), &federation)?;
        let log = Log { database: &home.database, membership: &membership };
        let (mut machine, map) = machine(&federation, membership.slot, root, log.n_made()?)?;
        let intake = Intake::of(&federation, &membership)?;
        let follower = Follower::new(&membership, &federation, &intake)?;
        let delivered = log.last_delivered()?;
        let free = FreePart::new(log.last_made()?);
        let queue = machine.start()?.into();
        Ok(Self {
            objective: parts.objective,
            link: parts.link,
            clock: parts.clock,
            observer: parts.observer,
            stop: parts.stop,
            backoff: Backoff::default(),
            n_told: 0,
            failures: FailureCounter::new(parts.failures_max, false),
            n_keys_tried: 0,
            ask_seconds: 0.0,
            resend: None,
            reported_budget: false,
            reported_state: None,
            reported_helper_wait: None,
            behind_since_ms: None,
            pace: Pace::new(
                membership.digest,
                (membership.slot, n_at_one_time(&federation)),
                federation.network,
                federation.last_round(),
            ),
            quiet_until: None,
            asked_ms: None,
            n_attempts: 0,
            attempting: None,
            is_met: false,
            is_unsure: true,
            counter: Cell::new(0),
            counter_answered: 0,
            counter_aside: None,
            said_set_back: false,
            accused: None,
            free,
            _lock: lock,
            home,
            membership,
            federation,
            machine,
            trials,
            map,
            follower,
            intake,
            budget,
            keys,
            queue,
            delivered,
        })
    }

    /// Runs until the plan is done, the study is over, or the stop flag is set. The flag is checked
    /// at least every 100 ms.
    ///
    /// # Errors
    /// As for [`Session::advance`].
    pub fn run(&mut self) -> Result<Ended, RunError> {
        loop {
            match self.advance()? {
                Step::Went => {}
                Step::Ended(ended) => return Ok(ended),
                Step::Waits(time) => {
                    let tick = if self.evaluates_beside() { TICK_BESIDE } else { TICK };
                    wait(self.clock, time, tick, || self.is_stopped() || self.has_result());
                }
            }
        }
    }

    /// Does one thing: evaluates a trial, sends an upload, or asks for the next round.
    ///
    /// # Errors
    /// If the agent cannot continue; earlier results are kept. After [`RunError::Misconduct`] every
    /// step returns the same error.
    pub fn advance(&mut self) -> Result<Step, RunError> {
        if self.federation.free.is_some() {
            return self.advance_free();
        }
        if self.is_stopped() {
            return Ok(Step::Ended(Ended::Interrupted));
        }
        if let Some(misconduct) = &self.accused {
            return Err(misconduct.clone().into());
        }
        if let Some(round) = self.resend {
            return self.send_again(round);
        }
        match self.queue.pop_front() {
            Some(AgentEffect::Evaluate(trial)) => self.evaluate(trial),
            Some(AgentEffect::Upload(update)) => self.deliver(update),
            Some(AgentEffect::Refused(rejected)) => {
                self.observer.notice(&Notice::Refused(&rejected));
                Ok(Step::Went)
            }
            Some(AgentEffect::Finished) => {
                self.queue.push_front(AgentEffect::Finished);
                self.finish(Ended::Complete)
            }
            None => self.next_round(),
        }
    }

    /// Returns the key and the counter of the next request. The counter is on disk before the
    /// request leaves (INV-28).
    pub(crate) fn caller(&self) -> Result<Caller<'_>, RunError> {
        let answered = self.counter_answered;
        let counter = self.home.database.write(|tx| self.membership.count(tx, answered))?;
        pass("agent: a request is counted");
        self.counter.set(counter);
        Ok(Caller { key: &self.keys[0], counter })
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The log of this study.
    pub(crate) fn log(&self) -> Log<'_> {
        Log { database: &self.home.database, membership: &self.membership }
    }

    /// Ends the study for this agent permanently.
    pub(crate) fn finish(&self, ended: Ended) -> Result<Step, RunError> {
        let database = &self.home.database;
        database.write(|tx| self.membership.finish(tx))?;
        forget_used(database)?;
        Ok(Step::Ended(ended))
    }

    fn evaluate(&mut self, trial: Trial) -> Result<Step, RunError> {
        // Before anything expensive: check that the clocks agree, and learn when the round began.
        if !self.is_met && !self.trials.had_ended(trial.index) {
            let looked = self.look_at_history()?;
            if let Some(step) = looked {
                self.queue.push_front(AgentEffect::Evaluate(trial));
                return Ok(step);
            }
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
                // INV-12: nobody may learn when the trial ended.
                let (round, now_ms) = (self.follower.round(), self.clock.elapsed_ms());
                self.quiet_until = Some(self.pace.asks_from(round.unwrap_or(0), now_ms));
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

    /// Reports a new result, and counts it if it is a failure.
    pub(crate) fn note_result(&mut self, trial: &Trial, point: &Point, told: &Told) {
        self.observer.trial_ended(trial, point, told);
        if let Told::Failed { .. } = told {
            self.failures.failed();
        }
    }

    /// Tells the machine the stored result of a trial.
    pub(crate) fn tell(&mut self, trial: &Trial, told: Told) -> Result<Step, RunError> {
        let value = match &told {
            Told::Value(value) => {
                self.failures.succeeded();
                Some(self.federation.direction.to_maximize(*value))
            }
            // An agent's trials report no intermediate values, so none is stopped, and have one
            // number.
            Told::Failed { .. } | Told::Numbers(_) | Told::Stopped { .. } => None,
        };
        self.n_told += 1;
        let effects = self.machine.evaluated(trial.index, value)?;
        self.queue.extend(effects);
        self.ask_seconds = 0.0;
        match told {
            Told::Failed { message, .. } if self.failures.holds() => {
                Err(RunError::Failing { n_in_a_row: self.failures.n_in_a_row(), last: message })
            }
            _ => Ok(Step::Went),
        }
    }

    /// Gives the machine a handout that was verified and stored.
    pub(crate) fn begin_round(
        &mut self,
        verified: crate::follower::VerifiedHandout,
    ) -> Result<Step, RunError> {
        let began = Instant::now();
        let effects = self.machine.receive(verified)?;
        self.ask_seconds = began.elapsed().as_secs_f64();
        self.queue.extend(effects);
        pass("agent: a handout is taken");
        Ok(Step::Went)
    }
}

/// Checks that the configuration is still the one that the coordinator signed.
fn check_config(home: &Home, membership: &Membership) -> Result<(), HomeError> {
    let text = membership.config.as_bytes();
    let signed = verify_config(&membership.coordinator, text, &membership.signature);
    if signed.is_ok() && config_digest(text) == membership.digest {
        return Ok(());
    }
    Err(HomeError::Damaged {
        path: home.folder().to_owned(),
        message: format!(
            "the configuration of study {:?} is not the one that its coordinator signed; restore the folder from a copy",
            membership.study
        ),
    })
}

/// Number of agents that may poll at the same time. If rounds end as soon as all have delivered,
/// polls do not coincide.
fn n_at_one_time(federation: &Federation) -> u32 {
    match federation.collaboration {
        Collaboration::Relayed(_) if federation.free.is_none() => 1,
        _ => u32::try_from(federation.agents.len()).unwrap_or(u32::MAX),
    }
}

/// The budget that a study charges.
fn budget(
    membership: &Membership,
    federation: &Federation,
    cap: Option<Budget>,
) -> Result<Option<PrivacyBudget>, RunError> {
    let Some(plan) = federation.privacy() else {
        return Ok(None);
    };
    let Some(cap) = cap else {
        let budget = plan.budget();
        return Err(RunError::NoBudget {
            study: membership.study.clone(),
            epsilon: budget.epsilon(),
            delta: budget.delta().get(),
        });
    };
    Ok(Some(PrivacyBudget::open(cap, plan.event, plan.charter.mode)?))
}

/// Returns the root seed of the agent's draws: given once or drawn once, then kept.
fn root(home: &Home, membership: &Membership, given: Option<u64>) -> Result<u64, RunError> {
    let fresh = match (given, membership.seed) {
        (Some(seed), _) | (None, Some(seed)) => seed,
        (None, None) => {
            getrandom::u64().map_err(|error| RunError::NoRandomness { cause: error.to_string() })?
        }
    };
    let kept = home.database.write(|tx| membership.settle_seed(tx, fresh))?;
    match given {
        Some(given) if given != kept => {
            Err(RunError::OtherSeed { study: membership.study.clone(), given })
        }
        _ => Ok(kept),
    }
}

/// Waits, and checks at every tick whether to stop. Sleeps may last longer than requested, so the
/// remaining time is read from the clock.
fn wait(clock: &dyn Clock, time: Duration, tick: Duration, is_stopped: impl Fn() -> bool) {
    let time_ms = u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let until_ms = clock.elapsed_ms().saturating_add(time_ms);
    while !is_stopped() {
        let left_ms = until_ms.saturating_sub(clock.elapsed_ms());
        if left_ms == 0 {
            break;
        }
        clock.sleep(Duration::from_millis(left_ms).min(tick));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A clock whose sleeps last a tenth longer than asked.
    #[derive(Default)]
    struct Oversleeping(Cell<Duration>);

    impl Clock for Oversleeping {
        fn now_ms(&self) -> u64 {
            0
        }

        fn elapsed_ms(&self) -> u64 {
            u64::try_from(self.0.get().as_millis()).unwrap()
        }

        fn sleep(&self, time: Duration) {
            self.0.set(self.0.get() + time.mul_f64(1.1));
        }

        fn chance(&self) -> f64 {
            0.5
        }
    }

    #[test]
    fn a_long_wait_ends_in_time_although_each_sleep_is_too_long() {
        let clock = Oversleeping::default();
        wait(&clock, Duration::from_hours(3), TICK, || false);
        let late = clock.0.get() - Duration::from_hours(3);
        assert!(late <= Duration::from_millis(10), "{late:?}");
        wait(&clock, Duration::from_hours(3), TICK, || true);
        assert!(clock.0.get() < Duration::from_hours(4));
    }
}
