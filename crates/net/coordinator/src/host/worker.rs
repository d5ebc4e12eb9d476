//! The loop of a study's thread, and its state.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use fedbo_wire::SigningKey;
use tokio::sync::watch;

use super::Command;
use super::error::HostError;
use super::gathering::Gathering;
use crate::clock::Clock;
use crate::machine::{Beginning, Machine};
use crate::metrics::StudyMetrics;
use crate::published::Published;
use crate::releases::Releases;
use crate::spans::Span;
use crate::store::{Lead, Store};
use crate::study::Study;
use crate::vectors::Vectors;

/// Number of lease renewals per lease duration.
pub(super) const RENEWALS: u32 = 3;
/// Interval at which a replica polls for vectors while its round collects.
const COLLECT: Duration = Duration::from_millis(50);
/// Interval at which a follower checks the progress of the leader.
pub(super) const FOLLOW: Duration = Duration::from_millis(100);
/// Maximum time that a thread waits when nothing is due.
pub(super) const IDLE: Duration = Duration::from_secs(1);
/// Backoff after an error: the first wait, which doubles up to the second value.
const RETRIES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// Backoff if replicas share a database. The waits are short, since a database restarts quickly and
/// a round waits for it.
const REPLICA_RETRIES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];

/// State of a study's thread while this coordinator leads the study.
pub(super) struct Leader {
    pub(super) lead: Lead,
    pub(super) machine: Box<dyn Machine>,
    pub(super) releases: Box<dyn Releases>,
    pub(super) clock: Clock,
    pub(super) renewed: Instant,
    /// Current round.
    pub(super) round: u64,
    /// Span of the current round.
    pub(super) span: Span,
    /// True while the round accepts vectors.
    pub(super) is_open: bool,
    /// Slots whose vectors for this round have been read from the store.
    pub(super) known: Vec<u32>,
    /// Start of the round by the store's clock.
    pub(super) began_ms: u64,
    /// Epoch of the inbox when the round began.
    pub(super) epoch: Option<i64>,
    /// Progress of the shards, once the round is shut.
    pub(super) gathering: Option<Gathering>,
    /// Round that cannot begin before the helper has opened it (INV-30).
    pub(super) held: Option<Beginning>,
    /// Time of the next request to the helper, after a failed one.
    pub(super) asks_at: Option<Instant>,
    /// Last problem with the helper that was logged.
    pub(super) said: Option<String>,
    /// Newest durable share that the helper has not seen: its round and bytes.
    pub(super) unrevealed: Option<(u64, Arc<[u8]>)>,
}

pub(super) struct Worker {
    pub(super) study: Arc<Study>,
    pub(super) holder: String,
    pub(super) ledger: PathBuf,
    pub(super) store: Arc<dyn Store>,
    pub(super) key: Arc<SigningKey>,
    pub(super) publisher: watch::Sender<Arc<Published>>,
    pub(super) metrics: StudyMetrics,
    pub(super) lease: Duration,
    pub(super) vectors: Vectors,
    /// Epoch of the inbox at the last check.
    pub(super) epoch: Option<i64>,
    /// Time of the last read of the store.
    pub(super) looked: Option<Instant>,
    /// Time of the last attempt to acquire leadership.
    pub(super) tried: Option<Instant>,
    /// `None` unless this coordinator leads the study.
    pub(super) leader: Option<Leader>,
    /// Time of the next retry after an error, and the current backoff.
    pub(super) retry: Option<(Instant, Duration)>,
}

impl Worker {
    pub(super) fn run(mut self, inbox: &Receiver<Command>) {
        self.refresh();
        loop {
            let command = inbox.recv_timeout(self.wait());
            match command {
                Ok(Command::Upload(update, answer)) => self.upload(update, answer),
                Ok(Command::Awaits(slot, round, answer)) => {
                    let leader = self.leader.as_ref();
                    let awaits = leader.is_some_and(|leader| leader.machine.awaits(slot, round));
                    // Sending fails if the requester has disconnected.
                    let _ = answer.send(awaits);
                }
                Ok(Command::Refresh) => self.refresh(),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Ok(Command::Close) | Err(RecvTimeoutError::Disconnected) => break,
            }
            self.tend_shard();
            self.tick_and_renew();
        }
        self.publish(|published| published.closes = true);
        if let Some(shards) = self.vectors.shards()
            && let Err(error) = shards.leave()
        {
            tracing::warn!(study = %self.study.name, "others wait for this replica's vectors until its lease ends: {error}");
        }
        if let Some(leader) = self.leader.take()
            && let Err(error) = self.store.resign(&leader.lead)
        {
            tracing::warn!(study = %self.study.name, "cannot release the lease: {error}");
        }
    }

    /// Returns the time until the next task is due.
    pub(super) fn wait(&mut self) -> Duration {
        let is_shared = self.vectors.are_shared();
        let Some(leader) = &mut self.leader else {
            let idle = if is_shared { FOLLOW } else { IDLE };
            return match self.retry {
                Some((at, _)) => {
                    let left = at.saturating_duration_since(Instant::now());
                    left.max(FOLLOW).min(IDLE)
                }
                None => idle,
            };
        };
        if self.vectors.sum().is_some() || leader.gathering.is_some() {
            return COLLECT;
        }
        let idle = match (is_shared, leader.is_open) {
            (false, _) => IDLE,
            (true, true) => COLLECT,
            (true, false) => FOLLOW,
        };
        let now_ms = leader.clock.now_ms();
        let deadline = leader.machine.deadline();
        deadline.map_or(idle, |at| Duration::from_millis(at.saturating_sub(now_ms))).min(idle)
    }

    /// Advances the round, and renews the lease.
    pub(super) fn tick_and_renew(&mut self) {
        let Some(leader) = &mut self.leader else {
            return;
        };
        // `collect` and `tick` use the same time, so the machine never closes a round while the
        // round's inbox is open.
        let now_ms = leader.clock.now_ms();
        let outcome =
            self.collect(now_ms).and_then(|()| self.tick(now_ms)).and_then(|()| self.renew());
        self.reveal();
        if let Err(error) = outcome {
            self.stop(&error);
        }
    }

    pub(super) fn lease_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }

    /// Resigns leadership because of an error, and retries later.
    pub(super) fn stop(&mut self, error: &HostError) {
        let lead = self.leader.take().map(|leader| leader.lead);
        if error.is_superseded() {
            tracing::warn!(study = %self.study.name, "{error}");
            self.retry = Some((Instant::now() + self.lease, self.lease));
            self.tried = None;
            return;
        }
        if let Some(lead) = lead {
            // INV-13: vectors that cannot be released are not collected.
            if let (Some(inbox), true) = (self.vectors.inbox(), error.is_budget_spent())
                && let Err(error) = inbox.shut(&lead)
            {
                tracing::warn!(study = %self.study.name, "cannot stop accepting vectors: {error}");
            }
            // Resigning may fail for the same reason; the lease then expires.
            let _ = self.store.resign(&lead);
        }
        let [first, last] = match self.vectors.are_shared() {
            true => REPLICA_RETRIES,
            false => RETRIES,
        };
        let wait = self.retry.map_or(first, |(_, waited)| (2 * waited).min(last));
        self.retry = Some((Instant::now() + wait, wait));
        self.tried = None;
        self.metrics.stalled(true);
        tracing::error!(study = %self.study.name, retry_s = wait.as_secs(), "the study is blocked: {error}");
        let words = error.to_string();
        if self.publisher.borrow().error.as_ref() != Some(&words) {
            self.publish(|published| published.error = Some(words));
        }
    }

    pub(super) fn publish(&self, change: impl FnOnce(&mut Published)) {
        let mut next = self.publisher.borrow().next();
        change(&mut next);
        self.publisher.send_replace(Arc::new(next));
    }
}
