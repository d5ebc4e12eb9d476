//! Coordinators on one database, behind a proxy.

use std::collections::BTreeSet;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fedbo_testkit::postgres::Server;
use rustix::process::Signal;

use crate::federation_folder::{PATIENCE, Process, Setup, World};
use crate::proxy::Proxy;

/// Lease in seconds.
const LEASE: &str = "2";

pub(crate) struct Cluster {
    pub(crate) server: Server,
    pub(crate) world: World,
    url: String,
    tokens: Vec<String>,
    replicas: Vec<Process>,
    proxy: Proxy,
}

impl Cluster {
    /// Creates a new database, a study in it, and `n_replicas` coordinators.
    pub(crate) fn new(setup: &Setup, n_replicas: usize) -> Self {
        let server = Server::start();
        let url = server.new_database();
        let world = World::new(setup);
        let place = ["--store", &*url, "--key", "fedbo.key"];
        let create = ["coordinator", "study", "create", "federation.toml"];
        let created = world.json(&[&create[..], &place[..]].concat());
        let tokens = created["tokens"].as_array().unwrap().iter();
        let mut cluster = Self {
            tokens: tokens.map(|token| token["token"].as_str().unwrap().to_owned()).collect(),
            server,
            world,
            url,
            replicas: Vec::new(),
            proxy: Proxy::start(n_replicas),
        };
        for replica in 0..n_replicas {
            let started = cluster.start(replica, None);
            cluster.replicas.push(started);
        }
        cluster
    }

    /// Returns the command of a coordinator.
    pub(crate) fn service(&self, key: &str) -> Command {
        self.world.program(&[
            "coordinator",
            "run",
            "--store",
            &self.url,
            "--key",
            key,
            "--listen",
            "127.0.0.1:0",
            "--lease-s",
            LEASE,
        ])
    }

    fn start(&self, replica: usize, dies_at: Option<&str>) -> Process {
        let mut service = self.service("fedbo.key");
        if let Some(place) = dies_at {
            service.env("FEDBO_DIE_AT", place);
        }
        let mut process = Process::start(&mut service);
        let line = process.wait_for("http://");
        let port = line.rsplit(':').next().unwrap().trim().parse().unwrap();
        self.proxy.lead_to(replica, port);
        process
    }

    /// Restarts a coordinator that has exited.
    pub(crate) fn restart(&mut self, replica: usize) {
        assert_eq!(self.replicas[replica].end(), None);
        self.replicas[replica] = self.start(replica, None);
    }

    /// Kills all coordinators and restarts them so that they die at a failpoint, then restarts them
    /// once more.
    pub(crate) fn die_at(&mut self, place: &str) {
        let all = 0..self.replicas.len();
        for replica in all.clone() {
            self.signal(replica, Signal::KILL);
            assert_eq!(self.replicas[replica].end(), None);
            self.replicas[replica] = self.start(replica, Some(place));
        }
        let until = Instant::now() + PATIENCE;
        while !self.replicas.iter_mut().any(Process::has_ended) {
            assert!(Instant::now() < until, "nobody passes {place:?}");
            sleep(Duration::from_millis(5));
        }
        for replica in all {
            if !self.replicas[replica].has_ended() {
                self.replicas[replica].signal(Signal::KILL);
            }
            self.proxy.forget(replica);
            self.restart(replica);
        }
    }

    /// Enrols and starts all agents, which connect only to the proxy.
    pub(crate) fn start_agents(&self) -> Vec<Process> {
        self.world.start_agents(&self.tokens, self.proxy.port())
    }

    /// Sends a signal. As with the health checks of a real proxy, connections to a backend that
    /// does not respond end, and new ones go to others.
    pub(crate) fn signal(&mut self, replica: usize, signal: Signal) {
        self.replicas[replica].signal(signal);
        self.proxy.set_away(replica, signal != Signal::CONT);
        if signal == Signal::KILL {
            self.proxy.forget(replica);
        }
    }

    /// Waits for a leader: the coordinator that runs the rounds.
    pub(crate) fn leader(&self) -> usize {
        let all = 0..self.replicas.len();
        self.wait("a leader", |cluster| all.clone().find(|replica| cluster.leads(*replica)))
    }

    /// Returns true if this coordinator runs the rounds.
    pub(crate) fn leads(&self, replica: usize) -> bool {
        let rows = self.query("SELECT holder FROM fedbo_coordinator.studies");
        let holder = rows.and_then(|rows| rows.into_iter().next().flatten());
        let name = format!("process {},", self.replicas[replica].pid());
        holder.is_some_and(|holder| holder.starts_with(&name))
    }

    pub(crate) fn wait_for_round(&self, round: u64) {
        self.wait(&format!("round {round}"), |cluster| {
            let rows = cluster.query("SELECT round::text FROM fedbo_coordinator.studies")?;
            let found: u64 = rows.first()?.as_ref()?.parse().ok()?;
            (found >= round).then_some(())
        });
    }

    pub(crate) fn wait_for_entries(&self, n: u64) {
        self.wait(&format!("{n} entries"), |cluster| {
            let rows = cluster.query("SELECT count(*)::text FROM fedbo_ledger.entries")?;
            let found: u64 = rows.first()?.as_ref()?.parse().ok()?;
            (found >= n).then_some(())
        });
    }

    pub(crate) fn wait_until_finished(&self) {
        self.wait("the end", |cluster| {
            let rows = cluster.query("SELECT state FROM fedbo_coordinator.studies")?;
            (rows.first()?.as_deref() == Some("finished")).then_some(())
        });
    }

    fn wait<R>(&self, what: &str, look: impl Fn(&Self) -> Option<R>) -> R {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(Instant::now() < until, "there is not {what}");
            sleep(Duration::from_millis(3));
        }
    }

    fn database(&self) -> &str {
        self.url.rsplit_once('/').unwrap().1
    }

    /// Returns the first column of a query's rows.
    fn query(&self, sql: &str) -> Option<Vec<Option<String>>> {
        let mut client = self.server.connect(self.database());
        let rows = client.query(sql, &[]).ok()?;
        Some(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Returns the slots in the inbox, each with true if its vector is present.
    pub(crate) fn inbox(&self) -> Vec<(i64, bool)> {
        let mut client = self.server.connect(self.database());
        let sql = "SELECT slot, sealed IS NOT NULL FROM fedbo_coordinator.inbox";
        let rows = client.query(sql, &[]).unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Returns the number of shards in the latest round.
    pub(crate) fn n_shards_of_a_round(&self) -> i64 {
        let mut client = self.server.connect(self.database());
        let sql = "SELECT count(*) FROM fedbo_coordinator.shards GROUP BY round ORDER BY round DESC LIMIT 1";
        client.query_one(sql, &[]).unwrap().get(0)
    }

    /// The oracle. All agents succeed, and each scheduled round was charged and released exactly
    /// once, with the planned event and its own noise. The chain is valid, the releases accepted by
    /// agents are those in the ledger, and no agent was charged twice for a round.
    pub(crate) fn check(&mut self, agents: &mut [Process], rounds: u64) {
        for process in agents.iter_mut() {
            assert_eq!(process.end(), Some(0), "{:#?}", process.said);
        }
        self.wait_until_finished();
        let ledger = [&*self.url, "--study", "labs"];
        self.world.done(&[&["privacy", "verify"][..], &ledger[..]].concat());
        let statement = self.world.json(&[&["privacy", "statement"][..], &ledger[..]].concat());
        assert_eq!(statement["releases"], rounds);
        let mut client = self.server.connect(self.database());
        let sql = "SELECT round, event, release FROM fedbo_ledger.entries ORDER BY seq";
        let entries: Vec<(i64, Vec<u8>, Vec<u8>)> = client
            .query(sql, &[])
            .unwrap()
            .iter()
            .map(|row| (row.get(0), row.get(1), row.get(2)))
            .collect();
        let found: Vec<u64> =
            entries.iter().map(|(round, _, _)| u64::try_from(*round).unwrap()).collect();
        assert_eq!(found, (0..rounds).collect::<Vec<_>>());
        let events: BTreeSet<&Vec<u8>> = entries.iter().map(|(_, event, _)| event).collect();
        assert_eq!(events.len(), 1);
        let releases: BTreeSet<&Vec<u8>> = entries.iter().map(|(_, _, bytes)| bytes).collect();
        assert_eq!(releases.len(), entries.len(), "noise was used again");
        let last = &entries.last().unwrap().2;
        for agent in 0..self.world.n_agents {
            let home = self.world.path(&format!("home{agent}"));
            let memory = rusqlite::Connection::open(home.join("agent.db")).unwrap();
            let count = |sql: &str| -> u64 { memory.query_row(sql, [], |row| row.get(0)).unwrap() };
            let charges = count("SELECT count(*) FROM charges");
            assert_eq!(charges, count("SELECT count(DISTINCT round) FROM charges"));
            assert!(charges <= rounds);
            let kept = crate::federation_folder::bytes_below(&home);
            assert!(kept.windows(last.len()).any(|window| window == last), "agent {agent}");
        }
        let shown = self.world.json(&[
            "coordinator",
            "study",
            "show",
            "labs",
            "--store",
            &self.url,
            "--key",
            "fedbo.key",
        ]);
        assert_eq!(shown["ledger_head"], statement["head"]);
        assert!(self.inbox().iter().all(|(_, has_vector)| !has_vector), "INV-16");
    }
}
