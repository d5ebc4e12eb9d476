//! `fedbo helper`: the second server of secure sums, run by a party other than the coordinator's.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fedbo_helper::{Home, JoinOptions, JoinedStudy, Service};
use fedbo_storage::Mode;
use fedbo_transport::{ConnectionLimits, ListenSettings};
use fedbo_wire::PublicKey;
use serde::Serialize;

use super::parse_listen;
use super::tls_options::TlsOptions;
use crate::logs::LogOptions;
use fedbo_console as console;
use fedbo_console::interrupt;
use fedbo_console::{BadInput, Exit};

/// Run the second server of secure sums, which hides agents' messages from the coordinator
///
/// Two parties run the two servers of a study: one runs its coordinator, the other its helper.
/// Neither server sees a vector; both together would.
#[derive(clap::Subcommand)]
pub(crate) enum Helper {
    Card(Card),
    Join(Join),
    Ls(Ls),
    Run(Run),
}

/// The folder of a helper.
#[derive(clap::Args)]
struct Place {
    /// Folder of the helper: its key, its shares, its ledgers
    #[arg(long, value_name = "DIR", env = "FEDBO_HELPER", default_value = "helper")]
    data: PathBuf,
}

impl Place {
    fn open(&self, mode: Mode) -> anyhow::Result<Home> {
        Ok(Home::open(&self.data, mode)?)
    }
}

/// Print the helper's card for publication; create the helper if the folder has none
///
/// The coordinator's operator writes the card into the federation's file, and every agent passes it
/// when it enrols. Agents must get the card from you.
#[derive(clap::Args)]
pub(crate) struct Card {
    #[command(flatten)]
    place: Place,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Join a study as its helper: fetch its configuration from the coordinator, check and store it,
/// and show its privacy cost
#[derive(clap::Args)]
pub(crate) struct Join {
    /// The study
    study: String,
    /// Address of the coordinator: `https://HOST:PORT`
    #[arg(long, value_name = "URL")]
    coordinator: String,
    /// Public key of the coordinator, as published by its operator (`fedbo coordinator study show
    /// STUDY`)
    #[arg(long, value_name = "KEY")]
    key: String,
    #[command(flatten)]
    place: Place,
    /// Certificate authority of the coordinator (PEM), in addition to those of the system
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Allow plain HTTP to other machines: anybody on the network path can change the messages
    #[arg(long)]
    plain_http: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// List the joined studies
#[derive(clap::Args)]
pub(crate) struct Ls {
    #[command(flatten)]
    place: Place,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

/// Serve the joined studies to their coordinators until Ctrl-C or SIGTERM
///
/// Coordinators connect over HTTPS; without a certificate, only coordinators on this machine can
/// connect.
#[derive(clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    place: Place,
    /// Address and port to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7434", value_parser = parse_listen)]
    listen: SocketAddr,
    #[command(flatten)]
    tls: TlsOptions,
    #[command(flatten)]
    logs: LogOptions,
    /// Print a JSON object once it listens
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listed {
    study: String,
    coordinator: String,
    url: String,
    config: String,
    agents: u32,
    releases: u64,
    proof: &'static str,
    /// Total privacy cost of the planned releases, as it will be charged to the ledger. `None`
    /// without a privacy guarantee.
    privacy: Option<String>,
}

impl Listed {
    fn of(joined: &JoinedStudy) -> Self {
        let study = &joined.study;
        let plan = joined.federation.privacy();
        Self {
            study: study.name.clone(),
            coordinator: joined.coordinator.to_string(),
            url: joined.url.clone(),
            config: study.config.to_string(),
            agents: study.n_slots,
            releases: study.schedule.n_releases(),
            proof: study.sharing.proof().name(),
            privacy: plan.and_then(|plan| plan.paid_claim()).map(ToString::to_string),
        }
    }

    fn lines(&self) -> String {
        let Self { study, coordinator, url, agents, releases, proof, .. } = self;
        let privacy = self.privacy.as_deref().unwrap_or("its releases have no privacy guarantee");
        format!(
            "{study}: {agents} agents, {releases} releases, proof {proof}; {privacy}\n  coordinator {coordinator} at {url}\n"
        )
    }
}

impl Helper {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        crate::core_dumps::turn_off();
        match self {
            Self::Card(command) => command.run(),
            Self::Join(command) => command.run(),
            Self::Ls(command) => command.run(),
            Self::Run(command) => command.run(),
        }
    }
}

impl Card {
    fn run(&self) -> anyhow::Result<Exit> {
        let card = self.place.open(Mode::Create)?.card();
        if self.json {
            let card = serde_json::json!({ "card": card, "key": card.key });
            console::result(&card.to_string())?;
            return Ok(Exit::Done);
        }
        console::result(&card.to_string())?;
        console::remark(
            "give it to the coordinator's operator for the federation's file ([secure_sum] helper), and to the agents through a \
             channel of your own: each agent names it with `fedbo agent enrol --helper`",
        );
        Ok(Exit::Done)
    }
}

impl Join {
    fn run(&self) -> anyhow::Result<Exit> {
        let coordinator: PublicKey =
            self.key.parse().map_err(|error| BadInput(format!("--key: {error}")))?;
        let home = self.place.open(Mode::Existing)?;
        let options = JoinOptions {
            url: self.coordinator.clone(),
            coordinator,
            study: self.study.clone(),
            ca: self.ca.clone(),
            allow_plain_http: self.plain_http,
        };
        let listed = Listed::of(&home.join(&options)?);
        if self.json {
            console::result(&serde_json::to_string_pretty(&listed)?)?;
            return Ok(Exit::Done);
        }
        console::result(&listed.lines())?;
        console::remark("`fedbo helper run` serves it; a running helper serves it within a second");
        Ok(Exit::Done)
    }
}

impl Ls {
    fn run(&self) -> anyhow::Result<Exit> {
        let studies = self.place.open(Mode::Existing)?.studies()?;
        let mut listed = Vec::new();
        let mut unserved = Vec::new();
        for (study, joined) in studies {
            match joined {
                Ok(joined) => listed.push(Listed::of(&joined)),
                Err(error) => unserved.push(format!("{study} cannot be served: {error}\n")),
            }
        }
        match (self.json, listed.is_empty() && unserved.is_empty()) {
            (true, _) => console::result(&serde_json::to_string_pretty(&listed)?)?,
            (false, true) => console::result("no study yet")?,
            (false, false) => {
                console::result(&listed.iter().map(Listed::lines).collect::<String>())?;
            }
        }
        unserved.iter().for_each(|line| console::note(line.trim_end()));
        Ok(Exit::Done)
    }
}

impl Run {
    fn run(&self) -> anyhow::Result<Exit> {
        let home = self.place.open(Mode::Existing)?;
        let _lock = home.lock()?;
        let _logs = self.logs.install()?;
        let stop =
            interrupt::stop_flag("stopping: finishing open requests (once more to exit at once)");
        let tls = self.tls.files();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let listen = ListenSettings {
            address: self.listen,
            tls,
            plain_http: self.tls.plain_http,
            limits: ConnectionLimits::default(),
        };
        let (place, card) = (home.folder().display().to_string(), home.card());
        let studies = home.studies()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| BadInput(format!("cannot start threads: {error}")))?;
        runtime.block_on(async {
            let service = Service::start(home, &listen)?;
            let url = format!("{scheme}://{}", service.address());
            if self.json {
                let listening = serde_json::json!({ "schema_version": 1, "url": url, "store": place, "card": card });
                console::result(&listening.to_string())?;
            }
            console::note(&format!("helper of {place} on {url}"));
            console::note(&format!("its key: {}", card.key));
            for joined in studies.values().filter_map(|joined| joined.as_ref().ok()) {
                console::note(&format!(
                    "study {:?}, with the coordinator {} at {}",
                    joined.study.name, joined.coordinator, joined.url
                ));
            }
            console::remark(
                "it sees no vector. A party that runs both this and the coordinator would see them all; two separate parties \
                 must run them",
            );
            while !stop.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            service.stop().await;
            Ok(Exit::Done)
        })
    }
}
