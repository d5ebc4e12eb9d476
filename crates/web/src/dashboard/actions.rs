//! Actions on a study: add a point, retry failed trials, stop the study.
//!
//! Actions are served only with `--actions`, and the guard accepts them only from the dashboard's
//! own pages. Each action shares its code with a command: `fedbo enqueue`, `fedbo retry` or `fedbo
//! stop`. Pages receive the result through the study's events.

use std::collections::BTreeSet;

use axum::response::Response;
use fedbo_study::Study;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use super::guard::{NO_ACTIONS, is_same_site};
use super::request::{Asked, Problem, json};
use fedbo_console::Exit;
use fedbo_documents::own_point;
use fedbo_documents::trial_record::{Retried, SCHEMA_VERSION, StopDocument};

/// Name that identifies these pages to the processes that they stop.
const BY: &str = "fedbo dashboard";

/// The secret that a page sends with each action.
#[derive(Serialize)]
struct Secret<'a> {
    schema_version: u32,
    token: &'a str,
}

/// `GET /api/actions`: returns the secret to this server's pages.
pub(super) fn secret(asked: &Asked) -> anyhow::Result<Response> {
    let token = asked.shared.actions.as_ref().ok_or_else(|| Problem::absent(NO_ACTIONS))?;
    if !is_same_site(&asked.headers) {
        let message = "the request comes from a page of another site";
        return Err(Problem::new(StatusCode::FORBIDDEN, message).into());
    }
    json(&Secret { schema_version: SCHEMA_VERSION, token: token.text() })
}

/// A user-supplied point: pairs of parameter names and values, both as strings, as on the command
/// line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPoint {
    values: Vec<(String, String)>,
}

/// `POST /api/studies/{id}/enqueue`.
pub(super) fn enqueue(asked: &Asked) -> anyhow::Result<Response> {
    let new: NewPoint = asked.body()?;
    act(asked, |study| {
        let entries = new.values.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let entries: Vec<(&str, &str)> = entries.collect();
        let trial = study.enqueue(&own_point::parse(study.space(), &entries)?)?;
        tracing::info!(
            "a page added trial {} to study {:?}",
            trial.number,
            study.definition().name
        );
        json(&serde_json::json!({ "trial": trial.number, "parameters": trial.point }))
    })
}

/// Numbers of failed trials.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failed {
    trials: Vec<u64>,
}

/// `POST /api/studies/{id}/retry`.
///
/// A single trial must have failed and must not have been retried yet. Of several trials, those
/// that meet this condition are retried.
pub(super) fn retry(asked: &Asked) -> anyhow::Result<Response> {
    let failed: Failed = asked.body()?;
    act(asked, |study| {
        let waiting = match failed.trials.as_slice() {
            [number] => vec![study.retry(*number)?],
            some => study.retry_those(&BTreeSet::from_iter(some.iter().copied()))?,
        };
        let n = waiting.len();
        tracing::info!("a page retries {n} trials of study {:?}", study.definition().name);
        json(&Retried::new(&waiting))
    })
}

/// An empty body. The path determines the action.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// `POST /api/studies/{id}/stop`.
pub(super) fn stop(asked: &Asked) -> anyhow::Result<Response> {
    let Nothing {} = asked.body()?;
    act(asked, |study| {
        tracing::info!("a page stops study {:?}", study.definition().name);
        json(&StopDocument::stop(study, BY)?)
    })
}

/// Runs an action on a study. Invalid inputs are client errors; all other errors are server errors.
fn act(
    asked: &Asked,
    work: impl FnOnce(&Study) -> anyhow::Result<Response>,
) -> anyhow::Result<Response> {
    let study = asked.shared.catalog.entry(asked.id())?.load()?;
    work(&study).map_err(|error| {
        if error.is::<Problem>() {
            return error;
        }
        let status = match fedbo_documents::exit::of(&error, &[]) {
            Exit::Input => StatusCode::UNPROCESSABLE_ENTITY,
            Exit::Output => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, fedbo_documents::error_text(&error)).into()
    })
}
