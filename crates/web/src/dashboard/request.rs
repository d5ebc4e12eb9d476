//! Parsed requests, and the functions that handle them.
//!
//! All responses except the pages' files are computed from storages and folders, so handlers run on
//! threads that can block. Handlers that occupy a processor wait for their [`Turn`], even if they
//! turn out to have nothing to do.

use std::fmt::{Display, Formatter};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context as _;
use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequestParts as _, Path, Query, Request};
use axum::handler::Handler;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};
use hyper::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode, Uri};
use serde::de::DeserializeOwned;

use super::Shared;
use crate::answers::typed;

/// Maximum size of a request in bytes. A point with a hundred parameters takes about ten thousand.
const BODY_MAX: usize = 64 * 1024;

/// A parsed request.
pub(super) struct Asked {
    pub(super) shared: Arc<Shared>,
    /// The path parameters.
    path: Vec<String>,
    uri: Uri,
    pub(super) headers: HeaderMap,
    body: Bytes,
}

impl Asked {
    async fn of(request: Request, shared: Arc<Shared>) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let path = match Path::from_request_parts(&mut parts, &()).await {
            Ok(Path(path)) => path,
            Err(error) => return Err(Problem::new(error.status(), error.body_text())),
        };
        let body = match parts.method == Method::POST {
            true => body_of(&parts.headers, body).await?,
            false => Bytes::new(),
        };
        Ok(Self { shared, path, uri: parts.uri, headers: parts.headers, body })
    }

    /// Returns the id of the study, run or federation in the path.
    pub(super) fn id(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }

    /// Returns the file name in the path.
    pub(super) fn file(&self) -> &str {
        self.path.get(1).map_or("", String::as_str)
    }

    /// Parses the query string.
    pub(super) fn query<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        match Query::try_from_uri(&self.uri) {
            Ok(Query(values)) => Ok(values),
            Err(error) => Err(Problem::new(error.status(), error.body_text())),
        }
    }

    /// Parses the body from JSON.
    pub(super) fn body<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let message = format!("the request does not have the expected form: {error}");
            Problem::new(StatusCode::BAD_REQUEST, message)
        })
    }
}

async fn body_of(headers: &HeaderMap, body: axum::body::Body) -> Result<Bytes, Problem> {
    let too_long = || {
        let message = format!("a request has at most {} KiB", BODY_MAX / 1024);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    let length = headers.get(CONTENT_LENGTH).and_then(|text| text.to_str().ok());
    if length.and_then(|text| text.parse().ok()).is_some_and(|length: usize| length > BODY_MAX) {
        return Err(too_long());
    }
    to_bytes(body, BODY_MAX).await.map_err(|_| too_long())
}

/// Queue in which a request waits.
#[derive(Clone, Copy)]
pub(super) enum Turn {
    /// No queue and no separate thread: nothing is read.
    Here,
    /// No queue: handled immediately.
    Now,
    /// Computations and drawings, one at a time.
    Drawing,
    /// Reads of a whole ledger, one at a time.
    Auditing,
}

/// Handler of a request.
pub(super) type Answer = fn(&Asked) -> anyhow::Result<Response>;

/// Creates a route for reading.
pub(super) fn read(turn: Turn, answer: Answer) -> MethodRouter<Arc<Shared>> {
    get(Page { turn, answer })
}

/// Creates a route for an action.
pub(super) fn act(answer: Answer) -> MethodRouter<Arc<Shared>> {
    post(Page { turn: Turn::Now, answer })
}

/// The only handler type, so that the async code is compiled once for all pages.
#[derive(Clone, Copy)]
struct Page {
    turn: Turn,
    answer: Answer,
}

impl Handler<(), Arc<Shared>> for Page {
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: Request, shared: Arc<Shared>) -> Self::Future {
        Box::pin(async move {
            let answered = match Asked::of(request, Arc::clone(&shared)).await {
                Ok(asked) if matches!(self.turn, Turn::Here) => {
                    (self.answer)(&asked).map_err(Problem::from)
                }
                Ok(asked) => in_turn(&shared, self.turn, move || (self.answer)(&asked)).await,
                Err(problem) => Err(problem),
            };
            answered.unwrap_or_else(|problem| problem.into_response())
        })
    }
}

/// Runs `work` in its turn, on a thread that can block. If the browser disconnects in the meantime,
/// the permit is held until the work ends.
pub(super) async fn in_turn<T: Send + 'static>(
    shared: &Shared,
    turn: Turn,
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    let turns = match turn {
        Turn::Here | Turn::Now => None,
        Turn::Drawing => Some(&shared.drawing),
        Turn::Auditing => Some(&shared.auditing),
    };
    let permit = match turns {
        Some(turns) => Some(Arc::clone(turns).acquire_owned().await.map_err(|_| Problem::ends())?),
        None => None,
    };
    on_a_thread(move || {
        let _one_at_a_time = permit;
        work()
    })
    .await
}

/// Runs `work`, which reads files, on a thread that can block.
pub(super) async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(Problem::from),
        Err(_) => Err(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "this is a bug in fedbo; see its log",
        )),
    }
}

/// An error response, with the reason as text.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    pub(super) message: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// Creates an error for a resource that does not exist, or does not exist yet.
    pub(crate) fn absent(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// Creates an error for requests during shutdown.
    fn ends() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the dashboard is shutting down")
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// Errors of storages and the disk become server errors with their message.
impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast_ref::<Self>() {
            Some(problem) => problem.clone(),
            None => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, fedbo_documents::error_text(&error))
            }
        }
    }
}

impl axum::response::IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = typed("text/plain; charset=utf-8", self.message);
        *response.status_mut() = self.status;
        response
    }
}

/// Returns a JSON response.
pub(super) fn json(body: &impl serde::Serialize) -> anyhow::Result<Response> {
    let bytes = serde_json::to_vec(body).context("a response cannot be serialized as JSON")?;
    Ok(typed("application/json", bytes))
}

/// Marks a response to be saved as a file if it is opened directly.
pub(super) fn as_file(mut response: Response, name: &str) -> Response {
    let plain =
        |each: char| if each.is_ascii_alphanumeric() || "._-".contains(each) { each } else { '_' };
    let name: String = name.chars().map(plain).collect();
    if let Ok(value) = HeaderValue::try_from(format!("attachment; filename=\"{name}\"")) {
        response.headers_mut().insert(CONTENT_DISPOSITION, value);
    }
    response
}
