//! Browser pages that show the studies in storages and the runs in folders, and update as these
//! change.
//!
//! This module defines the pages and controls access to them. It reads storages and folders, and
//! writes only if an action is requested. Start at [`Dashboard::start`].
//!
//! | file | responsibility |
//! | --- | --- |
//! | `catalog.rs` | the studies and runs in the given storages, files and folders |
//! | `guard.rs` | access control: the token, the host names, the content security policy |
//! | `assets.rs` | the pages' files, embedded in the program |
//! | `request.rs` | parsing requests and running their handlers |
//! | `studies.rs` | a study as JSON, pictures and tables |
//! | `actions.rs` | changes to a study, if actions are enabled |
//! | `folder.rs` | the files in a results folder |
//! | `runs.rs` | a results folder as JSON, with its files |
//! | `privacy.rs` | a ledger of releases as JSON |
//! | `topology.rs` | the graph of a run's agents as JSON and as a picture |
//! | `schedule.rs` | the schedules of a federation as JSON |
//! | `game.rs` | the results of a game as JSON |
//! | `single.rs` | a page as a single file |
//! | `means.rs` | the mean curves of a run's arms as JSON, cached until its files change |
//! | `events.rs` | new trials and rows as server-sent events |
//! | `operator.rs` | a coordinator's studies, for its operator |

mod actions;
mod assets;
mod catalog;
mod events;
mod folder;
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

pub use catalog::Catalog;
pub use operator::Operator;
pub use single::write as write_page;

use crate::token::Token;
use guard::{Guard, guarded, path_of};
use request::{Problem, Turn, act, read};

/// Maximum number of concurrent event streams, one per browser page.
const WATCHERS: usize = 64;
/// Maximum number of connections. A browser opens six in addition to its event stream.
const CONNECTIONS: usize = 8 * WATCHERS;

/// Maximum time to complete pending requests at shutdown.
const ANSWERS: Duration = Duration::from_secs(5);

/// State shared by all requests.
pub(crate) struct Shared {
    catalog: Catalog,
    /// The coordinator in this process. If set, only its pages are served.
    operator: Option<Operator>,
    /// Secret for actions; `None` if actions are disabled.
    actions: Option<Token>,
    /// One permit per event stream.
    watchers: Arc<Semaphore>,
    /// Held while a page reads results from the start.
    reading: Arc<Mutex<()>>,
    /// Permit for drawing. Each picture occupies one processor.
    drawing: Arc<Semaphore>,
    /// Cache of recently computed means.
    means: means::Computed,
    /// Permit for reading a ledger. The whole ledger is verified each time.
    auditing: Arc<Semaphore>,
    closes: watch::Receiver<bool>,
}

/// Content of the pages: studies and runs, or a coordinator.
pub enum Content {
    /// Studies and runs in the given storages, files and folders.
    Studies {
        /// The studies and runs.
        catalog: Catalog,
        /// The secret for actions; `None` if actions are disabled.
        actions: Option<Token>,
    },
    /// A coordinator's studies, for its operator.
    Coordinator(Operator),
}

/// Access settings of the dashboard.
pub struct Access {
    /// Address to listen on.
    pub address: SocketAddr,
    /// The certificate; `None` for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// True if plain HTTP is allowed on a non-local address.
    pub plain_http: bool,
    /// Token that grants access to a browser.
    pub token: Token,
    /// Additional names of this host, for proxies.
    pub names: Vec<String>,
}

/// A running dashboard.
pub struct Dashboard {
    base: String,
    token: Token,
    once: Token,
    closes: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Dashboard {
    /// Starts the dashboard on the current runtime. The dashboard accepts requests once this
    /// function returns.
    ///
    /// # Errors
    /// Fails if the address cannot be bound, or if the system cannot provide random bytes.
    pub fn start(access: Access, content: Content) -> anyhow::Result<Self> {
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

    /// Returns the URL of the pages, for browsers that already have access.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Returns the URL with the token, which grants access to a browser.
    #[must_use]
    pub fn entrance(&self) -> String {
        format!("{}?token={}", self.base, self.token.text())
    }

    /// Returns a URL that grants access to the first browser that opens it.
    #[must_use]
    pub fn entrance_once(&self) -> String {
        format!("{}?token={}", self.base, self.once.text())
    }

    /// Stops the dashboard. Event streams end immediately; other requests have five seconds to
    /// complete.
    pub async fn stop(self) {
        self.closes.send_replace(true);
        // A panic of a connection is already in the log. An unresponsive storage must not block the
        // shutdown.
        let _ = tokio::time::timeout(ANSWERS, self.serving).await;
    }
}

/// Routes of studies and runs.
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
                "this address does not accept this method; docs/dashboard.md lists the methods of each",
            )
        })
        .with_state(shared);
    guarded(pages, guard)
}

/// Stamp of a file: device, inode, length, and time of the last change.
type Stamp = (u64, u64, u64, i64, i64);

/// Returns the file's stamp, which changes with the file's content.
fn stamp(meta: &Metadata) -> Stamp {
    (meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec())
}

/// Interval for polling a storage.
const LOOK: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::request::in_turn;
    use super::*;

    /// A browser that disconnects does not release its permit before its computation ends.
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
        let (continues, may_go_on) = std::sync::mpsc::channel();
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
        assert_eq!(shared.drawing.available_permits(), 0, "it still runs");
        continues.send(()).expect("it waits for this");
        let next = in_turn(&shared, Turn::Drawing, || Ok(())).await;
        next.map_err(|problem| problem.message).expect("its turn");
    }
}
