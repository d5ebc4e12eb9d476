//! A run of one study: replays what was done before, then goes on.
//!
//! The agent's machine is deterministic, so there is one path for both: what it asks for is looked up in the home, and done
//! only where it was not done before.

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
use fedbo_servers::SumStudy;
use fedbo_space::Point;
use fedbo_storage::Told;
use fedbo_transport::{Backoff, Clock};
use fedbo_wire::{Digest, SigningKey, StudyState, config_digest, verify_config};

use crate::budget::{PrivacyBudget, keep_cap};
use crate::follower::Follower;
use crate::free::FreePart;
use crate::log::{Log, forget_used};
use crate::machine::{Machine, machine};
use crate::pace::Pace;
use crate::protection;
use crate::{Home, Link, Membership, Misconduct, Notice, Observer, RunError};

/// The interval at which a session that waits looks whether to stop; and while a trial is under way beside it, whether that has ended.
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
    /// Root of the agent's own draws; by default the one that is kept, or a secret one that is drawn now.
    pub seed: Option<u64>,
    /// The budget over all studies of the agent.
    pub cap: Option<Budget>,
    /// The number of failed trials in a row that ends the run; those of earlier runs do not count.
    pub failures_max: FailuresMax,
    /// Studies that the agent's owner has named as ones that need not charge this budget.
    pub allow_unprotected: Vec<String>,
    /// The way to the coordinator.
    pub link: &'a dyn Link,
    /// Time and chance.
    pub clock: &'a dyn Clock,
    /// The observer of the session.
    pub observer: &'a dyn Observer,
    /// Ends the run once it is set.
    pub stop: Arc<AtomicBool>,
}

/// The result of a step of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// There is more to do at once.
    Went,
    /// There is nothing to do for this time.
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
    /// The stop flag was set. A trial that was running runs again next time.
    Interrupted,
}

/// One agent in one study, at work. At most one session of a study is open at a time, in whatever process.
///
/// Dropping it, at any moment, loses nothing: the next session of the home goes on where this one was.
pub struct Session<'a> {
    pub(crate) home: Home,
    pub(crate) membership: Membership,
    pub(crate) federation: Federation,
    pub(crate) objective: Arc<dyn Objective>,
    pub(crate) machine: Box<dyn Machine>,
    pub(crate) trials: Trials,
    pub(crate) map: Digest,
    pub(crate) follower: Follower,
    /// The study's sum by two servers; none where the coordinator sums alone, or relays.
    pub(crate) sum: Option<SumStudy>,
    /// The budget; none where nothing is charged.
    pub(crate) budget: Option<PrivacyBudget>,
    /// The first is in use; another serves while a change of keys is not complete.
    pub(crate) keys: Vec<SigningKey>,
    pub(crate) link: &'a dyn Link,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) observer: &'a dyn Observer,
    stop: Arc<AtomicBool>,
    /// Effects that the machine asks for and that were not yet carried out.
    pub(crate) queue: VecDeque<AgentEffect>,
    /// Trials that the machine was told of.
    pub(crate) n_told: u64,
    failures: FailureCounter,
    /// Seconds that the machine took for its last answer.
    pub(crate) ask_seconds: f64,
    pub(crate) backoff: Backoff,
    /// Other keys that were tried since the last good answer.
    pub(crate) n_keys_tried: usize,
    /// The last round whose upload the coordinator has.
    pub(crate) delivered: Option<u64>,
    /// An upload that the coordinator asks for once more.
    pub(crate) resend: Option<u64>,
    pub(crate) said_budget: bool,
    pub(crate) said_state: Option<StudyState>,
    /// The time since which the coordinator has named an earlier round than it handed out.
    pub(crate) behind_since_ms: Option<u64>,
    /// The instants at which this agent speaks.
    pub(crate) pace: Pace,
    /// Nothing is asked before this time, by the clock that is never set.
    pub(crate) quiet_until: Option<u64>,
    /// The time at which it asked last for the next round, by the same clock.
    pub(crate) asked_ms: Option<u64>,
    /// Attempts to send the upload of the round that were made.
    pub(crate) n_attempts: u32,
    /// An attempt to send the upload of this round is being made.
    pub(crate) attempting: Option<u64>,
    /// The coordinator has said where the study stands since this session was opened.
    pub(crate) is_met: bool,
    /// It is not known that the coordinator goes on from what was followed: it may have been restored since it last answered.
    pub(crate) is_unsure: bool,
    /// The coordinator's misconduct, once there was some: nothing is sent any more.
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
    /// Opens everything that a run needs; asks nobody.
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
        // A budget that was once said holds with every file, also where this study is refused because of it.
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
        let sum = SumStudy::of(&federation, &membership.config)?;
        let follower = Follower::new(&membership, &federation, sum.clone())?;
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
            said_budget: false,
            said_state: None,
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
            sum,
            budget,
            keys,
            queue,
            delivered,
        })
    }

    /// Runs until the plan is done, the study is over, or the stop flag is set, which is looked at every 100 ms at least.
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
    /// If the agent cannot go on; what was done before is kept. After [`RunError::Misconduct`] every step is the same error.
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

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The log of this study.
    pub(crate) fn log(&self) -> Log<'_> {
        Log { database: &self.home.database, membership: &self.membership }
    }

    /// Ends for good.
    pub(crate) fn finish(&self, ended: Ended) -> Result<Step, RunError> {
        let database = &self.home.database;
        database.write(|tx| self.membership.finish(tx))?;
        forget_used(database)?;
        Ok(Step::Ended(ended))
    }

    fn evaluate(&mut self, trial: Trial) -> Result<Step, RunError> {
        // Before anything expensive is done: whether the clocks agree, and when the round began.
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
                // INV-12: when it ended is nobody's business.
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

    /// Notes a result that is new.
    pub(crate) fn note_result(&mut self, trial: &Trial, point: &Point, told: &Told) {
        self.observer.trial_ended(trial, point, told);
        if let Told::Failed { .. } = told {
            self.failures.failed();
        }
    }

    /// Tells the machine a trial whose result is stored.
    pub(crate) fn tell(&mut self, trial: &Trial, told: Told) -> Result<Step, RunError> {
        let value = match &told {
            Told::Value(value) => {
                self.failures.succeeded();
                Some(self.federation.direction.to_maximize(*value))
            }
            // An agent's trials report nothing, so none is stopped, and have one number.
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

    /// Gives the machine a handout that was verified and is kept.
    pub(crate) fn begin_round(
        &mut self,
        verified: crate::follower::VerifiedHandout,
    ) -> Result<Step, RunError> {
        let began = Instant::now();
        let effects = self.machine.hear(verified)?;
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

/// The agents that would ask at one time. Where rounds end as soon as all have delivered, there is no such time.
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

/// The root of the agent's draws: given once, or drawn once, and kept.
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

/// Waits, and looks at every tick whether to stop. Sleeps last longer than asked, so what is left is read from the clock.
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
