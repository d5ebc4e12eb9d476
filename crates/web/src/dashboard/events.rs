//! Server-sent events with updates.
//!
//! For a study, a `trials` event contains all open trials and at most [`CHUNK`] trials that have
//! finished since the previous event. For a run, a `rows` event contains rows of one arm and
//! repetition.
//!
//! An event's id contains the identity of the watched study or run and a [`Place`] in it: the last
//! trial in completion order, or the number of rows. A browser that reconnects sends the last id
//! and receives the subsequent events, so nothing is lost if the server is interrupted. If the
//! study or the results have been replaced, the server sends a `replaced` event, followed by all
//! content.

use std::convert::Infallible;
use std::fmt::{Display, Formatter};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::response::Response;
use fedbo_report::{ResultsTail, Row};
use fedbo_storage::{LastCorrection, Storage, StudyRecord, Trial};
use fedbo_study::Definition;
use fedbo_transport::closing;
use futures_util::stream;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::LOOK;
use super::request::{Asked, Problem, on_a_thread};
use crate::answers::typed;
use fedbo_documents::trial_record::TrialRecord;

/// Maximum number of finished trials per event, so that the page draws the first ones before the
/// server has read the last.
const CHUNK: usize = 1000;
/// Maximum number of rows per event. A row is shorter than a trial.
const ROWS: usize = 10_000;
/// Number of polls without updates before an empty comment is sent, since proxies close idle
/// connections.
const SILENCE: u32 = 30;

/// A study or run that a browser watches.
pub(super) trait Watched: Send + 'static {
    /// Returns events with the updates since the last poll.
    fn look(&mut self) -> anyhow::Result<Vec<String>>;
}

/// A browser's subscription.
struct Watcher {
    /// `None` during a poll and after an error.
    watched: Option<Box<dyn Watched>>,
    /// Events that have not been sent yet.
    waiting: std::vec::IntoIter<String>,
    looked: Option<Instant>,
    silent: u32,
    closes: watch::Receiver<bool>,
    /// Also held by a poll, which can outlive the browser's connection.
    permit: Arc<OwnedSemaphorePermit>,
}

/// Returns a response that streams events until the browser disconnects or the server shuts down.
pub(super) fn watched(asked: &Asked, watched: impl Watched) -> anyhow::Result<Response> {
    let shared = &asked.shared;
    let permit = Arc::clone(&shared.watchers).try_acquire_owned().map_err(|_| {
        let message = "the maximum number of browsers is already watching; close one";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, message)
    })?;
    let watcher = Watcher {
        watched: Some(Box::new(watched)),
        waiting: Vec::new().into_iter(),
        looked: None,
        silent: 0,
        closes: shared.closes.clone(),
        permit: Arc::new(permit),
    };
    let events = stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((Ok::<_, Infallible>(event), watcher))
    });
    Ok(typed("text/event-stream", Body::from_stream(events)))
}

impl Watcher {
    /// Returns the next event as a string; `None` if the server shuts down or the source cannot be
    /// read.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(text) = self.waiting.next() {
                return Some(text);
            }
            if let Some(looked) = self.looked {
                tokio::select! {
                    () = tokio::time::sleep_until(looked + LOOK) => {}
                    () = closing(&mut self.closes) => return None,
                }
            }
            self.looked = Some(Instant::now());
            let mut watched = self.watched.take()?;
            let permit = Arc::clone(&self.permit);
            let look = move || {
                let _still_held = permit;
                let events = watched.look()?;
                Ok((watched, events))
            };
            match on_a_thread(look).await {
                Ok((watched, events)) => {
                    self.watched = Some(watched);
                    self.waiting = events.into_iter();
                }
                // The page displays the problem and reconnects. `self.watched` is now `None`, so
                // the next call ends the stream.
                Err(problem) => {
                    tracing::warn!("cannot read the data for a page: {}", problem.message);
                    let data = serde_json::to_string(&problem.message).ok()?;
                    return Some(format!("event: problem\ndata: {data}\n\n"));
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

/// Formats an event. JSON contains no line breaks, so the data is a single line.
pub(super) fn event(name: &str, id: impl Display, data: &impl Serialize) -> anyhow::Result<String> {
    let data = serde_json::to_string(data)?;
    Ok(format!("event: {name}\nid: {id}\ndata: {data}\n\n"))
}

/// A browser's position in the content. The browser has received everything up to this position.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Unique id of the watched content; `None` if it is not known yet or the client did not send
    /// it.
    identity: Option<u64>,
    seq: u64,
}

impl Place {
    /// Parses the position from the id of the browser's last event.
    fn last(headers: &HeaderMap) -> Self {
        let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
        let (identity, seq) = last.rsplit_once('-').unwrap_or(("", last));
        Self {
            identity: u64::from_str_radix(identity, 16).ok(),
            seq: seq.parse().unwrap_or_default(),
        }
    }

    /// Returns true if the browser's position is consistent with the current content, which has
    /// `n_entries` entries.
    fn fits(&self, identity: Option<u64>, n_entries: u64) -> bool {
        let is_same = self.identity.is_none() || self.identity == identity;
        self.seq == 0 || (is_same && self.seq <= n_entries)
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self.identity {
            Some(identity) => write!(f, "{identity:016x}-{}", self.seq),
            None => write!(f, "{}", self.seq),
        }
    }
}

/// Returns the event that makes a page discard its content and start over.
fn replaced() -> anyhow::Result<Vec<String>> {
    Ok(vec![event("replaced", Place::default(), &())?])
}

/// Updates of a study.
#[derive(Serialize)]
struct News<'a> {
    told: Vec<TrialRecord<'a>>,
    open: Vec<TrialRecord<'a>>,
    n_trials: u64,
    /// True if this completes the content that is currently available.
    is_all: bool,
}

/// The trials of a watched study.
struct Trials {
    storage: Arc<dyn Storage>,
    study: StudyRecord,
    definition: Definition,
    /// The browser's position in completion order.
    known: Place,
    has_looked: bool,
    /// The last correction of the trials that the browser has received.
    last_correction: Option<LastCorrection>,
    /// The open trials, as last sent.
    open: Option<String>,
}

/// `GET /api/studies/{id}/events`.
pub(super) fn trials(asked: &Asked) -> anyhow::Result<Response> {
    let entry = asked.shared.catalog.entry(asked.id())?;
    let definition = entry.load()?.definition().clone();
    let trials = Trials {
        definition,
        storage: entry.storage,
        study: entry.record,
        known: Place::last(&asked.headers),
        has_looked: false,
        last_correction: None,
        open: None,
    };
    watched(asked, trials)
}

impl Trials {
    /// Returns a unique id of the study, which changes if a study is recreated under the same name or
    /// a trial is corrected; `None` until the first trial has finished.
    fn identity(
        &self,
        first: Option<&Trial>,
        last_correction: Option<LastCorrection>,
    ) -> Option<u64> {
        let first = first.filter(|trial| trial.told_seq == Some(1))?;
        let mut hasher = DefaultHasher::new();
        let study = (&self.study.name, &self.study.definition);
        (study, first.number, first.asked_at_ms, first.told_at_ms).hash(&mut hasher);
        last_correction.hash(&mut hasher);
        Some(hasher.finish())
    }
}

impl Watched for Trials {
    fn look(&mut self) -> anyhow::Result<Vec<String>> {
        // The first trial shows whether the study is still the one that the browser has seen.
        let after = if self.has_looked { self.known.seq } else { 0 };
        let snapshot = self.storage.snapshot(self.study.key, after)?;
        if self.has_looked && snapshot.last_correction != self.last_correction {
            self.known = Place::default();
            self.has_looked = false;
            self.open = None;
            return replaced();
        }
        self.last_correction = snapshot.last_correction;
        if after == 0 {
            let identity = self.identity(snapshot.told.first(), snapshot.last_correction);
            if !self.known.fits(identity, snapshot.told.len() as u64) {
                self.known = Place::default();
                return replaced();
            }
            self.known.identity = identity;
        }
        let skipped = usize::try_from(self.known.seq - after).unwrap_or(usize::MAX);
        let told = snapshot.told.get(skipped..).unwrap_or_default();
        self.has_looked = true;
        let definition = &self.definition;
        let records = |trials: &[Trial]| -> anyhow::Result<String> {
            let trials = trials.iter().map(|trial| TrialRecord::new(definition, trial));
            Ok(serde_json::to_string(&trials.collect::<Vec<_>>())?)
        };
        let open = Some(records(&snapshot.open)?);
        let mut chunks: Vec<&[Trial]> = told.chunks(CHUNK).collect();
        if chunks.is_empty() {
            if self.open == open {
                return Ok(Vec::new());
            }
            chunks.push(&[]);
        }
        self.open = open;
        let last = chunks.len() - 1;
        let mut events = Vec::new();
        for (index, chunk) in chunks.into_iter().enumerate() {
            self.known.seq =
                chunk.last().and_then(|trial| trial.told_seq).unwrap_or(self.known.seq);
            let news = News {
                told: chunk.iter().map(|trial| TrialRecord::new(definition, trial)).collect(),
                open: snapshot.open.iter().map(|t| TrialRecord::new(definition, t)).collect(),
                n_trials: snapshot.n_trials,
                is_all: index == last,
            };
            events.push(event("trials", self.known, &news)?);
        }
        Ok(events)
    }
}

/// The arm and repetition of a run that a page shows; by default the first ones.
#[derive(Clone, Deserialize)]
struct Part {
    arm: Option<String>,
    run: Option<u32>,
}

/// The rows of one arm and repetition of a run.
struct Rows {
    folder: PathBuf,
    /// Held while results are read from the start, which loads all of them into memory.
    reading: Arc<Mutex<()>>,
    asked: Part,
    known: Place,
    tail: ResultsTail,
    part: Part,
    arms: Vec<String>,
    runs: Vec<u32>,
    /// Number of rows in this part so far.
    n_rows: u64,
    /// Number of rows in all parts so far.
    n_all: usize,
    has_looked: bool,
}

/// A row as sent: agent, iteration, source, value, best, regret, and the reason if it failed.
type SentRow<'a> = (&'a str, i64, &'a str, Option<f64>, Option<f64>, Option<f64>, Option<&'a str>);

/// Updates of a run.
#[derive(Serialize)]
struct RowNews<'a> {
    arms: &'a [String],
    runs: &'a [u32],
    arm: Option<&'a str>,
    run: Option<u32>,
    n_all: usize,
    rows: Vec<SentRow<'a>>,
    /// True if this completes the content that is currently available.
    is_all: bool,
}

/// `GET /api/runs/{id}/events?arm=ARM&run=RUN`.
pub(super) fn rows(asked: &Asked) -> anyhow::Result<Response> {
    let folder = asked.shared.catalog.run(asked.id())?;
    let (reading, known) = (Arc::clone(&asked.shared.reading), Place::last(&asked.headers));
    watched(asked, Rows::new(folder, reading, asked.query()?, known))
}

impl Rows {
    fn new(folder: PathBuf, reading: Arc<Mutex<()>>, asked: Part, known: Place) -> Self {
        Self {
            reading,
            tail: ResultsTail::new(&folder),
            folder,
            part: asked.clone(),
            asked,
            known,
            arms: Vec::new(),
            runs: Vec::new(),
            n_rows: 0,
            n_all: 0,
            has_looked: false,
        }
    }

    /// Restarts with the current results.
    fn restart(&mut self) -> anyhow::Result<Vec<String>> {
        *self = Self::new(
            self.folder.clone(),
            Arc::clone(&self.reading),
            self.asked.clone(),
            Place::default(),
        );
        replaced()
    }

    /// Returns true if a row belongs to the displayed part.
    fn is_shown(&self, row: &Row) -> bool {
        self.part.arm.as_ref() == Some(&row.arm) && self.part.run == Some(row.run)
    }
}

impl Watched for Rows {
    fn look(&mut self) -> anyhow::Result<Vec<String>> {
        let reading = Arc::clone(&self.reading);
        // A poisoned lock is harmless, since readers share no data.
        let _one_at_a_time =
            (!self.has_looked).then(|| reading.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(added) = self.tail.more()? else {
            return self.restart();
        };
        if added.is_empty() && self.has_looked {
            return Ok(Vec::new());
        }
        for row in &added {
            if !self.arms.contains(&row.arm) {
                self.arms.push(row.arm.clone());
            }
            if !self.runs.contains(&row.run) {
                self.runs.push(row.run);
            }
        }
        self.part.arm = self.part.arm.take().or_else(|| self.arms.first().cloned());
        self.part.run = self.part.run.or_else(|| self.runs.first().copied());
        self.n_all += added.len();
        let shown: Vec<&Row> = added.iter().filter(|row| self.is_shown(row)).collect();
        let identity = self.tail.identity();
        if !self.has_looked && !self.known.fits(identity, shown.len() as u64) {
            return self.restart();
        }
        self.has_looked = true;
        let skipped =
            usize::try_from(self.known.seq.saturating_sub(self.n_rows)).unwrap_or(usize::MAX);
        self.n_rows += shown.len() as u64;
        let shown = shown.get(skipped..).unwrap_or_default();
        let mut chunks: Vec<&[&Row]> = shown.chunks(ROWS).collect();
        if chunks.is_empty() {
            chunks.push(&[]);
        }
        let (last, mut sent) = (chunks.len() - 1, self.n_rows - shown.len() as u64);
        let mut events = Vec::new();
        for (index, chunk) in chunks.into_iter().enumerate() {
            sent += chunk.len() as u64;
            let news = RowNews {
                arms: &self.arms,
                runs: &self.runs,
                arm: self.part.arm.as_deref(),
                run: self.part.run,
                n_all: self.n_all,
                rows: chunk.iter().map(|row| sent_row(row)).collect(),
                is_all: index == last,
            };
            events.push(event("rows", Place { identity, seq: sent }, &news)?);
        }
        Ok(events)
    }
}

fn sent_row(row: &Row) -> SentRow<'_> {
    let failure = row.is_failed().then_some(row.status.as_str());
    (&row.agent, row.iteration, &row.source, row.value, row.best, row.regret, failure)
}
