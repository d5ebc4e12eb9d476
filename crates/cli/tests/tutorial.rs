//! Runs the commands of the tutorials on federations over a network exactly as written.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

use crate::common;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Ran, Sandbox, finished, wait_until};
use rustix::process::{Pid, Signal, kill_process_group};

const PAGE: &str = include_str!("../../../docs/tutorial-network.md");
const TWO_SERVERS: &str = include_str!("../../../docs/tutorial-secure-sum.md");
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/network");
const ADDRESS: &str = "127.0.0.2";
const N_LABS: usize = 8;

/// Returns the commands for a terminal: the contents of the fences "```sh TERMINAL" in the page's
/// order.
fn commands(page: &str, terminal: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for line in page.lines() {
        match (inside, line.strip_prefix("```")) {
            (false, Some(fence)) => inside = fence == format!("sh {terminal}"),
            (true, Some(_)) => inside = false,
            (true, None) => text += &format!("{line}\n"),
            (false, None) => {}
        }
    }
    assert!(!text.is_empty(), "the page has no commands for {terminal:?}");
    text
}

/// A terminal that runs commands in the repository's folder, with all its child processes.
struct Terminal(Option<Child>);

impl Terminal {
    fn open(repository: &Sandbox, commands: &str) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_fedbo"));
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", program.parent().unwrap().display());
        let child = Command::new("sh")
            .args(["-e", "-c", commands])
            .current_dir(repository.folder.path())
            .env("PATH", path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        Self(Some(child.unwrap()))
    }

    /// Waits until the terminal's commands have ended.
    fn close(mut self) -> Ran {
        finished(self.0.take().unwrap())
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &self.0 {
            // The process may already have exited.
            let _ = kill_process_group(Pid::from_child(child), signal);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

#[test]
fn the_tutorial_does_what_it_says() {
    let repository = Sandbox::new();
    let folder = repository.path("examples/network");
    std::fs::create_dir_all(&folder).unwrap();
    for entry in std::fs::read_dir(EXAMPLES).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
        }
    }
    // Use shorter rounds and a free port.
    let file = folder.join("federation.toml");
    let federation = std::fs::read_to_string(&file).unwrap();
    let quick = federation.replace("round_s = 2.0", "round_s = 0.5");
    assert_ne!(quick, federation);
    std::fs::write(&file, quick).unwrap();
    let port = free_port();
    let of = |terminal: &str| {
        let commands = commands(PAGE, terminal);
        let moved = commands.replace("PORT=7433", &format!("PORT={port}"));
        assert!(terminal == "operator" || terminal == "service" || moved != commands);
        moved
    };

    let coordinator = Terminal::open(&repository, &(of("coordinator") + &of("service")));
    wait_until(|| TcpStream::connect((ADDRESS, port)).is_ok());
    let began = Instant::now();
    let labs = Terminal::open(&repository, &of("labs")).close();
    // Enrolling and running warn about short rounds.
    let warning = "warning: the rounds of this study last 0.5 s";
    labs.expect(0, &[warning]);
    assert!(began.elapsed() < Duration::from_secs(60), "half a minute, the page says");

    // All labs have run to the end of the study and can show their spending.
    for lab in 1..=N_LABS {
        let log = std::fs::read_to_string(folder.join(format!("lab-{lab}.log"))).unwrap();
        let last = log.lines().last().unwrap();
        let said = format!("done; the trials are in sqlite:./lab-{lab}/trials.db");
        assert_eq!(last, said, "{log}");
        assert!(log.contains(warning), "{log}");
        assert!(labs.stdout.contains(&said), "{}", labs.stdout);
        let told = repository.told(&format!("sqlite:examples/network/lab-{lab}/trials.db"));
        // There are three initial points, and one point per round that was not missed.
        assert!((4..=15).contains(&told.len()), "{} trials", told.len());
        assert!(told.iter().all(|row| row["state"] == "complete"), "{told:?}");
        let home = format!("examples/network/lab-{lab}");
        let status = repository.fedbo(&["agent", "status", "--home", &home, "--json"]);
        let status = common::json(status.expect(0, &[]));
        assert_eq!(status["studies"][0]["finished"], true);
        assert_eq!(status["studies"][0]["trials"], told.len());
        let spent = status["privacy"]["epsilon"].as_f64().unwrap();
        assert!(spent > 0.0 && spent <= 4.0, "{spent}");
    }
    for shown in ["finished", "is spent, on", "best value", "temperature"] {
        assert!(labs.stdout.contains(shown), "{shown}: {}", labs.stdout);
    }

    // Read the operator's view while the service runs. The last round ends after the labs' last
    // trials.
    let data = folder.join("coordinator");
    wait_until(|| {
        let show = ["coordinator", "study", "show", "tutorial", "--json"];
        let show = repository.command(&show).env("FEDBO_COORDINATOR", &data).output();
        common::json(&show.unwrap().into())["state"] == "finished"
    });
    let operator = Terminal::open(&repository, &of("operator")).close();
    operator.expect(0, &[]);
    for shown in [
        "study \"tutorial\" is finished",
        "3 rounds, accountant pld, mode default)",
        "tutorial.ledger.db is sound: 3 releases",
    ] {
        assert!(operator.stdout.contains(shown), "{shown}: {}", operator.stdout);
    }
    assert_eq!(operator.stdout.matches("  enrolled  lab-").count(), N_LABS);
    // One sentence describes the protection without technical terms. Each lab sees the sentence
    // when it enrols and in its status, and the operator sees it in the statement.
    let sentence = "in plain words: each party keeps its data and results; the coordinator's operator can read the summary of its model";
    assert_eq!(labs.stdout.matches(sentence).count(), N_LABS + 1, "{}", labs.stdout);
    assert_eq!(operator.stdout.matches(sentence).count(), 1, "{}", operator.stdout);
    assert_eq!(PAGE.matches("in plain words: each party keeps its data and results").count(), 2);

    // Send the signal of Ctrl-C.
    coordinator.signal(Signal::INT);
    let service = coordinator.close();
    for line in service.stderr.lines() {
        assert!(!line.contains(" WARN ") && !line.contains(" ERROR "), "{line}");
    }
    assert!(service.stderr.contains(&format!("https://{ADDRESS}:{port}")));
    assert!(TcpStream::connect((ADDRESS, port)).is_err());
    // The operator's terminal has shown no token.
    let tokens = std::fs::read_to_string(folder.join("tokens.txt")).unwrap();
    assert_eq!(tokens.lines().count(), N_LABS);
    assert!(!service.stdout.contains("fbt2_") && !service.stderr.contains("fbt2_"));
}

/// Runs the second tutorial, with both servers on one machine.
#[test]
fn the_tutorial_of_two_servers_does_what_it_says() {
    let folder = Sandbox::new();
    let [leader, helper] =
        [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port());
    let of = |terminal: &str| {
        let listens = |text: &str, port: u16| format!("{text} --listen 127.0.0.1:{port}");
        let coordinator = "fedbo coordinator run --data coordinator";
        let helping = "fedbo helper run --data helper";
        commands(TWO_SERVERS, terminal)
            .replace("127.0.0.1:7433", &format!("127.0.0.1:{leader}"))
            .replace("127.0.0.1:7434", &format!("127.0.0.1:{helper}"))
            .replace(coordinator, &listens(coordinator, leader))
            .replace(helping, &listens(helping, helper))
    };
    Terminal::open(&folder, &of("helper")).close().expect(0, &["fedbo agent enrol --helper"]);
    let created = Terminal::open(&folder, &of("coordinator")).close();
    created.expect(0, &["summed by two servers", "fedbo helper join labs"]);
    let service = Terminal::open(&folder, &of("service"));
    wait_until(|| TcpStream::connect(("127.0.0.1", leader)).is_ok());
    let joined = Terminal::open(&folder, &of("join")).close();
    joined.expect(0, &[]);
    assert!(joined.stdout.contains("labs: 3 agents, 3 releases, proof l2"), "{}", joined.stdout);
    let helping = Terminal::open(&folder, &of("helping"));
    wait_until(|| TcpStream::connect(("127.0.0.1", helper)).is_ok());
    let labs = Terminal::open(&folder, &of("labs")).close();
    labs.expect(0, &[]);
    for lab in ["north", "east", "south"] {
        let log = std::fs::read_to_string(folder.path(&format!("{lab}.log"))).unwrap();
        assert!(log.contains("neither of the two servers sees a vector"), "{log}");
    }
    assert_eq!(labs.stdout.matches("done; the trials are in").count(), 3, "{}", labs.stdout);
    let ledgers = Terminal::open(&folder, &of("ledgers")).close();
    ledgers.expect(0, &[]);
    assert_eq!(ledgers.stdout.matches("accountant pld").count(), 2, "{}", ledgers.stdout);
    assert!(ledgers.stdout.contains("study labs (helper)"), "{}", ledgers.stdout);
    let sentence =
        "neither the coordinator's operator nor the helper's can read the summary of its model";
    assert_eq!(labs.stdout.matches(sentence).count(), 3, "{}", labs.stdout);
    assert_eq!(ledgers.stdout.matches(sentence).count(), 2, "{}", ledgers.stdout);
    for (terminal, said) in [(service, "the helper"), (helping, "it sees no vector")] {
        terminal.signal(Signal::INT);
        let ended = terminal.close();
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
        for line in ended.stderr.lines() {
            assert!(!line.contains(" WARN ") && !line.contains(" ERROR "), "{line}");
        }
    }
}

fn terminals(page: &str) -> Vec<&str> {
    let fences = page.lines().filter_map(|line| line.strip_prefix("```sh"));
    let mut terminals: Vec<&str> = fences.map(str::trim).collect();
    terminals.sort_unstable();
    terminals.dedup();
    terminals
}

/// Every fence with commands is run by these tests, except those for another machine.
#[test]
fn no_command_of_the_pages_is_left_out() {
    let all = ["coordinator", "helper", "helping", "join", "labs", "ledgers", "service"];
    assert_eq!(terminals(TWO_SERVERS), all);
    let terminals = terminals(PAGE);
    let run = ["coordinator", "labs", "operator", "service"];
    let not_run = ["copy", "install"];
    let mut known = [&run[..], &not_run].concat();
    known.sort_unstable();
    assert_eq!(terminals, known);
}

/// Returns a free port at the coordinator's address.
fn free_port() -> u16 {
    let listener = TcpListener::bind((ADDRESS, 0)).unwrap();
    listener.local_addr().unwrap().port()
}
