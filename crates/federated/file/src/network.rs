//! `[network]`: the timing of rounds when agents run in other processes.

use fedbo_config::{Check, FileError};
use fedbo_federated::{Algorithm, Exchange, Role};
use fedbo_strategies::in_words;
use serde::Deserialize;

/// Default duration of a round in seconds.
pub(crate) const ROUND_S: f64 = 60.0;
/// Default fraction of a round during which vectors are accepted. The rest is for making the
/// release durable.
const COLLECT_SHARE: f64 = 0.9;
/// Maximum duration of a round in seconds (31 days).
const ROUND_S_MAX: f64 = 2_678_400.0;

/// `[network]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkTable {
    /// Duration of a round in seconds; default 60.
    ///
    /// For `dp-fts-de`, this is the time between releases. For `fts`, it is the time that a round
    /// waits for stragglers. The duration should exceed that of a trial. Round 0 contains the
    /// initial trials, so it is longer by `round_s` for each initial trial after the first. With
    /// `pace = "free"`, this is the duration of a window, which does not depend on the duration of
    /// trials.
    pub round_s: Option<f64>,
    /// Time in seconds during which a round accepts vectors.
    ///
    /// The default for `dp-fts-de` is nine tenths of the round. With `fts`, where a round ends as
    /// soon as all agents have delivered, this key sets a fixed time for uploads; without the key,
    /// uploads are sent when trials end. With `pace = "free"`, the default is nine tenths of the
    /// window for all algorithms.
    pub collect_s: Option<f64>,
    /// Number of windows for which a relayed message remains usable after its own window, with
    /// `pace = "free"`; default 100.
    pub max_age: Option<u64>,
    /// Maximum number of relayed messages handed out in a window, with `pace = "free"`; default 32.
    /// Each window draws a new sample.
    pub sample: Option<usize>,
    /// `"shards"`: each coordinator on a shared PostgreSQL database keeps its vectors in memory and
    /// adds them up, so that uploads are not stored. Only for released sums that include all agents
    /// (`sampling_rate = 1`). Without this key, each vector is a row in the database.
    pub intake: Option<String>,
    /// The coordinator's public key, written when the study is frozen, so that agents' signatures
    /// for one coordinator are not valid for another.
    pub coordinator: Option<String>,
}

/// The timing of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Time between releases, or maximum wait for stragglers in a relayed round, in milliseconds.
    pub round_ms: u64,
    /// Time during which vectors are accepted, in milliseconds; `None` in a relayed study that does
    /// not set it, where uploads have no fixed time.
    pub collect_ms: Option<u64>,
    /// Additional time for round 0 in milliseconds, because round 0 contains all initial trials of
    /// an agent, whereas every other round contains one trial. 0 at a free pace.
    pub extra_ms: u64,
    /// True if each replica of the coordinator adds up the vectors that it accepts.
    pub is_sharded: bool,
}

impl Network {
    pub(crate) fn of(
        given: &NetworkTable,
        check: Check<'_>,
        algorithm: &Algorithm,
        algorithms: &[Algorithm],
        (is_free, n_initial): (bool, usize),
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
        let round_ms = milliseconds(round_s);
        let n_others = if is_free { 0 } else { n_initial.saturating_sub(1) as u64 };
        Ok(Self {
            round_ms,
            extra_ms: round_ms.saturating_mul(n_others),
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

impl Network {
    /// Returns the duration of a round, or the maximum wait for stragglers in a relayed round, in
    /// milliseconds.
    #[must_use]
    pub fn round_ms_of(&self, round: u64) -> u64 {
        self.round_ms.saturating_add(self.extra_ms_of(round))
    }

    /// Returns the time during which a round accepts vectors, in milliseconds; `None` if uploads
    /// have no fixed time.
    #[must_use]
    pub fn collect_ms_of(&self, round: u64) -> Option<u64> {
        Some(self.collect_ms?.saturating_add(self.extra_ms_of(round)))
    }

    fn extra_ms_of(&self, round: u64) -> u64 {
        if round == 0 { self.extra_ms } else { 0 }
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
