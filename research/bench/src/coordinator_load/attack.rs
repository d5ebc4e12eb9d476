//! Malicious clients that run alongside the honest ones.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Result;
use clap::ValueEnum;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep, timeout};
use tokio_rustls::TlsConnector;

use super::client::Client;
use super::study::Uploads;

/// Kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Attack {
    /// Slow clients, a quarter each: no handshake, an endless request head, a trickled body, unread
    /// responses
    Slow,
    /// Each client sends 50 uploads per second in an agent's name, with invalid signatures
    Forged,
}

/// Interval over which the attackers connect one after another.
///
/// The interval is about as long as the server's timeout, so that connections and reconnections
/// occur at the same rate.
const COMING: Duration = Duration::from_millis(9_987);
/// Interval between the bytes of a slow client.
const TRICKLE: Duration = Duration::from_secs(1);
/// Interval between a client's forged requests.
const PAUSE: Duration = Duration::from_millis(20);
/// Time after which a slow client reconnects, which is longer than any of the server's timeouts.
const STAY: Duration = Duration::from_secs(60);
/// Number of large responses that are requested but not read.
const N_UNREAD: usize = 400;

/// Attackers that can be switched on and off.
///
/// They run in a separate thread, so they delay honest agents only through the server.
pub(super) struct Attackers {
    is_on: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Attackers {
    pub(super) fn new(
        attack: Attack,
        n: u32,
        address: SocketAddr,
        connector: &TlsConnector,
        uploads: &Arc<Uploads>,
    ) -> Result<Self> {
        let (is_on, told) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut attackers = Vec::new();
        for index in 0..n {
            let attacker = Attacker {
                attack,
                index,
                delay: COMING.mul_f64(f64::from(index) / f64::from(n)),
                address,
                connector: connector.clone(),
                uploads: Arc::clone(uploads),
            };
            attackers.push(attacker.run(told.clone()));
        }
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let all: JoinSet<()> = attackers.into_iter().collect();
                all.join_all().await;
            });
        });
        Ok(Self { is_on, thread })
    }

    pub(super) fn set(&self, is_on: bool) {
        self.is_on.send_replace(is_on);
    }

    /// Stops the attackers and waits for their thread.
    pub(super) fn end(self) {
        drop(self.is_on);
        // The panic message has already been printed.
        let _ = self.thread.join();
    }
}

struct Attacker {
    attack: Attack,
    index: u32,
    /// Delay from the start of an attack to this attacker's connection.
    delay: Duration,
    address: SocketAddr,
    connector: TlsConnector,
    uploads: Arc<Uploads>,
}

impl Attacker {
    async fn run(self, mut told: watch::Receiver<bool>) {
        loop {
            if told.wait_for(|is_on| *is_on).await.is_err() {
                return;
            }
            let told_so = tokio::select! {
                // The attacker reconnects after any response from the server.
                _ = timeout(STAY, self.come()) => None,
                changed = told.changed() => Some(changed),
            };
            match told_so {
                None => sleep(PAUSE).await,
                Some(Ok(())) => {}
                Some(Err(_)) => return,
            }
        }
    }

    async fn come(&self) -> Result<()> {
        sleep(self.delay).await;
        if self.attack == Attack::Forged {
            return self.forge().await;
        }
        if self.index.is_multiple_of(4) {
            let mut stream = TcpStream::connect(self.address).await?;
            stream.read_to_end(&mut Vec::new()).await?;
            return Ok(());
        }
        let mut client = Client::connect(self.address, &self.connector).await?;
        match self.index % 4 {
            1 => {
                send_slowly(&mut client, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: 0", 0)
                    .await
            }
            2 => {
                let request = self.uploads.request(0, 0);
                let n_head = request.windows(4).position(|four| four == b"\r\n\r\n");
                send_slowly(&mut client, &request, n_head.unwrap_or(0) + 4).await
            }
            _ => {
                let request = b"GET /v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";
                client.send(&request.repeat(N_UNREAD)).await?;
                sleep(STAY).await;
                Ok(())
            }
        }
    }

    async fn forge(&self) -> Result<()> {
        let mut client = Client::connect(self.address, &self.connector).await?;
        let mut request = self.uploads.request(0, 0);
        if let Some(last) = request.last_mut() {
            *last ^= 1; // a byte of the signed body
        }
        let mut next = Instant::now();
        loop {
            client.ask(&request).await?;
            next += PAUSE;
            tokio::time::sleep_until(next).await;
        }
    }
}

/// Sends the first bytes at once and the others one by one, then repeats the last byte until the
/// server closes the connection.
async fn send_slowly(client: &mut Client, bytes: &[u8], n_at_once: usize) -> Result<()> {
    client.send(&bytes[..n_at_once]).await?;
    for at in n_at_once.. {
        client.send(&[bytes[at.min(bytes.len() - 1)]]).await?;
        if client.ends_within(TRICKLE).await {
            return Ok(());
        }
    }
    Ok(())
}
