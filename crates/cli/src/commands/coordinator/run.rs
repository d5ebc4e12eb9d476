//! `fedbo coordinator run`: the service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fedbo_coordinator::{HelperWay, Home, Service, ServiceSettings, Study};
use fedbo_storage::Mode;
use fedbo_transport::{ConnectionLimits, check_authority};

use super::Place;
use crate::commands::parse_listen;
use crate::commands::tls_options::TlsOptions;
use crate::console;
use crate::dashboard::{Access, Content, Dashboard, Operator};
use crate::exit::{BadInput, Exit};
use crate::interrupt;
use crate::logs::LogOptions;
use crate::token::{Token, kept_token};

/// Serve the studies of a coordinator to their agents, until Ctrl-C or SIGTERM
///
/// Agents reach it over HTTPS; without a certificate it serves this machine alone. Studies that are created while it runs are
/// served too. What agents send is seen by this process alone and does not outlive its round; who runs it is trusted with it.
#[derive(clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    place: Place,
    /// Address and port to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7433", value_parser = parse_listen)]
    listen: SocketAddr,
    #[command(flatten)]
    tls: TlsOptions,
    /// Address and port for /metrics, /healthz and /readyz, over plain HTTP
    ///
    /// Without it they are served beside the agents' resources where those are on plain HTTP, and nowhere where they are on TLS: they
    /// are the operator's, and agents get a 404.
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    /// Address and port of the operator's pages in the browser, never those of agents
    ///
    /// They show rosters, rounds, who delivered, and the ledgers, and change nothing. On another address than this machine's they need
    /// --dashboard-token, and the service's certificate or --plain-http.
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    dashboard: Option<SocketAddr>,
    /// File with the token of the operator's pages; one that is not there is made. Without it each start prints a new token
    #[arg(long, value_name = "FILE", requires = "dashboard")]
    dashboard_token: Option<PathBuf>,
    /// Name under which the operator's pages are reached, with its port unless it is that of the scheme
    #[arg(long = "dashboard-host", value_name = "NAME", requires = "dashboard")]
    dashboard_hosts: Vec<String>,
    /// Authority of the certificates of helpers of secure sums (PEM), besides those that the system trusts
    #[arg(long, value_name = "FILE")]
    helper_ca: Option<PathBuf>,
    /// Begin a coordinator, with a new key, if the folder has none
    #[arg(long, conflicts_with = "store")]
    create: bool,
    /// Open connections at most
    #[arg(long, value_name = "N", default_value_t = ConnectionLimits::default().n_connections, value_parser = parse_connections)]
    max_connections: usize,
    /// Seconds after which another coordinator of the same database goes on with studies of one that does not answer
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = parse_lease)]
    lease_s: Duration,
    #[command(flatten)]
    logs: LogOptions,
    /// Print a JSON object once it listens: its address, and where its studies are
    #[arg(long)]
    json: bool,
}

/// Tells this coordinator from others.
fn holder(is_shared: bool) -> anyhow::Result<String> {
    if !is_shared {
        // The lock keeps others out, so who comes next is the same coordinator and need not wait for a lease to end.
        return Ok("the coordinator of this folder".to_owned());
    }
    let mut id = [0; 8];
    getrandom::fill(&mut id)
        .map_err(|error| BadInput(format!("the system has no randomness to give: {error}")))?;
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

/// Both operators of each study that two servers sum, in words.
fn sums(home: &Home) -> anyhow::Result<Vec<String>> {
    let (key, mut lines) = (home.key(), Vec::new());
    for record in home.store().studies()? {
        // One that cannot be served is said in the log.
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

/// The operator's pages, as they serve.
struct Served {
    pages: Dashboard,
    /// Their address, with the token unless a file keeps it.
    url: String,
}

impl Run {
    /// The way to the operator's pages, if they are asked for.
    fn access(&self) -> anyhow::Result<Option<Access>> {
        let Some(address) = self.dashboard else {
            return Ok(None);
        };
        if !address.ip().is_loopback() && self.dashboard_token.is_none() {
            return Err(BadInput(format!(
                "--dashboard {address}: pages that other machines reach need --dashboard-token FILE; or listen on 127.0.0.1, and \
                 reach them by ssh -L"
            ))
            .into());
        }
        let token = match &self.dashboard_token {
            Some(file) => kept_token(file)?,
            None => Token::new()?,
        };
        // On this machine plain HTTP is what a browser takes without a warning.
        let tls = self.tls.files().filter(|_| !address.ip().is_loopback());
        let (plain_http, names) = (self.tls.plain_http, self.dashboard_hosts.clone());
        Ok(Some(Access { address, tls, plain_http, token, names }))
    }

    /// Starts the operator's pages.
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
        // A coordinator with a new key is another one to all agents: nothing begins one by mistake.
        let mode = match self.create {
            true => Mode::Create,
            false => Mode::Existing,
        };
        let home = Arc::new(self.place.open(mode)?);
        let _lock = (!is_shared).then(|| home.lock()).transpose()?;
        let logs = self.logs.install()?;
        let stop = interrupt::stop_flag(
            "stopping: requests are being answered (once more to exit at once)",
        );
        if let Some(path) = &self.helper_ca {
            check_authority(path).map_err(|error| BadInput(format!("--helper-ca {error}")))?;
        }
        let sums = sums(&home)?; // not among the tasks below: it waits for the store
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
            helper: HelperWay {
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
            .map_err(|error| BadInput(format!("no threads can be started: {error}")))?;
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
            console::remark("it sees what agents send, and is trusted with it, unless two servers sum; releases protect agents from everybody else");
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
