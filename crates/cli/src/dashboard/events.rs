//! Trials as they come, as server-sent events.
//!
//! An event `trials` has those that were told since the one before, at most [`CHUNK`], and all that are open. Its id is the place of
//! the last in the order of telling: a browser that lost the connection asks for what follows it, so a server that was
//! interrupted costs nothing that was shown.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use fedbo_storage::{Storage, StudyKey, Trial};
use fedbo_transport::closing;
use futures_util::stream;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::{Id, LOOK, Problem, Shares, blocking, typed};
use crate::trial_record::TrialRecord;

/// Told trials of one event at most, so that the first are drawn before the last are read.
const CHUNK: usize = 1000;
/// Looks without news after which a line is sent that means nothing: proxies close what is silent.
const SILENCE: u32 = 30;

/// The news of a study.
#[derive(Serialize)]
struct News<'a> {
    told: Vec<TrialRecord<'a>>,
    open: Vec<TrialRecord<'a>>,
    n_trials: u64,
    /// True if nothing more is known at this moment.
    is_all: bool,
}

/// One browser that watches a study.
struct Watcher {
    storage: Arc<dyn Storage>,
    study: StudyKey,
    /// The place in the order of telling that the browser knows.
    after: u64,
    /// Events that are read already.
    waiting: std::vec::IntoIter<(u64, String)>,
    /// The open trials as they were sent last.
    open: Option<String>,
    looked: Option<Instant>,
    silent: u32,
    closes: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
}

/// `GET /api/studies/{id}/events`.
pub(crate) async fn trials(
    State(shared): Shares,
    Path(id): Id,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let permit = Arc::clone(&shared.watchers).try_acquire_owned().map_err(|_| {
        let message = "as many browsers as may watch do so already; close one";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, message)
    })?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let reader = Arc::clone(&shared);
    let entry = blocking(move || reader.catalog.entry(&id)).await?;
    let watcher = Watcher {
        storage: entry.storage,
        study: entry.record.key,
        after: last.unwrap_or(0),
        waiting: Vec::new().into_iter(),
        open: None,
        looked: None,
        silent: 0,
        closes: shared.closes.clone(),
        _permit: permit,
    };
    let events = stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((Ok::<_, Infallible>(event), watcher))
    });
    Ok(typed("text/event-stream", Body::from_stream(events)))
}

impl Watcher {
    /// The next event as text; `None` when the server ends, or the storage cannot be read.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some((after, text)) = self.waiting.next() {
                self.after = after;
                return Some(text);
            }
            if let Some(looked) = self.looked {
                tokio::select! {
                    () = tokio::time::sleep_until(looked + LOOK) => {}
                    () = closing(&mut self.closes) => return None,
                }
            }
            self.looked = Some(Instant::now());
            let (storage, study, after) = (Arc::clone(&self.storage), self.study, self.after);
            let known = self.open.take();
            let look = move || {
                let snapshot = storage.snapshot(study, after)?;
                let open: Vec<_> = snapshot.open.iter().map(TrialRecord::from).collect();
                let shown = serde_json::to_string(&open)?;
                let is_news = !snapshot.told.is_empty() || known.as_ref() != Some(&shown);
                let events = match is_news {
                    true => events(after, &snapshot.told, &snapshot.open, snapshot.n_trials)?,
                    false => Vec::new(),
                };
                Ok((events, shown))
            };
            match blocking(look).await {
                Ok((events, shown)) => {
                    self.waiting = events.into_iter();
                    self.open = Some(shown);
                }
                // The browser asks again, and is told what is wrong.
                Err(problem) => {
                    tracing::warn!("a study cannot be read: {}", problem.message);
                    return None;
                }
            }
            self.silent += 1;
            if self.waiting.len() > 0 {
                self.silent = 0;
            } else if self.silent >= SILENCE {
                self.silent = 0;
                return Some(":\n\n".to_owned());
            }
        }
    }
}

/// Events with all that is new, each with the place that a browser knows after it.
fn events(
    after: u64,
    told: &[Trial],
    open: &[Trial],
    n_trials: u64,
) -> anyhow::Result<Vec<(u64, String)>> {
    let mut chunks: Vec<&[Trial]> = told.chunks(CHUNK).collect();
    if chunks.is_empty() {
        chunks.push(&[]);
    }
    let last = chunks.len() - 1;
    let mut known = after;
    let mut events = Vec::new();
    for (index, chunk) in chunks.into_iter().enumerate() {
        known = chunk.last().and_then(|trial| trial.told_seq).unwrap_or(known);
        let news = News {
            told: chunk.iter().map(TrialRecord::from).collect(),
            open: open.iter().map(TrialRecord::from).collect(),
            n_trials,
            is_all: index == last,
        };
        // JSON has no line ends, so an event's data is one line.
        let data = serde_json::to_string(&news)?;
        events.push((known, format!("event: trials\nid: {known}\ndata: {data}\n\n")));
    }
    Ok(events)
}
