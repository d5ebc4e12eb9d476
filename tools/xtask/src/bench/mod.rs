//! `bench`: measures our operations and those of peers in the same run, cell by cell.
//!
//! `docs/decisions/0007-benchmarks.md` describes the protocol and the reasons for it.

mod cell;
mod peers;
mod report;
mod service;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::process::{cargo, cargo_in, last_line, root, run, target};
use crate::workspace::RESEARCH;
use cell::{Cell, Kind};
use peers::Peers;

/// A row of results, with the columns of the peers' scripts.
pub(crate) type Row = serde_json::Map<String, Value>;

/// The arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Bench {
    /// Run only cells with this text in their name: thompson_step/d3, hyperfit/se/t200, message,
    /// scaling, aggregation, coordinator_load/held, memory, micro
    filter: Option<String>,
    /// Run few cells with few repetitions, for a quick look without reliable figures
    #[arg(long)]
    quick: bool,
    /// Python with the peers' packages [default: PEERS_PYTHON, then target/peers-env]
    #[arg(long, value_name = "PYTHON")]
    peers: Option<PathBuf>,
    /// Create target/peers-env with the pinned packages for the comparison (about 6 GB), using
    /// python3
    #[arg(long)]
    install_peers: bool,
    /// Draws of a peer in each Thompson cell; the default of their scripts is 30
    #[arg(long, default_value_t = 100)]
    peer_draws: usize,
    /// List the cells and stop
    #[arg(long)]
    list: bool,
}

impl Bench {
    pub(crate) fn run(&self) -> Result<()> {
        let filter = self.filter.as_deref().unwrap_or_default();
        let mut cells = cell::all(self.quick);
        cells.retain(|cell| cell.name.contains(filter));
        if cells.is_empty() {
            bail!("no cell's name contains {filter:?}; `cargo xtask bench --list` shows them");
        }
        if self.list {
            cells.iter().for_each(|cell| println!("{}", cell.name));
            return Ok(());
        }
        if self.install_peers {
            peers::install()?;
        }
        let peers = Peers::find(self.peers.as_deref(), self.peer_draws, self.quick)?;
        let folder = target().join("bench");
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        if cells.iter().any(|cell| cell.kind != Kind::Micro) {
            run(&mut cargo_in(RESEARCH, ["build", "--release", "--package", "fedbo-bench"]))?;
        }
        let mut done = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            eprintln!("xtask: {} ({} of {})", cell.name, index + 1, cells.len());
            if cell.kind == Kind::Micro {
                run(&mut self.micro())?;
                continue;
            }
            done.push(self.measure(cell, &peers)?);
            write(&folder, &done, &peers)?; // after each cell, so that an interrupted run keeps its results
        }
        report::print(&done, &peers);
        eprintln!("xtask: JSON lines in {}", folder.display());
        Ok(())
    }

    /// Measures one cell: our code, then the peers, then our code again if there are peers. The
    /// slower of our two runs counts, so that other load on the machine is never to our advantage.
    fn measure<'a>(&self, cell: &'a Cell, peers: &Peers) -> Result<Measured<'a>> {
        let before = self.ours(cell)?;
        let theirs = peers.rows(cell)?;
        let ours = if cell.runs_peers() && peers.in_same_run() {
            slower(before, self.ours(cell)?)
        } else {
            before
        };
        Ok(Measured { cell, ours, theirs })
    }

    fn ours(&self, cell: &Cell) -> Result<Vec<Row>> {
        let program = target().join("release").join("fedbo-bench");
        let mut command = Command::new(program);
        command.current_dir(root()).args(&cell.arguments);
        if self.quick && cell.kind.is_repeated() {
            command.args(["--draws", "30", "--budget", "2"]);
        }
        if let Some(data) = peers::data_folder() {
            command.env("BENCH_DATA", data);
        }
        rows_of(&last_line(&mut command)?)
    }

    fn micro(&self) -> Command {
        let mut command = cargo(["bench", "--package", "fedbo-gp", "--bench", "gp", "--"]);
        if self.quick {
            command.arg("--quick");
        }
        command
    }
}

/// Rows of one cell, ours and the peers'.
pub(crate) struct Measured<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) ours: Vec<Row>,
    pub(crate) theirs: Vec<Row>,
}

/// Parses the rows in one line of results.
pub(crate) fn rows_of(line: &str) -> Result<Vec<Row>> {
    let result: Value =
        serde_json::from_str(line).with_context(|| format!("not a line of results: {line}"))?;
    let rows = result["rows"].as_array().context("results without rows")?;
    Ok(rows.iter().filter_map(Value::as_object).cloned().collect())
}

/// Selects the larger median of two runs, row by row.
fn slower(first: Vec<Row>, second: Vec<Row>) -> Vec<Row> {
    let seconds = |row: &Row| row.get("seconds").and_then(Value::as_f64).unwrap_or(0.0);
    first
        .into_iter()
        .zip(second)
        .map(|(a, b)| if seconds(&a) >= seconds(&b) { a } else { b })
        .collect()
}

/// Returns the number of cores available to our programs and those of the peers.
fn n_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Writes `fedbo-<bench>.json`, and `peers-<bench>.json` if the peers ran in the same run.
fn write(folder: &Path, done: &[Measured<'_>], peers: &Peers) -> Result<()> {
    for kind in Kind::COMPARED.into_iter().chain(Kind::ALONE) {
        let of_kind = || done.iter().filter(|m| m.cell.kind == kind);
        let ours: Vec<&Row> = of_kind().flat_map(|m| &m.ours).collect();
        let run_here = of_kind().filter(|m| m.cell.runs_peers() && peers.in_same_run());
        let theirs: Vec<&Row> = run_here.flat_map(|m| &m.theirs).collect();
        for (who, rows) in [("fedbo", ours), ("peers", theirs)] {
            if rows.is_empty() {
                continue;
            }
            let bench = kind.bench();
            let path = folder.join(format!("{who}-{bench}.json"));
            let line = json!({ "bench": bench, "threads": n_cores(), "rows": rows });
            std::fs::write(&path, format!("{line}\n"))
                .with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}
