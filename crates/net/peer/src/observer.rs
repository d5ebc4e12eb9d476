//! Observers of a peer.

use fedbo_protocol::{ReportRejected, Trial};
use fedbo_space::Point;
use fedbo_storage::Told;
use fedbo_wire::PublicKey;

/// Hears what a peer does, from any of its threads. What it hears is durable already.
pub trait Observer: Send + Sync {
    /// The peer answers at this address.
    fn listens(&self, url: &str) {
        let _ = url;
    }

    /// A trial is about to be evaluated.
    fn trial_started(&self, trial: &Trial, point: &Point) {
        let (_, _) = (trial, point);
    }

    /// A trial was told.
    fn trial_ended(&self, trial: &Trial, point: &Point, told: &Told) {
        let (_, _, _) = (trial, point, told);
    }

    /// A round cannot begin before these neighbours have reported. Said once a round, after a moment.
    fn waits_for(&self, round: u64, neighbours: &[&str]) {
        let (_, _) = (round, neighbours);
    }

    /// A round has begun without the reports of these neighbours.
    fn went_on_without(&self, round: u64, neighbours: &[&str]) {
        let (_, _) = (round, neighbours);
    }

    /// The peer's plan is done; it stays for these neighbours. Said again when they change.
    fn stays_for(&self, neighbours: &[&str]) {
        let _ = neighbours;
    }

    /// A neighbour cannot be reached. Said once until it is.
    fn away(&self, neighbour: &str, why: &str) {
        let (_, _) = (neighbour, why);
    }

    /// A neighbour that was away is reached.
    fn is_back(&self, neighbour: &str) {
        let _ = neighbour;
    }

    /// A neighbour's key is trusted on first use, as nobody has named one.
    fn trusts(&self, neighbour: &str, key: &PublicKey) {
        let (_, _) = (neighbour, key);
    }

    /// Something in a report is not used.
    fn rejected(&self, rejected: &ReportRejected) {
        let _ = rejected;
    }

    /// A neighbour, or somebody in its name, did what none may do; it was refused.
    fn misconduct(&self, what: &str) {
        let _ = what;
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
