//! Peers: runs their scripts with a Python environment that has their packages, or reads stored
//! results.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::cell::{Cell, Kind};
use super::{Row, rows_of};
use crate::process::{last_line, root, run, succeeds, target};

/// Pinned packages required by the compared cells.
const PACKAGES: [&str; 8] =
    ["numpy", "scipy", "torch", "gpytorch", "linear_operator", "botorch", "scikit-learn", "optuna"];

/// Runs a peer's script with more draws per cell than its default of 30.
///
/// Omits the additional searches that evaluate the peer's search after the timing, since they take
/// most of the time and we do not show their results.
const DRIVER: &str = "\
import common, os, sys
plain, draws = common.measure, int(os.environ['FEDBO_PEER_DRAWS'])
def measure(fn, max_reps=30, **limits):
    seconds, out = plain(fn, max_reps=draws if max_reps == 30 else max_reps, **limits)
    return seconds, [(*o[:2], None) if isinstance(o, tuple) and len(o) == 3 and callable(o[2]) else o for o in out]
common.measure = measure
__import__(os.environ['FEDBO_PEER_SCRIPT']).main()
";

/// Source of the peers' figures.
pub(crate) enum Peers {
    /// A run next to ours.
    Run { python: PathBuf, scripts: PathBuf, draws: usize, budget_s: usize },
    /// Stored results from another machine at another time.
    Stored { results: PathBuf },
    /// Neither is available.
    Absent,
}

impl Peers {
    /// Uses the given Python, `PEERS_PYTHON` or our own environment; otherwise stored results.
    pub(crate) fn find(python: Option<&Path>, draws: usize, quick: bool) -> Result<Self> {
        let named = python
            .map(Path::to_path_buf)
            .or_else(|| std::env::var_os("PEERS_PYTHON").map(PathBuf::from));
        let own = Some(environment().join("bin").join("python")).filter(|p| p.is_file());
        let scripts = scripts();
        if let Some(python) = named.or(own) {
            let Some(scripts) = scripts else {
                bail!(
                    "the peers' scripts are not in ../shared/bench/peers: set FEDBO_PEERS to their folder"
                );
            };
            eprintln!("xtask: looking for the peers' packages (their import takes seconds)");
            let probe = ["-c", "import torch, botorch, sklearn, optuna"];
            if !succeeds(Command::new(&python).args(probe)) {
                bail!(
                    "{} cannot import torch, botorch, sklearn and optuna; `--install-peers` makes an environment that can",
                    python.display()
                );
            }
            return Ok(Self::Run {
                python,
                scripts,
                draws: if quick { draws.min(30) } else { draws },
                budget_s: if quick { 4 } else { 30 },
            });
        }
        let results = scripts.map(|folder| folder.join("../results"));
        Ok(match results.filter(|folder| folder.is_dir()) {
            Some(results) => Self::Stored { results },
            None => Self::Absent,
        })
    }

    /// Returns true if the figures come from this run.
    pub(crate) fn in_same_run(&self) -> bool {
        matches!(self, Self::Run { .. })
    }

    /// Returns the peers' rows for a cell; empty if there are none.
    pub(crate) fn rows(&self, cell: &Cell) -> Result<Vec<Row>> {
        if !cell.runs_peers() {
            // The authors' code must not be redistributed, so only its stored times can be shown.
            let message = cell.kind == Kind::Message;
            return Ok(if message { official() } else { Vec::new() });
        }
        match self {
            Self::Absent => Ok(Vec::new()),
            Self::Stored { results } => {
                let path = results.join(format!("peers-{}.json", cell.kind.bench()));
                let line =
                    std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                let mut rows = rows_of(&line)?;
                rows.retain(|row| cell.key.iter().all(|(k, v)| row.get(*k) == Some(v)));
                rows.retain(|row| is_compared(cell, row));
                Ok(rows)
            }
            Self::Run { python, scripts, draws, budget_s } => {
                let mut command = Command::new(python);
                command
                    .args(["-c", DRIVER])
                    .current_dir(scripts)
                    .envs(cell.selection.iter().map(|(k, v)| (k, v)))
                    .env("FEDBO_PEER_SCRIPT", cell.kind.bench())
                    .env("FEDBO_PEER_DRAWS", draws.to_string())
                    .env("TS_BUDGET", budget_s.to_string())
                    .env("PEER_THREADS", super::n_cores().to_string())
                    .env("PYTHONDONTWRITEBYTECODE", "1");
                if let Some(data) = data_folder() {
                    command.env("BENCH_DATA", data);
                }
                let mut rows = rows_of(&last_line(&mut command)?)?;
                rows.retain(|row| !row.contains_key("error")); // a peer that is not installed
                Ok(rows)
            }
        }
    }
}

/// Returns true if the cell compares with the peer in a stored row.
fn is_compared(cell: &Cell, row: &Row) -> bool {
    let peers = cell.selection.iter().find(|(k, _)| k.ends_with("_PEERS"));
    let peer = row.get("peer").and_then(Value::as_str).unwrap_or_default();
    peers.is_none_or(|(_, names)| names.split(',').any(|name| name == peer))
}

/// Returns the stored times of the FTS authors' published code on the landmine problem (M = 100, d
/// = 2).
///
/// There are two figures: only the search for the maximum (mean over iterations), and a complete
/// iteration without the objective (median).
fn official() -> Vec<Row> {
    let Some(folder) = scripts() else {
        return Vec::new();
    };
    let path = folder.join("../results/peers-official_fts.json");
    let Ok(line) = std::fs::read_to_string(path) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for row in rows_of(&line).unwrap_or_default() {
        let number = |key: &str| row.get(key).and_then(Value::as_f64);
        let run = number("run").unwrap_or(1.0);
        if row.get("peer") != Some(&json!("official_fts")) {
            continue;
        }
        let search = number("acq_total").zip(number("n")).map(|(all, n)| all / n);
        for (what, seconds) in [("search", search), ("own work", number("own_median"))] {
            if let Some(seconds) = seconds {
                let peer = format!("official_fts {what}, run {run} (stored)");
                found.extend(json!({ "peer": peer, "seconds": seconds }).as_object().cloned());
            }
        }
    }
    found
}

/// Returns the folder of the peers' scripts, if it exists.
fn scripts() -> Option<PathBuf> {
    let folder = std::env::var_os("FEDBO_PEERS")
        .map_or_else(|| root().join("../shared/bench/peers"), PathBuf::from);
    folder.canonicalize().ok()
}

/// Returns the folder of the data sets, if it exists.
pub(crate) fn data_folder() -> Option<PathBuf> {
    match std::env::var_os("BENCH_DATA") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => scripts()?.join("../data").canonicalize().ok(),
    }
}

/// Returns the folder of our own environment with the peers' packages.
fn environment() -> PathBuf {
    target().join("peers-env")
}

/// Creates the environment with the pinned versions of `requirements.txt`.
pub(crate) fn install() -> Result<()> {
    let folder = scripts().context("no folder of peers' scripts: set FEDBO_PEERS")?;
    let pinned = folder.join("requirements.txt");
    let text = std::fs::read_to_string(&pinned).with_context(|| pinned.display().to_string())?;
    let wanted: Vec<&str> = text
        .lines()
        .filter(|line| PACKAGES.contains(&line.split("==").next().unwrap_or_default()))
        .collect();
    if wanted.len() != PACKAGES.len() {
        bail!("{} does not pin all of {PACKAGES:?}", pinned.display());
    }
    let environment = environment();
    run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let python = environment.join("bin").join("python");
    run(Command::new(python).args(["-m", "pip", "install"]).args(wanted))
}
