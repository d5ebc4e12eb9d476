//! `fedbo dashboard`: studies and runs in the browser.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Command as Process, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::parse_listen;
use fedbo_console as console;
use fedbo_console::interrupt;
use fedbo_console::{BadInput, Exit};
use fedbo_web::dashboard::{Access, Catalog, Content, Dashboard as Pages, write_page};
use fedbo_web::token::{Token, kept_token};

/// Show studies and runs live in the browser until Ctrl-C
///
/// Serves only this machine, and is read-only unless --actions is given. Trials of other programs
/// appear as they finish. The address contains a token; anybody with the token can see the pages.
/// To connect from another machine: ssh -L 7434:127.0.0.1:7434 HOST.
#[derive(clap::Args)]
pub(crate) struct Dashboard {
    /// Study files, storages (sqlite:FILE, postgresql://USER@HOST/DATABASE), results folders, or
    /// folders that contain them
    #[arg(value_name = "STUDY", default_value = ".")]
    studies: Vec<String>,
    /// Address and port to listen on, on this machine only; port 0 chooses a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7434", value_parser = parse_listen)]
    listen: SocketAddr,
    /// Host name of a proxy in front of the dashboard, with the port unless it is the scheme's
    /// default
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// File with the access token, created if absent; by default each start prints a new token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Let study pages also add points, retry failed trials and stop a study, like fedbo enqueue,
    /// retry and stop
    #[arg(long)]
    actions: bool,
    /// Write the page of one study or run to this file, with its pictures and without scripts, and
    /// exit
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "hosts", "token_file", "actions", "no_open", "json"])]
    html: Option<PathBuf>,
    /// Only print the address; do not open a browser
    #[arg(long)]
    no_open: bool,
    /// Print a JSON object with the address once it listens
    #[arg(long)]
    json: bool,
}

impl Dashboard {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        if !self.listen.ip().is_loopback() {
            return Err(BadInput(format!(
                "--listen {}: the pages are only for this machine; listen on 127.0.0.1, and connect from elsewhere with ssh -L \
                 or through a TLS proxy (--host NAME)",
                self.listen
            ))
            .into());
        }
        let catalog = Catalog::new(&self.studies)?;
        if let Some(file) = &self.html {
            write_page(&catalog, file)?;
            console::result(&format!("{} has the page", file.display()))?;
            return Ok(Exit::Done);
        }
        let token = match &self.token_file {
            Some(file) => kept_token(file)?,
            None => Token::new()?,
        };
        let actions = self.actions.then(Token::new).transpose()?;
        let stop = interrupt::stop_flag("stopping (once more to exit at once)");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| BadInput(format!("cannot start threads: {error}")))?;
        let done = runtime.block_on(async {
            let access = Access {
                address: self.listen,
                tls: None,
                plain_http: false,
                token,
                names: self.hosts.clone(),
            };
            let pages = Pages::start(access, Content::Studies { catalog, actions })?;
            // A token that is stored in a file is not printed.
            let url = match &self.token_file {
                Some(_) => pages.base().to_owned(),
                None => pages.entrance(),
            };
            if self.json {
                let listening = serde_json::json!({ "schema_version": 1, "url": url });
                console::result(&listening.to_string())?;
            } else {
                console::result(&url)?;
            }
            let opener =
                (!self.no_open && !self.json).then(|| Opener::open(&pages.entrance_once()));
            if let Some(file) = &self.token_file {
                let shown = file.display();
                console::note(&format!(
                    "in a new browser, open {url}?token=TOKEN with the token in {shown}"
                ));
            } else if let Some(None) = opener {
                console::note("open this address in a browser");
            }
            while !stop.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            pages.stop().await;
            Ok(Exit::Done)
        });
        // A blocked read must not block the exit.
        runtime.shutdown_timeout(Duration::from_secs(1));
        done
    }
}

/// Time after which the redirect file is removed.
const OPENING: Duration = Duration::from_secs(20);

/// A file that redirects a browser to a URL.
///
/// The URL contains a single-use token. Every user of this machine can see program arguments,
/// whereas only the owner can read this file. It is removed after [`OPENING`], or when the program
/// exits.
struct Opener(PathBuf);

impl Opener {
    /// Opens a URL in the desktop's browser; `None` if there is no desktop.
    fn open(url: &str) -> Option<Self> {
        let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let is_desktop = cfg!(target_os = "macos")
            || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
        if !is_desktop {
            return None;
        }
        // This folder is deleted when the desktop session ends.
        let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let folder = session.filter(|path| path.is_dir()).unwrap_or_else(std::env::temp_dir);
        let path = folder.join(format!("fedbo-dashboard-{}.html", std::process::id()));
        let page = format!(
            "<!doctype html><title>fedbo</title><meta http-equiv=\"refresh\" content=\"0; url={url}\">"
        );
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).ok()?;
        let opener = Self(path);
        file.write_all(page.as_bytes()).ok()?;
        let mut process = Process::new(program);
        process.arg(&opener.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = process.spawn().ok()?;
        let path = opener.0.clone();
        std::thread::spawn(move || {
            std::thread::sleep(OPENING);
            let _ = std::fs::remove_file(path); // it may already be removed
        });
        // This program may be the browser itself and run much longer.
        std::thread::spawn(move || child.wait());
        Some(opener)
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
