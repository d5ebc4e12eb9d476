//! Benchmarks of whole operations, with the same protocol and JSON layout as the peers' scripts.
//!
//! Each subcommand prints one line: `{"bench": …, "threads": 2, "versions": {…}, "rows":
//! [{"peer": "fedbo", …}]}`. This program defines the measured operations; `cargo xtask bench`
//! selects the peers and prints the table. Work on 512 or more observations is split over the cores
//! available to the process (`threads`). Everything else runs on one core.
//! `docs/decisions/0007-benchmarks.md` documents the protocol. Micro-benchmarks are in
//! `gp/benches/gp.rs`.
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

/// Benchmarks of whole operations; prints one line of JSON to standard output.
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
    /// Maximisation of another agent's message: 100 features in two dimensions
    Message {
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// One query of RGPE, TAF, the shared prior and FTS, given the messages of other agents
    MetaStep {
        /// Number of other agents
        #[arg(long, default_value_t = 28)]
        agents: usize,
        /// Number of shared features
        #[arg(long, default_value_t = 100)]
        features: usize,
        /// Number of observations of the target
        #[arg(long, default_value_t = 50)]
        observations: usize,
        /// Numbers of samples per model for RGPE's weights
        #[arg(long, value_delimiter = ',', default_value = "100,500")]
        samples: Vec<usize>,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// One maximum-likelihood fit of five hyperparameters from one start
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
    /// One step of a study: ask for a trial and tell its value
    AskTell {
        /// ts, gp-ucb or log-ei
        #[arg(long, value_parser = ask_tell::strategy, default_value = "log-ei")]
        strategy: StrategySpec,
        /// The search space
        #[arg(long, value_enum, default_value = "box3")]
        space: ask_tell::Shape,
        /// Numbers of finished trials before the step
        #[arg(long, value_delimiter = ',', default_value = "50,200,1000")]
        sizes: Vec<usize>,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// Growth of a study's step time and memory with the number of trials
    StudyGrowth {
        /// ts, gp-ucb or log-ei
        #[arg(long, value_parser = ask_tell::strategy, default_value = "log-ei")]
        strategy: StrategySpec,
        /// Largest number of trials
        #[arg(long, default_value_t = 20_000)]
        largest: usize,
    },
    /// One round of the private mechanism over a large roster, compared with a single pass over the
    /// same memory
    Aggregation {
        /// Number of vectors, each of 100 features
        #[arg(long, default_value_t = 200_000)]
        agents: u32,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// Secure sum: cost of a report for its agent and for each server, and cost of closing a round
    Secsum {
        /// Vector lengths
        #[arg(long, value_delimiter = ',', default_value = "100,400,1000,2000")]
        sizes: Vec<u32>,
        /// Number of reports in the closed round
        #[arg(long, default_value_t = 1000)]
        agents: u32,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// ε according to each accountant, and the smallest noise multiplier for that ε
    PrivacyAccounting {
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// Rounds of a whole private federation in one process, excluding the cost of objectives
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
        /// Fix the hyperparameters and draw each agent's own functions from 100 features, as in the
        /// authors' rounds between two fits
        #[arg(long)]
        fixed: bool,
    },
    /// Growth of cost with the number of observations and of features
    Scaling {
        /// Largest number of observations and of features
        #[arg(long, default_value_t = 2000)]
        largest: usize,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// One step of robust meta-learning by number of earlier tasks, compared with one Gaussian
    /// process over all tasks
    MetaScaling {
        /// Numbers of meta-tasks
        #[arg(long, value_delimiter = ',', default_value = "5,10,20,40,60")]
        tasks: Vec<usize>,
        /// Number of observations per task
        #[arg(long, default_value_t = 130)]
        observations: usize,
        /// Maximum number of meta-tasks for the single Gaussian process over all observations
        #[arg(long, default_value_t = 10)]
        largest_joint: usize,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// One decision of a player that reasons about the others; all players have the same number of
    /// actions
    GameDecision {
        /// Number of players
        #[arg(long, default_value_t = 2)]
        players: usize,
        /// Number of actions of each player
        #[arg(long, default_value_t = 100)]
        actions: usize,
        /// Numbers of rounds played before the decision
        #[arg(long, value_delimiter = ',', default_value = "50,150,500")]
        rounds: Vec<usize>,
        /// Time limit of a level-2 decision in a running game, in seconds; no limit by default
        #[arg(long)]
        most: Option<f64>,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// The stopping problem of one trial under BO-BOS, as a whole and in parts
    StoppingProblem {
        /// Numbers of epochs of a full training run
        #[arg(long, value_delimiter = ',', default_value = "50,100")]
        epochs: Vec<usize>,
        /// Numbers of drawn paths
        #[arg(long, value_delimiter = ',', default_value = "10000,100000")]
        paths: Vec<usize>,
        /// Number of cells per epoch
        #[arg(long, default_value_t = 100)]
        cells: usize,
        /// Average the curve's process over its hyperparameters (true), or use the hyperparameters
        /// with the highest evidence (false)
        #[arg(long, value_delimiter = ',', action = clap::ArgAction::Set, default_value = "true,false")]
        averaged: Vec<bool>,
        /// Time limit of the whole problem in seconds
        #[arg(long, default_value_t = 0.1)]
        most: f64,
        #[command(flatten)]
        effort: MeasurementLimits,
    },
    /// A coordinator service under load from the uploads of many agents, over TLS, with durable
    /// rounds
    CoordinatorLoad {
        #[command(flatten)]
        load: coordinator_load::Load,
    },
    /// Memory of a coordinator service per open connection
    CoordinatorConnections {
        /// Numbers of connections
        #[arg(long, value_delimiter = ',', default_value = "1000,4096")]
        connections: Vec<u32>,
    },
    /// The service of `coordinator_load`, in a separate process
    #[command(hide = true)]
    CoordinatorServe {
        /// The coordinator's folder
        folder: std::path::PathBuf,
        /// URL of the database shared with other coordinators
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

/// Limits on the measurement of one cell.
#[derive(Args)]
struct MeasurementLimits {
    /// Maximum number of repetitions of a cell
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
        Bench::AskTell { strategy, space, sizes, effort } => {
            ("ask_tell", ask_tell::rows(strategy, space, &sizes, &effort.limits())?)
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
