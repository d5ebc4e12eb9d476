//! Eviction of unauthenticated connections when the limit on connections or open files is reached.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

/// State of a connection.
///
/// A connection becomes authenticated when an authorized party signs a request on it. `evicted`
/// notifies the connection's task of its eviction.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    is_authenticated: AtomicBool,
    evicted: Notify,
}

impl ConnectionState {
    /// Marks the connection as authenticated, which protects it from eviction.
    pub(crate) fn authenticate(&self) {
        self.is_authenticated.store(true, Ordering::Relaxed);
    }

    /// Waits until the connection is evicted.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    fn is_authenticated(&self) -> bool {
        self.is_authenticated.load(Ordering::Relaxed)
    }
}

/// Unauthenticated connections, in order of arrival.
#[derive(Debug)]
pub(crate) struct Unauthenticated {
    n_connections: usize,
    /// Connections in order of arrival. Some may have since been authenticated or closed.
    arrivals: VecDeque<Weak<ConnectionState>>,
}

impl Unauthenticated {
    /// Creates an empty list for at most `n_connections` connections.
    pub(crate) fn new(n_connections: usize) -> Self {
        Self { n_connections, arrivals: VecDeque::new() }
    }

    /// Adds a new connection.
    pub(crate) fn admit(&mut self) -> Arc<ConnectionState> {
        if self.arrivals.len() > 2 * self.n_connections {
            let is_unauthenticated = |state: &Weak<ConnectionState>| {
                state.upgrade().is_some_and(|known| !known.is_authenticated())
            };
            self.arrivals.retain(is_unauthenticated);
        }
        let state = Arc::new(ConnectionState::default());
        self.arrivals.push_back(Arc::downgrade(&state));
        state
    }

    /// Evicts the oldest unauthenticated connection. Returns `false` if there is none.
    pub(crate) fn evict_oldest(&mut self) -> bool {
        while let Some(oldest) = self.arrivals.pop_front() {
            if let Some(state) = oldest.upgrade()
                && !state.is_authenticated()
            {
                state.evicted.notify_one();
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
    async fn the_oldest_unauthenticated_connection_is_evicted_and_others_stay() {
        let mut unauthenticated = Unauthenticated::new(2);
        let (agent, gone) = (unauthenticated.admit(), unauthenticated.admit());
        let (first, second) = (unauthenticated.admit(), unauthenticated.admit());
        agent.authenticate();
        drop(gone);
        assert!(unauthenticated.evict_oldest());
        first.evicted().await;
        assert!(unauthenticated.evict_oldest());
        second.evicted().await;
        assert!(!unauthenticated.evict_oldest());
        let evicted = tokio::time::timeout(std::time::Duration::from_millis(5), agent.evicted());
        assert!(evicted.await.is_err());
    }

    #[test]
    fn closed_connections_are_forgotten() {
        let mut unauthenticated = Unauthenticated::new(4);
        let stays = unauthenticated.admit();
        for _ in 0..1000 {
            unauthenticated.admit();
        }
        assert!(unauthenticated.arrivals.len() <= 2 * 4 + 1);
        assert!(unauthenticated.evict_oldest());
        assert!(!stays.is_authenticated());
    }
}
