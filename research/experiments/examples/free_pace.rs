//! Compares progress over time in rounds and at a free pace, for the fourteen parties of
//! `examples/digits.toml`. Every second party is ten times slower.
//!
//! ```text
//! cargo run --release -p fedbo-experiments --example free_pace -- [ALGORITHM] [RUNS]
//! ```
//!
//! In rounds, all parties wait for the slowest, so each round lasts as long as the slowest trial.
//! At a free pace nobody waits. Each party makes the same number of queries in either case. The
//! table shows the mean over parties of the best accuracy so far, at times measured in trials of a
//! fast party, with Student's interval of the differences over runs.
#![expect(clippy::print_stdout, reason = "a table for a terminal")]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fedbo_federation::{Arm, Federation};
use fedbo_report::{Estimate, Row};
use fedbo_research_problems::ResearchProblems;
use fedbo_runner::federation::run_arm;

const N_AGENTS: usize = 14;
/// Duration of a slow party's trial, in trials of a fast one.
const SLOW: usize = 10;
const ROUNDS: usize = 20;
const TIMES: [usize; 6] = [5, 10, 20, 50, 100, 200];

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let algorithm = arguments.next().unwrap_or_else(|| "shared-prior".to_owned());
    let n_runs: u32 = arguments.next().map_or(Ok(10), |runs| runs.parse())?;
    let (free, rounds) = (federation(&algorithm, true)?, federation(&algorithm, false)?);
    let mut table: Vec<[Vec<f64>; 3]> = vec![Default::default(); TIMES.len()];
    for run in 0..n_runs {
        let (free, rounds) = (free.repetition(run), rounds.repetition(run));
        let own_speed = |agent: usize| if agent % 2 == 1 { SLOW } else { 1 };
        let all = [
            best_by_time(&free, Arm::LOG_EI, own_speed)?,
            best_by_time(&rounds, rounds.own_arm(), |_| SLOW)?,
            best_by_time(&free, free.own_arm(), own_speed)?,
        ];
        for (at, row) in table.iter_mut().enumerate() {
            row.iter_mut().zip(&all).for_each(|(values, best)| values.push(best[at]));
        }
    }
    println!("{algorithm}, {n_runs} runs: mean best accuracy of {N_AGENTS} parties");
    println!(
        "{:>5} {:>8} {:>8} {:>8}   free - rounds (95 %)        free - alone (95 %)",
        "time", "alone", "rounds", "free"
    );
    for (time, [alone, rounds, free]) in TIMES.iter().zip(&table) {
        let mean = |values: &[f64]| Estimate::of(values).map_or(f64::NAN, |found| found.mean);
        println!(
            "{time:>5} {:>8.4} {:>8.4} {:>8.4}   {}   {}",
            mean(alone),
            mean(rounds),
            mean(free),
            difference(free, rounds),
            difference(free, alone)
        );
    }
    Ok(())
}

fn difference(ours: &[f64], theirs: &[f64]) -> String {
    let differences: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a - b).collect();
    let Some(estimate) = Estimate::of(&differences) else {
        return "none".to_owned();
    };
    match estimate.interval() {
        Some(of) => format!("{:+.4} ({:+.4} to {:+.4})", estimate.mean, of.low, of.high),
        None => format!("{:+.4}", estimate.mean),
    }
}

/// Returns the federation: in rounds, or at a free pace with windows as long as a fast trial (a
/// slow one if sums are released).
fn federation(algorithm: &str, is_free: bool) -> anyhow::Result<Federation> {
    let private = algorithm.starts_with("dp-");
    let mut text = format!(
        "[federation]\nname = \"digits\"\nalgorithm = {algorithm:?}\nrounds = {ROUNDS}\ninitial = 1\nseed = 301\n"
    );
    // A window without vectors is pure noise, so windows are longer if sums are released.
    let window = if private { SLOW } else { 1 };
    let last = (ROUNDS + 1) * SLOW / window;
    if is_free {
        text += &format!("pace = \"free\"\nwindows = {last}\n[network]\nround_s = {window}.0\n");
    }
    text += "[features]\ncount = 200\nsampling = \"quasi-random\"\nlengthscale = { median = 0.7, spread = 0.5 }\n";
    if private {
        let limit = if is_free { "participations = 5" } else { "releases = 5" };
        text += &format!("[privacy]\nsimulate = true\nepsilon = 4.0\n{limit}\n");
    }
    for agent in 0..N_AGENTS {
        text += &format!(
            "[[agents]]\nname = \"form {agent}\"\nproblem = \"digits-perceptron\"\nsilo = {agent}\n"
        );
        if is_free {
            let seconds = if agent % 2 == 1 { SLOW } else { 1 };
            text += &format!("trial_s = {seconds}.0\n");
        }
    }
    let folder = std::env::temp_dir().join(format!("fedbo-free-pace-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("federation.toml");
    std::fs::write(&path, text)?;
    let loaded = Federation::load(Path::new(&path), &ResearchProblems);
    std::fs::remove_dir_all(&folder)?;
    Ok(loaded?)
}

/// Returns the mean over agents of the best value so far at each of the given times. `speed` is the
/// duration of an agent's trial.
fn best_by_time(
    federation: &Federation,
    arm: Arm,
    speed: impl Fn(usize) -> usize,
) -> anyhow::Result<Vec<f64>> {
    let (rows, _) = run_arm(federation, arm, "free-pace", &AtomicBool::new(false))?;
    let agents: Vec<&[Row]> = rows.chunks(ROUNDS + 1).collect();
    anyhow::ensure!(agents.len() == N_AGENTS, "{} agents have rows", agents.len());
    let at = |time: usize| {
        let best = agents.iter().enumerate().map(|(agent, rows)| {
            let n_ended = (time / speed(agent)).min(rows.len());
            // A party without a value can only guess, and one guess in ten is right.
            rows[..n_ended].last().and_then(|row| row.best).unwrap_or(0.1)
        });
        best.sum::<f64>() / N_AGENTS as f64
    };
    Ok(TIMES.map(at).to_vec())
}
