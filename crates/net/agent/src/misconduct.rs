//! Misconduct of a coordinator, in words.

use fedbo_ledger::Head;
use fedbo_servers::HelperMisconduct;
use fedbo_wire::{Digest, HandoutUnreadable};

use crate::reader::ReleaseDefect;

/// Misconduct of a coordinator: what no correct one does.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Misconduct {
    /// The bytes are no handout of the study's coordinator.
    #[error("what it handed out cannot be believed: {0}")]
    Unreadable(#[from] HandoutUnreadable),
    /// It is of another configuration.
    #[error(
        "it handed out a round of another configuration ({found}) than the one that was frozen ({expected})"
    )]
    OtherConfig {
        /// The configuration that the agent joined.
        expected: Digest,
        /// The configuration of the handout.
        found: Digest,
    },
    /// Messages came where releases are due, or the reverse.
    #[error("it handed out {found}, in this study it is to hand out {expected}")]
    OtherContent {
        /// The kind of content that is due.
        expected: &'static str,
        /// The kind of content that came.
        found: &'static str,
    },
    /// The round is none after those that the agent knows.
    #[error("its rounds go back: it began round {found} after round {last}")]
    RoundBack {
        /// The newest that was known.
        last: u64,
        /// The round of the handout.
        found: u64,
    },
    /// It says of a round that it collects, or that it does not, against the configuration.
    #[error(
        "it says that round {round} {}, which is not what the configuration says", if *found { "collects vectors" } else { "collects none" }
    )]
    OtherCollection {
        /// The round.
        round: u64,
        /// True if the handout says that the round collects.
        found: bool,
    },
    /// The ledger ends earlier than before.
    #[error("its ledger goes back: it ends at entry {found}, it did end at entry {known}")]
    LedgerBack {
        /// The number of the last entry that the agent knew.
        known: u64,
        /// The number of the entry at which it ends now.
        found: u64,
    },
    /// The ledger is not the one that the agent follows.
    #[error(
        "its ledger has another history: it says that it ends at {found}, and what it handed out ends at {expected}"
    )]
    OtherHistory {
        /// The head that the agent computed from the entries.
        expected: Head,
        /// The head that the coordinator states.
        found: Head,
    },
    /// Entries are missing.
    #[error("entries of its ledger are missing: entry {found} came, entry {expected} is due")]
    EntryMissing {
        /// The number of the entry that is due.
        expected: u64,
        /// The number of the entry that came.
        found: u64,
    },
    /// The helper's ledger, or what was handed out of it, is not as it should be.
    #[error("of its secure sum: {0}")]
    Helper(#[from] HelperMisconduct),
    /// A round was released twice, in two forms.
    #[error("it released round {round} twice, and differently")]
    OtherRelease {
        /// The round.
        round: u64,
    },
    /// There are more releases than the configuration says.
    #[error("it released more than planned: entry {found} of a ledger that is to have {planned}")]
    TooManyReleases {
        /// The number of releases in the configuration.
        planned: u64,
        /// The number of the entry that came.
        found: u64,
    },
    /// A round released that does not release, or one that does did not.
    #[error(
        "its entry {seq} is the release of round {found}, the configuration says round {expected}"
    )]
    OtherRound {
        /// The entry.
        seq: u64,
        /// The round that the configuration says.
        expected: u64,
        /// The round of the release that came.
        found: u64,
    },
    /// Releases that are due are not there.
    #[error("round {round} begins, and of the {expected} releases before it there are {found}")]
    ReleaseMissing {
        /// The round.
        round: u64,
        /// The number of releases that are due by the configuration.
        expected: u64,
        /// The number of releases that there are.
        found: u64,
    },
    /// A round that has not begun was released.
    #[error("round {round} begins, and round {found} is released already")]
    ReleaseEarly {
        /// The round that begins.
        round: u64,
        /// The round of the release.
        found: u64,
    },
    /// A release is charged with something else than the configuration says.
    #[error(
        "it charged the release of round {round} with another event than the configuration says, so it spends of the budget \
         what is not known"
    )]
    OtherEvent {
        /// The round.
        round: u64,
    },
    /// A release cannot be used.
    #[error("its release of round {round} is none: {source}")]
    Release {
        /// The round.
        round: u64,
        /// The defect of the release.
        source: ReleaseDefect,
    },
}
