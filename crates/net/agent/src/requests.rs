//! The keys and counters of an agent's requests (INV-28).

use fedbo_failpoints::pass;
use fedbo_wire::SigningKey;

use crate::link::Caller;
use crate::{Home, Membership, RunError};

/// The key of the next request, and the counters of earlier ones.
pub(crate) struct Requests {
    /// The first key is in use; another is tried while a key rotation is incomplete.
    keys: Vec<SigningKey>,
    /// The counters of the last request, and of the last one with a response.
    last: u64,
    answered: u64,
    /// Counter of the first request that was set aside since the last response. Whichever
    /// transmission the next response belongs to, the coordinator has seen at least this counter.
    aside: Option<u64>,
}

impl Requests {
    pub(crate) fn new(keys: Vec<SigningKey>) -> Self {
        Self { keys, last: 0, answered: 0, aside: None }
    }

    pub(crate) fn key(&self) -> &SigningKey {
        &self.keys[0]
    }

    pub(crate) fn change_key(&mut self) {
        self.keys.rotate_left(1);
    }

    /// Returns the key and the counter of the next request. The counter is on disk before the
    /// request leaves.
    pub(crate) fn caller(
        &mut self,
        home: &Home,
        membership: &Membership,
    ) -> Result<Caller<'_>, RunError> {
        let answered = self.answered;
        self.last = home.database.write(|tx| membership.count(tx, answered))?;
        pass("agent: a request is counted");
        Ok(Caller { key: self.key(), counter: self.last })
    }

    /// Records that the last request was set aside.
    pub(crate) fn set_aside(&mut self) {
        self.aside.get_or_insert(self.last);
    }

    /// Records a response. It may belong to the first transmission of a request that was set aside;
    /// if `is_carried`, to a transmission of an earlier process.
    pub(crate) fn answered(&mut self, is_carried: bool) {
        let answered = self.aside.take().unwrap_or(self.last);
        if !is_carried {
            self.answered = answered;
        }
    }
}
