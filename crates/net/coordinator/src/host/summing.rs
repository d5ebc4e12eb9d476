//! The leader's tasks in rounds with a secure sum. A round closes when the helper agrees on the
//! slots, and the servers exchange their shares once both shares are durable.

use std::cell::OnceCell;
use std::time::{Duration, Instant};

use fedbo_failpoints::pass;
use fedbo_protocol::{AgentUpdate, Weights};
use fedbo_wire::{LedgerEntry, RoundKey};

use super::error::HostError;
use super::worker::Worker;
use crate::machine::Beginning;
use crate::sum::{HelperFailed, SumIntake, Takes};

/// Pause before the next request to an unresponsive helper. `LONG_PAUSE` applies if the helper
/// keeps refusing until a person intervenes.
const PAUSE: Duration = Duration::from_millis(500);
const LONG_PAUSE: Duration = Duration::from_secs(5);

impl Worker {
    /// Tells the intake whether the current round accepts vectors.
    pub(super) fn open_sum(&self) {
        if let (Some(sum), Some(leader)) = (self.vectors.sum(), &self.leader) {
            let takes = match (leader.is_open, &leader.held) {
                (true, _) => Takes::Now,
                (false, Some(_)) => Takes::Soon,
                (false, None) => Takes::Nothing,
            };
            sum.begin(leader.round, takes, leader.machine.spent());
        }
    }

    /// Asks the helper to open a round that is about to begin, and returns the round's key, if
    /// there is one.
    ///
    /// No request is made for a round that does not collect. If the request fails, reports the
    /// failure and returns an error: the round must wait.
    pub(super) fn opened(&mut self, beginning: &Beginning) -> Result<Option<RoundKey>, ()> {
        let round = beginning.round;
        let is_of_sum = beginning.collects && round <= self.study.federation.last_round();
        let Some(sum) = self.vectors.sum().filter(|_| is_of_sum).cloned() else {
            return Ok(None);
        };
        match sum.open(round) {
            Ok(key) => {
                self.metrics.stalled(false);
                Ok(key)
            }
            Err(error) => {
                if self.helper_failed(&error) {
                    tracing::warn!(study = %self.study.name, round, "the round waits for the helper: {error}");
                }
                self.waits_for_helper(round, &error);
                Err(())
            }
        }
    }

    /// Reports to the operator that the study is stalled.
    fn waits_for_helper(&self, round: u64, error: &HelperFailed) {
        if error.is_late() {
            return;
        }
        self.metrics.stalled(true);
        let words = format!("round {round} waits for the study's helper: {error}");
        if self.publisher.borrow().error.as_ref() != Some(&words) {
            self.publish(|published| published.error = Some(words));
        }
    }

    /// Schedules the next request to the helper. Returns true if the error is new and should be
    /// logged.
    fn helper_failed(&mut self, error: &HelperFailed) -> bool {
        let Some(leader) = &mut self.leader else {
            return false;
        };
        let pause = if error.needs_intervention() { LONG_PAUSE } else { PAUSE };
        leader.asks_at = Some(Instant::now() + pause);
        let words = error.to_string();
        let is_new = !error.is_late() && leader.said.as_ref() != Some(&words);
        if is_new {
            leader.said = Some(words);
        }
        is_new
    }

    /// After leadership is acquired, schedules the newest durable share to be revealed again,
    /// unless the helper's share of that round is known. The response to the request contains all
    /// of the helper's shares.
    pub(super) fn recall_share(&mut self) -> Result<(), HostError> {
        if let (Some(sum), Some(leader)) = (self.vectors.sum(), &mut self.leader) {
            let before = leader.releases.head().seq.saturating_sub(1);
            let newest = leader.releases.entries(before)?.pop();
            let newest = newest.filter(|entry| !sum.has_entry(entry.round));
            leader.unrevealed = newest.map(|entry| (entry.round, entry.release.into()));
        }
        Ok(())
    }

    /// Begins a round that waits for the helper, or closes the current round with the helper.
    ///
    /// A round closes at its deadline, or once all agents have delivered. The machine receives the
    /// slots for which both servers have a vector. While the helper is unavailable, the round
    /// waits, and its release is made once the helper responds.
    pub(super) fn collect_sum(&mut self, sum: &SumIntake, now_ms: u64) -> Result<(), HostError> {
        let Some(leader) = &mut self.leader else {
            return Ok(());
        };
        if leader.asks_at.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        if let Some(beginning) = leader.held.take() {
            return self.begin(beginning);
        }
        if !leader.is_open {
            return Ok(());
        }
        let round = leader.round;
        if sum.has_lost_session() {
            match sum.open(round) {
                Ok(key) => self.opened_again(key, now_ms),
                Err(error) => {
                    if self.helper_failed(&error) {
                        tracing::warn!(study = %self.study.name, round, "cannot reopen the round at the helper: {error}");
                    }
                    self.waits_for_helper(round, &error);
                    return Ok(());
                }
            }
        }
        let Some(leader) = &mut self.leader else {
            return Ok(());
        };
        let is_due = leader.machine.deadline().is_some_and(|deadline| now_ms >= deadline);
        if !(is_due || sum.is_complete()) {
            return Ok(());
        }
        let agreed = match sum.agree(round) {
            Ok(agreed) => agreed,
            Err(error) => {
                let is_over = leader.machine.ends_at().is_some_and(|end| now_ms >= end);
                if is_over && matches!(error, HelperFailed::OtherSlots { .. }) {
                    // This coordinator lost vectors that the helper had already counted, and their
                    // agents have not resent them.
                    tracing::warn!(study = %self.study.name, round, "the round has no release here: {error}");
                    leader.is_open = false;
                    let steps = leader.machine.abandon(now_ms);
                    return self.apply(steps);
                }
                if self.helper_failed(&error) {
                    tracing::warn!(study = %self.study.name, round, "cannot close the round at the helper: {error}");
                }
                if is_over {
                    self.waits_for_helper(round, &error);
                }
                return Ok(());
            }
        };
        pass("coordinator: the helper has closed the round");
        self.metrics.stalled(false);
        leader.is_open = false;
        self.close_over(round, agreed, now_ms)
    }

    /// Restarts the round with its full duration, since uploads could not be verified while the
    /// helper was unavailable (INV-30).
    fn opened_again(&mut self, key: Option<RoundKey>, now_ms: u64) {
        self.metrics.stalled(false);
        if key.is_some()
            && let Some(leader) = &mut self.leader
        {
            leader.machine.postpone(now_ms);
            leader.began_ms = now_ms;
            leader.said = None;
        }
        self.publish(|published| {
            if key.is_some() {
                published.begun(now_ms, now_ms);
            }
            (published.round_key, published.error) = (key, None);
        });
    }

    /// Passes the round's slots to the machine, and lets the round close. Their vectors count as
    /// arrived before the deadline, regardless of the current time.
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

    /// Reveals the leader's newest durable share to the helper, and publishes the helper's shares.
    ///
    /// If the request fails, it is retried, and agents receive the helper's share with a later
    /// round.
    pub(super) fn reveal(&mut self) {
        let (Some(sum), Some(leader)) = (self.vectors.sum(), &mut self.leader) else {
            return;
        };
        if leader.asks_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let Some((round, share)) = leader.unrevealed.clone() else {
            return;
        };
        let releases = &leader.releases;
        let known = OnceCell::new(); // after a start, the response contains all entries
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
                if matches!(error, HelperFailed::Unbound { .. }) {
                    leader.unrevealed = None; // cannot be repaired
                }
                if self.helper_failed(&error) {
                    tracing::warn!(study = %self.study.name, round, "cannot get the helper's share: {error}");
                }
            }
        }
    }
}
