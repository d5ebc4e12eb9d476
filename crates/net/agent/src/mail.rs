//! A link to a coordinator over another system's messages, for a process that never waits for a
//! response.
//!
//! A process starts with the responses to earlier requests. A request without a response is put
//! into the outbox, and the run ends as if it had been stopped. The next process replays the
//! agent's log, makes the same request, and finds the response.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fedbo_federation::Federation;
use fedbo_objective::Objective;
use fedbo_party::Identity;
use fedbo_transport::{
    CarriedRequest, CarriedResponse, Clock as _, Courier, LinkError, ProxySetting, SystemClock,
};
use fedbo_wire::{
    CLOCK_TOLERANCE_MS, CoordinatorProof, Digest, EnrolRequest, Enrolled, EnrolmentToken,
    HEADER_KEY, ProblemCode, PublicKey, RotateRequest, SigningKey, StudyStatus, digest,
};

use crate::http_link::upload_target;
use crate::link::{Caller, Link, Offer, Place, Poll, Polled};
use crate::run::{Reach, run_linked};
use crate::{Ended, EnrolError, EnrolOptions, Home, HttpLink, RunError, RunOptions, enrol_showing};

/// Placeholder address of a coordinator that is reached only by mail. Its host cannot be resolved.
const NO_ADDRESS: &str = "https://by-mail.invalid";

/// Time for which a response with a study's state is reused within a process.
const FRESH_MS: u64 = 5_000;
/// Age, in milliseconds, from which a response is ignored if it reports a clock difference, because
/// the request may have been in transit for a long time.
const OLD_MS: u64 = 60_000;

/// Continues an enrolment by mail. Returns true once the agent has joined; until then, the mail's
/// outbox contains the next requests.
///
/// `show` is called with the study before the membership is stored.
///
/// # Errors
/// As for [`crate::enrol`].
pub fn enrol_by_mail(
    home: &Path,
    token: EnrolmentToken,
    mail: &Arc<Mail>,
    show: &mut dyn FnMut(&Federation),
) -> Result<bool, EnrolError> {
    let has_joined = |joined: &crate::Membership| joined.digest == token.config;
    // A process that was killed while it created the database may have left it empty.
    if Home::exists(home) && Home::open_or_make(home)?.memberships()?.iter().any(has_joined) {
        return Ok(true);
    }
    let link = MailLink::new(Arc::clone(mail), token.coordinator);
    let options = EnrolOptions {
        home: home.to_owned(),
        coordinator_url: NO_ADDRESS.to_owned(),
        token,
        ca: None,
        proxy: ProxySetting::default(),
        helper: None,
        allow_plain_http: false,
    };
    match enrol_showing(&options, &link, show) {
        Ok(_) => Ok(true),
        Err(EnrolError::Link { source: LinkError::Stopped, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Runs an agent until it needs a response that the mail does not contain.
///
/// The run then ends as if it had been stopped, and the mail's outbox contains the requests. If
/// `objective` is `None`, the file's command is evaluated.
///
/// # Errors
/// As for [`crate::run`], and if a rotation of the agent's key is incomplete.
pub fn run_by_mail(
    options: &RunOptions<'_>,
    objective: Option<Arc<dyn Objective>>,
    mail: &Arc<Mail>,
) -> Result<Ended, RunError> {
    // With two keys, one process would have to ask which key the coordinator knows, and only the
    // next would get the response.
    if Identity::load(&options.file.home)?.next.is_some() {
        let reason = "a change of the agent's key is incomplete; complete it with `fedbo agent rotate` on a machine that can \
                      reach the coordinator";
        return Err(RunError::Link(LinkError::Setting(reason.to_owned())));
    }
    run_linked(options, objective, Reach::One, &|membership| {
        if membership.federation().is_ok_and(|federation| federation.free.is_some()) {
            let reason = "the study has pace = \"free\": its agents send requests while a trial is running, which mail does \
                          not allow; join it over HTTPS, or ask its operator for a study in rounds";
            return Err(LinkError::Setting(reason.to_owned()));
        }
        Ok(Box::new(MailLink::new(Arc::clone(mail), membership.coordinator)))
    })
}

/// Identifier of a request: the digest of its method, target, signer and body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub Digest);

impl RequestId {
    fn new(method: &str, target: &str, key: &str, body: &[u8]) -> Self {
        let parts = [method.as_bytes(), target.as_bytes(), key.as_bytes(), body];
        Self(digest("fedbo carried request, version 1", &parts))
    }

    fn of(request: &CarriedRequest) -> Self {
        let key = request.headers.iter().find(|(name, _)| name == HEADER_KEY);
        let key = key.map_or("", |(_, value)| value);
        Self::new(&request.method, &request.target, key, &request.body)
    }
}

/// The responses available to a process of an agent, and the requests that it leaves.
#[derive(Debug)]
pub struct Mail {
    opened_ms: u64,
    is_old: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    answers: HashMap<RequestId, CarriedResponse>,
    /// Requests that got a response in this process.
    answered: Vec<CarriedRequest>,
    outbox: Vec<(RequestId, CarriedRequest)>,
    /// The challenge of an enrolment in progress.
    challenge: Option<Digest>,
}

impl Mail {
    /// Creates the mail for a process.
    ///
    /// Both `challenge` and `asked_ms` come from the previous process. `challenge` is its
    /// [`Mail::challenge`]. `asked_ms` is the time at which its requests were sent, in milliseconds
    /// since 1970 by the agent's clock; if it is `None`, the responses count as old.
    #[must_use]
    pub fn new(
        answers: impl IntoIterator<Item = (RequestId, CarriedResponse)>,
        challenge: Option<Digest>,
        asked_ms: Option<u64>,
    ) -> Self {
        let is_old = asked_ms.is_none_or(|asked| SystemClock.now_ms().abs_diff(asked) > OLD_MS);
        Self {
            opened_ms: SystemClock.elapsed_ms(),
            is_old,
            state: Mutex::new(State {
                answers: answers.into_iter().collect(),
                answered: Vec::new(),
                outbox: Vec::new(),
                challenge,
            }),
        }
    }

    /// Returns the requests without responses. They must be delivered in this order.
    pub fn outbox(&self) -> Vec<(RequestId, CarriedRequest)> {
        self.state().outbox.clone()
    }

    /// Returns the challenge of an enrolment in progress. The challenge proves that the
    /// coordinator's response is fresh, so it must be stored where others cannot write.
    pub fn challenge(&self) -> Option<Digest> {
        self.state().challenge
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the milliseconds since this process got its responses.
    fn age_ms(&self) -> u64 {
        SystemClock.elapsed_ms().saturating_sub(self.opened_ms)
    }

    /// Puts the requests that got a response in this process into the outbox, because the next
    /// process repeats them.
    fn ask_again(&self) {
        let mut state = self.state();
        let answered = std::mem::take(&mut state.answered);
        for request in answered {
            state.ask(request);
        }
    }
}

impl State {
    fn ask(&mut self, request: CarriedRequest) {
        // The process is about to end, so the remaining responses are dropped.
        self.answers.clear();
        let id = RequestId::of(&request);
        if self.outbox.iter().all(|(known, _)| *known != id) {
            self.outbox.push((id, request));
        }
    }
}

impl Courier for Mail {
    fn carry(&self, request: CarriedRequest) -> Result<CarriedResponse, LinkError> {
        let mut state = self.state();
        if let Some(answer) = state.answers.remove(&RequestId::of(&request)) {
            state.answered.push(request);
            return Ok(answer);
        }
        state.ask(request);
        Err(LinkError::Stopped)
    }
}

/// A link to a coordinator through [`Mail`].
#[derive(Debug)]
pub struct MailLink {
    http: HttpLink,
    mail: Arc<Mail>,
    /// The newest response that contains the study's state.
    status: RefCell<Option<StudyStatus>>,
}

impl MailLink {
    /// Creates the link to the coordinator with this key.
    #[must_use]
    pub fn new(mail: Arc<Mail>, coordinator: PublicKey) -> Self {
        let courier: Arc<Mail> = Arc::clone(&mail);
        Self { http: HttpLink::carried(courier, coordinator), mail, status: RefCell::new(None) }
    }

    /// Makes a request. If the response was in transit for a long time and reports a clock
    /// difference, it counts as missing.
    fn ask<T>(&self, request: impl Fn() -> Result<T, LinkError>) -> Result<T, LinkError> {
        match request() {
            Err(error) if error.code() == Some(ProblemCode::ClockDiffers) && self.mail.is_old => {
                request()
            }
            answer => answer,
        }
    }

    /// Makes a request in a study. If there is no response yet, also requests the study's state,
    /// because the next process begins with it.
    fn ask_in<T>(
        &self,
        key: &SigningKey,
        study: &str,
        request: impl Fn() -> Result<T, LinkError>,
    ) -> Result<T, LinkError> {
        let answer = self.ask(request);
        if matches!(answer, Err(LinkError::Stopped)) {
            let _goes_with_it = self.http.status(key, study);
        }
        answer
    }

    /// Makes a request for an enrolment, which the next process repeats from the start.
    fn ask_enrolling<T>(&self, request: impl Fn() -> Result<T, LinkError>) -> Result<T, LinkError> {
        let answer = self.ask(request);
        if matches!(answer, Err(LinkError::Stopped)) {
            self.mail.ask_again();
        }
        answer
    }

    /// Returns the study's state if it was received in this process and is still fresh. The elapsed
    /// time of the round is updated.
    fn known(&self, study: &str) -> Option<StudyStatus> {
        let status = self.status.borrow().clone()?;
        (status.study == study && self.mail.age_ms() < FRESH_MS).then(|| self.aged(status))
    }

    fn aged(&self, status: StudyStatus) -> StudyStatus {
        let elapsed_ms = self.later(status.elapsed_ms);
        StudyStatus { elapsed_ms, ..status }
    }

    /// Returns the current elapsed time of a round, given the elapsed time when the responses
    /// arrived.
    fn later(&self, elapsed_ms: Option<u64>) -> Option<u64> {
        elapsed_ms.map(|elapsed_ms| elapsed_ms.saturating_add(self.mail.age_ms()))
    }
}

impl Link for MailLink {
    fn prove(&self, challenge: &Digest) -> Result<CoordinatorProof, LinkError> {
        self.mail.state().challenge = Some(*challenge);
        self.ask_enrolling(|| self.http.prove(challenge))
    }

    fn pending_challenge(&self) -> Option<Digest> {
        self.mail.challenge()
    }

    fn is_carried(&self) -> bool {
        true
    }

    fn offer(&self, key: &SigningKey, request: &EnrolRequest) -> Result<Offer, LinkError> {
        self.ask_enrolling(|| self.http.offer(key, request))
    }

    fn enrol(&self, key: &SigningKey, request: &EnrolRequest) -> Result<Enrolled, LinkError> {
        let enrolled = self.ask_enrolling(|| self.http.enrol(key, request))?;
        self.mail.state().challenge = None; // every enrolment has its own challenge
        Ok(enrolled)
    }

    fn upload(&self, by: Caller<'_>, to: Place<'_>, body: &[u8]) -> Result<(), LinkError> {
        self.ask_in(by.key, to.study, || self.http.upload(by, to, body))
    }

    fn has_answer(&self, key: &SigningKey, to: Place<'_>, body: &[u8]) -> bool {
        let key = key.public().to_string();
        let id = RequestId::new("PUT", &upload_target(to), &key, body);
        self.mail.state().answers.contains_key(&id)
    }

    fn handouts(&self, by: Caller<'_>, study: &str, poll: Poll) -> Result<Polled, LinkError> {
        let polled = self.ask_in(by.key, study, || self.http.handouts(by, study, poll))?;
        Ok(match polled {
            Polled::Handout { bytes, elapsed_ms } => {
                Polled::Handout { bytes, elapsed_ms: self.later(elapsed_ms) }
            }
            Polled::Nothing(mut progress) => {
                progress.elapsed_ms = self.later(progress.elapsed_ms);
                Polled::Nothing(progress)
            }
        })
    }

    fn status(&self, key: &SigningKey, study: &str) -> Result<StudyStatus, LinkError> {
        if let Some(known) = self.known(study) {
            return Ok(known);
        }
        let mut status = self.ask(|| self.http.status(key, study))?;
        let differs = SystemClock.now_ms().abs_diff(status.time_ms) > CLOCK_TOLERANCE_MS;
        if differs && self.mail.is_old {
            status = self.http.status(key, study)?;
        }
        self.status.replace(Some(status.clone()));
        Ok(self.aged(status))
    }

    fn rotate(
        &self,
        by: Caller<'_>,
        study: &str,
        request: &RotateRequest,
    ) -> Result<(), LinkError> {
        self.ask(|| self.http.rotate(by, study, request))
    }
}
