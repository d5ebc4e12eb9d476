//! `fedbo game record`: the rounds played so far.

use std::path::PathBuf;

use fedbo_play::{GameHistory, GameRecord};

use super::Kept;
use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_console::table::{self, Column};
use fedbo_console::text;

/// List the rounds played so far: all actions and payoffs
#[derive(clap::Args)]
pub struct Record {
    /// The game's file
    file: PathBuf,
    /// Print a JSON object per line instead: round, actions, payoffs, stand_ins, lost_because
    #[arg(long)]
    json: bool,
}

impl Record {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let kept = Kept::new(&self.file)?;
        let record = GameRecord::load(&kept.path)?;
        let course = kept.course(&record)?;
        if !self.json {
            console::table(&table_of(&course, 0), None)?;
            return Ok(Exit::Done);
        }
        let names = || course.definition().players.iter().map(|player| &player.name);
        for (number, round) in (1..).zip(course.rounds()) {
            let by_name = |values: Vec<serde_json::Value>| -> serde_json::Map<_, _> {
                names().cloned().zip(values).collect()
            };
            let line = serde_json::json!({
                "round": number,
                "actions": by_name(round.actions.iter().map(|point| serde_json::json!(point)).collect()),
                "payoffs": by_name(round.payoffs.iter().map(|payoff| serde_json::json!(payoff)).collect()),
                "stand_ins": round.stand_ins.iter().map(|each| serde_json::json!({
                    "player": course.definition().players[each.player].name,
                    "kind": each.kind,
                    "because": each.because,
                })).collect::<Vec<_>>(),
                "lost_because": round.lost_because,
            });
            if !console::data(&line.to_string())? {
                break;
            }
        }
        Ok(Exit::Done)
    }
}

/// Formats a table of all rounds except the first `from`.
pub(super) fn table_of(course: &GameHistory, from: usize) -> String {
    let rounds = || (from..).zip(&course.rounds()[from..]);
    let numbers = rounds().map(|(index, _)| (index + 1).to_string()).collect();
    let mut columns = vec![Column::numbers("round", numbers, 0)];
    for (player, spec) in course.definition().players.iter().enumerate() {
        let actions = rounds().map(|(_, round)| {
            let action_substituted = round.stand_ins.iter().any(|each| each.player == player);
            let mark = if action_substituted { " (stand-in)" } else { "" };
            format!("{}{mark}", text::point(&round.actions[player]))
        });
        let payoffs = rounds().map(|(_, round)| match round.payoffs[player] {
            Some(payoff) => text::number(payoff),
            None => "lost".to_owned(),
        });
        columns.push(Column::words(&spec.name, actions.collect(), 1));
        columns.push(Column::numbers("payoff", payoffs.collect(), 0));
    }
    let (table, _) = table::fit(columns, console::width());
    table
}
