//! Peers, each behind a proxy for every neighbour, so that links can be cut.

use std::collections::BTreeMap;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::federation_folder::{PATIENCE, Process, Setup, World};
use crate::proxy::Proxy;

/// The graph of neighbours.
#[derive(Clone, Copy)]
pub(crate) enum Graph {
    /// The first peer is everybody's neighbour.
    Star(usize),
    /// Each peer has the next and the previous one as neighbours.
    Ring(usize),
}

impl Graph {
    fn name(self) -> &'static str {
        match self {
            Self::Star(_) => "star",
            Self::Ring(_) => "ring",
        }
    }

    fn n(self) -> usize {
        match self {
            Self::Star(n) | Self::Ring(n) => n,
        }
    }

    fn are_neighbours(self, a: usize, b: usize) -> bool {
        match self {
            Self::Star(_) => a != b && (a == 0 || b == 0),
            Self::Ring(n) => a != b && ((a + 1) % n == b || (b + 1) % n == a),
        }
    }
}

pub(crate) struct PeerRing {
    pub(crate) world: World,
    graph: Graph,
    rounds: u64,
    /// The proxies, by the peer that connects and the peer that it reaches.
    ways: BTreeMap<(usize, usize), Proxy>,
}

impl PeerRing {
    /// Writes the files of peers that tune parabolas. `more` contains lines of `[distributed-ts]`.
    pub(crate) fn new(graph: Graph, rounds: u64, more: &str) -> Self {
        Self::with("distributed-ts", graph, rounds, more, false)
    }

    /// Like [`PeerRing::new`], with a shared prior.
    pub(crate) fn with_shared_prior(graph: Graph, rounds: u64) -> Self {
        Self::with("distributed-shared-prior", graph, rounds, "", false)
    }

    /// Like [`PeerRing::new`], with HTTPS.
    pub(crate) fn with_tls(graph: Graph, rounds: u64) -> Self {
        Self::with("distributed-ts", graph, rounds, "", true)
    }

    fn with(algorithm: &'static str, graph: Graph, rounds: u64, more: &str, tls: bool) -> Self {
        let n_agents = graph.n();
        let world = World::new(&Setup {
            n_agents,
            algorithm,
            rounds,
            round_s: 1.0,
            privacy: "",
            seed: None,
            tls,
            free_windows: None,
            trial_s: 0.0,
            secure_sum: false,
            sharded: false,
            space: "",
        });
        // Remove tables that only other kinds of federations need.
        let path = world.path("federation.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let (head, rest) = text.split_once("[features]").unwrap();
        let (_, rest) = rest.split_once("[space.x]").unwrap();
        let graph_name = graph.name();
        let text = format!(
            "{head}[distributed-ts]\n{more}[topology]\ngraph = \"{graph_name}\"\n[space.x]{rest}"
        );
        std::fs::write(&path, text).unwrap();
        let pairs = (0..n_agents).flat_map(|a| (0..n_agents).map(move |b| (a, b)));
        let pairs = pairs.filter(|(a, b)| graph.are_neighbours(*a, *b));
        let ways: BTreeMap<_, _> = pairs.map(|pair| (pair, Proxy::start(1))).collect();
        let circle = Self { world, graph, rounds, ways };
        (0..n_agents).for_each(|peer| circle.write(peer));
        circle
    }

    /// Writes the file of a peer.
    fn write(&self, peer: usize) {
        let mut text = format!(
            "[peer]\nname = \"lab {peer}\"\nhome = \"home{peer}\"\nlisten = \"127.0.0.1:0\"\n"
        );
        if self.world.tls {
            text += "tls_cert = \"certs/cert.pem\"\ntls_key = \"certs/key.pem\"\nca = \"certs/ca.pem\"\n";
        }
        for neighbour in self.neighbours(peer) {
            let url = self.url(peer, neighbour);
            text += &format!("[[neighbours]]\nname = \"lab {neighbour}\"\nurl = \"{url}\"\n");
        }
        std::fs::write(self.world.path(&format!("peer{peer}.toml")), text).unwrap();
    }

    fn neighbours(&self, peer: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.graph.n()).filter(move |other| self.graph.are_neighbours(peer, *other))
    }

    pub(crate) fn command(&self, peer: usize) -> Command {
        self.world.program(&["peer", &format!("peer{peer}.toml")])
    }

    /// Returns the command that runs a peer with a limit on the size of files, in blocks of the
    /// shell's `ulimit`.
    pub(crate) fn command_with_file_limit(&self, peer: usize, n_blocks: u64) -> Command {
        let script =
            format!("trap '' XFSZ; ulimit -f {n_blocks}; exec \"$0\" peer peer{peer}.toml");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_fedbo")]);
        command.current_dir(self.world.folder());
        command
    }

    pub(crate) fn start(&self, peer: usize) -> Process {
        self.start_with(peer, &mut self.command(peer))
    }

    /// Starts a peer with this command, and directs its neighbours' proxies to it.
    pub(crate) fn start_with(&self, peer: usize, command: &mut Command) -> Process {
        let mut process = Process::start(command);
        let line = process.wait_for("peer on http");
        let port = line.rsplit(':').next().unwrap().trim().parse().unwrap();
        for neighbour in self.neighbours(peer) {
            self.ways[&(neighbour, peer)].lead_to(0, port);
        }
        process
    }

    pub(crate) fn start_all(&self) -> Vec<Process> {
        (0..self.graph.n()).map(|peer| self.start(peer)).collect()
    }

    /// Returns the URL at which one peer reaches another.
    pub(crate) fn url(&self, from: usize, to: usize) -> String {
        self.world.url(self.ways[&(from, to)].port())
    }

    /// Cuts the connection between two peers in both directions.
    pub(crate) fn cut(&self, a: usize, b: usize) {
        self.ways[&(a, b)].set_away(0, true);
        self.ways[&(b, a)].set_away(0, true);
    }

    pub(crate) fn mend(&self, a: usize, b: usize) {
        self.ways[&(a, b)].set_away(0, false);
        self.ways[&(b, a)].set_away(0, false);
    }

    /// Waits until a condition holds.
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < until, "{what} did not come to be");
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits until all peers have exited successfully.
    pub(crate) fn all_end(&self, peers: &mut [Process]) {
        for (peer, process) in peers.iter_mut().enumerate() {
            let code = process.end();
            assert_eq!(code, Some(0), "peer {peer}: {}", process.all());
        }
    }

    pub(crate) fn status(&self, peer: usize) -> Value {
        let file = format!("peer{peer}.toml");
        self.world.json(&["peer", "status", &file])
    }

    /// Opens the database of a peer.
    pub(crate) fn memory(&self, peer: usize) -> Connection {
        let path = self.world.path(&format!("home{peer}/peer.db"));
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
    }

    /// Checks that every report of every neighbour has arrived once and unchanged, and that each of
    /// the peer's own trials has ended once.
    pub(crate) fn check_exactly_once(&self) {
        for peer in 0..self.graph.n() {
            let memory = self.memory(peer);
            let sql =
                "SELECT bytes FROM events WHERE kind = 'report' AND sender = ? ORDER BY round";
            let mut statement = memory.prepare(sql).unwrap();
            let mut n_reports = 0;
            for neighbour in self.neighbours(peer) {
                let rows = statement.query_map([neighbour], |row| row.get::<_, Vec<u8>>(0));
                let came: Vec<Vec<u8>> = rows.unwrap().map(Result::unwrap).collect();
                let made = self.made(neighbour);
                assert_eq!(made.len() as u64, self.rounds + 1);
                assert!(came == made, "{neighbour} to {peer}");
                n_reports += came.len() as u64;
            }
            let count = |sql: &str| -> u64 { memory.query_row(sql, [], |row| row.get(0)).unwrap() };
            let of_kind = "SELECT count(*) FROM events WHERE kind =";
            assert_eq!(count(&format!("{of_kind} 'report'")), n_reports);
            assert_eq!(count(&format!("{of_kind} 'evaluated'")), self.rounds + 2);
            assert_eq!(count("SELECT count(*) FROM conflicts"), 0);
        }
    }

    /// Checks that a peer's trials and reports are complete and without conflicts.
    pub(crate) fn check_nothing_changed(&self, peer: usize) {
        assert_eq!(self.made(peer).len() as u64, self.rounds + 1);
        assert_eq!(self.status(peer)["conflicts"], 0);
        assert_eq!(self.world.trials(peer), self.world.in_process()[peer]);
    }

    /// Returns the reports made by a peer.
    pub(crate) fn made(&self, peer: usize) -> Vec<Vec<u8>> {
        let memory = self.memory(peer);
        let mut statement = memory.prepare("SELECT bytes FROM outbox ORDER BY round").unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// Checks that all trials equal those of `fedbo run` with the same file.
    pub(crate) fn check_equal_to_one_process(&self) {
        let expected = self.world.in_process();
        for (peer, expected) in expected.iter().enumerate() {
            assert_eq!(expected.len() as u64, self.rounds + 2);
            assert_eq!(&self.world.trials(peer), expected, "peer {peer}");
        }
    }
}
