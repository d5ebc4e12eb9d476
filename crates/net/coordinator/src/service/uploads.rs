//! Uploads of vectors.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use fedbo_gp::MapHash;
use fedbo_protocol::AgentUpdate;
use fedbo_secure_sum::ReportRefused;
use fedbo_transport::{Length, Refusal, json};
use fedbo_wire::{Accepted, AcceptedStatus, Digest, ProblemCode, SealedUpload, StudyState, Upload};
use hyper::body::Bytes;
use zeroize::Zeroize as _;

use super::registry::Served;
use super::request::of_agent;
use super::{Shared, refusal};
use crate::host::UploadOutcome;
use crate::intake::{Intake, NotTaken};
use crate::sum::{NotVerified, SumIntake};
use crate::vectors::Vectors;

/// `PUT /v1/studies/{study}/rounds/{round}/slots/{slot}`
pub(super) async fn put(
    State(shared): State<Arc<Shared>>,
    Path((study, round, slot)): Path<(String, u64, u32)>,
    request: Request,
) -> Result<Response, Refusal> {
    let exactly = |served: &Served| Length::Exactly(served.study.upload_bytes());
    let asked = of_agent(&shared, &study, request, exactly).await?;
    if asked.slot != slot {
        let message = format!("slot {slot} is not yours; yours is {}", asked.slot);
        return Err(Refusal::new(ProblemCode::NotYourSlot, message));
    }
    let served = asked.served;
    let body = Cleared(asked.body);
    if let Vectors::Sum(sum) = &served.vectors {
        return put_sealed(&served, Arc::clone(sum), &body.0, (slot, round)).await;
    }
    let mut upload = Upload::from_bytes(&body.0, served.study.n_features)
        .map_err(|error| Refusal::new(error.code(), error.to_string()))?;
    check_place(&served, (upload.slot, upload.round, upload.config), (slot, round))?;
    let update = AgentUpdate {
        sender: slot,
        round,
        map: MapHash(upload.map.0),
        weights: std::mem::take(&mut upload.weights).into(),
    };
    drop(body);
    check_state(&served, round)?;
    let answer = match &served.vectors {
        Vectors::Inbox(inbox) => post(&served, Arc::clone(inbox), update).await,
        Vectors::Shards(_, shards) => {
            let posted = shards.post(&update);
            posted.map(|()| accepted()).map_err(|not_taken| refused(&served, round, &not_taken))
        }
        // Shares for a secure sum were handled above.
        Vectors::Thread | Vectors::Sum(_) => pass_on(&served, update).await,
    }?;
    served.attendance.delivered(slot, round);
    Ok(answer)
}

/// Passes a vector to the study's thread.
async fn pass_on(served: &Served, update: AgentUpdate) -> Result<Response, Refusal> {
    let round = update.round;
    let busy = || {
        let message = "too many requests are waiting for this study; try again shortly";
        Refusal::new(ProblemCode::Busy, message)
    };
    let answered = served.with_host(|host| host.upload(update)).map_err(|_| busy())?;
    match answered.await {
        Ok(UploadOutcome::Accepted) => Ok(accepted()),
        Ok(UploadOutcome::Refused(rejected)) => Err(refusal::of_update(&rejected)),
        Ok(UploadOutcome::Closed) | Err(_) => {
            check_state(served, round)?;
            let message = "the study's rounds are not running now; try again later";
            Err(Refusal::new(ProblemCode::Unavailable, message))
        }
    }
}

/// Checks that a body matches the slot and round in the path, and the study's configuration.
fn check_place(
    served: &Served,
    (found_slot, found_round, config): (u32, u64, Digest),
    (slot, round): (u32, u64),
) -> Result<(), Refusal> {
    if (found_slot, found_round) != (slot, round) {
        let message = format!(
            "the body is for slot {found_slot} and round {found_round}, the path for slot {slot} and round {round}"
        );
        return Err(Refusal::new(ProblemCode::BadRequest, message));
    }
    if config != served.study.digest {
        let message = format!(
            "the upload was made under configuration {config}, the study's is {}; read it again, or enrol again",
            served.study.digest
        );
        return Err(Refusal::new(ProblemCode::WrongConfig, message));
    }
    Ok(())
}

/// Receives the shares of a vector: opens the leader's share, and verifies it together with the
/// helper.
async fn put_sealed(
    served: &Served,
    sum: Arc<SumIntake>,
    body: &[u8],
    (slot, round): (u32, u64),
) -> Result<Response, Refusal> {
    let upload = SealedUpload::from_bytes(body, sum.study().sealed_sizes())
        .map_err(|error| Refusal::new(error.code(), error.to_string()))?;
    check_place(served, (upload.slot, upload.round, upload.config), (slot, round))?;
    check_state(served, round)?;
    let posted = tokio::task::spawn_blocking(move || sum.post(&upload)).await;
    match posted {
        Ok(Ok(())) => {
            served.attendance.delivered(slot, round);
            Ok(accepted())
        }
        Ok(Err(NotVerified::Rejected(rejected))) => {
            check_state(served, round)?;
            Err(refusal::of_update(&rejected))
        }
        Ok(Err(NotVerified::Report(refused))) => {
            tracing::warn!(study = %served.study.name, slot, round, "an upload was not counted: {refused}");
            // `NotCollected` lets the sender continue, since a single server could claim that the
            // proof of any upload is invalid.
            let code = match refused {
                ReportRefused::Proof => ProblemCode::NotCollected,
                _ => ProblemCode::BadRequest,
            };
            let message = format!("the servers do not count this upload: {refused}");
            Err(Refusal::new(code, message))
        }
        Ok(Err(twice @ NotVerified::Twice)) => {
            Err(Refusal::new(ProblemCode::Unavailable, twice.to_string()))
        }
        Ok(Err(NotVerified::Helper(error))) => {
            tracing::warn!(study = %served.study.name, round, "cannot ask the helper: {error}");
            let message = "the coordinator cannot reach the study's helper now; try again later";
            Err(Refusal::new(ProblemCode::Unavailable, message))
        }
        Err(_) => {
            tracing::error!("internal error in an upload");
            let message = "internal error of the coordinator; its log has the details";
            Err(Refusal::new(ProblemCode::Internal, message))
        }
    }
}

/// Bytes of a vector, overwritten on drop (INV-16). Copies in network and TLS buffers are not
/// overwritten.
struct Cleared(Bytes);

impl Drop for Cleared {
    fn drop(&mut self) {
        // The bytes are not shared, so this succeeds.
        if let Ok(mut bytes) = std::mem::take(&mut self.0).try_into_mut() {
            bytes.as_mut().zeroize();
        }
    }
}

/// Stores a vector for the replica that leads the study. The write is complete when this returns.
async fn post(
    served: &Served,
    intake: Arc<Intake>,
    update: AgentUpdate,
) -> Result<Response, Refusal> {
    let round = update.round;
    let posted = tokio::task::spawn_blocking(move || intake.post(&update)).await;
    let unavailable = || {
        let message = "the coordinator cannot use its store now; try again later";
        Refusal::new(ProblemCode::Unavailable, message)
    };
    match posted {
        Ok(Ok(Ok(()))) => Ok(accepted()),
        Ok(Ok(Err(not_taken))) => Err(refused(served, round, &not_taken)),
        Ok(Err(error)) => {
            tracing::error!("cannot store an upload: {error}");
            Err(unavailable())
        }
        Err(_) => {
            // The panic message is not logged, since the code that panicked handles a vector
            // (INV-4).
            tracing::error!("internal error in an upload");
            let message = "internal error of the coordinator; its log has the details";
            Err(Refusal::new(ProblemCode::Internal, message))
        }
    }
}

/// Returns the refusal for a vector. If the study has ended or was paused in the meantime, the
/// refusal gives this as the reason.
fn refused(served: &Served, round: u64, not_taken: &NotTaken) -> Refusal {
    match not_taken {
        NotTaken::BeforeTheFirst => {
            let message = "the round is about to begin; send this again in a moment";
            Refusal::new(ProblemCode::Early, message)
        }
        NotTaken::StoreUnreachable => {
            let message = "the coordinator cannot use its store now; try again later";
            Refusal::new(ProblemCode::Unavailable, message)
        }
        NotTaken::Rejected(rejected) => match check_state(served, round) {
            Ok(()) => refusal::of_update(rejected),
            Err(refusal) => refusal,
        },
    }
}

fn accepted() -> Response {
    json(&Accepted { status: AcceptedStatus::Accepted })
}

fn check_state(served: &Served, round: u64) -> Result<(), Refusal> {
    let (state, current) = {
        let now = served.published.borrow();
        (now.state, now.round)
    };
    let (code, message) = match state {
        StudyState::Running => return Ok(()),
        StudyState::Waiting => (
            ProblemCode::NotStarted,
            "the study has not started; it is waiting for its agents or its operator",
        ),
        // The round remains over after the study resumes.
        StudyState::Paused if round < current => (ProblemCode::Late, "the round is over"),
        StudyState::Paused => (
            ProblemCode::Paused,
            "the operator has paused the study; the upload will be requested again when it resumes",
        ),
        StudyState::Finished => (ProblemCode::Finished, "the study is over"),
    };
    Err(Refusal::new(code, message))
}
