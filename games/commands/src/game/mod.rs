//! `fedbo game`: the commands of a single player, and the game's record.

mod ask;
mod record;
mod tell;

use std::path::{Path, PathBuf};

use fedbo_config::nearest;
use fedbo_play::{GameFile, GameHistory, GameRecord};

use fedbo_console::{BadInput, Exit};
use fedbo_documents::file_kind::FileKind;

/// Make moves of a game by hand, and show its record
#[derive(clap::Subcommand)]
#[expect(missing_docs, reason = "the help of a command is on its struct")]
pub enum Game {
    Ask(ask::Ask),
    Tell(tell::Tell),
    Record(record::Record),
}

impl Game {
    /// Runs the command.
    ///
    /// # Errors
    /// If the game file or record cannot be used, or a player fails.
    pub fn run(&self) -> anyhow::Result<Exit> {
        match self {
            Self::Ask(command) => command.run(),
            Self::Tell(command) => command.run(),
            Self::Record(command) => command.run(),
        }
    }
}

/// A game with its record in a file.
pub(super) struct Kept {
    file: GameFile,
    pub(super) path: PathBuf,
}

impl Kept {
    /// Loads a game file, which must name a storage for the record.
    pub(super) fn new(path: &Path) -> anyhow::Result<Self> {
        FileKind::Game.check(path)?;
        let file = GameFile::load_without_commands(path)?;
        match file.storage.clone() {
            Some(storage) => Ok(Self {
                file,
                path: storage,
            }),
            None => Err(BadInput(format!(
                "{} keeps its record in memory, which only fedbo play can read while it runs; add storage = \"sqlite:FILE\" to [game]",
                path.display()
            ))
            .into()),
        }
    }

    /// Opens the record. Creates it if it does not exist.
    fn record(&self) -> anyhow::Result<GameRecord> {
        Ok(self.file.open_record(&self.path)?)
    }

    pub(super) fn course(&self, record: &GameRecord) -> anyhow::Result<GameHistory> {
        Ok(GameHistory::new(record.definition().clone(), record.rounds()?)?)
    }

    /// Returns the index of a player that moves by hand.
    fn by_hand(&self, name: &str) -> Result<usize, BadInput> {
        use fedbo_play::ActionSource;
        let players = &self.file.definition.players;
        let names = || players.iter().map(|player| player.name.as_str());
        let Some(player) = self.file.definition.player(name) else {
            let way = match nearest(name, names()) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("players are {}", names().collect::<Vec<_>>().join(", ")),
            };
            return Err(BadInput(format!("PLAYER = {name:?}: no such player; {way}")));
        };
        match &players[player].plays {
            ActionSource::ByHand => Ok(player),
            _ => Err(BadInput(format!(
                "PLAYER = {name:?} does not move by hand ({}); moves can be told only for players with by_hand = true",
                players[player].how()
            ))),
        }
    }
}
