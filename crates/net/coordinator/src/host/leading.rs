//! The leader's tasks: running a study's rounds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fedbo_failpoints::pass;
use fedbo_protocol::AgentUpdate;
use fedbo_wire::{LedgerEntry, StudyState};
use tokio::sync::oneshot;

use super::UploadOutcome;
use super::error::HostError;
use super::worker::{Leader, RENEWALS, Worker};
use crate::clock::Clock;
use crate::intake::Intake;
use crate::machine::{Beginning, History, Step, digest_of, machine};
use crate::releases::{ChargedReleases, FreeReleases, LedgerPlace, Releases};
use crate::spans::{self, Span};
use crate::store::{Lead, NextRound, Participants, StoreError, StudyRecord};
use crate::vectors::Vectors;

/// Interval between a follower's attempts to acquire leadership, unless a quarter of the lease is
/// shorter.
const TRY: Duration = Duration::from_millis(500);

impl Worker {
    /// Tries to acquire the lease. Returns `None` if another coordinator holds it, or if the last
    /// attempt was too recent.
    pub(super) fn lead(&mut self) -> Result<Option<Lead>, HostError> {
        let pause = (self.lease / 4).min(TRY);
        if self.vectors.are_shared() && self.tried.is_some_and(|tried| tried.elapsed() < pause) {
            return Ok(None);
        }
        self.tried = Some(Instant::now());
        let lease_ms = self.lease_ms();
        Ok(self.store.lead(self.study.key, &self.holder, lease_ms)?)
    }

    pub(super) fn open_releases(
        &self,
        lead: Lead,
        record: &StudyRecord,
    ) -> Result<Box<dyn Releases>, HostError> {
        let store = Arc::clone(&self.store);
        Ok(match self.study.plan() {
            Some(plan) => Box::new(ChargedReleases::open(
                match self.store.ledgers() {
                    Some(ledgers) => LedgerPlace::Database(ledgers),
                    None => LedgerPlace::File(&self.ledger),
                },
                &self.study,
                (&plan.charter, plan.event),
                record.head.as_deref(),
                (store, lead),
            )?),
            None => Box::new(FreeReleases::open(&self.study, store, lead)?),
        })
    }

    /// Acquires leadership, and continues the study from its current round.
    pub(super) fn acquire_leadership(&mut self) -> Result<(), HostError> {
        let Some(lead) = self.lead()? else {
            return Ok(()); // another coordinator leads
        };
        pass("coordinator: the lead is taken");
        // Read under the lease: no other coordinator advances the study from here on.
        let record = self.store.study(&self.study.name)?;
        let mut clock = Clock::read(&*self.store)?;
        let releases = self.open_releases(lead, &record)?;
        let now_ms = clock.now_ms();
        let round = record.round;
        let is_released = !self.study.is_relayed()
            && releases.entries(0)?.last().is_some_and(|last| last.round == round);
        // A round with a stored release continues to its scheduled end (INV-9). In any other round,
        // the vectors that had arrived may be lost, so it restarts with its full duration. The
        // previous leader's clock may have been ahead, so the start is never in the future.
        let began_ms = record.began_ms.filter(|_| is_released).map_or(now_ms, |at| at.min(now_ms));
        let participants = match self.study.federation.free {
            Some(_) => self.participants(&*releases)?,
            None => Vec::new(),
        };
        let history = History { newest: self.newest(round)?, participants };
        let mut machine = machine(&self.study, &self.vectors, round, history, began_ms)?;
        let collects = self.study.collects(round);
        // The vectors of a released round are no longer needed. For any other round, the inbox
        // still has the vectors that arrived under another leader, so their agents need not resend
        // them.
        if is_released {
            self.vectors.forget(&lead, round)?;
        }
        if record.began_ms != Some(began_ms) {
            self.store.begin_round(
                &lead,
                NextRound { round, began_ms, collects, broadcast: None, finishes: false },
            )?;
        }
        pass("coordinator: a round is about to be played");
        let steps = machine.start(began_ms);
        let is_held = self.vectors.sum().is_some() && collects && !is_released;
        let held = is_held.then_some(Beginning { round, collects, broadcast: None });
        let began = (!is_held).then_some((began_ms, now_ms));
        self.publish_releases(&*releases, round, began)?;
        self.leader = Some(Leader {
            lead,
            machine,
            releases,
            clock,
            renewed: Instant::now(),
            round,
            span: spans::round(&self.study.name, round),
            is_open: self.vectors.are_shared() && collects && !is_released,
            known: Vec::new(),
            began_ms,
            epoch: self.epoch,
            gathering: None,
            held,
            asks_at: None,
            said: None,
            unrevealed: None,
        });
        self.metrics.round(round);
        self.metrics.stalled(false);
        tracing::info!(study = %self.study.name, round, "leading the rounds");
        self.apply(steps)?;
        self.open_sum();
        self.recall_share()?;
        self.retry = None;
        self.publish(|published| published.error = None);
        Ok(())
    }

    /// Returns the participants of each release.
    ///
    /// A record without a release is ignored. A release without a matching record counts for all
    /// slots, so that no slot is in more releases than it pays for (INV-13). A record may belong to
    /// another release if the store was restored from an older copy.
    fn participants(&self, releases: &dyn Releases) -> Result<Vec<Participants>, HostError> {
        let noted = self.store.participants(self.study.key, 0)?;
        let mut noted: BTreeMap<u64, Participants> =
            noted.into_iter().map(|found| (found.round, found)).collect();
        let of_entry = |entry: LedgerEntry| {
            let (round, release) = (entry.round, digest_of(&entry.release));
            let found = noted.remove(&round).filter(|found| found.release == release);
            let all = || Participants { round, slots: (0..self.study.n_slots).collect(), release };
            found.unwrap_or_else(all)
        };
        Ok(releases.entries(0)?.into_iter().map(of_entry).collect())
    }

    /// Passes an upload to the machine, and responds before any other step.
    ///
    /// Only steps that are already due run first: if a round is due but has not begun, uploads for
    /// it would be refused.
    pub(super) fn upload(&mut self, update: AgentUpdate, answer: oneshot::Sender<UploadOutcome>) {
        let now_ms = self.leader.as_mut().map_or(0, |leader| leader.clock.now_ms());
        if let Err(error) = self.tick(now_ms) {
            self.stop(&error);
        }
        let Some(leader) = &mut self.leader else {
            // Sending fails if the requester has disconnected, here and below.
            let _ = answer.send(UploadOutcome::Closed);
            return;
        };
        pass("coordinator: an upload has come");
        let mut steps = leader.machine.receive(update, now_ms);
        let refused = steps.iter().position(|step| matches!(step, Step::Refuse(_)));
        let verdict = match refused.map(|at| steps.remove(at)) {
            Some(Step::Refuse(rejected)) => UploadOutcome::Refused(rejected),
            _ => UploadOutcome::Accepted,
        };
        let _ = answer.send(verdict);
        pass("coordinator: an upload is answered");
        if let Err(error) = self.apply(steps) {
            self.stop(&error);
        }
    }

    /// Feeds vectors received by replicas to the machine. At the deadline, the inbox is shut before
    /// the last vectors are read.
    pub(super) fn collect(&mut self, now_ms: u64) -> Result<(), HostError> {
        match self.vectors.clone() {
            Vectors::Thread => Ok(()),
            Vectors::Inbox(inbox) => self.collect_inbox(&inbox, now_ms),
            Vectors::Shards(inbox, shards) => self.collect_shards(&inbox, &shards, now_ms),
            Vectors::Sum(sum) => self.collect_sum(&sum, now_ms),
        }
    }

    fn collect_inbox(&mut self, inbox: &Intake, now_ms: u64) -> Result<(), HostError> {
        let Some(leader) = &mut self.leader else {
            return Ok(());
        };
        if !leader.is_open {
            return Ok(());
        }
        let round = leader.round;
        let deadline = leader.machine.deadline();
        if deadline.is_some_and(|deadline| now_ms >= deadline) {
            inbox.shut(&leader.lead)?;
            leader.is_open = false;
        }
        // These vectors arrived before the inbox was shut, so they count as arrived before the
        // deadline, even if they are read later.
        let came_ms = match (self.study.is_relayed(), deadline) {
            (false, Some(deadline)) => now_ms.min(deadline.saturating_sub(1)),
            _ => now_ms,
        };
        for (slot, update) in inbox.arrived(round, &leader.known)? {
            let Some(leader) = self.leader.as_mut().filter(|leader| leader.round == round) else {
                break;
            };
            leader.known.push(slot);
            let Some(update) = update else {
                continue;
            };
            pass("coordinator: an upload has come");
            let steps = leader.machine.receive(update, came_ms);
            self.apply(steps)?;
        }
        Ok(())
    }

    /// Applies the steps that are due.
    pub(super) fn tick(&mut self, now_ms: u64) -> Result<(), HostError> {
        let Some(leader) = &mut self.leader else {
            return Ok(());
        };
        if leader.held.is_some() {
            return Ok(()); // the round has not begun
        }
        let is_due = leader.machine.deadline().is_some_and(|deadline| now_ms >= deadline);
        if self.vectors.are_summed_before() && leader.is_open && is_due {
            return Ok(()); // wait until the slots that count are known
        }
        let steps = leader.machine.tick(now_ms);
        self.apply(steps)
    }

    pub(super) fn renew(&mut self) -> Result<(), HostError> {
        let lease_ms = self.lease_ms();
        let Some(leader) =
            self.leader.as_mut().filter(|leader| leader.renewed.elapsed() >= self.lease / RENEWALS)
        else {
            return Ok(());
        };
        if !self.store.renew(&leader.lead, lease_ms)? {
            return Err(StoreError::Superseded.into());
        }
        leader.clock.set(&*self.store)?;
        leader.renewed = Instant::now();
        Ok(())
    }

    /// Applies steps, and the steps that follow from their results.
    pub(super) fn apply(&mut self, steps: Vec<Step>) -> Result<(), HostError> {
        let mut queue = VecDeque::from(steps);
        while let Some(step) = queue.pop_front() {
            let Some(leader) = &mut self.leader else {
                return Ok(()); // the study has ended
            };
            match step {
                Step::Refuse(rejected) => {
                    tracing::debug!(study = %self.study.name, "refused: {rejected}");
                }
                Step::Recall { round } => {
                    let stored = leader.releases.stored(round)?;
                    let now_ms = leader.clock.now_ms();
                    queue.extend(leader.machine.recalled(round, stored.as_deref(), now_ms)?);
                }
                Step::Commit { round, bytes, event, participants } => {
                    pass("coordinator: a round is closed");
                    if event.is_some() || self.study.federation.free.is_some() {
                        // Participants become durable before the release, so the slots that pay for
                        // it are always known (INV-13, INV-28).
                        self.store.note_participants(&leader.lead, &participants)?;
                        pass("coordinator: the participants are noted");
                    }
                    if let Some(bound) = self.vectors.sum().and_then(|sum| sum.commitment(round)) {
                        self.store.note_commitment(&leader.lead, round, &bound)?;
                        pass("coordinator: the helper's hash is kept");
                    }
                    // INV-1: the charge and the bytes are durable before the machine hands out
                    // anything.
                    let since = Instant::now();
                    leader.releases.commit(round, event.as_ref(), &bytes)?;
                    self.metrics.committed(since.elapsed());
                    if self.vectors.sum().is_some() {
                        leader.unrevealed = Some((round, Arc::clone(&bytes)));
                    }
                    if self.vectors.are_shared() {
                        leader.is_open = false;
                        self.vectors.forget(&leader.lead, round)?; // INV-16
                    }
                    let now_ms = leader.clock.now_ms();
                    queue.extend(leader.machine.committed(round, now_ms)?);
                }
                Step::Fail(error) => return Err(error.into()),
                Step::Begin(beginning) => self.begin(beginning)?,
            }
        }
        Ok(())
    }

    /// Makes the start of a round durable, then publishes it.
    ///
    /// With a secure sum, a round that collects waits until the helper has opened it (INV-30).
    pub(super) fn begin(&mut self, beginning: Beginning) -> Result<(), HostError> {
        let round_key = match self.opened(&beginning) {
            Ok(key) => key,
            Err(()) => {
                if let Some(leader) = &mut self.leader {
                    leader.held = Some(beginning);
                }
                return Ok(());
            }
        };
        let Some(leader) = &mut self.leader else {
            return Ok(());
        };
        let Beginning { round, collects, broadcast } = beginning;
        let finishes = round > self.study.federation.last_round();
        let mut next = self.publisher.borrow().next();
        (next.round, next.collects) = (round, collects && !finishes);
        (next.is_held, next.round_key, next.error) = (false, round_key, None);
        let known = next.entries.last().map_or(0, |last| last.seq);
        let new = leader.releases.entries(known)?;
        next.entries.extend(new.into_iter().map(Arc::new));
        next.head = leader.releases.head();
        if let Some(sum) = self.vectors.sum() {
            next.helper = sum.entries_before(round);
        }
        let bytes = broadcast
            .as_ref()
            .map(|broadcast| next.messages(broadcast.clone(), &self.study, &self.key));
        next.broadcast = broadcast.map(Arc::new);
        if finishes {
            next.state = StudyState::Finished;
        }
        let now_ms = leader.clock.now_ms();
        if self.vectors.sum().is_some() && next.collects {
            leader.machine.postpone(now_ms);
        }
        next.begun(now_ms, now_ms);
        pass("coordinator: a round is about to begin");
        self.store.begin_round(
            &leader.lead,
            NextRound {
                round,
                began_ms: now_ms,
                collects: next.collects,
                broadcast: bytes.as_deref(),
                finishes,
            },
        )?;
        leader.round = round;
        leader.span = match finishes {
            true => Span::none(),
            false => spans::round(&self.study.name, round),
        };
        leader.is_open = !matches!(self.vectors, Vectors::Thread) && next.collects;
        leader.known.clear();
        (leader.began_ms, leader.epoch, leader.gathering) = (now_ms, self.epoch, None);
        (leader.asks_at, leader.said) = (None, None);
        pass("coordinator: a round has begun and nobody knows");
        self.metrics.round(round);
        tracing::info!(study = %self.study.name, round, "a round begins");
        self.publisher.send_replace(Arc::new(next));
        pass("coordinator: a round is published");
        self.open_sum();
        if finishes && let Some(leader) = self.leader.take() {
            self.store.resign(&leader.lead)?;
        }
        Ok(())
    }
}
