//! The eviction of connections when they run out: only those on which no agent has signed a request.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

/// The state of a connection: known once an agent has signed a request on it, and told when it is to leave.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    is_known: AtomicBool,
    leaves: Notify,
}

impl Standing {
    /// Says that an agent of a study has signed a request on it: it keeps its place.
    pub(crate) fn vouch(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// Until it is to make room for another.
    pub(crate) async fn leaves(&self) {
        self.leaves.notified().await;
    }

    fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }
}

/// Connections on which no agent has signed a request, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Strangers {
    n_connections: usize,
    /// Also some that are known by now, or closed.
    came: VecDeque<Weak<Standing>>,
}

impl Strangers {
    /// None yet, of at most so many connections.
    pub(crate) fn new(n_connections: usize) -> Self {
        Self {
            n_connections,
            came: VecDeque::new(),
        }
    }

    /// A new connection.
    pub(crate) fn arrive(&mut self) -> Arc<Standing> {
        if self.came.len() > 2 * self.n_connections {
            let is_stranger = |standing: &Weak<Standing>| {
                standing.upgrade().is_some_and(|known| !known.is_known())
            };
            self.came.retain(is_stranger);
        }
        let standing = Arc::new(Standing::default());
        self.came.push_back(Arc::downgrade(&standing));
        standing
    }

    /// Lets the one that has been here longest make room; `false` if all connections are known.
    pub(crate) fn dismiss(&mut self) -> bool {
        while let Some(oldest) = self.came.pop_front() {
            if let Some(standing) = oldest.upgrade()
                && !standing.is_known()
            {
                standing.leaves.notify_one();
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_stranger_makes_room_and_agents_stay() {
        let mut strangers = Strangers::new(2);
        let (agent, gone) = (strangers.arrive(), strangers.arrive());
        let (first, second) = (strangers.arrive(), strangers.arrive());
        agent.vouch();
        drop(gone);
        assert!(strangers.dismiss());
        first.leaves().await;
        assert!(strangers.dismiss());
        second.leaves().await;
        assert!(!strangers.dismiss());
        let leaves = tokio::time::timeout(std::time::Duration::from_millis(5), agent.leaves());
        assert!(leaves.await.is_err());
    }

    #[test]
    fn those_who_are_gone_are_forgotten() {
        let mut strangers = Strangers::new(4);
        let stays = strangers.arrive();
        for _ in 0..1000 {
            strangers.arrive();
        }
        assert!(strangers.came.len() <= 2 * 4 + 1);
        assert!(strangers.dismiss());
        assert!(!stays.is_known());
    }
}
