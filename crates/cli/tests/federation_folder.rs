//! A coordinator and its agents as processes of the real program.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Time after which a process is considered stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A folder with a federation.
pub(crate) struct World {
    folder: TempDir,
    pub(crate) n_agents: usize,
    seed: Option<u64>,
    pub(crate) tls: bool,
    /// `[privacy]` of the agents: a budget if the study charges one.
    budget: &'static str,
    trial_s: f64,
    /// Card and port of the helper, if two servers compute the sums.
    helper: Option<(String, u16)>,
}

/// Settings of a federation's file.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) n_agents: usize,
    pub(crate) algorithm: &'static str,
    pub(crate) rounds: u64,
    pub(crate) round_s: f64,
    /// Lines of `[privacy]`; empty to omit the table.
    pub(crate) privacy: &'static str,
    /// Seed of the agents' draws; `None` for a secret one.
    pub(crate) seed: Option<u64>,
    pub(crate) tls: bool,
    /// Number of windows, for a free pace.
    pub(crate) free_windows: Option<u64>,
    /// Duration of a trial in seconds.
    pub(crate) trial_s: f64,
    /// True if two servers compute the sums.
    pub(crate) secure_sum: bool,
    /// True if coordinators on one database each sum their own uploads.
    pub(crate) sharded: bool,
    /// Tables of further parameters and rules.
    pub(crate) space: &'static str,
}

impl Setup {
    /// Returns a setup that releases sums with noise from the seed, so that equal runs give equal
    /// results.
    pub(crate) fn simulated(n_agents: usize, rounds: u64, round_s: f64) -> Self {
        Self {
            n_agents,
            algorithm: "dp-fts-de",
            rounds,
            round_s,
            privacy: "epsilon = 6.0\nsimulate = true\n",
            seed: Some(7),
            tls: false,
            free_windows: None,
            trial_s: 0.0,
            secure_sum: false,
            sharded: false,
            space: "",
        }
    }

    /// Returns a setup that releases sums with secret noise, charged to a ledger.
    pub(crate) fn charged(n_agents: usize, rounds: u64, round_s: f64) -> Self {
        Self {
            privacy: "epsilon = 6.0\n",
            seed: None,
            ..Self::simulated(n_agents, rounds, round_s)
        }
    }

    fn is_charged(&self) -> bool {
        self.privacy.contains("epsilon") && !self.privacy.contains("simulate")
    }
}

/// A process of the program, killed when dropped.
pub(crate) struct Process {
    child: Child,
    log: Receiver<String>,
    pub(crate) said: Vec<String>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (lines, log) = channel();
        let out = child.stdout.take().unwrap();
        let err = child.stderr.take().unwrap();
        let also = lines.clone();
        std::thread::spawn(move || {
            BufReader::new(out).lines().for_each(|l| drop(also.send(l.unwrap_or_default())))
        });
        std::thread::spawn(move || {
            BufReader::new(err).lines().for_each(|l| drop(lines.send(l.unwrap_or_default())))
        });
        Self { child, log, said: Vec::new() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line that contains `part`.
    pub(crate) fn wait_for(&mut self, part: &str) -> String {
        self.wait_for_parts(&[part])
    }

    /// Waits for a line that contains all `parts`.
    pub(crate) fn wait_for_parts(&mut self, parts: &[&str]) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.log.recv_timeout(left) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if parts.iter().all(|part| line.contains(part)) {
                        return line;
                    }
                }
                Err(error) => panic!("no {parts:?}: {error}; it said {:#?}", self.said),
            }
        }
    }

    /// Waits until the process exits. Returns its exit code, or `None` if a signal ended it.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.said.extend(self.log.iter());
                return status.code();
            }
            if Instant::now() > until {
                self.said.extend(self.log.try_iter());
                panic!("it does not end; it said {:#?}", self.said);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Returns all output so far.
    pub(crate) fn all(&mut self) -> String {
        self.said.extend(self.log.try_iter());
        self.said.join("\n")
    }
}

impl World {
    /// Writes the file of a federation. Each agent tunes a parabola with a command.
    pub(crate) fn new(setup: &Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pace = setup
            .free_windows
            .map_or_else(String::new, |windows| format!("pace = \"free\"\nwindows = {windows}\n"));
        let mut text = format!(
            "[federation]\nname = \"labs\"\ndirection = \"minimize\"\nalgorithm = \"{}\"\nrounds = {}\ninitial = 2\nseed = 7\n{pace}\
             [features]\ncount = 30\nlengthscale = 0.3\n[network]\nround_s = {}\n{}",
            setup.algorithm,
            setup.rounds,
            setup.round_s,
            if setup.sharded { "intake = \"shards\"\n" } else { "" }
        );
        if !setup.privacy.is_empty() {
            text += &format!("[privacy]\n{}", setup.privacy);
        }
        let helper = setup.secure_sum.then(|| begin_helper(folder.path()));
        if let Some((card, port)) = &helper {
            text += &format!(
                "[secure_sum]\nhelper = \"{card}\"\nhelper_url = \"http://127.0.0.1:{port}\"\n"
            );
        }
        for name in ["x", "y"] {
            text += &format!("[space.{name}]\ntype = \"float\"\nlow = -5.0\nhigh = 5.0\n");
        }
        text += setup.space;
        for agent in 0..setup.n_agents {
            text +=
                &format!("[[agents]]\nname = \"lab {agent}\"\n{}", command(agent, setup.trial_s));
        }
        std::fs::write(folder.path().join("federation.toml"), text).unwrap();
        let world = Self {
            folder,
            n_agents: setup.n_agents,
            seed: setup.seed,
            tls: setup.tls,
            budget: match setup.is_charged() {
                true => "[privacy]\nepsilon_max = 2000.0\n",
                false => "",
            },
            trial_s: setup.trial_s,
            helper,
        };
        if setup.tls {
            world.done(&["dev", "certs", "--out", "certs"]);
        }
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the program's command in the folder.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fedbo"));
        command.args(arguments).current_dir(self.folder());
        for name in [
            "FEDBO_DIE_AT",
            "FEDBO_COORDINATOR",
            "FEDBO_TOKEN",
            "FEDBO_LOG",
            "http_proxy",
            "https_proxy",
        ] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.program(arguments).output().unwrap()
    }

    /// Runs a command that must succeed and returns its output.
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {err}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["--json"]].concat();
        serde_json::from_str(&self.done(&arguments)).unwrap()
    }

    /// Creates the study and returns each agent's token.
    pub(crate) fn create(&self) -> Vec<String> {
        let created = self.json(&["coordinator", "study", "create", "federation.toml"]);
        let tokens = created["tokens"].as_array().unwrap().iter();
        tokens.map(|token| token["token"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the command of a coordinator on `port`; 0 chooses a free port.
    pub(crate) fn service(&self, data: &str, port: u16) -> Command {
        let listen = format!("127.0.0.1:{port}");
        let mut command =
            self.program(&["coordinator", "run", "--data", data, "--listen", &listen]);
        if self.tls {
            command.args(["--tls-cert", "certs/cert.pem", "--tls-key", "certs/key.pem"]);
        }
        command
    }

    /// Starts the coordinator and returns its port.
    pub(crate) fn serve(&self, port: u16) -> (Process, u16) {
        self.serve_from("coordinator", port)
    }

    pub(crate) fn serve_from(&self, data: &str, port: u16) -> (Process, u16) {
        let mut process = Process::start(&mut self.service(data, port));
        let line = process.wait_for("://");
        let port = line.rsplit(':').next().unwrap().trim().parse().unwrap();
        (process, port)
    }

    pub(crate) fn url(&self, port: u16) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{port}")
    }

    /// Returns the command of the helper's service.
    pub(crate) fn helper(&self) -> Command {
        let (_, port) = self.helper.as_ref().unwrap();
        let listen = format!("127.0.0.1:{port}");
        self.program(&["helper", "run", "--data", "helper", "--listen", &listen])
    }

    /// Returns the command that joins the study of a running coordinator as its helper.
    pub(crate) fn joining(&self, port: u16) -> Command {
        let shown = self.json(&["coordinator", "study", "show", "labs"]);
        let config = shown["config"].as_str().unwrap();
        let line = config.lines().find(|line| line.starts_with("coordinator = ")).unwrap();
        let key = line.split('"').nth(1).unwrap();
        self.program(&[
            "helper",
            "join",
            "labs",
            "--coordinator",
            &self.url(port),
            "--key",
            key,
            "--data",
            "helper",
        ])
    }

    /// Enrols an agent and writes its file.
    pub(crate) fn enrol(&self, agent: usize, token: &str, port: u16) {
        let output = self.enrolment(agent, token, port).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{err}");
    }

    /// Returns the command that enrols an agent, and writes the agent's file.
    pub(crate) fn enrolment(&self, agent: usize, token: &str, port: u16) -> Command {
        let home = format!("home{agent}");
        let url = self.url(port);
        let mut command = self.program(&[
            "agent",
            "enrol",
            "--coordinator",
            &url,
            "--token",
            token,
            "--home",
            &home,
        ]);
        if self.tls {
            command.args(["--ca", "certs/ca.pem"]);
        }
        if let Some((card, _)) = &self.helper {
            command.args(["--helper", card]);
        }
        let seed = self.seed.map_or_else(String::new, |seed| format!("seed = {seed}\n"));
        let text = format!(
            "[agent]\nhome = \"{home}\"\n{seed}[objective]\n{}{}",
            self::command(agent, self.trial_s),
            self.budget
        );
        std::fs::write(self.path(&format!("agent{agent}.toml")), text).unwrap();
        command
    }

    /// Returns the command that runs an agent.
    pub(crate) fn agent(&self, agent: usize) -> Command {
        self.program(&["agent", "run", &format!("agent{agent}.toml")])
    }

    /// Enrols and starts all agents.
    pub(crate) fn start_agents(&self, tokens: &[String], port: u16) -> Vec<Process> {
        for (agent, token) in tokens.iter().enumerate() {
            self.enrol(agent, token, port);
        }
        (0..self.n_agents).map(|agent| Process::start(&mut self.agent(agent))).collect()
    }

    /// Returns the point and value of each of an agent's trials.
    pub(crate) fn trials(&self, agent: usize) -> Vec<[f64; 3]> {
        let text = self.done(&["export", &format!("sqlite:home{agent}/trials.db")]);
        columns(&text, ["x", "y", "value"])
    }

    /// Returns the trials of each agent when the same file is run in one process.
    pub(crate) fn in_process(&self) -> Vec<Vec<[f64; 3]>> {
        self.done(&["run", "federation.toml", "--out", "in-process"]);
        let text = std::fs::read_to_string(self.path("in-process/results.csv")).unwrap();
        (0..self.n_agents)
            .map(|agent| {
                let name = format!("lab {agent}");
                let mut lines = text.lines();
                let head = lines.next().unwrap();
                let own = lines.filter(|line| line.split(',').nth(2) == Some(&name));
                let own: Vec<&str> = std::iter::once(head).chain(own).collect();
                columns(&own.join("\n"), ["x", "y", "value"])
            })
            .collect()
    }

    /// Verifies the study's ledger, and returns its statement.
    pub(crate) fn ledger(&self) -> Value {
        self.ledger_at("coordinator/labs.ledger.db")
    }

    pub(crate) fn ledger_at(&self, path: &str) -> Value {
        self.done(&["privacy", "verify", path]);
        self.json(&["privacy", "statement", path])
    }
}

/// Creates a helper in a folder; returns its card and a free port.
fn begin_helper(folder: &Path) -> (String, u16) {
    let program = Command::new(env!("CARGO_BIN_EXE_fedbo"))
        .args(["helper", "card", "--data", "helper", "--quiet"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(program.status.success(), "{}", String::from_utf8_lossy(&program.stderr));
    let card = String::from_utf8(program.stdout).unwrap().trim().to_owned();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    (card, port)
}

/// Returns the objective of an agent: its own parabola, as a command that takes `seconds`.
fn command(agent: usize, seconds: f64) -> String {
    let sleep =
        if seconds > 0.0 { format!("system(\\\"sleep {seconds}\\\"); ") } else { String::new() };
    format!(
        "command = [\"awk\", \"-v\", \"x={{x}}\", \"-v\", \"y={{y}}\", \"BEGIN {{ {sleep}printf \\\"%.9g\\\\n\\\", (x-{agent}/8)^2 + (y+1)^2 }}\"]\n"
    )
}

/// Parses columns of numbers in a CSV file without quotes. Other cells become NaN.
fn columns<const N: usize>(text: &str, names: [&str; N]) -> Vec<[f64; N]> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let places = names.map(|name| head.iter().position(|key| *key == name).unwrap());
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            places.map(|place| cells[place].parse().unwrap_or(f64::NAN))
        })
        .collect()
}

/// Returns all bytes of the files below a folder.
pub(crate) fn bytes_below(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            bytes.extend(bytes_below(&path));
        } else {
            std::fs::File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
        }
    }
    bytes
}
