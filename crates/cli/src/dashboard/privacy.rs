//! A ledger of releases as JSON: what was spent of its budget, what that promises, the chain of its entries, and whether it is sound.
//!
//! Everything shown is public once the releases are: numbers of the charter, events and hashes. No byte of a release is read out.

use std::path::Path as FilePath;

use axum::response::Response;
use data_encoding::HEXLOWER;
use fedbo_federation::ReleaseScale;
use fedbo_ledger::{Charged, Head, History, LedgerError};
use fedbo_privacy::accounting::Mode;
use fedbo_runner::federation::LEDGER_FILE;
use serde::{Deserialize, Serialize};

use super::Shared;
use super::request::{Asked, Problem, json};
use crate::commands::privacy::{CheckDocument, Source, StatementDocument, promise};
use crate::trial_record::SCHEMA_VERSION;

/// Points of the course of ε at most: an accountant takes a while for each.
const POINTS: usize = 50;
/// Entries that are sent at most, the last ones.
const ENTRIES: usize = 10_000;

/// A ledger as a page shows it.
#[derive(Serialize)]
struct Document {
    schema_version: u32,
    ledger: String,
    /// The reason why nothing of it is to be relied on.
    problem: Option<String>,
    #[serde(flatten)]
    sound: Option<Sound>,
}

/// A ledger that is sound.
#[derive(Serialize)]
struct Sound {
    /// The document of `fedbo privacy statement --json`.
    statement: StatementDocument,
    promise: PromiseRecord,
    scale: Option<ScaleRecord>,
    course: Vec<Point>,
    /// The last entries of the chain.
    entries: Vec<EntryRecord>,
}

/// The words of the guarantee.
#[derive(Serialize)]
struct PromiseRecord {
    promised: String,
    not_promised: &'static str,
    neighbours: &'static str,
    mode: &'static str,
}

/// The noise of a release beside what it is to hide and what it is to tell. Norms are in the units of the agents' vectors.
#[derive(Serialize)]
struct ScaleRecord {
    agents: u64,
    regions: u64,
    features: u64,
    planned_releases: u64,
    sampling_rate: f64,
    noise_multiplier: f64,
    max_norm: f64,
    /// S / √P: the norm at which an agent's vector in a sum is clipped.
    vector_norm: f64,
    /// z S / √P: standard deviation of the noise on each number of a sum. Null in mode `paper`, where it follows the weights of a round.
    noise_std: Option<f64>,
    /// The same over all numbers of a sum.
    noise_norm: Option<f64>,
    /// The norm of a region's sum in which all of its agents take part and agree.
    largest_sum: f64,
    /// The norm of the sum of all agents, if all agree.
    largest_sum_of_all: f64,
    /// The noise over what agents of a region who all agree send in the mean, as `fedbo privacy plan` compares them.
    noise_to_signal: Option<f64>,
}

/// ε after a number of releases.
#[derive(Serialize)]
struct Point {
    releases: usize,
    epsilon: f64,
}

/// An entry of the chain.
#[derive(Serialize)]
struct EntryRecord {
    seq: u64,
    round: u64,
    hash: String,
    /// Index of its price in the statement's `charges`.
    charge: Option<usize>,
    bytes: u64,
}

impl Document {
    /// The ledger as it is; what is wrong with it is part of the answer. None if it is sound and still at the head that is known.
    ///
    /// # Errors
    /// If there is none, or the accountant cannot say what it cost.
    fn of(source: &Source, known: Option<&str>) -> anyhow::Result<Option<Self>> {
        let document = |problem, sound| Self {
            schema_version: SCHEMA_VERSION,
            ledger: source.to_string(),
            problem,
            sound,
        };
        // Asked before the ledger is read: what leaves meanwhile is left out.
        let round = source.released_before()?;
        let history = match source.history() {
            Ok(history) => history,
            Err(error @ LedgerError::Absent { .. }) => {
                return Err(Problem::absent(error.to_string()).into());
            }
            Err(error) => return Ok(Some(document(Some(error.to_string()), None))),
        };
        let problem = match source.noted_head() {
            Ok(Some((head, _))) if !contains(&history, &head) => {
                // The head may be that of a release since; what verifies it reads the ledger again.
                source.verify(Some(&head))?.problems.first().map(ToString::to_string)
            }
            Ok(_) => None,
            Err(error) => Some(crate::words(&error)),
        };
        let history = match round {
            Some(round) => history.before(round)?,
            None => history,
        };
        if problem.is_none() && known == Some(history.statement.head.to_string().as_str()) {
            return Ok(None);
        }
        Ok(Some(document(problem, Some(Sound::of(&history)?))))
    }
}

impl Sound {
    fn of(history: &History) -> anyhow::Result<Self> {
        let statement = &history.statement;
        let scale = ReleaseScale::of_config(&history.charter.config);
        let claim = &statement.claim;
        let left_out = history.entries.len().saturating_sub(ENTRIES);
        let entries = &history.entries[left_out..];
        Ok(Self {
            statement: StatementDocument::of(statement),
            promise: PromiseRecord {
                promised: promise::promised(claim),
                not_promised: match scale {
                    Some(scale) if scale.is_over_network => promise::NOT_PROMISED_OVER_NETWORK,
                    _ => promise::NOT_PROMISED,
                },
                neighbours: promise::neighbours(claim),
                mode: promise::mode(claim),
            },
            scale: scale.map(|scale| ScaleRecord::of(&scale, history.charter.mode)),
            course: course(history)?,
            entries: entries.iter().map(|entry| EntryRecord::of(entry, history)).collect(),
        })
    }
}

impl ScaleRecord {
    fn of(scale: &ReleaseScale, mode: Mode) -> Self {
        let vector_norm = scale.vector_norm();
        let (agents, regions) = (scale.n_agents as f64, scale.n_regions as f64);
        let noise_std = (mode == Mode::Default).then(|| scale.noise_std());
        let noise_norm = noise_std.map(|std| std * (scale.n_features as f64).sqrt());
        let signal = scale.sampling_rate * agents / regions * vector_norm;
        Self {
            agents: scale.n_agents,
            regions: scale.n_regions,
            features: scale.n_features,
            planned_releases: scale.n_planned,
            sampling_rate: scale.sampling_rate,
            noise_multiplier: scale.noise_multiplier,
            max_norm: scale.max_norm,
            vector_norm,
            noise_std,
            noise_norm,
            largest_sum: (agents / regions).ceil() * vector_norm,
            largest_sum_of_all: agents * vector_norm,
            noise_to_signal: noise_norm.map(|noise| noise / signal),
        }
    }
}

impl EntryRecord {
    fn of(entry: &Charged, history: &History) -> Self {
        let charges = &history.statement.charges;
        Self {
            seq: entry.seq,
            round: entry.round,
            hash: HEXLOWER.encode(&entry.hash),
            charge: charges.iter().position(|charge| charge.event == entry.event),
            bytes: entry.n_bytes,
        }
    }
}

/// Returns true if the ledger has been at this head.
fn contains(history: &History, head: &Head) -> bool {
    let Some(last) = head.seq.checked_sub(1) else {
        return *head == history.charter.genesis();
    };
    let entry = usize::try_from(last).ok().and_then(|last| history.entries.get(last));
    entry.is_some_and(|entry| (entry.seq, entry.hash) == (head.seq, head.hash))
}

/// ε after each release, of many after some of them, by the accountant of the statement.
fn course(history: &History) -> Result<Vec<Point>, LedgerError> {
    let n_all = history.entries.len();
    let n_steps = n_all.min(POINTS);
    let points = (0..=n_steps).map(|step| {
        let releases = (step * n_all).checked_div(n_steps).unwrap_or(0);
        let epsilon = match releases == n_all {
            true => history.statement.claim.epsilon,
            false => history.cost_of_first(releases)?.epsilon,
        };
        Ok(Point { releases, epsilon })
    });
    points.collect()
}

/// The head of the ledger that a page knows.
#[derive(Deserialize)]
struct Known {
    head: Option<String>,
}

/// A ledger as JSON; `{"unchanged": true}` if it is at the head that the page knows.
pub(super) fn shown(asked: &Asked, source: &Source) -> anyhow::Result<Response> {
    match Document::of(source, asked.query::<Known>()?.head.as_deref())? {
        Some(document) => json(&document),
        None => json(&serde_json::json!({ "schema_version": SCHEMA_VERSION, "unchanged": true })),
    }
}

/// Returns true if a results folder has a ledger.
pub(super) fn has_ledger(folder: &FilePath) -> bool {
    super::runs::has_file(folder, LEDGER_FILE)
}

/// The ledger of a run.
fn of_run(shared: &Shared, id: &str) -> anyhow::Result<Source> {
    let folder = shared.catalog.run(id)?;
    if !has_ledger(&folder) {
        return Err(Problem::absent("this run has no ledger: it released nothing").into());
    }
    Ok(Source::from(folder.as_path()))
}

/// `GET /api/runs/{id}/ledger?head=HEAD`.
pub(super) fn ledger(asked: &Asked) -> anyhow::Result<Response> {
    shown(asked, &of_run(&asked.shared, asked.id())?)
}

/// `GET /api/runs/{id}/ledger/check`: the document of `fedbo privacy verify --json`.
pub(super) fn check(asked: &Asked) -> anyhow::Result<Response> {
    json(&CheckDocument::checked(&of_run(&asked.shared, asked.id())?)?)
}
