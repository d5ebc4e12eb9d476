//! The routes of the service.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Path, Query, RawQuery, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use fedbo_failpoints::pass;
use fedbo_transport::{Clock as _, Length, Refusal, SystemClock, check_version, json, of_type};
use fedbo_wire::{
    Accepted, AcceptedStatus, CoordinatorProof, Digest, EnrolRequest, Enrolled, HEADER_CONFIG,
    HEADER_SIGNATURE, HEADER_SLOT, JSON_REQUEST_BYTES_MAX, ProblemCode, PublicKey, RotateRequest,
    Signature, StudyStatus, config_digest, sign_config,
};
use hyper::StatusCode;
use hyper::header::HeaderValue;

use super::accounts::account;
use super::request::{of_asker, of_member, signature, signed, unknown_agent};
use super::{OPENAPI, Shared, handouts, uploads};
use crate::spans::{self, Instrument as _, Span};

/// Clients that an address serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Agents only.
    Agents,
    /// The operator only.
    Operator,
    /// Both, if only this machine or a proxy can reach the address.
    Everybody,
}

/// Returns the routes for an audience.
pub(crate) fn router(shared: Arc<Shared>, audience: Audience) -> Router {
    let mut routes = Router::new();
    if audience != Audience::Agents {
        routes = routes.merge(for_the_operator());
    }
    if audience != Audience::Operator {
        routes = routes.merge(for_agents());
    }
    routes
        .fallback(not_found)
        .method_not_allowed_fallback(method)
        .layer(from_fn_with_state(Arc::clone(&shared), observe))
        .with_state(shared)
}

fn for_the_operator() -> Router<Arc<Shared>> {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
}

fn for_agents() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/openapi.json", get(openapi))
        .route("/v1/coordinator", get(proof))
        .route("/v1/offer", post(offer))
        .route("/v1/enrol", post(enrol))
        .route("/v1/studies/{study}", get(status))
        .route("/v1/studies/{study}/config", get(config))
        .route("/v1/studies/{study}/handouts", get(handouts::get))
        .route("/v1/studies/{study}/key", post(rotate))
        .route("/v1/studies/{study}/rounds/{round}/slots/{slot}", put(uploads::put))
}

/// Route labels in metrics. All other routes share one label.
const ROUTES: [&str; 12] = [
    "/healthz",
    "/readyz",
    "/metrics",
    "/v1/openapi.json",
    "/v1/coordinator",
    "/v1/offer",
    "/v1/enrol",
    "/v1/studies/{study}",
    "/v1/studies/{study}/config",
    "/v1/studies/{study}/handouts",
    "/v1/studies/{study}/key",
    "/v1/studies/{study}/rounds/{round}/slots/{slot}",
];

/// Records the number and duration of requests, and converts the framework's error responses to our
/// format.
async fn observe(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let since = Instant::now();
    let matched = request.extensions().get::<MatchedPath>();
    let route = matched.and_then(|matched| {
        let found = ROUTES.iter().find(|route| **route == matched.as_str());
        found.copied()
    });
    let route = route.unwrap_or("other");
    let is_poll = route.ends_with("/handouts");
    let span = match is_poll {
        true => Span::none(),
        false => spans::request(request.method().as_str(), route),
    };
    let mut response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    let is_ours = response.headers().contains_key(fedbo_wire::HEADER_PROTOCOL);
    if status.is_client_error() && !is_ours {
        // The path or the query could not be parsed.
        let message =
            "the path or the query contains an invalid number, or the query has an unknown key";
        response = Refusal::new(ProblemCode::BadRequest, message).into_response();
    }
    spans::answered(&span, response.status().as_u16());
    let took = (!is_poll).then(|| since.elapsed());
    shared.metrics.request(route, response.status().as_u16(), took);
    response
}

async fn not_found() -> Refusal {
    let message = "there is no such resource; /v1/openapi.json lists them";
    Refusal::new(ProblemCode::NotFound, message)
}

async fn method() -> Refusal {
    let message = "this resource has no such method; /v1/openapi.json lists them";
    Refusal::new(ProblemCode::Method, message)
}

/// `GET /healthz`: always returns 200.
async fn healthz() -> Response {
    of_type("text/plain; charset=utf-8", "ok\n")
}

/// Query for `/readyz` that skips the check of the studies.
///
/// Intended for load balancers, which send no requests unless the response is 200: a single stalled
/// study must not make the others unreachable.
const STORE_ONLY: &str = "scope=store";

/// `GET /readyz`: checks that the store responds and that no study that should run is stalled. With
/// `?scope=store`, checks only the store.
async fn readyz(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let store = Arc::clone(&shared.store);
    let read = tokio::task::spawn_blocking(move || store.now_ms()).await;
    let text = match read {
        Ok(Ok(_)) if query.as_deref() == Some(STORE_ONLY) => String::new(),
        Ok(Ok(_)) => shared.registry().stalled_studies(),
        _ => "the store does not respond\n".to_owned(),
    };
    if text.is_empty() {
        return of_type("text/plain; charset=utf-8", "ready\n");
    }
    let mut response = of_type("text/plain; charset=utf-8", text);
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

/// `GET /metrics`
async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    of_type(kind, shared.metrics.text())
}

/// `GET /v1/openapi.json`
async fn openapi() -> Response {
    of_type("application/json", OPENAPI)
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ChallengeQuery {
    /// 32 random bytes from the client.
    challenge: Digest,
}

/// `GET /v1/coordinator`: proves the coordinator's identity to a client before the client sends any
/// data.
async fn proof(
    State(shared): State<Arc<Shared>>,
    Query(ChallengeQuery { challenge }): Query<ChallengeQuery>,
    request: Request,
) -> Result<Response, Refusal> {
    check_version(request.headers())?;
    Ok(json(&CoordinatorProof::new(&shared.key, &challenge)))
}

/// Reads a request from a token's holder, and verifies the proof that the sender has the token.
async fn of_token(shared: &Shared, request: Request) -> Result<(EnrolRequest, PublicKey), Refusal> {
    let asked = signed(shared, request, Length::AtMost(JSON_REQUEST_BYTES_MAX)).await?;
    let body: EnrolRequest = parse(&asked.body)?;
    body.verify(&asked.key, &shared.key.public())
        .map_err(|error| Refusal::new(ProblemCode::BadSignature, format!("proof: {error}")))?;
    Ok((body, asked.key))
}

/// `POST /v1/offer`: returns the configuration and the slot that a token offers. Read-only.
async fn offer(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    let (body, key) = of_token(&shared, request).await?;
    let store = Arc::clone(&shared.store);
    let offered = blocking(move || store.offer(&body.token, &body.config, &key)).await??;
    let text = offered.study.config;
    let signature = sign_config(&shared.key, text.as_bytes());
    let mut response = signed_config(&text, &config_digest(text.as_bytes()), &signature)?;
    response.headers_mut().insert(HEADER_SLOT, HeaderValue::from(offered.slot));
    Ok(response)
}

/// `POST /v1/enrol`
async fn enrol(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    let (body, key) = of_token(&shared, request).await?;
    let store = Arc::clone(&shared.store);
    let enrolment = blocking(move || store.enrol(&body.token, &body.config, &key)).await??;
    pass("coordinator: an agent is enrolled");
    // Makes the agent known immediately, without waiting for the next poll of the store.
    shared.refresh().await?;
    Ok(json(&Enrolled {
        study: enrolment.study.name,
        slot: enrolment.slot,
        agent: enrolment.agent,
        config: config_digest(enrolment.study.config.as_bytes()),
        coordinator: shared.key.public(),
    }))
}

/// `GET /v1/studies/{study}/config`
async fn config(
    State(shared): State<Arc<Shared>>,
    Path(study): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let served = of_member(&shared, &study, request).await?;
    let study = &served.study;
    signed_config(&study.config, &study.digest, &study.signature)
}

/// Returns a response with a configuration signed by the coordinator.
fn signed_config(
    config: &str,
    digest: &Digest,
    signature: &Signature,
) -> Result<Response, Refusal> {
    let mut response = of_type("application/toml", config.to_owned());
    let headers = response.headers_mut();
    let text = |text: String| {
        HeaderValue::from_str(&text).map_err(|_| {
            let message = "internal error of the coordinator; its log has the details";
            Refusal::new(ProblemCode::Internal, message)
        })
    };
    headers.insert(HEADER_CONFIG, text(digest.to_string())?);
    headers.insert(HEADER_SIGNATURE, text(signature.to_string())?);
    Ok(response)
}

/// `GET /v1/studies/{study}`
async fn status(
    State(shared): State<Arc<Shared>>,
    Path(study): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let asked = of_asker(&shared, &study, request, |_| Length::Empty).await?;
    let (account_shared, key) = (Arc::clone(&shared), asked.key);
    let account = blocking(move || account(&account_shared, key)).await??;
    let study = &asked.served.study;
    let now = Arc::clone(&asked.served.published.borrow());
    Ok(json(&StudyStatus {
        study: study.name.clone(),
        state: now.state,
        round: now.round,
        rounds: study.federation.n_rounds(),
        collects: now.collects,
        head: match study.is_relayed() {
            true => String::new(),
            false => now.head.to_string(),
        },
        time_ms: SystemClock.now_ms(),
        elapsed_ms: now.elapsed_ms(),
        round_key: now.round_key,
        account,
    }))
}

/// `POST /v1/studies/{study}/key`
async fn rotate(
    State(shared): State<Arc<Shared>>,
    Path(study): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    // If the response was lost and the request is retried, the key has already been replaced.
    let signature = signature(request.headers())?;
    let asked = signed(&shared, request, Length::AtMost(JSON_REQUEST_BYTES_MAX)).await?;
    let body: RotateRequest = parse(&asked.body)?;
    let served = shared.registry().studies.get(&study).cloned();
    let served = served.ok_or_else(unknown_agent)?;
    let (store, key, old) = (Arc::clone(&shared.store), served.study.key, asked.key);
    let slot = blocking(move || store.slot_of(key, &old)).await??;
    let slot = slot.ok_or_else(unknown_agent)?;
    body.verify(&study, slot, &old)
        .map_err(|error| Refusal::new(ProblemCode::BadSignature, format!("proof: {error}")))?;
    shared.counting.take(key, slot, &signature).await?;
    let (store, new) = (Arc::clone(&shared.store), body.key);
    blocking(move || store.rotate(key, slot, &old, &new)).await??;
    shared.refresh().await?;
    Ok(json(&Accepted { status: AcceptedStatus::Accepted }))
}

fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::new(ProblemCode::BadRequest, format!("the body: {error}")))
}

async fn blocking<R: Send + 'static>(
    act: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Refusal> {
    tokio::task::spawn_blocking(act).await.map_err(|error| {
        tracing::error!("internal error in a request: {error}");
        let message = "internal error of the coordinator; its log has the details";
        Refusal::new(ProblemCode::Internal, message)
    })
}
