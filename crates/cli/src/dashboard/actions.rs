//! Actions on a study: a point is added, failed trials are tried again, the study is stopped.
//!
//! They are served with `--actions` only, and the guard lets only requests of the dashboard's own pages through. Each is a command's, by the
//! same code: `fedbo enqueue`, `fedbo retry`, `fedbo stop`. The pages see what came of it by the events of the study.

use std::collections::BTreeSet;

use axum::response::Response;
use fedbo_study::Study;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use super::guard::is_same_site;
use super::request::{Asked, Problem, json};
use crate::exit::Exit;
use crate::own_point;
use crate::trial_record::{Retried, SCHEMA_VERSION, StopDocument};

/// The name of these pages, as whoever is stopped by them reads it.
const BY: &str = "fedbo dashboard";

/// The secret that a page shows with each action.
#[derive(Serialize)]
struct Secret<'a> {
    schema_version: u32,
    token: &'a str,
}

/// `GET /api/actions`: the secret, for pages of this server.
pub(super) fn secret(asked: &Asked) -> anyhow::Result<Response> {
    let token = asked.shared.actions.as_ref().ok_or_else(|| Problem::absent(NONE))?;
    if !is_same_site(&asked.headers) {
        let message = "a page of another site asked for this";
        return Err(Problem::new(StatusCode::FORBIDDEN, message).into());
    }
    json(&Secret { schema_version: SCHEMA_VERSION, token: token.text() })
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

/// Failed trials, by number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failed {
    trials: Vec<u64>,
}

/// `POST /api/studies/{id}/retry`. One trial must have failed and not wait again; of several, those that are so are tried again.
pub(super) fn retry(asked: &Asked) -> anyhow::Result<Response> {
    let failed: Failed = asked.body()?;
    act(asked, |study| {
        let waiting = match failed.trials.as_slice() {
            [number] => vec![study.retry(*number)?],
            some => study.retry_those(&BTreeSet::from_iter(some.iter().copied()))?,
        };
        let n = waiting.len();
        tracing::info!("a page has {n} trials of study {:?} retried", study.definition().name);
        json(&Retried::new(&waiting))
    })
}

/// Nothing: what is to be done is in the address.
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

/// Does something with a study. Inputs that cannot be used are the page's mistake, all else is the server's trouble.
fn act(
    asked: &Asked,
    work: impl FnOnce(&Study) -> anyhow::Result<Response>,
) -> anyhow::Result<Response> {
    let study = asked.shared.catalog.entry(asked.id())?.load()?;
    work(&study).map_err(|error| {
        if error.is::<Problem>() {
            return error;
        }
        let status = match Exit::of(&error) {
            Exit::Input => StatusCode::UNPROCESSABLE_ENTITY,
            Exit::Output => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, crate::words(&error)).into()
    })
}
