//! The players of a game: their levels, and their beliefs about each other.

use fedbo_games::{Expectation, Game, GameError, Level0Strategy, PlayerSettings, Reasoner};
use fedbo_streams::Seed;

/// Creates the players of a game from the game and the seed of the run.
type PlayerFactory = dyn Fn(&Game, Seed) -> Result<Vec<Reasoner>, GameError> + Send + Sync;

/// An assignment of players to a game.
pub(super) struct Arm {
    /// Levels in the order of players, for example "2 v 1".
    pub(super) name: String,
    /// Creates one reasoner per player.
    pub(super) seats: Box<PlayerFactory>,
}

impl Arm {
    /// Creates an arm with arbitrary players.
    pub(super) fn new(
        name: impl Into<String>,
        seats: impl Fn(&Game) -> Result<Vec<Reasoner>, GameError> + Send + Sync + 'static,
    ) -> Self {
        Self::seeded(name, move |game, _| seats(game))
    }

    /// Creates an arm with arbitrary players, which may differ between runs.
    pub(super) fn seeded(
        name: impl Into<String>,
        seats: impl Fn(&Game, Seed) -> Result<Vec<Reasoner>, GameError> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), seats: Box::new(seats) }
    }

    /// Creates an arm with players at these levels ([`seats`]). Its name is [`arm_name`].
    pub(super) fn levels(
        levels: &'static [usize],
        expectation: Expectation,
        basics: impl Fn(&Game) -> Vec<PlayerSettings> + Send + Sync + 'static,
    ) -> Self {
        Self::seeded_levels(levels, expectation, move |game, _| basics(game))
    }

    /// Like [`Arm::levels`], with player settings that differ between runs.
    pub(super) fn seeded_levels(
        levels: &'static [usize],
        expectation: Expectation,
        basics: impl Fn(&Game, Seed) -> Vec<PlayerSettings> + Send + Sync + 'static,
    ) -> Self {
        let name = arm_name(levels, expectation);
        Self::seeded(name, move |game, seed| seats(levels, expectation, &basics(game, seed)))
    }

    /// Creates a control: the first player acts uniformly at random, and the others are at level 0.
    pub(super) fn uniform(
        basics: impl Fn(&Game) -> Vec<PlayerSettings> + Send + Sync + 'static,
    ) -> Self {
        Self::new(UNIFORM, move |game| {
            let mut basics = basics(game);
            if let Some(first) = basics.first_mut() {
                first.level0_strategy = Level0Strategy::RandomSearch;
            }
            Ok(basics.into_iter().map(Reasoner::level0).collect())
        })
    }
}

/// Name of [`Arm::uniform`] for two players.
pub(super) const UNIFORM: &str = "uniform v 0";

/// Returns the name used in the thesis's legends: "2 v 1", "1 v 0 lite".
pub(super) fn arm_name(levels: &[usize], expectation: Expectation) -> String {
    let levels: Vec<String> = levels.iter().map(ToString::to_string).collect();
    let lite = match expectation {
        Expectation::Lite => " lite",
        Expectation::Exact | Expectation::Samples(_) => "",
    };
    levels.join(" v ") + lite
}

/// Creates reasoners at these levels. The beliefs of a reasoner at level k are true as far as its
/// level allows: it believes that a player above level k − 1 is at k − 1. If no other player is at
/// k − 1 or above, it believes that all of them are at k − 1.
///
/// In "2 v 1 v 0", the first player is therefore right about both others. The first player is wrong
/// in "2 v 0" and in "1 v 2".
///
/// # Errors
/// If there are too many beliefs.
pub(super) fn seats(
    levels: &[usize],
    expectation: Expectation,
    basics: &[PlayerSettings],
) -> Result<Vec<Reasoner>, GameError> {
    let seat = |player: usize| {
        let level = levels[player];
        let below = level.saturating_sub(1);
        let believed: Vec<usize> = levels.iter().map(|other| below.min(*other)).collect();
        let mut others = (0..levels.len()).filter(|other| *other != player);
        if others.any(|other| believed[other] == below) {
            Reasoner::among(player, level, &believed, basics, expectation)
        } else {
            Reasoner::at_level(player, level, basics, expectation)
        }
    };
    (0..levels.len()).map(seat).collect()
}

#[cfg(test)]
mod tests {
    use fedbo_games::{ActionSet, Reasoning};

    use super::*;

    /// Returns the levels that player `player` believes the others to have, in the order of the
    /// players.
    fn believed(seats: &[Reasoner], player: usize) -> Vec<usize> {
        match &seats[player].reasoning {
            Reasoning::Level0 => Vec::new(),
            Reasoning::BestResponse { beliefs, .. } => {
                beliefs.iter().map(|belief| belief.reasoner.level()).collect()
            }
        }
    }

    #[test]
    fn beliefs_are_true_as_far_as_a_level_allows() {
        let cases: [(&[usize], &[&[usize]]); 8] = [
            (&[0, 0], &[&[], &[]]),
            (&[1, 0], &[&[0], &[]]),
            (&[3, 2], &[&[2], &[1]]),
            (&[2, 0], &[&[1], &[]]), // wrong: the other is at 0
            (&[2, 1, 0], &[&[1, 0], &[0, 0], &[]]),
            (&[2, 1, 1], &[&[1, 1], &[0, 0], &[0, 0]]),
            (&[0, 2, 1], &[&[], &[0, 1], &[0, 0]]),
            (&[1, 2, 1], &[&[0, 0], &[1, 1], &[0, 0]]),
        ];
        for (levels, expected) in cases {
            let sets = vec![ActionSet::grid(3); levels.len()];
            let game = Game::new(sets, 1).unwrap();
            let basics: Vec<PlayerSettings> = (0..levels.len())
                .map(|player| PlayerSettings::as_in_authors_code(&game, player))
                .collect();
            let seats = seats(levels, Expectation::Exact, &basics).unwrap();
            for (player, level) in levels.iter().enumerate() {
                assert_eq!(seats[player].level(), *level, "{levels:?}");
                assert_eq!(believed(&seats, player), expected[player], "{levels:?}");
            }
        }
    }

    #[test]
    fn arms_are_named_as_in_the_thesis() {
        let name = |levels: &[usize], how| arm_name(levels, how);
        assert_eq!(name(&[2, 1], Expectation::Exact), "2 v 1");
        assert_eq!(name(&[1, 0], Expectation::Lite), "1 v 0 lite");
        assert_eq!(name(&[0, 2, 1], Expectation::Samples(9)), "0 v 2 v 1");
    }
}
