//! The pages of a coordinator's operator: studies, rosters, who delivered, and the ledgers. Everything here is public or released
//! (INV-4); docs/operations.md lists each field with its reason.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use axum::routing::get;
use fedbo_coordinator::store::{SlotRecord, StoreError, StudyRecord, StudyState};
use fedbo_coordinator::{Home, ObservedStudy, Observer};
use fedbo_federation::Federation;
use serde::Serialize;

use super::events::{Watched, event, watched};
use super::privacy::{self, Known};
use super::{Id, NotThere, Problem, Shared, Shares, answer, assets, blocking};
use crate::commands::coordinator::{Listed, listed, slot_state};
use crate::commands::privacy::Source;
use crate::trial_record::SCHEMA_VERSION;

/// The time after which all is sent again, with nothing new but the times since agents were heard of.
const HEARD: Duration = Duration::from_secs(5);

/// A coordinator that runs in this process, and its folder or database.
pub(crate) struct Operator {
    pub(crate) home: Arc<Home>,
    pub(crate) observer: Observer,
}

impl Operator {
    /// The study with a name, as it is stored.
    ///
    /// # Errors
    /// If there is none, or the store cannot be read.
    pub(super) fn record(&self, name: &str) -> anyhow::Result<StudyRecord> {
        match self.home.store().study(name) {
            Err(StoreError::NoStudy { .. }) => {
                Err(NotThere(format!("there is no study {name:?} here")).into())
            }
            found => Ok(found?),
        }
    }
}

/// The routes of these pages.
pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/", get(assets::operator_page))
        .route("/assets/{*name}", get(assets::asset))
        .route("/api/federations", get(list))
        .route("/api/federations/{id}", get(one))
        .route("/api/federations/{id}/events", get(events))
        .route("/api/federations/{id}/ledger", get(ledger))
        .route("/api/federations/{id}/ledger/check", get(check))
}

fn operator(shared: &Shared) -> Result<&Operator, NotThere> {
    shared.operator.as_ref().ok_or_else(|| NotThere("no coordinator runs here".to_owned()))
}

#[derive(Serialize)]
struct List {
    schema_version: u32,
    place: String,
    federations: Vec<InList>,
}

/// A study in a list.
#[derive(Serialize)]
struct InList {
    #[serde(flatten)]
    listed: Listed,
    /// Agents that delivered in the round that is played; none if it takes no messages.
    delivered: Option<usize>,
    /// The reason why it stands still.
    error: Option<String>,
}

/// `GET /api/federations`.
async fn list(State(shared): Shares) -> Result<Response, Problem> {
    let listed = blocking(move || {
        let operator = operator(&shared)?;
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
        Ok(List {
            schema_version: SCHEMA_VERSION,
            place: place(&operator.home),
            federations: records.iter().map(in_list).collect::<anyhow::Result<_>>()?,
        })
    });
    answer(&listed.await?)
}

/// The place of a coordinator's studies, for people.
fn place(home: &Home) -> String {
    home.database().map_or_else(|| home.path().display().to_string(), str::to_owned)
}

/// The part of a study that does not change.
#[derive(Serialize)]
struct Described {
    schema_version: u32,
    study: String,
    place: String,
    algorithm: &'static str,
    rounds: u64,
    /// Seconds from release to release, or that a relayed round waits for those who are late.
    round_s: f64,
    /// Seconds in which messages are taken.
    collect_s: Option<f64>,
    /// True if releases are charged to a ledger.
    has_ledger: bool,
    /// The frozen configuration.
    config: String,
}

/// `GET /api/federations/{id}`.
async fn one(State(shared): Shares, Path(name): Id) -> Result<Response, Problem> {
    let described = blocking(move || {
        let operator = operator(&shared)?;
        let record = operator.record(&name)?;
        let federation = Federation::thaw(&record.config)?;
        let seconds = |ms: u64| Duration::from_millis(ms).as_secs_f64();
        Ok(Described {
            schema_version: SCHEMA_VERSION,
            place: place(&operator.home),
            algorithm: federation.algorithm.name,
            rounds: federation.rounds,
            round_s: seconds(federation.network.round_ms),
            collect_s: federation.network.collect_ms.map(seconds),
            has_ledger: federation.privacy().is_some(),
            study: record.name,
            config: record.config,
        })
    });
    answer(&described.await?)
}

/// The ledger of a study.
fn ledger_of(shared: &Shared, name: &str) -> anyhow::Result<Source> {
    let operator = operator(shared)?;
    let record = operator.record(name)?;
    if Federation::thaw(&record.config)?.privacy().is_none() {
        return Err(NotThere(format!("{name}: nothing is charged, so there is no ledger")).into());
    }
    Ok(Source::Coordinator(Arc::clone(&operator.home), record.name))
}

/// `GET /api/federations/{id}/ledger?head=HEAD`.
async fn ledger(
    State(shared): Shares,
    Path(name): Id,
    Query(known): Query<Known>,
) -> Result<Response, Problem> {
    let reader = Arc::clone(&shared);
    privacy::shown(&shared, known, move || ledger_of(&reader, &name)).await
}

/// `GET /api/federations/{id}/ledger/check`.
async fn check(State(shared): Shares, Path(name): Id) -> Result<Response, Problem> {
    let reader = Arc::clone(&shared);
    privacy::checked(&shared, move || ledger_of(&reader, &name)).await
}

/// The news of a study.
#[derive(Clone, PartialEq, Serialize)]
struct News {
    state: &'static str,
    round: u64,
    /// Seconds for which the round has been played.
    elapsed_s: Option<f64>,
    /// True if messages are taken in it.
    collects: bool,
    ledger_head: Option<String>,
    releases: usize,
    error: Option<String>,
    roster: Vec<Member>,
    /// Rounds in which somebody delivered or that changed, with a digit a slot: 1 if it has delivered.
    delivered: Vec<(u64, String)>,
}

/// An agent of a roster.
#[derive(Clone, PartialEq, Serialize)]
struct Member {
    agent: String,
    state: &'static str,
    /// Seconds since its last signed request; none if there was none since this coordinator began.
    silent_s: Option<u64>,
}

/// A study that a page watches.
struct Study {
    shared: Arc<Shared>,
    name: String,
    /// The news as they were sent last, without times.
    sent: Option<News>,
    sent_at: Option<Instant>,
    /// The deliveries that the page has.
    delivered: BTreeMap<u64, Vec<bool>>,
    n_events: u64,
}

/// `GET /api/federations/{id}/events`.
async fn events(State(shared): Shares, Path(name): Id) -> Result<Response, Problem> {
    let (reader, id) = (Arc::clone(&shared), name.clone());
    blocking(move || operator(&reader)?.record(&id)).await?;
    let study = Study {
        shared: Arc::clone(&shared),
        name,
        sent: None,
        sent_at: None,
        delivered: BTreeMap::new(),
        n_events: 0,
    };
    watched(&shared, study)
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

/// The news without what changes by itself.
fn timeless(news: &News) -> News {
    let mut news = news.clone();
    news.elapsed_s = None;
    news.delivered = Vec::new();
    for member in &mut news.roster {
        member.silent_s = None;
    }
    news
}
