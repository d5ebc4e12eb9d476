//! The work of a leader whose study is summed by two servers: the round closes when the helper agrees over what, and the shares are
//! exchanged when both are durable.

use std::cell::OnceCell;
use std::time::{Duration, Instant};

use fedbo_failpoints::pass;
use fedbo_protocol::{AgentUpdate, Weights};
use fedbo_wire::LedgerEntry;

use super::error::HostError;
use super::worker::Worker;
use crate::sum::HelperFailed;

/// The time between two requests to a helper that does not answer.
const PAUSE: Duration = Duration::from_millis(500);

impl Worker {
    /// The intake takes vectors of the round that is played, or none.
    pub(super) fn open_sum(&self) {
        if let (Some(sum), Some(leader)) = (&self.sum, &self.leader) {
            sum.begin(leader.round, leader.is_open, leader.machine.spent());
        }
    }

    /// After a start: the newest share that is durable is shown once more, which brings all of the helper's.
    pub(super) fn recall_share(&mut self) -> Result<(), HostError> {
        if let (Some(_), Some(leader)) = (&self.sum, &mut self.leader) {
            let before = leader.releases.head().seq.saturating_sub(1);
            let newest = leader.releases.entries(before)?.pop();
            leader.unrevealed = newest.map(|entry| (entry.round, entry.release.into()));
        }
        Ok(())
    }

    /// Closes the round with the helper once its time has come or all have delivered. The machine gets the slots that both have. A round of
    /// which the helper says nothing until its end has no release.
    pub(super) fn collect_sum(&mut self, now_ms: u64) -> Result<(), HostError> {
        let (Some(sum), Some(leader)) = (self.sum.clone(), &mut self.leader) else {
            return Ok(());
        };
        let is_due = leader.machine.deadline().is_some_and(|deadline| now_ms >= deadline);
        let waits = leader.asks_at.is_some_and(|at| Instant::now() < at);
        if !leader.is_open || !(is_due || sum.is_complete()) {
            return Ok(());
        }
        // It is asked at least once, also where uploads are taken until the round ends.
        if leader.machine.ends_at().is_some_and(|end| now_ms >= end) && leader.asks_at.is_some() {
            tracing::warn!(study = %self.study.name, round = leader.round, "the round has no release: the helper did not answer in time");
            leader.is_open = false;
            leader.asks_at = None;
            let steps = leader.machine.abandon(now_ms);
            return self.apply(steps);
        }
        if waits {
            return Ok(());
        }
        let round = leader.round;
        let agreed = match sum.agree(round) {
            Ok(agreed) => agreed,
            Err(error) => {
                if !error.is_late() {
                    tracing::warn!(study = %self.study.name, round, "the helper does not close the round: {error}");
                }
                leader.asks_at = Some(Instant::now() + PAUSE);
                return Ok(());
            }
        };
        pass("coordinator: the helper has closed the round");
        leader.asks_at = None;
        leader.is_open = false;
        self.close_over(round, agreed, now_ms)
    }

    /// Tells the machine which slots' vectors are in the round, and lets it close. They came before the deadline, whatever time it is now.
    pub(super) fn close_over(
        &mut self,
        round: u64,
        slots: impl IntoIterator<Item = u32>,
        now_ms: u64,
    ) -> Result<(), HostError> {
        let deadline = self.leader.as_ref().and_then(|leader| leader.machine.deadline());
        let came_ms = deadline.map_or(now_ms, |deadline| now_ms.min(deadline.saturating_sub(1)));
        for slot in slots {
            let Some(leader) = self.leader.as_mut().filter(|leader| leader.round == round) else {
                break;
            };
            let map = self.study.map;
            let update = AgentUpdate { sender: slot, round, map, weights: Weights::default() };
            let steps = leader.machine.receive(update, came_ms);
            self.apply(steps)?;
        }
        self.tick(now_ms)
    }

    /// Shows the leader's newest share, which is durable, to the helper, and publishes what it gives for it. A helper that does not answer is
    /// asked again: agents get its share with a later round.
    pub(super) fn reveal(&mut self) {
        let (Some(sum), Some(leader)) = (&self.sum, &mut self.leader) else {
            return;
        };
        if leader.asks_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let Some((round, share)) = leader.unrevealed.clone() else {
            return;
        };
        let releases = &leader.releases;
        let known = OnceCell::new(); // after a start all come again
        let own = |round: u64| {
            let read = || releases.entries(0).unwrap_or_default();
            let entries: &Vec<LedgerEntry> = known.get_or_init(read);
            let own = entries.iter().find(|entry| entry.round == round);
            own.map(|entry| entry.release.clone())
        };
        match sum.reveal(round, &share, own) {
            Ok(()) => {
                pass("coordinator: the helper has given its share");
                leader.unrevealed = None;
                let helper = sum.entries_before(leader.round);
                if helper.len() > self.publisher.borrow().helper.len() {
                    self.publish(|published| published.helper = helper);
                }
            }
            Err(error) => {
                if !error.is_late() {
                    tracing::warn!(study = %self.study.name, round, "the helper does not give its share: {error}");
                }
                if matches!(error, HelperFailed::Unbound { .. }) {
                    leader.unrevealed = None; // nobody can mend it
                }
                leader.asks_at = Some(Instant::now() + PAUSE);
            }
        }
    }
}
