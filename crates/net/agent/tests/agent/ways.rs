//! Links from an agent to an in-memory coordinator, and the points at which its process can die.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use fedbo_agent::{Caller, Link, Offer, Place, Poll, Polled, Step};
use fedbo_transport::{Clock, LinkError};
use fedbo_wire::{
    CoordinatorProof, Digest, EnrolRequest, Enrolled, EnrolmentToken, Problem, ProblemCode,
    RotateRequest, SigningKey, StudyStatus,
};

use crate::coordinator::{TestCoordinator, problem};

/// Simulates the death of the process at a chosen call. Open objects are dropped, and nothing more
/// is written.
#[derive(Default)]
pub(crate) struct Cutter {
    /// Number of calls left, or `None` if unlimited.
    left: Cell<Option<u64>>,
    pub(crate) n_calls: Cell<u64>,
}

struct Cut;

impl Cutter {
    pub(crate) fn after(&self, n_calls: u64) {
        self.left.set(Some(n_calls));
    }

    pub(crate) fn never(&self) {
        self.left.set(None);
    }

    pub(crate) fn step(&self) {
        self.n_calls.set(self.n_calls.get() + 1);
        if let Some(left) = self.left.get() {
            if left == 0 {
                resume_unwind(Box::new(Cut)); // without a message
            }
            self.left.set(Some(left - 1));
        }
    }

    /// Runs `act`. Returns `None` if it was cut.
    pub(crate) fn within<R>(act: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(act)) {
            Ok(result) => Some(result),
            Err(payload) if payload.is::<Cut>() => None,
            Err(payload) => resume_unwind(payload),
        }
    }
}

thread_local! {
    /// The time of a test, shared by all its agents and coordinators.
    static NOW_MS: Cell<u64> = const { Cell::new(1_700_000_000_000) };
}

/// Returns the time of this test.
pub(crate) fn now_ms() -> u64 {
    NOW_MS.get()
}

/// Advances the time of this test.
pub(crate) fn pass_time(time: Duration) {
    let ms = u64::try_from(time.as_millis()).unwrap();
    NOW_MS.set(NOW_MS.get() + ms);
}

thread_local! {
    /// Number of consecutive steps that waited, and the shortest of these waits.
    static IDLE: Cell<(usize, Duration)> = const { Cell::new((0, Duration::MAX)) };
}

/// Records the result of a step of one of `n` sessions. When all sessions wait, time advances until
/// the first has something to do.
pub(crate) fn note(step: Step, n: usize) -> Step {
    let (idle, shortest) = IDLE.get();
    IDLE.set(match step {
        Step::Waits(time) => (idle + 1, shortest.min(time)),
        Step::Ended(_) => (idle, shortest),
        Step::Went => (0, Duration::MAX),
    });
    let (idle, shortest) = IDLE.get();
    if idle >= n {
        pass_time(shortest);
        busy();
    }
    step
}

/// Records that a session has something to do, so that no time passes.
pub(crate) fn busy() {
    IDLE.set((0, Duration::MAX));
}

/// A clock whose time passes only through sleeps and explicit calls. Its random number is always
/// the same.
#[derive(Default)]
pub(crate) struct TestClock {
    /// Milliseconds by which this agent's clock is ahead.
    pub(crate) ahead_ms: Cell<u64>,
    pub(crate) cutter: Rc<Cutter>,
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        self.cutter.step();
        now_ms() + self.ahead_ms.get()
    }

    fn elapsed_ms(&self) -> u64 {
        now_ms()
    }

    fn sleep(&self, time: Duration) {
        pass_time(time);
    }

    fn chance(&self) -> f64 {
        0.5
    }
}

/// An agent's link to a coordinator.
#[derive(Clone)]
pub(crate) struct TestLink {
    pub(crate) coordinator: Rc<RefCell<TestCoordinator>>,
    pub(crate) cutter: Rc<Cutter>,
    /// Number of responses still to be lost after their requests were carried out.
    pub(crate) n_lost: Rc<Cell<u32>>,
    /// Of the requests that are not set aside, every n-th does not reach the coordinator, with n =
    /// this number. 0 if all do.
    pub(crate) unsent_every: Rc<Cell<u32>>,
    pub(crate) n_sent: Rc<Cell<u32>>,
    /// A request is set aside until it is sent as many times as this number, and then carried out.
    /// 0 if it is carried out immediately.
    pub(crate) set_aside_every: Rc<Cell<u32>>,
    pub(crate) n_asked: Rc<Cell<u32>>,
    /// The counter of the request that was set aside and is still in progress.
    pub(crate) aside: Rc<Cell<Option<u64>>>,
}

impl TestLink {
    pub(crate) fn new(coordinator: &Rc<RefCell<TestCoordinator>>) -> Self {
        Self {
            coordinator: Rc::clone(coordinator),
            cutter: Rc::default(),
            n_lost: Rc::default(),
            unsent_every: Rc::default(),
            n_sent: Rc::default(),
            set_aside_every: Rc::default(),
            n_asked: Rc::default(),
            aside: Rc::default(),
        }
    }

    /// Makes one request with a counter. If a request was set aside, its first transmission is
    /// carried out.
    fn ask_counted<R>(
        &self,
        by: Caller<'_>,
        act: impl FnOnce(&mut TestCoordinator) -> Result<R, Problem>,
    ) -> Result<R, LinkError> {
        let counter = self.aside.take().unwrap_or(by.counter);
        let answer = self.ask(|coordinator| {
            coordinator.count(Caller { counter, ..by })?;
            act(coordinator)
        });
        if matches!(answer, Err(LinkError::SetAside)) {
            self.aside.set(Some(counter));
        }
        answer
    }

    /// Makes one request. The process can die before or after it, and the response can get lost.
    fn ask<R>(
        &self,
        act: impl FnOnce(&mut TestCoordinator) -> Result<R, Problem>,
    ) -> Result<R, LinkError> {
        self.cutter.step();
        self.n_asked.set(self.n_asked.get() + 1);
        let every = self.set_aside_every.get();
        if every > 0 && !self.n_asked.get().is_multiple_of(every) {
            return Err(LinkError::SetAside);
        }
        self.n_sent.set(self.n_sent.get() + 1);
        if self.unsent_every.get() > 0 && self.n_sent.get().is_multiple_of(self.unsent_every.get())
        {
            let reason = "it is not there".to_owned();
            return Err(LinkError::Unreachable { reason });
        }
        let answer = act(&mut self.coordinator.borrow_mut());
        self.cutter.step();
        if self.n_lost.get() > 0 {
            self.n_lost.set(self.n_lost.get() - 1);
            let reason = "the answer was lost".to_owned();
            return Err(LinkError::Unreachable { reason });
        }
        answer.map_err(|problem| LinkError::Refused { problem, retry_after: None })
    }
}

/// Returns the token for a slot. Its secret identifies the slot.
pub(crate) fn token(coordinator: &TestCoordinator, slot: u8) -> EnrolmentToken {
    EnrolmentToken {
        secret: [slot; 20],
        coordinator: coordinator.key.public(),
        config: coordinator.digest(),
    }
}

/// Returns the slot of the token in a request.
fn slot_of(coordinator: &TestCoordinator, request: &EnrolRequest) -> u32 {
    let is_its = |slot: &u8| token(coordinator, *slot).key().public() == request.token;
    u32::from((0..=255).find(is_its).unwrap())
}

impl Link for TestLink {
    fn prove(&self, challenge: &Digest) -> Result<CoordinatorProof, LinkError> {
        self.ask(|coordinator| Ok(CoordinatorProof::new(&coordinator.key, challenge)))
    }

    fn offer(&self, key: &SigningKey, request: &EnrolRequest) -> Result<Offer, LinkError> {
        self.ask(|coordinator| {
            request.verify(&key.public(), &coordinator.key.public()).unwrap();
            Ok(Offer {
                slot: slot_of(coordinator, request),
                text: coordinator.text.clone().into_bytes(),
                digest: coordinator.digest(),
                signature: coordinator.signature(),
            })
        })
    }

    fn enrol(&self, key: &SigningKey, request: &EnrolRequest) -> Result<Enrolled, LinkError> {
        self.ask(|coordinator| {
            request.verify(&key.public(), &coordinator.key.public()).unwrap();
            coordinator.n_enrolments += 1;
            let slot = slot_of(coordinator, request);
            coordinator.keys.insert(slot, key.public());
            Ok(Enrolled {
                study: coordinator.federation.name.clone(),
                slot,
                agent: coordinator.federation.agents[slot as usize].name.clone(),
                config: coordinator.digest(),
                coordinator: coordinator.key.public(),
            })
        })
    }

    fn upload(&self, by: Caller<'_>, to: Place<'_>, body: &[u8]) -> Result<(), LinkError> {
        self.ask_counted(by, |coordinator| coordinator.upload(by.key, to.slot, to.round, body))
    }

    fn handouts(&self, by: Caller<'_>, _: &str, poll: Poll) -> Result<Polled, LinkError> {
        self.ask_counted(by, |coordinator| coordinator.handouts(by.key, poll))
    }

    fn status(&self, key: &SigningKey, _: &str) -> Result<StudyStatus, LinkError> {
        // The request changes nothing, and its response never gets lost, because tests count the
        // lost responses of other requests.
        let answer = self.coordinator.borrow_mut().status(key);
        answer.map_err(|problem| LinkError::Refused { problem, retry_after: None })
    }

    fn rotate(
        &self,
        by: Caller<'_>,
        study: &str,
        request: &RotateRequest,
    ) -> Result<(), LinkError> {
        let key = by.key;
        self.ask(|coordinator| {
            let unknown = || problem(ProblemCode::UnknownAgent);
            let found = coordinator.keys.iter().find(|(_, known)| **known == key.public());
            let slot = *found.ok_or_else(unknown)?.0;
            coordinator.count(by)?;
            request.verify(study, slot, &key.public()).unwrap();
            coordinator.keys.insert(slot, request.key);
            Ok(())
        })
    }
}
