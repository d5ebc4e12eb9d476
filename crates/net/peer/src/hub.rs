//! State shared by a peer's threads (the session, one link per neighbour, and the service), and
//! notifications between them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fedbo_wire::PublicKey;

use crate::PeerError;

/// Interval between checks of the stop flag, which is set without a notification.
const TICK: Duration = Duration::from_millis(100);
/// Minimum interval between two counted requests from unknown keys. Only counted requests end a
/// pause.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(1);
/// Minimum interval between warnings about an impostor of a neighbour.
const IMPOSTORS: Duration = Duration::from_secs(60);

/// State shared by a peer's threads, with a condition variable that signals changes.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<State>,
    changed: Condvar,
    stop: Arc<AtomicBool>,
    /// Cancels requests when the session ends.
    over: Arc<AtomicBool>,
}

#[derive(Debug)]
struct State {
    links: BTreeMap<u32, LinkState>,
    /// Number of the peer's own reports in the outbox.
    n_outgoing: u64,
    /// Number of reports received in this run.
    n_came: u64,
    /// Number of requests from unknown keys that were counted, and the time of the last one.
    unknown_contacts: (u64, Option<Instant>),
    is_over: bool,
    failure: Option<PeerError>,
}

/// State of the peer's exchange with one neighbour.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkState {
    /// The neighbour's key, once known.
    pub(crate) key: Option<PublicKey>,
    /// True if a link serves the neighbour.
    pub(crate) is_claimed: bool,
    /// True if the neighbour has proved its identity and sent its receipt since either process
    /// started.
    pub(crate) is_introduced: bool,
    /// Number of this peer's reports that the neighbour has confirmed.
    pub(crate) confirmed: u64,
    /// True if the last attempt to reach the neighbour failed.
    pub(crate) is_away: bool,
    /// Number of requests from the neighbour.
    pub(crate) n_contacts: u64,
    /// True if both sides have all of each other's reports.
    pub(crate) is_complete: bool,
    /// True if either side has told the other that it needs nothing more, or the farewell failed
    /// too often.
    pub(crate) is_done: bool,
    /// Number of failed attempts to send the farewell.
    pub(crate) n_farewells_failed: u32,
    /// Time of the last warning about an impostor of the neighbour.
    pub(crate) said_impostor: Option<Instant>,
}

/// Next task of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Request the neighbour's identity and receipt.
    Introduce,
    /// Send the report of this round.
    Push(u64),
    /// Tell the neighbour that this peer needs nothing more.
    Farewell,
    /// Return, since the session is ending.
    Over,
}

impl Hub {
    pub(crate) fn new(
        links: BTreeMap<u32, LinkState>,
        n_outgoing: u64,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let state = State {
            links,
            n_outgoing,
            n_came: 0,
            unknown_contacts: (0, None),
            is_over: false,
            failure: None,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), stop, over: Arc::default() }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the state of the exchange with a neighbour.
    pub(crate) fn link(&self, slot: u32) -> LinkState {
        self.lock().links.get(&slot).cloned().unwrap_or_default()
    }

    /// Returns the states of the exchanges with all neighbours, by slot.
    pub(crate) fn links(&self) -> BTreeMap<u32, LinkState> {
        self.lock().links.clone()
    }

    /// Changes the state of the exchange with a neighbour, and returns the result of `change`.
    pub(crate) fn change<R>(&self, slot: u32, change: impl FnOnce(&mut LinkState) -> R) -> R {
        let mut state = self.lock();
        let result = change(state.links.entry(slot).or_default());
        drop(state);
        self.changed.notify_all();
        result
    }

    /// Ends the session with an error. Later errors are ignored.
    pub(crate) fn fail(&self, error: PeerError) {
        self.lock().failure.get_or_insert(error);
        self.changed.notify_all();
    }

    pub(crate) fn take_failure(&self) -> Option<PeerError> {
        self.lock().failure.take()
    }

    /// Returns the number of the peer's own reports.
    pub(crate) fn n_outgoing(&self) -> u64 {
        self.lock().n_outgoing
    }

    /// Sets the number of the peer's own reports and notifies the links.
    pub(crate) fn made(&self, n_outgoing: u64) {
        self.lock().n_outgoing = n_outgoing;
        self.changed.notify_all();
    }

    /// Counts a received report and notifies the session.
    pub(crate) fn came(&self) {
        self.lock().n_came += 1;
        self.changed.notify_all();
    }

    pub(crate) fn n_came(&self) -> u64 {
        self.lock().n_came
    }

    /// Returns a flag that is set when the session ends.
    pub(crate) fn over(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.over)
    }

    /// Ends all links and their requests.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.over.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Counts a request from a neighbour, which ends the pause of its link.
    pub(crate) fn contact(&self, slot: u32) {
        self.change(slot, |link| link.n_contacts += 1);
    }

    /// Counts a request made in a neighbour's name before the neighbour's key is known, since the
    /// neighbour may now be reachable. At most one such request is counted per `UNKNOWN_PAUSE`.
    pub(crate) fn contact_by_unknown(&self, slot: u32) {
        let mut state = self.lock();
        let now = Instant::now();
        let (count, last) = &mut state.unknown_contacts;
        if last.is_some_and(|last| now.duration_since(last) < UNKNOWN_PAUSE) {
            return;
        }
        *last = Some(now);
        *count += 1;
        if let Some(link) = state.links.get_mut(&slot) {
            link.n_contacts += 1;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Returns true if an impostor of this neighbour should be reported, which is at most once per
    /// `IMPOSTORS` to keep logs small.
    pub(crate) fn may_say_impostor(&self, slot: u32) -> bool {
        self.change(slot, |link| {
            let now = Instant::now();
            let is_due =
                link.said_impostor.is_none_or(|last| now.duration_since(last) >= IMPOSTORS);
            if is_due {
                link.said_impostor = Some(now);
            }
            is_due
        })
    }

    /// Waits for the next task of a neighbour's link.
    pub(crate) fn work(&self, slot: u32) -> Work {
        let mut state = self.lock();
        loop {
            if state.is_over || self.is_stopped() {
                return Work::Over;
            }
            let n_outgoing = state.n_outgoing;
            match state.links.get(&slot) {
                Some(link) if !link.is_introduced => return Work::Introduce,
                Some(link) if link.confirmed < n_outgoing => return Work::Push(link.confirmed),
                Some(link) if link.is_complete && !link.is_done => return Work::Farewell,
                _ => state = self.wait(state, TICK),
            }
        }
    }

    /// Waits before the next attempt. Returns false if the session ends.
    ///
    /// A request from the neighbour ends the wait early. If the link does not know its neighbour
    /// yet, a counted request from an unknown key ends it.
    pub(crate) fn pause(&self, slot: Option<u32>, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.lock();
        let n_contacts = |state: &State| match slot {
            Some(slot) => state.links.get(&slot).map_or(0, |link| link.n_contacts),
            None => state.unknown_contacts.0,
        };
        let before = n_contacts(&state);
        loop {
            if state.is_over || self.is_stopped() {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || n_contacts(&state) != before {
                return true;
            }
            state = self.wait(state, left.min(TICK));
        }
    }

    /// Waits for a change, for at most `time` or `TICK`, whichever is shorter.
    pub(crate) fn idle(&self, n_came: u64, time: Duration) {
        let state = self.lock();
        if state.n_came == n_came && state.failure.is_none() && !self.is_stopped() {
            drop(self.wait(state, time.min(TICK)));
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, time);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub() -> Hub {
        let link = LinkState { is_introduced: true, confirmed: 1, ..LinkState::default() };
        let links = BTreeMap::from([(1, link.clone()), (2, link)]);
        Hub::new(links, 2, Arc::new(AtomicBool::new(false)))
    }

    #[test]
    fn a_link_introduces_itself_then_sends_then_takes_its_leave() {
        let hub = hub();
        assert_eq!(hub.work(1), Work::Push(1));
        hub.change(1, |link| link.is_introduced = false);
        assert_eq!(hub.work(1), Work::Introduce);
        hub.change(1, |link| {
            link.is_introduced = true;
            link.confirmed = 2;
            link.is_complete = true;
        });
        assert_eq!(hub.work(1), Work::Farewell);
        assert_eq!(hub.work(2), Work::Push(1));
        hub.end();
        assert_eq!(hub.work(1), Work::Over);
    }

    #[test]
    fn a_pause_ends_when_the_neighbour_comes_and_no_other() {
        let hub = hub();
        let pause = |slot, time: Duration| {
            std::thread::scope(|scope| {
                let since = Instant::now();
                let paused = scope.spawn(|| hub.pause(slot, time));
                std::thread::sleep(Duration::from_millis(20));
                hub.contact(2);
                assert!(paused.join().unwrap());
                since.elapsed()
            })
        };
        let short = Duration::from_millis(300);
        assert!(pause(Some(1), short) >= short);
        assert!(pause(Some(2), Duration::from_secs(60)) < Duration::from_secs(30));
        hub.stop.store(true, Ordering::Relaxed);
        assert!(!hub.pause(Some(1), Duration::from_secs(60)));
    }

    /// Only few requests from unknown keys end a pause, so they cannot make this peer retry
    /// continuously.
    #[test]
    fn strangers_end_few_pauses() {
        let hub = hub();
        for _ in 0..1000 {
            hub.contact_by_unknown(1);
        }
        assert_eq!(hub.link(1).n_contacts, 1);
        let said = (0..1000).filter(|_| hub.may_say_impostor(1)).count();
        assert_eq!((said, hub.may_say_impostor(2)), (1, true));
    }

    #[test]
    fn the_first_failure_counts() {
        let hub = hub();
        hub.fail(PeerError::ReportDiffers { round: 1 });
        hub.fail(PeerError::ReportDiffers { round: 2 });
        let failure = hub.take_failure();
        assert!(matches!(failure, Some(PeerError::ReportDiffers { round: 1 })));
        assert!(hub.take_failure().is_none());
    }
}
