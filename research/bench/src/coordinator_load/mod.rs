//! A coordinator service under load: TLS, durable rounds, and agents in a separate process.
//!
//! Clients and server share the machine's processors. Requests are signed before the measurement.
//! All other work that agents and coordinator do for an upload is measured.

mod attack;
mod client;
pub(crate) mod connections;
mod process;
mod rounds;
mod server;
mod study;
mod verdict;

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::measure::{count, quantile, rounded};
use attack::{Attack, Attackers};
use client::connector;
use rounds::{Seen, UploadOutcome, play};
use server::Server;
pub(crate) use server::serve;
use study::{Prepared, Uploads};

/// Load on a coordinator: number and rate of the agents' uploads, and an optional attack.
#[derive(Args, Clone, Debug)]
pub(crate) struct Load {
    /// Number of agents in the study
    #[arg(long, default_value_t = 10_000)]
    agents: u32,
    /// Number of connections that carry their uploads
    #[arg(long, default_value_t = 200)]
    connections: u32,
    /// Number of rounds; each collects the vectors of all agents and releases their sums
    #[arg(long, default_value_t = 60)]
    rounds: u64,
    /// Duration of a round in seconds
    #[arg(long, default_value_t = 1.0)]
    round_s: f64,
    /// Seconds over which a round's uploads are spread; 0: send each upload after the response to
    /// the previous one on its connection
    #[arg(long, default_value_t = 0.8)]
    spread_s: f64,
    /// Length of a vector, M
    #[arg(long, default_value_t = 100)]
    features: u32,
    /// Number of regions, P
    #[arg(long, default_value_t = 4)]
    regions: u32,
    /// Number of coordinators that share one PostgreSQL database and add up their uploads; 0: one
    /// coordinator, in a folder
    #[arg(long, default_value_t = 0)]
    shards: usize,
    /// Open a new connection for each upload, with TLS session resumption
    #[arg(long)]
    reconnect: bool,
    /// Draw noise from a seed, so that every release can be reproduced from the accepted uploads
    /// and compared
    #[arg(long)]
    simulate: bool,
    /// Launch an attack in every other block of twenty rounds
    #[arg(long)]
    attack: Option<Attack>,
    /// Number of attackers
    #[arg(long, default_value_t = 1000)]
    attackers: u32,
}

/// Number of rounds in a block; blocks with and without an attack alternate.
const BLOCK: u64 = 20;

impl Load {
    /// Returns the load of a study that never runs.
    fn idle() -> Self {
        Self {
            agents: 100,
            connections: 0,
            rounds: 1,
            round_s: 1.0,
            spread_s: 0.0,
            features: 100,
            regions: 4,
            shards: 0,
            reconnect: false,
            simulate: false,
            attack: None,
            attackers: 0,
        }
    }

    /// Returns true if a round is under attack.
    fn is_attacked(&self, round: u64) -> bool {
        self.attack.is_some() && (round / BLOCK) % 2 == 1
    }

    /// Returns the number of seconds in a round during which vectors are accepted.
    fn collect_s(&self) -> f64 {
        0.95 * self.round_s
    }
}

/// Returns one row with uploads per second, latencies, and the server's processor time and memory.
pub(crate) fn rows(load: &Load) -> Result<Vec<Value>> {
    ensure!(
        load.agents > 0 && load.connections > 0 && load.rounds > 0,
        "agents, connections and rounds are at least 1"
    );
    let prepared = Prepared::new(load)?;
    let uploads = Arc::new(Uploads::sign(&prepared, load)?);
    let start = |_| Server::start(&prepared.folder(), prepared.store());
    let servers: Vec<Server> = (0..load.shards.max(1)).map(start).collect::<Result<_>>()?;
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let idle_mib = largest(&servers, |(now, _)| now)?;
    let connector = connector(prepared.certificate.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut used = None;
    let attackers = load
        .attack
        .map(|attack| Attackers::new(attack, load.attackers, addresses[0], &connector, &uploads));
    let attackers = attackers.transpose()?;
    let seen = runtime.block_on(play(
        &addresses,
        &connector,
        &prepared,
        Arc::clone(&uploads),
        load,
        |round| {
            if round == 0 {
                used = Some(Used::now(&servers)?);
            }
            if let Some(attackers) = &attackers {
                attackers.set(load.is_attacked(round));
            }
            Ok(())
        },
    ))?;
    let used = used.context("no round was played")?.until(Used::now(&servers)?);
    if let Some(attackers) = attackers {
        attackers.end();
    }
    let peak_mib = largest(&servers, |(_, peak)| peak)?;
    let metrics = servers.iter().map(Server::metrics).collect::<Result<Vec<_>>>()?;
    let n_equal = verdict::check(&seen, &prepared, &uploads)?;
    let mut row = crate::measure::columns(json!({
        "peer": "fedbo",
        "agents": load.agents,
        "connections": load.connections,
        "rounds": load.rounds,
        "M": load.features,
        "P": load.regions,
        "shards": load.shards,
        "reconnect": load.reconnect,
        "noise": if load.simulate { "simulated" } else { "charged" },
        "releases_equal": n_equal,
        "idle_mib": rounded(idle_mib, 1),
        "peak_mib": rounded(peak_mib, 1),
    }));
    row.extend(figures(&seen, load));
    row.extend(used.columns(&seen));
    row.extend(attacked(&seen, load));
    for (name, p) in [("commit_p50_ms", 0.5), ("commit_p99_ms", 0.99)] {
        // Only the server that was the leader has this metric.
        let bounds =
            metrics.iter().filter_map(|text| bucket_bound(text, "fedbo_commit_seconds", p));
        let bound = bounds.reduce(f64::max).context("no commits in /metrics")?;
        row.insert(name.into(), rounded(1e3 * bound, 1));
    }
    Ok(vec![Value::Object(row)])
}

/// Returns the maximum of a resident-memory figure over the servers, in MiB.
fn largest(servers: &[Server], figure: impl Fn((f64, f64)) -> f64) -> Result<f64> {
    let mut most: f64 = 0.0;
    for server in servers {
        most = most.max(figure(server.resident_mib()?));
    }
    Ok(most)
}

/// Returns the columns for uploads and their latencies.
fn figures(seen: &Seen, load: &Load) -> serde_json::Map<String, Value> {
    let accepted = || seen.uploads.iter().filter(|sent| sent.fate == UploadOutcome::Accepted);
    let latencies: Vec<f64> = accepted().map(|sent| 1e3 * sent.latency.as_secs_f64()).collect();
    // Rate of each round, from its start to its last response.
    let mut rates = Vec::new();
    for (round, begun) in (0..load.rounds).zip(&seen.begun) {
        let of_round = || accepted().filter(|sent| sent.round == round);
        if let Some(last) = of_round().map(|sent| sent.answered).max() {
            rates.push(count(of_round().count()) / (last - *begun).as_secs_f64());
        }
    }
    let took = match (seen.begun.first(), seen.begun.last()) {
        (Some(first), Some(last)) => (*last - *first).as_secs_f64(),
        _ => f64::NAN,
    };
    crate::measure::columns(json!({
        "accepted": latencies.len(),
        "late": seen.uploads.len() - latencies.len(),
        "round_s": rounded(took / count(seen.begun.len() - 1), 4),
        "uploads_per_s": rounded(count(latencies.len()) / took, 0),
        "while_collecting_per_s": rounded(quantile(&rates, 0.5), 0),
        "p50_ms": rounded(quantile(&latencies, 0.5), 2),
        "p99_ms": rounded(quantile(&latencies, 0.99), 2),
        "max_ms": rounded(quantile(&latencies, 1.0), 2),
    }))
}

/// Returns the 99th percentiles of latency with and without an attack, as medians over blocks.
fn attacked(seen: &Seen, load: &Load) -> serde_json::Map<String, Value> {
    let Some(attack) = load.attack else {
        return serde_json::Map::new();
    };
    let p99s = |is_attacked| {
        let blocks = 0..load.rounds.div_ceil(BLOCK);
        let of_kind = blocks.filter(|block| load.is_attacked(block * BLOCK) == is_attacked);
        let p99s: Vec<f64> = of_kind
            .filter_map(|block| {
                let of_block = seen.uploads.iter().filter(|sent| sent.round / BLOCK == block);
                let ms: Vec<f64> = of_block.map(|s| 1e3 * s.latency.as_secs_f64()).collect();
                (!ms.is_empty()).then(|| quantile(&ms, 0.99))
            })
            .collect();
        match p99s.is_empty() {
            true => f64::NAN,
            false => quantile(&p99s, 0.5),
        }
    };
    let (calm, attacked) = (p99s(false), p99s(true));
    crate::measure::columns(json!({
        "attack": format!("{attack:?}").to_lowercase(),
        "attackers": load.attackers,
        "p99_calm_ms": rounded(calm, 2),
        "p99_attacked_ms": rounded(attacked, 2),
        "p99_ratio": rounded(attacked / calm, 2),
    }))
}

/// Processor time used so far by the servers, this process and the whole machine.
struct Used {
    at: Instant,
    server_s: f64,
    agents_s: f64,
    machine_s: f64,
}

impl Used {
    fn now(servers: &[Server]) -> Result<Self> {
        let seconds = servers.iter().map(Server::cpu_seconds).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            at: Instant::now(),
            server_s: seconds.iter().sum(),
            agents_s: process::cpu_seconds(std::process::id())?,
            machine_s: process::machine_seconds()?,
        })
    }

    fn until(self, later: Self) -> Between {
        Between {
            wall_s: (later.at - self.at).as_secs_f64(),
            server_s: later.server_s - self.server_s,
            agents_s: later.agents_s - self.agents_s,
            machine_s: later.machine_s - self.machine_s,
        }
    }
}

/// Processor time between two points in time.
struct Between {
    wall_s: f64,
    server_s: f64,
    agents_s: f64,
    machine_s: f64,
}

impl Between {
    /// Returns the average number of busy processors, and the processor time per upload.
    fn columns(&self, seen: &Seen) -> serde_json::Map<String, Value> {
        let processors = |seconds: f64| rounded(seconds / self.wall_s, 3);
        let others_s = self.machine_s - self.server_s - self.agents_s;
        crate::measure::columns(json!({
            "server_cpus": processors(self.server_s),
            "agents_cpus": processors(self.agents_s),
            "others_cpus": processors(others_s.max(0.0)),
            "server_us_per_upload": rounded(1e6 * self.server_s / count(seen.uploads.len()), 1),
            "agents_us_per_upload": rounded(1e6 * self.agents_s / count(seen.uploads.len()), 1),
        }))
    }
}

/// Returns the upper bound, in seconds, of the histogram bucket that contains a quantile.
fn bucket_bound(metrics: &str, name: &str, p: f64) -> Option<f64> {
    let prefix = format!("{name}_bucket{{");
    let buckets: Vec<(f64, f64)> = metrics
        .lines()
        .filter_map(|line| {
            let (labels, n) = line.strip_prefix(&prefix)?.rsplit_once(' ')?;
            let (_, bound) = labels.split_once("le=\"")?;
            let bound = bound.split('"').next()?;
            let bound = match bound {
                "+Inf" => f64::INFINITY,
                number => number.parse().ok()?,
            };
            Some((bound, n.parse().ok()?))
        })
        .collect();
    let (_, n_all) = *buckets.last().filter(|(_, n_all)| *n_all > 0.0)?;
    let found = buckets.iter().find(|(_, n)| *n >= p * n_all)?;
    Some(found.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_histogram_are_bounds_of_buckets() {
        let text = "# TYPE a histogram\na_bucket{le=\"0.1\",study=\"x\"} 3\na_bucket{le=\"0.2\",study=\"x\"} 9\n\
                    a_bucket{le=\"+Inf\",study=\"x\"} 10\nb_bucket{le=\"7\"} 1\n";
        let bound = |p| bucket_bound(text, "a", p).unwrap();
        assert!((bound(0.3) - 0.1).abs() < 1e-12);
        assert!((bound(0.5) - 0.2).abs() < 1e-12);
        assert!(bound(0.99).is_infinite());
        assert_eq!(bucket_bound(text, "c", 0.5), None);
    }
}
