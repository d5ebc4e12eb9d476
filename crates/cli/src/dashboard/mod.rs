//! Pages in the browser: the studies of some storages and the runs of some folders, as they are and as they change.
//!
//! Decides what is served, and to whom. Reads storages and folders, and writes nothing but what an action asks for. Start at [`Dashboard::start`].
//!
//! | file | decides |
//! | --- | --- |
//! | `catalog.rs` | which studies and runs there are: those of the storages, files and folders that were named |
//! | `guard.rs` | which requests are answered: the token, the names of the host, the policy of the pages |
//! | `assets.rs` | the files of the pages, which are part of the program |
//! | `request.rs` | what a request is, and how it is answered |
//! | `studies.rs` | a study as JSON, as pictures and as tables |
//! | `actions.rs` | what a page may change of a study, if actions are served |
//! | `runs.rs` | a results folder as JSON, with its files |
//! | `privacy.rs` | a ledger of releases as JSON |
//! | `topology.rs` | the graph of a run's agents as JSON and as a picture |
//! | `schedule.rs` | the schedules of a federation as JSON |
//! | `game.rs` | the results of a game as JSON |
//! | `single.rs` | one page in a file of its own |
//! | `means.rs` | the mean courses of a run's arms as JSON, computed once for what stands in its file |
//! | `events.rs` | trials and rows as they come, as server-sent events |
//! | `operator.rs` | a coordinator's studies for its operator |

mod actions;
mod assets;
mod catalog;
mod events;
mod game;
mod guard;
mod means;
mod operator;
mod privacy;
mod request;
mod runs;
mod schedule;
mod single;
mod studies;
mod topology;

use std::fs::Metadata;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use fedbo_transport::{ConnectionCounts, ConnectionLimits, ListenSettings, Listening, TlsFiles};
use hyper::StatusCode;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

pub(crate) use catalog::Catalog;
pub(crate) use operator::Operator;
pub(crate) use single::write as write_page;

use crate::token::Token;
use guard::{Guard, guarded, path_of};
use request::{Problem, Turn, act, read};

/// Browsers that watch at once, each with a stream of events of its own.
const WATCHERS: usize = 64;
/// Connections at most: a browser opens six beside its stream.
const CONNECTIONS: usize = 8 * WATCHERS;

/// The time that requests have to be answered when it ends.
const ANSWERS: Duration = Duration::from_secs(5);

/// The state that all requests share.
pub(crate) struct Shared {
    catalog: Catalog,
    /// The coordinator that runs in this process; its pages are served alone.
    operator: Option<Operator>,
    /// The secret that pages show with actions; none if none are served.
    actions: Option<Token>,
    /// One permit a stream of events.
    watchers: Arc<Semaphore>,
    /// Held while a page reads results from their beginning.
    reading: Arc<Mutex<()>>,
    /// One permit for a picture that is drawn: they take a processor each.
    drawing: Arc<Semaphore>,
    /// The means that were computed last.
    means: means::Computed,
    /// One permit for a ledger that is read: all of it is verified.
    auditing: Arc<Semaphore>,
    closes: watch::Receiver<bool>,
}

/// The content of the pages: studies and runs, or a coordinator.
pub(crate) enum Content {
    /// With the secret of actions, if they are served.
    Studies {
        catalog: Catalog,
        actions: Option<Token>,
    },
    Coordinator(Operator),
}

/// The way in which the dashboard is reached.
pub(crate) struct Access {
    pub(crate) address: SocketAddr,
    /// Its certificate; none for plain HTTP.
    pub(crate) tls: Option<TlsFiles>,
    /// True if plain HTTP is also spoken on an address that others reach.
    pub(crate) plain_http: bool,
    pub(crate) token: Token,
    /// Further names of this host, for proxies.
    pub(crate) names: Vec<String>,
}

/// The dashboard, as it serves.
pub(crate) struct Dashboard {
    base: String,
    token: Token,
    once: Token,
    closes: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Dashboard {
    /// Starts it on the current runtime; it answers when this returns.
    ///
    /// # Errors
    /// If the address cannot be listened on, or the system has no randomness.
    pub(crate) fn start(access: Access, content: Content) -> anyhow::Result<Self> {
        let is_tls = access.tls.is_some();
        let listening = Listening::start(&ListenSettings {
            address: access.address,
            tls: access.tls,
            plain_http: access.plain_http,
            limits: ConnectionLimits { n_connections: CONNECTIONS, ..ConnectionLimits::default() },
        })?;
        let (address, token, once) = (listening.address(), access.token.clone(), Token::new()?);
        let scheme = if is_tls { "https" } else { "http" };
        let base = format!("{scheme}://{address}/{}/", path_of(&token));
        let (closes, ending) = watch::channel(false);
        let mut secret = None;
        let (routes, catalog, operator) = match content {
            Content::Studies { catalog, actions } => {
                secret = actions;
                (routes(), catalog, None)
            }
            Content::Coordinator(operator) => {
                (operator::routes(), Catalog::default(), Some(operator))
            }
        };
        let shared = Arc::new(Shared {
            catalog,
            operator,
            actions: secret.clone(),
            watchers: Arc::new(Semaphore::new(WATCHERS)),
            reading: Arc::default(),
            drawing: Arc::new(Semaphore::new(1)),
            means: means::Computed::default(),
            auditing: Arc::new(Semaphore::new(1)),
            closes: ending.clone(),
        });
        let guard = Guard::new(access.token, address, &access.names, is_tls)
            .with_once(once.clone())
            .with_actions(secret);
        let router = router(routes, shared, guard);
        let serving = tokio::spawn(listening.serve(router, ConnectionCounts::default(), ending));
        Ok(Self { base, token, once, closes, serving })
    }

    /// The address of its pages, for browsers that know the token.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The address with the token, which lets a browser in.
    pub(crate) fn entrance(&self) -> String {
        format!("{}?token={}", self.base, self.token.text())
    }

    /// The address that lets in the browser that opens it first.
    pub(crate) fn entrance_once(&self) -> String {
        format!("{}?token={}", self.base, self.once.text())
    }

    /// Ends it: streams end, and requests that are being answered are, as far as they take no longer than [`ANSWERS`].
    pub(crate) async fn stop(self) {
        self.closes.send_replace(true);
        // A panic of a connection is in the log already; a storage that does not answer keeps nobody.
        let _ = tokio::time::timeout(ANSWERS, self.serving).await;
    }
}

/// The routes of studies and runs.
fn routes() -> Router<Arc<Shared>> {
    use Turn::{Auditing, Drawing, Here, Now};
    Router::new()
        .route("/", read(Here, assets::page))
        .route("/assets/{*name}", read(Here, assets::asset))
        .route("/api/studies", read(Now, studies::list))
        .route("/api/studies/{id}", read(Now, studies::one))
        .route("/api/studies/{id}/events", read(Now, events::trials))
        .route("/api/studies/{id}/pictures/{name}", read(Drawing, studies::picture))
        .route("/api/studies/{id}/surface", read(Drawing, studies::surface))
        .route("/api/studies/{id}/importance", read(Drawing, studies::importance))
        .route("/api/studies/{id}/transfer", read(Drawing, studies::transfer))
        .route("/api/studies/{id}/enqueue", act(actions::enqueue))
        .route("/api/studies/{id}/retry", act(actions::retry))
        .route("/api/studies/{id}/stop", act(actions::stop))
        .route("/api/actions", read(Here, actions::secret))
        .route("/api/studies/{id}/trials.csv", read(Now, studies::csv))
        .route("/api/studies/{id}/trials.json", read(Now, studies::json))
        .route("/api/runs", read(Now, runs::list))
        .route("/api/runs/{id}", read(Now, runs::one))
        .route("/api/runs/{id}/means", read(Drawing, means::means))
        .route("/api/runs/{id}/ledger", read(Auditing, privacy::ledger))
        .route("/api/runs/{id}/ledger/check", read(Auditing, privacy::check))
        .route("/api/runs/{id}/topology", read(Drawing, topology::graph))
        .route("/api/runs/{id}/topology/{name}", read(Drawing, topology::drawn))
        .route("/api/runs/{id}/schedule", read(Now, schedule::schedule))
        .route("/api/runs/{id}/game", read(Now, game::game))
        .route("/api/runs/{id}/events", read(Now, events::rows))
        .route("/api/runs/{id}/files/{name}", read(Now, runs::file))
}

fn router(routes: Router<Arc<Shared>>, shared: Arc<Shared>, guard: Guard) -> Router {
    let pages = routes
        .fallback(|| async { Problem::absent("there is no such page") })
        .method_not_allowed_fallback(|| async {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this address does not take this method; docs/dashboard.md lists what each takes",
            )
        })
        .with_state(shared);
    guarded(pages, guard)
}

/// The state of a file: device, number, length, and the time of the last change.
type Stamp = (u64, u64, u64, i64, i64);

/// The state of a file, which changes with its content.
fn stamp(meta: &Metadata) -> Stamp {
    (meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec())
}

/// The time between two looks into a storage for news.
const LOOK: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::request::in_turn;
    use super::*;

    /// A browser that leaves does not let another computation begin beside that which it asked for.
    #[tokio::test]
    async fn work_that_nobody_waits_for_keeps_its_place() {
        let shared = Arc::new(Shared {
            catalog: Catalog::default(),
            operator: None,
            actions: None,
            watchers: Arc::new(Semaphore::new(1)),
            reading: Arc::default(),
            drawing: Arc::new(Semaphore::new(1)),
            means: means::Computed::default(),
            auditing: Arc::new(Semaphore::new(1)),
            closes: watch::channel(false).1,
        });
        let (begins, begun) = std::sync::mpsc::channel();
        let (goes_on, may_go_on) = std::sync::mpsc::channel();
        let of_a_browser = Arc::clone(&shared);
        let asked = tokio::spawn(async move {
            let work = move || {
                begins.send(())?;
                Ok(may_go_on.recv()?)
            };
            in_turn(&of_a_browser, Turn::Drawing, work).await.map_err(|problem| problem.message)
        });
        tokio::task::spawn_blocking(move || begun.recv()).await.expect("a thread").expect("begun");
        asked.abort();
        assert!(asked.await.expect_err("it was abandoned").is_cancelled());
        assert_eq!(shared.drawing.available_permits(), 0, "it goes on");
        goes_on.send(()).expect("it waits for this");
        let next = in_turn(&shared, Turn::Drawing, || Ok(())).await;
        next.map_err(|problem| problem.message).expect("its turn");
    }
}
