//! Tasks of a study's thread that do not require leadership: reading the store and publishing its
//! state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fedbo_ledger::Head;
use fedbo_protocol::AgentUpdate;
use fedbo_wire::{LedgerEntry, StudyState};

use super::broadcasts::broadcast;
use super::error::HostError;
use super::worker::{FOLLOW, IDLE, Worker};
use crate::releases::{Releases, released};
use crate::store::StudyRecord;

impl Worker {
    /// Rereads the store periodically, except while waiting for a retry after an error.
    pub(super) fn look(&mut self) {
        let pause = match (self.vectors.are_shared(), &self.leader) {
            (false, _) => Duration::ZERO,
            (true, Some(_)) => IDLE / 2,
            (true, None) => FOLLOW,
        };
        let is_early = self.looked.is_some_and(|looked| looked.elapsed() < pause);
        if !is_early && !self.is_away() {
            self.refresh();
        }
    }

    /// Returns true if the store is shared, the last attempt failed, and the next retry is not due
    /// yet.
    pub(super) fn is_away(&self) -> bool {
        self.vectors.are_shared()
            && self.publisher.borrow().error.is_some()
            && self.retry.is_some_and(|(at, _)| Instant::now() < at)
    }

    /// Reads the store, and acquires or resigns leadership accordingly.
    pub(super) fn refresh(&mut self) {
        self.looked = Some(Instant::now());
        let record = match self.store.study(&self.study.name) {
            Ok(record) => record,
            Err(error) => return self.stop(&error.into()),
        };
        if let Err(error) = self.watch_inbox() {
            return self.stop(&error);
        }
        if record.state != self.publisher.borrow().state {
            self.publish(|published| {
                published.state = record.state;
                // The round starts or restarts, at a time chosen by its leader.
                if record.state == StudyState::Running {
                    published.began = None;
                }
            });
        }
        let may_try = self.retry.is_none_or(|(at, _)| Instant::now() >= at);
        if self.vectors.are_shared()
            && self.leader.is_none()
            && let Err(error) = self.follow(&record)
        {
            return self.stop(&error);
        }
        let is_ready = self.publisher.borrow().is_ready;
        if !is_ready
            && may_try
            && record.state != StudyState::Running
            && let Err(error) = self.load(&record)
        {
            return self.stop(&error);
        }
        match (record.state, &self.leader) {
            (StudyState::Running, None) if may_try => {
                if let Err(error) = self.acquire_leadership() {
                    self.stop(&error);
                }
            }
            (StudyState::Running, _) => {}
            (_, Some(_)) => {
                if let Some(leader) = self.leader.take()
                    && let Err(error) = self.store.resign(&leader.lead)
                {
                    self.stop(&error.into());
                }
            }
            (_, None) => {}
        }
    }

    /// Wakes waiting polls after a crash of the database, so that agents are told that their
    /// vectors are lost.
    pub(super) fn watch_inbox(&mut self) -> Result<(), HostError> {
        let Some(inbox) = self.vectors.inbox() else {
            return Ok(());
        };
        let epoch = inbox.epoch()?;
        if self.epoch.is_some_and(|known| known != epoch) {
            tracing::warn!(study = %self.study.name, "the database has lost the vectors of the round; agents send them again");
            self.publish(|_| {});
            self.continue_after_loss(epoch);
        }
        self.epoch = Some(epoch);
        Ok(())
    }

    /// Lets the round continue if its deadline is more than one lease away, so that live shards
    /// report again before the round is shut.
    fn continue_after_loss(&mut self, epoch: i64) {
        let lease_ms = self.lease_ms();
        let Some(leader) = self.leader.as_mut().filter(|leader| leader.gathering.is_none()) else {
            return;
        };
        let now_ms = leader.clock.now_ms();
        let left_ms = leader.machine.deadline().map_or(0, |at| at.saturating_sub(now_ms));
        if left_ms > lease_ms {
            leader.epoch = Some(epoch);
        }
    }

    /// Publishes the state of the store while another replica leads.
    pub(super) fn follow(&mut self, record: &StudyRecord) -> Result<(), HostError> {
        let now = Arc::clone(&self.publisher.borrow());
        if now.shows(record) && now.error.is_none() {
            return Ok(());
        }
        let mut next = now.next();
        (next.is_ready, next.round, next.error) = (true, record.round, None);
        if let Some(began_ms) = record.began_ms {
            next.begun(began_ms, self.store.now_ms()?);
        }
        next.collects = self.study.collects(record.round) && record.state != StudyState::Finished;
        if self.study.is_relayed() {
            if record.round > 0 {
                let last = broadcast(&*self.store, &self.study, &self.key, record.round)?;
                next.broadcast = Some(Arc::new(last));
            }
        } else {
            for entry in released(&*self.store, &self.study, next.head, record.round)? {
                next.head = next.head.follow(entry.round, &entry.event, &entry.release);
                next.entries.push(Arc::new(entry));
            }
        }
        self.metrics.round(record.round);
        self.metrics.stalled(false);
        self.publisher.send_replace(Arc::new(next));
        Ok(())
    }

    /// Loads the releases of a study that is not running, so that agents can still fetch them.
    pub(super) fn load(&mut self, record: &StudyRecord) -> Result<(), HostError> {
        let Some(began_ms) = record.began_ms else {
            self.publish(|published| published.is_ready = true);
            return Ok(());
        };
        if let Some(lead) = self.lead()? {
            let releases = self.open_releases(lead, record)?;
            let began = Some((began_ms, self.store.now_ms()?));
            self.publish_releases(&*releases, record.round, began)?;
            drop(releases);
            self.store.resign(&lead)?;
        }
        Ok(())
    }

    /// Returns each sender's newest message in the broadcasts up to the start of the round. In a
    /// study at a free pace, returns only messages that are recent enough to be used.
    pub(super) fn newest(&self, round: u64) -> Result<Vec<AgentUpdate>, HostError> {
        if !self.study.is_relayed() {
            return Ok(Vec::new());
        }
        let free = self.study.federation.free.as_ref();
        let first = free.map_or(1, |free| round.saturating_sub(free.max_age).max(1));
        let mut newest: BTreeMap<u32, AgentUpdate> = BTreeMap::new();
        for round in (first..=round).rev() {
            if newest.len() == self.study.n_slots as usize {
                break;
            }
            for message in broadcast(&*self.store, &self.study, &self.key, round)?.messages {
                newest.entry(message.sender).or_insert(message);
            }
        }
        Ok(newest.into_values().collect())
    }

    /// Publishes releases and the current round. `began` is the start of the round and the current
    /// time, or `None` if the round waits for the helper.
    pub(super) fn publish_releases(
        &self,
        releases: &dyn Releases,
        round: u64,
        began: Option<(u64, u64)>,
    ) -> Result<(), HostError> {
        // A release stored for the current round is published when the round is over (INV-9).
        let mut entries = releases.entries(0)?;
        entries.retain(|entry| entry.round < round);
        let follow = |head: Head, entry: &LedgerEntry| {
            head.follow(entry.round, &entry.event, &entry.release)
        };
        let head = entries.iter().fold(self.study.genesis(), follow);
        let entries: Vec<_> = entries.into_iter().map(Arc::new).collect();
        let last = match self.study.is_relayed() && round > 0 {
            true => Some(Arc::new(broadcast(&*self.store, &self.study, &self.key, round)?)),
            false => None,
        };
        let collects = self.study.collects(round);
        let helper = match (self.vectors.sum(), entries.last()) {
            (Some(sum), Some(last)) => {
                let own = |round: u64| {
                    let mut known = entries.iter();
                    known.find(|entry| entry.round == round).map(|entry| entry.release.clone())
                };
                // Ask now, since no request follows once the study has stopped running.
                if !sum.has_entry(last.round)
                    && let Err(error) = sum.reveal(last.round, &last.release, own)
                {
                    tracing::warn!(study = %self.study.name, "cannot get the helper's shares: {error}");
                }
                sum.entries_before(round)
            }
            _ => Vec::new(),
        };
        self.publish(|published| {
            published.is_ready = true;
            published.helper = helper;
            (published.round, published.collects) = (round, collects);
            (published.is_held, published.round_key) = (began.is_none(), None);
            match began {
                Some((began_ms, now_ms)) => published.begun(began_ms, now_ms),
                None => published.began = None,
            }
            (published.head, published.entries, published.broadcast) = (head, entries, last);
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fedbo_database::Mode;
    use fedbo_federation::Federation;
    use tokio::sync::watch;

    use super::*;
    use crate::Home;
    use crate::metrics::{Metrics, StudyMetrics};
    use crate::published::Published;
    use crate::study::Study;
    use crate::vectors::Vectors;

    const FILE: &str = "[federation]\nname = \"a\"\nalgorithm = \"fts\"\nrounds = 3\nseed = 5\n[features]\ncount = 2\n\
         [space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n[[agents]]\nname = \"b\"\n[[agents]]\nname = \"c\"\n";

    /// After another replica takes over and restarts the round, followers publish the new start.
    #[test]
    fn a_round_that_begins_anew_is_published_by_who_follows() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(folder.path(), Mode::Create).unwrap();
        let path = folder.path().join("study.toml");
        std::fs::write(&path, FILE).unwrap();
        let (federation, config) = Federation::freeze(
            &path,
            &home.key().public().to_string(),
            &fedbo_objective::NoProblems,
        )
        .unwrap();
        home.create_study(&federation, &config).unwrap();
        let mut record = home.store().study("a").unwrap();
        let study = Arc::new(Study::of(&record, &home.key()).unwrap());
        let (publisher, published) =
            watch::channel(Arc::new(Published::new(&study, record.state, 0)));
        let mut worker = Worker {
            study,
            holder: "test".to_owned(),
            ledger: folder.path().join("ledger"),
            store: home.store(),
            key: home.key(),
            publisher,
            metrics: StudyMetrics::new(Arc::new(Metrics::new(None)), "a"),
            lease: Duration::from_secs(15),
            vectors: Vectors::Thread,
            epoch: None,
            looked: None,
            tried: None,
            leader: None,
            retry: None,
        };
        for seconds_ago in [50, 20, 20] {
            let now_ms = home.store().now_ms().unwrap();
            record.began_ms = Some(now_ms - 1000 * seconds_ago);
            worker.follow(&record).unwrap();
            let elapsed_ms = published.borrow().elapsed_ms().unwrap();
            assert_eq!(elapsed_ms / 10_000, seconds_ago / 10, "{elapsed_ms} ms");
        }
    }
}
