//! The routes of the service.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Path, Query, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use fedbo_failpoints::pass;
use fedbo_transport::{Clock as _, Length, Refusal, SystemClock, check_version, json, of_type};
use fedbo_wire::{
    Accepted, AcceptedStatus, CoordinatorProof, Digest, EnrolRequest, Enrolled, HEADER_CONFIG,
    HEADER_SIGNATURE, JSON_REQUEST_BYTES_MAX, ProblemCode, RotateRequest, StudyStatus,
};
use hyper::StatusCode;
use hyper::header::HeaderValue;

use super::request::{of_agent, of_member, signed, unknown_agent};
use super::{OPENAPI, Shared, handouts, uploads};
use crate::spans::{self, Instrument as _, Span};

/// The parties that an address is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Agents alone.
    Agents,
    /// The operator alone.
    Operator,
    /// Both, where nothing but this machine or a proxy asks.
    Everybody,
}

/// The routes of an audience.
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
        .route("/v1/enrol", post(enrol))
        .route("/v1/studies/{study}", get(status))
        .route("/v1/studies/{study}/config", get(config))
        .route("/v1/studies/{study}/handouts", get(handouts::get))
        .route("/v1/studies/{study}/key", post(rotate))
        .route("/v1/studies/{study}/rounds/{round}/slots/{slot}", put(uploads::put))
}

/// Routes as metrics name them; anything else is one.
const ROUTES: [&str; 11] = [
    "/healthz",
    "/readyz",
    "/metrics",
    "/v1/openapi.json",
    "/v1/coordinator",
    "/v1/enrol",
    "/v1/studies/{study}",
    "/v1/studies/{study}/config",
    "/v1/studies/{study}/handouts",
    "/v1/studies/{study}/key",
    "/v1/studies/{study}/rounds/{round}/slots/{slot}",
];

/// Counts and times requests. Refusals of the framework itself get our form.
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
        // A path or query that does not parse.
        let message =
            "a number in the path or the query cannot be read, or a key of the query is unknown";
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

/// `GET /healthz`: the process answers.
async fn healthz() -> Response {
    of_type("text/plain; charset=utf-8", "ok\n")
}

/// `GET /readyz`: the store answers.
async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    let store = Arc::clone(&shared.store);
    let read = tokio::task::spawn_blocking(move || store.now_ms()).await;
    match read {
        Ok(Ok(_)) => of_type("text/plain; charset=utf-8", "ready\n"),
        _ => {
            let mut response = of_type("text/plain; charset=utf-8", "the store does not answer\n");
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response
        }
    }
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
    /// 32 bytes that the asker has drawn.
    challenge: Digest,
}

/// `GET /v1/coordinator`: who this is, for anybody who is about to send something.
async fn proof(
    State(shared): State<Arc<Shared>>,
    Query(ChallengeQuery { challenge }): Query<ChallengeQuery>,
    request: Request,
) -> Result<Response, Refusal> {
    check_version(request.headers())?;
    Ok(json(&CoordinatorProof::new(&shared.key, &challenge)))
}

/// `POST /v1/enrol`
async fn enrol(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    let asked = signed(&shared, request, Length::AtMost(JSON_REQUEST_BYTES_MAX)).await?;
    let body: EnrolRequest = parse(&asked.body)?;
    body.verify(&asked.key, &shared.key.public())
        .map_err(|error| Refusal::new(ProblemCode::BadSignature, format!("proof: {error}")))?;
    let (store, key) = (Arc::clone(&shared.store), asked.key);
    let enrolment = blocking(move || store.enrol(&body.token, &body.config, &key)).await??;
    pass("coordinator: an agent is enrolled");
    // Known from now on, not from the next look at the store on.
    shared.refresh().await?;
    Ok(json(&Enrolled {
        study: enrolment.study.name,
        slot: enrolment.slot,
        agent: enrolment.agent,
        config: fedbo_wire::config_digest(enrolment.study.config.as_bytes()),
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
    let mut response = of_type("application/toml", study.config.clone());
    let headers = response.headers_mut();
    let text = |text: String| {
        HeaderValue::from_str(&text).map_err(|_| {
            let message = "the coordinator met a defect of its own; its log says more";
            Refusal::new(ProblemCode::Internal, message)
        })
    };
    headers.insert(HEADER_CONFIG, text(study.digest.to_string())?);
    headers.insert(HEADER_SIGNATURE, text(study.signature.to_string())?);
    Ok(response)
}

/// `GET /v1/studies/{study}`
async fn status(
    State(shared): State<Arc<Shared>>,
    Path(study): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let asked = of_agent(&shared, &study, request, |_| Length::Empty).await?;
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
    }))
}

/// `POST /v1/studies/{study}/key`
async fn rotate(
    State(shared): State<Arc<Shared>>,
    Path(study): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    // The key may be the one that was replaced: the answer was lost, and the request comes again.
    let asked = signed(&shared, request, Length::AtMost(JSON_REQUEST_BYTES_MAX)).await?;
    let body: RotateRequest = parse(&asked.body)?;
    let served = shared.registry().studies.get(&study).cloned();
    let served = served.ok_or_else(unknown_agent)?;
    let (store, key, old) = (Arc::clone(&shared.store), served.study.key, asked.key);
    let slot = blocking(move || store.slot_of(key, &old)).await??;
    let slot = slot.ok_or_else(unknown_agent)?;
    body.verify(&study, slot, &old)
        .map_err(|error| Refusal::new(ProblemCode::BadSignature, format!("proof: {error}")))?;
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
        tracing::error!("a request met a defect: {error}");
        let message = "the coordinator met a defect of its own; its log says more";
        Refusal::new(ProblemCode::Internal, message)
    })
}
