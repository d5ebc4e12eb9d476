//! The loop of a study's thread, and what it knows.

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
use crate::intake::Intake;
use crate::machine::Machine;
use crate::metrics::StudyMetrics;
use crate::published::Published;
use crate::releases::Releases;
use crate::shards::ShardIntake;
use crate::spans::Span;
use crate::store::{Lead, Store};
use crate::study::Study;
use crate::sum::SumIntake;

/// Parts of the lease after which it is renewed.
pub(super) const RENEWALS: u32 = 3;
/// The interval at which a replica looks for vectors while its round collects.
const COLLECT: Duration = Duration::from_millis(50);
/// The interval at which a replica that follows looks at what the leader has done.
pub(super) const FOLLOW: Duration = Duration::from_millis(100);
/// The longest time that a thread waits when nothing is due.
pub(super) const IDLE: Duration = Duration::from_secs(1);
/// The backoff after an error: the first wait before another try, which doubles up to the last.
const RETRIES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// The same where replicas share a database: a restart of it is over soon, and a round waits for it.
const REPLICA_RETRIES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];

/// The state of the leader, which runs the rounds of a study.
pub(super) struct Leader {
    pub(super) lead: Lead,
    pub(super) machine: Box<dyn Machine>,
    pub(super) releases: Box<dyn Releases>,
    pub(super) clock: Clock,
    pub(super) renewed: Instant,
    /// The round that is under way.
    pub(super) round: u64,
    /// It lasts as long as the round.
    pub(super) span: Span,
    /// True while replicas take vectors of it.
    pub(super) is_open: bool,
    /// Slots whose vectors of it were read from the store.
    pub(super) known: Vec<u32>,
    /// The time at which the round began, by the store's clock.
    pub(super) began_ms: u64,
    /// The inbox as it was when the round began.
    pub(super) epoch: Option<i64>,
    /// The progress of the shards of a round that is shut.
    pub(super) gathering: Option<Gathering>,
    /// The time of the next request to the helper, after one that failed.
    pub(super) asks_at: Option<Instant>,
    /// The newest share that is durable and that the helper was not shown: its round, its bytes.
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
    /// The intake of vectors, where replicas share a store.
    pub(super) intake: Option<Arc<Intake>>,
    /// The intake of vectors that two servers sum.
    pub(super) sum: Option<Arc<SumIntake>>,
    /// The intake of vectors at this shard.
    pub(super) shards: Option<Arc<ShardIntake>>,
    /// The inbox as it was seen last.
    pub(super) epoch: Option<i64>,
    /// The time at which the store was last looked at.
    pub(super) looked: Option<Instant>,
    /// The time at which the lead was last asked for.
    pub(super) tried: Option<Instant>,
    /// Present while this coordinator leads the study.
    pub(super) leader: Option<Leader>,
    /// After an error: the time of the next try, and how long was waited.
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
                    // Whoever asked may have gone.
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
        if let Some(shards) = &self.shards
            && let Err(error) = shards.leave()
        {
            tracing::warn!(study = %self.study.name, "others wait for this replica's vectors until its lease ends: {error}");
        }
        if let Some(leader) = self.leader.take()
            && let Err(error) = self.store.resign(&leader.lead)
        {
            tracing::warn!(study = %self.study.name, "the lease could not be let go: {error}");
        }
    }

    /// The time until something is due.
    pub(super) fn wait(&mut self) -> Duration {
        let is_shared = self.intake.is_some();
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
        if self.sum.is_some() || leader.gathering.is_some() {
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

    /// Ticks, and renews the lease.
    pub(super) fn tick_and_renew(&mut self) {
        let Some(leader) = &mut self.leader else {
            return;
        };
        // One time for both: the machine closes no round whose inbox was not shut.
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

    /// Resigns leadership because of an error, and tries again later.
    pub(super) fn stop(&mut self, error: &HostError) {
        let lead = self.leader.take().map(|leader| leader.lead);
        if error.is_superseded() {
            tracing::warn!(study = %self.study.name, "{error}");
            self.retry = Some((Instant::now() + self.lease, self.lease));
            self.tried = None;
            return;
        }
        if let Some(lead) = lead {
            // INV-13: nothing is collected that cannot be released.
            if let (Some(intake), true) = (&self.intake, error.is_budget_spent())
                && let Err(error) = intake.shut(&lead)
            {
                tracing::warn!(study = %self.study.name, "vectors are still taken: {error}");
            }
            // What failed may fail here too: the lease then ends by itself.
            let _ = self.store.resign(&lead);
        }
        let [first, last] = match self.intake {
            Some(_) => REPLICA_RETRIES,
            None => RETRIES,
        };
        let wait = self.retry.map_or(first, |(_, waited)| (2 * waited).min(last));
        self.retry = Some((Instant::now() + wait, wait));
        self.tried = None;
        self.metrics.stands_still(true);
        tracing::error!(study = %self.study.name, retry_s = wait.as_secs(), "the study stands still: {error}");
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
