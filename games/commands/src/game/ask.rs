//! `fedbo game ask`: the information that a player needs before its move.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fedbo_play::{GameRecord, PlayError};

use super::Kept;
use super::record::table_of;
use crate::play::parse_rounds;
use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_console::interrupt;
use fedbo_console::text::{self, quoted};

/// Polling interval.
const LOOK: Duration = Duration::from_millis(200);
/// Number of rounds shown.
const SHOWN: usize = 10;

/// Show the information for a player's next move: the round, its parameters, and all rounds so far
///
/// For players with by_hand = true: a person or a user's program. Tell the move with fedbo game
/// tell.
#[derive(clap::Args)]
pub struct Ask {
    /// The game's file
    file: PathBuf,
    /// Name of the player
    player: String,
    /// Wait until the player has to move, or the game is complete
    #[arg(long)]
    wait: bool,
    /// Total number of rounds, if fedbo play runs with --rounds [default: the file's rounds]
    #[arg(long, value_name = "N", value_parser = parse_rounds)]
    rounds: Option<usize>,
    /// Print a JSON object: round (null when the game is complete), told, space, rounds
    #[arg(long)]
    json: bool,
}

impl Ask {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let kept = Kept::new(&self.file)?;
        let player = kept.by_hand(&self.player)?;
        let record = kept.record()?;
        let n_wanted = self.rounds.unwrap_or(kept.file.n_rounds);
        if self.wait && !wait_for_turn(&record, player, n_wanted)? {
            return Ok(Exit::Interrupted);
        }
        let course = kept.course(&record)?;
        let n_rounds = course.rounds().len();
        let is_complete = n_rounds >= n_wanted;
        let told = record.told(n_rounds, player)?.map(|told| told.point);
        if self.json {
            let mut state = course.state(player);
            if is_complete {
                state["round"] = serde_json::Value::Null;
            }
            state["rounds_in_all"] = n_wanted.into();
            state["told"] = serde_json::json!(told);
            console::data(&state.to_string())?;
            return Ok(Exit::Done);
        }
        if n_rounds > 0 {
            console::table(&table_of(&course, n_rounds.saturating_sub(SHOWN)), None)?;
        }
        let name = text::shown(&self.player);
        let word = quoted(&self.file.display().to_string());
        console::result(&match told {
            _ if is_complete => {
                format!("the game is complete after {}", text::counted(n_rounds as u64, "round"))
            }
            Some(point) => format!(
                "{name} has submitted its move for round {}: {}; waiting for the others",
                n_rounds + 1,
                text::point(&point)
            ),
            None => {
                let values = course.actions(player).in_words();
                format!(
                    "round {} of {n_wanted}: fedbo game tell {word} {} {}",
                    n_rounds + 1,
                    quoted(&self.player),
                    values.join(" ")
                )
            }
        })?;
        Ok(Exit::Done)
    }
}

/// Waits until the player has to move or the game is complete. Returns false if interrupted.
fn wait_for_turn(record: &GameRecord, player: usize, n_wanted: usize) -> Result<bool, PlayError> {
    let stop = interrupt::stop_flag("stopping");
    loop {
        let n_rounds = record.n_rounds()?;
        if n_rounds >= n_wanted || record.told(n_rounds, player)?.is_none() {
            return Ok(true);
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
}
