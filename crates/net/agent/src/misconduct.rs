//! The kinds of a coordinator's misconduct.

use fedbo_ledger::Head;
use fedbo_servers::HelperMisconduct;
use fedbo_wire::{Digest, HandoutUnreadable};

use crate::reader::ReleaseDefect;

/// Misconduct of a coordinator. A correct coordinator never behaves in any of these ways.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Misconduct {
    /// The bytes are not a handout of the study's coordinator.
    #[error("its handout is invalid: {0}")]
    Unreadable(#[from] HandoutUnreadable),
    /// The handout belongs to a different configuration.
    #[error(
        "it handed out a round of another configuration ({found}) than the frozen one ({expected})"
    )]
    OtherConfig {
        /// The configuration that the agent joined.
        expected: Digest,
        /// The configuration of the handout.
        found: Digest,
    },
    /// The handout contains messages although releases are due, or vice versa.
    #[error("it handed out {found}, but this study requires {expected}")]
    OtherContent {
        /// The kind of content that is due.
        expected: &'static str,
        /// The kind of content in the handout.
        found: &'static str,
    },
    /// The round is not later than the agent's newest round.
    #[error("its rounds go back: it began round {found} after round {last}")]
    RoundBack {
        /// The agent's newest round.
        last: u64,
        /// The round of the handout.
        found: u64,
    },
    /// The handout and the configuration disagree about whether a round collects vectors.
    #[error(
        "it states that round {round} {}, which contradicts the configuration", if *found { "collects vectors" } else { "collects none" }
    )]
    OtherCollection {
        /// The round.
        round: u64,
        /// True if the round collects vectors according to the handout.
        found: bool,
    },
    /// The ledger ends earlier than before.
    #[error("its ledger goes back: it ends at entry {found}, but ended at entry {known} before")]
    LedgerBack {
        /// The number of the agent's last entry.
        known: u64,
        /// The number of the entry at which the ledger ends now.
        found: u64,
    },
    /// The ledger's history differs from the one that the agent has followed.
    #[error(
        "its ledger has another history: it reports that it ends at {found}, but the entries that it handed out end at {expected}"
    )]
    OtherHistory {
        /// The head that the agent computed from the entries.
        expected: Head,
        /// The head that the coordinator reports.
        found: Head,
    },
    /// Entries are missing.
    #[error(
        "entries of its ledger are missing: entry {found} arrived, but entry {expected} is due"
    )]
    EntryMissing {
        /// The number of the entry that is due.
        expected: u64,
        /// The number of the entry that arrived.
        found: u64,
    },
    /// The helper's ledger, or the handed-out part of it, is wrong.
    #[error("in its secure sum: {0}")]
    Helper(#[from] HelperMisconduct),
    /// A round was released twice, with different contents.
    #[error("it released round {round} twice with different contents")]
    OtherRelease {
        /// The round.
        round: u64,
    },
    /// There are more releases than the configuration plans.
    #[error(
        "it released more than planned: entry {found} of a ledger with {planned} planned entries"
    )]
    TooManyReleases {
        /// The number of releases in the configuration.
        planned: u64,
        /// The number of the entry that arrived.
        found: u64,
    },
    /// The release belongs to a different round than the configuration requires.
    #[error(
        "its entry {seq} is the release of round {found}, but the configuration requires round {expected}"
    )]
    OtherRound {
        /// The entry.
        seq: u64,
        /// The round that the configuration requires.
        expected: u64,
        /// The round of the release that arrived.
        found: u64,
    },
    /// Releases that are due are missing.
    #[error(
        "round {round} begins, but of the {expected} releases before it there are only {found}"
    )]
    ReleaseMissing {
        /// The round.
        round: u64,
        /// The number of releases that the configuration requires.
        expected: u64,
        /// The number of releases found.
        found: u64,
    },
    /// A round was released too early.
    #[error("round {round} begins, but round {found} is already released")]
    ReleaseEarly {
        /// The round that begins.
        round: u64,
        /// The round of the release.
        found: u64,
    },
    /// A release is charged with a different event than the configured one.
    #[error(
        "it charged the release of round {round} with another event than the configured one, so the cost of the release \
         is unknown"
    )]
    OtherEvent {
        /// The round.
        round: u64,
    },
    /// A release cannot be used.
    #[error("its release of round {round} is invalid: {source}")]
    Release {
        /// The round.
        round: u64,
        /// The defect of the release.
        source: ReleaseDefect,
    },
}
