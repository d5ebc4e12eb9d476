//! Rounds, played by whoever has the lead.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fedbo_failpoints::pass;
use fedbo_protocol::AgentUpdate;
use fedbo_wire::StudyState;
use tokio::sync::oneshot;

use super::UploadAnswer;
use super::trouble::Trouble;
use super::worker::{RENEWALS, Seat, Worker};
use crate::book::{Book, Charged, Free, LedgerPlace};
use crate::clock::Clock;
use crate::machine::{Beginning, Step, machine};
use crate::store::{Lead, NextRound, StoreError, StudyRecord};

/// The time between two attempts of a replica that follows to take the lead; less where a quarter of the lease is less.
const TRY: Duration = Duration::from_millis(500);

impl Worker {
    /// The lead; none if another coordinator has it.
    pub(super) fn lead(&mut self) -> Result<Option<Lead>, Trouble> {
        let pause = (self.lease / 4).min(TRY);
        if self.intake.is_some() && self.tried.is_some_and(|tried| tried.elapsed() < pause) {
            return Ok(None);
        }
        self.tried = Some(Instant::now());
        let lease_ms = self.lease_ms();
        Ok(self.store.lead(self.study.key, &self.holder, lease_ms)?)
    }

    pub(super) fn open_book(
        &self,
        lead: Lead,
        record: &StudyRecord,
    ) -> Result<Box<dyn Book>, Trouble> {
        let store = Arc::clone(&self.store);
        Ok(match self.study.plan() {
            Some(plan) => Box::new(Charged::open(
                match self.store.ledgers() {
                    Some(ledgers) => LedgerPlace::Database(ledgers),
                    None => LedgerPlace::File(&self.ledger),
                },
                &self.study,
                (&plan.charter, plan.event),
                record.head.as_deref(),
                (store, lead),
            )?),
            None => Box::new(Free::open(&self.study, store, lead)?),
        })
    }

    /// Takes the lead and goes on where the study stands.
    pub(super) fn sit_down(&mut self) -> Result<(), Trouble> {
        let Some(lead) = self.lead()? else {
            return Ok(()); // another coordinator plays it
        };
        pass("coordinator: the lead is taken");
        // Read under the lead: nobody else moves the study on from here.
        let record = self.store.study(&self.study.name)?;
        let mut clock = Clock::read(&*self.store)?;
        let book = self.open_book(lead, &record)?;
        let now_ms = clock.now_ms();
        let round = record.round;
        let is_released = !self.study.is_relayed()
            && book
                .entries(0)?
                .last()
                .is_some_and(|last| last.round == round);
        // A round whose release is stored goes on to its set instant (INV-9). Of any other, what had arrived is lost: its agents
        // get all of its time again.
        let began_ms = record.began_ms.filter(|_| is_released).unwrap_or(now_ms);
        let newest = self.newest(round)?;
        let mut machine = machine(&self.study, round, newest, began_ms)?;
        let collects = self.study.collects(round);
        // Whether a vector came to another replica that led is in the store; whoever sent one need not send it again.
        if let (Some(intake), true) = (&self.intake, is_released) {
            intake.forget(&lead, round)?;
        }
        if record.began_ms != Some(began_ms) {
            self.store.begin_round(
                &lead,
                NextRound {
                    round,
                    began_ms,
                    collects,
                    broadcast: None,
                    finishes: false,
                },
            )?;
        }
        pass("coordinator: a round is about to be played");
        let steps = machine.start(began_ms);
        self.publish_book(&*book, round, (began_ms, now_ms))?;
        self.seat = Some(Seat {
            lead,
            machine,
            book,
            clock,
            renewed: Instant::now(),
            round,
            is_open: self.intake.is_some() && collects && !is_released,
            known: Vec::new(),
        });
        self.metrics.round(round);
        self.metrics.stands_still(false);
        tracing::info!(study = %self.study.name, round, "rounds are played here");
        self.carry_out(steps)?;
        self.retry = None;
        self.publish(|published| published.trouble = None);
        Ok(())
    }

    /// Passes an upload to the machine and answers before anything else happens, but for what was due before it came: a round
    /// whose time has come begins first, or an upload for it would find it not yet collecting.
    pub(super) fn upload(&mut self, update: AgentUpdate, answer: oneshot::Sender<UploadAnswer>) {
        let now_ms = self.seat.as_mut().map_or(0, |seat| seat.clock.now_ms());
        if let Err(trouble) = self.tick(now_ms) {
            self.stop(&trouble);
        }
        let Some(seat) = &mut self.seat else {
            // Whoever asked may have gone; so below.
            let _ = answer.send(UploadAnswer::Closed);
            return;
        };
        pass("coordinator: an upload has come");
        let mut steps = seat.machine.receive(update, now_ms);
        let refused = steps
            .iter()
            .position(|step| matches!(step, Step::Refuse(_)));
        let verdict = match refused.map(|at| steps.remove(at)) {
            Some(Step::Refuse(rejected)) => UploadAnswer::Refused(rejected),
            _ => UploadAnswer::Accepted,
        };
        let _ = answer.send(verdict);
        pass("coordinator: an upload is answered");
        if let Err(trouble) = self.carry_out(steps) {
            self.stop(&trouble);
        }
    }

    /// Feeds the vectors that replicas took. When the round closes, none is taken any more before the last are read.
    pub(super) fn collect(&mut self, now_ms: u64) -> Result<(), Trouble> {
        let (Some(intake), Some(seat)) = (self.intake.clone(), &mut self.seat) else {
            return Ok(());
        };
        if !seat.is_open {
            return Ok(());
        }
        let round = seat.round;
        let deadline = seat.machine.deadline();
        if deadline.is_some_and(|deadline| now_ms >= deadline) {
            intake.shut(&seat.lead)?;
            seat.is_open = false;
        }
        // They came before the inbox was shut, so before the deadline, whatever time it is when they are read.
        let came_ms = match (self.study.is_relayed(), deadline) {
            (false, Some(deadline)) => now_ms.min(deadline.saturating_sub(1)),
            _ => now_ms,
        };
        for (slot, update) in intake.arrived(round, &seat.known)? {
            let Some(seat) = self.seat.as_mut().filter(|seat| seat.round == round) else {
                break;
            };
            seat.known.push(slot);
            let Some(update) = update else {
                continue;
            };
            pass("coordinator: an upload has come");
            let steps = seat.machine.receive(update, came_ms);
            self.carry_out(steps)?;
        }
        Ok(())
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, now_ms: u64) -> Result<(), Trouble> {
        let Some(seat) = &mut self.seat else {
            return Ok(());
        };
        let steps = seat.machine.tick(now_ms);
        self.carry_out(steps)
    }

    pub(super) fn renew(&mut self) -> Result<(), Trouble> {
        let lease_ms = self.lease_ms();
        let Some(seat) = self
            .seat
            .as_mut()
            .filter(|seat| seat.renewed.elapsed() >= self.lease / RENEWALS)
        else {
            return Ok(());
        };
        if !self.store.renew(&seat.lead, lease_ms)? {
            return Err(StoreError::Superseded.into());
        }
        seat.clock.set(&*self.store)?;
        seat.renewed = Instant::now();
        Ok(())
    }

    /// Carries out steps and those that follow from the answers to them.
    pub(super) fn carry_out(&mut self, steps: Vec<Step>) -> Result<(), Trouble> {
        let mut queue = VecDeque::from(steps);
        while let Some(step) = queue.pop_front() {
            let Some(seat) = &mut self.seat else {
                return Ok(()); // the study has ended
            };
            match step {
                Step::Refuse(rejected) => {
                    tracing::debug!(study = %self.study.name, "refused: {rejected}");
                }
                Step::Recall { round } => {
                    let stored = seat.book.stored(round)?;
                    let now_ms = seat.clock.now_ms();
                    queue.extend(seat.machine.recalled(round, stored.as_deref(), now_ms)?);
                }
                Step::Commit {
                    round,
                    bytes,
                    event,
                } => {
                    pass("coordinator: a round is closed");
                    // INV-1: charge and bytes are durable before the machine hands anything out.
                    let since = Instant::now();
                    seat.book.commit(round, event.as_ref(), &bytes)?;
                    self.metrics.committed(since.elapsed());
                    if let Some(intake) = &self.intake {
                        seat.is_open = false;
                        intake.forget(&seat.lead, round)?; // INV-16
                    }
                    let now_ms = seat.clock.now_ms();
                    queue.extend(seat.machine.committed(round, now_ms)?);
                }
                Step::Fail(error) => return Err(error.into()),
                Step::Begin(beginning) => self.begin(beginning)?,
            }
        }
        Ok(())
    }

    /// Makes it durable that a round begins, then tells everybody.
    pub(super) fn begin(&mut self, beginning: Beginning) -> Result<(), Trouble> {
        let Some(seat) = &mut self.seat else {
            return Ok(());
        };
        let Beginning {
            round,
            collects,
            broadcast,
        } = beginning;
        let finishes = round > self.study.federation.rounds;
        let mut next = self.publisher.borrow().next();
        (next.round, next.collects) = (round, collects && !finishes);
        let known = next.entries.last().map_or(0, |last| last.seq);
        let new = seat.book.entries(known)?;
        next.entries.extend(new.into_iter().map(Arc::new));
        next.head = seat.book.head();
        let bytes = broadcast
            .as_ref()
            .map(|broadcast| next.messages(broadcast.clone(), &self.study, &self.key));
        next.broadcast = broadcast.map(Arc::new);
        if finishes {
            next.state = StudyState::Finished;
        }
        let now_ms = seat.clock.now_ms();
        next.begun(now_ms, now_ms);
        pass("coordinator: a round is about to begin");
        self.store.begin_round(
            &seat.lead,
            NextRound {
                round,
                began_ms: now_ms,
                collects: next.collects,
                broadcast: bytes.as_deref(),
                finishes,
            },
        )?;
        seat.round = round;
        seat.is_open = self.intake.is_some() && next.collects;
        seat.known.clear();
        pass("coordinator: a round has begun and nobody knows");
        self.metrics.round(round);
        tracing::info!(study = %self.study.name, round, "a round begins");
        self.publisher.send_replace(Arc::new(next));
        pass("coordinator: a round is published");
        if finishes && let Some(seat) = self.seat.take() {
            self.store.resign(&seat.lead)?;
        }
        Ok(())
    }
}
