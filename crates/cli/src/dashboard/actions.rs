//! Actions on a study: a point is added, failed trials are tried again, the study is stopped.
//!
//! They are served with `--actions` only, and the guard lets only requests of the dashboard's own pages through. Each is a command's, by the
//! same code: `fedbo enqueue`, `fedbo retry`, `fedbo stop`. The pages see what came of it by the events of the study.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use fedbo_study::Study;
use hyper::StatusCode;
use hyper::header::CONTENT_LENGTH;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::guard::is_same_site;
use super::{Id, NotThere, Problem, Shared, Shares, answer, blocking};
use crate::exit::Exit;
use crate::own_point;
use crate::trial_record::{Retried, SCHEMA_VERSION, StopDocument};

/// Bytes of a request at most: a point of a hundred parameters has some ten thousand.
const BODY_MAX: usize = 64 * 1024;
/// The name of these pages, as whoever is stopped by them reads it.
const BY: &str = "fedbo dashboard";

/// The secret that a page shows with each action.
#[derive(Serialize)]
struct Secret<'a> {
    schema_version: u32,
    token: &'a str,
}

/// `GET /api/actions`: the secret, for pages of this server.
pub(crate) async fn secret(State(shared): Shares, request: Request) -> Result<Response, Problem> {
    let Some(token) = &shared.actions else {
        return Err(Problem::new(StatusCode::NOT_FOUND, NONE));
    };
    if !is_same_site(request.headers()) {
        return Err(Problem::new(StatusCode::FORBIDDEN, "a page of another site asked for this"));
    }
    answer(&Secret { schema_version: SCHEMA_VERSION, token: token.text() })
}

/// The refusal of actions where none are served.
pub(super) const NONE: &str =
    "these pages only show; they change nothing (fedbo dashboard --actions serves actions too)";

/// A point of one's own: names of parameters with texts of values, as on the command line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPoint {
    values: Vec<(String, String)>,
}

/// `POST /api/studies/{id}/enqueue`.
pub(crate) async fn enqueue(
    State(shared): Shares,
    Path(id): Id,
    request: Request,
) -> Result<Response, Problem> {
    let asked: NewPoint = body(request).await?;
    let added = act(&shared, id, move |study| {
        let entries = asked.values.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let entries: Vec<(&str, &str)> = entries.collect();
        let trial = study.enqueue(&own_point::parse(study.space(), &entries)?)?;
        tracing::info!(
            "a page added trial {} to study {:?}",
            trial.number,
            study.definition().name
        );
        Ok(serde_json::json!({ "trial": trial.number, "parameters": trial.point }))
    });
    answer(&added.await?)
}

/// Failed trials, by number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failed {
    trials: Vec<u64>,
}

/// `POST /api/studies/{id}/retry`. One trial must have failed and not wait again; of several, those that are so are tried again.
pub(crate) async fn retry(
    State(shared): Shares,
    Path(id): Id,
    request: Request,
) -> Result<Response, Problem> {
    let asked: Failed = body(request).await?;
    let retried = act(&shared, id, move |study| {
        let waiting = match asked.trials.as_slice() {
            [number] => vec![study.retry(*number)?],
            some => study.retry_those(&BTreeSet::from_iter(some.iter().copied()))?,
        };
        let n = waiting.len();
        tracing::info!("a page has {n} trials of study {:?} retried", study.definition().name);
        Ok(Retried::new(&waiting))
    });
    answer(&retried.await?)
}

/// Nothing: what is to be done is in the address.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// `POST /api/studies/{id}/stop`.
pub(crate) async fn stop(
    State(shared): Shares,
    Path(id): Id,
    request: Request,
) -> Result<Response, Problem> {
    let Nothing {} = body(request).await?;
    let stopped = act(&shared, id, |study| {
        tracing::info!("a page stops study {:?}", study.definition().name);
        Ok(StopDocument::stop(study, BY)?)
    });
    answer(&stopped.await?)
}

/// Does something with a study. Inputs that cannot be used are the page's mistake, all else is the server's trouble.
async fn act<T: Send + 'static>(
    shared: &Arc<Shared>,
    id: String,
    work: impl FnOnce(&Study) -> anyhow::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    let shared = Arc::clone(shared);
    let done = blocking(move || {
        let study = shared.catalog.entry(&id)?.load()?;
        match work(&study) {
            Err(error) if error.is::<NotThere>() => Err(error),
            done => Ok(done),
        }
    });
    done.await?.map_err(|error| {
        let status = match Exit::of(&error) {
            Exit::Input => StatusCode::UNPROCESSABLE_ENTITY,
            Exit::Output => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, crate::words(&error))
    })
}

/// The request itself, from JSON.
async fn body<T: DeserializeOwned>(request: Request) -> Result<T, Problem> {
    let too_long = || {
        let message = format!("a request has at most {} KiB", BODY_MAX / 1024);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    let length = request.headers().get(CONTENT_LENGTH).and_then(|text| text.to_str().ok());
    if length.and_then(|text| text.parse().ok()).is_some_and(|length: usize| length > BODY_MAX) {
        return Err(too_long());
    }
    let bytes = to_bytes(request.into_body(), BODY_MAX).await.map_err(|_| too_long())?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("the request is not what this address expects: {error}");
        Problem::new(StatusCode::BAD_REQUEST, message)
    })
}
