//! Handouts of new rounds, served by long polling.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use fedbo_transport::{Length, Refusal, of_type};
use fedbo_wire::{
    HEADER_ELAPSED, HEADER_RESEND, HEADER_ROUND, HEADER_ROUND_KEY, HEADER_STATE, ProblemCode,
    StudyState,
};
use hyper::StatusCode;
use hyper::header::HeaderValue;
use tokio::time::Instant;

use super::Shared;
use super::registry::Served;
use super::request::of_agent;
use crate::host::broadcasts_since;
use crate::published::Published;
use crate::shards::KNOWN;
use crate::vectors::Vectors;

/// Maximum wait of a poll in seconds.
const WAIT_MAX_S: u64 = 60;

/// Parameters of a poll: the agent's state, and the time to wait.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    /// Newest round that the agent has begun. `None` before the first.
    after: Option<u64>,
    /// Number of releases that the agent has.
    #[serde(default)]
    entries: u64,
    /// Number of entries of the helper's ledger that the agent has, in a secure sum.
    #[serde(default)]
    helper: u64,
    /// Maximum wait in seconds.
    #[serde(default)]
    wait: u64,
    /// Newest round for which the agent has delivered a vector.
    delivered: Option<u64>,
    /// State of the study that the agent last saw. Defaults to the state at the time of the poll.
    state: Option<StudyState>,
}

/// `GET /v1/studies/{study}/handouts`
pub(super) async fn get(
    State(shared): State<Arc<Shared>>,
    Path(study): Path<String>,
    Query(known): Query<Known>,
    request: Request,
) -> Result<Response, Refusal> {
    if known.wait > WAIT_MAX_S {
        let message = format!("wait = {}, at most {WAIT_MAX_S} seconds", known.wait);
        return Err(Refusal::new(ProblemCode::BadRequest, message));
    }
    let asked = of_agent(&shared, &study, request, |_| Length::Empty).await?;
    let (served, slot) = (asked.served, asked.slot);
    let until = Instant::now() + Duration::from_secs(known.wait);
    let mut published = served.published.clone();
    // Deliveries to other shards become known with a delay.
    let asks_at = match served.vectors.shards() {
        Some(_) => until.min(Instant::now() + KNOWN),
        None => Instant::now(),
    };
    let known_state = known.state.unwrap_or(published.borrow().state);
    loop {
        let now = Arc::clone(&published.borrow_and_update());
        // Round 0 is the exchange before the first handout.
        if now.is_ready && !now.is_held && now.round > known.after.unwrap_or(0) {
            return handout(&shared, &served, now, &known).await;
        }
        let is_asked = Instant::now() >= asks_at;
        if let Some(round) = known.delivered
            && now.round == round
            && is_asked
            && is_missing(&served, slot, round).await
        {
            return Ok(nothing(&now, Some(round)));
        }
        // A start or resumption of the study is reported only once the start of its round is known.
        let is_said = now.state != StudyState::Running || now.elapsed_ms().is_some();
        if now.closes
            || (now.state != known_state && is_said)
            || (now.is_ready && now.state == StudyState::Finished)
        {
            return Ok(nothing(&now, None));
        }
        let wakes_at = if is_asked { until } else { asks_at };
        match tokio::time::timeout_at(wakes_at, published.changed()).await {
            Ok(Ok(())) => {}
            Err(_) if !is_asked => {}
            Ok(Err(_)) | Err(_) => return Ok(nothing(&now, None)),
        }
    }
}

/// Returns true if an upload that the agent in this slot has delivered for this round is missing,
/// for example after a crash of the coordinator.
async fn is_missing(served: &Served, slot: u32, round: u64) -> bool {
    match served.vectors.clone() {
        Vectors::Thread => match served.with_host(|host| host.awaits(slot, round)) {
            Ok(answered) => answered.await.unwrap_or(false),
            Err(_) => false,
        },
        Vectors::Inbox(inbox) => {
            let asked = tokio::task::spawn_blocking(move || inbox.awaits(slot, round)).await;
            // If the store is unreachable, it is asked again later.
            matches!(asked, Ok(Ok(true)))
        }
        Vectors::Shards(_, shards) => shards.awaits(slot, round),
        Vectors::Sum(sum) => sum.awaits(slot, round),
    }
}

async fn handout(
    shared: &Arc<Shared>,
    served: &Arc<Served>,
    now: Arc<Published>,
    known: &Known,
) -> Result<Response, Refusal> {
    const KIND: &str = "application/octet-stream";
    let Some(last) = now.broadcast.clone() else {
        let bytes = now.releases_after((known.entries, known.helper), &served.study, &shared.key);
        let response = of_type(KIND, hyper::body::Bytes::from_owner(bytes));
        return Ok(timed(response, &now));
    };
    let (shared, served) = (Arc::clone(shared), Arc::clone(served));
    let after = known.after.unwrap_or(0);
    let encode = move || {
        // At a free pace, each handout repeats the earlier messages.
        if after + 1 >= last.round || served.study.federation.free.is_some() {
            let bytes = now.newest_messages(&last, &served.study, &shared.key);
            return Ok((hyper::body::Bytes::from_owner(bytes), now));
        }
        let joined = broadcasts_since(&*shared.store, &served.study, &shared.key, after, &last)?;
        let bytes = now.messages(joined, &served.study, &shared.key);
        Ok::<_, String>((bytes.into(), now))
    };
    match tokio::task::spawn_blocking(encode).await {
        Ok(Ok((bytes, now))) => Ok(timed(of_type(KIND, bytes), &now)),
        Ok(Err(error)) => {
            tracing::error!("cannot read a handout: {error}");
            let message = "the coordinator cannot use its store now; try again later";
            Err(Refusal::new(ProblemCode::Unavailable, message))
        }
        Err(error) => {
            tracing::error!("cannot make a handout: {error}");
            let message = "internal error of the coordinator; its log has the details";
            Err(Refusal::new(ProblemCode::Internal, message))
        }
    }
}

/// Returns a 204 response, with headers for the round, the state, a round to resend, and the
/// round's key.
fn nothing(now: &Published, resend: Option<u64>) -> Response {
    let mut response = of_type("application/octet-stream", Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(HEADER_ROUND, HeaderValue::from(now.round));
    headers.insert(HEADER_STATE, HeaderValue::from_static(now.state.name()));
    if let Some(round) = resend {
        headers.insert(HEADER_RESEND, HeaderValue::from(round));
    }
    if let Some(Ok(key)) = now.round_key.map(|key| HeaderValue::try_from(key.to_string())) {
        headers.insert(HEADER_ROUND_KEY, key);
    }
    timed(response, now)
}

/// Adds a header with the elapsed time of the round, from which agents derive their send time
/// (INV-12).
fn timed(mut response: Response, now: &Published) -> Response {
    if let Some(elapsed_ms) = now.elapsed_ms() {
        let headers = response.headers_mut();
        headers.insert(HEADER_ELAPSED, HeaderValue::from(elapsed_ms));
    }
    response
}
