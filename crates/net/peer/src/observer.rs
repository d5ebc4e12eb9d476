//! Observers of a peer.

use std::fmt;

use fedbo_protocol::{ReportRejected, Trial};
use fedbo_space::Point;
use fedbo_storage::Told;
use fedbo_wire::PublicKey;

/// An event of a peer other than a trial. The `Display` implementation formats it as a sentence.
#[derive(Clone, Copy, Debug)]
pub enum Notice<'a> {
    /// The peer is listening at this address.
    Listens(&'a str),
    /// A round is waiting for the reports from these neighbours before it begins. Sent once per
    /// round, after a short delay.
    WaitsFor(u64, &'a [&'a str]),
    /// A round has begun without the reports from these neighbours.
    ContinuedWithout(u64, &'a [&'a str]),
    /// The peer's rounds are done, and it waits for these neighbours. Sent again when the set
    /// changes.
    StaysFor(&'a [&'a str]),
    /// A neighbour cannot be reached, for the given reason. Not sent again until the neighbour has
    /// been reached.
    Away(&'a str, &'a str),
    /// A neighbour can be reached again.
    IsBack(&'a str),
    /// A neighbour's key is trusted on first use, since the user has not configured one.
    Trusts(&'a str, &'a PublicKey),
    /// Part of a report was rejected.
    Rejected(&'a ReportRejected),
    /// A forbidden request from a neighbour or an impostor was refused, or the exchange with a
    /// neighbour failed permanently.
    Misconduct(&'a str),
}

impl fmt::Display for Notice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Listens(url) => write!(f, "peer on {url}"),
            Self::WaitsFor(round, names) => {
                write!(f, "round {round} waits for {}", names.join(", "))
            }
            Self::ContinuedWithout(round, names) => {
                write!(f, "round {round} continues without {}", names.join(", "))
            }
            Self::StaysFor(names) => write!(
                f,
                "all rounds are done; the peer runs until the rest is shared with {}",
                names.join(", ")
            ),
            Self::Away(name, why) => write!(f, "{name} is away: {why}"),
            Self::IsBack(name) => write!(f, "{name} is back"),
            Self::Trusts(name, key) => {
                write!(f, "{name} has the key {key}, which is trusted from now on")
            }
            Self::Rejected(rejected) => write!(f, "{rejected}; it is not used"),
            Self::Misconduct(what) => f.write_str(what),
        }
    }
}

/// Receives a peer's events. The methods can be called from any of the peer's threads. The events
/// are already durable.
pub trait Observer: Send + Sync {
    /// Called before a trial is evaluated.
    fn trial_started(&self, trial: &Trial, point: &Point) {
        let (_, _) = (trial, point);
    }

    /// Called after a trial has ended, with its result.
    fn trial_ended(&self, trial: &Trial, point: &Point, told: &Told) {
        let (_, _, _) = (trial, point, told);
    }

    /// Called for any other event.
    fn notice(&self, notice: &Notice<'_>) {
        let _ = notice;
    }
}

/// Observer that ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
