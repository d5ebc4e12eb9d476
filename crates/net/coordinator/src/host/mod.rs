//! A study's thread. Only this thread drives the study's machine and makes the machine's effects
//! durable.
//!
//! The service holds a [`Host`]. The thread runs the [`Worker`](worker::Worker), which reads and
//! publishes the state of the store (`following`), and runs rounds while it is the leader
//! (`leading`).

mod broadcasts;
mod error;
mod following;
mod gathering;
mod leading;
mod summing;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fedbo_protocol::{AgentUpdate, UpdateRejected};
use fedbo_wire::{SigningKey, StudyState};
use tokio::sync::{oneshot, watch};

use crate::metrics::StudyMetrics;
use crate::published::Published;
use crate::store::Store;
use crate::study::Study;
use crate::vectors::Vectors;
use worker::Worker;

pub(crate) use broadcasts::broadcasts_since;

/// Default lease: the time after which other coordinators take over the studies of an unresponsive
/// one.
pub const LEASE: Duration = Duration::from_secs(15);
/// Maximum number of requests waiting for a study's thread.
const QUEUE: usize = 4096;

/// Request to a study's thread.
enum Command {
    Upload(AgentUpdate, oneshot::Sender<UploadOutcome>),
    /// Asks whether the vector from this slot for this round is missing.
    Awaits(u32, u64, oneshot::Sender<bool>),
    /// The store has changed.
    Refresh,
    Close,
}

/// Outcome of an upload.
#[derive(Debug)]
pub(crate) enum UploadOutcome {
    Accepted,
    Refused(UpdateRejected),
    /// This coordinator does not currently accept uploads for the study.
    Closed,
}

/// Too many requests are waiting, or the thread has ended.
#[derive(Debug)]
pub(crate) struct Busy;

/// Handle to a study's thread.
pub(crate) struct Host {
    commands: SyncSender<Command>,
    pub(crate) published: watch::Receiver<Arc<Published>>,
    pub(crate) vectors: Vectors,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Starts the study's thread. `ledger` is the path of the study's ledger file, if it has one.
    pub(crate) fn start(
        study: Arc<Study>,
        (state, round): (StudyState, u64),
        (holder, lease): (String, Duration),
        ledger: PathBuf,
        store: Arc<dyn Store>,
        key: Arc<SigningKey>,
        (metrics, vectors): (StudyMetrics, Vectors),
    ) -> std::io::Result<Self> {
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
            vectors: vectors.clone(),
            epoch: None,
            looked: None,
            tried: None,
            leader: None,
            retry: None,
        };
        let thread = std::thread::Builder::new()
            .name("study".to_owned())
            .spawn(move || worker.run(&inbox))?;
        Ok(Self { commands, published, vectors, thread: Some(thread) })
    }

    /// Passes an upload to the thread. If the upload closes a round, the outcome is sent before
    /// that round becomes durable.
    pub(crate) fn upload(
        &self,
        update: AgentUpdate,
    ) -> Result<oneshot::Receiver<UploadOutcome>, Busy> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Upload(update, answer))?;
        Ok(answered)
    }

    /// Asks whether the vector from this slot for this round is missing.
    pub(crate) fn awaits(&self, slot: u32, round: u64) -> Result<oneshot::Receiver<bool>, Busy> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Awaits(slot, round, answer))?;
        Ok(answered)
    }

    /// Notifies the thread that the store has changed.
    pub(crate) fn refresh(&self) {
        // A full queue will be read soon, and the thread rereads the store periodically anyway.
        let _ = self.send(Command::Refresh);
    }

    fn send(&self, command: Command) -> Result<(), Busy> {
        self.commands.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) | TrySendError::Disconnected(_) => Busy,
        })
    }

    /// Stops the thread once writes in progress are complete.
    pub(crate) fn close(&mut self) {
        // If the thread has already ended, there is nothing to close.
        let _ = self.commands.send(Command::Close);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a study's thread has panicked");
        }
    }
}
