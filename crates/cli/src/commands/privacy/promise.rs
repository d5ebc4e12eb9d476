//! The words of what releases promise and what they do not.

use fedbo_privacy::accounting::{Adjacency, Claim, Mode};

/// The limits of what `fedbo run` promises.
pub(crate) const NOT_PROMISED: &str = "anything about the trials in results.csv, their times, or who takes part. This process sees every \
     agent's vectors as they are and is trusted with them (mode central)";

/// The limits of what a coordinator's study promises.
pub(crate) const NOT_PROMISED_OVER_NETWORK: &str = "anything about who takes part and when. The coordinator sees every agent's vectors as they are and is trusted with them (mode \
     central); trials and values stay with the agents";

/// The promise of the releases that a claim covers.
pub(crate) fn promised(claim: &Claim) -> String {
    format!("the releases together are differentially private for each agent: {claim}")
}

/// The meaning of a claim's adjacency.
pub(crate) fn neighbours(claim: &Claim) -> &'static str {
    match claim.adjacency {
        Adjacency::ZeroOut => {
            "zero-out: replace everything that one agent ever submits by zeros. For an observer of all releases, no outcome becomes more \
             than e^epsilon times as likely as before, plus delta, whatever the observer knows and however many of the other agents it \
             controls"
        }
        Adjacency::ReplaceOne => {
            "replace-one: replace everything that one agent ever submits by anything else. For an observer of all releases, no outcome \
             becomes more than e^epsilon times as likely as before, plus delta, whatever the observer knows and however many of the \
             other agents it controls"
        }
    }
}

/// The meaning of a claim's mode.
pub(crate) fn mode(claim: &Claim) -> &'static str {
    match claim.mode {
        Mode::Default => {
            "default: exact sums of integers, and exact noise from the operating system"
        }
        Mode::Paper => {
            "paper: the paper's guarantee, for real numbers, which no machine computes with; for reproduction"
        }
    }
}
