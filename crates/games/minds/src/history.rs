//! The record of a game: what everybody did and got.

use serde::{Deserialize, Serialize};

use crate::{Action, Game, GameError};

/// One round: everybody's action, and the payoffs that were observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// One action a player.
    pub actions: Vec<Action>,
    /// One payoff a player, with noise; `None` where it was lost.
    pub payoffs: Vec<Option<f64>>,
}

/// The rounds of a game so far, initial ones included. Every player sees all of it: perfect monitoring (footnote 2 of thesis
/// chapter 8). With a seed it is all that a decision depends on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History {
    rounds: Vec<Round>,
}

impl History {
    /// No round yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a round.
    ///
    /// # Errors
    /// If it is not one of this game; the record is then as before.
    pub fn push(&mut self, game: &Game, round: Round) -> Result<(), GameError> {
        game.check(self.len(), &round)?;
        self.rounds.push(round);
        Ok(())
    }

    /// The rounds in order.
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// The number of rounds that were played.
    pub fn len(&self) -> usize {
        self.rounds.len()
    }

    /// Returns true if no round was played.
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
