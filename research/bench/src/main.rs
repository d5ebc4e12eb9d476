//! Benchmarks of whole operations, by the same protocol and in the same JSON layout as the peers' scripts.
//!
//! Each subcommand prints one line: `{"bench": …, "threads": 2, "versions": {…}, "rows": [{"peer": "fedbo", …}]}`.
//! Decides what is measured; `cargo xtask bench` decides beside whom, and draws the table. Work on 512 observations and
//! more is split over the cores that the process may use, `threads`; all else runs on one. The protocol is laid down in `docs/decisions/0007-benchmarks.md`; micro benchmarks are `gp/benches/gp.rs`.
#![expect(
    clippy::print_stdout,
    reason = "the line of JSON on standard output is what this program is for"
)]

mod aggregation;
mod ask_tell;
mod coordinator_load;
mod data;
mod game_decision;
mod hyperfit;
mod measure;
mod memory;
mod message;
mod meta_scaling;
mod meta_step;
mod privacy_accounting;
mod private_round;
mod scaling;
mod secsum;
mod stopping_problem;
mod thompson_step;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use fedbo_study::StrategySpec;
use serde_json::{Value, json};

use crate::hyperfit::KernelName;
use crate::measure::Limits;

/// Benchmarks of whole operations; one line of JSON on standard output.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
#[command(rename_all = "snake_case")]
enum Bench {
    /// One Thompson query with given hyperparameters: condition, draw, maximise
    ThompsonStep {
        /// Input dimensions
        #[arg(long, value_delimiter = ',', default_value = "2,3,6,20")]
        dims: Vec<usize>,
        /// Numbers of observations
        #[arg(long, value_delimiter = ',', default_value = "10,50,200,1000")]
        sizes: Vec<usize>,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// The maximum of another agent's message: 100 features in two dimensions
    Message {
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// One query of RGPE, TAF and the shared prior with what other agents sent, and one of FTS
    MetaStep {
        /// Other agents
        #[arg(long, default_value_t = 28)]
        agents: usize,
        /// Shared features
        #[arg(long, default_value_t = 100)]
        features: usize,
        /// Observations of the target
        #[arg(long, default_value_t = 50)]
        observations: usize,
        /// Samples of each model behind RGPE's weights
        #[arg(long, value_delimiter = ',', default_value = "100,500")]
        samples: Vec<usize>,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// A maximum-likelihood fit of five hyperparameters from one start
    Hyperfit {
        /// Kernels
        #[arg(long, value_delimiter = ',', default_value = "se,m52")]
        kernels: Vec<KernelName>,
        /// Numbers of observations
        #[arg(long, value_delimiter = ',', default_value = "50,200,1000")]
        sizes: Vec<usize>,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// One step of a study: ask for a trial and tell its value, three parameters
    AskTell {
        /// ts, gp-ucb or log-ei
        #[arg(long, value_parser = ask_tell::strategy, default_value = "log-ei")]
        strategy: StrategySpec,
        /// Trials told before
        #[arg(long, value_delimiter = ',', default_value = "50,200,1000")]
        sizes: Vec<usize>,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// Growth of a study's step and of its memory with the number of trials
    StudyGrowth {
        /// ts, gp-ucb or log-ei
        #[arg(long, value_parser = ask_tell::strategy, default_value = "log-ei")]
        strategy: StrategySpec,
        /// Largest number of trials
        #[arg(long, default_value_t = 20_000)]
        largest: usize,
    },
    /// A round of the private mechanism over a large roster, beside a plain pass over the same memory
    Aggregation {
        /// Vectors of 100 features
        #[arg(long, default_value_t = 200_000)]
        agents: u32,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// A secure sum: what a report costs its agent and each server, and what closing a round costs
    Secsum {
        /// Numbers of a vector
        #[arg(long, value_delimiter = ',', default_value = "100,400,1000,2000")]
        sizes: Vec<u32>,
        /// Reports of the round that is closed
        #[arg(long, default_value_t = 1000)]
        agents: u32,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// ε by each accountant, and the smallest noise for it
    PrivacyAccounting {
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// Rounds of a whole private federation in one process, objectives apart
    PrivateRound {
        /// Agents
        #[arg(long, default_value_t = 29)]
        agents: u32,
        /// Rounds
        #[arg(long, default_value_t = 60)]
        rounds: u64,
        /// Threads
        #[arg(long, default_value_t = 1)]
        threads: usize,
        /// Hyperparameters as given, own functions from 100 features: the authors' round between two fits
        #[arg(long)]
        fixed: bool,
    },
    /// Growth of cost with observations and with features
    Scaling {
        /// Largest number of observations and of features
        #[arg(long, default_value_t = 2000)]
        largest: usize,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// One step of robust meta-learning as earlier tasks become more, beside one Gaussian process over all of them
    MetaScaling {
        /// Numbers of meta-tasks
        #[arg(long, value_delimiter = ',', default_value = "5,10,20,40,60")]
        tasks: Vec<usize>,
        /// Observations of each
        #[arg(long, default_value_t = 130)]
        observations: usize,
        /// Most meta-tasks for which all observations go into one Gaussian process
        #[arg(long, default_value_t = 10)]
        largest_joint: usize,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// A decision of a player that reasons about the others, who have as many actions
    GameDecision {
        /// Number of players
        #[arg(long, default_value_t = 2)]
        players: usize,
        /// Actions of each player
        #[arg(long, default_value_t = 100)]
        actions: usize,
        /// Rounds played before
        #[arg(long, value_delimiter = ',', default_value = "50,150,500")]
        rounds: Vec<usize>,
        /// Seconds that level 2 may take in the course of a game; no limit if it is left out
        #[arg(long)]
        most: Option<f64>,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// The stopping problem of one trial under BO-BOS, whole and in parts
    StoppingProblem {
        /// Epochs of a whole training
        #[arg(long, value_delimiter = ',', default_value = "50,100")]
        epochs: Vec<usize>,
        /// Paths that are drawn
        #[arg(long, value_delimiter = ',', default_value = "10000,100000")]
        paths: Vec<usize>,
        /// Cells an epoch
        #[arg(long, default_value_t = 100)]
        cells: usize,
        /// Average the process of a curve over its hyperparameters (true), or take the one with the largest evidence
        /// (false)
        #[arg(long, value_delimiter = ',', action = clap::ArgAction::Set, default_value = "true,false")]
        averaged: Vec<bool>,
        /// Seconds that the whole may take
        #[arg(long, default_value_t = 0.1)]
        most: f64,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// A coordinator's service under the uploads of many agents, over TLS, with durable rounds
    CoordinatorLoad {
        #[command(flatten)]
        load: coordinator_load::Load,
    },
    /// Memory of a coordinator's service for each open connection
    CoordinatorConnections {
        /// Numbers of connections
        #[arg(long, value_delimiter = ',', default_value = "1000,4096")]
        connections: Vec<u32>,
    },
    /// The service of `coordinator_load`, in a process of its own
    #[command(hide = true)]
    CoordinatorServe {
        /// Its folder
        folder: std::path::PathBuf,
        /// The database that it shares with others
        #[arg(long)]
        store: Option<String>,
    },
    /// Peak memory of a whole federation in one process
    Memory {
        /// Agents
        #[arg(long, default_value_t = 29)]
        agents: u32,
        /// Rounds
        #[arg(long, default_value_t = 50)]
        rounds: u64,
    },
}

/// The limits of a cell's measurement.
#[derive(Args)]
struct MeasurementLimits {
    /// Most repetitions of a cell
    #[arg(long, default_value_t = 200)]
    draws: usize,
    /// Seconds after which a cell stops repeating
    #[arg(long, default_value_t = 6.0)]
    budget: f64,
}

impl MeasurementLimits {
    fn limits(&self) -> Limits {
        Limits { budget_s: self.budget, min_reps: 3, max_reps: self.draws.max(3) }
    }
}

fn main() -> Result<()> {
    let (bench, rows) = match Cli::parse().bench {
        Bench::ThompsonStep { dims, sizes, effort } => {
            ("thompson_step", thompson_step::rows(&dims, &sizes, &effort.limits())?)
        }
        Bench::Message { effort } => ("message", message::rows(&effort.limits())?),
        Bench::MetaStep { agents, features, observations, samples, effort } => {
            let setting = meta_step::Setting {
                n_agents: agents,
                n_features: features,
                t: observations.max(2),
                samples,
            };
            ("meta_step", meta_step::rows(&setting, &effort.limits())?)
        }
        Bench::Hyperfit { kernels, sizes, effort } => {
            ("hyperfit", hyperfit::rows(&kernels, &sizes, &effort.limits())?)
        }
        Bench::AskTell { strategy, sizes, effort } => {
            ("ask_tell", ask_tell::rows(strategy, &sizes, &effort.limits())?)
        }
        Bench::StudyGrowth { strategy, largest } => {
            ("study_growth", ask_tell::growth(strategy, largest)?)
        }
        Bench::Aggregation { agents, effort } => {
            ("aggregation", aggregation::rows(agents, &effort.limits())?)
        }
        Bench::Secsum { sizes, agents, effort } => {
            ("secsum", secsum::rows(&sizes, agents, &effort.limits())?)
        }
        Bench::PrivacyAccounting { effort } => {
            ("privacy_accounting", privacy_accounting::rows(&effort.limits())?)
        }
        Bench::PrivateRound { agents, rounds, threads, fixed } => {
            ("private_round", private_round::rows(agents, rounds, threads, fixed)?)
        }
        Bench::Scaling { largest, effort } => {
            ("scaling", scaling::rows(largest, &effort.limits())?)
        }
        Bench::MetaScaling { tasks, observations, largest_joint, effort } => (
            "meta_scaling",
            meta_scaling::rows(&tasks, observations, largest_joint, &effort.limits())?,
        ),
        Bench::GameDecision { players, actions, rounds, most, effort } => {
            let size = game_decision::Size { n_players: players, n_actions: actions };
            ("game_decision", game_decision::rows(size, &rounds, most, &effort.limits())?)
        }
        Bench::StoppingProblem { epochs, paths, cells, averaged, most, effort } => {
            let mut settings = Vec::new();
            for &n_epochs in &epochs {
                for &n_paths in &paths {
                    for &is_averaged in &averaged {
                        settings.push(stopping_problem::Setting {
                            n_epochs,
                            n_paths,
                            n_cells: cells,
                            is_averaged,
                        });
                    }
                }
            }
            ("stopping_problem", stopping_problem::rows(&settings, most, &effort.limits())?)
        }
        Bench::CoordinatorLoad { load } => ("coordinator_load", coordinator_load::rows(&load)?),
        Bench::CoordinatorConnections { connections } => {
            ("coordinator_connections", coordinator_load::connections::rows(&connections)?)
        }
        Bench::CoordinatorServe { folder, store } => {
            return coordinator_load::serve(&folder, store.as_deref());
        }
        Bench::Memory { agents, rounds } => ("memory", memory::rows(agents, rounds)?),
    };
    let versions = json!({ "fedbo": env!("CARGO_PKG_VERSION") });
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let line: Value =
        json!({ "bench": bench, "threads": threads, "versions": versions, "rows": rows });
    println!("{line}");
    Ok(())
}
