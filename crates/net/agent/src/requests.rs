//! The keys and counters of an agent's requests (INV-28).

use fedbo_failpoints::pass;
use fedbo_wire::SigningKey;

use crate::link::Caller;
use crate::{Home, Membership, RunError};

/// The key for the next request, and the counters of earlier requests.
pub(crate) struct Requests {
    /// The first key is in use. While a key rotation is incomplete, there is a second key to try.
    keys: Vec<SigningKey>,
    /// Counter of the last request, and of the last request with a response.
    last: u64,
    answered: u64,
    /// Counter of the first request that was set aside since the last response. The next response
    /// can belong to any transmission since then, so it only shows that the coordinator has seen at
    /// least this counter.
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

    /// Records a response. If a request was set aside, the response can belong to its first
    /// transmission. If `is_carried` is set, it can belong to a transmission by an earlier process.
    pub(crate) fn answered(&mut self, is_carried: bool) {
        let answered = self.aside.take().unwrap_or(self.last);
        if !is_carried {
            self.answered = answered;
        }
    }
}
