//! Observers of a peer.

use std::fmt;

use fedbo_protocol::{ReportRejected, Trial};
use fedbo_space::Point;
use fedbo_storage::Told;
use fedbo_wire::PublicKey;

/// Something that a peer does or meets beside its trials; displayed in a sentence.
#[derive(Clone, Copy, Debug)]
pub enum Notice<'a> {
    /// The peer answers at this address.
    Listens(&'a str),
    /// A round cannot begin before these neighbours have reported. Said once a round, after a moment.
    WaitsFor(u64, &'a [&'a str]),
    /// A round has begun without the reports of these neighbours.
    WentOnWithout(u64, &'a [&'a str]),
    /// The peer's plan is done; it stays for these neighbours. Said again when they change.
    StaysFor(&'a [&'a str]),
    /// A neighbour cannot be reached, for this reason. Said once until it is.
    Away(&'a str, &'a str),
    /// A neighbour that was away is reached.
    IsBack(&'a str),
    /// A neighbour's key is trusted on first use, as nobody has named one.
    Trusts(&'a str, &'a PublicKey),
    /// Something in a report is not used.
    Rejected(&'a ReportRejected),
    /// A neighbour, or somebody in its name, did what none may do; it was refused.
    Misconduct(&'a str),
}

impl fmt::Display for Notice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Listens(url) => write!(f, "peer on {url}"),
            Self::WaitsFor(round, names) => {
                write!(f, "round {round} waits for {}", names.join(", "))
            }
            Self::WentOnWithout(round, names) => {
                write!(f, "round {round} goes on without {}", names.join(", "))
            }
            Self::StaysFor(names) => write!(
                f,
                "all rounds are done; it stays until the rest is shared with {}",
                names.join(", ")
            ),
            Self::Away(name, why) => write!(f, "{name} is away: {why}"),
            Self::IsBack(name) => write!(f, "{name} is back"),
            Self::Trusts(name, key) => {
                write!(f, "{name} has the key {key}, which is believed from now on")
            }
            Self::Rejected(rejected) => write!(f, "{rejected}; it is not used"),
            Self::Misconduct(what) => f.write_str(what),
        }
    }
}

/// Hears what a peer does, from any of its threads. What it hears is durable already.
pub trait Observer: Send + Sync {
    /// A trial is about to be evaluated.
    fn trial_started(&self, trial: &Trial, point: &Point) {
        let (_, _) = (trial, point);
    }

    /// A trial was told.
    fn trial_ended(&self, trial: &Trial, point: &Point, told: &Told) {
        let (_, _, _) = (trial, point, told);
    }

    /// Something else happened.
    fn notice(&self, notice: &Notice<'_>) {
        let _ = notice;
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
