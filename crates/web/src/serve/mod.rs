//! A study over HTTP, for workers in any language that have neither a database nor a model.
//!
//! This module handles requests, responses and access control. The study and its storage determine
//! the next trial, its holder and its lease. All state is in the storage, so this server can be
//! killed at any time. Start at [`Server::start`].
//!
//! | file | responsibility |
//! | --- | --- |
//! | `service.rs` | the effect of a request on the study |
//! | `holders.rs` | workers and the nonces of their requests, as holders of trials |
//! | `body.rs` | parsing request bodies |
//! | `problem.rs` | error codes |

mod body;
mod holders;
mod problem;
mod service;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use fedbo_objective::{NumberNames, NumbersError};
use fedbo_space::Point;
use fedbo_storage::{TellOutcome, Told};
use fedbo_transport::{ConnectionCounts, ListenSettings, Listening, authenticate, closing};
use hyper::header::{AUTHORIZATION, HeaderMap};
use serde::Serialize;
use serde_json::json;
use tokio::sync::{Mutex, Notify, Semaphore, watch};
use tokio::task::JoinHandle;

use crate::answers::typed;
use crate::token::Token;
use body::Fields;
use fedbo_documents::study_ref::OpenStudy;
use problem::{Code, Problem};
use service::{Asked, Service};

/// OpenAPI 3.1 description of the API, served at `/v1/openapi.json`.
const OPENAPI: &str = include_str!("openapi.json");

/// Maximum number of concurrent `ask` requests.
const LINE: usize = 2048;
/// Default lease of a trial, and the range of leases that can be requested, in seconds.
const LEASE_S: f64 = 60.0;
const LEASES_S: (f64, f64) = (1.0, 86_400.0);
/// Allowed range, in seconds, of the time that an `ask` request waits for a trial.
const WAITS_S: (f64, f64) = (0.0, 60.0);
/// Interval at which waiting requests check for an available trial.
const LOOK: Duration = Duration::from_secs(1);

/// State shared by all requests.
struct Shared {
    service: Service,
    token: Token,
    /// One permit per `ask` request.
    line: Semaphore,
    /// Held by a request while its trial is proposed, so that each proposal takes the previous
    /// trials into account. Requests are served in order of arrival.
    turn: Arc<Mutex<()>>,
    /// Number of requests waiting for a trial to become available.
    n_waiting: AtomicUsize,
    /// Notified when some of the waiting requests may be able to complete.
    changed: Notify,
    closes: watch::Receiver<bool>,
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    closes: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Server {
    /// Starts the server on the current runtime. The server accepts requests once this function
    /// returns.
    ///
    /// # Errors
    /// Fails if the address cannot be bound, or if the storage fails.
    pub async fn start(
        settings: &ListenSettings,
        token: Token,
        opened: OpenStudy,
    ) -> anyhow::Result<Self> {
        // Storages are used only on threads that can block, as required by the PostgreSQL client.
        let service = tokio::task::spawn_blocking(move || Service::new(opened)).await??;
        let listening = Listening::start(settings)?;
        let address = listening.address();
        let (closes, ending) = watch::channel(false);
        let shared = Arc::new(Shared {
            service,
            token,
            line: Semaphore::new(LINE),
            turn: Arc::default(),
            n_waiting: AtomicUsize::new(0),
            changed: Notify::new(),
            closes: ending.clone(),
        });
        let router = router(shared);
        let serving = tokio::spawn(listening.serve(router, ConnectionCounts::default(), ending));
        Ok(Self { address, closes, serving })
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server. Requests in progress are completed. Waiting requests are told to retry.
    pub async fn stop(self) {
        self.closes.send_replace(true);
        // A panic of a connection is already in the log.
        let _ = self.serving.await;
    }
}

fn router(shared: Arc<Shared>) -> Router {
    let guarded = Router::new()
        .route("/v1/ask", post(ask))
        .route("/v1/trials/{number}/report", post(report))
        .route("/v1/trials/{number}/renew", post(renew))
        .route("/v1/trials/{number}/tell", post(tell))
        .route("/v1/trials/{number}/release", post(release))
        .route("/v1/study", get(study))
        .route("/v1/trials", get(trials))
        .fallback(not_found)
        .method_not_allowed_fallback(method)
        .layer(from_fn_with_state(Arc::clone(&shared), check));
    Router::new()
        .route("/healthz", get(healthz))
        .route("/v1/openapi.json", get(openapi))
        .method_not_allowed_fallback(method)
        .merge(guarded)
        .with_state(shared)
}

type Shares = State<Arc<Shared>>;
type Number = Result<Path<String>, PathRejection>;

/// Passes on requests that have the token.
async fn check(State(shared): Shares, request: Request, next: Next) -> Response {
    if !bearer(request.headers()).is_some_and(|given| shared.token.is(given)) {
        let message = "the request needs the header Authorization: Bearer TOKEN, with the token of this server: that of its --token-file, or the one \
                       that it printed at startup";
        return Problem::new(Code::Unauthorized, message).into_response();
    }
    authenticate(&request);
    next.run(request).await
}

/// Returns the bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

async fn not_found() -> Problem {
    Problem::new(Code::NotFound, "there is no such resource; /v1/openapi.json lists them")
}

async fn method() -> Problem {
    Problem::new(Code::Method, "this resource has no such method; /v1/openapi.json lists them")
}

/// `GET /healthz`: succeeds if the process responds.
async fn healthz() -> Response {
    typed("text/plain; charset=utf-8", "ok\n")
}

/// `GET /v1/openapi.json`.
async fn openapi() -> Response {
    typed("application/json", OPENAPI)
}

/// A trial leased to a worker.
#[derive(Serialize)]
struct Given<'a> {
    status: &'static str,
    number: u64,
    parameters: &'a Point,
    source: &'a str,
    lease_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    epochs: Option<u32>,
}

/// `POST /v1/ask`.
async fn ask(State(shared): Shares, request: Request) -> Result<Response, Problem> {
    let mut fields = Fields::read(request).await?;
    let (worker, nonce) = (fields.name("worker")?, fields.name("nonce")?);
    let lease = fields.seconds("lease_s", LEASE_S, LEASES_S)?;
    let until = Instant::now() + fields.seconds("wait_s", 0.0, WAITS_S)?;
    fields.end("worker, nonce, lease_s, wait_s")?;
    let _place = shared.line.try_acquire().map_err(|_| {
        Problem::new(Code::Busy, format!("{LINE} workers are already waiting; try again later"))
    })?;
    let mut closes = shared.closes.clone();
    loop {
        let changed = shared.changed.notified();
        let turn = tokio::select! {
            turn = Arc::clone(&shared.turn).lock_owned() => turn,
            () = closing(&mut closes) => return Ok(ends()),
        };
        let (worker, nonce, closed) = (worker.clone(), nonce.clone(), shared.closes.clone());
        let asked = blocking(&shared, move |service| {
            let _turn = turn; // kept until the proposal ends, even if the client has disconnected
            service.ask(&worker, &nonce, lease, &|| !*closed.borrow())
        });
        let asked = asked.await?;
        let now = Instant::now();
        if !matches!(asked, Asked::Wait { .. }) || now >= until {
            return Ok(answer_to_ask(&shared, &asked, lease));
        }
        let _waiting = Counted::new(&shared.n_waiting);
        tokio::select! {
            () = changed => {}
            () = tokio::time::sleep(LOOK.min(until - now)) => {}
            () = closing(&mut closes) => return Ok(ends()),
        }
    }
}

fn answer_to_ask(shared: &Shared, asked: &Asked, lease: Duration) -> Response {
    let without =
        |status: &str, reason: &str| answer(&json!({ "status": status, "reason": reason }));
    match asked {
        Asked::Trial(trial) => answer(&Given {
            status: "trial",
            number: trial.number,
            parameters: &trial.point,
            source: &trial.source,
            lease_s: lease.as_secs_f64(),
            epochs: shared.service.epochs(),
        }),
        Asked::Full { reason } => without("full", reason),
        Asked::Stopped { reason } => without("stopped", reason),
        Asked::Wait { reason } => without("wait", reason),
    }
}

/// Returns the response to a waiting request when the server shuts down.
fn ends() -> Response {
    answer(
        &json!({ "status": "wait", "reason": "the server is shutting down; it may be restarted" }),
    )
}

/// Increments a counter, and decrements it when dropped.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(number: &'a AtomicUsize) -> Self {
        number.fetch_add(1, Ordering::Relaxed);
        Self(number)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// `POST /v1/trials/{number}/report`.
async fn report(
    State(shared): Shares,
    number: Number,
    request: Request,
) -> Result<Response, Problem> {
    let number = number_of(number)?;
    let mut fields = Fields::read(request).await?;
    let (worker, epoch, value) = (fields.name("worker")?, fields.epoch()?, fields.number("value")?);
    fields.end("worker, epoch, value")?;
    let reason =
        blocking(&shared, move |service| service.report(&worker, number, epoch, value)).await?;
    if reason.is_some() {
        wake_if_over(&shared).await?;
    }
    Ok(answer(&json!({ "stop": reason.is_some(), "reason": reason })))
}

/// `POST /v1/trials/{number}/renew`.
async fn renew(
    State(shared): Shares,
    number: Number,
    request: Request,
) -> Result<Response, Problem> {
    let number = number_of(number)?;
    let mut fields = Fields::read(request).await?;
    let worker = fields.name("worker")?;
    let lease = fields.seconds("lease_s", LEASE_S, LEASES_S)?;
    fields.end("worker, lease_s")?;
    blocking(&shared, move |service| service.renew(&worker, number, lease)).await?;
    Ok(answer(&json!({ "lease_s": lease.as_secs_f64() })))
}

/// `POST /v1/trials/{number}/tell`.
async fn tell(
    State(shared): Shares,
    number: Number,
    request: Request,
) -> Result<Response, Problem> {
    let number = number_of(number)?;
    let mut fields = Fields::read(request).await?;
    let worker = fields.name("worker")?;
    let names = shared.service.names();
    let told = told(&mut fields, &names)?;
    let numbers = if names.len() > 1 { "outcomes" } else { "value" };
    fields.end(&format!("worker, and {numbers} or failed"))?;
    let outcome = blocking(&shared, move |service| service.tell(&worker, number, &told)).await?;
    let told = match outcome {
        TellOutcome::New { .. } => {
            wake_if_over(&shared).await?;
            "new"
        }
        TellOutcome::Already => "already",
    };
    Ok(answer(&json!({ "told": told })))
}

/// Reads the outcome of a trial from a request.
fn told(fields: &mut Fields, names: &NumberNames) -> Result<Told, Problem> {
    // If trials have several numbers, they are given by name.
    let key = if names.len() > 1 { "outcomes" } else { "value" };
    let Some(mut failed) = fields.object("failed")? else {
        if !fields.has(key) {
            let message = format!(
                "{key:?} and \"failed\" are both missing; one of them must state how the trial ended"
            );
            return Err(Problem::bad(message));
        }
        if names.len() == 1 {
            return Ok(Told::Value(fields.number("value")?));
        }
        let entries = fields.object("outcomes")?.map(Fields::into_entries).unwrap_or_default();
        return names.read(&entries).map(Told::with_numbers).map_err(|error| {
            let code = match error {
                NumbersError::NotFinite { .. } => Code::NotFinite,
                _ => Code::BadRequest,
            };
            Problem::new(code, format!("outcomes: {error}; expected {}", names.example()))
        });
    };
    if fields.has(key) {
        let message = format!("{key:?} and \"failed\" are both given; expected only one of them");
        return Err(Problem::bad(message));
    }
    let (kind, message) = (failed.name("kind")?, failed.text("message")?);
    failed.end("kind, message")?;
    Ok(Told::Failed { kind, message })
}

/// `POST /v1/trials/{number}/release`.
async fn release(
    State(shared): Shares,
    number: Number,
    request: Request,
) -> Result<Response, Problem> {
    let number = number_of(number)?;
    let mut fields = Fields::read(request).await?;
    let worker = fields.name("worker")?;
    fields.end("worker")?;
    blocking(&shared, move |service| service.release(&worker, number)).await?;
    shared.changed.notify_one();
    Ok(answer(&json!({ "released": number })))
}

/// `GET /v1/study`.
async fn study(State(shared): Shares) -> Result<Response, Problem> {
    Ok(answer(&blocking(&shared, Service::document).await?))
}

/// `GET /v1/trials?after=SEQ`.
async fn trials(State(shared): Shares, request: Request) -> Result<Response, Problem> {
    let after = match request.uri().query().unwrap_or_default() {
        "" => Some(0),
        query => query.strip_prefix("after=").and_then(|seq| seq.parse().ok()),
    };
    let Some(after) = after else {
        let message = "expected the query after=SEQ, with a position in completion order";
        return Err(Problem::bad(message));
    };
    Ok(answer(&blocking(&shared, move |service| service.told_after(after)).await?))
}

/// Parses a trial number in the path.
fn number_of(number: Number) -> Result<u64, Problem> {
    let number = number.ok().and_then(|Path(number)| number.parse().ok());
    number.ok_or_else(|| Problem::bad("the number of the trial in the path is not a whole number"))
}

/// Wakes all waiting requests if no trial is open, since they have nothing to wait for.
async fn wake_if_over(shared: &Arc<Shared>) -> Result<(), Problem> {
    if shared.n_waiting.load(Ordering::Relaxed) > 0
        && blocking(shared, Service::has_no_open_trial).await?
    {
        shared.changed.notify_waiters();
    }
    Ok(())
}

/// Runs `act` on the study, on a thread that can block.
async fn blocking<T: Send + 'static>(
    shared: &Arc<Shared>,
    act: impl FnOnce(&Service) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let shared = Arc::clone(shared);
    let done = tokio::task::spawn_blocking(move || act(&shared.service)).await;
    done.unwrap_or_else(|_| {
        let message = "this is a bug in fedbo; see the output of fedbo serve";
        Err(Problem::new(Code::Internal, message))
    })
}

/// Returns a JSON response.
fn answer(body: &impl Serialize) -> Response {
    // Serialization cannot fail, since bodies are plain data.
    typed("application/json", serde_json::to_vec(body).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fedbo_space::{ParameterSpec, Space};

    use super::*;

    const SOURCE: &str = include_str!("mod.rs");
    const PAGE: &str = include_str!("../../../../docs/serve.md");

    fn description() -> serde_json::Value {
        serde_json::from_str(OPENAPI).expect("JSON")
    }

    /// Returns the method and path of each `.route("path", method(..))`. They are parsed from the
    /// source, since a router cannot be inspected at run time.
    fn routes() -> BTreeSet<(String, String)> {
        let calls = SOURCE.split("    .route(\"").skip(1);
        let route = |call: &str| {
            let (path, rest) = call.split_once("\", ").expect("a path");
            let (method, _) = rest.split_once('(').expect("a handler");
            (method.to_owned(), path.to_owned())
        };
        calls.filter(|call| call.starts_with('/')).map(route).collect()
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let description = description();
        let mut described = BTreeSet::new();
        for (path, methods) in description["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("methods") {
                described.insert((method.clone(), path.clone()));
                let is_open = operation["security"] == json!([]);
                assert_eq!(is_open, ["/healthz", "/v1/openapi.json"].contains(&path.as_str()));
                let has_number = operation["parameters"].to_string().contains("Number");
                assert_eq!(has_number, path.contains("{number}"), "{path}");
                let line = format!("`{} {path}", method.to_uppercase());
                assert!(PAGE.contains(&line), "docs/serve.md has no {line}");
            }
        }
        assert_eq!(routes().len(), 9);
        assert_eq!(described, routes());
    }

    #[test]
    fn every_code_is_described_with_its_status() {
        let description = description();
        let listed = &description["components"]["schemas"]["Code"]["enum"];
        let codes = Code::ALL.map(|code| serde_json::to_value(code).expect("JSON"));
        assert_eq!(*listed, json!(codes));
        for (code, name) in Code::ALL.iter().zip(&codes) {
            let name = name.as_str().expect("a text");
            let row = format!("| `{name}` | {} |", code.status().as_u16());
            assert!(PAGE.contains(&row), "docs/serve.md has no row {row}");
        }
    }
    #[test]
    fn every_key_of_a_parameter_is_described() {
        let specs = [
            ("a", ParameterSpec::log_float(0.1, 1.0)),
            ("b", ParameterSpec::float(0.0, 1.0).with_step(0.5).when("c", "x")),
            ("c", ParameterSpec::ordered(["x", "y", "z"])),
            ("d", ParameterSpec::int_values([1, 4, 16])),
        ];
        let space = Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec)));
        let shown = fedbo_documents::space_display::parameters(&space.expect("a space"));
        let description = description();
        let schema = &description["components"]["schemas"]["Study"]["properties"]["parameters"];
        let known = schema["items"]["properties"].as_object().expect("properties");
        for parameter in serde_json::to_value(shown).expect("JSON").as_array().expect("a list") {
            for key in parameter.as_object().expect("a table").keys() {
                assert!(known.contains_key(key), "{key} is not described");
            }
            assert!(known["type"]["enum"].to_string().contains(&parameter["type"].to_string()));
        }
    }
}
