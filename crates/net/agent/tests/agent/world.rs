//! Agents and their homes, all in one thread.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fedbo_agent::{
    Ended, EnrolOptions, Home, Link, Notice, Observer, Parts, RunError, Session, Step, enrol_with,
};
use fedbo_federation::Federation;
use fedbo_objective::{FailuresMax, Objective, Outcome, TrialId};
use fedbo_privacy::accounting::{Budget, Delta};
use fedbo_protocol::Trial;
use fedbo_space::Point;
use fedbo_storage::{Mode, SqliteStorage, Storage as _, Told};
use fedbo_transport::ProxySetting;
use fedbo_wire::EnrolmentToken;

use crate::coordinator::{TestCoordinator, coordinator_key};
use crate::ways::{Cutter, TestClock, TestLink, note, pass_time, token};

/// An observer that records the events that tests check.
#[derive(Default)]
pub(crate) struct Ears {
    pub(crate) cutter: Rc<Cutter>,
    pub(crate) heard: RefCell<Vec<String>>,
    /// Milliseconds that pass after a trial has ended, to simulate computing the next query.
    pub(crate) ponders_ms: Cell<u64>,
}

impl Ears {
    fn hear(&self, what: String) {
        self.heard.borrow_mut().push(what);
        self.cutter.step();
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        let heard = self.heard.borrow();
        heard.iter().filter(|line| line.starts_with(what)).count()
    }
}

impl Observer for Ears {
    fn trial_started(&self, trial: &Trial, _: &Point) {
        self.hear(format!("started {}", trial.index));
    }
    fn trial_ended(&self, trial: &Trial, _: &Point, _: &Told) {
        pass_time(Duration::from_millis(self.ponders_ms.get()));
        self.hear(format!("ended {}", trial.index));
    }
    fn notice(&self, notice: &Notice<'_>) {
        self.hear(match notice {
            Notice::RoundBegan(round, _) => format!("round {round}"),
            Notice::UploadSent(round) => format!("sent {round}"),
            Notice::UploadMissed(round, why) => format!("missed {round} {}", why.code),
            Notice::UploadResent(round) => format!("resent {round}"),
            Notice::Retrying(why, next) => format!("retrying {} {why}", next.as_millis()),
            Notice::StudyWaits(state) => format!("waits {state}"),
            Notice::TakenOver(new) => format!("taken over {} {:?}", new.study, new.rounds),
            Notice::CoordinatorSetBack(_, known, answered) => {
                format!("forgotten {known} {answered}")
            }
            Notice::AccountUnchecked(study, _) => format!("unchecked {study}"),
            Notice::BudgetReached(reached) => format!("budget {}", reached.would_be),
            Notice::CoordinatorRefused(misconduct) => format!("refused {misconduct}"),
            _ => return,
        });
    }
}

/// A smooth function of the first parameter, different for each agent and evaluated instantly.
pub(crate) struct Bump;

impl Objective for Bump {
    fn evaluate(&self, point: &Point, trial: TrialId) -> Outcome {
        let x = point.number("x");
        let top = 0.2 + 0.15 * f64::from(u32::try_from(trial.agent).unwrap());
        Outcome::Value(-(x - top) * (x - top))
    }
}

/// An agent in a test.
pub(crate) struct Member {
    pub(crate) home: PathBuf,
    pub(crate) link: TestLink,
    pub(crate) clock: TestClock,
    pub(crate) ears: Ears,
    pub(crate) objective: Arc<dyn Objective>,
    pub(crate) seed: Option<u64>,
    pub(crate) cap: Option<Budget>,
    pub(crate) failures_max: FailuresMax,
    pub(crate) allow_unprotected: Vec<String>,
    pub(crate) study: String,
}

impl Member {
    /// Enrols an agent in a slot.
    pub(crate) fn enrol(home: &Path, coordinator: &Rc<RefCell<TestCoordinator>>, slot: u8) -> Self {
        let member = Self::unenrolled(home, coordinator);
        let token = token(&coordinator.borrow(), slot);
        enrol_with(&options(home, token), &member.link).unwrap();
        member
    }

    pub(crate) fn unenrolled(home: &Path, coordinator: &Rc<RefCell<TestCoordinator>>) -> Self {
        let cutter: Rc<Cutter> = Rc::default();
        let link = TestLink { cutter: Rc::clone(&cutter), ..TestLink::new(coordinator) };
        Self {
            failures_max: FailuresMax::default(),
            home: home.to_owned(),
            link,
            clock: TestClock { cutter: Rc::clone(&cutter), ..TestClock::default() },
            ears: Ears { cutter, ..Ears::default() },
            objective: Arc::new(Bump),
            seed: Some(coordinator.borrow().federation.seed),
            cap: Some(budget(1e6)),
            allow_unprotected: vec![coordinator.borrow().federation.name.clone()],
            study: coordinator.borrow().federation.name.clone(),
        }
    }

    pub(crate) fn cutter(&self) -> &Cutter {
        &self.link.cutter
    }

    pub(crate) fn session(&self) -> Result<Session<'_>, RunError> {
        self.session_with(&self.link, &Arc::new(AtomicBool::new(false)))
    }

    pub(crate) fn session_with<'a>(
        &'a self,
        link: &'a dyn Link,
        stop: &Arc<AtomicBool>,
    ) -> Result<Session<'a>, RunError> {
        let home = Home::open(&self.home)?;
        let membership = home.membership(Some(&self.study))?;
        Session::open(Parts {
            federation: membership.federation()?,
            membership,
            home,
            objective: Arc::clone(&self.objective),
            seed: self.seed,
            cap: self.cap,
            failures_max: self.failures_max,
            allow_unprotected: self.allow_unprotected.clone(),
            link,
            clock: &self.clock,
            observer: &self.ears,
            stop: Arc::clone(stop),
        })
    }

    /// Returns true if a file of the home contains a weight of this upload. A weight's eight bytes
    /// do not occur by chance.
    pub(crate) fn holds(&self, upload: &[u8]) -> bool {
        let weight = &upload[88..96];
        let files = std::fs::read_dir(&self.home).unwrap();
        files.into_iter().any(|file| {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            bytes.windows(8).any(|window| window == weight)
        })
    }

    /// Returns the newest round that has begun while this member was observed.
    pub(crate) fn newest_round(&self) -> u64 {
        let heard = self.ears.heard.borrow();
        let round = |line: &String| line.strip_prefix("round ")?.parse().ok();
        heard.iter().rev().find_map(round).unwrap_or(0)
    }

    /// Returns the trials as users see them: points, sources and outcomes.
    pub(crate) fn trials(&self) -> Vec<(Point, String, Option<Told>)> {
        let storage = SqliteStorage::open(&self.home.join("trials.db"), Mode::Existing).unwrap();
        let studies = storage.studies().unwrap();
        let study = studies.iter().find(|study| study.name == self.study);
        let trials = storage.trials(study.unwrap().key).unwrap();
        let shown = trials.into_iter().map(|trial| {
            let told = trial.told().cloned();
            (trial.point, trial.source, told)
        });
        shown.collect()
    }
}

pub(crate) fn options(home: &Path, token: EnrolmentToken) -> EnrolOptions {
    EnrolOptions {
        home: home.to_owned(),
        coordinator_url: "https://coordinator.example".to_owned(),
        token,
        ca: None,
        proxy: ProxySetting::default(),
        helper: None,
        allow_plain_http: false,
    }
}

pub(crate) fn budget(epsilon: f64) -> Budget {
    Budget::new(epsilon, Delta::new(1e-5).unwrap()).unwrap()
}

/// Advances the session until it ends, or until it has waited `patience` times in a row.
pub(crate) fn finish(session: &mut Session<'_>, patience: u32) -> Result<Option<Ended>, RunError> {
    let mut n_waits = 0;
    while n_waits < patience {
        match session.advance()? {
            Step::Went => n_waits = 0,
            Step::Waits(time) => {
                n_waits += 1;
                pass_time(time);
            }
            Step::Ended(ended) => return Ok(Some(ended)),
        }
    }
    Ok(None)
}

/// Lets sessions take turns until all have ended. When all sessions wait, time advances until the
/// first has something to do.
pub(crate) fn take_turns(sessions: &mut [Session<'_>]) -> Vec<Ended> {
    let mut ended: Vec<Option<Ended>> = vec![None; sessions.len()];
    for _ in 0..100_000 {
        let n = ended.iter().filter(|ended| ended.is_none()).count();
        for (session, ended) in sessions.iter_mut().zip(&mut ended) {
            if ended.is_none()
                && let Step::Ended(now) = note(session.advance().unwrap(), n)
            {
                *ended = Some(now);
            }
        }
        if ended.iter().all(Option::is_some) {
            return ended.into_iter().flatten().collect();
        }
    }
    panic!("the federation stands still: {ended:?}")
}

/// Returns the frozen text of a `federation.toml`.
pub(crate) fn frozen(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("federation.toml");
    std::fs::write(&path, text).unwrap();
    Federation::freeze(&path, &coordinator_key().public().to_string(), &fedbo_objective::NoProblems)
        .unwrap()
        .1
}

/// Returns a study of three agents with one parameter.
pub(crate) fn three_agents(name: &str, algorithm: &str, more: &str) -> String {
    format!(
        "[federation]\nname = \"{name}\"\nalgorithm = \"{algorithm}\"\nrounds = 4\ninitial = 2\nseed = 11\n\
         [features]\ncount = 12\nlengthscale = 0.3\n{more}\n\
         [space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n\
         [[agents]]\nname = \"north\"\n[[agents]]\nname = \"south\"\n[[agents]]\nname = \"west\"\n"
    )
}

pub(crate) const SIMULATED: &str =
    "[privacy]\nepsilon = 20.0\nsimulate = true\nreleases = 2\nevery = 2\n";
pub(crate) const CHARGED: &str = "[privacy]\nepsilon = 2.0\nreleases = 3\n";

pub(crate) fn coordinator(name: &str, algorithm: &str, more: &str) -> Rc<RefCell<TestCoordinator>> {
    let text = frozen(&three_agents(name, algorithm, more));
    Rc::new(RefCell::new(TestCoordinator::new(&text)))
}

/// Enrols three agents, each in its own home in a folder.
pub(crate) fn members(folder: &Path, coordinator: &Rc<RefCell<TestCoordinator>>) -> Vec<Member> {
    let member = |slot: u8| Member::enrol(&folder.join(format!("home{slot}")), coordinator, slot);
    (0..3).map(member).collect()
}
