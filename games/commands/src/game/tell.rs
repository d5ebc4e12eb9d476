//! `fedbo game tell`: submits a player's move.

use std::path::PathBuf;

use fedbo_play::MoveOutcome;

use super::Kept;
use crate::display::parse_move;
use crate::play::parse_rounds;
use fedbo_console as console;
use fedbo_console::text;
use fedbo_console::{BadInput, Exit};

/// Tell a player's move in the current round
///
/// When the command returns, the move is on disk and final. The round is completed once all players
/// have moved, by the running fedbo play or the next one.
#[derive(clap::Args)]
pub struct Tell {
    /// The game's file
    file: PathBuf,
    /// Name of the player
    player: String,
    /// Value of each parameter, for instance: price=3.5 pack=2
    #[arg(value_name = "NAME=VALUE", required = true, allow_negative_numbers = true)]
    values: Vec<String>,
    /// Expected round, from 1; the command fails if another one is being played
    #[arg(long, value_name = "N")]
    round: Option<usize>,
    /// Total number of rounds, if fedbo play runs with --rounds [default: the file's rounds]
    #[arg(long, value_name = "N", value_parser = parse_rounds)]
    rounds: Option<usize>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Tell {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let kept = Kept::new(&self.file)?;
        let player = kept.by_hand(&self.player)?;
        let record = kept.record()?;
        let course = kept.course(&record)?;
        let space = course.actions(player).space();
        let words = self.values.iter().map(String::as_str);
        let point = course.check_move(player, &parse_move(space, words).map_err(BadInput)?)?;
        let index = course.rounds().len();
        let round = index + 1;
        if index >= self.rounds.unwrap_or(kept.file.n_rounds) {
            return Err(BadInput(format!(
                "the game is complete after {}; to continue, increase rounds in the file or pass --rounds as with fedbo play",
                text::counted(index as u64, "round")
            ))
            .into());
        }
        if let Some(meant) = self.round.filter(|meant| *meant != round) {
            return Err(BadInput(format!("--round {meant}: round {round} is being played; tell its move with --round {round}, or without --round")).into());
        }
        let told = record.tell(index, player, &point)?;
        if self.json {
            let told = match told {
                MoveOutcome::New => "new",
                MoveOutcome::Already => "already",
            };
            let line = serde_json::json!({ "round": round, "player": self.player, "told": told, "action": point });
            console::result(&line.to_string())?;
            return Ok(Exit::Done);
        }
        let how = match told {
            MoveOutcome::New => "told",
            MoveOutcome::Already => "was already told",
        };
        console::result(&format!("round {round}: {how}: {}", text::point(&point)))?;
        Ok(Exit::Done)
    }
}
