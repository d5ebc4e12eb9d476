//! The record of a game: all actions and payoffs.

use serde::{Deserialize, Serialize};

use crate::{Action, Game, GameError};

/// One round: all actions, and the observed payoffs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// One action per player.
    pub actions: Vec<Action>,
    /// One noisy payoff per player; `None` if the payoff was lost.
    pub payoffs: Vec<Option<f64>>,
}

/// The rounds of a game that have been played, including the initial ones. Every player observes
/// all of them: perfect monitoring (footnote 2 of thesis chapter 8). A decision depends only on
/// this record and a seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History {
    rounds: Vec<Round>,
}

impl History {
    /// Creates an empty record.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a round.
    ///
    /// # Errors
    /// If the round does not belong to this game. The record is then unchanged.
    pub fn push(&mut self, game: &Game, round: Round) -> Result<(), GameError> {
        game.check(self.len(), &round)?;
        self.rounds.push(round);
        Ok(())
    }

    /// Returns the rounds in order.
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// Returns the number of rounds.
    pub fn len(&self) -> usize {
        self.rounds.len()
    }

    /// Returns true if there are no rounds.
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ActionSet;

    #[test]
    fn a_record_reads_back_as_it_was_and_takes_no_defective_round() {
        let game = Game::new(vec![ActionSet::grid(3), ActionSet::Continuous { dim: 1 }], 0);
        let game = game.unwrap();
        let mut history = History::new();
        let round = Round {
            actions: vec![Action::Index(2), Action::Point(vec![0.1])],
            payoffs: vec![Some(-0.25), None],
        };
        history.push(&game, round.clone()).unwrap();
        let defective = Round { payoffs: vec![None], ..round };
        assert!(history.push(&game, defective).is_err());
        let text = serde_json::to_string(&history).unwrap();
        assert_eq!(text, r#"[{"actions":[2,[0.1]],"payoffs":[-0.25,null]}]"#);
        assert_eq!(serde_json::from_str::<History>(&text).unwrap(), history);
        assert_eq!((history.len(), history.is_empty()), (1, false));
    }
}
