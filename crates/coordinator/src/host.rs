//! A study's own thread: it alone drives the study's machine, and makes durable what the machine asks for.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fedbo_failpoints::pass;
use fedbo_gp::MapHash;
use fedbo_ledger::{Head, LedgerError};
use fedbo_protocol::{AgentUpdate, Broadcast, Handout as _, RoundError, UpdateRejected};
use fedbo_wire::{
    Content, Handout, HandoutUnreadable, LedgerEntry, Limits, SigningKey, StudyState,
};
use tokio::sync::{oneshot, watch};

use crate::book::{Book, BookError, Charged, Free, LedgerPlace, released};
use crate::clock::Clock;
use crate::intake::Intake;
use crate::machine::{Beginning, Machine, NoMachine, Step, machine};
use crate::metrics::StudyMetrics;
use crate::published::Published;
use crate::store::{Lead, NextRound, Store, StoreError, StudyRecord};
use crate::study::Study;

/// How long a coordinator that does not answer keeps others from taking over its studies, unless its settings say otherwise.
pub const LEASE: Duration = Duration::from_secs(15);
/// Parts of the lease after which it is renewed.
const RENEWALS: u32 = 3;
/// How often a replica looks for vectors while its round collects.
const COLLECT: Duration = Duration::from_millis(50);
/// How often a replica looks at what another one that leads has done.
const FOLLOW: Duration = Duration::from_millis(100);
/// How often a replica that follows tries to take the lead, at most.
const TRY: Duration = Duration::from_millis(500);
/// How long a thread waits when nothing is due.
const IDLE: Duration = Duration::from_secs(1);
/// After trouble: the first wait before another try, which doubles up to the last.
const RETRIES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// The same where replicas share a database: a restart of it is over soon, and a round waits for it.
const REPLICA_RETRIES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];
/// Requests that may wait for a study's thread.
const QUEUE: usize = 4096;

/// Why a study stands still.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Book(#[from] BookError),
    #[error(transparent)]
    Machine(#[from] NoMachine),
    #[error(transparent)]
    Round(#[from] RoundError),
    #[error("round {round}: what was handed out cannot be read: {source}")]
    Broadcast {
        round: u64,
        source: HandoutUnreadable,
    },
}

impl Trouble {
    /// Whether another coordinator plays the study now, which is nobody's mistake.
    fn is_succession(&self) -> bool {
        matches!(
            self,
            Self::Store(StoreError::Superseded)
                | Self::Book(BookError::Store(StoreError::Superseded))
                | Self::Book(BookError::Ledger(
                    LedgerError::Superseded { .. } | LedgerError::Held { .. }
                ))
        )
    }
}

impl Trouble {
    fn is_of_the_budget(&self) -> bool {
        matches!(
            self,
            Self::Book(BookError::Ledger(LedgerError::BudgetSpent(_)))
        )
    }
}

/// What is asked of a study's thread.
enum Command {
    Upload(AgentUpdate, oneshot::Sender<UploadAnswer>),
    /// Whether a vector of this slot and round is missing.
    Awaits(u32, u64, oneshot::Sender<bool>),
    /// The store has changed.
    Refresh,
    Close,
}

/// What becomes of an upload.
#[derive(Debug)]
pub(crate) enum UploadAnswer {
    Accepted,
    Refused(UpdateRejected),
    /// The study does not take uploads here and now.
    Closed,
}

/// Too many requests wait, or the thread has ended.
#[derive(Debug)]
pub(crate) struct Busy;

/// A study that is being served.
pub(crate) struct Host {
    commands: SyncSender<Command>,
    pub(crate) published: watch::Receiver<Arc<Published>>,
    /// Where vectors go that any replica may take; none where they go to the thread.
    pub(crate) intake: Option<Arc<Intake>>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Starts the study's thread. Its ledger, where it has one, is the file `ledger`.
    pub(crate) fn start(
        study: Arc<Study>,
        (state, round): (StudyState, u64),
        (holder, lease): (String, Duration),
        ledger: PathBuf,
        store: Arc<dyn Store>,
        key: Arc<SigningKey>,
        metrics: StudyMetrics,
    ) -> std::io::Result<Self> {
        let intake = Intake::of(&study, &store, &key);
        let (commands, inbox) = sync_channel(QUEUE);
        let (publisher, published) = watch::channel(Arc::new(Published::new(&study, state, round)));
        let worker = Worker {
            study,
            holder,
            ledger,
            store,
            key,
            publisher,
            metrics,
            lease,
            intake: intake.clone(),
            epoch: None,
            looked: None,
            tried: None,
            seat: None,
            retry: None,
        };
        let thread = std::thread::Builder::new()
            .name("study".to_owned())
            .spawn(move || worker.run(&inbox))?;
        Ok(Self {
            commands,
            published,
            intake,
            thread: Some(thread),
        })
    }

    /// Hands over an upload. The answer comes before the round that it may close is durable.
    pub(crate) fn upload(
        &self,
        update: AgentUpdate,
    ) -> Result<oneshot::Receiver<UploadAnswer>, Busy> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Upload(update, answer))?;
        Ok(answered)
    }

    /// Asks whether a vector of this slot and round is missing.
    pub(crate) fn awaits(&self, slot: u32, round: u64) -> Result<oneshot::Receiver<bool>, Busy> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Awaits(slot, round, answer))?;
        Ok(answered)
    }

    /// Says that the store has changed.
    pub(crate) fn refresh(&self) {
        // A full queue is read soon, and a study looks at the store now and then by itself.
        let _ = self.send(Command::Refresh);
    }

    fn send(&self, command: Command) -> Result<(), Busy> {
        self.commands
            .try_send(command)
            .map_err(|error| match error {
                TrySendError::Full(_) | TrySendError::Disconnected(_) => Busy,
            })
    }

    /// Ends the thread, once what is being made durable is.
    pub(crate) fn close(&mut self) {
        // If the thread has ended by itself, there is nothing to close.
        let _ = self.commands.send(Command::Close);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a study's thread has panicked");
        }
    }
}

/// What it takes to play rounds.
struct Seat {
    lead: Lead,
    machine: Box<dyn Machine>,
    book: Box<dyn Book>,
    clock: Clock,
    renewed: Instant,
    /// The round that is being played.
    round: u64,
    /// Whether replicas take vectors of it.
    is_open: bool,
    /// Slots whose vectors of it were read from the store.
    known: Vec<u32>,
}

struct Worker {
    study: Arc<Study>,
    holder: String,
    ledger: PathBuf,
    store: Arc<dyn Store>,
    key: Arc<SigningKey>,
    publisher: watch::Sender<Arc<Published>>,
    metrics: StudyMetrics,
    lease: Duration,
    /// Where replicas share a store.
    intake: Option<Arc<Intake>>,
    /// The inbox as it was seen last.
    epoch: Option<i64>,
    /// When the store was looked at.
    looked: Option<Instant>,
    /// When the lead was asked for.
    tried: Option<Instant>,
    /// While rounds are played here.
    seat: Option<Seat>,
    /// After trouble: when to try again, and how long was waited.
    retry: Option<(Instant, Duration)>,
}

impl Worker {
    fn run(mut self, inbox: &Receiver<Command>) {
        self.refresh();
        loop {
            let command = inbox.recv_timeout(self.wait());
            match command {
                Ok(Command::Upload(update, answer)) => self.upload(update, answer),
                Ok(Command::Awaits(slot, round, answer)) => {
                    let seat = self.seat.as_ref();
                    let awaits = seat.is_some_and(|seat| seat.machine.awaits(slot, round));
                    // Whoever asked may have gone.
                    let _ = answer.send(awaits);
                }
                Ok(Command::Refresh) => self.refresh(),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Ok(Command::Close) | Err(RecvTimeoutError::Disconnected) => break,
            }
            self.pass_time();
        }
        self.publish(|published| published.closes = true);
        if let Some(seat) = self.seat.take()
            && let Err(error) = self.store.resign(&seat.lead)
        {
            tracing::warn!(study = %self.study.name, "the lease could not be let go: {error}");
        }
    }

    /// Until something is due.
    fn wait(&mut self) -> Duration {
        let is_shared = self.intake.is_some();
        let Some(seat) = &mut self.seat else {
            let idle = if is_shared { FOLLOW } else { IDLE };
            return match self.retry {
                Some((at, _)) => {
                    let left = at.saturating_duration_since(Instant::now());
                    left.max(FOLLOW).min(IDLE)
                }
                None => idle,
            };
        };
        let idle = match (is_shared, seat.is_open) {
            (false, _) => IDLE,
            (true, true) => COLLECT,
            (true, false) => FOLLOW,
        };
        let now_ms = seat.clock.now_ms();
        let deadline = seat.machine.deadline();
        deadline
            .map_or(idle, |at| Duration::from_millis(at.saturating_sub(now_ms)))
            .min(idle)
    }

    /// Looks at the store now and then; not while it is away.
    fn look(&mut self) {
        let pause = match (&self.intake, &self.seat) {
            (None, _) => Duration::ZERO,
            (Some(_), Some(_)) => IDLE / 2,
            (Some(_), None) => FOLLOW,
        };
        let is_early = self.looked.is_some_and(|looked| looked.elapsed() < pause);
        let is_away = self.intake.is_some()
            && self.publisher.borrow().trouble.is_some()
            && self.retry.is_some_and(|(at, _)| Instant::now() < at);
        if !is_early && !is_away {
            self.refresh();
        }
    }

    /// Looks at the store, and begins or stops playing accordingly.
    fn refresh(&mut self) {
        self.looked = Some(Instant::now());
        let record = match self.store.study(&self.study.name) {
            Ok(record) => record,
            Err(error) => return self.stop(&error.into()),
        };
        if let Err(trouble) = self.watch_inbox() {
            return self.stop(&trouble);
        }
        if record.state != self.publisher.borrow().state {
            self.publish(|published| published.state = record.state);
        }
        let may_try = self.retry.is_none_or(|(at, _)| Instant::now() >= at);
        if self.intake.is_some()
            && self.seat.is_none()
            && let Err(trouble) = self.follow(&record)
        {
            return self.stop(&trouble);
        }
        let is_ready = self.publisher.borrow().is_ready;
        if !is_ready
            && may_try
            && record.state != StudyState::Running
            && let Err(trouble) = self.load(&record)
        {
            return self.stop(&trouble);
        }
        match (record.state, &self.seat) {
            (StudyState::Running, None) if may_try => {
                if let Err(trouble) = self.sit_down() {
                    self.stop(&trouble);
                }
            }
            (StudyState::Running, _) => {}
            (_, Some(_)) => {
                if let Some(seat) = self.seat.take()
                    && let Err(error) = self.store.resign(&seat.lead)
                {
                    self.stop(&error.into());
                }
            }
            (_, None) => {}
        }
    }

    /// After a crash of the database, agents that wait are told that their vectors are gone.
    fn watch_inbox(&mut self) -> Result<(), Trouble> {
        let Some(intake) = &self.intake else {
            return Ok(());
        };
        let epoch = intake.epoch()?;
        if self.epoch.is_some_and(|known| known != epoch) {
            tracing::warn!(study = %self.study.name, "the database has lost the vectors of the round; agents send them again");
            self.publish(|_| {});
        }
        self.epoch = Some(epoch);
        Ok(())
    }

    /// Publishes what the store says, while another replica leads.
    fn follow(&mut self, record: &StudyRecord) -> Result<(), Trouble> {
        let now = Arc::clone(&self.publisher.borrow());
        if now.is_ready && now.round == record.round && now.trouble.is_none() {
            return Ok(());
        }
        let mut next = now.next();
        (next.is_ready, next.round, next.trouble) = (true, record.round, None);
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
        self.metrics.stands_still(false);
        self.publisher.send_replace(Arc::new(next));
        Ok(())
    }

    /// Reads what was released of a study that is not played, for agents that were away.
    fn load(&mut self, record: &StudyRecord) -> Result<(), Trouble> {
        let is_begun = record.began_ms.is_some();
        if is_begun && let Some(lead) = self.lead()? {
            let book = self.open_book(lead, record)?;
            self.publish_book(&*book, record.round)?;
            drop(book);
            self.store.resign(&lead)?;
        } else if !is_begun {
            self.publish(|published| published.is_ready = true);
        }
        Ok(())
    }

    /// The lead; none if another coordinator has it.
    fn lead(&mut self) -> Result<Option<Lead>, Trouble> {
        let pause = (self.lease / 4).min(TRY);
        if self.intake.is_some() && self.tried.is_some_and(|tried| tried.elapsed() < pause) {
            return Ok(None);
        }
        self.tried = Some(Instant::now());
        let lease_ms = self.lease_ms();
        Ok(self.store.lead(self.study.key, &self.holder, lease_ms)?)
    }

    fn lease_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }

    fn open_book(&self, lead: Lead, record: &StudyRecord) -> Result<Box<dyn Book>, Trouble> {
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
    fn sit_down(&mut self) -> Result<(), Trouble> {
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
        self.publish_book(&*book, round)?;
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

    /// By sender, the round of the newest message that was broadcast before a round.
    fn newest(&self, round: u64) -> Result<Vec<(u32, u64)>, Trouble> {
        if !self.study.is_relayed() {
            return Ok(Vec::new());
        }
        let mut newest: Vec<Option<u64>> = vec![None; self.study.n_slots as usize];
        let mut n_missing = newest.len();
        for round in (1..=round).rev() {
            if n_missing == 0 {
                break;
            }
            for message in broadcast(&*self.store, &self.study, &self.key, round)?.messages {
                if let Some(known @ None) = newest.get_mut(message.sender as usize) {
                    *known = Some(message.round);
                    n_missing -= 1;
                }
            }
        }
        let known = (0_u32..).zip(newest);
        Ok(known
            .filter_map(|(sender, round)| Some((sender, round?)))
            .collect())
    }

    fn publish_book(&self, book: &dyn Book, round: u64) -> Result<(), Trouble> {
        // A release that is stored for the round itself leaves when the round is over (INV-9).
        let mut entries = book.entries(0)?;
        entries.retain(|entry| entry.round < round);
        let follow = |head: Head, entry: &LedgerEntry| {
            head.follow(entry.round, &entry.event, &entry.release)
        };
        let head = entries.iter().fold(self.study.genesis(), follow);
        let entries: Vec<_> = entries.into_iter().map(Arc::new).collect();
        let last = match self.study.is_relayed() && round > 0 {
            true => Some(Arc::new(broadcast(
                &*self.store,
                &self.study,
                &self.key,
                round,
            )?)),
            false => None,
        };
        let collects = self.study.collects(round);
        self.publish(|published| {
            published.is_ready = true;
            (published.round, published.collects) = (round, collects);
            (published.head, published.entries, published.broadcast) = (head, entries, last);
        });
        Ok(())
    }

    /// Passes an upload to the machine and answers before anything else happens, but for what was due before it came: a round
    /// whose time has come begins first, or an upload for it would find it not yet collecting.
    fn upload(&mut self, update: AgentUpdate, answer: oneshot::Sender<UploadAnswer>) {
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
    fn collect(&mut self, now_ms: u64) -> Result<(), Trouble> {
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

    /// Ticks, and renews the lease.
    fn pass_time(&mut self) {
        let Some(seat) = &mut self.seat else {
            return;
        };
        // One time for both: the machine closes no round whose inbox was not shut.
        let now_ms = seat.clock.now_ms();
        let outcome = self
            .collect(now_ms)
            .and_then(|()| self.tick(now_ms))
            .and_then(|()| self.renew());
        if let Err(trouble) = outcome {
            self.stop(&trouble);
        }
    }

    /// Does what is due.
    fn tick(&mut self, now_ms: u64) -> Result<(), Trouble> {
        let Some(seat) = &mut self.seat else {
            return Ok(());
        };
        let steps = seat.machine.tick(now_ms);
        self.carry_out(steps)
    }

    fn renew(&mut self) -> Result<(), Trouble> {
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
    fn carry_out(&mut self, steps: Vec<Step>) -> Result<(), Trouble> {
        let mut queue = std::collections::VecDeque::from(steps);
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
                Step::Begin(beginning) => self.begin(beginning)?,
            }
        }
        Ok(())
    }

    /// Makes it durable that a round begins, then tells everybody.
    fn begin(&mut self, beginning: Beginning) -> Result<(), Trouble> {
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

    /// Stops playing, because of this, and tries again later.
    fn stop(&mut self, trouble: &Trouble) {
        let lead = self.seat.take().map(|seat| seat.lead);
        if trouble.is_succession() {
            tracing::warn!(study = %self.study.name, "{trouble}");
            self.retry = Some((Instant::now() + self.lease, self.lease));
            self.tried = None;
            return;
        }
        if let Some(lead) = lead {
            // INV-13: nothing is collected that cannot be released.
            if let (Some(intake), true) = (&self.intake, trouble.is_of_the_budget())
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
        let wait = self
            .retry
            .map_or(first, |(_, waited)| (2 * waited).min(last));
        self.retry = Some((Instant::now() + wait, wait));
        self.tried = None;
        self.metrics.stands_still(true);
        tracing::error!(study = %self.study.name, retry_s = wait.as_secs(), "the study stands still: {trouble}");
        let words = trouble.to_string();
        if self.publisher.borrow().trouble.as_ref() != Some(&words) {
            self.publish(|published| published.trouble = Some(words));
        }
    }

    fn publish(&self, change: impl FnOnce(&mut Published)) {
        let mut next = self.publisher.borrow().next();
        change(&mut next);
        self.publisher.send_replace(Arc::new(next));
    }
}

/// What was handed out when a round of a relayed study began.
fn broadcast(
    store: &dyn Store,
    study: &Study,
    key: &SigningKey,
    round: u64,
) -> Result<Broadcast, Trouble> {
    let Some(bytes) = store.broadcast(study.key, round)? else {
        return Ok(Broadcast {
            round,
            messages: Vec::new(),
            stragglers: Vec::new(),
        });
    };
    let limits = Limits {
        n_features: study.n_features,
        n_slots: study.n_slots,
        release_bytes_max: 0,
    };
    let unreadable = |source| Trouble::Broadcast { round, source };
    let handout = Handout::from_bytes(&bytes, &key.public(), limits).map_err(unreadable)?;
    let (messages, stragglers) = match handout.content {
        Content::Messages {
            messages,
            stragglers,
        } => (messages, stragglers),
        Content::Releases(_) => (Vec::new(), Vec::new()),
    };
    let map: MapHash = study.map;
    Ok(Broadcast {
        round,
        messages: messages
            .into_iter()
            .map(|message| AgentUpdate {
                sender: message.sender,
                round: message.round,
                map,
                weights: message.weights,
            })
            .collect(),
        stragglers,
    })
}

/// Everything that was handed out in a relayed study after an agent's round, joined.
pub(crate) fn broadcasts_since(
    store: &dyn Store,
    study: &Study,
    key: &SigningKey,
    after: u64,
    last: &Broadcast,
) -> Result<Broadcast, String> {
    let mut rounds = after + 1..last.round;
    let Some(first) = rounds.next() else {
        return Ok(last.clone());
    };
    let read = |round| broadcast(store, study, key, round).map_err(|error| error.to_string());
    let mut joined = read(first)?;
    for round in rounds {
        joined.join(read(round)?);
    }
    joined.join(last.clone());
    Ok(joined)
}
