//! Checks the counters of agents' requests in batches, so that a busy coordinator writes once for
//! many requests (INV-28).

use std::sync::Arc;

use fedbo_transport::Refusal;
use fedbo_wire::{ProblemCode, RequestSignature, digest};
use tokio::sync::{mpsc, oneshot};

use crate::store::{Counted, CountedRequest, Store, StoreError, StudyKey};

/// Maximum number of waiting requests.
const QUEUE: usize = 4096;
/// Maximum number of requests in a batch.
const BATCH: usize = 512;

type Waiting = (CountedRequest, oneshot::Sender<Result<Counted, StoreError>>);

/// Queue of requests with counters to check.
pub(crate) struct Counting(mpsc::Sender<Waiting>);

impl Counting {
    /// Starts the counting task on the current runtime. The task stops when this is dropped.
    pub(crate) fn start(store: Arc<dyn Store>) -> Self {
        let (requests, queue) = mpsc::channel(QUEUE);
        tokio::spawn(count(store, queue));
        Self(requests)
    }

    /// Checks and records the counter of a request with a verified signature. The counter is
    /// durable when this returns.
    ///
    /// An exact repeat of a recent request is also accepted.
    pub(super) async fn take(
        &self,
        study: StudyKey,
        slot: u32,
        signature: &RequestSignature,
    ) -> Result<(), Refusal> {
        let counter = signature.stamp.counter;
        let mark = digest("fedbo counted request, version 1", &[&signature.signature.0]);
        let (answer, answered) = oneshot::channel();
        let request = CountedRequest { study, slot, counter, mark };
        self.0.try_send((request, answer)).map_err(|_| {
            let message = "too many requests are waiting for this coordinator; try again shortly";
            Refusal::new(ProblemCode::Busy, message)
        })?;
        match answered.await {
            Ok(Ok(Counted::Taken)) => Ok(()),
            Ok(Ok(Counted::Behind { known })) => Err(behind(counter, known)),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => {
                let message = "internal error of the coordinator; its log has the details";
                Err(Refusal::new(ProblemCode::Internal, message))
            }
        }
    }
}

/// Returns the refusal for a request that is not newer than the last one from its slot.
fn behind(counter: u64, known: u64) -> Refusal {
    let message = format!(
        "request {counter} of this agent is older than its request {known}: its home was restored \
         from an older copy, or is used on two machines; stop the other one, and run `fedbo agent \
         reconcile`"
    );
    Refusal::new(ProblemCode::CounterBehind, message)
}

async fn count(store: Arc<dyn Store>, mut queue: mpsc::Receiver<Waiting>) {
    let mut batch: Vec<Waiting> = Vec::new();
    while queue.recv_many(&mut batch, BATCH).await > 0 {
        let (requests, answers): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
        let store = Arc::clone(&store);
        let counted = tokio::task::spawn_blocking(move || store.count(&requests)).await;
        let verdicts = match counted {
            Ok(Ok(verdicts)) => verdicts.into_iter().map(Ok).collect(),
            Ok(Err(error)) => vec![Err(error); answers.len()],
            Err(error) => {
                tracing::error!("internal error in a request: {error}");
                continue;
            }
        };
        for (answer, verdict) in answers.into_iter().zip(verdicts) {
            // Sending fails if the requester has disconnected.
            let _ = answer.send(verdict);
        }
    }
}
