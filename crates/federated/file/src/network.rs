//! `[network]`: the pace of rounds when agents are other processes.

use fedbo_config::{Check, FileError};
use fedbo_federated::{Algorithm, Exchange, Role};
use fedbo_strategies::in_words;
use serde::Deserialize;

/// Seconds of a round by default.
pub(crate) const ROUND_S: f64 = 60.0;
/// The part of a round in which vectors are taken by default; the rest is there to make the release durable.
const COLLECT_SHARE: f64 = 0.9;
/// Seconds of a round at most: a month.
const ROUND_S_MAX: f64 = 2_678_400.0;

/// `[network]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkTable {
    /// Seconds from release to release of `dp-fts-de`; in `fts` as long as a round waits for stragglers. Default 60. It should
    /// be longer than a trial takes. With `pace = "free"`, seconds of a window, whatever trials take.
    pub round_s: Option<f64>,
    /// Seconds of a round in which vectors are taken; in `dp-fts-de` nine tenths of the round by default. In `fts`, where a round ends as
    /// soon as all have delivered, it gives uploads a set instant, and without it they leave when trials end. With `pace = "free"` nine
    /// tenths of the window by default, in all algorithms.
    pub collect_s: Option<f64>,
    /// Windows for which a message is of use, with `pace = "free"` where messages are relayed; default 100.
    pub max_age: Option<u64>,
    /// Messages that are handed out in a window at most, drawn anew in each, with `pace = "free"` where messages are relayed; default 32.
    pub sample: Option<usize>,
    /// `"shards"`: coordinators that share a PostgreSQL database keep the vectors that they take in memory and add them up, each its own, so that
    /// nothing is stored for an upload. Where sums are released of which everybody is a part (`sampling_rate = 1`). Without it each vector is
    /// a row of the database.
    pub intake: Option<String>,
    /// The coordinator's public key. Written when the study is frozen: what agents sign for one coordinator is then of no use
    /// to another.
    pub coordinator: Option<String>,
}

/// The pace of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Milliseconds from release to release, or that a relayed round waits for stragglers.
    pub round_ms: u64,
    /// Milliseconds in which vectors are taken; none in a relayed study that names none: its uploads have no set instant.
    pub collect_ms: Option<u64>,
    /// True if replicas of the coordinator add up the vectors that they take.
    pub is_sharded: bool,
}

impl Network {
    pub(crate) fn of(
        given: &NetworkTable,
        check: Check<'_>,
        algorithm: &Algorithm,
        algorithms: &[Algorithm],
        is_free: bool,
    ) -> Result<Self, FileError> {
        let file = check.file;
        let path = ["network", "collect_s"];
        let has_coordinator = |algorithm: &Algorithm| {
            algorithm.exchange != Exchange::Neighbours && algorithm.role == Role::Own
        };
        if given.collect_s.is_some() && !has_coordinator(algorithm) {
            let readers = algorithms.iter().filter(|each| has_coordinator(each));
            let readers = in_words(readers.map(|each| each.name), "or");
            let message = format!(
                "network.collect_s has no effect unless federation.algorithm is {}; remove it",
                readers
            );
            return Err(file.error(&path, message));
        }
        let round_s = given.round_s.unwrap_or(ROUND_S);
        if !(0.01..=ROUND_S_MAX).contains(&round_s) {
            let expected = format!("seconds from 0.01 to {ROUND_S_MAX}");
            return Err(file.value_error(&["network", "round_s"], expected));
        }
        let collect_s = given.collect_s.unwrap_or(COLLECT_SHARE * round_s);
        if !(0.001..=round_s).contains(&collect_s) {
            let expected = format!("seconds from 0.001 to network.round_s, which is {round_s}");
            return Err(file.value_error(&path, expected));
        }
        Ok(Self {
            round_ms: milliseconds(round_s),
            collect_ms: (given.collect_s.is_some()
                || is_free
                || algorithm.exchange == Exchange::Released)
                .then(|| milliseconds(collect_s)),
            is_sharded: check
                .word(&["network", "intake"], given.intake.as_deref(), &[("shards", ())])?
                .is_some(),
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be between 1 ms and a month"
)]
pub(crate) fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1e3).round() as u64
}
