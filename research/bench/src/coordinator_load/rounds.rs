//! The agents: connections for their uploads, and one connection that waits for rounds.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use fedbo_wire::{Content, Handout, LedgerEntry, LedgerHead, Limits, StudyState, StudyStatus};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep, sleep_until};
use tokio_rustls::TlsConnector;

use super::Load;
use super::client::{Client, header};
use super::study::{NAME, Prepared, Uploads};

/// Maximum delay of a round. If it is exceeded, the benchmark fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// Idle time after which the service may close a connection.
const IDLE: Duration = Duration::from_secs(5);
/// Maximum size of a release in bytes.
const RELEASE_MAX: u64 = 1 << 24;

/// A study's history as observed by the agents.
pub(super) struct Seen {
    /// Start of each round: the arrival of the preceding handout, or the start of the study.
    ///
    /// The last entry is the end of the last round.
    pub(super) begun: Vec<Instant>,
    /// Ledger entries of all handouts.
    pub(super) entries: Vec<LedgerEntry>,
    /// Ledger head in the last handout.
    pub(super) head: LedgerHead,
    pub(super) uploads: Vec<Sent>,
}

/// One upload.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) round: u64,
    pub(super) slot: u32,
    /// Time from the upload's due time to the response, or from sending if there are no due times.
    pub(super) latency: Duration,
    pub(super) answered: Instant,
    pub(super) fate: UploadOutcome,
}

/// Outcome of an upload.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UploadOutcome {
    Accepted,
    /// The round was over.
    Late,
}

/// Stage of the study, as announced to the upload connections.
#[derive(Clone, Copy)]
enum Stage {
    Before,
    Round(u64, Instant),
    Over,
}

/// Connects, starts the study, and plays all its rounds. Calls `begins` for every round.
pub(super) async fn play(
    addresses: &[SocketAddr],
    connector: &TlsConnector,
    prepared: &Prepared,
    uploads: Arc<Uploads>,
    load: &Load,
    mut begins: impl FnMut(u64) -> Result<()>,
) -> Result<Seen> {
    let (stage, stages) = watch::channel(Stage::Before);
    let mut carriers = JoinSet::new();
    for index in 0..load.connections {
        let slots: Vec<u32> = (index..load.agents).step_by(load.connections as usize).collect();
        let address = addresses[index as usize % addresses.len()];
        let carrier = UploadConnection {
            client: Client::connect(address, connector).await?,
            way: (address, connector.clone()),
            reconnects: load.reconnect,
            used: Instant::now(),
            uploads: Arc::clone(&uploads),
            slots,
            spread: Duration::from_secs_f64(load.spread_s),
            offset: f64::from(index) / f64::from(load.connections),
        };
        carriers.spawn(carrier.carry(stages.clone()));
    }
    let mut waiter = Client::connect(addresses[0], connector).await?;
    prepared.set_state(StudyState::Running)?;
    begin(&mut waiter, prepared).await?;
    let mut seen = Seen {
        begun: Vec::new(),
        entries: Vec::new(),
        head: LedgerHead::NONE,
        uploads: Vec::new(),
    };
    let patience = PATIENCE + Duration::from_secs_f64(load.round_s);
    for round in 0..load.rounds {
        begins(round)?;
        let now = Instant::now();
        seen.begun.push(now);
        stage.send_replace(Stage::Round(round, now));
        let handout = tokio::select! {
            handout = next(&mut waiter, prepared, (round, seen.entries.len()), patience) => handout?,
            Some(ended) = carriers.join_next() => {
                ended??;
                bail!("a connection ended before the study")
            }
        };
        ensure!(handout.round == round + 1, "round {} began after {round}", handout.round);
        let Content::Releases(entries) = handout.content else {
            bail!("messages were handed out instead of releases")
        };
        seen.entries.extend(entries);
        seen.head = handout.head;
    }
    seen.begun.push(Instant::now());
    stage.send_replace(Stage::Over);
    while let Some(carried) = carriers.join_next().await {
        seen.uploads.extend(carried??);
    }
    Ok(seen)
}

/// Waits until round 0 collects.
async fn begin(waiter: &mut Client, prepared: &Prepared) -> Result<()> {
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        let request = prepared.get(&format!("/v1/studies/{NAME}"))?;
        let answer = waiter.ask(&request).await?;
        let status: StudyStatus = serde_json::from_slice(answer.body)
            .with_context(|| format!("the status: {}", String::from_utf8_lossy(answer.body)))?;
        if status.state == StudyState::Running && status.collects {
            return Ok(());
        }
        sleep(Duration::from_millis(2)).await;
    }
    bail!("the study did not begin")
}

/// Waits for the handout after a round.
async fn next(
    waiter: &mut Client,
    prepared: &Prepared,
    (round, n_entries): (u64, usize),
    patience: Duration,
) -> Result<Handout> {
    let since = Instant::now();
    while since.elapsed() < patience {
        let query = format!("after={round}&entries={n_entries}&wait=20");
        let request = prepared.get(&format!("/v1/studies/{NAME}/handouts?{query}"))?;
        let answer = waiter.ask(&request).await?;
        match answer.status {
            200 => {
                let limits = Limits {
                    n_features: prepared.study.n_features,
                    n_slots: prepared.study.n_slots,
                    release_bytes_max: RELEASE_MAX,
                };
                return Ok(Handout::from_bytes(answer.body, &prepared.coordinator, limits)?);
            }
            204 if header(answer.head, "fedbo-state") == Some("running") => {}
            status => bail!("{status} to a poll: {}", String::from_utf8_lossy(answer.body)),
        }
    }
    bail!("round {} did not begin", round + 1)
}

/// One connection and the agents that upload over it.
struct UploadConnection {
    client: Client,
    way: (SocketAddr, TlsConnector),
    /// True if every upload uses a new connection.
    reconnects: bool,
    used: Instant,
    uploads: Arc<Uploads>,
    slots: Vec<u32>,
    /// Time over which a round's uploads are spread. Zero if each upload is sent after the response
    /// to the previous one.
    spread: Duration,
    /// Position of this connection among all connections, in `[0,1)`.
    offset: f64,
}

impl UploadConnection {
    async fn carry(mut self, mut stages: watch::Receiver<Stage>) -> Result<Vec<Sent>> {
        let mut sent = Vec::new();
        let mut next_round = 0;
        loop {
            let stage = *stages
                .wait_for(|stage| match stage {
                    Stage::Before => false,
                    Stage::Round(round, _) => *round >= next_round,
                    Stage::Over => true,
                })
                .await?;
            let (current, begun) = match stage {
                Stage::Round(round, begun) => (round, begun),
                Stage::Before | Stage::Over => return Ok(sent),
            };
            if self.used.elapsed() > IDLE {
                self.client = Client::connect(self.way.0, &self.way.1).await?;
            }
            // Uploads of missed rounds are sent too, and counted as late.
            for round in next_round..=current {
                for at in 0..self.slots.len() {
                    let due = begun + self.due(at);
                    sleep_until(due).await;
                    sent.push(self.upload(self.slots[at], round, due).await?);
                }
            }
            next_round = current + 1;
            self.used = Instant::now();
        }
    }

    /// Returns the time from a round's start to the due time of this connection's slot `at`.
    fn due(&self, at: usize) -> Duration {
        let place = crate::measure::count(at) + self.offset;
        self.spread.mul_f64(place / crate::measure::count(self.slots.len()))
    }

    async fn upload(&mut self, slot: u32, round: u64, due: Instant) -> Result<Sent> {
        let request = self.uploads.request(slot, round);
        let woken = Instant::now();
        // Timers have a resolution of milliseconds. Timer delays are not counted as latency; delays
        // caused by the previous response are.
        let since = match self.spread.is_zero() || woken < due + Duration::from_millis(2) {
            true => woken,
            false => due,
        };
        let fate = loop {
            if self.reconnects {
                self.client = Client::connect(self.way.0, &self.way.1).await?;
            }
            let answer = self.client.ask(&request).await?;
            let has_code =
                |code: &str| answer.body.starts_with(format!("{{\"code\":\"{code}\"").as_bytes());
            match answer.status {
                200 => break UploadOutcome::Accepted,
                409 if has_code("late") => break UploadOutcome::Late,
                410 => break UploadOutcome::Late, // the last round
                // Another replica has already started the round.
                409 if has_code("early") || has_code("paused") => {}
                status => bail!(
                    "slot {slot}, round {round}: {status} {}",
                    String::from_utf8_lossy(answer.body)
                ),
            }
            sleep(Duration::from_millis(100)).await;
        };
        let answered = Instant::now();
        Ok(Sent { round, slot, latency: answered - since, answered, fate })
    }
}
