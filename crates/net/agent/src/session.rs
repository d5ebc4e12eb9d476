//! A run of one study: replays the log, then continues from there.
//!
//! The agent's machine is deterministic, so replay and new work share one code path: each effect
//! that the machine requests is looked up in the home, and carried out only if it is not there.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fedbo_database::Lock;
use fedbo_failpoints::pass;
use fedbo_federation::{Collaboration, Federation};
use fedbo_objective::{FailureCounter, FailuresMax, Objective};
use fedbo_party::{HomeError, Identity, Trials};
use fedbo_privacy::accounting::Budget;
use fedbo_protocol::{AgentEffect, Trial};
use fedbo_space::Point;
use fedbo_storage::Told;
use fedbo_transport::Clock;
use fedbo_wire::{Digest, config_digest, verify_config};

use crate::budget::{PrivacyBudget, keep_cap};
use crate::dialogue::{Contact, Free, Rounds};
use crate::follower::{Follower, VerifiedHandout};
use crate::free::Beside;
use crate::intake::Intake;
use crate::log::{Log, TakenHandout, forget_used};
use crate::machine::{Machine, machine};
use crate::pace::Pace;
use crate::protection;
use crate::requests::Requests;
use crate::{Home, Link, Membership, Observer, RunError};

/// Polling intervals of a waiting session. `TICK` is for the stop flag, and `TICK_BESIDE` is for
/// the stop flag and the end of a concurrent trial.
const TICK: Duration = Duration::from_millis(100);
const TICK_BESIDE: Duration = Duration::from_millis(10);

/// The inputs of [`Session::open`].
pub struct Parts<'a> {
    /// The agent's folder.
    pub home: Home,
    /// The agent's membership in the study.
    pub membership: Membership,
    /// The federation that the membership's configuration describes.
    pub federation: Federation,
    /// The objective that the agent tunes.
    pub objective: Arc<dyn Objective>,
    /// Root seed of the agent's random draws. Defaults to the stored seed or, if there is none, to
    /// a new secret seed.
    pub seed: Option<u64>,
    /// The privacy budget for all the agent's studies together.
    pub cap: Option<Budget>,
    /// The number of consecutive failed trials that ends the run. Failures in earlier runs do not
    /// count.
    pub failures_max: FailuresMax,
    /// Studies that the agent's owner allows not to charge the budget.
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
    /// The coordinator ended the study before the agent's plan was done.
    StudyOver,
    /// The stop flag was set. An interrupted trial is evaluated again in the next run.
    Interrupted,
}

/// A running agent in one study. At most one session per study is open at a time, across processes.
///
/// Dropping a session at any time loses nothing. The next session continues from the same point.
pub struct Session<'a> {
    core: Core<'a>,
    mode: Mode,
}

/// The study's pace, with the session state that only this pace needs.
enum Mode {
    Rounds(Rounds),
    Free(Box<Beside>),
}

/// The parts of a session that all paces share.
pub(crate) struct Core<'a> {
    pub(crate) home: Home,
    pub(crate) membership: Membership,
    pub(crate) federation: Federation,
    pub(crate) objective: Arc<dyn Objective>,
    pub(crate) machine: Box<dyn Machine>,
    pub(crate) trials: Trials,
    pub(crate) map: Digest,
    pub(crate) intake: Intake,
    /// The budget; `None` if nothing is charged.
    pub(crate) budget: Option<PrivacyBudget>,
    pub(crate) contact: Contact,
    pub(crate) requests: Requests,
    pub(crate) link: &'a dyn Link,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) observer: &'a dyn Observer,
    stop: Arc<AtomicBool>,
    /// Effects that the machine has requested but that are not carried out yet.
    pub(crate) queue: VecDeque<AgentEffect>,
    /// Number of finished trials that have been passed to the machine.
    pub(crate) n_told: u64,
    failures: FailureCounter,
    /// Time that the machine took to compute the next query, in seconds.
    pub(crate) ask_seconds: f64,
    pub(crate) reported_budget: bool,
    /// True once the session has reported that the coordinator has forgotten requests.
    pub(crate) reported_rolled_back: bool,
    _lock: Lock,
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (study, slot) = (&self.core.membership.study, self.core.membership.slot);
        write!(f, "Session {{ {study:?}, slot {slot} }}")
    }
}

impl<'a> Session<'a> {
    /// Opens everything that a run needs, without contacting the coordinator.
    ///
    /// # Errors
    /// If the home or the configuration cannot be used, another process runs the study, or the
    /// study charges privacy and the agent has no budget. Also if the agent has a budget, from this
    /// run or an earlier one, but the study does not charge it as the default mode does and is not
    /// in [`Parts::allow_unprotected`] ([`RunError::Unprotected`]).
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
        // Once given, a budget applies to all later runs, even if this study is refused because of
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
        let pace = Pace::new(
            membership.digest,
            (membership.slot, n_at_one_time(&federation)),
            federation.network,
            federation.last_round(),
        );
        let contact = Contact::new(follower, pace, keys.len(), log.last_delivered()?);
        let mode = match federation.free {
            Some(_) => {
                let dialogue = Free::new(federation.last_round(), log.last_made()?);
                Mode::Free(Box::new(Beside::new(dialogue)))
            }
            None => Mode::Rounds(Rounds::new()),
        };
        let queue = machine.start()?.into();
        let core = Core {
            objective: parts.objective,
            link: parts.link,
            clock: parts.clock,
            observer: parts.observer,
            stop: parts.stop,
            n_told: 0,
            failures: FailureCounter::new(parts.failures_max, false),
            ask_seconds: 0.0,
            reported_budget: false,
            reported_rolled_back: false,
            requests: Requests::new(keys),
            _lock: lock,
            home,
            membership,
            federation,
            machine,
            trials,
            map,
            intake,
            budget,
            contact,
            queue,
        };
        Ok(Self { core, mode })
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
                    let core = &self.core;
                    let (tick, beside) = match &self.mode {
                        Mode::Free(beside) if beside.evaluates() => (TICK_BESIDE, Some(beside)),
                        _ => (TICK, None),
                    };
                    let has_result = || beside.is_some_and(|beside| beside.has_result(core));
                    wait(core.clock, time, tick, || core.is_stopped() || has_result());
                }
            }
        }
    }

    /// Performs one step: evaluates a trial, sends an upload, or polls for the next round.
    ///
    /// # Errors
    /// If the agent cannot continue. Earlier results are kept. After [`RunError::Misconduct`],
    /// every step returns the same error.
    pub fn advance(&mut self) -> Result<Step, RunError> {
        match &mut self.mode {
            Mode::Rounds(rounds) => self.core.advance_rounds(rounds),
            Mode::Free(beside) => beside.advance(&mut self.core),
        }
    }
}

impl Core<'_> {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the log of this study.
    pub(crate) fn log(&self) -> Log<'_> {
        Log { database: &self.home.database, membership: &self.membership }
    }

    /// Marks the study as finished for this agent, permanently.
    pub(crate) fn finish(&self, ended: Ended) -> Result<Step, RunError> {
        let database = &self.home.database;
        database.write(|tx| self.membership.finish(tx))?;
        forget_used(database)?;
        Ok(Step::Ended(ended))
    }

    /// Reports a new result, and counts it if it is a failure.
    pub(crate) fn note_result(&mut self, trial: &Trial, point: &Point, told: &Told) {
        self.observer.trial_ended(trial, point, told);
        if let Told::Failed { .. } = told {
            self.failures.failed();
        }
    }

    /// Passes the stored result of a trial to the machine.
    pub(crate) fn tell(&mut self, trial: &Trial, told: Told) -> Result<Step, RunError> {
        let value = match &told {
            Told::Value(value) => {
                self.failures.succeeded();
                Some(self.federation.direction.to_maximize(*value))
            }
            // The others do not occur: an agent's trials have a single value, report no
            // intermediate values, and cannot be discarded.
            Told::Failed { .. } | Told::Numbers(_) | Told::Stopped { .. } | Told::Discarded => None,
        };
        self.n_told += 1;
        let effects = self.machine.evaluated(trial.index, value)?;
        self.queue.extend(effects);
        self.ask_seconds = 0.0;
        match told {
            Told::Failed { message, .. } if self.failures.holds() => Err(RunError::Failing {
                n_consecutive: self.failures.n_consecutive(),
                last: message,
            }),
            _ => Ok(Step::Went),
        }
    }

    /// Verifies a logged handout and advances the follower.
    pub(crate) fn read_logged(
        &mut self,
        taken: &TakenHandout,
    ) -> Result<VerifiedHandout, RunError> {
        let follower = &mut self.contact.follower;
        let round = follower.round().unwrap_or(0);
        let verified = follower.read(&taken.bytes);
        let verified = verified.map_err(|source| RunError::Log { round, source })?;
        follower.advance(&verified);
        Ok(verified)
    }

    /// Passes a verified and stored handout to the machine.
    pub(crate) fn begin_round(&mut self, verified: VerifiedHandout) -> Result<(), RunError> {
        let began = Instant::now();
        let effects = self.machine.receive(verified)?;
        self.ask_seconds = began.elapsed().as_secs_f64();
        self.queue.extend(effects);
        pass("agent: a handout is taken");
        Ok(())
    }
}

/// Checks that the stored configuration is still the one that the coordinator signed.
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

/// Returns the number of agents that may poll at the same time. If rounds end as soon as all agents
/// have delivered, polls do not coincide.
fn n_at_one_time(federation: &Federation) -> u32 {
    match federation.collaboration {
        Collaboration::Relayed(_) if federation.free.is_none() => 1,
        _ => u32::try_from(federation.agents.len()).unwrap_or(u32::MAX),
    }
}

/// Opens the budget that a study charges, or returns `None` if it charges nothing.
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

/// Returns the root seed of the agent's random draws, which is given or drawn once and then stored.
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

/// Waits, and checks at every tick whether to stop. A sleep can last longer than requested, so the
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

    /// A clock whose sleeps last a tenth longer than requested.
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
