//! Three-agent games (appendix E.6.1.2, Fig. E.5).

use fedbo_games::{Expectation, Game, Reasoner};
use fedbo_streams::{Purpose, Seed};

use super::super::arms::{Arm, arm_name, seats};
use super::super::tables::{GridDraws, N_GAMES, NOISE_STD, TableGame, Values, opposite};
use super::super::{Configuration, GameProblem};
use super::model::{Level0, Model};
use super::{N_ROUNDS, measures, pair, shown};

/// Number of actions per agent, which gives 8,000 joint actions. The thesis does not state this
/// number.
const N_ACTIONS: usize = 20;

/// Agent 1 against two others (Fig. E.5a).
const INDEPENDENT: [(&[usize], Expectation); 5] = [
    (&[0, 0, 0], Expectation::Exact),
    (&[1, 0, 0], Expectation::Exact),
    (&[1, 0, 0], Expectation::Lite),
    (&[2, 1, 0], Expectation::Exact),
    (&[2, 1, 1], Expectation::Exact),
];
/// The adversary against two agents (Fig. E.5b).
const ADVERSARY: [&[usize]; 8] = [
    &[0, 0, 0],
    &[1, 0, 0],
    &[0, 1, 0],
    &[2, 1, 0],
    &[0, 1, 1],
    &[2, 1, 1],
    &[0, 2, 1],
    &[1, 2, 1],
];
/// The adversary is at level 1, but the agent at level 2 believes that it is at level 0.
const UNNOTICED: &str = "1 v 2 v 1 unnoticed";

/// The two types of game.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreeAgentGame {
    /// Independent payoffs.
    Independent,
    /// An adversary with f_1 against two agents with 1 − f_1.
    Adversary,
}

impl ThreeAgentGame {
    /// All types in the order of Fig. E.5.
    pub(super) const ALL: [Self; 2] = [Self::Independent, Self::Adversary];
    /// The models used in these games.
    pub(super) const MODELS: [Model; 2] = [Model::Authors, Model::Standardized];

    /// Returns the name of the game's configuration.
    pub(super) fn name(self, model: Model) -> String {
        let kind = match self {
            Self::Independent => "three agents",
            Self::Adversary => "adversary v two",
        };
        format!("{kind}, {}", model.name())
    }

    /// Creates ten games, drawn with this seed.
    ///
    /// # Errors
    /// If a draw is not a valid game.
    pub(super) fn configuration(self, model: Model, seed: Seed) -> anyhow::Result<Configuration> {
        let draws = GridDraws::new(N_ACTIONS, 3)?;
        let mut arenas: Vec<Box<dyn GameProblem>> = Vec::new();
        for game in 0..N_GAMES {
            let draw = |agent| draws.unit(&mut seed.stream(Purpose::PROBLEM, game as u64, agent));
            let first = draw(2);
            let others: [Values; 2] = match self {
                Self::Independent => [draw(3), draw(4)],
                Self::Adversary => [opposite(&first), opposite(&first)],
            };
            let payoffs = [first].into_iter().chain(others).collect();
            arenas.push(Box::new(TableGame::new(payoffs, N_ACTIONS, 1, NOISE_STD)?));
        }
        let basics = move |game: &Game| model.basics(game, Level0::GpMw, Seed::new(0));
        let levels = |levels, expectation| Arm::levels(levels, expectation, basics);
        let exact = |levels| arm_name(levels, Expectation::Exact);
        let base = exact(&[0, 0, 0]);
        let mut pairs = Vec::new();
        let (arms, agent): (Vec<Arm>, &str) = match self {
            Self::Independent => {
                for (levels, expectation) in &INDEPENDENT[1..] {
                    pairs.push(pair(&arm_name(levels, *expectation), &base));
                }
                let arms = INDEPENDENT.map(|(of, expectation)| levels(of, expectation));
                (arms.into(), "agent 1")
            }
            Self::Adversary => {
                for levels in &ADVERSARY[1..] {
                    pairs.push(pair(&exact(levels), &base));
                }
                let further = [
                    ("2 v 1 v 0", "0 v 1 v 0"),
                    ("2 v 1 v 1", "0 v 1 v 1"),
                    ("0 v 1 v 1", "0 v 1 v 0"),
                    ("1 v 2 v 1", "0 v 2 v 1"),
                    (UNNOTICED, "0 v 2 v 1"),
                ];
                pairs.extend(further.map(|(arm, control)| pair(arm, control)));
                let mut arms: Vec<Arm> = ADVERSARY.map(|of| levels(of, Expectation::Exact)).into();
                arms.push(Arm::new(UNNOTICED, move |game| {
                    let basics = basics(game);
                    let mut all = seats(&[1, 2, 1], Expectation::Exact, &basics)?;
                    all[1] = Reasoner::among(1, 2, &[0, 2, 1], &basics, Expectation::Exact)?;
                    Ok(all)
                }));
                (arms, "adversary")
            }
        };
        let name = self.name(model);
        Ok(Configuration {
            shown: shown(&name, agent, pairs),
            name,
            arenas,
            n_rounds: N_ROUNDS,
            arms,
            measure: Some(Box::new(measures::external_regret)),
        })
    }
}
