//! The general-sum synthetic games of R2-B2 (thesis section 8.4.1, Fig. 8.2b): 10 games, 5 starts, 150 rounds.
//!
//! `cargo run --release -p fedbo-games --example synthetic_games -- DIR`, where DIR holds `game{0..9}_f{1,2}.csv`, the authors' payoff
//! functions as 100 × 100 tables. Prints the mean regret of agent 1 (footnote 5) after 50 and 150 rounds, the initial one not counted,
//! and beside it what the authors published, for three models of the payoffs: as in the authors' code; with the true noise; and with
//! the true noise, standardized payoffs and the deviation of the payoff function alone.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::error::Error;
use std::path::Path;

use fedbo_games::{
    Action, ActionSet, Basics, Expectation, Game, History, PayoffTable, Player, Reasoner, Round,
};
use fedbo_streams::{Purpose, Seed};
use rayon::prelude::*;

const N_ACTIONS: usize = 100;
const N_ROUNDS: usize = 150;
const N_GAMES: usize = 10;
const N_STARTS: usize = 5;
/// Standard deviation of the observation noise.
const NOISE_STD: f64 = 1e-4;

/// Levels of agents 1 and 2, how expectations are taken, and the authors' figures after 50 and 150 rounds.
const ARMS: [(usize, usize, Expectation, [f64; 2]); 5] = [
    (0, 0, Expectation::Exact, [0.49, 0.482]),
    (1, 0, Expectation::Exact, [0.457, 0.425]),
    (1, 0, Expectation::Lite, [0.48, 0.470]),
    (2, 1, Expectation::Exact, [0.339, 0.304]),
    (3, 2, Expectation::Exact, [0.37, 0.331]),
];
/// Rounds after which regrets are shown.
const SHOWN: [usize; 2] = [50, N_ROUNDS];

/// What players know of their payoffs.
#[derive(Clone, Copy)]
enum Model {
    Authors,
    TrueNoise,
    Standardized,
}

impl Model {
    fn name(self) -> &'static str {
        match self {
            Self::Authors => "as in authors' code",
            Self::TrueNoise => "true noise",
            Self::Standardized => "true noise, standardized",
        }
    }

    fn set(self, basics: &mut Basics) {
        if matches!(self, Self::Authors) {
            return;
        }
        basics.payoff_model.hyperparameters.noise_variance = NOISE_STD * NOISE_STD;
        if matches!(self, Self::Standardized) {
            basics.payoff_model.standardize = true;
            basics.ucb.with_noise = false;
        }
    }
}

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("the folder of the payoff tables is missing")?;
    let tables: Result<Vec<[PayoffTable; 2]>, Failure> = (0..N_GAMES)
        .map(|game| Ok([read(&folder, game, 1)?, read(&folder, game, 2)?]))
        .collect();
    let tables = tables?;
    println!("model                    levels       rounds  mean regret    authors");
    for model in [Model::Authors, Model::TrueNoise, Model::Standardized] {
        for (first, second, expectation, published) in ARMS {
            let runs: Result<Vec<[f64; 2]>, Failure> = (0..N_GAMES * N_STARTS)
                .into_par_iter()
                .map(|run| {
                    let levels = [first, second];
                    play(
                        &tables[run / N_STARTS],
                        run as u64,
                        levels,
                        expectation,
                        model,
                    )
                })
                .collect();
            let runs = runs?;
            let lite = if expectation == Expectation::Lite {
                " (Lite)"
            } else {
                ""
            };
            let (name, levels) = (model.name(), format!("{first} v {second}{lite}"));
            for (shown, rounds) in SHOWN.into_iter().enumerate() {
                let regrets: Vec<f64> = runs.iter().map(|run| run[shown]).collect();
                let (mean, error) = mean_and_error(&regrets);
                let theirs = published[shown];
                println!(
                    "{name:<24} {levels:<12} {rounds:>6}  {mean:.3} ± {error:.3}  {theirs:.3}"
                );
            }
        }
    }
    Ok(())
}

/// One game from one start: the mean regrets of agent 1.
fn play(
    tables: &[PayoffTable; 2],
    run: u64,
    levels: [usize; 2],
    expectation: Expectation,
    model: Model,
) -> Result<[f64; 2], Failure> {
    let game = Game::new(
        vec![ActionSet::grid(N_ACTIONS), ActionSet::grid(N_ACTIONS)],
        1,
    )?;
    let basics: Vec<Basics> = (0..2)
        .map(|player| {
            let mut basics = Basics::as_in_authors_code(&game, player);
            model.set(&mut basics);
            basics
        })
        .collect();
    let mut players = Vec::new();
    for (player, level) in levels.into_iter().enumerate() {
        let reasoner = Reasoner::at_level(player, level, &basics, expectation)?;
        players.push(Player::new(&game, player, reasoner)?);
    }
    // Arms share seeds, so they share the initial round.
    let seed = Seed::new(8).child(Purpose::Run, run);
    let mut noise = seed.stream(Purpose::ObservationNoise, 0, 0);
    let (mut history, mut plays) = (History::new(), Vec::new());
    for round in 0..=N_ROUNDS {
        let mut actions = Vec::new();
        for (index, player) in (0_u64..).zip(&mut players) {
            let mut stream = seed.stream(Purpose::Play, index, round as u64);
            actions.push(player.decide(&history, &mut stream)?.action);
        }
        let [Action::Index(a), Action::Index(b)] = actions[..] else {
            return Err("an action that is no index".into());
        };
        if round >= game.n_initial() {
            plays.push([a, b]);
        }
        let payoffs = tables
            .iter()
            .map(|table| Some(table.value(&[a, b]) + NOISE_STD * noise.normal()));
        history.push(
            &game,
            Round {
                payoffs: payoffs.collect(),
                actions,
            },
        )?;
    }
    Ok(SHOWN.map(|n| tables[0].mean_regret(&plays[..n])))
}

fn read(folder: &str, game: usize, agent: usize) -> Result<PayoffTable, Failure> {
    let path = Path::new(folder).join(format!("game{game}_f{agent}.csv"));
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_path(path)?;
    let mut values = Vec::with_capacity(N_ACTIONS * N_ACTIONS);
    for row in reader.deserialize() {
        let row: Vec<f64> = row?;
        values.extend(row);
    }
    Ok(PayoffTable::new(vec![N_ACTIONS, N_ACTIONS], values)?)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "numbers of runs are far below 2^53"
)]
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}
