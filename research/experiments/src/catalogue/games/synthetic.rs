//! Synthetic games on grids (thesis section 8.4.1, appendix E.6.1: Fig. 8.2, E.1 to E.5).

mod measures;
mod model;
mod notes;
mod three_agents;

use fedbo_games::{Expectation, Game, Level0Strategy, Reasoner};
use fedbo_report::{Clusters, Metric};
use fedbo_research_problems::read_payoff_functions;
use fedbo_streams::{Purpose, Seed, Stream};

use self::model::{Level0, Model};
use self::three_agents::ThreeAgentGame;
use super::arms::{Arm, UNIFORM, arm_name, seats};
use super::tables::{GridDraws, Kind, N_ACTIONS, N_GAMES, NOISE_STD, TableGame, Values, range};
use super::{Configuration, GameProblem, PartPicture, Plan, Shown};
use crate::catalogue::{Call, ExperimentResult};

/// Number of rounds after the initial one.
const N_ROUNDS: usize = 150;

/// A wrong belief about the other's level-0 strategy (Fig. E.1).
const WRONG_LAW: &str = "1 v 0 wrong law";
/// Levels and expectations of Fig. 8.2.
const LEVELS: [(&[usize], Expectation); 5] = [
    (&[0, 0], Expectation::Exact),
    (&[1, 0], Expectation::Exact),
    (&[1, 0], Expectation::Lite),
    (&[2, 1], Expectation::Exact),
    (&[3, 2], Expectation::Exact),
];
/// Agent 1 believes that agent 2 is at a higher level than it is (Fig. E.2).
const TOO_HIGH: [&[usize]; 2] = [&[2, 0], &[3, 0]];
/// The configuration that satisfies the assumptions of the theorems.
const THEOREMS: &str = "general-sum, theorems";

/// Runs Fig. 8.2 and related experiments.
pub(in crate::catalogue) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let data = call.data_folder()?;
    let plan = Plan {
        name: "games-synthetic",
        title: "Mean regret of agent 1, ten games and five starts each".into(),
        y_label: "mean regret of agent 1".into(),
        metric: Metric::MeanRegret,
        checkpoints: vec![50],
        clusters: Clusters::Units,
        columns: Vec::new(),
        configurations: configurations(&read_payoff_functions(data)?, call.seed())?,
        pictures: pictures(),
        notes: Box::new(notes::notes),
    };
    plan.run(call)
}

fn configurations(authors: &[[Values; 2]], seed: Seed) -> anyhow::Result<Vec<Configuration>> {
    let mut all = Vec::new();
    for model in Model::ALL {
        for kind in Kind::ALL {
            let mut two = Two::new(name(kind, model.name()), model, Level0::GpMw, true);
            two.has_wrong_beliefs = model == Model::Authors;
            all.push(two.configuration(kind, authors)?);
        }
    }
    for level0 in [Level0::RandomSearch, Level0::Exp3] {
        for kind in Kind::ALL {
            let two = Two::new(name(kind, level0.name()), Model::Authors, level0, false);
            all.push(two.configuration(kind, authors)?);
        }
    }
    let fresh = fresh_pairs(seed)?;
    for model in [Model::Authors, Model::Standardized] {
        for kind in Kind::ALL {
            let two = Two::new(name(kind, fresh_name(model)), model, Level0::GpMw, false);
            all.push(two.configuration(kind, &fresh)?);
        }
    }
    for model in ThreeAgentGame::MODELS {
        for trio in ThreeAgentGame::ALL {
            all.push(trio.configuration(model, seed)?);
        }
    }
    all.push(theorems(seed)?);
    Ok(all)
}

fn name(kind: Kind, suffix: &str) -> String {
    format!("{}, {suffix}", kind.name())
}

fn fresh_name(model: Model) -> &'static str {
    match model {
        Model::Standardized => "fresh, standardized",
        _ => "fresh draws",
    }
}

/// Settings of a configuration with two agents.
struct Two {
    name: String,
    model: Model,
    level0: Level0,
    has_uniform: bool,
    has_wrong_beliefs: bool,
}

impl Two {
    fn new(name: String, model: Model, level0: Level0, has_uniform: bool) -> Self {
        Self { name, model, level0, has_uniform, has_wrong_beliefs: false }
    }

    fn configuration(&self, kind: Kind, pairs: &[[Values; 2]]) -> anyhow::Result<Configuration> {
        let (model, level0) = (self.model, self.level0);
        let basics = move |game: &Game, seed| model.basics(game, level0, seed);
        let unseeded = move |game: &Game| model.basics(game, Level0::GpMw, Seed::new(0));
        let mut arms = Vec::new();
        if self.has_uniform {
            arms.push(Arm::uniform(unseeded));
        }
        for (levels, expectation) in LEVELS {
            arms.push(Arm::seeded_levels(levels, expectation, basics));
        }
        let mut against = against_base(&LEVELS[1..]);
        against.extend(further_pairs());
        if self.has_uniform {
            against.push(pair(&base(), UNIFORM));
        }
        if self.has_wrong_beliefs {
            arms.push(wrong_law(unseeded));
            for levels in TOO_HIGH {
                arms.push(Arm::levels(levels, Expectation::Exact, unseeded));
            }
            let one = arm_name(&[1, 0], Expectation::Exact);
            for arm in &arms[arms.len() - 1 - TOO_HIGH.len()..] {
                against.push(pair(&arm.name, &base()));
                against.push(pair(&arm.name, &one));
            }
        }
        let games = pairs.iter().map(|pair| -> anyhow::Result<_> {
            let game = TableGame::new(kind.payoffs(pair), N_ACTIONS, 1, NOISE_STD)?;
            Ok(Box::new(game) as Box<dyn GameProblem>)
        });
        Ok(Configuration {
            name: self.name.clone(),
            arenas: games.collect::<anyhow::Result<_>>()?,
            n_rounds: N_ROUNDS,
            arms,
            shown: shown(&self.name, "agent 1", against),
            measure: Some(Box::new(measures::external_regret)),
        })
    }
}

/// Creates the arm in which agent 1, at level 1, wrongly believes that agent 2, which plays GP-MW,
/// acts uniformly at random.
fn wrong_law(
    basics: impl Fn(&Game) -> Vec<fedbo_games::PlayerSettings> + Send + Sync + 'static,
) -> Arm {
    Arm::new(WRONG_LAW, move |game| {
        let truth = basics(game);
        let mut believed = truth.clone();
        believed[1].level0_strategy = Level0Strategy::RandomSearch;
        let first = Reasoner::at_level(0, 1, &believed, Expectation::Exact)?;
        let both = seats(&[1, 0], Expectation::Exact, &truth)?;
        Ok(both
            .into_iter()
            .enumerate()
            .map(|(player, seat)| if player == 0 { first.clone() } else { seat })
            .collect())
    })
}

/// Returns the name of the arm with level 0 against level 0.
fn base() -> String {
    arm_name(&[0, 0], Expectation::Exact)
}

fn pair(arm: &str, control: &str) -> (String, String) {
    (arm.into(), control.into())
}

/// Pairs each of these arms with level 0.
fn against_base(levels: &[(&[usize], Expectation)]) -> Vec<(String, String)> {
    let each =
        levels.iter().map(|(levels, expectation)| pair(&arm_name(levels, *expectation), &base()));
    each.collect()
}

/// Returns additional comparisons of the thesis in Fig. 8.2: Lite with R2-B2, levels 2 and 3 with
/// level 1, and level 3 with level 2.
fn further_pairs() -> Vec<(String, String)> {
    [("1 v 0", "1 v 0 lite"), ("2 v 1", "1 v 0"), ("3 v 2", "1 v 0"), ("3 v 2", "2 v 1")]
        .map(|(arm, control)| pair(arm, control))
        .into()
}

fn shown(name: &str, agent: &str, pairs: Vec<(String, String)>) -> Vec<Shown> {
    vec![Shown { experiment: name.into(), agent: agent.into(), player: 0, pairs }]
}

/// Draws ten pairs of functions in the same way as the authors do.
fn fresh_pairs(seed: Seed) -> anyhow::Result<Vec<[Values; 2]>> {
    let draws = GridDraws::new(N_ACTIONS, 2)?;
    let unit = |game: usize, agent| {
        let mut stream = seed.stream(Purpose::PROBLEM, game as u64, agent);
        draws.unit(&mut stream)
    };
    Ok((0..N_GAMES).map(|game| [unit(game, 0), unit(game, 1)]).collect())
}

/// Returns the first draw of the stream that is in [−½, ½] after division by [`model::RANGE`].
/// About one draw in 400 is not.
fn bounded_draw(draws: &GridDraws, stream: &mut Stream) -> Values {
    loop {
        let drawn = draws.draw(stream);
        let values: Values = drawn.iter().map(|f| f / model::RANGE).collect();
        let (low, high) = range(&values);
        if low >= -0.5 && high <= 0.5 {
            return values;
        }
    }
}

/// Creates games that satisfy Theorems 8.1 to 8.3 exactly: draws without a shift, known
/// hyperparameters and noise, the theorem's widths and rate, and no initial round.
fn theorems(seed: Seed) -> anyhow::Result<Configuration> {
    let draws = GridDraws::new(N_ACTIONS, 2)?;
    let mut arenas: Vec<Box<dyn GameProblem>> = Vec::new();
    for game in 0..N_GAMES {
        let mut payoffs = Vec::with_capacity(2);
        for agent in 5..7 {
            let mut stream = seed.stream(Purpose::PROBLEM, game as u64, agent);
            payoffs.push(bounded_draw(&draws, &mut stream));
        }
        let noise_std = model::THEOREMS_NOISE_STD;
        arenas.push(Box::new(TableGame::new(payoffs, N_ACTIONS, 0, noise_std)?));
    }
    let basics = |game: &Game| Model::Theorems.basics(game, Level0::GpMw, Seed::new(0));
    let arms = LEVELS.map(|(levels, expectation)| Arm::levels(levels, expectation, basics));
    Ok(Configuration {
        name: THEOREMS.into(),
        arenas,
        n_rounds: N_ROUNDS,
        arms: arms.into(),
        shown: shown(THEOREMS, "agent 1", against_base(&LEVELS[1..])),
        measure: Some(Box::new(measures::regret_and_bound)),
    })
}

/// Returns one figure for each of the thesis's figures.
fn pictures() -> Vec<PartPicture> {
    let of = |suffix: &str| Kind::ALL.map(|kind| name(kind, suffix));
    let main: Vec<String> =
        LEVELS.iter().map(|(levels, expectation)| arm_name(levels, *expectation)).collect();
    let uniform: Vec<String> = [UNIFORM.to_owned()].into_iter().chain(main.clone()).collect();
    let wrong = ["0 v 0", "1 v 0", WRONG_LAW, "2 v 0", "3 v 0"].map(String::from);
    let picture = |file, title: &str, experiments: Vec<String>, arms: &[String]| PartPicture {
        file,
        title: title.into(),
        experiments,
        arms: arms.to_vec(),
    };
    let models = Model::ALL.map(|model| of(model.name())).concat();
    let level0 = [Level0::RandomSearch, Level0::Exp3].map(|level0| of(level0.name()));
    let fresh = [Model::Authors, Model::Standardized].map(|model| of(fresh_name(model)));
    let three =
        ThreeAgentGame::MODELS.map(|model| ThreeAgentGame::ALL.map(|trio| trio.name(model)));
    vec![
        picture(
            "levels",
            "Levels of agent 1 v levels of agent 2, three models of the payoffs (Fig. 8.2)",
            models,
            &uniform,
        ),
        picture(
            "wrong-beliefs",
            "Agent 1 is wrong about agent 2, which is at level 0 (Fig. E.1, E.2)",
            of(Model::Authors.name()).into(),
            &wrong,
        ),
        picture(
            "level-0-strategies",
            "Random search and EXP3 at level 0 (Fig. E.3, E.4)",
            level0.concat(),
            &main,
        ),
        picture("fresh-draws", "Ten other games", fresh.concat(), &main),
        picture("three-agents", "Three agents (Fig. E.5)", three.concat(), &[]),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::outcome::{over_games, over_runs, paired};
    use super::super::play::Match;
    use super::*;

    /// With the authors' η of 0.1, level 0 against level 0 is uniform play in the first rounds.
    /// Over 16 rounds of 50 matches, its mean regret differs from that of uniform play, which is a
    /// mean over the table, by less than three standard errors. The starting height of the authors'
    /// curve in Fig. 8.2b, .503, is therefore that of their games. Over the ten games in their
    /// repository it is .528.
    #[test]
    fn level_0_begins_with_uniform_play() {
        const N_FIRST: usize = 16;
        let pairs = fresh_pairs(Seed::new(12)).unwrap();
        let two = Two::new("test".into(), Model::Authors, Level0::GpMw, false);
        let configuration = two.configuration(Kind::General, &pairs).unwrap();
        let arm = configuration.arms.iter().find(|arm| arm.name == base()).unwrap();
        let stop = AtomicBool::new(false);
        let difference = |run: u32| {
            let seed = Seed::new(9).child(Purpose::RUN, u64::from(run));
            let played = Match::play(configuration.arena(run), arm, N_FIRST, seed, &stop);
            let played = played.unwrap().unwrap();
            let payoffs = played.after_initial().map(|(_, each)| each.payoffs[0]);
            let table = &pairs[run as usize % pairs.len()][0];
            let uniform = table.iter().sum::<f64>() / table.len() as f64;
            (run, uniform - payoffs.sum::<f64>() / N_FIRST as f64)
        };
        let found = (0..50).map(difference).collect();
        let estimate = over_runs(&found).unwrap();
        let error = estimate.standard_error.unwrap();
        assert!(error < 0.01 && estimate.mean.abs() < 3.0 * error, "{estimate:?}");
    }

    /// A draw outside the interval is redrawn. The games of seed 1 contain one that reaches 4.96
    /// standard deviations.
    #[test]
    fn payoffs_of_the_theorems_games_lie_in_their_interval() {
        let draws = GridDraws::new(N_ACTIONS, 2).unwrap();
        let mut n_again = 0;
        for (game, agent) in (0..N_GAMES as u64).flat_map(|game| [(game, 5), (game, 6)]) {
            let stream = || Seed::new(1).stream(Purpose::PROBLEM, game, agent);
            let (low, high) = range(&bounded_draw(&draws, &mut stream()));
            assert!(low >= -0.5 && high <= 0.5);
            let (low, high) = range(&draws.draw(&mut stream()));
            n_again += u32::from(low < -0.5 * model::RANGE || high > 0.5 * model::RANGE);
        }
        assert_eq!(n_again, 1);
    }

    /// Checks thesis section 8.4.1 on ten games of our own: with standardized payoffs and the true
    /// noise, level 2 against 1 has less regret than level 0 against 0 in all three kinds of game,
    /// by more than two standard errors over games.
    #[test]
    fn one_level_above_the_other_is_better_than_level_0() {
        let pairs = fresh_pairs(Seed::new(11)).unwrap();
        let stop = AtomicBool::new(false);
        for kind in Kind::ALL {
            let two = Two::new("test".into(), Model::Standardized, Level0::GpMw, false);
            let configuration = two.configuration(kind, &pairs).unwrap();
            let regrets = |name: &str| {
                let mut arms = configuration.arms.iter();
                let arm = arms.find(|arm| arm.name == name).unwrap();
                let of_run = |run: u32| {
                    let arena = configuration.arena(run);
                    let seed = Seed::new(7).child(Purpose::RUN, u64::from(run));
                    let played = Match::play(arena, arm, N_ROUNDS, seed, &stop);
                    let played = played.unwrap().unwrap();
                    let payoffs = played.after_initial().map(|(_, each)| each.payoffs[0]);
                    (run, 1.0 - payoffs.sum::<f64>() / N_ROUNDS as f64)
                };
                (0..10).map(of_run).collect()
            };
            let difference = paired(&regrets("2 v 1"), &regrets("0 v 0"));
            let estimate = over_games(&difference, 10).unwrap();
            assert!(
                estimate.mean < -2.0 * estimate.standard_error.unwrap(),
                "{}: {estimate:?}",
                kind.name()
            );
        }
    }
}
