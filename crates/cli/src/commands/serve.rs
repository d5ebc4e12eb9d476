//! `fedbo serve`: serves one party's study over HTTP to thin workers in any language.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fedbo_transport::{ConnectionLimits, ListenSettings};

use super::parse_listen;
use super::tls_options::TlsOptions;
use fedbo_console as console;
use fedbo_console::interrupt;
use fedbo_console::text::counted;
use fedbo_console::{BadInput, Exit};
use fedbo_documents::study_ref::StudyRef;
use fedbo_web::serve::Server;
use fedbo_web::token::{Token, kept_token};

/// Serve the trials of a study to workers over HTTP until Ctrl-C or SIGTERM
///
/// Workers ask for trials, report values and tell outcomes; they need neither a database nor fedbo.
/// The study is created from its file, or resumed. A server that is killed and restarted keeps the
/// trials that are being evaluated. fedbo tune may work on the study at the same time.
#[derive(clap::Args)]
pub(crate) struct Serve {
    /// The study's file, for instance examples/train.toml; its command is not run
    #[arg(value_name = "STUDY")]
    file: String,
    /// Address and port to listen on; port 0 chooses a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7436", value_parser = parse_listen)]
    listen: SocketAddr,
    #[command(flatten)]
    tls: TlsOptions,
    /// File with the workers' token, created if absent; by default each start prints a new token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print a JSON object once it listens: its address, and its token unless --token-file is given
    #[arg(long)]
    json: bool,
}

impl Serve {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let token = self.token()?;
        let opened = StudyRef::new(&self.file, None).to_serve()?;
        let (name, place) = (opened.name().to_owned(), opened.storage.clone());
        let n_told = opened.study.trials()?.iter().filter(|trial| trial.told().is_some()).count();
        let wanted = counted(opened.n_trials().unwrap_or_default(), "trial");
        let stop = interrupt::stop_flag("stopping (once more to exit at once)");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| BadInput(format!("cannot start threads: {error}")))?;
        let done = runtime.block_on(async {
            let server = Server::start(&self.settings(), token.clone(), opened).await?;
            self.announce(server.address(), &token)?;
            console::remark(&format!("{name}: {n_told} of {wanted} told in {place}"));
            while !stop.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            server.stop().await;
            Ok(Exit::Done)
        });
        // A blocked storage call must not delay the exit. The write that it blocks was not
        // acknowledged to a worker.
        runtime.shutdown_timeout(Duration::from_secs(1));
        done
    }

    fn token(&self) -> Result<Token, BadInput> {
        match &self.token_file {
            Some(file) => kept_token(file),
            None if self.listen.ip().is_loopback() => Token::new(),
            None => Err(BadInput(format!(
                "--listen {}: workers on other machines need a permanent token: --token-file FILE, which is created if it does \
                 not exist",
                self.listen
            ))),
        }
    }

    fn settings(&self) -> ListenSettings {
        ListenSettings {
            address: self.listen,
            tls: self.tls.files(),
            plain_http: self.tls.plain_http,
            limits: ConnectionLimits::default(),
        }
    }

    /// Prints the server's address, and the token unless it is stored in a file.
    fn announce(&self, address: SocketAddr, token: &Token) -> anyhow::Result<()> {
        let scheme = if self.tls.files().is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{address}");
        let token = self.token_file.is_none().then(|| token.text());
        if self.json {
            let listening = serde_json::json!({ "schema_version": 1, "url": url, "token": token });
            console::result(&listening.to_string())?;
            return Ok(());
        }
        console::result(&url)?;
        if let Some(token) = token {
            console::result(&format!("token {token}"))?;
        }
        Ok(())
    }
}
