//! `[network]`: the pace of rounds if agents are other processes.

use fedbo_config::{Check, FileError};
use fedbo_federated::{Algorithm, Exchange, Role};
use fedbo_strategies::in_words;
use serde::Deserialize;

/// Default duration of a round in seconds.
pub(crate) const ROUND_S: f64 = 60.0;
/// Default share of a round for accepting vectors. The rest is for making the release durable.
const COLLECT_SHARE: f64 = 0.9;
/// Maximum duration of a round in seconds: a month.
const ROUND_S_MAX: f64 = 2_678_400.0;

/// `[network]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkTable {
    /// Duration of a round in seconds; default 60.
    ///
    /// For `dp-fts-de`, the time between releases; for `fts`, the time that a round waits for
    /// stragglers. It should be longer than a trial. Round 0 holds the initial trials and is
    /// longer, by `round_s` for each of them after the first. With `pace = "free"`, the duration of
    /// a window, independent of the duration of trials.
    pub round_s: Option<f64>,
    /// Seconds of a round for accepting vectors.
    ///
    /// The default for `dp-fts-de` is nine tenths of the round. In `fts`, where a round ends as
    /// soon as all have delivered, it gives uploads a set instant; without it they leave when
    /// trials end. With `pace = "free"`, the default is nine tenths of the window in all
    /// algorithms.
    pub collect_s: Option<f64>,
    /// Number of windows after its own for which a relayed message is used, with `pace = "free"`;
    /// default 100.
    pub max_age: Option<u64>,
    /// Maximum number of relayed messages handed out in a window, drawn again for each window, with
    /// `pace = "free"`; default 32.
    pub sample: Option<usize>,
    /// `"shards"`: each coordinator on a shared PostgreSQL database keeps its vectors in memory and
    /// adds them up, so that uploads store nothing. Only for released sums that include all agents
    /// (`sampling_rate = 1`). Without it, each vector is a row of the database.
    pub intake: Option<String>,
    /// The coordinator's public key. Written when the study is frozen, so that agents' signatures
    /// for one coordinator are not valid for another.
    pub coordinator: Option<String>,
}

/// The pace of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Milliseconds between releases, or of a relayed round's wait for stragglers.
    pub round_ms: u64,
    /// Milliseconds for accepting vectors; `None` in a relayed study that does not set it, where
    /// uploads have no set instant.
    pub collect_ms: Option<u64>,
    /// Additional milliseconds of round 0, which holds all initial trials of an agent. Every other
    /// round holds one trial. 0 at a free pace.
    pub extra_ms: u64,
    /// True if replicas of the coordinator add up the vectors that they accept.
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
    /// Milliseconds of a round, or of a relayed round's wait for stragglers.
    #[must_use]
    pub fn round_ms_of(&self, round: u64) -> u64 {
        self.round_ms.saturating_add(self.extra_ms_of(round))
    }

    /// Milliseconds of a round for accepting vectors; `None` if uploads have no set instant.
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
