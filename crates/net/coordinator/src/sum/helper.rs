//! The way to the helper.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fedbo_secure_sum::ShareRefused;
use fedbo_servers::{HelperMisconduct, SumStudy};
use fedbo_transport::{HttpClient, LinkError, Signer, checked_url};
use fedbo_wire::{
    CloseAnswer, HelperEntry, PassedReport, ServerMessageUnreadable, SigningKey, Verdict,
    close_to_bytes, entries_from_bytes, entries_size_max, reveal_to_bytes, verdicts_from_bytes,
    verify_to_bytes,
};

/// An error in asking the helper.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HelperFailed {
    /// It was not reached, or refused.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Its answer is none of this study and round.
    #[error(transparent)]
    Answer(#[from] ServerMessageUnreadable),
    /// It broke the protocol.
    #[error(transparent)]
    Misconduct(#[from] HelperMisconduct),
    /// The share that it gave is not the one that it was bound to.
    #[error(
        "the helper's share of round {round} is not the one that it was bound to before it saw the leader's"
    )]
    OtherShare { round: u64 },
    /// Its share of a round and the leader's give no release.
    #[error("the helper's share of round {round} gives no release: {source}")]
    Share { round: u64, source: ShareRefused },
    /// It says that slots are missing over which it was not asked to close.
    #[error("the helper does not close round {round} over the slots that it was asked for")]
    Unasked { round: u64 },
    /// The hash to which it is bound is not here.
    #[error(
        "round {round} has no release: the coordinator's store does not have the hash to which the helper was bound, so the store was set back"
    )]
    Unbound { round: u64 },
    /// Its chain does not have the round that it closed.
    #[error("the helper's ledger does not have its share of round {round}: it was set back")]
    SetBack { round: u64 },
    /// It counts slots whose vectors are not here.
    #[error(
        "the helper has closed round {round} over other slots, whose vectors are not here any more"
    )]
    OtherSlots { round: u64 },
}

impl HelperFailed {
    /// Returns true if the answer is still to come: the same request takes it up.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self, Self::Link(LinkError::SetAside))
    }
}

/// The way to the helper of a study.
pub(crate) struct HelperLink {
    /// For requests of agents, which wait.
    patient: HttpClient,
    /// For the study's thread, which has other things to do: a request whose answer is late is set aside, and the same is taken up.
    hurried: HttpClient,
    key: Arc<SigningKey>,
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

    /// With clients of its own: one that waits, and one that is hurried from now on.
    pub(crate) fn by(patient: HttpClient, hurried: HttpClient, key: Arc<SigningKey>) -> Self {
        if let Some(hurry) = hurried.hurry() {
            hurry.store(true, Ordering::Relaxed);
        }
        Self { patient, hurried, key }
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
        let signer = Signer { key: &self.key, to: study.helper.key };
        Ok(client.post_bytes(signer, &target, body, bytes_max)?.body)
    }

    /// Has reports verified: one that an agent waits for, or those that the helper has forgotten.
    pub(crate) fn verify(
        &self,
        study: &SumStudy,
        round: u64,
        reports: &[PassedReport],
        is_hurried: bool,
    ) -> Result<Vec<Verdict>, HelperFailed> {
        let (at, sizes) = (study.sum_place(round), study.passed_sizes());
        let body = verify_to_bytes(at, reports);
        let most = 256 + reports.len() * (1 + sizes.message);
        let client = if is_hurried { &self.hurried } else { &self.patient };
        let answer = self.ask(client, study, (round, "verify"), &body, most as u64)?;
        let by = (&study.helper.key, body.as_slice());
        Ok(verdicts_from_bytes(&answer, at, by, (reports.len(), sizes))?)
    }

    pub(crate) fn close(
        &self,
        study: &SumStudy,
        round: u64,
        slots: &[u32],
    ) -> Result<CloseAnswer, HelperFailed> {
        let at = study.sum_place(round);
        let body = close_to_bytes(at, slots);
        let most = CloseAnswer::size_max(study.n_slots) as u64;
        let answer = self.ask(&self.hurried, study, (round, "close"), &body, most)?;
        let by = (&study.helper.key, body.as_slice());
        Ok(CloseAnswer::from_bytes(&answer, at, by, study.n_slots)?)
    }

    pub(crate) fn reveal(
        &self,
        study: &SumStudy,
        (round, share): (u64, &[u8]),
        after: u64,
    ) -> Result<([u8; 32], Vec<HelperEntry>), HelperFailed> {
        let at = study.sum_place(round);
        let body = reveal_to_bytes(at, share);
        let most = study.share_bytes_max();
        let n = study.schedule.n_releases();
        let action = format!("reveal?after={after}");
        let answer =
            self.ask(&self.hurried, study, (round, &action), &body, entries_size_max(n, most))?;
        let by = (&study.helper.key, body.as_slice());
        Ok(entries_from_bytes(&answer, at, by, most)?)
    }
}
