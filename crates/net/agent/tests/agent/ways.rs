//! Ways from an agent to a coordinator in memory, and the moments at which its process may die.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use fedbo_agent::{Link, Place, Poll, Polled, SignedConfig, Step};
use fedbo_transport::{Clock, LinkError};
use fedbo_wire::{
    CoordinatorProof, Digest, EnrolRequest, Enrolled, EnrolmentToken, Problem, ProblemCode,
    RotateRequest, SigningKey, StudyStatus,
};

use crate::coordinator::{TestCoordinator, problem};

/// Ends everything at a chosen call, as the death of the process would: what is open is dropped, nothing more is written.
#[derive(Default)]
pub(crate) struct Cutter {
    /// Calls that are left; `None` for ever.
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

    /// `None` if it was cut.
    pub(crate) fn within<R>(act: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(act)) {
            Ok(result) => Some(result),
            Err(payload) if payload.is::<Cut>() => None,
            Err(payload) => resume_unwind(payload),
        }
    }
}

thread_local! {
    /// The time of a test, the same for all agents and coordinators in it.
    static NOW_MS: Cell<u64> = const { Cell::new(1_700_000_000_000) };
}

/// The time of this test.
pub(crate) fn now_ms() -> u64 {
    NOW_MS.get()
}

/// Lets time pass.
pub(crate) fn pass_time(time: Duration) {
    let ms = u64::try_from(time.as_millis()).unwrap();
    NOW_MS.set(NOW_MS.get() + ms);
}

thread_local! {
    /// Steps in a row that waited, and the shortest wait of them.
    static IDLE: Cell<(usize, Duration)> = const { Cell::new((0, Duration::MAX)) };
}

/// Notes what a step of one of `n` sessions came to: when all of them wait, time passes until the first has something to do.
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

/// Somebody has something to do: no time passes.
pub(crate) fn busy() {
    IDLE.set((0, Duration::MAX));
}

/// Time stands still but for what is slept and what tests let pass; chance is always the same.
#[derive(Default)]
pub(crate) struct TestClock {
    /// The lead of this agent's clock.
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

/// The way of one agent to a coordinator.
#[derive(Clone)]
pub(crate) struct TestLink {
    pub(crate) coordinator: Rc<RefCell<TestCoordinator>>,
    pub(crate) cutter: Rc<Cutter>,
    /// Answers that get lost, while above 0: the request was carried out.
    pub(crate) n_lost: Rc<Cell<u32>>,
    /// A request is carried out when it is sent for the n-th time, and is set aside before; 0 for at once.
    pub(crate) set_aside_every: Rc<Cell<u32>>,
    pub(crate) n_asked: Rc<Cell<u32>>,
}

impl TestLink {
    pub(crate) fn new(coordinator: &Rc<RefCell<TestCoordinator>>) -> Self {
        Self {
            coordinator: Rc::clone(coordinator),
            cutter: Rc::default(),
            n_lost: Rc::default(),
            set_aside_every: Rc::default(),
            n_asked: Rc::default(),
        }
    }

    /// One request: the process may die before it or after it, and the answer may get lost.
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

/// The token of a slot: its secret says which.
pub(crate) fn token(coordinator: &TestCoordinator, slot: u8) -> EnrolmentToken {
    EnrolmentToken {
        secret: [slot; 20],
        coordinator: coordinator.key.public(),
        config: coordinator.digest(),
    }
}

impl Link for TestLink {
    fn prove(&self, challenge: &Digest) -> Result<CoordinatorProof, LinkError> {
        self.ask(|coordinator| Ok(CoordinatorProof::new(&coordinator.key, challenge)))
    }

    fn enrol(&self, key: &SigningKey, request: &EnrolRequest) -> Result<Enrolled, LinkError> {
        self.ask(|coordinator| {
            request.verify(&key.public(), &coordinator.key.public()).unwrap();
            coordinator.n_enrolments += 1;
            let is_its = |slot: &u8| token(coordinator, *slot).key().public() == request.token;
            let slot = u32::from((0..=255).find(is_its).unwrap());
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

    fn config(&self, _: &SigningKey, _: &str) -> Result<SignedConfig, LinkError> {
        self.ask(|coordinator| {
            Ok(SignedConfig {
                text: coordinator.text.clone().into_bytes(),
                digest: coordinator.digest(),
                signature: coordinator.signature(),
            })
        })
    }

    fn upload(&self, key: &SigningKey, to: Place<'_>, body: &[u8]) -> Result<(), LinkError> {
        self.ask(|coordinator| coordinator.upload(key, to.slot, to.round, body))
    }

    fn handouts(&self, key: &SigningKey, _: &str, poll: Poll) -> Result<Polled, LinkError> {
        self.ask(|coordinator| coordinator.handouts(key, poll))
    }

    fn status(&self, key: &SigningKey, _: &str) -> Result<StudyStatus, LinkError> {
        // It changes nothing, and no answer of it gets lost: tests count those of what does.
        let answer = self.coordinator.borrow_mut().status(key);
        answer.map_err(|problem| LinkError::Refused { problem, retry_after: None })
    }

    fn rotate(
        &self,
        key: &SigningKey,
        study: &str,
        request: &RotateRequest,
    ) -> Result<(), LinkError> {
        self.ask(|coordinator| {
            let unknown = || problem(ProblemCode::UnknownAgent);
            let found = coordinator.keys.iter().find(|(_, known)| **known == key.public());
            let slot = *found.ok_or_else(unknown)?.0;
            request.verify(study, slot, &key.public()).unwrap();
            coordinator.keys.insert(slot, request.key);
            Ok(())
        })
    }
}
