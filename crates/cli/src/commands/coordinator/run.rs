//! `fedbo coordinator run`: the coordinator service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fedbo_coordinator::{HelperConnection, Home, Service, ServiceSettings, Study};
use fedbo_storage::Mode;
use fedbo_transport::{ConnectionLimits, check_authority};

use super::Place;
use crate::commands::parse_listen;
use crate::commands::tls_options::TlsOptions;
use crate::logs::LogOptions;
use fedbo_console as console;
use fedbo_console::interrupt;
use fedbo_console::{BadInput, Exit};
use fedbo_web::dashboard::{Access, Content, Dashboard, Operator};
use fedbo_web::token::{Token, kept_token};

/// Serve a coordinator's studies to their agents until Ctrl-C or SIGTERM
///
/// Agents connect over HTTPS; without a certificate, only agents on this machine can connect. New
/// studies are served without a restart. Only this process sees the agents' messages, and it
/// discards them after their round; agents trust its operator with them.
#[derive(clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    place: Place,
    /// Address and port to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7433", value_parser = parse_listen)]
    listen: SocketAddr,
    #[command(flatten)]
    tls: TlsOptions,
    /// Address and port of /metrics, /healthz and /readyz, over plain HTTP
    ///
    /// By default they are served at the agents' address if it uses plain HTTP. With TLS they are
    /// not served at all, because they are for the operator; agents get a 404.
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    /// Address and port of the operator's web pages; the agents' resources are not served there
    ///
    /// The pages show rosters, rounds, deliveries and ledgers. They are read-only. If the address
    /// is reachable from other machines, they need --dashboard-token, and the service's certificate
    /// or --plain-http.
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    dashboard: Option<SocketAddr>,
    /// File with the token of the operator's pages, created if absent; by default each start prints
    /// a new token
    #[arg(long, value_name = "FILE", requires = "dashboard")]
    dashboard_token: Option<PathBuf>,
    /// Host name of the operator's pages, with the port unless it is the scheme's default
    #[arg(long = "dashboard-host", value_name = "NAME", requires = "dashboard")]
    dashboard_hosts: Vec<String>,
    /// Certificate authority for helpers of secure sums (PEM), in addition to those of the system
    #[arg(long, value_name = "FILE")]
    helper_ca: Option<PathBuf>,
    /// Create a coordinator with a new key if the folder has none
    #[arg(long, conflicts_with = "store")]
    create: bool,
    /// Maximum number of open connections
    #[arg(long, value_name = "N", default_value_t = ConnectionLimits::default().n_connections, value_parser = parse_connections)]
    max_connections: usize,
    /// Duration of the lease in seconds: a coordinator that is silent for this long loses its
    /// studies to another one on the same database
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = parse_lease)]
    lease_s: Duration,
    #[command(flatten)]
    logs: LogOptions,
    /// Print a JSON object once it listens: its address and the location of its studies
    #[arg(long)]
    json: bool,
}

/// Returns an identifier that distinguishes this coordinator from others.
fn holder(is_shared: bool) -> anyhow::Result<String> {
    if !is_shared {
        // The lock on the folder excludes other coordinators. The next process in the folder uses
        // the same identifier, so it need not wait for the lease to expire.
        return Ok("the coordinator of this folder".to_owned());
    }
    let mut id = [0; 8];
    getrandom::fill(&mut id)
        .map_err(|error| BadInput(format!("cannot get random bytes from the system: {error}")))?;
    Ok(format!("process {}, {:016x}", std::process::id(), u64::from_le_bytes(id)))
}

fn parse_lease(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.5..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds from 0.5 to 3600".to_owned()),
    }
}

fn parse_connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=1_000_000) => Ok(n),
        _ => Err("expected a number from 1 to 1000000".to_owned()),
    }
}

/// Describes the two servers of each study with secure sums.
fn sums(home: &Home) -> anyhow::Result<Vec<String>> {
    let (key, mut lines) = (home.key(), Vec::new());
    for record in home.store().studies()? {
        // The service logs an error for studies that cannot be served.
        let Ok(Study { name, sum: Some(sum), .. }) = Study::of(&record, &key) else {
            continue;
        };
        lines.push(format!(
            "study {name:?} is summed by two servers: this coordinator, {}, and the helper {} at {}",
            sum.leader.key, sum.helper.key, sum.helper_url
        ));
    }
    Ok(lines)
}

/// The running server of the operator's pages.
struct Served {
    pages: Dashboard,
    /// URL of the pages, with the token unless it is stored in a file.
    url: String,
}

impl Run {
    /// Returns the access settings of the operator's pages, if enabled.
    fn access(&self) -> anyhow::Result<Option<Access>> {
        let Some(address) = self.dashboard else {
            return Ok(None);
        };
        if !address.ip().is_loopback() && self.dashboard_token.is_none() {
            return Err(BadInput(format!(
                "--dashboard {address}: pages reachable from other machines need --dashboard-token FILE; or listen on 127.0.0.1 \
                 and connect with ssh -L"
            ))
            .into());
        }
        let token = match &self.dashboard_token {
            Some(file) => kept_token(file)?,
            None => Token::new()?,
        };
        // On this machine, plain HTTP avoids a browser's certificate warning.
        let tls = self.tls.files().filter(|_| !address.ip().is_loopback());
        let (plain_http, names) = (self.tls.plain_http, self.dashboard_hosts.clone());
        Ok(Some(Access { address, tls, plain_http, token, names }))
    }

    /// Starts serving the operator's pages.
    fn serve(&self, access: Access, home: Arc<Home>, service: &Service) -> anyhow::Result<Served> {
        let content = Content::Coordinator(Operator { home, observer: service.observer() });
        let pages = Dashboard::start(access, content)?;
        let url = match self.dashboard_token {
            Some(_) => pages.base().to_owned(),
            None => pages.entrance(),
        };
        Ok(Served { pages, url })
    }

    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let is_shared = self.place.store.is_some();
        let access = self.access()?;
        // To agents, a new key is a different coordinator, so a key is only created on request.
        let mode = match self.create {
            true => Mode::Create,
            false => Mode::Existing,
        };
        let home = Arc::new(self.place.open(mode)?);
        let _lock = (!is_shared).then(|| home.lock()).transpose()?;
        let logs = self.logs.install()?;
        let stop =
            interrupt::stop_flag("stopping: finishing open requests (once more to exit at once)");
        if let Some(path) = &self.helper_ca {
            check_authority(path).map_err(|error| BadInput(format!("--helper-ca {error}")))?;
        }
        let sums = sums(&home)?; // not inside the runtime, because it blocks on the store
        let tls = self.tls.files();
        let is_tls = tls.is_some();
        let settings = ServiceSettings {
            listen: self.listen,
            tls,
            plain_http: self.tls.plain_http,
            metrics: self.metrics,
            store: home.store(),
            ledgers: home.path().to_owned(),
            key: home.key(),
            holder: holder(is_shared)?,
            lease: self.lease_s,
            recorder: logs.recorder(),
            helper: HelperConnection {
                authority: self.helper_ca.clone(),
                plain_http: self.tls.plain_http,
            },
            limits: ConnectionLimits {
                n_connections: self.max_connections,
                ..ConnectionLimits::default()
            },
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| BadInput(format!("cannot start threads: {error}")))?;
        runtime.block_on(async {
            let service = Service::start(settings).await?;
            let served = access.map(|access| self.serve(access, Arc::clone(&home), &service));
            let served = served.transpose()?;
            let scheme = if is_tls { "https" } else { "http" };
            let place = home.database().map_or_else(|| home.path().display().to_string(), str::to_owned);
            let url = format!("{scheme}://{}", service.address());
            if self.json {
                let mut listening =
                    serde_json::json!({ "schema_version": 1, "url": url, "store": place });
                if let Some(served) = &served {
                    listening["dashboard"] = served.url.as_str().into();
                }
                console::result(&listening.to_string())?;
            }
            console::note(&format!("coordinator of {place} on {url}"));
            if let Some(address) = service.metrics() {
                console::note(&format!("metrics and health checks on http://{address}"));
            }
            if let Some(served) = &served {
                console::note(&match &self.dashboard_token {
                    Some(file) => {
                        format!("operator's pages on {}; in a new browser, open {0}?token=TOKEN with the token in {}", served.url, file.display())
                    }
                    None => format!("operator's pages on {}", served.url),
                });
            }
            for line in &sums {
                console::note(line);
            }
            console::remark("it sees the agents' messages and is trusted with them, unless two servers sum; releases protect agents from everybody else");
            while !stop.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            if let Some(served) = served {
                served.pages.stop().await;
            }
            service.stop().await;
            Ok(Exit::Done)
        })
    }
}
