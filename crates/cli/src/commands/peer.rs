//! `fedbo peer`: one party of a federation of neighbours, without a coordinator.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fedbo_peer::{Ended, NeighbourStatus, Notice, Observer, Overrides, PeerFile, PeerStatus};
use fedbo_protocol::Trial;
use fedbo_space::Point;
use fedbo_storage::Told;
use serde::Serialize;

use super::parse_listen;
use fedbo_console as console;
use fedbo_console::interrupt;
use fedbo_console::table::{self, Column};
use fedbo_console::{BadInput, Exit};
use fedbo_documents::file_kind::FileKind;
use fedbo_documents::trial_record::SCHEMA_VERSION;

/// Take part in a federation of neighbours, which share observations without a coordinator
///
/// Nothing is private: every neighbour sees all points that this peer tries, and their values. All
/// peers use the same federation file, with algorithm = "distributed-ts" or
/// "distributed-shared-prior". After an interruption, the same command resumes the peer. The peer
/// exits when it has exchanged all observations with all of its neighbours.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Peer {
    #[command(subcommand)]
    command: Option<Look>,
    #[command(flatten)]
    place: Place,
    /// Address and port to listen on; overrides the file
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    listen: Option<SocketAddr>,
    /// Address of a neighbour, URL or NAME=URL; can be repeated
    #[arg(long, value_name = "URL")]
    neighbour: Vec<String>,
    /// Allow plain HTTP to other machines: anybody on the network path can read the messages
    #[arg(long)]
    plain_http: bool,
    /// Exit after the last round without waiting for neighbours that are unreachable or unfinished
    #[arg(long)]
    leave: bool,
    /// Print a JSON object at the end
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Look {
    Status(Status),
}

/// Show a peer's progress with its neighbours, without network requests
#[derive(clap::Args)]
struct Status {
    #[command(flatten)]
    place: Place,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Place {
    /// The peer's file
    #[arg(default_value = "peer.toml")]
    file: PathBuf,
    /// Name of this peer's agent in the federation's file; overrides the peer's file
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Folder of the peer; overrides the file
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

impl Place {
    /// Returns the path of the file, which must be a peer's file.
    fn checked(&self) -> Result<&Path, BadInput> {
        FileKind::Peer.check(&self.file)?;
        Ok(&self.file)
    }

    fn overrides(&self) -> Overrides {
        Overrides { name: self.name.clone(), home: self.home.clone(), ..Overrides::default() }
    }
}

impl Peer {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        match &self.command {
            Some(Look::Status(status)) => status.run(),
            None => self.take_part(),
        }
    }

    /// Returns the document printed by `--json`, or `None` for a command that runs the peer.
    pub(crate) fn answer(&self) -> Option<anyhow::Result<String>> {
        let Look::Status(status) = self.command.as_ref()?;
        let status = status.status();
        Some(status.and_then(|status| Ok(serde_json::to_string_pretty(&status)?)))
    }

    fn take_part(&self) -> anyhow::Result<Exit> {
        let overrides = Overrides {
            listen: self.listen,
            neighbours: self.neighbour.clone(),
            plain_http: self.plain_http,
            leaves: self.leave,
            ..self.place.overrides()
        };
        let file = PeerFile::load(self.place.checked()?, overrides)?;
        let watcher =
            Arc::new(ConsoleObserver { n_trials: AtomicU64::new(0), n_failed: AtomicU64::new(0) });
        let stop = interrupt::stop_flag(
            "stopping: the running trial is abandoned and runs again next time (once more to exit at once)",
        );
        let observer: Arc<dyn Observer> = Arc::<ConsoleObserver>::clone(&watcher);
        let parts = file.parts(super::problems(), observer, stop)?;
        console::note(
            "nothing is private here: neighbours see every point that is tried, and its value",
        );
        let ended = fedbo_peer::run(parts)?;
        let storage = format!("sqlite:{}/trials.db", file.home.display());
        let n_trials = watcher.n_trials.load(Ordering::Relaxed);
        let n_failed = watcher.n_failed.load(Ordering::Relaxed);
        if self.json {
            console::result(&serde_json::to_string_pretty(&RunSummary {
                schema_version: SCHEMA_VERSION,
                ended: match ended {
                    Ended::Complete => "complete",
                    Ended::Left => "left",
                    Ended::Interrupted => "interrupted",
                },
                told_by_this_run: n_trials,
                failed: n_failed,
                storage,
            })?)?;
        } else {
            console::result(&match ended {
                Ended::Complete => format!("done; the trials are in {storage}"),
                Ended::Left => format!(
                    "done, though some neighbours lack reports of this peer or have not ended; run it again to continue sharing; the \
                     trials are in {storage}"
                ),
                Ended::Interrupted => "interrupted; run it again to continue".to_owned(),
            })?;
        }
        Ok(match ended {
            Ended::Interrupted => Exit::Interrupted,
            _ if n_trials > 0 && n_failed == n_trials => Exit::NoTrial,
            _ => Exit::Done,
        })
    }
}

/// Summary of a run.
#[derive(Serialize)]
struct RunSummary {
    schema_version: u32,
    /// `complete`, `left` or `interrupted`.
    ended: &'static str,
    /// Number of trials finished by this run, including failed ones.
    told_by_this_run: u64,
    failed: u64,
    storage: String,
}

impl Status {
    fn status(&self) -> anyhow::Result<PeerStatus> {
        let file = PeerFile::load(self.place.checked()?, self.place.overrides())?;
        let home = file.home.display();
        let Some(status) = fedbo_peer::status(&file.home)? else {
            let message = format!("{home}: no peer has started here; run it with `fedbo peer`");
            return Err(BadInput(message).into());
        };
        Ok(status)
    }

    fn run(&self) -> anyhow::Result<Exit> {
        let status = self.status()?;
        if self.json {
            console::result(&serde_json::to_string_pretty(&status)?)?;
            return Ok(Exit::Done);
        }
        let best =
            status.best.map_or_else(|| "no value yet".to_owned(), |best| format!("best {best:?}"));
        let round = match status.reports {
            0 => "initial points".to_owned(),
            reports if reports > status.rounds => "all rounds are done".to_owned(),
            reports => format!("round {reports} of {}", status.rounds),
        };
        console::result(&format!(
            "{:?} of {}: {round}; {} trials, {best}\nkey {}\n",
            status.name, status.federation, status.n_trials, status.key
        ))?;
        if status.n_conflicts > 0 {
            let home = PeerFile::load(self.place.checked()?, self.place.overrides())?.home;
            console::note(&format!(
                "warning: for {} rounds a neighbour has signed two different reports; both are in {}/peer.db",
                status.n_conflicts,
                home.display()
            ));
        }
        let texts = |of: fn(&NeighbourStatus) -> String| status.neighbours.iter().map(of).collect();
        let columns = vec![
            Column::words("neighbour", texts(|known| known.name.clone()), 0),
            Column::numbers("confirmed", texts(|known| known.confirmed.to_string()), 0),
            Column::numbers("received", texts(|known| known.received.to_string()), 0),
            Column::words("address", texts(|known| known.url.clone()), 1),
        ];
        let (table, _) = table::fit(columns, console::width());
        console::table(&table, None)?;
        Ok(Exit::Done)
    }
}

/// Reports events on standard error.
struct ConsoleObserver {
    n_trials: AtomicU64,
    n_failed: AtomicU64,
}

impl Observer for ConsoleObserver {
    fn trial_ended(&self, trial: &Trial, _point: &Point, told: &Told) {
        self.n_trials.fetch_add(1, Ordering::Relaxed);
        let (round, index) = (trial.round, trial.index);
        match told {
            Told::Value(value) => {
                console::remark(&format!("round {round}: trial {index}: {value:?}"))
            }
            Told::Failed { kind, message } => {
                self.n_failed.fetch_add(1, Ordering::Relaxed);
                console::note(&format!("round {round}: trial {index} failed ({kind}): {message}"));
            }
            // A peer's trials do not report epochs, so they are never stopped early. Each has a
            // single value, and none can be discarded.
            Told::Stopped { .. } | Told::Numbers(_) | Told::Discarded => {}
        }
    }

    fn notice(&self, notice: &Notice<'_>) {
        match notice {
            Notice::WaitsFor(..) | Notice::IsBack(_) => console::remark(&notice.to_string()),
            Notice::Listens(_) | Notice::ContinuedWithout(..) | Notice::Away(..) => {
                console::note(&notice.to_string());
            }
            Notice::Rejected(_) | Notice::Misconduct(_) => {
                console::note(&format!("warning: {notice}"));
            }
            Notice::StaysFor(_) => console::note(&format!("{notice} (Ctrl-C ends it)")),
            Notice::Trusts(..) => {
                console::note(&format!("{notice}; its owner sees it in `fedbo peer status`"));
            }
        }
    }
}
