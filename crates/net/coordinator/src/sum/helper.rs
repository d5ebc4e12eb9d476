//! Requests to the helper.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fedbo_secure_sum::ShareRefused;
use fedbo_servers::{HelperMisconduct, SumStudy};
use fedbo_transport::{HttpClient, LinkError, Signer, checked_url};
use fedbo_wire::{
    BadSignature, CloseAnswer, Digest, HelperEntry, NO_SESSION, OpenAnswer, PassedReport,
    ProblemCode, RoundKey, ServerMessageUnreadable, Session, SigningKey, SumPlace, Verdict,
    close_to_bytes, entries_from_bytes, entries_size_max, open_to_bytes, reveal_to_bytes,
    verdicts_from_bytes, verify_to_bytes,
};

/// Error from a request to the helper.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HelperFailed {
    /// The helper could not be reached, or refused the request.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The response cannot be parsed as one for this study and round.
    #[error(transparent)]
    Answer(#[from] ServerMessageUnreadable),
    /// The helper violated the protocol.
    #[error(transparent)]
    Misconduct(#[from] HelperMisconduct),
    /// There is no session: the helper has not opened a round since this process or the helper was
    /// started.
    #[error("the helper was restarted, and the round is not open there yet")]
    NoSession,
    /// The key of a round is not signed by the helper.
    #[error("the helper's key of round {round} is not signed by the helper: {source}")]
    Key { round: u64, source: BadSignature },
    /// The helper's share does not match its commitment.
    #[error(
        "the helper's share of round {round} is not the one that it committed to before it saw the leader's"
    )]
    OtherShare { round: u64 },
    /// The leader's and the helper's shares of a round do not combine into a release.
    #[error("the helper's share of round {round} yields no release: {source}")]
    Share { round: u64, source: ShareRefused },
    /// The helper reports missing slots, but names none or names slots that were not requested.
    #[error("the helper does not close round {round} over the requested slots")]
    Unasked { round: u64 },
    /// The coordinator lacks the helper's commitment.
    #[error(
        "round {round} has no release: the coordinator's store lacks the helper's commitment, so the store was rolled back"
    )]
    Unbound { round: u64 },
    /// The helper's chain lacks the round that it closed.
    #[error("the helper's ledger lacks its share of round {round}: it was rolled back")]
    RolledBack { round: u64 },
    /// The helper counts slots for which the coordinator has no vector.
    #[error(
        "the helper has closed round {round} over other slots, and their vectors are no longer here"
    )]
    OtherSlots { round: u64 },
}

impl HelperFailed {
    /// Returns true if the response is still pending. Repeating the request retrieves it.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self, Self::Link(LinkError::SetAside))
    }

    /// Returns true if retries keep failing until a person intervenes.
    pub(crate) fn needs_intervention(&self) -> bool {
        matches!(self, Self::Link(error) if !error.is_temporary() && !self.is_late())
    }

    /// Returns true if the helper is unreachable.
    fn is_out_of_reach(&self) -> bool {
        matches!(self, Self::Link(LinkError::Unreachable { .. }))
    }

    /// Returns true if the helper was restarted: it has a different session, or the round is no
    /// longer open there.
    fn is_of_another_session(&self) -> bool {
        let codes = [Some(ProblemCode::Early), Some(ProblemCode::Late)];
        matches!(self, Self::Link(error) if codes.contains(&error.code()))
    }
}

/// Connection to the helper of a study.
pub(crate) struct HelperLink {
    /// Client for agents' requests, which wait for the response.
    patient: HttpClient,
    /// Client for the study's thread, which has other tasks. If a response is late, the request is
    /// set aside, and repeating the request retrieves the response.
    hurried: HttpClient,
    key: Arc<SigningKey>,
    /// Session with the helper, once it has opened a round for this process.
    session: Mutex<Option<Session>>,
}

impl HelperLink {
    pub(crate) fn new(
        study: &SumStudy,
        key: Arc<SigningKey>,
        authority: Option<&Path>,
        allow_plain_http: bool,
    ) -> Result<Self, LinkError> {
        let url = checked_url(&study.helper_url, allow_plain_http)
            .map_err(|message| LinkError::Setting(format!("{}: {message}", study.helper_url)))?;
        let client = || {
            let never = Arc::new(AtomicBool::new(false));
            HttpClient::new(&url, authority, never, "the helper")
        };
        Ok(Self::by(client()?, client()?, key))
    }

    /// Creates a link from two clients: `patient` waits for responses, and `hurried` sets late ones
    /// aside from now on.
    pub(crate) fn by(patient: HttpClient, hurried: HttpClient, key: Arc<SigningKey>) -> Self {
        if let Some(hurry) = hurried.hurry() {
            hurry.store(true, Ordering::Relaxed);
        }
        Self { patient, hurried, key, session: Mutex::new(None) }
    }

    fn ask(
        &self,
        client: &HttpClient,
        study: &SumStudy,
        (round, action): (u64, &str),
        body: &[u8],
        bytes_max: u64,
    ) -> Result<Vec<u8>, LinkError> {
        let target = format!("/v1/studies/{}/rounds/{round}/{action}", study.name);
        let signer = Signer { key: &self.key, to: study.helper.key, counter: 0 };
        Ok(client.post_bytes(signer, &target, body, bytes_max)?.body)
    }

    /// Returns the session with the helper, if there is one.
    pub(crate) fn session(&self) -> Option<Session> {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, study: &SumStudy, round: u64) -> Result<SumPlace, HelperFailed> {
        let session = self.session().ok_or(HelperFailed::NoSession)?;
        Ok(study.sum_place(round, session))
    }

    /// Passes on the result of a request in a session. Ends the session if the helper is
    /// unreachable or has a different session, and returns [`HelperFailed::NoSession`] in the
    /// latter case.
    fn heard<T>(&self, result: Result<T, HelperFailed>) -> Result<T, HelperFailed> {
        match result {
            Err(error) if error.is_of_another_session() => {
                *self.session.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Err(HelperFailed::NoSession)
            }
            Err(error) if error.is_out_of_reach() => {
                *self.session.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Err(error)
            }
            result => result,
        }
    }

    /// Opens a round, which begins a session. `known` identifies the helper's newest known share.
    ///
    /// Returns the key of the round, or `None` if the helper has closed the round.
    pub(crate) fn open(
        &self,
        study: &SumStudy,
        round: u64,
        known: Option<(u64, Digest)>,
    ) -> Result<Option<RoundKey>, HelperFailed> {
        let at = study.sum_place(round, NO_SESSION);
        let body = open_to_bytes(at, known);
        let most = OpenAnswer::size_max() as u64;
        let answer = self.ask(&self.hurried, study, (round, "open"), &body, most)?;
        let by = (&study.helper.key, body.as_slice());
        let OpenAnswer { session, key } = OpenAnswer::from_bytes(&answer, at, by)?;
        if let Some(key) = &key {
            let verified = key.verify(&study.helper.key, &study.config);
            verified.map_err(|source| HelperFailed::Key { round, source })?;
        }
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        Ok(key)
    }

    /// Asks the helper to verify reports: one for a waiting agent, or those that a restarted helper
    /// has lost.
    pub(crate) fn verify(
        &self,
        study: &SumStudy,
        round: u64,
        reports: &[PassedReport],
        is_hurried: bool,
    ) -> Result<Vec<Verdict>, HelperFailed> {
        let (at, sizes) = (self.place(study, round)?, study.passed_sizes());
        let body = verify_to_bytes(at, reports);
        let most = 256 + reports.len() * (1 + sizes.message);
        let client = if is_hurried { &self.hurried } else { &self.patient };
        let answer = self.ask(client, study, (round, "verify"), &body, most as u64);
        let answer = self.heard(answer.map_err(HelperFailed::from))?;
        let by = (&study.helper.key, body.as_slice());
        Ok(verdicts_from_bytes(&answer, at, by, (reports.len(), sizes))?)
    }

    pub(crate) fn close(
        &self,
        study: &SumStudy,
        round: u64,
        slots: &[u32],
    ) -> Result<CloseAnswer, HelperFailed> {
        let at = self.place(study, round)?;
        let body = close_to_bytes(at, slots);
        let most = CloseAnswer::size_max(study.n_slots) as u64;
        let answer = self.ask(&self.hurried, study, (round, "close"), &body, most);
        let answer = self.heard(answer.map_err(HelperFailed::from))?;
        let by = (&study.helper.key, body.as_slice());
        Ok(CloseAnswer::from_bytes(&answer, at, by, study.n_slots)?)
    }

    pub(crate) fn reveal(
        &self,
        study: &SumStudy,
        (round, share): (u64, &[u8]),
        after: u64,
    ) -> Result<([u8; 32], Vec<HelperEntry>), HelperFailed> {
        let at = self.place(study, round)?;
        let body = reveal_to_bytes(at, share);
        let most = study.share_bytes_max();
        let n = study.schedule.n_releases();
        let action = format!("reveal?after={after}");
        let answer =
            self.ask(&self.hurried, study, (round, &action), &body, entries_size_max(n, most));
        let answer = self.heard(answer.map_err(HelperFailed::from))?;
        let by = (&study.helper.key, body.as_slice());
        Ok(entries_from_bytes(&answer, at, by, most)?)
    }
}
