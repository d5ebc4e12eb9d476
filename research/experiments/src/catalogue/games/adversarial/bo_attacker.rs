//! An attacker that uses Bayesian optimization as if there were no defender (thesis E.6.2.2b, Fig.
//! E.10).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fedbo_games::{
    Action, Expectation, Game, GameError, Level0Strategy, MixedStrategy, PlayerSettings, Reasoner,
    Round,
};
use fedbo_optim::Points;
use fedbo_strategies::{
    Domain, GpUcb, GpUcbSettings, Observation, Repeats, Source, Strategy, ThompsonSampling,
    ThompsonSettings,
};
use fedbo_streams::{Seed, Stream};

use super::super::arms::{Arm, seats};

/// The attacker's search strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// GP-UCB with β^{1/2} = 2: a pure strategy.
    GpUcb,
    /// Thompson sampling: a mixed strategy.
    Thompson,
}

impl Search {
    pub(super) const ALL: [Self; 2] = [Self::GpUcb, Self::Thompson];

    /// Returns the name used in arms.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::GpUcb => "gp-ucb",
            Self::Thompson => "ts",
        }
    }

    /// Creates the search on these points, before any observation. The search models noise, because
    /// the defender's moves act as noise.
    fn strategy(self, points: &Points) -> anyhow::Result<Box<dyn Strategy>> {
        let domain = Domain::Finite(Arc::new(points.clone()));
        let (dim, seed, repeats) = (domain.dim(), Seed::new(0), Repeats::Allow);
        Ok(match self {
            Self::GpUcb => {
                let settings = GpUcbSettings { repeats, ..GpUcbSettings::for_study(dim, true) };
                Box::new(GpUcb::new(domain, settings, seed)?)
            }
            Self::Thompson => {
                let settings =
                    ThompsonSettings { repeats, ..ThompsonSettings::for_study(dim, true) };
                Box::new(ThompsonSampling::new(domain, settings, seed)?)
            }
        })
    }
}

/// A level-0 strategy: a search for the player's own action with the largest payoff, which ignores
/// the other player's actions.
struct BoAttacker {
    search: Search,
    points: Points,
    /// Cached search, and the number of rounds it has been told. The search depends only on these
    /// rounds.
    told: Mutex<Option<(Box<dyn Strategy>, usize)>>,
}

impl fmt::Debug for BoAttacker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BoAttacker").field("search", &self.search).finish_non_exhaustive()
    }
}

impl BoAttacker {
    fn new(search: Search, points: Points) -> Self {
        Self { search, points, told: Mutex::new(None) }
    }

    /// Returns the next action: the index of a point.
    fn next(&self, player: usize, rounds: &[Round], stream: &mut Stream) -> anyhow::Result<usize> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut strategy, n_told) = match told.take() {
            Some(known) if known.1 <= rounds.len() => known,
            _ => (self.search.strategy(&self.points)?, 0),
        };
        for round in &rounds[n_told..] {
            let Action::Index(index) = round.actions[player] else {
                anyhow::bail!("an action that is not one of finitely many");
            };
            strategy.tell(&[Observation::new(
                self.points.row(index).to_vec(),
                round.payoffs[player],
                Source::Own,
            )])?;
        }
        let proposal = strategy.ask(&Points::new(self.points.dim()), stream)?;
        *told = Some((strategy, rounds.len()));
        let distance = |index: &usize| {
            let pairs = self.points.row(*index).iter().zip(&proposal.unit);
            pairs.map(|(a, b)| (a - b).abs()).sum::<f64>()
        };
        let nearest = (0..self.points.len())
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
            .ok_or_else(|| anyhow::anyhow!("there are no actions"))?;
        Ok(nearest)
    }
}

impl MixedStrategy for BoAttacker {
    fn probabilities(&self, _: &Game, _: usize, _: &[Round]) -> Option<Vec<f64>> {
        None
    }

    /// Returns the search's next action.
    ///
    /// # Panics
    /// If the search cannot continue.
    fn sample(&self, _: &Game, player: usize, rounds: &[Round], stream: &mut Stream) -> Action {
        let found = self.next(player, rounds, stream);
        Action::Index(found.unwrap_or_else(|error| panic!("the attacker's search: {error:#}")))
    }
}

/// Creates the arm of an attacker against a defender at this level: 0, or 1 by R2-B2-Lite.
pub(super) fn arm(
    search: Search,
    defender: usize,
    points: &Points,
    basics: impl Fn(&Game) -> Vec<PlayerSettings> + Send + Sync + 'static,
) -> Arm {
    let points = points.clone();
    Arm::new(arm_name(search, defender), move |game| -> Result<Vec<Reasoner>, GameError> {
        let mut basics = basics(game);
        let attacker = BoAttacker::new(search, points.clone());
        basics[0].level0_strategy = Level0Strategy::Custom(Arc::new(attacker));
        let levels: &[usize] = if defender == 0 { &[0, 0] } else { &[0, 1] };
        seats(levels, Expectation::Lite, &basics)
    })
}

/// Returns a name such as "gp-ucb v 1 lite".
pub(super) fn arm_name(search: Search, defender: usize) -> String {
    let lite = if defender == 0 { "" } else { " lite" };
    format!("{} v {defender}{lite}", search.name())
}

#[cfg(test)]
mod tests {
    use fedbo_games::ActionSet;

    use super::*;

    /// Payoffs have their peak at action 3 of 9, independent of the other player. Both searches
    /// converge to it, and a search built from the record makes the same choice as one that was
    /// updated round by round.
    #[test]
    fn a_search_finds_the_best_attack_and_is_a_function_of_the_record() {
        let points = Points::from_flat(1, (0..9).map(|i| f64::from(i) / 8.0).collect());
        let set = || ActionSet::Finite(points.clone());
        let game = Game::new(vec![set(), set()], 1).unwrap();
        for search in Search::ALL {
            let along = BoAttacker::new(search, points.clone());
            let mut rounds = Vec::new();
            let mut chosen = Vec::new();
            for number in 0..30_usize {
                let stream = || Seed::new(4).stream(fedbo_streams::Purpose::TEST, number as u64, 0);
                let action = along.sample(&game, 0, &rounds, &mut stream());
                let anew = BoAttacker::new(search, points.clone());
                assert_eq!(anew.sample(&game, 0, &rounds, &mut stream()), action);
                let Action::Index(index) = action else { panic!("{action:?}") };
                chosen.push(index);
                let payoff = 1.0 - (index as f64 - 3.0).powi(2) / 36.0;
                rounds.push(Round {
                    actions: vec![action, Action::Index(number % 9)],
                    payoffs: vec![Some(payoff), Some(1.0 - payoff)],
                });
            }
            let n_best = chosen[20..].iter().filter(|index| **index == 3).count();
            assert!(n_best >= 8, "{search:?}: {chosen:?}");
        }
    }
}
