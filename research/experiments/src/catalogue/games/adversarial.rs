//! Attack and defence of a digit classifier (thesis sections 8.4.2.1, E.6.2: Table 8.1, Fig. 8.3,
//! E.6, E.8, E.10).

mod bo_attacker;
mod notes;

use std::sync::Arc;

use anyhow::Context as _;
use fedbo_games::{
    Action, ActionSet, Expectation, Game, GameError, Level0Strategy, PlayerSettings, Reasoner,
    Search,
};
use fedbo_optim::{MultiStart, Points};
use fedbo_report::{Clusters, Metric};
use fedbo_research_problems::ImageAttack;
use fedbo_streams::Seed;

use self::bo_attacker::Search as AttackSearch;
use super::arms::{Arm, arm_name, seats};
use super::play::Match;
use super::{Configuration, GameProblem, PartPicture, Plan, Played, Shown};
use crate::catalogue::{Call, ExperimentResult};

/// Number of images per configuration.
const N_IMAGES: u32 = 10;
/// Number of rounds after the initial ones.
const N_ROUNDS: usize = 150;
/// Number of initial random rounds.
const N_INITIAL: usize = 5;
/// Number of draws for an expectation on the square (thesis E.6.2.1c).
const N_SAMPLES: usize = 500;
/// Number of grid values for each of an action's two coordinates, which gives 121 actions. The
/// thesis does not state this number.
const N_TICKS: usize = 11;
/// Number of random pairs of actions used to estimate the success rate of attacks on an image.
const N_PAIRS: usize = 400;
/// Number of random actions per side used to determine whether an image is contested.
const N_TRIED: usize = 50;
/// Range of the success rate over random pairs within which attacks are about as hard as defences.
const COMPARABLE: [f64; 2] = [0.2, 0.8];
/// Numbers of draws compared as in Fig. E.8, and with the exact expectation.
const SAMPLES: [usize; 4] = [20, 200, 500, 1000];

/// Levels of attacker and defender (Table 8.1). The flag is true if expectations are computed as in
/// R2-B2-Lite.
const LEVELS: [(&[usize], bool); 7] = [
    (&[0, 0], false),
    (&[1, 0], false),
    (&[1, 0], true),
    (&[0, 1], false),
    (&[0, 1], true),
    (&[2, 1], false),
    (&[1, 2], false),
];

/// The claims of the thesis about Table 8.1: the first arm has more successes than the second.
const CLAIMS: [(&str, &str); 8] = [
    ("1 v 0", "0 v 0"),
    ("1 v 0 lite", "0 v 0"),
    ("0 v 0", "0 v 1"),
    ("0 v 0", "0 v 1 lite"),
    ("2 v 1", "0 v 1"),
    ("1 v 0", "1 v 2"),
    ("2 v 1", "0 v 0"),
    ("0 v 0", "1 v 2"),
];

/// The measure: number of successful attacks after the initial rounds.
const SUCCESSES: &str = "successes";

const RANDOM: &str = "random search";
const GP_MW: &str = "GP-MW on a grid";
const RANDOM_GRID: &str = "random search on a grid";
const AUTHORS: &str = "on a grid, authors' model";
const HALF: &str = "on a grid, half of random attacks succeed";
const ANY: &str = "on a grid, any images";
const SAMPLED: &str = "number of draws";
const UNDEFENDED: &str = "attack by Bayesian optimization, no defender";
const DEFENDED: &str = "attack by Bayesian optimization";

/// Runs Table 8.1 and related experiments.
pub(in crate::catalogue) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let problem = ImageAttack::new(ImageAttack::N_CODE, ImageAttack::MAX_CHANGE)?;
    let picture = |file, title: &str, experiments: &[&str]| PartPicture {
        file,
        title: title.into(),
        experiments: experiments.iter().map(ToString::to_string).collect(),
        arms: Vec::new(),
    };
    let plan = Plan {
        name: "games-adversarial",
        title: "Attack score by levels of attacker v defender, ten images".into(),
        y_label: "mean attack score".into(),
        metric: Metric::Mean,
        checkpoints: vec![50],
        clusters: Clusters::Designs(N_IMAGES),
        columns: vec!["image".into(), "success".into()],
        configurations: configurations(&Arc::new(problem))?,
        pictures: vec![
            picture(
                "attack-scores",
                "Levels of attacker v levels of defender (Fig. 8.3)",
                &[RANDOM, GP_MW],
            ),
            picture(
                "images-and-models",
                "Random search on a grid: models and images (Fig. E.6)",
                &[RANDOM_GRID, AUTHORS, HALF, ANY],
            ),
            picture(
                "samples",
                "Level 2 v level 1 by draws of an expectation (Fig. E.8)",
                &[SAMPLED],
            ),
        ],
        notes: Box::new(notes::notes),
    };
    plan.run(call)
}

fn configurations(problem: &Arc<ImageAttack>) -> anyhow::Result<Vec<Configuration>> {
    let all = 0..problem.n_images();
    let seed = Seed::new(0); // seed of the selection rules: all runs use the same images
    let is_comparable = |image: usize| -> anyhow::Result<bool> {
        let share = problem.success_share(image, N_PAIRS, seed)?;
        Ok((COMPARABLE[0]..=COMPARABLE[1]).contains(&share))
    };
    let any: Vec<usize> = all.clone().take(N_IMAGES as usize).collect();
    let half = first(all.clone(), is_comparable)?;
    let contested = first(all, |image| {
        Ok(is_comparable(image)? && problem.is_contested(image, N_TRIED, seed)?)
    })?;
    let own = Model::Own;
    let with = |name, images: &[usize], actions, model| {
        configuration(name, problem, images, actions, model)
    };
    Ok(vec![
        with(RANDOM, &contested, Actions::Square, own)?,
        with(GP_MW, &contested, Actions::Grid, Model::GpMw)?,
        with(RANDOM_GRID, &contested, Actions::Grid, own)?,
        with(AUTHORS, &contested, Actions::Grid, Model::Authors)?,
        with(HALF, &half, Actions::Grid, own)?,
        with(ANY, &any, Actions::Grid, own)?,
        sampled(problem, &contested)?,
        searched(UNDEFENDED, problem, &contested)?,
        searched(DEFENDED, problem, &contested)?,
    ])
}

/// Returns the first images that satisfy a condition.
fn first(
    images: impl Iterator<Item = usize>,
    holds: impl Fn(usize) -> anyhow::Result<bool>,
) -> anyhow::Result<Vec<usize>> {
    let mut found = Vec::with_capacity(N_IMAGES as usize);
    for image in images {
        if holds(image)? {
            found.push(image);
        }
        if found.len() == N_IMAGES as usize {
            return Ok(found);
        }
    }
    anyhow::bail!("only {} images of {N_IMAGES} satisfy the conditions", found.len())
}

/// The set of the players' actions.
#[derive(Clone, Copy)]
enum Actions {
    /// The whole square `[0,1]²`.
    Square,
    /// A grid of [`N_TICKS`]² points, so that expectations are exact.
    Grid,
}

impl Actions {
    fn set(self) -> ActionSet {
        match self {
            Self::Square => ActionSet::Continuous { dim: ImageAttack::N_CODE },
            Self::Grid => {
                let tick = |i: usize| i as f64 / (N_TICKS - 1) as f64;
                let points = (0..N_TICKS * N_TICKS).map(|i| [tick(i / N_TICKS), tick(i % N_TICKS)]);
                ActionSet::Finite(Points::from_rows(ImageAttack::N_CODE, points))
            }
        }
    }

    fn expectation(self, is_lite: bool) -> Expectation {
        match self {
            _ if is_lite => Expectation::Lite,
            Self::Square => Expectation::Samples(N_SAMPLES),
            Self::Grid => Expectation::Exact,
        }
    }
}

/// The models of both players, and their level-0 strategies.
#[derive(Clone, Copy)]
enum Model {
    /// [`PlayerSettings::for_game`] with random search at level 0, and a search with half the
    /// points. The expectation over 500 draws makes each point expensive, and 150 draws with the
    /// full search were no better (112.1 ± 4.0 and 110.6 ± 3.4 successes of 1 v 0).
    Own,
    /// Like [`Self::Own`] with GP-MW at level 0, on a grid.
    GpMw,
    /// [`PlayerSettings::as_in_authors_adversarial_code`], on a grid and therefore without its
    /// search.
    Authors,
}

impl Model {
    fn basics(self, game: &Game) -> Vec<PlayerSettings> {
        let of = |player| match self {
            Self::Own => PlayerSettings {
                level0_strategy: Level0Strategy::RandomSearch,
                search: Search::MultiStart(MultiStart {
                    n_starts: 64,
                    n_candidates: 3,
                    n_refine: 1,
                    ..MultiStart::for_dim(ImageAttack::N_CODE)
                }),
                ..PlayerSettings::for_game(game, player, (0.0, 1.0))
            },
            Self::GpMw => PlayerSettings::for_game(game, player, (0.0, 1.0)),
            Self::Authors => PlayerSettings::as_in_authors_adversarial_code(game, player),
        };
        (0..game.n_players()).map(of).collect()
    }
}

fn configuration(
    name: &str,
    problem: &Arc<ImageAttack>,
    images: &[usize],
    actions: Actions,
    model: Model,
) -> anyhow::Result<Configuration> {
    let arm = |(levels, is_lite)| {
        let expectation = actions.expectation(is_lite);
        Arm::levels(levels, expectation, move |game| model.basics(game))
    };
    let pairs = CLAIMS.map(|(arm, control)| (arm.to_owned(), control.to_owned()));
    Ok(Configuration {
        arms: LEVELS.map(arm).into(),
        ..without_arms(name, problem, images, actions, pairs.into())?
    })
}

/// Creates the configuration with level 2 against level 1 on a grid, by the number of draws for an
/// expectation (Fig. E.8).
fn sampled(problem: &Arc<ImageAttack>, images: &[usize]) -> anyhow::Result<Configuration> {
    let levels = arm_name(&[2, 1], Expectation::Exact);
    let exact = format!("{levels}, exact");
    let mut arms = vec![sampled_arm(exact.clone(), Expectation::Exact)];
    let mut pairs = Vec::new();
    for n in SAMPLES {
        let name = format!("{levels}, {n} draws");
        pairs.push((exact.clone(), name.clone()));
        arms.push(sampled_arm(name, Expectation::Samples(n)));
    }
    Ok(Configuration { arms, ..without_arms(SAMPLED, problem, images, Actions::Grid, pairs)? })
}

/// Creates the configuration with attackers that use Bayesian optimization on a grid, without a
/// defender or against one at level 0 or 1 (Fig. E.10).
fn searched(
    name: &str,
    problem: &Arc<ImageAttack>,
    images: &[usize],
) -> anyhow::Result<Configuration> {
    let actions = Actions::Grid;
    let ActionSet::Finite(points) = actions.set() else {
        anyhow::bail!("a grid of finitely many actions");
    };
    // Without a defender, the second player still acts, but its actions have no effect.
    let defenders: &[usize] = if name == UNDEFENDED { &[0] } else { &[0, 1] };
    let (mut arms, mut pairs) = (Vec::new(), Vec::new());
    for search in AttackSearch::ALL {
        for defender in defenders {
            arms.push(bo_attacker::arm(search, *defender, &points, |game| Model::Own.basics(game)));
        }
        if name == DEFENDED {
            let name = |defender| bo_attacker::arm_name(search, defender);
            pairs.push((name(0), name(1)));
        }
    }
    let defended = name == DEFENDED;
    let mut configuration = without_arms(name, problem, images, actions, pairs)?;
    if !defended {
        configuration.arenas = arenas(problem, images, actions, false)?;
    }
    Ok(Configuration { arms, ..configuration })
}

fn sampled_arm(name: String, expectation: Expectation) -> Arm {
    Arm::new(name, move |game| -> Result<Vec<Reasoner>, GameError> {
        seats(&[2, 1], expectation, &Model::Own.basics(game))
    })
}

fn without_arms(
    name: &str,
    problem: &Arc<ImageAttack>,
    images: &[usize],
    actions: Actions,
    pairs: Vec<(String, String)>,
) -> anyhow::Result<Configuration> {
    Ok(Configuration {
        name: name.into(),
        arenas: arenas(problem, images, actions, true)?,
        n_rounds: N_ROUNDS,
        arms: Vec::new(),
        shown: vec![Shown { experiment: name.into(), agent: "attacker".into(), player: 0, pairs }],
        measure: Some(Box::new(successes)),
    })
}

/// Creates the games on these images.
fn arenas(
    problem: &Arc<ImageAttack>,
    images: &[usize],
    actions: Actions,
    defended: bool,
) -> anyhow::Result<Vec<Box<dyn GameProblem>>> {
    let mut arenas: Vec<Box<dyn GameProblem>> = Vec::with_capacity(images.len());
    for image in images {
        arenas.push(Box::new(Image {
            problem: Arc::clone(problem),
            image: *image,
            defended,
            game: Game::new(vec![actions.set(), actions.set()], N_INITIAL)?,
        }));
    }
    Ok(arenas)
}

/// Counts the successful attacks.
fn successes(played: &Match<'_>) -> anyhow::Result<Vec<(&'static str, f64)>> {
    let succeeded =
        |(_, played): &(_, &Played)| played.cells.last().is_some_and(|cell| cell == "1");
    let n = played.after_initial().filter(succeeded).count();
    Ok(vec![(SUCCESSES, n as f64)])
}

/// The game on one image.
struct Image {
    problem: Arc<ImageAttack>,
    image: usize,
    /// False if the defender's action has no effect.
    defended: bool,
    game: Game,
}

impl GameProblem for Image {
    fn game(&self) -> &Game {
        &self.game
    }

    fn play(&self, actions: &[Action], _seed: Seed, _round: usize) -> anyhow::Result<Played> {
        let joint = self.game.joint(actions).context("an action that is not of this game")?;
        let (attack, defence) = joint.split_at(ImageAttack::N_CODE);
        let outcome = match self.defended {
            true => self.problem.play(self.image, attack, defence)?,
            false => self.problem.without_defense(self.image, attack)?,
        };
        let payoffs = outcome.payoffs();
        Ok(Played {
            observed: payoffs.map(Some).into(),
            payoffs: payoffs.into(),
            cells: vec![self.image.to_string(), u8::from(outcome.success()).to_string()],
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::outcome::{over_games, paired};
    use super::*;

    /// Checks the thesis's result in Table 8.1, on ten images with one start. A player one level
    /// above the other wins more attacks, or suffers fewer, than at level 0, by more than two
    /// standard errors. Payoffs sum to 1.
    #[test]
    fn one_level_above_the_other_pays_for_attackers_and_defenders() {
        let problem = ImageAttack::new(ImageAttack::N_CODE, ImageAttack::MAX_CHANGE).unwrap();
        let all = configurations(&Arc::new(problem)).unwrap();
        let grid = all.iter().find(|each| each.name == RANDOM_GRID).unwrap();
        let stop = AtomicBool::new(false);
        let counts = |name: &str| {
            let arm = grid.arms.iter().find(|arm| arm.name == name).unwrap();
            let of_run = |run: u32| {
                let seed = Seed::new(7).child(fedbo_streams::Purpose::RUN, u64::from(run));
                let played = Match::play(grid.arena(run), arm, N_ROUNDS, seed, &stop);
                let played = played.unwrap().unwrap();
                for (_, each) in played.after_initial() {
                    assert!((each.payoffs.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                }
                (run, successes(&played).unwrap()[0].1)
            };
            (0..N_IMAGES).map(of_run).collect()
        };
        let [base, defended, attacked] = ["0 v 0", "0 v 1", "2 v 1"].map(counts);
        for (more, fewer) in [(&base, &defended), (&attacked, &defended)] {
            let gain = over_games(&paired(more, fewer), N_IMAGES).unwrap();
            assert!(gain.mean > 2.0 * gain.standard_error.unwrap(), "{gain:?}");
        }
    }

    /// Images are chosen by the rules, without repetition, before any game is played.
    #[test]
    fn images_are_the_first_that_the_rules_allow() {
        let holds = |image: usize| Ok(image % 3 == 1);
        let expected: Vec<usize> = (0..N_IMAGES as usize).map(|i| 3 * i + 1).collect();
        assert_eq!(first(0..100, holds).unwrap(), expected);
        let message = first(0..20, holds).unwrap_err().to_string();
        assert!(message.contains("only 7 images of 10"), "{message}");
    }
}
