//! A run of a peer: the machine processes the events in the log, and the session carries out the
//! outstanding effects.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use fedbo_database::Lock;
use fedbo_federation::Federation;
use fedbo_objective::Objective;
use fedbo_party::{HomeError, Identity, Trials, hold, make_folder};
use fedbo_protocol::{Peer, PeerEffect, Trial};
use fedbo_transport::{ConnectionCounts, HttpClient, ListenSettings, Listening, ProxySetting};
use fedbo_wire::PublicKey;
use tokio::sync::watch;

use crate::hub::{Hub, LinkState};
use crate::link::Link;
use crate::records::key_of;
use crate::service::router;
use crate::shared::Shared;
use crate::{Member, Memory, Notice, Observer, PeerError};

/// Everything that a session needs.
pub struct Parts {
    /// The peer's folder, which is created if it is missing.
    pub home: PathBuf,
    /// The peer's membership in the federation.
    pub member: Member,
    /// The federation, for its space and direction.
    pub federation: Federation,
    /// Path of the federation file, for messages.
    pub file: String,
    /// The peer's machine, not started.
    pub machine: Peer,
    /// The objective that the peer optimizes.
    pub objective: Arc<dyn Objective>,
    /// Addresses of the peer's neighbours.
    pub neighbours: Vec<Address>,
    /// PEM file of certificate authorities trusted in addition to the system's.
    pub authority: Option<PathBuf>,
    /// The outbound proxy.
    pub proxy: ProxySetting,
    /// Settings of the peer's listener.
    pub listen: ListenSettings,
    /// Ends the run after the last round as soon as all reachable neighbours have confirmed the
    /// peer's reports.
    pub leaves: bool,
    /// The observer of the session.
    pub observer: Arc<dyn Observer>,
    /// Flag that ends the run once it is set.
    pub stop: Arc<AtomicBool>,
}

/// The address of a neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Slot of the neighbour, or `None` if the neighbour must state it.
    pub slot: Option<u32>,
    /// URL of the neighbour.
    pub url: String,
    /// Key of the neighbour, if known.
    pub key: Option<PublicKey>,
}

/// The outcome of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All rounds are done, and all reports in both directions have arrived.
    Complete,
    /// All rounds are done, but the peer did not wait for neighbours that were away or not done.
    Left,
    /// The stop flag was set. If a trial was interrupted, the next run starts it again.
    Interrupted,
}

/// Runs a peer until its rounds are done and shared, or the stop flag is set.
///
/// After any interruption, the next run continues at the same point.
///
/// # Errors
/// If the home cannot be used, storage fails, or a neighbour is not trustworthy or refuses
/// permanently.
pub fn run(parts: Parts) -> Result<Ended, PeerError> {
    let mut session = Session::open(parts)?;
    // Replays all past events before the first request or response.
    session.catch_up()?;
    let ended = session.with_neighbours(Session::run_rounds);
    session.shared.hub.end();
    ended
}

/// A running peer.
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) federation: Federation,
    pub(crate) machine: Peer,
    pub(crate) objective: Arc<dyn Objective>,
    pub(crate) trials: Trials,
    addresses: Vec<Address>,
    authority: Option<PathBuf>,
    proxy: ProxySetting,
    listen: ListenSettings,
    pub(crate) leaves: bool,
    /// Number of the last event that the machine has processed.
    pub(crate) seq: u64,
    /// Effects of the machine that have not been carried out yet.
    pub(crate) effects: VecDeque<PeerEffect>,
    /// The trial being evaluated.
    pub(crate) running: Option<Trial>,
    /// Duration of the machine's last step in seconds.
    pub(crate) ask_seconds: f64,
    /// Round of each neighbour's last report, for neighbours that have sent it.
    pub(crate) last_reports: BTreeMap<u32, u64>,
    /// True during replay: the effects are in the past, and the observer is not notified again.
    pub(crate) is_replay: bool,
    pub(crate) is_finished: bool,
    /// The round that is waiting for reports, the start of the wait, and whether the observer was
    /// notified.
    pub(crate) waits: Option<(u64, Instant, bool)>,
    pub(crate) stays_for: Vec<u32>,
    _lock: Lock,
}

impl Session {
    fn open(parts: Parts) -> Result<Self, PeerError> {
        let home = |error: HomeError| PeerError::Home(error.into());
        make_folder(&parts.home).map_err(home)?;
        let lock = hold(&parts.home.join("peer.lock"), "runs this peer").map_err(home)?;
        // The home of a peer that has started must have a key. With a new key, it would be a
        // different peer.
        let identity = match key_of(&parts.home).map_err(home)? {
            Some(_) => Identity::load(&parts.home),
            None => Identity::load_or_make(&parts.home),
        }
        .map_err(home)?;
        let memory = Memory::open(&parts.home, &parts.member, identity.key.public())?;
        let links = meet(&memory, &parts.member, &parts.neighbours).map_err(PeerError::Memory)?;
        let n_outgoing = memory.n_outgoing().map_err(PeerError::Memory)?;
        let trials = Trials::open(&parts.home, &parts.federation)?;
        let shared = Arc::new(Shared {
            key: identity.key,
            hub: Hub::new(links, n_outgoing, Arc::clone(&parts.stop)),
            memory,
            member: parts.member,
            observer: parts.observer,
            file: parts.file,
        });
        Ok(Self {
            shared,
            federation: parts.federation,
            machine: parts.machine,
            objective: parts.objective,
            trials,
            addresses: parts.neighbours,
            authority: parts.authority,
            proxy: parts.proxy,
            listen: parts.listen,
            leaves: parts.leaves,
            seq: 0,
            effects: VecDeque::new(),
            running: None,
            ask_seconds: 0.0,
            last_reports: BTreeMap::new(),
            is_replay: true,
            is_finished: false,
            waits: None,
            stays_for: Vec::new(),
            _lock: lock,
        })
    }

    /// Replays the log.
    fn catch_up(&mut self) -> Result<(), PeerError> {
        self.effects = self.machine.start(0)?.into();
        self.drain()?;
        self.is_replay = false;
        Ok(())
    }

    /// Listens and serves all neighbours while `act` runs.
    fn with_neighbours(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<Ended, PeerError>,
    ) -> Result<Ended, PeerError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(PeerError::Threads)?;
        let (closes, ending) = watch::channel(false);
        let serving = {
            let _inside = runtime.enter();
            let listening = Listening::start(&self.listen)?;
            let scheme = if self.listen.tls.is_some() { "https" } else { "http" };
            let url = format!("{scheme}://{}", listening.address());
            self.shared.observer.notice(&Notice::Listens(&url));
            let router = router(Arc::clone(&self.shared));
            runtime.spawn(listening.serve(router, ConnectionCounts::default(), ending))
        };
        let links = self.links()?;
        let ended = std::thread::scope(|scope| {
            let spawned: Result<Vec<_>, _> = links
                .into_iter()
                .map(|link| {
                    let thread = std::thread::Builder::new().name("fedbo-peer-link".to_owned());
                    thread.spawn_scoped(scope, move || link.run())
                })
                .collect();
            let ended = match spawned {
                Ok(_) => act(self),
                Err(error) => Err(PeerError::Threads(error)),
            };
            self.shared.hub.end();
            ended
        });
        closes.send_replace(true);
        // A panic of the server does not change the outcome of a completed session.
        let _ = runtime.block_on(serving);
        ended
    }

    fn links(&self) -> Result<Vec<Link>, PeerError> {
        let link = |address: &Address| {
            let (url, authority) = (address.url.as_str(), self.authority.as_deref());
            let over = self.shared.hub.over();
            let client = HttpClient::with_proxy(url, authority, &self.proxy, over, "the neighbour")
                .map_err(|source| PeerError::Link { neighbour: url.to_owned(), source })?;
            Ok(Link {
                shared: Arc::clone(&self.shared),
                url: url.to_owned(),
                client,
                slot: address.slot,
                is_first: true,
                said_away: false,
            })
        };
        self.addresses.iter().map(link).collect()
    }
}

/// Stores the addresses of neighbours, and returns the state of the exchange with each.
fn meet(
    memory: &Memory,
    member: &Member,
    addresses: &[Address],
) -> Result<BTreeMap<u32, LinkState>, HomeError> {
    for address in addresses {
        if let Some(slot) = address.slot {
            memory.meet(slot, member.name_of(slot), &address.url, address.key)?;
        }
    }
    let mut links: BTreeMap<u32, LinkState> = member
        .neighbours
        .iter()
        .map(|slot| {
            let is_claimed = addresses.iter().any(|address| address.slot == Some(*slot));
            let link = LinkState { is_claimed, ..LinkState::default() };
            (*slot, link)
        })
        .collect();
    for known in memory.neighbours()? {
        if let Some(link) = links.get_mut(&known.slot) {
            link.key = known.key;
            link.confirmed = known.confirmed;
        }
    }
    Ok(links)
}
