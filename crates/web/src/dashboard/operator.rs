//! Pages for a coordinator's operator: studies, rosters, deliveries and ledgers.
//!
//! All content is public or released (INV-4). docs/operations.md lists each field with the reason.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::response::Response;
use fedbo_coordinator::store::{SlotRecord, StoreError, StudyRecord, StudyState};
use fedbo_coordinator::{Home, ObservedStudy, Observer};
use fedbo_federation::Federation;
use serde::Serialize;

use super::events::{Watched, event, watched};
use super::privacy;
use super::request::{Asked, Problem, Turn, json, read};
use super::{Shared, assets};
use fedbo_documents::trial_record::SCHEMA_VERSION;
use fedbo_documents::{CheckDocument, LedgerSource, ListedStudy, listed, slot_state};

/// Interval at which the full state is sent even if nothing has changed except the times since the
/// agents' last requests.
const HEARD: Duration = Duration::from_secs(5);

/// A coordinator in this process, with its folder or database.
pub struct Operator {
    /// The coordinator's stored studies.
    pub home: Arc<Home>,
    /// Provides the current state of running studies.
    pub observer: Observer,
}

impl Operator {
    /// Returns the stored study with this name.
    ///
    /// # Errors
    /// Fails if there is no such study, or if the store cannot be read.
    pub(super) fn record(&self, name: &str) -> anyhow::Result<StudyRecord> {
        match self.home.store().study(name) {
            Err(StoreError::NoStudy { .. }) => {
                Err(Problem::absent(format!("there is no study {name:?} here")).into())
            }
            found => Ok(found?),
        }
    }
}

/// Returns the routes of these pages.
pub(super) fn routes() -> Router<Arc<Shared>> {
    use Turn::{Auditing, Here, Now};
    Router::new()
        .route("/", read(Here, assets::operator_page))
        .route("/assets/{*name}", read(Here, assets::asset))
        .route("/api/federations", read(Now, list))
        .route("/api/federations/{id}", read(Now, one))
        .route("/api/federations/{id}/events", read(Now, events))
        .route("/api/federations/{id}/ledger", read(Auditing, ledger))
        .route("/api/federations/{id}/ledger/check", read(Auditing, check))
}

fn operator(shared: &Shared) -> Result<&Operator, Problem> {
    shared.operator.as_ref().ok_or_else(|| Problem::absent("no coordinator runs here"))
}

#[derive(Serialize)]
struct List {
    schema_version: u32,
    place: String,
    federations: Vec<InList>,
}

/// A study in the list.
#[derive(Serialize)]
struct InList {
    #[serde(flatten)]
    listed: ListedStudy,
    /// Number of agents that have delivered in the current round; `None` if the round does not
    /// accept messages.
    delivered: Option<usize>,
    /// The reason why the study is stalled.
    error: Option<String>,
}

/// `GET /api/federations`.
fn list(asked: &Asked) -> anyhow::Result<Response> {
    let operator = operator(&asked.shared)?;
    let records = operator.home.store().studies()?;
    let in_list = |record: &StudyRecord| -> anyhow::Result<InList> {
        let seen = operator.observer.study(&record.name);
        let collecting =
            seen.as_ref().filter(|seen| seen.collects && record.state == StudyState::Running);
        let of_round = collecting.map(|seen| seen.rounds.get(&seen.round));
        let count = |slots: &Vec<bool>| slots.iter().filter(|has| **has).count();
        Ok(InList {
            listed: listed(&operator.home, record)?,
            delivered: of_round.map(|slots| slots.map_or(0, count)),
            error: seen.and_then(|seen| seen.error),
        })
    };
    json(&List {
        schema_version: SCHEMA_VERSION,
        place: place(&operator.home),
        federations: records.iter().map(in_list).collect::<anyhow::Result<_>>()?,
    })
}

/// Returns the location of a coordinator's studies, for display.
fn place(home: &Home) -> String {
    home.database().map_or_else(|| home.path().display().to_string(), str::to_owned)
}

/// The constant properties of a study.
#[derive(Serialize)]
struct Described {
    schema_version: u32,
    study: String,
    place: String,
    algorithm: &'static str,
    rounds: u64,
    /// Seconds between releases, or the deadline of a relayed round.
    round_s: f64,
    /// Duration of round 0, which includes the initial trials, in seconds.
    first_round_s: f64,
    /// Time during which messages are accepted, in seconds.
    collect_s: Option<f64>,
    /// True if releases are charged to a ledger.
    has_ledger: bool,
    /// The frozen configuration.
    config: String,
}

/// `GET /api/federations/{id}`.
fn one(asked: &Asked) -> anyhow::Result<Response> {
    let operator = operator(&asked.shared)?;
    let record = operator.record(asked.id())?;
    let federation = Federation::thaw(&record.config)?;
    let seconds = |ms: u64| Duration::from_millis(ms).as_secs_f64();
    json(&Described {
        schema_version: SCHEMA_VERSION,
        place: place(&operator.home),
        algorithm: federation.algorithm.name,
        rounds: federation.n_rounds(),
        round_s: seconds(federation.network.round_ms),
        first_round_s: seconds(federation.network.round_ms_of(0)),
        collect_s: federation.network.collect_ms.map(seconds),
        has_ledger: federation.privacy().is_some(),
        study: record.name,
        config: record.config,
    })
}

/// Returns the ledger of a study.
fn ledger_of(asked: &Asked) -> anyhow::Result<LedgerSource> {
    let (operator, name) = (operator(&asked.shared)?, asked.id());
    let record = operator.record(name)?;
    if Federation::thaw(&record.config)?.privacy().is_none() {
        return Err(
            Problem::absent(format!("{name}: nothing is charged, so there is no ledger")).into()
        );
    }
    Ok(LedgerSource::Coordinator(Arc::clone(&operator.home), record.name))
}

/// `GET /api/federations/{id}/ledger?head=HEAD`.
fn ledger(asked: &Asked) -> anyhow::Result<Response> {
    privacy::shown(asked, &ledger_of(asked)?)
}

/// `GET /api/federations/{id}/ledger/check`: the document of `fedbo privacy verify --json`.
fn check(asked: &Asked) -> anyhow::Result<Response> {
    json(&CheckDocument::checked(&ledger_of(asked)?)?)
}

/// Updates of a study.
#[derive(Clone, PartialEq, Serialize)]
struct News {
    state: &'static str,
    round: u64,
    /// Seconds since the start of the round.
    elapsed_s: Option<f64>,
    /// True if the round accepts messages.
    collects: bool,
    ledger_head: Option<String>,
    releases: usize,
    error: Option<String>,
    roster: Vec<Member>,
    /// Rounds whose deliveries have changed since the last event, with one digit per slot: 1 if the
    /// slot has delivered.
    delivered: Vec<(u64, String)>,
}

/// An agent in a roster.
#[derive(Clone, PartialEq, Serialize)]
struct Member {
    agent: String,
    state: &'static str,
    /// Seconds since the agent's last signed request; `None` if there has been none since the
    /// coordinator started.
    silent_s: Option<u64>,
}

/// A study that a page watches.
struct Study {
    shared: Arc<Shared>,
    name: String,
    /// The updates as last sent, without times.
    sent: Option<News>,
    sent_at: Option<Instant>,
    /// Deliveries that have already been sent to the page.
    delivered: BTreeMap<u64, Vec<bool>>,
    n_events: u64,
}

/// `GET /api/federations/{id}/events`.
fn events(asked: &Asked) -> anyhow::Result<Response> {
    operator(&asked.shared)?.record(asked.id())?;
    let study = Study {
        shared: Arc::clone(&asked.shared),
        name: asked.id().to_owned(),
        sent: None,
        sent_at: None,
        delivered: BTreeMap::new(),
        n_events: 0,
    };
    watched(asked, study)
}

impl Watched for Study {
    fn look(&mut self) -> anyhow::Result<Vec<String>> {
        let operator = operator(&self.shared)?;
        let record = operator.record(&self.name)?;
        let slots = operator.home.store().slots(record.key)?;
        let seen = operator.observer.study(&self.name);
        let now = seen.as_ref().map(|seen| seen.rounds.clone()).unwrap_or_default();
        let mut news = news(&record, &slots, seen);
        let changed =
            |(round, slots): &(&u64, &Vec<bool>)| self.delivered.get(round) != Some(*slots);
        let digits =
            |slots: &[bool]| slots.iter().map(|has| if *has { '1' } else { '0' }).collect();
        news.delivered =
            now.iter().filter(changed).map(|(round, slots)| (*round, digits(slots))).collect();
        let timeless = timeless(&news);
        let is_fresh = self.sent_at.is_some_and(|sent| sent.elapsed() < HEARD);
        if is_fresh && news.delivered.is_empty() && self.sent.as_ref() == Some(&timeless) {
            return Ok(Vec::new());
        }
        (self.sent, self.sent_at, self.delivered) = (Some(timeless), Some(Instant::now()), now);
        self.n_events += 1;
        Ok(vec![event("study", self.n_events, &news)?])
    }
}

fn news(record: &StudyRecord, slots: &[SlotRecord], seen: Option<ObservedStudy>) -> News {
    let silences = seen.as_ref().map(|seen| seen.silences.clone()).unwrap_or_default();
    let silence = |slot: &SlotRecord| silences.get(slot.slot as usize).copied().flatten();
    let roster = slots.iter().map(|slot| Member {
        agent: slot.name.clone(),
        state: slot_state(slot),
        silent_s: silence(slot).map(|silence| silence.as_secs()),
    });
    News {
        state: record.state.name(),
        round: record.round,
        elapsed_s: seen.as_ref().and_then(|seen| seen.elapsed).map(|time| time.as_secs_f64()),
        collects: seen.as_ref().is_some_and(|seen| seen.collects),
        ledger_head: seen.as_ref().and_then(|seen| seen.head.clone()),
        releases: seen.as_ref().map_or(0, |seen| seen.n_releases),
        error: seen.and_then(|seen| seen.error),
        roster: roster.collect(),
        delivered: Vec::new(),
    }
}

/// Returns the updates without the values that change merely because time passes.
fn timeless(news: &News) -> News {
    let mut news = news.clone();
    news.elapsed_s = None;
    news.delivered = Vec::new();
    for member in &mut news.roster {
        member.silent_s = None;
    }
    news
}
