//! The mailbox of a peer, in which each neighbour's reports count once.

use std::collections::{BTreeMap, BTreeSet};

use fedbo_strategies::{Observation, Source};

use super::report::{Report, ReportRejected};

/// The reports of one neighbour.
#[derive(Clone, Debug, Default)]
struct Sender {
    /// Reports `0..next` have arrived.
    next: u64,
    /// Later reports that arrived before their predecessors.
    early: BTreeMap<u64, Report>,
    /// True if the sender's last report has arrived.
    has_ended: bool,
}

/// The reports of all neighbours, kept until the peer uses them.
#[derive(Clone, Debug)]
pub(super) struct Mailbox {
    owner: u32,
    dim: usize,
    /// The last round of any peer.
    last_round: u64,
    /// Maximum number of observations in a report of round 0.
    n_initial_max: usize,
    senders: BTreeMap<u32, Sender>,
    /// Ordered by round, then by sender, so that the strategy's input does not depend on the order
    /// of arrival.
    unused: BTreeMap<(u64, u32), Vec<Observation>>,
}

impl Mailbox {
    pub(super) fn new(owner: u32, dim: usize, last_round: u64, n_initial_max: usize) -> Self {
        Self {
            owner,
            dim,
            last_round,
            n_initial_max,
            senders: BTreeMap::new(),
            unused: BTreeMap::new(),
        }
    }

    /// Accepts reports from this sender from now on.
    pub(super) fn admit(&mut self, sender: u32) {
        self.senders.entry(sender).or_default();
    }

    /// Returns the number of reports from this sender that have arrived without a gap. This is also
    /// the number of the next report.
    pub(super) fn next_of(&self, sender: u32) -> u64 {
        self.senders.get(&sender).map_or(0, |sender| sender.next)
    }

    /// Returns true if all reports of this sender from before `round` have arrived, or if no more
    /// reports will follow.
    pub(super) fn has_all_before(&self, round: u64, sender: u32) -> bool {
        let known = self.senders.get(&sender);
        known.is_some_and(|known| known.next >= round || known.has_ended)
    }

    /// Accepts a report, or holds it back until its predecessors have arrived. A repeated report
    /// has no effect.
    pub(super) fn take(&mut self, report: Report) -> Vec<ReportRejected> {
        let (sender, round) = (report.sender, report.round);
        let Some(known) = self.senders.get_mut(&sender) else {
            let receiver = self.owner;
            return vec![ReportRejected::Stranger { sender, receiver }];
        };
        if round < known.next {
            return Vec::new();
        }
        if round > self.last_round {
            let last = self.last_round;
            return vec![ReportRejected::BeyondTheEnd { sender, round, last }];
        }
        if known.has_ended {
            return vec![ReportRejected::AfterTheLast { sender, round }];
        }
        known.early.entry(round).or_insert(report);
        let mut rejected = Vec::new();
        while let Some(report) = self.next_early(sender) {
            self.open(report, &mut rejected);
        }
        rejected
    }

    fn next_early(&mut self, sender: u32) -> Option<Report> {
        let known = self.senders.get_mut(&sender)?;
        if known.has_ended {
            known.early.clear();
            return None;
        }
        let report = known.early.remove(&known.next)?;
        known.next += 1;
        known.has_ended = report.is_last;
        Some(report)
    }

    fn open(&mut self, report: Report, rejected: &mut Vec<ReportRejected>) {
        let Report { sender, round, observations, .. } = report;
        let most = if round == 0 { self.n_initial_max } else { 1 };
        if observations.len() > most {
            rejected.push(ReportRejected::TooMany {
                sender,
                round,
                found: observations.len(),
                most,
            });
            return;
        }
        let mut usable = Vec::with_capacity(observations.len());
        for shared in observations {
            let reason = if shared.unit.len() != self.dim {
                "its point has a different number of coordinates than the space"
            } else if !shared.unit.iter().all(|v| (0.0..=1.0).contains(v)) {
                "its point is not in the unit cube"
            } else if shared.value.is_some_and(|value| !value.is_finite()) {
                "its value is not finite"
            } else {
                usable.push(Observation::new(
                    shared.unit,
                    shared.value,
                    Source::Message { sender },
                ));
                continue;
            };
            rejected.push(ReportRejected::NoObservation { sender, round, reason });
        }
        self.unused.insert((round, sender), usable);
    }

    /// Removes and returns the unused observations of these senders from rounds before `round`,
    /// ordered by round and sender.
    pub(super) fn use_before(
        &mut self,
        round: u64,
        senders: &BTreeSet<u32>,
    ) -> BTreeMap<(u64, u32), Vec<Observation>> {
        let is_due = |(of, sender): &(u64, u32)| *of < round && senders.contains(sender);
        let unused = std::mem::take(&mut self.unused).into_iter();
        let (due, kept) = unused.partition(|(key, _)| is_due(key));
        self.unused = kept;
        due
    }

    /// Removes and returns all unused observations.
    pub(super) fn use_all(&mut self) -> BTreeMap<(u64, u32), Vec<Observation>> {
        std::mem::take(&mut self.unused)
    }
}
