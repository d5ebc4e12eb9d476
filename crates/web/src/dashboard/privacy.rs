//! A ledger of releases as JSON: the spent budget, its guarantee, the chain of entries, and the
//! result of its verification.
//!
//! All content becomes public with the releases: the numbers in the charter, events and hashes. The
//! content of releases is not shown.

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
use fedbo_documents::trial_record::SCHEMA_VERSION;
use fedbo_documents::{CheckDocument, LedgerSource, StatementDocument, promise};

/// Maximum number of points on the curve of ε. The accountant takes a while for each point.
const POINTS: usize = 50;
/// Maximum number of entries sent. Only the latest entries are sent.
const ENTRIES: usize = 10_000;

/// The JSON document of a ledger.
#[derive(Serialize)]
struct Document {
    schema_version: u32,
    ledger: String,
    /// The reason why the ledger cannot be trusted.
    problem: Option<String>,
    #[serde(flatten)]
    sound: Option<Sound>,
}

/// A valid ledger.
#[derive(Serialize)]
struct Sound {
    /// The document of `fedbo privacy statement --json`.
    statement: StatementDocument,
    promise: PromiseRecord,
    scale: Option<ScaleRecord>,
    course: Vec<Point>,
    /// The latest entries of the chain.
    entries: Vec<EntryRecord>,
}

/// The guarantee in words.
#[derive(Serialize)]
struct PromiseRecord {
    promised: String,
    not_promised: &'static str,
    neighbours: &'static str,
    mode: &'static str,
}

/// Noise of a release compared with the signal and with the contributions that it hides. Norms are
/// in units of the agents' vectors.
#[derive(Serialize)]
struct ScaleRecord {
    agents: u64,
    regions: u64,
    features: u64,
    planned_releases: u64,
    sampling_rate: f64,
    noise_multiplier: f64,
    max_norm: f64,
    /// S / √P: norm to which an agent's vector in a sum is clipped.
    vector_norm: f64,
    /// z S / √P: standard deviation of the noise on each number in a sum. Null in mode `paper`,
    /// where it depends on the weights of a round.
    noise_std: Option<f64>,
    /// Norm of the noise over all numbers in a sum.
    noise_norm: Option<f64>,
    /// Norm of a region's sum if all of its agents take part and agree.
    largest_sum: f64,
    /// Norm of the sum over all agents if all of them agree.
    largest_sum_of_all: f64,
    /// Ratio of the noise to a region's mean sum if all of its agents agree, as in `fedbo privacy
    /// plan`.
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
    /// Index of the entry's charge in the statement's `charges`.
    charge: Option<usize>,
    bytes: u64,
}

impl Document {
    /// Returns the current ledger. Problems with the ledger are part of the document. Returns
    /// `None` if the ledger is valid and its head is still the one that the page has.
    ///
    /// # Errors
    /// Fails if there is no ledger, or if the accountant cannot compute its cost.
    fn of(source: &LedgerSource, known: Option<&str>) -> anyhow::Result<Option<Self>> {
        let document = |problem, sound| Self {
            schema_version: SCHEMA_VERSION,
            ledger: source.to_string(),
            problem,
            sound,
        };
        // Read before the ledger, so that releases during this call are excluded.
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
                // The head can belong to a later release. Verification reads the ledger again.
                source.verify(Some(&head))?.problems.first().map(ToString::to_string)
            }
            Ok(_) => None,
            Err(error) => Some(fedbo_documents::error_text(&error)),
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
            statement: StatementDocument::of(history),
            promise: PromiseRecord {
                promised: promise::promised(claim),
                not_promised: promise::not_promised(scale.as_ref()),
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

/// Returns true if `head` is, or once was, the head of the ledger.
fn contains(history: &History, head: &Head) -> bool {
    let Some(last) = head.seq.checked_sub(1) else {
        return *head == history.charter.genesis();
    };
    let entry = usize::try_from(last).ok().and_then(|last| history.entries.get(last));
    entry.is_some_and(|entry| (entry.seq, entry.hash) == (head.seq, head.hash))
}

/// Returns ε after each release, or after an evenly spaced selection if there are many, as computed
/// by the statement's accountant.
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

/// The ledger head that a page has.
#[derive(Deserialize)]
struct Known {
    head: Option<String>,
}

/// Returns a ledger as JSON, or `{"unchanged": true}` if its head is the one that the page has.
pub(super) fn shown(asked: &Asked, source: &LedgerSource) -> anyhow::Result<Response> {
    match Document::of(source, asked.query::<Known>()?.head.as_deref())? {
        Some(document) => json(&document),
        None => json(&serde_json::json!({ "schema_version": SCHEMA_VERSION, "unchanged": true })),
    }
}

/// Returns true if a results folder contains a ledger.
pub(super) fn has_ledger(folder: &FilePath) -> bool {
    super::folder::has_file(folder, LEDGER_FILE)
}

/// Returns the ledger of a run.
fn of_run(shared: &Shared, id: &str) -> anyhow::Result<LedgerSource> {
    let folder = shared.catalog.run(id)?;
    if !has_ledger(&folder) {
        return Err(Problem::absent("this run has no ledger: it released nothing").into());
    }
    Ok(LedgerSource::from(folder.as_path()))
}

/// `GET /api/runs/{id}/ledger?head=HEAD`.
pub(super) fn ledger(asked: &Asked) -> anyhow::Result<Response> {
    shown(asked, &of_run(&asked.shared, asked.id())?)
}

/// `GET /api/runs/{id}/ledger/check`: the document of `fedbo privacy verify --json`.
pub(super) fn check(asked: &Asked) -> anyhow::Result<Response> {
    json(&CheckDocument::checked(&of_run(&asked.shared, asked.id())?)?)
}
